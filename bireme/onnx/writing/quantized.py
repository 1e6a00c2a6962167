"""Converters of quantization: the operators mean what the nodes mean, so each is one node."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base.dtype import DType
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.neural import conv_window
from bireme.onnx.writing.table import Call, Unwritten, converts

BYTES = ("int8", "uint8")


def _scale(w: Writer, c: Call) -> Val:
    """Scales: one is a scalar. Scales of blocks came with later versions of ONNX than is written."""
    if c["block_size"]:
        raise Unwritten
    return _numbers(w, c["scale"], dtypes.float32, c["scale"].shape == [1])


def _numbers(w: Writer, x: Any, kind: DType, scalar: bool) -> Val:
    """Scales or zero points. What is known is a constant, which runtimes want to see in front of a product they fuse."""
    if not scalar:
        return w.value(x, kind)
    if getattr(x, "symbol", None) is None:
        return w.constant(x.numpy().reshape([]).astype(kind.np))
    return w.reshape(w.value(x, kind), [])


def _zero(w: Writer, c: Call, kind: DType) -> Val:
    """The zero point, which also says of which type the integers are."""
    shape = [] if c["scale"].shape in ([], [1]) else c["scale"].shape
    if c["zero_point"] is None:
        return w.constant(np.zeros(shape, kind.np))
    return _numbers(w, c["zero_point"], kind, not shape)


@converts("quantize_linear")
def _(w: Writer, c: Call) -> Val:
    if c.dtype.name not in BYTES:
        raise Unwritten
    made = w("QuantizeLinear", c.value("x", dtypes.float32), _scale(w, c), _zero(w, c, c.dtype), dtype=c.dtype,
             axis=c.axis() if c.ndim() else 0)  # fmt: skip
    bits = c["bits"]
    if bits is None or bits == 8:
        return made
    if c.dtype.name == "uint8":
        raise Unwritten
    ends = [w.number(n, c.dtype) for n in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)]
    return w("Clip", made, *ends)


@converts("dequantize_linear")
def _(w: Writer, c: Call) -> Val:
    kind = c["x"].dtype
    if kind.name not in (*BYTES, "int32") or (kind.name == "int32" and c["zero_point"] is not None):
        raise Unwritten
    zero = None if kind.name == "int32" else _zero(w, c, kind)
    axis = c.axis() if c.ndim() else 0
    return w("DequantizeLinear", c.value("x"), _scale(w, c), zero, dtype=dtypes.float32, axis=axis)


def _point(w: Writer, c: Call) -> Val | None:
    """The zero point of a product's input; runtimes know themselves what it adds to the sums."""
    return w.constant(np.array(c["zero_point"], np.int8)) if c["zero_point"] else None


@converts("matmul_integer")
def _(w: Writer, c: Call) -> Val:
    made = w("MatMulInteger", c.value("x"), c.value("y"), _point(w, c), dtype=dtypes.int32)
    if c.ndim("x") == 2:
        w.root.matrices.add(made.name)
    return made


@converts("conv2d_integer")
def _(w: Writer, c: Call) -> Val:
    at = conv_window(c)
    made = w("ConvInteger", at.given(w, c.value("x")), c.value("weight"), _point(w, c), dtype=dtypes.int32,
             group=c["groups"], **at.attributes())  # fmt: skip
    return at.back(w, made)
