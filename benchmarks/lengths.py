"""10,000 training steps whose sequence length is drawn anew from 1..512 each time.

A 2-layer transformer of width 32, batch 4. Torch and Paddle, which do not care about shapes, run the first lengths
of the same sequence in between. Floors: no step over 10 times the median after the first 600, all within five minutes.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.loops import resident_mib
from benchmarks.measure import Floors, head, median, spread, table
from benchmarks.peers import PAUSE, Peers
from benchmarks.transformer import TINY, Sizes, trainer

SIZES = Sizes(layers=2, width=32, heads=2, vocabulary=500, batch=4, sequence=512)
SETTLED = 600  # steps after which every cost of a new length must be paid or bounded
TURNS = 20


def make(name, sizes, seed):
    """In the peer's process: train on the given lengths and say what each step took and what the process holds."""
    step, rng = trainer(name, sizes), np.random.default_rng(seed)
    framework = importlib.import_module(name)

    def answer(lengths):
        milliseconds, losses = [], []
        for t in lengths:
            ids, labels = rng.integers(0, sizes.vocabulary, (2, sizes.batch, t))
            start = time.perf_counter()
            losses.append(step(ids, labels))
            milliseconds.append((time.perf_counter() - start) * 1e3)
        compiles = framework.debug.stats()["compiles"] if name == "bireme" else 0
        return milliseconds, losses, resident_mib(), compiles

    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000, help="Bireme's steps (default 10000)")
    parser.add_argument("--peer-steps", type=int, default=1_000, help="each peer's steps (default 1000)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the script")
    options = parser.parse_args()
    sizes, turns = TINY if options.tiny else SIZES, min(TURNS, options.steps, options.peer_steps)
    lengths = np.random.default_rng(0).integers(1, sizes.sequence + 1, options.steps)
    head(
        f"lengths: {options.steps} steps, a random length 1..{sizes.sequence} in each",
        f"sizes     {sizes}, AdamW, float32",
    )
    floors, results, seconds = Floors(), {}, 0.0
    with Peers() as peers:
        for name in ("bireme", "torch", "paddle"):
            peers.start(name, make, name, sizes, 1)
            results[name] = []
        for turn in range(turns):
            for name in list(peers.live):
                n = options.steps if name == "bireme" else min(options.peer_steps, options.steps)
                time.sleep(PAUSE)
                start = time.perf_counter()
                answer = peers.ask(name, lengths[n * turn // turns : n * (turn + 1) // turns])
                seconds += time.perf_counter() - start if name == "bireme" else 0
                if answer:
                    results[name].append(answer)
        peers.report()
    rows, shown = [], {}
    for name, answers in results.items():
        if not answers:
            continue
        ms = np.concatenate([a[0] for a in answers])
        late = ms[SETTLED:]
        shown[name] = median(ms), late
        at = SETTLED + int(np.argmax(late)) if len(late) else 0
        worst = f"{ms[at]:.1f} (step {at}, length {lengths[at]})" if len(late) else "-"
        losses = f"{answers[0][1][0]:.4f} {np.mean(answers[-1][1][-50:]):.4f}"
        rows.append((name, len(ms), f"{median(ms):.2f}", spread(ms), f"{ms[:SETTLED].max():.1f}", worst, losses))
    titles = (
        "peer",
        "steps",
        "median ms",
        "middle half",
        f"max of first {SETTLED}",
        "max after",
        "first loss, late mean",
    )
    table(titles, rows)
    if results["bireme"]:
        resident = "resident MiB", *[f"{answer[2]:.0f}" for answer in results["bireme"]]
        compiles = "compiles", *[answer[3] for answer in results["bireme"]]
        table(("bireme after step", *[options.steps * (i + 1) // turns for i in range(turns)]), [resident, compiles])
    middle, late = shown.get("bireme", (np.nan, []))
    floors.at_most(f"longest step after the first {SETTLED} / median", max(late, default=np.nan) / middle, 10)
    floors.at_most("Bireme's steps together", seconds if results["bireme"] else np.nan, 300, " s")
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
