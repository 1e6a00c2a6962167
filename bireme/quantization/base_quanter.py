"""The interface of what quantizes a tensor."""

from __future__ import annotations

import abc
from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer


class BaseQuanter(Layer, abc.ABC):
    """Layer that simulates the quantization of a tensor and knows its scales.

    Derive from it to write a quanter; ``quanter`` makes the factory that configurations take.

    Examples:
        >>> class Halves(bireme.quantization.BaseQuanter):
        ...     def __init__(self, layer):
        ...         super().__init__()
        ...     def forward(self, input):
        ...         return (input * 2).round() / 2
        ...     def scales(self):
        ...         return bireme.to_tensor(63.5)
        ...     def zero_points(self):
        ...         return None
        ...     def quant_axis(self):
        ...         return -1
        ...     def bit_length(self):
        ...         return 8
        >>> Halves(None)(bireme.to_tensor([0.4, 1.9])).tolist()
        [0.5, 2.0]
    """

    def __init__(self) -> None:
        super().__init__()

    @abc.abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Return the tensor as quantization changes it.

        Args:
            input: Tensor of a floating-point dtype.

        Returns:
            Tensor of its shape.
        """

    @abc.abstractmethod
    def scales(self) -> Tensor | None:
        """Return the largest magnitudes that the integers stand for.

        Returns:
            Tensor with one number, one for each index of an axis, or one for each group; None if no data was seen.
        """

    @abc.abstractmethod
    def zero_points(self) -> Tensor | None:
        """Return the integers that mean zero.

        Returns:
            Tensor in the shape of the scales, or None for 0.
        """

    @abc.abstractmethod
    def quant_axis(self) -> int:
        """Return the axis of the scales.

        Returns:
            Axis; -1 if there is one scale.
        """

    @abc.abstractmethod
    def bit_length(self) -> int:
        """Return the width of the integers.

        Returns:
            Number of bits.
        """

    def _observed(self, x: Any) -> bool:
        """Whether there is something in a tensor to look at."""
        return isinstance(x, Tensor) and x.dtype.is_inexact and 0 not in x.shape
