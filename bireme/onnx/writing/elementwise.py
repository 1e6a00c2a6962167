"""Converters of elementwise functions: arithmetic, comparison, rounding, activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.program.variable import VariableList
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.table import CONVERTERS, Call, Unwritten, converts, promoted

NODES = {  # what one node means, on an operand in the type of the result
    **{n: n.capitalize() for n in ("exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos", "tan", "asin", "acos", "atan")},
    **{n: n.capitalize() for n in ("sinh", "cosh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "abs", "neg", "sign")},
    **{n: n.capitalize() for n in ("reciprocal", "relu", "softsign")},
    "clone": "Identity", "tie": "Identity", "logical_not": "Not",
}  # fmt: skip


def _softplus(x: Val) -> Val:
    return x.w("Softplus", x)


def _sigmoid(x: Val) -> Val:
    return x.w("Sigmoid", x)


def _trunc(x: Val) -> Val:
    return x.w("Sign", x) * x.w("Floor", x.w("Abs", x))


FORMULAS: dict[str, Callable[[Val], Val]] = {  # of the operand, in the type of the result
    "rsqrt": lambda x: 1 / x.w("Sqrt", x),
    "square": lambda x: x * x,
    "log2": lambda x: x.w("Log", x) / math.log(2),
    "log10": lambda x: x.w("Log", x) / math.log(10),
    "log1p": lambda x: x.w("Log", x + 1),
    "expm1": lambda x: x.w("Exp", x) - 1,
    "silu_of": lambda x: x * _sigmoid(x),
    "mish": lambda x: x * x.w("Tanh", _softplus(x)),
    "log_sigmoid": lambda x: -_softplus(-x),
    "tanhshrink": lambda x: x - x.w("Tanh", x),
    "relu6": lambda x: x.w("Clip", x, x.w.number(0, x.dtype), x.w.number(6, x.dtype)),
    "hardswish": lambda x: x.w("HardSwish", x) if x.dtype is dtypes.float32 else x * _clipped(x + 3, 0, 6) / 6,
    "trunc": _trunc,
    "frac": lambda x: x - _trunc(x),
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
}


def _clipped(x: Val, low: float, high: float) -> Val:
    return x.w("Clip", x, x.w.number(low, x.dtype), x.w.number(high, x.dtype))


def _first(c: Call) -> Any:
    return next(iter(c.arguments.values()))


def _node(op: str) -> Callable:
    return lambda w, c: w(op, w.value(_first(c), c.dtype))


def _formula(f: Callable) -> Callable:
    return lambda w, c: f(w.value(_first(c), c.dtype))


for _name, _op in NODES.items():
    CONVERTERS[_name] = _node(_op)
for _name, _made in FORMULAS.items():
    CONVERTERS[_name] = _formula(_made)


@converts("logical_not")
def _(w: Writer, c: Call) -> Val:
    return ~c.value("x", dtypes.bool_)


# ------------------------------------------------------------ two operands

ARITHMETIC = {"add": "Add", "subtract": "Sub", "multiply": "Mul"}


def _binary(op: str) -> Callable:
    def convert(w: Writer, c: Call) -> Val:
        x, y = c.value("x", c.dtype), c.value("y", c.dtype)
        if c.arguments.get("alpha", 1) != 1:
            y = y * w.value(c["alpha"], c.dtype)
        if c.dtype is dtypes.bool_:
            return w({"Add": "Or", "Mul": "And"}[op], x, y)
        return w(op, x, y)

    return convert


for _name, _op in ARITHMETIC.items():
    CONVERTERS[_name] = _binary(_op)


@converts("quotient")
def _(w: Writer, c: Call) -> Val:
    return c.value("x", c.dtype) / c.value("y", c.dtype)


@converts("divide")
def _(w: Writer, c: Call) -> Val:
    if c.arguments.get("rounding_mode") is not None or c.dtype.kind != "f":
        raise Unwritten
    return c.value("x", c.dtype) / c.value("y", c.dtype)


@converts("remainder")
def _(w: Writer, c: Call) -> Val:
    x, y = c.value("x", c.dtype), c.value("y", c.dtype)
    return x - w("Floor", x / y) * y if c.dtype.kind == "f" else x % y


@converts("floor_divide")
def _(w: Writer, c: Call) -> Val:
    x, y = c.value("x", c.dtype), c.value("y", c.dtype)
    return w("Floor", x / y) if c.dtype.kind == "f" else (x - x % y) / y


@converts("power", "power_const", "pow")
def _(w: Writer, c: Call) -> Val:
    return c.value("x", c.dtype) ** c.value("y", c.dtype)


@converts("maximum", "minimum")
def _(w: Writer, c: Call) -> Val:
    op = "Max" if c.operation.type == "maximum" else "Min"
    return w(op, c.value("x", c.dtype), c.value("y", c.dtype))


COMPARISONS: dict[str, Callable[[Val, Val], Val]] = {
    "equal": lambda x, y: x == y, "not_equal": lambda x, y: x != y, "less_than": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y, "greater_than": lambda x, y: x > y, "greater_equal": lambda x, y: x >= y,
}  # fmt: skip


def _comparison(compare: Callable) -> Callable:
    def convert(w: Writer, c: Call) -> Val:
        kind = promoted(c["x"], c["y"])
        return compare(c.value("x", kind), c.value("y", kind))

    return convert


for _name, _compare in COMPARISONS.items():
    CONVERTERS[_name] = _comparison(_compare)


@converts("logical_and", "logical_or", "logical_xor")
def _(w: Writer, c: Call) -> Val:
    op = {"and": "And", "or": "Or", "xor": "Xor"}[c.operation.type.removeprefix("logical_")]
    return w(op, c.value("x", dtypes.bool_), c.value("y", dtypes.bool_))


@converts("isnan", "isinf", "isfinite")
def _(w: Writer, c: Call) -> Val:
    if c["x"].dtype.kind != "f":
        raise Unwritten
    x = c.value("x")
    odd = {"isnan": ["IsNaN"], "isinf": ["IsInf"], "isfinite": ["IsNaN", "IsInf"]}[c.operation.type]
    found = [w(op, x if op == "IsNaN" else x.to(dtypes.float32), dtype=dtypes.bool_) for op in odd]
    return ~(found[0] | found[1]) if len(found) == 2 else found[0]


@converts("add_n", "sum_of")
def _(w: Writer, c: Call) -> Val:
    given = _first(c)
    if isinstance(given, VariableList):
        whole = w("ConcatFromSequence", w.value(given), axis=0, new_axis=1, dtype=c.dtype)
        return w.reduce("Sum", whole, [0], keepdims=False)
    values = [w.value(x, c.dtype) for x in (given if isinstance(given, (list, tuple)) else [given])]
    made = values[0]
    for x in values[1:]:
        made = made + x
    return w("Identity", made) if len(values) == 1 else made


@converts("lerp")
def _(w: Writer, c: Call) -> Val:
    x, y = c.value("x", c.dtype), c.value("y", c.dtype)
    return x + c.value("weight", c.dtype) * (y - x)


@converts("scale")
def _(w: Writer, c: Call) -> Val:
    if c["act"] is not None or c.dtype.kind not in "fiu":
        raise Unwritten
    # numbers are truncated to the type of an integer, as they are when it is computed
    x, by, bias = c.value("x", c.dtype), c.value("scale", c.dtype), c.value("bias", c.dtype)
    return x * by + bias if c["bias_after_scale"] else (x + bias) * by


@converts("clip", "clip_number")
def _(w: Writer, c: Call) -> Val:
    x = c.value("x", c.dtype)
    for bound, op in (("min", "Max"), ("max", "Min")):
        if c[bound] is not None:
            x = w(op, x, c.value(bound, c.dtype))
    return w("Identity", x)


@converts("cast", "astype", "to", "type_as", "float", "double", "half", "bfloat16", "float16", "float32", "float64")
def _(w: Writer, c: Call) -> Val:
    x = w.value(_first(c))
    return w("Identity", x) if x.dtype is c.dtype else x.to(c.dtype)


converts(
    *("int", "long", "short", "char", "byte", "bool", "int8", "int16", "int32", "int64", "uint8"),
    *("cpu", "cuda", "contiguous", "pin_memory", "detach", "assign", "positive"),
)(CONVERTERS["cast"])


@converts("select")
def _(w: Writer, c: Call) -> Val:
    x, y = c.value("x", c.dtype), c.value("y", c.dtype)
    return w("Where", c.value("condition", dtypes.bool_), x, y)


@converts("where")
def _(w: Writer, c: Call) -> Any:
    if c["x"] is None:
        raise Unwritten
    return CONVERTERS["select"](w, c)


@converts("masked_fill")
def _(w: Writer, c: Call) -> Val:
    x = c.value("x", c.dtype)
    return w("Where", c.value("mask", dtypes.bool_), c.value("value", c.dtype), x)


@converts("round")
def _(w: Writer, c: Call) -> Val:
    x, decimals = c.value("x", c.dtype), c.arguments.get("decimals", 0)
    if c.dtype.kind != "f":
        return w("Identity", x)
    return w("Round", x * 10.0**decimals) / 10.0**decimals if decimals else w("Round", x)


# ------------------------------------------------------------ activations with parameters


@converts("leaky_relu")
def _(w: Writer, c: Call) -> Val:
    return w("LeakyRelu", c.value("x", c.dtype), alpha=float(c.number("negative_slope")))


@converts("elu")
def _(w: Writer, c: Call) -> Val:
    alpha = float(c.number("alpha"))
    if alpha < 0:
        raise Unwritten
    return w("Elu", c.value("x", c.dtype), alpha=alpha)


@converts("celu")
def _(w: Writer, c: Call) -> Val:
    if float(c.number("alpha")) <= 0:
        raise Unwritten
    return w("Celu", c.value("x", c.dtype), alpha=float(c.number("alpha")))


@converts("selu")
def _(w: Writer, c: Call) -> Val:
    return w("Selu", c.value("x", c.dtype), alpha=float(c.number("alpha")), gamma=float(c.number("scale")))


@converts("hardsigmoid")
def _(w: Writer, c: Call) -> Val:
    return w("HardSigmoid", c.value("x", c.dtype), alpha=float(c.number("slope")), beta=float(c.number("offset")))


@converts("hardtanh")
def _(w: Writer, c: Call) -> Val:
    return w("Clip", c.value("x", c.dtype), c.value("min", c.dtype), c.value("max", c.dtype))


@converts("hardshrink")
def _(w: Writer, c: Call) -> Val:
    x = c.value("x", c.dtype)
    return w.where(w("Abs", x) > float(c.number("threshold")), x, 0.0)


@converts("softshrink")
def _(w: Writer, c: Call) -> Val:
    x, t = c.value("x", c.dtype), float(c.number("threshold"))
    return w.where(x > t, x - t, w.where(x < -t, x + t, 0.0))


@converts("thresholded_relu")
def _(w: Writer, c: Call) -> Val:
    x = c.value("x", c.dtype)
    return w.where(x > float(c.number("threshold")), x, float(c.number("value")))


@converts("softplus")
def _(w: Writer, c: Call) -> Val:
    x, beta = c.value("x", c.dtype), float(c.number("beta"))
    if beta == 1:
        return _softplus(x)
    return w.where(x * beta > float(c.number("threshold")), x, _softplus(x * beta) / beta)


@converts("gelu")
def _(w: Writer, c: Call) -> Val:
    x = c.value("x", c.dtype)
    if c["approximate"] in (True, "tanh"):
        return x * 0.5 * (w("Tanh", (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1)
    return x * 0.5 * (w("Erf", x / math.sqrt(2)) + 1)


@converts("prelu_of")
def _(w: Writer, c: Call) -> Val:
    return w("PRelu", c.value("x", c.dtype), c.value("weight", c.dtype))


@converts("nan_to_num")
def _(w: Writer, c: Call) -> Val:
    if c.dtype.kind != "f":
        raise Unwritten
    x, limit = c.value("x", c.dtype), np.finfo(c.dtype.np)
    for name, sign, default in (("posinf", 1, limit.max), ("neginf", -1, limit.min)):
        given = c.arguments.get(name)
        x = w.where(x == sign * math.inf, float(default if given is None else given), x)
    return w.where(w("IsNaN", x, dtype=dtypes.bool_), float(c.arguments.get("nan") or 0.0), x)


@converts("dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d")
def _(w: Writer, c: Call) -> Val:
    p = c.number("p")
    if c["training"] and p:
        raise Unwritten
    x = c.value("x", c.dtype)
    return x * (1 - p) if c.arguments.get("mode") == "downscale_in_infer" and not c["training"] else w("Identity", x)


@converts("rrelu")
def _(w: Writer, c: Call) -> Val:
    if c["training"]:
        raise Unwritten
    return w("LeakyRelu", c.value("x", c.dtype), alpha=(float(c.number("lower")) + float(c.number("upper"))) / 2)
