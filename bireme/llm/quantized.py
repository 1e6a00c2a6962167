"""Linear maps with weights of 8 or 4 bits: what is multiplied stays in floating point."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.common import Linear
from bireme.nn.layer import Layer
from bireme.nn.quant.format import lasting
from bireme.ops import to_tensor, weight_only_linear, weight_quantize

KINDS = {"int8": 8, "int4": 4}
GROUP = 64  # numbers of 4 bits that share a scale, where the size is a multiple


class QuantizedLinear(Layer):
    """A linear map whose weight is kept as integers: one scale for each output, or one for each group of inputs.

    Args:
        weight: Integers as `weight_quantize` gives them.
        scale: Their scales.
        bias: Added to the result, or None.
        kind: How wide the integers are, one of `KINDS`.
    """

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None, kind: str):
        super().__init__()
        self._kind = kind
        self._group = -1 if scale.ndim == 1 else weight.shape[1] // scale.shape[0]
        self.register_buffer("weight", lasting(weight))
        self.register_buffer("scale", lasting(scale))
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        return weight_only_linear(x, self.weight, self.bias, self.scale, self._kind, group_size=self._group)


def integers(weight: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """Integers and scales of a weight [inputs, outputs]: one scale for each output, with 4 bits one for each group of inputs."""
    rows, columns = weight.shape
    if kind == "int4" and columns % 2:
        raise errors.bad("quantize", "an even number of columns with 4 bits", columns)
    group = GROUP if kind == "int4" and rows > GROUP and rows % GROUP == 0 else -1
    return weight_quantize(weight, f"weight_only_{kind}", group_size=group)


def rows_of(weight: np.ndarray, scale: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """What `integers` gives as int8 [outputs, inputs] and scales [outputs, groups]."""
    if kind == "int4":
        weight = np.concatenate([(weight << 4) >> 4, weight >> 4])
    return weight, scale[:, None] if scale.ndim == 1 else scale.T


def of_rows(weight: np.ndarray, scale: np.ndarray, kind: str, dtype: Any) -> tuple[Tensor, Tensor]:
    """The way back; scales in a dtype."""
    if kind == "int4":
        half = len(weight) // 2
        weight = (weight[:half] & 15) | (weight[half:] << 4)
    scale = scale[:, 0] if scale.shape[1] == 1 else np.ascontiguousarray(scale.T)
    return to_tensor(weight), to_tensor(scale.astype(dtype))


def quantized(network: Any, kind: str) -> Any:
    """The network with the matrices of its linear maps, but for the last one, as integers; it is changed."""
    if kind not in KINDS:
        raise errors.bad("quantized(kind)", f"one of {', '.join(map(repr, KINDS))}", kind)
    layers = dict(network.named_sublayers())
    for name, layer in layers.items():
        above, _, last = name.rpartition(".")
        if isinstance(layer, Linear) and above:
            assert layer.weight is not None
            setattr(layers[above], last, QuantizedLinear(*integers(layer.weight, kind), layer.bias, kind))
    return network
