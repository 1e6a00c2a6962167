"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters, plogp, xlogy
from bireme.distribution.bernoulli import kl_of_probs
from bireme.distribution.distribution import Distribution
from bireme.distribution.registry import register
from bireme.ops import arange, binomial, cast, expand, lgamma, reshape, sum, where, zeros_like


class Binomial(Distribution):
    """Binomial distribution: of the number of successes in a number of trials.

    Args:
        total_count: Number of trials, non-negative: an integer, or a list, an array or a tensor.
        probs: Probability of a success, in ``[0, 1]``; it broadcasts with ``total_count``.

    Examples:
        >>> binomial = bireme.distribution.Binomial(4, bireme.to_tensor([0.25, 0.5]))
        >>> binomial.sample([3]).shape
        [3, 2]
        >>> binomial.mean.tolist(), binomial.variance.tolist()
        ([1.0, 2.0], [0.75, 1.0])
        >>> [round(x, 4) for x in binomial.prob(bireme.to_tensor([2.0])).tolist()]
        [0.2109, 0.375]
        >>> [round(x, 4) for x in binomial.entropy().tolist()]
        [1.2216, 1.4075]
    """

    probs: Any  # the parameter, where other distributions have a method

    def __init__(self, total_count: Any, probs: Any):
        self._most = total_count if isinstance(total_count, int) else None
        if isinstance(total_count, Tensor) and not total_count.dtype.is_floating:
            total_count = cast(total_count, probs.dtype if isinstance(probs, Tensor) else "float32")
        self.total_count, self.probs = parameters("Binomial", total_count=total_count, probs=probs)
        self.dtype = self.probs.dtype
        super().__init__(self.probs.shape)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            whole = self._extend_shape(shape)
            return cast(binomial(expand(self.total_count, whole), expand(self.probs, whole)), self.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        return log_mass(self._value(value, self.probs), self.total_count, self.probs)

    def entropy(self) -> Tensor:
        most = int(self.total_count.max()) if self._most is None else self._most
        k = reshape(arange(most + 1, dtype=self.dtype), [-1] + [1] * self.probs.ndim)
        possible = k <= self.total_count
        log_prob = log_mass(where(possible, k, zeros_like(k * self.total_count)), self.total_count, self.probs)
        return -sum(where(possible, plogp(log_prob), zeros_like(log_prob)), 0)


def log_mass(k: Tensor, n: Tensor, probs: Tensor) -> Tensor:
    """Logarithm of the probability of `k` successes in `n` trials."""
    ways = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    return ways + xlogy(k, probs) + xlogy(n - k, 1 - probs)


def _kl(p: Binomial, q: Binomial) -> Tensor:
    return p.total_count * kl_of_probs(p.probs, q.probs)


register((Binomial, Binomial), _kl)
