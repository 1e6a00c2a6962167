"""A linear map whose weight may have one row per output."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import fused_linear


class FusedLinear(Layer):
    """`x @ weight + bias`; with `transpose_weight` the weight has one row per output.

    >>> layer = bireme.incubate.nn.FusedLinear(2, 1, weight_attr=bireme.nn.initializer.Constant(0.5))
    >>> layer(bireme.to_tensor([[2.0, 4.0]])).tolist()
    [[3.0]]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        transpose_weight: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        shape = [out_features, in_features] if transpose_weight else [in_features, out_features]
        self.weight = self.create_parameter(shape, weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)
        self.transpose_weight, self.name = transpose_weight, name

    def forward(self, input: Tensor) -> Tensor:
        return fused_linear(input, self.weight, self.bias, self.transpose_weight)
