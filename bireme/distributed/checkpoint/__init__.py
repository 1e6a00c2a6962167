"""Checkpoints of tensors that are divided among processes: saved by any number of them, loaded by any other."""

from bireme.distributed.checkpoint.load_state_dict import load_merged_state_dict, load_state_dict
from bireme.distributed.checkpoint.logical import set_sharded_state, sharded_state
from bireme.distributed.checkpoint.merge import merge_sharded_state_dict
from bireme.distributed.checkpoint.save_state_dict import clear_async_save_task_queue, save_state_dict
from bireme.distributed.checkpoint.sharded_weight import (
    ShardedStateDict,
    ShardedWeight,
    build_sharded_state_dict,
    shard_weight,
)
from bireme.distributed.checkpoint.training import Checkpoint

__all__ = [
    "Checkpoint", "ShardedStateDict", "ShardedWeight", "build_sharded_state_dict", "clear_async_save_task_queue",
    "load_merged_state_dict", "load_state_dict", "merge_sharded_state_dict", "save_state_dict", "set_sharded_state",
    "shard_weight", "sharded_state",
]  # fmt: skip
