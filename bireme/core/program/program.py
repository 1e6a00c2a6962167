"""Program: operations in the order in which they were called, with the names of what they make."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakValueDictionary

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.program.variable import Dim, Symbol, Variable
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor

KNOWN: WeakValueDictionary[str, Tensor] = WeakValueDictionary()  # parameters and buffers of all programs, by name


class Operation:
    """One public call: what is called, with which arguments, what comes of it, and under which settings.

    In `args`, `kwargs` and `results` symbols stand for variables; tensors that are there are themselves.
    """

    __slots__ = ("call", "type", "args", "kwargs", "results", "pos", "policy", "grad", "role")

    def __init__(self, call: Callable, type: str, args: tuple, kwargs: dict[str, Any], pos: Any = None):
        self.call, self.type, self.args, self.kwargs, self.pos = call, type, args, kwargs, pos
        self.results: Any = None
        self.policy: Any = None
        self.grad = True
        self.role = "forward"  # "backward" and "update" are left out of a program for tests

    @property
    def reads(self) -> list[Any]:
        """Symbols and tensors among its arguments, those that sizes come from too."""
        return [
            found for x in leaves((self.args, self.kwargs)) for found in (symbols_of(x) if isinstance(x, Dim) else [x])
            if isinstance(found, (Symbol, Tensor))
        ]  # fmt: skip

    @property
    def makes(self) -> list[Symbol]:
        """Symbols that it gives a value."""
        return [x for x in leaves(self.results) if isinstance(x, Symbol)]

    def copy(self) -> Operation:
        """The same call, to be changed."""
        made = Operation(self.call, self.type, self.args, dict(self.kwargs), self.pos)
        made.results, made.policy, made.grad, made.role = self.results, self.policy, self.grad, self.role
        return made


def leaves(x: Any) -> Iterator[Any]:
    """What stands in nested lists, tuples and dicts."""
    if isinstance(x, (list, tuple)):
        for y in x:
            yield from leaves(y)
    elif isinstance(x, dict):
        for y in x.values():
            yield from leaves(y)
    elif isinstance(x, slice):
        yield from leaves((x.start, x.stop, x.step))
    else:
        yield x


def mapped(fn: Callable[[Any], Any], x: Any) -> Any:
    """The same structure with each leaf replaced."""
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[mapped(fn, y) for y in x])
    if isinstance(x, (list, tuple)):
        return type(x)([mapped(fn, y) for y in x])
    if isinstance(x, dict):
        return {key: mapped(fn, y) for key, y in x.items()}
    if isinstance(x, slice):
        return slice(*mapped(fn, (x.start, x.stop, x.step)))
    return fn(x)


def symbols_of(dim: Dim) -> list[Symbol]:
    """The symbols that a size is found from."""
    kind, *rest = dim.how
    if kind == "size":
        return [rest[0]]
    return [symbol for x in rest if isinstance(x, Dim) for symbol in symbols_of(x)]


class Program:
    """Operations that were recorded in static mode, to be run by an ``Executor``.

    Examples:
        >>> program = bireme.static.Program()
        >>> with bireme.static.program_guard(program):
        ...     x = bireme.static.data("x", [None, 2])
        ...     y = x * 2
        >>> [v.name for v in program.list_vars()] == [x.name, y.name]
        True
    """

    _numbers = itertools.count()

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.symbols: dict[str, Symbol] = {}
        self.tensors: dict[str, Tensor] = {}  # parameters and buffers that operations read, by name
        self.random_seed = 0
        self.device = devices.current()
        self.version = 0  # of its operations: what was prepared for a run holds for one
        self.pair = 0  # which sizes it is tried with, see `building.SIZES`
        self._serial = 0
        self.id = next(Program._numbers)

    # ------------------------------------------------------------ building

    def unused_name(self, stem: str) -> str:
        """A name that nothing in it has."""
        while True:
            name, self._serial = f"{stem}_{self._serial}.tmp_0", self._serial + 1
            if name not in self.symbols:
                return name

    def add(self, symbol: Symbol) -> Symbol:
        """Take in a symbol under its name."""
        self.symbols[symbol.name] = symbol
        return symbol

    def rename(self, symbol: Symbol, name: str) -> None:
        """Give a symbol another name."""
        if not isinstance(name, str):
            raise errors.bad("name", "a str", name, kind=errors.ArgumentTypeError)
        self.symbols.pop(symbol.name, None)
        symbol.name = name
        self.symbols[name] = symbol

    def append(self, operation: Operation) -> None:
        """Add a call at the end."""
        for x in operation.reads:
            if isinstance(x, Tensor) and (x.persistable or isinstance(x, Parameter)):
                self.tensors[x.name] = KNOWN[x.name] = x
        self.operations.append(operation)
        self.version += 1

    # ------------------------------------------------------------ looking at it

    def var(self, symbol: Symbol) -> Variable:
        """The variable of a symbol."""
        return Variable(symbol, self)

    def list_vars(self) -> list[Tensor]:
        """Return its variables and parameters.

        Returns:
            A list of variables, in the order in which they were made, and of parameters and buffers.

        Examples:
            >>> bireme.static.Program().list_vars()
            []
        """
        return [*map(self.var, self.symbols.values()), *self.tensors.values()]

    def all_parameters(self) -> list[Parameter]:
        """Return the parameters that its operations read.

        Returns:
            A list of parameters.

        Examples:
            >>> bireme.static.Program().all_parameters()
            []
        """
        return [t for t in self.tensors.values() if isinstance(t, Parameter)]

    def global_block(self) -> Program:
        """Return the block of its operations: the program itself, since blocks inside it belong to their operations.

        Returns:
            The program.

        Examples:
            >>> program = bireme.static.Program()
            >>> program.global_block() is program
            True
        """
        return self

    @property
    def ops(self) -> list[Operation]:
        """Its operations, in order."""
        return self.operations

    def clone(self, for_test: bool = False) -> Program:
        """Return a copy that shares parameters.

        Args:
            for_test: Leave out gradients and updates, and let dropout and normalization do what they do in evaluation.
                Default: False.

        Returns:
            A program.

        Examples:
            >>> bireme.static.Program().clone().list_vars()
            []
        """
        made = Program()
        made.symbols, made.tensors = dict(self.symbols), dict(self.tensors)
        made.random_seed, made.device, made.pair, made._serial = self.random_seed, self.device, self.pair, self._serial
        kept = [o for o in self.operations if not for_test or o.role == "forward"]
        made.operations = [_for_test(o.copy()) if for_test else o.copy() for o in kept]
        return made

    def __repr__(self) -> str:
        lines = [f"{{ // {len(self.operations)} operations"]
        for symbol in self.symbols.values():
            if symbol.is_data:
                lines.append(f"    input {self.var(symbol)}")
        for p in self.tensors.values():
            lines.append(f"    persist {p.name} : shape={p.shape}, dtype={p.dtype.name}")
        for o in self.operations:
            made = ", ".join([s.name for s in o.makes])
            given = [_told(x) for x in leaves(o.args)] + [f"{k}={_told_all(v)}" for k, v in o.kwargs.items()]
            lines.append(f"    {made} = {o.type}({', '.join(given)})  // {errors.location(o.pos)}")
        return "\n".join([*lines, "}"])

    __str__ = __repr__

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """Return the program as text.

        Args:
            throw_on_error: Has no effect.
            with_details: Has no effect: everything is shown.

        Returns:
            A str.

        Examples:
            >>> bireme.static.Program().to_string(True)
            '{ // 0 operations\\n}'
        """
        return repr(self)


def _for_test(operation: Operation) -> Operation:
    """A call as it is made in evaluation: by its argument `training` or `is_test`."""
    sign = getattr(getattr(operation.call, "op", None), "signature", None)
    if sign is not None and "training" in sign.positional:
        at = sign.positional.index("training")
        if at < len(operation.args):
            operation.args = (*operation.args[:at], False, *operation.args[at + 1 :])
        else:
            operation.kwargs["training"] = False
    return operation


def _told(x: Any) -> str:
    return x.name if isinstance(x, (Symbol, Tensor)) else repr(x)


def _told_all(x: Any) -> str:
    return repr(mapped(lambda y: y.name if isinstance(y, (Symbol, Tensor)) else y, x))
