"""WAV files with PCM samples of 8, 16, 24 or 32 bits, by Python's own `wave`."""

from __future__ import annotations

import contextlib
import os
import wave
from collections.abc import Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError

_HINT = "bireme.audio.backends.set_backend('soundfile') reads other formats, where soundfile is installed"


@contextlib.contextmanager
def _opened(where: str, file: Any) -> Iterator[tuple[wave.Wave_read, int]]:
    """The reader of a file, and the number of frames that the file really holds."""
    told = getattr(file, "name", "an open file") if hasattr(file, "read") else file
    with contextlib.ExitStack() as stack:
        opened = file if hasattr(file, "read") else stack.enter_context(open(file, "rb"))
        try:
            reader = stack.enter_context(wave.open(opened, "rb"))
            width = reader.getnchannels() * reader.getsampwidth()
            # what the header declares is not believed: nothing of that size is allocated before it is there
            start = opened.tell()
            held = opened.seek(0, os.SEEK_END) - start
            opened.seek(start)
        except (wave.Error, EOFError, ValueError, OSError) as e:
            described = f"{told}: {e or 'it ends too early'}"
            raise errors.bad(
                where, "a WAV file with PCM samples", described=described, hint=_HINT, kind=FileFormatError
            ) from None
        if reader.getnframes() * width > held:
            described = f"{told}, which holds {held // width} of {reader.getnframes()} frames"
            raise errors.bad(where, "a whole WAV file", described=described, kind=FileFormatError)
        yield reader, reader.getnframes()


def info(where: str, file: Any) -> tuple[int, int, int, int, str]:
    with _opened(where, file) as (reader, frames):
        bits = reader.getsampwidth() * 8
        return reader.getframerate(), frames, reader.getnchannels(), bits, "PCM_S" if bits > 8 else "PCM_U"


def load(where: str, file: Any, skip: int, most: int, normalize: bool) -> tuple[np.ndarray, int]:
    with _opened(where, file) as (reader, frames):
        skip = min(skip, frames)
        reader.setpos(skip)
        data = reader.readframes(frames - skip if most == -1 else min(most, frames - skip))
        width, channels, rate = reader.getsampwidth(), reader.getnchannels(), reader.getframerate()
    found = _samples(data, width).reshape(-1, channels)
    if normalize:
        found = found / (1 << 8 * width - 1)
    return found.astype(np.float32), rate


def _samples(data: bytes, width: int) -> np.ndarray:
    if width == 1:  # the one width without a sign
        return np.frombuffer(data, np.uint8).astype(np.int16) - 128
    if width == 3:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return wide.view("<i4")[:, 0] >> 8
    return np.frombuffer(data, f"<i{width}")


def save(path: Any, waveform: np.ndarray, rate: int, encoding: str | None, bits: int | None) -> None:
    if bits not in (None, 16):
        hint = "the backend soundfile writes others"
        raise errors.bad("save(bits_per_sample)", "16 or None", bits, hint=hint)
    if encoding not in (None, "PCM_S", "PCM_16"):
        raise errors.bad("save(encoding)", "'PCM_16' or None", encoding, hint="the backend soundfile writes others")
    if waveform.dtype != np.int16:
        waveform = np.clip(waveform.astype(np.float64) * 2**15, -(2**15), 2**15 - 1)
    with wave.open(path, "wb") as file:
        file.setnchannels(waveform.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.ascontiguousarray(waveform).astype("<i2").tobytes())
