"""Paddle's binary format of one tensor: what `use_binary_format=True` writes, and files of inference parameters."""

from __future__ import annotations

import math
from typing import BinaryIO

import ml_dtypes
import numpy as np

from bireme.core.base.errors import FileFormatError
from bireme.files.pickler import write_all
from bireme.files.source import Source

MAX_AXES = 64
_LIMIT = 1 << 62
_TYPES = {
    0: np.bool_,
    1: np.int16,
    2: np.int32,
    3: np.int64,
    4: np.float16,
    5: np.float32,
    6: np.float64,
    20: np.uint8,
    21: np.int8,
    22: ml_dtypes.bfloat16,
    23: np.complex64,
    24: np.complex128,
    32: ml_dtypes.float8_e4m3fn,
    33: ml_dtypes.float8_e5m2,
}
_CODES = {np.dtype(t): code for code, t in _TYPES.items()}


def storable(dtype: np.dtype) -> bool:
    """Return whether Paddle's binary format has a code for the dtype."""
    return dtype in _CODES


def write(file: BinaryIO, array: np.ndarray) -> None:
    """Write one record: version, no levels, version, a description of dtype and shape, the data."""
    text = b"\x08" + _varint(_CODES[array.dtype]) + b"".join(b"\x10" + _varint(n) for n in array.shape)
    file.write(bytes(16) + len(text).to_bytes(4, "little") + text)
    if array.size:
        write_all(file, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def read(source: Source) -> np.ndarray:
    """Read one record."""
    if source.number(4) != 0:
        raise FileFormatError("a tensor of unknown version")
    levels = source.number(8)
    if levels > 8:
        raise FileFormatError(f"a tensor with {levels} LoD levels")
    for _ in range(levels):
        source.blob(source.number(8))
    if source.number(4) != 0:
        raise FileFormatError("a tensor of unknown version")
    length = source.number(4)
    if length > 4096:
        raise FileFormatError(f"a tensor description of {length} bytes")
    code, shape = _description(source.take(length))
    if code not in _TYPES:
        raise FileFormatError(f"a tensor of unknown dtype {code}")
    dtype = np.dtype(_TYPES[code])
    if (
        len(shape) > MAX_AXES
        or any(n >= _LIMIT for n in shape)
        or math.prod(n for n in shape if n) * dtype.itemsize >= _LIMIT
    ):
        raise FileFormatError("a tensor with an invalid shape")
    raw = source.blob(math.prod(shape) * dtype.itemsize)
    return (raw != 0).reshape(shape) if dtype == np.bool_ else raw.view(dtype).reshape(shape)


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _description(text: bytes) -> tuple[int, list[int]]:
    """Return dtype and shape: fields 1 and 2 of a small message, the second once per dimension or packed."""
    at, code, shape = 0, None, []

    def number() -> int:
        nonlocal at
        n = shift = 0
        while True:
            if at >= len(text) or shift > 63:
                raise FileFormatError("a tensor with an invalid description")
            byte = text[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    while at < len(text):
        field = number()
        if field == 0x08:
            code = number()
        elif field == 0x10:
            shape.append(number())
        elif field == 0x12:
            end = number() + at
            while at < end:
                shape.append(number())
        else:
            raise FileFormatError("a tensor with an invalid description")
    if code is None:
        raise FileFormatError("a tensor without a dtype")
    return code, shape
