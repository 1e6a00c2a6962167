"""Linear maps whose weights are int8 or int4 while what they are applied to stays in floating point, and LLM.int8."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, DTypeLike
from bireme.core.base.machine import ARM
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.quantization.integer import as_floats, product_on_cpu
from bireme.ops.quantization.integer import product as integer_product
from bireme.ops.quantization.linear import width

ALGORITHMS = {"weight_only_int8": 8, "weight_only_int4": 4, "llm.int8": 8}
WIDTHS = {"int8": 8, "int4": 4}
FEW = 64 if ARM else 4  # rows for which a product of digits was measured to be faster than one of floats
DIGITS = 3  # of base 256: together as exact as float32


# ---------------------------------------------------------------- weights to integers and back


@op(internal="weight_quantize", differentiable=False, dtypes=FLOAT, numpy=True)
def quantize_weight(x: Tensor, bits: int, group_size: int, wide: bool) -> list[Tensor]:
    """Integers of a weight [k, n] as [n, k], two in a byte if they have 4 bits, and their scales; use
    `weight_quantize`.
    """
    k, n = x.shape
    groups = 1 if group_size < 0 else k // group_size
    parts = x.astype(np.float32).T.reshape(n, groups, k // groups)
    top = np.float32(2 ** (bits - 1) - 1)
    scale = jnp.max(jnp.abs(parts), axis=2, initial=0) / top
    steps = parts / jnp.where(scale == 0, np.float32(1), scale)[:, :, None]
    whole = jnp.clip(jnp.sign(steps) * jnp.floor(jnp.abs(steps) + np.float32(0.5)), -top, top)
    q = whole.astype(np.int8).reshape(n, k)
    if bits == 4:
        q = ((q[: n // 2] & 15) | (q[n // 2 :] << 4)).astype(np.int8)
    scale = scale[:, 0] if group_size < 0 else scale.T
    return [q, scale.astype(np.float32 if wide else x.dtype)]


@quantize_weight.infer
def _(x, bits, group_size, wide):
    k, n = x.shape
    scales = (n,) if group_size < 0 else (k // group_size, n)
    return [sig_of((n * bits // 8, k), dtypes.int8), sig_of(scales, dtypes.float32 if wide else x.dtype)]


def _unpacked(weight: Any, bits: int) -> Any:
    return weight if bits == 8 else jnp.concatenate([(weight << 4) >> 4, weight >> 4])


def _numbers(weight: Any, scale: Any, bits: int, kind: Any) -> Any:
    """The weight [n, k] of integers and scales."""
    q = _unpacked(weight, bits).astype(kind)
    if scale.ndim == 1:
        return q * scale.astype(kind)[:, None]
    n, k = q.shape
    return (q.reshape(n, scale.shape[0], -1) * scale.astype(kind).T[:, :, None]).reshape(n, k)


@op(internal="weight_dequantize", differentiable=False, numpy=True)
def dequantize_weight(x: Tensor, scale: Tensor, bits: int, dtype: Any) -> Tensor:
    """The weight [k, n] that `quantize_weight` quantized; use `weight_dequantize`."""
    return _numbers(x, scale, bits, np.float32).T.astype(dtypes.of(dtype).np)


dequantize_weight.infer(lambda x, bits, dtype: sig_of((x.shape[1], x.shape[0] * 8 // bits), dtypes.of(dtype)))


# ---------------------------------------------------------------- products


def _by_numbers(x: Any, weight: Any, scale: Any, bits: int) -> Any:
    kind = width(x)
    wide = x.astype(kind)
    if scale.ndim == 1:  # scaling the result takes less than scaling the weight
        return ((wide @ _unpacked(weight, bits).astype(kind).T) * scale.astype(kind)).astype(x.dtype)
    return (wide @ _numbers(weight, scale, bits, kind).T).astype(x.dtype)


@op(internal="weight_only_linear", dtypes=FLOAT, numpy=True)
def weight_only_product(x: Tensor, weight: Tensor, scale: Tensor, bits: int) -> Tensor:
    """x [..., k] times the transpose of a quantized weight [n, k]; use `weight_only_linear`."""
    return _by_numbers(x, weight, scale, bits)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _by_digits(x: Any, weight: Any, scale: Any, bits: int) -> Any:
    """The same for few rows: much of the time is that of reading the weight, and a product of floats would write it out as
    floats first. Each row is an integer of three digits times a scale, and the digits are rows of one product.
    """
    rows = math.prod(x.shape[:-1])
    wide = x.reshape(rows, -1).astype(np.float32)
    most = jnp.max(jnp.abs(wide), axis=1, keepdims=True)
    unit = jnp.where(most == 0, np.float32(1), most) / np.float32(2**22)
    rest = jnp.round(wide / unit).astype(np.int32)
    digits = []
    for _ in range(DIGITS):
        digit = ((rest + 128) & 255) - 128
        rest = (rest - digit) >> 8
        digits.append(digit.astype(np.int8))
    made = integer_product(jnp.concatenate(digits), _unpacked(weight, bits), 1).astype(np.float32)
    low, middle, high = jnp.split(made, DIGITS)
    out = ((high * np.float32(65536) + middle * np.float32(256)) + low) * unit * scale.astype(np.float32)
    return out.reshape(*x.shape[:-1], -1).astype(x.dtype)


def _kept(x: Any, weight: Any, scale: Any, bits: int) -> tuple[Any, tuple]:
    return _by_digits(x, weight, scale, bits), (x, weight, scale)


def _pulled(bits: int, kept: tuple, g: Any) -> tuple:
    # of the plain product: digits have no slope
    x, weight, scale = kept
    dx, dscale = jax.vjp(lambda x, scale: _by_numbers(x, weight, scale, bits), x, scale)[1](g)
    return dx, np.zeros(weight.shape, jax.dtypes.float0), dscale


_by_digits.defvjp(_kept, _pulled)


@weight_only_product.on("cpu")
def _(x, weight, scale, bits):
    if math.prod(x.shape[:-1]) > FEW or scale.ndim > 1 or x.dtype == np.float64 or not x.size:
        return _by_numbers(x, weight, scale, bits)
    return _by_digits(x, weight, scale, bits)


weight_only_product.infer(lambda x, weight, bits: sig_of((*x.shape[:-1], weight.shape[0] * 8 // bits), x.dtype))


def _split(x: Any, threshold: float, by: Any) -> tuple[Any, Any, Any, Any]:
    """Rows; which columns have outliers; the others as integers; and what one step of each row means."""
    kind = width(x)
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).astype(kind)
    far = by.max(by.abs(rows), axis=0, initial=0) > kind.type(threshold)
    near = by.where(far, kind.type(0), rows)
    unit = by.max(by.abs(near), axis=1, keepdims=True, initial=0) / kind.type(127)
    q = by.round(near / by.where(unit == 0, kind.type(1), unit)).astype(np.int8)
    return rows, far, q, unit


def _scaled(x: Any, rows: Any, scale: Any) -> Any:
    return (rows * scale.astype(rows.dtype)).reshape(*x.shape[:-1], scale.shape[0]).astype(x.dtype)


def _llm_numpy(x, weight, scale, threshold):
    rows, far, q, unit = _split(x, threshold, np)
    wide, other = as_floats(q, weight, q.shape[1])
    out = (wide @ other.T).astype(rows.dtype) * unit
    if far.any():
        out = out + rows[:, far] @ weight[:, far].astype(rows.dtype).T
    return _scaled(x, out, scale)


def _llm(x, weight, scale, threshold, product):
    rows, far, q, unit = _split(x, threshold, jnp)
    near = product(q, weight, 1).astype(rows.dtype) * unit
    outliers = lax.cond(
        jnp.any(far),
        lambda: jnp.where(far, rows, rows.dtype.type(0)) @ weight.astype(rows.dtype).T,
        lambda: jnp.zeros_like(near),
    )
    return _scaled(x, near + outliers, scale)


@op(internal="llm_int8_linear", dtypes=FLOAT, numpy=_llm_numpy)
def llm_int8_product(x: Tensor, weight: Tensor, scale: Tensor, threshold: float) -> Tensor:
    """x [..., k] in int8, but for columns with outliers, times the transpose of an int8 weight; use
    `llm_int8_linear`.
    """
    return _llm(x, weight, scale, threshold, integer_product)


llm_int8_product.on("cpu")(lambda x, weight, scale, threshold: _llm(x, weight, scale, threshold, product_on_cpu))
llm_int8_product.infer(lambda x, weight: sig_of((*x.shape[:-1], weight.shape[0]), x.dtype))


@llm_int8_product.grad(numpy=True)
def _(g, weight, scale):
    # straight through what was rounded; the weight and its scales are constants
    kind = width(g)
    return (g.astype(kind) @ _numbers(weight, scale, 8, kind)).astype(g.dtype), None, None


# ---------------------------------------------------------------- what users call


def _algorithm(where: str, algo: Any, table: dict[str, int] = ALGORITHMS) -> int:
    if algo not in table:
        raise errors.bad(where, f"one of {', '.join(map(repr, table))}", algo)
    return table[algo]


def _group(name: str, group_size: Any, k: int) -> int:
    if group_size == -1:
        return -1
    if isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 1 or k % group_size:
        raise errors.bad(f"{name}(group_size)", f"-1, or a positive factor of {k} rows", group_size)
    return group_size


@composite(public="nn.quant.weight_quantize", name_arg=False)
def weight_quantize(x: Tensor, algo: str = "weight_only_int8", arch: int | None = None,
                    group_size: int = -1) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Quantize the weight of a linear map to int8 or int4.

    Integers are symmetric, ties go away from zero. They are transposed, and two of 4 bits stand in a byte: those of the
    first half of the columns in the low bits, of the second in the high ones. The layouts that Paddle's CUDA kernels
    read, one for each architecture, do not exist here.

    Args:
        x: Weight of shape ``[k, n]``, of a floating-point dtype.
        algo: ``'weight_only_int8'``, ``'weight_only_int4'`` or ``'llm.int8'``. Default: ``'weight_only_int8'``.
        arch: Not used: there is one layout. Default: None.
        group_size: Number of elements of a column that share a scale, a factor of ``k``; -1 for whole columns. Default:
            -1.

    Returns:
        Tuple of the int8 tensor, of shape ``[n, k]``, or ``[n / 2, k]`` with 4 bits, and of the scales: ``[n]``, or
        ``[k / group_size, n]``; of the dtype of ``x``, with ``'llm.int8'`` float32.

    Raises:
        ValueError: If ``algo`` is not known, ``n`` is odd with 4 bits, or ``group_size`` does not divide ``k``.

    Examples:
        >>> q, scale = bireme.nn.quant.weight_quantize(bireme.to_tensor([[1.0, 2.0], [0.5, -1.0]]))
        >>> q.tolist()
        [[127, 64], [127, -64]]
    """
    bits = _algorithm("weight_quantize(algo)", algo)
    if x.ndim != 2:
        raise errors.bad("weight_quantize(x)", "a matrix", described=f"shape {x.shape}", kind=errors.ShapeError)
    if bits == 4 and x.shape[1] % 2:
        raise errors.bad(
            "weight_quantize(x)",
            "an even number of columns with 4 bits",
            described=f"shape {x.shape}",
            kind=errors.ShapeError,
        )
    group = -1 if algo == "llm.int8" else _group("weight_quantize", group_size, x.shape[0])
    q, scale = quantize_weight(x, bits, group, algo == "llm.int8")
    return q, scale


@composite(public="nn.quant.weight_dequantize", name_arg=False)
def weight_dequantize(x: Tensor, scale: Tensor, algo: str = "weight_only_int8", out_dtype: Attr[DTypeLike] = "float16",
                      group_size: int = -1) -> Tensor:  # fmt: skip
    """Return the weight that ``weight_quantize`` quantized, in a floating-point dtype.

    Args:
        x: What ``weight_quantize`` returned first.
        scale: What it returned second.
        algo: The ``algo`` that it was given. Default: ``'weight_only_int8'``.
        out_dtype: Data type of the result. Default: ``'float16'``.
        group_size: The ``group_size`` that it was given. Default: -1.

    Returns:
        Tensor of shape ``[k, n]``.

    Raises:
        ValueError: If the shape of ``scale`` does not fit.

    Examples:
        >>> q, scale = bireme.nn.quant.weight_quantize(bireme.to_tensor([[1.0, 2.0], [0.5, -1.0]]))
        >>> bireme.nn.quant.weight_dequantize(q, scale).tolist()
        [[1.0, 2.0], [0.50390625, -1.0078125]]
    """
    bits = _algorithm("weight_dequantize(algo)", algo)
    if dtypes.of(out_dtype).kind != "f":
        raise errors.bad(
            "weight_dequantize(out_dtype)", "a floating-point dtype", described=str(out_dtype), kind=errors.DtypeError
        )
    _check_quantized("weight_dequantize", "x", x, scale, bits, group_size)
    return dequantize_weight(x, scale, bits, out_dtype)


def _check_quantized(name: str, which: str, weight: Any, scale: Any, bits: int, group_size: int) -> None:
    if weight.ndim != 2 or weight.dtype.name != "int8":
        raise errors.bad(
            f"{name}({which})",
            "an int8 matrix, as weight_quantize returns",
            described=f"{weight.dtype.name}, shape {weight.shape}",
            kind=errors.ShapeError,
        )
    if scale.dtype.kind != "f":
        raise errors.bad(
            f"{name}({'scale' if which == 'x' else 'weight_scale'})",
            "a floating-point dtype",
            described=scale.dtype.name,
            kind=errors.DtypeError,
        )
    n, k = weight.shape[0] * 8 // bits, weight.shape[1]
    group = _group(name, group_size, k)
    wanted = [n] if group < 0 else [k // group, n]
    if scale.shape != wanted:
        raise errors.bad(
            f"{name}({'scale' if which == 'x' else 'weight_scale'})",
            f"shape {wanted}",
            described=f"shape {scale.shape}",
            kind=errors.ShapeError,
        )


def _check_columns(name: str, x: Any, weight: Any, bias: Any, bits: int) -> None:
    n = weight.shape[0] * 8 // bits
    if bias is not None and bias.shape != [n]:
        raise errors.bad(f"{name}(bias)", f"shape [{n}]", described=f"shape {bias.shape}", kind=errors.ShapeError)
    if not x.ndim or x.shape[-1] != weight.shape[1]:
        raise errors.bad(
            f"{name}(x)",
            f"{weight.shape[1]} features in the last dimension to match weight of shape {weight.shape}",
            described=f"shape {x.shape}",
            kind=errors.ShapeError,
        )


def _scale_of(name: str, scale: Any) -> Any:
    if scale is None:
        raise errors.bad(f"{name}(weight_scale)", "the scales that weight_quantize returned", None)
    return scale


@composite(public="nn.quant.weight_only_linear", name_arg=False)
def weight_only_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, weight_scale: Tensor | None = None,
                       weight_dtype: str = "int8", arch: int | None = None, group_size: int = -1) -> Tensor:  # fmt: skip
    """Linear map with a weight that ``weight_quantize`` quantized; ``x`` stays as it is.

    Args:
        x: Tensor of shape ``[..., k]``, of a floating-point dtype.
        weight: int8 tensor of shape ``[n, k]``, or ``[n / 2, k]`` with 4 bits.
        bias: Tensor of shape ``[n]`` that is added. Default: None.
        weight_scale: Scales of the weight: ``[n]``, or ``[k / group_size, n]``. They are required.
        weight_dtype: ``'int8'`` or ``'int4'``. Default: ``'int8'``.
        arch: Not used: there is one layout. Default: None.
        group_size: Number of elements that share a scale; -1 for one scale for each of the ``n``. Default: -1.

    Returns:
        Tensor of shape ``[..., n]`` and the dtype of ``x``. Gradients flow to ``x`` and ``bias``.

    Raises:
        ValueError: If shapes do not fit.

    Examples:
        >>> q, scale = bireme.nn.quant.weight_quantize(bireme.to_tensor([[1.0, 2.0], [1.0, -2.0]]))
        >>> bireme.nn.quant.weight_only_linear(bireme.to_tensor([[1.0, 3.0]]), q, None, scale).tolist()
        [[4.0, -4.0]]
    """
    bits = _algorithm("weight_only_linear(weight_dtype)", weight_dtype, WIDTHS)
    scale = _scale_of("weight_only_linear", weight_scale)
    _check_quantized("weight_only_linear", "weight", weight, scale, bits, group_size)
    _check_columns("weight_only_linear", x, weight, bias, bits)
    out = weight_only_product(x, weight, scale, bits)
    return out if bias is None else out + bias


@composite(public="nn.quant.llm_int8_linear", name_arg=False)
def llm_int8_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, weight_scale: Tensor | None = None,
                    threshold: float = 6.0) -> Tensor:  # fmt: skip
    """Linear map as in LLM.int8(): int8 by int8, but for the columns of ``x`` that have outliers.

    Each row of ``x`` is quantized by its own largest magnitude. Columns in which some magnitude is above ``threshold``
    are multiplied in floating point, and added.

    Args:
        x: Tensor of shape ``[..., k]``, of a floating-point dtype.
        weight: int8 tensor of shape ``[n, k]``, from ``weight_quantize`` with ``'llm.int8'``.
        bias: Tensor of shape ``[n]`` that is added. Default: None.
        weight_scale: Scales of the weight, of shape ``[n]``. They are required.
        threshold: Magnitude above which a number is an outlier. Default: 6.0.

    Returns:
        Tensor of shape ``[..., n]`` and the dtype of ``x``. Gradients flow to ``x`` as if it had not been quantized,
        and to ``bias``.

    Raises:
        ValueError: If shapes do not fit.

    Examples:
        >>> q, scale = bireme.nn.quant.weight_quantize(bireme.to_tensor([[1.0, 2.0], [1.0, -2.0]]), "llm.int8")
        >>> x = bireme.to_tensor([[1.0, 1000.0]])
        >>> bireme.nn.quant.llm_int8_linear(x, q, None, scale).round().tolist()
        [[1001.0, -1998.0]]
    """
    scale = _scale_of("llm_int8_linear", weight_scale)
    if math.isnan(threshold):
        raise errors.bad("llm_int8_linear(threshold)", "a number", threshold)
    _check_quantized("llm_int8_linear", "weight", weight, scale, 8, -1)
    _check_columns("llm_int8_linear", x, weight, bias, 8)
    out = llm_int8_product(x, weight, scale, threshold)
    return out if bias is None else out + bias
