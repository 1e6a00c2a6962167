"""The topology of hybrid parallel training: processes as coordinates along named axes, and the groups along each."""

from __future__ import annotations

import itertools
import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from bireme.core.base import errors
from bireme.distributed import world
from bireme.distributed.communication.group import Group, groups
from bireme.distributed.world import ParallelMode

__all__ = ["CommunicateTopology", "HybridCommunicateGroup", "ParallelMode"]

# the last one that was made; programs read it by this name
_HYBRID_PARALLEL_GROUP: HybridCommunicateGroup | None = None


class CommunicateTopology:
    """Processes as points of a grid with named axes; ranks count along the last axis first.

    Args:
        hybrid_group_names: Names of the axes. Default: data, pipe, sharding, sep, context, model.
        dims: Size of each axis. Default: 1 each.

    Examples:
        >>> topology = bireme.distributed.fleet.CommunicateTopology(["data", "model"], [2, 2])
        >>> topology.get_rank(data=1, model=0), topology.get_comm_list("model")
        (2, [[0, 1], [2, 3]])
    """

    def __init__(
        self,
        hybrid_group_names: Sequence[str] = ["data", "pipe", "sharding", "sep", "context", "model"],
        dims: Sequence[int] = [1, 1, 1, 1, 1, 1],
    ) -> None:
        if len(hybrid_group_names) != len(dims):
            raise errors.bad("CommunicateTopology(dims)", f"one size per axis, {len(hybrid_group_names)}", list(dims))
        self._parallel_names, self._dims = list(hybrid_group_names), list(dims)
        point: Any = namedtuple("Coordinate", self._parallel_names)  # type: ignore[misc]  # fields by value
        self.coordinate = point
        self._world_size = int(np.prod(self._dims))
        points = [point(*at) for at in itertools.product(*map(range, self._dims))]
        self._coord2rank = {point: rank for rank, point in enumerate(points)}
        self._rank2coord = dict(enumerate(points))

    def _axis(self, name: str, where: str) -> int:
        if name not in self._parallel_names:
            raise errors.bad(f"{where}(axis_name)", f"one of {', '.join(self._parallel_names)}", name)
        return self._parallel_names.index(name)

    def get_hybrid_group_names(self) -> list[str]:
        """Return the names of the axes."""
        return self._parallel_names

    def get_dim(self, axis_name: str) -> int:
        """Return the size of an axis.

        Args:
            axis_name: Name of the axis.

        Returns:
            The size.
        """
        return self._dims[self._axis(axis_name, "get_dim")]

    def get_dim_size(self, axis_name: str) -> int:
        """Return the size of an axis.

        Args:
            axis_name: Name of the axis.

        Returns:
            The size.
        """
        return self.get_dim(axis_name)

    def world_size(self) -> int:
        """Return the number of processes."""
        return self._world_size

    def get_rank(self, **args: int) -> int:
        """Return the rank of the process at a point.

        Args:
            **args: The coordinate along every axis, by name.

        Returns:
            The rank.
        """
        point = {name: args[name] for name in self._parallel_names if name in args}
        if len(point) != len(args) or len(point) != len(self._dims) or self.coordinate(**point) not in self._coord2rank:
            raise errors.bad("get_rank(**args)", f"a coordinate along each of {', '.join(self._parallel_names)}", args)
        return self._coord2rank[self.coordinate(**point)]

    def get_coord(self, rank: int) -> Any:
        """Return the point of a process.

        Args:
            rank: Its rank.

        Returns:
            A named tuple of the coordinates.
        """
        if rank not in self._rank2coord:
            raise errors.bad("get_coord(rank)", f"a rank in [0, {self._world_size - 1}]", rank)
        return self._rank2coord[rank]

    def get_axis_list(self, axis_name: str, index: int) -> list[int]:
        """Return the processes with a coordinate.

        Args:
            axis_name: Name of the axis.
            index: The coordinate along it.

        Returns:
            Their ranks, sorted.
        """
        axis = self._axis(axis_name, "get_axis_list")
        return [rank for rank, point in self._rank2coord.items() if point[axis] == index]

    def get_comm_list(self, axis_name: str) -> list[list[int]]:
        """Return the groups of processes that differ along one axis alone.

        Args:
            axis_name: Name of the axis.

        Returns:
            The ranks of each group.
        """
        self._axis(axis_name, "get_comm_list")
        return self._along([axis_name])

    def get_fused_ranks(self, fused_axis: Sequence[str]) -> list[list[int]]:
        """Return the groups of processes that differ along some axes alone.

        Args:
            fused_axis: Names of the axes.

        Returns:
            The ranks of each group.
        """
        for name in fused_axis:
            self._axis(name, "get_fused_ranks")
        return self._along(list(fused_axis))

    def _along(self, names: list[str]) -> list[list[int]]:
        fixed = [i for i, name in enumerate(self._parallel_names) if name not in names]
        found: dict[tuple, list[int]] = {}
        for rank, point in self._rank2coord.items():
            found.setdefault(tuple(point[i] for i in fixed), []).append(rank)
        return list(found.values())

    def get_rank_from_stage(self, global_rank: int, **kwargs: int) -> int:
        """Return the process at the point of another with some coordinates replaced.

        Args:
            global_rank: Rank of the other process.
            **kwargs: The new coordinates by name.

        Returns:
            The rank.
        """
        return self.get_rank(**{**self.get_coord(global_rank)._asdict(), **kwargs})


class HybridCommunicateGroup:
    """The groups that hybrid parallel training uses: those of this process along each axis of a topology.

    Args:
        topology: The topology, of as many processes as there are.
        hybrid_configs: Options of the groups. They have no effect. Default: None.

    Raises:
        ValueError: If the topology has another number of processes.

    Examples:
        >>> group = bireme.distributed.fleet.HybridCommunicateGroup(bireme.distributed.fleet.CommunicateTopology())
        >>> group.get_model_parallel_world_size(), group.get_stage_id()
        (1, 0)
    """

    # axes of the topology that an axis consists of, where it is not one of them itself
    _axes: ClassVar[dict[str, list[str]]] = {}

    def __init__(self, topology: CommunicateTopology, hybrid_configs: dict | None = None) -> None:
        self._divide(topology, "HybridCommunicateGroup(topology)")

    def _divide(self, topology: CommunicateTopology, where: str) -> None:
        """Make the groups along each axis."""
        global _HYBRID_PARALLEL_GROUP
        self._topo, self.nranks, self.global_rank = topology, world.size(), world.rank()
        if topology.world_size() != self.nranks:
            sizes = ", ".join(f"{name} {topology.get_dim(name)}" for name in topology.get_hybrid_group_names())
            raise errors.bad(where, f"{self.nranks} processes in all", described=sizes)
        self._at = topology.get_coord(self.global_rank)._asdict()
        self._groups = {name: self._along([name]) for name in ("pipe", "data", "model", "sharding")}
        self._sep_degree, self._cp_degree = self._size("sep"), self._size("context")
        self._check_group = self._beside("data")
        if self._size("sharding") > 1:
            self._sharding_check_group = self._beside("sharding")
        if self._sep_degree > 1:
            self._groups["sep"] = self._along(["sep"])
            self._dp_sep_group, self._pp_mp_group = self._along(["data", "sep"]), self._along(["pipe", "model"])
        if self._cp_degree > 1:
            self._groups["context"] = self._along(["context"])
        # processes with other data, whose gradients are averaged; the optimizer does so along the sharding axis
        self._data_axes = ["data"] if "context" in self._parts("sharding") else ["data", "context"]
        self._gradient_group = self._along([*self._data_axes, "sep"])
        self._dp_degree, self._mp_degree = self._size("data"), self._size("model")
        self._pp_degree, self._sharding_degree = self._size("pipe"), self._size("sharding")
        self.stage_id = self._place("pipe")
        _HYBRID_PARALLEL_GROUP = self

    def _parts(self, axis: str) -> list[str]:
        return [name for name in self._axes.get(axis, [axis]) if name in self._at]

    def _size(self, axis: str) -> int:
        return math.prod(self._topo.get_dim(name) for name in self._parts(axis))

    def _place(self, axis: str) -> int:
        place = 0
        for name in self._parts(axis):
            place = place * self._topo.get_dim(name) + self._at[name]
        return place

    def _made(self, all_ranks: list[list[int]]) -> Group:
        """The group of this process, where all processes make the groups of all."""
        made = [groups.add(ranks) for ranks in all_ranks]
        return next(group for group in made if group.is_member())

    def _along(self, axes: list[str]) -> Group:
        """The processes that differ from this one along some axes alone."""
        return self._made(self._topo.get_fused_ranks([name for axis in axes for name in self._parts(axis)]))

    def _beside(self, axis: str) -> Group:
        """The processes at the same place along an axis."""
        parts = self._parts(axis)
        others = [name for name in self._topo.get_hybrid_group_names() if name not in parts]
        return self._made(self._topo.get_fused_ranks(others))

    def create_fuse_group(self, fused_strategy_list: Sequence[str], nccl_config: Any = None) -> tuple[list[int], Group]:
        """Make the groups along several axes together; all processes call it.

        Args:
            fused_strategy_list: Names of the axes.
            nccl_config: Options of NCCL. They have no effect. Default: None.

        Returns:
            The ranks of this process' group, and the group.
        """
        if not fused_strategy_list:
            raise errors.bad("create_fuse_group(fused_strategy_list)", "at least one axis", described="none")
        group = self._made(self._topo.get_fused_ranks(list(fused_strategy_list)))
        return group.ranks, group

    def topology(self) -> CommunicateTopology:
        """Return the topology."""
        return self._topo

    def get_parallel_mode(self) -> int | None:
        """Return how training is divided, one of ``ParallelMode``; None where it is not."""
        for axis, mode in (
            ("pipe", ParallelMode.PIPELINE_PARALLEL), ("model", ParallelMode.TENSOR_PARALLEL),
            ("sep", ParallelMode.SEGMENT_PARALLEL), ("context", ParallelMode.SEGMENT_PARALLEL),
            ("sharding", ParallelMode.SHARDING_PARALLEL),
            ("data", ParallelMode.DATA_PARALLEL),
        ):  # fmt: skip
            if self._size(axis) > 1:
                return mode
        return None

    def get_global_rank(self) -> int:
        """Return the rank of this process in the world."""
        return self.global_rank

    def get_data_parallel_rank(self) -> int:
        """Return the rank of this process along the data axis."""
        return self._place("data")

    def get_data_parallel_world_size(self) -> int:
        """Return the number of processes along the data axis."""
        return self._dp_degree

    def get_data_parallel_group(self) -> Group:
        """Return the group along the data axis."""
        return self._groups["data"]

    def get_data_parallel_group_src_rank(self) -> int:
        """Return the rank in the world of the first process along the data axis."""
        return self._groups["data"].ranks[0]

    def get_model_parallel_rank(self) -> int:
        """Return the rank of this process along the model axis."""
        return self._place("model")

    def get_model_parallel_world_size(self) -> int:
        """Return the number of processes along the model axis."""
        return self._mp_degree

    def get_model_parallel_group(self) -> Group:
        """Return the group along the model axis."""
        return self._groups["model"]

    def get_model_parallel_group_src_rank(self) -> int:
        """Return the rank in the world of the first process along the model axis."""
        return self._groups["model"].ranks[0]

    def get_stage_id(self) -> int:
        """Return the number of this process' stage of the pipeline."""
        return self.stage_id

    def get_pipe_parallel_world_size(self) -> int:
        """Return the number of stages of the pipeline."""
        return self._pp_degree

    def get_pipe_parallel_group(self) -> Group:
        """Return the group along the pipe axis."""
        return self._groups["pipe"]

    def get_p2p_groups(self) -> tuple[Group, Group, Group, Group]:
        """Return the groups for messages to and from the next and the previous stage: the one along the pipe axis."""
        return (self._groups["pipe"],) * 4

    @property
    def is_first_stage(self) -> bool:
        """Whether this process has the first stage of the pipeline."""
        return self.stage_id == 0

    @property
    def is_last_stage(self) -> bool:
        """Whether this process has the last stage of the pipeline."""
        return self.stage_id == self._pp_degree - 1

    def get_rank_from_stage(self, stage_id: int, **kwargs: int) -> int:
        """Return the process that has another stage of this process' pipeline.

        Args:
            stage_id: Number of the stage.
            **kwargs: Other coordinates by name.

        Returns:
            The rank in the world.
        """
        return self._topo.get_rank_from_stage(self.global_rank, pipe=stage_id, **kwargs)

    def get_sharding_parallel_rank(self) -> int:
        """Return the rank of this process along the sharding axis."""
        return self._place("sharding")

    def get_sharding_parallel_world_size(self) -> int:
        """Return the number of processes along the sharding axis."""
        return self._sharding_degree

    def get_sharding_parallel_group(self) -> Group:
        """Return the group along the sharding axis."""
        return self._groups["sharding"]

    def get_sharding_parallel_group_src_rank(self) -> int:
        """Return the rank in the world of the first process along the sharding axis."""
        return self._groups["sharding"].ranks[0]

    def get_moe_sharding_parallel_world_size(self) -> int:
        """Return the number of processes that have the same experts: 0, since experts are not divided."""
        return 0

    def get_context_parallel_rank(self) -> int:
        """Return the rank of this process along the context axis."""
        return self._place("context")

    def get_context_parallel_world_size(self) -> int:
        """Return the number of processes along the context axis."""
        return self._cp_degree

    def get_context_parallel_group(self) -> Group:
        """Return the group along the context axis; an error, as in Paddle, where that is not divided."""
        self._check_context("get_context_parallel_group()")
        return self._groups["context"]

    def get_context_parallel_group_src_rank(self) -> int:
        """Return the first rank along the context axis; an error, as in Paddle, where that is not divided."""
        self._check_context("get_context_parallel_group_src_rank()")
        return self._groups["context"].ranks[0]

    def _check_context(self, where: str) -> None:
        if self._cp_degree == 1:
            raise errors.bad(where, "a cp_degree above 1", described="1")

    def get_sep_parallel_rank(self) -> int:
        """Return the rank of this process along the axis of the sequence."""
        return self._place("sep")

    def get_sep_parallel_world_size(self) -> int:
        """Return the number of processes along the axis of the sequence."""
        return self._sep_degree

    def get_sep_parallel_group(self) -> Group:
        """Return the group along the axis of the sequence; an error, as in Paddle, where that is not divided."""
        self._check_sep("get_sep_parallel_group()")
        return self._groups["sep"]

    def get_sep_parallel_group_src_rank(self) -> int:
        """Return the first rank along the axis of the sequence; an error, as in Paddle, where that is not divided."""
        self._check_sep("get_sep_parallel_group_src_rank()")
        return self._groups["sep"].ranks[0]

    def get_dp_sep_parallel_group(self) -> Group:
        """Return the group along data and sequence; an error, as in Paddle, where the sequence is not divided."""
        self._check_sep("get_dp_sep_parallel_group()")
        return self._dp_sep_group

    def get_pp_mp_parallel_group(self) -> Group:
        """Return the group along pipe and model; an error, as in Paddle, where the sequence is not divided."""
        self._check_sep("get_pp_mp_parallel_group()")
        return self._pp_mp_group

    def _check_sep(self, where: str) -> None:
        if self._sep_degree == 1:
            raise errors.bad(where, "a sep_degree above 1", described="1")

    def get_check_parallel_group(self, sharding: bool = False) -> Group:
        """Return the group that looks at the same gradients, for their norm and for overflow.

        Args:
            sharding: Among processes with parts of one optimizer. Default: False.

        Returns:
            The group.
        """
        if sharding:
            return self._sharding_check_group if self._sharding_degree > 1 else self._groups["sharding"]
        return self._check_group
