"""The Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.distribution import Distribution
from bireme.distribution.registry import register
from bireme.ops import atan, log, log1p, square, tan, uniform


class Cauchy(Distribution):
    """Cauchy distribution, also called Lorentz distribution, which has neither mean nor variance.

    Args:
        loc: Mode and median: a number, a list, an array or a tensor.
        scale: Half of the width at half of the maximum, positive; it broadcasts with ``loc``.
        name: Name of the distribution. Default: None.

    Examples:
        >>> cauchy = bireme.distribution.Cauchy(0.0, bireme.to_tensor([1.0, 2.0]))
        >>> cauchy.rsample([3]).shape
        [3, 2]
        >>> [round(x, 4) for x in cauchy.prob(bireme.to_tensor([0.0])).tolist()]
        [0.3183, 0.1592]
        >>> [round(x, 4) for x in cauchy.cdf(bireme.to_tensor([1.0])).tolist()]
        [0.75, 0.6476]
    """

    def __init__(self, loc: Any, scale: Any, name: str | None = None):
        self.name = name if name is not None else type(self).__name__
        self.loc, self.scale = parameters("Cauchy", loc=loc, scale=scale)
        self.dtype = self.loc.dtype
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> NoReturn:
        """There is none: reading it raises ``ValueError``."""
        raise errors.bad("Cauchy.mean", "a distribution that has a mean", described="a Cauchy distribution")

    @property
    def variance(self) -> NoReturn:
        """There is none: reading it raises ``ValueError``."""
        raise errors.bad("Cauchy.variance", "a distribution that has a variance", described="a Cauchy distribution")

    @property
    def stddev(self) -> NoReturn:
        """There is none: reading it raises ``ValueError``."""
        raise errors.bad("Cauchy.stddev", "a distribution that has a variance", described="a Cauchy distribution")

    def sample(self, shape: Sequence[int] = (), name: str | None = None) -> Tensor:
        """Draw from the distribution.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` is added. Default: ``()``.
            name: Has no effect. Default: None.

        Returns:
            Tensor of shape ``shape + batch_shape``.
        """
        with no_grad():
            return self.rsample(shape, name)

    def rsample(self, shape: Sequence[int] = (), name: str | None = None) -> Tensor:
        """Draw from the distribution so that the gradients of the draws reach the parameters.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` is added. Default: ``()``.
            name: Has no effect. Default: None.

        Returns:
            Tensor of shape ``shape + batch_shape``.
        """
        u = uniform(self._extend_shape(shape), self.dtype, min=-0.5, max=0.5)
        return self.loc + self.scale * tan(math.pi * u)

    def _standard(self, value: Any) -> Tensor:
        return (self._value(value, self.loc) - self.loc) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -log1p(square(self._standard(value))) - log(math.pi * self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a number up to a value.

        Args:
            value: Tensor that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        return atan(self._standard(value)) / math.pi + 0.5

    def entropy(self) -> Tensor:
        return log(4 * math.pi * self.scale)


def _kl(p: Cauchy, q: Cauchy) -> Tensor:
    return log((square(p.scale + q.scale) + square(p.loc - q.loc)) / (4 * p.scale * q.scale))


register((Cauchy, Cauchy), _kl)
