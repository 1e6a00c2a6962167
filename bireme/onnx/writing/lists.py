"""Lists of tensors, as sequences of ONNX, and sizes as tensors."""

from __future__ import annotations

from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.onnx.writing.graph import SequenceOf, Val, Writer, kind_of
from bireme.onnx.writing.table import Call, converts


def _items(w: Writer, call: Call) -> Val:
    return w.value(call["x"])


@converts("list_of")
def list_of(w: Writer, call: Call) -> Val:
    kind = kind_of(call.makes[0])
    assert isinstance(kind, SequenceOf)
    if not call["items"]:
        return w.empty_list(kind)
    return w("SequenceConstruct", *[w.value(x, kind.item) for x in call["items"]], dtype=kind)


@converts("list_append")
def list_append(w: Writer, call: Call) -> Val:
    x = _items(w, call)
    return w("SequenceInsert", x, w.value(call["item"], x.dtype.item), dtype=x.dtype)


@converts("list_item")
def list_item(w: Writer, call: Call) -> Val:
    x = _items(w, call)
    return w("SequenceAt", x, w.value(call["index"], dtypes.int64), dtype=x.dtype.item)


@converts("list_length")
def list_length(w: Writer, call: Call) -> Val:
    return w("SequenceLength", _items(w, call), dtype=dtypes.int64)


@converts("list_with")
def list_with(w: Writer, call: Call) -> Val:
    x, at = _items(w, call), w.value(call["index"], dtypes.int64)
    at = w.where(at < 0, at + w("SequenceLength", x, dtype=dtypes.int64), at)
    without = w("SequenceErase", x, at, dtype=x.dtype)
    return w("SequenceInsert", without, w.value(call["item"], x.dtype.item), at, dtype=x.dtype)


@converts("list_without")
def list_without(w: Writer, call: Call) -> list[Any]:
    x, at = _items(w, call), w.value(call["index"], dtypes.int64)
    return [w("SequenceErase", x, at, dtype=x.dtype), w("SequenceAt", x, at, dtype=x.dtype.item)]


@converts("size_of")
def size_of(w: Writer, call: Call) -> Val:
    return w.dim(call["n"]).to(call.dtype)
