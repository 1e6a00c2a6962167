"""Checks of arguments that functions of audio share."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors


def whole(where: str, n: Any, least: int) -> int:
    """Return an integer that is not less than `least`."""
    integer = isinstance(n, (int, np.integer)) and not isinstance(n, bool)
    if not integer or n < least:
        expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise errors.bad(where, expected, n, kind=errors.for_integer(n))
    return int(n)


def real(where: str, x: Any, expected: str = "a number", positive: bool = False) -> float:
    """Return a number as a float."""
    if isinstance(x, (bool, str)) or not hasattr(x, "__float__"):
        raise errors.bad(where, expected, x, kind=errors.ArgumentTypeError)
    found = float(x)
    if positive and not found > 0:
        raise errors.bad(where, expected, x)
    return found


def float_dtype(where: str, dtype: Any) -> Any:
    """Return NumPy's data type for a floating-point one."""
    found = dtypes.of(dtype, where)
    if found not in dtypes.FLOAT:
        raise errors.bad(where, "a floating-point data type", described=found.name, kind=errors.DtypeError)
    return found.np
