"""Tensors filled in place with random numbers. The old values count for nothing, so their gradient is 0."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.base import random_state as streams
from bireme.core.base.dtype import COMPLEX, FLOAT
from bireme.core.declare.op import Attr, DTypeArg, Key, Tensor, composite, op
from bireme.ops.random.distributions import exponential_of, wide_of
from bireme.ops.random.generators import between, chance, complex_normal, normal_of, unit


def _fits(where: str, x: Any, other: Any) -> None:
    """What describes the numbers must not be larger than what they go into."""
    if other.ndim > x.ndim or any(n not in (1, m) for n, m in zip(reversed(other.shape), reversed(x.shape))):
        raise errors.bad(
            where,
            f"a shape that broadcasts to that of x, {list(x.shape)}",
            described=f"shape {list(other.shape)}",
            kind=errors.ShapeError,
        )


def _zero(g):
    return jnp.zeros_like(g), None, None, None


def _zeros(g):
    return jnp.zeros_like(g), None, None, None, None


@op(internal=True, numpy=True, dtypes=FLOAT, numbers={"min": "float64", "max": "float64"})
def uniform_like(
    x: Tensor, min: Tensor | float, max: Tensor | float, dtype: DTypeArg = None, key: Key = None
) -> Tensor:
    """Uniform numbers in [min, max) in the shape of `x`; use `uniform_`.

    >>> bireme.zeros([2]).uniform_(1.0, 1.5).astype("int32").tolist()
    [1, 1]
    """
    return between(key, x.shape, min, max, dtype.np)


@uniform_like.prepare
def _(arguments):
    if isinstance(arguments["x"], Tensor):  # said by name: the interpreter computes half precision in float32
        arguments["dtype"] = arguments["x"]._value.sig.dtype


uniform_like.infer(lambda x: x)
uniform_like.grad(_zeros, numpy=True)


@composite(name="uniform_", inplace="uniform_",
           c_ops={"uniform_inplace_": "x min=-1.0 max=1.0 seed=0 diag_num:=0 diag_step:=0 diag_val:=1.0"})  # fmt: skip
def uniform_filled(x: Tensor, min: Attr[float] = -1.0, max: Attr[float] = 1.0, seed: int = 0) -> Tensor:
    """Fill a tensor with random numbers from the uniform distribution over ``[min, max)``, in place.

    Args:
        min: Lower bound, included. Default: -1.0.
        max: Upper bound, excluded. Default: 1.0.
        seed: Other than 0, a seed of this call alone, which gives the same numbers each time; 0 continues the random
            stream. Default: 0.

    Returns:
        The tensor itself; the gradient of its old values is 0.

    Examples:
        >>> bireme.zeros([2]).uniform_(1.0, 1.5).astype("int32").tolist()
        [1, 1]
    """
    low, high = [v.item() if isinstance(v, Tensor) and v._value.sig.size == 1 else v for v in (min, max)]
    if not low < high:
        raise errors.bad("uniform_(max)", f"a number greater than min = {low}", high, kind=errors.for_number(high))
    with streams.seeded(seed):
        return uniform_like(x, low, high)


def _normal(x, mean, std, key):
    is_complex = jnp.iscomplexobj(x)
    wide = jnp.float64 if x.dtype in (np.float64, np.complex128) else jnp.float32
    z = complex_normal(key, x.shape, wide) if is_complex else normal_of(key, x.shape, wide)
    return mean.astype(z.dtype) + z * std.astype(wide)


def _check_normal(name: str) -> Any:
    def check(x, mean, std):
        _fits(f"{name}(mean)", x, mean)
        _fits(f"{name}(std)", x, std)
        for word, sig in (("mean", mean), ("std", std)):
            if sig.dtype.is_complex and (word == "std" or not x.dtype.is_complex):
                raise errors.bad(
                    f"{name}({word})",
                    "a real number" if word == "std" else "a real number, or a complex x",
                    described="a complex number",
                    kind=errors.ArgumentTypeError,
                )

    return check


@op(name="normal_", inplace="normal_", numpy=True, dtypes=FLOAT | COMPLEX, numbers={"std": "float64"},
    c_ops={"gaussian_inplace_": "x mean=0 std=1.0 seed:=0"})  # fmt: skip
def normal_filled(x: Tensor, mean: Tensor | float = 0.0, std: Tensor | float = 1.0, key: Key = None) -> Tensor:
    """Fill a tensor with random numbers from normal distributions, in place.

    Args:
        x: Tensor of a floating-point or complex dtype.
        mean: Mean, a number or a tensor that broadcasts to ``x``. Default: 0.0.
        std: Standard deviation, likewise. Default: 1.0.

    Returns:
        ``x`` itself; the gradient of its old values is 0.

    Examples:
        >>> bireme.zeros([2]).normal_(3.0, 0.0).tolist()
        [3.0, 3.0]
    """
    return _normal(x, mean, std, key).astype(x.dtype)


normal_filled.check(_check_normal("normal_"))
normal_filled.infer(lambda x: x)
normal_filled.grad(_zeros, numpy=True)


@op(name="log_normal_", inplace="log_normal_", writes=2, numpy=True, dtypes=FLOAT | COMPLEX, numbers={"std": "float64"})
def log_normal_filled(x: Tensor, mean: Tensor | float = 1.0, std: Tensor | float = 2.0, key: Key = None) -> Tensor:
    """Fill a tensor with random numbers whose logarithms are normally distributed, in place.

    Args:
        x: Tensor of a floating-point or complex dtype.
        mean: Mean of the logarithms, a number or a tensor that broadcasts to ``x``. Default: 1.0.
        std: Standard deviation of the logarithms, likewise. Default: 2.0.

    Returns:
        ``x`` itself; the gradient of its old values is 0.

    Examples:
        >>> bireme.zeros([2]).log_normal_(0.0, 0.0).tolist()
        [1.0, 1.0]
    """
    return jnp.exp(_normal(x, mean, std, key)).astype(x.dtype)


log_normal_filled.check(_check_normal("log_normal_"))
log_normal_filled.infer(lambda x: x)
log_normal_filled.grad(_zeros, numpy=True)


@op(
    name="cauchy_",
    inplace="cauchy_",
    writes=6,
    numpy=True,
    dtypes=FLOAT,
    numbers={"loc": "float64", "scale": "float64"},
)
def cauchy(x: Tensor, loc: Tensor | float = 0, scale: Tensor | float = 1, key: Key = None) -> Tensor:
    """Fill a tensor with random numbers from Cauchy distributions, in place.

    Args:
        x: Tensor of a floating-point dtype.
        loc: Median, a number or a tensor that broadcasts to ``x``. Default: 0.
        scale: Half width at half maximum, likewise. Default: 1.

    Returns:
        ``x`` itself; the gradient of its old values is 0.

    Examples:
        >>> bireme.zeros([2]).cauchy_(3.0, 0.0).tolist()
        [3.0, 3.0]
    """
    wide = wide_of(x.dtype)
    angle = (unit(key, x.shape, wide) - np.asarray(0.5, wide)) * np.asarray(np.pi, wide)
    return (loc.astype(wide) + scale.astype(wide) * jnp.tan(angle)).astype(x.dtype)


@cauchy.check
def _(x, loc, scale):
    _fits("cauchy_(loc)", x, loc)
    _fits("cauchy_(scale)", x, scale)


cauchy.infer(lambda x: x)
cauchy.grad(_zeros, numpy=True)


@op(
    name="exponential_",
    inplace="exponential_",
    numpy=True,
    dtypes=FLOAT,
    numbers={"lam": "float64"},
    alias={"lam": "lambd"},
)
def exponential(x: Tensor, lam: Tensor | float = 1.0, key: Key = None) -> Tensor:
    """Fill a tensor with random numbers from exponential distributions, in place.

    Args:
        lam: Rate, above 0: a number or a tensor that broadcasts to the tensor. Default: 1.0.

    Returns:
        The tensor itself; the gradient of its old values is 0.

    Examples:
        >>> bool((bireme.zeros([2]).exponential_() > 0).all())
        True
    """
    wide = wide_of(x.dtype)
    drawn = jnp.maximum(exponential_of(key, x.shape, wide), np.asarray(2.0**-24, wide))  # the least that float16 has
    return (drawn / lam.astype(wide)).astype(x.dtype)


@exponential.prepare
def _(arguments):
    if isinstance(arguments["lam"], (int, float)) and not arguments["lam"] > 0:
        raise errors.bad("exponential_(lam)", "a positive rate", arguments["lam"])


exponential.check(lambda x, lam: _fits("exponential_(lam)", x, lam))
exponential.infer(lambda x: x)
exponential.grad(_zero, numpy=True)


@op(name="geometric_", inplace="geometric_", writes=3, numpy=True, dtypes=FLOAT, numbers={"probs": "float64"})
def geometric(x: Tensor, probs: Tensor | float, key: Key = None) -> Tensor:
    """Fill a tensor with random numbers whose integer parts are geometrically distributed, in place.

    The integer part counts the failures before the first success; the numbers themselves are real, as in Paddle.

    Args:
        x: Tensor of a floating-point dtype.
        probs: Probability of a success, in ``(0, 1]``: a number or a tensor that broadcasts to ``x``.

    Returns:
        ``x`` itself; the gradient of its old values is 0.

    Examples:
        >>> bireme.zeros([2]).geometric_(1.0).tolist()
        [0.0, 0.0]
    """
    wide = wide_of(x.dtype)
    return (exponential_of(key, x.shape, wide) / -jnp.log1p(-probs.astype(wide))).astype(x.dtype)


@geometric.prepare
def _(arguments):
    if isinstance(arguments["probs"], (int, float)) and not 0 < arguments["probs"] <= 1:
        raise errors.bad("geometric_(probs)", "a probability in (0, 1]", arguments["probs"])


geometric.check(lambda x, probs: _fits("geometric_(probs)", x, probs))
geometric.infer(lambda x: x)
geometric.grad(_zero, numpy=True)


@op(name="bernoulli_", inplace="bernoulli_", writes=3, numpy=True, dtypes=FLOAT, numbers={"p": "float64"})
def bernoulli_filled(x: Tensor, p: Tensor | float = 0.5, key: Key = None) -> Tensor:
    """Fill a tensor with zeros and ones, in place.

    Args:
        x: Tensor of a floating-point dtype.
        p: Probability of a one, a number or a tensor that broadcasts to ``x``. Default: 0.5.

    Returns:
        ``x`` itself; the gradient of its old values is 0.

    Examples:
        >>> bireme.zeros([2]).bernoulli_(1.0).tolist()
        [1.0, 1.0]
    """
    return chance(key, x.shape, p.astype(wide_of(x.dtype))).astype(x.dtype)


bernoulli_filled.check(lambda x, p: _fits("bernoulli_(p)", x, p))
bernoulli_filled.infer(lambda x: x)
bernoulli_filled.grad(_zero, numpy=True)
