"""The beta distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.dirichlet import Dirichlet, kl_dirichlet
from bireme.distribution.exponential_family import ExponentialFamily
from bireme.distribution.registry import register
from bireme.ops import lgamma, square, stack


class Beta(ExponentialFamily):
    """Beta distribution over the numbers between 0 and 1, of density ``x**(alpha - 1) * (1 - x)**(beta - 1)`` over its integral.

    Args:
        alpha: First concentration, positive: a number, a list, an array or a tensor.
        beta: Second concentration, positive; it broadcasts with ``alpha``.

    Examples:
        >>> beta = bireme.distribution.Beta(bireme.to_tensor([1.0, 3.0]), 1.0)
        >>> beta.sample([3]).shape
        [3, 2]
        >>> beta.mean.tolist()
        [0.5, 0.75]
        >>> [round(x, 4) for x in beta.prob(bireme.to_tensor([0.5])).tolist()]
        [1.0, 0.75]
        >>> [round(x, 4) for x in beta.entropy().tolist()]
        [0.0, -0.4319]
    """

    def __init__(self, alpha: Any, beta: Any):
        self.alpha, self.beta = parameters("Beta", alpha=alpha, beta=beta)
        self._dirichlet = Dirichlet(stack([self.alpha, self.beta], -1))
        super().__init__(self.alpha.shape)

    @property
    def mean(self) -> Tensor:
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Tensor:
        total = self.alpha + self.beta
        return self.alpha * self.beta / (square(total) * (total + 1))

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._dirichlet.sample(shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._value(value, self.alpha)
        return self._dirichlet.log_prob(stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    _mean_carrier_measure = 0.0

    @property
    def _natural_parameters(self) -> tuple[Tensor, ...]:
        return self.alpha - 1, self.beta - 1

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        a, b = natural[0] + 1, natural[1] + 1
        return lgamma(a) + lgamma(b) - lgamma(a + b)


def _kl(p: Beta, q: Beta) -> Tensor:
    return kl_dirichlet(p._dirichlet, q._dirichlet)


register((Beta, Beta), _kl)
