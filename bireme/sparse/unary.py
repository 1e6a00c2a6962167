"""Functions of single elements that keep zero zero: they are computed on the stored values, and the pattern stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme import ops
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.dtype import DTypeLike
from bireme.sparse.creation import sparse
from bireme.sparse.pattern import Coo, Csr
from bireme.sparse.tensor import SparseCooTensor, SparseTensor


def unary(
    name: str, compute: Callable, sentence: str, given: str, answer: str, home: str = "bireme.sparse"
) -> Callable:
    """The function of sparse tensors that an operator of dense ones gives: on the stored values."""

    def function(x: SparseTensor, name: str | None = None) -> SparseTensor:
        sparse(f"{function.__name__}(x)", x)
        with errors.within(function.__name__, "x"):
            return x.with_values(compute(x._values))

    shown = "{}" if answer.startswith("[True") else "[round(v, 4) for v in {}]"
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"""{sentence} of the stored values; the pattern stays.

    Args:
        x: Sparse tensor, COO or CSR.
        name: Has no effect.

    Returns:
        Sparse tensor of the same pattern.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], {given}, [4])
        >>> {shown.format(f"{home}.{name}(x).values().tolist()")}
        {answer}
    """
    return function


abs = unary("abs", ops.abs, "Absolute value", "[-1.5, 2.0]", "[1.5, 2.0]")
asin = unary("asin", ops.asin, "Inverse sine", "[0.0, 1.0]", "[0.0, 1.5708]")
asinh = unary("asinh", ops.asinh, "Inverse hyperbolic sine", "[0.0, 1.0]", "[0.0, 0.8814]")
atan = unary("atan", ops.atan, "Inverse tangent", "[0.0, 1.0]", "[0.0, 0.7854]")
atanh = unary("atanh", ops.atanh, "Inverse hyperbolic tangent", "[0.0, 0.5]", "[0.0, 0.5493]")
deg2rad = unary("deg2rad", ops.deg2rad, "Degrees in radians", "[0.0, 180.0]", "[0.0, 3.1416]")
expm1 = unary("expm1", ops.expm1, "Exponential minus one", "[0.0, 1.0]", "[0.0, 1.7183]")
isnan = unary("isnan", ops.isnan, "Whether each is NaN, as bools", "[float('nan'), 1.0]", "[True, False]")
log1p = unary("log1p", ops.log1p, "Logarithm of one plus each", "[0.0, 1.0]", "[0.0, 0.6931]")
neg = unary("neg", ops.neg, "Negation", "[-1.5, 2.0]", "[1.5, -2.0]")
rad2deg = unary("rad2deg", ops.rad2deg, "Radians in degrees", "[0.0, 1.0]", "[0.0, 57.2958]")
sin = unary("sin", ops.sin, "Sine", "[0.0, 1.0]", "[0.0, 0.8415]")
sinh = unary("sinh", ops.sinh, "Hyperbolic sine", "[0.0, 1.0]", "[0.0, 1.1752]")
sqrt = unary("sqrt", ops.sqrt, "Square root", "[4.0, 2.25]", "[2.0, 1.5]")
square = unary("square", ops.square, "Square", "[-1.5, 2.0]", "[2.25, 4.0]")
tan = unary("tan", ops.tan, "Tangent", "[0.0, 1.0]", "[0.0, 1.5574]")
tanh = unary("tanh", ops.tanh, "Hyperbolic tangent", "[0.0, 1.0]", "[0.0, 0.7616]")


def pow(x: SparseTensor, factor: float, name: str | None = None) -> SparseTensor:
    """Power of the stored values; the pattern stays, whatever the exponent.

    Args:
        x: Sparse tensor, COO or CSR.
        factor: Exponent, a number.
        name: Has no effect.

    Returns:
        Sparse tensor of the same pattern.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [2.0, 3.0], [4])
        >>> bireme.sparse.pow(x, 2).values().tolist()
        [4.0, 9.0]
    """
    sparse("pow(x)", x)
    errors.check_number("pow(factor)", factor)
    return x.with_values(ops.pow(x._values, float(factor)))


def cast(
    x: SparseTensor, index_dtype: DTypeLike | None = None, value_dtype: DTypeLike | None = None, name: str | None = None
) -> SparseTensor:
    """Convert the dtype of the indices and of the values.

    Args:
        x: Sparse tensor, COO or CSR.
        index_dtype: Dtype of the indices, an integer one. Default: None, what it is.
        value_dtype: Dtype of the values. Default: None, what it is.
        name: Has no effect.

    Returns:
        Sparse tensor of the same shape.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [1.0, 2.0], [4])
        >>> y = bireme.sparse.cast(x, "int32", "float64")
        >>> y.indices().dtype, y.dtype
        (bireme.int32, bireme.float64)
    """
    sparse("cast(x)", x)
    values = x._values if value_dtype is None else x._values.astype(dtypes.of(value_dtype, "cast(value_dtype)"))
    if index_dtype is None:
        return x.with_values(values)
    kind = dtypes.of(index_dtype, "cast(index_dtype)")
    if not kind.is_integer:
        raise errors.bad("cast(index_dtype)", "an integer dtype", described=kind.name, kind=errors.DtypeError)
    old: Any = x._pattern
    stored = [t.astype(kind) for t in x._stored()]
    if isinstance(x, SparseCooTensor):
        return SparseCooTensor(Coo(old.dims, stored[0], coalesced=old.coalesced), values)
    return type(x)(Csr(old.dims, stored[0], stored[1]), values)


guard_functions(globals())
