"""Convolution and pooling in two dimensions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core import errors
from bireme.core.convert import ints
from bireme.core.dtype import FLOAT
from bireme.core.op import Attr, Tensor, composite, op


def pair(x: Any, where: str) -> tuple[int, int]:
    """One number for both axes, or one for each."""
    found = ints(x, 0, where) or ()
    if len(found) == 1:
        return found[0], found[0]
    if len(found) != 2:
        raise errors.bad(where, "one integer or two", list(found))
    return found[0], found[1]


def padding_of(x: Any, where: str) -> Any:
    """'SAME', 'VALID', or ((top, bottom), (left, right))."""
    if isinstance(x, str):
        if x.upper() not in ("SAME", "VALID"):
            raise errors.bad(where, "'SAME', 'VALID' or integers", x)
        return x.upper()
    if isinstance(x, (list, tuple)) and len(x) == 4 and all(isinstance(i, (list, tuple)) for i in x):
        found = [i for i in x if list(i) != [0, 0]]
        return tuple(tuple(i) for i in ([[0, 0]] * 2 + found)[-2:])
    found = ints(x, 0, where) or ()
    if len(found) == 4:
        return (found[0], found[1]), (found[2], found[3])
    a, b = pair(found, where)
    return (a, a), (b, b)


@op(dtypes=FLOAT, promote="x weight")
def conv2d_of(x: Tensor, weight: Tensor, stride: Attr, padding: Attr, dilation: Attr, groups: int, channels_last: bool) -> Tensor:
    """Convolution of images with kernels [out, in / groups, height, width]; use `conv2d`.

    >>> bireme.nn.functional.conv2d(bireme.ones([1, 1, 3, 3]), bireme.ones([1, 1, 2, 2])).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    # channels last inside: given channels first, XLA would transpose both sides by itself, and slower
    image = x if channels_last else jnp.transpose(x, (0, 2, 3, 1))
    kernel = jnp.transpose(weight, (2, 3, 1, 0))
    out = lax.conv_general_dilated(
        image, kernel, stride, padding, rhs_dilation=dilation, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )
    return out if channels_last else jnp.transpose(out, (0, 3, 1, 2))


@conv2d_of.check
def _(x, weight, padding, dilation, groups, channels_last):
    if x.ndim != 4:
        raise errors.bad("conv2d(x)", "images of shape [batch, channels, height, width]", f"shape {list(x.shape)}")
    if weight.ndim != 4:
        raise errors.bad("conv2d(weight)", "kernels of shape [out, in / groups, height, width]", f"shape {list(weight.shape)}")
    channels = x.shape[3 if channels_last else 1]
    if groups < 1 or channels != weight.shape[1] * groups:
        raise errors.bad("conv2d(x)", f"{weight.shape[1] * groups} channels, as weight has for {groups} groups", f"{channels}")
    if weight.shape[0] % groups:
        raise errors.bad("conv2d(weight)", f"outputs that {groups} groups divide", f"{weight.shape[0]}")
    if isinstance(padding, tuple):
        for n, k, d, (a, b) in zip(x.shape[1:3] if channels_last else x.shape[2:4], weight.shape[2:], dilation, padding):
            if min(a, b) < 0:
                raise errors.bad("conv2d(padding)", "widths of 0 or more", [a, b])
            if x.size and n + a + b < (k - 1) * d + 1:
                raise errors.bad("conv2d(weight)", f"a kernel within {n + a + b} pixels", f"{(k - 1) * d + 1}")


@conv2d_of.flops
def _(x, weight):
    return x.size * weight.shape[0] * weight.shape[2] * weight.shape[3]


@composite()
def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Convolution of images with kernels [out, in / groups, height, width].

    >>> bireme.nn.functional.conv2d(bireme.ones([1, 1, 3, 3]), bireme.ones([1, 1, 2, 2])).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    last = _channels_last(data_format, "conv2d")
    steps, holes = pair(stride, "conv2d(stride)"), pair(dilation, "conv2d(dilation)")
    if min(*steps, *holes) < 1:
        raise errors.bad("conv2d(stride, dilation)", "numbers of 1 or more", [*steps, *holes])
    out = conv2d_of(x, weight, steps, padding_of(padding, "conv2d(padding)"), holes, groups, last)
    return out if bias is None else out + (bias if last else bias.reshape([1, -1, 1, 1]))


def _channels_last(data_format: str, where: str) -> bool:
    if data_format not in ("NCHW", "NHWC"):
        raise errors.bad(f"{where}(data_format)", "'NCHW' or 'NHWC'", data_format)
    return data_format == "NHWC"


# ---------------------------------------------------------------- pooling


def _windows(x, size, stride):
    """One strided slice per place in the window, of an image [batch, height, width, channels] already padded."""
    height = (x.shape[1] - size[0]) // stride[0] + 1
    width = (x.shape[2] - size[1]) // stride[1] + 1
    return [
        x[:, i : i + (height - 1) * stride[0] + 1 : stride[0], j : j + (width - 1) * stride[1] + 1 : stride[1]]
        for i in range(size[0])
        for j in range(size[1])
    ]


def _padded(x, padding, fill):
    return jnp.pad(x, ((0, 0), *padding, (0, 0)), constant_values=fill)


@op(dtypes=FLOAT)
def pool2d_of(x: Tensor, size: Attr, stride: Attr, padding: Attr, kind: str, divisor: Attr, channels_last: bool) -> Tensor:
    """Maximum or mean over windows of an image; use `max_pool2d` and `avg_pool2d`.

    >>> bireme.nn.functional.max_pool2d(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 2).tolist()
    [[[[4.0]]]]
    """
    image = x if channels_last else jnp.transpose(x, (0, 2, 3, 1))
    if kind == "max":
        parts = _windows(_padded(image, padding, -np.inf), size, stride)
        out = parts[0]
        for p in parts[1:]:
            out = jnp.where((p > out) | jnp.isnan(p), p, out)  # the first of equals gets the gradient, all of it
    else:
        out = sum(_windows(_padded(image, padding, 0), size, stride))
        if divisor == "inside":  # only what lies inside the image counts
            ones = jnp.ones((1, *image.shape[1:3], 1), image.dtype)
            out = out / sum(_windows(_padded(ones, padding, 0), size, stride))
        else:
            out = out / np.asarray(divisor, image.dtype)
    return out if channels_last else jnp.transpose(out, (0, 3, 1, 2))


@pool2d_of.check
def _(x, size, stride, padding, kind, channels_last):
    where = f"{kind}_pool2d"
    if x.ndim != 4:
        raise errors.bad(f"{where}(x)", "images of shape [batch, channels, height, width]", f"shape {list(x.shape)}")
    dims = x.shape[1:3] if channels_last else x.shape[2:4]
    for n, k, (a, b) in zip(dims, size, padding):
        if n + a + b < k:
            raise errors.bad(f"{where}(kernel_size)", f"a window within {n + a + b} pixels", list(size))


def _pool(where: str, x: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, kind: str, divisor: Any, data_format: str) -> Tensor:
    last = _channels_last(data_format, where)
    size = pair(kernel_size, f"{where}(kernel_size)")
    steps = size if stride is None else pair(stride, f"{where}(stride)")
    if min(*size, *steps) < 1:
        raise errors.bad(f"{where}(kernel_size, stride)", "numbers of 1 or more", [*size, *steps])
    if x.ndim != 4:
        raise errors.bad(f"{where}(x)", "images of shape [batch, channels, height, width]", x)
    dims = x.shape[1:3] if last else x.shape[2:4]
    edges = padding_of(padding, f"{where}(padding)")
    if edges == "VALID":
        edges = ((0, 0), (0, 0))
    elif edges == "SAME":
        need = [max(0, (-(-n // s) - 1) * s + k - n) for n, k, s in zip(dims, size, steps)]
        edges = tuple((n // 2, n - n // 2) for n in need)
    if ceil_mode:
        edges = tuple((a, b + (-(n + a + b - k)) % s) for n, (a, b), k, s in zip(dims, edges, size, steps))
    return pool2d_of(x, size, steps, edges, kind, divisor if divisor is not None else size[0] * size[1], last)


@composite()
def max_pool2d(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False, ceil_mode: bool = False,
               data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Largest value in each window.

    >>> bireme.nn.functional.max_pool2d(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 2).tolist()
    [[[[4.0]]]]
    """
    if return_mask:
        raise errors.bad("max_pool2d(return_mask)", "False: positions are not returned yet", True)
    return _pool("max_pool2d", x, kernel_size, stride, padding, ceil_mode, "max", None, data_format)


@composite()
def avg_pool2d(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, exclusive: bool = True,
               divisor_override: float | None = None, data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Mean of each window; padding does not count unless `exclusive` is False.

    >>> bireme.nn.functional.avg_pool2d(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 2).tolist()
    [[[[2.5]]]]
    """
    divisor: Any = divisor_override if divisor_override is not None else "inside" if exclusive else None
    return _pool("avg_pool2d", x, kernel_size, stride, padding, ceil_mode, "avg", divisor, data_format)
