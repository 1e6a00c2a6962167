"""The mel scale, filter banks on it, decibels, and the matrix of the cosine transform."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bireme.audio.functional.arguments import float_dtype, real, whole
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.ops import clip, exp, expm1, log, log10, maximum, where
from bireme.ops.creation.tensors import to_tensor

# Slaney's scale: linear to 1000 Hz, 27 steps of a logarithm from there to 6400 Hz
_HZ_PER_MEL, _KNEE, _STEP = 200 / 3, 1000.0, math.log(6.4) / 27


def hz_to_mel(freq: Any, htk: bool = False) -> Any:
    """Convert frequencies to the mel scale.

    Args:
        freq: Frequency in hertz, a number or a floating-point tensor.
        htk: Use the scale of the HTK toolkit, a single logarithm, instead of Slaney's. Default: False.

    Returns:
        Mels: a float for a number, a tensor for a tensor.

    Examples:
        >>> bireme.audio.functional.hz_to_mel(100.0)
        1.5
        >>> bireme.audio.functional.hz_to_mel(bireme.to_tensor([0.0, 200.0])).tolist()
        [0.0, 3.0]
    """
    if not isinstance(freq, Tensor):
        return float(_mel(np.float64(real("hz_to_mel(freq)", freq)), htk))
    if htk:
        return 2595.0 * log10(1.0 + freq / 700.0)
    # below the knee the logarithm is not used, and is kept away from zero, where its gradient is NaN
    high = _KNEE / _HZ_PER_MEL + log(clip(freq, min=_KNEE) / _KNEE) / _STEP
    return where(freq > _KNEE, high, freq / _HZ_PER_MEL)


def mel_to_hz(mel: Any, htk: bool = False) -> Any:
    """Convert the mel scale to frequencies.

    Args:
        mel: Mels, a number or a floating-point tensor.
        htk: Use the scale of the HTK toolkit, a single logarithm, instead of Slaney's. Default: False.

    Returns:
        Frequency in hertz: a float for a number, a tensor for a tensor.

    Examples:
        >>> bireme.audio.functional.mel_to_hz(1.5)
        100.0
        >>> bireme.audio.functional.mel_to_hz(bireme.to_tensor([0.0, 3.0])).tolist()
        [0.0, 200.0]
    """
    if not isinstance(mel, Tensor):
        return float(_hz(np.float64(real("mel_to_hz(mel)", mel)), htk))
    if htk:
        return 700.0 * expm1(mel * (math.log(10.0) / 2595.0))
    knee = _KNEE / _HZ_PER_MEL
    return where(mel > knee, _KNEE * exp(_STEP * (clip(mel, min=knee) - knee)), mel * _HZ_PER_MEL)


def _mel(hz: Any, htk: bool) -> Any:
    if htk:
        return 2595.0 * np.log10(1.0 + hz / 700.0)
    return np.where(hz >= _KNEE, _KNEE / _HZ_PER_MEL + np.log(np.maximum(hz, _KNEE) / _KNEE) / _STEP, hz / _HZ_PER_MEL)


def _hz(mel: Any, htk: bool) -> Any:
    if htk:
        return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    knee = _KNEE / _HZ_PER_MEL
    return np.where(mel >= knee, _KNEE * np.exp(_STEP * (np.maximum(mel, knee) - knee)), mel * _HZ_PER_MEL)


def _mel_points(n: int, f_min: float, f_max: float, htk: bool) -> np.ndarray:
    return _hz(np.linspace(_mel(np.float64(f_min), htk), _mel(np.float64(f_max), htk), n), htk)


def mel_frequencies(
    n_mels: int = 64, f_min: float = 0.0, f_max: float = 11025.0, htk: bool = False, dtype: Any = "float32"
) -> Tensor:
    """Return frequencies that are evenly spaced on the mel scale.

    Args:
        n_mels: Number of frequencies. Default: 64.
        f_min: Lowest frequency in hertz. Default: 0.0.
        f_max: Highest frequency in hertz. Default: 11025.0.
        htk: Use the scale of the HTK toolkit instead of Slaney's. Default: False.
        dtype: Data type of the result. Default: ``'float32'``.

    Returns:
        Tensor of shape ``[n_mels]``, in hertz.

    Examples:
        >>> bireme.audio.functional.mel_frequencies(3, 0.0, 400.0).tolist()
        [0.0, 200.0, 400.0]
    """
    n = whole("mel_frequencies(n_mels)", n_mels, 1)
    low, high = real("mel_frequencies(f_min)", f_min), real("mel_frequencies(f_max)", f_max)
    return to_tensor(_mel_points(n, low, high, htk).astype(float_dtype("mel_frequencies(dtype)", dtype)))


def fft_frequencies(sr: int, n_fft: int, dtype: Any = "float32") -> Tensor:
    """Return the frequencies of the bins of a Fourier transform of real numbers.

    Args:
        sr: Sample rate in hertz.
        n_fft: Length of the transform.
        dtype: Data type of the result. Default: ``'float32'``.

    Returns:
        Tensor of shape ``[n_fft // 2 + 1]``, from 0 to ``sr / 2``.

    Examples:
        >>> bireme.audio.functional.fft_frequencies(8000, 4).tolist()
        [0.0, 2000.0, 4000.0]
    """
    high = real("fft_frequencies(sr)", sr, "a positive number", positive=True) / 2
    n = whole("fft_frequencies(n_fft)", n_fft, 1) // 2 + 1
    return to_tensor(np.linspace(0, high, n).astype(float_dtype("fft_frequencies(dtype)", dtype)))


def compute_fbank_matrix(
    sr: int,
    n_fft: int,
    n_mels: int = 64,
    f_min: float = 0.0,
    f_max: float | None = None,
    htk: bool = False,
    norm: str | float | None = "slaney",
    dtype: Any = "float32",
) -> Tensor:
    """Return the matrix that takes a spectrum to triangular filters on the mel scale.

    Args:
        sr: Sample rate in hertz.
        n_fft: Length of the Fourier transform.
        n_mels: Number of filters. Default: 64.
        f_min: Lowest frequency in hertz. Default: 0.0.
        f_max: Highest frequency in hertz. Default: None, ``sr / 2``.
        htk: Use the scale of the HTK toolkit instead of Slaney's. Default: False.
        norm: ``'slaney'`` divides each filter by half its width in hertz, so that all have the same area; a number
            divides it by its norm of that order; None leaves it as it is. Default: ``'slaney'``.
        dtype: Data type of the result. Default: ``'float32'``.

    Returns:
        Tensor of shape ``[n_mels, n_fft // 2 + 1]``.

    Examples:
        >>> bireme.audio.functional.compute_fbank_matrix(800, 8, n_mels=1, norm=None).abs().tolist()
        [[0.0, 0.5, 1.0, 0.5, 0.0]]
    """
    name = "compute_fbank_matrix"
    high = real(f"{name}(sr)", sr, "a positive number", positive=True) / 2
    bins = whole(f"{name}(n_fft)", n_fft, 1) // 2 + 1
    n = whole(f"{name}(n_mels)", n_mels, 1)
    top = high if f_max is None else real(f"{name}(f_max)", f_max)
    points = _mel_points(n + 2, real(f"{name}(f_min)", f_min), top, htk)
    if not points[-1] > points[0]:
        raise errors.bad(f"{name}(f_max)", f"a frequency above f_min, {f_min} Hz", f_max)
    to_bins = points[:, None] - np.linspace(0, high, bins)
    widths = np.diff(points)[:, None]
    filters = np.maximum(0, np.minimum(-to_bins[:-2] / widths[:-1], to_bins[2:] / widths[1:]))
    if norm == "slaney":
        filters *= 2 / (points[2:] - points[:-2])[:, None]
    elif norm is not None:
        order = real(f"{name}(norm)", norm, "'slaney', a number or None")
        filters /= np.maximum(np.linalg.norm(filters, ord=order, axis=-1, keepdims=True), 1e-12)
    return to_tensor(filters.astype(float_dtype(f"{name}(dtype)", dtype)))


def power_to_db(spect: Tensor, ref_value: float = 1.0, amin: float = 1e-10, top_db: float | None = 80.0) -> Tensor:
    """Convert powers to decibels: ``10 * log10(spect / ref_value)``.

    Args:
        spect: Powers, such as a spectrogram with ``power=2.0``.
        ref_value: Power that is 0 dB. Default: 1.0.
        amin: Least power: what is below counts as this. Default: 1e-10.
        top_db: Range of the result: what is further than this below its maximum is raised to that. Default: 80.0; None
            leaves it as it is.

    Returns:
        Tensor of the shape of ``spect``, in decibels.

    Examples:
        >>> decibels = bireme.audio.functional.power_to_db(bireme.to_tensor([100.0, 1.0, 0.0]), top_db=30.0)
        >>> [round(x, 3) for x in decibels.tolist()]
        [20.0, 0.0, -10.0]
    """
    if not isinstance(spect, Tensor):
        raise errors.bad("power_to_db(spect)", "a Tensor", spect, kind=errors.NotATensorError)
    least = real("power_to_db(amin)", amin, "a positive number", positive=True)
    reference = real("power_to_db(ref_value)", ref_value, "a positive number", positive=True)
    found = 10.0 * log10(clip(spect, min=least)) - 10.0 * math.log10(max(reference, least))
    if top_db is None:
        return found
    width = real("power_to_db(top_db)", top_db, "a non-negative number or None")
    if width < 0:
        raise errors.bad("power_to_db(top_db)", "a non-negative number or None", top_db)
    return maximum(found, found.max() - width)


def create_dct(n_mfcc: int, n_mels: int, norm: str | None = "ortho", dtype: Any = "float32") -> Tensor:
    """Return the matrix of the cosine transform of type II, which takes log-mel spectra to cepstral coefficients.

    Args:
        n_mfcc: Number of coefficients.
        n_mels: Number of filters.
        norm: ``'ortho'`` for orthonormal columns, or None. Default: ``'ortho'``.
        dtype: Data type of the result. Default: ``'float32'``.

    Returns:
        Tensor of shape ``[n_mels, n_mfcc]``.

    Examples:
        >>> bireme.audio.functional.create_dct(1, 4).tolist()
        [[0.5], [0.5], [0.5], [0.5]]
    """
    if norm not in ("ortho", None):
        raise errors.bad("create_dct(norm)", "'ortho' or None", norm)
    n = whole("create_dct(n_mels)", n_mels, 1)
    k = np.arange(whole("create_dct(n_mfcc)", n_mfcc, 1))
    found = 2 * np.cos(math.pi / n * (np.arange(n)[:, None] + 0.5) * k)
    if norm is not None:
        found *= math.sqrt(0.5 / n)
        found[:, 0] *= math.sqrt(0.5)
    return to_tensor(found.astype(float_dtype("create_dct(dtype)", dtype)))


guard_functions(globals())
