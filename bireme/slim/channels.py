"""Which channels of a recorded graph belong together: those that are removed at once, wherever they are read.

Every index along an axis of a tensor has a number; calls make numbers of operands and results equal. A residual connection joins
the channels of its branches, a concatenation puts them side by side, a depthwise convolution keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.program.program import Operation
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import arguments, rebuilt

RULES: dict[str, Callable[[Channels, Operation, dict[str, Any]], None]] = {}


class Channels:
    """The channels of a graph, joined.

    Args:
        model: The graph, in evaluation.
        editable: Whether sizes that calls have as numbers can be changed with the channels: those of a saved graph can,
            those in the code of a layer cannot.
    """

    def __init__(self, model: Model, editable: bool = False):
        self.model, self.editable = model, editable
        self.opened: dict[int, int] = {}  # reshapes, by identity, and the axis whose size is that of the operand
        self._parent: list[int] = []
        self._fixed: list[int] = []
        self._symbols: dict[Symbol, dict[int, np.ndarray]] = {}
        self.tensors: dict[int, tuple[Tensor, dict[int, np.ndarray]]] = {}  # by identity
        for operation in model.program.operations:
            given = arguments(operation)
            rule = RULES.get(operation.type)
            if rule is None or given is None or not isinstance(operation.results, Symbol):
                self._unknown(operation)
            else:
                rule(self, operation, given)
        for x in model.outputs:
            self.fix(x)
        self.fixed = {self.root(n) for n in self._fixed}

    def root(self, number: int) -> int:
        """The number that stands for all that are equal to one."""
        found = number
        while self._parent[found] != found:
            found = self._parent[found]
        while self._parent[number] != found:
            self._parent[number], number = found, self._parent[number]
        return found

    def roots(self, x: Tensor, axis: int) -> np.ndarray:
        """The channels of a stored tensor along an axis; none of them if no rule knows it."""
        held = self.tensors.get(id(x), (x, {}))[1].get(axis % max(x.ndim, 1))
        return np.array([] if held is None else [self.root(n) for n in held], np.int64)

    def join(self, a: np.ndarray, b: np.ndarray) -> None:
        """Channels that belong together one by one."""
        for p, q in zip(a.tolist(), b.tolist(), strict=True):
            self._parent[self.root(p)] = self.root(q)

    def numbers(self, x: Any, axis: int) -> np.ndarray:
        """The numbers of an operand along an axis: new ones for a stored tensor, new ones that stay for other values."""
        size = x.shape[axis]
        axis %= len(x.shape)
        if isinstance(x, Tensor):
            held = self.tensors.setdefault(id(x), (x, {}))[1]
        else:
            held = self._symbols.setdefault(x, {})
        if axis not in held:
            made = np.arange(len(self._parent), len(self._parent) + int(size))
            self._parent += made.tolist()
            held[axis] = made
            if not isinstance(x, Tensor):
                self._fixed += made.tolist()
        return held[axis]

    def known(self, x: Any) -> dict[int, np.ndarray]:
        """Axes of a value whose numbers are known."""
        if isinstance(x, Symbol):
            return self._symbols.get(x, {})
        return self.tensors[id(x)][1] if isinstance(x, Tensor) and id(x) in self.tensors else {}

    def give(self, out: Any, axis: int, numbers: np.ndarray) -> None:
        """The numbers of a result along an axis."""
        self._symbols.setdefault(out, {})[axis % len(out.shape)] = numbers

    def fix(self, x: Any) -> None:
        """Nothing of a value may be removed."""
        for numbers in self.known(x).values():
            self._fixed += numbers.tolist()

    def _unknown(self, operation: Operation) -> None:
        for x in operation.reads:
            if isinstance(x, Tensor):
                for axis in range(x.ndim):
                    self.numbers(x, axis)
            self.fix(x)

    def without(self, removed: set[int]) -> dict[int, tuple[Tensor, np.ndarray]]:
        """Arrays of stored tensors without some channels, by the identity of the tensor, where they change."""
        found = {}
        for key, (tensor, axes) in self.tensors.items():
            array = tensor.numpy()
            for axis, numbers in axes.items():
                kept = [i for i, n in enumerate(numbers.tolist()) if self.root(n) not in removed]
                if len(kept) < array.shape[axis]:
                    array = np.take(array, kept, axis)
            if array.shape != tuple(tensor.shape):
                found[key] = (tensor, array)
        return found

    def edit(self, sizes: dict[int, int]) -> None:
        """Make depthwise convolutions of the graph have as many groups as they have filters now, and reshapes take what comes."""
        for i, operation in enumerate(self.model.program.operations):
            given = arguments(operation)
            axis = self.opened.get(id(operation))
            if axis is not None and given is not None:
                shape = [0 if at == axis else n for at, n in enumerate(given["shape"])]
                self.model.program.operations[i] = rebuilt(operation, {"shape": shape})
                self.opened[id(self.model.program.operations[i])] = axis
            if operation.type in CONVOLUTIONS and given is not None and given["groups"] > 1:
                filters = sizes.get(id(given["weight"]))
                if filters is not None:
                    self.model.program.operations[i] = rebuilt(operation, {"groups": filters})
        self.model.program.version += 1  # what was prepared for a run holds no more


def rule(*names: str) -> Callable:
    """Declare how calls join channels."""

    def declare(function: Callable) -> Callable:
        RULES.update(dict.fromkeys(names, function))
        return function

    return declare


CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
SAME = (
    *("relu", "relu6", "sigmoid", "tanh", "hardswish", "hardsigmoid", "leaky_relu", "swish", "silu", "gelu", "elu", "mish"),
    *("dropout", "clip", "scale", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d", "max_pool1d"),
    *("avg_pool1d", "adaptive_avg_pool1d", "interpolate", "upsample", "exp", "sqrt", "abs", "square", "cast", "astype"),
    *("assign", "clone", "softplus", "softsign", "hardtanh", "celu", "selu", "log_sigmoid", "dropout2d", "detach"),
)  # fmt: skip


def _channel(x: Any, given: dict[str, Any]) -> int:
    """The axis of the channels of a picture."""
    return len(x.shape) - 1 if str(given.get("data_format") or "NC").endswith("C") and len(x.shape) > 2 else 1


@rule(*CONVOLUTIONS)
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    x, weight, bias, out = given["x"], given["weight"], given["bias"], operation.results
    axis, groups = _channel(x, given), given["groups"]
    if not isinstance(weight, Tensor):
        c._unknown(operation)
        return
    own = c.numbers(weight, 0)
    if groups == 1:
        c.join(c.numbers(x, axis), c.numbers(weight, 1))
    elif groups == x.shape[axis] == weight.shape[0]:
        c.join(c.numbers(x, axis), own)
    else:
        for value, at in ((x, axis), (weight, 0), (weight, 1)):
            c._fixed += c.numbers(value, at).tolist()
    if isinstance(bias, Tensor):
        c.join(c.numbers(bias, 0), own)
    c.give(out, axis, own)


@rule("conv1d_transpose", "conv2d_transpose")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    x, weight, bias = given["x"], given["weight"], given["bias"]
    if given["groups"] != 1 or not isinstance(weight, Tensor):
        c._unknown(operation)
        return
    axis = _channel(x, given)
    c.join(c.numbers(x, axis), c.numbers(weight, 0))
    if isinstance(bias, Tensor):
        c.join(c.numbers(bias, 0), c.numbers(weight, 1))
    c.give(operation.results, axis, c.numbers(weight, 1))


@rule("batch_norm", "instance_norm")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    x = given["x"]
    axis = _channel(x, given)
    numbers = c.numbers(x, axis)
    for name in ("running_mean", "running_var", "weight", "bias"):
        if isinstance(given.get(name), Tensor):
            c.join(c.numbers(given[name], 0), numbers)
    c.give(operation.results, axis, numbers)


@rule("prelu")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    x, weight = given["x"], given["weight"]
    axis = _channel(x, given)
    if isinstance(weight, Tensor) and weight.shape[0] > 1:
        c.join(c.numbers(weight, 0), c.numbers(x, axis))
    c.give(operation.results, axis, c.numbers(x, axis))


@rule(*SAME)
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    for axis, numbers in dict(c.known(given["x"])).items():
        if operation.results.shape[axis] == given["x"].shape[axis]:
            c.give(operation.results, axis, numbers)
        else:
            c.fix(given["x"])


@rule("add", "subtract", "multiply", "divide", "maximum", "minimum")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    operands = [v for v in (given["x"], given["y"]) if isinstance(v, (Symbol, Tensor)) and len(v.shape)]
    out = operation.results
    rank = len(out.shape)
    for axis in range(-rank, 0):
        wide = [v for v in operands if len(v.shape) >= -axis and _whole(v.shape[axis]) > 1]
        if any(axis % len(v.shape) in c.known(v) for v in wide):
            found = [c.numbers(v, axis) for v in wide]
            for other in found[1:]:
                c.join(other, found[0])
            c.give(out, axis, found[0])


def _whole(n: Any) -> int:
    return -1 if isinstance(n, Dim) else int(n)


@rule("linear")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    _product(c, operation, given["x"], given["weight"], given["bias"], 0)


@rule("matmul", "mm")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    x, y = (given.get(a, given.get(b)) for a, b in (("x", "input"), ("y", "mat2")))
    if given.get("transpose_x") or not isinstance(y, Tensor) or y.ndim != 2 or isinstance(x, Tensor):
        c._unknown(operation)
        return
    _product(c, operation, x, y, None, int(bool(given.get("transpose_y"))))


def _product(c: Channels, operation: Operation, x: Any, weight: Any, bias: Any, axis: int) -> None:
    if not isinstance(weight, Tensor) or isinstance(x, Tensor):
        c._unknown(operation)
        return
    c.join(c.numbers(x, -1), c.numbers(weight, axis))
    own = c.numbers(weight, 1 - axis)
    if isinstance(bias, Tensor):
        c.join(c.numbers(bias, 0), own)
    c.give(operation.results, -1, own)


@rule("concat")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    values, axis = given["x"], given["axis"]
    if not isinstance(values, (list, tuple)) or not isinstance(axis, int):
        c._unknown(operation)
        return
    rank = len(values[0].shape)
    for at in sorted({a for v in values for a in c.known(v)}):
        numbers = [c.numbers(v, at) for v in values]
        if at == axis % rank:
            c.give(operation.results, at, np.concatenate(numbers))
        else:
            for other in numbers[1:]:
                c.join(other, numbers[0])
            c.give(operation.results, at, numbers[0])


@rule("flatten")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    x, rank = given["x"], len(given["x"].shape)
    first, last = given["start_axis"] % rank, given["stop_axis"] % rank
    _merged(c, operation, x, first, last)


def _merged(c: Channels, operation: Operation, x: Any, first: int, last: int) -> None:
    """Axes that become one: a channel is as many indices there as the other axes have."""
    for axis, numbers in dict(c.known(x)).items():
        if axis < first:
            c.give(operation.results, axis, numbers)
        elif axis > last:
            c.give(operation.results, axis - (last - first), numbers)
        else:
            sizes = [_whole(x.shape[a]) for a in range(first, last + 1)]
            if min(sizes) < 0:
                c.fix(x)
                continue
            outer, inner = (int(np.prod(part)) for part in (sizes[: axis - first], sizes[axis - first + 1 :]))
            c.give(operation.results, first, np.tile(np.repeat(numbers, inner), outer))


@rule("reshape")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    x, shape = given["x"], given["shape"]
    plain = isinstance(shape, (list, tuple)) and all(isinstance(n, (int, Dim)) for n in shape)
    # sizes that are written down stay what they are, so channels may only stand where a size is left open
    if plain and len(shape) == 2 and shape[1] == -1 and list(c.known(x)) in ([], [1]):
        _merged(c, operation, x, 1, len(x.shape) - 1)
        return
    axis = 0 if isinstance(x, Tensor) else 1
    if isinstance(x, Tensor) and x.ndim == 1:
        c.numbers(x, 0)
    kept = plain and len(shape) > axis and len(x.shape) > axis and shape[axis] in (0, x.shape[axis])
    if kept and (shape[axis] == 0 or c.editable) and list(c.known(x)) == [axis] and (not axis or shape[0] in (-1, 0)):
        if shape[axis] != 0:
            c.opened[id(operation)] = axis
        c.give(operation.results, axis, c.numbers(x, axis))
    else:
        c.fix(x)


@rule("transpose")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    for axis, numbers in dict(c.known(given["x"])).items():
        c.give(operation.results, list(given["perm"]).index(axis), numbers)


@rule("mean", "max", "sum")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    x, axes, keep = given["x"], given["axis"], given["keepdim"]
    rank = len(x.shape)
    gone = range(rank) if axes is None else [a % rank for a in (axes if isinstance(axes, (list, tuple)) else [axes])]
    for axis, numbers in dict(c.known(x)).items():
        if axis not in gone:
            c.give(operation.results, axis if keep else axis - sum(g < axis for g in gone), numbers)
        elif operation.type == "mean":
            c.fix(x)  # it would be the mean of fewer


@rule("squeeze", "unsqueeze")
def _(c: Channels, operation: Operation, given: dict[str, Any]) -> None:
    x, out = given["x"], operation.results
    axes = given["axis"] if isinstance(given["axis"], (list, tuple)) else [given["axis"]]
    if not all(isinstance(a, int) for a in axes):
        c._unknown(operation)
        return
    wider = x if operation.type == "squeeze" else out
    gone = {a % len(wider.shape) for a in axes}
    if operation.type == "squeeze":
        gone = {a for a in gone if x.shape[a] == 1}
    kept = [a for a in range(len(wider.shape)) if a not in gone]
    for axis, numbers in dict(c.known(x)).items():
        if operation.type == "unsqueeze":
            c.give(out, kept[axis], numbers)
        elif axis in kept:
            c.give(out, kept.index(axis), numbers)
