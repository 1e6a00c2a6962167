"""Rows of products with sparse matrices."""

import numpy as np

from tests.table.harness import COMPLEX, FLOAT, INT, Bad, Row, call
from tests.table.samples import floats

MATRICES = "matrices and their entries have axes"
NONE = np.zeros(0, np.int64)
BY_ROWS = (np.array([0, 0, 1, 3]), np.array([1, 2, 0, 2]))
BY_COLS = (np.array([2, 0, 3, 1]), np.array([0, 1, 1, 2]))
UNSORTED = (np.array([2, 0, 2, 1]), np.array([2, 0, 2, 1], np.int64))


def _product(values, rows, cols, dense, n):
    if values.ndim == 2:
        parts = np.split(dense, values.shape[1], axis=1)
        return np.concatenate(
            [_product(v, rows, cols, part, n) for v, part in zip(values.T, parts, strict=True)], axis=1
        )
    matrix = np.zeros((n, dense.shape[0]), values.dtype)
    np.add.at(matrix, (rows, cols), values)
    return matrix @ dense


def _stable_softmax(values, rows, n):
    out = np.zeros_like(values)
    for row in set(rows.tolist()):
        at = rows == row
        parts = np.exp(values[at] - values[at].max())
        out[at] = parts / parts.sum()
    return out


def _entries(x, y, rows, cols):
    return (x @ y.T)[rows, cols]


TABLE = [
    Row(
        "coo_product",
        [
            *[
                call(floats(4), *where, floats(3, width), 4)
                for where in (BY_ROWS, BY_COLS, UNSORTED)
                for width in (1, 9)
            ],
            call(floats(4), *[i.astype(np.int32) for i in BY_ROWS], floats(3, 2), 5),
            call(floats(4), *UNSORTED, floats(3), 4),
            call(floats(4, 2), *UNSORTED, floats(3, 6), 4),
            call(floats(4, 3), *BY_ROWS, floats(3, 9), 4),
            call(np.zeros(0), NONE, NONE, floats(3, 2), 2),
            call(floats(4), *BY_ROWS, np.zeros((3, 0)), 4),
        ],
        _product,
        dtypes=FLOAT | INT | COMPLEX,
        grad=2,
        skip={"0-d": MATRICES},
        bad=[
            Bad(
                call(floats(4), BY_ROWS[0], BY_ROWS[1], floats(3, 2), 3),
                "matmul(rows): expected indices in [0, 2]",
                IndexError,
            ),
            Bad(
                call(floats(3), BY_ROWS[0], BY_ROWS[1], floats(3, 2), 4),
                "matmul(rows): expected a 1-D integer tensor of 3",
            ),
            Bad(
                call(floats(4, 2), BY_ROWS[0], BY_ROWS[1], floats(3, 3), 4),
                "matmul(values): expected a vector, or columns of which 3 is a multiple, got shape [4, 2]",
            ),
        ],
    ),
    Row(
        "product_entries",
        [
            *[call(floats(4, 5), floats(3, 5), *where) for where in (BY_ROWS, BY_COLS, UNSORTED)],
            call(floats(4, 5), floats(3, 5), NONE, NONE),
            call(np.zeros((4, 0)), np.zeros((3, 0)), *BY_ROWS),
        ],
        _entries,
        dtypes=FLOAT | INT | COMPLEX,
        grad=2,
        skip={"0-d": MATRICES},
        bad=[
            Bad(
                call(floats(4, 5), floats(3, 5), BY_ROWS[0], BY_ROWS[1][:2]),
                "masked_matmul(cols): expected a 1-D integer tensor of 4 elements",
            ),
        ],
    ),
    Row(
        "row_softmax",
        [
            *[call(floats(4), where[0], 4) for where in (BY_ROWS, UNSORTED)],
            call(floats(5), np.array([3, 0, 3, 3, 0], np.int32), 6),
            call(np.array([-1e30, 1e30, 5.0, 1e30]), np.array([1, 1, 0, 1]), 2),
            call(np.zeros(0), NONE, 2),
        ],
        _stable_softmax,
        dtypes=FLOAT,
        grad=2,
        skip={"0-d": MATRICES},
        bad=[Bad(call(floats(2), np.array([0, 2]), 2), "softmax(rows): expected indices in [0, 1]", IndexError)],
    ),
]
