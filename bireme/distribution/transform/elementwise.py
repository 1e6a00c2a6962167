"""Transforms of single numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distribution import constraint, variable
from bireme.distribution.bernoulli import softplus
from bireme.distribution.transform.base import Transform, Type
from bireme.distribution.variable import Variable
from bireme.ops import abs, atanh, exp, expand, log, log1p, pow, sigmoid, tanh, zeros


def _check_tensor(where: str, given: Any) -> None:
    if not isinstance(given, Tensor):
        raise errors.bad(where, "a Tensor", given, kind=errors.NotATensorError)


class AbsTransform(Transform):
    """Absolute value. It is not injective: the inverse is a pair of tensors, of negative and of positive numbers.

    Examples:
        >>> transform = bireme.distribution.AbsTransform()
        >>> transform.forward(bireme.to_tensor([-1.0, 2.0])).tolist()
        [1.0, 2.0]
        >>> [y.tolist() for y in transform.inverse(bireme.to_tensor([1.0]))]
        [[-1.0], [1.0]]
    """

    _type = Type.SURJECTION

    @property
    def _codomain(self) -> Variable:
        return variable.positive

    def _forward(self, x: Tensor) -> Tensor:
        return abs(x)

    def _inverse(self, y: Tensor) -> Any:
        return -y, y

    def _inverse_log_det_jacobian(self, y: Tensor) -> Any:
        zero = zeros([], y.dtype)
        return zero, zero


class AffineTransform(Transform):
    """``loc + scale * x``.

    Args:
        loc: Tensor that is added.
        scale: Tensor that ``x`` is multiplied by.

    Examples:
        >>> transform = bireme.distribution.AffineTransform(bireme.to_tensor(1.0), bireme.to_tensor(2.0))
        >>> transform.forward(bireme.to_tensor([1.0, 2.0])).tolist()
        [3.0, 5.0]
        >>> [round(v, 4) for v in transform.forward_log_det_jacobian(bireme.to_tensor([1.0, 2.0])).tolist()]
        [0.6931, 0.6931]
    """

    _type = Type.BIJECTION

    def __init__(self, loc: Tensor, scale: Tensor):
        _check_tensor("AffineTransform(loc)", loc)
        _check_tensor("AffineTransform(scale)", scale)
        self._loc, self._scale = loc, scale
        super().__init__()

    @property
    def loc(self) -> Tensor:
        """What is added."""
        return self._loc

    @property
    def scale(self) -> Tensor:
        """What the argument is multiplied by."""
        return self._scale

    def _forward(self, x: Tensor) -> Tensor:
        return self._loc + self._scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self._loc) / self._scale

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        # one for each number of the result, so that sums over the axes of an event count them all
        return expand(log(abs(self._scale)), self._forward_shape(tuple(x.shape)))

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return np.broadcast_shapes(shape, tuple(self._loc.shape), tuple(self._scale.shape))

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._forward_shape(shape)


class ExpTransform(Transform):
    """Exponential.

    Examples:
        >>> transform = bireme.distribution.ExpTransform()
        >>> transform.forward(bireme.to_tensor([0.0])).tolist()
        [1.0]
        >>> transform.inverse_log_det_jacobian(bireme.to_tensor([1.0])).tolist()
        [-0.0]
    """

    _type = Type.BIJECTION

    @property
    def _codomain(self) -> Variable:
        return variable.positive

    def _forward(self, x: Tensor) -> Tensor:
        return exp(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return log(y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """Power of positive numbers.

    Args:
        power: Tensor of exponents.

    Examples:
        >>> transform = bireme.distribution.PowerTransform(bireme.to_tensor(2.0))
        >>> transform.forward(bireme.to_tensor([1.0, 3.0])).tolist()
        [1.0, 9.0]
        >>> [round(v, 4) for v in transform.forward_log_det_jacobian(bireme.to_tensor([1.0, 3.0])).tolist()]
        [0.6931, 1.7918]
    """

    _type = Type.BIJECTION

    def __init__(self, power: Tensor):
        _check_tensor("PowerTransform(power)", power)
        self._power = power
        super().__init__()

    @property
    def power(self) -> Tensor:
        """Exponents."""
        return self._power

    @property
    def _codomain(self) -> Variable:
        return variable.positive

    def _forward(self, x: Tensor) -> Tensor:
        return pow(x, self._power)

    def _inverse(self, y: Tensor) -> Tensor:
        return pow(y, 1 / self._power)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return log(abs(self._power * pow(x, self._power - 1)))

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return np.broadcast_shapes(shape, tuple(self._power.shape))

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._forward_shape(shape)


class SigmoidTransform(Transform):
    """Logistic sigmoid, ``1 / (1 + exp(-x))``.

    Examples:
        >>> transform = bireme.distribution.SigmoidTransform()
        >>> transform.forward(bireme.to_tensor([0.0])).tolist()
        [0.5]
        >>> [round(v, 4) for v in transform.forward_log_det_jacobian(bireme.to_tensor([0.0])).tolist()]
        [-1.3863]
    """

    @property
    def _codomain(self) -> Variable:
        return Variable(False, 0, constraint.Range(0.0, 1.0))

    def _forward(self, x: Tensor) -> Tensor:
        return sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return log(y) - log1p(-y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    """Hyperbolic tangent.

    Examples:
        >>> transform = bireme.distribution.TanhTransform()
        >>> transform.forward(bireme.to_tensor([0.0])).tolist()
        [0.0]
        >>> [round(v, 4) for v in transform.forward_log_det_jacobian(bireme.to_tensor([1.0])).tolist()]
        [-0.8676]
    """

    _type = Type.BIJECTION

    @property
    def _codomain(self) -> Variable:
        return Variable(False, 0, constraint.Range(-1.0, 1.0))

    def _forward(self, x: Tensor) -> Tensor:
        return tanh(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return atanh(y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        # log(1 - tanh(x)**2), without the difference that is 0 from where tanh is rounded to 1
        return 2 * (math.log(2.0) - x - softplus(-2 * x))
