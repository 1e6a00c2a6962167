"""distributed_model: the model that all workers train."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.distributed.fleet.meta_parallel.pipeline_parallel import PipelineParallel as PipelineParallel
from bireme.distributed.fleet.meta_parallel.pipeline_parallel import pipeline_of
from bireme.distributed.fleet.meta_parallel.tensor_parallel import SegmentParallel as SegmentParallel
from bireme.distributed.fleet.meta_parallel.tensor_parallel import ShardingParallel as ShardingParallel
from bireme.distributed.fleet.meta_parallel.tensor_parallel import TensorParallel as TensorParallel
from bireme.distributed.parallel import DataParallel
from bireme.distributed.world import ParallelMode
from bireme.nn.layer import Layer

__all__ = ["distributed_model"]


def distributed_model(model: Any, hcg: HybridCommunicateGroup, strategy: Any) -> Any:
    """A layer around the model for the way in which it is divided; the model itself for one worker."""
    if not isinstance(model, Layer):
        raise errors.bad("distributed_model(model)", "a Layer", model)
    mode = hcg.get_parallel_mode()
    if mode is None:
        return model
    if mode == ParallelMode.DATA_PARALLEL:
        return DataParallel(
            model,
            comm_buffer_size=strategy.fuse_grad_size_in_MB,
            last_comm_buffer_size=strategy.last_comm_group_size_MB,
            find_unused_parameters=strategy.find_unused_parameters,
            group=hcg.get_data_parallel_group(),
        )
    if mode == ParallelMode.PIPELINE_PARALLEL:
        return pipeline_of(model, hcg, strategy)
    kinds = {ParallelMode.TENSOR_PARALLEL: TensorParallel, ParallelMode.SEGMENT_PARALLEL: SegmentParallel}
    return kinds.get(mode, ShardingParallel)(model, hcg, strategy=strategy)
