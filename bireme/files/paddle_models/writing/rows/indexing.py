"""Rows of indexing, gathering and scattering."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from bireme.core.program.building import suspended
from bireme.core.program.variable import Dim
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models.writing.rows.reductions import one
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, broadcast, row, same_shape

FAR = 2**31 - 1  # an end beyond every size


def _constant(w: Writer, data: Any) -> Value:
    with suspended():
        return w.value(Tensor(np.asarray(data)))


def _entries(w: Writer, x: Value, index: Any) -> list[Any]:
    """An index as one entry for each axis: slices, integers and tensors; None for a new axis."""
    given = list(index) if isinstance(index, tuple) else [index]
    given = [_constant(w, i) if isinstance(i, (list, np.ndarray)) else i for i in given]
    used = builtins.sum([0 if i is None or i is Ellipsis else i.ndim if _is_mask(i) else 1 for i in given])
    rest = [slice(None)] * (x.ndim - used)
    where = next((n for n, i in enumerate(given) if i is Ellipsis), None)
    if where is None:
        return given + rest
    return given[:where] + rest + given[where + 1 :]


def _is_mask(i: Any) -> bool:
    return isinstance(i, Value) and i.dtype == "bool"


@row("Tensor.__getitem__")
def _getitem(w: Writer, x: Value, index: Any) -> Value:
    dtype, shape = w.types[0]
    entries = _entries(w, x, index)
    if any(isinstance(i, bool) for i in entries):
        raise Unwritable("with a bool as index")
    axes, starts, ends, strides, removed = [], [], [], [], []
    new, picked, axis, out = [], [], 0, 0
    for i in entries:
        if i is None:
            new.append(out)
            out += 1
            continue
        if isinstance(i, slice):
            if (i.start, i.stop, i.step) != (None, None, None):
                step = 1 if i.step is None else i.step
                if isinstance(step, Value) or step < 1:
                    if isinstance(step, Value):
                        raise Unwritable("with a tensor as step")
                    raise Unwritable("with a step that is not positive")
                axes.append(axis)
                starts.append(0 if i.start is None else i.start)
                ends.append(FAR if i.stop is None else i.stop)
                strides.append(step)
            out += 1
        elif isinstance(i, int) or (isinstance(i, Value) and not i.ndim and i.dtype != "bool"):
            axes.append(axis)
            starts.append(i)
            ends.append(_after(w, i))
            strides.append(1)
            removed.append(axis)
        elif isinstance(i, Value):
            picked.append((axis, i, out))
            out += 1
            axis += i.ndim - 1 if i.dtype == "bool" else 0
        else:
            raise Unwritable("with such an index")
        axis += 1
    if picked and (new or (removed and len(picked) > 1)):
        raise Unwritable("with tensors and other entries as index")
    if axes:
        x = _part(w, x, axes, starts, ends, strides, removed, None if picked or new else shape)
    for at in new:
        x = w.op("unsqueeze", [x, w.ints([at])], [(dtype, [*x.shape[:at], 1, *x.shape[at:]])])
    if picked:
        before = len([a for a in removed if a < picked[0][0]])
        x = _picked(w, x, [(a - before, i) for a, i, _ in picked], shape)
    return x


def _after(w: Writer, i: Any) -> Any:
    """The end of a part that begins at an index and has size 1: what follows -1 is the end."""
    if isinstance(i, Value):
        i = w.number(i, "int64", [1])
        return w.binary("add", i, w.full([1], 1, "int64"))
    if isinstance(i, Dim):
        return i + 1
    return FAR if i == -1 else i + 1


def _part(
    w: Writer, x: Value, axes: list[int], starts: Any, ends: Any, strides: Any, removed: Any, shape: Any
) -> Value:
    kept = [n if i not in axes else -1 for i, n in enumerate(x.shape)]
    if all(s == 1 for s in strides):
        out = shape if shape is not None else [n for i, n in enumerate(kept) if i not in removed]
        return w.slice(x, axes, starts, ends, (x.dtype, out), removed)
    made = w.op(
        "strided_slice", [x, w.ints(starts), w.ints(ends), w.ints(strides)],
        [(x.dtype, shape if shape is not None and not removed else kept)], axes=axes,
    )  # fmt: skip
    if removed:
        out = shape if shape is not None else [n for i, n in enumerate(kept) if i not in removed]
        made = w.op("squeeze", [made, w.ints(removed)], [(x.dtype, out)])
    return made


def _picked(w: Writer, x: Value, picked: list[tuple[int, Value]], shape: list[int]) -> Value:
    """Elements by tensors of integers, or by one mask."""
    first = picked[0][0]
    if len(picked) == 1 and picked[0][1].dtype == "bool":
        mask = picked[0][1]
        if first:
            raise Unwritable("with a mask after other entries")
        found = w.op("nonzero", [mask], [("int64", [-1, mask.ndim])])
        return w.op("gather_nd", [x, found], [(x.dtype, shape)])
    if any(i.dtype == "bool" for _, i in picked) or [a for a, _ in picked] != list(range(first, first + len(picked))):
        raise Unwritable("with tensors that are not beside each other as index")
    sizes = [x.shape[a] for a, _ in picked]
    each = [_counted(w, i, n) for (_, i), n in zip(picked, sizes, strict=True)]
    if len(each) == 1 and each[0].ndim == 1:
        return w.op("gather", [x, each[0], w.full([1], first, "int64")], [(x.dtype, shape)])
    common = broadcast(*[i.shape for i in each])
    flat = [
        w.op("expand", [i, w.ints(common)], [("int64", common)]) if not same_shape(i.shape, common) else i for i in each
    ]
    together = w.op("stack", [flat], [("int64", [*common, len(flat)])], axis=len(common))
    if first == 0:
        return w.op("gather_nd", [x, together], [(x.dtype, shape)])
    moved = [*range(first, first + len(picked)), *range(first), *range(first + len(picked), x.ndim)]
    x = w.transpose(x, moved)
    made = w.op("gather_nd", [x, together], [(x.dtype, [*common, *x.shape[len(picked) :]])])
    n = len(common)
    return w.transpose(made, [*range(n, n + first), *range(n), *range(n + first, made.ndim)])


def _counted(w: Writer, i: Value, n: Any) -> Value:
    """Indices of int64 that count from the front."""
    i = w.cast(i, "int64")
    less = w.op("less_than", [i, w.full([], 0, "int64")], [("bool", i.shape)])
    return w.binary("add", i, w.binary("multiply", w.cast(less, "int64"), n))


@row("changed.__setitem__")
def _setitem(w: Writer, x: Value, index: Any, value: Any) -> Value:
    axes, starts, ends, steps, removed = [], [], [], [], []
    entries = _entries(w, x, index)
    if len(entries) == 1 and _is_mask(entries[0]) and not isinstance(value, Value) and entries[0].ndim == x.ndim:
        return w.op(
            "where", [entries[0], w.op("full_like", [x, w.number(value, x.dtype, [1])], [x.type], dtype=x.dtype), x]
        )
    for axis, i in enumerate(entries):
        if isinstance(i, slice):
            if (i.start, i.stop, i.step) == (None, None, None):
                continue
            step = 1 if i.step is None else i.step
            if isinstance(step, Value) or step < 1:
                raise Unwritable("with such a step")
            start, end = 0 if i.start is None else i.start, FAR if i.stop is None else i.stop
        elif (isinstance(i, int) and not isinstance(i, bool)) or (isinstance(i, Value) and not i.ndim):
            step, start, end = 1, i, _after(w, i)
            removed.append(axis)
        else:
            raise Unwritable("with such an index")
        axes.append(axis)
        starts.append(start)
        ends.append(end)
        steps.append(step)
    value = w.cast(value, x.dtype) if isinstance(value, Value) else w.number(value, x.dtype, [1])
    return w.op(
        "set_value_with_tensor", [x, value, w.ints(starts), w.ints(ends), w.ints(steps)], [x.type], axes=axes,
        decrease_axes=removed, none_axes=[],
    )  # fmt: skip


@row("slice")
def _slice(w: Writer, input: Value, axes: Any, starts: Any, ends: Any) -> Value:
    axes = [one(a, input) for a in axes]
    return w.slice(input, axes, starts, ends, w.types[0])


@row("strided_slice")
def _strided_slice(w: Writer, x: Value, axes: Any, starts: Any, ends: Any, strides: Any) -> Value:
    return w.op("strided_slice", [x, w.ints(starts), w.ints(ends), w.ints(strides)], axes=[one(a, x) for a in axes])


@row("gather")
def _gather(w: Writer, x: Value, index: Value, axis: Any = None) -> Value:
    at = (
        w.number(0 if axis is None else axis, "int64", [1])
        if not isinstance(axis, int)
        else w.full([1], one(axis, x), "int64")
    )
    return w.op("gather", [x, index, at])


@row("gather_nd gather_nd_of")
def _gather_nd(w: Writer, x: Value, index: Value) -> Value:
    return w.op("gather_nd", [x, index])


@row("index_select")
def _index_select(w: Writer, x: Value, index: Value, axis: int = 0) -> Value:
    return w.op("index_select", [x, index], axis=one(axis, x))


@row("index_sample")
def _index_sample(w: Writer, x: Value, index: Value) -> Value:
    return w.op("index_sample", [x, index])


@row("take_along_axis")
def _take_along_axis(w: Writer, arr: Value, indices: Value, axis: int, broadcast: bool = True) -> Value:
    at = one(axis, arr)
    indices = _along(w, arr, indices, at) if broadcast else indices
    if arr.dtype == "bool":  # which the operation does not take
        found = w.op("take_along_axis", [w.cast(arr, "int32"), indices], [("int32", w.types[0][1])], axis=at)
        return w.cast(found, "bool")
    return w.op("take_along_axis", [arr, indices], axis=at)


def _along(w: Writer, arr: Value, indices: Value, at: int) -> Value:
    """Indices that are as large as the array along all other axes, unless they are larger than it along one."""
    sizes = [n if i == at else m for i, (n, m) in enumerate(zip(indices.shape, arr.shape, strict=True))]
    if same_shape(sizes, indices.shape):
        return indices
    pairs = [(n, m) for n, m in zip(indices.shape, arr.shape, strict=True) if not isinstance(n, Dim)]
    if any(n > m for n, m in pairs if not isinstance(m, Dim)):
        return indices
    if isinstance(indices.shape[at], Dim) or (isinstance(arr.shape[at], Dim) and indices.shape[at] > 1):
        raise Unwritable("with a size along its axis that is unknown")
    return w.op("expand", [indices, w.ints(sizes)], [(indices.dtype, sizes)])


@row("put_along_axis")
def _put_along_axis(
    w: Writer, arr: Value, indices: Value, values: Any, axis: int, reduce: str = "assign", include_self: bool = True,
    broadcast: bool = True,
) -> Value:  # fmt: skip
    indices = _along(w, arr, indices, one(axis, arr)) if broadcast else indices
    value = values if isinstance(values, Value) else w.number(values, arr.dtype)
    if not value.ndim or not same_shape(value.shape, indices.shape):
        value = w.op("expand", [value, w.ints(indices.shape)], [(arr.dtype, indices.shape)])
    if not include_self and reduce != "assign":
        raise Unwritable("with include_self=False")
    return w.op("put_along_axis", [arr, indices, value], axis=one(axis, arr), reduce=reduce, include_self=include_self)


@row("scatter")
def _scatter(w: Writer, x: Value, index: Value, updates: Value, overwrite: bool = True) -> Value:
    return w.op("scatter", [x, index, updates], overwrite=overwrite)


@row("scatter_nd_add scatter_nd_of")
def _scatter_nd_add(w: Writer, x: Value, index: Value, updates: Value) -> Value:
    return w.op("scatter_nd_add", [x, index, updates])


@row("masked_select")
def _masked_select(w: Writer, x: Value, mask: Value) -> Value:
    return w.op("masked_select", [x, mask])


@row("nonzero_of")
def _nonzero_of(w: Writer, x: Value) -> Value:
    return w.op("nonzero", [x])


@row("index_add")
def _index_add(w: Writer, x: Value, index: Value, axis: int, value: Value) -> Value:
    return w.op("index_add", [x, index, value], axis=one(axis, x))


@row("index_put")
def _index_put(w: Writer, x: Value, indices: Any, value: Value, accumulate: bool = False) -> Value:
    if any(i.dtype == "bool" for i in indices):
        raise Unwritable("with masks")
    return w.op("index_put", [x, list(indices), value], accumulate=accumulate)


@row("nonzero")
def _nonzero(w: Writer, x: Value, as_tuple: bool = False) -> Any:
    if not as_tuple:
        return w.op("nonzero", [x])
    found = w.op("nonzero", [x], [("int64", [-1, x.ndim])])
    return tuple([w.slice(found, [1], [i], [i + 1], ("int64", [-1]), [1]) for i in range(x.ndim)])


@row("embedding")
def _embedding(w: Writer, x: Value, weight: Value, padding_idx: Any = None, **options: Any) -> Value:
    if options.get("max_norm") is not None:
        raise Unwritable("with max_norm")
    n = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else padding_idx + weight.shape[0]
    return w.op("embedding", [x, weight], padding_idx=n)
