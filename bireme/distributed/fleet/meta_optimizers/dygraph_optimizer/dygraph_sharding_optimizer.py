"""Optimizers whose states are divided among the processes of the sharding axis."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer.inner import InnerOptimizer
from bireme.distributed.fleet.meta_parallel.sharding.ownership import Owners, keep
from bireme.distributed.fleet.utils.hybrid_parallel_util import obtain_optimizer_parameters_list
from bireme.nn.clip import Pairs

__all__ = ["DygraphShardingOptimizer", "DygraphShardingOptimizerV2"]


class DygraphShardingOptimizer(InnerOptimizer):
    """An optimizer whose states are divided among processes, whole parameters at a time.

    A step gives each process the mean gradients of its parameters, updates them, and gives the others the new values.

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
        parameters = obtain_optimizer_parameters_list(optimizer)
        group = hcg.get_sharding_parallel_group()
        self._owners = Owners(parameters, group)
        self._sharding_world_size, self._sharding_rank = group.nranks, group.rank
        self._rank2params = {r: [p for p in parameters if self._owners.of(p) == r] for r in range(group.nranks)}
        self._param2rank = {p.name: self._owners.of(p) for p in parameters}
        if group.nranks > 1:
            keep(optimizer, self._owners)
        self._reduced = False

    def filter_parameters(self, parameter_list: list, hcg: HybridCommunicateGroup) -> list:
        """Return the parameters whose states this process has.

        Args:
            parameter_list: Parameters.
            hcg: Groups along each axis.

        Returns:
            Those among them.
        """
        return [p for p in parameter_list if self._owners.of(p) == self._sharding_rank]

    def reduce_gradients(self, parameter_list: list, hcg: HybridCommunicateGroup) -> None:
        """Give each process the mean gradients of its parameters; ``step`` does it where it was not called.

        Args:
            parameter_list: Parameters.
            hcg: Groups along each axis.
        """
        if self._sharding_world_size > 1:
            self._owners.reduce()
        self._reduced = True

    def _step(self, only: set[int] | None = None, skip: Tensor | None = None) -> Pairs:
        if not self._reduced:
            self.reduce_gradients([], self._hcg)
        self._reduced = False
        pairs = self._inner_opt._step(only, skip)
        if self._sharding_world_size > 1:
            self._owners.share()
        return pairs

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Clear the gradients, also of parameters that another process updates.

        Args:
            set_to_zero: Set them to zero rather than to None. Default: True.
        """
        for p in self._owners.parameters:
            if not p.stop_gradient:
                p.clear_gradient(set_to_zero)
        self._inner_opt.clear_grad(set_to_zero)


class DygraphShardingOptimizerV2(DygraphShardingOptimizer):
    """An optimizer whose states are divided among processes, as ``DygraphShardingOptimizer``.

    Paddle divides each parameter into parts here. That changes no result, and programs that name this class get whole
    parameters at a time.

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
