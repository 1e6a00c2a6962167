"""Losses of classes, by labels or by probabilities, and of differences."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.base.later import Later
from bireme.core.declare.op import Axis, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import blas
from bireme.ops._shared.broadcast import broadcast_shape, sum_to
from bireme.ops._shared.precision import widen
from bireme.ops.manipulation import reshape
from bireme.ops.math import logic
from bireme.ops.math.arithmetic import cast
from bireme.ops.math.elementwise import log
from bireme.ops.nn.activation import log_softmax, softmax
from bireme.ops.reduction import reductions

loss_kernels = Later("bireme.ops._shared.loss_kernels")  # Pallas takes 0.3 s to import


def _lse(x):
    """Log-sum-exp as two numbers, the largest logit and the rest: their sum would lose the rest's digits if the logits
    are large.
    """
    top = jnp.max(x, axis=-1, keepdims=True)
    return top, jnp.log(jnp.sum(jnp.exp(x - top), axis=-1, keepdims=True))


def _picked(x, label):
    return jnp.take_along_axis(x, label[..., None], axis=-1)


def _labelled(x, label, ignore_index):
    """Where labels are not ignored, and flat indices of the labelled elements: take_along_axis takes twice as long."""
    valid = label != ignore_index
    return valid, np.arange(label.size) * x.shape[-1] + np.where(valid, label, 0).reshape(-1)


def _nll_numpy(x, label, ignore_index):
    valid, at = _labelled(x, label, ignore_index)
    rows = x.reshape(label.size, x.shape[-1])
    loss = np.empty(label.size, x.dtype)

    def make(part):
        z = np.subtract(rows[part], np.maximum.reduce(rows[part], -1, None, None, True), order="C")
        picked = z.reshape(-1)[at[part] - part.start * x.shape[-1]]
        np.subtract(np.log(np.add.reduce(np.exp(z, out=z), -1)), picked, out=loss[part])

    blas.share_rows(make, len(rows), x.size)
    return np.where(valid, loss.reshape(label.shape), np.zeros((), x.dtype))


_ENTROPIES = "cross_entropy softmax_with_cross_entropy"  # who a wrong label is told by


@op(internal=True, dtypes=FLOAT, of_the_past=True, numpy=_nll_numpy, amp="high",
    kernels="softmax_with_cross_entropy cross_entropy cross_entropy2")  # fmt: skip
def nll_of_logits(x: Tensor, label: Tensor, ignore_index: int) -> Tensor:
    """Log-sum-exp minus the labelled logit, along the last axis; 0 where the label is ignored. Use `cross_entropy`."""
    wide = widen(x)
    top, rest = _lse(wide)
    valid = label != ignore_index
    safe = jnp.where(valid, label, 0)
    loss = (rest - (_picked(wide, safe) - top))[..., 0]
    return jnp.where(valid, loss, 0).astype(x.dtype)


nll_of_logits.rows(lambda x: ("x", "label") if x.ndim > 1 else ())
nll_of_logits.infer(lambda x, label: sig_of(label.shape, x.dtype))


def _nll_grad(g, x, label, ignore_index):
    """Probabilities - one_hot, never a scatter; only x and the labels are kept."""
    wide = widen(x)
    top, rest = _lse(wide)
    p = jnp.exp((wide - top) - rest)
    valid = label != ignore_index
    hot = jnp.arange(x.shape[-1], dtype=jnp.int32) == label.astype(jnp.int32)[..., None]
    scale = jnp.where(valid, widen(g), 0)[..., None]
    return ((p - hot) * scale).astype(x.dtype), None


def _nll_grad_numpy(g, x, label, ignore_index):
    valid, at = _labelled(x, label, ignore_index)
    p = np.empty(x.shape, x.dtype)
    rows, made = [a.reshape(label.size, x.shape[-1]) for a in (x, p)]

    def make(part):
        z = np.subtract(rows[part], np.maximum.reduce(rows[part], -1, None, None, True), out=made[part])
        np.exp(z, out=z)
        z /= np.add.reduce(z, -1, None, None, True)

    blas.share_rows(make, len(rows), x.size)
    p.reshape(-1)[at] -= 1
    p *= np.where(valid, g, np.zeros((), g.dtype))[..., None]
    return p, None


nll_of_logits.grad(_nll_grad, numpy=_nll_grad_numpy)


def _are_many(x):
    """Whether logits, with their classes last, are for kernels: fewer are read in no time, and these count in 32 bits."""
    return x.dtype.itemsize <= 4 and x.shape[-1] >= 4096 and 1 << 24 <= x.size < 1 << 31


# on a mesh the compiler cannot divide a kernel
@nll_of_logits.on("cuda", mesh=False)
def _(x, label, ignore_index):
    if not _are_many(x):
        return nll_of_logits.body(x, label, ignore_index)
    top, rest = [t.reshape(label.shape) for t in loss_kernels.log_sums(x.reshape(-1, x.shape[-1]))]
    valid = label != ignore_index
    picked = widen(_picked(x, jnp.where(valid, label, 0)))[..., 0]
    return jnp.where(valid, rest - (picked - top), 0).astype(x.dtype)


@nll_of_logits.grad(on="cuda", mesh=False)
def _(g, x, label, ignore_index):
    if not _are_many(x):
        return _nll_grad(g, x, label, ignore_index)
    rows = x.reshape(-1, x.shape[-1])
    scale = jnp.where(label != ignore_index, widen(g), 0).reshape(-1)
    found = loss_kernels.slopes(rows, *loss_kernels.log_sums(rows), label.astype(jnp.int32).reshape(-1), scale)
    return found.reshape(x.shape), None


nll_of_logits.index(lambda s: [("label", 0, s["x"].shape[-1], s["ignore_index"])], _ENTROPIES)


@op(internal="nll", dtypes=FLOAT, numpy=True, amp="high", kernels="nll_loss")
def nll_of(x: Tensor, label: Tensor, ignore_index: int) -> Tensor:
    """Minus the labelled element along the last axis; 0 where the label is ignored. Use `nll_loss`."""
    valid = label != ignore_index
    return jnp.where(valid, -_picked(x, jnp.where(valid, label, 0))[..., 0], 0)


nll_of.infer(lambda x, label: sig_of(label.shape, x.dtype))
nll_of.index(lambda s: [("label", 0, s["x"].shape[-1], s["ignore_index"])], "nll_loss")


@nll_of.grad(numpy=True)
def _(g, label, ignore_index, sigs):
    """One-hot, never a scatter."""
    hot = jnp.arange(sigs[0].shape[-1], dtype=jnp.int32) == label.astype(jnp.int32)[..., None]
    return jnp.where(hot & (label != ignore_index)[..., None], -g[..., None], 0).astype(g.dtype), None


@op(internal=True, dtypes=FLOAT, numpy=True, upcast="grad")
def class_weights(weight: Tensor, label: Tensor, ignore_index: int) -> Tensor:
    """The weight of each label's class; 0 where the label is ignored."""
    valid = label != ignore_index
    return jnp.where(valid, weight[jnp.where(valid, label, 0)], 0)


class_weights.infer(lambda weight, label: sig_of(label.shape, weight.dtype))


@op(internal=True, differentiable=False, numpy=True)
def class_hot(label: Tensor, classes: int, ignore_index: int, like: Tensor) -> Tensor:
    """1 at each label's class along a new last axis, in the dtype of `like`; all 0 where the label is ignored."""
    valid = (label != ignore_index)[..., None]
    return ((jnp.arange(classes, dtype=label.dtype) == label[..., None]) & valid).astype(like.dtype)


class_hot.infer(lambda label, classes, like: sig_of((*label.shape, classes), like.dtype))
class_hot.index(lambda s: [("label", 0, s["classes"], s["ignore_index"])], _ENTROPIES)


@op(internal=True, differentiable=False, numpy=True)
def count_valid(label: Tensor, ignore_index: int, like: Tensor) -> Tensor:
    """The number of labels that are not ignored, at least 1, in the loss's dtype."""
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
        raise errors.bad(f"{where}(reduction)", "'mean', 'sum' or 'none'", reduction, kind=errors.ArgumentError)


def must_float(where: str, x: Tensor) -> None:
    """Check that a tensor holds real numbers."""
    if x.dtype not in FLOAT:
        raise errors.bad(
            where, "one of bfloat16, float16, float32, float64", described=x.dtype.name, kind=errors.DtypeError
        )


@op(internal=True, dtypes=FLOAT, numpy=True)
def only_where(x: Tensor, condition: Tensor) -> Tensor:
    """x where the condition holds, else 0: what losses leave out."""
    return jnp.where(condition, x, jnp.zeros((), x.dtype))


only_where.infer(lambda x, condition: sig_of(broadcast_shape("where", x.shape, condition.shape), x.dtype))
only_where.grad(
    lambda g, condition, sigs: (sum_to(jnp.where(condition, g, jnp.zeros((), g.dtype)), sigs[0]), None), numpy=True
)


@op(internal=True, promote="logs soft", dtypes=FLOAT, numpy=True, amp="high", constants="soft")
def nll_of_soft(logs: Tensor, soft: Tensor) -> Tensor:
    """Minus the sum of log-probabilities times soft labels along the last axis; use `cross_entropy`."""
    return -jnp.sum(logs * soft, axis=-1)


nll_of_soft.infer(lambda logs, soft: sig_of(logs.shape[:-1], logs.dtype))
# labels are constants in Paddle, even if they are computed from parameters
nll_of_soft.grad(lambda g, soft: (-g[..., None] * soft, None), numpy=True)


def _per(loss: Tensor, weights: Tensor) -> Tensor:
    """The sum of losses divided by the sum of weights; zero where nothing has weight."""
    count = reductions.sum(reductions.single(weights))
    return reductions.rounded_as(
        loss, reductions.sum(reductions.single(loss)) / (count + cast(logic.equal(count, 0), count.dtype))
    )


def _per_label(loss: Tensor, label: Tensor, ignore_index: int) -> Tensor:
    """The sum of losses divided by the count of labels that are not ignored."""
    total = reductions.sum(reductions.single(loss))
    return reductions.rounded_as(loss, total / count_valid(label, ignore_index, total))


@composite(plain=True)
def cross_entropy(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: Axis = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy between logits, or probabilities, and labels along an axis.

    For a label ``c`` the loss is ``-log(softmax(input)[c])``, computed without overflow; for soft labels it is
    ``-sum(label * log(softmax(input)))``. With ``weight`` the mean is divided by the sum of the weights that were used.

    Args:
        input: Logits of a floating-point dtype, with the ``C`` classes along ``axis``; probabilities if ``use_softmax``
            is ``False``.
        label: Integer classes in ``[0, C)``, in the shape of ``input`` without ``axis`` or with size 1 there; or with
            ``soft_label`` probabilities in the shape of ``input``, which get no gradient.
        weight: Weight of each class, of shape ``[C]``. Default: None.
        ignore_index: Class whose samples have loss 0. The mean does not count them, except if it is negative and there
            is neither ``weight`` nor ``label_smoothing``. Must be -100 with ``soft_label``. Default: -100.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        soft_label: Whether ``label`` holds a probability for each class. Default: False.
        axis: Axis of the classes. Default: -1.
        use_softmax: Whether ``input`` holds logits rather than probabilities. Default: True.
        label_smoothing: Number in ``[0, 1]``: how much of each label is spread evenly over all classes. Default: 0.0.

    Returns:
        0-D tensor; with ``'none'`` the loss of each sample, in the shape of integer labels, or in that of ``input``
        with size 1 along ``axis`` for soft or smoothed ones.

    Raises:
        ValueError: If a shape does not fit, or a label is neither a class nor ``ignore_index``.

    Examples:
        >>> round(bireme.nn.functional.cross_entropy(bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([0])).item(), 4)
        0.6931
    """
    if input.ndim == 0:
        raise errors.bad("cross_entropy(input)", "a tensor with at least 1 dimension", input)
    must_reduce(reduction, "cross_entropy")
    classes = input.shape[axis]
    if weight is not None and weight.shape != [classes]:
        raise errors.bad("cross_entropy(weight)", f"shape [{classes}], one weight for each class", weight)
    if soft_label and ignore_index != -100:
        raise errors.bad("cross_entropy(ignore_index)", "-100 for soft labels", ignore_index)
    if label_smoothing > 1:
        raise errors.bad(
            "cross_entropy(label_smoothing)",
            "a number in [0, 1]",
            label_smoothing,
            kind=errors.for_number(label_smoothing),
        )
    if label_smoothing > 0 and label.shape == input.shape and label.dtype in FLOAT:
        soft_label = True  # labels that are one-hot already
    if axis != input.ndim - 1:
        order = [i for i in range(input.ndim) if i != axis] + [axis]
        input = reshape.transpose(input, order)
        label = reshape.transpose(label, order) if soft_label and label.ndim == len(order) else label
    if not soft_label:
        if label.dtype.kind in "fb":
            label = cast(label, dtypes.int64)  # Paddle takes classes in any dtype
        elif label.dtype.kind != "i":
            raise errors.bad(
                "cross_entropy(label)",
                "integer labels, or soft_label=True",
                described=label.dtype.name,
                kind=errors.DtypeError,
            )
        label, had_axis = _class_shape(input, label, axis)
        if not classes and label.size:
            raise errors.bad("cross_entropy(input)", "at least one class", input)
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
    """The label without its axis of size 1, and whether it had one."""
    wanted = input.shape[:-1]
    if label.shape == wanted:
        return label, False
    kept = [*wanted[:axis], 1, *wanted[axis:]]
    if label.shape == kept:
        return reshape.reshape(label, reshape.Literal(wanted)), True
    # classes on axis 1, as in images and in PyTorch
    second = axis == len(wanted) > 1 and label.shape in [input.shape[:1] + size + input.shape[2:] for size in ([], [1])]
    hint = "pass axis=1 if axis 1 of input is that of the classes" if second else None
    raise errors.bad("cross_entropy(label)", f"shape {wanted} or {kept}", label, hint=hint)


def _hard(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    use_softmax: bool,
    axis: int | None,
) -> Tensor:
    loss = nll_of_logits(input, label, ignore_index) if use_softmax else nll_of(log(input), label, ignore_index)
    if reduction == "mean" and weight is None and ignore_index < 0:
        return reductions.mean(loss)  # Paddle leaves ignored labels out of the count only where their index is a class
    return _weighed(loss, label, weight, ignore_index, reduction, axis)


def _weighed(
    loss: Tensor, label: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, axis: int | None
) -> Tensor:
    """Losses of labels times the weights of their classes, reduced; the mean is one of what has weight."""
    like, per = loss, None
    if weight is not None:
        like = loss if weight.dtype in dtypes.NARROW else weight
        per = class_weights(reductions.single(weight), label, ignore_index)
        loss = reductions.single(loss) * per
    if reduction == "mean":
        found = _per_label(loss, label, ignore_index) if per is None else _per(loss, per)
    elif reduction == "none" and axis is not None:
        found = reshape.unsqueeze(loss, axis)
    else:
        found = reduced(loss, reduction, "cross_entropy")
    return reductions.rounded_as(like, found)


def _soft(
    input: Tensor,
    soft: Tensor,
    weight: Tensor | None,
    label: Tensor | None,
    ignore_index: int,
    reduction: str,
    use_softmax: bool,
    axis: int,
) -> Tensor:
    """Losses of probabilities; rows whose label is ignored, where they were made from labels, count for nothing."""
    logs = log_softmax(input) if use_softmax else log(input)
    loss = nll_of_soft(logs, soft)
    like, per = loss, None
    if weight is not None:
        like = loss if weight.dtype in dtypes.NARROW else weight
        wide = reductions.single(weight)
        per = reductions.sum(cast(soft, wide.dtype) * wide, axis=-1)
        loss = reductions.single(loss) * per
    if label is not None:
        valid = logic.not_equal(label, ignore_index)
        loss, per = only_where(loss, valid), None if per is None else only_where(per, valid)
    if reduction == "mean":
        if per is not None:
            found = _per(loss, per)
        else:
            found = reductions.mean(loss) if label is None else _per_label(loss, label, ignore_index)
    else:
        found = reshape.unsqueeze(loss, axis) if reduction == "none" else reduced(loss, reduction, "cross_entropy")
    return reductions.rounded_as(like, found)


@composite(plain=True, name_arg=False)
def softmax_with_cross_entropy(logits: Tensor, label: Tensor, soft_label: bool = False, ignore_index: int = -100,
                               numeric_stable_mode: bool = True, return_softmax: bool = False,
                               axis: Axis = -1) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Cross entropy of each sample, without reduction; the axis of the classes is kept with size 1.

    Args:
        logits: Logits of a floating-point dtype, with the classes along ``axis``.
        label: Integer classes in the shape of ``logits`` with size 1 along ``axis``; or with ``soft_label``
            probabilities in the shape of ``logits``.
        soft_label: Whether ``label`` holds a probability for each class. Default: False.
        ignore_index: Class whose samples have loss 0; without effect on soft labels. Default: -100.
        numeric_stable_mode: Not used: the computation never overflows. Default: True.
        return_softmax: Whether to return the probabilities too. Default: False.
        axis: Axis of the classes. Default: -1.

    Returns:
        Losses in the shape of ``logits`` with size 1 along ``axis``; with ``return_softmax`` a pair of these and the
        softmax.

    Examples:
        >>> x, label = bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([[1]])
        >>> loss = bireme.nn.functional.softmax_with_cross_entropy(x, label)
        >>> loss.shape, round(loss.item(), 4)
        ([1, 1], 0.6931)
    """
    if not soft_label and label.ndim != logits.ndim:
        wanted = [1 if i == axis else n for i, n in enumerate(logits.shape)]
        raise errors.bad("softmax_with_cross_entropy(label)", f"shape {wanted}", label)
    ignored = -100 if soft_label else ignore_index
    loss = cross_entropy(logits, label, ignore_index=ignored, reduction="none", soft_label=soft_label, axis=axis)
    return (loss, softmax(logits, axis)) if return_softmax else loss


@composite(plain=True)
def nll_loss(
    input: Tensor, label: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Negative log-likelihood: minus the log-probability of the labelled class, with the classes along axis 1.

    ``cross_entropy`` is this of the log-softmax of logits.

    Args:
        input: Log-probabilities of shape ``[N, C]`` or ``[N, C, d1, d2, ...]``.
        label: Integer classes in ``[0, C)``, of shape ``[N]`` or ``[N, d1, d2, ...]``.
        weight: Weight of each class, of shape ``[C]``; the mean is divided by the sum of the weights used.
            Default: None.
        ignore_index: Class whose samples have loss 0 and do not count in the mean. Default: -100.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses in the shape of ``label`` with ``'none'``.

    Examples:
        >>> bireme.nn.functional.nll_loss(bireme.to_tensor([[-1.0, -2.0]]), bireme.to_tensor([1])).item()
        2.0
    """
    must_reduce(reduction, "nll_loss")
    if input.ndim < 2:
        raise errors.bad("nll_loss(input)", "at least 2 dimensions, [batch, classes, ...]", input)
    if label.dtype.kind != "i":
        raise errors.bad("nll_loss(label)", "integer labels", described=label.dtype.name, kind=errors.DtypeError)
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
    """Mix one-hot labels with a distribution over the classes: ``(1 - epsilon) * label + epsilon * prior_dist``.

    Args:
        label: One-hot labels of a floating-point dtype, with the classes along the last axis.
        prior_dist: Distribution over the classes, of a shape that broadcasts; ``None`` means the uniform one.
            Default: None.
        epsilon: Weight of the distribution, in ``[0, 1]``. Default: 0.1.

    Returns:
        Tensor of the shape and dtype of ``label``.

    Examples:
        >>> bireme.nn.functional.label_smooth(bireme.to_tensor([[0.0, 1.0]]), epsilon=0.5).tolist()
        [[0.25, 0.75]]
    """
    if not 0 <= epsilon <= 1:
        raise errors.bad("label_smooth(epsilon)", "a number in [0, 1]", epsilon, kind=errors.for_number(epsilon))
    must_float("label_smooth(label)", label)
    if prior_dist is None:
        return label * (1 - epsilon) + (epsilon / label.shape[-1] if label.ndim and label.shape[-1] else 0.0)
    return label * (1 - epsilon) + prior_dist * epsilon


@composite(plain=True)
def mse_loss(input: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    """Mean squared error: the mean of ``(input - label) ** 2``.

    Args:
        input: Predictions.
        label: Targets, of a shape that broadcasts with that of ``input``.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses in the common shape with ``'none'``.

    Examples:
        >>> bireme.nn.functional.mse_loss(bireme.to_tensor([1.0]), bireme.to_tensor([3.0])).item()
        4.0
    """
    must_reduce(reduction, "mse_loss")
    return reduced((input - label).square(), reduction, "mse_loss")


@composite(plain=True, name_arg=False)
def square_error_cost(input: Tensor, label: Tensor) -> Tensor:
    """Squared difference of each element: ``(input - label) ** 2``, without reduction.

    Args:
        input: Predictions.
        label: Targets, of a shape that broadcasts with that of ``input``.

    Returns:
        Tensor of the common shape.

    Examples:
        >>> bireme.nn.functional.square_error_cost(bireme.to_tensor([1.0]), bireme.to_tensor([3.0])).tolist()
        [4.0]
    """
    return (input - label).square()


@composite(plain=True)
def l1_loss(input: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    """Mean absolute error: the mean of ``abs(input - label)``.

    Args:
        input: Predictions.
        label: Targets, of a shape that broadcasts with that of ``input``.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses in the common shape with ``'none'``.

    Examples:
        >>> bireme.nn.functional.l1_loss(bireme.to_tensor([1.0]), bireme.to_tensor([3.0])).item()
        2.0
    """
    must_reduce(reduction, "l1_loss")
    return reduced((input - label).abs(), reduction, "l1_loss")


@op(internal="huber", dtypes=FLOAT, numpy=True, amp="high", kernels="huber_loss")
def huber_of(x: Tensor, delta: float, scaled: bool) -> Tensor:
    """x squared over 2 up to `delta` and then along the tangent; `scaled` divides by delta. Use `smooth_l1_loss`."""
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


@composite(plain=True, c_ops={"huber_loss": "input label delta; reduction='none'"})
def smooth_l1_loss(
    input: Tensor, label: Tensor, reduction: str = "mean", delta: float = 1.0, is_huber: bool = True
) -> Tensor:
    """Huber loss: quadratic for differences up to ``delta``, linear beyond.

    With ``d = abs(input - label)`` it is ``0.5 * d ** 2`` where ``d <= delta``, else ``delta * (d - 0.5 * delta)``.

    Args:
        input: Predictions of a floating-point dtype.
        label: Targets of the same shape.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each element. Default: ``'mean'``.
        delta: Difference at which the loss becomes linear. Default: 1.0.
        is_huber: ``False`` divides the loss by ``delta``, which gives the smooth L1 loss. Default: True.

    Returns:
        0-D tensor, or the losses in the shape of ``input`` with ``'none'``.

    Examples:
        >>> bireme.nn.functional.smooth_l1_loss(bireme.to_tensor([4.0]), bireme.to_tensor([0.0]), delta=2.0).item()
        6.0
    """
    must_reduce(reduction, "smooth_l1_loss")
    if input.shape != label.shape:
        raise errors.bad("smooth_l1_loss(label)", f"the shape of input, {input.shape}", label)
    return reduced(huber_of(input - label, delta, not is_huber), reduction, "smooth_l1_loss")
