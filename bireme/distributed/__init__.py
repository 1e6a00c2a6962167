"""Training on several devices and machines."""

import importlib
from typing import TYPE_CHECKING, Any

from bireme.core.base.boundary import guard_names
from bireme.distributed import checkpoint as checkpoint
from bireme.distributed import communication as communication
from bireme.distributed import elastic as elastic
from bireme.distributed import fleet
from bireme.distributed import models as models
from bireme.distributed import sharding as sharding
from bireme.distributed import utils as utils
from bireme.distributed.auto_parallel.api import (
    ShardingStage1,
    ShardingStage2,
    ShardingStage3,
    dtensor_from_fn,
    reshard,
    shard_dataloader,
    shard_layer,
    shard_optimizer,
    shard_scaler,
    shard_tensor,
    unshard_dtensor,
)
from bireme.distributed.auto_parallel.dist_attribute import DistAttr
from bireme.distributed.auto_parallel.dist_model import DistModel, in_auto_parallel_align_mode, to_static
from bireme.distributed.auto_parallel.high_level_api import to_distributed
from bireme.distributed.auto_parallel.intermediate.context_parallel import ContextParallel, PrepareContextParallel
from bireme.distributed.auto_parallel.intermediate.parallelize import parallelize
from bireme.distributed.auto_parallel.intermediate.pipeline_parallel import SplitPoint
from bireme.distributed.auto_parallel.intermediate.tensor_parallel import (
    ColWiseParallel,
    ConvParallel,
    PrepareLayerInput,
    PrepareLayerOutput,
    RowWiseParallel,
    SequenceParallelBegin,
    SequenceParallelDisable,
    SequenceParallelEnable,
    SequenceParallelEnd,
)
from bireme.distributed.auto_parallel.local_layer import LocalLayer, local_map
from bireme.distributed.auto_parallel.placement_type import Partial, Placement, ReduceType, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, get_mesh, set_mesh
from bireme.distributed.auto_parallel.strategy import Strategy
from bireme.distributed.checkpoint.load_state_dict import load_merged_state_dict, load_state_dict
from bireme.distributed.checkpoint.save_state_dict import save_state_dict
from bireme.distributed.checkpoint.sharded_weight import (
    ShardedStateDict,
    ShardedWeight,
    build_sharded_state_dict,
    shard_weight,
)
from bireme.distributed.collective import (
    create_nccl_config,
    is_available,
    new_group,
    restart_process_group,
    shutdown_process_group,
)
from bireme.distributed.communication import stream as stream
from bireme.distributed.communication.group import (
    Group as Group,
)
from bireme.distributed.communication.group import (
    barrier,
    destroy_process_group,
    get_backend,
    get_group,
    is_initialized,
    wait,
)
from bireme.distributed.communication.messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from bireme.distributed.communication.objects import (
    all_gather_object,
    broadcast_object_list,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from bireme.distributed.communication.reduce import ReduceOp, reduce
from bireme.distributed.communication.tensors import (
    all_gather,
    all_reduce,
    alltoall,
    alltoall_single,
    broadcast,
    gather,
    reduce_scatter,
    scatter,
)
from bireme.distributed.entry_attr import CountFilterEntry, ProbabilityEntry, ShowClickEntry
from bireme.distributed.fleet.dataset.dataset import InMemoryDataset, QueueDataset
from bireme.distributed.fleet.layers.mpu.mp_ops import split
from bireme.distributed.launch.entry import launch
from bireme.distributed.parallel import (
    DataParallel as DataParallel,
)
from bireme.distributed.parallel import (
    ParallelEnv,
    ParallelMode,
    get_rank,
    get_world_size,
    init_parallel_env,
)
from bireme.distributed.parallel_with_gloo import gloo_barrier, gloo_init_parallel_env, gloo_release
from bireme.distributed.spawn import spawn

if TYPE_CHECKING:
    from bireme.distributed import planning as planning
    from bireme.distributed import rpc as rpc
    from bireme.distributed.planning.plan import plan

__all__ = [
    "ColWiseParallel", "ContextParallel", "ConvParallel", "CountFilterEntry", "DistAttr", "DistModel",
    "InMemoryDataset", "LocalLayer", "P2POp", "ParallelEnv", "ParallelMode", "Partial", "Placement",
    "PrepareContextParallel", "PrepareLayerInput", "PrepareLayerOutput", "ProbabilityEntry", "ProcessMesh",
    "QueueDataset", "ReduceOp", "ReduceType", "Replicate", "RowWiseParallel", "SequenceParallelBegin",
    "SequenceParallelDisable", "SequenceParallelEnable", "SequenceParallelEnd", "Shard", "ShardedStateDict",
    "ShardedWeight", "ShardingStage1", "ShardingStage2", "ShardingStage3", "ShowClickEntry", "SplitPoint", "Strategy",
    "all_gather", "all_gather_object", "all_reduce", "alltoall", "alltoall_single", "barrier", "batch_isend_irecv",
    "broadcast", "broadcast_object_list", "build_sharded_state_dict", "create_nccl_config", "destroy_process_group",
    "dtensor_from_fn", "fleet", "gather", "get_backend", "get_group", "get_mesh", "get_rank", "get_world_size",
    "gloo_barrier", "gloo_init_parallel_env", "gloo_release", "in_auto_parallel_align_mode", "init_parallel_env",
    "irecv", "is_available", "is_initialized", "isend", "launch", "load_merged_state_dict", "load_state_dict",
    "local_map", "new_group", "parallelize", "plan", "recv", "recv_object_list", "reduce", "reduce_scatter", "reshard",
    "restart_process_group", "save_state_dict", "scatter", "scatter_object_list", "send", "send_object_list",
    "set_mesh", "shard_dataloader", "shard_layer", "shard_optimizer", "shard_scaler", "shard_tensor", "shard_weight",
    "shutdown_process_group", "spawn", "split", "stream", "to_distributed", "to_static", "unshard_dtensor", "wait",
]  # fmt: skip


for _module in (globals(), *map(vars, (checkpoint, communication, elastic, sharding, stream))):
    if "__all__" in _module:
        guard_names(_module, __name__)


def __getattr__(name: str) -> Any:
    """The search for a plan and calls in other processes, imported when they are first asked for."""
    if name == "rpc":
        return importlib.import_module(f"{__name__}.rpc")  # which makes it a name of this package
    if name in ("plan", "planning"):
        found = importlib.import_module(f"{__name__}.planning")
        globals().update(planning=found, plan=found.plan)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
