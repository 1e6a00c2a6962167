"""Reading by tensors of indices: gather, take and their kin."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.declare.conversion import check_range
from bireme.core.declare.op import Axis, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.ops.indexing.along_axis import (
    add_at,
    add_rows,
    along,
    check_columns,
    check_filled,
    combined,
    from_front,
    into_zeros,
    needs_integers,
    put_axis,
    take_axis,
)
from bireme.ops.indexing.getitem import pick
from bireme.ops.manipulation import reshape

# ---------------------------------------------------------------- slices along an axis


@op(method=True, alias={"x": "input", "axis": "dim"}, out=True,
    numpy=lambda x, index, axis: x.take(_line(index), axis, None, "wrap"), kernels="gather")  # fmt: skip
def index_select(x: Tensor, index: Tensor, axis: Axis = 0) -> Tensor:
    """Select slices along an axis by a vector of indices.

    Args:
        x: Tensor with at least one axis.
        index: Integer tensor of at most one axis (or of shape ``[n, 1]``); negative indices count from the end.
        axis: Axis to select along. Default: 0. The order ``(x, axis, index)`` is taken too.

    Returns:
        Copy of the slices in the order of ``index``; ``axis`` has its size, or is removed if ``index`` is 0-D.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> bireme.index_select(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([1, 0])).tolist()
        [[3, 4], [1, 2]]
    """
    return take_axis(x, from_front(_line(index), x.shape[axis]), axis)


def _line(index):
    """A column of indices as the vector that it stands for."""
    return index.reshape(-1) if index.ndim == 2 else index


@index_select.prepare(sizes=False)
def _(arguments):
    if isinstance(arguments["index"], int) and isinstance(arguments["axis"], Tensor):  # torch's order: (dim, index)
        arguments["index"], arguments["axis"] = arguments["axis"], arguments["index"]


@index_select.check
def _(x, index, axis):
    needs_integers("index_select(index)", index)
    if index.ndim > 2 or (index.ndim == 2 and index.shape[1] != 1):
        raise errors.bad(
            "index_select(index)", "a 1-D tensor", described=f"shape {list(index.shape)}", kind=errors.ShapeError
        )
    if x.ndim == 0:
        raise errors.bad(
            "index_select(x)",
            "a tensor with at least 1 dimension",
            described="a 0-D tensor",
            kind=errors.OutOfRangeError,
        )
    check_filled("index_select(index)", x.shape[axis], index)


index_select.index(lambda s: [("index", -s["x"].shape[s["axis"]], s["x"].shape[s["axis"]])] if s["x"].ndim else [])
index_select.infer(lambda x, index, axis: sig_of((*x.shape[:axis], *index.shape[:1], *x.shape[axis + 1 :]), x.dtype))


def _select_grad(g, index, axis, sigs, add):
    dims = sigs[0].shape
    return add(jnp.zeros(dims, g.dtype), from_front(_line(index), dims[axis]), g, axis), None


_select_grad_by_axis = on_numpy(_select_grad)


def _select_grad_numpy(g, index, axis, sigs):
    if axis == 0 and index.ndim == 1:
        return into_zeros(sigs[0], index, g), None
    return _select_grad_by_axis(g, index, axis, sigs, add_at)


@index_select.grad(numpy=_select_grad_numpy)
def _(g, index, axis, sigs):
    return _select_grad(g, index, axis, sigs, add_at)


@index_select.grad(on="cpu", mesh=False)
def _(g, index, axis, sigs):
    return _select_grad(g, index, axis, sigs, add_rows)


@composite(method=True, plain=True)
def gather(x: Tensor, index: Tensor, axis: Axis = None) -> Tensor:
    """Gather slices along an axis by indices.

    Args:
        x: Tensor with at least one axis.
        index: Integer tensor of at most one axis (or of shape ``[n, 1]``); negative indices count from the end.
        axis: Axis to gather along; ``None`` means 0. Default: None.

    Returns:
        Copy of the slices in the order of ``index``; without ``axis`` if ``index`` is 0-D.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> bireme.gather(bireme.to_tensor([5, 6, 7]), bireme.to_tensor([2, 0])).tolist()
        [7, 5]
    """
    if index.ndim == 2 and index.shape[1] == 1:
        index = reshape.reshape(index, [-1])
    return index_select(x, index, 0 if axis is None else axis)


@op(internal="gather_nd", numpy=True)
def gather_nd_of(x: Tensor, index: Tensor) -> Tensor:
    """Elements or slices whose indices along the first axes are rows of an index; use `gather_nd`."""
    k = index.shape[-1]
    if not k:
        return jnp.broadcast_to(x, (*index.shape[:-1], *x.shape))
    return take_axis(x.reshape((math.prod(x.shape[:k]), *x.shape[k:])), row_places(x.shape[:k], index))


def row_places(dims, index):
    """Rows of an index as flat indices into the axes that they refer to."""
    return combined(dims, [index[..., i] for i in range(len(dims))])


gather_nd_of.infer(lambda x, index: sig_of((*index.shape[:-1], *x.shape[index.shape[-1] :]), x.dtype))


@gather_nd_of.grad(numpy=True)
def _(g, index, sigs):
    return _gather_nd_grad(g, index, sigs, add_at)


@gather_nd_of.grad(on="cpu", mesh=False)
def _(g, index, sigs):
    return _gather_nd_grad(g, index, sigs, add_rows)


def _gather_nd_grad(g, index, sigs, add):
    dims, k = sigs[0].shape, index.shape[-1]
    if not k:
        return g.sum(axis=tuple(range(index.ndim - 1))), None
    zero = jnp.zeros((math.prod(dims[:k]), *dims[k:]), g.dtype)
    return add(zero, row_places(dims[:k], index), g, 0).reshape(dims), None


@composite(method=True)
def gather_nd(x: Tensor, index: Tensor) -> Tensor:
    """Gather elements or slices by multi-dimensional indices.

    Args:
        x: Input tensor of any dtype.
        index: Integer tensor; each vector along its last axis, of size ``k``, holds indices into the first ``k`` axes
            of ``x``. Negative ones count from the end.

    Returns:
        Tensor of shape ``index.shape[:-1] + x.shape[k:]``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> bireme.gather_nd(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1, 0], [0, 1]])).tolist()
        [3, 2]
    """
    check_rows("gather_nd", x.shape, index)
    return gather_nd_of(x, index)


def check_rows(name: str, dims: list[int], index: Tensor) -> None:
    """Raise for an index whose rows are no indices into a tensor of a shape."""
    needs_integers(f"{name}(index)", index)
    if not index.ndim or index.shape[-1] > len(dims):
        raise errors.bad(
            f"{name}(index)",
            f"a last dimension of at most {len(dims)}, the number of dimensions of x",
            described=f"shape {index.shape}",
            kind=errors.ShapeError,
        )
    for k in range(index.shape[-1]):
        check_filled(f"{name}(index)", dims[k], index)
    check_columns(f"{name}(index)", index, dims[: index.shape[-1]])


# ---------------------------------------------------------------- elements along an axis


def _take_along_numpy(arr, indices, axis, broadcast):
    indices = np.broadcast_to(indices, _matched(arr.shape, indices.shape, axis, broadcast))
    ends = [(-1,) + (1,) * (indices.ndim - k - 1) for k in range(indices.ndim)]
    others = [
        0 if arr.shape[k] == 1 else np.arange(n).reshape(end) for k, (n, end) in enumerate(zip(indices.shape, ends))
    ]
    return arr[(*others[:axis], indices, *others[axis + 1 :])]


@op(alias={"arr": "input", "axis": "dim"}, name_arg=False, out=True, method=True, numpy=_take_along_numpy)
def take_along_axis(arr: Tensor, indices: Tensor, axis: Axis, broadcast: bool = True) -> Tensor:
    """Take elements along an axis by indices of the same rank, as ``argsort`` and ``argmax`` with ``keepdim`` return.

    For a matrix and ``axis=1``: ``out[i, j] = arr[i, indices[i, j]]``.

    Args:
        arr: Tensor with at least one axis.
        indices: Integer tensor with as many axes as ``arr``; negative indices count from the end.
        axis: Axis to take along.
        broadcast: Whether the other axes of ``indices`` are broadcast to those of ``arr``. If not, they may be smaller
            than those of ``arr``, whose first elements are matched. Default: True.

    Returns:
        Tensor of the broadcast shape of ``indices`` and the dtype of ``arr``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> bireme.take_along_axis(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1], [0]]), 1).tolist()
        [[2], [3]]
    """
    indices = jnp.broadcast_to(indices, _matched(arr.shape, indices.shape, axis, broadcast))
    return take_axis(arr.reshape(-1), along(arr.shape, indices, axis))


def _matched(dims, wanted, axis, broadcast):
    """The shape of what is taken; the sizes fit each other."""
    return tuple(a if broadcast and k != axis and i == 1 else i for k, (a, i) in enumerate(zip(dims, wanted)))


@take_along_axis.check
def _(arr, indices, axis, broadcast):
    if arr.ndim != indices.ndim:
        raise errors.bad(
            "take_along_axis(indices)",
            f"{arr.ndim} dimensions, as arr has",
            described=f"shape {list(indices.shape)}",
            kind=errors.ShapeError,
        )
    needs_integers("take_along_axis(indices)", indices)
    if not arr.ndim:
        raise errors.bad(
            "take_along_axis(arr)",
            "a tensor with at least 1 dimension",
            described="a 0-D tensor",
            kind=errors.ArgumentError,
        )
    check_filled("take_along_axis(indices)", arr.shape[axis], indices)
    for k, (a, i) in enumerate(zip(arr.shape, indices.shape)):
        if k != axis and not (i in (1, a) or a == 1 if broadcast else i <= a):
            wanted = (
                f"sizes that broadcast with arr's {list(arr.shape)}"
                if broadcast
                else f"sizes of at most arr's {list(arr.shape)}"
            )
            raise errors.bad(
                "take_along_axis(indices)",
                f"{wanted} except along axis {axis}",
                described=f"shape {list(indices.shape)}",
                kind=errors.ShapeError,
            )


take_along_axis.index(
    lambda s: [("indices", -s["arr"].shape[s["axis"]], s["arr"].shape[s["axis"]])] if s["arr"].ndim else []
)
take_along_axis.infer(
    lambda arr, indices, axis, broadcast: sig_of(_matched(arr.shape, indices.shape, axis, broadcast), arr.dtype)
)


@take_along_axis.grad(numpy=True)
def _(g, indices, axis, broadcast, sigs):
    dims = sigs[0].shape
    indices = jnp.broadcast_to(indices, g.shape)
    return put_axis(jnp.zeros(math.prod(dims), g.dtype), along(dims, indices, axis), g, 0, "add").reshape(dims), None


@composite(alias={"arr": "input", "axis": "dim"}, name_arg=False, out=True, method=True)
def take_along_dim(arr: Tensor, indices: Tensor, axis: Axis, broadcast: bool = True) -> Tensor:
    """Take elements along an axis by indices: another name of ``take_along_axis``.

    Args:
        arr: Tensor with at least one axis.
        indices: Integer tensor with as many axes as ``arr``; negative indices count from the end.
        axis: Axis to take along.
        broadcast: Whether the other axes of ``indices`` are broadcast to those of ``arr``. Default: True.

    Returns:
        Tensor of the broadcast shape of ``indices`` and the dtype of ``arr``.

    Examples:
        >>> bireme.take_along_dim(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1], [0]]), 1).tolist()
        [[2], [3]]
    """
    return take_along_axis(arr, indices, axis, broadcast)


@composite(method=True, name_arg=False)
def index_sample(x: Tensor, index: Tensor) -> Tensor:
    """Take elements of each row of a matrix by the indices in the same row.

    Args:
        x: Matrix.
        index: Integer matrix with as many rows as ``x``, of non-negative indices into its columns.

    Returns:
        Tensor of the shape of ``index``: ``out[i, j] = x[i, index[i, j]]``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> bireme.index_sample(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1], [0]])).tolist()
        [[2], [3]]
    """
    if x.ndim != 2:
        raise errors.bad("index_sample(x)", "a matrix", x)
    if index.ndim != 2 or index.shape[0] != x.shape[0]:
        raise errors.bad("index_sample(index)", f"a matrix with {x.shape[0]} rows to match x", index)
    needs_integers("index_sample(index)", index)
    check_range("index_sample(index)", index, 0, x.shape[1])
    return take_along_axis(x, index, 1)


# ---------------------------------------------------------------- elements of the flattened tensor


@composite(method=True)
def take(x: Tensor, index: Tensor, mode: str = "raise") -> Tensor:
    """Take elements of the flattened tensor by indices.

    Args:
        x: Input tensor of any dtype.
        index: Integer tensor of any shape.
        mode: What happens to indices out of range: ``'raise'`` an error (negative ones down to ``-n`` count from the
            end), ``'wrap'`` them modulo the number of elements, or ``'clip'`` them to the first or last element.
            Default: ``'raise'``.

    Returns:
        Tensor of the shape of ``index`` and the dtype of ``x``.

    Raises:
        IndexError: If an index is out of range and ``mode`` is ``'raise'``.

    Examples:
        >>> bireme.take(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([3, -3])).tolist()
        [4, 2]
    """
    if mode not in ("raise", "wrap", "clip"):
        raise errors.bad("take(mode)", "'raise', 'wrap' or 'clip'", mode)
    needs_integers("take(index)", index)
    n = x._value.sig.size
    check_filled("take(index)", n, index)
    if mode == "raise":
        check_range("take(index)", index, -n, n)
    elif n:
        index = index.astype("int64")
        index = index % n if mode == "wrap" else index.clip(0, n - 1)
    return pick.call({"x": reshape.reshape(x, [-1]), "index": [index], "axes": (0,)})
