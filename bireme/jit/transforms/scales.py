"""Constants that the images before or after a convolution are multiplied by, or that are added to them, become part of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.program.program import Operation
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Symbol
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import arguments, readers, rebuilt, replaced, told

WIDEST = 1e3  # a factor that an addend is divided by, to change their order, is at most so large or so small


def fold_scales(model: Model) -> list[str]:
    """Leave out multiplications by constants, and additions of such, around convolutions of images."""
    made = _Folding(model)
    for operation in model.program.operations:
        made.take(operation)
    model.program.operations = [made.now.get(id(o), o) for o in made.kept if id(o) not in made.gone]
    return made.lines


class _Folding:
    """One pass over a program: what is kept of it, and what stands now for some of its operations."""

    def __init__(self, model: Model):
        self.count = readers(model.program.operations, model.outputs)
        self.outputs = {x for x in model.outputs if isinstance(x, Symbol)}
        self.table: dict[Symbol, Any] = {}  # results that are gone -> what stands for them
        self.made_by: dict[Symbol, Operation] = {}
        self.kept: list[Operation] = []
        self.now: dict[int, Operation] = {}  # by the identity of what they stand for
        self.gone: set[int] = set()
        self.lines: list[str] = []

    def take(self, before: Operation) -> None:
        operation = replaced(before, self.table)
        if self._after(operation):
            return
        if operation.type == "conv2d":
            operation = self._before(operation)
        self.kept.append(operation)
        for symbol in operation.makes:
            self.made_by[symbol] = operation

    def _of(self, symbol: Any) -> Operation | None:
        """The operation that makes a value which one operation alone reads."""
        found = self.made_by.get(symbol) if isinstance(symbol, Symbol) and symbol not in self.outputs else None
        return None if found is None or self.count[symbol] != 1 else self.now.get(id(found), found)

    def _constant(self, operation: Operation | None) -> tuple[str, Symbol, np.ndarray] | None:
        """Whether an operation adds or multiplies by a constant: what it reads, and the constant, one number or one for each channel."""
        given = arguments(operation) if operation is not None and operation.type in ("add", "multiply") else None
        if given is None or operation is None or not isinstance(operation.results, Symbol):
            return None
        channels = operation.results.shape[1] if len(operation.results.shape) == 4 else None
        for x, other in ((given["x"], given["y"]), (given["y"], given["x"])):
            found = self._by_channel(other)
            if found is None or not isinstance(x, Symbol) or len(x.shape) != 4 or x.dtype.name != "float32":
                continue
            if isinstance(channels, int) and x.shape[1] == channels and len(found) in (1, channels):
                return operation.type, x, found
        return None

    def _by_channel(self, x: Any) -> np.ndarray | None:
        if isinstance(x, Symbol):  # a reshape of a parameter
            reshape = self.made_by.get(x)
            given = arguments(reshape) if reshape is not None and reshape.type == "reshape" else None
            if given is None or not isinstance(given["x"], Tensor) or any(not isinstance(n, int) for n in x.shape):
                return None
            x = given["x"].reshape(list(x.shape))
        if not isinstance(x, Tensor) or x.dtype.name != "float32" or x.ndim > 4:
            return None
        each = x.ndim >= 3 and x.shape[-3] == x.size  # [C, 1, 1], [1, C, 1, 1]
        return x.numpy().reshape(-1).astype(np.float64) if x.size == 1 or each else None

    def _after(self, operation: Operation) -> bool:
        """Let the convolution before an operation do what it does."""
        found = None if self.outputs.intersection(operation.makes) else self._constant(operation)
        conv = self._of(found[1]) if found is not None else None
        given = _own(conv)
        if found is None or conv is None or given is None or len(found[2]) not in (1, given["weight"].shape[0]):
            return False
        kind, x, constant = found
        weight, bias = given["weight"].numpy(), _bias(given)
        if kind == "add":
            self._set(conv, x, weight, bias + constant)
        else:
            self._set(conv, x, weight * constant.reshape(-1, 1, 1, 1), bias * constant)
        self.table[operation.makes[0]] = x
        self.count[x] = self.count[operation.makes[0]]
        self.lines.append(f"folded {told(operation)} into {told(conv)}")
        return True

    def _before(self, conv: Operation) -> Operation:
        """Let a convolution do what the operations before it do; what is added stays where there is padding, which it is not added to."""
        given = _own(conv)
        if given is None:
            return conv
        weight, bias = given["weight"].numpy().astype(np.float64), _bias(given)
        x, lines = given["x"], []
        adds = self._of(x)
        found = self._constant(adds)
        if found is not None and found[0] == "add" and adds is not None:
            if not _is_zero(given["padding"]):
                return self._moved(conv, given, adds, found)
            if len(found[2]) == 1 or given["groups"] == 1:
                bias = bias + (weight * found[2].reshape(1, -1, 1, 1)).sum((1, 2, 3))
                x, lines = found[1], [adds]
        times = self._of(x)
        found = self._constant(times)
        if found is not None and found[0] == "multiply" and times is not None:
            if len(found[2]) == 1 or given["groups"] == 1:
                weight, x, lines = weight * found[2].reshape(1, -1, 1, 1), found[1], [*lines, times]
        for operation in lines:
            self._leave_out(operation, conv)
        return rebuilt(conv, {"x": x, **_tensors(weight, bias)}) if lines else conv

    def _moved(
        self, conv: Operation, given: dict[str, Any], adds: Operation, found: tuple[str, Symbol, np.ndarray]
    ) -> Operation:
        """x * a + b before a padded convolution is x + b / a, and a is the convolution's."""
        times = self._of(found[1])
        factor = self._constant(times)
        if times is None or factor is None or factor[0] != "multiply" or len(factor[2]) > 1:
            return conv
        scale = float(factor[2][0])
        if not 1 / WIDEST <= abs(scale) <= WIDEST:
            return conv
        shape = [-1, 1, 1] if len(found[2]) > 1 else [1]
        addend = Tensor((found[2] / scale).reshape(shape).astype(np.float32))
        self._replace(adds, rebuilt(adds, {"x": factor[1], "y": addend}))
        self._leave_out(times, conv)
        return rebuilt(conv, _tensors(given["weight"].numpy() * scale, _bias(given), given["bias"] is not None))

    def _leave_out(self, operation: Operation, conv: Operation) -> None:
        self.gone.add(next(key for key in map(id, self.kept) if self._is(key, operation)))
        self.lines.append(f"folded {told(operation)} into {told(conv)}")

    def _is(self, key: int, operation: Operation) -> bool:
        return key == id(operation) or (key in self.now and self.now[key] is operation)

    def _replace(self, operation: Operation, new: Operation) -> None:
        key = next(key for key in map(id, self.kept) if self._is(key, operation))
        self.now[key] = new

    def _set(self, conv: Operation, x: Symbol, weight: np.ndarray, bias: np.ndarray) -> None:
        self._replace(conv, rebuilt(conv, _tensors(weight, bias)))


def _own(conv: Operation | None) -> dict[str, Any] | None:
    """Arguments of a convolution whose weights are known."""
    given = arguments(conv) if conv is not None and conv.type == "conv2d" else None
    if given is None or given["data_format"] != "NCHW" or not isinstance(given["x"], Symbol):
        return None
    known = isinstance(given["weight"], Tensor) and (given["bias"] is None or isinstance(given["bias"], Tensor))
    return given if known and given["weight"].dtype.name == "float32" and given["weight"].ndim == 4 else None


def _bias(given: dict[str, Any]) -> np.ndarray:
    if given["bias"] is None:
        return np.zeros(given["weight"].shape[0])
    return given["bias"].numpy().astype(np.float64)


def _tensors(weight: np.ndarray, bias: np.ndarray, wanted: bool = True) -> dict[str, Any]:
    made: dict[str, Any] = {"weight": Tensor(weight.astype(np.float32))}
    return made | {"bias": Tensor(bias.astype(np.float32))} if wanted else made


def _is_zero(padding: Any) -> bool:
    if isinstance(padding, (list, tuple)):
        return all(map(_is_zero, padding))
    return padding == 0 or (isinstance(padding, str) and padding.upper() == "VALID")
