"""Damaged and hostile model files: mutates files of each format and loads them.

    python -m tools.fuzz_files                           # 2,000 files of each format
    python -m tools.fuzz_files program --files 50000 --seed 7
    python -m tools.fuzz_files paddle onnx --seed 7 --start 1234 --files 1

Bits flipped, bytes replaced, lengths and numbers made huge, parts cut out, doubled or moved, other values in JSON: what is
done follows from the format, the seed and the number of the file, which each failure is printed with. A file either loads,
or is refused with an error of Bireme's that is one sentence; nothing else may happen: no other error, no crash, no more than
some seconds, no more memory than the file justifies.
"""

from __future__ import annotations

import argparse
import base64
import copy
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import bireme
from bireme.files import paddle_models

EXPORTED = Path(__file__).resolve().parent.parent / "tests" / "data" / "paddle_models.json"
SECONDS = 10  # that loading one file may take
MEMORY = 2 << 30  # bytes that the process may grow by
ADDRESSES = 8 << 30  # that it may have beyond those at the start, where it runs as a command
VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**31, -(2**63), 2**64, 1e308, "", "x", "../../etc/passwd", "__import__", "add", "Tensor.to",
    [], [[]], {}, {"tuple": []}, {"size": ["of", "x", 0]}, {"tensor": "x"}, {"dtype": "object"}, [2**40] * 4,
]  # fmt: skip
HUGE = [b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\x80" * 12, b"\xff\xff\xff\x7f", bytes(8)]  # as a length
NUMBERS = [
    *(b"-1", b"0", b"1e999", b"99999999999999999999", b"-9223372036854775808", b"1099511627776"),
    *(b"null", b"[]", b"{}", b'"x"'),
]


class Format:
    """A kind of files: what valid ones are, how they are loaded, and the function that errors name."""

    def __init__(self, seeds: Callable[[Path], list[Path]], load: Callable[[Path], Any], named: str):
        self.seeds, self.load, self.named = seeds, load, named


def _saved(folder: Path) -> list[Path]:
    """Graphs of a few small functions, with branches, loops, lists and all kinds of arguments."""
    from bireme import nn
    from bireme.jit import save
    from bireme.static import InputSpec
    from tests import captured_functions

    wanted = (
        "while_with_if",
        "list_in_for",
        "item_set_in_branch",
        "dict_in_while",
        "shape_arithmetic",
        "layer_Looping",
    )
    made = []
    for name, fn, calls, sizes in captured_functions.CASES:
        if name in wanted:
            specs = [InputSpec([None, *x.shape[1:]] if sizes else x.shape, str(x.dtype)) for x in calls[0]]
            save(fn, str(folder / name), specs)
            made.append(folder / f"{name}.json")
    net = nn.Sequential(nn.Conv2D(1, 2, 3), nn.BatchNorm2D(2), nn.ReLU(), nn.MaxPool2D(2), nn.Flatten())
    save(net, str(folder / "images"), [InputSpec([None, 1, 8, 8])])
    return [*made, folder / "images.json"]


def _load_saved(path: Path) -> None:
    loaded = bireme.jit.load(str(path)[: -len(".json")])
    repr(loaded.program())


def _exported(folder: Path) -> list[Path]:
    """The same functions as ONNX files."""
    from bireme.static import InputSpec
    from tests import captured_functions

    wanted = ("while_with_if", "list_in_for", "item_set_in_branch", "shape_arithmetic", "layer_Branching")
    made = []
    for name, fn, calls, sizes in captured_functions.CASES:
        if name in wanted:
            specs = [InputSpec([None, *x.shape[1:]] if sizes else x.shape, str(x.dtype)) for x in calls[0]]
            bireme.onnx.export(fn, str(folder / name), specs)
            made.append(folder / f"{name}.onnx")
    return made


def _of_paddle(folder: Path) -> list[Path]:
    """Models that paddlepaddle exported, each in a folder of its own."""
    made = []
    for name, entry in json.loads(EXPORTED.read_text())["models"].items():
        (folder / name).mkdir()
        made.append(folder / name / f"x.{name.partition('.')[2]}")
        for path, part in ((made[-1], "program"), (folder / name / "x.pdiparams", "params")):
            path.write_bytes(zlib.decompress(base64.b64decode(entry[part])))
    return made


FORMATS: dict[str, Format] = {
    "program": Format(_saved, _load_saved, "load("),
    "paddle": Format(_of_paddle, paddle_models.load, "load(path)"),
}
if importlib.util.find_spec("onnx") is not None:
    FORMATS["onnx"] = Format(_exported, lambda path: bireme.onnx.load(str(path)), "load(")


# ---------------------------------------------------------------- mutations


def bytes_changed(data: bytes, rng: random.Random, text: bool) -> bytes:
    if not data:
        return rng.randbytes(rng.randrange(1, 40))
    kind, at = rng.randrange(9), rng.randrange(len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
    if kind == 3:
        return data[:at] + data[at + rng.randrange(1, 64) :]
    if kind == 4:  # lengths and counts
        return data[:at] + b"\xff" * rng.randrange(1, 9) + data[at + 8 :]
    if kind == 5:
        return data[:at] + rng.choice(NUMBERS if text else HUGE) + data[at + rng.choice((0, 1, 4)) :]
    other = rng.randrange(len(data))
    if kind == 6:
        return data[:at] + data[other : other + 8] + data[at + 8 :]
    digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57] if kind == 7 and text else []
    if digits:
        at = rng.choice(digits)
        return data[:at] + rng.choice(NUMBERS) + data[at + 1 :]
    return data[:at] + data[other : other + 200] + data[at:]


def _places(x: Any, path: tuple = ()) -> Iterator[tuple]:
    if isinstance(x, dict):
        for key, y in x.items():
            yield (*path, key)
            yield from _places(y, (*path, key))
    elif isinstance(x, list):
        for i, y in enumerate(x):
            yield (*path, i)
            yield from _places(y, (*path, i))


def json_changed(data: bytes, rng: random.Random) -> bytes:
    """Another value somewhere in a JSON file, or a part of it elsewhere."""
    try:
        tree = json.loads(data)
        places = list(_places(tree))
    except (ValueError, RecursionError):
        return bytes_changed(data, rng, text=True)
    for _ in range(rng.randrange(1, 4)):
        *above, last = rng.choice(places)
        inner = tree
        try:
            for key in above:
                inner = inner[key]
            if rng.random() < 0.3:
                value: Any = tree
                for key in rng.choice(places):
                    value = value[key]
                inner[last] = json.loads(json.dumps(value))
            elif rng.random() < 0.2:
                del inner[last]
            else:
                inner[last] = copy.deepcopy(rng.choice(VALUES))
        except (KeyError, IndexError, TypeError, ValueError):
            continue  # an earlier change took the place away
    return json.dumps(tree).encode()


def mutated(path: Path, rng: random.Random) -> bytes:
    """A damaged version of a file."""
    data, text = path.read_bytes(), path.suffix == ".json"
    if text and rng.random() < 0.7:
        return json_changed(data, rng)
    for _ in range(rng.randrange(1, 4)):
        data = bytes_changed(data, rng, text)
    return data


# ---------------------------------------------------------------- running


def check(name: str, files: int, seed: int, start: int = 0, told: Callable[[int], None] | None = None) -> list[str]:
    """Load mutated files of a format; what went wrong, in a line each."""
    kind, failures = FORMATS[name], []
    signal.signal(signal.SIGALRM, _too_long)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seeds = kind.seeds(Path(folder))
        for n in range(start, start + files):
            rng = random.Random(f"{name} {seed} {n}")
            seed_file = rng.choice(seeds)
            beside = sorted([p for p in seed_file.parent.iterdir() if p.stem == seed_file.stem])
            target = rng.choice(beside) if rng.random() < 0.3 else seed_file
            original = target.read_bytes()
            target.write_bytes(mutated(target, rng))
            wrong = _wrong(kind, seed_file)
            target.write_bytes(original)
            if wrong is not None:
                failures.append(f"{name} --seed {seed} --start {n} --files 1  # {wrong}")
            if told is not None and n % 100 == 0:
                told(n - start)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > MEMORY:
        failures.append(f"{name} --seed {seed}  # the process grew by {grown >> 20} MiB")
    return failures


def _wrong(kind: Format, path: Path) -> str | None:
    """What is wrong with how a file was loaded; None: nothing is."""
    signal.alarm(SECONDS)
    try:
        kind.load(path)
    except (bireme.errors.FileFormatError, FileNotFoundError) as e:
        if "\n\n" in str(e) or len(str(e)) > 2000:
            return f"an error that is no sentence: {str(e)[:200]!r}"
        if kind.named not in str(e) and not isinstance(e, FileNotFoundError):
            return f"an error that does not name the function: {str(e)[:200]!r}"
    except BaseException as e:  # noqa: BLE001  # whatever else it raises is a finding
        return f"{type(e).__name__}: {str(e)[:200]}"
    finally:
        signal.alarm(0)
    return None


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"loading takes more than {SECONDS} s")


def arguments(described: str, kinds: Collection[str], counted: str, count: int) -> argparse.Namespace:
    """What a fuzzer is told to do: of which kinds, how many, from which seed, and the number of the first."""
    parser = argparse.ArgumentParser(description=described, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(kinds)} (default: all)")
    parser.add_argument(f"--{counted}", dest="count", type=int, default=count, metavar="N", help=f"(default: {count})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="what is drawn follows from it (default: 0)")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="number of the first (default: 0)")
    given = parser.parse_args()
    unknown = [name for name in given.kinds if name not in kinds]
    if unknown:
        parser.error(f"no kind {unknown[0]!r}: there are {', '.join(kinds)}")
    given.kinds = given.kinds or list(kinds)
    return given


def progress(count: int, name: str = "") -> Callable[[int], None]:
    """Something that shows how far one is, where somebody looks on."""

    def told(n: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{name}{n} of {count}", end="", file=sys.stderr)

    return told


def finish(failures: list[str]) -> NoReturn:
    """Print what went wrong, and end: with 1 if anything did."""
    print("\n".join(failures[:50]))
    sys.exit(bool(failures))


def main() -> None:
    given = arguments(__doc__, FORMATS, "files", 2000)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESSES, used + ADDRESSES))
    found = []
    for name in given.kinds:
        failures = check(name, given.count, given.seed, given.start, progress(given.count, f"{name}: "))
        print(f"\r{name}: {given.count} files, {len(failures)} failures")
        found += failures
    finish(found)


if __name__ == "__main__":
    np.seterr(all="ignore")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
