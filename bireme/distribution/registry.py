"""Which function computes the Kullback-Leibler divergence of two kinds of distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bireme.core.base import errors

F = TypeVar("F", bound=Callable)
Pair = tuple[type, type]
_functions: dict[Pair, Callable] = {}


def register(pair: Pair, function: Callable) -> None:
    """The function for a pair; a later one replaces it."""
    _functions[pair] = function


def find(cls_p: type, cls_q: type) -> Callable[[Any, Any], Any]:
    """The function for the nearest classes that these derive from."""
    fitting = [pair for pair in _functions if issubclass(cls_p, pair[0]) and issubclass(cls_q, pair[1])]
    if not fitting:
        described = f"{cls_p.__name__} and {cls_q.__name__}"
        raise errors.bad(
            "kl_divergence(p, q)",
            "two distributions for which a function is registered",
            described=described,
            hint="register one with bireme.distribution.register_kl",
            kind=errors.UnsupportedTypeError,
        )
    by_p = min(fitting, key=lambda pair: _distance(cls_p, cls_q, pair))
    by_q = min(fitting, key=lambda pair: _distance(cls_p, cls_q, pair)[::-1])
    if _functions[by_p] is not _functions[by_q]:
        names = f"({by_p[0].__name__}, {by_p[1].__name__}) and ({by_q[0].__name__}, {by_q[1].__name__})"
        errors.warn(f"kl_divergence: {names} fit equally; the first is taken", RuntimeWarning)
    return _functions[by_p]


def _distance(cls_p: type, cls_q: type, pair: Pair) -> tuple[int, int]:
    return cls_p.__mro__.index(pair[0]), cls_q.__mro__.index(pair[1])
