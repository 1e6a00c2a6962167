"""Rows of distances between sequences."""

import numpy as np

from tests.table.harness import ALL, Bad, Row, call
from tests.table.samples import ints

NONE = frozenset()  # it takes integers alone
SEQUENCES = {"0-d": "it takes rows of tokens"}


def _edits(x, y):
    """By the definition: the last tokens agree, or one of three edits."""
    if not len(x) or not len(y):
        return len(x) + len(y)
    same = _edits(x[:-1], y[:-1]) + (x[-1] != y[-1])
    return min(same, _edits(x[:-1], y) + 1, _edits(x, y[:-1]) + 1)


def _each(x, y, m, n):
    return np.array([_edits(a[:i], b[:j]) for a, b, i, j in zip(x, y, m, n, strict=True)], "float32")


def _both(x, y, normalized=True, ignored_tokens=None, input_length=None, label_length=None):
    m = np.full(len(x), x.shape[1]) if input_length is None else np.ravel(input_length)
    n = np.full(len(y), y.shape[1]) if label_length is None else np.ravel(label_length)
    found = _each(x, y, m, n) / (n if normalized else 1)
    return np.array([len(x)]), found.reshape(-1, 1).astype("float32")


_X, _Y = ints(4, 3, high=3), ints(4, 4, high=3, seed=1)
_M, _N = np.array([3, 0, 2, 1]), np.array([4, 2, 0, 4])

TABLE = [
    Row("edit_distance_of", [call(_X, _Y, _M, _N), call(_Y, _X, _N, _M), call(_X[:, :0], _Y, _M * 0, _N), call(_X[:0], _Y[:0], _M[:0], _N[:0])],
        _each, dtypes=NONE, unchecked=ALL, out="float32", grad=0, skip=SEQUENCES,
        bad=[Bad(call(_X, _Y, np.array([3, 0, 4, 1]), _N), "edit_distance(input_length): expected indices in [0, 3], got 4", IndexError),
             Bad(call(_X, _Y[:2], _M, _N), "edit_distance(label): expected two matrices with one row per sequence"),
             Bad(call(_X, _Y, _M[:1], _N), "edit_distance(input_length): expected one length for each of 4 rows")]),
    Row("edit_distance", [call(_X, _Y), call(_X, _Y, False, None, _M, _N), call(_X[:0], _Y[:0]),
        call(_X, _Y, input_length=_M[:, None], label_length=np.maximum(_N, 1)[:, None])], _both, dtypes=NONE, unchecked=ALL, out="ref", grad=0,
        skip=SEQUENCES, bad=[Bad(call(_X, _Y, True, [1]), "edit_distance(ignored_tokens): expected None")]),
]  # fmt: skip
