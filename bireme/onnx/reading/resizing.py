"""Meanings of nodes that interpolate: Resize, and GridSample."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme import ops
from bireme.onnx.reading.table import Node, axis_of, host, ints, means, tensor


def _positions(mode: str, size: int, new: int, scale: float, roi: tuple[float, float]) -> np.ndarray:
    """Where in the input each element of the output lies."""
    i = np.arange(new, dtype=np.float64)
    length = size * scale  # may be between two integers
    if mode == "align_corners":
        return i * (size - 1) / (length - 1) if length > 1 else i * 0
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_crop_and_resize":
        start, end = roi
        if length > 1:
            return start * (size - 1) + i * (end - start) * (size - 1) / (length - 1)
        return i * 0 + 0.5 * (start + end) * (size - 1)
    if mode == "pytorch_half_pixel":
        return (i + 0.5) / scale - 0.5 if length > 1 else i * 0
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - new / length) + (i + 0.5) / scale - 0.5
    return (i + 0.5) / scale - 0.5


def _kernel(mode: str, t: np.ndarray, a: float) -> np.ndarray:
    """How much an element counts at a distance."""
    t = np.abs(t)
    if mode == "linear":
        return np.maximum(1 - t, 0)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def matrix(n: Node, mode: str, size: int, new: int, scale: float, roi: tuple[float, float]) -> np.ndarray:
    """Weights of each element of the input for each of the output, [new, size]."""
    how = n.attr("coordinate_transformation_mode", "half_pixel" if n.version >= 11 else "asymmetric")
    at = _positions(how, size, new, scale, roi)
    if mode == "nearest":
        rounding = n.attr("nearest_mode", "round_prefer_floor" if n.version >= 11 else "floor")
        rules: dict[str, Callable] = {
            "floor": np.floor,
            "ceil": np.ceil,
            "round_prefer_ceil": lambda x: np.floor(x + 0.5),
            "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        }
        if rounding not in rules:
            raise n.bad("a nearest_mode that is known", rounding)
        index = rules[rounding](at)
        found = np.eye(size)[np.clip(index, 0, size - 1).astype(np.int64)]
    else:
        shrink = min(scale, 1.0) if n.attr("antialias", 0) else 1.0
        reach = math.ceil((1 if mode == "linear" else 2) / shrink)
        taps = np.floor(at)[:, None] + np.arange(-reach + 1, reach + 1)
        weights = _kernel(mode, (taps - at[:, None]) * shrink, n.attr("cubic_coeff_a", -0.75))
        outside = (taps < 0) | (taps >= size)
        if n.attr("exclude_outside", 0):
            weights = np.where(outside, 0, weights)
        if n.attr("exclude_outside", 0) or shrink < 1:
            weights = weights / weights.sum(1, keepdims=True)
        found = np.zeros((new, size))
        for k in range(taps.shape[1]):
            np.add.at(found, (np.arange(new), np.clip(taps[:, k], 0, size - 1).astype(np.int64)), weights[:, k])
    if how == "tf_crop_and_resize":
        found[(at < 0) | (at > size - 1)] = np.nan
    return found


@means("Resize", "Upsample")
def _(n: Node, x: Any, *given: Any) -> Any:
    if n.proto.op_type == "Upsample" or n.version < 11:
        roi, sizes = None, None
        scales = (
            host(given[0]).tolist()
            if given
            else (n.attr("scales") or [1, 1, n.attr("height_scale"), n.attr("width_scale")])
        )
    else:
        given = (*given, *[None] * (3 - len(given)))
        roi = None if given[0] is None else host(given[0]).tolist()
        scales = None if given[1] is None or not given[1].size else host(given[1]).tolist()
        sizes = None if given[2] is None or not given[2].size else ints(given[2])
    axes = [axis_of(a, x) for a in (n.attr("axes") or range(x.ndim))]
    mode = n.attr("mode", "nearest")
    mode = "linear" if "linear" in mode else mode
    if scales is None:
        if sizes is None:
            raise n.bad("scales or sizes", "neither")
        each = [m / x.shape[a] for m, a in zip(sizes, axes)]
        policy = n.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = min(each) if policy == "not_larger" else max(each)
            each = [one] * len(axes)
            sizes = [math.floor(x.shape[a] * one + 0.5) for a in axes]
        scales = each
    else:
        sizes = [math.floor(x.shape[a] * s) for a, s in zip(axes, scales)]
    parts = [(roi[i], roi[len(axes) + i]) if roi else (0.0, 1.0) for i in range(len(axes))]
    kind = x.dtype
    made = ops.cast(x, "float32") if kind.kind == "i" or kind.itemsize < 4 else x
    outside = None
    for axis, new, scale, part in zip(axes, sizes, scales, parts):
        if new == x.shape[axis] and scale == 1 and not roi:
            continue
        weights = matrix(n, mode, x.shape[axis], new, scale, part)
        bad = np.isnan(weights[:, 0])
        if bad.any():
            shape = [-1 if i == axis else 1 for i in range(x.ndim)]
            outside = bad.reshape(shape) if outside is None else outside | bad.reshape(shape)
            weights = np.nan_to_num(weights)
        perm = [*[a for a in range(x.ndim) if a != axis], axis]
        made = ops.matmul(ops.transpose(made, perm), tensor(weights.T.astype(made.dtype.np)))
        made = ops.transpose(made, [int(i) for i in np.argsort(perm)])
    if outside is not None:
        fill = n.attr("extrapolation_value", 0.0)
        made = ops.where(tensor(np.broadcast_to(outside, made.shape).copy()), ops.full_like(made, fill), made)
    if kind.kind == "i":
        made = ops.round(made)
    return ops.cast(made, kind)


@means("GridSample")
def _(n: Node, x: Any, grid: Any) -> Any:
    mode = n.attr("mode", "linear" if n.version >= 20 else "bilinear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    border, corners = n.attr("padding_mode", "zeros"), bool(n.attr("align_corners", 0))
    sizes = x.shape[2:]
    spatial = len(sizes)
    at = []
    for i, m in enumerate(sizes):
        g = grid[..., spatial - 1 - i]
        at.append((g + 1) / 2 * (m - 1) if corners else ((g + 1) * m - 1) / 2)
    if border == "reflection" and mode != "cubic":
        at = [_reflected(p, m, corners) for p, m in zip(at, sizes)]
    elif border == "border" and mode != "cubic":
        at = [ops.clip(p, 0.0, float(m - 1)) for p, m in zip(at, sizes)]
    taps = []
    for p in at:
        if mode == "nearest":
            taps.append([(ops.round(p), None)])
            continue
        low = ops.floor(p)
        reach = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        taps.append([(low + k, _weight(mode, p - low - k)) for k in reach])
    made = _summed(x, taps, sizes, border, corners)
    return ops.cast(made, x.dtype)


def _weight(mode: str, t: Any) -> Any:
    t = ops.abs(t)
    if mode == "linear":
        return ops.clip(1 - t, 0.0, 1.0)
    a = -0.75
    near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return ops.where(t <= 1, near, ops.where(t < 2, far, ops.zeros_like(t)))


def _reflected(p: Any, size: int, corners: bool) -> Any:
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return ops.zeros_like(p)
    part = ops.remainder(ops.abs(p - low), ops.full_like(p, 2 * span))
    part = ops.where(part > span, 2 * span - part, part) + low
    return ops.clip(part, 0.0, size - 1.0)


def _summed(x: Any, taps: list, sizes: list[int], border: str, corners: bool) -> Any:
    """The sum over all neighbours along all axes of their elements by their weights."""
    batch, channels = x.shape[:2]
    shape = taps[0][0][0].shape
    flat = ops.reshape(x, [batch, channels, -1])
    total = None
    for which in np.ndindex(*[len(t) for t in taps]):
        place, weight = ops.zeros(shape, "int64"), None
        for axis, k in enumerate(which):
            at, w = taps[axis][k]
            m = sizes[axis]
            if border == "reflection":
                at = _reflected(at, m, corners)
            inside = ops.logical_and(at >= 0, at <= m - 1)
            place = place * m + ops.cast(ops.clip(at, 0.0, float(m - 1)), "int64")
            if border == "zeros":
                w = ops.cast(inside, "float32") if w is None else w * ops.cast(inside, w.dtype)
            if w is not None:
                weight = w if weight is None else weight * w
        index = ops.expand(ops.reshape(place, [batch, 1, -1]), [batch, channels, math.prod(shape[1:])])
        part = ops.reshape(ops.take_along_axis(flat, index, 2), [batch, channels, *shape[1:]])
        part = part if weight is None else part * ops.unsqueeze(weight, 1)
        total = part if total is None else total + part
    return total
