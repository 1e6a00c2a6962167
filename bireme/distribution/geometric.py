"""The geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters, xlogy
from bireme.distribution.bernoulli import kl_of_probs
from bireme.distribution.distribution import Distribution
from bireme.distribution.draws import exponential
from bireme.distribution.registry import register
from bireme.ops import exp, expm1, floor, log, log1p, reciprocal, sqrt, square


class Geometric(Distribution):
    """Geometric distribution: of the number of failures before the first success.

    Args:
        probs: Probability of a success, in ``(0, 1]``: a number, a list, an array or a tensor.

    Examples:
        >>> geometric = bireme.distribution.Geometric(bireme.to_tensor([0.5, 0.25]))
        >>> geometric.sample([3]).shape
        [3, 2]
        >>> geometric.mean.tolist(), geometric.variance.tolist()
        ([1.0, 3.0], [2.0, 12.0])
        >>> geometric.pmf(bireme.to_tensor([1.0])).tolist()
        [0.25, 0.1875]
        >>> [round(p, 4) for p in geometric.cdf(bireme.to_tensor([1.0])).tolist()]
        [0.75, 0.4375]
    """

    probs: Any  # the parameter, where other distributions have a method

    def __init__(self, probs: Any):
        (self.probs,) = parameters("Geometric", probs=probs)
        super().__init__(self.probs.shape)

    @property
    def mean(self) -> Tensor:
        return reciprocal(self.probs) - 1

    @property
    def variance(self) -> Tensor:
        return (1 - self.probs) / square(self.probs)

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each distribution."""
        return sqrt(self.variance)

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        """Draw from the distribution; the gradients of whole numbers are 0.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` is added. Default: ``()``.

        Returns:
            Tensor of shape ``shape + batch_shape``.
        """
        return floor(exponential(self._extend_shape(shape), self.probs.dtype) / -log1p(-self.probs))

    def pmf(self, k: Tensor) -> Tensor:
        """Probability of a number of failures.

        Args:
            k: Tensor of non-negative integers that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        return exp(self.log_pmf(k))

    def log_pmf(self, k: Tensor) -> Tensor:
        """Logarithm of the probability of a number of failures.

        Args:
            k: Tensor of non-negative integers that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        return xlogy(self._value(k, self.probs, "k"), 1 - self.probs) + log(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        return self.log_pmf(value)

    def cdf(self, k: Tensor) -> Tensor:
        """Probability of up to a number of failures.

        Args:
            k: Tensor of non-negative integers that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        return -expm1((self._value(k, self.probs, "k") + 1) * log1p(-self.probs))

    def entropy(self) -> Tensor:
        return -(xlogy(1 - self.probs, 1 - self.probs) / self.probs + log(self.probs))


def _kl(p: Geometric, q: Geometric) -> Tensor:
    # each trial counts, and there are 1 / p of them
    return kl_of_probs(p.probs, q.probs) / p.probs


register((Geometric, Geometric), _kl)
