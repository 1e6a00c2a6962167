"""Channels last: convolutions and what lies between them see images as [batch, height, width, channels].

Kernels of a CPU read and write channels in runs of memory then. Where something else reads a value, it is turned back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.graph.graph import sig_of
from bireme.core.program.program import Operation, Program, leaves, mapped
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Dim, Sample, Symbol
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import arguments, rebuilt, told
from bireme.ops import transpose

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
AXIS = {0: 0, 1: 3, 2: 1, 3: 2}  # where an axis of the old order is in the new one
BEGIN = frozenset(("conv2d", "conv2d_transpose"))  # worth turning an image for
WINDOWS = BEGIN | {"max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "interpolate", "batch_norm"}
UNARY = frozenset((
    *("relu", "relu6", "leaky_relu", "elu", "gelu", "sigmoid", "hardsigmoid", "hardswish", "hardtanh", "swish", "silu", "mish"),
    *("tanh", "softplus", "abs", "sqrt", "exp", "scale", "clip", "assign", "cast", "pow", "square", "rsqrt"),
))  # fmt: skip
BINARY = frozenset(("add", "subtract", "multiply", "divide", "maximum", "minimum"))


def channels_last(model: Model) -> list[str]:
    """Let convolutions, poolings and the elementwise functions between them take images with the channels last."""
    work = _Turning(model.program)
    for operation in model.program.operations:
        work.take(operation)
    for x in model.outputs:
        work.back(x)
    for x in leaves(model.results):
        if isinstance(x, Dim):
            for symbol in work.symbols(x):
                work.back(symbol)
    model.program.operations = work.kept
    return work.lines


class _Turning:
    """A walk over a program: which values there are with the channels last."""

    def __init__(self, program: Program):
        self.program = program
        self.kept: list[Operation] = []
        self.turned: dict[Symbol, Symbol] = {}
        self.there: set[Symbol] = set()  # values in the old order, of those that are turned
        self.lines: list[str] = []

    def take(self, operation: Operation) -> None:
        new = self._turned(operation)
        if new is None:
            for x in operation.reads if hasattr(operation.call, "labelled") else self._values(operation):
                self.back(x)
            self.kept.append(operation if hasattr(operation.call, "labelled") else self._with_sizes(operation))
            return
        made = operation.makes[0]
        new.results = self.turned[made] = self._symbol(made, TO_LAST, ".last")
        self.kept.append(new)
        self.lines.append(f"{told(operation)} has its channels last")

    def back(self, x: Any) -> None:
        """Have a value in the old order, under its own name."""
        if isinstance(x, Symbol) and x in self.turned and x not in self.there:
            self.there.add(x)
            self._transpose(self.turned[x], x, TO_FIRST)

    def symbols(self, dim: Dim) -> list[Symbol]:
        """The symbols whose sizes a size comes from."""
        kind, *rest = dim.how
        return [rest[0]] if kind == "size" else [s for x in rest if isinstance(x, Dim) for s in self.symbols(x)]

    def _values(self, operation: Operation) -> list[Any]:
        return [x for x in leaves((operation.args, operation.kwargs)) if isinstance(x, Symbol)]

    def _with_sizes(self, operation: Operation) -> Operation:
        """The same with sizes of the turned values where it has sizes of others."""
        if not any(isinstance(x, Dim) for x in leaves((operation.args, operation.kwargs))):
            return operation
        new = operation.copy()
        new.args, new.kwargs = mapped(self._size, (operation.args, operation.kwargs))
        return new

    def _size(self, x: Any) -> Any:
        if not isinstance(x, Dim):
            return x
        kind, *rest = x.how
        if kind != "size":
            return Dim((kind, *[self._size(y) for y in rest]))
        symbol, axis = rest
        return Dim(("size", self.turned[symbol], AXIS[axis % 4])) if symbol in self.turned else x

    def _turned(self, operation: Operation) -> Operation | None:
        """The operation on turned values, or None where it stays."""
        given = arguments(operation)
        if given is None or not isinstance(operation.results, Symbol) or not _is_image(operation.results):
            return None
        kind = operation.type
        if kind in WINDOWS:
            changes = self._window(kind, given)
        elif kind in UNARY:
            changes = {"x": self.turned[given["x"]]} if self._is_turned(given["x"]) else None
        elif kind in BINARY:
            changes = self._binary(given)
        else:
            changes = self._concat(given) if kind == "concat" else None
        return None if changes is None else rebuilt(self._with_sizes(operation), changes)

    def _window(self, kind: str, given: dict[str, Any]) -> dict[str, Any] | None:
        x = given["x"]
        if given["data_format"] not in ("NCHW", None) or not _is_image(x) or not (kind in BEGIN or self._is_turned(x)):
            return None
        padding = given.get("padding", 0)
        if given.get("return_mask") or (isinstance(padding, (list, tuple)) and any(map(_is_list, padding))):
            return None
        return {"x": self._last(x), "data_format": "NHWC"}

    def _binary(self, given: dict[str, Any]) -> dict[str, Any] | None:
        both = [given["x"], given["y"]]
        if not any(self._is_turned(x) for x in both):
            return None
        found = [self._operand(x) for x in both]
        return None if any(x is None for x in found) else {"x": found[0], "y": found[1]}

    def _operand(self, x: Any) -> Any:
        """An operand that is broadcast against an image with the channels last; None where there is no such one."""
        if isinstance(x, (int, float)):
            return x
        if isinstance(x, Symbol):
            return self._last(x) if _is_image(x) else x if _is_one(x) else None
        if not isinstance(x, Tensor):
            return None
        if x.size == 1 and x.ndim <= 4:
            return x
        if x.ndim not in (3, 4):
            return None
        array = x.numpy().reshape([1] * (4 - x.ndim) + list(x.shape))
        return Tensor(np.ascontiguousarray(array.transpose(TO_LAST)), x.dtype)

    def _concat(self, given: dict[str, Any]) -> dict[str, Any] | None:
        x, axis = given["x"], given["axis"]
        if not isinstance(x, (list, tuple)) or not isinstance(axis, int) or not all(map(_is_image, x)):
            return None
        if not any(map(self._is_turned, x)):
            return None
        return {"x": [self._last(y) for y in x], "axis": AXIS[axis % 4]}

    def _is_turned(self, x: Any) -> bool:
        return isinstance(x, Symbol) and x in self.turned

    def _last(self, x: Symbol) -> Symbol:
        """A value with the channels last."""
        if x not in self.turned:
            self.turned[x] = self._symbol(x, TO_LAST, ".last")
            self.there.add(x)
            self._transpose(x, self.turned[x], TO_LAST)
        return self.turned[x]

    def _transpose(self, x: Symbol, into: Symbol, order: tuple[int, ...]) -> None:
        operation = Operation(transpose, "transpose", (x, list(order)), {})
        operation.results = into
        self.kept.append(operation)

    def _symbol(self, x: Symbol, order: tuple[int, ...], suffix: str) -> Symbol:
        samples = [sample.sig for sample in x.samples]
        turned = tuple([Sample(sig_of(tuple([s.shape[i] for i in order]), s.dtype)) for s in samples])
        made = Symbol(self.program._unused_name(x.name + suffix), turned, x.stop_gradient)
        if x.fixed is not None:
            made.fixed = tuple([x.fixed[i] for i in order])
        return self.program._add(made)


def _is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple))


def _is_image(x: Any) -> bool:
    return isinstance(x, Symbol) and x.samples[0].items is None and len(x.samples[0].sig.shape) == 4


def _is_one(x: Symbol) -> bool:
    """Whether a value has one element, whatever the sizes."""
    return x.samples[0].items is None and all(sample.sig.size == 1 for sample in x.samples)
