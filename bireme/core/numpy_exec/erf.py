"""The error function of float32 arrays by NumPy's vector loops: SciPy's goes element by element, at a third of the
speed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base.later import special

# erf(x) = x P(x^2) / Q(x^2) up to MOST, from where it is 1 to seven digits: a rational fit of the relative error, which
# is 1.2e-8 in exact arithmetic and 4e-7 in float32
MOST = np.float32(3.8)
P = np.array([2.151034334903636e-06, 2.865091322252697e-04, 3.6150795484936327e-03, 5.231074060902544e-02,
              1.8624970403699437e-01, 1.1283791539128984], np.float32)  # fmt: skip
Q = np.array([3.921350189176202e-05, 1.1351019747440942e-03, 1.4667277055733709e-02, 1.1249200265381938e-01,
              4.983924575807232e-01, 1.0], np.float32)  # fmt: skip
BLOCK = 1 << 15  # elements at a time: three arrays of them stay in a cache


def erf(x: Any) -> Any:
    """erf of an array; a few units in the last place for float32, and as exact as it gets for others."""
    if x.__class__ is not np.ndarray or x.dtype != np.float32 or x.size < 64:
        return special.erf(x)
    out = np.empty(x.shape, np.float32)
    flat, made = np.ascontiguousarray(x).reshape(-1), out.reshape(-1)
    square, below = np.empty((2, min(len(flat), BLOCK)), np.float32)
    for start in range(0, len(flat), BLOCK):
        t = made[start : start + BLOCK]
        n = len(t)
        np.clip(flat[start : start + BLOCK], -MOST, MOST, out=t)
        z, q = np.multiply(t, t, out=square[:n]), below[:n]
        _horner(Q, z, q)
        np.divide(t, q, out=t)
        _horner(P, z, q)
        np.multiply(t, q, out=t)
        np.clip(t, -1, 1, out=t)
    return out


def _horner(coefficients: np.ndarray, z: np.ndarray, out: np.ndarray) -> None:
    np.multiply(z, coefficients[0], out=out)
    for c in coefficients[1:-1]:
        out += c
        out *= z
    out += coefficients[-1]
