"""Methods and operators of sparse tensors: the functions of `bireme.sparse` with the tensor in front."""

from __future__ import annotations

from typing import Any

from bireme.sparse import binary, products, shapes, unary
from bireme.sparse.tensor import SparseTensor

_FUNCTIONS = [
    *[getattr(unary, name) for name in (
        "abs", "asin", "asinh", "atan", "atanh", "deg2rad", "expm1", "isnan", "log1p", "neg", "pow", "rad2deg", "sin",
        "sinh", "sqrt", "square", "tan", "tanh",
    )],
    binary.add, binary.subtract, binary.multiply, binary.divide,
    products.matmul, products.mv,
    shapes.reshape, shapes.transpose, shapes.sum, shapes.slice,
]  # fmt: skip


def _reversed(function: Any) -> Any:
    return lambda self, other: function(other, self)


def _install() -> None:
    for function in _FUNCTIONS:
        setattr(SparseTensor, function.__name__, function)
    operators = {
        "__abs__": unary.abs,
        "__neg__": unary.neg,
        "__pow__": unary.pow,
        "__add__": binary.add,
        "__radd__": _reversed(binary.add),
        "__sub__": binary.subtract,
        "__rsub__": _reversed(binary.subtract),
        "__mul__": binary.multiply,
        "__rmul__": binary.multiply,
        "__truediv__": binary.divide,
        "__rtruediv__": _reversed(binary.divide),
        "__matmul__": products.matmul,
        "__rmatmul__": _reversed(products.matmul),
    }
    for name, function in operators.items():
        setattr(SparseTensor, name, function)


_install()
