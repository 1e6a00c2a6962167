"""Quanters whose scale is a moving average of the largest magnitude, or that of each output channel."""

from __future__ import annotations

from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import DTypeLike
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import fake_quantize, full
from bireme.quantization.base_quanter import BaseQuanter
from bireme.quantization.factory import QuanterFactory
from bireme.quantization.observers.channel_wise import channel_axis
from bireme.quantization.observers.observer import axes_beside, check_axis, check_bits, check_rate


class FakeQuanterWithAbsMaxObserver(QuanterFactory):
    """Factory of quanters that round to integers with a moving average of the largest magnitude as scale.

    The gradient passes as if nothing was rounded.

    Args:
        moving_rate: Weight of what was seen before. Default: 0.9.
        bit_length: Width of the integers. Default: 8.
        dtype: Data type of the scale. Default: ``'float32'``.
        name: Not used. Default: None.

    Examples:
        >>> quanter = bireme.quantization.quanters.FakeQuanterWithAbsMaxObserver()._instance(None)
        >>> _ = quanter(bireme.to_tensor([1.0, -1.0]))
        >>> [round(x, 4) for x in quanter(bireme.to_tensor([1.0, 0.3])).tolist()]
        [1.0, 0.2992]
    """

    def __init__(
        self, moving_rate: float = 0.9, bit_length: int = 8, dtype: DTypeLike = "float32", name: str | None = None
    ):
        check_rate("FakeQuanterWithAbsMaxObserver", moving_rate)
        check_bits("FakeQuanterWithAbsMaxObserver", bit_length, "bit_length")
        super().__init__(name=name, moving_rate=moving_rate, bit_length=bit_length, dtype=dtype)

    def _get_class(self) -> type:
        return FakeQuanterWithAbsMaxObserverLayer


class FakeQuanterWithAbsMaxObserverLayer(BaseQuanter):
    """Quanter with a moving average as scale; ``FakeQuanterWithAbsMaxObserver`` makes it.

    Args:
        layer: Layer whose weight or input it quantizes. Default: None.
        name: Not used. Default: None.
        moving_rate: Weight of what was seen before. Default: 0.9.
        bit_length: Width of the integers. Default: 8.
        dtype: Data type of the scale. Default: ``'float32'``.

    Examples:
        >>> layer = bireme.quantization.quanters.FakeQuanterWithAbsMaxObserverLayer()
        >>> list(layer.state_dict())
        ['_scale', '_state', '_accum']
    """

    _scale: Tensor
    _state: Tensor
    _accum: Tensor

    def __init__(
        self,
        layer: Any = None,
        name: str | None = None,
        moving_rate: float = 0.9,
        bit_length: int = 8,
        dtype: DTypeLike = "float32",
    ):
        super().__init__()
        check_rate("FakeQuanterWithAbsMaxObserver", moving_rate)
        check_bits("FakeQuanterWithAbsMaxObserver", bit_length, "bit_length")
        self._moving_rate, self._bit_length = moving_rate, bit_length
        kind = dtypes.of(dtype).name
        self.register_buffer("_scale", full([1], 0.001, kind))
        self.register_buffer("_state", full([1], 1.0, kind))
        self.register_buffer("_accum", full([1], 1.0, kind))

    def forward(self, input: Tensor) -> Tensor:
        """Round ``input`` to what integers stand for; in training the scale follows it first.

        Args:
            input: Tensor of a floating-point dtype.

        Returns:
            Tensor of its shape and dtype.
        """
        if self.training and self._observed(input):
            with no_grad():
                most = input.detach().abs().max().astype(self._scale.dtype)
                self._state = self._state * self._moving_rate + 1.0
                self._accum = self._accum * self._moving_rate + most
                self._scale = self._accum / self._state
        return fake_quantize(input, self._scale, 0, self._bit_length, 0)

    def scales(self) -> Tensor:
        """Return the largest magnitude that the integers stand for.

        Returns:
            Tensor of one element.
        """
        return self._scale

    def zero_points(self) -> Tensor | None:
        """Return the integer that means zero.

        Returns:
            None: it is 0.
        """
        return None

    def quant_axis(self) -> int:
        """Return the axis of the scales.

        Returns:
            -1: there is one scale.
        """
        return -1

    def bit_length(self) -> int:
        """Return the width of the integers.

        Returns:
            Number of bits.
        """
        return self._bit_length

    def extra_repr(self) -> str:
        return f"bit_length={self._bit_length}"


class FakeQuanterChannelWiseAbsMax(QuanterFactory):
    """Factory of quanters of weights with the largest magnitude of each output channel as scale.

    Args:
        bit_length: Width of the integers. Default: 8.
        quant_axis: Axis of the output channels. Default: None, 1 for matrices and 0 for kernels of convolutions.

    Examples:
        >>> quanter = bireme.quantization.quanters.FakeQuanterChannelWiseAbsMax()._instance(bireme.nn.Linear(2, 2))
        >>> quanter(bireme.to_tensor([[127.0, 1.27], [0.7, 0.017]])).round(decimals=3).tolist()
        [[127.0, 1.2699999809265137], [1.0, 0.019999999552965164]]
    """

    def __init__(self, bit_length: int = 8, quant_axis: int | None = None):
        check_bits("FakeQuanterChannelWiseAbsMax", bit_length, "bit_length")
        check_axis("FakeQuanterChannelWiseAbsMax", quant_axis)
        super().__init__(bit_length=bit_length, quant_axis=quant_axis)

    def _get_class(self) -> type:
        return FakeQuanterChannelWiseAbsMaxLayer


class FakeQuanterChannelWiseAbsMaxLayer(BaseQuanter):
    """Quanter with a scale for each output channel; ``FakeQuanterChannelWiseAbsMax`` makes it.

    The scales are those of the weight as it is, so they are no state.

    Args:
        layer: Layer whose weight it quantizes.
        bit_length: Width of the integers. Default: 8.
        quant_axis: Axis of the output channels. Default: None, 1 for matrices and 0 for kernels of convolutions.

    Examples:
        >>> layer = bireme.quantization.quanters.FakeQuanterChannelWiseAbsMaxLayer(bireme.nn.Linear(2, 3))
        >>> layer.scales().shape
        [3]
    """

    def __init__(self, layer: Any, bit_length: int = 8, quant_axis: int | None = None):
        super().__init__()
        check_bits("FakeQuanterChannelWiseAbsMax", bit_length, "bit_length")
        if not isinstance(getattr(layer, "weight", None), Tensor):
            raise errors.bad(
                "FakeQuanterChannelWiseAbsMax(layer)", "a layer with a weight", layer, kind=errors.ArgumentTypeError
            )
        self._bit_length = bit_length
        self._axis = channel_axis(layer, layer.weight) if quant_axis is None else quant_axis
        # the weight is the layer's: no parameter of this one
        object.__setattr__(self, "_weight", layer.weight)

    def _most(self, x: Tensor) -> Tensor:
        with no_grad():
            return x.detach().abs().max(axis=axes_beside("FakeQuanterChannelWiseAbsMax", x, self._axis))

    def forward(self, input: Tensor) -> Tensor:
        """Round ``input`` to what integers stand for.

        Args:
            input: The weight.

        Returns:
            Tensor of its shape and dtype.
        """
        return fake_quantize(input, self._most(input), self._axis, self._bit_length, 0)

    def scales(self) -> Tensor:
        """Return the largest magnitude of each output channel.

        Returns:
            Vector.
        """
        return self._most(self.__dict__["_weight"])

    def zero_points(self) -> Tensor | None:
        """Return the integers that mean zero.

        Returns:
            None: they are 0.
        """
        return None

    def quant_axis(self) -> int:
        """Return the axis of the scales.

        Returns:
            Axis of the output channels.
        """
        return self._axis

    def bit_length(self) -> int:
        """Return the width of the integers.

        Returns:
            Number of bits.
        """
        return self._bit_length
