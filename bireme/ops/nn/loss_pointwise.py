"""Losses of single elements: binary cross entropies, divergences of distributions, likelihoods, margins by sign.

Where Paddle's loss is one operator its labels are constants: they get no gradient, even if they are computed from parameters.
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


@op(promote="input label", dtypes=FLOAT, numpy=True, amp="high", constants="label")
def bce_of(input: Tensor, label: Tensor) -> Tensor:
    """Binary cross entropy of probabilities, logarithms no less than -100; use `binary_cross_entropy`.

    >>> bireme.nn.functional.binary_cross_entropy(bireme.to_tensor([1.0]), bireme.to_tensor([0.0])).item()
    100.0
    """
    return -(label * jnp.maximum(jnp.log(input), -100) + (1 - label) * jnp.maximum(jnp.log(1 - input), -100))


bce_of.infer(lambda input, label: sig_of(broadcast_shape("binary_cross_entropy", input.shape, label.shape), input.dtype))


@bce_of.grad(numpy=True)
def _(g, input, label, sigs):
    slope = (input - label) / jnp.maximum(input * (1 - input), 1e-12 if input.dtype.itemsize > 2 else 6e-8)
    return sum_to(g * slope, sigs[0]), None


@composite(plain=True)
def binary_cross_entropy(input: Tensor, label: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Cross entropy of probabilities with labels between 0 and 1.

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


@op(promote="logit label", dtypes=FLOAT, numpy=True, amp="high", constants="label")
def logits_bce_of(logit: Tensor, label: Tensor) -> Tensor:
    """Binary cross entropy of logits without overflow; use `binary_cross_entropy_with_logits`.

    >>> bireme.nn.functional.binary_cross_entropy_with_logits(bireme.to_tensor([200.0]), bireme.to_tensor([0.0])).item()
    200.0
    """
    return jnp.maximum(logit, 0) - logit * label + _tail(logit)


logits_bce_of.infer(lambda logit, label: sig_of(broadcast_shape("binary_cross_entropy_with_logits", logit.shape, label.shape), logit.dtype))


def _chance(x):
    """1 / (1 + exp(-x))."""
    small = jnp.exp(-jnp.abs(x))
    return jnp.where(x >= 0, 1, small) / (1 + small)


@logits_bce_of.grad(numpy=True)
def _(g, logit, label, sigs):
    # not sigmoid less label: for a logit that is right by far, that is a difference of two ones
    return sum_to(g * ((1 - label) * _chance(logit) - label * _chance(-logit)), sigs[0]), None


@op(promote="logit label pos_weight", dtypes=FLOAT, numpy=True, amp="high", constants="label pos_weight")
def weighed_bce_of(logit: Tensor, label: Tensor, pos_weight: Tensor) -> Tensor:
    """Binary cross entropy of logits, the terms of positive labels times their weight; use `binary_cross_entropy_with_logits`.

    >>> zero, one = bireme.to_tensor([0.0]), bireme.to_tensor([1.0])
    >>> round(bireme.nn.functional.binary_cross_entropy_with_logits(zero, one, pos_weight=one * 2).item(), 4)
    1.3863
    """
    tail = _tail(logit)
    return pos_weight * label * (jnp.maximum(-logit, 0) + tail) + (1 - label) * (jnp.maximum(logit, 0) + tail)


@weighed_bce_of.infer
def _(logit, label, pos_weight):
    where = "binary_cross_entropy_with_logits"
    return sig_of(broadcast_shape(where, broadcast_shape(where, logit.shape, label.shape), pos_weight.shape), logit.dtype)


@weighed_bce_of.grad(numpy=True)
def _(g, logit, label, pos_weight, sigs):
    return sum_to(g * ((1 - label) * _chance(logit) - pos_weight * label * _chance(-logit)), sigs[0]), None, None


@composite(plain=True)
def binary_cross_entropy_with_logits(logit: Tensor, label: Tensor, weight: Tensor | None = None, reduction: str = "mean",
                                     pos_weight: Tensor | None = None) -> Tensor:  # fmt: skip
    """Binary cross entropy of the sigmoid of `logit`; `pos_weight` weighs the terms of positive labels.

    >>> round(bireme.nn.functional.binary_cross_entropy_with_logits(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).item(), 4)
    0.6931
    """
    where = "binary_cross_entropy_with_logits"
    must_reduce(reduction, where)
    _same_shape(f"{where}(label)", "logit", logit, label)
    loss = logits_bce_of(logit, label) if pos_weight is None else weighed_bce_of(logit, label, pos_weight)
    return reduced(loss if weight is None else loss * weight, reduction, where)


@composite(plain=True)
def sigmoid_focal_loss(logit: Tensor, label: Tensor, normalizer: Tensor | None = None, alpha: float = 0.25, gamma: float = 2.0,
                       reduction: str = "sum") -> Tensor:  # fmt: skip
    """Binary cross entropy of logits times a power of the error's probability, so that easy samples count less.

    >>> logit, label = bireme.to_tensor([0.0]), bireme.to_tensor([1.0])
    >>> round(bireme.nn.functional.sigmoid_focal_loss(logit, label).item(), 4)
    0.0433
    """
    must_reduce(reduction, "sigmoid_focal_loss")
    if normalizer is not None and normalizer.ndim > 1:
        raise errors.bad("sigmoid_focal_loss(normalizer)", "a number, or one axis of one element", normalizer)
    _same_shape("sigmoid_focal_loss(label)", "logit", logit, label)
    label = cast(label, logit.dtype) if label.dtype is not logit.dtype else label
    wrong = sigmoid(-logit) * label + sigmoid(logit) * (1 - label)
    weight = label * alpha + (1 - label) * (1 - alpha)
    loss = weight * wrong.pow(gamma) * logits_bce_of(logit, label)
    return reduced(loss if normalizer is None else loss / normalizer, reduction, "sigmoid_focal_loss")


@op(promote="input label", dtypes=FLOAT, numpy=True, amp="high", constants="label")
def log_loss_of(input: Tensor, label: Tensor, epsilon: float) -> Tensor:
    """Cross entropy of probabilities, `epsilon` added inside of the logarithms; use `log_loss`.

    >>> round(bireme.nn.functional.log_loss(bireme.to_tensor([[0.5]]), bireme.to_tensor([[1.0]]), 0.0).item(), 4)
    0.6931
    """
    return -label * jnp.log(input + epsilon) - (1 - label) * jnp.log(1 - input + epsilon)


log_loss_of.infer(lambda input, label: sig_of(broadcast_shape("log_loss", input.shape, label.shape), input.dtype))


@log_loss_of.grad(numpy=True)
def _(g, input, label, epsilon, sigs):
    return sum_to(g * ((1 - label) / (1 - input + epsilon) - label / (input + epsilon)), sigs[0]), None


@composite(plain=True)
def log_loss(input: Tensor, label: Tensor, epsilon: float = 0.0001) -> Tensor:
    """Negative log-likelihood of probabilities of shape [N, 1], `epsilon` added inside of the logarithms.

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
    """log(1 + exp(-label * input)) for labels of 1 and -1.

    >>> round(bireme.nn.functional.soft_margin_loss(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).item(), 4)
    0.6931
    """
    must_reduce(reduction, "soft_margin_loss")
    _same_shape("soft_margin_loss(label)", "input", input, label)
    product = cast(label, input.dtype) * input
    product = cast(product, float32) if product.dtype in (int32, int64) else product
    return reduced(-log_sigmoid(product), reduction, "soft_margin_loss")


@composite(plain=True)
def multi_label_soft_margin_loss(input: Tensor, label: Tensor, weight: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Binary cross entropy of the logits of several labels, its mean along the last axis.

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
    """1 minus the overlap of probabilities along the last axis with labels, twice, over the sum of both; mean of the batch.

    >>> bireme.nn.functional.dice_loss(bireme.to_tensor([[0.0, 1.0]]), bireme.to_tensor([[1]]), 0.0).item()
    0.0
    """
    if input.ndim < 2:
        raise errors.bad("dice_loss(input)", "at least two axes", input, kind=AssertionError)
    if label.shape != [*input.shape[:-1], 1]:
        raise errors.bad("dice_loss(label)", f"shape {[*input.shape[:-1], 1]}", label, kind=AssertionError)
    if input.dtype not in FLOAT:
        raise errors.bad("dice_loss(input)", "a floating type", input.dtype.name, kind=errors.Alien)
    if label.dtype.kind != "i":
        raise errors.bad("dice_loss(label)", "an integer type", label.dtype.name, kind=errors.Alien)
    hot = cast(one_hot(reshape.squeeze(label, [-1]), input.shape[-1]), input.dtype)
    axes = list(range(1, input.ndim))
    both = reductions.sum(input * hot, axis=axes)
    return reductions.mean(1 - both * 2 / (reductions.sum(input, axis=axes) + reductions.sum(hot, axis=axes) + epsilon))


# ---------------------------------------------------------------- distributions


@op(promote="input label", dtypes=FLOAT, numpy=True, amp="high", constants="label")
def kl_of(input: Tensor, label: Tensor) -> Tensor:
    """label * (log(label) - input) where the label is positive, else 0; use `kl_div`.

    >>> bireme.nn.functional.kl_div(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).item()
    0.0
    """
    safe = jnp.where(label > 0, label, 1)
    return jnp.where(label > 0, safe * (jnp.log(safe) - input), 0)


kl_of.infer(lambda input, label: sig_of(broadcast_shape("kl_div", input.shape, label.shape), input.dtype))


@kl_of.grad(numpy=True)
def _(g, label, sigs):
    return sum_to(g * jnp.where(label > 0, -label, 0), sigs[0]), None


@op(promote="input label", dtypes=FLOAT, numpy=True, amp="high", constants="label")
def kl_of_logs(input: Tensor, label: Tensor) -> Tensor:
    """exp(label) * (label - input); use `kl_div`.

    >>> bireme.nn.functional.kl_div(bireme.to_tensor([-1.0]), bireme.to_tensor([0.0]), log_target=True).item()
    1.0
    """
    return jnp.exp(label) * (label - input)


kl_of_logs.infer(lambda input, label: sig_of(broadcast_shape("kl_div", input.shape, label.shape), input.dtype))
kl_of_logs.grad(lambda g, label, sigs: (sum_to(-g * jnp.exp(label), sigs[0]), None), numpy=True)


@composite(plain=True)
def kl_div(input: Tensor, label: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Divergence of log-probabilities `input` from probabilities `label`, or from their logarithms with `log_target`.

    >>> round(bireme.nn.functional.kl_div(bireme.to_tensor([0.0]), bireme.to_tensor([0.5])).item(), 4)
    -0.3466
    """
    if reduction not in ("mean", "sum", "none", "batchmean"):
        raise errors.bad("kl_div(reduction)", "'mean', 'batchmean', 'sum' or 'none'", reduction)
    _same_shape("kl_div(label)", "input", input, label)
    loss = kl_of_logs(input, label) if log_target else kl_of(input, label)
    if reduction == "batchmean":
        total = reductions.sum(loss)
        return total / input.shape[0] if input.ndim and input.shape[0] else total
    return reduced(loss, reduction, "kl_div")


@composite()
def gaussian_nll_loss(input: Tensor, label: Tensor, variance: Tensor, full: bool = False, epsilon: float = 1e-6,
                      reduction: str = "mean") -> Tensor:  # fmt: skip
    """Negative log-likelihood of labels under normal distributions with means `input`; variances no less than `epsilon`.

    >>> one = bireme.to_tensor([1.0])
    >>> bireme.nn.functional.gaussian_nll_loss(one, one * 3, one).item()
    2.0
    """
    must_reduce(reduction, "gaussian_nll_loss")
    if variance.shape != input.shape:
        if variance.shape == input.shape[:-1]:
            variance = reshape.unsqueeze(variance, -1)
        elif variance.shape != [*input.shape[:-1], 1]:
            raise errors.bad("gaussian_nll_loss(variance)", f"shape {input.shape} or {[*input.shape[:-1], 1]}", variance)
    not_negative("gaussian_nll_loss(variance)", variance)
    variance = floor_of(variance, epsilon)
    loss = 0.5 * (log(variance) + (input - label).square() / variance)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction, "gaussian_nll_loss")


@op(dtypes=FLOAT, passes="x", numpy=True)
def floor_of(x: Tensor, low: float) -> Tensor:
    """x, no less than `low`; gradients pass as if nothing had been done. Use `gaussian_nll_loss`.

    >>> zero = bireme.to_tensor([0.0])
    >>> round(bireme.nn.functional.gaussian_nll_loss(zero, zero, zero, epsilon=1.0).item(), 4)
    0.0
    """
    return jnp.maximum(x, low)


floor_of.infer(lambda x: x)
floor_of.grad(lambda g: g, numpy=True)


@op(dtypes=FLOAT, numpy=True)
def stirling_of(label: Tensor) -> Tensor:
    """Stirling's approximation of log(label!) where the label exceeds 1, else 0; use `poisson_nll_loss`.

    >>> one = bireme.to_tensor([1.0])
    >>> bireme.nn.functional.poisson_nll_loss(one * 0, one, full=True).item()
    1.0
    """
    safe = jnp.where(label > 1, label, 1)
    return jnp.where(label > 1, safe * jnp.log(safe) - safe + 0.5 * jnp.log(2 * np.pi * safe), 0)


stirling_of.infer(lambda label: label)


@composite(plain=True)
def poisson_nll_loss(input: Tensor, label: Tensor, log_input: bool = True, full: bool = False, epsilon: float = 1e-8,
                     reduction: str = "mean") -> Tensor:  # fmt: skip
    """Negative log-likelihood of counts under Poisson distributions; `full` adds Stirling's approximation of log(label!).

    >>> bireme.nn.functional.poisson_nll_loss(bireme.to_tensor([0.0]), bireme.to_tensor([2.0])).item()
    1.0
    """
    must_reduce(reduction, "poisson_nll_loss")
    if epsilon <= 0:
        raise errors.bad("poisson_nll_loss(epsilon)", "a number above 0", epsilon)
    must_float("poisson_nll_loss(input)", input)
    _same_shape("poisson_nll_loss(label)", "input", input, label)
    loss = exp(input) - label * input if log_input else input - label * log(input + epsilon)
    return reduced(loss + stirling_of(label) if full else loss, reduction, "poisson_nll_loss")


# ---------------------------------------------------------------- margins by sign


@composite(plain=True)
def hinge_embedding_loss(input: Tensor, label: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The input where the label is 1, what it lacks to the margin where the label is -1.

    >>> bireme.nn.functional.hinge_embedding_loss(bireme.to_tensor([0.25, 0.25]), bireme.to_tensor([1.0, -1.0]), reduction="none").tolist()
    [0.25, 0.75]
    """
    must_reduce(reduction, "hinge_embedding_loss")
    lack = relu(margin - input)  # not clip, whose gradient at the margin itself is one
    loss = only_where(input, logic.equal(label, 1)) + only_where(lack, logic.equal(label, -1))
    return reduced(loss, reduction, "hinge_embedding_loss")


@composite(plain=True)
def margin_ranking_loss(input: Tensor, other: Tensor, label: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """What input lacks to be ranked before `other` by the margin, where the label is 1; after it where it is -1.

    >>> one = bireme.to_tensor([1.0])
    >>> bireme.nn.functional.margin_ranking_loss(one, one * 3, one, margin=0.5).item()
    2.5
    """
    must_reduce(reduction, "margin_ranking_loss")
    loss = (other - input) * label
    return reduced(relu(loss + margin if margin else loss), reduction, "margin_ranking_loss")
