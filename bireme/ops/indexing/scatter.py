"""Writing by tensors of indices: scatter, index_add, put_along_axis and their kin."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.conversion import check_range
from bireme.core.declare.op import Attr, Axis, Shape, Tensor, composite, op
from bireme.core.numpy_exec.overwriting import overwrites, own
from bireme.core.numpy_exec.rebinding import dual, on_numpy
from bireme.ops.creation.tensors import zeros
from bireme.ops.indexing.along_axis import (
    add_at,
    along,
    check_filled,
    from_front,
    last_written,
    needs_integers,
    plain,
    put_axis,
    single,
    take_axis,
)
from bireme.ops.indexing.gather import check_rows, row_places
from bireme.ops.indexing.setitem import value_like
from bireme.ops.manipulation import reshape as shapes

# ---------------------------------------------------------------- slices along an axis


@overwrites
def _scatter_numpy(x, index, updates, overwrite):
    if plain(index, len(x)):  # as a mask gives them: nothing is added up
        out = own(x)
        out[index] = updates
        return out
    index = from_front(index.reshape(-1), x.shape[0])
    rows = updates.reshape(index.shape + x.shape[1:])
    return put_axis(x, index, rows) if overwrite else add_at(put_axis(x, index, 0), index, rows)


@op(method=True, inplace=True, promote="x updates", mix="same", numpy=_scatter_numpy, amp="wide")
def scatter(x: Tensor, index: Tensor, updates: Tensor, overwrite: bool = True) -> Tensor:
    """Write rows into a tensor at given indices of its first axis.

    Args:
        x: Tensor with at least one axis.
        index: Integer tensor of at most one axis (or of shape ``[n, 1]``); negative indices count from the end.
        updates: Tensor of the dtype of ``x`` with a row for each index.
        overwrite: Whether rows replace those of ``x``, the last one staying where indices repeat. If not, the rows at
            ``index`` are set to zero and all updates are added to them. Default: True.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> bireme.scatter(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1]), bireme.to_tensor([9.0])).tolist()
        [1.0, 9.0]
    """
    index = from_front(index.reshape(-1), x.shape[0])
    rows = updates.reshape(index.shape + x.shape[1:])
    return put_axis(x, index, rows) if overwrite else add_at(put_axis(x, index, 0), index, rows)


scatter.infer(lambda x: x)
scatter.index(lambda s: [("index", -s["x"].shape[0], s["x"].shape[0])] if s["x"].ndim else [])


@scatter.check
def _(x, index, updates):
    if not x.ndim:
        raise errors.bad("scatter(x)", "a tensor with at least 1 dimension", described="a 0-D tensor")
    needs_integers("scatter(index)", index)
    if index.ndim > 2 or (index.ndim == 2 and index.shape[1] != 1):
        raise errors.bad(
            "scatter(index)", "a 1-D tensor", described=f"shape {list(index.shape)}", kind=errors.ShapeError
        )
    if updates.shape != (*index.shape[:1], *x.shape[1:]):
        raise errors.bad(
            "scatter(updates)",
            f"one row of {list(x.shape[1:])} for each of {index.size} indices",
            described=f"shape {list(updates.shape)}",
            kind=errors.ShapeError,
        )
    check_filled("scatter(index)", x.shape[0], index)


@overwrites
def _scatter_grad_numpy(g, index, overwrite, sigs):
    if plain(index, len(g)):
        of_rows, of_x = g.take(index, 0), own(g)
        of_x[index] = 0
        return of_x, None, of_rows
    return _rows_grad_numpy(g, index, overwrite, sigs)


@scatter.grad(numpy=_scatter_grad_numpy)
def _(g, index, overwrite, sigs):
    return _rows_grad(g, index, overwrite, sigs)


def _rows_grad(g, index, overwrite, sigs):
    index = from_front(index.reshape(-1), g.shape[0])
    rows = take_axis(g, index)
    if overwrite:  # what was written over has no part in the result
        rows = jnp.where(
            last_written(index, g.shape[0]).reshape((-1,) + (1,) * (g.ndim - 1)), rows, jnp.zeros_like(rows)
        )
    return put_axis(g, index, 0), None, rows.reshape(sigs[2].shape)


_rows_grad_numpy = on_numpy(_rows_grad)


@op(method=True, inplace=True, promote="x value", mix="same", passes="x", numpy=True,
    c_ops={"index_add index_add_": "x index add_value:value axis=0"})  # fmt: skip
@overwrites
def index_add(x: Tensor, index: Tensor, axis: Axis, value: Tensor) -> Tensor:
    """Add slices to a tensor at given indices along an axis; where indices repeat, all are added.

    Args:
        x: Tensor with at least one axis.
        index: 1-D integer tensor; negative indices count from the end.
        axis: Axis that the indices refer to.
        value: Tensor of the dtype of ``x`` and its shape, but for ``axis``, whose size is that of ``index``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> x, value = bireme.to_tensor([1, 2, 3]), bireme.to_tensor([10, 20])
        >>> bireme.index_add(x, bireme.to_tensor([0, 0]), 0, value).tolist()
        [31, 2, 3]
    """
    return put_axis(x, from_front(index, x.shape[axis]), value, axis, "add")


index_add.infer(lambda x: x)
index_add.index(lambda s: [("index", -s["x"].shape[s["axis"]], s["x"].shape[s["axis"]])] if s["x"].ndim else [])


@index_add.check
def _(x, index, axis, value):
    if not x.ndim:
        raise errors.bad(
            "index_add(x)", "a tensor with at least 1 dimension", described="a 0-D tensor", kind=errors.OutOfRangeError
        )
    needs_integers("index_add(index)", index)
    if index.ndim != 1:
        raise errors.bad(
            "index_add(index)", "a 1-D tensor", described=f"shape {list(index.shape)}", kind=errors.ShapeError
        )
    wanted = (*x.shape[:axis], index.size, *x.shape[axis + 1 :])
    if value.shape != wanted:
        raise errors.bad(
            "index_add(value)", f"shape {list(wanted)}", described=f"shape {list(value.shape)}", kind=errors.ShapeError
        )
    check_filled("index_add(index)", x.shape[axis], index)


@index_add.grad(numpy=True)
def _(g, index, axis):
    return g, None, take_axis(g, from_front(index, g.shape[axis]), axis)


# ---------------------------------------------------------------- by rows of an index


@op(internal="scatter_nd", promote="x updates", mix="same", passes="x", numpy=True)
@overwrites
def scatter_nd_of(x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    """A tensor with something added at indices that are rows of a tensor; use `scatter_nd_add`."""
    k = index.shape[-1]
    if not k:
        return (x + updates.sum(axis=tuple(range(index.ndim - 1)))).astype(x.dtype)
    rows = x.reshape((math.prod(x.shape[:k]), *x.shape[k:]))
    return put_axis(rows, row_places(x.shape[:k], index), updates, 0, "add").reshape(x.shape)


scatter_nd_of.infer(lambda x: x)


@scatter_nd_of.grad(numpy=True)
def _(g, index):
    k = index.shape[-1]
    if not k:
        return g, None, jnp.broadcast_to(g, (*index.shape[:-1], *g.shape))
    return g, None, take_axis(g.reshape((math.prod(g.shape[:k]), *g.shape[k:])), row_places(g.shape[:k], index))


@composite(method=True)
def scatter_nd_add(x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    """Add to elements or slices of a tensor by multi-dimensional indices; where indices repeat, all are added.

    Args:
        x: Input tensor of any dtype.
        index: Integer tensor; each vector along its last axis, of size ``k``, holds indices into the first ``k`` axes
            of ``x``. Negative ones count from the end.
        updates: Tensor of the dtype of ``x`` and of shape ``index.shape[:-1] + x.shape[k:]``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> x, updates = bireme.to_tensor([1, 2]), bireme.to_tensor([10, 20])
        >>> bireme.scatter_nd_add(x, bireme.to_tensor([[1], [1]]), updates).tolist()
        [1, 32]
    """
    check_rows("scatter_nd_add", x.shape, index)
    wanted = [*index.shape[:-1], *x.shape[index.shape[-1] :]]
    if updates.shape != wanted:
        raise errors.bad(
            "scatter_nd_add(updates)", f"shape {wanted}", described=f"shape {updates.shape}", kind=errors.ShapeError
        )
    return scatter_nd_of(x, index, updates)


@composite(method=True)
def scatter_nd(index: Tensor, updates: Tensor, shape: Shape) -> Tensor:
    """Add up elements or slices in a tensor of zeros by multi-dimensional indices.

    Args:
        index: Integer tensor; each vector along its last axis, of size ``k``, holds indices into the first ``k`` axes
            of the result.
        updates: Tensor of shape ``index.shape[:-1] + shape[k:]``.
        shape: Shape of the result.

    Returns:
        Tensor of shape ``shape`` and the dtype of ``updates``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> bireme.scatter_nd(bireme.to_tensor([[2], [0], [2]]), bireme.to_tensor([1, 2, 3]), [4]).tolist()
        [2, 0, 4, 0]
    """
    return scatter_nd_add(zeros(list(shape), updates.dtype), index, updates)


# ---------------------------------------------------------------- elements along an axis


@op(internal=True, numpy=True)
def put_along(arr: Tensor, indices: Tensor, values: Tensor, axis: int, reduce: str, include_self: bool) -> Tensor:
    """Elements along an axis set, summed up or averaged; use `put_along_axis`.

    >>> bireme.put_along_axis(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1, 1]), bireme.to_tensor([3.0, 4.0]), 0, "mean").tolist()
    [1.0, 3.0]
    """
    flat, start = along(arr.shape, indices, axis), arr.reshape(-1)
    if reduce == "assign":
        return put_axis(start, flat, values).reshape(arr.shape)
    start = single(start) if reduce == "mean" else start
    out = put_axis(start if include_self else put_axis(start, flat, 0), flat, values, 0, "add")
    out = _shared(out, _counts(flat, out.size, include_self)) if reduce == "mean" else out
    return out.reshape(arr.shape).astype(arr.dtype)


def _counts(flat, n, include_self):
    """How many numbers come together in each element."""
    one = jnp.ones(n, np.int32)
    return put_axis(one if include_self else put_axis(one, flat, 0), flat, 1, 0, "add")


def _shared(total, n):
    """A quotient in the dtype of the total; that of integers is truncated."""
    if jnp.issubdtype(total.dtype, jnp.inexact):
        return total / n.astype(total.dtype)
    n = n.astype(total.dtype)
    return (
        total // n
        if jnp.issubdtype(total.dtype, jnp.unsignedinteger)
        else (jnp.abs(total) // n * jnp.sign(total)).astype(total.dtype)
    )


put_along.infer(lambda arr: arr)


@put_along.grad(numpy=True)
def _(g, indices, axis, reduce, include_self, sigs):
    flat, line = along(g.shape, indices, axis), g.reshape(-1)
    if reduce == "mean":
        line = _shared(single(line), _counts(flat, line.size, include_self))
    part = take_axis(line, flat)
    if reduce == "assign":  # what was written over has no part in the result
        part = jnp.where(last_written(flat, line.size), part, jnp.zeros_like(part))
    start = put_axis(line, flat, 0) if reduce == "assign" or not include_self else line
    return start.reshape(g.shape), None, part


@op(internal=True, numpy=True, selects=lambda attrs: attrs["reduce"] != "mul", upcast="grad")
def fold_along(arr: Tensor, indices: Tensor, values: Tensor, axis: int, reduce: str, include_self: bool) -> Tensor:
    """Elements along an axis multiplied, or the least or largest of them; use `put_along_axis`.

    >>> bireme.put_along_axis(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1, 1]), bireme.to_tensor([3.0, 4.0]), 0, "mul").tolist()
    [1.0, 24.0]
    """
    flat, start = along(arr.shape, indices, axis), arr.reshape(-1)
    if not include_self:
        start = put_axis(start, flat, 1 if reduce == "mul" else _limit(start.dtype, reduce == "amax"))
    return put_axis(start, flat, values, 0, _HOW[reduce]).reshape(arr.shape)


_HOW = {"mul": "multiply", "amin": "min", "amax": "max"}


def _limit(dtype, least):
    """The least or the largest number of a dtype."""
    if jnp.issubdtype(dtype, jnp.floating):
        return -np.inf if least else np.inf
    return np.iinfo(dtype).min if least else np.iinfo(dtype).max


fold_along.infer(lambda arr: arr)


@fold_along.grad(numpy=True)
def _(g, out, arr, indices, values, axis, reduce, include_self):
    flat = along(g.shape, indices, axis)
    line, made, start = [a.reshape(-1) for a in (g, out, arr)]
    is_part = jnp.ones(line.shape, bool)
    if not include_self:
        is_part = put_axis(is_part, flat, False)
    rule = _product_grad if reduce == "mul" else _extreme_grad
    first, part = rule(line, made, start, is_part, flat, values)
    return jnp.where(is_part, first, jnp.zeros_like(first)).reshape(g.shape), None, part


def _extreme_grad(g, out, start, is_part, flat, values):
    """Gradient of the minimum or maximum of several numbers: those that are equal to it share it."""
    first, among = is_part & _is(start, out), _is(values, take_axis(out, flat))
    g = g / jnp.maximum(put_axis(first.astype(np.int32), flat, among, 0, "add"), 1).astype(g.dtype)
    zero = jnp.zeros((), g.dtype)
    return jnp.where(first, g, zero), jnp.where(among, take_axis(g, flat), zero)


def _is(a, b):
    return (a == b) | ((a != a) & (b != b))


def _product_grad(g, out, start, is_part, flat, values):
    """The gradient of a product: all of it divided by the factor, and for a factor of zero the product of the others."""
    one = jnp.ones((), out.dtype)
    first, among = jnp.where(is_part & (start != 0), start, one), jnp.where(values == 0, one, values)
    zeros = put_axis((is_part & (start == 0)).astype(np.int32), flat, values == 0, 0, "add")
    rest = put_axis(_still(first), flat, _still(among), 0, "multiply")

    def slope(x, factor, out, rest, zeros):
        found = jnp.where(x == 0, jnp.where(zeros == 1, rest, 0 * one), out / factor)
        return jnp.conj(found) if jnp.issubdtype(found.dtype, jnp.complexfloating) else found

    there = [take_axis(a, flat) for a in (out, rest, zeros)]
    return g * slope(start, first, out, rest, zeros), take_axis(g, flat) * slope(values, among, *there)


_still = dual(lambda x: x)(lax.stop_gradient)


_REDUCTIONS = {
    "assign": "assign",
    "add": "add",
    "mean": "mean",
    "mul": "mul",
    "multiply": "mul",
    "amin": "amin",
    "amax": "amax",
}


def _put(
    name: str, arr: Tensor, indices: Tensor, values: Any, axis: int, reduce: str, include_self: bool, broadcast: bool
) -> Tensor:
    """What all functions below do; `name` is that of the function and of its arguments for indices and values."""
    name, of_indices, of_values = name.split()
    where = f"{name}({of_indices})"
    if reduce not in _REDUCTIONS:
        raise errors.bad(f"{name}(reduce)", f"one of {', '.join(map(repr, _REDUCTIONS))}", reduce)
    reduce = _REDUCTIONS[reduce]
    if not arr.ndim:
        raise errors.bad(f"{name}()", "a tensor with at least 1 dimension", arr, kind=errors.ArgumentError)
    if (arr.dtype.is_complex and reduce in ("amin", "amax")) or (arr.dtype is dtypes.bool_ and reduce != "assign"):
        raise errors.bad(
            f"{name}(reduce)", f"a reduction that supports {arr.dtype.name}", reduce, kind=errors.ArgumentTypeError
        )
    needs_integers(where, indices)
    if indices.ndim != arr.ndim:
        raise errors.bad(
            where,
            f"{arr.ndim} dimensions, as the tensor written to has",
            described=f"shape {indices.shape}",
            kind=errors.ShapeError,
        )
    if isinstance(values, Tensor) and values.dtype is not arr.dtype:
        raise errors.bad(
            f"{name}({of_values})",
            f"the dtype of the tensor written to, {arr.dtype.name}",
            described=values.dtype.name,
            kind=errors.DtypeError,
        )
    values = value_like(arr, values)
    # Paddle's rule: an index longer than the axis stays as it is
    wide = broadcast and indices.shape[axis] <= arr.shape[axis]
    wanted = [indices.shape[k] if k == axis or not wide else n for k, n in enumerate(arr.shape)]
    for k, (n, i) in enumerate(zip(arr.shape, indices.shape)):
        if k != axis and (i not in (1, n) if wide else i > n):
            raise errors.bad(
                where,
                f"a shape compatible with {arr.shape} along all axes but {axis}",
                described=f"shape {indices.shape}",
                kind=errors.ShapeError,
            )
    if not broadcast and values.ndim:
        if values.ndim != arr.ndim or any(v < i for v, i in zip(values.shape, wanted)):
            raise errors.bad(
                f"{name}({of_values})",
                f"a value for each index of shape {wanted}",
                described=f"shape {values.shape}",
                kind=errors.ShapeError,
            )
        if values.shape != wanted:
            values = values[tuple(slice(0, i) for i in wanted)]
    check_range(where, indices, -arr.shape[axis], arr.shape[axis])
    check_filled(where, arr.shape[axis], indices)
    indices, values = [t if t.shape == wanted else shapes.expand(t, wanted) for t in (indices, values)]
    operator = put_along if reduce in ("assign", "add", "mean") else fold_along
    return operator(arr, indices, values, axis, reduce, include_self)


@composite(method=True, inplace=True, name_arg=False, amp="one")
def put_along_axis(arr: Tensor, indices: Tensor, values: Attr[Tensor | float], axis: Axis, reduce: str = "assign",
                   include_self: bool = True, broadcast: bool = True) -> Tensor:  # fmt: skip
    """Write values along an axis at indices of the same rank, or combine them with what is there.

    For a matrix and ``axis=1``: ``out[i, indices[i, j]] = values[i, j]``.

    Args:
        arr: Tensor with at least one axis.
        indices: Integer tensor with as many axes as ``arr``; negative indices count from the end.
        values: Tensor of the dtype of ``arr``, or a number.
        axis: Axis to write along.
        reduce: ``'assign'`` (the last value stays where indices repeat), ``'add'``, ``'mul'`` or ``'multiply'``,
            ``'mean'``, ``'amin'`` or ``'amax'``. Default: ``'assign'``.
        include_self: Whether the elements of ``arr`` take part in a reduction. Default: True.
        broadcast: Whether the other axes of ``indices`` and ``values`` are broadcast to those of ``arr``. If not,
            ``indices`` may be smaller than ``arr``, and ``values`` larger than ``indices``. Default: True.

    Returns:
        Tensor of the shape and dtype of ``arr``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> bireme.put_along_axis(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1], [0]]), 9, 1).tolist()
        [[1, 9], [9, 4]]
    """
    return _put("put_along_axis indices values", arr, indices, values, axis, reduce, include_self, broadcast)


@composite(method=True, inplace=True, name_arg=False)
def scatter_add(input: Tensor, dim: Axis, index: Tensor, src: Attr[Tensor]) -> Tensor:
    """Add elements along an axis at indices of the same rank; where indices repeat, all are added.

    For a matrix and ``dim=1``: ``out[i, index[i, j]] += src[i, j]``.

    Args:
        input: Tensor with at least one axis.
        dim: Axis to add along.
        index: Integer tensor with as many axes as ``input``, not larger than ``src``, nor than ``input`` except along
            ``dim``.
        src: Tensor of the dtype of ``input``, or a number; what it has beyond ``index`` is not used.

    Returns:
        Tensor of the shape and dtype of ``input``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> x, src = bireme.to_tensor([1, 2]), bireme.to_tensor([10, 20])
        >>> bireme.scatter_add(x, 0, bireme.to_tensor([1, 1]), src).tolist()
        [1, 32]
    """
    return _put("scatter_add index src", input, index, src, dim, "add", True, False)


@composite(method=True, name_arg=False)
def scatter_reduce(input: Tensor, dim: Axis, index: Tensor, src: Attr[Tensor], reduce: str, *,
                   include_self: bool = True) -> Tensor:  # fmt: skip
    """Combine elements along an axis at indices of the same rank by a reduction.

    Args:
        input: Tensor with at least one axis.
        dim: Axis to reduce along.
        index: Integer tensor with as many axes as ``input``, not larger than ``src``, nor than ``input`` except along
            ``dim``.
        src: Tensor of the dtype of ``input``, or a number; what it has beyond ``index`` is not used.
        reduce: ``'sum'``, ``'prod'``, ``'mean'``, ``'amin'`` or ``'amax'``.
        include_self: Whether the elements of ``input`` take part in the reduction. Default: True.

    Returns:
        Tensor of the shape and dtype of ``input``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> x, src = bireme.to_tensor([1, 2]), bireme.to_tensor([5, 9])
        >>> bireme.scatter_reduce(x, 0, bireme.to_tensor([1, 1]), src, "amax").tolist()
        [1, 9]
    """
    reduce = {"sum": "add", "prod": "mul"}.get(reduce, reduce)
    return _put("scatter_reduce index src", input, index, src, dim, reduce, include_self, False)
