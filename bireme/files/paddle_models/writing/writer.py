"""Writer: calls of a program become operations of the format, one after another, by the rows of a table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.program.building import together
from bireme.core.program.control_flow import Branch, Loop
from bireme.core.program.program import Operation, mapped
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models.writing import expansion
from bireme.files.paddle_models.writing.attributes import ATTRIBUTES, MISSING
from bireme.files.paddle_models.writing.values import (
    Unwritable,
    Value,
    array_type,
    attribute,
    flags,
    known_dtype,
    type_of,
)
from bireme.files.program_files import name_of

ROWS: dict[str, Callable] = {}  # by the name of a call: how it is written
BIG = 1 << 53  # integers beyond which a float64 does not hold
_ARITHMETIC = {
    operator.add: "add", operator.sub: "subtract", operator.mul: "multiply", operator.floordiv: "floor_divide",
    operator.mod: "remainder",
}  # fmt: skip


def row(names: str) -> Callable[[Callable], Callable]:
    """Declare how calls of these names are written: a function of the writer and of the arguments by name."""

    def declare(fn: Callable) -> Callable:
        ROWS.update(dict.fromkeys(names.split(), fn))
        return fn

    return declare


class Writer:
    """One file: its operations so far, what each symbol is in it, and the tensors that are its parameters."""

    def __init__(self, model: Model, where: str):
        self.model, self.where = model, where
        self.ops: list[dict[str, Any]] = []
        self.parameters: list[dict[str, Any]] = []
        self.env: dict[Symbol, Value] = {}
        self.held: dict[int, Value] = {}  # parameters by the ids of their tensors
        self.tensors: dict[str, Tensor] = {}
        self.name = ""  # of the call that is being written
        self.types: list[tuple[str, list[int]]] = []  # of the results of the call that is being written
        self.sizes: dict[int, Value] = {}  # shapes that are there as tensors, by the keys of values
        self.arrays: dict[int, dict[str, Any]] = {}  # operations that make arrays, by the keys of these
        self.count = self.blocks = self.arguments = 0  # values, blocks and arguments of blocks so far

    # ------------------------------------------------------------ the whole file

    def program(self) -> dict[str, Any]:
        """The program of the model."""
        for symbol in self.model.inputs:
            self.env[symbol] = self.op(
                "data", [], [(symbol.dtype.name, symbol.shape)], name=symbol.name, dtype=symbol.dtype.name,
                shape=[-1 if isinstance(n, Dim) else n for n in symbol.shape],
            )  # fmt: skip
        given = set(self.env.values())
        self.operations(self.model.plan().operations)
        for col, x in enumerate(self.model.outputs):
            try:
                value = self.value(x)
            except Unwritable as e:
                raise self.refused(f"an output {e}") from None
            if value.items is not None:
                raise self.refused("an output that is a list which a loop changes")
            if value in given or value.key in {v.key for v in self.held.values()}:
                value = self.op("assign", [value], [value.type])
            self.op("fetch", [value], [value.type], name=f"fetch_name_{col}", col=col)
            self.ops[-1]["OA"].insert(0, flags("persistable", [True]))
        block = {"#": "block_0", "args": [], "ops": [*self.parameters, *self.ops]}
        head = {"magic": "pir", "trainable": True, "version": 3}
        return {"base_code": head, "program": {"regions": [{"#": "region_0", "blocks": [block]}]}}

    def operations(self, operations: Iterable[Operation]) -> None:
        """Write calls in order."""
        for operation in operations:
            self.operation(operation)

    def operation(self, operation: Operation) -> None:
        """Write a call; its results are values from then on."""
        name = "branch" if isinstance(operation.call, Branch) else "loop" if isinstance(operation.call, Loop) else None
        name = name or operation_name(operation)
        try:
            if operation.policy is not None:
                raise Unwritable("under auto_cast")
            if getattr(operation.call, "acts", False):
                raise Unwritable("which is made for what it does")
            if name in ("branch", "loop"):
                made = ROWS[name](self, operation)
            else:
                made = self.called(name, operation)
        except Unwritable as e:
            raise self.refused(f"{operation.type} {e}".strip(), operation.pos) from None
        together(self.keep, [operation.results, made])

    def refused(self, what: str, pos: Any = None) -> Exception:
        said = f"{self.where}: {what} cannot be written in Paddle's format"
        return errors.failure(said, kind=NotImplementedError, pos=pos)

    def called(self, name: str, operation: Operation) -> Any:
        """Write the call of a function: by its row, or by what its body calls."""
        found = ROWS.get(name)
        made = getattr(operation.call, "op", None)
        if made is None:
            if found is None:
                raise Unwritable("")
            args, kwargs = mapped(self.argument, (operation.args, operation.kwargs))
            self.name, self.types = name, [_type(s) for s in operation.makes]
            return found(self, *args, **kwargs)
        with expansion.Expansion(self.model.program) as inner:
            bound = inner.bound(made, operation)
            if found is None:
                results = inner.body(made, bound)
        self.operations(inner.program.operations)
        if found is None:
            return mapped(self.argument, results)
        given = mapped(self.argument, mapped(expansion.symbol_of, bound))
        given.pop("name", None)
        if given.pop("out", None) is not None:
            raise Unwritable("with out=")
        self.name, self.types = name, [_type(s) for s in operation.makes]
        return found(self, **given)

    def keep(self, symbol: Any, made: Any) -> None:
        if isinstance(symbol, Symbol) and made is not None:  # None: what only gradients need
            value = made if isinstance(made, Value) else self.value(made)
            if value.items is None and symbol.samples[0].items is None:
                if value.dtype != symbol.dtype.name:
                    value = self.cast(value, symbol.dtype.name)
                # what the program knows of its shape is more than a row says
                value = self.named(value, symbol.shape)
            self.env[symbol] = value

    # ------------------------------------------------------------ arrays of tensors

    def array(self) -> Value:
        """An empty array; what it holds is said when it is written to."""
        self.count += 1
        made = Value(self.count, "float32", (), [])
        self.ops.append({
            "#": "1.create_array", "A": [attribute("dtype", "dtype", "float32")], "I": [],
            "O": [{"%": self.count, "TT": array_type("float32", [])}], "OA": [flags("stop_gradient", [False])],
        })  # fmt: skip
        self.arrays[made.key] = self.ops[-1]
        return made

    def write_array(self, array: Value, item: Value, at: Value) -> None:
        """Write an element of an array, which is changed by that."""
        made = self.arrays[array.key]
        made["A"] = [attribute("dtype", "dtype", item.dtype)]
        made["O"][0]["TT"] = array_type(*item.type)
        self.count += 1
        self.ops.append({
            "#": "1.array_write_", "A": [], "I": [{"%": array.key}, {"%": item.key}, {"%": at.key}],
            "O": [{"%": self.count, "TT": array_type(*item.type)}], "OA": [flags("stop_gradient", [False])],
        })  # fmt: skip

    def forget(self, array: Value) -> None:
        """Note that an array changes: what stood for it before does not any more."""
        for symbol in [s for s, v in self.env.items() if v.key == array.key]:
            del self.env[symbol]

    def type_of(self, dtype: str, shape: list[int]) -> dict[str, Any]:
        return type_of(dtype, shape)

    def named(self, value: Value, shape: list[int]) -> Value:
        shape = [n if isinstance(n, int) and n >= 0 else m for n, m in zip(value.shape, shape, strict=False)]
        return Value(value.key, value.dtype, shape)

    # ------------------------------------------------------------ values

    def argument(self, x: Any) -> Any:
        """An argument of a call as rows take it: values for symbols and tensors, anything else as it is."""
        return self.value(x) if isinstance(x, (Symbol, Tensor)) else x

    def value(self, x: Any) -> Value:
        """The value of a symbol or tensor."""
        if isinstance(x, Value):
            return x
        if isinstance(x, Symbol):
            if x not in self.env:
                raise Unwritable("of what only gradients need, or of a list as it was before it changed")
            return self.env[x]
        if id(x) not in self.held:
            self.held[id(x)] = self.parameter(x)
        return self.held[id(x)]

    def parameter(self, t: Tensor) -> Value:
        """A tensor as a parameter of the file."""
        if not known_dtype(t.dtype.name):
            raise Unwritable(f"of dtype {t.dtype.name}")
        kept = isinstance(t, Parameter) or t.persistable
        name = t.name if kept and t.name else f"constant_{len(self.tensors)}"
        while name in self.tensors:
            name = f"{name}_1"
        self.tensors[name] = t
        self.count += 1
        stop = bool(t.stop_gradient)
        self.parameters.append({
            "#": "p", "A": [0, 1, 1, name], "DA": [], "O": {"%": self.count, "TT": type_of(t.dtype.name, t.shape)},
            "OA": [1, int(stop), int(not stop)], "QA": [],
        })  # fmt: skip
        return Value(self.count, t.dtype.name, t.shape)

    def op(self, kind: str, inputs: Sequence[Any], outs: Sequence[Any] | None = None, **attrs: Any) -> Any:
        """Write an operation; its result, or all of them where there are several.

        Inputs are values, lists of them and None for one that is absent; `outs` are types (dtype, shape), lists of types
        and None for one that is not there. Default: the types of the results of the call that is being written.
        """
        outs = self.types if outs is None else outs
        operands = [self.combined(x) if isinstance(x, (list, tuple)) else x for x in inputs]
        made, results = [], []
        for out in outs:
            if out is None:
                results.append({"%": 0, "TT": {"#": "NULL"}})
                continue
            self.count += 1
            if isinstance(out, list):
                made.append(Value(self.count, items=out))
                results.append({"%": self.count, "TT": {"#": "0.t_vec", "D": [type_of(*each) for each in out]}})
            else:
                made.append(Value(self.count, *out))
                results.append({"%": self.count, "TT": type_of(*out)})
        wanted = ATTRIBUTES.get(kind, [])
        given = [(name, form, attrs.pop(name, default)) for name, form, default in wanted]
        assert not attrs and all(x is not MISSING for _, _, x in given), (kind, attrs, given)
        dialect, _, name = kind.rpartition(".")
        stops = [v.items is None and not v.dtype.startswith(("float", "bfloat", "complex")) for v in made]
        self.ops.append({
            "#": f"{dialect or 1}.{name}", "A": [attribute(*each) for each in given],
            "I": [{"%": 0 if x is None else x.key} for x in operands], "O": results,
            "OA": [flags("stop_gradient", stops)] if made else [],
        })  # fmt: skip
        return made[0] if len(made) == 1 else tuple(made)

    def combined(self, items: Sequence[Value]) -> Value:
        """Values as one list."""
        return self.op("0.combine", items, [[x.type for x in items]])

    def spread(self, many: Value) -> list[Value]:
        """The values of a list."""
        assert many.items is not None
        found = self.op("0.split", [many], many.items)
        return list(found) if isinstance(found, tuple) else [found]

    # ------------------------------------------------------------ numbers and sizes

    def full(self, shape: Sequence[int], value: Any, dtype: str) -> Value:
        """A constant: one number everywhere."""
        if isinstance(value, complex):
            raise Unwritable("with a complex number")
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, int) and abs(value) > BIG:
            raise Unwritable(f"with the integer {value}")
        return self.op("full", [], [(dtype, list(shape))], shape=shape, value=float(value), dtype=dtype)

    def number(self, x: Any, dtype: str, shape: Sequence[int] = ()) -> Value:
        """A number, a size or a value of one element as a tensor of this dtype; of no dimensions or of one."""
        if isinstance(x, Value):
            found = self.cast(x, dtype)
            return found if found.shape == list(shape) else self.reshape(found, list(shape))
        if isinstance(x, Dim):
            return self.reshape(self.cast(self.size(x), dtype), list(shape))
        return self.full(shape, x, dtype)

    def ints(self, numbers: Any) -> Value:
        """Integers as a tensor of int64 with one dimension; sizes and tensors among them are joined."""
        if isinstance(numbers, Value):
            found = self.cast(numbers, "int64")
            return found if found.ndim == 1 else self.reshape(found, [1])
        numbers = [numbers] if isinstance(numbers, int) else list(numbers)
        if not any(isinstance(n, (Dim, Value)) for n in numbers):
            return self.op("full_int_array", [], [("int64", [len(numbers)])], value=[int(n) for n in numbers])
        parts = [self.size(n) if isinstance(n, Dim) else self.number(n, "int64", [1]) for n in numbers]
        if len(parts) == 1:
            return parts[0]
        return self.op("concat", [parts, self.full([1], 0, "int32")], [("int64", [len(parts)])])

    def size(self, n: Dim) -> Value:
        """A size as a tensor of int64 with one element."""
        kind, *rest = n.how
        if kind == "size":
            symbol, axis = rest
            x = self.value(symbol)
            known = x.shape[axis]
            if isinstance(known, int) and not isinstance(known, Dim) and known >= 0:
                return self.full([1], known, "int64")
            if x.key not in self.sizes:
                self.sizes[x.key] = self.op("shape64", [x], [("int64", [x.ndim])])
            return self.slice(self.sizes[x.key], [0], [axis], [axis + 1], ("int64", [1]))
        parts = [self.size(x) if isinstance(x, Dim) else self.full([1], x, "int64") for x in rest]
        if kind is operator.neg:
            parts, kind = [self.full([1], 0, "int64"), *parts], operator.sub
        if kind not in _ARITHMETIC:
            raise Unwritable("with a size that is computed in another way")
        return self.op(_ARITHMETIC[kind], parts, [("int64", [1])])

    # ------------------------------------------------------------ what rows share

    def expanded(self, values: list[Value]) -> list[Value]:
        """Values as ones of one shape, for operations that do not broadcast."""
        shape = broadcast(*[v.shape for v in values])
        if all(same_shape(v.shape, shape) for v in values):
            return values
        for axis in range(1, len(shape) + 1):
            unknown = [v.shape[-axis] for v in values if v.ndim >= axis and isinstance(v.shape[-axis], Dim)]
            if unknown and not all(same_size(n, shape[-axis]) for n in unknown):
                # any of them may be 1
                kinds = [v.dtype for v in values]
                cast = [self.cast(v, kinds[-1]) for v in values]
                made = self.spread(self.op("broadcast_tensors", [cast], [[(kinds[-1], shape)] * len(values)]))
                return [self.cast(v, kind) for v, kind in zip(made, kinds, strict=True)]
        sizes = self.ints(shape)
        return [v if same_shape(v.shape, shape) else self.op("expand", [v, sizes], [(v.dtype, shape)]) for v in values]

    def cast(self, x: Value, dtype: str) -> Value:
        """The value in another dtype."""
        return x if x.dtype == dtype else self.op("cast", [x], [(dtype, x.shape)], dtype=dtype)

    def reshape(self, x: Value, shape: list[Any], sizes: Any = None) -> Value:
        """The value in another shape; `sizes` is what it is asked for by, where that is not the shape."""
        return self.op("reshape", [x, self.ints(shape if sizes is None else sizes)], [(x.dtype, shape)])

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """The value with its axes in another order."""
        return self.op("transpose", [x], [(x.dtype, [x.shape[i] for i in perm])], perm=perm)

    def slice(self, x: Value, axes: list[int], starts: Any, ends: Any, out: Any, decrease: Sequence[int] = ()) -> Value:
        """A part of a value between indices along axes."""
        return self.op(
            "slice", [x, self.ints(starts), self.ints(ends)], [out], axes=axes, infer_flags=[1] * len(axes),
            decrease_axis=decrease,
        )  # fmt: skip

    def binary(self, kind: str, x: Any, y: Any, dtype: str | None = None) -> Value:
        """An elementwise operation of two values or numbers, in one dtype."""
        dtype = dtype or (x if isinstance(x, Value) else y).dtype
        both = [self.number(a, dtype) if not isinstance(a, Value) else self.cast(a, dtype) for a in (x, y)]
        return self.op(kind, both, [(dtype, broadcast(*[v.shape for v in both]))])


def operation_name(operation: Operation) -> str:
    """The name by which rows know a call."""
    made = getattr(operation.call, "op", None)
    return made.name if made is not None else name_of(operation.call) or operation.type


def _type(symbol: Symbol) -> Any:
    return None if symbol.samples[0].items is not None else (symbol.dtype.name, symbol.shape)


def broadcast(*shapes: list[int]) -> list[int]:
    """The shape of what is computed from values of these shapes elementwise; the larger of an unknown size and one."""
    found: list[int] = []
    longest = max([len(s) for s in shapes])
    for each in zip(*[[1] * (longest - len(s)) + list(s) for s in shapes], strict=True):
        known = [n for n in each if not isinstance(n, Dim) and n > 1]
        unknown = [n for n in each if isinstance(n, Dim) or n < 0]
        found.append(known[0] if known else unknown[0] if unknown else each[0])
    return found


def same_size(one: Any, other: Any) -> bool:
    """Whether two sizes are known to be the same."""
    if isinstance(one, Dim) or isinstance(other, Dim):
        return isinstance(one, Dim) and isinstance(other, Dim) and one.how == other.how
    return one == other


def same_shape(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two shapes are known to be the same."""
    return len(one) == len(other) and all(map(same_size, one, other))


def common(x: Any, y: Any) -> str:
    """The dtype in which two values or numbers are compared."""
    if isinstance(x, Value) and isinstance(y, Value):
        return dtypes.promote_any(dtypes.of(x.dtype), dtypes.of(y.dtype)).name
    value, other = (x, y) if isinstance(x, Value) else (y, x)
    return dtypes.promote_number(dtypes.of(value.dtype), int(other) if isinstance(other, Dim) else other).name
