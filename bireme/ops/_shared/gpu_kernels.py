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
GATED = 64  # the same of each half, where one gates the other
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
    return jnp.sum(_sums(x, matrix, transposed, interpret)[:, : x.shape[0]], axis=0).astype(x.dtype)


def _sums(x, matrix, transposed, interpret):
    """Sums of products over parts of the inner axis, [parts, rows or more, columns]."""
    (rows, inner), columns, height = x.shape, matrix.shape[0 if transposed else 1], _height(x.shape[0])
    parts = 1
    while columns // COLUMNS * parts < BLOCKS and inner % (parts * 2 * COLUMNS) == 0:
        parts *= 2
    part = inner // parts
    tile = (COLUMNS, part) if transposed else (part, COLUMNS)
    return pl.pallas_call(
        functools.partial(_few_rows, rows=rows, transposed=transposed),
        grid=(columns // COLUMNS, parts),
        in_specs=[
            pl.BlockSpec((height, part), lambda n, k: (0, k)),
            pl.BlockSpec(tile, (lambda n, k: (n, k)) if transposed else (lambda n, k: (k, n))),
        ],
        out_specs=pl.BlockSpec((None, height, COLUMNS), lambda n, k: (k, 0, n)),
        out_shape=jax.ShapeDtypeStruct((parts, height, columns), jnp.float32),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=4),
        interpret=interpret,
        name="few_rows",
    )(x, matrix)


def _height(rows):
    """Rows of a tile that holds so many."""
    return max(ROWS, 1 << (rows - 1).bit_length())


def _few_rows(x_ref, matrix_ref, out_ref, *, rows, transposed):
    out_ref[...] = _products(x_ref, [matrix_ref], rows, transposed)[0]


def _products(x_ref, refs, rows, transposed=False):
    """Products of a block of rows and blocks of matrices, step by step along the inner axis."""
    height, inner = x_ref.shape
    columns = refs[0].shape[0 if transposed else 1]
    step = 128 if inner >= 1024 and inner % 128 == 0 else 64
    there = jnp.broadcast_to((jnp.arange(height) < rows)[:, None], (height, step))

    def add(i, totals):
        span = pl.ds(i * step, step)
        x = triton.load(x_ref.at[:, span], mask=there, other=0.0)
        blocks = [ref[:, span] if transposed else ref[span, :] for ref in refs]
        return tuple(total + _dot(x, block, 1 if transposed else 0) for total, block in zip(totals, blocks))

    return lax.fori_loop(0, inner // step, add, tuple(jnp.zeros((height, columns), jnp.float32) for _ in refs))


def gated(x, matrix, interpret: bool = False):
    """silu(x @ left) * (x @ right) for the two halves of a matrix; rounded where operators one after another would."""
    (rows, inner), columns, height = x.shape, matrix.shape[1] // 2, _height(x.shape[0])
    wide = columns // GATED
    return pl.pallas_call(
        functools.partial(_gated, rows=rows),
        grid=(wide,),
        in_specs=[
            pl.BlockSpec((height, inner), lambda n: (0, 0)),
            pl.BlockSpec((inner, GATED), lambda n: (0, n)),
            pl.BlockSpec((inner, GATED), lambda n: (0, n + wide)),
        ],
        out_specs=pl.BlockSpec((height, GATED), lambda n: (0, n)),
        out_shape=jax.ShapeDtypeStruct((height, columns), x.dtype),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=4),
        interpret=interpret,
        name="gated",
    )(x, matrix, matrix)[:rows]


def _gated(x_ref, left_ref, right_ref, out_ref, *, rows):
    kind = out_ref.dtype
    gate, up = [t.astype(kind).astype(jnp.float32) for t in _products(x_ref, (left_ref, right_ref), rows)]
    gate = (gate / (1 + jnp.exp(-gate))).astype(kind).astype(jnp.float32)
    out_ref[...] = (gate * up).astype(kind)


def product_added(x, matrix, residual, weight, epsilon: float, interpret: bool = False):
    """residual + x @ matrix, and that divided by the root of its mean square, times a weight."""
    sums = _sums(x, matrix, False, interpret)
    rows, width = residual.shape
    one = pl.BlockSpec((None, width), lambda r: (r, 0))
    return pl.pallas_call(
        functools.partial(_added, epsilon=epsilon),
        grid=(rows,),
        in_specs=[
            pl.BlockSpec((sums.shape[0], None, width), lambda r: (0, r, 0)),
            one,
            pl.BlockSpec((width,), lambda r: (0,)),
        ],
        out_specs=[one, one],
        out_shape=[jax.ShapeDtypeStruct(residual.shape, residual.dtype)] * 2,
        compiler_params=triton.CompilerParams(num_warps=8, num_stages=1),
        interpret=interpret,
        name="added_norm",
    )(sums, residual, weight)


def _added(sums_ref, residual_ref, weight_ref, out_ref, normed_ref, *, epsilon):
    parts, width = sums_ref.shape
    kind = out_ref.dtype
    at = jnp.arange(1 << (width - 1).bit_length())  # Triton's tiles are powers of two
    there = at < width

    def read(ref, *index):
        return triton.load(ref.at[*index, at], mask=there, other=0.0).astype(jnp.float32)

    made = functools.reduce(jnp.add, [read(sums_ref, jnp.full_like(at, part)) for part in range(parts)])
    out = (read(residual_ref) + made.astype(kind).astype(jnp.float32)).astype(kind)
    wide = out.astype(jnp.float32)
    scale = 1 / jnp.sqrt(jnp.sum(wide * wide) / width + epsilon)
    triton.store(out_ref.at[at], out, mask=there)
    triton.store(normed_ref.at[at], (wide * scale * read(weight_ref)).astype(kind), mask=there)


def takes_pages(heads: int, pool: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether `attend_pages` takes so many heads of queries and such a pool."""
    group, width = heads // (pool[1] // 2), pool[3]
    return _is_half(dtype) and group <= ROWS and width in (32, 64, 128)


def attend_pages(made, rotation, pool, tables, places, scale: float, window: int, interpret: bool = False):
    """Attention of the newest token of each text to the others, and the pool with its key and value.

    `made` [rows, heads + 2 * key heads, width] holds its queries, keys and values, which `rotation`, cosines and sines
    [rows, width], turns, if there is one. Keys and values are written into the pool [pages, 2 * key heads, tokens of a
    page, width]; rows at places below 0 are empty.
    """
    rows, all_heads, width = made.shape
    shared, size = pool.shape[1] // 2, pool.shape[2]
    heads = all_heads - 2 * shared
    group, spans = heads // shared, -(-tables.shape[1] * size // SPAN)
    whole = pl.BlockSpec(pool.shape, lambda r, h, s: (0, 0, 0, 0))
    row = pl.BlockSpec((None, width), lambda r, h, s: (r, 0))
    one = pl.BlockSpec((None, None, group, width), lambda r, h, s: (r, h, s, 0))
    number = pl.BlockSpec((None, None, group), lambda r, h, s: (r, h, s))
    numbers = jax.ShapeDtypeStruct((rows, shared, spans * group), jnp.float32)
    out, top, total, pool = pl.pallas_call(
        functools.partial(_attend_pages, group=group, scale=scale, window=window, turns=bool(rotation)),
        grid=(rows, shared, spans),
        in_specs=[
            pl.BlockSpec((None, all_heads, width), lambda r, h, s: (r, 0, 0)),
            row,
            row,
            pl.BlockSpec((None, tables.shape[1]), lambda r, h, s: (r, 0)),
            pl.BlockSpec((1,), lambda r, h, s: (r,)),
            whole,
        ],
        out_specs=[one, number, number, whole],
        out_shape=[
            jax.ShapeDtypeStruct((rows, shared, spans * group, width), made.dtype if spans == 1 else jnp.float32),
            numbers,
            numbers,
            jax.ShapeDtypeStruct(pool.shape, pool.dtype),
        ],
        input_output_aliases={5: 3},
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
        name="attend_pages",
    )(made, *(rotation or [jnp.zeros((rows, width), jnp.float32)] * 2), tables, places, pool)
    if spans > 1:
        out, top, total = [t.reshape(rows, shared, spans, group, *t.shape[3:]) for t in (out, top, total)]
        less = jnp.exp(top - jnp.max(top, axis=2, keepdims=True))
        out, total = jnp.sum(out * (total * less)[..., None], axis=2), jnp.sum(total * less, axis=2)
        out = (out / jnp.where(total == 0, np.float32(1), total)[..., None]).astype(made.dtype)
    return out.reshape(rows, heads, width), pool


def _attend_pages(
    made_ref, cos_ref, sin_ref, table_ref, place_ref, pool_ref, out_ref, top_ref, total_ref, pool_out,
    *, group, scale, window, turns,
):  # fmt: skip
    head, span = pl.program_id(1), pl.program_id(2)
    shared, size, width = pool_ref.shape[1] // 2, pool_ref.shape[2], pool_ref.shape[3]
    heads, half, kind = shared * group, width // 2, pool_ref.dtype
    place = place_ref[0]
    own = (place >= 0) & (span == 0)  # the newest token belongs to the first span
    there = jnp.arange(ROWS) < group

    def halves(rows, mask):
        """Both halves of vectors of `made`, as they are turned."""
        shape = rows.shape[0], half
        at, mask = jnp.broadcast_to(rows[:, None], shape), jnp.broadcast_to(mask[:, None], shape)
        column = jnp.broadcast_to(jnp.arange(half)[None], shape)
        first, second = [
            triton.load(made_ref.at[at, column + start], mask=mask, other=0.0).astype(jnp.float32)
            for start in (0, half)
        ]
        if not turns:
            return first, second
        cos, sin = [[ref[pl.ds(start, half)][None] for start in (0, half)] for ref in (cos_ref, sin_ref)]
        turned = first * cos[0] - second * sin[0], second * cos[1] + first * sin[1]
        return [t.astype(kind).astype(jnp.float32) for t in turned]

    query = halves(jnp.where(there, head * group + jnp.arange(ROWS), 0), there)
    key = halves(jnp.full((1,), heads + head), jnp.full((1,), True))
    value = made_ref[heads + shared + head, :]
    score = (jnp.sum(query[0] * key[0], axis=1) + jnp.sum(query[1] * key[1], axis=1)) * scale
    top = jnp.where(own, score, jnp.float32(-1e30))
    total = jnp.where(own, jnp.ones(ROWS, jnp.float32), jnp.float32(0))
    out = jnp.where(own, jnp.broadcast_to(value.astype(jnp.float32)[None], (ROWS, width)), jnp.float32(0))
    query = [t.astype(kind) for t in query]
    first = jnp.maximum(place - window + 1, 0) if window else 0
    begin, end = jnp.maximum(first, span * SPAN), jnp.minimum(place, (span + 1) * SPAN)

    def attend(i, state):
        top, total, out = state
        at = begin + i * TOKENS + jnp.arange(TOKENS)
        seen = at < end
        at = jnp.where(seen, at, 0)
        page, inner = table_ref[at // size], at % size

        def read(which, start, columns):
            shape = TOKENS, columns
            place = [jnp.broadcast_to(t[:, None], shape) for t in (page, jnp.full_like(page, which), inner)]
            column = start + jnp.broadcast_to(jnp.arange(columns)[None], shape)
            mask = jnp.broadcast_to(seen[:, None], shape)
            return triton.load(pool_ref.at[*place, column], mask=mask, other=0.0)

        scores = sum(_dot(q, read(head, start, half), 1) for q, start in zip(query, (0, half))) * scale
        scores = jnp.where(seen[None], scores, jnp.float32(-1e30))
        higher = jnp.maximum(top, jnp.max(scores, axis=1))
        e = jnp.where(seen[None], jnp.exp(scores - higher[:, None]), jnp.float32(0))
        less = jnp.exp(top - higher)
        more = _dot(e.astype(kind), read(shared + head, 0, width), 0)
        return higher, total * less + jnp.sum(e, axis=1), out * less[:, None] + more

    steps = (jnp.maximum(end - begin, 0) + TOKENS - 1) // TOKENS
    top, total, out = lax.fori_loop(0, steps, attend, (top, total, out))
    out = out / jnp.where(total == 0, jnp.float32(1), total)[:, None]
    row, column = jnp.arange(ROWS), jnp.arange(width)
    both = jnp.broadcast_to(row[:, None], out.shape), jnp.broadcast_to(column[None], out.shape)
    triton.store(out_ref.at[both], out.astype(out_ref.dtype), mask=jnp.broadcast_to(there[:, None], out.shape))
    triton.store(top_ref.at[row], top, mask=there)
    triton.store(total_ref.at[row], total, mask=there)

    def write(which, start, values):
        at = jnp.full(values.shape, jnp.maximum(place, 0))
        where = table_ref[at // size], jnp.full_like(at, which), at % size, start + jnp.arange(values.shape[0])
        triton.store(pool_out.at[where], values.astype(kind), mask=jnp.broadcast_to(own, values.shape))

    write(head, 0, key[0][0])
    write(head, half, key[1][0])
    write(shared + head, 0, value)


def _dot(x, y, axis):
    """x @ y, or x @ y.T if the axis of y that is summed over is 1."""
    return lax.dot_general(x, y, (((1,), (axis,)), ((), ())), preferred_element_type=jnp.float32)
