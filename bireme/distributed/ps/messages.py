"""Messages between workers and servers: a head in JSON, and arrays behind it. Nothing in them is run."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from bireme.core.base import errors

MAGIC = b"BPS1"
DTYPES = {"uint64", "int64", "float32", "float64", "uint8"}
MOST_TEXT = 1 << 24  # bytes of the head
MOST_ARRAYS = 1 << 12
LARGEST = 1 << 28  # bytes of a message; what is longer is sent in parts
Message = tuple[dict[str, Any], list[np.ndarray]]


def encode(head: dict[str, Any], arrays: list[np.ndarray] | tuple = ()) -> bytes:
    """A message as bytes."""
    text = json.dumps([head, [[a.dtype.name, list(a.shape)] for a in arrays]]).encode()
    pieces = [np.ascontiguousarray(a).reshape(-1).view(np.uint8).data for a in arrays]
    return b"".join([MAGIC, len(text).to_bytes(4, "little"), text, *pieces])


def decode(data: bytes) -> Message:
    """The message of bytes that `encode` made; its arrays are views of them. Other bytes are an error."""
    size = int.from_bytes(data[4:8], "little")
    if data[:4] != MAGIC or size > min(len(data) - 8, MOST_TEXT):
        raise _malformed("no head")
    try:
        head, kinds = json.loads(data[8 : 8 + size])
        if not isinstance(head, dict) or len(kinds) > MOST_ARRAYS:
            raise _malformed("an unknown head")
        arrays, at = [], 8 + size
        for name, shape in kinds:
            if name not in DTYPES or len(shape) > 8 or not all(type(n) is int and n >= 0 for n in shape):
                raise _malformed("an array of an unknown kind")
            count, dtype = math.prod(shape), np.dtype(name)
            if at + count * dtype.itemsize > len(data):
                raise _malformed(f"{len(data) - at} bytes for an array of {count * dtype.itemsize}")
            arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape))
            at += count * dtype.itemsize
    except (ValueError, TypeError, RecursionError) as e:
        if isinstance(e, errors.FileFormatError):
            raise
        raise _malformed("an unknown head") from None
    if at != len(data):
        raise _malformed(f"{len(data) - at} bytes too many")
    return head, arrays


def _malformed(what: str) -> Exception:
    return errors.failure(
        f"expected a message of a parameter server, got {what}", kind=errors.FileFormatError, pos=None
    )
