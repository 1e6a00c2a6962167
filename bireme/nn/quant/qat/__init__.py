"""Layers whose weights and inputs are quantized, in training as if, and after conversion as integers."""

from bireme.nn.quant.qat.conv import QuantedConv2D
from bireme.nn.quant.qat.linear import QuantedLinear

__all__ = ["QuantedConv2D", "QuantedLinear"]
