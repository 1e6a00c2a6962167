"""Recurrences over sequences that stand one after the other in one tensor, with their lengths beside it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of


def _starts(lengths: jax.Array, rows: int) -> tuple[jax.Array, jax.Array]:
    """Which sequence begins, and which one ends, at each row; -1 where none does."""
    ends = jnp.cumsum(lengths)
    number = jnp.arange(lengths.shape[0])
    # a sequence without rows begins and ends nowhere
    first = jnp.where(lengths > 0, ends - lengths, rows)
    last = jnp.where(lengths > 0, ends - 1, rows)
    nowhere = jnp.full((rows,), -1)
    return nowhere.at[first].set(number, mode="drop"), nowhere.at[last].set(number, mode="drop")


@op(internal=True, dtypes=FLOAT, promote="x h gates candidate", upcast=True)
def gated_sequences(
    x: Tensor, h: Tensor | None, gates: Tensor, candidate: Tensor, lengths: Tensor, reverse: bool, origin: bool
) -> Tensor:
    """All states of a gated recurrence over `x` of shape [rows, 3 * width], which holds update, reset and candidate."""
    width = candidate.shape[0]
    starts, ends = _starts(lengths, x.shape[0])
    begin = ends if reverse else starts
    first = jnp.zeros((lengths.shape[0], width), x.dtype) if h is None else h

    def step(state, now):
        given, which = now
        state = jnp.where(which >= 0, first[which] if first.shape[0] else state, state)
        update, reset = jnp.split(jax.nn.sigmoid(given[: 2 * width] + state @ gates), 2)
        new = jnp.tanh(given[2 * width :] + (reset * state) @ candidate)
        state = update * state + (1 - update) * new if origin else (1 - update) * state + update * new
        return state, state

    return lax.scan(step, jnp.zeros((width,), x.dtype), (x, begin), reverse=reverse)[1]


gated_sequences.infer(lambda x, candidate: sig_of((x.shape[0], candidate.shape[0]), x.dtype))


@gated_sequences.check
def _(x, h, gates, candidate, lengths, reverse, origin):
    width = candidate.shape[0] if candidate.ndim == 2 else -1
    if x.ndim != 2 or x.shape[1] != 3 * width:
        raise _misfit("gated_sequences(x)", f"rows of {3 * width} numbers", x)
    if tuple(candidate.shape) != (width, width) or tuple(gates.shape) != (width, 2 * width):
        raise _misfit("gated_sequences(gates)", f"shape [{width}, {2 * width}]", gates)
    if lengths.ndim != 1:
        raise _misfit("gated_sequences(lengths)", "one length for each sequence", lengths)
    if h is not None and tuple(h.shape) != (lengths.shape[0], width):
        raise _misfit("gated_sequences(h)", f"shape [{lengths.shape[0]}, {width}]", h)


@op(internal=True, differentiable=False, dtypes=FLOAT, promote="emission transition", upcast=True)
def crf_path(emission: Tensor, transition: Tensor, lengths: Tensor) -> Tensor:
    """The best path of tags of each sequence, for scores [rows, tags] and transitions [tags + 2, tags].

    Row 0 of the transitions is for the first tag of a sequence, row 1 for the last one; the others are from a tag to a tag.
    """
    starts, ends = _starts(lengths, emission.shape[0])
    begin, end, between = transition[0], transition[1], transition[2:]

    def forward(score, now):
        given, first = now
        through = score[:, None] + between
        best = jnp.where(first >= 0, begin, jnp.max(through, axis=0)) + given
        return best, (best, jnp.argmax(through, axis=0))

    _, (scores, before) = lax.scan(
        forward, jnp.zeros_like(emission[0] if emission.shape[0] else begin), (emission, starts)
    )

    def backward(tag, now):
        score, back, last = now
        tag = jnp.where(last >= 0, jnp.argmax(score + end), tag)
        return back[tag], tag

    _, path = lax.scan(backward, jnp.zeros((), before.dtype), (scores, before, ends), reverse=True)
    return path.astype(jnp.int64)


crf_path.infer(lambda emission: sig_of(emission.shape[:1], dtypes.int64))


@crf_path.check
def _(emission, transition, lengths):
    if emission.ndim != 2:
        raise _misfit("crf_path(emission)", "scores of shape [rows, tags]", emission)
    tags = emission.shape[1]
    if tuple(transition.shape) != (tags + 2, tags):
        raise _misfit("crf_path(transition)", f"shape [{tags + 2}, {tags}]", transition)
    if lengths.ndim != 1:
        raise _misfit("crf_path(lengths)", "one length for each sequence", lengths)


def _misfit(where: str, wanted: str, x: Tensor) -> Exception:
    return errors.bad(where, wanted, described=f"shape {list(x.shape)}", kind=errors.ShapeError)
