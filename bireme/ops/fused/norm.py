"""Normalisation with what comes before it, under the names of Paddle's fused kernels; division by the root of the mean square."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, float32, float64
from bireme.core.declare.conversion import one_axis
from bireme.core.declare.op import Ints, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.fused.matmul import quantised
from bireme.ops.nn.normalization import layer_norm_of
from bireme.ops.random.generators import dropout


def _wide(x):
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def _scaled(x, axes, epsilon):
    """x by the root of its mean square, and 1 by that root."""
    x = _wide(x)
    inv = 1 / jnp.sqrt(jnp.mean(x * x, axis=axes, keepdims=True) + epsilon.astype(x.dtype))
    return x * inv, inv


@op(dtypes=FLOAT, numpy=True, numbers={"epsilon": "float32"}, amp="high")
def rms_norm_of(x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: Tensor | float, axes: Ints) -> Tensor:
    """Divided by the root of the mean square over the last axes; use `fused_rms_norm`.

    >>> x, one = bireme.to_tensor([[3.0, 3.0]]), bireme.ones([2])
    >>> bireme.incubate.nn.functional.fused_rms_norm(x, one, None, 0.0)[0].tolist()
    [[1.0, 1.0]]
    """
    y, _ = _scaled(x, axes, epsilon)
    if weight is not None:
        y = y * _wide(weight)
    if bias is not None:
        y = y + _wide(bias)
    return y.astype(x.dtype)


rms_norm_of.infer(lambda x: x)


@rms_norm_of.grad(numpy=True)
def _(g, x, weight, bias, epsilon, axes):
    y, inv = _scaled(x, axes, epsilon)
    wide = _wide(g)
    d = wide if weight is None else wide * _wide(weight)
    grads = [((d - y * jnp.mean(d * y, axis=axes, keepdims=True)) * inv).astype(x.dtype)]
    front = tuple(range(x.ndim - len(axes)))
    if weight is not None:
        grads.append(jnp.sum(wide * y, axis=front).reshape(weight.shape).astype(weight.dtype))
    if bias is not None:
        grads.append(jnp.sum(wide, axis=front).reshape(bias.shape).astype(bias.dtype))
    return (*grads, None)


@op(dtypes=FLOAT, numpy=True, numbers={"epsilon": "float32"})
def row_statistics(x: Tensor, epsilon: Tensor | float, axes: Ints, centred: bool) -> list[Tensor]:
    """Mean of each row, and 1 by its deviation or by the root of its mean square; use `fused_layer_norm`.

    >>> x = bireme.to_tensor([[1.0, 3.0]])
    >>> bireme.incubate.nn.functional.fused_layer_norm(x, bireme.ones([2]), None, 0.0)[2].tolist()
    [2.0]
    """
    x = _wide(x)
    mean = jnp.mean(x, axis=axes, keepdims=True)
    d = x - mean if centred else x
    inv = 1 / jnp.sqrt(jnp.mean(d * d, axis=axes) + epsilon.astype(x.dtype))
    return [mean.reshape(-1), inv.reshape(-1)]


@row_statistics.infer
def _(x, axes):
    found = sig_of((math.prod(x.shape[: x.ndim - len(axes)]),), x.dtype if x.dtype is float64 else float32)
    return [found, found]


def _before(name: str, x: Tensor, axis: Any, bias: Tensor | None, residual: Tensor | None, alpha: float) -> tuple[Tensor, tuple, list[int]]:
    """What is normalised: bias + alpha * residual + x; the axes, and their extents."""
    if not x.ndim:
        raise errors.bad(f"{name}(x)", "a tensor with at least one axis", "a 0-d tensor")
    start = one_axis(axis, x.ndim, f"{name}(begin_norm_axis)")
    dims = x.shape[start:]
    if bias is not None:
        if bias._value.sig.size != math.prod(dims):
            raise errors.bad(f"{name}(bias)", f"{math.prod(dims)} elements", bias)
        bias = bias if bias.shape == dims else bias.reshape(dims)
        x = x + bias.astype(x.dtype)
    if residual is not None:
        if residual.shape != x.shape:
            raise errors.bad(f"{name}(residual)", f"shape {x.shape}, as x has", f"shape {residual.shape}")
        x = x + (residual if alpha == 1 else residual * alpha).astype(x.dtype)
    return x, tuple(range(start, x.ndim)), dims


def _shaped(name: str, which: str, t: Tensor | None, dims: list[int]) -> Tensor | None:
    if t is None:
        return None
    if t._value.sig.size != math.prod(dims):
        raise errors.bad(f"{name}({which})", f"{math.prod(dims)} elements", t)
    return t if t.shape == dims else t.reshape(dims)


@composite(plain=True, name_arg=False)
def fused_rms_norm(x: Tensor, norm_weight: Tensor | None, norm_bias: Tensor | None, epsilon: float, begin_norm_axis: int = 1,
                   bias: Tensor | None = None, residual: Tensor | None = None, quant_scale: float = -1, quant_round_type: int = 0,
                   quant_max_bound: float = 0, quant_min_bound: float = 0) -> tuple:  # fmt: skip
    """`bias + residual + x` by the root of its mean square from `begin_norm_axis` on, scaled and shifted; and that sum itself.

    >>> out, total = bireme.incubate.nn.functional.fused_rms_norm(bireme.to_tensor([[3.0, 3.0]]), bireme.ones([2]), None, 0.0)
    >>> out.tolist(), total.tolist()
    ([[1.0, 1.0]], [[3.0, 3.0]])
    """
    total, axes, dims = _before("fused_rms_norm", x, begin_norm_axis, bias, residual, 1.0)
    weight, shift = [_shaped("fused_rms_norm", n, t, dims) for n, t in (("norm_weight", norm_weight), ("norm_bias", norm_bias))]
    out = rms_norm_of(total, weight, shift, epsilon, axes)
    return quantised(out, quant_scale, quant_round_type, quant_max_bound, quant_min_bound), total


@composite(plain=True)
def fused_rms_norm_ext(x: Tensor, scale: Tensor, epsilon: float = 1e-05) -> tuple:
    """`x` by the root of the mean square of its last axis, times `scale`; and 1 by that root for each row.

    >>> [t.tolist() for t in bireme.incubate.nn.functional.fused_rms_norm_ext(bireme.to_tensor([[2.0, 2.0]]), bireme.ones([2]), 0.0)]
    [[[1.0, 1.0]], [0.5]]
    """
    _, axes, dims = _before("fused_rms_norm_ext", x, -1, None, None, 1.0)
    inverse = row_statistics(x, epsilon, axes, False)[1]
    out = rms_norm_of(x, _shaped("fused_rms_norm_ext", "scale", scale, dims), None, epsilon, axes)
    return out, inverse if x.ndim == 2 else inverse.reshape(x.shape[:-1])


@composite(plain=True, name_arg=False)
def fused_layer_norm(x: Tensor, norm_weight: Tensor | None, norm_bias: Tensor | None, epsilon: float, residual_alpha: float = 1.0,
                     begin_norm_axis: int = 1, bias: Tensor | None = None, residual: Tensor | None = None, quant_scale: float = -1,
                     quant_round_type: int = 0, quant_max_bound: float = 0, quant_min_bound: float = 0) -> tuple:  # fmt: skip
    """`bias + residual_alpha * residual + x` normalised from `begin_norm_axis` on, the sum itself, and means and 1 / deviations of its rows.

    Without a weight and a bias of the norm, nothing is normalised.

    >>> x = bireme.to_tensor([[1.0, 3.0]])
    >>> [t.tolist() for t in bireme.incubate.nn.functional.fused_layer_norm(x, bireme.ones([2]), None, 0.0)]
    [[[-1.0, 1.0]], [[1.0, 3.0]], [2.0], [1.0]]
    """
    total, axes, dims = _before("fused_layer_norm", x, begin_norm_axis, bias, residual, residual_alpha)
    weight, shift = [_shaped("fused_layer_norm", n, t, dims) for n, t in (("norm_weight", norm_weight), ("norm_bias", norm_bias))]
    out = total if weight is None and shift is None else layer_norm_of(total, weight, shift, epsilon, axes)
    return quantised(out, quant_scale, quant_round_type, quant_max_bound, quant_min_bound), total, *row_statistics(total, epsilon, axes, True)


def normed(name: str, x: Tensor, scale: Tensor | None, bias: Tensor | None, epsilon: float, scale_name: str, bias_name: str) -> Tensor:
    """Layer norm over the last axis, as the fused blocks end or begin."""
    dims = x.shape[-1:]
    return layer_norm_of(x, _shaped(name, scale_name, scale, dims), _shaped(name, bias_name, bias, dims), epsilon, (x.ndim - 1,))


@composite(plain=True)
def fused_bias_dropout_residual_layer_norm(x: Tensor, residual: Tensor, bias: Tensor | None = None, ln_scale: Tensor | None = None,
                                           ln_bias: Tensor | None = None, dropout_rate: float = 0.5, ln_epsilon: float = 1e-05,
                                           training: bool = True, mode: str = "upscale_in_train") -> Tensor:  # fmt: skip
    """`layer_norm(residual + dropout(bias + x))` over the last axis.

    >>> x = bireme.to_tensor([[1.0, 3.0]])
    >>> F = bireme.incubate.nn.functional
    >>> F.fused_bias_dropout_residual_layer_norm(x, bireme.zeros([1, 2]), dropout_rate=0.0, ln_epsilon=0.0).tolist()
    [[-1.0, 1.0]]
    """
    name = "fused_bias_dropout_residual_layer_norm"
    if not x.ndim or residual.shape != x.shape:
        raise errors.bad(f"{name}(residual)", f"shape {x.shape}, as x has", f"shape {residual.shape}")
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
