"""Kernels for NVIDIA GPUs, written in Pallas: the loss of a language model over its words, which are many.

The logits of a batch are the largest array of such a network (16 texts of 1,024 words of 50,304: 1.6 GB in bfloat16). XLA
reads them once for the largest and once for the sum, and keeps their gradient beside them. Here both come in one
reading, and the gradient is written over the logits where nobody wants these any more.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

BLOCK = 4096  # classes that a block of threads reads at a time


def log_sums(x, interpret: bool = False):
    """Log-sum-exp of each row as two numbers in float32: the largest, and the logarithm of the rest."""
    rows, classes = x.shape
    number = pl.BlockSpec((1,), lambda r: (r,))
    top, total = pl.pallas_call(
        functools.partial(_log_sums, classes=classes),
        grid=(rows,),
        out_specs=[number, number],
        out_shape=[jax.ShapeDtypeStruct((rows,), jnp.float32)] * 2,
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
        name="log_sums",
    )(x)
    return top, jnp.log(total)


def _log_sums(x_ref, top_ref, total_ref, *, classes):
    row = pl.program_id(0)

    def add(i, state):
        top, total = state
        x = _read(x_ref, row, _columns(jnp.asarray(i, np.int32)), classes)  # jax counts in the widest type that it has
        higher = jnp.maximum(top, jnp.max(x))
        least = jnp.where(higher == -jnp.inf, np.float32(0), higher)  # as long as there is nothing else
        return higher, total * jnp.exp(top - least) + jnp.sum(jnp.exp(x - least))

    top, total = lax.fori_loop(0, -(-classes // BLOCK), add, (np.float32(-np.inf), np.float32(0)))
    top_ref[0], total_ref[0] = top, total


def _columns(block):
    return block * BLOCK + jnp.arange(BLOCK, dtype=np.int32)


def _read(x_ref, row, columns, classes):
    """Some numbers of a row in float32; there is nothing smaller than those behind its end."""
    place = jnp.broadcast_to(row, columns.shape), columns
    return triton.load(x_ref.at[place], mask=columns < classes, other=-jnp.inf).astype(jnp.float32)


def slopes(x, top, rest, label, scale, interpret: bool = False):
    """(probabilities - one at each row's label) * scale, in the dtype of `x` and in its place."""
    rows, classes = x.shape
    number = pl.BlockSpec((1,), lambda r, c: (r,))
    return pl.pallas_call(
        functools.partial(_slopes, classes=classes),
        grid=(rows, -(-classes // BLOCK)),
        in_specs=[pl.BlockSpec(x.shape, lambda r, c: (0, 0)), number, number, number, number],
        out_specs=pl.BlockSpec(x.shape, lambda r, c: (0, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0},
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
        name="log_sums_slopes",
    )(x, top, rest, label, scale)


def _slopes(x_ref, top_ref, rest_ref, label_ref, scale_ref, out_ref, *, classes):
    row, columns = pl.program_id(0), _columns(pl.program_id(1))
    x = _read(x_ref, row, columns, classes)
    p = jnp.exp((x - top_ref[0]) - rest_ref[0])
    found = (p - (columns == label_ref[0]).astype(jnp.float32)) * scale_ref[0]
    place = jnp.broadcast_to(row, columns.shape), columns
    triton.store(out_ref.at[place], found.astype(out_ref.dtype), mask=columns < classes)
