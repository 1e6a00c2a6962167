"""Names that code written for Paddle takes from `paddle.incubate.autograd.utils`."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.tensor import Tensor
from bireme.incubate.autograd.primitive import disable_prim, enable_prim, prim_enabled

__all__ = ["as_tensors", "disable_prim", "enable_prim", "prim_enabled"]


def as_tensors(xs: Any) -> Any:
    """Return a tensor or a list of tensors as a tuple; None stays None.

    Args:
        xs: A tensor, a list or tuple of them, or None.

    Returns:
        A tuple, or None.

    Examples:
        >>> len(bireme.incubate.autograd.utils.as_tensors(bireme.ones([2])))
        1
    """
    return (xs,) if isinstance(xs, Tensor) else tuple(xs) if isinstance(xs, (list, tuple)) else xs
