"""Which library makes the matrix products of a compiled program on a CPU."""

from __future__ import annotations

import math
import platform
from typing import Any

from bireme.core.base import workers

# On ARM the products of Eigen are a sixth faster than those of YNNPACK, which is the compiler's choice: 35 against 30
# GFLOP/s on each core of a Neoverse N1. On x86 with AVX-512 they are at most a tenth ahead. But the products of a batch
# Eigen makes one by one.
ARM = platform.machine() in ("aarch64", "arm64")
BY_EIGEN = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION,LIBRARY_FUSION_TYPE_REDUCE"
}
GAIN = 0.15  # of the time of products that are in no batch


def options(program: Any) -> dict[str, Any]:
    """Options of the compiler for this jaxpr: Eigen, where single products gain more than batches lose, which then have
    one core of all.
    """
    if not ARM:
        return {}
    single, batched = multiplications(program)
    return BY_EIGEN if single and batched * (workers.processors() - 1) <= single * GAIN else {}


def multiplications(program: Any) -> tuple[int, int]:
    """How many there are in a jaxpr's products: in those by themselves, and in those of batches."""
    single = batched = 0
    for eqn in getattr(program, "jaxpr", program).eqns:  # since jax 0.11 both may be one
        if eqn.primitive.name == "dot_general":
            (_, summed), (batch, _) = eqn.params["dimension_numbers"]
            count = math.prod([eqn.invars[1].aval.shape[i] for i in summed]) * math.prod(eqn.outvars[0].aval.shape)
            single, batched = (single, batched + count) if batch else (single + count, batched)
        else:
            times = eqn.params.get("length", 1) if eqn.primitive.name == "scan" else 1
            inner = [p for given in eqn.params.values() for p in (given if isinstance(given, tuple) else (given,))]
            for more in [multiplications(p) for p in inner if hasattr(getattr(p, "jaxpr", p), "eqns")]:
                single, batched = single + times * more[0], batched + times * more[1]
    return single, batched
