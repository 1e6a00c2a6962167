"""Functions of neural networks: a list of names."""

from bireme.nn.functional import flash_attention
from bireme.nn.functional.flash_attention import sdp_kernel as sdp_kernel
from bireme.ops import (  # written by `make api`
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_log_softmax_with_loss, adaptive_max_pool1d,
    adaptive_max_pool2d, adaptive_max_pool3d, affine_grid, alpha_dropout, avg_pool1d, avg_pool2d, avg_pool3d,
    batch_norm, bilinear, binary_cross_entropy, binary_cross_entropy_with_logits, celu, channel_shuffle,
    class_center_sample, conv1d, conv1d_transpose, conv2d, conv2d_transpose, conv3d, conv3d_transpose,
    cosine_embedding_loss, cosine_similarity, cross_entropy, ctc_loss, dice_loss, dropout, dropout1d, dropout2d,
    dropout3d, edit_distance, elu, elu_, embedding, feature_alpha_dropout, flash_attention_v3_varlen,
    flash_attn_qkvpacked, flash_attn_varlen_qkvpacked, flashmask_attention, fold, fractional_max_pool2d,
    fractional_max_pool3d, gather_tree, gaussian_nll_loss, gelu, glu, grid_sample, group_norm, gumbel_softmax,
    hardshrink, hardsigmoid, hardswish, hardtanh, hardtanh_, hinge_embedding_loss, hsigmoid_loss, instance_norm,
    interpolate, kl_div, l1_loss, label_smooth, layer_norm, leaky_relu, leaky_relu_, linear, local_response_norm,
    log_loss, log_sigmoid, log_softmax, lp_pool1d, lp_pool2d, margin_cross_entropy, margin_ranking_loss, max_pool1d,
    max_pool2d, max_pool3d, max_unpool1d, max_unpool2d, max_unpool3d, maxout, mish, moe_permute, moe_unpermute,
    mse_loss, multi_label_margin_loss, multi_label_soft_margin_loss, multi_margin_loss, nll_loss, normalize, npair_loss,
    one_hot, pad, pairwise_distance, pixel_shuffle, pixel_unshuffle, poisson_nll_loss, prelu, relu, relu6, relu_,
    rnnt_loss, rrelu, scaled_dot_product_attention, selu, sequence_mask, sigmoid, sigmoid_focal_loss, silu,
    smooth_l1_loss, soft_margin_loss, softmax, softmax_, softmax_with_cross_entropy, softplus, softshrink, softsign,
    sparse_attention, square_error_cost, swish, tanh, tanh_, tanhshrink, temporal_shift, thresholded_relu,
    thresholded_relu_, triplet_margin_loss, triplet_margin_with_distance_loss, unfold_columns as unfold, upsample,
    zeropad2d,
)  # fmt: skip
from bireme.ops.linalg.diagonal import (
    diag_embed as diag_embed,
)  # these two are tensor functions that Paddle has here as well
from bireme.ops.nn.linear import embedding_renorm_ as embedding_renorm_
from bireme.ops.linalg.norms import pdist as pdist

__all__: list[str] = ["flash_attention"]
__all__ += [  # written by `make api`
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_log_softmax_with_loss",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid", "alpha_dropout", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "celu", "channel_shuffle", "class_center_sample", "conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose",
    "conv3d", "conv3d_transpose", "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss",
    "dice_loss", "dropout", "dropout1d", "dropout2d", "dropout3d", "edit_distance", "elu", "elu_", "embedding",
    "feature_alpha_dropout", "flash_attention_v3_varlen", "flash_attn_qkvpacked", "flash_attn_varlen_qkvpacked",
    "flashmask_attention", "fold", "fractional_max_pool2d", "fractional_max_pool3d", "gather_tree", "gaussian_nll_loss",
    "gelu", "glu", "grid_sample", "group_norm", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "hardtanh_", "hinge_embedding_loss", "hsigmoid_loss", "instance_norm", "interpolate", "kl_div", "l1_loss",
    "label_smooth", "layer_norm", "leaky_relu", "leaky_relu_", "linear", "local_response_norm", "log_loss",
    "log_sigmoid", "log_softmax", "lp_pool1d", "lp_pool2d", "margin_cross_entropy", "margin_ranking_loss", "max_pool1d",
    "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d", "maxout", "mish", "moe_permute",
    "moe_unpermute", "mse_loss", "multi_label_margin_loss", "multi_label_soft_margin_loss", "multi_margin_loss",
    "nll_loss", "normalize", "npair_loss", "one_hot", "pad", "pairwise_distance", "pixel_shuffle", "pixel_unshuffle",
    "poisson_nll_loss", "prelu", "relu", "relu6", "relu_", "rnnt_loss", "rrelu", "scaled_dot_product_attention", "selu",
    "sequence_mask", "sigmoid", "sigmoid_focal_loss", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax",
    "softmax_", "softmax_with_cross_entropy", "softplus", "softshrink", "softsign", "sparse_attention",
    "square_error_cost", "swish", "tanh", "tanh_", "tanhshrink", "temporal_shift", "thresholded_relu",
    "thresholded_relu_", "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "upsample", "zeropad2d",
]  # fmt: skip
