"""How each call is written in C: a row for each of ONNX's operators that has a form."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.export.graph import ALIASES, Call, Value

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "unsigned char",
}
TILE, DEPTH, WIDE = 8, 256, 64  # BM_MR, BM_KC, BM_NC of kernels.c


class Place:
    """What a row writes to: names of values, constants, kernels that are needed, and lines of C."""

    def __init__(self, name_of: Callable[[Value], str], constant: Callable[[np.ndarray], str], int8: bool):
        self.name_of, self.constant, self.int8 = name_of, constant, int8
        self.kernels: list[str] = []
        self.lines: list[str] = []
        self.scratch = 0  # bytes that the call needs besides

    def needs(self, *kernels: str) -> None:
        """Copy these kernels into the file."""
        self.kernels += [k for k in kernels if k not in self.kernels]

    def write(self, line: str) -> None:
        """A line of C."""
        self.lines.append(line)

    def floats(self, count: int) -> None:
        """So many numbers of scratch."""
        self.scratch = max(self.scratch, 4 * count)


ROWS: dict[str, Callable[[Place, Call], None]] = {}


def row(*names: str) -> Callable[[Callable], Callable]:
    """Register how operators are written."""

    def register(function: Callable) -> Callable:
        ROWS.update(dict.fromkeys(names, function))
        return function

    return register


def write(place: Place, call: Call) -> None:
    """A call as lines of C."""
    if call.op not in ROWS:
        message = f"{call.op} has no form in C yet"
        raise errors.failure(message, hint="export to ONNX instead", kind=NotImplementedError)
    for value in (*call.inputs, *call.outputs):
        if value is not None and str(value.dtype) not in C_TYPES:
            raise errors.failure(f"{call.op} of {value.dtype} has no form in C yet", kind=NotImplementedError)
    ROWS[call.op](place, call)


def number(x: float) -> str:
    """A float of C."""
    if math.isnan(x):
        return "NAN"
    if math.isinf(x):
        return "INFINITY" if x > 0 else "-INFINITY"
    text = f"{np.float32(x):.9g}"
    return (text if any(c in text for c in ".e") else text + ".0") + "f"


def refuse(call: Call, what: str) -> Exception:
    """For a form of an operator that is not written."""
    return errors.failure(
        f"{call.op} with {what} has no form in C yet", hint="export to ONNX instead", kind=NotImplementedError
    )


def given(call: Call, i: int) -> Value | None:
    """An operand that may be left out."""
    return call.inputs[i] if i < len(call.inputs) else None


# ---------------------------------------------------------------- element by element

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


def _strides(shape: tuple[int, ...], to: tuple[int, ...]) -> list[int]:
    """Strides of an operand that is broadcast to a shape: 0 along axes where it is repeated."""
    found, step = [0] * len(to), 1
    for i in range(1, len(shape) + 1):
        found[-i] = 0 if shape[-i] == 1 else step
        step *= shape[-i]
    return found


def loops(place: Place, shape: tuple[int, ...], strides: list[list[int]], body: Callable[[list[str]], str]) -> None:
    """Loops over a shape; the body is given the index of each operand. Axes that can be are taken together."""
    axes = [(n, [s[i] for s in strides]) for i, n in enumerate(shape) if n != 1]
    merged: list[tuple[int, list[int]]] = []
    for n, steps in axes:
        if merged and all(before == n * step for before, step in zip(merged[-1][1], steps, strict=True)):
            merged[-1] = (merged[-1][0] * n, steps)
        else:
            merged.append((n, steps))
    if 0 in shape:
        return
    indices = []
    for operand in range(len(strides)):
        terms = [
            f"i{a}" if steps[operand] == 1 else f"i{a} * {steps[operand]}"
            for a, (_, steps) in enumerate(merged)
            if steps[operand]
        ]
        indices.append(" + ".join(terms) or "0")
    names = ", ".join(f"i{a}" for a in range(len(merged)))
    place.write("{" + (f" size_t {names};" if names else ""))
    for a, (n, _) in enumerate(merged):
        place.write("  " * (a + 1) + f"for (i{a} = 0; i{a} < {n}; i{a}++)")
    place.write("  " * (len(merged) + 1) + body(indices))
    place.write("}")


def _local(expression: str) -> str:
    """With names for the operands that no input has."""
    return re.sub(r"\b([xyz])\b", r"bm_\1", expression)


def _elementwise(place: Place, call: Call, expression: str, operands: list[Value]) -> None:
    (out,) = call.outputs
    strides = [_strides(v.shape, out.shape) for v in (*operands, out)]
    names = [place.name_of(v) for v in (*operands, out)]

    def body(indices: list[str]) -> str:
        read = "".join(
            f"{C_TYPES[str(v.dtype)]} bm_{letter} = {name}[{i}]; "
            for v, letter, name, i in zip(operands, "xyz", names, indices)
        )
        return f"{{ {read}{names[-1]}[{indices[-1]}] = ({C_TYPES[str(out.dtype)]})({_local(expression)}); }}"

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


# ---------------------------------------------------------------- shapes


@row(*ALIASES)
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    source, to = place.name_of(x), place.name_of(call.outputs[0])
    if source != to:
        place.write(f"memcpy({to}, {source}, {x.size * x.dtype.itemsize});")


@row("Transpose")
def _(place: Place, call: Call) -> None:
    (x,) = call.inputs
    assert x is not None
    order = list(call.attributes.get("perm", reversed(range(len(x.shape)))))
    steps = _strides(x.shape, x.shape)
    (out,) = call.outputs
    names = place.name_of(x), place.name_of(out)
    strides = [[steps[axis] for axis in order], _strides(out.shape, out.shape)]
    loops(place, out.shape, strides, lambda i: f"{names[1]}[{i[1]}] = {names[0]}[{i[0]}];")


@row("Slice")
def _(place: Place, call: Call) -> None:
    x, starts, ends = call.inputs[:3]
    assert x is not None and starts is not None and ends is not None
    axes, steps = given(call, 3), given(call, 4)
    if any(v is not None and v.data is None for v in (starts, ends, axes, steps)):
        raise refuse(call, "places that are computed")
    where = axes.data.tolist() if axes is not None and axes.data is not None else list(range(starts.size))
    by = steps.data.tolist() if steps is not None and steps.data is not None else [1] * starts.size
    strides, offset = _strides(x.shape, x.shape), 0
    for axis, start, step in zip(where, starts.data.tolist(), by, strict=True):  # type: ignore[union-attr]  # refused above
        size = x.shape[axis]
        start = min(max(start + size if start < 0 else start, 0), size - (step < 0))
        offset += start * strides[axis]
        strides[axis] *= step
    if any(s < 0 for s in strides):
        raise refuse(call, "steps backwards")
    (out,) = call.outputs
    names = place.name_of(x), place.name_of(out)
    read = [s if n > 1 else 0 for s, n in zip(strides, out.shape, strict=True)]
    loops(
        place,
        out.shape,
        [read, _strides(out.shape, out.shape)],
        lambda i: f"{names[1]}[{i[1]}] = {names[0]}[{i[0]} + {offset}];",
    )


def _copy(place: Place, to: str, source: str, outer: int, steps: tuple[str, str], size: int) -> None:
    """`outer` runs of `size` bytes, at these places of both."""
    place.write(f"{{ size_t i; for (i = 0; i < {outer}; i++)")
    place.write(f"    memcpy((char *){to} + {steps[0]}, (const char *){source} + {steps[1]}, {size}); }}")


@row("Concat")
def _(place: Place, call: Call) -> None:
    (out,) = call.outputs
    axis = call.attributes["axis"] % len(out.shape)
    inner = int(np.prod(out.shape[axis + 1 :], dtype=np.int64)) * out.dtype.itemsize
    outer, total, at = int(np.prod(out.shape[:axis], dtype=np.int64)), out.shape[axis] * inner, 0
    for value in call.inputs:
        assert value is not None
        size = value.shape[axis] * inner
        if size:
            _copy(place, place.name_of(out), place.name_of(value), outer, (f"i * {total} + {at}", f"i * {size}"), size)
        at += size


@row("Split")
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    axis = call.attributes.get("axis", 0) % len(x.shape)
    inner = int(np.prod(x.shape[axis + 1 :], dtype=np.int64)) * x.dtype.itemsize
    outer, total, at = int(np.prod(x.shape[:axis], dtype=np.int64)), x.shape[axis] * inner, 0
    for value in call.outputs:
        size = value.shape[axis] * inner
        _copy(place, place.name_of(value), place.name_of(x), outer, (f"i * {size}", f"i * {total} + {at}"), size)
        at += size


@row("Pad")
def _(place: Place, call: Call) -> None:
    x, pads = call.inputs[:2]
    value = given(call, 2)
    assert x is not None and pads is not None
    if call.attributes.get("mode", b"constant") != b"constant" or pads.data is None or given(call, 3) is not None:
        raise refuse(call, "other values than a constant")
    before = pads.data.tolist()[: len(x.shape)]
    if min(pads.data.tolist(), default=0) < 0:
        raise refuse(call, "negative sizes")
    (out,) = call.outputs
    fill = "0" if value is None or value.data is None else number(float(value.data))
    own = _strides(out.shape, out.shape)
    offset = sum(n * s for n, s in zip(before, own, strict=True))
    to, source = place.name_of(out), place.name_of(x)
    place.write(f"{{ size_t i; for (i = 0; i < {out.size}; i++) {to}[i] = {fill}; }}")
    loops(place, x.shape, [_strides(x.shape, x.shape), own], lambda i: f"{to}[{i[1]} + {offset}] = {source}[{i[0]}];")


@row("Gather")
def _(place: Place, call: Call) -> None:
    x, index = call.inputs
    assert x is not None and index is not None
    if index.dtype != np.int64:
        raise refuse(call, f"indices of {index.dtype}")
    axis = call.attributes.get("axis", 0) % len(x.shape)
    outer = int(np.prod(x.shape[:axis], dtype=np.int64))
    inner = int(np.prod(x.shape[axis + 1 :], dtype=np.int64)) * x.dtype.itemsize
    place.needs("gather")
    names = place.name_of(x), place.name_of(index), place.name_of(call.outputs[0])
    place.write(f"if (!bm_gather({', '.join(names)}, {outer}, {x.shape[axis]}, {inner}, {index.size})) return 1;")


# ---------------------------------------------------------------- reductions and normalization

_REDUCTIONS = {
    "ReduceMean": ("0.0f", "sum += x", "sum / (float){n}"),
    "ReduceSum": ("0.0f", "sum += x", "sum"),
    "ReduceMax": ("-INFINITY", "sum = x > sum || x != x ? x : sum", "sum"),
    "ReduceMin": ("INFINITY", "sum = x < sum || x != x ? x : sum", "sum"),
    "ReduceProd": ("1.0f", "sum *= x", "sum"),
    "ReduceL2": ("0.0f", "sum += x * x", "sqrtf(sum)"),
    "ReduceSumSquare": ("0.0f", "sum += x * x", "sum"),
}


@row(*_REDUCTIONS)
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    if x.dtype != np.float32:
        raise refuse(call, str(x.dtype))
    axes = call.attributes.get("axes")
    second = given(call, 1)
    if axes is None and second is not None:
        if second.data is None:
            raise refuse(call, "axes that are computed")
        axes = second.data.tolist()
    if not axes and call.attributes.get("noop_with_empty_axes"):
        axes, kept = [], list(range(len(x.shape)))
    else:
        axes = sorted({a % len(x.shape) for a in axes} if axes else range(len(x.shape)))
        kept = [a for a in range(len(x.shape)) if a not in axes]
    steps = _strides(x.shape, x.shape)
    start, add, end = _REDUCTIONS[call.op]
    n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    source, to = place.name_of(x), place.name_of(call.outputs[0])
    inside = "".join(f"for (r{a} = 0; r{a} < {x.shape[a]}; r{a}++) " for a in axes)
    names = "".join(f"size_t r{a}; " for a in axes)
    within = " + ".join(f"r{a} * {steps[a]}" for a in axes) or "0"
    shape = tuple(x.shape[a] for a in kept)

    def body(i: list[str]) -> str:
        return (
            f"{{ float sum = {start}; {names}{inside}{{ float bm_x = {source}[{i[0]} + {within}]; {_local(add)}; }} "
            f"{to}[{i[1]}] = {end.format(n=n)}; }}"
        )

    loops(place, shape, [[steps[a] for a in kept], _strides(shape, shape)], body)


@row("Softmax", "LogSoftmax")
def _(place: Place, call: Call) -> None:
    (x,) = call.inputs
    assert x is not None
    axis = call.attributes.get("axis", -1) % len(x.shape)
    outer, inner = [int(np.prod(part, dtype=np.int64)) for part in (x.shape[:axis], x.shape[axis + 1 :])]
    place.needs("softmax")
    names = place.name_of(x), place.name_of(call.outputs[0])
    place.write(f"bm_softmax({', '.join(names)}, {outer}, {x.shape[axis]}, {inner}, {int(call.op == 'LogSoftmax')});")


@row("LayerNormalization")
def _(place: Place, call: Call) -> None:
    x, scale = call.inputs[:2]
    bias = given(call, 2)
    assert x is not None and scale is not None
    axis = call.attributes.get("axis", -1) % len(x.shape)
    n = int(np.prod(x.shape[axis:], dtype=np.int64))
    place.needs("layer_norm")
    names = (
        place.name_of(x),
        place.name_of(scale),
        place.name_of(bias) if bias else "NULL",
        place.name_of(call.outputs[0]),
    )
    place.write(
        f"bm_layer_norm({', '.join(names)}, {x.size // n}, {n}, {number(call.attributes.get('epsilon', 1e-5))});"
    )


@row("BatchNormalization")
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    if not all(v is not None and v.data is not None for v in call.inputs[1:5]):
        raise refuse(call, "statistics that are computed")
    scale, shift, mean, variance = [v.data.astype(np.float64) for v in call.inputs[1:5]]  # type: ignore[union-attr]  # refused above
    factor = scale / np.sqrt(variance + call.attributes.get("epsilon", 1e-5))
    f, s = place.constant(factor.astype(np.float32)), place.constant((shift - mean * factor).astype(np.float32))
    inner = int(np.prod(x.shape[2:], dtype=np.int64))
    source, to = place.name_of(x), place.name_of(call.outputs[0])
    loops(place, (x.shape[0], x.shape[1], inner), [[x.shape[1] * inner, inner, 1], [0, 1, 0]],
          lambda i: f"{to}[{i[0]}] = {source}[{i[0]}] * {f}[{i[1]}] + {s}[{i[1]}];")  # fmt: skip


# ---------------------------------------------------------------- products


@row("MatMul", "Gemm")
def _(place: Place, call: Call) -> None:
    a, b = call.inputs[:2]
    assert a is not None and b is not None
    turned = [bool(call.attributes.get(k, 0)) for k in ("transA", "transB")] if call.op == "Gemm" else [False, False]
    left, right = (1, *a.shape) if len(a.shape) == 1 else a.shape, (*b.shape, 1) if len(b.shape) == 1 else b.shape
    m, k = (left[-1], left[-2]) if turned[0] else (left[-2], left[-1])
    n = right[-2] if turned[1] else right[-1]
    ar, ac = (1, m) if turned[0] else (k, 1)
    br, bc = (1, k) if turned[1] else (n, 1)
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    place.needs("matmul")
    place.floats(-(-m // TILE) * TILE * DEPTH + DEPTH * WIDE)
    names = place.name_of(a), place.name_of(b), place.name_of(call.outputs[0])
    steps = [[s * m * k for s in _strides(left[:-2], batch)], [s * k * n for s in _strides(right[:-2], batch)]]
    own = [s * m * n for s in _strides(batch, batch)]
    if call.op == "MatMul" and len(right) == 2 and len(left) > 2 and not turned[0]:
        m, batch, steps, own = m * int(np.prod(left[:-2], dtype=np.int64)), (), [[], []], []  # one tall product
        place.floats(-(-m // TILE) * TILE * DEPTH + DEPTH * WIDE)

    def body(i: list[str]) -> str:
        operands = f"{names[0]} + {i[0]}, {ar}, {ac}, {names[1]} + {i[1]}, {br}, {bc}, {names[2]} + {i[2]}"
        return f"bm_matmul({operands}, {m}, {n}, {k}, scratch);"

    loops(place, batch, [*steps, own], body)
    if call.op == "Gemm":
        alpha, beta, c = call.attributes.get("alpha", 1.0), call.attributes.get("beta", 1.0), given(call, 2)
        out = call.outputs[0]
        if alpha != 1.0:
            place.write(f"{{ size_t i; for (i = 0; i < {out.size}; i++) {names[2]}[i] *= {number(alpha)}; }}")
        if c is not None:
            extra = place.name_of(c)
            loops(place, out.shape, [_strides(c.shape, out.shape), _strides(out.shape, out.shape)],
                  lambda i: f"{names[2]}[{i[1]}] += {number(beta)} * {extra}[{i[0]}];")  # fmt: skip


# ---------------------------------------------------------------- windows


def _window(call: Call, rank: int, size: tuple[int, ...], kernel: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Strides, paddings before, dilations, for two axes: of one axis the first is 1."""
    a = call.attributes
    strides, dilations = list(a.get("strides", [1] * rank)), list(a.get("dilations", [1] * rank))
    pads = list(a.get("pads", [0] * 2 * rank))
    automatic = a.get("auto_pad", b"NOTSET")
    if automatic in (b"SAME_UPPER", b"SAME_LOWER"):
        out = call.outputs[0].shape[2:]
        whole = [
            max((o - 1) * s + (k - 1) * d + 1 - n, 0) for o, s, k, d, n in zip(out, strides, kernel, dilations, size)
        ]
        pads = [w // 2 if automatic == b"SAME_UPPER" else -(-w // 2) for w in whole]
    return _two(strides), _two(pads[:rank], 0), _two(dilations)


def _two(listed: Any, fill: int = 1) -> list[int]:
    return [fill] * (2 - len(listed)) + list(listed)


def _planes(call: Call) -> tuple[int, list[int], list[int]]:
    """The number of spatial axes, and two sizes of the input and of the output."""
    x, out = call.inputs[0], call.outputs[0]
    assert x is not None
    rank = len(x.shape) - 2
    if rank not in (1, 2):
        raise refuse(call, f"{rank} axes")
    return rank, _two(x.shape[2:]), _two(out.shape[2:])


@row("Conv")
def _(place: Place, call: Call) -> None:
    x, weight = call.inputs[:2]
    bias = given(call, 2)
    assert x is not None and weight is not None
    rank, (height, width), (oh, ow) = _planes(call)
    kh, kw = _two(weight.shape[2:])
    (sh, sw), (ph, pw), (dh, dw) = _window(call, rank, x.shape[2:], list(weight.shape[2:]))
    groups, batch, channels = call.attributes.get("group", 1), x.shape[0], x.shape[1]
    filters, depth = weight.shape[0] // groups, channels // groups
    kind, a, b = call.activation or ("NONE", 0.0, 0.0)
    end = f"BM_{kind}, {number(a)}, {number(b)}"
    names = place.name_of(x), place.name_of(call.outputs[0])
    small = place.name_of(bias) if bias is not None else "NULL"
    if depth == 1 and filters == 1:
        place.needs("depthwise")
        place.write(
            f"{{ size_t i; for (i = 0; i < {batch}; i++) bm_depthwise({names[0]} + i * {channels * height * width}, {place.name_of(weight)}, "
            f"{small}, {names[1]} + i * {channels * oh * ow}, {channels}, {height}, {width}, {kh}, {kw}, {oh}, {ow}, "
            f"{sh}, {sw}, {ph}, {pw}, {dh}, {dw}, {end}); }}"
        )
        return
    k, tiles = depth * kh * kw, -(-filters // TILE) * TILE
    place.needs("conv")
    place.floats(tiles * k + DEPTH * WIDE)
    place.write(
        f"{{ static const bm_window w = {{{depth}, {height}, {width}, {filters}, {kh}, {kw}, {oh}, {ow}, "
        f"{sh}, {sw}, {ph}, {pw}, {dh}, {dw}}}; size_t i, g;"
    )
    place.write(f"  for (g = 0; g < {groups}; g++) {{")
    if place.int8 and weight.data is not None:
        flat = weight.data.reshape(weight.shape[0], -1)
        scale = np.maximum(np.abs(flat).max(1), 1e-30) / 127
        whole = place.constant(np.round(flat / scale[:, None]).astype(np.int8))
        scales = place.constant(scale.astype(np.float32))
        place.needs("filters_i8")
        place.write(
            f"    bm_filters_i8({whole} + g * {filters * k}, {scales} + g * {filters}, {filters}, {k}, scratch);"
        )
    else:
        place.needs("filters")
        place.write(f"    bm_filters({place.name_of(weight)} + g * {filters * k}, {filters}, {k}, scratch);")
    added = f"{small} + g * {filters}" if bias is not None else "NULL"
    place.write(
        f"    for (i = 0; i < {batch}; i++) bm_conv({names[0]} + (i * {groups} + g) * {depth * height * width}, scratch, {added}, "
        f"{names[1]} + (i * {groups} + g) * {filters * oh * ow}, &w, {end}, scratch + {tiles * k});"
    )
    place.write("  } }")


@row("ConvTranspose")
def _(place: Place, call: Call) -> None:
    x, weight = call.inputs[:2]
    bias = given(call, 2)
    assert x is not None and weight is not None
    rank, (height, width), (oh, ow) = _planes(call)
    if call.attributes.get("group", 1) != 1:
        raise refuse(call, "groups")
    (sh, sw), (ph, pw), (dh, dw) = _window(call, rank, x.shape[2:], list(weight.shape[2:]))
    kh, kw = _two(weight.shape[2:])
    filters, channels = weight.shape[1], x.shape[1]
    place.needs("conv_transpose")
    names = (
        place.name_of(x),
        place.name_of(weight),
        place.name_of(bias) if bias is not None else "NULL",
        place.name_of(call.outputs[0]),
    )
    place.write(
        f"{{ size_t i; for (i = 0; i < {x.shape[0]}; i++) bm_conv_transpose({names[0]} + i * {channels * height * width}, {names[1]}, {names[2]}, "
        f"{names[3]} + i * {filters * oh * ow}, {channels}, {height}, {width}, {filters}, {kh}, {kw}, {oh}, {ow}, "
        f"{sh}, {sw}, {ph}, {pw}, {dh}, {dw}); }}"
    )


@row("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    if len(call.outputs) > 1:
        raise refuse(call, "indices")
    rank, (height, width), (oh, ow) = _planes(call)
    kernel = list(x.shape[2:]) if call.op.startswith("Global") else list(call.attributes["kernel_shape"])
    (sh, sw), (ph, pw), (dh, dw) = _window(call, rank, x.shape[2:], kernel)
    kh, kw = _two(kernel)
    place.needs("pool")
    names = place.name_of(x), place.name_of(call.outputs[0])
    all_ = int(call.attributes.get("count_include_pad", 0))
    if all_ and call.attributes.get("ceil_mode", 0):
        raise refuse(call, "ceil_mode and padding that is counted")
    place.write(
        f"bm_pool({names[0]}, {names[1]}, {x.shape[0] * x.shape[1]}, {height}, {width}, {kh}, {kw}, {oh}, {ow}, "
        f"{sh}, {sw}, {ph}, {pw}, {dh}, {dw}, {int('Average' in call.op)}, {all_});"
    )


@row("Resize")
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    (out,) = call.outputs
    assert x is not None
    mode = call.attributes.get("mode", b"nearest")
    axes = [i for i, (n, m) in enumerate(zip(x.shape, out.shape, strict=True)) if n != m]
    if mode not in (b"nearest", b"linear"):
        raise refuse(call, mode.decode())
    place.needs("resize")
    source = place.name_of(x)
    shape = list(x.shape)
    sizes = [int(np.prod([*out.shape[: axis + 1], *x.shape[axis + 1 :]], dtype=np.int64)) for axis in axes]
    half = sum(sizes[:-1])
    place.floats(half)
    at = 0
    for i, axis in enumerate(axes):
        n, m = x.shape[axis], out.shape[axis]
        low, high, part = _between(call, n, m, mode)
        tables = [place.constant(t) for t in (low, high, part)]
        outer, inner = [int(np.prod(p, dtype=np.int64)) for p in (shape[:axis], shape[axis + 1 :])]
        to = place.name_of(out) if i == len(axes) - 1 else f"scratch + {at}"
        place.write(f"bm_resize({source}, {to}, {outer}, {n}, {inner}, {m}, {', '.join(tables)});")
        source, at = f"scratch + {at}", at + sizes[i]
        shape[axis] = m
    if not axes:
        place.write(f"memcpy({place.name_of(out)}, {source}, {x.size * 4});")


def _between(call: Call, n: int, m: int, mode: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each new place the two old ones around it and how far it is from the first."""
    how, i = call.attributes.get("coordinate_transformation_mode", b"half_pixel"), np.arange(m)
    if how == b"align_corners":
        at = i * ((n - 1) / (m - 1)) if m > 1 else i * 0.0
    elif how == b"asymmetric":
        at = i * (n / m)
    elif how in (b"half_pixel", b"pytorch_half_pixel"):
        at = (i + 0.5) * (n / m) - 0.5 if m > 1 or how == b"half_pixel" else i * 0.0
    else:
        raise refuse(call, how.decode())
    if mode == b"nearest":
        rounding = call.attributes.get("nearest_mode", b"round_prefer_floor")
        roundings: dict[bytes, Callable[[np.ndarray], np.ndarray]] = {
            b"floor": np.floor,
            b"ceil": np.ceil,
            b"round_prefer_floor": lambda x: np.ceil(x - 0.5),
            b"round_prefer_ceil": lambda x: np.floor(x + 0.5),
        }
        whole = roundings[rounding](at)
        low = np.clip(whole, 0, n - 1).astype(np.int32)
        return low, low, np.zeros(m, np.float32)
    at = np.clip(at, 0, n - 1)
    low = np.floor(at).astype(np.int32)
    return low, np.minimum(low + 1, n - 1).astype(np.int32), (at - low).astype(np.float32)


@row("ArgMax", "ArgMin")
def _(place: Place, call: Call) -> None:
    (x,) = call.inputs
    assert x is not None
    axis = call.attributes.get("axis", 0) % len(x.shape)
    if call.attributes.get("select_last_index", 0):
        raise refuse(call, "the last index")
    outer, inner = [int(np.prod(p, dtype=np.int64)) for p in (x.shape[:axis], x.shape[axis + 1 :])]
    n, source, to = x.shape[axis], place.name_of(x), place.name_of(call.outputs[0])
    sign = ">" if call.op == "ArgMax" else "<"
    place.write(
        f"{{ size_t o, q, i; for (o = 0; o < {outer}; o++) for (q = 0; q < {inner}; q++) {{ size_t best = 0; for (i = 1; i < {n}; i++) "
        f"if ({source}[(o * {n} + i) * {inner} + q] {sign} {source}[(o * {n} + best) * {inner} + q]) best = i; "
        f"{to}[o * {inner} + q] = (int64_t)best; }} }}"
    )
