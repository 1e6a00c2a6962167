"""Functions written for jax arrays on NumPy arrays: the same code with `jnp` meaning NumPy."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bireme.core.base import turns
from bireme.core.numpy_exec.numpy_namespace import numerics


class traced_once:
    """A rule that an operator applies to many operands, as updates of parameters are: traced once for each shape, not
    for each operand, which is most of what a compile costs in Python. What it takes by keyword alone is no array.

    The functions of `jnp` that it calls are not traced on their own, which would take twice the time. It has no loop:
    such a one would be unrolled.
    """

    __slots__ = ("rule", "_call")

    def __init__(self, rule: Callable):
        settings = [name for name, p in inspect.signature(rule).parameters.items() if p.kind is p.KEYWORD_ONLY]

        @functools.wraps(rule)
        def at_once(*args: Any, **settings: Any) -> Any:
            with jax.disable_jit():
                return rule(*args, **settings)

        self.rule, self._call = rule, jax.jit(at_once, inline=True, static_argnames=settings)

    def __call__(self, *args: Any, **settings: Any) -> Any:
        turns.pause_at_times()
        return self._call(*args, **settings)


_NO_JAX_ARRAYS = frozenset((np.ndarray, int, float, bool, str, tuple, list, type(None)))


class dual:
    """A function on jax arrays with a form of its own for NumPy arrays, which runs where no argument is a jax array.

    @dual(_take_numpy)
    def take_axis(x, index, axis=0): ...
    """

    def __init__(self, numpy: Callable):
        self.numpy: Callable = numpy
        self.body: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.body is None:  # the declaration
            self.body = args[0]
            self.__name__, self.__doc__ = self.body.__name__, self.body.__doc__
            return self
        for a in args:
            if a.__class__ not in _NO_JAX_ARRAYS and isinstance(a, jax.Array):  # jax's own check takes a microsecond
                return self.body(*args, **kwargs)
        return self.numpy(*args, **kwargs)


class on_numpy:
    """The same function on NumPy arrays, made when it is first wanted: by then its module is complete."""

    __slots__ = ("_fn", "_made")

    def __init__(self, fn: Callable):
        self._fn = fn
        self._made: Any = None

    @property
    def overwrites(self) -> bool:
        """What the function says of itself, see `overwriting`."""
        return getattr(self._fn, "overwrites", False)

    def resolved(self) -> Callable:
        if self._made is None:
            self._made = rebound(self._fn, numerics)
        return self._made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.resolved()(*args, **kwargs)


@functools.lru_cache(maxsize=4096)
def rebound(fn: Any, namespace: Any) -> Callable:
    """The same function with `jnp` meaning another namespace, in the functions of its module that it calls as well."""
    return _rebound(fn, namespace, {})


def _rebound(fn: Any, namespace: Any, seen: dict) -> Callable:
    if fn in seen:
        return seen[fn]
    scope = dict(fn.__globals__)
    scope["jnp"] = namespace
    new = types.FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, fn.__closure__)
    new.__kwdefaults__ = fn.__kwdefaults__
    seen[fn] = new
    for name in _names(fn.__code__):
        other = scope.get(name)
        other = (
            other.rule if isinstance(other, traced_once) else other.fun if isinstance(other, jax.custom_jvp) else other
        )
        if isinstance(other, types.FunctionType) and other.__globals__.get("jnp") is jnp:
            scope[name] = _rebound(other, namespace, seen)
    return new


def _names(code: types.CodeType) -> set[str]:
    """The names that a function looks up, also in the functions and comprehensions inside it."""
    inner = [_names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*inner)
