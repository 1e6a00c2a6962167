"""NaiveGate: the experts with the largest scores, however many tokens they get."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.incubate.distributed.models.moe.gate.base_gate import BaseGate
from bireme.nn.common import Linear
from bireme.ops import topk as largest

__all__ = ["NaiveGate"]


class NaiveGate(BaseGate):
    """The experts with the largest scores of a linear layer. No token is dropped.

    Args:
        d_model: Width of the tokens.
        num_expert: Number of experts of each process.
        world_size: Number of processes that experts are divided among.
        topk: Number of experts for each token. Default: 2.

    Examples:
        >>> gate = bireme.incubate.distributed.models.moe.NaiveGate(4, 3, 1)
        >>> [x.shape for x in gate(bireme.ones([5, 4]))]
        [[5, 2], [5, 2]]
    """

    def __init__(self, d_model: int, num_expert: int, world_size: int, topk: int = 2) -> None:
        super().__init__(num_expert, world_size)
        self.gate = Linear(d_model, self.tot_expert)
        for p in self.gate.parameters():
            p.name = f"gate_{p.name}"
        self.top_k = topk

    def forward(self, inp: Tensor, return_all_scores: bool = False) -> Any:
        """Choose experts.

        Args:
            inp: Rows of tokens.
            return_all_scores: Return the scores of all experts too. Default: False.

        Returns:
            Scores and indices of the chosen experts, one row for each token, and the scores of all.
        """
        scores = self.gate(inp)
        value, index = largest(scores, self.top_k, -1, True, False)
        return (value, index, scores) if return_all_scores else (value, index)
