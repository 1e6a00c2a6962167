"""What operators on matrices share: checks of shapes and of numbers, transposes and solutions."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, float32, float64
from bireme.core.declare.op import Tensor, op
from bireme.core.graph import segment
from bireme.core.numpy_exec import lapack
from bireme.core.numpy_exec.rebinding import dual
from bireme.core.record import guards
from bireme.core.tensor.tensor import read
from bireme.ops._shared.broadcast import conj_of

LAPACK = frozenset((float32, float64)) | COMPLEX  # the dtypes that factorizations are made in


# ---------------------------------------------------------------- checks


def needs_matrix(name: str, shape: tuple[int, ...], argument: str = "x") -> None:
    """Raise unless there are two axes or more."""
    if len(shape) < 2:
        raise errors.bad(
            f"{name}({argument})",
            "a matrix or a batch of matrices",
            described=f"shape {list(shape)}",
            kind=errors.ShapeError,
        )


def needs_square(name: str, shape: tuple[int, ...], argument: str = "x") -> None:
    """Raise unless the last two axes have the same size."""
    needs_matrix(name, shape, argument)
    if shape[-1] != shape[-2]:
        raise errors.bad(
            f"{name}({argument})", "square matrices", described=f"shape {list(shape)}", kind=errors.ShapeError
        )


def square(name: str) -> Callable:
    """A check that the only operand is square."""
    return lambda x: needs_square(name, x.shape)


def matrix(name: str) -> Callable:
    """A check that the only operand is a matrix or a batch of them."""
    return lambda x: needs_matrix(name, x.shape)


@op(internal=True, differentiable=False,
    numpy=lambda x, found: np.logical_and(not np.isfinite(found).all(), np.isfinite(x).all()))  # fmt: skip
def broke_down(x: Tensor, found: Tensor) -> Tensor:
    """Whether `found` is not finite though `x` is: a factorization that failed."""
    return ~jnp.all(jnp.isfinite(found)) & jnp.all(jnp.isfinite(x))


def guarded(where: str, expected: str, got: str, x: Tensor, out: Tensor) -> Tensor:
    """`out`, and an error when it is asked for if it is not finite though `x` is."""
    if out._value.sig.size and not segment.local.segment.symbolic:
        broken = broke_down(x.detach(), out.detach())
        guards.guard(
            broken._value, None, f"{where}: expected {expected}, got {got}", errors.ArgumentError, result=read(out)
        )
    return out


def turned(x: Tensor) -> Tensor:
    """The last two axes swapped."""
    return x.transpose([*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])  # type: ignore[attr-defined]  # a method that Tensor gets elsewhere


# ---------------------------------------------------------------- jax and NumPy alike


def adjoint(x):
    """The conjugate transpose of the last two axes."""
    return conj_of(jnp.swapaxes(x, -1, -2))


def hermitian_part(x):
    return (x + adjoint(x)) / 2


def mirrored(x, lower: bool):
    """The Hermitian matrix of which one triangle is given."""
    part = jnp.tril(x, -1) if lower else jnp.triu(x, 1)
    return jnp.where(jnp.eye(x.shape[-1], dtype=bool), jnp.real(x) if jnp.iscomplexobj(x) else x, part + adjoint(part))


def diagonals(x):
    """A batch of vectors as diagonal matrices."""
    return x[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype)


def reciprocal(x):
    """One over `x`, and 0 where `x` is 0: what does not count there must not become NaN."""
    zero = x == 0
    return jnp.where(zero, 0, 1 / jnp.where(zero, 1, x)).astype(x.dtype)


def _same_batch(a, b, xp):
    """Both with the leading dimensions that broadcasting gives them."""
    shape = a.shape[:-2] if a.shape[:-2] == b.shape[:-2] else np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return xp.broadcast_to(a, (*shape, *a.shape[-2:])), xp.broadcast_to(b, (*shape, *b.shape[-2:]))


def _triangular_numpy(a, b, lower: bool, trans: str = "N", unit: bool = False):
    a, b = _same_batch(a, b, np)
    return lapack.triangular_solve(a, b, True, lower, "NTC".index(trans), unit)


@dual(_triangular_numpy)
def triangular(a, b, lower: bool, trans: str = "N", unit: bool = False):
    """The solution of `a @ out = b` for a triangular `a`, or for its transpose "T", or its adjoint "C"."""
    a, b = _same_batch(a, b, jnp)
    if b.size == 0:
        return b
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=trans != "N", conjugate_a=trans == "C", unit_diagonal=unit
    )


def permutation(order, dtype):
    """The matrix that puts rows into an order: a product has simpler derivatives than a gather."""
    return (order[..., :, None] == jnp.arange(order.shape[-1])).astype(dtype)


@dual(lambda a, b: lapack.by_matrix(np.linalg.solve, a, b))
def solved(a, b):
    """The solution of `a @ out = b`."""
    if a.size == 0 or b.size == 0:
        return jnp.broadcast_to(b, (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]))
    lu, _, order = lax.linalg.lu(a)
    return triangular(lu, triangular(lu, permutation(order, b.dtype) @ b, True, "N", True), False)


@dual(lambda x: lapack.svd(x, False))
def thin_svd(x):
    """As many singular vectors as values."""
    return lax.linalg.svd(x, full_matrices=False)


@dual(lapack.eigh)
def eigensystem(x, lower: bool):
    """Eigenvalues and vectors of the Hermitian matrix of which one triangle is given."""
    if x.size == 0:
        return jnp.zeros(x.shape[:-1], jnp.finfo(x.dtype).dtype), x
    v, w = lax.linalg.eigh(mirrored(x, lower), lower=lower, symmetrize_input=False)
    return w, v
