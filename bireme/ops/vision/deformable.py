"""Deformable convolution: the pixels under a kernel are read where offsets say, by bilinear interpolation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import blas
from bireme.core.numpy_exec.rebinding import on_numpy
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
    total = 0
    for i, j in np.ndindex(2, 2):
        row, column = top + i, left + j
        there = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
        weight = (low if i else 1 - low) * (near if j else 1 - near) * factor
        weight = jnp.where(there, weight, np.zeros((), x.dtype))
        flat = jnp.where(there, row * width + column, 0)
        total = total + last[image, group, flat] * weight[..., None]
    return total.reshape(n, points, groups, h * w, c // groups)


def _product(columns, weight, groups, multiply):
    """The columns `[N, points, groups of offsets, places, channels]` times the kernel, as `[N, out, places]`."""
    n, points, _, places, _ = columns.shape
    out, c = weight.shape[0], weight.shape[1]
    columns = columns.transpose(0, 3, 2, 4, 1).reshape(n, places, groups, c * points)
    columns = columns.transpose(2, 0, 1, 3).reshape(groups, n * places, c * points)
    kernel = weight.reshape(groups, out // groups, c * points)
    found = multiply(columns, jnp.swapaxes(kernel, 1, 2)).reshape(groups, n, places, out // groups)
    return found.transpose(1, 0, 3, 2).reshape(n, out, places)


def _deformed(x, offset, weight, mask, stride, padding, dilation, deformable_groups, groups, multiply):
    (n, out), kernel, kind = (x.shape[0], weight.shape[0]), weight.shape[2:], x.dtype
    shape = (n, out, *offset.shape[2:])
    if not math.prod(shape) or not x.size:
        return jnp.zeros(shape, kind)
    if kind.itemsize < 4:
        x, offset, weight = [a.astype(jnp.float32) for a in (x, offset, weight)]
        mask = None if mask is None else mask.astype(jnp.float32)
    seen = _columns(x, offset, mask, kernel, stride, padding, dilation, deformable_groups)
    return _product(seen, weight, groups, multiply).reshape(shape).astype(kind)


def _multiply(a, b):
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


_deformed_numpy = on_numpy(_deformed)


@op(internal="deform_conv2d", promote="x offset weight mask", dtypes=FLOAT,
    numpy=lambda x, offset, weight, mask, *rest: _deformed_numpy(x, offset, weight, mask, *rest, blas.matmul))  # fmt: skip
def deform_conv2d_of(x: Tensor, offset: Tensor, weight: Tensor, mask: Tensor | None, stride: Attr, padding: Attr,
                     dilation: Attr, deformable_groups: int, groups: int) -> Tensor:  # fmt: skip
    """Convolution at shifted positions, without a bias; use `deform_conv2d`."""
    return _deformed(x, offset, weight, mask, stride, padding, dilation, deformable_groups, groups, _multiply)


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
