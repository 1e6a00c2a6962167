"""Checkpoint: everything a training run needs to go on after it was killed, in one file that is whole or not there."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zlib
from typing import Any, BinaryIO

from bireme.core.base import errors, random_state
from bireme.files import pdparams
from bireme.files.pickler import write_all
from bireme.files.source import BadFile, Source, size_of
from bireme.files.store import telling, write_whole
from bireme.io import order

_NAME = re.compile(r"step-(\d+)\.ckpt")
_PART = re.compile(r"step-\d+\.ckpt\.[0-9a-f]{16}\.part")
_END = struct.Struct("<8sI")  # readers of Paddle's files stop before it
_SIGN = b"checksum"
_CHUNK = 1 << 20


class Checkpoint:
    """Saves model, optimizer, scaler, data loader and random streams together, and goes on from the newest file that is whole.

    Each part is an object with `state_dict` and `set_state_dict` (or `load_state_dict`), under a name of its own. The newest
    `keep` files stay; None keeps all. `extra` holds what was given to `save` besides: the epoch, the best score, the history.
    A schedule that an optimizer was given is part of the optimizer. The files are Paddle's: `load` reads them, and Paddle does.

    >>> layer = bireme.nn.Linear(1, 1)
    >>> opt = bireme.optimizer.SGD(0.1, parameters=layer.parameters())
    >>> saved = bireme.files.Checkpoint("/tmp/bireme_example", keep=2, model=layer, optimizer=opt)
    >>> saved.save(7, epoch=1)
    >>> saved.resume(), saved.extra
    (7, {'epoch': 1})
    """

    def __init__(self, folder: str | os.PathLike, keep: int | None = 3, **parts: Any) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise errors.bad("Checkpoint(folder)", "the name of a folder", folder, kind=TypeError)
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise errors.bad("Checkpoint(keep)", "a number of files, or None for all", keep)
        for name, part in parts.items():
            if not hasattr(part, "state_dict") or _setter(part) is None:
                raise errors.bad(f"Checkpoint({name})", "an object with state_dict and set_state_dict", part, kind=TypeError)
        self.folder, self.keep, self.parts = os.fspath(folder), keep, parts
        self.extra: dict[str, Any] = {}
        self._damaged: set[int] = set()

    def steps(self) -> list[int]:
        """The steps there are files of, in order.

        >>> bireme.files.Checkpoint("/tmp/bireme_nothing_here").steps()
        []
        """
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = (_NAME.fullmatch(name) for name in os.listdir(self.folder))
            return sorted(int(match[1]) for match in found if match)
        return []

    def path(self, step: int) -> str:
        """The file of a step.

        >>> bireme.files.Checkpoint("runs").path(12)
        'runs/step-00000012.ckpt'
        """
        return os.path.join(self.folder, f"step-{step:08d}.ckpt")

    # ------------------------------------------------------------ saving

    def save(self, step: int, **extra: Any) -> None:
        """Write the state after `step` steps, and take away what is older than the newest `keep` files.

        >>> bireme.files.Checkpoint("/tmp/bireme_example").save(1, best=0.5)
        """
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise errors.bad("Checkpoint.save(step)", "how many steps were made", step)
        state = {
            "step": step,
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "random": {**order.snapshot(), "seeded": random_state.was_seeded()},
            "extra": extra,
        }

        def write(file: BinaryIO) -> None:
            summed = _Summed(file)
            pdparams.write(summed, state, 4)  # type: ignore[arg-type]  # it has a `write`
            file.write(_END.pack(_SIGN, summed.sum))

        write_whole(self.path(step), write)
        self._damaged.discard(step)
        old = [] if self.keep is None else [s for s in self.steps() if s not in self._damaged][: -self.keep]
        for other in {*old, *self._damaged} - {step}:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(other))
        self._damaged.clear()

    # ------------------------------------------------------------ going on

    def resume(self) -> int | None:
        """Set every part to the newest file that is whole, and return its step; None where there is no file.

        A file that is damaged is told of in a warning, and the one before it is taken; it is an error if all of them are.

        >>> bireme.files.Checkpoint("/tmp/bireme_nothing_here").resume() is None
        True
        """
        steps = self.steps()
        self._sweep()
        for step in reversed(steps):
            path = self.path(step)
            try:
                state = _read(path)
            except BadFile as e:
                errors.warn(f"Checkpoint.resume(): {path} is damaged: {e}; going back to the one before")
                self._damaged.add(step)
                continue
            self._take(path, state)
            return state["step"]
        if steps:
            raise errors.bad("Checkpoint.resume()", "a checkpoint that is whole", f"{len(steps)} damaged ones in {self.folder}", kind=RuntimeError)
        return None

    def _take(self, path: str, state: dict[str, Any]) -> None:
        where, parts = "Checkpoint.resume()", state["parts"]
        if set(parts) != set(self.parts):
            raise errors.bad(where, f"a file of {', '.join(sorted(self.parts)) or 'nothing'}", f"{path}, of {', '.join(sorted(parts)) or 'nothing'}")
        for name, part in self.parts.items():
            left = _setter(part)(parts[name])
            if isinstance(left, tuple) and any(left):
                raise errors.bad(f"{where}, {name}", "the same names", f"{path}, which lacks {left[0]} and has {left[1]} in excess")
        stream = state["random"]
        if stream["seeded"] and not random_state.was_seeded():
            random_state.seed(0)  # whether somebody called it decides where orders are drawn from; the stream itself is set next
        order.restore(stream)
        self.extra = state["extra"]

    def _sweep(self) -> None:
        """Take away what a killed writer left."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder):
                if _PART.fullmatch(name):
                    os.unlink(os.path.join(self.folder, name))


def _setter(part: Any) -> Any:
    return getattr(part, "set_state_dict", None) or getattr(part, "load_state_dict", None)


class _Summed:
    """A file that adds up what is written to it."""

    def __init__(self, file: BinaryIO):
        self.file, self.sum = file, 0

    def write(self, data: Any) -> int:
        self.sum = zlib.crc32(data, self.sum)
        write_all(self.file, memoryview(data))
        return len(data)


def _read(path: str) -> dict[str, Any]:
    with telling("Checkpoint.resume", path), open(path, "rb", buffering=0) as file:
        size = size_of(file) - _END.size
        if size <= 0:
            raise BadFile("it is too short")
        left, total = size, 0
        while left:
            piece = file.read(min(left, _CHUNK))
            if not piece:
                raise BadFile("it ends too early")
            total = zlib.crc32(piece, total)
            left -= len(piece)
        if file.read(_END.size) != _END.pack(_SIGN, total):
            raise BadFile("its checksum does not fit")
        file.seek(0)
        source = Source(file, size)
        state = pdparams.read(source, return_numpy=False, keep_names=False)
        if source.left or not isinstance(state, dict) or set(state) != {"step", "parts", "random", "extra"}:
            raise BadFile("it is not a checkpoint")
        return state
