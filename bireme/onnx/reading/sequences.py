"""Meanings of nodes on sequences of tensors, and on values that may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme import ops
from bireme.onnx.reading.table import Node, axis_of, host, means, number, tensor


class Sequence(list):
    """A value that is a list of tensors."""


@means("SequenceEmpty")
def _(n: Node) -> Any:
    return [Sequence()]


@means("SequenceConstruct")
def _(n: Node, *given: Any) -> Any:
    return [Sequence(given)]


def _place(at: Any, size: int) -> int:
    i = int(number(at))
    return i + size if i < 0 else i


@means("SequenceInsert")
def _(n: Node, given: Any, x: Any, at: Any = None) -> Any:
    made = Sequence(given)
    made.insert(len(made) if at is None else _place(at, len(made)), x)
    return [made]


@means("SequenceErase")
def _(n: Node, given: Any, at: Any = None) -> Any:
    made = Sequence(given)
    del made[-1 if at is None else _place(at, len(made))]
    return [made]


@means("SequenceAt")
def _(n: Node, given: Any, at: Any) -> Any:
    return [given[_place(at, len(given))]]


@means("SequenceLength")
def _(n: Node, given: Any) -> Any:
    return tensor(len(given), "int64")


@means("ConcatFromSequence")
def _(n: Node, given: Any) -> Any:
    join = ops.stack if n.attr("new_axis", 0) else ops.concat
    return join(list(given), axis=n.attr("axis"))


@means("SplitToSequence")
def _(n: Node, x: Any, split: Any = None) -> Any:
    axis = axis_of(n.attr("axis", 0), x)
    size = x.shape[axis]
    if split is None:
        parts = ops.split(x, size, axis=axis)
        return [Sequence(parts if n.attr("keepdims", 1) else [ops.squeeze(p, [axis]) for p in parts])]
    sizes = host(split)
    if not sizes.ndim:
        each = int(sizes)
        sizes = np.asarray([min(each, size - i) for i in range(0, size, each)])
    return [Sequence(ops.split(x, [int(m) for m in sizes], axis=axis))]


@means("SequenceMap")
def _(n: Node, given: Any, *more: Any) -> Any:
    body = n.attr("body")
    made = [n.scope.call(body, [x, *[m[i] if isinstance(m, list) else m for m in more]]) for i, x in enumerate(given)]
    return [Sequence([each[k] for each in made]) for k in range(len(body.output))]


@means("Optional")
def _(n: Node, x: Any = None) -> Any:
    return [x]


@means("OptionalHasElement")
def _(n: Node, x: Any = None) -> Any:
    return tensor(x is not None)


@means("OptionalGetElement")
def _(n: Node, x: Any = None) -> Any:
    if x is None:
        raise n.bad("a value", "none")
    return [x]
