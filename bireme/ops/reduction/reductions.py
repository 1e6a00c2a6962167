"""Reductions: sums, means, extremes, along axes or over everything."""

from __future__ import annotations

import builtins
import math as pymath
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import BOOL, COMPLEX, FLOAT, INT
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
    # sums in half precision stop growing: they are made in float32 and rounded once
    wide = jnp.float32 if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4 else x.dtype
    return jnp.sum(x, axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=wide).astype(x.dtype)


def _sum_numpy(x, axis, dtype, keepdim):
    if dtype.is_floating and dtype.itemsize < 4:
        return np.add.reduce(x.astype(dtype.np, copy=False).astype(np.float32), _axes(axis, x.ndim), np.float32, None, keepdim)
    return np.add.reduce(x.astype(dtype.np, copy=False), _axes(axis, x.ndim), dtype.np, None, keepdim)


@op(method="sum", torch=True, numpy=_sum_numpy, amp="high")
def sum(x: Tensor, axis: Axes = None, dtype: DTypeArg = None, keepdim: bool = False) -> Tensor:
    """Sum over `axis`, or over all elements; bools and int32 add up in int64.

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
        return jnp.any(x, axis=axes, keepdims=keepdim)  # in its own type, as of integers: true unless it is zero
    if jnp.issubdtype(x.dtype, jnp.integer):
        total = jnp.sum(x, axis=axes, keepdims=keepdim)
        return (jnp.sign(total) * (jnp.abs(total) // builtins.max(n, 1))).astype(x.dtype)  # towards zero
    wide = x.astype(jnp.float32) if x.dtype.itemsize == 2 else x
    return (jnp.sum(wide, axis=axes, keepdims=keepdim) / np.asarray(n, wide.real.dtype)).astype(x.dtype)


@op(method=True, torch=True, out=True, dtypes=FLOAT | COMPLEX | INT | BOOL, amp="high")
def mean(x: Tensor, axis: Axes = None, keepdim: bool = False, *, dtype: Extra = None) -> Tensor:
    """Mean over `axis`, or over all elements; integers and bools keep their type, unless `dtype` says what to compute in.

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
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return np.add.reduce(wide, axes, None, None, keepdim) / np.asarray(n, wide.real.dtype)  # np.mean would warn if n is 0


mean.numpy_form = _mean_numpy
mean.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), x.dtype))


@mean.grad(numpy=True)
def _(g, axis, keepdim, sigs):
    n = builtins.max(_count(sigs[0].shape, axis), 1)
    return _spread(g * np.asarray(1 / n, g.dtype), axis, keepdim, sigs[0].shape)


def _needs_element(name: str):
    def check(x, axis):
        for a in _axes(axis, x.ndim):
            if x.shape[a] == 0:
                raise errors.bad(f"{name}(x)", f"an element along axis {a}", f"shape {list(x.shape)}")

    return check


def _extreme_grad(g, out, x, axis, keepdim):
    """Shared among equal extremes."""
    if not keepdim:
        for a in _axes(axis, x.ndim):
            g, out = jnp.expand_dims(g, a), jnp.expand_dims(out, a)
    hit = x == out  # nowhere, if the extreme is NaN
    return jnp.where(hit, g / jnp.sum(hit.astype(g.dtype), axis=_axes(axis, x.ndim), keepdims=True), jnp.zeros_like(g))


_TORCH_PAIR = {"input": "bireme.compat.max", "dim": "bireme.compat.max", "other": "bireme.maximum"}


@op(method=True, dtypes=FLOAT | INT, rejects=_TORCH_PAIR, selects=True)
def max(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Largest element along `axis`, or of all.

    >>> bireme.max(bireme.to_tensor([[1, 5], [3, 4]]), axis=0).tolist()
    [3, 5]
    """
    return jnp.max(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


@op(method=True, dtypes=FLOAT | INT, rejects={k: v.replace("max", "min") for k, v in _TORCH_PAIR.items()}, selects=True)
def min(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Smallest element along `axis`, or of all.

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
    """Largest element along `axis`, or of all; equal ones share the gradient.

    >>> bireme.amax(bireme.to_tensor([[1, 5], [3, 4]]), axis=0).tolist()
    [3, 5]
    """
    return max(x, axis, keepdim)


@composite(method=True, torch=True, out=True)
def amin(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Smallest element along `axis`, or of all; equal ones share the gradient.

    >>> bireme.amin(bireme.to_tensor([[1, 5], [3, 4]]), axis=0).tolist()
    [1, 4]
    """
    return min(x, axis, keepdim)


@op(method=True, alias={"x": "input", "axis": "dim"}, amp="high", numpy=True)
def prod(x: Tensor, axis: Axes = None, keepdim: bool = False, dtype: DTypeArg = None) -> Tensor:
    """Product over `axis`, or of all elements.

    >>> bireme.prod(bireme.to_tensor([2.0, 3.0])).item()
    6.0
    """
    x = x if dtype is None else x.astype(dtype.np)
    return jnp.prod(x, axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=x.dtype)


prod.infer(lambda x, axis, keepdim, dtype: sig_of(reduced_shape(x.shape, axis, keepdim), dtype or x.dtype))


def _prod_grad_numpy(g, x, axis, keepdim, dtype):
    """Times the product of all others: of those before and of those behind."""
    axes = _axes(axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    turned = np.transpose(x if dtype is None else x.astype(dtype.np), (*kept, *axes))
    rows = turned.reshape(*[x.shape[i] for i in kept], pymath.prod([x.shape[i] for i in axes]))
    ones = np.ones((*rows.shape[:-1], 1), rows.dtype)
    before = np.cumprod(np.concatenate([ones, rows[..., :-1]], -1), -1, rows.dtype) if rows.size else rows
    behind = np.cumprod(np.concatenate([ones, rows[..., :0:-1]], -1), -1, rows.dtype)[..., ::-1] if rows.size else rows
    found = g.reshape(*rows.shape[:-1], 1) * np.conj(before * behind)
    return np.transpose(found.reshape(turned.shape), np.argsort((*kept, *axes)))


@prod.grad(numpy=_prod_grad_numpy)
def _(g, x, axis, keepdim, dtype):
    x = x if dtype is None else x.astype(dtype.np)
    if not jnp.issubdtype(x.dtype, jnp.inexact):  # jax differentiates floats alone
        g, x = g.astype(jnp.float64), x.astype(jnp.float64)
    return conj_of(jax.vjp(lambda x: jnp.prod(x, axis=_axes(axis, x.ndim), keepdims=keepdim), x)[1](conj_of(g))[0])


@prod.prepare
def _(arguments):
    x, axis = arguments["x"], arguments["axis"]
    if isinstance(x, Tensor) and isinstance(axis, Tensor) and axis.size == 0:  # unlike an empty list: no axis at all
        arguments["x"], arguments["axis"], arguments["keepdim"] = reshape.unsqueeze(x, 0), 0, False


@op(method=True, differentiable=False, torch=True, out=True)
def all(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether all elements along `axis` are true.

    >>> bireme.all(bireme.to_tensor([True, False])).item()
    False
    """
    return jnp.all(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


@op(method=True, differentiable=False, torch=True, out=True)
def any(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Whether some element along `axis` is true.

    >>> bireme.any(bireme.to_tensor([True, False])).item()
    True
    """
    return jnp.any(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


for _op, _np in ((all, np.all), (any, np.any)):
    _op.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), dtypes.bool_))
    _op.numpy_form = lambda x, axis, keepdim, f=_np: f(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


def _logsumexp_numpy(x, axis, keepdim):
    axes = _axes(axis, x.ndim)
    top = np.maximum.reduce(x, axes, None, None, True, -np.inf)
    if not np.isfinite(top).all():
        top = np.where(np.isfinite(top), top, 0)
    out = np.log(np.add.reduce(np.exp(x - top), axes, None, None, True)) + top
    return out if keepdim else out.squeeze(axes)


@op(method=True, floats=True, dtypes=FLOAT, torch=True, out=True, numpy=_logsumexp_numpy)
def logsumexp(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))), without overflow.

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


@logsumexp.grad(numpy=True)
def _(g, out, x, axis, keepdim):
    if not keepdim:
        for a in _axes(axis, x.ndim):
            g, out = jnp.expand_dims(g, a), jnp.expand_dims(out, a)
    return g * jnp.exp(x - jnp.where(out == -np.inf, 0, out))  # nothing but -inf has no share


# ---------------------------------------------------------------- counts, and sums that leave out NaN


@op(method=True, differentiable=False)
def count_nonzero(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """How many elements along `axis`, or of all, are not zero.

    >>> bireme.count_nonzero(bireme.to_tensor([0, 5, 6])).item()
    2
    """
    return jnp.sum(x != 0, axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=jnp.int64)


count_nonzero.numpy_form = lambda x, axis, keepdim: np.count_nonzero(x, axis=_axes(axis, x.ndim), keepdims=keepdim)
count_nonzero.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), dtypes.int64))


@composite(method=True)
def nansum(x: Tensor, axis: Axes = None, dtype: DTypeArg = None, keepdim: bool = False) -> Tensor:
    """Sum over `axis`, or over all elements, with NaN as zero.

    >>> bireme.nansum(bireme.to_tensor([1.0, float("nan"), 2.0])).item()
    3.0
    """
    return sum(_without_nan(x), axis, dtype, keepdim)


def _without_nan(x: Tensor) -> Tensor:
    return logic.select(logic.isnan(x), tensors.full([], 0, x.dtype), x) if x.dtype.is_inexact else x


@composite(method=True)
def nanmean(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Mean over `axis`, or over all elements, of those that are not NaN; integers become float32.

    >>> bireme.nanmean(bireme.to_tensor([1.0, float("nan"), 2.0])).item()
    1.5
    """
    if not x.dtype.is_inexact:
        x = x.astype(dtypes.float32)
    n = sum(logic.logical_not(logic.isnan(x)), axis, x.dtype, keepdim)
    return sum(_without_nan(x), axis, None, keepdim) / n


@composite(method=True)
def reduce_as(x: Tensor, target: Tensor) -> Tensor:
    """`x` summed over the axes along which `target` would be broadcast to its shape.

    >>> bireme.reduce_as(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([0, 0])).tolist()
    [4, 6]
    """
    have, want = x.shape, target.shape
    extra = len(have) - len(want)
    if extra < 0 or builtins.any(n not in (1, have[i + extra]) for i, n in enumerate(want)):
        raise errors.bad("reduce_as(target)", f"a shape that broadcasts to {have}", f"shape {want}")
    axes = [*range(extra), *[i + extra for i, n in enumerate(want) if n == 1 and have[i + extra] != 1]]
    if not axes:  # an empty list would mean all of them
        return x.clone()
    return reshape.reshape(sum(x, axes, None, True), reshape.Literal(want))
