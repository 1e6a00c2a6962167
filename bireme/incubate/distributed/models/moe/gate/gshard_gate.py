"""GShardGate: two experts, of limited capacity, the second by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group
from bireme.distributed.models.moe.utils import _number_count, _random_routing
from bireme.incubate.distributed.models.moe.gate.naive_gate import NaiveGate
from bireme.incubate.distributed.models.moe.utils import limit_by_capacity
from bireme.ops import mean, rand, softmax

__all__ = ["GShardGate"]


class GShardGate(NaiveGate):
    """The two experts with the largest scores. Tokens beyond the capacity of an expert are dropped.

    The second expert is left out if a random number is above twice its score. The loss is the product, for each expert,
    of the part of tokens that it gets and its mean probability.

    Args:
        d_model: Width of the tokens.
        num_expert: Number of experts of each process.
        world_size: Number of processes that experts are divided among.
        topk: 2. Default: 2.
        capacity: Tokens that an expert takes, as a multiple of those of one process, in training and in evaluation.
            Default: ``(1.2, 2.4)``.
        random_routing: Leave the second expert out by chance. Default: True.
        group: Processes that experts are divided among. Default: None, this one alone.

    Examples:
        >>> gate = bireme.incubate.distributed.models.moe.GShardGate(4, 3, 1, random_routing=False)
        >>> [x.shape for x in gate(bireme.ones([5, 4]))], gate.get_loss().shape
        ([[5, 2], [5, 2]], [])
    """

    def __init__(
        self,
        d_model: int,
        num_expert: int,
        world_size: int,
        topk: int = 2,
        capacity: Sequence[float] = (1.2, 2.4),
        random_routing: bool = True,
        group: Group | None = None,
    ) -> None:
        if topk != 2:
            raise errors.bad("GShardGate(topk)", "2", topk)
        super().__init__(d_model, num_expert, world_size)
        self.capacity, self.random_routing, self.group = capacity, random_routing, group

    def forward(self, x: Tensor) -> Any:  # type: ignore[override]  # Paddle's
        """Choose experts.

        Args:
            x: Rows of tokens.

        Returns:
            Scores and indices of the chosen experts, one row for each token; index -1 where one is left out.
        """
        value, index, scores = super().forward(x, return_all_scores=True)
        share = _number_count(index, self.tot_expert).astype("float32") / x.shape[0]
        self.set_loss(mean(share * mean(softmax(scores, 1), 0)) * self.num_expert**2)
        capacity = math.ceil(self.capacity[0 if self.training else 1] * x.shape[0])
        _, _, index = limit_by_capacity(index, self.num_expert, self.world_size, capacity, self.group)
        if self.random_routing:
            index = _random_routing(index, value, rand([x.shape[0]], "float32"))
        return value, index
