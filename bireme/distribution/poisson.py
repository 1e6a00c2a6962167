"""The Poisson distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters, plogp, xlogy
from bireme.distribution.distribution import Distribution
from bireme.distribution.registry import register
from bireme.ops import arange, expand, lgamma, log, ones_like, poisson, reciprocal, reshape, sum, where

_LARGE = 64.0  # from here on the entropy's series has eight digits
_SUPPORT = 192  # beyond it, a count of a smaller rate has a probability below 1e-30


class Poisson(Distribution):
    """Poisson distribution: of the number of events at a rate.

    Args:
        rate: Mean number of events, non-negative: a number, a list, an array or a tensor. A number is taken as a tensor of
            shape ``[1]``.

    Examples:
        >>> poisson = bireme.distribution.Poisson(bireme.to_tensor([1.0, 2.0]))
        >>> poisson.sample([3]).shape
        [3, 2]
        >>> poisson.mean.tolist()
        [1.0, 2.0]
        >>> [round(x, 4) for x in poisson.log_prob(bireme.to_tensor([2.0])).tolist()]
        [-1.6931, -1.3069]
        >>> [round(x, 4) for x in poisson.entropy().tolist()]
        [1.3048, 1.7049]
    """

    def __init__(self, rate: Any):
        (self.rate,) = parameters("Poisson", rate=at_least_1d(rate))
        self.dtype = self.rate.dtype
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return poisson(expand(self.rate, self._extend_shape(shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._value(value, self.rate)
        return xlogy(value, self.rate) - self.rate - lgamma(value + 1)

    def entropy(self) -> Tensor:
        large = self.rate >= _LARGE
        # both are computed: each at a rate where it is defined
        series = _series(where(large, self.rate, _LARGE * ones_like(self.rate)))
        few = where(large, ones_like(self.rate), self.rate)
        k = reshape(arange(_SUPPORT, dtype=self.dtype), [-1] + [1] * self.rate.ndim)
        log_prob = xlogy(k, few) - few - lgamma(k + 1)
        return where(large, series, -sum(plogp(log_prob), 0))


def at_least_1d(given: Any) -> Any:
    """A number as a list of one, which makes its batch shape (1,)."""
    return [given] if isinstance(given, (int, float)) else given


def _series(rate: Tensor) -> Tensor:
    """The entropy of a large rate: that of the normal distribution, and corrections in powers of the inverse rate."""
    r = reciprocal(rate)
    return 0.5 * (1 + math.log(2 * math.pi)) + 0.5 * log(rate) - r * (1 / 12 + r * (1 / 24 + r * 19 / 360))


def _kl(p: Poisson, q: Poisson) -> Tensor:
    return xlogy(p.rate, p.rate / q.rate) - p.rate + q.rate


register((Poisson, Poisson), _kl)
