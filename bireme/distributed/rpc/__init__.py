"""Calls of functions in other processes of a job."""

from bireme.core.base.boundary import guard_names
from bireme.distributed.rpc.rpc import (
    WorkerInfo as WorkerInfo,
)
from bireme.distributed.rpc.rpc import (
    get_all_worker_infos,
    get_current_worker_info,
    get_worker_info,
    init_rpc,
    rpc_async,
    rpc_sync,
    shutdown,
)

__all__ = [
    "get_all_worker_infos", "get_current_worker_info", "get_worker_info", "init_rpc", "rpc_async", "rpc_sync",
    "shutdown",
]  # fmt: skip

guard_names(globals(), "bireme.distributed")
