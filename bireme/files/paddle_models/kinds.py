"""The table of operators: what each kind of operation in Paddle's programs means, as calls of public functions.

A kind has the names of its operands, in the order in which `.json` files have them, and a function that takes operands and
attributes by name. `:ints`, `:int` and `:number` mark operands that are numbers for the function where they are known, and
`:list` those that are lists of tensors.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from bireme import _C_ops, tensor
from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.core.program.building import current
from bireme.core.program.program import Operation
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models import sequences
from bireme.nn import functional
from bireme.ops import (
    box_coder, deform_conv2d, matrix_nms, multiclass_nms, nms, prior_box, roi_align, roi_pool,
    softmax_mask_fuse_upper_triangle, yolo_box,
)  # fmt: skip
from bireme.ops.nn.recurrent import recurrence


class Kind:
    """One kind of operation."""

    __slots__ = ("operands", "modes", "call", "parameters", "required", "takes_all", "many")

    def __init__(self, spec: str, call: Callable, many: bool = False):
        words = [word.partition(":") for word in spec.split()]
        self.operands = [name for name, _, _ in words]
        self.modes = {name: mode for name, _, mode in words if mode}
        self.call, self.many = call, many  # many: all that it gives is one list
        found = inspect.signature(call).parameters
        self.parameters = set(found)
        self.required = {n for n, p in found.items() if p.default is inspect.Parameter.empty}
        self.takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in found.values())


# attributes that say how something was computed, or where, and nothing about what
IGNORED = {
    "place", "struct_name", "stop_gradient", "persistable", "trainable", "use_cudnn", "use_mkldnn", "use_quantizer",
    "mkldnn_data_type", "exhaustive_search", "workspace_size_MB", "force_fp32_output", "use_addto", "sparse",
    "infer_flags", "is_test", "seed", "fix_seed", "op_version", "test_mode", "rng_name", "is_sparse",
}  # fmt: skip

KINDS: dict[str, Kind] = {}


def kind(names: str, spec: str, many: bool = False) -> Callable[[Callable], Callable]:
    """Declare what a function is the meaning of."""

    def declare(call: Callable) -> Callable:
        for name in names.split():
            KINDS[name] = Kind(spec, call, many)
        return call

    return declare


def whole(call: Callable) -> Callable:
    """A function that is recorded as one call: it does what variables cannot, and is made when there are values."""

    @functools.wraps(call)
    def record(*args: Any, **kwargs: Any) -> Any:
        builder = current()
        assert builder is not None
        return builder.append(Operation(call, call.__name__.strip("_"), args, kwargs, errors.position()))

    return record


def _same(spec: str, names: str, many: bool = False) -> None:
    """Kinds that are the kernels of the same names."""
    for name in names.split():
        kind(name, spec, many)(getattr(_C_ops, name))


_same("x", """
    abs acos acosh asin asinh atan atanh bitwise_not ceil celu channel_shuffle conj cos cosh cumprod det digamma elu erf
    erfinv exp expm1 flatten flip floor fold gelu hardshrink hardsigmoid i0 i0e i1 i1e imag inverse isfinite isinf
    isnan leaky_relu lgamma log log10 log1p log2 log_softmax logical_not logit logsigmoid logcumsumexp maxout mode kthvalue
    nonzero numel pixel_shuffle pixel_unshuffle pow real reciprocal relu relu6 round rsqrt selu sigmoid sign silu sin sinh
    softmax softplus softshrink softsign sqrt square stanh tan tanh temporal_shift thresholded_relu trace transpose tril
    triu unfold diag diagonal angle as_complex as_real squared_l2_norm argsort
    is_empty frame l1_norm fft_c2c fft_r2c fft_c2r lp_pool2d fractional_max_pool2d
    fractional_max_pool3d max_pool2d_with_index max_pool3d_with_index repeat_interleave
    """)  # fmt: skip
_same("input", "diag_embed cholesky_solve")
_same("x y", """
    add subtract multiply divide floor_divide remainder maximum minimum fmax fmin atan2 equal not_equal less_than less_equal
    greater_than greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bmm dot kron cross
    equal_all heaviside dist matmul copysign nextafter solve triangular_solve
    bitwise_left_shift bitwise_right_shift
    """)  # fmt: skip
_same("x vec", "mv")
_same("x y weight", "lerp")
_same("input x y", "addmm")
_same("x filter", "conv2d depthwise_conv2d conv3d conv3d_transpose")
_same("x filter output_size:ints", "conv2d_transpose depthwise_conv2d_transpose")
_same("x kernel_size:ints", "pool2d pool3d")
_same(
    "x out_size:ints size_tensor:ints scale_tensor",
    "linear_interp bilinear_interp trilinear_interp bicubic_interp nearest_interp",
)
_same("x scale bias", "instance_norm")
_same("weight u v", "spectral_norm")
_same("x shape:ints", "reshape expand")
_same("x repeat_times:ints", "tile")
_same("x axis:ints", "unsqueeze")
_same("x:list axis:int", "concat stack")
_same("x index axis:int", "gather")
_same("x index", "gather_nd index_select index_sample")
_same("arr indices", "take_along_axis")
_same("arr indices values", "put_along_axis")
_same("x index updates", "scatter scatter_nd_add")
_same("x indices:list value", "index_put")
_same("x mask", "masked_select")
_same("x mask value", "masked_fill")
_same("x starts:ints ends:ints strides:ints", "strided_slice")
_same("x k:int", "topk")
_same("x num_classes:int", "one_hot")
_same("x paddings:ints", "pad3d")
_same("x pad_value:number", "pad")
_same("x min:number max:number", "clip")
_same("x alpha", "prelu")
_same("condition x y", "where")
_same("x grid", "grid_sample")
_same("x window", "stft")
_same("x label", "kldiv_loss")
_same("input label", "huber_loss bce_loss log_loss")
_same("x weight", "embedding")
_same("sorted_sequence values", "searchsorted")
_same("x weights minlength:int", "bincount")
_same("x indices output_size:ints", "unpool unpool3d")
_same("inputs:list", "add_n")


@kind("isclose", "x y rtol:number atol:number")
def _isclose(x: Tensor, y: Tensor, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Tensor:
    return tensor.isclose(x, y, float(rtol), float(atol), equal_nan)


@kind("allclose", "x y rtol:number atol:number")
def _allclose(x: Tensor, y: Tensor, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Tensor:
    return tensor.allclose(x, y, float(rtol), float(atol), equal_nan)


@kind("meshgrid", "inputs:list", many=True)
def _meshgrid(inputs: list[Tensor]) -> list[Tensor]:
    return list(tensor.meshgrid(*inputs))


@kind("broadcast_tensors", "input:list", many=True)
def _broadcast_tensors(input: list[Tensor]) -> list[Tensor]:
    return list(tensor.broadcast_tensors(input))


@kind("multiplex", "inputs:list index")
def _multiplex(inputs: list[Tensor], index: Tensor) -> Tensor:
    return tensor.multiplex(inputs, index)


@kind("bilinear", "x y weight bias")
def _bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return functional.bilinear(x, y, weight, bias)


@kind("hardswish", "x")
def _hardswish(x: Tensor, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0) -> Tensor:
    if (threshold, scale, offset) == (6.0, 6.0, 3.0):
        return functional.hardswish(x)
    return x * tensor.clip(x + offset, 0.0, threshold) / scale


@kind("swish", "x")
def _swish(x: Tensor, beta: float = 1.0) -> Tensor:
    return functional.swish(x) if beta == 1.0 else x * functional.sigmoid(x * beta)


@kind("mish", "x")
def _mish(x: Tensor, **attributes: Any) -> Tensor:
    return functional.mish(x)


@kind("tanh_shrink", "x")
def _tanh_shrink(x: Tensor) -> Tensor:
    return functional.tanhshrink(x)


@kind("brelu", "x")
def _brelu(x: Tensor, t_min: float = 0.0, t_max: float = 24.0) -> Tensor:
    return tensor.clip(x, t_min, t_max)


@kind("hardtanh", "x")
def _hardtanh(x: Tensor, t_min: float = -1.0, t_max: float = 1.0) -> Tensor:
    return functional.hardtanh(x, t_min, t_max)


@kind("trunc", "input")
def _trunc(input: Tensor) -> Tensor:
    return tensor.trunc(input)


@kind("rrelu", "x")
def _rrelu(x: Tensor, lower: float, upper: float, is_test: bool = True) -> Tensor:
    return functional.rrelu(x, lower, upper, training=not is_test)


@kind("swiglu", "x y")
def _swiglu(x: Tensor, y: Tensor | None) -> Tensor:
    return _C_ops.swiglu(x, y)


@kind("assign share_data memcpy_d2h memcpy_h2d assign_out print", "x")
def _assign(x: Tensor, **attributes: Any) -> Tensor:
    return tensor.assign(x)


@kind("cast", "x")
def _cast(x: Tensor, dtype: str) -> Tensor:
    return tensor.cast(x, dtype)


@kind("increment", "x")
def _increment(x: Tensor, value: float = 1.0) -> Tensor:
    return tensor.cast(x + value, x.dtype)


@kind("scale", "x scale:number")
def _scale(x: Tensor, scale: Any = 1.0, bias: float = 0.0, bias_after_scale: bool = True) -> Tensor:
    return tensor.scale(x, scale, bias, bias_after_scale)


@kind("dropout", "x seed_tensor p:number")
def _dropout(
    x: Tensor, seed_tensor: Any = None, p: float = 0.5, is_test: bool = True, mode: str = "downgrade_in_infer"
) -> Tensor:
    own = "upscale_in_train" if mode == "upscale_in_train" else "downscale_in_infer"
    return functional.dropout(x, p, None, not is_test, own)


# ---------------------------------------------------------------- normalization


@kind("batch_norm sync_batch_norm", "x mean variance scale bias")
def _batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    is_test: bool = True,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool = False,
    trainable_statistics: bool = False,
) -> Tensor:
    layout = data_format if x.ndim > 2 else "NC"
    if x.ndim in (3, 5):
        last = data_format[-1] == "C"
        layout = {3: ("NCL", "NLC"), 5: ("NCDHW", "NDHWC")}[x.ndim][last]
    training = trainable_statistics or not is_test
    # statistics that are used whatever happens are what evaluation means, unless training is asked for
    whole = True if use_global_stats and training else None
    return functional.batch_norm(x, mean, variance, scale, bias, training, momentum, epsilon, layout, whole)


@kind("layer_norm", "x scale bias")
def _layer_norm(
    x: Tensor, scale: Tensor | None, bias: Tensor | None, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> Tensor:
    shape = x.shape[begin_norm_axis:]
    if scale is not None:
        scale = tensor.reshape(scale, shape) if len(shape) != scale.ndim else scale
    if bias is not None:
        bias = tensor.reshape(bias, shape) if len(shape) != bias.ndim else bias
    return functional.layer_norm(x, shape, scale, bias, epsilon)


@kind("group_norm", "x scale bias")
def _group_norm(
    x: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    epsilon: float = 1e-5,
    groups: int = 1,
    data_format: str = "NCHW",
) -> Tensor:
    return functional.group_norm(x, groups, epsilon, scale, bias, data_format)


@kind("norm", "x")
def _norm(x: Tensor, axis: int, epsilon: float = 1e-10, is_test: bool = True) -> Any:
    return _C_ops.norm(x, axis, epsilon, is_test)


@kind("p_norm", "x")
def _p_norm(
    x: Tensor, porder: float = 2.0, axis: int = -1, epsilon: float = 1e-12, keepdim: bool = False, asvector: bool = False
) -> Tensor:
    return _C_ops.p_norm(x, porder, axis, epsilon, keepdim, asvector)


@kind("frobenius_norm", "x axis:ints")
def _frobenius_norm(x: Tensor, axis: Any = (), keepdim: bool = False, reduce_all: bool = False) -> Tensor:
    return _C_ops.frobenius_norm(x, list(axis), keepdim, reduce_all or not len(axis))


@kind("rms_norm", "x scale bias residual")
def _rms_norm(x: Tensor, scale: Tensor | None = None, **attributes: Any) -> Tensor:
    axes = attributes.get("normalized_shape")
    wide = tensor.cast(x, "float32")
    n = len(axes) if axes else 1
    spread = tensor.rsqrt(
        tensor.mean(wide * wide, list(range(-n, 0)), keepdim=True) + attributes.get("epsilon", 1e-5)
    )
    out = tensor.cast(wide * spread, x.dtype)
    return out if scale is None else out * scale


# ---------------------------------------------------------------- reductions


def _reduction(name: str) -> Callable:
    def call(
        x: Tensor, axis: Any = None, keepdim: bool = False, reduce_all: bool = False, dtype: Any = None
    ) -> Tensor:
        if isinstance(axis, (list, tuple)):
            axis = list(axis) or None
        axis = None if reduce_all else axis
        found = getattr(tensor, name)(x, axis, keepdim=keepdim)
        return found if dtype is None or str(dtype).startswith("Undefined") else tensor.cast(found, dtype)

    return call


for _name in ("sum", "mean", "max", "min", "prod", "all", "any", "amax", "amin", "logsumexp"):
    kind(_name, "x axis:ints" if _name in ("sum", "mean", "max", "min", "prod") else "x")(_reduction(_name))


@kind("mean_all", "x")
def _mean_all(x: Tensor) -> Tensor:
    return tensor.mean(x)


@kind("elementwise_pow", "x y")
def _elementwise_pow(x: Tensor, y: Tensor) -> Tensor:
    return tensor.pow(x, y)


@kind("argmax", "x axis:int")
def _argmax(x: Tensor, axis: Any = -1, keepdims: bool = False, flatten: bool = False, dtype: str = "int64") -> Tensor:
    return _C_ops.argmax(x, axis, keepdims, flatten, "int64" if dtype.startswith("Undefined") else dtype)


@kind("argmin", "x axis:int")
def _argmin(x: Tensor, axis: Any = -1, keepdims: bool = False, flatten: bool = False, dtype: str = "int64") -> Tensor:
    return _C_ops.argmin(x, axis, keepdims, flatten, "int64" if dtype.startswith("Undefined") else dtype)


@kind("cumsum", "x axis:int")
def _cumsum(
    x: Tensor, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    return _C_ops.cumsum(x, axis, flatten, exclusive, reverse)


@kind("median nanmedian", "x")
def _median(x: Tensor, axis: Any = (), keepdim: bool = False, mode: str = "avg") -> Any:
    return _C_ops.median(x, axis, keepdim, mode)


@kind("unique", "x")
def _unique(
    x: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = (),
    dtype: str = "int64",
    is_sorted: bool = True,
) -> Any:
    found = tensor.unique(x, True, True, True, axis[0] if len(axis) else None, dtype)
    return tuple(found)


@kind("nms", "x")
def _nms(x: Tensor, threshold: float = 1.0) -> Tensor:
    return nms(x, threshold)


@kind("histogram", "input weight")
def _histogram(
    input: Tensor, weight: Any = None, bins: int = 100, min: float = 0, max: float = 0, density: bool = False
) -> Tensor:
    return _C_ops.histogram(input, weight, bins, min, max, density)


# ---------------------------------------------------------------- shapes


@kind("squeeze", "x axis:ints")
def _squeeze(x: Tensor, axis: Any = ()) -> Tensor:
    return tensor.squeeze(x, list(axis) if len(axis) else None) if isinstance(axis, (list, tuple)) else tensor.squeeze(x, axis)


@kind("slice", "input starts:ints ends:ints")
def _slice(input: Tensor, starts: Any, ends: Any, axes: Any, decrease_axis: Any = ()) -> Tensor:
    return _C_ops.slice(input, axes, starts, ends, (), decrease_axis)


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
    x: Tensor, starts: Any, ends: Any, steps: Any, axes: Any, decrease_axes: Any, none_axes: Any, shape: Any, values: Any
) -> Tensor:
    filled = tensor.reshape(tensor.to_tensor(list(values), x.dtype), list(shape))
    return _write(x, filled, starts, ends, steps, axes, decrease_axes, none_axes)


@kind("set_value_with_tensor", "x values starts:ints ends:ints steps:ints")
def _write(
    x: Tensor, values: Tensor, starts: Any, ends: Any, steps: Any, axes: Any, decrease_axes: Any = (), none_axes: Any = ()
) -> Tensor:
    index: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # an axis that is removed has one index, whatever the end is: -1 is followed by 0
        index[axis] = start if axis in decrease_axes else slice(start, end, step)
    for axis in sorted(none_axes, reverse=True):
        values = tensor.squeeze(values, axis)
    return _written(x, tuple(index), tensor.cast(values, x.dtype))


@whole
def _written(x: Tensor, index: tuple, values: Tensor) -> Tensor:
    made = x.clone()  # type: ignore[attr-defined]  # a method of the operators
    made[index] = values
    return made


@kind("index_elementwise_get", "x index:list")
@whole
def _index_elementwise_get(x: Tensor, index: list[Tensor], **attributes: Any) -> Tensor:
    return x[tuple(index)]


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
    return functional.sequence_mask(x, None if isinstance(max_len, int) and max_len < 0 else max_len, dtype or out_dtype)


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


# ---------------------------------------------------------------- matrices, losses


@kind("mul", "x y")
def _mul(x: Tensor, y: Tensor, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Tensor:
    sizes = [*x.shape[:x_num_col_dims], *y.shape[y_num_col_dims:]]
    flat = x if x.ndim == 2 else tensor.flatten(x, x_num_col_dims) if x_num_col_dims < x.ndim else x
    if x_num_col_dims > 1:
        flat = tensor.flatten(flat, 0, x_num_col_dims - 1)
    other = y
    if y.ndim > 2:
        other = tensor.flatten(y, y_num_col_dims)
        other = tensor.flatten(other, 0, y_num_col_dims - 1)
    found = tensor.matmul(flat, other)
    return found if len(sizes) == 2 else tensor.reshape(found, sizes)


@kind("legacy_matmul", "x y")
def _legacy_matmul(
    x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False, alpha: float = 1.0
) -> Tensor:
    found = tensor.matmul(x, y, transpose_x, transpose_y)
    return found if alpha == 1.0 else found * alpha


@kind("cross_entropy_with_softmax", "input label")
def _cross_entropy_with_softmax(
    input: Tensor,
    label: Tensor,
    soft_label: bool = False,
    use_softmax: bool = True,
    numeric_stable_mode: bool = True,
    ignore_index: int = -100,
    axis: int = -1,
) -> Any:
    return _C_ops.cross_entropy_with_softmax(
        input, label, soft_label, use_softmax, numeric_stable_mode, ignore_index, axis
    )


@kind("nll_loss", "input label weight")
def _nll_loss(
    input: Tensor, label: Tensor, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    return _C_ops.nll_loss(input, label, weight, ignore_index, reduction)


@kind("sigmoid_cross_entropy_with_logits", "x label pos_weight")
def _sigmoid_cross_entropy_with_logits(
    x: Tensor, label: Tensor, pos_weight: Any = None, normalize: bool = False, ignore_index: int = -100
) -> Tensor:
    return _C_ops.sigmoid_cross_entropy_with_logits(x, label, pos_weight, normalize, ignore_index)


@kind("warpctc", "logits label logits_length labels_length")
def _warpctc(
    logits: Tensor, label: Tensor, logits_length: Tensor, labels_length: Tensor, blank: int = 0, norm_by_times: bool = False
) -> Any:
    return _C_ops.warpctc(logits, label, logits_length, labels_length, blank, norm_by_times)


@kind("fused_softmax_mask_upper_triangle", "x")
def _causal_softmax(x: Tensor) -> Tensor:
    return softmax_mask_fuse_upper_triangle(x)


@kind("fused_softmax_mask", "x mask")
def _masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    return functional.softmax(x + mask, -1)


@kind("flash_attn", "q k v fixed_seed_offset attn_mask")
def _flash_attn(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    fixed_seed_offset: Any = None,
    attn_mask: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    return_softmax: bool = False,
    is_test: bool = True,
    rng_name: str = "",
) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, attn_mask, dropout, causal, not is_test)


# ---------------------------------------------------------------- detection


@kind("multiclass_nms3", "bboxes scores rois_num")
def _multiclass_nms3(bboxes: Tensor, scores: Tensor, rois_num: Any = None, **options: Any) -> Any:
    if rois_num is not None:
        raise FileFormatError("multiclass_nms3 with boxes of several images in one list")
    return tuple(multiclass_nms(bboxes, scores, **options))


@kind("matrix_nms", "bboxes scores")
def _matrix_nms(bboxes: Tensor, scores: Tensor, **options: Any) -> Any:
    out, number, index = matrix_nms(bboxes, scores, **options, return_index=True)
    return out, index, number


@kind("roi_align", "x boxes boxes_num")
def _roi_align(
    x: Tensor,
    boxes: Tensor,
    boxes_num: Tensor,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    return roi_align(x, boxes, boxes_num, (pooled_height, pooled_width), spatial_scale, sampling_ratio, aligned)


@kind("roi_pool", "x boxes boxes_num")
def _roi_pool(
    x: Tensor, boxes: Tensor, boxes_num: Tensor, pooled_height: int = 1, pooled_width: int = 1, spatial_scale: float = 1.0
) -> Tensor:
    return roi_pool(x, boxes, boxes_num, (pooled_height, pooled_width), spatial_scale)


@kind("yolo_box", "x img_size")
def _yolo_box(x: Tensor, img_size: Tensor, **options: Any) -> Any:
    return tuple(yolo_box(x, img_size, **options))


@kind("prior_box", "input image")
def _prior_box(
    input: Tensor,
    image: Tensor,
    min_sizes: Any,
    max_sizes: Any = (),
    aspect_ratios: Any = (1.0,),
    variances: Any = (0.1, 0.1, 0.2, 0.2),
    flip: bool = False,
    clip: bool = False,
    step_w: float = 0.0,
    step_h: float = 0.0,
    offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
) -> Any:
    return tuple(
        prior_box(
            input, image, list(min_sizes), list(max_sizes) or None, list(aspect_ratios), list(variances), flip, clip,
            [step_w, step_h], offset, min_max_aspect_ratios_order,
        )
    )  # fmt: skip


@kind("box_coder", "prior_box prior_box_var target_box")
def _box_coder(
    prior_box: Tensor,
    prior_box_var: Any,
    target_box: Tensor,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    axis: int = 0,
    variance: Any = (),
) -> Tensor:
    given = prior_box_var if prior_box_var is not None else list(variance) or None
    return box_coder(prior_box, given, target_box, code_type, box_normalized, axis)


@kind("deformable_conv", "x offset filter mask")
def _deformable_conv(
    x: Tensor,
    offset: Tensor,
    filter: Tensor,
    mask: Tensor | None = None,
    strides: Any = (1, 1),
    paddings: Any = (0, 0),
    dilations: Any = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
    im2col_step: int = 1,
) -> Tensor:
    return deform_conv2d(
        x, offset, filter, None, list(strides), list(paddings), list(dilations), deformable_groups, groups, mask
    )


# ---------------------------------------------------------------- sequences


@kind("rnn", "x pre_state:list weight_list:list sequence_length dropout_state_in")
@whole
def _rnn(
    x: Tensor,
    pre_state: list[Tensor],
    weight_list: list[Tensor],
    sequence_length: Tensor | None = None,
    dropout_state_in: Any = None,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    input_size: int = 10,
    hidden_size: int = 100,
    num_layers: int = 1,
    mode: str = "RNN_TANH",
    is_test: bool = True,
) -> Any:
    ways, lstm = 1 + is_bidirec, mode == "LSTM"
    count = num_layers * ways
    if len(pre_state) != 1 + lstm or len(weight_list) not in (2 * count, 4 * count):
        raise FileFormatError(f"a recurrent network of {num_layers} layers with {len(weight_list)} weights")
    biases = weight_list[2 * count :] or [None] * (2 * count)
    last: list[list[Tensor]] = [[] for _ in pre_state]
    for at in range(num_layers):
        outs = []
        for way in range(ways):
            i = at * ways + way
            states = [s[i] for s in pre_state]
            out, *ends = recurrence(
                x, states[0], states[1] if lstm else None, *weight_list[2 * i : 2 * i + 2], *biases[2 * i : 2 * i + 2],
                None, sequence_length, mode, way == 1, True,
            )  # fmt: skip
            outs.append(out)
            for into, end in zip(last, ends, strict=True):
                into.append(end)
        x = outs[0] if ways == 1 else tensor.concat(outs, -1)
        if not is_test and dropout_prob and at + 1 < num_layers:
            x = functional.dropout(x, dropout_prob)
    return x, None, [tensor.stack(each) for each in last], None


@kind("gru", "input h0 weight bias lengths")
def _gru(
    input: Tensor,
    h0: Any,
    weight: Tensor,
    bias: Any,
    lengths: Tensor,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    is_reverse: bool = False,
    origin_mode: bool = False,
) -> Any:
    if activation != "tanh" or gate_activation != "sigmoid":
        raise FileFormatError(f"a gru with the activations {activation[:30]!r} and {gate_activation[:30]!r}")
    return None, None, None, sequences.gru(input, h0, weight, bias, lengths, is_reverse, origin_mode)


@kind("crf_decoding", "emission transition label length lengths")
def _crf_decoding(emission: Tensor, transition: Tensor, label: Any, length: Any, lengths: Any) -> Tensor:
    if label is not None:
        raise FileFormatError("crf_decoding that compares with labels")
    return sequences.crf_decoding(emission, transition, length if lengths is None else lengths)


@kind("sequence_pool", "x lengths")
def _sequence_pool(x: Tensor, lengths: Tensor, pooltype: str = "AVERAGE", pad_value: float = 0.0) -> Tensor:
    return sequences.pool(x, lengths, pooltype)
