"""Kinds of shapes, indexing and creation."""

from __future__ import annotations

from typing import Any

from bireme import _C_ops, tensor
from bireme.core.program import calls, methods
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models.kinds.table import kind
from bireme.nn import functional


@kind("squeeze", "x axis:ints")
def _squeeze(x: Tensor, axis: Any = ()) -> Tensor:
    return (
        tensor.squeeze(x, list(axis) if len(axis) else None)
        if isinstance(axis, (list, tuple))
        else tensor.squeeze(x, axis)
    )


@kind("slice", "input starts:ints ends:ints")
def _slice(input: Tensor, starts: Any, ends: Any, axes: Any, decrease_axis: Any = ()) -> Tensor:
    for axis in sorted(decrease_axis, reverse=True):
        start = _element(starts, list(axes).index(axis), len(axes))
        if isinstance(start, Tensor):
            # one index that is known when the program runs: what is between it and the next is of size 1, which sizes
            # alone do not say
            input = tensor.squeeze(tensor.index_select(input, tensor.reshape(start, [1]), axis), [axis])
            starts, ends = _without(starts, axes, axis), _without(ends, axes, axis)
            axes = [a - (a > axis) for a in axes if a != axis]
            decrease_axis = [a - (a > axis) for a in decrease_axis if a != axis]
    return _C_ops.slice(input, axes, starts, ends, (), decrease_axis) if axes else input


def _element(numbers: Any, at: int, count: int) -> Any:
    """One of several numbers, which may be a tensor of them."""
    if not isinstance(numbers, Tensor):
        return numbers[at]
    return numbers if count == 1 else tensor.slice(numbers, [0], [at], [at + 1])


def _without(numbers: Any, axes: Any, axis: int) -> list[Any]:
    return [_element(numbers, i, len(axes)) for i, a in enumerate(axes) if a != axis]


@kind("split", "x sections:ints axis:int", many=True)
def _split(x: Tensor, sections: Any, axis: Any = 0) -> list[Tensor]:
    return tensor.split(x, list(sections), axis)


@kind("split_with_num", "x axis:int", many=True)
def _split_with_num(x: Tensor, axis: Any = 0, num: int = 1) -> list[Tensor]:
    return tensor.split(x, num, axis)


@kind("unbind", "input", many=True)
def _unbind(input: Tensor, axis: int = 0) -> list[Tensor]:
    return list(tensor.unbind(input, axis))


@kind("unstack", "x", many=True)
def _unstack(x: Tensor, axis: int = 0, num: int = 0) -> list[Tensor]:
    return list(tensor.unstack(x, axis, num or None))


@kind("expand_as", "x y")
def _expand_as(x: Tensor, y: Tensor | None = None, target_shape: Any = ()) -> Tensor:
    return tensor.expand(x, list(target_shape)) if y is None else tensor.expand_as(x, y)


@kind("roll", "x shifts:ints")
def _roll(x: Tensor, shifts: Any, axis: Any = ()) -> Tensor:
    return tensor.roll(x, shifts, list(axis) or None)


@kind("set_value", "x starts:ints ends:ints steps:ints")
def _set_value(
    x: Tensor,
    starts: Any,
    ends: Any,
    steps: Any,
    axes: Any,
    decrease_axes: Any,
    none_axes: Any,
    shape: Any,
    values: Any,
) -> Tensor:
    filled = tensor.reshape(tensor.to_tensor(list(values), x.dtype), list(shape))
    return _write(x, filled, starts, ends, steps, axes, decrease_axes, none_axes)


@kind("set_value_with_tensor", "x values starts:ints ends:ints steps:ints")
def _write(
    x: Tensor,
    values: Tensor,
    starts: Any,
    ends: Any,
    steps: Any,
    axes: Any,
    decrease_axes: Any = (),
    none_axes: Any = (),
) -> Tensor:
    index: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # an axis that is removed has one index, whatever the end is: -1 is followed by 0
        index[axis] = start if axis in decrease_axes else slice(start, end, step)
    for axis in sorted(none_axes, reverse=True):
        values = tensor.squeeze(values, axis)
    return calls.recorded(methods.changed("__setitem__"), x, tuple(index), tensor.cast(values, x.dtype))


@kind("index_elementwise_get", "x index:list")
def _index_elementwise_get(x: Tensor, index: list[Tensor], **attributes: Any) -> Tensor:
    return calls.recorded(Tensor.__getitem__, x, tuple(index))


@kind("full", "")
def _full(shape: Any, value: Any = 0.0, dtype: str = "float32") -> Tensor:
    return tensor.full(list(shape), value, dtype)


@kind("full_with_tensor", "value:number shape:ints")
def _full_with_tensor(value: Any, shape: Any, dtype: str = "float32") -> Tensor:
    return tensor.full(shape, value, dtype)


@kind("full_like", "x value:number")
def _full_like(x: Tensor, value: Any, dtype: Any = None) -> Tensor:
    return tensor.full_like(x, value, None if dtype is None or dtype.startswith("Undefined") else dtype)


@kind("full_batch_size_like", "input")
def _full_batch_size_like(
    input: Tensor, dtype: str, shape: Any, value: Any, input_dim_idx: int = 0, output_dim_idx: int = 0
) -> Tensor:
    sizes = list(shape)
    sizes[output_dim_idx] = input.shape[input_dim_idx]
    return tensor.full(sizes, value, dtype)


@kind("empty", "shape:ints")
def _empty(shape: Any, dtype: str = "float32") -> Tensor:
    return tensor.zeros(shape, dtype)


@kind("arange", "start:number end:number step:number")
def _arange(start: Any, end: Any, step: Any, dtype: Any = None) -> Tensor:
    return tensor.arange(start, end, step, dtype)


@kind("linspace", "start:number stop:number num:int")
def _linspace(start: Any, stop: Any, num: Any, dtype: Any = None) -> Tensor:
    return tensor.linspace(start, stop, num, dtype)


@kind("eye", "num_rows:int num_columns:int")
def _eye(num_rows: Any, num_columns: Any = None, dtype: str = "float32") -> Tensor:
    return tensor.eye(num_rows, num_columns, dtype)


@kind("tril_indices", "")
def _tril_indices(rows: int, cols: int, offset: int = 0, dtype: str = "int64") -> Tensor:
    return tensor.tril_indices(rows, cols, offset, dtype)


@kind("triu_indices", "")
def _triu_indices(row: int, col: int, offset: int = 0, dtype: str = "int64") -> Tensor:
    return tensor.triu_indices(row, col, offset, dtype)


@kind("uniform", "shape:ints min:number max:number")
def _uniform(shape: Any, min: Any = -1.0, max: Any = 1.0, seed: int = 0, dtype: str = "float32", **more: Any) -> Tensor:
    return tensor.uniform(shape, dtype, min, max)


@kind("gaussian", "shape:ints")
def _gaussian(shape: Any, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: str = "float32") -> Tensor:
    return tensor.cast(tensor.normal(mean, std, shape), dtype)


@kind("randint", "shape:ints")
def _randint(low: int, high: int, shape: Any, dtype: str = "int64", seed: int = 0) -> Tensor:
    return tensor.randint(low, high, shape, dtype)


@kind("bernoulli", "x")
def _bernoulli(x: Tensor) -> Tensor:
    return tensor.bernoulli(x)


@kind("sequence_mask", "x max_len:int")
def _sequence_mask(x: Tensor, max_len: Any, out_dtype: str = "int64", dtype: str | None = None) -> Tensor:
    return functional.sequence_mask(
        x, None if isinstance(max_len, int) and max_len < 0 else max_len, dtype or out_dtype
    )


@kind("label_smooth", "label prior_dist")
def _label_smooth(label: Tensor, prior_dist: Tensor | None = None, epsilon: float = 0.1) -> Tensor:
    return functional.label_smooth(label, prior_dist, epsilon)


@kind("affine_grid", "input output_shape:ints")
def _affine_grid(input: Tensor, output_shape: Any, align_corners: bool = True) -> Tensor:
    return functional.affine_grid(input, output_shape, align_corners)


@kind("einsum", "x:list")
def _einsum(x: list[Tensor], equation: str) -> Tensor:
    return tensor.einsum(equation, *x)


@kind("repeat_interleave_with_tensor_index", "x repeats")
def _repeats(x: Tensor, repeats: Tensor, axis: int = 0, output_size: int = -1) -> Tensor:
    return tensor.repeat_interleave(x, repeats, axis)


@kind("cholesky", "x")
def _cholesky(x: Tensor, upper: bool = False) -> Tensor:
    return _C_ops.cholesky(x, upper)


@kind("nan_to_num", "x")
def _nan_to_num(x: Tensor, **attributes: Any) -> Tensor:
    return tensor.nan_to_num(x, **attributes)


@kind("flatten2", "x")
def _flatten2(x: Tensor, axis: int = 1) -> Tensor:
    if axis == 0:
        return tensor.reshape(x, [1, -1])
    rest = tensor.flatten(x, axis) if axis < x.ndim else tensor.unsqueeze(x, [axis])
    return tensor.flatten(rest, 0, axis - 1)


@kind("fill_diagonal", "x")
def _fill_diagonal(x: Tensor, value: float = 0.0, offset: int = 0, wrap: bool = False) -> Tensor:
    return _C_ops.fill_diagonal(x, value, offset, wrap)


@kind("shard_index", "input")
def _shard_index(input: Tensor, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Tensor:
    return tensor.shard_index(input, index_num, nshards, shard_id, ignore_value)
