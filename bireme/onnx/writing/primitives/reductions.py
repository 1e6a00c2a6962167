"""Primitives that go over axes: reductions, running sums, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.primitives.equations import PRIMITIVES, Equation, primitive
from bireme.onnx.writing.table import Unwritten


def _reduction(op: str) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        x = e.value()
        if x.dtype is dtypes.bool_:
            return w.reduce(op, x.to(dtypes.int32), e["axes"], keepdims=False).to(dtypes.bool_)
        return w.reduce(op, x, e["axes"], keepdims=False)

    return rule


PRIMITIVES.update({"reduce_sum": _reduction("Sum"), "reduce_max": _reduction("Max"), "reduce_min": _reduction("Min"),
                   "reduce_prod": _reduction("Prod"), "reduce_and": _reduction("Min"), "reduce_or": _reduction("Max")})  # fmt: skip


def _arg(op: str) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        return w(op, e.value(), dtype=dtypes.int64, axis=e["axes"][0], keepdims=0).to(e.dtype)

    return rule


PRIMITIVES.update({"argmax": _arg("ArgMax"), "argmin": _arg("ArgMin")})


@primitive("cumsum")
def _(w: Writer, e: Equation) -> Val:
    return w("CumSum", e.value(), w.number(e["axis"], dtypes.int64), reverse=int(e["reverse"]))


def _logs_added(w: Writer, x: Val, y: Val) -> Val:
    most = w("Max", x, y)
    finite = w.where(w("IsInf", most.to(dtypes.float32), dtype=dtypes.bool_), 0.0, most)
    return finite + w("Log", w("Exp", x - finite) + w("Exp", y - finite))


def _cumulative(joined_by: Any) -> Callable:
    """By pairs that are ever farther apart."""

    def rule(w: Writer, e: Equation) -> Val:
        x, axis, n, by = e.value(), e["axis"], e.shape[e["axis"]], 1
        while by < n:
            front, back = ([(0, by)], [(by, n)]) if not e["reverse"] else ([(n - by, n)], [(0, n - by)])
            here = w.slice(x, [axis], [back[0][0]], [back[0][1]])
            there = w.slice(x, [axis], [0], [n - by]) if not e["reverse"] else w.slice(x, [axis], [by], [n])
            kept = w.slice(x, [axis], [front[0][0]], [front[0][1]])
            joined = w(joined_by, here, there) if isinstance(joined_by, str) else joined_by(w, here, there)
            x = w("Concat", *((kept, joined) if not e["reverse"] else (joined, kept)), axis=axis)
            by *= 2
        return x

    return rule


PRIMITIVES["cumlogsumexp"] = _cumulative(_logs_added)
PRIMITIVES.update({"cumprod": _cumulative("Mul"), "cummax": _cumulative("Max"), "cummin": _cumulative("Min")})


@primitive("sort")
def _(w: Writer, e: Equation) -> list[Val]:
    axis, n = e["dimension"], e.shape[e["dimension"]]
    if e["num_keys"] != 1 or not n:
        raise Unwritten
    key = e.value()
    if key.dtype is dtypes.bool_:
        raise Unwritten
    made, index = w("TopK", key, w.ints([n]), n=2, dtype=[None, dtypes.int64], axis=axis, largest=0, sorted=1)
    return [made, *[w("GatherElements", x, index, axis=axis) for x in e.values[1:]]]


@primitive("top_k")
def _(w: Writer, e: Equation) -> list[Val]:
    made = w("TopK", e.value(), w.ints([e["k"]]), n=2, dtype=[None, dtypes.int64], axis=-1, largest=1, sorted=1)
    return [made[0], made[1].to(dtypes.from_numpy(e.outs[1].dtype))]
