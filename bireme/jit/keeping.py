"""Keeping Python's state while a program is captured: what the code sets is what it was again afterwards.

A capture calls the code once more than the user does. A counter that it counts up and a cache that it fills would otherwise
be one call ahead, and hold variables, which have no values, when the code is called again.
"""

from __future__ import annotations

import collections
import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

from bireme.core.program.program import leaves
from bireme.core.program.variable import Variable, VariableList
from bireme.core.tensor.tensor import Tensor
from bireme.jit.conversion import belongs_to_user
from bireme.nn.layer import Layer

CONTAINERS = (dict, list, set, collections.deque)
STORES = ("_parameters", "_sub_layers")


class State:
    """What layers, containers, classes, globals and other objects held that a function can reach."""

    def __init__(self, *roots: Any):
        self._seen: dict[int, Any] = {}  # kept alive, so that no id is another one's
        self._containers: list[tuple[Any, Any]] = []
        self._others: list[tuple[dict, dict]] = []
        self._names: list[
            tuple[Any, dict[str, Any]]
        ] = []  # classes and globals of modules, and what names were in them
        self.layers: list[Layer] = []
        waiting = list(roots)
        while waiting:
            waiting.extend(self._take(waiting.pop()))
        self.buffers = [(own, name, t) for own in self.layers for name, t in own._buffers.items()]

    def _take(self, x: Any) -> list[Any]:
        """Remember what something holds; what is to be looked at next."""
        if isinstance(x, (str, int, float, type(None), Tensor, types.ModuleType)) or id(x) in self._seen:
            return []
        self._seen[id(x)] = x
        if isinstance(x, type):
            return self._take_class(x)
        if isinstance(x, Layer):
            self.layers.append(x)
            return [x.__dict__, *type(x).__mro__]
        if isinstance(x, CONTAINERS):
            self._containers.append((x, x.copy()))
            return list(x.values() if isinstance(x, dict) else x)
        if isinstance(x, (tuple, frozenset)):
            return list(x)
        if isinstance(x, types.FunctionType):
            if not belongs_to_user(x.__module__):
                return []
            known = {name: x.__globals__.get(name, _NONE) for name in _stored_globals(x.__code__)}
            self._names.append((x.__globals__, known))
            return list(_of_function(x))
        if isinstance(x, types.MethodType):
            return [x.__self__, x.__func__]
        if isinstance(x, functools.partial):
            return [x.func, x.args, x.keywords]
        held = getattr(x, "__dict__", None)
        if type(held) is not dict or type(x).__module__.partition(".")[0] in ("bireme", "numpy", "jax"):
            return []
        self._others.append((held, dict(held)))
        return [*held.values(), *type(x).__mro__]

    def _take_class(self, x: type) -> list[Any]:
        if not belongs_to_user(x.__module__):
            return []
        own = dict(vars(x))
        self._names.append((x, own))
        parts = [(y.fget, y.fset) if isinstance(y, property) else getattr(y, "__func__", y) for y in own.values()]
        return [y for y in parts if isinstance(y, (*CONTAINERS, tuple, types.FunctionType, Layer))]

    def restore(self) -> None:
        """Set back what was changed. Parameters and layers that were made meanwhile stay, with what says that they are."""
        stores = [store for own in self.layers for key, store in own.__dict__.items() if key in STORES]
        fixed = set(map(id, stores))
        lazy = any(_differs(x, before) for x, before in self._containers if id(x) in fixed)
        for x, before in self._containers:
            if id(x) not in fixed and _differs(x, before):
                if not lazy:
                    _refill(x, before)
                elif isinstance(x, dict):
                    _without_variables(x, before)
                elif _has_variable(x):
                    _refill(x, before)
        for held, before in self._others:
            _without_variables(held, before)
        for owner, before in self._names:
            now = vars(owner) if isinstance(owner, type) else owner
            changed = [key for key, y in before.items() if now.get(key, _NONE) is not y]
            for key in [key for key in changed if not lazy or _has_variable([now.get(key)])]:
                _set_back(owner, key, before[key])


_NONE = object()  # stands for what is not there


def _set_back(owner: Any, key: str, value: Any) -> None:
    if isinstance(owner, type):
        type.__setattr__(owner, key, value)
    elif value is _NONE:
        owner.pop(key, None)
    else:
        owner[key] = value


@functools.lru_cache(1024)
def _stored_globals(code: types.CodeType) -> tuple[str, ...]:
    """Globals that a function, or one inside of it, gives a value."""
    own = [i.argval for i in dis.get_instructions(code) if i.opname == "STORE_GLOBAL"]
    inner = [name for c in code.co_consts if isinstance(c, types.CodeType) for name in _stored_globals(c)]
    return tuple(dict.fromkeys([*own, *inner]))


def _of_function(fn: types.FunctionType) -> Iterator[Any]:
    """What a function can reach: its closure, defaults, and containers, layers, functions and classes among the globals
    that it names.
    """
    for cell in fn.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from (fn.__defaults__, fn.__kwdefaults__)
    for name in fn.__code__.co_names:
        found = fn.__globals__.get(name)
        if isinstance(found, (*CONTAINERS, Layer, types.FunctionType, type)):
            yield found


def _differs(x: Any, before: Any) -> bool:
    if len(x) != len(before):
        return True
    if isinstance(x, set):
        return x != before
    if isinstance(x, dict):
        return any(key not in before or before[key] is not y for key, y in x.items())
    return any(one is not other for one, other in zip(x, before, strict=True))


def _refill(x: Any, before: Any) -> None:
    x.clear()
    x.extend(before) if isinstance(x, (list, collections.deque)) else x.update(before)


def _has_variable(x: Any) -> bool:
    return any(isinstance(y, (Variable, VariableList)) for y in leaves(list(x) if isinstance(x, set) else x))


def _without_variables(x: dict, before: dict) -> None:
    """Set back the items of a dict that are variables, or hold some."""
    for key in [key for key, y in x.items() if _has_variable(y) and before.get(key, x) is not y]:
        if key in before:
            x[key] = before[key]
        else:
            del x[key]
