"""Rows of running sums, products and extremes."""

import numpy as np

from bireme.core.base import dtype as dtypes
from tests.table.harness import BOOL, FLOAT, INT, NUMBER, REAL, Bad, Row, call
from tests.table.pairs import exact
from tests.table.samples import NONFINITE, floats

NONE = np.zeros((2, 0, 3))


def _runs():
    return [call(floats(2, 3)), call(floats(2, 3), 0), call(floats(2, 3, 2), -2), call(floats()), call(floats(), 0), call(NONE, 1),
            call(np.array(NONFINITE))]  # fmt: skip


def _running(key="axis"):
    return [*_runs(), call(floats(2, 3), **{key: 1}), call(np.array([3, 1, 2]), dtype="float64")]


def axis_error(name, key="axis"):
    return Bad(call(floats(2, 3), **{key: 5}), f"{name}({key}): expected an axis in [-2, 1], got 5")


def _cumsum(x, axis=None, dtype=None):
    return np.cumsum(x, axis=axis) if x.ndim or axis is None else x


def _cumprod(x, dim=None, dtype=None):
    return np.cumprod(x, axis=dim) if x.ndim or dim is None else x


def _logcumsumexp(x, axis=None, dtype=None):
    if not x.ndim and axis is not None:
        return x
    return (
        np.logaddexp.accumulate(x.reshape(-1) if axis is None else x, axis=axis or 0)
        if x.size
        else x.reshape(x.shape if axis is not None else -1)
    )


def _extremes(better):
    def ref(x, axis=None, dtype=None):
        if not x.ndim and axis is not None:
            return x, np.zeros((), int)
        line = np.moveaxis(x.reshape(-1) if axis is None else x, axis or 0, 0)
        values, places = line.copy(), np.zeros(line.shape, int)
        for i in range(1, len(line)):
            for j in np.ndindex(line.shape[1:]):
                new, old = line[(i, *j)], values[(i - 1, *j)]
                take = (
                    np.isnan(new) or (not np.isnan(old) and better(new, old))
                    if line.dtype.kind == "f"
                    else better(new, old)
                )
                values[(i, *j)], places[(i, *j)] = (new, i) if take else (old, places[(i - 1, *j)])
        back = [np.moveaxis(a, 0, axis or 0) for a in (values, places)]
        return back[0], back[1]

    return ref


_ties = np.array([2.0, 2.0, 1.0, 1.0, 3.0, 3.0])


def _extreme(name, better):
    samples = [
        *_runs(),
        call(_ties),
        call(_ties[::-1].copy()),
        call(floats(2, 3), axis=1, dtype="int32"),
        call(np.array([1.0, np.nan, 0.0, np.nan])),
    ]
    return Row(name, samples, law=exact(_extremes(better)), dtypes=REAL,
               skip={"gradient rule": "the places are integers, which have no gradient to compare"},
               bad=[axis_error(name), Bad(call(floats(2, 3), dtype="float32"), f"{name}(dtype): expected int32 or int64, got float32")])  # fmt: skip


_zeros = [call(np.array([2.0, 0.0, 3.0, 4.0])), call(np.array([[0.0, 0.0, 1.0, 2.0], [1.0, 2.0, 0.0, 5.0]]), 1)]

TABLE = [
    Row("cumsum", [*_running(), call(floats(3, 70), 0), call(np.array([2**31 - 1, 1], np.int32))], _cumsum, dtypes=NUMBER, unchecked=BOOL,
        out=lambda d: d if d.is_inexact else dtypes.int64, bad=[axis_error("cumsum")]),
    Row("cumprod", [*_running("dim"), *_zeros], _cumprod, dtypes=NUMBER,
        bad=[axis_error("cumprod", "dim"), Bad(call(np.array([True, False])), "cumprod(x): expected a numeric tensor, or dtype=", TypeError)]),
    Row("logcumsumexp", [call(floats(2, 3)), call(floats(2, 3, 2), -2), call(np.array([3, 1, 2]), dtype="float64"), call(floats()), call(NONE, 1),
        call(np.array([1000.0, -1000.0, 1000.0])), call(np.array([-np.inf, -np.inf, 1.0])), call(np.array(NONFINITE))],
        _logcumsumexp, dtypes=FLOAT, unchecked=INT | BOOL, bad=[axis_error("logcumsumexp")]),
    _extreme("cummax", lambda new, old: new >= old),
    _extreme("cummin", lambda new, old: new <= old),
]  # fmt: skip
