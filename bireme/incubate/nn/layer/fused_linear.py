"""A linear map whose weight may have one row per output."""

from __future__ import annotations

from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr
from bireme.nn.layer import Layer
from bireme.ops import fused_linear


class FusedLinear(Layer):
    """Affine map of the last axis: ``input @ weight + bias``, as ``bireme.nn.Linear``.

    Args:
        in_features: Size of the last axis of the input.
        out_features: Size of the last axis of the output.
        weight_attr: Attribute of the weight: a ``ParamAttr``, an initializer or a name. Default: None, Xavier uniform.
        bias_attr: Attribute of the bias; ``False`` leaves the bias out. Default: None, zeros.
        transpose_weight: Store the weight as ``[out_features, in_features]``. Default: False.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[..., in_features]``
        - output: ``[..., out_features]``

    Examples:
        >>> layer = bireme.incubate.nn.FusedLinear(2, 1, weight_attr=bireme.nn.initializer.Constant(0.5))
        >>> layer(bireme.to_tensor([[2.0, 4.0]])).tolist()
        [[3.0]]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        transpose_weight: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        shape = [out_features, in_features] if transpose_weight else [in_features, out_features]
        self.weight = self.create_parameter(shape, weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)
        self.transpose_weight, self.name = transpose_weight, name

    def forward(self, input: Tensor) -> Tensor:
        """Compute ``input @ weight + bias``.

        Args:
            input: Tensor of shape ``[..., in_features]``.

        Returns:
            Tensor of shape ``[..., out_features]``.
        """
        return fused_linear(input, self.weight, self.bias, self.transpose_weight)
