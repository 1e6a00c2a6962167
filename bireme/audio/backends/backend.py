"""Audio files by the chosen backend: PCM WAV by Python's `wave`, other formats by the package soundfile."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from bireme.audio.backends import soundfile_backend, wave_backend
from bireme.audio.functional.arguments import whole
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.ops.creation.tensors import to_tensor

_BACKENDS: dict[str, Any] = {"soundfile": soundfile_backend, "wave_backend": wave_backend}


class _State:
    backend = "wave_backend"


_state = _State()


@dataclass
class AudioInfo:
    """What the header of an audio file says.

    Args:
        sample_rate: Sample rate in hertz.
        num_samples: Number of samples of each channel.
        num_channels: Number of channels.
        bits_per_sample: Bits of a sample; 0 where the format has none.
        encoding: Name of the encoding, such as ``'PCM_S'``.

    Examples:
        >>> bireme.audio.backends.AudioInfo(16000, 5, 1, 16, "PCM_S").sample_rate
        16000
    """

    sample_rate: int
    num_samples: int
    num_channels: int
    bits_per_sample: int
    encoding: str


def list_available_backends() -> list[str]:
    """Return the names of the backends that can be set.

    Returns:
        ``'wave_backend'``, and ``'soundfile'`` before it where that package is installed.

    Examples:
        >>> bireme.audio.backends.list_available_backends()[-1]
        'wave_backend'
    """
    found = importlib.util.find_spec("soundfile") is not None
    return ["soundfile", "wave_backend"] if found else ["wave_backend"]


def get_current_backend() -> str:
    """Return the name of the backend that ``load``, ``save`` and ``info`` use.

    Returns:
        A name of ``list_available_backends``.

    Examples:
        >>> bireme.audio.backends.get_current_backend()
        'wave_backend'
    """
    return _state.backend


def set_backend(backend_name: str) -> None:
    """Choose what ``load``, ``save`` and ``info`` use, for the whole process.

    Args:
        backend_name: ``'wave_backend'`` for PCM WAV files by Python alone, or ``'soundfile'`` for WAV, FLAC, OGG and
            others by the package soundfile.

    Examples:
        >>> bireme.audio.backends.set_backend("wave_backend")
    """
    available = list_available_backends()
    if backend_name not in available:
        hint = "pip install 'bireme[audio]' installs soundfile" if backend_name == "soundfile" else None
        expected = " or ".join(map(repr, available))
        raise errors.bad("set_backend(backend_name)", expected, backend_name, hint=hint)
    _state.backend = backend_name


def info(filepath: str | os.PathLike | BinaryIO) -> AudioInfo:
    """Return what the header of an audio file says.

    Args:
        filepath: Path of the file, or a file that is open for reading bytes.

    Returns:
        An object with ``sample_rate``, ``num_samples``, ``num_channels``, ``bits_per_sample`` and ``encoding``.

    Raises:
        ValueError: If the backend cannot read the file.

    Examples:
        >>> import io
        >>> file = io.BytesIO()
        >>> bireme.audio.save(file, bireme.zeros([2, 5]), 16000)
        >>> bireme.audio.info(io.BytesIO(file.getvalue()))
        AudioInfo(sample_rate=16000, num_samples=5, num_channels=2, bits_per_sample=16, encoding='PCM_S')
    """
    return AudioInfo(*_BACKENDS[_state.backend].info("info(filepath)", _readable("info", filepath)))


def load(
    filepath: str | os.PathLike | BinaryIO,
    frame_offset: int = 0,
    num_frames: int = -1,
    normalize: bool = True,
    channels_first: bool = True,
) -> tuple[Tensor, int]:
    """Read a waveform from a file.

    Args:
        filepath: Path of the file, or a file that is open for reading bytes.
        frame_offset: Number of samples that are skipped at the start. Default: 0.
        num_frames: Number of samples to read at most; -1 reads all. Default: -1.
        normalize: Scale integers to [-1, 1); if False, they are returned as they are, in float32. Default: True.
        channels_first: Return the shape ``[channels, time]`` instead of ``[time, channels]``. Default: True.

    Returns:
        Pair of the waveform, a float32 tensor, and the sample rate, an int.

    Raises:
        ValueError: If the backend cannot read the file.

    Examples:
        >>> import io
        >>> file = io.BytesIO()
        >>> bireme.audio.save(file, bireme.to_tensor([[0.0, 0.5, -0.5]]), 8000)
        >>> waveform, rate = bireme.audio.load(io.BytesIO(file.getvalue()))
        >>> waveform.tolist(), rate
        ([[0.0, 0.5, -0.5]], 8000)
    """
    skip = whole("load(frame_offset)", frame_offset, 0)
    if num_frames != -1:
        whole("load(num_frames)", num_frames, 0)
    file = _readable("load", filepath)
    found, rate = _BACKENDS[_state.backend].load("load(filepath)", file, skip, int(num_frames), normalize)
    return to_tensor(np.ascontiguousarray(found.T) if channels_first else found), rate


def save(
    filepath: str | os.PathLike | BinaryIO,
    src: Tensor,
    sample_rate: int,
    channels_first: bool = True,
    encoding: str | None = None,
    bits_per_sample: int | None = 16,
) -> None:
    """Write a waveform to a file; numbers beyond [-1, 1] are clipped.

    Args:
        filepath: Path of the file, or a file that is open for writing bytes.
        src: Waveform of two dimensions: floating-point numbers in [-1, 1], or int16.
        sample_rate: Sample rate in hertz.
        channels_first: Whether ``src`` is ``[channels, time]`` instead of ``[time, channels]``. Default: True.
        encoding: ``'PCM_16'``, or another name that the backend soundfile knows. Default: None.
        bits_per_sample: 16 for the backend wave; also 8, 24 or 32 for soundfile. Default: 16.

    Raises:
        ValueError: If the waveform has another shape, or the backend cannot write it so.

    Examples:
        >>> import io
        >>> file = io.BytesIO()
        >>> bireme.audio.save(file, bireme.zeros([1, 8]), 8000)
        >>> len(file.getvalue())
        60
    """
    if not isinstance(src, Tensor):
        raise errors.bad("save(src)", "a Tensor", src, kind=errors.NotATensorError)
    if src.ndim != 2:
        expected = f"the shape {'[channels, time]' if channels_first else '[time, channels]'}"
        raise errors.bad("save(src)", expected, described=f"shape {src.shape}", kind=errors.ShapeError)
    if not (src.dtype.is_floating or src.dtype.name == "int16"):
        raise errors.bad(
            "save(src)", "floating-point numbers or int16", described=src.dtype.name, kind=errors.DtypeError
        )
    rate = whole("save(sample_rate)", sample_rate, 1)
    waveform = src.numpy().T if channels_first else src.numpy()
    path = filepath if hasattr(filepath, "write") else os.fspath(filepath)
    _BACKENDS[_state.backend].save(path, waveform, rate, encoding, bits_per_sample)


def _readable(name: str, filepath: Any) -> Any:
    if hasattr(filepath, "read"):
        return filepath
    if not isinstance(filepath, (str, os.PathLike)):
        raise errors.bad(f"{name}(filepath)", "a path or an open file", filepath, kind=errors.ArgumentTypeError)
    path = os.fspath(filepath)
    if not os.path.isfile(path):
        raise errors.bad(
            f"{name}(filepath)", "a file", described=f"{path}, which does not exist", kind=FileNotFoundError
        )
    return path


guard_functions(globals())
