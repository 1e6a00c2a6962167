"""MmapStorage: tensors out of a file that is mapped, not read."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops import to_tensor


class MmapStorage:
    """A memory-mapped file whose parts can be read as tensors.

    Args:
        filename: Path of the file.
        nbytes: Number of bytes to map, from the start of the file.

    Examples:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     bireme.arange(4, dtype="float32").numpy().tofile(file.name)
        ...     bireme.MmapStorage(file.name, 16).get_slice("float32", 1, 3).tolist()
        [1.0, 2.0]
    """

    def __init__(self, filename: str | os.PathLike, nbytes: int) -> None:
        if not isinstance(filename, (str, os.PathLike)):
            raise errors.bad("MmapStorage(filename)", "the name of a file", filename, kind=errors.ArgumentTypeError)
        if isinstance(nbytes, bool) or not isinstance(nbytes, int) or nbytes < 0:
            raise errors.bad("MmapStorage(nbytes)", "a non-negative integer", nbytes, kind=errors.for_number(nbytes))
        try:
            length = os.path.getsize(filename)
        except OSError as e:
            raise errors.bad(
                "MmapStorage(filename)", "a file that can be read", described=str(e), kind=FileNotFoundError
            ) from None
        if nbytes > length:
            raise errors.bad("MmapStorage(nbytes)", f"at most the {length} bytes of the file", nbytes)
        self._bytes = np.memmap(filename, np.uint8, "r", shape=(nbytes,)) if nbytes else np.zeros(0, np.uint8)

    def get_slice(self, dtype: Any = "uint8", start: int = 0, stop: int = -1, step: int = 1) -> Tensor:
        """Read a slice of the elements as a 1-D tensor.

        Args:
            dtype: Dtype that the bytes are read as. Default: ``"uint8"``.
            start: Index of the first element. Default: 0.
            stop: Index one past the last element; -1 means the end. Default: -1.
            step: Step between elements, at least 1. Default: 1.

        Returns:
            A 1-D tensor.
        """
        kind = dtypes.of(dtype, "get_slice(dtype)")
        for name, n in (("start", start), ("stop", stop), ("step", step)):
            if isinstance(n, bool) or not isinstance(n, int):
                raise errors.bad(f"get_slice({name})", "an integer", n, kind=errors.ArgumentTypeError)
        count = len(self._bytes) // kind.itemsize
        stop = count if stop == -1 else stop
        if not 0 <= start <= count:
            raise errors.bad("get_slice(start)", f"an index in [0, {count}]", start, kind=errors.OutOfRangeError)
        if not start <= stop <= count:
            raise errors.bad("get_slice(stop)", f"an index in [{start}, {count}]", stop, kind=errors.OutOfRangeError)
        if step < 1:
            raise errors.bad("get_slice(step)", "a positive step", step)
        return to_tensor(self._bytes[: count * kind.itemsize].view(kind.np)[start:stop:step], dtype=kind)
