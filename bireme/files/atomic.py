"""Files that appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # in place of a module


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
        _finish(opened)
        for (_, part), target in zip(opened, targets, strict=True):
            if part is not None:
                os.replace(part, target)
    for folder in {os.path.dirname(target) for target in targets}:
        sync_folder(folder)


@contextlib.contextmanager
def replacing_pair(path: str, head: str, mark: str) -> Iterator[list[BinaryIO]]:
    """Open new files that replace ``path`` and ``head``, which tells which ``path`` belongs to it, by ``mark``.

    A reader finds a whole pair at any time, though the process be killed: the new file waits under ``waiting(path, mark)``
    until ``head`` is the new one, and is looked for there by who reads ``head`` in between.
    """
    target, told = os.path.realpath(path), os.path.realpath(head)
    folders = {os.path.dirname(target), os.path.dirname(told)}
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(_part_of(each)) for each in (target, told)]
        yield [file for file, _ in opened]
        _finish(opened)
        (_, part), (_, part_of_head) = opened
        alone = stack.enter_context(_alone_in(os.path.dirname(told)))  # two writers would leave parts of two pairs
        held = target if part is None else waiting(path, mark)
        try:
            if part is not None:
                os.replace(part, held)
            for folder in folders:
                sync_folder(folder)
            if part_of_head is not None:
                os.replace(part_of_head, told)
        except OSError:
            if part is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(held)
            raise
        for folder in folders:
            sync_folder(folder)
        if held != target:
            os.replace(held, target)
        if alone:
            _tidy(target)


def waiting(path: str, mark: str) -> str:
    """Where a file that belongs to a mark waits to replace ``path``."""
    stem, end = os.path.splitext(os.path.realpath(path))
    return f"{stem}.{mark[:MARK]}{end}"


MARK = 16  # characters of a mark that are part of a name


def _tidy(target: str) -> None:
    """Remove what killed processes have left waiting."""
    stem, end = os.path.splitext(os.path.basename(target))
    left_behind = re.compile(rf"{re.escape(stem)}\.[0-9a-f]{{{MARK}}}{re.escape(end)}")
    folder = os.path.dirname(target)
    for name in os.listdir(folder):
        if left_behind.fullmatch(name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


@contextlib.contextmanager
def _alone_in(folder: str) -> Iterator[bool]:
    """Wait until no other writer of pairs is at work in a folder; False where that cannot be known."""
    if fcntl is None:
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # some file systems have no locks
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _finish(opened: list[tuple[BinaryIO, str | None]]) -> None:
    """Have all that was written on the disk."""
    for file, part in opened:
        file.flush()
        if part is not None:
            os.fsync(file.fileno())
        file.close()


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
