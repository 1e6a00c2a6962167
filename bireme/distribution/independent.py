"""Distributions whose batch axes are taken for axes of one event."""

from __future__ import annotations

from collections.abc import Sequence

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import sum_last
from bireme.distribution.distribution import Distribution


class Independent(Distribution):
    """A distribution some of whose last batch axes are taken for axes of the event: their probabilities are multiplied.

    Args:
        base: Distribution.
        reinterpreted_batch_rank: How many of the last axes of its batch shape, a positive integer.

    Examples:
        >>> base = bireme.distribution.Normal(bireme.zeros([3, 2]), bireme.ones([3, 2]))
        >>> independent = bireme.distribution.Independent(base, 1)
        >>> independent.batch_shape, independent.event_shape
        ((3,), (2,))
        >>> [round(x, 4) for x in independent.log_prob(bireme.zeros([2])).tolist()]
        [-1.8379, -1.8379, -1.8379]
    """

    def __init__(self, base: Distribution, reinterpreted_batch_rank: int):
        if not isinstance(base, Distribution):
            raise errors.bad("Independent(base)", "a Distribution", base, kind=errors.ArgumentTypeError)
        n = reinterpreted_batch_rank
        errors.check_integer("Independent(reinterpreted_batch_rank)", n)
        if not 0 < n <= len(base.batch_shape):
            expected = f"an integer in [1, {len(base.batch_shape)}], the number of batch axes"
            raise errors.bad("Independent(reinterpreted_batch_rank)", expected, n)
        self._base, self._reinterpreted_batch_rank = base, n
        shape = base.batch_shape
        super().__init__(shape[: len(shape) - n], shape[len(shape) - n :] + base.event_shape)

    @property
    def mean(self) -> Tensor:
        return self._base.mean

    @property
    def variance(self) -> Tensor:
        return self._base.variance

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        return self._base.sample(shape)

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        return self._base.rsample(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_last(self._base.log_prob(value), self._reinterpreted_batch_rank)

    def entropy(self) -> Tensor:
        return sum_last(self._base.entropy(), self._reinterpreted_batch_rank)
