"""Optimizers around optimizers, for training on several processes."""

from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer.dygraph_sharding_optimizer import (
    DygraphShardingOptimizer,
    DygraphShardingOptimizerV2,
)
from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer.hybrid_parallel_optimizer import (
    HybridParallelClipGrad,
    HybridParallelOptimizer,
)

__all__ = [
    "DygraphShardingOptimizer",
    "DygraphShardingOptimizerV2",
    "HybridParallelClipGrad",
    "HybridParallelOptimizer",
]
