"""Losses by a margin or a distance between inputs, as layers."""

from __future__ import annotations

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.loss import Loss, loss_class
from bireme.ops import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_label_margin_loss,
    multi_label_soft_margin_loss,
    multi_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)  # fmt: skip

MarginRankingLoss = loss_class(
    __name__,
    "MarginRankingLoss",
    margin_ranking_loss,
    """Ranking loss of two inputs: ``max(0, -label * (input - other) + margin)``.

    Args:
        margin: By how much one input should exceed the other. Default: 0.0.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - other: the shape of ``input``
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> one = bireme.to_tensor([1.0])
        >>> bireme.nn.MarginRankingLoss(0.5)(one, one * 3, one).item()
        2.5
    """,
    {
        "input": "First scores, of any shape.",
        "other": "Second scores, of the same shape.",
        "label": "1 where ``input`` should be larger, -1 where ``other`` should.",
    },
    margin=0.0,
    reduction="mean",
    name=None,
)

HingeEmbeddingLoss = loss_class(
    __name__,
    "HingeEmbeddingLoss",
    hinge_embedding_loss,
    """Hinge loss of distances: ``input`` where the label is 1, ``max(0, margin - input)`` where it is -1.

    Args:
        margin: Distance that dissimilar pairs should have. Default: 1.0.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> bireme.nn.HingeEmbeddingLoss()(bireme.to_tensor([0.25]), bireme.to_tensor([-1.0])).item()
        0.75
    """,
    {"input": "Distances, of any shape.", "label": "1 for similar pairs, -1 for dissimilar ones, of the same shape."},
    margin=1.0,
    reduction="mean",
    name=None,
)

SoftMarginLoss = loss_class(
    __name__,
    "SoftMarginLoss",
    soft_margin_loss,
    """Logistic loss of two classes: ``log(1 + exp(-label * input))``.

    Args:
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> round(bireme.nn.SoftMarginLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).item(), 4)
        0.6931
    """,
    {"input": "Scores, of any shape.", "label": "1 or -1, of the same shape."},
    reduction="mean",
    name=None,
)

MultiLabelSoftMarginLoss = loss_class(
    __name__,
    "MultiLabelSoftMarginLoss",
    multi_label_soft_margin_loss,
    """Binary cross entropy of the logits of several labels, averaged over the classes.

    Args:
        weight: Tensor that the loss of each class is multiplied by; it broadcasts. Default: None.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, C]``
        - label: ``[N, C]``
        - output: a number, or ``[N]`` with ``'none'``

    Examples:
        >>> layer = bireme.nn.MultiLabelSoftMarginLoss()
        >>> round(layer(bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([[1.0, 0.0]])).item(), 4)
        0.6931
    """,
    {
        "input": "Logits; the classes are the last axis.",
        "label": "1 for the classes that apply, else 0, of the same shape.",
    },
    weight=None,
    reduction="mean",
    name=None,
)

MultiMarginLoss = loss_class(
    __name__,
    "MultiMarginLoss",
    multi_margin_loss,
    """Multi-class hinge loss: ``sum(max(0, margin - input[label] + input[i]) ** p) / C`` over ``i != label``.

    Args:
        p: Exponent. Default: 1.
        margin: By how much the labelled score should exceed the others. Default: 1.0.
        weight: Tensor of shape ``[C]``, a weight for each class. Default: None.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, C]``
        - label: ``[N]``, integers
        - output: a number, or ``[N]`` with ``'none'``

    Examples:
        >>> bireme.nn.MultiMarginLoss()(bireme.to_tensor([[1.0, 0.5]]), bireme.to_tensor([0])).item()
        0.25
    """,
    {"input": "Scores of shape ``[N, C]``.", "label": "Integer classes in ``[0, C)``, of shape ``[N]``."},
    p=1,
    margin=1.0,
    weight=None,
    reduction="mean",
    name=None,
)

MultiLabelMarginLoss = loss_class(
    __name__,
    "MultiLabelMarginLoss",
    multi_label_margin_loss,
    """Hinge loss of several labels: each labelled score should exceed each other one by 1.

    It is ``sum(max(0, 1 - input[j] + input[i])) / C`` over labels ``j`` and all other classes ``i``.

    Args:
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, C]``
        - label: ``[N, C]``
        - output: a number, or ``[N]`` with ``'none'``

    Examples:
        >>> bireme.nn.MultiLabelMarginLoss()(bireme.to_tensor([[1.0, 0.5]]), bireme.to_tensor([[0, -1]])).item()
        0.25
    """,
    {
        "input": "Scores of shape ``[N, C]``.",
        "label": "Integer classes of shape ``[N, C]``: those that apply come first, up to the first negative number.",
    },
    reduction="mean",
    name=None,
)

TripletMarginLoss = loss_class(
    __name__,
    "TripletMarginLoss",
    triplet_margin_loss,
    """Triplet loss: ``max(0, d(input, positive) - d(input, negative) + margin)``, where ``d`` is a p-norm.

    Args:
        margin: Non-negative number by which the negative should be farther away. Default: 1.0.
        p: Order of the norm. Default: 2.0.
        epsilon: Added to each difference before the norm is taken. Default: 1e-6.
        swap: Take the distance of ``positive`` and ``negative`` where it is smaller than that of the anchor to
            ``negative``. Default: False.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, D]``
        - positive: ``[N, D]``
        - negative: ``[N, D]``
        - output: a number, or ``[N]`` with ``'none'``

    Examples:
        >>> x = bireme.to_tensor([[0.0, 0.0]])
        >>> round(bireme.nn.TripletMarginLoss(p=1)(x, x + 3, x).item(), 2)
        7.0
    """,
    {
        "input": "Anchors.",
        "positive": "Samples that should be near, of the same shape.",
        "negative": "Samples that should be far, of the same shape.",
    },
    margin=1.0,
    p=2.0,
    epsilon=1e-6,
    swap=False,
    reduction="mean",
    name=None,
)

TripletMarginWithDistanceLoss = loss_class(
    __name__,
    "TripletMarginWithDistanceLoss",
    triplet_margin_with_distance_loss,
    """Triplet loss with a given distance: ``max(0, d(input, positive) - d(input, negative) + margin)``.

    Args:
        distance_function: Function of two tensors that returns their distances. Default: None, the Euclidean distance.
        margin: Non-negative number by which the negative should be farther away. Default: 1.0.
        swap: Take the distance of ``positive`` and ``negative`` where it is smaller than that of the anchor to
            ``negative``. Default: False.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, D]``
        - positive: ``[N, D]``
        - negative: ``[N, D]``
        - output: a number, or ``[N]`` with ``'none'``

    Examples:
        >>> x = bireme.to_tensor([[0.0, 0.0]])
        >>> layer = bireme.nn.TripletMarginWithDistanceLoss(lambda a, b: (a - b).abs().sum(-1))
        >>> layer(x, x + 3, x).item()
        7.0
    """,
    {
        "input": "Anchors.",
        "positive": "Samples that should be near, of the same shape.",
        "negative": "Samples that should be far, of the same shape.",
    },
    distance_function=None,
    margin=1.0,
    swap=False,
    reduction="mean",
    name=None,
)


class CosineEmbeddingLoss(Loss):
    """Loss of cosine similarity: ``1 - cos`` where the label is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        margin: Similarity that dissimilar pairs may have, in ``[-1, 1]``. Default: 0.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input1: ``[N, D]`` or ``[D]``
        - input2: the shape of ``input1``
        - label: ``[N]``
        - output: a number, or ``[N]`` with ``'none'``

    Examples:
        >>> x = bireme.to_tensor([[1.0, 0.0]])
        >>> bireme.nn.CosineEmbeddingLoss(0.25)(x, x, bireme.to_tensor([-1])).item()
        0.75
    """

    _function = staticmethod(cosine_embedding_loss)
    _defaults = {"margin": 0, "reduction": "mean", "name": None}

    def __init__(self, margin: float = 0, reduction: str = "mean", name: str | None = None):
        if not -1 <= margin <= 1:
            raise errors.bad(
                "CosineEmbeddingLoss(margin)", "a number in [-1, 1]", margin, kind=errors.for_number(margin)
            )
        super().__init__(margin, reduction, name)

    def forward(self, input1: Tensor, input2: Tensor, label: Tensor) -> Tensor:
        """Compute the loss.

        Args:
            input1: First vectors.
            input2: Second vectors, of the same shape.
            label: 1 for similar pairs, -1 for dissimilar ones, of shape ``[N]``.

        Returns:
            Tensor without axes, or with the loss of each sample if ``reduction`` is ``'none'``.
        """
        return super().forward(input1, input2, label)
