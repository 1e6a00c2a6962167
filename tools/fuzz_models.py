"""Damages files of models that Paddle exported: reading each gives a model, or raises one sentence about the file.

Bits flipped, bytes replaced, lengths and numbers made huge, parts cut out, doubled or moved: what is done follows from a
seed and a number, and each failure is printed with both. What counts as a failure: another error than FileFormatError, more
time or memory than a file of this size can be worth.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import resource
import sys
import tempfile
import time
import zlib
from pathlib import Path

from bireme.core.base import errors
from bireme.files import paddle_models

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "paddle_models.json"
SECONDS = 10.0  # that one file may take
BYTES = 8 << 30  # of addresses that the process may have beyond those at the start
HUGE = [b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\x80" * 12, b"\xff\xff\xff\x7f", bytes(8)]
NUMBERS = [
    b"-1",
    b"0",
    b"1e999",
    b"99999999999999999999",
    b"-9223372036854775808",
    b"1099511627776",
    b"null",
    b"[]",
    b"{}",
    b'"x"',
]


def files() -> dict[str, tuple[bytes, bytes]]:
    """Programs and parameters by name."""
    found = json.loads(DATA.read_text())["models"]
    return {
        name: tuple([zlib.decompress(base64.b64decode(entry[part])) for part in ("program", "params")])
        for name, entry in found.items()
    }


def damaged(data: bytes, rng: random.Random, text: bool) -> bytes:
    """The same file with one to four things wrong."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(out)) if out else 0
        what = rng.randrange(8)
        if what == 0:
            del out[at:]
        elif what == 1 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif what == 2 and out:
            out[at] = rng.randrange(256)
        elif what == 3:
            out[at : at + rng.choice((0, 1, 4))] = rng.choice(NUMBERS if text else HUGE)
        elif what == 4:
            del out[at : at + rng.randrange(1, 40)]
        elif what == 5:
            part = out[at : at + rng.randrange(1, 60)]
            out[at:at] = part
        elif what == 6 and text:
            digits = [i for i, b in enumerate(out) if 48 <= b <= 57]
            if digits:
                at = rng.choice(digits)
                out[at : at + 1] = rng.choice(NUMBERS)
        else:
            to = rng.randrange(len(out)) if out else 0
            out[to : to + 8] = out[at : at + 8]
    return bytes(out)


def attempt(seed: int, number: int, kept: dict[str, tuple[bytes, bytes]], folder: Path) -> str | None:
    """Read one damaged model; what is wrong with how that went."""
    rng = random.Random(f"{seed} {number}")
    name = rng.choice(sorted(kept))
    program, params = kept[name]
    end = name.partition(".")[2]
    if rng.random() < 0.8:
        program = damaged(program, rng, end == "json")
    else:
        params = damaged(params, rng, False)
    (folder / f"x.{end}").write_bytes(program)
    (folder / "x.pdiparams").write_bytes(params)
    start = time.monotonic()
    wrong = None
    try:
        paddle_models.load(folder / f"x.{end}")
    except errors.FileFormatError as e:
        if "load(path)" not in str(e):
            wrong = f"an error that does not name the function: {e}"
    except Exception as e:  # noqa: BLE001  # any other is a failure
        wrong = f"{type(e).__name__}: {str(e)[:200]}"
    took = time.monotonic() - start
    if took > SECONDS:
        wrong = f"it took {took:.0f} s"
    return wrong and f"--seed {seed} --start {number} --count 1  # {name}: {wrong}"


def run(seed: int, count: int, start: int = 0) -> list[str]:
    """Read damaged files in turn; the failures."""
    kept = files()
    with tempfile.TemporaryDirectory() as folder:
        found = [attempt(seed, number, kept, Path(folder)) for number in range(start, start + count)]
    return [each for each in found if each]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz_models", description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=5000, metavar="N", help="how many files (default: 5000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="what is drawn follows from it")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="number of the first file")
    given = parser.parse_args()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    failures = run(given.seed, given.count, given.start)
    print("\n".join([*failures, f"{given.count} files, {len(failures)} failures"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
