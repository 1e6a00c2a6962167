"""Groups of processes: what collectives run among. A group of one process is exact; larger ones are not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import device, errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world

__all__ = ["Group", "Task", "barrier", "destroy_process_group", "get_backend", "get_group", "is_initialized", "wait"]

FIRST = 10  # the id of the first group that a program makes; those below belong to the default group


class Group:
    """Processes that communicate with each other; made by ``new_group`` and ``init_parallel_env``.

    Args:
        rank_in_group: Index of this process in the group, -1 if it is no member.
        id: Number of the group; the default group has 0.
        ranks: Ranks of the members in the world.
        pg: Not used. Default: None.
        name: Name of the group. Default: None.

    Examples:
        >>> group = bireme.distributed.new_group([0])
        >>> group.rank, group.nranks, group.ranks
        (0, 1, [0])
    """

    def __init__(self, rank_in_group: int, id: int, ranks: Sequence[int], pg: Any = None, name: str | None = None):
        self._rank_in_group, self._id, self._ranks, self._name = rank_in_group, id, list(ranks), name

    @property
    def rank(self) -> int:
        """Index of this process in the group, -1 if it is no member."""
        return self._rank_in_group

    @property
    def ranks(self) -> list[int]:
        """Ranks of the members in the world."""
        return self._ranks

    @property
    def nranks(self) -> int:
        """Number of members."""
        return len(self._ranks)

    @property
    def world_size(self) -> int:
        """Number of members, -1 if this process is none of them."""
        return self.nranks if self.is_member() else -1

    @property
    def name(self) -> str | None:
        """Name of the group."""
        return self._name

    @property
    def process_group(self) -> Group:
        """The group itself: there is no other object behind it."""
        return self

    @property
    def backend(self) -> str:
        """Name of the library that moves the data, ``'NCCL'`` on GPU and ``'GLOO'`` elsewhere."""
        return "NCCL" if device.get_device().startswith("gpu") else "GLOO"

    @property
    def id(self) -> int:
        """Number of the group."""
        return self._id

    def is_member(self) -> bool:
        """Return whether this process belongs to the group."""
        return self._rank_in_group >= 0

    def get_group_rank(self, rank: int) -> int:
        """Return the index in the group of a process of the world.

        Args:
            rank: Rank in the world.

        Returns:
            The index, -1 if the process is no member.
        """
        return self._ranks.index(rank) if self.is_member() and rank in self._ranks else -1

    def get_global_rank(self, rank: int) -> int:
        """Return the rank in the world of a member.

        Args:
            rank: Index in the group.

        Returns:
            The rank in the world, -1 if there is no such member.
        """
        return self._ranks[rank] if self.is_member() and 0 <= rank < self.nranks else -1

    def __repr__(self) -> str:
        ranks = ", ".join(map(str, self._ranks))
        return f"rank: {self.rank}, nranks: {self.nranks}, id: {self.id}, ranks: {ranks}; name: {self.name}"


class Task:
    """What an asynchronous call returns. Among one process the work is done when the call returns.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> task = bireme.distributed.all_reduce(bireme.ones([2]), sync_op=False)
        >>> task.wait(), task.is_completed()
        (True, True)
    """

    def is_completed(self) -> bool:
        """Return whether the work is done."""
        return True

    def is_sync(self) -> bool:
        """Return whether the call waited for the work itself."""
        return True

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the work is done.

        Args:
            timeout: Longest time to wait. Default: None, no limit.

        Returns:
            True once it is done.
        """
        return True

    def synchronize(self) -> None:
        """Wait until the work is done."""


class _Groups:
    """The groups of this process by id."""

    def __init__(self) -> None:
        self.by_id: dict[int, Group] = {}
        self.next = FIRST

    def add(self, ranks: Sequence[int]) -> Group:
        group = Group(list(ranks).index(world.rank()), self.next, ranks, name=f"_default_pg{self.next}")
        self.by_id[self.next] = group
        self.next += 1
        return group


groups = _Groups()


def start() -> Group:
    """The default group, made when it is first asked for."""
    return groups.by_id.setdefault(0, Group(0, 0, [0], name="_default_pg"))


def _get_global_group() -> Group:
    """The default group."""
    return member("get_group", None)


def member(where: str, group: Group | None) -> Group:
    """The group that a call means: the default one unless it names another."""
    if group is None:
        group = groups.by_id.get(0)
        if group is None:
            raise errors.bad(
                f"{where}(group)",
                "a call of init_parallel_env() before, since the default group is not initialized",
                described="none",
                kind=RuntimeError,
            )
    if not isinstance(group, Group):
        raise errors.bad(f"{where}(group)", "a Group or None", group, kind=errors.MissingAttributeError)
    return group


def check_rank(where: str, rank: Any, group: Group) -> None:
    """Raise an error unless a rank of the world is that of a member."""
    errors.check_integer(where, rank)
    if rank not in group.ranks:
        raise errors.bad(where, f"a rank of the group, {group.ranks}", rank)


def check_tensor(where: str, tensor: Any) -> None:
    if not isinstance(tensor, Tensor):
        raise errors.bad(where, "a Tensor", tensor, kind=errors.NotATensorError)


def is_initialized() -> bool:
    """Return whether the default group exists, which ``init_parallel_env`` and ``fleet.init`` make.

    Returns:
        True or False.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> bireme.distributed.is_initialized()
        True
    """
    return 0 in groups.by_id


def destroy_process_group(group: Group | None = None) -> None:
    """Forget a group, or all groups.

    Args:
        group: The group. Default: None, all of them, the default group as well.

    Raises:
        RuntimeError: If there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> bireme.distributed.destroy_process_group()
        >>> bireme.distributed.is_initialized()
        False
    """
    if group is None or group.id == 0:
        member("destroy_process_group", None)
        groups.by_id.clear()
        return
    if groups.by_id.pop(member("destroy_process_group", group).id, None) is None:
        raise errors.bad("destroy_process_group(group)", "a group that exists", group)


def get_group(id: int = 0) -> Group | None:
    """Return a group by its number.

    Args:
        id: Number of the group. Default: 0, the default group.

    Returns:
        The group, None if there is none of this number.

    Examples:
        >>> group = bireme.distributed.new_group([0])
        >>> bireme.distributed.get_group(group.id) is group
        True
    """
    found = groups.by_id.get(id)
    if found is None:
        errors.warn(f"get_group(id): expected the number of a group, got {id}, which is not initialized")
    return found


def get_backend(group: Group | None = None) -> str:
    """Return the name of the library that moves a group's data.

    Args:
        group: The group. Default: None, the default group.

    Returns:
        ``'NCCL'`` on GPU, ``'GLOO'`` elsewhere.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> bireme.distributed.get_backend() in ("GLOO", "NCCL")
        True
    """
    return member("get_backend", group).backend


def barrier(group: Group | None = None) -> None:
    """Wait until all processes of a group have reached this call; one process does not wait.

    Args:
        group: The group. Default: None, the default group.

    Raises:
        RuntimeError: If ``group`` is None and there is no default group.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> bireme.distributed.barrier()
    """
    member("barrier", group)


def wait(tensor: Tensor, group: Group | None = None, use_calc_stream: bool = True) -> None:
    """Wait until the communication that writes a tensor is done; one process does not wait.

    Args:
        tensor: The tensor.
        group: The group that communicates. Default: None, the default group.
        use_calc_stream: Wait on the stream that computes. It has no effect. Default: True.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> x = bireme.ones([2])
        >>> bireme.distributed.wait(x)
    """
    check_tensor("wait(tensor)", tensor)
    if group is not None:
        member("wait", group)
