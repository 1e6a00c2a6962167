"""Kernels for NVIDIA GPUs, written in Pallas: the gradient of a large window over images of one channel a group.

XLA makes a sum of its own for each element of the window, and each reads both images. Here a block of threads keeps the sums
of one row of the window, so that an image is read from memory once for each of its rows, and those run side by side.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

LEAST = 25  # elements of a window: the sums of a smaller one are few
CHANNELS = 64  # for one block of threads
TILE = 1024  # numbers of an image that are read together
MOST_IMAGES = 1 << 15  # of a batch: CUDA numbers blocks of threads with 16 bits along the axis of the images
BLOCKS = 1056  # of threads at least, where there is work for them: eight for each multiprocessor of an H200


def takes(x: Any, g: Any, window: tuple[int, ...]) -> bool:
    """Whether `weight_sums` computes the gradient of such a window over such images, channels last or not: places are
    counted in 32 bits, and sums are of float32.
    """
    large = math.prod(window) >= LEAST and 0 < x.size < 1 << 31 and 0 < g.size < 1 << 31
    return large and x.ndim == 4 and x.dtype.itemsize <= 4 and x.shape[0] <= MOST_IMAGES


def weight_sums(x, g, window, stride, pads, dilation, interpret: bool = False):
    """The gradient [channels, 1, *window], in float32, of a window over images `x`, where `g` is that of the result; both
    with the channels last.
    """
    channels, (batch, rows, columns) = x.shape[-1], g.shape[:3]
    wide = CHANNELS if channels % CHANNELS == 0 else CHANNELS // 2
    long = min(TILE // wide, 1 << (columns - 1).bit_length())
    spans = -(-channels // wide)
    parts = min(rows, -(-BLOCKS // (window[0] * spans * batch)))
    some = -(-rows // parts)
    sums = pl.pallas_call(
        functools.partial(
            _weight_sums, columns=window[1], stride=stride, pads=pads, dilation=dilation, some=some, parts=parts,
            tile=(long, wide),
        ),
        grid=(window[0], spans, batch * parts),
        out_shape=jax.ShapeDtypeStruct((batch * parts, *window, channels), jnp.float32),
        compiler_params=triton.CompilerParams(num_warps=max(1, long * wide // 256), num_stages=2),
        interpret=interpret,
        name="depthwise_weight_sums",
    )(x, g)  # fmt: skip
    return jnp.sum(sums, axis=0).transpose(2, 0, 1)[:, None]


def _weight_sums(x_ref, g_ref, out_ref, *, columns, stride, pads, dilation, some, parts, tile):
    i, part = pl.program_id(0), pl.program_id(2)
    image, first = lax.div(part, np.int32(parts)), lax.rem(part, np.int32(parts)) * some
    channel = pl.program_id(1) * tile[1] + jnp.arange(tile[1], dtype=np.int32)
    in_channels = channel < x_ref.shape[3]
    across = -(-g_ref.shape[2] // tile[0])

    def read(ref, row, column):
        """A tile of an image: places outside of it are 0."""
        inside = (row >= 0) & (row < ref.shape[1]) & (column >= 0) & (column < ref.shape[2])
        mask = inside[:, None] & in_channels[None]
        place = [jnp.broadcast_to(t, tile) for t in (image, row, column[:, None], channel[None])]
        return triton.load(ref.at[tuple(place)], mask=mask, other=0.0).astype(jnp.float32)

    def add(step, totals):
        step = jnp.asarray(step, np.int32)  # jax counts in the widest type that it has
        down = lax.div(step, np.int32(across))
        row, column = first + down, (step - down * across) * tile[0] + jnp.arange(tile[0], dtype=np.int32)
        g = read(g_ref, row, column)
        y, x = row * stride[0] + i * dilation[0] - pads[0][0], column * stride[1] - pads[1][0]
        return tuple(t + g * read(x_ref, y, x + j * dilation[1]) for j, t in enumerate(totals))

    totals = lax.fori_loop(0, some * across, add, (jnp.zeros(tile, jnp.float32),) * columns)
    for j, total in enumerate(totals):
        place = [jnp.full_like(channel, t) for t in (part, i, np.int32(j))]
        triton.store(out_ref.at[(*place, channel)], jnp.sum(total, axis=0), mask=in_channels)
