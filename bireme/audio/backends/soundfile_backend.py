"""Audio files of many formats by the package soundfile, which is imported when it is first used."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.core.base.extras import extra

_BITS = {8: "PCM_S8", 16: "PCM_16", 24: "PCM_24", 32: "PCM_32"}


def _soundfile() -> Any:
    return extra("soundfile", "audio", "for this audio backend")


def _refused(where: str, file: Any, error: Exception) -> Exception:
    described = f"{file if isinstance(file, str) else 'an open file'}: {error}"
    return errors.bad(where, "an audio file that soundfile reads", described=described, kind=FileFormatError)


def info(where: str, file: Any) -> tuple[int, int, int, int, str]:
    soundfile = _soundfile()
    try:
        found = soundfile.info(file)
    except RuntimeError as e:  # the base of soundfile's own errors
        raise _refused(where, file, e) from None
    bits = re.search(r"\d+", found.subtype)
    return found.samplerate, found.frames, found.channels, int(bits[0]) if bits else 0, found.subtype


def load(where: str, file: Any, skip: int, most: int, normalize: bool) -> tuple[np.ndarray, int]:
    soundfile = _soundfile()
    kind = "float32" if normalize else "int16"
    try:
        found, rate = soundfile.read(file, frames=most, start=skip, dtype=kind, always_2d=True)
    except RuntimeError as e:
        raise _refused(where, file, e) from None
    return found.astype(np.float32), rate


def save(path: Any, waveform: np.ndarray, rate: int, encoding: str | None, bits: int | None) -> None:
    soundfile = _soundfile()
    subtype = _BITS.get(16 if bits is None else bits) if encoding is None else encoding
    if subtype is None:
        raise errors.bad("save(bits_per_sample)", "8, 16, 24, 32 or None", bits)
    if waveform.dtype != np.int16:
        waveform = np.clip(waveform, -1, 1).astype(np.float32)
    format = "WAV" if hasattr(path, "write") else None  # by the end of a path's name
    try:
        soundfile.write(path, waveform, rate, subtype=subtype, format=format)
    except (RuntimeError, ValueError, TypeError) as e:
        raise errors.bad(
            "save(filepath)", f"a format that soundfile writes as {subtype}", described=f"{path}: {e}"
        ) from None
