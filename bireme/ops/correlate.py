"""Convolutions by XLA: which form is fast at which shapes. Images are [batch, *spatial, channels], kernels [*window, channels / groups, outputs].

A convolution is linear in the image and in the kernel, so either gradient is the transpose of some form of it, and the
form that gives the result soonest need not be the one with the fastest transpose. On CUDA cuDNN has them all. On CPU:
- a window of one element, and few places for the window, are products of matrices: XLA's own operator is up to 50 times slower there
- one channel a group is a sum of shifted images, many groups are one product of many matrices, few groups a convolution each
- two axes are what XLA's operator is made for: a third is folded into the channels, a missing one added
"""

from __future__ import annotations

import functools
import math
import operator
import platform as machine

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.convolution import places, taps

_FEW = 49  # places of the window
_DIMENSIONS = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}
# measured: with wide vectors (AVX) XLA's operator gives the kernel's gradient two to three times faster than products do, without them slower
_WIDE = machine.machine().lower() in ("x86_64", "amd64")


def _padded(x, pads):
    if not any(a or b for a, b in pads):
        return x
    return lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *[(a, b, 0) for a, b in pads], (0, 0, 0)])


def _places(x, w, stride, pads, dilation):
    return tuple([places(n, k, s, p, d) for n, k, s, p, d in zip(x.shape[1:-1], w.shape, stride, pads, dilation)])


def _shifts(x, window, stride, pads, dilation, out):
    """The image at each place in the window: strided slices of [batch, *out, channels]."""
    x = _padded(x, pads)
    return [x[:, *at] for at in taps(window, stride, dilation, out)]


def _operator(x, w, stride, pads, dilation, groups):
    return lax.conv_general_dilated(x, w, stride, pads, rhs_dilation=dilation, dimension_numbers=_DIMENSIONS[x.ndim - 2], feature_group_count=groups)


def _product(x, w, stride, pads, dilation, groups):
    """Windows side by side, times the kernel; its transpose adds each share where it came from."""
    out, window = _places(x, w, stride, pads, dilation), w.shape[:-2]
    if groups == 1:
        rows = jnp.concatenate(_shifts(x, window, stride, pads, dilation, out), -1).reshape(-1, w.size // w.shape[-1])
        return (rows @ w.reshape(-1, w.shape[-1])).reshape(x.shape[0], *out, -1)
    # the groups first, so that it is one batched product
    apart = jnp.moveaxis(x.reshape(*x.shape[:-1], groups, -1), -2, 0)
    rows = jnp.concatenate(_shifts(apart.reshape(-1, *apart.shape[2:]), window, stride, pads, dilation, out), -1)
    kernel = jnp.moveaxis(w.reshape(-1, groups, w.shape[-1] // groups), 1, 0)
    made = (rows.reshape(groups, -1, kernel.shape[1]) @ kernel).reshape(groups, x.shape[0], *out, -1)
    return jnp.moveaxis(made, 0, -2).reshape(x.shape[0], *out, -1)


def _depthwise(x, w, stride, pads, dilation, groups):
    """One channel a group: the sum of shifted images, each times its place in the kernel."""
    out, window = _places(x, w, stride, pads, dilation), w.shape[:-2]
    kernel = w.reshape(-1, groups, w.shape[-1] // groups)
    shifts = _shifts(x, window, stride, pads, dilation, out)
    parts = [q[..., None] * k if k.shape[1] > 1 else q * k[:, 0] for q, k in zip(shifts, kernel)]
    return functools.reduce(operator.add, parts).reshape(x.shape[0], *out, -1)


def _form(x, w, stride, pads, dilation, groups, of):
    """The form to use: `of` is "out" for the result, "x" or "w" where its transpose is to give that gradient."""
    count = math.prod(_places(x, w, stride, pads, dilation))
    if max(w.shape[:-2]) == 1 and not any(a or b for a, b in pads):
        return _product
    if count <= _FEW or groups > 1:
        return _product
    if of == "x" and count <= 256 and w.shape[-1] >= 256:
        return _product
    return _product if of == "w" and not _WIDE and x.shape[-1] >= 16 else _operator


def _on_cpu(x, w, stride, pads, dilation, groups, of):
    if w.shape[-2] == 1 < groups:
        return _depthwise(x, w, stride, pads, dilation, groups)
    if x.ndim == 3:
        stride, pads, dilation = (1, *stride), ((0, 0), *pads), (1, *dilation)
        return _on_cpu(x[:, None], w[None], stride, pads, dilation, groups, of)[:, 0]
    if 1 < groups <= 8:
        parts = zip(jnp.split(x, groups, -1), jnp.split(w, groups, -1))
        return jnp.concatenate([_on_cpu(a, b, stride, pads, dilation, 1, of) for a, b in parts], -1)
    if x.ndim == 5 and groups == 1:
        return _folded(x, w, stride, pads, dilation, of)
    return _form(x, w, stride, pads, dilation, groups, of)(x, w, stride, pads, dilation, groups)


def _folded(x, w, stride, pads, dilation, of):
    """Three axes as two: the slices that a window meets along the first stand side by side in the channels."""
    batch, height, width, channels = x.shape[0], x.shape[2], x.shape[3], x.shape[4]
    depth = places(x.shape[1], w.shape[0], stride[0], pads[0], dilation[0])
    slices = _shifts(x, w.shape[:1], stride[:1], (pads[0], (0, 0), (0, 0)), dilation[:1], (depth,))
    flat = jnp.concatenate(slices, -1).reshape(batch * depth, height, width, w.shape[0] * channels)
    kernel = jnp.moveaxis(w, 0, 2).reshape(*w.shape[1:3], -1, w.shape[-1])
    made = _on_cpu(flat, kernel, stride[1:], pads[1:], dilation[1:], 1, of)
    return made.reshape(batch, depth, *made.shape[1:])


def _convolve(x, w, stride, pads, dilation, groups, of, platform):
    if platform == "cuda":
        return _operator(x, w, stride, pads, dilation, groups)
    return _on_cpu(x, w, stride, pads, dilation, groups, of)


def _spec(shape, dtype):
    return jax.ShapeDtypeStruct(tuple(shape), dtype)


def forward(x, w, stride, pads, dilation, groups, platform="cpu"):
    """The convolution of an image with a kernel."""
    out = _places(x, w, stride, pads, dilation)
    if not (x.size and w.size and math.prod(out)):
        return jnp.zeros((x.shape[0], *out, w.shape[-1]), x.dtype)
    return _convolve(x, w, stride, pads, dilation, groups, "out", platform)


def input_grad(g, w, spatial, stride, pads, dilation, groups, platform="cpu"):
    """The gradient of an image of `spatial` extents."""
    shape = (g.shape[0], *spatial, w.shape[-2] * groups)
    if not (g.size and w.size and math.prod(shape)):
        return jnp.zeros(shape, g.dtype)
    window = w.shape[:-2]
    if platform != "cuda" and w.shape[-2] == 1 and w.shape[-1] == groups > 1 and math.prod(window) > 9:
        return _depthwise_input_grad(g, w, spatial, stride, pads, dilation, groups)
    fixed = (w, stride, pads, dilation, groups, "x", platform)
    return jax.linear_transpose(lambda x: _convolve(x, *fixed), _spec(shape, g.dtype))(g)[0]


def weight_grad(x, g, window, stride, pads, dilation, groups, platform="cpu"):
    """The gradient of a kernel over `window`."""
    shape = (*window, x.shape[-1] // groups, g.shape[-1])
    if not (x.size and g.size):
        return jnp.zeros(shape, g.dtype)
    if platform != "cuda" and shape[-2] == 1 and shape[-1] == groups > 1:
        return _depthwise_weight_grad(x, g, shape, stride, pads, dilation)
    fixed = (stride, pads, dilation, groups, "w", platform)
    return jax.linear_transpose(lambda w: _convolve(x, w, *fixed), _spec(shape, g.dtype))(g)[0]


def _depthwise_input_grad(g, w, spatial, stride, pads, dilation, groups):
    """Many shifts: the gradient, spread by the stride, under the turned kernel; its transpose would add as many padded images."""
    window = w.shape[:-2]
    config = [(0, 0, 0)]
    for n, m, k, s, (a, _), d in zip(spatial, g.shape[1:-1], window, stride, pads, dilation):
        reach = (k - 1) * d
        config.append((reach - a, n + a - (m - 1) * s - 1, s - 1))
    spread = lax.pad(g, np.zeros((), g.dtype), [*config, (0, 0, 0)])
    none, ones = ((0, 0),) * len(window), (1,) * len(window)
    return _depthwise(spread, jnp.flip(w, range(len(window))), ones, none, dilation, groups)


def _depthwise_weight_grad(x, g, shape, stride, pads, dilation):
    """A loop over the window, whose body is compiled once; a product with ones adds faster than a sum along the first axes."""
    x = lax.optimization_barrier(_padded(x, pads))
    window, channels = shape[:-2], shape[-1]
    ones = jnp.ones((g.size // channels,), g.dtype)
    sizes = [(m - 1) * s + 1 for m, s in zip(g.shape[1:-1], stride)]
    starts = np.stack(np.meshgrid(*[np.arange(k) * d for k, d in zip(window, dilation)], indexing="ij"), -1).reshape(-1, len(window))
    steps, zero = tuple([slice(None, None, s) for s in stride]), np.int32(0)

    def tap(_, at):
        q = lax.dynamic_slice(x, (zero, *at, zero), (x.shape[0], *sizes, channels))[:, *steps]
        return None, ones @ (q * g).reshape(-1, channels)

    return lax.scan(tap, None, jnp.asarray(starts, jnp.int32))[1].reshape(shape)
