"""Attention with keys and values in pages, for language models: a table says which pages hold the tokens of a row.

What a row gets does not depend on the other rows, to the bit: on a CPU, keys are gone through in blocks at fixed places, and
blocks that only other rows have change nothing.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of

BLOCK = 128  # tokens that are looked at together


@op(internal=True, differentiable=False, dtypes=FLOAT)
def write_pages(pool: Tensor, rows: Tensor, tables: Tensor, places: Tensor) -> Tensor:
    """A pool [pages, heads, tokens of a page, width] with rows [batch, tokens, heads, width] at their places [batch,
    tokens] of the texts whose pages the tables [batch, pages of a text] name; places below 0 are nowhere. The heads are
    those of keys, then those of values.
    """
    size = pool.shape[2]
    page = jnp.take_along_axis(tables, jnp.clip(places // size, 0, tables.shape[1] - 1), axis=1)
    page = jnp.where(places < 0, pool.shape[0], page)
    return pool.at[page, :, places % size].set(rows.astype(pool.dtype), mode="drop")


write_pages.infer(lambda pool: pool)


@write_pages.check
def _(pool, rows, tables, places):
    check("write_pages", pool, tables, places)
    if rows.shape != (*places.shape, pool.shape[1], pool.shape[3]):
        raise errors.bad(
            "write_pages(rows)",
            f"shape {[*places.shape, pool.shape[1], pool.shape[3]]}",
            described=f"shape {list(rows.shape)}",
            kind=errors.ShapeError,
        )


def check(where, pool, tables, places):
    """What must hold of a pool, tables and places."""
    if pool.ndim != 4 or tables.ndim != 2 or places.ndim != 2 or tables.shape[0] != places.shape[0]:
        raise errors.bad(
            f"{where}(tables)",
            "a pool [pages, heads, tokens, width], tables [batch, pages] and places [batch, tokens]",
            described=f"shapes {list(pool.shape)}, {list(tables.shape)} and {list(places.shape)}",
            kind=errors.ShapeError,
        )


def _seen(keys, places, window):
    """Which keys, at these places, each query [batch, 1, tokens] sees; none where its own place is below 0."""
    seen = keys <= places[:, None, :, None]
    return seen & (keys > places[:, None, :, None] - window) if window else seen


def _grouped(query, heads):
    """Queries [batch, tokens, heads, width] by heads of the keys, [batch, heads, group * tokens, width]."""
    batch, tokens, own, width = query.shape
    by_head = jnp.transpose(query.reshape(batch, tokens, heads, own // heads, width), (0, 2, 3, 1, 4))
    return by_head.reshape(batch, heads, own // heads * tokens, width)


def _back(out, query):
    batch, tokens, own, width = query.shape
    heads = out.shape[1]
    out = jnp.transpose(out.reshape(batch, heads, own // heads, tokens, width), (0, 3, 1, 2, 4))
    return out.reshape(batch, tokens, own, width).astype(query.dtype)


def _width(query):
    """The type that is computed in."""
    return np.dtype(np.float64 if query.dtype == np.float64 else np.float32)


def _scores(query, keys, seen, scale):
    kind = _width(query)
    s = jnp.einsum("bhqd,bhnd->bhqn", query, keys, preferred_element_type=kind) * kind.type(scale)
    group = query.shape[2] // seen.shape[2]
    seen = jnp.broadcast_to(seen[:, :, None], (*seen.shape[:2], group, *seen.shape[2:])).reshape(
        seen.shape[0], 1, query.shape[2], -1
    )
    return jnp.where(seen, s, kind.type(-np.inf))


@op(internal=True, differentiable=False, dtypes=FLOAT, rows_apart=True)
def paged_attention(query: Tensor, pool: Tensor, tables: Tensor, places: Tensor, scale: float, window: int) -> Tensor:
    """Attention of queries [batch, tokens, heads, width] at their places to all keys of their texts up to there, or to
    the last `window` of them; nothing for places below 0.
    """
    found = jnp.moveaxis(pool.at[tables].get(mode="clip"), 2, 1)
    batch, both, pages, size, width = found.shape
    heads = both // 2
    k, v = jnp.split(found.reshape(batch, both, pages * size, width), 2, axis=1)
    at = jnp.arange(pages * size, dtype=np.int32)[None, None, None]
    s = _scores(_grouped(query, heads), k, _seen(at, places, window), scale)
    top = jnp.max(s, axis=-1, keepdims=True)
    e = jnp.exp(s - jnp.where(top == -np.inf, s.dtype.type(0), top))
    total = jnp.sum(e, axis=-1, keepdims=True)
    weights = (e / jnp.where(total == 0, s.dtype.type(1), total)).astype(v.dtype)
    return _back(jnp.einsum("bhqn,bhnd->bhqd", weights, v, preferred_element_type=s.dtype), query)


paged_attention.infer(lambda query: sig_of(query.shape, query.dtype))


@paged_attention.check
def _(query, pool, tables, places):
    check("paged_attention", pool, tables, places)
    heads = pool.shape[1] // 2
    if query.ndim != 4 or query.shape[:2] != places.shape or query.shape[2] % heads or query.shape[3] != pool.shape[3]:
        raise errors.bad(
            "paged_attention(query)",
            f"shape [{', '.join(map(str, places.shape))}, a multiple of {heads}, {pool.shape[3]}]",
            described=f"shape {list(query.shape)}",
            kind=errors.ShapeError,
        )


@paged_attention.on("cpu")
def _(query, pool, tables, places, scale, window):
    """Block by block, with as many of them as the longest text has: weights so far are scaled down when a larger score
    comes. A block of which a row sees nothing multiplies by 1 and adds 0.
    """
    heads, size = pool.shape[1] // 2, pool.shape[2]
    many = max(BLOCK // size, 1)  # pages in a block
    block = many * size if size <= BLOCK else math.gcd(size, BLOCK)
    kind = _width(query)
    q = _grouped(query, heads).astype(kind)
    batch, _, rows, width = q.shape

    def part(i):
        """Keys and values of a block, [batch, heads, tokens, width]."""
        if size <= BLOCK:
            pages = tables[:, jnp.clip(i * many + jnp.arange(many), 0, tables.shape[1] - 1)]
            found = jnp.moveaxis(pool.at[pages].get(mode="clip"), 2, 1)
        else:
            cut = pool.reshape(pool.shape[0], 2 * heads, size // block, block, width)
            page, inner = i // (size // block), i % (size // block)
            found = cut.at[lax.dynamic_index_in_dim(tables, page, 1, False), :, inner].get(mode="clip")
        return jnp.split(found.reshape(batch, 2 * heads, block, width).astype(kind), 2, axis=1)

    def step(i, state):
        top, total, out = state
        at = (i * block + jnp.arange(block, dtype=np.int32))[None, None, None]
        k, v = part(i)
        s = _scores(q, k, _seen(at, places, window), scale)
        higher = jnp.maximum(top, jnp.max(s, axis=-1))
        safe = jnp.where(higher == -np.inf, kind.type(0), higher)
        e = jnp.exp(s - safe[..., None])
        less = jnp.exp(top - safe)
        out = out * less[..., None] + jnp.einsum("bhqn,bhnd->bhqd", e, v)
        return higher, total * less + jnp.sum(e, axis=-1), out

    start = (
        jnp.full((batch, heads, rows), -np.inf, kind),
        jnp.zeros((batch, heads, rows), kind),
        jnp.zeros((batch, heads, rows, width), kind),
    )
    first = np.int32(0)
    if window:
        least = jnp.min(jnp.where(places < 0, np.int32(2**31 - 1), places))
        first = jnp.maximum(least - window + 1, 0) // block
    last = (jnp.max(places) + block) // block
    _, total, out = lax.fori_loop(first, last.astype(np.int32), step, start)
    return _back(out / jnp.where(total == 0, kind.type(1), total)[..., None], query)


@op(internal=True, differentiable=False)
def put_row(x: Tensor, row: Tensor, place: Tensor) -> Tensor:
    """A matrix with another row at a place, given as one integer."""
    return lax.dynamic_update_slice(x, row[None].astype(x.dtype), (place[0], np.int32(0)))


put_row.infer(lambda x: x)
