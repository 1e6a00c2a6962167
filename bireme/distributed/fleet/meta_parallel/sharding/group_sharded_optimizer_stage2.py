"""GroupShardedOptimizerStage2: an optimizer with divided gradients and states. One process has them all."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.distributed.communication.group import Group, member
from bireme.distributed.world import only_one

__all__ = ["GroupShardedOptimizerStage2"]


class GroupShardedOptimizerStage2:
    """An optimizer whose gradients and states are divided among a group.

    Args:
        params: Parameters to train.
        optim: The optimizer that does the work.
        group: The group. Default: None, the default group.
        offload: Keep states in host memory. It has no effect. Default: False.
        device: Kind of device. It has no effect. Default: ``'gpu'``.
        pretrain_sync_models: Begin with the first process' parameters. Default: True.
        dp_group: Group of the data axis. Default: None.
        **kw: Not used.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> layer = bireme.nn.Linear(2, 1)
        >>> inner = bireme.optimizer.Adam(parameters=layer.parameters())
        >>> from bireme.distributed.fleet.meta_parallel.sharding import group_sharded_optimizer_stage2 as stage2
        >>> optimizer = stage2.GroupShardedOptimizerStage2(layer.parameters(), inner)
        >>> layer(bireme.ones([1, 2])).sum().backward()
        >>> optimizer.step()
    """

    def __init__(
        self,
        params: list,
        optim: Any,
        group: Group | None = None,
        offload: bool = False,
        device: str = "gpu",
        pretrain_sync_models: bool = True,
        dp_group: Group | None = None,
        **kw: Any,
    ) -> None:
        if not hasattr(optim, "step"):
            where = "GroupShardedOptimizerStage2(optim)"
            raise errors.bad(where, "an optimizer", optim, kind=errors.MissingAttributeError)
        self._group = member("GroupShardedOptimizerStage2", group)
        only_one("GroupShardedOptimizerStage2(group)", self._group.nranks)
        self._local_params, self._optim, self._broadcast_overlap = list(params), optim, False

    def step(self) -> None:
        """Update the parameters."""
        self._optim.step()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_optim":
            raise AttributeError(name)
        return getattr(self._optim, name)
