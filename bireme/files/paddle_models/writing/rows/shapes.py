"""Rows of functions that change shapes, join and take apart."""

from __future__ import annotations

from typing import Any

from bireme.core.program.variable import Dim
from bireme.files.paddle_models.writing.rows.reductions import axes_of, one
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, row


@row("reshape view")
def _reshape(w: Writer, x: Value, shape: Any = None, shape_or_dtype: Any = None) -> Value:
    wanted = shape_or_dtype if shape is None else shape
    if not isinstance(wanted, (list, tuple, int, Value)):
        raise Unwritable("with a dtype")
    wanted = [wanted] if isinstance(wanted, int) else wanted
    return w.op("reshape", [x, w.ints(wanted)])


@row("ravel")
def _ravel(w: Writer, input: Value) -> Value:
    return w.op("reshape", [input, w.ints([-1])])


@row("view_as")
def _view_as(w: Writer, x: Value, other: Value) -> Value:
    return w.op("reshape", [x, w.ints(other.shape)])


@row("unflatten")
def _unflatten(w: Writer, x: Value, axis: int, shape: Any) -> Value:
    if isinstance(shape, Value):
        raise Unwritable("with a tensor as shape")
    at = one(axis, x)
    return w.op("reshape", [x, w.ints([*x.shape[:at], *shape, *x.shape[at + 1 :]])])


@row("flatten")
def _flatten(w: Writer, x: Value, start_axis: int = 0, stop_axis: int = -1) -> Value:
    if not x.ndim:
        return w.reshape(x, [1])
    return w.op("flatten", [x], start_axis=one(start_axis, x), stop_axis=one(stop_axis, x))


@row("transpose")
def _transpose(w: Writer, x: Value, perm: Any) -> Value:
    return w.transpose(x, axes_of(list(perm), x))


@row("permute")
def _permute(w: Writer, input: Value, dims: Any) -> Value:
    return w.transpose(input, axes_of(list(dims), input))


@row("t")
def _t(w: Writer, input: Value) -> Value:
    return w.transpose(input, [1, 0]) if input.ndim == 2 else input


@row("Tensor.T")
def _reversed(w: Writer, x: Value) -> Value:
    return w.transpose(x, list(range(x.ndim))[::-1])


@row("Tensor.mT matrix_transpose")
def _matrix_transpose(w: Writer, x: Value) -> Value:
    return w.transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


@row("squeeze")
def _squeeze(w: Writer, x: Value, axis: Any = None) -> Value:
    axes = axes_of(axis, x)
    if axis is None and any(isinstance(n, Dim) for n in x.shape):
        raise Unwritable("with sizes that are unknown")
    if axis is not None:
        # what is not of size 1 stays
        axes = [a for a in axes if isinstance(x.shape[a], Dim) or x.shape[a] == 1]
        if len(axes) != x.ndim - len(w.types[0][1]):
            axes = [a for a in axes if not isinstance(x.shape[a], Dim)]
        if not axes:
            return x
    return w.op("squeeze", [x, w.ints(axes)])


@row("unsqueeze")
def _unsqueeze(w: Writer, x: Value, axis: Any) -> Value:
    return w.op("unsqueeze", [x, w.ints(axis)])


@row("concat")
def _concat(w: Writer, x: Any, axis: Any = 0) -> Value:
    dtype = w.types[0][0]
    if not isinstance(x, (list, tuple)):
        raise Unwritable("of a list that a loop changes")
    axis = w.full([1], one(axis, x[0]), "int32") if isinstance(axis, int) else w.number(axis, "int32", [1])
    return w.op("concat", [[w.cast(each, dtype) for each in x], axis])


@row("stack")
def _stack(w: Writer, x: Any, axis: int = 0) -> Value:
    if isinstance(x, Value):
        return w.op("array_to_tensor", [x], [w.types[0], ("int32", [-1])], axis=axis, use_stack=True)[0]
    dtype = w.types[0][0]
    return w.op("stack", [[w.cast(each, dtype) for each in x]], axis=axis)


@row("split")
def _split(w: Writer, x: Value, num_or_sections: Any, axis: Any = 0) -> list[Value]:
    if isinstance(axis, Value):
        raise Unwritable("with a tensor as axis")
    return _parts(w, x, num_or_sections, one(axis, x))


@row("chunk")
def _chunk(w: Writer, x: Value, chunks: int, axis: Any = 0) -> list[Value]:
    return _parts(w, x, chunks, one(axis, x)) if isinstance(axis, int) else _split(w, x, chunks, axis)


def _parts(w: Writer, x: Value, sections: Any, axis: int) -> list[Value]:
    at = w.full([1], axis, "int32")
    if isinstance(sections, int) and not isinstance(sections, Dim):
        made = w.op("split_with_num", [x, at], [list(w.types)], num=sections)
    else:
        made = w.op("split", [x, w.ints(sections), at], [list(w.types)])
    return w.spread(made)


@row("split_sizes")
def _split_sizes(w: Writer, x: Value, sizes: Any, axis: int) -> Any:
    made = _parts(w, x, list(sizes), one(axis, x))
    return tuple(made)


@row("unbind unbind_of unstack")
def _unbind(w: Writer, input: Any = None, axis: int = 0, x: Any = None, num: Any = None) -> list[Value]:
    x = input if x is None else x
    return w.spread(w.op("unbind", [x], [list(w.types)], axis=one(axis, x)))


@row("tile")
def _tile(w: Writer, x: Value, repeat_times: Any) -> Value:
    return w.op("tile", [x, w.ints(repeat_times)])


@row("expand")
def _expand(w: Writer, x: Value, shape: Any) -> Value:
    return w.op("expand", [x, w.ints(shape)])


@row("expand_as")
def _expand_as(w: Writer, x: Value, y: Value) -> Value:
    sizes = [-1 if isinstance(n, Dim) else n for n in y.shape]
    return w.op("expand_as", [x, y], target_shape=sizes)


@row("broadcast_tensors")
def _broadcast_tensors(w: Writer, input: list[Value]) -> list[Value]:
    return w.spread(w.op("broadcast_tensors", [list(input)], [list(w.types)]))


@row("meshgrid")
def _meshgrid(w: Writer, args: Any = None, **kwargs: Any) -> list[Value]:
    each = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)
    if kwargs.get("kwargs"):
        raise Unwritable("with options")
    return w.spread(w.op("meshgrid", [each], [list(w.types)]))


@row("flip")
def _flip(w: Writer, x: Value, axis: Any) -> Value:
    return w.op("flip", [x], axis=axes_of(axis, x))


@row("roll")
def _roll(w: Writer, x: Value, shifts: Any, axis: Any = None) -> Value:
    return w.op("roll", [x, w.ints(shifts)], axis=axes_of(axis, x))


@row("tril")
def _tril(w: Writer, x: Value, diagonal: int = 0) -> Value:
    return w.op("tril", [x], diagonal=diagonal)


@row("triu")
def _triu(w: Writer, x: Value, diagonal: int = 0) -> Value:
    return w.op("triu", [x], diagonal=diagonal)


@row("diag_embed")
def _diag_embed(w: Writer, input: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    return w.op("diag_embed", [input], offset=offset, dim1=dim1, dim2=dim2)


@row("diagonal")
def _diagonal(w: Writer, x: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    return w.op("diagonal", [x], offset=offset, axis1=one(axis1, x), axis2=one(axis2, x))


@row("diag")
def _diag(w: Writer, x: Value, offset: int = 0, padding_value: Any = 0) -> Value:
    return w.op("diag", [x], offset=offset, padding_value=padding_value)


@row("trace")
def _trace(w: Writer, x: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    return w.op("trace", [x], offset=offset, axis1=axis1, axis2=axis2)


@row("one_hot")
def _one_hot(w: Writer, x: Value, num_classes: Any = -1) -> Value:
    if isinstance(num_classes, int) and not isinstance(num_classes, Dim) and num_classes < 0:
        raise Unwritable("without num_classes")
    made = w.op("one_hot", [x, w.number(num_classes, "int32", [1])], [("float32", w.types[0][1])])
    return made


@row("repeat_interleave")
def _repeat_interleave(w: Writer, x: Value, repeats: Any, axis: Any = None, output_size: Any = None) -> Value:
    if not isinstance(repeats, int) or isinstance(repeats, Dim):
        raise Unwritable("with repeats that are no number")
    if axis is None:
        x, axis = w.reshape(x, [-1]), 0
    return w.op("repeat_interleave", [x], repeats=repeats, axis=one(axis, x))


@row("sequence_mask")
def _sequence_mask(w: Writer, x: Value, maxlen: Any = None, dtype: Any = "int64") -> Value:
    most = w.number(-1 if maxlen is None else maxlen, "int32", [1])
    return w.op("sequence_mask", [x, most], out_dtype=w.types[0][0])


@row("pixel_shuffle")
def _pixel_shuffle(w: Writer, x: Value, upscale_factor: int, data_format: str = "NCHW") -> Value:
    return w.op("pixel_shuffle", [x], upscale_factor=upscale_factor, data_format=data_format)


@row("pixel_unshuffle")
def _pixel_unshuffle(w: Writer, x: Value, downscale_factor: int, data_format: str = "NCHW") -> Value:
    return w.op("pixel_unshuffle", [x], downscale_factor=downscale_factor, data_format=data_format)


@row("channel_shuffle")
def _channel_shuffle(w: Writer, x: Value, groups: int, data_format: str = "NCHW") -> Value:
    return w.op("channel_shuffle", [x], groups=groups, data_format=data_format)
