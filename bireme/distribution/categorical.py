"""The categorical distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.distribution import Distribution
from bireme.distribution.registry import register
from bireme.ops import cast, exp, expand, log, logsumexp, moveaxis, multinomial, reshape, sum, take_along_axis


class Categorical(Distribution):
    """Categorical distribution: of one of several categories.

    As in Paddle, ``probs``, ``log_prob`` and ``sample`` take ``logits`` for weights, which are divided by their sum, while
    ``entropy`` and ``kl_divergence`` take them for unnormalized logarithms of probabilities.

    Args:
        logits: Weights of the categories along the last axis: a list, an array or a tensor.
        name: Name of the distribution. Default: None.

    Examples:
        >>> categorical = bireme.distribution.Categorical(bireme.to_tensor([1.0, 1.0, 2.0]))
        >>> categorical.probs(bireme.to_tensor([0, 2])).tolist()
        [0.25, 0.5]
        >>> [round(x, 4) for x in categorical.log_prob(bireme.to_tensor([0, 2])).tolist()]
        [-1.3863, -0.6931]
        >>> categorical.sample([5]).shape
        [5]
        >>> round(categorical.entropy().item(), 4)
        0.9753
    """

    def __init__(self, logits: Any, name: str | None = None):
        self.name = name if name is not None else type(self).__name__
        (self.logits,) = parameters("Categorical", logits=logits)
        if self.logits.ndim < 1:
            raise errors.bad("Categorical(logits)", "at least one axis", logits)
        self.dtype = self.logits.dtype
        self._prob = self.logits / sum(self.logits, -1, keepdim=True)
        super().__init__(self.logits.shape[:-1])

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        """Draw categories.

        Args:
            shape: Shape of the draws, to which that of ``logits`` without its last axis is added. Default: ``()``.

        Returns:
            int64 tensor.
        """
        sizes = self._sizes(shape)
        with no_grad():
            weights = reshape(self._prob, [-1, self._prob.shape[-1]])
            drawn = multinomial(weights, math.prod(sizes), True) if math.prod(sizes) else weights[:, :0].astype("int64")
            return reshape(moveaxis(drawn, 0, 1), [*sizes, *self._batch_shape])

    def _normalized(self) -> Tensor:
        return self.logits - logsumexp(self.logits, -1, keepdim=True)

    def probs(self, value: Tensor) -> Tensor:
        """Probability of categories.

        Args:
            value: Integer tensor. For ``logits`` of one axis, or a value of one axis, the probabilities of all its elements
                are returned; otherwise it has as many axes as ``logits``, and is matched with all but the last.

        Returns:
            Tensor of the shape of ``value``; for a value of one axis, of that of ``logits`` with the last axis replaced.
        """
        if not isinstance(value, Tensor):
            raise errors.bad("Categorical(value)", "a Tensor", value, kind=errors.NotATensorError)
        value = value if value.dtype.is_integer else cast(value, "int64")
        if self._prob.ndim == 1:
            return reshape(take_along_axis(self._prob, reshape(value, [-1]), 0), value.shape)
        if value.ndim == 1:
            value = expand(value, [*self._batch_shape, value.shape[0]])
        elif value.ndim != self._prob.ndim:
            raise errors.bad("Categorical(value)", f"1 or {self._prob.ndim} axes", value, kind=errors.ShapeError)
        return take_along_axis(self._prob, value, -1)

    def prob(self, value: Tensor) -> Tensor:
        return self.probs(value)

    def log_prob(self, value: Tensor) -> Tensor:
        return log(self.probs(value))

    def entropy(self) -> Tensor:
        log_prob = self._normalized()
        return -sum(exp(log_prob) * log_prob, -1)


def _kl(p: Categorical, q: Categorical) -> Tensor:
    log_p = p._normalized()
    return sum(exp(log_p) * (log_p - q._normalized()), -1, keepdim=True)


register((Categorical, Categorical), _kl)
