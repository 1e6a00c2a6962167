"""The log-normal distribution."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.distribution.normal import Normal
from bireme.distribution.registry import find, register
from bireme.distribution.transform.base import TransformedDistribution
from bireme.distribution.transform.elementwise import ExpTransform
from bireme.ops import exp, expm1, square


class LogNormal(TransformedDistribution):
    """Log-normal distribution: of the exponential of a normal number.

    Args:
        loc: Mean of the logarithm: a number, a list, an array or a tensor.
        scale: Standard deviation of the logarithm, positive; it broadcasts with ``loc``.

    Examples:
        >>> lognormal = bireme.distribution.LogNormal(0.0, bireme.to_tensor([1.0, 2.0]))
        >>> lognormal.sample([3]).shape
        [3, 2]
        >>> [round(x, 4) for x in lognormal.mean.tolist()]
        [1.6487, 7.3891]
        >>> [round(x, 4) for x in lognormal.log_prob(bireme.to_tensor([1.0])).tolist()]
        [-0.9189, -1.6121]
    """

    _base: Normal

    def __init__(self, loc: Any, scale: Any):
        base = Normal(loc, scale)
        self.loc, self.scale = base.loc, base.scale
        super().__init__(base, [ExpTransform()])

    @property
    def mean(self) -> Tensor:
        return exp(self.loc + square(self.scale) / 2)

    @property
    def variance(self) -> Tensor:
        spread = square(self.scale)
        return expm1(spread) * exp(2 * self.loc + spread)

    def probs(self, value: Tensor) -> Tensor:
        """Density at a value.

        Args:
            value: Tensor that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        return exp(self.log_prob(value))

    def entropy(self) -> Tensor:
        return self._base.entropy() + self.loc


def _kl(p: LogNormal, q: LogNormal) -> Tensor:
    return find(Normal, Normal)(p._base, q._base)


register((LogNormal, LogNormal), _kl)
