"""Random tensors: uniform, normal and integer, from words of `philox`, whose keys are inputs of the program."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base import random_state as streams
from bireme.core.base.dtype import COMPLEX, FLOAT
from bireme.core.declare.conversion import ints, number
from bireme.core.declare.op import Attr, DeviceArg, DTypeArg, Extra, Key, Shape, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.creation.tensors import placed
from bireme.ops.random import philox


def bits(key, shape):
    """Random 32-bit words of a shape."""
    return philox.words(key, math.prod(shape)).reshape(shape)


def unit(key, shape, dtype):
    """Uniform numbers in [0, 1) with 24 random bits, or 53 for float64."""
    if dtype == jnp.float64:
        return ((philox.longs(key, math.prod(shape)) >> np.uint64(11)).astype(jnp.float64) * 2.0**-53).reshape(shape)
    return (bits(key, shape) >> np.uint32(8)).astype(jnp.float32) * np.float32(2.0**-24)


def between(key, shape, low, high, dtype):
    """Uniform numbers of a type, not less than `low` and less than `high`, as that type has them."""
    wide = jnp.float64 if dtype == np.float64 else jnp.float32
    # by halves: the distance of the two may be more than the largest number
    start, reach = (low * 0.5).astype(wide), (high * 0.5 - low * 0.5).astype(wide)
    if dtype == np.float32 and philox.on_host(key):
        return _between_numpy(key, shape, start, reach, low, high)
    drawn = unit(key, shape, wide)
    drawn *= reach
    drawn += start
    drawn *= np.asarray(2, wide)
    # what is rounded up to the bound is the number below it
    least, most = low.astype(dtype), high.astype(dtype)
    most = jnp.nextafter(most, np.asarray(-np.inf, dtype)).astype(wide)
    return jnp.maximum(jnp.minimum(drawn, most), least.astype(wide)).astype(dtype)


def _between_numpy(key, shape, start, reach, low, high):
    """The same numbers of float32 by NumPy, part by part in the cache: they are the first weights of a model."""
    most = np.nextafter(np.asarray(high, np.float32), np.float32(-np.inf))
    least = np.asarray(low, np.float32)
    out = np.empty(shape, np.float32)
    flat, drawn = out.reshape(-1), philox.words(key, out.size)
    for at in range(0, out.size, philox.BLOCK):
        part, words = flat[at : at + philox.BLOCK], drawn[at : at + philox.BLOCK]
        part[...] = words >> np.uint32(8)
        part *= np.float32(2.0**-24)
        part *= reach
        part += start
        part *= np.float32(2)
        np.maximum(np.minimum(part, most, out=part), least, out=part)
    return out


def chance(key, shape, p):
    """True with the probability `p`, a number or one for each element: by 32 bits, or 53 of float64."""
    if p.dtype == jnp.float64:
        return unit(key, shape, p.dtype) < p
    p = p.astype(jnp.float32)
    always = p >= 1
    limit = (jnp.where(always, np.float32(0), p) * np.float32(2.0**32)).astype(jnp.uint32)
    below = bits(key, shape) < limit
    return below if always is np.False_ else below | always  # on NumPy a pass that costs as much as seven others


def normal_of(key, shape, dtype):
    """Standard normal numbers, two from each pair of words (Box and Muller); none of them is infinite."""
    n = math.prod(shape)
    half = (n + 1) // 2
    if dtype == jnp.float64:
        both = (philox.longs(key, 2 * half) >> np.uint64(12)).astype(jnp.float64)
        u, v, wide = (both[:half] + 0.5) * 2.0**-52, both[half:] * 2.0**-52, jnp.float64
    else:
        (first, second), wide = philox.pairs(key, half), jnp.float32
        # in (0, 1]: all 32 bits, so that the smallest ones lead far out
        u = (first.astype(jnp.float32) + np.float32(0.5)) * np.float32(2.0**-32)
        v = (second >> np.uint32(8)).astype(jnp.float32) * np.float32(2.0**-24)
    radius = jnp.sqrt(-2 * jnp.log(u))
    angle = v * np.asarray(2 * np.pi, wide)
    made = jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)])[:n].reshape(shape)
    return made.astype(dtype, copy=False)


def complex_normal(key, shape, dtype):
    """Complex normal numbers of variance 1: half of it in either part."""
    parts = normal_of(key, (2, *shape), dtype) * np.asarray(0.5**0.5, dtype)
    return parts[0] + 1j * parts[1]


@op(internal="uniform", differentiable=False, numpy=True, kernels="uniform_random")
def uniform_of(low: Tensor | float, high: Tensor | float, shape: Shape, dtype: DTypeArg, key: Key = None) -> Tensor:
    """Uniform numbers in [low, high); use `uniform`.

    >>> bireme.rand([3]).shape
    [3]
    """
    return between(key, shape, low, high, dtype.np)


uniform_of.infer(lambda shape, dtype: sig_of(shape, dtype))


@op(internal="gaussian", differentiable=False, numpy=True, kernels="gaussian_random")
def gaussian_of(mean: Tensor | float, std: Tensor | float, shape: Shape, dtype: DTypeArg, key: Key = None) -> Tensor:
    """Normal numbers; use `normal`, `gaussian` or `randn`.

    >>> bireme.randn([3]).shape
    [3]
    """
    wide = jnp.float64 if dtype.np in (np.float64, np.complex128) else jnp.float32
    z = complex_normal(key, shape, wide) if dtype.kind == "c" else normal_of(key, shape, wide)
    return (mean.astype(z.dtype) + z * std.astype(wide)).astype(dtype.np, copy=False)


gaussian_of.infer(lambda shape, dtype: sig_of(shape, dtype))


@op(internal="randint", differentiable=False, numpy=True)
def randint_of(
    low: Tensor | int, span: Tensor | int, shape: Shape, dtype: DTypeArg, wide: bool, key: Key = None
) -> Tensor:
    """Integers in [low, low + span); use `randint`.

    >>> bireme.randint(0, 5, [3]).shape
    [3]
    """
    # the whole part of the span times a fraction of 64 bits, or of 128 where the span has more than 32
    n, span = math.prod(shape), span.astype(jnp.uint64)
    if wide:
        drawn = philox.longs(key, 2 * n)
        over = _upper(drawn[n:], span)
        found = _upper(drawn[:n], span) + (drawn[:n] * span + over < over).astype(jnp.uint64)
    else:
        first, second = philox.pairs(key, n)
        found = (second * span + (first * span >> np.uint64(32))) >> np.uint64(32)
    return (low + found.astype(jnp.int64)).reshape(shape).astype(dtype.np)


def _upper(x, y):
    """The upper 64 bits of a product of integers of 64 bits."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    across = (x & low) * (y >> half) + ((x & low) * (y & low) >> half)
    other = (x >> half) * (y & low) + (across & low)
    return (x >> half) * (y >> half) + (across >> half) + (other >> half)


randint_of.infer(lambda shape, dtype: sig_of(shape, dtype))


@op(internal="randperm", differentiable=False, numpy=True)
def randperm_of(n: int, dtype: DTypeArg, key: Key = None) -> Tensor:
    """The numbers below n in random order; use `randperm`.

    >>> sorted(bireme.randperm(3).tolist())
    [0, 1, 2]
    """
    # sort (random bits, index) packed in one word: unique, so the order is exact
    below = np.uint64((1 << max(n - 1, 0).bit_length()) - 1)
    packed = (philox.longs(key, n) & ~below) | jnp.arange(n, dtype=jnp.uint64)
    return (jnp.sort(packed) & below).astype(dtype.np)


randperm_of.infer(lambda n, dtype: sig_of((n,), dtype))


def _float_type(dtype: Any, where: str, allowed: frozenset = FLOAT) -> Any:
    kind = dtypes.get_default() if dtype is None else dtypes.of(dtype, where)
    if kind not in allowed:
        raise errors.bad(
            where,
            "a floating-point dtype" if allowed is FLOAT else "a floating-point or complex dtype",
            described=kind.name,
            kind=errors.DtypeError,
        )
    return kind


def _numbered(op_made: Any, kind: Any, where: str, first: Any, second: Any, shape: Any, dtype: Any) -> Tensor:
    pairs = [x if isinstance(x, Tensor) else (kind, number(x, kind, where)) for x in (first, second)]
    return op_made.draw(pairs, tuple(shape), dtype)


def _gaussian(where: str, mean: Any, std: Any, shape: Any, dtype: Any) -> Tensor:
    kind = _float_type(dtype, f"{where}(dtype)", FLOAT | COMPLEX)
    middle = dtypes.complex128 if kind.is_complex else dtypes.float64
    given = [
        (middle, number(mean, middle, f"{where}(mean)")),
        (dtypes.float64, number(std, dtypes.float64, f"{where}(std)")),
    ]
    return gaussian_of.draw(given, tuple(shape), kind)


def _sized(where: str, shape: Any) -> Any:
    """A shape that must be there; Paddle takes no bare number for it."""
    if shape is None:
        raise errors.bad(f"{where}(shape)", "a shape", None, kind=errors.ArgumentTypeError)
    return shape


@composite()
def uniform(shape: Shape, dtype: DTypeArg = None, min: float = -1.0, max: float = 1.0, seed: int = 0,
            name: Extra[str] = None, *, out: Extra[Tensor] = None, device: DeviceArg = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Draw random numbers from the uniform distribution over ``[min, max)``.

    Args:
        shape: Shape of the result, as a list, a tuple or an integer tensor.
        dtype: Floating-point dtype of the result; ``None`` means the default one. Default: None.
        min: Lower bound, included. Default: -1.0.
        max: Upper bound, excluded. Default: 1.0.
        seed: Other than 0, a seed of this call alone, which gives the same numbers each time; 0 continues the random
            stream. Default: 0.
        name: Not used; kept for Paddle's signature.
        out: Tensor that takes over the result and is returned. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.

    Returns:
        Tensor of shape ``shape``.

    Examples:
        >>> bireme.uniform([2, 3]).shape
        [2, 3]
    """
    kind = _float_type(dtype, "uniform(dtype)")
    with streams.seeded(seed):
        made = _numbered(uniform_of, dtypes.float64, "uniform(min)", min, max, _sized("uniform", shape), kind)
    return placed(made, device, requires_grad)


@composite()
def rand(shape: Shape, dtype: DTypeArg = None) -> Tensor:
    """Draw random numbers from the uniform distribution over ``[0, 1)``.

    Args:
        shape: Shape of the result, as a list, a tuple or an integer tensor.
        dtype: Floating-point dtype of the result; ``None`` means the default one. Default: None.

    Returns:
        Tensor of shape ``shape``.

    Examples:
        >>> bireme.rand([2]).shape
        [2]
    """
    return _numbered(
        uniform_of, dtypes.float64, "rand()", 0.0, 1.0, _sized("rand", shape), _float_type(dtype, "rand(dtype)")
    )


@composite()
def rand_like(input: Tensor, name: Extra[str] = None, *, dtype: DTypeArg = None, device: DeviceArg = None,
              requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Draw random numbers from the uniform distribution over ``[0, 1)`` in the shape of a tensor.

    Args:
        input: Tensor whose shape is taken.
        name: Not used; kept for Paddle's signature.
        dtype: Floating-point dtype of the result; ``None`` means that of ``input``. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.

    Returns:
        Tensor of the shape of ``input``.

    Examples:
        >>> bireme.rand_like(bireme.zeros([2])).shape
        [2]
    """
    kind = _float_type(dtype or input.dtype, "rand_like(dtype)")
    return placed(
        _numbered(uniform_of, dtypes.float64, "rand_like()", 0.0, 1.0, input.shape, kind), device, requires_grad
    )


@composite(varargs="shape", alias={"shape": "size"})
def randn(shape: Shape, dtype: DTypeArg = None, name: Extra[str] = None, *, out: Extra[Tensor] = None,
          device: DeviceArg = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Draw random numbers from the standard normal distribution.

    Complex numbers have a variance of 1, half of it in either part.

    Args:
        shape: Shape of the result, as a list, a tuple or an integer tensor, or integers one by one.
        dtype: Floating-point or complex dtype of the result; ``None`` means the default floating-point dtype. Default:
            None.
        name: Not used; kept for Paddle's signature.
        out: Tensor that takes over the result and is returned. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.
        pin_memory: Has no effect. Default: False.

    Returns:
        Tensor of shape ``shape``.

    Examples:
        >>> bireme.randn([2]).shape
        [2]
    """
    return placed(_gaussian("randn", 0.0, 1.0, _sized("randn", shape), dtype), device, requires_grad)


@composite()
def randn_like(x: Tensor, dtype: DTypeArg = None) -> Tensor:
    """Draw random numbers from the standard normal distribution in the shape of a tensor.

    Args:
        x: Tensor whose shape is taken.
        dtype: Floating-point or complex dtype of the result; ``None`` means that of ``x``. Default: None.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.randn_like(bireme.zeros([2])).shape
        [2]
    """
    return _gaussian("randn_like", 0.0, 1.0, x.shape, dtype or x.dtype)


@composite()
def standard_normal(shape: Shape, dtype: DTypeArg = None, name: Extra[str] = None, *, out: Extra[Tensor] = None,
                    device: DeviceArg = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Draw random numbers from the standard normal distribution.

    Args:
        shape: Shape of the result, as a list, a tuple or an integer tensor.
        dtype: Floating-point or complex dtype of the result; ``None`` means the default floating-point dtype. Default:
            None.
        name: Not used; kept for Paddle's signature.
        out: Tensor that takes over the result and is returned. Default: None.
        device: Device to put it on, as ``'cpu'`` or ``'gpu:0'``; ``None`` means the current one. Default: None.
        requires_grad: Whether the result collects gradients. Default: False.

    Returns:
        Tensor of shape ``shape``.

    Examples:
        >>> bireme.standard_normal([2]).shape
        [2]
    """
    return placed(
        _gaussian("standard_normal", 0.0, 1.0, _sized("standard_normal", shape), dtype), device, requires_grad
    )


@composite(public="tensor.gaussian", c_ops={"gaussian": "shape mean std seed dtype=None place:=None"})
def gaussian(shape: Shape, mean: Attr = 0.0, std: float = 1.0, seed: int = 0, dtype: DTypeArg = None) -> Tensor:
    """Draw random numbers from a normal distribution.

    Args:
        shape: Shape of the result, as a list, a tuple or an integer tensor.
        mean: Mean of the distribution; a complex one must have equal parts. Default: 0.0.
        std: Standard deviation of the distribution. Default: 1.0.
        seed: Other than 0, a seed of this call alone, which gives the same numbers each time; 0 continues the random
            stream. Default: 0.
        dtype: Floating-point or complex dtype of the result; ``None`` means the default floating-point dtype, or its
            complex counterpart if ``mean`` is complex. Default: None.

    Returns:
        Tensor of shape ``shape``.

    Examples:
        >>> bireme.tensor.random.gaussian([2]).shape
        [2]
    """
    # as in Paddle, where a mean of numbers in general has to be a tensor
    if isinstance(mean, complex) and mean.real != mean.imag:
        raise errors.bad("gaussian(mean)", "a complex number with equal real and imaginary parts", mean)
    if dtype is None and isinstance(mean, complex):
        dtype = dtypes.complex_of(dtypes.get_default())
    with streams.seeded(seed):
        return _gaussian("gaussian", mean, std, _sized("gaussian", shape), dtype)


@composite()
def normal(mean: Tensor | float = 0.0, std: Tensor | float = 1.0, shape: Shape = None) -> Tensor:
    """Draw random numbers from normal distributions.

    Args:
        mean: Mean, a number or a tensor with a mean for each element. Default: 0.0.
        std: Standard deviation, a number or a tensor with one for each element. Default: 1.0.
        shape: Shape of the result if neither is a tensor; ``None`` means a 0-D tensor. Default: None.

    Returns:
        Tensor of shape ``shape``, or of the shape that the tensors broadcast to and in their dtype.

    Examples:
        >>> bireme.normal(0.0, 1.0, [2]).shape
        [2]
    """
    given = [t for t in (mean, std) if isinstance(t, Tensor)]
    if not given:
        return gaussian([] if shape is None else shape, mean, std)
    kind = (
        given[0].dtype
        if len(given) == 1 or given[0].dtype is given[1].dtype
        else dtypes.promote_any(given[0].dtype, given[1].dtype)
    )
    if kind not in FLOAT | COMPLEX:
        raise errors.bad(
            f"normal({'mean' if given[0] is mean else 'std'})",
            "a floating-point or complex dtype",
            described=kind.name,
            kind=errors.DtypeError,
        )
    return _gaussian("normal", 0.0, 1.0, _common(given), kind) * std + mean


def _common(given: list[Tensor]) -> list[int]:
    try:
        return list(np.broadcast_shapes(*[t.shape for t in given]))
    except ValueError:
        raise errors.bad(
            "normal(std)", f"a shape that broadcasts with that of mean, {given[0].shape}", given[1]
        ) from None


@composite()
def log_normal(mean: Tensor | float = 1.0, std: Tensor | float = 2.0, shape: Shape = None) -> Tensor:
    """Draw random numbers whose logarithms are normally distributed.

    Args:
        mean: Mean of the logarithms, a number or a tensor with one for each element. Default: 1.0.
        std: Standard deviation of the logarithms, likewise. Default: 2.0.
        shape: Shape of the result if neither is a tensor; ``None`` means a 0-D tensor. Default: None.

    Returns:
        Tensor of shape ``shape``, or of the shape that the tensors broadcast to and in their dtype.

    Examples:
        >>> bireme.log_normal(0.0, 1.0, [2]).shape
        [2]
    """
    return normal(mean, std, shape).exp()


def _integer(x: Any, where: str) -> int:
    found = ints(x, 0, where)
    if found is None or len(found) != 1 or isinstance(x, (list, tuple)):
        raise errors.bad(where, "an integer", x, kind=errors.ArgumentTypeError)
    return found[0]


def _between(where: str, low: Any, high: Any, shape: Any, dtype: Any) -> Tensor:
    low = _integer(low, f"{where}(low)")
    if high is None:
        if low < 1:
            raise errors.bad(
                f"{where}(low)", "a positive number, since high is not given", low, kind=errors.for_number(low)
            )
        low, high = 0, low
    high = _integer(high, f"{where}(high)")
    if low >= high:
        raise errors.bad(f"{where}(high)", f"a number greater than low = {low}", high, kind=errors.for_number(high))
    if dtype.is_integer and high - 1 > np.iinfo(dtype.np).max:
        raise errors.bad(f"{where}(high)", f"at most {np.iinfo(dtype.np).max + 1} for {dtype.name}", high)
    span = high - low
    # the span's bits as a signed number has them
    given = [
        (dtypes.int64, number(x, dtypes.int64, f"{where}(low)"))
        for x in (low, span - (1 << 64) if span >> 63 else span)
    ]
    return randint_of.draw(given, tuple(shape), dtype, span > 1 << 32)


@composite()
def randint(low: Attr[int] = 0, high: Attr[int] = None, shape: Shape = [1],  # noqa: B006  # Paddle's default, never changed
            dtype: DTypeArg = None) -> Tensor:  # fmt: skip
    """Draw random integers, uniformly from ``[low, high)``.

    With ``low`` alone they are from ``[0, low)``.

    Args:
        low: Lower bound, included. Default: 0.
        high: Upper bound, excluded; ``None`` makes ``low`` the upper bound. Default: None.
        shape: Shape of the result. Default: ``[1]``.
        dtype: Integer dtype of the result; ``None`` means int64. Default: None.

    Returns:
        Tensor of shape ``shape``.

    Raises:
        ValueError: If there is no integer in the interval, or the dtype cannot hold it.

    Examples:
        >>> bireme.randint(5, shape=[2]).shape
        [2]
    """
    kind = dtypes.int64 if dtype is None else dtype
    if not kind.is_integer:
        raise errors.bad("randint(dtype)", "an integer dtype", described=kind.name, kind=errors.DtypeError)
    return _between("randint", low, high, _sized("randint", shape), kind)


@composite()
def randint_like(x: Tensor, low: Attr[int] = 0, high: Attr[int] = None, dtype: DTypeArg = None) -> Tensor:
    """Draw random integers, uniformly from ``[low, high)``, in the shape of a tensor.

    With ``low`` alone they are from ``[0, low)``.

    Args:
        x: Tensor whose shape is taken.
        low: Lower bound, included. Default: 0.
        high: Upper bound, excluded; ``None`` makes ``low`` the upper bound. Default: None.
        dtype: Dtype of the result, which may be a floating-point one; ``None`` means that of ``x``. Default: None.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.randint_like(bireme.zeros([2]), 5).dtype
        bireme.float32
    """
    return _between("randint_like", low, high, x.shape, dtype or x.dtype)


@composite()
def randperm(n: int, dtype: DTypeArg = "int64") -> Tensor:
    """Draw a random permutation of the integers from 0 to ``n - 1``.

    Args:
        n: How many integers, non-negative.
        dtype: Integer or floating-point dtype of the result. Default: ``'int64'``.

    Returns:
        1-D tensor of size ``n``.

    Examples:
        >>> sorted(bireme.randperm(3).tolist())
        [0, 1, 2]
    """
    if n < 0:
        raise errors.bad("randperm(n)", "a non-negative integer", n)
    if dtype.kind not in "if":
        raise errors.bad(
            "randperm(dtype)", "an integer or floating-point dtype", described=dtype.name, kind=errors.DtypeError
        )
    return randperm_of(n, dtype)
