"""The Laplace distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.distribution import Distribution
from bireme.distribution.draws import exponential
from bireme.distribution.registry import register
from bireme.ops import abs, exp, expm1, log, log1p, sign, square


class Laplace(Distribution):
    """Laplace distribution, of density ``exp(-abs(x - loc) / scale) / (2 * scale)``.

    Args:
        loc: Mean: a number, a list, an array or a tensor.
        scale: Scale, positive; it broadcasts with ``loc``.

    Examples:
        >>> laplace = bireme.distribution.Laplace(0.0, bireme.to_tensor([1.0, 2.0]))
        >>> laplace.sample([3]).shape
        [3, 2]
        >>> laplace.variance.tolist()
        [2.0, 8.0]
        >>> laplace.prob(bireme.to_tensor([0.0])).tolist()
        [0.5, 0.25]
        >>> laplace.cdf(bireme.to_tensor([0.0])).tolist()
        [0.5, 0.5]
    """

    def __init__(self, loc: Any, scale: Any):
        self.loc, self.scale = parameters("Laplace", loc=loc, scale=scale)
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each distribution."""
        return math.sqrt(2.0) * self.scale

    @property
    def variance(self) -> Tensor:
        return 2 * square(self.scale)

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        whole = self._extend_shape(shape)
        # the difference of two exponential numbers: exact in the tails, where a uniform number runs out of digits
        dtype = self.loc.dtype
        return self.loc + self.scale * (exponential(whole, dtype) - exponential(whole, dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        return -abs(self._value(value, self.loc) - self.loc) / self.scale - log(2 * self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a number up to a value.

        Args:
            value: Tensor that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        z = (self._value(value, self.loc) - self.loc) / self.scale
        return 0.5 - 0.5 * sign(z) * expm1(-abs(z))

    def icdf(self, value: Tensor) -> Tensor:
        """Quantile: the number that is not exceeded with a probability.

        Args:
            value: Tensor of probabilities that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        centred = self._value(value, self.loc) - 0.5
        return self.loc - self.scale * sign(centred) * log1p(-2 * abs(centred))

    def entropy(self) -> Tensor:
        return 1 + log(2 * self.scale)


def _kl(p: Laplace, q: Laplace) -> Tensor:
    ratio, away = p.scale / q.scale, abs(p.loc - q.loc)
    return ratio * exp(-away / p.scale) + away / q.scale - log(ratio) - 1


register((Laplace, Laplace), _kl)
