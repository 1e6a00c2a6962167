"""Objects of Python classes in what is saved: each becomes the dict of its attributes, since files hold no code."""

from __future__ import annotations

import collections
import enum
import types
from typing import Any

from bireme.core.base import errors
from bireme.files import opcodes as op


def described(obj: Any, where: str) -> Any:
    """Return the data with objects such as ``argparse.Namespace`` replaced by dicts, with a warning.

    Without such objects it is ``obj`` itself.
    """
    found = _Describer()
    made = found.visit(obj, 0)
    if found.classes:
        names = ", ".join(sorted(found.classes))
        errors.warn(
            f"{where}(obj): {names} saved as a dict of the attributes, "
            "which is what loading gives: files hold data, no classes",
            RuntimeWarning,
        )
    return made


class _Describer:
    def __init__(self) -> None:
        self.classes: set[str] = set()
        self.seen: dict[int, tuple[Any, Any]] = {}

    def visit(self, x: Any, depth: int) -> Any:
        if isinstance(x, enum.Enum) and not isinstance(x, (str, int, float)):
            x = x.value
        state = x if isinstance(x, (dict, list, tuple)) else attributes(x)
        if state is None or depth > op.MAX_DEPTH:  # data, or rejected later
            return x
        if id(x) not in self.seen:
            self.seen[id(x)] = x, x  # for what holds itself
            if state is not x:
                self.classes.add(type(x).__name__)
            self.seen[id(x)] = x, self._made(x, state, depth + 1)
        return self.seen[id(x)][1]

    def _made(self, x: Any, state: Any, depth: int) -> Any:
        if not isinstance(state, dict):
            parts = [self.visit(part, depth) for part in state]
            return x if all(map(_same, parts, state)) else parts if isinstance(state, list) else tuple(parts)
        named = {key: self.visit(part, depth) for key, part in state.items()}
        if state is x and all(map(_same, named.values(), state.values())):
            return x
        return collections.OrderedDict(named) if isinstance(x, collections.OrderedDict) else named


def _same(a: Any, b: Any) -> bool:
    return a is b


def attributes(x: Any) -> dict[str, Any] | None:
    """Return the attributes of an object that has nothing else; None for data, code and what has a ``state_dict``."""
    state = getattr(x, "__dict__", None)
    kind = type(x)
    if type(state) is not dict or callable(x) or isinstance(x, types.ModuleType) or hasattr(x, "state_dict"):
        return None
    whole = (
        kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and kind.__getstate__ is object.__getstate__
    )
    return state if whole and kind.__basicsize__ <= _PLAIN.__basicsize__ and not kind.__itemsize__ else None


class _PLAIN:
    """An object with attributes and weak references, and nothing else."""
