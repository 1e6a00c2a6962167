"""Rulebooks: which stored points meet under which element of a kernel, found from their indices on the host.

For each element of a kernel there is a list of pairs: a point that is read, and one of the result that it is added to.
Points are found by sorting. A rulebook is kept with the pattern that it is of, so layers of one pattern share it.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from bireme.core.tensor.tensor import Tensor
from bireme.ops.nn.window_args import Windows
from bireme.sparse.pattern import Coo, owned


class Rulebook(NamedTuple):
    """Points read and points written, those of each element of the kernel together; and the points of the result."""

    read: Tensor
    written: Tensor
    counts: tuple[int, ...]  # pairs of each element of the kernel
    pattern: Coo


def _steps(window: Any, dilation: Any) -> list[tuple[int, ...]]:
    """Where the elements of a kernel lie from its first one."""
    return list(itertools.product(*[[i * d for i in range(k)] for k, d in zip(window, dilation)]))


def of_windows(coo: Coo, window: Any, dilation: Any, windows: Windows) -> Rulebook:
    """Every window that has a point in it is a point of the result."""

    def find() -> Rulebook:
        batch, *axes = coo.axes()
        reads, keys = [], []
        for step in _steps(window, dilation):
            key, inside = batch, np.ones(coo.nnz, bool)
            for index, shift, stride, before, n in zip(axes, step, windows.stride, windows.before, windows.out):
                place, over = np.divmod(index + (before - shift), stride)
                inside &= (over == 0) & (place >= 0) & (place < n)
                key = key * n + place
            point = np.flatnonzero(inside)
            reads.append(point)
            keys.append(key[point])
        stored, written = coo.grouped(np.concatenate(keys))
        pattern = coo.like(stored, [coo.dims[0], *windows.out], coalesced=True)
        return Rulebook(owned(np.concatenate(reads)), owned(written), tuple(map(len, reads)), pattern)

    what = ("windows", window, dilation, windows.stride, windows.before, windows.out)
    return coo.known(what, find)


def of_points(coo: Coo, window: Any, dilation: Any) -> Rulebook:
    """The points themselves are those of the result; each is the centre of its window. Each is stored once."""

    def find() -> Rulebook:
        axes = coo.axes()[1:]
        order = np.argsort(coo.keys, kind="stable")
        ordered = coo.keys[order]
        strides = [math.prod(coo.dims[i + 2 :]) for i in range(len(axes))]
        reads, writes = [], []
        for step in _steps(window, dilation):
            shifts = [at - k // 2 * d for at, k, d in zip(step, window, dilation)]
            inside = np.ones(coo.nnz, bool)
            for index, shift, n in zip(axes, shifts, coo.dims[1:]):
                inside &= (index + shift >= 0) & (index + shift < n)
            point = np.flatnonzero(inside)
            key = coo.keys[point] + sum(shift * stride for shift, stride in zip(shifts, strides))
            place = np.minimum(np.searchsorted(ordered, key), max(ordered.size - 1, 0))
            found = ordered[place] == key
            reads.append(order[place[found]])
            writes.append(point[found])
        return Rulebook(owned(np.concatenate(reads)), owned(np.concatenate(writes)), tuple(map(len, reads)), coo)

    return coo.known(("points", window, dilation), find)
