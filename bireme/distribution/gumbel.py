"""The Gumbel distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.draws import exponential
from bireme.distribution.transform.base import TransformedDistribution
from bireme.distribution.uniform import Uniform
from bireme.ops import exp, full_like, log, square


class Gumbel(TransformedDistribution):
    """Gumbel distribution: of maxima of many numbers.

    Args:
        loc: Mode: a number, a list, an array or a tensor.
        scale: Scale, positive; it broadcasts with ``loc``.

    Examples:
        >>> gumbel = bireme.distribution.Gumbel(0.0, bireme.to_tensor([1.0, 2.0]))
        >>> gumbel.sample([3]).shape
        [3, 2]
        >>> [round(x, 4) for x in gumbel.mean.tolist()]
        [0.5772, 1.1544]
        >>> gumbel.log_prob(bireme.to_tensor([0.0])).tolist()[0]
        -1.0
        >>> [round(x, 4) for x in gumbel.cdf(bireme.to_tensor([0.0])).tolist()]
        [0.3679, 0.3679]
    """

    def __init__(self, loc: Any, scale: Any):
        self.loc, self.scale = parameters("Gumbel", loc=loc, scale=scale)
        self.base_dist = Uniform(full_like(self.loc, 0.0), full_like(self.loc, 1.0))
        self.transforms = ()
        super().__init__(self.base_dist, ())

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * np.euler_gamma

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each distribution."""
        return self.scale * (math.pi / math.sqrt(6.0))

    @property
    def variance(self) -> Tensor:
        return square(self.scale) * (math.pi**2 / 6)

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self.rsample(shape)

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        return self.loc - self.scale * log(exponential(self._extend_shape(shape), self.loc.dtype))

    def _standard(self, value: Any) -> Tensor:
        return (self._value(value, self.loc) - self.loc) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -(z + exp(-z)) - log(self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a number up to a value.

        Args:
            value: Tensor that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        return exp(-exp(-self._standard(value)))

    def entropy(self) -> Tensor:
        return log(self.scale) + (1 + np.euler_gamma)
