"""Sums over the entries of sparse matrices by SciPy's loops, on all cores: rows times values, added up where they go."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bireme.core.numpy_exec import blas, sparsetools
from bireme.core.numpy_exec.grouping import Groups

PART = 1 << 16  # entries that a core goes over at a time: their indices stay in the cache
PER_CORE = 4  # parts for each core where nothing has to stay in the cache: rows are not of the same length
SHARED = 1 << 18  # multiplications that are worth a second core


def available(dtype: Any) -> bool:
    """Whether there are loops for such values."""
    return dtype in _TYPES and sparsetools.loop("csr_matvecs") is not None


_TYPES = frozenset(map(np.dtype, "?bBhHiIlLqQfdFD"))


def add_products(groups: Groups, values: np.ndarray | None, dense: np.ndarray, out: np.ndarray) -> None:
    """Add to each row of `out` those of `dense` that its entries name, times their values; None: as they are.

    Entries with several values each have one for each equal part of a row, as an edge has one for each head.
    """
    if values is not None and values.ndim > 1:
        return _add_parts(groups, values, dense, out)
    add = _add_vector if out.shape[1] == 1 else _add_rows
    as_it_is = values is not None and groups.order is None
    over_rows(groups, out.shape[1], functools.partial(add, groups, values, dense, out), PER_CORE if as_it_is else 0)


def over_rows(groups: Groups, width: int, make: Callable[[int, int], Any], per_core: int = 0) -> None:
    """Call `make` with the first row and the end of parts of all rows, on all cores: small ones, or so many for each."""
    starts, size = groups.starts, groups.cols.size
    part = max(PART, size // (per_core * blas.cores())) if per_core else PART
    if blas.cores() == 1 and per_core:
        return make(0, starts.size - 1)
    ends = np.searchsorted(starts, np.arange(part, size, part))
    cuts = np.unique(np.concatenate([[0], ends, [starts.size - 1]])).tolist()
    shared(list(itertools.pairwise(cuts)), size * width, make)


def shared(parts: list[tuple[int, int]], work: int, make: Callable[[int, int], Any]) -> None:
    """Call `make` with each part, on all cores if it is much work."""

    def some(mine: Iterable[tuple[int, int]]) -> None:
        for part in mine:
            make(*part)

    count = min(blas.cores(), len(parts)) if work >= SHARED else 1
    if count <= 1:
        return some(parts)
    blas.share([functools.partial(some, parts[i::count]) for i in range(count)])


def _part(groups: Groups, values: np.ndarray | None, a: int, b: int, dtype: Any) -> tuple:
    """Row starts, columns and values of the entries of some rows."""
    low, high = int(groups.starts[a]), int(groups.starts[b])
    if values is None:
        data = np.ones(high - low, dtype)
    elif groups.order is None:
        data = values[low:high]
    else:
        data = np.take(values, groups.order[low:high], 0, mode="clip")
    starts = groups.starts[a : b + 1]
    return starts - low if low else starts, groups.cols[low:high], data


def _add_rows(groups: Groups, values: Any, dense: np.ndarray, out: np.ndarray, a: int, b: int) -> None:
    starts, cols, data = _part(groups, values, a, b, out.dtype)
    loop = sparsetools.loop("csr_matvecs")
    loop(b - a, len(dense), out.shape[1], starts, cols, data.reshape(-1), dense.reshape(-1), out[a:b].reshape(-1))


def _add_vector(groups: Groups, values: Any, dense: np.ndarray, out: np.ndarray, a: int, b: int) -> None:
    starts, cols, data = _part(groups, values, a, b, out.dtype)
    loop = sparsetools.loop("csr_matvec")
    loop(b - a, len(dense), starts, cols, data.reshape(-1), dense.reshape(-1), out[a:b].reshape(-1))


def _add_parts(groups: Groups, values: np.ndarray, dense: np.ndarray, out: np.ndarray) -> None:
    """Each part of the rows by itself: to copy them out costs less than indices for each part of each entry."""
    heads = values.shape[1]
    wide = [t.reshape(len(t), heads, -1).transpose(1, 0, 2) for t in (dense, out)]
    parts, sums = np.ascontiguousarray(wide[0]), np.zeros(wide[1].shape, out.dtype)
    for column, part, total in zip(np.ascontiguousarray(values.T), parts, sums):
        add_products(groups, column, part, total)
    wide[1] += sums


def most(groups: Groups, ufunc: np.ufunc, x: np.ndarray, out: np.ndarray) -> None:
    """Write the largest, or smallest, of its entries' rows of `x` into each row of `out` that has entries."""
    over_rows(groups, out.shape[1], functools.partial(_reduce_some, groups, ufunc, x, out))


def _reduce_some(groups: Groups, ufunc: np.ufunc, x: np.ndarray, out: np.ndarray, a: int, b: int) -> None:
    low, high = int(groups.starts[a]), int(groups.starts[b])
    starts = groups.starts[a : b + 1] - low
    filled = np.flatnonzero(starts[1:] > starts[:-1])
    if not filled.size:
        return
    part = x[low:high] if groups.order is None else np.take(x, groups.order[low:high], 0, mode="clip")
    # along rows of memory: NumPy takes ten times as long to reduce short columns
    found = ufunc.reduceat(np.ascontiguousarray(part.T), starts[filled], axis=1)
    out[a + filled] = found.T


def softmax(groups: Groups, x: np.ndarray) -> np.ndarray:
    """Shares of each row's entries in the sum of their exponentials."""
    out = np.empty_like(x)
    over_rows(groups, SOFTMAX, functools.partial(_softmax_of_some, groups, x, out))
    return out


NEAR = 16.0  # a difference up to this loses no digits of float32 that the exponential of a smaller one would have
SOFTMAX = 8  # multiplications that take as long as an exponential and what goes with it


def _softmax_of_some(groups: Groups, x: np.ndarray, out: np.ndarray, a: int, b: int) -> None:
    low, high = int(groups.starts[a]), int(groups.starts[b])
    if low == high:
        return
    starts = groups.starts[a : b + 1] - low
    counts = np.diff(starts)
    # entries in order are written where they belong, without memory of their own
    at = None if groups.order is None else groups.order[low:high]
    given, part = (x[low:high], out[low:high]) if at is None else (x[at], np.empty(high - low, x.dtype))
    top = given.max()
    # where all are near each other, what is subtracted need not be the largest of each row, which takes long to find
    if top - given.min() <= NEAR:
        np.subtract(given, top, out=part)
    else:
        full = counts > 0
        np.subtract(given, np.repeat(np.maximum.reduceat(given, starts[:-1][full]), counts[full]), out=part)
    np.exp(part, out=part)
    total = np.zeros(b - a, x.dtype)
    loop = sparsetools.loop("csr_matvec")
    if loop is None:
        total[counts > 0] = np.add.reduceat(part, starts[:-1][counts > 0])
    else:
        loop(b - a, 1, starts, _zeros(high - low, starts.dtype), part, np.ones(1, x.dtype), total)
    # one division for each row: those of all entries take three times as long as products
    np.divide(1, total, out=total, where=counts > 0)
    part *= np.repeat(total, counts)
    if at is not None:
        out[at] = part


def _zeros(n: int, dtype: Any) -> np.ndarray:
    """Column 0 for so many entries; the same memory each time for parts of the usual size."""
    if n > 2 * PART:
        return np.zeros(n, dtype)
    return _columns(np.dtype(dtype))[:n]


@functools.cache
def _columns(dtype: np.dtype) -> np.ndarray:
    return np.zeros(2 * PART, dtype)


def sum_each(groups: Groups, x: np.ndarray) -> np.ndarray:
    """For each entry, the sum of all entries of its row."""
    total = np.zeros((groups.starts.size - 1, 1), x.dtype)
    add_products(groups, x, np.ones((groups.cols.size, 1), x.dtype), total)
    found = np.repeat(total[:, 0], np.diff(groups.starts))
    if groups.order is None:
        return found
    out = np.empty_like(found)
    out[groups.order] = found
    return out
