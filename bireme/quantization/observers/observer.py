"""What observers with symmetric integers have in common."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import zeros_like
from bireme.quantization.base_observer import BaseObserver


class SymmetricObserver(BaseObserver):
    """An observer whose integers are symmetric: zero means zero."""

    def __init__(self, layer: Any = None, quant_bits: int = 8):
        super().__init__()
        check_bits(type(self).__name__.removesuffix("Layer"), quant_bits)
        self._quant_bits = quant_bits
        # not a buffer: None until data was seen, and no part of what the network is
        object.__setattr__(self, "_threshold", None)

    def forward(self, input: Tensor) -> Tensor:
        """Look at a tensor.

        Args:
            input: Tensor of a floating-point dtype.

        Returns:
            The same tensor.
        """
        if self._observed(input):
            with no_grad():
                self._see(input.detach())
        return input

    def _see(self, x: Tensor) -> None:
        raise NotImplementedError

    def _keep(self, threshold: Tensor) -> None:
        object.__setattr__(self, "_threshold", threshold)

    def cal_thresholds(self) -> None:
        """Compute the scales from what was seen; there is nothing left to do where they are kept up to date."""

    def scales(self) -> Tensor | None:
        """Return the largest magnitudes that the integers stand for.

        Returns:
            Tensor, or None if no data was seen.
        """
        self.cal_thresholds()
        return self.__dict__["_threshold"]

    def zero_points(self) -> Tensor | None:
        """Return the integers that mean zero.

        Returns:
            Zeros in the shape of the scales, or None if no data was seen.
        """
        found = self.scales()
        return None if found is None else zeros_like(found)

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
        return self._quant_bits


def check_bits(name: str, bits: Any, which: str = "quant_bits") -> None:
    if isinstance(bits, bool) or not isinstance(bits, int) or not 2 <= bits <= 16:
        raise errors.bad(f"{name}({which})", "an integer in [2, 16]", bits, kind=errors.for_integer(bits))


def check_axis(name: str, axis: Any) -> None:
    if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int)):
        raise errors.bad(f"{name}(quant_axis)", "an integer, or None", axis, kind=errors.ArgumentTypeError)


def axes_beside(name: str, x: Tensor, axis: int) -> list[int]:
    """All axes of a weight but that of its output channels."""
    if not -x.ndim <= axis < x.ndim:
        raise errors.bad(
            f"{name}(quant_axis)", f"an axis of a weight of shape {x.shape}", axis, kind=errors.OutOfRangeError
        )
    return [i for i in range(x.ndim) if i != axis % x.ndim]


def check_rate(name: str, rate: Any) -> None:
    errors.check_number(f"{name}(moving_rate)", rate)
    if not 0 <= rate < 1:
        raise errors.bad(f"{name}(moving_rate)", "a number in [0, 1)", rate)
