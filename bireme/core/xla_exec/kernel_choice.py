"""Which kernels a compiled program takes on CUDA: the ones that cuBLAS and cuDNN propose, without trying all of them.

The compiler would time every kernel that could do: on an H200 half a second for a convolution, five for the gradient of
a depthwise one, one after another, and a second process may choose others, which round otherwise. Their own first
proposals are as fast (GPT-2 small 33.5 against 33.2 ms a step; a 3 x 3 convolution 0.28 against 0.27 ms, its gradients
alike). For products level 0 takes these; for convolutions it takes one that is 400 times as slow, and leaving out what
has no one order takes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from jax.extend.mlir import ir

PRODUCTS = {"xla_gpu_autotune_level": 0}
IN_ORDER = {"xla_gpu_exclude_nondeterministic_ops": True}

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


# The gradient of cuDNN's attention promises one order of its sums where the program is compiled so and each call says it, see
# `settle`; without, 30 runs of each of four shapes gave the same bits too.
ATTENTION, SCATTER, CONVOLUTION = "dot_product_attention", "scatter", "conv_general_dilated"


def options(program: Any, settled: bool = True) -> dict[str, Any]:
    """Options of the compiler for this jaxpr; `settled`: `settle` will see what it is lowered to."""
    steps = list(_steps(program))
    names = {step.primitive.name for step in steps}
    attends = any(ATTENTION in name for name in names)
    # a scatter to places that come several times would be made one element after another, see `ordered_sums` for most
    scatters = any(SCATTER in step.primitive.name and not step.params.get("unique_indices") for step in steps)
    if scatters or (attends and not settled):
        return {} if CONVOLUTION in names else PRODUCTS
    if CONVOLUTION in names:
        return IN_ORDER
    return PRODUCTS | IN_ORDER if attends else PRODUCTS


def settle(lowered: Any, program: Any) -> None:
    """Let each gradient of cuDNN's attention say that it adds in one order, where the options for this jaxpr say so.

    The compiler says it for the first of those that are alike, and looks for the others under the name that they have with it:
    without this their program ends its first run with "raw_hash_map<>::at".
    """
    if any(ATTENTION in step.primitive.name for step in _steps(program)):
        module = lowered.compiler_ir("stablehlo")
        with module.context:
            module.operation.walk(_say_so)


def _say_so(step: Any) -> Any:
    if step.name == "stablehlo.custom_call":
        target = ir.StringAttr(step.attributes["call_target_name"]).value
        if target.startswith("__cudnn$fmha") and target.endswith("Backward"):
            config = json.loads(ir.StringAttr(step.attributes["backend_config"]).value)
            config["cudnn_fmha_backend_config"]["force_deterministic"] = True
            step.attributes["backend_config"] = ir.StringAttr.get(json.dumps(config))
    return ir.WalkResult.ADVANCE


def _steps(program: Any) -> Iterator[Any]:
    for eqn in getattr(program, "jaxpr", program).eqns:  # since jax 0.11 both may be one
        yield eqn
        for given in eqn.params.values():
            for inner in given if isinstance(given, tuple) else (given,):
                if hasattr(getattr(inner, "jaxpr", inner), "eqns"):
                    yield from _steps(inner)
