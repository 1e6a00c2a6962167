"""Networks of public packages written for Paddle: whether each one builds and trains on Bireme with Paddle's numbers.

    python -m tools.packages --oracle PYTHON             # all of them; PYTHON has PaddlePaddle
    python -m tools.packages --oracle PYTHON nlp/bert    # those whose paths begin so

Runs in an environment that has the packages (`tools.networks.PACKAGES`), installed without their dependencies, and what they
import. Each network runs a forward pass, a backward pass and one step of an optimizer on both sides, from the same weights
and inputs. Paddle's numbers are kept in the folder of `--record` and computed where they are not there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.networks import PACKAGES, networks

ROOT = Path(__file__).resolve().parent.parent
CLOSE, CLOSE_DOUBLE = 2e-3, 1e-6  # relative difference of numbers that count as equal, through a hundred layers


def run(
    python: str, side: str, dtype: str, paths: list[str], limit: int, verbose: bool = False
) -> Iterator[dict[str, Any]]:
    """Numbers of each network, or the error; a process that dies is started again for those that are left."""
    left = list(paths)
    site = sysconfig.get_paths()["purelib"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    while left:
        command = [python, "-m", "tools.networks.step", side, dtype, str(limit), site, str(int(verbose)), *left]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=environ,
        ) as process:
            for line in process.stdout or ():
                if line.startswith("@{"):
                    found = json.loads(line[1:])
                    left.remove(found["path"])
                    yield found
        if left and process.returncode:
            yield {"path": left.pop(0), "error": f"the process ended with {process.returncode}"}


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[str, float]:
    """What differs most, and by how much; infinite where shapes or names do."""
    for key in ("parameters",):
        if ours[key] != theirs[key]:
            names = [n for n in {**ours[key], **theirs[key]} if ours[key].get(n) != theirs[key].get(n)]
            return (f"{len(names)} {key}, as {names[0]}" if names else f"the order of {key}"), float("inf")
    if [o[0] for o in ours["outputs"]] != [o[0] for o in theirs["outputs"]]:
        return "shapes of outputs", float("inf")
    worst = ("", 0.0)
    largest = max([g[0] for g in theirs["grads"].values() if g] or [0.0])
    pairs = [(f"output {i}", o[1:], t[1:], t[1]) for i, (o, t) in enumerate(zip(ours["outputs"], theirs["outputs"]))]
    for name, t in theirs["grads"].items():
        o = ours["grads"][name]
        if (o is None) != (t is None):
            if (o or t)[0]:
                return f"gradient of {name}: {'none' if o is None else 'one'} here", float("inf")
        elif t is not None:
            # a gradient that is zero but for rounding is compared with the largest one
            pairs.append((f"gradient of {name}", o, t, max(t[0], 1e-3 * largest)))
    pairs += [("loss", [ours["loss"]], [theirs["loss"]], abs(theirs["loss"]))]
    pairs += [("loss after the step", [ours["after"]], [theirs["after"]], abs(theirs["after"]))]
    for name, o, t, scale in pairs:
        for x, y in zip(o, t):
            if (x == x) != (y == y):
                return f"{name} is NaN", float("inf")
            off = abs(x - y) / max(scale, 1e-6) if x == x else 0.0
            worst = max(worst, (name, off), key=lambda w: w[1])
    return worst


def verdict(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> tuple[str, str]:
    if "error" in theirs:
        return "Paddle fails", theirs["error"]
    if not all(map(math.isfinite, [theirs["loss"], theirs["after"], *[g[0] for g in theirs["grads"].values() if g]])):
        return "Paddle fails", "its numbers are not finite"
    if "error" in ours:
        return "fails", ours["error"]
    what, off = difference(ours, theirs)
    if off > tolerance:
        return "differs", f"{what}, by {off:.1e}"
    return "equal", f"{off:.1e} {what}"


def shortened(found: Any) -> Any:
    """Numbers with seven digits: what float32 has."""
    if isinstance(found, dict):
        return {k: shortened(x) for k, x in found.items() if k != "seconds"}
    if isinstance(found, list):
        return [shortened(x) for x in found]
    return float(f"{found:.7g}") if isinstance(found, float) else found


class Oracle:
    """Paddle's numbers, from files of a folder or from a run that writes them."""

    def __init__(self, folder: Path, python: str | None, limit: int, verbose: bool):
        self.folder, self.python, self.limit, self.verbose = folder, python, limit, verbose
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, paths: list[str], dtype: str) -> dict[str, dict[str, Any]]:
        files = {path: self.folder / f"{path.replace('/', '.')}.{dtype}.json" for path in paths}
        missing = [p for p in paths if not files[p].exists()]
        for each in run(self.python, "paddle", dtype, missing, self.limit, self.verbose) if self.python else ():
            files[each["path"]].write_text(json.dumps(each))
        none = {"error": "no numbers are recorded"}
        return {p: json.loads(files[p].read_text()) if files[p].exists() else none for p in paths}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="beginnings of package/family/name; default: all")
    parser.add_argument("--oracle", help="Python that has PaddlePaddle, for numbers that are not recorded")
    parser.add_argument(
        "--record", default=Path(tempfile.gettempdir(), "bireme-packages"), type=Path, help="folder of Paddle's numbers"
    )
    parser.add_argument("--limit", default=120, type=int, help="seconds for each network")
    parser.add_argument("--verbose", action="store_true", help="show tracebacks")
    parser.add_argument("--write", type=Path, help="write Paddle's numbers to this file, and stop")
    parser.add_argument("--only-paddle", action="store_true", help="record and stop")
    given = parser.parse_args()
    wanted = [p.partition("/")[0] for p in given.paths]
    chosen = {
        path: n for path, n in networks(sorted(set(wanted)) or None).items()
        if not given.paths or path.startswith(tuple(given.paths))
    }  # fmt: skip
    oracle = Oracle(given.record, given.oracle, given.limit, given.verbose)
    theirs = oracle(list(chosen), "float32")
    if given.write:
        given.write.write_text(json.dumps({p: shortened(theirs[p]) for p in chosen}, indent=0) + "\n")
        return 0
    if given.only_paddle:
        for path in chosen:
            print(path, theirs[path].get("error", "ok"), theirs[path].get("seconds"), flush=True)
        return 0
    counts: dict[str, Counter] = {package: Counter() for package in PACKAGES}
    equal = set()

    def show(path: str, word: str, seconds: float, why: str) -> None:
        counts[path.partition("/")[0]][word] += 1
        equal.update([path] if word.startswith("equal") else [])
        print(f"{word:16}{path:56}{seconds:6.1f} s  {why}", flush=True)

    worth = [p for p in chosen if "error" not in theirs[p]]
    for path in chosen:
        if path not in worth:
            show(path, "Paddle fails", 0.0, theirs[path]["error"])
    doubtful: dict[str, tuple[float, str]] = {}
    for ours in run(sys.executable, "bireme", "float32", worth, given.limit, given.verbose):
        word, why = verdict(ours, theirs[ours["path"]], CLOSE)
        if word == "differs":
            doubtful[ours["path"]] = difference(ours, theirs[ours["path"]])[1], why
        else:
            show(ours["path"], word, ours.get("seconds", 0.0), why)
    # rounding that a network amplifies is not there in float64; a difference of meaning is
    exact, first = oracle(list(doubtful), "float64"), theirs
    sure = [p for p in doubtful if "error" not in exact[p]]
    for ours in run(sys.executable, "bireme", "float64", sure, given.limit, given.verbose):
        path = ours["path"]
        word, why = verdict(ours, exact[path], CLOSE_DOUBLE)
        if word == "equal":
            show(path, "equal, float64", ours.get("seconds", 0.0), f"{why}; in float32 {doubtful[path][1]}")
        else:
            doubtful[path] = (doubtful[path][0], f"{doubtful[path][1]}; in float64 {why}")
    # what Paddle itself gives for inputs that differ in their last place, where float64 cannot decide
    left = [p for p in doubtful if p not in equal]
    nudged = oracle(left, "nudged")
    for path in left:
        off, why = doubtful[path]
        own = 0.0 if "error" in nudged[path] else difference(nudged[path], first[path])[1]
        word = "equal, rounding" if off <= 8 * own and path not in sure else "differs"
        show(path, word, 0.0, f"{why}; Paddle from itself by {own:.1e}")
    for package, count in counts.items():
        if count:
            families = {p.split("/")[1] for p in equal if p.startswith(package + "/")}
            print(f"{package}: {sum(count.values())} tried, {dict(count)}, {len(families)} families equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
