"""Discrete Fourier transforms over any axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare import precision
from bireme.core.declare.conversion import ints, one_axis
from bireme.core.declare.op import Attr, Ints, Tensor, composite, op
from bireme.core.graph.graph import sig_of

# the transform the other way, with the factor of this one, is the adjoint: what gradients go through
_ADJOINT = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _resized(x, axes, sizes):
    """Axes cut at their end, or padded with zeros."""
    for a, n in zip(axes, sizes):
        if x.shape[a] > n:
            x = x[(slice(None),) * a + (slice(0, n),)]
        elif x.shape[a] < n:
            x = jnp.pad(x, [(0, n - x.shape[a] if i == a else 0) for i in range(x.ndim)])
    return x


def _scaled(x, sizes, norm, forward):
    """What jnp.fft gives (forwards as it is, backwards divided by the number of elements) in another norm."""
    n = math.prod(sizes)
    if norm == "ortho":
        return x * n ** (-0.5 if forward else 0.5)
    if norm == "backward":
        return x
    return x / n if forward else x * n


def _complex(x, axes, norm, forward):
    if x.size == 0:
        return x + jnp.zeros((), jnp.result_type(x.dtype, jnp.complex64))
    run = jnp.fft.fftn if forward else jnp.fft.ifftn
    sizes = [x.shape[a] for a in axes]
    for i in range(0, len(axes), 3):  # XLA transforms at most three axes at once
        x = run(x, axes=axes[i : i + 3])
    return _scaled(x, sizes, norm, forward)


def _half(x, axes, norm, forward):
    """The first half of the spectrum of real numbers: the last of `axes` is halved."""
    sizes = [x.shape[a] for a in axes]
    if x.size == 0:
        shape = [n // 2 + 1 if a == axes[-1] else n for a, n in enumerate(x.shape)]
        return jnp.zeros(shape, jnp.result_type(x.dtype, jnp.complex64))
    y = jnp.fft.rfftn(x, axes=axes[-3:])
    for i in range(0, len(axes) - 3, 3):
        y = jnp.fft.fftn(y, axes=axes[:-3][i : i + 3])
    return _scaled(y, sizes, norm, True) if forward else _scaled(jnp.conj(y) / math.prod(sizes), sizes, norm, False)


def _real(x, axes, n, norm, forward):
    """Real numbers from the first half of their spectrum; the last of `axes` gets `n` elements."""
    sizes = [*[x.shape[a] for a in axes[:-1]], n]
    if x.size == 0 or n == 0:
        return jnp.zeros([n if a == axes[-1] else m for a, m in enumerate(x.shape)], x.real.dtype)
    x = jnp.conj(x) if forward else x
    for i in range(0, len(axes) - 3, 3):
        x = jnp.fft.ifftn(x, axes=axes[:-3][i : i + 3])
    y = jnp.fft.irfftn(x, s=sizes[-3:], axes=axes[-3:])
    return _scaled(y * math.prod(sizes), sizes, norm, True) if forward else _scaled(y, sizes, norm, False)


def _weighed(x, axis, n, inner):
    """Half a spectrum with its inner elements, which represent two each, multiplied by a number."""
    ends = [1.0 if k == 0 or 2 * k == n else inner for k in range(n // 2 + 1)]
    shape = [len(ends) if a == axis else 1 for a in range(x.ndim)]
    return x * jnp.asarray(ends, x.real.dtype).reshape(shape)


# ---------------------------------------------------------------- the three kinds


@op(internal=True, numpy=True)
def fft_c2c(x: Tensor, axes: Ints, sizes: Ints, norm: str, forward: bool) -> Tensor:
    """The transform of real or complex numbers, forwards or backwards; use `fftn`."""
    return _complex(_resized(x, axes, sizes), axes, norm, forward)


@fft_c2c.infer
def _(x, axes, sizes):
    return sig_of(_with(x.shape, axes, sizes), dtypes.complex_of(x.dtype))


@fft_c2c.grad(numpy=True)
def _(g, sigs, axes, norm, forward):
    return _resized(_complex(g, axes, _ADJOINT[norm], not forward), axes, [sigs[0].shape[a] for a in axes])


@op(internal=True, numpy=True)
def fft_r2c(x: Tensor, axes: Ints, sizes: Ints, norm: str, forward: bool) -> Tensor:
    """The first half of the transform of real numbers; use `rfftn` or `ihfftn`."""
    return _half(_resized(x, axes, sizes), axes, norm, forward)


@fft_r2c.infer
def _(x, axes, sizes):
    return sig_of(_with(x.shape, axes, (*sizes[:-1], sizes[-1] // 2 + 1)), dtypes.complex_of(x.dtype))


@fft_r2c.grad(numpy=True)
def _(g, sigs, axes, sizes, norm, forward):
    n = sizes[-1]
    whole = _real(_weighed(g, axes[-1], n, 0.5), axes, n, _ADJOINT[norm], not forward)
    return _resized(whole, axes, [sigs[0].shape[a] for a in axes])


@op(internal=True, numpy=True)
def fft_c2r(x: Tensor, axes: Ints, sizes: Ints, norm: str, forward: bool) -> Tensor:
    """Real numbers from the first half of their transform; use `irfftn` or `hfftn`."""
    return _real(_resized(x, axes, (*sizes[:-1], sizes[-1] // 2 + 1)), axes, sizes[-1], norm, forward)


@fft_c2r.infer
def _(x, axes, sizes):
    return sig_of(_with(x.shape, axes, sizes), dtypes.real_of(x.dtype))


@fft_c2r.grad(numpy=True)
def _(g, sigs, axes, sizes, norm, forward):
    half = _weighed(_half(g, axes, _ADJOINT[norm], not forward), axes[-1], sizes[-1], 2.0)
    return _resized(half, axes, [sigs[0].shape[a] for a in axes])


def _with(shape: tuple[int, ...], axes: Any, sizes: Any) -> tuple[int, ...]:
    found = dict(zip(axes, sizes))
    return tuple([found.get(a, n) for a, n in enumerate(shape)])


# ---------------------------------------------------------------- arguments

_KINDS = frozenset((dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))


def _transform(name: str, made: Any, x: Tensor, s: Any, axes: Any, norm: Any, forward: bool) -> Tensor:
    """Check a call's arguments and record it: sizes and axes as sequences or None, as for n axes."""
    if norm not in _ADJOINT:
        raise errors.bad(f"{name}(norm)", "'backward', 'ortho' or 'forward'", norm)
    if x.ndim == 0:
        raise errors.bad(f"{name}(x)", "a tensor with at least 1 dimension", x)
    sizes = None if s is None else _sizes(name, s)
    if axes is None:
        found = range(x.ndim)[-len(sizes) :] if sizes is not None else range(x.ndim)
        if sizes is not None and len(sizes) > x.ndim:
            raise errors.bad(f"{name}(s)", f"at most {x.ndim} sizes, one for each axis", list(sizes))
    else:
        found = [one_axis(a, x.ndim, f"{name}({'axis' if name[-1] == 't' else 'axes'})") for a in axes]
        if not found or len(set(found)) != len(found):
            raise errors.bad(f"{name}(axes)", "one or more different axes", list(axes))
        if sizes is not None and len(sizes) != len(found):
            raise errors.bad(f"{name}(s)", f"{len(found)} sizes, one for each of axes", list(sizes))
    if sizes is None:
        sizes = [x.shape[a] for a in found]
        if made is fft_c2r:
            sizes[-1] = 2 * (sizes[-1] - 1)
            if sizes[-1] < 0:
                raise errors.bad(f"{name}(x)", f"at least one element along axis {found[-1]}", x)
    return made(_numbers(name, x, made), tuple(found), tuple(sizes), norm, forward)


def _sizes(name: str, s: Any) -> list[int]:
    one = name[-1] == "t"  # a transform of one axis, whose size users give as a number
    where = f"{name}({'n' if one else 's'})"
    found = ints(s, 0, where)
    if not found or min(found) < 1:
        raise errors.bad(where, "a positive size" if one else "positive sizes", s[0] if one else s)
    return list(found)


def _numbers(name: str, x: Tensor, made: Any) -> Tensor:
    """`x` in a dtype that can be transformed: integers become floats."""
    kind = x.dtype
    if kind.is_integer:
        return x.astype(dtypes.float64 if dtypes.get_default() is dtypes.float64 else dtypes.float32)
    if kind in precision.HALF and precision.state.policy is not None:
        return x.astype(dtypes.float32)  # there is no half form: mixed precision computes in float32
    allowed = _KINDS - dtypes.COMPLEX if made is fft_r2c else _KINDS
    if kind not in allowed:
        raise errors.bad(
            f"{name}(x)",
            f"integers or one of {', '.join(sorted(d.name for d in allowed))}",
            described=kind.name,
            kind=errors.DtypeError,
        )
    return x


def _one(name: str, made: Any, x: Tensor, n: Any, axis: Any, norm: Any, forward: bool) -> Tensor:
    if isinstance(n, (list, tuple)):
        raise errors.bad(f"{name}(n)", "an integer", n, kind=errors.ArgumentTypeError)
    return _transform(name, made, x, None if n is None else [n], [-1 if axis is None else axis], norm, forward)


def _two(name: str, made: Any, x: Tensor, s: Any, axes: Any, norm: Any, forward: bool) -> Tensor:
    if x.ndim < 2:
        raise errors.bad(f"{name}(x)", "a tensor with at least 2 dimensions", x)
    for word, given in (("s", s), ("axes", axes)):
        if given is not None and (not hasattr(given, "__len__") or len(given) != 2):
            raise errors.bad(f"{name}({word})", "two integers", given)
    return _transform(name, made, x, s, axes, norm, forward)


def _many(name: str, made: Any, x: Tensor, s: Any, axes: Any, norm: Any, forward: bool) -> Tensor:
    for word, given in (("s", s), ("axes", axes)):
        if given is not None and not isinstance(given, (list, tuple, range, Tensor)):
            raise errors.bad(f"{name}({word})", "a sequence of integers", given)
    return _transform(name, made, x, s, axes, norm, forward)


# ---------------------------------------------------------------- along one axis


@composite()
def fft(x: Tensor, n: Attr[int] = None, axis: Attr[int] = -1, norm: str = "backward") -> Tensor:
    """Discrete Fourier transform along one axis.

    Args:
        x: Input tensor, float32, float64 or complex; integers become floating-point numbers.
        n: Number of elements along the axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the size of the axis.
        axis: Axis to transform. Default: -1.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor of the shape of ``x``, with size ``n`` along the axis.

    Raises:
        ValueError: If ``n`` is less than 1, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.fft(bireme.to_tensor([1.0, 2.0])).tolist()
        [(3+0j), (-1+0j)]
    """
    return _one("fft", fft_c2c, x, n, axis, norm, True)


@composite()
def ifft(x: Tensor, n: Attr[int] = None, axis: Attr[int] = -1, norm: str = "backward") -> Tensor:
    """Inverse discrete Fourier transform along one axis.

    Args:
        x: Input tensor, float32, float64 or complex; integers become floating-point numbers.
        n: Number of elements along the axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the size of the axis.
        axis: Axis to transform. Default: -1.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor of the shape of ``x``, with size ``n`` along the axis.

    Raises:
        ValueError: If ``n`` is less than 1, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.ifft(bireme.to_tensor([3.0, -1.0])).tolist()
        [(1+0j), (2+0j)]
    """
    return _one("ifft", fft_c2c, x, n, axis, norm, False)


@composite()
def rfft(x: Tensor, n: Attr[int] = None, axis: Attr[int] = -1, norm: str = "backward") -> Tensor:
    """Discrete Fourier transform of real numbers along one axis.

    Only the non-negative frequencies are returned: the others are their complex conjugates.

    Args:
        x: Real input tensor, float32 or float64; integers become floating-point numbers.
        n: Number of elements along the axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the size of the axis.
        axis: Axis to transform. Default: -1.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor of the shape of ``x``, with size ``n // 2 + 1`` along the axis.

    Raises:
        ValueError: If ``n`` is less than 1, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.rfft(bireme.to_tensor([1.0, 2.0, 3.0, 4.0])).tolist()
        [(10+0j), (-2+2j), (-2+0j)]
    """
    return _one("rfft", fft_r2c, x, n, axis, norm, True)


@composite()
def irfft(x: Tensor, n: Attr[int] = None, axis: Attr[int] = -1, norm: str = "backward") -> Tensor:
    """Inverse of ``rfft``: real numbers from the non-negative frequencies.

    The size of the result is even by default; pass ``n`` to get back an odd one.

    Args:
        x: First half of a spectrum with Hermitian symmetry along the axis, float32, float64 or complex; integers become
            floating-point numbers.
        n: Number of elements of the result along the axis. Default: None, ``2 * (m - 1)`` for ``m`` elements.
        axis: Axis to transform. Default: -1.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Tensor of real numbers with size ``n`` along the axis.

    Raises:
        ValueError: If ``n`` is less than 1, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.irfft(bireme.to_tensor([10.0, -2 + 2j, -2.0])).tolist()
        [1.0, 2.0, 3.0, 4.0]
    """
    return _one("irfft", fft_c2r, x, n, axis, norm, False)


@composite()
def hfft(x: Tensor, n: Attr[int] = None, axis: Attr[int] = -1, norm: str = "backward") -> Tensor:
    """Discrete Fourier transform of a signal with Hermitian symmetry, given by its first half.

    Such a signal equals its own conjugate in reverse, so its spectrum is real.

    Args:
        x: First half of a signal with Hermitian symmetry along the axis, float32, float64 or complex; integers become
            floating-point numbers.
        n: Number of elements of the result along the axis. Default: None, ``2 * (m - 1)`` for ``m`` elements.
        axis: Axis to transform. Default: -1.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Tensor of real numbers with size ``n`` along the axis.

    Raises:
        ValueError: If ``n`` is less than 1, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.hfft(bireme.to_tensor([1.0, 2.0, 3.0])).tolist()
        [8.0, -2.0, 0.0, -2.0]
    """
    return _one("hfft", fft_c2r, x, n, axis, norm, True)


@composite()
def ihfft(x: Tensor, n: Attr[int] = None, axis: Attr[int] = -1, norm: str = "backward") -> Tensor:
    """Inverse of ``hfft``: the first half of a signal with Hermitian symmetry, from its real spectrum.

    Args:
        x: Real input tensor, float32 or float64; integers become floating-point numbers.
        n: Number of elements along the axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the size of the axis.
        axis: Axis to transform. Default: -1.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor of the shape of ``x``, with size ``n // 2 + 1`` along the axis.

    Raises:
        ValueError: If ``n`` is less than 1, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.ihfft(bireme.to_tensor([8.0, -2.0, 0.0, -2.0])).real().tolist()
        [1.0, 2.0, 3.0]
    """
    return _one("ihfft", fft_r2c, x, n, axis, norm, False)


# ---------------------------------------------------------------- along two axes


@composite()
def fft2(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = (-2, -1),
         norm: str = "backward") -> Tensor:  # fmt: skip
    """Discrete Fourier transform along two axes.

    Args:
        x: Input tensor, float32, float64 or complex; integers become floating-point numbers.
        s: Number of elements along each axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the sizes of ``x``.
        axes: The two axes to transform. Default: ``(-2, -1)``.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor with the sizes ``s`` along the axes.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.fft2(bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return _two("fft2", fft_c2c, x, s, axes, norm, True)


@composite()
def ifft2(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = (-2, -1),
          norm: str = "backward") -> Tensor:  # fmt: skip
    """Inverse discrete Fourier transform along two axes.

    Args:
        x: Input tensor, float32, float64 or complex; integers become floating-point numbers.
        s: Number of elements along each axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the sizes of ``x``.
        axes: The two axes to transform. Default: ``(-2, -1)``.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor with the sizes ``s`` along the axes.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.ifft2(bireme.to_tensor([[10.0, -2.0], [-4.0, 0.0]])).real().tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    return _two("ifft2", fft_c2c, x, s, axes, norm, False)


@composite()
def rfft2(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = (-2, -1),
          norm: str = "backward") -> Tensor:  # fmt: skip
    """Discrete Fourier transform of real numbers along two axes.

    Along the last of the axes only the non-negative frequencies are returned: the others follow from them.

    Args:
        x: Real input tensor, float32 or float64; integers become floating-point numbers.
        s: Number of elements along each axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the sizes of ``x``.
        axes: The two axes to transform. Default: ``(-2, -1)``.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor with the sizes ``s`` along the axes, and ``s[-1] // 2 + 1`` along the last of them.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.rfft2(bireme.ones([4, 6])).shape
        [4, 4]
    """
    return _two("rfft2", fft_r2c, x, s, axes, norm, True)


@composite()
def irfft2(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = (-2, -1),
           norm: str = "backward") -> Tensor:  # fmt: skip
    """Inverse of ``rfft2``: real numbers from half a spectrum, along two axes.

    Args:
        x: First half of a spectrum with Hermitian symmetry along the last of the axes, float32, float64 or complex;
            integers become floating-point numbers.
        s: Sizes of the result along the axes. Default: None, those of ``x``, with ``2 * (m - 1)`` for the last one of
            size ``m``.
        axes: The two axes to transform. Default: ``(-2, -1)``.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Tensor of real numbers with the sizes ``s`` along the axes.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.irfft2(bireme.to_tensor([[10.0, -2.0], [-4.0, 0.0]])).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    return _two("irfft2", fft_c2r, x, s, axes, norm, False)


@composite()
def hfft2(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = (-2, -1),
          norm: str = "backward") -> Tensor:  # fmt: skip
    """Discrete Fourier transform of a signal with Hermitian symmetry along two axes, given by its first half.

    Such a signal equals its own conjugate reversed along the axes, so its spectrum is real.

    Args:
        x: First half of a signal with Hermitian symmetry along the last of the axes, float32, float64 or complex;
            integers become floating-point numbers.
        s: Sizes of the result along the axes. Default: None, those of ``x``, with ``2 * (m - 1)`` for the last one of
            size ``m``.
        axes: The two axes to transform. Default: ``(-2, -1)``.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Tensor of real numbers with the sizes ``s`` along the axes.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.hfft2(bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _two("hfft2", fft_c2r, x, s, axes, norm, True)


@composite()
def ihfft2(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = (-2, -1),
           norm: str = "backward") -> Tensor:  # fmt: skip
    """Inverse of ``hfft2``: the first half of a signal with Hermitian symmetry, from its real spectrum.

    Args:
        x: Real input tensor, float32 or float64; integers become floating-point numbers.
        s: Number of elements along each axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the sizes of ``x``.
        axes: The two axes to transform. Default: ``(-2, -1)``.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor with the sizes ``s`` along the axes, and ``s[-1] // 2 + 1`` along the last of them.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.ihfft2(bireme.to_tensor([[10.0, -2.0], [-4.0, 0.0]])).real().tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    return _two("ihfft2", fft_r2c, x, s, axes, norm, False)


# ---------------------------------------------------------------- along many axes


@composite()
def fftn(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = None, norm: str = "backward") -> Tensor:
    """Discrete Fourier transform along several axes.

    Args:
        x: Input tensor, float32, float64 or complex; integers become floating-point numbers.
        s: Number of elements along each axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the sizes of ``x``.
        axes: Axes to transform. Default: None, as many of the last ones as ``s`` has sizes, or all.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor with the sizes ``s`` along the axes.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.fftn(bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return _many("fftn", fft_c2c, x, s, axes, norm, True)


@composite()
def ifftn(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = None, norm: str = "backward") -> Tensor:
    """Inverse discrete Fourier transform along several axes.

    Args:
        x: Input tensor, float32, float64 or complex; integers become floating-point numbers.
        s: Number of elements along each axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the sizes of ``x``.
        axes: Axes to transform. Default: None, as many of the last ones as ``s`` has sizes, or all.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor with the sizes ``s`` along the axes.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.ifftn(bireme.to_tensor([[10.0, -2.0], [-4.0, 0.0]])).real().tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    return _many("ifftn", fft_c2c, x, s, axes, norm, False)


@composite()
def rfftn(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = None, norm: str = "backward") -> Tensor:
    """Discrete Fourier transform of real numbers along several axes.

    Along the last of the axes only the non-negative frequencies are returned: the others follow from them.

    Args:
        x: Real input tensor, float32 or float64; integers become floating-point numbers.
        s: Number of elements along each axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the sizes of ``x``.
        axes: Axes to transform. Default: None, as many of the last ones as ``s`` has sizes, or all.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor with the sizes ``s`` along the axes, and ``s[-1] // 2 + 1`` along the last of them.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.rfftn(bireme.ones([2, 4, 6])).shape
        [2, 4, 4]
    """
    return _many("rfftn", fft_r2c, x, s, axes, norm, True)


@composite()
def irfftn(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = None,
           norm: str = "backward") -> Tensor:  # fmt: skip
    """Inverse of ``rfftn``: real numbers from half a spectrum, along several axes.

    Args:
        x: First half of a spectrum with Hermitian symmetry along the last of the axes, float32, float64 or complex;
            integers become floating-point numbers.
        s: Sizes of the result along the axes. Default: None, those of ``x``, with ``2 * (m - 1)`` for the last one of
            size ``m``.
        axes: Axes to transform. Default: None, as many of the last ones as ``s`` has sizes, or all.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Tensor of real numbers with the sizes ``s`` along the axes.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.irfftn(bireme.to_tensor([[10.0, -2.0], [-4.0, 0.0]])).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    return _many("irfftn", fft_c2r, x, s, axes, norm, False)


@composite()
def hfftn(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = None, norm: str = "backward") -> Tensor:
    """Discrete Fourier transform of a signal with Hermitian symmetry along several axes, given by its first half.

    Such a signal equals its own conjugate reversed along the axes, so its spectrum is real.

    Args:
        x: First half of a signal with Hermitian symmetry along the last of the axes, float32, float64 or complex;
            integers become floating-point numbers.
        s: Sizes of the result along the axes. Default: None, those of ``x``, with ``2 * (m - 1)`` for the last one of
            size ``m``.
        axes: Axes to transform. Default: None, as many of the last ones as ``s`` has sizes, or all.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Tensor of real numbers with the sizes ``s`` along the axes.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.hfftn(bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _many("hfftn", fft_c2r, x, s, axes, norm, True)


@composite()
def ihfftn(x: Tensor, s: Attr[Sequence[int]] = None, axes: Attr[Sequence[int]] = None,
           norm: str = "backward") -> Tensor:  # fmt: skip
    """Inverse of ``hfftn``: the first half of a signal with Hermitian symmetry, from its real spectrum.

    Args:
        x: Real input tensor, float32 or float64; integers become floating-point numbers.
        s: Number of elements along each axis to transform; longer ones are cut, shorter ones padded with zeros.
            Default: None, the sizes of ``x``.
        axes: Axes to transform. Default: None, as many of the last ones as ``s`` has sizes, or all.
        norm: Where the result is scaled by ``1 / n``, for ``n`` elements: ``'backward'`` in inverse transforms,
            ``'forward'`` in forward ones, ``'ortho'`` by ``1 / sqrt(n)`` in both. Default: ``'backward'``.

    Returns:
        Complex tensor with the sizes ``s`` along the axes, and ``s[-1] // 2 + 1`` along the last of them.

    Raises:
        ValueError: If axes and sizes do not fit, or there is no such ``norm``.

    Examples:
        >>> bireme.fft.ihfftn(bireme.to_tensor([[10.0, -2.0], [-4.0, 0.0]])).real().tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    return _many("ihfftn", fft_r2c, x, s, axes, norm, False)
