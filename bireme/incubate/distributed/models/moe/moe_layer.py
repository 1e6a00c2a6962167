"""MoELayer: tokens go to the experts that a gate chooses, which may be in other processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group
from bireme.distributed.fleet.layers.mpu.mp_ops import Join, Part, reduced
from bireme.distributed.fleet.recompute.recompute_hybrid import recompute_hybrid
from bireme.distributed.utils.moe_utils import global_gather, global_scatter
from bireme.incubate.distributed.models.moe.gate.base_gate import BaseGate
from bireme.incubate.distributed.models.moe.gate.gshard_gate import GShardGate
from bireme.incubate.distributed.models.moe.gate.naive_gate import NaiveGate
from bireme.incubate.distributed.models.moe.gate.switch_gate import SwitchGate
from bireme.incubate.distributed.models.moe.utils import count_by_gate
from bireme.nn.layer import Layer
from bireme.ops import concat, index_select, matmul, reshape, scatter, zeros

__all__ = ["MoELayer"]

GATES: dict[str | None, type[NaiveGate]] = {
    "naive": NaiveGate,
    None: NaiveGate,
    "gshard": GShardGate,
    "switch": SwitchGate,
}


class MoELayer(Layer):
    """A mixture of experts: each token passes through the experts that a gate chooses, and their results are added up
    with the gate's weights.

    Experts are divided among the processes of a group. Their parameters get the attributes ``expert`` and ``no_sync``:
    data parallel training does not exchange their gradients, and takes the mean of what the tokens of all processes
    have added to them.

    Args:
        d_model: Width of the tokens.
        experts: The experts of this process, layers.
        gate: A gate, or a dict with ``type``, ``'naive'``, ``'gshard'`` or ``'switch'``, and ``top_k``, the number of
            experts for each token. Default: None, ``'gshard'`` with 2.
        moe_group: Processes that experts are divided among; each has as many. Default: None, this one alone.
        mp_group: Processes of the model axis, which have the same tokens: each sends its part of them. Default: None.
        recompute_interval: Above 0, experts run again in the backward pass. Default: 0.
        recompute_ctx: Options of ``recompute_hybrid``. Default: None.

    Raises:
        ValueError: If the gate is none of these, or there are no experts.

    Shape:
        - input: ``[batch, sequence, d_model]``.
        - output: as the input.

    Examples:
        >>> moe = bireme.incubate.distributed.models.moe
        >>> experts = bireme.nn.LayerList([bireme.nn.Linear(4, 4) for _ in range(3)])
        >>> layer = moe.MoELayer(4, experts, gate={"type": "naive", "top_k": 2})
        >>> layer(bireme.ones([2, 5, 4])).shape
        [2, 5, 4]
    """

    sublayers_by_data = True  # which experts a process calls depends on its tokens

    def __init__(
        self,
        d_model: int,
        experts: Sequence[Layer],
        gate: dict | BaseGate | None = None,
        moe_group: Group | None = None,
        mp_group: Group | None = None,
        recompute_interval: int = 0,
        recompute_ctx: dict | None = None,
    ) -> None:
        super().__init__()
        if not len(experts):
            raise errors.bad("MoELayer(experts)", "at least one expert", described="none")
        self.d_model, self.experts, self.num_expert = d_model, experts, len(experts)
        self.group, self.mp_group = moe_group, mp_group
        self.world_size = 1 if moe_group is None else moe_group.nranks
        self.recompute_interval, self.recompute_ctx = recompute_interval, recompute_ctx
        self.gate = self._gate({} if gate is None else gate)
        self.top_k = self.gate.top_k
        if self.world_size > 1:
            owned: list[Any] = [p for expert in experts for p in expert.parameters()]
            for p in owned:
                p.expert, p.no_sync, p.moe_group = True, True, moe_group
        if mp_group is not None and mp_group.nranks > 1:
            for p in self.gate.parameters():  # each process has gradients of its part of the tokens
                p.register_hook(lambda g: reduced("gradient of a gate", g, mp_group))

    def _gate(self, gate: Any) -> NaiveGate:
        if isinstance(gate, NaiveGate):
            return gate
        if not isinstance(gate, dict):
            raise errors.bad("MoELayer(gate)", "a dict or a gate", gate, kind=errors.ArgumentTypeError)
        kind = gate.get("type", "gshard")
        if kind not in GATES:
            raise errors.bad("MoELayer(gate['type'])", "'naive', 'gshard', 'switch' or None", kind)
        options = {} if kind in ("naive", None) else {"group": self.group}
        return GATES[kind](self.d_model, self.num_expert, self.world_size, topk=gate.get("top_k", 2), **options)

    def _computed(self, x: Tensor, counts: list[int], experts: Sequence[Layer]) -> Tensor:
        """The results of this process' experts for their rows."""
        if not x.shape[0]:
            anchor = zeros([], x.dtype)
            anchor.stop_gradient = False  # the exchange of gradients needs this process too
            return x + anchor
        found, start = [], 0
        for expert, count in zip(experts, counts):
            if count:
                found.append(expert(x[start : start + count]))
            start += count
        return concat(found, 0)

    def forward(self, inp: Tensor) -> Tensor:
        """Let tokens pass through the experts that the gate chooses.

        Args:
            inp: Tokens, ``[batch, sequence, d_model]``.

        Returns:
            The results, of the same shape.
        """
        if inp.ndim != 3 or inp.shape[2] != self.d_model:
            expected = f"tokens [batch, sequence, {self.d_model}]"
            raise errors.bad("MoELayer(inp)", expected, inp, kind=errors.ShapeError)
        x, mp = reshape(inp, [-1, self.d_model]), self.mp_group
        if mp is not None and mp.nranks > 1:
            x = Part.apply(x, mp, "MoELayer", 0)
        weights, index = self.gate(x)
        pos, local, here = count_by_gate(index, self.num_expert, self.world_size, group=self.group)
        assert pos is not None
        rows: Any = index_select(x, pos // self.top_k, 0)
        counts = here.numpy().reshape(self.world_size, self.num_expert).sum(0).tolist()
        if self.world_size > 1:
            rows = global_scatter(rows, local, here, self.group)
        if self.recompute_interval > 0 and rows.shape[0]:
            rows = recompute_hybrid(self.recompute_ctx or {}, self._computed, rows, counts, self.experts)
        else:
            rows = self._computed(rows, counts, self.experts)
        if self.world_size > 1:
            rows = global_gather(rows, local, here, self.group)
        # a row for each expert of each token, zeros where it was dropped
        every = scatter(zeros([x.shape[0] * self.top_k, self.d_model], rows.dtype), pos, rows, overwrite=True)
        every = reshape(every, [-1, self.top_k, self.d_model])
        out = reshape(matmul(reshape(weights, [-1, 1, self.top_k]).astype(every.dtype), every), [-1, self.d_model])
        if mp is not None and mp.nranks > 1:
            out = Join.apply(out, mp, "MoELayer", 0)
        return reshape(out, inp.shape)
