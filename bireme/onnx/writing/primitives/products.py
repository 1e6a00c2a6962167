"""Products, convolutions and windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base.dtype import DType
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.primitives.equations import PRIMITIVES, Equation, primitive
from bireme.onnx.writing.primitives.shapes import padded
from bireme.onnx.writing.table import Unwritten


@primitive("dot_general")
def _(w: Writer, e: Equation) -> Val:
    (over_x, over_y), (batch_x, batch_y) = e["dimension_numbers"]
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    x, y = [""] * len(e.shapes[0]), [""] * len(e.shapes[1])
    shared = [next(letters) for _ in batch_x]
    for i, j, s in zip(batch_x, batch_y, shared):
        x[i] = y[j] = s
    for i, j in zip(over_x, over_y):
        x[i] = y[j] = next(letters)
    own: tuple[list[str], list[str]] = [], []
    for side, labels in enumerate((x, y)):
        for i, s in enumerate(labels):
            if not s:
                labels[i] = next(letters)
                own[side].append(labels[i])
    out = "".join([*shared, *own[0], *own[1]])
    a, b = e.value(0, e.dtype), e.value(1, e.dtype)
    return w("Einsum", a, b, equation=f"{''.join(x)},{''.join(y)}->{out}")


@primitive("conv_general_dilated")
def _(w: Writer, e: Equation) -> Val:
    numbers = e["dimension_numbers"]
    if e["batch_group_count"] != 1:
        raise Unwritten
    x = w.transpose(e.value(0, e.dtype), numbers.lhs_spec)
    kernel = w.transpose(e.value(1, e.dtype), numbers.rhs_spec)
    shape = [e.shape[i] for i in numbers.lhs_spec]
    config = [(0, 0, 0), (0, 0, 0), *[(a, b, d - 1) for (a, b), d in zip(e["padding"], e["lhs_dilation"])]]
    if any(c != (0, 0, 0) for c in config):
        x = padded(w, x, w.number(0, x.dtype), tuple(shape), config)
    made = w("Conv", x, kernel, strides=list(e["window_strides"]), dilations=list(e["rhs_dilation"]),
             group=e["feature_group_count"])  # fmt: skip
    return w.transpose(made, list(np.argsort(numbers.out_spec)))


def _window(op: str) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        sizes, strides, padding = e["window_dimensions"], e["window_strides"], e["padding"]
        if any(d != 1 for d in e["base_dilation"]) or 0 in e.out or 0 in e.shape:
            raise Unwritten
        x = e.value()
        fill = {"Sum": 0, "Max": least(x.dtype), "Min": _most(x.dtype)}[op]
        if any(p != (0, 0) for p in padding):
            x = padded(w, x, w.number(fill, x.dtype), e.shape, [(a, b, 0) for a, b in padding])
        for axis, (k, s, d, o) in enumerate(zip(sizes, strides, e["window_dilation"], e.out)):
            if k == 1 and s == 1:
                continue
            at = np.arange(o)[:, None] * s + np.arange(k) * d
            x = w.reduce(op, w("Gather", x, w.constant(at), axis=axis), [axis + 1], keepdims=False)
        return x

    return rule


def least(dtype: DType) -> Any:
    return -math.inf if dtype.kind == "f" else np.iinfo(dtype.np).min


def _most(dtype: DType) -> Any:
    return math.inf if dtype.kind == "f" else np.iinfo(dtype.np).max


PRIMITIVES.update(
    {"reduce_window_sum": _window("Sum"), "reduce_window_max": _window("Max"), "reduce_window_min": _window("Min")}
)
