"""Functions of neural networks: a list of names."""

from bireme.ops import (  # written by `make api`
    avg_pool2d, conv2d, cross_entropy, dropout, embedding, gelu, layer_norm, leaky_relu, linear, log_softmax,
    max_pool2d, mse_loss, one_hot, pad, relu, relu_, scaled_dot_product_attention, sigmoid, silu, softmax, softmax_,
    softplus, tanh, tanh_,
)  # fmt: skip

__all__: list[str] = []
__all__ += [  # written by `make api`
    "avg_pool2d", "conv2d", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm", "leaky_relu", "linear",
    "log_softmax", "max_pool2d", "mse_loss", "one_hot", "pad", "relu", "relu_", "scaled_dot_product_attention",
    "sigmoid", "silu", "softmax", "softmax_", "softplus", "tanh", "tanh_",
]  # fmt: skip
