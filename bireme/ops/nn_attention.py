"""Attention."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bireme.core import errors
from bireme.core.dtype import FLOAT
from bireme.core.op import Extra, Tensor, composite, op
from bireme.ops import random


def _scores(query, key, causal, mask):
    """Scaled products of queries and keys, [batch, heads, queries, keys], masked."""
    q, k = jnp.transpose(query, (0, 2, 1, 3)), jnp.transpose(key, (0, 2, 1, 3))
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * np.asarray(1 / math.sqrt(query.shape[-1]), query.dtype)
    s = s.astype(jnp.float32) if s.dtype.itemsize < 4 else s
    if mask is not None:
        s = jnp.where(mask, s, np.asarray(-1e9, s.dtype)) if mask.dtype == jnp.bool_ else s + mask.astype(s.dtype)
    if causal:
        rows, columns = s.shape[-2:]
        below = jnp.arange(rows)[:, None] >= jnp.arange(columns)[None, :]
        s = jnp.where(below, s, np.asarray(-np.inf, s.dtype))
    return s


def _weights(s):
    e = jnp.exp(s - jnp.max(s, axis=-1, keepdims=True))
    return e / jnp.sum(e, axis=-1, keepdims=True)


def _attend(query, key, value, mask, causal):
    p = _weights(_scores(query, key, causal, mask)).astype(value.dtype)
    return jnp.einsum("bhqk,bhkd->bqhd", p, jnp.transpose(value, (0, 2, 1, 3)))


@op(dtypes=FLOAT, amp="low")
def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Softmax attention on [batch, sequence, heads, width]; use `scaled_dot_product_attention`.

    >>> q = bireme.ones([1, 2, 1, 4])
    >>> bireme.nn.functional.scaled_dot_product_attention(q, q, q).shape
    [1, 2, 1, 4]
    """
    return _attend(query, key, value, mask, causal)


attention.infer(lambda query: query)


def _fused(query, mask, causal):
    """cuDNN's kernel as a function of queries, keys and values; None where dtype, width or a mask rule it out."""
    if query.dtype.itemsize != 2 or query.shape[-1] % 8 or query.shape[-1] > 128 or mask is not None or 0 in query.shape:
        return None
    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="cudnn")


@attention.on("cuda")
def _(query, key, value, mask, causal):
    fused = _fused(query, mask, causal)
    if fused is None:
        return _attend(query, key, value, mask, causal)
    # called as its own forward rule: the call in backward is then the very same one, and XLA computes it once
    return jax.vjp(fused, query, key, value)[0]


@attention.grad
def _(g, query, key, value, mask, causal, platform):
    fused = _fused(query, mask, causal) if platform == "cuda" else None
    if fused is not None:
        return jax.vjp(fused, query, key, value)[1](g)
    if mask is None or mask.dtype == jnp.bool_:
        grads = jax.vjp(lambda q, k, v: _attend(q, k, v, mask, causal), query, key, value)[1](g)
        return (*grads, None)[: 3 if mask is None else 4]
    return jax.vjp(lambda q, k, v, m: _attend(q, k, v, m, causal), query, key, value, mask)[1](g)


@attention.check
def _(query, key, value):
    for name, s in (("query", query), ("key", key), ("value", value)):
        if s.ndim != 4:
            raise errors.bad(f"scaled_dot_product_attention({name})", "shape [batch, sequence, heads, width]", f"shape {list(s.shape)}")
    if key.shape != value.shape[:3] + key.shape[3:] or query.shape[3] != key.shape[3] or query.shape[0] != key.shape[0]:
        got = f"shapes {list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        raise errors.bad("scaled_dot_product_attention(key, value)", "keys and values of one length that match the query", got)
    if query.shape[2] != key.shape[2]:
        raise errors.bad("scaled_dot_product_attention(key)", f"{query.shape[2]} heads, as the query has", f"{key.shape[2]}")


@composite(plain=True)
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, training: bool = True, name: Extra = None,
                                 backend: Any = None) -> Tensor:  # fmt: skip
    """Attention on [batch, sequence, heads, width]; a bool mask keeps where it is true, another is added to the scores.

    >>> q = bireme.ones([1, 2, 1, 4])
    >>> bireme.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).shape
    [1, 2, 1, 4]
    """
    if not 0 <= dropout_p <= 1:
        raise errors.bad("scaled_dot_product_attention(dropout_p)", "a probability in [0, 1]", dropout_p)
    out = attention(query, key, value, attn_mask, is_causal) if not (dropout_p and training) else None
    return out if out is not None else _dropped(query, key, value, attn_mask, dropout_p, is_causal)


@op(dtypes=FLOAT)
def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Softmax of the scaled products of queries and keys: what dropout is applied to.

    >>> q = bireme.ones([1, 2, 1, 4])
    >>> bireme.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5, training=False).shape
    [1, 2, 1, 4]
    """
    return _weights(_scores(query, key, causal, mask)).astype(query.dtype)


def _dropped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float, causal: bool) -> Tensor:
    weights = random.dropout(attention_weights(query, key, mask, causal), p)
    return (weights @ value.transpose([0, 2, 1, 3])).transpose([0, 2, 1, 3])
