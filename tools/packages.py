"""Networks of public packages written for Paddle: whether each one builds and trains on Bireme with Paddle's numbers.

    python -m tools.packages --oracle PYTHON             # all of them; PYTHON has PaddlePaddle
    python -m tools.packages --oracle PYTHON nlp/bert    # those whose paths begin so
    python -m tools.packages --table docs/packages.md    # write what was found by earlier runs

Runs in an environment that has the packages (`tools.networks.PACKAGES`), installed without their dependencies, and what they
import. Each network runs a forward pass, a backward pass and one step of an optimizer on both sides, from the same weights
and inputs. Paddle's numbers are kept in the folder of `--record` and computed where they are not there; so is what was found.
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
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tools.networks import PACKAGES, Network, networks
from tools.networks.step import wave

ROOT = Path(__file__).resolve().parent.parent
CLOSE, CLOSE_DOUBLE = 2e-3, 1e-6  # relative difference of numbers that count as equal, through a hundred layers


def run(
    python: str, side: str, dtype: str, paths: list[str], limit: int, verbose: bool = False
) -> Iterator[dict[str, Any]]:
    """Numbers of each network, or the error; a process that dies is started again for those that are left."""
    left = list(paths)
    site = sysconfig.get_paths()["purelib"]
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",  # packages hold what an older protoc generated
        **({"OMP_NUM_THREADS": "1"} if side == "paddle" else {}),  # threads of OpenMP do not survive a fork
    }
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


def digest(found: dict[str, Any]) -> dict[str, Any]:
    """A few numbers for all of a network's: names and shapes; norms and projections of outputs, gradients, and six of these."""
    outputs = np.array([o[1:] for o in found["outputs"]], float).reshape(-1, 2)
    grads = np.array([found["grads"][n] or [0.0, 0.0] for n in sorted(found["grads"])], float).reshape(-1, 2)
    # each gradient by its own size, but for those that are zero up to rounding
    sized = grads[:, 1] / (grads[:, 0] + 1e-2 * grads[:, 0].max(initial=1e-12))
    text = json.dumps([sorted(found["parameters"].items()), [o[0] for o in found["outputs"]]])
    picked = grads[np.unique(np.linspace(0, len(grads) - 1, 6).astype(int))] if len(grads) else grads
    numbers = {
        "outputs": [np.linalg.norm(outputs[:, 0]), outputs[:, 1] @ wave(len(outputs))],
        "grads": [np.linalg.norm(grads[:, 0]), grads[:, 1] @ wave(len(grads)), sized @ wave(len(grads)) / len(grads)],
        "picked": picked.reshape(-1),
        "losses": [found["loss"], found["after"]],
    }
    return {"names": zlib.crc32(text.encode()), **{k: [float(f"{x:.7g}") for x in row] for k, row in numbers.items()}}


def strayed(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> list[str]:
    """What of two digests differs."""
    if ours["names"] != theirs["names"]:
        return ["names and shapes"]
    norm = theirs["grads"][0]
    sizes = {
        "outputs": [theirs["outputs"][0]] * 2,
        "grads": [norm, norm, 1.0],
        "picked": np.repeat(np.maximum(theirs["picked"][::2], 1e-3 * norm), 2),
        "losses": np.abs(theirs["losses"]),
    }
    off = {k: np.max(np.abs(np.subtract(ours[k], theirs[k])) / np.maximum(s, 1e-6)) for k, s in sizes.items()}
    return [f"{k}, by {x:.1e}" for k, x in off.items() if not x <= tolerance]


class Oracle:
    """Paddle's numbers, from files of a folder or from a run that writes them; and what was found by comparing."""

    def __init__(self, folder: Path, python: str | None, limit: int, verbose: bool):
        self.folder, self.python, self.limit, self.verbose = folder, python, limit, verbose
        folder.mkdir(parents=True, exist_ok=True)

    def file(self, path: str, kind: str) -> Path:
        return self.folder / f"{path.replace('/', '.')}.{kind}.json"

    def keep(self, path: str, word: str, why: str, off: float = 0.0) -> None:
        self.file(path, "found").write_text(json.dumps([word, why, off]))

    def found(self, path: str) -> tuple[str, str, float]:
        """The word and the reason for a network, and by how much it is off."""
        file = self.file(path, "found")
        return tuple(json.loads(file.read_text())) if file.exists() else ("", "not tried", 0.0)

    def __call__(self, paths: list[str], dtype: str) -> dict[str, dict[str, Any]]:
        files = {path: self.file(path, dtype) for path in paths}
        missing = [p for p in paths if not files[p].exists()]
        for each in run(self.python, "paddle", dtype, missing, self.limit, self.verbose) if self.python else ():
            files[each["path"]].write_text(json.dumps(each))
        none = {"error": "no numbers are recorded"}
        return {p: json.loads(files[p].read_text()) if files[p].exists() else none for p in paths}


MARK = "<!-- what follows is written by python -m tools.packages --table -->"


NEAR = (
    "Paddle cannot run them in float64. They differ by not more than eight times what Paddle's own numbers do when its inputs\n"
    "are moved by one unit in the last place."
)


def cell(text: str) -> str:
    """Text for a cell of a table."""
    text = " ".join(text.replace("|", "/").split())
    return f"`{text if len(text) <= 160 else text[:157] + '...'}`"


def table(chosen: dict[str, Network], oracle: Oracle) -> str:
    """The lines of the page: counts, what is equal, what is not and why."""
    found = {path: oracle.found(path) for path in chosen}
    tried = [p for p in chosen if found[p][0]]
    equal = [p for p in tried if found[p][0] in ("equal", "equal, float64")]
    near = [p for p in tried if found[p][0] == "equal, rounding"]
    paddle = [p for p in tried if found[p][0] == "Paddle fails"]
    others = [p for p in tried if p not in {*equal, *near, *paddle}]
    kinds = [f"{package}/" for package in PACKAGES] + [""]
    lines = [
        "| package | tried | equal | of them in float64 | families | within rounding | not equal | fail in Paddle |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in kinds:
        name = " ".join(PACKAGES[kind[:-1]]) if kind else "together"
        mine = [p for p in equal if p.startswith(kind)]
        counts = [
            sum(p.startswith(kind) for p in tried), len(mine), sum(found[p][0] != "equal" for p in mine),
            len({p.rpartition("/")[0] for p in mine}), *[sum(p.startswith(kind) for p in x) for x in (near, others, paddle)],
        ]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(map(str, counts))} |")
    lines += ["", "## Those that are not equal", ""]
    lines += [f"- `{p}`: {cell(': '.join(found[p][:2]))}" for p in others] or ["There are none."]
    lines += ["", "## Those that are within rounding", "", NEAR, ""]
    lines += [f"- `{p}`: {cell(found[p][1])}" for p in near] or ["There are none."]
    lines += ["", "## Those that fail in Paddle", "", "They do not count: nothing is there to compare with.", ""]
    lines += [f"- `{p}`: {cell(found[p][1])}" for p in paddle] or ["There are none."]
    if len(tried) < len(chosen):
        lines += ["", "## Those that were not tried", "", ", ".join(f"`{p}`" for p in chosen if p not in tried)]
    lines += ["", "## Those that are equal", ""]
    for package, (name, _) in PACKAGES.items():
        families: dict[str, list[str]] = {}
        for p in equal:
            if p.startswith(f"{package}/"):
                families.setdefault(p.split("/")[1], []).append(p.split("/")[2])
        lines += [f"### {name}", "", *[f"- {f}: {', '.join(names)}" for f, names in families.items()], ""]
    return "\n".join(lines).rstrip() + "\n"


def recorded(chosen: dict[str, Network], oracle: Oracle) -> dict[str, Any]:
    """Digests of Paddle's numbers for the networks that are equal, in the dtype that decided it."""
    kept = {}
    for path in chosen:
        word = oracle.found(path)[0]
        if word in ("equal", "equal, float64"):
            dtype = "float32" if word == "equal" else "float64"
            kept[path] = {"dtype": dtype, **digest(oracle([path], dtype)[path])}
    return kept


def decide(
    paths: list[str], theirs: dict[str, Any], oracle: Oracle, show: Callable[[str, str, float, str], None]
) -> None:
    """Tell rounding from a difference of meaning."""
    # rounding that a network amplifies is not there in float64; a difference of meaning is
    exact = oracle(paths, "float64")
    sure = [p for p in paths if "error" not in exact[p]]
    said = {p: oracle.found(p)[1] for p in paths}
    left = list(paths)
    for ours in run(sys.executable, "bireme", "float64", sure, oracle.limit, oracle.verbose):
        path = ours["path"]
        word, why = verdict(ours, exact[path], CLOSE_DOUBLE)
        if word == "equal":
            left.remove(path)
            show(path, "equal, float64", ours.get("seconds", 0.0), f"{why}; in float32 {said[path]}")
        else:
            said[path] += f"; in float64 {why}"
    # what Paddle itself gives for inputs that differ in their last place, where float64 cannot decide
    nudged = oracle(left, "nudged")
    for path in left:
        own = 0.0 if "error" in nudged[path] else difference(nudged[path], theirs[path])[1]
        word = "equal, rounding" if oracle.found(path)[2] <= 8 * own and path not in sure else "differs"
        show(path, word, 0.0, f"{said[path]}; Paddle from itself by {own:.1e}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="beginnings of package/family/name; default: all")
    parser.add_argument("--oracle", help="Python that has PaddlePaddle, for numbers that are not recorded")
    parser.add_argument(
        "--record", default=Path(tempfile.gettempdir(), "bireme-packages"), type=Path, help="folder of Paddle's numbers"
    )
    parser.add_argument("--limit", default=120, type=int, help="seconds for each network")
    parser.add_argument("--verbose", action="store_true", help="show tracebacks")
    parser.add_argument("--left", action="store_true", help="only those that no earlier run has decided")
    parser.add_argument("--only-paddle", action="store_true", help="record Paddle's numbers, and stop")
    parser.add_argument("--table", type=Path, help="write what was found to this page, and stop")
    parser.add_argument("--write", type=Path, help="write digests of the numbers that are equal to this file, and stop")
    given = parser.parse_args()
    wanted = [p.partition("/")[0] for p in given.paths]
    chosen = {
        path: n for path, n in networks(sorted(set(wanted)) or None).items()
        if not given.paths or path.startswith(tuple(given.paths))
    }  # fmt: skip
    oracle = Oracle(given.record, given.oracle, given.limit, given.verbose)
    if given.left:
        chosen = {p: n for p, n in chosen.items() if oracle.found(p)[0] in ("", "doubtful")}
    if given.table or given.write:
        oracle.python = None
        if given.table:
            above = given.table.read_text().partition(MARK)[0]
            given.table.write_text(f"{above}{MARK}\n\n{table(chosen, oracle)}")
        if given.write:
            rows = [f"{json.dumps(p)}: {json.dumps(kept)}" for p, kept in recorded(chosen, oracle).items()]
            given.write.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        return 0
    theirs = oracle(list(chosen), "float32")
    if given.only_paddle:
        for path in chosen:
            print(path, theirs[path].get("error", "ok"), theirs[path].get("seconds"), flush=True)
        return 0
    counts: dict[str, Counter] = {package: Counter() for package in PACKAGES}
    equal = set()

    def show(path: str, word: str, seconds: float, why: str) -> None:
        counts[path.partition("/")[0]][word] += 1
        equal.update([path] if word.startswith("equal") else [])
        oracle.keep(path, word, why)
        print(f"{word:16}{path:56}{seconds:6.1f} s  {why}", flush=True)

    worth = [p for p in chosen if "error" not in theirs[p]]
    for path in chosen:
        if path not in worth:
            show(path, "Paddle fails", 0.0, theirs[path]["error"])
    before = [p for p in worth if given.left and oracle.found(p)[0] == "doubtful"]
    for ours in run(
        sys.executable, "bireme", "float32", [p for p in worth if p not in before], given.limit, given.verbose
    ):
        word, why = verdict(ours, theirs[ours["path"]], CLOSE)
        if word == "differs":
            oracle.keep(ours["path"], "doubtful", why, difference(ours, theirs[ours["path"]])[1])
        else:
            show(ours["path"], word, ours.get("seconds", 0.0), why)
    doubtful = {p: oracle.found(p) for p in worth if oracle.found(p)[0] == "doubtful"}
    for i in range(0, len(doubtful), 16):  # what is decided is kept, should the run be stopped
        decide(list(doubtful)[i : i + 16], theirs, oracle, show)
    for package, count in counts.items():
        if count:
            families = {p.split("/")[1] for p in equal if p.startswith(package + "/")}
            print(f"{package}: {sum(count.values())} tried, {dict(count)}, {len(families)} families equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
