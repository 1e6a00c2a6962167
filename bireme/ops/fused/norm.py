"""Normalization with what comes before it, under the names of Paddle's fused kernels; RMS normalization."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, float32, float64
from bireme.core.declare.conversion import one_axis
from bireme.core.declare.op import Ints, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.precision import widen
from bireme.ops.fused.matmul import quantised
from bireme.ops.nn.normalization import layer_norm_of
from bireme.ops.random.dropout import dropout


def _scaled(x, axes, epsilon):
    """x over the root of its mean square, and 1 over that root."""
    x = widen(x)
    inv = 1 / jnp.sqrt(jnp.mean(x * x, axis=axes, keepdims=True) + epsilon.astype(x.dtype))
    return x * inv, inv


@op(internal="rms_norm", dtypes=FLOAT, numpy=True, numbers={"epsilon": "float32"}, amp="high")
def rms_norm_of(x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: Tensor | float, axes: Ints) -> Tensor:
    """Divided by the root of the mean square over the last axes; use `fused_rms_norm`."""
    y, _ = _scaled(x, axes, epsilon)
    if weight is not None:
        y = y * widen(weight)
    if bias is not None:
        y = y + widen(bias)
    return y.astype(x.dtype)


rms_norm_of.infer(lambda x: x)


@rms_norm_of.grad(numpy=True)
def _(g, x, weight, bias, epsilon, axes):
    y, inv = _scaled(x, axes, epsilon)
    wide = widen(g)
    d = wide if weight is None else wide * widen(weight)
    grads = [((d - y * jnp.mean(d * y, axis=axes, keepdims=True)) * inv).astype(x.dtype)]
    front = tuple(range(x.ndim - len(axes)))
    if weight is not None:
        grads.append(jnp.sum(wide * y, axis=front).reshape(weight.shape).astype(weight.dtype))
    if bias is not None:
        grads.append(jnp.sum(wide, axis=front).reshape(bias.shape).astype(bias.dtype))
    return (*grads, None)


@op(internal=True, dtypes=FLOAT, numpy=True, numbers={"epsilon": "float32"})
def row_statistics(x: Tensor, epsilon: Tensor | float, axes: Ints, centred: bool) -> list[Tensor]:
    """Mean of each row, and 1 over its deviation or over the root of its mean square; use `fused_layer_norm`."""
    x = widen(x)
    mean = jnp.mean(x, axis=axes, keepdims=True)
    d = x - mean if centred else x
    inv = 1 / jnp.sqrt(jnp.mean(d * d, axis=axes) + epsilon.astype(x.dtype))
    return [mean.reshape(-1), inv.reshape(-1)]


@row_statistics.infer
def _(x, axes):
    found = sig_of((math.prod(x.shape[: x.ndim - len(axes)]),), x.dtype if x.dtype is float64 else float32)
    return [found, found]


def _before(
    name: str, x: Tensor, axis: Any, bias: Tensor | None, residual: Tensor | None, alpha: float
) -> tuple[Tensor, tuple, list[int]]:
    """What is normalized, bias + alpha * residual + x; the axes, and their sizes."""
    if not x.ndim:
        raise errors.bad(f"{name}(x)", "a tensor with at least 1 dimension", described="a 0-D tensor")
    start = one_axis(axis, x.ndim, f"{name}(begin_norm_axis)")
    dims = x.shape[start:]
    if bias is not None:
        if bias._value.sig.size != math.prod(dims):
            raise errors.bad(f"{name}(bias)", f"{math.prod(dims)} elements", bias)
        bias = bias if bias.shape == dims else bias.reshape(dims)
        x = x + bias.astype(x.dtype)
    if residual is not None:
        if residual.shape != x.shape:
            raise errors.bad(
                f"{name}(residual)",
                f"shape {x.shape}, as x has",
                described=f"shape {residual.shape}",
                kind=errors.ShapeError,
            )
        x = x + (residual if alpha == 1 else residual * alpha).astype(x.dtype)
    return x, tuple(range(start, x.ndim)), dims


def _shaped(name: str, which: str, t: Tensor | None, dims: list[int]) -> Tensor | None:
    if t is None:
        return None
    if t._value.sig.size != math.prod(dims):
        raise errors.bad(f"{name}({which})", f"{math.prod(dims)} elements", t)
    return t if t.shape == dims else t.reshape(dims)


@composite(plain=True, name_arg=False)
def fused_rms_norm(x: Tensor, norm_weight: Tensor | None, norm_bias: Tensor | None, epsilon: float,
                   begin_norm_axis: int = 1, bias: Tensor | None = None, residual: Tensor | None = None,
                   quant_scale: float = -1, quant_round_type: int = 0, quant_max_bound: float = 0,
                   quant_min_bound: float = 0) -> tuple[Tensor, Tensor]:  # fmt: skip
    """RMS normalization of ``bias + residual + x``, and that sum itself.

    The sum ``s`` becomes ``s / sqrt(mean(s ** 2) + epsilon) * norm_weight + norm_bias``.

    Args:
        x: Tensor of a floating-point dtype.
        norm_weight: Scales, one for each element of the axes that are normalized, or ``None``.
        norm_bias: Shifts, one for each element of the axes that are normalized, or ``None``.
        epsilon: Number added to the mean square.
        begin_norm_axis: First of the axes to normalize over; the others follow. Default: 1.
        bias: Tensor with one element for each of the axes that are normalized, which is added to ``x``. Default: None.
        residual: Tensor of the shape of ``x`` that is added. Default: None.
        quant_scale: If positive, the result is quantized: multiplied by ``quant_max_bound * quant_scale``, rounded,
            limited. Default: -1.
        quant_round_type: 0 rounds ties to even, anything else away from 0. Default: 0.
        quant_max_bound: Upper limit of quantized numbers; 448 quantizes to float8_e4m3fn, anything else to int8.
            Default: 0.
        quant_min_bound: Lower limit of quantized numbers. Default: 0.

    Returns:
        Pair of the normalized tensor, int8 or float8 if quantized, and the sum, both of the shape of ``x``.

    Examples:
        >>> x = bireme.to_tensor([[3.0, 3.0]])
        >>> out, total = bireme.incubate.nn.functional.fused_rms_norm(x, bireme.ones([2]), None, 0.0)
        >>> out.tolist(), total.tolist()
        ([[1.0, 1.0]], [[3.0, 3.0]])
    """
    total, axes, dims = _before("fused_rms_norm", x, begin_norm_axis, bias, residual, 1.0)
    weight, shift = [
        _shaped("fused_rms_norm", n, t, dims) for n, t in (("norm_weight", norm_weight), ("norm_bias", norm_bias))
    ]
    out = rms_norm_of(total, weight, shift, epsilon, axes)
    return quantised(out, quant_scale, quant_round_type, quant_max_bound, quant_min_bound), total


@composite(plain=True)
def fused_rms_norm_ext(x: Tensor, scale: Tensor, epsilon: float = 1e-05) -> tuple[Tensor, Tensor]:
    """RMS normalization over the last axis: ``x / sqrt(mean(x ** 2) + epsilon) * scale``.

    Args:
        x: Tensor of a floating-point dtype.
        scale: Factor of each element of the last axis.
        epsilon: Number added to the mean square. Default: 1e-05.

    Returns:
        Pair of the normalized tensor and ``1 / sqrt(mean(x ** 2) + epsilon)``, of the shape of ``x`` without its last
        axis.

    Examples:
        >>> x, scale = bireme.to_tensor([[2.0, 2.0]]), bireme.ones([2])
        >>> [t.tolist() for t in bireme.incubate.nn.functional.fused_rms_norm_ext(x, scale, 0.0)]
        [[[1.0, 1.0]], [0.5]]
    """
    _, axes, dims = _before("fused_rms_norm_ext", x, -1, None, None, 1.0)
    inverse = row_statistics(x, epsilon, axes, False)[1]
    out = rms_norm_of(x, _shaped("fused_rms_norm_ext", "scale", scale, dims), None, epsilon, axes)
    return out, inverse if x.ndim == 2 else inverse.reshape(x.shape[:-1])


@composite(plain=True, name_arg=False)
def fused_layer_norm(x: Tensor, norm_weight: Tensor | None, norm_bias: Tensor | None, epsilon: float,
                     residual_alpha: float = 1.0, begin_norm_axis: int = 1, bias: Tensor | None = None,
                     residual: Tensor | None = None, quant_scale: float = -1, quant_round_type: int = 0,
                     quant_max_bound: float = 0,
                     quant_min_bound: float = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Layer normalization of ``bias + residual_alpha * residual + x``, with that sum and its statistics.

    Without ``norm_weight`` and ``norm_bias`` nothing is normalized: the first result is the sum.

    Args:
        x: Tensor of a floating-point dtype.
        norm_weight: Scales, one for each element of the axes that are normalized, or ``None``.
        norm_bias: Shifts, one for each element of the axes that are normalized, or ``None``.
        epsilon: Number added to the variance.
        residual_alpha: Factor of ``residual``. Default: 1.0.
        begin_norm_axis: First of the axes to normalize over; the others follow. Default: 1.
        bias: Tensor with one element for each of the axes that are normalized, which is added to ``x``. Default: None.
        residual: Tensor of the shape of ``x`` that is added. Default: None.
        quant_scale: If positive, the result is quantized: multiplied by ``quant_max_bound * quant_scale``, rounded,
            limited. Default: -1.
        quant_round_type: 0 rounds ties to even, anything else away from 0. Default: 0.
        quant_max_bound: Upper limit of quantized numbers; 448 quantizes to float8_e4m3fn, anything else to int8.
            Default: 0.
        quant_min_bound: Lower limit of quantized numbers. Default: 0.

    Returns:
        Tuple of the normalized tensor, int8 or float8 if quantized; the sum; the mean of each row;
        ``1 / sqrt(variance + epsilon)`` of each row. The last two are 1-D, over the flattened leading axes.

    Examples:
        >>> x = bireme.to_tensor([[1.0, 3.0]])
        >>> [t.tolist() for t in bireme.incubate.nn.functional.fused_layer_norm(x, bireme.ones([2]), None, 0.0)]
        [[[-1.0, 1.0]], [[1.0, 3.0]], [2.0], [1.0]]
    """
    total, axes, dims = _before("fused_layer_norm", x, begin_norm_axis, bias, residual, residual_alpha)
    weight, shift = [
        _shaped("fused_layer_norm", n, t, dims) for n, t in (("norm_weight", norm_weight), ("norm_bias", norm_bias))
    ]
    out = total if weight is None and shift is None else layer_norm_of(total, weight, shift, epsilon, axes)
    return (
        quantised(out, quant_scale, quant_round_type, quant_max_bound, quant_min_bound),
        total,
        *row_statistics(total, epsilon, axes, True),
    )


def normed(
    name: str, x: Tensor, scale: Tensor | None, bias: Tensor | None, epsilon: float, scale_name: str, bias_name: str
) -> Tensor:
    """Layer norm over the last axis, as the fused blocks end or begin."""
    dims = x.shape[-1:]
    return layer_norm_of(
        x, _shaped(name, scale_name, scale, dims), _shaped(name, bias_name, bias, dims), epsilon, (x.ndim - 1,)
    )


@composite(plain=True)
def fused_bias_dropout_residual_layer_norm(
    x: Tensor,
    residual: Tensor,
    bias: Tensor | None = None,
    ln_scale: Tensor | None = None,
    ln_bias: Tensor | None = None,
    dropout_rate: float = 0.5,
    ln_epsilon: float = 1e-05,
    training: bool = True,
    mode: str = "upscale_in_train",
) -> Tensor:
    """Layer normalization after a residual: ``layer_norm(residual + dropout(bias + x))`` over the last axis.

    Args:
        x: Tensor of a floating-point dtype.
        residual: Tensor of the same shape.
        bias: Tensor with as many elements as the last axis has. Default: None.
        ln_scale: Scale of each element of the last axis; ``None`` means 1. Default: None.
        ln_bias: Shift of each element of the last axis; ``None`` means 0. Default: None.
        dropout_rate: Probability of dropping an element. Default: 0.5.
        ln_epsilon: Number added to the variance. Default: 1e-05.
        training: Whether to drop. Default: True.
        mode: ``'upscale_in_train'`` multiplies what is kept by ``1 / (1 - p)`` in training; ``'downscale_in_infer'``
            multiplies by ``1 - p`` outside of training instead. Default: ``'upscale_in_train'``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> x = bireme.to_tensor([[1.0, 3.0]])
        >>> F = bireme.incubate.nn.functional
        >>> F.fused_bias_dropout_residual_layer_norm(x, bireme.zeros([1, 2]), dropout_rate=0.0, ln_epsilon=0.0).tolist()
        [[-1.0, 1.0]]
    """
    name = "fused_bias_dropout_residual_layer_norm"
    if not x.ndim or residual.shape != x.shape:
        raise errors.bad(
            f"{name}(residual)",
            f"shape {x.shape}, as x has",
            described=f"shape {residual.shape}",
            kind=errors.ShapeError,
        )
    bias = _shaped(name, "bias", bias, x.shape[-1:])
    out = dropped(name, "dropout_rate", x if bias is None else x + bias.astype(x.dtype), dropout_rate, training, mode)
    return normed(name, residual + out, ln_scale, ln_bias, ln_epsilon, "ln_scale", "ln_bias")


def dropped(name: str, which: str, x: Tensor, p: float, training: bool, mode: str) -> Tensor:
    """Dropout with errors by the name of the function and its own argument."""
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise errors.bad(f"{name}(mode)", "'upscale_in_train' or 'downscale_in_infer'", mode)
    if not 0 <= p <= 1:
        raise errors.bad(f"{name}({which})", "a probability in [0, 1]", p)
    return dropout(x, p, None, training, mode)
