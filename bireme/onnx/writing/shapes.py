"""Converters of functions that make tensors, and that change shapes: reshape, join, split, repeat, pad."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.program.variable import Dim, VariableList
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.table import Call, Unwritten, converts, plain


@converts("reshape", "view")
def _(w: Writer, c: Call) -> Val:
    shape = c.arguments.get("shape", c.arguments.get("shape_or_dtype"))
    if not isinstance(shape, (list, tuple, Tensor)):
        raise Unwritten
    return w.reshape(c.value("x"), shape)


@converts("transpose")
def _(w: Writer, c: Call) -> Val:
    if c.ndim() < 2:
        return w("Identity", c.value("x"))
    perm = c.axes("perm")
    if perm is None or len(perm) != c.ndim():
        raise Unwritten
    return w.transpose(c.value("x"), perm) if perm != sorted(perm) else w("Identity", c.value("x"))


@converts("T", "mT")
def _(w: Writer, c: Call) -> Val:
    x = next(iter(c.arguments.values()))
    perm = list(range(x.ndim))
    perm = perm[::-1] if c.operation.type == "T" else [*perm[:-2], perm[-1], perm[-2]]
    return w.transpose(w.value(x), perm)


@converts("squeeze")
def _(w: Writer, c: Call) -> Val:
    x, axes = c["x"], c.axes()
    if axes is None or any(isinstance(n, Dim) for n in x.shape):
        raise Unwritten
    gone = [a for a in axes if x.shape[a] == 1] if x.ndim else []
    return w.squeeze(c.value("x"), *gone) if gone else w("Identity", c.value("x"))


@converts("unsqueeze")
def _(w: Writer, c: Call) -> Val:
    axes = plain(c["axis"])
    axes = [axes] if isinstance(axes, int) else axes
    if isinstance(axes, Tensor) or any(isinstance(a, Tensor) for a in axes) or len(axes) > 1:
        raise Unwritten  # several axes are added one after another
    return w.unsqueeze(c.value("x"), *axes)


@converts("flatten")
def _(w: Writer, c: Call) -> Val:
    n, x = c.ndim(), c.value("x")
    if not n:
        return w.reshape(x, [-1])
    start, stop = c["start_axis"] % n, c["stop_axis"] % n
    if c["stop_axis"] == c["start_axis"]:
        return w("Identity", x)
    sizes = c["x"].shape
    if any(not isinstance(m, Dim) and m == 0 for m in sizes):
        raise Unwritten
    return w.reshape(x, [*[0] * start, -1, *sizes[stop + 1 :]])


@converts("expand", "broadcast_to")
def _(w: Writer, c: Call) -> Val:
    shape = c["shape"]
    if isinstance(shape, (list, tuple)):  # -1 keeps a size, which Expand says by 1
        if any(isinstance(n, Tensor) for n in shape):
            raise Unwritten
        shape = [1 if not isinstance(n, Dim) and n == -1 else n for n in shape]
    return w("Expand", c.value("x"), w.ints(shape))


@converts("expand_as")
def _(w: Writer, c: Call) -> Val:
    return w("Expand", c.value("x"), w.shape(c.value("y")))


@converts("tile")
def _(w: Writer, c: Call) -> Val:
    times, n = c["repeat_times"], c.ndim()
    if isinstance(times, Tensor):
        times = plain(times)
    if isinstance(times, Tensor):
        raise Unwritten
    times = list(times) if isinstance(times, (list, tuple)) else [times]
    x = c.value("x")
    if len(times) > n:
        x = w.unsqueeze(x, *range(len(times) - n))
    return w("Tile", x, w.ints([1] * (n - len(times)) + times))


@converts("concat")
def _(w: Writer, c: Call) -> Val:
    tensors = c["x"]
    axis = plain(c["axis"])
    if isinstance(tensors, VariableList) and isinstance(axis, int):
        return _joined(w, tensors, axis, new_axis=False)
    if not isinstance(tensors, (list, tuple)) or not isinstance(axis, int) or not tensors[0].ndim:
        raise Unwritten
    values = [w.value(t, c.dtype) for t in tensors if t.ndim == c.makes[0].samples[0].sig.ndim]
    if len(values) != len(tensors):
        raise Unwritten
    return w("Concat", *values, axis=axis) if len(values) > 1 else w("Identity", values[0])


def _joined(w: Writer, tensors: VariableList, axis: int, new_axis: bool) -> Val:
    """The tensors of a list as one, along an axis."""
    x = w.value(tensors)
    return w("ConcatFromSequence", x, axis=axis, new_axis=int(new_axis), dtype=x.dtype.item)


@converts("stack")
def _(w: Writer, c: Call) -> Val:
    if isinstance(c["x"], VariableList):
        return _joined(w, c["x"], c["axis"], new_axis=True)
    if not isinstance(c["x"], (list, tuple)):
        raise Unwritten
    axis = c["axis"] % (c["x"][0].ndim + 1)
    return w("Concat", *[w.unsqueeze(w.value(t, c.dtype), axis) for t in c["x"]], axis=axis)


@converts("unbind", "unstack", "unbind_of")
def _(w: Writer, c: Call) -> list[Val]:
    x = next(iter(c.arguments.values()))
    axis, n = c["axis"] % x.ndim, len(c.makes)
    if n == 1:
        return [w.squeeze(w.value(x), axis)]
    return [w.squeeze(v, axis) for v in w("Split", w.value(x), w.ints([1] * n), n=n, axis=axis)]


@converts("split", "chunk", "split_sizes")
def _(w: Writer, c: Call) -> list[Val]:
    x, n = c["x"], len(c.makes)
    axis = plain(c["axis"]) % x.ndim
    sizes = [s.shape[axis] for s in c.makes]
    if any(isinstance(m, Dim) for m in sizes):
        total = x.shape[axis]
        given = c.arguments.get("num_or_sections", c.arguments.get("chunks", c.arguments.get("sizes")))
        if isinstance(given, int):
            sizes = [total // n] * n
        elif isinstance(given, (list, tuple)) and not any(isinstance(m, Tensor) for m in given):
            rest = total - sum([m for m in given if isinstance(m, Dim) or m != -1])
            sizes = [rest if not isinstance(m, Dim) and m == -1 else m for m in given]
        else:
            raise Unwritten
    if n == 1:
        return [w("Identity", c.value("x"))]
    return w("Split", c.value("x"), w.ints(sizes), n=n, axis=axis)


@converts("flip")
def _(w: Writer, c: Call) -> Val:
    x, axes = c.value("x"), c.axes()
    if axes is None or not c.ndim():
        raise Unwritten
    far = np.iinfo(np.int64).min
    return w.slice(x, axes, [-1] * len(axes), [far] * len(axes), [-1] * len(axes))


@converts("roll")
def _(w: Writer, c: Call) -> Val:
    axes, shifts = c.axes(), plain(c["shifts"])
    shifts = shifts if isinstance(shifts, (list, tuple)) else [shifts]
    if axes is None or any(isinstance(s, (Tensor, Dim)) for s in shifts):
        raise Unwritten
    x = c.value("x")
    for axis, by in zip(axes, shifts):
        n = c["x"].shape[axis]
        if not isinstance(n, Dim) and not n:
            continue
        by = by % n
        parts = [w.slice(x, [axis], [n - by], [np.iinfo(np.int64).max]), w.slice(x, [axis], [0], [n - by])]
        x = w("Concat", *parts, axis=axis)
    return w("Identity", x)


@converts("tril", "triu")
def _(w: Writer, c: Call) -> Val:
    if c["x"].dtype.name not in ("float32", "int64", "float64", "bool"):
        raise Unwritten
    return w("Trilu", c.value("x"), w.number(c.number("diagonal"), dtypes.int64), upper=int(c.operation.type == "triu"))


@converts("shape_of", "shape")
def _(w: Writer, c: Call) -> Val:
    return w.shape(c.value("input")).to(c.dtype)


@converts("size_of")
def _(w: Writer, c: Call) -> Val:
    return w.dim(c["n"]).to(c.dtype)


# ------------------------------------------------------------ tensors that are made


def _filled(w: Writer, value: Val, shape: Any) -> Val:
    return w("Expand", value, w.ints(shape))


@converts("full", "full_of")
def _(w: Writer, c: Call) -> Val:
    return _filled(w, w("Reshape", c.value("fill_value", c.dtype), w.ints([])), c["shape"])


@converts("zeros", "ones", "empty")
def _(w: Writer, c: Call) -> Val:
    return _filled(w, w.number(float(c.operation.type == "ones"), c.dtype), c["shape"])


@converts("full_like", "zeros_like", "ones_like", "empty_like")
def _(w: Writer, c: Call) -> Val:
    value = c["fill_value"] if "fill_value" in c.arguments else float(c.operation.type == "ones_like")
    return w("Expand", w.value(value, c.dtype), w.shape(w.value(next(iter(c.arguments.values())))))


@converts("arange", "range")
def _(w: Writer, c: Call) -> Val:
    start, end, step = c["start"], c["end"], c["step"]
    start, end = (0, start) if end is None else (start, end)
    kind = c.dtype if c.dtype.name in ("int32", "int64", "float32", "float64") else dtypes.float32
    return w("Range", *[w("Reshape", w.value(x, kind), w.ints([])) for x in (start, end, step)]).to(c.dtype)


@converts("one_hot")
def _(w: Writer, c: Call) -> Val:
    n = plain(c["num_classes"])
    if not isinstance(n, int) or n < 0 or not c.ndim():
        raise Unwritten
    x = c.value("x", dtypes.int64)
    return w("OneHot", x, w.number(n, dtypes.int64), w.constant(np.asarray([0, 1], c.dtype.np)), dtype=c.dtype)


@converts("eye")
def _(w: Writer, c: Call) -> Val:
    rows, columns = c["num_rows"], c["num_columns"]
    return w("EyeLike", _filled(w, w.number(0, c.dtype), [rows, rows if columns is None else columns]))


# ------------------------------------------------------------ padding


@converts("pad_of")
def _(w: Writer, c: Call) -> Val:
    widths = c["widths"]
    mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "edge": "edge"}.get(c["mode"])
    if mode is None or any(isinstance(n, Tensor) for pair in widths for n in pair):
        raise Unwritten
    pads = w.ints([low for low, _ in widths] + [high for _, high in widths])
    value = [c.value("value", c.dtype)] if mode == "constant" else []
    x = c.value("x", c.dtype)
    if c.dtype is dtypes.bool_:
        return w("Pad", x.to(dtypes.int32), pads, *[v.to(dtypes.int32) for v in value], mode=mode).to(dtypes.bool_)
    return w("Pad", x, pads, *value, mode=mode)
