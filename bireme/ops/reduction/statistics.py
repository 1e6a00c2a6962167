"""Statistics over axes: variance, medians, quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, INT
from bireme.core.declare.op import Attr, Axes, Axis, Extra, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.core.tensor.results import MedianRetType
from bireme.core.tensor.tensor import value_of
from bireme.ops.reduction.reductions import reduced_shape
from bireme.ops.search.sort import add_back, at, order, picked_grad

# ---------------------------------------------------------------- spread


@op(method=True, floats=True, torch=True, out=True, dtypes=FLOAT, of_the_past=True, numpy=True, upcast=True)
def var(x: Tensor, axis: Axes = None, unbiased: Extra[bool] = None, keepdim: bool = False, *,
        correction: float = 1) -> Tensor:  # fmt: skip
    """Variance of elements over the given axes.

    It is the sum of squared deviations from the mean, divided by ``max(n - correction, 0)`` for ``n`` elements.

    Args:
        x: Tensor of real numbers; integers and bools become float32.
        axis: Axis or axes to reduce over; ``None`` and an empty list mean all. Default: None.
        unbiased: ``True`` for a correction of 1, ``False`` for 0; not together with ``correction``. Default: None,
            ``correction`` decides.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.
        correction: What the divisor is smaller by than the number of elements. Default: 1.

    Returns:
        Tensor of the variances; NaN or infinite where the divisor is 0.

    Examples:
        >>> bireme.var(bireme.to_tensor([1.0, 3.0])).item()
        2.0
    """
    axes = axis or tuple(range(x.ndim))
    n = math.prod([x.shape[a] for a in axes])
    d = x - jnp.sum(x, axis=axes, keepdims=True) / np.asarray(n, x.dtype)
    return jnp.sum(d * d, axis=axes, keepdims=keepdim) / np.asarray(max(n - correction, 0), x.dtype)


@var.prepare
def _(arguments):
    unbiased = arguments.pop("unbiased")
    if arguments["correction"] is None:
        raise errors.bad("var(correction)", "a number", None, kind=errors.ArgumentTypeError)
    if unbiased is not None:
        if arguments["correction"] != 1:
            raise errors.bad("var(correction)", "either unbiased or correction", described="both")
        arguments["correction"] = 1 if unbiased else 0


var.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), x.dtype))


def _var_grad_numpy(g, x, axis, keepdim, correction):
    axes = axis or tuple(range(x.ndim))
    n = math.prod([x.shape[a] for a in axes])
    count, free = np.asarray(n, x.dtype), np.asarray(max(n - correction, 0), x.dtype)
    d = x - np.sum(x, axis=axes, keepdims=True) / count
    share = g.reshape([1 if a in axes else m for a, m in enumerate(x.shape)]) / free * d
    twice = share + share
    return twice - np.sum(twice, axis=axes, keepdims=True) / count  # what rounding leaves of a sum of zero


@var.grad(numpy=_var_grad_numpy)
def _(g, x, axis, keepdim, correction):
    return jax.vjp(lambda x: var.body(x, axis, None, keepdim, correction=correction), x)[1](g)[0]


@composite(method=True)
def std(x: Tensor, axis: Axes = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    """Standard deviation of elements over the given axes: the square root of ``var``.

    Args:
        x: Tensor of real numbers; integers and bools become float32.
        axis: Axis or axes to reduce over; ``None`` and an empty list mean all. Default: None.
        unbiased: Whether the variance is divided by ``n - 1`` rather than by ``n``, the number of elements.
            Default: True.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of the standard deviations; NaN for one element if ``unbiased``.

    Examples:
        >>> bireme.std(bireme.to_tensor([1.0, 3.0]), unbiased=False).item()
        1.0
    """
    return var(x, axis, unbiased, keepdim).sqrt()


# ---------------------------------------------------------------- medians


def _lines(x, axis):
    """The reduced axes as one last axis, the others in order before it."""
    axes = axis or tuple(range(x.ndim))
    rest = [i for i in range(x.ndim) if i not in axes]
    return jnp.transpose(x, (*rest, *axes)).reshape(
        [*[x.shape[i] for i in rest], math.prod([x.shape[i] for i in axes])]
    )


def _unlined(y, axis, shape):
    """The inverse: the axes in their order again."""
    axes = axis or tuple(range(len(shape)))
    order = [*[i for i in range(len(shape)) if i not in axes], *axes]
    return jnp.transpose(y.reshape([shape[i] for i in order]), [order.index(i) for i in range(len(shape))])


def _middles(y, ignore, low_only):
    """Indices of the lower and the upper middle of sorted rows, and the number of elements that are not NaN."""
    n = y.shape[-1]
    valid = (
        jnp.sum(y == y, axis=-1, keepdims=True)
        if jnp.issubdtype(y.dtype, jnp.floating)
        else jnp.full((*y.shape[:-1], 1), n)
    )
    # with a NaN that counts, the last element of a sorted row is one
    whole = valid == n
    low = jnp.where(whole | ignore, jnp.maximum(valid - 1, 0) // 2, n - 1)
    high = jnp.where(whole | ignore, valid // 2, n - 1)
    return low, low if low_only else jnp.minimum(high, n - 1), valid


@op(internal="median", dtypes=FLOAT | INT, selects=True, upcast="grad")
def median_of(x: Tensor, axis: Axes, keepdim: bool, low: bool, ignore: bool) -> Tensor:
    """The middle element, or the mean of the two middle ones; use `median` and `nanmedian`."""
    y = _lines(x, axis)
    shape = reduced_shape(x.shape, axis, keepdim)
    if y.shape[-1] == 0:
        return jnp.full(shape, np.nan, x.dtype)
    places = order(lax.stop_gradient(y), y.ndim - 1)
    a, b, _ = _middles(y, ignore, low)
    first = at(y, at(places, a, -1), -1)
    return _mean_of_two(first, at(y, at(places, b, -1), -1), low).reshape(shape)


def _mean_of_two(a, b, low):
    if low:
        return a
    if jnp.issubdtype(a.dtype, jnp.integer):
        total = a + b
        return (jnp.sign(total) * (jnp.abs(total) // 2)).astype(a.dtype)  # towards zero
    return a * np.asarray(0.5, a.dtype) + b * np.asarray(0.5, a.dtype)


_lines_numpy, _unlined_numpy, _middles_numpy, _mean_numpy = map(on_numpy, (_lines, _unlined, _middles, _mean_of_two))


def _median_numpy(x, axis, keepdim, low, ignore):
    y = _lines_numpy(x, axis)
    n, shape = y.shape[-1], reduced_shape(x.shape, axis, keepdim)
    if n == 0:
        return np.full(shape, np.nan, x.dtype)
    a, b, valid = _middles_numpy(y, ignore, low)
    if (valid == n).all():
        y = np.partition(y, sorted({(n - 1) // 2, n // 2}), axis=-1)
    else:
        y = np.sort(y, axis=-1)
    return _mean_numpy(at(y, a, -1), at(y, b, -1), low).reshape(shape)


median_of.numpy_form = _median_numpy
median_of.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), x.dtype))


@median_of.check
def _(x, axis):
    if x.dtype.kind == "i" and any(x.shape[a] == 0 for a in axis or range(x.ndim)):
        raise errors.bad(
            "median(x)",
            "at least one element",
            described=f"shape {list(x.shape)}, {x.dtype.name}",
            kind=errors.ShapeError,
        )


@median_of.grad(numpy=True)
def _(g, out, x, axis, keepdim, low, ignore):
    # shared among all elements that equal the median; where none does, between the two middle ones
    y = _lines(x, axis)
    g, out = g.reshape(*y.shape[:-1], 1), out.reshape(*y.shape[:-1], 1)
    if y.shape[-1] == 0:
        return jnp.zeros(x.shape, x.dtype)
    hit = (y == out) | ((y != y) & (out != out))
    count = jnp.sum(hit, axis=-1, keepdims=True)
    shared = jnp.where(hit, g / jnp.maximum(count, 1).astype(g.dtype), jnp.zeros((), g.dtype))
    if not low:
        places = order(y, y.ndim - 1)
        a, b, _ = _middles(y, ignore, low)
        here = jnp.arange(y.shape[-1])
        middle = (here == at(places, a, -1)) | (here == at(places, b, -1))
        shared = jnp.where(count > 0, shared, jnp.where(middle, g * np.asarray(0.5, g.dtype), jnp.zeros((), g.dtype)))
    return _unlined(shared, axis, x.shape)


@op(internal=True, dtypes=FLOAT | INT, selects=True)
def low_median(x: Tensor, axis: Axis, keepdim: bool, ignore: bool) -> tuple[Tensor, Tensor]:
    """The middle element along an axis, the lower one of two, and its index; use `median` and `nanmedian`."""
    shape = reduced_shape(x.shape, (axis,), keepdim) if x.ndim else ()
    y = jnp.moveaxis(x, axis, -1) if x.ndim else x.reshape(1)
    if y.shape[-1] == 0:
        return jnp.full(shape, np.nan, x.dtype), jnp.zeros(shape, jnp.int64)
    found = _low_place(lax.stop_gradient(y), ignore)
    return at(y, found, -1).reshape(shape), found.reshape(shape)


def _low_place(y, ignore):
    """Index of the lower middle; the first NaN, if NaN counts and there is one, and -1 if there is no number."""
    places = order(y, y.ndim - 1)
    n = y.shape[-1]
    a, _, valid = _middles(y, ignore, True)
    a = jnp.where((valid < n) & (not ignore), valid, a)
    return jnp.where((valid == 0) & ignore, -1, at(places, a, -1))


_low_place_numpy = on_numpy(_low_place)


def _low_median_numpy(x, axis, keepdim, ignore):
    shape = reduced_shape(x.shape, (axis,), keepdim) if x.ndim else ()
    y = np.moveaxis(x, axis, -1) if x.ndim else x.reshape(1)
    if y.shape[-1] == 0:
        return np.full(shape, np.nan, x.dtype), np.zeros(shape, np.int64)
    found = _low_place_numpy(y, ignore)
    return at(y, found, -1).reshape(shape), found.reshape(shape)


low_median.numpy_form = _low_median_numpy


@low_median.infer
def _(x, axis, keepdim):
    shape = reduced_shape(x.shape, (axis,), keepdim) if x.ndim else ()
    return [sig_of(shape, x.dtype), sig_of(shape, dtypes.int64)]


@low_median.grad(numpy=True)
def _(g, out, axis, sigs):
    if not sigs[0].shape:
        return g[0].reshape(())
    there = out[1] >= 0  # a row without a number has no element that a gradient could go to
    return picked_grad((jnp.where(there, g[0], jnp.zeros((), g[0].dtype)),), (None, jnp.maximum(out[1], 0)), axis, sigs)


low_median.check(lambda x, axis: median_of.check_rule(x, (axis,)) if x.ndim else None)


def _median(name: str, x: Tensor, axis: Any, keepdim: bool, mode: str, ignore: bool) -> Any:
    if mode not in ("avg", "min"):
        raise errors.bad(f"{name}(mode)", "'avg' or 'min'", mode)
    if mode == "min" and isinstance(axis, (int, np.integer)):
        values, indices = low_median(x, axis, keepdim, ignore)
        return values, indices.detach()
    return median_of(x, axis, keepdim, mode == "min", ignore)


@composite(method=True, torch=True)
def median(x: Tensor, axis: Axis = None, keepdim: bool = False, mode: str = "avg") -> Tensor | tuple[Tensor, Tensor]:
    """Median of elements along an axis, or of all; NaN if there is one.

    With torch's keyword names ``input`` or ``dim``, ``mode`` is ``'min'`` unless given.

    Args:
        x: Tensor of real numbers; in mode ``'avg'`` dtypes other than float32 and float64 become float32.
        axis: Axis to reduce; ``None`` means the flattened tensor. Default: None.
        keepdim: Whether to keep the reduced axis with size 1. Default: False.
        mode: What an even number of elements has for its median: ``'avg'`` the mean of the two middle ones, ``'min'``
            the lower one. Default: ``'avg'``.

    Returns:
        Tensor of the medians; in mode ``'min'`` with an ``axis``, a pair of these and their indices of int64.

    Examples:
        >>> bireme.median(bireme.to_tensor([1, 4, 2, 3])).item()
        2.5
    """
    if mode == "avg" and x.dtype not in (dtypes.float32, dtypes.float64):
        x = x.astype(dtypes.float32)
    return _median("median", x, axis, keepdim, mode, False)


@median.rewrite
def _(args, kwargs):
    # torch's keywords bring torch's meaning: the lower one of two middles, unless `mode` is given
    as_torch = ("dim" in kwargs or "input" in kwargs) and "mode" not in kwargs and len(args) < 4
    return args, {**kwargs, "mode": "min"} if as_torch else kwargs


@composite(method=True)
def nanmedian(x: Tensor, axis: Attr[int | Sequence[int]] = None, keepdim: bool = False,
              mode: str = "avg") -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Median along an axis, or of all, of the elements that are not NaN.

    Args:
        x: Tensor of real numbers; the dtype stays, and the mean of two integers is truncated.
        axis: Axis or axes to reduce; ``None`` means all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.
        mode: What an even number of elements has for its median: ``'avg'`` the mean of the two middle ones, ``'min'``
            the lower one. Default: ``'avg'``.

    Returns:
        Tensor of the medians, NaN where there is no number; in mode ``'min'`` with one ``axis``, a pair of these and
        their indices of int64, -1 where there is no number.

    Examples:
        >>> bireme.nanmedian(bireme.to_tensor([1.0, float("nan"), 2.0])).item()
        1.5
    """
    if isinstance(axis, (list, tuple)) and not axis:
        raise errors.bad("nanmedian(axis)", "at least one axis, or None", axis)
    return _median("nanmedian", x, axis, keepdim, mode, True)


@composite(public="compat.median", name_arg=False, out=True)
def compat_median(input: Tensor, dim: Axis = None, keepdim: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """Median of all elements, or along an axis with its index; the lower one of two middle elements.

    Args:
        input: Tensor of real numbers.
        dim: Axis to reduce; ``None`` means the flattened tensor. Default: None.
        keepdim: Whether to keep the reduced axis with size 1. Default: False.

    Returns:
        Tensor of the median; with ``dim`` a named tuple ``(values, indices)``.

    Examples:
        >>> bireme.compat.median(bireme.to_tensor([1, 4, 2, 3])).item()
        2
    """
    found = _median("median", input, dim, keepdim, "min", False)
    return found if dim is None else MedianRetType(*found)


@composite(public="compat.nanmedian", name_arg=False, out=True)
def compat_nanmedian(input: Tensor, dim: Axis = None, keepdim: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """Median of the elements that are not NaN, or along an axis with its index; the lower one of two middle elements.

    Args:
        input: Tensor of real numbers.
        dim: Axis to reduce; ``None`` means the flattened tensor. Default: None.
        keepdim: Whether to keep the reduced axis with size 1. Default: False.

    Returns:
        Tensor of the median; with ``dim`` a named tuple ``(values, indices)``, index 0 where there is no number.

    Examples:
        >>> bireme.compat.nanmedian(bireme.to_tensor([1.0, float("nan"), 2.0])).item()
        1.0
    """
    found = _median("nanmedian", input, dim, keepdim, "min", True)
    return found if dim is None else MedianRetType(found[0], found[1].clip(min=0))


# ---------------------------------------------------------------- quantiles


@op(internal="quantile", dtypes=frozenset((dtypes.float32, dtypes.float64)), of_the_past=True, selects=True)
def quantile_of(x: Tensor, q: Tensor, axis: Axes, keepdim: bool, interpolation: str, ignore: bool) -> Tensor:
    """Quantiles as a first axis; use `quantile` and `nanquantile`."""
    y = _lines(x, axis)
    shape = (q.shape[0], *reduced_shape(x.shape, axis, keepdim))
    if y.shape[-1] == 0:
        return jnp.full(shape, np.nan, x.dtype)
    places = order(lax.stop_gradient(y), y.ndim - 1)
    low, high, part = _between(lax.stop_gradient(y), lax.stop_gradient(q), interpolation, ignore)
    a = at(y, at(places, low, -1), -1)
    return jnp.moveaxis(_mixed(a, at(y, at(places, high, -1), -1), part), -1, 0).reshape(shape)


def _between(y, q, interpolation, ignore):
    """For each row and quantile: its neighbours' indices in the order, and the fraction of the way between them."""
    n = y.shape[-1]
    valid = jnp.sum(y == y, axis=-1, keepdims=True)
    place = q * jnp.maximum(valid - 1, 0).astype(q.dtype)
    if not ignore:
        place = jnp.where(valid < n, np.asarray(n - 1, q.dtype), place)
    # an infinite q of one element is NaN
    place = jnp.clip(jnp.where(place == place, place, np.asarray(0, q.dtype)), 0, n - 1)
    if interpolation == "nearest":
        place = jnp.round(place)
    low = jnp.floor(place) if interpolation != "higher" else jnp.ceil(place)
    high = jnp.ceil(place) if interpolation != "lower" else low
    part = (
        place - low
        if interpolation == "linear"
        else jnp.where(low == high, np.asarray(0, q.dtype), np.asarray(0.5, q.dtype))
    )
    return low.astype(jnp.int64), high.astype(jnp.int64), part.astype(y.dtype)


def _mixed(a, b, part):
    return a + jnp.where(part > 0, (b - a) * part, jnp.zeros((), a.dtype))


_between_numpy, _mixed_numpy = on_numpy(_between), on_numpy(_mixed)


def _quantile_numpy(x, q, axis, keepdim, interpolation, ignore):
    y = _lines_numpy(x, axis)
    shape = (q.shape[0], *reduced_shape(x.shape, axis, keepdim))
    if y.shape[-1] == 0:
        return np.full(shape, np.nan, x.dtype)
    low, high, part = _between_numpy(y, q, interpolation, ignore)
    y = np.sort(y, axis=-1)
    return np.moveaxis(_mixed_numpy(at(y, low, -1), at(y, high, -1), part), -1, 0).reshape(shape)


quantile_of.numpy_form = _quantile_numpy
quantile_of.infer(lambda x, q, axis, keepdim: sig_of((q.shape[0], *reduced_shape(x.shape, axis, keepdim)), x.dtype))


@quantile_of.grad(numpy=True)
def _(g, x, q, axis, interpolation, ignore):
    y = _lines(x, axis)
    if y.shape[-1] == 0:
        return jnp.zeros(x.shape, x.dtype), None
    places = order(y, y.ndim - 1)
    low, high, part = _between(y, q, interpolation, ignore)
    g = jnp.moveaxis(g.reshape(q.shape[0], *y.shape[:-1]), 0, -1)
    last = y.ndim - 1
    found = add_back(g * (1 - part), at(places, low, -1), last, y.shape) + add_back(
        g * part, at(places, high, -1), last, y.shape
    )
    return _unlined(found, axis, x.shape), None


_INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile(name: str, x: Tensor, q: Any, axis: Any, keepdim: bool, interpolation: str, ignore: bool) -> Tensor:
    if interpolation not in _INTERPOLATIONS:
        raise errors.bad(f"{name}(interpolation)", f"one of {', '.join(map(repr, _INTERPOLATIONS))}", interpolation)
    if isinstance(q, Tensor):
        if q.ndim > 1 or q.dtype.kind not in "fi":
            raise errors.bad(f"{name}(q)", "a floating-point tensor with at most 1 dimension", q)
        if q.dtype.kind == "i":
            q = q.astype(dtypes.float64)
        # in its own dtype: 0.6 as float32 times 5 is 3 there, and more than 3 in float64
        wanted = (q if q.dtype.itemsize >= 4 else q.astype(dtypes.float32)).detach().reshape([-1])
    else:
        given = q if isinstance(q, (list, tuple)) else [q]
        for p in given:
            if isinstance(p, bool) or not isinstance(p, (int, float, np.integer, np.floating)):
                raise errors.bad(
                    f"{name}(q)", "a number, a list of numbers or a tensor", q, kind=errors.ArgumentTypeError
                )
            if not 0 <= p <= 1:
                raise errors.bad(f"{name}(q)", "numbers in [0, 1]", q)
        wanted = Tensor(value_of([float(p) for p in given], dtypes.float64, x.place))
    if wanted.shape[0] == 0:
        raise errors.bad(f"{name}(q)", "at least one number", q)
    found = quantile_of(x, wanted, axis, keepdim, interpolation, ignore)
    return found[0] if wanted.shape[0] == 1 else found


@composite(method=True, name_arg=False)
def quantile(x: Tensor, q: Attr[float | Sequence[float] | Tensor], axis: Attr[int | Sequence[int]] = None,
             keepdim: bool = False, interpolation: str = "linear") -> Tensor:  # fmt: skip
    """Quantiles of elements over the given axes; NaN if there is one.

    Args:
        x: Tensor of float32 or float64.
        q: Quantile in ``[0, 1]``, or several: a number, a list of numbers or a tensor with at most one axis.
        axis: Axis or axes to reduce; ``None`` means all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.
        interpolation: What to do for a quantile between two elements: ``'linear'`` interpolates, ``'lower'``,
            ``'higher'`` and ``'nearest'`` take one of them, ``'midpoint'`` takes their mean. Default: ``'linear'``.

    Returns:
        Tensor of the quantiles, in the dtype of ``x``; several ``q`` become a new first axis.

    Raises:
        ValueError: If a number of ``q`` is outside of ``[0, 1]``; the values of a tensor are not checked.

    Examples:
        >>> bireme.quantile(bireme.to_tensor([1.0, 2.0, 3.0, 4.0]), 0.5).item()
        2.5
    """
    return _quantile("quantile", x, q, axis, keepdim, interpolation, False)


@composite(method=True, name_arg=False)
def nanquantile(x: Tensor, q: Attr[float | Sequence[float] | Tensor], axis: Attr[int | Sequence[int]] = None,
                keepdim: bool = False, interpolation: str = "linear") -> Tensor:  # fmt: skip
    """Quantiles over the given axes of the elements that are not NaN.

    Args:
        x: Tensor of float32 or float64.
        q: Quantile in ``[0, 1]``, or several: a number, a list of numbers or a tensor with at most one axis.
        axis: Axis or axes to reduce; ``None`` means all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.
        interpolation: What to do for a quantile between two elements: ``'linear'`` interpolates, ``'lower'``,
            ``'higher'`` and ``'nearest'`` take one of them, ``'midpoint'`` takes their mean. Default: ``'linear'``.

    Returns:
        Tensor of the quantiles, NaN where there is no number; several ``q`` become a new first axis.

    Raises:
        ValueError: If a number of ``q`` is outside of ``[0, 1]``; the values of a tensor are not checked.

    Examples:
        >>> bireme.nanquantile(bireme.to_tensor([1.0, float("nan"), 2.0]), 0.5).item()
        1.5
    """
    return _quantile("nanquantile", x, q, axis, keepdim, interpolation, True)
