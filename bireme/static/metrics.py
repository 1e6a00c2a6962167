"""Metrics as operations of programs; what they gather outlives a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program import building, calls
from bireme.core.tensor.tensor import Tensor
from bireme.ops import abs, cast, full, mean, reshape, sigmoid, square, sum, topk
from bireme.static.variables import create_global_var
from bireme.utils import unique_name


def accuracy(
    input: Tensor, label: Tensor, k: int = 1, correct: Tensor | None = None, total: Tensor | None = None
) -> Tensor:
    """Compute the share of samples whose label is among the ``k`` largest predictions.

    Args:
        input: Predictions ``[N, classes]``.
        label: Integers ``[N, 1]``.
        k: Number of predictions that count. Default: 1.
        correct: Variable that stands for the number of correct samples from now on. Default: None.
        total: Variable that stands for the number of samples from now on. Default: None.

    Returns:
        Tensor of one float32, without dimensions.

    Examples:
        >>> x = bireme.to_tensor([[0.1, 0.9], [0.8, 0.2]])
        >>> bireme.static.accuracy(x, bireme.to_tensor([[1], [1]])).item()
        0.5
    """
    if not isinstance(input, Tensor):
        raise errors.bad("accuracy(input)", "a Tensor", input, kind=errors.NotATensorError)
    _, best = topk(input, k)
    hits = (best == reshape(label, [-1, 1]).astype(best.dtype)).any(1)
    for given, count in ((correct, hits), (total, hits | ~hits)):
        if given is not None:
            _renewed(given, sum(cast(count, "int32")).reshape([1]))
    return mean(cast(hits, "float32"))


def _renewed(x: Any, value: Any) -> None:
    builder = building.current()
    if builder is None:
        x._assign_value(value)
    else:
        builder.renew(x, value.symbol)


@calls.recordable
def gather_auc(
    predict: Tensor, label: Tensor, weight: Any, pos: Tensor, neg: Tensor, steps: int, curve: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Count predictions by threshold into what earlier runs gathered, and return the area under the curve.

    ``pos`` and ``neg`` hold the counts of all runs, or of the last ``steps`` ones behind each other, their sum and the
    number of runs.
    """
    scores, positive = predict.numpy()[:, -1], label.numpy().ravel() != 0
    buckets = pos.shape[-1] if not steps else (pos.shape[0] - 1) // (steps + 1)
    at = np.clip((scores * (buckets - 1)).astype(np.int64), 0, buckets - 1)
    valid = np.ones(len(at), bool) if weight is None else weight.numpy().ravel() != 0
    sums = []
    for held, chosen in ((pos, positive & valid), (neg, ~positive & valid)):
        counts = np.bincount(at[chosen], minlength=buckets)
        values = held.numpy().copy()
        if not steps:
            values = values + counts
            sums.append(values.ravel())
        else:
            slot = values[-1] % steps * buckets
            values[-1 - buckets : -1] += counts - values[slot : slot + buckets]
            values[slot : slot + buckets] = counts
            values[-1] += 1
            sums.append(values[-1 - buckets : -1])
        held.set_value(values)
    return Tensor(np.float64(_area(*sums, curve))), pos, neg


gather_auc.example = lambda predict, label, weight, pos, neg, steps, curve: (full([], 0.0, "float64"), pos, neg)
gather_auc.effect = True


def _area(pos: np.ndarray, neg: np.ndarray, curve: str) -> float:
    """The area under the curve by trapezoids, from the largest threshold on."""
    up, right = np.cumsum(pos[::-1]).astype(float), np.cumsum(neg[::-1]).astype(float)
    if not up[-1] or not right[-1]:
        return 0.0
    before_up, before_right = np.r_[0.0, up[:-1]], np.r_[0.0, right[:-1]]
    return float(np.sum((right - before_right) * (up + before_up) / 2) / up[-1] / right[-1])


def auc(
    input: Tensor,
    label: Tensor,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Tensor | None = None,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Compute the area under the ROC curve, of all runs and of the last ones.

    Args:
        input: Probabilities ``[N, 2]`` of which the last column counts.
        label: Integers ``[N, 1]``, 0 or 1.
        curve: ``"ROC"``; Paddle computes the same for ``"PR"``. Default: ``"ROC"``.
        num_thresholds: Number of thresholds. Default: 4095.
        topk: Has no effect.
        slide_steps: Number of the last runs that the second result is of; 0 for all. Default: 1.
        ins_tag_weight: Tensor ``[N, 1]``: samples with 0 do not count. Default: None.

    Returns:
        A tuple of the area of all runs, the area of the last ones, and a list of what they are counted in: positive and
        negative counts of the last runs, then of all.

    Examples:
        >>> bireme.enable_static()
        >>> main, startup = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(main, startup):
        ...     x, label = bireme.static.data("x", [None, 2]), bireme.static.data("label", [None, 1], "int64")
        ...     area, recent, _ = bireme.static.auc(x, label)
        >>> feed = {"x": [[0.9, 0.1], [0.2, 0.8]], "label": [[0], [1]]}
        >>> bireme.static.Executor().run(main, feed=feed, fetch_list=[area])[0].item()
        1.0
        >>> bireme.disable_static()
    """
    builder = building.current()
    if builder is None:
        raise errors.failure("auc() adds to a program, in static mode", hint="use bireme.metric.Auc on tensors")
    if curve not in ("ROC", "PR"):
        raise errors.bad("auc(curve)", "'ROC' or 'PR'", curve)
    n = num_thresholds + 1
    all_runs, recent = [1, n], [(slide_steps + 1) * n + 1] if slide_steps else [1, n]
    held = [
        create_global_var(shape, 0, "int64", True, name=unique_name.generate(f"auc_{name}"))
        for shape in (recent, all_runs) for name in ("pos", "neg")
    ]  # fmt: skip
    last, *of_last = calls.recorded(gather_auc, input, label, ins_tag_weight, *held[:2], slide_steps, curve)
    area, *of_all = calls.recorded(gather_auc, input, label, ins_tag_weight, *held[2:], 0, curve)
    return area, last, [*of_last, *of_all]


@calls.recordable
def gather_sums(held: list[Tensor], sums: list[Tensor]) -> list[Tensor]:
    """Add sums to what earlier runs gathered."""
    for t, each in zip(held, sums, strict=True):
        t._assign_value(t + each.reshape(t.shape))
    return list(held)


gather_sums.example = lambda held, sums: list(held)
gather_sums.effect = True


def ctr_metric_bundle(input: Tensor, label: Tensor, ins_tag_weight: Tensor | None = None) -> tuple[Tensor, ...]:
    """Gather the sums that metrics of click-through rates are computed from, over all runs.

    Args:
        input: Predictions ``[N, 1]``.
        label: Tensor ``[N, 1]``, 0 or 1.
        ins_tag_weight: Tensor ``[N, 1]``: a first element of 0 leaves a run's counts out. Default: None.

    Returns:
        A tuple of the sums of squared errors, absolute errors, predictions, sigmoids of predictions and labels, and the
        number of samples.

    Examples:
        >>> bireme.enable_static()
        >>> main, startup = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(main, startup):
        ...     x, label = bireme.static.data("x", [None, 1]), bireme.static.data("label", [None, 1])
        ...     sums = bireme.static.ctr_metric_bundle(x, label)
        >>> found = bireme.static.Executor().run(main, feed={"x": [[1.0], [0.0]], "label": [[0.0], [1.0]]}, fetch_list=sums)
        >>> [float(x.item()) for x in found if x.ndim == 1], found[-1].item()
        ([2.0, 2.0, 1.0, 1.0], 2.0)
        >>> bireme.disable_static()
    """
    builder = building.current()
    if builder is None:
        raise errors.failure("ctr_metric_bundle() adds to a program, in static mode")
    shapes = [[1], [1], [1], [1, 1], [1], [1, 1]]
    held = [create_global_var(s, 0.0, "float32", True, name=unique_name.generate("ctr_metric")) for s in shapes]
    error, share = input - label, 1.0 if ins_tag_weight is None else reshape(ins_tag_weight[0], [1])
    ones = label * 0 + 1
    sums = [sum(square(error)), sum(abs(error)), sum(input), sum(sigmoid(input)) * share, sum(label), sum(ones) * share]
    return tuple(calls.recorded(gather_sums, held, sums))


guard_functions(globals())
