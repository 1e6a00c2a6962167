"""HybridParallelOptimizer: an optimizer that exchanges gradients along each axis before it updates."""

from __future__ import annotations

from typing import Any

from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer.inner import InnerOptimizer
from bireme.distributed.fleet.utils.hybrid_parallel_util import obtain_optimizer_parameters_list

__all__ = ["HybridParallelOptimizer"]

_obtain_optimizer_parameters_list = obtain_optimizer_parameters_list  # the name by which programs import it


class HybridParallelOptimizer(InnerOptimizer):
    """An optimizer that exchanges gradients along each axis before it updates. One process has them all.

    Args:
        optimizer: The optimizer that does the work.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.
        strategy: Options of training.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> layer = bireme.nn.Linear(2, 1, bias_attr=False)
        >>> inner = bireme.optimizer.SGD(0.5, parameters=layer.parameters())
        >>> hcg = fleet.get_hybrid_communicate_group()
        >>> parallel = bireme.distributed.fleet.meta_optimizers
        >>> optimizer = parallel.HybridParallelOptimizer(inner, hcg, bireme.distributed.fleet.DistributedStrategy())
        >>> layer(bireme.ones([1, 2])).sum().backward()
        >>> optimizer.step()
        >>> optimizer.get_lr()
        0.5
    """

    def __init__(self, optimizer: Any, hcg: HybridCommunicateGroup, strategy: Any) -> None:
        super().__init__(optimizer, hcg)
        self._strategy = strategy
        self._dp_enable = self._sharding_enable = self._sep_enable = False
