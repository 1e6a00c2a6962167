"""Making groups of processes."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.distributed import world
from bireme.distributed.communication.group import Group, groups, is_initialized, member
from bireme.distributed.fleet.base.distributed_strategy import NCCL, Config
from bireme.distributed.fleet.layers.mpu import mp_ops

__all__ = ["create_nccl_config", "is_available", "new_group", "restart_process_group", "shutdown_process_group"]

# by these names programs import what tensor-parallel layers are made of
_c_concat, _c_identity, _c_split = mp_ops._c_concat, mp_ops._c_identity, mp_ops._c_split
_c_lookup_table, _mp_allreduce = mp_ops._c_lookup_table, mp_ops._mp_allreduce
_c_softmax_with_cross_entropy = mp_ops._c_softmax_with_cross_entropy


def _get_default_group() -> Group:
    """The default group."""
    return member("get_group", None)


def is_available() -> bool:
    """Return whether this build of the package has ``distributed``: it always has.

    Returns:
        True.

    Examples:
        >>> bireme.distributed.is_available()
        True
    """
    return True


def create_nccl_config(nccl_config: dict[str, int | str] | None = None) -> Config | None:
    """Return options of NCCL for ``new_group``. They are checked, and have no effect: XLA moves the data.

    Args:
        nccl_config: ``commName``, ``algoStr`` and ``protoStr``, str, and ``ll_buffsize``, ``ll128_buffsize``,
            ``simple_buffsize``, ``buffsize_align`` and ``nchannels``, int. Default: None.

    Returns:
        An object with these attributes; None for None.

    Raises:
        ValueError: If an option is unknown, or of another type.

    Examples:
        >>> bireme.distributed.create_nccl_config({"commName": "tp", "nchannels": 4}).nchannels
        4
    """
    if nccl_config is None:
        return None
    made = Config("create_nccl_config", NCCL)
    made._update(nccl_config)
    return made


def new_group(
    ranks: Sequence[int] | None = None,
    backend: str | None = None,
    timeout: datetime.timedelta = datetime.timedelta(seconds=1800),
    nccl_comm_init_option: int = 0,
    nccl_config: Any = None,
) -> Group:
    """Make a group of processes. All processes make the same groups in the same order, also those of which they are no
    members.

    Args:
        ranks: Ranks in the world of its members. Default: None, all processes.
        backend: Name of the library that is to move the data; the one that fits the device is used. Default: None.
        timeout: How long a process waits for the others in a collective before it ends. Default: 30 minutes.
        nccl_comm_init_option: An option of NCCL. It has no effect. Default: 0.
        nccl_config: Options of NCCL. They have no effect. Default: None.

    Returns:
        The group; in a process that is no member its ``rank`` is -1.

    Raises:
        ValueError: If a rank is twice in it or is not one of the world.

    Examples:
        >>> bireme.distributed.new_group([0]).nranks
        1
    """
    if ranks is None:
        if not is_initialized():
            raise errors.bad("new_group()", "a call of init_parallel_env() before", described="none")
        ranks = range(world.size())
    if not isinstance(ranks, (list, tuple, range)) or not ranks or not all(isinstance(r, int) for r in ranks):
        raise errors.bad("new_group(ranks)", "a list of ranks", ranks, kind=errors.ArgumentTypeError)
    if len(set(ranks)) != len(ranks) or not all(0 <= r < world.size() for r in ranks):
        raise errors.bad("new_group(ranks)", f"different ranks of the world of {world.size()}", list(ranks))
    if not isinstance(timeout, datetime.timedelta):
        raise errors.bad("new_group(timeout)", "a datetime.timedelta", timeout, kind=errors.ArgumentTypeError)
    return groups.add(sorted(ranks), timeout.total_seconds())


def shutdown_process_group(group: Group | None = None) -> None:
    """Give back what a group holds on the device until ``restart_process_group``; a group of one holds nothing.

    Args:
        group: The group. Default: None, all groups.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> bireme.distributed.shutdown_process_group()
        >>> bireme.distributed.restart_process_group()
    """
    member("shutdown_process_group", group)


def restart_process_group(group: Group | None = None) -> None:
    """Take back what ``shutdown_process_group`` gave back; a group of one holds nothing.

    Args:
        group: The group. Default: None, all groups.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> bireme.distributed.shutdown_process_group(group)
        >>> bireme.distributed.restart_process_group(group)
    """
    member("restart_process_group", group)
