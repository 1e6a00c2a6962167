"""Special functions: error function, gamma function and its relatives, Bessel functions."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors, registry
from bireme.core.base.dtype import FLOAT
from bireme.core.base.later import special
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.numpy_exec.erf import erf as erf_numpy
from bireme.core.record import guards
from bireme.core.tensor.tensor import read
from bireme.ops._shared.broadcast import elementwise, same, sum_to

_HALF_ROOT_PI = 0.886226925452758


@op(method=True, inplace=True, floats=True, dtypes=FLOAT, numpy=erf_numpy)
def erf(x: Tensor) -> Tensor:
    """Elementwise error function.

    ``erf(x)`` is ``2 / sqrt(pi)`` times the integral of ``exp(-t * t)`` from 0 to ``x``.

    Args:
        x: Tensor of real numbers; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.erf(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return lax.erf(x)


erf.infer(same)
erf.grad(lambda g, x: g * jnp.exp(-x * x) / _HALF_ROOT_PI, numpy=True)


@op(method=True, inplace=True, floats=True, dtypes=FLOAT, numpy=special.function("erfinv"), amp="high")
def erfinv(x: Tensor) -> Tensor:
    """Elementwise inverse of the error function.

    It is infinite at -1 and 1, and NaN beyond.

    Args:
        x: Tensor of real numbers in ``[-1, 1]``; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.erfinv(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    out = lax.erf_inv(x)
    if x.dtype != jnp.float64:
        return out
    # one step of Newton's method: near 1 the approximation has ten digits; 1 - |x| is exact there
    far = (jnp.abs(x) > 0.5) & (jnp.abs(x) < 1)
    size = jnp.where(far, jnp.abs(out), 1.0)
    step = (lax.erfc(size) - (1 - jnp.abs(x))) * jnp.exp(size * size) * _HALF_ROOT_PI
    return jnp.where(far, jnp.sign(x) * (size + step), out)


erfinv.infer(same)
erfinv.grad(lambda g, out: g * (_HALF_ROOT_PI * jnp.exp(out * out)), numpy=True)


# ---------------------------------------------------------------- the gamma function


def _cotangent(n):
    """The n-th derivative of the cotangent as a polynomial in it: its coefficients, lowest first."""
    found = [0.0, 1.0]
    for _ in range(n):
        slope = [k * a for k, a in enumerate(found)][1:]
        found = [0.0] * (len(slope) + 2)
        for k, a in enumerate(slope):  # times -(1 + c * c)
            found[k] -= a
            found[k + 2] -= a
    return found


@functools.cache
def _bernoulli():
    return [float(b / math.factorial(k)) for k, b in enumerate(special.bernoulli(24)) if k and k % 2 == 0]


def _zeta(s, x):
    """The sum of (x + k)**-s over all k from 0, for an integer s above 1 and positive x: by multiplications alone."""
    single = x.dtype != jnp.float64
    terms = max(4 if single else 10, s)
    total = sum([lax.integer_pow(x + k, -s) for k in range(terms)])
    # the rest by Euler's and Maclaurin's formula
    x = x + terms
    power = lax.integer_pow(x, -s)
    total = total + x * power / (s - 1) + power / 2
    slope = s * power / x
    for j, b in enumerate(_bernoulli()[: 5 if single else None], 1):
        total = total + b * slope
        slope = slope * ((s + 2 * j - 1) * (s + 2 * j)) / (x * x)
    return total


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _polygamma(n, x):
    """The (n + 1)-th derivative of log(gamma(x))."""
    if n == 0:
        return jnp.where(x == 0, jnp.copysign(np.inf, -x).astype(x.dtype), lax.digamma(x))
    sign = 1 if n % 2 else -1
    left = x <= 0
    right = jnp.where(left, 1 - x, x)
    plain = sign * float(math.factorial(n)) * _zeta(n + 1, jnp.where(jnp.isinf(right), 1, right))
    plain = jnp.where(jnp.isinf(right), 0, plain)
    # reflected: the series for zeta holds to the right of zero only
    pole = left & (x == jnp.floor(x))
    turn = jnp.where(left & ~pole, x - jnp.round(x), 0.25)
    cotangent = 1 / jnp.tan(math.pi * turn)
    slope = jnp.zeros_like(x)
    for a in reversed(_cotangent(n)):
        slope = slope * cotangent + a
    reflected = -(math.pi ** (n + 1)) * slope - sign * plain
    return jnp.where(pole, sign * np.inf, jnp.where(left, reflected, plain)).astype(x.dtype)


@_polygamma.defjvp
def _(n, primals, tangents):
    return _polygamma(n, *primals), tangents[0] * _polygamma(n + 1, *primals)


def _gammaln(x):
    return np.where(x == -np.inf, np.inf, special.gammaln(x))


# log(gamma(2 + z)) = z * sum of these times (-z)**k
@functools.cache
def _at_two():
    return [1 - np.euler_gamma, *[-float(special.zetac(k)) / k for k in range(2, 28)]]


def _lgamma(x):
    """Around its roots 1 and 2 as a series: XLA's own form has an error of its size at 1 there."""
    if x.dtype.itemsize < 4:
        return _lgamma(x.astype(jnp.float32)).astype(x.dtype)
    near = (x > 0.5) & (x < 2.5)
    low = x < 1.5
    z = jnp.where(near, x - jnp.where(low, 1, 2).astype(x.dtype), 0)
    series = jnp.zeros_like(z)
    for a in reversed(_at_two()[: 14 if x.dtype == jnp.float32 else None]):
        series = a - series * z
    return jnp.where(near, z * series - jnp.where(low, jnp.log1p(z), 0), lax.lgamma(jnp.where(near, 3, x)))


@op(
    public="lgamma gammaln",
    method="lgamma gammaln",
    inplace="lgamma_ gammaln_",
    floats=True,
    dtypes=FLOAT,
    numpy=_gammaln,
)
def lgamma(x: Tensor) -> Tensor:
    """Elementwise logarithm of the absolute value of the gamma function.

    Args:
        x: Tensor of real numbers; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.lgamma(bireme.to_tensor([1.0, 2.0])).tolist()
        [0.0, 0.0]
    """
    return _lgamma(x)


lgamma.infer(same)


@lgamma.grad(numpy=lambda g, x: g * special.digamma(x))
def _(g, x):
    return g * _polygamma(0, x)


@op(method=True, inplace=True, floats=True, dtypes=FLOAT, numpy=special.function("digamma"))
def digamma(x: Tensor) -> Tensor:
    """Elementwise digamma function, the derivative of the logarithm of the gamma function.

    Args:
        x: Tensor of real numbers; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> round(bireme.digamma(bireme.to_tensor([1.0])).item(), 4)
        -0.5772
    """
    return _polygamma(0, x)


digamma.infer(same)


@digamma.grad(numpy=lambda g, x: g * special.polygamma(1, x))
def _(g, x):
    return g * _polygamma(1, x)


@op(method=True, inplace=True, floats=True, dtypes=FLOAT, numpy=lambda x, n: special.polygamma(n, x))
def polygamma(x: Tensor, n: int) -> Tensor:
    """Elementwise polygamma function, the ``n``-th derivative of ``digamma``.

    Args:
        x: Tensor of real numbers; integers and bools become float32.
        n: Order of the derivative, a non-negative integer.

    Returns:
        Tensor of the shape of ``x``.

    Raises:
        ValueError: If ``n`` is negative.

    Examples:
        >>> round(bireme.polygamma(bireme.to_tensor([1.0]), 1).item(), 4)
        1.6449
    """
    return _polygamma(n, x)


@polygamma.prepare
def _(arguments):
    n = arguments["n"]
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
        raise errors.bad("polygamma(n)", "an integer", n, kind=errors.ArgumentTypeError)
    if n < 0:
        raise errors.bad("polygamma(n)", "a non-negative integer", n)


polygamma.infer(lambda x: x)


@polygamma.grad(numpy=lambda g, x, n: g * special.polygamma(n + 1, x))
def _(g, x, n):
    return g * _polygamma(n + 1, x)


@composite(method=True, inplace=True)
def multigammaln(x: Tensor, p: float) -> Tensor:
    """Elementwise logarithm of the multivariate gamma function of dimension ``p``.

    It is the sum of ``lgamma(x - i / 2)`` for ``i`` from 0 to ``p - 1``, plus ``p * (p - 1) / 4 * log(pi)``.

    Args:
        x: Floating-point tensor, of numbers above ``(p - 1) / 2``.
        p: Dimension, an integer of at least 1.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> round(bireme.multigammaln(bireme.to_tensor([2.0]), 2).item(), 4)
        0.4516
    """
    if x.dtype not in FLOAT:
        raise errors.bad("multigammaln(x)", "a floating-point tensor", x, kind=errors.ArgumentTypeError)
    if p is None or p != int(p):
        raise errors.bad("multigammaln(p)", "an integer", p, kind=errors.ArgumentTypeError)
    if p < 1:
        raise errors.bad("multigammaln(p)", "a positive integer", int(p), kind=errors.ArgumentError)
    halves = registry.find("arange")(int(p), dtype=x.dtype) / 2
    return lgamma(x.unsqueeze(-1) - halves).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


def _share(exact, lower):
    """The gamma distribution's mass below or above y, computed in float64: in float32 three digits are right."""

    def body(x, y):
        a, b = x.astype(jnp.float64), y.astype(jnp.float64)
        endless = jnp.isinf(a) & jnp.isfinite(b)
        out = exact(*jnp.broadcast_arrays(jnp.where(endless, 1, a), b))
        return jnp.where(endless & (a > 0), 0 if lower else 1, out).astype(x.dtype)

    return body


_LOWER, _UPPER = _share(lax.igamma, True), _share(lax.igammac, False)


def _density(x, y):
    """Derivative of the lower share in `y`: a small difference of large numbers, so in float64 too."""
    a, b = x.astype(jnp.float64), y.astype(jnp.float64)
    return jnp.exp((a - 1) * jnp.log(b) - b - lax.lgamma(a)).astype(y.dtype)


@op(internal=True, numpy=special.function("gammainc"))
def gamma_below(x: Tensor, y: Tensor) -> Tensor:
    """The regularized lower incomplete gamma function; use `gammainc`."""
    return _LOWER(x, y)


@op(internal=True, numpy=special.function("gammaincc"))
def gamma_above(x: Tensor, y: Tensor) -> Tensor:
    """The regularized upper incomplete gamma function; use `gammaincc`."""
    return _UPPER(x, y)


gamma_below.infer(elementwise("gammainc"))
gamma_above.infer(elementwise("gammaincc"))
gamma_below.grad(lambda g, x, y, sigs: (None, sum_to(g * _density(x, y), sigs[1])))
gamma_above.grad(lambda g, x, y, sigs: (None, sum_to(-g * _density(x, y), sigs[1])))


def _incomplete(name, f, x, y):
    if x.dtype not in FLOAT or x.dtype is not y.dtype:
        raise errors.bad(
            f"{name}()",
            "floating-point tensors of one dtype",
            described=f"{x.dtype.name} and {y.dtype.name}",
            kind=errors.DtypeError,
        )
    not_negative(f"{name}(x)", x)
    not_negative(f"{name}(y)", y)
    return f(x if x.stop_gradient else x.detach(), y)


def not_negative(where, t):
    """Raise for a negative number."""
    guards.require(
        read(t),
        where,
        "non-negative numbers",
        host=lambda array: float(np.nanmin(array)) if (array < 0).any() else None,
        device=lambda: registry.find("any")(registry.find("less_than")(t, 0.0)),
        got="a negative number",
    )


@composite(method=True, inplace=True, writes=3)
def gammainc(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise regularized lower incomplete gamma function ``P(x, y)``.

    It is the integral of ``t ** (x - 1) * exp(-t)`` from 0 to ``y``, divided by ``gamma(x)``.

    Args:
        x: Order, a floating-point tensor of non-negative numbers; it gets no gradient.
        y: Upper limit of the integral, non-negative numbers of the same dtype.

    Returns:
        Tensor of the broadcast shape with numbers in ``[0, 1]``.

    Raises:
        ValueError: If a number is negative.

    Examples:
        >>> round(bireme.gammainc(bireme.to_tensor([1.0]), bireme.to_tensor([1.0])).item(), 4)
        0.6321
    """
    return _incomplete("gammainc", gamma_below, x, y)


@composite(method=True, inplace=True)
def gammaincc(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise regularized upper incomplete gamma function ``Q(x, y) = 1 - P(x, y)``.

    It is the integral of ``t ** (x - 1) * exp(-t)`` from ``y`` to infinity, divided by ``gamma(x)``.

    Args:
        x: Order, a floating-point tensor of non-negative numbers; it gets no gradient.
        y: Lower limit of the integral, non-negative numbers of the same dtype.

    Returns:
        Tensor of the broadcast shape with numbers in ``[0, 1]``.

    Raises:
        ValueError: If a number is negative.

    Examples:
        >>> round(bireme.gammaincc(bireme.to_tensor([1.0]), bireme.to_tensor([1.0])).item(), 4)
        0.3679
    """
    return _incomplete("gammaincc", gamma_above, x, y)


# ---------------------------------------------------------------- modified Bessel functions


def _grown(scaled, x):
    """Without the factor exp(-|x|), taken out in two steps: in one it is infinite where the result is not."""
    half = jnp.exp(jnp.abs(x) / 2)
    return half * scaled * half


def _i0(x):
    return _grown(lax.bessel_i0e(x), x)


def _i1(x):
    return _grown(lax.bessel_i1e(x), x)


@op(method=True, inplace=True, floats=True, dtypes=FLOAT, numpy=special.function("i0"))
def i0(x: Tensor) -> Tensor:
    """Elementwise modified Bessel function of the first kind of order 0.

    Args:
        x: Tensor of real numbers; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.i0(bireme.to_tensor([0.0])).tolist()
        [1.0]
    """
    return _i0(x)


i0.infer(same)
i0.grad(lambda g, x: g * _i1(x), numpy=lambda g, x: g * special.i1(x))


@op(method=True, floats=True, dtypes=FLOAT, numpy=special.function("i1"))
def i1(x: Tensor) -> Tensor:
    """Elementwise modified Bessel function of the first kind of order 1.

    Args:
        x: Tensor of real numbers; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.i1(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return _i1(x)


i1.infer(same)


def _i1_near_zero(x):
    """Where x is near zero, `i1(x) / x` there as a series, and x elsewhere.

    The slope of the quotient is a difference of almost equal numbers there.
    """
    near = jnp.abs(x) < 1
    t = jnp.where(near, x * 0.5, 0)
    series = jnp.ones_like(x)
    for k in range(8, 0, -1):
        series = 1 + t * t / (k * (k + 1)) * series
    return near, 0.5 * series, jnp.where(near, 1, x)


@i1.grad
def _(g, x):
    near, series, far = _i1_near_zero(x)
    return g * (_i0(x) - jnp.where(near, series, _i1(far) / far))


@op(method=True, floats=True, dtypes=FLOAT, numpy=special.function("i0e"))
def i0e(x: Tensor) -> Tensor:
    """Elementwise exponentially scaled Bessel function ``i0(x) * exp(-abs(x))``, which does not overflow.

    Args:
        x: Tensor of real numbers; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.i0e(bireme.to_tensor([0.0])).tolist()
        [1.0]
    """
    return lax.bessel_i0e(x)


i0e.infer(same)
i0e.grad(
    lambda g, x, out: g * (lax.bessel_i1e(x) - jnp.sign(x) * out),
    numpy=lambda g, x, out: g * (special.i1e(x) - np.sign(x) * out),
)


@op(method=True, floats=True, dtypes=FLOAT, numpy=special.function("i1e"))
def i1e(x: Tensor) -> Tensor:
    """Elementwise exponentially scaled Bessel function ``i1(x) * exp(-abs(x))``, which does not overflow.

    Args:
        x: Tensor of real numbers; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.i1e(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return lax.bessel_i1e(x)


i1e.infer(same)


@i1e.grad
def _(g, x, out):
    near, series, far = _i1_near_zero(x)
    return g * (lax.bessel_i0e(x) - out * jnp.sign(x) - jnp.where(near, series * jnp.exp(-jnp.abs(x)), out / far))
