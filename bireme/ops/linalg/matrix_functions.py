"""Functions of matrices: powers, exponentials, and what singular values decide: ranks, pseudo-inverses, low-rank factors."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, FLOAT
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph import segment
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import conj_of
from bireme.ops._shared.matrix import (
    LAPACK,
    adjoint,
    eigensystem,
    guarded,
    hermitian_part,
    mirrored,
    needs_matrix,
    needs_square,
    solved,
    square,
    thin_svd,
    turned,
)
from bireme.ops.creation import tensors
from bireme.ops.linalg.decompositions import eigvalsh, qr_of, svd, svdvals
from bireme.ops.linalg.matmul import matmul
from bireme.ops.linalg.solve import inv_of
from bireme.ops.math import logic
from bireme.ops.random import generators as randoms
from bireme.ops.reduction import reductions


def _cubic(x, *others):
    return x.size * x.shape[-1] if x.ndim else 1


# ---------------------------------------------------------------- powers and exponentials


@op(dtypes=FLOAT | COMPLEX, numpy=np.linalg.matrix_power)
def power_of(x: Tensor, n: int) -> Tensor:
    """A product of `n` times the same matrix; use `matrix_power`.

    >>> bireme.linalg.matrix_power(bireme.to_tensor([[2.0]]), 3).tolist()
    [[8.0]]
    """
    return jnp.linalg.matrix_power(x, n)


power_of.check(square("matrix_power"))
power_of.infer(lambda x: x)
power_of.flops(_cubic, shares_cores=False)


@composite(method=True)
def matrix_power(x: Tensor, n: int) -> Tensor:
    """A square matrix to the power of an integer; the inverse to the power of -n if it is negative.

    >>> bireme.linalg.matrix_power(bireme.to_tensor([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    needs_square("matrix_power", tuple(x.shape))
    if n < 0:
        x = guarded("matrix_power(x)", "matrices that have an inverse", "a singular one", x, inv_of(x))
    return power_of(x, abs(n))


# Padé approximants of exp: numerators, and the 1-norm up to which they are exact to the last digit
_PADE = {
    4: ([17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1], 3.925724783138660),
    8: ([64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600, 670442572800, 33522128640,
         1323241920, 40840800, 960960, 16380, 182, 1], 5.371920351148152),
}  # fmt: skip
_SQUARINGS = 20


def _expm(x):
    if x.ndim == 0:
        return jnp.exp(x)
    if x.size == 0:
        return x
    return scipy.linalg.expm(x) if isinstance(x, np.ndarray) else _pade(x)


def _pade(x):
    """The exponential of x / 2**n, which is small, squared n times."""
    kind = jnp.finfo(x.dtype).dtype
    numbers, limit = _PADE[kind.itemsize]
    size = jnp.max(jnp.sum(jnp.abs(x), -2), -1)[..., None, None]
    n = jnp.maximum(jnp.ceil(jnp.log2(lax.stop_gradient(size) / np.asarray(limit, kind))), 0)
    a = x * jnp.exp2(-n).astype(x.dtype)
    square, power = a @ a, jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    odd = even = 0
    scale = float(numbers[-1] if len(numbers) < 10 else numbers[0])
    for i in range(0, len(numbers), 2):
        even = even + power * np.asarray(numbers[i] / scale, kind)
        odd = odd + power * np.asarray(numbers[i + 1] / scale, kind)
        power = power @ square
    odd = a @ odd
    out = solved(even - odd, even + odd)

    def step(y, i):
        squared = lax.cond(jnp.any(i < n), lambda y: y @ y, lambda y: y, y)
        return jnp.where(i < n, squared, y), None

    out = lax.scan(step, out, jnp.arange(_SQUARINGS, dtype=kind))[0]
    return jnp.where(n > _SQUARINGS, np.asarray(np.nan, kind), out).astype(x.dtype)


@op(dtypes=LAPACK, numpy=True)
def matrix_exp(x: Tensor) -> Tensor:
    """The exponential of a square matrix, or of a number.

    >>> bireme.linalg.matrix_exp(bireme.to_tensor([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _expm(x)


matrix_exp.check(lambda x: needs_square("matrix_exp", x.shape) if x.ndim else None)
matrix_exp.infer(lambda x: x)
matrix_exp.flops(_cubic, shares_cores=False)


@matrix_exp.grad(numpy=True)
def _(g, x):
    # the exponential of [[a, g], [0, a]] has the derivative in the direction of g in its corner
    if x.size == 0 or x.ndim == 0:
        return g * conj_of(_expm(x))
    a, n = adjoint(x), x.shape[-1]
    both = jnp.concatenate([jnp.concatenate([a, g], -1), jnp.concatenate([jnp.zeros_like(a), a], -1)], -2)
    return _expm(both)[..., :n, n:]


# ---------------------------------------------------------------- pseudo-inverses


def _inverse_parts(x, rcond, hermitian):
    """Vectors on both sides, and one over the values that are large enough."""
    if hermitian:
        s, u = eigensystem(x, True)
        vh = adjoint(u)
    else:
        u, s, vh = thin_svd(x)
    size = jnp.abs(s)
    large = size > rcond.astype(size.dtype) * jnp.max(size, axis=-1, keepdims=True, initial=0)
    return u, jnp.where(large, 1 / jnp.where(large, s, 1), 0).astype(s.dtype), vh


@op(dtypes=LAPACK, numbers={"rcond": "float64"}, numpy=True)
def pinv_of(x: Tensor, rcond: Tensor | float, hermitian: bool) -> Tensor:
    """The pseudo-inverse; use `pinv`.

    >>> bireme.linalg.pinv(bireme.to_tensor([[2.0], [0.0]])).tolist()
    [[0.5, 0.0]]
    """
    u, inverse, vh = _inverse_parts(x, rcond, hermitian)
    return (adjoint(vh) * inverse[..., None, :]) @ adjoint(u)


@pinv_of.check
def _(x, hermitian):
    (needs_square if hermitian else needs_matrix)("pinv", x.shape)


pinv_of.infer(lambda x: sig_of((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype))
pinv_of.flops(_cubic, shares_cores=False)


@pinv_of.grad(numpy=True)
def _(g, out, x, hermitian):
    dx = _pseudo_inverse_grad(g, out, mirrored(x, True) if hermitian else x)
    return hermitian_part(dx) if hermitian else dx, None


@composite(method=True)
def pinv(x: Tensor, rcond: Tensor | float = 1e-15, hermitian: bool = False) -> Tensor:
    """The pseudo-inverse; singular values of at most `rcond` times the largest count as zero.

    >>> bireme.linalg.pinv(bireme.to_tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    if isinstance(rcond, Tensor):
        if rcond.size != 1:
            raise errors.bad("pinv(rcond)", "one number", f"shape {rcond.shape}")
        rcond = rcond.detach().reshape([])
    return pinv_of(x, rcond, hermitian and x.size > 0)  # what has no elements may be anything


def _pseudo_inverse_grad(g, p, x):
    """For a constant rank: no differences of singular values, so equal ones do no harm."""
    ph, gh = adjoint(p), adjoint(g)
    return -(ph @ g @ ph) + (gh - x @ (p @ gh)) @ (p @ ph) + (ph @ p) @ (gh - (gh @ p) @ x)


@op(promote="x y", mix="same", dtypes=LAPACK, numbers={"rcond": "float64"}, numpy=True)
def least_squares(x: Tensor, y: Tensor, rcond: Tensor | float) -> Tensor:
    """The shortest solution with the least residual; use `lstsq`.

    >>> bireme.linalg.lstsq(bireme.to_tensor([[2.0], [0.0]]), bireme.to_tensor([[4.0], [1.0]]))[0].tolist()
    [[2.0]]
    """
    u, inverse, vh = _inverse_parts(x, rcond, False)
    return adjoint(vh) @ (inverse[..., :, None] * (adjoint(u) @ y))


least_squares.infer(lambda x, y: sig_of((*x.shape[:-2], x.shape[-1], y.shape[-1]), x.dtype))
least_squares.flops(_cubic, shares_cores=False)


@least_squares.grad(numpy=True)
def _(g, x, y, rcond):
    u, inverse, vh = _inverse_parts(x, rcond, False)
    p = (adjoint(vh) * inverse[..., None, :]) @ adjoint(u)
    return _pseudo_inverse_grad(g @ adjoint(y), p, x), adjoint(p) @ g, None


@composite(method=True)
def lstsq(x: Tensor, y: Tensor, rcond: float | None = None, driver: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The shortest `out` with the least `|x @ out - y|`, then squared residuals, rank and singular values as `driver` gives them.

    >>> x, y = bireme.to_tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), bireme.to_tensor([[1.0], [4.0], [3.0]])
    >>> [[round(i, 4) for i in row] for row in bireme.linalg.lstsq(x, y)[0].tolist()]
    [[1.0], [2.0]]
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise errors.bad("lstsq(driver)", "'gels', 'gelsy', 'gelsd' or 'gelss'", driver)
    needs_matrix("lstsq", tuple(x.shape))
    needs_matrix("lstsq", tuple(y.shape), "y")
    if x.shape[:-1] != y.shape[:-1]:
        raise errors.bad("lstsq(y)", f"the axes {x.shape[:-1]} of x before the last", f"shape {y.shape}")
    if x.dtype is not y.dtype:
        raise errors.bad("lstsq(y)", f"{x.dtype.name} as x has", y.dtype.name, kind=errors.NoKernel)
    m, n = x.shape[-2:]
    eps = float(np.finfo(x.dtype.np).eps) if x.dtype in LAPACK else 0.0
    limit = eps * max(m, n) if rcond is None or driver == "gels" else rcond
    out, values = least_squares(x, y, limit), svdvals(x.detach())
    nothing = tensors.zeros([0], values.dtype)
    if driver == "gels":
        return out, _residuals(x, y, out) if m > n else nothing, tensors.zeros([0], "int64"), nothing
    rank = _count(values, values.max(-1, True) * limit) if values._value.sig.size else tensors.zeros(values.shape[:-1], "int64")
    rank = rank.astype("int32")
    if driver not in ("gelsd", "gelss"):
        return out, nothing, rank, nothing
    # residuals only mean something for full ranks; a program that is being recorded cannot look
    full = m > n and (segment.local.segment.symbolic or bool((rank == n).all()))
    return out, _residuals(x, y, out) if full else nothing, rank, values


def _residuals(x: Tensor, y: Tensor, out: Tensor) -> Tensor:
    return reductions.sum((matmul(x, out) - y).abs().square(), -2)


def _count(values: Tensor, limit: Tensor | float) -> Tensor:
    return reductions.sum(logic.greater_than(values, limit), -1)


@composite()
def matrix_rank(
    x: Tensor,
    tol: Tensor | float | None = None,
    hermitian: bool = False,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
) -> Tensor:
    """How many singular values are greater than `tol`, or than the larger of `atol` and `rtol` times the largest of them.

    >>> bireme.linalg.matrix_rank(bireme.to_tensor([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    if tol is not None and (atol is not None or rtol is not None):
        raise errors.bad("matrix_rank(tol)", "either tol, or atol and rtol", "both")
    (needs_square if hermitian and x.size else needs_matrix)("matrix_rank", tuple(x.shape))
    values = eigvalsh(x.detach()).abs() if hermitian and x.size else svdvals(x.detach())
    if values._value.sig.size == 0:
        return tensors.zeros(values.shape[:-1], "int64")

    def limit(t: Tensor | float) -> Tensor | float:
        return t.detach().astype(values.dtype).unsqueeze(-1) if isinstance(t, Tensor) else t

    if tol is not None:
        return _count(values, limit(tol))
    if rtol is None:
        rtol = float(np.finfo(values.dtype.np).eps) * max(x.shape[-2:])
    bound = values.max(-1, True) * limit(rtol)
    return _count(values, bound if atol is None else bound.maximum(limit(atol)))


# ---------------------------------------------------------------- low rank


def _low_rank(name: str, x: Tensor, q: int | None, niter: int) -> int:
    needs_matrix(name, tuple(x.shape))
    most = min(x.shape[-2:])
    if q is not None and not 0 <= q <= most:
        raise errors.bad(f"{name}(q)", f"a rank in [0, {most}]", q)
    if niter < 0:
        raise errors.bad(f"{name}(niter)", "0 or more", niter)
    return min(6, most) if q is None else q


@composite(method=True)
def svd_lowrank(x: Tensor, q: int | None = None, niter: int = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The `q` largest singular values of `x - M` and their vectors, by a random start and `niter` rounds; `q` is 6 if not given.

    >>> u, s, v = bireme.linalg.svd_lowrank(bireme.to_tensor([[3.0, 0.0], [0.0, 4.0]]), q=1, niter=20)
    >>> round(s.item(), 4)
    4.0
    """
    rank = _low_rank("svd_lowrank", x, q, niter)
    x = x if M is None else x - M
    wide = x.shape[-2] < x.shape[-1]
    a = _adjoint(x) if wide else x
    start = randoms.randn([*a.shape[:-2], a.shape[-1], rank], dtypes.real_of(a.dtype)).astype(a.dtype)
    basis = qr_of(matmul(a, start), False)[0]
    for _ in range(niter):
        basis = qr_of(matmul(_adjoint(a), basis), False)[0]
        basis = qr_of(matmul(a, basis), False)[0]
    u, s, vh = svd(matmul(_adjoint(basis), a))
    u, v = matmul(basis, u), _adjoint(vh)
    return (v, s, u) if wide else (u, s, v)


def _adjoint(x: Tensor) -> Tensor:
    return turned(x.conj() if x.dtype.is_complex else x)


@composite(method=True)
def pca_lowrank(x: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """The principal components of rows: `svd_lowrank`, of columns with their means taken off if `center`.

    >>> u, s, v = bireme.linalg.pca_lowrank(bireme.to_tensor([[1.0, 0.0], [3.0, 0.0]]), q=1)
    >>> round(s.item(), 4)
    1.4142
    """
    rank = _low_rank("pca_lowrank", x, q, niter)
    if center and x.shape[-2]:
        x = x - reductions.mean(x, -2, True)
    return svd_lowrank(x, rank, niter)
