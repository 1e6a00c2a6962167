"""Arithmetic of two sparse tensors: the result stores what either of them stores."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from bireme import ops
from bireme.core.base import counters, errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.sparse.creation import sparse
from bireme.sparse.pattern import Coo, Csr, owned
from bireme.sparse.tensor import SparseCooTensor, SparseCsrTensor, SparseTensor, summed


def coalesced(x: SparseTensor) -> tuple[Coo, Tensor]:
    """Pattern and values with each index once and in order."""
    pattern, place = x._coo().merged()
    return pattern, x._values if place is None else summed(x._values, place, pattern.nnz)


def same_form(x: SparseTensor, pattern: Coo, values: Tensor) -> SparseTensor:
    """A tensor in the form of `x`, COO or CSR, of a pattern that is in order."""
    if isinstance(x, SparseCsrTensor):
        return SparseCsrTensor(Csr.of(pattern), values)
    return SparseCooTensor(pattern, values)


def _pair(name: str, x: Any, y: Any) -> None:
    sparse(f"{name}(x)", x)
    sparse(f"{name}(y)", y)
    if type(x) is not type(y):
        form = "coo(sparse_dim)" if isinstance(x, SparseCooTensor) else "csr()"
        raise errors.bad(
            f"{name}(y)",
            f"a {x.kind} tensor, as x is",
            described=f"a {y.kind} tensor",
            hint=f"convert it: y.to_sparse_{form}",
            kind=errors.UnsupportedTypeError,
        )
    if x.shape != y.shape or x.sparse_dim() != y.sparse_dim():
        raise errors.bad(
            f"{name}(y)", f"shape {x.shape}, as x has", described=f"shape {y.shape}", kind=errors.ShapeError
        )


def _aligned(x: SparseTensor, y: SparseTensor, full: bool) -> tuple[Coo, Tensor, Tensor]:
    """Values of both over one pattern: what either stores or, if `full`, every element."""
    (left, a), (right, b) = coalesced(x), coalesced(y)
    if left is right and not full:
        return left, a, b
    if full:
        n = math.prod(left.dims)
        pattern = left.like(np.arange(n), left.dims, coalesced=True)
        return pattern, summed(a, left.places(), n), summed(b, right.places(), n)
    if left.nnz == right.nnz and np.array_equal(left.keys, right.keys):
        return left, a, b
    keys, place = left.grouped(np.concatenate([left.keys, right.keys]))
    pattern = left.like(keys, left.dims, coalesced=True)
    first, second = owned(place[: left.nnz]), owned(place[left.nnz :])
    return pattern, summed(a, first, keys.size), summed(b, second, keys.size)


def _combined(name: str, compute: Callable, x: Any, y: Any) -> SparseTensor:
    _pair(name, x, y)
    with errors.within(name, "x", "y"):
        pattern, a, b = _aligned(x, y, full=False)
        return same_form(x, pattern, compute(a, b))


def add(x: SparseTensor, y: SparseTensor, name: str | None = None) -> SparseTensor:
    """Add two sparse tensors.

    Args:
        x: Sparse tensor, COO or CSR.
        y: Sparse tensor of the same form and shape.
        name: Has no effect.

    Returns:
        Sparse tensor of the form of ``x`` that stores what either of them stores, in order.

    Raises:
        ValueError: If the shapes differ.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [1.0, 2.0], [4])
        >>> y = bireme.sparse.sparse_coo_tensor([[2, 3]], [10.0, 20.0], [4])
        >>> z = bireme.sparse.add(x, y)
        >>> z.indices().tolist(), z.values().tolist()
        ([[0, 2, 3]], [1.0, 12.0, 20.0])
    """
    return _combined("add", ops.add, x, y)


def subtract(x: SparseTensor, y: SparseTensor, name: str | None = None) -> SparseTensor:
    """Subtract two sparse tensors.

    Args:
        x: Sparse tensor, COO or CSR.
        y: Sparse tensor of the same form and shape.
        name: Has no effect.

    Returns:
        Sparse tensor of the form of ``x`` that stores what either of them stores, in order.

    Raises:
        ValueError: If the shapes differ.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [1.0, 2.0], [4])
        >>> y = bireme.sparse.sparse_coo_tensor([[2, 3]], [10.0, 20.0], [4])
        >>> bireme.sparse.subtract(x, y).values().tolist()
        [1.0, -8.0, -20.0]
    """
    return _combined("subtract", ops.subtract, x, y)


def _scaled(name: str, compute: Callable, x: Any, y: Any) -> SparseTensor | None:
    """The values computed with a number; None for another operand."""
    if not isinstance(y, Number) and not (isinstance(y, Tensor) and not isinstance(y, SparseTensor) and y.ndim == 0):
        return None
    sparse(f"{name}(x)", x)
    with errors.within(name, "x", "y"):
        return x.with_values(compute(x._values, y))


def multiply(x: SparseTensor, y: SparseTensor | float, name: str | None = None) -> SparseTensor:
    """Multiply two sparse tensors elementwise, or one by a number.

    Args:
        x: Sparse tensor, COO or CSR.
        y: Sparse tensor of the same form and shape, or a number.
        name: Has no effect.

    Returns:
        Sparse tensor of the form of ``x`` that stores what either of them stores, in order.

    Raises:
        ValueError: If the shapes differ.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [1.0, 2.0], [4])
        >>> y = bireme.sparse.sparse_coo_tensor([[2, 3]], [10.0, 20.0], [4])
        >>> bireme.sparse.multiply(x, y).values().tolist()
        [0.0, 20.0, 0.0]
    """
    scaled = _scaled("multiply", ops.multiply, x, y)
    return scaled if scaled is not None else _combined("multiply", ops.multiply, x, y)


def divide(x: SparseTensor, y: SparseTensor | float, name: str | None = None) -> SparseTensor:
    """Divide two sparse tensors elementwise, or one by a number.

    The quotient of two that are not stored is NaN, so that of two sparse tensors stores every element. A warning
    says so.

    Args:
        x: Sparse tensor, COO or CSR.
        y: Sparse tensor of the same form and shape, or a number.
        name: Has no effect.

    Returns:
        Sparse tensor of the form of ``x``; of its pattern if ``y`` is a number.

    Raises:
        ValueError: If the shapes differ.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [1.0, 2.0], [4])
        >>> bireme.sparse.divide(x, 2.0).values().tolist()
        [0.5, 1.0]
    """
    scaled = _scaled("divide", ops.divide, x, y)
    if scaled is not None:
        return scaled
    _pair("divide", x, y)
    counters.STATS["sparse_in_full"] += 1
    errors.warn(
        "sparse.divide: zero divided by zero is NaN, so the quotient of two sparse tensors stores every element; "
        "divide by a number, or x.values() by y.values(), to keep it sparse"
    )
    with errors.within("divide", "x", "y"):
        pattern, a, b = _aligned(x, y, full=True)  # type: ignore[arg-type]  # checked above
        return same_form(x, pattern, ops.divide(a, b))


guard_functions(globals())
