"""Program: operations in the order in which they were called, with the names of what they make."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.graph import segment
from bireme.core.graph.graph import sig_of
from bireme.core.program.variable import UNKNOWN, Dim, Sample, Symbol, Variable, VariableList
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor

# What unknown sizes are taken for: images can be halved five times, sequences are no longer than most tables of positions.
# Where a call refuses both, the next are tried; the last ones, which take long, after those that fit one input alone.
SIZES = ((96, 192), (480, 960), (2, 4), (7, 14), (1920, 3840), (5040, 10080))
LONG = 4  # from which pair on
FEW = 2  # and a size that is less than most: which dimension is the smaller one may depend on it


def samples_of(symbol: Symbol, pair: int) -> tuple[Sample, ...]:
    """Examples of an input, by which pair of `SIZES`, or by its own sizes along some axes.

    From the third axis on, the last example of each input has another size: a kernel is no image.
    """
    shape, kind = symbol.fixed, symbol.dtype
    assert shape is not None

    def size(which: int, axis: int) -> int:
        if axis in symbol.sizes:
            return symbol.sizes[axis][which]
        return SIZES[pair][which] if which < 2 else FEW + (symbol.order if axis > 1 else 0)

    return tuple([
        Sample(sig_of(tuple([size(which, axis) if m == UNKNOWN else m for axis, m in enumerate(shape)]), kind))
        for which in range(3)
    ])  # fmt: skip


KNOWN: WeakValueDictionary[str, Tensor] = WeakValueDictionary()  # parameters and buffers of all programs, by name
STARTED: WeakValueDictionary[str, Tensor] = WeakValueDictionary()  # those of them that startup programs give values


class Operation:
    """One public call: what is called, with which arguments, what comes of it, and under which settings.

    In `args`, `kwargs` and `results` symbols stand for variables; tensors that are there are themselves. `sources` are, for
    each of its results, the operands that gradients go to, by their places in `args` and `kwargs`; None: any of them.
    """

    __slots__ = (
        *("call", "type", "args", "kwargs", "results", "sources"),
        *("pos", "policy", "grad", "role", "renewable", "scope"),
    )

    def __init__(self, call: Callable, type: str, args: tuple, kwargs: dict[str, Any], pos: Any = None):
        self.call, self.type, self.args, self.kwargs, self.pos = call, type, args, kwargs, pos
        self.results: Any = None
        self.sources: list[tuple[int, ...] | None] = []
        self.policy: Any = None
        self.grad = True
        self.renewable = (
            True  # whether what it gives is known from a call on examples, so that other sizes can be tried
        )
        self.scope = ""  # the layer that it was called in, by its path from the one that was captured
        self.role = "forward"  # "backward" and "update" are left out of a program for tests

    @property
    def reads(self) -> list[Any]:
        """Symbols and tensors among its arguments, those that sizes come from too."""
        return [
            found for x in leaves((self.args, self.kwargs)) for found in (symbols_of(x) if isinstance(x, Dim) else [x])
            if isinstance(found, (Symbol, Tensor))
        ]  # fmt: skip

    def feeding(self, which: int) -> list[Any]:
        """Symbols and tensors that gradients of one of its results go to."""
        places = self.sources[which] if which < len(self.sources) else None
        if places is None:
            return [x for x in self.reads if not x.stop_gradient]
        operands = list(leaves((self.args, self.kwargs)))
        found = [operands[place] for place in places]
        return [x for x in found if isinstance(x, (Symbol, Tensor)) and not x.stop_gradient]

    @property
    def makes(self) -> list[Symbol]:
        """Symbols that it gives a value."""
        return [x for x in leaves(self.results) if isinstance(x, Symbol)]

    def copy(self) -> Operation:
        """The same call, to be changed."""
        made = Operation(self.call, self.type, self.args, dict(self.kwargs), self.pos)
        made.results, made.policy, made.grad, made.role = self.results, self.policy, self.grad, self.role
        made.renewable, made.scope, made.sources = self.renewable, self.scope, self.sources
        return made


class suspended:
    """Context manager that makes public calls, as ever, though a program is being built; a class, since each run of a
    program enters it.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before, segment.local.trace = segment.local.trace, None

    def __exit__(self, *exc: Any) -> None:
        segment.local.trace = self._before


class Items(list):
    """A list of tensors that is one value of a program, since its length is known only when the program runs."""


def leaves(x: Any) -> Iterator[Any]:
    """What stands in nested lists, tuples and dicts."""
    if isinstance(x, (list, tuple)) and not isinstance(x, Items):
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
    if isinstance(x, (list, tuple)) and not isinstance(x, Items):
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
        >>> bireme.enable_static()
        >>> program = bireme.static.Program()
        >>> with bireme.static.program_guard(program):
        ...     x = bireme.static.data("x", [None, 2])
        ...     y = x * 2
        >>> [v.name for v in program.list_vars()] == [x.name, y.name]
        True
        >>> bireme.disable_static()
    """

    _numbers = itertools.count()
    _seed = 0  # of programs that are made from now on, see `global_seed`

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.symbols: dict[str, Symbol] = {}
        self.tensors: dict[str, Tensor] = {}  # parameters and buffers that operations read, by name
        self._random_seed = Program._seed
        self.version = 0  # of its operations: what was prepared for a run holds for one
        self.pair = 0  # which sizes it is tried with, see `building.SIZES`
        self._serial = 0
        self._declarations = 0  # of inputs with unknown sizes from the third axis on
        self._layers: dict[str, itertools.count] = {}
        self.guarded: set[int] = set()  # operations in `static.amp.fp16_guard`, by id
        self.ends: Any = None  # of a program from a file: its Model
        self.id = next(Program._numbers)

    # ------------------------------------------------------------ building

    def _unused_name(self, stem: str) -> str:
        """A name that nothing in it has."""
        while True:
            name, self._serial = f"{stem}_{self._serial}.tmp_0", self._serial + 1
            if name not in self.symbols:
                return name

    def _layer_name(self, kind: str) -> str:
        """The name of another layer of a kind: they are counted in each program, as in Paddle."""
        return f"{kind}_{next(self._layers.setdefault(kind, itertools.count()))}"

    def _declared(self, name: str | None, shape: Any, dtype: Any) -> Symbol:
        """A new symbol of this shape, whose unknown sizes are -1 or None."""
        sizes = tuple([UNKNOWN if n is None or n < 0 else int(n) for n in shape])
        kind = dtypes.of(dtype, "Variable(dtype)")
        symbol = Symbol(name or self._unused_name("variable"), (Sample(sig_of((), kind)),))
        symbol.fixed = sizes
        symbol.order = self._declarations
        symbol.samples = samples_of(symbol, self.pair)
        self._declarations += UNKNOWN in sizes[2:]
        return self._add(symbol)

    def _add(self, symbol: Symbol) -> Symbol:
        """Take in a symbol under its name."""
        self.symbols[symbol.name] = symbol
        return symbol

    def _rename(self, symbol: Symbol, name: str) -> None:
        """Give a symbol another name."""
        if not isinstance(name, str):
            raise errors.bad("name", "a str", name, kind=errors.ArgumentTypeError)
        self.symbols.pop(symbol.name, None)
        symbol.name = name
        self.symbols[name] = symbol

    def _append(self, operation: Operation) -> None:
        """Add a call at the end."""
        for x in operation.reads:
            if isinstance(x, Tensor) and (x.persistable or isinstance(x, Parameter)):
                self.tensors[x.name] = KNOWN[x.name] = x
        self.operations.append(operation)
        self.version += 1

    # ------------------------------------------------------------ looking at it

    def _var(self, symbol: Symbol) -> Any:
        """The variable of a symbol: a Variable, or a list of them."""
        if symbol.samples[0].items is not None:
            return VariableList(symbol, self)
        return Variable.of(symbol, self)

    def list_vars(self) -> list[Tensor]:
        """Return its variables and parameters.

        Returns:
            A list of variables, in the order in which they were made, and of parameters and buffers.

        Examples:
            >>> bireme.static.Program().list_vars()
            []
        """
        made = [self._var(s) for s in self.symbols.values() if s.samples[0].items is None]
        return [*made, *self.tensors.values()]

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

    current_block = global_block

    def block(self, index: int) -> Program:
        """Return a block by its index; there is one.

        Args:
            index: 0.

        Returns:
            The program.

        Examples:
            >>> program = bireme.static.Program()
            >>> program.block(0) is program
            True
        """
        if index != 0:
            raise errors.bad("block(index)", "0, since blocks inside it belong to their operations", index)
        return self

    @property
    def num_blocks(self) -> int:
        """Number of blocks: 1."""
        return 1

    @property
    def blocks(self) -> list[Program]:
        """Its blocks: the program itself."""
        return [self]

    def var(self, name: str) -> Tensor:
        """Return a variable or parameter by its name.

        Args:
            name: The name.

        Returns:
            The variable or parameter.

        Raises:
            ValueError: If there is none.

        Examples:
            >>> bireme.enable_static()
            >>> with bireme.static.program_guard(bireme.static.Program()):
            ...     x = bireme.static.data("x", [2])
            ...     bireme.static.default_main_program().global_block().var("x").shape
            [2]
            >>> bireme.disable_static()
        """
        if name in self.symbols:
            return self._var(self.symbols[name])
        if name in self.tensors:
            return self.tensors[name]
        raise errors.bad("var(name)", "the name of a variable of the program", name)

    def has_var(self, name: str) -> bool:
        """Return whether there is a variable or parameter of a name.

        Args:
            name: The name.

        Returns:
            A bool.

        Examples:
            >>> bireme.static.Program().has_var("x")
            False
        """
        return name in self.symbols or name in self.tensors

    def create_var(self, **kwargs: Any) -> Variable:
        """Return a new variable, to be given a value by ``py_func`` and the like.

        Args:
            **kwargs: ``name``, ``shape``, ``dtype``, ``persistable``, ``stop_gradient``, as for ``Variable``.

        Returns:
            A ``Variable``.

        Examples:
            >>> bireme.enable_static()
            >>> bireme.static.Program().create_var(name="y", shape=[-1, 2], dtype="float32").shape
            [-1, 2]
            >>> bireme.disable_static()
        """
        return Variable(self, **kwargs)

    @property
    def random_seed(self) -> int:
        """Seed of the random numbers that each run draws; 0 for those of ``bireme.seed``, other ones at every run."""
        return self._random_seed

    @random_seed.setter
    def random_seed(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise errors.bad("random_seed", "an int", seed, kind=errors.ArgumentTypeError)
        self._random_seed = seed

    def global_seed(self, seed: int = 0) -> None:
        """Set the random seed of this program and of all that are made later.

        Args:
            seed: The seed. Default: 0, none.

        Examples:
            >>> program = bireme.static.Program()
            >>> program.global_seed(102)
            >>> program.random_seed, bireme.static.Program().random_seed
            (102, 102)
            >>> program.global_seed(0)
        """
        self.random_seed = seed
        Program._seed = seed

    def num_ops(self) -> int:
        """Return the number of its operations.

        Returns:
            An int.

        Examples:
            >>> bireme.static.Program().num_ops()
            0
        """
        return len(self.operations)

    def parameters_num(self) -> int:
        """Return the number of its parameters.

        Returns:
            An int.

        Examples:
            >>> bireme.static.Program().parameters_num()
            0
        """
        return len(self.all_parameters())

    def get_all_parameter_values(self) -> list[Parameter]:
        """Return its parameters.

        Returns:
            A list of parameters.

        Examples:
            >>> bireme.static.Program().get_all_parameter_values()
            []
        """
        return self.all_parameters()

    def get_parameter_value_by_name(self, name: str) -> Parameter:
        """Return a parameter by its name.

        Args:
            name: The name.

        Returns:
            The parameter.

        Raises:
            ValueError: If there is none.

        Examples:
            >>> bireme.enable_static()
            >>> with bireme.static.program_guard(bireme.static.Program(), bireme.static.Program()):
            ...     y = bireme.static.nn.fc(bireme.static.data("x", [2, 3]), 4, weight_attr="w_of_name")
            ...     bireme.static.default_main_program().get_parameter_value_by_name("w_of_name").shape
            [3, 4]
            >>> bireme.disable_static()
        """
        found = self.tensors.get(name)
        if not isinstance(found, Parameter):
            raise errors.bad("get_parameter_value_by_name(name)", "the name of a parameter of the program", name)
        return found

    def get_output_value_by_name(self, name: str) -> Tensor:
        """Return a variable by its name.

        Args:
            name: The name.

        Returns:
            The variable.

        Raises:
            ValueError: If there is none.

        Examples:
            >>> bireme.enable_static()
            >>> with bireme.static.program_guard(bireme.static.Program()):
            ...     x = bireme.static.data("x", [2])
            ...     bireme.static.default_main_program().get_output_value_by_name("x").shape
            [2]
            >>> bireme.disable_static()
        """
        return self.var(name)

    def set_is_test_attr(self) -> None:
        """Let dropout and normalization do what they do in evaluation.

        Examples:
            >>> bireme.static.Program().set_is_test_attr()
        """
        for operation in self.operations:
            _for_test(operation)
        self.version += 1

    def set_parameters_from(self, program: Program) -> None:
        """Take in the parameters and buffers of another program, under their names.

        Args:
            program: The other program.

        Examples:
            >>> bireme.static.Program().set_parameters_from(bireme.static.Program())
        """
        self.tensors.update(program.tensors)

    @property
    def optimizers(self) -> list[Any]:
        """The optimizers whose updates are among its operations."""
        found = [o.call.optimizer for o in self.operations if hasattr(o.call, "optimizer")]
        return list({id(x): x for x in found}.values())

    def state_dict(self, mode: str = "all", scope: Any = None) -> dict[str, Tensor]:
        """Return the parameters and buffers that its operations read, and the state of its optimizers.

        Args:
            mode: ``"param"`` for parameters and buffers, ``"opt"`` for the state of optimizers, ``"all"`` for both.
                Default: ``"all"``.
            scope: Scope whose tensors are returned. Default: None, the global one.

        Returns:
            A dict of tensors by name.

        Examples:
            >>> bireme.static.Program().state_dict()
            {}
        """
        if mode not in ("all", "param", "opt"):
            raise errors.bad("state_dict(mode)", "'all', 'param' or 'opt'", mode)
        found: dict[str, Tensor] = {}
        if mode != "opt":
            found |= {name: t if scope is None else scope.tensor(t) for name, t in self.tensors.items()}
        with suspended():
            for i, optimizer in enumerate(self.optimizers if mode != "param" else ()):
                found[f"learning_rate_{i}"] = Tensor(np.float32(optimizer.get_lr()))
                found |= {name: t for name, t in optimizer.state_dict().items() if isinstance(t, Tensor)}
        return found

    def set_state_dict(self, state_dict: dict[str, Any], scope: Any, copy_tensor: bool = False) -> None:
        """Set parameters, buffers and the state of optimizers.

        Args:
            state_dict: Values by name; names that the program does not have are left out.
            scope: Scope whose tensors are set.
            copy_tensor: Has no effect: values are never shared.

        Examples:
            >>> bireme.static.Program().set_state_dict({}, bireme.static.global_scope())
        """
        rest = {}
        for name, value in state_dict.items():
            if name in self.tensors:
                scope.find(self.tensors[name]).set(value)
            else:
                rest[name] = value
        with suspended():
            for i, optimizer in enumerate(self.optimizers if rest else ()):
                rate = rest.pop(f"learning_rate_{i}", None)
                if rate is not None and isinstance(optimizer._learning_rate, float):
                    optimizer.set_lr(float(rate))
                state = {name: x if isinstance(x, Tensor) else Tensor(x) for name, x in rest.items()}
                if hasattr(optimizer._learning_rate, "state_dict"):  # a schedule is not among the values of a program
                    state["LR_Scheduler"] = optimizer._learning_rate.state_dict()
                optimizer.set_state_dict(state)

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
        made._random_seed, made.pair, made._serial = self._random_seed, self.pair, self._serial
        kept = [o for o in self.operations if not for_test or o.role == "forward"]
        made._layers = self._layers
        made.operations = [_for_test(o.copy()) if for_test else o.copy() for o in kept]
        made.guarded = {id(new) for old, new in zip(kept, made.operations, strict=True) if id(old) in self.guarded}
        return made

    def __repr__(self) -> str:
        lines = [f"{{ // {len(self.operations)} operations"]
        for symbol in self.symbols.values():
            if symbol.is_data:
                lines.append(f"    input {self._var(symbol)}")
        for p in self.tensors.values():
            lines.append(f"    persist {p.name} : shape={p.shape}, dtype={p.dtype.name}")
        lines += _lines(self.operations, "    ")
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


def _for_test(operation: Operation, training: bool = False) -> Operation:
    """A call as it is made in evaluation, or in training: by its argument `training`."""
    sign = getattr(getattr(operation.call, "op", None), "signature", None)
    if sign is not None and "training" in sign.positional:
        at = sign.positional.index("training")
        if at < len(operation.args):
            operation.args = (*operation.args[:at], training, *operation.args[at + 1 :])
        else:
            operation.kwargs["training"] = training
    return operation


def _lines(operations: list[Operation], indent: str) -> list[str]:
    """Operations as text, a line for each, and the blocks that belong to them below."""
    lines = []
    for o in operations:
        made = ", ".join([s.name for s in o.makes])
        blocks = getattr(o.call, "labelled", None)
        args = o.args[:-1] if blocks else o.args
        given = [_told(x) for x in leaves(args)] + [f"{k}={_told_all(v)}" for k, v in o.kwargs.items()]
        lines.append(f"{indent}{made + ' = ' if made else ''}{o.type}({', '.join(given)})  // {errors.location(o.pos)}")
        for label, block in blocks() if blocks else ():
            inputs = ", ".join([s.name for s in block.inputs])
            lines.append(f"{indent}  {label}({inputs}):")
            lines += _lines(block.operations, indent + "    ")
            lines.append(f"{indent}    -> {', '.join([_told(x) for x in block.results])}")
    return lines


def _told(x: Any) -> str:
    return x.name if isinstance(x, (Symbol, Tensor)) else repr(x)


def _told_all(x: Any) -> str:
    return repr(mapped(lambda y: y.name if isinstance(y, (Symbol, Tensor)) else y, x))
