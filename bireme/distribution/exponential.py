"""The exponential distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.draws import exponential
from bireme.distribution.exponential_family import ExponentialFamily
from bireme.distribution.registry import register
from bireme.ops import expm1, log, log1p, reciprocal, square


class Exponential(ExponentialFamily):
    """Exponential distribution, of density ``rate * exp(-rate * x)`` for ``x`` from 0.

    Args:
        rate: Rate, positive: a number, a list, an array or a tensor.

    Examples:
        >>> exponential = bireme.distribution.Exponential(bireme.to_tensor([1.0, 2.0]))
        >>> exponential.sample([3]).shape
        [3, 2]
        >>> exponential.mean.tolist()
        [1.0, 0.5]
        >>> exponential.log_prob(bireme.to_tensor([1.0])).tolist()[0]
        -1.0
        >>> [round(x, 4) for x in exponential.icdf(bireme.to_tensor([0.5])).tolist()]
        [0.6931, 0.3466]
    """

    def __init__(self, rate: Any):
        (self.rate,) = parameters("Exponential", wide=False, rate=rate)
        self.dtype = self.rate.dtype
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Tensor:
        return reciprocal(self.rate)

    @property
    def variance(self) -> Tensor:
        return square(reciprocal(self.rate))

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        return exponential(self._extend_shape(shape), self.dtype) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        return log(self.rate) - self.rate * self._value(value, self.rate)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a number up to a value.

        Args:
            value: Tensor that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        return -expm1(-self.rate * self._value(value, self.rate))

    def icdf(self, value: Tensor) -> Tensor:
        """Quantile: the number that is not exceeded with a probability.

        Args:
            value: Tensor of probabilities that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        return -log1p(-self._value(value, self.rate)) / self.rate

    def entropy(self) -> Tensor:
        return 1 - log(self.rate)

    _mean_carrier_measure = 0.0

    @property
    def _natural_parameters(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        return -log(-natural[0])


def _kl(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - log(ratio) - 1


register((Exponential, Exponential), _kl)
