"""Functions made of NumPy's exponential, which goes over several numbers at once: SciPy's and NumPy's own go one by one,
at a fifth to a twentieth of the speed.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def logistic(x: Any) -> Any:
    """1 / (1 + exp(-x)); the exponential overflows to the limit."""
    out = np.negative(x)
    if out.__class__ is not np.ndarray:  # a number, which is what NumPy gives where there are no axes
        return 1 / (1 + np.exp(out))
    np.exp(out, out=out)
    out += 1
    return np.divide(1, out, out=out)


def logaddexp(x: Any, y: Any) -> Any:
    """`np.logaddexp`."""
    out = np.subtract(x, y)
    if out.__class__ is not np.ndarray:
        return np.logaddexp(x, y)
    np.abs(out, out=out)
    np.negative(out, out=out)
    np.fmax(out, -np.inf, out=out)  # equal infinities have no difference, but are the result
    np.exp(out, out=out)
    np.log1p(out, out=out)
    out += np.maximum(x, y)
    return out
