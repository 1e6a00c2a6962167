"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.distribution import Distribution
from bireme.distribution.registry import register
from bireme.ops import (
    cast,
    cholesky,
    diagonal,
    expand,
    eye,
    flip,
    log,
    matmul,
    matrix_transpose,
    square,
    standard_normal,
    sum,
    triangular_solve,
    unsqueeze,
)  # fmt: skip

_LOG_2PI = math.log(2 * math.pi)
_MATRICES = "exactly one of covariance_matrix, precision_matrix and scale_tril"


class MultivariateNormal(Distribution):
    """Normal distribution of vectors, by its covariance, its precision, or the lower triangular factor of the covariance.

    Args:
        loc: Mean, a vector or a batch of vectors; a number stands for a vector of one element.
        covariance_matrix: Covariance, positive definite matrices. Default: None.
        precision_matrix: Inverse of the covariance. Default: None.
        scale_tril: Lower triangular matrices with a positive diagonal; their product with their transpose is the
            covariance. Default: None.

    Examples:
        >>> covariance = bireme.to_tensor([[2.0, 1.0], [1.0, 2.0]])
        >>> normal = bireme.distribution.MultivariateNormal(bireme.zeros([2]), covariance_matrix=covariance)
        >>> normal.event_shape, normal.sample([3]).shape
        ((2,), [3, 2])
        >>> [round(x, 4) for x in normal.variance.tolist()]
        [2.0, 2.0]
        >>> round(normal.log_prob(bireme.zeros([2])).item(), 4), round(normal.entropy().item(), 4)
        (-2.3872, 3.3872)
    """

    def __init__(self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None):
        matrices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: m for name, m in matrices.items() if m is not None}
        if len(given) != 1:
            described = " and ".join(given) or "none of them"
            raise errors.bad("MultivariateNormal()", _MATRICES, described=described)
        (name,) = given
        (mean,), (matrix,) = parameters("MultivariateNormal", loc=loc), parameters("MultivariateNormal", **given)
        if isinstance(loc, Tensor) or not isinstance(given[name], Tensor):
            matrix = cast(matrix, mean.dtype)
        mean = cast(mean, matrix.dtype)
        if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
            expected = "square matrices, with optional batch axes before them"
            raise errors.bad(f"MultivariateNormal({name})", expected, given[name], kind=errors.ShapeError)
        self.dtype = matrix.dtype
        self.loc, matrix = _together(name, mean if mean.ndim else unsqueeze(mean, 0), matrix)
        self.covariance_matrix = matrix if name == "covariance_matrix" else None
        self.precision_matrix = matrix if name == "precision_matrix" else None
        self.scale_tril = matrix if name == "scale_tril" else None
        self._tril = matrix if name == "scale_tril" else cholesky(matrix) if name[0] == "c" else _of_precision(matrix)
        super().__init__(self.loc.shape[:-1], self.loc.shape[-1:])

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Variance of each element of the vectors."""
        return sum(square(self._tril), -1)

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        normal = standard_normal(self._extend_shape(shape), self.dtype)
        return self.loc + matmul(self._tril, unsqueeze(normal, -1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        away = self._value(value, self.loc) - self.loc
        return -0.5 * (_mahalanobis(self._tril, away) + self.loc.shape[-1] * _LOG_2PI) - self._half_log_det()

    def entropy(self) -> Tensor:
        return 0.5 * self.loc.shape[-1] * (1 + _LOG_2PI) + self._half_log_det()

    def _half_log_det(self) -> Tensor:
        return sum(log(diagonal(self._tril, axis1=-2, axis2=-1)), -1)


def _together(name: str, loc: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors and matrices with the same batch axes and sizes."""
    try:
        n = matrix.shape[-1]
        *batch, _ = np.broadcast_shapes(tuple(loc.shape), (*matrix.shape[:-2], n))
        if loc.shape[-1] not in (1, n):
            raise ValueError
    except ValueError:
        expected = f"matrices for vectors of shape {list(loc.shape)}"
        raise errors.bad(f"MultivariateNormal({name})", expected, matrix, kind=errors.ShapeError) from None
    return expand(loc, [*batch, n]), expand(matrix, [*batch, n, n])


def _of_precision(precision: Tensor) -> Tensor:
    """The lower triangular factor of a precision's inverse: no inverse of a full matrix is taken."""
    # the precision read backwards has the factor f: then the inverse of f, transposed and read backwards, is wanted
    upper = flip(cholesky(flip(precision, [-2, -1])), [-2, -1])
    return triangular_solve(matrix_transpose(upper), _like_eye(precision), upper=False)


def _like_eye(matrix: Tensor) -> Tensor:
    return expand(eye(matrix.shape[-1], dtype=matrix.dtype), matrix.shape)


def _mahalanobis(tril: Tensor, away: Tensor) -> Tensor:
    """The squared distance, in units of the factor's matrix."""
    shape = np.broadcast_shapes(tuple(away.shape), tuple(tril.shape[:-1]))
    n = shape[-1]
    tril, away = expand(tril, [*shape[:-1], n, n]), expand(away, list(shape))
    return sum(square(triangular_solve(tril, unsqueeze(away, -1), upper=False).squeeze(-1)), -1)


def _kl(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    n = p.loc.shape[-1]
    batch = np.broadcast_shapes(p.batch_shape, q.batch_shape)
    mine, theirs = expand(p._tril, [*batch, n, n]), expand(q._tril, [*batch, n, n])
    trace = sum(square(triangular_solve(theirs, mine, upper=False)), [-2, -1])
    distance = _mahalanobis(q._tril, p.loc - q.loc)
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace + distance - n)


register((MultivariateNormal, MultivariateNormal), _kl)
