"""Gather and scatter, by places in the flat operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.primitives.equations import PRIMITIVES, Equation, primitive
from bireme.onnx.writing.primitives.products import least
from bireme.onnx.writing.primitives.shapes import reshaped
from bireme.onnx.writing.table import Unwritten


def _mode(e: Equation) -> str:
    name = str(e["mode"]).upper()
    return "clip" if "CLIP" in name else "drop" if "FILL" in name or "DROP" in name else "inside"


def _places(w: Writer, e: Equation, shape: tuple, index: Val, index_shape: tuple, window: list[int], out: tuple,
            offsets: list[int], start_map: Any, batching: list[tuple[int, int]], gone: Any) -> tuple[Val, Val | None]:  # fmt: skip
    """The place in the flat operand of each element of windows, of shape `out`; and which of them lie inside.

    `window` has the size of a window by axis of the operand, `offsets` are the axes of `out` that count inside of
    windows, `gone` the axes of the operand that have none.
    """
    n, rank = len(shape), len(out)
    outer = [i for i in range(rank) if i not in offsets]
    index = index.to(dtypes.int64)
    start, inside = None, None
    for k, axis in enumerate(start_map):
        part = w("Gather", index, w.number(k, dtypes.int64), axis=len(index_shape) - 1)
        room = shape[axis] - window[axis]
        if _mode(e) == "drop":
            good = (part >= 0) & (part <= room)
            inside = good if inside is None else inside & good
        if _mode(e) != "inside":
            part = w("Max", w("Min", part, w.number(room, dtypes.int64)), w.number(0, dtypes.int64))
        part = part * math.prod(shape[axis + 1 :])
        start = part if start is None else start + part
    batch = index_shape[:-1]
    own = np.zeros(batch, np.int64)
    for axis, at in batching:
        own = own + np.arange(batch[at]).reshape([-1 if i == at else 1 for i in range(len(batch))]) * math.prod(
            shape[axis + 1 :]
        )
    start = w.constant(own) if start is None else start + w.constant(own)
    spread = [1] * rank
    for i, m in zip(outer, batch):
        spread[i] = m
    within = np.zeros([1] * rank, np.int64)
    for axis, at in zip([a for a in range(n) if a not in gone], offsets):
        steps = np.arange(out[at]) * math.prod(shape[axis + 1 :])
        within = within + steps.reshape([-1 if i == at else 1 for i in range(rank)])
    places = w("Expand", reshaped(w, start, spread) + w.constant(within), w.ints(out))
    return places, None if inside is None else w("Expand", reshaped(w, inside, spread), w.ints(out))


@primitive("gather")
def _(w: Writer, e: Equation) -> Val:
    d = e["dimension_numbers"]
    if 0 in e.out or 0 in e.shape:
        raise Unwritten
    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    batching = list(zip(d.operand_batching_dims, d.start_indices_batching_dims))
    places, inside = _places(w, e, e.shape, e.value(1), e.shapes[1], list(e["slice_sizes"]), e.out, list(d.offset_dims),
                             d.start_index_map, batching, gone)  # fmt: skip
    made = w("Gather", w.reshape(e.value(), [-1]), places, axis=0)
    if inside is None:
        return made
    fill = e["fill_value"]
    if fill is None:
        fill = math.nan if made.dtype.kind == "f" else False if made.dtype.kind == "b" else least(made.dtype)
    return w("Where", inside, made, w.number(fill, made.dtype))


def _scatter(how: str) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        d = e["dimension_numbers"]
        shape, out = e.shape, e.shapes[2]
        if 0 in shape:
            return e.value()
        if 0 in out:
            return e.value()
        gone = (*d.inserted_window_dims, *d.operand_batching_dims)
        sizes = iter([out[i] for i in d.update_window_dims])
        window = [1 if a in gone else next(sizes) for a in range(len(shape))]
        batching = list(zip(d.operand_batching_dims, d.scatter_indices_batching_dims))
        places, inside = _places(w, e, shape, e.value(1), e.shapes[1], window, out, list(d.update_window_dims),
                                 d.scatter_dims_to_operand_dims, batching, gone)  # fmt: skip
        x, n = w.reshape(e.value(), [-1]), math.prod(shape)
        if inside is not None:  # what lies outside goes to one more element, which is cut off
            places = w("Where", inside, places, w.number(n, dtypes.int64))
            x = w("Concat", x, w.constant(np.zeros(1, x.dtype.np)), axis=0)
        new = w.reshape(e.value(2), [-1])
        made = w("ScatterElements", x, w.reshape(places, [-1]), new, axis=0, reduction=how)
        if inside is not None:
            made = w.slice(made, [0], [0], [n])
        return reshaped(w, made, shape)

    return rule


PRIMITIVES.update({"scatter": _scatter("none"), "scatter-add": _scatter("add"), "scatter_add": _scatter("add"),
                   "scatter-mul": _scatter("mul"), "scatter_mul": _scatter("mul"), "scatter_max": _scatter("max"),
                   "scatter_min": _scatter("min"), "scatter-max": _scatter("max"), "scatter-min": _scatter("min")})  # fmt: skip
