"""A convolution of images with quantized kernels and input."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.nn.quant.format import ConvertibleQuantedLayer, joint, lasting
from bireme.ops import conv2d, conv2d_integer, dequantize_linear, pad


class QuantedConv2D(ConvertibleQuantedLayer):
    """Convolution with quantized kernels and input, in place of ``Conv2D``.

    After conversion, if both have 8 bits and the kernels have one scale or one for each output channel, int8 is
    multiplied by int8, and the sums are int32.

    Args:
        layer: The ``Conv2D`` whose parameters it takes over.
        q_config: Object with attributes ``activation`` and ``weight``: factories of quanters, or None.

    Shape:
        - input: ``[N, in_channels, H, W]``; output: ``[N, out_channels, H_out, W_out]``.

    Examples:
        >>> quanter = bireme.quantization.quanters.FakeQuanterWithAbsMaxObserver()
        >>> config = bireme.quantization.QuantConfig(activation=quanter, weight=quanter)
        >>> layer = bireme.nn.quant.qat.QuantedConv2D(bireme.nn.Conv2D(1, 2, 3), config.global_config)
        >>> layer(bireme.ones([1, 1, 4, 4])).shape
        [1, 2, 2, 2]
    """

    def __init__(self, layer: Layer, q_config: Any):
        super().__init__()
        for name in ("_stride", "_padding", "_padding_mode", "_dilation", "_groups", "_data_format"):
            setattr(self, name, getattr(layer, name))
        self.weight, self.bias = layer.weight, layer.bias
        self.weight_quanter: Any = None if q_config.weight is None else q_config.weight._instance(layer)
        self.activation_quanter: Any = None if q_config.activation is None else q_config.activation._instance(layer)
        self._integer = False

    def forward(self, input: Tensor) -> Tensor:
        """Convolve the input with the kernels.

        Args:
            input: Tensor in ``data_format``.

        Returns:
            Tensor in ``data_format``.
        """
        x, padding, form = input, self._padding, self._data_format
        if self._padding_mode != "zeros":
            x, padding = pad(x, [padding] * 4, mode=self._padding_mode, data_format=form), 0
        rest = (self._stride, padding, self._dilation, self._groups, form)
        if self._integer:
            whole = self.activation_quanter._quanter(x)
            sums = conv2d_integer(whole, self.weight, *rest, zero_point=self._zero_point, offset=self._offset)
            out = dequantize_linear(sums, self._step, axis=3 if form == "NHWC" else 1)
            if self.bias is None:
                return out
            return out + (self.bias if form == "NHWC" else self.bias.reshape([-1, 1, 1]))
        x = x if self.activation_quanter is None else self.activation_quanter(x)
        weight = self.weight if self.weight_quanter is None else self.weight_quanter(self.weight)
        return conv2d(x, weight if weight.dtype == x.dtype else weight.astype(x.dtype), self.bias, *rest)

    def weights_to_quanters(self) -> list[tuple[str, str]]:
        return [("weight", "weight_quanter")]

    def activation_quanters(self) -> list[str]:
        return ["activation_quanter"]

    def _to_integers(self, remain_weight: bool = False) -> None:
        super()._to_integers(remain_weight)
        if remain_weight:
            return
        found = joint(self.activation_quanter, self.weight_quanter, self.weight, (0,))
        if found is not None:
            self.register_buffer("_step", lasting(found.step))
            self.register_buffer("_offset", None if found.offset is None else lasting(found.offset))
            self._zero_point, self._integer, self.weight_quanter = found.zero_point, True, None

    def extra_repr(self) -> str:
        return f"weight={self.weight.dtype.name}"
