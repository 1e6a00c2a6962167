"""Kernels of mathematics that take their arguments in another order than the public ones, as in `paddle._C_ops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme import fft, linalg, tensor
from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional
from bireme.ops.reduction.statistics import median_of


def _scan(
    function: Callable, first: Callable, x: Tensor, axis: int, flatten: bool, exclusive: bool, reverse: bool
) -> Tensor:
    """A scan along an axis, from its end with `reverse`; with `exclusive` shifted by one, beginning with `first`."""
    if flatten:
        x, axis = tensor.flatten(x), 0
    if reverse:
        x = tensor.flip(x, [axis])
    if exclusive:
        shape = list(x.shape)
        shape[axis] = 1
        count = x.shape[axis]
        x = tensor.concat([tensor.full(shape, first(x), x.dtype), x], axis)
        x = tensor.slice(x, [axis], [0], [count])
    out = function(x, axis)
    return tensor.flip(out, [axis]) if reverse else out


def cumsum(x: Tensor, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Compute the cumulative sum along an axis.

    Args:
        x: Input tensor.
        axis: Axis to work along. Default: -1.
        flatten: Whether to work on the flattened tensor. Default: False.
        exclusive: Whether each element leaves itself out. Default: False.
        reverse: Whether to start from the end. Default: False.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme._C_ops.cumsum(bireme.to_tensor([1, 2, 3]), 0, False, True, True).tolist()
        [5, 3, 0]
    """
    return _scan(
        lambda x, axis: tensor.cumsum(x, axis, x.dtype), lambda x: 0, x, int(axis), flatten, exclusive, reverse
    )


def cumprod(x: Tensor, dim: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Compute the cumulative product along an axis.

    Args:
        x: Input tensor.
        dim: Axis to work along.
        exclusive: Whether each element leaves itself out. Default: False.
        reverse: Whether to start from the end. Default: False.

    Returns:
        Tensor of the shape of ``x``.
    """
    return _scan(tensor.cumprod, lambda x: 1, x, dim, False, exclusive, reverse)


def cumsum_(x: Tensor, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Compute the cumulative sum along an axis, in place.

    Args:
        x: Input tensor.
        axis: Axis to work along. Default: -1.
        flatten: Whether to work on the flattened tensor. Default: False.
        exclusive: Whether each element leaves itself out. Default: False.
        reverse: Whether to start from the end. Default: False.

    Returns:
        ``x`` itself.
    """
    return tensor.assign(cumsum(x, axis, flatten, exclusive, reverse), x)


def cumprod_(x: Tensor, dim: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Compute the cumulative product along an axis, in place.

    Args:
        x: Input tensor.
        dim: Axis to work along.
        exclusive: Whether each element leaves itself out. Default: False.
        reverse: Whether to start from the end. Default: False.

    Returns:
        ``x`` itself.
    """
    return tensor.assign(cumprod(x, dim, exclusive, reverse), x)


def logcumsumexp(
    x: Tensor, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Compute the logarithm of the cumulative sum of exponentials along an axis.

    Args:
        x: Input tensor.
        axis: Axis to work along. Default: -1.
        flatten: Whether to work on the flattened tensor. Default: False.
        exclusive: Whether each element leaves itself out. Default: False.
        reverse: Whether to start from the end. Default: False.

    Returns:
        Tensor of the shape of ``x``; integers become float32. The sum of no elements is the lowest number of the dtype.
    """
    if not (x.dtype.is_floating or x.dtype.is_complex):
        x = tensor.cast(x, "float32")
    return _scan(tensor.logcumsumexp, lambda x: tensor.finfo(x.dtype).min, x, axis, flatten, exclusive, reverse)


def argsort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = False) -> tuple[Tensor, Tensor]:
    """Sort along an axis.

    Args:
        x: Input tensor.
        axis: Axis to work along. Default: -1.
        descending: Whether the largest come first. Default: False.
        stable: Whether equal elements keep their order. Default: False.

    Returns:
        The sorted elements, and their indices in ``x``.

    Examples:
        >>> [t.tolist() for t in bireme._C_ops.argsort(bireme.to_tensor([2.0, 3.0, 1.0]), 0, True)]
        [[3.0, 2.0, 1.0], [1, 0, 2]]
    """
    places = tensor.argsort(x, axis, descending, stable)
    return tensor.take_along_axis(x, places, axis), places


def max_with_index(x: Tensor, dim: int, keepdim: bool = False, flatten: bool = False) -> tuple[Tensor, Tensor]:
    """Find the maximum along an axis, or of all elements.

    Args:
        x: Input tensor.
        dim: Axis to work along.
        keepdim: Whether reduced axes stay with size 1. Default: False.
        flatten: Whether to work on the flattened tensor. Default: False.

    Returns:
        The maxima, and their indices along the axis or in the flattened tensor.

    Examples:
        >>> [t.tolist() for t in bireme._C_ops.max_with_index(bireme.to_tensor([[2, 3, 1]]), 1)]
        [[3], [1]]
    """
    return _with_index(tensor.argmax, x, dim, keepdim, flatten)


def min_with_index(x: Tensor, dim: int, keepdim: bool = False, flatten: bool = False) -> tuple[Tensor, Tensor]:
    """Find the minimum along an axis, or of all elements.

    Args:
        x: Input tensor.
        dim: Axis to work along.
        keepdim: Whether reduced axes stay with size 1. Default: False.
        flatten: Whether to work on the flattened tensor. Default: False.

    Returns:
        The minima, and their indices along the axis or in the flattened tensor.
    """
    return _with_index(tensor.argmin, x, dim, keepdim, flatten)


def _with_index(find: Callable, x: Tensor, dim: int, keepdim: bool, flatten: bool) -> tuple[Tensor, Tensor]:
    rank = x.ndim
    if flatten or not rank:
        x, dim = tensor.reshape(x, [-1]), 0
    places = find(x, dim, True)
    values = tensor.take_along_axis(x, places, dim)
    if flatten or not rank:
        shape = [1] * rank if keepdim else []
        return tensor.reshape(values, shape), tensor.reshape(places, shape)
    return (values, places) if keepdim else (tensor.squeeze(values, dim), tensor.squeeze(places, dim))


def median(x: Tensor, axis: Any, keepdim: bool, mode: str) -> tuple[Tensor, Tensor]:
    """Compute the median over axes.

    Args:
        x: Input tensor.
        axis: Axes to reduce; an empty list means all.
        keepdim: Whether reduced axes stay with size 1.
        mode: ``'avg'`` takes the mean of the two middle elements, ``'min'`` the lower one.

    Returns:
        The medians, and their indices among the reduced elements: one with ``'min'``, two with ``'avg'``.

    Examples:
        >>> [t.tolist() for t in bireme._C_ops.median(bireme.to_tensor([[4.0, 1.0, 2.0, 3.0]]), [1], False, "avg")]
        [[2.5], [[2, 3]]]
    """
    return _middle(x, axis, keepdim, mode, False)


def nanmedian(x: Tensor, axis: Any, keepdim: bool, mode: str) -> tuple[Tensor, Tensor]:
    """Compute the median over axes, leaving out NaN.

    Args:
        x: Input tensor.
        axis: Axes to reduce; an empty list means all.
        keepdim: Whether reduced axes stay with size 1.
        mode: ``'avg'`` takes the mean of the two middle elements, ``'min'`` the lower one.

    Returns:
        The medians, and their indices among the reduced elements: one with ``'min'``, two with ``'avg'``.
    """
    return _middle(x, axis, keepdim, mode, True)


def _middle(x: Tensor, axis: Any, keepdim: bool, mode: str, ignore: bool) -> tuple[Tensor, Tensor]:
    axes = sorted({int(a) % max(x.ndim, 1) for a in (axis if isinstance(axis, (list, tuple)) else [axis])}) or list(
        range(x.ndim)
    )
    found = median_of(x, axes, keepdim, mode == "min", ignore)
    rest = [i for i in range(x.ndim) if i not in axes]
    lines = (
        tensor.reshape(tensor.transpose(x, [*rest, *axes]), [*[x.shape[i] for i in rest], -1])
        if x.ndim
        else tensor.reshape(x, [1])
    )
    valid = lines.shape[-1] - tensor.sum(tensor.isnan(lines), -1, keepdim=True)
    first, second = tensor.clip(valid - 1, 0) // 2, valid // 2
    if not ignore:  # one NaN is the middle of all
        whole = valid == lines.shape[-1]
        first, second = tensor.where(whole, first, valid), tensor.where(whole, second, valid)
    middles = first if mode == "min" else tensor.concat([first, second], -1)
    places = tensor.take_along_axis(tensor.argsort(lines, -1, stable=True), middles, -1)
    return found, tensor.reshape(places, found.shape if mode == "min" else [*found.shape, 2])


def prod(x: Tensor, dims: Any, keep_dim: bool = False, reduce_all: bool = False) -> Tensor:
    """Compute the product over axes.

    Args:
        x: Input tensor.
        dims: Axes to reduce.
        keep_dim: Whether reduced axes stay with size 1. Default: False.
        reduce_all: Whether to reduce all axes. Default: False.

    Returns:
        The products.
    """
    return tensor.prod(x, None if reduce_all else dims, keep_dim)


def logsumexp(x: Tensor, axis: Any = (), keepdim: bool = False, reduce_all: bool = False) -> Tensor:
    """Compute the logarithm of the sum of exponentials over axes.

    Args:
        x: Input tensor.
        axis: Axes to reduce; none means all. Default: ``[]``.
        keepdim: Whether reduced axes stay with size 1. Default: False.
        reduce_all: Has no effect: without ``axis`` all axes are reduced. Default: False.

    Returns:
        The logarithms.
    """
    return tensor.logsumexp(x, axis or None, keepdim)


def p_norm(
    x: Tensor,
    porder: float = 2.0,
    axis: int = -1,
    epsilon: float = 1e-12,
    keepdim: bool = False,
    asvector: bool = False,
) -> Tensor:
    """Compute the p-norm along an axis, or of all elements.

    Args:
        x: Input tensor.
        porder: Order of the norm. Default: 2.0.
        axis: Axis to work along. Default: -1.
        epsilon: Has no effect. Default: 1e-12.
        keepdim: Whether reduced axes stay with size 1. Default: False.
        asvector: Whether to take all elements as one vector. Default: False.

    Returns:
        The norms.
    """
    return linalg.vector_norm(x, porder, None if asvector else axis, keepdim)


def frobenius_norm(x: Tensor, axis: Any, keep_dim: bool = False, reduce_all: bool = False) -> Tensor:
    """Compute the root of the sum of squares over axes.

    Args:
        x: Input tensor.
        axis: Axes to reduce.
        keep_dim: Whether reduced axes stay with size 1. Default: False.
        reduce_all: Whether to reduce all axes. Default: False.

    Returns:
        The norms.
    """
    return linalg.vector_norm(x, 2.0, None if reduce_all else axis, keep_dim)


def squared_l2_norm(x: Tensor) -> Tensor:
    """Compute the sum of squares of all elements.

    Args:
        x: Input tensor.

    Returns:
        Tensor of shape ``[1]``.

    Examples:
        >>> bireme._C_ops.squared_l2_norm(bireme.to_tensor([3.0, 4.0])).tolist()
        [25.0]
    """
    return tensor.reshape(tensor.sum(tensor.square(x)), [1])


def l1_norm(x: Tensor) -> Tensor:
    """Compute the sum of absolute values of all elements.

    Args:
        x: Input tensor.

    Returns:
        0-D tensor.
    """
    return tensor.sum(tensor.abs(x))


def fft_c2c(x: Tensor, axes: Sequence[int], normalization: str, forward: bool) -> Tensor:
    """Compute the discrete Fourier transform of a complex tensor, or its inverse.

    Args:
        x: Input tensor.
        axes: Axes to work along.
        normalization: ``'backward'``, ``'ortho'`` or ``'forward'``.
        forward: Whether it is the forward transform.

    Returns:
        Complex tensor of the shape of ``x``.
    """
    return (fft.fftn if forward else fft.ifftn)(x, axes=list(axes), norm=normalization)


def fft_r2c(x: Tensor, axes: Sequence[int], normalization: str, forward: bool, onesided: bool) -> Tensor:
    """Compute the discrete Fourier transform of a real tensor, or its inverse.

    Args:
        x: Input tensor.
        axes: Axes to work along.
        normalization: ``'backward'``, ``'ortho'`` or ``'forward'``.
        forward: Whether it is the forward transform.
        onesided: Whether to return only the non-redundant half of the last axis.

    Returns:
        Complex tensor.
    """
    if not onesided:
        return fft_c2c(x, axes, normalization, forward)
    return (fft.rfftn if forward else fft.ihfftn)(x, axes=list(axes), norm=normalization)


def fft_c2r(x: Tensor, axes: Sequence[int], normalization: str, forward: bool, last_dim_size: int | None = 0) -> Tensor:
    """Compute the real transform of half a Hermitian spectrum.

    Args:
        x: Input tensor.
        axes: Axes to work along.
        normalization: ``'backward'``, ``'ortho'`` or ``'forward'``.
        forward: Whether it is the forward transform; otherwise the inverse.
        last_dim_size: Size of the last axis of the result; 0 means ``2 * (n - 1)``. Default: 0.

    Returns:
        Real tensor.
    """
    sizes = [x.shape[a] for a in axes]
    sizes[-1] = last_dim_size or 2 * (sizes[-1] - 1)
    return (fft.hfftn if forward else fft.irfftn)(x, s=sizes, axes=list(axes), norm=normalization)


def prelu(x: Tensor, alpha: Tensor, data_format: str = "NCHW", mode: str = "all") -> Tensor:
    """Apply a leaky rectifier with learned slopes.

    Args:
        x: Input tensor.
        alpha: Slopes of negative elements.
        data_format: Layout of the axes. Default: ``'NCHW'``.
        mode: ``'all'`` for one slope, ``'channel'`` for one per channel, ``'element'`` for one per element. Default:
            ``'all'``.

    Returns:
        Tensor of the shape of ``x``.
    """
    if mode == "element":
        return tensor.where(tensor.greater_than(x, 0.0), x, tensor.multiply(x, alpha))
    return functional.prelu(x, tensor.reshape(alpha, [-1]), data_format)


def rrelu(x: Tensor, lower: float, upper: float, is_test: bool) -> Tensor:
    """Apply a leaky rectifier with random slopes.

    Args:
        x: Input tensor.
        lower: Smallest slope.
        upper: Largest slope.
        is_test: Whether to use the mean of both slopes instead of random ones.

    Returns:
        Tensor of the shape of ``x``.
    """
    return functional.rrelu(x, lower, upper, training=not is_test)
