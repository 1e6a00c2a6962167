"""Random numbers of standard distributions, from which others are made."""

from __future__ import annotations

from collections.abc import Sequence

from bireme.core.base.dtype import DType
from bireme.core.tensor.tensor import Tensor
from bireme.ops import empty, log, standard_gamma, sum


def exponential(shape: Sequence[int], dtype: DType) -> Tensor:
    """Exponential numbers of rate 1, never 0."""
    return empty(list(shape), dtype).exponential_(1.0)


def logistic(shape: Sequence[int], dtype: DType) -> Tensor:
    """Numbers of the logistic distribution: the difference of two of Gumbel's."""
    return log(exponential(shape, dtype)) - log(exponential(shape, dtype))


def dirichlet(concentration: Tensor) -> Tensor:
    """Points of a simplex, along the last axis."""
    parts = standard_gamma(concentration)
    return parts / sum(parts, -1, keepdim=True)
