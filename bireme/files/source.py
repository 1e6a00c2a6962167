"""Reading a file that may lie: bytes are counted before they are read, and what is wrong is said in one sentence."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

import numpy as np

_CHUNK = 1 << 16


class BadFile(ValueError):
    """The file is damaged, hostile, or not of a kind that is read here."""


class Source:
    """The rest of an open file, `size` bytes of it. Long pieces are read straight into arrays; nothing is believed."""

    def __init__(self, file: BinaryIO, size: int):
        self._file = file
        self._unread = size  # not yet in the buffer
        self._buffer = b""
        self._at = 0
        self.size = size

    @property
    def left(self) -> int:
        """How many bytes there still are."""
        return self._unread + len(self._buffer) - self._at

    @property
    def place(self) -> int:
        """How many bytes were taken."""
        return self.size - self.left

    def byte(self) -> int:
        """The next byte as a number."""
        if self._at >= len(self._buffer):
            self._fill(1)
        self._at += 1
        return self._buffer[self._at - 1]

    def take(self, n: int) -> bytes:
        """The next `n` bytes, a small number of them."""
        end = self._at + n
        if end > len(self._buffer):
            self._fill(n)
            end = self._at + n
        found = self._buffer[self._at : end]
        self._at = end
        return found

    def peek(self, n: int) -> bytes:
        """The next bytes, at most `n`, which stay where they are."""
        n = min(n, self.left)
        if self._at + n > len(self._buffer):
            self._fill(n)
        return self._buffer[self._at : self._at + n]

    def number(self, n: int) -> int:
        """The next `n` bytes as an unsigned number, little end first."""
        return int.from_bytes(self.take(n), "little")

    def line(self, limit: int) -> bytes:
        """The bytes up to the next line feed, without it."""
        if self._buffer.find(b"\n", self._at) < 0:
            self._fill(min(limit, self.left))
        end = self._buffer.find(b"\n", self._at, self._at + limit)
        if end < 0:
            raise BadFile(f"a line without an end at byte {self.place}")
        found = self._buffer[self._at : end]
        self._at = end + 1
        return found

    def blob(self, n: int) -> np.ndarray:
        """The next `n` bytes in memory of their own."""
        self._need(n)
        out = np.empty(n, np.uint8)
        have = min(n, len(self._buffer) - self._at)
        out[:have] = np.frombuffer(self._buffer, np.uint8, have, self._at)
        self._at += have
        into, done = memoryview(out), have
        while done < n:
            got = self._file.readinto(into[done:])  # type: ignore[attr-defined]  # a binary file
            if not got:
                raise BadFile(f"it ends after {self.size - self._unread} bytes, while it is read")
            done += got
            self._unread -= got
        return out

    def give_back(self) -> None:
        """Put the file's own position where we are: somebody may read on."""
        self._file.seek(-(len(self._buffer) - self._at), os.SEEK_CUR)

    def _need(self, n: int) -> None:
        if n > self.left:
            raise BadFile(f"it ends too early: {n} bytes are announced at byte {self.place}, and {self.left} are left")

    def _fill(self, n: int) -> None:
        self._need(n)
        pieces, have = [self._buffer[self._at :]], len(self._buffer) - self._at
        while have < n:
            piece = self._file.read(min(max(n - have, _CHUNK), self._unread))
            if not piece:
                raise BadFile(f"it ends after {self.size - self._unread} bytes, while it is read")
            self._unread -= len(piece)
            have += len(piece)
            pieces.append(piece)
        self._buffer, self._at = b"".join(pieces), 0


def size_of(file: BinaryIO) -> int:
    """Size of an open file; pipes and devices, which have none, are refused."""
    info = os.fstat(file.fileno())
    if not stat.S_ISREG(info.st_mode):
        raise BadFile("not a regular file")
    return info.st_size
