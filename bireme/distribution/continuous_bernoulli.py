"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.bernoulli import clipped
from bireme.distribution.distribution import Distribution
from bireme.distribution.poisson import at_least_1d
from bireme.distribution.registry import register
from bireme.ops import abs, clip, expm1, full_like, log, log1p, square, uniform, where


class ContinuousBernoulli(Distribution):
    """Continuous Bernoulli distribution over ``[0, 1]``, of a density in proportion to ``probs**x * (1 - probs)**(1 - x)``.

    Args:
        probs: Parameter between 0 and 1, the greater the nearer to 1 the draws are: a number, a list, an array or a tensor.
            It is clipped to ``[eps, 1 - eps]``, with the ``eps`` of the dtype. A number is taken as a tensor of shape ``[1]``.
        lims: Interval around 0.5 in which series are used, since the formulas divide zeros there. Default:
            ``(0.499, 0.501)``.

    Examples:
        >>> distribution = bireme.distribution.ContinuousBernoulli(bireme.to_tensor([0.2, 0.5]))
        >>> distribution.rsample([3]).shape
        [3, 2]
        >>> [round(x, 4) for x in distribution.mean.tolist()]
        [0.388, 0.5]
        >>> [round(x, 4) for x in distribution.prob(bireme.to_tensor([0.0])).tolist()]
        [1.8484, 1.0]
        >>> [round(x, 4) for x in distribution.cdf(bireme.to_tensor([0.5])).tolist()]
        [0.6667, 0.5]
    """

    probs: Any  # the parameter, where other distributions have a method

    def __init__(self, probs: Any, lims: tuple[float, float] = (0.499, 0.501)):
        (given,) = parameters("ContinuousBernoulli", probs=at_least_1d(probs))
        (self.lims,) = parameters("ContinuousBernoulli", lims=lims)
        if self.lims.shape != [2]:
            raise errors.bad("ContinuousBernoulli(lims)", "two numbers", lims)
        self.lims = self.lims.astype(given.dtype)
        self.probs = clipped(given)
        self.dtype = self.probs.dtype
        self._near = (self.lims[0] <= self.probs) & (self.probs <= self.lims[1])
        # formulas are computed at a probability where they hold, series at the distance from 0.5
        self._safe = where(self._near, full_like(self.probs, 0.25), self.probs)
        self._logit = log(self._safe) - log1p(-self._safe)
        self._off = where(self._near, self.probs - 0.5, full_like(self.probs, 0.0))
        super().__init__(self.probs.shape)

    @property
    def mean(self) -> Tensor:
        exact = self._safe / (2 * self._safe - 1) - 1 / self._logit
        return where(self._near, 0.5 + self._off * (1 / 3 + 16 / 45 * square(self._off)), exact)

    @property
    def variance(self) -> Tensor:
        exact = square(1 / self._logit) - self._safe * (1 - self._safe) / square(2 * self._safe - 1)
        x = square(self._off)
        return where(self._near, 1 / 12 - x * (1 / 15 - 128 / 945 * x), exact)

    def _log_constant(self) -> Tensor:
        """Logarithm of what the density is multiplied by, so that its integral is 1."""
        exact = log(abs(self._logit)) - log(abs(2 * self._safe - 1))
        x = square(self._off)
        return where(self._near, math.log(2.0) + x * (4 / 3 + 104 / 45 * x), exact)

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(uniform(self._extend_shape(shape), self.dtype, min=0.0, max=1.0))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._value(value, self.probs)
        return value * log(self.probs) + (1 - value) * log1p(-self.probs) + self._log_constant()

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a number up to a value.

        Args:
            value: Tensor that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        value = clip(self._value(value, self.probs), 0.0, 1.0)
        falling, t = self._falling()
        x = where(falling, value, 1 - value)
        part = expm1(-t * x) / expm1(-t)
        return where(self._near, value, where(falling, part, 1 - part))

    def icdf(self, value: Tensor) -> Tensor:
        """Quantile: the number that is not exceeded with a probability.

        Args:
            value: Tensor of probabilities that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        value = self._value(value, self.probs)
        falling, t = self._falling()
        u = where(falling, value, 1 - value)
        x = -log1p(u * expm1(-t)) / t
        return where(self._near, value, where(falling, x, 1 - x))

    def _falling(self) -> tuple[Tensor, Tensor]:
        """Whether the density falls, and how fast it does: a rising one is looked at from the other end, where no
        exponential is large.
        """
        return self._logit < 0, abs(self._logit)

    def entropy(self) -> Tensor:
        mean = self.mean
        return -mean * log(self.probs) - (1 - mean) * log1p(-self.probs) - self._log_constant()


def _kl(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    mean = p.mean
    cross = mean * log(q.probs) + (1 - mean) * log1p(-q.probs) + q._log_constant()
    return -p.entropy() - cross


register((ContinuousBernoulli, ContinuousBernoulli), _kl)
