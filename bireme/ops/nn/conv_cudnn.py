"""Convolutions on NVIDIA GPUs: the three functions of `conv_lowering` by XLA's own operator, which becomes a call of
cuDNN; one channel a group by sums of shifted images, added up in float32, or by kernels where the window is large.
"""

import math

import jax.numpy as jnp

from bireme.core.base.later import Later
from bireme.ops.nn import conv_lowering
from bireme.ops.nn.conv_lowering import by_operator

conv_kernels = Later("bireme.ops._shared.conv_kernels")  # Pallas takes 0.3 s to import

SUMS = 49  # elements of a window at most: the time to compile grows with them


class Forms:
    """The three functions; `kernels` says whether there may be kernels among them. The compiler cannot divide these among
    the devices of a mesh, and would gather what they read."""

    def __init__(self, kernels: bool):
        self._kernels = kernels

    def forward(self, x, w, *rest):
        """The convolution of an image with a kernel."""
        if not _are_sums(w.shape[1], w.shape[0], rest[3], w.shape[2:]):
            return conv_lowering.forward(x, w, *rest, convolve=by_operator)
        if self._takes(x, w, *rest):
            return _by_kernel(x, w, *rest)
        return conv_lowering.forward(x, w, *rest, convolve=conv_lowering.by_shifts)

    def input_grad(self, g, w, dims, *rest):
        """The gradient of an image of sizes `dims`."""
        stride, pads, dilation, groups, last = rest
        if not _are_sums(w.shape[1], w.shape[0], groups, w.shape[2:]):
            return conv_lowering.input_grad(g, w, dims, *rest, convolve=by_operator)
        if max(stride) == 1:  # then it is a convolution with the window turned around
            sizes = zip(dims, conv_lowering.dims_of(g, last), w.shape[2:], pads, dilation)
            around = tuple([((k - 1) * d - a, n + a - m) for n, m, k, (a, _), d in sizes])
            if self._takes(g, w, stride, around, dilation, groups, last):
                return _by_kernel(g, jnp.flip(w, range(2, w.ndim)), stride, around, dilation, groups, last)
        return conv_lowering.input_grad(g, w, dims, *rest, convolve=conv_lowering.by_shifts)

    def weight_grad(self, x, g, window, *rest):
        """The gradient of a kernel over `window`."""
        *at, groups, last = rest
        axis = -1 if last else 1
        if not _are_sums(x.shape[axis] // groups, g.shape[axis], groups, window):
            return conv_lowering.weight_grad(x, g, window, *rest, convolve=by_operator)
        if self._kernels and conv_kernels.takes(x, g.size, window):
            return conv_kernels.weight_sums(conv_lowering.move(x, last), conv_lowering.move(g, last), window, *at)
        return conv_lowering.weight_grad(x, g, window, *rest, convolve=conv_lowering.by_shifts)

    def _takes(self, x, w, stride, pads, dilation, groups, last):
        made = x.shape[0] * groups * math.prod(conv_lowering.counted(x, w, stride, pads, dilation, last))
        return self._kernels and conv_kernels.takes(x, made, w.shape[2:])


ALONE, ON_MESH = Forms(kernels=True), Forms(kernels=False)


def _are_sums(per_group, outputs, groups, window):
    return per_group == 1 and outputs == groups > 1 and math.prod(window) <= SUMS


def _by_kernel(x, w, stride, pads, dilation, groups, last):
    return conv_lowering.back(conv_kernels.window_sums(conv_lowering.move(x, last), w, stride, pads, dilation), last)
