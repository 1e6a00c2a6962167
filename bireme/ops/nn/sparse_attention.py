"""Attention over listed pairs: only the scores that a sparse layout names exist."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of


class _Jax:
    """Sums and maxima by index, and the rest of what the computation takes."""

    xp: Any = jnp

    @staticmethod
    def add(size, at, x):
        return jnp.zeros((size, *x.shape[1:]), x.dtype).at[at].add(x)

    @staticmethod
    def most(size, at, x):
        return lax.stop_gradient(jnp.full((size,), -np.inf, x.dtype).at[at].max(lax.stop_gradient(x)))


class _Numpy:
    xp: Any = np

    @staticmethod
    def add(size, at, x):
        made = np.zeros((size, *x.shape[1:]), x.dtype)
        np.add.at(made, at, x)
        return made

    @staticmethod
    def most(size, at, x):
        made = np.full((size,), -np.inf, x.dtype)
        np.maximum.at(made, at, x)
        return made


def _pairs(by, query, offset, columns, padding, mask):
    """Of each listed pair the row among all heads' rows, the key among all heads' keys, and whether it counts."""
    xp, (batch, heads, rows) = by.xp, query.shape[:3]
    each, count = batch * heads, columns.shape[-1]
    head = np.arange(each, dtype=np.int32)[:, None]
    ends = xp.clip(offset.reshape(each, rows + 1)[:, 1:], 0, count).astype(xp.int32)
    marks = by.add(each * (count + 1), (head * (count + 1) + ends).reshape(-1), xp.ones((each * rows,), xp.int32)).reshape(each, count + 1)
    row, column = xp.cumsum(marks, axis=1)[:, :count], columns.reshape(each, count)
    listed = (row < rows) & (column >= 0) & (column < rows)
    row, column = xp.minimum(row, rows - 1), xp.clip(column, 0, rows - 1)
    if padding is not None:
        listed = listed & (padding[head // heads, column] != 0)
    if mask is not None:
        listed = listed & (mask[row, column] != 0)
    return (row + head * rows).reshape(-1), (column + head * rows).reshape(-1), listed.reshape(-1)


def _weights(by, q, k, row, column, listed):
    xp, size = by.xp, q.shape[0]
    s = xp.sum(q[row] * k[column], axis=-1) * np.asarray(1 / math.sqrt(q.shape[-1]), q.dtype)
    s = xp.where(listed, s, np.asarray(-np.inf, s.dtype))
    top = by.most(size, row, s)
    e = xp.exp(s - xp.where(xp.isneginf(top), np.asarray(0, s.dtype), top)[row])
    total = by.add(size, row, e)
    return e / xp.where(total == 0, np.asarray(1, s.dtype), total)[row]


def _flat(*arrays):
    return [x.reshape(-1, x.shape[-1]) for x in arrays]


def _attend(by, query, key, value, offset, columns, padding, mask):
    if 0 in query.shape or not columns.shape[-1]:
        return by.xp.zeros(value.shape, query.dtype)
    row, column, listed = _pairs(by, query, offset, columns, padding, mask)
    q, k, v = _flat(query, key, value)
    p = _weights(by, q, k, row, column, listed)
    return by.add(q.shape[0], row, p[:, None] * v[column]).reshape(value.shape)


def _slopes(by, g, query, key, value, offset, columns, padding, mask):
    if 0 in query.shape or not columns.shape[-1]:
        return [by.xp.zeros(x.shape, x.dtype) for x in (query, key, value)]
    row, column, listed = _pairs(by, query, offset, columns, padding, mask)
    q, k, v, out = _flat(query, key, value, g)
    p, size = _weights(by, q, k, row, column, listed), q.shape[0]
    slope = by.xp.sum(out[row] * v[column], axis=-1)
    ds = p * (slope - by.add(size, row, p * slope)[row]) * np.asarray(1 / math.sqrt(q.shape[-1]), q.dtype)
    found = by.add(size, row, ds[:, None] * k[column]), by.add(size, column, ds[:, None] * q[row]), by.add(size, column, p[:, None] * out[row])
    return [x.reshape(query.shape) for x in found]


@op(dtypes=FLOAT, promote="query key value", upcast=True, numpy=lambda *operands: _attend(_Numpy, *operands))
def sparse_attention(query: Tensor, key: Tensor, value: Tensor, sparse_csr_offset: Tensor, sparse_csr_columns: Tensor,
                     key_padding_mask: Tensor | None = None, attn_mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Attention over the pairs of queries and keys that a sparse layout in CSR form lists.

    Query ``i`` of a head attends to the keys ``columns[offset[i]:offset[i + 1]]``; other scores are never computed.

    Args:
        query: Queries of shape ``[N, H, L, D]``, of a floating-point dtype.
        key: Keys of the same shape.
        value: Values of the same shape.
        sparse_csr_offset: Integers of shape ``[N, H, L + 1]``: where the keys of each query begin in the columns.
        sparse_csr_columns: Integers of shape ``[N, H, pairs]``: indices of keys.
        key_padding_mask: Tensor of shape ``[N, L]`` that is 0 where a key is hidden. Default: None.
        attn_mask: Tensor of shape ``[L, L]`` that is 0 where a pair is hidden. Default: None.

    Returns:
        Tensor of the shape and dtype of ``query``.

    Examples:
        >>> x, offset = bireme.to_tensor([[[[1.0], [3.0]]]]), bireme.to_tensor([[[0, 1, 2]]], dtype="int32")
        >>> bireme.nn.functional.sparse_attention(x, x, x, offset, bireme.to_tensor([[[1, 0]]], dtype="int32")).tolist()
        [[[[3.0], [1.0]]]]
    """
    return _attend(_Jax, query, key, value, sparse_csr_offset, sparse_csr_columns, key_padding_mask, attn_mask)


def _gradient(by, g, query, key, value, offset, columns, padding, mask):
    rest = [None for x in (offset, columns, padding, mask) if x is not None]
    return (*_slopes(by, g, query, key, value, offset, columns, padding, mask), *rest)


def _grad_numpy(g, query, key, value, sparse_csr_offset, sparse_csr_columns, key_padding_mask, attn_mask):
    return _gradient(_Numpy, g, query, key, value, sparse_csr_offset, sparse_csr_columns, key_padding_mask, attn_mask)


@sparse_attention.grad(numpy=_grad_numpy)
def _(g, query, key, value, sparse_csr_offset, sparse_csr_columns, key_padding_mask, attn_mask):
    return _gradient(_Jax, g, query, key, value, sparse_csr_offset, sparse_csr_columns, key_padding_mask, attn_mask)


sparse_attention.infer(lambda query, value: sig_of((*query.shape[:3], value.shape[3]), query.dtype))


@sparse_attention.check
def _(query, key, value, sparse_csr_offset, sparse_csr_columns, key_padding_mask, attn_mask):
    if query.ndim != 4:
        raise errors.bad(
            "sparse_attention(query)", "shape [batch, heads, sequence, width]", described=f"shape {list(query.shape)}", kind=errors.ShapeError
        )
    batch, heads, rows, _ = query.shape
    for name, x in (("key", key), ("value", value)):
        if x.shape != query.shape:
            raise errors.bad(
                f"sparse_attention({name})",
                f"shape {list(query.shape)}, as the query has",
                described=f"shape {list(x.shape)}",
                kind=errors.ShapeError,
            )
    if sparse_csr_offset.shape != (batch, heads, rows + 1) or sparse_csr_offset.dtype.kind != "i":
        got = f"{sparse_csr_offset.dtype.name}, shape {list(sparse_csr_offset.shape)}"
        raise errors.bad(
            "sparse_attention(sparse_csr_offset)",
            f"an integer tensor of shape {[batch, heads, rows + 1]}",
            described=got,
        )
    if sparse_csr_columns.ndim != 3 or sparse_csr_columns.shape[:2] != (batch, heads) or sparse_csr_columns.dtype.kind != "i":
        got = f"{sparse_csr_columns.dtype.name}, shape {list(sparse_csr_columns.shape)}"
        raise errors.bad(
            "sparse_attention(sparse_csr_columns)",
            f"an integer tensor of shape [{batch}, {heads}, nonzeros]",
            described=got,
        )
    for name, x, shape in (("key_padding_mask", key_padding_mask, (batch, rows)), ("attn_mask", attn_mask, (rows, rows))):
        if x is not None and x.shape != shape:
            raise errors.bad(f"sparse_attention({name})", f"shape {list(shape)}", described=f"shape {list(x.shape)}", kind=errors.ShapeError)
