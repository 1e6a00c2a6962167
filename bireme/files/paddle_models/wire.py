"""Protocol buffers' wire format: the fields of a message, each length checked against the bytes that are there."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from bireme.core.base.errors import FileFormatError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """The unsigned number that begins at a place, and the place after it."""
    n = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        n |= (byte & 127) << shift
        if byte < 128:
            return n & _MASK, at
        shift += 7
        if shift > 63:
            break
    raise FileFormatError(f"an invalid number at byte {at}")


_MASK = (1 << 64) - 1


def fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Each field of the message between two places: number, wire type, and value and 0, or the extent of its bytes."""
    at = start
    while at < end:
        tag, at = varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise FileFormatError(f"a field without a number at byte {at}")
        if kind == VARINT:
            value, at = varint(data, at, end)
            yield number, kind, value, 0
            continue
        if kind == BYTES:
            size, at = varint(data, at, end)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise FileFormatError(f"a field of unknown wire type {kind} at byte {at}")
        if size > end - at:
            raise FileFormatError(f"it is truncated: {size} bytes are expected at byte {at}, and {end - at} are left")
        yield number, kind, at, at + size
        at += size


def expect(kind: int, wanted: int, at: int) -> None:
    """Raise unless a field has the wire type that it should have."""
    if kind != wanted:
        raise FileFormatError(f"a field of wire type {kind} where {wanted} is expected at byte {at}")


def text(data: memoryview, start: int, end: int) -> str:
    """A field of text."""
    try:
        return str(data[start:end], "utf-8")
    except UnicodeDecodeError:
        raise FileFormatError(f"text that is not UTF-8 at byte {start}") from None


def signed(n: int) -> int:
    """An int32 or int64, whose negative numbers are written as their 64-bit complement."""
    return n - (1 << 64) if n >> 63 else n


def numbers(data: memoryview, kind: int, a: int, b: int) -> list[int]:
    """Integers of one occurrence of a repeated field: one of them, or packed ones."""
    if kind == VARINT:
        return [signed(a)]
    expect(kind, BYTES, a)
    found = []
    while a < b:
        n, a = varint(data, a, b)
        found.append(signed(n))
    return found


def floats(data: memoryview, kind: int, a: int, b: int, wide: bool = False) -> list[float]:
    """Floating-point numbers of one occurrence of a repeated field: one of them, or packed ones."""
    size = 8 if wide else 4
    if kind != BYTES:
        expect(kind, FIXED64 if wide else FIXED32, a)
    if (b - a) % size:
        raise FileFormatError(f"numbers of {size} bytes in {b - a} bytes at byte {a}")
    return list(struct.unpack(f"<{(b - a) // size}{'d' if wide else 'f'}", data[a:b]))
