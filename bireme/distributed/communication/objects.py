"""Collectives on Python objects. Every process gets copies.

Objects travel as they do to the workers of a DataLoader, pickled by multiprocessing: all processes are of one job.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

from bireme.core.base import errors
from bireme.core.processes.collectives import Call
from bireme.distributed.communication.group import Group, check_rank, groups, joined
from bireme.distributed.communication.stream import check_peer

__all__ = [
    "all_gather_object", "broadcast_object_list", "recv_object_list", "scatter_object_list", "send_object_list",
]  # fmt: skip


def _check_list(where: str, objects: Any, least: int) -> None:
    if not isinstance(objects, list) or len(objects) < least:
        expected = "a list of at least one object" if least else "a list"
        raise errors.bad(where, expected, objects, kind=errors.ArgumentTypeError)


def _packed(obj: Any) -> bytes:
    return bytes(ForkingPickler.dumps(obj))


def _gathered(call: Call, group: Group, obj: Any) -> list:
    """The objects of all processes. One that cannot be sent is an error in all of them."""
    try:
        data = _packed(obj)
    except errors.TELLING as e:
        call.failed, data = e, b""
    return [ForkingPickler.loads(row) for row in group.channel.gather_bytes(call, data)]


def all_gather_object(object_list: list, obj: Any, group: Group | None = None) -> None:
    """Give every process the objects of all processes.

    Args:
        object_list: List that the objects are appended to.
        obj: The object of this process, anything that can be pickled.
        group: The group. Default: None, the default group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> bireme.distributed.all_gather_object(found, {"loss": 0.5})
        >>> found
        [{'loss': 0.5}]
    """
    among = joined("all_gather_object", group)
    _check_list("all_gather_object(object_list)", object_list, 0)
    if among is not None:
        object_list.extend(_gathered(Call("all_gather_object"), among, obj))


def broadcast_object_list(object_list: list, src: int, group: Group | None = None) -> None:
    """Replace the objects of a list in every process by those of one process.

    Args:
        object_list: The list; it has the same length in all processes.
        src: Rank of the source in the world.
        group: The group. Default: None, the default group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> objects = [1, {"a": 2}]
        >>> bireme.distributed.broadcast_object_list(objects, src=0)
        >>> objects
        [1, {'a': 2}]
    """
    among = joined("broadcast_object_list", group)
    if among is None:
        return
    check_rank("broadcast_object_list(src)", src, among)
    _check_list("broadcast_object_list(object_list)", object_list, 1)
    source = among.ranks.index(src)
    given = object_list if among.rank == source else None
    found = _gathered(Call("broadcast_object_list", f"{len(object_list)} objects", f"src={src}"), among, given)
    object_list[:] = found[source]


def scatter_object_list(
    out_object_list: list, in_object_list: list | None = None, src: int = 0, group: Group | None = None
) -> None:
    """Give each process an object from a list that one process has.

    Args:
        out_object_list: List that becomes the one object for this process.
        in_object_list: The objects, one per process. Default: None, for processes that are not the source.
        src: Rank of the source. Default: 0.
        group: The group. Default: None, the default group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> found = []
        >>> bireme.distributed.scatter_object_list(found, [{"a": 2}], src=0)
        >>> found
        [{'a': 2}]
    """
    among = joined("scatter_object_list", group)
    if among is None:
        return
    check_rank("scatter_object_list(src)", src, among)
    _check_list("scatter_object_list(out_object_list)", out_object_list, 0)
    source, given = among.ranks.index(src), None
    if among.rank == source:
        if not isinstance(in_object_list, list) or len(in_object_list) != among.nranks:
            expected = f"a list of one object per process, {among.nranks}"
            raise errors.bad("scatter_object_list(in_object_list)", expected, in_object_list)
        given = in_object_list
    found = _gathered(Call("scatter_object_list", f"src={src}"), among, given)[source]
    out_object_list[:] = [found[among.rank]]


def send_object_list(
    object_list: list, dst: int | None = None, group: Group | None = None, dst_in_group: int | None = None
) -> None:
    """Send the objects of a list to another process, which receives them by ``recv_object_list``; a group of one process
    has no other.

    Args:
        object_list: The list.
        dst: Rank in the world of the process that receives. Default: None, ``dst_in_group`` says it.
        group: The group. Default: None, the default group.
        dst_in_group: Rank of that process in the group. Default: None, ``dst`` says it.

    Raises:
        RuntimeError: If there is no such process in the group, or no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> try:
        ...     bireme.distributed.send_object_list([1], dst=1)
        ... except RuntimeError as e:
        ...     print(str(e).splitlines()[0])
        send_object_list(dst): expected the rank of another process, of which a group of one has none, got 1
    """
    _check_list("send_object_list(object_list)", object_list, 1)
    among = joined("send_object_list", group)
    if among is None:
        return
    rank = _peer("send_object_list(dst)", dst, dst_in_group, among)
    groups.mailbox.send(Call("send_object_list", f"dst={rank}"), rank, len(object_list), _packed(object_list))


def recv_object_list(
    object_list: list, src: int | None = None, group: Group | None = None, src_in_group: int | None = None
) -> None:
    """Receive the objects that another process sends by ``send_object_list``; a group of one process has no other.

    Args:
        object_list: The list, as long as the one that is sent.
        src: Rank in the world of the process that sends. Default: None, ``src_in_group`` says it.
        group: The group. Default: None, the default group.
        src_in_group: Rank of that process in the group. Default: None, ``src`` says it.

    Raises:
        RuntimeError: If there is no such process in the group, or no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> try:
        ...     bireme.distributed.recv_object_list([None], src=1)
        ... except RuntimeError as e:
        ...     print(str(e).splitlines()[0])
        recv_object_list(src): expected the rank of another process, of which a group of one has none, got 1
    """
    _check_list("recv_object_list(object_list)", object_list, 1)
    among = joined("recv_object_list", group)
    if among is None:
        return
    rank = _peer("recv_object_list(src)", src, src_in_group, among)
    call = Call("recv_object_list", f"src={rank}")
    count, data = groups.mailbox.receive(call, rank, groups.mailbox.expect(rank))
    if count != len(object_list):
        raise errors.bad(
            "recv_object_list(object_list)", f"a list of {count} objects, as rank {rank} has sent", object_list
        )
    object_list[:] = ForkingPickler.loads(bytes(data))


def _peer(where: str, rank: int | None, index: int | None, group: Group) -> int:
    """The rank in the world of the other process of a message, which a call gives as such or in the group."""
    if index is not None and group.nranks > 1:
        errors.check_integer(where, index)
        rank = group.get_global_rank(index)
    check_peer(where, rank if rank is not None else index, group)
    assert rank is not None
    return rank
