"""Weight decay as a term added to the gradient, for an optimizer or for one parameter."""

from __future__ import annotations

from numbers import Real
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.tensor import Tensor
from bireme.ops import sign

__all__ = ["L1Decay", "L2Decay"]


class WeightDecayRegularizer(Guarded):
    """Base class of ``L1Decay`` and ``L2Decay``: a coefficient, and the term it adds to a gradient.

    Args:
        coeff: Coefficient of the decay, a number or a tensor of one element. Default: 0.0.
    """

    def __init__(self, coeff: float | Tensor = 0.0):
        if isinstance(coeff, bool) or not isinstance(coeff, (Real, Tensor)):
            raise errors.bad(f"{type(self).__name__}(coeff)", "a number", coeff, kind=errors.ArgumentTypeError)
        self._coeff: float | Tensor = coeff if isinstance(coeff, Tensor) else float(coeff)

    def __str__(self) -> str:
        return f"{type(self).__name__}, coeff={float(self._coeff):f}"

    def __call__(self, param: Tensor, grad: Tensor | None = None, block: Any = None) -> Tensor:
        """Return the term that is added to the gradient of ``param``.

        Args:
            param: The parameter.
            grad: Not used.
            block: Not used.
        """
        raise errors.missing_method(self, "__call__")


class L1Decay(WeightDecayRegularizer):
    """L1 weight decay: adds ``coeff * sign(parameter)`` to the gradient, which drives weights to exactly zero.

    Args:
        coeff: Coefficient of the decay, a number or a tensor of one element. Default: 0.0.

    Examples:
        >>> bireme.regularizer.L1Decay(0.5)(bireme.to_tensor([2.0, -4.0])).tolist()
        [0.5, -0.5]
    """

    def __call__(self, param: Tensor, grad: Tensor | None = None, block: Any = None) -> Tensor:
        return sign(param) * self._coeff


class L2Decay(WeightDecayRegularizer):
    """L2 weight decay: adds ``coeff * parameter`` to the gradient, which keeps weights small.

    Args:
        coeff: Coefficient of the decay, a number or a tensor of one element. Default: 0.0.

    Examples:
        >>> bireme.regularizer.L2Decay(0.5)(bireme.to_tensor([2.0, -4.0])).tolist()
        [1.0, -2.0]
    """

    def __call__(self, param: Tensor, grad: Tensor | None = None, block: Any = None) -> Tensor:
        return param * self._coeff
