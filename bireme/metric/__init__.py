"""Metrics: what a model got right, counted over many batches.

An update with tensors is recorded like any other operator and read at `accumulate`; one with arrays is counted at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded, guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.ops import argmax, argsort, assign, cast, floor, full, reshape, round, to_tensor, topk

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]


class Metric(Guarded, ABC):
    """Base class of metrics: updated batch by batch, then accumulated to one value.

    A subclass implements ``reset``, ``update``, ``accumulate`` and ``name``, and may override ``compute``.

    Examples:
        >>> class Count(bireme.metric.Metric):
        ...     def reset(self):
        ...         self.n = 0
        ...     def update(self, x):
        ...         self.n += len(x)
        ...     def accumulate(self):
        ...         return self.n
        ...     def name(self):
        ...         return "count"
        >>> metric = Count()
        >>> metric.reset()
        >>> metric.update([1, 2])
        >>> metric.accumulate()
        2
    """

    def __init__(self) -> None:
        pass

    @abstractmethod
    def reset(self) -> None:
        """Reset the metric to its state before the first batch."""

    @abstractmethod
    def update(self, *args: Any) -> Any:
        """Add a batch.

        Args:
            *args: What ``compute`` returned; a tuple is unpacked by ``Model``.

        Returns:
            The value of this batch, or None.
        """

    @abstractmethod
    def accumulate(self) -> Any:
        """Return the value over all batches since ``reset``."""

    @abstractmethod
    def name(self) -> Any:
        """Return the name of the metric: a str, or a list of them if there are several values."""

    def compute(self, *args: Any) -> Any:
        """Reduce the outputs of the model and the labels to what ``update`` takes, with operators on the device.

        Args:
            *args: Outputs of the model, then labels.

        Returns:
            The arguments of ``update``; here ``args`` as they are.

        Examples:
            >>> bireme.metric.Recall().compute(1, 2)
            (1, 2)
        """
        return args


class Accuracy(Metric):
    """Top-k accuracy: the fraction of samples whose label is among the ``k`` highest scores.

    Args:
        topk: The values of ``k``, a tuple or list of positive ints. Default: (1,).
        name: Name of the metric. Default: None, ``"acc"``.
        *args: Passed to the constructor of the base class.
        **kwargs: Passed to the constructor of the base class.

    Examples:
        >>> metric = bireme.metric.Accuracy()
        >>> x, y = bireme.to_tensor([[0.1, 0.9], [0.7, 0.3]]), bireme.to_tensor([[1], [1]])
        >>> float(metric.update(metric.compute(x, y))), metric.accumulate()
        (0.5, 0.5)
    """

    def __init__(self, topk: Sequence[int] = (1,), name: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(topk, (list, tuple)):
            raise errors.bad("Accuracy(topk)", "a tuple of integers", topk, kind=errors.ArgumentTypeError)
        if not topk or not all(isinstance(k, (int, np.integer)) and k >= 1 for k in topk):
            raise errors.bad("Accuracy(topk)", "one or more positive integers", topk, kind=errors.for_integer(topk))
        self.topk, self.maxk = topk, max(topk)
        name = name or "acc"
        self._name = [name] if self.maxk == 1 else [f"{name}_top{k}" for k in topk]
        self.reset()

    def compute(self, pred: Tensor, label: Tensor, *args: Any) -> Tensor:
        """Find which of the highest scores of each sample belong to its label.

        Args:
            pred: Scores, of shape [..., classes].
            label: Labels: class indices of shape [N], [N, 1] or [..., 1], or one-hot vectors of the shape of ``pred``.
            *args: Not used.

        Returns:
            A float32 tensor of shape [..., max(topk)]: 1 where a score belongs to the label, else 0; highest score
            first.

        Examples:
            >>> bireme.metric.Accuracy().compute(bireme.to_tensor([[0.1, 0.9]]), bireme.to_tensor([[1]])).tolist()
            [[1.0]]
        """
        best, given = argsort(pred, descending=True)[..., : self.maxk], label.shape
        if label.ndim == 1 or (label.ndim == 2 and label.shape[-1] == 1):
            label = reshape(label, (-1, 1))
        elif label.shape[-1] != 1:
            label = argmax(label, axis=-1, keepdim=True)
        for n, m in zip(best.shape[-2::-1], label.shape[-2::-1], strict=False):
            if n != m and 1 not in (n, m):
                wanted = f"a label for each sample of pred, whose shape is {pred.shape}"
                raise errors.bad("compute(label)", wanted, described=f"shape {given}", kind=errors.ShapeError)
        return cast(best == cast(label, best.dtype), "float32")

    def update(self, correct: Any, *args: Any) -> Any:
        """Add a batch.

        Args:
            correct: What ``compute`` returned, a tensor or an array.
            *args: Not used.

        Returns:
            The accuracy of this batch; a list if ``topk`` has several values.

        Examples:
            >>> import numpy as np
            >>> float(bireme.metric.Accuracy().update(np.array([[1.0], [0.0]])))
            0.5
        """
        if not isinstance(correct, (Tensor, np.ndarray)):
            raise errors.bad("Accuracy.update(correct)", "a Tensor or an array", correct, kind=errors.NotATensorError)
        samples = int(np.prod(correct.shape[:-1], dtype=np.int64))
        found = []
        for i, k in enumerate(self.topk):
            right = correct[..., :k].sum()
            found.append(right / samples if isinstance(right, Tensor) else np.float64(right) / samples)
            self.total[i] = _sum(self.total[i], right)
            self.count[i] += samples
        return found[0] if len(self.topk) == 1 else found

    def reset(self) -> None:
        """Reset the metric to its state before the first batch."""
        self.total: list[Any] = [0.0] * len(self.topk)
        self.count: list[int] = [0] * len(self.topk)

    def accumulate(self) -> Any:
        """Return the accuracy over all batches; a list if ``topk`` has several values."""
        found = [float(t) / c if c > 0 else 0.0 for t, c in zip(self.total, self.count, strict=True)]
        return found[0] if len(self.topk) == 1 else found

    def name(self) -> list[str]:
        """Return the names, one for each value of ``topk``.

        Examples:
            >>> bireme.metric.Accuracy(topk=(1, 5)).name()
            ['acc_top1', 'acc_top5']
        """
        return self._name


def _sum(total: Any, more: Any) -> Any:
    """Return ``total + more``.

    The first sum after ``reset`` is recorded from a tensor like all others: a step that counts is one program, not two.
    """
    if isinstance(more, Tensor) and not isinstance(total, Tensor):
        total = to_tensor(total, more.dtype)
    return total + more


def _column(x: Any, where: str) -> Any:
    """Return one value for each sample, of a vector or a column."""
    if not isinstance(x, (Tensor, np.ndarray, np.generic)):
        raise errors.bad(where, "a Tensor or an array", x)
    if x.ndim == 0 or (x.ndim > 1 and any(n != 1 for n in x.shape[1:])):
        raise errors.bad(where, "one value for each sample, shape [N] or [N, 1]", x)
    return x.reshape([-1])


def _columns(who: str, preds: Any, labels: Any) -> tuple[Any, Any]:
    preds, labels = _column(preds, f"{who}.update(preds)"), _column(labels, f"{who}.update(labels)")
    n = labels.shape[0]
    if preds.shape[0] < n:
        raise errors.bad(
            f"{who}.update(preds)", f"a prediction for each of {n} labels", preds, kind=errors.OutOfRangeError
        )
    if isinstance(preds, Tensor) != isinstance(labels, Tensor):
        preds, labels = (x._host() if isinstance(x, Tensor) else x for x in (preds, labels))
    return preds[:n], labels


class Precision(Metric):
    """Precision of binary classification: ``tp / (tp + fp)``, the fraction of positive predictions that are correct.

    Args:
        name: Name of the metric. Default: ``"precision"``.
        *args: Passed to the constructor of the base class.
        **kwargs: Passed to the constructor of the base class.

    Examples:
        >>> import numpy as np
        >>> metric = bireme.metric.Precision()
        >>> metric.update(np.array([0.1, 0.5, 0.6]), np.array([0, 1, 0]))
        >>> metric.accumulate()
        0.5
    """

    tp: Any
    fp: Any

    def __init__(self, name: str = "precision", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch.

        Args:
            preds: Probabilities of the positive class, of shape [N] or [N, 1]; 0.5 and above count as positive.
            labels: Labels 0 and 1, of shape [N] or [N, 1].
        """
        preds, labels = _columns("Precision", preds, labels)
        half_up = floor(preds + 0.5) if isinstance(preds, Tensor) else np.floor(preds + 0.5)
        said, label = half_up == 1, labels == 1
        self.tp = _sum(self.tp, _number((said & label).sum()))
        self.fp = _sum(self.fp, _number((said & ~label).sum()))

    def reset(self) -> None:
        """Reset the metric to its state before the first batch."""
        self.tp = self.fp = 0

    def accumulate(self) -> float:
        """Return the precision over all batches; 0 if there was no positive prediction."""
        return _share(self.tp, self.fp)

    def name(self) -> str:
        """Return the name of the metric."""
        return self._name


class Recall(Metric):
    """Recall of binary classification: ``tp / (tp + fn)``, the fraction of positive samples that were found.

    Args:
        name: Name of the metric. Default: ``"recall"``.
        *args: Passed to the constructor of the base class.
        **kwargs: Passed to the constructor of the base class.

    Examples:
        >>> import numpy as np
        >>> metric = bireme.metric.Recall()
        >>> metric.update(np.array([0.1, 0.9, 0.6]), np.array([1, 1, 0]))
        >>> metric.accumulate()
        0.5
    """

    tp: Any
    fn: Any

    def __init__(self, name: str = "recall", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch.

        Args:
            preds: Probabilities of the positive class, of shape [N] or [N, 1]; above 0.5 they count as positive.
            labels: Labels 0 and 1, of shape [N] or [N, 1].
        """
        preds, labels = _columns("Recall", preds, labels)
        nearest = round(preds) if isinstance(preds, Tensor) else np.rint(preds)
        said, label = nearest == 1, labels == 1
        self.tp = _sum(self.tp, _number((said & label).sum()))
        self.fn = _sum(self.fn, _number((~said & label).sum()))

    def reset(self) -> None:
        """Reset the metric to its state before the first batch."""
        self.tp = self.fn = 0

    def accumulate(self) -> float:
        """Return the recall over all batches; 0 if there was no positive sample."""
        return _share(self.tp, self.fn)

    def name(self) -> str:
        """Return the name of the metric."""
        return self._name


def _number(count: Any) -> Any:
    return count if isinstance(count, Tensor) else int(count)


def _share(part: Any, rest: Any) -> float:
    part, rest = int(part), int(rest)
    return part / (part + rest) if part + rest else 0.0


class Auc(Metric):
    """Area under the ROC curve of binary classification, from a histogram of the predicted probabilities.

    Args:
        curve: Kept, without effect: the curve is always ROC. Default: ``"ROC"``.
        num_thresholds: Number of thresholds; the histogram has one bin more. Default: 4095.
        name: Name of the metric. Default: ``"auc"``.
        *args: Passed to the constructor of the base class.
        **kwargs: Passed to the constructor of the base class.

    Examples:
        >>> import numpy as np
        >>> metric = bireme.metric.Auc()
        >>> metric.update(np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]]), np.array([[0], [1], [1]]))
        >>> float(metric.accumulate())
        1.0
    """

    WAIT = 64  # updates with tensors that are kept before they are counted: by then they have long been computed
    _pending: list[tuple[Any, Any]]

    def __init__(
        self, curve: str = "ROC", num_thresholds: int = 4095, name: str = "auc", *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(num_thresholds, (int, np.integer)) or num_thresholds < 1:
            raise errors.bad(
                "Auc(num_thresholds)", "a positive integer", num_thresholds, kind=errors.for_integer(num_thresholds)
            )
        self._curve, self._num_thresholds, self._name = curve, num_thresholds, name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Add a batch.

        Args:
            preds: Probabilities of both classes, of shape [N, 2].
            labels: Labels 0 and 1, of shape [N] or [N, 1].
        """
        labels = _column(labels, "Auc.update(labels)")
        if not isinstance(preds, (Tensor, np.ndarray)):
            raise errors.bad("Auc.update(preds)", "a Tensor or an array", preds)
        if preds.ndim != 2 or preds.shape[1] < 2 or preds.shape[0] < labels.shape[0]:
            raise errors.bad(
                "Auc.update(preds)",
                f"probabilities of both classes, shape [{labels.shape[0]}, 2]",
                preds,
                kind=errors.OutOfRangeError,
            )
        self._pending.append((preds[: labels.shape[0], 1], labels))
        if isinstance(preds, np.ndarray) or len(self._pending) >= self.WAIT:
            self._count()

    def _count(self) -> None:
        pending, self._pending = self._pending, []
        for value, labels in pending:
            value, labels = (x._host() if isinstance(x, Tensor) else x for x in (value, labels))
            bins = (value * self._num_thresholds).astype(np.int64)
            if bins.size and not 0 <= np.min(bins) <= np.max(bins) <= self._num_thresholds:
                raise errors.bad(
                    "Auc.update(preds)",
                    "probabilities in [0, 1]",
                    [float(value.min()), float(value.max())],
                    kind=errors.ArgumentError,
                )
            positive = labels.astype(bool)
            self._stat_pos += np.bincount(bins[positive], minlength=self._num_thresholds + 1)
            self._stat_neg += np.bincount(bins[~positive], minlength=self._num_thresholds + 1)

    @staticmethod
    def trapezoid_area(x1: float, x2: float, y1: float, y2: float) -> float:
        """Return the area under the line from (x1, y1) to (x2, y2).

        Args:
            x1: First coordinate of one end.
            x2: First coordinate of the other end.
            y1: Second coordinate of one end.
            y2: Second coordinate of the other end.

        Returns:
            ``abs(x1 - x2) * (y1 + y2) / 2``.

        Examples:
            >>> bireme.metric.Auc.trapezoid_area(1, 3, 2, 4)
            6.0
        """
        return abs(x1 - x2) * (y1 + y2) / 2.0

    def accumulate(self) -> float:
        """Return the area over all batches; 0 if one class is missing."""
        self._count()
        positive, negative = (np.cumsum(stat[::-1]) for stat in (self._stat_pos, self._stat_neg))
        if positive[-1] == 0 or negative[-1] == 0:
            return 0.0
        heights = positive - self._stat_pos[::-1] / 2
        return np.float64((self._stat_neg[::-1] * heights).sum() / positive[-1] / negative[-1])

    def reset(self) -> None:
        """Reset the metric to its state before the first batch."""
        self._stat_pos, self._stat_neg = np.zeros(self._num_thresholds + 1), np.zeros(self._num_thresholds + 1)
        self._pending = []

    def name(self) -> str:
        """Return the name of the metric."""
        return self._name


def accuracy(
    input: Tensor,
    label: Tensor,
    k: int = 1,
    correct: Tensor | None = None,
    total: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """Compute the top-k accuracy of one batch.

    Args:
        input: Scores, of shape [N, classes].
        label: Class indices, of shape [N, 1].
        k: Number of highest scores among which the label counts as found. Default: 1.
        correct: Tensor that the number of correct samples is written to. Default: None.
        total: Tensor that the number of samples is written to. Default: None.
        name: Has no effect.

    Returns:
        The fraction of correct samples, a float32 scalar tensor.

    Examples:
        >>> bireme.metric.accuracy(bireme.to_tensor([[0.1, 0.9], [0.7, 0.3]]), bireme.to_tensor([[1], [1]])).item()
        0.5
    """
    for which, x in (("input", input), ("label", label)):
        if not isinstance(x, Tensor):
            raise errors.bad(f"accuracy({which})", "a Tensor", x, kind=errors.NotATensorError)
    errors.check_integer("accuracy(k)", k)
    if input.ndim != 2:
        raise errors.bad("accuracy(input)", "shape [N, classes]", input)
    if label.ndim != 2 or label.shape[0] != input.shape[0]:
        raise errors.bad("accuracy(label)", f"shape [{input.shape[0]}, 1]", label)
    if not 1 <= k <= input.shape[1]:
        raise errors.bad("accuracy(k)", f"1 to {input.shape[1]}, the number of classes", k)
    best = topk(input, k)[1]
    hits = (best == cast(label[:, :1], best.dtype)).any(axis=1)
    right = cast(hits, "int32").sum(dtype="int32")
    n = input.shape[0]
    if correct is not None:
        assign(right, correct)
    if total is not None:
        assign(full([], n, "int32"), total)
    return cast(right, "float32") / n


guard_functions(globals())
