"""Losses of classes and of sequences of them, as layers: with a few of them, with a tree or groups of many, and aligned."""

from __future__ import annotations

from collections.abc import Sequence

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr
from bireme.nn.layer import Layer
from bireme.nn.loss import checked_reduction, loss_class
from bireme.ops import (
    adaptive_log_softmax_with_loss,
    argmax,
    concat,
    cross_entropy,
    ctc_loss,
    hsigmoid_loss,
    linear,
    log_softmax,
    nll_loss,
    rnnt_loss,
    where,
)  # fmt: skip


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
        self.reduction = checked_reduction("CrossEntropyLoss", reduction)
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


NLLLoss = loss_class(
    __name__,
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
        self.blank, self.reduction = blank, checked_reduction("CTCLoss", reduction)

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


RNNTLoss = loss_class(
    __name__,
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
