"""The gamma distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters, xlogy
from bireme.distribution.exponential_family import ExponentialFamily
from bireme.distribution.registry import register
from bireme.ops import digamma, expand, lgamma, log, square, standard_gamma


class Gamma(ExponentialFamily):
    """Gamma distribution, of density ``rate**concentration * x**(concentration - 1) * exp(-rate * x) / gamma(concentration)``.

    Args:
        concentration: Shape parameter, positive: a number, a list, an array or a tensor.
        rate: Rate, the inverse of the scale, positive; it broadcasts with ``concentration``.

    Examples:
        >>> gamma = bireme.distribution.Gamma(bireme.to_tensor([1.0, 2.0]), 2.0)
        >>> gamma.sample([3]).shape
        [3, 2]
        >>> gamma.mean.tolist(), gamma.variance.tolist()
        ([0.5, 1.0], [0.25, 0.5])
        >>> [round(x, 4) for x in gamma.log_prob(bireme.to_tensor([1.0])).tolist()]
        [-1.3069, -0.6137]
    """

    def __init__(self, concentration: Any, rate: Any):
        self.concentration, self.rate = parameters("Gamma", wide=False, concentration=concentration, rate=rate)
        self.dtype = self.rate.dtype
        super().__init__(self.rate.shape)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def variance(self) -> Tensor:
        return self.concentration / square(self.rate)

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        """Draw from the distribution so that the gradients of the draws reach the rate; the concentration gets none.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` is added. Default: ``()``.

        Returns:
            Tensor of shape ``shape + batch_shape``.
        """
        return standard_gamma(expand(self.concentration, self._extend_shape(shape))) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._value(value, self.rate)
        a = self.concentration
        return a * log(self.rate) + xlogy(a - 1, value) - self.rate * value - lgamma(a)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - log(self.rate) + lgamma(a) + (1 - a) * digamma(a)

    _mean_carrier_measure = 0.0

    @property
    def _natural_parameters(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        a, b = natural
        return lgamma(a + 1) - (a + 1) * log(-b)


def _kl(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    ratio = q.rate / p.rate
    return (a - b) * digamma(a) - lgamma(a) + lgamma(b) - b * log(ratio) + a * (ratio - 1)


register((Gamma, Gamma), _kl)
