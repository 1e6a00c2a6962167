"""Clipping by the norm of all gradients, of which those of experts are other ones in each process."""

from __future__ import annotations

from collections.abc import Callable

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group
from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer.hybrid_parallel_optimizer import norm_of
from bireme.nn.clip import ClipGradBase, Pairs
from bireme.ops import to_tensor

__all__ = ["ClipGradForMOEByGlobalNorm"]


class ClipGradForMOEByGlobalNorm(ClipGradBase):
    """Scales all gradients by one factor, so that their L2 norm together is at most ``clip_norm``, with those of all experts.

    Args:
        clip_norm: Greatest norm of all gradients together.
        is_expert_param_func: Function that tells of a parameter whether it is an expert's; needed for a group of several
            processes. Default: None.
        moe_group: Processes that experts are divided among. Default: None, this one alone.
        group_name: Kept as an attribute; it has no effect. Default: ``'default_moe_group'``.

    Raises:
        ValueError: If there is a group of several processes, and no function.

    Examples:
        >>> clip = bireme.incubate.distributed.models.moe.ClipGradForMOEByGlobalNorm(5.0)
        >>> pairs = [(bireme.ones([1]), bireme.to_tensor([6.0])), (bireme.ones([1]), bireme.to_tensor([8.0]))]
        >>> [g.item() for _, g in clip(pairs)]
        [3.0, 4.0]
    """

    def __init__(
        self,
        clip_norm: float,
        is_expert_param_func: Callable[[Tensor], bool] | None = None,
        moe_group: Group | None = None,
        group_name: str = "default_moe_group",
    ) -> None:
        self.clip_norm, self.group_name, self.moe_group = float(clip_norm), group_name, moe_group
        if moe_group is not None and moe_group.nranks > 1 and is_expert_param_func is None:
            where = "ClipGradForMOEByGlobalNorm(is_expert_param_func)"
            raise errors.bad(where, "a function that tells which parameters are experts'", described="None")
        self.is_expert_param_func = is_expert_param_func

    def __str__(self) -> str:
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"

    def _dygraph_clip(self, params_grads: Pairs) -> Pairs:
        pairs: Pairs = [(p, g) for p, g in params_grads if g is not None]
        chosen = [(p, g) for p, g in pairs if g is not None and getattr(p, "need_clip", True)]
        is_expert = self.is_expert_param_func or (lambda p: False)
        experts = [g for p, g in chosen if is_expert(p)]
        others = [g for p, g in chosen if not is_expert(p)]
        with no_grad():
            norm = norm_of([(others, []), (experts, [] if self.moe_group is None else [self.moe_group])])
            factor = self.clip_norm / max(norm, self.clip_norm)
            for _, g in chosen:
                g._assign_value(g * to_tensor(factor, g.dtype))
        return pairs
