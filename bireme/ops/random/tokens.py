"""Choosing the next token of each row of logits. Rows have settings and seeds of their own, and do not see each other."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of
from bireme.ops.random import philox

IN_PROMPT = 1 << 30  # in a count: the token stands in the prompt; below it, how often in the text
BLOCK = 128  # chances that are added up together
STEPS = 32  # of the search for the last chance that is kept: one for each bit


def _logprob(x, token):
    """Logarithm of the probability of one token in each row."""
    top = jnp.max(x, axis=1)
    total = top + jnp.log(jnp.sum(jnp.exp(x - top[:, None]), axis=1))
    return jnp.take_along_axis(x, token[:, None], axis=1)[:, 0] - total


def _among(x, allowed):
    """Logits of tokens whose bit is set in `allowed`, [rows, tokens / 32]; minus infinity for others."""
    if allowed is None:
        return x
    bits = (allowed[:, :, None] >> np.arange(32, dtype=np.int32)) & np.int32(1)
    return jnp.where(bits.reshape(x.shape[0], -1)[:, : x.shape[1]] != 0, x, np.float32(-np.inf))


@op(internal=True, differentiable=False, dtypes=FLOAT, selects=True)
def likeliest_token(logits: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The most likely token of each row, of those whose bits are set in `allowed`, and the logarithm of its probability
    to the model.
    """
    x = logits.astype(np.float32)
    token = jnp.argmax(_among(x, allowed), axis=1).astype(np.int32)
    return token, _logprob(x, token)


def _check_bits(where, logits, allowed):
    wanted = (logits.shape[0], -(-logits.shape[-1] // 32))
    if allowed is not None and allowed.shape != wanted:
        raise errors.bad(
            f"{where}(allowed)",
            f"a bit for each token, shape {list(wanted)}",
            described=f"shape {list(allowed.shape)}",
            kind=errors.ShapeError,
        )


@likeliest_token.check
def _(logits, allowed):
    _check_bits("likeliest_token", logits, allowed)


@likeliest_token.infer
def _(logits):
    return [sig_of(logits.shape[:1], dtypes.int32), sig_of(logits.shape[:1], dtypes.float32)]


@op(internal=True, differentiable=False, dtypes=FLOAT, selects=True)
def likeliest_tokens(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The most likely tokens of each row, and the logarithms of their probabilities."""
    x = logits.astype(np.float32)
    found, tokens = lax.top_k(x, count)
    top = found[:, :1]
    total = top + jnp.log(jnp.sum(jnp.exp(x - top), axis=1, keepdims=True))
    return tokens.astype(np.int32), found - total


@likeliest_tokens.infer
def _(logits, count):
    shape = (logits.shape[0], count)
    return [sig_of(shape, dtypes.int32), sig_of(shape, dtypes.float32)]


def _bound(size, enough):
    """The least number, of non-negative floats as integers, at which `enough` holds of all up to it."""

    def step(_, ends):
        low, high = ends
        middle = low + (high - low) // 2
        yes = enough(size <= middle[:, None])
        return jnp.where(yes, low, middle + 1), jnp.where(yes, middle, high)

    start = jnp.zeros(size.shape[0], np.int32), jnp.full(size.shape[0], 0x7F800000, np.int32)  # infinity
    return lax.fori_loop(0, STEPS, step, start)[1]


def _kept(shifted, chances, top_k, top_p, min_p):
    """The chances of tokens that may be drawn, 0 for others; ties with the last one are kept."""
    size = lax.bitcast_convert_type(jnp.abs(shifted), np.int32)  # the larger, the less likely
    rows, every = shifted.shape[0], np.int32(0x7F800000)

    def by_count():
        found = _bound(size, lambda kept: jnp.sum(kept, axis=1, dtype=np.int32) >= top_k)
        return jnp.where(top_k > 0, found, every)

    first = lax.cond(jnp.any(top_k > 0), by_count, lambda: jnp.full(rows, every))
    left = jnp.where(size <= first[:, None], chances, np.float32(0))
    wanted = jnp.sum(left, axis=1) * top_p

    def by_sum():
        found = _bound(size, lambda kept: jnp.sum(jnp.where(kept, left, np.float32(0)), axis=1) >= wanted)
        return jnp.where(top_p < 1, found, every)

    second = lax.cond(jnp.any(top_p < 1), by_sum, lambda: jnp.full(rows, every))
    return jnp.where((size <= second[:, None]) & (chances >= min_p[:, None]), left, np.float32(0))


def _first_above(sums, value, chances):
    """The first place whose sum is above a value; where rounding leaves none, the last one that has a chance."""
    last = chances.shape[1] - 1 - jnp.argmax(chances[:, ::-1] > 0, axis=1)
    return jnp.minimum(jnp.sum(sums <= value[:, None], axis=1), last)


def _drawn(chances, word):
    """One token of each row by its chance: first a block of them, then one in it."""
    rows, tokens = chances.shape
    unit = (word >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    blocks = jnp.pad(chances, ((0, 0), (0, -tokens % BLOCK))).reshape(rows, -1, BLOCK)
    weights = jnp.sum(blocks, axis=2)
    sums = jnp.cumsum(weights, axis=1)
    value = unit * sums[:, -1]
    block = _first_above(sums, value, weights)[:, None]
    before = jnp.take_along_axis(sums, block, axis=1) - jnp.take_along_axis(weights, block, axis=1)
    inner = jnp.take_along_axis(blocks, block[:, :, None], axis=1)[:, 0]
    place = _first_above(jnp.cumsum(inner, axis=1), value - before[:, 0], inner)
    return (block[:, 0] * BLOCK + place).astype(np.int32)


@op(internal=True, differentiable=False, dtypes=FLOAT, selects=True)
def drawn_token(
    logits: Tensor,
    counts: Tensor,
    settings: Tensor,
    words: Tensor,
    allowed: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """A token drawn in each row, the logarithm of its probability to the model, and the counts with it.

    Counts [rows, tokens] have bit 30 for tokens in the prompt, below it how often one was drawn. Settings are
    temperature, top-p, min-p, repetition, presence and frequency penalty; words are both halves of the seed, the number
    of the draw, top-k, and whether the row counts at all. Of tokens whose bits are not set in `allowed` none is drawn.
    A bias [rows, tokens] is added to the logits first.
    """
    x = logits.astype(np.float32)
    biased = x if bias is None else x + bias.astype(np.float32)
    temperature, top_p, min_p, repetition, presence, frequency = settings.astype(np.float32).T

    def penalized():
        often = counts & np.int32(IN_PROMPT - 1)
        by = jnp.where(counts != 0, repetition[:, None], np.float32(1))
        less = jnp.where(biased > 0, biased / by, biased * by) - often.astype(np.float32) * frequency[:, None]
        return less - jnp.where(often > 0, presence[:, None], np.float32(0))

    some = jnp.any((repetition != 1) | (presence != 0) | (frequency != 0))
    y = _among(lax.cond(some, penalized, lambda: biased), allowed)
    best = jnp.argmax(y, axis=1).astype(np.int32)
    top = jnp.take_along_axis(y, best[:, None], axis=1)
    shifted = (y - top) / jnp.where(temperature > 0, temperature, np.float32(1))[:, None]
    chances = _kept(shifted, jnp.exp(shifted), words[:, 3], top_p, min_p)
    seed = lax.bitcast_convert_type(words[:, :3], np.uint32)
    word = philox.scrambled(seed[:, 2], seed[:, 1], seed[:, 0])[0]
    token = jnp.where(temperature > 0, _drawn(chances, word), best)
    counts = counts.at[jnp.arange(x.shape[0]), token].add(words[:, 4])
    return token, _logprob(x, token), counts


@drawn_token.infer
def _(logits, counts):
    rows = logits.shape[:1]
    return [sig_of(rows, dtypes.int32), sig_of(rows, dtypes.float32), counts]


@drawn_token.check
def _(logits, counts, settings, words, allowed, bias):
    for name, given in (("counts", counts), ("bias", bias)):
        if given is not None and (logits.ndim != 2 or given.shape != logits.shape):
            raise errors.bad(
                f"drawn_token({name})",
                f"{name} of the shape of logits, [rows, tokens]",
                described=f"shapes {list(given.shape)} and {list(logits.shape)}",
                kind=errors.ShapeError,
            )
    rows = logits.shape[0]
    if settings.shape != (rows, 6) or words.shape != (rows, 5):
        raise errors.bad(
            "drawn_token(settings)",
            f"settings of shape {[rows, 6]} and words of shape {[rows, 5]}",
            described=f"shapes {list(settings.shape)} and {list(words.shape)}",
            kind=errors.ShapeError,
        )
    _check_bits("drawn_token", logits, allowed)
