"""Rows of decoding of sequences of tags."""

import itertools

import numpy as np

from tests.table.harness import ALL, Bad, Row, call
from tests.table.samples import floats


def _best(potentials, transitions, lengths, include_bos_eos_tag=True):
    """By the definition: the score of every sequence, the first of the best."""
    found = (
        np.zeros(len(potentials), potentials.dtype),
        np.zeros((len(potentials), int(max(lengths, default=0))), "int64"),
    )
    for b, (p, n) in enumerate(zip(potentials, lengths, strict=True)):
        every = list(itertools.product(range(p.shape[1]), repeat=int(n)))

        def score(tags, p=p):
            inner = sum(p[t, tag] for t, tag in enumerate(tags)) + sum(
                transitions[a, b] for a, b in itertools.pairwise(tags)
            )
            return inner + (transitions[-1, tags[0]] + transitions[-2, tags[-1]] if include_bos_eos_tag else 0)

        tags = max(every, key=score)
        found[0][b], found[1][b, : len(tags)] = score(tags), tags
    return found


_P, _T, _N = floats(3, 4, 3), floats(3, 3, seed=1), np.array([4, 1, 2])

TABLE = [
    Row("viterbi_decode", [call(_P, _T, _N), call(_P, _T, _N, False), call(_P[:0], _T, _N[:0]),
        call(_P, _T, np.array([1, 2, 1], "int32"))],
        _best, dtypes=frozenset(), unchecked=ALL, out="ref", grad=0, skip={"0-d": "it takes sequences of scores", "static": "the size of its result depends on values"},
        bad=[Bad(call(_P, _T, np.array([4, 1, 5])), "viterbi_decode(lengths): expected indices in [0, 4], got 5", IndexError),
             Bad(call(_P, _T, np.array([4, 1])), "viterbi_decode(lengths): expected one length for each of 3 sequences"),
             Bad(call(_P, _T[:2], _N), "viterbi_decode(transition_params): expected shape [3, 3]"),
             Bad(call(_P, _T.astype("float32"), _N), "viterbi_decode(transition_params): expected float64, as potentials are"),
             Bad(call(_P, _T, _N.astype("float32")), "viterbi_decode(lengths): expected integers"),
             Bad(call(_P[0], _T, _N), "viterbi_decode(potentials): expected shape [batch, steps, tags]")]),
]  # fmt: skip
