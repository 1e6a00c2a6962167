"""Layer, batch and group normalization by NumPy: few passes over memory as it lies, in parts that fit a core's cache.

Behind a convolution an image lies in memory channel by channel, the batch last (see `core/numpy_exec/convolution.py`);
that of other layouts is brought there or, with the channels last, summed as it is.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

PART = 1 << 16  # elements that are normalized at a time
RUN = 256  # elements that numbers of a sample are repeated for

_add: Any = np.add.reduce


@functools.lru_cache(256)
def _orders(strides: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes with the channels first and the others as they lie in memory, and the way back."""
    rest = sorted([i for i in range(len(strides)) if i != axis], key=lambda i: -strides[i])
    order = (axis, *rest)
    return order, tuple([order.index(i) for i in range(len(order))])


# ---------------------------------------------------------------- over the last axes


def layer_norm(x: np.ndarray, weight: Any, bias: Any, epsilon: Any, axes: tuple[int, ...]) -> np.ndarray:
    """Normalized over the last axes."""
    made = np.empty(x.shape, x.dtype)
    y = _rows(made, axes)
    y *= _centred_rows(x, y, epsilon, axes)
    if weight is not None:
        y *= weight.reshape(-1)
    if bias is not None:
        y += bias.reshape(-1)
    return made


def layer_norm_grad(g: np.ndarray, x: np.ndarray, weight: Any, bias: Any, epsilon: Any, axes: tuple[int, ...]) -> tuple:
    """Gradients of all operands; the statistics are computed again."""
    gs, of_x = _rows(g, axes), np.empty(x.shape, x.dtype)
    y, made = np.empty(gs.shape, x.dtype), _rows(of_x, axes)
    inv = _centred_rows(x, y, epsilon, axes)
    y *= inv
    grads = [of_x]
    if weight is not None:
        grads.append(np.einsum("mc,mc->c", gs, y).astype(weight.dtype, copy=False).reshape(weight.shape))
    if bias is not None:
        grads.append(np.einsum("mc->c", gs).astype(bias.dtype, copy=False).reshape(bias.shape))
    np.multiply(gs, 1 if weight is None else weight.reshape(-1), out=made)
    average, dot = np.einsum("mc->m", made)[:, None], np.einsum("mc,mc->m", made, y)[:, None]
    y *= dot / max(1, y.shape[1])
    made -= y
    made -= average / max(1, y.shape[1])
    made *= inv
    return (*grads, None)


def _rows(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The last axes as rows of a matrix."""
    first = x.ndim - len(axes)
    return x.reshape(math.prod(x.shape[:first]), math.prod(x.shape[first:]))


def _centred_rows(x: np.ndarray, y: np.ndarray, epsilon: Any, axes: tuple[int, ...]) -> np.ndarray:
    """Write the rows of `x` less their means to `y`; 1 / deviation of each."""
    rows, count = _rows(x, axes), max(1, y.shape[1])
    mean = _add(rows, 1, None, None, True)
    mean /= count
    np.subtract(rows, mean, out=y)
    inv = np.einsum("mc,mc->m", y, y)[:, None]
    inv /= count
    inv += epsilon
    np.sqrt(inv, out=inv)
    return np.divide(1, inv, out=inv)


# ---------------------------------------------------------------- over the batch


class _Channels:
    """An image as a matrix with a row for each channel, or a column where the channels lie next to each other."""

    def __init__(self, x: np.ndarray, axis: int):
        self.axis, self.count = axis, max(1, x.size // max(1, x.shape[axis]))
        self.columns = x.shape[axis] > 1 and x.strides[axis] == x.itemsize
        self.order, self.back = _orders(x.strides, axis)
        if self.columns:
            self.order = (*self.order[1:], axis)
            self.back = tuple([self.order.index(i) for i in range(x.ndim)])
        self.shape = tuple([x.shape[i] for i in self.order])
        self.formula = "mc,mc->c" if self.columns else "cm,cm->c"

    def matrix(self, x: np.ndarray) -> np.ndarray:
        """A view where memory lies so, else a copy."""
        x = x.transpose(self.order)
        if self.columns:
            return x.reshape(math.prod(self.shape[:-1]), self.shape[-1])
        return x.reshape(self.shape[0], math.prod(self.shape[1:]))

    def image(self, matrix: np.ndarray) -> np.ndarray:
        return matrix.reshape(self.shape).transpose(self.back)

    def parts(self, *arrays: Any) -> Any:
        """So many channels at a time of matrices and vectors."""
        channels = self.shape[-1 if self.columns else 0]
        step = max(1, channels if self.columns else PART // self.count)
        if step >= channels:
            yield arrays
            return
        for i in range(0, channels, step):
            yield [None if a is None else a[i : i + step] for a in arrays]

    def sum(self, matrix: np.ndarray) -> np.ndarray:
        return _add(matrix, 0 if self.columns else 1)

    def dot(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.einsum(self.formula, a, b)

    def spread(self, vector: np.ndarray) -> np.ndarray:
        return vector if self.columns else vector[:, None]

    def centred(self, x: np.ndarray, y: np.ndarray, epsilon: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Write `x` less its mean to `y`; mean, variance and 1 / deviation."""
        mean = self.sum(x)
        mean /= self.count
        np.subtract(x, self.spread(mean), out=y)
        variance = self.dot(y, y)
        variance /= self.count
        inv = variance + epsilon
        np.sqrt(inv, out=inv)
        return mean, variance, np.divide(1, inv, out=inv)


def batch_norm(
    x: np.ndarray, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: Any, epsilon: Any, axis: int
) -> list[np.ndarray]:
    """Normalized over all axes but the channels', and the running statistics that follow."""
    at = _Channels(x, axis)
    rows = at.matrix(x)
    made = np.empty_like(rows)
    mean, variance = np.empty((2, x.shape[axis]), x.dtype)
    epsilon, old = epsilon.astype(x.dtype), momentum.astype(x.dtype)
    weight, bias = [v if v is None else v.astype(x.dtype, copy=False) for v in (weight, bias)]
    for part, y, m, v, w, b in at.parts(rows, made, mean, variance, weight, bias):
        m[...], v[...], scale = at.centred(part, y, epsilon)
        if w is not None:
            scale *= w
        y *= at.spread(scale)
        if b is not None:
            y += at.spread(b)
    kept = [r * old + now * (1 - old) for r, now in ((running_mean, mean), (running_var, variance))]
    return [at.image(made), *kept]


def batch_norm_grad(
    g: Any, x: np.ndarray, weight: Any, bias: Any, momentum: Any, epsilon: Any, axis: int, sigs: Any
) -> tuple:
    """Gradients of all operands; the statistics are computed again."""
    at = _Channels(x, axis)
    rows, given = at.matrix(x), at.matrix(g[0])
    made = np.empty_like(rows)
    channels = x.shape[axis]
    total, dot = np.empty((2, channels), x.dtype)
    epsilon, old = epsilon.astype(x.dtype), momentum.astype(x.dtype)
    new = 1 - old
    mean_grad, variance_grad = [t.astype(x.dtype, copy=False) for t in g[1:]]
    w = None if weight is None else weight.astype(x.dtype, copy=False)
    parts = at.parts(rows, given, made, total, dot, w, mean_grad * new, variance_grad * (2 * new))
    for part, gs, y, t, d, factor, level, slope in parts:
        _, _, inv = at.centred(part, y, epsilon)
        t[...] = at.sum(gs)
        d[...] = at.dot(gs, y)
        d *= inv
        scale = inv if factor is None else inv * factor
        level = (scale * t - level) / at.count
        slope = (scale * d - slope / inv) / -at.count
        y *= at.spread(inv * slope)
        y -= at.spread(level)
        y += gs * at.spread(scale)
    grads = [at.image(made), mean_grad * old, variance_grad * old]
    if weight is not None:
        grads.append(dot)
    if bias is not None:
        grads.append(total)
    return (*[t.astype(s.dtype.np, copy=False) for t, s in zip(grads, sigs)], None, None)


# ---------------------------------------------------------------- over groups of channels


class _Groups:
    """An image as [channels, elements of a plane, samples], with the samples last or, where they do not lie so, with
    each sample's channels as channels of their own.

    What belongs to a sample is repeated, so that a run of memory is changed at a time and not one element a sample.
    """

    def __init__(self, x: np.ndarray, groups: int, axis: int):
        rest = [i for i in range(1, x.ndim) if i != axis]
        inner = x.shape[0] > 1 and x.strides[0] == x.itemsize and x.size > x.shape[0]
        self.order = (axis, *rest, 0) if inner else (0, axis, *rest)
        self.back = tuple([self.order.index(i) for i in range(x.ndim)])
        self.shape = tuple([x.shape[i] for i in self.order])
        self.samples, self.groups = (x.shape[0], groups) if inner else (1, groups * x.shape[0])
        self.channels, self.copies = x.shape[axis], 1 if inner else x.shape[0]
        self.plane = math.prod([x.shape[i] for i in rest])
        self.count = max(1, self.channels // groups * self.plane)
        fits = [n for n in range(1, max(1, RUN // self.samples) + 1) if self.plane % n == 0]
        self.run = fits[-1] if inner else self.plane

    def blocks(self, x: np.ndarray) -> np.ndarray:
        """[channels, plane, samples]; a view where memory lies so."""
        return x.transpose(self.order).reshape(self.channels * self.copies, self.plane, self.samples)

    def image(self, blocks: np.ndarray) -> np.ndarray:
        return blocks.reshape(self.shape).transpose(self.back)

    def runs(self, blocks: np.ndarray) -> np.ndarray:
        if self.samples == 1:
            return blocks.reshape(len(blocks), 1, self.plane)
        return blocks.reshape(len(blocks), -1, self.run * self.samples)

    def numbers(self, v: np.ndarray) -> np.ndarray:
        """A number for each channel, over all its copies: [channels, 1]."""
        return (v if self.copies == 1 else np.concatenate([v] * self.copies))[:, None]

    def sum(self, blocks: np.ndarray) -> np.ndarray:
        """Over the plane: [channels, samples]."""
        if self.samples == 1:
            return _add(blocks[:, :, 0], 1, None, None, True)
        return np.matmul(np.ones((1, self.plane), blocks.dtype), blocks)[:, 0]

    def of_group(self, v: np.ndarray) -> np.ndarray:
        """The sum of what the channels of a group have, for each of them."""
        parts = v.reshape(self.groups, -1, self.samples)
        return np.broadcast_to(_add(parts, 1, None, None, True), parts.shape).reshape(v.shape)

    def spread(self, v: np.ndarray) -> np.ndarray:
        """What [channels, samples] is for each run."""
        if self.samples == 1:
            return v[:, :, None]
        shape = (len(v), self.run, self.samples)
        return np.broadcast_to(v[:, None], shape).reshape(len(v), 1, self.run * self.samples)

    def centred(self, x: np.ndarray, epsilon: Any) -> tuple[np.ndarray, np.ndarray]:
        """`x` less its mean, in runs, and 1 / deviation: [channels, samples]."""
        mean = self.of_group(self.sum(x)) / self.count
        y = self.runs(x) - self.spread(mean)
        inv = self.of_group(self.sum((y * y).reshape(x.shape))) / self.count
        inv += epsilon
        np.sqrt(inv, out=inv)
        return y, np.divide(1, inv, out=inv)


def group_norm(x: np.ndarray, weight: Any, bias: Any, epsilon: Any, groups: int, axis: int) -> np.ndarray:
    """Normalized over each group of channels of each sample."""
    if not x.size:
        return np.zeros(x.shape, x.dtype)
    at = _Groups(x, groups, axis)
    y, inv = at.centred(at.blocks(x), epsilon.astype(x.dtype))
    y *= at.spread(inv if weight is None else inv * at.numbers(weight))
    if bias is not None:
        y += at.numbers(bias)[:, :, None]
    return at.image(y)


def group_norm_grad(
    g: np.ndarray, x: np.ndarray, weight: Any, bias: Any, epsilon: Any, groups: int, axis: int
) -> tuple:
    """Gradients of all operands; the statistics are computed again."""
    if not x.size:
        return (*[np.zeros(v.shape, v.dtype) for v in (x, weight, bias) if v is not None], None)
    at = _Groups(x, groups, axis)
    blocks, given = at.blocks(x), at.blocks(g)
    y, inv = at.centred(blocks, epsilon.astype(x.dtype))
    gs = at.runs(given)
    total, dot = at.sum(given), at.sum((gs * y).reshape(blocks.shape)) * inv
    factors = np.ones((1, 1), x.dtype) if weight is None else at.numbers(weight)
    mean, slope = at.of_group(total * factors), at.of_group(dot * factors)
    y *= at.spread(slope * inv * (inv / -at.count))
    y -= at.spread(mean * (inv / at.count))
    y += gs * at.spread(inv * factors)
    grads = [at.image(y)]
    for needed, v in ((weight, dot), (bias, total)):
        if needed is not None:
            grads.append(_add(v.reshape(at.copies, at.channels, at.samples), (0, 2)))
    return (*grads, None)
