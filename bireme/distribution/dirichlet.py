"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters, xlogy
from bireme.distribution.draws import dirichlet
from bireme.distribution.exponential_family import ExponentialFamily
from bireme.distribution.registry import register
from bireme.ops import digamma, expand, lgamma, sum


class Dirichlet(ExponentialFamily):
    """Dirichlet distribution over vectors of positive numbers that sum to 1.

    Args:
        concentration: Concentrations, positive, along the last axis: a list, an array or a tensor.

    Examples:
        >>> dirichlet = bireme.distribution.Dirichlet(bireme.to_tensor([1.0, 2.0, 1.0]))
        >>> dirichlet.batch_shape, dirichlet.event_shape, dirichlet.sample([5]).shape
        ((), (3,), [5, 3])
        >>> dirichlet.mean.tolist()
        [0.25, 0.5, 0.25]
        >>> round(dirichlet.prob(bireme.to_tensor([0.25, 0.5, 0.25])).item(), 4)
        3.0
    """

    def __init__(self, concentration: Any):
        (self.concentration,) = parameters("Dirichlet", concentration=concentration)
        if self.concentration.ndim < 1:
            raise errors.bad("Dirichlet(concentration)", "at least one axis", concentration)
        shape = self.concentration.shape
        super().__init__(shape[:-1], shape[-1:])

    @property
    def mean(self) -> Tensor:
        return self.concentration / sum(self.concentration, -1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        mean = self.mean
        return mean * (1 - mean) / (sum(self.concentration, -1, keepdim=True) + 1)

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return dirichlet(expand(self.concentration, self._extend_shape(shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._value(value, self.concentration)
        return sum(xlogy(self.concentration - 1, value), -1) - log_beta(self.concentration)

    def entropy(self) -> Tensor:
        a = self.concentration
        total = sum(a, -1)
        return log_beta(a) + (total - a.shape[-1]) * digamma(total) - sum((a - 1) * digamma(a), -1)

    _mean_carrier_measure = 0.0

    @property
    def _natural_parameters(self) -> tuple[Tensor, ...]:
        return (self.concentration - 1,)

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        return log_beta(natural[0] + 1)


def log_beta(x: Tensor) -> Tensor:
    """Logarithm of the beta function of the last axis."""
    return sum(lgamma(x), -1) - lgamma(sum(x, -1))


def kl_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    """Divergence of Dirichlet distributions."""
    a, b = p.concentration, q.concentration
    expected = digamma(a) - digamma(sum(a, -1, keepdim=True))
    return log_beta(b) - log_beta(a) + sum((a - b) * expected, -1)


register((Dirichlet, Dirichlet), kl_dirichlet)
