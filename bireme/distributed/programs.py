"""Programs that the user names, as processes: workers and servers of a job, commands that read data, Hadoop's client."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from typing import IO, Any

from bireme.core.base import errors


def start(command: Sequence[str], environment: dict[str, str], log: Any) -> subprocess.Popen:
    """Start a program with more environment, and all that it prints in a file."""
    return subprocess.Popen(
        list(command),
        env={**os.environ, **environment},
        stdout=log,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )


def end(process: subprocess.Popen, patience: float) -> None:
    """End a program: asked first, then made to."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    if process.poll() is None:
        process.kill()
        process.wait()


def output(where: str, command: Sequence[str], seconds: float) -> tuple[int, str]:
    """Run a program: its exit code, and what it printed."""
    try:
        done = subprocess.run(
            list(command), capture_output=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise errors.failure(f"{where}: expected the program {command[0]}, which is not there", kind=OSError) from None
    except subprocess.TimeoutExpired:
        raise errors.failure(
            f"{where}: expected {command[0]} to end within {seconds:g} s, got nothing", kind=TimeoutError
        ) from None
    return done.returncode, done.stdout.decode(errors="replace")


@contextlib.contextmanager
def piped(where: str, command: str, source: IO[bytes]) -> Iterator[IO[bytes]]:
    """What a command makes of a file: programs with their arguments, joined by `|`. No shell reads it."""
    parts = _parts(where, command)
    running: list[subprocess.Popen] = []
    try:
        given: Any = source
        for part in parts:
            try:
                running.append(subprocess.Popen(part, stdin=given, stdout=subprocess.PIPE))
            except OSError as e:
                raise errors.failure(
                    f"{where}: expected the program {part[0]}, got {e.strerror}", kind=OSError
                ) from None
            if given is not source:
                given.close()  # it belongs to the program that reads it now
            given = running[-1].stdout
        yield given
        given.close()
        for process, part in zip(running, parts, strict=True):
            if process.wait():
                raise errors.failure(f"{where}: {shlex.join(part)} has failed with exit code {process.returncode}")
    finally:
        for process in running:
            end(process, 1.0)


def _parts(where: str, command: str) -> list[list[str]]:
    try:
        words = list(shlex.shlex(command, posix=True, punctuation_chars="|"))
        plain = shlex.split(command) if "|" not in words else []
    except ValueError as e:
        raise errors.bad(where, "a command", described=f"{command!r}, {e}") from None
    parts: list[list[str]] = [plain] if plain else [[]]
    for word in words if not plain else ():
        if word == "|":
            parts.append([])
        else:
            parts[-1].append(word)
    if not all(parts):
        raise errors.bad(where, "a command, or several joined by |", command)
    return parts
