"""Rows of norms, condition numbers and distances."""

import numpy as np

from tests.table.harness import COMPLEX, FLOAT, Bad, Row, call, real
from tests.table.linalg.decompositions import LAPACK, NO_NUMBER
from tests.table.linalg.solve import regular
from tests.table.samples import floats

INEXACT = FLOAT | COMPLEX
INF = float("inf")


def _p_norm(x, p=2.0, axis=None, keepdim=False):
    axes = [] if axis is None or x.ndim == 0 else list(axis) if isinstance(axis, (list, tuple)) else [axis]
    axes = tuple(axes or range(x.ndim))
    size = np.abs(x)
    if np.prod([x.shape[a] for a in axes]) == 0:
        return np.sum(size, axis=axes, keepdims=keepdim)
    if abs(p) == INF:
        return (np.max if p > 0 else np.min)(size, axis=axes, keepdims=keepdim)
    if p == 0:
        return np.sum(size != 0, axis=axes, keepdims=keepdim).astype(float)
    return np.sum(size**p, axis=axes, keepdims=keepdim) ** (1 / p)


def _matrix_norm(x, p="fro", axis=(-2, -1), keepdim=False):
    return np.linalg.norm(x, p, tuple(axis), keepdim)


def _norm(x, p=None, axis=None, keepdim=False, dtype=None):
    if isinstance(axis, (list, tuple)) and len(axis) == 2:
        return _matrix_norm(x, 2 if p is None else p, axis, keepdim)
    return _matrix_norm(x, p, (0, 1), keepdim) if p == "nuc" else _p_norm(x, 2 if p in (None, "fro") else p, axis, keepdim)


def _cond(x, p=None):
    if x.size == 0:
        return np.zeros(x.shape[:-2])
    return np.linalg.cond(x, p)


def _cdist(x, y, p=2.0, compute_mode=""):
    return _p_norm(x[..., :, None, :] - y[..., None, :, :], p, -1)


def _pdist(x, p=2.0):
    i, j = np.triu_indices(len(x), 1)
    return _p_norm(x[i] - x[j], p, -1)


def _with_ties(w, x, p, axis, keepdim):
    """Each of equal extremes gets all of the gradient, and a zero none."""
    size, out = np.abs(x), _p_norm(x, p, axis, True)
    w = w.reshape(out.shape)
    sign = np.where(size == 0, 0, x / np.where(size == 0, 1, size))
    if abs(p) == INF:
        return w * sign * (size == out)
    with np.errstate(all="ignore"):
        part = np.where(size == 0, 0, sign * (size / np.where(out == 0, 1, out)) ** (p - 1))
    return w * (sign if p == 1 else part if p else 0 * x)


_cube = floats(2, 3, 4)
_ties = np.array([3.0, -3.0, 0.0, 1.0, 1.0])
_p_norms = [
    call(_cube, 2, None, False), call(floats(2, 3), 3.0, 1, True), call(_cube, 1, [0, 2], False), call(_cube, 0.5, 1, False),
    call(_cube, INF, 0, False), call(_cube, -INF, -1, True), call(floats(5), -2, None, False), call(_cube, 0, 1, False),
    call(floats(), 2, None, False),
    *[call(_ties, p, None, False) for p in (1, 2, 3, INF, 0.5, 0)], call(np.zeros(3), 2, None, False), call(np.zeros(0), INF, None, False),
    call(np.zeros((2, 0, 3)), -1, 1, False), call(np.zeros((2, 0, 3)), 2, 0, True),
]  # fmt: skip
_rows = floats(4, 3), floats(2, 3, seed=1)

TABLE = [
    Row("p_norm", _p_norms, _p_norm, dtypes=INEXACT, out=real, grad_ref=_with_ties,
        bad=[Bad(call(floats(2, 3), 2, 5, False), "p_norm(axis): expected an axis in [-2, 1], got 5")]),
    Row("vector_norm", [call(_cube), call(floats(2, 3), 3.0, axis=1, keepdim=True), call(_cube, 1, [0, 2]), call(_cube, p=INF), call(floats()),
                        call(np.zeros(0))], _p_norm, dtypes=INEXACT, out=real,
        bad=[Bad(call(floats(2, 3), "fro"), "vector_norm(p): expected a number, got 'fro'", TypeError)]),
    Row("matrix_norm", [call(floats(2, 3)), call(_cube, 1), call(_cube, "nuc"), call(_cube, 2, axis=[0, 1]), call(_cube, -2, [2, 0], keepdim=True),
                        call(_cube, -1, [1, 0]), call(_cube, INF, keepdim=True), call(_cube, -INF), call(np.zeros((0, 3))),
                        call(np.zeros((0, 2, 3)), 1)], _matrix_norm, dtypes=INEXACT, out=real, skip=NO_NUMBER,
        bad=[Bad(call(floats(3)), "matrix_norm(x): expected a matrix or a batch of matrices, got shape [3]"),
             Bad(call(floats(2, 3), 3), "matrix_norm(p): expected 'fro', 'nuc', 1, 2, infinity or their negatives for matrices, got 3"),
             Bad(call(floats(2, 3), "foo"), "matrix_norm(p): expected 'fro', 'nuc' or a number, got 'foo'"),
             Bad(call(floats(2, 3), axis=0), "matrix_norm(axis): expected two axes, got 0", TypeError),
             Bad(call(floats(2, 3), axis=[0, 0]), "matrix_norm(axis): expected two different axes, got [0, 0]")]),
    Row("norm", [call(floats(2, 3)), call(_cube, 3, axis=1), call(_cube, "fro", axis=[0, 1], keepdim=True), call(floats(2, 3), "nuc"),
                 call(_cube, p=1, axis=[0, 1]), call(_cube, axis=[-1, 0]), call(_cube, 2, axis=[1]), call(_cube, INF, axis=[0, 1, 2]),
                 call(_cube, "fro", keepdim=True), call(_cube, 1, axis=()), call(floats()), call(np.zeros((2, 0))),
                 call(np.zeros((2, 0, 3)), 1, axis=1)], _norm, dtypes=INEXACT, out=real,
        bad=[Bad(call(floats(2, 3), "foo"), "norm(p): expected a number for this axis; 'fro' and 'nuc' are norms of matrices, got 'foo'", TypeError),
             Bad(call(floats(2, 3), 3, axis=[0, 1]), "norm(p): expected 'fro', 'nuc', 1, 2, infinity or their negatives for matrices, got 3"),
             Bad(call(floats(2, 3), [2]), "norm(p): expected a number, 'fro' or 'nuc', got (2,)", TypeError)]),
    Row("cond", [call(regular(3, 3)), call(regular(2, 3, 3), p="fro"), call(floats(2, 3), -2), call(regular(3, 3), "nuc"), call(regular(2, 2), 1),
                 call(regular(3, 3), -INF), call(np.zeros((0, 3, 3)))], _cond, dtypes=LAPACK, out=real, skip=NO_NUMBER,
        bad=[Bad(call(floats(2, 3), 1), "cond(x): expected square matrices, got shape [2, 3]"),
             Bad(call(floats(2, 2), 3), "cond(p): expected None, 'fro', 'nuc', 1, 2, infinity or their negatives, got 3")]),
    Row("dist", [call(floats(2, 3), floats(2, 3, seed=1)), call(floats(2, 1), floats(3), p=1), call(floats(2, 3), floats(3), INF),
                 call(floats(), floats(seed=1)), call(np.zeros((0, 3)), np.zeros(3))], lambda x, y, p=2: _p_norm(x - y, p), dtypes=INEXACT, out=real,
        bad=[Bad(call(floats(2), floats(3)), "dist(): expected shapes that broadcast together, got shapes [2] and [3]")]),
    Row("euclidean", [call(*_rows), call(floats(2, 2, 3), floats(4, 3)), call(np.zeros((0, 3)), floats(4, 3))], _cdist, dtypes=INEXACT, out=real,
        skip=NO_NUMBER, loose=(30, "differences of squares")),
    Row("cdist", [call(*_rows), call(floats(2, 2, 3), floats(4, 3), 1.0), call(*_rows, p=3), call(*_rows, compute_mode="use_mm_for_euclid_dist"),
                  call(*_rows, INF, "donot_use_mm_for_euclid_dist"), call(floats(26, 2), floats(1, 2)),
                  call(np.zeros((2, 0)), np.zeros((3, 0)))], _cdist, dtypes=INEXACT, out=real, skip=NO_NUMBER, loose=(30, "differences of squares"),
        bad=[Bad(call(floats(2, 3), floats(2, 4)), "cdist(y): expected a last dimension of size 3 to match x, got shape [2, 4]"),
             Bad(call(floats(2, 3), floats(2, 3), -1.0), "cdist(p): expected a non-negative number, got -1.0"),
             Bad(call(floats(3), floats(2, 3)), "cdist(x): expected a matrix or a batch of matrices, got shape [3]"),
             Bad(call(floats(2, 3), floats(2, 3), compute_mode="x"), "cdist(compute_mode): expected 'use_mm_for_euclid_dist_if_necessary' or 'use_mm_for_euclid_dist' or 'donot_use_mm_for_euclid_dist'")]),
    Row("pdist", [call(floats(4, 3)), call(floats(3, 2), 1.0), call(floats(3, 2), p=INF), call(np.zeros((0, 3))), call(floats(1, 3))], _pdist,
        dtypes=INEXACT, out=real, skip=NO_NUMBER, bad=[Bad(call(floats(3)), "pdist(x): expected a matrix, got shape [3]")]),
]  # fmt: skip
