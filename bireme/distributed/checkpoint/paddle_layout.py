"""Folders that Paddle's own save_state_dict has written: pickles of which only data is read, no code is run.

``0.metadata`` says which pieces of which tensors lie in which of the files ``0_0.distcp``, ``1_0.distcp`` and so on,
which are pickled dicts of arrays, or safetensors.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any

import ml_dtypes
import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.distributed.checkpoint.array_files import ArrayFile, Arrays
from bireme.distributed.checkpoint.index import Piece, Saved, Version, checked_piece
from bireme.files import opcodes as op
from bireme.files import safetensors
from bireme.files.allowed_globals import WORDS, Array, Word, is_shape, what
from bireme.files.source import MappedSource, Source, size_of
from bireme.files.store import is_safetensors, telling
from bireme.files.unpickler import Unpickler

_METADATA = re.compile(r"(\d+)\.metadata")
_DTYPES = {dtype.name: dtype for dtype in (*safetensors.DTYPES, np.dtype(np.complex128))}
_LIMIT = 1 << 62


def versions(path: str) -> dict[int, str]:
    """The metadata files of a folder by their number."""
    names = os.listdir(path) if os.path.isdir(path) else []
    found = {match: name for name in sorted(names) if (match := _METADATA.fullmatch(name))}
    return {int(match[1]): os.path.join(path, name) for match, name in found.items()}


def opened(where: str, path: str, version: int | None) -> Version:
    """A version of a folder, the last one unless a number is given."""
    found = versions(path)
    version = max(found) if version is None else version
    if version not in found:
        expected = f"a folder with version {version}"
        described = f"{path}, which has versions {sorted(found)}"
        raise errors.bad(f"{where}(path)", expected, described=described, kind=FileNotFoundError)

    def open_file(name: str) -> Arrays:
        full = os.path.join(path, name)
        with telling(where, full), open(full, "rb") as file:
            plain = is_safetensors(file.read(9), size_of(file))
        return ArrayFile(where, full) if plain else _PickledFile(where, full)

    try:
        with telling(where, found[version]), open(found[version], "rb") as file:
            tensors = _tensors(_Records(Source(file, size_of(file))).run())
    except FileFormatError as e:
        described = f"{found[version]}: {e}"
        raise errors.bad(
            f"{where}(path)", "metadata as Paddle writes it", described=described, kind=FileFormatError
        ) from None
    return Version(where, found[version], tensors, {}, open_file)


class _PickledFile:
    """A pickled dict of arrays, which are mapped."""

    def __init__(self, where: str, path: str):
        with telling(where, path), open(path, "rb", buffering=0) as file:
            found = Unpickler(MappedSource(file, size_of(file), path)).run()
        if type(found) is not dict:
            raise FileFormatError(f"{what(found)} in {path} where a dict of arrays is to be")
        self._arrays = {key: x for key, x in found.items() if type(x) is Array}

    def close(self) -> None:
        self._arrays = {}

    def _array(self, key: str) -> np.ndarray:
        if key not in self._arrays:
            raise FileFormatError(f"no array {key[:100]!r}")
        host = self._arrays[key].value()
        # NumPy has no bfloat16: Paddle's arrays carry its bits
        plain = host.dtype == np.uint16 and self._arrays[key].tag is None
        return host.view(ml_dtypes.bfloat16) if plain else host

    def told(self, key: str) -> tuple[np.dtype, int]:
        host = self._array(key)
        return host.dtype, host.size

    def read(self, key: str, at: int, shape: tuple[int, ...], there: tuple[slice, ...], out: np.ndarray) -> None:
        block = self._array(key).reshape(-1)[at : at + math.prod(shape)].reshape(shape)
        out[...] = block[there]


class _Record:
    """An object of one of the classes that metadata consist of: its fields."""

    __slots__ = ("name", "fields")

    def __init__(self, name: str):
        self.name, self.fields = name, dict[Any, Any]()


class _Records(Unpickler):
    """Unpickles metadata: their three classes are dicts of fields."""

    words = WORDS | {
        (f"paddle.distributed.{module}.metadata", name): Word(name)
        for module in ("flex_checkpoint.dcp", "checkpoint")
        for name in ("Metadata", "LocalTensorMetadata", "LocalTensorIndex")
    }

    def _new(self) -> None:
        word, args = self._pop_two()
        if type(word) is not Word or not word.name[:1].isupper() or args != ():
            raise FileFormatError(f"an object of {what(word)}")
        self.grown(_Record(word.name))

    def _build(self) -> None:
        if len(self.stack) > 1 and type(self.stack[-2]) is _Record:
            state = self.stack.pop()
            if type(state) is not dict or self.stack[-1].fields:
                raise FileFormatError(f"{what(state)} as the fields of a {self.stack[-1].name}")
            self.stack[-1].fields = state
        else:
            super()._build()

    def key_for(self, target: Any, key: Any) -> Any:
        # records are told apart by which object they are, so that no file can choose where they collide
        return key if type(key) is _Record else super().key_for(target, key)


_Records.table = Unpickler.table | {op.NEWOBJ: _Records._new, op.BUILD: _Records._build}


def _tensors(found: Any) -> dict[str, Saved]:
    """The tensors that metadata tell of."""
    fields = _fields(found, "Metadata")
    told, stored = fields.get("state_dict_metadata"), fields.get("storage_metadata")
    if type(told) is not dict or type(stored) is not dict:
        raise FileFormatError("metadata without tensors or files")
    files: dict[tuple[str, Any, Any], str] = {}
    for index, file in stored.items():
        where = _fields(index, "LocalTensorIndex")
        key = where.get("tensor_key")
        if type(key) is not str or type(file) is not str:
            raise FileFormatError("a piece without a name or a file")
        files[key, _ints(key, where.get("global_offset")), _range(key, where)] = file
    tensors = {}
    for name, local in told.items():
        if type(name) is not str or type(local) is not list or not local:
            raise FileFormatError("a tensor without a name or pieces")
        tensors[name] = _saved(name, [_fields(x, "LocalTensorMetadata") for x in local], files)
    return tensors


def _saved(name: str, local: list[dict], files: dict[tuple[str, Any, Any], str]) -> Saved:
    shown = repr(name[:100])
    dtypes = {str(x.get("dtype")) for x in local}
    dtype = _DTYPES.get(min(dtypes)) if len(dtypes) == 1 else None
    if dtype is None:
        raise FileFormatError(f"{shown} of unknown dtype {', '.join(sorted(dtypes))[:40]!r}")
    blocks = {}
    for x in local:
        offset, size, flat = _ints(name, x.get("global_offset")), _ints(name, x.get("local_shape")), _range(name, x)
        if (name, offset, flat) not in files:
            raise FileFormatError(f"a piece of {shown} at {list(offset)} that no file has")
        blocks[offset, flat] = Piece(files[name, offset, flat], name, offset, size, flat)
    shapes = {_ints(name, x["global_shape"]) for x in local if x.get("global_shape") is not None}
    if not shapes:  # older versions leave it out
        ends = [[a + n for a, n in zip(p.offset, p.shape)] for p in blocks.values()]
        shapes = {tuple(map(max, zip(*ends)))}
    shape = min(shapes)
    if len(shapes) > 1 or math.prod(n for n in shape if n) * dtype.itemsize >= _LIMIT:
        raise FileFormatError(f"{shown} of shapes {[list(s) for s in shapes][:4]}")
    return Saved(dtype, shape, [checked_piece(name, shape, piece) for piece in blocks.values()])


def _fields(x: Any, name: str) -> dict[str, Any]:
    if type(x) is not _Record or x.name != name:
        raise FileFormatError(f"{what(x)} where a {name} is to be")
    return x.fields


def _ints(name: str, x: Any) -> tuple[int, ...]:
    if not is_shape(x):
        raise FileFormatError(f"an invalid shape or offset of {name[:100]!r}")
    return tuple(x)


def _range(name: str, fields: dict[str, Any]) -> tuple[int, int] | None:
    """Which of the flattened numbers a piece has."""
    if not fields.get("is_flattened") or fields.get("flattened_range") is None:
        return None
    found = _ints(name, fields["flattened_range"])
    if len(found) != 2:
        raise FileFormatError(f"a range of {name[:100]!r} without a start and an end")
    return found[0], found[1]
