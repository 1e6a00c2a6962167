"""Checkpoints of tensors that are divided among processes: saved by any number of them, loaded by any other."""

from bireme.distributed.checkpoint.load_state_dict import load_merged_state_dict, load_state_dict
from bireme.distributed.checkpoint.logical import set_sharded_state, sharded_state
from bireme.distributed.checkpoint.save_state_dict import save_state_dict
from bireme.distributed.checkpoint.sharded_weight import (
    ShardedStateDict,
    ShardedWeight,
    build_sharded_state_dict,
    shard_weight,
)

__all__ = [
    "ShardedStateDict", "ShardedWeight", "build_sharded_state_dict", "load_merged_state_dict", "load_state_dict",
    "save_state_dict", "set_sharded_state", "shard_weight", "sharded_state",
]  # fmt: skip
