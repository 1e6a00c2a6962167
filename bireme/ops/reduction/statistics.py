"""Statistics of what lies along axes: variance, medians, quantiles."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, INT
from bireme.core.declare.op import PUBLIC, Attr, Axes, Axis, Extra, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.core.tensor.tensor import value_of
from bireme.ops.reduction.reductions import reduced_shape
from bireme.ops.search.sort import MedianRetType, add_back, at, order, picked_grad

# ---------------------------------------------------------------- spread


@op(method=True, floats=True, torch=True, out=True, dtypes=FLOAT, of_the_past=True, numpy=True)
def var(x: Tensor, axis: Axes = None, unbiased: Extra = None, keepdim: bool = False, *, correction: float = 1) -> Tensor:
    """Variance over `axis`, or over all elements; divided by n - `correction`, which `unbiased=False` makes 0.

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
        raise errors.bad("var(correction)", "a number", None, kind=TypeError)
    if unbiased is not None:
        if arguments["correction"] != 1:
            raise errors.bad("var(correction)", "either unbiased or correction", "both")
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
    """Standard deviation over `axis`, or over all elements.

    >>> bireme.std(bireme.to_tensor([1.0, 3.0]), unbiased=False).item()
    1.0
    """
    return var(x, axis, unbiased, keepdim).sqrt()


# ---------------------------------------------------------------- medians


def _lines(x, axis):
    """What is reduced as the last axis, the others in order before it."""
    axes = axis or tuple(range(x.ndim))
    rest = [i for i in range(x.ndim) if i not in axes]
    return jnp.transpose(x, (*rest, *axes)).reshape([*[x.shape[i] for i in rest], math.prod([x.shape[i] for i in axes])])


def _unlined(y, axis, shape):
    """The inverse: lines back where they were."""
    axes = axis or tuple(range(len(shape)))
    order = [*[i for i in range(len(shape)) if i not in axes], *axes]
    return jnp.transpose(y.reshape([shape[i] for i in order]), [order.index(i) for i in range(len(shape))])


def _middles(y, ignore, low_only):
    """Places of the lower and the upper middle of sorted lines, and how many numbers there are in each line."""
    n = y.shape[-1]
    valid = jnp.sum(y == y, axis=-1, keepdims=True) if jnp.issubdtype(y.dtype, jnp.floating) else jnp.full((*y.shape[:-1], 1), n)
    # with a NaN that counts, the line's last element in order is one
    whole = valid == n
    low = jnp.where(whole | ignore, jnp.maximum(valid - 1, 0) // 2, n - 1)
    high = jnp.where(whole | ignore, valid // 2, n - 1)
    return low, low if low_only else jnp.minimum(high, n - 1), valid


@op(dtypes=FLOAT | INT, selects=True)
def median_of(x: Tensor, axis: Axes, keepdim: bool, low: bool, ignore: bool) -> Tensor:
    """The middle element, or the mean of the two middle ones; use `median` and `nanmedian`.

    >>> bireme.median(bireme.to_tensor([1.0, 4.0, 2.0, 3.0])).item()
    2.5
    """
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
        raise errors.bad("median(x)", "an element to choose", f"shape {list(x.shape)}, {x.dtype.name}")


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


@op(dtypes=FLOAT | INT, selects=True)
def low_median(x: Tensor, axis: Axis, keepdim: bool, ignore: bool) -> tuple[Tensor, Tensor]:
    """The middle element along an axis, the lower one of two, and its place; use `median` and `nanmedian`.

    >>> [t.item() for t in bireme.median(bireme.to_tensor([4.0, 1.0, 3.0, 2.0]), 0, mode="min")]
    [2.0, 3]
    """
    shape = reduced_shape(x.shape, (axis,), keepdim) if x.ndim else ()
    y = jnp.moveaxis(x, axis, -1) if x.ndim else x.reshape(1)
    if y.shape[-1] == 0:
        return jnp.full(shape, np.nan, x.dtype), jnp.zeros(shape, jnp.int64)
    found = _low_place(lax.stop_gradient(y), ignore)
    return at(y, found, -1).reshape(shape), found.reshape(shape)


def _low_place(y, ignore):
    """Where the lower middle stands; the first NaN, if NaN counts and there is one, and -1 if there is no number."""
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
    there = out[1] >= 0  # a line without a number has no place that a gradient could go to
    return picked_grad((jnp.where(there, g[0], jnp.zeros((), g[0].dtype)),), (None, jnp.maximum(out[1], 0)), axis, sigs)


low_median.check(lambda x, axis: median_of.check_rule(x, (axis,)) if x.ndim else None)


def _median(name: str, x: Tensor, axis: Any, keepdim: bool, mode: str, ignore: bool) -> Any:
    if mode not in ("avg", "min"):
        raise errors.bad(f"{name}(mode)", "'avg' or 'min'", mode)
    if mode == "min" and isinstance(axis, (int, np.integer)):
        return tuple(low_median(x, axis, keepdim, ignore))
    return median_of(x, axis, keepdim, mode == "min", ignore)


@composite(method=True, torch=True)
def median(x: Tensor, axis: Axis = None, keepdim: bool = False, mode: str = "avg") -> Any:
    """The middle element along `axis`, or of all: the mean of the two middle ones, or with `mode="min"` the lower one and its place.

    >>> bireme.median(bireme.to_tensor([1, 4, 2, 3])).item()
    2.5
    """
    if mode == "avg" and x.dtype not in (dtypes.float32, dtypes.float64):
        x = x.astype(dtypes.float32)
    return _median("median", x, axis, keepdim, mode, False)


def _torch_median(plain: Any) -> Any:
    """torch's keywords bring torch's meaning: the lower one of two middles, unless `mode` is given."""

    @functools.wraps(plain)
    def median(*args: Any, **kwargs: Any) -> Any:
        if ("dim" in kwargs or "input" in kwargs) and "mode" not in kwargs and len(args) < 4:
            kwargs["mode"] = "min"
        return plain(*args, **kwargs)

    return median


median.public = PUBLIC["median"] = Tensor.median = _torch_median(median.public)  # type: ignore[attr-defined]  # a method that Tensor gets here


@composite(method=True)
def nanmedian(x: Tensor, axis: Attr = None, keepdim: bool = False, mode: str = "avg") -> Any:
    """The middle element along `axis`, or of all, of those that are not NaN.

    >>> bireme.nanmedian(bireme.to_tensor([1.0, float("nan"), 2.0])).item()
    1.5
    """
    if isinstance(axis, (list, tuple)) and not axis:
        raise errors.bad("nanmedian(axis)", "at least one axis, or None", axis)
    return _median("nanmedian", x, axis, keepdim, mode, True)


@composite(public="compat.median", name_arg=False, out=True)
def compat_median(input: Tensor, dim: Axis = None, keepdim: bool = False) -> Any:
    """The middle element, the lower one of two; along an axis with its place.

    >>> bireme.compat.median(bireme.to_tensor([1, 4, 2, 3])).item()
    2
    """
    found = _median("median", input, dim, keepdim, "min", False)
    return found if dim is None else MedianRetType(*found)


@composite(public="compat.nanmedian", name_arg=False, out=True)
def compat_nanmedian(input: Tensor, dim: Axis = None, keepdim: bool = False) -> Any:
    """The middle one of the elements that are not NaN, the lower one of two; along an axis with its place.

    >>> bireme.compat.nanmedian(bireme.to_tensor([1.0, float("nan"), 2.0])).item()
    1.0
    """
    found = _median("nanmedian", input, dim, keepdim, "min", True)
    return found if dim is None else MedianRetType(found[0], found[1].clip(min=0))


# ---------------------------------------------------------------- quantiles


@op(dtypes=frozenset((dtypes.float32, dtypes.float64)), of_the_past=True, selects=True)
def quantile_of(x: Tensor, q: Tensor, axis: Axes, keepdim: bool, interpolation: str, ignore: bool) -> Tensor:
    """Quantiles as a first axis; use `quantile` and `nanquantile`.

    >>> bireme.quantile(bireme.to_tensor([1.0, 2.0, 3.0]), [0.0, 0.5]).tolist()
    [1.0, 2.0]
    """
    y = _lines(x, axis)
    shape = (q.shape[0], *reduced_shape(x.shape, axis, keepdim))
    if y.shape[-1] == 0:
        return jnp.full(shape, np.nan, x.dtype)
    places = order(lax.stop_gradient(y), y.ndim - 1)
    low, high, part = _between(lax.stop_gradient(y), lax.stop_gradient(q), interpolation, ignore)
    a = at(y, at(places, low, -1), -1)
    return jnp.moveaxis(_mixed(a, at(y, at(places, high, -1), -1), part), -1, 0).reshape(shape)


def _between(y, q, interpolation, ignore):
    """For each line and quantile: the places in order on both sides of it, and the part of the way from one to the other."""
    n = y.shape[-1]
    valid = jnp.sum(y == y, axis=-1, keepdims=True)
    place = q * jnp.maximum(valid - 1, 0).astype(q.dtype)
    if not ignore:
        place = jnp.where(valid < n, np.asarray(n - 1, q.dtype), place)
    place = jnp.clip(jnp.where(place == place, place, np.asarray(0, q.dtype)), 0, n - 1)  # an infinite q of one element has no place
    if interpolation == "nearest":
        place = jnp.round(place)
    low = jnp.floor(place) if interpolation != "higher" else jnp.ceil(place)
    high = jnp.ceil(place) if interpolation != "lower" else low
    part = place - low if interpolation == "linear" else jnp.where(low == high, np.asarray(0, q.dtype), np.asarray(0.5, q.dtype))
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
    found = add_back(g * (1 - part), at(places, low, -1), last, y.shape) + add_back(g * part, at(places, high, -1), last, y.shape)
    return _unlined(found, axis, x.shape), None


_INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantile(name: str, x: Tensor, q: Any, axis: Any, keepdim: bool, interpolation: str, ignore: bool) -> Tensor:
    if interpolation not in _INTERPOLATIONS:
        raise errors.bad(f"{name}(interpolation)", f"one of {', '.join(_INTERPOLATIONS)}", interpolation)
    if isinstance(q, Tensor):
        if q.ndim > 1 or q.dtype.kind not in "fi":
            raise errors.bad(f"{name}(q)", "a tensor of floats with at most one axis", q)
        if q.dtype.kind == "i":
            q = q.astype(dtypes.float64)
        # in its own type: 0.6 as float32 times 5 is 3 there, and more than 3 in float64
        wanted = (q if q.dtype.itemsize >= 4 else q.astype(dtypes.float32)).detach().reshape([-1])
    else:
        given = q if isinstance(q, (list, tuple)) else [q]
        for p in given:
            if isinstance(p, bool) or not isinstance(p, (int, float, np.integer, np.floating)):
                raise errors.bad(f"{name}(q)", "a number, a list of numbers or a tensor", q, kind=TypeError)
            if not 0 <= p <= 1:
                raise errors.bad(f"{name}(q)", "numbers in [0, 1]", q)
        wanted = Tensor(value_of([float(p) for p in given], dtypes.float64, x.place))
    if wanted.shape[0] == 0:
        raise errors.bad(f"{name}(q)", "at least one number", q)
    found = quantile_of(x, wanted, axis, keepdim, interpolation, ignore)
    return found[0] if wanted.shape[0] == 1 else found


@composite(method=True, name_arg=False)
def quantile(x: Tensor, q: Any, axis: Attr = None, keepdim: bool = False, interpolation: str = "linear") -> Tensor:
    """Values below which the parts `q` of the elements along `axis` lie, or of all; several `q` become a first axis.

    >>> bireme.quantile(bireme.to_tensor([1.0, 2.0, 3.0, 4.0]), 0.5).item()
    2.5
    """
    return _quantile("quantile", x, q, axis, keepdim, interpolation, False)


@composite(method=True, name_arg=False)
def nanquantile(x: Tensor, q: Any, axis: Attr = None, keepdim: bool = False, interpolation: str = "linear") -> Tensor:
    """Quantiles of the elements that are not NaN.

    >>> bireme.nanquantile(bireme.to_tensor([1.0, float("nan"), 2.0]), 0.5).item()
    1.5
    """
    return _quantile("nanquantile", x, q, axis, keepdim, interpolation, True)
