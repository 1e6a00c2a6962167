"""Rows of frames of signals and of their spectra."""

import numpy as np
from scipy import fft

from bireme.core.base import dtype as dtypes
from tests.table.harness import ALL, COMPLEX, INT, Bad, Row, call, floating, still
from tests.table.samples import floats

WIDE = frozenset((dtypes.float32, dtypes.float64)) | INT | COMPLEX
NO_AXIS = {"0-d": "there is no axis of time"}


def _frame(x, frame_length, hop_length, axis=-1):
    x = np.moveaxis(x, 0, -1) if axis == 0 else x
    count = 1 + (x.shape[-1] - frame_length) // hop_length
    found = np.stack([x[..., i * hop_length : i * hop_length + frame_length] for i in range(count)], -1)
    return np.moveaxis(found, (-1, -2), (0, 1)) if axis == 0 else found


def _overlap_add(x, hop_length, axis=-1):
    x = np.moveaxis(x, (0, 1), (-1, -2)) if axis == 0 else x
    n, count = x.shape[-2:]
    out = np.zeros((*x.shape[:-2], n + (count - 1) * hop_length), x.dtype)
    for i in range(count):
        for k in range(n):
            out[..., i * hop_length + k] += x[..., k, i]
    return np.moveaxis(out, -1, 0) if axis == 0 else out


def _middle(window, n_fft, win_length, dtype):
    window = np.ones(n_fft if win_length is None else win_length, dtype) if window is None else window
    left = (n_fft - window.size) // 2
    return np.pad(window, (left, n_fft - window.size - left))


def _stft(
    x,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
):
    x = x.astype(float) if x.dtype.kind in "iu" else x
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)], mode=pad_mode)
    rows = np.moveaxis(_frame(x, n_fft, hop_length or n_fft // 4), -1, -2) * _middle(window, n_fft, win_length, x.dtype)
    found = fft.fft(
        rows if rows.size else np.ones((1, *rows.shape[1:])), axis=-1, norm="ortho" if normalized else "backward"
    )
    found = np.moveaxis(found if rows.size else found[:0], -1, -2)
    half = x.dtype.kind != "c" if onesided is None else onesided
    return found[..., : n_fft // 2 + 1, :] if half else found


def _istft(x, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=True, length=None,
           return_complex=False):  # fmt: skip
    hop = hop_length or n_fft // 4
    w = _middle(window, n_fft, win_length, float)
    rows = np.moveaxis(x, -1, -2)
    norm = "ortho" if normalized else "backward"
    rows = (
        fft.ifft(rows, axis=-1, norm=norm)
        if return_complex
        else fft.irfft(rows[..., : n_fft // 2 + 1], n_fft, axis=-1, norm=norm)
    )
    total = _overlap_add(np.moveaxis(rows * w, -1, -2), hop)
    weight = _overlap_add(np.repeat((w * w)[:, None], x.shape[-1], 1), hop)
    first = n_fft // 2 if center else 0
    last = total.shape[-1] - first if length is None else first + length
    return (total / weight)[..., first:last]


def _spectrum(d):
    return dtypes.complex_of(floating(d))


W6 = still(np.hanning(6) + 0.1)
FRAMES = [call(floats(10), 4, 2), call(floats(2, 10), 4, 3), call(floats(10, 2), 4, 2, 0), call(floats(5), frame_length=5, hop_length=1, axis=-1),
          call(np.zeros((0, 10)), 4, 2), call(floats(40), 36, 1)]  # fmt: skip
ADDS = [call(floats(4, 5), 2), call(floats(2, 4, 3), 3), call(floats(5, 4, 2), 2, 0), call(floats(4, 1), hop_length=4, axis=-1),
        call(np.zeros((0, 4, 5)), 2), call(floats(36, 3), 1)]  # fmt: skip
SIGNALS = [call(floats(12), 8), call(floats(2, 12), 8, 3, 6, W6), call(floats(12), 7, 2, 5, center=False),
           call(floats(2, 12), 8, 2, pad_mode="constant"), call(floats(12), 8, 4, normalized=True), call(np.zeros((0, 12)), 8, 2),
           call(floats(12), 8, 2, 8, still(np.hanning(8)), True, "reflect", False, False)]  # fmt: skip
SPECTRA = [call(floats(5, 4), 8), call(floats(5, 4), 8, 2, normalized=True), call(floats(2, 5, 4), 8, 2, 6, W6),
           call(floats(5, 4), 8, 4, center=False), call(floats(4, 4), 7, 2), call(floats(2, 5, 4), 8, 2, length=5),
           call(floats(8, 4), 8, 2, onesided=False)]  # fmt: skip

TABLE = [
    Row("frame", FRAMES, _frame, dtypes=ALL, skip=NO_AXIS, bad=[
        Bad(call(floats(5), 6, 1), "frame(frame_length): expected at most the length of the signal, 5, got 6"),
        Bad(call(floats(5), 2, 0), "frame(hop_length): expected a positive integer, got 0"),
        Bad(call(floats(5), 2, 1, 1), "frame(axis): expected 0 or -1, got 1"),
        Bad(call(floats(), 2, 1), "frame(x): expected a tensor with at least 1 dimension, got a Tensor of shape []")]),
    Row("overlap_add", ADDS, _overlap_add, dtypes=ALL - {dtypes.bool_}, unchecked=frozenset((dtypes.bool_,)), skip=NO_AXIS, bad=[
        Bad(call(floats(2, 3), 3), "overlap_add(hop_length): expected at most the length of a frame, 2, got 3"),
        Bad(call(floats(2), 1), "overlap_add(x): expected a tensor with at least 2 dimensions, got a Tensor of shape [2]")]),
    Row("stft", SIGNALS, _stft, dtypes=WIDE, out=_spectrum, skip=NO_AXIS, bad=[
        Bad(call(floats(5), 6), "stft(n_fft): expected an integer in [1, 5], at most the length of the signal, got 6", AssertionError),
        Bad(call(floats(9), 8, 0), "stft(hop_length): expected a positive integer, got 0", AssertionError),
        Bad(call(floats(9), 8, 2, 9), "stft(win_length): expected an integer in [1, 8], at most n_fft, got 9", AssertionError),
        Bad(call(floats(9), 8, 2, 8, floats(7)), "stft(window): expected shape [8], got a Tensor of shape [7]", AssertionError),
        Bad(call(floats(9), 8, pad_mode="edge"), "stft(pad_mode): expected 'reflect' or 'constant', got 'edge'", AssertionError),
        Bad(call(floats(2, 2, 9), 8), "stft(x): expected a 1-D or 2-D tensor", AssertionError),
        Bad(call(floats(9), 2.5), "stft(n_fft): expected an integer, got 2.5", TypeError)]),
    Row("istft", SPECTRA, _istft, dtypes=WIDE, out=lambda d: dtypes.real_of(floating(d)),
        skip={**NO_AXIS, "zero size": "nothing can be reconstructed from no frames"}, bad=[
        Bad(call(floats(6, 3), 8), "istft(x): expected n_fft // 2 + 1 = 5 frequencies, got shape [6, 3]", AssertionError),
        Bad(call(floats(5, 6), 8, 2, 8, still(np.zeros(8))), "istft(window): expected windows that cover every sample"),
        Bad(call(floats(5, 6), 8, 5, 4), "istft(hop_length): expected at most the length of the window, 4, got 5", AssertionError),
        Bad(call(floats(5, 1), 8), "istft(x): expected frames that leave at least one sample, got a Tensor of shape [5, 1]"),
        Bad(call(floats(5, 6), 8, return_complex=True), "istft(onesided): expected False where the result is complex, got True", AssertionError),
        Bad(call(np.zeros((0, 5, 6)), 8), "istft(x): expected at least one element, got a Tensor of shape [0, 5, 6]", AssertionError),
        Bad(call(floats(5), 8), "istft(x): expected a 2-D or 3-D tensor, got a Tensor of shape [5]", AssertionError)]),
]  # fmt: skip
