"""DenseTensor: values on the host, and which sequences their rows belong to."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.device import Place
from bireme.core.base.dtype import DType
from bireme.core.program import building
from bireme.core.tensor.tensor import Tensor


class DenseTensor:
    """Values on the host that Paddle's inner code sets and reads; ``to_tensor`` accepts it.

    Examples:
        >>> t = bireme.base.core.DenseTensor()
        >>> t.set([[1, 2]], bireme.CPUPlace())
        >>> t.shape(), bireme.to_tensor(t).tolist()
        ([1, 2], [[1, 2]])
    """

    def __init__(self) -> None:
        self._tensor = Tensor()
        self._lod: list[list[int]] = []

    def set(self, value: Any, place: Any = None, zero_copy: bool = False) -> None:
        """Set the values.

        Args:
            value: An array or nested lists.
            place: Device. Default: None, the current one.
            zero_copy: Has no effect: the values are copied.

        Examples:
            >>> bireme.base.core.DenseTensor().set([1.0])
        """
        with building.suspended():
            self._tensor = Tensor(np.asarray(value), place=place)

    def shape(self) -> list[int]:
        """Return the shape as a list."""
        return self._tensor.shape

    def lod(self) -> list[list[int]]:
        """Return where the sequences that the rows belong to begin and end, for each level.

        Returns:
            A list of lists of offsets; empty if there are no sequences.

        Examples:
            >>> bireme.base.create_lod_tensor([[1, 2], [3]], [[2, 1]], bireme.CPUPlace()).lod()
            [[0, 2, 3]]
        """
        return [list(level) for level in self._lod]

    def set_lod(self, lod: Any) -> None:
        """Set where sequences begin and end.

        Args:
            lod: Lists of offsets, one for each level, outermost first.

        Raises:
            ValueError: If they do not fit each other or the rows.

        Examples:
            >>> t = bireme.base.core.DenseTensor()
            >>> t.set([1.0, 2.0, 3.0])
            >>> t.set_lod([[0, 1, 3]])
        """
        found = [list(map(int, level)) for level in lod]
        ends = [len(level) - 1 for level in found[1:]] + [self.shape()[0]] if found else []
        for level, end in zip(found, ends, strict=True):
            if not level or level[0] != 0 or level[-1] != end or sorted(level) != level:
                raise errors.bad("set_lod(lod)", f"offsets from 0 to {end} in order", level)
        self._lod = found

    def set_recursive_sequence_lengths(self, recursive_sequence_lengths: Any) -> None:
        """Set how many rows belong to each sequence.

        Args:
            recursive_sequence_lengths: Lists of lengths, one for each level, outermost first.

        Raises:
            ValueError: If they do not fit each other or the rows.

        Examples:
            >>> t = bireme.base.core.DenseTensor()
            >>> t.set([1.0, 2.0, 3.0])
            >>> t.set_recursive_sequence_lengths([[1, 2]])
            >>> t.lod()
            [[0, 1, 3]]
        """
        self.set_lod([[0, *itertools.accumulate(map(int, level))] for level in recursive_sequence_lengths])

    def _dtype(self) -> DType:
        return self._tensor.dtype

    def _place(self) -> Place:
        return self._tensor.place

    def _is_initialized(self) -> bool:
        return self._tensor.size > 0

    def _ptr(self) -> int:
        return self._tensor.data_ptr()  # type: ignore[attr-defined]  # installed by ops.storage

    def _set_dims(self, extents: Any) -> None:
        self._tensor = Tensor(np.zeros(extents, self._tensor.dtype.np))

    def _alloc_float(self, place: Any = None) -> None:
        self._tensor = Tensor(np.zeros(self.shape(), np.float32), place=place)

    def _alloc_int(self, place: Any = None) -> None:
        self._tensor = Tensor(np.zeros(self.shape(), np.int32), place=place)

    def __getitem__(self, index: Any) -> DenseTensor:
        part = DenseTensor()
        part._tensor = self._tensor[index]  # type: ignore[index]  # installed by ops.index
        return part

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._tensor.__array__(dtype, copy)

    def __repr__(self) -> str:
        lod = ", ".join([f"{{{', '.join(map(str, level))}}}" for level in self._lod])
        values = " ".join([f"{x:g}" if isinstance(x, float) else str(x) for x in np.asarray(self).ravel().tolist()])
        lines = [f"lod: {{{lod}}}", f"shape: {self.shape()}", "layout: NCHW", f"place: {self._place()}"]
        return "".join([f"  - {line}\n" for line in (*lines, f"dtype: {self._dtype().name}", f"data: [{values}]")])
