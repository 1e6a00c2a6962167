"""Factors of matrices: Cholesky, QR, LU, singular values, eigenvalues."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import lapack
from bireme.ops._shared.broadcast import conj_of
from bireme.ops._shared.matrix import (
    LAPACK,
    adjoint,
    diagonals,
    eigensystem,
    guarded,
    hermitian_part,
    matrix,
    mirrored,
    needs_square,
    reciprocal,
    solved,
    square,
    thin_svd,
    triangular,
)


def _cubic(x):
    return x.size * min(x.shape[-2:])


# ---------------------------------------------------------------- Cholesky


def _cholesky_numpy(x, upper):
    return lapack.by_matrix(lambda a: np.linalg.cholesky(a, upper=upper), x)


@op(internal="cholesky", dtypes=LAPACK, numpy=_cholesky_numpy)
def cholesky_of(x: Tensor, upper: bool) -> Tensor:
    """The triangular factor of a positive definite matrix; use `cholesky`."""
    lower = lax.linalg.cholesky(mirrored(x, not upper), symmetrize_input=False)
    return adjoint(lower) if upper else lower


cholesky_of.check(square("cholesky"))
cholesky_of.infer(lambda x: x)
cholesky_of.flops(_cubic, shares_cores=False)


@cholesky_of.grad(numpy=True)
def _(g, out, upper):
    lower, g = (adjoint(out), adjoint(g)) if upper else (out, g)
    inner = jnp.tril(adjoint(lower) @ g)
    inner = inner - 0.5 * jnp.tril(jnp.triu(inner))
    half = triangular(lower, inner, True, "C")
    # the other triangle is its mirror image, though it is not read
    return hermitian_part(triangular(lower, adjoint(half), True, "C"))


@composite(method=True)
def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    """Cholesky factor of a symmetric (Hermitian) positive definite matrix.

    The lower factor ``l`` satisfies ``l @ l.H == x``, the upper one ``u`` satisfies ``u.H @ u == x``. Only the triangle
    of ``x`` that the factor has is read.

    Args:
        x: Matrix or batch of matrices of shape ``[..., n, n]``, float32, float64 or complex.
        upper: Whether to return the upper triangular factor rather than the lower one. Default: False.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: If a matrix is not square, or not positive definite.

    Examples:
        >>> bireme.linalg.cholesky(bireme.to_tensor([[4.0, 2.0], [2.0, 2.0]])).tolist()
        [[2.0, 0.0], [1.0, 1.0]]
    """
    return guarded("cholesky(x)", "positive definite matrices", "a matrix that is not", x, cholesky_of(x, upper))


# ---------------------------------------------------------------- QR


@op(internal="qr", dtypes=LAPACK, numpy=lapack.qr)
def qr_of(x: Tensor, full: bool) -> tuple[Tensor, Tensor]:
    """Unitary and upper triangular factors; use `qr`."""
    return tuple(lax.linalg.qr(x, full_matrices=full))


qr_of.check(matrix("qr"))
qr_of.flops(_cubic, shares_cores=False)


@qr_of.infer
def _(x, full):
    *batch, m, n = x.shape
    k = m if full else min(m, n)
    return sig_of((*batch, m, k), x.dtype), sig_of((*batch, k, n), x.dtype)


@qr_of.grad(numpy=True)
def _(g, out, full, sigs):
    (gq, gr), (q, r) = g, out
    m, n = sigs[0].shape[-2:]
    if full and m > n:
        raise errors.bad(
            "qr(mode)",
            "'reduced' or 'r': 'complete' is not differentiable for more rows than columns",
            described="complete",
        )
    if m < n:  # the columns on the right follow from q and themselves
        right = q @ r[..., m:]
        gq, gright, gr, r = gq + right @ adjoint(gr[..., m:]), q @ gr[..., m:], gr[..., :m], r[..., :m]
    upper = jnp.triu(gr @ adjoint(r) - adjoint(q) @ gq)
    inner = upper + adjoint(upper)
    diagonal = jnp.tril(jnp.triu(inner))
    total = gq + q @ (inner - 0.5 * diagonal)
    out = adjoint(triangular(r, adjoint(total), False))
    return out if m >= n else jnp.concatenate([out, gright], -1)


@composite(method=True)
def qr(x: Tensor, mode: str = "reduced") -> Tensor | tuple[Tensor, Tensor]:
    """QR decomposition: ``x == q @ r`` with orthonormal columns of ``q`` and an upper triangular ``r``.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, n]``, float32, float64 or complex.
        mode: ``'reduced'`` for ``q`` of shape ``[..., m, k]`` and ``r`` of shape ``[..., k, n]`` with
            ``k = min(m, n)``; ``'complete'`` for ``k = m``, which has no gradient if ``m > n``; ``'r'`` for the reduced
            ``r`` alone. Default: ``'reduced'``.

    Returns:
        A pair ``(q, r)``, or ``r`` alone.

    Raises:
        ValueError: If ``mode`` is none of these.

    Examples:
        >>> q, r = bireme.linalg.qr(bireme.to_tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> [[round(i, 4) for i in row] for row in (q @ r).tolist()]
        [[3.0, 1.0], [4.0, 2.0]]
    """
    if mode not in ("reduced", "complete", "r"):
        raise errors.bad("qr(mode)", "'reduced', 'complete' or 'r'", mode)
    found = qr_of(x, mode == "complete")
    return found[1] if mode == "r" else found


# ---------------------------------------------------------------- LU


def _lu_numpy(x):
    lu, pivots, info = lapack.getrf(x)
    return lu, pivots + 1, lapack.swaps_to_order(pivots, x.shape[-2]), info


@op(internal="lu", dtypes=LAPACK, numpy=_lu_numpy)
def lu_of(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Packed factors, row swaps counted from 1, the order of rows they lead to, and the index from 1 of the first zero
    pivot; use `lu`.
    """
    if x.size == 0:
        order = jnp.broadcast_to(jnp.arange(x.shape[-2], dtype=jnp.int32), x.shape[:-1])
        return x, jnp.zeros((*x.shape[:-2], min(x.shape[-2:])), jnp.int32), order, jnp.zeros(x.shape[:-2], jnp.int32)
    lu, pivots, order = lax.linalg.lu(x)
    zero = jnp.diagonal(lu, axis1=-2, axis2=-1) == 0
    info = jnp.where(jnp.any(zero, -1), jnp.argmax(zero, -1) + 1, 0).astype(jnp.int32)
    return lu, pivots + 1, order, info


lu_of.check(matrix("lu"))
lu_of.flops(_cubic, shares_cores=False)


@lu_of.infer
def _(x):
    *batch, m, n = x.shape
    shapes = ((*batch, min(m, n)), (*batch, m), tuple(batch))
    return x, *[sig_of(s, dtypes.int32) for s in shapes]


@lu_of.grad(numpy=True)
def _(g, out):
    g, lu, order = g[0], out[0], out[2]
    m, n = lu.shape[-2:]
    k = min(m, n)
    packed, gl, gu = lu[..., :k, :k], jnp.tril(g[..., :k, :k], -1), jnp.triu(g[..., :k, :k])
    below, beside = None, None
    if m > n:  # rows below the square follow from u and themselves, columns beside it from l
        below = adjoint(triangular(packed, adjoint(g[..., k:, :]), False))
        gu = gu - jnp.triu(adjoint(lu[..., k:, :]) @ below)
    elif m < n:
        beside = triangular(packed, g[..., :, k:], True, "C", True)
        gl = gl - jnp.tril(beside @ adjoint(lu[..., :, k:]), -1)
    lower = jnp.tril(packed, -1) + jnp.eye(k, dtype=lu.dtype)
    inner = jnp.tril(adjoint(lower) @ gl, -1) + jnp.triu(gu @ adjoint(jnp.triu(packed)))
    inner = triangular(packed, inner, True, "C", True)
    dx = adjoint(triangular(packed, adjoint(inner), False))
    dx = dx if m == n else jnp.concatenate([dx, below], -2) if m > n else jnp.concatenate([dx, beside], -1)
    return jnp.take_along_axis(dx, jnp.argsort(order, -1)[..., None], -2)


@composite(method=True, c_ops={"lu": "x pivot=True; get_infos=True"})
def lu(x: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """LU decomposition with partial pivoting, both factors packed into one matrix.

    ``lu_unpack`` separates them, and ``lu_solve`` solves equations with them.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, n]``, float32, float64 or complex.
        pivot: Must be ``True``. Default: True.
        get_infos: Whether to return for each matrix whether it has a zero pivot. Default: False.

    Returns:
        A tuple of the packed factors in the shape of ``x`` (the unit diagonal of the lower one is left out) and the
        pivots of int32: row ``i`` was swapped with row ``pivots[i] - 1``. With ``get_infos`` also a tensor of int32, 0
        or the number from 1 of the first zero pivot.

    Raises:
        ValueError: If ``pivot`` is ``False``.

    Examples:
        >>> packed, pivots = bireme.linalg.lu(bireme.to_tensor([[1.0, 2.0], [4.0, 4.0]]))
        >>> packed.tolist(), pivots.tolist()
        ([[4.0, 4.0], [0.25, 1.0]], [2, 2])
    """
    if not pivot:
        raise errors.bad("lu(pivot)", "True, since LU without pivoting is not supported", False)
    packed, pivots, _, info = lu_of(x)
    return (packed, pivots, info) if get_infos else (packed, pivots)


# ---------------------------------------------------------------- singular values


@op(dtypes=LAPACK, numpy=lapack.svd)
def svd(x: Tensor, full_matrices: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Singular value decomposition: ``x == u @ diag(s) @ vh``.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, n]``, float32, float64 or complex.
        full_matrices: Whether ``u`` and ``vh`` are square; otherwise they have ``k = min(m, n)`` columns and rows.
            Default: False.

    Returns:
        A tuple ``(u, s, vh)`` of shapes ``[..., m, k]``, ``[..., k]`` and ``[..., k, n]``; the singular values are real
        and in descending order.

    Examples:
        >>> bireme.linalg.svd(bireme.to_tensor([[3.0, 0.0], [0.0, 4.0]]))[1].tolist()
        [4.0, 3.0]
    """
    return tuple(lax.linalg.svd(x, full_matrices=full_matrices))


svd.check(matrix("svd"))
svd.flops(_cubic, shares_cores=False)


@svd.infer
def _(x, full_matrices):
    *batch, m, n = x.shape
    k = min(m, n)
    u, v = (m, n) if full_matrices else (k, k)
    return (
        sig_of((*batch, m, u), x.dtype),
        sig_of((*batch, k), dtypes.real_of(x.dtype)),
        sig_of((*batch, v, n), x.dtype),
    )


@svd.grad(numpy=True)
def _(g, out):
    u, s, vh = out
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    u, vh, gu, gs, gvh = u[..., :k], vh[..., :k, :], g[0][..., :k], g[1], g[2][..., :k, :]
    left, right = adjoint(u) @ gu, gvh @ adjoint(vh)
    gaps = reciprocal(s[..., None, :] ** 2 - s[..., :, None] ** 2)
    inner = (left - adjoint(left)) * gaps * s[..., None, :] + s[..., :, None] * (adjoint(right) - right) * gaps
    inner = inner + diagonals(gs)
    one = reciprocal(s)
    if jnp.iscomplexobj(u):  # the phases that u and vh share
        inner = inner + diagonals(jnp.imag(jnp.diagonal(left, axis1=-2, axis2=-1)) * one * 1j).astype(u.dtype)
    dx = u @ inner @ vh
    if m > k:
        dx = dx + ((gu - u @ left) * one[..., None, :]) @ vh
    if n > k:
        dx = dx + (u * one[..., None, :]) @ (gvh - right @ vh)
    return dx


@op(dtypes=LAPACK, numpy=lambda x: lapack.by_matrix(np.linalg.svdvals, x))
def svdvals(x: Tensor) -> Tensor:
    """Singular values of a matrix, in descending order.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, n]``, float32, float64 or complex.

    Returns:
        Tensor of real numbers of shape ``[..., min(m, n)]``.

    Examples:
        >>> bireme.linalg.svdvals(bireme.to_tensor([[3.0, 0.0], [0.0, 4.0]])).tolist()
        [4.0, 3.0]
    """
    return lax.linalg.svd(x, compute_uv=False)


svdvals.check(matrix("svdvals"))
svdvals.flops(_cubic, shares_cores=False)
svdvals.infer(lambda x: sig_of((*x.shape[:-2], min(x.shape[-2:])), dtypes.real_of(x.dtype)))


@svdvals.grad(numpy=True)
def _(g, x):
    u, _, vh = thin_svd(x)
    return (u * g[..., None, :]) @ vh


# ---------------------------------------------------------------- eigenvalues


@op(dtypes=LAPACK, numpy=lambda x, UPLO: lapack.eigh(x, UPLO == "L"),
    c_ops={"eigvalsh": "x uplo:UPLO='L' is_test:=False"})  # fmt: skip
def eigh(x: Tensor, UPLO: str = "L") -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of a symmetric (Hermitian) matrix.

    Args:
        x: Matrix or batch of matrices of shape ``[..., n, n]``, float32, float64 or complex.
        UPLO: Which triangle is read: ``'L'`` the lower one, ``'U'`` the upper one. Default: ``'L'``.

    Returns:
        A pair of the eigenvalues, real and in ascending order, of shape ``[..., n]``, and the eigenvectors as columns,
        in the shape of ``x``.

    Raises:
        ValueError: If a matrix is not square, or ``UPLO`` is neither.

    Examples:
        >>> bireme.linalg.eigh(bireme.to_tensor([[2.0, 0.0], [0.0, 1.0]]))[0].tolist()
        [1.0, 2.0]
    """
    return eigensystem(x, UPLO == "L")


def _triangle(name):
    def check(x, UPLO):
        if UPLO not in ("L", "U"):
            raise errors.bad(f"{name}(UPLO)", "'L' or 'U'", UPLO)
        needs_square(name, x.shape)

    return check


eigh.check(_triangle("eigh"))
eigh.infer(lambda x: (sig_of(x.shape[:-1], dtypes.real_of(x.dtype)), x))
eigh.flops(_cubic, shares_cores=False)


@eigh.grad(numpy=True)
def _(g, out):
    (gw, gv), (w, v) = g, out
    inner = (adjoint(v) @ gv) * reciprocal(w[..., None, :] - w[..., :, None]) + diagonals(gw)
    return hermitian_part(v @ inner @ adjoint(v))


def _eigvalsh_numpy(x, UPLO):
    return lapack.by_matrix(lambda a: np.linalg.eigvalsh(a, UPLO), x)


@op(method=True, dtypes=LAPACK, numpy=_eigvalsh_numpy)
def eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of a symmetric (Hermitian) matrix, in ascending order.

    Args:
        x: Matrix or batch of matrices of shape ``[..., n, n]``, float32, float64 or complex.
        UPLO: Which triangle is read: ``'L'`` the lower one, ``'U'`` the upper one. Default: ``'L'``.

    Returns:
        Tensor of real numbers of shape ``[..., n]``.

    Raises:
        ValueError: If a matrix is not square, or ``UPLO`` is neither.

    Examples:
        >>> bireme.linalg.eigvalsh(bireme.to_tensor([[2.0, 0.0], [0.0, 1.0]])).tolist()
        [1.0, 2.0]
    """
    if x.size == 0:
        return jnp.zeros(x.shape[:-1], jnp.real(x).dtype)
    return jnp.linalg.eigvalsh(mirrored(x, UPLO == "L"), UPLO, symmetrize_input=False)


eigvalsh.check(_triangle("eigvalsh"))
eigvalsh.infer(lambda x: sig_of(x.shape[:-1], dtypes.real_of(x.dtype)))
eigvalsh.flops(_cubic, shares_cores=False)


@eigvalsh.grad(numpy=True)
def _(g, x, UPLO):
    v = eigensystem(x, UPLO == "L")[1]
    return (v * g[..., None, :]) @ adjoint(v)


@op(method=True, dtypes=LAPACK, numpy=lapack.eig)
def eig(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of a square matrix.

    For a symmetric or Hermitian matrix, use ``eigh``.

    Args:
        x: Matrix or batch of matrices of shape ``[..., n, n]``, float32, float64 or complex.

    Returns:
        A pair of complex tensors: the eigenvalues in no particular order, of shape ``[..., n]``, and the eigenvectors
        of norm 1 as columns, in the shape of ``x``.

    Raises:
        ValueError: If a matrix is not square.

    Examples:
        >>> bireme.linalg.eig(bireme.to_tensor([[0.0, 1.0], [-1.0, 0.0]]))[0].tolist()
        [1j, -1j]
    """
    kind = dtypes.complex_of(dtypes.from_numpy(x.dtype)).np
    if x.size == 0:
        return jnp.zeros(x.shape[:-1], kind), x.astype(kind)
    return tuple(lax.linalg.eig(x, compute_left_eigenvectors=False))


eig.check(square("eig"))
eig.infer(lambda x: (sig_of(x.shape[:-1], dtypes.complex_of(x.dtype)), sig_of(x.shape, dtypes.complex_of(x.dtype))))
eig.flops(_cubic, shares_cores=False)


@eig.grad(numpy=True)
def _(g, out):
    (gw, gv), (w, v) = g, out
    inner = adjoint(v) @ gv
    lengths = jnp.real(jnp.diagonal(inner, axis1=-2, axis2=-1))  # vectors keep their length, so growth does not count
    inner = inner - (adjoint(v) @ v) * lengths[..., None, :]
    inner = inner * reciprocal(conj_of(w[..., None, :] - w[..., :, None])) + diagonals(gw)
    return solved(adjoint(v), inner @ adjoint(v))


@composite(method=True)
def eigvals(x: Tensor) -> Tensor:
    """Eigenvalues of a square matrix, in no particular order.

    Args:
        x: Matrix or batch of matrices of shape ``[..., n, n]``, float32, float64 or complex.

    Returns:
        Complex tensor of shape ``[..., n]``.

    Raises:
        ValueError: If a matrix is not square.

    Examples:
        >>> bireme.linalg.eigvals(bireme.to_tensor([[0.0, 1.0], [-1.0, 0.0]])).tolist()
        [1j, -1j]
    """
    return eig(x)[0]
