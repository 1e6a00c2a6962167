"""Deformable convolution: the pixels under a kernel are read where offsets say, by bilinear interpolation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import blas
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.core.numpy_exec.weighted_rows import add_to_rows, dots, rows
from bireme.ops.vision.arguments import floating, pair, shaped


def _out(size, kernel, stride, padding, dilation):
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _positions(offset, x, kernel, stride, padding, dilation, groups):
    """Row and column that each point of the kernel is read at: `[N, points, groups, H, W]` each."""
    n, (h, w) = offset.shape[0], offset.shape[2:]
    shifts = offset.reshape(n, groups, kernel[0] * kernel[1], 2, h, w).transpose(0, 2, 1, 3, 4, 5)
    down, across = np.indices(kernel).reshape(2, -1, 1, 1, 1)
    rows = np.arange(h).reshape(1, 1, h, 1) * stride[0] - padding[0] + down * dilation[0]
    columns = np.arange(w).reshape(1, 1, 1, w) * stride[1] - padding[1] + across * dilation[1]
    return shifts[:, :, :, 0] + rows.astype(offset.dtype), shifts[:, :, :, 1] + columns.astype(offset.dtype)


def _columns(x, offset, mask, kernel, stride, padding, dilation, groups):
    """What the kernel sees at each place: `[N, points, groups, H * W, channels of a group]`."""
    (n, c, height, width), points = x.shape, kernel[0] * kernel[1]
    h, w = offset.shape[2:]
    rows, columns = _positions(offset, x, kernel, stride, padding, dilation, groups)
    inside = (rows > -1) & (rows < height) & (columns > -1) & (columns < width)  # not for NaN either
    rows, columns = jnp.where(inside, rows, 0), jnp.where(inside, columns, 0)
    top, left = jnp.floor(rows), jnp.floor(columns)
    low, near = rows - top, columns - left
    top, left = top.astype(jnp.int32), left.astype(jnp.int32)
    last = x.reshape(n, groups, c // groups, height * width).transpose(0, 1, 3, 2)
    image = jnp.arange(n, dtype=jnp.int32).reshape(n, 1, 1, 1, 1)
    group = jnp.arange(groups, dtype=jnp.int32).reshape(groups, 1, 1)
    factor = 1 if mask is None else mask.reshape(n, groups, points, h, w).transpose(0, 2, 1, 3, 4)
    total: Any = 0
    for i, j in np.ndindex(2, 2):
        row, column = top + i, left + j
        there = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
        weight = (low if i else 1 - low) * (near if j else 1 - near) * factor
        weight = jnp.where(there, weight, np.zeros((), x.dtype))
        flat = jnp.where(there, row * width + column, 0)
        total = total + last[image, group, flat] * weight[..., None]
    return total.reshape(n, points, groups, h * w, c // groups)


def _product(columns, weight, groups):
    """The columns `[N, points, groups of offsets, places, channels]` times the kernel, as `[N, out, places]`."""
    n, points, _, places, _ = columns.shape
    out, c = weight.shape[0], weight.shape[1]
    columns = columns.transpose(0, 3, 2, 4, 1).reshape(n, places, groups, c * points)
    columns = columns.transpose(2, 0, 1, 3).reshape(groups, n * places, c * points)
    kernel = weight.reshape(groups, out // groups, c * points)
    found = jnp.matmul(columns, jnp.swapaxes(kernel, 1, 2), precision=lax.Precision.HIGHEST)
    found = found.reshape(groups, n, places, out // groups)
    return found.transpose(1, 0, 3, 2).reshape(n, out, places)


def _deformed(x, offset, weight, mask, stride, padding, dilation, deformable_groups, groups):
    (n, out), kernel, kind = (x.shape[0], weight.shape[0]), weight.shape[2:], x.dtype
    shape = (n, out, *offset.shape[2:])
    if not math.prod(shape) or not x.size:
        return jnp.zeros(shape, kind)
    if kind.itemsize < 4:
        x, offset, weight = [a.astype(jnp.float32) for a in (x, offset, weight)]
        mask = None if mask is None else mask.astype(jnp.float32)
    seen = _columns(x, offset, mask, kernel, stride, padding, dilation, deformable_groups)
    return _product(seen, weight, groups).reshape(shape).astype(kind)


_positions_numpy = on_numpy(_positions)


class _Corners:
    """The four pixels around each place that is read, `[N * places * points * groups, 4]`, and their weights.

    They are rows of `flat`, pixels `[N, H, W, groups]` with the channels of a group; what is outside is one row more,
    of zeros.
    """

    def __init__(self, x, offset, mask, kernel, stride, padding, dilation, groups):
        n, c, height, width = x.shape
        self.x_shape, self.groups, self.channels = x.shape, groups, c // groups
        count = n * height * width * groups
        parts = x.reshape(n, groups, self.channels, height, width).transpose(0, 3, 4, 1, 2)
        self.flat = np.zeros((count + 1, self.channels), x.dtype)
        self.flat[:-1].reshape(parts.shape)[...] = parts
        places = _positions_numpy(offset, x, kernel, stride, padding, dilation, groups)
        rows, columns = [t.transpose(0, 3, 4, 1, 2) for t in places]  # [N, H, W, points, groups]
        self.shape = rows.shape
        self.inside = (rows > -1) & (rows < height) & (columns > -1) & (columns < width)  # not for NaN either
        rows, columns = np.where(self.inside, rows, 0), np.where(self.inside, columns, 0)
        top, left = np.floor(rows), np.floor(columns)
        self.low, self.near = rows - top, columns - left
        self.factor = None
        if mask is not None:
            self.factor = mask.reshape(n, groups, -1, *self.shape[1:3]).transpose(0, 3, 4, 2, 1)
        top, left = top.astype(np.int64), left.astype(np.int64)
        image = np.arange(n).reshape(n, 1, 1, 1, 1) * height
        self.index = np.empty((*self.shape, 4), np.int64)
        self.there = np.empty(self.index.shape, bool)
        for k, (i, j) in enumerate(np.ndindex(2, 2)):
            row, column = top + i, left + j
            there = self.inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            place = ((image + row) * width + column) * groups + np.arange(groups)
            self.index[..., k], self.there[..., k] = np.where(there, place, count), there
        self.index = self.index.reshape(-1, 4)

    def weights(self, down=(0, 1), across=(0, 1), factor=True):
        """Weights of the corners; with (-1, 1) for an axis their derivative along it."""
        out = np.empty((*self.shape, 4), self.flat.dtype)
        for k, (i, j) in enumerate(np.ndindex(2, 2)):
            weight = 1 if not factor or self.factor is None else self.factor
            weight = weight * (down[i] if down[0] else self.low if i else 1 - self.low)
            weight = weight * (across[j] if across[0] else self.near if j else 1 - self.near)
            out[..., k] = np.where(self.there[..., k], weight, 0)
        return out.reshape(-1, 4)

    def read(self):
        """What the kernel sees: `[N, places, points * channels]`."""
        n, h, w = self.shape[:3]
        return rows(self.index, self.weights(), self.flat).reshape(n, h * w, -1)


def _kernels(weight, groups):
    """The kernel as `[groups, out, points * channels]` of a group, in the order that the places are read in."""
    out, c = weight.shape[:2]
    parts = weight.reshape(groups, out // groups, c, -1).transpose(0, 1, 3, 2)
    return np.ascontiguousarray(parts).reshape(groups, out // groups, -1)


def _of_groups(seen, points, groups):
    """What the kernel sees, `[groups, N, places, points * channels of a group]`."""
    n, places = seen.shape[:2]
    if groups == 1:
        return seen[None]
    return seen.reshape(n, places, points, groups, -1).transpose(3, 0, 1, 2, 4).reshape(groups, n, places, -1)


def _deformed_numpy(x, offset, weight, mask, stride, padding, dilation, deformable_groups, groups):
    (n, out), kernel, kind = (x.shape[0], weight.shape[0]), weight.shape[2:], x.dtype
    shape = (n, out, *offset.shape[2:])
    if not math.prod(shape) or not x.size:
        return np.zeros(shape, kind)
    if kind.itemsize < 4:
        x, offset, weight, mask = _in_float32(x, offset, weight, mask)
    seen = _Corners(x, offset, mask, kernel, stride, padding, dilation, deformable_groups).read()
    parts = _of_groups(seen, math.prod(kernel), groups)
    found = blas.matmul(_kernels(weight, groups)[:, None], parts.swapaxes(2, 3))  # [groups, N, out, places]
    return found.swapaxes(0, 1).reshape(shape).astype(kind, copy=False)


def _deformed_back_numpy(g, x, offset, weight, mask, stride, padding, dilation, deformable_groups, groups, needs):
    given, kind, by_mask = (x, offset, weight, mask)[: len(needs)], x.dtype, mask is not None and needs[3]
    if not g.size or not x.size:
        return tuple(np.zeros(t.shape, kind) for t in given)
    if kind.itemsize < 4:
        g, x, offset, weight, mask = _in_float32(g, x, offset, weight, mask)
    (n, c), points = x.shape[:2], math.prod(weight.shape[2:])
    corners = _Corners(x, offset, mask, weight.shape[2:], stride, padding, dilation, deformable_groups)
    g = g.reshape(n, groups, weight.shape[0] // groups, -1).swapaxes(0, 1)  # [groups, N, out, places]
    found: list[Any] = [None] * len(needs)
    if needs[2]:
        by_weight = blas.matmul(g, _of_groups(corners.read(), points, groups)).sum(1)
        found[2] = by_weight.reshape(weight.shape[0], points, -1).swapaxes(1, 2).reshape(weight.shape)
    if needs[0] or needs[1] or by_mask:
        # [groups, N, places, points * channels], then in the order that the places are read in
        seen = blas.matmul(g.swapaxes(2, 3), _kernels(weight, groups)[:, None])
        seen = seen.reshape(groups, *seen.shape[1:3], points, c // groups).transpose(1, 2, 3, 0, 4)
        seen = np.ascontiguousarray(seen).reshape(-1, corners.channels)
    if needs[0]:
        total = np.zeros_like(corners.flat)
        add_to_rows(total, corners.index, corners.weights(), seen)
        found[0] = np.ascontiguousarray(total[:-1].reshape(n, *x.shape[2:], c).transpose(0, 3, 1, 2))
    if needs[1] or by_mask:
        shares = dots(corners.index, corners.flat, seen)

        def along(weights):  # [N, H, W, points, groups] as [N, groups, points, H, W]
            return (shares * weights).sum(1).reshape(corners.shape).transpose(0, 4, 3, 1, 2)

        if needs[1]:
            both = along(corners.weights(down=(-1, 1))), along(corners.weights(across=(-1, 1)))
            found[1] = np.stack(both, 3).reshape(offset.shape)
        if by_mask:
            found[3] = along(corners.weights(factor=False)).reshape(mask.shape)
    return tuple(None if t is None else t.astype(kind, copy=False) for t in found)


def _in_float32(*arrays):
    return [None if t is None else t.astype(np.float32) for t in arrays]


@op(internal="deform_conv2d", promote="x offset weight mask", dtypes=FLOAT, numpy=_deformed_numpy, by_numpy=True)
def deform_conv2d_of(x: Tensor, offset: Tensor, weight: Tensor, mask: Tensor | None, stride: Attr, padding: Attr,
                     dilation: Attr, deformable_groups: int, groups: int) -> Tensor:  # fmt: skip
    """Convolution at shifted positions, without a bias; use `deform_conv2d`."""
    return _deformed(x, offset, weight, mask, stride, padding, dilation, deformable_groups, groups)


@deform_conv2d_of.grad(numpy=_deformed_back_numpy)
def _(g, x, offset, weight, mask, stride, padding, dilation, deformable_groups, groups, needs):
    given = [x, offset, weight, mask][: len(needs)]

    def forward(x, offset, weight, mask=None):
        return _deformed(x, offset, weight, mask, stride, padding, dilation, deformable_groups, groups)

    return jax.vjp(forward, *given)[1](g)


deform_conv2d_of.infer(lambda x, offset, weight: sig_of((x.shape[0], weight.shape[0], *offset.shape[2:]), x.dtype))
deform_conv2d_of.flops(lambda x, offset, weight, mask=None: x.shape[0] * weight.size * math.prod(offset.shape[2:]))
deform_conv2d_of.effort(lambda x, offset, weight: 20 * x.shape[1] * offset.size)


@deform_conv2d_of.check
def _(x, offset, weight, mask, stride, padding, dilation, deformable_groups, groups):
    name = "deform_conv2d"
    shaped(f"{name}(x)", x, (None,) * 4, "images of shape [N, C, H, W]")
    shaped(f"{name}(weight)", weight, (None,) * 4, "a kernel of shape [out, in, height, width]")
    n, c, kernel = x.shape[0], x.shape[1], weight.shape[2:]
    for which, number in (("deformable_groups", deformable_groups), ("groups", groups)):
        if number < 1 or c % number:
            raise errors.bad(f"{name}({which})", f"a positive divisor of the {c} channels", number)
    if weight.shape[0] % groups:
        raise errors.bad(f"{name}(groups)", f"a divisor of the {weight.shape[0]} output channels", groups)
    if weight.shape[1] * groups != c:
        wanted = f"{c // groups} input channels for {c} channels in {groups} groups"
        raise errors.bad(f"{name}(weight)", wanted, described=f"shape {list(weight.shape)}", kind=errors.ShapeError)
    if not all(kernel):
        shape = f"shape {list(weight.shape)}"
        raise errors.bad(f"{name}(weight)", "a kernel with elements", described=shape, kind=errors.ShapeError)
    places = [_out(x.shape[2 + i], kernel[i], stride[i], padding[i], dilation[i]) for i in range(2)]
    if min(places) < 1:
        wanted = f"images of at least the size that a kernel of {list(kernel)} covers"
        raise errors.bad(f"{name}(x)", wanted, described=f"shape {list(x.shape)}", kind=errors.ShapeError)
    points = deformable_groups * math.prod(kernel)
    for which, t, channels in (("offset", offset, 2 * points), ("mask", mask, points)):
        if t is not None:
            shaped(f"{name}({which})", t, (n, channels, *places), f"shape {[n, channels, *places]}")


def _each(which: str, value: Any, least: int) -> tuple[int, int]:
    where = f"deform_conv2d({which})"
    if least:
        return pair(where, value)
    both = [value, value] if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else value
    if isinstance(both, (list, tuple)) and len(both) == 2 and all(isinstance(n, (int, np.integer)) for n in both):
        if min(both) >= 0:
            return int(both[0]), int(both[1])
        raise errors.bad(where, "non-negative integers", value)
    raise errors.bad(where, "an integer or two integers", value, kind=errors.ArgumentTypeError)


@composite(public="vision.ops.deform_conv2d")
def deform_conv2d(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Attr[int | Sequence[int]] = 1,
    padding: Attr[int | Sequence[int]] = 0,
    dilation: Attr[int | Sequence[int]] = 1,
    deformable_groups: int = 1,
    groups: int = 1,
    mask: Tensor | None = None,
) -> Tensor:
    """Convolution whose kernel reads each pixel at an offset of its own, by bilinear interpolation.

    With a ``mask`` each pixel that is read has a factor of its own as well. What is outside of the image counts as 0.

    Args:
        x: Images of shape ``[N, C, H, W]``, of a floating-point dtype.
        offset: Offsets of shape ``[N, 2 * deformable_groups * kH * kW, H_out, W_out]``: for each point of the kernel a
            shift down and one to the right.
        weight: Kernel of shape ``[out, C / groups, kH, kW]``.
        bias: Bias of shape ``[out]``. Default: None.
        stride: Step of the kernel: one integer, or two for height and width. Default: 1.
        padding: Zeros on each side: one non-negative integer, or two. Default: 0.
        dilation: Distance of the points of the kernel: one integer, or two. Default: 1.
        deformable_groups: Number of groups of channels with offsets of their own. Default: 1.
        groups: Number of groups of channels that are convolved apart. Default: 1.
        mask: Factors of shape ``[N, deformable_groups * kH * kW, H_out, W_out]``. Default: None, 1.

    Returns:
        Tensor of shape ``[N, out, H_out, W_out]``.

    Examples:
        >>> x, weight = bireme.arange(4.0).reshape([1, 1, 2, 2]), bireme.ones([1, 1, 1, 1])
        >>> bireme.vision.ops.deform_conv2d(x, bireme.full([1, 2, 2, 2], 0.5), weight).tolist()
        [[[[1.5, 1.0], [1.25, 0.75]]]]
    """
    sizes = [_each("stride", stride, 1), _each("padding", padding, 0), _each("dilation", dilation, 1)]
    out = deform_conv2d_of(x, offset, weight, mask, *sizes, deformable_groups, groups)
    if bias is None:
        return out
    shaped("deform_conv2d(bias)", bias, (weight.shape[0],), f"shape {[weight.shape[0]]}")
    floating("deform_conv2d(bias)", bias)
    return out + bias.reshape([1, -1, 1, 1])
