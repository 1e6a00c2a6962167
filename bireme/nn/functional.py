"""Functions of neural networks: a list of names."""

from bireme.ops import (
    avg_pool2d,
    conv2d,
    cross_entropy,
    dropout,
    embedding,
    gelu,
    layer_norm,
    leaky_relu,
    linear,
    log_softmax,
    max_pool2d,
    mse_loss,
    one_hot,
    pad,
    relu,
    scaled_dot_product_attention,
    sigmoid,
    silu,
    softmax,
    tanh,
)

__all__ = [
    "avg_pool2d", "conv2d", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm", "leaky_relu", "linear",
    "log_softmax", "max_pool2d", "mse_loss", "one_hot", "pad", "relu", "scaled_dot_product_attention", "sigmoid",
    "silu", "softmax", "tanh",
]  # fmt: skip
