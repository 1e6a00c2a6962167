"""Collectives on tensors: the calls of `stream` without a choice of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication import stream
from bireme.distributed.communication.group import Group, Task
from bireme.distributed.communication.reduce_op import ReduceOp

__all__ = [
    "all_gather", "all_reduce", "alltoall", "alltoall_single", "broadcast", "gather", "reduce_scatter", "scatter",
]  # fmt: skip


def all_reduce(tensor: Tensor, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True) -> Task | None:
    """Replace a tensor in every process by the reduction of all processes' tensors.

    Args:
        tensor: The tensor, written in place.
        op: Reduction, one of ``ReduceOp``. Default: the sum.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> task = bireme.distributed.all_reduce(x)
        >>> x.tolist()
        [1.0, 2.0]
    """
    return stream.all_reduce(tensor, op, group, sync_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """Give every process the tensors of all processes.

    Args:
        tensor_list: Where they go: an empty list, or a list of one tensor per process.
        tensor: The tensor of this process.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> task = bireme.distributed.all_gather(found, bireme.to_tensor([1, 2]))
        >>> [x.tolist() for x in found]
        [[1, 2]]
    """
    return stream.all_gather(tensor_list, tensor, group, sync_op)


def alltoall(
    out_tensor_list: list[Tensor], in_tensor_list: Sequence[Tensor], group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """Send one tensor to every process, and receive one from each.

    Args:
        out_tensor_list: Where the received tensors go: an empty list, or a list of one tensor per process.
        in_tensor_list: The tensors to send, one per process.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> task = bireme.distributed.alltoall(found, [bireme.to_tensor([1, 2])])
        >>> [x.tolist() for x in found]
        [[1, 2]]
    """
    return stream.alltoall(out_tensor_list, in_tensor_list, group, sync_op)


def alltoall_single(
    out_tensor: Tensor,
    in_tensor: Tensor,
    in_split_sizes: Sequence[int] | None = None,
    out_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Send a part of a tensor to every process, and receive one from each.

    Args:
        out_tensor: Where the received parts go, one after the other along the first axis.
        in_tensor: The tensor whose parts along the first axis are sent.
        in_split_sizes: Sizes of the parts that are sent. Default: None, equal ones.
        out_split_sizes: Sizes of the received parts. Default: None, equal ones.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> out = bireme.zeros([2])
        >>> task = bireme.distributed.alltoall_single(out, bireme.to_tensor([1.0, 2.0]))
        >>> out.tolist()
        [1.0, 2.0]
    """
    return stream.alltoall_single(out_tensor, in_tensor, out_split_sizes, in_split_sizes, group, sync_op)


def broadcast(tensor: Tensor, src: int, group: Group | None = None, sync_op: bool = True) -> Task | None:
    """Replace a tensor in every process by that of one process.

    Args:
        tensor: The tensor, written in place where the process is not the source.
        src: Rank of the source in the world.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> bireme.distributed.broadcast(x, src=0).is_completed(), x.tolist()
        (True, [1.0, 2.0])
    """
    return stream.broadcast(tensor, src, group, sync_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Give one process the tensors of all processes.

    Args:
        tensor: The tensor of this process.
        gather_list: Where they go in the process that gathers: an empty list, or a list of one tensor per process.
            Default: None, for the other processes.
        dst: Rank of the process that gathers. Default: 0.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> task = bireme.distributed.gather(bireme.to_tensor([1, 2]), found)
        >>> [x.tolist() for x in found]
        [[1, 2]]
    """
    return stream.gather(tensor, gather_list, dst, group, sync_op)


def reduce_scatter(
    tensor: Tensor,
    tensor_list: Sequence[Tensor],
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Reduce lists of tensors over all processes, and give each process its part of the result.

    Args:
        tensor: Where this process' part goes.
        tensor_list: The tensors to reduce, one per process.
        op: Reduction, one of ``ReduceOp``. Default: the sum.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> out = bireme.zeros([2])
        >>> task = bireme.distributed.reduce_scatter(out, [bireme.to_tensor([1.0, 2.0])])
        >>> out.tolist()
        [1.0, 2.0]
    """
    return stream.reduce_scatter(tensor, tensor_list, op, group, sync_op)


def scatter(
    tensor: Tensor,
    tensor_list: Sequence[Tensor] | None = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Give each process a tensor from a list that one process has.

    Args:
        tensor: Where this process' tensor goes.
        tensor_list: The tensors, one per process. Default: None, for processes that are not the source.
        src: Rank of the source. Default: 0.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> out = bireme.zeros([2])
        >>> task = bireme.distributed.scatter(out, [bireme.to_tensor([1.0, 2.0])])
        >>> out.tolist()
        [1.0, 2.0]
    """
    return stream.scatter(tensor, tensor_list, src, group, sync_op)
