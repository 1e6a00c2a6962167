"""Recurrences: one direction of one layer over a whole sequence, or one step of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of
from bireme.ops.nn import recurrent_numpy

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
MULTIPLIED = 0.08  # of the time of an element that is gone over: a multiplication and an addition of a product


def _state_dtype(x):
    """The dtype that states are carried in: half precision would lose digits at every step."""
    return jnp.float32 if x.dtype.itemsize < 4 else x.dtype


def _turned(x, time_major):
    """Steps before rows of a batch, as loops take them, or back to where they stand."""
    return x if time_major else jnp.swapaxes(x, 0, 1)


def _batch_and_steps(x, time_major):
    return (x.shape[1], x.shape[0]) if time_major else x.shape[:2]


def _times(x, weight, kind):
    """A product in the type `kind`; a wider weight is rounded to it here, so that its gradient adds up in its own type."""
    wide = jnp.float32 if kind.itemsize < 4 else kind
    return jnp.matmul(x.astype(kind), weight.T.astype(kind), preferred_element_type=wide)


def _hidden(h, weight_hh, bias_hh, kind):
    """The state's part of the gates."""
    made = _times(h, weight_hh, kind)
    return made if bias_hh is None else made + bias_hh.astype(made.dtype)


def _rule(mode):
    """The function (states, input's part of the gates, state's part) -> states."""

    def lstm(states, given, own):
        i, f, g, o = jnp.split(given + own, 4, axis=-1)
        c = jax.nn.sigmoid(f) * states[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c)

    def gru(states, given, own):
        (h,) = states
        xr, xz, xc = jnp.split(given, 3, axis=-1)
        hr, hz, hc = jnp.split(own, 3, axis=-1)
        z = jax.nn.sigmoid(xz + hz)
        new = jnp.tanh(xc + jax.nn.sigmoid(xr + hr) * hc)
        return (new + z * (h - new),)

    def simple(states, given, own):
        return (jnp.tanh(given + own) if mode == "RNN_TANH" else jax.nn.relu(given + own),)

    return {"LSTM": lstm, "GRU": gru}.get(mode, simple)


def _stepper(mode, weight_hh, bias_hh, weight_ho, kind):
    """The function (states, input's part of the gates) -> states."""
    rule = _rule(mode)

    def step(states, given):
        h, *rest = rule(states, given, _hidden(states[0], weight_hh, bias_hh, kind))
        return (h if weight_ho is None else _times(h, weight_ho.T, kind), *rest)

    return step


@op(
    internal="recurrence",
    promote="x h c weight_ih weight_hh bias_ih bias_hh weight_ho",
    dtypes=FLOAT,
    amp="low",
    numpy=recurrent_numpy.forward,
)
def recurrence_of(
    x: Tensor,
    h: Tensor,
    c: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    weight_ho: Tensor | None,
    lengths: Tensor | None,
    mode: str,
    reverse: bool = False,
    time_major: bool = False,
    masked: bool = True,
) -> tuple[Tensor, ...]:
    """One step, or a sequence whose states are projected, with the gradient that jax derives; use `recurrence`."""
    kind, wide = x.dtype, _state_dtype(x)
    step = _stepper(mode, weight_hh, bias_hh, weight_ho, kind)
    # the product with the inputs does not depend on the states: one large product instead of many small ones
    given = _times(x, weight_ih, kind)
    given = given if bias_ih is None else given + bias_ih.astype(wide)
    states = tuple([s.astype(wide) for s in (h, c) if s is not None])
    if x.ndim == 2:
        return tuple([s.astype(kind) for s in step(states, given)])
    given = _turned(given, time_major)

    def advance(states, now):
        new = step(states, now)
        return new, new[0].astype(kind)

    def advance_until(states, now):
        now, t = now
        inside = (t < lengths)[:, None]
        new = step(states, now)
        out = jnp.where(inside, new[0], jnp.zeros((), wide)) if masked else new[0]
        return tuple([jnp.where(inside, a, b) for a, b in zip(new, states, strict=True)]), out.astype(kind)

    if lengths is None:
        states, outs = lax.scan(advance, states, given, reverse=reverse)
    else:
        states, outs = lax.scan(
            advance_until, states, (given, jnp.arange(given.shape[0], dtype=lengths.dtype)), reverse=reverse
        )
    return (_turned(outs, time_major), *[s.astype(kind) for s in states])


@recurrence_of.grad(numpy=recurrent_numpy.backward)
def _(g, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_ho, lengths, mode, reverse, time_major, masked):
    """The one that jax derives; said here, for the interpreter has its own."""
    operands = {
        "x": x, "h": h, "c": c, "weight_ih": weight_ih, "weight_hh": weight_hh, "bias_ih": bias_ih, "bias_hh": bias_hh,
        "weight_ho": weight_ho,
    }  # fmt: skip
    for name, a in operands.items():
        if a is not None and name not in (
            "x",
            "h",
            "c",
        ):  # each step adds to their gradients: half precision would stop growing
            operands[name] = a.astype(_state_dtype(a))
    given = {name: a for name, a in operands.items() if a is not None}
    fixed = {
        **operands,
        "lengths": lengths,
        "mode": mode,
        "reverse": reverse,
        "time_major": time_major,
        "masked": masked,
    }
    outs, pull = jax.vjp(
        lambda *parts: recurrence_of.body(**{**fixed, **dict(zip(given, parts, strict=True))}), *given.values()
    )
    return (
        *pull(tuple([a.astype(out.dtype) for a, out in zip(g, outs, strict=True)])),
        *([] if lengths is None else [None]),
    )


@recurrence_of.infer
def _(x, h, c):
    states = (h,) if c is None else (h, c)
    states = tuple([sig_of(s.shape, x.dtype) for s in states])
    return states if x.ndim == 2 else (sig_of((*x.shape[:2], h.shape[1]), x.dtype), *states)


@recurrence_of.check
def _check(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_ho, lengths, mode, time_major):
    if mode not in GATES:
        raise errors.bad("recurrence_of(mode)", "'LSTM', 'GRU', 'RNN_TANH' or 'RNN_RELU'", mode)
    name = mode.removesuffix("_TANH").removesuffix("_RELU")
    where, width = f"{name}(inputs)", weight_ih.shape[-1]
    if x.ndim not in (2, 3) or x.shape[-1] != width:
        wanted = (
            f"shape [batch, {width}] for one step, or [{'steps, batch' if time_major else 'batch, steps'}, {width}]"
        )
        raise errors.bad(where, wanted, described=f"shape {list(x.shape)}", kind=errors.ShapeError)
    if (c is None) == (mode == "LSTM"):
        raise errors.bad(
            f"{name}(states)",
            "a hidden and a cell state" if c is None else "one state",
            described="one" if c is None else "two",
        )
    batch, units = x.shape[1 if x.ndim == 3 and time_major else 0], weight_ih.shape[0] // GATES[mode]
    out = units if weight_ho is None else weight_ho.shape[-1]
    gates = (GATES[mode] * units,)
    shapes = (
        ("hidden state", h, (batch, out)),
        ("cell state", c, (batch, units)),
        ("weight_hh", weight_hh, (*gates, out)),
        ("bias_ih", bias_ih, gates),
        ("bias_hh", bias_hh, gates),
        ("weight_ho", weight_ho, (units, out)),
        ("sequence_length", lengths, (batch,)),
    )
    for what, sig, wanted in shapes:
        if sig is not None and sig.shape != wanted:
            raise errors.bad(
                f"{name}({what})", f"shape {list(wanted)}", described=f"shape {list(sig.shape)}", kind=errors.ShapeError
            )
    if lengths is not None and lengths.dtype.kind != "i":
        raise errors.bad(
            f"{name}(sequence_length)", "an integer tensor", described=lengths.dtype.name, kind=errors.DtypeError
        )


@recurrence_of.effort
def _effort(x, weight_ih, weight_hh, time_major):
    """A step of the interpreter's loop takes some 20 us, however few the elements; only products read the weights, for each
    row of each step, while the gates are gone over some six times.
    """
    steps = x.shape[0 if time_major else 1] if x.ndim == 3 else 0
    weights, rows = weight_ih.size + weight_hh.size, x.size // max(x.shape[-1], 1)
    return 40_000 * steps - 5 * weights + MULTIPLIED * rows * weights


# ---------------------------------------------------------------- sequences, with a gradient that multiplies weights
# once


def _sequence(x, time_major):
    """[steps * batch, width], step by step: the input is transposed, not the gates, which are four times as much."""
    return _turned(x, time_major).reshape(-1, x.shape[-1])


def _given(x, weight_ih, bias_ih, time_major):
    """The inputs' part of the gates, [steps, batch, gates]: independent of the states, so one large product."""
    batch, steps = _batch_and_steps(x, time_major)
    made = _times(_sequence(x, time_major), weight_ih, x.dtype)
    return (made if bias_ih is None else made + bias_ih.astype(made.dtype)).reshape(steps, batch, -1)


def _within(lengths, steps):
    """Which rows of each step lie within their length, [steps, batch, 1]."""
    return (jnp.arange(steps, dtype=lengths.dtype)[:, None] < lengths)[..., None]


@op(
    internal="sequence",
    promote="x h c weight_ih weight_hh bias_ih bias_hh",
    dtypes=FLOAT,
    amp="low",
    numpy=recurrent_numpy.sequence_forward,
)
def sequence_of(
    x: Tensor,
    h: Tensor,
    c: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    lengths: Tensor | None,
    mode: str,
    reverse: bool = False,
    time_major: bool = False,
    masked: bool = True,
) -> tuple[Tensor, ...]:
    """Outputs and last states, the states before each step and their part of the gates; use `recurrence`."""
    kind, wide, rule = x.dtype, _state_dtype(x), _rule(mode)
    given = _given(x, weight_ih, bias_ih, time_major)
    inside = None if lengths is None else _within(lengths, len(given))
    turned = lax.optimization_barrier(weight_hh.T)  # once, and not in each step

    def step(states, now):
        now, inside = now
        own = jnp.matmul(states[0].astype(kind), turned, preferred_element_type=wide)
        own = own if bias_hh is None else own + bias_hh.astype(wide)
        new = rule(states, now, own)
        out = new[0]
        if inside is not None:
            out = jnp.where(inside, out, jnp.zeros((), wide)) if masked else out
            new = tuple([jnp.where(inside, a, b) for a, b in zip(new, states, strict=True)])
        return new, (out.astype(kind), *states, own)

    states = tuple([s.astype(wide) for s in (h, c) if s is not None])
    states, (outs, *kept) = lax.scan(step, states, (given, inside), reverse=reverse)
    return (_turned(outs, time_major), *[s.astype(kind) for s in states], *kept)


@sequence_of.infer
def _(x, h, c, weight_hh, time_major):
    wide = x.dtype if x.dtype.np.itemsize >= 4 else dtypes.float32
    batch, steps = _batch_and_steps(x, time_major)
    count, units = 1 if c is None else 2, h.shape[1]
    last = [sig_of((batch, units), x.dtype)] * count
    kept = [sig_of((steps, batch, units), wide)] * count
    return (sig_of((*x.shape[:2], units), x.dtype), *last, *kept, sig_of((steps, batch, weight_hh.shape[0]), wide))


sequence_of.effort(_effort)


@sequence_of.check
def _(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, lengths, mode, time_major):
    _check(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, None, lengths, mode, time_major)


def _gradients(states, of_given, of_own, before, x, weight_ih, bias_ih, bias_hh, time_major):
    """Gradients of inputs, states, weights and biases, from those of both parts of the gates in every step.

    Products of weights with whole sequences are one each.
    """
    kind, wide, steps = x.dtype, _state_dtype(x), of_given.shape[:2]
    of_given, of_own = [part.reshape(-1, part.shape[-1]) for part in (of_given, of_own)]
    dx = jnp.matmul(of_given, weight_ih, preferred_element_type=wide).reshape(*steps, -1)
    over_rows = (((0,), (0,)), ((), ()))
    found = [
        _turned(dx, time_major),
        *states,
        lax.dot_general(of_given, _sequence(x, time_major), over_rows, preferred_element_type=wide),
        lax.dot_general(of_own, before.reshape(len(of_own), -1).astype(kind), over_rows, preferred_element_type=wide),
    ]
    for part, bias in ((of_given, bias_ih), (of_own, bias_hh)):
        if bias is not None:
            found.append(jnp.sum(part.astype(wide), axis=0))
    return tuple([a.astype(kind) for a in found])


@sequence_of.grad(numpy=recurrent_numpy.sequence_backward)
def _(g, out, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, lengths, mode, reverse, time_major, masked):
    """Step by step only what depends on the step after; the rest is `_gradients`."""
    kind, wide, rule, count = x.dtype, _state_dtype(x), _rule(mode), 1 if c is None else 2
    before, own = tuple(out[1 + count : -1]), out[-1]
    more, last, more_before, more_own = g[0], g[1 : 1 + count], tuple(g[1 + count : -1]), g[-1]
    more = _turned(more, time_major).astype(wide)
    given = _given(x, weight_ih, bias_ih, time_major)
    inside = None if lengths is None else _within(lengths, len(given))
    if inside is not None and masked:
        more = jnp.where(inside, more, jnp.zeros((), wide))

    def step(grads, now):
        more, more_before, more_own, before, given, own, inside = now
        stay = [0.0] * count
        if inside is not None:
            zero = jnp.zeros((), wide)
            stay, grads = [jnp.where(inside, zero, a) for a in grads], [jnp.where(inside, a, zero) for a in grads]
        _, pull = jax.vjp(rule, before, given, own)
        states, of_given, of_own = pull((grads[0] + more, *grads[1:]))
        of_own = (of_own + more_own).astype(kind)
        by_product = [jnp.matmul(of_own, weight_hh, preferred_element_type=wide), *[0.0] * (count - 1)]
        new = tuple([sum(parts) for parts in zip(states, by_product, stay, more_before, strict=True)])
        return new, (of_given.astype(kind), of_own)

    grads = tuple([a.astype(wide) for a in last])
    grads, parts = lax.scan(step, grads, (more, more_before, more_own, before, given, own, inside), reverse=not reverse)
    found = _gradients(grads, *parts, before[0], x, weight_ih, bias_ih, bias_hh, time_major)
    return (*found, *([] if lengths is None else [None]))


# ---------------------------------------------------------------- an LSTM without lengths, whose gradient is faster
# still


def _before(first, states, reverse):
    """What each step starts from."""
    return jnp.concatenate([states[1:], first[None]] if reverse else [first[None], states[:-1]])


def _halves(units, dtype):
    """Factor and shift that make a sigmoid of a tanh, for three of the four gates."""
    half = np.repeat(np.array([0.5, 0.5, 1.0, 0.5], dtype), units)
    return half, np.repeat(np.array([0.5, 0.5, 0.0, 0.5], dtype), units)


@op(
    internal="lstm",
    promote="x h c weight_ih weight_hh bias_ih bias_hh",
    dtypes=FLOAT,
    amp="low",
    numpy=recurrent_numpy.lstm_forward,
)
def lstm_of(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    reverse: bool = False,
    time_major: bool = False,
) -> tuple[Tensor, ...]:
    """Outputs and last states of an LSTM, and the gates and cells of every step; use `recurrence`."""
    kind, wide = x.dtype, _state_dtype(x)
    # one tanh for all gates: sigmoid(z) = tanh(z / 2) / 2 + 1 / 2; z is halved before the loop, which is exact
    half, shift = _halves(h.shape[1], wide)
    given = _given(x, weight_ih, bias_ih, time_major)
    given = (given if bias_hh is None else given + bias_hh.astype(wide)) * half
    turned = lax.optimization_barrier(weight_hh.T * half.astype(kind))  # once, and not in each step

    def step(states, now):
        h, c = states
        gates = jnp.tanh(now + jnp.matmul(h.astype(kind), turned, preferred_element_type=wide)) * half + shift
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = f * c + i * g
        h = o * jnp.tanh(c)
        return (h, c), (h.astype(kind), gates, c)

    (h, c), (outs, gates, cells) = lax.scan(step, (h.astype(wide), c.astype(wide)), given, reverse=reverse)
    return _turned(outs, time_major), h.astype(kind), c.astype(kind), gates, cells


@lstm_of.infer
def _(x, h, time_major):
    wide = x.dtype if x.dtype.np.itemsize >= 4 else dtypes.float32
    batch, steps, units = *_batch_and_steps(x, time_major), h.shape[1]
    state = sig_of((batch, units), x.dtype)
    kept = sig_of((steps, batch, 4 * units), wide), sig_of((steps, batch, units), wide)
    return (sig_of((*x.shape[:2], units), x.dtype), state, state, *kept)


lstm_of.effort(_effort)


@lstm_of.check
def _(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, time_major):
    _check(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, None, None, "LSTM", time_major)


@lstm_of.grad(numpy=recurrent_numpy.lstm_backward)
def _(g, out, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, reverse, time_major):
    """Step by step only what depends on the step after; all products of weights with whole sequences are one each."""
    kind, wide = x.dtype, _state_dtype(x)
    outs, _, _, gates, cells = out
    more, last_h, last_c, more_gates, more_cells = g
    more, outs = _turned(more, time_major), _turned(outs, time_major)

    # what the loop multiplies with does not depend on it: for all steps at once
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    t = jnp.tanh(cells)
    own = jnp.concatenate([i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)], -1)
    more_gates = more_gates * own
    own = own * jnp.concatenate([g, _before(c.astype(wide), cells, reverse), i, t], -1)
    own, of_h = lax.optimization_barrier((own, o * (1 - t * t)))

    def step(states, now):
        dh, dc = states
        more, more_gates, more_c, own, of_h, f = now
        dh = dh + more.astype(wide)
        dc = dc + more_c + dh * of_h
        dz = (jnp.concatenate([dc, dc, dc, dh], -1) * own + more_gates).astype(kind)
        return (jnp.matmul(dz, weight_hh, preferred_element_type=wide), dc * f), dz

    given = (more, more_gates, more_cells, own, of_h, f)
    (dh, dc), dz = lax.scan(step, (last_h.astype(wide), last_c.astype(wide)), given, reverse=not reverse)
    flat = dz.reshape(-1, dz.shape[-1])
    # both weights at once: one product of twice the width is faster than two
    seen = jnp.concatenate([_sequence(x, time_major), _before(h, outs, reverse).reshape(-1, h.shape[-1])], 1)
    dw = lax.dot_general(flat, seen, (((0,), (0,)), ((), ())), preferred_element_type=wide)
    dx = jnp.matmul(flat, weight_ih, preferred_element_type=wide).reshape(*dz.shape[:2], -1)
    total = jnp.sum(flat.astype(wide), axis=0)
    width = x.shape[-1]
    grads = [_turned(dx, time_major), dh, dc, dw[:, :width], dw[:, width:]]
    return tuple([a.astype(kind) for a in (*grads, *[total for bias in (bias_ih, bias_hh) if bias is not None])])


# ---------------------------------------------------------------- a GRU without lengths, which keeps its gates too


@op(
    internal="gru",
    promote="x h weight_ih weight_hh bias_ih bias_hh",
    dtypes=FLOAT,
    amp="low",
    numpy=recurrent_numpy.gru_forward,
)
def gru_of(
    x: Tensor,
    h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    reverse: bool = False,
    time_major: bool = False,
) -> tuple[Tensor, ...]:
    """Outputs and last state of a GRU; of every step its gates (reset, update, candidate) and what the reset gate is
    multiplied with; use `recurrence`.
    """
    kind, wide, n = x.dtype, _state_dtype(x), h.shape[1]
    half = np.repeat(np.array([0.5, 0.5, 1.0], wide), n)  # as in `lstm_of`
    given = _given(x, weight_ih, bias_ih, time_major)
    own_bias = jnp.zeros((3 * n,), wide) if bias_hh is None else bias_hh.astype(wide)
    given = (given + jnp.concatenate([own_bias[: 2 * n], jnp.zeros((n,), wide)])) * half
    turned = lax.optimization_barrier(weight_hh.T * half.astype(kind))

    def step(h, now):
        own = jnp.matmul(h.astype(kind), turned, preferred_element_type=wide)
        r, z = jnp.split(jnp.tanh(now[:, : 2 * n] + own[:, : 2 * n]) * 0.5 + 0.5, 2, axis=-1)
        part = own[:, 2 * n :] + own_bias[2 * n :]
        new = jnp.tanh(now[:, 2 * n :] + r * part)
        h = new + z * (h - new)
        return h, (h.astype(kind), r, z, new, part)

    h, (outs, *kept) = lax.scan(step, h.astype(wide), given, reverse=reverse)
    return _turned(outs, time_major), h.astype(kind), *kept


@gru_of.infer
def _(x, h, time_major):
    wide = x.dtype if x.dtype.np.itemsize >= 4 else dtypes.float32
    batch, steps, units = *_batch_and_steps(x, time_major), h.shape[1]
    kept = sig_of((steps, batch, units), wide)
    return (sig_of((*x.shape[:2], units), x.dtype), sig_of((batch, units), x.dtype), *[kept] * 4)


gru_of.effort(_effort)


@gru_of.check
def _(x, h, weight_ih, weight_hh, bias_ih, bias_hh, time_major):
    _check(x, h, None, weight_ih, weight_hh, bias_ih, bias_hh, None, None, "GRU", time_major)


@gru_of.grad(numpy=recurrent_numpy.gru_backward)
def _(g, out, x, h, weight_ih, weight_hh, bias_ih, bias_hh, reverse, time_major):
    """As that of `lstm_of`: the loop multiplies what comes in with what was made for all steps at once."""
    kind, wide = x.dtype, _state_dtype(x)
    outs, _, r, z, new, part = out
    more, last, more_r, more_z, more_new, more_part = g
    more, outs = _turned(more, time_major), _turned(outs, time_major)
    before = _before(h, outs, reverse)
    bend = 1 - new * new
    of_r, of_z, of_new = r * (1 - r), z * (1 - z), (1 - z) * bend
    slopes = jnp.concatenate([of_new * part * of_r, (before.astype(wide) - new) * of_z, of_new * r], -1)
    extra_new = more_new * bend
    extra = jnp.concatenate([(extra_new * part + more_r) * of_r, more_z * of_z, extra_new * r + more_part], -1)
    slopes, of_new = lax.optimization_barrier((slopes, of_new))

    def step(dh, now):
        more, extra, slopes, z = now
        dh = dh + more.astype(wide)
        own = (jnp.concatenate([dh, dh, dh], -1) * slopes + extra).astype(kind)
        return dh * z + jnp.matmul(own, weight_hh, preferred_element_type=wide), (own, dh)

    dh, (own, grads) = lax.scan(step, last.astype(wide), (more, extra, slopes, z), reverse=not reverse)
    n = h.shape[1]
    given = jnp.concatenate([own[..., : 2 * n], (grads * of_new + extra_new).astype(kind)], -1)
    return _gradients((dh,), given, own, before, x, weight_ih, bias_ih, bias_hh, time_major)


def recurrence(
    x: Tensor,
    h: Tensor,
    c: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    weight_ho: Tensor | None,
    lengths: Tensor | None,
    mode: str,
    reverse: bool = False,
    time_major: bool = False,
    masked: bool = True,
) -> tuple[Tensor, ...]:
    """All outputs and the last states of a recurrence over x of shape [batch, steps, width]; x without steps makes one
    step.

    From `lengths` on the states stay as they are; the outputs there are zero, or with `masked=False` what a step would
    give.
    """
    whole = weight_ho is None and x.ndim == 3 and x.size
    if whole and mode == "LSTM" and c is not None and lengths is None:
        return tuple(lstm_of(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, reverse, time_major)[:3])
    if whole and mode == "GRU" and c is None and lengths is None:
        return tuple(gru_of(x, h, weight_ih, weight_hh, bias_ih, bias_hh, reverse, time_major)[:2])
    if whole:
        return tuple(
            sequence_of(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, lengths, mode, reverse, time_major, masked)[
                : 2 if c is None else 3
            ]
        )
    return recurrence_of(
        x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_ho, lengths, mode, reverse, time_major, masked
    )
