"""Numbers drawn from distributions that tensors describe: one draw for each element, or for each row of probabilities."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, Key, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.core.record import guards
from bireme.core.tensor.tensor import read
from bireme.ops.random import philox
from bireme.ops.random.generators import bits, chance, normal_of, unit

ROUNDS = 64  # of rejection: one round takes four of five, so nothing is left after so many


def wide_of(dtype):
    """The type to compute in: half precision is too narrow for probabilities."""
    return jnp.float64 if dtype == jnp.float64 else jnp.float32


def _turned(key, i):
    """The keys of one round: another stream for each `i`."""
    i = i * np.uint32(0x9E3779B9)
    return key[0] ^ i, key[1] ^ (i * np.uint32(0x85EBCA6B) + np.uint32(0xC2B2AE35))


def exponential_of(key, shape, dtype):
    """Exponential numbers of rate 1, none of them 0 or infinite: 32 bits keep the small ones apart."""
    if dtype == jnp.float64:
        whole = (philox.longs(key, math.prod(shape)) >> np.uint64(12)).astype(jnp.float64).reshape(shape)
        return -jnp.log1p(-(whole + 0.5) * 2.0**-52)
    u = (bits(key, shape).astype(jnp.float32) + np.float32(0.5)) * np.float32(2.0**-32)
    return -jnp.log1p(-jnp.minimum(u, np.float32(1 - 2.0**-24)))


def _while(condition, step, state):
    """lax.while_loop for NumPy."""
    while condition(state):
        state = step(state)
    return state


def _must_be_probable(where: str, x: Any) -> None:
    """Raise unless all numbers are in [0, 1]."""
    expected = "probabilities in [0, 1]"
    if not isinstance(x, Tensor):
        if not 0 <= x <= 1:
            raise errors.bad(where, expected, x, kind=errors.OutOfRangeError)
        return

    def outside(array: np.ndarray) -> float | None:
        wrong = array[~((array >= 0) & (array <= 1))]
        return float(wrong.ravel()[0]) if wrong.size else None

    guards.require(
        read(x),
        where,
        expected,
        host=outside,
        device=lambda: ((x >= 0) & (x <= 1)).all().logical_not(),
        got="a number out of range",
        kind=errors.OutOfRangeError,
    )


# ---------------------------------------------------------------- Bernoulli


@op(method=True, differentiable=False, dtypes=FLOAT, numpy=True, numbers={"p": "float64"})
def bernoulli(x: Tensor, p: Tensor | float | None = None, key: Key = None) -> Tensor:
    """Draw zeros and ones, where each element is the probability of a one.

    Args:
        x: Tensor of a floating-point dtype with probabilities in ``[0, 1]``; with ``p`` only its shape and dtype count.
        p: One probability for all elements, a number or a tensor of one element. Default: None.

    Returns:
        Tensor of the shape and dtype of ``x``; not differentiable.

    Examples:
        >>> bireme.bernoulli(bireme.to_tensor([0.0, 1.0])).tolist()
        [0.0, 1.0]
    """
    return chance(key, x.shape, (x if p is None else p).astype(wide_of(x.dtype))).astype(x.dtype)


bernoulli.infer(lambda x: x)


@bernoulli.prepare(values=True)
def _(arguments):
    x, p = arguments["x"], arguments["p"]
    if p is None:
        if isinstance(x, Tensor) and x.dtype in FLOAT:
            _must_be_probable("bernoulli(x)", x)
        return
    if isinstance(p, Tensor):
        if p._value.sig.size != 1:
            raise errors.bad("bernoulli(p)", "a single number", p, kind=errors.for_number(p))
        arguments["p"] = p = p.reshape([])
    if isinstance(p, (int, float, Tensor)):
        _must_be_probable("bernoulli(p)", p)


# ---------------------------------------------------------------- Poisson and binomial


def _stirling(k):
    """What the logarithm of k! has beyond Stirling's formula."""
    k2 = k * k
    return (1 / 12 - (1 / 360 - 1 / 1260 / k2) / k2) / k


def _deviance(k, mean):
    """k log(k / mean) + mean - k, without the cancellation where they are near each other."""
    e = (k - mean) / mean
    near = jnp.abs(e) < 0.1
    small = jnp.where(near, e, 0)
    series = (
        small
        * small
        * (
            1 / 2
            + small
            * (-1 / 6 + small * (1 / 12 + small * (-1 / 20 + small * (1 / 30 + small * (-1 / 42 + small / 56)))))
        )
    )
    large = jnp.where(near, 1, e)
    return mean * jnp.where(near, series, (1 + large) * jnp.log1p(jnp.maximum(large, -1 + 1e-7)) - large)


def _poisson_mass(k, mean):
    """The logarithm of the probability of k."""
    safe = jnp.maximum(k, 1)
    return jnp.where(k == 0, -mean, -0.5 * jnp.log(2 * np.pi * safe) - _stirling(safe) - _deviance(safe, mean))


def _binomial_mass(k, n, p):
    a, b = jnp.clip(k, 1, n - 1), n - jnp.clip(k, 1, n - 1)
    inner = (
        0.5 * jnp.log(n / (2 * np.pi * a * b))
        + _stirling(n)
        - _stirling(a)
        - _stirling(b)
        - _deviance(a, n * p)
        - _deviance(b, n * (1 - p))
    )
    return jnp.where(k == 0, n * jnp.log1p(-p), jnp.where(k == n, n * jnp.log(p), inner))


def _searched(key, shape, first, ratio, most, dtype, repeat):
    """Inversion from 0 upwards, for small means: `first` is the probability of 0, `ratio(k)` that of k by that of k -
    1.
    """
    u = unit(key, shape, dtype)
    k = jnp.zeros(shape, dtype)

    def step(state):
        k, p, total = state
        up = (u >= total) & (k < most)
        k = jnp.where(up, k + 1, k)
        p = jnp.where(up, p * ratio(k), p)
        return k, p, jnp.where(up, total + p, total)

    return repeat(lambda state: ((u >= state[2]) & (state[0] < most)).any(), step, (k, first, first))[0]


def _rejected(key, shape, fixed, candidate, accept, done, dtype, repeat):
    """Rejection by a quotient of uniform numbers, for large means (Hoermann's transformed rejection with squeeze)."""
    a, b, squeeze = fixed

    def step(state):
        i, k, done = state
        u = unit(_turned(key, 2 * i), shape, dtype) - np.asarray(0.5, dtype)
        v = 1 - unit(_turned(key, 2 * i + 1), shape, dtype)  # in (0, 1]: its logarithm is taken
        us = np.asarray(0.5, dtype) - jnp.abs(u)
        us = jnp.maximum(us, np.asarray(1e-7, dtype))
        new = candidate(u, us)
        good = ((us >= 0.07) & (v <= squeeze)) | accept(new, jnp.log(v) - jnp.log(a / (us * us) + b))
        return i + np.uint32(1), jnp.where(done, k, new), done | good

    start = (np.uint32(0), jnp.zeros(shape, dtype), done)
    return repeat(lambda state: (state[0] < ROUNDS) & ~state[2].all(), step, start)[1]


def _poisson(x, key, repeat=lax.while_loop):
    dtype = wide_of(x.dtype)
    mean = x.astype(dtype)
    small = mean < 10
    low = jnp.where(small & (mean > 0), mean, 0)
    few = _searched(
        key, x.shape, jnp.exp(-low), lambda k: low / k, jnp.where(small, 100, 0).astype(dtype), dtype, repeat
    )
    known = small | ~(mean < np.inf)  # nothing to draw: small, infinite or not a number
    high = jnp.where(known, 10, mean)
    b = 0.931 + 2.53 * jnp.sqrt(high)
    a = -0.059 + 0.02483 * b
    log_alpha = jnp.log(1.1239 + 1.1328 / (b - 3.4))
    many = _rejected(
        (key[1], key[0]), x.shape, (a, b, 0.9277 - 3.6224 / (b - 2)),
        lambda u, us: jnp.maximum(jnp.floor((2 * a / us + b) * u + high + 0.43), -1),
        lambda k, v: (k >= 0) & (v + log_alpha <= _poisson_mass(k, high)), known, dtype, repeat,
    )  # fmt: skip
    drawn = jnp.where(small, few, jnp.maximum(many, 0))
    return jnp.where(mean == np.inf, mean, jnp.where(mean >= 0, drawn, np.nan)).astype(x.dtype)


@op(dtypes=FLOAT)
def poisson(x: Tensor, key: Key = None) -> Tensor:
    """Draw counts from Poisson distributions.

    Args:
        x: Tensor of a floating-point dtype with the mean of each element, non-negative.

    Returns:
        Tensor of the shape and dtype of ``x``; NaN where the mean is negative. Its gradient is 0.

    Examples:
        >>> bireme.poisson(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return _poisson(x, key)


poisson.infer(lambda x: x)
poisson.numpy_form = partial(on_numpy(_poisson), repeat=_while)
poisson.grad(lambda g: (jnp.zeros_like(g), None, None), numpy=True)


def _binomial(count, prob, key, repeat=lax.while_loop):
    dtype = wide_of(prob.dtype)
    n, p = jnp.broadcast_arrays(count.astype(dtype), prob.astype(dtype))
    n, flip = jnp.maximum(n, 0), p > 0.5
    p = jnp.clip(jnp.where(flip, 1 - p, p), 0, 0.5)  # not a number becomes 0 below, as anything that is no probability
    p = jnp.where(p >= 0, p, 0)
    small = n * p < 10
    low, odds = jnp.where(small, n, 0), p / (1 - p)
    few = _searched(
        key,
        n.shape,
        jnp.exp(low * jnp.log1p(-p)),
        lambda k: odds * (low - k + 1) / k,
        jnp.minimum(low, 200),
        dtype,
        repeat,
    )
    high, q = jnp.where(small, 40, n), jnp.where(small, 0.5, p).astype(dtype)
    spread = jnp.sqrt(high * q * (1 - q))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * q
    at_mode = _binomial_mass(jnp.floor((high + 1) * q), high, q)
    log_alpha = jnp.log((2.83 + 5.1 / b) * spread)
    many = _rejected(
        (key[1], key[0]),
        n.shape,
        (a, b, 0.92 - 4.2 / b),
        lambda u, us: jnp.clip(jnp.floor((2 * a / us + b) * u + high * q + 0.5), -1, high + 1),
        lambda k, v: (k >= 0) & (k <= high) & (v + log_alpha <= _binomial_mass(k, high, q) - at_mode),
        small,
        dtype,
        repeat,
    )
    drawn = jnp.clip(jnp.where(small, few, many), 0, n)
    return jnp.where(flip, n - drawn, drawn).astype(jnp.int64)


@op(internal="binomial", differentiable=False)
def binomial_of(count: Tensor, prob: Tensor, key: Key = None) -> Tensor:
    """How many of `count` tries succeed; use `binomial`.

    >>> bireme.binomial(bireme.to_tensor([5]), bireme.to_tensor([1.0])).tolist()
    [5]
    """
    return _binomial(count, prob, key)


binomial_of.numpy_form = partial(on_numpy(_binomial), repeat=_while)
binomial_of.infer(lambda count, prob: sig_of(np.broadcast_shapes(count.shape, prob.shape), dtypes.int64))


@composite()
def binomial(count: Tensor, prob: Tensor) -> Tensor:
    """Draw from binomial distributions: the number of successes in ``count`` trials.

    Args:
        count: Tensor with the number of trials.
        prob: Tensor of a floating-point dtype with the probability of a success; it broadcasts with ``count``.

    Returns:
        int64 tensor of the broadcast shape; not differentiable.

    Examples:
        >>> bireme.binomial(bireme.to_tensor([5, 7]), bireme.to_tensor([1.0, 0.0])).tolist()
        [5, 0]
    """
    if prob.dtype not in FLOAT:
        raise errors.bad(
            "binomial(prob)",
            f"one of {', '.join(sorted(d.name for d in FLOAT))}",
            described=prob.dtype.name,
            kind=errors.DtypeError,
        )
    if count.dtype.kind not in "if":
        raise errors.bad(
            "binomial(count)", "an integer or floating-point tensor", described=count.dtype.name, kind=errors.DtypeError
        )
    try:
        np.broadcast_shapes(count.shape, prob.shape)
    except ValueError:
        raise errors.bad("binomial(prob)", f"a shape that broadcasts with that of count, {count.shape}", prob) from None
    return binomial_of(count, prob)


# ---------------------------------------------------------------- gamma


def _gamma(x, key, repeat=lax.while_loop):
    """Marsaglia and Tsang: a cube of a normal number, accepted nearly always; below 1 from the distribution one above."""
    dtype = wide_of(x.dtype)
    shape = x.astype(dtype)
    good = (shape > 0) & (shape < np.inf)
    alpha = jnp.where(good, shape, 1)
    d = jnp.where(alpha < 1, alpha + 1, alpha) - np.asarray(1 / 3, dtype)
    c = 1 / jnp.sqrt(9 * d)

    def step(state):
        i, g, done = state
        z = normal_of(_turned(key, 2 * i), x.shape, dtype)
        v = jnp.maximum(1 + c * z, 0)
        v = v * v * v
        u = 1 - unit(_turned((key[1], key[0]), 2 * i + 1), x.shape, dtype)
        fits = (v > 0) & (jnp.log(u) < 0.5 * z * z + d * (1 - v + jnp.log(jnp.maximum(v, np.asarray(1e-30, dtype)))))
        return i + np.uint32(1), jnp.where(done, g, d * v), done | fits

    start = (np.uint32(0), jnp.ones(x.shape, dtype), ~good)
    drawn = repeat(lambda state: (state[0] < ROUNDS) & ~state[2].all(), step, start)[1]
    power = jnp.exp(-exponential_of((key[0] ^ np.uint32(0x27D4EB2F), key[1]), x.shape, dtype) / alpha)
    drawn = jnp.where(alpha < 1, drawn * power, drawn)
    # none is 0, as in Paddle: logarithms are taken of them
    drawn = jnp.maximum(jnp.where(shape == 0, 0, drawn), jnp.finfo(dtype).tiny)
    return jnp.where(good | (shape == 0), drawn, jnp.where(shape > 0, shape, np.nan)).astype(x.dtype)


@op(differentiable=False, dtypes=FLOAT)
def standard_gamma(x: Tensor, key: Key = None) -> Tensor:
    """Draw from gamma distributions of rate 1.

    Args:
        x: Tensor of a floating-point dtype with the shape parameter (concentration) of each element, positive.

    Returns:
        Tensor of the shape and dtype of ``x``; NaN where the parameter is negative. Not differentiable.

    Examples:
        >>> bool(bireme.standard_gamma(bireme.to_tensor([2.0])) > 0)
        True
    """
    return _gamma(x, key)


standard_gamma.infer(lambda x: x)
standard_gamma.numpy_form = partial(on_numpy(_gamma), repeat=_while)


# ---------------------------------------------------------------- categories


def _multinomial(x, key, num_samples, replacement, first, search, least):
    """`first` finds the smallest, `search` places in sorted rows, `least` the running minimum from the end."""
    wide, n = wide_of(x.dtype), x.shape[-1]
    p = x.astype(wide)
    if not replacement:
        # a race: the first to arrive, at rates that are the weights, come in the order of draws without replacement
        return first(exponential_of(key, x.shape, wide) / p, num_samples).astype(jnp.int64)
    total = jnp.cumsum(p, -1)
    at = unit(key, (*x.shape[:-1], num_samples), wide) * total[..., -1:]
    # from each place to the next category that has a weight, or the last one: rounded sums never draw one without
    places = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int64), p.shape)
    last = jnp.max(jnp.where(p > 0, places, 0), -1, keepdims=True)
    nearest = jnp.concatenate([jnp.minimum(least(jnp.where(p > 0, places, n)), last), last], -1)
    found = search(total.reshape(-1, n), at.reshape(-1, num_samples)).astype(jnp.int64)
    return jnp.take_along_axis(nearest, found.reshape(at.shape), -1)


@op(internal="multinomial", differentiable=False)
def multinomial_of(x: Tensor, num_samples: int, replacement: bool, key: Key = None) -> Tensor:
    """Categories by their weights in each row; use `multinomial`.

    >>> bireme.multinomial(bireme.to_tensor([0.0, 1.0]), 1).tolist()
    [1]
    """
    return _multinomial(
        x, key, num_samples, replacement,
        first=lambda e, k: lax.top_k(-e, k)[1],
        search=jax.vmap(partial(jnp.searchsorted, side="right")),
        least=lambda a: lax.cummin(a, axis=a.ndim - 1, reverse=True),
    )  # fmt: skip


multinomial_of.numpy_form = partial(
    on_numpy(_multinomial),
    first=lambda e, k: np.argsort(e, axis=-1, kind="stable")[..., :k],
    search=lambda rows, at: np.array([np.searchsorted(r, a, side="right") for r, a in zip(rows, at)]).reshape(at.shape),
    least=lambda a: np.minimum.accumulate(a[..., ::-1], -1)[..., ::-1],
)
multinomial_of.infer(lambda x, num_samples: sig_of((*x.shape[:-1], num_samples), dtypes.int64))


@composite(method=True, alias={"x": "input"}, out=True)
def multinomial(x: Tensor, num_samples: Attr[int] = 1, replacement: bool = False) -> Tensor:
    """Draw indices of categories with probabilities proportional to their weights.

    Args:
        x: Tensor of a floating-point dtype with the non-negative weights of the categories, 1-D or one row for each
            distribution.
        num_samples: How many indices to draw from each distribution. Default: 1.
        replacement: Whether a category may be drawn several times. Default: False.

    Returns:
        int64 tensor of shape ``[num_samples]``, or ``[x.shape[0], num_samples]`` for a matrix.

    Raises:
        ValueError: If a weight is negative, or too few are above 0.

    Examples:
        >>> bireme.multinomial(bireme.to_tensor([0.0, 2.0]), 3, True).tolist()
        [1, 1, 1]
    """
    if x.dtype not in FLOAT:
        raise errors.bad(
            "multinomial(x)",
            f"one of {', '.join(sorted(d.name for d in FLOAT))}",
            described=x.dtype.name,
            kind=errors.DtypeError,
        )
    if x.ndim not in (1, 2):
        raise errors.bad("multinomial(x)", "a 1-D or 2-D tensor", x)
    n = num_samples.item() if isinstance(num_samples, Tensor) and num_samples._value.sig.size == 1 else num_samples
    if isinstance(n, bool) or not isinstance(n, (int, float, np.number)) or n != int(n):
        raise errors.bad("multinomial(num_samples)", "an integer", num_samples, kind=errors.ArgumentTypeError)
    if n < 1:
        raise errors.bad("multinomial(num_samples)", "a positive integer", n, kind=errors.for_integer(n))
    _must_suffice(x, 1 if replacement else int(n))
    return multinomial_of(x, int(n), replacement)


def _must_suffice(x: Tensor, needed: int) -> None:
    """Raise unless weights are non-negative, and enough of them positive in each row."""
    if needed > x.shape[-1]:
        expected = (
            "at least one category"
            if needed == 1
            else f"at least {needed} categories, as many as are drawn without replacement"
        )
        raise errors.bad("multinomial(x)", expected, x)

    def wrong(array: np.ndarray) -> list | None:
        fine = (array >= 0).all() and ((array > 0).sum(-1) >= needed).all()
        return None if fine else array.astype(np.float64).ravel()[:8].tolist()

    guards.require(
        read(x),
        "multinomial(x)",
        f"non-negative weights, at least {needed} of them positive in each row",
        host=wrong,
        device=lambda: ((x >= 0).all(-1) & ((x > 0).astype("int64").sum(-1) >= needed)).all().logical_not(),
        got="other weights",
    )
