"""Folders and files that nobody but the user can have written: programs on disk are machine code.

Who makes such folders, and what is kept in them, is the business of `cache` and `traced`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path


class Untrusted(OSError):
    """A folder or file that another user may have written."""


def open_folder(path: Path) -> int:
    """A descriptor of the folder, which is made with mode 0700 if there is none; the mode of an existing one stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if path.is_symlink():
        raise Untrusted("it is a symbolic link")
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        info = os.fstat(fd)
        _check("it", info)
        if info.st_mode & 0o077:
            raise Untrusted(f"it has mode {stat.S_IMODE(info.st_mode):o}, not 700")
    except BaseException:
        os.close(fd)
        raise
    return fd


def by_path(fd: int, path: Path) -> Path:
    """A path that leads to an open folder even if others rename what is above it; its own where there is none."""
    through = Path(f"/proc/self/fd/{fd}")
    return through if through.is_dir() else path


def check_contents(fd: int, *below: str) -> None:
    """Raise if something in an open folder is not the user's own; of folders in it only those named are looked into.

    The folder is closed to others now, so what is found stays true; but it may have been open once. Then a file of the
    user's own may have got the name of another, so a single foreign one is a reason to leave all of them.
    """
    usual = None
    with os.scandir(fd) as entries:
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # another process has dropped it just now
                continue
            inside = stat.S_ISDIR(info.st_mode)
            if inside and entry.name not in below:
                continue  # nobody reads what is in it
            _check(entry.name, info)
            if info.st_mode & 0o022:
                usual = _usual(fd) if usual is None else usual
                _check_writable(entry.name, info, usual)
            if inside:
                within = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                try:
                    check_contents(within)
                finally:
                    os.close(within)


def read(path: Path) -> bytes:
    """The contents of a file of the user's own: what is looked at is what is read, whatever has its name."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        info = os.fstat(fd)
        _check(path.name, info)
        _check_writable(path.name, info, 0)
        return file.read()


def _check(name: str, info: os.stat_result) -> None:
    if info.st_uid != os.geteuid():
        raise Untrusted(f"{name} belongs to user {info.st_uid}")
    if not stat.S_ISDIR(info.st_mode) and (not stat.S_ISREG(info.st_mode) or info.st_nlink > 1):
        raise Untrusted(f"{name} is a link or no plain file")


def _check_writable(name: str, info: os.stat_result, usual: int) -> None:
    if info.st_mode & 0o022 & ~usual:
        raise Untrusted(f"{name} has mode {stat.S_IMODE(info.st_mode):o}: others may write to it")


def _usual(fd: int) -> int:
    """The mode of a file that this process makes: with a umask of 002 a group may write to what jax makes."""
    name = f".usual-{os.getpid()}-{threading.get_ident()}"
    made = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666, dir_fd=fd)
    try:
        return os.fstat(made).st_mode
    finally:
        os.close(made)
        os.unlink(name, dir_fd=fd)
