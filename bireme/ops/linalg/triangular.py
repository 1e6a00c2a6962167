"""Triangles of matrices, and the matrix of a vector's powers."""

from __future__ import annotations

import builtins
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, host_memory
from bireme.core.base.dtype import COMPLEX, FLOAT, INT
from bireme.core.declare.op import Attr, DTypeArg, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor.tensor import value_of
from bireme.ops._shared.broadcast import conj_of, same
from bireme.ops.linalg.diagonal import number_of, within


@op(method=True, inplace=True, alias={"x": "input"}, out=True, numpy=np.tril)
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """Lower triangle of a matrix, with zeros elsewhere.

    Args:
        x: Matrix or batch of matrices: a tensor with at least two axes.
        diagonal: The highest diagonal to keep: 0 is the main one, positive numbers are above it, negative ones below.
            Default: 0.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.tril(bireme.to_tensor([[1, 2], [3, 4]])).tolist()
        [[1, 0], [3, 4]]
    """
    return jnp.tril(x, diagonal)


@op(method=True, inplace=True, alias={"x": "input"}, out=True, numpy=np.triu)
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """Upper triangle of a matrix, with zeros elsewhere.

    Args:
        x: Matrix or batch of matrices: a tensor with at least two axes.
        diagonal: The lowest diagonal to keep: 0 is the main one, positive numbers are above it, negative ones below.
            Default: 0.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.triu(bireme.to_tensor([[1, 2], [3, 4]])).tolist()
        [[1, 2], [0, 4]]
    """
    return jnp.triu(x, diagonal)


def _triangle(name: str):
    def prepare(arguments):
        x = arguments["x"]
        if isinstance(x, Tensor):
            if x.ndim < 2:
                raise errors.bad(f"{name}(x)", "at least 2 dimensions", x)
            arguments["diagonal"] = within(number_of(arguments["diagonal"], f"{name}(diagonal)"), x.shape[-2], x.shape[-1])

    return prepare


for _op, _rule in ((tril, lambda g, diagonal: jnp.tril(g, diagonal)), (triu, lambda g, diagonal: jnp.triu(g, diagonal))):
    _op.prepare(_triangle(_op.name))
    _op.infer(same)
    _op.grad(_rule, numpy=True)


def _indices(name: str, row: Any, col: Any, offset: int, dtype: Any, of: Any) -> Tensor:
    col = row if col is None else col
    for what, n in (("row", row), ("col", col)):
        if not isinstance(n, int) or n < 0:
            raise errors.bad(f"{name}({what})", "a non-negative integer", n, kind=errors.ArgumentTypeError)
    if row * col * 16 > host_memory.capacity():
        raise errors.bad(f"{name}(row, col)", "indices that fit into memory", [row, col], kind=MemoryError)
    if dtype not in (dtypes.int32, dtypes.int64):
        raise errors.bad(f"{name}(dtype)", "int32 or int64", described="None" if dtype is None else dtype.name, kind=errors.DtypeError)
    return Tensor(value_of(np.asarray(of(row, within(offset, row, col), col), dtype.np)))


@composite(name_arg=False)
def tril_indices(row: Attr[int], col: Attr[int], offset: int = 0, dtype: DTypeArg = "int64") -> Tensor:
    """Row and column indices of the lower triangle of a matrix, row by row.

    Args:
        row: Number of rows.
        col: Number of columns; ``None`` means as many as rows.
        offset: The highest diagonal of the triangle: 0 is the main one, positive numbers are above it, negative ones
            below. Default: 0.
        dtype: Dtype of the indices, int32 or int64. Default: ``'int64'``.

    Returns:
        Tensor of shape ``[2, n]``: row indices, then column indices.

    Examples:
        >>> bireme.tril_indices(2, 2).tolist()
        [[0, 1, 1], [0, 0, 1]]
    """
    return _indices("tril_indices", row, col, offset, dtype, np.tril_indices)


@composite(name_arg=False)
def triu_indices(row: Attr[int], col: Attr[int] = None, offset: int = 0, dtype: DTypeArg = "int64") -> Tensor:
    """Row and column indices of the upper triangle of a matrix, row by row.

    Args:
        row: Number of rows.
        col: Number of columns. Default: None, as many as rows.
        offset: The lowest diagonal of the triangle: 0 is the main one, positive numbers are above it, negative ones
            below. Default: 0.
        dtype: Dtype of the indices, int32 or int64. Default: ``'int64'``.

    Returns:
        Tensor of shape ``[2, n]``: row indices, then column indices.

    Examples:
        >>> bireme.triu_indices(2).tolist()
        [[0, 0, 1], [0, 1, 1]]
    """
    return _indices("triu_indices", row, col, offset, dtype, np.triu_indices)


@op(method=True, dtypes=FLOAT | COMPLEX | INT)
def vander(x: Tensor, n: int | None = None, increasing: bool = False) -> Tensor:
    """Vandermonde matrix: the powers of a vector as columns.

    Args:
        x: 1-D tensor of numbers.
        n: Number of columns. Default: None, the size of ``x``.
        increasing: Whether the powers go up from 0; otherwise they go down to 0. Default: False.

    Returns:
        Matrix with a row for each element of ``x`` and ``n`` columns.

    Examples:
        >>> bireme.vander(bireme.to_tensor([2.0, 3.0]), 3).tolist()
        [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]
    """
    return _powers(x, _exponents(n, increasing))


def _exponents(n, increasing):
    return np.arange(n) if increasing else np.arange(n)[::-1]


def _powers(x, exponents):
    """Integer powers by squaring: exact for integers, and defined at zero."""
    found = jnp.ones((x.shape[0], len(exponents)), x.dtype)
    base, bit = x[:, None], 1
    while bit <= builtins.max(exponents, default=0):
        found = jnp.where((exponents & bit).astype(bool), found * base, found)
        base, bit = base * base, bit * 2
    return found


@vander.prepare
def _(arguments):
    x, n = arguments["x"], arguments["n"]
    if isinstance(x, Tensor):
        if x.ndim != 1:
            raise errors.bad("vander(x)", "a 1-D tensor", x)
        arguments["n"] = count = x._value.sig.size if n is None else number_of(n, "vander(n)")
        if count < 0:
            raise errors.bad("vander(n)", "a non-negative integer", n)


vander.infer(lambda x, n: sig_of((x.shape[0], n), x.dtype))


@vander.grad
def _(g, x, n, increasing):
    exponents = _exponents(n, increasing)
    slopes = _powers(conj_of(x), np.maximum(exponents - 1, 0)) * exponents.astype(x.dtype)
    return jnp.sum(g * slopes, axis=1)
