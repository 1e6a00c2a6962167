"""Sparse tensors: what is stored is computed, recorded and differentiated; what is not stored is zero."""

from bireme.sparse import methods as methods
from bireme.sparse import nn as nn
from bireme.sparse.binary import add, divide, multiply, subtract
from bireme.sparse.creation import sparse_coo_tensor, sparse_csr_tensor
from bireme.sparse.products import addmm, masked_matmul, matmul, mv, pca_lowrank
from bireme.sparse.shapes import coalesce, is_same_shape, mask_as, reshape, slice, sum, transpose
from bireme.sparse.unary import (
    abs,
    asin,
    asinh,
    atan,
    atanh,
    cast,
    deg2rad,
    expm1,
    isnan,
    log1p,
    neg,
    pow,
    rad2deg,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
)

__all__ = [
    "abs", "add", "addmm", "asin", "asinh", "atan", "atanh", "cast", "coalesce", "deg2rad", "divide", "expm1",
    "is_same_shape", "isnan", "log1p", "mask_as", "masked_matmul", "matmul", "multiply", "mv", "neg", "nn", "pca_lowrank",
    "pow", "rad2deg", "reshape", "sin", "sinh", "slice", "sparse_coo_tensor", "sparse_csr_tensor", "sqrt", "square",
    "subtract", "sum", "tan", "tanh", "transpose",
]  # fmt: skip
