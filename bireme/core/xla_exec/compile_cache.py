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
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import filelock
import jax
from jax.experimental.compilation_cache import compilation_cache

from bireme.core.base import flags

_lock = threading.Lock()
T = TypeVar("T")


def directory() -> Path:
    """Where programs are kept: BIREME_CACHE_DIR, else the user's cache folder."""
    named = os.environ.get("BIREME_CACHE_DIR")
    if named:
        return Path(os.path.expanduser(named))
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "bireme"


def _private(path: Path) -> bool:
    """Make the folder with mode 0700; False where that cannot be had: a foreign program must never be loaded."""
    if path.parts[:1] == ("~",):  # there is no home, as of a user that only has a number
        return False
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        info = path.stat()
        if info.st_uid != os.getuid():
            return False
        if info.st_mode & 0o077:
            path.chmod(0o700)
    except OSError:
        return False
    return os.access(path, os.R_OK | os.W_OK | os.X_OK)  # jax writes to look something up, too


MOST, FEWER = 1000, 750  # programs: jax looks at each file of the folder whenever it adds one, 50 us each
_trimmed: set[Path] = set()


def _trim(path: Path) -> None:
    """Once in a process: of too many programs the ones used last stay, in the way that jax itself drops them, under its lock."""
    if path in _trimmed:
        return
    _trimmed.add(path)
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


_SETTINGS = {
    "jax_compilation_cache_dir": None,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_enable_compilation_cache": True,
    "jax_compilation_cache_max_size": 0,
    "jax_raise_persistent_cache_errors": True,  # else it warns, at a line of its own, and keeps what it cannot read
}
_zstd = [sys.modules[name].ZstdError for name in ("compression.zstd", "zstandard") if name in sys.modules]  # jax took the first it found
_FAILURES = (OSError, RuntimeError, ValueError, zlib.error, *_zstd)
_given_up: set[Path] = set()


def at_hand() -> bool:
    """Whether there is a folder that programs may be kept in."""
    path = directory()
    return flags.compile_cache.value and flags.compile_cache_bytes.value > 0 and path not in _given_up and _private(path)


def on_disk(compiled: Callable[[], T]) -> T:
    """The result of a compile with our cache; whatever the process had set for jax is back afterwards.

    A folder that fails (a full disk, a damaged file, a lock that is never let go) is left alone for the rest of the process.
    """
    path, began = directory(), time.time_ns()
    if not at_hand():
        return compiled()
    with _lock:
        _mend(path)
        _trim(path)
        before = {name: getattr(jax.config, name) for name in _SETTINGS}
        ours = _SETTINGS | {"jax_compilation_cache_dir": str(path), "jax_compilation_cache_max_size": flags.compile_cache_bytes.value}
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
    _given_up.add(path)
    _drop_used_since(path, began)
    return done


def _apply(settings: dict) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
