"""Kernels for NVIDIA GPUs, written in Pallas: what a language model does for each token, which reads much and computes little.

A product of few rows takes the time that it takes to read the matrix. cuBLAS's proposals read the small ones at half of the
memory's rate on an H200; here the matrix is divided along both axes among all multiprocessors. Sums are made in the same
order whatever the number of rows, so that a row does not depend on the others.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

ROWS = 16  # of a tile of the tensor cores: fewer cost the same
MOST_ROWS = 64  # with more, multiplying takes longer than reading
LEAST = 1 << 20  # numbers of a matrix: smaller ones are read in no time
COLUMNS = 64  # of the matrix, for one block of threads
BLOCKS = 192  # of threads at least, where the matrix is large enough: an H200 has 132 multiprocessors
TOKENS = 128  # that are attended to together
SPAN = 512  # tokens for one block of threads


def takes_few_rows(rows: int, inner: int, columns: int, dtype: np.dtype) -> bool:
    """Whether `few_rows` multiplies such matrices."""
    fits = inner % COLUMNS == 0 and columns % COLUMNS == 0 and inner * columns >= LEAST
    return _is_half(dtype) and 0 < rows <= MOST_ROWS and fits


def _is_half(dtype):
    return dtype.itemsize == 2 and dtype.kind not in "iu"


def few_rows(x, matrix, transposed: bool, interpret: bool = False):
    """x @ matrix, or x @ matrix.T if it is given transposed, for few rows of half precision, summed in float32."""
    rows, inner = x.shape
    height = max(ROWS, 1 << (rows - 1).bit_length())
    columns = matrix.shape[0] if transposed else matrix.shape[1]
    parts = 1
    while columns // COLUMNS * parts < BLOCKS and inner % (parts * 2 * COLUMNS) == 0:
        parts *= 2
    part = inner // parts
    step = 128 if part >= 1024 and part % 128 == 0 else 64
    tile = (COLUMNS, part) if transposed else (part, COLUMNS)
    sums = pl.pallas_call(
        functools.partial(_few_rows, rows=rows, step=step, transposed=transposed),
        grid=(columns // COLUMNS, parts),
        in_specs=[
            pl.BlockSpec((height, part), lambda n, k: (0, k)),
            pl.BlockSpec(tile, (lambda n, k: (n, k)) if transposed else (lambda n, k: (k, n))),
        ],
        out_specs=pl.BlockSpec((None, height, COLUMNS), lambda n, k: (k, 0, n)),
        out_shape=jax.ShapeDtypeStruct((parts, height, columns), jnp.float32),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=3),
        interpret=interpret,
        name="few_rows",
    )(x, matrix)
    return jnp.sum(sums[:, :rows], axis=0).astype(x.dtype)


def _few_rows(x_ref, matrix_ref, out_ref, *, rows, step, transposed):
    height = x_ref.shape[0]
    there = jnp.broadcast_to((jnp.arange(height) < rows)[:, None], (height, step))

    def add(i, total):
        span = pl.ds(i * step, step)
        x = triton.load(x_ref.at[:, span], mask=there, other=0.0)
        matrix = matrix_ref[:, span] if transposed else matrix_ref[span, :]
        axes = ((1,), (1 if transposed else 0,)), ((), ())
        return total + lax.dot_general(x, matrix, axes, preferred_element_type=jnp.float32)

    steps = x_ref.shape[1] // step
    out_ref[...] = lax.fori_loop(0, steps, add, jnp.zeros((height, COLUMNS), jnp.float32))


def takes_pages(heads: int, pool: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether `attend_pages` takes so many heads of queries and such a pool."""
    group, width = heads // (pool[1] // 2), pool[3]
    return _is_half(dtype) and group <= ROWS and width in (32, 64, 128)


def attend_pages(query, new, pool, tables, places, scale: float, window: int, interpret: bool = False):
    """Attention of one query [rows, heads, width] to the keys of its text, and the pool with the newest ones.

    `new` [rows, 2 * key heads, width] holds the key and value of the query's own token, which are written into the pool
    [pages, 2 * key heads, tokens of a page, width]; rows at places below 0 are empty.
    """
    rows, heads, width = query.shape
    shared, size = pool.shape[1] // 2, pool.shape[2]
    group, spans = heads // shared, -(-tables.shape[1] * size // SPAN)
    one = pl.BlockSpec((None, None, None, ROWS, width), lambda r, h, s: (r, h, s, 0, 0))
    number = pl.BlockSpec((None, None, None, ROWS), lambda r, h, s: (r, h, s, 0))
    out, top, total, pool = pl.pallas_call(
        functools.partial(_attend_pages, group=group, scale=scale, window=window),
        grid=(rows, shared, spans),
        in_specs=[
            pl.BlockSpec((None, None, ROWS, width), lambda r, h, s: (r, h, 0, 0)),
            pl.BlockSpec((None, 2 * shared, width), lambda r, h, s: (r, 0, 0)),
            pl.BlockSpec((None, tables.shape[1]), lambda r, h, s: (r, 0)),
            pl.BlockSpec((1,), lambda r, h, s: (r,)),
            pl.BlockSpec(pool.shape, lambda r, h, s: (0, 0, 0, 0)),
        ],
        out_specs=[one, number, number, pl.BlockSpec(pool.shape, lambda r, h, s: (0, 0, 0, 0))],
        out_shape=[
            jax.ShapeDtypeStruct((rows, shared, spans, ROWS, width), jnp.float32),
            *[jax.ShapeDtypeStruct((rows, shared, spans, ROWS), jnp.float32)] * 2,
            jax.ShapeDtypeStruct(pool.shape, pool.dtype),
        ],
        input_output_aliases={4: 3},
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
        name="attend_pages",
    )(query.reshape(rows, shared, group, width), new.astype(pool.dtype), tables, places, pool)
    if spans > 1:
        less = jnp.exp(top - jnp.max(top, axis=2, keepdims=True))
        out, total = jnp.sum(out * less[..., None], axis=2), jnp.sum(total * less, axis=2)
    else:
        out, total = out[:, :, 0], total[:, :, 0]
    out = out[:, :, :group] / jnp.where(total == 0, np.float32(1), total)[:, :, :group, None]
    return out.reshape(rows, heads, width).astype(query.dtype), pool


def _attend_pages(
    query_ref, new_ref, table_ref, place_ref, pool_ref, out_ref, top_ref, total_ref, pool_out, *, group, scale, window
):
    head, span = pl.program_id(1), pl.program_id(2)
    shared, size, width = pool_ref.shape[1] // 2, pool_ref.shape[2], pool_ref.shape[3]
    there = jnp.broadcast_to((jnp.arange(ROWS) < group)[:, None], (ROWS, width))
    query = triton.load(query_ref.at[...], mask=there, other=0.0)
    place = place_ref[0]
    key, value = new_ref[head, :], new_ref[shared + head, :]
    # the query's own token belongs to the first span
    score = jnp.sum(query.astype(jnp.float32) * key.astype(jnp.float32)[None], axis=1) * scale
    own = (place >= 0) & (span == 0)
    top = jnp.where(own, score, jnp.float32(-1e30))
    total = jnp.where(own, jnp.ones(ROWS, jnp.float32), jnp.float32(0))
    out = jnp.where(own, jnp.broadcast_to(value.astype(jnp.float32)[None], (ROWS, width)), jnp.float32(0))
    first = jnp.maximum(place - window + 1, 0) if window else 0
    begin, end = jnp.maximum(first, span * SPAN), jnp.minimum(place, (span + 1) * SPAN)

    def attend(i, state):
        top, total, out = state
        at = begin + i * TOKENS + jnp.arange(TOKENS)
        seen = at < end
        at = jnp.where(seen, at, 0)
        mask = jnp.broadcast_to(seen[:, None], (TOKENS, width))
        page = jnp.broadcast_to(table_ref[at // size][:, None], (TOKENS, width))
        inner, column = jnp.broadcast_to((at % size)[:, None], (TOKENS, width)), _columns(TOKENS, width)
        keys = triton.load(pool_ref.at[page, jnp.full_like(page, head), inner, column], mask=mask, other=0.0)
        scores = lax.dot_general(query, keys, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32) * scale
        scores = jnp.where(seen[None], scores, jnp.float32(-1e30))
        higher = jnp.maximum(top, jnp.max(scores, axis=1))
        e = jnp.where(seen[None], jnp.exp(scores - higher[:, None]), jnp.float32(0))
        less = jnp.exp(top - higher)
        values = triton.load(pool_ref.at[page, jnp.full_like(page, shared + head), inner, column], mask=mask, other=0.0)
        more = lax.dot_general(e.astype(values.dtype), values, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)
        return higher, total * less + jnp.sum(e, axis=1), out * less[:, None] + more

    steps = (jnp.maximum(end - begin, 0) + TOKENS - 1) // TOKENS
    top, total, out = lax.fori_loop(0, steps, attend, (top, total, out))
    out_ref[...], top_ref[...], total_ref[...] = out, top, total
    at, column = jnp.full((width,), jnp.maximum(place, 0)), jnp.arange(width)
    page, inner, written = table_ref[at // size], at % size, jnp.broadcast_to(own, (width,))
    triton.store(pool_out.at[page, jnp.full_like(page, head), inner, column], key, mask=written)
    triton.store(pool_out.at[page, jnp.full_like(page, shared + head), inner, column], value, mask=written)


def _columns(rows, width):
    return jnp.broadcast_to(jnp.arange(width)[None], (rows, width))
