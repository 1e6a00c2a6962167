"""Regions of images on NumPy arrays: sums as products with sparse matrices, maxima by windows of doubled size.

Regions whose bins have equally many pixels are taken together, some at a time so that what is written stays in the
cache: there is no loop over regions and none over pixels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bireme.core.numpy_exec import blas
from bireme.core.numpy_exec.add_rows import add_rows
from bireme.core.numpy_exec.weighted_rows import add_to_rows, rows

ENTRIES = 1 << 16  # of a matrix at a time
ALIKE = 8  # samples of a bin along an axis that need no class of their own
ELEMENTS = 1 << 17  # of maxima at a time
SHARED = 1 << 20  # multiplications that are worth a second core


class Axis(NamedTuple):
    """One axis of regions: the pixels of each bin `[regions, bins, K]`, their weights, and how many a region needs."""

    pixels: np.ndarray
    weights: np.ndarray
    lengths: np.ndarray


def _axis(taps: list[tuple[np.ndarray, np.ndarray]], size: int) -> Axis:
    """Pixels with their weights, each once: neighbouring samples share pixels."""
    pixels, weights = [np.stack(parts, -1) for parts in zip(*taps)]
    first = np.where(weights != 0, pixels, size).min(-1, keepdims=True)
    beyond = np.where(weights != 0, pixels - first, 0)
    width = int(beyond.max(initial=0)) + 1
    if width < pixels.shape[-1]:
        place = beyond + (np.arange(first.size) * width).reshape(first.shape)
        added = np.bincount(place.reshape(-1), weights.reshape(-1), first.size * width)
        weights = added.reshape(*first.shape[:-1], width).astype(weights.dtype)
        pixels = first + np.arange(width)
    used = (weights != 0).any(1)
    return Axis(pixels, weights, np.where(used.any(1), used.shape[1] - np.argmax(used[:, ::-1], 1), 0))


def _alike(*keys: np.ndarray) -> Iterator[np.ndarray]:
    """Indices of the regions that have the same keys, for each combination of them."""
    order = np.lexsort(keys)
    change = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    return iter(np.split(order, np.flatnonzero(change) + 1))


def _doublings(counts: np.ndarray) -> np.ndarray:
    """Classes of regions by their numbers of samples: a few large ones must not make all as long as they are."""
    return np.ceil(np.log2(np.maximum(counts, ALIKE))).astype(np.int32)


class _Matrices:
    """The matrix that takes pixels to bins, in parts: for some regions, `(regions, index, weights)` `[rows, entries]`.

    Each bin may have channels of its own; what is left over in a row points at one pixel more, which is zero.
    """

    def __init__(self, shape: tuple, given: tuple, own: bool, taps: Callable, channels: int):
        self.image, self.lines, self.taps = given[0], given[1:], taps
        self.sizes, self.channels, self.own = shape[2:], channels, own
        self.bins = [line[0].shape[1] for line in self.lines]
        each = math.prod(self.bins) if own else 1  # places that a pixel has
        self.count = shape[0] * math.prod(self.sizes) * each
        self.kind = np.int32 if 4 * self.count < 2**31 else np.int64
        self.steps = self.sizes[0] * self.sizes[1] * each, self.sizes[1] * each, each

    def jobs(self) -> Iterator[tuple]:
        for some in _alike(*[_doublings(line[-1]) for line in self.lines]):
            axes = []
            for line, size in zip(self.lines, self.sizes):
                part = tuple(t[some] for t in line)
                passes = int(part[-1].max())
                taps = [tap for k in range(max(passes, 1)) for tap in self.taps(part, k, size)]
                axes.append(_axis(taps, size))
            entries = some.size * math.prod(self.bins) * math.prod([axis.weights.shape[2] for axis in axes])
            few = entries <= 4 * ENTRIES  # then entries without weight cost less than more matrices
            for alike in [np.arange(some.size)] if few else _alike(axes[0].lengths, axes[1].lengths):
                lengths = [int(axis.lengths[alike].max()) for axis in axes]
                if not all(lengths):
                    continue
                step = max(1, ENTRIES // math.prod(self.bins + lengths))
                for i in range(0, alike.size, step):
                    yield some, alike[i : i + step], axes, lengths

    def part(self, some: np.ndarray, which: np.ndarray, axes: list[Axis], lengths: list[int]) -> tuple:
        # in memory order of the entries: broadcasting would go round in loops of as few elements as a bin has pixels
        order = np.indices((*self.bins, *lengths)).reshape(4, -1)
        index: Any = None
        weight: Any = None
        for i, (axis, length, step) in enumerate(zip(axes, lengths, self.steps[1:])):
            entry = order[i] * length + order[i + 2]
            own = axis.weights[which, :, :length].reshape(which.size, -1)
            place = axis.pixels[which, :, :length].reshape(which.size, -1) * step
            place = np.where(own != 0, place, self.count).astype(self.kind).take(entry, axis=1)
            own = own.take(entry, axis=1)
            index = place if index is None else np.add(index, place, out=index)
            weight = own if weight is None else np.multiply(weight, own, out=weight)
        regions = some[which]
        index += self.image[regions].astype(self.kind)[:, None] * self.kind(self.steps[0])
        if self.own:
            index += (order[0] * self.bins[1] + order[1]).astype(self.kind)
        index = np.minimum(index, self.count, out=index)
        return regions, index.reshape(-1, math.prod(lengths)), weight.reshape(-1, math.prod(lengths))


def _shares(jobs: list, work: float) -> list[list]:
    count = min(blas.cores(), len(jobs)) if work >= SHARED else 1
    return [jobs[i::count] for i in range(max(count, 1))]


def sums(values: np.ndarray, shape: tuple, given: tuple, own: bool, taps: Callable, back: bool) -> np.ndarray:
    """Weighed sums of pixels of `values`, which has `shape`; if `back`, sums `values` spread over the pixels they are of.

    Args as of `regions.both_ways`.
    """
    n, regions, bins = shape[0], len(given[0]), [line[0].shape[1] for line in given[1:]]
    channels = shape[1] // math.prod(bins) if own else shape[1]
    matrices = _Matrices(shape, given, own, taps, channels)
    jobs = list(matrices.jobs())
    shares = _shares(jobs, regions * math.prod(bins) * channels)
    if back:
        return _spread(values, matrices, shares, shape, own)
    flat = np.zeros((matrices.count + 1, channels), values.dtype)
    if own:
        parts = values.reshape(n, channels, -1, *shape[2:]).transpose(0, 3, 4, 2, 1)
    else:
        parts = values.transpose(0, 2, 3, 1)
    flat[:-1].reshape(parts.shape)[...] = parts
    out = np.zeros((regions, channels, *bins), values.dtype)
    by_bins = out.reshape(regions, channels, -1)

    def make(jobs: list) -> None:
        for job in jobs:
            which, index, weights = matrices.part(*job)
            by_bins[which] = rows(index, weights, flat).reshape(which.size, -1, channels).transpose(0, 2, 1)

    blas.share([functools.partial(make, part) for part in shares])
    return out


def _spread(g: np.ndarray, matrices: _Matrices, shares: list[list], shape: tuple, own: bool) -> np.ndarray:
    by_bins = g.reshape(*g.shape[:2], -1)
    totals = [np.zeros((matrices.count + 1, matrices.channels), g.dtype) for _ in shares]

    def make(jobs: list, total: np.ndarray) -> None:
        for job in jobs:
            which, index, weights = matrices.part(*job)
            parts = np.ascontiguousarray(by_bins[which].transpose(0, 2, 1)).reshape(-1, matrices.channels)
            add_to_rows(total, index, weights, parts)

    blas.share([functools.partial(make, *part) for part in zip(shares, totals)])
    total = functools.reduce(np.add, totals)[:-1]
    if own:
        total = total.reshape(shape[0], *shape[2:], -1, matrices.channels).transpose(0, 4, 3, 1, 2)
    else:
        total = total.reshape(shape[0], *shape[2:], -1).transpose(0, 3, 1, 2)
    out = np.empty(shape, g.dtype)
    out.reshape(total.shape)[...] = total
    return out


def _keys(x: np.ndarray) -> tuple[np.ndarray, Callable]:
    """Integers `[N, H, W, C]` in the order of the values, of equal ones the first pixel the greatest; and the way back.

    What is no number, or less than all finite ones, counts as the least finite one.
    """
    h, w = x.shape[2:]
    last = np.moveaxis(np.fmax(x, np.finfo(x.dtype).min), 1, -1) + x.dtype.type(0)  # one zero
    if x.dtype == np.float32:
        bits = last.view(np.int32)
        order, values = bits ^ ((bits >> 31) & 0x7FFFFFFF), None
    else:
        values, order = np.unique(last, return_inverse=True)
    place = np.arange(h * w - 1, -1, -1).reshape(h, w, 1)
    keys = order.reshape(last.shape).astype(np.int64) << 32
    keys |= place

    def back(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rank, place = keys >> 32, h * w - 1 - (keys & 0xFFFFFFFF)
        if values is not None:
            return values[rank], place
        bits = rank.astype(np.int32)
        bits ^= (bits >> 31) & 0x7FFFFFFF
        return bits.view(np.float32), place

    return keys, back


def _doubled(keys: np.ndarray, axis: int, level: int) -> np.ndarray:
    """The greatest of `2 ** level` pixels from each on, where they are there, from those of half as many."""
    step, keys = 1 << (level - 1), np.moveaxis(keys, axis, 0)
    np.maximum(keys[:-step], keys[step:], out=keys[:-step])
    return np.moveaxis(keys, 0, axis)


def maxima(x: np.ndarray, image: np.ndarray, down: tuple, across: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Largest pixels of the bins of regions and where they are, from the first and last pixels `[regions, bins]` of each
    axis: a window of any size is the union of four of doubled sizes.
    """
    (_, c, h, w), regions = x.shape, len(image)
    bins = down[0].shape[1], across[0].shape[1]
    count = regions * math.prod(bins)
    out, place = np.zeros((count, c), x.dtype), np.full((count, c), -1, np.int32)
    sizes = [end - begin for begin, end in (down, across)]
    levels = [np.where(size > 0, np.frexp(np.maximum(size, 1))[1] - 1, -1).astype(np.int16) for size in sizes]
    empty = (levels[0] < 0)[:, :, None] | (levels[1] < 0)[:, None]
    pair = np.where(empty, -1, levels[0][:, :, None] * 64 + levels[1][:, None]).reshape(-1)
    order = np.argsort(pair, kind="stable")
    ordered = pair[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    keys, back = _keys(x)
    lines: Any = keys
    level_down = level_across = 0
    least, step = np.finfo(x.dtype).min, max(1, ELEMENTS // c)
    for start, end in zip(starts, [*starts[1:], count]):
        tall, wide = divmod(int(ordered[start]), 64)
        if tall > level_down:
            while level_down < tall:
                level_down += 1
                keys = _doubled(keys, 1, level_down)
            lines, level_across = keys, 0
        if wide > level_across and lines is keys:
            lines = keys.copy()
        while level_across < wide:
            level_across += 1
            lines = _doubled(lines, 2, level_across)
        flat = lines.reshape(-1, c)

        def make(blocks: range, tall: int, wide: int, flat: np.ndarray, end: int) -> None:
            for i in blocks:
                which = order[i : min(i + step, end)]
                region, bin_ = np.divmod(which, math.prod(bins))
                i_down, i_across = np.divmod(bin_, bins[1])
                rows = [down[0][region, i_down], down[1][region, i_down] - (1 << tall)]
                columns = [across[0][region, i_across], across[1][region, i_across] - (1 << wide)]
                found: Any = None
                for row in rows if tall else rows[:1]:
                    for column in columns if wide else columns[:1]:
                        taken = flat[(image[region] * h + row) * w + column]
                        found = taken if found is None else np.maximum(found, taken, out=found)
                value, at = back(found)
                out[which], place[which] = value, np.where(value > least, at, -1)

        blocks = range(start, end, step)
        share = min(blas.cores(), len(blocks)) if (end - start) * c >= SHARED else 1
        blas.share([functools.partial(make, blocks[i::share], tall, wide, flat, end) for i in range(share)])
    shaped = [np.empty((regions, c, *bins), t.dtype) for t in (out, place)]
    for to, t in zip(shaped, (out, place)):
        to.reshape(regions, c, -1)[...] = t.reshape(regions, -1, c).transpose(0, 2, 1)
    return shaped[0], shaped[1]


def add_at(shape: tuple, image: np.ndarray, place: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The gradient of maxima: each element of `g` `[regions, C, ...]` at its pixel `place` of the image `[N, C, H, W]`;
    none where that is negative.
    """
    n, c, pixels = shape[0], shape[1], math.prod(shape[2:])
    flat = image[:, None].astype(np.int64) * c + np.arange(c)
    at = (flat * pixels)[..., None] + place.reshape(*place.shape[:2], -1)
    at = np.where(place.reshape(at.shape) < 0, n * c * pixels, at).reshape(-1)
    out = np.zeros(n * c * pixels + 1, g.dtype)
    if not add_rows(out[:, None], at, g.reshape(-1, 1)):
        np.add.at(out, at, g.reshape(-1))
    return np.array(out[:-1]).reshape(shape)
