"""Variables: tensors of a program that is being built. They have a type and a shape, of which some sizes may be unknown,
and no values. Lists of them that are built in a loop have no length either.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.dtype import DType
from bireme.core.graph.graph import Sig, Value
from bireme.core.tensor.tensor import Tensor

UNKNOWN = -1


class Symbol:
    """What a variable stands for: an input of a program or a result of one of its operations.

    `samples` are examples of it, one for each set of sizes that the program is tried with: a Sig, and its values where
    they are known, as those of shapes are. Sizes that differ between examples are unknown. Where rows are those of several
    sequences behind each other, `lengths` are the symbols of how many belong to each, one for each level, outermost first.
    """

    __slots__ = ("name", "samples", "stop_gradient", "persistable", "is_data", "fixed", "sizes", "order", "lengths")

    def __init__(self, name: str, samples: tuple[Sample, ...], stop_gradient: bool = True):
        self.name, self.samples, self.stop_gradient = name, samples, stop_gradient
        self.persistable = self.is_data = False
        self.fixed: tuple[int, ...] | None = None  # the shape as it was declared
        self.sizes: dict[int, tuple[int, int, int]] = {}  # of its examples along axes where they are no pair of `SIZES`
        self.order = 0  # among the inputs that have examples of other sizes, see `program.samples_of`
        self.lengths: tuple[Symbol, ...] = ()

    @property
    def shape(self) -> list[int]:
        """Its sizes, those that are unknown as `Dim`s."""
        if self.fixed is not None:
            return [Dim(("size", self, i)) if n == UNKNOWN else n for i, n in enumerate(self.fixed)]
        sizes = zip(*[sample.sig.shape for sample in self.samples], strict=True)
        return [each[0] if len(set(each)) == 1 else Dim(("size", self, i)) for i, each in enumerate(sizes)]

    @property
    def dtype(self) -> DType:
        return self.samples[0].sig.dtype


class Sample:
    """An example of a value: its Sig, and the array where it is known; or examples of the tensors in a list.

    `sources` are the operands that its gradients go to, by their places among those of its call; None: any of them.
    """

    __slots__ = ("sig", "array", "items", "sources")

    sig: Sig

    def __init__(
        self,
        sig: Sig | None,
        array: np.ndarray | None = None,
        items: tuple[Sample, ...] | None = None,
        sources: tuple[int, ...] | None = None,
    ):
        if sig is not None:
            self.sig = sig
        self.array, self.items, self.sources = array, items, sources

    def same(self, other: Sample) -> bool:
        """Whether both are of one type and shape."""
        if self.items is None or other.items is None:
            return self.items is other.items and self.sig == other.sig
        return len(self.items) == len(other.items) and all(map(Sample.same, self.items, other.items))


class Dim(int):
    """A size that is unknown while a program is built: -1 for who looks at it, and how to find it when the program runs.

    Arithmetic gives further sizes of this kind, so that `x.shape[0] * 2` may be an argument of a later call.
    """

    how: tuple

    def __new__(cls, how: tuple) -> Dim:
        made = int.__new__(cls, UNKNOWN)
        made.how = how
        return made

    def find(self, size: Callable[[Symbol, int], int]) -> int:
        """The number, given how to find the size of a symbol along an axis."""
        kind, *rest = self.how
        if kind == "size":
            return size(*rest)
        return kind(*[x.find(size) if isinstance(x, Dim) else x for x in rest])

    def same(self, other: Any) -> bool:
        """Whether another one is found in the same way."""
        if not isinstance(other, Dim) or len(self.how) != len(other.how):
            return False
        pairs = zip(self.how, other.how, strict=True)
        return all(
            x.same(y) if isinstance(x, Dim) else x is y or (type(x) is type(y) is int and x == y) for x, y in pairs
        )

    def __neg__(self) -> Dim:
        return Dim((operator.neg, self))

    def __pos__(self) -> Dim:
        return self

    __hash__ = int.__hash__

    def __abs__(self) -> Any:
        return as_variable(self, abs, 0)

    def __round__(self, digits: Any = None) -> Dim:
        return self

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __float__(self) -> float:
        raise _no_values("a size as a float", "x.shape[0] / 2 and x.shape[0] ** 0.5 are variables")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise _no_values("a size in an array of NumPy's", "functions of Bireme take lists of sizes")


def _arithmetic(name: str, compute: Callable) -> None:
    def forward(self: Dim, other: Any) -> Any:
        if isinstance(other, int):
            return Dim((compute, self, other))
        return as_variable(self, lambda x: compute(x, other), other)

    def reverse(self: Dim, other: Any) -> Any:
        if isinstance(other, int):
            return Dim((compute, other, self))
        return as_variable(self, lambda x: compute(other, x), other)

    setattr(Dim, f"__{name}__", forward)
    setattr(Dim, f"__r{name}__", reverse)


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    _arithmetic(_name, getattr(operator, _name))


def _counting(name: str, compute: Callable) -> None:
    """What gives no size, but a number all the same."""
    setattr(Dim, f"__{name}__", lambda self, other: as_variable(self, lambda x: compute(x, other), other))
    setattr(Dim, f"__r{name}__", lambda self, other: as_variable(self, lambda x: compute(other, x), other))


for _name in ("truediv", "pow", "lshift", "rshift", "and", "or", "xor"):
    _counting(_name, getattr(operator, f"{_name}_" if _name in ("and", "or") else _name))


def as_variable(dim: Dim, compute: Callable[[Any], Any], other: Any) -> Any:
    """What is computed from a size that is found when the program runs, and a number."""
    if isinstance(other, (list, tuple, str, bytes)):
        raise _no_values("how often a list is repeated", "expand and tile take sizes that are unknown")
    if not isinstance(other, (int, float, complex)):
        return NotImplemented
    if strict.asked is not None:
        raise strict.asked
    return compute(recorded_size[0](dim))


recorded_size: list[Callable[[Dim], Any]] = []  # records a size as a variable: `calls.size_of`, which needs this module


class _Strict(threading.local):
    asked: type[Exception] | None = None  # where it is set, who looks at an unknown size as a number is stopped by it


strict = _Strict()


def _look(name: str) -> None:
    own = getattr(int, name)

    def look(self: Dim, *other: Any) -> Any:
        if strict.asked is not None:
            # a size is what it is, however it was asked for
            if name in ("__eq__", "__ne__") and isinstance(other[0], Dim) and self.how == other[0].how:
                return name == "__eq__"
            raise strict.asked
        return own(self, *other)

    setattr(Dim, name, look)


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__int__", "__index__"):
    _look(_name)


class Variable(Tensor):
    """A tensor of a program: it has a shape, whose unknown sizes are -1, a dtype and a name, and no values.

    ``static.data`` makes one for an input, and every function that is called with one makes them for its results. The
    values are there when an ``Executor`` runs the program.

    Args:
        block: The program that it belongs to.
        type: Has no effect.
        name: Name. Default: None, a generated one.
        shape: Sizes, -1 for one that is unknown. Default: None, no dimensions.
        dtype: Data type. Default: None, float32.
        lod_level: Has no effect.
        capacity: Has no effect.
        persistable: Set the attribute ``persistable``. Default: None, False.
        error_clip: Has no effect.
        stop_gradient: Whether no gradient is computed for it. Default: False.
        is_data: Whether it is an input. Default: False.
        need_check_feed: Has no effect.
        belong_to_optimizer: Has no effect.
        **kwargs: Have no effect.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 4])
        ...     (x + 1).shape
        [-1, 4]
        >>> bireme.disable_static()
    """

    __slots__ = ("symbol", "program")

    symbol: Symbol
    program: Any

    def __init__(
        self,
        block: Any,
        type: Any = None,
        name: str | None = None,
        shape: Any = None,
        dtype: Any = None,
        lod_level: Any = None,
        capacity: Any = None,
        persistable: bool | None = None,
        error_clip: Any = None,
        stop_gradient: bool = False,
        is_data: bool = False,
        need_check_feed: bool = False,
        belong_to_optimizer: bool = False,
        **kwargs: Any,
    ):
        self._stand_for(block._declared(name, shape or (), dtype or "float32"), block)
        self.symbol.persistable, self.symbol.is_data = bool(persistable), is_data
        self.stop_gradient = stop_gradient

    @classmethod
    def of(cls, symbol: Symbol, program: Any) -> Variable:
        """Return the variable of a symbol.

        Args:
            symbol: The symbol.
            program: Its program.

        Returns:
            A ``Variable``.

        Examples:
            >>> bireme.enable_static()
            >>> x = bireme.static.data("x_of", [2])
            >>> bireme.static.Variable.of(x.symbol, x.program).name
            'x_of'
            >>> bireme.disable_static()
        """
        made = cls.__new__(cls)
        made._stand_for(symbol, program)
        return made

    def _stand_for(self, symbol: Symbol, program: Any) -> None:
        self.program = program
        self._become(symbol)
        self._edge = self._view = None

    def _become(self, symbol: Symbol) -> None:
        """Stand for another value from now on, as an operation in place makes it."""
        self.symbol = symbol
        self._value = Value(symbol.samples[0].sig, None, devices.current())
        self._value.marks = -1
        self._stop_gradient = symbol.stop_gradient

    @property
    def shape(self) -> list[int]:
        """Shape, as a list of ints; -1 where a size is unknown."""
        return self.symbol.shape

    @property
    def dtype(self) -> DType:
        """Data type of the elements."""
        return self.symbol.dtype

    @property
    def size(self) -> int:
        """Number of elements; -1 where a size is unknown."""
        found = 1
        for n in self.shape:
            found = n * found  # an unknown one stays one
        return found

    @property
    def name(self) -> str:
        """Name, unique in its program."""
        return self.symbol.name

    @name.setter
    def name(self, name: str) -> None:
        self.program._rename(self.symbol, name)

    @property
    def stop_gradient(self) -> bool:
        """Whether no gradient is computed for it."""
        return self.symbol.stop_gradient

    @stop_gradient.setter
    def stop_gradient(self, wanted: bool) -> None:
        if not isinstance(wanted, bool):
            raise errors.bad("stop_gradient", "True or False", wanted, kind=errors.ArgumentTypeError)
        self.symbol.stop_gradient = self._stop_gradient = wanted

    @property
    def persistable(self) -> bool:
        """Whether its value outlives a run."""
        return self.symbol.persistable

    @persistable.setter
    def persistable(self, wanted: bool) -> None:
        self.symbol.persistable = wanted

    @property
    def lod_level(self) -> int:
        """Number of levels of sequences that its rows belong to; 0 if they belong to none."""
        return len(self.symbol.lengths)

    @property
    def is_leaf(self) -> bool:
        """Whether it is an input of its program."""
        return self.symbol.is_data

    @property
    def block(self) -> Any:
        """The block of its program that it belongs to."""
        return self.program.global_block()

    def _array(self) -> Any:
        raise _no_values("a value")

    def _host(self) -> np.ndarray:
        raise _no_values("a value")

    def __bool__(self) -> bool:
        raise _no_values("a condition", "static.nn.cond and static.nn.while_loop take variables as conditions")

    def __len__(self) -> int:
        n = self.shape[0]
        if isinstance(n, Dim):
            raise _no_values("a length", "x.shape[0] can be used in later calls")
        return n

    def __repr__(self) -> str:
        grad = f"stop_gradient={self.stop_gradient}"
        return f"var {self.name} : shape={[int(n) for n in self.shape]}, dtype={self.dtype.name}, {grad}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __hash__(self) -> int:
        return id(self)


class VariableList:
    """A list of tensors of a program that is being built."""

    __slots__ = ("symbol", "program")

    def __init__(self, symbol: Symbol, program: Any):
        self.symbol, self.program = symbol, program

    def _become(self, symbol: Symbol) -> None:
        self.symbol = symbol

    @property
    def stop_gradient(self) -> bool:
        return self.symbol.stop_gradient

    def __len__(self) -> int:
        raise errors.failure(
            "the length of a list that is built in a loop is not known while a program is built",
            hint="len(x) in a function that to_static captures is a variable",
        )

    def __iter__(self) -> Any:
        raise errors.failure(
            "a list that is built in a loop cannot be iterated over while a program is built",
            hint="a for statement in a function that to_static captures can",
        )


def symbol_of(x: Any) -> Any:
    """What a variable stands for; anything else as it is."""
    return x.symbol if isinstance(x, (Variable, VariableList)) else x


def _no_values(
    what: str, hint: str = "compute with x itself, or fetch it: Executor.run(program, feed, fetch_list=[x])"
) -> Exception:
    return errors.failure(f"{what} is not known while a program is built", hint=hint)
