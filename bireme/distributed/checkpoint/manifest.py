"""The folder of a checkpoint: one folder for each version, in it files of arrays, and a manifest that was written last.

A version is written under another name, and renamed when all of it is on the disk. So a version that is there is whole,
whoever was killed when.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.files import safetensors
from bireme.files.atomic import sync_folder
from bireme.files.source import Source, size_of
from bireme.files.store import telling

MANIFEST = "manifest.json"
FORMAT = "bireme checkpoint 1"
_PART = re.compile(r"\.(\d+)\.\w+\.part")
_OLD = re.compile(r"\.(\d+)\.old")


def versions(path: str) -> dict[int, str]:
    """The folders of all versions; one that was being replaced when its process was killed is there under another name."""
    found: dict[int, str] = {}
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            old = _OLD.fullmatch(name)
            if (name.isdigit() or old) and os.path.exists(os.path.join(path, name, MANIFEST)):
                number = int(old[1] if old else name)
                if name.isdigit() or number not in found:
                    found[number] = os.path.join(path, name)
    return found


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


def write_arrays(folder: str, name: str, arrays: dict[str, np.ndarray]) -> None:
    """Write a file of arrays, and wait until it is on the disk."""
    path = os.path.join(folder, name)
    with telling("save_state_dict", path, "what was saved before is unchanged"), open(path, "wb") as file:
        safetensors.write(file, arrays, None)
        file.flush()
        os.fsync(file.fileno())


def publish(path: str, folder: str, version: int, manifest: dict[str, Any]) -> None:
    """Write the manifest, and give the folder its name."""
    target = os.path.join(path, str(version))
    with telling("save_state_dict", target, "what was saved before is unchanged"):
        with open(os.path.join(folder, MANIFEST), "w") as file:
            json.dump({"format": FORMAT, **manifest}, file)
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


class Version:
    """A version that is read: the logical tensors in it, each by its pieces."""

    def __init__(self, where: str, path: str, version: int | None):
        found = versions(path)
        if version is None and found:
            version = max(found)
        if version not in found:
            expected = "a folder that save_state_dict has written"
            expected += f", with version {version}" if version is not None and found else ""
            described = f"{path}, which has versions {sorted(found)}" if found else path
            raise errors.bad(f"{where}(path)", expected, described=described, kind=FileNotFoundError)
        self.folder = found[version]
        with telling(where, self.folder), open(os.path.join(self.folder, MANIFEST)) as file:
            manifest = _parsed(file.read(), self.folder)
        self.tensors: dict[str, dict[str, Any]] = manifest["tensors"]
        self.values: dict[str, Any] = manifest["values"]
        self._files: dict[str, dict[str, np.ndarray]] = {}

    def _stored(self, piece: dict[str, Any]) -> np.ndarray:
        name = piece["file"]
        if name not in self._files:
            path = os.path.join(self.folder, os.path.basename(name))
            with telling("load_state_dict", path), open(path, "rb") as file:
                self._files[name] = safetensors.Reader(Source(file, size_of(file))).mapped(path)
        return self._files[name][piece["key"]]

    def block(self, where: str, key: str, offset: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
        """A block of a logical tensor, of whatever pieces it was saved in."""
        told = self.tensors[key]
        pieces = told["pieces"]
        for piece in pieces:  # as it was saved: no copy
            same = tuple(piece["offset"]) == offset and tuple(piece["shape"]) == shape
            if same and piece["flat"] is None:
                return self._stored(piece)
        found: np.ndarray | None = None
        have = np.zeros(shape, bool)
        for piece in pieces:
            here, there = _common(offset, shape, piece["offset"], piece["shape"])
            if here is None:
                continue
            data, known = self._stored(piece), None
            if piece["flat"] is not None:
                data, known = _unfolded(data, piece["flat"], piece["shape"])
            found = np.zeros(shape, data.dtype) if found is None else found
            if known is None:
                found[here], have[here] = data[there], True
            else:
                found[here] = np.where(known[there], data[there], found[here])
                have[here] |= known[there]
        if found is None or not have.all():
            expected = f"all pieces of {key} of shape {told['shape']}"
            raise errors.bad(f"{where}(path)", expected, described="only some", kind=FileFormatError)
        return found


def _parsed(text: str, folder: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
        if found["format"] == FORMAT and isinstance(found["tensors"], dict) and isinstance(found["values"], dict):
            return found
    except (ValueError, TypeError, KeyError):
        pass
    raise errors.bad("load_state_dict(path)", f"a manifest of {FORMAT!r}", described=folder, kind=FileFormatError)


def _common(offset: Any, shape: Any, other: Any, other_shape: Any) -> tuple[Any, Any]:
    """Where two blocks overlap, as indices into each; None where they do not."""
    here, there = [], []
    for a, n, b, m in zip(offset, shape, other, other_shape):
        start, stop = max(a, b), min(a + n, b + m)
        if start >= stop and n and m:
            return None, None
        here.append(slice(start - a, stop - a))
        there.append(slice(start - b, stop - b))
    return tuple(here), tuple(there)


def _unfolded(data: np.ndarray, flat: list[int], shape: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """A block of which some numbers are known, and which."""
    whole, known = np.zeros(math.prod(shape), data.dtype), np.zeros(math.prod(shape), bool)
    stop = min(flat[1], whole.size)
    whole[flat[0] : stop], known[flat[0] : stop] = data.reshape(-1)[: stop - flat[0]], True
    return whole.reshape(shape), known.reshape(shape)
