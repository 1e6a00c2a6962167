"""The compile cache on disk: files under the names of programs, private to the user, whole or not there, and bounded.

What is in them, and what their names are made of, is the business of `program_files` and `program_names`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bireme.core.base import errors, flags
from bireme.core.xla_exec import private

HEAD = b"a program compiled by bireme, 1\n"
MOST = 4000  # files: each of them is looked at once in a process
FEWER = 0.75  # of what is allowed stays where there was too much


def directory() -> Path | None:
    """Where programs are kept: a folder of the user's own in BIREME_CACHE_DIR, else the user's cache folder.

    Without links and `..`, so that one folder has one path. None where there is no home.
    """
    named = os.environ.get("BIREME_CACHE_DIR")
    base = os.path.expanduser(named or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "bireme"))
    if Path(base).parts[:1] == ("~",):  # as of a user that only has a number
        return None
    path = Path(os.path.realpath(base))
    return path / f"bireme-{os.geteuid()}" if named else path  # one that is named may be for many users


_told: set[Path] = set()
_looked: set[tuple[int, int]] = (
    set()
)  # folders all of whose files were looked at: since then only the user wrote to them


@contextlib.contextmanager
def opened() -> Iterator[Path | None]:
    """The folder, by a path that stays with it, or None; once in a process everything in it is looked at first."""
    path = directory() if flags.compile_cache.value and flags.compile_cache_bytes.value > 0 else None
    fd = None if path is None else _trusted(path)
    if path is None or fd is None:
        yield None
        return
    try:
        root = private.by_path(fd, path)
        yield root if os.access(root, os.R_OK | os.W_OK | os.X_OK) else None
    finally:
        os.close(fd)


def _trusted(path: Path) -> int | None:
    """The folder as a file descriptor; None, and a warning, where somebody else may have written what is in it."""
    fd = None
    try:
        fd = private.open_folder(path)
        info = os.fstat(fd)
        if (info.st_dev, info.st_ino) not in _looked:
            private.check_contents(fd)
            _looked.add((info.st_dev, info.st_ino))
    except OSError as e:
        if fd is not None:
            os.close(fd)
        if isinstance(e, private.Untrusted) and path not in _told:
            _told.add(path)
            hint = "remove it, or let BIREME_CACHE_DIR name another folder"
            errors.warn(f"the compile cache {path} is not used: {e}; {hint}", RuntimeWarning)
        return None
    return fd


def at_hand() -> bool:
    """Whether there is a folder that programs may be kept in."""
    with opened() as root:
        return root is not None


def is_empty() -> bool:
    """Whether nothing is kept."""
    with opened() as root, contextlib.suppress(OSError):
        if root is not None:
            with os.scandir(root) as files:
                return not any(files)
    return True


def read(name: str) -> bytes | None:
    """What was written under a name; None where there is nothing, or it is damaged or of another name."""
    try:
        with opened() as root:
            if root is None:
                return None
            path = root / name
            found = private.read(path)
            head, digest, payload = found[: len(HEAD)], found[len(HEAD) :][:32], found[len(HEAD) + 32 :]
            whole = head == HEAD and _digest(name, payload) == digest
            with contextlib.suppress(OSError):
                if whole:
                    os.utime(path)  # used last are kept longest
                else:
                    path.unlink(missing_ok=True)  # it is made anew
            return payload if whole else None
    except OSError:
        return None


def has(name: str) -> bool:
    """Whether there is a file of this name, whole or not."""
    with opened() as root:
        return root is not None and (root / name).is_file()


def write(name: str, payload: bytes) -> None:
    """Keep something under a name; a full disk is no reason to stop."""
    part = None
    with opened() as root:
        if root is None or len(payload) > flags.compile_cache_bytes.value * FEWER:
            return
        try:
            _make_room(root, len(payload))
            with tempfile.NamedTemporaryFile(dir=root, delete=False) as file:
                part = Path(file.name)
                file.write(HEAD + _digest(name, payload) + payload)
            part.replace(root / name)
        except OSError:
            with contextlib.suppress(OSError):
                if part is not None:
                    part.unlink(missing_ok=True)


def drop(name: str) -> None:
    """Take away what cannot be used."""
    with opened() as root, contextlib.suppress(OSError):
        if root is not None:
            (root / name).unlink(missing_ok=True)


def _digest(name: str, payload: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + payload).digest()


_held: dict[str, list[int]] = {}  # by folder: files and bytes, as far as this process knows


def _make_room(root: Path, more: int) -> None:
    """Drop what was used longest ago, where there are too many files or they are too large."""
    known = _held.get(os.path.realpath(root))
    most = flags.compile_cache_bytes.value
    if known is not None and known[0] < MOST and known[1] + more <= most:
        known[:] = known[0] + 1, known[1] + more
        return
    files = [(info.st_mtime_ns, info.st_size, entry.path) for entry in os.scandir(root) for info in (entry.stat(),)]
    if len(files) >= MOST or sum([size for _, size, _ in files]) + more > most:
        left, room = int(MOST * FEWER), int(most * FEWER) - more
        kept = []
        for file in sorted(files, reverse=True):
            left, room = left - 1, room - file[1]
            if left > 0 and room > 0:
                kept.append(file)
            else:
                Path(file[2]).unlink(missing_ok=True)
        files = kept
    _held[os.path.realpath(root)] = [len(files) + 1, sum([size for _, size, _ in files]) + more]
