"""The multinomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters, xlogy
from bireme.distribution.binomial import log_mass
from bireme.distribution.categorical import Categorical
from bireme.distribution.distribution import Distribution
from bireme.ops import arange, cast, exp, full_like, lgamma, one_hot, reshape, sum, zeros_like


class Multinomial(Distribution):
    """Multinomial distribution: of how often each category comes in a number of draws.

    Args:
        total_count: Number of draws, a positive integer.
        probs: Probabilities of the categories along the last axis, which are divided by their sum: a list, an array or a
            tensor.

    Examples:
        >>> multinomial = bireme.distribution.Multinomial(4, bireme.to_tensor([0.25, 0.25, 0.5]))
        >>> multinomial.batch_shape, multinomial.event_shape
        ((), (3,))
        >>> multinomial.sample([5]).sum(-1).tolist()
        [4.0, 4.0, 4.0, 4.0, 4.0]
        >>> multinomial.mean.tolist(), multinomial.variance.tolist()
        ([1.0, 1.0, 2.0], [0.75, 0.75, 1.0])
        >>> round(multinomial.prob(bireme.to_tensor([1.0, 1.0, 2.0])).item(), 4)
        0.1875
    """

    probs: Any  # the parameter, where other distributions have a method

    def __init__(self, total_count: int, probs: Any):
        if not isinstance(total_count, int) or total_count < 1:
            raise errors.bad("Multinomial(total_count)", "a positive integer", total_count)
        (given,) = parameters("Multinomial", probs=probs)
        if given.ndim < 1:
            raise errors.bad("Multinomial(probs)", "at least one axis", probs)
        self.probs = given / sum(given, -1, keepdim=True)
        self.total_count = total_count
        self._categorical = Categorical(self.probs)
        super().__init__(given.shape[:-1], given.shape[-1:])

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = self._categorical.sample([self.total_count, *self._sizes(shape)])
            return cast(sum(one_hot(drawn, self.probs.shape[-1]), 0), self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._value(value, self.probs)
        return lgamma(sum(value, -1) + 1) + sum(xlogy(value, self.probs) - lgamma(value + 1), -1)

    def entropy(self) -> Tensor:
        n = self.total_count
        # the mean of log(x!) of each category, whose count has a binomial distribution
        k = reshape(arange(n + 1, dtype=self.probs.dtype), [-1] + [1] * self.probs.ndim)
        mass = log_mass(k + zeros_like(self.probs), full_like(self.probs, n), self.probs)
        factorials = sum(exp(mass) * lgamma(k + 1), 0)
        of_categories = -sum(xlogy(self.probs, self.probs), -1)
        total = lgamma(full_like(of_categories, n + 1))
        return n * of_categories - total + sum(factorials, -1)
