"""The compile cache on disk: private to the user, bounded, and ours alone.

jax's own setting for a cache is process-wide, so it is switched on around each of our compiles and back afterwards.
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
from typing import TypeVar

import filelock
import jax
from jax.experimental.compilation_cache import compilation_cache

from bireme.core import errors, flags, private

_lock = threading.Lock()
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
    """Once in a process: of too many programs the ones used last stay, in the way that jax itself drops them, under its lock."""
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
    pairs = {name.removesuffix("-cache").removesuffix("-atime") for name in names if name.endswith(("-cache", "-atime"))}
    return [path / half for pair in pairs for half in (f"{pair}-cache", f"{pair}-atime") if not {f"{pair}-cache", f"{pair}-atime"} <= names]


def _mend(path: Path) -> None:
    """Drop what a process that was killed, or found the disk full, has written by half: jax stops at it whenever it adds a program."""
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
        for entry in os.scandir(path):
            if entry.name.endswith("-atime") and entry.stat().st_mtime_ns >= began - 10**9:  # clocks of file systems are coarse
                Path(entry.path).unlink(missing_ok=True)
    except OSError:
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
_zstd = [sys.modules[name].ZstdError for name in ("compression.zstd", "zstandard") if name in sys.modules]  # jax took the first it found
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

    A folder that fails (a full disk, a damaged file, a lock that is never let go) is left alone for the rest of the process.
    """
    if not _wanted():
        return compiled()
    with opened() as root:
        return compiled() if root is None else _compiled_in(root, compiled)


def _compiled_in(root: Path, compiled: Callable[[], T]) -> T:
    began = time.time_ns()
    with _lock:
        _mend(root)
        _trim(root)
        before = {name: getattr(jax.config, name) for name in SETTINGS}
        size = flags.compile_cache_bytes.value
        ours = SETTINGS | {"jax_compilation_cache_dir": str(root), "jax_compilation_cache_max_size": size}
        try:
            _apply(ours)
            with contextlib.suppress(*_FAILURES):
                return compiled()
        finally:
            try:
                _apply(before)
            except BaseException:  # Ctrl-C in the middle of it
                _apply(before)
                raise
    done = compiled()  # raises again unless it was the folder
    _given_up.add(Path(os.path.realpath(root)))
    _drop_used_since(root, began)
    return done


def _apply(settings: dict) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
