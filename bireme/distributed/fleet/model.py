"""distributed_model: the model that all workers train."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.distributed.fleet.meta_parallel.pipeline_parallel import PipelineParallel as PipelineParallel
from bireme.distributed.fleet.meta_parallel.tensor_parallel import ShardingParallel as ShardingParallel
from bireme.distributed.fleet.meta_parallel.tensor_parallel import TensorParallel as TensorParallel
from bireme.nn.layer import Layer

__all__ = ["distributed_model"]


def distributed_model(model: Any) -> Any:
    """The model itself: one worker has all data and all layers."""
    if not isinstance(model, Layer):
        raise errors.bad("distributed_model(model)", "a Layer", model)
    return model
