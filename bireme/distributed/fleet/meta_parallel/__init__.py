"""Hybrid parallel training: tensor parallel layers, pipelines, and the layers around models."""

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
from bireme.distributed.fleet.meta_parallel import sharding as sharding
from bireme.distributed.fleet.meta_parallel.meta_parallel_base import MetaParallelBase as MetaParallelBase
from bireme.distributed.fleet.meta_parallel.parallel_layers.pp_layers import (
    LayerDesc,
    LocalSharedLayerDesc,
    PipelineLayer,
    SharedLayerDesc,
)
from bireme.distributed.fleet.meta_parallel.pipeline_parallel import (
    DualPipeVParallel,
    PipelineDatasetPreprocessor,
    PipelineParallel,
    PipelineParallelMicroStepLocations,
    PipelineParallelWithInterleave,
    PipelineParallelWithInterleaveFthenB,
    VPPFhenBInBalancedMemory,
    register_global_pipeline_parallel_hook,
)
from bireme.distributed.fleet.meta_parallel.schedule_nodes import ScheduleChunk, ScheduleNode
from bireme.distributed.fleet.meta_parallel.tensor_parallel import SegmentParallel, ShardingParallel, TensorParallel

__all__ = [
    "ColumnParallelLinear", "DualPipeVParallel", "LayerDesc", "LocalSharedLayerDesc", "ParallelCrossEntropy",
    "PipelineDatasetPreprocessor", "PipelineLayer", "PipelineParallel", "PipelineParallelMicroStepLocations",
    "PipelineParallelWithInterleave", "PipelineParallelWithInterleaveFthenB", "RNGStatesTracker", "RowParallelLinear",
    "ScheduleChunk", "ScheduleNode", "SegmentParallel", "ShardingParallel", "SharedLayerDesc", "TensorParallel",
    "VPPFhenBInBalancedMemory", "VocabParallelEmbedding", "get_rng_state_tracker", "model_parallel_random_seed",
    "register_global_pipeline_parallel_hook",
]  # fmt: skip
