"""Kinds that are kernels of the same names, elementwise ones and activations."""

from __future__ import annotations

from typing import Any

from bireme import _C_ops, tensor
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models.kinds.table import kind, same
from bireme.nn import functional

same("x", """
    abs acos acosh asin asinh atan atanh bitwise_not ceil celu channel_shuffle conj cos cosh cumprod det digamma elu erf
    erfinv exp expm1 flatten flip floor fold gelu hardshrink hardsigmoid i0 i0e i1 i1e imag inverse isfinite isinf
    isnan leaky_relu lgamma log log10 log1p log2 log_softmax logical_not logit logsigmoid logcumsumexp maxout mode kthvalue
    nonzero numel pixel_shuffle pixel_unshuffle pow real reciprocal relu relu6 round rsqrt selu sigmoid sign silu sin sinh
    softmax softplus softshrink softsign sqrt square stanh tan tanh temporal_shift thresholded_relu trace transpose tril
    triu unfold diag diagonal angle as_complex as_real squared_l2_norm argsort
    is_empty frame l1_norm fft_c2c fft_r2c fft_c2r lp_pool2d fractional_max_pool2d
    fractional_max_pool3d max_pool2d_with_index max_pool3d_with_index repeat_interleave polygamma cummax cummin
    """)  # fmt: skip
same("input", "diag_embed cholesky_solve")
same("x y", """
    add subtract multiply divide floor_divide remainder maximum minimum fmax fmin atan2 equal not_equal less_than less_equal
    greater_than greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bmm dot kron cross
    equal_all heaviside dist matmul copysign nextafter solve triangular_solve
    bitwise_left_shift bitwise_right_shift
    """)  # fmt: skip
same("x vec", "mv")
same("x y weight", "lerp")
same("real imag", "complex")
same("x index add_value", "index_add")
same("input x y", "addmm")
same("x filter", "conv2d depthwise_conv2d conv3d conv3d_transpose")
same("x filter output_size:ints", "conv2d_transpose depthwise_conv2d_transpose")
same("x kernel_size:ints", "pool2d pool3d")
same(
    "x out_size:ints size_tensor:ints scale_tensor",
    "linear_interp bilinear_interp trilinear_interp bicubic_interp nearest_interp",
)
same("x scale bias", "instance_norm")
same("weight u v", "spectral_norm")
same("x shape:ints", "reshape expand")
same("x repeat_times:ints", "tile")
same("x axis:ints", "unsqueeze")
same("x:list axis:int", "concat stack")
same("x index axis:int", "gather")
same("x index", "gather_nd index_select index_sample")
same("arr indices", "take_along_axis")
same("arr indices values", "put_along_axis")
same("x index updates", "scatter scatter_nd_add")
same("x indices:list value", "index_put")
same("x mask", "masked_select")
same("x mask value", "masked_fill")
same("x starts:ints ends:ints strides:ints", "strided_slice")
same("x k:int", "topk")
same("x num_classes:int", "one_hot")
same("x paddings:ints", "pad3d")
same("x pad_value:number", "pad")
same("x min:number max:number", "clip")
same("x alpha", "prelu")
same("condition x y", "where")
same("x grid", "grid_sample")
same("x window", "stft")
same("x label", "kldiv_loss")
same("input label", "huber_loss bce_loss log_loss")
same("x weight", "embedding")
same("sorted_sequence values", "searchsorted")
same("x weights minlength:int", "bincount")
same("x indices output_size:ints", "unpool unpool3d")
same("inputs:list", "add_n")


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
