"""Optimizers around optimizers, for training on several processes."""

from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer import DygraphShardingOptimizer, HybridParallelOptimizer

__all__ = ["DygraphShardingOptimizer", "HybridParallelOptimizer"]
