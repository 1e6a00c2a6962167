"""Student's t-distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.chi2 import Chi2
from bireme.distribution.distribution import Distribution
from bireme.ops import digamma, full_like, lgamma, log, log1p, sqrt, square, standard_normal, where


class StudentT(Distribution):
    """Student's t-distribution, shifted and scaled.

    Args:
        df: Degrees of freedom, positive: a number, a list, an array or a tensor.
        loc: What is added; it broadcasts with ``df``.
        scale: What it is multiplied by, positive; it broadcasts with ``df``.
        name: Name of the distribution. Default: None.

    Examples:
        >>> student = bireme.distribution.StudentT(bireme.to_tensor([1.0, 3.0]), 0.0, 1.0)
        >>> student.sample([3]).shape
        [3, 2]
        >>> student.mean.tolist(), student.variance.tolist()
        ([nan, 0.0], [nan, 3.0])
        >>> [round(x, 4) for x in student.prob(bireme.to_tensor([0.0])).tolist()]
        [0.3183, 0.3676]
    """

    def __init__(self, df: Any, loc: Any, scale: Any, name: str | None = None):
        self.name = name if name is not None else type(self).__name__
        self.df, self.loc, self.scale = parameters("StudentT", df=df, loc=loc, scale=scale)
        for word, given, used in (("df", df, self.df), ("scale", scale, self.scale)):
            if not isinstance(given, Tensor) and not bool((used > 0).all()):
                raise errors.bad(f"StudentT({word})", "positive numbers", given)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape)

    @property
    def mean(self) -> Tensor:
        """Mean of each distribution; NaN for up to one degree of freedom."""
        return where(self.df > 1, self.loc, full_like(self.loc, math.nan))

    @property
    def variance(self) -> Tensor:
        """Variance of each distribution; infinite for up to two degrees of freedom, NaN for up to one."""
        finite = self.df > 2
        exact = square(self.scale) * self.df / (where(finite, self.df, full_like(self.df, 3.0)) - 2)
        infinite = where(self.df > 1, full_like(exact, math.inf), full_like(exact, math.nan))
        return where(finite, exact, infinite)

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        """Draw from the distribution. As in Paddle, gradients pass to ``loc`` and ``scale``.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` is added. Default: ``()``.

        Returns:
            Tensor of shape ``shape + batch_shape``.
        """
        normal = standard_normal(self._extend_shape(shape), self.df.dtype)
        return self.loc + self.scale * normal * sqrt(self.df / self._chi2.sample(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self._value(value, self.loc) - self.loc) / self.scale
        half = (self.df + 1) / 2
        scaled = log(self.scale) + 0.5 * (log(self.df) + math.log(math.pi)) + lgamma(self.df / 2) - lgamma(half)
        return -half * log1p(square(z) / self.df) - scaled

    def entropy(self) -> Tensor:
        half, whole = self.df / 2, (self.df + 1) / 2
        log_beta = lgamma(half) + 0.5 * math.log(math.pi) - lgamma(whole)
        return log(self.scale) + whole * (digamma(whole) - digamma(half)) + 0.5 * log(self.df) + log_beta
