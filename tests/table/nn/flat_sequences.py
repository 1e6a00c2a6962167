"""Rows of `bireme.ops.nn.flat_sequences`: recurrences over sequences that stand one after the other."""

import itertools

import numpy as np
from scipy.special import expit

from bireme.core.base.dtype import FLOAT
from tests.table.harness import Bad, Row, call
from tests.table.samples import floats


def _gated(x, h, gates, candidate, lengths, reverse, origin):
    d, at = len(candidate), 0
    out = np.zeros((len(x), d), x.dtype)
    for i, n in enumerate(lengths):
        state = np.zeros(d, x.dtype) if h is None else h[i]
        for t in range(at, at + n)[:: -1 if reverse else 1]:
            u, r = np.split(expit(x[t, : 2 * d] + state @ gates), 2)
            new = np.tanh(x[t, 2 * d :] + (r * state) @ candidate)
            state = u * state + (1 - u) * new if origin else (1 - u) * state + u * new
            out[t] = state
        at += n
    return out


def _path(emission, transition, lengths):
    found, at = [], 0
    for n in lengths:

        def score(path, own=emission[at : at + n]):
            steps = sum(transition[2 + a, b] for a, b in itertools.pairwise(path))
            return (
                sum(own[t, tag] for t, tag in enumerate(path))
                + steps
                + transition[0, path[0]]
                + transition[1, path[-1]]
            )

        if n:
            found += max(itertools.product(range(emission.shape[1]), repeat=n), key=score)
        at += n
    return np.array(found, int)


_lengths = np.array([2, 0, 3])
_weights = floats(2, 4, seed=1), floats(2, 2, seed=2)
ROWS = {"0-d": "there are rows"}
TABLE = [
    Row("gated_sequences", [call(floats(5, 6), floats(3, 2, seed=3), *_weights, _lengths, True, True),
        call(np.zeros((0, 6)), None, *_weights, np.array([0, 0]), False, False),
        call(floats(14, 6), None, *_weights, np.array([2] * 7), True, False)],
        _gated, dtypes=FLOAT, slow=True, skip=ROWS, loose=(6, "half precision, from step to step"),
        bad=[Bad(call(floats(5, 7), None, *_weights, _lengths, False, False), "gated_sequences(x): expected rows of 6 numbers, got shape [5, 7]"),
             Bad(call(floats(5, 6), None, floats(2, 3), _weights[1], _lengths, False, False), "gated_sequences(gates): expected shape [2, 4], got shape [2, 3]"),
             Bad(call(floats(5, 6), None, *_weights, np.array([[5]]), False, False), "gated_sequences(lengths): expected one length for each sequence, got shape [1, 1]"),
             Bad(call(floats(5, 6), floats(2, 2), *_weights, _lengths, False, False), "gated_sequences(h): expected shape [3, 2], got shape [2, 2]")]),
    Row("crf_path", [call(floats(5, 3), floats(5, 3, seed=1), _lengths), call(np.zeros((0, 2)), floats(4, 2, seed=1), np.array([0]))], _path, out="int64",
        grad=0, dtypes=FLOAT, skip=ROWS,
        bad=[Bad(call(floats(5, 3), floats(4, 3), _lengths), "crf_path(transition): expected shape [5, 3], got shape [4, 3]"),
             Bad(call(floats(5), floats(4, 3), _lengths), "crf_path(emission): expected scores of shape [rows, tags], got shape [5]"),
             Bad(call(floats(5, 3), floats(5, 3), np.array(5)), "crf_path(lengths): expected one length for each sequence, got shape []")]),
]  # fmt: skip
