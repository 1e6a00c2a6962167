"""Meanings of nodes that change shapes or make tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bireme import ops
from bireme.core.program.variable import Variable
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.reading.file import array_of
from bireme.onnx.reading.narrow import value_of
from bireme.onnx.reading.table import Node, axis_of, dtype_of, host, ints, means, number, tensor


@means("Constant")
def _(n: Node) -> Any:
    for name in ("value_float", "value_int", "value_floats", "value_ints"):
        if n.attr(name) is not None:
            return tensor(n.attr(name), "float32" if "float" in name else "int64")
    if "sparse_value" in n.attributes:
        return tensor(dense(n.attributes["sparse_value"].sparse_tensor))
    if "value" not in n.attributes:
        raise n.bad("a constant of numbers", "another")
    return value_of(n.attributes["value"].t)


def dense(sparse: Any) -> np.ndarray:
    """A sparse tensor as an array; its size is checked against what it holds."""
    values, indices, dims = array_of(sparse.values), array_of(sparse.indices), list(sparse.dims)
    if any(d < 0 for d in dims) or math.prod(dims) > 2**31:
        raise ValueError("a sparse tensor of a size that cannot be held")
    found = np.zeros(dims, values.dtype)
    if indices.ndim == 1:
        found.reshape(-1)[indices] = values
    else:
        found[tuple(indices.T)] = values
    return found


@means("ConstantOfShape")
def _(n: Node, shape: Any) -> Any:
    value = n.attr("value")
    value = np.zeros(1, np.float32) if value is None else value
    return ops.full(ints(shape), value.reshape(-1)[0].item(), value.dtype.name)


@means("Shape")
def _(n: Node, x: Any) -> Any:
    start, end = n.attr("start", 0), n.attr("end")
    found = ops.cast(ops.shape_of(x), "int64")
    return [found] if start == 0 and end is None else found[slice(start, end)]


@means("Size")
def _(n: Node, x: Any) -> Any:
    if isinstance(x, Variable):
        return ops.prod(ops.cast(ops.shape_of(x), "int64"))
    return tensor(x.size, "int64")


@means("Reshape")
def _(n: Node, x: Any, shape: Any = None) -> Any:
    wanted = n.attr("shape") if shape is None else ints(shape)
    if n.attr("allowzero", 0):
        known = [m for m in wanted if not isinstance(m, Tensor)]
        if 0 in known:
            wanted = [0 if -1 in known and m == -1 else m for m in wanted]
            return ops.zeros(wanted, x.dtype)
        return ops.reshape(x, wanted)
    if any(not isinstance(m, Tensor) and m == 0 for m in wanted):
        wanted = [x.shape[i] if not isinstance(m, Tensor) and m == 0 else m for i, m in enumerate(wanted)]
        if 0 in wanted:
            rest = math.prod([m for m in wanted if m > 0])
            return ops.zeros([0 if m == -1 and rest else m for m in wanted], x.dtype)
    return ops.reshape(x, wanted)


@means("Flatten")
def _(n: Node, x: Any) -> Any:
    axis = n.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    rows = math.prod(x.shape[:axis])
    return ops.reshape(x, [rows, math.prod(x.shape[axis:])] if not isinstance(x, Variable) else [rows, -1])


@means("Transpose")
def _(n: Node, x: Any) -> Any:
    return ops.transpose(x, n.attr("perm") or list(range(x.ndim))[::-1])


@means("Squeeze")
def _(n: Node, x: Any, axes: Any = None) -> Any:
    found = n.attr("axes") if axes is None else ints(axes)
    return ops.squeeze(x, found)


@means("Unsqueeze")
def _(n: Node, x: Any, axes: Any = None) -> Any:
    found = n.attr("axes") if axes is None else ints(axes)
    for axis in sorted([a % (x.ndim + len(found)) for a in found]):
        x = ops.unsqueeze(x, axis)
    return [x]


@means("Concat")
def _(n: Node, *given: Any) -> Any:
    return ops.concat(list(given), axis=n.attr("axis", 1)) if len(given) > 1 else [given[0]]


@means("Split")
def _(n: Node, x: Any, split: Any = None) -> Any:
    axis = axis_of(n.attr("axis", 0), x)
    sizes = n.attr("split") if split is None else ints(split)
    if sizes is None:
        count = n.attr("num_outputs", n.count)
        each = -(-x.shape[axis] // count)
        sizes = [each] * (count - 1)
        sizes = [*sizes, x.shape[axis] - each * (count - 1)]
    return ops.split(x, sizes, axis=axis) if len(sizes) > 1 else [x]


@means("Expand")
def _(n: Node, x: Any, shape: Any) -> Any:
    wanted = ints(shape)
    if any(isinstance(m, Tensor) for m in wanted):
        return ops.expand(x, wanted)
    return ops.expand(x, list(np.broadcast_shapes(tuple(x.shape), tuple(wanted))))


@means("Tile")
def _(n: Node, x: Any, repeats: Any) -> Any:
    return ops.tile(x, ints(repeats))


@means("Range")
def _(n: Node, start: Any, limit: Any, delta: Any) -> Any:
    first, last, step = (host(v) for v in (start, limit, delta))
    count = max(math.ceil((last.item() - first.item()) / step.item()), 0)
    return ops.cast(ops.arange(count), start.dtype) * delta + start


@means("OneHot")
def _(n: Node, index: Any, depth: Any, values: Any) -> Any:
    count, axis = int(number(depth)), n.attr("axis", -1)
    axis = axis % (index.ndim + 1)
    at = ops.cast(index, "int64")
    at = ops.unsqueeze(ops.where(at < 0, at + count, at), axis)
    shape = [1] * (index.ndim + 1)
    shape[axis] = count
    hot = ops.equal(at, ops.reshape(ops.arange(count), shape))
    return ops.where(hot, values[1], values[0])


@means("EyeLike")
def _(n: Node, x: Any) -> Any:
    kind = x.dtype if n.attr("dtype") is None else dtype_of(n.attr("dtype"))
    rows, columns = x.shape
    return tensor(np.eye(rows, columns, n.attr("k", 0), kind.np))


@means("Trilu")
def _(n: Node, x: Any, k: Any = None) -> Any:
    cut = ops.triu if n.attr("upper", 1) else ops.tril
    return cut(x, 0 if k is None else int(number(k))) if x.size else [x]


@means("Pad")
def _(n: Node, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    widths = (n.attr("pads") or n.attr("paddings")) if pads is None else ints(pads)
    fill = n.attr("value", 0.0) if value is None else number(value)
    where = list(range(x.ndim)) if axes is None else [axis_of(a, x) for a in ints(axes)]
    low, high = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(where):
        low[axis], high[axis] = widths[i], widths[len(where) + i]
    return padded(x, low, high, n.attr("mode", "constant"), fill)


def padded(x: Any, low: list[int], high: list[int], mode: str = "constant", fill: Any = 0) -> Any:
    """Padded or cut on each side of each axis."""
    for axis, (a, b) in enumerate(zip(low, high)):
        if a < 0 or b < 0:
            x = ops.slice(x, [axis], [max(-a, 0)], [x.shape[axis] + min(b, 0)])
        a, b = max(a, 0), max(b, 0)
        if not a and not b:
            continue
        if mode == "constant":
            parts = [x]
            for width, place in ((a, 0), (b, 2)):
                if width:
                    shape = [width if i == axis else m for i, m in enumerate(x.shape)]
                    parts.insert(place, ops.full(shape, fill, x.dtype))
            x = ops.concat(parts, axis=axis)
            continue
        size = x.shape[axis]
        at = np.arange(-a, size + b)
        if mode == "edge":
            at = np.clip(at, 0, size - 1)
        elif mode == "wrap":
            at = at % size
        else:
            period = max(2 * (size - 1), 1)
            at = np.abs((at + (size - 1)) % period - (size - 1)) if size > 1 else at * 0
        x = ops.index_select(x, tensor(at.astype(np.int64)), axis=axis)
    return x


@means("CenterCropPad")
def _(n: Node, x: Any, shape: Any) -> Any:
    wanted = ints(shape)
    axes = n.attr("axes") or list(range(x.ndim))
    low, high = [0] * x.ndim, [0] * x.ndim
    for axis, m in zip([axis_of(a, x) for a in axes], wanted):
        more = m - x.shape[axis]
        if more >= 0:
            low[axis], high[axis] = more // 2, more - more // 2
        else:
            low[axis], high[axis] = -(-more // 2), more + (-more // 2)
    return padded(x, low, high)


@means("DepthToSpace")
def _(n: Node, x: Any) -> Any:
    b, (count, c, h, w) = n.attr("blocksize"), x.shape
    if n.attr("mode", "DCR") == "DCR":
        y = ops.transpose(ops.reshape(x, [count, b, b, c // (b * b), h, w]), [0, 3, 4, 1, 5, 2])
    else:
        y = ops.transpose(ops.reshape(x, [count, c // (b * b), b, b, h, w]), [0, 1, 4, 2, 5, 3])
    return ops.reshape(y, [count, c // (b * b), h * b, w * b])


@means("SpaceToDepth")
def _(n: Node, x: Any) -> Any:
    b, (count, c, h, w) = n.attr("blocksize"), x.shape
    if n.attr("mode", "DCR") == "DCR":
        y = ops.transpose(ops.reshape(x, [count, c, h // b, b, w // b, b]), [0, 3, 5, 1, 2, 4])
    else:
        y = ops.transpose(ops.reshape(x, [count, c, h // b, b, w // b, b]), [0, 1, 3, 5, 2, 4])
    return ops.reshape(y, [count, c * b * b, h // b, w // b])


def _drawn(n: Node, shape: Any, kind: Any, normal: bool) -> Any:
    seed = int(n.attr("seed", 0) or 0)
    if normal:
        made = ops.gaussian(shape, n.attr("mean", 0.0), n.attr("scale", 1.0), seed, "float32")
    else:
        made = ops.uniform(shape, "float32", n.attr("low", 0.0), n.attr("high", 1.0), seed)
    return ops.cast(made, kind)


@means("RandomNormal", "RandomUniform")
def _(n: Node) -> Any:
    return _drawn(n, n.attr("shape"), dtype_of(n.attr("dtype", 1)), n.proto.op_type == "RandomNormal")


@means("RandomNormalLike", "RandomUniformLike")
def _(n: Node, x: Any) -> Any:
    kind = x.dtype if n.attr("dtype") is None else dtype_of(n.attr("dtype"))
    return _drawn(n, x.shape, kind, n.proto.op_type == "RandomNormalLike")


@means("Bernoulli")
def _(n: Node, x: Any) -> Any:
    kind = x.dtype if n.attr("dtype") is None else dtype_of(n.attr("dtype"))
    return ops.cast(ops.bernoulli(ops.cast(x, "float32")), kind)


@means("Multinomial")
def _(n: Node, x: Any) -> Any:
    kind = dtype_of(n.attr("dtype", 6))
    return ops.cast(ops.multinomial(ops.softmax(x, -1), n.attr("sample_size", 1), True), kind)
