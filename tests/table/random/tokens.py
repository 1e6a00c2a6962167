"""Rows of the choice of tokens: which may be drawn, how often they are, and what was there before."""

import numpy as np

from tests.table.harness import Bad, Row, call, still

LOGITS = np.array([[0.5, 2.0, -1.0, 1.9, 0.0], [3.0, -2.0, 2.5, 2.5, 1.0]])
COUNTS = np.array([[0, 1 << 30, 0, 2, 0], [(1 << 30) + 1, 0, 0, 0, 3]], np.int32)
BIAS = np.array([[0, -100, 0, -100, 2], [0, 0, 5, 0, 100]], np.float32)
NEUTRAL = [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]  # temperature, top-p, min-p, repetition, presence, frequency
ROWS = "logits have rows of tokens"


def settings(*changes):
    return still(
        np.array([[{**dict(enumerate(NEUTRAL)), **change}[i] for i in range(6)] for change in changes], np.float32)
    )


def words(top_k=0, draw=0, counted=1):
    return np.array([[17, 3, draw, top_k, counted], [99, 0, draw, top_k, counted]], np.int32)


def _logprobs(logits):
    top = logits.max(axis=-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))


def _bits(*tokens):
    """For each row the tokens that may be chosen, as bits."""
    return np.array([[sum(1 << t for t in row)] for row in tokens], np.int32)


def _among(logits, allowed):
    return np.where((allowed >> np.arange(logits.shape[1])) & 1, logits, -np.inf)


def _likeliest_allowed(got, logits, allowed=None):
    token, logprob = got
    best = (logits if allowed is None else _among(logits, allowed)).argmax(1)
    near = np.abs(logprob - _logprobs(logits)[np.arange(len(logits)), best]) < 1e-2
    return (token == best).all() and near.all()


def _likeliest(got, logits, count=1):
    order = np.argsort(-logits, axis=1, kind="stable")[:, :count]
    token, logprob = [x.reshape(len(logits), count) for x in got]
    return (token == order).all() and np.abs(logprob - np.take_along_axis(_logprobs(logits), order, 1)).max() < 1e-2


def _may_be_drawn(row, counts, settings, top_k):
    temperature, top_p, min_p, repetition, presence, frequency = settings
    often = counts & ((1 << 30) - 1)
    row = np.where(counts != 0, np.where(row > 0, row / repetition, row * repetition), row)
    row = row - often * frequency - (often > 0) * presence
    if temperature == 0:
        return row == row.max()
    p = np.exp((row - row.max()) / temperature)
    kept = p >= np.sort(p)[::-1][min(top_k, len(p)) - 1] if top_k else np.ones(len(p), bool)
    order = np.argsort(-p, kind="stable")
    reached = np.cumsum(np.where(kept, p, 0)[order])
    last = order[np.argmax(reached >= reached[-1] * top_p * (1 - 1e-6))]
    return kept & (p >= p[last]) & (p >= min_p)


def _drawn(got, logits, counts, settings, words, allowed=None, bias=0):
    """The token is one of those that may be drawn; its probability is the model's own; it is counted."""
    token, logprob, after = got
    at = np.arange(len(logits))
    left = logits + bias if allowed is None else _among(logits + bias, allowed)
    may = [
        _may_be_drawn(*row)[t]
        for row, t in zip(zip(left, counts, settings, words[:, 3], strict=True), token, strict=True)
    ]
    more = np.zeros_like(counts)
    more[at, token] = words[:, 4]
    near = np.abs(logprob - _logprobs(logits.astype(np.float64))[at, token]) < 1e-2
    return all(may) and near.all() and (after == counts + more).all()


TABLE = [
    Row(
        "likeliest_token",
        [call(still(LOGITS)), call(still(LOGITS), _bits((0, 2), (1, 4)))],
        law=_likeliest_allowed,
        dtypes=frozenset(),
        grad=0,
        skip={"0-d": ROWS, "zero size": ROWS},
        bad=[
            Bad(
                call(LOGITS, np.zeros((2, 2), np.int32)),
                "likeliest_token(allowed): expected a bit for each token, shape [2, 1], got shape [2, 2]",
            )
        ],
    ),
    Row(
        "likeliest_tokens",
        [call(still(LOGITS), 3)],
        law=_likeliest,
        dtypes=frozenset(),
        grad=0,
        skip={"0-d": ROWS, "zero size": ROWS},
    ),
    Row(
        "drawn_token",
        [
            call(still(LOGITS), COUNTS, settings({0: 1.0, 1: 0.5}, {0: 0.7, 2: 0.6}), words(draw=3)),
            call(still(LOGITS), COUNTS, settings({0: 1.0}, {0: 2.0}), words(top_k=2, draw=1)),
            call(still(LOGITS), COUNTS, settings({3: 3.0, 4: 1.0}, {5: 0.9, 0: 0.5, 1: 0.3}), words(counted=0)),
            call(still(LOGITS), COUNTS, settings({0: 2.0, 3: 3.0}, {}), words(draw=2), _bits((0, 2), (1, 4))),
            call(still(LOGITS), COUNTS, settings({}, {3: 2.0}), words(), None, still(BIAS)),
        ],
        law=_drawn,
        dtypes=frozenset(),
        grad=0,
        skip={"0-d": ROWS, "zero size": ROWS},
        bad=[
            Bad(
                call(LOGITS, COUNTS[:, :4], settings({}, {}), words()),
                "drawn_token(counts): expected counts of the shape of logits",
            ),
            Bad(
                call(LOGITS, COUNTS, settings({}, {}), words(), None, BIAS[:1]),
                "drawn_token(bias): expected bias of the shape of logits",
            ),
            Bad(
                call(LOGITS, COUNTS, settings({}), words()), "drawn_token(settings): expected settings of shape [2, 6]"
            ),
        ],
    ),
]
