"""A chain of 1,000 additions on 16 elements: what one operator costs when there is nothing to compute.

Floors: at most twice torch eager's time and no more than Paddle's; with backward at most 1.5 times torch's.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.measure import Floors, cell, head, median, ratio, spread, table
from benchmarks.peers import Peers

NAMES = {"bireme": "bireme dynamic", "torch": "torch eager", "paddle": "paddle dynamic"}


def paddle_chain(paddle, n, grad):
    """The chain as plain Paddle code: Bireme and Paddle run the same lines."""
    x, y, ones = paddle.ones([16]), paddle.ones([16]), paddle.ones([16])
    x.stop_gradient = not grad

    def run():
        h = x
        for _ in range(n):
            h = h + y
        if not grad:
            return h.numpy()
        h.backward(ones)
        g = x.grad.numpy()
        x.clear_grad()
        return g

    return run


def torch_chain(torch, n, grad):
    x, y, ones = torch.ones(16, requires_grad=grad), torch.ones(16), torch.ones(16)

    def run():
        h = x
        for _ in range(n):
            h = h + y
        if not grad:
            return h.numpy()
        h.backward(ones)
        x.grad, g = None, x.grad
        return g.numpy()

    return run


def make(name, n):
    """In the peer's process: a function that runs the chain `repeats` times and gives microseconds per operator."""
    framework = importlib.import_module(name)
    chain = torch_chain if name == "torch" else paddle_chain
    runs = {grad: chain(framework, n, grad) for grad in (False, True)}

    def turn(grad, repeats, warm):
        run, times = runs[grad], []
        for _ in range(warm):
            run()
        for _ in range(repeats):
            start = time.perf_counter()
            out = run()
            times.append((time.perf_counter() - start) / n * 1e6)
        return times, float(np.sum(out))

    return turn


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each peer (default 15)")
    parser.add_argument("--repeats", type=int, default=7, help="chains timed in each turn (default 7)")
    parser.add_argument("--length", type=int, default=1000, help="additions in a chain (default 1000)")
    options = parser.parse_args()
    head(f"chain: {options.length} additions on 16 float32 elements, steady state")
    floors, rows = Floors(), []
    with Peers() as peers:
        for name in NAMES:
            peers.start(name, make, name, options.length)
        for grad in (False, True):
            for name in list(peers.live):
                peers.ask(name, grad, 1, 20)  # steady state: compiled, every cache filled
            answers = peers.turns(options.rounds, grad, options.repeats, 3)
            # a turn's median, then the median of the turns: one disturbed turn cannot move the figure
            us = {name: [median(times) for times, _ in turns] for name, turns in answers.items()}
            ours = us.get("bireme", [])
            what = "with backward" if grad else "no backward"
            for name, turns in answers.items():
                times, check = us[name], turns[-1][1] if turns else "-"
                cells = cell(median(times)), spread(times, "{:.2f}"), cell(ratio(ours, times)), check
                rows.append((f"{NAMES[name]}, {what}", *cells))
            floors.at_most(f"{what}: bireme / torch", ratio(ours, us.get("torch", [])), 1.5 if grad else 2.0)
            floors.at_most(f"{what}: bireme / paddle", ratio(ours, us.get("paddle", [])), 1.0)
        table(("peer", "us/op", "middle half", "bireme/this", "sum of result"), rows)
        peers.report()
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
