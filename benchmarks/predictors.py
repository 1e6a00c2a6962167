"""What `python -m benchmarks.inference --what start threads shapes` measures: a predictor's first minute and its long life.

Starts and shapes are processes of their own, since a cache that is filled, and memory, are those of a process.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from benchmarks import inference, measure

SECOND = 0.5  # of the time of the first run in a first start, at most
GROWTH = 1.05  # of the memory after a fifth of all shapes, at most
EACH = 6  # runs of each of 16 threads, for each of its inputs


def memory():
    """MiB that this process has now, and at most had."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[1]) * resource.getpagesize()
    return now / 2**20, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _alone(call, settings=None):
    """What a function of this module gives as JSON in a process of its own; None if it cannot run."""
    code = f"from benchmarks import predictors; predictors.{call}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, **(settings or {})},
        cwd=measure.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"{call}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


# ---------------------------------------------------------------- in processes of their own


def start(peer, name, path, shape):
    """Import, load and run once; the last line that is printed has seconds, memory, what was traced, and the bits."""
    begin = time.perf_counter()
    traced = []
    if peer == "bireme":
        from bireme.core.xla_exec import xla

        own = xla.trace
        xla.trace = lambda *given: traced.append(1) or own(*given)
    run = inference.MAKERS[peer](name, path, tuple(shape), measure.cores())
    loaded = time.perf_counter()
    outputs = run()
    done = time.perf_counter()
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in outputs)).hexdigest()
    told = {"seconds": done - begin, "first": done - loaded, "memory": memory()[1], "traced": len(traced)}
    print(json.dumps({**told, "bits": digest}))


def shapes(name, path, count):
    """Run with random shapes; memory after each tenth of them."""
    from bireme import inference as ours

    predictor = ours.create_predictor(inference.config_of(ours, path))
    keys = predictor.get_input_names()
    rng, found, begin = np.random.default_rng(0), [], time.perf_counter()
    seen = set()
    for i in range(count):
        shape = _random(name, rng)
        sentences = int(rng.integers(1, 9)) if name.startswith("LAC") else 0
        seen.add((shape, sentences))
        for key, a in zip(keys, inference.given(name, shape, keys), strict=True):
            handle = predictor.get_input_handle(key)
            handle.copy_from_cpu(a)
            if sentences:
                handle.set_lod([[0, *sorted(rng.integers(0, len(a) + 1, sentences - 1).tolist()), len(a)]])
        predictor.run()
        for key in predictor.get_output_names():
            predictor.get_output_handle(key).copy_to_cpu()
        if (i + 1) % max(count // 10, 1) == 0:
            found.append(memory()[0])
    print(json.dumps({"memory": found, "seconds": time.perf_counter() - begin, "distinct": len(seen)}))


def _random(name, rng):
    if name.startswith("LAC"):
        return int(rng.integers(1, 300)), 1
    if "cls" in name:
        return int(rng.integers(1, 4)), 3, 48, int(rng.integers(16, 400))
    return 1, 3, int(rng.integers(4, 200)), int(rng.integers(4, 200))


# ---------------------------------------------------------------- the tables


def starts(rows, floors):
    """First start with an empty cache, second one with a filled one, and Paddle's."""
    shown = []
    for name, path, shape in rows:
        with tempfile.TemporaryDirectory() as cache:
            call = "start({!r}, {!r}, {!r}, {!r})"
            settings = {"BIREME_CACHE_DIR": cache}
            told = [_alone(call.format("bireme", name, path, shape), settings) for _ in range(2)]
            paddle = None
            if measure.version("paddlepaddle") != "absent":
                paddle = _alone(call.format("paddle", name, path, shape))
        if None in told:
            continue
        first, second = told
        shown.append([
            name, f"{first['seconds']:.2f}", f"{second['seconds']:.2f}", f"{second['first']:.2f}", second["traced"],
            "yes" if first["bits"] == second["bits"] else "NO", f"{first['memory']:.0f}", f"{second['memory']:.0f}",
            "-" if paddle is None else f"{paddle['seconds']:.2f}", "-" if paddle is None else f"{paddle['memory']:.0f}",
        ])  # fmt: skip
        floors.at_most(f"{name}: programs traced in a second start", second["traced"], 0)
        floors.at_most(f"{name}: first run of a second start / of the first", second["first"] / first["first"], SECOND)
        floors.at_most(f"{name}: other bits in a second start", float(first["bits"] != second["bits"]), 0)
    print("from the import to the first result, s; the most memory of the process, MiB")
    columns = ["model", "first", "second", "its run", "traced", "same bits", "MiB", "second", "paddle", "MiB"]
    measure.table(columns, shown)


def threads(rows, floors, count=16):
    """Predictors of one pool in as many threads, each with the same inputs: whether all give the same bits."""
    from bireme import inference as ours

    shown = []
    for name, path, shape in rows:
        config = inference.config_of(ours, path)
        config.set_compiling(
            "each"
        )  # by counts, which all threads share, other shapes change their form while they run
        pool = ours.PredictorPool(config, count)
        sizes = [shape, (shape[0] + 1, *shape[1:])]
        found = [None] * count

        def work(i, pool=pool, name=name, sizes=sizes, found=found):
            predictor = pool.retrieve(i)
            keys = predictor.get_input_names()
            bits = []
            for size in sizes:
                for _ in range(EACH):
                    for key, a in zip(keys, inference.given(name, size, keys), strict=True):
                        predictor.get_input_handle(key).copy_from_cpu(a)
                    predictor.run()
                    outputs = [predictor.get_output_handle(k).copy_to_cpu() for k in predictor.get_output_names()]
                    bits.append(hashlib.sha256(b"".join(a.tobytes() for a in outputs)).digest())
            found[i] = bits

        work(0)
        alone = found[0]
        all_of_them = [threading.Thread(target=work, args=(i,)) for i in range(count)]
        for t in all_of_them:
            t.start()
        for t in all_of_them:
            t.join()
        other = sum(bits != wanted for each in found for bits, wanted in zip(each or [None], alone, strict=False))
        shown.append([name, count, len(sizes) * EACH * count, other])
        floors.at_most(f"{name}: results of threads with other bits", other, 0)
    measure.table(["model", "threads", "runs", "other bits"], shown)


def many_shapes(rows, floors, count):
    """Memory over random shapes."""
    shown = []
    for name, path, _ in rows:
        if not (name == inference.SMALL or name.startswith("LAC") or "cls" in name):
            continue  # of which a run takes a few milliseconds
        told = _alone(f"shapes({name!r}, {path!r}, {count})")
        if told is None:
            continue
        found = told["memory"]
        fifth = found[min(1, len(found) - 1)]
        shown.append(
            [name, f"{count:,}", f"{told['distinct']:,}", f"{fifth:.0f}", f"{found[len(found) // 2]:.0f}", f"{found[-1]:.0f}",
             f"{told['seconds']:.0f}"]
        )  # fmt: skip
        floors.at_most(f"{name}: memory after all shapes / after a fifth", found[-1] / fifth, GROWTH)
    measure.table(["model", "runs", "shapes", "MiB, a fifth", "half", "all", "seconds"], shown)
