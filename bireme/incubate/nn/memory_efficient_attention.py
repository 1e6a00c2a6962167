"""Attention on [batch, length, heads, width] with masks by what they mean."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.incubate.nn.attn_bias import (
    AttentionBias,
    BlockDiagonalCausalMask,
    BlockDiagonalMask,
    LowerTriangularMask,
    LowerTriangularMaskWithTensorBias,
)
from bireme.ops import scaled_dot_product_attention

__all__ = [
    "BlockDiagonalCausalMask", "BlockDiagonalMask", "LowerTriangularMask", "LowerTriangularMaskWithTensorBias", "memory_efficient_attention",
]  # fmt: skip


def memory_efficient_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Any = None, p: float = 0.0, scale: float | None = None, training: bool = True
) -> Tensor:
    """Attention with a mask, a tensor that is added to the scores, or neither; the scores are scaled by 1 / sqrt(width) or by `scale`.

    >>> from bireme.incubate.nn.memory_efficient_attention import LowerTriangularMask, memory_efficient_attention
    >>> memory_efficient_attention(bireme.ones([1, 2, 1, 4]), *[bireme.ones([1, 2, 1, 4])] * 2, LowerTriangularMask()).shape
    [1, 2, 1, 4]
    """
    if attn_bias is not None and not isinstance(attn_bias, (Tensor, AttentionBias)):
        raise errors.bad("memory_efficient_attention(attn_bias)", "a Tensor, a mask of attn_bias, or None", attn_bias, kind=TypeError)
    if query.ndim != 4 or key.ndim != 4:
        raise errors.bad("memory_efficient_attention(query)", "shape [batch, length, heads, width]", f"shape {query.shape}")
    if scale is not None:
        query = query * (scale * query.shape[-1] ** 0.5)
    causal = type(attn_bias) is LowerTriangularMask and query.shape[1] == key.shape[1]
    mask = attn_bias
    if isinstance(attn_bias, AttentionBias):
        mask = None if causal else attn_bias.materialize([1, 1, query.shape[1], key.shape[1]], query.dtype)
    return scaled_dot_product_attention(query, key, value, mask, p, causal, training)
