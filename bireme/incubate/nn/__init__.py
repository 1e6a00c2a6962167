"""Layers and functions that Paddle fuses by hand: names over the same graph, which the compiler fuses."""

from bireme.incubate.nn import attn_bias, functional, memory_efficient_attention
from bireme.incubate.nn.layer.fused_dropout_add import FusedDropoutAdd
from bireme.incubate.nn.layer.fused_dropout_nd import FusedDropout as FusedDropout
from bireme.incubate.nn.layer.fused_linear import FusedLinear
from bireme.incubate.nn.layer.fused_transformer import (
    FusedBiasDropoutResidualLayerNorm,
    FusedFeedForward,
    FusedMultiHeadAttention,
    FusedMultiTransformer,
    FusedTransformerEncoderLayer,
)  # fmt: skip

__all__ = [
    "attn_bias",
    "functional",
    "memory_efficient_attention",
    "FusedBiasDropoutResidualLayerNorm",
    "FusedDropoutAdd",
    "FusedFeedForward",
    "FusedLinear",
    "FusedMultiHeadAttention",
    "FusedMultiTransformer",
    "FusedTransformerEncoderLayer",
]
