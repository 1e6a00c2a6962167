"""Functions in float32 as XLA's CPU compiler vectorises them: its own call the C library once per element.

The polynomials are least-maximum fits of this project. Errors are below two units in the last place.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

# pi/2 in parts of eleven bits: their products with a count below 2**13 are exact
_HALF_PI = (1.5703125, 0.0004837512969970703, 7.549533620476723e-08, 2.5633440682570896e-12)
_FAR = 8192.0
_SIN = (-0.16666653863579262, 0.00833211303777904, -0.00019508740932331354)
_COS = (0.041666644367725304, -0.0013887251482387704, 2.4425681269765354e-05)
_ATAN = (
    -0.33333301866852677,
    0.19998638623430617,
    -0.14265245366631793,
    0.1095757591154091,
    -0.08419457890500177,
    0.05823452460678342,
    -0.031455672819381816,
    0.011064424169973617,
    -0.0018272089710725367,
)


def single(form, body):
    """The form for operands of float32, and the operator's body for others: what its lowering for the CPU is."""

    def lowered(**operands):
        xs = operands.values()
        return form(*xs) if all(x.dtype == jnp.float32 for x in xs) else body(**operands)

    return lowered


def _polynomial(x, coefficients):
    total = jnp.full_like(x, coefficients[-1])
    for a in reversed(coefficients[:-1]):
        total = total * x + a
    return total


def _quarters(x):
    """The nearest multiple of pi/2 as a count, and sine and cosine of what is left."""
    count = jnp.round(x * (2 / np.pi))
    left = x
    for part in _HALF_PI:
        left = left - count * part
    s = left * left
    return count.astype(jnp.int32), left + left * (s * _polynomial(s, _SIN)), 1 - s / 2 + s * s * _polynomial(s, _COS)


def _near(form, exact, x):
    """The form where its reduction is exact; anything beyond, infinite or NaN, makes all of `x` take the other."""
    return lax.cond(jnp.max(jnp.abs(x), initial=0) <= _FAR, form, exact, x)


def _turned(x, quarter):
    count, sine, cosine = _quarters(x)
    count = count + quarter
    value = jnp.where(count & 1, cosine, sine)
    return jnp.where(count & 2, -value, value)


def sin(x):
    return _near(lambda x: _turned(x, 0), jnp.sin, x)


def cos(x):
    return _near(lambda x: _turned(x, 1), jnp.cos, x)


def _tan(x):
    count, sine, cosine = _quarters(x)
    return jnp.where(count & 1, -cosine, sine) / jnp.where(count & 1, sine, cosine)


def tan(x):
    return _near(_tan, jnp.tan, x)


def _atan(t):
    """For `t` in [0, 1]."""
    s = t * t
    return t + t * (s * _polynomial(s, _ATAN))


def atan(x):
    size = jnp.abs(x)
    steep = size > 1
    angle = _atan(jnp.where(steep, 1 / size, size))
    return jnp.copysign(jnp.where(steep, np.float32(np.pi / 2) - angle, angle), x)


def atan2(x, y):
    """The angle with ordinate `x` and abscissa `y`."""
    rise, run = jnp.abs(x), jnp.abs(y)
    most, least = jnp.maximum(rise, run), jnp.minimum(rise, run)
    # equal ones include two infinities; zero over zero is an angle of zero
    slope = jnp.where((most == least) & (most > 0), 1, least / jnp.where(most == 0, 1, most))
    angle = _atan(slope)
    angle = jnp.where(rise > run, np.float32(np.pi / 2) - angle, angle)
    angle = jnp.where(jnp.signbit(y), np.float32(np.pi) - angle, angle)
    return jnp.where(jnp.isnan(y), y, jnp.copysign(angle, x))


def asin(x):
    return atan2(x, jnp.sqrt((1 - x) * (1 + x)))


def acos(x):
    return atan2(jnp.sqrt((1 - x) * (1 + x)), x)


def quotient_and_rest(x, y):
    """`x // y` and `x % y` from a quotient in double precision, and whether it is exact: it has at most 29 bits."""
    a, b = x.astype(jnp.float64), y.astype(jnp.float64)
    q = jnp.floor(a / b)
    rest = a - q * b
    over = rest * jnp.sign(b) < 0  # the quotient was rounded up to the next integer
    exact = jnp.all((jnp.abs(q) < 2.0**29) & jnp.isfinite(b))
    return exact, jnp.where(over, q - 1, q).astype(x.dtype), jnp.where(over, rest + b, rest).astype(x.dtype)


def remainder(x, y):
    exact, _, rest = quotient_and_rest(*jnp.broadcast_arrays(x, y))
    return lax.cond(exact, lambda: rest, lambda: jnp.remainder(x, y))


def floor_divide(x, y):
    exact, quotient, _ = quotient_and_rest(*jnp.broadcast_arrays(x, y))
    return lax.cond(exact, lambda: quotient, lambda: jnp.floor_divide(x, y))
