"""Regions of feature maps, pooled to one size: by interpolation, by maxima, and by means of their own channels.

How many pixels a region covers depends on values, and programs have fixed shapes: each pass of a loop adds one pixel or
sample of every bin at once, and the loop runs as often as the largest bin needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import linear_call

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph import segment
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.ops.vision import regions_numpy
from bireme.ops.vision.arguments import counts_on_host, floating, integers, pair, shaped


def _add(total, index, values):
    return total.at[index].add(values)


def _images(boxes_num, n):
    """The image that each of `n` boxes belongs to."""
    ends = jnp.cumsum(boxes_num.astype(jnp.int32))
    found = jnp.sum(jnp.arange(n, dtype=jnp.int32)[:, None] >= ends, axis=1)
    return jnp.minimum(found, boxes_num.shape[0] - 1).astype(jnp.int32)


def _divisors(bins, image, kind):
    """Numbers of bins, for each region, that the compiler does not know: it multiplies by the reciprocal of a number
    that all share, and edges of bins that fall on a pixel would be rounded to the next one.
    """
    zero = jnp.minimum(image, 0)  # images are counted from 0
    return [(zero + n).astype(kind) for n in bins]


def _share(extent, divisor):
    """What each of so many bins gets of an extent, rounded once. A GPU's quotients of float32 are not, and edges of bins that
    fall on a pixel would be beside it: what the quotient leaves of the extent, which is exact in two parts, is divided too.
    """
    found = extent / divisor
    if extent.dtype != jnp.float32:
        return found
    high = (found.view(jnp.int32) & ~0xFFF).view(jnp.float32)
    rest = extent - high * divisor - (found - high) * divisor
    return jnp.where(jnp.isfinite(rest), found + rest / divisor, found)


def _wide(boxes, x):
    return boxes.astype(x.dtype if x.dtype.itemsize >= 4 else jnp.float32)


# ---------------------------------------------------------------- samples


def _lines(low, high, bins, divisor, size, sampling_ratio, aligned):
    """One axis of all regions: start and width of the bins, number of samples, the first sample that is inside, and the
    number of samples to look at.
    """
    extent = high - low if aligned else jnp.maximum(high - low, 1)
    width = _share(extent, divisor)
    count = jnp.ceil(width) if sampling_ratio <= 0 else jnp.full_like(width, sampling_ratio)
    count = jnp.where(count > 0, count, 0)  # not for NaN
    start = low[:, None] + jnp.arange(bins, dtype=width.dtype) * width[:, None]
    most = 2 * size + 6 if sampling_ratio <= 0 else sampling_ratio  # samples are half a pixel apart or more
    step = width / jnp.maximum(count, 1)
    first = jnp.floor((-1 - start) / jnp.where(step > 0, step, 1)[:, None]) - 1
    first = jnp.where((first > 0) & (count[:, None] > most), jnp.minimum(first, count[:, None]), 0)
    return start, width, count, first, jnp.minimum(count, most).astype(jnp.int32)


def _samples(line, k, size):
    """The two pixels beside sample `k` of each bin, with the weights that make a mean of all; none outside of the image."""
    start, width, count, first, _ = line
    i, number = first + k, jnp.maximum(count, 1)[:, None]
    at = start + (i + 0.5) * width[:, None] / number
    inside = (i < count[:, None]) & (at >= -1) & (at <= size)
    at = jnp.where(inside, jnp.clip(at, 0, size - 1), 0)
    low = jnp.floor(at)
    share = at - low
    low = low.astype(jnp.int32)
    return [
        (low, jnp.where(inside, (1 - share) / number, 0)),
        (jnp.minimum(low + 1, size - 1), jnp.where(inside, share / number, 0)),
    ]


def _pixels(line, k, size):
    """Pixel `k` of each bin, with the weight that makes a mean of all."""
    low, high, weight, _ = line
    return [(jnp.minimum(low + k, size - 1), jnp.where(low + k < high, weight, 0))]


def _taps(ys, xs, k, across, sizes, taps):
    """Rows, columns and weights of pass `k` over all pairs of samples: `[regions, bins down, bins across]`."""
    for row, down in taps(ys, k // across, sizes[0]):
        for column, along in taps(xs, k % across, sizes[1]):
            yield row[:, :, None], column[:, None, :], down[:, :, None] * along[:, None, :]


def _summed(x, given, more, taps):
    """Weighed sums of pixels of `x` `[N, H, W, ..., C]`, as `[regions, bins down, bins across, C]`."""
    image, ys, xs = given
    zero = jnp.zeros((*ys[0].shape, xs[0].shape[1], x.shape[-1]), x.dtype)
    passes, across = _passes(ys, xs)

    def step(k, total):
        for row, column, weight in _taps(ys, xs, k, across, x.shape[1:3], taps):
            total = total + x[(image[:, None, None], row, column, *more)] * weight[..., None]
        return total

    return lax.fori_loop(0, passes, step, zero)


def _spread(g, shape, given, more, taps):
    """The transpose: sums spread over the pixels that they are made of."""
    image, ys, xs = given
    passes, across = _passes(ys, xs)

    def step(k, total):
        for row, column, weight in _taps(ys, xs, k, across, shape[1:3], taps):
            total = _add(total, (image[:, None, None], row, column, *more), g * weight[..., None])
        return total

    return lax.fori_loop(0, passes, step, jnp.zeros(shape, g.dtype))


def _passes(ys, xs):
    """Pairs of samples of the largest bin, and how many of them are in a row."""
    down, across = jnp.max(ys[-1]), jnp.max(xs[-1])
    return down * across, jnp.maximum(across, 1)


def _both_ways(values, shape, given, own, taps, back):
    """Weighed sums of pixels of `values`, which has `shape` `[N, C, H, W]`; if `back`, sums `values` spread over the
    pixels that they are made of. Each is the derivative of the other, as no program knows of a loop.

    `given` are the images of regions and two axes, whose pixels `taps` tells; with `own` each bin has its own channels.
    """
    bins = [line[0].shape[1] for line in given[1:]]
    parts = (shape[0], -1, *bins, *shape[2:])
    more: tuple = (jnp.arange(bins[0], dtype=jnp.int32)[:, None], jnp.arange(bins[1], dtype=jnp.int32)) if own else ()
    inner = (shape[0], *shape[2:], *bins, shape[1] // math.prod(bins)) if own else (shape[0], *shape[2:], shape[1])

    def forward(given, x):
        return _summed(x, given, more, taps)

    def backward(given, g):
        return _spread(g, inner, given, more, taps)

    if back:
        found = linear_call(backward, forward, given, jnp.moveaxis(values, 1, -1))
        return found.transpose(0, 5, 3, 4, 1, 2).reshape(shape) if own else jnp.moveaxis(found, -1, 1)
    last = values.reshape(parts).transpose(0, 4, 5, 2, 3, 1) if own else jnp.moveaxis(values, 1, -1)
    return jnp.moveaxis(linear_call(forward, backward, given, last), -1, 1)


# ---------------------------------------------------------------- roi_align


def _align(values, shape, boxes, boxes_num, bins, spatial_scale, sampling_ratio, aligned, back, ways):
    """Samples of `values`, which has `shape`, in regions; or the transpose of that, for a gradient `values`."""
    n, shift = boxes.shape[0], 0.5 if aligned else 0.0
    if not n or not np.prod(shape):
        return jnp.zeros(shape if back else (n, shape[1], *bins), values.dtype)
    kind, boxes = values.dtype, _wide(boxes, values)
    low_x, low_y, high_x, high_y = [boxes[:, i] * spatial_scale - shift for i in range(4)]
    image = _images(boxes_num, n)
    down, across = _divisors(bins, image, boxes.dtype)
    ys = _lines(low_y, high_y, bins[0], down, shape[2], sampling_ratio, aligned)
    xs = _lines(low_x, high_x, bins[1], across, shape[3], sampling_ratio, aligned)
    return ways(values.astype(boxes.dtype), shape, (image, ys, xs), False, _samples, back).astype(kind)


_align_numpy = on_numpy(_align)


def _roi_align_numpy(x, *rest):
    return _align_numpy(x, x.shape, *rest, False, regions_numpy.sums)


@op(internal="roi_align", dtypes=FLOAT, constants="boxes", numpy=_roi_align_numpy, by_numpy=True)
def roi_align_of(x: Tensor, boxes: Tensor, boxes_num: Tensor, bins: Attr, spatial_scale: float, sampling_ratio: int,
                 aligned: bool) -> Tensor:  # fmt: skip
    """Means of interpolated samples in the bins of regions; use `roi_align`."""
    return _align(x, x.shape, boxes, boxes_num, bins, spatial_scale, sampling_ratio, aligned, False, _both_ways)


def _roi_align_grad_numpy(g, boxes, boxes_num, bins, spatial_scale, sampling_ratio, aligned, sigs):
    rest = (boxes, boxes_num, bins, spatial_scale, sampling_ratio, aligned)
    return _align_numpy(g, sigs[0].shape, *rest, True, regions_numpy.sums), None, None


@roi_align_of.grad(numpy=_roi_align_grad_numpy)
def _(g, boxes, boxes_num, bins, spatial_scale, sampling_ratio, aligned, sigs):
    rest = (boxes, boxes_num, bins, spatial_scale, sampling_ratio, aligned)
    return _align(g, sigs[0].shape, *rest, True, _both_ways), None, None


roi_align_of.infer(lambda x, boxes, bins: sig_of((boxes.shape[0], x.shape[1], *bins), x.dtype))


@roi_align_of.effort
def _(x, boxes, bins, sampling_ratio):
    samples = (sampling_ratio if sampling_ratio > 0 else 3) ** 2
    return 4 * samples * boxes.shape[0] * bins[0] * bins[1] * x.shape[1]


def _pixel(place: Any, size: int) -> Any:
    """A place as the number of a pixel; NaN, whose integer depends on the machine, is 0."""
    return jnp.clip(jnp.where(place == place, place, 0), 0, size).astype(jnp.int32)


# ---------------------------------------------------------------- roi_pool


def _ranges(low, high, bins, divisor, size):
    """Begin and end of the pixels of each bin, inside of the image, and the most pixels that one has."""
    width = _share(jnp.maximum(high - low + 1, 1), divisor)
    at = jnp.arange(bins, dtype=width.dtype)
    begin = _pixel(jnp.floor(at * width[:, None]) + low[:, None], size)
    end = _pixel(jnp.ceil((at + 1) * width[:, None]) + low[:, None], size)
    return begin, end, jnp.max(end - begin)


def _half_away(t):
    """Rounded to the nearest integer, halves away from zero; NaN, which has none, is 0."""
    return jnp.where(t == t, jnp.sign(t) * jnp.floor(jnp.abs(t) + 0.5), 0)


def _edges(x, boxes, boxes_num, bins, spatial_scale):
    """The images of regions; begin and end of the pixels of their bins, and the most pixels of one, for both axes."""
    low_x, low_y, high_x, high_y = [_half_away(_wide(boxes, x)[:, i] * spatial_scale) for i in range(4)]
    image = _images(boxes_num, boxes.shape[0])
    down, across = _divisors(bins, image, low_x.dtype)
    ys = _ranges(low_y, high_y, bins[0], down, x.shape[2])
    return image, ys, _ranges(low_x, high_x, bins[1], across, x.shape[3])


def _maxima(x, boxes, boxes_num, bins, spatial_scale):
    n, shape = boxes.shape[0], x.shape
    if not n or not np.prod(shape):
        zero = jnp.zeros((n, shape[1], *bins), x.dtype)
        return zero, zero.astype(jnp.int32) - 1
    image, (top, bottom, rows), (left, right, columns) = _edges(x, boxes, boxes_num, bins, spatial_scale)
    last, image = jnp.moveaxis(x, 1, -1), image[:, None, None]
    least = jnp.finfo(x.dtype).min
    wide = jnp.maximum(columns, 1)

    def step(k, state):
        most, place = state
        row, column = (top + k // wide)[:, :, None], (left + k % wide)[:, None, :]
        inside = (row < bottom[:, :, None]) & (column < right[:, None, :])
        row, column = jnp.minimum(row, shape[2] - 1), jnp.minimum(column, shape[3] - 1)
        found = last[image, row, column]
        better = inside[..., None] & (found > most)
        return jnp.where(better, found, most), jnp.where(better, (row * shape[3] + column)[..., None], place)

    zero = jnp.zeros((n, *bins, shape[1]), x.dtype)
    state = zero + np.asarray(least).astype(x.dtype), zero.astype(jnp.int32) - 1
    most, place = lax.fori_loop(0, rows * columns, step, state)
    empty = (bottom <= top)[:, :, None] | (right <= left)[:, None, :]
    most = jnp.where(empty[..., None], np.zeros((), x.dtype), most)
    return jnp.moveaxis(most, -1, 1), jnp.moveaxis(place, -1, 1)


_edges_numpy, _images_numpy = on_numpy(_edges), on_numpy(_images)


def _maxima_numpy(x, boxes, boxes_num, bins, spatial_scale):
    n, kind = boxes.shape[0], x.dtype
    if not n or not x.size:
        zero = np.zeros((n, x.shape[1], *bins), kind)
        return zero, zero.astype(np.int32) - 1
    image, down, across = _edges_numpy(x, boxes, boxes_num, bins, spatial_scale)
    wide = x if kind.itemsize >= 4 else x.astype(np.float32)
    most, place = regions_numpy.maxima(wide, image, down[:2], across[:2])
    return most.astype(kind, copy=False), place


@op(internal="roi_pool", dtypes=FLOAT, constants="boxes", numpy=_maxima_numpy, by_numpy=True)
def roi_pool_of(x: Tensor, boxes: Tensor, boxes_num: Tensor, bins: Attr, spatial_scale: float) -> tuple[Tensor, Tensor]:
    """Maxima in the bins of regions, and the pixels that they are found at; use `roi_pool`."""
    return _maxima(x, boxes, boxes_num, bins, spatial_scale)


def _maxima_back_numpy(g, out, boxes_num, sigs):
    g, place, kind = g[0], out[1], g[0].dtype
    if not g.size or not sigs[0].size:
        return np.zeros(sigs[0].shape, kind), None, None
    wide = g if kind.itemsize >= 4 else g.astype(np.float32)
    found = regions_numpy.add_at(sigs[0].shape, _images_numpy(boxes_num, g.shape[0]), place, wide)
    return found.astype(kind, copy=False), None, None


@roi_pool_of.grad(numpy=_maxima_back_numpy)
def _(g, out, boxes_num, sigs):
    (n, c, h, w), (g, place) = sigs[0].shape, (g[0], out[1])
    if not g.size or not sigs[0].size:
        return jnp.zeros(sigs[0].shape, g.dtype), None, None
    kind = g.dtype
    g = g.astype(kind if kind.itemsize >= 4 else jnp.float32)  # many regions may add to one pixel
    image = _images(boxes_num, g.shape[0])[:, None, None, None]
    index = (image, jnp.arange(c, dtype=jnp.int32)[:, None, None], jnp.maximum(place, 0))
    found = _add(jnp.zeros((n, c, h * w), g.dtype), index, jnp.where(place < 0, np.zeros((), g.dtype), g))
    return found.reshape(n, c, h, w).astype(kind), None, None


def _roi_pool_sigs(x, boxes, bins):
    shape = (boxes.shape[0], x.shape[1], *bins)
    return sig_of(shape, x.dtype), sig_of(shape, dtypes.int32)


roi_pool_of.infer(_roi_pool_sigs)
roi_pool_of.effort(lambda x, boxes, bins: 64 * boxes.shape[0] * bins[0] * bins[1] * x.shape[1])


# ---------------------------------------------------------------- psroi_pool


def _means(values, shape, boxes, boxes_num, bins, spatial_scale, back, ways):
    n, own = boxes.shape[0], shape[1] // (bins[0] * bins[1])
    if not n or not np.prod(shape):
        return jnp.zeros(shape if back else (n, own, *bins), values.dtype)
    kind, boxes = values.dtype, _half_away(_wide(boxes, values))
    low_x, low_y = boxes[:, 0] * spatial_scale, boxes[:, 1] * spatial_scale
    high_x, high_y = (boxes[:, 2] + 1) * spatial_scale, (boxes[:, 3] + 1) * spatial_scale
    lines = []
    image = _images(boxes_num, n)
    divisors = _divisors(bins, image, boxes.dtype)
    edges = ((low_y, high_y), (low_x, high_x))
    for (low, high), count, divisor, size in zip(edges, bins, divisors, shape[2:]):
        # not empty where a region is
        width = _share(jnp.maximum(high - low, np.asarray(0.1, boxes.dtype)), divisor)
        at = jnp.arange(count, dtype=width.dtype)
        begin = _pixel(jnp.floor(at * width[:, None] + low[:, None]), size)
        end = _pixel(jnp.ceil((at + 1) * width[:, None] + low[:, None]), size)
        weight = 1 / jnp.maximum(end - begin, 1).astype(boxes.dtype)
        lines.append((begin, end, weight, jnp.max(end - begin, axis=1)))
    return ways(values.astype(boxes.dtype), shape, (image, *lines), True, _pixels, back).astype(kind)


_means_numpy = on_numpy(_means)


def _psroi_pool_numpy(x, *rest):
    return _means_numpy(x, x.shape, *rest, False, regions_numpy.sums)


@op(internal="psroi_pool", dtypes=FLOAT, constants="boxes", numpy=_psroi_pool_numpy, by_numpy=True)
def psroi_pool_of(x: Tensor, boxes: Tensor, boxes_num: Tensor, bins: Attr, spatial_scale: float) -> Tensor:
    """Means in the bins of regions, each bin from channels of its own; use `psroi_pool`."""
    return _means(x, x.shape, boxes, boxes_num, bins, spatial_scale, False, _both_ways)


def _psroi_pool_grad_numpy(g, boxes, boxes_num, bins, spatial_scale, sigs):
    return _means_numpy(g, sigs[0].shape, boxes, boxes_num, bins, spatial_scale, True, regions_numpy.sums), None, None


@psroi_pool_of.grad(numpy=_psroi_pool_grad_numpy)
def _(g, boxes, boxes_num, bins, spatial_scale, sigs):
    return _means(g, sigs[0].shape, boxes, boxes_num, bins, spatial_scale, True, _both_ways), None, None


psroi_pool_of.infer(lambda x, boxes, bins: sig_of((boxes.shape[0], x.shape[1] // (bins[0] * bins[1]), *bins), x.dtype))
psroi_pool_of.effort(lambda x, boxes, bins: 16 * boxes.shape[0] * x.shape[1])


# ---------------------------------------------------------------- the functions


def _checked(name: str, x: Tensor, boxes: Tensor, boxes_num: Tensor, output_size: Any) -> tuple[int, int]:
    """The number of bins down and across, if all arguments fit together."""
    shaped(f"{name}(x)", x, (None,) * 4, "feature maps of shape [N, C, H, W]")
    shaped(f"{name}(boxes)", boxes, (None, 4), "boxes of shape [n, 4]")
    floating(f"{name}(boxes)", boxes)
    where = f"{name}(boxes_num)"
    shaped(where, boxes_num, (x.shape[0],), f"a number of boxes for each of the {x.shape[0]} images")
    integers(where, boxes_num)
    if not segment.local.segment.symbolic:
        counts_on_host(where, boxes_num, boxes.shape[0])
    return pair(f"{name}(output_size)", output_size)


@composite(public="vision.ops.roi_align")
def roi_align(
    x: Tensor,
    boxes: Tensor,
    boxes_num: Tensor,
    output_size: Attr[int | Sequence[int]],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = True,
) -> Tensor:
    """Pool regions of feature maps to one size, by bilinear interpolation at positions between pixels.

    Each region is divided into bins of equal size, and a bin gets the mean of samples in it.

    Args:
        x: Feature maps of shape ``[N, C, H, W]``, of a floating-point dtype.
        boxes: Regions ``(x1, y1, x2, y2)`` of shape ``[n, 4]``, those of the first image first; without gradient.
        boxes_num: Number of regions in each image, int32 or int64 of shape ``[N]``; they add up to ``n``.
        output_size: Number of bins down and across: one integer for both, or two.
        spatial_scale: Factor from the coordinates of boxes to pixels of ``x``. Default: 1.0.
        sampling_ratio: Number of samples of a bin along each axis; 0 or less means as many as it has pixels, rounded up.
            Default: -1.
        aligned: Whether pixels have their centers at halves, so that boxes are shifted by half a pixel; else a region is
            at least one pixel wide and high. Default: True.

    Returns:
        Tensor of shape ``[n, C, bins down, bins across]`` and the dtype of ``x``.

    Examples:
        >>> x = bireme.arange(16.0).reshape([1, 1, 4, 4])
        >>> boxes, number = bireme.to_tensor([[0.0, 0.0, 4.0, 4.0]]), bireme.to_tensor([1])
        >>> bireme.vision.ops.roi_align(x, boxes, number, 2).tolist()
        [[[[2.5, 4.5], [10.5, 12.5]]]]
    """
    bins = _checked("roi_align", x, boxes, boxes_num, output_size)
    return roi_align_of(x, boxes, boxes_num, bins, spatial_scale, sampling_ratio, aligned)


@composite(public="vision.ops.roi_pool")
def roi_pool(
    x: Tensor,
    boxes: Tensor,
    boxes_num: Tensor,
    output_size: Attr[int | Sequence[int]],
    spatial_scale: float = 1.0,
) -> Tensor:
    """Pool regions of feature maps to one size, by maxima.

    The corners of a region are rounded to pixels, it is divided into bins, and a bin gets the largest of its pixels; one
    outside of the image gets 0.

    Args:
        x: Feature maps of shape ``[N, C, H, W]``, of a floating-point dtype.
        boxes: Regions ``(x1, y1, x2, y2)`` of shape ``[n, 4]``, those of the first image first; without gradient.
        boxes_num: Number of regions in each image, int32 or int64 of shape ``[N]``; they add up to ``n``.
        output_size: Number of bins down and across: one integer for both, or two.
        spatial_scale: Factor from the coordinates of boxes to pixels of ``x``. Default: 1.0.

    Returns:
        Tensor of shape ``[n, C, bins down, bins across]`` and the dtype of ``x``.

    Examples:
        >>> x = bireme.arange(16.0).reshape([1, 1, 4, 4])
        >>> boxes, number = bireme.to_tensor([[0.0, 0.0, 3.0, 3.0]]), bireme.to_tensor([1])
        >>> bireme.vision.ops.roi_pool(x, boxes, number, 2).tolist()
        [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    bins = _checked("roi_pool", x, boxes, boxes_num, output_size)
    return roi_pool_of(x, boxes, boxes_num, bins, spatial_scale)[0]


@composite(public="vision.ops.psroi_pool")
def psroi_pool(
    x: Tensor,
    boxes: Tensor,
    boxes_num: Tensor,
    output_size: Attr[int | Sequence[int]],
    spatial_scale: float = 1.0,
) -> Tensor:
    """Pool regions of feature maps to one size, by means, where each bin has channels of its own.

    Of ``C * h * w`` channels, bin ``(i, j)`` of channel ``c`` reads channel ``(c * h + i) * w + j`` alone.

    Args:
        x: Feature maps of shape ``[N, C * h * w, H, W]``, of a floating-point dtype.
        boxes: Regions ``(x1, y1, x2, y2)`` of shape ``[n, 4]``, those of the first image first; without gradient.
        boxes_num: Number of regions in each image, int32 or int64 of shape ``[N]``; they add up to ``n``.
        output_size: Number of bins ``h`` down and ``w`` across: one integer for both, or two.
        spatial_scale: Factor from the coordinates of boxes to pixels of ``x``. Default: 1.0.

    Returns:
        Tensor of shape ``[n, C, h, w]`` and the dtype of ``x``.

    Examples:
        >>> x = bireme.arange(16.0).reshape([1, 4, 2, 2])
        >>> boxes, number = bireme.to_tensor([[0.0, 0.0, 1.0, 1.0]]), bireme.to_tensor([1])
        >>> bireme.vision.ops.psroi_pool(x, boxes, number, 2).tolist()
        [[[[0.0, 5.0], [10.0, 15.0]]]]
    """
    bins = _checked("psroi_pool", x, boxes, boxes_num, output_size)
    if x.shape[1] % (bins[0] * bins[1]):
        wanted = f"a number of channels divisible by {bins[0] * bins[1]}, the number of bins"
        raise errors.bad("psroi_pool(x)", wanted, described=f"shape {x.shape}", kind=errors.ShapeError)
    return psroi_pool_of(x, boxes, boxes_num, bins, spatial_scale)
