"""Optimizer updates by NumPy: few passes, and on all cores where a parameter is large."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.numpy_exec import blas

_PART = 1 << 18  # elements of a parameter that are worth a core of their own


_SMALL = 1 << 14  # elements of one that is not worth the way to another core


def each(make: Callable[[int], Any], sizes: list[int]) -> list[Any]:
    """What `make` gives for each parameter, by its place; where they are large, those of each core beside the others'."""
    large = sorted([i for i, size in enumerate(sizes) if size >= _SMALL], key=lambda i: -sizes[i])
    count = min(blas.cores(), sum([sizes[i] for i in large]) // _PART, len(large))
    if count < 2:
        return [make(i) for i in range(len(sizes))]
    groups: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for i in large:
        least = loads.index(min(loads))
        groups[least].append(i)
        loads[least] += sizes[i]
    groups[0] += [i for i, size in enumerate(sizes) if size < _SMALL]  # this thread's
    found: list[Any] = [None] * len(sizes)

    def work(group: list[int]) -> None:
        for i in group:
            found[i] = make(i)

    blas.share([functools.partial(work, group) for group in groups])
    return found


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
