"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.gamma import Gamma
from bireme.ops import full_like


class Chi2(Gamma):
    """Chi-squared distribution: of a sum of ``df`` squares of standard normal numbers.

    Args:
        df: Degrees of freedom, positive: a number, a list, an array or a tensor.

    Examples:
        >>> chi2 = bireme.distribution.Chi2(bireme.to_tensor([1.0, 4.0]))
        >>> chi2.mean.tolist(), chi2.variance.tolist()
        ([1.0, 4.0], [2.0, 8.0])
        >>> chi2.sample([3]).shape
        [3, 2]
    """

    def __init__(self, df: Any):
        (self.df,) = parameters("Chi2", wide=False, df=df)
        if not isinstance(df, Tensor) and not bool((self.df > 0).all()):
            raise errors.bad("Chi2(df)", "positive numbers", df)
        super().__init__(self.df * 0.5, full_like(self.df, 0.5))
