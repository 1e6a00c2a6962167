"""Householder reflections: the unitary matrix that QR keeps as columns and factors."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, FLOAT
from bireme.core.declare.op import Tensor, composite, op
from bireme.ops._shared.broadcast import conj_of
from bireme.ops._shared.matrix import turned
from bireme.ops.creation import tensors
from bireme.ops.linalg.matmul import matmul


def _columns(x, k):
    """The vectors that reflect: 1 on the diagonal, zeros above."""
    return jnp.tril(x[..., :k], -1) + jnp.eye(x.shape[-2], k, dtype=x.dtype)


def _reflect(y, v, t):
    return y - t[..., None, None] * v[..., :, None] * (conj_of(v)[..., None, :] @ y)


def _reflect_numpy(x, tau, y, adjoint):
    k = tau.shape[-1]
    v = np.tril(x[..., :k], -1) + np.eye(x.shape[-2], k, dtype=x.dtype)
    for i in range(k) if adjoint else reversed(range(k)):
        t = np.conj(tau[..., i]) if adjoint else tau[..., i]
        y = y - t[..., None, None] * v[..., :, i, None] * (np.conj(v[..., None, :, i]) @ y)
    return y


@op(internal=True, promote="x tau y", mix="same", dtypes=FLOAT | COMPLEX, numpy=_reflect_numpy, upcast=True)
def reflect(x: Tensor, tau: Tensor, y: Tensor, adjoint: bool) -> Tensor:
    """The product of all reflections, or its adjoint, times `y`; use `householder_product` and `ormqr`."""
    k = tau.shape[-1]
    v, t = _columns(x, k), conj_of(tau) if adjoint else tau
    if k > 16:  # beyond this a loop is compiled sooner than what it does
        steps = jnp.moveaxis(v, -1, 0), jnp.moveaxis(t, -1, 0)
        return lax.scan(lambda y, step: (_reflect(y, *step), None), y, steps, reverse=not adjoint)[0]
    for i in range(k) if adjoint else reversed(range(k)):
        y = _reflect(y, v[..., i], t[..., i])
    return y


reflect.infer(lambda y: y)


def _fitting(name: str, x: Tensor, tau: Tensor) -> None:
    if x.ndim < 2 or x.shape[-2] < x.shape[-1]:
        raise errors.bad(
            f"{name}(x)",
            "matrices with at least as many rows as columns",
            described=f"shape {x.shape}",
            kind=errors.ShapeError,
        )
    if tau.dtype is not x.dtype:
        raise errors.bad(
            f"{name}(tau)", f"{x.dtype.name} as x has", described=tau.dtype.name, kind=errors.ArgumentError
        )
    if tau.ndim != x.ndim - 1 or tau.shape[:-1] != x.shape[:-2] or tau.shape[-1] > x.shape[-1]:
        raise errors.bad(
            f"{name}(tau)",
            f"shape {[*x.shape[:-2], x.shape[-1]]}, or a smaller last dimension",
            described=f"shape {tau.shape}",
            kind=errors.ShapeError,
        )


@composite(method=True)
def householder_product(x: Tensor, tau: Tensor) -> Tensor:
    """First ``n`` columns of a product of Householder reflections.

    The product is ``h1 @ h2 @ ... @ hk`` with ``hi = I - tau[i] * v @ v.H``; the vector ``v`` is column ``i`` of ``x``
    below the diagonal, with 1 on the diagonal and 0 above. This is the ``q`` of a QR decomposition in LAPACK's packed
    form.

    Args:
        x: Vectors as columns of matrices of shape ``[..., m, n]`` with ``m >= n``, floating-point or complex.
        tau: Factors of the reflections, of shape ``[..., k]`` with ``k <= n`` and the dtype of ``x``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: If a shape or a dtype does not fit.

    Examples:
        >>> x, tau = bireme.to_tensor([[5.0, 1.0], [0.5, 2.0]]), bireme.to_tensor([1.6, 0.0])
        >>> [[round(i, 4) for i in row] for row in bireme.linalg.householder_product(x, tau).tolist()]
        [[-0.6, -0.8], [-0.8, 0.6]]
    """
    _fitting("householder_product", x, tau)
    m, n = x.shape[-2:]
    return reflect(x, tau, tensors.eye(m, n, x.dtype).expand(x.shape), False)


@composite(method=True)
def ormqr(x: Tensor, tau: Tensor, y: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Multiply a matrix by the product of Householder reflections ``q = householder_product(x, tau)``.

    Args:
        x: Vectors as columns of matrices of shape ``[..., m, n]`` with ``m >= n``, floating-point or complex.
        tau: Factors of the reflections, of shape ``[..., n]`` and the dtype of ``x``.
        y: Matrix to multiply, with the leading axes and the dtype of ``x``.
        left: Whether ``q`` is on the left: ``q @ y``; otherwise it is ``y @ q``. Default: True.
        transpose: Whether to multiply by the conjugate transpose ``q.H`` instead of ``q``. Default: False.

    Returns:
        Tensor of the product.

    Raises:
        ValueError: If a shape or a dtype does not fit.

    Examples:
        >>> x, tau = bireme.to_tensor([[5.0, 1.0], [0.5, 2.0]]), bireme.to_tensor([1.6, 0.0])
        >>> out = bireme.linalg.ormqr(x, tau, bireme.to_tensor([[1.0], [0.0]]))
        >>> [[round(i, 4) for i in row] for row in out.tolist()]
        [[-0.6], [-0.8]]
    """
    _fitting("ormqr", x, tau)
    if tau.shape[-1] != x.shape[-1]:
        raise errors.bad(
            "ormqr(tau)",
            f"{x.shape[-1]} factors, one for each column of x",
            described=f"shape {tau.shape}",
            kind=errors.ShapeError,
        )
    fitting = x.shape[-2 if left is transpose else -1]
    if (
        y.ndim != x.ndim
        or y.shape[:-2] != x.shape[:-2]
        or y.shape[-2 if left else -1] != fitting
        or y.dtype is not x.dtype
    ):
        wanted = f"{x.dtype.name} with {fitting} {'rows' if left else 'columns'} and the leading axes of x of shape {x.shape}"
        raise errors.bad("ormqr(y)", wanted, described=f"{y.dtype.name} of shape {y.shape}", kind=errors.ArgumentError)
    q = householder_product(x, tau)
    if transpose:
        q = turned(q.conj() if q.dtype.is_complex else q)  # type: ignore[attr-defined]  # a method that Tensor gets elsewhere
    return matmul(q, y) if left else matmul(y, q)
