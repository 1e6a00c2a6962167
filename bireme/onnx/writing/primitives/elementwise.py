"""Primitives of single elements."""

from __future__ import annotations

import math
from collections.abc import Callable

from bireme.core.base import dtype as dtypes
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.primitives.equations import PRIMITIVES, Equation, primitive
from bireme.onnx.writing.table import Unwritten


def _node(op: str) -> Callable:
    return lambda w, e: w(op, *e.values, dtype=e.dtype)


for _name, _op in {
    **{n: n.capitalize() for n in ("neg", "sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "abs", "floor", "ceil")},
    **{n: n.capitalize() for n in ("erf", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sign")},
    "logistic": "Sigmoid",
    "add": "Add",
    "add_any": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "pow": "Pow",
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "copy": "Identity",
    "lt_to": "Less",
    "le_to": "LessOrEqual",
    "copy_p": "Identity",
    "reduce_precision": "Identity",
    "stop_gradient": "Identity",
}.items():
    PRIMITIVES[_name] = _node(_op)


FORMULAS: dict[str, Callable] = {
    "rsqrt": lambda x: 1 / x.w("Sqrt", x),
    "square": lambda x: x * x,
    "log1p": lambda x: x.w("Log", x + 1),
    "expm1": lambda x: x.w("Exp", x) - 1,
    "exp2": lambda x: x.w("Exp", x * math.log(2)),
    "cbrt": lambda x: x.w("Sign", x) * x.w("Abs", x) ** (1 / 3),
    "is_finite": lambda x: (
        ~(x.w("IsNaN", x, dtype=dtypes.bool_) | x.w("IsInf", x.to(dtypes.float32), dtype=dtypes.bool_))
    ),
    "not": lambda x: ~x if x.dtype is dtypes.bool_ else x.w("BitwiseNot", x),
    "ne": lambda x, y: x != y,
}
for _name, _made in FORMULAS.items():
    PRIMITIVES[_name] = lambda w, e, f=_made: f(*e.values)


PRIMITIVES["max"] = lambda w, e: _extreme(w, e, "Max")
PRIMITIVES["min"] = lambda w, e: _extreme(w, e, "Min")


def _extreme(w: Writer, e: Equation, op: str) -> Val:
    x, y = e.values
    if x.dtype is dtypes.bool_:
        return w("Or" if op == "Max" else "And", x, y)
    return w(op, x, y)


def _bits(op: str) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        x, y = e.values
        return w(op if x.dtype is dtypes.bool_ else f"Bitwise{op}", x, y)

    return rule


PRIMITIVES.update({"and": _bits("And"), "or": _bits("Or"), "xor": _bits("Xor")})


@primitive("div")
def _(w: Writer, e: Equation) -> Val:
    return e.value(0) / e.value(1)


@primitive("rem")
def _(w: Writer, e: Equation) -> Val:
    return w("Mod", *e.values, fmod=1)


@primitive("round")
def _(w: Writer, e: Equation) -> Val:
    x = e.value()
    if int(e["rounding_method"]) == 1:
        return w("Round", x)
    return w("Sign", x) * w("Floor", w("Abs", x) + 0.5)


@primitive("integer_pow")
def _(w: Writer, e: Equation) -> Val:
    return e.value() ** e["y"]


@primitive("clamp")
def _(w: Writer, e: Equation) -> Val:
    low, x, high = e.values
    return w("Min", w("Max", x, low), high)


@primitive("atan2")
def _(w: Writer, e: Equation) -> Val:
    y, x = e.values
    base = w("Atan", y / w.where(x == 0, 1.0, x))
    turned = w.where(y < 0, base - math.pi, base + math.pi)
    made = w.where(x > 0, base, w.where(x < 0, turned, w("Sign", y) * (math.pi / 2)))
    return made


@primitive("convert_element_type")
def _(w: Writer, e: Equation) -> Val:
    return e.value().to(e.dtype)


@primitive("select_n")
def _(w: Writer, e: Equation) -> Val:
    which, *cases = e.values
    if len(cases) != 2 or which.dtype is not dtypes.bool_:
        raise Unwritten
    return w("Where", which, cases[1], cases[0])


def _shifted(left: bool, signed: bool) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        x, by = e.values
        if not signed and x.dtype.name in ("int8", "int16", "int32", "int64", "uint64"):
            raise Unwritten("shifts of bits")
        wide, power = x.to(dtypes.int64), w.number(2, dtypes.int64) ** by.to(dtypes.int64)
        return (wide * power if left else (wide - wide % power) / power).to(x.dtype)

    return rule


PRIMITIVES.update({"shift_left": _shifted(True, True), "shift_right_arithmetic": _shifted(False, True),
                   "shift_right_logical": _shifted(False, False)})  # fmt: skip
