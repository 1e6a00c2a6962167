"""Which library makes the matrix products of a compiled program on a CPU."""

from __future__ import annotations

import math
from typing import Any

from bireme.core.base import machine, workers

# On ARM the products of Eigen are a sixth faster than those of YNNPACK, which is the compiler's choice: 35 against 30
# GFLOP/s on each core of a Neoverse N1. On x86 with AVX-512 they are at most a tenth ahead. But the products of a batch
# Eigen makes one by one.
BY_EIGEN = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION,LIBRARY_FUSION_TYPE_REDUCE"
}
GAIN = 0.15  # of the time of products that are in no batch
LOSS = 20  # times as long integers take, which Eigen leaves to a plain loop


def options(program: Any) -> dict[str, Any]:
    """Options of the compiler for this jaxpr: Eigen, where single products gain more than batches lose, which then have
    one core of all, and products of integers.
    """
    if not machine.ARM:
        return {}
    single, batched, integers = multiplications(program)
    lost = batched * (workers.processors() - 1) + integers * LOSS
    return BY_EIGEN if single and lost <= single * GAIN else {}


def multiplications(program: Any) -> tuple[int, int, int]:
    """How many there are in a jaxpr's products: in those by themselves, in those of batches, and in those of integers."""
    found = [0, 0, 0]
    for eqn in getattr(program, "jaxpr", program).eqns:  # since jax 0.11 both may be one
        if eqn.primitive.name == "dot_general":
            (_, summed), (batch, _) = eqn.params["dimension_numbers"]
            count = math.prod([eqn.invars[1].aval.shape[i] for i in summed]) * math.prod(eqn.outvars[0].aval.shape)
            found[2 if eqn.outvars[0].aval.dtype.kind in "iu" else 1 if batch else 0] += count
        else:
            times = eqn.params.get("length", 1) if eqn.primitive.name == "scan" else 1
            inner = [p for given in eqn.params.values() for p in (given if isinstance(given, tuple) else (given,))]
            for more in [multiplications(p) for p in inner if hasattr(getattr(p, "jaxpr", p), "eqns")]:
                found = [n + times * m for n, m in zip(found, more, strict=True)]
    return found[0], found[1], found[2]
