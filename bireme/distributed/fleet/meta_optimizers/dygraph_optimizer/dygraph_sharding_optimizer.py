"""Optimizers whose states are divided among the processes of the sharding axis. One process has them all."""

from __future__ import annotations

from typing import Any

from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer.inner import InnerOptimizer
from bireme.distributed.fleet.utils.hybrid_parallel_util import obtain_optimizer_parameters_list

__all__ = ["DygraphShardingOptimizer", "DygraphShardingOptimizerV2"]


class DygraphShardingOptimizer(InnerOptimizer):
    """An optimizer whose states are divided among processes, whole parameters at a time.

    Args:
        optimizer: The optimizer that does the work.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> layer = bireme.nn.Linear(2, 1)
        >>> inner = bireme.optimizer.Adam(parameters=layer.parameters())
        >>> hcg = fleet.get_hybrid_communicate_group()
        >>> optimizer = bireme.distributed.fleet.meta_optimizers.DygraphShardingOptimizer(inner, hcg)
        >>> len(optimizer.filter_parameters(layer.parameters(), hcg))
        2
    """

    def __init__(self, optimizer: Any, hcg: HybridCommunicateGroup) -> None:
        super().__init__(optimizer, hcg)
        self._sharding_world_size, self._sharding_rank = 1, 0
        parameters = obtain_optimizer_parameters_list(optimizer)
        self._rank2params = {0: parameters}
        self._param2rank = {p.name: 0 for p in parameters}

    def filter_parameters(self, parameter_list: list, hcg: HybridCommunicateGroup) -> list:
        """Return the parameters whose states this process has: one has all.

        Args:
            parameter_list: Parameters.
            hcg: Groups along each axis.

        Returns:
            Those among them.
        """
        return list(parameter_list)

    def reduce_gradients(self, parameter_list: list, hcg: HybridCommunicateGroup) -> None:
        """Give each process the gradients of its parameters: one has all.

        Args:
            parameter_list: Parameters.
            hcg: Groups along each axis.
        """


class DygraphShardingOptimizerV2(DygraphShardingOptimizer):
    """An optimizer whose states are divided among processes, each parameter into parts.

    Args:
        optimizer: The optimizer that does the work.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> inner = bireme.optimizer.Adam(parameters=bireme.nn.Linear(2, 1).parameters())
        >>> parallel = bireme.distributed.fleet.meta_optimizers.dygraph_optimizer
        >>> parallel.DygraphShardingOptimizerV2(inner, fleet.get_hybrid_communicate_group()).pp_overlap
        False
    """

    def __init__(self, optimizer: Any, hcg: HybridCommunicateGroup) -> None:
        super().__init__(optimizer, hcg)
        self.pp_overlap = False
