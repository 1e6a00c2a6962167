"""Metrics: what a model got right, counted over many batches.

An update with tensors is recorded like any other operator and read at `accumulate`; one with arrays is counted at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops import argmax, argsort, assign, cast, floor, full, reshape, round, to_tensor, topk

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]


class Metric(ABC):
    """What is updated with batches and gives one figure: a subclass gives `reset`, `update`, `accumulate` and `name`.

    >>> class Count(bireme.metric.Metric):
    ...     def reset(self):
    ...         self.n = 0
    ...     def update(self, x):
    ...         self.n += len(x)
    ...     def accumulate(self):
    ...         return self.n
    ...     def name(self):
    ...         return "count"
    >>> m = Count(); m.reset(); m.update([1, 2]); m.accumulate()
    2
    """

    @abstractmethod
    def reset(self) -> None:
        """Forget all batches."""

    @abstractmethod
    def update(self, *args: Any) -> Any:
        """Count a batch: what `compute` returned."""

    @abstractmethod
    def accumulate(self) -> Any:
        """The figure over all batches since `reset`."""

    @abstractmethod
    def name(self) -> Any:
        """What the figure is called."""

    def compute(self, *args: Any) -> Any:
        """Reduce the model's outputs and the labels to what `update` needs, with operators on the device.

        >>> bireme.metric.Recall().compute(1, 2)
        (1, 2)
        """
        return args


class Accuracy(Metric):
    """Share of samples whose label is among the `k` best predictions, for each `k` of `topk`.

    >>> m = bireme.metric.Accuracy()
    >>> x, y = bireme.to_tensor([[0.1, 0.9], [0.7, 0.3]]), bireme.to_tensor([[1], [1]])
    >>> float(m.update(m.compute(x, y))), m.accumulate()
    (0.5, 0.5)
    """

    def __init__(self, topk: Sequence[int] = (1,), name: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(topk, (list, tuple)):
            raise errors.bad("Accuracy(topk)", "a tuple of integers", topk, kind=TypeError)
        if not topk or not all(isinstance(k, (int, np.integer)) and k >= 1 for k in topk):
            raise errors.bad("Accuracy(topk)", "one integer or more, each of 1 or more", topk)
        self.topk, self.maxk = topk, max(topk)
        name = name or "acc"
        self._name = [name] if self.maxk == 1 else [f"{name}_top{k}" for k in topk]
        self.reset()

    def compute(self, pred: Tensor, label: Tensor, *args: Any) -> Tensor:
        """Which of the best predictions of each sample are its label; labels are numbers or one-hot.

        >>> bireme.metric.Accuracy().compute(bireme.to_tensor([[0.1, 0.9]]), bireme.to_tensor([[1]])).tolist()
        [[1.0]]
        """
        best = argsort(pred, descending=True)[..., : self.maxk]
        if label.ndim == 1 or (label.ndim == 2 and label.shape[-1] == 1):
            label = reshape(label, (-1, 1))
        elif label.shape[-1] != 1:
            label = argmax(label, axis=-1, keepdim=True)
        return cast(best == cast(label, best.dtype), "float32")

    def update(self, correct: Any, *args: Any) -> Any:
        """Count a batch of what `compute` returned; gives the accuracy of this batch, a list of them where `topk` has several.

        >>> import numpy as np
        >>> float(bireme.metric.Accuracy().update(np.array([[1.0], [0.0]])))
        0.5
        """
        samples = int(np.prod(correct.shape[:-1], dtype=np.int64))
        found = []
        for i, k in enumerate(self.topk):
            right = correct[..., :k].sum()
            found.append(right / samples if isinstance(right, Tensor) else np.float64(right) / samples)
            self.total[i] = _sum(self.total[i], right)
            self.count[i] += samples
        return found[0] if len(self.topk) == 1 else found

    def reset(self) -> None:
        """Forget all batches."""
        self.total: list[Any] = [0.0] * len(self.topk)
        self.count: list[int] = [0] * len(self.topk)

    def accumulate(self) -> Any:
        """The accuracy over all batches, a list where `topk` has several."""
        found = [float(t) / c if c > 0 else 0.0 for t, c in zip(self.total, self.count, strict=True)]
        return found[0] if len(self.topk) == 1 else found

    def name(self) -> list[str]:
        """Names, one for each `k`.

        >>> bireme.metric.Accuracy(topk=(1, 5)).name()
        ['acc_top1', 'acc_top5']
        """
        return self._name


def _sum(total: Any, more: Any) -> Any:
    """`total + more`. The first sum after `reset` is recorded like all others, from a tensor: a step that counts is one program, not two."""
    if isinstance(more, Tensor) and not isinstance(total, Tensor):
        total = to_tensor(total, more.dtype)
    return total + more


def _column(x: Any, where: str) -> Any:
    """One value for each sample, of a vector or a column."""
    if not isinstance(x, (Tensor, np.ndarray, np.generic)):
        raise errors.bad(where, "a Tensor or an array", x)
    if x.ndim == 0 or (x.ndim > 1 and any(n != 1 for n in x.shape[1:])):
        raise errors.bad(where, "one value for each sample, shape [N] or [N, 1]", x)
    return x.reshape([-1])


def _columns(who: str, preds: Any, labels: Any) -> tuple[Any, Any]:
    preds, labels = _column(preds, f"{who}.update(preds)"), _column(labels, f"{who}.update(labels)")
    n = labels.shape[0]
    if preds.shape[0] < n:
        raise errors.bad(f"{who}.update(preds)", f"a prediction for each of {n} labels", preds, kind=errors.OutOfRange)
    if isinstance(preds, Tensor) != isinstance(labels, Tensor):
        preds, labels = (x._host() if isinstance(x, Tensor) else x for x in (preds, labels))
    return preds[:n], labels


class Precision(Metric):
    """Share of the samples said to be positive that are: `tp / (tp + fp)`.

    >>> import numpy as np
    >>> m = bireme.metric.Precision(); m.update(np.array([0.1, 0.5, 0.6]), np.array([0, 1, 0])); m.accumulate()
    0.5
    """

    def __init__(self, name: str = "precision", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch: probabilities, rounded half up, and labels of 0 and 1."""
        preds, labels = _columns("Precision", preds, labels)
        half_up = floor(preds + 0.5) if isinstance(preds, Tensor) else np.floor(preds + 0.5)
        said, label = half_up == 1, labels == 1
        self.tp = _sum(self.tp, _number((said & label).sum()))
        self.fp = _sum(self.fp, _number((said & ~label).sum()))

    def reset(self) -> None:
        """Forget all batches."""
        self.tp: Any = 0
        self.fp: Any = 0

    def accumulate(self) -> float:
        """The precision over all batches; 0 where nothing was said to be positive."""
        return _share(self.tp, self.fp)

    def name(self) -> str:
        """What the figure is called."""
        return self._name


class Recall(Metric):
    """Share of the positive samples that were found: `tp / (tp + fn)`.

    >>> import numpy as np
    >>> m = bireme.metric.Recall(); m.update(np.array([0.1, 0.9, 0.6]), np.array([1, 1, 0])); m.accumulate()
    0.5
    """

    def __init__(self, name: str = "recall", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch: probabilities, rounded half to even, and labels of 0 and 1."""
        preds, labels = _columns("Recall", preds, labels)
        nearest = round(preds) if isinstance(preds, Tensor) else np.rint(preds)
        said, label = nearest == 1, labels == 1
        self.tp = _sum(self.tp, _number((said & label).sum()))
        self.fn = _sum(self.fn, _number((~said & label).sum()))

    def reset(self) -> None:
        """Forget all batches."""
        self.tp: Any = 0
        self.fn: Any = 0

    def accumulate(self) -> float:
        """The recall over all batches; 0 where nothing was positive."""
        return _share(self.tp, self.fn)

    def name(self) -> str:
        """What the figure is called."""
        return self._name


def _number(count: Any) -> Any:
    return count if isinstance(count, Tensor) else int(count)


def _share(part: Any, rest: Any) -> float:
    part, rest = int(part), int(rest)
    return part / (part + rest) if part + rest else 0.0


class Auc(Metric):
    """Area under the ROC curve of two classes, counted in `num_thresholds + 1` bins of the positive class's probability.

    >>> import numpy as np
    >>> m = bireme.metric.Auc()
    >>> m.update(np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]]), np.array([[0], [1], [1]])); float(m.accumulate())
    1.0
    """

    WAIT = 64  # updates with tensors that are kept before they are counted: by then they have long been computed

    def __init__(self, curve: str = "ROC", num_thresholds: int = 4095, name: str = "auc", *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(num_thresholds, (int, np.integer)) or num_thresholds < 1:
            raise errors.bad("Auc(num_thresholds)", "an integer of 1 or more", num_thresholds)
        self._curve, self._num_thresholds, self._name = curve, num_thresholds, name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch: probabilities [N, 2] of both classes, and labels of 0 and 1, [N] or [N, 1]."""
        labels = _column(labels, "Auc.update(labels)")
        if not isinstance(preds, (Tensor, np.ndarray)):
            raise errors.bad("Auc.update(preds)", "a Tensor or an array", preds)
        if preds.ndim != 2 or preds.shape[1] < 2 or preds.shape[0] < labels.shape[0]:
            raise errors.bad("Auc.update(preds)", f"probabilities of both classes, shape [{labels.shape[0]}, 2]", preds, kind=errors.OutOfRange)
        self._pending.append((preds[: labels.shape[0], 1], labels))
        if isinstance(preds, np.ndarray) or len(self._pending) >= self.WAIT:
            self._count()

    def _count(self) -> None:
        pending, self._pending = self._pending, []
        for value, labels in pending:
            value, labels = (x._host() if isinstance(x, Tensor) else x for x in (value, labels))
            bins = (value * self._num_thresholds).astype(np.int64)
            if bins.size and not 0 <= bins.min() <= bins.max() <= self._num_thresholds:
                raise errors.bad("Auc.update(preds)", "probabilities between 0 and 1", [float(value.min()), float(value.max())], kind=errors.Unfit)
            positive = labels.astype(bool)
            self._stat_pos += np.bincount(bins[positive], minlength=self._num_thresholds + 1)
            self._stat_neg += np.bincount(bins[~positive], minlength=self._num_thresholds + 1)

    @staticmethod
    def trapezoid_area(x1: float, x2: float, y1: float, y2: float) -> float:
        """Area under the line from (x1, y1) to (x2, y2).

        >>> bireme.metric.Auc.trapezoid_area(1, 3, 2, 4)
        6.0
        """
        return abs(x1 - x2) * (y1 + y2) / 2.0

    def accumulate(self) -> float:
        """The area over all batches; 0 where one class is missing."""
        self._count()
        positive, negative = (np.cumsum(stat[::-1]) for stat in (self._stat_pos, self._stat_neg))
        if positive[-1] == 0 or negative[-1] == 0:
            return 0.0
        heights = positive - self._stat_pos[::-1] / 2
        return np.float64((self._stat_neg[::-1] * heights).sum() / positive[-1] / negative[-1])

    def reset(self) -> None:
        """Forget all batches."""
        self._stat_pos, self._stat_neg = np.zeros(self._num_thresholds + 1), np.zeros(self._num_thresholds + 1)
        self._pending: list[tuple[Any, Any]] = []

    def name(self) -> str:
        """What the figure is called."""
        return self._name


def accuracy(input: Tensor, label: Tensor, k: int = 1, correct: Tensor | None = None, total: Tensor | None = None, name: str | None = None) -> Tensor:
    """Share of samples whose label [N, 1] is among the `k` best of `input` [N, classes]; the counts are written to `correct` and `total`.

    >>> bireme.metric.accuracy(bireme.to_tensor([[0.1, 0.9], [0.7, 0.3]]), bireme.to_tensor([[1], [1]])).item()
    0.5
    """
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
