"""Pooling over windows: their mean and their p-norm. Computed with channels last, whatever the data format."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Const, Padding, Sizes, Tensor, composite, op
from bireme.core.numpy_exec.convolution import taps
from bireme.ops._shared.precision import widen
from bireme.ops.nn import window_args
from bireme.ops.nn.conv_lowering import back, move
from bireme.ops.nn.max_pool import MAX_SLICED_SIZE, axis_slices, axis_windows, fitted, max_pool_of, pooled, windows
from bireme.ops.nn.window_args import Windows


def _sums(x, at: Windows):
    """The sum of each window of an image that they fill exactly."""
    if at.size == at.stride:
        axes = [m for pair in zip(at.out, at.size) for m in pair]
        return x.reshape(x.shape[0], *axes, x.shape[-1]).sum(tuple(range(2, 2 * len(at.size) + 1, 2)))
    for i in range(len(at.size) - 1, -1, -1):
        along = (i + 1, at.size[i], at.stride[i], at.out[i])
        x = (
            functools.reduce(jnp.add, axis_slices(x, *along))
            if at.size[i] <= MAX_SLICED_SIZE
            else axis_windows(x, *along).sum(i + 2)
        )
    return x


def _sums_numpy(x, at: Windows):
    """The same, a strided slice for each position in the window."""
    made = np.zeros((x.shape[0], *at.out, x.shape[-1]), x.dtype)
    for place in taps(at.size, at.stride, (1,) * len(at.size), at.out):
        made += x[:, *place]
    return made


def _fitted_numpy(x, at: Windows):
    if at.within:
        return x
    seen = [slice(0, n + min(0, b)) for n, (_, b, _) in zip(at.dims, at.config)]
    return np.pad(x[:, *seen], [(0, 0), *[(a, max(0, b)) for a, b, _ in at.config], (0, 0)])


def _mean_numpy(x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format):
    last = data_format[-1] == "C"
    at = windows(x.shape, last, kernel_size, stride, padding, ceil_mode)
    if 0 in at.out:
        return np.zeros(at.shape(x.shape, last), x.dtype)
    return back(
        _sums_numpy(_fitted_numpy(move(x, last), at), at) * _share(at, exclusive, divisor_override, x.dtype), last
    )


def _mean_grad_numpy(g, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format, sigs):
    last, shape = data_format[-1] == "C", sigs[0].shape
    at = windows(shape, last, kernel_size, stride, padding, ceil_mode)
    if 0 in at.out:
        return np.zeros(shape, g.dtype)
    shares = move(g, last) * _share(at, exclusive, divisor_override, g.dtype)
    reach = [max(m + a, (o - 1) * s + k) for m, a, o, s, k in zip(at.dims, at.before, at.out, at.stride, at.size)]
    full = np.zeros((g.shape[0], *reach, shares.shape[-1]), g.dtype)
    for place in taps(at.size, at.stride, (1,) * len(at.size), at.out):
        full[:, *place] += shares
    return back(full[:, *[slice(a, a + m) for m, a in zip(at.dims, at.before)]], last)


@functools.lru_cache(maxsize=1024)
def _share(at: Windows, inside: bool, divisor_override: Any, dtype: Any) -> Any:
    """What an element of a window counts in its mean."""
    share = 1 / _divisor(at, inside, np.float64)
    if divisor_override is not None:  # as Paddle has it: of the mean, not of the sum
        share = share * (math.prod(at.size) / divisor_override)
    return np.asarray(share, dtype)


def _divisor(at: Windows, inside: bool, dtype: Any) -> Any:
    """The number of elements of each window; one number where all windows have as many."""
    counts = functools.reduce(np.multiply.outer, [np.asarray(c, dtype) for c in at.counts(inside)])
    counts = np.maximum(counts, 1)  # a window of nothing but padding has mean 0
    return counts.flat[0] if counts.size and (counts == counts.flat[0]).all() else counts[..., None]


def _divisor_counted(at: Windows, inside: bool, dtype: Any) -> Any:
    """The same in steps, from which it can be told how it follows from the size of the image, where a table tells nothing."""
    found: Any = 1
    for axis, (n, k, s, a, o) in enumerate(zip(at.dims, at.size, at.stride, at.before, at.out)):
        low, high = (0, n) if inside else (-a, n + a)
        begin = jnp.arange(o) * s - a
        count = jnp.minimum(begin + k, high) - jnp.maximum(begin, low)
        found = found * jnp.maximum(count, 0).reshape(-1, *[1] * (len(at.out) - axis))
    return jnp.maximum(found, 1).astype(dtype)


def _mean(x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format):
    last = data_format[-1] == "C"
    at = windows(x.shape, last, kernel_size, stride, padding, ceil_mode)
    if 0 in at.out:
        return jnp.zeros(at.shape(x.shape, last), x.dtype)
    image = widen(move(x, last))
    divisor = _divisor(at, exclusive, image.dtype)
    out = _sums(fitted(image, at, 0), at) / (
        divisor if divisor.ndim == 0 else _divisor_counted(at, exclusive, image.dtype)
    )
    if divisor_override is not None:  # as Paddle has it: of the mean, not of the sum
        out = out * np.asarray(math.prod(kernel_size) / divisor_override, image.dtype)
    return back(out.astype(x.dtype), last)


def _complete(name: str, n: int) -> Any:
    def prepare(arguments):
        if isinstance(arguments["x"], Tensor):
            window_args.pool_arguments(name, n, arguments)
            divisor = arguments.get("divisor_override")
            if isinstance(divisor, (int, float, np.number)) and not divisor > 0:
                raise errors.bad(
                    f"{name}(divisor_override)", "a positive number", divisor, kind=errors.for_number(divisor)
                )

    return prepare


def _mean1d_numpy(x, kernel_size, stride, padding, exclusive, ceil_mode):
    return _mean_numpy(x, kernel_size, stride, padding, ceil_mode, exclusive, None, "NCL")


@op(dtypes=FLOAT, numpy=_mean1d_numpy)
def avg_pool1d(x: Tensor, kernel_size: Sizes, stride: Sizes = None, padding: Padding = 0, exclusive: bool = True,
               ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """Average pooling of sequences: the mean of each window.

    Args:
        x: Input tensor of shape ``[N, C, L]``, of a floating-point dtype.
        kernel_size: Size of the window.
        stride: Step between two windows; ``None`` means ``kernel_size``. Default: None.
        padding: Number of zeros added at both ends: an integer, a pair (before, after), ``'SAME'`` or ``'VALID'``.
            Default: 0.
        exclusive: Whether padding is left out of the number of elements that a mean is divided by. Default: True.
        ceil_mode: Whether windows that reach over the end count; ``False`` leaves them out. Default: False.

    Returns:
        Tensor of shape ``[N, C, L_out]``, where ``L_out = (L + before + after - kernel_size) // stride + 1``;
        ``ceil_mode`` rounds the quotient up.

    Examples:
        >>> bireme.nn.functional.avg_pool1d(bireme.to_tensor([[[1.0, 2.0, 4.0, 3.0]]]), 2).tolist()
        [[[1.5, 3.5]]]
    """
    return _mean(x, kernel_size, stride, padding, ceil_mode, exclusive, None, "NCL")


@op(dtypes=FLOAT, numpy=_mean_numpy, kernels="pool2d")
def avg_pool2d(x: Tensor, kernel_size: Sizes, stride: Sizes = None, padding: Padding = 0, ceil_mode: bool = False,
               exclusive: bool = True, divisor_override: Const = None,
               data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Average pooling of images: the mean of each window.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        kernel_size: Size of the window: one integer, or one for each spatial axis.
        stride: Step between two windows: one integer, or one for each spatial axis; ``None`` means ``kernel_size``.
            Default: None.
        padding: Number of zeros added at both ends of each spatial axis: one integer, one for each axis, a pair
            (before, after) for each axis in one flat list, such pairs for all axes of ``x`` in nested lists, ``'SAME'``
            or ``'VALID'``. Default: 0.
        ceil_mode: Whether windows that reach over the end count; ``False`` leaves them out. Default: False.
        exclusive: Whether padding is left out of the number of elements that a mean is divided by. Default: True.
        divisor_override: Positive number; the mean of a window is multiplied by the window's size over this, so that
            without padding it divides the sum. Default: None.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of shape ``[N, C, H_out, W_out]`` in ``data_format``, where
        ``H_out = (H + before + after - kernel_size) // stride + 1``, and likewise for the other axes; ``ceil_mode``
        rounds the quotient up.

    Examples:
        >>> bireme.nn.functional.avg_pool2d(bireme.to_tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 2).tolist()
        [[[[2.5]]]]
    """
    return _mean(x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format)


@op(dtypes=FLOAT, numpy=_mean_numpy)
def avg_pool3d(x: Tensor, kernel_size: Sizes, stride: Sizes = None, padding: Padding = 0, ceil_mode: bool = False,
               exclusive: bool = True, divisor_override: Const = None,
               data_format: str = "NCDHW") -> Tensor:  # fmt: skip
    """Average pooling of volumes: the mean of each window.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        kernel_size: Size of the window: one integer, or one for each spatial axis.
        stride: Step between two windows: one integer, or one for each spatial axis; ``None`` means ``kernel_size``.
            Default: None.
        padding: Number of zeros added at both ends of each spatial axis: one integer, one for each axis, a pair
            (before, after) for each axis in one flat list, such pairs for all axes of ``x`` in nested lists, ``'SAME'``
            or ``'VALID'``. Default: 0.
        ceil_mode: Whether windows that reach over the end count; ``False`` leaves them out. Default: False.
        exclusive: Whether padding is left out of the number of elements that a mean is divided by. Default: True.
        divisor_override: Positive number; the mean of a window is multiplied by the window's size over this, so that
            without padding it divides the sum. Default: None.
        data_format: ``'NCDHW'`` or ``'NDHWC'``. Default: ``'NCDHW'``.

    Returns:
        Tensor of shape ``[N, C, D_out, H_out, W_out]`` in ``data_format``, where
        ``D_out = (D + before + after - kernel_size) // stride + 1``, and likewise for the other axes; ``ceil_mode``
        rounds the quotient up.

    Examples:
        >>> bireme.nn.functional.avg_pool3d(bireme.to_tensor([[[[[1.0, 2.0], [3.0, 4.0]]]]]), [1, 2, 2]).tolist()
        [[[[[2.5]]]]]
    """
    return _mean(x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format)


def _mean_grad(g, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format, sigs):
    """The transpose: it reads nothing but `g`."""
    rest = (kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format)
    return jax.linear_transpose(lambda x: _mean(x, *rest), jax.ShapeDtypeStruct(sigs[0].shape, g.dtype))(g)[0]


@avg_pool1d.grad(numpy=lambda g, kernel_size, stride, padding, ceil_mode, exclusive, sigs: _mean_grad_numpy(
    g, kernel_size, stride, padding, ceil_mode, exclusive, None, "NCL", sigs))  # fmt: skip
def _(g, kernel_size, stride, padding, ceil_mode, exclusive, sigs):
    return _mean_grad(g, kernel_size, stride, padding, ceil_mode, exclusive, None, "NCL", sigs)


avg_pool1d.infer(
    lambda x, kernel_size, stride, padding, ceil_mode: pooled(x, kernel_size, stride, padding, ceil_mode, "NCL")
)
avg_pool2d.infer(pooled)
avg_pool3d.infer(pooled)
avg_pool2d.grad(_mean_grad, numpy=_mean_grad_numpy)
avg_pool3d.grad(_mean_grad, numpy=_mean_grad_numpy)
avg_pool1d.prepare(_complete("avg_pool1d", 1))
avg_pool2d.prepare(_complete("avg_pool2d", 2))
avg_pool3d.prepare(_complete("avg_pool3d", 3))


def _power(x, p: float):
    """`x ** p` of signed numbers: whole exponents have it for negative ones too."""
    return lax.integer_pow(x, int(p)) if p == int(p) else jnp.power(x, np.asarray(p, x.dtype))


@op(internal="lp_pool", dtypes=FLOAT)
def lp_pool_of(
    x: Tensor, norm_type: float, kernel_size: Attr, stride: Attr, padding: Attr, ceil_mode: bool, data_format: str
) -> Tensor:
    """The root of the sum of powers of each window; use `lp_pool2d`."""
    last = data_format[-1] == "C"
    at = windows(x.shape, last, kernel_size, stride, padding, ceil_mode)
    if 0 in at.out:
        return jnp.zeros(at.shape(x.shape, last), x.dtype)
    # no gradient of a power that no window has
    seen = [slice(0, n + min(0, b)) for n, (_, b, _) in zip(at.dims, at.config)]
    image = _power(widen(move(x, last))[:, *seen], norm_type)
    fitted = lax.pad(
        image, np.zeros((), image.dtype), [(0, 0, 0), *[(a, max(0, b), 0) for a, b, _ in at.config], (0, 0, 0)]
    )
    total = _sums(fitted, at)
    out = jnp.sqrt(total) if norm_type == 2 else _power(total, 1 / norm_type)
    return back(out.astype(x.dtype), last)


lp_pool_of.infer(pooled)


def _lp_pool(name: str, n: int, norm_type: float, arguments: dict[str, Any]) -> Tensor:
    if not isinstance(norm_type, (int, float)) or norm_type in (0, -math.inf) or norm_type != norm_type:
        raise errors.bad(
            f"{name}(norm_type)", "a nonzero number or infinity", norm_type, kind=errors.for_number(norm_type)
        )
    window_args.pool_arguments(name, n, arguments)
    rest = list(arguments.values())
    return max_pool_of(*rest)[0] if norm_type == math.inf else lp_pool_of(rest[0], norm_type, *rest[1:])


@composite(plain=True)
def lp_pool1d(x: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes = None, padding: Padding = 0,
              ceil_mode: bool = False, data_format: str = "NCL") -> Tensor:  # fmt: skip
    """Power-average pooling of sequences: ``sum(x ** norm_type) ** (1 / norm_type)`` of each window.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        norm_type: Exponent, a number other than 0; infinity gives the maximum.
        kernel_size: Size of the window.
        stride: Step between two windows; ``None`` means ``kernel_size``. Default: None.
        padding: Number of zeros added at both ends: an integer, a pair (before, after), ``'SAME'`` or ``'VALID'``.
            Default: 0.
        ceil_mode: Whether windows that reach over the end count; ``False`` leaves them out. Default: False.
        data_format: ``'NCL'`` or ``'NLC'``. Default: ``'NCL'``.

    Returns:
        Tensor of shape ``[N, C, L_out]`` in ``data_format``, where
        ``L_out = (L + before + after - kernel_size) // stride + 1``; ``ceil_mode`` rounds the quotient up.

    Examples:
        >>> bireme.nn.functional.lp_pool1d(bireme.to_tensor([[[3.0, 4.0]]]), 2, 2).tolist()
        [[[5.0]]]
    """
    rest = {
        "x": x,
        "kernel_size": kernel_size,
        "stride": stride,
        "padding": padding,
        "ceil_mode": ceil_mode,
        "data_format": data_format,
    }
    return _lp_pool("lp_pool1d", 1, norm_type, rest)


@composite(plain=True)
def lp_pool2d(x: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes = None, padding: Padding = 0,
              ceil_mode: bool = False, data_format: str = "NCHW") -> Tensor:  # fmt: skip
    """Power-average pooling of images: ``sum(x ** norm_type) ** (1 / norm_type)`` of each window.

    Args:
        x: Input tensor in ``data_format``, of a floating-point dtype.
        norm_type: Exponent, a number other than 0; infinity gives the maximum.
        kernel_size: Size of the window: one integer, or one for each spatial axis.
        stride: Step between two windows: one integer, or one for each spatial axis; ``None`` means ``kernel_size``.
            Default: None.
        padding: Number of zeros added at both ends of each spatial axis: one integer, one for each axis, a pair
            (before, after) for each axis in one flat list, such pairs for all axes of ``x`` in nested lists, ``'SAME'``
            or ``'VALID'``. Default: 0.
        ceil_mode: Whether windows that reach over the end count; ``False`` leaves them out. Default: False.
        data_format: ``'NCHW'`` or ``'NHWC'``. Default: ``'NCHW'``.

    Returns:
        Tensor of shape ``[N, C, H_out, W_out]`` in ``data_format``, where
        ``H_out = (H + before + after - kernel_size) // stride + 1``, and likewise for the other axes; ``ceil_mode``
        rounds the quotient up.

    Examples:
        >>> bireme.nn.functional.lp_pool2d(bireme.to_tensor([[[[3.0, 4.0]]]]), 2, [1, 2]).tolist()
        [[[[5.0]]]]
    """
    rest = {
        "x": x,
        "kernel_size": kernel_size,
        "stride": stride,
        "padding": padding,
        "ceil_mode": ceil_mode,
        "data_format": data_format,
    }
    return _lp_pool("lp_pool2d", 2, norm_type, rest)
