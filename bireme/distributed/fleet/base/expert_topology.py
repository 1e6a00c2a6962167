"""The topology of training with divided experts: a second grid over the same processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from bireme.core.base import errors
from bireme.distributed import world
from bireme.distributed.communication.group import Group
from bireme.distributed.fleet.base.topology import CommunicateTopology, HybridCommunicateGroup

__all__ = ["EPHybridCommunicateGroup"]


class EPHybridCommunicateGroup(HybridCommunicateGroup):
    """The groups of training with divided experts.

    Experts are divided over the processes that share the work of all other layers, not along an axis of their own: each
    stage of the pipeline is ``moe_sharding_degree`` times ``ep_degree`` processes for experts, and the product of the
    other degrees for all else. Contexts are divided within the sharding axis, which comes after the pipeline.

    Args:
        hybrid_group_names: Names of the axes, in the order of the grid.
        dims: Size of each.
        hybrid_configs: Options of the groups. They have no effect. Default: None.

    Raises:
        ValueError: If the two grids do not have the same number of processes, or contexts do not divide the sharding axis.

    Examples:
        >>> from bireme.distributed.fleet.base.expert_topology import EPHybridCommunicateGroup
        >>> group = EPHybridCommunicateGroup()
        >>> group.get_expert_parallel_world_size(), group.get_moe_sharding_parallel_rank()
        (1, 0)
    """

    _axes: ClassVar[dict[str, list[str]]] = {"sharding": ["cp_sharding", "context"]}

    def __init__(
        self,
        hybrid_group_names: Sequence[str] = [
            "pipe", "moe_sharding", "expert", "data", "sharding", "sep", "context", "model",
        ],
        dims: Sequence[int] = [1, 1, 1, 1, 1, 1, 1, 1],
        hybrid_configs: dict | None = None,
    ) -> None:  # fmt: skip
        where = "EPHybridCommunicateGroup(dims)"
        sizes = {"pipe": 1, "moe_sharding": 1, "expert": 1, "sharding": 1, "context": 1}
        sizes.update(zip(hybrid_group_names, dims))
        told = ", ".join(f"{name} {size}" for name, size in sizes.items())
        sizes["cp_sharding"], rest = divmod(sizes["sharding"], sizes["context"])
        if rest:
            raise errors.bad(where, "contexts that divide the sharding axis", described=told)
        grid = ["pipe", "moe_sharding", "expert"]
        if math.prod(sizes[name] for name in grid) != world.size():
            raise errors.bad(where, f"{world.size()} processes along pipe, moe_sharding and expert", described=told)
        others = [name for name in hybrid_group_names if name not in (*grid, "sharding", "context")]
        names = ["pipe", "cp_sharding", "context", *others]
        self._divide(CommunicateTopology(names, [sizes[name] for name in names]), where)
        self._moe_topo = CommunicateTopology(grid, [sizes[name] for name in grid])
        self._moe_at = self._moe_topo.get_coord(self.global_rank)._asdict()
        for name in grid[1:]:
            self._groups[name] = self._made(self._moe_topo.get_comm_list(name))
        self._groups["cp_sharding"] = self._along(["cp_sharding"])
        self._groups["cp_mp"] = self._along(["context", "model"])

    def get_expert_parallel_rank(self) -> int:
        """Return the index of this process among those that have different experts."""
        return self._moe_at["expert"]

    def get_expert_parallel_world_size(self) -> int:
        """Return the number of processes that experts are divided among."""
        return self._moe_topo.get_dim("expert")

    def get_expert_parallel_group(self) -> Group:
        """Return the group that experts are divided among."""
        return self._groups["expert"]

    def get_expert_parallel_group_src_rank(self) -> int:
        """Return the rank in the world of the first process of that group."""
        return self._groups["expert"].ranks[0]

    def get_moe_sharding_parallel_rank(self) -> int:
        """Return the index of this process among those that have the same experts."""
        return self._moe_at["moe_sharding"]

    def get_moe_sharding_parallel_world_size(self) -> int:
        """Return the number of processes that have the same experts."""
        return self._moe_topo.get_dim("moe_sharding")

    def get_moe_sharding_parallel_group(self) -> Group:
        """Return the group that has the same experts."""
        return self._groups["moe_sharding"]

    def get_moe_sharding_parallel_group_src_rank(self) -> int:
        """Return the rank in the world of the first process of that group."""
        return self._groups["moe_sharding"].ranks[0]

    def get_cp_sharding_parallel_group(self) -> Group:
        """Return the processes of the sharding axis with the same part of a sequence; an error where that is whole."""
        self._check_context("get_cp_sharding_parallel_group()")
        return self._groups["cp_sharding"]

    def get_cp_sharding_parallel_group_src_rank(self) -> int:
        """Return the rank in the world of the first process of that group."""
        return self.get_cp_sharding_parallel_group().ranks[0]

    def get_cp_mp_parallel_group(self) -> Group:
        """Return the group along context and model; an error, as in Paddle, where the context is not divided."""
        self._check_context("get_cp_mp_parallel_group()")
        return self._groups["cp_mp"]

    def get_cp_mp_parallel_group_src_rank(self) -> int:
        """Return the rank in the world of the first process of that group."""
        return self.get_cp_mp_parallel_group().ranks[0]

    def get_sharding_parallel_world_size(self, with_context_parallel: bool = False) -> int:
        """Return the number of processes along the sharding axis.

        Args:
            with_context_parallel: Count those with parts of one sequence once. Default: False.

        Returns:
            The number.
        """
        return self._size("cp_sharding") if with_context_parallel else self._sharding_degree

    def get_sharding_parallel_rank(self, with_context_parallel: bool = False) -> int:
        """Return the rank of this process along the sharding axis.

        Args:
            with_context_parallel: Count those with parts of one sequence once. Default: False.

        Returns:
            The rank.
        """
        return self._place("cp_sharding" if with_context_parallel else "sharding")
