"""Layers from waveforms to features: spectrograms, on the mel scale, in decibels, and cepstral coefficients."""

from __future__ import annotations

from typing import Any

from bireme import nn
from bireme.audio.functional import compute_fbank_matrix, create_dct, get_window, power_to_db
from bireme.audio.functional.arguments import real, whole
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops import abs as magnitude
from bireme.ops import imag, matmul, square, stft
from bireme.ops import real as real_part


class Spectrogram(nn.Layer):
    """Spectrogram: magnitudes of the Fourier transforms of overlapping frames, to some power.

    Args:
        n_fft: Length of the Fourier transform. Default: 512.
        hop_length: Samples from one frame to the next. Default: 512.
        win_length: Samples of a frame; the window is padded to ``n_fft``. Default: None, ``n_fft``.
        window: Name of the window, or a tuple of the name and its parameters, see
            ``bireme.audio.functional.get_window``. Default: ``'hann'``.
        power: Exponent of the magnitudes: 1.0 for magnitudes, 2.0 for powers. Default: 1.0.
        center: Center frame ``t`` at sample ``t * hop_length``, with padding at both ends. Default: True.
        pad_mode: ``'reflect'`` or ``'constant'``, how it is padded. Default: ``'reflect'``.
        dtype: Data type of windows and filters, that of the input. Default: ``'float32'``.

    Shape:
        - x: ``[N, T]`` or ``[T]``.
        - output: ``[N, n_fft // 2 + 1, frames]``, without ``N`` for an input without.

    Examples:
        >>> layer = bireme.audio.features.Spectrogram(n_fft=4, hop_length=4, power=2.0)
        >>> [round(v, 3) for v in layer(bireme.ones([1, 8]))[0, :, 1].tolist()]
        [4.0, 1.0, 0.0]
    """

    def __init__(
        self,
        n_fft: int = 512,
        hop_length: int | None = 512,
        win_length: int | None = None,
        window: str | tuple[Any, ...] = "hann",
        power: float = 1.0,
        center: bool = True,
        pad_mode: str = "reflect",
        dtype: Any = "float32",
    ):
        super().__init__()
        self.power = real("Spectrogram(power)", power, "a positive number", positive=True)
        self._n_fft, self._hop_length = whole("Spectrogram(n_fft)", n_fft, 1), hop_length
        self._win_length = self._n_fft if win_length is None else win_length
        self._center, self._pad_mode = center, pad_mode
        self.register_buffer("fft_window", get_window(window, self._win_length, True, dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the spectrogram.

        Args:
            x: Waveforms of shape ``[N, T]`` or ``[T]``.

        Returns:
            Tensor of shape ``[N, n_fft // 2 + 1, frames]``.

        Examples:
            >>> bireme.audio.features.Spectrogram(n_fft=8, hop_length=4).forward(bireme.ones([2, 16])).shape
            [2, 5, 5]
        """
        found = stft(x, self._n_fft, self._hop_length, self._win_length, self.fft_window, self._center, self._pad_mode)
        if self.power == 2.0:  # no root that would be squared again
            return square(real_part(found)) + square(imag(found))
        return magnitude(found) ** self.power

    def extra_repr(self) -> str:
        return f"n_fft={self._n_fft}, hop_length={self._hop_length}, win_length={self._win_length}, power={self.power}"


class MelSpectrogram(nn.Layer):
    """Spectrogram on the mel scale: triangular filters over the bins of a ``Spectrogram``.

    Args:
        sr: Sample rate in hertz. Default: 22050.
        n_fft: Length of the Fourier transform. Default: 2048.
        hop_length: Samples from one frame to the next. Default: 512.
        win_length: Samples of a frame; the window is padded to ``n_fft``. Default: None, ``n_fft``.
        window: Name of the window, or a tuple of the name and its parameters, see
            ``bireme.audio.functional.get_window``. Default: ``'hann'``.
        power: Exponent of the magnitudes: 1.0 for magnitudes, 2.0 for powers. Default: 2.0.
        center: Center frame ``t`` at sample ``t * hop_length``, with padding at both ends. Default: True.
        pad_mode: ``'reflect'`` or ``'constant'``, how it is padded. Default: ``'reflect'``.
        n_mels: Number of filters. Default: 64.
        f_min: Lowest frequency in hertz. Default: 50.0.
        f_max: Highest frequency in hertz. Default: None, ``sr // 2``.
        htk: Use the scale of the HTK toolkit instead of Slaney's. Default: False.
        norm: ``'slaney'``, a number or None: how filters are normalized, see
            ``bireme.audio.functional.compute_fbank_matrix``. Default: ``'slaney'``.
        dtype: Data type of windows and filters, that of the input. Default: ``'float32'``.

    Shape:
        - x: ``[N, T]`` or ``[T]``.
        - output: ``[N, n_mels, frames]``, without ``N`` for an input without.

    Examples:
        >>> layer = bireme.audio.features.MelSpectrogram(sr=8000, n_fft=64, hop_length=32, n_mels=8, f_min=0.0)
        >>> layer(bireme.ones([1, 320])).shape
        [1, 8, 11]
    """

    def __init__(
        self,
        sr: int = 22050,
        n_fft: int = 2048,
        hop_length: int | None = 512,
        win_length: int | None = None,
        window: str | tuple[Any, ...] = "hann",
        power: float = 2.0,
        center: bool = True,
        pad_mode: str = "reflect",
        n_mels: int = 64,
        f_min: float = 50.0,
        f_max: float | None = None,
        htk: bool = False,
        norm: str | float | None = "slaney",
        dtype: Any = "float32",
    ):
        super().__init__()
        self._spectrogram = Spectrogram(n_fft, hop_length, win_length, window, power, center, pad_mode, dtype)
        self.n_mels, self.f_min, self.f_max, self.htk, self.norm = n_mels, f_min, f_max, htk, norm
        top = real("MelSpectrogram(sr)", sr, "a positive number", positive=True) // 2 if f_max is None else f_max
        self.register_buffer("fbank_matrix", compute_fbank_matrix(sr, n_fft, n_mels, f_min, top, htk, norm, dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the spectrogram on the mel scale.

        Args:
            x: Waveforms of shape ``[N, T]`` or ``[T]``.

        Returns:
            Tensor of shape ``[N, n_mels, frames]``.

        Examples:
            >>> layer = bireme.audio.features.MelSpectrogram(sr=8000, n_fft=64, hop_length=32, n_mels=4)
            >>> layer.forward(bireme.ones([2, 64])).shape
            [2, 4, 3]
        """
        return matmul(self.fbank_matrix, self._spectrogram(x))

    def extra_repr(self) -> str:
        return f"n_mels={self.n_mels}, f_min={self.f_min}, f_max={self.f_max}"


class LogMelSpectrogram(nn.Layer):
    """Spectrogram on the mel scale, in decibels.

    Args:
        sr: Sample rate in hertz. Default: 22050.
        n_fft: Length of the Fourier transform. Default: 512.
        hop_length: Samples from one frame to the next. Default: None, a quarter of ``n_fft``.
        win_length: Samples of a frame; the window is padded to ``n_fft``. Default: None, ``n_fft``.
        window: Name of the window, or a tuple of the name and its parameters, see
            ``bireme.audio.functional.get_window``. Default: ``'hann'``.
        power: Exponent of the magnitudes: 1.0 for magnitudes, 2.0 for powers. Default: 2.0.
        center: Center frame ``t`` at sample ``t * hop_length``, with padding at both ends. Default: True.
        pad_mode: ``'reflect'`` or ``'constant'``, how it is padded. Default: ``'reflect'``.
        n_mels: Number of filters. Default: 64.
        f_min: Lowest frequency in hertz. Default: 50.0.
        f_max: Highest frequency in hertz. Default: None, ``sr // 2``.
        htk: Use the scale of the HTK toolkit instead of Slaney's. Default: False.
        norm: ``'slaney'``, a number or None: how filters are normalized, see
            ``bireme.audio.functional.compute_fbank_matrix``. Default: ``'slaney'``.
        ref_value: Power that is 0 dB. Default: 1.0.
        amin: Least power. Default: 1e-10.
        top_db: Range of the result in decibels. Default: None, not limited.
        dtype: Data type of windows and filters, that of the input. Default: ``'float32'``.

    Shape:
        - x: ``[N, T]`` or ``[T]``.
        - output: ``[N, n_mels, frames]``, without ``N`` for an input without.

    Examples:
        >>> layer = bireme.audio.features.LogMelSpectrogram(sr=8000, n_fft=64, n_mels=2, f_min=0.0)
        >>> round(layer(bireme.zeros([1, 64])).max().item())
        -100
    """

    def __init__(
        self,
        sr: int = 22050,
        n_fft: int = 512,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: str | tuple[Any, ...] = "hann",
        power: float = 2.0,
        center: bool = True,
        pad_mode: str = "reflect",
        n_mels: int = 64,
        f_min: float = 50.0,
        f_max: float | None = None,
        htk: bool = False,
        norm: str | float | None = "slaney",
        ref_value: float = 1.0,
        amin: float = 1e-10,
        top_db: float | None = None,
        dtype: Any = "float32",
    ):
        super().__init__()
        self._melspectrogram = MelSpectrogram(
            sr, n_fft, hop_length, win_length, window, power, center, pad_mode, n_mels, f_min, f_max, htk, norm, dtype
        )
        self.ref_value, self.amin, self.top_db = ref_value, amin, top_db

    def forward(self, x: Tensor) -> Tensor:
        """Compute the spectrogram on the mel scale, in decibels.

        Args:
            x: Waveforms of shape ``[N, T]`` or ``[T]``.

        Returns:
            Tensor of shape ``[N, n_mels, frames]``.

        Examples:
            >>> bireme.audio.features.LogMelSpectrogram(n_fft=64, n_mels=4).forward(bireme.ones([2, 64])).shape
            [2, 4, 5]
        """
        return power_to_db(self._melspectrogram(x), self.ref_value, self.amin, self.top_db)

    def extra_repr(self) -> str:
        return f"ref_value={self.ref_value}, amin={self.amin}, top_db={self.top_db}"


class MFCC(nn.Layer):
    """Mel-frequency cepstral coefficients: the cosine transform of a ``LogMelSpectrogram``.

    Args:
        sr: Sample rate in hertz. Default: 22050.
        n_mfcc: Number of coefficients, not more than ``n_mels``. Default: 40.
        n_fft: Length of the Fourier transform. Default: 512.
        hop_length: Samples from one frame to the next. Default: None, a quarter of ``n_fft``.
        win_length: Samples of a frame; the window is padded to ``n_fft``. Default: None, ``n_fft``.
        window: Name of the window, or a tuple of the name and its parameters, see
            ``bireme.audio.functional.get_window``. Default: ``'hann'``.
        power: Exponent of the magnitudes: 1.0 for magnitudes, 2.0 for powers. Default: 2.0.
        center: Center frame ``t`` at sample ``t * hop_length``, with padding at both ends. Default: True.
        pad_mode: ``'reflect'`` or ``'constant'``, how it is padded. Default: ``'reflect'``.
        n_mels: Number of filters. Default: 64.
        f_min: Lowest frequency in hertz. Default: 50.0.
        f_max: Highest frequency in hertz. Default: None, ``sr // 2``.
        htk: Use the scale of the HTK toolkit instead of Slaney's. Default: False.
        norm: ``'slaney'``, a number or None: how filters are normalized, see
            ``bireme.audio.functional.compute_fbank_matrix``. Default: ``'slaney'``.
        ref_value: Power that is 0 dB. Default: 1.0.
        amin: Least power. Default: 1e-10.
        top_db: Range of the result in decibels. Default: None, not limited.
        dtype: Data type of windows and filters, that of the input. Default: ``'float32'``.

    Shape:
        - x: ``[N, T]`` or ``[T]``.
        - output: ``[N, n_mfcc, frames]``, without ``N`` for an input without.

    Examples:
        >>> bireme.audio.features.MFCC(sr=8000, n_mfcc=4, n_fft=64, n_mels=8)(bireme.ones([1, 160])).shape
        [1, 4, 11]
    """

    def __init__(
        self,
        sr: int = 22050,
        n_mfcc: int = 40,
        n_fft: int = 512,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: str | tuple[Any, ...] = "hann",
        power: float = 2.0,
        center: bool = True,
        pad_mode: str = "reflect",
        n_mels: int = 64,
        f_min: float = 50.0,
        f_max: float | None = None,
        htk: bool = False,
        norm: str | float | None = "slaney",
        ref_value: float = 1.0,
        amin: float = 1e-10,
        top_db: float | None = None,
        dtype: Any = "float32",
    ):
        super().__init__()
        if whole("MFCC(n_mfcc)", n_mfcc, 1) > whole("MFCC(n_mels)", n_mels, 1):
            raise errors.bad("MFCC(n_mfcc)", f"at most n_mels, {n_mels}", n_mfcc)
        self._log_melspectrogram = LogMelSpectrogram(
            sr, n_fft, hop_length, win_length, window, power, center, pad_mode, n_mels, f_min, f_max, htk, norm,
            ref_value, amin, top_db, dtype,
        )  # fmt: skip
        self.register_buffer("dct_matrix", create_dct(n_mfcc, n_mels, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the coefficients.

        Args:
            x: Waveforms of shape ``[N, T]`` or ``[T]``.

        Returns:
            Tensor of shape ``[N, n_mfcc, frames]``.

        Examples:
            >>> bireme.audio.features.MFCC(n_mfcc=2, n_fft=64, n_mels=4).forward(bireme.ones([2, 64])).shape
            [2, 2, 5]
        """
        return matmul(self.dct_matrix, self._log_melspectrogram(x), transpose_x=True)
