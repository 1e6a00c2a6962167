"""Rows of products of matrices and of sums by labels."""

from __future__ import annotations

from typing import Any

from bireme.core.program.variable import Dim
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, broadcast, row, same_size


def product(w: Writer, x: Value, y: Value, turn_x: bool = False, turn_y: bool = False) -> Value:
    """The product of matrices, batches of them broadcast."""
    rows = x.shape[-1 if turn_x else -2]
    columns = y.shape[-2 if turn_y else -1]
    shape = [*broadcast(x.shape[:-2], y.shape[:-2]), rows, columns] if x.ndim > 2 or y.ndim > 2 else [rows, columns]
    return w.op("matmul", [x, y], [(x.dtype, shape)], transpose_x=turn_x, transpose_y=turn_y)


@row("matmul")
def _matmul(w: Writer, x: Value, y: Value, transpose_x: bool = False, transpose_y: bool = False) -> Value:
    dtype = w.types[0][0]
    return w.op("matmul", [w.cast(x, dtype), w.cast(y, dtype)], transpose_x=transpose_x, transpose_y=transpose_y)


@row("bmm")
def _bmm(w: Writer, x: Value, y: Value) -> Value:
    return w.op("bmm", [x, y])


@row("mm")
def _mm(w: Writer, input: Value, mat2: Value) -> Value:
    return w.op("matmul", [input, mat2], transpose_x=False, transpose_y=False)


@row("mv")
def _mv(w: Writer, x: Value, vec: Value) -> Value:
    return w.op("mv", [x, vec])


@row("dot")
def _dot(w: Writer, x: Value, y: Value) -> Value:
    return w.op("dot", [x, y])


@row("kron")
def _kron(w: Writer, x: Value, y: Value) -> Value:
    return w.op("kron", [x, y])


@row("cross")
def _cross(w: Writer, x: Value, y: Value, axis: int = 9) -> Value:
    return w.op("cross", [x, y], axis=axis)


@row("addmm")
def _addmm(w: Writer, input: Value, x: Value, y: Value, beta: float = 1.0, alpha: float = 1.0) -> Value:
    return w.op("addmm", [input, x, y], beta=beta, alpha=alpha)


@row("linear")
def _linear(w: Writer, x: Value, weight: Value, bias: Value | None = None) -> Value:
    made = w.op("matmul", [x, weight], transpose_x=False, transpose_y=False)
    return made if bias is None else w.op("add", [made, bias])


@row("bilinear")
def _bilinear(w: Writer, x1: Value, x2: Value, weight: Value, bias: Value | None = None) -> Value:
    return w.op("bilinear", [x1, x2, weight, bias])


@row("einsum")
def _einsum(w: Writer, equation: str, *operands: Any) -> Value:
    each = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    types = [x.type for x in each]
    return w.op("einsum", [each], [w.types[0], types, types], equation=equation)[0]


@row("einsum_of")
def _einsum_of(w: Writer, operands: list[Value], terms: Any, labels: Any) -> Value:
    sizes: dict[Any, Any] = {}
    for x, term in zip(operands, terms, strict=True):
        for n, c in zip(x.shape, term, strict=True):
            known = sizes.setdefault(c, n)
            # sizes that are unknown are checked when the file is run
            if not same_size(known, n) and not isinstance(known, Dim) and not isinstance(n, Dim):
                raise Unwritable("that broadcasts")
    letters = {c: chr(ord("a") + i) for i, c in enumerate(sizes)}  # the operation knows no capital ones
    told = ["".join([letters[c] for c in term]) for term in (*terms, labels)]
    types = [x.type for x in operands]
    return w.op("einsum", [list(operands)], [w.types[0], types, types], equation=f"{','.join(told[:-1])}->{told[-1]}")[
        0
    ]
