"""Primitives that change shapes and places: slices, joins, paddings, constants."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.primitives.equations import Equation, as_value, primitive


@primitive("reshape")
def _(w: Writer, e: Equation) -> Val:
    return reshaped(w, e.value(), e.out)


def reshaped(w: Writer, x: Val, shape: Any) -> Val:
    return w("Reshape", x, w.ints(shape), allowzero=1) if 0 in tuple(shape) else w.reshape(x, shape)


@primitive("squeeze", "expand_dims")
def _(w: Writer, e: Equation) -> Val:
    return reshaped(w, e.value(), e.out)


@primitive("broadcast_in_dim")
def _(w: Writer, e: Equation) -> Val:
    shape = [1] * len(e.out)
    for i, d in enumerate(e["broadcast_dimensions"]):
        shape[d] = e.shape[i]
    return w("Expand", reshaped(w, e.value(), shape), w.ints(e.out))


@primitive("transpose")
def _(w: Writer, e: Equation) -> Val:
    return w.transpose(e.value(), e["permutation"])


@primitive("concatenate")
def _(w: Writer, e: Equation) -> Val:
    return w("Concat", *e.values, axis=e["dimension"])


@primitive("stack")
def _(w: Writer, e: Equation) -> Val:
    axis = e.params["axis"] if "axis" in e.params else e["dimension"]
    return w("Concat", *[w.unsqueeze(x, axis) for x in e.values], axis=axis)


@primitive("tile")
def _(w: Writer, e: Equation) -> Val:
    return w("Tile", e.value(), w.ints(e["reps"]))


@primitive("split")
def _(w: Writer, e: Equation) -> list[Val]:
    if len(e["sizes"]) == 1:
        return [e.value()]
    return w("Split", e.value(), w.ints(e["sizes"]), n=len(e["sizes"]), axis=e["axis"])


@primitive("slice")
def _(w: Writer, e: Equation) -> Val:
    n = len(e.shape)
    return (
        w.slice(e.value(), range(n), e["start_indices"], e["limit_indices"], e["strides"] or [1] * n)
        if n
        else e.value()
    )


def _starts(w: Writer, e: Equation, first: int, sizes: Any) -> Val:
    """Where a slice starts, so that it lies inside."""
    room = [n - m for n, m in zip(e.shape, sizes)]
    given = [w.reshape(as_value(w, x).to(dtypes.int64), [1]) for x in e.operands[first:]]
    at = w("Concat", *given, axis=0)
    at = w("Min", at, w.constant(np.asarray(room, np.int64)))
    return w("Max", at, w.constant(np.zeros(len(room), np.int64)))


@primitive("dynamic_slice")
def _(w: Writer, e: Equation) -> Val:
    sizes, n = e["slice_sizes"], len(e.shape)
    if not n:
        return e.value()
    at = _starts(w, e, 1, sizes)
    return w("Slice", e.value(), at, at + w.constant(np.asarray(sizes, np.int64)), w.ints(range(n)))


@primitive("dynamic_update_slice")
def _(w: Writer, e: Equation) -> Val:
    sizes, n = e.shapes[1], len(e.shape)
    if not n:
        return e.value(1)
    if 0 in sizes or 0 in e.shape:
        return e.value()
    at = _starts(w, e, 2, sizes)
    strides = np.asarray([math.prod(e.shape[i + 1 :]) for i in range(n)], np.int64)
    inside = sum([s * np.arange(m).reshape([-1 if j == i else 1 for j in range(n)])
                  for i, (s, m) in enumerate(zip(strides, sizes))])  # fmt: skip
    places = w.constant(np.asarray(inside, np.int64).reshape(-1)) + w.reduce("Sum", at * w.constant(strides), [0])
    flat = w("ScatterElements", w.reshape(e.value(), [-1]), places, w.reshape(e.value(1), [-1]), axis=0)
    return w.reshape(flat, e.shape)


@primitive("rev")
def _(w: Writer, e: Equation) -> Val:
    axes = list(e["dimensions"])
    if not axes:
        return e.value()
    return w.slice(e.value(), axes, [-1] * len(axes), [np.iinfo(np.int64).min] * len(axes), [-1] * len(axes))


@primitive("pad")
def _(w: Writer, e: Equation) -> Val:
    return padded(w, e.value(0), e.value(1), e.shape, e["padding_config"])


def padded(w: Writer, x: Val, fill: Val, shape: tuple, config: Any) -> Val:
    narrow = x.dtype if x.dtype is dtypes.bool_ else None
    if narrow:
        x, fill = x.to(dtypes.int32), fill.to(dtypes.int32)
    sizes = list(shape)
    for axis, (_, _, inner) in enumerate(config):
        if inner and sizes[axis] > 1:
            x = w.unsqueeze(x, axis + 1)
            pads = [0] * (2 * len(sizes) + 2)
            pads[len(sizes) + 1 + axis + 1] = inner
            x = w("Pad", x, w.ints(pads), fill)
            wide = sizes[axis] * (inner + 1)
            x = w.reshape(x, [*sizes[:axis], wide, *sizes[axis + 1 :]])
            sizes[axis] = wide - inner
            x = w.slice(x, [axis], [0], [sizes[axis]])
    low, high = [c[0] for c in config], [c[1] for c in config]
    if any(n > 0 for n in (*low, *high)):
        x = w("Pad", x, w.ints([max(n, 0) for n in low] + [max(n, 0) for n in high]), fill)
    cut = [i for i in range(len(sizes)) if low[i] < 0 or high[i] < 0]
    if cut:
        ends = [sizes[i] + max(low[i], 0) + builtins.min(high[i], 0) for i in cut]
        x = w.slice(x, cut, [max(-low[i], 0) for i in cut], ends)
    return x.to(narrow) if narrow else x
