"""Functions that Paddle fuses by hand: names over the same operators."""

from bireme.ops import (  # written by `make api`
    blha_get_max_len, block_multihead_attention, build_src_rank_and_local_expert_id, cal_aux_loss,
    cross_entropy_with_softmax_bwd_w_downcast, embedding_grad_add_to_, expand_modality_expert_id, fp8_gemm_blockwise,
    fp8_quant_blockwise, fused_act_dequant, fused_bias_act, fused_bias_dropout_residual_layer_norm, fused_dropout_add,
    fused_feedforward, fused_layer_norm, fused_linear, fused_linear_activation, fused_matmul_bias,
    fused_multi_head_attention, fused_multi_transformer, fused_rms_norm, fused_rms_norm_ext,
    fused_rotary_position_embedding, fused_stack_transpose_quant, fused_swiglu_weighted_bwd,
    fused_transpose_split_quant, fused_transpose_wlch_split_quant, fused_weighted_swiglu_act_quant, int_bincount,
    masked_multihead_attention, moe_combine, moe_gate_dispatch, moe_gate_dispatch_and_quant,
    moe_gate_dispatch_partial_nosoftmaxtopk, moe_gate_dispatch_permute, swiglu,
    variable_length_memory_efficient_attention,
)  # fmt: skip

__all__: list[str] = []
__all__ += [  # written by `make api`
    "blha_get_max_len", "block_multihead_attention", "build_src_rank_and_local_expert_id", "cal_aux_loss",
    "cross_entropy_with_softmax_bwd_w_downcast", "embedding_grad_add_to_", "expand_modality_expert_id",
    "fp8_gemm_blockwise", "fp8_quant_blockwise", "fused_act_dequant", "fused_bias_act",
    "fused_bias_dropout_residual_layer_norm", "fused_dropout_add", "fused_feedforward", "fused_layer_norm",
    "fused_linear", "fused_linear_activation", "fused_matmul_bias", "fused_multi_head_attention",
    "fused_multi_transformer", "fused_rms_norm", "fused_rms_norm_ext", "fused_rotary_position_embedding",
    "fused_stack_transpose_quant", "fused_swiglu_weighted_bwd", "fused_transpose_split_quant",
    "fused_transpose_wlch_split_quant", "fused_weighted_swiglu_act_quant", "int_bincount", "masked_multihead_attention",
    "moe_combine", "moe_gate_dispatch", "moe_gate_dispatch_and_quant", "moe_gate_dispatch_partial_nosoftmaxtopk",
    "moe_gate_dispatch_permute", "swiglu", "variable_length_memory_efficient_attention",
]  # fmt: skip
