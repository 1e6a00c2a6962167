"""Optimizer updates by NumPy: few passes, in parts that stay in a core's cache, and on all cores where there is much."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from bireme.core.numpy_exec import blas

_PART = 1 << 18  # elements of parameters that are worth a core of their own
_BLOCK = 1 << 15  # elements at a time: seven arrays of them stay in a cache


def adam(
    params: list, grads: list, firsts: list, seconds: list, numbers: list[tuple], decays: tuple, decoupled: bool,
    by_rows: tuple,
) -> list[list[np.ndarray]]:  # fmt: skip
    """Parameters and both moments after a step of Adam; `numbers` are those of `updates._of_adam` for each parameter."""
    olds = [list(params), list(firsts), list(seconds)]
    grads = list(grads)
    moved = {i: np.flatnonzero((grads[i] != 0).any(axis=-1)) for i, own in enumerate(by_rows) if own}
    for i, index in moved.items():
        grads[i] = grads[i][index]
        for kind in olds:
            kind[i] = kind[i][index]
    made = [[np.empty(p.shape, p.dtype) for p in kind] for kind in olds]
    parts: list[tuple] = []
    for i, arrays in enumerate(zip(olds[0], grads, *olds[1:], *made, strict=True)):
        size = arrays[0].size
        if size > _BLOCK:
            flat = [x.reshape(-1) for x in arrays]
            parts += [(i, [x[at : at + _BLOCK] for x in flat]) for at in range(0, size, _BLOCK)]
        elif size:
            parts.append((i, arrays))

    def work(parts: list[tuple]) -> None:
        for i, arrays in parts:
            _adam(*arrays, numbers[i], bool(decays[i]), decoupled)

    total = sum([p.size for p in olds[0]])
    count = min(blas.cores(), total // _PART)
    if count < 2:
        work(parts)
    else:
        blas.share([functools.partial(work, group) for group in _shares(parts, total, count)])
    for i, index in moved.items():
        for new, old in zip(made, (params, firsts, seconds)):
            some, new[i] = new[i], np.array(old[i])
            new[i][index] = some
    return made


def _shares(parts: list[tuple], total: int, count: int) -> list[list[tuple]]:
    """The parts of each core, one after the other: about as many elements for each."""
    groups: list[list[tuple]] = [[] for _ in range(count)]
    before = 0
    for part in parts:
        groups[before * count // total].append(part)
        before += part[1][0].size
    return groups


def _adam(
    p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray,
    new_p: np.ndarray, new_m: np.ndarray, new_v: np.ndarray, numbers: tuple, decay: bool, decoupled: bool,
) -> None:  # fmt: skip
    """A part of one parameter and its moments, in the order of `updates._adam`."""
    b1, rest1, b2, rest2, rate, epsilon, weight_decay, shrink = numbers
    wide, g = p.astype(m.dtype, copy=False), g.astype(m.dtype, copy=False)
    if decay and decoupled:
        wide = wide * shrink
    elif decay:
        g = g + weight_decay * wide
    room = np.multiply(g, rest1, out=np.empty(g.shape, m.dtype))
    np.multiply(m, b1, out=new_m)
    new_m += room
    np.multiply(g, g, out=room)
    room *= rest2
    np.multiply(v, b2, out=new_v)
    new_v += room
    np.sqrt(new_v, out=room)
    room += epsilon
    np.divide(new_m, room, out=room)
    room *= rate
    np.subtract(wide, room, out=new_p, casting="same_kind")


def momentum(
    params: list, grads: list, velocities: list, lr: Any, mu: Any, weight_decay: Any, use_nesterov: bool, decays: tuple
) -> list[np.ndarray]:
    """Parameters and velocities after a step with momentum."""
    found = [
        _with_momentum(p, g, v, lr, mu, weight_decay if decay else None, use_nesterov)
        for p, g, v, decay in zip(params, grads, velocities, decays)
    ]
    return [p for p, _ in found] + [v for _, v in found]


def _with_momentum(
    p: np.ndarray, g: np.ndarray, v: np.ndarray, lr: Any, mu: Any, weight_decay: Any, use_nesterov: bool
) -> tuple[np.ndarray, np.ndarray]:
    """One parameter and its velocity; those of a large one are made on all cores."""
    new_p, new_v = np.empty(p.shape, v.dtype), np.empty(v.shape, v.dtype)
    rate, factor = -np.asarray(lr, v.dtype).reshape(()), np.asarray(mu, v.dtype).reshape(())
    decay = None if weight_decay is None else np.asarray(weight_decay, v.dtype).reshape(())

    def make(p, g, v, new_p, new_v):
        np.multiply(v, factor, out=new_v)
        if decay is not None:
            g = g + np.multiply(p, decay, out=new_p)
        new_v += g
        if use_nesterov:
            np.multiply(new_v, factor, out=new_p)
            new_p += g
            new_p *= rate
        else:
            np.multiply(new_v, rate, out=new_p)
        new_p += p

    arrays = p, g, v, new_p, new_v
    n = min(blas.cores(), p.size // _PART)
    if n < 2:
        make(*arrays)
    else:
        size = -(-p.size // n)
        flat = [x.reshape(-1) for x in arrays]
        starts = range(0, p.size, size)
        blas.share([functools.partial(make, *[x[i : i + size] for x in flat]) for i in starts])
    return new_p, new_v
