"""Calls that only programs make: lists of tensors, sizes as tensors, printing, assertions."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.program.building import current
from bireme.core.program.program import Items, Operation
from bireme.core.program.variable import VariableList, recorded_size
from bireme.core.tensor.tensor import Tensor

CALLS: dict[str, Callable] = {}  # by the names that files know them by


def recordable(call: Any) -> Callable:
    """Let a call be saved with a program, under its name. Sizes of what it gives do not depend on values."""
    CALLS[call.__name__] = call
    call.sizes_known = True
    return call


def acting(call: Any) -> Callable:
    """The same for a call that is made for what it does: it gives nothing, and is never tried on examples."""
    call.acts = True
    return recordable(call)


def effective(example: Callable) -> Callable:
    """The same for a call that gives something, and is made for what it does whoever wants that; `example` is what it
    gives, without what it does.
    """

    def declared(call: Any) -> Callable:
        call.effect, call.example = True, example
        return recordable(call)

    return declared


@recordable
def list_of(items: Any) -> Items:
    """A list of tensors as one value."""
    return Items(items)


@recordable
def list_append(x: Items, item: Tensor) -> Items:
    """The list with one more tensor."""
    return Items([*x, item])


@recordable
def list_extend(x: Items, items: Any) -> Items:
    """The list with more tensors."""
    return Items([*x, *items])


@recordable
def list_item(x: Items, index: Any) -> Tensor:
    """One of the tensors."""
    at = int(index)
    if not -len(x) <= at < len(x):
        raise errors.failure(f"index {at} is out of range for a list of {len(x)} tensors", kind=errors.OutOfRangeError)
    return x[at]


@recordable
def list_with(x: Items, index: Any, item: Tensor) -> Items:
    """The list with another tensor at an index."""
    made = Items(x)
    made[int(index)] = item
    return made


@recordable
def list_written(x: Items, index: Any, item: Tensor) -> Items:
    """The list with another tensor at an index, or with one more where the index is its length."""
    made, at = Items(x), int(index)
    if not 0 <= at <= len(made):
        raise errors.failure(
            f"index {at} is out of range for a list of {len(made)} tensors", kind=errors.OutOfRangeError
        )
    made[at : at + 1] = [item]
    return made


@recordable
def list_without(x: Items, index: Any = -1) -> tuple[Items, Tensor]:
    """The list without one of its tensors, and this one."""
    made = Items(x)
    item = made.pop(int(index))
    return made, item


@recordable
def list_part(x: Items, start: Any = None, stop: Any = None, step: Any = None) -> Items:
    """Tensors of a list between two indices."""
    ends = [None if each is None else int(each) for each in (start, stop, step)]
    return Items(list.__getitem__(x, slice(*ends)))


@recordable
def list_length(x: Items) -> Tensor:
    """The number of tensors, as one."""
    return Tensor(np.asarray(len(x), np.int64))


@recordable
def size_of(n: int, dtype: str = "int64") -> Tensor:
    """A size as a tensor."""
    return Tensor(np.asarray(n, np.int64), dtypes.of(dtype, "size_of(dtype)"))


@acting
def print_values(*given: Any, **kwargs: Any) -> None:
    """Print tensors and other things whenever the program runs."""
    builtins.print(*given, **kwargs)  # noqa: T201  # what the program does


@acting
def assert_true(condition: Any, *message: Any) -> None:
    """Raise an AssertionError where a condition does not hold."""
    if not bool(condition):
        raise AssertionError(*message)


@acting
def refuse_where(condition: Any, kind: str, message: str) -> None:
    """Raise an exception of Python's, or a RuntimeError for one of other classes, where a condition holds."""
    if bool(condition):
        found = getattr(builtins, kind, None)
        raise (found if isinstance(found, type) and issubclass(found, Exception) else RuntimeError)(message)


# ------------------------------------------------------------ methods of lists of variables


def recorded(call: Callable, *args: Any, **kwargs: Any) -> Any:
    """Record a call of this module, as public functions are recorded."""
    builder = current()
    if builder is None:
        raise errors.failure("variables belong to the program that is being built")
    return builder.append(Operation(call, call.__name__, args, kwargs, errors.position()))


recorded_size.append(lambda dim: recorded(size_of, dim))


def _changing(call: Callable) -> Callable:
    def method(self: VariableList, *given: Any) -> Any:
        made = recorded(call, self, *given)
        new, result = made if isinstance(made, tuple) else (made, None)
        builder = current()
        assert builder is not None
        builder.renew(self, new.symbol)
        return result

    return method


def _item(self: VariableList, index: Any) -> Any:
    if isinstance(index, slice):
        return recorded(list_part, self, index.start, index.stop, index.step)
    return recorded(list_item, self, index)


def install() -> None:
    """Give VariableList the methods of a list."""
    changing = {"append": list_append, "extend": list_extend, "__setitem__": list_with, "pop": list_without}
    for name, method in {"__getitem__": _item, **{name: _changing(call) for name, call in changing.items()}}.items():
        setattr(VariableList, name, method)
