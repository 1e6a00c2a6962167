"""Groups of processes: what collectives run among."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import device, errors
from bireme.core.processes import connection
from bireme.core.processes.collectives import Call, Channel
from bireme.core.processes.messages import Mailbox
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
        self.timeout = 1800.0
        self._channel: Channel | None = None

    @property
    def channel(self) -> Channel:
        """What moves the data of its collectives."""
        if self._channel is None:
            linked = connection.current() if self.nranks > 1 else None
            self._channel = Channel(linked, self._ranks, self._id, self.timeout)
        return self._channel

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
        """Name of the library that moves the data: ``'GLOO'``, and ``'NCCL'`` for a group of one on a GPU."""
        return "NCCL" if self.nranks == 1 and device.get_device().startswith("gpu") else "GLOO"

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
    """What a call returns that may be waited for. Only a message that is still to be received is not done by then.

    Args:
        finish: What is left to do. Default: None, nothing.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> task = bireme.distributed.all_reduce(bireme.ones([2]), sync_op=False)
        >>> task.wait(), task.is_completed()
        (True, True)
    """

    def __init__(self, finish: Callable[[], None] | None = None):
        self._finish = finish

    def is_completed(self) -> bool:
        """Return whether the work is done."""
        return self._finish is None

    def is_sync(self) -> bool:
        """Return whether the call waited for the work itself."""
        return True

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the work is done.

        Args:
            timeout: Longest time to wait. It has no effect. Default: None.

        Returns:
            True once it is done.
        """
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def synchronize(self) -> None:
        """Wait until the work is done."""
        self.wait()


class _Groups:
    """The groups of this process by id."""

    def __init__(self) -> None:
        self.by_id: dict[int, Group] = {}
        self.next = FIRST
        self.receiving: dict[int, Task] = {}  # by the tensor that is written, see `wait`
        self._mailbox: Mailbox | None = None

    @property
    def mailbox(self) -> Mailbox:
        """The messages of this process."""
        linked = connection.current()
        if self._mailbox is None and linked is not None:
            self._mailbox = Mailbox(linked)
        assert self._mailbox is not None, "a group of several processes has a connection"
        return self._mailbox

    def add(self, ranks: Sequence[int], timeout: float = 1800.0) -> Group:
        index = list(ranks).index(world.rank()) if world.rank() in ranks else -1
        group = Group(index, self.next, ranks, name=f"_default_pg{self.next}")
        group.timeout = timeout
        self.by_id[self.next] = group
        self.next += 1
        return group


groups = _Groups()


def start() -> Group:
    """The default group, made when it is first asked for."""
    if 0 not in groups.by_id:
        world.connect()
        groups.by_id[0] = Group(world.rank(), 0, range(world.size()), name="_default_pg")
    return groups.by_id[0]


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


def joined(where: str, group: Group | None) -> Group | None:
    """The same for a call that only members make: None, with a warning, for a process that is none."""
    found = member(where, group)
    if found.is_member():
        return found
    errors.warn(f"{where}(group): expected a group of this process, rank {world.rank()}, got ranks {found.ranks}")
    return None


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
        RuntimeError: If ``group`` is None and there is no default group, or a process is gone or made another call.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> bireme.distributed.barrier()
    """
    among = joined("barrier", group)
    if among is not None:
        among.channel.barrier(Call("barrier"))


def wait(tensor: Tensor, group: Group | None = None, use_calc_stream: bool = True) -> None:
    """Wait until the communication that writes a tensor is done.

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
    task = groups.receiving.pop(id(tensor), None)
    if task is not None:
        task.wait()
