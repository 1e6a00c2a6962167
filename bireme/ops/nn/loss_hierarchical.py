"""Losses of many classes: trees, margins of angles, clusters by frequency."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.linalg.matmul import matmul
from bireme.ops.manipulation import reshape
from bireme.ops.nn.activation import softmax
from bireme.ops.nn.loss import must_float, nll_of_logits, reduced
from bireme.ops.reduction import reductions

# ---------------------------------------------------------------- trees


def _steps(input, weight, bias, table):
    """The logit of each inner node of a leaf's path, limited to [-40, 40] but for gradients; 0 after its end."""
    at = jnp.maximum(table, 0)
    pre = jnp.einsum("nd,nld->nl", input, weight[at])
    pre = pre if bias is None else pre + bias.reshape(-1)[at]
    limited = pre + lax.stop_gradient(jnp.clip(pre, -40, 40) - pre)
    return jnp.where(table >= 0, limited, 0)


@op(internal="hsigmoid", dtypes=FLOAT, amp="high", upcast=True, kernels="hsigmoid_loss")
def hsigmoid_of(input: Tensor, weight: Tensor, bias: Tensor | None, table: Tensor, code: Tensor) -> Tensor:
    """Sum of the binary cross entropies along each leaf's path in a tree of classes; use `hsigmoid_loss`."""
    pre = _steps(input, weight, bias, table)
    # a path that has ended counts log(2) a step, as in Paddle: a constant, without gradient
    loss = jnp.maximum(pre, 0) + jnp.log1p(jnp.exp(-jnp.abs(pre))) - jnp.where(code > 0, pre, 0)
    return jnp.sum(loss, axis=1, keepdims=True)


hsigmoid_of.infer(lambda input: sig_of((input.shape[0], 1), input.dtype))
hsigmoid_of.index(lambda s: [("table", -1, s["weight"].shape[0])], "hsigmoid_loss")


@op(internal=True, differentiable=False, numpy=True)
def tree_path(label: Tensor, classes: int, steps: int) -> tuple[Tensor, Tensor]:
    """Inner nodes and branches on the path to each leaf of a complete binary tree, from the leaf up; -1 at its end."""
    leaf = label.reshape(-1, 1) + classes
    bits = jnp.arange(steps, dtype=label.dtype)
    node = (leaf >> (bits + 1)) - 1
    ended = node < 0
    return jnp.where(ended, -1, node).astype(label.dtype), jnp.where(ended, -1, (leaf >> bits) & 1).astype(label.dtype)


@tree_path.infer
def _(label, steps):
    made = sig_of((int(np.prod(label.shape)), steps), label.dtype)
    return [made, made]


tree_path.index(lambda s: [("label", 0, s["classes"])], "hsigmoid_loss")


@composite(plain=True)
def hsigmoid_loss(
    input: Tensor,
    label: Tensor,
    num_classes: int,
    weight: Tensor,
    bias: Tensor | None = None,
    path_table: Tensor | None = None,
    path_code: Tensor | None = None,
    is_sparse: bool = False,
) -> Tensor:
    """Hierarchical sigmoid loss: each class is a leaf of a binary tree, and each inner node a binary classifier.

    The loss of a sample is the sum of the binary cross entropies along the path to its class, so that a step costs
    ``O(log(num_classes))``. The tree is complete unless ``path_table`` and ``path_code`` describe another.

    Args:
        input: Features of shape ``[N, D]``.
        label: Integer classes in ``[0, num_classes)``, of shape ``[N]`` or ``[N, 1]``.
        num_classes: Number of classes, at least 2.
        weight: Weights of the inner nodes, of shape ``[num_classes - 1, D]``; a tree of one's own may have another
            number.
        bias: Bias of each inner node: as many elements as ``weight`` has rows. Default: None.
        path_table: Integer indices of the inner nodes on the way to the class of each sample, of shape ``[N, L]``; -1
            after the end. Default: None.
        path_code: Branch taken at each of these nodes, 1 or 0, of the same shape. Default: None.
        is_sparse: Has no effect: gradients are dense. Default: False.

    Returns:
        Losses of shape ``[N, 1]``.

    Examples:
        >>> x, weight = bireme.zeros([1, 2]), bireme.zeros([1, 2])
        >>> round(bireme.nn.functional.hsigmoid_loss(x, bireme.to_tensor([[0]]), 2, weight).item(), 4)
        0.6931
    """
    where = "hsigmoid_loss"
    if num_classes < 2:
        raise errors.bad(
            f"{where}(num_classes)", "an integer greater than 1", num_classes, kind=errors.for_integer(num_classes)
        )
    if input.ndim != 2 or weight.ndim != 2 or weight.shape[1] != input.shape[1]:
        got = f"shapes {input.shape} and {weight.shape}"
        raise errors.bad(f"{where}(input, weight)", "shapes [N, width] and [nodes, width]", described=got)
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and t.dtype.is_complex:
            raise errors.bad(f"{where}({name})", "real numbers", t, kind=errors.DtypeError)
    if label.shape not in ([input.shape[0]], [input.shape[0], 1]) or label.dtype.kind != "i":
        raise errors.bad(
            f"{where}(label)",
            f"an integer tensor of shape {[input.shape[0], 1]}",
            label,
            kind=errors.for_integer(label),
        )
    if bias is not None and bias._value.sig.size != weight.shape[0]:
        raise errors.bad(f"{where}(bias)", f"{weight.shape[0]} elements, one for each node", bias)
    if (path_table is None) != (path_code is None):
        raise errors.bad(f"{where}(path_table, path_code)", "both or neither", described="one of them")
    if path_table is None:
        path_table, path_code = tree_path(label, num_classes, (2 * num_classes - 1).bit_length() - 1)
    elif path_table.shape != path_code.shape or path_table.ndim != 2 or path_table.shape[0] != input.shape[0]:
        got = f"shapes {path_table.shape} and {path_code.shape}"
        raise errors.bad(
            f"{where}(path_table, path_code)", f"equal shapes [{input.shape[0]}, longest path]", described=got
        )
    return hsigmoid_of(input, weight, bias, path_table, path_code)


# ---------------------------------------------------------------- margins of angles


@op(internal="angle_margin", dtypes=FLOAT, amp="high", upcast=True, kernels="margin_cross_entropy")
def angle_margin_of(
    logits: Tensor, label: Tensor, margin1: float, margin2: float, margin3: float, scale: float
) -> Tensor:
    """Cosines with a margin at the labelled class, times the scale; use `margin_cross_entropy`."""
    hot = jnp.arange(logits.shape[1], dtype=label.dtype) == label[:, None]
    own = jnp.clip(jnp.sum(jnp.where(hot, logits, 0), axis=1, keepdims=True), -1, 1)
    if margin1 != 1 or margin2 != 0:
        own = jnp.cos(margin1 * jnp.arccos(own) + margin2)
    return jnp.where(hot, own - margin3, logits) * scale


angle_margin_of.infer(lambda logits: logits)
angle_margin_of.index(lambda s: [("label", 0, s["logits"].shape[1])], "margin_cross_entropy")


@composite(plain=True, name_arg=False)
def margin_cross_entropy(logits: Tensor, label: Tensor, margin1: float = 1.0, margin2: float = 0.5,
                         margin3: float = 0.0, scale: float = 64.0, group: Any = None, return_softmax: bool = False,
                         reduction: Attr[str] = "mean") -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Cross entropy of cosines with a margin at the labelled class, as in ArcFace and CosFace.

    The cosine of the labelled class becomes ``cos(margin1 * angle + margin2) - margin3``; then all are multiplied by
    ``scale``.

    Args:
        logits: Cosines in ``[-1, 1]``, of shape ``[N, C]`` and a floating-point dtype.
        label: Integer classes in ``[0, C)``, of shape ``[N]`` or ``[N, 1]``.
        margin1: Factor of the angle. Default: 1.0.
        margin2: Number added to the angle. Default: 0.5.
        margin3: Number subtracted from the cosine. Default: 0.0.
        scale: Factor of all logits. Default: 64.0.
        group: ``None`` or ``False``: all classes are in this process. Default: None.
        return_softmax: Whether to return the probabilities too. Default: False.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` or ``None`` for the loss of each sample. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses of shape ``[N, 1]`` with ``'none'``; with ``return_softmax`` a pair of this and the
        softmax.

    Examples:
        >>> x, label = bireme.to_tensor([[0.5, 0.0]]), bireme.to_tensor([0])
        >>> round(bireme.nn.functional.margin_cross_entropy(x, label, 1.0, 0.0, 0.5, 1.0).item(), 4)
        0.6931
    """
    where = "margin_cross_entropy"
    if reduction not in ("mean", "sum", "none", None):
        raise errors.bad(f"{where}(reduction)", "'mean', 'sum', 'none' or None", reduction, kind=AssertionError)
    if group is not None and group is not False:
        raise errors.bad(f"{where}(group)", "None, since there is one process", group)
    must_float(f"{where}(logits)", logits)
    if logits.ndim != 2:
        raise errors.bad(f"{where}(logits)", "shape [N, classes]", logits)
    if label.shape not in ([logits.shape[0]], [logits.shape[0], 1]) or label.dtype.kind != "i":
        raise errors.bad(
            f"{where}(label)", f"an integer tensor of shape {[logits.shape[0]]}", label, kind=errors.for_integer(label)
        )
    label = reshape.reshape(label, [-1]) if label.ndim == 2 else label
    held = angle_margin_of(logits, label, margin1, margin2, margin3, scale)
    loss = reshape.unsqueeze(nll_of_logits(held, label, -100), -1)
    loss = reduced(loss, reduction or "none", where)
    return (loss, softmax(held)) if return_softmax else loss


# ---------------------------------------------------------------- clusters by frequency


@op(internal="cluster", differentiable=False, numpy=True)
def cluster_of(label: Tensor, cutoffs: Attr) -> list[Tensor]:
    """Labels in the head, and those in each cluster counted from its beginning, -100 for what is elsewhere."""
    head, clusters = label, []
    for i, (low, high) in enumerate(pairwise(cutoffs)):
        inside = (label >= low) & (label < high)
        head = jnp.where(inside, cutoffs[0] + i, head)
        clusters.append(jnp.where(inside, label - low, -100))
    return [head, *clusters]


cluster_of.infer(lambda label, cutoffs: [label] * len(cutoffs))
cluster_of.index(lambda s: [("label", 0, s["cutoffs"][-1])], "adaptive_log_softmax_with_loss")


@composite()
def adaptive_log_softmax_with_loss(input: Tensor, label: Tensor, head_weight: Tensor,
                                   tail_weights: Attr[Sequence[Sequence[Tensor]]], cutoffs: Attr[Sequence[int]],
                                   head_bias: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Adaptive softmax: log-probabilities of labels, with rare classes in clusters behind smaller maps.

    Classes below ``cutoffs[0]`` belong to the head; each following pair of cutoffs is a cluster, which has one more
    column in the head.

    Args:
        input: Features of shape ``[N, D]``, or ``[D]`` for one sample.
        label: Integer classes in ``[0, cutoffs[-1])``, of shape ``[N]``, or 0-D for one sample.
        head_weight: Weights of the head, of shape ``[D, cutoffs[0] + len(cutoffs) - 1]``.
        tail_weights: For each cluster a pair of weights, of shapes ``[D, H]`` and ``[H, size of the cluster]``.
        cutoffs: Increasing integers: where clusters begin; the last is the number of classes.
        head_bias: Bias of the head. Default: None.

    Returns:
        Pair of the log-probability of each label, of shape ``[N]``, and the mean of their negatives.

    Examples:
        >>> x, head, tail = bireme.zeros([1, 2]), bireme.zeros([2, 2]), [[bireme.zeros([2, 1]), bireme.zeros([1, 2])]]
        >>> label = bireme.to_tensor([2])
        >>> found, loss = bireme.nn.functional.adaptive_log_softmax_with_loss(x, label, head, tail, [1, 3])
        >>> round(found.item(), 4), round(loss.item(), 4)
        (-1.3863, 1.3863)
    """
    where = "adaptive_log_softmax_with_loss"
    single = input.ndim == 1
    if input.ndim not in (1, 2) or label.ndim != input.ndim - 1 or label.dtype.kind != "i":
        got = f"shapes {input.shape} and {label.shape}"
        raise errors.bad(f"{where}(input, label)", "shapes [N, width] and [N], labels integers", described=got)
    if not single and label.shape != input.shape[:1]:
        raise errors.bad(f"{where}(label)", f"shape {input.shape[:1]}", label)
    cutoffs = tuple(int(c) for c in cutoffs)
    if len(tail_weights) < len(cutoffs) - 1:
        raise errors.bad(
            f"{where}(tail_weights)",
            f"{len(cutoffs) - 1} pairs of weights, one for each cluster",
            described=f"{len(tail_weights)}",
        )
    if single:
        input, label = reshape.unsqueeze(input, 0), reshape.unsqueeze(label, 0)
    places = cluster_of(label, cutoffs)
    head = matmul(input, head_weight)
    loss = nll_of_logits(head if head_bias is None else head + head_bias, places[0], -100)
    for (first, second), place in zip(tail_weights, places[1:]):
        loss = loss + nll_of_logits(matmul(matmul(input, first), second), place, -100)
    return -(reshape.squeeze(loss, 0) if single else loss), reductions.mean(loss)
