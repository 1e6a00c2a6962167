"""Observers of the largest magnitude, of all data or as a moving average."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.ops import maximum
from bireme.quantization.factory import QuanterFactory
from bireme.quantization.observers.observer import SymmetricObserver, check_bits, check_rate


class AbsmaxObserver(QuanterFactory):
    """Factory of observers of the largest magnitude.

    Args:
        quant_bits: Width of the integers. Default: 8.

    Examples:
        >>> observer = bireme.quantization.observers.AbsmaxObserver()._instance(None)
        >>> _ = observer(bireme.to_tensor([1.0, -3.0])), observer(bireme.to_tensor([2.0]))
        >>> observer.scales().item()
        3.0
    """

    def __init__(self, quant_bits: int = 8):
        check_bits("AbsmaxObserver", quant_bits)
        super().__init__(quant_bits=quant_bits)

    def _get_class(self) -> type:
        return AbsmaxObserverLayer


class AbsmaxObserverLayer(SymmetricObserver):
    """Observer of the largest magnitude; ``AbsmaxObserver`` makes it.

    Args:
        layer: Layer whose weight or input it observes. Default: None.
        quant_bits: Width of the integers. Default: 8.

    Examples:
        >>> bireme.quantization.observers.AbsmaxObserverLayer().bit_length()
        8
    """

    def _see(self, x: Tensor) -> None:
        most, before = x.abs().max(), self.__dict__["_threshold"]
        self._keep(most if before is None else maximum(before, most))


class MovingAverageAbsmaxObserver(QuanterFactory):
    """Factory of observers of a moving average of the largest magnitudes of batches.

    Args:
        moving_rate: Weight of what was seen before. Default: 0.9.
        quant_bits: Width of the integers. Default: 8.

    Examples:
        >>> observer = bireme.quantization.observers.MovingAverageAbsmaxObserver(0.5)._instance(None)
        >>> _ = observer(bireme.to_tensor([4.0])), observer(bireme.to_tensor([1.0]))
        >>> observer.scales().item()
        2.0
    """

    def __init__(self, moving_rate: float = 0.9, quant_bits: int = 8):
        check_rate("MovingAverageAbsmaxObserver", moving_rate)
        check_bits("MovingAverageAbsmaxObserver", quant_bits)
        super().__init__(moving_rate=moving_rate, quant_bits=quant_bits)

    def _get_class(self) -> type:
        return MovingAverageAbsmaxObserverLayer


class MovingAverageAbsmaxObserverLayer(SymmetricObserver):
    """Observer of a moving average of largest magnitudes; ``MovingAverageAbsmaxObserver`` makes it.

    Args:
        layer: Layer whose weight or input it observes. Default: None.
        moving_rate: Weight of what was seen before. Default: 0.9.
        quant_bits: Width of the integers. Default: 8.

    Examples:
        >>> bireme.quantization.observers.MovingAverageAbsmaxObserverLayer().bit_length()
        8
    """

    def __init__(self, layer: Any = None, moving_rate: float = 0.9, quant_bits: int = 8):
        super().__init__(layer, quant_bits)
        self._moving_rate = moving_rate
        object.__setattr__(self, "_sums", None)

    def _see(self, x: Tensor) -> None:
        most, rate, before = x.abs().max(), self._moving_rate, self.__dict__["_sums"]
        # divided by the weights' sum, so that the first batches count as much as they should
        sums = (most, 1.0) if before is None else (before[0] * rate + most, before[1] * rate + 1.0)
        object.__setattr__(self, "_sums", sums)
        self._keep(sums[0] / sums[1])
