"""Collectives on Python objects. Every process gets copies, as if they had been sent."""

from __future__ import annotations

import copy
from typing import Any

from bireme.core.base import errors
from bireme.distributed.communication.group import Group, check_rank, member
from bireme.distributed.communication.stream import no_peer

__all__ = [
    "all_gather_object", "broadcast_object_list", "recv_object_list", "scatter_object_list", "send_object_list",
]  # fmt: skip


def _check_list(where: str, objects: Any, least: int) -> None:
    if not isinstance(objects, list) or len(objects) < least:
        expected = "a list of at least one object" if least else "a list"
        raise errors.bad(where, expected, objects, kind=errors.ArgumentTypeError)


def all_gather_object(object_list: list, obj: Any, group: Group | None = None) -> None:
    """Give every process the objects of all processes.

    Args:
        object_list: List that the objects are appended to.
        obj: The object of this process, anything that can be copied.
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
    member("all_gather_object", group)
    _check_list("all_gather_object(object_list)", object_list, 0)
    object_list.append(copy.deepcopy(obj))


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
    among = member("broadcast_object_list", group)
    check_rank("broadcast_object_list(src)", src, among)
    _check_list("broadcast_object_list(object_list)", object_list, 1)


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
    among = member("scatter_object_list", group)
    check_rank("scatter_object_list(src)", src, among)
    _check_list("scatter_object_list(out_object_list)", out_object_list, 0)
    if not isinstance(in_object_list, list) or len(in_object_list) != 1:
        raise errors.bad("scatter_object_list(in_object_list)", "a list of one object per process, 1", in_object_list)
    out_object_list[:] = [copy.deepcopy(in_object_list[0])]


def send_object_list(
    object_list: list, dst: int | None = None, group: Group | None = None, dst_in_group: int | None = None
) -> None:
    """Send the objects of a list to another process; a group of one process has no other.

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
    member("send_object_list", group)
    raise no_peer("send_object_list(dst)", dst if dst_in_group is None else dst_in_group)


def recv_object_list(
    object_list: list, src: int | None = None, group: Group | None = None, src_in_group: int | None = None
) -> None:
    """Receive the objects of a list from another process; a group of one process has no other.

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
    member("recv_object_list", group)
    raise no_peer("recv_object_list(src)", src if src_in_group is None else src_in_group)
