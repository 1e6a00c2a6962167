"""Control flow and layers of programs."""

from bireme.static.nn.control_flow import case, cond, switch_case, while_loop
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

__all__ = [
    "batch_norm",
    "case",
    "cond",
    "conv2d",
    "conv3d",
    "embedding",
    "fc",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "prelu",
    "switch_case",
    "while_loop",
]
