"""Rows of functions that make tensors of nothing but numbers and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.program.building import suspended
from bireme.core.program.program import leaves
from bireme.core.program.variable import Dim
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models.writing.values import Value
from bireme.files.paddle_models.writing.writer import Writer, row


def filled(w: Writer, shape: Any, value: Any) -> Value:
    """A tensor of one number, of the type of the result."""
    dtype, _ = w.types[0]
    shape = shape if isinstance(shape, Value) else list(shape) if isinstance(shape, (list, tuple)) else [shape]
    if isinstance(shape, Value) or isinstance(value, (Value, Dim)) or any(isinstance(n, (Dim, Value)) for n in shape):
        return w.op("full_with_tensor", [w.number(value, dtype, [1]), w.ints(shape)], dtype=dtype)
    return w.full([int(n) for n in shape], value, dtype)


@row("full")
def _full(w: Writer, shape: Any, fill_value: Any, **options: Any) -> Value:
    return filled(w, shape, fill_value)


@row("full_of")
def _full_of(w: Writer, fill_value: Any, shape: Any, dtype: Any) -> Value:
    fill_value = fill_value[1] if isinstance(fill_value, tuple) else fill_value  # with its dtype
    return filled(w, shape, fill_value)


@row("zeros empty")
def _zeros(w: Writer, shape: Any, **options: Any) -> Value:
    return filled(w, shape, 0)


@row("ones")
def _ones(w: Writer, shape: Any, **options: Any) -> Value:
    return filled(w, shape, 1)


@row("full_like")
def _full_like(w: Writer, x: Value, fill_value: Any, **options: Any) -> Value:
    dtype = w.types[0][0]
    return w.op("full_like", [x, w.number(fill_value, dtype, [1])], dtype=dtype)


@row("zeros_like empty_like")
def _zeros_like(w: Writer, x: Value, **options: Any) -> Value:
    return _full_like(w, x, 0)


@row("ones_like")
def _ones_like(w: Writer, x: Value, **options: Any) -> Value:
    return _full_like(w, x, 1)


@row("arange")
def _arange(w: Writer, start: Any = 0, end: Any = None, step: Any = 1, **options: Any) -> Value:
    start, end = (0, start) if end is None else (start, end)
    dtype = w.types[0][0]
    return w.op("arange", [w.number(n, dtype, [1]) for n in (start, end, step)], dtype=dtype)


@row("count_up")
def _count_up(w: Writer, start: Any, step: Any, size: Any, dtype: Any) -> Value:
    kind = w.types[0][0]
    start, step = [n[1] if isinstance(n, tuple) else n for n in (start, step)]  # with their dtype
    counted = [w.number(n, "int64", [1]) for n in (0, size, 1)]
    places = w.op("arange", counted, [("int64", [size])], dtype="int64")
    return w.binary("add", w.binary("multiply", w.cast(places, kind), step), start)


@row("linspace")
def _linspace(w: Writer, start: Any, stop: Any, num: Any, dtype: Any = None) -> Value:
    kind = w.types[0][0]
    ends = [w.number(start, kind, [1]), w.number(stop, kind, [1]), w.number(num, "int32", [1])]
    return w.op("linspace", ends, dtype=kind)


@row("eye")
def _eye(w: Writer, num_rows: Any, num_columns: Any = None, **options: Any) -> Value:
    sizes = [num_rows, num_rows if num_columns is None else num_columns]
    return w.op("eye", [w.number(n, "int32", [1]) for n in sizes], dtype=w.types[0][0])


@row("eye_of")
def _eye_of(w: Writer, num_rows: Any, num_columns: Any, dtype: Any) -> Value:
    return _eye(w, num_rows, num_columns)


@row("to_tensor as_tensor")
def _to_tensor(w: Writer, data: Any, **options: Any) -> Value:
    dtype, shape = w.types[0]
    if isinstance(data, Value):
        return w.cast(data, dtype)
    each = list(leaves(data)) if isinstance(data, (list, tuple)) else [data]
    if any(isinstance(x, (Dim, Value)) for x in each):
        parts = [w.number(x, dtype, [1]) for x in each]
        made = w.op("concat", [parts, w.full([1], 0, "int32")], [(dtype, [len(parts)])])
        return made if len(shape) == 1 else w.reshape(made, shape)
    with suspended():
        return w.value(Tensor(np.array(data), dtype))


@row("program.size_of")
def _size_of(w: Writer, n: Any) -> Value:
    return w.number(n, "int64")


@row("shape_of Tensor.shape")
def _shape_of(w: Writer, input: Value) -> Value:
    dtype = w.types[0][0]
    return w.cast(w.op("shape64", [input], [("int64", [input.ndim])]), dtype)


@row("numel")
def _numel(w: Writer, x: Value) -> Value:
    return w.op("numel", [x])
