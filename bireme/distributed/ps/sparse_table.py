"""A table of rows by id that grows: values and optimizer states in one array, found through an index of the ids."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.distributed import entry_attr
from bireme.distributed.ps import initial_rows, rules
from bireme.distributed.ps.id_index import IdIndex, grow, mixed
from bireme.distributed.ps.storage import Storage

WIDEST = 1 << 16  # values of a row
FIELDS = {"name", "width", "rule", "initial", "entry", "storage"}
SHOW, CLICK, DAY = range(3)  # columns beside each row: what `shrink` judges by
DECAY, UNCLICKED, DAYS = 0.98, 0.1, 30  # of shows and clicks; weight of a show; days without being seen


class SparseTable:
    """Rows of one width by id.

    Args:
        config: Its description: plain values, the same in every process.
        rows: Rows that stay in memory where there is a storage behind it.
    """

    def __init__(self, config: dict[str, Any], storage_path: str = "", rows: int = 10_000_000):
        self.config = checked(config)
        self.width: int = config["width"]
        self.rule = rules.made(config["rule"])
        self._entry, self._least = entry_attr.parsed(config["entry"])
        self._wide = self.width + self.rule.state(self.width)
        self.lock = threading.Lock()
        self.day = 0
        self._most = rows
        self._storage = Storage(storage_path, 4 * (self._wide + 3)) if config["storage"] else None
        self._empty()

    def _empty(self, capacity: int = 1024) -> None:
        self._index = IdIndex(capacity)
        self._rows = np.empty((capacity, self._wide), np.float32)
        self._beside = np.empty((capacity, 3), np.float32)
        self._waiting, self._seen = IdIndex(), np.zeros(512, np.uint32)  # ids that are seen and have no row yet

    @property
    def size(self) -> int:
        """Number of rows, those on disk too."""
        return self._index.size + (self._storage.size if self._storage else 0)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        arrays = (self._rows, self._beside, self._seen)
        return self._index.nbytes + self._waiting.nbytes + sum(array.nbytes for array in arrays)

    # ------------------------------------------------------------ reading and writing

    def pull(self, ids: np.ndarray, train: bool = True) -> np.ndarray:
        """The values of ids that are all different. In training those that have no row get one, if the entry policy
        lets them; others are zeros.
        """
        with self.lock:
            at = self._found(ids)
            missing = np.flatnonzero(at < 0)
            if train and missing.size:
                let = missing if not self._entry or self._entry == "show_click_entry" else self._admitted(ids, missing)
                at[let] = self._made(ids[let])
            values = self._rows.take(at, axis=0)[:, : self.width].copy()
            values[at < 0] = 0
            self._spill(at)
            return values

    def push(
        self, ids: np.ndarray, grads: np.ndarray, lr: float, seen: np.ndarray | None = None, add: bool = False
    ) -> None:
        """Update the rows of ids that are all different; those that have no row are left out, or made if `add`: then
        `grads` are differences to add. `seen` has two columns, how often each was shown and clicked.
        """
        if grads.shape != (ids.size, self.width):
            name, got = self.config["name"], f"shape {list(grads.shape)}"
            raise errors.bad(f"push({name})", f"shape {[ids.size, self.width]}", described=got, kind=errors.ShapeError)
        with self.lock:
            at = self._found(ids)
            if add and (at < 0).any():
                missing = np.flatnonzero(at < 0)
                at[missing] = self._made(ids[missing])
            there = np.flatnonzero(at >= 0)
            if there.size < at.size:
                at, grads, seen = at[there], grads[there], None if seen is None else seen[there]
            rows = self._rows.take(at, axis=0)  # 2.5 times as fast as by an index
            (ADD if add else self.rule).apply(rows, grads, lr)
            self._rows[at] = rows
            self._beside[at, SHOW] += 1 if seen is None else seen[:, 0]
            if seen is not None:
                self._beside[at, CLICK] += seen[:, 1]
            self._beside[at, DAY] = self.day
            self._spill(at)

    def put(self, ids: np.ndarray, values: np.ndarray) -> None:
        """Give rows values, and leave their states."""
        with self.lock:
            at = self._index.find(ids)
            missing = np.flatnonzero(at < 0)
            at[missing] = self._made(ids[missing])
            self._rows[at, : self.width] = values

    def _found(self, ids: np.ndarray) -> np.ndarray:
        at = self._index.find(ids)
        if self._storage is not None and self._storage.size:
            missing = np.flatnonzero(at < 0)
            which, packed = self._storage.take(ids[missing])
            if which.size:
                at[missing[which]] = self._take_in(
                    ids[missing[which]], packed[:, : self._wide], packed[:, self._wide :]
                )
        return at

    def _made(self, ids: np.ndarray) -> np.ndarray:
        values = initial_rows.initial_rows(self.config["initial"], ids, self.width)
        beside = np.zeros((ids.size, 3), np.float32)
        beside[:, DAY] = self.day
        return self._take_in(ids, values, beside)

    def _take_in(self, ids: np.ndarray, values: np.ndarray, beside: np.ndarray) -> np.ndarray:
        """Rows for ids that have none; states start anew unless they are given too."""
        at, new = self._index.add(ids)
        if new.size != ids.size:
            raise errors.bad(f"table {self.config['name']}", "ids that are all different", described="one twice")
        if self._index.size > self._rows.shape[0]:
            grow(self, "_rows", self._index.size)
            grow(self, "_beside", self._index.size)
        self._rows[at, : values.shape[1]] = values
        if values.shape[1] < self._wide:
            self._rows[at, values.shape[1] :] = self.rule.initial()
        self._beside[at] = beside
        return at

    def _admitted(self, ids: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Which of the ids without a row get one now, by how often they were seen."""
        at, _ = self._waiting.add(ids[missing])
        if self._waiting.size > self._seen.size:
            grow(self, "_seen", self._waiting.size)
        self._seen[at] += 1
        counts = self._seen[at]
        if self._entry == "count_filter_entry":
            return missing[counts >= self._least]
        drawn = mixed(mixed(ids[missing], 3) + counts, 4) >> np.uint64(11)
        return missing[drawn < np.uint64(int(self._least * 2**53))]

    # ------------------------------------------------------------ memory and disk

    def _spill(self, at: np.ndarray) -> None:
        """Move the rows that were made first to disk where there are more than may stay; those just used stay."""
        if self._storage is None or self._index.size <= self._most:
            return
        go = np.ones(self._index.size, bool)
        go[at[at >= 0]] = False
        go[np.flatnonzero(go)[max(self._index.size - self._most // 2, 0) :]] = False
        n = self._index.size
        packed = np.concatenate([self._rows[:n][go], self._beside[:n][go]], axis=1)
        self._storage.put(self._index.ids[go], packed)
        self._keep(~go)

    def _keep(self, keep: np.ndarray) -> None:
        """Drop rows of memory: the others move together, under a new index."""
        n, waiting, seen = self._index.size, self._waiting, self._seen
        ids, rows, beside = self._index.ids[keep], self._rows[:n][keep], self._beside[:n][keep]
        self._empty(max(ids.size, 1024))
        self._waiting, self._seen = waiting, seen
        self._take_in(ids, rows, beside)

    def shrink(self, threshold: float) -> int:
        """Let a day pass: shows and clicks lose weight, and rows go that matter less than the threshold or were not
        seen for long; how many went.
        """
        with self.lock:
            before, n = self.size, self._index.size
            self.day += 1
            self._beside[:n, :DAY] *= np.float32(DECAY)
            self._keep(self._worth(self._beside[:n], threshold))
            if self._storage is not None:
                self._storage.filter(lambda packed: self._aged(packed, threshold))
            self._waiting, self._seen = IdIndex(), np.zeros(512, np.uint32)
            return before - self.size

    def _aged(self, packed: np.ndarray, threshold: float) -> np.ndarray:
        packed[:, self._wide : self._wide + DAY] *= np.float32(DECAY)
        return self._worth(packed[:, self._wide :], threshold)

    def _worth(self, beside: np.ndarray, threshold: float) -> np.ndarray:
        score = UNCLICKED * (beside[:, SHOW] - beside[:, CLICK]) + beside[:, CLICK]
        return (score >= threshold) & (self.day - beside[:, DAY] <= DAYS)

    # ------------------------------------------------------------ files

    def parts(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Ids, rows with their states, and the columns beside them: what memory holds, and what the disk does."""
        n = self._index.size
        found = [(self._index.ids, self._rows[:n], self._beside[:n])]
        for ids, packed in self._storage.parts() if self._storage is not None else ():
            found.append((ids, packed[:, : self._wide], packed[:, self._wide :]))
        return found

    def load(self, ids: np.ndarray, rows: np.ndarray, beside: np.ndarray) -> None:
        """Take rows from a file in."""
        if rows.shape != (ids.size, self._wide) or beside.shape != (ids.size, 3):
            expected = f"rows of {self._wide} floats, {self.width} of them values"
            raise errors.bad(f"load({self.config['name']})", expected, described=f"rows of {rows.shape[-1]}")
        with self.lock:
            at = self._index.find(ids)
            old = np.flatnonzero(at >= 0)
            self._rows[at[old]], self._beside[at[old]] = rows[old], beside[old]
            new = np.flatnonzero(at < 0)
            self._take_in(ids[new], rows[new], beside[new])
            self.day = max(self.day, int(beside[:, DAY].max(initial=0)))
            self._spill(np.zeros(0, np.int32))

    def clear(self) -> None:
        """Drop all rows."""
        with self.lock:
            self._empty()
            if self._storage is not None:
                self._storage.clear()


ADD = rules.SumRule()


def checked(config: Any) -> dict[str, Any]:
    """The description of a table, if it is one."""
    if not isinstance(config, dict) or set(config) != FIELDS or not isinstance(config["name"], str):
        raise errors.bad("table", f"a description with {', '.join(sorted(FIELDS))}", described=str(config)[:200])
    if type(config["width"]) is not int or not 0 < config["width"] <= WIDEST:
        raise errors.bad(f"table {config['name']}", f"a width from 1 to {WIDEST}", config["width"])
    if type(config["storage"]) is not bool:
        raise errors.bad(f"table {config['name']}", "True or False for its storage", config["storage"])
    initial_rows.checked(config["initial"])
    return config
