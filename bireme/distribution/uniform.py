"""The uniform distribution over an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.distribution import Distribution
from bireme.distribution.registry import register
from bireme.ops import cast, full_like, log, square, uniform, where, zeros_like


class Uniform(Distribution):
    """Uniform distribution over the numbers between ``low`` and ``high``.

    Args:
        low: Lower bound: a number, a list, an array or a tensor.
        high: Upper bound, greater than ``low``; it broadcasts with ``low``.
        name: Name of the distribution. Default: None.

    Examples:
        >>> uniform = bireme.distribution.Uniform(0.0, bireme.to_tensor([2.0, 4.0]))
        >>> uniform.sample([3]).shape
        [3, 2]
        >>> uniform.probs(bireme.to_tensor([3.0])).tolist()
        [0.0, 0.25]
        >>> [round(x, 4) for x in uniform.entropy().tolist()]
        [0.6931, 1.3863]
    """

    def __init__(self, low: Any, high: Any, name: str | None = None):
        self.name = name if name is not None else type(self).__name__
        self.low, self.high = parameters("Uniform", low=low, high=high)
        self.dtype = self.low.dtype
        super().__init__(self.low.shape)

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Tensor:
        return square(self.high - self.low) / 12

    def sample(self, shape: Sequence[int] = (), seed: int = 0) -> Tensor:
        """Draw from the distribution. As in Paddle, gradients pass, as those of ``rsample`` do.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` is added. Default: ``()``.
            seed: Other than 0, a seed of this call alone; 0 continues the random state. Default: 0.

        Returns:
            Tensor of shape ``shape + batch_shape``.
        """
        return self._draw(shape, seed)

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        return self._draw(shape, 0)

    def _draw(self, shape: Sequence[int], seed: int) -> Tensor:
        errors.check_integer("sample(seed)", seed)
        u = uniform(self._extend_shape(shape), self.dtype, min=0.0, max=1.0, seed=seed)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        inside = self._inside(value)
        out = zeros_like(cast(inside, self.dtype)) - log(self.high - self.low)
        return where(inside, out, full_like(out, -math.inf))

    def _inside(self, value: Any) -> Tensor:
        value = self._value(value, self.low)
        return (self.low < value) & (value < self.high)

    def probs(self, value: Tensor) -> Tensor:
        """Density at a value: 0 at the bounds, too.

        Args:
            value: Tensor that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        return cast(self._inside(value), self.dtype) / (self.high - self.low)

    def entropy(self) -> Tensor:
        return log(self.high - self.low)


def _kl(p: Uniform, q: Uniform) -> Tensor:
    out = log((q.high - q.low) / (p.high - p.low))
    return where((q.low <= p.low) & (p.high <= q.high), out, full_like(out, math.inf))


register((Uniform, Uniform), _kl)
