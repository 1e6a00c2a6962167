"""The file format: safetensors, written whole or not at all, read only after every size in it was checked.

The layout is small enough to own: 8 bytes of length, a JSON header, the arrays. The safetensors library hands out no
float8 arrays, maps the file into memory (a file that shrinks then kills the process), and cannot write to an open file.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

MAX_HEADER = 100_000_000
MAX_AXES = 64

_TYPES: dict[str, Any] = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
    "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32,
    "F64": np.float64,
}  # fmt: skip
_CODES = {np.dtype(t): code for code, t in _TYPES.items()}
_PAIRS = {np.dtype(np.complex64): np.float32, np.dtype(np.complex128): np.float64}


class BadFile(ValueError):
    """The file is damaged, hostile, or not one of ours."""


def storable(array: np.ndarray) -> bool:
    """Whether an array's type can be written."""
    return np.dtype(array.dtype.newbyteorder("=")) in _CODES or array.dtype in _PAIRS


def plain(array: np.ndarray) -> np.ndarray:
    """The array as it is stored: contiguous, little-endian, complex numbers as pairs along a last axis."""
    array = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    if array.dtype in _PAIRS:
        return array.view(np.dtype(_PAIRS[array.dtype])).reshape(*array.shape, 2) if array.ndim else _pair(array)
    return array


def _pair(array: np.ndarray) -> np.ndarray:
    return np.array([array.real, array.imag], dtype=_PAIRS[array.dtype])


def joined(array: np.ndarray, dtype: Any) -> np.ndarray:
    """Pairs along the last axis as complex numbers."""
    if array.ndim == 0 or array.shape[-1] != 2 or array.dtype != _PAIRS[np.dtype(dtype)]:
        raise BadFile(f"complex numbers stored as {array.dtype} of shape {list(array.shape)}")
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape[:-1])


# ---------------------------------------------------------------- writing


def write(file: BinaryIO, arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Write arrays that `plain` made."""
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        header[name] = {"dtype": _CODES[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of 8
    if len(text) > MAX_HEADER:
        raise ValueError(f"save(obj): expected a structure of at most {MAX_HEADER} bytes of text, got {len(text)}")
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for array in arrays.values():
        if array.nbytes:
            file.write(memoryview(array.reshape(-1).view(np.uint8)))


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends well: a reader sees the old one or the new one."""
    target = os.path.realpath(path)
    part = f"{target}.{secrets.token_hex(8)}.part"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    _sync_folder(os.path.dirname(target))


def _sync_folder(folder: str) -> None:
    # the new name itself must reach the disk; some systems cannot open a folder, and there is nothing to do there
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ---------------------------------------------------------------- reading


class Reader:
    """An open file whose header has been checked; arrays are read one by one, when asked for."""

    def __init__(self, file: BinaryIO, size: int):
        self._file = file
        head = file.read(8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > min(MAX_HEADER, size - 8):
            raise BadFile("not a file of bireme.save")
        entries = _parse(file.read(length))
        metadata = entries.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            raise BadFile("metadata that is not text")
        self.metadata: dict[str, str] = metadata
        self._start = 8 + length
        self._entries = {name: _entry(name, given) for name, given in entries.items()}
        _check_extents(self._entries, size - self._start)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def read(self, name: str) -> np.ndarray:
        """One array, in memory of its own."""
        dtype, shape, start, _ = self._entries[name]
        # bytes of a bool other than 0 and 1 would be neither true nor false to NumPy
        array = np.empty(shape, np.uint8 if dtype == np.bool_ else dtype)
        if array.nbytes:
            self._file.seek(self._start + start)
            into = memoryview(array.reshape(-1).view(np.uint8))
            done = 0
            while done < len(into):
                got = self._file.readinto(into[done:])
                if not got:
                    raise BadFile(f"it ends inside {name}")
                done += got
        return array != 0 if dtype == np.bool_ else array


def _parse(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_distinct)
    except BadFile:
        raise
    except (ValueError, RecursionError) as e:
        raise BadFile("not a file of bireme.save") from e
    if not isinstance(found, dict):
        raise BadFile("not a file of bireme.save")
    return found


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadFile("a header that names something twice")
    return found


def _entry(name: str, given: Any) -> tuple[np.dtype, tuple[int, ...], int, int]:
    if not isinstance(given, dict) or set(given) != {"dtype", "shape", "data_offsets"}:
        raise BadFile(f"an incomplete entry for {name}")
    code, shape, extent = given["dtype"], given["shape"], given["data_offsets"]
    if not isinstance(code, str) or code not in _TYPES:
        raise BadFile(f"{name} of unknown type {code!r}")
    if not _sizes(shape) or len(shape) > MAX_AXES or not _sizes(extent) or len(extent) != 2:
        raise BadFile(f"sizes of {name} that are not sizes")
    dtype = np.dtype(_TYPES[code])
    if extent[1] - extent[0] != math.prod(shape) * dtype.itemsize:
        raise BadFile(f"{name} of shape {shape} in {extent[1] - extent[0]} bytes")
    return dtype, tuple(shape), extent[0], extent[1]


def _sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 2**62 for n in values)


def _check_extents(entries: dict[str, tuple], size: int) -> None:
    """The arrays fill the rest of the file without holes: nothing is hidden, nothing is read twice or past the end."""
    end = 0
    for _, _, start, stop in sorted(entries.values(), key=lambda e: e[2:]):
        if start != end:
            raise BadFile("arrays that overlap or leave holes")
        end = stop
    if end != size:
        raise BadFile(f"{size} bytes of arrays where its header says {end}")


def regular_size(file: BinaryIO) -> int:
    """Size of an open file; pipes and devices, which have none, are refused."""
    info = os.fstat(file.fileno())
    if not stat.S_ISREG(info.st_mode):
        raise BadFile("not a regular file")
    return info.st_size
