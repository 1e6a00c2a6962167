"""Convolution by NumPy, for the interpreter: windows side by side and one product. Operators on jax arrays have their
own forms.

A convolution is linear in the image and in the kernel, so there are three functions: the result, the gradient of the
image, which is a transposed convolution too, and that of the kernel. Images are [batch, *spatial, channels] if `last`,
else [batch, channels, *spatial]; kernels [outputs, channels / groups, *window]. Inside, the channels come last in both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bireme.core.numpy_exec import blas

BLOCK = 1 << 22  # elements of windows that are laid out at a time: more would leave the cache, and memory in the end


def places(n: int, window: int, stride: int, edges: tuple[int, int], dilation: int = 1) -> int:
    """How many windows fit along an axis."""
    return max(0, (n + sum(edges) - (window - 1) * dilation - 1) // stride + 1)


def taps(window: Any, stride: Any, dilation: Any, out: Any) -> Iterator[tuple[slice, ...]]:
    """For each place in the window, row by row, where it meets a padded image: one strided slice an axis."""
    for at in itertools.product(*[range(k) for k in window]):
        yield tuple([slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in zip(at, dilation, out, stride)])


def _padded(x: np.ndarray, pads: Any) -> np.ndarray:
    return np.pad(x, ((0, 0), *pads, (0, 0))) if any(a or b for a, b in pads) else x


def _windows(x: np.ndarray, window: Any, stride: Any, dilation: Any, out: Any) -> np.ndarray:
    """A view [batch, *out, *window, channels] of a padded image."""
    own = x.strides
    steps = [n * s for n, s in zip(own[1:-1], stride)]
    holes = [n * d for n, d in zip(own[1:-1], dilation)]
    return np.lib.stride_tricks.as_strided(
        x, (x.shape[0], *out, *window, x.shape[-1]), (own[0], *steps, *holes, own[-1]), writeable=False
    )


def _blocks(batch: int, each: int) -> Iterator[slice]:
    step = max(1, BLOCK // max(each, 1))
    for i in range(0, batch, step):
        yield slice(i, i + step)


def _rows(view: np.ndarray, groups: int, n: int) -> np.ndarray:
    """Windows as rows: [groups, rows, window * channels / groups]; the middle `n` axes of the view are the window's."""
    split = view.reshape(*view.shape[:-1], groups, view.shape[-1] // groups)
    front = split.ndim - n - 2
    return np.moveaxis(split, -2, 0).reshape(groups, math.prod(split.shape[:front]), -1)


def _apart(x: np.ndarray, groups: int) -> np.ndarray:
    """[groups, rows, channels / groups]"""
    return np.moveaxis(x.reshape(-1, groups, x.shape[-1] // groups), 1, 0)


def _together(x: np.ndarray, shape: Any) -> np.ndarray:
    return np.moveaxis(x, 0, 1).reshape(shape)


def _kernel(w: np.ndarray, groups: int) -> np.ndarray:
    """[groups, window * channels / groups, outputs / groups]"""
    return _apart(w, groups)


def _move(x: np.ndarray, last: bool) -> np.ndarray:
    return x if last else np.moveaxis(x, 1, -1)


def _back(x: np.ndarray, last: bool) -> np.ndarray:
    return x if last else np.moveaxis(x, -1, 1)


def _turned(w: np.ndarray) -> np.ndarray:
    """[*window, channels / groups, outputs]"""
    return w.transpose(*range(2, w.ndim), 1, 0)


def forward(x: np.ndarray, w: np.ndarray, stride: Any, pads: Any, dilation: Any, groups: int, last: bool) -> np.ndarray:
    """The convolution of an image with a kernel."""
    return _back(_convolved(_move(x, last), _turned(w), stride, pads, dilation, groups), last)


def _convolved(x: np.ndarray, w: np.ndarray, stride: Any, pads: Any, dilation: Any, groups: int) -> np.ndarray:
    window, n = w.shape[:-2], x.ndim - 2
    out = [places(m, k, s, p, d) for m, k, s, p, d in zip(x.shape[1:-1], window, stride, pads, dilation)]
    made = np.zeros((x.shape[0], *out, w.shape[-1]), np.result_type(x, w))
    if not made.size or not x.size or not w.size:
        return made
    x = _padded(x, pads)
    if groups == x.shape[-1] == w.shape[-1]:  # one channel each: products of numbers, not of matrices
        for at, tap in zip(taps(window, stride, dilation, out), w.reshape(-1, groups)):
            made += x[:, *at] * tap
        return made
    kernel = _kernel(w, groups)
    for part in _blocks(x.shape[0], math.prod(out) * math.prod(window) * x.shape[-1]):
        rows = _rows(_windows(x[part], window, stride, dilation, out), groups, n)
        made[part] = _together(blas.matmul(rows, kernel), (-1, *out, w.shape[-1]))
    return made


def input_grad(
    g: np.ndarray, w: np.ndarray, dims: Any, stride: Any, pads: Any, dilation: Any, groups: int, last: bool
) -> np.ndarray:
    """The gradient of an image of extents `dims`: each result's share is added where it came from."""
    g, w = _move(g, last), _turned(w)
    window, out = w.shape[:-2], g.shape[1:-1]
    channels = w.shape[-2] * groups
    full = np.zeros((g.shape[0], *[m + a + b for m, (a, b) in zip(dims, pads)], channels), np.result_type(g, w))
    if g.size and w.size:
        if groups == channels == w.shape[-1]:
            for at, tap in zip(taps(window, stride, dilation, out), w.reshape(-1, groups)):
                full[:, *at] += g * tap
        else:
            kernel = np.swapaxes(_kernel(w, groups), 1, 2)
            for part in _blocks(g.shape[0], math.prod(out) * math.prod(window) * channels):
                shares = blas.matmul(_apart(g[part], groups), kernel).reshape(
                    groups, -1, *out, math.prod(window), w.shape[-2]
                )
                shares = np.moveaxis(shares, 0, -2).reshape(-1, *out, math.prod(window), channels)
                for i, at in enumerate(taps(window, stride, dilation, out)):
                    full[part, *at] += shares[..., i, :]
    return _back(full[:, *[slice(a, a + m) for m, (a, _) in zip(dims, pads)]], last)


def weight_grad(
    x: np.ndarray, g: np.ndarray, window: Any, stride: Any, pads: Any, dilation: Any, groups: int, last: bool
) -> np.ndarray:
    """The gradient of a kernel over `window`."""
    made = _kernel_grad(_move(x, last), _move(g, last), window, stride, pads, dilation, groups)
    return made.transpose(made.ndim - 1, made.ndim - 2, *range(made.ndim - 2))


def _kernel_grad(
    x: np.ndarray, g: np.ndarray, window: Any, stride: Any, pads: Any, dilation: Any, groups: int
) -> np.ndarray:
    out, n, outputs = g.shape[1:-1], x.ndim - 2, g.shape[-1]
    made = np.zeros((*window, x.shape[-1] // groups, outputs), np.result_type(x, g))
    if not x.size or not g.size:
        return made
    x = _padded(x, pads)
    if groups == x.shape[-1] == outputs:
        flat = made.reshape(-1, groups)
        for i, at in enumerate(taps(window, stride, dilation, out)):
            flat[i] = np.einsum("pc,pc->c", x[:, *at].reshape(-1, groups), g.reshape(-1, groups))
        return made
    total = np.zeros((groups, made.size // outputs, outputs // groups), made.dtype)
    for part in _blocks(x.shape[0], math.prod(out) * math.prod(window) * x.shape[-1]):
        rows = _rows(_windows(x[part], window, stride, dilation, out), groups, n)
        total += blas.matmul(np.swapaxes(rows, 1, 2), _apart(g[part], groups))
    return _together(total, made.shape)


def primitive(x: np.ndarray, w: np.ndarray, grow: Any, p: dict[str, Any]) -> np.ndarray:
    """XLA's convolution with all its parameters; `grow(x, config)` pads with zeros, between the elements too."""
    (xs, ws, os), batches = p["dimension_numbers"], p["batch_group_count"]
    x = np.transpose(x, (xs[0], *xs[2:], xs[1]))
    w = np.transpose(w, (*ws[2:], ws[1], ws[0]))
    if batches > 1:  # groups of the batch are groups of channels once they stand there
        x = np.moveaxis(x.reshape(batches, -1, *x.shape[1:]), 0, -2)
        x = x.reshape(*x.shape[:-2], -1)
    spread = [(a, b, d - 1) for (a, b), d in zip(p["padding"], p["lhs_dilation"])]
    x = grow(x, [(0, 0, 0), *spread, (0, 0, 0)])
    n = x.ndim - 2
    made = _convolved(
        x, w, p["window_strides"], [(0, 0)] * n, p["rhs_dilation"], max(batches, p["feature_group_count"])
    )
    order = np.argsort((os[0], *os[2:], os[1]))
    return np.transpose(made, order)
