"""Pooling into a given number of results: windows as even as the size of an axis allows, or of random sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Sizes, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.precision import widen
from bireme.ops.nn import window_args
from bireme.ops.nn.conv_lowering import back, move
from bireme.ops.nn.max_pool import max_pool_of, max_pool_places, scattered
from bireme.ops.random.generators import rand


def _sizes(name: str, n: int, x: Any, output_size: Any, last: bool) -> tuple[int, ...]:
    """The sizes asked for; None keeps an axis as it is."""
    window_args.check_image(name, x, n, last)
    dims = window_args.spatial(x.shape, last)
    if isinstance(output_size, (list, tuple)) and len(output_size) == n:
        output_size = [m if size is None else size for m, size in zip(dims, output_size)]
    return window_args.per_axis(output_size, n, f"{name}(output_size)", least=0)


def _bounds(n: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """First elements of the windows, and the first ones after them; they overlap where the size is no multiple."""
    i = np.arange(size)
    return i * n // max(size, 1), -(-(i + 1) * n // max(size, 1))


def _sized(x, sizes, last):
    return (x.shape[0], *sizes, x.shape[-1]) if last else (*x.shape[:2], *sizes)


# ---------------------------------------------------------------- means


def _mean(x, output_size, data_format):
    last = data_format[-1] == "C"
    if not all(window_args.spatial(x.shape, last)):  # the mean of nothing
        return jnp.full(_sized(x, output_size, last), np.nan, x.dtype)
    image = widen(move(x, last))
    whole = [n % size == 0 if size else False for n, size in zip(image.shape[1:-1], output_size)]
    shape, axes = [image.shape[0]], []
    for n, size, even in zip(image.shape[1:-1], output_size, whole):
        shape += [size, n // size] if even else [n]
        axes += [len(shape) - 1] if even else []
    image = image.reshape(*shape, image.shape[-1]).mean(tuple(axes), dtype=image.dtype)
    for i, (n, size) in enumerate(zip(window_args.spatial(x.shape, last), output_size)):
        if not whole[i]:
            image = jnp.moveaxis(jnp.tensordot(image, _shares(n, size, image.dtype), ((i + 1,), (1,))), -1, i + 1)
    return back(image.astype(x.dtype), last)


def _shares(n, size, dtype):
    """How much each element counts in each mean."""
    low, high = _bounds(n, size)
    at = np.arange(n)
    inside = (at >= low[:, None]) & (at < high[:, None])
    return (inside / np.maximum(high - low, 1)[:, None]).astype(dtype)


def _mean_grad(g, sigs, output_size, data_format):
    last = data_format[-1] == "C"
    if not all(window_args.spatial(sigs[0].shape, last)):
        return jnp.zeros(sigs[0].shape, g.dtype)
    image = widen(move(g, last))
    for i, (n, size) in enumerate(zip(window_args.spatial(sigs[0].shape, last), output_size)):
        if size and n % size == 0:
            image = jnp.repeat(image * np.asarray(size / n, image.dtype), n // size, axis=i + 1)
        else:
            image = jnp.moveaxis(jnp.tensordot(image, _shares(n, size, image.dtype), ((i + 1,), (0,))), -1, i + 1)
    return back(image.astype(g.dtype), last)


def _complete(name: str, n: int) -> Any:
    def prepare(arguments):
        x = arguments["x"]
        if isinstance(x, Tensor):
            last = window_args.channels_last(arguments.get("data_format", window_args.FORMATS[n][0]), n, name)
            arguments["output_size"] = _sizes(name, n, x, arguments["output_size"], last)

    return prepare


@op(dtypes=FLOAT, numpy=True)
def adaptive_avg_pool1d(x: Tensor, output_size: Sizes) -> Tensor:
    """Adaptive average pooling of sequences: the mean of each of a given number of windows.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``, so that
    windows overlap where ``size``, that of the input, is no multiple of ``n``.

    Args:
        x: Input tensor of shape ``[N, C, L]``, of a floating-point dtype.
        output_size: Number of windows.

    Returns:
        Tensor of shape ``[N, C, L_out]``, with the sizes of ``output_size``.

    Examples:
        >>> bireme.nn.functional.adaptive_avg_pool1d(bireme.to_tensor([[[1.0, 2.0, 6.0]]]), 2).tolist()
        [[[1.5, 4.0]]]
    """
    return _mean(x, output_size, "NCL")


@op(dtypes=FLOAT, numpy=True, kernels="pool2d")
def adaptive_avg_pool2d(x: Tensor, output_size: Attr[int | Sequence[int | None]], data_format: str = "NCHW") -> Tensor:
    """Adaptive average pooling of images: the mean of each of a given number of windows.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``, so that
    windows overlap where ``size``, that of the input, is no multiple of ``n``.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        output_size: Number of windows along each spatial axis: one integer, or a list in which ``None`` keeps the size
            of the input.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of shape ``[N, C, H_out, W_out]`` in ``data_format``, with the sizes of ``output_size``.

    Examples:
        >>> bireme.nn.functional.adaptive_avg_pool2d(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 1).tolist()
        [[[[2.5]]]]
    """
    return _mean(x, output_size, data_format)


@op(dtypes=FLOAT, numpy=True)
def adaptive_avg_pool3d(x: Tensor, output_size: Attr[int | Sequence[int | None]], data_format: str = "NCDHW") -> Tensor:
    """Adaptive average pooling of volumes: the mean of each of a given number of windows.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``, so that
    windows overlap where ``size``, that of the input, is no multiple of ``n``.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        output_size: Number of windows along each spatial axis: one integer, or a list in which ``None`` keeps the size
            of the input.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.

    Returns:
        Tensor of shape ``[N, C, D_out, H_out, W_out]`` in ``data_format``, with the sizes of ``output_size``.

    Examples:
        >>> bireme.nn.functional.adaptive_avg_pool3d(bireme.to_tensor([[[[[1.0, 2.0], [3.0, 4.0]]]]]), 1).tolist()
        [[[[[2.5]]]]]
    """
    return _mean(x, output_size, data_format)


for _n, _made in enumerate((adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d), 1):
    _made.prepare(_complete(_made.name, _n))
adaptive_avg_pool1d.grad(lambda g, output_size, sigs: _mean_grad(g, sigs, output_size, "NCL"), numpy=True)
for _made in (adaptive_avg_pool2d, adaptive_avg_pool3d):
    _made.grad(lambda g, output_size, data_format, sigs: _mean_grad(g, sigs, output_size, data_format), numpy=True)
adaptive_avg_pool1d.infer(lambda x, output_size: sig_of(_sized(x, output_size, False), x.dtype))
adaptive_avg_pool2d.infer(
    lambda x, output_size, data_format: sig_of(_sized(x, output_size, data_format[-1] == "C"), x.dtype)
)
adaptive_avg_pool3d.infer(
    lambda x, output_size, data_format: sig_of(_sized(x, output_size, data_format[-1] == "C"), x.dtype)
)


# ---------------------------------------------------------------- maxima, of windows of any length


def _largest(x, windows):
    """The maximum of each window and its index in the plane; `windows` has indices by axis, the last one repeated.

    Axis by axis, from the last: the first maximum of the first row that has it is the first of all.
    """
    dims, place, step = x.shape[1:-1], None, 1
    for i in range(len(dims) - 1, -1, -1):
        elements = windows[i]
        flat, shape = elements.reshape(-1), (*x.shape[: i + 1], *elements.shape, *x.shape[i + 2 :])
        seen = jnp.take(x, flat, axis=i + 1, mode="clip").reshape(shape)
        at = jnp.argmax(seen, axis=i + 2, keepdims=True)
        x = jnp.max(seen, axis=i + 2)
        own = elements[:, 0].reshape(-1, *[1] * (len(dims) - i)) + jnp.squeeze(at, i + 2)
        own = own.astype(np.int32) * np.int32(step)
        if place is not None:
            below = jnp.take(place, flat, axis=i + 1, mode="clip").reshape(shape)
            own = own + jnp.squeeze(jnp.take_along_axis(below, at, axis=i + 2), i + 2)
        place, step = own, step * dims[i]
    return [back(x, False), back(place, False)]


def _grad(g, out, sigs):
    """Each gradient goes to the element that was the maximum."""
    if not all(sigs[0].shape[2:]):
        return jnp.zeros(sigs[0].shape, g[0].dtype)
    found = scattered(move(widen(g[0]), False), move(out[1], False), sigs[0].shape[2:])
    return back(found.astype(g[0].dtype), False)


def _grad_numpy(g, out, sigs):
    batch, channels, *dims = sigs[0].shape
    if not all(dims):
        return np.zeros(sigs[0].shape, g[0].dtype)
    full = np.zeros((batch, channels, math.prod(dims)), g[0].dtype)
    rows = out[1].reshape(batch, channels, math.prod(out[1].shape[2:]))
    np.add.at(full, (np.arange(batch)[:, None, None], np.arange(channels)[:, None], rows), g[0].reshape(rows.shape))
    return full.reshape(sigs[0].shape)


def _pair(x, sizes):
    shape = (*x.shape[:2], *sizes)
    return sig_of(shape, x.dtype), sig_of(shape, dtypes.int32)


@op(internal="adaptive_max", dtypes=FLOAT, numpy=True, selects=True)
def adaptive_max_of(x: Tensor, output_size: Attr) -> list[Tensor]:
    """Maxima of windows as even as possible, and their indices in their planes; use `adaptive_max_pool2d`."""
    if not all(x.shape[2:]):  # Paddle has NaN for the maximum of nothing, and 0 for its index
        shape = (*x.shape[:2], *output_size)
        return [jnp.full(shape, np.nan, x.dtype), jnp.zeros(shape, np.int32)]
    windows = []
    for n, size in zip(x.shape[2:], output_size):
        low, high = _bounds(n, size)
        windows.append(np.minimum(low[:, None] + np.arange((high - low).max(initial=1)), high[:, None] - 1))
    return _largest(move(x, False), windows)


adaptive_max_of.infer(lambda x, output_size: _pair(x, output_size))
adaptive_max_of.grad(_grad, numpy=_grad_numpy)


def _adaptive_max(name: str, n: int, x: Tensor, output_size: Any, return_mask: bool) -> Any:
    sizes = _sizes(name, n, x, output_size, False)
    dims = tuple(x.shape[2:])
    if all(m and size and m % size == 0 for m, size in zip(dims, sizes)):  # even windows
        size = tuple([m // k for m, k in zip(dims, sizes)])
        rest = (size, size, ((0, 0),) * n, False, window_args.FORMATS[n][0])
        out, tap = max_pool_of(x, *rest)
        return (out, max_pool_places(tap, dims, *rest)) if return_mask else out
    out, place = adaptive_max_of(x, sizes)
    return (out, place) if return_mask else out


@composite(plain=True)
def adaptive_max_pool1d(x: Tensor, output_size: Sizes, return_mask: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """Adaptive max pooling of sequences: the maximum of each of a given number of windows.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``, so that
    windows overlap where ``size``, that of the input, is no multiple of ``n``.

    Args:
        x: Input tensor of shape ``[N, C, L]``, of a floating-point dtype.
        output_size: Number of windows.
        return_mask: Whether to return the indices of the maxima too. Default: False.

    Returns:
        Tensor of shape ``[N, C, L_out]``, with the sizes of ``output_size``. With ``return_mask`` a pair of this and an
        int32 tensor of the same shape with the index of each maximum in its sequence.

    Examples:
        >>> bireme.nn.functional.adaptive_max_pool1d(bireme.to_tensor([[[1.0, 5.0, 4.0]]]), 2).tolist()
        [[[5.0, 5.0]]]
    """
    return _adaptive_max("adaptive_max_pool1d", 1, x, output_size, return_mask)


@composite(plain=True)
def adaptive_max_pool2d(x: Tensor, output_size: Attr[int | Sequence[int | None]],
                        return_mask: bool = False) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Adaptive max pooling of images: the maximum of each of a given number of windows.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``, so that
    windows overlap where ``size``, that of the input, is no multiple of ``n``.

    Args:
        x: Input tensor of shape ``[N, C, H, W]``, of a floating-point dtype.
        output_size: Number of windows along each spatial axis: one integer, or a list in which ``None`` keeps the size
            of the input.
        return_mask: Whether to return the indices of the maxima too. Default: False.

    Returns:
        Tensor of shape ``[N, C, H_out, W_out]``, with the sizes of ``output_size``. With ``return_mask`` a pair of this
        and an int32 tensor of the same shape with the index of each maximum in its plane, flattened.

    Examples:
        >>> bireme.nn.functional.adaptive_max_pool2d(bireme.to_tensor([[[[1.0, 5.0, 4.0]]]]), [1, 2]).tolist()
        [[[[5.0, 5.0]]]]
    """
    return _adaptive_max("adaptive_max_pool2d", 2, x, output_size, return_mask)


@composite(plain=True)
def adaptive_max_pool3d(x: Tensor, output_size: Attr[int | Sequence[int | None]],
                        return_mask: bool = False) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Adaptive max pooling of volumes: the maximum of each of a given number of windows.

    Window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``, so that
    windows overlap where ``size``, that of the input, is no multiple of ``n``.

    Args:
        x: Input tensor of shape ``[N, C, D, H, W]``, of a floating-point dtype.
        output_size: Number of windows along each spatial axis: one integer, or a list in which ``None`` keeps the size
            of the input.
        return_mask: Whether to return the indices of the maxima too. Default: False.

    Returns:
        Tensor of shape ``[N, C, D_out, H_out, W_out]``, with the sizes of ``output_size``. With ``return_mask`` a pair
        of this and an int32 tensor of the same shape with the index of each maximum in its volume, flattened.

    Examples:
        >>> bireme.nn.functional.adaptive_max_pool3d(bireme.to_tensor([[[[[1.0, 5.0, 4.0]]]]]), [1, 1, 2]).tolist()
        [[[[[5.0, 5.0]]]]]
    """
    return _adaptive_max("adaptive_max_pool3d", 3, x, output_size, return_mask)


# ---------------------------------------------------------------- windows of random sizes


def _random_windows(n: int, size: int, window: Any, u):
    """Elements of the windows that a number in (0, 1) gives along one axis, in float32 as Paddle computes them."""
    i = np.arange(size, dtype=np.float32)
    if window is None:
        ratio, least = np.float32(n) / np.float32(size), n // size
        high = min((least + 2) / ratio - 1, (n + 1 - least) / ratio - (size - 1))
        u = u * np.float32(high)
    else:
        ratio = np.float32(n - window) / np.float32(max(size - 1, 1))
    base = jnp.floor(u * ratio)
    low = jnp.floor((i + u) * ratio) - base
    if window is None:
        longest, past = int(ratio) + 1, jnp.floor((i + np.float32(1) + u) * ratio) - base
    else:
        longest, past = window, low + np.float32(window)
    return jnp.minimum(low[:, None] + np.arange(longest, dtype=np.float32), past[:, None] - np.float32(1)).astype(
        np.int32
    )


@op(internal="fractional_max", dtypes=FLOAT, numpy=True, numbers={"u": "float32"}, selects=True)
def fractional_max_of(x: Tensor, u: Tensor | float, output_size: Attr, kernel_size: Attr) -> list[Tensor]:
    """Maxima of windows at random positions, and their indices in their planes; use `fractional_max_pool2d`."""
    kernel = kernel_size or (None,) * len(output_size)
    windows = [_random_windows(n, size, k, u) for n, size, k in zip(x.shape[2:], output_size, kernel)]
    return _largest(move(x, False), windows)


fractional_max_of.infer(lambda x, output_size: _pair(x, output_size))
fractional_max_of.grad(
    lambda g, out, sigs: (_grad(g, out, sigs), None), numpy=lambda g, out, sigs: (_grad_numpy(g, out, sigs), None)
)


def _fractional(
    name: str, n: int, x: Tensor, output_size: Any, kernel_size: Any, random_u: Any, return_mask: bool
) -> Any:
    sizes = _sizes(name, n, x, output_size, False)
    window = None if kernel_size is None else window_args.per_axis(kernel_size, n, f"{name}(kernel_size)")
    for m, size, k in zip(x.shape[2:], sizes, window or (1,) * n):
        if not 1 <= size <= m - k + 1:
            raise errors.bad(
                f"{name}(output_size)",
                f"sizes in [1, {m - k + 1}] for an input size of {m} and a kernel size of {k}",
                size,
            )
    if random_u is not None and (not isinstance(random_u, (float, np.floating)) or not 0 < random_u < 1):
        raise errors.bad(f"{name}(random_u)", "a number in (0, 1)", random_u, kind=errors.for_number(random_u))
    out, place = fractional_max_of(x, rand([], "float32") if random_u is None else random_u, sizes, window)
    return (out, place) if return_mask else out


@composite()
def fractional_max_pool2d(x: Tensor, output_size: Attr[int | Sequence[int | None]], kernel_size: Sizes = None,
                          random_u: float | None = None,
                          return_mask: bool = False) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Fractional max pooling of images: the maximum of each window, at random positions.

    Sizes may shrink by any factor, not only by integers.

    Args:
        x: Input tensor of shape ``[N, C, H, W]``, of a floating-point dtype.
        output_size: Number of windows along each spatial axis: one integer, or a list in which ``None`` keeps the size
            of the input.
        kernel_size: Size of windows, which then overlap: one integer, or one for each spatial axis; ``None`` means
            disjoint windows. Default: None.
        random_u: Number in ``(0, 1)`` that decides the positions of all windows; ``None`` draws one. Default: None.
        return_mask: Whether to return the indices of the maxima too. Default: False.

    Returns:
        Tensor of shape ``[N, C, H_out, W_out]``, with the sizes of ``output_size``. With ``return_mask`` a pair of this
        and an int32 tensor of the same shape with the index of each maximum in its plane, flattened.

    Raises:
        ValueError: If an axis has too few elements for the windows, or ``random_u`` is out of range.

    Examples:
        >>> x = bireme.to_tensor([[[[1.0, 5.0, 4.0]]]])
        >>> bireme.nn.functional.fractional_max_pool2d(x, [1, 2], random_u=0.5).tolist()
        [[[[5.0, 4.0]]]]
    """
    return _fractional("fractional_max_pool2d", 2, x, output_size, kernel_size, random_u, return_mask)


@composite()
def fractional_max_pool3d(x: Tensor, output_size: Attr[int | Sequence[int | None]], kernel_size: Sizes = None,
                          random_u: float | None = None,
                          return_mask: bool = False) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Fractional max pooling of volumes: the maximum of each window, at random positions.

    Sizes may shrink by any factor, not only by integers.

    Args:
        x: Input tensor of shape ``[N, C, D, H, W]``, of a floating-point dtype.
        output_size: Number of windows along each spatial axis: one integer, or a list in which ``None`` keeps the size
            of the input.
        kernel_size: Size of windows, which then overlap: one integer, or one for each spatial axis; ``None`` means
            disjoint windows. Default: None.
        random_u: Number in ``(0, 1)`` that decides the positions of all windows; ``None`` draws one. Default: None.
        return_mask: Whether to return the indices of the maxima too. Default: False.

    Returns:
        Tensor of shape ``[N, C, D_out, H_out, W_out]``, with the sizes of ``output_size``. With ``return_mask`` a pair
        of this and an int32 tensor of the same shape with the index of each maximum in its volume, flattened.

    Raises:
        ValueError: If an axis has too few elements for the windows, or ``random_u`` is out of range.

    Examples:
        >>> x = bireme.to_tensor([[[[[1.0, 5.0, 4.0]]]]])
        >>> bireme.nn.functional.fractional_max_pool3d(x, [1, 1, 2], random_u=0.5).tolist()
        [[[[[5.0, 4.0]]]]]
    """
    return _fractional("fractional_max_pool3d", 3, x, output_size, kernel_size, random_u, return_mask)
