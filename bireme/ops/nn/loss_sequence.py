"""Losses of sequences without alignment, summed in log space: connectionist temporal classification, transducer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.exponentials import logaddexp
from bireme.ops.math.arithmetic import cast
from bireme.ops.nn.loss import must_float, must_reduce, reduced
from bireme.ops.reduction import reductions

_NEVER = -1e30  # the logarithm of no chance at all: infinity would make gradients NaN


def _logs(x, axis=-1):
    x = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
    z = x - lax.stop_gradient(jnp.max(x, axis=axis, keepdims=True))
    return z - jnp.log(jnp.sum(jnp.exp(z), axis=axis, keepdims=True))


def _total(*terms):
    """Logarithm of the sum of exponentials of a few arrays."""
    top = lax.stop_gradient(jnp.stack(jnp.broadcast_arrays(*terms)).max(axis=0))
    return top + jnp.log(sum(jnp.exp(t - top) for t in terms))


# ---------------------------------------------------------------- connectionist temporal classification


def _ctc(logits, labels, input_lengths, label_lengths, blank):
    logs = _logs(logits)
    steps, batch = logs.shape[:2]
    states = 2 * labels.shape[1] + 1
    rows = jnp.arange(states)
    inner = jnp.clip((rows - 1) // 2, 0, max(labels.shape[1] - 1, 0))
    at = (
        jnp.where(rows % 2 == 1, labels[:, inner], blank)
        if labels.shape[1]
        else jnp.full((batch, 1), blank, labels.dtype)
    )
    seen = jnp.take_along_axis(logs, jnp.broadcast_to(at[None], (steps, batch, states)), axis=2)
    # a label may follow another at once if they differ
    leaps = (rows % 2 == 1) & (rows >= 2) & (at != jnp.roll(at, 2, axis=1))
    alpha = jnp.where(rows < 2, seen[0], np.asarray(_NEVER, seen.dtype))

    def step(alpha, given):
        t, now = given
        one = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=_NEVER)[:, :states]
        two = jnp.where(
            leaps, jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=_NEVER)[:, :states], np.asarray(_NEVER, alpha.dtype)
        )
        new = jnp.maximum(_total(alpha, one, two) + now, np.asarray(_NEVER, alpha.dtype))
        return jnp.where((t < input_lengths)[:, None], new, alpha), None

    alpha, _ = lax.scan(step, alpha, (jnp.arange(1, steps), seen[1:]))
    last = (2 * label_lengths)[:, None]
    ends = jnp.take_along_axis(alpha, last, axis=1)[:, 0]
    before = jnp.take_along_axis(alpha, jnp.maximum(last - 1, 0), axis=1)[:, 0]
    before = jnp.where(label_lengths > 0, before, np.asarray(_NEVER, alpha.dtype))
    total = _total(ends, before)
    # no alignment at all costs nothing and has no gradient
    return jnp.where(total > _NEVER / 2, -total, 0).astype(logits.dtype)


class _Lattice:
    """The same on NumPy arrays, for the interpreter: nothing is traced for a new length. Keeps all probabilities."""

    def __init__(self, logits, labels, input_lengths, label_lengths, blank):
        x = logits.astype(np.float32) if logits.dtype.itemsize < 4 else logits
        z = x - x.max(-1, keepdims=True)
        self.logs = z - np.log(np.exp(z).sum(-1, keepdims=True))
        self.lengths, self.label_lengths, self.never = input_lengths, label_lengths, np.asarray(_NEVER, x.dtype)
        steps, batch, _ = x.shape
        self.at = np.full((batch, 2 * labels.shape[1] + 1), blank, labels.dtype)
        self.at[:, 1::2] = labels
        self.rows = np.arange(self.at.shape[1])
        self.leaps = (self.rows % 2 == 1) & (self.rows >= 2) & (self.at != np.roll(self.at, 2, axis=1))
        self.seen = np.take_along_axis(self.logs, np.broadcast_to(self.at, (steps, *self.at.shape)), axis=2)
        self.alphas = np.empty_like(self.seen)
        self.alphas[0] = np.where(self.rows < 2, self.seen[0], self.never)
        for t in range(1, steps):
            before = self.alphas[t - 1]
            new = np.maximum(self.sums(before)[0] + self.seen[t], self.never)
            self.alphas[t] = np.where((t < input_lengths)[:, None], new, before)
        self.ends = [np.take_along_axis(self.alphas[-1], place, axis=1)[:, 0] for place in self.last()]
        self.ends[1] = np.where(label_lengths > 0, self.ends[1], self.never)
        self.total = logaddexp(*self.ends)

    def last(self):
        last = (2 * self.label_lengths)[:, None]
        return last, np.maximum(last - 1, 0)

    def sums(self, alpha):
        """What reaches each state: all of it, and from this state, the one before, the one before that."""
        one, two = np.full((2, *alpha.shape), self.never)
        one[:, 1:], two[:, 2:] = alpha[:, :-1], alpha[:, :-2]
        two[~self.leaps] = self.never
        return logaddexp(logaddexp(alpha, one), two), (alpha, one, two)


def _ctc_numpy(logits, labels, input_lengths, label_lengths, blank, norm_by_times):
    total = _Lattice(logits, labels, input_lengths, label_lengths, blank).total
    return np.where(total > _NEVER / 2, -total, 0).astype(logits.dtype)


def _ctc_grad_numpy(g, logits, labels, input_lengths, label_lengths, blank, norm_by_times):
    lattice = _Lattice(logits, labels, input_lengths, label_lengths, blank)
    g = g.astype(lattice.logs.dtype)
    g = np.where(lattice.total > _NEVER / 2, -g / input_lengths if norm_by_times else -g, 0)
    d, of_seen, each = np.zeros_like(lattice.alphas[0]), np.zeros_like(lattice.seen), np.arange(len(g))
    for place, end in zip(lattice.last(), lattice.ends, strict=True):
        d[each, place[:, 0]] += g * np.where(end > _NEVER / 2, np.exp(end - lattice.total), 0)
    for t in range(len(of_seen) - 1, 0, -1):
        within = (t < input_lengths)[:, None]
        total, terms = lattice.sums(lattice.alphas[t - 1])
        new = np.where(within & (total + lattice.seen[t] > _NEVER), d, 0)
        of_seen[t] = new
        here, one, two = [new * np.exp(term - total) for term in terms]
        d = np.where(within, here, d)
        d[:, :-1] += one[:, 1:]
        d[:, :-2] += (two * lattice.leaps)[:, 2:]
    of_seen[0] = np.where(lattice.rows < 2, d, 0)
    classes = logits.shape[-1]
    places = np.arange(len(of_seen) * len(g)).reshape(len(of_seen), -1, 1) * classes + lattice.at
    found = np.bincount(places.ravel(), of_seen.ravel(), logits.size).reshape(logits.shape)
    return (found - np.exp(lattice.logs) * found.sum(-1, keepdims=True)).astype(logits.dtype), None, None, None


@op(internal="ctc", dtypes=FLOAT, numpy=_ctc_numpy)
def ctc_of(
    logits: Tensor, labels: Tensor, input_lengths: Tensor, label_lengths: Tensor, blank: int, norm_by_times: bool
) -> Tensor:
    """Minus the log-probability of all alignments of each sample; use `ctc_loss`."""
    return _ctc(logits, labels, input_lengths, label_lengths, blank)


ctc_of.infer(lambda logits: sig_of(logits.shape[1:2], logits.dtype))


@ctc_of.index
def _(s):
    steps, _, classes = s["logits"].shape
    return [("labels", 0, classes), ("input_lengths", 1, steps + 1), ("label_lengths", 0, s["labels"].shape[1] + 1)]


@ctc_of.effort
def _(logits):
    return 100_000 * logits.shape[0]  # a step of the interpreter's loop takes some 50 us, however few the elements


@ctc_of.grad(numpy=_ctc_grad_numpy)
def _(g, logits, labels, input_lengths, label_lengths, blank, norm_by_times):
    g = g / input_lengths.astype(g.dtype) if norm_by_times else g
    back = jax.vjp(lambda x: _ctc(x, labels, input_lengths, label_lengths, blank), logits)[1]
    return back(g)[0], None, None, None


@composite(plain=True, name_arg=False)
def ctc_loss(
    log_probs: Tensor,
    labels: Tensor,
    input_lengths: Tensor,
    label_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
) -> Tensor:
    """Connectionist temporal classification: minus the log-probability of all alignments of a label sequence.

    ``'mean'`` divides the loss of each sample by the length of its label before it takes the mean. A sample that has no
    alignment, because its label is too long, has loss 0 and no gradient.

    Args:
        log_probs: Logits of shape ``[T, N, C]``, of a floating-point dtype; softmax is applied to them.
        labels: Integer classes in ``[0, C)``, of shape ``[N, L]``.
        input_lengths: Number of steps of each sample, integers of shape ``[N]`` in ``[1, T]``.
        label_lengths: Number of labels of each sample, integers of shape ``[N]`` in ``[0, L]``.
        blank: Class that stands for no label. Default: 0.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.
        norm_by_times: Whether to divide the gradient of each sample, not its loss, by its number of steps.
            Default: False.

    Returns:
        0-D tensor, or the losses of shape ``[N]`` with ``'none'``.

    Examples:
        >>> logits, one = bireme.zeros([1, 1, 2]), bireme.to_tensor([1])
        >>> round(bireme.nn.functional.ctc_loss(logits, bireme.to_tensor([[1]]), one, one).item(), 4)
        0.6931
    """
    must_reduce(reduction, "ctc_loss")
    must_float("ctc_loss(log_probs)", log_probs)
    if log_probs.ndim != 3 or 0 in log_probs.shape:
        raise errors.bad("ctc_loss(log_probs)", "shape [steps, batch, classes]", log_probs)
    _, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise errors.bad("ctc_loss(blank)", f"a class in [0, {classes - 1}]", blank)
    if labels.ndim != 2 or labels.shape[0] != batch or labels.dtype.kind != "i":
        raise errors.bad(
            "ctc_loss(labels)",
            f"an integer tensor of shape [{batch}, longest label]",
            labels,
            kind=errors.for_integer(labels),
        )
    for name, t in (("input_lengths", input_lengths), ("label_lengths", label_lengths)):
        if t.shape != [batch] or t.dtype.kind != "i":
            raise errors.bad(
                f"ctc_loss({name})", f"an integer tensor of shape [{batch}]", t, kind=errors.for_integer(t)
            )
    loss = ctc_of(log_probs, labels, input_lengths, label_lengths, blank, norm_by_times)
    if reduction == "mean":
        return reductions.mean(loss / cast(label_lengths, loss.dtype))
    return reduced(loss, reduction, "ctc_loss")


# ---------------------------------------------------------------- the transducer


def _rnnt(logs, label, input_lengths, label_lengths, blank, fastemit_lambda):
    """Negative logarithm of the chance of all ways through the lattice of steps and labels, from log-probabilities."""
    steps = logs.shape[1]
    quiet = logs[..., blank]
    says = jnp.take_along_axis(logs[:, :, :-1], label[:, None, :, None], axis=3)[..., 0]
    # the gradient of what is said counts more, by one part in so many; the number stays
    says = says + fastemit_lambda * (says - lax.stop_gradient(says))
    said = jnp.pad(jnp.cumsum(says, axis=2), ((0, 0), (0, 0), (1, 0)))

    def step(alpha, given):
        before, said = given
        new = said + lax.cumlogsumexp(alpha + before - said, axis=1)
        return new, new

    rest = (jnp.moveaxis(quiet[:, :-1], 1, 0), jnp.moveaxis(said[:, 1:], 1, 0))
    alphas = jnp.concatenate([said[None, :, 0], lax.scan(step, said[:, 0], rest)[1]]) if steps > 1 else said[None, :, 0]
    each = jnp.arange(logs.shape[0])
    last = input_lengths - 1
    return -(alphas[last, each, label_lengths] + quiet[each, last, label_lengths])


@op(internal="rnnt", dtypes=FLOAT)
def rnnt_of(
    input: Tensor, label: Tensor, input_lengths: Tensor, label_lengths: Tensor, blank: int, fastemit_lambda: float
) -> Tensor:
    """Transducer loss of each sample; use `rnnt_loss`."""
    wide = input.astype(jnp.float32) if input.dtype.itemsize < 4 else input
    return _rnnt(wide, label, input_lengths, label_lengths, blank, fastemit_lambda).astype(input.dtype)


rnnt_of.infer(lambda input: sig_of(input.shape[:1], input.dtype))


@rnnt_of.index
def _(s):
    _, steps, labels, classes = s["input"].shape
    return [("label", 0, classes), ("input_lengths", 1, steps + 1), ("label_lengths", 0, labels)]


@composite(
    plain=True,
    c_ops={
        "warprnnt": "input label input_lengths label_lengths blank=0 fastemit_lambda=0.0 num_threads:=1; "
        "reduction='none'"
    },
)
def rnnt_loss(
    input: Tensor,
    label: Tensor,
    input_lengths: Tensor,
    label_lengths: Tensor,
    blank: int = 0,
    fastemit_lambda: float = 0.001,
    reduction: str = "mean",
) -> Tensor:
    """Transducer loss (RNN-T): minus the log-probability of all alignments of a label sequence with its input.

    Log-probabilities are taken as they are: apply ``log_softmax`` along the last axis first.

    Args:
        input: Log-probabilities of shape ``[N, T, L + 1, C]``, of a floating-point dtype.
        label: Integer classes in ``[0, C)``, of shape ``[N, L]``.
        input_lengths: Number of steps of each sample, integers of shape ``[N]`` in ``[1, T]``.
        label_lengths: Number of labels of each sample, integers of shape ``[N]`` in ``[0, L]``.
        blank: Class that stands for no label. Default: 0.
        fastemit_lambda: How much more the gradient of emitting a label counts, which makes the model emit earlier.
            Default: 0.001.
        reduction: ``'mean'``, ``'sum'``, or ``'none'`` for the loss of each sample. Default: ``'mean'``.

    Returns:
        0-D tensor, or the losses of shape ``[N]`` with ``'none'``.

    Examples:
        >>> logs, one = bireme.full([1, 1, 2, 2], -1.0), bireme.to_tensor([1])
        >>> bireme.nn.functional.rnnt_loss(logs, bireme.to_tensor([[1]]), one, one).item()
        2.0
    """
    must_reduce(reduction, "rnnt_loss")
    must_float("rnnt_loss(input)", input)
    if input.ndim != 4 or 0 in input.shape:
        raise errors.bad("rnnt_loss(input)", "shape [batch, steps, labels + 1, classes]", input)
    batch, _, labels, classes = input.shape
    if not 0 <= blank < classes:
        raise errors.bad("rnnt_loss(blank)", f"a class in [0, {classes - 1}]", blank)
    if label.shape != [batch, labels - 1] or label.dtype.kind != "i":
        raise errors.bad(
            "rnnt_loss(label)",
            f"an integer tensor of shape {[batch, labels - 1]}",
            label,
            kind=errors.for_integer(label),
        )
    for name, t in (("input_lengths", input_lengths), ("label_lengths", label_lengths)):
        if t.shape != [batch] or t.dtype.kind != "i":
            raise errors.bad(
                f"rnnt_loss({name})", f"an integer tensor of shape [{batch}]", t, kind=errors.for_integer(t)
            )
    return reduced(rnnt_of(input, label, input_lengths, label_lengths, blank, fastemit_lambda), reduction, "rnnt_loss")
