"""Methods of variables that are no operators: they are recorded as they are called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from bireme.core.base import errors
from bireme.core.program.building import Builder, current
from bireme.core.program.program import Operation
from bireme.core.program.variable import Dim, Variable
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor

RECORDED = frozenset((
    *("clone", "detach", "astype", "to", "cpu", "cuda", "contiguous", "pin_memory", "type_as", "apply", "T", "mT"),
    *("float", "double", "half", "bfloat16", "float16", "float32", "float64"),
    *("int", "long", "short", "char", "byte", "bool", "int8", "int16", "int32", "int64", "uint8"),
    *("complex64", "complex128", "cfloat", "cdouble"),
))  # fmt: skip
IN_PLACE = frozenset(("fill_", "zero_", "copy_", "set_value"))


@functools.cache
def recorded() -> dict[Any, str]:
    """Names of the methods that are recorded as they are called, by what is called: none of them changes its tensor."""
    found = {name: getattr(Tensor, name) for name in (*RECORDED, "__getitem__")}
    return {method.fget if isinstance(method, property) else method: name for name, method in found.items()}


def _builder() -> Builder:
    found = current()
    if found is None:
        raise errors.failure("variables belong to static mode", hint="call bireme.enable_static() first")
    return found


def _called(x: Tensor, name: str, method: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Record the call of a method of Tensor."""
    made = _builder().append(Operation(method, name.strip("_"), (x, *args), kwargs, errors.position()))
    if name == "detach":
        made.stop_gradient = True
    return made


def _changed(x: Variable, name: str, method: Callable, args: tuple, kwargs: dict[str, Any]) -> Variable:
    """Record the call of a method that changes a tensor: the variable stands for what comes of it."""

    return _builder().renew(x, _called(x, name, changed(name), args, kwargs).symbol)


@functools.cache
def changed(name: str) -> Callable:
    """A method that changes its tensor, as one that gives the changed one and leaves its own as it is."""
    method = getattr(Tensor, name)

    def call(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        new = x.clone()
        method(new, *args, **kwargs)
        return new

    return call


def _attribute(self: Variable, name: str) -> Any:
    if name not in RECORDED and name not in IN_PLACE:
        return object.__getattribute__(self, name)
    method = getattr(Tensor, name)
    if isinstance(method, property):
        assert method.fget is not None
        return _called(self, name, method.fget, (), {})
    record = _changed if name in IN_PLACE else _called
    return lambda *args, **kwargs: record(self, name, method, args, kwargs)


def _detach(self: Parameter) -> Any:
    return Tensor.detach(self) if current() is None else _called(self, "detach", Tensor.detach, (), {})


def _item(self: Variable, index: Any) -> Any:
    return _called(self, "__getitem__", Tensor.__getitem__, (index,), {})


def _set_item(self: Variable, index: Any, value: Any) -> None:
    _changed(self, "__setitem__", Tensor.__setitem__, (index, value), {})


def _iter(self: Variable) -> Iterator[Any]:
    n = self.shape[0] if self.ndim else None
    if n is None or isinstance(n, Dim):
        raise errors.failure("a variable whose first size is unknown cannot be iterated over", hint="use while_loop")
    return iter([self[i] for i in range(n)])


def install() -> None:
    """Give them to Variable, once Tensor has all of its own."""
    special = {"__getattribute__": _attribute, "__getitem__": _item, "__setitem__": _set_item, "__iter__": _iter}
    for name, method in special.items():
        setattr(Variable, name, method)
    Parameter.detach = _detach  # type: ignore[assignment,method-assign]  # its values change while a program stays
