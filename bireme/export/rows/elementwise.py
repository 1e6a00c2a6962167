"""Calls that are computed element by element: an expression of C in loops over a shape."""

from __future__ import annotations

import numpy as np

from bireme.export.graph import Call, Value
from bireme.export.place import C_TYPES, Place, given, local_names, loops, number, refuse, row, strides_of

_UNARY = {
    "Relu": "x < 0.0f ? 0.0f : x",
    "Sigmoid": "1.0f / (1.0f + expf(-x))",
    "Tanh": "tanhf(x)",
    "Exp": "expf(x)",
    "Log": "logf(x)",
    "Sqrt": "sqrtf(x)",
    "Abs": "fabsf(x)",
    "Neg": "-x",
    "Reciprocal": "1.0f / x",
    "Erf": "erff(x)",
    "Floor": "floorf(x)",
    "Ceil": "ceilf(x)",
    "Sin": "sinf(x)",
    "Cos": "cosf(x)",
    "Softplus": "x > 20.0f ? x : logf(1.0f + expf(x))",
    "Softsign": "x / (1.0f + fabsf(x))",
    "HardSwish": "x * fminf(1.0f, fmaxf(0.0f, x / 6.0f + 0.5f))",
    "Not": "!x",
    "Sign": "(x > 0.0f) - (x < 0.0f)",
}
_BINARY = {
    "Add": "x + y",
    "Sub": "x - y",
    "Mul": "x * y",
    "Div": "x / y",
    "Pow": "powf(x, y)",
    "Max": "x > y || x != x ? x : y",
    "Min": "x < y || x != x ? x : y",
    "Equal": "x == y",
    "Less": "x < y",
    "LessOrEqual": "x <= y",
    "Greater": "x > y",
    "GreaterOrEqual": "x >= y",
    "And": "x && y",
    "Or": "x || y",
    "PRelu": "x < 0.0f ? x * y : x",
}


def _elementwise(place: Place, call: Call, expression: str, operands: list[Value]) -> None:
    (out,) = call.outputs
    strides = [strides_of(v.shape, out.shape) for v in (*operands, out)]
    names = [place.name_of(v) for v in (*operands, out)]

    def body(indices: list[str]) -> str:
        read = "".join(
            f"{C_TYPES[str(v.dtype)]} bm_{letter} = {name}[{i}]; "
            for v, letter, name, i in zip(operands, "xyz", names, indices)
        )
        return f"{{ {read}{names[-1]}[{indices[-1]}] = ({C_TYPES[str(out.dtype)]})({local_names(expression)}); }}"

    loops(place, out.shape, strides, body)


@row(*_UNARY)
def _(place: Place, call: Call) -> None:
    (x,) = call.inputs
    assert x is not None
    _elementwise(place, call, _whole(_UNARY[call.op], x), [x])


@row(*_BINARY)
def _(place: Place, call: Call) -> None:
    if len(call.inputs) != 2:
        raise refuse(call, f"{len(call.inputs)} operands")
    x, y = call.inputs
    assert x is not None and y is not None
    if call.op == "Div" and x.dtype.kind in "iu":
        raise refuse(call, "integers")
    if call.op == "Pow" and y.data is not None and y.size == 1 and float(y.data.reshape(-1)[0]) == 2:
        _elementwise(place, call, "x * x", [x])
        return
    _elementwise(place, call, _whole(_BINARY[call.op], x), [x, y])


def _whole(expression: str, x: Value) -> str:
    """The expression for a dtype: functions of floats are those of doubles and integers too."""
    if x.dtype == np.float64:
        for name in (
            "expf",
            "tanhf",
            "logf",
            "sqrtf",
            "fabsf",
            "erff",
            "floorf",
            "ceilf",
            "sinf",
            "cosf",
            "powf",
            "fminf",
            "fmaxf",
        ):
            expression = expression.replace(name, name[:-1])
    return expression


@row("LeakyRelu", "HardSigmoid", "Elu", "Selu", "ThresholdedRelu", "Gelu", "Celu")
def _(place: Place, call: Call) -> None:
    (x,) = call.inputs
    assert x is not None
    a = call.attributes
    alpha = number(
        a.get("alpha", {"LeakyRelu": 0.01, "HardSigmoid": 0.2, "Selu": 1.67326319217681884765625}.get(call.op, 1.0))
    )
    beta = number(a.get("beta", 0.5))
    gamma = number(a.get("gamma", 1.05070102214813232421875))
    if call.op == "Gelu" and a.get("approximate", b"none") != b"none":
        form = "0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * x * x * x)))"
    else:
        form = {
            "LeakyRelu": f"x < 0.0f ? {alpha} * x : x",
            "HardSigmoid": f"fminf(1.0f, fmaxf(0.0f, {alpha} * x + {beta}))",
            "Elu": f"x < 0.0f ? {alpha} * expm1f(x) : x",
            "Selu": f"x < 0.0f ? {gamma} * {alpha} * expm1f(x) : {gamma} * x",
            "ThresholdedRelu": f"x > {alpha} ? x : 0.0f",
            "Gelu": "0.5f * x * (1.0f + erff(x * 0.707106781f))",
            "Celu": f"x < 0.0f ? {alpha} * expm1f(x / {alpha}) : x",
        }[call.op]
    _elementwise(place, call, _whole(form, x), [x])


@row("Clip")
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    bounds = [given(call, i) for i in (1, 2)]
    if any(b is not None and b.data is None for b in bounds):
        raise refuse(call, "bounds that are computed")
    low, high = [None if b is None or b.data is None else number(float(b.data)) for b in bounds]
    form = "x" if low is None else f"(x < {low} ? {low} : x)"
    _elementwise(place, call, form if high is None else f"{form} > {high} ? {high} : {form}", [x])


@row("Cast")
def _(place: Place, call: Call) -> None:
    (x,) = call.inputs
    assert x is not None
    _elementwise(place, call, "x != 0" if call.outputs[0].dtype == np.bool_ else "x", [x])


@row("Where")
def _(place: Place, call: Call) -> None:
    _elementwise(place, call, "x ? y : z", [v for v in call.inputs if v is not None])


@row("Expand")
def _(place: Place, call: Call) -> None:
    assert call.inputs[0] is not None
    _elementwise(place, call, "x", [call.inputs[0]])


@row("QuantizeLinear")
def _(place: Place, call: Call) -> None:
    x, scale = call.inputs[:2]
    zero, out = given(call, 2), call.outputs[0]
    assert x is not None and scale is not None
    low, high = (-128, 127) if out.dtype == np.int8 else (0, 255)
    if scale.size == 1 and scale.data is not None and out.dtype == np.int8 and (zero is None or _is_zero(zero)):
        place.needs("rounded")
        place.write(
            f"bm_rounded({place.name_of(x)}, {place.name_of(out)}, {x.size}, {number(float(scale.data.reshape(-1)[0]))});"
        )
        return
    shift = " + (float)z" if zero is not None else ""
    form = f"fminf({high}.0f, fmaxf({low}.0f, nearbyintf(x / y){shift}))"
    _elementwise(place, call, form, [x, *_along(call, x)])


@row("DequantizeLinear")
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    form = "((float)x - (float)z) * y" if given(call, 2) is not None else "(float)x * y"
    _elementwise(place, call, form, [x, *_along(call, x)])


def _is_zero(zero: Value) -> bool:
    return zero.data is not None and not zero.data.any()


def _along(call: Call, x: Value) -> list[Value]:
    """Scales and zero points with axes of size 1 after theirs, so that they are broadcast."""
    found = []
    for value in call.inputs[1:3]:
        if value is not None:
            after = len(x.shape) - 1 - call.attributes.get("axis", 1) % max(len(x.shape), 1)
            shape = (value.size, *[1] * after) if value.size > 1 else ()
            data = None if value.data is None else value.data.reshape(shape)
            found.append(Value(value.name, shape, value.dtype, data) if data is not None else value)
    return found
