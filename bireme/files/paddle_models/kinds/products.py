"""Kinds of products, losses and attention."""

from __future__ import annotations

from typing import Any

from bireme import _C_ops, tensor
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models.kinds.table import kind
from bireme.nn import functional
from bireme.ops import softmax_mask_fuse_upper_triangle


@kind("mul", "x y")
def _mul(x: Tensor, y: Tensor, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Tensor:
    sizes = [*x.shape[:x_num_col_dims], *y.shape[y_num_col_dims:]]
    flat = x if x.ndim == 2 else tensor.flatten(x, x_num_col_dims) if x_num_col_dims < x.ndim else x
    if x_num_col_dims > 1:
        flat = tensor.flatten(flat, 0, x_num_col_dims - 1)
    other = y
    if y.ndim > 2:
        other = tensor.flatten(y, y_num_col_dims)
        other = tensor.flatten(other, 0, y_num_col_dims - 1)
    found = tensor.matmul(flat, other)
    return found if len(sizes) == 2 else tensor.reshape(found, sizes)


@kind("legacy_matmul", "x y")
def _legacy_matmul(
    x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0
) -> Tensor:
    found = tensor.matmul(x, y, transpose_x, transpose_y)
    return found if alpha == 1.0 else found * alpha


@kind("cross_entropy_with_softmax", "input label")
def _cross_entropy_with_softmax(
    input: Tensor,
    label: Tensor,
    soft_label: bool = False,
    use_softmax: bool = True,
    numeric_stable_mode: bool = True,
    ignore_index: int = -100,
    axis: int = -1,
) -> Any:
    return _C_ops.cross_entropy_with_softmax(
        input, label, soft_label, use_softmax, numeric_stable_mode, ignore_index, axis
    )


@kind("nll_loss", "input label weight")
def _nll_loss(
    input: Tensor, label: Tensor, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    return _C_ops.nll_loss(input, label, weight, ignore_index, reduction)


@kind("sigmoid_cross_entropy_with_logits", "x label pos_weight")
def _sigmoid_cross_entropy_with_logits(
    x: Tensor, label: Tensor, pos_weight: Any = None, normalize: bool = False, ignore_index: int = -100
) -> Tensor:
    return _C_ops.sigmoid_cross_entropy_with_logits(x, label, pos_weight, normalize, ignore_index)


@kind("warpctc", "logits label logits_length labels_length")
def _warpctc(
    logits: Tensor,
    label: Tensor,
    logits_length: Tensor,
    labels_length: Tensor,
    blank: int = 0,
    norm_by_times: bool = False,
) -> Any:
    return _C_ops.warpctc(logits, label, logits_length, labels_length, blank, norm_by_times)


@kind("fused_softmax_mask_upper_triangle", "x")
def _causal_softmax(x: Tensor) -> Tensor:
    return softmax_mask_fuse_upper_triangle(x)


@kind("fused_softmax_mask", "x mask")
def _masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    return functional.softmax(x + mask, -1)


@kind("flash_attn", "q k v fixed_seed_offset attn_mask")
def _flash_attn(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    fixed_seed_offset: Any = None,
    attn_mask: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    return_softmax: bool = False,
    is_test: bool = True,
    rng_name: str = "",
) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, attn_mask, dropout, causal, not is_test)
