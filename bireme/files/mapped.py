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
    """The first `nbytes` bytes of a file, of which `get_slice` makes tensors; only what is asked for is read.

    >>> bireme.arange(4, dtype="float32").numpy().tofile("/tmp/bireme_example.bin")
    >>> bireme.MmapStorage("/tmp/bireme_example.bin", 16).get_slice("float32", 1, 3).tolist()
    [1.0, 2.0]
    """

    def __init__(self, filename: str | os.PathLike, nbytes: int) -> None:
        if not isinstance(filename, (str, os.PathLike)):
            raise errors.bad("MmapStorage(filename)", "the name of a file", filename, kind=TypeError)
        if isinstance(nbytes, bool) or not isinstance(nbytes, int) or nbytes < 0:
            raise errors.bad("MmapStorage(nbytes)", "a number of bytes", nbytes)
        try:
            length = os.path.getsize(filename)
        except OSError as e:
            raise errors.bad("MmapStorage(filename)", "a file that can be read", str(e), kind=FileNotFoundError) from None
        if nbytes > length:
            raise errors.bad("MmapStorage(nbytes)", f"at most the {length} bytes of the file", nbytes)
        self._bytes = np.memmap(filename, np.uint8, "r", shape=(nbytes,)) if nbytes else np.zeros(0, np.uint8)

    def get_slice(self, dtype: Any = "uint8", start: int = 0, stop: int = -1, step: int = 1) -> Tensor:
        """Elements `start` to `stop` (-1: the last) of the bytes read as `dtype`, every `step`-th, as a 1-D tensor.

        >>> bireme.ones([3], dtype="int32").numpy().tofile("/tmp/bireme_example.bin")
        >>> bireme.MmapStorage("/tmp/bireme_example.bin", 12).get_slice("int32").tolist()
        [1, 1, 1]
        """
        kind = dtypes.of(dtype, "get_slice(dtype)")
        for name, n in (("start", start), ("stop", stop), ("step", step)):
            if isinstance(n, bool) or not isinstance(n, int):
                raise errors.bad(f"get_slice({name})", "an integer", n, kind=TypeError)
        count = len(self._bytes) // kind.itemsize
        stop = count if stop == -1 else stop
        if not 0 <= start <= count:
            raise errors.bad("get_slice(start)", f"an element among {count} of {kind.name}", start, kind=errors.OutOfRange)
        if not start <= stop <= count:
            raise errors.bad("get_slice(stop)", f"a place from {start} to {count}", stop, kind=errors.OutOfRange)
        if step < 1:
            raise errors.bad("get_slice(step)", "a positive step", step)
        return to_tensor(self._bytes[: count * kind.itemsize].view(kind.np)[start:stop:step], dtype=kind)
