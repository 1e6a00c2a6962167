"""Tensor parallel layers: weights that are divided among processes."""

from bireme.distributed.fleet.layers.mpu.mp_layers import (
    ColumnParallelLinear,
    ParallelCrossEntropy,
    RowParallelLinear,
    VocabParallelEmbedding,
)
from bireme.distributed.fleet.layers.mpu.random import (
    RNGStatesTracker,
    get_rng_state_tracker,
    model_parallel_random_seed,
)

__all__ = [
    "ColumnParallelLinear", "ParallelCrossEntropy", "RNGStatesTracker", "RowParallelLinear", "VocabParallelEmbedding",
    "get_rng_state_tracker", "model_parallel_random_seed",
]  # fmt: skip
