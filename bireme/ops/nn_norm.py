"""Normalisation over the last axes."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from bireme.core import errors
from bireme.core.convert import ints
from bireme.core.dtype import FLOAT
from bireme.core.op import Ints, Tensor, composite, op


def _wide(x):
    return x.astype(jnp.float32) if x.dtype.itemsize < 4 else x


def _normalised(x, axes, epsilon, one_pass=False):
    """(x - mean) / deviation, and 1 / deviation.

    Two passes on CPU: one would lose digits for large means. On a GPU the row is read once: sums of the difference
    from its first element, which guards the cancellation.
    """
    x = _wide(x)
    if one_pass:
        d = x - x[(..., *[slice(0, 1)] * len(axes))]
        mean = jnp.mean(d, axis=axes, keepdims=True)
        variance = jnp.maximum(jnp.mean(d * d, axis=axes, keepdims=True) - mean * mean, 0)
        d = d - mean
    else:
        d = x - jnp.mean(x, axis=axes, keepdims=True)
        variance = jnp.mean(d * d, axis=axes, keepdims=True)
    inv = 1 / jnp.sqrt(variance + epsilon.astype(x.dtype))
    return d * inv, inv


def _forward(x, weight, bias, epsilon, axes, one_pass=False):
    y, _ = _normalised(x, axes, epsilon, one_pass)
    if weight is not None:
        y = y * _wide(weight)
    if bias is not None:
        y = y + _wide(bias)
    return y.astype(x.dtype)


@op(dtypes=FLOAT, numpy=True, numbers={"epsilon": "float32"})
def layer_norm_of(x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: Tensor | float, axes: Ints) -> Tensor:
    """Normalised over the last axes; use `layer_norm`.

    >>> bireme.nn.functional.layer_norm(bireme.to_tensor([[1.0, 3.0]]), 2).shape
    [1, 2]
    """
    return _forward(x, weight, bias, epsilon, axes)


layer_norm_of.infer(lambda x: x)


@layer_norm_of.on("cuda")
def _(x, weight, bias, epsilon, axes):
    return _forward(x, weight, bias, epsilon, axes, one_pass=True)


def _backward(g, x, weight, bias, epsilon, axes, platform):
    y, inv = _normalised(x, axes, epsilon, platform == "cuda")  # as in forward, so that XLA computes it once
    wide = _wide(g)
    d = wide if weight is None else wide * _wide(weight)
    mean = jnp.mean(d, axis=axes, keepdims=True)
    dot = jnp.mean(d * y, axis=axes, keepdims=True)
    grads = [((d - mean - y * dot) * inv).astype(x.dtype)]
    front = tuple(range(x.ndim - len(axes)))
    if weight is not None:
        grads.append(jnp.sum(wide * y, axis=front).reshape(weight.shape).astype(weight.dtype))
    if bias is not None:
        grads.append(jnp.sum(wide, axis=front).reshape(bias.shape).astype(bias.dtype))
    return (*grads, None)


layer_norm_of.grad(_backward, numpy=True)


@composite()
def layer_norm(x: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, epsilon: float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 over the last axes, which have `normalized_shape`; then scaled and shifted.

    >>> bireme.nn.functional.layer_norm(bireme.to_tensor([[1.0, 3.0]]), 2, epsilon=0.0).tolist()
    [[-1.0, 1.0]]
    """
    wanted = list(ints(normalized_shape, 0, "layer_norm(normalized_shape)") or ())
    n = len(wanted)
    if n == 0 or x.shape[-n:] != wanted:
        raise errors.bad("layer_norm(x)", f"last axes of shape {wanted}", x)
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and t.size != math.prod(wanted):
            raise errors.bad(f"layer_norm({name})", f"{math.prod(wanted)} elements", t)
    shaped = [t if t is None or n == 1 or t.shape == wanted else t.reshape(wanted) for t in (weight, bias)]
    return layer_norm_of(x, *shaped, epsilon, tuple(range(x.ndim - n, x.ndim)))
