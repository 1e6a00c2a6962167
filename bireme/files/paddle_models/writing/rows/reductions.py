"""Rows of reductions, sorting and searching."""

from __future__ import annotations

from typing import Any

from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, row


def axes_of(axis: Any, x: Value) -> list[int]:
    """Axes as a list of non-negative ones; none of them: all."""
    if isinstance(axis, Value):
        raise Unwritable("with a tensor as axis")
    if axis is None:
        return []
    each = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    return [int(a) + x.ndim if a < 0 else int(a) for a in each]


def one(axis: Any, x: Value) -> int:
    return axes_of(axis, x)[0]


@row("sum")
def _sum(w: Writer, x: Value, axis: Any = None, dtype: Any = None, keepdim: bool = False) -> Value:
    kind = w.types[0][0]
    return w.op("sum", [w.cast(x, kind), w.ints(axes_of(axis, x))], dtype=kind, keepdim=keepdim)


@row("mean")
def _mean(w: Writer, x: Value, axis: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    return w.op("mean", [w.cast(x, w.types[0][0]), w.ints(axes_of(axis, x))], keepdim=keepdim)


@row("max")
def _max(w: Writer, x: Value, axis: Any = None, keepdim: bool = False) -> Value:
    return w.op("max", [x, w.ints(axes_of(axis, x))], keepdim=keepdim)


@row("min")
def _min(w: Writer, x: Value, axis: Any = None, keepdim: bool = False) -> Value:
    return w.op("min", [x, w.ints(axes_of(axis, x))], keepdim=keepdim)


@row("amax")
def _amax(w: Writer, x: Value, axis: Any = None, keepdim: bool = False) -> Value:
    return w.op("amax", [x], axis=axes_of(axis, x), keepdim=keepdim)


@row("amin")
def _amin(w: Writer, x: Value, axis: Any = None, keepdim: bool = False) -> Value:
    return w.op("amin", [x], axis=axes_of(axis, x), keepdim=keepdim)


@row("all")
def _all(w: Writer, x: Value, axis: Any = None, keepdim: bool = False) -> Value:
    return w.op("all", [w.cast(x, "bool")], axis=axes_of(axis, x), keepdim=keepdim)


@row("any")
def _any(w: Writer, x: Value, axis: Any = None, keepdim: bool = False) -> Value:
    return w.op("any", [w.cast(x, "bool")], axis=axes_of(axis, x), keepdim=keepdim)


@row("prod")
def _prod(w: Writer, x: Value, axis: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    axes = axes_of(axis, x)
    return w.op("prod", [w.cast(x, w.types[0][0]), w.ints(axes)], keepdim=keepdim, reduce_all=not axes)


@row("logsumexp")
def _logsumexp(w: Writer, x: Value, axis: Any = None, keepdim: bool = False) -> Value:
    axes = axes_of(axis, x)
    return w.op("logsumexp", [w.cast(x, w.types[0][0])], axis=axes, keepdim=keepdim, reduce_all=not axes)


@row("var")
def _var(
    w: Writer, x: Value, axis: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = 1
) -> Value:
    dtype, shape = w.types[0]
    axes = axes_of(axis, x) or list(range(x.ndim))
    kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
    mean = w.op("mean", [x, w.ints(axes)], [(dtype, kept)], keepdim=True)
    off = w.binary("subtract", x, mean)
    squares = w.op("square", [off], [off.type])
    less = (1 if unbiased else 0) if unbiased is not None else correction
    total = w.op("sum", [squares, w.ints(axes)], [(dtype, shape)], dtype=dtype, keepdim=keepdim)
    sizes = [x.shape[a] for a in axes]
    count: Any = 1
    for n in sizes:
        count = n * count
    return w.binary("divide", total, w.number(count - less, dtype), dtype)


@row("argmax")
def _argmax(w: Writer, x: Value, axis: Any = None, keepdim: bool = False, dtype: Any = "int64") -> Value:
    return extreme(w, "argmax", x, axis, keepdim)


@row("argmin")
def _argmin(w: Writer, x: Value, axis: Any = None, keepdim: bool = False, dtype: Any = "int64") -> Value:
    return extreme(w, "argmin", x, axis, keepdim)


def extreme(w: Writer, kind: str, x: Value, axis: Any, keepdim: bool) -> Value:
    at = w.full([1], 0 if axis is None else one(axis, x), "int64")
    return w.op(kind, [x, at], keepdims=keepdim, flatten=axis is None, dtype=w.types[0][0])


@row("arg_extreme")
def _arg_extreme(
    w: Writer, x: Value, axis: Any = None, keepdim: bool = False, dtype: Any = "int64", largest: bool = True
) -> Value:
    return extreme(w, "argmax" if largest else "argmin", x, axis, keepdim)


@row("cumsum")
def _cumsum(w: Writer, x: Value, axis: Any = None, dtype: Any = None) -> Value:
    at = w.full([1], 0 if axis is None else one(axis, x), "int32")
    return w.op("cumsum", [w.cast(x, w.types[0][0]), at], flatten=axis is None)


@row("cumprod")
def _cumprod(w: Writer, x: Value, dim: Any = None, dtype: Any = None) -> Value:
    x = w.cast(x, w.types[0][0])
    if dim is None:
        x = w.reshape(x, w.types[0][1], [-1])
    return w.op("cumprod", [x], dim=0 if dim is None else one(dim, x))


@row("logcumsumexp")
def _logcumsumexp(w: Writer, x: Value, axis: Any = None, dtype: Any = None) -> Value:
    x = w.cast(x, w.types[0][0])
    return w.op("logcumsumexp", [x], axis=0 if axis is None else one(axis, x), flatten=axis is None)


@row("topk")
def _topk(w: Writer, x: Value, k: Any, axis: Any = None, largest: bool = True, sorted: bool = True) -> Any:
    at = x.ndim - 1 if axis is None else one(axis, x)
    return w.op("topk", [x, w.number(k, "int32", [1])], axis=at, largest=largest, sorted=True)


@row("topk_of")
def _topk_of(w: Writer, x: Value, k: Any, axis: Any, largest: bool) -> Any:
    return _topk(w, x, k, axis, largest)


@row("cummax cummin")
def _cumulative(w: Writer, x: Value, axis: Any = None, dtype: Any = "int64") -> Any:
    if axis is None:
        x = w.reshape(x, w.types[0][1], [-1])
    return w.op(w.name, [x], axis=0 if axis is None else one(axis, x), dtype=w.types[1][0])


@row("argsort")
def _argsort(w: Writer, x: Value, axis: int = -1, descending: bool = False, stable: bool = False) -> Value:
    made = w.op("argsort", [x], [x.type, ("int64", x.shape)], axis=one(axis, x), descending=descending, stable=stable)
    return made[1]


@row("sort")
def _sort(w: Writer, x: Value, axis: int = -1, descending: bool = False, stable: bool = False) -> Value:
    made = w.op("argsort", [x], [x.type, ("int64", x.shape)], axis=one(axis, x), descending=descending, stable=stable)
    return made[0]


@row("kthvalue")
def _kthvalue(w: Writer, x: Value, k: int, axis: Any = None, keepdim: bool = False) -> Any:
    return w.op("kthvalue", [x], k=k, axis=x.ndim - 1 if axis is None else one(axis, x), keepdim=keepdim)


@row("mode")
def _mode(w: Writer, x: Value, axis: int = -1, keepdim: bool = False) -> Any:
    return w.op("mode", [x], axis=one(axis, x), keepdim=keepdim)


@row("searchsorted")
def _searchsorted(
    w: Writer, sorted_sequence: Value, values: Value, out_int32: bool = False, right: bool = False
) -> Value:
    return w.op("searchsorted", [sorted_sequence, values], out_int32=out_int32, right=right)


@row("p_norm")
def _p_norm(w: Writer, x: Value, p: Any, axis: Any, keepdim: bool) -> Value:
    axes = axes_of(axis, x)
    if len(axes) != 1 and axes:
        raise Unwritable("over several axes")
    x = w.cast(x, w.types[0][0])
    return w.op("p_norm", [x], porder=p, axis=axes[0] if axes else -1, keepdim=keepdim, asvector=not axes)


@row("count_nonzero")
def _count_nonzero(w: Writer, x: Value, axis: Any = None, keepdim: bool = False) -> Value:
    mask = w.op("not_equal", [x, w.number(0, x.dtype)], [("bool", x.shape)])
    return w.op("sum", [w.cast(mask, "int64"), w.ints(axes_of(axis, x))], dtype="int64", keepdim=keepdim)
