"""Activations."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy import special

from bireme.core.dtype import FLOAT
from bireme.core.op import Axis, DTypeArg, Extra, Tensor, composite, op
from bireme.ops.broadcast import same
from bireme.ops.math import cast

_HALF_ROOT = math.sqrt(0.5)
_ROOT_2_PI = math.sqrt(2 / math.pi)


@op(inplace=True, numpy=lambda x: np.maximum(x, 0), alias={"x": "input"})
def relu(x: Tensor) -> Tensor:
    """max(x, 0).

    >>> bireme.nn.functional.relu(bireme.to_tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return jnp.maximum(x, 0)


relu.infer(same)
relu.grad(lambda g, out: jnp.where(out > 0, g, jnp.zeros_like(g)), numpy=True)


@op()
def leaky_relu(x: Tensor, negative_slope: Tensor | float = 0.01) -> Tensor:
    """x where it is not negative, else negative_slope * x.

    >>> bireme.nn.functional.leaky_relu(bireme.to_tensor([-1.0, 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    return jnp.where(x >= 0, x, x * negative_slope.astype(x.dtype))


leaky_relu.infer(lambda x: x)


def _gelu_numpy(x, approximate):
    if approximate:
        t = x * x
        t *= np.asarray(0.044715 * _ROOT_2_PI, x.dtype)
        t += np.asarray(_ROOT_2_PI, x.dtype)
        t *= x
        t = np.tanh(t)
        t += 1
        t *= x
        t *= 0.5
        return t
    return x * 0.5 * (1 + special.erf(x * np.asarray(_HALF_ROOT, x.dtype)))


@op(dtypes=FLOAT, numpy=_gelu_numpy, alias={"x": "input"})
def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """x times the normal distribution function at x; `approximate` uses tanh.

    >>> bireme.nn.functional.gelu(bireme.to_tensor([0.0])).tolist()
    [0.0]
    """
    if approximate:
        return 0.5 * x * (1 + jnp.tanh(np.asarray(_ROOT_2_PI, x.dtype) * (x + 0.044715 * x * x * x)))
    return x * 0.5 * (1 + lax.erf(x * np.asarray(_HALF_ROOT, x.dtype)))


@gelu.prepare
def _(arguments):
    if arguments["approximate"] in ("none", "tanh"):
        arguments["approximate"] = arguments["approximate"] == "tanh"


gelu.infer(lambda x: x)


def _gelu_slope(x, approximate, tanh, erf, exp):
    if approximate:
        inner = _ROOT_2_PI * (x + 0.044715 * x * x * x)
        t = tanh(inner)
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (_ROOT_2_PI * (1 + 3 * 0.044715 * x * x))
    return 0.5 * (1 + erf(x * _HALF_ROOT)) + x * (exp(-0.5 * x * x) * (0.5 * _ROOT_2_PI))


@gelu.grad(numpy=lambda g, x, approximate: g * _gelu_slope(x, approximate, np.tanh, special.erf, np.exp))
def _(g, x, approximate):
    return g * _gelu_slope(x, approximate, jnp.tanh, lax.erf, jnp.exp)


@op(dtypes=FLOAT, alias={"x": "input"})
def silu(x: Tensor, inplace: Extra = False) -> Tensor:
    """x times its sigmoid.

    >>> bireme.nn.functional.silu(bireme.to_tensor([0.0])).tolist()
    [0.0]
    """
    return x * lax.logistic(x)


silu.infer(same)


def _sigmoid(x):
    return 1 / (1 + jnp.exp(-x))


@silu.grad(numpy=True)
def _(g, x):
    s = _sigmoid(x)
    return g * (s * (1 + x * (1 - s)))


@op(dtypes=FLOAT)
def softplus(x: Tensor, beta: Tensor | float = 1, threshold: Tensor | float = 20) -> Tensor:
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold.

    >>> round(bireme.nn.functional.softplus(bireme.to_tensor([0.0])).item(), 4)
    0.6931
    """
    scaled = x * beta.astype(x.dtype)
    return jnp.where(scaled > threshold.astype(x.dtype), x, jax.nn.softplus(scaled) / beta.astype(x.dtype))


softplus.infer(lambda x: x)


def _softmax(x, axis):
    if x.ndim == 0:
        return jnp.ones_like(x)
    e = jnp.exp(x - jnp.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return e / jnp.sum(e, axis=axis, keepdims=True)


def _softmax_numpy(x, axis):
    if x.ndim == 0:
        return np.ones_like(x)
    e = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    np.exp(e, out=e)
    e /= np.sum(e, axis=axis, keepdims=True)
    return e


def _softmax_grad_numpy(g, out, axis):
    if out.ndim == 0:
        return np.zeros_like(g)
    d = g * out
    d -= out * np.sum(d, axis=axis, keepdims=True)
    return d


@op(name="softmax_of", dtypes=FLOAT, numpy=_softmax_numpy)
def softmax_of(x: Tensor, axis: Axis) -> Tensor:
    """exp(x) divided by its sum along an axis; use `softmax`.

    >>> bireme.nn.functional.softmax(bireme.to_tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return _softmax(x, axis)


softmax_of.infer(lambda x: x)


@softmax_of.grad(numpy=_softmax_grad_numpy)
def _(g, out, axis):
    if out.ndim == 0:
        return jnp.zeros_like(g)
    d = g * out
    return d - out * jnp.sum(d, axis=axis, keepdims=True)


@composite(public="nn.functional.softmax", inplace=True, alias={"x": "input", "axis": "dim"}, out=True)
def softmax(x: Tensor, axis: int = -1, dtype: DTypeArg = None) -> Tensor:
    """exp(x) divided by its sum along `axis`.

    >>> bireme.nn.functional.softmax(bireme.to_tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return softmax_of(x if dtype is None or dtype is x.dtype else cast(x, dtype), axis)


def _log_softmax(x, axis):
    if x.ndim == 0:
        return jnp.zeros_like(x)
    z = x - jnp.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return z - jnp.log(jnp.sum(jnp.exp(z), axis=axis, keepdims=True))


@op(dtypes=FLOAT, numpy=True)
def log_softmax_of(x: Tensor, axis: Axis) -> Tensor:
    """Logarithm of the softmax; use `log_softmax`.

    >>> round(bireme.nn.functional.log_softmax(bireme.to_tensor([0.0, 0.0])).tolist()[0], 4)
    -0.6931
    """
    return _log_softmax(x, axis)


log_softmax_of.infer(lambda x: x)


@log_softmax_of.grad(numpy=True)
def _(g, out, axis):
    return g - jnp.exp(out) * jnp.sum(g, axis=axis, keepdims=True) if out.ndim else jnp.zeros_like(g)


@composite()
def log_softmax(x: Tensor, axis: int = -1, dtype: DTypeArg = None) -> Tensor:
    """Logarithm of the softmax along `axis`, without overflow.

    >>> round(bireme.nn.functional.log_softmax(bireme.to_tensor([0.0, 0.0])).tolist()[0], 4)
    -0.6931
    """
    return log_softmax_of(x if dtype is None or dtype is x.dtype else cast(x, dtype), axis)
