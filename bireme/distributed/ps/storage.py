"""Rows of a table on disk, in RocksDB: those that memory has no room for."""

from __future__ import annotations

import operator
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.extras import extra

BATCH = 1 << 16  # rows that are read or written together
first = operator.itemgetter(0)


class Storage:
    """Packed rows by id. What a folder held before is dropped: tables are saved in files of their own.

    Args:
        path: The folder.
        width: Bytes of a row.
    """

    def __init__(self, path: str, width: int):
        self._rocks = extra("rocksdict", "ps", "for rows on disk")
        self._path, self._width = path, width
        self._open()

    def _open(self) -> None:
        if os.path.isdir(self._path) and os.listdir(self._path) and not os.path.exists(f"{self._path}/CURRENT"):
            raise errors.bad("table", "an empty folder, or one of RocksDB, for rows on disk", self._path)
        shutil.rmtree(self._path, ignore_errors=True)
        self._db: Any = self._rocks.Rdict(self._path, self._rocks.Options(raw_mode=True))
        self.size = 0

    def clear(self) -> None:
        """Drop all rows."""
        self._db.close()
        self._open()

    def put(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Store rows of ids that are not there."""
        for start in range(0, ids.size, BATCH):
            batch = self._rocks.WriteBatch(raw_mode=True)
            part = slice(start, start + BATCH)
            for key, row in zip(_keys(ids[part]), _pieces(rows[part], self._width), strict=True):
                batch.put(key, row)
            self._db.write(batch)
        self.size += ids.size

    def take(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the ids are there, and their rows; they are not there any more afterwards."""
        which, rows = [np.zeros(0, np.int64)], [np.zeros((0, self._width // 4), np.float32)]
        for start in range(0, ids.size, BATCH):
            part = ids[start : start + BATCH]
            found = self._db.get(_keys(part))
            there = np.flatnonzero(np.fromiter(map(bool, found), bool, len(found)))
            if there.size:
                packed = np.frombuffer(b"".join(filter(None, found)), np.float32)
                rows.append(packed.reshape(there.size, -1))
                which.append(there + start)
                self._drop(part[there])
        return np.concatenate(which), np.concatenate(rows)

    def _drop(self, ids: np.ndarray) -> None:
        batch = self._rocks.WriteBatch(raw_mode=True)
        for key in _keys(ids):
            batch.delete(key)
        self._db.write(batch)
        self.size -= ids.size

    def parts(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Ids and rows, some at a time."""
        entries = self._db.items()
        while True:
            pairs = [pair for pair, _ in zip(entries, range(BATCH), strict=False)]
            if not pairs:
                return
            ids = np.frombuffer(b"".join(map(first, pairs)), np.uint64)
            yield ids, np.frombuffer(b"".join([row for _, row in pairs]), np.float32).reshape(ids.size, -1).copy()

    def filter(self, keep: Callable[[np.ndarray], np.ndarray]) -> None:
        """Keep the rows that a function says; it may change them."""
        for ids, rows in self.parts():
            stays = keep(rows)
            self._drop(ids)
            self.put(ids[stays], rows[stays])


def _keys(ids: np.ndarray) -> list[bytes]:
    return _pieces(ids, 8)


def _pieces(array: np.ndarray, width: int) -> list[bytes]:
    return list(map(first, struct.iter_unpack(f"{width}s", np.ascontiguousarray(array).tobytes())))
