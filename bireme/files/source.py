"""Reading of files that are not trusted: lengths are checked before anything is read."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

import numpy as np

from bireme.core.base.errors import FileFormatError

_CHUNK = 1 << 16


class Source:
    """The next ``size`` bytes of an open file. Every length is checked against what is left before it is used."""

    def __init__(self, file: BinaryIO, size: int):
        self._file = file
        self._unread = size  # not yet in the buffer
        self._buffer = b""
        self._at = 0
        self.size = size

    @property
    def left(self) -> int:
        """Number of bytes that are left."""
        return self._unread + len(self._buffer) - self._at

    @property
    def place(self) -> int:
        """Number of bytes read so far."""
        return self.size - self.left

    def byte(self) -> int:
        """Return the next byte as an int."""
        if self._at >= len(self._buffer):
            self._fill(1)
        self._at += 1
        return self._buffer[self._at - 1]

    def take(self, n: int) -> bytes:
        """Return the next ``n`` bytes, for small ``n``."""
        end = self._at + n
        if end > len(self._buffer):
            self._fill(n)
            end = self._at + n
        found = self._buffer[self._at : end]
        self._at = end
        return found

    def peek(self, n: int) -> bytes:
        """Return the next ``n`` bytes, or fewer at the end, without consuming them."""
        n = min(n, self.left)
        if self._at + n > len(self._buffer):
            self._fill(n)
        return self._buffer[self._at : self._at + n]

    def number(self, n: int) -> int:
        """Return the next ``n`` bytes as an unsigned little-endian integer."""
        return int.from_bytes(self.take(n), "little")

    def line(self, limit: int) -> bytes:
        """Return the bytes up to the next line feed, without it."""
        if self._buffer.find(b"\n", self._at) < 0:
            self._fill(min(limit, self.left))
        end = self._buffer.find(b"\n", self._at, self._at + limit)
        if end < 0:
            raise FileFormatError(f"a line without a line feed at byte {self.place}")
        found = self._buffer[self._at : end]
        self._at = end + 1
        return found

    def blob(self, n: int) -> np.ndarray:
        """Return the next ``n`` bytes as an array of their own."""
        self._need(n)
        out = np.empty(n, np.uint8)
        have = min(n, len(self._buffer) - self._at)
        out[:have] = np.frombuffer(self._buffer, np.uint8, have, self._at)
        self._at += have
        into, done = out.data, have
        while done < n:
            got = self._file.readinto(into[done:])  # type: ignore[attr-defined]  # a binary file
            if not got:
                raise FileFormatError(f"it is truncated while it is read, after {self.size - self._unread} bytes")
            done += got
            self._unread -= got
        return out

    def give_back(self) -> None:
        """Set the position of the file to what was consumed: somebody may read on."""
        self._file.seek(-(len(self._buffer) - self._at), os.SEEK_CUR)

    def _need(self, n: int) -> None:
        if n > self.left:
            raise FileFormatError(
                f"it is truncated: {n} bytes are expected at byte {self.place}, and {self.left} are left"
            )

    def _fill(self, n: int) -> None:
        self._need(n)
        pieces, have = [self._buffer[self._at :]], len(self._buffer) - self._at
        while have < n:
            piece = self._file.read(min(max(n - have, _CHUNK), self._unread))
            if not piece:
                raise FileFormatError(f"it is truncated while it is read, after {self.size - self._unread} bytes")
            self._unread -= len(piece)
            have += len(piece)
            pieces.append(piece)
        self._buffer, self._at = b"".join(pieces), 0


class MappedSource(Source):
    """A whole file, of which arrays are not read but mapped; what is written to them stays in memory."""

    def __init__(self, file: BinaryIO, size: int, path: str):
        super().__init__(file, size)
        self._map = np.asarray(np.memmap(path, np.uint8, "c", shape=(size,))) if size else np.zeros(0, np.uint8)

    def blob(self, n: int) -> np.ndarray:
        self._need(n)
        start, have = self.place, min(n, len(self._buffer) - self._at)
        self._at += have
        self._unread -= n - have
        self._file.seek(self.size - self._unread)
        return self._map[start : start + n]


def size_of(file: BinaryIO) -> int:
    """Return the size of an open file; pipes and devices, which have none, are an error."""
    info = os.fstat(file.fileno())
    if not stat.S_ISREG(info.st_mode):
        raise FileFormatError("not a regular file")
    return info.st_size
