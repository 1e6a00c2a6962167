"""Products, gates and dropouts under the names of Paddle's fused kernels: the compiler does the fusing."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.precision import widen
from bireme.ops.linalg.matmul import matmul
from bireme.ops.math.elementwise import sigmoid
from bireme.ops.math.trigonometry import tanh
from bireme.ops.nn.activation import gelu, relu, silu_of, softmax_of
from bireme.ops.random.dropout import dropout
from bireme.ops.reduction.reductions import mean, sum


def floating(where: str, x: Tensor) -> None:
    if x.dtype not in FLOAT:
        raise errors.bad(
            where, f"one of {', '.join(sorted(d.name for d in FLOAT))}", described=x.dtype.name, kind=errors.DtypeError
        )


# ---------------------------------------------------------------- products


@composite(plain=True)
def fused_matmul_bias(
    x: Tensor, y: Tensor, bias: Tensor | None = None, transpose_x: bool = False, transpose_y: bool = False
) -> Tensor:
    """Matrix product and bias: ``x @ y + bias``.

    Args:
        x: Tensor of shape ``[..., M, K]``, or ``[..., K, M]`` with ``transpose_x``.
        y: Tensor of shape ``[..., K, N]``, or ``[..., N, K]`` with ``transpose_y``.
        bias: Tensor that is added; it broadcasts. Default: None.
        transpose_x: Whether to transpose the last two axes of ``x``. Default: False.
        transpose_y: Whether to transpose the last two axes of ``y``. Default: False.

    Returns:
        Tensor of shape ``[..., M, N]``.

    Examples:
        >>> x, y = bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0, 4.0]])
        >>> bireme.incubate.nn.functional.fused_matmul_bias(x, y, bireme.to_tensor([0.5]), transpose_y=True).tolist()
        [[11.5]]
    """
    out = matmul(x, y, transpose_x, transpose_y)
    return out if bias is None else out + bias


@composite(plain=True, hands={"y": "weight", "transpose_y": "transpose_weight"})
def fused_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, transpose_weight: bool = False) -> Tensor:
    """Linear map of the last axis: ``x @ weight + bias``.

    Args:
        x: Tensor of shape ``[..., in_features]``.
        weight: Tensor of shape ``[in_features, out_features]``, or the other way round with ``transpose_weight``.
        bias: Tensor of shape ``[out_features]`` that is added. Default: None.
        transpose_weight: Whether ``weight`` has one row for each output. Default: False.

    Returns:
        Tensor of shape ``[..., out_features]``.

    Examples:
        >>> x, weight = bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0], [4.0]])
        >>> bireme.incubate.nn.functional.fused_linear(x, weight).tolist()
        [[11.0]]
    """
    out = matmul(x, weight, False, transpose_weight)
    return out if bias is None else out + bias


@composite(plain=True, name_arg=False)
def fused_linear_activation(
    x: Tensor, y: Tensor, bias: Tensor, trans_x: bool = False, trans_y: bool = False, activation: str | None = None
) -> Tensor:
    """Matrix product, bias and activation: ``act(x @ y + bias)``.

    Args:
        x: Tensor of shape ``[..., M, K]``, of a floating-point dtype.
        y: Tensor of shape ``[..., K, N]``.
        bias: Tensor that is added; it broadcasts.
        trans_x: Whether to transpose the last two axes of ``x``. Default: False.
        trans_y: Whether to transpose the last two axes of ``y``. Default: False.
        activation: ``'relu'``, ``'gelu'`` (by its approximation with tanh), ``'none'`` or ``None``. Default: None.

    Returns:
        Tensor of shape ``[..., M, N]``.

    Examples:
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


@op(internal=True, dtypes=FLOAT, promote="x y", mix="same", numpy=True)
def gated(x: Tensor, y: Tensor) -> Tensor:
    """`silu(x) * y`; use `swiglu`."""
    wide = widen(x)
    return (wide * _sigmoid(wide) * widen(y)).astype(x.dtype)


gated.infer(lambda x: x)


@gated.check
def _(x, y):
    if x.shape != y.shape:
        raise errors.bad(
            "swiglu(y)", f"shape {list(x.shape)}, as x has", described=f"shape {list(y.shape)}", kind=errors.ShapeError
        )


@gated.grad(numpy=True)
def _(g, x, y):
    wide, s = widen(x), _sigmoid(widen(x))
    slope = s * (1 + wide * (1 - s))
    return (widen(g) * widen(y) * slope).astype(x.dtype), (widen(g) * wide * s).astype(x.dtype)


def halves(where: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """The two halves of the last axis."""
    if not x.ndim or x.shape[-1] % 2:
        raise errors.bad(where, "a last dimension of even size", described=f"shape {x.shape}", kind=errors.ShapeError)
    n = x.shape[-1] // 2
    return x[..., :n], x[..., n:]


@composite(plain=True)
def swiglu(x: Tensor, y: Tensor | None = None) -> Tensor:
    """Gate with the sigmoid linear unit: ``silu(x) * y``.

    Args:
        x: Tensor of a floating-point dtype; with an even size of the last axis if ``y`` is ``None``.
        y: Tensor of the same shape; ``None`` means the first half of the last axis of ``x`` gates the second.
            Default: None.

    Returns:
        Tensor of the shape of ``x``, or with half the size of the last axis.

    Examples:
        >>> round(bireme.incubate.nn.functional.swiglu(bireme.to_tensor([1.0, 3.0])).item(), 4)
        2.1932
    """
    return gated(*halves("swiglu(x)", x)) if y is None else gated(x, y)


_ACTS: dict[str, Any] = {
    "gelu": gelu,
    "relu": relu,
    "silu": silu_of,
    "swish": silu_of,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "none": lambda x: x,
    "": lambda x: x,
    "geglu": lambda x: gelu(halves("fused_bias_act(x)", x)[0]) * halves("fused_bias_act(x)", x)[1],
    "swiglu": lambda x: gated(*halves("fused_bias_act(x)", x)),
}


def activation_of(where: str, name: Any) -> Any:
    """An activation by the name that fused kernels give it."""
    if name not in _ACTS:
        raise errors.bad(where, f"one of {', '.join(repr(n) for n in _ACTS if n)}", name)
    return _ACTS[name]


# ---------------------------------------------------------------- quantization of results

COMPUTE = {"default": None, "fp16": dtypes.float16, "bf16": dtypes.bfloat16, "fp32": dtypes.float32}
E4M3_MAX = 448.0


@op(internal=True, differentiable=False, dtypes=FLOAT,
    numbers={"scale": "float32", "most": "float32", "least": "float32"}, numpy=True)  # fmt: skip
def to_bounds(
    x: Tensor, scale: Tensor | float, most: Tensor | float, least: Tensor | float, round_type: int, eighths: bool
) -> Tensor:
    """`most * scale * x` rounded and limited to the bounds, as int8 or float8."""
    q = widen(x).astype(np.float32) * (most * scale)
    if eighths:
        return jnp.clip(q, least, most).astype(dtypes.float8_e4m3fn.np)
    # ties to even, or away from zero
    q = jnp.round(q) if round_type == 0 else jnp.sign(q) * jnp.floor(jnp.abs(q) + np.float32(0.5))
    return jnp.clip(q, least, most).astype(np.int8)


to_bounds.infer(lambda x, eighths: sig_of(x.shape, dtypes.float8_e4m3fn if eighths else dtypes.int8))


def quantised(x: Tensor, scale: Any, round_type: int, most: float, least: float) -> Tensor:
    """The result of a fused kernel: as it is, or quantized where there is a scale."""
    if scale is None or scale <= 0:
        return x
    return to_bounds(x, float(scale), float(most), float(least), int(round_type), abs(most - E4M3_MAX) < 1e-6)


def dequantised(where: str, x: Tensor, scales: Tensor | None, compute_dtype: Any) -> Tensor:
    """Integers times their scales in the dtype to compute in; floating-point numbers in their own."""
    if compute_dtype not in COMPUTE:
        raise errors.bad(f"{where}(compute_dtype)", f"one of {', '.join(map(repr, COMPUTE))}", compute_dtype)
    kind = COMPUTE[compute_dtype]
    if x.dtype.kind != "i":
        return x if scales is None else x * scales.astype(x.dtype)
    wide = x.astype(dtypes.float32)
    return (wide if scales is None else wide * scales.astype(dtypes.float32)).astype(kind or dtypes.float32)


@composite(plain=True, name_arg=False)
def fused_bias_act(
    x: Tensor,
    bias: Tensor | None = None,
    dequant_scales: Tensor | None = None,
    shift: Tensor | None = None,
    smooth: Tensor | None = None,
    act_method: str = "gelu",
    compute_dtype: str = "default",
    quant_scale: float = -1,
    quant_round_type: int = 0,
    quant_max_bound: float = 0,
    quant_min_bound: float = 0,
) -> Tensor:
    """Activation of ``x + bias``, with dequantization before it and quantization after it if asked for.

    The result is shifted, then smoothed, then quantized.

    Args:
        x: Tensor of a floating-point dtype, or of integers that are dequantized.
        bias: Tensor that is added; it broadcasts. Default: None.
        dequant_scales: Factors of ``x`` before the bias. Default: None.
        shift: Tensor that is added to the activation. Default: None.
        smooth: Tensor that the activation is multiplied by. Default: None.
        act_method: ``'gelu'``, ``'relu'``, ``'silu'`` or ``'swish'``, ``'sigmoid'``, ``'tanh'``, ``'none'``, or
            ``'geglu'`` or ``'swiglu'``, which gate the second half of the last axis by the first. Default: ``'gelu'``.
        compute_dtype: Data type that integers are dequantized to: ``'default'`` or ``'fp32'`` for float32, ``'fp16'``
            or ``'bf16'``. Default: ``'default'``.
        quant_scale: If positive, the result is quantized: multiplied by ``quant_max_bound * quant_scale``, rounded,
            limited. Default: -1.
        quant_round_type: 0 rounds ties to even, anything else away from 0. Default: 0.
        quant_max_bound: Upper limit of quantized numbers; 448 quantizes to float8_e4m3fn, anything else to int8.
            Default: 0.
        quant_min_bound: Lower limit of quantized numbers. Default: 0.

    Returns:
        Tensor of the shape of ``x``, or with half the size of the last axis for gates; int8 or float8 if quantized.

    Examples:
        >>> x = bireme.to_tensor([1.0, -2.0])
        >>> bireme.incubate.nn.functional.fused_bias_act(x, bireme.ones([2]), act_method="relu").tolist()
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
def fused_dropout_add(x: Tensor, y: Tensor, p: Attr[float | Tensor] = 0.5, training: bool = True,
                      mode: str = "upscale_in_train") -> Tensor:  # fmt: skip
    """Dropout and sum: ``dropout(x) + y``.

    Args:
        x: Tensor of a floating-point dtype.
        y: Tensor that is added; it broadcasts.
        p: Probability of dropping an element of ``x``. Default: 0.5.
        training: Whether to drop. Default: True.
        mode: ``'upscale_in_train'`` multiplies what is kept by ``1 / (1 - p)`` in training; ``'downscale_in_infer'``
            multiplies by ``1 - p`` outside of training instead. Default: ``'upscale_in_train'``.

    Returns:
        Tensor of the common shape.

    Examples:
        >>> x, y = bireme.to_tensor([1.0]), bireme.to_tensor([2.0])
        >>> bireme.incubate.nn.functional.fused_dropout_add(x, y, training=False).tolist()
        [3.0]
    """
    if not isinstance(p, (int, float, Tensor)):
        raise errors.bad("fused_dropout_add(p)", "a number", p, kind=errors.ArgumentTypeError)
    floating("fused_dropout_add(x)", x)
    return dropout(x, p, None, training, mode) + y


@composite(plain=True)
def softmax_mask_fuse(x: Tensor, mask: Tensor) -> Tensor:
    """Softmax of masked scores: ``softmax(x + mask)`` along the last axis.

    Args:
        x: Scores of shape ``[N, H, Lq, Lk]``, of a floating-point dtype.
        mask: Tensor of shape ``[N, 1, Lq, Lk]`` that is added.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> x, mask = bireme.zeros([1, 1, 1, 2]), bireme.to_tensor([[[[0.0, -1e9]]]])
        >>> bireme.incubate.softmax_mask_fuse(x, mask).tolist()
        [[[[1.0, 0.0]]]]
    """
    floating("softmax_mask_fuse(x)", x)
    if x.ndim != 4:
        raise errors.bad("softmax_mask_fuse(x)", "a 4-D tensor", described=f"shape {x.shape}", kind=errors.ShapeError)
    if mask.shape != [x.shape[0], 1, *x.shape[2:]]:
        raise errors.bad(
            "softmax_mask_fuse(mask)",
            f"shape {[x.shape[0], 1, *x.shape[2:]]}",
            described=f"shape {mask.shape}",
            kind=errors.ShapeError,
        )
    if x.dtype.itemsize == 2:  # added in float32, as the softmax is computed
        return softmax_of(x.astype(dtypes.float32) + mask.astype(dtypes.float32), 3).astype(x.dtype)
    return softmax_of(x + mask, 3)


def _triangular(x):
    """Softmax of each row of the lower triangle."""
    n = x.shape[-1]
    below = jnp.arange(n)[:, None] >= jnp.arange(n)[None, :]
    wide = jnp.where(below, widen(x), jnp.asarray(-np.inf, widen(x).dtype))
    if not x.size:
        return x
    e = jnp.exp(wide - jnp.max(wide, axis=-1, keepdims=True))
    return (e / jnp.sum(e, axis=-1, keepdims=True)).astype(x.dtype)


@op(dtypes=FLOAT, name_arg=False, numpy=True)
def softmax_mask_fuse_upper_triangle(x: Tensor) -> Tensor:
    """Softmax of causal scores: along the last axis, with what is above the diagonal left out.

    Args:
        x: Scores of shape ``[N, H, L, L]``, of a floating-point dtype.

    Returns:
        Tensor of the shape and dtype of ``x``, 0 above the diagonal.

    Examples:
        >>> bireme.incubate.softmax_mask_fuse_upper_triangle(bireme.ones([1, 1, 2, 2])).tolist()
        [[[[1.0, 0.0], [0.5, 0.5]]]]
    """
    return _triangular(x)


softmax_mask_fuse_upper_triangle.infer(lambda x: x)


@softmax_mask_fuse_upper_triangle.check
def _(x):
    if x.ndim != 4 or x.shape[2] != x.shape[3]:
        raise errors.bad(
            "softmax_mask_fuse_upper_triangle(x)",
            "shape [batch, heads, n, n]",
            described=f"shape {list(x.shape)}",
            kind=errors.ShapeError,
        )


@softmax_mask_fuse_upper_triangle.grad(numpy=True)
def _(g, out):
    wide, g = widen(out), widen(g)  # out is 0 above the diagonal, and so is its gradient
    return (wide * (g - jnp.sum(g * wide, axis=-1, keepdims=True))).astype(out.dtype)


_REDUCTIONS = {"sum": 0, "mean": 1, "none": 2}


@composite(plain=True, name_arg=False)
def identity_loss(x: Tensor, reduction: Attr[int | str] = "none") -> Tensor:
    """Mark a tensor as a loss and reduce it.

    Args:
        x: Tensor of a floating-point dtype.
        reduction: ``'sum'`` or 0, ``'mean'`` or 1, ``'none'`` or 2. Default: ``'none'``.

    Returns:
        0-D tensor, or a tensor of the shape of ``x`` with ``'none'``.

    Examples:
        >>> bireme.incubate.identity_loss(bireme.to_tensor([1.0, 3.0]), "mean").item()
        2.0
    """
    how = _REDUCTIONS.get(reduction, reduction) if isinstance(reduction, str) else reduction
    if how not in (0, 1, 2):
        raise errors.bad("identity_loss(reduction)", "'sum', 'mean', 'none', or 0 to 2 for them", reduction)
    floating("identity_loss(x)", x)
    return sum(x) if how == 0 else mean(x) if how == 1 else x * 1.0
