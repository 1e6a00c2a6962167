"""Collectives on tensors, with the choice of a stream. Among one process each is a copy from input to output.

Outputs are written in place. As in Paddle, no gradient passes through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group, Task, check_rank, check_tensor, member
from bireme.distributed.communication.reduce_op import ReduceOp, check_op

__all__ = [
    "all_gather", "all_reduce", "alltoall", "alltoall_single", "broadcast", "gather", "recv", "reduce",
    "reduce_scatter", "scatter", "send",
]  # fmt: skip


def begin(where: str, group: Group | None, sync_op: bool, use_calc_stream: bool) -> Group:
    """The group of a collective whose flags fit together."""
    if use_calc_stream and not sync_op:
        raise errors.bad(
            f"{where}(use_calc_stream)", "False where sync_op is False", described="True", kind=RuntimeError
        )
    return member(where, group)


def write(where: str, target: Tensor, source: Tensor) -> None:
    """Write a tensor into another of the same shape and dtype."""
    check_tensor(where, target)
    if target.shape != source.shape:
        raise errors.bad(where, f"shape {source.shape}", described=f"shape {target.shape}", kind=errors.ShapeError)
    if target.dtype != source.dtype:
        raise errors.bad(where, source.dtype.name, described=target.dtype.name, kind=errors.DtypeError)
    if target is not source:
        target.set_value(source.detach())


def fill(where: str, targets: Any, source: Tensor) -> None:
    """Write what one process gave into a tensor, or into the list of the tensors of all processes."""
    if isinstance(targets, Tensor):
        write(where, targets, source)
    elif not isinstance(targets, list):
        raise errors.bad(where, "a list of tensors", targets, kind=errors.ArgumentTypeError)
    elif not targets:
        targets.append(source.detach().clone())
    elif len(targets) != 1:
        raise errors.bad(where, "no tensor or one per process, 1", described=f"{len(targets)}")
    else:
        write(where, targets[0], source)


def own(where: str, sources: Any) -> Tensor:
    """The part for this process: a tensor as it is, or that of a list with one per process."""
    if isinstance(sources, Tensor):
        return sources
    if not isinstance(sources, (list, tuple)) or len(sources) != 1:
        described = f"{len(sources)}" if isinstance(sources, (list, tuple)) else errors.show(sources)
        raise errors.bad(where, "a list of one tensor per process, 1", described=described)
    check_tensor(where, sources[0])
    return sources[0]


def all_reduce(
    tensor: Tensor,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task:
    """Replace a tensor in every process by the reduction of all processes' tensors.

    Args:
        tensor: The tensor, written in place.
        op: Reduction, one of ``ReduceOp``. Default: the sum.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> task = bireme.distributed.stream.all_reduce(x, sync_op=False)
        >>> task.wait(), x.tolist()
        (True, [1.0, 2.0])
    """
    begin("all_reduce", group, sync_op, use_calc_stream)
    check_tensor("all_reduce(tensor)", tensor)
    check_op("all_reduce(op)", op)
    return Task()


def all_gather(
    tensor_or_tensor_list: Tensor | list[Tensor],
    tensor: Tensor,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task:
    """Give every process the tensors of all processes.

    Args:
        tensor_or_tensor_list: Where they go: an empty list, a list of one tensor per process, or a tensor that holds
            them one after the other along the first axis.
        tensor: The tensor of this process.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> task = bireme.distributed.stream.all_gather(found, bireme.to_tensor([1, 2]))
        >>> [x.tolist() for x in found]
        [[1, 2]]
    """
    begin("all_gather", group, sync_op, use_calc_stream)
    check_tensor("all_gather(tensor)", tensor)
    fill("all_gather(tensor_list)", tensor_or_tensor_list, tensor)
    return Task()


def alltoall(
    out_tensor_or_tensor_list: Tensor | list[Tensor],
    in_tensor_or_tensor_list: Tensor | Sequence[Tensor],
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task:
    """Send one tensor to every process, and receive one from each.

    Args:
        out_tensor_or_tensor_list: Where the received tensors go: an empty list, a list of one tensor per process, or a
            tensor that holds them one after the other along the first axis.
        in_tensor_or_tensor_list: The tensors to send, one per process, or one tensor to cut along the first axis.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> task = bireme.distributed.stream.alltoall(found, [bireme.to_tensor([1, 2])])
        >>> [x.tolist() for x in found]
        [[1, 2]]
    """
    begin("alltoall", group, sync_op, use_calc_stream)
    fill(
        "alltoall(out_tensor_list)",
        out_tensor_or_tensor_list,
        own("alltoall(in_tensor_list)", in_tensor_or_tensor_list),
    )
    return Task()


def alltoall_single(
    out_tensor: Tensor,
    in_tensor: Tensor,
    out_split_sizes: Sequence[int] | None = None,
    in_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task:
    """Send a part of a tensor to every process, and receive one from each.

    Args:
        out_tensor: Where the received parts go, one after the other along the first axis.
        in_tensor: The tensor whose parts along the first axis are sent.
        out_split_sizes: Sizes of the received parts. Default: None, equal ones.
        in_split_sizes: Sizes of the parts that are sent. Default: None, equal ones.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> out = bireme.zeros([2])
        >>> task = bireme.distributed.stream.alltoall_single(out, bireme.to_tensor([1.0, 2.0]))
        >>> out.tolist()
        [1.0, 2.0]
    """
    begin("alltoall_single", group, sync_op, use_calc_stream)
    check_tensor("alltoall_single(in_tensor)", in_tensor)
    for name, sizes in (("in_split_sizes", in_split_sizes), ("out_split_sizes", out_split_sizes)):
        if sizes and list(sizes) != in_tensor.shape[:1]:
            raise errors.bad(f"alltoall_single({name})", f"the size of the first axis, {in_tensor.shape[:1]}", sizes)
    write("alltoall_single(out_tensor)", out_tensor, in_tensor)
    return Task()


def broadcast(
    tensor: Tensor, src: int, group: Group | None = None, sync_op: bool = True, use_calc_stream: bool = False
) -> Task:
    """Replace a tensor in every process by that of one process.

    Args:
        tensor: The tensor, written in place where the process is not the source.
        src: Rank of the source in the world.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> bireme.distributed.stream.broadcast(x, src=0).is_completed(), x.tolist()
        (True, [1.0, 2.0])
    """
    among = begin("broadcast", group, sync_op, use_calc_stream)
    check_tensor("broadcast(tensor)", tensor)
    check_rank("broadcast(src)", src, among)
    return Task()


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task:
    """Give one process the tensors of all processes.

    Args:
        tensor: The tensor of this process.
        gather_list: Where they go in the process that gathers: an empty list, or a list of one tensor per process.
            Default: None, for the other processes.
        dst: Rank of the process that gathers. Default: 0.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> task = bireme.distributed.stream.gather(bireme.to_tensor([1, 2]), found)
        >>> [x.tolist() for x in found]
        [[1, 2]]
    """
    among = begin("gather", group, sync_op, use_calc_stream)
    check_tensor("gather(tensor)", tensor)
    check_rank("gather(dst)", dst, among)
    fill("gather(gather_list)", gather_list, tensor)
    return Task()


def reduce(
    tensor: Tensor,
    dst: int = 0,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task:
    """Replace a tensor in one process by the reduction of all processes' tensors.

    Args:
        tensor: The tensor, written in place in the process that gets the result.
        dst: Rank of that process. Default: 0.
        op: Reduction, one of ``ReduceOp``. Default: the sum.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> bireme.distributed.stream.reduce(x, dst=0).is_completed(), x.tolist()
        (True, [1.0, 2.0])
    """
    among = begin("reduce", group, sync_op, use_calc_stream)
    check_tensor("reduce(tensor)", tensor)
    check_rank("reduce(dst)", dst, among)
    check_op("reduce(op)", op)
    return Task()


def reduce_scatter(
    tensor: Tensor,
    tensor_or_tensor_list: Tensor | Sequence[Tensor],
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task:
    """Reduce lists of tensors over all processes, and give each process its part of the result.

    Args:
        tensor: Where this process' part goes.
        tensor_or_tensor_list: The tensors to reduce, one per process, or one tensor to cut along the first axis.
        op: Reduction, one of ``ReduceOp``. Default: the sum.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> out = bireme.zeros([2])
        >>> task = bireme.distributed.stream.reduce_scatter(out, [bireme.to_tensor([1.0, 2.0])])
        >>> out.tolist()
        [1.0, 2.0]
    """
    begin("reduce_scatter", group, sync_op, use_calc_stream)
    check_op("reduce_scatter(op)", op)
    write("reduce_scatter(tensor)", tensor, own("reduce_scatter(tensor_list)", tensor_or_tensor_list))
    return Task()


def scatter(
    tensor: Tensor,
    tensor_or_tensor_list: Tensor | Sequence[Tensor] | None = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task:
    """Give each process a tensor from a list that one process has.

    Args:
        tensor: Where this process' tensor goes.
        tensor_or_tensor_list: The tensors, one per process, or one tensor to cut along the first axis. Default: None,
            for processes that are not the source.
        src: Rank of the source. Default: 0.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> out = bireme.zeros([2])
        >>> task = bireme.distributed.stream.scatter(out, [bireme.to_tensor([1.0, 2.0])])
        >>> out.tolist()
        [1.0, 2.0]
    """
    among = begin("scatter", group, sync_op, use_calc_stream)
    check_rank("scatter(src)", src, among)
    write("scatter(tensor)", tensor, own("scatter(tensor_list)", tensor_or_tensor_list))
    return Task()


def send(
    tensor: Tensor, dst: int = 0, group: Group | None = None, sync_op: bool = True, use_calc_stream: bool = False
) -> Task:
    """Send a tensor to another process; a group of one process has no other.

    Args:
        tensor: The tensor.
        dst: Rank of the process that receives. Default: 0.
        group: The group. Default: None, the default group.
        sync_op: Wait until it is sent. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits until it is sent.

    Raises:
        RuntimeError: If there is no such process in the group, or no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> try:
        ...     bireme.distributed.stream.send(bireme.ones([2]), dst=1)
        ... except RuntimeError as e:
        ...     print(str(e).splitlines()[0])
        send(dst): expected the rank of another process, of which a group of one has none, got 1
    """
    check_tensor("send(tensor)", tensor)
    begin("send", group, sync_op, use_calc_stream)
    raise no_peer("send(dst)", dst)


def recv(
    tensor: Tensor, src: int = 0, group: Group | None = None, sync_op: bool = True, use_calc_stream: bool = False
) -> Task:
    """Receive a tensor from another process; a group of one process has no other.

    Args:
        tensor: Where the tensor goes.
        src: Rank of the process that sends. Default: 0.
        group: The group. Default: None, the default group.
        sync_op: Wait until it is received. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits until it is received.

    Raises:
        RuntimeError: If there is no such process in the group, or no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> try:
        ...     bireme.distributed.stream.recv(bireme.zeros([2]), src=1)
        ... except RuntimeError as e:
        ...     print(str(e).splitlines()[0])
        recv(src): expected the rank of another process, of which a group of one has none, got 1
    """
    check_tensor("recv(tensor)", tensor)
    begin("recv", group, sync_op, use_calc_stream)
    raise no_peer("recv(src)", src)


def no_peer(where: str, rank: Any) -> Exception:
    """The error for a message to or from a process that a group of one does not have."""
    return errors.bad(where, "the rank of another process, of which a group of one has none", rank, kind=RuntimeError)
