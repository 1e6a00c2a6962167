"""Convolutions on NVIDIA GPUs: the three functions of `conv_lowering` by XLA's own operator, which becomes a call of
cuDNN.
"""

from functools import partial

from bireme.ops.nn import conv_lowering

forward = partial(conv_lowering.forward, convolve=conv_lowering.by_operator)
input_grad = partial(conv_lowering.input_grad, convolve=conv_lowering.by_operator)
weight_grad = partial(conv_lowering.weight_grad, convolve=conv_lowering.by_operator)
