"""Memory shared by a worker and its parent: an anonymous file, so nothing remains however a process ends.

It is no file of /dev/shm, whose 64 MB in a container are soon used up, and it grows with the largest batch.
"""

from __future__ import annotations

import io
import math
import mmap
import os
import tempfile
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import numpy as np

from bireme.io.collate import mapped, stack_arrays

ALIGN = 64
MAX_INLINE_BYTES = 1 << 14  # bytes; smaller arrays travel in the message


def anonymous() -> int:
    """A file without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("bireme")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _up(n: int, step: int = ALIGN) -> int:
    return -(-n // step) * step


# ---------------------------------------------------------------- the dataset, to all workers


class Parcel(NamedTuple):
    """Pickled objects for the workers, and large buffers beside them: the (start, size) of each in the file."""

    main: bool  # whether something in it was defined in the script that runs
    parts: list[tuple[int, int]]
    size: int


def pack(fd: int, objects: Any) -> Parcel:
    """Write objects into the file, arrays of them as they are: the workers will share their memory."""
    stream = io.BytesIO()
    buffers: list[Any] = []
    ForkingPickler(stream, 5, True, buffers.append).dump(objects)
    text = stream.getbuffer()
    parts, at = [], 0
    for view in (text, *(buffer.raw() for buffer in buffers)):
        parts.append((at, view.nbytes))
        at = _up(at + view.nbytes)
    os.ftruncate(fd, max(at, 1))
    with mmap.mmap(fd, max(at, 1)) as area:
        for (start, size), view in zip(parts, (text, *(buffer.raw() for buffer in buffers)), strict=True):
            area[start : start + size] = view
    # a process that multiprocessing has spawned calls the script by the second name
    main = any(name in stream.getvalue() for name in (b"__main__", b"__mp_main__"))
    return Parcel(main, parts, max(at, 1))


def unpack(fd: int, parcel: Parcel) -> Any:
    """Return the objects. Their arrays are in the file; what a process writes into them is private to it."""
    area = memoryview(mmap.mmap(fd, parcel.size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE))
    os.close(fd)
    text, *buffers = (area[start : start + size] for start, size in parcel.parts)
    return ForkingPickler.loads(text, buffers=buffers)


# ---------------------------------------------------------------- batches, from a worker


@dataclass(slots=True)
class Ref:
    """An array of a batch, by its place in the shared file."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def end(self) -> int:
        return self.start + math.prod(self.shape) * self.dtype.itemsize


class Writer:
    """The worker's side: lays arrays into slots of the file. A slot is free again when the parent has said so."""

    def __init__(self, fd: int):
        self.fd, self.size = fd, 0
        self.area: Any = None
        self.slots: dict[int, int] = {}  # start: size
        self.free: list[int] = []
        self.start = self.room = self.used = self.usual = 0
        self.placed: dict[int, tuple[np.ndarray, Ref]] = {}  # the arrays too, so that no other gets their id

    def release(self, slots: list[int]) -> None:
        self.free += slots

    def begin(self) -> None:
        """Start a batch in a slot that has room for one like the last."""
        self.start, self.room, self.used, self.placed = -1, 0, 0, {}
        if self.usual:
            self._take(self.usual)

    def _take(self, size: int) -> None:
        fitting = [s for s in self.free if self.slots[s] >= size]
        if fitting:
            self.start = min(fitting, key=self.slots.__getitem__)
            self.free.remove(self.start)
        else:
            self.start, step = self.size, _up(size + size // 4, mmap.PAGESIZE)
            self.slots[self.start] = step
            self.size += step
            os.ftruncate(self.fd, self.size)
            self.area = mmap.mmap(self.fd, self.size)
        self.room = self.slots[self.start]

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Memory for an array: in the slot, if it has room for it."""
        size = math.prod(shape) * dtype.itemsize
        if size < MAX_INLINE_BYTES or dtype.hasobject or self.used + size > self.room:
            return np.empty(shape, dtype)
        ref = Ref(self.start + self.used, shape, dtype)
        self.used = _up(self.used + size)
        array: np.ndarray = np.ndarray(shape, dtype, self.area, ref.start)
        self.placed[id(array)] = array, ref
        return array

    def stack(self, arrays: Any) -> np.ndarray:
        """Arrays along a new axis, made where they will be read."""
        return stack_arrays(arrays, self.empty)

    def finish(self, batch: Any) -> tuple[Any, int]:
        """The batch with places instead of large arrays, and the slot they are in; -1 if in none."""
        large: list[np.ndarray] = []
        mapped(lambda array: large.append(array) if _large(array) else None, batch)
        needed = sum(_up(array.nbytes) for array in large)
        self.usual = max(self.usual, needed)
        if self.used + sum(_up(array.nbytes) for array in large if id(array) not in self.placed) > self.room:
            before = self.start
            self._take(needed)
            self.used, self.placed = 0, {}
            done = mapped(self._lay, batch)
            if before >= 0:
                self.free.append(before)
        else:
            done = mapped(self._lay, batch)
        slot, self.placed = self.start, {}
        if slot >= 0 and not large:
            self.free.append(slot)
            slot = -1
        return done, slot

    def _lay(self, array: np.ndarray) -> Any:
        if not _large(array):
            return array
        if id(array) not in self.placed:
            there = self.empty(array.shape, array.dtype)
            there[...] = array
            array = there
        return self.placed[id(array)][1]


def _large(array: np.ndarray) -> bool:
    return array.nbytes >= MAX_INLINE_BYTES and not array.dtype.hasobject


class Reader:
    """The parent's side."""

    def __init__(self, fd: int):
        self.fd, self.area = fd, memoryview(b"")

    def array(self, ref: Ref) -> np.ndarray:
        """The array at a place, to be copied before its slot is released."""
        if ref.end > len(self.area):
            self.area = memoryview(mmap.mmap(self.fd, os.fstat(self.fd).st_size, prot=mmap.PROT_READ))
        return np.ndarray(ref.shape, ref.dtype, self.area, ref.start)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd, self.area = -1, memoryview(b"")
