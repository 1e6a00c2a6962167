"""Activations made of pieces: rectifiers and exponential units, shrinkage, hard limits, the largest of a group."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import broadcast_shape, sum_to
from bireme.ops.manipulation import reshape
from bireme.ops.math import logic
from bireme.ops.nn.activation import leaky_relu
from bireme.ops.random import generators

# ---------------------------------------------------------------- exponential units: the slope at zero is that of the left side


def _below(x):
    """exp(x) - 1 where x is negative, without overflow where it is not."""
    return jnp.expm1(jnp.minimum(x, 0))


@op(inplace=True, dtypes=FLOAT, numpy=True)
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is positive, else alpha * (exp(x) - 1).

    >>> bireme.nn.functional.elu(bireme.to_tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return jnp.where(x > 0, x, alpha * _below(x))


elu.infer(lambda x: x)
elu.grad(lambda g, x, alpha: jnp.where(x > 0, g, g * (alpha * jnp.exp(jnp.minimum(x, 0)))), numpy=True)


@op(dtypes=FLOAT, numpy=True)
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is positive, else alpha * (exp(x / alpha) - 1): its slope has no step.

    >>> bireme.nn.functional.celu(bireme.to_tensor([0.0, 2.0]), 0.5).tolist()
    [0.0, 2.0]
    """
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.minimum(x, 0) / alpha))


celu.infer(lambda x: x)
celu.grad(lambda g, x, alpha: jnp.where(x > 0, g, g * jnp.exp(jnp.minimum(x, 0) / alpha)), numpy=True)


@celu.check
def _(alpha):
    if alpha == 0:
        raise errors.bad("celu(alpha)", "a number other than 0", alpha, kind=ZeroDivisionError)


@op(dtypes=FLOAT, of_the_past=True, numpy=True)
def selu(x: Tensor, scale: float = 1.0507009873554804934193349852946, alpha: float = 1.6732632423543772848170429916717) -> Tensor:
    """scale * x where x is positive, else scale * alpha * (exp(x) - 1).

    >>> bireme.nn.functional.selu(bireme.to_tensor([0.0, 2.0]), scale=2.0).tolist()
    [0.0, 4.0]
    """
    return scale * jnp.where(x > 0, x, alpha * _below(x))


selu.infer(lambda x: x)
selu.grad(lambda g, x, scale, alpha: g * jnp.where(x > 0, scale, scale * alpha * jnp.exp(jnp.minimum(x, 0))).astype(g.dtype), numpy=True)


@selu.check
def _(scale, alpha):
    if scale <= 1:
        raise errors.bad("selu(scale)", "a number above 1", scale)
    if alpha < 0:
        raise errors.bad("selu(alpha)", "a number of 0 or more", alpha)


# ---------------------------------------------------------------- limits: the slope is 0 where the limit is reached


def _inside(g, x, low, high):
    return jnp.where((x > low) & (x < high), g, jnp.zeros_like(g))


@op(inplace=True, dtypes=FLOAT, numpy=True)
def hardtanh(x: Tensor, min: float = -1.0, max: float = 1.0) -> Tensor:
    """x limited to [min, max].

    >>> bireme.nn.functional.hardtanh(bireme.to_tensor([-3.0, 0.5, 2.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    return jnp.minimum(jnp.maximum(x, min), max)


hardtanh.infer(lambda x: x)
hardtanh.grad(lambda g, x, min, max: _inside(g, x, min, max), numpy=True)


@op(dtypes=FLOAT, numpy=True)
def relu6(x: Tensor) -> Tensor:
    """x limited to [0, 6].

    >>> bireme.nn.functional.relu6(bireme.to_tensor([-3.0, 0.5, 9.0])).tolist()
    [0.0, 0.5, 6.0]
    """
    return jnp.minimum(jnp.maximum(x, 0), 6)


relu6.infer(lambda x: x)
relu6.grad(lambda g, x: _inside(g, x, 0, 6), numpy=True)


@op(dtypes=FLOAT, numpy=True)
def hardsigmoid(x: Tensor, slope: float = 0.1666667, offset: float = 0.5) -> Tensor:
    """slope * x + offset, limited to [0, 1].

    >>> bireme.nn.functional.hardsigmoid(bireme.to_tensor([-9.0, 0.0, 9.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return jnp.minimum(jnp.maximum(x * slope + offset, 0), 1)


hardsigmoid.infer(lambda x: x)
hardsigmoid.grad(lambda g, x, slope, offset: _inside(g * slope, x * slope + offset, 0, 1), numpy=True)


@op(dtypes=FLOAT, numpy=True)
def hardswish(x: Tensor) -> Tensor:
    """x * (x + 3) / 6 between -3 and 3, 0 below and x above.

    >>> bireme.nn.functional.hardswish(bireme.to_tensor([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.0, 4.0]
    """
    return jnp.where(x <= -3, jnp.zeros_like(x), x * (jnp.minimum(jnp.maximum(x + 3, 0), 6) / 6))


hardswish.infer(lambda x: x)


@hardswish.grad(numpy=True)
def _(g, x):
    return jnp.where(x <= -3, jnp.zeros_like(g), jnp.where(x >= 3, g, g * (x / 3 + 0.5)))


# ---------------------------------------------------------------- thresholds


@op(dtypes=FLOAT, numpy=True)
def hardshrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """0 between -threshold and threshold, x elsewhere.

    >>> bireme.nn.functional.hardshrink(bireme.to_tensor([-1.0, 0.25, 0.5])).tolist()
    [-1.0, 0.0, 0.5]
    """
    return jnp.where((x > -threshold) & (x < threshold), jnp.zeros_like(x), x)


hardshrink.infer(lambda x: x)
hardshrink.grad(lambda g, x, threshold: jnp.where((x > -threshold) & (x < threshold), jnp.zeros_like(g), g), numpy=True)


@op(dtypes=FLOAT, numpy=True)
def softshrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """x brought closer to 0 by the threshold, and 0 within it.

    >>> bireme.nn.functional.softshrink(bireme.to_tensor([-1.0, 0.25, 2.0])).tolist()
    [-0.5, 0.0, 1.5]
    """
    return x - jnp.minimum(jnp.maximum(x, -threshold), threshold)


softshrink.infer(lambda x: x)
softshrink.grad(lambda g, x, threshold: jnp.where((x < -threshold) | (x > threshold), g, jnp.zeros_like(g)), numpy=True)


@softshrink.check
def _(threshold):
    if threshold < 0:
        raise errors.bad("softshrink(threshold)", "a number of 0 or more", threshold)


@op(inplace=True, dtypes=FLOAT, numpy=True)
def thresholded_relu(x: Tensor, threshold: float = 1.0, value: float = 0.0) -> Tensor:
    """x where it exceeds the threshold, else `value`.

    >>> bireme.nn.functional.thresholded_relu(bireme.to_tensor([0.5, 2.0])).tolist()
    [0.0, 2.0]
    """
    return jnp.where(x <= threshold, jnp.full_like(x, value), x)


thresholded_relu.infer(lambda x: x)
thresholded_relu.grad(lambda g, x, threshold: jnp.where(x > threshold, g, jnp.zeros_like(g)), numpy=True)


# ---------------------------------------------------------------- slopes that are learned or drawn


@op(dtypes=FLOAT, promote="x weight", mix="same", numpy=True)
def prelu_of(x: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, else weight * x; use `prelu`.

    >>> bireme.nn.functional.prelu(bireme.to_tensor([-1.0, 2.0]), bireme.to_tensor([0.25])).tolist()
    [-0.25, 2.0]
    """
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
    """x where it is positive, else weight * x, with one weight or one for each channel.

    >>> bireme.nn.functional.prelu(bireme.to_tensor([-1.0, 2.0]), bireme.to_tensor([0.25])).tolist()
    [-0.25, 2.0]
    """
    if data_format not in (*_FIRST, *_LAST):
        raise errors.bad("prelu(data_format)", f"one of {', '.join((*_FIRST, *_LAST))}", data_format)
    if weight.ndim > 1:
        raise errors.bad("prelu(weight)", "at most one axis", weight, kind=AssertionError)
    if weight.ndim == 0 or weight.shape == [1]:
        return prelu_of(x, reshape.reshape(weight, [1] * x.ndim))
    if x.ndim < 2:
        raise errors.bad("prelu(x)", "at least two axes for a weight of each channel", x, kind=AssertionError)
    axis = x.ndim - 1 if data_format in _LAST else 1
    if weight.shape[0] != x.shape[axis]:
        raise errors.bad("prelu(weight)", f"1 element or {x.shape[axis]}, one for each channel", weight, kind=AssertionError)
    return prelu_of(x, reshape.reshape(weight, [-1 if i == axis else 1 for i in range(x.ndim)]))


@composite()
def rrelu(x: Tensor, lower: Any = 1.0 / 8.0, upper: Any = 1.0 / 3.0, training: bool = True) -> Tensor:
    """x where it is not negative, else x times a slope drawn from [lower, upper], or their mean outside of training.

    >>> bireme.nn.functional.rrelu(bireme.to_tensor([-1.0, 2.0]), 0.25, 0.75, training=False).tolist()
    [-0.5, 2.0]
    """
    slopes("rrelu", lower, upper)
    if x.dtype not in FLOAT:
        raise errors.bad("rrelu(x)", "one of bfloat16, float16, float32, float64", x.dtype.name, kind=errors.NoKernel)
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    return logic.select(x < 0, x * generators.uniform_of(lower, upper, x.shape, x.dtype), x)


def slopes(where: str, lower: Any, upper: Any) -> None:
    """Check the range of slopes of a randomised rectifier."""
    if not isinstance(lower, float) or not isinstance(upper, float):
        raise errors.bad(f"{where}(lower, upper)", "two floats", f"{lower!r} and {upper!r}", kind=TypeError)
    if not 0 <= lower <= 1:
        raise errors.bad(f"{where}(lower)", "a number in [0, 1]", lower)
    if not lower <= upper <= 1:
        raise errors.bad(f"{where}(upper)", f"a number in [{lower}, 1]", upper)


# ---------------------------------------------------------------- the largest of a group


@op(dtypes=FLOAT, numpy=True)
def maxout(x: Tensor, groups: int, axis: int = 1) -> Tensor:
    """The largest of each `groups` channels that follow each other, of images.

    >>> bireme.nn.functional.maxout(bireme.to_tensor([1.0, 5.0, 2.0, 3.0]).reshape([1, 4, 1, 1]), 2).flatten().tolist()
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
        raise errors.bad("maxout(x)", "images with four axes", f"shape {list(x.shape)}")
    if groups < 2:
        raise errors.bad("maxout(groups)", "an integer above 1", groups)
    if x.shape[axis] % groups:
        raise errors.bad("maxout(groups)", f"a divisor of the {x.shape[axis]} channels", groups)


@maxout.infer
def _(x, groups, axis):
    return sig_of((*x.shape[:axis], x.shape[axis] // groups, *x.shape[axis + 1 :]), x.dtype)
