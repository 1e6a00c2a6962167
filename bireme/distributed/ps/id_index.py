"""Ids of 64 bits to numbers of rows: open addressing in arrays, all ids of a call at once."""

from __future__ import annotations

import numpy as np

LEAST = 1 << 10  # buckets
FULL = 0.6  # rows per bucket, at most: beyond it probes get long


def mixed(ids: np.ndarray, salt: int = 0) -> np.ndarray:
    """Ids as numbers that look random, the same everywhere: the finalizer of SplitMix64."""
    x = ids + np.uint64((0x9E3779B97F4A7C15 * (salt + 1)) & 0xFFFFFFFFFFFFFFFF)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def as_ids(ids: np.ndarray) -> np.ndarray:
    """Integers as ids: the same 64 bits."""
    return np.ascontiguousarray(ids, np.int64 if ids.dtype.kind == "i" else np.uint64).view(np.uint64).reshape(-1)


class IdIndex:
    """Rows by id. A bucket holds the number of a row, and `ids` the id of each row: 8 bytes of an id are kept once.

    Nothing is removed: what drops rows builds another index.
    """

    def __init__(self, capacity: int = 0):
        self._buckets = np.full(_buckets_for(capacity), -1, np.int32)
        self._ids = np.empty(max(capacity, LEAST // 2), np.uint64)
        self.size = 0

    @property
    def ids(self) -> np.ndarray:
        """The id of each row."""
        return self._ids[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._buckets.nbytes + self._ids.nbytes

    def find(self, ids: np.ndarray) -> np.ndarray:
        """The row of each id, -1 for those that have none."""
        return self._probe(ids)[0]

    def add(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The row of each id, and the ids that are new, in the order of their rows; ids may come several times."""
        self._reserve(self.size + ids.size)
        rows, at, missing = self._probe(ids)
        first = self.size
        while missing.size:
            spots = at[missing]
            # the last writer of a bucket owns it, and the row that it gets; the same id elsewhere finds it afterwards
            self._buckets[spots] = -2 - np.arange(spots.size, dtype=np.int32)
            owners = np.flatnonzero(self._buckets[spots] == -2 - np.arange(spots.size, dtype=np.int32))
            new = np.arange(self.size, self.size + owners.size, dtype=np.int32)
            self._ids[self.size : self.size + owners.size] = ids[missing[owners]]
            self._buckets[spots[owners]] = new
            self.size += owners.size
            rows[missing], at[missing], left = self._probe(ids[missing], spots)
            missing = missing[left]
        return rows, self._ids[first : self.size]

    def _probe(self, ids: np.ndarray, at: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, the buckets where the search ended, and which ids were not found."""
        mask = self._buckets.size - 1
        if at is None:
            at = (mixed(ids) & np.uint64(mask)).astype(np.int64)
        else:
            at = at.copy()
        rows = self._buckets[at]
        other = np.flatnonzero((rows >= 0) & (self._ids[rows] != ids))
        while other.size:
            at[other] = (at[other] + 1) & mask
            found = self._buckets[at[other]]
            rows[other] = found
            other = other[(found >= 0) & (self._ids[found] != ids[other])]
        return rows, at, np.flatnonzero(rows < 0)

    def _reserve(self, count: int) -> None:
        if count > self._ids.size:
            grow(self, "_ids", count)
        if count > FULL * self._buckets.size:
            self._buckets = np.full(_buckets_for(count), -1, np.int32)
            kept, self.size = self.ids, 0
            for start in range(0, kept.size, 1 << 20):  # in parts, so that what a probe needs stays small
                part = kept[start : start + (1 << 20)]
                self._place(part, start)
            self.size = kept.size

    def _place(self, ids: np.ndarray, first: int) -> None:
        """Put ids that are all different into buckets."""
        mask = self._buckets.size - 1
        at = (mixed(ids) & np.uint64(mask)).astype(np.int64)
        left = np.arange(ids.size, dtype=np.int32)
        while left.size:
            spots = at[left]
            free = self._buckets[spots] == -1
            self._buckets[spots[free]] = first + left[free]
            left = left[self._buckets[spots] != first + left]
            at[left] = (at[left] + 1) & mask


def _buckets_for(count: int) -> int:
    return max(LEAST, 1 << int(np.ceil(np.log2(max(count, 1) / FULL))))


def grow(owner: object, name: str, count: int) -> None:
    """Make an array of rows longer, by a quarter at least. Large ones are moved by the system, not copied."""
    array: np.ndarray = getattr(owner, name)
    if not array.flags.owndata:
        array = array.copy()
        setattr(owner, name, array)
    array.resize((max(count, array.shape[0] + array.shape[0] // 4), *array.shape[1:]), refcheck=False)


def sum_rows(rows: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
    """Rows added up by the places that they go to."""
    made = np.zeros((count, rows.shape[1]), np.float32)
    order = np.argsort(at, kind="stable")
    starts = np.flatnonzero(np.diff(at[order], prepend=-1))
    if order.size:
        made[at[order][starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return made
