"""Convolution by NumPy, for the interpreter: windows side by side and one product. Operators on jax arrays have their
own forms.

A convolution is linear in the image and in the kernel, so there are three functions: the result, the gradient of the
image, which is a transposed convolution too, and that of the kernel. Images are [batch, *spatial, channels] if `last`,
else [batch, channels, *spatial]; kernels [outputs, channels / groups, *window].

Inside, images are [channels, *spatial, batch]. The kernel is then one factor of the product as it is, however large,
the result and the kernel's gradient the other way round are products as they are, and what a window moves over are
long runs of memory, also in small images. Results are views of such memory, and so are those of elementwise functions
behind them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bireme.core.numpy_exec import blas

BLOCK = 1 << 20  # elements of windows that are laid out at a time: more would leave the cache, and memory in the end
MAX_PLACEMENTS = 1024
_BY_SIZE = {8: np.dtype(np.float64), 16: np.dtype(np.complex128)}


def places(n: int, window: int, stride: int, edges: tuple[int, int], dilation: int = 1) -> int:
    """How many windows fit along an axis."""
    return max(0, (n + sum(edges) - (window - 1) * dilation - 1) // stride + 1)


def taps(window: Any, stride: Any, dilation: Any, out: Any) -> Iterator[tuple[slice, ...]]:
    """For each place in the window, row by row, where it meets a padded image: one strided slice an axis."""
    for at in itertools.product(*[range(k) for k in window]):
        yield tuple([slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in zip(at, dilation, out, stride)])


def shares(
    window: Any, stride: Any, dilation: Any, before: Any, dims: Any, bounds: Any
) -> Iterator[tuple[tuple, tuple]]:
    """For each place in the window: what its share of the results in these bounds is, as [channels, *window, *out], and
    where in an image of `apart` it came from.
    """
    axes = []
    for k, s, d, a, n, (low, high) in zip(window, stride, dilation, before, dims, bounds):
        axis = []
        for i in range(k):
            move, phase = divmod(i * d - a, s)
            first, last = max(low, -move), min(high, -(-n // s) - move)
            if first < last:
                axis.append((i, slice(first - low, last - low), phase, slice(first + move, last + move)))
        axes.append(axis)
    for each in itertools.product(*axes):
        at, given, phase, taken = zip(*each)
        yield (slice(None), *at, *given), (slice(None), *phase, *taken)


def apart(channels: int, dims: Any, stride: Any, batch: int, dtype: Any) -> np.ndarray:
    """Zeros for an image [channels, *spatial, batch] whose elements stand apart by where they are between two strides,
    so that what windows meet are runs of memory: [channels, *stride, *spatial / stride, batch].
    """
    return np.zeros((channels, *stride, *[-(-n // s) for n, s in zip(dims, stride)], batch), dtype)


def together(x: np.ndarray, dims: Any, stride: Any) -> np.ndarray:
    """The image [channels, *spatial, batch] of one whose elements stand apart."""
    n = len(dims)
    if max(stride) == 1:
        return x.reshape(x.shape[0], *dims, x.shape[-1])
    order = (0, *[axis for i in range(1, n + 1) for axis in (n + i, i)], 2 * n + 1)
    full = [-(-m // s) * s for m, s in zip(dims, stride)]
    made = wide(x).transpose(order).reshape(x.shape[0], *full, -1).view(x.dtype)
    return made[:, *[slice(m) for m in dims]] if tuple(full) != tuple(dims) else made


class _Placement:
    """Where windows lie in images of one shape, and in which rows of them the work is done."""

    def __init__(self, shape: Any, kernel: Any, stride: Any, pads: Any, dilation: Any, groups: int):
        self.channels, self.dims, self.batch = shape[0], shape[1:-1], shape[-1]
        self.outputs, self.window, self.groups = kernel[0], kernel[2:], groups
        self.stride, self.pads, self.dilation = stride, pads, dilation
        self.out = tuple([places(*axis) for axis in zip(self.dims, self.window, stride, pads, dilation)])
        self.made = (self.outputs, *self.out, self.batch)
        self.taps = math.prod(self.window)
        self.padded = any(a or b for a, b in pads)
        self.whole = self.taps == 1 and not self.padded and max(stride) == 1  # the windows are the image
        self.empty = not (math.prod(shape) and math.prod(kernel) and math.prod(self.made))
        self.rows = self._rows()

    def _rows(self) -> list[tuple[int, int]]:
        """Rows of the result, so many at a time that their windows fit a core's cache, but no fewer positions than
        outputs: BLAS copies the kernel for each product.
        """
        if self.empty:
            return []
        n = self.out[0]
        each = math.prod(self.out[1:]) * self.batch
        products = each * n * self.channels // self.groups * self.taps * self.outputs
        count = max(1, BLOCK // (each * self.channels * self.taps))
        count = max(count, -(-self.outputs // (self.groups * each)))
        if products >= blas.SHARED_PRODUCT and self.outputs <= self.groups * each * n:
            count = min(count, -(-n // blas.cores()))
        size = -(-n // -(-n // count))
        return [(i, min(i + size, n)) for i in range(0, n, size)]

    def columns(self, x: np.ndarray, begin: int, end: int) -> np.ndarray:
        """The windows of these rows: [groups, window * channels / groups, positions]."""
        if self.whole:
            return x[:, begin:end].reshape(self.groups, self.channels // self.groups, -1)
        kind = x.dtype
        x = wide(self._grown(x, begin, end))
        # first what a window meets along the last axis, then along the others, where it moves by whole rows
        c, *front, step, one = x.strides
        *out, o = end - begin, *self.out[1:]
        k, d, s = self.window[-1], self.dilation[-1], self.stride[-1]
        x = _seen(x, (x.shape[0], k, *x.shape[1:-2], o, x.shape[-1]), (c, step * d, *front, step * s, one))
        if k > 1 or s > 1:
            x = x.copy()
        if out:
            c, tap, *front, step, one = x.strides
            shape = (x.shape[0], *self.window[:-1], k, *out, o, x.shape[-1])
            holes = [f * d for f, d in zip(front, self.dilation)]
            steps = [f * s for f, s in zip(front, self.stride)]
            x = _seen(x, shape, (c, *holes, tap, *steps, step, one))
        x = x.reshape(self.groups, self.channels // self.groups * self.taps, -1)
        return (x if x.strides[-1] == x.itemsize else x.copy()).view(kind)

    def _grown(self, x: np.ndarray, begin: int, end: int) -> np.ndarray:
        """The part of an image that windows of these rows meet, with zeros around it."""
        first = begin * self.stride[0] - self.pads[0][0]
        last = (end - 1) * self.stride[0] - self.pads[0][0] + (self.window[0] - 1) * self.dilation[0] + 1
        low = max(first, 0)
        high = max(low, min(last, self.dims[0]))
        if not self.padded:
            return x[:, low:high]
        rest = [m + a + b for m, (a, b) in zip(self.dims[1:], self.pads[1:])]
        grown = np.zeros((x.shape[0], last - first, *rest, x.shape[-1]), x.dtype)
        inside = [slice(a, a + m) for m, (a, _) in zip(self.dims[1:], self.pads[1:])]
        grown[:, low - first : high - first, *inside] = x[:, low:high]
        return grown

    def each(self, make: Callable[[list[tuple[int, int]]], Any]) -> None:
        """Do all rows, on all cores where there are several parts."""
        n = min(blas.cores(), len(self.rows))
        if n == 1:
            make(self.rows)
            return
        size = -(-len(self.rows) // n)
        with blas.one_thread:
            blas.share([functools.partial(make, self.rows[i : i + size]) for i in range(0, len(self.rows), size)])


_placement = functools.lru_cache(MAX_PLACEMENTS)(_Placement)


def wide(x: np.ndarray) -> np.ndarray:
    """The same memory in elements of a whole batch where there are numbers of that size: what is only copied is copied
    faster.
    """
    size = x.shape[-1] * x.itemsize
    return x.view(_BY_SIZE[size]) if size in _BY_SIZE and x.strides[-1] == x.itemsize else x


def _seen(x: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    if x.flags.c_contiguous:  # five times as fast as the general function
        return np.ndarray(shape, x.dtype, x, 0, strides)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


@functools.cache
def inside(ndim: int, last: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of an image as they are inside, and of one inside as they are outside."""
    inner = (ndim - 1, *range(1, ndim - 1), 0) if last else (1, *range(2, ndim), 0)
    return inner, tuple([inner.index(i) for i in range(ndim)])


def _product(kernel: np.ndarray, x: np.ndarray, at: _Placement) -> np.ndarray:
    """[outputs, *out, batch] of a kernel [groups, outputs / groups, window * channels / groups] and an image."""
    if at.empty:
        return np.zeros(at.made, np.result_type(kernel, x))
    if len(at.rows) == 1:
        return blas.matmul(kernel, at.columns(x, *at.rows[0])).reshape(at.made)
    made = np.empty(at.made, np.result_type(kernel, x))

    def make(rows):
        for begin, end in rows:
            part = made[:, begin:end].reshape(at.groups, at.outputs // at.groups, -1)
            np.matmul(kernel, at.columns(x, begin, end), out=part)

    at.each(make)
    return made


def forward(x: np.ndarray, w: np.ndarray, stride: Any, pads: Any, dilation: Any, groups: int, last: bool) -> np.ndarray:
    """The convolution of an image with a kernel."""
    inner, outer = inside(x.ndim, last)
    x = x.transpose(inner)
    at = _placement(x.shape, w.shape, stride, pads, dilation, groups)
    return _product(w.reshape(groups, w.shape[0] // groups, -1), x, at).transpose(outer)


def input_grad(
    g: np.ndarray, w: np.ndarray, dims: Any, stride: Any, pads: Any, dilation: Any, groups: int, last: bool
) -> np.ndarray:
    """The gradient of an image of extents `dims`: each result's share is added where it came from."""
    inner, outer = inside(g.ndim, last)
    g = g.transpose(inner)
    shape = (w.shape[1] * groups, *dims, g.shape[-1])
    at = _placement(shape, w.shape, stride, pads, dilation, groups)
    if at.empty:
        return np.zeros(shape, np.result_type(g, w)).transpose(outer)
    kernel: Any = w.reshape(groups, w.shape[0] // groups, w.shape[1], at.taps)
    back = _flipped(at) if _flips(at) else None
    if back is None:
        return _added(kernel, g, at).transpose(outer)
    kernel = kernel.swapaxes(1, 2)
    if at.taps > 1:
        kernel = np.ascontiguousarray(kernel[..., ::-1])
    kernel = kernel.reshape(groups, w.shape[1], -1)
    return _product(kernel, g, back).transpose(outer)


def _flips(at: _Placement) -> bool:
    """Whether the gradient of an image is made from windows of that of the result: measured, against adding shares."""
    positions = math.prod(at.out) * at.batch
    outputs, channels = at.outputs // at.groups, at.channels // at.groups
    return at.whole or outputs * (3 * channels + positions) < 2 * channels * positions


@functools.lru_cache(MAX_PLACEMENTS)
def _flipped(at: _Placement) -> _Placement | None:
    """The convolution, of the result's gradient with the flipped kernel, that gives that of the image: at stride 1."""
    pads = [
        ((k - 1) * d - a, n + a - m) for k, d, (a, _), n, m in zip(at.window, at.dilation, at.pads, at.dims, at.out)
    ]
    if max(at.stride) > 1 or min(map(min, pads)) < 0:
        return None
    kernel = (at.channels, at.outputs // at.groups, *at.window)
    return _placement(at.made, kernel, at.stride, tuple(pads), at.dilation, at.groups)


def _added(kernel: np.ndarray, g: np.ndarray, at: _Placement) -> np.ndarray:
    """The gradient of an image as the sum of shares."""
    full = apart(at.channels, at.dims, at.stride, at.batch, np.result_type(g, kernel))
    kernel = kernel.reshape(at.groups, at.outputs // at.groups, -1).swapaxes(1, 2)
    before = [a for a, _ in at.pads]
    for begin, end in at.rows:
        rows = g[:, begin:end].reshape(at.groups, at.outputs // at.groups, -1)
        made = kernel * rows if at.outputs == at.groups else blas.matmul(kernel, rows)
        made = made.reshape(at.channels, *at.window, end - begin, *at.out[1:], at.batch)
        bounds = [(begin, end), *[(0, n) for n in at.out[1:]]]
        for given, taken in shares(at.window, at.stride, at.dilation, before, at.dims, bounds):
            full[taken] += made[given]
    return together(full, at.dims, at.stride)


def weight_grad(
    x: np.ndarray, g: np.ndarray, window: Any, stride: Any, pads: Any, dilation: Any, groups: int, last: bool
) -> np.ndarray:
    """The gradient of a kernel over `window`."""
    inner, _ = inside(x.ndim, last)
    x, g = x.transpose(inner), g.transpose(inner)
    shape = (g.shape[0], x.shape[0] // groups, *window)
    at = _placement(x.shape, shape, stride, pads, dilation, groups)
    if at.empty:
        return np.zeros(shape, np.result_type(x, g))
    sums: list[tuple[int, np.ndarray]] = []

    def make(rows):
        product = blas.matmul if len(at.rows) == 1 else np.matmul
        total: Any = None
        for begin, end in rows:
            part = g[:, begin:end].reshape(groups, at.outputs // groups, -1)
            found = product(part, at.columns(x, begin, end).swapaxes(1, 2))
            total = found if total is None else np.add(total, found, out=total)
        sums.append((rows[0][0], total))

    at.each(make)
    totals = [total for _, total in sorted(sums, key=lambda item: item[0])]  # added in an order of their own
    return functools.reduce(np.add, totals).reshape(shape)


def primitive(x: np.ndarray, w: np.ndarray, grow: Any, p: dict[str, Any]) -> np.ndarray:
    """XLA's convolution with all its parameters; `grow(x, config)` pads with zeros, between the elements too."""
    (xs, ws, os), batches = p["dimension_numbers"], p["batch_group_count"]
    x = np.transpose(x, (xs[1], *xs[2:], xs[0]))
    w = np.transpose(w, ws)
    if batches > 1:  # groups of the batch are groups of channels once they stand there
        x = np.moveaxis(x.reshape(*x.shape[:-1], batches, -1), -2, 0)
        x = x.reshape(-1, *x.shape[2:])
    spread = [(a, b, d - 1) for (a, b), d in zip(p["padding"], p["lhs_dilation"])]
    x = grow(x, [(0, 0, 0), *spread, (0, 0, 0)])
    groups = max(batches, p["feature_group_count"])
    pads = ((0, 0),) * (x.ndim - 2)
    at = _placement(x.shape, w.shape, tuple(p["window_strides"]), pads, tuple(p["rhs_dilation"]), groups)
    made = _product(w.reshape(groups, w.shape[0] // groups, -1), x, at)
    return np.transpose(made, np.argsort((os[1], *os[2:], os[0])))
