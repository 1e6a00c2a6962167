"""What programs import by this name: tensors, layers, optimizers and data loaders on a mesh."""

from bireme.distributed.auto_parallel.loader import ShardDataloader as ShardDataloader
from bireme.distributed.auto_parallel.loader import shard_dataloader
from bireme.distributed.auto_parallel.sharding import (
    ShardingStage1,
    ShardingStage2,
    ShardingStage3,
    shard_optimizer,
    shard_scaler,
)
from bireme.distributed.auto_parallel.tensors import (
    dtensor_from_fn,
    dtensor_from_local,
    dtensor_to_local,
    reshard,
    shard_layer,
    shard_tensor,
    unshard_dtensor,
)

__all__ = [
    "ShardingStage1", "ShardingStage2", "ShardingStage3", "dtensor_from_fn", "dtensor_from_local", "dtensor_to_local",
    "reshard", "shard_dataloader", "shard_layer", "shard_optimizer", "shard_scaler", "shard_tensor", "unshard_dtensor",
]  # fmt: skip
