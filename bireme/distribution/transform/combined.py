"""Transforms made of others: over more axes, or side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distribution import variable
from bireme.distribution.arguments import sum_last
from bireme.distribution.transform.base import Transform, check_transforms
from bireme.distribution.variable import Variable
from bireme.ops import stack, unstack


class IndependentTransform(Transform):
    """A transform some of whose last batch axes are taken for axes of the event: its Jacobians are summed over them.

    Args:
        base: Transform.
        reinterpreted_batch_rank: How many axes, a positive integer.

    Examples:
        >>> transform = bireme.distribution.IndependentTransform(bireme.distribution.ExpTransform(), 1)
        >>> transform.forward_log_det_jacobian(bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [3.0, 7.0]
    """

    def __init__(self, base: Transform, reinterpreted_batch_rank: int):
        if not isinstance(base, Transform):
            raise errors.bad("IndependentTransform(base)", "a Transform", base, kind=errors.ArgumentTypeError)
        errors.check_integer("IndependentTransform(reinterpreted_batch_rank)", reinterpreted_batch_rank)
        if reinterpreted_batch_rank <= 0:
            where = "IndependentTransform(reinterpreted_batch_rank)"
            raise errors.bad(where, "a positive integer", reinterpreted_batch_rank)
        self._base, self._reinterpreted_batch_rank = base, reinterpreted_batch_rank
        super().__init__()

    def _is_injective(self) -> bool:
        return self._base._is_injective()

    @property
    def _domain(self) -> Variable:
        return variable.Independent(self._base._domain, self._reinterpreted_batch_rank)

    @property
    def _codomain(self) -> Variable:
        return variable.Independent(self._base._codomain, self._reinterpreted_batch_rank)

    def _forward(self, x: Tensor) -> Tensor:
        return self._base.forward(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._base.inverse(y)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return sum_last(self._base.forward_log_det_jacobian(x), self._reinterpreted_batch_rank)

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._base.forward_shape(shape)

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._base.inverse_shape(shape)


class StackTransform(Transform):
    """Transforms side by side: each is applied to one index of an axis.

    Args:
        transforms: List of transforms, as many as there are indices.
        axis: Axis. Default: 0.

    Examples:
        >>> from bireme.distribution import ExpTransform, StackTransform, TanhTransform
        >>> transform = StackTransform([ExpTransform(), TanhTransform()], 0)
        >>> transform.forward(bireme.to_tensor([[0.0, 0.0], [0.0, 0.0]])).tolist()
        [[1.0, 1.0], [0.0, 0.0]]
    """

    def __init__(self, transforms: Sequence[Transform], axis: int = 0):
        if not transforms:
            raise errors.bad("StackTransform(transforms)", "at least one Transform", transforms)
        check_transforms("StackTransform(transforms)", transforms)
        if not isinstance(axis, int):
            raise errors.bad("StackTransform(axis)", "an integer", axis, kind=errors.ArgumentTypeError)
        self._transforms, self._axis = transforms, axis
        super().__init__()

    @property
    def transforms(self) -> Sequence[Transform]:
        """The transforms."""
        return self._transforms

    @property
    def axis(self) -> int:
        """Axis whose indices have a transform each."""
        return self._axis

    def _is_injective(self) -> bool:
        return all(t._is_injective() for t in self._transforms)

    @property
    def _domain(self) -> Variable:
        return variable.Stack([t._domain for t in self._transforms], self._axis)

    @property
    def _codomain(self) -> Variable:
        return variable.Stack([t._codomain for t in self._transforms], self._axis)

    def _each(self, x: Tensor, method: Callable[[Transform], Callable[[Tensor], Any]]) -> list[Any]:
        n = len(self._transforms)
        if not -x.ndim <= self._axis < x.ndim or x.shape[self._axis] != n:
            expected = f"{n} elements along axis {self._axis}, one for each transform"
            raise errors.bad("StackTransform(x)", expected, x, kind=errors.ShapeError)
        return [method(t)(part) for t, part in zip(self._transforms, unstack(x, self._axis))]

    def _forward(self, x: Tensor) -> Tensor:
        return stack(self._each(x, lambda t: t.forward), self._axis)

    def _inverse(self, y: Tensor) -> Tensor:
        return stack(self._each(y, lambda t: t.inverse), self._axis)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        parts = self._each(x, lambda t: t.forward_log_det_jacobian)
        inside = self._domain.event_rank > max(t._domain.event_rank for t in self._transforms)
        return sum_last(stack(parts, -1), 1) if inside else stack(parts, self._axis % x.ndim)

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._reshaped(shape, lambda t: t.forward_shape)

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return self._reshaped(shape, lambda t: t.inverse_shape)

    def _reshaped(self, shape: tuple[int, ...], method: Callable[[Transform], Callable]) -> Sequence[int]:
        if not shape:
            return shape
        axis = self._axis % len(shape)
        part = tuple(method(self._transforms[0])(shape[:axis] + shape[axis + 1 :]))
        at = axis if self._axis >= 0 else len(part) + 1 + self._axis
        return part[:at] + (shape[axis],) + part[at:]
