"""Kernels of mathematics whose arguments stand in another order than those of the public functions, as `paddle._C_ops` has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme import fft, linalg, tensor
from bireme.core.tensor.tensor import Tensor
from bireme.nn import functional
from bireme.ops.reduction.statistics import median_of


def _scan(function: Callable, first: Callable, x: Tensor, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Tensor:
    """Along an axis, from its end where `reverse`; where `exclusive`, without the element itself: one before the first is put in."""
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
    """Running sums.

    >>> bireme._C_ops.cumsum(bireme.to_tensor([1, 2, 3]), 0, False, True, True).tolist()
    [5, 3, 0]
    """
    return _scan(lambda x, axis: tensor.cumsum(x, axis, x.dtype), lambda x: 0, x, int(axis), flatten, exclusive, reverse)


def cumprod(x: Tensor, dim: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running products."""
    return _scan(tensor.cumprod, lambda x: 1, x, dim, False, exclusive, reverse)


def cumsum_(x: Tensor, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sums in place."""
    return tensor.assign(cumsum(x, axis, flatten, exclusive, reverse), x)


def cumprod_(x: Tensor, dim: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running products in place."""
    return tensor.assign(cumprod(x, dim, exclusive, reverse), x)


def logcumsumexp(x: Tensor, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Logarithms of running sums of exponentials; the sum of none is the lowest number of the type."""
    if not (x.dtype.is_floating or x.dtype.is_complex):
        x = tensor.cast(x, "float32")
    return _scan(tensor.logcumsumexp, lambda x: tensor.finfo(x.dtype).min, x, axis, flatten, exclusive, reverse)


def argsort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = False) -> tuple[Tensor, Tensor]:
    """The elements in order along an axis, and where they stood.

    >>> [t.tolist() for t in bireme._C_ops.argsort(bireme.to_tensor([2.0, 3.0, 1.0]), 0, True)]
    [[3.0, 2.0, 1.0], [1, 0, 2]]
    """
    places = tensor.argsort(x, axis, descending, stable)
    return tensor.take_along_axis(x, places, axis), places


def max_with_index(x: Tensor, dim: int, keepdim: bool = False, flatten: bool = False) -> tuple[Tensor, Tensor]:
    """The largest elements along an axis, or of all, and where they stand.

    >>> [t.tolist() for t in bireme._C_ops.max_with_index(bireme.to_tensor([[2, 3, 1]]), 1)]
    [[3], [1]]
    """
    return _with_index(tensor.argmax, x, dim, keepdim, flatten)


def min_with_index(x: Tensor, dim: int, keepdim: bool = False, flatten: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest elements along an axis, or of all, and where they stand."""
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
    """The middle elements over axes, or of all, and where they stand in what the axes hold: one place, or two for the mean of two.

    >>> [t.tolist() for t in bireme._C_ops.median(bireme.to_tensor([[4.0, 1.0, 2.0, 3.0]]), [1], False, "avg")]
    [[2.5], [[2, 3]]]
    """
    return _middle(x, axis, keepdim, mode, False)


def nanmedian(x: Tensor, axis: Any, keepdim: bool, mode: str) -> tuple[Tensor, Tensor]:
    """The same among the elements that are not NaN."""
    return _middle(x, axis, keepdim, mode, True)


def _middle(x: Tensor, axis: Any, keepdim: bool, mode: str, ignore: bool) -> tuple[Tensor, Tensor]:
    axes = sorted({int(a) % max(x.ndim, 1) for a in (axis if isinstance(axis, (list, tuple)) else [axis])}) or list(range(x.ndim))
    found = median_of(x, axes, keepdim, mode == "min", ignore)
    rest = [i for i in range(x.ndim) if i not in axes]
    lines = tensor.reshape(tensor.transpose(x, [*rest, *axes]), [*[x.shape[i] for i in rest], -1]) if x.ndim else tensor.reshape(x, [1])
    valid = lines.shape[-1] - tensor.sum(tensor.isnan(lines), -1, keepdim=True)
    first, second = tensor.clip(valid - 1, 0) // 2, valid // 2
    if not ignore:  # one NaN is the middle of all
        whole = valid == lines.shape[-1]
        first, second = tensor.where(whole, first, valid), tensor.where(whole, second, valid)
    middles = first if mode == "min" else tensor.concat([first, second], -1)
    places = tensor.take_along_axis(tensor.argsort(lines, -1, stable=True), middles, -1)
    return found, tensor.reshape(places, found.shape if mode == "min" else [*found.shape, 2])


def rint(x: Tensor) -> Tensor:
    """The nearest whole numbers; halves become even."""
    return tensor.round(x)


def prod(x: Tensor, dims: Any, keep_dim: bool = False, reduce_all: bool = False) -> Tensor:
    """Products over axes."""
    return tensor.prod(x, None if reduce_all else dims, keep_dim)


def logsumexp(x: Tensor, axis: Any = (), keepdim: bool = False, reduce_all: bool = False) -> Tensor:
    """Logarithms of sums of exponentials."""
    return tensor.logsumexp(x, axis or None, keepdim)


def p_norm(x: Tensor, porder: float = 2.0, axis: int = -1, epsilon: float = 1e-12, keepdim: bool = False, asvector: bool = False) -> Tensor:
    """Norms along an axis, or of all elements."""
    return linalg.vector_norm(x, porder, None if asvector else axis, keepdim)


def frobenius_norm(x: Tensor, axis: Any, keep_dim: bool = False, reduce_all: bool = False) -> Tensor:
    """Roots of sums of squares."""
    return linalg.vector_norm(x, 2.0, None if reduce_all else axis, keep_dim)


def squared_l2_norm(x: Tensor) -> Tensor:
    """The sum of squares, as one element.

    >>> bireme._C_ops.squared_l2_norm(bireme.to_tensor([3.0, 4.0])).tolist()
    [25.0]
    """
    return tensor.reshape(tensor.sum(tensor.square(x)), [1])


def l1_norm(x: Tensor) -> Tensor:
    """The sum of sizes."""
    return tensor.sum(tensor.abs(x))


def mean_all(x: Tensor) -> Tensor:
    """The mean of all elements."""
    return tensor.mean(x)


def fft_c2c(x: Tensor, axes: Sequence[int], normalization: str, forward: bool) -> Tensor:
    """The transform of complex numbers, or its inverse."""
    return (fft.fftn if forward else fft.ifftn)(x, axes=list(axes), norm=normalization)


def fft_r2c(x: Tensor, axes: Sequence[int], normalization: str, forward: bool, onesided: bool) -> Tensor:
    """The transform of real numbers, or its inverse; the half that tells the other where `onesided`."""
    if not onesided:
        return fft_c2c(x, axes, normalization, forward)
    return (fft.rfftn if forward else fft.ihfftn)(x, axes=list(axes), norm=normalization)


def fft_c2r(x: Tensor, axes: Sequence[int], normalization: str, forward: bool, last_dim_size: int | None = 0) -> Tensor:
    """The transform of half a spectrum to real numbers; `last_dim_size` of them, or an even number."""
    sizes = [x.shape[a] for a in axes]
    sizes[-1] = last_dim_size or 2 * (sizes[-1] - 1)
    return (fft.hfftn if forward else fft.irfftn)(x, s=sizes, axes=list(axes), norm=normalization)


def prelu(x: Tensor, alpha: Tensor, data_format: str = "NCHW", mode: str = "all") -> Tensor:
    """Negative elements times `alpha`: one number, one for each channel, or one for each element."""
    if mode == "element":
        return tensor.where(tensor.greater_than(x, 0.0), x, tensor.multiply(x, alpha))
    return functional.prelu(x, tensor.reshape(alpha, [-1]), data_format)


def logsigmoid(x: Tensor) -> Tensor:
    """The logarithm of the sigmoid."""
    return functional.log_sigmoid(x)


def tanh_shrink(x: Tensor) -> Tensor:
    """What the hyperbolic tangent leaves of x."""
    return functional.tanhshrink(x)


def elementwise_pow(x: Tensor, y: Tensor) -> Tensor:
    """Powers of tensors."""
    return tensor.pow(x, y)


def rrelu(x: Tensor, lower: float, upper: float, is_test: bool) -> Tensor:
    """Negative elements times a random slope, or times the middle one."""
    return functional.rrelu(x, lower, upper, training=not is_test)


def mish(x: Tensor, threshold: float = 20.0) -> Tensor:
    """x times the hyperbolic tangent of its softplus."""
    return functional.mish(x)


def histogram(x: Tensor, weight: Tensor | None = None, bins: int = 100, min: float = 0.0, max: float = 0.0, density: bool = False) -> Tensor:
    """How many elements there are between edges."""
    return tensor.histogram(x, bins, min, max, weight, density)
