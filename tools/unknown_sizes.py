"""Runs every row of the tables of operators and layers as a program with unknown sizes, fed at two sizes.

    python -m tools.unknown_sizes                # all rows
    python -m tools.unknown_sizes --only conv    # rows whose name has this in it

Prints how many rows give the values and gradients of dynamic mode at both sizes, with how many unknown dimensions, and for
each that does not why. `tests/table/test_unknown_sizes.py` makes the same comparison, of a part by default.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.table import test_layer_table, test_table, unknown_sizes

TABLES: dict[str, tuple[Any, list[Any]]] = {
    "operators": (unknown_sizes.operator, test_table.TABLE),
    "layers": (unknown_sizes.layer, test_layer_table.LAYERS),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has this in it (default: all)")
    given = parser.parse_args()
    console = Console()
    shown = Table("", "rows", "pass", "first size unknown", "unknown dimensions", "all dimensions")
    told: list[tuple[str, str]] = []
    failed = 0
    for title, (make, rows) in TABLES.items():
        wanted = [row for row in rows if given.only in row.name]
        subjects = track(wanted, title, console=Console(stderr=True), disable=not sys.stderr.isatty())
        found = [unknown_sizes.report(make(row)) for row in subjects]
        right = [each for each in found if not each.problems and each.unknown]
        sums = [
            sum(each.first for each in right),
            sum(each.unknown for each in right),
            sum(each.dimensions for each in right),
        ]
        shown.add_row(title, *map(str, [len(found), len(right), *sums]))
        told += [(each.name, problem) for each in found for problem in each.problems]
        reasons = unknown_sizes.FIXED | unknown_sizes.NOT_TOGETHER
        told += [(each.name, f"by meaning: {reasons[each.name]}") for each in found if each.name in reasons]
        failed += sum(bool(each.problems) for each in found)
    console.print(shown)
    for name, why in told:
        console.print(f"{name}: {why}", markup=False, highlight=False, soft_wrap=True)
    return 1 if failed else 0


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
