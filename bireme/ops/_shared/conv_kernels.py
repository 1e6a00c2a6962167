"""Kernels for NVIDIA GPUs, written in Pallas: large windows over images of one channel a group, and their gradient.

XLA reads an image anew for each element of the window, number by number, and for the gradient makes a sum of its own for each.
Here a block of threads reads many numbers together; it keeps some rows of a result, or the sums of one row of the window, in
registers.
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

from bireme.core.numpy_exec.convolution import places

LEAST = 25  # elements of a window: the sums of a smaller one are few
WIDEST = 9  # columns of a window, each of which has its own sums in registers
CHANNELS = 64  # for one block of threads
TILE = 1024  # numbers of an image that are read together
EACH = 8  # of them by one thread: sixteen bytes of a half
MOST_IMAGES = 1 << 15  # of a batch: CUDA numbers blocks of threads with 16 bits along the axis of the images
ROWS = 4  # of a result that one block of threads computes: they share what it reads of the window
BLOCKS = 1056  # of threads at least, where there is work for them: eight for each multiprocessor of an H200


def takes(x: Any, made: int, window: tuple[int, ...]) -> bool:
    """Whether these kernels take such a window over images `x`, channels last or not, where `made` numbers come out: places are
    counted in 32 bits, and sums are of float32.
    """
    if x.ndim != 4 or math.prod(window) < LEAST or window[1] > WIDEST:
        return False
    return 0 < x.size < 1 << 31 and 0 < made < 1 << 31 and x.dtype.itemsize <= 4 and x.shape[0] <= MOST_IMAGES


def window_sums(x, w, stride, pads, dilation, interpret: bool = False):
    """The results of the windows `w`, [channels, 1, height, width], over images `x` with the channels last."""
    batch, *dims, channels = x.shape
    window = w.shape[2:]
    rows, columns = [places(*axis) for axis in zip(dims, window, stride, pads, dilation)]
    wide, long = _tile(channels, columns)
    across = -(-columns // long)
    return pl.pallas_call(
        functools.partial(
            _window_sums, window=window, stride=stride, pads=pads, dilation=dilation, across=across, tile=(long, wide)
        ),
        grid=(-(-rows // ROWS) * across, -(-channels // wide), batch),
        out_shape=jax.ShapeDtypeStruct((batch, rows, columns, channels), x.dtype),
        compiler_params=triton.CompilerParams(num_warps=max(1, long * wide // (32 * EACH)), num_stages=1),
        interpret=interpret,
        name="depthwise_window_sums",
    )(x, w[:, 0].transpose(1, 2, 0))


def _window_sums(x_ref, w_ref, out_ref, *, window, stride, pads, dilation, across, tile):
    at, image = pl.program_id(0), pl.program_id(2)
    down = lax.div(at, np.int32(across))
    first, column = down * ROWS, (at - down * across) * tile[0] + jnp.arange(tile[0], dtype=np.int32)
    channel = pl.program_id(1) * tile[1] + jnp.arange(tile[1], dtype=np.int32)

    def add(i, totals):
        i = jnp.asarray(i, np.int32)  # jax counts in the widest type that it has
        totals = list(totals)
        for j in range(window[1]):
            place = [jnp.broadcast_to(t, tile) for t in (i, np.int32(j), channel[None])]
            inside = jnp.broadcast_to((channel < x_ref.shape[3])[None], tile)
            w = triton.load(w_ref.at[tuple(place)], mask=inside, other=0.0).astype(jnp.float32)
            x = column * stride[1] + (j * dilation[1] - pads[1][0])
            for r in range(ROWS):
                y = (first + r) * stride[0] + i * dilation[0] - pads[0][0]
                totals[r] = totals[r] + w * _read(x_ref, image, y, x, channel, tile)
        return tuple(totals)

    totals = lax.fori_loop(0, window[0], add, (jnp.zeros(tile, jnp.float32),) * ROWS)
    for r, total in enumerate(totals):
        place, inside = _places(out_ref, image, first + r, column, channel, tile)
        triton.store(out_ref.at[place], total.astype(out_ref.dtype), mask=inside)


def weight_sums(x, g, window, stride, pads, dilation, interpret: bool = False):
    """The gradient [channels, 1, *window], in float32, of a window over images `x`, where `g` is that of the result; both
    with the channels last.
    """
    channels, (batch, rows, columns) = x.shape[-1], g.shape[:3]
    wide, long = _tile(channels, columns)
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
        compiler_params=triton.CompilerParams(num_warps=max(1, long * wide // (32 * EACH)), num_stages=2),
        interpret=interpret,
        name="depthwise_weight_sums",
    )(x, g)  # fmt: skip
    return jnp.sum(sums, axis=0).transpose(2, 0, 1)[:, None]


def _weight_sums(x_ref, g_ref, out_ref, *, columns, stride, pads, dilation, some, parts, tile):
    i, part = pl.program_id(0), pl.program_id(2)
    image, first = lax.div(part, np.int32(parts)), lax.rem(part, np.int32(parts)) * some
    channel = pl.program_id(1) * tile[1] + jnp.arange(tile[1], dtype=np.int32)
    across = -(-g_ref.shape[2] // tile[0])

    def add(step, totals):
        step = jnp.asarray(step, np.int32)  # jax counts in the widest type that it has
        down = lax.div(step, np.int32(across))
        row, column = first + down, (step - down * across) * tile[0] + jnp.arange(tile[0], dtype=np.int32)
        g = _read(g_ref, image, row, column, channel, tile)
        y, x = row * stride[0] + i * dilation[0] - pads[0][0], column * stride[1] - pads[1][0]
        return tuple([t + g * _read(x_ref, image, y, x + j * dilation[1], channel, tile) for j, t in enumerate(totals)])

    totals = lax.fori_loop(0, some * across, add, (jnp.zeros(tile, jnp.float32),) * columns)
    for j, total in enumerate(totals):
        place = [jnp.full_like(channel, t) for t in (part, i, np.int32(j))]
        triton.store(out_ref.at[(*place, channel)], jnp.sum(total, axis=0), mask=channel < x_ref.shape[3])


def _tile(channels, columns):
    """Channels and columns that a block of threads reads together."""
    wide = CHANNELS if channels % CHANNELS == 0 else CHANNELS // 2
    return wide, min(TILE // wide, 1 << (columns - 1).bit_length())


def _places(ref, image, row, column, channel, tile):
    """The places of a tile of an image, and which of them are inside of it."""
    inside = (row >= 0) & (row < ref.shape[1]) & (column >= 0) & (column < ref.shape[2])
    place = [jnp.broadcast_to(t, tile) for t in (image, row, column[:, None], channel[None])]
    return tuple(place), inside[:, None] & (channel < ref.shape[3])[None]


def _read(ref, image, row, column, channel, tile):
    """A tile of an image in float32: places outside of it are 0, and are not read."""
    place, inside = _places(ref, image, row, column, channel, tile)
    return triton.load(ref.at[place], mask=inside, other=0.0).astype(jnp.float32)
