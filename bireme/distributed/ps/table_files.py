"""Tables in files: one file for each server, complete or not there, with a checksum over all of it."""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from bireme.core.base import errors

MAGIC = b"BIREMEPS1\n"
NAME = re.compile(r"tables-(\d{5})-of-(\d{5})-(\d{20})\.bin")
DTYPES = {"uint64", "float32"}
CHUNK = 1 << 22  # bytes
MOST_TEXT = 1 << 26  # of the head
Part = tuple[dict[str, Any], list[np.ndarray]]  # the description of a section, and its arrays


def file_name(index: int, count: int, stamp: int) -> str:
    return f"tables-{index:05d}-of-{count:05d}-{stamp:020d}.bin"


def write(folder: str, index: int, count: int, stamp: int, parts: Iterable[Part]) -> str:
    """Write a file under another name first: it has its own when all of it is on disk."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, file_name(index, count, stamp))
    listed = list(parts)
    head = json.dumps([{**told, "arrays": [[a.dtype.name, list(a.shape)] for a in arrays]} for told, arrays in listed])
    text = head.encode()
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            sum_ = _put(file, 0, MAGIC + len(text).to_bytes(8, "little") + text)
            for _, arrays in listed:
                for array in arrays:
                    rows = max(CHUNK // max(array[:1].nbytes, 1), 1)
                    for start in range(0, len(array), rows):
                        sum_ = _put(file, sum_, np.ascontiguousarray(array[start : start + rows]).data.cast("B"))
            file.write(sum_.to_bytes(4, "little"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    _sync_folder(folder)
    return path


def _put(file: BinaryIO, sum_: int, data: Any) -> int:
    file.write(data)
    return zlib.crc32(data, sum_)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(path: str) -> Iterator[Part]:
    """The sections of a file. All of it is checked before the first."""
    end = os.path.getsize(path)
    with open(path, "rb") as file:
        sections, start = _head(path, file, end)
        _check_sum(path, file, end)
        file.seek(start)
        for section in sections:
            arrays = []
            for name, shape in section["arrays"]:
                arrays.append(np.fromfile(file, name, math.prod(shape)).reshape(shape))
            yield {k: v for k, v in section.items() if k != "arrays"}, arrays


def _head(path: str, file: BinaryIO, end: int) -> tuple[list[dict[str, Any]], int]:
    if file.read(len(MAGIC)) != MAGIC:
        raise _damaged(path, "it does not begin as one")
    size = int.from_bytes(file.read(8), "little")
    start = len(MAGIC) + 8 + size
    if size > min(MOST_TEXT, end):
        raise _damaged(path, f"its head of {size} bytes is longer than the file")
    try:
        sections = json.loads(file.read(size))
        sizes = [_size(name, shape) for section in sections for name, shape in section["arrays"]]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise _damaged(path, "its head says nothing that is known") from None
    if start + sum(sizes) + 4 != end:
        raise _damaged(path, f"it should have {start + sum(sizes) + 4} bytes and has {end}")
    return sections, start


def _size(name: Any, shape: Any) -> int:
    if name not in DTYPES or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 8:
        raise ValueError
    return np.dtype(name).itemsize * math.prod(shape)


def _check_sum(path: str, file: BinaryIO, end: int) -> None:
    file.seek(0)
    left, sum_ = end - 4, 0
    while left:
        data = file.read(min(left, CHUNK))
        sum_, left = zlib.crc32(data, sum_), left - len(data)
    if file.read(4) != sum_.to_bytes(4, "little"):
        raise _damaged(path, "its checksum is another")


def _damaged(path: str, why: str) -> Exception:
    return errors.failure(f"load({path}): expected a whole file of tables: {why}", kind=errors.FileFormatError)


def stamps(folder: str) -> dict[int, list[str]]:
    """The files of each save that is complete, those of the first server first; the newest save first."""
    found: dict[tuple[int, int], dict[int, str]] = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        match = NAME.fullmatch(name)
        if match:
            index, count, stamp = map(int, match.groups())
            found.setdefault((stamp, count), {})[index] = os.path.join(folder, name)
    whole = {stamp: files for (stamp, count), files in found.items() if set(files) == set(range(count))}
    return {stamp: [whole[stamp][i] for i in sorted(whole[stamp])] for stamp in sorted(whole, reverse=True)}


def clean(folder: str, index: int, count: int, stamp: int) -> None:
    """Remove a server's files of earlier saves, and what was left half written."""
    for name in os.listdir(folder):
        match = NAME.match(name)
        # files of another number of servers belong to the first
        if match and (int(match[1]) == index or (index == 0 and int(match[2]) != count)) and int(match[3]) < stamp:
            os.remove(os.path.join(folder, name))
