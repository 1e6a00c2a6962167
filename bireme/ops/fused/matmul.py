"""Products, gates and dropouts with what comes after them, under the names of Paddle's fused kernels: the compiler does the fusing."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.linalg.matmul import matmul
from bireme.ops.math.elementwise import sigmoid
from bireme.ops.math.trigonometry import tanh
from bireme.ops.nn.activation import gelu, relu, silu, softmax_of
from bireme.ops.random.generators import dropout
from bireme.ops.reduction.reductions import mean, sum


def floating(where: str, x: Tensor) -> None:
    if x.dtype not in FLOAT:
        raise errors.bad(where, f"one of {', '.join(sorted(d.name for d in FLOAT))}", x.dtype.name, kind=errors.NoKernel)


# ---------------------------------------------------------------- products


@composite(plain=True)
def fused_matmul_bias(x: Tensor, y: Tensor, bias: Tensor | None = None, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
    """`x @ y + bias`, either of them transposed first if asked.

    >>> x, y = bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0, 4.0]])
    >>> bireme.incubate.nn.functional.fused_matmul_bias(x, y, bireme.to_tensor([0.5]), transpose_y=True).tolist()
    [[11.5]]
    """
    out = matmul(x, y, transpose_x, transpose_y)
    return out if bias is None else out + bias


@composite(plain=True)
def fused_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, transpose_weight: bool = False) -> Tensor:
    """`x @ weight + bias`; a weight of one row per output is transposed with `transpose_weight`.

    >>> bireme.incubate.nn.functional.fused_linear(bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0], [4.0]])).tolist()
    [[11.0]]
    """
    out = matmul(x, weight, False, transpose_weight)
    return out if bias is None else out + bias


@composite(plain=True, name_arg=False)
def fused_linear_activation(
    x: Tensor, y: Tensor, bias: Tensor, trans_x: bool = False, trans_y: bool = False, activation: str | None = None
) -> Tensor:
    """`x @ y + bias`, then relu, or gelu by its approximation with tanh, or nothing.

    >>> x, y = bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0, -3.0], [4.0, -4.0]])
    >>> bireme.incubate.nn.functional.fused_linear_activation(x, y, bireme.zeros([2]), activation="relu").tolist()
    [[11.0, 0.0]]
    """
    if activation not in (None, "none", "relu", "gelu"):
        raise errors.bad("fused_linear_activation(activation)", "None, 'none', 'relu' or 'gelu'", activation)
    floating("fused_linear_activation(x)", x)
    out = matmul(x, y, trans_x, trans_y) + bias
    return relu(out) if activation == "relu" else gelu(out, True) if activation == "gelu" else out


# ---------------------------------------------------------------- gates


def _sigmoid(x):
    return 1 / (1 + jnp.exp(-x))


def _wide(x):
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


@op(dtypes=FLOAT, promote="x y", mix="same", numpy=True)
def gated(x: Tensor, y: Tensor) -> Tensor:
    """`silu(x) * y`; use `swiglu`.

    >>> bireme.incubate.nn.functional.swiglu(bireme.to_tensor([0.0]), bireme.to_tensor([3.0])).tolist()
    [0.0]
    """
    wide = _wide(x)
    return (wide * _sigmoid(wide) * _wide(y)).astype(x.dtype)


gated.infer(lambda x: x)


@gated.check
def _(x, y):
    if x.shape != y.shape:
        raise errors.bad("swiglu(y)", f"shape {list(x.shape)}, as x has", f"shape {list(y.shape)}")


@gated.grad(numpy=True)
def _(g, x, y):
    wide, s = _wide(x), _sigmoid(_wide(x))
    slope = s * (1 + wide * (1 - s))
    return (_wide(g) * _wide(y) * slope).astype(x.dtype), (_wide(g) * wide * s).astype(x.dtype)


def halves(where: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """The two halves of the last axis."""
    if not x.ndim or x.shape[-1] % 2:
        raise errors.bad(where, "a last axis that can be halved", f"shape {x.shape}")
    n = x.shape[-1] // 2
    return x[..., :n], x[..., n:]


@composite(plain=True)
def swiglu(x: Tensor, y: Tensor | None = None) -> Tensor:
    """`silu(x) * y`; without `y`, the first half of the last axis gates the second.

    >>> bireme.incubate.nn.functional.swiglu(bireme.to_tensor([0.0, 3.0])).tolist()
    [0.0]
    """
    return gated(*halves("swiglu(x)", x)) if y is None else gated(x, y)


_ACTS: dict[str, Any] = {
    "gelu": gelu, "relu": relu, "silu": silu, "swish": silu, "sigmoid": sigmoid, "tanh": tanh, "none": lambda x: x, "": lambda x: x,
    "geglu": lambda x: gelu(halves("fused_bias_act(x)", x)[0]) * halves("fused_bias_act(x)", x)[1],
    "swiglu": lambda x: gated(*halves("fused_bias_act(x)", x)),
}  # fmt: skip


def activation_of(where: str, name: Any) -> Any:
    """An activation by the name that fused kernels give it."""
    if name not in _ACTS:
        raise errors.bad(where, f"one of {', '.join(n for n in _ACTS if n)}", name)
    return _ACTS[name]


# ---------------------------------------------------------------- quantisation of results

COMPUTE = {"default": None, "fp16": dtypes.float16, "bf16": dtypes.bfloat16, "fp32": dtypes.float32}
E4M3_MAX = 448.0


@op(differentiable=False, dtypes=FLOAT, numbers={"scale": "float32", "most": "float32", "least": "float32"}, numpy=True)
def to_bounds(x: Tensor, scale: Tensor | float, most: Tensor | float, least: Tensor | float, round_type: int, eighths: bool) -> Tensor:
    """`most * scale * x` rounded and cut off at the bounds, as int8 or float8; use the `quant_scale` of fused functions.

    >>> x = bireme.to_tensor([1.0, -9.0])
    >>> F = bireme.incubate.nn.functional
    >>> F.fused_bias_act(x, act_method="relu", quant_scale=0.5, quant_max_bound=127, quant_min_bound=-127).tolist()
    [64, 0]
    """
    q = _wide(x).astype(np.float32) * (most * scale)
    if eighths:
        return jnp.clip(q, least, most).astype(dtypes.float8_e4m3fn.np)
    # ties to even, or away from zero
    q = jnp.round(q) if round_type == 0 else jnp.sign(q) * jnp.floor(jnp.abs(q) + np.float32(0.5))
    return jnp.clip(q, least, most).astype(np.int8)


to_bounds.infer(lambda x, eighths: sig_of(x.shape, dtypes.float8_e4m3fn if eighths else dtypes.int8))


def quantised(x: Tensor, scale: Any, round_type: int, most: float, least: float) -> Tensor:
    """The result as a fused kernel hands it on: as it is, or quantised where there is a scale."""
    if scale is None or scale <= 0:
        return x
    return to_bounds(x, float(scale), float(most), float(least), int(round_type), abs(most - E4M3_MAX) < 1e-6)


def dequantised(where: str, x: Tensor, scales: Tensor | None, compute_dtype: Any) -> Tensor:
    """Integers times their scales in the type to compute in; numbers that are no integers as they are."""
    if compute_dtype not in COMPUTE:
        raise errors.bad(f"{where}(compute_dtype)", f"one of {', '.join(COMPUTE)}", compute_dtype)
    kind = COMPUTE[compute_dtype]
    if x.dtype.kind != "i":
        return x if scales is None else x * scales.astype(x.dtype)
    wide = x.astype(dtypes.float32)
    return (wide if scales is None else wide * scales.astype(dtypes.float32)).astype(kind or dtypes.float32)


@composite(plain=True, name_arg=False)
def fused_bias_act(x: Tensor, bias: Tensor | None = None, dequant_scales: Tensor | None = None, shift: Tensor | None = None,
                   smooth: Tensor | None = None, act_method: str = "gelu", compute_dtype: str = "default", quant_scale: float = -1,
                   quant_round_type: int = 0, quant_max_bound: float = 0, quant_min_bound: float = 0) -> Tensor:  # fmt: skip
    """An activation of `x + bias`; integers are dequantised before it, and the result shifted, smoothed and quantised after it if asked.

    >>> bireme.incubate.nn.functional.fused_bias_act(bireme.to_tensor([1.0, -2.0]), bireme.ones([2]), act_method="relu").tolist()
    [2.0, 0.0]
    """
    act = activation_of("fused_bias_act(act_method)", act_method)
    out = dequantised("fused_bias_act", x, dequant_scales, compute_dtype)
    out = act(out if bias is None else out + bias.astype(out.dtype))
    if shift is not None:
        out = out + shift.astype(out.dtype)
    if smooth is not None:
        out = out * smooth.astype(out.dtype)
    return quantised(out, quant_scale, quant_round_type, quant_max_bound, quant_min_bound)


# ---------------------------------------------------------------- dropout and softmax


@composite(plain=True)
def fused_dropout_add(x: Tensor, y: Tensor, p: Attr = 0.5, training: bool = True, mode: str = "upscale_in_train") -> Tensor:
    """`dropout(x) + y`.

    >>> bireme.incubate.nn.functional.fused_dropout_add(bireme.to_tensor([1.0]), bireme.to_tensor([2.0]), training=False).tolist()
    [3.0]
    """
    if not isinstance(p, (int, float, Tensor)):
        raise errors.bad("fused_dropout_add(p)", "a number", p, kind=TypeError)
    floating("fused_dropout_add(x)", x)
    return dropout(x, p, None, training, mode) + y


@composite(plain=True)
def softmax_mask_fuse(x: Tensor, mask: Tensor) -> Tensor:
    """`softmax(x + mask)` over the last axis, for scores [batch, heads, queries, keys] and a mask that is the same for all heads.

    >>> x, mask = bireme.zeros([1, 1, 1, 2]), bireme.to_tensor([[[[0.0, -1e9]]]])
    >>> bireme.incubate.softmax_mask_fuse(x, mask).tolist()
    [[[[1.0, 0.0]]]]
    """
    floating("softmax_mask_fuse(x)", x)
    if x.ndim != 4:
        raise errors.bad("softmax_mask_fuse(x)", "4 axes", f"shape {x.shape}")
    if mask.shape != [x.shape[0], 1, *x.shape[2:]]:
        raise errors.bad("softmax_mask_fuse(mask)", f"shape {[x.shape[0], 1, *x.shape[2:]]}", f"shape {mask.shape}")
    if x.dtype.itemsize == 2:  # added in float32, as the softmax is computed
        return softmax_of(x.astype(dtypes.float32) + mask.astype(dtypes.float32), 3).astype(x.dtype)
    return softmax_of(x + mask, 3)


def _triangular(x):
    """Softmax of each row of the lower triangle."""
    n = x.shape[-1]
    below = jnp.arange(n)[:, None] >= jnp.arange(n)[None, :]
    wide = jnp.where(below, _wide(x), jnp.asarray(-np.inf, _wide(x).dtype))
    if not x.size:
        return x
    e = jnp.exp(wide - jnp.max(wide, axis=-1, keepdims=True))
    return (e / jnp.sum(e, axis=-1, keepdims=True)).astype(x.dtype)


@op(dtypes=FLOAT, name_arg=False, numpy=True)
def softmax_mask_fuse_upper_triangle(x: Tensor) -> Tensor:
    """Softmax over the last axis of scores [batch, heads, n, n] with everything above the diagonal left out.

    >>> bireme.incubate.softmax_mask_fuse_upper_triangle(bireme.ones([1, 1, 2, 2])).tolist()
    [[[[1.0, 0.0], [0.5, 0.5]]]]
    """
    return _triangular(x)


softmax_mask_fuse_upper_triangle.infer(lambda x: x)


@softmax_mask_fuse_upper_triangle.check
def _(x):
    if x.ndim != 4 or x.shape[2] != x.shape[3]:
        raise errors.bad("softmax_mask_fuse_upper_triangle(x)", "shape [batch, heads, n, n]", f"shape {list(x.shape)}")


@softmax_mask_fuse_upper_triangle.grad(numpy=True)
def _(g, out):
    wide, g = _wide(out), _wide(g)  # out is 0 above the diagonal, and so is its gradient
    return (wide * (g - jnp.sum(g * wide, axis=-1, keepdims=True))).astype(out.dtype)


_REDUCTIONS = {"sum": 0, "mean": 1, "none": 2}


@composite(plain=True, name_arg=False)
def identity_loss(x: Tensor, reduction: Any = "none") -> Tensor:
    """The sum (0), the mean (1) or the elements (2) of a loss, where its backward starts.

    >>> bireme.incubate.identity_loss(bireme.to_tensor([1.0, 3.0]), "mean").item()
    2.0
    """
    how = _REDUCTIONS.get(reduction, reduction) if isinstance(reduction, str) else reduction
    if how not in (0, 1, 2):
        raise errors.bad("identity_loss(reduction)", "'sum', 'mean', 'none', or 0 to 2 for them", reduction)
    floating("identity_loss(x)", x)
    return sum(x) if how == 0 else mean(x) if how == 1 else x * 1.0
