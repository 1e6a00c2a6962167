"""Messages from one process to another. A group of one process has no other, which every call here says."""

from __future__ import annotations

from collections.abc import Callable

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication import stream
from bireme.distributed.communication.group import Group, Task, check_tensor, member

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def send(tensor: Tensor, dst: int = 0, group: Group | None = None, sync_op: bool = True) -> Task | None:
    """Send a tensor to another process; a group of one process has no other.

    Args:
        tensor: The tensor.
        dst: Rank of the process that receives. Default: 0.
        group: The group. Default: None, the default group.
        sync_op: Wait until it is sent. Default: True.

    Returns:
        A task whose ``wait()`` waits until it is sent.

    Raises:
        RuntimeError: If there is no such process in the group, or no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> try:
        ...     bireme.distributed.send(bireme.ones([2]), dst=1)
        ... except RuntimeError as e:
        ...     print(str(e).splitlines()[0])
        send(dst): expected the rank of another process, of which a group of one has none, got 1
    """
    return stream.send(tensor, dst, group, sync_op)


def recv(tensor: Tensor, src: int = 0, group: Group | None = None, sync_op: bool = True) -> Task | None:
    """Receive a tensor from another process; a group of one process has no other.

    Args:
        tensor: Where the tensor goes.
        src: Rank of the process that sends. Default: 0.
        group: The group. Default: None, the default group.
        sync_op: Wait until it is received. Default: True.

    Returns:
        A task whose ``wait()`` waits until it is received.

    Raises:
        RuntimeError: If there is no such process in the group, or no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> try:
        ...     bireme.distributed.recv(bireme.zeros([2]), src=1)
        ... except RuntimeError as e:
        ...     print(str(e).splitlines()[0])
        recv(src): expected the rank of another process, of which a group of one has none, got 1
    """
    return stream.recv(tensor, src, group, sync_op)


def isend(tensor: Tensor, dst: int, group: Group | None = None) -> Task | None:
    """Send a tensor to another process without waiting; a group of one process has no other.

    Args:
        tensor: The tensor.
        dst: Rank of the process that receives.
        group: The group. Default: None, the default group.

    Returns:
        A task whose ``wait()`` waits until it is sent.

    Raises:
        RuntimeError: If there is no such process in the group, or no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> try:
        ...     bireme.distributed.isend(bireme.ones([2]), dst=1)
        ... except RuntimeError as e:
        ...     print(str(e).splitlines()[0])
        send(dst): expected the rank of another process, of which a group of one has none, got 1
    """
    return stream.send(tensor, dst, group, sync_op=False)


def irecv(tensor: Tensor, src: int | None = None, group: Group | None = None) -> Task | None:
    """Receive a tensor from another process without waiting; a group of one process has no other.

    Args:
        tensor: Where the tensor goes.
        src: Rank of the process that sends. Default: None, 0.
        group: The group. Default: None, the default group.

    Returns:
        A task whose ``wait()`` waits until it is received.

    Raises:
        RuntimeError: If there is no such process in the group, or no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> try:
        ...     bireme.distributed.irecv(bireme.zeros([2]), src=1)
        ... except RuntimeError as e:
        ...     print(str(e).splitlines()[0])
        recv(src): expected the rank of another process, of which a group of one has none, got 1
    """
    return stream.recv(tensor, 0 if src is None else src, group, sync_op=False)


class P2POp:
    """A message for ``batch_isend_irecv``.

    Args:
        op: ``isend`` or ``irecv``.
        tensor: The tensor to send, or where the received one goes.
        peer: Rank of the other process.
        group: The group. Default: None, the default group.

    Raises:
        RuntimeError: If ``op`` is another function, or there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> bireme.distributed.P2POp(bireme.distributed.isend, bireme.ones([2]), 1).peer
        1
    """

    def __init__(self, op: Callable, tensor: Tensor, peer: int, group: Group | None = None):
        if getattr(op, "__wrapped__", op) not in (isend, irecv):
            raise errors.bad("P2POp(op)", "distributed.isend or distributed.irecv", op, kind=RuntimeError)
        check_tensor("P2POp(tensor)", tensor)
        self.op, self.tensor, self.peer, self.group = op, tensor, peer, member("P2POp", group)


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Task | None]:
    """Send and receive several tensors at once; a group of one process has no other to exchange them with.

    Args:
        p2p_op_list: The messages.

    Returns:
        A task per message.

    Raises:
        RuntimeError: If there is no such process in the group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> message = bireme.distributed.P2POp(bireme.distributed.isend, bireme.ones([2]), 1)
        >>> try:
        ...     bireme.distributed.batch_isend_irecv([message])
        ... except RuntimeError as e:
        ...     print(str(e).splitlines()[0])
        send(dst): expected the rank of another process, of which a group of one has none, got 1
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise errors.bad(
            "batch_isend_irecv(p2p_op_list)", "a list of P2POp", p2p_op_list, kind=errors.ArgumentTypeError
        )
    if not p2p_op_list:
        raise errors.bad("batch_isend_irecv(p2p_op_list)", "at least one P2POp", [], kind=errors.OutOfRangeError)
    return [p.op(p.tensor, p.peer, p.group) for p in p2p_op_list]
