"""Observers of weights: the largest magnitude of each output channel, or of each group of inputs in it."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.common import Linear
from bireme.nn.conv import Conv1DTranspose, Conv2DTranspose, Conv3DTranspose
from bireme.quantization.factory import QuanterFactory
from bireme.quantization.observers.observer import SymmetricObserver, axes_beside, check_axis, check_bits


def channel_axis(layer: Any, weight: Tensor) -> int:
    """The axis of a weight that has the output channels."""
    if isinstance(layer, (Linear, Conv1DTranspose, Conv2DTranspose, Conv3DTranspose)) or weight.ndim == 2:
        return 1
    return 0


class AbsMaxChannelWiseWeightObserver(QuanterFactory):
    """Factory of observers of weights with a scale for each output channel.

    Args:
        quant_bits: Width of the integers. Default: 8.
        quant_axis: Axis of the output channels. Default: None, 1 for matrices and 0 for kernels of convolutions.

    Examples:
        >>> observer = bireme.quantization.observers.AbsMaxChannelWiseWeightObserver()._instance(None)
        >>> _ = observer(bireme.to_tensor([[1.0, -5.0], [-2.0, 3.0]]))
        >>> observer.scales().tolist()
        [2.0, 5.0]
    """

    def __init__(self, quant_bits: int = 8, quant_axis: int | None = None):
        check_bits("AbsMaxChannelWiseWeightObserver", quant_bits)
        check_axis("AbsMaxChannelWiseWeightObserver", quant_axis)
        super().__init__(quant_bits=quant_bits, quant_axis=quant_axis)

    def _get_class(self) -> type:
        return AbsMaxChannelWiseWeightObserverLayer


class AbsMaxChannelWiseWeightObserverLayer(SymmetricObserver):
    """Observer with a scale for each output channel; ``AbsMaxChannelWiseWeightObserver`` makes it.

    Args:
        layer: Layer whose weight it observes. Default: None.
        quant_bits: Width of the integers. Default: 8.
        quant_axis: Axis of the output channels. Default: None, 1 for matrices and 0 for kernels of convolutions.

    Examples:
        >>> bireme.quantization.observers.AbsMaxChannelWiseWeightObserverLayer().bit_length()
        8
    """

    def __init__(self, layer: Any = None, quant_bits: int = 8, quant_axis: int | None = None):
        super().__init__(layer, quant_bits)
        self._axis, self._transposed = quant_axis, isinstance(layer, (Conv2DTranspose, Conv1DTranspose))

    def _see(self, x: Tensor) -> None:
        if self._axis is None:
            self._axis = 1 if self._transposed else channel_axis(None, x)
        self._keep(x.abs().max(axis=axes_beside("AbsMaxChannelWiseWeightObserver", x, self._axis)))

    def quant_axis(self) -> int:
        """Return the axis of the scales.

        Returns:
            Axis of the output channels; -1 if no weight was seen.
        """
        return -1 if self._axis is None else self._axis


class GroupWiseWeightObserver(QuanterFactory):
    """Factory of observers of weights of shape ``[in, out]`` with a scale for each group of inputs of each output.

    Args:
        quant_bits: Width of the integers. Default: 8.
        group_size: Number of inputs in a group, which divides their number. Default: 128.

    Examples:
        >>> observer = bireme.quantization.observers.GroupWiseWeightObserver(4, group_size=2)._instance(None)
        >>> _ = observer(bireme.to_tensor([[1.0], [-2.0], [5.0], [3.0]]))
        >>> observer.scales().tolist()
        [[2.0], [5.0]]
    """

    def __init__(self, quant_bits: int = 8, group_size: int = 128):
        check_bits("GroupWiseWeightObserver", quant_bits)
        if isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 1:
            raise errors.bad(
                "GroupWiseWeightObserver(group_size)",
                "a positive integer",
                group_size,
                kind=errors.for_integer(group_size),
            )
        super().__init__(quant_bits=quant_bits, group_size=group_size)

    def _get_class(self) -> type:
        return GroupWiseWeightObserverLayer


class GroupWiseWeightObserverLayer(SymmetricObserver):
    """Observer with a scale for each group of inputs; ``GroupWiseWeightObserver`` makes it.

    Args:
        layer: Layer whose weight it observes. Default: None.
        quant_bits: Width of the integers. Default: 8.
        group_size: Number of inputs in a group. Default: 128.

    Examples:
        >>> bireme.quantization.observers.GroupWiseWeightObserverLayer(group_size=64).group_size
        64
    """

    def __init__(self, layer: Any = None, quant_bits: int = 8, group_size: int = 128):
        super().__init__(layer, quant_bits)
        self.group_size = group_size

    def _see(self, x: Tensor) -> None:
        if x.ndim != 2 or x.shape[0] % self.group_size:
            raise errors.bad(
                "GroupWiseWeightObserver(group_size)",
                f"a factor of the number of rows of a matrix, here of shape {x.shape}",
                self.group_size,
            )
        self._keep(x.abs().reshape([-1, self.group_size, x.shape[1]]).max(axis=1))
