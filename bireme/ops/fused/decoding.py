"""What a language model does for the newest token of each text: products of few rows, attention to the pages of a cache.

Where a GPU has kernels for them, see `gpu_kernels`; elsewhere they are what `matmul` and `paged_attention` are.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.base.later import Later
from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor import grad_mode
from bireme.ops.fused import pages
from bireme.ops.linalg.matmul import matmul

kernels = Later("bireme.ops._shared.gpu_kernels")  # Pallas takes 0.3 s to import


@op(internal=True, differentiable=False, promote="x y", dtypes=FLOAT)
def few_rows_product(x: Tensor, y: Tensor, transpose_y: bool) -> Tensor:
    """`matmul` of few rows [rows, inner] and a large matrix."""
    return matmul.body(x, y, False, transpose_y)


@few_rows_product.infer
def _(x, y, transpose_y):
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1 if transpose_y else 0]:
        raise errors.bad(
            "few_rows_product(y)",
            f"a matrix for rows of shape {list(x.shape)}",
            described=f"shape {list(y.shape)}",
            kind=errors.ShapeError,
        )
    return sig_of((x.shape[0], y.shape[0 if transpose_y else 1]), x.dtype)


few_rows_product.flops(lambda x, y: x.shape[0] * y.size)


@few_rows_product.on("cuda")
def _(x, y, transpose_y):
    columns = y.shape[0 if transpose_y else 1]
    if not kernels.takes_few_rows(x.shape[0], x.shape[1], columns, x.dtype):
        return matmul.body(x, y, False, transpose_y)
    return kernels.few_rows(x, y, transpose_y)


def product(x: Tensor, y: Tensor, transpose_y: bool = False) -> Tensor:
    """`matmul`, by a kernel for few rows where there is one and nothing is derived."""
    device = devices.current()
    if grad_mode.state.grad or device.platform != "cuda" or device.several or y.ndim != 2 or x.ndim < 2:
        return matmul(x, y, transpose_y=transpose_y)
    rows = int(np.prod(x.shape[:-1]))
    if not kernels.takes_few_rows(rows, x.shape[-1], y.shape[0 if transpose_y else 1], x.dtype.np) or x.dtype != y.dtype:
        return matmul(x, y, transpose_y=transpose_y)
    found = few_rows_product(x.reshape([rows, x.shape[-1]]), y, transpose_y)
    return found.reshape([*x.shape[:-1], found.shape[1]])


@op(internal=True, differentiable=False, dtypes=FLOAT, rows_apart=True)
def attend_newest(
    query: Tensor, new: Tensor, pool: Tensor, tables: Tensor, places: Tensor, scale: float, window: int
) -> tuple[Tensor, Tensor]:
    """Attention of the newest token of each text, and the pool with its key and value: `write_pages`, then
    `paged_attention`, for queries [batch, heads, width] and `new` [batch, 2 * key heads, width] at places [batch].
    """
    at = places[:, None]
    pool = pages.write_pages.body(pool, new[:, None], tables, at)
    return pages.paged_attention.body(query[:, None], pool, tables, at, scale, window)[:, 0], pool


attend_newest.infer(lambda query, pool: (query, pool))


@attend_newest.check
def _(query, new, pool, tables, places):
    rows, heads = query.shape[0], pool.shape[1] // 2 if pool.ndim == 4 else 0
    fits = query.ndim == 3 and pool.ndim == 4 and places.shape == (rows,) and tables.ndim == 2
    if not fits or query.shape[1] % heads or new.shape != (rows, *pool.shape[1::2]) or tables.shape[0] != rows:
        raise errors.bad(
            "attend_newest(new)",
            "queries [batch, heads, width], keys and values [batch, 2 * key heads, width], a pool [pages, 2 * key heads, "
            "tokens, width], tables [batch, pages] and places [batch]",
            described=f"shapes {', '.join([str(list(s.shape)) for s in (query, new, pool, tables, places)])}",
            kind=errors.ShapeError,
        )


@attend_newest.on("cuda")
def _(query, new, pool, tables, places, scale, window):
    if not kernels.takes_pages(query.shape[1], pool.shape, pool.dtype) or query.dtype != pool.dtype:
        return attend_newest.body(query, new, pool, tables, places, scale, window)
    return kernels.attend_pages(query, new, pool, tables.astype(jnp.int32), places.astype(jnp.int32), scale, window)
