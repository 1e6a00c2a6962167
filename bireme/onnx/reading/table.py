"""The table of meanings: by the type of a node, which public calls it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme import ops
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import DType
from bireme.core.program.variable import Dim, Variable
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.reading.file import TYPES, array_of, wrong

MEANINGS: dict[str, Callable] = {}


class Node:
    """A node as its meaning sees it: attributes by name, the version of its operators, and the graph around it."""

    def __init__(self, proto: Any, version: int, scope: Any):
        self.proto, self.version, self.scope = proto, version, scope
        self.attributes = {a.name: a for a in proto.attribute}
        self.count = len(proto.output)  # of results that are wanted

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as Python has it."""
        found = self.attributes.get(name)
        if found is None:
            return default
        kind = found.type
        if kind == 1:
            return float(found.f)
        if kind == 2:
            return int(found.i)
        if kind == 3:
            return found.s.decode(errors="replace")
        if kind == 4:
            return array_of(found.t)
        if kind == 5:
            return found.g
        if kind == 6:
            return [float(x) for x in found.floats]
        if kind == 7:
            return [int(x) for x in found.ints]
        if kind == 8:
            return [x.decode(errors="replace") for x in found.strings]
        if kind == 13:
            return found.tp
        raise self.bad(f"an attribute {name} of a kind that is known", str(kind))

    def bad(self, expected: str, described: str) -> Exception:
        name = f" {self.proto.name!r}" if self.proto.name else ""
        return wrong(expected, described, f"onnx.load: node {self.proto.op_type}{name}")


def means(*names: str) -> Callable:
    """Declare what nodes mean: (node, *inputs) -> result, or a list of results. An input that is left out is None."""

    def declare(fn: Callable) -> Callable:
        MEANINGS.update(dict.fromkeys(names, fn))
        return fn

    return declare


# ------------------------------------------------------------ values that calls need as Python's


def dtype_of(code: int) -> DType:
    """A type by its number in ONNX."""
    if code not in TYPES:
        raise wrong("a type that tensors have", f"number {code}")
    return dtypes.from_numpy(np.dtype(TYPES[code][0]))


def ints(x: Any) -> list[Any]:
    """Integers in a tensor: themselves, or where they are unknown, the sizes or tensors that stand for them."""
    if not isinstance(x, Variable):
        return [int(n) for n in np.asarray(x.numpy()).reshape(-1)]
    arrays = [s.array for s in x.symbol.samples]
    if arrays[0] is not None and all(a is not None and np.array_equal(a, arrays[0]) for a in arrays):
        return [int(n) for n in arrays[0].reshape(-1)]
    sizes = x.shape
    if len(sizes) != 1 or isinstance(sizes[0], Dim):
        return [x]
    return [x[i] for i in range(sizes[0])]


def host(x: Any) -> np.ndarray:
    """The elements of a tensor, which have to be known."""
    if isinstance(x, Variable):
        raise errors.failure("onnx: a node needs values that are unknown while a program is built")
    return np.asarray(x.numpy())


def number(x: Any) -> Any:
    """The one number in a tensor."""
    return host(x).reshape(-1)[0].item()


def tensor(x: Any, dtype: Any = None) -> Tensor:
    """An array, or a number, as a tensor."""
    array = np.array(x)
    made = Tensor(array, dtypes.from_numpy(array.dtype))
    return made if dtype is None else ops.cast(made, dtype)


def axis_of(axis: int, x: Any) -> int:
    """An axis, counted from the front."""
    n = max(x.ndim, 1)
    if not -n <= axis < n:
        raise wrong(f"an axis in [{-n}, {n - 1}]", str(axis), "onnx.load: a node")
    return axis % n
