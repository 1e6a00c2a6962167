"""Collectives on tensors, with the choice of a stream. Among one process each is a copy from input to output.

Each runs when it is called, so all processes run the same ones in the same order whatever else they compute or print.
Outputs are written in place. As in Paddle, no gradient passes through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.processes.collectives import Call, described, reduced
from bireme.core.processes.messages import array_of
from bireme.core.tensor.tensor import Tensor, store_own, wrap_own
from bireme.distributed.communication.group import Group, Task, check_rank, check_tensor, groups, joined
from bireme.distributed.communication.reduce_op import NAMES, ReduceOp, check_op

__all__ = [
    "all_gather", "all_reduce", "alltoall", "alltoall_single", "broadcast", "gather", "recv", "reduce",
    "reduce_scatter", "scatter", "send",
]  # fmt: skip


def begin(where: str, group: Group | None, sync_op: bool, use_calc_stream: bool) -> Group | None:
    """The group of a collective whose flags fit together; None for a process that is no member."""
    if use_calc_stream and not sync_op:
        raise errors.bad(
            f"{where}(use_calc_stream)", "False where sync_op is False", described="True", kind=RuntimeError
        )
    return joined(where, group)


def check_like(where: str, target: Any, like: Tensor, shape: Sequence[int] | None = None) -> None:
    """Raise an error unless a tensor has the dtype of another, and its shape or the given one."""
    check_tensor(where, target)
    wanted = list(like.shape if shape is None else shape)
    if target.shape != wanted:
        raise errors.bad(where, f"shape {wanted}", described=f"shape {target.shape}", kind=errors.ShapeError)
    if target.dtype != like.dtype:
        raise errors.bad(where, like.dtype.name, described=target.dtype.name, kind=errors.DtypeError)


def check_targets(where: str, targets: Any, like: Tensor, size: int) -> None:
    """Raise an error unless one tensor per process has a place: in a list, or along the first axis of a tensor."""
    if isinstance(targets, Tensor):
        first, *rest = like.shape or [1]
        check_like(where, targets, like, [size * first, *rest])
    elif not isinstance(targets, list):
        raise errors.bad(where, "a list of tensors", targets, kind=errors.ArgumentTypeError)
    elif targets and len(targets) != size:
        raise errors.bad(where, f"no tensor or one per process, {size}", described=f"{len(targets)}")
    else:
        for target in targets:
            check_like(where, target, like)


def fill(targets: Tensor | list[Tensor], rows: Sequence[np.ndarray]) -> None:
    """Write what came from each process into a tensor, or into a list of tensors."""
    if isinstance(targets, Tensor):
        store_own(targets, np.concatenate([np.atleast_1d(row) for row in rows]))
    elif targets:
        for target, row in zip(targets, rows):
            store_own(target, row)
    else:
        targets.extend(wrap_own(row) for row in rows)


def parts(where: str, sources: Any, size: int) -> list[Tensor]:
    """One tensor per process of one shape and dtype: those of a list, or equal parts of a tensor along its first axis."""
    if isinstance(sources, Tensor):
        if size == 1:
            return [sources]
        if not sources.shape or sources.shape[0] % size:
            raise errors.bad(
                where, f"a first axis that {size} divides", described=f"shape {sources.shape}", kind=errors.ShapeError
            )
        step = sources.shape[0] // size
        return [sources[i * step : (i + 1) * step] for i in range(size)]
    if not isinstance(sources, (list, tuple)) or len(sources) != size:
        shown = f"{len(sources)}" if isinstance(sources, (list, tuple)) else errors.show(sources)
        raise errors.bad(where, f"a list of one tensor per process, {size}", described=shown)
    check_tensor(where, sources[0])
    for source in sources[1:]:
        check_like(where, source, sources[0])
    return list(sources)


def stacked(call: Call, tensors: Sequence[Tensor]) -> np.ndarray:
    """The numbers of several tensors as rows of one array."""
    return np.stack([call.read(tensor) for tensor in tensors])


def all_reduce(
    tensor: Tensor,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """Replace a tensor in every process by the reduction of all processes' tensors.

    Args:
        tensor: The tensor, written in place.
        op: Reduction, one of ``ReduceOp``. Default: the sum.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> task = bireme.distributed.stream.all_reduce(x, sync_op=False)
        >>> task.wait(), x.tolist()
        (True, [1.0, 2.0])
    """
    among = begin("all_reduce", group, sync_op, use_calc_stream)
    check_tensor("all_reduce(tensor)", tensor)
    check_op("all_reduce(op)", op)
    if among is None:
        return None
    if among.nranks > 1:
        call = Call("all_reduce", described(tensor), NAMES[op])
        store_own(tensor, among.channel.all_reduce(call, call.read(tensor), NAMES[op]))
    return Task()


def all_gather(
    tensor_or_tensor_list: Tensor | list[Tensor],
    tensor: Tensor,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """Give every process the tensors of all processes.

    Args:
        tensor_or_tensor_list: Where they go: an empty list, a list of one tensor per process, or a tensor that holds
            them one after the other along the first axis.
        tensor: The tensor of this process.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> task = bireme.distributed.stream.all_gather(found, bireme.to_tensor([1, 2]))
        >>> [x.tolist() for x in found]
        [[1, 2]]
    """
    among = begin("all_gather", group, sync_op, use_calc_stream)
    check_tensor("all_gather(tensor)", tensor)
    if among is None:
        return None
    check_targets("all_gather(tensor_list)", tensor_or_tensor_list, tensor, among.nranks)
    call = Call("all_gather", described(tensor))
    fill(tensor_or_tensor_list, among.channel.gather(call, call.read(tensor)))
    return Task()


def alltoall(
    out_tensor_or_tensor_list: Tensor | list[Tensor],
    in_tensor_or_tensor_list: Tensor | Sequence[Tensor],
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """Send one tensor to every process, and receive one from each.

    Args:
        out_tensor_or_tensor_list: Where the received tensors go: an empty list, a list of one tensor per process, or a
            tensor that holds them one after the other along the first axis.
        in_tensor_or_tensor_list: The tensors to send, one per process, or one tensor to cut along the first axis.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> task = bireme.distributed.stream.alltoall(found, [bireme.to_tensor([1, 2])])
        >>> [x.tolist() for x in found]
        [[1, 2]]
    """
    among = begin("alltoall", group, sync_op, use_calc_stream)
    if among is None:
        return None
    sources = parts("alltoall(in_tensor_list)", in_tensor_or_tensor_list, among.nranks)
    check_targets("alltoall(out_tensor_list)", out_tensor_or_tensor_list, sources[0], among.nranks)
    call = Call("alltoall", described(sources[0]))
    fill(out_tensor_or_tensor_list, among.channel.exchange(call, stacked(call, sources)))
    return Task()


def alltoall_single(
    out_tensor: Tensor,
    in_tensor: Tensor,
    out_split_sizes: Sequence[int] | None = None,
    in_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
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
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> out = bireme.zeros([2])
        >>> task = bireme.distributed.stream.alltoall_single(out, bireme.to_tensor([1.0, 2.0]))
        >>> out.tolist()
        [1.0, 2.0]
    """
    among = begin("alltoall_single", group, sync_op, use_calc_stream)
    check_tensor("alltoall_single(in_tensor)", in_tensor)
    check_tensor("alltoall_single(out_tensor)", out_tensor)
    if among is None:
        return None
    sent = _split_sizes("alltoall_single(in_split_sizes)", in_split_sizes, in_tensor, among.nranks)
    received = _split_sizes("alltoall_single(out_split_sizes)", out_split_sizes, out_tensor, among.nranks)
    check_like("alltoall_single(out_tensor)", out_tensor, in_tensor, [sum(received), *in_tensor.shape[1:]])
    call = Call("alltoall_single", in_tensor.dtype.name, ["*", *in_tensor.shape[1:]])
    rows = among.channel.exchange_parts(call, call.read(in_tensor), sent)
    if [len(row) for row in rows] != received:
        raise errors.bad(
            "alltoall_single(out_split_sizes)", f"what the others send, {[len(row) for row in rows]}", received
        )
    store_own(out_tensor, np.concatenate(rows))
    return Task()


def _split_sizes(where: str, sizes: Sequence[int] | None, tensor: Tensor, count: int) -> list[int]:
    """The sizes of the parts of a tensor along its first axis, one per process."""
    whole = tensor.shape[0] if tensor.shape else 1
    if not sizes:
        if whole % count:
            raise errors.bad(
                where, f"sizes for a first axis of {whole}, which {count} does not divide", described="none"
            )
        return [whole // count] * count
    if len(sizes) != count or sum(sizes) != whole:
        expected = f"the size of the first axis, {[whole]}" if count == 1 else f"{count} sizes with the sum {whole}"
        raise errors.bad(where, expected, sizes)
    return list(sizes)


def broadcast(
    tensor: Tensor, src: int, group: Group | None = None, sync_op: bool = True, use_calc_stream: bool = False
) -> Task | None:
    """Replace a tensor in every process by that of one process.

    Args:
        tensor: The tensor, written in place where the process is not the source.
        src: Rank of the source in the world.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> bireme.distributed.stream.broadcast(x, src=0).is_completed(), x.tolist()
        (True, [1.0, 2.0])
    """
    among = begin("broadcast", group, sync_op, use_calc_stream)
    check_tensor("broadcast(tensor)", tensor)
    if among is None:
        return None
    check_rank("broadcast(src)", src, among)
    if among.nranks > 1:
        call = Call("broadcast", described(tensor), f"src={src}")
        found = among.channel.broadcast(call, call.read(tensor), among.ranks.index(src))
        if among.ranks[among.rank] != src:
            store_own(tensor, found)
    return Task()


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
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
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> task = bireme.distributed.stream.gather(bireme.to_tensor([1, 2]), found)
        >>> [x.tolist() for x in found]
        [[1, 2]]
    """
    among = begin("gather", group, sync_op, use_calc_stream)
    check_tensor("gather(tensor)", tensor)
    if among is None:
        return None
    check_rank("gather(dst)", dst, among)
    gathers = among.ranks[among.rank] == dst
    if gathers:
        check_targets("gather(gather_list)", gather_list, tensor, among.nranks)
    elif gather_list is not None:
        errors.warn(f"gather(gather_list): expected None in a process other than dst={dst}, got a list")
    call = Call("gather", described(tensor), f"dst={dst}")
    rows = among.channel.gather(call, call.read(tensor))
    if gathers and gather_list is not None:
        fill(gather_list, rows)
    return Task()


def reduce(
    tensor: Tensor,
    dst: int = 0,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """Replace a tensor in one process by the reduction of all processes' tensors.

    Args:
        tensor: The tensor, written in place in the process that gets the result.
        dst: Rank of that process. Default: 0.
        op: Reduction, one of ``ReduceOp``. Default: the sum.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> x = bireme.to_tensor([1.0, 2.0])
        >>> bireme.distributed.stream.reduce(x, dst=0).is_completed(), x.tolist()
        (True, [1.0, 2.0])
    """
    among = begin("reduce", group, sync_op, use_calc_stream)
    check_tensor("reduce(tensor)", tensor)
    check_op("reduce(op)", op)
    if among is None:
        return None
    check_rank("reduce(dst)", dst, among)
    if among.nranks > 1:
        call = Call("reduce", described(tensor), NAMES[op], f"dst={dst}")
        found = among.channel.all_reduce(call, call.read(tensor), NAMES[op])
        if among.ranks[among.rank] == dst:
            store_own(tensor, found)
    return Task()


def reduce_scatter(
    tensor: Tensor,
    tensor_or_tensor_list: Tensor | Sequence[Tensor],
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """Reduce lists of tensors over all processes, and give each process its part of the result.

    Args:
        tensor: Where this process' part goes.
        tensor_or_tensor_list: The tensors to reduce, one per process, or one tensor to cut along the first axis.
        op: Reduction, one of ``ReduceOp``. Default: the sum.
        group: The group. Default: None, the default group.
        sync_op: Wait for the result. Default: True.
        use_calc_stream: Communicate on the stream that computes; only with ``sync_op``. Default: False.

    Returns:
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> out = bireme.zeros([2])
        >>> task = bireme.distributed.stream.reduce_scatter(out, [bireme.to_tensor([1.0, 2.0])])
        >>> out.tolist()
        [1.0, 2.0]
    """
    among = begin("reduce_scatter", group, sync_op, use_calc_stream)
    check_op("reduce_scatter(op)", op)
    if among is None:
        return None
    sources = parts("reduce_scatter(tensor_list)", tensor_or_tensor_list, among.nranks)
    check_like("reduce_scatter(tensor)", tensor, sources[0])
    call = Call("reduce_scatter", described(tensor), NAMES[op])
    store_own(tensor, reduced(among.channel.exchange(call, stacked(call, sources)), NAMES[op]))
    return Task()


def scatter(
    tensor: Tensor,
    tensor_or_tensor_list: Tensor | Sequence[Tensor] | None = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
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
        A task whose ``wait()`` waits for the result; None in a process that is no member of the group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> out = bireme.zeros([2])
        >>> task = bireme.distributed.stream.scatter(out, [bireme.to_tensor([1.0, 2.0])])
        >>> out.tolist()
        [1.0, 2.0]
    """
    among = begin("scatter", group, sync_op, use_calc_stream)
    check_tensor("scatter(tensor)", tensor)
    if among is None:
        return None
    check_rank("scatter(src)", src, among)
    call = Call("scatter", described(tensor), f"src={src}")
    if among.ranks[among.rank] == src:
        sources = parts("scatter(tensor_list)", tensor_or_tensor_list, among.nranks)
        check_like("scatter(tensor)", tensor, sources[0])
        rows = stacked(call, sources)
    else:
        rows = np.zeros((among.nranks, *tensor.shape), tensor.dtype.np)
    store_own(tensor, among.channel.exchange(call, rows)[among.ranks.index(src)])
    return Task()


def send(
    tensor: Tensor, dst: int = 0, group: Group | None = None, sync_op: bool = True, use_calc_stream: bool = False
) -> Task | None:
    """Send a tensor to another process, which receives it by ``recv``; a group of one process has no other.

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
    among = begin("send", group, sync_op, use_calc_stream)
    if among is None:
        return None
    check_peer("send(dst)", dst, among)
    call = Call("send", described(tensor), f"dst={dst}")
    array = np.ascontiguousarray(tensor._host())
    groups.mailbox.send(call, dst, [array.dtype.name, tensor.shape], array.reshape(-1).view(np.uint8))
    return Task()


def recv(
    tensor: Tensor, src: int = 0, group: Group | None = None, sync_op: bool = True, use_calc_stream: bool = False
) -> Task | None:
    """Receive a tensor that another process sends by ``send``; a group of one process has no other.

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
    among = begin("recv", group, sync_op, use_calc_stream)
    if among is None:
        return None
    check_peer("recv(src)", src, among)
    call, number = Call("recv", described(tensor), f"src={src}"), groups.mailbox.expect(src)

    def finish() -> None:
        groups.receiving.pop(id(tensor), None)
        what, data = groups.mailbox.receive(call, src, number)
        tensor.set_value(array_of(call, what, data, tensor.dtype.np, tensor.shape, f"rank {src}"))

    task = Task(finish)
    if sync_op:
        task.wait()
    else:
        groups.receiving[id(tensor)] = task
    return task


def check_peer(where: str, rank: Any, group: Group) -> None:
    """Raise an error unless a rank is that of another process of the group."""
    if group.nranks == 1:
        raise no_peer(where, rank)
    check_rank(where, rank, group)
    if rank == group.ranks[group.rank]:
        raise errors.bad(where, "the rank of another process", rank)


def no_peer(where: str, rank: Any) -> Exception:
    """The error for a message to or from a process that a group of one does not have."""
    return errors.bad(where, "the rank of another process, of which a group of one has none", rank, kind=RuntimeError)
