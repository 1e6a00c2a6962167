"""The normal distribution, of real and complex numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.distribution import Distribution
from bireme.distribution.registry import register
from bireme.ops import abs, cast, exp, gaussian, log, square

_LOG_2PI = math.log(2 * math.pi)


class Normal(Distribution):
    """Normal distribution with mean ``loc`` and standard deviation ``scale``.

    A complex ``loc`` makes it the circularly symmetric complex normal distribution, whose real and imaginary parts have
    half the variance each.

    Args:
        loc: Mean: a number, a list, an array or a tensor, of real or complex numbers.
        scale: Standard deviation, positive; it broadcasts with ``loc``.
        name: Name of the distribution. Default: None.

    Examples:
        >>> normal = bireme.distribution.Normal(0.0, bireme.to_tensor([1.0, 2.0]))
        >>> normal.batch_shape, normal.sample([3]).shape
        ((2,), [3, 2])
        >>> normal.variance.tolist()
        [1.0, 4.0]
        >>> [round(x, 4) for x in normal.log_prob(bireme.to_tensor([0.0])).tolist()]
        [-0.9189, -1.6121]
        >>> [round(x, 4) for x in normal.entropy().tolist()]
        [1.4189, 2.1121]
    """

    def __init__(self, loc: Any, scale: Any, name: str | None = None):
        self.name = name if name is not None else type(self).__name__
        self.loc, self.scale = parameters("Normal", complex=True, loc=loc, scale=scale)
        if self.scale.dtype.is_complex:
            raise errors.bad("Normal(scale)", "real numbers", scale, kind=errors.ArgumentTypeError)
        self._complex_gaussian = self.loc.dtype.is_complex
        self.dtype = self.loc.dtype
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return square(self.scale)

    def sample(self, shape: Sequence[int] = (), seed: int = 0) -> Tensor:
        """Draw from the distribution. As in Paddle, gradients pass, as those of ``rsample`` do.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` is added. Default: ``()``.
            seed: Other than 0, a seed of this call alone; 0 continues the random state. Default: 0.

        Returns:
            Tensor of shape ``shape + batch_shape``.
        """
        return self._draw(shape, seed)

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        return self._draw(shape, 0)

    def _draw(self, shape: Sequence[int], seed: int) -> Tensor:
        errors.check_integer("sample(seed)", seed)
        return self.loc + self.scale * gaussian(self._extend_shape(shape), seed=seed, dtype=self.dtype)

    def _squares(self, value: Any) -> Tensor:
        """How many standard deviations away, squared."""
        away = self._value(value, self.loc) - self.loc
        return square((abs(away) if self._complex_gaussian else away) / self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._complex_gaussian:
            return cast(-self._squares(value) - 2 * log(self.scale) - math.log(math.pi), self.dtype)
        return -0.5 * self._squares(value) - log(self.scale) - 0.5 * _LOG_2PI

    def probs(self, value: Tensor) -> Tensor:
        """Density at a value.

        Args:
            value: Tensor that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        return exp(self.log_prob(value))

    def entropy(self) -> Tensor:
        if self._complex_gaussian:
            return 1 + math.log(math.pi) + 2 * log(self.scale)
        return 0.5 + 0.5 * _LOG_2PI + log(self.scale)


def _kl(p: Normal, q: Normal) -> Tensor:
    away, ratio = p.loc - q.loc, p.scale / q.scale
    if p._complex_gaussian or q._complex_gaussian:
        return cast(square(ratio) + square(abs(away) / q.scale) - 1 - 2 * log(ratio), away.dtype)
    return 0.5 * (square(ratio) + square(away / q.scale) - 1) - log(ratio)


register((Normal, Normal), _kl)
