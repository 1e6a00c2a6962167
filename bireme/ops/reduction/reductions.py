"""Reductions: sums, means, extremes, over axes or all elements."""

from __future__ import annotations

import builtins
import math as pymath
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import BOOL, COMPLEX, FLOAT, INT, DTypeLike
from bireme.core.declare.op import Axes, DTypeArg, Extra, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import conj_of
from bireme.ops.creation import tensors
from bireme.ops.manipulation import reshape
from bireme.ops.math import logic


def reduced_shape(shape: tuple[int, ...], axis: Any, keepdim: bool) -> tuple[int, ...]:
    """The shape without the reduced axes, or with them at 1."""
    axes = axis or range(len(shape))
    if keepdim:
        return tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def _axes(axis, ndim):
    # an empty list of axes means all of them, as in Paddle
    return axis or tuple(range(ndim))


def _spread(g, axis, keepdim, shape):
    """A gradient of a reduction, back in the shape of what was reduced."""
    if not keepdim:
        for a in _axes(axis, len(shape)):
            g = jnp.expand_dims(g, a)
    return jnp.broadcast_to(g, shape)


def _sum(x, axis, dtype, keepdim):
    x = x if dtype is None or x.dtype == dtype.np else x.astype(dtype.np)
    return jnp.sum(x, axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=_wide_type(x)).astype(x.dtype)


def _wide_type(x):
    """Sums in half precision stop growing: they are made in float32 and rounded once."""
    return jnp.float32 if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4 else x.dtype


def _sum_numpy(x, axis, dtype, keepdim):
    if dtype.is_floating and dtype.itemsize < 4:
        return np.add.reduce(
            x.astype(dtype.np, copy=False).astype(np.float32), _axes(axis, x.ndim), np.float32, None, keepdim
        )
    return np.add.reduce(x.astype(dtype.np, copy=False), _axes(axis, x.ndim), dtype.np, None, keepdim)


@op(method="sum", torch=True, linear=True, numpy=_sum_numpy, amp="high", kernels="reduce_sum")
def sum(x: Tensor, axis: Axes = None, dtype: DTypeArg = None, keepdim: bool = False) -> Tensor:
    """Sum of elements over the given axes.

    Args:
        x: Input tensor.
        axis: Axis or axes to sum over; ``None`` and an empty list mean all. Default: None.
        dtype: Dtype to convert ``x`` to first, which is that of the result. Default: None, int64 for bool and int32,
            otherwise the dtype of ``x``.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of the sums; half precision is accumulated in float32.

    Examples:
        >>> bireme.sum(bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
        [4.0, 6.0]
    """
    return _sum(x, axis, dtype, keepdim)


@sum.prepare
def _(arguments):
    x, dtype, keepdim = arguments["x"], arguments["dtype"], arguments["keepdim"]
    if isinstance(dtype, bool):  # torch's order: (dim, keepdim, dtype)
        arguments["dtype"], arguments["keepdim"] = (None if isinstance(keepdim, bool) else keepdim), dtype
    if isinstance(x, Tensor) and arguments["dtype"] is None:
        kind = x._value.sig.dtype
        arguments["dtype"] = dtypes.int64 if kind in (dtypes.bool_, dtypes.int32) else kind


sum.rows(lambda x, axis: ("x",) if axis and 0 not in axis else ())
sum.infer(lambda x, axis, dtype, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), dtype))


@sum.grad(numpy=True)
def _(g, axis, keepdim, sigs):
    return _spread(g, axis, keepdim, sigs[0].shape).astype(sigs[0].dtype.np)


def _count(shape, axis):
    return pymath.prod([shape[a] for a in _axes(axis, len(shape))])


def _mean(x, axis, keepdim):
    axes = _axes(axis, x.ndim)
    n = pymath.prod([x.shape[a] for a in axes])
    if x.dtype == jnp.bool_:
        return jnp.any(x, axis=axes, keepdims=keepdim)  # in its own dtype, as of integers: true unless it is zero
    if jnp.issubdtype(x.dtype, jnp.integer):
        total = jnp.sum(x, axis=axes, keepdims=keepdim)
        return (jnp.sign(total) * (jnp.abs(total) // builtins.max(n, 1))).astype(x.dtype)  # towards zero
    return jnp.sum(x, axis=axes, keepdims=keepdim) / np.asarray(n, x.real.dtype)


@op(method=True, torch=True, out=True, dtypes=FLOAT | COMPLEX | INT | BOOL, amp="high", upcast=True,
    kernels="reduce_mean", c_ops={"mean_all": "x"})  # fmt: skip
def mean(x: Tensor, axis: Axes = None, keepdim: bool = False, *, dtype: Extra[DTypeLike] = None) -> Tensor:
    """Arithmetic mean of elements over the given axes.

    Integers stay integers: their mean is truncated towards zero. The mean of bools is whether any of them is true. Pass
    ``dtype`` for another result.

    Args:
        x: Input tensor.
        axis: Axis or axes to average over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.
        dtype: Dtype to convert ``x`` to first, which is that of the result. Default: None, the dtype of ``x``.

    Returns:
        Tensor of the means; half precision is accumulated in float32. The mean of no elements is NaN.

    Examples:
        >>> bireme.mean(bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
        [2.0, 3.0]
    """
    return _mean(x, axis, keepdim)


@mean.prepare
def _(arguments):
    dtype = arguments.pop("dtype")
    if dtype is not None and isinstance(arguments["x"], Tensor):
        arguments["x"] = arguments["x"].astype(dtype)


def _mean_numpy(x, axis, keepdim):
    axes = _axes(axis, x.ndim)
    n = _count(x.shape, axis)
    if x.dtype.kind == "b":
        return np.any(x, axis=axes, keepdims=keepdim)
    if x.dtype.kind in "iu":
        total = np.sum(x, axis=axes, keepdims=keepdim)
        return np.sign(total) * (np.abs(total) // builtins.max(n, 1))
    return np.add.reduce(x, axes, None, None, keepdim) / np.asarray(n, x.real.dtype)  # np.mean would warn if n is 0


mean.numpy_form = _mean_numpy
mean.rows(lambda x, axis: ("x",) if axis and 0 not in axis else ())
mean.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), x.dtype))


@mean.grad(numpy=True)
def _(g, axis, keepdim, sigs):
    n = builtins.max(_count(sigs[0].shape, axis), 1)
    return _spread(g * np.asarray(1 / n, g.dtype), axis, keepdim, sigs[0].shape)


def _needs_element(name: str):
    def check(x, axis):
        for a in _axes(axis, x.ndim):
            if x.shape[a] == 0:
                raise errors.bad(
                    f"{name}(x)",
                    f"at least one element along axis {a}",
                    described=f"shape {list(x.shape)}",
                    kind=errors.ShapeError,
                )

    return check


def _extreme_grad(g, out, x, axis, keepdim):
    """Shared among equal extremes."""
    if not keepdim:
        for a in _axes(axis, x.ndim):
            g, out = jnp.expand_dims(g, a), jnp.expand_dims(out, a)
    hit = x == out  # nowhere, if the extreme is NaN
    return jnp.where(
        hit, g / jnp.sum(hit.astype(g.dtype), axis=_axes(axis, x.ndim), keepdims=True), jnp.zeros((), g.dtype)
    )


_TORCH_PAIR = {"input": "bireme.compat.max", "dim": "bireme.compat.max", "other": "bireme.maximum"}


@op(method=True, dtypes=FLOAT | INT, rejects=_TORCH_PAIR, selects=True, upcast="grad", kernels="reduce_max")
def max(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Largest element over the given axes; NaN if there is one.

    Equal maxima share the gradient. For the indices as well, see ``argmax`` and ``topk``.

    Args:
        x: Tensor of real numbers.
        axis: Axis or axes to reduce over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of the maxima, in the dtype of ``x``.

    Raises:
        ValueError: If a reduced axis has size 0.

    Examples:
        >>> bireme.max(bireme.to_tensor([[1, 5], [3, 4]]), axis=0).tolist()
        [3, 5]
    """
    return jnp.max(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


@op(method=True, dtypes=FLOAT | INT, rejects={k: v.replace("max", "min") for k, v in _TORCH_PAIR.items()}, selects=True,
    upcast="grad", kernels="reduce_min")  # fmt: skip
def min(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Smallest element over the given axes; NaN if there is one.

    Equal minima share the gradient. For the indices as well, see ``argmin`` and ``topk``.

    Args:
        x: Tensor of real numbers.
        axis: Axis or axes to reduce over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of the minima, in the dtype of ``x``.

    Raises:
        ValueError: If a reduced axis has size 0.

    Examples:
        >>> bireme.min(bireme.to_tensor([[1, 5], [3, 4]]), axis=0).tolist()
        [1, 4]
    """
    return jnp.min(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


for _op, _np in ((max, np.maximum), (min, np.minimum)):
    _op.check(_needs_element(_op.name))
    _op.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), x.dtype))
    _op.grad(_extreme_grad, numpy=True)
    _op.numpy_form = lambda x, axis, keepdim, f=_np.reduce: f(x, _axes(axis, x.ndim), None, None, keepdim)


@composite(method=True, torch=True, out=True)
def amax(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Largest element over the given axes; equal maxima share the gradient.

    Args:
        x: Tensor of real numbers.
        axis: Axis or axes to reduce over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of the maxima, in the dtype of ``x``.

    Raises:
        ValueError: If a reduced axis has size 0.

    Examples:
        >>> bireme.amax(bireme.to_tensor([[1, 5], [3, 4]]), axis=0).tolist()
        [3, 5]
    """
    return max(x, axis, keepdim)


@composite(method=True, torch=True, out=True)
def amin(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Smallest element over the given axes; equal minima share the gradient.

    Args:
        x: Tensor of real numbers.
        axis: Axis or axes to reduce over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of the minima, in the dtype of ``x``.

    Raises:
        ValueError: If a reduced axis has size 0.

    Examples:
        >>> bireme.amin(bireme.to_tensor([[1, 5], [3, 4]]), axis=0).tolist()
        [1, 4]
    """
    return min(x, axis, keepdim)


@op(method=True, alias={"x": "input", "axis": "dim"}, amp="high", numpy=True, kernels="reduce_prod")
def prod(x: Tensor, axis: Axes = None, keepdim: bool = False, dtype: DTypeArg = None) -> Tensor:
    """Product of elements over the given axes.

    Args:
        x: Input tensor.
        axis: Axis or axes to multiply over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.
        dtype: Dtype to convert ``x`` to first, which is that of the result. Default: None, the dtype of ``x``.

    Returns:
        Tensor of the products; that of no elements is 1.

    Examples:
        >>> bireme.prod(bireme.to_tensor([2.0, 3.0])).item()
        6.0
    """
    x = x if dtype is None else x.astype(dtype.np)
    wide = _wide_type(x)
    return jnp.prod(x, axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=wide).astype(x.dtype)


prod.infer(lambda x, axis, keepdim, dtype: sig_of(reduced_shape(x.shape, axis, keepdim), dtype or x.dtype))


def _prod_grad_numpy(g, x, axis, keepdim, dtype):
    """Times the product of all others: of those before and of those behind."""
    axes = _axes(axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    x = x if dtype is None else x.astype(dtype.np)
    turned = np.transpose(x.astype(_wide_type(x)), (*kept, *axes))
    rows = turned.reshape(*[x.shape[i] for i in kept], pymath.prod([x.shape[i] for i in axes]))
    ones = np.ones((*rows.shape[:-1], 1), rows.dtype)
    before = np.cumprod(np.concatenate([ones, rows[..., :-1]], -1), -1, rows.dtype) if rows.size else rows
    behind = np.cumprod(np.concatenate([ones, rows[..., :0:-1]], -1), -1, rows.dtype)[..., ::-1] if rows.size else rows
    found = g.reshape(*rows.shape[:-1], 1) * np.conj(before * behind)
    return np.transpose(found.reshape(turned.shape), np.argsort((*kept, *axes)))


@prod.grad(numpy=_prod_grad_numpy)
def _(g, x, axis, keepdim, dtype):
    x = x if dtype is None else x.astype(dtype.np)
    # jax differentiates floats alone
    wide = _wide_type(x) if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.float64
    g, x = g.astype(wide), x.astype(wide)
    return conj_of(jax.vjp(lambda x: jnp.prod(x, axis=_axes(axis, x.ndim), keepdims=keepdim), x)[1](conj_of(g))[0])


@prod.prepare
def _(arguments):
    x, axis = arguments["x"], arguments["axis"]
    if isinstance(x, Tensor) and isinstance(axis, Tensor) and axis.size == 0:  # unlike an empty list: no axis at all
        arguments["x"], arguments["axis"], arguments["keepdim"] = reshape.unsqueeze(x, 0), 0, False


@op(method=True, differentiable=False, torch=True, out=True, kernels="reduce_all")
def all(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether all elements over the given axes are true.

    Args:
        x: Input tensor; nonzero elements count as true.
        axis: Axis or axes to reduce over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Bool tensor; true for no elements.

    Examples:
        >>> bireme.all(bireme.to_tensor([True, False])).item()
        False
    """
    return jnp.all(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


@op(method=True, differentiable=False, torch=True, out=True, kernels="reduce_any")
def any(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether any element over the given axes is true.

    Args:
        x: Input tensor; nonzero elements count as true.
        axis: Axis or axes to reduce over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Bool tensor; false for no elements.

    Examples:
        >>> bireme.any(bireme.to_tensor([True, False])).item()
        True
    """
    return jnp.any(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


for _op, _np in ((all, np.all), (any, np.any)):
    _op.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), dtypes.bool_))
    _op.numpy_form = lambda x, axis, keepdim, f=_np: f(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


def _exponentials(x, axis):
    """Exponentials of `x` less its maximum, their sums, and the maximum, both with the reduced axes."""
    axes = _axes(axis, x.ndim)
    top = np.maximum.reduce(x, axes, None, None, True, -np.inf)
    if not np.isfinite(top).all():
        top = np.where(np.isfinite(top), top, 0)
    e = np.asarray(x - top)
    np.exp(e, out=e)
    return e, np.add.reduce(e, axes, None, None, True), top


def _logsumexp_numpy(x, axis, keepdim):
    _, total, top = _exponentials(x, axis)
    out = np.log(total) + top
    return out if keepdim else out.squeeze(_axes(axis, x.ndim))


def _logsumexp_grad_numpy(g, x, axis, keepdim):
    e, total, _ = _exponentials(x, axis)
    if not total.all():  # nothing but -inf has no share
        total = np.where(total == 0, 1, total)
    e *= g.reshape(total.shape) / total
    return e


@op(method=True, floats=True, dtypes=FLOAT, torch=True, out=True, numpy=_logsumexp_numpy, upcast=True)
def logsumexp(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials ``log(sum(exp(x)))``, computed without overflow.

    Args:
        x: Tensor of real numbers; integers and bools become float32.
        axis: Axis or axes to reduce over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of the logarithms; that of no elements is ``-inf``.

    Examples:
        >>> bireme.logsumexp(bireme.to_tensor([1000.0, 1000.0])).item() > 1000.6
        True
    """
    axes = _axes(axis, x.ndim)
    top = jnp.max(x, axis=axes, keepdims=True, initial=-np.inf)
    # shift by the maximum: exp of a large number overflows, exp of a difference cannot
    shift = jnp.where(jnp.isfinite(top), top, 0)
    out = jnp.log(jnp.sum(jnp.exp(x - shift), axis=axes, keepdims=True)) + shift
    return out if keepdim else jnp.squeeze(out, axes)


logsumexp.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), x.dtype))


@logsumexp.grad(numpy=_logsumexp_grad_numpy)
def _(g, x, axis, keepdim):
    axes = _axes(axis, x.ndim)
    # not by the result: it has lost the digits of the logarithm if x is large
    top = jnp.max(x, axis=axes, keepdims=True, initial=-np.inf)
    e = jnp.exp(x - jnp.where(jnp.isfinite(top), top, 0))
    total = jnp.sum(e, axis=axes, keepdims=True)
    if not keepdim:
        for a in axes:
            g = jnp.expand_dims(g, a)
    return g * (e / jnp.where(total == 0, 1, total))  # nothing but -inf has no share


# ---------------------------------------------------------------- counts, and sums that leave out NaN


@op(method=True, differentiable=False)
def count_nonzero(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Number of nonzero elements over the given axes.

    Args:
        x: Input tensor.
        axis: Axis or axes to count over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of int64.

    Examples:
        >>> bireme.count_nonzero(bireme.to_tensor([0, 5, 6])).item()
        2
    """
    return jnp.sum(x != 0, axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=jnp.int64)


count_nonzero.numpy_form = lambda x, axis, keepdim: np.count_nonzero(x, axis=_axes(axis, x.ndim), keepdims=keepdim)
count_nonzero.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), dtypes.int64))


@composite(method=True)
def nansum(x: Tensor, axis: Axes = None, dtype: DTypeArg = None, keepdim: bool = False) -> Tensor:
    """Sum of elements over the given axes, with NaN counted as 0.

    Args:
        x: Input tensor.
        axis: Axis or axes to sum over; ``None`` and an empty list mean all. Default: None.
        dtype: Dtype to convert ``x`` to first, which is that of the result. Default: None, int64 for bool and int32,
            otherwise the dtype of ``x``.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of the sums.

    Examples:
        >>> bireme.nansum(bireme.to_tensor([1.0, float("nan"), 2.0])).item()
        3.0
    """
    return sum(_without_nan(x), axis, dtype, keepdim)


def _without_nan(x: Tensor) -> Tensor:
    return logic.select(logic.isnan(x), tensors.full([], 0, x.dtype), x) if x.dtype.is_inexact else x


@composite(method=True)
def nanmean(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Arithmetic mean over the given axes of the elements that are not NaN.

    Args:
        x: Input tensor; integers and bools become float32.
        axis: Axis or axes to average over; ``None`` and an empty list mean all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of the means; NaN where there is no number.

    Examples:
        >>> bireme.nanmean(bireme.to_tensor([1.0, float("nan"), 2.0])).item()
        1.5
    """
    if not x.dtype.is_inexact:
        x = x.astype(dtypes.float32)
    wide = single(x)
    n = sum(logic.logical_not(logic.isnan(wide)), axis, wide.dtype, keepdim)
    return rounded_as(x, sum(_without_nan(wide), axis, None, keepdim) / n)


def single(x: Tensor) -> Tensor:
    """Half precision in float32: what a composite adds up, counts or divides by does not fit into it."""
    return x.astype(dtypes.float32) if x.dtype in dtypes.NARROW else x


def rounded_as(x: Tensor, found: Tensor) -> Tensor:
    """What was computed from `single(x)`, in half precision again if `x` is."""
    return found.astype(x.dtype) if x.dtype in dtypes.NARROW else found


@composite(method=True)
def reduce_as(x: Tensor, target: Tensor) -> Tensor:
    """Sum a tensor over the axes along which ``target`` would be broadcast to its shape.

    Args:
        x: Tensor to sum.
        target: Tensor whose shape the result gets; it must broadcast to that of ``x``.

    Returns:
        Tensor of the shape of ``target``; bool and int32 that are summed become int64.

    Raises:
        ValueError: If the shape of ``target`` does not broadcast to that of ``x``.

    Examples:
        >>> bireme.reduce_as(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([0, 0])).tolist()
        [4, 6]
    """
    have, want = x.shape, target.shape
    extra = len(have) - len(want)
    if extra < 0 or builtins.any(n not in (1, have[i + extra]) for i, n in enumerate(want)):
        raise errors.bad(
            "reduce_as(target)", f"a shape that broadcasts to {have}", described=f"shape {want}", kind=errors.ShapeError
        )
    axes = [*range(extra), *[i + extra for i, n in enumerate(want) if n == 1 and have[i + extra] != 1]]
    if not axes:  # an empty list would mean all of them
        return x.clone()
    return reshape.reshape(sum(x, axes, None, True), reshape.Literal(want))
