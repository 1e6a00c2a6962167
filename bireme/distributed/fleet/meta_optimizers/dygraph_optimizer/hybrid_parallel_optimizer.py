"""HybridParallelOptimizer: an optimizer that exchanges gradients along each axis before it updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.processes.collectives import Call
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group
from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer.dygraph_sharding_optimizer import (
    DygraphShardingOptimizer,
)
from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer.inner import InnerOptimizer
from bireme.distributed.fleet.utils.hybrid_parallel_util import (
    fused_allreduce_gradients,
    obtain_optimizer_parameters_list,
)
from bireme.distributed.reducer import MEGABYTE, add_experts, is_expert
from bireme.distributed.world import ParallelMode
from bireme.nn.clip import ClipGradBase, ClipGradByGlobalNorm, Pairs
from bireme.ops import to_tensor

__all__ = ["HybridParallelClipGrad", "HybridParallelOptimizer"]

_obtain_optimizer_parameters_list = obtain_optimizer_parameters_list  # the name by which programs import it


def norm_of(parts: Sequence[tuple[list[Tensor], Sequence[Group]]], among: Sequence[Group] = ()) -> float:
    """The norm of gradients together: of each list, the sum of squares is added up over its groups, then that of all."""
    total = np.zeros([1])
    call = Call("the norm of all gradients")
    for grads, own in parts:
        square = np.zeros([1])
        for g in grads:
            host = call.read(g).astype(np.float32, copy=False).reshape(-1)
            square += float(np.dot(host, host))
        total += _added(call, square, own)
    total = _added(call, total, among)
    if call.failed is not None:  # nobody else was asked
        raise call.failed
    return float(np.sqrt(total[0]))


def _added(call: Call, square: np.ndarray, among: Sequence[Group]) -> np.ndarray:
    for group in among:
        if group.nranks > 1:
            square = group.channel.all_reduce(call, square, "SUM")
    return square


def of_experts(pairs: Pairs) -> list[tuple[list[Tensor], Sequence[Group]]]:
    """The gradients of experts as parts of a norm: each process of their group has others."""
    found: dict[int, tuple[list[Tensor], list[Group]]] = {}
    for p, g in pairs:
        group = getattr(p, "moe_group", None)
        grads, _ = found.setdefault(id(group), ([], [] if group is None else [group]))
        grads += [] if g is None else [g]
    return list(found.values())


class HybridParallelClipGrad(ClipGradBase):
    """Clipping by the norm of all gradients, where processes have different ones.

    Gradients of weights that are divided along the model axis, and of experts, count from each process, others once;
    those of other stages of a pipeline, and of other parts of an optimizer, count too.

    Args:
        clip: A ``ClipGradByGlobalNorm``.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> from bireme.distributed.fleet.meta_optimizers.dygraph_optimizer import HybridParallelClipGrad
        >>> hcg = fleet.get_hybrid_communicate_group()
        >>> clip = HybridParallelClipGrad(bireme.nn.ClipGradByGlobalNorm(5.0), hcg)
        >>> [g.item() for _, g in clip([(bireme.ones([1]), bireme.to_tensor([10.0]))])]
        [5.0]
    """

    def __init__(self, clip: Any, hcg: HybridCommunicateGroup) -> None:
        self._clip_of, self._hcg = clip, hcg

    def _dygraph_clip(self, params_grads: Pairs) -> Pairs:
        pairs: Pairs = [(p, g) for p, g in params_grads if g is not None]
        chosen = [(p, g) for p, g in pairs if g is not None and getattr(p, "need_clip", True)]
        hcg = self._hcg
        sharding, model = hcg.get_sharding_parallel_group(), hcg.get_model_parallel_group()
        experts = of_experts([(p, g) for p, g in chosen if is_expert(p)])
        # a weight that several stages have counts in the first of them
        counted = [(p, g) for p, g in chosen if getattr(p, "is_firstly_shared", True) and not is_expert(p)]
        whole = [g for p, g in counted if not getattr(p, "is_distributed", False)]
        divided = [g for p, g in counted if getattr(p, "is_distributed", False)]
        with no_grad():
            parts = [(whole, [sharding]), (divided, [model, sharding]), *experts]
            norm = norm_of(parts, [hcg.get_pipe_parallel_group()])
            factor = self._clip_of.clip_norm / max(norm, self._clip_of.clip_norm)
            for _, g in chosen:
                g._assign_value(g * to_tensor(factor, g.dtype))
        return pairs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_clip_of":
            raise AttributeError(name)
        return getattr(self._clip_of, name)


class HybridParallelOptimizer(InnerOptimizer):
    """An optimizer that exchanges gradients along each axis before it updates.

    Along the data and the context axis gradients are averaged, unless ``DataParallel`` has done so; along the sharding axis
    each process updates its part of the parameters. With ``strategy.gradient_merge``, every ``k_steps``-th step updates, with the
    gradients of all of them.

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
        self._all_parameters = obtain_optimizer_parameters_list(optimizer)
        self._sharding_enable = hcg.get_sharding_parallel_world_size() > 1
        if self._sharding_enable and not isinstance(optimizer, DygraphShardingOptimizer):
            self._inner_opt = DygraphShardingOptimizer(optimizer, hcg)
        self._strategy = strategy
        self._dp_enable = (
            hcg.get_data_parallel_world_size() > 1 and hcg.get_parallel_mode() != ParallelMode.DATA_PARALLEL
        )
        self._sep_enable = hcg._gradient_group.nranks > hcg.get_data_parallel_world_size()
        merge = strategy is not None and strategy.gradient_merge
        self._merged = strategy.gradient_merge_configs["k_steps"] if merge else 1
        self._average = merge and strategy.gradient_merge_configs["avg"]
        self._count = 0
        if hcg.nranks > hcg.get_data_parallel_world_size() or any(is_expert(p) for p in self._all_parameters):
            self._clip_together(optimizer)

    def _clip_together(self, optimizer: Any) -> None:
        """Let all processes clip by one norm."""
        holders = [(optimizer, "_grad_clip"), *[(group, "grad_clip") for group in optimizer._param_groups]]
        for holder, name in holders:
            clip = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
            if isinstance(clip, ClipGradByGlobalNorm):
                new = HybridParallelClipGrad(clip, self._hcg)
                holder.__setitem__(name, new) if isinstance(holder, dict) else setattr(holder, name, new)

    def _step(self, only: set[int] | None = None, skip: Tensor | None = None) -> Pairs:
        self._count += 1
        if self._count % self._merged:
            return []
        if self._average and self._merged > 1:
            with no_grad():
                for p in self._all_parameters:
                    if p.grad is not None:
                        p.grad._assign_value(p.grad / self._merged)
        if self._dp_enable or self._sep_enable:
            fused_allreduce_gradients(self._all_parameters, self._hcg)
        if self._hcg.get_moe_sharding_parallel_world_size() > 1:
            add_experts(self._all_parameters, self._hcg.get_moe_sharding_parallel_group(), 128 * MEGABYTE)
        return self._inner_opt._step(only, skip)

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Clear the gradients; those of a step that ``gradient_merge`` has put off are kept.

        Args:
            set_to_zero: Set them to zero rather than to None. Default: True.
        """
        if self._count % self._merged == 0:
            self._inner_opt.clear_grad(set_to_zero)
