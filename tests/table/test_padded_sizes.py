"""Rows at changing sizes, padded to a few as on an accelerator: values and gradients are those of dynamic mode."""

import zlib

import pytest

from tests.table import padded_sizes
from tests.table.test_unknown_sizes import ROWS

# the rules that are easy to get wrong: places, bounds, joins, look-ups, masks
ALWAYS = {
    "concat",
    "cross_entropy",
    "cumsum",
    "gather",
    "layer_norm",
    "matmul",
    "mean",
    "roll",
    "slice",
    "softmax",
    "unfold",
}


def of(make, row):
    chosen = row.name in ALWAYS or zlib.crc32(row.name.encode()) % 100 == 7
    return pytest.param(make, row, id=f"{make.__name__}-{row.name}", marks=() if chosen else pytest.mark.full)


@pytest.mark.parametrize(("make", "row"), [of(make, row) for make, row in ROWS])
def test_row(make, row):
    found = padded_sizes.report(make(row))
    assert not found.problems, "\n".join(found.problems)


def test_what_may_be_padded_is():
    subjects = {
        row.name: make(row) for make, row in ROWS if row.name in ("softmax", "concat", "layer_norm", "multinomial")
    }
    assert {name: bool(padded_sizes.report(each).padded) for name, each in subjects.items()} == {
        "softmax": True, "concat": True, "layer_norm": True, "multinomial": False,
    }  # fmt: skip
