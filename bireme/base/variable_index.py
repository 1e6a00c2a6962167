"""Names that code written for Paddle takes from `paddle.base.variable_index`: indexing as functions."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor


def _getitem_static(x: Tensor, indices: Any) -> Tensor:
    """The part of `x` at `indices`."""
    return x[indices]


def _setitem_static(x: Tensor, indices: Any, values: Any) -> Tensor:
    """Write `values` into `x` at `indices`; returns `x`."""
    x[indices] = values
    return x
