"""Half precision inside operators: computed in float32, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.graph.bound import NARROW


def widen(x: Any) -> Any:
    """An array in float32 if it is of half precision or less, where sums would lose digits; any other as it is."""
    return x.astype(np.float32) if x.dtype in NARROW else x
