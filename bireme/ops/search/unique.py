"""Distinct elements: how many there are depends on values, so the host finds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.conversion import one_axis
from bireme.core.declare.op import Attr, DTypeArg, Tensor, composite
from bireme.core.tensor.tensor import value_of


def _lines(name: str, x: Tensor, axis: Any) -> tuple[np.ndarray, Any]:
    """What is compared, one row each: the elements, or the slices along an axis."""
    if x.dtype.is_complex:
        raise errors.bad(f"{name}(x)", "a real tensor", x, kind=errors.DtypeError)
    if axis is not None:
        axis = one_axis(axis, x.ndim, f"{name}(axis)")
        if not x.ndim:
            raise errors.bad(f"{name}(axis)", "no axis for a 0-D tensor", axis)
    host = x._host()
    host = host if host.dtype.isbuiltin else host.astype(np.float32)
    if axis is None or not host.size:
        return host.reshape(-1, 1), axis
    return np.moveaxis(host, axis, 0).reshape(host.shape[axis], -1), axis


def _result(name: str, x: Tensor, kept: np.ndarray, axis: Any, dtype: Any, more: list) -> Any:
    kind = dtypes.of(dtype, f"{name}(dtype)") if dtype is not None else None
    if kind not in (dtypes.int32, dtypes.int64):
        raise errors.bad(f"{name}(dtype)", "int32 or int64", described="None" if kind is None else kind.name, kind=errors.ArgumentTypeError)
    host = x._host()
    if not host.size and not (name == "unique_consecutive" and axis is None):
        values = host  # as Paddle has it: nothing to leave out, so the shape stays
    else:
        values = host.reshape(-1)[kept] if axis is None else np.take(host, kept, axis)
    found = [Tensor(value_of(values, x.dtype, x.place)), *[Tensor(value_of(m, kind, x.place)) for m in more]]
    return found[0] if len(found) == 1 else tuple(found)


def _new(lines: np.ndarray) -> np.ndarray:
    """Whether each row differs from the one before it; NaN differs from everything."""
    new = np.ones(len(lines), bool)
    new[1:] = (lines[1:] != lines[:-1]).any(axis=1)
    return new


@composite(method=True)
def unique(x: Tensor, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: Attr[int] = None, dtype: DTypeArg = "int64") -> Tensor | tuple[Tensor, ...]:  # fmt: skip
    """Distinct elements in ascending order, or distinct slices along an axis.

    The size of the result depends on the values, so the call computes them at once. It has no gradient.

    Args:
        x: Tensor of real numbers or bools; each NaN counts as distinct.
        return_index: Whether to return the index of the first occurrence of each. Default: False.
        return_inverse: Whether to return, for each element of ``x``, its index in the result. Default: False.
        return_counts: Whether to return how often each occurs. Default: False.
        axis: Axis along which slices are compared; ``None`` means the elements of the flattened tensor. Default: None.
        dtype: Dtype of the indices and counts, int32 or int64. Default: ``'int64'``.

    Returns:
        Tensor of the distinct elements; with further results a tuple of it and 1-D tensors, in the order of the
        arguments.

    Examples:
        >>> [t.tolist() for t in bireme.unique(bireme.to_tensor([2, 3, 3, 1]), return_counts=True)]
        [[1, 2, 3], [1, 1, 2]]
    """
    lines, axis = _lines("unique", x, axis)
    order = np.argsort(lines[:, 0], kind="stable") if lines.shape[1] == 1 else np.lexsort(lines.T[::-1])
    new = _new(lines[order])
    kept = order[new]
    more = [kept] if return_index else []
    if return_inverse:
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.cumsum(new) - 1
        more.append(inverse)
    if return_counts:
        more.append(np.diff(np.append(np.flatnonzero(new), len(order))))
    return _result("unique", x, kept, axis, dtype, more)


@composite(method=True, torch=True)
def unique_consecutive(x: Tensor, return_inverse: bool = False, return_counts: bool = False, axis: Attr[int] = None,
                       dtype: DTypeArg = "int64") -> Tensor | tuple[Tensor, ...]:  # fmt: skip
    """Elements, or slices along an axis, without those that equal the one before.

    The size of the result depends on the values, so the call computes them at once. It has no gradient.

    Args:
        x: Tensor of real numbers or bools; NaN equals nothing.
        return_inverse: Whether to return, for each element of ``x``, its index in the result. Default: False.
        return_counts: Whether to return the length of each run of equal elements. Default: False.
        axis: Axis along which slices are compared; ``None`` means the elements of the flattened tensor. Default: None.
        dtype: Dtype of the indices and counts, int32 or int64. Default: ``'int64'``.

    Returns:
        Tensor of what is left; with further results a tuple of it and 1-D tensors, in the order of the arguments.

    Examples:
        >>> bireme.unique_consecutive(bireme.to_tensor([1, 1, 2, 2, 1])).tolist()
        [1, 2, 1]
    """
    lines, axis = _lines("unique_consecutive", x, axis)
    new = _new(lines)
    kept = np.flatnonzero(new)
    more = [np.cumsum(new) - 1] if return_inverse else []
    if return_counts:
        more.append(np.diff(np.append(kept, len(new))))
    return _result("unique_consecutive", x, kept, axis, dtype, more)
