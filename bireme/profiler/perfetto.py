"""Perfetto's trace format, a protobuf: the few messages that slices and a counter need, written and read here.

Field numbers are those of perfetto/trace/trace_packet.proto and track_event.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

PACKET, TIME, SEQUENCE, EVENT, DESCRIPTOR = 1, 8, 10, 11, 60
TYPE, TRACK, CATEGORY, NAME, VALUE, ANNOTATION = 9, 11, 22, 23, 30, 4
UUID, TRACK_NAME, COUNTER = 1, 2, 8
NOTE_NAME, NOTE_VALUE = 10, 6
BEGIN, END, COUNT = 1, 2, 4
_MEMORY = 1  # the track of the counter


class Slice(NamedTuple):
    """An event with a length."""

    track: str
    start: int
    end: int
    name: str
    category: str
    args: dict[str, str]


class Sample(NamedTuple):
    """The bytes in use at a time."""

    time: int
    value: int


def _varint(n: int) -> bytes:
    out = bytearray()
    n &= (1 << 64) - 1  # a negative time is before the recording began
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _integer(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n)


def _bytes(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _packet(*parts: bytes) -> bytes:
    return _bytes(PACKET, b"".join([*parts, _integer(SEQUENCE, 1)]))


def encoded(items: Sequence[Slice | Sample]) -> bytes:
    """The file: a descriptor for each track, then begins and ends in the order of time, the outer ones first."""
    tracks = {name: i for i, name in enumerate(dict.fromkeys(s.track for s in items if isinstance(s, Slice)), 2)}
    out = [_packet(_bytes(DESCRIPTOR, _integer(UUID, i) + _bytes(TRACK_NAME, name))) for name, i in tracks.items()]
    out.append(
        _packet(_bytes(DESCRIPTOR, _integer(UUID, _MEMORY) + _bytes(TRACK_NAME, "memory") + _bytes(COUNTER, b"")))
    )
    marks: list[tuple[tuple[int, int, int], bytes]] = []
    for item in items:
        if isinstance(item, Sample):
            body = _integer(TYPE, COUNT) + _integer(TRACK, _MEMORY) + _integer(VALUE, item.value)
            marks.append(((item.time, 1, 0), _packet(_integer(TIME, item.time), _bytes(EVENT, body))))
            continue
        track, length = _integer(TRACK, tracks[item.track]), item.end - item.start
        notes = b"".join(
            _bytes(ANNOTATION, _bytes(NOTE_NAME, key) + _bytes(NOTE_VALUE, value)) for key, value in item.args.items()
        )
        body = _integer(TYPE, BEGIN) + track + _bytes(CATEGORY, item.category) + _bytes(NAME, item.name) + notes
        # at one time ends come before begins, but not the end of what began then
        marks.append(((item.start, 2, -length), _packet(_integer(TIME, item.start), _bytes(EVENT, body))))
        end = _packet(_integer(TIME, item.end), _bytes(EVENT, _integer(TYPE, END) + track))
        marks.append(((item.end, 0 if length else 3, length), end))
    marks.sort(key=lambda mark: mark[0])
    return b"".join([*out, *[data for _, data in marks]])


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0

    def varint() -> int:
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            if byte < 128:
                return n - (1 << 64) if n >> 63 else n
            shift += 7
            if shift > 63:
                raise ValueError("a number that does not end")

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            n = varint()
            if not 0 <= n <= len(data) - at:
                raise ValueError("a part that is longer than the file")
            yield key >> 3, data[at : at + n]
            at += n
        else:
            raise ValueError(f"a field of kind {key & 7}")


def _texts(data: bytes) -> dict[int, bytes]:
    return {field: value for field, value in _fields(data) if isinstance(value, bytes)}


def decoded(data: bytes) -> list[Slice | Sample]:
    """What `encoded` wrote."""
    tracks: dict[int, str] = {}
    open_slices: dict[int, list[tuple[int, str, str, dict[str, str]]]] = {}
    found: list[Slice | Sample] = []
    for field, packet in _fields(data):
        if field != PACKET or not isinstance(packet, bytes):
            raise ValueError("no packet of a trace")
        parts = dict(_fields(packet))
        described, event, time = parts.get(DESCRIPTOR), parts.get(EVENT), parts.get(TIME, 0)
        if isinstance(described, bytes):
            own = dict(_fields(described))
            tracks[own[UUID]] = own[TRACK_NAME].decode()  # type: ignore[union-attr,index]  # a number and a text, as `encoded` writes them
        if isinstance(event, bytes) and isinstance(time, int):
            _event(event, time, tracks, open_slices, found)
    if not tracks:
        raise ValueError("no tracks")
    return found


def _event(event: bytes, time: int, tracks: dict, open_slices: dict, found: list[Slice | Sample]) -> None:
    items = list(_fields(event))
    own = dict(items)
    track = own[TRACK]
    if own[TYPE] == COUNT:
        found.append(Sample(time, own[VALUE]))  # type: ignore[arg-type]  # a number, as `encoded` writes it
    elif own[TYPE] == BEGIN:
        notes = [_texts(value) for field, value in items if field == ANNOTATION and isinstance(value, bytes)]
        args = {note[NOTE_NAME].decode(): note[NOTE_VALUE].decode() for note in notes}
        texts = _texts(event)
        open_slices.setdefault(track, []).append((time, texts[NAME].decode(), texts[CATEGORY].decode(), args))
    else:
        start, name, category, args = open_slices[track].pop()
        found.append(Slice(tracks[track], start, time, name, category, args))
