"""Rows of recurrent layers: one direction of one layer each."""

from __future__ import annotations

from typing import Any

from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, row

MODES = {"LSTM": "LSTM", "GRU": "GRU", "RNN_TANH": "RNN_TANH", "RNN_RELU": "RNN_RELU"}


@row("lstm_of")
def _lstm(
    w: Writer, x: Value, h: Value, c: Value, weight_ih: Value, weight_hh: Value, bias_ih: Any, bias_hh: Any,
    reverse: bool = False, time_major: bool = False,
) -> Any:  # fmt: skip
    return _sequence(w, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, None, "LSTM", reverse, time_major)


@row("gru_of")
def _gru(
    w: Writer, x: Value, h: Value, weight_ih: Value, weight_hh: Value, bias_ih: Any, bias_hh: Any,
    reverse: bool = False, time_major: bool = False,
) -> Any:  # fmt: skip
    return _sequence(w, x, h, None, weight_ih, weight_hh, bias_ih, bias_hh, None, "GRU", reverse, time_major)


@row("sequence_of")
def _sequence(
    w: Writer, x: Value, h: Value, c: Any, weight_ih: Value, weight_hh: Value, bias_ih: Any, bias_hh: Any,
    lengths: Any, mode: str, reverse: bool = False, time_major: bool = False, masked: bool = True,
) -> Any:  # fmt: skip
    if mode not in MODES:
        raise Unwritable(f"of kind {mode}")
    hidden = weight_hh.shape[1]
    rows = weight_ih.shape[0]
    if not time_major:
        x = w.transpose(x, [1, 0, 2])
    steps, batch, width = x.shape
    biases = [b if b is not None else w.full([rows], 0.0, x.dtype) for b in (bias_ih, bias_hh)]
    state = (x.dtype, [1, batch, hidden])
    start = [w.op("unsqueeze", [s, w.ints([0])], [state]) for s in (h, c) if s is not None]
    flips = reverse and lengths is None
    both = reverse and lengths is not None  # a part of each sequence is reversed: as one direction of two
    if flips:
        x = w.op("flip", [x], [x.type], axis=[0])
    weights = [weight_ih, weight_hh] * (2 if both else 1) + biases * (2 if both else 1)
    if both:
        zero = w.full([1], 0, "int32")
        start = [w.op("concat", [[s, s], zero], [(x.dtype, [2, batch, hidden])]) for s in start]
    ends = [start[0].type] * len(start)
    made = w.op(
        "rnn", [x, start, weights, None if lengths is None else w.cast(lengths, "int32"), _none(w)],
        [(x.dtype, [steps, batch, hidden * (2 if both else 1)]), (x.dtype, []), ends, (x.dtype, [])],
        is_bidirec=both, input_size=width, hidden_size=hidden, mode=MODES[mode],
    )  # fmt: skip
    out, last = made[0], w.spread(made[2])
    if both:
        out = w.slice(out, [2], [hidden], [2 * hidden], (x.dtype, [steps, batch, hidden]))
        last = [w.slice(s, [0], [1], [2], state) for s in last]
    if flips:
        out = w.op("flip", [out], [out.type], axis=[0])
    if not time_major:
        out = w.transpose(out, [1, 0, 2])
    ends = [w.op("squeeze", [s, w.ints([0])], [(x.dtype, [batch, hidden])]) for s in last]
    return (out, *ends, *[None] * (len(w.types) - 1 - len(ends)))


@row("recurrence_of")
def _recurrence(
    w: Writer, x: Value, h: Value, c: Any, weight_ih: Value, weight_hh: Value, bias_ih: Any, bias_hh: Any,
    weight_ho: Any, lengths: Any, mode: str, reverse: bool = False, time_major: bool = False, masked: bool = True,
) -> Any:  # fmt: skip
    """One step: a sequence of one."""
    if weight_ho is not None or x.ndim != 2:
        raise Unwritable("with states that are projected")
    x = w.op("unsqueeze", [x, w.ints([0])], [(x.dtype, [1, *x.shape])])
    made = _sequence(w, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, None, mode, False, True)
    return tuple(made[1 : 1 + len(w.types)])


def _none(w: Writer) -> Value:
    """The state of the generator of random numbers that dropout would use."""
    return w.full([1], 0, "uint8")
