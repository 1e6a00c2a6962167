"""Recurrences over sequences that stand one after the other in one tensor, with their lengths beside it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of

_FEW = 6  # sequences that never take less time together
_FEW_TAGS = 64  # that are compared one by one: XLA makes several passes of a maximum over more than some 16


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
        state = _advanced(state, given, gates, candidate, origin)
        return state, state

    return lax.scan(step, jnp.zeros((width,), x.dtype), (x, begin), reverse=reverse)[1]


def _advanced(state, given, gates, candidate, origin):
    """The state after a step, of one sequence or of several."""
    update, reset = jnp.split(jax.nn.sigmoid(given[..., : gates.shape[1]] + state @ gates), 2, -1)
    new = jnp.tanh(given[..., gates.shape[1] :] + (reset * state) @ candidate)
    return update * state + (1 - update) * new if origin else (1 - update) * state + update * new


def _together(x, h, gates, candidate, lengths, reverse, origin):
    """A step of all sequences at a time, as many as the longest one has rows."""
    rows, ends = x.shape[0], jnp.cumsum(lengths)
    first = jnp.zeros((lengths.shape[0], candidate.shape[0]), x.dtype) if h is None else h

    def step(done):
        t, state, out = done
        at = ends - 1 - t if reverse else ends - lengths + t
        state = _advanced(state, x[jnp.clip(at, 0, rows - 1)], gates, candidate, origin)
        return t + 1, state, out.at[jnp.where(t < lengths, at, rows)].set(state, mode="drop")

    begin = (jnp.zeros((), lengths.dtype), first, jnp.zeros((rows, candidate.shape[0]), x.dtype))
    return lax.while_loop(lambda done: done[0] < jnp.max(lengths), step, begin)[2]


@gated_sequences.on("cpu")
def _(x, h, gates, candidate, lengths, reverse, origin):
    given, count = (x, h, gates, candidate, lengths), lengths.shape[0]
    row_by_row = functools.partial(gated_sequences.body, reverse=reverse, origin=origin)
    if count <= _FEW or not x.shape[0]:
        return row_by_row(*given)

    @jax.custom_vjp
    def chosen(*given):
        # a step of all takes as long as three rows, and half a row for each sequence
        faster = (6 + count) * jnp.max(given[-1]) < 2 * x.shape[0]
        return lax.cond(faster, functools.partial(_together, reverse=reverse, origin=origin), row_by_row, *given)

    # a loop whose length is a value has no derivative
    chosen.defvjp(lambda *given: (chosen(*given), given), lambda given, g: jax.vjp(row_by_row, *given)[1](g))
    return chosen(*given)


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
        best = jnp.where(first >= 0, begin, _over_rows(score[:, None] + between)) + given
        return best, best

    _, scores = lax.scan(forward, jnp.zeros_like(begin), (emission, starts))
    turned = lax.optimization_barrier(between.T)

    def backward(after, now):
        # which tag a score comes from is asked for along the path alone
        score, last = now
        tag = jnp.argmax(score + jnp.where(last >= 0, end, turned[after])).astype(jnp.int32)
        return tag, tag

    _, path = lax.scan(backward, jnp.zeros((), jnp.int32), (scores, ends), reverse=True)
    return path.astype(jnp.int64)


def _over_rows(x):
    """The largest number of each column."""
    return functools.reduce(jnp.maximum, list(x)) if x.shape[0] <= _FEW_TAGS else jnp.max(x, axis=0)


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
