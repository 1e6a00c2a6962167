"""Bireme: Paddle's programming interface on XLA. Dynamic code is recorded, and runs compiled.

Importing this computes nothing and starts no device.
"""

import sys
from math import e, inf, nan, pi

from bireme import _C_ops as _C_ops
from bireme import _legacy_C_ops as _legacy_C_ops
from bireme import (
    amp, autograd, base, callbacks, compat, core, debug, device, distributed, errors, fft, framework, hapi, incubate, io, linalg, metric, nn, ops,
    optimizer, reader, regularizer, signal, special, static, tensor, utils, version, vision,
)  # fmt: skip
from bireme.amp import get_autocast_cpu_dtype, get_autocast_dtype, get_autocast_gpu_dtype, is_autocast_enabled
from bireme.batch import batch
from bireme.core.base import host_memory
from bireme.core.base.device import CPUPlace, CUDAPinnedPlace, CUDAPlace, CustomPlace, IPUPlace, XPUPinnedPlace, XPUPlace, get_device, set_device
from bireme.core.base.dtype import DType as dtype
from bireme.core.base.dtype import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    finfo,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    pstring,
    raw,
    uint8,
)  # fmt: skip
from bireme.core.base.flags import get_flags, set_flags
from bireme.core.declare.public import locate
from bireme.core.tensor.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from bireme.core.tensor.printing import set_printoptions
from bireme.core.base.random_state import Generator, get_cuda_rng_state, get_rng_state, seed, set_cuda_rng_state, set_rng_state
from bireme.core.tensor.backward import grad
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.defaults import disable_signal_handler, disable_static, enable_static, get_default_dtype, in_dynamic_mode, is_tensor, set_default_dtype
from bireme.device import (
    device_guard, get_cudnn_version, is_compiled_with_cinn, is_compiled_with_cuda, is_compiled_with_custom_device, is_compiled_with_distribute,
    is_compiled_with_ipu, is_compiled_with_rocm, is_compiled_with_xpu,
)  # fmt: skip
from bireme.files import MmapStorage, async_save, clear_async_save_task_queue, load, save
from bireme.hapi import Model, flops, summary
from bireme.nn.parameter import LazyGuard, create_parameter
from bireme.ops import (  # written by `make api`
    abs, abs_, acos, acos_, acosh, acosh_, add, add_n, addmm, addmm_, all, allclose, amax, amin, angle, any, arange,
    argmax, argmin, argsort, argwhere, as_complex, as_real, as_strided, as_tensor, asin, asin_, asinh, asinh_, assign,
    atan, atan2, atan_, atanh, atanh_, atleast_1d, atleast_2d, atleast_3d, baddbmm, baddbmm_, bernoulli, bernoulli_,
    bincount, binomial, bitwise_and, bitwise_and_, bitwise_not as bitwise_invert, bitwise_invert_, bitwise_left_shift,
    bitwise_left_shift_, bitwise_not, bitwise_not_, bitwise_or, bitwise_or_, bitwise_right_shift, bitwise_right_shift_,
    bitwise_xor, bitwise_xor_, block_diag, bmm, broadcast_shape, broadcast_shapes, broadcast_tensors, expand as
    broadcast_to, bucketize, cartesian_prod, cast, cast_, concat as cat, cauchy_, cdist, ceil, check_shape, cholesky,
    chunk, clip as clamp, clip, clone, column_stack, combinations, complex, concat, concat as concatenate, conj,
    copysign, copysign_, cos, cos_, cosh, cosh_, count_nonzero, crop, cross, cummax, cummin, cumprod, cumprod_, cumsum,
    cumsum_, cumulative_trapezoid, deg2rad, diag, diag_embed, diagflat, diagonal, diagonal_scatter, diff, digamma,
    digamma_, dist, divide as div, div_, divide, divide_, dot, dsplit, dstack, eigvalsh, einsum, empty, empty_like,
    equal as eq, equal, equal_, equal_all, erf, erf_, erfinv, exp, expand, expand_as, expm1, expm1_, eye, flatten,
    flatten_, flip, floor, floor_divide, floor_divide_, remainder as floor_mod, floor_mod_, fmax, fmin, frac, frac_,
    frexp, full, full_like, gammainc, gammainc_, gammaincc, gammaincc_, lgamma as gammaln, gammaln_, gather, gather_nd,
    gcd, gcd_, geometric_, ger, greater_equal, greater_equal_, greater_than, greater_than_, greater_than as gt,
    heaviside, histogram, histogram_bin_edges, histogramdd, hsplit, hstack, hypot, hypot_, i0, i0_, i0e, i1, i1e, imag,
    increment, index_add, index_add_, index_fill, index_fill_, index_put, index_put_, index_sample, index_select, inner,
    inv as inverse, is_complex, is_empty, is_floating_point, is_integer, isclose, isfinite, isin, isinf, isnan,
    isneginf, isposinf, isreal, kron, kthvalue, lcm, lcm_, ldexp, ldexp_, lerp, less_than as less, less_, less_equal,
    less_equal_, less_than, less_than_, lgamma, lgamma_, linspace, log, log10, log10_, log1p, log1p_, log2, log2_, log_,
    log_normal, log_normal_, logaddexp, logcumsumexp, logical_and, logical_and_, logical_not, logical_not_, logical_or,
    logical_or_, logical_xor, logical_xor_, logit, logit_, logspace, logsumexp, masked_fill, masked_fill_,
    masked_scatter, masked_scatter_, masked_select, matmul, matrix_transpose, max, maximum, mean, median, meshgrid, min,
    minimum, mm, remainder as mod, mod_, mode, moveaxis, msort, mul, multigammaln, multigammaln_, multinomial,
    multiplex, multiply, multiply_, mv, nan_to_num, nan_to_num_, nanmean, nanmedian, nanquantile, nansum, narrow, neg,
    neg_, neg as negative, nextafter, nonzero, norm, normal, normal_, not_equal, not_equal_, numel, ones, ones_like,
    outer, pdist, permute, poisson, polar, polygamma, polygamma_, positive, pow, pow_, prod, put_along_axis, quantile,
    rad2deg, rand, rand_like, randint, randint_like, randn, randn_like, randperm, range, rank, ravel, real, reciprocal,
    reduce_as, remainder, remainder_, renorm, renorm_, repeat_interleave, reshape, reshape_, flip as reverse, roll,
    rot90, round, vstack as row_stack, rsqrt, scale, scatter, scatter_, scatter_add, scatter_add_, scatter_nd,
    scatter_nd_add, scatter_reduce, searchsorted, select_scatter, sgn, shape_of as shape, shard_index, sigmoid, sign,
    signbit, sin, sin_, sinc, sinc_, sinh, sinh_, slice, slice_scatter, torch_softmax as softmax, sort, split, sqrt,
    square, square_, squeeze, squeeze_, stack, standard_gamma, standard_normal, stanh, std, strided_slice, subtract,
    sum, transpose as swapaxes, transpose as swapdims, t, t_, take, take_along_axis, take_along_dim, tan, tan_, tanh,
    tanh_, tensor_split, tensordot, tile, to_tensor, tolist, topk, trace, transpose, transpose_, trapezoid, tril, tril_,
    tril_indices, triu, triu_, triu_indices, true_divide, trunc, trunc_, unbind, unflatten, unfold, uniform, unique,
    unique_consecutive, unsqueeze, unsqueeze_, unstack, vander, var, vecdot, view, view_as, view_as_complex,
    view_as_real, vsplit, vstack, where, where_, zeros, zeros_like,
)  # fmt: skip
from bireme.ops.creation.constructors import (
    BFloat16Tensor, BoolTensor, ByteTensor, CharTensor, DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor, ShortTensor,
)  # fmt: skip
from bireme.param_attr import ParamAttr
from bireme.utils.dlpack import from_dlpack, to_dlpack
from bireme.version import __version__

bool = bool_
newaxis = None

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "CharTensor",
    "CustomPlace", "DoubleTensor", "FloatTensor", "Generator", "HalfTensor", "IPUPlace", "IntTensor", "LazyGuard", "LongTensor",
    "MmapStorage", "Model", "ParamAttr", "Parameter", "ShortTensor", "Tensor", "XPUPinnedPlace", "XPUPlace", "__version__",
    "amp", "async_save", "autograd", "base", "batch", "bfloat16", "bool", "callbacks",
    "clear_async_save_task_queue", "compat", "complex128", "complex64", "core", "create_parameter",
    "debug", "device", "errors",
    "device_guard", "disable_signal_handler", "disable_static", "distributed", "dtype", "e", "enable_grad", "enable_static", "fft", "finfo", "flops",
    "float16", "float32",
    "float64", "float8_e4m3fn", "float8_e5m2", "framework", "from_dlpack", "get_autocast_cpu_dtype",
    "get_autocast_dtype", "get_autocast_gpu_dtype", "get_cuda_rng_state", "get_cudnn_version", "get_default_dtype",
    "get_device", "get_flags", "get_rng_state", "grad", "hapi", "iinfo", "in_dynamic_mode", "incubate", "inf", "int16", "int32",
    "int64", "int8", "io", "is_autocast_enabled", "is_compiled_with_cinn", "is_compiled_with_cuda",
    "is_compiled_with_custom_device", "is_compiled_with_distribute", "is_compiled_with_ipu", "is_compiled_with_rocm",
    "is_compiled_with_xpu", "is_grad_enabled", "is_tensor",
    "linalg", "load", "metric", "nan", "newaxis", "nn", "no_grad", "ops", "optimizer", "pi", "pstring",
    "raw", "reader", "regularizer", "save", "seed", "set_cuda_rng_state", "set_default_dtype", "set_device", "set_flags",
    "set_grad_enabled", "set_printoptions", "set_rng_state", "signal", "special", "static", "summary", "tensor", "to_dlpack", "uint8",
    "utils", "version", "vision",
]  # fmt: skip
__all__ += [  # written by `make api`
    "abs", "abs_", "acos", "acos_", "acosh", "acosh_", "add", "add_n", "addmm", "addmm_", "all", "allclose", "amax",
    "amin", "angle", "any", "arange", "argmax", "argmin", "argsort", "argwhere", "as_complex", "as_real", "as_strided",
    "as_tensor", "asin", "asin_", "asinh", "asinh_", "assign", "atan", "atan2", "atan_", "atanh", "atanh_",
    "atleast_1d", "atleast_2d", "atleast_3d", "baddbmm", "baddbmm_", "bernoulli", "bernoulli_", "bincount", "binomial",
    "bitwise_and", "bitwise_and_", "bitwise_invert", "bitwise_invert_", "bitwise_left_shift", "bitwise_left_shift_",
    "bitwise_not", "bitwise_not_", "bitwise_or", "bitwise_or_", "bitwise_right_shift", "bitwise_right_shift_",
    "bitwise_xor", "bitwise_xor_", "block_diag", "bmm", "broadcast_shape", "broadcast_shapes", "broadcast_tensors",
    "broadcast_to", "bucketize", "cartesian_prod", "cast", "cast_", "cat", "cauchy_", "cdist", "ceil", "check_shape",
    "cholesky", "chunk", "clamp", "clip", "clone", "column_stack", "combinations", "complex", "concat", "concatenate",
    "conj", "copysign", "copysign_", "cos", "cos_", "cosh", "cosh_", "count_nonzero", "crop", "cross", "cummax",
    "cummin", "cumprod", "cumprod_", "cumsum", "cumsum_", "cumulative_trapezoid", "deg2rad", "diag", "diag_embed",
    "diagflat", "diagonal", "diagonal_scatter", "diff", "digamma", "digamma_", "dist", "div", "div_", "divide",
    "divide_", "dot", "dsplit", "dstack", "eigvalsh", "einsum", "empty", "empty_like", "eq", "equal", "equal_",
    "equal_all", "erf", "erf_", "erfinv", "exp", "expand", "expand_as", "expm1", "expm1_", "eye", "flatten", "flatten_",
    "flip", "floor", "floor_divide", "floor_divide_", "floor_mod", "floor_mod_", "fmax", "fmin", "frac", "frac_",
    "frexp", "full", "full_like", "gammainc", "gammainc_", "gammaincc", "gammaincc_", "gammaln", "gammaln_", "gather",
    "gather_nd", "gcd", "gcd_", "geometric_", "ger", "greater_equal", "greater_equal_", "greater_than", "greater_than_",
    "gt", "heaviside", "histogram", "histogram_bin_edges", "histogramdd", "hsplit", "hstack", "hypot", "hypot_", "i0",
    "i0_", "i0e", "i1", "i1e", "imag", "increment", "index_add", "index_add_", "index_fill", "index_fill_", "index_put",
    "index_put_", "index_sample", "index_select", "inner", "inverse", "is_complex", "is_empty", "is_floating_point",
    "is_integer", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "kron", "kthvalue",
    "lcm", "lcm_", "ldexp", "ldexp_", "lerp", "less", "less_", "less_equal", "less_equal_", "less_than", "less_than_",
    "lgamma", "lgamma_", "linspace", "log", "log10", "log10_", "log1p", "log1p_", "log2", "log2_", "log_", "log_normal",
    "log_normal_", "logaddexp", "logcumsumexp", "logical_and", "logical_and_", "logical_not", "logical_not_",
    "logical_or", "logical_or_", "logical_xor", "logical_xor_", "logit", "logit_", "logspace", "logsumexp",
    "masked_fill", "masked_fill_", "masked_scatter", "masked_scatter_", "masked_select", "matmul", "matrix_transpose",
    "max", "maximum", "mean", "median", "meshgrid", "min", "minimum", "mm", "mod", "mod_", "mode", "moveaxis", "msort",
    "mul", "multigammaln", "multigammaln_", "multinomial", "multiplex", "multiply", "multiply_", "mv", "nan_to_num",
    "nan_to_num_", "nanmean", "nanmedian", "nanquantile", "nansum", "narrow", "neg", "neg_", "negative", "nextafter",
    "nonzero", "norm", "normal", "normal_", "not_equal", "not_equal_", "numel", "ones", "ones_like", "outer", "pdist",
    "permute", "poisson", "polar", "polygamma", "polygamma_", "positive", "pow", "pow_", "prod", "put_along_axis",
    "quantile", "rad2deg", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "range",
    "rank", "ravel", "real", "reciprocal", "reduce_as", "remainder", "remainder_", "renorm", "renorm_",
    "repeat_interleave", "reshape", "reshape_", "reverse", "roll", "rot90", "round", "row_stack", "rsqrt", "scale",
    "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_nd", "scatter_nd_add", "scatter_reduce",
    "searchsorted", "select_scatter", "sgn", "shape", "shard_index", "sigmoid", "sign", "signbit", "sin", "sin_",
    "sinc", "sinc_", "sinh", "sinh_", "slice", "slice_scatter", "softmax", "sort", "split", "sqrt", "square", "square_",
    "squeeze", "squeeze_", "stack", "standard_gamma", "standard_normal", "stanh", "std", "strided_slice", "subtract",
    "sum", "swapaxes", "swapdims", "t", "t_", "take", "take_along_axis", "take_along_dim", "tan", "tan_", "tanh",
    "tanh_", "tensor_split", "tensordot", "tile", "to_tensor", "tolist", "topk", "trace", "transpose", "transpose_",
    "trapezoid", "tril", "tril_", "tril_indices", "triu", "triu_", "triu_indices", "true_divide", "trunc", "trunc_",
    "unbind", "unflatten", "unfold", "uniform", "unique", "unique_consecutive", "unsqueeze", "unsqueeze_", "unstack",
    "vander", "var", "vecdot", "view", "view_as", "view_as_complex", "view_as_real", "vsplit", "vstack", "where",
    "where_", "zeros", "zeros_like",
]  # fmt: skip

locate([sys.modules[__name__], nn.functional, linalg, fft, signal, special, incubate, incubate.nn.functional, compat])
host_memory.freeze_imports()
