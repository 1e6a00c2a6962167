"""Rows of recurrences."""

import numpy as np
from scipy.special import expit

from bireme.core.base.dtype import FLOAT
from bireme.core.declare.precision import HALF
from tests.table.harness import Bad, Row, call
from tests.table.samples import floats


def step(mode, x, h, c, wi, wh, bi=None, bh=None, wo=None):
    a = x @ wi.T + (0 if bi is None else bi)
    b = h @ wh.T + (0 if bh is None else bh)
    if mode == "LSTM":
        i, f, g, o = np.split(a + b, 4, axis=-1)
        c = expit(f) * c + expit(i) * np.tanh(g)
        h = expit(o) * np.tanh(c)
        return [h if wo is None else h @ wo, c]
    if mode == "GRU":
        (ar, az, ac), (br, bz, bc) = np.split(a, 3, axis=-1), np.split(b, 3, axis=-1)
        z = expit(az + bz)
        return [z * h + (1 - z) * np.tanh(ac + expit(ar + br) * bc)]
    return [np.tanh(a + b) if mode == "RNN_TANH" else np.maximum(a + b, 0)]


def recurrence(x, h, c, wi, wh, bi, bh, wo, lengths, mode, reverse=False, time_major=False, masked=True):
    """Sample by sample and step by step."""
    if x.ndim == 2:
        return step(mode, x, h, c, wi, wh, bi, bh, wo)
    x = np.swapaxes(x, 0, 1) if time_major else x
    out = np.zeros((*x.shape[:2], h.shape[1]))
    states = [np.array(s) for s in (h, c) if s is not None]
    for n in range(x.shape[0]):
        now = [s[n] for s in states]
        steps = range(x.shape[1])
        for t in reversed(steps) if reverse else steps:
            new = step(mode, x[n, t], now[0], now[-1], wi, wh, bi, bh, wo)
            inside = lengths is None or t < lengths[n]
            out[n, t] = new[0] if inside or not masked else 0
            now = new if inside else now
        for s, v in zip(states, now, strict=True):
            s[n] = v
    return [np.swapaxes(out, 0, 1) if time_major else out, *states]


def _given(gates, cell=False, proj=0, steps=3, time_major=False):
    """Operands for a batch of two, inputs of width 2 and two units."""
    out = proj or 2
    shape = (steps, 2, 2) if time_major else (2, steps, 2)
    return [0.5 * floats(*shape), 0.5 * floats(2, out), 0.5 * floats(2, 2) if cell else None, 0.5 * floats(2 * gates, 2),
        0.5 * floats(2 * gates, out), 0.5 * floats(2 * gates), 0.5 * floats(2 * gates), 0.5 * floats(2, proj) if proj else None]  # fmt: skip


def lstm(x, h, c, wi, wh, bi=None, bh=None, reverse=False, time_major=False):
    """The recurrence, and of each step its gates and its cells."""
    outs = recurrence(x, h, c, wi, wh, bi, bh, None, None, "LSTM", reverse, time_major)
    hs = outs[0] if time_major else np.swapaxes(outs[0], 0, 1)
    before = [*hs[1:], h] if reverse else [h, *hs[:-1]]
    xs = x if time_major else np.swapaxes(x, 0, 1)
    gates = [
        (a @ wi.T + (0 if bi is None else bi) + b @ wh.T + (0 if bh is None else bh))
        for a, b in zip(xs, before, strict=True)
    ]
    gates = [
        np.concatenate([expit(i), expit(f), np.tanh(g), expit(o)], -1)
        for i, f, g, o in (np.split(z, 4, axis=-1) for z in gates)
    ]
    cells, now = [], c
    for gate in gates[::-1] if reverse else gates:
        i, f, g, _ = np.split(gate, 4, axis=-1)
        now = f * now + i * g
        cells.append(now)
    return [*outs, np.array(gates), np.array(cells[::-1] if reverse else cells)]


def gru(x, h, wi, wh, bi=None, bh=None, reverse=False, time_major=False):
    """The recurrence, and of each step its gates and the candidate's part of the state."""
    outs, last = recurrence(x, h, None, wi, wh, bi, bh, None, None, "GRU", reverse, time_major)
    hs = outs if time_major else np.swapaxes(outs, 0, 1)
    before = np.array([*hs[1:], h] if reverse else [h, *hs[:-1]])
    a = np.split((x if time_major else np.swapaxes(x, 0, 1)) @ wi.T + (0 if bi is None else bi), 3, axis=-1)
    b = np.split(before @ wh.T + (0 if bh is None else bh), 3, axis=-1)
    r, z = expit(a[0] + b[0]), expit(a[1] + b[1])
    return [outs, last, r, z, np.tanh(a[2] + r * b[2]), b[2]]


def sequence(x, h, c, wi, wh, bi, bh, lengths, mode, reverse=False, time_major=False, masked=True):
    """The recurrence, and what was before each step: the states, and their part of the gates."""
    xs = x if time_major else np.swapaxes(x, 0, 1)
    now, before = [np.array(s) for s in (h, c) if s is not None], [None] * len(xs)
    for t in reversed(range(len(xs))) if reverse else range(len(xs)):
        before[t] = now
        new = step(mode, xs[t], now[0], now[-1], wi, wh, bi, bh)
        inside = np.full((len(h), 1), True) if lengths is None else (t < lengths)[:, None]
        now = [np.where(inside, a, b) for a, b in zip(new, now, strict=True)]
    before = [np.stack(states) for states in zip(*before, strict=True)]
    outs = recurrence(x, h, c, wi, wh, bi, bh, None, lengths, mode, reverse, time_major, masked)
    return [*outs, *before, before[0] @ wh.T + (0 if bh is None else bh)]


def _without_cell(**kwargs):
    x, h, _, *weights = _given(3, **kwargs)[:7]
    return [x, h, *weights]


_gru, _lstm = _given(3), _given(4, True)
_one = [0.5 * floats(2, 2), *_given(4, True, 1)[1:]]
_none = [*_given(1, steps=0)[:5], None, None, None]

# each sample costs the compilation of a loop in every type: few of them, and no second derivatives, which take twice
# as long;
# the rows of the layers have the other modes
TABLE = [
    # from the end to the start; the layer's row has the other direction
    Row("lstm_of", [call(*_given(4, True, steps=2)[:7], reverse=True)], lstm, dtypes=FLOAT - HALF, unchecked=HALF, slow=True,
        skip={"0-d": "it takes sequences", "zero size": "recurrence_of takes those"}, loose=(4, "half precision loses digits in products"),
        bad=[Bad(call(floats(2, 3, 4), *_lstm[1:7]), "LSTM(inputs): expected shape [batch, 2] for one step, or [batch, steps, 2], got")]),
    Row("gru_of", [call(*_without_cell(steps=2), reverse=True)], gru, dtypes=FLOAT - HALF, unchecked=HALF, slow=True,
        skip={"0-d": "it takes sequences", "zero size": "recurrence_of takes those"}, loose=(4, "half precision loses digits in products"),
        bad=[Bad(call(floats(2, 3, 4), *_without_cell()[1:]), "GRU(inputs): expected shape [batch, 2] for one step, or [batch, steps, 2], got")]),
    Row("sequence_of", [call(*_given(3, time_major=True)[:7], np.array([3, 1]), "GRU", reverse=True, time_major=True, masked=False),
        call(*_given(1)[:5], None, None, None, "RNN_TANH"), call(*_given(4, True)[:7], np.array([1, 3]), "LSTM")], sequence,
        dtypes=FLOAT - HALF, unchecked=HALF, grad=1, skip={"0-d": "it takes sequences", "zero size": "recurrence_of takes those"},
        loose=(4, "half precision loses digits in products"),
        bad=[Bad(call(*_gru[:7], np.array([1, 2, 3]), "GRU"), "GRU(sequence_length): expected shape [2], got shape [3]")]),
    Row("recurrence_of", [call(*_one, None, "LSTM"), call(*_none, None, "RNN_RELU"),
        call(*_given(4, True, 1, time_major=True), np.array([3, 1]), "LSTM", reverse=True, time_major=True, masked=False)], recurrence,
        grad=1, skip={"0-d": "it takes sequences"}, loose=(4, "half precision loses digits in products"),
        bad=[Bad(call(*_gru, None, "ELMAN"), "recurrence_of(mode): expected 'LSTM', 'GRU', 'RNN_TANH' or 'RNN_RELU', got 'ELMAN'"),
             Bad(call(floats(2, 3, 4), *_gru[1:], None, "GRU"), "GRU(inputs): expected shape [batch, 2] for one step, or [batch, steps, 2], got"),
             Bad(call(*_gru, None, "LSTM"), "LSTM(states): expected a hidden and a cell state, got one"),
             Bad(call(*_lstm, None, "GRU"), "GRU(states): expected one state, got two"),
             Bad(call(_gru[0], floats(3, 2), *_gru[2:], None, "GRU"), "GRU(hidden state): expected shape [2, 2], got shape [3, 2]"),
             Bad(call(*_gru, np.array([1, 2, 3]), "GRU"), "GRU(sequence_length): expected shape [2], got shape [3]"),
             Bad(call(*_gru, np.array([True, False]), "GRU"), "GRU(sequence_length): expected an integer tensor, got bool", TypeError)]),
]  # fmt: skip
