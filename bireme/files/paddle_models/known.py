"""Known values: numbers of a program that are known while it is read, and sizes that are known when it runs.

Paddle's programs compute shapes with operations: the shape of a tensor is cut, changed and joined, and given to a
reshape. Here such numbers stay numbers, or sizes of variables (`Dim`), and are made a tensor only where one is needed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.program.building import suspended
from bireme.core.program.variable import Dim
from bireme.core.tensor.tensor import Tensor
from bireme.ops import to_tensor

MAX = 256  # elements of what is kept as numbers


class Known:
    """An array of Python numbers, some of which may be sizes that are found when the program runs."""

    __slots__ = ("array", "dtype")

    def __init__(self, array: Any, dtype: str):
        self.array, self.dtype = np.asarray(array, dtype=object), dtype

    @property
    def fixed(self) -> bool:
        """Whether no number waits for the program to run."""
        return not any(isinstance(x, Dim) for x in self.array.flat)

    def tensor(self) -> Tensor:
        """The same as a tensor: a constant, or a variable that is computed from sizes."""
        if not self.fixed:
            return to_tensor(self.array.tolist(), self.dtype)
        kind = dtypes.of(self.dtype, "dtype")
        with suspended():
            return Tensor(np.array(self.array.tolist(), dtype=kind.np).reshape(self.array.shape), kind)

    def numbers(self) -> list[Any]:
        """Its elements in order."""
        return list(self.array.reshape(-1))


def integral(x: Any) -> bool:
    """Whether it is a known array of integers."""
    return isinstance(x, Known) and x.dtype in ("int32", "int64")


def shape(x: Tensor, dtype: str) -> Known:
    """The sizes of a tensor."""
    made = np.empty(len(x.shape), dtype=object)
    made[:] = x.shape
    return Known(made, dtype)


def _binary(compute: Callable) -> Callable:
    def fold(x: Any, y: Any) -> Known | None:
        if not (integral(x) and integral(y)) or max(x.array.size, y.array.size) > MAX:
            return None
        if compute in (operator.floordiv, operator.mod) and any(n == 0 for n in y.array.flat if not isinstance(n, Dim)):
            return None
        return Known(compute(x.array, y.array), x.dtype if x.dtype == y.dtype else "int64")

    return fold


def _scale(x: Any, scale: Any, bias: float = 0.0, bias_after_scale: bool = True) -> Known | None:
    scale = scale.numbers()[0] if isinstance(scale, Known) and scale.array.size == 1 else scale
    if not integral(x) or not isinstance(scale, (int, float)) or isinstance(scale, Dim):
        return None
    if scale != int(scale) or bias != int(bias):
        return None
    scale, bias = int(scale), int(bias)
    return Known(x.array * scale + bias if bias_after_scale else (x.array + bias) * scale, x.dtype)


def _slice(
    input: Any, starts: Any, ends: Any, axes: Any = (0,), infer_flags: Any = (), decrease_axis: Any = ()
) -> Known | None:
    starts, ends = plain(starts), plain(ends)
    if not isinstance(input, Known) or starts is None or ends is None or len(axes) != len(starts):
        return None
    index: list[Any] = [slice(None)] * input.array.ndim
    for axis, start, end in zip(axes, starts, ends, strict=True):
        index[axis] = slice(start, end)
    found = input.array[tuple(index)]
    for axis in sorted(decrease_axis, reverse=True):
        if found.shape[axis] != 1:
            return None
        found = np.squeeze(found, axis)
    return Known(found, input.dtype)


def _cast(x: Any, dtype: Any) -> Known | None:
    if integral(x) and dtype in ("int32", "int64"):
        return Known(x.array, dtype)
    return None


def _joined(join: Callable) -> Callable:
    def fold(x: Any, axis: Any = 0) -> Known | None:
        axis = axis.numbers()[0] if isinstance(axis, Known) else axis
        if not isinstance(x, list) or not x or not all(isinstance(each, Known) for each in x):
            return None
        if len({each.dtype for each in x}) != 1 or sum(each.array.size for each in x) > MAX:
            return None
        return Known(join([each.array for each in x], axis=axis), x[0].dtype)

    return fold


def _reshape(x: Any, shape: Any) -> Known | None:
    sizes = plain(shape)
    if not isinstance(x, Known) or sizes is None or 0 in sizes:
        return None
    return Known(x.array.reshape(sizes), x.dtype)


def _squeeze(x: Any, axis: Any) -> Known | None:
    axes = plain(axis)
    if not isinstance(x, Known) or axes is None:
        return None
    axes = [a for a in axes if x.array.shape[a] == 1] if axes else None
    return Known(np.squeeze(x.array, None if axes is None else tuple(axes)), x.dtype)


def _unsqueeze(x: Any, axis: Any) -> Known | None:
    axes = plain(axis)
    if not isinstance(x, Known) or axes is None:
        return None
    return Known(np.expand_dims(x.array, tuple(axes)), x.dtype)


def _gather(x: Any, index: Any, axis: Any = 0) -> Known | None:
    at = plain(index)
    if not isinstance(x, Known) or at is None or (plain(axis) if isinstance(axis, Known) else [axis]) != [0]:
        return None
    return Known(x.array[np.array(at, int)], x.dtype)


def plain(x: Any) -> list[int] | None:
    """Integers, where they are known now."""
    if isinstance(x, (list, tuple)) and all(type(n) is int for n in x):
        return list(x)
    if isinstance(x, Known) and x.fixed and all(isinstance(n, int) for n in x.array.flat):
        return [int(n) for n in x.array.flat]
    return None


# what is computed from known values while a program is read, by the names of operations; None: as an operation
FOLDED: dict[str, Callable] = {
    "add": _binary(operator.add),
    "subtract": _binary(operator.sub),
    "multiply": _binary(operator.mul),
    "floor_divide": _binary(operator.floordiv),
    "remainder": _binary(operator.mod),
    "scale": _scale,
    "slice": _slice,
    "cast": _cast,
    "concat": _joined(np.concatenate),
    "stack": _joined(np.stack),
    "reshape": _reshape,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "gather": _gather,
}
