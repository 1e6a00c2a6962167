"""Scopes: what parameters and other variables that outlive a run are, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded, guard_functions
from bireme.core.graph.graph import Unmade
from bireme.core.program import building
from bireme.core.program.program import KNOWN, Program
from bireme.core.program.variable import Symbol
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor, wrap


def lengths_of(program: Program, symbol: Symbol) -> list[Symbol]:
    """The inputs for the lengths of the sequences that an input consists of, outermost first: they are named after it."""
    found: list[Symbol] = []
    while (name := lengths_name(symbol.name, len(found))) in program.symbols:
        found.append(program.symbols[name])
    return found[::-1]


def lengths_name(name: str, outwards: int) -> str:
    """The name of the lengths of the innermost sequences of an input, or of those that many levels further out."""
    return f"{name}.lengths_{outwards}" if outwards else f"{name}.lengths"


class ScopeTensor:
    """The tensor of a variable in a scope, as ``find_var(name).get_tensor()`` gives it."""

    def __init__(self, tensor: Tensor):
        self._tensor = tensor

    def set(self, array: Any, place: Any = None) -> None:
        """Set the values.

        Args:
            array: Values of the same shape.
            place: Has no effect.

        Examples:
            >>> bireme.enable_static()
            >>> w = bireme.static.create_global_var([2], 1.0, "float32", persistable=True, name="w_set")
            >>> bireme.static.global_scope().find_var("w_set").get_tensor().set([3.0, 4.0])
            >>> bireme.disable_static()
            >>> w.tolist()
            [3.0, 4.0]
        """
        with building.suspended():
            if self._tensor._value.__class__ is Unmade:
                self._tensor._assign_value(Tensor(np.asarray(array), self._tensor.dtype))
            else:
                self._tensor.set_value(np.asarray(array, self._tensor.dtype.np))

    def shape(self) -> list[int]:
        """Return the shape.

        Returns:
            A list of ints.

        Examples:
            >>> bireme.enable_static()
            >>> w = bireme.static.create_global_var([2], 1.0, "float32", persistable=True, name="w_shape")
            >>> bireme.static.global_scope().find_var("w_shape").get_tensor().shape()
            [2]
            >>> bireme.disable_static()
        """
        return self._tensor.shape

    def _is_initialized(self) -> bool:
        return self._tensor._value.__class__ is not Unmade

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        with building.suspended():
            return np.asarray(self._tensor.numpy(), dtype)


class ScopeVariable:
    """A variable in a scope."""

    def __init__(self, name: str, tensor: Tensor):
        self._name, self._tensor = name, tensor

    def get_tensor(self) -> ScopeTensor:
        """Return its tensor.

        Returns:
            An object with ``set`` and ``shape``, which NumPy reads as an array.

        Examples:
            >>> bireme.enable_static()
            >>> w = bireme.static.create_global_var([1], 2.0, "float32", persistable=True, name="w_get")
            >>> import numpy as np
            >>> np.array(bireme.static.global_scope().find_var("w_get").get_tensor()).tolist()
            [2.0]
            >>> bireme.disable_static()
        """
        return ScopeTensor(self._tensor)

    def name(self) -> str:
        """Return its name.

        Returns:
            A str.

        Examples:
            >>> bireme.enable_static()
            >>> w = bireme.static.create_global_var([1], 2.0, "float32", persistable=True, name="w_name")
            >>> bireme.static.global_scope().find_var("w_name").name()
            'w_name'
            >>> bireme.disable_static()
        """
        return self._name


class Scope(Guarded):
    """Values of parameters and other variables that outlive a run, by name.

    Programs that run in different scopes do not share parameters.

    Examples:
        >>> bireme.static.Scope().find_var("w") is None
        True
    """

    def __init__(self) -> None:
        self._own: dict[str, Tensor] = {}

    def find_var(self, name: str) -> ScopeVariable | None:
        """Return the variable of a name.

        Args:
            name: The name.

        Returns:
            The variable, or None if there is none.

        Examples:
            >>> bireme.static.global_scope().find_var("nothing") is None
            True
        """
        found = self._own.get(name) if self is not _global else KNOWN.get(name)
        return None if found is None else ScopeVariable(name, found)

    def var(self, name: str) -> ScopeVariable:
        """Return the variable of a name, which is made if there is none.

        Args:
            name: The name.

        Returns:
            The variable.

        Examples:
            >>> bireme.static.Scope().var("w").name()
            'w'
        """
        found = self.find_var(name)
        if found is not None:
            return found
        with building.suspended():
            made = Tensor(np.zeros((), np.float32), name=name, persistable=True)
        if self is _global:
            KNOWN[name] = made
        self._own[name] = made
        return ScopeVariable(name, made)

    def find(self, t: Tensor) -> ScopeTensor:
        """Return the values of a parameter or buffer of a program in this scope, to be set or read.

        Args:
            t: The parameter or buffer.

        Returns:
            An object with ``set`` and ``shape``, which NumPy reads as an array.

        Examples:
            >>> bireme.static.global_scope().find(bireme.to_tensor([1.0, 2.0])).shape()
            [2]
        """
        return ScopeTensor(self.tensor(t))

    def tensor(self, t: Tensor) -> Tensor:
        """Return what a parameter or buffer of a program is in this scope.

        Args:
            t: The parameter or buffer.

        Returns:
            A tensor: itself in the global scope, else one of the same name that belongs to this scope.

        Examples:
            >>> t = bireme.to_tensor([1.0])
            >>> bireme.static.global_scope().tensor(t) is t
            True
        """
        if self is _global or not (t.persistable or isinstance(t, Parameter)):
            return t
        found = self._own.get(t.name)
        if found is None:
            value = wrap(Unmade(t._value.sig, None, t._value.device))
            found = Parameter(value, t.name, not t.stop_gradient) if isinstance(t, Parameter) else value
            found.name, found.persistable, found.stop_gradient = t.name, True, t.stop_gradient
            self._own[t.name] = found
        return found


_global = Scope()
_current = [_global]


def global_scope() -> Scope:
    """Return the scope that programs run in.

    Returns:
        A ``Scope``.

    Examples:
        >>> isinstance(bireme.static.global_scope(), bireme.static.Scope)
        True
    """
    return _current[-1]


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Context manager in which programs run in another scope.

    Args:
        scope: The scope.

    Returns:
        A context manager.

    Examples:
        >>> scope = bireme.static.Scope()
        >>> with bireme.static.scope_guard(scope):
        ...     bireme.static.global_scope() is scope
        True
    """
    if not isinstance(scope, Scope):
        raise errors.bad("scope_guard(scope)", "a Scope", scope, kind=errors.ArgumentTypeError)
    _current.append(scope)
    try:
        yield
    finally:
        _current.pop()


guard_functions(globals())
