"""Images: pixels moved between channels and space, shifts in time, sampling at given positions, masks of sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.conversion import ints
from bireme.core.declare.op import Attr, DTypeArg, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import weighted_rows
from bireme.core.numpy_exec.add_rows import add_rows
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.ops.creation.tensors import clone


def _channels_last(name: str, x: Any, data_format: Any) -> bool:
    if data_format not in ("NCHW", "NHWC"):
        raise errors.bad(f"{name}(data_format)", "'NCHW' or 'NHWC'", data_format)
    if x.ndim != 4:
        raise errors.bad(f"{name}(x)", "a 4-D tensor", described=f"shape {x.shape}", kind=errors.ShapeError)
    if not x.dtype.is_floating:
        raise errors.bad(f"{name}(x)", "a floating-point dtype", described=x.dtype.name, kind=errors.DtypeError)
    return data_format == "NHWC"


def _factor(name: str, which: str, n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise errors.bad(f"{name}({which})", "an integer", n, kind=errors.ArgumentTypeError)
    if n < 1:
        raise errors.bad(f"{name}({which})", "a positive integer", n, kind=errors.for_number(n))
    return int(n)


@composite(plain=True)
def pixel_shuffle(x: Tensor, upscale_factor: Attr[int], data_format: str = "NCHW") -> Tensor:
    """Rearrange channels into pixels: ``[N, C * r * r, H, W]`` to ``[N, C, H * r, W * r]``.

    Args:
        x: 4-D tensor of a floating-point dtype, with a multiple of ``r * r`` channels.
        upscale_factor: The factor ``r``, a positive integer.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of the dtype of ``x``, with ``1 / (r * r)`` of the channels and ``r`` times the height and width.

    Examples:
        >>> bireme.nn.functional.pixel_shuffle(bireme.arange(4.0).reshape([1, 4, 1, 1]), 2).tolist()
        [[[[0.0, 1.0], [2.0, 3.0]]]]
    """
    r = _factor("pixel_shuffle", "upscale_factor", upscale_factor)
    last = _channels_last("pixel_shuffle", x, data_format)
    if r == 1:
        return clone.public(x)  # reshapes that change nothing would share its storage
    n, c, h, w = [x.shape[i] for i in ((0, 3, 1, 2) if last else (0, 1, 2, 3))]
    if c % (r * r):
        raise errors.bad(
            "pixel_shuffle(x)",
            f"a number of channels divisible by {r * r}",
            described=f"shape {x.shape}",
            kind=errors.ShapeError,
        )
    if last:
        return (
            x.reshape([n, h, w, c // (r * r), r, r])
            .transpose([0, 1, 4, 2, 5, 3])
            .reshape([n, h * r, w * r, c // (r * r)])
        )
    return (
        x.reshape([n, c // (r * r), r, r, h, w]).transpose([0, 1, 4, 2, 5, 3]).reshape([n, c // (r * r), h * r, w * r])
    )


@composite(plain=True)
def pixel_unshuffle(x: Tensor, downscale_factor: Attr[int], data_format: str = "NCHW") -> Tensor:
    """Rearrange pixels into channels: ``[N, C, H * r, W * r]`` to ``[N, C * r * r, H, W]``, the inverse of
    ``pixel_shuffle``.

    Args:
        x: 4-D tensor of a floating-point dtype, with height and width in multiples of ``r``.
        downscale_factor: The factor ``r``, a positive integer.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of the dtype of ``x``, with ``r * r`` times the channels and ``1 / r`` of the height and width.

    Examples:
        >>> bireme.nn.functional.pixel_unshuffle(bireme.arange(4.0).reshape([1, 1, 2, 2]), 2).tolist()
        [[[[0.0]], [[1.0]], [[2.0]], [[3.0]]]]
    """
    r = _factor("pixel_unshuffle", "downscale_factor", downscale_factor)
    last = _channels_last("pixel_unshuffle", x, data_format)
    if r == 1:
        return clone.public(x)  # reshapes that change nothing would share its storage
    n, c, h, w = [x.shape[i] for i in ((0, 3, 1, 2) if last else (0, 1, 2, 3))]
    if h % r or w % r:
        raise errors.bad(
            "pixel_unshuffle(x)",
            f"height and width divisible by {r}",
            described=f"shape {x.shape}",
            kind=errors.ShapeError,
        )
    if last:
        return (
            x.reshape([n, h // r, r, w // r, r, c])
            .transpose([0, 1, 3, 5, 2, 4])
            .reshape([n, h // r, w // r, c * r * r])
        )
    return x.reshape([n, c, h // r, r, w // r, r]).transpose([0, 1, 3, 5, 2, 4]).reshape([n, c * r * r, h // r, w // r])


@composite(plain=True, c_ops={"shuffle_channel": "x group:groups=1"})
def channel_shuffle(x: Tensor, groups: Attr[int], data_format: str = "NCHW") -> Tensor:
    """Interleave the channels of several groups: the first of each group, then the second of each, and so on.

    Args:
        x: 4-D tensor of a floating-point dtype.
        groups: Number of groups; a divisor of the number of channels.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.channel_shuffle(bireme.arange(4.0).reshape([1, 4, 1, 1]), 2).flatten().tolist()
        [0.0, 2.0, 1.0, 3.0]
    """
    g = _factor("channel_shuffle", "groups", groups)
    last = _channels_last("channel_shuffle", x, data_format)
    n, c, h, w = [x.shape[i] for i in ((0, 3, 1, 2) if last else (0, 1, 2, 3))]
    if c % g:
        raise errors.bad("channel_shuffle(groups)", f"a divisor of the {c} channels", g)
    if last:
        return x.reshape([n, h, w, g, c // g]).transpose([0, 1, 2, 4, 3]).reshape(x.shape)
    return x.reshape([n, g, c // g, h, w]).transpose([0, 2, 1, 3, 4]).reshape(x.shape)


@op(dtypes=FLOAT, numpy=True, c_ops={"temporal_shift": "x seg_num shift_ratio=0.25 data_format='NCHW'"})
def temporal_shift(x: Tensor, seg_num: int, shift_ratio: float = 0.25, name: Attr[str] = None,
                   data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Shift some channels by one frame forward and as many by one frame back, within clips.

    Of ``C`` channels the first ``C * shift_ratio`` take their values from the frame before, the next as many from the
    frame after, and the others stay; zeros come in at the ends of a clip.

    Args:
        x: Frames of shape ``[N * seg_num, C, H, W]``, of a floating-point dtype.
        seg_num: Number of frames in a clip.
        shift_ratio: Share of the channels that moves in either direction, between 0 and 0.5. Default: 0.25.
        name: Not used; kept for Paddle's signature.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> x = bireme.arange(8.0).reshape([2, 4, 1, 1])
        >>> bireme.nn.functional.temporal_shift(x, 2, 0.25).reshape([2, 4]).tolist()
        [[0.0, 5.0, 2.0, 3.0], [0.0, 0.0, 6.0, 7.0]]
    """
    first = x if data_format == "NCHW" else jnp.moveaxis(x, 3, 1)
    clips = first.reshape(first.shape[0] // seg_num, seg_num, *first.shape[1:])
    c = first.shape[1]
    a, b = int(c * np.float32(shift_ratio)), int(c * 2 * np.float32(shift_ratio))
    forth, back, rest = clips[:, :, :a], clips[:, :, a:b], clips[:, :, b:]
    zero = [(0, 0)] * 3
    forth = jnp.pad(forth[:, :-1], [(0, 0), (1, 0), *zero])
    back = jnp.pad(back[:, 1:], [(0, 0), (0, 1), *zero])
    out = jnp.concatenate([forth, back, rest], axis=2).reshape(first.shape)
    return out if data_format == "NCHW" else jnp.moveaxis(out, 1, 3)


temporal_shift.infer(lambda x: x)


@temporal_shift.prepare
def _(arguments):
    x, n, ratio = arguments["x"], arguments["seg_num"], arguments["shift_ratio"]
    arguments["name"] = None
    if isinstance(x, Tensor):
        _channels_last("temporal_shift", x, arguments["data_format"])
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
            raise errors.bad("temporal_shift(seg_num)", "an integer", n, kind=errors.ArgumentTypeError)
        if n < 1 or x.shape[0] % n:
            raise errors.bad("temporal_shift(seg_num)", f"a divisor of the {x.shape[0]} frames", n)
        if not isinstance(ratio, (int, float, np.number)) or not 0 < ratio < 0.5:
            raise errors.bad(
                "temporal_shift(shift_ratio)", "a number in (0, 0.5)", ratio, kind=errors.for_number(ratio)
            )


# ---------------------------------------------------------------- sampling


def _unnormalised(t, n, align_corners):
    """Coordinates from [-1, 1] in pixels."""
    return (t + 1) * ((n - 1) / 2) if align_corners else ((t + 1) * n - 1) / 2


def _inside(t, n, padding_mode, align_corners):
    """Coordinates brought back into the image, unless what is outside counts as zero."""
    if padding_mode == "zeros":
        return t
    if padding_mode == "reflection":
        low, span = (0.0, n - 1) if align_corners else (-0.5, n)
        if not span:
            return jnp.zeros_like(t)
        t = jnp.abs(t - low)
        t = t - jnp.floor(t / (2 * span)) * (2 * span)
        t = jnp.minimum(t, 2 * span - t) + low
    return jnp.clip(t, 0, n - 1)


def _flat(places, dims):
    """Integer positions as flat indices, and whether they are inside."""
    flat, valid = 0, True
    for p, n in zip(places, dims):
        inside = (p >= 0) & (p <= n - 1)  # not for NaN either
        valid = valid & inside
        flat = flat * n + jnp.where(inside, p, np.zeros((), p.dtype)).astype(jnp.int32)
    return flat, valid


def _pixels(rows, dims, places):
    """Rows of channels at integer positions, zeros outside; `rows` has shape [batch, pixels, channels]."""
    flat, valid = _flat(places, dims)
    batch = jnp.arange(rows.shape[0], dtype=jnp.int32).reshape(-1, *[1] * (flat.ndim - 1))
    return jnp.where(valid[..., None], rows[batch, flat], np.zeros((), rows.dtype))


def _positions(grid, dims, padding_mode, align_corners):
    """Coordinates of each axis in pixels; the grid has the last axis first."""
    at = []
    for i, n in enumerate(dims):
        t = _unnormalised(grid[..., len(dims) - 1 - i], n, align_corners)
        at.append(_inside(t, n, padding_mode, align_corners))
    return at


_positions_numpy = on_numpy(_positions)


def _sampled_numpy(x, grid, mode, padding_mode, align_corners):
    """The samples as sums of pixels with weights; what is outside is one pixel more, which is zero."""
    (n, c), dims, kind = x.shape[:2], x.shape[2:], x.dtype
    out = np.empty((n, c, *grid.shape[1:-1]), kind)
    if not x.size or not grid.size:
        out[...] = 0
        return out
    if kind.itemsize < 4:
        x, grid = x.astype(np.float32), grid.astype(np.float32)
    pixels = math.prod(dims)
    flat = np.zeros((n * pixels + 1, c), x.dtype)
    flat[:-1].reshape(n, pixels, c)[...] = x.reshape(n, c, pixels).swapaxes(1, 2)
    count, whole = n * pixels, np.int32 if (len(dims) + 1) * n * pixels < 2**31 else np.int64
    taps, step = [], pixels
    for t, size in zip(_positions_numpy(grid, dims, padding_mode, align_corners), dims):
        step //= size
        low = np.rint(t) if mode == "nearest" else np.floor(t)
        share, axis = t - low, []
        low = np.where((low >= -1) & (low <= size), low, -2).astype(whole)  # not for NaN either
        for k in range(1 if mode == "nearest" else 2):
            place = low + k
            valid = (place >= 0) & (place < size)
            weight = np.where(valid, share if k else 1 - share, 0)
            axis.append((np.where(valid, place * step, count).astype(whole, copy=False), weight))
        taps.append(axis)
    image = (np.arange(n, dtype=whole) * pixels).reshape(-1, *[1] * (grid.ndim - 2))
    corners = list(np.ndindex(*map(len, taps)))
    index = np.empty((*grid.shape[:-1], len(corners)), whole)
    weights = np.empty(index.shape, x.dtype)
    for k, corner in enumerate(corners):
        chosen = [axis[c] for axis, c in zip(taps, corner)]
        index[..., k] = np.minimum(sum([place for place, _ in chosen], image), count)
        weights[..., k] = math.prod([weight for _, weight in chosen])
    index = index.reshape(-1, len(corners))
    if mode == "nearest":
        found = flat.take(index[:, 0], axis=0)
    else:
        found = weighted_rows.rows(index, weights.reshape(index.shape), flat)
    out.reshape(n, c, -1)[...] = found.reshape(n, -1, c).swapaxes(1, 2)
    return out


@op(promote="x grid", dtypes=FLOAT, numpy=_sampled_numpy, by_numpy=True)
def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True
) -> Tensor:
    """Sample images or volumes at given positions, by interpolation.

    Args:
        x: Input tensor of shape ``[N, C, H, W]`` or ``[N, C, D, H, W]``, of a floating-point dtype.
        grid: Positions of shape ``[N, H_out, W_out, 2]`` or ``[N, D_out, H_out, W_out, 3]``: coordinates ``(x, y)`` or
            ``(x, y, z)``, from -1 to 1 over the width, height and depth of the input.
        mode: ``'bilinear'``, which is trilinear for volumes, or ``'nearest'``. Default: ``'bilinear'``.
        padding_mode: What is outside of the input: ``'zeros'``, ``'border'`` (the nearest element inside) or
            ``'reflection'`` (mirrored). Default: ``'zeros'``.
        align_corners: Whether -1 and 1 are the centers of the outermost elements, else their outer edges.
            Default: True.

    Returns:
        Tensor of shape ``[N, C, H_out, W_out]`` or ``[N, C, D_out, H_out, W_out]``.

    Examples:
        >>> x = bireme.to_tensor([[[[1.0, 3.0]]]])
        >>> bireme.nn.functional.grid_sample(x, bireme.to_tensor([[[[0.0, 0.0]]]])).tolist()
        [[[[2.0]]]]
    """
    dims, kind = x.shape[2:], x.dtype
    if not x.size or not grid.size:
        return jnp.zeros((*x.shape[:2], *grid.shape[1:-1]), kind)
    if kind.itemsize < 4:
        x, grid = x.astype(jnp.float32), grid.astype(jnp.float32)
    rows = jnp.moveaxis(x, 1, -1).reshape(x.shape[0], -1, x.shape[1])
    at = _positions(grid, dims, padding_mode, align_corners)
    if mode == "nearest":
        found = _pixels(rows, dims, [jnp.round(t) for t in at])
    else:
        low = [jnp.floor(t) for t in at]  # which has no slope
        found = 0
        for corner in np.ndindex(*[2] * len(dims)):
            weight = 1
            for c, t, a in zip(corner, at, low):
                weight = weight * (t - a if c else 1 - (t - a))
            found = found + _pixels(rows, dims, [a + c for c, a in zip(corner, low)]) * weight[..., None]
    return jnp.moveaxis(found, -1, 1).astype(kind)


def _slope(t, n, padding_mode, align_corners):
    """The slope of a pixel coordinate, as `_inside` limits it, in one of [-1, 1]; at an edge as just inside of it."""
    scale = np.asarray((n - 1) / 2 if align_corners else n / 2, t.dtype)
    if padding_mode == "zeros":
        return jnp.full_like(t, scale)
    if padding_mode == "reflection":
        low, span = (0.0, n - 1) if align_corners else (-0.5, n)
        if not span:
            return jnp.zeros_like(t)
        scale = jnp.where(t < low, -scale, scale)
        t = jnp.abs(t - low)
        t = t - jnp.floor(t / (2 * span)) * (2 * span)
        scale = jnp.where(t > span, -scale, scale)
        t = jnp.minimum(t, 2 * span - t) + low
    return jnp.where((t >= 0) & (t <= n - 1), scale, np.zeros((), t.dtype))


def _grid_grads(g, x, grid, mode, padding_mode, align_corners, needs, add):
    """`add(shape, places, values)` gives zeros to which values [batch, positions, channels] were added."""
    dims, kind = x.shape[2:], g.dtype
    if not x.size or not grid.size:
        return jnp.zeros(x.shape, kind), jnp.zeros(grid.shape, kind)
    if kind.itemsize < 4:
        g, x, grid = [a.astype(jnp.float32) for a in (g, x, grid)]
    rows = jnp.moveaxis(x, 1, -1).reshape(x.shape[0], -1, x.shape[1])
    g = jnp.moveaxis(g, 1, -1)
    raw = [_unnormalised(grid[..., len(dims) - 1 - i], n, align_corners) for i, n in enumerate(dims)]
    at = [_inside(t, n, padding_mode, align_corners) for t, n in zip(raw, dims)]
    low = [jnp.floor(t) for t in at]
    total, slopes = 0, [0] * len(dims)
    for corner in np.ndindex(*[1 if mode == "nearest" else 2] * len(dims)):
        places = [jnp.round(t) for t in at] if mode == "nearest" else [a + c for c, a in zip(corner, low)]
        weights = [
            jnp.ones_like(t) if mode == "nearest" else t - a if c else 1 - (t - a) for c, t, a in zip(corner, at, low)
        ]
        flat, valid = _flat(places, dims)
        if needs[0]:
            share = jnp.where(valid, math.prod(weights), np.zeros((), g.dtype))
            total = total + add(
                rows.shape, flat.reshape(x.shape[0], -1), (g * share[..., None]).reshape(x.shape[0], -1, x.shape[1])
            )
        if needs[1] and mode != "nearest":
            weighed = jnp.sum(g * _pixels(rows, dims, places), axis=-1)
            for i, c in enumerate(corner):
                others = math.prod([w for k, w in enumerate(weights) if k != i])
                slopes[i] = slopes[i] + (weighed if c else -weighed) * others
    dx = jnp.moveaxis(total.reshape(x.shape[0], *dims, x.shape[1]), -1, 1).astype(kind) if needs[0] else None
    if mode == "nearest":
        return dx, jnp.zeros(grid.shape, kind)
    found = [s * _slope(t, n, padding_mode, align_corners) for s, t, n in zip(slopes, raw, dims)] if needs[1] else None
    return dx, jnp.stack(found[::-1], axis=-1).astype(kind) if needs[1] else None


def _added(shape, places, values):
    return jnp.zeros(shape, values.dtype).at[jnp.arange(shape[0], dtype=jnp.int32)[:, None], places].add(values)


def _added_numpy(shape, places, values):
    made = np.zeros((shape[0] * shape[1], shape[2]), values.dtype)
    index = (places + np.arange(shape[0])[:, None] * shape[1]).reshape(-1)
    if not add_rows(made, index, values.reshape(-1, shape[2])):
        np.add.at(made, index, values.reshape(-1, shape[2]))
    return made.reshape(shape)


_grid_grads_numpy = on_numpy(_grid_grads)


@grid_sample.grad(numpy=lambda g, x, grid, mode, padding_mode, align_corners, needs: _grid_grads_numpy(
    g, x, grid, mode, padding_mode, align_corners, needs, _added_numpy))  # fmt: skip
def _(g, x, grid, mode, padding_mode, align_corners, needs):
    return _grid_grads(g, x, grid, mode, padding_mode, align_corners, needs, _added)


grid_sample.infer(lambda x, grid: sig_of((*x.shape[:2], *grid.shape[1:-1]), x.dtype))


@grid_sample.prepare
def _(arguments):
    if arguments["mode"] not in ("bilinear", "nearest"):
        raise errors.bad("grid_sample(mode)", "'bilinear' or 'nearest'", arguments["mode"])
    if arguments["padding_mode"] not in ("zeros", "border", "reflection"):
        raise errors.bad("grid_sample(padding_mode)", "'zeros', 'border' or 'reflection'", arguments["padding_mode"])
    if not isinstance(arguments["align_corners"], bool):
        raise errors.bad(
            "grid_sample(align_corners)", "True or False", arguments["align_corners"], kind=errors.ArgumentTypeError
        )


@grid_sample.check
def _(x, grid):
    if x.ndim not in (4, 5):
        raise errors.bad(
            "grid_sample(x)", "a 4-D or 5-D tensor", described=f"shape {list(x.shape)}", kind=errors.ShapeError
        )
    if grid.ndim != x.ndim or grid.shape[-1] != x.ndim - 2 or grid.shape[0] != x.shape[0]:
        places = ", any" * (x.ndim - 2)
        raise errors.bad(
            "grid_sample(grid)",
            f"shape [{x.shape[0]}{places}, {x.ndim - 2}]",
            described=f"shape {list(grid.shape)}",
            kind=errors.ShapeError,
        )


@op(internal="affine_grid", dtypes=FLOAT)
def affine_grid_of(theta: Tensor, dims: Attr, align_corners: bool) -> Tensor:
    """Positions of pixels after an affine map; use `affine_grid`."""
    kind = jnp.float32 if theta.dtype.itemsize < 4 else theta.dtype
    lines = []
    for n in dims:
        line = np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
        lines.append(line if align_corners else line * (n - 1) / max(n, 1))
    base = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(dims)], axis=-1).reshape(-1, len(dims) + 1)
    found = jnp.einsum("pk,nck->npc", base.astype(kind), theta.astype(kind), precision=lax.Precision.HIGHEST)
    return found.reshape(theta.shape[0], *dims, len(dims)).astype(theta.dtype)


affine_grid_of.infer(lambda theta, dims: sig_of((theta.shape[0], *dims, len(dims)), theta.dtype))


@composite(plain=True)
def affine_grid(theta: Tensor, out_shape: Attr[Sequence[int] | Tensor], align_corners: bool = True) -> Tensor:
    """Positions for ``grid_sample`` that an affine map gives the pixels of its result.

    Args:
        theta: Affine maps of shape ``[N, 2, 3]`` for images or ``[N, 3, 4]`` for volumes, of a floating-point dtype.
        out_shape: Shape of the result of ``grid_sample``, ``[N, C, H, W]`` or ``[N, C, D, H, W]``: integers or an
            integer tensor.
        align_corners: Whether -1 and 1 are the centers of the outermost pixels, else their outer edges. Default: True.

    Returns:
        Tensor of shape ``[N, H, W, 2]`` or ``[N, D, H, W, 3]`` and the dtype of ``theta``.

    Examples:
        >>> theta = bireme.to_tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> bireme.nn.functional.affine_grid(theta, [1, 1, 1, 2]).tolist()
        [[[[-1.0, 0.0], [1.0, 0.0]]]]
    """
    wanted = list(ints(out_shape, 0, "affine_grid(out_shape)") or ())
    if len(wanted) not in (4, 5):
        raise errors.bad("affine_grid(out_shape)", "4 or 5 integers", wanted)
    count = len(wanted) - 2
    if theta.ndim != 3 or theta.shape[1:] != [count, count + 1]:
        raise errors.bad(
            "affine_grid(theta)",
            f"shape [batch, {count}, {count + 1}]",
            described=f"shape {theta.shape}",
            kind=errors.ShapeError,
        )
    if wanted[0] != theta.shape[0]:
        raise errors.bad("affine_grid(out_shape)", f"a batch size of {theta.shape[0]}, as in theta", wanted)
    return affine_grid_of(theta, tuple(wanted[2:]), align_corners)


# ---------------------------------------------------------------- sequences


@composite()
def sequence_mask(x: Tensor, maxlen: Attr[int | Tensor] = None, dtype: DTypeArg = "int64") -> Tensor:
    """Mask of sequences from their lengths: 1 where ``index < length`` along a new last axis, else 0.

    Args:
        x: Lengths, of any shape.
        maxlen: Size of the new axis; ``None`` or a negative number means the greatest length, for which the values of
            ``x`` must be computed. Default: None.
        dtype: Data type of the mask; ``None`` means float64. Default: ``'int64'``.

    Returns:
        Tensor of shape ``[*x.shape, maxlen]``, without gradient.

    Examples:
        >>> bireme.nn.functional.sequence_mask(bireme.to_tensor([1, 3])).tolist()
        [[1, 0, 0], [1, 1, 1]]
    """
    if isinstance(maxlen, (Tensor, np.ndarray, np.generic)) and maxlen.size == 1:
        maxlen = maxlen.item()
    if isinstance(maxlen, float):
        maxlen = int(maxlen)  # Paddle cuts fractions off
    if maxlen is not None and not isinstance(maxlen, (int, np.integer)):
        raise errors.bad("sequence_mask(maxlen)", "an integer", maxlen, kind=errors.ArgumentTypeError)
    if maxlen is None or maxlen < 0:
        maxlen = int(x.max().item()) if x._value.sig.size else 0
    return sequence_mask_of(x, maxlen, dtype or dtypes.float64)


@op(internal="sequence_mask", differentiable=False, numpy=True)
def sequence_mask_of(x: Tensor, maxlen: int, dtype: DTypeArg) -> Tensor:
    """Whether each index is less than a length; use `sequence_mask`."""
    return (jnp.arange(maxlen, dtype=jnp.int32).astype(x.dtype) < x[..., None]).astype(dtype.np)


sequence_mask_of.infer(lambda x, maxlen, dtype: sig_of((*x.shape, maxlen), dtype))


@op(differentiable=False, name_arg=False, dtypes=dtypes.INT)
def gather_tree(ids: Tensor, parents: Tensor) -> Tensor:
    """Trace whole beams back from the last step of a beam search.

    Args:
        ids: Tokens chosen at each step, integers of shape ``[time, batch, beam]``.
        parents: Beam that each token continues, integers in ``[0, beam)`` of the same shape.

    Returns:
        Tensor of the shape and dtype of ``ids``: the tokens of each beam that ends in the last step.

    Examples:
        >>> ids, parents = bireme.to_tensor([[[1, 2]], [[3, 4]]]), bireme.to_tensor([[[0, 0]], [[1, 0]]])
        >>> bireme.nn.functional.gather_tree(ids, parents).tolist()
        [[[2, 1]], [[3, 4]]]
    """
    if ids.shape[0] == 0:
        return ids
    beams = jnp.broadcast_to(jnp.arange(ids.shape[2], dtype=parents.dtype), ids.shape[1:])

    def step(beam, at):
        own, up = at
        return jnp.take_along_axis(up, beam, axis=1, mode="clip"), jnp.take_along_axis(own, beam, axis=1, mode="clip")

    _, found = lax.scan(step, beams, (ids, parents), reverse=True)
    return found


gather_tree.infer(lambda ids: ids)


@gather_tree.check
def _(ids, parents):
    if ids.ndim != 3 or parents.shape != ids.shape:
        raise errors.bad(
            "gather_tree(parents)",
            "the shape of ids, [time, batch, beam]",
            described=f"shapes {list(ids.shape)} and {list(parents.shape)}",
            kind=errors.ShapeError,
        )


gather_tree.index(lambda s: [("parents", 0, s["ids"].shape[2])] if s["ids"].ndim == 3 else [])
