"""Rows of segments: rows put together by numbers that say where they go."""

import numpy as np

from tests.table.harness import FLOAT, INT, Bad, Row, call
from tests.table.samples import floats

VALUES = "the shape of its result depends on values"
NO_SCALAR = "rows are counted along the first axis"
IDS = np.array([0, 0, 2, 2, 2])


def _pool(x, index, pool, rows):
    out = np.zeros((rows, *x.shape[1:]), x.dtype)
    for i in range(rows):
        part = x[index == i]
        if len(part):
            found = {"sum": part.sum, "mean": part.mean, "max": part.max, "min": part.min}[pool](axis=0)
            out[i] = np.trunc(found) if x.dtype.kind in "iu" else found
    return out


def _ties(w, x, index, pool, rows):
    """Each row that is the largest gets the whole gradient; a mean is shared."""
    out, grad = _pool(x, index, pool, rows), np.zeros_like(x)
    for k, i in enumerate(index):
        part = 1.0 if pool == "sum" else 1 / np.sum(index == i) if pool == "mean" else (x[k] == out[i]).astype(float)
        grad[k] = w[i] * part
    return grad


def _segments(pool):
    return lambda data, segment_ids: _pool(data, segment_ids.ravel(), pool, int(segment_ids.max(initial=-1)) + 1)


def _samples():
    return [
        call(floats(5, 2), IDS),
        call(floats(5), IDS.astype(np.int32)),
        call(floats(3, 2, 2), np.array([1, 1, 3])),
        call(np.array([1.0, 1.0, 3.0]), np.array([[0], [0], [1]])),
        call(np.zeros((0, 2)), np.zeros(0, np.int64)),
        call(np.zeros((2, 0)), np.array([0, 1])),
    ]


def _bad(name):
    where = f"{name}(segment_ids): expected "
    return [
        Bad(call(floats(3), np.array([1, 0, 2])), f"{where}non-decreasing integers, got 1 before 0"),
        Bad(call(floats(2), np.array([-1, 0])), f"{where}non-negative integers, got -1", IndexError),
        Bad(call(floats(2), np.array([0])), f"{where}one element per row of data of shape [2], got shape [1]"),
        Bad(call(floats(2), np.array([0.5, 1.0])), f"{where}int32 or int64", TypeError),
        Bad(call(floats(), np.array([0])), f"{where}one element per row"),
    ]


POOLED = [call(floats(5, 2), np.array([3, 0, 0, 3, 1]), p, 4) for p in ("sum", "mean", "max", "min")]
TIED = [call(np.array([2.0, 5.0, 2.0, 5.0]), np.array([0, 0, 0, 0]), p, 2) for p in ("max", "min")]
EMPTY = [call(np.zeros((0, 2)), np.zeros(0, np.int64), p, 2) for p in ("mean", "max")]


def _neighbors(x, src, dst, rows, mean=False):
    return _pool(x[src], dst, "mean" if mean else "sum", rows)


SRC, DST = np.array([2, 0, 1, 2, 2]), np.array([1, 3, 1, 0, 1])
TABLE = [
    Row(
        "sum_neighbors",
        [
            *[call(floats(3, *dims), SRC, DST, 4, mean) for dims in ((), (2,), (2, 9)) for mean in (False, True)],
            call(floats(3, 2), SRC.astype(np.int32), np.sort(DST).astype(np.int32), 5),
            call(floats(3, 2), np.zeros(0, np.int64), np.zeros(0, np.int64), 2, True),
            call(np.zeros((3, 0)), SRC, DST, 4),
        ],
        _neighbors,
        dtypes=FLOAT | INT,
        grad=2,
        skip={"0-d": NO_SCALAR},
        bad=[
            Bad(
                call(floats(2), np.array([0, 2]), np.array([0, 0]), 3),
                "sum_neighbors(src): expected indices in [0, 1]",
                IndexError,
            ),
            Bad(
                call(floats(2), np.array([0, -1]), np.array([0, 0]), 3),
                "sum_neighbors(src): expected indices in [0, 1]",
                IndexError,
            ),
            Bad(
                call(floats(2), np.array([0, 0]), np.array([0, 3]), 3),
                "sum_neighbors(dst): expected indices in [0, 2]",
                IndexError,
            ),
        ],
    ),
    Row(
        "pool_rows",
        [*POOLED, *TIED, *EMPTY],
        _pool,
        dtypes=FLOAT | INT,
        grad_ref=_ties,
        skip={"0-d": NO_SCALAR},
        bad=[
            Bad(call(floats(2), np.array([0, 5]), "sum", 3), "pool_rows(index): expected", IndexError),
            Bad(call(floats(2), np.array([[0], [1]]), "sum", 3), "pool_rows(index): expected a 1-D integer tensor"),
        ],
    ),
    *[
        Row(
            f"segment_{p}",
            _samples(),
            _segments(p),
            dtypes=FLOAT | INT,
            skip={"0-d": NO_SCALAR, "static": VALUES},
            bad=_bad(f"segment_{p}"),
        )
        for p in ("sum", "mean", "max", "min")
    ],
]
