"""Rows of losses and of the steps that they are made of."""

from __future__ import annotations

from typing import Any

from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, row


@row("bce_of")
def _bce(w: Writer, input: Value, label: Value) -> Value:
    return w.op("bce_loss", [input, label])


@row("logits_bce_of")
def _logits_bce(w: Writer, logit: Value, label: Value) -> Value:
    dtype, shape = w.types[0]
    each = [w.cast(x, dtype) for x in (logit, label)]
    low = w.op("maximum", [each[0], w.full([], 0.0, dtype)], [each[0].type])
    size = w.op("abs", [each[0]], [each[0].type])
    turned = w.op("scale", [size, w.full([1], -1.0, "float32")], [size.type], bias=0.0, bias_after_scale=True)
    tail = w.op("log1p", [w.op("exp", [turned], [size.type])], [size.type])
    right = w.op("multiply", each, [(dtype, shape)])
    return w.op("add", [w.op("subtract", [low, right], [(dtype, shape)]), tail])


@row("kl_of")
def _kl(w: Writer, input: Value, label: Value) -> Value:
    return w.op("kldiv_loss", [input, label], reduction="none", log_target=False)


@row("kl_of_logs")
def _kl_of_logs(w: Writer, input: Value, label: Value) -> Value:
    return w.op("kldiv_loss", [input, label], reduction="none", log_target=True)


@row("log_loss_of")
def _log_loss(w: Writer, input: Value, label: Value, epsilon: Any) -> Value:
    if input.ndim != 2 or input.shape[1] != 1:
        raise Unwritable("of other than one column")
    return w.op("log_loss", [input, label], epsilon=epsilon[1] if isinstance(epsilon, tuple) else epsilon)


@row("only_where")
def _only_where(w: Writer, x: Value, condition: Value) -> Value:
    zero = w.op("full_like", [x, w.full([1], 0, x.dtype)], [x.type], dtype=x.dtype)
    return w.op("where", w.expanded([w.cast(condition, "bool"), x, zero]))


@row("logaddexp")
def _logaddexp(w: Writer, x: Value, y: Value) -> Value:
    dtype, shape = w.types[0]
    off = w.binary("subtract", x, y, dtype)
    size = w.op("abs", [off], [off.type])
    turned = w.op("scale", [size, w.full([1], -1.0, "float32")], [size.type], bias=0.0, bias_after_scale=True)
    tail = w.op("log1p", [w.op("exp", [turned], [size.type])], [size.type])
    return w.op("add", [w.binary("maximum", x, y, dtype), tail], [(dtype, shape)])


@row("nan_to_num")
def _nan_to_num(w: Writer, x: Value, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Value:
    most = {"float16": 65504.0, "float64": 1.7976931348623157e308}.get(x.dtype, 3.4028234663852886e38)
    made = _replaced(w, w.op("isnan", [x], [("bool", x.shape)]), nan, x)
    for end, new in (
        (float("inf"), most if posinf is None else posinf),
        (float("-inf"), -most if neginf is None else neginf),
    ):
        there = w.op("equal", [made, w.full([], end, x.dtype)], [("bool", x.shape)])
        made = _replaced(w, there, new, made)
    return made


def _replaced(w: Writer, there: Value, new: Any, x: Value) -> Value:
    filled = w.op("full_like", [x, w.full([1], new, x.dtype)], [x.type], dtype=x.dtype)
    return w.op("where", [there, filled, x], [x.type])
