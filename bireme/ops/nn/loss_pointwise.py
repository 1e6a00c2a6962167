"""Losses of single elements: binary cross entropies, divergences of distributions, likelihoods, margins by sign.

Where Paddle's loss is one operator its labels are constants: they get no gradient, even if they are computed from
parameters.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, float32, int32, int64
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import broadcast_shape, sum_to
from bireme.ops.manipulation import reshape
from bireme.ops.math import logic
from bireme.ops.math.arithmetic import cast
from bireme.ops.math.elementwise import exp, log, sigmoid
from bireme.ops.math.special import not_negative
from bireme.ops.nn.activation import log_sigmoid, relu
from bireme.ops.nn.linear import one_hot
from bireme.ops.nn.loss import must_float, must_reduce, only_where, reduced
from bireme.ops.reduction import reductions


def _same_shape(where: str, name: str, x: Tensor, y: Tensor) -> None:
    if x.shape != y.shape:
        raise errors.bad(where, f"the shape of {name}, {x.shape}", y)


# ---------------------------------------------------------------- two classes


@op(internal="bce", promote="input label", dtypes=FLOAT, numpy=True, amp="high", constants="label")
def bce_of(input: Tensor, label: Tensor) -> Tensor:
    """Binary cross entropy of probabilities, logarithms no less than -100; use `binary_cross_entropy`."""
    return -(label * jnp.maximum(jnp.log(input), -100) + (1 - label) * jnp.maximum(jnp.log(1 - input), -100))


bce_of.infer(
    lambda input, label: sig_of(broadcast_shape("binary_cross_entropy", input.shape, label.shape), input.dtype)
)


@bce_of.grad(numpy=True)
def _(g, input, label, sigs):
    slope = (input - label) / jnp.maximum(input * (1 - input), 1e-12 if input.dtype.itemsize > 2 else 6e-8)
    return sum_to(g * slope, sigs[0]), None


@composite(plain=True, c_ops={"bce_loss": "input label; reduction='none'"})
def binary_cross_entropy(input: Tensor, label: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Binary cross entropy of probabilities: ``-label * log(input) - (1 - label) * log(1 - input)``.

    Logarithms are limited to at least -100. For logits use ``binary_cross_entropy_with_logits``, which is more
    accurate.

    Args:
        input: Probabilities in ``[0, 1]``.
        label: Targets in ``[0, 1]``, of the same shape; they get no gradient.
        weight: Tensor that the losses are multiplied by; it broadcasts. Default: None.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses in the shape of ``input`` with ``'none'``.

    Examples:
        >>> round(bireme.nn.functional.binary_cross_entropy(bireme.to_tensor([0.5]), bireme.to_tensor([1.0])).item(), 4)
        0.6931
    """
    must_reduce(reduction, "binary_cross_entropy")
    _same_shape("binary_cross_entropy(label)", "input", input, label)
    loss = bce_of(input, label)
    return reduced(loss if weight is None else loss * weight, reduction, "binary_cross_entropy")


def _tail(x):
    """log(1 + exp(-|x|))."""
    return jnp.log1p(jnp.exp(-jnp.abs(x)))


@op(internal="logits_bce", promote="logit label", dtypes=FLOAT, numpy=True, amp="high", constants="label",
    kernels="sigmoid_cross_entropy_with_logits")  # fmt: skip
def logits_bce_of(logit: Tensor, label: Tensor) -> Tensor:
    """Binary cross entropy of logits without overflow; use `binary_cross_entropy_with_logits`."""
    return jnp.maximum(logit, 0) - logit * label + _tail(logit)


logits_bce_of.infer(
    lambda logit, label: sig_of(
        broadcast_shape("binary_cross_entropy_with_logits", logit.shape, label.shape), logit.dtype
    )
)


def _chance(x):
    """1 / (1 + exp(-x))."""
    small = jnp.exp(-jnp.abs(x))
    return jnp.where(x >= 0, 1, small) / (1 + small)


@logits_bce_of.grad(numpy=True)
def _(g, logit, label, sigs):
    # not sigmoid less label: for a logit that is right by far, that is a difference of two ones
    return sum_to(g * ((1 - label) * _chance(logit) - label * _chance(-logit)), sigs[0]), None


@op(internal="weighed_bce", promote="logit label pos_weight", dtypes=FLOAT, numpy=True, amp="high",
    constants="label pos_weight")  # fmt: skip
def weighed_bce_of(logit: Tensor, label: Tensor, pos_weight: Tensor) -> Tensor:
    """Binary cross entropy of logits with a weight of positive labels; use `binary_cross_entropy_with_logits`."""
    tail = _tail(logit)
    return pos_weight * label * (jnp.maximum(-logit, 0) + tail) + (1 - label) * (jnp.maximum(logit, 0) + tail)


@weighed_bce_of.infer
def _(logit, label, pos_weight):
    where = "binary_cross_entropy_with_logits"
    return sig_of(
        broadcast_shape(where, broadcast_shape(where, logit.shape, label.shape), pos_weight.shape), logit.dtype
    )


@weighed_bce_of.grad(numpy=True)
def _(g, logit, label, pos_weight, sigs):
    return sum_to(g * ((1 - label) * _chance(logit) - pos_weight * label * _chance(-logit)), sigs[0]), None, None


@composite(plain=True)
def binary_cross_entropy_with_logits(
    logit: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy of logits: that of ``sigmoid(logit)``, computed without overflow.

    Args:
        logit: Logits of a floating-point dtype.
        label: Targets in ``[0, 1]``, of the same shape; they get no gradient.
        weight: Tensor that the losses are multiplied by; it broadcasts. Default: None.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        pos_weight: Tensor that the terms of positive labels are multiplied by; it broadcasts and gets no gradient.
            Default: None.

    Returns:
        0-D tensor, or the losses in the shape of ``logit`` with ``'none'``.

    Examples:
        >>> logit, label = bireme.to_tensor([0.0]), bireme.to_tensor([1.0])
        >>> round(bireme.nn.functional.binary_cross_entropy_with_logits(logit, label).item(), 4)
        0.6931
    """
    where = "binary_cross_entropy_with_logits"
    must_reduce(reduction, where)
    _same_shape(f"{where}(label)", "logit", logit, label)
    loss = logits_bce_of(logit, label) if pos_weight is None else weighed_bce_of(logit, label, pos_weight)
    return reduced(loss if weight is None else loss * weight, reduction, where)


@composite(plain=True)
def sigmoid_focal_loss(
    logit: Tensor,
    label: Tensor,
    normalizer: Tensor | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
) -> Tensor:
    """Focal loss: binary cross entropy of logits, in which samples that are classified well count less.

    With ``p`` the probability of the wrong class, the cross entropy is multiplied by ``p ** gamma``, and by ``alpha``
    for positive and ``1 - alpha`` for negative labels.

    Args:
        logit: Logits of a floating-point dtype.
        label: Targets in ``[0, 1]``, of the same shape.
        normalizer: Tensor of one element that the losses are divided by, usually the number of positive labels.
            Default: None.
        alpha: Weight of positive labels. Default: 0.25.
        gamma: Exponent; 0 is the plain cross entropy. Default: 2.0.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'sum'``.

    Returns:
        0-D tensor, or the losses in the shape of ``logit`` with ``'none'``.

    Examples:
        >>> logit, label = bireme.to_tensor([0.0]), bireme.to_tensor([1.0])
        >>> round(bireme.nn.functional.sigmoid_focal_loss(logit, label).item(), 4)
        0.0433
    """
    must_reduce(reduction, "sigmoid_focal_loss")
    if normalizer is not None and normalizer.ndim > 1:
        raise errors.bad(
            "sigmoid_focal_loss(normalizer)",
            "a number, or a tensor of shape [1]",
            normalizer,
            kind=errors.for_number(normalizer),
        )
    _same_shape("sigmoid_focal_loss(label)", "logit", logit, label)
    label = cast(label, logit.dtype) if label.dtype is not logit.dtype else label
    wrong = sigmoid(-logit) * label + sigmoid(logit) * (1 - label)
    weight = label * alpha + (1 - label) * (1 - alpha)
    loss = weight * wrong.pow(gamma) * logits_bce_of(logit, label)
    return reduced(loss if normalizer is None else loss / normalizer, reduction, "sigmoid_focal_loss")


@op(internal="log_loss", promote="input label", dtypes=FLOAT, numpy=True, amp="high", constants="label")
def log_loss_of(input: Tensor, label: Tensor, epsilon: float) -> Tensor:
    """Cross entropy of probabilities, `epsilon` added inside of the logarithms; use `log_loss`."""
    return -label * jnp.log(input + epsilon) - (1 - label) * jnp.log(1 - input + epsilon)


log_loss_of.infer(lambda input, label: sig_of(broadcast_shape("log_loss", input.shape, label.shape), input.dtype))


@log_loss_of.grad(numpy=True)
def _(g, input, label, epsilon, sigs):
    return sum_to(g * ((1 - label) / (1 - input + epsilon) - label / (input + epsilon)), sigs[0]), None


@composite(plain=True)
def log_loss(input: Tensor, label: Tensor, epsilon: float = 0.0001) -> Tensor:
    """Negative log-likelihood of probabilities: ``-label * log(input + epsilon) - (1 - label) * log(1 - input +
    epsilon)``.

    Args:
        input: Probabilities of shape ``[N, 1]``.
        label: Targets in ``[0, 1]``, of the same shape; they get no gradient.
        epsilon: Number added inside of the logarithms. Default: 0.0001.

    Returns:
        Losses of shape ``[N, 1]``.

    Examples:
        >>> round(bireme.nn.functional.log_loss(bireme.to_tensor([[0.5]]), bireme.to_tensor([[1.0]]), 0.0).item(), 4)
        0.6931
    """
    if input.ndim != 2 or input.shape[1] != 1:
        raise errors.bad("log_loss(input)", "shape [N, 1]", input)
    must_float("log_loss(input)", input)
    _same_shape("log_loss(label)", "input", input, label)
    return log_loss_of(input, label, epsilon)


@composite(plain=True)
def soft_margin_loss(input: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    """Logistic loss of two classes: ``log(1 + exp(-label * input))``.

    Args:
        input: Scores.
        label: Classes 1 and -1, of the same shape.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses in the shape of ``input`` with ``'none'``.

    Examples:
        >>> round(bireme.nn.functional.soft_margin_loss(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).item(), 4)
        0.6931
    """
    must_reduce(reduction, "soft_margin_loss")
    _same_shape("soft_margin_loss(label)", "input", input, label)
    product = cast(label, input.dtype) * input
    product = cast(product, float32) if product.dtype in (int32, int64) else product
    return reduced(-log_sigmoid(product), reduction, "soft_margin_loss")


@composite(plain=True)
def multi_label_soft_margin_loss(
    input: Tensor, label: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Binary cross entropy of the logits of several labels, averaged over the classes.

    Args:
        input: Logits with the classes along the last axis, usually of shape ``[N, C]``.
        label: Targets 0 and 1, of the same shape.
        weight: Tensor that the terms are multiplied by; it broadcasts, so ``[C]`` is a weight for each class.
            Default: None.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.

    Returns:
        0-D tensor, or with ``'none'`` the losses in the shape of ``input`` without its last axis.

    Examples:
        >>> x, label = bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([[1.0, 0.0]])
        >>> round(bireme.nn.functional.multi_label_soft_margin_loss(x, label).item(), 4)
        0.6931
    """
    must_reduce(reduction, "multi_label_soft_margin_loss")
    must_float("multi_label_soft_margin_loss(input)", input)
    _same_shape("multi_label_soft_margin_loss(label)", "input", input, label)
    loss = -(label * log_sigmoid(input) + (1 - label) * log_sigmoid(-input))
    loss = reductions.mean(loss if weight is None else loss * weight, axis=-1)
    return reduced(loss, reduction, "multi_label_soft_margin_loss")


@composite(plain=True)
def dice_loss(input: Tensor, label: Tensor, epsilon: float = 0.00001) -> Tensor:
    """Dice loss of segmentation: 1 minus twice the overlap of prediction and label over the sum of both.

    For each sample it is ``1 - 2 * sum(input * label) / (sum(input) + sum(label) + epsilon)`` with one-hot labels.

    Args:
        input: Probabilities of shape ``[N, ..., C]``, of a floating-point dtype.
        label: Integer classes in ``[0, C)``, of shape ``[N, ..., 1]``.
        epsilon: Number added to the denominator. Default: 1e-05.

    Returns:
        0-D tensor: the mean over the batch.

    Examples:
        >>> bireme.nn.functional.dice_loss(bireme.to_tensor([[0.0, 1.0]]), bireme.to_tensor([[1]]), 0.0).item()
        0.0
    """
    if input.ndim < 2:
        raise errors.bad("dice_loss(input)", "at least 2 dimensions", input, kind=AssertionError)
    if label.shape != [*input.shape[:-1], 1]:
        raise errors.bad("dice_loss(label)", f"shape {[*input.shape[:-1], 1]}", label, kind=AssertionError)
    if input.dtype not in FLOAT:
        raise errors.bad(
            "dice_loss(input)", "a floating-point dtype", described=input.dtype.name, kind=errors.ArgumentTypeError
        )
    if label.dtype.kind != "i":
        raise errors.bad(
            "dice_loss(label)", "an integer dtype", described=label.dtype.name, kind=errors.ArgumentTypeError
        )
    wide, axes = reductions.single(input), list(range(1, input.ndim))
    hot = cast(one_hot(reshape.squeeze(label, [-1]), input.shape[-1]), wide.dtype)
    both = reductions.sum(wide * hot, axis=axes)
    found = reductions.mean(1 - both * 2 / (reductions.sum(wide, axis=axes) + reductions.sum(hot, axis=axes) + epsilon))
    return reductions.rounded_as(input, found)


# ---------------------------------------------------------------- distributions


@op(internal="kl", promote="input label", dtypes=FLOAT, numpy=True, amp="high", constants="label", kernels="kldiv_loss")
def kl_of(input: Tensor, label: Tensor) -> Tensor:
    """label * (log(label) - input) where the label is positive, else 0; use `kl_div`."""
    safe = jnp.where(label > 0, label, 1)
    return jnp.where(label > 0, safe * (jnp.log(safe) - input), 0)


kl_of.infer(lambda input, label: sig_of(broadcast_shape("kl_div", input.shape, label.shape), input.dtype))


@kl_of.grad(numpy=True)
def _(g, label, sigs):
    return sum_to(g * jnp.where(label > 0, -label, 0), sigs[0]), None


@op(internal=True, promote="input label", dtypes=FLOAT, numpy=True, amp="high", constants="label")
def kl_of_logs(input: Tensor, label: Tensor) -> Tensor:
    """exp(label) * (label - input); use `kl_div`."""
    return jnp.exp(label) * (label - input)


kl_of_logs.infer(lambda input, label: sig_of(broadcast_shape("kl_div", input.shape, label.shape), input.dtype))
kl_of_logs.grad(lambda g, label, sigs: (sum_to(-g * jnp.exp(label), sigs[0]), None), numpy=True)


@composite(plain=True, c_ops={"kldiv_loss": "x:input label reduction='mean' log_target=False"})
def kl_div(input: Tensor, label: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Kullback-Leibler divergence: ``label * (log(label) - input)``, where ``input`` holds log-probabilities.

    Args:
        input: Log-probabilities.
        label: Probabilities, or log-probabilities with ``log_target``, of the same shape; they get no gradient.
        reduction: ``'mean'`` over all elements, ``'batchmean'`` for the sum divided by the size of axis 0, ``'sum'``,
            or ``'none'``. Default: ``'mean'``.
        log_target: Whether ``label`` holds log-probabilities. Default: False.

    Returns:
        0-D tensor, or the terms in the shape of ``input`` with ``'none'``.

    Examples:
        >>> round(bireme.nn.functional.kl_div(bireme.to_tensor([0.0]), bireme.to_tensor([0.5])).item(), 4)
        -0.3466
    """
    if reduction not in ("mean", "sum", "none", "batchmean"):
        raise errors.bad("kl_div(reduction)", "'mean', 'batchmean', 'sum' or 'none'", reduction)
    _same_shape("kl_div(label)", "input", input, label)
    loss = kl_of_logs(input, label) if log_target else kl_of(input, label)
    if reduction == "batchmean":
        total = reductions.sum(reductions.single(loss))
        return reductions.rounded_as(loss, total / input.shape[0] if input.ndim and input.shape[0] else total)
    return reduced(loss, reduction, "kl_div")


@composite()
def gaussian_nll_loss(input: Tensor, label: Tensor, variance: Tensor, full: bool = False, epsilon: float = 1e-6,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Negative log-likelihood of labels under normal distributions with given means and variances.

    It is ``0.5 * (log(variance) + (input - label) ** 2 / variance)``, with variances of at least ``epsilon``.

    Args:
        input: Means.
        label: Samples, of a shape that broadcasts with that of ``input``.
        variance: Non-negative variances in the shape of ``input``, or without its last axis, or with size 1 there.
        full: Whether to add the constant ``0.5 * log(2 * pi)``. Default: False.
        epsilon: Least variance that is used; gradients ignore the limit. Default: 1e-06.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.

    Returns:
        0-D tensor, or the loss of each element with ``'none'``.

    Raises:
        ValueError: If a variance is negative or its shape does not fit.

    Examples:
        >>> one = bireme.to_tensor([1.0])
        >>> bireme.nn.functional.gaussian_nll_loss(one, one * 3, one).item()
        2.0
    """
    must_reduce(reduction, "gaussian_nll_loss")
    if variance.shape != input.shape:
        if variance.shape == input.shape[:-1]:
            variance = reshape.unsqueeze(variance, -1)
        elif variance.shape != [*input.shape[:-1], 1]:
            raise errors.bad(
                "gaussian_nll_loss(variance)", f"shape {input.shape} or {[*input.shape[:-1], 1]}", variance
            )
    not_negative("gaussian_nll_loss(variance)", variance)
    variance = floor_of(variance, epsilon)
    loss = 0.5 * (log(variance) + (input - label).square() / variance)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction, "gaussian_nll_loss")


@op(internal="floor", dtypes=FLOAT, passes="x", numpy=True)
def floor_of(x: Tensor, low: float) -> Tensor:
    """x, no less than `low`; gradients pass as if nothing had been done. Use `gaussian_nll_loss`."""
    return jnp.maximum(x, low)


floor_of.infer(lambda x: x)
floor_of.grad(lambda g: g, numpy=True)


@op(internal="stirling", dtypes=FLOAT, numpy=True)
def stirling_of(label: Tensor) -> Tensor:
    """Stirling's approximation of log(label!) where the label exceeds 1, else 0; use `poisson_nll_loss`."""
    safe = jnp.where(label > 1, label, 1)
    return jnp.where(label > 1, safe * jnp.log(safe) - safe + 0.5 * jnp.log(2 * np.pi * safe), 0)


stirling_of.infer(lambda label: label)


@composite(plain=True)
def poisson_nll_loss(input: Tensor, label: Tensor, log_input: bool = True, full: bool = False, epsilon: float = 1e-8,
                     reduction: str = "mean") -> Tensor:  # fmt: skip
    """Negative log-likelihood of counts under Poisson distributions.

    It is ``exp(input) - label * input``, or ``input - label * log(input + epsilon)`` without ``log_input``.

    Args:
        input: Logarithms of the rates, or the rates themselves, of a floating-point dtype.
        label: Counts, of the same shape.
        log_input: Whether ``input`` holds logarithms. Default: True.
        full: Whether to add Stirling's approximation of ``log(label!)`` for labels above 1. Default: False.
        epsilon: Positive number added inside of the logarithm. Default: 1e-08.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses in the shape of ``input`` with ``'none'``.

    Examples:
        >>> bireme.nn.functional.poisson_nll_loss(bireme.to_tensor([0.0]), bireme.to_tensor([2.0])).item()
        1.0
    """
    must_reduce(reduction, "poisson_nll_loss")
    if epsilon <= 0:
        raise errors.bad("poisson_nll_loss(epsilon)", "a positive number", epsilon, kind=errors.for_number(epsilon))
    must_float("poisson_nll_loss(input)", input)
    _same_shape("poisson_nll_loss(label)", "input", input, label)
    loss = exp(input) - label * input if log_input else input - label * log(input + epsilon)
    return reduced(loss + stirling_of(label) if full else loss, reduction, "poisson_nll_loss")


# ---------------------------------------------------------------- margins by sign


@composite(plain=True)
def hinge_embedding_loss(input: Tensor, label: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """Hinge loss of distances: ``input`` where the label is 1, ``max(0, margin - input)`` where it is -1.

    Args:
        input: Distances, usually of pairs.
        label: Classes 1 (similar) and -1 (dissimilar), of a shape that broadcasts; other labels give 0.
        margin: Distance from which dissimilar pairs cost nothing. Default: 1.0.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses in the common shape with ``'none'``.

    Examples:
        >>> x, label = bireme.to_tensor([0.25, 0.25]), bireme.to_tensor([1.0, -1.0])
        >>> bireme.nn.functional.hinge_embedding_loss(x, label, reduction="none").tolist()
        [0.25, 0.75]
    """
    must_reduce(reduction, "hinge_embedding_loss")
    lack = relu(margin - input)  # not clip, whose gradient at the margin itself is one
    loss = only_where(input, logic.equal(label, 1)) + only_where(lack, logic.equal(label, -1))
    return reduced(loss, reduction, "hinge_embedding_loss")


@composite(plain=True)
def margin_ranking_loss(
    input: Tensor, other: Tensor, label: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """Ranking loss of pairs: ``max(0, -label * (input - other) + margin)``.

    Args:
        input: Scores.
        other: Scores of what is compared with them.
        label: 1 where ``input`` should be larger, -1 where ``other`` should.
        margin: Difference from which a pair costs nothing. Default: 0.0.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each pair. Default: ``'mean'``.

    Returns:
        0-D tensor, or with ``'none'`` the losses in the common shape of the three tensors, which broadcast.

    Examples:
        >>> one = bireme.to_tensor([1.0])
        >>> bireme.nn.functional.margin_ranking_loss(one, one * 3, one, margin=0.5).item()
        2.5
    """
    must_reduce(reduction, "margin_ranking_loss")
    loss = (other - input) * label
    return reduced(relu(loss + margin if margin else loss), reduction, "margin_ranking_loss")
