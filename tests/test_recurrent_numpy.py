"""Recurrences as the interpreter runs them, on NumPy arrays: against a loop over samples, gradients against
differences.
"""

import numpy as np
import pytest

from bireme.ops.nn import recurrent_numpy
from tests.table.nn.recurrent import gru, lstm, recurrence, sequence

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
LENGTHS = np.array([4, 2, 0])


def operands(mode, proj=False, time_major=False, one=False):
    rng = np.random.default_rng(len(mode))
    batch, steps, width, units, out = 3, 4, 2, 3, 2 if proj else 3
    x = (batch, width) if one else (steps, batch, width) if time_major else (batch, steps, width)
    gates = GATES[mode] * units
    shapes = [
        x,
        (batch, out),
        (batch, units) if mode == "LSTM" else None,
        (gates, width),
        (gates, out),
        (gates,),
        (gates,),
    ]
    return [None if s is None else rng.standard_normal(s) * 0.5 for s in (*shapes, (units, out) if proj else None)]


def check(forward, backward, arrays, rest, needs_outs=False):
    """The gradient along one direction of all operands, against a difference of the outputs."""
    rng = np.random.default_rng(7)
    outs = forward(*arrays, *rest)
    weights = [np.cos(np.arange(a.size)).reshape(a.shape) for a in outs]
    found = backward(weights, *([outs] if needs_outs else []), *arrays, *rest)
    given = [a for a in arrays if a is not None and a.dtype.kind == "f"]
    ways = [rng.standard_normal(a.shape) for a in given]
    assert [g.shape for g in found if g is not None] == [a.shape for a in given]

    def moved(by):
        parts = iter([a + by * way for a, way in zip(given, ways, strict=True)])
        made = forward(*[next(parts) if a is not None and a.dtype.kind == "f" else a for a in arrays], *rest)
        return sum((a * w).sum() for a, w in zip(made, weights, strict=True))

    slope = (moved(1e-6) - moved(-1e-6)) / 2e-6
    made = [g for g in found if g is not None]
    assert sum((g * way).sum() for g, way in zip(made, ways, strict=True)) == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [None, True, False])
@pytest.mark.parametrize("mode", GATES)
def test_recurrences(mode, masked, reverse):
    for proj in (False, True) if mode == "LSTM" else (False,):
        arrays = [*operands(mode, proj, time_major=reverse), None if masked is None else LENGTHS]
        rest = (mode, reverse, reverse, masked is not False)
        for ours, theirs in zip(recurrent_numpy.forward(*arrays, *rest), recurrence(*arrays, *rest), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
        check(recurrent_numpy.forward, recurrent_numpy.backward, arrays, rest)


@pytest.mark.parametrize("mode", GATES)
def test_one_step_without_biases(mode):
    arrays = [*operands(mode, one=True)[:5], None, None, None, None]
    rest = (mode, False, False, True)
    for ours, theirs in zip(recurrent_numpy.forward(*arrays, *rest), recurrence(*arrays, *rest), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    check(recurrent_numpy.forward, recurrent_numpy.backward, arrays, rest)


@pytest.mark.parametrize("reverse", [False, True])
def test_lstm_that_keeps_its_gates(reverse):
    arrays = operands("LSTM", time_major=reverse)[:7]
    for ours, theirs in zip(
        recurrent_numpy.lstm_forward(*arrays, reverse, reverse), lstm(*arrays, reverse, reverse), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    check(recurrent_numpy.lstm_forward, recurrent_numpy.lstm_backward, arrays, (reverse, reverse), needs_outs=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_gru_that_keeps_its_gates(biases, reverse):
    x, h, _, *weights = operands("GRU", time_major=reverse)[:7]
    arrays = [x, h, *weights[:2], *(weights[2:] if biases else [None, None])]
    for ours, theirs in zip(
        recurrent_numpy.gru_forward(*arrays, reverse, reverse), gru(*arrays, reverse, reverse), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    check(recurrent_numpy.gru_forward, recurrent_numpy.gru_backward, arrays, (reverse, reverse), needs_outs=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [None, True, False])
@pytest.mark.parametrize("mode", GATES)
def test_sequences_that_keep_their_states(mode, masked, reverse):
    arrays = [*operands(mode, time_major=reverse)[:7], None if masked is None else LENGTHS]
    rest = (mode, reverse, reverse, masked is not False)
    for ours, theirs in zip(recurrent_numpy.sequence_forward(*arrays, *rest), sequence(*arrays, *rest), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    check(recurrent_numpy.sequence_forward, recurrent_numpy.sequence_backward, arrays, rest, needs_outs=True)
