"""Plans: a form or a gradient rule that was declared for NumPy, made ready for the interpreter's arrays and types."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bireme.core import dtype as dtypes
from bireme.core import primitives
from bireme.core.graph import Sig, shared
from bireme.core.numerics import numerics

NARROW = frozenset(np.dtype(d.np) for d in dtypes.NARROW)


class _Typed:
    """A NumPy form with half precision computed in float32, and results in the inferred types.

    One object, not a closure: there is one for every shape that an operator was interpreted at.
    """

    __slots__ = ("attrs", "form", "many", "wants", "widen")

    def __init__(self, form: Callable, outs: tuple[Sig, ...], many: bool, sigs: tuple, attrs: tuple = ()):
        self.form, self.many, self.attrs = form, many, attrs
        self.wants = shared(tuple([s.dtype.np for s in outs]))
        self.widen = any(s.dtype.np in NARROW for s in sigs)

    def __call__(self, *xs: Any) -> Any:
        if self.widen:
            xs = tuple([x.astype(np.float32) if x.dtype in NARROW else x for x in map(np.asarray, xs)])
        out = self.form(*xs, *self.attrs)
        if self.many:
            return [_settled(o, w) for o, w in zip(out, self.wants)]
        want = self.wants[0]
        return out if out.__class__ is np.ndarray and out.dtype is want else _settled(out, want)


def typed(form: Callable, outs: tuple[Sig, ...], many: bool, sigs: tuple[Sig, ...], attrs: tuple = ()) -> Callable:
    """The form in the inferred types; a ufunc that gives them anyway is that already."""
    if (
        isinstance(form, np.ufunc)
        and not attrs
        and form.nout == 1 == len(outs)
        and form.nin == len(sigs)
        and outs[0].ndim
        and not any(s.dtype.np in NARROW for s in sigs)
    ):
        with contextlib.suppress(TypeError):  # a ufunc without a loop for these types
            if form.resolve_dtypes((*[s.dtype.np for s in sigs], None))[-1] == outs[0].dtype.np:
                return form
    return _Typed(form, outs, many, sigs, attrs)


class NumpyRule:
    """A gradient rule on NumPy arrays: what it names is either known or at a place among the arrays."""

    __slots__ = ("form", "known", "needs", "places", "sigs", "widen")

    def __init__(self, form: Callable, known: dict[str, Any], places: tuple, needs: tuple[int, ...], sigs: tuple[Sig, ...], widen: bool):
        self.form, self.known, self.places, self.needs, self.sigs, self.widen = form, known, places, needs, sigs, widen

    def __call__(self, *arrays: Any) -> list:
        if self.widen:  # half precision is computed in float32
            arrays = tuple([x.astype(np.float32) if x.dtype in NARROW else x for x in map(np.asarray, arrays)])
        named = self.known.copy()
        for name, place in self.places:
            named[name] = arrays[place] if place.__class__ is int else list(arrays[place[0] : place[1]])
        found = self.form(**named)
        flat = flatten(found) if found.__class__ is tuple else flatten((found,))
        fitting = [flat[i] for i in self.needs]
        for i, (x, sig) in enumerate(zip(fitting, self.sigs)):
            if x.__class__ is not np.ndarray or x.dtype is not sig.dtype.np or x.shape != sig.shape:
                fitting[i] = fit(x, sig, np)
        return fitting


def _settled(x: Any, want: Any) -> Any:
    x = x if isinstance(x, np.ndarray) else np.asarray(x)
    return x if x.dtype == want else primitives.cast(x, want)


class traced_once:
    """A rule that an operator applies to many operands, as updates of parameters are: traced once for each shape, not for each
    operand, which is most of what a compile costs in Python. What it takes by keyword alone is no array.
    """

    __slots__ = ("rule", "_call")

    def __init__(self, rule: Callable):
        settings = [name for name, p in inspect.signature(rule).parameters.items() if p.kind is p.KEYWORD_ONLY]
        self.rule, self._call = rule, jax.jit(rule, inline=True, static_argnames=settings)

    def __call__(self, *args: Any, **settings: Any) -> Any:
        return self._call(*args, **settings)


class on_numpy:
    """The same function on NumPy arrays, made when it is first wanted: by then its module is complete."""

    __slots__ = ("_fn", "_made")

    def __init__(self, fn: Callable):
        self._fn = fn
        self._made: Any = None

    def resolved(self) -> Callable:
        if self._made is None:
            self._made = _rebound(self._fn, {})
        return self._made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.resolved()(*args, **kwargs)


def _rebound(fn: Any, seen: dict) -> Callable:
    """The same function with `jnp` meaning NumPy, in the functions of its module that it calls as well."""
    if fn in seen:
        return seen[fn]
    scope = dict(fn.__globals__)
    scope["jnp"] = numerics
    new = types.FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, fn.__closure__)
    new.__kwdefaults__ = fn.__kwdefaults__
    seen[fn] = new
    for name in _names(fn.__code__):
        other = scope.get(name)
        other = other.rule if isinstance(other, traced_once) else other.fun if isinstance(other, jax.custom_jvp) else other
        if isinstance(other, types.FunctionType) and other.__globals__.get("jnp") is jnp:
            scope[name] = _rebound(other, seen)
    return new


def _names(code: types.CodeType) -> set[str]:
    """The names that a function looks up, also in the functions and comprehensions inside it."""
    inner = [_names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*inner)


def fit(x: Any, sig: Sig, xp: Any = jnp) -> Any:
    """A gradient in the operand's shape and type; None means zero, and so does jax's own kind of none."""
    if x is None or x.dtype == jax.dtypes.float0:
        return xp.zeros(sig.shape, sig.dtype.np)
    assert x.shape == sig.shape, f"a gradient of shape {x.shape} for an operand of shape {sig.shape}"
    if x.dtype == sig.dtype.np:
        return x
    if sig.dtype.kind == "f" and x.dtype.kind == "c":
        x = x.real
    return x.astype(sig.dtype.np)


def flatten(found: tuple) -> list:
    flat: list[Any] = []
    for x in found:
        flat.extend(x) if isinstance(x, (list, tuple)) else flat.append(x)
    return flat
