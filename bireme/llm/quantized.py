"""Linear maps with weights of 8 or 4 bits: what is multiplied stays in floating point."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.common import Linear
from bireme.nn.layer import Layer
from bireme.nn.quant.format import lasting
from bireme.ops import weight_only_linear, weight_quantize

KINDS = ("int8", "int4")
GROUP = 64  # numbers of 4 bits that share a scale, where the size is a multiple


class QuantizedLinear(Layer):
    """A linear map whose weight is kept as integers: one scale for each output, with 4 bits one for each group of
    inputs.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, kind: str):
        super().__init__()
        self._kind = kind
        rows, columns = weight.shape
        if kind == "int4" and columns % 2:
            raise errors.bad("quantize", "an even number of columns with 4 bits", columns)
        self._group = GROUP if kind == "int4" and rows % GROUP == 0 else -1
        made, scale = weight_quantize(weight, f"weight_only_{kind}", group_size=self._group)
        self.register_buffer("weight", lasting(made))
        self.register_buffer("scale", lasting(scale))
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        return weight_only_linear(x, self.weight, self.bias, self.scale, self._kind, group_size=self._group)


def quantized(network: Any, kind: str) -> Any:
    """The network with the matrices of its linear maps, but for the last one, as integers; it is changed."""
    if kind not in KINDS:
        raise errors.bad("quantized(kind)", f"one of {', '.join(map(repr, KINDS))}", kind)
    layers = dict(network.named_sublayers())
    for name, layer in layers.items():
        above, _, last = name.rpartition(".")
        if isinstance(layer, Linear) and above:
            assert layer.weight is not None
            setattr(layers[above], last, QuantizedLinear(layer.weight, layer.bias, kind))
    return network
