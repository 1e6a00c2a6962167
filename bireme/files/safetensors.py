"""The safetensors format: a JSON header and arrays, read only after every size in it was checked.

The format is simple: 8 bytes of length, the header, the arrays. The safetensors library returns no float8 arrays, maps
every file into memory (a file that shrinks then kills the process), and cannot write to an open file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.core.tensor.tensor import Tensor
from bireme.files.pickler import host_of, write_all
from bireme.files.source import Source

MAX_HEADER = 100_000_000
MAX_AXES = 64

_TYPES: dict[str, Any] = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
    "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32,
    "F64": np.float64, "C64": np.complex64,
}  # fmt: skip
_CODES = {np.dtype(t): code for code, t in _TYPES.items()}
DTYPES = tuple(_CODES)


# ---------------------------------------------------------------- writing


class Deferred:
    """An array that is made when it is written."""

    def __init__(self, dtype: np.dtype, shape: tuple[int, ...], make: Callable[[], np.ndarray]):
        self.dtype, self.shape, self.make = dtype, shape, make


def write(file: BinaryIO, obj: Any, metadata: dict[str, str] | None) -> None:
    """Write a dict of tensors or arrays."""
    if not isinstance(obj, dict) or not all(isinstance(key, str) for key in obj):
        raise errors.bad(
            "save(obj)",
            "a dict of name to Tensor for a safetensors file",
            obj,
            hint="other data needs another ending",
            kind=errors.ArgumentTypeError,
        )
    given = {} if metadata is None else metadata
    if not isinstance(given, dict) or not all(isinstance(x, str) for pair in given.items() for x in pair):
        raise errors.bad("save(metadata)", "a dict of str to str", metadata, kind=errors.ArgumentTypeError)
    kinds = {name: _kind(name, x) for name, x in obj.items()}
    header: dict[str, Any] = {"__metadata__": dict(given)} if given else {}
    header |= dict.fromkeys(obj)
    end = 0
    # so each array begins at a multiple of its element's size
    order = sorted(obj, key=lambda name: -kinds[name].itemsize)
    for name in order:
        shape = list(obj[name].shape)
        start, end = end, end + math.prod(shape) * kinds[name].itemsize
        header[name] = {"dtype": _CODES[kinds[name]], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of 8
    if len(text) > MAX_HEADER:
        raise errors.bad("save(obj)", f"names of at most {MAX_HEADER} bytes, all together", len(text))
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for name in order:
        x = obj[name].make() if isinstance(obj[name], Deferred) else obj[name]
        array = host_of(x) if isinstance(x, Tensor) else np.asarray(x, kinds[name])
        if array.nbytes:
            write_all(file, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _kind(name: str, x: Any) -> np.dtype:
    if name == "__metadata__" or not isinstance(x, (Tensor, np.ndarray, Deferred)):
        raise errors.bad(
            "save(obj)",
            "a dict of name to Tensor for a safetensors file",
            described=f"{name!r}: {errors.show(x)}",
            kind=errors.ArgumentTypeError,
        )
    kind = x.dtype.np if isinstance(x, Tensor) else x.dtype.newbyteorder("=")
    if kind not in _CODES:
        raise errors.bad(
            "save(obj)",
            "dtypes that safetensors supports",
            described=f"{kind} for {name!r}",
            kind=errors.ArgumentTypeError,
        )
    return kind


# ---------------------------------------------------------------- reading


class Reader:
    """An open file whose header has been checked; arrays are read when asked for."""

    def __init__(self, source: Source):
        self._source = source
        if source.left < 8:
            raise FileFormatError("not a safetensors file: it is truncated")
        length = source.number(8)
        if length > min(MAX_HEADER, source.left):
            raise FileFormatError(f"not a safetensors file: its header would be {length} bytes long")
        entries = _parse(source.take(length))
        metadata = entries.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            raise FileFormatError("metadata that is not a dict of str to str")
        self.metadata: dict[str, str] = metadata
        self.start = source.place
        self.entries = {name: _entry(name, given) for name, given in entries.items()}
        _check_extents(self.entries, source.left)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays, each in memory of its own, in the order of the header."""
        found: dict[str, Any] = dict.fromkeys(self.entries)
        for name, (dtype, shape, start, stop) in sorted(self.entries.items(), key=lambda e: e[1][2:]):
            found[name] = _shaped(self._source.blob(stop - start), dtype, shape)
        return found

    def mapped(self, path: str) -> dict[str, np.ndarray]:
        """Return all arrays as parts of the file, read when they are used; what is written to them stays in memory."""
        size = max((stop for *_, stop in self.entries.values()), default=0)
        whole = np.memmap(path, np.uint8, "c", self.start, (size,)) if size else np.zeros(0, np.uint8)
        whole = np.asarray(whole)
        return {
            name: _shaped(whole[start:stop], dtype, shape) for name, (dtype, shape, start, stop) in self.entries.items()
        }


def _shaped(raw: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    # bytes of a bool other than 0 and 1 would be neither true nor false to NumPy
    return ((raw != 0) if dtype == np.bool_ else raw.view(dtype)).reshape(shape)


def _parse(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_distinct)
    except FileFormatError:
        raise
    except (ValueError, RecursionError):
        raise FileFormatError("not a safetensors file: its header is not JSON") from None
    if not isinstance(found, dict):
        raise FileFormatError("not a safetensors file: its header is not a JSON object")
    return found


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FileFormatError("a header with duplicate keys")
    return found


def _entry(name: str, given: Any) -> tuple[np.dtype, tuple[int, ...], int, int]:
    shown = repr(name[:100])  # as it is, it may hold what a terminal obeys
    if not isinstance(given, dict) or set(given) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"an incomplete entry for {shown}")
    code, shape, extent = given["dtype"], given["shape"], given["data_offsets"]
    if not isinstance(code, str) or code not in _TYPES:
        raise FileFormatError(f"{shown} of unknown dtype {str(code)[:40]!r}")
    if not _sizes(shape) or len(shape) > MAX_AXES or not _sizes(extent) or len(extent) != 2:
        raise FileFormatError(f"{shown} with an invalid shape or data_offsets")
    dtype = np.dtype(_TYPES[code])
    if (
        math.prod(n for n in shape if n) * dtype.itemsize >= 1 << 62
        or extent[1] - extent[0] != math.prod(shape) * dtype.itemsize
    ):
        raise FileFormatError(f"{shown} of shape {shape} in {extent[1] - extent[0]} bytes")
    return dtype, tuple(shape), extent[0], extent[1]


def _sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 2**62 for n in values)


def _check_extents(entries: dict[str, tuple], size: int) -> None:
    """Check that the arrays fill the rest of the file without gaps: nothing is read twice or past the end."""
    end = 0
    for _, _, start, stop in sorted(entries.values(), key=lambda e: e[2:]):
        if start != end:
            raise FileFormatError("data_offsets that overlap or leave gaps")
        end = stop
    if end != size:
        raise FileFormatError(f"{size} bytes of data where its header says {end}")
