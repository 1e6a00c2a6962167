"""How many tokens go to each expert, and how many it takes."""

from __future__ import annotations

from bireme.core.base import errors
from bireme.core.processes.collectives import Call, described
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group, member
from bireme.distributed.models.moe.utils import (
    _assign_pos,
    _limit_by_capacity,
    _number_count,
    _prune_gate_by_capacity,
)
from bireme.ops import cumsum, full, to_tensor

__all__ = ["count_by_gate", "limit_by_capacity"]


def _alltoall(x: Tensor, group: Group | None) -> Tensor:
    """From each process the part of a vector that is for this one."""
    among = member("count_by_gate", group)
    call = Call("the exchange of counts", described(x))
    rows = call.read(x).reshape(among.nranks, -1)
    return to_tensor(among.channel.exchange(call, rows)).reshape([-1])


def count_by_gate(
    gate: Tensor, num_expert: int, world_size: int, require_pos: bool = True, group: Group | None = None
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Count the tokens of each expert.

    Args:
        gate: Indices of experts, among those of all processes; -1 means none.
        num_expert: Number of experts of each process.
        world_size: Number of processes that experts are divided among.
        require_pos: Order the tokens too. Default: True.
        group: These processes. Default: None, the default group.

    Returns:
        Positions of the indices by expert, or None; how many go to each expert of all processes, and how many come to
        each expert of this one, by process.

    Examples:
        >>> from bireme.incubate.distributed.models.moe import utils
        >>> pos, here, there = utils.count_by_gate(bireme.to_tensor([1, 0, 1]), 2, 1)
        >>> pos.tolist(), here.tolist()
        ([1, 0, 2], [1, 2])
    """
    with no_grad():
        local = _number_count(gate, num_expert * world_size)
        here = _alltoall(local, group) if world_size > 1 else local
        return (_assign_pos(gate, cumsum(local, 0)) if require_pos else None), local, here


def limit_by_capacity(
    topk_idx: Tensor, num_expert: int, world_size: int, capacity: int, group: Group | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Drop the tokens that experts have no room for: the last ones of the last processes.

    Args:
        topk_idx: Indices of experts, among those of all processes.
        num_expert: Number of experts of each process.
        world_size: Number of processes that experts are divided among.
        capacity: Number of tokens that an expert takes.
        group: These processes. Default: None.

    Returns:
        How many tokens go to each expert of all processes, how many come to each expert of this one, by process, and
        the indices, -1 for those that are dropped.

    Raises:
        ValueError: If the group has another number of processes.

    Examples:
        >>> from bireme.incubate.distributed.models.moe import utils
        >>> utils.limit_by_capacity(bireme.to_tensor([[1], [1], [0]]), 2, 1, 1)[2].tolist()
        [[1], [-1], [0]]
    """
    if world_size > 1 and (group is None or group.nranks != world_size):
        raise errors.bad("limit_by_capacity(group)", f"a group of {world_size} processes", group)
    with no_grad():
        _, _, here = count_by_gate(topk_idx, num_expert, world_size, False, group)
        here = _limit_by_capacity(here, full([num_expert], capacity, here.dtype), world_size)
        local = _alltoall(here, group) if world_size > 1 else here
        return local, here, _prune_gate_by_capacity(topk_idx, local, num_expert, world_size)
