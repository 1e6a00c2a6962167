"""Meanings of nodes that pick and put elements: slices, gather, scatter, compress."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme import ops
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.reading.table import Node, axis_of, host, ints, means, number, tensor


@means("Slice")
def _(n: Node, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    begin, end = (n.attr("starts"), n.attr("ends")) if starts is None else (ints(starts), ints(ends))
    where = (n.attr("axes") if starts is None else None) if axes is None else ints(axes)
    where = list(range(len(begin))) if where is None else where
    by = [1] * len(begin) if steps is None else ints(steps)
    key: list[Any] = [slice(None)] * x.ndim
    for axis, a, b, step in zip(where, begin, end, by):
        axis = axis_of(axis, x)
        if any(isinstance(v, Tensor) for v in (a, b, step)):
            key[axis] = slice(a, b, step)
            continue
        size = x.shape[axis]
        if size < 0:
            key[axis] = slice(a, None if b > 2**31 else b, step)
            continue
        if step > 0:
            first, last = (min(max(v + size if v < 0 else v, 0), size) for v in (a, b))
            key[axis] = slice(first, max(last, first), step)
        else:
            first = min(max(a + size if a < 0 else a, 0), size - 1)
            last = min(max(b + size if b < 0 else b, -1), size - 1)
            key[axis] = slice(0, 0) if last >= first else slice(first, None if last < 0 else last, step)
    return x[tuple(key)]


def wrapped(index: Any, size: int) -> Any:
    """Indices counted from the front."""
    index = ops.cast(index, "int64")
    return ops.where(index < 0, index + size, index)


@means("Gather")
def _(n: Node, x: Any, index: Any) -> Any:
    axis = axis_of(n.attr("axis", 0), x)
    flat = ops.index_select(x, ops.reshape(wrapped(index, x.shape[axis]), [-1]), axis=axis)
    return ops.reshape(flat, [*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


@means("GatherElements")
def _(n: Node, x: Any, index: Any) -> Any:
    axis = axis_of(n.attr("axis", 0), x)
    return ops.take_along_axis(x, wrapped(index, x.shape[axis]), axis, False)


@means("GatherND")
def _(n: Node, x: Any, index: Any) -> Any:
    batch = n.attr("batch_dims", 0)
    index = ops.cast(index, "int64")
    depth = index.shape[-1]
    sizes = tensor(np.asarray(x.shape[batch : batch + depth], np.int64))
    index = ops.where(index < 0, index + sizes, index)
    if batch:  # places along the first axes come in front
        shape = index.shape
        grids = [
            ops.expand(
                ops.reshape(ops.arange(shape[i]), [-1 if j == i else 1 for j in range(len(shape))]), [*shape[:-1], 1]
            )
            for i in range(batch)
        ]
        index = ops.concat([*grids, index], axis=-1)
    return ops.gather_nd(x, index)


HOW = {"none": "assign", "add": "add", "mul": "mul", "max": "amax", "min": "amin"}


@means("Scatter", "ScatterElements")
def _(n: Node, x: Any, index: Any, updates: Any) -> Any:
    axis = axis_of(n.attr("axis", 0), x)
    how = HOW[n.attr("reduction", "none")]
    return ops.put_along_axis(x, wrapped(index, x.shape[axis]), updates, axis, how, True, False)


@means("ScatterND")
def _(n: Node, x: Any, index: Any, updates: Any) -> Any:
    return scatter_nd(x, index, updates, n.attr("reduction", "none"))


def scatter_nd(x: Any, index: Any, updates: Any, how: str) -> Any:
    """Parts of x replaced by, or combined with, others: on the flat tensor, by the places of all elements."""
    depth, shape = index.shape[-1], x.shape
    inner = int(np.prod(shape[depth:], dtype=np.int64))
    strides = [int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(depth)]
    at = ops.where(index < 0, index + tensor(np.asarray(shape[:depth], np.int64)), ops.cast(index, "int64"))
    flat = ops.reshape(ops.sum(at * tensor(np.asarray(strides, np.int64)), axis=-1), [-1, 1]) + ops.arange(inner)
    made = ops.put_along_axis(
        ops.reshape(x, [-1]), ops.reshape(flat, [-1]), ops.reshape(updates, [-1]), 0, HOW[how], True, False
    )
    return ops.reshape(made, shape)


@means("TensorScatter")
def _(n: Node, past: Any, update: Any, at: Any = None) -> Any:
    axis = axis_of(n.attr("axis", -2), past)
    count, size, length = past.shape[0], past.shape[axis], update.shape[axis]
    first = np.zeros(count, np.int64) if at is None else host(at).reshape(-1)
    places = first[:, None] + np.arange(length)
    places = places % size if n.attr("mode", "linear") == "circular" else places
    shape = [1] * past.ndim
    shape[0], shape[axis] = count, length
    index = np.broadcast_to(places.reshape(shape), update.shape)
    return ops.put_along_axis(past, tensor(np.ascontiguousarray(index)), update, axis, "assign", True, False)


@means("Compress")
def _(n: Node, x: Any, condition: Any) -> Any:
    axis = n.attr("axis")
    x = ops.reshape(x, [-1]) if axis is None else x
    at = np.flatnonzero(host(condition)).astype(np.int64)
    return ops.index_select(x, tensor(at), axis=0 if axis is None else axis_of(axis, x))


@means("ReverseSequence")
def _(n: Node, x: Any, lengths: Any) -> Any:
    time, batch = n.attr("time_axis", 0), n.attr("batch_axis", 1)
    steps = np.arange(x.shape[time])[:, None]
    ends = host(lengths)[None, :]
    at = np.where(steps < ends, ends - 1 - steps, steps)
    at = at if time < batch else at.T
    shape = [1] * x.ndim
    shape[time], shape[batch] = x.shape[time], x.shape[batch]
    index = np.broadcast_to(at.reshape(shape), x.shape)
    return ops.take_along_axis(x, tensor(np.ascontiguousarray(index).astype(np.int64)), time)


@means("NonMaxSuppression")
def _(n: Node, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None) -> Any:
    count = 0 if most is None else int(number(most))
    limit = 0.0 if overlap is None else number(overlap)
    floor = -np.inf if least is None else number(least)
    found: list[list[int]] = []
    given, points = host(boxes), host(scores)
    if n.attr("center_point_box", 0):
        center, half = given[..., :2], given[..., 2:] / 2
        corners = np.concatenate([center - half, center + half], -1)
    else:
        corners = np.concatenate(
            [np.minimum(given[..., :2], given[..., 2:]), np.maximum(given[..., :2], given[..., 2:])], -1
        )
    for i in range(points.shape[0]):
        for c in range(points.shape[1]):
            kept: list[int] = []
            for k in np.argsort(-points[i, c], kind="stable"):
                if len(kept) >= count or points[i, c, k] <= floor:
                    break
                if all(_overlap(corners[i, k], corners[i, j]) <= limit for j in kept):
                    kept.append(int(k))
            found += [[i, c, k] for k in kept]
    return tensor(np.asarray(found, np.int64).reshape(-1, 3))


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    inside = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0).prod()
    both = (a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - inside
    return float(inside / both) if both > 0 else 0.0


@means("ai.onnx.ml:ArrayFeatureExtractor")
def _(n: Node, x: Any, index: Any) -> Any:
    made = ops.index_select(x, ops.reshape(index, [-1]), axis=x.ndim - 1)
    return ops.reshape(made, [1, -1]) if x.ndim == 1 else made


@means("ai.onnx.ml:Binarizer")
def _(n: Node, x: Any) -> Any:
    return ops.cast(x > n.attr("threshold", 0.0), x.dtype)
