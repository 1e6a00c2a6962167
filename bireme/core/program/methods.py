"""Methods of variables that are no operators: they are recorded as they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bireme.core.base import errors
from bireme.core.program.building import Builder, current
from bireme.core.program.program import Operation
from bireme.core.program.variable import Dim, Variable
from bireme.core.tensor.tensor import Tensor

RECORDED = (
    *("__getitem__", "clone", "astype", "to", "cpu", "cuda", "contiguous", "pin_memory", "type_as", "apply"),
    *("float", "double", "half", "bfloat16", "float16", "float32", "float64"),
    *("int", "long", "short", "char", "byte", "bool", "int8", "int16", "int32", "int64", "uint8"),
    *("complex64", "complex128", "cfloat", "cdouble"),
)
PROPERTIES = ("T", "mT")
IN_PLACE = ("__setitem__", "fill_", "zero_", "copy_", "set_value")


def _builder() -> Builder:
    found = current()
    if found is None:
        raise errors.failure("variables belong to static mode", hint="call bireme.enable_static() first")
    return found


def _method(name: str, method: Callable) -> Callable:
    def call(self: Variable, *args: Any, **kwargs: Any) -> Any:
        return _builder().append(Operation(method, name.strip("_"), (self, *args), kwargs, errors.position()))

    call.__name__, call.__doc__ = name, method.__doc__
    return call


def _changing(name: str, method: Callable) -> Callable:
    def changed(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        new = x.clone()
        method(new, *args, **kwargs)
        return new

    def call(self: Variable, *args: Any, **kwargs: Any) -> Any:
        made = _builder().append(Operation(changed, name.strip("_"), (self, *args), kwargs, errors.position()))
        self._become(made.symbol)
        return None if name == "__setitem__" else self

    call.__name__, call.__doc__ = name, method.__doc__
    return call


def _detach(self: Variable) -> Any:
    """Return the same values without history."""
    made = _builder().append(Operation(Tensor.detach, "detach", (self,), {}, errors.position()))
    made.stop_gradient = True
    return made


def _iter(self: Variable) -> Iterator[Any]:
    n = self.shape[0] if self.ndim else None
    if n is None or isinstance(n, Dim):
        raise errors.failure("a variable whose first size is unknown cannot be iterated over", hint="use while_loop")
    return iter([self[i] for i in range(n)])


def install() -> None:
    """Give them to Variable, when Tensor has all of its own."""
    for name in RECORDED:
        setattr(Variable, name, _method(name, getattr(Tensor, name)))
    for name in PROPERTIES:
        setattr(Variable, name, property(_method(name, getattr(Tensor, name).fget)))
    for name in IN_PLACE:
        setattr(Variable, name, _changing(name, getattr(Tensor, name)))
    for name, method in (("detach", _detach), ("__iter__", _iter)):
        setattr(Variable, name, method)
