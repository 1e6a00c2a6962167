"""Functions of matrices: powers, exponentials, and by singular values: ranks, pseudo-inverses, low-rank factors."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, FLOAT
from bireme.core.base.later import linalg
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph import segment
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.rebinding import dual
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


@op(internal="power", dtypes=FLOAT | COMPLEX, numpy=np.linalg.matrix_power)
def power_of(x: Tensor, n: int) -> Tensor:
    """A product of `n` times the same matrix; use `matrix_power`."""
    return jnp.linalg.matrix_power(x, n)


power_of.check(square("matrix_power"))
power_of.infer(lambda x: x)
power_of.flops(_cubic, shares_cores=False)


@composite(method=True)
def matrix_power(x: Tensor, n: int) -> Tensor:
    """Integer power of a square matrix: the product of ``n`` times the matrix.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, m]``, floating-point or complex.
        n: Exponent; 0 gives the identity, a negative one powers of the inverse.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: If a matrix is not square, or singular where its inverse is needed.

    Examples:
        >>> bireme.linalg.matrix_power(bireme.to_tensor([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
        [[1.0, 5.0], [0.0, 1.0]]
    """
    needs_square("matrix_power", tuple(x.shape))
    if n < 0:
        x = guarded("matrix_power(x)", "invertible matrices", "a singular matrix", x, inv_of(x))
    return power_of(x, abs(n))


# Padé approximants of exp: numerators, and the 1-norm up to which they are exact to the last digit
_PADE = {
    4: ([17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1], 3.925724783138660),
    8: (
        [
            64764752532480000,
            32382376266240000,
            7771770303897600,
            1187353796428800,
            129060195264000,
            10559470521600,
            670442572800,
            33522128640,
            1323241920,
            40840800,
            960960,
            16380,
            182,
            1,
        ],
        5.371920351148152,
    ),
}
_SQUARINGS = 20


def _expm(x):
    if x.ndim == 0:
        return jnp.exp(x)
    if x.size == 0:
        return x
    return _pade(x)


@dual(linalg.function("expm"))
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
    """Exponential of a square matrix.

    Args:
        x: Matrix or batch of matrices of shape ``[..., n, n]``, float32, float64 or complex; a 0-D tensor is a number.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: If a matrix is not square.

    Examples:
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


@op(internal="pinv", dtypes=LAPACK, numbers={"rcond": "float64"}, numpy=True)
def pinv_of(x: Tensor, rcond: Tensor | float, hermitian: bool) -> Tensor:
    """The pseudo-inverse; use `pinv`."""
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
    """Moore-Penrose pseudo-inverse of a matrix.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, n]``, float32, float64 or complex.
        rcond: Singular values up to this factor times the largest one count as 0; a number or a tensor of one element.
            Default: 1e-15.
        hermitian: Whether ``x`` is Hermitian, and its eigenvalues may be used; only the lower triangle is read then.
            Default: False.

    Returns:
        Tensor of shape ``[..., n, m]``.

    Examples:
        >>> bireme.linalg.pinv(bireme.to_tensor([[2.0, 0.0], [0.0, 0.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.0]]
    """
    if isinstance(rcond, Tensor):
        if rcond.size != 1:
            raise errors.bad(
                "pinv(rcond)", "a single number", described=f"shape {rcond.shape}", kind=errors.ArgumentTypeError
            )
        rcond = rcond.detach().reshape([])
    return pinv_of(x, rcond, hermitian and x.size > 0)  # what has no elements may be anything


def _pseudo_inverse_grad(g, p, x):
    """For a constant rank: no differences of singular values, so equal ones do no harm."""
    ph, gh = adjoint(p), adjoint(g)
    return -(ph @ g @ ph) + (gh - x @ (p @ gh)) @ (p @ ph) + (ph @ p) @ (gh - (gh @ p) @ x)


@op(internal=True, promote="x y", mix="same", dtypes=LAPACK, numbers={"rcond": "float64"}, numpy=True)
def least_squares(x: Tensor, y: Tensor, rcond: Tensor | float) -> Tensor:
    """The least-squares solution of minimum norm; use `lstsq`."""
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
def lstsq(
    x: Tensor, y: Tensor, rcond: float | None = None, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Least-squares solution of a system of linear equations ``x @ out == y``.

    The solution minimizes the norm of ``x @ out - y``; of several, it is the one of minimum norm.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, n]``, float32, float64 or complex.
        y: Right-hand sides of shape ``[..., m, k]``, of the same dtype.
        rcond: Singular values up to this factor times the largest one count as 0. Default: None, the machine epsilon
            times ``max(m, n)``.
        driver: LAPACK's driver that decides which further results there are: ``'gels'`` residuals, ``'gelsy'`` rank,
            ``'gelsd'`` and ``'gelss'`` all. Default: None, as ``'gelsy'``.

    Returns:
        A tuple of the solution of shape ``[..., n, k]``, the sums of squared residuals (for ``m > n`` and full rank),
        the rank of int32 and the singular values; what the driver does not give is empty.

    Raises:
        ValueError: If a shape does not fit, or there is no such driver.

    Examples:
        >>> x, y = bireme.to_tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), bireme.to_tensor([[1.0], [4.0], [3.0]])
        >>> [[round(i, 4) for i in row] for row in bireme.linalg.lstsq(x, y)[0].tolist()]
        [[1.0], [2.0]]
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise errors.bad("lstsq(driver)", "'gels', 'gelsy', 'gelsd' or 'gelss'", driver)
    needs_matrix("lstsq", tuple(x.shape))
    needs_matrix("lstsq", tuple(y.shape), "y")
    if x.shape[:-1] != y.shape[:-1]:
        raise errors.bad(
            "lstsq(y)",
            f"leading dimensions {x.shape[:-1]}, as x has",
            described=f"shape {y.shape}",
            kind=errors.ShapeError,
        )
    if x.dtype is not y.dtype:
        raise errors.bad("lstsq(y)", f"{x.dtype.name} as x has", described=y.dtype.name, kind=errors.DtypeError)
    m, n = x.shape[-2:]
    eps = float(np.finfo(x.dtype.np).eps) if x.dtype in LAPACK else 0.0
    limit = eps * max(m, n) if rcond is None or driver == "gels" else rcond
    out, values = least_squares(x, y, limit), svdvals(x.detach())
    nothing = tensors.zeros([0], values.dtype)
    if driver == "gels":
        return out, _residuals(x, y, out) if m > n else nothing, tensors.zeros([0], "int64"), nothing
    rank = (
        _count(values, values.max(-1, True) * limit)
        if values._value.sig.size
        else tensors.zeros(values.shape[:-1], "int64")
    )
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


@composite(c_ops={"matrix_rank_tol": "x atol_tensor:tol use_default_tol:=True hermitian=False",
                  "matrix_rank_atol_rtol": "x atol rtol=None hermitian=False"})  # fmt: skip
def matrix_rank(
    x: Tensor,
    tol: Tensor | float | None = None,
    hermitian: bool = False,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
) -> Tensor:
    """Rank of a matrix: the number of singular values above a tolerance.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, n]``, float32, float64 or complex.
        tol: Absolute tolerance, a number or a tensor with one for each matrix; not together with ``atol`` or ``rtol``.
            Default: None.
        hermitian: Whether ``x`` is Hermitian, and its eigenvalues may be used. Default: False.
        atol: Absolute tolerance; the larger one of it and the relative one counts. Default: None.
        rtol: Tolerance relative to the largest singular value. Default: None, the machine epsilon times ``max(m, n)``.

    Returns:
        Tensor of int64 of shape ``[...]``.

    Raises:
        ValueError: If ``tol`` is given together with ``atol`` or ``rtol``.

    Examples:
        >>> bireme.linalg.matrix_rank(bireme.to_tensor([[1.0, 2.0], [2.0, 4.0]])).item()
        1
    """
    if tol is not None and (atol is not None or rtol is not None):
        raise errors.bad("matrix_rank(tol)", "either tol, or atol and rtol", described="both")
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
        raise errors.bad(f"{name}(niter)", "a non-negative integer", niter)
    return min(6, most) if q is None else q


@composite(method=True)
def svd_lowrank(
    x: Tensor, q: int | None = None, niter: int = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The largest singular values of a matrix and their vectors, approximated by a randomized method.

    Faster than ``svd`` for a large matrix of low rank. The start is random: ``bireme.seed`` makes it repeatable.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, n]``, float32, float64 or complex.
        q: Number of singular values, at most ``min(m, n)``. Default: None, 6 or ``min(m, n)`` if that is less.
        niter: Number of subspace iterations; more make the result more accurate. Default: 2.
        M: Matrix to subtract from ``x`` first, of a shape that broadcasts. Default: None.

    Returns:
        A tuple ``(u, s, v)`` of shapes ``[..., m, q]``, ``[..., q]`` and ``[..., n, q]`` with ``x`` close to
        ``u @ diag(s) @ v.H``.

    Raises:
        ValueError: If ``q`` is out of range or ``niter`` negative.

    Examples:
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
    """Principal components of the rows of a matrix, approximated by ``svd_lowrank``.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, n]`` with one sample in each row, float32, float64 or
            complex.
        q: Number of components, at most ``min(m, n)``. Default: None, 6 or ``min(m, n)`` if that is less.
        center: Whether to subtract the mean of each column first. Default: True.
        niter: Number of subspace iterations; more make the result more accurate. Default: 2.

    Returns:
        A tuple ``(u, s, v)`` of shapes ``[..., m, q]``, ``[..., q]`` and ``[..., n, q]``; the columns of ``v`` are the
        principal directions.

    Raises:
        ValueError: If ``q`` is out of range or ``niter`` negative.

    Examples:
        >>> u, s, v = bireme.linalg.pca_lowrank(bireme.to_tensor([[1.0, 0.0], [3.0, 0.0]]), q=1)
        >>> round(s.item(), 4)
        1.4142
    """
    rank = _low_rank("pca_lowrank", x, q, niter)
    if center and x.shape[-2]:
        x = x - reductions.mean(x, -2, True)
    return svd_lowrank(x, rank, niter)
