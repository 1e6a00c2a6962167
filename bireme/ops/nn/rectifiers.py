"""Activations made of pieces: rectifiers and exponential units, shrinkage, hard limits, the maximum of a group."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import broadcast_shape, sum_to
from bireme.ops.manipulation import reshape
from bireme.ops.math import logic
from bireme.ops.nn.activation import leaky_relu
from bireme.ops.random import generators

# ---------------------------------------------------------------- exponential units: the slope at zero is that of the
# left side


def _below(x):
    """exp(x) - 1 where x is negative, without overflow where it is not."""
    return jnp.expm1(jnp.minimum(x, 0))


@op(inplace=True, dtypes=FLOAT, numpy=True, elementwise=True)
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Exponential linear unit: ``x`` where ``x > 0``, else ``alpha * (exp(x) - 1)``.

    Args:
        x: Input tensor of a floating-point dtype.
        alpha: Minus the limit for large negative elements. Default: 1.0.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> [round(y, 4) for y in bireme.nn.functional.elu(bireme.to_tensor([-1.0, 0.0, 2.0])).tolist()]
        [-0.6321, 0.0, 2.0]
    """
    return jnp.where(x > 0, x, alpha * _below(x))


elu.infer(lambda x: x)
elu.grad(lambda g, x, alpha: jnp.where(x > 0, g, g * (alpha * jnp.exp(jnp.minimum(x, 0)))), numpy=True)


@op(dtypes=FLOAT, numpy=True, elementwise=True)
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Exponential linear unit with a continuous slope: ``x`` where ``x > 0``, else ``alpha * (exp(x / alpha) - 1)``.

    Its slope at 0 is 1 from both sides, for any ``alpha``.

    Args:
        x: Input tensor of a floating-point dtype.
        alpha: Minus the limit for large negative elements; not 0. Default: 1.0.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> [round(y, 4) for y in bireme.nn.functional.celu(bireme.to_tensor([-1.0, 0.0, 2.0]), 0.5).tolist()]
        [-0.4323, 0.0, 2.0]
    """
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.minimum(x, 0) / alpha))


celu.infer(lambda x: x)
celu.grad(lambda g, x, alpha: jnp.where(x > 0, g, g * jnp.exp(jnp.minimum(x, 0) / alpha)), numpy=True)


@celu.check
def _(alpha):
    if alpha == 0:
        raise errors.bad("celu(alpha)", "a nonzero number", alpha, kind=ZeroDivisionError)


@op(dtypes=FLOAT, of_the_past=True, numpy=True, elementwise=True)
def selu(
    x: Tensor, scale: float = 1.0507009873554804934193349852946, alpha: float = 1.6732632423543772848170429916717
) -> Tensor:
    """Scaled exponential linear unit: ``scale * x`` where ``x > 0``, else ``scale * alpha * (exp(x) - 1)``.

    With the default constants, layers of normalized weights keep mean 0 and variance 1.

    Args:
        x: Input tensor of a floating-point dtype.
        scale: Factor of the whole; above 1. Default: 1.0507009873554805.
        alpha: Factor of negative elements; non-negative. Default: 1.6732632423543772.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.selu(bireme.to_tensor([0.0, 2.0]), scale=2.0).tolist()
        [0.0, 4.0]
    """
    return scale * jnp.where(x > 0, x, alpha * _below(x))


selu.infer(lambda x: x)
selu.grad(
    lambda g, x, scale, alpha: g * jnp.where(x > 0, scale, scale * alpha * jnp.exp(jnp.minimum(x, 0))).astype(g.dtype),
    numpy=True,
)


@selu.check
def _(scale, alpha):
    if scale <= 1:
        raise errors.bad("selu(scale)", "a number greater than 1", scale, kind=errors.for_number(scale))
    if alpha < 0:
        raise errors.bad("selu(alpha)", "a non-negative number", alpha, kind=errors.for_number(alpha))


# ---------------------------------------------------------------- limits: the slope is 0 where the limit is reached


def _inside(g, x, low, high):
    return jnp.where((x > low) & (x < high), g, jnp.zeros((), g.dtype))


@op(inplace=True, dtypes=FLOAT, numpy=True, elementwise=True)
def hardtanh(x: Tensor, min: float = -1.0, max: float = 1.0) -> Tensor:
    """Piecewise linear form of the hyperbolic tangent: ``x`` limited to ``[min, max]``.

    Args:
        x: Input tensor of a floating-point dtype.
        min: Lower limit. Default: -1.0.
        max: Upper limit. Default: 1.0.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.hardtanh(bireme.to_tensor([-3.0, 0.5, 2.0])).tolist()
        [-1.0, 0.5, 1.0]
    """
    return jnp.minimum(jnp.maximum(x, min), max)


hardtanh.infer(lambda x: x)
hardtanh.grad(lambda g, x, min, max: _inside(g, x, min, max), numpy=True)


@op(dtypes=FLOAT, numpy=True, elementwise=True)
def relu6(x: Tensor) -> Tensor:
    """Rectified linear unit with an upper limit: ``min(max(x, 0), 6)``.

    Args:
        x: Input tensor of a floating-point dtype.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.relu6(bireme.to_tensor([-3.0, 0.5, 9.0])).tolist()
        [0.0, 0.5, 6.0]
    """
    return jnp.minimum(jnp.maximum(x, 0), 6)


relu6.infer(lambda x: x)
relu6.grad(lambda g, x: _inside(g, x, 0, 6), numpy=True)


@op(dtypes=FLOAT, numpy=True, kernels="hard_sigmoid", elementwise=True)
def hardsigmoid(x: Tensor, slope: float = 0.1666667, offset: float = 0.5) -> Tensor:
    """Piecewise linear form of the sigmoid: ``slope * x + offset`` limited to ``[0, 1]``.

    Args:
        x: Input tensor of a floating-point dtype.
        slope: Slope of the linear part. Default: 0.1666667.
        offset: Value at 0. Default: 0.5.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.hardsigmoid(bireme.to_tensor([-9.0, 0.0, 9.0])).tolist()
        [0.0, 0.5, 1.0]
    """
    return jnp.minimum(jnp.maximum(x * slope + offset, 0), 1)


hardsigmoid.infer(lambda x: x)
hardsigmoid.grad(lambda g, x, slope, offset: _inside(g * slope, x * slope + offset, 0, 1), numpy=True)


@op(dtypes=FLOAT, numpy=True, kernels="hard_swish", elementwise=True)
def hardswish(x: Tensor) -> Tensor:
    """Piecewise form of swish: 0 where ``x <= -3``, ``x`` where ``x >= 3``, else ``x * (x + 3) / 6``.

    Args:
        x: Input tensor of a floating-point dtype.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.hardswish(bireme.to_tensor([-4.0, 0.0, 1.5, 4.0])).tolist()
        [0.0, 0.0, 1.125, 4.0]
    """
    return jnp.where(x <= -3, jnp.zeros((), x.dtype), x * (jnp.minimum(jnp.maximum(x + 3, 0), 6) / 6))


hardswish.infer(lambda x: x)


@hardswish.grad(numpy=True)
def _(g, x):
    return jnp.where(x <= -3, jnp.zeros((), g.dtype), jnp.where(x >= 3, g, g * (x / 3 + 0.5)))


# ---------------------------------------------------------------- thresholds


@op(dtypes=FLOAT, numpy=True, elementwise=True)
def hardshrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """Hard shrinkage: 0 where ``-threshold < x < threshold``, else ``x``.

    Args:
        x: Input tensor of a floating-point dtype.
        threshold: Magnitude below which elements become 0. Default: 0.5.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.hardshrink(bireme.to_tensor([-1.0, 0.25, 0.5])).tolist()
        [-1.0, 0.0, 0.5]
    """
    return jnp.where((x > -threshold) & (x < threshold), jnp.zeros((), x.dtype), x)


hardshrink.infer(lambda x: x)
hardshrink.grad(
    lambda g, x, threshold: jnp.where((x > -threshold) & (x < threshold), jnp.zeros((), g.dtype), g), numpy=True
)


@op(dtypes=FLOAT, numpy=True, elementwise=True)
def softshrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """Soft shrinkage: ``x`` moved towards 0 by ``threshold``, and 0 where its magnitude is at most ``threshold``.

    Args:
        x: Input tensor of a floating-point dtype.
        threshold: Non-negative number that is taken off the magnitude. Default: 0.5.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.softshrink(bireme.to_tensor([-1.0, 0.25, 2.0])).tolist()
        [-0.5, 0.0, 1.5]
    """
    return x - jnp.minimum(jnp.maximum(x, -threshold), threshold)


softshrink.infer(lambda x: x)
softshrink.grad(
    lambda g, x, threshold: jnp.where((x < -threshold) | (x > threshold), g, jnp.zeros((), g.dtype)), numpy=True
)


@softshrink.check
def _(threshold):
    if threshold < 0:
        raise errors.bad("softshrink(threshold)", "a non-negative number", threshold, kind=errors.for_number(threshold))


@op(inplace=True, dtypes=FLOAT, numpy=True, elementwise=True)
def thresholded_relu(x: Tensor, threshold: float = 1.0, value: float = 0.0) -> Tensor:
    """Rectified linear unit with a threshold: ``x`` where ``x > threshold``, else ``value``.

    Args:
        x: Input tensor of a floating-point dtype.
        threshold: Number that an element must exceed to be kept. Default: 1.0.
        value: What replaces the other elements. Default: 0.0.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.thresholded_relu(bireme.to_tensor([0.5, 2.0])).tolist()
        [0.0, 2.0]
    """
    return jnp.where(x <= threshold, jnp.full_like(x, value), x)


thresholded_relu.infer(lambda x: x)
thresholded_relu.grad(lambda g, x, threshold: jnp.where(x > threshold, g, jnp.zeros((), g.dtype)), numpy=True)


# ---------------------------------------------------------------- slopes that are learned or drawn


@op(internal="prelu", dtypes=FLOAT, promote="x weight", mix="same", numpy=True)
def prelu_of(x: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, else weight * x; use `prelu`."""
    return jnp.where(x > 0, x, weight * x)


@prelu_of.grad(numpy=True)
def _(g, x, weight, sigs):
    above = x > 0
    return sum_to(jnp.where(above, g, weight * g), sigs[0]), sum_to(jnp.where(above, 0, g * x), sigs[1])


prelu_of.infer(lambda x, weight: sig_of(broadcast_shape("prelu", x.shape, weight.shape), x.dtype))

_LAST = ("NLC", "NHWC", "NDHWC")
_FIRST = ("NC", "NCL", "NCHW", "NCDHW")


@composite(plain=True)
def prelu(x: Tensor, weight: Tensor, data_format: str = "NCHW") -> Tensor:
    """Rectified linear unit with a learned slope: ``x`` where ``x > 0``, else ``weight * x``.

    Args:
        x: Input tensor of a floating-point dtype; of at least 2 dimensions if there is a slope for each channel.
        weight: Slopes: one element, or a 1-D tensor with one for each channel.
        data_format: Whether channels are axis 1 (``'NC'``, ``'NCL'``, ``'NCHW'``, ``'NCDHW'``) or the last axis
            (``'NLC'``, ``'NHWC'``, ``'NDHWC'``). Default: ``'NCHW'``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.prelu(bireme.to_tensor([-1.0, 2.0]), bireme.to_tensor([0.25])).tolist()
        [-0.25, 2.0]
    """
    if data_format not in (*_FIRST, *_LAST):
        raise errors.bad("prelu(data_format)", f"one of {', '.join(map(repr, (*_FIRST, *_LAST)))}", data_format)
    if weight.ndim > 1:
        raise errors.bad("prelu(weight)", "at most 1 dimension", weight, kind=AssertionError)
    if weight.ndim == 0 or weight.shape == [1]:
        return prelu_of(x, reshape.reshape(weight, [1] * x.ndim))
    if x.ndim < 2:
        raise errors.bad("prelu(x)", "at least 2 dimensions for a weight per channel", x, kind=AssertionError)
    axis = x.ndim - 1 if data_format in _LAST else 1
    if weight.shape[0] != x.shape[axis]:
        raise errors.bad(
            "prelu(weight)", f"1 element or {x.shape[axis]}, one for each channel", weight, kind=AssertionError
        )
    return prelu_of(x, reshape.reshape(weight, [-1 if i == axis else 1 for i in range(x.ndim)]))


@composite()
def rrelu(x: Tensor, lower: Attr[float] = 1.0 / 8.0, upper: Attr[float] = 1.0 / 3.0, training: bool = True) -> Tensor:
    """Rectified linear unit with random slopes for negative elements: ``x`` where ``x >= 0``, else ``slope * x``.

    In training the slope of each element is drawn from the uniform distribution on ``[lower, upper]``; otherwise it is
    their mean.

    Args:
        x: Input tensor of a floating-point dtype.
        lower: Least slope, a float in ``[0, 1]``. Default: 1 / 8.
        upper: Greatest slope, a float in ``[lower, 1]``. Default: 1 / 3.
        training: Whether to draw the slopes. Default: True.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.rrelu(bireme.to_tensor([-1.0, 2.0]), 0.25, 0.75, training=False).tolist()
        [-0.5, 2.0]
    """
    slopes("rrelu", lower, upper)
    if x.dtype not in FLOAT:
        raise errors.bad(
            "rrelu(x)", "one of bfloat16, float16, float32, float64", described=x.dtype.name, kind=errors.DtypeError
        )
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    return logic.select(x < 0, x * generators.uniform_of(lower, upper, x.shape, x.dtype), x)


def slopes(where: str, lower: Any, upper: Any) -> None:
    """Check the range of slopes of a randomised rectifier."""
    if not isinstance(lower, float) or not isinstance(upper, float):
        raise errors.bad(
            f"{where}(lower, upper)", "two numbers", described=f"{lower!r} and {upper!r}", kind=errors.ArgumentTypeError
        )
    if not 0 <= lower <= 1:
        raise errors.bad(f"{where}(lower)", "a number in [0, 1]", lower, kind=errors.for_number(lower))
    if not lower <= upper <= 1:
        raise errors.bad(f"{where}(upper)", f"a number in [{lower}, 1]", upper, kind=errors.for_number(upper))


# ---------------------------------------------------------------- the maximum of a group


@op(dtypes=FLOAT, numpy=True)
def maxout(x: Tensor, groups: int, axis: int = 1) -> Tensor:
    """Maximum over groups of consecutive channels of images.

    Channel ``i`` of the result is the maximum of the channels ``i * groups`` to ``(i + 1) * groups - 1``.

    Args:
        x: 4-D tensor of a floating-point dtype.
        groups: Number of channels in each group; above 1, and a divisor of the number of channels.
        axis: Axis of the channels: 1, 3 or -1. Default: 1.

    Returns:
        Tensor of the shape of ``x`` with ``1 / groups`` of the channels.

    Examples:
        >>> x = bireme.to_tensor([1.0, 5.0, 2.0, 3.0]).reshape([1, 4, 1, 1])
        >>> bireme.nn.functional.maxout(x, 2).flatten().tolist()
        [5.0, 3.0]
    """
    return jnp.max(_grouped(x, groups, axis), axis=axis + 1)


def _grouped(x, groups, axis):
    return x.reshape(*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :])


@maxout.grad
def _(g, x, groups, axis):
    """All of it goes to the first of equals."""
    parts = _grouped(x, groups, axis)
    first = jnp.expand_dims(jnp.argmax(parts, axis=axis + 1), axis + 1)
    places = lax.broadcasted_iota(first.dtype, parts.shape, axis + 1)
    return jnp.where(places == first, jnp.expand_dims(g, axis + 1), 0).reshape(x.shape)


@maxout.prepare
def _(arguments):
    x, axis = arguments["x"], arguments["axis"]
    if isinstance(x, Tensor) and x.ndim == 4:
        if axis not in (1, 3, -1):
            raise errors.bad("maxout(axis)", "1, 3 or -1", axis)
        arguments["axis"] = axis % 4


@maxout.check
def _(x, groups, axis):
    if x.ndim != 4:
        raise errors.bad("maxout(x)", "a 4-D tensor", described=f"shape {list(x.shape)}", kind=errors.ShapeError)
    if groups < 2:
        raise errors.bad("maxout(groups)", "an integer greater than 1", groups, kind=errors.for_integer(groups))
    if x.shape[axis] % groups:
        raise errors.bad("maxout(groups)", f"a divisor of the {x.shape[axis]} channels", groups)


@maxout.infer
def _(x, groups, axis):
    return sig_of((*x.shape[:axis], x.shape[axis] // groups, *x.shape[axis + 1 :]), x.dtype)
