"""Linear maps with quantized weights, numbers as integers and back, and layers that stand for these in a network."""

from bireme.nn.quant import format, qat
from bireme.nn.quant.stub import Stub
from bireme.ops import (  # written by `make api`
    dequantize_linear, llm_int8_linear, quantize_linear, weight_dequantize, weight_only_linear, weight_quantize,
)  # fmt: skip

__all__ = ["Stub", "format", "qat"]
__all__ += [  # written by `make api`
    "dequantize_linear", "llm_int8_linear", "quantize_linear", "weight_dequantize", "weight_only_linear",
    "weight_quantize",
]  # fmt: skip
