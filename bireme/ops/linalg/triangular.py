"""Triangles of matrices, and the matrix of a vector's powers."""

from __future__ import annotations

import builtins
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, host_memory
from bireme.core.base.dtype import COMPLEX, FLOAT, INT
from bireme.core.declare.op import DTypeArg, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor.tensor import value_of
from bireme.ops._shared.broadcast import conj_of, same
from bireme.ops.linalg.diagonal import number_of, within


@op(method=True, inplace=True, alias={"x": "input"}, out=True, numpy=np.tril)
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """Lower triangle of matrices, up to a diagonal; zeros elsewhere.

    >>> bireme.tril(bireme.to_tensor([[1, 2], [3, 4]])).tolist()
    [[1, 0], [3, 4]]
    """
    return jnp.tril(x, diagonal)


@op(method=True, inplace=True, alias={"x": "input"}, out=True, numpy=np.triu)
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """Upper triangle of matrices, from a diagonal on; zeros elsewhere.

    >>> bireme.triu(bireme.to_tensor([[1, 2], [3, 4]])).tolist()
    [[1, 2], [0, 4]]
    """
    return jnp.triu(x, diagonal)


def _triangle(name: str):
    def prepare(arguments):
        x = arguments["x"]
        if isinstance(x, Tensor):
            if x.ndim < 2:
                raise errors.bad(f"{name}(x)", "at least 2 axes", x)
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
            raise errors.bad(f"{name}({what})", "an integer of 0 or more", n, kind=TypeError)
    if row * col * 16 > host_memory.capacity():
        raise errors.bad(f"{name}(row, col)", "places that fit into memory", [row, col], kind=MemoryError)
    if dtype not in (dtypes.int32, dtypes.int64):
        raise errors.bad(f"{name}(dtype)", "int32 or int64", dtype.name if dtype is not None else None, kind=errors.NoKernel)
    return Tensor(value_of(np.asarray(of(row, within(offset, row, col), col), dtype.np)))


@composite(name_arg=False)
def tril_indices(row: Any, col: Any, offset: int = 0, dtype: DTypeArg = "int64") -> Tensor:
    """Rows and columns of the lower triangle's elements, as a tensor of two rows.

    >>> bireme.tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    return _indices("tril_indices", row, col, offset, dtype, np.tril_indices)


@composite(name_arg=False)
def triu_indices(row: Any, col: Any = None, offset: int = 0, dtype: DTypeArg = "int64") -> Tensor:
    """Rows and columns of the upper triangle's elements, as a tensor of two rows.

    >>> bireme.triu_indices(2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    return _indices("triu_indices", row, col, offset, dtype, np.triu_indices)


@op(method=True, dtypes=FLOAT | COMPLEX | INT)
def vander(x: Tensor, n: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector as columns: from `n` - 1 down to 0, or up from 0.

    >>> bireme.vander(bireme.to_tensor([2.0, 3.0]), 3).tolist()
    [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]
    """
    return _powers(x, _exponents(n, increasing))


def _exponents(n, increasing):
    return np.arange(n) if increasing else np.arange(n)[::-1]


def _powers(x, exponents):
    """Whole powers by squaring: exact for integers, and defined at zero."""
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
            raise errors.bad("vander(x)", "a tensor of one axis", x)
        arguments["n"] = count = x._value.sig.size if n is None else number_of(n, "vander(n)")
        if count < 0:
            raise errors.bad("vander(n)", "a count of 0 or more", n)


vander.infer(lambda x, n: sig_of((x.shape[0], n), x.dtype))


@vander.grad
def _(g, x, n, increasing):
    exponents = _exponents(n, increasing)
    slopes = _powers(conj_of(x), np.maximum(exponents - 1, 0)) * exponents.astype(x.dtype)
    return jnp.sum(g * slopes, axis=1)
