"""Meanings of nodes on quantized numbers: integers with a scale and a zero point."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from bireme import ops
from bireme.core.base import dtype as dtypes
from bireme.onnx.reading.elementwise import cast
from bireme.onnx.reading.narrow import KINDS, Narrow, narrowed
from bireme.onnx.reading.table import Node, axis_of, dtype_of, means
from bireme.onnx.reading.windows import conv


def _spread(n: Node, x: Any, scale: Any) -> Any:
    """A scale or zero point by the axis, or the blocks, that it belongs to."""
    if scale is None or not scale.ndim or (scale.ndim == 1 and scale.shape[0] == 1 and not n.attr("block_size", 0)):
        return scale if scale is None or not scale.ndim else ops.reshape(scale, [])
    axis, block = axis_of(n.attr("axis", 1), x), n.attr("block_size", 0)
    if scale.ndim == 1:
        return ops.reshape(scale, [-1 if i == axis else 1 for i in range(x.ndim)])
    if block:
        many = ops.repeat_interleave(scale, block, axis=axis)
        return ops.slice(many, [axis], [0], [x.shape[axis]])
    return scale


def limits(kind: Any) -> tuple[int, int]:
    info = np.iinfo(kind.np)
    return int(info.min), int(info.max)


def quantized(x: Any, scale: Any, zero: Any, kind: Any, saturate: bool = True) -> Any:
    """Numbers over a scale, rounded to even, beyond a zero point, and held within the type."""
    wide = ops.cast(x, "float32") / ops.cast(scale, "float32")
    if kind.kind == "f":
        return cast(wide if zero is None else wide + ops.cast(zero, "float32"), kind, saturate)
    made = ops.round(wide)
    made = made if zero is None else made + ops.cast(zero, "float32")
    low, high = limits(kind)
    return ops.cast(ops.clip(made, float(low), float(high)), kind)


@means("QuantizeLinear")
def _(n: Node, x: Any, scale: Any, zero: Any = None) -> Any:
    code = zero.code if isinstance(zero, Narrow) else n.attr("output_dtype", 0)
    point = _spread(n, x, zero.tensor if isinstance(zero, Narrow) else zero)
    scale, saturate = _spread(n, x, scale), bool(n.attr("saturate", 1))
    if code in KINDS:
        return _narrow(x, scale, point, code, saturate)
    kind = zero.dtype if zero is not None else dtype_of(code) if code else dtypes.uint8
    return quantized(x, scale, point, kind, saturate)


def _narrow(x: Any, scale: Any, zero: Any, code: int, saturate: bool) -> Narrow:
    kind = np.dtype(KINDS[code][0])
    wide = ops.cast(x, "float32") / ops.cast(scale, "float32")
    if KINDS[code][1] == "float32":
        return narrowed(wide if zero is None else wide + ops.cast(zero, "float32"), code, saturate)
    made = ops.round(wide)
    made = made if zero is None else made + ops.cast(zero, "float32")
    info = ml_dtypes.iinfo(kind)
    return narrowed(ops.clip(made, float(info.min), float(info.max)), code)


@means("DequantizeLinear")
def _(n: Node, x: Any, scale: Any, zero: Any = None) -> Any:
    x, zero = (v.tensor if isinstance(v, Narrow) else v for v in (x, zero))
    code = n.attr("output_dtype", 0)
    kind = dtype_of(code) if code else scale.dtype
    wide = ops.cast(x, "float32")
    wide = wide if zero is None else wide - ops.cast(_spread(n, x, zero), "float32")
    return ops.cast(wide * ops.cast(_spread(n, x, scale), "float32"), kind)


@means("DynamicQuantizeLinear")
def _(n: Node, x: Any) -> Any:
    zero = ops.zeros([], "float32")
    low, high = ops.minimum(ops.min(x), zero), ops.maximum(ops.max(x), zero)
    scale = (high - low) / 255.0
    safe = ops.where(ops.equal(scale, zero), ops.ones_like(scale), scale)
    point = ops.cast(ops.clip(ops.round(-low / safe), 0.0, 255.0), "uint8")
    return [quantized(x, safe, point, dtypes.uint8), scale, point]


def _moved(x: Any, zero: Any, rows: bool = False) -> Any:
    x = ops.cast(x, "int64")
    if zero is None:
        return x
    zero = ops.cast(zero, "int64")
    return x - (ops.unsqueeze(zero, -1) if rows and zero.ndim == 1 and zero.shape[0] > 1 else zero)


@means("MatMulInteger")
def _(n: Node, a: Any, b: Any, za: Any = None, zb: Any = None) -> Any:
    return ops.cast(ops.matmul(_moved(a, za, True), _moved(b, zb)), "int32")


@means("ConvInteger")
def _(n: Node, x: Any, w: Any, zx: Any = None, zw: Any = None) -> Any:
    # sums of products of bytes are exact in float64
    point = zw if zw is None or not zw.ndim else ops.reshape(zw, [-1, *[1] * (w.ndim - 1)])
    return ops.cast(conv(n, ops.cast(_moved(x, zx), "float64"), ops.cast(_moved(w, point), "float64")), "int32")


@means("QLinearMatMul")
def _(n: Node, a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sy: Any, zy: Any) -> Any:
    made = ops.cast(ops.matmul(_moved(a, za, True), _moved(b, zb)), "float32")
    scales = [ops.cast(s, "float32") for s in (sa, sb, sy)]
    return quantized(made * (scales[0] * scales[1]), scales[2], zy, zy.dtype)


@means("QLinearConv")
def _(n: Node, x: Any, sx: Any, zx: Any, w: Any, sw: Any, zw: Any, sy: Any, zy: Any, bias: Any = None) -> Any:
    shape = [-1] + [1] * (w.ndim - 1)
    kernel = ops.cast(w, "int64") - ops.reshape(ops.cast(zw, "int64"), shape if zw.ndim else [])
    made = conv(n, ops.cast(_moved(x, zx), "float64"), ops.cast(kernel, "float64"))
    if bias is not None:
        made = made + ops.cast(ops.reshape(bias, [-1, *[1] * (x.ndim - 2)]), "float64")
    scale = sx * (ops.reshape(sw, [-1, *[1] * (x.ndim - 2)]) if sw.ndim else sw)
    return quantized(ops.cast(made, "float32") * scale, sy, zy, zy.dtype)
