"""Losses."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core import errors
from bireme.core.dtype import FLOAT
from bireme.core.graph import sig_of
from bireme.core.op import Axis, Tensor, composite, op
from bireme.ops import logic, reduce, shape
from bireme.ops.creation import arange
from bireme.ops.index import index_select, take_along_axis
from bireme.ops.math import cast, log
from bireme.ops.nn_activation import log_softmax


def _wide(x):
    return x.astype(jnp.float32) if x.dtype.itemsize < 4 else x


def _lse(x):
    top = jnp.max(x, axis=-1, keepdims=True)
    return jnp.log(jnp.sum(jnp.exp(x - top), axis=-1, keepdims=True)) + top


def _picked(x, label):
    return jnp.take_along_axis(x, label[..., None], axis=-1)


@op(dtypes=FLOAT, numpy=True)
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
    p = x - np.max(x, axis=-1, keepdims=True)
    np.exp(p, out=p)
    p /= np.sum(p, axis=-1, keepdims=True)
    valid = label != ignore_index
    at = np.where(valid, label, 0)[..., None]
    np.put_along_axis(p, at, np.take_along_axis(p, at, -1) - 1, -1)
    p *= np.where(valid, g, 0)[..., None]
    return p, None


nll_of_logits.grad(_nll_grad, numpy=_nll_grad_numpy)


@op(differentiable=False, numpy=True)
def count_valid(label: Tensor, ignore_index: int, like: Tensor) -> Tensor:
    """How many labels are not ignored, at least 1, in the loss's type.

    >>> bireme.nn.functional.cross_entropy(bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([-100])).item()
    0.0
    """
    return jnp.maximum(jnp.sum(label != ignore_index), 1).astype(like.dtype)


count_valid.infer(lambda like: sig_of((), like.dtype))


def _reduced(loss: Tensor, reduction: str, where: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "mean":
        return reduce.mean(loss)
    if reduction == "sum":
        return reduce.sum(loss)
    raise errors.bad(f"{where}(reduction)", "'mean', 'sum' or 'none'", reduction)


@composite()
def cross_entropy(input: Tensor, label: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean",
                  soft_label: bool = False, axis: Axis = -1, use_softmax: bool = True, label_smoothing: float = 0.0) -> Tensor:  # fmt: skip
    """Cross entropy of logits (or of probabilities with `use_softmax=False`) with labels along `axis`.

    >>> round(bireme.nn.functional.cross_entropy(bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([0])).item(), 4)
    0.6931
    """
    if input.ndim == 0:
        raise errors.bad("cross_entropy(input)", "a tensor with at least one axis", input)
    classes = input.shape[axis]
    last = axis == input.ndim - 1
    if not last:
        order = [i for i in range(input.ndim) if i != axis] + [axis]
        input = shape.transpose(input, order)
    if label_smoothing and not soft_label:
        label = _hot(label, classes, input, axis if not last else input.ndim - 1)
        label = label * (1 - label_smoothing) + label_smoothing / classes
        soft_label = True
    elif soft_label and not last:
        label = shape.transpose(label, order)
    if soft_label:
        return _soft(input, label, weight, reduction, use_softmax, label_smoothing)
    return _hard(input, label, weight, ignore_index, reduction, use_softmax, classes, axis)


def _class_shape(input: Tensor, label: Tensor, axis: int) -> tuple[Tensor, bool]:
    """The label without its axis of extent 1, and whether it had one."""
    wanted = input.shape[:-1]
    if label.shape == wanted:
        return label, False
    kept = [*wanted[:axis], 1, *wanted[axis:]]
    if label.shape == kept:
        return shape.reshape(label, shape.Literal(wanted)), True
    raise errors.bad("cross_entropy(label)", f"shape {wanted} or {kept}", label)


def _hot(label: Tensor, classes: int, input: Tensor, axis: int) -> Tensor:
    from_label, _ = _class_shape(input, label, axis)
    return cast(logic.equal(shape.unsqueeze(from_label, -1), arange(classes, dtype=from_label.dtype)), input.dtype)


def _hard(
    input: Tensor, label: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, use_softmax: bool, classes: int, axis: int
) -> Tensor:
    if label.dtype.kind != "i":
        raise errors.bad("cross_entropy(label)", "integer labels, or soft_label=True", label.dtype.name, kind=TypeError)
    label, had_axis = _class_shape(input, label, axis)
    _check_labels(label, classes, ignore_index)
    if use_softmax:
        loss = nll_of_logits(input, label, ignore_index)
    else:
        valid = logic.not_equal(label, ignore_index)
        picked = take_along_axis(log(input), shape.unsqueeze(logic.select(valid, label, 0), -1), -1)
        loss = logic.select(valid, -shape.reshape(picked, shape.Literal(label.shape)), 0.0)
    if weight is not None:
        per = index_select(weight, shape.reshape(logic.select(logic.not_equal(label, ignore_index), label, 0), [-1]))
        per = shape.reshape(per, shape.Literal(label.shape)) * cast(logic.not_equal(label, ignore_index), weight.dtype)
        loss = loss * per
    if reduction == "mean":
        total = reduce.sum(loss)
        return total / (reduce.sum(per) if weight is not None else count_valid(label, ignore_index, loss))
    loss = _reduced(loss, reduction, "cross_entropy")
    if had_axis and reduction == "none":
        loss = shape.unsqueeze(loss, axis)
    return loss


def _check_labels(label: Tensor, classes: int, ignore_index: int) -> None:
    """Labels in range, or the one that is ignored: checked now if the host knows them."""
    v = label._value
    if v.array is not None and v.device.is_cpu and v.sig.size:
        host = np.asarray(v.array)
        if v.bounds is None:
            v.bounds = (int(host.min()), int(host.max()))
        if v.bounds[0] < 0 or v.bounds[1] >= classes:
            wrong = host[((host < 0) | (host >= classes)) & (host != ignore_index)]
            if wrong.size:
                raise errors.bad("cross_entropy(label)", f"labels in [0, {classes - 1}] or {ignore_index}", int(wrong.flat[0]), kind=IndexError)


def _soft(input: Tensor, label: Tensor, weight: Tensor | None, reduction: str, use_softmax: bool, smoothing: float) -> Tensor:
    if label.shape != input.shape:
        raise errors.bad("cross_entropy(label)", f"shape {input.shape} for soft labels", label)
    logs = log_softmax(input) if use_softmax else log(input)
    loss = -reduce.sum(logs * cast(label, input.dtype), axis=-1)
    if weight is not None:
        per = reduce.sum(cast(label, weight.dtype) * weight, axis=-1)
        loss = loss * per
        if reduction == "mean":
            return reduce.sum(loss) / reduce.sum(per)
    loss = _reduced(loss, reduction, "cross_entropy")
    return shape.unsqueeze(loss, -1) if reduction == "none" and not smoothing else loss


@composite()
def mse_loss(input: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    """Mean of the squared difference.

    >>> bireme.nn.functional.mse_loss(bireme.to_tensor([1.0]), bireme.to_tensor([3.0])).item()
    4.0
    """
    return _reduced((input - label).square(), reduction, "mse_loss")
