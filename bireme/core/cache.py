"""The compile cache on disk: private to the user, bounded, and ours alone.

jax's own setting for a cache is process-wide, so it is switched on around each of our compiles and back afterwards.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import jax
from jax.experimental.compilation_cache import compilation_cache

from bireme.core import flags

_lock = threading.Lock()


def directory() -> Path:
    """Where programs are kept: BIREME_CACHE_DIR, else the user's cache folder."""
    named = os.environ.get("BIREME_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "bireme"


def _private(path: Path) -> bool:
    """Make the folder with mode 0700; False where that cannot be had: a foreign program must never be loaded."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        info = path.stat()
        if info.st_uid != os.getuid():
            return False
        if info.st_mode & 0o077:
            path.chmod(0o700)
    except OSError:
        return False
    return True


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


_SETTINGS = {
    "jax_compilation_cache_dir": None,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_enable_compilation_cache": True,
    "jax_compilation_cache_max_size": 0,
}


def at_hand() -> bool:
    """Whether there is a folder that programs may be kept in."""
    return flags.compile_cache.value and _private(directory())


@contextmanager
def on_disk() -> Iterator[None]:
    """Compile with our cache; whatever the process had set for jax is back afterwards."""
    path = directory()
    if not at_hand():
        yield
        return
    with _lock:
        _trim(path)
        before = {name: getattr(jax.config, name) for name in _SETTINGS}
        ours = _SETTINGS | {"jax_compilation_cache_dir": str(path), "jax_compilation_cache_max_size": flags.compile_cache_bytes.value}
        try:
            _apply(ours)
            yield
        finally:
            _apply(before)


def _apply(settings: dict) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
