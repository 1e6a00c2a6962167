"""Which kernels a compiled program takes on CUDA: the ones that cuBLAS and cuDNN propose, without trying all of them.

The compiler would time every kernel that could do: on an H200 half a second for a convolution, five for the gradient of
a depthwise one, one after another, and a second process may choose others, which round otherwise. Their own first
proposals are as fast (GPT-2 small 33.5 against 33.2 ms a step; a 3 x 3 convolution 0.28 against 0.27 ms, its gradients
alike). For products level 0 takes these; for convolutions it takes one that is 400 times as slow, and leaving out what
is not deterministic takes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PRODUCTS = {"xla_gpu_autotune_level": 0}
CONVOLUTIONS = {"xla_gpu_exclude_nondeterministic_ops": True}

# Graphs of kernels are made anew whenever a buffer has moved, which for short programs takes longer than to launch them:
# 0.27 ms of a piece's 0.7. A softmax as one kernel by Triton takes the compiler 1.3 s, where others take 0.2 for two: of
# Swin's pieces those were the last to be there (3.8 s to the first step in place of 4.6).
SHORT_PROGRAM = {"xla_gpu_enable_command_buffer": "", "xla_disable_hlo_passes": "triton-softmax-rewriter"}

# Where a program is called again and again its arrays stay where they are, and convolutions may be in its graphs too, so that
# it is one: ResNet-50 for one image is launched in 0.37 ms, else in 1.24; a training step of a U-Net takes 37.8 ms where
# the host is slow, else 61.3.
WITH_CONVOLUTIONS = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,CONVOLUTION"
}


# Beside convolutions kernels are timed where there is one of these. A scatter would be made deterministic too, one
# element after another; a program with cuDNN's attention, compiled so, ends its first run with an error from XLA's tables
# of compiled graphs ("raw_hash_map<>::at").
TIMED = ("scatter", "dot_product_attention")


def options(program: Any) -> dict[str, Any]:
    """Options of the compiler for this jaxpr."""
    found = set(_primitives(program))
    if "conv_general_dilated" not in found:
        return PRODUCTS
    return {} if any(part in name for name in found for part in TIMED) else CONVOLUTIONS


def _primitives(program: Any) -> Iterator[str]:
    for eqn in getattr(program, "jaxpr", program).eqns:  # since jax 0.11 both may be one
        yield eqn.primitive.name
        for given in eqn.params.values():
            for inner in given if isinstance(given, tuple) else (given,):
                if hasattr(getattr(inner, "jaxpr", inner), "eqns"):
                    yield from _primitives(inner)
