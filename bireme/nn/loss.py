"""Loss functions as layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
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


class CrossEntropyLoss(Layer):
    """Cross entropy between scores and labels; the classes lie along the last axis unless `axis` says otherwise.

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
    """A layer that applies a loss function to what it is given, with arguments fixed when the layer was made."""

    _function: Callable[..., Any]
    _defaults: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        names = list(self._defaults)
        given = {**self._defaults, **dict(zip(names, args)), **kwargs}
        if len(args) > len(names) or len(given) > len(names):
            got = next((k for k in kwargs if k not in names), f"{len(args)} arguments")
            raise errors.bad(f"{type(self).__name__}()", f"arguments {', '.join(names)}", got, kind=TypeError)
        if "reduction" in given and type(self)._function is not kl_div:
            _reduction(type(self).__name__, given["reduction"])
        if type(self)._function is poisson_nll_loss and not given["epsilon"] > 0:
            raise errors.bad("PoissonNLLLoss(epsilon)", "a number above 0", given["epsilon"])
        for name, value in given.items():
            setattr(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        fixed = {name: getattr(self, name) for name in self._defaults if name != "name"}
        return type(self)._function(*args, **kwargs, **fixed)


def _loss(title: str, function: Callable[..., Any], doc: str, inputs: str = "input label", /, **defaults: Any) -> type[Loss]:
    cls = type(title, (Loss,), {"_function": staticmethod(function), "_defaults": defaults, "__doc__": doc, "__module__": __name__})
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    cls.__signature__ = inspect.Signature([inspect.Parameter(k, keyword, default=v) for k, v in defaults.items()])

    def forward(self: Loss, *args: Any, **kwargs: Any) -> Any:
        return Loss.forward(self, *args, **kwargs)

    forward.__signature__ = inspect.Signature([inspect.Parameter(k, keyword) for k in ("self " + inputs).split()])
    cls.forward = forward
    return cls


MSELoss = _loss("MSELoss", mse_loss, """Mean of squared differences.

    >>> bireme.nn.MSELoss()(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1.0, 4.0])).item()
    2.0
    """, reduction="mean")  # fmt: skip

L1Loss = _loss("L1Loss", l1_loss, """Mean of absolute differences.

    >>> bireme.nn.L1Loss()(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1.0, 4.0])).item()
    1.0
    """, reduction="mean", name=None)  # fmt: skip

SmoothL1Loss = _loss("SmoothL1Loss", smooth_l1_loss, """Squared differences up to `delta` and absolute ones beyond.

    >>> bireme.nn.SmoothL1Loss(delta=2.0)(bireme.to_tensor([4.0]), bireme.to_tensor([0.0])).item()
    6.0
    """, reduction="mean", delta=1.0, is_huber=True, name=None)  # fmt: skip

BCELoss = _loss("BCELoss", binary_cross_entropy, """Binary cross entropy of probabilities.

    >>> round(bireme.nn.BCELoss()(bireme.to_tensor([0.5]), bireme.to_tensor([1.0])).item(), 4)
    0.6931
    """, weight=None, reduction="mean", name=None)  # fmt: skip

BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", binary_cross_entropy_with_logits, """Binary cross entropy of logits.

    >>> round(bireme.nn.BCEWithLogitsLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).item(), 4)
    0.6931
    """, "logit label", weight=None, reduction="mean", pos_weight=None, name=None)  # fmt: skip

NLLLoss = _loss("NLLLoss", nll_loss, """The labelled log-probability, negative.

    >>> bireme.nn.NLLLoss()(bireme.to_tensor([[-1.0, -2.0]]), bireme.to_tensor([1])).item()
    2.0
    """, weight=None, ignore_index=-100, reduction="mean", name=None)  # fmt: skip

KLDivLoss = _loss("KLDivLoss", kl_div, """Divergence of log-probabilities from probabilities.

    >>> bireme.nn.KLDivLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).item()
    0.0
    """, reduction="mean", log_target=False)  # fmt: skip

MarginRankingLoss = _loss("MarginRankingLoss", margin_ranking_loss, """What one input lacks to be ranked before the other by a margin.

    >>> one = bireme.to_tensor([1.0])
    >>> bireme.nn.MarginRankingLoss(0.5)(one, one * 3, one).item()
    2.5
    """, "input other label", margin=0.0, reduction="mean", name=None)  # fmt: skip

HingeEmbeddingLoss = _loss("HingeEmbeddingLoss", hinge_embedding_loss, """The input where the label is 1, what it lacks to the margin where it is -1.

    >>> bireme.nn.HingeEmbeddingLoss()(bireme.to_tensor([0.25]), bireme.to_tensor([-1.0])).item()
    0.75
    """, margin=1.0, reduction="mean", name=None)  # fmt: skip

SoftMarginLoss = _loss("SoftMarginLoss", soft_margin_loss, """log(1 + exp(-label * input)) for labels of 1 and -1.

    >>> round(bireme.nn.SoftMarginLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).item(), 4)
    0.6931
    """, reduction="mean", name=None)  # fmt: skip

MultiLabelSoftMarginLoss = _loss("MultiLabelSoftMarginLoss", multi_label_soft_margin_loss, """Binary cross entropy of the logits of several labels.

    >>> round(bireme.nn.MultiLabelSoftMarginLoss()(bireme.to_tensor([[0.0]]), bireme.to_tensor([[1.0]])).item(), 4)
    0.6931
    """, weight=None, reduction="mean", name=None)  # fmt: skip

MultiMarginLoss = _loss("MultiMarginLoss", multi_margin_loss, """What the labelled score lacks to exceed the others by a margin.

    >>> bireme.nn.MultiMarginLoss()(bireme.to_tensor([[1.0, 0.5]]), bireme.to_tensor([0])).item()
    0.25
    """, p=1, margin=1.0, weight=None, reduction="mean", name=None)  # fmt: skip

MultiLabelMarginLoss = _loss("MultiLabelMarginLoss", multi_label_margin_loss, """What the scores of several labels lack to exceed all others by 1.

    >>> bireme.nn.MultiLabelMarginLoss()(bireme.to_tensor([[1.0, 0.5]]), bireme.to_tensor([[0, -1]])).item()
    0.25
    """, reduction="mean", name=None)  # fmt: skip

TripletMarginLoss = _loss("TripletMarginLoss", triplet_margin_loss, """What the distance to the negative lacks to exceed that to the positive.

    >>> x = bireme.to_tensor([[0.0, 0.0]])
    >>> round(bireme.nn.TripletMarginLoss(p=1)(x, x + 3, x).item(), 2)
    7.0
    """, "input positive negative", margin=1.0, p=2.0, epsilon=1e-6, swap=False, reduction="mean", name=None)  # fmt: skip

TripletMarginWithDistanceLoss = _loss("TripletMarginWithDistanceLoss", triplet_margin_with_distance_loss,
    """The triplet margin loss with a distance of one's own.

    >>> x = bireme.to_tensor([[0.0, 0.0]])
    >>> bireme.nn.TripletMarginWithDistanceLoss(lambda a, b: (a - b).abs().sum(-1))(x, x + 3, x).item()
    7.0
    """, "input positive negative", distance_function=None, margin=1.0, swap=False, reduction="mean", name=None)  # fmt: skip

GaussianNLLLoss = _loss("GaussianNLLLoss", gaussian_nll_loss, """Negative log-likelihood under normal distributions.

    >>> one = bireme.to_tensor([1.0])
    >>> bireme.nn.GaussianNLLLoss()(one, one * 3, one).item()
    2.0
    """, "input label variance", full=False, epsilon=1e-6, reduction="mean", name=None)  # fmt: skip

PoissonNLLLoss = _loss("PoissonNLLLoss", poisson_nll_loss, """Negative log-likelihood of counts under Poisson distributions.

    >>> bireme.nn.PoissonNLLLoss()(bireme.to_tensor([0.0]), bireme.to_tensor([2.0])).item()
    1.0
    """, log_input=True, full=False, epsilon=1e-8, reduction="mean", name=None)  # fmt: skip


class CosineEmbeddingLoss(Loss):
    """1 minus the cosine where the label is 1, what the cosine exceeds the margin by where it is -1.

    >>> x = bireme.to_tensor([[1.0, 0.0]])
    >>> bireme.nn.CosineEmbeddingLoss(0.25)(x, x, bireme.to_tensor([-1])).item()
    0.75
    """

    _function = staticmethod(cosine_embedding_loss)
    _defaults = {"margin": 0, "reduction": "mean", "name": None}

    def __init__(self, margin: float = 0, reduction: str = "mean", name: str | None = None):
        if not -1 <= margin <= 1:
            raise errors.bad("CosineEmbeddingLoss(margin)", "a number in [-1, 1]", margin)
        super().__init__(margin, reduction, name)

    def forward(self, input1: Tensor, input2: Tensor, label: Tensor) -> Tensor:
        return super().forward(input1, input2, label)


class CTCLoss(Layer):
    """Connectionist temporal classification of scores [steps, batch, classes].

    >>> logits, one = bireme.zeros([1, 1, 2]), bireme.to_tensor([1])
    >>> round(bireme.nn.CTCLoss()(logits, bireme.to_tensor([[1]]), one, one).item(), 4)
    0.6931
    """

    def __init__(self, blank: int = 0, reduction: str = "mean"):
        super().__init__()
        self.blank, self.reduction = blank, _reduction("CTCLoss", reduction)

    def forward(self, log_probs: Tensor, labels: Tensor, input_lengths: Tensor, label_lengths: Tensor, norm_by_times: bool = False) -> Tensor:
        return ctc_loss(log_probs, labels, input_lengths, label_lengths, self.blank, self.reduction, norm_by_times)


RNNTLoss = _loss("RNNTLoss", rnnt_loss, """Transducer loss of logarithms of probabilities [batch, steps, labels + 1, classes].

    >>> logs, one = bireme.full([1, 1, 2, 2], -1.0), bireme.to_tensor([1])
    >>> bireme.nn.RNNTLoss()(logs, bireme.to_tensor([[1]]), one, one).item()
    2.0
    """, "input label input_lengths label_lengths", blank=0, fastemit_lambda=0.001, reduction="mean", name=None)  # fmt: skip


class HSigmoidLoss(Layer):
    """Hierarchical sigmoid over a tree of classes, with a weight and a bias for each inner node; the loss has shape [N, 1].

    >>> layer = bireme.nn.HSigmoidLoss(2, 4, weight_attr=bireme.nn.initializer.Constant(0.0))
    >>> round(layer(bireme.ones([1, 2]), bireme.to_tensor([[3]])).item(), 4)
    1.3863
    """

    def __init__(self, feature_size: int, num_classes: int, weight_attr: Any = None, bias_attr: Any = None, is_custom: bool = False,
                 is_sparse: bool = False, name: str | None = None):  # fmt: skip
        super().__init__()
        if num_classes < 2 and not is_custom:
            raise errors.bad("HSigmoidLoss(num_classes)", "2 or more", num_classes)
        self._feature_size, self._num_classes, self._is_custom, self._is_sparse, self._name = feature_size, num_classes, is_custom, is_sparse, name
        nodes = num_classes if is_custom else num_classes - 1
        self.weight = self.create_parameter([nodes, feature_size], weight_attr)
        self.bias = self.create_parameter([nodes, 1], bias_attr, is_bias=True)

    def forward(self, input: Tensor, label: Tensor, path_table: Tensor | None = None, path_code: Tensor | None = None) -> Tensor:
        return hsigmoid_loss(input, label, self._num_classes, self.weight, self.bias, path_table, path_code, self._is_sparse)


class AdaptiveLogSoftmaxWithLoss(Layer):
    """Log-probabilities of many classes: frequent ones at the head, rare ones in clusters behind smaller maps; and their loss.

    >>> layer = bireme.nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2], weight_attr=bireme.nn.initializer.Constant(0.0))
    >>> output, loss = layer(bireme.ones([1, 4]), bireme.to_tensor([1]))
    >>> round(loss.item(), 4)
    1.0986
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Any, weight_attr: Any = None, bias_attr: Any = None, div_value: float = 4.0,
                 head_bias: bool = False, name: str | None = None):  # fmt: skip
        super().__init__()
        cuts = list(cutoffs)
        if not cuts or cuts != sorted(set(cuts)) or cuts[0] < 1 or cuts[-1] > n_classes - 1 or any(int(c) != c for c in cuts):
            hint = "cutoffs should be a sequence of unique, growing numbers: where clusters begin"
            raise errors.bad("AdaptiveLogSoftmaxWithLoss(cutoffs)", f"increasing integers in [1, {n_classes - 1}]", cuts, hint)
        self.in_features, self.n_classes, self.cutoffs, self.div_value = in_features, n_classes, [*cuts, n_classes], div_value
        self.shortlist_size, self.n_clusters = cuts[0], len(cuts)
        self.head_size, self.is_head_bias, self.name = self.shortlist_size + self.n_clusters, head_bias, name
        self.head_weight = self.create_parameter([in_features, self.head_size], weight_attr)
        self.head_bias = self.create_parameter([self.head_size], bias_attr, is_bias=True) if head_bias else None
        self.tail_weights: list[list[Tensor]] = []
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            pair = [[in_features, width], [width, self.cutoffs[i + 1] - self.cutoffs[i]]]
            self.tail_weights.append([self.add_parameter(f"tail_weight_{i}_{k}", self.create_parameter(s, weight_attr)) for k, s in enumerate(pair)])

    def forward(self, input: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        return adaptive_log_softmax_with_loss(input, label, self.head_weight, self._tails(), self.cutoffs, self.head_bias)

    def _tails(self) -> list[list[Tensor]]:
        """The pairs as they are registered: loading or a copy may have replaced them."""
        return [[getattr(self, f"tail_weight_{i}_{k}") for k in (0, 1)] for i in range(self.n_clusters)]

    def _head(self, input: Tensor) -> Tensor:
        return linear(input, self.head_weight, self.head_bias)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes, [N, n_classes]."""
        head = log_softmax(self._head(input), axis=1)
        parts = [head[:, : self.shortlist_size]]
        for i, (first, second) in enumerate(self._tails()):
            parts.append(log_softmax(linear(linear(input, first), second), axis=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return concat(parts, axis=1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row, where the head names a cluster by all classes."""
        first = argmax(self._head(input), axis=1)
        return where(first < self.shortlist_size, first, argmax(self.log_prob(input), axis=1))


def _reduction(where: str, reduction: str) -> str:
    if reduction not in _REDUCTIONS:
        raise errors.bad(f"{where}(reduction)", "mean, sum or none", reduction, kind=errors.Unfit)
    return reduction
