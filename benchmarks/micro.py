"""Engine costs, each alone: record one node, key one node of a segment, a cache hit, a cache miss.

Each is given as a ratio to a fixed piece of Python work (a tuple built, hashed, stored and found again), timed in turn
with it, so that a figure from one machine means something on another. `ratios(bireme)` gives them to the test-suite.
"""

import argparse
import importlib
import itertools
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, counters, head, median, spread, table

NODES = 100
ROUNDS = 15
# In units of the fixed work. They hold what the floors of chain.py need: 3 us a node where the unit is 0.2 us.
BUDGETS = {"record one node": 15, "key and find one node": 10, "cache hit": 500, "cache miss": 50_000}


def work(n=10_000):
    """The fixed piece of Python work; microseconds for one round of it."""
    store, start = {}, time.perf_counter()
    for i in range(n):
        key = (i & 63, "x", None)
        store[key] = store.get(key, 0) + 1
    return (time.perf_counter() - start) / n * 1e6


def chain(x, y, n):
    for _ in range(n):
        x = x + y
    return x


def record_one_node(bireme, x, y):
    start = time.perf_counter()
    h = chain(x, y, NODES)
    spent = time.perf_counter() - start
    h.numpy()
    return spent / NODES * 1e6


def force(x, y, n):
    """Microseconds to make a recorded chain of `n` nodes real."""
    h = chain(x, y, n)
    start = time.perf_counter()
    h.numpy()
    return (time.perf_counter() - start) * 1e6


def cache_hit(bireme, x, y):
    """Forcing a segment of two nodes that was seen before: all that a flush costs besides its nodes."""
    return force(x, y, 2)


def key_one_node(bireme, x, y):
    """What each further node adds to the flush of a known segment; running 16 additions is in it, and small."""
    return max(force(x, y, NODES) - force(x, y, 2), 0.0) / (NODES - 2)


def cache_miss(bireme, x, y):
    """Forcing a segment of 16 nodes never seen before: a number's bits say which add and which multiply."""
    number, h = next(NUMBERS), x
    for bit in range(16):
        h = h + y if number >> bit & 1 else h * y
    start = time.perf_counter()
    h.numpy()
    return (time.perf_counter() - start) * 1e6


NUMBERS = itertools.count(1)  # over all calls: no segment may come twice
COSTS = {
    "record one node": record_one_node,
    "key and find one node": key_one_node,
    "cache hit": cache_hit,
    "cache miss": cache_miss,
}


def measure(bireme, rounds=ROUNDS):
    """Microseconds of the unit and of each cost, `rounds` times each, one after another in every round."""
    x, y = bireme.ones([16]), bireme.ones([16])
    for _ in range(20):  # past the first tier and into every cache
        for n in (2, NODES):
            force(x, y, n)
    found = {"the fixed work": [], **{name: [] for name in COSTS}}
    for _ in range(rounds):
        found["the fixed work"].append(work())
        for name, cost in COSTS.items():
            found[name].append(cost(bireme, x, y))
    return found


def ratios(bireme, rounds=ROUNDS):
    """Each cost's median over the median of the fixed work."""
    found = measure(bireme, rounds)
    unit = median(found.pop("the fixed work"))
    return {name: median(times) / unit for name, times in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"measurements of each cost (default {ROUNDS})")
    options = parser.parse_args()
    about = f"unit      one round of Python work; chains of {NODES} additions on 16 float32 elements"
    head("micro: what the engine costs, piece by piece", about)
    bireme, floors = importlib.import_module("bireme"), Floors()
    found = measure(bireme, options.rounds)
    unit = median(found["the fixed work"])
    table(
        ("cost", "us", "middle half", "units"),
        [(n, f"{median(ts):.2f}", spread(ts, "{:.2f}"), f"{median(ts) / unit:.1f}") for n, ts in found.items()],
    )
    print(counters(bireme.debug.stats()))
    for name, budget in BUDGETS.items():
        floors.at_most(f"{name}, in units", median(found[name]) / unit, budget)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
