"""GroupShardedStage2: a model whose gradients go to the processes that update them as soon as they are there."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.backward import final_hooks
from bireme.core.tensor.grad_mode import is_grad_enabled, no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group, member
from bireme.distributed.fleet.meta_parallel.sharding.group_sharded_optimizer_stage2 import GroupShardedOptimizerStage2
from bireme.distributed.parallel import sync_params_buffers
from bireme.nn.layer import Layer

__all__ = ["GroupShardedStage2"]


class GroupShardedStage2(Layer):
    """A model whose gradients are divided among a group: after each backward pass, each process keeps the mean gradients
    of the parameters that it updates.

    Args:
        layer: The model.
        sharding_optimizer: Its ``GroupShardedOptimizerStage2``.
        group: The group. Default: None, the default group.
        sync_buffers: Begin with the first process' buffers. Default: False.
        buffer_max_size: Bytes that are exchanged together. It has no effect. Default: 2**23.
        auto_refresh_trainable: Not used. Default: True.
        device: Kind of device. It has no effect. Default: ``'gpu'``.
        dp_group: Group of the data axis. Default: None.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> from bireme.distributed.fleet.meta_parallel.sharding import group_sharded_optimizer_stage2 as stage2
        >>> from bireme.distributed.fleet.meta_parallel.sharding.group_sharded_stage2 import GroupShardedStage2
        >>> layer = bireme.nn.Linear(2, 1)
        >>> inner = bireme.optimizer.Adam(parameters=layer.parameters())
        >>> optimizer = stage2.GroupShardedOptimizerStage2(layer.parameters(), inner)
        >>> GroupShardedStage2(layer, optimizer)(bireme.ones([3, 2])).shape
        [3, 1]
    """

    def __init__(
        self,
        layer: Layer,
        sharding_optimizer: GroupShardedOptimizerStage2,
        group: Group | None = None,
        sync_buffers: bool = False,
        buffer_max_size: int = 2**23,
        auto_refresh_trainable: bool = True,
        device: str = "gpu",
        dp_group: Group | None = None,
    ) -> None:
        super().__init__()
        self._layer, self._optimizer = layer, sharding_optimizer
        self._group = member("GroupShardedStage2", group)
        self._due = False
        self._before: dict[int, Tensor] = {}  # gradients of earlier passes, which this pass must not exchange again
        if self._group.nranks > 1:
            if sync_buffers:
                sync_params_buffers(layer, self._group, self._group.ranks[0])
            for p in sharding_optimizer.owners.parameters:
                if not p.stop_gradient:
                    p._register_backward_hook(self._reach)

    def _reach(self) -> None:
        if not self._due:
            self._due = True
            final_hooks.append(self._reduce)

    def _reduce(self) -> None:
        self._due = False
        self._optimizer.reduce_gradients(free=True)
        with no_grad():
            for p in self._optimizer.owners.own():
                before = self._before.pop(id(p), None)
                if before is not None:
                    p.grad = before if p.grad is None else p.grad + before

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the model.

        Args:
            *inputs: Inputs of the model.
            **kwargs: Further inputs by name.

        Returns:
            What the model returns.
        """
        if self._group.nranks > 1 and is_grad_enabled() and not self._before:
            for p in self._optimizer.owners.own():
                if p.grad is not None:
                    self._before[id(p)] = p.grad
                    p.clear_gradient(False)
        return self._layer(*inputs, **kwargs)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return parameters and persistable buffers by the names that they have in the model.

        Args:
            *args: Arguments of the model's ``state_dict``.
            **kwargs: Its keyword arguments.

        Returns:
            A dict of names and tensors.
        """
        return self._layer.state_dict(*args, **kwargs)

    def set_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Set parameters and buffers from what ``state_dict`` returned.

        Args:
            *args: Arguments of the model's ``set_state_dict``.
            **kwargs: Its keyword arguments.

        Returns:
            What the model's ``set_state_dict`` returns.
        """
        return self._layer.set_state_dict(*args, **kwargs)
