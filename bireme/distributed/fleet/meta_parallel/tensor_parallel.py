"""Models with divided weights, optimizer states or sequences."""

from __future__ import annotations

from typing import Any

from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.distributed.fleet.meta_parallel.meta_parallel_base import MetaParallelBase
from bireme.distributed.fleet.utils.hybrid_parallel_util import broadcast_input_data, broadcast_parameters
from bireme.nn.layer import Layer

__all__ = ["SegmentParallel", "ShardingParallel", "TensorParallel"]


class _Broadcast(MetaParallelBase):
    """A model that begins with the same parameters in all processes, where they are not divided."""

    def __init__(self, layers: Layer, hcg: HybridCommunicateGroup, **kwargs: Any) -> None:
        super().__init__(layers, hcg, kwargs.get("strategy"))

    def _prepare_for_model(self) -> None:
        broadcast_parameters(self._layers, self._hcg)


class TensorParallel(_Broadcast):
    """A model whose weights are divided among the processes of the model axis.

    Args:
        layers: The model.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.
        **kwargs: ``strategy``, the options of training.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> hcg = fleet.get_hybrid_communicate_group()
        >>> model = bireme.distributed.fleet.meta_parallel.TensorParallel(bireme.nn.Linear(4, 3), hcg, strategy=None)
        >>> model(bireme.ones([2, 4])).shape
        [2, 3]
    """

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the model with the inputs of the first process along the model axis.

        Args:
            *inputs: Inputs of the model.
            **kwargs: Further inputs by name.

        Returns:
            What the model returns.
        """
        strategy = self._strategy
        if strategy is None or strategy.hybrid_configs["mp_configs"].need_broadcast_data:
            inputs, kwargs = broadcast_input_data(self._hcg, *inputs, **kwargs)
        return self._layers(*inputs, **kwargs)


class ShardingParallel(_Broadcast):
    """A model whose optimizer states are divided among the processes of the sharding axis.

    Args:
        layers: The model.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.
        **kwargs: ``strategy``, the options of training.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> hcg = fleet.get_hybrid_communicate_group()
        >>> model = bireme.distributed.fleet.meta_parallel.ShardingParallel(bireme.nn.Linear(4, 3), hcg, strategy=None)
        >>> model(bireme.ones([2, 4])).shape
        [2, 3]
    """


class SegmentParallel(_Broadcast):
    """A model whose sequences are divided among the processes of the sep axis.

    Args:
        layers: The model.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.
        **kwargs: ``strategy``, the options of training.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> hcg = fleet.get_hybrid_communicate_group()
        >>> model = bireme.distributed.fleet.meta_parallel.SegmentParallel(bireme.nn.Linear(4, 3), hcg, strategy=None)
        >>> model(bireme.ones([2, 4])).shape
        [2, 3]
    """
