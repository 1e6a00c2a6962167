"""Distances of vectors as layers."""

from __future__ import annotations

from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import cosine_similarity, pairwise_distance


class CosineSimilarity(Layer):
    """Cosine of the angle between vectors along an axis.

    >>> bireme.nn.CosineSimilarity()(bireme.to_tensor([[1.0, 0.0]]), bireme.to_tensor([[2.0, 0.0]])).tolist()
    [1.0]
    """

    def __init__(self, axis: int = 1, eps: float = 1e-8):
        super().__init__()
        self._axis, self._eps = axis, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return cosine_similarity(x1, x2, axis=self._axis, eps=self._eps)

    def extra_repr(self) -> str:
        return f"axis={self._axis}, eps={self._eps}"


class PairwiseDistance(Layer):
    """The p-norm of the difference of vectors along the last axis.

    >>> bireme.nn.PairwiseDistance(epsilon=0.0)(bireme.to_tensor([[3.0, 4.0]]), bireme.to_tensor([[0.0, 0.0]])).tolist()
    [5.0]
    """

    def __init__(self, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False, name: str | None = None):
        super().__init__()
        self.p, self.epsilon, self.keepdim, self.name = p, epsilon, keepdim, name

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, self.p, self.epsilon, self.keepdim)

    def extra_repr(self) -> str:
        shown = [f"p={self.p}"]
        shown += [f"epsilon={self.epsilon}"] if self.epsilon != 1e-6 else []
        shown += [f"keepdim={self.keepdim}"] if self.keepdim else []
        return ", ".join(shown + ([f"name={self.name}"] if self.name else []))
