"""Layers of hybrid parallel training."""

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
from bireme.distributed.fleet.meta_parallel.parallel_layers.pp_layers import LayerDesc, PipelineLayer, SharedLayerDesc

__all__ = [
    "ColumnParallelLinear", "LayerDesc", "ParallelCrossEntropy", "PipelineLayer", "RNGStatesTracker",
    "RowParallelLinear", "SharedLayerDesc", "VocabParallelEmbedding", "get_rng_state_tracker",
    "model_parallel_random_seed",
]  # fmt: skip
