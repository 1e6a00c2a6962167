"""Reductions: sums, means, extremes, along axes or over everything."""

from __future__ import annotations

import builtins
import math as pymath
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core import dtype as dtypes
from bireme.core import errors
from bireme.core.dtype import COMPLEX, FLOAT, INT
from bireme.core.graph import sig_of
from bireme.core.op import Axes, Axis, DTypeArg, Extra, Tensor, composite, op


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
    return jnp.sum(x, axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=x.dtype)


def _sum_numpy(x, axis, dtype, keepdim):
    return np.sum(x.astype(dtype.np, copy=False), axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=dtype.np)


@op(method="sum", torch=True, numpy=_sum_numpy)
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
    if jnp.issubdtype(x.dtype, jnp.integer):
        total = jnp.sum(x, axis=axes, keepdims=keepdim)
        return (jnp.sign(total) * (jnp.abs(total) // builtins.max(n, 1))).astype(x.dtype)  # towards zero
    wide = x.astype(jnp.float32) if x.dtype.itemsize == 2 else x
    return (jnp.sum(wide, axis=axes, keepdims=keepdim) / np.asarray(n, wide.real.dtype)).astype(x.dtype)


@op(method=True, torch=True, out=True, dtypes=FLOAT | COMPLEX | INT)
def mean(x: Tensor, axis: Axes = None, keepdim: bool = False, *, dtype: Extra = None) -> Tensor:
    """Mean over `axis`, or over all elements; integers stay integers, unless `dtype` says what to compute in.

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
    if x.dtype.kind in "iu":
        total = np.sum(x, axis=axes, keepdims=keepdim)
        return np.sign(total) * (np.abs(total) // builtins.max(n, 1))
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return np.sum(wide, axis=axes, keepdims=keepdim) / np.asarray(n, wide.real.dtype)  # np.mean would warn if n is 0


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


@op(method=True, dtypes=FLOAT | INT, rejects=_TORCH_PAIR)
def max(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Largest element along `axis`, or of all.

    >>> bireme.max(bireme.to_tensor([[1, 5], [3, 4]]), axis=0).tolist()
    [3, 5]
    """
    return jnp.max(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


@op(method=True, dtypes=FLOAT | INT, rejects={k: v.replace("max", "min") for k, v in _TORCH_PAIR.items()})
def min(x: Tensor, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """Smallest element along `axis`, or of all.

    >>> bireme.min(bireme.to_tensor([[1, 5], [3, 4]]), axis=0).tolist()
    [1, 4]
    """
    return jnp.min(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


for _op, _np in ((max, np.max), (min, np.min)):
    _op.check(_needs_element(_op.name))
    _op.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), x.dtype))
    _op.grad(_extreme_grad, numpy=True)
    _op.numpy_form = lambda x, axis, keepdim, f=_np: f(x, axis=_axes(axis, x.ndim), keepdims=keepdim)


@op(method=True, alias={"x": "input", "axis": "dim"})
def prod(x: Tensor, axis: Axes = None, keepdim: bool = False, dtype: DTypeArg = None) -> Tensor:
    """Product over `axis`, or of all elements.

    >>> bireme.prod(bireme.to_tensor([2.0, 3.0])).item()
    6.0
    """
    x = x if dtype is None else x.astype(dtype.np)
    return jnp.prod(x, axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=x.dtype)


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


@op(method=True, floats=True, dtypes=FLOAT, torch=True, out=True)
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
    return g * jnp.exp(x - jnp.where(jnp.isfinite(out), out, 0))


@op(differentiable=False)
def arg_extreme(x: Tensor, axis: Axis, keepdim: bool, dtype: DTypeArg, largest: bool) -> Tensor:
    """Position of the largest or smallest element; use `argmax` and `argmin`.

    >>> bireme.argmax(bireme.to_tensor([1, 3, 2])).item()
    1
    """
    flat = x.reshape(-1) if axis is None or not x.ndim else x
    out = (jnp.argmax if largest else jnp.argmin)(flat, axis=0 if axis is None else axis)
    if keepdim and x.ndim:
        out = out.reshape((1,) * x.ndim) if axis is None else jnp.expand_dims(out, axis)
    return out.astype(dtype.np)


@arg_extreme.check
def _(x, axis, largest):
    if x.size == 0 and (axis is None or x.shape[axis] == 0):
        raise errors.bad("argmax(x)" if largest else "argmin(x)", "an element to compare", f"shape {list(x.shape)}")


@arg_extreme.infer
def _(x, axis, keepdim, dtype):
    return sig_of(reduced_shape(x.shape, None if axis is None else (axis,), keepdim) if x.ndim else (), dtype)


def _positions(name: str, x: Tensor, axis: Any, keepdim: bool, dtype: Any, largest: bool) -> Tensor:
    kind = dtypes.of("int64" if dtype is None else dtype, f"{name}(dtype)")
    if kind not in (dtypes.int32, dtypes.int64):
        raise errors.bad(f"{name}(dtype)", "int32 or int64", kind.name, kind=TypeError)
    return arg_extreme(x, axis, keepdim, kind, largest)


@composite(method=True, torch=True)
def argmax(x: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeArg = "int64") -> Tensor:
    """Position of the largest element along `axis`, or in the flattened tensor; the first of equals.

    >>> bireme.argmax(bireme.to_tensor([1, 3, 2])).item()
    1
    """
    return _positions("argmax", x, axis, keepdim, dtype, True)


@composite(method=True, torch=True)
def argmin(x: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeArg = "int64") -> Tensor:
    """Position of the smallest element along `axis`, or in the flattened tensor; the first of equals.

    >>> bireme.argmin(bireme.to_tensor([3, 1, 2])).item()
    1
    """
    return _positions("argmin", x, axis, keepdim, dtype, False)


@op(method=True, alias={"x": "input", "axis": "dim"}, out=True)
def cumsum(x: Tensor, axis: Axis = None, dtype: DTypeArg = None) -> Tensor:
    """Running sum along `axis`, or of the flattened tensor; integers add up in int64.

    >>> bireme.cumsum(bireme.to_tensor([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    flat = x.reshape(-1) if axis is None else x
    return jnp.cumsum(flat.astype(dtype.np), axis=0 if axis is None else axis, dtype=dtype.np) if flat.ndim else flat.astype(dtype.np)


@cumsum.prepare
def _(arguments):
    x = arguments["x"]
    if isinstance(x, Tensor) and arguments["dtype"] is None:
        kind = x._value.sig.dtype
        arguments["dtype"] = dtypes.int64 if kind.kind in "bi" else kind


cumsum.infer(lambda x, axis, dtype: sig_of((x.size,) if axis is None else x.shape, dtype))


@cumsum.grad
def _(g, axis, sigs):
    along = 0 if axis is None else axis
    back = jnp.flip(jnp.cumsum(jnp.flip(g, along), axis=along), along) if g.ndim else g
    return back.reshape(sigs[0].shape).astype(sigs[0].dtype.np)


@op(method=True, floats=True, torch=True, out=True, dtypes=FLOAT)
def var(x: Tensor, axis: Axes = None, unbiased: Extra = None, keepdim: bool = False, *, correction: float = 1) -> Tensor:
    """Variance over `axis`, or over all elements; divided by n - `correction`, which `unbiased=False` makes 0.

    >>> bireme.var(bireme.to_tensor([1.0, 3.0])).item()
    2.0
    """
    axes = _axes(axis, x.ndim)
    n = pymath.prod([x.shape[a] for a in axes])
    d = x - jnp.mean(x, axis=axes, keepdims=True)
    return jnp.sum(d * d, axis=axes, keepdims=keepdim) / np.asarray(builtins.max(n - correction, 0), x.dtype)


@var.prepare
def _(arguments):
    unbiased = arguments.pop("unbiased")
    if unbiased is not None:
        if arguments["correction"] != 1:
            raise errors.bad("var(correction)", "either unbiased or correction", "both")
        arguments["correction"] = 1 if unbiased else 0


var.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), x.dtype))


@composite(method=True)
def std(x: Tensor, axis: Axes = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    """Standard deviation over `axis`, or over all elements.

    >>> bireme.std(bireme.to_tensor([1.0, 3.0]), unbiased=False).item()
    1.0
    """
    return var(x, axis, unbiased, keepdim).sqrt()
