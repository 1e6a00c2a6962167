"""Attention on [batch, length, heads, width] with masks by what they mean."""

from __future__ import annotations

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
    "BlockDiagonalCausalMask",
    "BlockDiagonalMask",
    "LowerTriangularMask",
    "LowerTriangularMaskWithTensorBias",
    "memory_efficient_attention",
]


def memory_efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: AttentionBias | Tensor | None = None,
    p: float = 0.0,
    scale: float | None = None,
    training: bool = True,
) -> Tensor:
    """Attention with a structured mask, a bias, or neither.

    Args:
        query: Tensor of shape ``[N, L, heads, head_dim]``.
        key: Tensor of shape ``[N, S, heads, head_dim]``.
        value: Tensor of the shape of ``key``.
        attn_bias: A mask of ``bireme.incubate.nn.attn_bias``, or a tensor that is added to the scores. Default: None.
        p: Probability of dropout of the attention weights. Default: 0.0.
        scale: Factor of the scores. Default: None, ``1 / sqrt(head_dim)``.
        training: Apply dropout. Default: True.

    Returns:
        Tensor of the shape of ``query``.

    Examples:
        >>> from bireme.incubate.nn.memory_efficient_attention import LowerTriangularMask, memory_efficient_attention
        >>> x = bireme.ones([1, 2, 1, 4])
        >>> memory_efficient_attention(x, x, x, LowerTriangularMask()).shape
        [1, 2, 1, 4]
    """
    if attn_bias is not None and not isinstance(attn_bias, (Tensor, AttentionBias)):
        raise errors.bad(
            "memory_efficient_attention(attn_bias)",
            "a Tensor, a mask of attn_bias, or None",
            attn_bias,
            kind=errors.NotATensorError,
        )
    if query.ndim != 4 or key.ndim != 4:
        raise errors.bad(
            "memory_efficient_attention(query)",
            "shape [batch, length, heads, width]",
            described=f"shape {query.shape}",
            kind=errors.ShapeError,
        )
    if scale is not None:
        query = query * (scale * query.shape[-1] ** 0.5)
    causal = type(attn_bias) is LowerTriangularMask and query.shape[1] == key.shape[1]
    mask = attn_bias
    if isinstance(attn_bias, AttentionBias):
        mask = None if causal else attn_bias.materialize([1, 1, query.shape[1], key.shape[1]], query.dtype)
    return scaled_dot_product_attention(query, key, value, mask, p, causal, training)
