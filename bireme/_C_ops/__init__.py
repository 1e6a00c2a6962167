"""`paddle._C_ops`: Paddle's kernels as functions, as its own tests and some programs call them.

Those that take their arguments in the order of a public function are that function. The others are in the modules here:
another order of arguments that takes code, creation with a device as the last argument, updates of optimizers, which work
in place; those with another order alone are declared with their operators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bireme import linalg, signal, tensor
from bireme._C_ops import layers, math, nn, scaling, shapes, windows
from bireme._C_ops.updates import (
    adadelta_,
    adagrad_,
    adam_,
    adamax_,
    adamw_,
    asgd_,
    lamb_,
    momentum_,
    nadam_,
    radam_,
    rmsprop_,
    rprop_,
    sgd_,
)
from bireme.core.declare import kernels
from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional

__all__ = [
    "adadelta_",
    "adagrad_",
    "adam_",
    "adamax_",
    "adamw_",
    "asgd_",
    "lamb_",
    "momentum_",
    "nadam_",
    "radam_",
    "rmsprop_",
    "rprop_",
    "sgd_",
]

_SAME: dict[Any, str] = {
    tensor: """
    abs abs_ acos acos_ acosh acosh_ add add_ add_n addmm addmm_ all allclose amax amin angle any as_complex as_real
    asin asin_ asinh asinh_ assign atan atan2 atan_ atanh atanh_ baddbmm baddbmm_ bernoulli bincount binomial
    bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_
    bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_ bmm broadcast_tensors cast cast_ ceil cholesky
    clip complex concat conj copysign copysign_ cos cos_ cosh cosh_ crop cross cummax cummin diag diag_embed
    diagonal digamma digamma_ dist divide divide_ dot equal equal_ equal_all erf erf_ erfinv exp expand expm1 expm1_
    flatten flatten_ flip floor floor_divide floor_divide_ fmax fmin gammaincc gammaincc_ gammaln gammaln_ gather
    gather_nd greater_equal greater_equal_ greater_than greater_than_ heaviside i0 i0_ i0e i1 i1e imag increment
    index_put index_put_ index_sample index_select inverse is_empty isclose isfinite isinf isnan kron kthvalue lerp
    less_equal less_equal_ less_than less_than_ lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_
    logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor logical_xor_ logit logit_
    masked_fill masked_fill_ masked_select matmul max maximum mean min minimum mode multinomial multiplex multiply
    multiply_ mv nextafter nonzero not_equal not_equal_ numel poisson polygamma polygamma_ pow pow_ put_along_axis
    real reciprocal reduce_as remainder remainder_ renorm renorm_ reshape reshape_ reverse roll round rsqrt scale
    scatter scatter_ scatter_nd_add searchsorted shard_index sigmoid sign sin sin_ sinh sinh_ split sqrt square
    square_ squeeze squeeze_ stack standard_gamma stanh strided_slice subtract subtract_ sum take_along_axis tan
    tan_ tanh tanh_ tile topk trace transpose transpose_ tril tril_ triu triu_ trunc trunc_ unbind unsqueeze
    unsqueeze_ unstack where where_
    """,
    functional: """
    affine_grid bilinear celu channel_shuffle elu elu_ fold gather_tree gelu grid_sample gumbel_softmax hardshrink
    hardsigmoid hardswish hardtanh hardtanh_ label_smooth leaky_relu leaky_relu_ linear log_loss log_softmax maxout
    one_hot pixel_shuffle pixel_unshuffle relu relu6 relu_ selu sequence_mask silu softmax softmax_ softplus
    softshrink softsign swish thresholded_relu thresholded_relu_
    """,
    linalg: """
    cholesky_solve det eig eigh eigvals lstsq lu_solve lu_unpack matrix_power multi_dot slogdet solve svd svdvals
    triangular_solve
    """,
    signal: "frame overlap_add",
    math: """
    argsort cumprod cumprod_ cumsum cumsum_ fft_c2c fft_c2r fft_r2c frobenius_norm l1_norm logcumsumexp logsumexp
    max_with_index median min_with_index nanmedian p_norm prelu prod rrelu squared_l2_norm
    """,
    nn: """
    bicubic_interp bilinear_interp clip_by_norm cross_entropy_with_softmax dropout embedding
    embedding_with_scaled_gradient layer_norm linear_interp margin_cross_entropy nearest_interp nll_loss pad
    sigmoid_cross_entropy_with_logits trilinear_interp unfold warpctc
    """,
    windows: """
    conv2d conv2d_transpose conv3d conv3d_transpose depthwise_conv2d depthwise_conv2d_transpose fractional_max_pool2d
    fractional_max_pool3d lp_pool2d max_pool2d_with_index max_pool3d_with_index pool2d pool3d
    """,
    shapes: """
    argmax argmin as_strided assign_out_ assign_value assign_value_ einsum expand_as fill_diagonal full_
    full_int_array matrix_rank meshgrid norm qr repeat_interleave repeat_interleave_with_tensor_index segment_pool
    send_u_recv set_value set_value_ set_value_with_tensor set_value_with_tensor_ slice unique unique_consecutive
    view_shape
    """,
    layers: """
    accuracy add_position_encoding affine_channel affine_channel_ batch_norm batch_norm_ bce_loss_ dirichlet
    full_batch_size_like hinge_loss identity_loss identity_loss_ partial_concat partial_sum shape shape64
    share_data silu_ swiglu swiglu_grad truncated_gaussian_random uniform_random_batch_size_like variance view_slice
    """,
    scaling: """
    average_accumulates_ check_finite_and_unscale_ merged_adam_ merged_momentum_ update_loss_scaling_
    """,
    Tensor: """
    ceil_ clip_ erfinv_ exp_ exponential_ fill_ fill_diagonal_ fill_diagonal_tensor fill_diagonal_tensor_ floor_
    lerp_ put_along_axis_ reciprocal_ round_ rsqrt_ scale_ sigmoid_ sqrt_
    """,
}
# how many arguments come before the device
_PLACED = {
    "arange": 4,
    "empty": 2,
    "empty_like": 2,
    "eye": 3,
    "full": 3,
    "full_like": 3,
    "linspace": 4,
    "logspace": 5,
    "ones": 2,
    "ones_like": 2,
    "randint": 4,
    "randperm": 2,
    "tril_indices": 4,
    "triu_indices": 4,
    "uniform": 5,
    "zeros": 2,
    "zeros_like": 2,
}
_NAMED = {"slice": "part"}  # there under another name than Python's own
_WHERE = {name: where for where, names in _SAME.items() for name in names.split()}


def _placed(name: str) -> Callable:
    """A function that creates a tensor, with its device after the other arguments."""
    function, before = getattr(tensor, name), _PLACED[name]

    @functools.wraps(function)
    def call(*args: Any) -> Tensor:
        made = function(*args[:before])
        return made if len(args) <= before or args[before] is None else made.to(args[before])

    return call


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(_WHERE[name], _NAMED.get(name, name))
    if name in _PLACED:
        return _placed(name)
    if name in kernels.names():
        return kernels.find(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_WHERE, *_PLACED, *kernels.names()])
