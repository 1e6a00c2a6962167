"""Recurrences on NumPy arrays, step by step, and their gradients: the interpreter traces nothing for a new length."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from bireme.core.numpy_exec import blas


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.tanh(x * 0.5) * 0.5 + 0.5


class Sizes(NamedTuple):
    """How a recurrence goes: its kind, over which steps, and in which types it keeps and carries."""

    mode: str
    order: list[int]
    kind: Any
    wide: Any

    def low(self, x: np.ndarray) -> np.ndarray:
        """`x` as a product takes it: half precision rounds it first."""
        return x if self.kind == self.wide else x.astype(self.kind).astype(self.wide)


class Kept(NamedTuple):
    """What the gradient of a step reads: the states before it, and what the rule names."""

    states: tuple
    inside: Any
    parts: tuple


def _prepared(x, h, c, weight_ih, bias_ih, lengths, mode, reverse, time_major):
    """Sizes, the inputs' part of the gates by step, the first states, and which rows of a step are within length."""
    kind = x.dtype
    wide = np.dtype(np.float32) if kind.itemsize < 4 else kind
    one = x.ndim == 2
    x = x[None] if one else x if time_major else np.swapaxes(x, 0, 1)
    sizes = Sizes(mode, list(range(x.shape[0]))[:: -1 if reverse else 1], kind, wide)
    seen = np.ascontiguousarray(x.reshape(x.shape[0] * x.shape[1], x.shape[2]), wide)
    given = blas.matmul(seen, np.asarray(weight_ih, wide).T)
    if bias_ih is not None:
        given += np.asarray(bias_ih, wide)
    inside = (
        None if lengths is None or one else (np.arange(x.shape[0], dtype=lengths.dtype)[:, None] < lengths)[..., None]
    )
    states = tuple([s.astype(wide) for s in (h, c) if s is not None])
    return sizes, seen, given.reshape(*x.shape[:2], given.shape[-1]), states, inside


def _stepper(sizes, weight_hh, bias_hh, weight_ho):
    """The function (states, input's part of the gates) -> new states, what the gradient reads."""
    wide, low = sizes.wide, sizes.low
    turned = np.asarray(weight_hh, wide).T
    if len(sizes.order) > 1:  # for one step the copy would cost more than the product
        turned = np.ascontiguousarray(turned)
    more = None if bias_hh is None else np.asarray(bias_hh, wide)
    out = None if weight_ho is None else np.asarray(weight_ho, wide)

    def hidden(h):
        made = low(h) @ turned
        return made if more is None else made + more

    def lstm(states, given):
        h, c = states
        z = given + hidden(h)
        n = z.shape[-1] // 4
        gates = _sigmoid(z)
        gates[:, 2 * n : 3 * n] = np.tanh(z[:, 2 * n : 3 * n])
        i, f, g, o = gates[:, :n], gates[:, n : 2 * n], gates[:, 2 * n : 3 * n], gates[:, 3 * n :]
        new = f * c + i * g
        t = np.tanh(new)
        made = o * t
        return (made if out is None else low(made) @ out, new), (gates, t, made)

    def gru(states, given):
        (h,) = states
        own = hidden(h)
        n = own.shape[-1] // 3
        both = _sigmoid(given[:, : 2 * n] + own[:, : 2 * n])
        r, z = both[:, :n], both[:, n:]
        new = np.tanh(given[:, 2 * n :] + r * own[:, 2 * n :])
        return (new + z * (h - new),), (r, z, new, own[:, 2 * n :])

    def simple(states, given):
        made = given + hidden(states[0])
        made = np.tanh(made) if sizes.mode == "RNN_TANH" else np.maximum(made, 0)
        return (made,), (made,)

    return {"LSTM": lstm, "GRU": gru}.get(sizes.mode, simple)


def _walk(sizes, given, states, inside, step, masked, kept=None):
    """Outputs of all steps and the last states; what the gradient reads is put into `kept`."""
    outs = None
    for t in sizes.order:
        new, parts = step(states, given[t])
        within = None if inside is None else inside[t]
        if kept is not None:
            kept[t] = Kept(states, within, parts)
        out = new[0]
        if within is not None:
            states = tuple([np.where(within, a, b) for a, b in zip(new, states, strict=True)])
            out = np.where(within, out, 0) if masked else out
        else:
            states = new
        if outs is None:
            outs = np.empty((given.shape[0], *out.shape), sizes.wide)
        outs[t] = out
    return outs, states


def forward(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, weight_ho, lengths, mode, reverse, time_major, masked):
    """What `recurrence_of` returns."""
    sizes, _, given, states, inside = _prepared(x, h, c, weight_ih, bias_ih, lengths, mode, reverse, time_major)
    outs, states = _walk(sizes, given, states, inside, _stepper(sizes, weight_hh, bias_hh, weight_ho), masked)
    states = tuple([s.astype(sizes.kind) for s in states])
    if x.ndim == 2:
        return states
    if outs is None:
        outs = np.empty((*given.shape[:2], h.shape[1]), sizes.wide)
    return (outs.astype(sizes.kind) if time_major else np.swapaxes(outs, 0, 1).astype(sizes.kind), *states)


def _back(sizes, weight_hh, weight_ho):
    """The function (kept, gradients of new states) -> gradients of the inputs' part, the states' part, the states."""
    wide = sizes.wide
    weight = np.asarray(weight_hh, wide)
    out = None if weight_ho is None else np.ascontiguousarray(weight_ho.T, wide)

    def lstm(kept, grads):
        (gates, t, _), (_, c) = kept.parts, kept.states
        dh, dc = grads
        dh = dh if out is None else dh @ out
        n = t.shape[-1]
        i, f, g, o = gates[:, :n], gates[:, n : 2 * n], gates[:, 2 * n : 3 * n], gates[:, 3 * n :]
        dc = dc + dh * o * (1 - t * t)
        dz = gates * (1 - gates)
        dz[:, :n] *= dc * g
        dz[:, n : 2 * n] *= dc * c
        dz[:, 2 * n : 3 * n] = dc * i * (1 - g * g)
        dz[:, 3 * n :] *= dh * t
        return dz, dz, (dz @ weight, dc * f)

    def gru(kept, grads):
        (r, z, new, own), (h,) = kept.parts, kept.states
        (dh,) = grads
        dc = dh * (1 - z) * (1 - new * new)
        first = np.concatenate([dc * own * r * (1 - r), dh * (h - new) * z * (1 - z)], -1)
        mine = np.concatenate([first, dc * r], -1)
        return np.concatenate([first, dc], -1), mine, (dh * z + mine @ weight,)

    def simple(kept, grads):
        (made,) = kept.parts
        dz = grads[0] * (1 - made * made if sizes.mode == "RNN_TANH" else made > 0)
        return dz, dz, (dz @ weight,)

    return {"LSTM": lstm, "GRU": gru}.get(sizes.mode, simple)


def backward(
    g,
    x,
    h,
    c,
    weight_ih,
    weight_hh,
    bias_ih,
    bias_hh,
    weight_ho,
    lengths,
    mode,
    reverse,
    time_major,
    masked,
    of_kept=None,
):
    """The gradients of `recurrence_of`, one for each operand that was given; the steps are made again.

    `of_kept`: gradients that `sequence_of` has besides, of the states before each step and of their part of the gates.
    """
    sizes, seen, given, states, inside = _prepared(x, h, c, weight_ih, bias_ih, lengths, mode, reverse, time_major)
    kept: dict[int, Kept] = {}
    _walk(sizes, given, states, inside, _stepper(sizes, weight_hh, bias_hh, weight_ho), masked, kept)
    wide, one = sizes.wide, x.ndim == 2
    grads = tuple([a.astype(wide) for a in (g if one else g[1:])])
    more = None if one else (g[0] if time_major else np.swapaxes(g[0], 0, 1)).astype(wide)
    back, of_given, of_hidden = _back(sizes, weight_hh, weight_ho), np.zeros_like(given), np.zeros_like(given)
    before = np.zeros((*given.shape[:2], h.shape[1]), wide)
    made_by, made_grad = [], []  # what weight_ho was multiplied with, and the gradient of the product
    for t in reversed(sizes.order):
        step = kept[t]
        stay = None
        if step.inside is not None:
            stay = tuple([np.where(step.inside, 0, a) for a in grads])
            grads = tuple([np.where(step.inside, a, 0) for a in grads])
        if more is not None:
            grads = (
                grads[0] + (more[t] if stay is None or not masked else np.where(step.inside, more[t], 0)),
                *grads[1:],
            )
        if weight_ho is not None:
            made_by.append(sizes.low(step.parts[2]))
            made_grad.append(grads[0])
        of_given[t], of_hidden[t], grads = back(step, grads)
        before[t] = sizes.low(step.states[0])
        grads = grads if stay is None else tuple([a + b for a, b in zip(grads, stay, strict=True)])
        if of_kept is not None:
            *of_before, of_own = of_kept
            of_hidden[t] += of_own[t]
            grads = tuple([a + b[t] for a, b in zip(grads, of_before, strict=True)])
            grads = (grads[0] + of_own[t] @ np.asarray(weight_hh, wide), *grads[1:])
    flat, own = [part.reshape(len(seen), given.shape[-1]) for part in (of_given, of_hidden)]
    dx = blas.matmul(flat, np.asarray(weight_ih, wide)).reshape(*given.shape[:2], seen.shape[-1])
    dx = dx[0] if one else dx if time_major else np.swapaxes(dx, 0, 1)
    found: list[Any] = [
        dx,
        *grads,
        blas.matmul(flat.T, seen),
        blas.matmul(own.T, before.reshape(len(seen), before.shape[-1])),
    ]
    found += [part.sum(0) for part, bias in ((flat, bias_ih), (own, bias_hh)) if bias is not None]
    if weight_ho is not None:
        found.append(
            np.concatenate(made_by).T @ np.concatenate(made_grad) if made_by else np.zeros(weight_ho.shape, wide)
        )
    return (*[a.astype(sizes.kind) for a in found], *([] if lengths is None else [None]))


def sequence_forward(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, lengths, mode, reverse, time_major, masked):
    """What `sequence_of` returns."""
    sizes, _, given, states, inside = _prepared(x, h, c, weight_ih, bias_ih, lengths, mode, reverse, time_major)
    kept: dict[int, Kept] = {}
    outs, last = _walk(sizes, given, states, inside, _stepper(sizes, weight_hh, bias_hh, None), masked, kept)
    before = [np.stack([kept[t].states[k] for t in range(len(given))]) for k in range(len(states))]
    own = blas.matmul(sizes.low(before[0]), np.ascontiguousarray(weight_hh.T, sizes.wide))
    own = own if bias_hh is None else own + np.asarray(bias_hh, sizes.wide)
    outs = outs if time_major else np.swapaxes(outs, 0, 1)
    return outs.astype(sizes.kind), *[s.astype(sizes.kind) for s in last], *before, own


def sequence_backward(
    g, out, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, lengths, mode, reverse, time_major, masked
):
    """The gradients of `sequence_of`, one for each operand that was given."""
    count = 1 if c is None else 2
    operands = (x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, None, lengths)
    return backward(g[: 1 + count], *operands, mode, reverse, time_major, masked, of_kept=g[1 + count :])


# ---------------------------------------------------------------- a GRU over whole sequences, which keeps what its
# gradient reads


def _used(g):
    """A gradient, or None for one zero in the place of all elements: that of a result which nobody has used."""
    return None if g.size and not any(g.strides) and not g.flat[0] else g


def _inputs(x, weight, biases, time_major):
    """The types that are kept and carried, whether these differ, and the inputs' part of the gates: [steps, batch, gates]."""
    kind = x.dtype
    wide = np.dtype(np.float32) if kind.itemsize < 4 else kind
    x = x if time_major else x.swapaxes(0, 1)
    steps, batch, width = x.shape
    seen = np.ascontiguousarray(x.reshape(steps * batch, width), wide)
    given = blas.matmul(seen, np.asarray(weight, wide).swapaxes(-1, -2))
    for bias in biases:
        if bias is not None:
            given += np.asarray(bias, wide)
    return kind, wide, kind != wide, given.reshape(*given.shape[:-2], steps, batch, given.shape[-1])


def _turned(weight, steps):
    """A weight as each step multiplies with it; for a few steps a copy would cost more than it saves."""
    return np.ascontiguousarray(weight) if steps >= 16 else weight


def gru_forward(x, h, weight_ih, weight_hh, bias_ih, bias_hh, reverse, time_major):
    """What `gru_of` returns. Gates have an axis of their own, the first: NumPy is slow for parts of rows."""
    n = h.shape[1]
    biases = [None if b is None else b.reshape(3, 1, n) for b in (bias_ih, bias_hh)]
    kind, wide, low, given = _inputs(x, weight_ih.reshape(3, n, -1), biases[:1], time_major)
    bias = None
    if biases[1] is not None:
        given[:2] += np.asarray(biases[1][:2], wide)[:, None]
        bias = np.asarray(biases[1][2], wide)
    _, steps, batch, _ = given.shape
    half, turned = np.array(0.5, wide), _turned(np.asarray(weight_hh, wide).reshape(3, n, n).swapaxes(1, 2), steps)
    kept, outs = np.empty((4, steps, batch, n), wide), np.empty((steps, batch, n), wide)
    h, own = h.astype(wide), np.empty((3, batch, n), wide)
    own_gates, own_new = own[:2], own[2]
    # the parts of each step, cut in one go
    cuts = list(zip(kept[:2].swapaxes(0, 1), *kept, given[:2].swapaxes(0, 1), given[2], outs, strict=True))
    for both, r, z, new, part, of_gates, of_new, out in cuts[:: -1 if reverse else 1]:
        np.matmul(h.astype(kind).astype(wide) if low else h, turned, out=own)
        if bias is None:
            part[:] = own_new
        else:
            np.add(own_new, bias, out=part)
        np.add(own_gates, of_gates, out=both)
        both *= half  # sigmoid(z) is tanh(z / 2) / 2 + 1 / 2
        np.tanh(both, out=both)
        both *= half
        both += half
        np.multiply(r, part, out=new)
        new += of_new
        np.tanh(new, out=new)
        h = np.subtract(h, new, out=out)
        h *= z
        h += new
    outs = outs if time_major else outs.swapaxes(0, 1)
    return outs.astype(kind, copy=False), h.astype(kind), *kept


def gru_backward(g, out, x, h, weight_ih, weight_hh, bias_ih, bias_hh, reverse, time_major):
    """The gradients of `gru_of`, one for each operand that was given."""
    outs, _, r, z, new, part = out
    more, dh, more_r, more_z, more_new, more_part = *g[:2], *map(_used, g[2:])
    kind, wide = x.dtype, z.dtype
    steps, batch, n = z.shape
    if not time_major:
        x, more, outs = [np.swapaxes(a, 0, 1) for a in (x, more, outs)]
    first = h[None]
    before = np.concatenate([outs[1:], first] if reverse else [first, outs[:-1]]).astype(wide, copy=False)
    # what the gradient of a state is multiplied with to become those of the candidate's part, of the gates before
    # their functions (reset, update), and of the candidate: the first three are the states', the last three the inputs'
    made = np.empty((steps, batch, 4, n), wide)
    of_part, of_r, of_z, of_new = [made[:, :, k] for k in range(4)]
    bend, slope_r, slope_z = 1 - new * new, r - r * r, z - z * z
    slope = (1 - z) * bend
    of_new[:] = slope
    np.multiply(slope, r, out=of_part)
    slope *= part
    np.multiply(slope, slope_r, out=of_r)
    np.multiply(before - new, slope_z, out=of_z)
    extra = None
    if any(a is not None for a in (more_r, more_z, more_new, more_part)):
        extra = np.zeros_like(made)
        extra[:, :, 3] = 0 if more_new is None else more_new * bend
        extra[:, :, 0] = extra[:, :, 3] * r + (0 if more_part is None else more_part)
        extra[:, :, 1] = (extra[:, :, 3] * part + (0 if more_r is None else more_r)) * slope_r
        extra[:, :, 2] = 0 if more_z is None else more_z * slope_z
    weight = _last_first(np.asarray(weight_hh, wide), 2 * n)
    more, dh = more.astype(wide, copy=False), dh.astype(wide)
    rows = made.reshape(steps * batch, 4 * n)
    of_own, of_given = rows[:, : 3 * n], rows[:, n:]
    product, cuts = (
        np.empty((batch, n), wide),
        list(zip(more, made, of_own.reshape(steps, batch, 3 * n), z, strict=True)),
    )
    column = dh[:, None]
    for t in range(steps)[:: 1 if reverse else -1]:
        added, now, of_states, keep = cuts[t]
        dh += added
        now *= column  # in the place of what it is multiplied with
        if extra is not None:
            now += extra[t]
        if kind != wide:  # products take what is rounded
            now[:] = now.astype(kind)
        np.matmul(of_states, weight, out=product)
        dh *= keep
        dh += product
    seen = np.ascontiguousarray(x.reshape(steps * batch, x.shape[-1]), wide)
    dx = blas.matmul(of_given, np.asarray(weight_ih, wide)).reshape(x.shape)
    dw = blas.matmul(of_own.T, before.reshape(steps * batch, n))
    found = [dx if time_major else np.swapaxes(dx, 0, 1), dh, blas.matmul(of_given.T, seen), _last_first(dw, n)]
    if bias_ih is not None or bias_hh is not None:
        total = np.add.reduce(rows, 0)
        found += [] if bias_ih is None else [total[n:]]
        found += [] if bias_hh is None else [_last_first(total[: 3 * n], n)]
    return tuple([a.astype(kind, copy=False) for a in found])


def _last_first(x, n):
    """The first `n` rows behind the others: where the candidate stands, before the gates or behind them."""
    return np.concatenate([x[n:], x[:n]])


# ---------------------------------------------------------------- an LSTM over whole sequences, which keeps what its
# gradient reads


@functools.lru_cache(maxsize=64)
def _halves(n, dtype):
    """Factor and shift that make a sigmoid of a tanh, for three of the four gates: tanh(z / 2) / 2 + 1 / 2."""
    half, shift = np.full((2, 4 * n), 0.5, dtype)
    half[2 * n : 3 * n], shift[2 * n : 3 * n] = 1, 0
    return half, shift


def lstm_forward(x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, reverse, time_major):
    """What `lstm_of` returns."""
    kind, wide, low, given = _inputs(x, weight_ih, (bias_ih, bias_hh), time_major)
    n, (steps, batch, _) = h.shape[1], given.shape
    half, shift = _halves(n, wide)
    turned = _turned(np.asarray(weight_hh, wide).T, steps)
    gates, cells, outs = np.empty_like(given), np.empty((steps, batch, n), wide), np.empty((steps, batch, n), wide)
    h, c = h.astype(wide), c.astype(wide)
    for t in range(steps)[:: -1 if reverse else 1]:
        now = np.matmul(h.astype(kind).astype(wide) if low else h, turned, out=gates[t])
        now += given[t]
        now *= half
        np.tanh(now, out=now)
        now *= half
        now += shift
        c = np.multiply(now[:, n : 2 * n], c, out=cells[t])
        c += now[:, :n] * now[:, 2 * n : 3 * n]
        h = np.tanh(c, out=outs[t])
        h *= now[:, 3 * n :]
    outs = outs if time_major else outs.swapaxes(0, 1)
    return outs.astype(kind, copy=False), h.astype(kind), c.astype(kind), gates, cells


def lstm_backward(g, out, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh, reverse, time_major):
    """The gradients of `lstm_of`, one for each operand that was given."""
    outs, _, _, gates, cells = out
    more, dh, dc, more_gates, more_cells = *g[:3], *map(_used, g[3:])
    kind, wide, n = x.dtype, gates.dtype, cells.shape[-1]
    if not time_major:
        x, more, outs = [np.swapaxes(a, 0, 1) for a in (x, more, outs)]
    order = list(range(len(x)))[:: 1 if reverse else -1]
    first = [s.astype(wide)[None] for s in (h, c)]
    h_before, c_before = [
        np.concatenate([a[1:], s] if reverse else [s, a[:-1]])
        for a, s in zip((outs.astype(wide), cells), first, strict=True)
    ]
    i, f, g, o = [gates[..., k * n : (k + 1) * n] for k in range(4)]
    t = np.tanh(cells)
    slope = gates * (1 - gates)
    slope[..., 2 * n : 3 * n] = 1 - g * g
    extra = None if more_gates is None else more_gates * slope
    own, of_h = slope * np.concatenate([g, c_before, i, t], -1), o * (1 - t * t)
    dz, weight, more = np.empty_like(gates), np.asarray(weight_hh, wide), more.astype(wide)
    dh, dc = dh.astype(wide), dc.astype(wide)
    for k in order:
        dh += more[k]
        dc += dh * of_h[k]
        if more_cells is not None:
            dc += more_cells[k]
        now = np.concatenate([dc, dc, dc, dh], -1, out=dz[k])
        now *= own[k]
        if extra is not None:
            now += extra[k]
        np.matmul(now if kind == wide else now.astype(kind).astype(wide), weight, out=dh)
        dc *= f[k]
    flat, seen = dz.reshape(-1, 4 * n), np.ascontiguousarray(x.reshape(-1, x.shape[-1]), wide)
    dx = blas.matmul(flat, np.asarray(weight_ih, wide)).reshape(x.shape)
    total = flat.sum(0)
    found = [dx if time_major else np.swapaxes(dx, 0, 1), dh, dc]
    found += [blas.matmul(flat.T, seen), blas.matmul(flat.T, h_before.reshape(-1, h.shape[-1]))]
    return tuple([a.astype(kind) for a in (*found, *[total for bias in (bias_ih, bias_hh) if bias is not None])])
