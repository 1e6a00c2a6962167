"""Signals in frames: splitting and adding them up again, and their Fourier transforms."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, INT
from bireme.core.declare.conversion import ints
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.record import guards
from bireme.core.tensor.tensor import read
from bireme.ops.creation.tensors import ones
from bireme.ops.fourier.transforms import fft_c2c, fft_c2r, fft_r2c
from bireme.ops.nn.linear import pad

# ---------------------------------------------------------------- frames


def _places(length: int, frame_length: int, hop_length: int) -> np.ndarray:
    count = 1 + (length - frame_length) // hop_length
    return hop_length * np.arange(count)[None, :] + np.arange(frame_length)[:, None]


def _framed(x, frame_length, hop_length):
    """[..., length] to [..., frame_length, frames]."""
    return jnp.take(x, _places(x.shape[-1], frame_length, hop_length), axis=-1)


def _added(x, hop_length, length=None):
    """[..., frame_length, frames] to [..., length]: frames are sums of blocks of one hop, which are moved and added."""
    frame_length, count = x.shape[-2:]
    blocks = -(-frame_length // hop_length)
    rows = jnp.moveaxis(x, -1, -2)
    lead = [(0, 0)] * (x.ndim - 1)
    rows = jnp.pad(rows, [*lead, (0, blocks * hop_length - frame_length)]).reshape(*rows.shape[:-1], blocks, hop_length)
    total = max(frame_length + (count - 1) * hop_length, 0)
    if blocks <= 32:
        out = sum([jnp.pad(rows[..., j, :], [*lead[:-1], (j, blocks - 1 - j), (0, 0)]) for j in range(blocks)])
    else:
        at = np.arange(count)[:, None] + np.arange(blocks)[None, :]
        out = jnp.zeros((*rows.shape[:-3], count + blocks - 1, hop_length), x.dtype).at[..., at, :].add(rows)
    out = out.reshape(*out.shape[:-2], out.shape[-2] * hop_length)[..., :total]
    return out if length is None else jnp.pad(out, [*lead[:-1], (0, length - total)])


def _added_numpy(x, hop_length, length=None):
    frame_length, count = x.shape[-2:]
    total = max(frame_length + (count - 1) * hop_length, 0)
    out = np.zeros((*x.shape[:-2], total if length is None else length), x.dtype)
    for i in range(count):
        out[..., i * hop_length : i * hop_length + frame_length] += x[..., i]
    return out


def _at_end(x, axis):
    """Time as the last axis, whichever one it was."""
    return jnp.moveaxis(x, 0, -1) if axis == 0 else x


@op(public="signal.frame")
def frame(x: Tensor, frame_length: int, hop_length: int, axis: int = -1) -> Tensor:
    """Split a signal into overlapping frames.

    Args:
        x: Signal with time along its first or its last axis.
        frame_length: Length of each frame, at most that of the signal.
        hop_length: Distance between the starts of neighbouring frames.
        axis: Axis of time: -1 for the last one, 0 for the first. Default: -1.

    Returns:
        Tensor of shape ``[..., frame_length, frames]``, or ``[frames, frame_length, ...]`` with ``axis=0``. Samples at
        the end that do not fill a frame are left out.

    Raises:
        ValueError: If a length is not positive, or the signal is shorter than a frame.

    Examples:
        >>> bireme.signal.frame(bireme.to_tensor([1, 2, 3, 4]), 2, 1).tolist()
        [[1, 2, 3], [2, 3, 4]]
    """
    out = _framed(_at_end(x, axis), frame_length, hop_length)
    return jnp.moveaxis(out, (-1, -2), (0, 1)) if axis == 0 else out


frame.numpy_form = lambda x, frame_length, hop_length, axis: (
    x[_places(x.shape[0], frame_length, hop_length).T]
    if axis == 0
    else x[..., _places(x.shape[-1], frame_length, hop_length)]
)


@frame.prepare
def _(arguments):
    x, n, hop, axis = [arguments[k] for k in ("x", "frame_length", "hop_length", "axis")]
    _positive("frame(frame_length)", n)
    _positive("frame(hop_length)", hop)
    _side("frame", axis)
    if isinstance(x, Tensor):
        if x.ndim == 0:
            raise errors.bad("frame(x)", "a tensor with at least 1 dimension", x)
        if n > x.shape[axis]:
            raise errors.bad("frame(frame_length)", f"at most the length of the signal, {x.shape[axis]}", n)


@frame.infer
def _(x, frame_length, hop_length, axis):
    count = 1 + (x.shape[axis] - frame_length) // hop_length
    return sig_of((count, frame_length, *x.shape[1:]) if axis == 0 else (*x.shape[:-1], frame_length, count), x.dtype)


def _unframe(g, sigs, hop_length, axis, added):
    """The gradient of frames: each element gets those of all frames that hold it."""
    if axis != 0:
        return added(g, hop_length, sigs[0].shape[-1])
    return np.moveaxis(added(np.moveaxis(g, (0, 1), (-1, -2)), hop_length, sigs[0].shape[0]), -1, 0)


@frame.grad(numpy=lambda g, sigs, hop_length, axis: _unframe(g, sigs, hop_length, axis, _added_numpy))
def _(g, sigs, hop_length, axis):
    back = jnp.moveaxis(g, (0, 1), (-1, -2)) if axis == 0 else g
    out = _added(back, hop_length, sigs[0].shape[axis])
    return jnp.moveaxis(out, -1, 0) if axis == 0 else out


@op(public="signal.overlap_add")
def overlap_add(x: Tensor, hop_length: int, axis: int = -1) -> Tensor:
    """Reconstruct a signal from overlapping frames, which are added up.

    Args:
        x: Frames of shape ``[..., frame_length, frames]``, or ``[frames, frame_length, ...]`` with ``axis=0``.
        hop_length: Distance between the starts of neighbouring frames, at most the length of a frame.
        axis: Axis of time in the result: -1 for the last one, 0 for the first. Default: -1.

    Returns:
        Signal of length ``frame_length + (frames - 1) * hop_length`` along its last or first axis.

    Raises:
        ValueError: If ``hop_length`` is out of range.

    Examples:
        >>> bireme.signal.overlap_add(bireme.to_tensor([[1, 2, 3], [10, 20, 30]]), 1).tolist()
        [1, 12, 23, 30]
    """
    if axis != 0:
        return _added(x, hop_length)
    return jnp.moveaxis(_added(jnp.moveaxis(x, (0, 1), (-1, -2)), hop_length), -1, 0)


overlap_add.numpy_form = lambda x, hop_length, axis: (
    np.moveaxis(_added_numpy(np.moveaxis(x, (0, 1), (-1, -2)), hop_length), -1, 0)
    if axis == 0
    else _added_numpy(x, hop_length)
)


@overlap_add.prepare
def _(arguments):
    x, hop, axis = arguments["x"], arguments["hop_length"], arguments["axis"]
    _positive("overlap_add(hop_length)", hop)
    _side("overlap_add", axis)
    if isinstance(x, Tensor):
        if x.ndim < 2:
            raise errors.bad("overlap_add(x)", "a tensor with at least 2 dimensions", x)
        if hop > x.shape[1 if axis == 0 else -2]:
            raise errors.bad(
                "overlap_add(hop_length)", f"at most the length of a frame, {x.shape[1 if axis == 0 else -2]}", hop
            )


@overlap_add.infer
def _(x, hop_length, axis):
    n, count = (x.shape[1], x.shape[0]) if axis == 0 else x.shape[-2:]
    length = max(n + (count - 1) * hop_length, 0)
    return sig_of((length, *x.shape[2:]) if axis == 0 else (*x.shape[:-2], length), x.dtype)


@overlap_add.grad(numpy=True)
def _(g, sigs, hop_length, axis):
    length = sigs[0].shape[1 if axis == 0 else -2]
    if 0 in sigs[0].shape:
        return jnp.zeros(sigs[0].shape, g.dtype)
    out = _framed(_at_end(g, axis), length, hop_length)
    return jnp.moveaxis(out, (-1, -2), (0, 1)) if axis == 0 else out


def _positive(where: str, n: Any) -> None:
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
        raise errors.bad(where, "a positive integer", n, kind=errors.for_integer(n))


def _side(name: str, axis: Any) -> None:
    if axis not in (0, -1):
        raise errors.bad(f"{name}(axis)", "0 or -1", axis)


# ---------------------------------------------------------------- transforms of frames


def _sizes(name: str, n_fft: Any, hop_length: Any, win_length: Any, window: Tensor | None) -> tuple[int, int, int]:
    """The three sizes, checked; Paddle asserts them, so that is what is raised."""
    hop = None if hop_length is None else _whole(hop_length, f"{name}(hop_length)")
    length = None if win_length is None else _whole(win_length, f"{name}(win_length)")
    n_fft = _whole(n_fft, f"{name}(n_fft)")
    hop, length = n_fft // 4 if hop is None else hop, n_fft if length is None else length
    if hop < 1:
        raise errors.bad(f"{name}(hop_length)", "a positive integer", hop, kind=errors.for_integer(hop))
    if not 0 < length <= n_fft:
        raise errors.bad(
            f"{name}(win_length)", f"an integer in [1, {n_fft}], at most n_fft", length, kind=errors.for_number(length)
        )
    if window is not None and window.shape != [length]:
        raise errors.bad(f"{name}(window)", f"shape [{length}]", window, kind=errors.ArgumentError)
    return n_fft, hop, length


def _whole(n: Any, where: str) -> int:
    found = ints(n, 0, where)
    if found is None or len(found) != 1:
        raise errors.bad(where, "an integer", n, kind=errors.ArgumentTypeError)
    return found[0]


def _numbers(name: str, x: Tensor) -> Tensor:
    allowed = frozenset((dtypes.float32, dtypes.float64)) | COMPLEX
    if x.dtype in INT:
        return x.astype(dtypes.float64 if dtypes.get_default() is dtypes.float64 else dtypes.float32)
    if x.dtype not in allowed:
        raise errors.bad(
            f"{name}(x)",
            f"integers or one of {', '.join(sorted(d.name for d in allowed))}",
            described=x.dtype.name,
            kind=errors.DtypeError,
        )
    return x


def _spread(window: Tensor, n_fft: int) -> Tensor:
    """A window in the middle of a frame."""
    left = (n_fft - window.shape[0]) // 2
    return window if window.shape[0] == n_fft else pad(window, [left, n_fft - window.shape[0] - left])


@composite(method=True,
           c_ops={"stft": "x window n_fft hop_length normalized onesided; center=False pad_mode='constant'"})  # fmt: skip
def stft(x: Tensor, n_fft: Attr[int], hop_length: Attr[int] = None, win_length: Attr[int] = None,
         window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
         onesided: bool | None = None) -> Tensor:  # fmt: skip
    """Short-time Fourier transform: the Fourier transforms of overlapping, windowed frames of a signal.

    Args:
        x: Signal of shape ``[length]`` or ``[batch, length]``, float32, float64 or complex; integers become the default
            dtype.
        n_fft: Length of each frame and its transform, at most that of the signal.
        hop_length: Distance between the starts of neighbouring frames. Default: None, ``n_fft // 4``.
        win_length: Length of the window, which is padded with zeros on both sides to ``n_fft``. Default: None,
            ``n_fft``.
        window: 1-D tensor of size ``win_length`` to multiply each frame by. Default: None, ones.
        center: Whether to pad the signal by ``n_fft // 2`` on both sides, so that frame ``t`` is centred at
            ``t * hop_length``. Default: True.
        pad_mode: How to pad for ``center``: ``'reflect'``, or ``'constant'`` with zeros. Default: ``'reflect'``.
        normalized: Whether to divide by the square root of ``n_fft``. Default: False.
        onesided: Whether to return only the ``n_fft // 2 + 1`` non-negative frequencies; not for complex signals or
            windows. Default: None, ``True`` for real ones.

    Returns:
        Complex tensor of shape ``[..., frequencies, frames]``.

    Raises:
        ValueError: If a shape or a size does not fit.

    Examples:
        >>> bireme.signal.stft(bireme.ones([16]), 8).shape
        [5, 9]
    """
    n_fft, hop, length = _sizes("stft", n_fft, hop_length, win_length, window)
    if x.ndim not in (1, 2):
        raise errors.bad("stft(x)", "a 1-D or 2-D tensor", x, kind=errors.ArgumentError)
    if pad_mode not in ("reflect", "constant"):
        raise errors.bad("stft(pad_mode)", "'reflect' or 'constant'", pad_mode, kind=errors.ArgumentError)
    if not 0 < n_fft <= x.shape[-1]:
        raise errors.bad(
            "stft(n_fft)",
            f"an integer in [1, {x.shape[-1]}], at most the length of the signal",
            n_fft,
            kind=errors.for_number(n_fft),
        )
    x = _numbers("stft", x)
    is_complex = x.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if onesided is None:
        onesided = not is_complex
    if onesided and is_complex:
        raise errors.bad("stft(onesided)", "False for complex signals or windows", onesided, kind=errors.ArgumentError)
    rows = x if x.ndim == 2 else x.unsqueeze(0)
    if center and n_fft > 1:
        rows = pad(rows.unsqueeze(1), [n_fft // 2, n_fft // 2], mode=pad_mode, data_format="NCL").squeeze(1)
    frames = frame(rows, n_fft, hop).transpose([0, 2, 1])
    if window is None and length < n_fft:
        window = ones([length], x.dtype)
    if window is not None:
        frames = frames * _spread(window if window.dtype.is_inexact else window.astype(frames.dtype), n_fft)
    made = fft_r2c if onesided else fft_c2c
    found = made(frames, (2,), (n_fft,), "ortho" if normalized else "backward", True).transpose([0, 2, 1])
    return found if x.ndim == 2 else found.squeeze(0)


@composite(method=True)
def istft(x: Tensor, n_fft: Attr[int], hop_length: Attr[int] = None, win_length: Attr[int] = None,
          window: Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool = True,
          length: Attr[int] = None, return_complex: bool = False) -> Tensor:  # fmt: skip
    """Inverse short-time Fourier transform: the signal from the transforms of its overlapping frames.

    The windowed frames are added up and divided by the sum of the squared windows, which gives the signal whose
    ``stft`` is closest to ``x``.

    Args:
        x: Transforms of shape ``[frequencies, frames]`` or ``[batch, frequencies, frames]``.
        n_fft: Length of each frame.
        hop_length: Distance between the starts of neighbouring frames, at most the length of the window. Default: None,
            ``n_fft // 4``.
        win_length: Length of the window, which is padded with zeros on both sides to ``n_fft``. Default: None,
            ``n_fft``.
        window: 1-D tensor of size ``win_length``, the window of the transform. Default: None, ones.
        center: Whether the signal was padded by ``n_fft // 2`` on both sides, which is removed. Default: True.
        normalized: Whether the transform was divided by the square root of ``n_fft``. Default: False.
        onesided: Whether ``x`` has only the ``n_fft // 2 + 1`` non-negative frequencies. Default: True.
        length: Length of the signal, to cut it at. Default: None, all that the frames give.
        return_complex: Whether the signal is complex; needs ``onesided=False``. Default: False.

    Returns:
        Tensor of shape ``[length]`` or ``[batch, length]``.

    Raises:
        ValueError: If a shape or a size does not fit, or the windows leave out samples.

    Examples:
        >>> bireme.signal.istft(bireme.signal.stft(bireme.ones([16]), 8), 8).shape
        [16]
    """
    n_fft, hop, width = _sizes("istft", n_fft, hop_length, win_length, window)
    _check_spectrum(x, n_fft, onesided, return_complex, window)
    if hop > width:
        raise errors.bad(
            "istft(hop_length)", f"at most the length of the window, {width}", hop, kind=errors.ArgumentError
        )
    x = _numbers("istft", x)
    rows = (x if x.ndim == 3 else x.unsqueeze(0)).transpose([0, 2, 1])
    norm = "ortho" if normalized else "backward"
    if return_complex:
        frames = fft_c2c(rows, (2,), (n_fft,), norm, False)
    else:
        frames = fft_c2r(rows, (2,), (n_fft,), norm, False)
    given = window
    if window is None:
        window = ones([width], dtypes.real_of(x.dtype))
    window = _spread(window if window.dtype.is_inexact else window.astype(frames.dtype), n_fft)
    total = overlap_add((frames * window).transpose([0, 2, 1]), hop)
    weight = overlap_add((window * window).unsqueeze(-1).expand([n_fft, x.shape[-1]]), hop)
    first = n_fft // 2 if center else 0
    last = total.shape[-1] - first if length is None else min(first + _whole(length, "istft(length)"), total.shape[-1])
    if last <= first:
        raise errors.bad("istft(x)", "frames that leave at least one sample", x)
    weight = weight[first:last]
    if given is not None:
        _must_cover(given, n_fft, weight, (hop, x.shape[-1], first, last))
    found = total[:, first:last] / weight
    return found if x.ndim == 3 else found.squeeze(0)


def _check_spectrum(x: Tensor, n_fft: int, onesided: bool, return_complex: bool, window: Tensor | None) -> None:
    if x.ndim not in (2, 3):
        raise errors.bad("istft(x)", "a 2-D or 3-D tensor", x, kind=errors.ArgumentError)
    if x._value.sig.size == 0:
        raise errors.bad("istft(x)", "at least one element", x, kind=errors.ArgumentError)
    if x.shape[-2] != (n_fft // 2 + 1 if onesided else n_fft):
        wanted = f"n_fft // 2 + 1 = {n_fft // 2 + 1} frequencies" if onesided else f"n_fft = {n_fft} frequencies"
        raise errors.bad("istft(x)", wanted, described=f"shape {x.shape}", kind=errors.ShapeError)
    if return_complex and onesided:
        raise errors.bad("istft(onesided)", "False where the result is complex", onesided, kind=errors.ArgumentError)
    if not return_complex and window is not None and window.dtype.is_complex:
        raise errors.bad(
            "istft(window)",
            "a real window, or return_complex=True",
            described=window.dtype.name,
            kind=errors.ArgumentError,
        )


def _must_cover(window: Tensor, n_fft: int, weight: Tensor, plan: tuple[int, int, int, int]) -> None:
    """Raise unless every sample is under a window."""

    def left_out(array: np.ndarray) -> bool:
        hop, count, first, last = plan
        left = (n_fft - window.shape[0]) // 2
        square = np.pad(array * array, (left, n_fft - array.size - left))
        return bool((np.abs(_added_numpy(np.repeat(square[:, None], count, 1), hop)[first:last]) < 1e-11).any())

    guards.require(
        read(window),
        "istft(window)",
        "windows that cover every sample with a nonzero sum of squares",
        host=left_out,
        device=lambda: (weight.abs() < 1e-11).any(),
        got="windows that leave samples out",
        of=read(weight),
    )
