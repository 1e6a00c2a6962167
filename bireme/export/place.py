"""What a row of the table is given to write a call in C: names, constants, scratch, and loops over shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from bireme.core.base import errors
from bireme.export.graph import Call, Value

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
BLOCK = 16  # integers of 8 bits that a row of a product of these has a multiple of
SMALL = 64  # numbers of a weight that is not worth to be made integers


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
        message = f"{described(call)} has no form in C yet"
        raise errors.failure(message, hint="export to ONNX instead", kind=NotImplementedError)
    for value in (*call.inputs, *call.outputs):
        if value is not None and str(value.dtype) not in C_TYPES:
            raise errors.failure(f"{described(call)} of {value.dtype} has no form in C yet", kind=NotImplementedError)
    ROWS[call.op](place, call)


def number(x: float) -> str:
    """A float of C."""
    if math.isnan(x):
        return "NAN"
    if math.isinf(x):
        return "INFINITY" if x > 0 else "-INFINITY"
    text = f"{np.float32(x):.9g}"
    return (text if any(c in text for c in ".e") else text + ".0") + "f"


def described(call: Call) -> str:
    """An operator and where it is in the model: the parameters that it reads, else what it makes of what."""
    weights = [v.name for v in call.inputs if v is not None and v.data is not None]
    made, read = call.outputs[0].name, [v.name for v in call.inputs if v is not None and v.data is None]
    return f"{call.op} ({', '.join((*read, *weights))} -> {made})"


def refuse(call: Call, what: str) -> Exception:
    """For a form of an operator that is not written."""
    return errors.failure(
        f"{described(call)} with {what} has no form in C yet", hint="export to ONNX instead", kind=NotImplementedError
    )


def given(call: Call, i: int) -> Value | None:
    """An operand that may be left out."""
    return call.inputs[i] if i < len(call.inputs) else None


def strides_of(shape: tuple[int, ...], to: tuple[int, ...]) -> list[int]:
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


def ending(call: Call) -> str:
    """How a product of integers ends: its activation, and the scale of the integers that its results become, or 0."""
    kind, a, b = call.activation or ("NONE", 0.0, 0.0)
    return f"BM_{kind}, {number(a)}, {number(b)}, {number(call.attributes.get('rounded', 0.0))}"


def integers_of(place: Place, weight: Value, axis: int) -> tuple[str, str] | None:
    """Names of integers that a weight is stored as and of their scales along an axis, if it was quantized or is to be."""
    held = weight.integers
    if held is not None and held.data.shape == weight.shape and (held.axis == axis or held.scale.size == 1):
        scale = np.broadcast_to(held.scale.reshape(-1), weight.shape[axis : axis + 1])
        return place.constant(held.data), place.constant(scale.astype(np.float32))
    if not place.int8 or weight.data is None or weight.dtype != np.float32 or weight.size < SMALL:
        return None
    others = tuple(i for i in range(len(weight.shape)) if i != axis)
    scale = np.maximum(np.abs(weight.data).max(others, keepdims=True), 1e-30) / 127
    integers = np.round(weight.data / scale).astype(np.int8)
    return place.constant(integers), place.constant(scale.reshape(-1).astype(np.float32))


def in_blocks(weight: np.ndarray) -> np.ndarray:
    """Filters as rows of a multiple of `BLOCK` integers, with zeros after their own."""
    rows = weight.reshape(len(weight), -1)
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % BLOCK)))


def local_names(expression: str) -> str:
    """With names for the operands that no input has."""
    return re.sub(r"\b([xyz])\b", r"bm_\1", expression)
