"""Files that appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Open a new file that replaces ``path`` when the block ends without an error.

    A reader sees the old file or the new one. Links are followed, and the new file has the permissions of the old. A
    pipe or a device is written to, not replaced.
    """
    with replacing_all(path) as (file,):
        yield file


@contextlib.contextmanager
def replacing_all(*paths: str) -> Iterator[list[BinaryIO]]:
    """Open new files that replace several when the block ends without an error: all of them, once all are on the disk."""
    targets = [os.path.realpath(path) for path in paths]
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(_part_of(target)) for target in targets]
        yield [file for file, _ in opened]
        for file, part in opened:
            file.flush()
            if part is not None:
                os.fsync(file.fileno())
            file.close()
        for (_, part), target in zip(opened, targets, strict=True):
            if part is not None:
                os.replace(part, target)
    for folder in {os.path.dirname(target) for target in targets}:
        sync_folder(folder)


@contextlib.contextmanager
def _part_of(target: str) -> Iterator[tuple[BinaryIO, str | None]]:
    """A file beside another one, and its path, which is gone afterwards; or the other one itself, and None."""
    old = _info(target)
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(target, "wb") as file:
            yield file, None
        return
    # a name that is new each time: two writers of the same file do not meet in it
    folder, name = os.path.split(target)
    stem = name if len(os.fsencode(name)) <= 200 else "saved"  # names end at 255 bytes
    part = os.path.join(folder, f"{stem}.{secrets.token_hex(8)}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if old is not None:
                _like(handle, old)
            yield file, part
    finally:  # after Ctrl-C too nothing half written stays behind; what replaced its target is gone already
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


def _info(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _like(handle: int, old: os.stat_result) -> None:
    # only root may change the owner; the mode is set last, since changing the owner clears setuid bits
    if (os.fstat(handle).st_uid, os.fstat(handle).st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, stat.S_IMODE(old.st_mode))


def sync_folder(folder: str) -> None:
    """Write the directory to disk: a file whose name is lost is lost."""
    # some systems cannot open a directory, and need no sync there
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
