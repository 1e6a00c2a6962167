"""Files of arrays: safetensors with checksums beside them, of which any part is read alone, in bounded memory."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

import numpy as np

from bireme.core.base.errors import FileFormatError
from bireme.files import safetensors
from bireme.files.pickler import write_all
from bireme.files.source import Source, size_of
from bireme.files.store import telling

CHUNK = 1 << 20  # bytes that have a checksum of their own: a part is checked without reading the rest
BAND = 1 << 24  # bytes that are read at once
ENDING, SUMS = ".safetensors", ".crc32"


class Arrays(Protocol):
    """A file of arrays, open for reading."""

    def told(self, key: str) -> tuple[np.dtype, int]:
        """Dtype of an array and its number of elements."""

    def read(self, key: str, at: int, shape: tuple[int, ...], there: tuple[slice, ...], out: np.ndarray) -> None:
        """Read a part of a block whose numbers begin at element ``at`` of an array."""

    def close(self) -> None:
        """Close the file."""


class _Summed:
    """A file that computes a checksum of each chunk that is written to it."""

    def __init__(self, file: BinaryIO):
        self.file, self.sums, self._sum, self._room = file, list[int](), 0, CHUNK

    def write(self, data: Any) -> int:
        left = memoryview(data)
        while len(left):
            piece, left = left[: self._room], left[self._room :]
            self._sum = zlib.crc32(piece, self._sum)
            self._room -= len(piece)
            write_all(self.file, piece)
            if not self._room:
                self._close_chunk()
        return len(data)

    def _close_chunk(self) -> None:
        self.sums.append(self._sum)
        self._sum, self._room = 0, CHUNK

    def all_sums(self) -> bytes:
        if self._room < CHUNK:
            self._close_chunk()
        return np.array(self.sums, "<u4").tobytes()


def write(where: str, folder: str, stem: str, arrays: dict[str, Any], hint: str) -> None:
    """Write a file of arrays and its checksums, and wait until both are on the disk."""
    path = os.path.join(folder, stem + ENDING)
    with telling(where, path, hint):
        with open(path, "wb", buffering=0) as file:
            summed = _Summed(file)
            safetensors.write(summed, arrays, None)  # type: ignore[arg-type]  # it has a `write`
            os.fsync(file.fileno())
        with open(os.path.join(folder, stem + SUMS), "wb") as file:
            file.write(summed.all_sums())
            file.flush()
            os.fsync(file.fileno())


class ArrayFile:
    """A safetensors file; with checksums if they are given. What is read of it is checked."""

    def __init__(self, where: str, path: str, sums: bytes | None = None):
        self.path, self._where, self._known = path, where, set[int]()
        with telling(where, path):
            self._file: BinaryIO = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        try:
            self.size = size_of(self._file)
            self._sums = None if sums is None else np.frombuffer(sums, "<u4") if not len(sums) % 4 else np.zeros(0)
            if self._sums is not None and len(self._sums) != -(-self.size // CHUNK):
                raise FileFormatError(f"{self.size} bytes where its checksums are those of another length")
            reader = safetensors.Reader(Source(self._file, self.size))
            self._start, self._entries = reader.start, reader.entries
            self._bytes(0, self._start)  # the header too has checksums
        except FileFormatError:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def told(self, key: str) -> tuple[np.dtype, int]:
        if key not in self._entries:
            raise FileFormatError(f"no array {key[:100]!r}")
        dtype, shape, _, _ = self._entries[key]
        return dtype, math.prod(shape)

    def read(self, key: str, at: int, shape: tuple[int, ...], there: tuple[slice, ...], out: np.ndarray) -> None:
        dtype, _, start, _ = self._entries[key]
        if out.size:
            _banded(self._bytes, self._start + start + at * dtype.itemsize, dtype, shape, there, out)

    def _bytes(self, start: int, stop: int) -> np.ndarray:
        """Bytes of the file, after those of their chunks that are not yet known to be right were checked."""
        first, last = start // CHUNK, -(-stop // CHUNK)
        if self._sums is None or self._known.issuperset(range(first, last)):
            return np.frombuffer(self._pread(start, stop), np.uint8)
        data = self._pread(first * CHUNK, min(last * CHUNK, self.size))
        for i in range(first, last):
            piece = memoryview(data)[(i - first) * CHUNK : (i - first + 1) * CHUNK]
            if zlib.crc32(piece) != self._sums[i]:
                raise FileFormatError(f"a checksum that does not match at byte {i * CHUNK}")
            self._known.add(i)
        return np.frombuffer(data, np.uint8)[start - first * CHUNK : stop - first * CHUNK]

    def _pread(self, start: int, stop: int) -> bytes:
        pieces, at = [], start
        with telling(self._where, self.path):
            while at < stop:
                pieces.append(os.pread(self._file.fileno(), stop - at, at))
                at += len(pieces[-1])
                if not pieces[-1]:
                    raise FileFormatError(f"it is truncated while it is read, at byte {at}")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _banded(
    get: Callable[[int, int], np.ndarray],
    start: int,
    dtype: np.dtype,
    shape: tuple[int, ...],
    there: tuple[slice, ...],
    out: np.ndarray,
) -> None:
    """Read a part of a block that begins at a byte, a few rows at a time."""
    if not shape:
        out[...] = _as(get(start, start + dtype.itemsize), dtype)[0]
        return
    row = math.prod(shape[1:]) * dtype.itemsize
    low, high = there[0].start, there[0].stop
    if row > BAND and len(shape) > 1:
        for i in range(low, high):
            _banded(get, start + i * row, dtype, shape[1:], there[1:], out[i - low])
        return
    step = max(1, BAND // row)
    for a in range(low, high, step):
        b = min(high, a + step)
        band = _as(get(start + a * row, start + b * row), dtype).reshape(b - a, *shape[1:])
        out[a - low : b - low] = band[(slice(None), *there[1:])]


def _as(raw: np.ndarray, dtype: np.dtype) -> np.ndarray:
    # bytes of a bool other than 0 and 1 would be neither true nor false to NumPy
    return raw != 0 if dtype == np.bool_ else raw.view(dtype)
