"""Rows of factors of matrices; factors that are not unique are held to what defines them."""

import numpy as np

from bireme.ops._shared.matrix import LAPACK
from tests.table.harness import COMPLEX, Bad, Row, call, real
from tests.table.samples import floats

REAL = LAPACK - COMPLEX
NO_NUMBER = {"0-d": "a number is no matrix"}
MIRRORED = "the gradient is that of symmetric matrices: half of it stands in the triangle that is not read (tests/test_linalg.py)"
TURNED = "vectors are only given up to a phase (tests/test_linalg.py)"


def definite(*shape, seed=0):
    """Symmetric and positive definite, whichever type it takes."""
    x = floats(*shape, low=-0.4, high=0.4, seed=seed)
    return x + np.swapaxes(x, -1, -2) + np.diag(np.arange(4.0, 4 + shape[-1]))


def symmetric(*shape, seed=0):
    signs = np.array([1.0, -1.0, 0.5, 2.0])[: shape[-1]]
    return definite(*shape, seed=seed) * signs * signs[:, None] / 3


def mirrored(x, lower):
    part = np.tril(x, -1) if lower else np.triu(x, 1)
    return part + H(part) + np.real(x) * np.eye(x.shape[-1])


def H(x):
    return np.conj(np.swapaxes(x, -1, -2))


def close(a, b):
    """Equal up to the precision of the narrower one."""
    eps = max(np.finfo(t.dtype).eps for t in (a, b))
    return a.shape == b.shape and np.allclose(a, b, rtol=0, atol=200 * eps * (1 + np.abs(b).max(initial=0)))


def unitary(q):
    return close(H(q) @ q, np.broadcast_to(np.eye(q.shape[-1], dtype=q.dtype), (*q.shape[:-2], q.shape[-1], q.shape[-1])))


def same_type(x, *parts):
    return all(p.dtype == x.dtype for p in parts)


def _cholesky(found, x, upper=False):
    lower = H(found) if upper else found
    return same_type(x, found) and np.array_equal(lower, np.tril(lower)) and close(lower @ H(lower), mirrored(x, not upper).astype(x.dtype))


def _qr(found, x, mode="reduced"):
    m, n = x.shape[-2:]
    k = m if mode in ("complete", True) else min(m, n)
    if mode == "r":
        return same_type(x, found) and np.array_equal(found, np.triu(found)) and close(H(found) @ found, H(x) @ x)
    q, r = found
    return same_type(x, q, r) and q.shape[-1] == k and np.array_equal(r, np.triu(r)) and unitary(q) and close(q @ r, x)


def _permuted(x, pivots):
    x = x.copy()
    for place in np.ndindex(*pivots.shape[:-1]):
        for i, p in enumerate(pivots[place]):
            x[place][[i, p - 1]] = x[place][[p - 1, i]]
    return x


def _parts(lu):
    m, n = lu.shape[-2:]
    k = min(m, n)
    return np.tril(lu[..., :k], -1) + np.eye(m, k, dtype=lu.dtype), np.triu(lu[..., :k, :])


def _lu(found, x, pivot=True, get_infos=False):
    lu, pivots = found[:2]
    lower, upper = _parts(lu)
    first = np.zeros(x.shape[:-2], np.int32)
    return (
        same_type(x, lu) and pivots.dtype == np.int32 and close(lower @ upper, _permuted(x, pivots)) and np.abs(lower).max(initial=0) < 2
        and (not get_infos or np.array_equal(found[2], first))
    )  # fmt: skip


def _lu_of(found, x):
    lu, pivots, order, info = found
    rows = np.broadcast_to(np.arange(x.shape[-2])[:, None], (*x.shape[:-1], 1))
    return _lu((lu, pivots, info), x, get_infos=True) and np.array_equal(order, _permuted(rows, pivots)[..., 0])


def _svd(found, x, full_matrices=False):
    u, s, vh = found
    k, (m, n) = s.shape[-1], x.shape[-2:]
    shapes = (u.shape[-1], vh.shape[-2]) == ((m, n) if full_matrices else (min(m, n),) * 2)
    falling = np.all(np.diff(s) <= 0) and np.all(s >= 0)
    return same_type(x, u, vh) and shapes and falling and unitary(u) and unitary(H(vh)) and close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x)


def _eigh(found, x, UPLO="L"):
    w, v = found
    return same_type(x, v) and w.dtype == x.real.dtype and np.all(np.diff(w) >= 0) and unitary(v) and close(
        v @ (w[..., :, None] * H(v)), mirrored(x, UPLO == "L").astype(x.dtype))  # fmt: skip


def _eig(found, x):
    w, v = found
    return w.dtype == v.dtype == np.result_type(x, 1j) and close(x @ v, v * w[..., None, :]) and close(np.linalg.norm(v, axis=-2), np.ones(w.shape))


def _eigvals(found, x):
    want = np.linalg.eigvals(x).astype(found.dtype)
    near = np.abs(found[..., :, None] - want[..., None, :]).min(-1) if found.size else np.zeros(0)
    return found.dtype == np.result_type(x, 1j) and found.shape == x.shape[:-1] and np.all(near < 1e3 * np.finfo(found.dtype).eps)


def _by_squares(x):
    return np.sqrt(np.linalg.eigvalsh(x @ H(x))[..., ::-1][..., : min(x.shape[-2:])])


def shape_errors(name, *more, square=True):
    first = Bad(call(floats(3), *more), f"{name}(x): expected a matrix or a batch of matrices, got shape [3]")
    return [first, Bad(call(floats(2, 3), *more), f"{name}(x): expected square matrices, got shape [2, 3]")] if square else [first]


_rectangles = [floats(4, 3), floats(3, 4), floats(2, 3, 3), floats(3, 3)]
_empties = [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 0, 0)), np.zeros((0, 2, 2))]
_real_and_pairs = np.array([[1.0, 2.0, 0.5], [-2.0, 1.5, 0.3], [0.2, -0.4, 3.0]])
_no_rule = {"gradient rule": MIRRORED}


def hermitian(d):
    """A step from one Hermitian matrix to another: the derivative of both triangles, of which one is read."""
    return d + H(d)


TABLE = [
    Row("cholesky_of", [call(definite(3, 3), False), call(definite(2, 3, 3), False), call(definite(3, 3), True), call(np.zeros((0, 0)), False),
                        call(np.zeros((2, 0, 0)), True), call(np.zeros((0, 3, 3)), False)], law=_cholesky, dtypes=LAPACK, along=hermitian,
        skip=NO_NUMBER | _no_rule,
        bad=shape_errors("cholesky", False)),
    Row("cholesky", [call(definite(3, 3)), call(definite(2, 3, 3)), call(definite(3, 3), upper=True), call(np.zeros((0, 0)))], law=_cholesky,
        dtypes=LAPACK, skip=NO_NUMBER, along=hermitian,
        bad=[*shape_errors("cholesky"), Bad(call(-definite(3, 3)), "cholesky(x): expected positive definite matrices, got a matrix that is not")]),
    Row("qr_of", [*[call(x, False) for x in _rectangles], call(floats(3, 3), True), call(floats(3, 4), True), *[call(x, False) for x in _empties]],
        law=_qr, dtypes=LAPACK, skip=NO_NUMBER, bad=shape_errors("qr", False, square=False)),
    Row("qr", [call(floats(4, 3)), call(floats(4, 3), mode="r"), call(floats(2, 3, 4)), call(floats(3, 3), mode="complete"), call(np.zeros((0, 3)))],
        law=_qr, dtypes=LAPACK, skip=NO_NUMBER,
        bad=[*shape_errors("qr", square=False), Bad(call(floats(3, 3), mode="x"), "qr(mode): expected 'reduced', 'complete' or 'r', got 'x'")]),
    Row("lu_of", [*map(call, _rectangles), *map(call, _empties)], law=_lu_of, dtypes=LAPACK,
        skip=NO_NUMBER | {"gradient rule": "some of its results are integers"}, bad=shape_errors("lu", square=False)),
    Row("lu", [call(floats(4, 3)), call(floats(2, 3, 3), get_infos=True), call(floats(3, 4), True, True), call(np.zeros((0, 3)))], law=_lu,
        dtypes=LAPACK, skip=NO_NUMBER,
        bad=[*shape_errors("lu", square=False), Bad(call(floats(3, 3), pivot=False), "lu(pivot): expected True, since LU without pivoting is not supported")]),
    Row("svd", [*map(call, _rectangles), call(definite(4, 4)[:, :3], full_matrices=True), *map(call, _empties)], law=_svd, dtypes=REAL,
        unchecked=COMPLEX, skip=NO_NUMBER, bad=shape_errors("svd", square=False)),
    Row("svdvals", [*map(call, _rectangles), *map(call, _empties)], _by_squares,
        dtypes=LAPACK, out=real, loose=(30, "squares lose digits"), skip=NO_NUMBER,
        bad=shape_errors("svdvals", square=False)),
    Row("eigh", [call(symmetric(3, 3)), call(symmetric(2, 3, 3)), call(symmetric(4, 4), UPLO="U"), call(np.zeros((0, 0))), call(np.zeros((0, 2, 2)))],
        law=_eigh, dtypes=REAL, unchecked=COMPLEX, skip=NO_NUMBER | _no_rule, along=hermitian,
        bad=[*shape_errors("eigh"), Bad(call(floats(3, 3), UPLO="X"), "eigh(UPLO): expected 'L' or 'U', got 'X'")]),
    Row("eigvalsh", [call(symmetric(3, 3)), call(symmetric(2, 3, 3)), call(symmetric(4, 4), UPLO="U"), call(np.zeros((0, 0)))],
        lambda x, UPLO="L": np.sort(np.linalg.eigvals(mirrored(x, UPLO == "L")).real), dtypes=LAPACK,
        out=real, loose=(3, "by another algorithm"), skip=NO_NUMBER | _no_rule, along=hermitian,
        bad=[*shape_errors("eigvalsh"), Bad(call(floats(3, 3), UPLO="X"), "eigvalsh(UPLO): expected 'L' or 'U', got 'X'")]),
    Row("eig", [call(_real_and_pairs), call(floats(2, 3, 3)), call(np.zeros((0, 0))), call(np.zeros((0, 2, 2)))], law=_eig, dtypes=LAPACK,
        skip=NO_NUMBER | {"gradient": TURNED, "second order": TURNED, "gradient rule": TURNED}, bad=shape_errors("eig")),
    Row("eigvals", [call(_real_and_pairs), call(floats(2, 3, 3)), call(np.zeros((0, 0)))], law=_eigvals, dtypes=LAPACK, skip=NO_NUMBER,
        bad=shape_errors("eigvals")),
]  # fmt: skip
