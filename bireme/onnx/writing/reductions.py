"""Converters of reductions, cumulative functions, search and sorting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.table import CONVERTERS, Call, Unwritten, converts


def _reduction(op: str) -> Callable:
    def convert(w: Writer, c: Call) -> Val:
        if not c.ndim():
            return w("Identity", c.value("x", c.dtype))
        return w.reduce(op, c.value("x", c.dtype), c.axes(), c["keepdim"])

    return convert


for _name, _op in {
    "sum": "Sum",
    "mean": "Mean",
    "max": "Max",
    "min": "Min",
    "prod": "Prod",
    "amax": "Max",
    "amin": "Min",
}.items():
    CONVERTERS[_name] = _reduction(_op)
CONVERTERS["logsumexp"] = _reduction("LogSumExp")


@converts("all", "any")
def _(w: Writer, c: Call) -> Val:
    x = c.value("x", dtypes.bool_).to(dtypes.int32)
    return w.reduce("Min" if c.operation.type == "all" else "Max", x, c.axes(), c["keepdim"]).to(dtypes.bool_)


@converts("arg_extreme", "argmax", "argmin")
def _(w: Writer, c: Call) -> Val:
    largest = c.arguments.get("largest", c.operation.type != "argmin")
    x, axes = c.value("x"), c.axes()
    op = "ArgMax" if largest else "ArgMin"
    if axes is None:
        if c["keepdim"]:
            made = w(op, w.reshape(x, [-1]), dtype=dtypes.int64, axis=0, keepdims=0)
            return w.reshape(made, [1] * c.ndim()).to(c.dtype)
        return w(op, w.reshape(x, [-1]), dtype=dtypes.int64, axis=0, keepdims=0).to(c.dtype)
    if not c.ndim():
        raise Unwritten
    return w(op, x, dtype=dtypes.int64, axis=axes[0], keepdims=int(c["keepdim"])).to(c.dtype)


@converts("topk_of", "topk")
def _(w: Writer, c: Call) -> list[Val]:
    if not c.ndim():
        raise Unwritten
    axis = c.ndim() - 1 if c["axis"] is None else c.axis()
    k = w.ints(c["k"] if isinstance(c["k"], (list, tuple)) else [c["k"]])
    return w(
        "TopK", c.value("x"), k, n=2, dtype=[None, dtypes.int64], axis=axis, largest=int(bool(c["largest"])), sorted=1
    )


def _sorted(w: Writer, c: Call) -> list[Val]:
    if not c.ndim():
        raise Unwritten
    x, axis = c.value("x"), c.axis()
    n = w.reshape(w.size(x, axis), [1])
    largest = int(bool(c["descending"]))
    return w("TopK", x, n, n=2, dtype=[None, dtypes.int64], axis=axis, largest=largest, sorted=1)


@converts("sort")
def _(w: Writer, c: Call) -> Val:
    return _sorted(w, c)[0]


@converts("argsort")
def _(w: Writer, c: Call) -> Val:
    return _sorted(w, c)[1]


@converts("cumsum")
def _(w: Writer, c: Call) -> Val:
    x = c.value("x", c.dtype)
    if c["axis"] is None:
        return w("CumSum", w.reshape(x, [-1]), w.number(0, dtypes.int64))
    if not c.ndim():
        raise Unwritten
    return w("CumSum", x, w.number(c.axis(), dtypes.int64))


@converts("count_nonzero")
def _(w: Writer, c: Call) -> Val:
    x = c.value("x", dtypes.bool_).to(dtypes.int64)
    return w.reduce("Sum", x, c.axes(), c["keepdim"])


@converts("nonzero")
def _(w: Writer, c: Call) -> Any:
    if not c.ndim():
        raise Unwritten
    found = w("NonZero", c.value("x"), dtype=dtypes.int64)
    if not c["as_tuple"]:
        return w.transpose(found, [1, 0])
    return [_row(w, found, i) for i in range(c.ndim())]


def _row(w: Writer, found: Val, i: int) -> Val:
    return w.reshape(w("Gather", found, w.number(i, dtypes.int64), axis=0), [-1, 1])


@converts("masked_select")
def _(w: Writer, c: Call) -> Val:
    x, mask = c.value("x"), c.value("mask")
    shape = w.shape(w("Or", mask, w("Expand", w.number(False, dtypes.bool_), w.shape(x))))
    return w("Compress", w.reshape(w("Expand", x, shape), [-1]), w.reshape(w("Expand", mask, shape), [-1]), axis=0)


@converts("var")
def _(w: Writer, c: Call) -> Val:
    x, axes = c.value("x", c.dtype), c.axes()
    correction = c["correction"] if c["unbiased"] is None else int(bool(c["unbiased"]))
    if isinstance(correction, Tensor) or not c.ndim():
        raise Unwritten
    rest = x - w.reduce("Mean", x, axes)
    total = w.reduce("Sum", rest * rest, axes, c["keepdim"])
    sizes = c["x"].shape
    count = w.dim(math.prod([sizes[a] for a in (range(c.ndim()) if axes is None else axes)]))
    return total / (count - correction).to(c.dtype)


@converts("p_norm")
def _(w: Writer, c: Call) -> Val:
    p, axes = c.number("p"), c.axes()
    x = w("Abs", c.value("x", c.dtype))
    if not c.ndim() or p == 0 or p == -math.inf:
        raise Unwritten
    if p == math.inf:
        return w.reduce("Max", x, axes, c["keepdim"])
    if p in (1, 2):
        return w.reduce(f"L{int(p)}", x, axes, c["keepdim"])
    return w.reduce("Sum", x**p, axes, c["keepdim"]) ** (1 / p)
