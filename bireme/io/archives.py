"""Files of datasets: where they are, and archives that are read without being trusted. Nothing is downloaded."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError

DATA_HOME = os.path.expanduser("~/.cache/bireme/dataset")
MAX_MEMBER = 1 << 28  # bytes of a file in an archive
MAX_MEMBERS = 1 << 20
MAX_KEPT = 1 << 32  # bytes of all files of a compressed archive that are kept
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, gzip.BadGzipFile, OSError)


def located(dataset: str, argument: str, path: Any, url: str, md5: str, folder: str) -> str:
    """Return the path of a file of a dataset: the one that is given, or the one in the cache."""
    where = f"{dataset}({argument})"
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise errors.bad(where, "a path", path, kind=errors.ArgumentTypeError)
    name = url.replace("%2F", "/").rpartition("/")[2]
    found = os.path.join(DATA_HOME, folder, name) if path is None else os.fspath(path)
    if not os.path.isfile(found):
        described = f"{found}, which is no file" if os.path.exists(found) else f"{found}, which does not exist"
        hint = f"download {url} (md5 {md5}) and pass its path as {argument}, since nothing is downloaded here"
        raise errors.bad(where, f"the file {name}", described=described, hint=hint, kind=errors.ArgumentError)
    return found


def mode_of(dataset: str, mode: Any, allowed: tuple[str, ...]) -> str:
    """Return the part of a dataset that is asked for, in lower case."""
    if not isinstance(mode, str) or mode.lower() not in allowed:
        raise errors.bad(f"{dataset}(mode)", " or ".join([", ".join(map(repr, allowed[:-1])), repr(allowed[-1])]), mode)
    return mode.lower()


class _Limited:
    """A file of which nobody reads much at once: what a header declares is not believed."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def read(self, n: int = -1) -> bytes:
        if not 0 <= n <= MAX_MEMBER:
            raise FileFormatError(f"a part of {n} bytes")
        return self._file.read(n)


class Archive:
    """A tar archive, compressed or not, of which single files are read by name; nothing is unpacked to disk.

    Links, devices and names that lead out of the archive are refused. What is compressed can only be read from the
    start to the end, so the files that `wanted` accepts are then kept in memory.
    """

    def __init__(self, where: str, path: str, wanted: Callable[[str], bool]):
        self._where, self._path = where, path
        self._places: dict[str, tuple[int, int]] = {}
        self._kept: dict[str, bytes] = {}
        self._local = threading.local()
        try:
            with open(path, "rb") as file:
                packed = file.read(2) == b"\x1f\x8b"
            opened: Any = gzip.open(path, "rb") if packed else open(path, "rb")  # noqa: SIM115 - closed below
            with opened, tarfile.open(fileobj=_Limited(opened), mode="r:") as tar:  # type: ignore[call-overload]  # anything with `read` will do
                self._index(tar, packed, wanted)
        except FileFormatError as e:
            raise self._refused(str(e)) from None
        except _DAMAGED as e:
            raise self._refused(f"it is damaged: {e}") from None

    def _index(self, tar: tarfile.TarFile, packed: bool, wanted: Callable[[str], bool]) -> None:
        kept = 0
        for count, member in enumerate(tar):
            if count >= MAX_MEMBERS:
                raise FileFormatError(f"more than {MAX_MEMBERS} files")
            name = member.name.removeprefix("./")
            if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
                raise FileFormatError(f"the name {member.name[:200]!r}, which leads out of it")
            if member.isdir():
                continue
            if not member.isreg():
                raise FileFormatError(f"{name[:200]!r}, which is neither a file nor a folder")
            if member.size > MAX_MEMBER:
                raise FileFormatError(f"{name[:200]!r} of {member.size} bytes")
            self._places[name] = member.offset_data, member.size
            if packed and wanted(name):
                data = tar.extractfile(member)
                found = b"" if data is None else data.read()
                if len(found) != member.size:
                    raise FileFormatError(f"it is truncated in {name[:200]!r}")
                self._kept[name] = found
                kept += len(found)
                if kept > MAX_KEPT:
                    raise FileFormatError(f"more than {MAX_KEPT} bytes of data")

    def _refused(self, what: str) -> Exception:
        return refused(self._where, self._path, what)

    def names(self) -> list[str]:
        """Return the names of the files, in their order."""
        return list(self._places)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        if name in self._kept:
            return self._kept[name]
        if name not in self._places:
            described = f"{self._path}, which has no {name[:200]!r}"
            raise errors.bad(self._where, f"an archive with {name[:200]!r}", described=described, kind=FileFormatError)
        start, size = self._places[name]
        file = self._file()
        file.seek(start)
        found = file.read(size)
        if len(found) != size:
            raise self._refused(f"it is truncated in {name[:200]!r}")
        return found

    def _file(self) -> BinaryIO:
        """The open archive: one for each thread and process, since they share no position."""
        if getattr(self._local, "process", None) != os.getpid():
            self._local.process, self._local.file = os.getpid(), open(self._path, "rb")  # noqa: SIM115 - kept open
        return self._local.file

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())


class ZipArchive:
    """A zip archive of which single files are read by name; nothing is unpacked to disk."""

    def __init__(self, where: str, path: str):
        self._where, self._path = where, path

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(name) as file:
                found = file.read(MAX_MEMBER + 1)  # what the header declares is not believed
        except KeyError:
            described = f"{self._path}, which has no {name!r}"
            raise errors.bad(
                self._where, f"an archive with {name!r}", described=described, kind=FileFormatError
            ) from None
        except (*_DAMAGED, RuntimeError, NotImplementedError) as e:  # encrypted, or packed in a way that is not known
            raise refused(self._where, self._path, f"it is damaged: {e}") from None
        if len(found) > MAX_MEMBER:
            raise refused(self._where, self._path, f"{name!r} of over {MAX_MEMBER} bytes")
        return found


def unpacked(where: str, path: str, data: bytes) -> bytes:
    """Return the content of a gzip file that an archive holds."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            found = file.read(MAX_MEMBER + 1)
    except _DAMAGED as e:
        raise refused(where, path, f"it is damaged: {e}") from None
    if len(found) > MAX_MEMBER:
        raise refused(where, path, f"a file of over {MAX_MEMBER} bytes")
    return found


def content(where: str, path: str) -> bytes:
    """Return the content of a plain file of a dataset."""
    with open(path, "rb") as file:
        found = file.read(MAX_MEMBER + 1)
    if len(found) > MAX_MEMBER:
        raise refused(where, path, f"over {MAX_MEMBER} bytes", "a file of a dataset")
    return found


def text_lines(where: str, path: str, data: bytes, encoding: str = "utf-8") -> list[str]:
    """Return the lines of a text, without the ends of lines and spaces around them."""
    try:
        return [line.strip() for line in data.decode(encoding).removesuffix("\n").split("\n")] if data else []
    except UnicodeDecodeError as e:
        raise refused(where, path, f"it is no text: {e}", "a file of text") from None


def refused(where: str, path: str, what: str, expected: str = "an archive of plain files") -> Exception:
    """Return the error for a file that is damaged or not what it should be."""
    return errors.bad(where, expected, described=f"{path}: {what}", kind=FileFormatError)
