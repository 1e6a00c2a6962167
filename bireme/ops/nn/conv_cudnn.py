"""Convolutions on NVIDIA GPUs: the three functions of `conv_lowering` by XLA's own operator, which becomes a call of
cuDNN; one channel a group by sums of shifted images, added up in float32, the gradient of a large window by a kernel.
"""

import math

from bireme.core.base.later import Later
from bireme.ops._shared.precision import widen
from bireme.ops.nn import conv_lowering
from bireme.ops.nn.conv_lowering import by_operator

conv_kernels = Later("bireme.ops._shared.conv_kernels")  # Pallas takes 0.3 s to import

SUMS = 49  # elements of a window at most: the time to compile grows with them


def _are_sums(per_group, outputs, groups, window):
    return per_group == 1 and outputs == groups > 1 and math.prod(window) <= SUMS


def forward(x, w, *rest):
    """The convolution of an image with a kernel."""
    if _are_sums(w.shape[1], w.shape[0], rest[3], w.shape[2:]):
        return conv_lowering.forward(widen(x), widen(w), *rest, convolve=conv_lowering.by_shifts)
    return conv_lowering.forward(x, w, *rest, convolve=by_operator)


def input_grad(g, w, dims, *rest):
    """The gradient of an image of sizes `dims`."""
    if _are_sums(w.shape[1], w.shape[0], rest[3], w.shape[2:]):
        return conv_lowering.input_grad(widen(g), widen(w), dims, *rest, convolve=conv_lowering.by_shifts)
    return conv_lowering.input_grad(g, w, dims, *rest, convolve=by_operator)


def weight_grad(x, g, window, *rest):
    """The gradient of a kernel over `window`."""
    *at, groups, last = rest
    axis = -1 if last else 1
    if _are_sums(x.shape[axis] // groups, g.shape[axis], groups, window):
        if conv_kernels.takes(x, g, window):
            return conv_kernels.weight_sums(conv_lowering.move(x, last), conv_lowering.move(g, last), window, *at)
        return conv_lowering.weight_grad(widen(x), widen(g), window, *rest, convolve=conv_lowering.by_shifts)
    return conv_lowering.weight_grad(x, g, window, *rest, convolve=by_operator)
