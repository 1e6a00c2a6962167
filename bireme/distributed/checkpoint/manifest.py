"""The folder of a checkpoint: one folder for each version, in it files of arrays, and a manifest that was written last.

A version is written under another name, and renamed when all of it is on the disk. So a version that is there is whole,
whoever was killed when.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import zlib
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.distributed.checkpoint import array_files
from bireme.distributed.checkpoint.index import Piece, Saved, Version, checked_piece
from bireme.files import safetensors
from bireme.files.atomic import sync_folder
from bireme.files.store import telling

MANIFEST = "manifest.json"
FORMAT = "bireme checkpoint 1"
UNCHANGED = "what was saved before is unchanged"
_PART = re.compile(r"\.(\d+)\.\w+\.part")
_OLD = re.compile(r"\.(\d+)\.old")
_HEAD = re.compile(r'\{"crc32": "([0-9a-f]{8})", ')
_DTYPES = {dtype.name: dtype for dtype in safetensors.DTYPES}
_LIMIT = 1 << 62


def versions(path: str) -> dict[int, str]:
    """The folders of all versions; one that was being replaced when its process was killed is there under another name."""
    found: dict[int, str] = {}
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            old = _OLD.fullmatch(name)
            if (name.isdecimal() or old) and os.path.exists(os.path.join(path, name, MANIFEST)):
                number = int(old[1] if old else name)
                if name.isdecimal() or number not in found:
                    found[number] = os.path.join(path, name)
    return found


# ------------------------------------------------------------ writing


def part_folder(path: str, version: int, token: str) -> str:
    """Where a version is written before it is whole."""
    return os.path.join(path, f".{version}.{token}.part")


def tidy(path: str, running: set[str]) -> None:
    """Remove what saves that never came to an end have left, apart from those that still run."""
    for name in os.listdir(path):
        found = os.path.join(path, name)
        if _PART.fullmatch(name) and found not in running:
            shutil.rmtree(found, ignore_errors=True)
        old = _OLD.fullmatch(name)
        if old and os.path.exists(os.path.join(path, old[1], MANIFEST)):
            shutil.rmtree(found, ignore_errors=True)


def publish(path: str, folder: str, version: int, manifest: dict[str, Any]) -> None:
    """Write the manifest, and give the folder its name."""
    target = os.path.join(path, str(version))
    body = json.dumps({"format": FORMAT, **manifest})[1:]
    with telling("save_state_dict", target, UNCHANGED):
        with open(os.path.join(folder, MANIFEST), "w") as file:
            file.write(f'{{"crc32": "{zlib.crc32(body.encode()):08x}", {body}')
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)
        old = os.path.join(path, f".{version}.old")
        if os.path.exists(target):
            shutil.rmtree(old, ignore_errors=True)
            os.rename(target, old)
        os.rename(folder, target)
        sync_folder(path)
        shutil.rmtree(old, ignore_errors=True)


def prune(path: str, keep: int | None, damaged: frozenset[int] = frozenset()) -> list[int]:
    """Remove damaged versions, and of the others all but the newest; the numbers of those that are gone."""
    found = versions(path)
    whole = sorted(number for number in found if number not in damaged)
    gone = [*sorted(damaged & found.keys()), *([] if keep is None else whole[:-keep])]
    for number in gone:
        # a version without its manifest is none: it is never seen half removed
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(found[number], MANIFEST))
        shutil.rmtree(found[number], ignore_errors=True)
    return gone


# ------------------------------------------------------------ reading


def opened(where: str, path: str, version: int | None) -> Version:
    """A version of a folder, the last one unless a number is given."""
    found = versions(path)
    if version is None and found:
        version = max(found)
    if version not in found:
        expected = "a folder that save_state_dict has written"
        expected += f", with version {version}" if version is not None and found else ""
        described = f"{path}, which has versions {sorted(found)}" if found else path
        raise errors.bad(f"{where}(path)", expected, described=described, kind=FileNotFoundError)
    folder = found[version]

    def open_file(name: str) -> array_files.Arrays:
        full = os.path.join(folder, name)
        with telling(where, full), open(full.removesuffix(array_files.ENDING) + array_files.SUMS, "rb") as file:
            sums = file.read()
        return array_files.ArrayFile(where, full, sums)

    try:
        with telling(where, folder), open(os.path.join(folder, MANIFEST), "rb") as file:
            tensors, values = _parsed(file.read())
    except FileFormatError as e:
        expected = f"a manifest of {FORMAT!r}"
        raise errors.bad(f"{where}(path)", expected, described=f"{folder}: {e}", kind=FileFormatError) from None
    return Version(where, folder, tensors, values, open_file)


def _parsed(data: bytes) -> tuple[dict[str, Saved], dict[str, Any]]:
    """Tensors and values of a manifest. Nothing in it is believed before it was looked at."""
    try:
        text = data.decode()
        head = _HEAD.match(text)
        if head is None:
            raise FileFormatError("something else")
        if int(head[1], 16) != zlib.crc32(text[head.end() :].encode()):
            raise FileFormatError("a checksum that does not match")
        found = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise e if isinstance(e, FileFormatError) else FileFormatError("something that is not JSON") from None
    if found.get("format") != FORMAT:
        raise FileFormatError(f"format {str(found.get('format'))[:40]!r}")
    tensors, values = found.get("tensors"), found.get("values")
    if not isinstance(tensors, dict) or not isinstance(values, dict):
        raise FileFormatError("one without tensors or values")
    return {name: parsed_tensor(name, told) for name, told in tensors.items()}, values


def parsed_tensor(name: str, told: Any) -> Saved:
    """A tensor of a manifest."""
    shown = repr(name[:100])
    if not isinstance(told, dict) or set(told) != {"dtype", "shape", "pieces"} or not isinstance(told["pieces"], list):
        raise FileFormatError(f"an incomplete entry for {shown}")
    dtype = _DTYPES.get(told["dtype"]) if isinstance(told["dtype"], str) else None
    if dtype is None:
        raise FileFormatError(f"{shown} of unknown dtype {str(told['dtype'])[:40]!r}")
    shape = _ints(name, told["shape"])
    if math.prod(n for n in shape if n) * dtype.itemsize >= _LIMIT:
        raise FileFormatError(f"{shown} of shape {list(shape)}")
    return Saved(dtype, shape, [_piece(name, shape, piece) for piece in told["pieces"]])


def _piece(name: str, shape: tuple[int, ...], told: Any) -> Piece:
    if not isinstance(told, dict) or set(told) != {"file", "key", "offset", "shape", "flat"}:
        raise FileFormatError(f"an incomplete piece of {name[:100]!r}")
    if not isinstance(told["file"], str) or not isinstance(told["key"], str):
        raise FileFormatError(f"a piece of {name[:100]!r} without a file or a key")
    flat = None
    if told["flat"] is not None:
        start, stop = _ints(name, told["flat"], 2)
        flat = start, stop
    found = Piece(told["file"], told["key"], _ints(name, told["offset"]), _ints(name, told["shape"]), flat)
    checked_piece(name, shape, found)
    if not found.file.endswith(array_files.ENDING):
        raise FileFormatError(f"{name[:100]!r} in a file of another format, {found.file[:200]!r}")
    return found


def _ints(name: str, values: Any, count: int | None = None) -> tuple[int, ...]:
    if (
        not isinstance(values, list)
        or len(values) > safetensors.MAX_AXES
        or not all(type(n) is int and 0 <= n < _LIMIT for n in values)
        or (count is not None and len(values) != count)
    ):
        raise FileFormatError(f"an invalid shape or offset of {name[:100]!r}")
    return tuple(values)


def dtype_of(where: str, name: str, dtype: np.dtype) -> np.dtype:
    """A dtype, if files can have it."""
    if dtype.name not in _DTYPES:
        supported = "dtypes that safetensors has"
        raise errors.bad(f"{where}(state_dict)[{name}]", supported, described=dtype.name, kind=errors.DtypeError)
    return dtype
