"""Converters of indexing: `x[...]` read and written, gather and scatter."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.program.variable import Dim
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.table import Call, Unwritten, converts, plain

FAR = int(np.iinfo(np.int64).max)
NEAR = int(np.iinfo(np.int64).min)


class _Index:
    """An index as steps: a slice of some axes, axes that go, axes that come, and one tensor that picks."""

    def __init__(self, ndim: int, key: Any):
        items = list(key) if isinstance(key, tuple) else [key]
        if any(isinstance(i, (list, np.ndarray, bool, np.bool_)) for i in items):
            raise Unwritten
        count = builtins.sum([i.ndim if _is_mask(i) else i is not None and i is not Ellipsis for i in items])
        at = next((n for n, i in enumerate(items) if i is Ellipsis), len(items))
        items = [*items[:at], *[slice(None)] * (ndim - count), *items[at + 1 :]]
        if any(i is Ellipsis for i in items):
            raise Unwritten
        self.axes: list[int] = []
        self.bounds: list[tuple[Any, Any, Any]] = []
        self.gone: list[int] = []
        self.picks: list[tuple[int, Any]] = []  # (axis of what is left after the slice, tensor)
        self.adds: list[int] = []
        axis = place = 0
        for item in items:
            if item is None:
                self.adds.append(place)
                place += 1
                continue
            if isinstance(item, slice):
                if any(end is not None for end in (item.start, item.stop, item.step)):
                    self.axes.append(axis)
                    self.bounds.append(_bounds(item))
                place += 1
            elif isinstance(item, Tensor) and not (item.ndim == 0 and item.dtype is dtypes.bool_):
                self.picks.append((place, item))
                place += 1
            elif isinstance(item, (int, np.integer)):
                self.axes.append(axis)
                item = item if isinstance(item, Dim) else int(item)
                self.bounds.append((item, FAR if not isinstance(item, Dim) and item == -1 else item + 1, 1))
                self.gone.append(axis)
            else:
                raise Unwritten
            axis += item.ndim if _is_mask(item) else 1

    def basic(self, w: Writer, x: Val) -> Val:
        if self.axes:
            x = w.slice(x, self.axes, *[[b[i] for b in self.bounds] for i in range(3)])
        if self.gone:
            x = w.squeeze(x, *self.gone)
        return w.unsqueeze(x, *self.adds) if self.adds else x


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dtype is dtypes.bool_


def _bounds(item: slice) -> tuple[Any, Any, Any]:
    start, stop, step = (plain(i) for i in (item.start, item.stop, item.step))
    step = 1 if step is None else step
    if isinstance(step, (Tensor, Dim)):
        raise Unwritten
    start = (0 if step > 0 else -1) if start is None else start
    stop = (FAR if step > 0 else NEAR) if stop is None else stop
    return start, stop, step


@converts("getitem")
def _(w: Writer, c: Call) -> Val:
    x, key = c["x"], c["index"]
    index = _Index(x.ndim, key)
    made = index.basic(w, w.value(x))
    if not index.picks:
        return w("Identity", made)
    if len(index.picks) > 1:
        return _several(w, made, index, x.ndim - len(index.gone) + len(index.adds))
    axis, item = index.picks[0]
    if not _is_mask(item):
        return w("Gather", made, w.value(item, dtypes.int64), axis=axis)
    if axis or index.adds:
        raise Unwritten
    return w("GatherND", made, w.transpose(w("NonZero", w.value(item), dtype=dtypes.int64), [1, 0]))


def _several(w: Writer, x: Val, index: _Index, ndim: int) -> Val:
    """Elements that several tensors pick together."""
    axes = [axis for axis, _ in index.picks]
    if any(_is_mask(t) for _, t in index.picks) or axes != list(range(axes[0], axes[0] + len(axes))):
        raise Unwritten
    if axes[0]:  # GatherND picks along the first axes
        raise Unwritten
    values = [w.value(t, dtypes.int64) for _, t in index.picks]
    shape = values[0]
    for v in values[1:]:
        shape = shape + v
    shape = w.shape(shape)
    return w("GatherND", x, w("Concat", *[w.unsqueeze(w("Expand", v, shape), -1) for v in values], axis=-1))


@converts("setitem")
def _(w: Writer, c: Call) -> Val:
    x, key, value = c["x"], c["index"], c["value"]
    v = w.value(x)
    new = w.value(value, v.dtype)
    if _is_mask(key) and key.ndim == x.ndim and not (isinstance(value, Tensor) and value.ndim):
        return w("Where", w.value(key), new, v)
    index = _Index(x.ndim, key)
    if index.picks:
        if len(index.picks) > 1 or index.picks[0][0] or index.adds or index.axes or _is_mask(index.picks[0][1]):
            raise Unwritten
        at = w.value(index.picks[0][1], dtypes.int64)
        part = w.shape(w("Gather", v, at, axis=0))
        return w("ScatterND", v, w.unsqueeze(at, -1), w("Expand", new, part))
    # the places of all elements, sliced as x is: where the new values go
    places = index.basic(w, w("Reshape", w("Range", w.number(0, dtypes.int64), w("Size", v, dtype=dtypes.int64),
                                           w.number(1, dtypes.int64)), w.shape(v)))  # fmt: skip
    parts = w.reshape(w("Expand", new, w.shape(places)), [-1])
    flat = w("ScatterElements", w.reshape(v, [-1]), w.reshape(places, [-1]), parts, axis=0)
    return w("Reshape", flat, w.shape(v))


@converts("slice", "strided_slice")
def _(w: Writer, c: Call) -> Val:
    x = next(iter(c.arguments.values()))
    strides = plain(c.arguments.get("strides"))
    if any(isinstance(i, Tensor) for i in (c["starts"], c["ends"])) or isinstance(strides, Tensor) or not x.ndim:
        raise Unwritten
    return w.slice(w.value(x), [a % x.ndim for a in plain(c["axes"])], c["starts"], c["ends"], strides)


@converts("index_select", "gather")
def _(w: Writer, c: Call) -> Val:
    axis = plain(c["axis"])
    if axis is not None and not isinstance(axis, int):
        raise Unwritten
    index = c.value("index", dtypes.int64)
    if c["index"].ndim == 2 and c["index"].shape[1] == 1:
        index = w.squeeze(index, 1)
    elif c["index"].ndim > 1:
        raise Unwritten
    return w("Gather", c.value("x"), index, axis=(axis or 0))


@converts("gather_nd_of")
def _(w: Writer, c: Call) -> Val:
    last = c["index"].shape[-1]
    if isinstance(last, Dim) or not last:
        raise Unwritten
    return w("GatherND", c.value("x"), c.value("index", dtypes.int64))


@converts("take_along_axis")
def _(w: Writer, c: Call) -> Val:
    x, indices, axis = c.value("arr"), c.value("indices", dtypes.int64), c.axis(of="arr")
    shapes = [list(t.shape) for t in (c["arr"], c["indices"])]
    if not c.ndim("arr") or len(shapes[0]) != len(shapes[1]):
        raise Unwritten
    same = all(a == b and not isinstance(a, Dim) for i, (a, b) in enumerate(zip(*shapes)) if i != axis)
    if c["broadcast"] and not same:
        sizes = [1 if i == axis else w.size(x, i) if isinstance(n, Dim) else n for i, n in enumerate(shapes[0])]
        indices = w("Expand", indices, w.ints(sizes))
    return w("GatherElements", x, indices, axis=axis)


@converts("put_along")
def _(w: Writer, c: Call) -> Val:
    how = {"assign": "none", "add": "add", "mul": "mul", "multiply": "mul", "amax": "max", "amin": "min"}.get(
        c["reduce"]
    )
    if how is None or not c["include_self"] or not c.ndim("arr"):
        raise Unwritten
    index, values = c.value("indices", dtypes.int64), c.value("values", c.dtype)
    return w("ScatterElements", c.value("arr", c.dtype), index, values, axis=c.axis(of="arr"), reduction=how)


@converts("scatter")
def _(w: Writer, c: Call) -> Val:
    if not c["overwrite"] or c["index"].ndim != 1:
        raise Unwritten
    index = w.unsqueeze(c.value("index", dtypes.int64), -1)
    return w("ScatterND", c.value("x"), index, c.value("updates", c.dtype))


@converts("scatter_nd_add")
def _(w: Writer, c: Call) -> Val:
    if not c.ndim("index") or not c["index"].shape[-1]:
        raise Unwritten
    return w("ScatterND", c.value("x"), c.value("index", dtypes.int64), c.value("updates", c.dtype), reduction="add")
