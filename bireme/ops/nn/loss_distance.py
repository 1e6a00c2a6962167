"""Losses and distances of vectors: similarity, pairs, triplets, and margins between classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, float16, float32
from bireme.core.declare.op import Tensor, composite, op
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
    """Cosine of the angle between vectors along an axis.

    >>> bireme.nn.functional.cosine_similarity(bireme.to_tensor([[1.0, 0.0]]), bireme.to_tensor([[2.0, 0.0]])).tolist()
    [1.0]
    """
    ndim = max(x1.ndim, x2.ndim)
    if not -ndim <= axis < ndim:
        raise errors.bad("cosine_similarity(axis)", f"an axis in [{-ndim}, {ndim - 1}]", axis, kind=IndexError)
    narrow = x1.dtype is float16 and x2.dtype is float16
    # float16 ends at 65504, which a sum of squares soon exceeds; and the square of eps is 0 there
    x1, x2 = [cast(x, float32) if x.dtype is float16 else x for x in (x1, x2)]
    if x1.shape != x2.shape:  # a vector that is repeated along the axis is as long as what it is repeated for
        shape = shapes.broadcast_shape(x1.shape, x2.shape)
        x1, x2 = shapes.expand(x1, shape), shapes.expand(x2, shape)
    both = reductions.sum(x1 * x2, axis=axis)
    sizes = reductions.sum(x1 * x1, axis=axis) * reductions.sum(x2 * x2, axis=axis)
    found = both / sqrt(clip.clip_number(sizes, eps * eps))
    return cast(found, float16) if narrow else found


@composite(plain=True)
def pairwise_distance(x: Tensor, y: Tensor, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x - y + epsilon along the last axis.

    >>> bireme.nn.functional.pairwise_distance(bireme.to_tensor([3.0, 4.0]), bireme.to_tensor([0.0, 0.0]), epsilon=0.0).item()
    5.0
    """
    return norm(x - y + epsilon if epsilon else x - y, p, axis=-1, keepdim=keepdim)


@composite(plain=True)
def cosine_embedding_loss(input1: Tensor, input2: Tensor, label: Tensor, margin: float = 0, reduction: str = "mean") -> Tensor:
    """1 minus the cosine where the label is 1, what the cosine exceeds the margin by where it is -1.

    >>> x = bireme.to_tensor([[1.0, 0.0]])
    >>> bireme.nn.functional.cosine_embedding_loss(x, x, bireme.to_tensor([-1]), margin=0.25).item()
    0.75
    """
    where = "cosine_embedding_loss"
    must_reduce(reduction, where)
    if label.ndim != 1:
        raise errors.bad(f"{where}(label)", "one axis", label)
    if label.dtype.kind not in "if" or label.dtype.itemsize < 4:
        raise errors.bad(f"{where}(label)", "one of int32, int64, float32, float64", label.dtype.name, kind=errors.NoKernel)
    if input1.shape != input2.shape:
        raise errors.bad(f"{where}(input2)", f"the shape of input1, {input1.shape}", input2)
    if input1.ndim > 2:
        raise errors.bad(f"{where}(input1)", "one or two axes", input1)
    product = reductions.sum(input1 * input2, axis=-1)
    sizes = (reductions.sum(input1.square(), axis=-1) + 1e-12) * (reductions.sum(input2.square(), axis=-1) + 1e-12)
    cosine = product / sqrt(sizes)
    near = only_where(1 - cosine, logic.equal(label, 1))
    far = only_where(clip.clip_number(cosine - margin, 0.0), logic.equal(label, -1))
    return reduced(near + far, reduction, where)


@composite(plain=True)
def triplet_margin_loss(input: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, epsilon: float = 1e-6,
                        swap: bool = False, reduction: str = "mean") -> Tensor:  # fmt: skip
    """What the distance to the negative lacks to exceed that to the positive by the margin.

    >>> x = bireme.to_tensor([[0.0, 0.0]])
    >>> round(bireme.nn.functional.triplet_margin_loss(x, x + 3, x, p=1).item(), 2)
    7.0
    """
    where = "triplet_margin_loss"
    must_reduce(reduction, where)
    if margin < 0:
        raise errors.bad(f"{where}(margin)", "a number of 0 or more", margin)
    if not input.shape == positive.shape == negative.shape:
        raise errors.bad(f"{where}(positive, negative)", f"the shape of input, {input.shape}", f"shapes {positive.shape} and {negative.shape}")
    near, far = pairwise_distance(input, positive, p, epsilon), pairwise_distance(input, negative, p, epsilon)
    far = clip.minimum(far, pairwise_distance(positive, negative, p, epsilon)) if swap else far
    return reduced(clip.clip_number(near - far + margin, 0.0), reduction, where)


@composite()
def triplet_margin_with_distance_loss(input: Tensor, positive: Tensor, negative: Tensor, distance_function: Any = None, margin: float = 1.0,
                                      swap: bool = False, reduction: str = "mean") -> Tensor:  # fmt: skip
    """The triplet margin loss with a distance of one's own; by default the Euclidean one.

    >>> x = bireme.to_tensor([[0.0, 0.0]])
    >>> bireme.nn.functional.triplet_margin_with_distance_loss(x, x + 3, x, lambda a, b: (a - b).abs().sum(-1)).item()
    7.0
    """
    where = "triplet_margin_with_distance_loss"
    must_reduce(reduction, where)
    if margin < 0:
        raise errors.bad(f"{where}(margin)", "a number of 0 or more", margin)
    if not input.shape == positive.shape == negative.shape:
        raise errors.bad(f"{where}(positive, negative)", f"the shape of input, {input.shape}", f"shapes {positive.shape} and {negative.shape}")
    distance: Callable = pairwise_distance if distance_function is None else distance_function
    near, far = distance(input, positive), distance(input, negative)
    far = clip.minimum(far, distance(positive, negative)) if swap else far
    return reduced(clip.clip_number(near - far + margin, 0.0), reduction, where)


@composite(plain=True, name_arg=False)
def npair_loss(anchor: Tensor, positive: Tensor, labels: Tensor, l2_reg: float = 0.002) -> Tensor:
    """Cross entropy of the products of anchors with positives, where equal labels belong together, and a squared norm.

    >>> x = bireme.to_tensor([[1.0], [2.0]])
    >>> round(bireme.nn.functional.npair_loss(x, x, bireme.to_tensor([0, 0]), 0.0).item(), 4)
    0.9701
    """
    n = anchor.shape[0]
    if anchor.ndim != 2 or positive.shape != anchor.shape or labels._value.sig.size != n:
        got = f"shapes {anchor.shape}, {positive.shape} and {labels.shape}"
        raise errors.bad("npair_loss(anchor, positive, labels)", "two tables of one shape and a label for each row", got)
    if not anchor._value.sig.size:
        raise errors.bad("npair_loss(anchor)", "one element or more", f"shape {anchor.shape}")
    rows = reshape.reshape(labels, [n, 1])
    same = cast(logic.equal(rows, reshape.transpose(rows, [1, 0])), anchor.dtype)
    same = same / reductions.sum(same, axis=1, keepdim=True)
    sizes = reductions.mean(reductions.sum(anchor.square(), axis=1)) + reductions.mean(reductions.sum(positive.square(), axis=1))
    products = matmul(anchor, positive, transpose_y=True)
    return cross_entropy(products, same, soft_label=True) + sizes * (0.25 * l2_reg)


# ---------------------------------------------------------------- margins between classes


@op(dtypes=FLOAT)
def multi_margin_of(input: Tensor, label: Tensor, weight: Tensor | None, p: float, margin: float) -> Tensor:
    """What the labelled score lacks to exceed the others by the margin, to the power p; use `multi_margin_loss`.

    >>> bireme.nn.functional.multi_margin_loss(bireme.to_tensor([[1.0, 0.5]]), bireme.to_tensor([0])).item()
    0.25
    """
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
    """What the labelled score lacks to exceed the others by the margin, to the power p; the mean over the classes.

    >>> bireme.nn.functional.multi_margin_loss(bireme.to_tensor([[1.0, 0.5]]), bireme.to_tensor([0])).item()
    0.25
    """
    must_reduce(reduction, "multi_margin_loss")
    if input.ndim != 2:
        raise errors.bad("multi_margin_loss(input)", "shape [batch, classes]", input)
    if label.shape not in ([input.shape[0]], [input.shape[0], 1]) or label.dtype.kind != "i":
        raise errors.bad("multi_margin_loss(label)", f"integers of shape {input.shape[:1]}", label)
    if weight is not None and weight.shape != input.shape[1:]:
        raise errors.bad("multi_margin_loss(weight)", f"shape {input.shape[1:]}, one weight for each class", weight)
    label = reshape.reshape(label, [-1]) if label.ndim == 2 else label
    return reduced(multi_margin_of(input, label, weight, float(p), margin), reduction, "multi_margin_loss")


@op(dtypes=FLOAT)
def multi_label_margin_of(input: Tensor, label: Tensor) -> Tensor:
    """What each labelled score lacks to exceed each other one by 1; use `multi_label_margin_loss`.

    >>> bireme.nn.functional.multi_label_margin_loss(bireme.to_tensor([[1.0, 0.5]]), bireme.to_tensor([[0, -1]])).item()
    0.25
    """
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
    """What the scores of several labels, listed up to the first -1, lack to exceed all others by 1; the mean over the classes.

    >>> bireme.nn.functional.multi_label_margin_loss(bireme.to_tensor([[1.0, 0.5]]), bireme.to_tensor([[0, -1]])).item()
    0.25
    """
    must_reduce(reduction, "multi_label_margin_loss")
    if input.ndim != 2 or label.shape != input.shape or label.dtype.kind != "i":
        raise errors.bad("multi_label_margin_loss(label)", f"integers of the shape of input, {input.shape}, with two axes", label)
    return reduced(multi_label_margin_of(input, label), reduction, "multi_label_margin_loss")
