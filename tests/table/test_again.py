"""The same call again, on other numbers: what is remembered of a call must not know the numbers of the first one."""

import numpy as np
import pytest

import bireme
from bireme.core.graph import executor
from tests.table.harness import Row, Sample, flat, is_data
from tests.table.test_table import PARTS

TURNS = (0, 1, 2, 1, 0)  # by how much the elements are rotated


def outcome(row: Row, sample: Sample, turn: int) -> list | tuple:
    """Results and gradients, or the error."""
    leaves = sample.leaves()
    turned = [
        np.roll(np.asarray(a).ravel(), turn).reshape(np.shape(a)) if is_data(a) else np.asarray(a) for a in leaves
    ]
    xs = [bireme.to_tensor(a, stop_gradient=not is_data(leaf)) for a, leaf in zip(turned, leaves, strict=True)]
    args, kwargs = sample.fill(xs)
    bireme.seed(11)
    try:
        outs = flat(row.fn(*args, **kwargs))
        roots = [t for t in outs if not t.stop_gradient and t.dtype.is_inexact]
        wanted = [x for x in xs if not x.stop_gradient]
        grads = (
            bireme.grad(roots, wanted, [bireme.full_like(t, 0.5) for t in roots], allow_unused=True)
            if roots and wanted
            else []
        )
        return [None if t is None else (t.dtype.name, t._host()) for t in [*outs, *grads]]
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as e:
        return type(e).__name__, str(e).splitlines()[0]


def alike(a: list | tuple, b: list | tuple) -> bool:
    if isinstance(a, tuple) or isinstance(b, tuple) or len(a) != len(b):
        return a == b
    for x, y in zip(a, b, strict=True):
        if x is None or y is None or x[0] != y[0] or x[1].shape != y[1].shape:
            if x is not y:
                return False
        elif not np.allclose(*[v[1].astype(np.complex128) for v in (x, y)], rtol=1e-5, atol=1e-6, equal_nan=True):
            return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__.rpartition("rows_")[2])
def test_the_same_calls_on_other_numbers(part, full):
    wrong = []
    for row in part.TABLE:
        answered = False
        for sample in row.samples if full else row.samples[:3]:
            with executor.use("interpreter"):
                found = [outcome(row, sample, turn) for turn in TURNS]
                bireme.set_flags({"FLAGS_op_at_once": True})
                try:
                    wanted = [outcome(row, sample, turn) for turn in sorted(set(TURNS))]
                finally:
                    bireme.set_flags({"FLAGS_op_at_once": False})
            answered = answered or isinstance(found[0], list)
            if not all(alike(got, wanted[turn]) for got, turn in zip(found, TURNS, strict=True)):
                wrong.append(f"{row.name}({sample})")
        if not answered:
            wrong.append(f"{row.name}: only errors")
    assert not wrong
