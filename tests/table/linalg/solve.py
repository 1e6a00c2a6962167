"""Rows of solutions, inverses and functions of matrices."""

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.ops._shared.matrix import LAPACK
from tests.table.harness import COMPLEX, FLOAT, Bad, Row, call, still
from tests.table.linalg.decompositions import NO_NUMBER, H, _parts, close, definite, shape_errors
from tests.table.samples import floats, ints

INEXACT = FLOAT | COMPLEX
REAL = LAPACK - COMPLEX
LARGE = "products of large factors"
SECOND = "squares of the sizes of condition numbers"


def regular(*shape, seed=0):
    """Well away from singular."""
    return floats(*shape, low=-1, high=1, seed=seed) + np.diag(np.arange(2.0, 2 + shape[-1]))


def _inverse(x):
    return np.linalg.pinv(x) if x.size else x


def _slogdet(x):
    sign, log = np.linalg.slogdet(x)
    return np.stack([sign, log])


def _solve(x, y, left=True):
    if not left:
        return np.swapaxes(_solve(np.swapaxes(x, -1, -2), np.swapaxes(y, -1, -2)), -1, -2)
    if y.ndim == 1 or y.shape == x.shape[:-1]:
        return (np.linalg.inv(x) @ y[..., None])[..., 0]
    return np.linalg.inv(x) @ y


def _triangle(x, upper, unit):
    x = np.triu(x) if upper else np.tril(x)
    eye = np.eye(x.shape[-1])
    return x * (1 - eye) + eye if unit else x


def _triangular(x, y, upper=True, transpose=False, unitriangular=False):
    x = _triangle(x, upper, unitriangular)
    return np.linalg.inv(np.swapaxes(x, -1, -2) if transpose else x) @ y


def _cholesky_solve(x, y, upper=False):
    y = _triangle(y, upper, False)
    return np.linalg.inv(H(y) @ y if upper else y @ H(y)) @ x


def _order(pivots, n):
    order = np.broadcast_to(np.arange(n), (*pivots.shape[:-1], n)).copy()
    for place in np.ndindex(*pivots.shape[:-1]):
        for i, p in enumerate(pivots[place]):
            order[place][[i, p - 1]] = order[place][[p - 1, i]]
    return np.eye(n)[order]


def _row_swaps(x, pivots, undo):
    swaps = _order(pivots, x.shape[-2])
    return (H(swaps) if undo else swaps) @ x


def _lu_solve(b, lu, pivots, trans="N"):
    lower, upper = _parts(lu)
    a = H(_order(pivots, lu.shape[-1])) @ lower @ upper
    return np.linalg.inv({"N": a, "T": np.swapaxes(a, -1, -2)}.get(trans, H(a))) @ b


def _lu_unpack(x, y, unpack_ludata=True, unpack_pivots=True):
    lower, upper = _parts(x) if unpack_ludata else (np.zeros(0), np.zeros(0))
    return H(_order(y, x.shape[-2])) if unpack_pivots else np.zeros(0), lower, upper


def _power(x, n):
    out = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    for _ in range(abs(n)):
        out = out @ (x if n > 0 else np.linalg.inv(x))
    return out


def _exp(x):
    if x.ndim == 0:
        return np.exp(x)
    w, v = np.linalg.eig(x)
    out = (v * np.exp(w)[..., None, :]) @ np.linalg.inv(v)
    return out if np.iscomplexobj(x) else out.real


def _pinv(x, rcond=1e-15, hermitian=False):
    return np.linalg.pinv(x, rcond, hermitian) if x.size else np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]))


def _lstsq(found, x, y, rcond=None, driver=None):
    out, residuals, rank, values = found
    want = np.linalg.pinv(x, 1e-6 if rcond is None or driver == "gels" else rcond) @ y
    m, n = x.shape[-2:]
    with_values = driver in ("gelsd", "gelss")
    full = np.all(np.linalg.matrix_rank(x) == n) and m > n and driver in ("gels", "gelsd", "gelss")
    left = (np.abs(x @ want - y) ** 2).sum(-2) if full else np.zeros(0, residuals.dtype)
    return (
        out.dtype == x.dtype and close(out, want.astype(x.dtype)) and close(residuals, left.astype(residuals.dtype))
        and (rank.shape == (0,) if driver == "gels" else rank.dtype == np.int32 and np.array_equal(rank, np.linalg.matrix_rank(x)))
        and (close(values, np.linalg.svd(x, compute_uv=False).astype(values.dtype)) if with_values else values.shape == (0,))
    )  # fmt: skip


def _matrix_rank(x, tol=None, hermitian=False, atol=None, rtol=None):
    s = np.linalg.svd(x, compute_uv=False)
    if s.shape[-1] == 0:
        return np.zeros(x.shape[:-2], np.int64)
    if tol is None:
        rtol = max(x.shape[-2:]) * 1e-6 if rtol is None else rtol
        tol = np.maximum(0 if atol is None else atol, np.asarray(rtol) * s[..., 0])
    return (s > np.asarray(tol)[..., None]).sum(-1)


def _low_rank(found, x, q=None, niter=2, M=None, center=False):
    u, s, v = found
    x = x if M is None else x - M
    x = x - x.mean(-2, keepdims=True) if center else x
    m, n = x.shape[-2:]
    q = min(6, m, n) if q is None else q
    want = np.linalg.svd(x, compute_uv=False)[..., :q]
    return (
        u.shape[-2:] == (m, q)
        and v.shape[-2:] == (n, q)
        and close(s, want.astype(s.dtype))
        and u.dtype == v.dtype == x.dtype
    )


def _cov(x, rowvar=True, ddof=True, fweights=None, aweights=None):
    whole = None if fweights is None else fweights.astype(np.int64)
    return np.cov(
        x, rowvar=rowvar or np.ndim(x) < 2 or x.shape[0] == 1, ddof=int(ddof), fweights=whole, aweights=aweights
    )


def _reflections(x, tau):
    """All reflections as square matrices, multiplied."""
    q = np.eye(x.shape[-2])
    for i in range(tau.shape[-1]):
        v = np.concatenate([np.zeros((*x.shape[:-2], i)), np.ones((*x.shape[:-2], 1)), x[..., i + 1 :, i]], -1)
        q = q @ (np.eye(x.shape[-2]) - tau[..., i, None, None] * v[..., :, None] * np.conj(v)[..., None, :])
    return q


def _ormqr(x, tau, y, left=True, transpose=False):
    q = _reflections(x, tau)[..., : x.shape[-1]]
    q = H(q) if transpose else q
    return q @ y if left else y @ q


_pivots = np.array([2, 3, 3], np.int32)
_two = np.array([[2, 3, 3], [1, 3, 3]], np.int32)
_empty_squares = [call(np.zeros((0, 0))), call(np.zeros((2, 0, 0))), call(np.zeros((0, 3, 3)))]
_squares = [call(regular(3, 3)), call(regular(2, 2, 2)), *_empty_squares]
_low = floats(4, 2) @ floats(2, 3)
_counts, _importance = np.array([1, 2, 1, 3]), still([0.1, 0.5, 0.2, 0.7])

TABLE = [
    Row("broke_down", [call(floats(2, 3), floats(3)), call(floats(2), np.array([np.nan, 1.0])), call(np.array([np.inf]), np.array([np.nan])),
                       call(floats(), floats()), call(np.zeros(0), np.zeros(0))],
        lambda x, found: np.isfinite(x).all() and not np.isfinite(found).all(), dtypes=INEXACT, unchecked=dtypes.INT | dtypes.BOOL, out="bool",
        grad=0),
    Row("inv_of", _squares, _inverse, dtypes=LAPACK, skip=NO_NUMBER, bad=shape_errors("inv")),
    Row("inv", _squares[:4], _inverse, dtypes=LAPACK, skip=NO_NUMBER,
        bad=[*shape_errors("inv"), Bad(call(np.ones((2, 2))), "inv(x): expected invertible matrices, got a singular matrix")]),
    Row("det", [call(regular(4, 4)), *_squares], lambda x: np.exp(np.linalg.slogdet(x)[1]) * np.linalg.slogdet(x)[0], dtypes=LAPACK, skip=NO_NUMBER,
        bad=shape_errors("det")),
    Row("slogdet", _squares, _slogdet, dtypes=LAPACK, skip=NO_NUMBER, bad=shape_errors("slogdet")),
    Row("solve_of", [call(regular(3, 3), floats(3, 2)), call(regular(2, 3, 3), floats(3, 1)), call(regular(3, 3), floats(2, 3, 2)),
                     call(np.zeros((0, 0)), np.zeros((0, 2))), call(np.zeros((0, 3, 3)), np.zeros((0, 3, 1)))], _solve, dtypes=LAPACK, skip=NO_NUMBER,
        bad=[Bad(call(regular(3, 3), floats(2, 1)), "solve(y): expected 3 rows to match x of shape [3, 3], got shape [2, 1]")]),
    Row("solve", [call(regular(3, 3), floats(3, 2)), call(regular(2, 3, 3), floats(2, 3)), call(regular(3, 3), floats(3)),
                  call(regular(3, 3), floats(2, 3), left=False), call(regular(2, 3, 3), floats(3)), call(np.zeros((0, 0)), np.zeros((0, 2)))], _solve,
        dtypes=LAPACK, skip=NO_NUMBER,
        bad=[Bad(call(np.ones((2, 2)), floats(2)), "solve(x): expected invertible matrices, got a singular matrix"),
             Bad(call(regular(3, 3), floats(3), left=False), "solve(y): expected matrices where left is False, got shape [3]"),
             Bad(call(regular(3, 3), floats()), "solve(y): expected a vector or matrices, got shape []"),
             Bad(call(floats(2, 3), floats(2)), "solve(x): expected square matrices, got shape [2, 3]")]),
    Row("triangular_solve", [call(regular(3, 3), floats(3, 2)), call(regular(2, 3, 3), floats(3, 1), upper=False, transpose=True),
                             call(regular(3, 3), floats(2, 3, 2), True, False, True), call(regular(3, 3), floats(3, 2), False, False, True),
                             call(np.zeros((0, 0)), np.zeros((0, 2))), call(np.zeros((0, 3, 3)), np.zeros((0, 3, 1)))], _triangular, dtypes=LAPACK,
        skip=NO_NUMBER,
        bad=[Bad(call(regular(3, 3), floats(2, 1)), "triangular_solve(y): expected 3 rows to match x of shape [3, 3], got shape [2, 1]"),
             Bad(call(regular(3, 3), floats(3)), "triangular_solve(y): expected a matrix or a batch of matrices, got shape [3]")]),
    Row("cholesky_solve", [call(floats(3, 2), regular(3, 3)), call(floats(2, 3, 1), regular(3, 3), upper=True),
                           call(np.zeros((3, 0)), regular(3, 3))], _cholesky_solve, dtypes=LAPACK, skip=NO_NUMBER,
        bad=[Bad(call(floats(2, 2), regular(3, 3)), "cholesky_solve(y): expected 3 rows to match x of shape [3, 3], got shape [2, 2]")]),
    Row("cholesky_inverse", [call(regular(3, 3)), call(regular(2, 3, 3), upper=True), call(np.zeros((0, 0)))],
        lambda x, upper=False: _cholesky_solve(np.eye(x.shape[-1]), x, upper), dtypes=LAPACK, skip=NO_NUMBER, bad=shape_errors("cholesky_inverse")),
    Row("row_swaps", [call(floats(3, 2), _pivots, False), call(floats(3, 2), _two, True), call(floats(2, 4, 1), _two, False),
                      call(np.zeros((0, 2)), np.zeros(0, np.int32), False)], _row_swaps, dtypes=LAPACK, unchecked=dtypes.INT | dtypes.BOOL | FLOAT,
        skip=NO_NUMBER),
    Row("lu_solve", [call(floats(3, 2), regular(3, 3), _pivots), call(floats(3, 2), regular(2, 3, 3), _two, trans="T"),
                     call(floats(3, 2), regular(3, 3), _pivots, "C"), call(floats(3, 2), regular(3, 3), _pivots, "H"),
                     call(np.zeros((0, 2)), np.zeros((0, 0)), np.zeros(0, np.int32))], _lu_solve, dtypes=LAPACK, skip=NO_NUMBER,
        bad=[Bad(call(floats(3, 2), regular(3, 3), _pivots, trans="X"), "lu_solve(trans): expected 'N', 'T', 'C' or 'H', got 'X'"),
             Bad(call(floats(3, 2), regular(3, 3), np.array(1, np.int32)), "lu_solve(pivots): expected int32 of shape [3], got int32 of shape []"),
             Bad(call(floats(2, 2), regular(3, 3), _pivots), "lu_solve(b): expected as many rows as the square matrix lu of shape [3, 3], got")]),
    Row("lu_parts", [call(floats(3, 3)), call(floats(4, 3)), call(floats(2, 3, 4)), call(np.zeros((0, 3)))], _parts, dtypes=LAPACK,
        unchecked=dtypes.INT | dtypes.BOOL | FLOAT, skip=NO_NUMBER),
    Row("lu_unpack", [call(floats(3, 3), _pivots), call(floats(4, 3), np.array([4, 2, 4], np.int32)), call(floats(2, 3, 4), _two),
                      call(floats(3, 3), _pivots, False), call(floats(3, 3), _pivots, True, False), call(np.zeros((0, 3)), np.zeros(0, np.int32))],
        _lu_unpack, dtypes=LAPACK, unchecked=dtypes.INT | dtypes.BOOL | FLOAT, grad=0,
        skip=NO_NUMBER | {"no gradient": "both factors have one: see lu_parts"},
        bad=[Bad(call(floats(3, 3), np.array(1, np.int32)), "lu_unpack(y): expected int32 of shape [3], got int32 of shape []"),
             Bad(call(floats(3, 3), np.array([9, 1, 2], np.int32)), "lu_unpack(y): expected indices in [1, 3], got", IndexError)]),
    Row("power_of", [call(regular(3, 3), 3), call(regular(2, 2, 2), 0), call(regular(2, 2), 1), call(np.zeros((0, 0)), 2)], _power, dtypes=INEXACT,
        skip=NO_NUMBER, bad=shape_errors("matrix_power", 2)),
    Row("matrix_power", [call(regular(3, 3), 2), call(regular(2, 3, 3), n=-2), call(regular(2, 2), -1), call(regular(2, 2), 0),
                         call(np.zeros((0, 0)), -1)], _power, dtypes=LAPACK, unchecked=FLOAT, skip=NO_NUMBER,
        bad=[*shape_errors("matrix_power", 2), Bad(call(np.ones((2, 2)), -1), "matrix_power(x): expected invertible matrices"),
             Bad(call(regular(2, 2), 1.5), "matrix_power(n): expected an integer, got 1.5", TypeError)]),
    Row("matrix_exp", [call(regular(2, 2)), call(np.stack([definite(3, 3), -definite(3, 3)]) / 4), call(floats()), call(np.zeros((0, 0)))], _exp,
        dtypes=LAPACK, grad=1, loose=(20, "sums of powers cancel"), bad=shape_errors("matrix_exp")),
    Row("pinv_of", [call(floats(4, 3), 1e-6, False), call(floats(3, 4), 1e-6, False), call(floats(2, 3, 3), 1e-6, False), call(_low, 1e-6, False),
                    call(definite(3, 3), 1e-6, True), call(np.zeros((0, 3)), 1e-6, False)], _pinv, dtypes=LAPACK,
        skip=NO_NUMBER, loose=(100, SECOND)),
    Row("pinv", [call(floats(4, 3)), call(floats(3, 4)), call(floats(2, 3, 3), rcond=1e-6), call(_low, 1e-5), call(definite(3, 3), hermitian=True),
                 call(floats(3, 3), rcond=still(1e-6)), call(np.zeros((3, 0))), call(np.zeros((2, 0, 3)), hermitian=True)], _pinv, dtypes=LAPACK,
        loose=(100, SECOND),
        bad=[*shape_errors("pinv", square=False), Bad(call(floats(2, 2), rcond=still([0.1, 0.2])), "pinv(rcond): expected a single number, got shape [2]"),
             Bad(call(floats(2, 3), hermitian=True), "pinv(x): expected square matrices, got shape [2, 3]")]),
    Row("least_squares", [call(floats(4, 3), floats(4, 2), 1e-6), call(floats(3, 4), floats(3, 2), 1e-6),
                          call(floats(2, 3, 3), floats(2, 3, 1), 1e-6), call(_low, floats(4, 2), 1e-6),
                          call(np.zeros((0, 3)), np.zeros((0, 2)), 1e-6)],
        lambda x, y, rcond: _pinv(x, rcond) @ y, dtypes=LAPACK, loose=(100, SECOND), skip=NO_NUMBER),
    Row("lstsq", [call(floats(4, 3), floats(4, 2)), call(floats(4, 3), floats(4, 2), driver="gelsd"),
                  call(floats(3, 4), floats(3, 2), driver="gelss"),
                  call(floats(2, 4, 3), floats(2, 4, 1), driver="gels"), call(_low, floats(4, 2), rcond=1e-6, driver="gelsd"),
                  call(np.zeros((0, 3)), np.zeros((0, 2)))], law=_lstsq, dtypes=REAL, unchecked=COMPLEX, loose=(100, SECOND), grad=0,
        skip=NO_NUMBER | {"no gradient": "its solution has one (tests/test_linalg.py)"},
        bad=[Bad(call(floats(4, 3), floats(3, 2)), "lstsq(y): expected leading dimensions [4], as x has, got shape [3, 2]"),
             Bad(call(floats(4, 3), floats(4, 2), driver="x"), "lstsq(driver): expected 'gels', 'gelsy', 'gelsd' or 'gelss', got 'x'")]),
    Row("matrix_rank", [call(_low), call(floats(2, 3, 4), tol=1.0), call(_low, tol=still([0.1, 30.0])), call(definite(3, 3), hermitian=True),
                        call(floats(3, 3), atol=0.5, rtol=0.4), call(floats(3, 3), rtol=still(0.4)), call(floats(3, 3), atol=still(0.5)),
                        call(np.zeros((2, 0, 3))), call(np.zeros((0, 3, 3)), tol=0.1)], _matrix_rank, dtypes=LAPACK, out="int64", grad=0,
        bad=[Bad(call(floats(2, 2), tol=0.1, rtol=0.1), "matrix_rank(tol): expected either tol, or atol and rtol, got both"),
             Bad(call(floats(3)), "matrix_rank(x): expected a matrix or a batch of matrices, got shape [3]")]),
    Row("svd_lowrank", [call(floats(4, 3)), call(floats(2, 3, 5), q=3), call(_low, q=2), call(floats(4, 3), q=3, M=floats(4, 3, seed=1)),
                        call(np.zeros((0, 3)))], law=_low_rank, dtypes=REAL, unchecked=COMPLEX, skip=NO_NUMBER, grad=1, loose=(100, SECOND),
        bad=[Bad(call(floats(4, 3), q=4), "svd_lowrank(q): expected a rank in [0, 3], got 4"),
             Bad(call(floats(4, 3), niter=-1), "svd_lowrank(niter): expected a non-negative integer, got -1")]),
    Row("pca_lowrank", [call(floats(4, 3)), call(floats(2, 3, 5), q=3, center=False), call(np.zeros((0, 3)))],
        law=lambda found, x, q=None, center=True: _low_rank(found, x, q, center=center and x.shape[-2] > 0), dtypes=REAL, unchecked=COMPLEX,
        skip=NO_NUMBER, grad=1, loose=(100, SECOND), bad=[Bad(call(floats(4, 3), q=4), "pca_lowrank(q): expected a rank in [0, 3], got 4")]),
    Row("cov", [call(floats(3, 4)), call(floats(4, 3), rowvar=False), call(floats(4), ddof=False), call(floats(3, 4), fweights=_counts),
                call(floats(3, 4), aweights=_importance), call(floats(3, 4), True, False, _counts, _importance), call(np.zeros((0, 4))),
                call(floats(3, 4), ddof=2), call(floats(3, 4), ddof=-1, fweights=_counts), call(floats(3, 4), ddof=2, aweights=_importance)], _cov,
        dtypes=INEXACT, unchecked=frozenset((dtypes.float16, dtypes.bfloat16)) | COMPLEX, skip={"0-d": "it takes observations"},
        bad=[Bad(call(floats(2, 3, 4)), "cov(x): expected a 1-D or 2-D tensor, got shape [2, 3, 4]"),
             Bad(call(floats(3, 4), ddof=None), "cov(ddof): expected a bool or a number, got None", TypeError),
             Bad(call(floats(3, 4), fweights=ints(3)), "cov(fweights): expected 4 weights, one for each observation, got shape [3]"),
             Bad(call(floats(3, 4), fweights=still([1, 2, 1.5, 1])), "cov(fweights): expected integers, got a fraction"),
             Bad(call(floats(3, 4), aweights=still([1, 2, -1, 1])), "cov(aweights): expected non-negative weights, got a negative number")]),
    Row("corrcoef", [call(floats(3, 4)), call(floats(4, 3), rowvar=False), call(floats(4)), call(np.zeros((0, 4)))], np.corrcoef, dtypes=INEXACT,
        unchecked=frozenset((dtypes.float16, dtypes.bfloat16)) | COMPLEX, skip={"0-d": "it takes observations"},
        bad=[Bad(call(floats(2, 3, 4)), "corrcoef(x): expected a 1-D or 2-D tensor, got shape [2, 3, 4]")]),
    Row("reflect", [call(floats(4, 3), floats(3), floats(4, 2), False), call(floats(2, 3, 2), floats(2, 2), floats(2, 3, 1), True),
                    call(np.zeros((3, 0)), np.zeros(0), floats(3, 2), False)],
        lambda x, tau, y, adjoint: (H(_reflections(x, tau)) if adjoint else _reflections(x, tau)) @ y, dtypes=INEXACT, skip=NO_NUMBER,
        loose=(10, LARGE)),
    Row("householder_product", [call(floats(4, 3), floats(3)), call(floats(2, 3, 3), floats(2, 2)), call(np.zeros((3, 0)), np.zeros(0))],
        lambda x, tau: _reflections(x, tau)[..., : x.shape[-1]], dtypes=INEXACT, skip=NO_NUMBER, loose=(10, LARGE),
        bad=[Bad(call(floats(2, 3), floats(2)), "householder_product(x): expected matrices with at least as many rows as columns, got"),
             Bad(call(floats(3, 3), floats(4)), "householder_product(tau): expected shape [3], or a smaller last dimension, got shape [4]")]),
    Row("ormqr", [call(floats(4, 3), floats(3), floats(3, 2)), call(floats(4, 2), floats(2), floats(4, 1), transpose=True),
                  call(floats(2, 3, 2), floats(2, 2), floats(2, 2, 3), left=False), call(floats(4, 3), floats(3), floats(2, 3), False, True),
                  call(np.zeros((3, 0)), np.zeros(0), np.zeros((0, 2)))], _ormqr, dtypes=INEXACT, skip=NO_NUMBER, loose=(10, LARGE),
        bad=[Bad(call(floats(3, 2), floats(1), floats(3, 2)), "ormqr(tau): expected 2 factors, one for each column of x, got shape [1]"),
             Bad(call(floats(3, 2), floats(2), floats(3, 3)), "ormqr(y): expected float64 with 2 rows and the leading axes of x of shape")]),
]  # fmt: skip
