"""Max pooling over windows; means and norms are in `avg_pool`. Computed with channels last, in any data format."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Padding, Sizes, Tensor, composite, op
from bireme.core.graph.graph import Sig, sig_of
from bireme.core.numpy_exec import convolution, masks
from bireme.core.numpy_exec.convolution import taps
from bireme.ops._shared.precision import widen
from bireme.ops.nn import window_args
from bireme.ops.nn.conv_lowering import back, move
from bireme.ops.nn.window_args import Windows

_UNROLLED = 25  # elements of a window that are compared one by one
MAX_SLICED_SIZE = 16  # elements along one axis up to which it is cut into slices


@functools.lru_cache(maxsize=1024)
def windows(shape: Any, last: bool, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool) -> Windows:
    return Windows(window_args.spatial(shape, last), kernel_size, stride, padding, ceil_mode)


def pooled(x: Sig, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, data_format: str) -> Sig:
    """What an image becomes: a result for each window."""
    last = data_format[-1] == "C"
    return sig_of(windows(x.shape, last, kernel_size, stride, padding, ceil_mode).shape(x.shape, last), x.dtype)


def fitted(x, at: Windows, fill):
    return lax.pad(x, np.asarray(fill, x.dtype), [(0, 0, 0), *at.config, (0, 0, 0)])


def axis_windows(x, axis: int, size: int, stride: int, out: int):
    """Windows along one axis, as one more axis after it."""
    if stride == size:
        return x.reshape(*x.shape[:axis], out, size, *x.shape[axis + 1 :])
    index = (np.arange(out)[:, None] * stride + np.arange(size)).ravel()
    return jnp.take(x, index, axis=axis).reshape(*x.shape[:axis], out, size, *x.shape[axis + 1 :])


def axis_slices(x, axis: int, size: int, stride: int, out: int):
    """The same, a strided slice for each position in the window."""
    front = (slice(None),) * axis
    return [x[(*front, slice(i, i + (out - 1) * stride + 1, stride))] for i in range(size)]


# ---------------------------------------------------------------- maxima


def tap_type(size: Any) -> Any:
    return np.uint8 if math.prod(size) < 256 else np.int32


def _first(parts, best, places):
    """The index of the first of equals; NaN counts as the maximum."""
    tap = jnp.broadcast_to(places[-1], best.shape)
    for q, place in zip(parts[-2::-1], places[-2::-1]):
        tap = jnp.where((q == best) | (q != q), place, tap)
    return tap


def _largest(x, at: Windows):
    """The maximum of each window, and its flat index in the window."""
    kind = tap_type(at.size)
    if math.prod(at.size) <= _UNROLLED:
        parts = [x[:, *i] for i in taps(at.size, at.stride, (1,) * len(at.size), at.out)]
        best = functools.reduce(jnp.maximum, parts)
        return best, _first(parts, best, [np.asarray(i, kind) for i in range(len(parts))])
    # axis by axis, from the last: the first maximum of the first row that has it is the first of all
    tap, step = jnp.zeros(x.shape, kind), 1
    for i in range(len(at.size) - 1, -1, -1):
        along = (i + 1, at.size[i], at.stride[i], at.out[i])
        if at.size[i] <= MAX_SLICED_SIZE:
            size, stride = [1] * x.ndim, [1] * x.ndim
            size[i + 1], stride[i + 1] = at.size[i], at.stride[i]
            # a maximum of slices would be computed anew for each window of the next axis
            best = lax.reduce_window(x, np.asarray(-np.inf, x.dtype), lax.max, size, stride, "VALID")
            parts, own = axis_slices(x, *along), axis_slices(tap, *along)
            x, tap = best, _first(parts, best, [t + np.asarray(k * step, kind) for k, t in enumerate(own)])
        else:
            wide, own = axis_windows(x, *along), axis_windows(tap, *along)
            place = jnp.argmax(wide, axis=i + 2, keepdims=True)
            x = jnp.max(wide, axis=i + 2)
            tap = jnp.squeeze(jnp.take_along_axis(own, place, axis=i + 2) + (place * step).astype(kind), i + 2)
        step *= at.size[i]
    return x, tap


def _first_numpy(parts, best):
    tap = np.full(best.shape, len(parts) - 1, np.uint8)
    for place in range(len(parts) - 2, -1, -1):
        tap[(parts[place] == best) | (parts[place] != parts[place])] = place
    return tap


def _largest_numpy(x, at: Windows):
    """The same by NumPy: small windows element by element, else with views of all windows, axis by axis."""
    if math.prod(at.size) <= _UNROLLED:
        # copies of a whole batch at a time: the rest then goes over runs of memory
        runs = convolution.wide(x)
        parts = [runs[:, *i].copy().view(x.dtype) for i in taps(at.size, at.stride, (1,) * len(at.size), at.out)]
        best, tap = parts[0], np.zeros(parts[0].shape, np.uint8)
        for place, part in enumerate(parts[1:], 1):
            more = (part > best).view(np.uint8)
            more *= np.uint8(place)
            np.maximum(tap, more, out=tap)
            best = np.maximum(best, part)
        if np.isnan(best).any():  # the first of them
            tap = _first_numpy(parts, best)
        return best, tap
    tap, step = np.zeros(x.shape, tap_type(at.size)), 1
    for i in range(len(at.size) - 1, -1, -1):
        seen = [
            np.lib.stride_tricks.sliding_window_view(a, at.size[i], i + 1)[
                (slice(None),) * (i + 1) + (slice(None, None, at.stride[i]),)
            ]
            for a in (x, tap)
        ]
        place = seen[0].argmax(-1)[..., None]
        x, tap = [np.take_along_axis(a, place, -1)[..., 0] for a in seen]
        tap = tap + (place[..., 0] * step).astype(tap.dtype)
        step *= at.size[i]
    return x, tap


def _max_pool_numpy(x, kernel_size, stride, padding, ceil_mode, data_format):
    last = data_format[-1] == "C"
    at = windows(x.shape, last, kernel_size, stride, padding, ceil_mode)
    if 0 in at.out:
        return [np.zeros(at.shape(x.shape, last), kind) for kind in (x.dtype, tap_type(at.size))]
    inner, outer = convolution.inside(x.ndim, last)
    image = x.transpose(inner)
    if not at.within:
        cut = [slice(0, n + min(0, b)) for n, (_, b, _) in zip(at.dims, at.config)]
        sizes = [(o - 1) * s + k for o, s, k in zip(at.out, at.stride, at.size)]
        grown = np.full((image.shape[0], *sizes, image.shape[-1]), np.finfo(x.dtype).min, x.dtype)
        seen = image[:, *cut]
        grown[:, *[slice(a, a + n) for a, n in zip(at.before, seen.shape[1:-1])]] = seen
        image = grown
    return [r.transpose(outer) for r in _largest_numpy(image, at)]


@op(internal="max_pool", dtypes=FLOAT, numpy=_max_pool_numpy, selects=True, kernels="pool2d max_pool2d_with_index")
def max_pool_of(
    x: Tensor, kernel_size: Attr, stride: Attr, padding: Attr, ceil_mode: bool, data_format: str
) -> list[Tensor]:
    """Maximum of each window and its index there, which the gradient goes to; use `max_pool2d`."""
    last = data_format[-1] == "C"
    at = windows(x.shape, last, kernel_size, stride, padding, ceil_mode)
    if 0 in at.out:
        return [jnp.zeros(at.shape(x.shape, last), kind) for kind in (x.dtype, tap_type(at.size))]
    grown = fitted(move(x, last), at, jnp.finfo(x.dtype).min)
    if any(a or b for a, b, _ in at.config):
        grown = lax.optimization_barrier(grown)  # or each slice of it would pad, and turn the image, by itself
    return [back(r, last) for r in _largest(grown, at)]


@max_pool_of.infer
def _(x, kernel_size, stride, padding, ceil_mode, data_format):
    shape = pooled(x, kernel_size, stride, padding, ceil_mode, data_format).shape
    return [sig_of(shape, x.dtype), sig_of(shape, dtypes.uint8 if tap_type(kernel_size) is np.uint8 else dtypes.int32)]


@max_pool_of.effort
def _(x, kernel_size, stride):
    return x.size // math.prod(stride) * math.prod(kernel_size)  # a few passes, of bytes too, for each element of it


@max_pool_of.grad(numpy=lambda g, out, kernel_size, stride, padding, ceil_mode, data_format, sigs: _max_grad_numpy(
    g[0], out[1], kernel_size, stride, padding, ceil_mode, data_format, sigs))  # fmt: skip
def _(g, out, kernel_size, stride, padding, ceil_mode, data_format, sigs):
    last = data_format[-1] == "C"
    at = windows(sigs[0].shape, last, kernel_size, stride, padding, ceil_mode)
    if not g[0].size:
        return jnp.zeros(sigs[0].shape, g[0].dtype)
    gs, tap = widen(move(g[0], last)), move(out[1], last)
    found = _gathered(gs, tap, at) if math.prod(at.size) <= _UNROLLED else scattered(gs, places_of(tap, at), at.dims)
    return back(found.astype(g[0].dtype), last)


def _gathered(g, tap, at: Windows):
    """For each position modulo the stride: what the few windows that reach it give. No scatter, no zeros between."""
    n = len(at.size)
    reach = []  # by axis and phase: (offset of the window, index in it)
    for k, s, a in zip(at.size, at.stride, at.before):
        reach.append([[((r + a - i) // s, i) for i in range(k) if (r + a - i) % s == 0] for r in range(s)])
    rows = [-(-m // s) for m, s in zip(at.dims, at.stride)]
    low = [-min(e for r in axis for e, _ in r) for axis in reach]
    high = [max(e for r in axis for e, _ in r) + m - o for axis, m, o in zip(reach, rows, at.out)]
    config = [(0, 0, 0), *[(a, b, 0) for a, b in zip(low, high)], (0, 0, 0)]
    grown = lax.pad(g, np.zeros((), g.dtype), config), lax.pad(tap, np.asarray(255, tap.dtype), config)
    g, tap = lax.optimization_barrier(grown)  # or slices of it would become slices of `tap`, computed anew for each
    phases = []
    for phase in itertools.product(*reach):
        parts = []
        for pairs in itertools.product(*phase):
            cut = (slice(None), *[slice(e + a, e + a + m) for (e, _), a, m in zip(pairs, low, rows)])
            place = functools.reduce(
                lambda flat, pair: flat * pair[1] + pair[0], zip([i for _, i in pairs], at.size), 0
            )
            parts.append(jnp.where(tap[cut] == np.asarray(place, tap.dtype), g[cut], np.zeros((), g.dtype)))
        phases.append(
            functools.reduce(jnp.add, parts) if parts else jnp.zeros((g.shape[0], *rows, g.shape[-1]), g.dtype)
        )
    if len(phases) > 1:
        stacked = jnp.stack(phases).reshape(*at.stride, g.shape[0], *rows, g.shape[-1])
        order = [n, *[i for axis in range(n) for i in (n + 1 + axis, axis)], 2 * n + 1]
        found = stacked.transpose(order).reshape(g.shape[0], *[m * s for m, s in zip(rows, at.stride)], g.shape[-1])
    else:
        found = phases[0]
    return found[:, *[slice(0, m) for m in at.dims]]


def places_of(tap, at: Windows):
    """Flat indices in windows as flat indices in the plane; -1 where a window meets nothing but padding."""
    n, flat, inside = len(at.size), 0, True
    rest, step = tap.astype(np.int32), 1
    for i in range(n - 1, -1, -1):
        begin = (np.arange(at.out[i], dtype=np.int32) * at.stride[i] - at.before[i]).reshape(-1, *[1] * (n - i))
        own = rest % at.size[i] + begin
        rest = rest // at.size[i]
        inside = inside & (own >= 0) & (own < at.dims[i])
        flat, step = flat + own * np.int32(step), step * at.dims[i]
    return jnp.where(inside, flat, np.int32(-1))


def scattered(g, places, dims):
    """Each gradient added at its index in the plane; -1 is dropped."""
    batch, channels, plane = g.shape[0], g.shape[-1], math.prod(dims)
    rows = jnp.where(places < 0, np.int32(plane), places).reshape(batch, math.prod(g.shape[1:-1]), channels)
    at_batch = np.arange(batch, dtype=np.int32)[:, None, None]
    at_channel = np.arange(channels, dtype=np.int32)
    zeros = jnp.zeros((batch, plane, channels), g.dtype)
    return zeros.at[at_batch, rows, at_channel].add(g.reshape(rows.shape), mode="drop").reshape(batch, *dims, channels)


def _max_grad_numpy(g, tap, kernel_size, stride, padding, ceil_mode, data_format, sigs):
    last = data_format[-1] == "C"
    at = windows(sigs[0].shape, last, kernel_size, stride, padding, ceil_mode)
    inner, outer = convolution.inside(g.ndim, last)
    g, tap = g.transpose(inner), tap.transpose(inner)
    full = convolution.apart(g.shape[0], at.dims, at.stride, g.shape[-1], g.dtype)
    bounds, ones = [(0, n) for n in at.out], (1,) * len(at.out)
    for (_, *given), taken in convolution.shares(at.size, at.stride, ones, at.before, at.dims, bounds):
        place, where = given[: len(ones)], (slice(None), *given[len(ones) :])
        index = functools.reduce(lambda flat, pair: flat * pair[1] + pair[0], zip(place, at.size), 0)
        full[taken] += masks.kept(g[where], tap[where] == index)
    return convolution.together(full, at.dims, at.stride).transpose(outer)


@op(internal=True, differentiable=False, numpy=True, kernels="max_pool2d_with_index", amp="low")
def max_pool_places(
    tap: Tensor, dims: Attr, kernel_size: Attr, stride: Attr, padding: Attr, ceil_mode: bool, data_format: str
) -> Tensor:
    """Indices in their planes of the maxima of windows; use `max_pool2d` with `return_mask`."""
    last = data_format[-1] == "C"
    return back(places_of(move(tap, last), Windows(dims, kernel_size, stride, padding, ceil_mode)), last)


max_pool_places.infer(lambda tap: sig_of(tap.shape, dtypes.int32))


def _max_pool(name: str, n: int, return_mask: bool, arguments: dict[str, Any]) -> Any:
    window_args.pool_arguments(name, n, arguments)
    if return_mask and arguments["data_format"][-1] == "C":
        raise errors.bad(
            f"{name}(data_format)", f"'{window_args.FORMATS[n][0]}' with return_mask", arguments["data_format"]
        )
    x, rest = arguments["x"], [arguments[k] for k in ("kernel_size", "stride", "padding", "ceil_mode", "data_format")]
    out, tap = max_pool_of(x, *rest)
    return (out, max_pool_places(tap, window_args.spatial(x.shape, rest[-1][-1] == "C"), *rest)) if return_mask else out


@composite(plain=True)
def max_pool1d(x: Tensor, kernel_size: Sizes, stride: Sizes = None, padding: Padding = 0, return_mask: bool = False,
               ceil_mode: bool = False) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Max pooling of sequences: the maximum of each window.

    Of equal elements the first is taken, which gets the whole gradient.

    Args:
        x: Input tensor of shape ``[N, C, L]``, of a floating-point dtype.
        kernel_size: Size of the window.
        stride: Step between two windows; ``None`` means ``kernel_size``. Default: None.
        padding: Number of elements, which are never the maximum, added at both ends: an integer, a pair (before,
            after), ``'SAME'`` or ``'VALID'``. Default: 0.
        return_mask: Whether to return the indices of the maxima too. Default: False.
        ceil_mode: Whether windows that reach over the end count; ``False`` leaves them out. Default: False.

    Returns:
        Tensor of shape ``[N, C, L_out]``, where ``L_out = (L + before + after - kernel_size) // stride + 1``;
        ``ceil_mode`` rounds the quotient up. With ``return_mask`` a pair of this and an int32 tensor of the same shape
        with the index of each maximum in its sequence.

    Examples:
        >>> bireme.nn.functional.max_pool1d(bireme.to_tensor([[[1.0, 2.0, 4.0, 3.0]]]), 2).tolist()
        [[[2.0, 4.0]]]
    """
    rest = {
        "x": x,
        "kernel_size": kernel_size,
        "stride": stride,
        "padding": padding,
        "ceil_mode": ceil_mode,
        "data_format": "NCL",
    }
    return _max_pool("max_pool1d", 1, return_mask, rest)


@composite(plain=True)
def max_pool2d(x: Tensor, kernel_size: Sizes, stride: Sizes = None, padding: Padding = 0, return_mask: bool = False,
               ceil_mode: bool = False, data_format: str = "NCHW") -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Max pooling of images: the maximum of each window.

    Of equal elements the first is taken, which gets the whole gradient.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        kernel_size: Size of the window: one integer, or one for each spatial axis.
        stride: Step between two windows: one integer, or one for each spatial axis; ``None`` means ``kernel_size``.
            Default: None.
        padding: Number of elements, which are never the maximum, added at both ends of each spatial axis: one integer,
            one for each axis, a pair (before, after) for each axis in one flat list, such pairs for all axes of ``x``
            in nested lists, ``'SAME'`` or ``'VALID'``. Default: 0.
        return_mask: Whether to return the indices of the maxima too; channels must come first then. Default: False.
        ceil_mode: Whether windows that reach over the end count; ``False`` leaves them out. Default: False.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of shape ``[N, C, H_out, W_out]`` in ``data_format``, where
        ``H_out = (H + before + after - kernel_size) // stride + 1``, and likewise for the other axes; ``ceil_mode``
        rounds the quotient up. With ``return_mask`` a pair of this and an int32 tensor of the same shape with the index
        of each maximum in its plane, flattened.

    Examples:
        >>> bireme.nn.functional.max_pool2d(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 2).tolist()
        [[[[4.0]]]]
    """
    rest = {
        "x": x,
        "kernel_size": kernel_size,
        "stride": stride,
        "padding": padding,
        "ceil_mode": ceil_mode,
        "data_format": data_format,
    }
    return _max_pool("max_pool2d", 2, return_mask, rest)


@composite(plain=True)
def max_pool3d(x: Tensor, kernel_size: Sizes, stride: Sizes = None, padding: Padding = 0, return_mask: bool = False,
               ceil_mode: bool = False, data_format: str = "NCDHW") -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Max pooling of volumes: the maximum of each window.

    Of equal elements the first is taken, which gets the whole gradient.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        kernel_size: Size of the window: one integer, or one for each spatial axis.
        stride: Step between two windows: one integer, or one for each spatial axis; ``None`` means ``kernel_size``.
            Default: None.
        padding: Number of elements, which are never the maximum, added at both ends of each spatial axis: one integer,
            one for each axis, a pair (before, after) for each axis in one flat list, such pairs for all axes of ``x``
            in nested lists, ``'SAME'`` or ``'VALID'``. Default: 0.
        return_mask: Whether to return the indices of the maxima too; channels must come first then. Default: False.
        ceil_mode: Whether windows that reach over the end count; ``False`` leaves them out. Default: False.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.

    Returns:
        Tensor of shape ``[N, C, D_out, H_out, W_out]`` in ``data_format``, where
        ``D_out = (D + before + after - kernel_size) // stride + 1``, and likewise for the other axes; ``ceil_mode``
        rounds the quotient up. With ``return_mask`` a pair of this and an int32 tensor of the same shape with the index
        of each maximum in its volume, flattened.

    Examples:
        >>> bireme.nn.functional.max_pool3d(bireme.to_tensor([[[[[1.0, 2.0], [3.0, 4.0]]]]]), [1, 2, 2]).tolist()
        [[[[[4.0]]]]]
    """
    rest = {
        "x": x,
        "kernel_size": kernel_size,
        "stride": stride,
        "padding": padding,
        "ceil_mode": ceil_mode,
        "data_format": data_format,
    }
    return _max_pool("max_pool3d", 3, return_mask, rest)
