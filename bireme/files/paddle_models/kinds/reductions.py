"""Kinds of reductions, sorting and counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme import _C_ops, tensor
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models.kinds.table import kind
from bireme.ops import nms


def _reduction(name: str) -> Callable:
    def call(x: Tensor, axis: Any = None, keepdim: bool = False, reduce_all: bool = False, dtype: Any = None) -> Tensor:
        if isinstance(axis, (list, tuple)):
            axis = list(axis) or None
        axis = None if reduce_all else axis
        found = getattr(tensor, name)(x, axis, keepdim=keepdim)
        return found if dtype is None or str(dtype).startswith("Undefined") else tensor.cast(found, dtype)

    return call


for _name in ("sum", "mean", "max", "min", "prod", "all", "any", "amax", "amin", "logsumexp"):
    kind(_name, "x axis:ints" if _name in ("sum", "mean", "max", "min", "prod") else "x")(_reduction(_name))


@kind("mean_all", "x")
def _mean_all(x: Tensor) -> Tensor:
    return tensor.mean(x)


@kind("elementwise_pow", "x y")
def _elementwise_pow(x: Tensor, y: Tensor) -> Tensor:
    return tensor.pow(x, y)


@kind("argmax", "x axis:int")
def _argmax(x: Tensor, axis: Any = -1, keepdims: bool = False, flatten: bool = False, dtype: str = "int64") -> Tensor:
    return _C_ops.argmax(x, axis, keepdims, flatten, "int64" if dtype.startswith("Undefined") else dtype)


@kind("argmin", "x axis:int")
def _argmin(x: Tensor, axis: Any = -1, keepdims: bool = False, flatten: bool = False, dtype: str = "int64") -> Tensor:
    return _C_ops.argmin(x, axis, keepdims, flatten, "int64" if dtype.startswith("Undefined") else dtype)


@kind("cumsum", "x axis:int")
def _cumsum(x: Tensor, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Tensor:
    return _C_ops.cumsum(x, axis, flatten, exclusive, reverse)


@kind("median nanmedian", "x")
def _median(x: Tensor, axis: Any = (), keepdim: bool = False, mode: str = "avg") -> Any:
    return _C_ops.median(x, axis, keepdim, mode)


@kind("unique", "x")
def _unique(
    x: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = (),
    dtype: str = "int64",
    is_sorted: bool = True,
) -> Any:
    found = tensor.unique(x, True, True, True, axis[0] if len(axis) else None, dtype)
    return tuple(found)


@kind("nms", "x")
def _nms(x: Tensor, threshold: float = 1.0) -> Tensor:
    return nms(x, threshold)


@kind("histogram", "input weight")
def _histogram(
    input: Tensor, weight: Any = None, bins: int = 100, min: float = 0, max: float = 0, density: bool = False
) -> Tensor:
    return _C_ops.histogram(input, weight, bins, min, max, density)
