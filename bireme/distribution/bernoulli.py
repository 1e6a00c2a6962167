"""The Bernoulli distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.base.dtype import finfo
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import parameters
from bireme.distribution.draws import logistic
from bireme.distribution.exponential_family import ExponentialFamily
from bireme.distribution.registry import register
from bireme.ops import bernoulli, clip, exp, expand, log, log1p, maximum, ones_like, where, zeros_like


class Bernoulli(ExponentialFamily):
    """Bernoulli distribution: 1 with a probability, and 0 otherwise.

    Args:
        probs: Probability of a one: a number, a list, an array or a tensor. It is clipped to ``[eps, 1 - eps]``, with the
            ``eps`` of the dtype.
        name: Name of the distribution. Default: None.

    Examples:
        >>> bernoulli = bireme.distribution.Bernoulli(bireme.to_tensor([0.25, 0.5]))
        >>> bernoulli.sample([3]).shape
        [3, 2]
        >>> bernoulli.variance.tolist()
        [0.1875, 0.25]
        >>> [round(x, 4) for x in bernoulli.log_prob(bireme.to_tensor([1.0])).tolist()]
        [-1.3863, -0.6931]
        >>> bernoulli.cdf(bireme.to_tensor([0.0])).tolist()
        [0.75, 0.5]
    """

    probs: Any  # the parameter, where other distributions have a method

    def __init__(self, probs: Any, name: str | None = None):
        self.name = name if name is not None else type(self).__name__
        (given,) = parameters("Bernoulli", wide=False, probs=probs)
        self.probs = clipped(given)
        self.dtype = self.probs.dtype
        self.logits = log(self.probs) - log1p(-self.probs)
        super().__init__(self.probs.shape)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return bernoulli(expand(self.probs, self._extend_shape(shape)))

    def rsample(self, shape: Sequence[int] = (), temperature: float = 1.0) -> Tensor:
        """Draw continuous numbers in place of zeros and ones, so that their gradients reach the parameters.

        The sigmoid of them has the relaxed Bernoulli (Gumbel-softmax) distribution, which comes near to zeros and ones as
        the temperature goes to 0.

        Args:
            shape: Shape of the draws, to which ``batch_shape`` is added. Default: ``()``.
            temperature: Positive number that the logits with their noise are divided by. Default: 1.0.

        Returns:
            Tensor of shape ``shape + batch_shape``.
        """
        errors.check_number("rsample(temperature)", temperature)
        return (self.logits + logistic(self._extend_shape(shape), self.dtype)) / temperature

    def log_prob(self, value: Tensor) -> Tensor:
        return self._value(value, self.probs) * self.logits - softplus(self.logits)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a number up to a value.

        Args:
            value: Tensor that broadcasts with ``batch_shape``.

        Returns:
            Tensor of the broadcast shape.
        """
        value = self._value(value, self.probs)
        zeros = zeros_like(value + self.probs)
        return where(value < 0, zeros, where(value < 1, zeros + (1 - self.probs), ones_like(zeros)))

    def entropy(self) -> Tensor:
        return softplus(self.logits) - self.probs * self.logits

    _mean_carrier_measure = 0.0

    @property
    def _natural_parameters(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        return softplus(natural[0])


def clipped(probs: Tensor) -> Tensor:
    """Probabilities that have finite logits."""
    eps = float(finfo(probs.dtype).eps)
    return clip(probs, eps, 1 - eps)


def softplus(x: Tensor) -> Tensor:
    """`log(1 + exp(x))`, with no exponential of a large number."""
    return maximum(x, zeros_like(x)) + log1p(exp(where(x > 0, -x, x)))


def kl_of_probs(p: Tensor, q: Tensor) -> Tensor:
    """Divergence of a trial with one probability from one with another."""
    return p * (log(p) - log(q)) + (1 - p) * (log1p(-p) - log1p(-q))


def _kl(p: Bernoulli, q: Bernoulli) -> Tensor:
    return kl_of_probs(p.probs, q.probs)


register((Bernoulli, Bernoulli), _kl)
