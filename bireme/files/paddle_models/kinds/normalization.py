"""Kinds of normalization."""

from __future__ import annotations

from typing import Any

from bireme import _C_ops, tensor
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models.kinds.table import kind
from bireme.nn import functional


@kind("batch_norm sync_batch_norm", "x mean variance scale bias")
def _batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    is_test: bool = True,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool = False,
    trainable_statistics: bool = False,
) -> Tensor:
    layout = data_format if x.ndim > 2 else "NC"
    if x.ndim in (3, 5):
        last = data_format[-1] == "C"
        layout = {3: ("NCL", "NLC"), 5: ("NCDHW", "NDHWC")}[x.ndim][last]
    training = trainable_statistics or not is_test
    # statistics that are used whatever happens are what evaluation means, unless training is asked for
    whole = True if use_global_stats and training else None
    return functional.batch_norm(x, mean, variance, scale, bias, training, momentum, epsilon, layout, whole)


@kind("layer_norm", "x scale bias")
def _layer_norm(
    x: Tensor, scale: Tensor | None, bias: Tensor | None, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> Tensor:
    shape = x.shape[begin_norm_axis:]
    if scale is not None:
        scale = tensor.reshape(scale, shape) if len(shape) != scale.ndim else scale
    if bias is not None:
        bias = tensor.reshape(bias, shape) if len(shape) != bias.ndim else bias
    return functional.layer_norm(x, shape, scale, bias, epsilon)


@kind("group_norm", "x scale bias")
def _group_norm(
    x: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    epsilon: float = 1e-5,
    groups: int = 1,
    data_format: str = "NCHW",
) -> Tensor:
    return functional.group_norm(x, groups, epsilon, scale, bias, data_format)


@kind("norm", "x")
def _norm(x: Tensor, axis: int, epsilon: float = 1e-10, is_test: bool = True) -> Any:
    return _C_ops.norm(x, axis, epsilon, is_test)


@kind("p_norm", "x")
def _p_norm(
    x: Tensor,
    porder: float = 2.0,
    axis: int = -1,
    epsilon: float = 1e-12,
    keepdim: bool = False,
    asvector: bool = False,
) -> Tensor:
    return _C_ops.p_norm(x, porder, axis, epsilon, keepdim, asvector)


@kind("frobenius_norm", "x axis:ints")
def _frobenius_norm(x: Tensor, axis: Any = (), keepdim: bool = False, reduce_all: bool = False) -> Tensor:
    return _C_ops.frobenius_norm(x, list(axis), keepdim, reduce_all or not len(axis))


@kind("rms_norm", "x scale bias residual")
def _rms_norm(x: Tensor, scale: Tensor | None = None, **attributes: Any) -> Tensor:
    axes = attributes.get("normalized_shape")
    wide = tensor.cast(x, "float32")
    n = len(axes) if axes else 1
    spread = tensor.rsqrt(tensor.mean(wide * wide, list(range(-n, 0)), keepdim=True) + attributes.get("epsilon", 1e-5))
    out = tensor.cast(wide * spread, x.dtype)
    return out if scale is None else out * scale
