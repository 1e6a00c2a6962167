"""Transforms of vectors and of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distribution import constraint, variable
from bireme.distribution.arguments import sizes
from bireme.distribution.bernoulli import softplus
from bireme.distribution.transform.base import Transform, Type
from bireme.distribution.variable import Variable
from bireme.ops import arange, concat, cumprod, cumsum, exp, log, logsumexp, ones_like, reshape, sigmoid, sum, zeros


class ReshapeTransform(Transform):
    """Another shape of an event.

    Args:
        in_event_shape: Shape of one value.
        out_event_shape: Shape of one value of the result, of as many elements.

    Examples:
        >>> transform = bireme.distribution.ReshapeTransform((2, 3), (3, 2))
        >>> transform.forward_shape((5, 2, 3))
        (5, 3, 2)
        >>> transform.forward(bireme.ones([5, 2, 3])).shape
        [5, 3, 2]
        >>> transform.forward_log_det_jacobian(bireme.ones([5, 2, 3])).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0]
    """

    _type = Type.BIJECTION

    def __init__(self, in_event_shape: Sequence[int], out_event_shape: Sequence[int]):
        self._in_event_shape = sizes("ReshapeTransform(in_event_shape)", in_event_shape)
        self._out_event_shape = sizes("ReshapeTransform(out_event_shape)", out_event_shape)
        count = math.prod(self._in_event_shape)
        if math.prod(self._out_event_shape) != count:
            expected = f"a shape of {count} elements, as in_event_shape has"
            raise errors.bad("ReshapeTransform(out_event_shape)", expected, out_event_shape)
        super().__init__()

    @property
    def in_event_shape(self) -> tuple[int, ...]:
        """Shape of one value."""
        return self._in_event_shape

    @property
    def out_event_shape(self) -> tuple[int, ...]:
        """Shape of one value of the result."""
        return self._out_event_shape

    @property
    def _domain(self) -> Variable:
        return variable.Independent(variable.real, len(self._in_event_shape))

    @property
    def _codomain(self) -> Variable:
        return variable.Independent(variable.real, len(self._out_event_shape))

    def _forward(self, x: Tensor) -> Tensor:
        return reshape(x, self._forward_shape(tuple(x.shape), "forward(x)"))

    def _inverse(self, y: Tensor) -> Tensor:
        return reshape(y, self._inverse_shape(tuple(y.shape), "inverse(y)"))

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return zeros(x.shape[: x.ndim - len(self._in_event_shape)], x.dtype)

    def _forward_shape(self, shape: tuple[int, ...], where: str = "forward_shape(shape)") -> tuple[int, ...]:
        return _replaced(where, shape, self._in_event_shape, self._out_event_shape)

    def _inverse_shape(self, shape: tuple[int, ...], where: str = "inverse_shape(shape)") -> tuple[int, ...]:
        return _replaced(where, shape, self._out_event_shape, self._in_event_shape)


def _replaced(where: str, shape: tuple[int, ...], old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    n = len(shape) - len(old)
    if n < 0 or shape[n:] != old:
        raise errors.bad(where, f"a shape that ends with {list(old)}", list(shape), kind=errors.ShapeError)
    return shape[:n] + new


def _need_axis(where: str, shape: tuple[int, ...]) -> None:
    if not shape:
        raise errors.bad(where, "at least one axis", list(shape), kind=errors.ShapeError)


class _Simplex(Transform):
    """Base of transforms of vectors into vectors of positive numbers that sum to 1."""

    @property
    def _domain(self) -> Variable:
        return variable.Independent(variable.real, 1)

    @property
    def _codomain(self) -> Variable:
        return Variable(False, 1, constraint.simplex)


class SoftmaxTransform(_Simplex):
    """Softmax along the last axis. It is not injective, and has no Jacobian; the inverse is the logarithm.

    Examples:
        >>> transform = bireme.distribution.SoftmaxTransform()
        >>> transform.forward(bireme.to_tensor([1.0, 1.0])).tolist()
        [0.5, 0.5]
        >>> [round(v, 4) for v in transform.inverse(bireme.to_tensor([0.5, 0.5])).tolist()]
        [-0.6931, -0.6931]
    """

    _type = Type.OTHER

    def _forward(self, x: Tensor) -> Tensor:
        return exp(x - logsumexp(x, -1, keepdim=True))

    def _inverse(self, y: Tensor) -> Tensor:
        return log(y)

    def _forward_shape(self, shape: tuple[int, ...]) -> Any:
        _need_axis("forward_shape(shape)", shape)
        return shape

    def _inverse_shape(self, shape: tuple[int, ...]) -> Any:
        _need_axis("inverse_shape(shape)", shape)
        return shape


class StickBreakingTransform(_Simplex):
    """Vectors of ``n`` numbers to vectors of ``n + 1`` positive numbers that sum to 1: each number breaks off a part of what
    is left of a stick.

    Examples:
        >>> transform = bireme.distribution.StickBreakingTransform()
        >>> [round(v, 4) for v in transform.forward(bireme.to_tensor([0.0, 0.0])).tolist()]
        [0.3333, 0.3333, 0.3333]
        >>> transform.forward_shape([5, 2]), transform.inverse_shape([5, 3])
        ((5, 3), (5, 2))
    """

    _type = Type.BIJECTION

    def _centred(self, x: Tensor) -> Tensor:
        """Zeros break off equal parts."""
        n = x.shape[-1]
        return x - log(arange(n, 0, -1, dtype=x.dtype))

    def _forward(self, x: Tensor) -> Tensor:
        z = sigmoid(self._centred(x))
        one = ones_like(x[..., :1])
        left = cumprod(1 - z, -1)
        return concat([z, one], -1) * concat([one, left], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        broken = y[..., :-1]
        n = broken.shape[-1]
        left = 1 - cumsum(broken, -1)
        return log(broken) - log(left) + log(arange(n, 0, -1, dtype=y.dtype))

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return sum(log(self._forward(x)[..., :-1]) - softplus(self._centred(x)), -1)

    def _forward_shape(self, shape: tuple[int, ...]) -> Any:
        _need_axis("forward_shape(shape)", shape)
        return (*shape[:-1], shape[-1] + 1)

    def _inverse_shape(self, shape: tuple[int, ...]) -> Any:
        _need_axis("inverse_shape(shape)", shape)
        return (*shape[:-1], shape[-1] - 1)
