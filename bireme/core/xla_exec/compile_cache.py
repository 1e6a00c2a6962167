"""The compile cache on disk: private to the user, bounded, and ours alone.

jax's own setting for a cache is process-wide, so it is switched on while we compile and back afterwards.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import filelock
import jax
from jax.experimental.compilation_cache import compilation_cache

from bireme.core.base import errors, flags
from bireme.core.xla_exec import private

T = TypeVar("T")


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


TRACED = "traced"  # the folder in it that belongs to `traced`
_told: set[Path] = set()


@contextlib.contextmanager
def opened(whole: bool = True) -> Iterator[Path | None]:
    """The folder, by a path that stays with it, or None; if `whole`, everything in it is looked at first."""
    path = directory()
    fd = None if path is None or path in _given_up else _trusted(path, whole)
    if path is None or fd is None:
        yield None
        return
    try:
        root = private.by_path(fd, path)
        yield root if os.access(root, os.R_OK | os.W_OK | os.X_OK) else None  # jax writes to look something up, too
    finally:
        os.close(fd)


def _trusted(path: Path, whole: bool) -> int | None:
    """The folder as a file descriptor; None, and a warning, where somebody else may have written what is in it."""
    fd = None
    try:
        fd = private.open_folder(path)
        if whole:
            private.check_contents(fd, TRACED)
    except OSError as e:
        if fd is not None:
            os.close(fd)
        if isinstance(e, private.Untrusted) and path not in _told:
            _told.add(path)
            hint = "remove it, or let BIREME_CACHE_DIR name another folder"
            errors.warn(f"the compile cache {path} is not used: {e}; {hint}", RuntimeWarning)
        return None
    return fd


MOST, FEWER = 1000, 750  # programs: jax looks at each file of the folder whenever it adds one, 50 us each
_trimmed: set[str] = set()


def _trim(path: Path) -> None:
    """Once in a process: of too many programs the ones used last stay, in the way that jax itself drops them, under its
    lock.
    """
    real = os.path.realpath(path)
    if real in _trimmed:
        return
    _trimmed.add(real)
    try:
        used = [(entry.stat().st_mtime_ns, entry.path) for entry in os.scandir(path) if entry.name.endswith("-atime")]
        if len(used) <= MOST:
            return
        with filelock.FileLock(path / ".lockfile", timeout=1):
            for _, name in sorted(used)[:-FEWER]:
                for old in (name.removesuffix("-atime") + "-cache", name):
                    Path(old).unlink(missing_ok=True)
    except (OSError, filelock.Timeout):
        return  # another process is at it, or took one away: there is a next time


def _halves(path: Path) -> list[Path]:
    names = set(os.listdir(path))
    pairs = {
        name.removesuffix("-cache").removesuffix("-atime") for name in names if name.endswith(("-cache", "-atime"))
    }
    return [
        path / half
        for pair in pairs
        for half in (f"{pair}-cache", f"{pair}-atime")
        if not {f"{pair}-cache", f"{pair}-atime"} <= names
    ]


def _mend(path: Path) -> None:
    """Drop what a process that was killed, or found the disk full, has written by half: jax stops at it whenever it
    adds a program.
    """
    try:
        if _halves(path):
            with filelock.FileLock(path / ".lockfile", timeout=1):
                for half in _halves(path):
                    half.unlink(missing_ok=True)
    except (OSError, filelock.Timeout):
        return  # as above


def _drop_used_since(path: Path, began: int) -> None:
    """Drop programs that were read or written since then, and with them the one that failed: jax would keep it forever."""
    try:
        with filelock.FileLock(path / ".lockfile", timeout=1):
            for entry in os.scandir(path):
                if entry.name.endswith("-atime") and entry.stat().st_mtime_ns >= began - 10**9:  # clocks are coarse
                    Path(entry.path).unlink(missing_ok=True)
    except (OSError, filelock.Timeout):
        return
    _mend(path)


SETTINGS = {
    "jax_compilation_cache_dir": None,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_enable_compilation_cache": True,
    "jax_compilation_cache_max_size": 0,
    # what XLA would keep beside them is part of a program's key, by its path, and nobody looks whose files those are
    "jax_persistent_cache_enable_xla_caches": "none",
    "jax_compilation_cache_include_metadata_in_key": False,
    "jax_raise_persistent_cache_errors": True,  # else it warns, at a line of its own, and keeps what it cannot read
}
_zstd = [
    sys.modules[name].ZstdError for name in ("compression.zstd", "zstandard") if name in sys.modules
]  # jax took the first it found
_FAILURES = (OSError, RuntimeError, ValueError, zlib.error, *_zstd)
_given_up: set[Path] = set()


def _wanted() -> bool:
    return flags.compile_cache.value and flags.compile_cache_bytes.value > 0


def at_hand() -> bool:
    """Whether there is a folder that programs may be kept in."""
    if not _wanted():
        return False
    with opened() as root:
        return root is not None


def on_disk(compiled: Callable[[], T]) -> T:
    """The result of a compile with our cache; whatever the process had set for jax is back afterwards.

    A folder that fails (a full disk, a damaged file, a lock that is never let go) is left alone for the rest of the
    process.
    """
    if not _wanted():
        return compiled()
    with opened() as root:
        if root is None:
            return compiled()
        began, path = time.time_ns(), Path(os.path.realpath(root))
        _mend(root)
        _trim(root)
        with contextlib.suppress(*_FAILURES):
            return _switch.within(root, compiled)
        _given_up.add(path)  # first, so that nobody comes to it any more
        try:
            done = _switch.within(None, compiled)  # raises again unless it was the folder
        except BaseException:
            _given_up.discard(path)
            raise
        _drop_used_since(root, began)
        return done


class _Switch:
    """jax's settings while programs of ours are compiled: the first who comes sets them, the last puts them back.

    Those who want the same settings compile side by side; who wants others waits until nobody is inside.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: set[object] = set()
        self._wanted: Any = None
        self._ours: dict[str, Any] = {}
        self._before: dict[str, Any] = {}
        self._fd: int | None = None

    def within(self, root: Path | None, compiled: Callable[[], T]) -> T:
        """A compile with the programs of this folder, or without any of ours."""
        me = object()
        try:
            self._enter(me, root)
            return compiled()
        finally:
            self._leave(me)

    def _enter(self, me: object, root: Path | None) -> None:
        size, folder = flags.compile_cache_bytes.value, None if root is None else os.stat(root)
        wanted = None if folder is None else (folder.st_dev, folder.st_ino, size)  # each comes by a path of its own
        with self._changed:
            self._changed.wait_for(lambda: not self._inside or self._wanted == wanted)
            if not self._inside and root is not None:
                self._fd = os.open(root, os.O_RDONLY)  # it stays open for the last one, when the first has gone
                path = private.by_path(self._fd, root)
                self._ours = SETTINGS | {"jax_compilation_cache_dir": str(path), "jax_compilation_cache_max_size": size}
                self._before = {name: getattr(jax.config, name) for name in SETTINGS}
                _apply(self._ours)
            self._wanted = wanted
            self._inside.add(me)

    def _leave(self, me: object) -> None:
        with self._changed:
            self._inside.discard(me)
            if not self._inside:
                try:
                    self._put_back()
                except BaseException:  # Ctrl-C in the middle of it
                    self._put_back()
                    raise
                finally:
                    self._changed.notify_all()

    def _put_back(self) -> None:
        if self._before:
            # what somebody has set meanwhile is his
            _apply({name: was for name, was in self._before.items() if getattr(jax.config, name) == self._ours[name]})
            self._before = {}
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _apply(settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


_switch = _Switch()
