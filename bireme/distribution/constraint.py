"""Conditions that the values of a random variable meet."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.tensor import Tensor
from bireme.ops import abs, all, sum

__all__ = ["Constraint", "Positive", "Range", "Real", "Simplex", "positive", "real", "simplex"]


class Constraint(Guarded):
    """Base of conditions: a call with a tensor says where they hold.

    Examples:
        >>> class Even(bireme.distribution.constraint.Constraint):
        ...     def __call__(self, value):
        ...         return value % 2 == 0
        >>> Even()(bireme.to_tensor([1.0, 2.0])).tolist()
        [False, True]
    """

    def __call__(self, value: Tensor) -> Tensor:
        raise errors.missing_method(self, "__call__")

    def check(self, value: Tensor) -> Tensor:
        """The same as a call.

        Args:
            value: Tensor.

        Returns:
            Tensor of booleans.
        """
        return self(value)


class Real(Constraint):
    """Real numbers: everything that is not NaN.

    Examples:
        >>> bireme.distribution.constraint.Real()(bireme.to_tensor([1.0, float("nan")])).tolist()
        [True, False]
    """

    def __call__(self, value: Tensor) -> Tensor:
        return value == value


class Range(Constraint):
    """Numbers of an interval with its bounds.

    Args:
        lower: Lower bound.
        upper: Upper bound.

    Examples:
        >>> bireme.distribution.constraint.Range(0, 1)(bireme.to_tensor([0.0, 0.5, 2.0])).tolist()
        [True, True, False]
    """

    def __init__(self, lower: Any, upper: Any):
        self._lower, self._upper = lower, upper

    def __call__(self, value: Tensor) -> Tensor:
        return (self._lower <= value) & (value <= self._upper)


class Positive(Constraint):
    """Non-negative numbers.

    Examples:
        >>> bireme.distribution.constraint.Positive()(bireme.to_tensor([-1.0, 0.0, 1.0])).tolist()
        [False, True, True]
    """

    def __call__(self, value: Tensor) -> Tensor:
        return value >= 0


class Simplex(Constraint):
    """Non-negative numbers that sum to 1 along the last axis.

    Examples:
        >>> bireme.distribution.constraint.Simplex()(bireme.to_tensor([[0.5, 0.5], [0.5, 0.6]])).tolist()
        [True, False]
    """

    def __call__(self, value: Tensor) -> Tensor:
        return all(value >= 0, -1) & (abs(sum(value, -1) - 1) < 1e-6)


real = Real()
positive = Positive()
simplex = Simplex()
