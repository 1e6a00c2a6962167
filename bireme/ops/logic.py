"""Comparison, logic and bits."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core import dtype as dtypes
from bireme.core.dtype import BOOL, INT
from bireme.core.graph import sig_of
from bireme.core.op import Extra, Tensor, composite, op
from bireme.ops.broadcast import broadcast_shape, comparison, elementwise, same, sum_to


@op(method="equal eq", promote="x y", differentiable=False, numpy=np.equal, torch=True, out=True)
def equal(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise `x == y`.

    >>> bireme.equal(bireme.to_tensor([1, 2]), bireme.to_tensor([1, 3])).tolist()
    [True, False]
    """
    return jnp.equal(x, y)


@op(method="not_equal ne", promote="x y", differentiable=False, numpy=np.not_equal)
def not_equal(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise `x != y`.

    >>> bireme.not_equal(bireme.to_tensor([1, 2]), bireme.to_tensor([1, 3])).tolist()
    [False, True]
    """
    return jnp.not_equal(x, y)


@op(method="less_than lt less", promote="x y", differentiable=False, numpy=np.less)
def less_than(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise `x < y`.

    >>> bireme.less_than(bireme.to_tensor([1, 2]), bireme.to_tensor([2, 2])).tolist()
    [True, False]
    """
    return jnp.less(x, y)


@op(method="less_equal le", promote="x y", differentiable=False, numpy=np.less_equal)
def less_equal(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise `x <= y`.

    >>> bireme.less_equal(bireme.to_tensor([1, 3]), bireme.to_tensor([2, 2])).tolist()
    [True, False]
    """
    return jnp.less_equal(x, y)


@op(method="greater_than gt", promote="x y", differentiable=False, numpy=np.greater, torch=True, out=True)
def greater_than(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise `x > y`.

    >>> bireme.greater_than(bireme.to_tensor([1, 3]), bireme.to_tensor([2, 2])).tolist()
    [False, True]
    """
    return jnp.greater(x, y)


@op(method="greater_equal ge", promote="x y", differentiable=False, numpy=np.greater_equal)
def greater_equal(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise `x >= y`.

    >>> bireme.greater_equal(bireme.to_tensor([1, 2]), bireme.to_tensor([2, 2])).tolist()
    [False, True]
    """
    return jnp.greater_equal(x, y)


for _op in (equal, not_equal, less_than, less_equal, greater_than, greater_equal):
    _op.infer(comparison(_op.name, dtypes.bool_))


@op(method=True, promote="x y", mix="floats", differentiable=False, numpy=np.logical_and, torch=True)
def logical_and(x: Tensor, y: Tensor, out: Extra = None) -> Tensor:
    """Elementwise `x and y` of what is not zero.

    >>> bireme.logical_and(bireme.to_tensor([True, True]), bireme.to_tensor([True, False])).tolist()
    [True, False]
    """
    return jnp.logical_and(x, y)


@op(method=True, promote="x y", mix="floats", differentiable=False, numpy=np.logical_or, torch=True)
def logical_or(x: Tensor, y: Tensor, out: Extra = None) -> Tensor:
    """Elementwise `x or y` of what is not zero.

    >>> bireme.logical_or(bireme.to_tensor([True, False]), bireme.to_tensor([False, False])).tolist()
    [True, False]
    """
    return jnp.logical_or(x, y)


@op(method=True, differentiable=False, numpy=np.logical_not, torch=True)
def logical_not(x: Tensor, out: Extra = None) -> Tensor:
    """Elementwise `not x`.

    >>> bireme.logical_not(bireme.to_tensor([True, False])).tolist()
    [False, True]
    """
    return jnp.logical_not(x)


logical_and.infer(comparison("logical_and", dtypes.bool_))
logical_or.infer(comparison("logical_or", dtypes.bool_))
logical_not.infer(lambda x: sig_of(x.shape, dtypes.bool_))


@op(method=True, promote="x y", mix="same", dtypes=INT | BOOL, differentiable=False, numpy=np.bitwise_and)
def bitwise_and(x: Tensor, y: Tensor | int, out: Extra = None) -> Tensor:
    """Bits set in both.

    >>> bireme.bitwise_and(bireme.to_tensor([6]), bireme.to_tensor([3])).tolist()
    [2]
    """
    return jnp.bitwise_and(x, y)


@op(method=True, promote="x y", mix="same", dtypes=INT | BOOL, differentiable=False, numpy=np.bitwise_or, torch=True)
def bitwise_or(x: Tensor, y: Tensor | int, out: Extra = None) -> Tensor:
    """Bits set in either.

    >>> bireme.bitwise_or(bireme.to_tensor([6]), bireme.to_tensor([3])).tolist()
    [7]
    """
    return jnp.bitwise_or(x, y)


@op(method=True, promote="x y", mix="same", dtypes=INT | BOOL, differentiable=False, numpy=np.bitwise_xor)
def bitwise_xor(x: Tensor, y: Tensor | int, out: Extra = None) -> Tensor:
    """Bits set in one of the two.

    >>> bireme.bitwise_xor(bireme.to_tensor([6]), bireme.to_tensor([3])).tolist()
    [5]
    """
    return jnp.bitwise_xor(x, y)


@op(method=True, dtypes=INT | BOOL, differentiable=False, numpy=np.invert)
def bitwise_not(x: Tensor, out: Extra = None) -> Tensor:
    """All bits turned.

    >>> bireme.bitwise_not(bireme.to_tensor([0])).tolist()
    [-1]
    """
    return jnp.invert(x)


for _op in (bitwise_and, bitwise_or, bitwise_xor):
    _op.infer(elementwise(_op.name))
bitwise_not.infer(same)


@op(method=True, differentiable=False, numpy=np.isnan, torch=True)
def isnan(x: Tensor) -> Tensor:
    """Whether each element is NaN.

    >>> bireme.isnan(bireme.to_tensor([1.0, float("nan")])).tolist()
    [False, True]
    """
    return jnp.isnan(x)


@op(method=True, differentiable=False, numpy=np.isinf, torch=True)
def isinf(x: Tensor) -> Tensor:
    """Whether each element is infinite.

    >>> bireme.isinf(bireme.to_tensor([1.0, float("inf")])).tolist()
    [False, True]
    """
    return jnp.isinf(x)


@op(method=True, differentiable=False, numpy=np.isfinite, torch=True)
def isfinite(x: Tensor) -> Tensor:
    """Whether each element is neither NaN nor infinite.

    >>> bireme.isfinite(bireme.to_tensor([1.0, float("inf")])).tolist()
    [True, False]
    """
    return jnp.isfinite(x)


for _op in (isnan, isinf, isfinite):
    _op.infer(lambda x: sig_of(x.shape, dtypes.bool_))


@op(promote="x y", mix="floats", numpy=np.where)
def select(condition: Tensor, x: Tensor | float, y: Tensor | float) -> Tensor:
    """`x` where the condition holds, else `y`; use `where`.

    >>> bireme.where(bireme.to_tensor([True, False]), bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])).tolist()
    [1, 4]
    """
    return jnp.where(condition, x, y)


@select.infer
def _(condition, x, y):
    return sig_of(broadcast_shape("where", condition.shape, x.shape, y.shape), x.dtype)


@select.grad(numpy=True)
def _(g, condition, sigs):
    zero = jnp.zeros_like(g)
    return None, sum_to(jnp.where(condition, g, zero), sigs[1]), sum_to(jnp.where(condition, zero, g), sigs[2])


@op(differentiable=False)
def any_outside(x: Tensor, low: int, high: int) -> Tensor:
    """Whether an index lies outside [low, high): what the engine asks when only the device knows.

    >>> bireme.gather(bireme.to_tensor([5, 6]), bireme.to_tensor([1])).tolist()
    [6]
    """
    return jnp.any((x < low) | (x >= high))


any_outside.infer(lambda x: sig_of((), dtypes.bool_))


@composite(method=True)
def equal_all(x: Tensor, y: Tensor) -> Tensor:
    """Whether two tensors have one shape and the same elements, as a 0-d tensor.

    >>> bireme.equal_all(bireme.to_tensor([1, 2]), bireme.to_tensor([1, 2])).item()
    True
    """
    if x.shape != y.shape:
        return Tensor(False)
    return equal(x, y).all()


@composite(method=True)
def allclose(x: Tensor, y: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether `|x - y| <= atol + rtol * |y|` everywhere, as a 0-d tensor.

    >>> bireme.allclose(bireme.to_tensor([1.0]), bireme.to_tensor([1.0 + 1e-9])).item()
    True
    """
    if not x.dtype.is_inexact:
        x, y = x.astype("float64"), y.astype("float64")
    near = logical_or(equal(x, y), less_equal((x - y).abs(), y.abs() * rtol + atol))
    if equal_nan:
        near = logical_or(near, logical_and(isnan(x), isnan(y)))
    return near.all()
