"""Whole training jobs on CPU: seventeen networks, from an empty compile cache in a fresh process, beside Paddle.

What a job of 5, 30, 200 and 2,000 steps takes, with the loss read in every step. A network is trained once by each
framework, for the largest number of steps; shorter jobs are the beginning of that one. Time begins before the model is
built and ends when the last loss has been read; imports are left out and shown on their own. Afterwards the network is
built again with the same weights and noise for both, and its first losses are compared. Floors: at most 1.1 times
Paddle's time at every length, at most 1.0 at 2,000 steps, no step after the fifth over 5 medians.

    python -m benchmarks.jobs --alone        on a machine that others use: one core a job, and its time on it
"""

import argparse
import importlib
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import networks
from benchmarks.measure import Floors, apart, cell, head, median, ratio, table
from benchmarks.peers import PAUSE, Peers, environment

FRAMEWORKS = ("bireme", "paddle")
LENGTHS, TINY = (5, 30, 200, 2000), (2, 7)
EARLY = 5  # steps that may take as long as they like, as far as the longest step goes
FIRST, TOLERANCE = 2, 1e-3  # losses that are compared, and how far apart they may be
# batch normalisation of 8 numbers a channel: once its weights are moved by 1e-7, Paddle's second loss moves by 1e-3
CHAOTIC = ("resnet18", "mobilenet_v2")
LIMIT, LIMIT_LONG, LONG, LIMIT_STEP = 1.1, 1.0, 2000, 5
COUNTERS = ("compiles", "compile_ms", "interprets", "cache_hits")


def make(name, network, steps, tiny, alone):
    """In a fresh process: import the framework, then answer with the whole job."""
    if alone:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    clock = time.process_time if alone else time.perf_counter
    start = clock()
    framework = importlib.import_module(name)
    imported = clock() - start

    def counts():
        stats = framework.debug.stats() if name == "bireme" else {}
        return [stats.get(counter, 0) for counter in COUNTERS]

    def answer():
        start = clock()
        step = networks.build(framework, network, tiny)
        ends, losses, counted = [clock() - start], [], [counts()]
        for i in range(steps):
            losses.append(step(i))
            ends.append(clock() - start)
            counted.append(counts())
        compared = networks.same(framework, network, tiny)
        first = [compared(i) for i in range(FIRST)]
        return {"import": imported, "ends": ends, "losses": losses, "counts": np.array(counted), "first": first}

    return answer


def job(name, network, steps, options):
    """One job in a fresh process: (what it answered, or None; why not)."""
    time.sleep(PAUSE)
    with tempfile.TemporaryDirectory() as cache, Peers() as fresh:
        settings = {**environment(name), "BIREME_CACHE_DIR": cache}
        if options.alone:
            settings |= {"OMP_NUM_THREADS": "1", "FLAGS_paddle_num_threads": "1"}
        fresh.start(name, make, name, network, steps, options.tiny, options.alone, settings=settings)
        answer = fresh.ask(name)
        fresh.report()
    return answer, fresh.gone.get(name, "")


def measure(network, steps, options, absent):
    """The frameworks' jobs, taking turns; one that is not installed is added to `absent` and not tried again."""
    runs = {name: [] for name in FRAMEWORKS}
    for _ in range(options.repeat):
        for name in FRAMEWORKS:
            if name not in absent:
                answer, why = job(name, network, steps, options)
                runs[name] += [answer] if answer else []
                absent |= {name} if why.startswith("No module") else set()
    return runs


def longest(run, n):
    """The longest of a job's `n` steps after the first five, in medians of these."""
    late = np.diff(run["ends"])[EARLY:n]
    return late.max() / np.median(late) if len(late) else np.nan


def tiers(run):
    """Milliseconds of each step that was mostly interpreted, and of each that was mostly compiled; no compiles in it."""
    ms, (compiles, _, interprets, hits) = np.diff(run["ends"]) * 1e3, np.diff(run["counts"], axis=0).T
    return ms[(compiles == 0) & (interprets > hits)], ms[(compiles == 0) & (interprets <= hits)]


def jobs_of(network, runs, lengths):
    """Rows of the first table, and for each length the ratio, and the longest step in medians."""
    ours, theirs = runs["bireme"], runs["paddle"]
    rows, ratios, peaks = [], [], []
    for n in lengths:
        seconds = {name: [run["ends"][n] for run in found] for name, found in runs.items()}
        ratios.append(ratio(seconds["bireme"], seconds["paddle"]))
        peaks.append(median([longest(run, n) for run in ours]))
        losses = [[f"{found[-1]['losses'][i]:.3f}" for i in (0, n - 1)] if found else ["-"] for found in (ours, theirs)]
        rows.append((
            network,
            n,
            cell(median(seconds["bireme"])),
            cell(median(seconds["paddle"])),
            cell(ratios[-1]),
            cell(median([run["counts"][n][1] / 1e3 for run in ours])),
            cell(median([run["counts"][n][0] for run in ours]), "{:.0f}"),
            cell(peaks[-1], "{:.1f}"),
            cell(median([longest(run, n) for run in theirs]), "{:.1f}"),
            *map(" ".join, losses),
        ))  # fmt: skip
    return rows, ratios, peaks


def steps_of(network, runs):
    """Row of the second table, and how far the first losses are apart."""
    interpreted, compiled = ([run[i] for run in map(tiers, runs["bireme"])] for i in (0, 1))
    first = {name: found[-1]["first"] for name, found in runs.items() if found}
    compared = {name: losses[: 1 if network in CHAOTIC else FIRST] for name, losses in first.items()}
    difference = apart(compared) if len(compared) > 1 else np.nan
    figures = [
        cell(median(np.concatenate([*steps, []])), "{:.1f}")
        for steps in (interpreted, compiled, [np.diff(run["ends"])[1:] * 1e3 for run in runs["paddle"]])
    ]
    shown = [" ".join(f"{loss:.4f}" for loss in first[name]) if name in first else "-" for name in FRAMEWORKS]
    return (network, *figures, *shown, cell(difference, "{:.1e}")), difference


def hold(floors, what, values, limit, unit=""):
    """A floor for the network that is farthest from it, with the number of those that hold it."""
    known = {network: value for network, value in values.items() if not np.isnan(value)}
    network, value = max(known.items(), key=lambda item: item[1], default=("none", np.nan))
    held = sum(value <= limit for value in known.values())
    floors.at_most(f"{what}: {network}; {held} of {len(known)} hold", value, limit, unit)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(networks.NETWORKS)
    parser.add_argument("--networks", nargs="+", choices=names, default=names, metavar="NETWORK", help=" ".join(names))
    parser.add_argument("--lengths", nargs="+", type=int, help="steps of the jobs (default 5 30 200 2000)")
    parser.add_argument("--repeat", type=int, default=1, help="fresh processes of each kind (default 1)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes and lengths, to try the script")
    parser.add_argument("--alone", action="store_true", help="one core a job, and the time it was on it")
    options = parser.parse_args()
    lengths = sorted(options.lengths or (TINY if options.tiny else LENGTHS))
    clock = "one core a job, time on the core (of compiles: on the wall)" if options.alone else "time on the wall"
    head(
        "jobs: whole training jobs from an empty compile cache",
        f"data      float32, {clock}; a job begins before the model is built; imports are not in it",
    )
    jobs, steps, ratios, peaks, differences, imports = [], [], {}, {}, {}, {name: [] for name in FRAMEWORKS}
    absent, lost = set(), []
    for network in options.networks:
        runs = measure(network, lengths[-1], options, absent)
        for name, found in runs.items():
            imports[name] += [run["import"] for run in found]
            lost += [f"{network} with {name}"] if not found and name not in absent else []
        rows, ratios[network], peaks[network] = jobs_of(network, runs, lengths)
        row, differences[network] = steps_of(network, runs)
        jobs += rows
        steps.append(row)
        print(f"{network}: bireme / paddle", *map(cell, ratios[network]), file=sys.stderr, flush=True)
    table(
        ("network", "steps", "bireme s", "paddle s", "ratio", "compile s", "compiles",
         f"longest after {EARLY}", "paddle's", "bireme's first, last loss", "paddle's"),
        jobs,
    )  # fmt: skip
    table(
        ("median ms/step", "interpreted", "compiled", "paddle", f"bireme, first {FIRST} losses", "paddle", "apart"),
        steps,
    )
    print("imports, not in the figures:", *[f"{name} {cell(median(found))} s" for name, found in imports.items()], "\n")
    floors = Floors()
    for i, n in enumerate(lengths):
        found = {network: figures[i] for network, figures in ratios.items()}
        hold(floors, f"{n} steps, bireme / paddle", found, LIMIT if n < LONG else LIMIT_LONG)
    hold(floors, f"longest step after {EARLY}, in medians", {k: v[-1] for k, v in peaks.items()}, LIMIT_STEP)
    hold(floors, "first losses apart", {k: v * 100 for k, v in differences.items()}, TOLERANCE * 100, " %")
    for what in lost:
        print(f"failed: {what}")
    return 1 if floors.show() or lost else 0


if __name__ == "__main__":
    sys.exit(main())
