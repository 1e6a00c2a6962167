"""The table of converters: by the name of a public function, what writes a call of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base.dtype import DType
from bireme.core.program.program import Operation
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.writing.graph import Val, Writer

CONVERTERS: dict[str, Callable] = {}


class Unwritten(Exception):
    """A converter does not know this form of a call: another way is tried."""


class Call:
    """A call that is written: its arguments by name, and the symbols that it gives."""

    def __init__(self, w: Writer, operation: Operation, arguments: dict[str, Any]):
        self.w, self.operation, self.arguments = w, operation, arguments
        self.makes: list[Symbol] = operation.makes

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    @property
    def name(self) -> str:
        """The operator's name."""
        call: Any = self.operation.call
        return call.op.name

    @property
    def dtype(self) -> DType:
        """The type of its (first) result."""
        return self.makes[0].dtype

    def value(self, name: str, dtype: DType | None = None) -> Val:
        """An operand as a value."""
        return self.w.value(self.arguments[name], dtype)

    def optional(self, name: str, dtype: DType | None = None) -> Val | None:
        return None if self.arguments[name] is None else self.value(name, dtype)

    def ndim(self, name: str = "x") -> int:
        return self.arguments[name].ndim

    def axes(self, name: str = "axis", of: str = "x") -> list[int] | None:
        """Axes, counted from the front; None for all."""
        found, n = plain(self.arguments[name]), self.ndim(of)
        if found is None:
            return None
        return [int(a) % n if n else 0 for a in (found if isinstance(found, (list, tuple)) else [found])]

    def axis(self, name: str = "axis", of: str = "x") -> int:
        found = self.axes(name, of)
        if found is None or len(found) != 1:
            raise Unwritten
        return found[0]

    def number(self, name: str) -> Any:
        """An argument that has to be known now."""
        x = plain(self.arguments[name])
        if isinstance(x, (Tensor, Dim)):
            raise Unwritten
        return x


def plain(x: Any) -> Any:
    """Values of tensors that are known, as axes and shapes may be given."""
    if isinstance(x, (list, tuple)):
        return type(x)([plain(y) for y in x]) if not hasattr(x, "_fields") else x
    if isinstance(x, Tensor):
        symbol = getattr(x, "symbol", None)
        if symbol is None:
            return x.numpy().tolist() if x.size <= 64 else x
        arrays = [s.array for s in symbol.samples]
        if arrays[0] is not None and all(a is not None and (a == arrays[0]).all() for a in arrays):
            return arrays[0].tolist()
    return x


def converts(*names: str) -> Callable:
    """Declare a converter: (writer, call) -> its result, or a list of its results in order."""

    def declare(fn: Callable) -> Callable:
        for name in names:
            CONVERTERS[name] = fn
        return fn

    return declare


def promoted(*operands: Any) -> DType:
    """The type that operands of a comparison are compared in."""
    tensors = [t for t in operands if isinstance(t, Tensor)]
    kind = tensors[0].dtype
    for t in tensors[1:]:
        pair = (kind, t.dtype)
        if tensors[0].ndim and not t.ndim:
            kind = dtypes.promote_scalar(*pair)
        elif t.ndim and not tensors[0].ndim:
            kind = dtypes.promote_scalar(pair[1], pair[0])
        else:
            kind = dtypes.promote_any(*pair)
    for x in operands:
        if not isinstance(x, Tensor):
            kind = dtypes.promote_number(kind, x)
    return kind
