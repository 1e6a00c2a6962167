"""The white and black list of `auto_cast` by Paddle's names of the operators."""

from __future__ import annotations

_LOW = [
    "conv2d", "einsum", "flash_attn", "fused_gemm_epilogue", "fused_rotary_position_embedding", "matmul", "matmul_v2",
    "max_pool2d_with_index", "mul",
]  # fmt: skip
_LOW_IN_FLOAT16 = [
    "fake_quantize_dequantize_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max",
    "fused_attention",
    "fused_feedforward",
]
# sums of many terms, exponentials and losses
_HIGH = [
    "acos", "asin", "atanh", "c_softmax_with_cross_entropy", "c_softmax_with_multi_label_cross_entropy", "cosh",
    "cross_entropy", "cross_entropy2", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1", "frobenius_norm",
    "group_norm", "hsigmoid_loss", "huber_loss", "layer_norm", "log", "log10", "log2", "log_loss", "log_softmax",
    "margin_cross_entropy", "mean", "nll_loss", "pnorm", "pow", "reciprocal", "reduce_mean", "reduce_prod",
    "reduce_sum", "renorm", "rsqrt", "sigmoid_cross_entropy_with_logits", "sinh", "softmax",
    "softmax_with_cross_entropy", "softmin", "softplus", "square", "tan", "tanh_shrink", "triplet_margin_loss",
]  # fmt: skip
# at every level: what gains nothing from half precision, or has no kernel for it in Paddle
_WIDE = [
    "bicubic_interp_v2", "bilinear_interp_v2", "linear_interp_v2", "lookup_table", "lookup_table_v2",
    "nearest_interp_v2", "scatter", "trilinear_interp_v2",
]  # fmt: skip


def white_list() -> dict[str, dict[str, set[str]]]:
    """Return the operators that compute in half precision under ``auto_cast``, by Paddle's names.

    Returns:
        A dict of dtype to a dict of level to a set of names.

    Examples:
        >>> "matmul" in bireme.amp.white_list()["bfloat16"]["O1"]
        True
    """
    low = {"float16": [*_LOW, *_LOW_IN_FLOAT16], "bfloat16": _LOW}
    return {kind: {level: set(names) for level in ("OD", "O1", "O2")} for kind, names in low.items()}


def black_list() -> dict[str, dict[str, set[str]]]:
    """Return the operators that compute in float32 under ``auto_cast``, by Paddle's names.

    Returns:
        A dict of dtype to a dict of level to a set of names.

    Examples:
        >>> lists = bireme.amp.black_list()["float16"]
        >>> "softmax" in lists["O1"], "softmax" in lists["O2"]
        (True, False)
    """
    return {kind: {"OD": set(), "O1": {*_HIGH, *_WIDE}, "O2": set(_WIDE)} for kind in ("float16", "bfloat16")}
