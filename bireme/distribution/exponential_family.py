"""Distributions whose density is an exponential of natural parameters: entropies follow from the log normalizer."""

from __future__ import annotations

from bireme.core.base import errors
from bireme.core.tensor.backward import grad
from bireme.core.tensor.grad_mode import enable_grad, is_grad_enabled
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.arguments import sum_last
from bireme.distribution.distribution import Distribution
from bireme.distribution.registry import register


class ExponentialFamily(Distribution):
    """Base of distributions with a density ``exp(sum(natural * statistics(x)) - log_normalizer(natural) + carrier(x))``.

    A subclass that gives ``_natural_parameters`` (a tuple of tensors), ``_log_normalizer`` (a function of them) and
    ``_mean_carrier_measure`` (the mean of ``carrier``) has an entropy and a divergence from others of its kind.

    Args:
        batch_shape: Shape of the parameters. Default: ``()``.
        event_shape: Shape of one draw. Default: ``()``.

    Examples:
        >>> class Rate(bireme.distribution.ExponentialFamily):
        ...     def __init__(self, rate):
        ...         self.rate = bireme.to_tensor(rate)
        ...         super().__init__(self.rate.shape)
        ...     _mean_carrier_measure = 0
        ...     _natural_parameters = property(lambda self: (-self.rate,))
        ...     def _log_normalizer(self, x):
        ...         return -bireme.log(-x)
        >>> Rate([1.0]).entropy().tolist()
        [1.0]
    """

    @property
    def _natural_parameters(self) -> tuple[Tensor, ...]:
        raise errors.missing_method(self, "_natural_parameters")

    @property
    def _mean_carrier_measure(self) -> Tensor | float:
        raise errors.missing_method(self, "_mean_carrier_measure")

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        raise errors.missing_method(self, "_log_normalizer")

    def _derivatives(self) -> tuple[list[Tensor], Tensor, list[Tensor]]:
        """Natural parameters, the log normalizer at them, and its derivatives, which are the means of the statistics."""
        keep = is_grad_enabled()
        with enable_grad():
            # where nobody wants gradients of the parameters, leaves of the same values are differentiated
            natural = [n if keep and not n.stop_gradient else _leaf(n) for n in self._natural_parameters]
            at = self._log_normalizer(*natural)
            means = grad([at.sum()], natural, create_graph=keep)
        return natural, at, means

    def entropy(self) -> Tensor:
        natural, at, means = self._derivatives()
        out = at - self._mean_carrier_measure
        for parameter, mean in zip(natural, means):
            out = out - sum_last(parameter * mean, parameter.ndim - at.ndim)
        return out


def _leaf(x: Tensor) -> Tensor:
    out = x.detach()
    out.stop_gradient = False
    return out


def _bregman(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The divergence of two distributions of one exponential family, from their log normalizers."""
    if type(p) is not type(q):
        described = f"{type(p).__name__} and {type(q).__name__}"
        hint = "register a function for them with bireme.distribution.register_kl"
        raise errors.bad(
            "kl_divergence(p, q)",
            "two distributions of one kind",
            described=described,
            hint=hint,
            kind=errors.UnsupportedTypeError,
        )
    natural, at, means = p._derivatives()
    others = q._natural_parameters
    there = q._log_normalizer(*others)
    out = there - at
    for mine, theirs, mean in zip(natural, others, means):
        out = out - sum_last((theirs - mine) * mean, mine.ndim - at.ndim)
    return out


register((ExponentialFamily, ExponentialFamily), _bregman)
