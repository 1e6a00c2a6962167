"""Entries grouped by the row that they belong to, so that rows can be added up side by side.

A graph that is trained on has the same edges in every step: how they are grouped is kept while their array lives.
"""

from __future__ import annotations

import collections
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np

from bireme.core.numpy_exec import sparsetools

MOST = 64  # groupings that are kept, those used longest ago out first


class Groups(NamedTuple):
    """Entries in order of their rows."""

    starts: np.ndarray  # where those of each row begin, and the end
    cols: np.ndarray  # their columns
    order: np.ndarray | None  # which entry each of them is; None: they were in order


_kept: collections.OrderedDict[tuple, tuple[tuple, Groups]] = collections.OrderedDict()
_lock = threading.RLock()  # an array may die, and be forgotten, while this thread holds it


def groups(rows: np.ndarray, n: int, cols: np.ndarray | None = None, m: int | None = None) -> Groups:
    """Entries grouped by `rows`, each less than `n`; without `cols`, which are less than `m`, each has its own column."""
    given = [rows] if cols is None else [rows, cols]
    key = (n, m, *[(a.__array_interface__["data"][0], a.size, a.strides, a.dtype) for a in given])
    with _lock:
        found = _kept.get(key)
        if found is not None and all(ref() is not None for ref in found[0]):
            _kept.move_to_end(key)
            return found[1]
    made = _grouped(rows, n, cols, rows.size if m is None else m)
    with _lock:
        _kept[key] = tuple([_reference(a, key) for a in given]), made
        while len(_kept) > MOST:
            _kept.popitem(last=False)
    return made


def _reference(a: np.ndarray, key: tuple) -> weakref.ref:
    """To who owns the memory, which never changes while it lives: a view of it is made anew in every step."""

    def forget(ref: weakref.ref) -> None:
        with _lock:
            found = _kept.get(key)
            if found is not None and ref in found[0]:
                del _kept[key]

    owner: Any = a if a.base is None else a.base
    try:
        return weakref.ref(owner, forget)
    except TypeError:  # memory of a buffer that is no array
        return weakref.ref(a, forget)


def inside(index: np.ndarray, n: int, kind: Any = np.int64) -> np.ndarray:
    """Indices that do not leave an axis, as the loops take them: they have been checked, and a wrong one stays inside."""
    if index.size and (index.min() < 0 or index.max() >= n):
        index = np.clip(index, 0, n - 1)
    return np.ascontiguousarray(index, kind)


def _grouped(rows: np.ndarray, n: int, cols: np.ndarray | None, m: int) -> Groups:
    size = rows.size
    kind = np.int32 if max(n, m, size) < 1 << 31 else np.int64
    at, places = inside(rows, n, kind), np.arange(size, dtype=kind)
    columns = places if cols is None else inside(cols, m, kind)
    starts = np.zeros(n + 1, kind)
    if (at[1:] >= at[:-1]).all():
        np.cumsum(np.bincount(at, minlength=n), out=starts[1:])
        return Groups(starts, columns, None)
    loop = sparsetools.loop("coo_tocsr")
    if loop is None:
        np.cumsum(np.bincount(at, minlength=n), out=starts[1:])
        order = np.argsort(at, kind="stable").astype(kind)
        return Groups(starts, columns[order], order)
    sorted_columns, order = np.empty(size, kind), np.empty(size, kind)
    loop(n, m, size, at, columns, places, starts, sorted_columns, order)
    return Groups(starts, sorted_columns, order)
