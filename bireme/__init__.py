"""Bireme: Paddle's programming interface on XLA. Dynamic code is recorded, and runs compiled.

Importing this computes nothing and starts no device.
"""

from bireme import autograd, core, debug, device, incubate, nn, ops, optimizer, regularizer, utils
from bireme.core.device import CPUPlace, CUDAPlace, CustomPlace, get_device, set_device
from bireme.core.dtype import DType as dtype
from bireme.core.dtype import (
    bfloat16, bool_, complex64, complex128, finfo, float8_e4m3fn, float8_e5m2, float16, float32, float64, iinfo, int8, int16, int32, int64,
    uint8,
)  # fmt: skip
from bireme.core import malloc
from bireme.core.flags import get_flags, set_flags
from bireme.core.random import Generator, get_rng_state, seed, set_rng_state
from bireme.core.tape import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from bireme.core.tensor import Parameter, Tensor, set_printoptions
from bireme.defaults import get_default_dtype, is_tensor, set_default_dtype
from bireme.files import load, save
from bireme.ops import (
    abs, abs_, add, add_, all, allclose, any, arange, argmax, argmin, assign, bernoulli, bitwise_and, bitwise_not, bitwise_or, bitwise_xor,
    cast, chunk, clip, clip_, clone, complex, concat, conj, cos, cos_, cumsum, divide, divide_, empty, equal, equal_all, erf, erf_, erfinv, erfinv_, exp, exp_,
    expand, expm1, expm1_, eye, flatten, flatten_, flip, floor, floor_, floor_divide, floor_divide_, full, full_like, gather, greater_equal,
    greater_than, imag, index_select, isfinite, isinf, isnan, lerp, lerp_, less_equal, less_than, linspace, log, log1p, log1p_, log_,
    logical_and, logical_not, logical_or, logsumexp, masked_fill, masked_fill_, masked_select, matmul, max, maximum, mean, min, minimum,
    mm, mul, multiply, multiply_, neg, neg_, nonzero, normal, not_equal, ones, ones_like, pow, pow_, prod, rand, randint, randn, randperm, real,
    reciprocal, reciprocal_, remainder, remainder_, reshape, reshape_, roll, rsqrt, rsqrt_, scale, scale_, scatter, scatter_, sign, sin, sin_,
    split, sqrt, sqrt_, square, square_, squeeze, squeeze_, stack, std, subtract, subtract_, sum, t, t_, take_along_axis, tanh, tanh_, tile,
    to_tensor, transpose, transpose_, unbind, uniform, unsqueeze, unsqueeze_, var, where, zeros, zeros_like,
)  # fmt: skip
from bireme.ops.attribute import is_complex, is_empty, is_floating_point, is_integer, numel, rank
from bireme.param_attr import ParamAttr
from bireme.version import __version__

globals()["bool"] = bool_
malloc.freeze_imports()

__all__ = [
    "CPUPlace", "CUDAPlace", "CustomPlace", "Generator", "ParamAttr", "Parameter", "Tensor", "abs", "abs_", "add", "add_", "all", "allclose",
    "any", "arange", "argmax", "argmin", "assign", "autograd", "bernoulli", "bfloat16", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "bool", "cast", "chunk", "clip", "clip_", "clone", "complex", "complex128", "complex64", "concat", "conj", "core", "cos",
    "cos_", "cumsum", "debug", "device", "divide", "divide_", "dtype", "empty", "enable_grad", "equal", "equal_all", "erf", "erf_", "erfinv", "erfinv_", "exp",
    "exp_", "expand", "expm1", "expm1_", "eye", "finfo", "flatten", "flatten_", "flip", "float16", "float32", "float64", "float8_e4m3fn",
    "float8_e5m2", "floor", "floor_", "floor_divide", "floor_divide_", "full", "full_like", "gather", "get_default_dtype", "get_device",
    "get_flags", "get_rng_state", "grad", "greater_equal", "greater_than", "iinfo", "imag", "incubate", "index_select", "int16", "int32", "int64",
    "int8", "is_complex", "is_empty", "is_floating_point", "is_grad_enabled", "is_integer", "is_tensor", "isfinite", "isinf", "isnan", "lerp", "lerp_", "less_equal", "less_than", "linspace", "load",
    "log", "log1p", "log1p_", "log_", "logical_and", "logical_not", "logical_or", "logsumexp", "masked_fill", "masked_fill_",
    "masked_select", "matmul", "max", "maximum", "mean", "min", "minimum", "mm", "mul", "multiply", "multiply_", "neg", "neg_", "nn", "no_grad",
    "nonzero", "normal", "not_equal", "numel", "ones", "ones_like", "ops", "optimizer", "pow", "pow_", "prod", "rand", "randint", "randn",
    "randperm", "rank", "real", "reciprocal", "reciprocal_", "regularizer", "remainder", "remainder_", "reshape", "reshape_", "roll", "rsqrt",
    "rsqrt_", "save", "scale", "scale_", "scatter", "scatter_", "seed", "set_default_dtype", "set_device", "set_flags",
    "set_grad_enabled", "set_printoptions", "set_rng_state", "sign", "sin", "sin_", "split", "sqrt", "sqrt_", "square", "square_", "squeeze",
    "squeeze_", "stack", "std", "subtract", "subtract_", "sum", "t", "t_", "take_along_axis", "tanh", "tanh_", "tile", "to_tensor",
    "transpose", "transpose_", "uint8", "unbind", "uniform", "unsqueeze", "unsqueeze_", "utils", "var", "where", "zeros", "zeros_like",
    "__version__",
]  # fmt: skip
