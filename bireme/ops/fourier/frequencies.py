"""Frequencies of Fourier transforms: their values and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.conversion import ints, one_axis
from bireme.core.declare.op import Attr, DTypeArg, Tensor, composite
from bireme.ops.creation.tensors import arange


def _frequencies(name: str, k: Any, n: int, d: float, dtype: Any) -> Tensor:
    kind = dtypes.get_default() if dtype is None else dtype
    if kind not in dtypes.FLOAT:
        raise errors.bad(f"{name}(dtype)", "a floating-point dtype", described=kind.name, kind=errors.ArgumentTypeError)
    if n < 1:
        raise errors.bad(f"{name}(n)", "a positive integer", n, kind=errors.for_integer(n))
    if d == 0:
        raise errors.bad(f"{name}(d)", "a nonzero number", d)
    return k().astype(kind) / (n * d)


@composite()
def fftfreq(n: int, d: float = 1.0, dtype: DTypeArg = None) -> Tensor:
    """Frequencies of the elements of ``fft``, in cycles per unit of the sample spacing.

    Args:
        n: Number of samples, at least 1.
        d: Sample spacing. Default: 1.0.
        dtype: Floating-point dtype of the result. Default: None, the default dtype.

    Returns:
        1-D tensor of size ``n``: zero, the positive frequencies, then the negative ones.

    Raises:
        ValueError: If ``n`` is less than 1, or ``d`` is 0.

    Examples:
        >>> bireme.fft.fftfreq(4).tolist()
        [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", lambda: (arange(n) + n // 2) % n - n // 2, n, d, dtype)


@composite()
def rfftfreq(n: int, d: float = 1.0, dtype: DTypeArg = None) -> Tensor:
    """Frequencies of the elements of ``rfft``, in cycles per unit of the sample spacing.

    Args:
        n: Number of samples, at least 1.
        d: Sample spacing. Default: 1.0.
        dtype: Floating-point dtype of the result. Default: None, the default dtype.

    Returns:
        1-D tensor of size ``n // 2 + 1``: zero and the positive frequencies.

    Raises:
        ValueError: If ``n`` is less than 1, or ``d`` is 0.

    Examples:
        >>> bireme.fft.rfftfreq(4).tolist()
        [0.0, 0.25, 0.5]
    """
    return _frequencies("rfftfreq", lambda: arange(n // 2 + 1), n, d, dtype)


def _shifted(name: str, x: Tensor, axes: Any, shift: Any) -> Tensor:
    if x.ndim == 0:
        return x.clone()
    given = range(x.ndim) if axes is None else ints(axes, x.ndim, f"{name}(axes)")
    found = [one_axis(a, x.ndim, f"{name}(axes)") for a in given]
    if len(set(found)) != len(found):
        raise errors.bad(f"{name}(axes)", "different axes", axes)
    return x.roll([shift(x.shape[a]) for a in found], found) if found else x.clone()


@composite()
def fftshift(x: Tensor, axes: Attr[int | Sequence[int]] = None) -> Tensor:
    """Shift the zero frequency from the start to the middle of the given axes.

    Args:
        x: Input tensor.
        axes: Axis or axes to shift; ``None`` means all. Default: None.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.fft.fftshift(bireme.to_tensor([0, 1, 2, -2, -1])).tolist()
        [-2, -1, 0, 1, 2]
    """
    return _shifted("fftshift", x, axes, lambda n: n // 2)


@composite()
def ifftshift(x: Tensor, axes: Attr[int | Sequence[int]] = None) -> Tensor:
    """Inverse of ``fftshift``: shift the zero frequency from the middle back to the start.

    Args:
        x: Input tensor.
        axes: Axis or axes to shift; ``None`` means all. Default: None.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.fft.ifftshift(bireme.to_tensor([-2, -1, 0, 1, 2])).tolist()
        [0, 1, 2, -2, -1]
    """
    return _shifted("ifftshift", x, axes, lambda n: -(n // 2))
