"""Solutions of linear equations, inverses and determinants."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import lapack
from bireme.core.numpy_exec.rebinding import dual
from bireme.ops._shared.broadcast import broadcast_shape, conj_of, sum_to
from bireme.ops._shared.matrix import (
    LAPACK,
    adjoint,
    guarded,
    needs_matrix,
    needs_square,
    permutation,
    solved,
    square,
    triangular,
    turned,
)
from bireme.ops.creation import tensors


def _cubic(x, *others):
    return x.size * x.shape[-1]


# ---------------------------------------------------------------- inverse and determinant


@op(internal="inv", dtypes=LAPACK, numpy=lambda x: lapack.by_matrix(np.linalg.inv, x))
def inv_of(x: Tensor) -> Tensor:
    """The inverse; use `inv`."""
    return solved(x, jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape))


inv_of.check(square("inv"))
inv_of.infer(lambda x: x)
inv_of.flops(_cubic, shares_cores=False)
inv_of.grad(lambda g, out: -(adjoint(out) @ g @ adjoint(out)), numpy=True)


@composite(public="linalg.inv inverse", method="inverse")
def inv(x: Tensor) -> Tensor:
    """Inverse of a square matrix.

    To solve equations, ``solve`` is faster and more accurate.

    Args:
        x: Matrix or batch of matrices of shape ``[..., n, n]``, float32, float64 or complex.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: If a matrix is not square, or singular.

    Examples:
        >>> bireme.linalg.inv(bireme.to_tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.25]]
    """
    return guarded("inv(x)", "invertible matrices", "a singular matrix", x, inv_of(x))


def _spoiled(x, found):
    """What NumPy takes for a zero pivot may be NaN."""
    return np.where(np.isnan(x).any((-1, -2)), np.asarray(np.nan, found.dtype), found)


@op(dtypes=LAPACK, numpy=lambda x: _spoiled(x, np.linalg.det(x)))
def det(x: Tensor) -> Tensor:
    """Determinant of a square matrix.

    Args:
        x: Matrix or batch of matrices of shape ``[..., n, n]``, float32, float64 or complex.

    Returns:
        Tensor of shape ``[...]``.

    Raises:
        ValueError: If a matrix is not square.

    Examples:
        >>> bireme.linalg.det(bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]])).item()
        -2.0
    """
    return jnp.linalg.det(x) if x.size else jnp.ones(x.shape[:-2], x.dtype)


det.check(square("det"))
det.infer(lambda x: sig_of(x.shape[:-2], x.dtype))
det.flops(_cubic, shares_cores=False)


def _slogdet(sign, log):
    return jnp.stack([sign, log.astype(sign.dtype)])


@op(dtypes=LAPACK, numpy=lambda x: _spoiled(x, np.stack(np.linalg.slogdet(x))))
def slogdet(x: Tensor) -> Tensor:
    """Sign and logarithm of the absolute value of a determinant, which neither overflow nor underflow.

    Args:
        x: Matrix or batch of matrices of shape ``[..., n, n]``, float32, float64 or complex.

    Returns:
        Tensor of shape ``[2, ...]``: signs, then logarithms; 0 and ``-inf`` for a singular matrix.

    Raises:
        ValueError: If a matrix is not square.

    Examples:
        >>> bireme.linalg.slogdet(bireme.to_tensor([[0.0, 1.0], [1.0, 0.0]])).tolist()
        [-1.0, 0.0]
    """
    return _slogdet(*jnp.linalg.slogdet(x))


slogdet.check(square("slogdet"))
slogdet.infer(lambda x: sig_of((2, *x.shape[:-2]), x.dtype))
slogdet.flops(_cubic, shares_cores=False)


@slogdet.grad(numpy=True)
def _(g, out, x):
    change = jnp.real(g[1]) if jnp.iscomplexobj(g) else g[1]
    if jnp.iscomplexobj(g):  # the sign turns with its operand
        change = change + 1j * jnp.imag(g[0] * conj_of(out[0]))
    eye = jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return change[..., None, None].astype(x.dtype) * solved(adjoint(x), eye)


# ---------------------------------------------------------------- systems of equations


def _fitting(name, x, y, left=True):
    """Shapes of a system after broadcasting: of the matrices, and of the right-hand sides."""
    needs_square(name, x.shape)
    needs_matrix(name, y.shape, "y")
    if y.shape[-2 if left else -1] != x.shape[-1]:
        what = "rows" if left else "columns"
        raise errors.bad(
            f"{name}(y)",
            f"{x.shape[-1]} {what} to match x of shape {list(x.shape)}",
            described=f"shape {list(y.shape)}",
            kind=errors.ShapeError,
        )
    return broadcast_shape(name, x.shape[:-2], y.shape[:-2])


def _solve_numpy(x, y):
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return lapack.by_matrix(
        np.linalg.solve, np.broadcast_to(x, (*batch, *x.shape[-2:])), np.broadcast_to(y, (*batch, *y.shape[-2:]))
    )


@op(internal="solve", promote="x y", mix="same", dtypes=LAPACK, numpy=_solve_numpy)
def solve_of(x: Tensor, y: Tensor) -> Tensor:
    """The solution of `x @ out = y` for matrices `y`; use `solve`."""
    return solved(x, y)


solve_of.infer(lambda x, y: sig_of((*_fitting("solve", x, y), *y.shape[-2:]), x.dtype))
solve_of.flops(_cubic, shares_cores=False)


@solve_of.grad(numpy=True)
def _(g, out, x, sigs):
    dy = solved(adjoint(x), g)
    return sum_to(-(dy @ adjoint(out)), sigs[0]), sum_to(dy, sigs[1])


@composite(method=True)
def solve(x: Tensor, y: Tensor, left: bool = True) -> Tensor:
    """Solution of a system of linear equations ``x @ out == y``, or ``out @ x == y``.

    Args:
        x: Coefficients, a matrix or batch of matrices of shape ``[..., n, n]``, float32, float64 or complex.
        y: Right-hand sides of shape ``[..., n, k]``, or ``[..., k, n]`` if not ``left``; leading axes broadcast. With
            ``left`` also a vector of size ``n``, or a batch of them with the leading axes of ``x``.
        left: Whether ``x`` is on the left of the unknown. Default: True.

    Returns:
        Tensor of the solution, with the last axes of ``y``.

    Raises:
        ValueError: If a shape does not fit, or a matrix is singular.

    Examples:
        >>> bireme.linalg.solve(bireme.to_tensor([[2.0, 0.0], [0.0, 4.0]]), bireme.to_tensor([2.0, 2.0])).tolist()
        [1.0, 0.5]
    """
    needs_square("solve", tuple(x.shape))
    if y.ndim == 0:
        raise errors.bad("solve(y)", "a vector or matrices", described="shape []", kind=errors.ShapeError)
    # a batch of vectors has one axis less than the matrices and their leading shape
    vectors = y.ndim == 1 or (left and y.ndim == x.ndim - 1 and y.shape == x.shape[:-1])
    if y.ndim == 1 and x.ndim > 1 and left and y.shape[0] != x.shape[-1]:
        wanted = f"{x.shape[-1]} elements to match x of shape {x.shape}"
        raise errors.bad("solve(y)", wanted, described=f"shape {y.shape}", kind=errors.ShapeError)
    if not left:
        if vectors:
            raise errors.bad(
                "solve(y)", "matrices where left is False", described=f"shape {y.shape}", kind=errors.ShapeError
            )
        out = solve_of(turned(x), turned(y))
    else:
        out = solve_of(x, y.unsqueeze(-1) if vectors else y)
    out = guarded("solve(x)", "invertible matrices", "a singular matrix", x, out)
    return turned(out) if not left else out.squeeze(-1) if vectors else out


@op(promote="x y", mix="same", dtypes=LAPACK, numpy=True)
def triangular_solve(
    x: Tensor, y: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Tensor:
    """Solution of a system of linear equations ``x @ out == y`` with a triangular matrix.

    Args:
        x: Triangular matrix or batch of them of shape ``[..., n, n]``, float32, float64 or complex; the other triangle
            is not read.
        y: Right-hand sides of shape ``[..., n, k]``, of the same dtype; leading axes broadcast.
        upper: Whether ``x`` is upper triangular rather than lower. Default: True.
        transpose: Whether to solve with the transpose of ``x`` instead. Default: False.
        unitriangular: Whether the diagonal of ``x`` counts as 1 and is not read. Default: False.

    Returns:
        Tensor of the solution, of shape ``[..., n, k]``.

    Raises:
        ValueError: If a shape does not fit.

    Examples:
        >>> x = bireme.to_tensor([[2.0, 9.0], [0.0, 4.0]])
        >>> bireme.linalg.triangular_solve(x, bireme.to_tensor([[11.0], [4.0]])).tolist()
        [[1.0], [1.0]]
    """
    return triangular(x, y, not upper, "T" if transpose else "N", unitriangular)


triangular_solve.infer(lambda x, y: sig_of((*_fitting("triangular_solve", x, y), *y.shape[-2:]), x.dtype))
triangular_solve.flops(_cubic, shares_cores=False)


@triangular_solve.grad(numpy=True)
def _(g, out, x, upper, transpose, unitriangular, sigs):
    dy = triangular(conj_of(x), g, not upper, "N" if transpose else "T", unitriangular)
    dx = -(conj_of(out) @ jnp.swapaxes(dy, -1, -2)) if transpose else -(dy @ adjoint(out))
    dx = jnp.triu(dx, int(unitriangular)) if upper else jnp.tril(dx, -int(unitriangular))
    return sum_to(dx, sigs[0]), sum_to(dy, sigs[1])


@composite(method=True)
def cholesky_solve(x: Tensor, y: Tensor, upper: bool = False) -> Tensor:
    """Solution of ``a @ out == x`` from the Cholesky factor of ``a``.

    Args:
        x: Right-hand sides of shape ``[..., n, k]``.
        y: Cholesky factor of ``a``, a triangular matrix or batch of them of shape ``[..., n, n]``.
        upper: Whether ``y`` is the upper triangular factor rather than the lower one. Default: False.

    Returns:
        Tensor of the solution, of shape ``[..., n, k]``.

    Raises:
        ValueError: If a shape does not fit.

    Examples:
        >>> bireme.linalg.cholesky_solve(bireme.to_tensor([[8.0]]), bireme.to_tensor([[2.0]])).tolist()
        [[2.0]]
    """
    other = y.conj() if y.dtype.is_complex else y
    if upper:
        return triangular_solve(y, triangular_solve(other, x, True, True), True)
    return triangular_solve(other, triangular_solve(y, x, False), False, True)


@composite(method=True)
def cholesky_inverse(x: Tensor, upper: bool = False) -> Tensor:
    """Inverse of a positive definite matrix from its Cholesky factor.

    Args:
        x: Cholesky factor, a triangular matrix of shape ``[n, n]`` or a batch of them.
        upper: Whether ``x`` is the upper triangular factor rather than the lower one. Default: False.

    Returns:
        Tensor of the shape of ``x``.

    Raises:
        ValueError: If a matrix is not square.

    Examples:
        >>> bireme.linalg.cholesky_inverse(bireme.to_tensor([[2.0]])).tolist()
        [[0.25]]
    """
    needs_square("cholesky_inverse", tuple(x.shape))
    return cholesky_solve(tensors.eye(x.shape[-1], dtype=x.dtype), x, upper)


# ---------------------------------------------------------------- factors of LU


@dual(lambda pivots, n: lapack.swaps_to_order(pivots - 1, n))
def _order(pivots, n):
    if pivots.size == 0:
        return jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), (*pivots.shape[:-1], n))
    return lax.linalg.lu_pivots_to_permutation(pivots - 1, n)


def _swapped(x, pivots, undo):
    swaps = permutation(_order(pivots, x.shape[-2]), x.dtype)
    return (jnp.swapaxes(swaps, -1, -2) if undo else swaps) @ x


@op(internal=True, numpy=True)
def row_swaps(x: Tensor, pivots: Tensor, undo: bool) -> Tensor:
    """Rows swapped as LU's pivots say, or swapped back; use `lu_solve` and `lu_unpack`."""
    return _swapped(x, pivots, undo)


@row_swaps.infer
def _(x, pivots):
    return sig_of((*broadcast_shape("lu_solve", x.shape[:-2], pivots.shape[:-1]), *x.shape[-2:]), x.dtype)


row_swaps.index(lambda a: [("pivots", 1, a["x"].shape[-2] + 1)])
row_swaps.grad(lambda g, pivots, undo, sigs: (sum_to(_swapped(g, pivots, not undo), sigs[0]), None), numpy=True)


def _pivots(name: str, argument: str, lu: Tensor, pivots: Tensor) -> None:
    """Raise unless these can be the pivots of a factorised matrix."""
    needs_matrix(name, tuple(lu.shape), "lu" if name == "lu_solve" else "x")
    wanted = [*lu.shape[:-2], min(lu.shape[-2:])]
    if pivots.dtype is not dtypes.int32 or pivots.shape != wanted:
        raise errors.bad(
            f"{name}({argument})", f"int32 of shape {wanted}", described=f"{pivots.dtype.name} of shape {pivots.shape}"
        )


@composite()
def lu_solve(b: Tensor, lu: Tensor, pivots: Tensor, trans: str = "N") -> Tensor:
    """Solution of ``a @ out == b`` from the packed LU decomposition of ``a``.

    Args:
        b: Right-hand sides of shape ``[..., n, k]``.
        lu: Packed factors from ``lu``, of shape ``[..., n, n]``.
        pivots: Pivots from ``lu``, int32 of shape ``[..., n]``.
        trans: Which system to solve: ``'N'`` that of ``a``, ``'T'`` of its transpose, ``'C'`` or ``'H'`` of its
            conjugate transpose. Default: ``'N'``.

    Returns:
        Tensor of the solution, of shape ``[..., n, k]``.

    Raises:
        ValueError: If a shape does not fit, or ``trans`` is none of these.

    Examples:
        >>> factors = bireme.linalg.lu(bireme.to_tensor([[0.0, 2.0], [4.0, 0.0]]))
        >>> bireme.linalg.lu_solve(bireme.to_tensor([[2.0], [4.0]]), *factors).tolist()
        [[1.0], [1.0]]
    """
    if trans not in ("N", "T", "C", "H"):
        raise errors.bad("lu_solve(trans)", "'N', 'T', 'C' or 'H'", trans)
    _pivots("lu_solve", "pivots", lu, pivots)
    needs_matrix("lu_solve", tuple(b.shape), "b")
    if lu.shape[-1] != lu.shape[-2] or b.shape[-2] != lu.shape[-1]:
        raise errors.bad(
            "lu_solve(b)",
            f"as many rows as the square matrix lu of shape {lu.shape}",
            described=f"shape {b.shape}",
            kind=errors.ShapeError,
        )
    if trans == "N":
        return triangular_solve(lu, triangular_solve(lu, row_swaps(b, pivots, False), False, False, True))
    factors = lu.conj() if trans in "CH" and lu.dtype.is_complex else lu
    out = triangular_solve(factors, triangular_solve(factors, b, True, True), False, True, True)
    return row_swaps(out, pivots, True)


@op(internal=True, numpy=True)
def lu_parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """The lower and the upper factor that `lu` packed into one matrix; use `lu_unpack`."""
    m, n = x.shape[-2:]
    k = min(m, n)
    return jnp.tril(x[..., :k], -1) + jnp.eye(m, k, dtype=x.dtype), jnp.triu(x[..., :k, :])


@lu_parts.grad(numpy=True)
def _(g, sigs):
    m, n = sigs[0].shape[-2:]
    lower, upper = jnp.tril(g[0], -1), jnp.triu(g[1])
    none = [(0, 0)] * (lower.ndim - 1)
    return jnp.pad(lower, [*none, (0, n - lower.shape[-1])]) + jnp.pad(
        upper, [*none[:-1], (0, m - upper.shape[-2]), (0, 0)]
    )


@composite(method=True, hands={"pivots": "y"})
def lu_unpack(
    x: Tensor, y: Tensor, unpack_ludata: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Separate the result of ``lu`` into a permutation and both factors: ``p @ l @ u`` is the matrix.

    Args:
        x: Packed factors from ``lu``, of shape ``[..., m, n]``.
        y: Pivots from ``lu``, int32 of shape ``[..., k]`` with ``k = min(m, n)``.
        unpack_ludata: Whether to return the factors. Default: True.
        unpack_pivots: Whether to return the permutation. Default: True.

    Returns:
        A tuple ``(p, l, u)`` of shapes ``[..., m, m]``, ``[..., m, k]`` and ``[..., k, n]``; what is not asked for is
        an empty tensor.

    Raises:
        ValueError: If the pivots do not fit.

    Examples:
        >>> p, _, _ = bireme.linalg.lu_unpack(*bireme.linalg.lu(bireme.to_tensor([[1.0, 2.0], [4.0, 4.0]])))
        >>> p.tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    _pivots("lu_unpack", "y", x, y)
    nothing = tensors.zeros([0], x.dtype)
    lower, upper = lu_parts(x) if unpack_ludata else (nothing, nothing)
    swaps = row_swaps(tensors.eye(x.shape[-2], dtype=x.dtype), y, True) if unpack_pivots else nothing
    return swaps, lower, upper
