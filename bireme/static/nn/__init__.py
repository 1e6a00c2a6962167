"""Control flow and layers of programs."""

from bireme.static.nn.control_flow import case, cond, switch_case, while_loop
from bireme.static.nn.convolutions import conv2d_transpose, conv3d_transpose, deform_conv2d, row_conv
from bireme.static.nn.layers import (
    batch_norm,
    conv2d,
    conv3d,
    embedding,
    fc,
    group_norm,
    instance_norm,
    layer_norm,
    prelu,
)
from bireme.static.nn.products import bilinear_tensor_product, continuous_value_model, nce, spectral_norm
from bireme.static.nn.python_calls import py_func, static_pylayer
from bireme.static.nn.sequences import (
    sequence_conv,
    sequence_expand,
    sequence_first_step,
    sequence_last_step,
    sequence_pool,
    sequence_softmax,
)
from bireme.static.nn.sparse_tables import sparse_embedding

__all__ = [
    "batch_norm",
    "bilinear_tensor_product",
    "case",
    "cond",
    "continuous_value_model",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "deform_conv2d",
    "embedding",
    "fc",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "nce",
    "prelu",
    "py_func",
    "row_conv",
    "sequence_conv",
    "sequence_expand",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_pool",
    "sequence_softmax",
    "sparse_embedding",
    "spectral_norm",
    "static_pylayer",
    "switch_case",
    "while_loop",
]
