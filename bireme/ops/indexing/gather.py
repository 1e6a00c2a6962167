"""Reading by tensors of indices: gather, take and their kin."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.declare.conversion import check_range
from bireme.core.declare.op import Axis, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.indexing.along_axis import add_rows, along, check_columns, check_filled, combined, from_front, put_axis, take_axis
from bireme.ops.indexing.getitem import pick
from bireme.ops.manipulation import reshape

# ---------------------------------------------------------------- slices along an axis


@op(method=True, alias={"x": "input", "axis": "dim"}, out=True, numpy=lambda x, index, axis: x.take(index, axis, None, "wrap"))
def index_select(x: Tensor, index: Tensor, axis: Axis = 0) -> Tensor:
    """Slices of `x` along `axis`, in the order of a 1-D index.

    >>> bireme.index_select(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([1, 0])).tolist()
    [[3, 4], [1, 2]]
    """
    return take_axis(x, from_front(index, x.shape[axis]), axis)


@index_select.prepare
def _(arguments):
    if isinstance(arguments["index"], int) and isinstance(arguments["axis"], Tensor):  # torch's order: (dim, index)
        arguments["index"], arguments["axis"] = arguments["axis"], arguments["index"]
    index = arguments["index"]
    if isinstance(index, Tensor) and index.ndim == 2 and index.shape[1] == 1:
        arguments["index"] = reshape.reshape(index, [-1])


@index_select.check
def _(x, index, axis):
    if index.ndim > 1 or index.dtype.kind != "i":
        raise errors.bad(
            "index_select(index)", "a 1-D integer tensor", described=f"shape {list(index.shape)}, {index.dtype.name}", kind=errors.ShapeError
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
index_select.infer(lambda x, index, axis: sig_of((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype))


@index_select.grad(numpy=True)
def _(g, index, axis, sigs, platform):
    dims = sigs[0].shape
    return add_rows(jnp.zeros(dims, sigs[0].dtype.np), from_front(index, dims[axis]), g, axis, platform), None


@composite(method=True, plain=True)
def gather(x: Tensor, index: Tensor, axis: Axis = None) -> Tensor:
    """Slices of `x` along `axis`, in the order of a 0-D or 1-D index.

    >>> bireme.gather(bireme.to_tensor([5, 6, 7]), bireme.to_tensor([2, 0])).tolist()
    [7, 5]
    """
    if index.ndim == 2 and index.shape[1] == 1:
        index = reshape.reshape(index, [-1])
    return index_select(x, index, 0 if axis is None else axis)


@op(numpy=True)
def gather_nd_of(x: Tensor, index: Tensor) -> Tensor:
    """Elements or slices whose places along the first axes are rows of an index; use `gather_nd`.

    >>> bireme.gather_nd(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1, 0], [0, 1]])).tolist()
    [3, 2]
    """
    k = index.shape[-1]
    if not k:
        return jnp.broadcast_to(x, (*index.shape[:-1], *x.shape))
    return take_axis(x.reshape((math.prod(x.shape[:k]), *x.shape[k:])), row_places(x.shape[:k], index))


def row_places(dims, index):
    """Rows of an index as places along the axes that they count in, taken as one."""
    return combined(dims, [index[..., i] for i in range(len(dims))])


gather_nd_of.infer(lambda x, index: sig_of((*index.shape[:-1], *x.shape[index.shape[-1] :]), x.dtype))


@gather_nd_of.grad(numpy=True)
def _(g, index, sigs, platform):
    dims, k = sigs[0].shape, index.shape[-1]
    if not k:
        return g.sum(axis=tuple(range(index.ndim - 1))), None
    zero = jnp.zeros((math.prod(dims[:k]), *dims[k:]), sigs[0].dtype.np)
    return add_rows(zero, row_places(dims[:k], index), g, 0, platform).reshape(dims), None


@composite(method=True)
def gather_nd(x: Tensor, index: Tensor) -> Tensor:
    """Elements or slices of `x`: the last axis of `index` has their places along x's first axes.

    >>> bireme.gather_nd(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1, 0], [0, 1]])).tolist()
    [3, 2]
    """
    check_rows("gather_nd", x.shape, index)
    return gather_nd_of(x, index)


def check_rows(name: str, dims: list[int], index: Tensor) -> None:
    """Raise for an index whose rows are no places in a tensor of a shape."""
    if index.dtype.kind != "i":
        raise errors.bad(f"{name}(index)", "an integer tensor", described=index.dtype.name, kind=errors.DtypeError)
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
    others = [0 if arr.shape[k] == 1 else np.arange(n).reshape(end) for k, (n, end) in enumerate(zip(indices.shape, ends))]
    return arr[(*others[:axis], indices, *others[axis + 1 :])]


@op(alias={"arr": "input", "axis": "dim"}, name_arg=False, out=True, method=True, numpy=_take_along_numpy)
def take_along_axis(arr: Tensor, indices: Tensor, axis: Axis, broadcast: bool = True) -> Tensor:
    """Elements of `arr` at `indices` along `axis`; other axes are matched, by broadcasting or else from the front.

    >>> bireme.take_along_axis(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1], [0]]), 1).tolist()
    [[2], [3]]
    """
    indices = jnp.broadcast_to(indices, _matched(arr.shape, indices.shape, axis, broadcast))
    return take_axis(arr.reshape(-1), along(arr.shape, indices, axis))


def _matched(dims, wanted, axis, broadcast):
    """The shape of what is taken; the extents fit each other."""
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
    if indices.dtype.kind != "i":
        raise errors.bad("take_along_axis(indices)", "an integer tensor", described=indices.dtype.name, kind=errors.DtypeError)
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
                "take_along_axis(indices)", f"{wanted} except along axis {axis}", described=f"shape {list(indices.shape)}", kind=errors.ShapeError
            )


take_along_axis.index(lambda s: [("indices", -s["arr"].shape[s["axis"]], s["arr"].shape[s["axis"]])] if s["arr"].ndim else [])
take_along_axis.infer(lambda arr, indices, axis, broadcast: sig_of(_matched(arr.shape, indices.shape, axis, broadcast), arr.dtype))


@take_along_axis.grad(numpy=True)
def _(g, indices, axis, broadcast, sigs):
    dims = sigs[0].shape
    indices = jnp.broadcast_to(indices, g.shape)
    return put_axis(jnp.zeros(math.prod(dims), g.dtype), along(dims, indices, axis), g, 0, "add").reshape(dims), None


@composite(alias={"arr": "input", "axis": "dim"}, name_arg=False, out=True, method=True)
def take_along_dim(arr: Tensor, indices: Tensor, axis: Axis, broadcast: bool = True) -> Tensor:
    """Elements of `arr` at `indices` along `axis`: `take_along_axis` under its other name.

    >>> bireme.take_along_dim(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1], [0]]), 1).tolist()
    [[2], [3]]
    """
    return take_along_axis(arr, indices, axis, broadcast)


@composite(method=True, name_arg=False)
def index_sample(x: Tensor, index: Tensor) -> Tensor:
    """Elements of each row of a matrix at the places in the same row of `index`.

    >>> bireme.index_sample(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1], [0]])).tolist()
    [[2], [3]]
    """
    if x.ndim != 2:
        raise errors.bad("index_sample(x)", "a matrix", x)
    if index.ndim != 2 or index.shape[0] != x.shape[0]:
        raise errors.bad("index_sample(index)", f"a matrix with {x.shape[0]} rows to match x", index)
    if index.dtype.kind != "i":
        raise errors.bad("index_sample(index)", "an integer tensor", described=index.dtype.name, kind=errors.DtypeError)
    check_range("index_sample(index)", index, 0, x.shape[1])
    return take_along_axis(x, index, 1)


# ---------------------------------------------------------------- elements of the flattened tensor


@composite(method=True)
def take(x: Tensor, index: Tensor, mode: str = "raise") -> Tensor:
    """Elements of `x`, flattened, in the shape of `index`; `mode` says what is done with places outside: "raise", "wrap", "clip".

    >>> bireme.take(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([3, -3])).tolist()
    [4, 2]
    """
    if mode not in ("raise", "wrap", "clip"):
        raise errors.bad("take(mode)", "'raise', 'wrap' or 'clip'", mode)
    if index.dtype.kind != "i":
        raise errors.bad("take(index)", "an integer tensor", described=index.dtype.name, kind=errors.DtypeError)
    n = x._value.sig.size
    check_filled("take(index)", n, index)
    if mode == "raise":
        check_range("take(index)", index, -n, n)
    elif n:
        index = index.astype("int64")
        index = index % n if mode == "wrap" else index.clip(0, n - 1)
    return pick.call({"x": reshape.reshape(x, [-1]), "index": [index], "axes": (0,)})
