"""Models with divided weights, optimizer states or sequences. One process has them whole."""

from __future__ import annotations

from typing import Any

from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.distributed.fleet.meta_parallel.meta_parallel_base import MetaParallelBase
from bireme.nn.layer import Layer

__all__ = ["SegmentParallel", "ShardingParallel", "TensorParallel"]


class TensorParallel(MetaParallelBase):
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

    def __init__(self, layers: Layer, hcg: HybridCommunicateGroup, **kwargs: Any) -> None:
        super().__init__(layers, hcg, kwargs.get("strategy"))


class ShardingParallel(MetaParallelBase):
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

    def __init__(self, layers: Layer, hcg: HybridCommunicateGroup, **kwargs: Any) -> None:
        super().__init__(layers, hcg, kwargs.get("strategy"))


class SegmentParallel(MetaParallelBase):
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

    def __init__(self, layers: Layer, hcg: HybridCommunicateGroup, **kwargs: Any) -> None:
        super().__init__(layers, hcg, kwargs.get("strategy"))
