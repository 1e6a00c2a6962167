"""What a language model does for the newest token of each text: products of few rows, attention to the pages of a cache.

Where a GPU has kernels for them, see `gpu_kernels`; elsewhere they are what `matmul`, `rms_norm_of` and `paged_attention` are.
"""

from __future__ import annotations

import math

import jax.numpy as jnp

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.base.later import Later
from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor import grad_mode
from bireme.ops._shared.precision import widen
from bireme.ops.fused import pages, rotary
from bireme.ops.fused.norm import rms_norm_of
from bireme.ops.linalg.matmul import matmul

kernels = Later("bireme.ops._shared.gpu_kernels")  # Pallas takes 0.3 s to import


def applies(x: Tensor, y: Tensor, transpose_y: bool = False) -> bool:
    """Whether a product of rows and a matrix is one of few rows that there is a kernel for, and nothing is derived."""
    device = devices.current()
    if grad_mode.state.grad or device.platform != "cuda" or device.several:
        return False
    if y.ndim != 2 or x.ndim < 2 or x.dtype != y.dtype:
        return False
    columns = y.shape[0 if transpose_y else 1]
    return bool(kernels.takes_few_rows(math.prod(x.shape[:-1]), x.shape[-1], columns, x.dtype.np))


def _check(name, x, y, inner):
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != inner:
        raise errors.bad(
            f"{name}(y)",
            f"a matrix for rows of shape {list(x.shape)}",
            described=f"shape {list(y.shape)}",
            kind=errors.ShapeError,
        )


# ---------------------------------------------------------------- products


@op(internal=True, differentiable=False, promote="x y", dtypes=FLOAT)
def few_rows_product(x: Tensor, y: Tensor, transpose_y: bool) -> Tensor:
    """`matmul` of few rows [rows, inner] and a large matrix."""
    return matmul.body(x, y, False, transpose_y)


@few_rows_product.infer
def _(x, y, transpose_y):
    _check("few_rows_product", x, y, y.shape[-1 if transpose_y else 0] if y.ndim else 0)
    return sig_of((x.shape[0], y.shape[0 if transpose_y else 1]), x.dtype)


few_rows_product.flops(lambda x, y: x.shape[0] * y.size)


@few_rows_product.on("cuda")
def _(x, y, transpose_y):
    if not kernels.takes_few_rows(*x.shape, y.shape[0 if transpose_y else 1], x.dtype):
        return few_rows_product.body(x, y, transpose_y)
    return kernels.few_rows(x, y, transpose_y)


def product(x: Tensor, y: Tensor, transpose_y: bool = False) -> Tensor:
    """`matmul`, by a kernel for few rows where there is one."""
    if not applies(x, y, transpose_y):
        return matmul(x, y, transpose_y=transpose_y)
    found = few_rows_product(x.flatten(0, -2), y, transpose_y)
    return found.reshape([*x.shape[:-1], found.shape[1]])


@op(internal=True, differentiable=False, promote="x y", dtypes=FLOAT)
def gated_product(x: Tensor, y: Tensor) -> Tensor:
    """`silu` of the product of few rows [rows, inner] and the left half of a matrix, times that with the right half."""
    made = matmul.body(x, y, False, False)
    left, right = jnp.split(made, 2, axis=1)
    wide = widen(left)
    return (wide / (1 + jnp.exp(-wide))).astype(x.dtype) * right


@gated_product.infer
def _(x, y):
    _check("gated_product", x, y, y.shape[0] if y.ndim else 0)
    if y.shape[1] % 2:
        raise errors.bad("gated_product(y)", "an even number of columns", y.shape[1], kind=errors.ShapeError)
    return sig_of((x.shape[0], y.shape[1] // 2), x.dtype)


gated_product.flops(lambda x, y: x.shape[0] * y.size)


@gated_product.on("cuda")
def _(x, y):
    fits = kernels.takes_few_rows(*x.shape, y.shape[1] // 2, x.dtype)
    return kernels.gated(x, y) if fits else gated_product.body(x, y)


@op(internal=True, differentiable=False, promote="x y residual", dtypes=FLOAT)
def product_added(x: Tensor, y: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The product of few rows and a matrix added to a residual, and that divided by the root of its mean square."""
    out = residual + matmul.body(x, y, False, False)
    return out, rms_norm_of.body(out, weight, None, jnp.asarray(epsilon, jnp.float32), [1])


@product_added.infer
def _(x, y, residual, weight):
    _check("product_added", x, y, y.shape[0] if y.ndim else 0)
    if residual.shape != (x.shape[0], y.shape[1]) or weight.shape != (y.shape[1],):
        raise errors.bad(
            "product_added(residual)",
            f"shape {[x.shape[0], y.shape[1]]} with a weight of shape [{y.shape[1]}]",
            described=f"shapes {list(residual.shape)} and {list(weight.shape)}",
            kind=errors.ShapeError,
        )
    return residual, residual


product_added.flops(lambda x, y, residual, weight: x.shape[0] * y.size)


@product_added.on("cuda")
def _(x, y, residual, weight, epsilon):
    if not kernels.takes_few_rows(*x.shape, y.shape[1], x.dtype):
        return product_added.body(x, y, residual, weight, epsilon)
    return kernels.product_added(x, y, residual, weight, epsilon)


# ---------------------------------------------------------------- attention


@op(internal=True, differentiable=False, dtypes=FLOAT, rows_apart=True)
def attend_newest(
    made: Tensor,
    rotation: list[Tensor],
    pool: Tensor,
    tables: Tensor,
    places: Tensor,
    scale: float,
    window: int,
) -> tuple[Tensor, Tensor]:
    """Attention of the newest token of each text, and the pool with its key and value: `turned`, `write_pages`, then
    `paged_attention`.

    `made` [batch, heads + 2 * key heads, width] holds queries, keys and values, `rotation` the cosines and sines [batch,
    width] that turn queries and keys, or nothing; places are [batch].
    """
    shared, at = pool.shape[1] // 2, places[:, None]
    turns, value = made[:, :-shared], made[:, -shared:]
    if rotation:
        turns = rotary.turned.body(turns, *[t[:, None] for t in rotation], False)
    query, key = turns[:, :-shared], turns[:, -shared:]
    pool = pages.write_pages.body(pool, jnp.concatenate([key, value], 1)[:, None], tables, at)
    return pages.paged_attention.body(query[:, None], pool, tables, at, scale, window)[:, 0], pool


@attend_newest.infer
def _(made, pool):
    return sig_of((made.shape[0], made.shape[1] - pool.shape[1], made.shape[2]), made.dtype), pool


@attend_newest.check
def _(made, rotation, pool, tables, places):
    batch, both = made.shape[0] if made.ndim == 3 else 0, pool.shape[1] if pool.ndim == 4 else 0
    fits = made.ndim == 3 and pool.ndim == 4 and tables.ndim == 2 and tables.shape[0] == batch
    heads, width = (made.shape[1] - both, pool.shape[3]) if fits else (0, 0)
    turned = [t.shape for t in rotation] in ([], [(batch, width)] * 2)
    if not fits or places.shape != (batch,) or made.shape[2] != width or heads < 1 or heads % (both // 2) or not turned:
        raise errors.bad(
            "attend_newest(made)",
            "[batch, heads + 2 * key heads, width], a pool [pages, 2 * key heads, tokens, width], tables [batch, pages], "
            "places [batch] and cosines and sines [batch, width]",
            described=f"shapes {', '.join([str(list(s.shape)) for s in (made, pool, tables, places, *rotation)])}",
            kind=errors.ShapeError,
        )


@attend_newest.on("cuda")
def _(made, rotation, pool, tables, places, scale, window):
    if not kernels.takes_pages(made.shape[1] - pool.shape[1], pool.shape, pool.dtype) or made.dtype != pool.dtype:
        return attend_newest.body(made, rotation, pool, tables, places, scale, window)
    given = [t.astype(jnp.float32) for t in rotation]
    return kernels.attend_pages(made, given, pool, tables.astype(jnp.int32), places.astype(jnp.int32), scale, window)
