"""The topology of hybrid parallel training: processes as coordinates along named axes, and the groups along each."""

from __future__ import annotations

import itertools
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

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
    """The groups that hybrid parallel training uses, one along each axis of a topology of one process.

    Args:
        topology: The topology.
        hybrid_configs: Options of the groups. They have no effect. Default: None.

    Raises:
        NotImplementedError: If the topology has more than one process.

    Examples:
        >>> group = bireme.distributed.fleet.HybridCommunicateGroup(bireme.distributed.fleet.CommunicateTopology())
        >>> group.get_model_parallel_world_size(), group.get_stage_id()
        (1, 0)
    """

    def __init__(self, topology: CommunicateTopology, hybrid_configs: dict | None = None) -> None:
        global _HYBRID_PARALLEL_GROUP
        for name in topology.get_hybrid_group_names():
            world.only_one(f"HybridCommunicateGroup({name})", topology.get_dim(name))
        self._topo, self.nranks, self.global_rank = topology, 1, 0
        self._groups = {name: groups.add([0]) for name in ("pipe", "data", "model", "sharding")}
        self._check_group = groups.add([0])
        self._dp_degree = self._mp_degree = self._pp_degree = self._sharding_degree = self._sep_degree = 1
        self.stage_id = 0
        _HYBRID_PARALLEL_GROUP = self

    def topology(self) -> CommunicateTopology:
        """Return the topology."""
        return self._topo

    def get_parallel_mode(self) -> int | None:
        """Return how training is divided, one of ``ParallelMode``; None where it is not."""
        return None

    def get_global_rank(self) -> int:
        """Return the rank of this process in the world."""
        return self.global_rank

    def get_data_parallel_rank(self) -> int:
        """Return the rank of this process along the data axis."""
        return 0

    def get_data_parallel_world_size(self) -> int:
        """Return the number of processes along the data axis."""
        return 1

    def get_data_parallel_group(self) -> Group:
        """Return the group along the data axis."""
        return self._groups["data"]

    def get_data_parallel_group_src_rank(self) -> int:
        """Return the rank in the world of the first process along the data axis."""
        return 0

    def get_model_parallel_rank(self) -> int:
        """Return the rank of this process along the model axis."""
        return 0

    def get_model_parallel_world_size(self) -> int:
        """Return the number of processes along the model axis."""
        return 1

    def get_model_parallel_group(self) -> Group:
        """Return the group along the model axis."""
        return self._groups["model"]

    def get_model_parallel_group_src_rank(self) -> int:
        """Return the rank in the world of the first process along the model axis."""
        return 0

    def get_stage_id(self) -> int:
        """Return the number of this process' stage of the pipeline."""
        return self.stage_id

    def get_pipe_parallel_world_size(self) -> int:
        """Return the number of stages of the pipeline."""
        return 1

    def get_pipe_parallel_group(self) -> Group:
        """Return the group along the pipe axis."""
        return self._groups["pipe"]

    @property
    def is_first_stage(self) -> bool:
        """Whether this process has the first stage of the pipeline."""
        return True

    @property
    def is_last_stage(self) -> bool:
        """Whether this process has the last stage of the pipeline."""
        return True

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
        return 0

    def get_sharding_parallel_world_size(self) -> int:
        """Return the number of processes along the sharding axis."""
        return 1

    def get_sharding_parallel_group(self) -> Group:
        """Return the group along the sharding axis."""
        return self._groups["sharding"]

    def get_sharding_parallel_group_src_rank(self) -> int:
        """Return the rank in the world of the first process along the sharding axis."""
        return 0

    def get_moe_sharding_parallel_world_size(self) -> int:
        """Return the number of processes that share an expert's parameters: 0, since there are no experts."""
        return 0

    def get_sep_parallel_rank(self) -> int:
        """Return the rank of this process along the axis of the sequence."""
        return 0

    def get_sep_parallel_world_size(self) -> int:
        """Return the number of processes along the axis of the sequence."""
        return 1

    def get_sep_parallel_group(self) -> Group:
        """Raise an error, as in Paddle: the sequence is not divided."""
        raise self._no_sep("get_sep_parallel_group()")

    def get_sep_parallel_group_src_rank(self) -> int:
        """Raise an error, as in Paddle: the sequence is not divided."""
        raise self._no_sep("get_sep_parallel_group_src_rank()")

    def get_dp_sep_parallel_group(self) -> Group:
        """Raise an error, as in Paddle: the sequence is not divided."""
        raise self._no_sep("get_dp_sep_parallel_group()")

    def get_pp_mp_parallel_group(self) -> Group:
        """Raise an error, as in Paddle: the sequence is not divided."""
        raise self._no_sep("get_pp_mp_parallel_group()")

    def _no_sep(self, where: str) -> Exception:
        return errors.bad(where, "a sep_degree above 1", described="1")

    def get_check_parallel_group(self, sharding: bool = False) -> Group:
        """Return the group that looks at the same gradients, for their norm and for overflow.

        Args:
            sharding: Among processes with parts of one optimizer. Default: False.

        Returns:
            The group.
        """
        return self._groups["sharding"] if sharding else self._check_group
