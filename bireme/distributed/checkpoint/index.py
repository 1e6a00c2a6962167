"""The index of a version that is read: logical tensors, of which pieces they consist, and values out of these."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.distributed.checkpoint import boxes
from bireme.distributed.checkpoint.array_files import Arrays
from bireme.distributed.checkpoint.boxes import Box


class Piece(NamedTuple):
    """A block of a tensor, or of its flattened numbers those of a range: an array of a file."""

    file: str
    key: str
    offset: tuple[int, ...]
    shape: tuple[int, ...]
    flat: tuple[int, int] | None

    def boxes(self) -> list[Box]:
        """The boxes of the tensor that the array has, in the order of its numbers."""
        if self.flat is None:
            return [Box(self.offset, self.shape)]
        return [boxes.moved(box, self.offset) for box in boxes.of_range(self.shape, *self.flat)]


class Saved:
    """A logical tensor that was saved."""

    def __init__(self, dtype: np.dtype, shape: tuple[int, ...], pieces: list[Piece]):
        self.dtype, self.shape, self.pieces = dtype, shape, pieces
        self._boxes: list[tuple[Box, Piece]] | None = None

    def boxes(self) -> list[tuple[Box, Piece]]:
        """All boxes with their pieces; an error if two of them overlap: which one is right nobody knows."""
        if self._boxes is None:
            found = [(box, piece) for piece in self.pieces for box in piece.boxes()]
            pair = boxes.overlapping([box for box, _ in found])
            if pair is not None:
                raise FileFormatError(f"pieces at {list(pair[0].offset)} and {list(pair[1].offset)} that overlap")
            self._boxes = found
        return self._boxes


def checked_piece(name: str, shape: tuple[int, ...], piece: Piece) -> Piece:
    """The piece, if it lies in its tensor, and its file in the folder."""
    shown = repr(name[:100])
    if os.path.basename(piece.file) != piece.file or piece.file in ("", ".", ".."):
        raise FileFormatError(f"{shown} in a file outside of its folder, {piece.file[:200]!r}")
    sizes_fit = len(piece.offset) == len(piece.shape) == len(shape)
    if not sizes_fit or any(a + n > whole for a, n, whole in zip(piece.offset, piece.shape, shape)):
        raise FileFormatError(f"a piece of {shown} that is not inside its shape {list(shape)}")
    if piece.flat is not None and not 0 <= piece.flat[0] <= piece.flat[1] <= math.prod(piece.shape):
        raise FileFormatError(f"a piece of {shown} with numbers {list(piece.flat)} of a block {list(piece.shape)}")
    return piece


class Version:
    """A version that is read. ``opened`` opens one of its files."""

    def __init__(
        self,
        where: str,
        folder: str,
        tensors: dict[str, Saved],
        values: dict[str, Any],
        opened: Callable[[str], Arrays],
    ):
        self.where, self.folder, self.tensors, self.values = where, folder, tensors, values
        self._opened, self._files = opened, dict[str, Arrays]()

    def __enter__(self) -> Version:
        return self

    def __exit__(self, *_: Any) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, piece: Piece) -> Arrays:
        if piece.file not in self._files:
            self._files[piece.file] = self._opened(piece.file)
        return self._files[piece.file]

    def check(self, name: str, wanted: Box) -> None:
        """Check, before anything is read, that all of a block is there."""
        saved, left = self.tensors[name], wanted.size
        with self.naming(name):
            for box, piece in saved.boxes():
                overlap = boxes.common(wanted, box)
                if overlap is None:
                    continue
                left -= math.prod(span.stop - span.start for span in overlap[0])
                dtype, count = self._file(piece).told(piece.key)
                if dtype != saved.dtype or count < box.at + box.size:
                    raise FileFormatError(
                        f"{dtype.name}[{count}] in {piece.file} where a piece of {saved.dtype.name} is to be"
                    )
            if left:
                raise FileFormatError(f"only some of its pieces, {wanted.size - left} of {wanted.size} numbers")

    def read(self, name: str, offset: tuple[int, ...], out: np.ndarray) -> None:
        """Read a block of a tensor into an array, of whatever pieces it was saved in."""
        saved = self.tensors[name]
        if saved.dtype != out.dtype:
            found = np.empty(out.shape, saved.dtype)
            self.read(name, offset, found)
            out[...] = found.astype(out.dtype)
            return
        wanted = Box(offset, out.shape)
        with self.naming(name):
            for box, piece in saved.boxes():
                overlap = boxes.common(wanted, box)
                if overlap is not None:
                    here, there = overlap
                    self._file(piece).read(piece.key, box.at, box.shape, there, out[here] if here else out)

    def whole(self, name: str) -> np.ndarray:
        """All of a tensor."""
        saved = self.tensors[name]
        self.check(name, Box((0,) * len(saved.shape), saved.shape))
        out = np.empty(saved.shape, saved.dtype)
        self.read(name, (0,) * len(saved.shape), out)
        return out

    @contextlib.contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """Say which tensor of which folder it is that something is wrong with."""
        try:
            yield
        except FileFormatError as e:
            if getattr(e, "_told", False):
                raise
            expected = f"all of {name[:100]!r} in {self.folder}"
            raise errors.bad(f"{self.where}(path)", expected, described=str(e), kind=FileFormatError) from None
