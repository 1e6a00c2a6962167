"""Checkpoint: everything a training run needs to resume after it was killed, in one file written atomically."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zlib
from typing import Any, BinaryIO

from bireme.core.base import errors, random_state
from bireme.core.base.errors import FileFormatError
from bireme.files import pdparams
from bireme.files.pickler import write_all
from bireme.files.source import Source, size_of
from bireme.files.store import telling, write_whole
from bireme.io import order

_NAME = re.compile(r"step-(\d+)\.ckpt")
_PART = re.compile(r"step-\d+\.ckpt\.[0-9a-f]{16}\.part")
_END = struct.Struct("<8sI")  # readers of Paddle's files stop before it
_SIGN = b"checksum"
_CHUNK = 1 << 20


class Checkpoint:
    """Saves the whole state of a training run, and resumes it from the newest file that is intact.

    A file holds the state of all parts, the random state and ``extra``, with a checksum. A scheduler is part of its
    optimizer. The files are in Paddle's format: ``bireme.load`` and Paddle read them.

    Args:
        folder: Directory of the files.
        keep: Number of newest files to keep; None keeps all. Default: 3.
        **parts: Objects with ``state_dict`` and ``set_state_dict`` (or ``load_state_dict``) by name: model, optimizer,
            scaler, data loader.

    Examples:
        >>> import tempfile
        >>> layer = bireme.nn.Linear(1, 1)
        >>> opt = bireme.optimizer.SGD(0.1, parameters=layer.parameters())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = bireme.files.Checkpoint(folder, keep=2, model=layer, optimizer=opt)
        ...     saved.save(7, epoch=1)
        ...     saved.resume(), saved.extra
        (7, {'epoch': 1})
    """

    def __init__(self, folder: str | os.PathLike, keep: int | None = 3, **parts: Any) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise errors.bad("Checkpoint(folder)", "the name of a folder", folder, kind=errors.ArgumentTypeError)
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise errors.bad("Checkpoint(keep)", "a positive integer or None", keep, kind=errors.for_number(keep))
        for name, part in parts.items():
            if not hasattr(part, "state_dict") or _setter(part) is None:
                raise errors.bad(
                    f"Checkpoint({name})",
                    "an object with state_dict and set_state_dict",
                    part,
                    kind=errors.ArgumentTypeError,
                )
        self.folder, self.keep, self.parts = os.fspath(folder), keep, parts
        self.extra: dict[str, Any] = {}
        self._damaged: set[int] = set()

    def steps(self) -> list[int]:
        """Return the steps that there are files of, in increasing order.

        Examples:
            >>> bireme.files.Checkpoint("a_folder_that_does_not_exist").steps()
            []
        """
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = (_NAME.fullmatch(name) for name in os.listdir(self.folder))
            return sorted(int(match[1]) for match in found if match)
        return []

    def path(self, step: int) -> str:
        """Return the path of the file of a step.

        Args:
            step: The step.

        Returns:
            A str.

        Examples:
            >>> bireme.files.Checkpoint("runs").path(12)
            'runs/step-00000012.ckpt'
        """
        return os.path.join(self.folder, f"step-{step:08d}.ckpt")

    # ------------------------------------------------------------ saving

    def save(self, step: int, **extra: Any) -> None:
        """Write the state after a step, and delete all but the newest ``keep`` files.

        Args:
            step: Number of steps so far.
            **extra: Other data to save, such as the epoch or the best score; ``resume`` puts it into ``self.extra``.
        """
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise errors.bad("Checkpoint.save(step)", "a non-negative integer", step)
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
        """Load the newest file that is intact into all parts.

        A damaged file gives a warning, and the one before it is used.

        Returns:
            The step of the file; None if there is no file.

        Raises:
            RuntimeError: If all files are damaged.

        Examples:
            >>> bireme.files.Checkpoint("a_folder_that_does_not_exist").resume() is None
            True
        """
        steps = self.steps()
        self._sweep()
        for step in reversed(steps):
            path = self.path(step)
            try:
                state = _read(path)
            except FileFormatError as e:
                errors.warn(f"Checkpoint.resume(): {path!r} is damaged: {e}; going back to the one before")
                self._damaged.add(step)
                continue
            self._take(path, state)
            return state["step"]
        if steps:
            raise errors.bad(
                "Checkpoint.resume()",
                "an undamaged checkpoint",
                described=f"{len(steps)} damaged ones in {self.folder}",
                kind=RuntimeError,
            )
        return None

    def _take(self, path: str, state: dict[str, Any]) -> None:
        where, parts = "Checkpoint.resume()", state["parts"]
        if set(parts) != set(self.parts):
            raise errors.bad(
                where,
                f"a checkpoint of {', '.join(sorted(self.parts)) or 'nothing'}",
                described=f"{path!r}, of {', '.join(sorted(parts)) or 'nothing'}",
            )
        for name, part in self.parts.items():
            left = _setter(part)(parts[name])
            if isinstance(left, tuple) and any(left):
                raise errors.bad(
                    f"{where}, {name}",
                    "the same names",
                    described=f"{path!r}, which lacks {left[0]} and has {left[1]} in excess",
                )
        stream = state["random"]
        if stream["seeded"] and not random_state.was_seeded():
            # whether it was called decides which generator orders are drawn from; the state itself is set next
            random_state.seed(0)
        order.restore(stream)
        self.extra = state["extra"]

    def _sweep(self) -> None:
        """Delete what a killed writer has left."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder):
                if _PART.fullmatch(name):
                    os.unlink(os.path.join(self.folder, name))


def _setter(part: Any) -> Any:
    return getattr(part, "set_state_dict", None) or getattr(part, "load_state_dict", None)


class _Summed:
    """A file that computes the checksum of what is written to it."""

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
            raise FileFormatError("it is truncated")
        left, total = size, 0
        while left:
            piece = file.read(min(left, _CHUNK))
            if not piece:
                raise FileFormatError("it is truncated")
            total = zlib.crc32(piece, total)
            left -= len(piece)
        if file.read(_END.size) != _END.pack(_SIGN, total):
            raise FileFormatError("its checksum does not match")
        file.seek(0)
        source = Source(file, size)
        state = pdparams.read(source, return_numpy=False, keep_names=False)
        if source.left or not isinstance(state, dict) or set(state) != {"step", "parts", "random", "extra"}:
            raise FileFormatError("it is not a checkpoint")
        return state
