"""One training step of a 4-layer transformer, written as plain dynamic code, beside jax.jit, torch and Paddle.

Batch 8, sequence 128, width 256, 4 heads, vocabulary 5,000, AdamW, float32, the same initial weights everywhere.
Floors: at most 1.03 times jax.jit (donated) and torch eager (fused AdamW), at least 1.8 times as fast as Paddle
dynamic, both as it is shipped (one thread) and with a thread for each core, and less than 5 ms of recording and look-up
a step.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.measure import Floors, apart, cell, counters, head, median, ratio, spread, table
from benchmarks.peers import Peers
from benchmarks.transformer import TINY, Sizes, batches, trainer

NAMES = {
    "bireme": "bireme dynamic",
    "jax.jit": "jax.jit, donated",
    "jax.jit, flat": "jax.jit, donated, 2-d products",
    "torch": "torch eager, fused AdamW",
    "paddle": "paddle dynamic",
    "paddle, 1 thread": "paddle dynamic, as shipped: 1 thread",
}
FIRST = 4  # steps whose losses are compared, each on its own batch
TOLERANCE = 2e-3  # of the loss: float32 sums in another order, four steps of AdamW apart


def record_ms(bireme, run, steps=9):
    """Milliseconds of recording, keying and look-up in one step; `run()` does a step and leaves its loss unread.

    It is the host's time until the step has been handed over, less the calls of compiled programs, which Bireme counts.
    """
    times = []
    for _ in range(steps):
        called, start = bireme.debug.stats()["call_ms"], time.perf_counter()
        loss = run()
        times.append((time.perf_counter() - start) * 1e3 - (bireme.debug.stats()["call_ms"] - called))
        float(loss)
    return median(times)


def make(name, sizes, sdpa):
    """In the peer's process: answers 'losses', 'time' and, for Bireme, 'record' and 'stats'."""
    if name == "bireme":  # steps once compiled: beside the runs that takes hundreds of them, which `jobs` measures
        importlib.import_module(name).set_flags({"FLAGS_compile_beside": False})
    step, data, count = trainer(name, sizes, sdpa), batches(sizes), 0

    def run(read=True):
        nonlocal count
        count += 1
        return step(*data[(count - 1) % len(data)], read=read)

    def answer(what, n=1):
        if what == "record":
            return record_ms(importlib.import_module(name), lambda: run(read=False), n)
        if what == "stats":
            return importlib.import_module(name).debug.stats()
        losses, times = [], []
        if what == "time":
            run()  # wakes the peer's threads after the others' turns
        for _ in range(n):
            start = time.perf_counter()
            losses.append(run())
            times.append((time.perf_counter() - start) * 1e3)
        return times, losses

    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="turns of each peer (default 9)")
    parser.add_argument("--steps", type=int, default=2, help="steps timed in each turn (default 2)")
    parser.add_argument("--warm", type=int, default=12, help="steps before the clock (default 12)")
    parser.add_argument("--sdpa", action="store_true", help="attention through scaled_dot_product_attention")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the script")
    options = parser.parse_args()
    sizes, floors = TINY if options.tiny else Sizes(batch=options.batch, sequence=options.sequence), Floors()
    head(
        f"step: {sizes.layers}-layer transformer training step",
        f"sizes     {sizes}, AdamW, float32, attention {'sdpa' if options.sdpa else 'written out'}",
    )
    with Peers() as peers:
        first, losses = {}, {}
        for name in options.peers:
            peers.start(name, make, name, sizes, options.sdpa)
            answer = peers.ask(name, "losses", FIRST)
            if answer:
                first[name], losses[name] = answer[0][0] / 1e3, answer[1]
                peers.ask(name, "losses", max(options.warm - FIRST, 0))
        shown = [(NAMES[name], *[f"{loss:.5f}" for loss in found]) for name, found in losses.items()]
        table(("losses of the first steps", *range(1, FIRST + 1)), shown)
        answers = {name: turns for name, turns in peers.turns(options.rounds, "time", options.steps).items() if turns}
        ms = {name: [median(times) for times, _ in turns] for name, turns in answers.items()}
        last = {name: turns[-1][1][-1] for name, turns in answers.items()}
        ours = ms.get("bireme", [])
        table(
            ("peer", "ms/step", "middle half", "bireme/this", "first step s", "last loss"),
            [
                (
                    NAMES[n],
                    f"{median(ts):.1f}",
                    spread(ts),
                    cell(ratio(ours, ts)),
                    f"{first[n]:.2f}",
                    f"{last[n]:.5f}",
                )
                for n, ts in ms.items()
            ],
        )
        recording = peers.ask("bireme", "record", 5)
        stats = peers.ask("bireme", "stats")
        if stats:
            print(counters(stats))
        peers.report()
    for name, limit in (("jax.jit", 1.03), ("torch", 1.03), ("paddle, 1 thread", 1 / 1.8), ("paddle", 1 / 1.8)):
        floors.at_most(f"bireme / {NAMES[name]}", ratio(ours, ms.get(name, [])), round(limit, 3))
    floors.at_most("recording and look-up a step", np.nan if recording is None else recording, 5, " ms")
    floors.at_most("largest difference of the first losses", apart(losses) * 100, TOLERANCE * 100, " %")
    return 1 if floors.show() or "bireme" in peers.gone else 0


if __name__ == "__main__":
    sys.exit(main())
