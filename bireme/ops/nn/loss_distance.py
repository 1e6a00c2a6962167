"""Losses and distances of vectors: similarity, pairs, triplets, and margins between classes."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, NARROW
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.linalg.matmul import matmul
from bireme.ops.linalg.norms import norm
from bireme.ops.manipulation import reshape, shapes
from bireme.ops.math import clip, logic
from bireme.ops.math.arithmetic import cast
from bireme.ops.math.elementwise import sqrt
from bireme.ops.nn.loss import cross_entropy, must_reduce, only_where, reduced
from bireme.ops.reduction import reductions


@composite(plain=True, name_arg=False)
def cosine_similarity(x1: Tensor, x2: Tensor, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between vectors along an axis: ``sum(x1 * x2) / max(norm(x1) * norm(x2), eps)``.

    Args:
        x1: Tensor of a floating-point dtype.
        x2: Tensor of a shape that broadcasts with that of ``x1``.
        axis: Axis of the vectors. Default: 1.
        eps: Least denominator. Default: 1e-08.

    Returns:
        Tensor of the common shape without ``axis``.

    Examples:
        >>> x1, x2 = bireme.to_tensor([[1.0, 0.0]]), bireme.to_tensor([[3.0, 4.0]])
        >>> round(bireme.nn.functional.cosine_similarity(x1, x2).item(), 4)
        0.6
    """
    ndim = max(x1.ndim, x2.ndim)
    if not -ndim <= axis < ndim:
        raise errors.bad("cosine_similarity(axis)", f"an axis in [{-ndim}, {ndim - 1}]", axis, kind=IndexError)
    narrow = x1.dtype if x1.dtype is x2.dtype and x1.dtype in NARROW else None
    # float16 ends at 65504, which a sum of squares soon exceeds; and the square of eps is 0 there
    x1, x2 = reductions.single(x1), reductions.single(x2)
    if x1.shape != x2.shape:  # a vector that is repeated along the axis is as long as what it is repeated for
        shape = shapes.broadcast_shape(x1.shape, x2.shape)
        x1, x2 = shapes.expand(x1, shape), shapes.expand(x2, shape)
    both = reductions.sum(x1 * x2, axis=axis)
    sizes = reductions.sum(x1 * x1, axis=axis) * reductions.sum(x2 * x2, axis=axis)
    found = both / sqrt(clip.clip_number(sizes, eps * eps))
    return found if narrow is None else found.astype(narrow)


@composite(plain=True)
def pairwise_distance(x: Tensor, y: Tensor, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Distance between vectors: the p-norm of ``x - y + epsilon`` along the last axis.

    Args:
        x: Tensor of vectors, usually of shape ``[N, D]``.
        y: Tensor of a shape that broadcasts with that of ``x``.
        p: The p of the norm. Default: 2.0.
        epsilon: Number added to each difference, which keeps the gradient finite. Default: 1e-06.
        keepdim: Whether the last axis is kept with size 1. Default: False.

    Returns:
        Tensor of the common shape without the last axis, or with size 1 there.

    Examples:
        >>> x, y = bireme.to_tensor([3.0, 4.0]), bireme.to_tensor([0.0, 0.0])
        >>> bireme.nn.functional.pairwise_distance(x, y, epsilon=0.0).item()
        5.0
    """
    return norm(x - y + epsilon if epsilon else x - y, p, axis=-1, keepdim=keepdim)


@composite(plain=True)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, label: Tensor, margin: float = 0, reduction: str = "mean"
) -> Tensor:
    """Loss of pairs by their cosine: ``1 - cos`` where the label is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        input1: Vectors of shape ``[D]`` or ``[N, D]``.
        input2: Vectors of the same shape.
        label: Classes 1 (similar) and -1 (dissimilar), of shape ``[N]``, of dtype int32, int64, float32 or float64.
        margin: Cosine up to which dissimilar pairs cost nothing. Default: 0.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each pair. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses of shape ``[N]`` with ``'none'``.

    Examples:
        >>> x = bireme.to_tensor([[1.0, 0.0]])
        >>> bireme.nn.functional.cosine_embedding_loss(x, x, bireme.to_tensor([-1]), margin=0.25).item()
        0.75
    """
    where = "cosine_embedding_loss"
    must_reduce(reduction, where)
    if label.ndim != 1:
        raise errors.bad(f"{where}(label)", "a 1-D tensor", label)
    if label.dtype.kind not in "if" or label.dtype.itemsize < 4:
        raise errors.bad(
            f"{where}(label)",
            "one of int32, int64, float32, float64",
            described=label.dtype.name,
            kind=errors.DtypeError,
        )
    if input1.shape != input2.shape:
        raise errors.bad(f"{where}(input2)", f"the shape of input1, {input1.shape}", input2)
    if input1.ndim > 2:
        raise errors.bad(f"{where}(input1)", "a 1-D or 2-D tensor", input1)
    first, second = reductions.single(input1), reductions.single(input2)
    product = reductions.sum(first * second, axis=-1)
    sizes = (reductions.sum(first.square(), axis=-1) + 1e-12) * (reductions.sum(second.square(), axis=-1) + 1e-12)
    cosine = product / sqrt(sizes)
    near = only_where(1 - cosine, logic.equal(label, 1))
    far = only_where(clip.clip_number(cosine - margin, 0.0), logic.equal(label, -1))
    return reduced(reductions.rounded_as(input1, near + far), reduction, where)


@composite(plain=True)
def triplet_margin_loss(
    input: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Triplet loss: ``max(0, d(input, positive) - d(input, negative) + margin)`` with distances of a p-norm.

    Args:
        input: Anchors, usually of shape ``[N, D]``.
        positive: Samples that should be near, of the same shape.
        negative: Samples that should be far, of the same shape.
        margin: Non-negative number by which the negative should be farther. Default: 1.0.
        p: The p of the norm. Default: 2.
        epsilon: Number added to each difference. Default: 1e-06.
        swap: Whether the distance between positive and negative is used where it is smaller than that between anchor
            and negative. Default: False.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each triplet. Default: ``'mean'``.

    Returns:
        0-D tensor, or with ``'none'`` the losses in the shape of ``input`` without its last axis.

    Examples:
        >>> x = bireme.to_tensor([[0.0, 0.0]])
        >>> round(bireme.nn.functional.triplet_margin_loss(x, x + 3, x, p=1).item(), 2)
        7.0
    """
    where = "triplet_margin_loss"
    must_reduce(reduction, where)
    if margin < 0:
        raise errors.bad(f"{where}(margin)", "a non-negative number", margin, kind=errors.for_number(margin))
    if not input.shape == positive.shape == negative.shape:
        raise errors.bad(
            f"{where}(positive, negative)",
            f"the shape of input, {input.shape}",
            described=f"shapes {positive.shape} and {negative.shape}",
            kind=errors.ShapeError,
        )
    near, far = pairwise_distance(input, positive, p, epsilon), pairwise_distance(input, negative, p, epsilon)
    far = clip.minimum(far, pairwise_distance(positive, negative, p, epsilon)) if swap else far
    return reduced(clip.clip_number(near - far + margin, 0.0), reduction, where)


@composite()
def triplet_margin_with_distance_loss(input: Tensor, positive: Tensor, negative: Tensor,
                                      distance_function: Attr[Callable[[Tensor, Tensor], Tensor]] = None,
                                      margin: float = 1.0, swap: bool = False,
                                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Triplet loss with any distance: ``max(0, d(input, positive) - d(input, negative) + margin)``.

    Args:
        input: Anchors, usually of shape ``[N, D]``.
        positive: Samples that should be near, of the same shape.
        negative: Samples that should be far, of the same shape.
        distance_function: Function of two tensors that returns their distances; ``None`` means ``pairwise_distance``.
            Default: None.
        margin: Non-negative number by which the negative should be farther. Default: 1.0.
        swap: Whether the distance between positive and negative is used where it is smaller than that between anchor
            and negative. Default: False.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each triplet. Default: ``'mean'``.

    Returns:
        0-D tensor, or with ``'none'`` the losses in the shape that the distances have.

    Examples:
        >>> x, city = bireme.to_tensor([[0.0, 0.0]]), lambda a, b: (a - b).abs().sum(-1)
        >>> bireme.nn.functional.triplet_margin_with_distance_loss(x, x + 3, x, city).item()
        7.0
    """
    where = "triplet_margin_with_distance_loss"
    must_reduce(reduction, where)
    if margin < 0:
        raise errors.bad(f"{where}(margin)", "a non-negative number", margin, kind=errors.for_number(margin))
    if not input.shape == positive.shape == negative.shape:
        raise errors.bad(
            f"{where}(positive, negative)",
            f"the shape of input, {input.shape}",
            described=f"shapes {positive.shape} and {negative.shape}",
            kind=errors.ShapeError,
        )
    distance: Callable = pairwise_distance if distance_function is None else distance_function
    near, far = distance(input, positive), distance(input, negative)
    far = clip.minimum(far, distance(positive, negative)) if swap else far
    return reduced(clip.clip_number(near - far + margin, 0.0), reduction, where)


@composite(plain=True, name_arg=False)
def npair_loss(anchor: Tensor, positive: Tensor, labels: Tensor, l2_reg: float = 0.002) -> Tensor:
    """N-pair loss: cross entropy of the products of anchors and positives, where equal labels belong together.

    ``l2_reg`` adds a penalty: ``0.25 * l2_reg`` times the mean squared length of the anchors plus that of the
    positives.

    Args:
        anchor: Vectors of shape ``[N, D]``.
        positive: Vectors of the same shape, one for each anchor.
        labels: Class of each pair, of shape ``[N]``.
        l2_reg: Weight of the penalty. Default: 0.002.

    Returns:
        0-D tensor.

    Examples:
        >>> x = bireme.to_tensor([[1.0], [2.0]])
        >>> round(bireme.nn.functional.npair_loss(x, x, bireme.to_tensor([0, 0]), 0.0).item(), 4)
        0.9701
    """
    n = anchor.shape[0]
    if anchor.ndim != 2 or positive.shape != anchor.shape or labels._value.sig.size != n:
        got = f"shapes {anchor.shape}, {positive.shape} and {labels.shape}"
        raise errors.bad(
            "npair_loss(anchor, positive, labels)", "two matrices of equal shape and a label per row", described=got
        )
    if not anchor._value.sig.size:
        raise errors.bad(
            "npair_loss(anchor)", "at least one element", described=f"shape {anchor.shape}", kind=errors.ShapeError
        )
    rows = reshape.reshape(labels, [n, 1])
    same = cast(logic.equal(rows, reshape.transpose(rows, [1, 0])), anchor.dtype)
    same = same / reductions.sum(same, axis=1, keepdim=True)
    parts = [reductions.mean(reductions.sum(reductions.single(x).square(), axis=1)) for x in (anchor, positive)]
    products = matmul(anchor, positive, transpose_y=True)
    sizes = reductions.rounded_as(anchor, (parts[0] + parts[1]) * (0.25 * l2_reg))
    return cross_entropy(products, same, soft_label=True) + sizes


# ---------------------------------------------------------------- margins between classes


@op(internal="multi_margin", dtypes=FLOAT, upcast=True)
def multi_margin_of(input: Tensor, label: Tensor, weight: Tensor | None, p: float, margin: float) -> Tensor:
    """What the labelled score lacks to exceed the others by the margin, to the power p; use `multi_margin_loss`."""
    hot = lax.broadcasted_iota(label.dtype, input.shape, 1) == label[:, None]
    own = jnp.sum(jnp.where(hot, input, 0), axis=1, keepdims=True)
    lack = margin - own + input
    counts = ~hot & (lack >= 0)  # what is just at the margin has a gradient, as in Paddle
    loss = jnp.sum(jnp.where(counts, jnp.where(counts, lack, 1) ** p, 0), axis=1) / input.shape[1]
    return loss if weight is None else loss * weight[label]


multi_margin_of.infer(lambda input, label: sig_of(label.shape, input.dtype))
multi_margin_of.index(lambda s: [("label", 0, s["input"].shape[1])], "multi_margin_loss")


@composite(plain=True)
def multi_margin_loss(input: Tensor, label: Tensor, p: float = 1, margin: float = 1.0, weight: Tensor | None = None,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Multi-class hinge loss: the sum over other classes ``j`` of ``max(0, margin - input[label] + input[j]) ** p``.

    The sum is divided by the number of classes.

    Args:
        input: Scores of shape ``[N, C]``, of a floating-point dtype.
        label: Integer classes in ``[0, C)``, of shape ``[N]`` or ``[N, 1]``.
        p: Exponent. Default: 1.
        margin: Difference from which another class costs nothing. Default: 1.0.
        weight: Weight of each labelled class, of shape ``[C]``. Default: None.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses of shape ``[N]`` with ``'none'``.

    Examples:
        >>> bireme.nn.functional.multi_margin_loss(bireme.to_tensor([[1.0, 0.5]]), bireme.to_tensor([0])).item()
        0.25
    """
    must_reduce(reduction, "multi_margin_loss")
    if input.ndim != 2:
        raise errors.bad("multi_margin_loss(input)", "shape [batch, classes]", input)
    if label.shape not in ([input.shape[0]], [input.shape[0], 1]) or label.dtype.kind != "i":
        raise errors.bad(
            "multi_margin_loss(label)",
            f"an integer tensor of shape {input.shape[:1]}",
            label,
            kind=errors.for_integer(label),
        )
    if weight is not None and weight.shape != input.shape[1:]:
        raise errors.bad("multi_margin_loss(weight)", f"shape {input.shape[1:]}, one weight for each class", weight)
    label = reshape.reshape(label, [-1]) if label.ndim == 2 else label
    return reduced(multi_margin_of(input, label, weight, float(p), margin), reduction, "multi_margin_loss")


@op(internal="multi_label_margin", dtypes=FLOAT, upcast=True)
def multi_label_margin_of(input: Tensor, label: Tensor) -> Tensor:
    """What each labelled score lacks to exceed each other one by 1; use `multi_label_margin_loss`."""
    classes = input.shape[-1]
    named = jnp.cumsum((label < 0).astype(jnp.int32), axis=-1) == 0  # up to the first negative one
    hot = (jnp.arange(classes, dtype=label.dtype) == label[..., None]) & named[..., None]
    target = hot.any(axis=-2)
    own = jnp.sum(jnp.where(hot, input[..., None, :], 0), axis=-1)
    lack = jnp.maximum(1 - own[..., None] + input[..., None, :], 0)
    lack = jnp.where(named[..., None] & ~target[..., None, :], lack, 0)
    return jnp.sum(lack, axis=(-2, -1)) / classes


multi_label_margin_of.infer(lambda input: sig_of(input.shape[:-1], input.dtype))
multi_label_margin_of.index(lambda s: [("label", -1, s["input"].shape[-1])], "multi_label_margin_loss")


@composite(plain=True)
def multi_label_margin_loss(input: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    """Hinge loss of several labels: the sum over labels ``i`` and other classes ``j`` of
    ``max(0, 1 - input[i] + input[j])``.

    The sum is divided by the number of classes.

    Args:
        input: Scores of shape ``[N, C]``, of a floating-point dtype.
        label: Integer classes of each sample, of the same shape; those from the first -1 on are not read.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses of shape ``[N]`` with ``'none'``.

    Examples:
        >>> x, label = bireme.to_tensor([[1.0, 0.5]]), bireme.to_tensor([[0, -1]])
        >>> bireme.nn.functional.multi_label_margin_loss(x, label).item()
        0.25
    """
    must_reduce(reduction, "multi_label_margin_loss")
    if input.ndim != 2 or label.shape != input.shape or label.dtype.kind != "i":
        raise errors.bad(
            "multi_label_margin_loss(label)", f"a 2-D integer tensor of the shape of input, {input.shape}", label
        )
    return reduced(multi_label_margin_of(input, label), reduction, "multi_label_margin_loss")
