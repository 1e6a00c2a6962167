"""Keeping Python's state while a program is captured: what the code sets is what it was again afterwards.

A capture calls the code once more than the user does. A counter that it counts up and a cache that it fills would otherwise
be one call ahead, and hold variables, which have no values, when the code is called again.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Iterator
from typing import Any

from bireme.core.program.program import leaves
from bireme.core.program.variable import Variable, VariableList
from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer

CONTAINERS = (dict, list, set, collections.deque)
STORES = ("_parameters", "_sub_layers")


class State:
    """What layers, containers and other objects held that a function can reach."""

    def __init__(self, *roots: Any):
        self._seen: dict[int, Any] = {}  # kept alive, so that no id is another one's
        self._containers: list[tuple[Any, Any]] = []
        self._others: list[tuple[dict, dict]] = []
        self.layers: list[Layer] = []
        waiting = list(roots)
        while waiting:
            waiting.extend(self._take(waiting.pop()))
        self.buffers = [(own, name, t) for own in self.layers for name, t in own._buffers.items()]

    def _take(self, x: Any) -> list[Any]:
        """Remember what something holds; what is to be looked at next."""
        if isinstance(x, (str, int, float, type(None), Tensor, type, types.ModuleType)) or id(x) in self._seen:
            return []
        self._seen[id(x)] = x
        if isinstance(x, Layer):
            self.layers.append(x)
            return [x.__dict__]
        if isinstance(x, CONTAINERS):
            self._containers.append((x, x.copy()))
            return list(x.values() if isinstance(x, dict) else x)
        if isinstance(x, (tuple, frozenset)):
            return list(x)
        if isinstance(x, types.FunctionType):
            return list(_of_function(x))
        if isinstance(x, types.MethodType):
            return [x.__self__, x.__func__]
        if isinstance(x, functools.partial):
            return [x.func, x.args, x.keywords]
        held = getattr(x, "__dict__", None)
        if type(held) is not dict or type(x).__module__.partition(".")[0] in ("bireme", "numpy", "jax"):
            return []
        self._others.append((held, dict(held)))
        return list(held.values())

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


def _of_function(fn: types.FunctionType) -> Iterator[Any]:
    """What a function can reach: its closure, defaults, and containers and layers among the globals that it names."""
    for cell in fn.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from (fn.__defaults__, fn.__kwdefaults__)
    for name in fn.__code__.co_names:
        found = fn.__globals__.get(name)
        if isinstance(found, (*CONTAINERS, Layer)):
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
