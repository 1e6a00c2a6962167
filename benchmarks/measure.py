"""What every benchmark shares: the machine in the head, medians with their spread, aligned tables, floors."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def cores():
    """Cores this process may use: what every peer is told to use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _command(*line):
    """First line of a command's output, or nothing where there is no such command or it has nothing to say."""
    if shutil.which(line[0]) is None:
        return ""
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip().split("\n")[0] if done.returncode == 0 else ""


def _processor():
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def head(title, *facts):
    """Print the table's head: without the machine, a figure means nothing."""
    packages = {"bireme": "bireme", "jax": "jax", "torch": "torch", "paddle": "paddlepaddle", "numpy": "numpy"}
    versions = ", ".join(f"{name} {version(package)}" for name, package in packages.items())
    gpu = _command("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    commit = _command("git", "rev-parse", "--short", "HEAD") or "none"
    commit += " with changes" if _command("git", "status", "--porcelain") else ""
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    print(f"\n== {title}")
    system = f"{platform.system()} {platform.release()}"
    print(f"machine   {_processor()} ({platform.machine()}), {cores()} cores used{load}, {system}")
    print(f"device    {gpu or 'CPU only'}")
    print(f"versions  Python {platform.python_version()}, {versions}, commit {commit}")
    for fact in facts:
        print(fact)
    print(flush=True)


def median(xs):
    return float(np.median(xs)) if len(xs) else float("nan")


def spread(xs, form="{:.1f}"):
    """The middle half of the measurements: the median alone hides a noisy machine."""
    if not len(xs):
        return "-"
    low, high = np.percentile(xs, [25, 75])
    return f"{form.format(low)}..{form.format(high)}"


def table(columns, rows):
    """Print rows under columns: the first column to the left, figures to the right."""
    cells = [list(map(str, columns)), *[list(map(str, row)) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for n, row in enumerate(cells):
        print(
            "  ".join(
                c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
        )
        if n == 0:
            print("  ".join("-" * w for w in widths))
    print(flush=True)


def ratio(ours, theirs):
    """Our time over theirs, below 1 we are faster: the median over the rounds, each with its own neighbour in time.

    A shared machine changes its speed from one second to the next; the two turns of one round mostly meet the same one.
    """
    return median([a / b for a, b in zip(ours, theirs, strict=False)])


def cell(number, form="{:.2f}"):
    return "-" if np.isnan(number) else form.format(number)


def apart(losses):
    """Largest relative difference between the peers' losses, given a list of them for each peer."""
    first = next(iter(losses.values()), [])
    return max((abs(a - b) / abs(b) for ls in losses.values() for a, b in zip(ls, first, strict=True)), default=np.nan)


def counters(stats):
    """Bireme's own counters, as one line."""
    names = ("compiles", "interprets", "flushes", "cache_hits", "nodes")
    return "bireme.debug.stats(): " + ", ".join(f"{name} {stats[name]}" for name in names if name in stats)


class Floors:
    """Limits to hold. A floor that is missed stays in the table, and the command's exit status says so."""

    def __init__(self):
        self.rows, self.held, self.missed = [], 0, 0

    def at_most(self, what, value, limit, unit=""):
        """`value` must be at most `limit`; a value that could not be measured (NaN) is neither held nor missed."""
        verdict = "not measured" if np.isnan(value) else "PASS" if value <= limit else "FAIL"
        self.held += verdict == "PASS"
        self.missed += verdict == "FAIL"
        self.rows.append((what, cell(value, "{:.2f}" + unit), f"<= {limit:g}{unit}", verdict))

    def show(self):
        """Print the floors and return the exit status; where nothing was measured, nothing was held either."""
        table(("floor", "measured", "limit", "verdict"), self.rows)
        return 0 if self.held and not self.missed else 1
