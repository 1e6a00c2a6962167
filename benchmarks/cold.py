"""A cold start: the transformer of step.py in fresh processes, from the first step until steps run at full speed.

Each measurement is a new process. Bireme and jax run twice, with an empty and with a filled compile cache.
Floors: the first step with an empty cache in 2 s; steps before the compile no slower than Paddle's; with a filled
cache at most 2 s from the start of the first step to the end of the first one at compiled speed.
"""

import argparse
import importlib
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, head, median, spread, table
from benchmarks.peers import PAUSE, Peers, environment
from benchmarks.transformer import MODULES, TINY, Sizes, batches, trainer

FULL = 1.25  # a step within this factor of the last steps' median runs at full speed


def make(name, sizes, steps, cache):
    """In a fresh process: import, build, train; everything with its seconds."""
    framework = importlib.import_module(MODULES.get(name, name))
    if name == "jax.jit":
        framework.config.update("jax_compilation_cache_dir", cache)
        framework.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    data = batches(sizes)

    def answer():
        start = time.perf_counter()
        step = trainer(name, sizes)
        built = time.perf_counter() - start
        seconds, losses, compiles = [], [], []
        for i in range(steps):
            start = time.perf_counter()
            losses.append(step(*data[i % len(data)]))
            seconds.append(time.perf_counter() - start)
            if name == "bireme":
                compiles.append(framework.debug.stats()["compiles"])
        return {"build": built, "seconds": seconds, "losses": losses, "compiles": compiles}

    return answer


def full_speed(seconds):
    """(steps, seconds) until the end of the first step at full speed, as the last five steps define it."""
    last = median(seconds[-5:])
    n = next(i for i, s in enumerate(seconds) if s <= FULL * last)
    return n + 1, sum(seconds[: n + 1])


def measure(row, name, sizes, steps, cache, runs):
    start = time.perf_counter()
    with Peers() as fresh:
        settings = {**environment(name), "BIREME_CACHE_DIR": str(cache)}
        fresh.start(row, make, name, sizes, steps, str(cache), settings=settings)
        begun = time.perf_counter() - start
        answer = fresh.ask(row)
        fresh.report()
    if answer:
        runs[row].append({**answer, "import": begun})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7, help="fresh processes of each kind (default 7)")
    parser.add_argument("--steps", type=int, default=16, help="steps in each process (default 16)")
    parser.add_argument("--torch-compile", action="store_true", help="also torch.compile (needs a C++ compiler)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the script")
    options = parser.parse_args()
    sizes, floors = TINY if options.tiny else Sizes(), Floors()
    rows = [f"{name}, {cache} cache" for name in ("bireme", "jax.jit") for cache in ("empty", "filled")]
    rows += ["torch", "paddle", *(["torch.compile"] if options.torch_compile else [])]
    runs = {row: [] for row in rows}
    head("cold: the training step of step.py in fresh processes", f"sizes     {sizes}, {options.steps} steps in each")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeat):
            for row in rows:
                name, _, state = row.partition(", ")
                cache = Path(folder) / name
                if state == "empty cache":
                    shutil.rmtree(cache, ignore_errors=True)
                time.sleep(PAUSE)
                measure(row, name, sizes, options.steps, cache, runs)
    runs = {row: found for row, found in runs.items() if found}
    table(
        (
            "process",
            "import s",
            "build s",
            "first s",
            "middle half",
            "s to full",
            "steps",
            "full ms",
            "first, last loss",
        ),
        [
            (
                row,
                f"{median([r['import'] for r in found]):.2f}",
                f"{median([r['build'] for r in found]):.2f}",
                f"{median([r['seconds'][0] for r in found]):.2f}",
                spread([r["seconds"][0] for r in found], "{:.2f}"),
                f"{median([full_speed(r['seconds'])[1] for r in found]):.2f}",
                f"{median([full_speed(r['seconds'])[0] for r in found]):.0f}",
                f"{median([median(r['seconds'][-5:]) for r in found]) * 1e3:.0f}",
                f"{found[-1]['losses'][0]:.4f} {found[-1]['losses'][-1]:.4f}",
            )
            for row, found in runs.items()
        ],
    )
    for row in ("bireme, empty cache", "bireme, filled cache"):
        if row in runs:
            print(f"{row}, each step of the last process in ms:", *[f"{s * 1e3:.0f}" for s in runs[row][-1]["seconds"]])
    empty, filled, paddle = (runs.get(row, []) for row in ("bireme, empty cache", "bireme, filled cache", "paddle"))
    floors.at_most("first step, empty cache", median([r["seconds"][0] for r in empty]), 2, " s")
    # steps whose count of compiles is still the first step's; that one is its own floor, it also makes the plans
    tier = [s for r in empty for s, n in zip(r["seconds"][1:], r["compiles"][1:], strict=True) if n == r["compiles"][0]]
    theirs = median([median(r["seconds"][1:]) for r in paddle])
    floors.at_most("steps before the compile / paddle's step", median(tier) / theirs, 1.0)
    floors.at_most("filled cache: to compiled speed", median([full_speed(r["seconds"])[1] for r in filled]), 2, " s")
    before = [sum(r["seconds"][: full_speed(r["seconds"])[0] - 1]) for r in filled]
    if before:
        print(f"filled cache: the first step at full speed begins after {median(before):.2f} s")
    if empty:
        print(f"steps before the compile: {len(tier)} in {len(empty)} processes, after the first of each")
        print(f"median {median(tier) * 1e3:.0f} ms; paddle's step {theirs * 1e3:.0f} ms")
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
