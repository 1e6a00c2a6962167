"""Patterns of sparse tensors: which elements are stored, as integers on the host, and what follows from that.

Patterns never change. What was worked out of one (where its rows begin, which neighbours its points have) is kept with
it, and tensors of the same pattern share it. All of it is NumPy on whole arrays: values are no part of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.graph.graph import Value, sig_of
from bireme.core.tensor.tensor import Tensor, wrap


def owned(array: np.ndarray) -> Tensor:
    """A tensor on an array that nobody else holds."""
    array = np.ascontiguousarray(array)
    return wrap(Value(sig_of(array.shape, dtypes.from_numpy(array.dtype)), array, devices.current()))


class Coo:
    """Elements by coordinates: `indices` has a row for each axis of `dims` and a column for each element."""

    def __init__(
        self,
        dims: Sequence[int],
        indices: Tensor | None = None,
        keys: np.ndarray | None = None,
        coalesced: bool = False,
        dtype: Any = np.int64,
    ):
        self.dims, self.coalesced = tuple(dims), coalesced
        self._indices, self._keys, self._known = indices, keys, {}  # type: ignore[var-annotated]  # by what was asked
        self.dtype = np.dtype(dtype) if indices is None else indices.dtype.np
        if math.prod(self.dims) > np.iinfo(np.int64).max:
            raise errors.bad("sparse_coo_tensor(shape)", "at most 2**63 - 1 elements", list(dims))

    @property
    def indices(self) -> Tensor:
        """The coordinates as a tensor."""
        if self._indices is None:
            self._indices = owned(np.stack(self.axes()).astype(self.dtype))
        return self._indices

    @property
    def nnz(self) -> int:
        """Number of elements."""
        return self._indices.shape[1] if self._indices is not None else self.keys.size

    @property
    def keys(self) -> np.ndarray:
        """Elements as indices into the flattened array."""
        if self._keys is None:
            host = self.indices._host().astype(np.int64, copy=False)
            keys = host[0] if len(host) else np.zeros(host.shape[1], np.int64)
            for size, row in zip(self.dims[1:], host[1:]):
                keys = keys * size + row
            self._keys = keys
        return self._keys

    def axes(self) -> list[np.ndarray]:
        """Coordinates of the elements, an array for each axis."""
        if self._indices is not None:
            return list(self._indices._host().astype(np.int64, copy=False))
        if len(self.dims) == 2:
            return list(np.divmod(self.keys, max(self.dims[1], 1)))
        return list(np.unravel_index(self.keys, self.dims)) if self.keys.size else [self.keys] * len(self.dims)

    def known(self, what: Any, find: Callable[[], Any]) -> Any:
        """What follows from the pattern, worked out once."""
        if what not in self._known:
            self._known[what] = find()
        return self._known[what]

    def places(self) -> Tensor:
        """The keys as a tensor."""
        return self.known("places", lambda: owned(self.keys))

    def matrix(self, columns: int = 1) -> tuple[Tensor, Tensor]:
        """Rows and columns of the elements, with the last axes as columns and those before them as rows."""

        def find() -> tuple[Tensor, Tensor]:
            return tuple(owned(part) for part in np.divmod(self.keys, max(math.prod(self.dims[-columns:]), 1)))

        return self.known(("matrix", columns), find)

    def grouped(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distinct keys in order, and which of them each is."""
        if keys.size and (keys[1:] > keys[:-1]).all():
            return keys, np.arange(keys.size)
        # two runs that are sorted, as those of a sum, are merged by this sort in one pass
        order = np.argsort(keys, kind="stable")
        sort = keys[order]
        first = np.ones(sort.size, bool)
        np.not_equal(sort[1:], sort[:-1], out=first[1:])
        place = np.empty(keys.size, np.int64)
        place[order] = np.cumsum(first) - 1
        return sort[first], place

    def merged(self) -> tuple[Coo, Tensor | None]:
        """The pattern with each element once and in order, and where each element goes; None: where it is."""

        def find() -> tuple[Coo, Tensor | None]:
            keys, place = self.grouped(self.keys)
            if keys is self.keys:
                self.coalesced = True
                return self, None
            return Coo(self.dims, keys=keys, coalesced=True, dtype=self.dtype), owned(place)

        return (self, None) if self.coalesced else self.known("merged", find)

    def like(self, keys: np.ndarray, dims: Sequence[int], coalesced: bool = False) -> Coo:
        """Another pattern with the same type of indices."""
        return Coo(dims, keys=keys, coalesced=coalesced, dtype=self.dtype)


class Csr:
    """Elements of a matrix, or of a batch of them, row by row: where each row begins, and the columns."""

    def __init__(self, dims: Sequence[int], crows: Tensor, cols: Tensor, coo: Coo | None = None):
        self.dims, self.crows, self.cols, self._coo = tuple(dims), crows, cols, coo

    @property
    def nnz(self) -> int:
        return self.cols.shape[0]

    def coo(self) -> Coo:
        """The same elements by coordinates, in the same order."""
        if self._coo is None:
            counts = np.diff(self.crows._host().astype(np.int64, copy=False).reshape(-1, self.dims[-2] + 1)).reshape(-1)
            rows = np.repeat(np.arange(counts.size), counts)
            keys = rows * self.dims[-1] + self.cols._host()
            ordered = not keys.size or bool((keys[1:] > keys[:-1]).all())
            self._coo = Coo(self.dims, keys=keys, coalesced=ordered, dtype=self.crows.dtype.np)
        return self._coo

    @classmethod
    def of(cls, coo: Coo) -> Csr:
        """The pattern of a matrix, or of a batch of them, whose elements are in order of their rows."""

        def find() -> Csr:
            rows, cols = np.divmod(coo.keys, max(coo.dims[-1], 1))
            batch, n = math.prod(coo.dims[:-2]), coo.dims[-2]
            counts = np.bincount(rows, minlength=batch * n).reshape(batch, n)
            crows = np.zeros((batch, n + 1), np.int64)
            np.cumsum(counts, axis=1, out=crows[:, 1:])
            return cls(coo.dims, owned(crows.reshape(-1).astype(coo.dtype)), owned(cols.astype(coo.dtype)), coo)

        return coo.known("csr", find)
