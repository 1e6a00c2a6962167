"""SwitchGate: one expert, of limited capacity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group
from bireme.distributed.models.moe.utils import _number_count
from bireme.incubate.distributed.models.moe.gate.naive_gate import NaiveGate
from bireme.incubate.distributed.models.moe.utils import limit_by_capacity
from bireme.ops import rand, softmax, sum
from bireme.ops import topk as largest

__all__ = ["SwitchGate"]


class SwitchGate(NaiveGate):
    """The expert with the largest probability. Tokens beyond its capacity are dropped.

    In training, noise is added to the scores. The loss is the product, for each expert, of the part of tokens that it
    gets and its probability, added up.

    Args:
        d_model: Width of the tokens.
        num_expert: Number of experts of each process.
        world_size: Number of processes that experts are divided among.
        topk: 1. Default: 1.
        switch_eps: Width of the noise around 1. Default: 0.1.
        capacity: Tokens that an expert takes, as a multiple of those of one process, in training and in evaluation.
            Default: ``(1.2, 2.4)``.
        group: Processes that experts are divided among. Default: None, this one alone.

    Examples:
        >>> gate = bireme.incubate.distributed.models.moe.SwitchGate(4, 3, 1)
        >>> [x.shape for x in gate(bireme.ones([5, 4]))], gate.get_loss().shape
        ([[5, 1], [5, 1]], [])
    """

    def __init__(
        self,
        d_model: int,
        num_expert: int,
        world_size: int,
        topk: int = 1,
        switch_eps: float = 0.1,
        capacity: Sequence[float] = (1.2, 2.4),
        group: Group | None = None,
    ) -> None:
        if topk != 1:
            raise errors.bad("SwitchGate(topk)", "1", topk)
        super().__init__(d_model, num_expert, world_size, topk=1)
        self.switch_eps, self.capacity, self.group = switch_eps, capacity, group

    def forward(self, inp: Tensor) -> Any:  # type: ignore[override]  # Paddle's
        """Choose experts.

        Args:
            inp: Rows of tokens.

        Returns:
            Probability and index of each token's expert, in columns; index -1 where it has no room.
        """
        scores = self.gate(inp)
        if self.training:
            scores = scores + (rand(scores.shape, scores.dtype) * 2 * self.switch_eps + 1.0 - self.switch_eps)
        probability = softmax(scores, -1)
        value, index = largest(probability, 1, -1, True)
        capacity = math.ceil(self.capacity[0 if self.training else 1] * inp.shape[0])
        _, _, index = limit_by_capacity(index, self.num_expert, self.world_size, capacity, self.group)
        counts = _number_count(index, self.tot_expert).astype("float32")
        taken = sum(counts)
        self.set_loss(sum(counts / taken * (sum(probability, 0) / taken)) * self.tot_expert)
        return value, index
