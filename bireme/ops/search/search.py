"""Searching: indices of extremes, of values in a sorted sequence, of nonzero elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, INT
from bireme.core.declare.op import Attr, Axis, DTypeArg, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor.results import MinMaxRetType
from bireme.ops.indexing import gather, masks
from bireme.ops.manipulation import reshape
from bireme.ops.math import clip
from bireme.ops.reduction import reductions
from bireme.ops.reduction.reductions import reduced_shape

# ---------------------------------------------------------------- extremes


def _extreme_shape(dims, axis, keepdim):
    if not dims:
        return (1,) if keepdim and axis is not None else ()
    return reduced_shape(dims, None if axis is None else (axis,), keepdim)


def _place(x, axis, keepdim, dtype, largest):
    dims = x.shape
    if jnp.issubdtype(x.dtype, jnp.floating):  # NaN is never the extreme, as in Paddle
        x = jnp.where(jnp.isnan(x), np.asarray(-np.inf if largest else np.inf, x.dtype), x)
    flat = x.reshape(-1) if axis is None or not x.ndim else x
    out = (jnp.argmax if largest else jnp.argmin)(flat, axis=0 if axis is None else axis)
    return out.astype(dtype.np).reshape(_extreme_shape(dims, axis, keepdim))


def _place_numpy(x, axis, keepdim, dtype, largest):
    if x.dtype.kind == "f" and np.isnan(x).any():
        x = np.where(np.isnan(x), np.asarray(-np.inf if largest else np.inf, x.dtype), x)
    out = (x.argmax if largest else x.argmin)(axis if x.ndim else None)
    return np.asarray(out, dtype.np).reshape(_extreme_shape(x.shape, axis, keepdim))


@op(internal=True, differentiable=False, dtypes=FLOAT | INT, numpy=_place_numpy)
def arg_extreme(
    x: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeArg = "int64", largest: bool = True
) -> Tensor:
    """Index of the largest or smallest element; use `argmax` and `argmin`."""
    return _place(x, axis, keepdim, dtype, largest)


@arg_extreme.check
def _(x, axis, largest):
    if x.size == 0 and (axis is None or x.shape[axis] == 0):
        raise errors.bad(
            "argmax(x)" if largest else "argmin(x)",
            "at least one element",
            described=f"shape {list(x.shape)}",
            kind=errors.ShapeError,
        )


arg_extreme.infer(lambda x, axis, keepdim, dtype: sig_of(_extreme_shape(x.shape, axis, keepdim), dtype))


def _positions(name: str, x: Tensor, axis: Any, keepdim: bool, dtype: Any, largest: bool) -> Tensor:
    if dtype is None:
        raise errors.bad(f"{name}(dtype)", "int32 or int64", None)
    kind = dtypes.of(dtype, f"{name}(dtype)")
    if kind not in (dtypes.int32, dtypes.int64):
        raise errors.bad(f"{name}(dtype)", "int32 or int64", described=kind.name, kind=errors.ArgumentTypeError)
    return arg_extreme(x, axis, keepdim, kind, largest)


@composite(method=True, torch=True, plain=True)
def argmax(x: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeArg = "int64") -> Tensor:
    """Index of the largest element along an axis, the first of equal ones.

    NaN is never chosen where there are numbers.

    Args:
        x: Tensor of real numbers.
        axis: Axis to search along; ``None`` means the flattened tensor. Default: None.
        keepdim: Whether to keep the axis with size 1; without an axis, all of them. Default: False.
        dtype: Dtype of the indices, int32 or int64. Default: ``'int64'``.

    Returns:
        Tensor of indices.

    Raises:
        ValueError: If there is no element to choose.

    Examples:
        >>> bireme.argmax(bireme.to_tensor([1, 3, 2])).item()
        1
    """
    return _positions("argmax", x, axis, keepdim, dtype, True)


@composite(method=True, torch=True, plain=True)
def argmin(x: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeArg = "int64") -> Tensor:
    """Index of the smallest element along an axis, the first of equal ones.

    NaN is never chosen where there are numbers.

    Args:
        x: Tensor of real numbers.
        axis: Axis to search along; ``None`` means the flattened tensor. Default: None.
        keepdim: Whether to keep the axis with size 1; without an axis, all of them. Default: False.
        dtype: Dtype of the indices, int32 or int64. Default: ``'int64'``.

    Returns:
        Tensor of indices.

    Raises:
        ValueError: If there is no element to choose.

    Examples:
        >>> bireme.argmin(bireme.to_tensor([3, 1, 2])).item()
        1
    """
    return _positions("argmin", x, axis, keepdim, dtype, False)


def _compat_extreme(name: str, input: Tensor, dim: Any, keepdim: Any, other: Any, largest: bool) -> Any:
    """torch's three forms: of all elements, along an axis with indices, of two tensors."""
    if isinstance(dim, Tensor):
        dim, other = ..., dim
    if isinstance(other, Tensor) and dim is ... and keepdim is ...:
        return (clip.maximum if largest else clip.minimum)(input, other)
    if dim is ... and keepdim is ... and other is ...:
        return (reductions.max if largest else reductions.min)(input)
    if dim is None or dim is ... or other is not ...:
        raise errors.bad(
            f"{name}()",
            "a tensor, with an axis (and keepdim) or with another tensor",
            described="other arguments",
            kind=errors.ArgumentTypeError,
        )
    places = arg_extreme(input, dim, True, dtypes.int64, largest)
    if not input.ndim:
        return MinMaxRetType(input, reshape.reshape(places, []))
    values = gather.take_along_axis(input, places, dim)
    if keepdim is not ... and keepdim:
        return MinMaxRetType(values, places)
    return MinMaxRetType(reshape.squeeze(values, dim), reshape.squeeze(places, dim))


def _three_forms(input: Tensor, *args: Any, out: Tensor | Sequence[Tensor] | None = None, **kwargs: Any) -> None:
    """The signature of what has torch's three forms."""


@composite(public="compat.max", signature=_three_forms, out=True,
           rejects={"axis": "bireme.max", "x": "bireme.max", "y": "bireme.maximum"})  # fmt: skip
def compat_max(input: Tensor, dim: Attr[int | Tensor] = ..., keepdim: Attr[bool] = ...,
               other: Attr[Tensor] = ...) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Maximum of all elements, along an axis with its indices, or of two tensors, as torch has it.

    Three forms: ``max(input)`` is the largest element; ``max(input, dim, keepdim=False)`` the largest ones along an
    axis with the indices of the first of equal ones; ``max(input, other)`` the elementwise maximum.

    Args:
        input: Tensor of real numbers.
        *args: ``dim`` and ``keepdim``, or ``other``.
        **kwargs: The same by keyword.

    Returns:
        Tensor; along an axis a named tuple ``(values, indices)``.

    Examples:
        >>> [t.tolist() for t in bireme.compat.max(bireme.to_tensor([[1, 5], [3, 4]]), 0)]
        [[3, 5], [1, 0]]
    """
    return _compat_extreme("max", input, dim, keepdim, other, True)


@composite(public="compat.min", signature=_three_forms, out=True,
           rejects={"axis": "bireme.min", "x": "bireme.min", "y": "bireme.minimum"})  # fmt: skip
def compat_min(input: Tensor, dim: Attr[int | Tensor] = ..., keepdim: Attr[bool] = ...,
               other: Attr[Tensor] = ...) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Minimum of all elements, along an axis with its indices, or of two tensors, as torch has it.

    Three forms: ``min(input)`` is the smallest element; ``min(input, dim, keepdim=False)`` the smallest ones along an
    axis with the indices of the first of equal ones; ``min(input, other)`` the elementwise minimum.

    Args:
        input: Tensor of real numbers.
        *args: ``dim`` and ``keepdim``, or ``other``.
        **kwargs: The same by keyword.

    Returns:
        Tensor; along an axis a named tuple ``(values, indices)``.

    Examples:
        >>> [t.tolist() for t in bireme.compat.min(bireme.to_tensor([[1, 5], [3, 4]]), 0)]
        [[1, 4], [0, 1]]
    """
    return _compat_extreme("min", input, dim, keepdim, other, False)


# ---------------------------------------------------------------- sorted sequences


@op(differentiable=False)
def searchsorted(sorted_sequence: Tensor, values: Tensor, out_int32: bool = False, right: bool = False) -> Tensor:
    """Find the indices at which values would be inserted into a sorted sequence to keep it sorted.

    Args:
        sorted_sequence: Tensor of real numbers, sorted in ascending order along its last axis.
        values: Values to look up: of any shape for a 1-D sequence, otherwise with the sizes of the sequence on all axes
            but the last.
        out_int32: Whether the indices are int32 rather than int64. Default: False.
        right: Whether a value goes after elements equal to it rather than before them. Default: False.

    Returns:
        Tensor of indices in the shape of ``values``; NaN counts as larger than all numbers.

    Raises:
        ValueError: If the leading axes do not match.

    Examples:
        >>> bireme.searchsorted(bireme.to_tensor([1, 3, 5]), bireme.to_tensor([3, 4])).tolist()
        [1, 2]
    """
    kind, side = jnp.int32 if out_int32 else jnp.int64, "right" if right else "left"
    common = jnp.promote_types(sorted_sequence.dtype, values.dtype)
    rows, wanted = sorted_sequence.astype(common), values.astype(common)
    if rows.ndim == 1:
        return jnp.searchsorted(rows, wanted, side=side).astype(kind)
    if not rows.size or not wanted.size:
        return jnp.zeros(values.shape, kind)
    lines = rows.reshape(-1, rows.shape[-1]), wanted.reshape(-1, wanted.shape[-1])
    return jax.vmap(lambda r, v: jnp.searchsorted(r, v, side=side))(*lines).astype(kind).reshape(values.shape)


def _searchsorted_numpy(sorted_sequence, values, out_int32, right):
    kind, side = np.int32 if out_int32 else np.int64, "right" if right else "left"
    if sorted_sequence.ndim == 1:
        return np.asarray(np.searchsorted(sorted_sequence, values, side)).astype(kind)
    out = np.zeros(values.shape, kind)
    for i in np.ndindex(*values.shape[:-1]):
        out[i] = np.searchsorted(sorted_sequence[i], values[i], side)
    return out


searchsorted.numpy_form = _searchsorted_numpy
searchsorted.infer(lambda values, out_int32: sig_of(values.shape, dtypes.int32 if out_int32 else dtypes.int64))


@searchsorted.check
def _(sorted_sequence, values):
    for name, s in (("sorted_sequence", sorted_sequence), ("values", values)):
        if s.dtype not in FLOAT | INT:
            raise errors.bad(
                f"searchsorted({name})",
                "an integer or floating-point tensor",
                described=s.dtype.name,
                kind=errors.DtypeError,
            )
    if sorted_sequence.ndim == 0:
        raise errors.bad(
            "searchsorted(sorted_sequence)", "a tensor with at least 1 dimension", described="a 0-D tensor"
        )
    if sorted_sequence.ndim > 1 and (
        sorted_sequence.shape[:-1] != values.shape[:-1] or sorted_sequence.ndim != values.ndim
    ):
        raise errors.bad(
            "searchsorted(values)",
            f"leading dimensions {list(sorted_sequence.shape[:-1])}, as sorted_sequence has",
            described=f"shape {list(values.shape)}",
            kind=errors.ShapeError,
        )


@composite(method=True)
def bucketize(x: Tensor, sorted_sequence: Tensor, out_int32: bool = False, right: bool = False) -> Tensor:
    """Index of the bucket of each element, between the boundaries in a sorted 1-D sequence.

    Args:
        x: Tensor of real numbers.
        sorted_sequence: 1-D tensor of boundaries in ascending order.
        out_int32: Whether the indices are int32 rather than int64. Default: False.
        right: Whether an element that equals a boundary belongs to the bucket after it rather than before it.
            Default: False.

    Returns:
        Tensor of indices in the shape of ``x``.

    Raises:
        ValueError: If ``sorted_sequence`` is not 1-D.

    Examples:
        >>> bireme.bucketize(bireme.to_tensor([3, 4]), bireme.to_tensor([1, 3, 5])).tolist()
        [1, 2]
    """
    if sorted_sequence.ndim != 1:
        raise errors.bad("bucketize(sorted_sequence)", "a 1-D tensor", sorted_sequence)
    return searchsorted(sorted_sequence, x, out_int32, right)


@composite(method=True, name_arg=False)
def argwhere(input: Tensor) -> Tensor:
    """Indices of the nonzero elements.

    The number of rows depends on the values, so the call computes them at once.

    Args:
        input: Input tensor.

    Returns:
        Tensor of int64 with one row for each nonzero element, in row-major order, and one column for each axis.

    Examples:
        >>> bireme.argwhere(bireme.to_tensor([[0, 5], [6, 0]])).tolist()
        [[0, 1], [1, 0]]
    """
    return masks.nonzero(input)
