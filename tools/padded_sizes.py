"""Runs every row of the tables of operators and layers at changing sizes, padded to a few, as accelerators do.

    python -m tools.padded_sizes                # all rows
    python -m tools.padded_sizes --only conv    # rows whose name has this in it

Prints how many rows were padded and give the values and gradients of dynamic mode, and why others were refused.
`tests/table/test_padded_sizes.py` makes the same comparison, of a part by default.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.table import padded_sizes
from tools.unknown_sizes import TABLES

ROWS = 30  # of a process: what is compiled for each of them stays in memory


def checked(place: tuple[str, int]) -> Any:
    """What is found of one row, in a process that does some of them."""
    title, number = place
    np.seterr(all="ignore")
    make, rows = TABLES[title]
    return padded_sizes.report(make(rows[number]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has this in it (default: all)")
    parser.add_argument(
        "--part", type=int, nargs=2, default=(0, 1), metavar=("I", "N"), help="every N-th row from the I-th"
    )
    given = parser.parse_args()
    console = Console()
    shown = Table("", "rows", "padded", "in part", "refused", "wrong")
    reasons: Counter[str] = Counter()
    told: list[tuple[str, str]] = []
    for title, (_, rows) in TABLES.items():
        wanted = [(title, i) for i, row in enumerate(rows) if given.only in row.name][given.part[0] :: given.part[1]]
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=ROWS) as process:
            made = process.imap(checked, wanted)
            hidden = not sys.stderr.isatty()
            found = list(track(made, title, len(wanted), console=Console(stderr=True), disable=hidden))
        reasons.update([reason for each in found for reason in each.reasons])
        padded = [each for each in found if each.padded]
        part, refused = (
            [each for each in padded if each.reasons],
            [each for each in found if each.reasons and not each.padded],
        )
        wrong = [each for each in found if each.problems]
        shown.add_row(title, *map(str, map(len, [found, padded, part, refused, wrong])))
        told += [(each.name, problem) for each in wrong for problem in each.problems]
    console.print(shown)
    for reason, times in reasons.most_common(40):
        console.print(f"{times:4} {reason}", markup=False, highlight=False, soft_wrap=True)
    for name, why in told:
        console.print(f"{name}: {why}", markup=False, highlight=False, soft_wrap=True)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
