"""Names that code written for Paddle takes from `paddle.base.wrapped_decorator`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import contextmanager as signature_safe_contextmanager
from typing import Any

__all__ = ["signature_safe_contextmanager", "wrap_decorator"]


def wrap_decorator(decorator_func: Callable) -> Callable:
    """The decorator, with results that keep the name and signature of what they wrap.

    >>> @bireme.base.wrapped_decorator.wrap_decorator
    ... def twice(f):
    ...     return lambda x: 2 * f(x)
    >>> @twice
    ... def next(x):
    ...     return x + 1
    >>> next(1), next.__name__
    (4, 'next')
    """

    @functools.wraps(decorator_func)
    def decorator(function: Callable) -> Any:
        return functools.wraps(function)(decorator_func(function))

    return decorator
