"""Distances of vectors as layers."""

from __future__ import annotations

from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import cosine_similarity, pairwise_distance


class CosineSimilarity(Layer):
    """Cosine of the angle between vectors along an axis: ``sum(x1 * x2) / max(|x1| * |x2|, eps)``.

    Args:
        axis: The axis of the vectors. Default: 1.
        eps: Least value of the denominator, so that it is never 0. Default: 1e-8.

    Shape:
        - x1: any shape
        - x2: a shape that broadcasts with that of ``x1``
        - output: the common shape without ``axis``

    Examples:
        >>> bireme.nn.CosineSimilarity()(bireme.to_tensor([[1.0, 0.0]]), bireme.to_tensor([[2.0, 0.0]])).tolist()
        [1.0]
    """

    def __init__(self, axis: int = 1, eps: float = 1e-8):
        super().__init__()
        self._axis, self._eps = axis, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Compute the cosine similarity.

        Args:
            x1: First tensor.
            x2: Second tensor, of a shape that broadcasts with that of ``x1``.

        Returns:
            Tensor of the common shape without the axis of the vectors.
        """
        return cosine_similarity(x1, x2, axis=self._axis, eps=self._eps)

    def extra_repr(self) -> str:
        return f"axis={self._axis}, eps={self._eps}"


class PairwiseDistance(Layer):
    """Distance of vectors along the last axis: the p-norm of ``x - y + epsilon``.

    Args:
        p: Order of the norm. Default: 2.0.
        epsilon: Added to each difference, so that the gradient is finite where both are equal. Default: 1e-6.
        keepdim: Keep the last axis, with size 1. Default: False.
        name: Shown in the layer's ``repr``; it has no other effect. Default: None.

    Shape:
        - x: ``[N, D]`` or ``[D]``
        - y: ``[N, D]`` or ``[D]``
        - output: ``[N]``, or ``[N, 1]`` with ``keepdim``; without ``N`` for vectors

    Examples:
        >>> layer = bireme.nn.PairwiseDistance(epsilon=0.0)
        >>> layer(bireme.to_tensor([[3.0, 4.0]]), bireme.to_tensor([[0.0, 0.0]])).tolist()
        [5.0]
    """

    def __init__(self, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False, name: str | None = None):
        super().__init__()
        self.p, self.epsilon, self.keepdim, self.name = p, epsilon, keepdim, name

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute the distances.

        Args:
            x: First tensor.
            y: Second tensor, of a shape that broadcasts with that of ``x``.

        Returns:
            Tensor of the common shape without its last axis, or with size 1 there if ``keepdim``.
        """
        return pairwise_distance(x, y, self.p, self.epsilon, self.keepdim)

    def extra_repr(self) -> str:
        shown = [f"p={self.p}"]
        shown += [f"epsilon={self.epsilon}"] if self.epsilon != 1e-6 else []
        shown += [f"keepdim={self.keepdim}"] if self.keepdim else []
        return ", ".join(shown + ([f"name={self.name}"] if self.name else []))
