"""Rows of operators of which several calls can be made at once: the numbers are those of the calls one by one."""

from unittest import mock

import numpy as np
import pytest

import bireme
from bireme.core.declare.op import Op
from bireme.core.numpy_exec import batches
from tests.table.harness import Row, Sample, flat, is_data, same, tolerance, weigher
from tests.table.test_table import TABLE
from tests.table.unknown_sizes import in_single
from tests.test_batches import plans

CALLS = 12
ROWS = [
    row
    for row in TABLE
    if isinstance(row.target, Op) and (row.target.elementwise or row.target.rows_rule is not None)
    and row.law is None
]  # fmt: skip


def calls(row: Row, sample: Sample, varies: list[int]) -> list[np.ndarray]:
    """Results of some calls that differ in the rows of these tensors, and gradients of all tensors."""
    shared, weigh = [_tensor(a) for a in sample.leaves()], weigher()
    outs, wanted = [], dict.fromkeys([t for i, t in enumerate(shared) if i not in varies])
    for k in range(CALLS):
        own = [
            _tensor(np.roll(a, k, 0) if a.ndim else a) if i in varies else shared[i]
            for i, a in enumerate(sample.leaves())
        ]
        wanted |= dict.fromkeys(own)
        args, kwargs = sample.fill(own)
        outs += flat(row.fn(*args, **kwargs))
    roots = [t for t in outs if not t.stop_gradient]
    leaves = [t for t in wanted if not t.stop_gradient]
    gs = bireme.grad(roots, leaves, [weigh(t) for t in roots], allow_unused=True) if roots and leaves else []
    return [t.numpy() for t in [*outs, *[g for g in gs if g is not None]]]


def _tensor(a: np.ndarray) -> bireme.Tensor:
    return bireme.to_tensor(np.asarray(a), stop_gradient=not is_data(a))


def compared(row: Row) -> bool:
    """Whether calls were put together where any ran; fails where numbers differ."""
    made: list = []
    for sample in [in_single(s) for s in row.samples if not s.is_empty][:6]:
        for varies in {(0,), tuple(range(len(sample.leaves())))}:
            with plans(enabled=False):
                want = calls(row, sample, list(varies))
            with mock.patch.object(batches, "FEWEST_CALLS", 1), plans() as found:
                got = calls(row, sample, list(varies))
            made += found
            for i, (g, w) in enumerate(zip(got, want, strict=True)):
                same(g, w, 4 * tolerance(row, sample, g), f"({sample}), other rows in {varies}: value {i}")
    return any(made) or not made  # small masks are computed when they are recorded


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_calls_at_once(row):
    assert compared(row)


def test_the_check_catches():
    """An operator that says of dependent rows that they are not."""
    row = next(row for row in TABLE if row.name == "cumsum")
    with mock.patch.object(row.target, "elementwise", True), pytest.raises(AssertionError):
        compared(row)
