"""The LKJ distribution of correlation matrices, by their Cholesky factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.beta import Beta
from bireme.distribution.distribution import Distribution
from bireme.ops import (
    arange,
    concat,
    cumprod,
    diag_embed,
    diagonal,
    eye,
    lgamma,
    log,
    ones_like,
    pad,
    sqrt,
    square,
    standard_normal,
    sum,
    tril,
    unsqueeze,
)


class LKJCholesky(Distribution):
    """Distribution of the Cholesky factors of correlation matrices, whose density is their determinant to a power.

    With a concentration of 1, all correlation matrices are equally likely; with a greater one, those near the identity
    are more so.

    Args:
        dim: Size of the matrices, at least 2. Default: 2.
        concentration: Positive: a number, a list, an array or a tensor. Default: 1.0.
        sample_method: ``'onion'``, row by row from a ball, or ``'cvine'``, from partial correlations: two ways to the same
            distribution. Default: ``'onion'``.

    Examples:
        >>> lkj = bireme.distribution.LKJCholesky(3, 2.0)
        >>> factor = lkj.sample([5])
        >>> factor.shape
        [5, 3, 3]
        >>> bool(bireme.allclose((factor * factor).sum(-1), bireme.ones([5, 3])))
        True
        >>> round(bireme.distribution.LKJCholesky(2).prob(bireme.eye(2)).item(), 4)
        0.5
    """

    def __init__(self, dim: int = 2, concentration: Any = 1.0, sample_method: str = "onion"):
        if not isinstance(dim, int):
            raise errors.bad("LKJCholesky(dim)", "an integer", dim, kind=errors.ArgumentTypeError)
        if dim < 2:
            raise errors.bad("LKJCholesky(dim)", "at least 2", dim)
        if sample_method not in ("onion", "cvine"):
            raise errors.bad("LKJCholesky(sample_method)", "'onion' or 'cvine'", sample_method)
        (self.concentration,) = parameters("LKJCholesky", wide=False, concentration=concentration)
        if not isinstance(concentration, Tensor) and not bool((self.concentration > 0).all()):
            raise errors.bad("LKJCholesky(concentration)", "positive numbers", concentration)
        self.dim, self.sample_method = dim, sample_method
        self.dtype = self.concentration.dtype
        super().__init__(self.concentration.shape, (dim, dim))

    def _row_parameters(self) -> tuple[Tensor, Tensor]:
        """For each row but the first, along a new last axis: half of its number of elements before the diagonal, and the
        second concentration of the sum of their squares.
        """
        i = arange(1, self.dim, dtype=self.dtype)
        return i / 2, unsqueeze(self.concentration, -1) + (self.dim - 1 - i) / 2

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw Cholesky factors.

        Args:
            sample_shape: Shape of the draws, to which ``batch_shape`` and ``[dim, dim]`` are added. Default: ``()``.

        Returns:
            Tensor of lower triangular matrices.
        """
        with no_grad():
            return self._onion(sample_shape) if self.sample_method == "onion" else self._cvine(sample_shape)

    def _onion(self, shape: Sequence[int]) -> Tensor:
        half, second = self._row_parameters()
        squares = unsqueeze(Beta(half, second).sample(shape), -1)
        # rows of a triangle of normal numbers, divided by their lengths, are points on spheres
        normal = tril(standard_normal([*squares.shape[:-1], self.dim - 1], self.dtype))
        rows = normal / sqrt(sum(square(normal), -1, keepdim=True)) * sqrt(squares)
        first = ones_like(squares[..., :1, 0])
        lower = pad(rows, _before(rows.ndim, top=1, right=1))
        return lower + diag_embed(concat([first, sqrt(1 - squares[..., 0])], -1))

    def _cvine(self, shape: Sequence[int]) -> Tensor:
        n = self.dim
        j = arange(n, dtype=self.dtype)
        # the last column is on the diagonal, and never used
        b = unsqueeze(self.concentration, -1) + (n - 2 - j).clip(min=0.0) / 2
        b = unsqueeze(b, -2).expand([*self._batch_shape, n, n])
        partial = tril(2 * Beta(b, b).sample(shape) - 1, -1)
        left = sqrt(cumprod(1 - square(partial), -1))  # of the length of 1, after each column
        before = concat([ones_like(left[..., :1]), left[..., :-1]], -1)
        return tril((partial + eye(n, dtype=self.dtype)) * before)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._value(value, self.concentration)
        half, second = self._row_parameters()
        heights = log(diagonal(value, axis1=-2, axis2=-1)[..., 1:])
        density = sum((2 * second - 2) * heights, -1)
        return density - sum(half * math.log(math.pi) + lgamma(second) - lgamma(second + half), -1)


def _before(ndim: int, top: int, right: int) -> list[int]:
    """The paddings of all axes for zeros above and at the right of matrices."""
    return [0, 0] * (ndim - 2) + [top, 0, 0, right]
