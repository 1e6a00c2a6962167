"""A linear layer with quantized weight and input."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.nn.quant.format import ConvertibleQuantedLayer, joint, lasting
from bireme.ops import dequantize_linear, linear, matmul_integer


class QuantedLinear(ConvertibleQuantedLayer):
    """Linear layer with quantized weight and input, in place of ``Linear``.

    After conversion, if both have 8 bits and the weight has one scale or one for each output, int8 is multiplied by
    int8, and the sums are int32.

    Args:
        layer: The ``Linear`` whose parameters it takes over.
        q_config: Object with attributes ``activation`` and ``weight``: factories of quanters, or None.

    Shape:
        - input: ``[..., in_features]``; output: ``[..., out_features]``.

    Examples:
        >>> quanter = bireme.quantization.quanters.FakeQuanterWithAbsMaxObserver()
        >>> config = bireme.quantization.QuantConfig(activation=None, weight=quanter)
        >>> layer = bireme.nn.quant.qat.QuantedLinear(bireme.nn.Linear(2, 3), config.global_config)
        >>> layer(bireme.ones([1, 2])).shape
        [1, 3]
    """

    def __init__(self, layer: Layer, q_config: Any):
        super().__init__()
        self.weight, self.bias, self.name = layer.weight, layer.bias, getattr(layer, "name", None)
        self.weight_quanter: Any = None if q_config.weight is None else q_config.weight._instance(layer)
        self.activation_quanter: Any = None if q_config.activation is None else q_config.activation._instance(layer)
        self._integer = False

    def forward(self, input: Tensor) -> Tensor:
        """Apply the linear map.

        Args:
            input: Tensor of shape ``[..., in_features]``.

        Returns:
            Tensor of shape ``[..., out_features]``.
        """
        if self._integer:
            whole = self.activation_quanter._quanter(input)
            sums = matmul_integer(whole, self.weight, self._zero_point, self._offset)
            out = dequantize_linear(sums, self._step, axis=-1)
            return out if self.bias is None else out + self.bias
        x = input if self.activation_quanter is None else self.activation_quanter(input)
        weight = self.weight if self.weight_quanter is None else self.weight_quanter(self.weight)
        return linear(x, weight if weight.dtype == x.dtype else weight.astype(x.dtype), self.bias)

    def weights_to_quanters(self) -> list[tuple[str, str]]:
        return [("weight", "weight_quanter")]

    def activation_quanters(self) -> list[str]:
        return ["activation_quanter"]

    def _packing_axis(self, name: str) -> int:
        return 1

    def _to_integers(self, remain_weight: bool = False) -> None:
        super()._to_integers(remain_weight)
        if remain_weight:
            return
        found = joint(self.activation_quanter, self.weight_quanter, self.weight, (1, -1))
        if found is not None:
            self.register_buffer("_step", lasting(found.step))
            self.register_buffer("_offset", None if found.offset is None else lasting(found.offset))
            self._zero_point, self._integer, self.weight_quanter = found.zero_point, True, None

    def extra_repr(self) -> str:
        return f"weight={self.weight.dtype.name}"
