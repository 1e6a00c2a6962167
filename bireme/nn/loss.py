"""Loss functions as layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr
from bireme.nn.layer import Layer
from bireme.ops import (
    adaptive_log_softmax_with_loss,
    argmax,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    concat,
    cosine_embedding_loss,
    cross_entropy,
    ctc_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    hsigmoid_loss,
    kl_div,
    l1_loss,
    linear,
    log_softmax,
    margin_ranking_loss,
    mse_loss,
    multi_label_margin_loss,
    multi_label_soft_margin_loss,
    multi_margin_loss,
    nll_loss,
    poisson_nll_loss,
    rnnt_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
    where,
)  # fmt: skip

_REDUCTIONS = ("mean", "sum", "none")
_RESULT = "Tensor without axes, or with all losses if ``reduction`` is ``'none'``."


class CrossEntropyLoss(Layer):
    """Cross entropy of logits with labels: minus the log-softmax at the labelled class.

    Args:
        weight: Tensor of shape ``[C]``, a weight for each class; the mean is then divided by the sum of the weights
            used. Default: None.
        ignore_index: Label of samples whose loss is 0. A negative index still counts in the mean, unless there is a
            ``weight``. Not with ``soft_label``. Default: -100.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        soft_label: Labels are probabilities of the shape of ``input``. Default: False, integer classes.
        axis: The axis of the classes. Default: -1.
        use_softmax: ``False`` if ``input`` holds probabilities already. Default: True.
        label_smoothing: Weight in ``[0, 1]`` of the uniform distribution that the labels are mixed with. Default: 0.0.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, C]``, or more axes with the classes along ``axis``
        - label: the shape of ``input`` without ``axis``, or with size 1 there; with ``soft_label`` the shape of
          ``input``
        - output: a number; with ``'none'`` the shape of ``label``, or for soft labels that of ``input`` with size 1
          along ``axis``

    Examples:
        >>> loss = bireme.nn.CrossEntropyLoss()(bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([1]))
        >>> round(loss.item(), 4)
        0.6931
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        label_smoothing: float = 0.0,
        name: str | None = None,
    ):
        super().__init__()
        self.weight, self.ignore_index = weight, ignore_index
        self.reduction = _reduction("CrossEntropyLoss", reduction)
        self.soft_label, self.axis, self.use_softmax = soft_label, axis, use_softmax
        self.label_smoothing, self.name = label_smoothing, name

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        """Compute the loss.

        Args:
            input: Logits, or probabilities without ``use_softmax``.
            label: Integer classes in ``[0, C)`` or ``ignore_index``; with ``soft_label`` probabilities, which get no
                gradient.

        Returns:
            Tensor without axes, or with the loss of each sample if ``reduction`` is ``'none'``.
        """
        return cross_entropy(
            input,
            label,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            soft_label=self.soft_label,
            axis=self.axis,
            use_softmax=self.use_softmax,
            label_smoothing=self.label_smoothing,
        )


class Loss(Layer):
    """A layer that applies a loss function, with arguments fixed when the layer was made."""

    _function: Callable[..., Any]
    _defaults: dict[str, Any]
    _prefix = ""  # of the attributes that keep the arguments

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        names = list(self._defaults)
        given = {**self._defaults, **dict(zip(names, args)), **kwargs}
        if len(args) > len(names) or len(given) > len(names):
            got = next((repr(k) for k in kwargs if k not in names), f"{len(args)} arguments")
            raise errors.bad(
                f"{type(self).__name__}()",
                f"arguments {', '.join(names)}",
                described=got,
                kind=errors.ArgumentTypeError,
            )
        if "reduction" in given and type(self)._function is not kl_div:
            _reduction(type(self).__name__, given["reduction"])
        if type(self)._function is poisson_nll_loss and not given["epsilon"] > 0:
            raise errors.bad(
                "PoissonNLLLoss(epsilon)",
                "a positive number",
                given["epsilon"],
                kind=errors.for_number(given["epsilon"]),
            )
        for name, value in given.items():
            setattr(self, self._prefix + name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss.

        Args:
            *args: What the loss function takes, by position.
            **kwargs: The same by name.

        Returns:
            What the loss function returns.
        """
        fixed = {name: getattr(self, self._prefix + name) for name in self._defaults if name != "name"}
        return type(self)._function(*args, **kwargs, **fixed)


_PRIVATE = ("NLLLoss", "PoissonNLLLoss")  # those of which Paddle keeps the arguments in private attributes


def _loss(title: str, function: Callable[..., Any], doc: str, inputs: dict[str, str], /, **defaults: Any) -> type[Loss]:
    """A class for the loss function; ``inputs`` says what each argument of its ``forward`` means."""
    body = {"_function": staticmethod(function), "_defaults": defaults, "__doc__": doc, "__module__": __name__}
    body["_prefix"] = "_" if title in _PRIVATE else ""
    cls = type(title, (Loss,), body)
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    types = function.__annotations__
    arguments = [inspect.Parameter(k, keyword, default=v, annotation=types.get(k, "Any")) for k, v in defaults.items()]
    cls.__signature__ = inspect.Signature(arguments)

    def forward(self: Loss, *args: Any, **kwargs: Any) -> Any:
        return Loss.forward(self, *args, **kwargs)

    given = [inspect.Parameter(k, keyword, annotation="Tensor") for k in inputs]
    forward.__signature__ = inspect.Signature([inspect.Parameter("self", keyword), *given], return_annotation="Tensor")
    meanings = "\n".join(f"    {name}: {meaning}" for name, meaning in inputs.items())
    forward.__doc__ = f"Compute the loss.\n\nArgs:\n{meanings}\n\nReturns:\n    {_RESULT}\n"
    forward.__qualname__ = f"{title}.forward"
    cls.forward = forward
    return cls


MSELoss = _loss(
    "MSELoss",
    mse_loss,
    """Mean squared error: the mean of ``(input - label) ** 2``.

    Args:
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.

    Shape:
        - input: any shape
        - label: a shape that broadcasts with that of ``input``
        - output: a number, or the common shape with ``'none'``

    Examples:
        >>> bireme.nn.MSELoss()(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1.0, 4.0])).item()
        2.0
    """,
    {"input": "Predictions, of any shape.", "label": "Targets, of a shape that broadcasts with that of ``input``."},
    reduction="mean",
)

L1Loss = _loss(
    "L1Loss",
    l1_loss,
    """Mean absolute error: the mean of ``abs(input - label)``.

    Args:
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: a shape that broadcasts with that of ``input``
        - output: a number, or the common shape with ``'none'``

    Examples:
        >>> bireme.nn.L1Loss()(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1.0, 4.0])).item()
        1.0
    """,
    {"input": "Predictions, of any shape.", "label": "Targets, of a shape that broadcasts with that of ``input``."},
    reduction="mean",
    name=None,
)

SmoothL1Loss = _loss(
    "SmoothL1Loss",
    smooth_l1_loss,
    """Huber loss: quadratic for differences up to ``delta``, linear beyond.

    With ``d = abs(input - label)`` it is ``0.5 * d ** 2`` where ``d <= delta``, else ``delta * (d - 0.5 * delta)``.

    Args:
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        delta: Where the loss becomes linear. Default: 1.0.
        is_huber: ``False`` divides the loss by ``delta``, which gives the smooth L1 loss. Default: True.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> bireme.nn.SmoothL1Loss(delta=2.0)(bireme.to_tensor([4.0]), bireme.to_tensor([0.0])).item()
        6.0
    """,
    {"input": "Predictions, of any shape.", "label": "Targets of the same shape."},
    reduction="mean",
    delta=1.0,
    is_huber=True,
    name=None,
)

BCELoss = _loss(
    "BCELoss",
    binary_cross_entropy,
    """Binary cross entropy of probabilities: ``-label * log(input) - (1 - label) * log(1 - input)``.

    Logarithms are limited to at least -100. For logits use ``BCEWithLogitsLoss``, which is more accurate.

    Args:
        weight: Tensor that the loss of each element is multiplied by; it broadcasts. Default: None.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> round(bireme.nn.BCELoss()(bireme.to_tensor([0.5]), bireme.to_tensor([1.0])).item(), 4)
        0.6931
    """,
    {
        "input": "Probabilities in ``[0, 1]``, of any shape.",
        "label": "Targets in ``[0, 1]``, of the same shape; they get no gradient.",
    },
    weight=None,
    reduction="mean",
    name=None,
)

BCEWithLogitsLoss = _loss(
    "BCEWithLogitsLoss",
    binary_cross_entropy_with_logits,
    """Binary cross entropy of logits: ``BCELoss`` of their sigmoid, computed without overflow.

    Args:
        weight: Tensor that the loss of each element is multiplied by; it broadcasts. Default: None.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        pos_weight: Tensor that the terms of positive labels are multiplied by; it broadcasts. Default: None.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - logit: any shape
        - label: the shape of ``logit``
        - output: a number, or the shape of ``logit`` with ``'none'``

    Examples:
        >>> round(bireme.nn.BCEWithLogitsLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).item(), 4)
        0.6931
    """,
    {"logit": "Logits, of any shape.", "label": "Targets in ``[0, 1]``, of the same shape; they get no gradient."},
    weight=None,
    reduction="mean",
    pos_weight=None,
    name=None,
)

NLLLoss = _loss(
    "NLLLoss",
    nll_loss,
    """Negative log-likelihood: minus the log-probability of the labelled class.

    ``CrossEntropyLoss`` is this of the log-softmax of logits.

    Args:
        weight: Tensor of shape ``[C]``, a weight for each class; the mean is divided by the sum of the weights used.
            Default: None.
        ignore_index: Label of samples that count for nothing, also not in the mean. Default: -100.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, C]`` or ``[N, C, d1, d2, ...]``
        - label: ``[N]`` or ``[N, d1, d2, ...]``, integers
        - output: a number, or the shape of ``label`` with ``'none'``

    Examples:
        >>> bireme.nn.NLLLoss()(bireme.to_tensor([[-1.0, -2.0]]), bireme.to_tensor([1])).item()
        2.0
    """,
    {
        "input": "Log-probabilities, as ``LogSoftmax(axis=1)`` gives them.",
        "label": "Integer classes in ``[0, C)``, or ``ignore_index``.",
    },
    weight=None,
    ignore_index=-100,
    reduction="mean",
    name=None,
)

KLDivLoss = _loss(
    "KLDivLoss",
    kl_div,
    """Kullback-Leibler divergence: ``label * (log(label) - input)``, 0 where the label is 0.

    Args:
        reduction: ``'mean'`` over all elements, ``'batchmean'`` for the sum divided by the batch size, which is the
            divergence itself, ``'sum'``, or ``'none'``. Default: ``'mean'``.
        log_target: Labels are log-probabilities. Default: False.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> round(bireme.nn.KLDivLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([0.5])).item(), 4)
        -0.3466
    """,
    {
        "input": "Log-probabilities, of any shape.",
        "label": "Probabilities of the same shape, or their logarithms; they get no gradient.",
    },
    reduction="mean",
    log_target=False,
)

MarginRankingLoss = _loss(
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

HingeEmbeddingLoss = _loss(
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

SoftMarginLoss = _loss(
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

MultiLabelSoftMarginLoss = _loss(
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

MultiMarginLoss = _loss(
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

MultiLabelMarginLoss = _loss(
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

TripletMarginLoss = _loss(
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

TripletMarginWithDistanceLoss = _loss(
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

GaussianNLLLoss = _loss(
    "GaussianNLLLoss",
    gaussian_nll_loss,
    """Negative log-likelihood under normal distributions: ``0.5 * (log(var) + (input - label) ** 2 / var)``.

    Args:
        full: Add the constant ``0.5 * log(2 * pi)``. Default: False.
        epsilon: Least value of the variance. Default: 1e-6.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - variance: the shape of ``input``, or without its last axis, or with size 1 there
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> one = bireme.to_tensor([1.0])
        >>> bireme.nn.GaussianNLLLoss()(one, one * 3, one).item()
        2.0
    """,
    {"input": "Means of the distributions.", "label": "Observed values.", "variance": "Variances, non-negative."},
    full=False,
    epsilon=1e-6,
    reduction="mean",
    name=None,
)

PoissonNLLLoss = _loss(
    "PoissonNLLLoss",
    poisson_nll_loss,
    """Negative log-likelihood of counts under Poisson distributions.

    It is ``exp(input) - label * input``, or without ``log_input`` ``input - label * log(input + epsilon)``.

    Args:
        log_input: ``input`` is the logarithm of the rate. Default: True.
        full: Add Stirling's approximation of ``log(label!)`` where the label is greater than 1. Default: False.
        epsilon: Number above 0 that is added to the rate inside of the logarithm. Default: 1e-8.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: any shape
        - label: the shape of ``input``
        - output: a number, or the shape of ``input`` with ``'none'``

    Examples:
        >>> bireme.nn.PoissonNLLLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([2.0])).item()
        1.0
    """,
    {"input": "Rates of the distributions, or their logarithms.", "label": "Observed counts, of the same shape."},
    log_input=True,
    full=False,
    epsilon=1e-8,
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


class CTCLoss(Layer):
    """Connectionist temporal classification: minus the log-probability of all alignments of labels and time steps.

    The mean divides each loss by the length of its label first. A label that has no alignment costs nothing.

    Args:
        blank: Class of the blank. Default: 0.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.

    Shape:
        - log_probs: ``[T, N, C]``
        - labels: ``[N, U]``, integers
        - input_lengths: ``[N]``
        - label_lengths: ``[N]``
        - output: a number, or ``[N]`` with ``'none'``

    Examples:
        >>> logits, one = bireme.zeros([1, 1, 2]), bireme.to_tensor([1])
        >>> round(bireme.nn.CTCLoss()(logits, bireme.to_tensor([[1]]), one, one).item(), 4)
        0.6931
    """

    def __init__(self, blank: int = 0, reduction: str = "mean"):
        super().__init__()
        self.blank, self.reduction = blank, _reduction("CTCLoss", reduction)

    def forward(
        self,
        log_probs: Tensor,
        labels: Tensor,
        input_lengths: Tensor,
        label_lengths: Tensor,
        norm_by_times: bool = False,
    ) -> Tensor:
        """Compute the loss.

        Args:
            log_probs: Logits of shape ``[T, N, C]``; a softmax is applied to them, whatever the name says.
            labels: Integer classes of shape ``[N, U]``, padded.
            input_lengths: Number of time steps of each sample, integers of shape ``[N]``.
            label_lengths: Number of labels of each sample, integers of shape ``[N]``.
            norm_by_times: Divide the gradient, not the loss, by the number of time steps. Default: False.

        Returns:
            Tensor without axes, or with the loss of each sample if ``reduction`` is ``'none'``.
        """
        return ctc_loss(log_probs, labels, input_lengths, label_lengths, self.blank, self.reduction, norm_by_times)


RNNTLoss = _loss(
    "RNNTLoss",
    rnnt_loss,
    """Transducer loss: minus the log-probability of all alignments of the labels with the time steps.

    Args:
        blank: Class of the blank. Default: 0.
        fastemit_lambda: Fraction by which the gradient of emitting a label is enlarged, so that labels come early; the
            value of the loss does not change. Default: 0.001.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, T, U + 1, C]`` for labels of at most ``U`` tokens
        - label: ``[N, U]``, integers
        - input_lengths: ``[N]``
        - label_lengths: ``[N]``
        - output: a number, or ``[N]`` with ``'none'``

    Examples:
        >>> logs, one = bireme.full([1, 1, 2, 2], -1.0), bireme.to_tensor([1])
        >>> bireme.nn.RNNTLoss()(logs, bireme.to_tensor([[1]]), one, one).item()
        2.0
    """,
    {
        "input": "Log-probabilities ``[N, T, U + 1, C]``, not normalized here: apply ``log_softmax`` first.",
        "label": "Integer classes of shape ``[N, U]``, padded.",
        "input_lengths": "Number of time steps of each sample, integers of shape ``[N]``.",
        "label_lengths": "Number of labels of each sample, integers of shape ``[N]``.",
    },
    blank=0,
    fastemit_lambda=0.001,
    reduction="mean",
    name=None,
)


class HSigmoidLoss(Layer):
    """Hierarchical sigmoid: sum of the binary cross entropies on the way to the labelled class in a binary tree.

    Each inner node has a row of the weight and an element of the bias; a sample visits ``log2(num_classes)`` nodes.

    Args:
        feature_size: Size of the last axis of the input.
        num_classes: Number of classes, at least 2; with ``is_custom`` the number of inner nodes.
        weight_attr: Attribute of the weight ``[nodes, feature_size]``: a ``ParamAttr``, an initializer or a name.
            Default: None, Xavier uniform.
        bias_attr: Attribute of the bias ``[nodes, 1]``; ``False`` leaves it out. Default: None, zeros.
        is_custom: The tree is given by ``path_table`` and ``path_code`` in each call. Default: False, a complete tree.
        is_sparse: Accepted for compatibility; gradients are dense. Default: False.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, feature_size]``
        - label: ``[N]`` or ``[N, 1]``, integers
        - output: ``[N, 1]``

    Examples:
        >>> layer = bireme.nn.HSigmoidLoss(2, 4, weight_attr=bireme.nn.initializer.Constant(0.0))
        >>> round(layer(bireme.ones([1, 2]), bireme.to_tensor([[3]])).item(), 4)
        1.3863
    """

    def __init__(
        self,
        feature_size: int,
        num_classes: int,
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        is_custom: bool = False,
        is_sparse: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        if num_classes < 2 and not is_custom:
            raise errors.bad(
                "HSigmoidLoss(num_classes)",
                "an integer greater than 1",
                num_classes,
                kind=errors.for_integer(num_classes),
            )
        self._feature_size = feature_size
        self._num_classes = num_classes
        self._is_custom = is_custom
        self._is_sparse = is_sparse
        self._name = name
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        nodes = num_classes if is_custom else num_classes - 1
        self.weight = self.create_parameter([nodes, feature_size], weight_attr)
        self.bias = self.create_parameter([nodes, 1], bias_attr, is_bias=True)

    def forward(
        self, input: Tensor, label: Tensor, path_table: Tensor | None = None, path_code: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of each sample.

        Args:
            input: Features of shape ``[N, feature_size]``.
            label: Integer classes of shape ``[N]`` or ``[N, 1]``.
            path_table: Inner nodes on the way to each label, ``[N, longest path]``, -1 where it has ended. Default:
                None, the complete tree.
            path_code: Turn at each of these nodes, 0 or 1, of the same shape. Default: None.

        Returns:
            Tensor of shape ``[N, 1]``.
        """
        return hsigmoid_loss(
            input, label, self._num_classes, self.weight, self.bias, path_table, path_code, self._is_sparse
        )


class AdaptiveLogSoftmaxWithLoss(Layer):
    """Adaptive softmax for many classes that are sorted by falling frequency, and its negative log-likelihood.

    Frequent classes are predicted by the head; rare ones lie in clusters, which the head predicts as one class each and
    whose own projections get smaller from cluster to cluster.

    Args:
        in_features: Size of the last axis of the input.
        n_classes: Number of classes.
        cutoffs: Increasing classes in ``[1, n_classes - 1]`` at which the clusters begin.
        weight_attr: Attribute of all weights: a ``ParamAttr``, an initializer or a name. Default: None, Xavier uniform.
        bias_attr: Attribute of the bias of the head. Default: None, zeros.
        div_value: Cluster ``i`` projects to ``in_features // div_value ** (i + 1)`` features. Default: 4.0.
        head_bias: Give the head a bias. Default: False.
        name: Kept as an attribute; it has no effect. Default: None.

    Shape:
        - input: ``[N, in_features]`` or ``[in_features]``
        - label: ``[N]``, or without axes
        - output: ``[N]``, or without axes
        - loss: a number

    Examples:
        >>> layer = bireme.nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2], weight_attr=bireme.nn.initializer.Constant(0.0))
        >>> output, loss = layer(bireme.ones([1, 4]), bireme.to_tensor([1]))
        >>> round(loss.item(), 4)
        1.0986
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        weight_attr: Attr = None,
        bias_attr: Attr = None,
        div_value: float = 4.0,
        head_bias: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        cuts = list(cutoffs)
        if (
            not cuts
            or cuts != sorted(set(cuts))
            or cuts[0] < 1
            or cuts[-1] > n_classes - 1
            or any(int(c) != c for c in cuts)
        ):
            hint = "cutoffs should be a sequence of unique, increasing integers: the first class of each cluster"
            raise errors.bad(
                "AdaptiveLogSoftmaxWithLoss(cutoffs)", f"increasing integers in [1, {n_classes - 1}]", cuts, hint=hint
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cuts, n_classes]
        self.div_value = div_value
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self.shortlist_size, self.n_clusters = cuts[0], len(cuts)
        self.head_size, self.is_head_bias, self.name = self.shortlist_size + self.n_clusters, head_bias, name
        self.head_weight = self.create_parameter([in_features, self.head_size], weight_attr)
        self.head_bias = self.create_parameter([self.head_size], bias_attr, is_bias=True) if head_bias else None
        self.tail_weights: list[list[Tensor]] = []
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            pair = [[in_features, width], [width, self.cutoffs[i + 1] - self.cutoffs[i]]]
            self.tail_weights.append(
                [
                    self.add_parameter(f"tail_weight_{i}_{k}", self.create_parameter(s, weight_attr))
                    for k, s in enumerate(pair)
                ]
            )

    def forward(self, input: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the log-probabilities of labels and the loss.

        Args:
            input: Features of shape ``[N, in_features]`` or ``[in_features]``.
            label: Integer classes of shape ``[N]``, or without axes.

        Returns:
            A tuple of the log-probability of each label and the mean of all, negative.
        """
        return adaptive_log_softmax_with_loss(
            input, label, self.head_weight, self._tails(), self.cutoffs, self.head_bias
        )

    def _tails(self) -> list[list[Tensor]]:
        """The pairs as they are registered: loading or a copy may have replaced them."""
        return [[getattr(self, f"tail_weight_{i}_{k}") for k in (0, 1)] for i in range(self.n_clusters)]

    def _head(self, input: Tensor) -> Tensor:
        return linear(input, self.head_weight, self.head_bias)

    def log_prob(self, input: Tensor) -> Tensor:
        """Compute the log-probabilities of all classes.

        Args:
            input: Features of shape ``[N, in_features]``.

        Returns:
            Tensor of shape ``[N, n_classes]``.
        """
        head = log_softmax(self._head(input), axis=1)
        parts = [head[:, : self.shortlist_size]]
        for i, (first, second) in enumerate(self._tails()):
            parts.append(
                log_softmax(linear(linear(input, first), second), axis=1)
                + head[:, self.shortlist_size + i].unsqueeze(1)
            )
        return concat(parts, axis=1)

    def predict(self, input: Tensor) -> Tensor:
        """Predict the most probable class of each sample.

        Args:
            input: Features of shape ``[N, in_features]``.

        Returns:
            Integer tensor of shape ``[N]``.
        """
        first = argmax(self._head(input), axis=1)
        return where(first < self.shortlist_size, first, argmax(self.log_prob(input), axis=1))


def _reduction(where: str, reduction: str) -> str:
    if reduction not in _REDUCTIONS:
        raise errors.bad(f"{where}(reduction)", "'mean', 'sum' or 'none'", reduction, kind=errors.ArgumentError)
    return reduction
