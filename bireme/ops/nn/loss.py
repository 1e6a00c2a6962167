"""Losses of classes, by labels or by probabilities, and of differences."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Axis, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import broadcast_shape, sum_to
from bireme.ops.manipulation import reshape
from bireme.ops.math import logic
from bireme.ops.math.arithmetic import cast
from bireme.ops.math.elementwise import log
from bireme.ops.nn.activation import log_softmax, softmax
from bireme.ops.reduction import reductions


def _wide(x):
    return x.astype(jnp.float32) if x.dtype.itemsize < 4 else x


def _lse(x):
    top = jnp.max(x, axis=-1, keepdims=True)
    return jnp.log(jnp.sum(jnp.exp(x - top), axis=-1, keepdims=True)) + top


def _picked(x, label):
    return jnp.take_along_axis(x, label[..., None], axis=-1)


def _labelled(x, label, ignore_index):
    """Where labels are not ignored, and the places of labelled elements in the flattened array: NumPy's own take twice as long."""
    valid = label != ignore_index
    return valid, np.arange(label.size) * x.shape[-1] + np.where(valid, label, 0).reshape(-1)


def _nll_numpy(x, label, ignore_index):
    valid, at = _labelled(x, label, ignore_index)
    top = np.maximum.reduce(x, -1, None, None, True)
    lse = np.log(np.add.reduce(np.exp(x - top), -1, None, None, True)) + top
    loss = lse[..., 0] - x.reshape(-1)[at].reshape(label.shape)
    return np.where(valid, loss, np.zeros((), x.dtype))


@op(dtypes=FLOAT, of_the_past=True, numpy=_nll_numpy, amp="high")
def nll_of_logits(x: Tensor, label: Tensor, ignore_index: int) -> Tensor:
    """Log-sum-exp minus the labelled logit, along the last axis; zero where the label is ignored. Use `cross_entropy`.

    >>> round(bireme.nn.functional.cross_entropy(bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([0])).item(), 4)
    0.6931
    """
    wide = _wide(x)
    valid = label != ignore_index
    safe = jnp.where(valid, label, 0)
    loss = _lse(wide)[..., 0] - _picked(wide, safe)[..., 0]
    return jnp.where(valid, loss, 0).astype(x.dtype)


nll_of_logits.infer(lambda x, label: sig_of(label.shape, x.dtype))


def _nll_grad(g, x, label, ignore_index):
    """exp(x - lse) - one_hot, never a scatter; only x and the labels are kept."""
    wide = _wide(x)
    p = jnp.exp(wide - _lse(wide))
    valid = label != ignore_index
    hot = jnp.arange(x.shape[-1], dtype=jnp.int32) == label.astype(jnp.int32)[..., None]
    scale = jnp.where(valid, _wide(g), 0)[..., None]
    return ((p - hot) * scale).astype(x.dtype), None


def _nll_grad_numpy(g, x, label, ignore_index):
    valid, at = _labelled(x, label, ignore_index)
    p = np.subtract(x, np.maximum.reduce(x, -1, None, None, True), order="C")
    np.exp(p, out=p)
    p /= np.add.reduce(p, -1, None, None, True)
    p.reshape(-1)[at] -= 1
    p *= np.where(valid, g, np.zeros((), g.dtype))[..., None]
    return p, None


nll_of_logits.grad(_nll_grad, numpy=_nll_grad_numpy)
nll_of_logits.index(lambda s: [("label", 0, s["x"].shape[-1], s["ignore_index"])], "cross_entropy")


@op(dtypes=FLOAT, numpy=True, amp="high")
def nll_of(x: Tensor, label: Tensor, ignore_index: int) -> Tensor:
    """The labelled element along the last axis, negative; zero where the label is ignored. Use `nll_loss`.

    >>> bireme.nn.functional.nll_loss(bireme.to_tensor([[-1.0, -2.0]]), bireme.to_tensor([1])).item()
    2.0
    """
    valid = label != ignore_index
    return jnp.where(valid, -_picked(x, jnp.where(valid, label, 0))[..., 0], 0)


nll_of.infer(lambda x, label: sig_of(label.shape, x.dtype))
nll_of.index(lambda s: [("label", 0, s["x"].shape[-1], s["ignore_index"])], "nll_loss")


@nll_of.grad(numpy=True)
def _(g, label, ignore_index, sigs):
    """One-hot, never a scatter."""
    hot = jnp.arange(sigs[0].shape[-1], dtype=jnp.int32) == label.astype(jnp.int32)[..., None]
    return jnp.where(hot & (label != ignore_index)[..., None], -g[..., None], 0).astype(g.dtype), None


@op(dtypes=FLOAT, numpy=True)
def class_weights(weight: Tensor, label: Tensor, ignore_index: int) -> Tensor:
    """The weight of each label's class; zero where the label is ignored.

    >>> x, label = bireme.to_tensor([[-1.0, -2.0]]), bireme.to_tensor([1])
    >>> bireme.nn.functional.nll_loss(x, label, bireme.to_tensor([1.0, 3.0]), reduction="sum").item()
    6.0
    """
    valid = label != ignore_index
    return jnp.where(valid, weight[jnp.where(valid, label, 0)], 0)


class_weights.infer(lambda weight, label: sig_of(label.shape, weight.dtype))


@op(differentiable=False, numpy=True)
def class_hot(label: Tensor, classes: int, ignore_index: int, like: Tensor) -> Tensor:
    """1 at each label's class along a new last axis, in the type of `like`; all zero where the label is ignored.

    >>> x = bireme.to_tensor([[0.0, 0.0]])
    >>> round(bireme.nn.functional.cross_entropy(x, bireme.to_tensor([1]), label_smoothing=0.1).item(), 4)
    0.6931
    """
    valid = (label != ignore_index)[..., None]
    return ((jnp.arange(classes, dtype=label.dtype) == label[..., None]) & valid).astype(like.dtype)


class_hot.infer(lambda label, classes, like: sig_of((*label.shape, classes), like.dtype))
class_hot.index(lambda s: [("label", 0, s["classes"], s["ignore_index"])], "cross_entropy")


@op(differentiable=False, numpy=True)
def count_valid(label: Tensor, ignore_index: int, like: Tensor) -> Tensor:
    """How many labels are not ignored, at least 1, in the loss's type.

    >>> bireme.nn.functional.cross_entropy(bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([-100])).item()
    0.0
    """
    return jnp.maximum(jnp.sum(label != ignore_index), 1).astype(like.dtype)


count_valid.infer(lambda like: sig_of((), like.dtype))


def reduced(loss: Tensor, reduction: str, where: str) -> Tensor:
    """The mean, the sum or all of a loss."""
    if reduction == "none":
        return loss
    if reduction == "mean":
        return reductions.mean(loss)
    if reduction == "sum":
        return reductions.sum(loss)
    raise errors.bad(f"{where}(reduction)", "'mean', 'sum' or 'none'", reduction)


def must_reduce(reduction: str, where: str) -> None:
    """Check the name of a reduction before anything is recorded."""
    if reduction not in ("mean", "sum", "none"):
        raise errors.bad(f"{where}(reduction)", "'mean', 'sum' or 'none'", reduction, kind=errors.Unfit)


def must_float(where: str, x: Tensor) -> None:
    """Check that a tensor holds real numbers."""
    if x.dtype not in FLOAT:
        raise errors.bad(where, "one of bfloat16, float16, float32, float64", x.dtype.name, kind=errors.NoKernel)


@op(dtypes=FLOAT, numpy=True)
def only_where(x: Tensor, condition: Tensor) -> Tensor:
    """x where the condition holds, else 0: what losses leave out.

    >>> x, label = bireme.to_tensor([0.25, 0.75]), bireme.to_tensor([1.0, 0.0])
    >>> bireme.nn.functional.hinge_embedding_loss(x, label, reduction="none").tolist()
    [0.25, 0.0]
    """
    return jnp.where(condition, x, jnp.zeros_like(x))


only_where.infer(lambda x, condition: sig_of(broadcast_shape("where", x.shape, condition.shape), x.dtype))
only_where.grad(lambda g, condition, sigs: (sum_to(jnp.where(condition, g, jnp.zeros_like(g)), sigs[0]), None), numpy=True)


@op(promote="logs soft", dtypes=FLOAT, numpy=True, amp="high", constants="soft")
def nll_of_soft(logs: Tensor, soft: Tensor) -> Tensor:
    """Log-probabilities along the last axis times those of labels, negative; use `cross_entropy` with `soft_label=True`.

    >>> x, label = bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([[0.5, 0.5]])
    >>> round(bireme.nn.functional.cross_entropy(x, label, soft_label=True).item(), 4)
    0.6931
    """
    return -jnp.sum(logs * soft, axis=-1)


nll_of_soft.infer(lambda logs, soft: sig_of(logs.shape[:-1], logs.dtype))
# labels are constants in Paddle, even if they are computed from parameters
nll_of_soft.grad(lambda g, soft: (-g[..., None] * soft, None), numpy=True)


def _per(total: Tensor, weights: Tensor) -> Tensor:
    """A total divided by the sum of weights; zero where nothing has weight."""
    count = reductions.sum(weights)
    return total / (count + cast(logic.equal(count, 0), count.dtype))


@composite(plain=True)
def cross_entropy(input: Tensor, label: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean",
                  soft_label: bool = False, axis: Axis = -1, use_softmax: bool = True, label_smoothing: float = 0.0) -> Tensor:  # fmt: skip
    """Cross entropy of logits (or of probabilities with `use_softmax=False`) with labels along `axis`.

    >>> round(bireme.nn.functional.cross_entropy(bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([0])).item(), 4)
    0.6931
    """
    if input.ndim == 0:
        raise errors.bad("cross_entropy(input)", "a tensor with at least one axis", input)
    must_reduce(reduction, "cross_entropy")
    classes = input.shape[axis]
    if weight is not None and weight.shape != [classes]:
        raise errors.bad("cross_entropy(weight)", f"shape [{classes}], one weight for each class", weight)
    if soft_label and ignore_index != -100:
        raise errors.bad("cross_entropy(ignore_index)", "-100 for soft labels", ignore_index)
    if label_smoothing > 1:
        raise errors.bad("cross_entropy(label_smoothing)", "a number in [0, 1]", label_smoothing)
    if label_smoothing > 0 and label.shape == input.shape and label.dtype in FLOAT:
        soft_label = True  # labels that are one-hot already
    if axis != input.ndim - 1:
        order = [i for i in range(input.ndim) if i != axis] + [axis]
        input = reshape.transpose(input, order)
        label = reshape.transpose(label, order) if soft_label and label.ndim == len(order) else label
    if not soft_label:
        if label.dtype.kind in "fb":
            label = cast(label, dtypes.int64)  # Paddle takes classes in any type
        elif label.dtype.kind != "i":
            raise errors.bad("cross_entropy(label)", "integer labels, or soft_label=True", label.dtype.name, kind=errors.NoKernel)
        label, had_axis = _class_shape(input, label, axis)
        if not classes and label.size:
            raise errors.bad("cross_entropy(input)", "one class or more", input)
        if label_smoothing <= 0:
            return _hard(input, label, weight, ignore_index, reduction, use_softmax, axis if had_axis else None)
    elif label.shape != input.shape:
        raise errors.bad("cross_entropy(label)", f"shape {input.shape} for soft labels", label)
    hard = None if soft_label else label
    soft = cast(label, input.dtype) if soft_label else class_hot(label, classes, ignore_index, input)
    if label_smoothing > 0:
        soft = soft * (1 - label_smoothing) + label_smoothing / classes
    return _soft(input, soft, weight, hard, ignore_index, reduction, use_softmax, axis)


def _class_shape(input: Tensor, label: Tensor, axis: int) -> tuple[Tensor, bool]:
    """The label without its axis of extent 1, and whether it had one."""
    wanted = input.shape[:-1]
    if label.shape == wanted:
        return label, False
    kept = [*wanted[:axis], 1, *wanted[axis:]]
    if label.shape == kept:
        return reshape.reshape(label, reshape.Literal(wanted)), True
    raise errors.bad("cross_entropy(label)", f"shape {wanted} or {kept}", label)


def _hard(input: Tensor, label: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, use_softmax: bool, axis: int | None) -> Tensor:
    loss = nll_of_logits(input, label, ignore_index) if use_softmax else nll_of(log(input), label, ignore_index)
    if reduction == "mean" and weight is None and ignore_index < 0:
        return reductions.mean(loss)  # Paddle leaves ignored labels out of the count only where their index is a class
    return _weighed(loss, label, weight, ignore_index, reduction, axis)


def _weighed(loss: Tensor, label: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, axis: int | None) -> Tensor:
    """Losses of labels times the weights of their classes, reduced; the mean is one of what has weight."""
    per = None if weight is None else class_weights(weight, label, ignore_index)
    loss = loss if per is None else loss * per
    if reduction == "mean":
        total = reductions.sum(loss)
        return total / count_valid(label, ignore_index, loss) if per is None else _per(total, per)
    if reduction == "none" and axis is not None:
        return reshape.unsqueeze(loss, axis)
    return reduced(loss, reduction, "cross_entropy")


def _soft(input: Tensor, soft: Tensor, weight: Tensor | None, label: Tensor | None, ignore_index: int, reduction: str, use_softmax: bool,
          axis: int) -> Tensor:  # fmt: skip
    """Losses of probabilities; rows whose label is ignored, where they were made from labels, count for nothing."""
    logs = log_softmax(input) if use_softmax else log(input)
    loss = nll_of_soft(logs, soft)
    per = None if weight is None else reductions.sum(cast(soft, weight.dtype) * weight, axis=-1)
    loss = loss if per is None else loss * per
    if label is not None:
        valid = logic.not_equal(label, ignore_index)
        loss, per = only_where(loss, valid), None if per is None else only_where(per, valid)
    if reduction == "mean":
        if per is not None:
            return _per(reductions.sum(loss), per)
        return reductions.mean(loss) if label is None else reductions.sum(loss) / count_valid(label, ignore_index, loss)
    return reshape.unsqueeze(loss, axis) if reduction == "none" else reduced(loss, reduction, "cross_entropy")


@composite(plain=True, name_arg=False)
def softmax_with_cross_entropy(logits: Tensor, label: Tensor, soft_label: bool = False, ignore_index: int = -100, numeric_stable_mode: bool = True,
                               return_softmax: bool = False, axis: Axis = -1) -> Any:  # fmt: skip
    """Cross entropy of each row, the axis of the classes kept with extent 1; with `return_softmax` the probabilities too.

    >>> loss = bireme.nn.functional.softmax_with_cross_entropy(bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([[1]]))
    >>> loss.shape
    [1, 1]
    """
    if not soft_label and label.ndim != logits.ndim:
        wanted = [1 if i == axis else n for i, n in enumerate(logits.shape)]
        raise errors.bad("softmax_with_cross_entropy(label)", f"shape {wanted}", label)
    ignored = -100 if soft_label else ignore_index
    loss = cross_entropy(logits, label, ignore_index=ignored, reduction="none", soft_label=soft_label, axis=axis)
    return (loss, softmax(logits, axis)) if return_softmax else loss


@composite(plain=True)
def nll_loss(input: Tensor, label: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """The labelled log-probability, negative; the classes lie along axis 1.

    >>> bireme.nn.functional.nll_loss(bireme.to_tensor([[-1.0, -2.0]]), bireme.to_tensor([1])).item()
    2.0
    """
    must_reduce(reduction, "nll_loss")
    if input.ndim < 2:
        raise errors.bad("nll_loss(input)", "at least two axes, [batch, classes, ...]", input)
    if label.dtype.kind != "i":
        raise errors.bad("nll_loss(label)", "integer labels", label.dtype.name, kind=errors.NoKernel)
    if weight is not None and weight.shape != input.shape[1:2]:
        raise errors.bad("nll_loss(weight)", f"shape {input.shape[1:2]}, one weight for each class", weight)
    wanted = [input.shape[0], *input.shape[2:]]
    if input.ndim == 2 and label.shape == [*wanted, 1]:
        label = reshape.reshape(label, reshape.Literal(wanted))
    if label.shape != wanted:
        raise errors.bad("nll_loss(label)", f"shape {wanted}", label)
    if input.ndim > 2:
        input = reshape.transpose(input, [0, *range(2, input.ndim), 1])
    return _weighed(nll_of(input, label, ignore_index), label, weight, ignore_index, reduction, None)


@composite(plain=True)
def label_smooth(label: Tensor, prior_dist: Tensor | None = None, epsilon: float = 0.1) -> Tensor:
    """One-hot labels mixed with a distribution over the classes, the uniform one by default.

    >>> bireme.nn.functional.label_smooth(bireme.to_tensor([[0.0, 1.0]]), epsilon=0.5).tolist()
    [[0.25, 0.75]]
    """
    if not 0 <= epsilon <= 1:
        raise errors.bad("label_smooth(epsilon)", "a number in [0, 1]", epsilon)
    must_float("label_smooth(label)", label)
    if prior_dist is None:
        return label * (1 - epsilon) + (epsilon / label.shape[-1] if label.ndim and label.shape[-1] else 0.0)
    return label * (1 - epsilon) + prior_dist * epsilon


@composite(plain=True)
def mse_loss(input: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    """Mean of the squared difference.

    >>> bireme.nn.functional.mse_loss(bireme.to_tensor([1.0]), bireme.to_tensor([3.0])).item()
    4.0
    """
    must_reduce(reduction, "mse_loss")
    return reduced((input - label).square(), reduction, "mse_loss")


@composite(plain=True, name_arg=False)
def square_error_cost(input: Tensor, label: Tensor) -> Tensor:
    """The squared difference of each element.

    >>> bireme.nn.functional.square_error_cost(bireme.to_tensor([1.0]), bireme.to_tensor([3.0])).tolist()
    [4.0]
    """
    return (input - label).square()


@composite(plain=True)
def l1_loss(input: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    """Mean of the absolute difference.

    >>> bireme.nn.functional.l1_loss(bireme.to_tensor([1.0]), bireme.to_tensor([3.0])).item()
    2.0
    """
    must_reduce(reduction, "l1_loss")
    return reduced((input - label).abs(), reduction, "l1_loss")


@op(dtypes=FLOAT, numpy=True, amp="high")
def huber_of(x: Tensor, delta: float, scaled: bool) -> Tensor:
    """x squared over 2 up to `delta` and then along the tangent; `scaled` divides by delta. Use `smooth_l1_loss`.

    >>> bireme.nn.functional.smooth_l1_loss(bireme.to_tensor([4.0]), bireme.to_tensor([0.0]), delta=2.0).item()
    6.0
    """
    size = jnp.abs(x)
    if scaled:
        return jnp.where(size < delta, size * size * (0.5 / delta if delta else 0.0), size - 0.5 * delta)
    return jnp.where(size <= delta, 0.5 * size * size, delta * (size - 0.5 * delta))


huber_of.infer(lambda x: x)


@huber_of.grad(numpy=True)
def _(g, x, delta, scaled):
    if scaled:
        return g * jnp.where(jnp.abs(x) < delta, x * (1 / delta if delta else 0.0), jnp.sign(x))
    return g * jnp.where(jnp.abs(x) <= delta, x, delta * jnp.sign(x))


@composite(plain=True)
def smooth_l1_loss(input: Tensor, label: Tensor, reduction: str = "mean", delta: float = 1.0, is_huber: bool = True) -> Tensor:
    """Squared differences up to `delta` and absolute ones beyond; `is_huber=False` divides them by delta.

    >>> bireme.nn.functional.smooth_l1_loss(bireme.to_tensor([4.0]), bireme.to_tensor([0.0]), delta=2.0).item()
    6.0
    """
    must_reduce(reduction, "smooth_l1_loss")
    if input.shape != label.shape:
        raise errors.bad("smooth_l1_loss(label)", f"the shape of input, {input.shape}", label)
    return reduced(huber_of(input - label, delta, not is_huber), reduction, "smooth_l1_loss")
