"""Bireme: Paddle's programming interface on XLA. Dynamic code is recorded, and runs compiled.

Importing this computes nothing and starts no device.
"""

from bireme import autograd, core, debug, device, incubate, linalg, nn, ops, optimizer, regularizer, special, utils
from bireme.core import malloc
from bireme.core.device import CPUPlace, CUDAPlace, CustomPlace, get_device, set_device
from bireme.core.dtype import DType as dtype
from bireme.core.dtype import (
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
    uint8,
)  # fmt: skip
from bireme.core.flags import get_flags, set_flags
from bireme.core.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from bireme.core.random import Generator, get_rng_state, seed, set_rng_state
from bireme.core.tape import grad
from bireme.core.tensor import Parameter, Tensor, set_printoptions
from bireme.defaults import get_default_dtype, is_tensor, set_default_dtype
from bireme.files import load, save
from bireme.ops import (  # written by `make api`
    abs, abs_, add, all, allclose, any, arange, argmax, argmin, assign, bernoulli, bitwise_and, bitwise_not, bitwise_or,
    bitwise_xor, cast, chunk, clip, clone, complex, concat, conj, cos, cos_, cumsum, divide, divide_, empty, equal,
    equal_all, erf, erf_, erfinv, exp, expand, expm1, expm1_, eye, flatten, flatten_, flip, floor, floor_divide,
    floor_divide_, full, full_like, gather, greater_equal, greater_than, imag, index_select, isfinite, isinf, isnan,
    lerp, less_equal, less_than, linspace, log, log1p, log_, logical_and, logical_not, logical_or, logsumexp,
    masked_fill, masked_fill_, masked_select, matmul, max, maximum, mean, min, minimum, mm, mul, multiply, multiply_,
    neg, neg_, nonzero, normal, not_equal, ones, ones_like, pow, pow_, prod, rand, randint, randn, randperm, real,
    reciprocal, remainder, remainder_, reshape, reshape_, roll, rsqrt, scale, scatter, scatter_, sign, sin, sin_, split,
    sqrt, square, square_, squeeze, squeeze_, stack, std, subtract, sum, t, t_, take_along_axis, tanh, tanh_, tile,
    to_tensor, transpose, transpose_, unbind, uniform, unsqueeze, unsqueeze_, var, where, zeros, zeros_like,
)  # fmt: skip
from bireme.ops.attribute import is_complex, is_empty, is_floating_point, is_integer, numel, rank
from bireme.param_attr import ParamAttr
from bireme.utils.dlpack import from_dlpack, to_dlpack
from bireme.version import __version__

globals()["bool"] = bool_
malloc.freeze_imports()

__all__ = [
    "CPUPlace", "CUDAPlace", "CustomPlace", "Generator", "ParamAttr", "Parameter", "Tensor", "__version__", "autograd",
    "bfloat16", "bool", "complex128", "complex64", "core", "debug", "device", "dtype", "enable_grad", "finfo",
    "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "from_dlpack", "get_default_dtype", "get_device",
    "get_flags", "get_rng_state", "grad", "iinfo", "incubate", "int16", "int32", "int64", "int8", "is_complex",
    "is_empty", "is_floating_point", "is_grad_enabled", "is_integer", "is_tensor", "linalg", "load", "nn", "no_grad", "numel",
    "ops", "optimizer", "rank", "regularizer", "save", "seed", "set_default_dtype", "set_device", "set_flags",
    "set_grad_enabled", "set_printoptions", "set_rng_state", "special", "to_dlpack", "uint8", "utils",
]  # fmt: skip
__all__ += [  # written by `make api`
    "abs", "abs_", "add", "all", "allclose", "any", "arange", "argmax", "argmin", "assign", "bernoulli", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "cast", "chunk", "clip", "clone", "complex", "concat", "conj", "cos",
    "cos_", "cumsum", "divide", "divide_", "empty", "equal", "equal_all", "erf", "erf_", "erfinv", "exp", "expand",
    "expm1", "expm1_", "eye", "flatten", "flatten_", "flip", "floor", "floor_divide", "floor_divide_", "full",
    "full_like", "gather", "greater_equal", "greater_than", "imag", "index_select", "isfinite", "isinf", "isnan",
    "lerp", "less_equal", "less_than", "linspace", "log", "log1p", "log_", "logical_and", "logical_not", "logical_or",
    "logsumexp", "masked_fill", "masked_fill_", "masked_select", "matmul", "max", "maximum", "mean", "min", "minimum",
    "mm", "mul", "multiply", "multiply_", "neg", "neg_", "nonzero", "normal", "not_equal", "ones", "ones_like", "pow",
    "pow_", "prod", "rand", "randint", "randn", "randperm", "real", "reciprocal", "remainder", "remainder_", "reshape",
    "reshape_", "roll", "rsqrt", "scale", "scatter", "scatter_", "sign", "sin", "sin_", "split", "sqrt", "square",
    "square_", "squeeze", "squeeze_", "stack", "std", "subtract", "sum", "t", "t_", "take_along_axis", "tanh", "tanh_",
    "tile", "to_tensor", "transpose", "transpose_", "unbind", "uniform", "unsqueeze", "unsqueeze_", "var", "where",
    "zeros", "zeros_like",
]  # fmt: skip
