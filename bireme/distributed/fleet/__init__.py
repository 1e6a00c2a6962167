"""Fleet: how a model is trained at scale. The functions are the methods of one object, `fleet.fleet`."""

from bireme.distributed import auto_parallel as auto
from bireme.distributed.fleet import base as base
from bireme.distributed.fleet import layers as layers
from bireme.distributed.fleet import meta_optimizers as meta_optimizers
from bireme.distributed.fleet import meta_parallel as meta_parallel
from bireme.distributed.fleet import model as model
from bireme.distributed.fleet import recompute as recompute
from bireme.distributed.fleet import utils
from bireme.distributed.fleet.base.distributed_strategy import DistributedStrategy
from bireme.distributed.fleet.base.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from bireme.distributed.fleet.base.topology import CommunicateTopology, HybridCommunicateGroup
from bireme.distributed.fleet.base.util_factory import UtilBase
from bireme.distributed.fleet.data_generator.data_generator import MultiSlotDataGenerator, MultiSlotStringDataGenerator
from bireme.distributed.fleet.dataset.dataset import DatasetBase as DatasetBase
from bireme.distributed.fleet.dataset.dataset import InMemoryDataset as InMemoryDataset
from bireme.distributed.fleet.dataset.dataset import QueueDataset as QueueDataset
from bireme.distributed.fleet.fleet import Fleet, fleet

init = fleet.init
is_first_worker = fleet.is_first_worker
worker_index = fleet.worker_index
worker_num = fleet.worker_num
node_num = fleet.node_num
local_rank = fleet.local_rank
is_worker = fleet.is_worker
is_server = fleet.is_server
is_coordinator = fleet.is_coordinator
worker_endpoints = fleet.worker_endpoints
server_num = fleet.server_num
server_index = fleet.server_index
server_endpoints = fleet.server_endpoints
barrier_worker = fleet.barrier_worker
all_reduce = fleet.all_reduce
util = fleet.util
get_hybrid_communicate_group = fleet.get_hybrid_communicate_group
distributed_optimizer = fleet.distributed_optimizer
distributed_model = fleet.distributed_model
distributed_scaler = fleet.distributed_scaler
minimize = fleet.minimize
init_worker = fleet.init_worker
init_server = fleet.init_server
run_server = fleet.run_server
stop_worker = fleet.stop_worker
save = fleet.save
save_persistables = fleet.save_persistables
save_inference_model = fleet.save_inference_model
save_cache_model = fleet.save_cache_model
save_cache_table = fleet.save_cache_table
save_dense_params = fleet.save_dense_params
save_one_table = fleet.save_one_table
load_model = fleet.load_model
load_inference_model = fleet.load_inference_model
load_one_table = fleet.load_one_table
set_date = fleet.set_date
print_table_stat = fleet.print_table_stat
shrink = fleet.shrink

__all__ = [
    "CommunicateTopology", "DistributedStrategy", "Fleet", "HybridCommunicateGroup", "MultiSlotDataGenerator",
    "MultiSlotStringDataGenerator", "PaddleCloudRoleMaker", "Role", "UserDefinedRoleMaker", "UtilBase", "auto",
    "barrier_worker", "distributed_model", "distributed_optimizer", "distributed_scaler", "fleet",
    "get_hybrid_communicate_group", "init", "init_server", "init_worker", "is_first_worker", "is_server", "is_worker",
    "load_model", "run_server", "save_cache_table", "save_inference_model", "save_persistables", "shrink",
    "stop_worker", "util", "utils", "worker_endpoints", "worker_index", "worker_num",
]  # fmt: skip
