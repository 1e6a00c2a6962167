"""Communication among processes: groups, collectives, messages."""

from bireme.distributed.communication import stream as stream
from bireme.distributed.communication.group import (
    Group,
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

__all__ = [
    "Group", "P2POp", "ReduceOp", "all_gather", "all_gather_object", "all_reduce", "alltoall", "alltoall_single",
    "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "destroy_process_group", "gather",
    "get_backend", "get_group", "irecv", "is_initialized", "isend", "recv", "recv_object_list", "reduce",
    "reduce_scatter", "scatter", "scatter_object_list", "send", "send_object_list", "wait",
]  # fmt: skip
