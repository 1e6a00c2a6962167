"""Writer: the ONNX graph that is being written, and Val: a value in it that formulas are written with."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import DType
from bireme.core.program.variable import Dim, Symbol, symbol_of
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.packages import onnx

OPSET = 18  # and what a file of it is to say of its own format
IR = 8
NARROW = ("int8", "uint8", "int16", "uint16", "uint32")  # integers that few kernels of runtimes take
ARITHMETIC = frozenset((
    *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Abs", "Sign", "Min", "Max", "MatMul", "ReduceSum", "ReduceProd"),
    *("ReduceMax", "ReduceMin", "CumSum", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal", "Where", "Clip"),
    *("TopK", "ArgMax", "ArgMin", "Einsum", "ScatterND", "ScatterElements", "Relu", "Range"),
))  # fmt: skip


class SequenceOf:
    """The type of a list of tensors."""

    __slots__ = ("item",)
    kind, name = "s", "sequence"

    def __init__(self, item: DType):
        self.item = item


def kind_of(symbol: Symbol) -> Any:
    """The type of a value: that of its elements, or of a list of them."""
    if symbol.samples[0].items is None:
        return symbol.dtype
    items = [x for sample in symbol.samples for x in sample.items or ()]
    return SequenceOf(items[0].sig.dtype if items else dtypes.float32)


class Val:
    """A value of the graph: its name and type. Arithmetic adds nodes; Python numbers take its type."""

    __slots__ = ("root", "name", "dtype")
    __hash__ = None  # type: ignore[assignment]  # none, since == adds a node

    def __init__(self, w: Writer, name: str, dtype: Any):
        self.root, self.name, self.dtype = w.root, name, dtype

    @property
    def w(self) -> Writer:
        """Where nodes are written now: a constant of the whole graph may be an operand inside of a branch."""
        return self.root.current

    def to(self, dtype: Any) -> Val:
        """The same in another type."""
        if dtype is self.dtype or isinstance(dtype, SequenceOf):
            return self
        if dtype is dtypes.bool_ and self.dtype.kind == "f":  # every number but zero is true, parts of one as well
            return self != 0
        return self.w("Cast", self, dtype=dtype, to=self.w.code(dtype))

    def _with(self, op: str, other: Any, dtype: DType | None = None, swap: bool = False) -> Val:
        other = other if isinstance(other, Val) else self.w.number(other, self.dtype)
        pair = (other, self) if swap else (self, other)
        return self.w(op, *pair, dtype=dtype)

    def __add__(self, other: Any) -> Val:
        return self._with("Add", other)

    def __sub__(self, other: Any) -> Val:
        return self._with("Sub", other)

    def __mul__(self, other: Any) -> Val:
        return self._with("Mul", other)

    def __truediv__(self, other: Any) -> Val:
        return self._with("Div", other)

    def __pow__(self, other: Any) -> Val:
        return self._with("Pow", other)

    def __mod__(self, other: Any) -> Val:
        return self._with("Mod", other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Val:
        return self._with("Sub", other, swap=True)

    def __rtruediv__(self, other: Any) -> Val:
        return self._with("Div", other, swap=True)

    def __rpow__(self, other: Any) -> Val:
        return self._with("Pow", other, swap=True)

    def __neg__(self) -> Val:
        return self.w("Neg", self)

    def __lt__(self, other: Any) -> Val:
        return self._with("Less", other, dtypes.bool_)

    def __le__(self, other: Any) -> Val:
        return self._with("LessOrEqual", other, dtypes.bool_)

    def __gt__(self, other: Any) -> Val:
        return self._with("Greater", other, dtypes.bool_)

    def __ge__(self, other: Any) -> Val:
        return self._with("GreaterOrEqual", other, dtypes.bool_)

    def __eq__(self, other: Any) -> Val:  # type: ignore[override]  # a node, as all arithmetic
        return self._with("Equal", other, dtypes.bool_)

    def __ne__(self, other: Any) -> Val:  # type: ignore[override]  # a node, as all arithmetic
        return ~(self == other)

    def __and__(self, other: Val) -> Val:
        return self.w("And", self, other)

    def __or__(self, other: Val) -> Val:
        return self.w("Or", self, other)

    def __invert__(self) -> Val:
        return self.w("Not", self)


class Writer:
    """Nodes that are written one after another, with what they read. One for a branch or a body has a parent, whose
    values it may read.
    """

    current: Writer  # of the whole graph: the one that is being written

    def __init__(self, parent: Writer | None = None, program: Any = None):
        self.parent = parent
        self.program: Any = parent.program if parent else program
        self.root: Writer = parent.root if parent else self
        self.root.current = self
        self.nodes: list[Any] = []
        self.known: dict[Any, Val] = {}  # symbols, sizes and constants
        if parent is None:
            self.initializers: list[Any] = []
            self.tensors: dict[int, tuple[Tensor, Val]] = {}
            self.numbers = itertools.count()
            self.taken: set[str] = set()
            self.matrices: set[str] = set()  # products of integers whose operands are matrices

    # ------------------------------------------------------------ names

    def unused(self, stem: str) -> str:
        """A name that nothing in the graph has."""
        name, taken = stem, self.root.taken
        while not name or name in taken:
            name = f"{stem}_{next(self.root.numbers)}"
        taken.add(name)
        return name

    def code(self, dtype: DType) -> int:
        """The number of a type in ONNX."""
        kind = onnx().TensorProto
        if dtype.kind == "c":
            raise errors.failure(f"onnx.export: ONNX has no operations on {dtype.name}")
        name = {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype.name, dtype.name.upper())
        return getattr(kind, name.replace("_", ""))

    # ------------------------------------------------------------ values

    def __call__(self, op: str, *given: Val | None, dtype: Any = None, n: int = 1, **attrs: Any) -> Any:
        """Add a node; its result, or its `n` results. `dtype` is that of the results, if it is not the first operand's."""
        kinds = [v.dtype for v in given if v is not None]
        narrow = op in ARITHMETIC and any(k.name in NARROW or k is dtypes.bool_ for k in kinds)
        if narrow and not (op == "Where" and all(k.name not in NARROW and k.kind != "b" for k in kinds[1:])):
            return self._widened(op, given, dtype, n, attrs)
        names = [self.unused(f"{op.lower()}_{next(self.root.numbers)}") for _ in range(n)]
        read = [v.name if v is not None else "" for v in given]
        while read and not read[-1]:  # an operand that is not there at the end keeps runtimes from fusing the node
            read.pop()
        self.nodes.append(onnx("helper").make_node(op, read, names, **attrs))
        many = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * n
        own = kinds[1 if op == "Where" else 0] if kinds else None
        made = [Val(self, name, kind or own or dtypes.float32) for name, kind in zip(names, many)]
        return made[0] if n == 1 else made

    def _widened(self, op: str, given: Sequence[Val | None], dtype: Any, n: int, attrs: dict) -> Any:
        """The same in int32 or int64, since runtimes have no kernels for narrow integers."""
        wide = dtypes.int64 if any(v is not None and v.dtype.name == "uint32" for v in given) else dtypes.int32
        first = 1 if op == "Where" else 0
        own = next(v.dtype for v in given[first:] if v is not None)
        cast = [
            v if v is None or i < first or (v.dtype.name not in NARROW and v.dtype is not dtypes.bool_) else v.to(wide)
            for i, v in enumerate(given)
        ]
        many = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * n
        made = self(op, *cast, dtype=[kind or wide for kind in many], n=n, **attrs)
        back = [v.to(kind or own) for v, kind in zip([made] if n == 1 else made, many)]
        return back[0] if n == 1 else back

    def empty_list(self, kind: SequenceOf) -> Val:
        """A list of no tensors."""
        name = self.unused(f"sequenceempty_{next(self.root.numbers)}")
        self.nodes.append(onnx("helper").make_node("SequenceEmpty", [], [name], dtype=self.code(kind.item)))
        return Val(self, name, kind)

    def number(self, x: Any, dtype: DType) -> Val:
        """A constant without dimensions."""
        return self.dim(x).to(dtype) if isinstance(x, Dim) else self.constant(np.asarray(x).astype(dtype.np))

    def constant(self, array: np.ndarray, name: str = "") -> Val:
        """A constant, written once."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        dtype = dtypes.from_numpy(array.dtype)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 64 and not name else None
        if key is not None and key in self.root.known:
            return self.root.known[key]
        made = Val(self.root, self.unused(name or f"constant_{next(self.root.numbers)}"), dtype)
        proto = onnx().TensorProto(
            name=made.name, dims=array.shape, data_type=self.code(dtype), raw_data=array.tobytes()
        )
        self.root.initializers.append(proto)
        if key is not None:
            self.root.known[key] = made
        return made

    def info(self, value: Val, shape: Any = None) -> Any:
        """What the type of an input or output of a graph is; a size is an int, a name, or None."""
        if isinstance(value.dtype, SequenceOf):
            item = self.code(value.dtype.item)
            return onnx("helper").make_tensor_sequence_value_info(value.name, item, None)
        return onnx("helper").make_tensor_value_info(value.name, self.code(value.dtype), shape)

    def graph(self, name: str, inputs: list[Any], outputs: list[Any]) -> Any:
        """The graph as it is written so far."""
        made = onnx("helper").make_graph(self.nodes, name, inputs, outputs)
        if self.parent is None:
            made.initializer.extend(self.initializers)
        else:
            self.root.current = self.parent
        return made

    def find(self, key: Any) -> Val | None:
        """What is known here or around."""
        here: Writer | None = self
        while here is not None:
            if key in here.known:
                return here.known[key]
            here = here.parent
        return None

    def value(self, x: Any, dtype: DType | None = None) -> Val:
        """A variable, a tensor or a number as a value, in a type if one is named."""
        x = symbol_of(x)
        if isinstance(x, Val):
            made = x
        elif isinstance(x, Symbol):
            found = self.find(x)
            assert found is not None, x.name
            made = found
        elif isinstance(x, Tensor):
            kept = self.root.tensors.get(id(x))
            if kept is None:
                name = x.name if x.persistable or not x.stop_gradient else ""
                kept = self.root.tensors[id(x)] = (x, self.constant(np.asarray(x.numpy()), name))
            made = kept[1]
        else:
            return self.number(x, dtype or dtypes.of_number(x))
        return made if dtype is None else made.to(dtype)

    # ------------------------------------------------------------ sizes

    def dim(self, n: int) -> Val:
        """A size, as an int64 without dimensions."""
        if not isinstance(n, Dim):
            return self.constant(np.asarray(n, np.int64))
        kind, *rest = n.how
        if kind == "size":
            return self.size(self.value(rest[0]), rest[1])
        values = [self.dim(x) for x in rest]
        if kind is operator.neg:
            return -values[0]
        a, b = values
        if kind is operator.floordiv:  # Div rounds towards zero
            return (a - a % b) / b
        return kind(a, b)

    def size(self, x: Val, axis: int) -> Val:
        """The size of a value along an axis."""
        vector = self("Shape", x, dtype=dtypes.int64, start=axis, **({} if axis == -1 else {"end": axis + 1}))
        return self("Squeeze", vector, self.ints([0]))

    def ints(self, values: Any) -> Val:
        """A vector of int64 of integers, sizes and tensors that hold one; or a tensor that holds all of them."""
        if isinstance(values, (Tensor, Symbol, Val)):
            return self("Reshape", self.value(values, dtypes.int64), self.ints([-1]))
        values = list(values)
        if not any(isinstance(x, (Dim, Tensor, Symbol, Val)) for x in values):
            return self.constant(np.asarray(values, np.int64).reshape(-1))
        return self("Concat", *[self._one(x) for x in values], axis=0)

    def _one(self, x: Any) -> Val:
        """A vector of one element."""
        if isinstance(x, (Tensor, Symbol, Val)):
            return self("Reshape", self.value(x, dtypes.int64), self.ints([-1]))
        return self("Reshape", self.dim(x), self.ints([1])) if isinstance(x, Dim) else self.ints([x])

    def shape(self, x: Val) -> Val:
        return self("Shape", x, dtype=dtypes.int64)

    # ------------------------------------------------------------ what formulas often say

    def where(self, condition: Val, x: Any, y: Any) -> Val:
        kind = x.dtype if isinstance(x, Val) else y.dtype
        return self("Where", condition, self.value(x, kind), self.value(y, kind))

    def reshape(self, x: Val, shape: Any) -> Val:
        return self("Reshape", x, self.ints(shape))

    def transpose(self, x: Val, perm: Sequence[int]) -> Val:
        return x if list(perm) == list(range(len(perm))) else self("Transpose", x, perm=list(perm))

    def squeeze(self, x: Val, *axes: int) -> Val:
        return self("Squeeze", x, self.ints(axes))

    def unsqueeze(self, x: Val, *axes: int) -> Val:
        return self("Unsqueeze", x, self.ints(axes))

    def reduce(self, op: str, x: Val, axes: Sequence[int] | None, keepdims: bool = True) -> Val:
        if axes is not None and not list(axes):
            return self("Identity", x)
        return self(f"Reduce{op}", x, None if axes is None else self.ints(axes), keepdims=int(keepdims))

    def slice(self, x: Val, axes: Sequence[int], starts: Any, ends: Any, steps: Any = None) -> Val:
        given = [self.ints(starts), self.ints(ends), self.ints(axes)]
        return self("Slice", x, *given, *([self.ints(steps)] if steps is not None else []))
