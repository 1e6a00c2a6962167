"""Meanings of elementwise nodes: arithmetic, comparison, activations, types."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme import ops
from bireme.core.base import dtype as dtypes
from bireme.onnx.reading.narrow import KINDS, Narrow, narrowed, widened
from bireme.onnx.reading.table import MEANINGS, Node, dtype_of, host, means, tensor

UNARY = {
    **{n: getattr(ops, n.lower()) for n in ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos")},
    **{n: getattr(ops, n.lower()) for n in ("Cosh", "Erf", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Relu", "Round")},
    **{n: getattr(ops, n.lower()) for n in ("Sigmoid", "Sign", "Sin", "Sinh", "Sqrt", "Tan", "Tanh", "Softsign", "Mish")},
    "Not": ops.logical_not, "BitwiseNot": ops.bitwise_not, "IsNaN": ops.isnan,
}  # fmt: skip
for _name, _f in UNARY.items():
    MEANINGS[_name] = lambda n, x, f=_f: f(x)


def _whole(x: Any) -> bool:
    return x.dtype.kind == "i"


BINARY: dict[str, Callable] = {
    "Add": ops.add, "Sub": ops.subtract, "Mul": ops.multiply, "And": ops.logical_and, "Or": ops.logical_or,
    "Xor": ops.logical_xor, "BitwiseAnd": ops.bitwise_and, "BitwiseOr": ops.bitwise_or, "BitwiseXor": ops.bitwise_xor,
    "Equal": ops.equal, "Less": ops.less_than, "LessOrEqual": ops.less_equal, "Greater": ops.greater_than,
    "GreaterOrEqual": ops.greater_equal,
}  # fmt: skip


def aligned(n: Node, x: Any, y: Any) -> Any:
    """The second operand, where old versions say by `axis` what it is broadcast along."""
    if n.version < 7 and n.attr("broadcast") and y.ndim and n.attr("axis") is not None:
        behind = x.ndim - n.attr("axis") - y.ndim
        return ops.reshape(y, [*y.shape, *[1] * behind])
    return y


def signed(f: Callable, ordered: bool = False) -> Callable:
    """A function of integers for unsigned ones, which few functions take: through int64. Where their order matters,
    those of 64 bits are looked at on the host.
    """

    def call(x: Any, y: Any) -> Any:
        if x.dtype.name in ("uint16", "uint32"):
            return _back(f(ops.cast(x, "int64"), ops.cast(y, "int64")), x.dtype)
        if x.dtype.name == "uint64":
            if ordered:
                return tensor(HOST[f](host(x), host(y)))
            return ops.view(f(ops.view(x, "int64"), ops.view(y, "int64")), "uint64")
        return f(x, y)

    return call


def _back(x: Any, dtype: Any) -> Any:
    return x if x.dtype is dtypes.bool_ else ops.cast(x, dtype)


HOST: dict[Callable, Callable] = {ops.maximum: np.maximum, ops.minimum: np.minimum, ops.remainder: np.mod,
                                  ops.floor_divide: np.floor_divide}  # fmt: skip
WRAPS = frozenset(("Add", "Sub", "Mul", "BitwiseAnd", "BitwiseOr", "BitwiseXor"))
for _name, _f in BINARY.items():
    _f = signed(_f) if _name in WRAPS else _f
    MEANINGS[_name] = lambda n, x, y, f=_f: f(x, aligned(n, x, y))
MEANINGS["BitwiseNot"] = lambda n, x: signed(lambda x, y: ops.bitwise_not(x))(x, x)


def truncated(x: Any, y: Any) -> Any:
    """An integer quotient, towards zero."""
    if x.dtype.name.startswith("u"):
        return ops.cast(signed(ops.floor_divide, True)(x, y), x.dtype)
    found = ops.floor_divide(ops.abs(x), ops.abs(y)) * ops.sign(x) * ops.sign(y)
    return ops.cast(found, x.dtype)


@means("Div")
def _(n: Node, x: Any, y: Any) -> Any:
    y = aligned(n, x, y)
    return truncated(x, y) if _whole(x) else ops.divide(x, y)


@means("Mod")
def _(n: Node, x: Any, y: Any) -> Any:
    if n.attr("fmod", 0):
        if _whole(x):
            return x - truncated(x, y) * y
        # the quotient may be beyond what the type holds exactly
        wide = [ops.cast(v, "float64") for v in (x, y)]
        return ops.cast(wide[0] - ops.trunc(wide[0] / wide[1]) * wide[1], x.dtype)
    return signed(ops.remainder, True)(x, y)


@means("Pow")
def _(n: Node, x: Any, y: Any) -> Any:
    y = aligned(n, x, y)
    if x.dtype is y.dtype:
        return ops.pow(x, y)
    if _whole(x):  # a result of x's type, through one that holds both
        return ops.cast(ops.pow(ops.cast(x, "float64"), ops.cast(y, "float64")), x.dtype)
    return ops.pow(x, ops.cast(y, x.dtype))


@means("BitShift")
def _(n: Node, x: Any, y: Any) -> Any:
    width, left = 8 * x.dtype.itemsize, n.attr("direction") == "LEFT"
    if x.dtype.name == "uint64":
        values, by = host(x), host(y)
        far = by >= 64
        steps = np.where(far, 0, by)
        return tensor(np.where(far, 0, values << steps if left else values >> steps).astype(np.uint64))
    wide, count = ops.cast(x, "int64"), ops.cast(y, "int64")
    out = ops.logical_or(count < 0, count >= width)
    if left:
        made = ops.bitwise_left_shift(wide, ops.where(out, ops.zeros_like(count), count))
        made = ops.where(out, ops.zeros_like(wide), made)
    else:
        made = ops.bitwise_right_shift(wide, ops.where(out, ops.full_like(count, 63), count))
    return ops.cast(made, x.dtype)


def _folded(f: Callable) -> Callable:
    def meaning(n: Node, *given: Any) -> Any:
        made = given[0]
        for x in given[1:]:
            made = f(made, x)
        return ops.assign(made) if len(given) == 1 else made

    return meaning


MEANINGS["Max"], MEANINGS["Min"] = _folded(signed(ops.maximum, True)), _folded(signed(ops.minimum, True))
MEANINGS["Sum"] = _folded(ops.add)
MEANINGS["Mean"] = lambda n, *given: MEANINGS["Sum"](n, *given) / len(given)


@means("Identity")
def _(n: Node, x: Any) -> Any:
    return [x]


@means("Dropout")
def _(n: Node, x: Any, ratio: Any = None, training: Any = None) -> Any:
    scale = 0.5 if ratio is None else float(ratio)
    if training is not None and bool(training) and scale:
        keep = ops.uniform(x.shape, "float32", 0.0, 1.0, seed=n.attr("seed", 0) or 0) >= scale
        return [ops.cast(ops.where(keep, x / (1 - scale), ops.zeros_like(x)), x.dtype), keep]
    mask = ops.full_like(x, True, dtype="bool") if n.version >= 10 else ops.ones_like(x)
    return [x, mask]


# ------------------------------------------------------------ types


def cast(x: Any, dtype: Any, saturate: bool = True) -> Any:
    if dtype.name.startswith("float8") and saturate:
        x = ops.cast(x, "float32")
        most = float(np.float32(np.asarray(448.0 if "e4m3" in dtype.name else 57344.0)))
        x = ops.where(ops.isnan(x), x, ops.clip(x, -most, most))
    if x.dtype.kind == "f" and dtype is dtypes.bool_:
        return ops.not_equal(x, ops.zeros_like(x))
    return ops.cast(x, dtype)


@means("Cast")
def _(n: Node, x: Any) -> Any:
    return _cast_to(x, n.attr("to"), bool(n.attr("saturate", 1)))


@means("CastLike")
def _(n: Node, x: Any, like: Any) -> Any:
    saturate = bool(n.attr("saturate", 1))
    if isinstance(like, Narrow):
        return _cast_to(x, like.code, saturate)
    return widened(x, like.dtype) if isinstance(x, Narrow) else cast(x, like.dtype, saturate)


def _cast_to(x: Any, code: int, saturate: bool) -> Any:
    if code in KINDS:
        return narrowed(x.tensor if isinstance(x, Narrow) else x, code, saturate)
    kind = dtype_of(code)
    return widened(x, kind) if isinstance(x, Narrow) else cast(x, kind, saturate)


@means("BitCast")
def _(n: Node, x: Any) -> Any:
    to = dtype_of(n.attr("to"))
    if to.itemsize != x.dtype.itemsize:
        raise n.bad("a type of as many bytes", to.name)
    if dtypes.bool_ in (to, x.dtype):
        return ops.cast(x, to)
    return ops.view(x, to)


@means("IsInf")
def _(n: Node, x: Any) -> Any:
    found = ops.isinf(x)
    if not n.attr("detect_negative", 1):
        found = ops.logical_and(found, x > 0)
    if not n.attr("detect_positive", 1):
        found = ops.logical_and(found, x < 0)
    return found


@means("Where")
def _(n: Node, condition: Any, x: Any, y: Any) -> Any:
    return ops.where(condition, x, y)


# ------------------------------------------------------------ activations


@means("Clip")
def _(n: Node, x: Any, low: Any = None, high: Any = None) -> Any:
    if n.version < 11:
        low, high = (None if n.attr(k) is None else tensor(n.attr(k), x.dtype) for k in ("min", "max"))
    x = x if low is None else ops.maximum(x, low)
    x = x if high is None else ops.minimum(x, high)
    return [x]


@means("LeakyRelu")
def _(n: Node, x: Any) -> Any:
    return ops.leaky_relu(x, n.attr("alpha", 0.01))


@means("PRelu")
def _(n: Node, x: Any, slope: Any) -> Any:
    if n.version < 7 and slope.ndim == 1 and x.ndim > 2:
        slope = ops.reshape(slope, [-1, *[1] * (x.ndim - 2)])
    return ops.where(x < 0, x * slope, x)


@means("Elu")
def _(n: Node, x: Any) -> Any:
    return ops.where(x < 0, n.attr("alpha", 1.0) * ops.expm1(x), x)


@means("Celu")
def _(n: Node, x: Any) -> Any:
    return ops.celu(x, n.attr("alpha", 1.0))


@means("Selu")
def _(n: Node, x: Any) -> Any:
    alpha, gamma = n.attr("alpha", 1.67326319217681884765625), n.attr("gamma", 1.05070102214813232421875)
    return gamma * ops.where(x > 0, x, alpha * ops.expm1(x))


@means("HardSigmoid")
def _(n: Node, x: Any) -> Any:
    return ops.clip(x * n.attr("alpha", 0.2) + n.attr("beta", 0.5), 0.0, 1.0)


@means("HardSwish")
def _(n: Node, x: Any) -> Any:
    return x * ops.clip(x / 6.0 + 0.5, 0.0, 1.0)


@means("Softplus")
def _(n: Node, x: Any) -> Any:
    return ops.maximum(x, ops.zeros_like(x)) + ops.log1p(ops.exp(-ops.abs(x)))


@means("Gelu")
def _(n: Node, x: Any) -> Any:
    return ops.gelu(x, approximate=n.attr("approximate", "none") == "tanh")


@means("Swish")
def _(n: Node, x: Any) -> Any:
    return x * ops.sigmoid(x * n.attr("alpha", 1.0))


@means("ThresholdedRelu")
def _(n: Node, x: Any) -> Any:
    return ops.where(x > n.attr("alpha", 1.0), x, ops.zeros_like(x))


@means("Shrink")
def _(n: Node, x: Any) -> Any:
    lambd, bias = n.attr("lambd", 0.5), n.attr("bias", 0.0)
    zero = ops.zeros_like(x)
    return ops.cast(ops.where(x < -lambd, x + bias, ops.where(x > lambd, x - bias, zero)), x.dtype)


def _flat(n: Node, x: Any) -> tuple[Any, Any]:
    """Before version 13, all axes from one on are one."""
    axis = n.attr("axis", -1 if n.version >= 13 else 1)
    if n.version >= 13:
        return x, axis
    axis = axis % max(x.ndim, 1)
    rows = math.prod(x.shape[:axis])
    return ops.reshape(x, [rows, -1]), 1


def _soft(f: Callable) -> Callable:
    def meaning(n: Node, x: Any) -> Any:
        flat, axis = _flat(n, x)
        return ops.reshape(f(flat, axis), x.shape) if n.version < 13 else f(x, axis)

    return meaning


def _hardmax(x: Any, axis: int) -> Any:
    at = ops.argmax(x, axis=axis, keepdim=True)
    shape = [1] * x.ndim
    shape[axis] = -1
    return ops.cast(ops.equal(ops.reshape(ops.arange(x.shape[axis]), shape), at), x.dtype)


MEANINGS["Softmax"], MEANINGS["LogSoftmax"] = _soft(ops.softmax), _soft(ops.log_softmax)
MEANINGS["Hardmax"] = _soft(_hardmax)
