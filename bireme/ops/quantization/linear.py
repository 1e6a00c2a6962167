"""Numbers as integers times a scale and back, with ONNX's meaning; the same in one step for training; packed int4."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Axis, DTypeArg, Tensor, op
from bireme.core.graph.graph import sig_of

RANGES = {"int8": 8, "uint8": 8, "int16": 16, "int32": 32}


def width(x: Any) -> np.dtype:
    """The type to compute in: float64 for itself, float32 for all else."""
    return np.dtype(np.float64 if x.dtype == np.float64 else np.float32)


def spread(t: Any, shape: tuple, axis: int, block_size: int) -> Any:
    """Scales or zero points in a shape that broadcasts against `shape`: one, one for each index of `axis`, or one for
    each block along it.
    """
    if t.size == 1:
        return t.reshape(())
    if t.ndim == 1:
        return t.reshape(*[-1 if i == axis else 1 for i in range(len(shape))])
    wide = t.repeat(block_size, axis) if isinstance(t, np.ndarray) else jnp.repeat(t, block_size, axis)
    return wide[tuple([slice(None)] * axis + [slice(shape[axis])])]


def check_scale(where: str, x: Any, t: Any, axis: int, block_size: int) -> None:
    if t is None or t.size == 1:
        return
    if block_size:
        wanted = [-(-n // block_size) if i == axis else n for i, n in enumerate(x.shape)]
    else:
        wanted = [x.shape[axis]]
    if list(t.shape) != wanted:
        raise errors.bad(
            where,
            f"one element, or shape {wanted} for axis {axis} of x of shape {list(x.shape)}",
            described=f"shape {list(t.shape)}",
            kind=errors.ShapeError,
        )


def _check(name: str, x: Any, scale: Any, zero_point: Any, axis: int, block_size: int) -> None:
    if block_size < 0:
        raise errors.bad(f"{name}(block_size)", "a non-negative integer", block_size)
    check_scale(f"{name}(scale)", x, scale, axis, block_size)
    check_scale(f"{name}(zero_point)", x, zero_point, axis, block_size)


@op(public="nn.quant.quantize_linear", differentiable=False, dtypes=FLOAT, numpy=True, name_arg=False)
def quantize_linear(x: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: Axis = 1, block_size: int = 0,
                    dtype: DTypeArg = "int8", bits: int | None = None) -> Tensor:  # fmt: skip
    """Integers of numbers: ``saturate(round(x / scale) + zero_point)``, ties to even, as ONNX's QuantizeLinear.

    Args:
        x: Tensor of a floating-point dtype.
        scale: What one step of the integers means: one element, a vector with one for each index of ``axis``, or, with
            ``block_size``, a tensor with one for each block along ``axis``.
        zero_point: Integer that means zero, in the shape of ``scale``. Default: None, 0.
        axis: Axis of the scales. Default: 1.
        block_size: Number of elements along ``axis`` that share a scale; 0 for no blocks. Default: 0.
        dtype: ``'int8'``, ``'uint8'``, ``'int16'`` or ``'int32'``. Default: ``'int8'``.
        bits: Width of the integers, at most that of ``dtype``, which holds them. Default: None, all of it.

    Returns:
        Tensor of ``dtype`` in the shape of ``x``.

    Raises:
        ValueError: If the shape of ``scale`` does not fit.

    Examples:
        >>> x = bireme.to_tensor([-3.0, 0.25, 0.75, 100.0])
        >>> bireme.nn.quant.quantize_linear(x, bireme.to_tensor(0.5), axis=0).tolist()
        [-6, 0, 2, 127]
    """
    low, high = limits(dtype, bits)
    kind = width(x)
    whole = jnp.round(x.astype(kind) / spread(scale.astype(kind), x.shape, axis, block_size))
    if zero_point is not None:
        whole = whole + spread(zero_point.astype(kind), x.shape, axis, block_size)
    # the largest float32 below 2 ** 31 is 127 less than it
    return jnp.clip(whole, low, min(high, 2**31 - 128)).astype(dtypes.of(dtype).np)


def limits(dtype: Any, bits: int | None) -> tuple[int, int]:
    """Least and largest integer."""
    name = dtypes.of(dtype).name
    n = RANGES[name] if bits is None else bits
    return (0, 2**n - 1) if name.startswith("u") else (-(2 ** (n - 1)), 2 ** (n - 1) - 1)


@quantize_linear.check
def _(x, scale, zero_point, axis, block_size, dtype, bits):
    name = dtypes.of(dtype).name
    if name not in RANGES:
        raise errors.bad(
            "quantize_linear(dtype)", f"one of {', '.join(RANGES)}", described=name, kind=errors.DtypeError
        )
    if bits is not None and not 2 <= bits <= RANGES[name]:
        raise errors.bad("quantize_linear(bits)", f"an integer in [2, {RANGES[name]}] for {name}", bits)
    _check("quantize_linear", x, scale, zero_point, axis, block_size)


quantize_linear.infer(lambda x, dtype: sig_of(x.shape, dtypes.of(dtype)))


@op(public="nn.quant.dequantize_linear", numpy=True, name_arg=False)
def dequantize_linear(x: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: Axis = 1,
                      block_size: int = 0) -> Tensor:  # fmt: skip
    """Numbers of integers: ``(x - zero_point) * scale``, as ONNX's DequantizeLinear.

    Args:
        x: Tensor of integers, or of integers in a floating-point dtype.
        scale: What one step of the integers means: one element, a vector with one for each index of ``axis``, or, with
            ``block_size``, a tensor with one for each block along ``axis``.
        zero_point: Integer that means zero, in the shape of ``scale``. Default: None, 0.
        axis: Axis of the scales. Default: 1.
        block_size: Number of elements along ``axis`` that share a scale; 0 for no blocks. Default: 0.

    Returns:
        Tensor of the dtype of ``scale`` in the shape of ``x``.

    Raises:
        ValueError: If the shape of ``scale`` does not fit.

    Examples:
        >>> x = bireme.to_tensor([-6, 0, 2, 127], dtype="int8")
        >>> bireme.nn.quant.dequantize_linear(x, bireme.to_tensor(0.5), axis=0).tolist()
        [-3.0, 0.0, 1.0, 63.5]
    """
    kind = width(scale)
    wide = x.astype(kind)
    if zero_point is not None:
        wide = wide - spread(zero_point.astype(kind), x.shape, axis, block_size)
    return (wide * spread(scale.astype(kind), x.shape, axis, block_size)).astype(scale.dtype)


@dequantize_linear.check
def _(x, scale, zero_point, axis, block_size):
    if scale.dtype not in FLOAT:
        raise errors.bad(
            "dequantize_linear(scale)", "a floating-point tensor", described=scale.dtype.name, kind=errors.DtypeError
        )
    _check("dequantize_linear", x, scale, zero_point, axis, block_size)


dequantize_linear.infer(lambda x, scale: sig_of(x.shape, scale.dtype))


@op(internal=True, dtypes=FLOAT, numpy=True)
def fake_quantize(x: Tensor, scale: Tensor, axis: int, bits: int, block_size: int) -> Tensor:
    """Numbers as integers of so many bits would give them; `scale` is the largest magnitude that they have.

    Ties go away from zero and both ends have the same magnitude, as in Paddle's training.
    """
    kind = width(x)
    top = kind.type(2 ** (bits - 1) - 1)
    most = jnp.maximum(spread(scale.astype(kind), x.shape, axis, block_size), kind.type(1e-30))
    steps = jnp.clip(x.astype(kind) / most, -1, 1) * top
    whole = jnp.sign(steps) * jnp.floor(jnp.abs(steps) + kind.type(0.5))
    return (whole * (most / top)).astype(x.dtype)


@fake_quantize.check
def _(x, scale, axis, block_size):
    check_scale("fake_quantize(scale)", x, scale, axis, block_size)


fake_quantize.infer(lambda x: x)


@fake_quantize.grad(numpy=True)
def _(g):
    # straight through, also where the number was clipped: as Paddle has it
    return g, None


# ---------------------------------------------------------------- two integers of 4 bits in a byte


@op(internal=True, differentiable=False, numpy=True)
def pack_int4(x: Tensor, axis: int) -> Tensor:
    """Two integers of 4 bits in a byte: the first half along an axis in the low bits, the second in the high ones."""
    low, high = jnp.split(x, 2, axis)
    return ((low & 15) | (high << 4)).astype(np.int8)


@pack_int4.check
def _(x, axis):
    if x.dtype.name != "int8" or x.shape[axis] % 2:
        raise errors.bad(
            "pack_int4(x)",
            f"an int8 tensor with an even size of axis {axis}",
            described=f"{x.dtype.name}, shape {list(x.shape)}",
            kind=errors.ShapeError,
        )


@op(internal=True, differentiable=False, numpy=True)
def unpack_int4(x: Tensor, axis: int) -> Tensor:
    """What `pack_int4` packed."""
    return jnp.concatenate([(x << 4) >> 4, x >> 4], axis)


@unpack_int4.check
def _(x):
    if x.dtype.name != "int8":
        raise errors.bad("unpack_int4(x)", "an int8 tensor", described=x.dtype.name, kind=errors.DtypeError)
