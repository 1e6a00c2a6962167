"""GroupShardedOptimizerStage2: an optimizer with divided gradients and states."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group, member
from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer.hybrid_parallel_optimizer import (
    norm_of,
    of_experts,
)
from bireme.distributed.fleet.meta_parallel.sharding.ownership import Owners, keep
from bireme.distributed.fleet.utils.hybrid_parallel_util import obtain_optimizer_parameters_list
from bireme.distributed.reducer import broadcast_all, is_expert, shared
from bireme.nn.clip import ClipGradBase, ClipGradByGlobalNorm, Pairs
from bireme.ops import to_tensor

__all__ = ["GroupShardedClipGrad", "GroupShardedOptimizerStage2"]


class GroupShardedClipGrad(ClipGradBase):
    """Clipping by the norm of all gradients, of which each process of a group has a part.

    Args:
        clip: A ``ClipGradByGlobalNorm``.
        device: Kind of device. It has no effect.
        group: The group.
        whole: Ids of parameters whose gradients all processes have. Default: None, none.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> from bireme.distributed.fleet.meta_parallel.sharding import group_sharded_optimizer_stage2 as stage2
        >>> clip = stage2.GroupShardedClipGrad(bireme.nn.ClipGradByGlobalNorm(5.0), "cpu", group)
        >>> [g.item() for _, g in clip([(bireme.ones([1]), bireme.to_tensor([10.0]))])]
        [5.0]
    """

    def __init__(self, clip: Any, device: Any, group: Group, whole: set[int] | None = None) -> None:
        self._clip_of, self._group, self._whole = clip, group, whole or set()

    def _dygraph_clip(self, params_grads: Pairs) -> Pairs:
        pairs: Pairs = [(p, g) for p, g in params_grads if g is not None]
        chosen = [(p, g) for p, g in pairs if g is not None and getattr(p, "need_clip", True)]
        # experts are divided among processes, whoever else has copies of all other parameters
        experts = [(p, g) for p, g in chosen if is_expert(p)]
        whole = [g for p, g in chosen if id(p) in self._whole and not is_expert(p)]
        divided = [g for p, g in chosen if id(p) not in self._whole and not is_expert(p)]
        with no_grad():
            norm = norm_of([(whole, []), (divided, [self._group]), *of_experts(experts)])
            factor = self._clip_of.clip_norm / max(norm, self._clip_of.clip_norm)
            for _, g in chosen:
                g._assign_value(g * to_tensor(factor, g.dtype))
        return pairs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_clip_of":
            raise AttributeError(name)
        return getattr(self._clip_of, name)


def clip_together(optimizer: Any, group: Group, whole: set[int] | None = None) -> None:
    """Let an optimizer clip by the norm of all processes' gradients."""
    if isinstance(optimizer._grad_clip, ClipGradByGlobalNorm):
        optimizer._grad_clip = GroupShardedClipGrad(optimizer._grad_clip, None, group, whole)
    for options in optimizer._param_groups:
        if isinstance(options.get("grad_clip"), ClipGradByGlobalNorm):
            options["grad_clip"] = GroupShardedClipGrad(options["grad_clip"], None, group, whole)


class GroupShardedOptimizerStage2:
    """An optimizer whose gradients and states are divided among a group, whole parameters at a time.

    Args:
        params: Parameters to train.
        optim: The optimizer that does the work.
        group: The group. Default: None, the default group.
        offload: Keep states in host memory: ``group_sharded_parallel`` sees to it, here it has no effect. Default: False.
        device: Kind of device. It has no effect. Default: ``'gpu'``.
        pretrain_sync_models: Begin with the first process' parameters. Default: True.
        dp_group: Group of the data axis, over which gradients are averaged as well. Default: None.
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
        self._group, self._dp_group = member("GroupShardedOptimizerStage2", group), dp_group
        self._local_params, self._optim, self._broadcast_overlap = list(params), optim, False
        self.owners = Owners(obtain_optimizer_parameters_list(optim), self._group)
        self.reduced = False  # whether the owners have the gradients already
        for among in (self._group, dp_group) if pretrain_sync_models else ():
            if among is not None and among.nranks > 1:
                broadcast_all(shared(self._local_params), among, 0, "the exchange of parameters")
        if self._group.nranks > 1:
            keep(optim, self.owners)
            clip_together(optim, self._group)

    def reduce_gradients(self, free: bool) -> None:
        """Give each owner the mean gradients of its parameters.

        Args:
            free: Let the other processes lose theirs.
        """
        if self._group.nranks > 1:
            self.owners.reduce(free)
        if self._dp_group is not None and self._dp_group.nranks > 1:
            Owners(self.owners.own(), self._dp_group).mean()
        self.reduced = True

    def step(self) -> None:
        """Update the parameters."""
        self._step()

    def _step(self, only: set[int] | None = None, skip: Tensor | None = None) -> Pairs:
        if not self.reduced:
            self.reduce_gradients(False)
        self.reduced = False
        pairs = self._optim._step(only, skip)
        if self._group.nranks > 1:
            self.owners.share()
        return pairs

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Clear the gradients.

        Args:
            set_to_zero: Set them to zero rather than to None. Default: True.
        """
        own = {id(p) for p in self.owners.own()}
        for p in self.owners.parameters:
            if not p.stop_gradient and id(p) not in own:
                p.clear_gradient(False)  # others update it: no memory for its gradient
        self._optim.clear_grad(set_to_zero)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_optim":
            raise AttributeError(name)
        return getattr(self._optim, name)
