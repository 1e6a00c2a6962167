"""Checks of what detection operators are given, and results that the host has computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Tensor
from bireme.core.tensor.tensor import value_of


def shaped(where: str, x: Any, shape: tuple[int | None, ...], what: str) -> None:
    """Refuse a tensor, or Sig, of another shape; None stands for any size."""
    if len(x.shape) != len(shape) or any(n not in (None, got) for n, got in zip(shape, x.shape)):
        raise errors.bad(where, what, described=f"shape {list(x.shape)}", kind=errors.ShapeError)


def floating(where: str, *xs: Any) -> None:
    for x in xs:
        if not x.dtype.is_floating:
            raise errors.bad(where, "a floating-point dtype", described=x.dtype.name, kind=errors.DtypeError)


def integers(where: str, x: Any) -> None:
    if x.dtype not in (dtypes.int32, dtypes.int64):
        raise errors.bad(where, "int32 or int64", described=x.dtype.name, kind=errors.DtypeError)


def boxes_on_host(where: str, x: Tensor) -> np.ndarray:
    """Values of `[n, 4]` boxes in the precision that they are compared in."""
    shaped(where, x, (None, 4), "boxes of shape [n, 4]")
    return wide(where, x)


def wide(where: str, x: Tensor) -> np.ndarray:
    """Values of a floating-point tensor, half precision in float32."""
    floating(where, x)
    host = x._host()
    return host if host.dtype.itemsize >= 4 else host.astype(np.float32)


def made(values: np.ndarray, dtype: Any, like: Tensor) -> Tensor:
    """A tensor of values from the host, on the device of another."""
    return Tensor(value_of(np.asarray(values), dtype, like.place))


def pair(where: str, value: Any) -> tuple[int, int]:
    """Height and width from one positive integer or two."""
    both = (value, value) if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else value
    if not isinstance(both, (list, tuple)) or len(both) != 2:
        raise errors.bad(where, "an integer or two integers", value, kind=errors.ArgumentTypeError)
    for n in both:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
            raise errors.bad(where, "an integer or two integers", value, kind=errors.ArgumentTypeError)
        if n < 1:
            raise errors.bad(where, "positive integers", value)
    return int(both[0]), int(both[1])


def counts_on_host(where: str, x: Any, n: int) -> np.ndarray:
    """Numbers of boxes in each image, which add up to `n`."""
    shaped(where, x, (None,), "a number of boxes for each image, of shape [N]")
    integers(where, x)
    host = x._host()
    if (host < 0).any() or int(host.sum()) != n:
        raise errors.bad(where, f"non-negative numbers that add up to the {n} boxes", host.tolist())
    return host
