"""Meanings of reductions, cumulative nodes, search and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme import ops
from bireme.core.base import dtype as dtypes
from bireme.onnx.reading.table import MEANINGS, Node, axis_of, ints, means, number, tensor

Reduced = Callable[[Any, Any, bool], Any]


def _max(x: Any, axes: Any, keep: bool) -> Any:
    if x.dtype is dtypes.bool_:
        return ops.any(x, axis=axes, keepdim=keep)
    if not x.size:
        return _empty(x, axes, keep, -1)
    return _typed(ops.max, x, axes, keep)


def _min(x: Any, axes: Any, keep: bool) -> Any:
    if x.dtype is dtypes.bool_:
        return ops.all(x, axis=axes, keepdim=keep)
    if not x.size:
        return _empty(x, axes, keep, 1)
    return _typed(ops.min, x, axes, keep)


def _empty(x: Any, axes: Any, keep: bool, sign: int) -> Any:
    shape = ops.sum(x, axis=axes, keepdim=keep).shape
    return ops.full(shape, sign * float("inf"), x.dtype)


def _typed(f: Callable, x: Any, axes: Any, keep: bool) -> Any:
    """Through int32, for integers that a function does not take."""
    if x.dtype.name in ("int8", "uint8", "int16", "uint16"):
        return ops.cast(f(ops.cast(x, "int32"), axis=axes, keepdim=keep), x.dtype)
    return f(x, axis=axes, keepdim=keep)


def _sum(x: Any, axes: Any, keep: bool) -> Any:
    return ops.cast(ops.sum(x, axis=axes, keepdim=keep), x.dtype)


def _log_sum_exp(x: Any, axes: Any, keep: bool) -> Any:
    return ops.logsumexp(x, axis=axes, keepdim=keep) if x.size else ops.log(_sum(ops.exp(x), axes, keep))


REDUCTIONS: dict[str, Reduced] = {
    "ReduceSum": _sum,
    "ReduceMean": lambda x, axes, keep: _typed(ops.mean, x, axes, keep),
    "ReduceProd": lambda x, axes, keep: ops.cast(ops.prod(x, axis=axes, keepdim=keep), x.dtype),
    "ReduceMax": _max,
    "ReduceMin": _min,
    "ReduceL1": lambda x, axes, keep: _sum(ops.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: ops.cast(ops.sqrt(_sum(x * x, axes, keep)), x.dtype),
    "ReduceLogSum": lambda x, axes, keep: ops.log(_sum(x, axes, keep)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
}


def _reduction(f: Reduced) -> Callable:
    def meaning(n: Node, x: Any, axes: Any = None) -> Any:
        found = n.attr("axes") if axes is None else ints(axes)
        if not found:
            if n.attr("noop_with_empty_axes", 0):
                return f(x, [], True) if f is not _sum else [x]
            found = None
        elif not x.ndim:
            found = None
        else:
            found = [axis_of(a, x) for a in found]
        return f(x, found, bool(n.attr("keepdims", 1)))

    return meaning


for _name, _f in REDUCTIONS.items():
    MEANINGS[_name] = _reduction(_f)


def _extreme(largest: bool) -> Callable:
    def meaning(n: Node, x: Any) -> Any:
        axis, keep = axis_of(n.attr("axis", 0), x), bool(n.attr("keepdims", 1))
        find = ops.argmax if largest else ops.argmin
        if not n.attr("select_last_index", 0):
            return find(x, axis=axis, keepdim=keep)
        return x.shape[axis] - 1 - find(ops.flip(x, [axis]), axis=axis, keepdim=keep)

    return meaning


MEANINGS["ArgMax"], MEANINGS["ArgMin"] = _extreme(True), _extreme(False)


@means("TopK")
def _(n: Node, x: Any, k: Any = None) -> Any:
    count = n.attr("k") if k is None else ints(k)[0]
    axis, largest = axis_of(n.attr("axis", -1), x), bool(n.attr("largest", 1))
    narrow = x.dtype if x.dtype.kind == "i" and x.dtype.name not in ("int32", "int64") else None
    if x.dtype.name in ("uint64", "uint32"):  # no sort by these: as signed ones in the same order
        found = ops.argsort(ops.cast(x, "float64"), axis=axis, descending=largest, stable=True)
        index = ops.slice(found, [axis], [0], [count])
        return [ops.take_along_axis(x, index, axis), index]
    index = ops.argsort(ops.cast(x, "int32") if narrow else x, axis=axis, descending=largest, stable=True)
    index = ops.slice(index, [axis], [0], [count])
    return [ops.take_along_axis(x, index, axis), index]


def _cumulative(f: Callable) -> Callable:
    def meaning(n: Node, x: Any, axis: Any) -> Any:
        at = axis_of(int(number(axis)), x)
        first = 0 if f is ops.cumsum else 1
        y = ops.flip(x, [at]) if n.attr("reverse", 0) else x
        made = ops.cast(f(y, at), x.dtype)
        if n.attr("exclusive", 0):
            shape = list(x.shape)
            shape[at] = 1
            rest = ops.slice(made, [at], [0], [x.shape[at] - 1])
            made = ops.concat([ops.full(shape, first, x.dtype), rest], axis=at)
        return ops.flip(made, [at]) if n.attr("reverse", 0) else made

    return meaning


MEANINGS["CumSum"], MEANINGS["CumProd"] = _cumulative(ops.cumsum), _cumulative(ops.cumprod)


@means("NonZero")
def _(n: Node, x: Any) -> Any:
    if not x.ndim:
        x = ops.reshape(x, [1])
    return ops.transpose(ops.nonzero(x), [1, 0])


@means("Unique")
def _(n: Node, x: Any) -> Any:
    axis = n.attr("axis")
    given = x.numpy()
    made, first, inverse, counts = np.unique(given, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not n.attr("sorted", 1):
        order = np.argsort(first)
        place = np.argsort(order)
        made = np.take(made, order, axis=axis if axis is not None else 0)
        first, counts, inverse = first[order], counts[order], place[inverse]
    return [tensor(made), *[tensor(v.astype(np.int64)) for v in (first, inverse, counts)]]
