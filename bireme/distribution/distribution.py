"""What all distributions have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import sizes, tensor
from bireme.distribution.registry import find
from bireme.ops import exp


class Distribution(Guarded):
    """Base of probability distributions.

    A distribution has a ``batch_shape``, that of its parameters: so many distributions of one kind; and an
    ``event_shape``, that of one draw from one of them. A draw with ``sample(shape)`` has the shape ``shape + batch_shape +
    event_shape``, and ``log_prob`` of it ``shape + batch_shape``.

    A subclass implements what it can of ``mean``, ``variance``, ``sample``, ``rsample``, ``log_prob`` and ``entropy``.

    Args:
        batch_shape: Shape of the parameters. Default: ``()``.
        event_shape: Shape of one draw. Default: ``()``.

    Examples:
        >>> class Sure(bireme.distribution.Distribution):
        ...     def sample(self, shape=()):
        ...         return bireme.ones(self._extend_shape(shape))
        ...     def log_prob(self, value):
        ...         return bireme.log((value == 1).astype("float32"))
        >>> sure = Sure([2])
        >>> sure.sample([3]).shape
        [3, 2]
        >>> sure.prob(bireme.to_tensor([1.0, 2.0])).tolist()
        [1.0, 0.0]
    """

    def __init__(self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = ()):
        self._batch_shape = sizes(f"{type(self).__name__}(batch_shape)", batch_shape)
        self._event_shape = sizes(f"{type(self).__name__}(event_shape)", event_shape)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one draw from one of the distributions."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """Mean of each distribution."""
        raise errors.missing_method(self, "mean")

    @property
    def variance(self) -> Tensor:
        """Variance of each distribution."""
        raise errors.missing_method(self, "variance")

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        """Draw from the distribution.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` and ``event_shape`` are added. Default: ``()``.

        Returns:
            Tensor of shape ``shape + batch_shape + event_shape``.
        """
        with no_grad():
            return self.rsample(shape)

    def rsample(self, shape: Sequence[int] = ()) -> Tensor:
        """Draw from the distribution so that the gradients of the draws reach the parameters.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` and ``event_shape`` are added. Default: ``()``.

        Returns:
            Tensor of shape ``shape + batch_shape + event_shape``.
        """
        raise errors.missing_method(self, "rsample")

    def entropy(self) -> Tensor:
        """Entropy of each distribution, in nats: a tensor of shape ``batch_shape``."""
        raise errors.missing_method(self, "entropy")

    def kl_divergence(self, other: Distribution) -> Tensor:
        """Kullback-Leibler divergence of this distribution from another.

        Args:
            other: Distribution for which a function is registered with ``register_kl``.

        Returns:
            Tensor of the shape that the batch shapes broadcast to.
        """
        return find(type(self), type(other))(self, other)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the probability, or of its density, at a value.

        Args:
            value: Tensor that broadcasts with ``batch_shape + event_shape``.

        Returns:
            Tensor without the axes of ``event_shape``.
        """
        raise errors.missing_method(self, "log_prob")

    def prob(self, value: Tensor) -> Tensor:
        """Probability, or its density, at a value.

        Args:
            value: Tensor that broadcasts with ``batch_shape + event_shape``.

        Returns:
            Tensor without the axes of ``event_shape``.
        """
        return exp(self.log_prob(value))

    def probs(self, value: Tensor) -> Tensor:
        """Probability, or its density, at a value: an older name of ``prob``, where a distribution has it.

        Args:
            value: Tensor that broadcasts with ``batch_shape + event_shape``.

        Returns:
            Tensor without the axes of ``event_shape``.
        """
        raise errors.missing_method(self, "probs")

    def _extend_shape(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of draws of a shape."""
        return self._sizes(sample_shape) + self._batch_shape + self._event_shape

    def _sizes(self, shape: Any) -> tuple[int, ...]:
        return sizes("sample(shape)", shape)

    def _value(self, value: Any, parameter: Tensor, name: str = "value") -> Tensor:
        """What one of the methods is given, in the dtype of the parameters."""
        return tensor(f"{type(self).__name__}({name})", value, parameter.dtype)
