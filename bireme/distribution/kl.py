"""Kullback-Leibler divergences between distributions, by their kinds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.distribution.distribution import Distribution
from bireme.distribution.registry import find, register

__all__ = ["kl_divergence", "register_kl"]

F = TypeVar("F", bound=Callable)


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Kullback-Leibler divergence of ``p`` from ``q``: the mean over ``p`` of ``log p - log q``.

    Args:
        p: Distribution that is averaged over.
        q: Distribution that it is compared with; of the same kind, unless a function is registered for the pair.

    Returns:
        Tensor of the shape that the batch shapes broadcast to.

    Raises:
        NotImplementedError: If no function is registered for the two kinds.

    Examples:
        >>> p = bireme.distribution.Exponential(bireme.to_tensor([1.0]))
        >>> q = bireme.distribution.Exponential(bireme.to_tensor([2.0]))
        >>> [round(x, 4) for x in bireme.distribution.kl_divergence(p, q).tolist()]
        [0.3069]
    """
    for name, given in (("p", p), ("q", q)):
        if not isinstance(given, Distribution):
            raise errors.bad(f"kl_divergence({name})", "a Distribution", given, kind=errors.UnsupportedTypeError)
    return find(type(p), type(q))(p, q)


def register_kl(cls_p: type[Distribution], cls_q: type[Distribution]) -> Callable[[F], F]:
    """Register a function as the Kullback-Leibler divergence of two kinds of distributions.

    For two distributions, the function of the nearest classes that theirs derive from is taken.

    Args:
        cls_p: Class of the first argument of ``kl_divergence``.
        cls_q: Class of the second.

    Returns:
        A decorator, which returns the function that it is given.

    Examples:
        >>> class Point(bireme.distribution.Distribution):
        ...     pass
        >>> @bireme.distribution.register_kl(Point, Point)
        ... def difference(p, q):
        ...     return bireme.zeros(p.batch_shape)
        >>> bireme.distribution.kl_divergence(Point(), Point()).item()
        0.0
    """
    for name, given in (("cls_p", cls_p), ("cls_q", cls_q)):
        if not inspect.isclass(given) or not issubclass(given, Distribution):
            raise errors.bad(f"register_kl({name})", "a subclass of Distribution", given, kind=errors.ArgumentTypeError)

    def add(function: F) -> F:
        register((cls_p, cls_q), function)
        return function

    return add


guard_functions(globals())
