"""Which library makes the matrix products and sums of a compiled program on a CPU."""

from __future__ import annotations

import math
from typing import Any

import jax

from bireme.core.base import machine, workers

# On ARM the products of Eigen are a sixth faster than those of YNNPACK, which is the compiler's choice: 35 against 30
# GFLOP/s on each core of a Neoverse N1. On x86 with AVX-512 they are at most a tenth ahead. But the products of a batch
# Eigen makes one by one.
GAIN = 0.15  # of the time of products that are in no batch
LOSS = 20  # times as long integers take, which Eigen leaves to a plain loop
# Since jax 0.11 a sum of what two logarithms of bfloat16 give is NaN by YNNPACK, if it has 4096 elements.
WRONG_SUMS = jax.__version_info__ >= (0, 11)


def options(program: Any, apart: bool = False) -> dict[str, Any]:
    """Options of the compiler for this jaxpr: what YNNPACK makes of it. Of rows that stay `apart`, all products: Eigen's
    round the last rows of a batch otherwise than the first.
    """
    by_eigen = not apart and _gains_by_eigen(program)
    if not by_eigen and not WRONG_SUMS:
        return {}
    kinds = ["INDIVIDUAL_CONVOLUTION", *["INDIVIDUAL_DOT"] * (not by_eigen), *["REDUCE"] * (not WRONG_SUMS)]
    return {"xla_cpu_experimental_ynn_fusion_type": ",".join([f"LIBRARY_FUSION_TYPE_{kind}" for kind in kinds])}


def _gains_by_eigen(program: Any) -> bool:
    """Whether single products gain more than batches lose, which then have one core of all, and products of integers."""
    if not machine.ARM:
        return False
    single, batched, integers = multiplications(program)
    lost = batched * (workers.processors() - 1) + integers * LOSS
    return bool(single) and lost <= single * GAIN


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
