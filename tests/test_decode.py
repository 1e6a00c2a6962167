"""Decoding step by step: beam search against an exhaustive search, decoders of one's own."""

import itertools

import numpy as np
import pytest

import bireme
from bireme import nn

WORDS, STEPS = 4, 3


def logs(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class Table:
    """A cell whose logits depend on the last token alone."""

    def __init__(self, table):
        self.table = bireme.to_tensor(table)

    def __call__(self, tokens, states, **kwargs):
        return self.table[tokens], states + 1


@pytest.fixture
def table():
    return np.random.default_rng(3).normal(size=(WORDS, WORDS)).astype("float32") * 2


def best(table, count):
    """All sequences of STEPS tokens that stop counting at the end token 1, the likeliest first."""
    found, scores = [], logs(table.astype(float))
    for tokens in itertools.product(range(WORDS), repeat=STEPS):
        end = tokens.index(1) if 1 in tokens else STEPS
        if all(t == 1 for t in tokens[end:]):
            found.append((sum(scores[a, b] for a, b in itertools.pairwise((0, *tokens[: end + 1]))), tokens))
    return sorted(found, reverse=True)[:count]


def test_a_wide_beam_finds_the_likeliest_sequences(table):
    decoder = nn.BeamSearchDecoder(Table(table), start_token=0, end_token=1, beam_size=WORDS**2)
    ids, states, lengths = nn.dynamic_decode(decoder, bireme.zeros([2, 1]), max_step_num=STEPS - 1, return_length=True)
    want = best(table, 5)
    for entry in range(2):
        assert [tuple(ids[entry, :, i].tolist()) for i in range(5)] == [tokens for _, tokens in want]
        np.testing.assert_allclose(states.log_probs[entry, :5].tolist(), [score for score, _ in want], rtol=1e-5)
        assert lengths[entry, :5].tolist() == [tokens.index(1) + 1 if 1 in tokens else STEPS for _, tokens in want]


def test_outputs_along_time_first(table):
    decoder = nn.BeamSearchDecoder(Table(table), 0, 1, 2)
    first, _ = nn.dynamic_decode(decoder, bireme.zeros([3, 1]), max_step_num=2, output_time_major=True)
    second, _ = nn.dynamic_decode(decoder, bireme.zeros([3, 1]), max_step_num=2)
    assert first.transpose([1, 0, 2]).tolist() == second.tolist()


class Count(nn.decode.Decoder):
    """Counts up to a limit."""

    def initialize(self, inits):
        return inits, inits, bireme.zeros(inits.shape[:1], "bool")

    def step(self, time, inputs, states, limit=3, **kwargs):
        new = states + 1
        return {"time": inputs * 0 + time.astype(inputs.dtype), "count": new}, new, inputs, new[:, 0] >= limit


@pytest.mark.parametrize(("impute", "last"), [(False, [[4], [3]]), (True, [[2], [2]])])
def test_a_decoder_of_ones_own(impute, last):
    start = bireme.to_tensor([[1], [0]])
    outputs, states, lengths = nn.dynamic_decode(Count(), start, impute_finished=impute, return_length=True)
    assert outputs["time"].tolist() == [[[0], [1], [2]], [[0], [1], [2]]]
    assert lengths.tolist() == [1, 2]
    assert states.tolist() == last
    assert len(nn.dynamic_decode(Count(), start, max_step_num=0)[0]["count"][0]) == 1
    assert nn.dynamic_decode(Count(), start, limit=1)[0]["count"].tolist() == [[[2]], [[1]]]


def test_what_cannot_be_decoded(table):
    with pytest.raises(ValueError, match=r"BeamSearchDecoder\(beam_size\)"):
        nn.BeamSearchDecoder(Table(table), 0, 1, 0)
    with pytest.raises(ValueError, match=r"BeamSearchDecoder\(end_token\): expected a token in \[0, 3\], got 9"):
        nn.dynamic_decode(nn.BeamSearchDecoder(Table(table), 0, 9, 1), bireme.zeros([1, 1]), max_step_num=1)
    with pytest.raises(NotImplementedError, match="initialize: expected an implementation"):
        nn.dynamic_decode(nn.decode.Decoder())
