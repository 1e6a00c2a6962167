"""Transforms of random variables, and what a call of one makes: a chain, or the distribution of transformed numbers."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.tensor import Tensor
from bireme.distribution import variable
from bireme.distribution.arguments import sizes, sum_last
from bireme.distribution.distribution import Distribution
from bireme.distribution.independent import Independent
from bireme.distribution.variable import Variable


class Type(enum.Enum):
    """What a transform is as a mapping.

    Examples:
        >>> from bireme.distribution.transform import Type
        >>> Type.is_injective(Type.BIJECTION), Type.is_injective(Type.SURJECTION)
        (True, False)
    """

    BIJECTION = "bijection"
    INJECTION = "injection"
    SURJECTION = "surjection"
    OTHER = "other"

    @classmethod
    def is_injective(cls, _type: Type) -> bool:
        """Whether different numbers stay different.

        Args:
            _type: Type.

        Returns:
            A bool.
        """
        return _type in (cls.BIJECTION, cls.INJECTION)


class Transform(Guarded):
    """Base of transforms: differentiable functions of random variables, with their inverses and Jacobians.

    Called with a tensor, a transform returns ``forward`` of it; with a distribution, the ``TransformedDistribution``; with
    a transform, the chain of itself and then that one.

    A subclass implements ``_forward``, ``_inverse``, and ``_forward_log_det_jacobian`` or ``_inverse_log_det_jacobian``; it
    overrides ``_forward_shape`` and ``_inverse_shape`` if shapes change, ``_type``, and ``_domain`` and ``_codomain`` if they
    are not the real numbers.

    Examples:
        >>> class Cube(bireme.distribution.Transform):
        ...     def _forward(self, x):
        ...         return x**3
        ...     def _inverse(self, y):
        ...         return y ** (1 / 3)
        ...     def _forward_log_det_jacobian(self, x):
        ...         return bireme.log(3 * x**2)
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> Cube().forward(x).tolist()
        [1.0, 8.0]
        >>> [round(v, 4) for v in Cube().forward_log_det_jacobian(x).tolist()]
        [1.0986, 2.4849]
    """

    _type: ClassVar[Type] = Type.INJECTION

    def __init__(self) -> None:
        pass

    @classmethod
    def _of_type_injective(cls) -> bool:
        return Type.is_injective(cls._type)

    def _is_injective(self) -> bool:
        return self._of_type_injective()

    @property
    def _domain(self) -> Variable:
        return variable.real

    @property
    def _codomain(self) -> Variable:
        return variable.real

    def __call__(self, input: Any) -> Any:
        """Transform a tensor, a distribution or a transform.

        Args:
            input: Tensor, Distribution or Transform.

        Returns:
            Tensor, TransformedDistribution or ChainTransform.
        """
        if isinstance(input, Distribution):
            return TransformedDistribution(input, [self])
        if isinstance(input, Transform):
            return ChainTransform([self, input])
        return self.forward(input)

    def forward(self, x: Tensor) -> Tensor:
        """Transform a tensor.

        Args:
            x: Tensor with at least the axes of one value.

        Returns:
            Tensor.
        """
        return self._forward(self._checked("forward(x)", x, self._domain))

    def inverse(self, y: Tensor) -> Tensor:
        """Transform a tensor back.

        Args:
            y: Tensor with at least the axes of one value.

        Returns:
            Tensor; where several numbers have the same image, a tuple of tensors.
        """
        return self._inverse(self._checked("inverse(y)", y, self._codomain))

    def forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        """Logarithm of the absolute value of the determinant of the Jacobian of ``forward``.

        Args:
            x: Tensor with at least the axes of one value.

        Returns:
            Tensor without the axes of one value.

        Raises:
            NotImplementedError: If the transform is not injective.
        """
        where = "forward_log_det_jacobian(x)"
        x = self._checked(where, x, self._domain)
        if not self._is_injective():
            described = f"{type(self).__name__}, which is not"
            raise errors.bad(where, "an injective transform", described=described, kind=NotImplementedError)
        if hasattr(self, "_forward_log_det_jacobian"):
            return self._forward_log_det_jacobian(x)
        if hasattr(self, "_inverse_log_det_jacobian"):
            return -self._inverse_log_det_jacobian(self.forward(x))
        raise errors.missing_method(self, "_forward_log_det_jacobian")

    def inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        """Logarithm of the absolute value of the determinant of the Jacobian of ``inverse``.

        Args:
            y: Tensor with at least the axes of one value.

        Returns:
            Tensor without the axes of one value.
        """
        y = self._checked("inverse_log_det_jacobian(y)", y, self._codomain)
        if hasattr(self, "_inverse_log_det_jacobian"):
            return self._inverse_log_det_jacobian(y)
        if hasattr(self, "_forward_log_det_jacobian"):
            return -self._forward_log_det_jacobian(self.inverse(y))
        raise errors.missing_method(self, "_inverse_log_det_jacobian")

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of ``forward`` of a tensor.

        Args:
            shape: Shape of the tensor.

        Returns:
            Shape of the result, a tuple.
        """
        return self._forward_shape(sizes("forward_shape(shape)", shape))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of ``inverse`` of a tensor.

        Args:
            shape: Shape of the tensor.

        Returns:
            Shape of the result, a tuple.
        """
        return self._inverse_shape(sizes("inverse_shape(shape)", shape))

    def _checked(self, where: str, x: Any, of: Variable) -> Tensor:
        if not isinstance(x, Tensor):
            raise errors.bad(where, "a Tensor", x, kind=errors.NotATensorError)
        if x.ndim < of.event_rank:
            raise errors.bad(where, f"at least {of.event_rank} axes", x, kind=errors.ShapeError)
        return x

    def _forward(self, x: Tensor) -> Tensor:
        raise errors.missing_method(self, "_forward")

    def _inverse(self, y: Tensor) -> Tensor:
        raise errors.missing_method(self, "_inverse")

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return shape

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        return shape


def check_transforms(where: str, transforms: Any) -> None:
    """Raise for anything but transforms."""
    wrong = (
        [t for t in transforms if not isinstance(t, Transform)] if isinstance(transforms, Sequence) else [transforms]
    )
    if wrong:
        raise errors.bad(where, "a list of Transforms", transforms, kind=errors.ArgumentTypeError)


class ChainTransform(Transform):
    """Transforms one after the other.

    Args:
        transforms: List of transforms; the first one is applied first.

    Examples:
        >>> from bireme.distribution import AffineTransform, ChainTransform, ExpTransform
        >>> chain = ChainTransform([AffineTransform(bireme.to_tensor(0.0), bireme.to_tensor(2.0)), ExpTransform()])
        >>> [round(v, 4) for v in chain.forward(bireme.to_tensor([0.0, 0.5])).tolist()]
        [1.0, 2.7183]
        >>> [round(v, 4) for v in chain.forward_log_det_jacobian(bireme.to_tensor([0.0, 0.5])).tolist()]
        [0.6931, 1.6931]
    """

    def __init__(self, transforms: Sequence[Transform]):
        check_transforms("ChainTransform(transforms)", transforms)
        self.transforms = transforms
        super().__init__()

    def _is_injective(self) -> bool:
        return all(t._is_injective() for t in self.transforms)

    @property
    def _domain(self) -> Variable:
        if not self.transforms:
            return variable.real
        rank = self.transforms[-1]._codomain.event_rank
        for t in reversed(self.transforms):
            rank = max(rank + t._domain.event_rank - t._codomain.event_rank, t._domain.event_rank)
        first = self.transforms[0]._domain
        return variable.Independent(first, rank - first.event_rank)

    @property
    def _codomain(self) -> Variable:
        if not self.transforms:
            return variable.real
        rank = self.transforms[0]._domain.event_rank
        for t in self.transforms:
            rank = max(rank + t._codomain.event_rank - t._domain.event_rank, t._codomain.event_rank)
        last = self.transforms[-1]._codomain
        return variable.Independent(last, rank - last.event_rank)

    def _forward(self, x: Tensor) -> Tensor:
        for t in self.transforms:
            x = t.forward(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for t in reversed(self.transforms):
            y = t.inverse(y)
        return y

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        out: Any = 0.0
        rank = self._domain.event_rank
        for t in self.transforms:
            out = out + sum_last(t.forward_log_det_jacobian(x), rank - t._domain.event_rank)
            x = t.forward(x)
            rank += t._codomain.event_rank - t._domain.event_rank
        return out

    def _forward_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        for t in self.transforms:
            shape = tuple(t.forward_shape(shape))
        return shape

    def _inverse_shape(self, shape: tuple[int, ...]) -> Sequence[int]:
        for t in reversed(self.transforms):
            shape = tuple(t.inverse_shape(shape))
        return shape


class TransformedDistribution(Distribution):
    """Distribution of the numbers that transforms make of those of another distribution.

    Args:
        base: Distribution.
        transforms: List of transforms; the first one is applied first.

    Examples:
        >>> from bireme.distribution import AffineTransform, Normal, TransformedDistribution
        >>> shift = AffineTransform(bireme.to_tensor(1.0), bireme.to_tensor(2.0))
        >>> distribution = TransformedDistribution(Normal(0.0, 1.0), [shift])
        >>> round(distribution.log_prob(bireme.to_tensor(1.0)).item(), 4)
        -1.6121
        >>> distribution.sample([3]).shape
        [3]
    """

    def __init__(self, base: Distribution, transforms: Sequence[Transform]):
        owner = type(self).__name__
        if not isinstance(base, Distribution):
            raise errors.bad(f"{owner}(base)", "a Distribution", base, kind=errors.ArgumentTypeError)
        if isinstance(transforms, ChainTransform):
            transforms = transforms.transforms
        check_transforms(f"{owner}(transforms)", transforms)
        chain = ChainTransform(transforms)
        needed = chain._domain.event_rank
        whole = base.batch_shape + base.event_shape
        if len(whole) < needed:
            described = f"a {type(base).__name__} of shape {list(whole)}"
            raise errors.bad(f"{owner}(base)", f"at least {needed} axes", described=described, kind=errors.ShapeError)
        missing = needed - len(base.event_shape)
        self._base, self._transforms = base, transforms
        out = tuple(chain.forward_shape(whole))
        rank = chain._codomain.event_rank + max(-missing, 0)
        # batch axes that the transforms add get numbers of their own
        back = tuple(chain.inverse_shape(out))
        self._added = back[: len(back) - len(whole)]
        self._source = Independent(base, missing) if missing > 0 else base
        super().__init__(out[: len(out) - rank], out[len(out) - rank :])

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        """Draw from the distribution. As in Paddle, gradients reach the parameters of the transforms.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` and ``event_shape`` are added. Default: ``()``.

        Returns:
            Tensor of shape ``shape + batch_shape + event_shape``.
        """
        return self._apply(self._base.sample(self._sizes(shape) + self._added))

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        return self._apply(self._base.rsample(self._sizes(shape) + self._added))

    def _apply(self, x: Tensor) -> Tensor:
        for t in self._transforms:
            x = t.forward(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if not isinstance(value, Tensor):
            raise errors.bad(f"{type(self).__name__}(value)", "a Tensor", value, kind=errors.NotATensorError)
        out: Any = 0.0
        rank = len(self._event_shape)
        for t in reversed(self._transforms):
            x = t.inverse(value)
            rank += t._domain.event_rank - t._codomain.event_rank
            out = out - sum_last(t.forward_log_det_jacobian(x), rank - t._domain.event_rank)
            value = x
        return out + sum_last(self._source.log_prob(value), rank - len(self._source.event_shape))
