"""Shapes of sparse tensors: reshaping, transposing, slicing, sums over axes, and selection by a pattern."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bireme import ops
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.dtype import DTypeLike
from bireme.core.base.keywords import renamed
from bireme.core.declare.conversion import ints, one_axis
from bireme.core.tensor.tensor import Tensor
from bireme.sparse.binary import same_form
from bireme.sparse.creation import dense, sparse
from bireme.sparse.pattern import Coo, owned
from bireme.sparse.tensor import SparseCooTensor, SparseCsrTensor, SparseTensor, summed, values_at


def _sorted_form(x: SparseTensor, pattern: Coo, values: Tensor) -> SparseTensor:
    """In the form of `x`: CSR needs its elements in order."""
    if not isinstance(x, SparseCsrTensor):
        return SparseCooTensor(pattern, values)
    merged, place = pattern.merged()
    return same_form(x, merged, values if place is None else summed(values, place, merged.nnz))


def coalesce(x: SparseCooTensor, name: str | None = None) -> SparseCooTensor:
    """Sort the indices of a sparse COO tensor, and add up values of the same index.

    Args:
        x: Sparse COO tensor.
        name: Has no effect.

    Returns:
        Sparse COO tensor; ``x`` itself if it is so already.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[2, 0, 2]], [1.0, 2.0, 4.0], [4])
        >>> y = bireme.sparse.coalesce(x)
        >>> y.indices().tolist(), y.values().tolist()
        ([[0, 2]], [2.0, 5.0])
    """
    return sparse("coalesce(x)", x, SparseCooTensor).coalesce()


def is_same_shape(x: Tensor, y: Tensor) -> bool:
    """Tell whether two tensors, sparse or dense, have the same shape.

    Args:
        x: A tensor.
        y: Another one.

    Returns:
        True or False.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 2]], [1.0, 2.0], [4])
        >>> bireme.sparse.is_same_shape(x, bireme.ones([4]))
        True
    """
    for name, t in (("x", x), ("y", y)):
        if not isinstance(t, Tensor):
            raise errors.bad(f"is_same_shape({name})", "a Tensor", t, kind=errors.ArgumentTypeError)
    return x.shape == y.shape


def mask_as(x: Tensor, mask: SparseTensor, name: str | None = None) -> SparseTensor:
    """Take those elements of a dense tensor that a sparse one stores.

    Args:
        x: Dense tensor.
        mask: Sparse tensor of the same shape, COO or CSR; its values are not used.
        name: Has no effect.

    Returns:
        Sparse tensor of the pattern of ``mask``.

    Raises:
        ValueError: If the shapes differ.

    Examples:
        >>> mask = bireme.sparse.sparse_coo_tensor([[0, 2]], [1.0, 1.0], [3])
        >>> bireme.sparse.mask_as(bireme.to_tensor([5.0, 6.0, 7.0]), mask).values().tolist()
        [5.0, 7.0]
    """
    dense("mask_as(x)", x)
    sparse("mask_as(mask)", mask)
    if x.shape != mask.shape:
        raise errors.bad(
            "mask_as(mask)", f"shape {x.shape}, as x has", described=f"shape {mask.shape}", kind=errors.ShapeError
        )
    return mask.with_values(values_at(x, mask._coo()))


def transpose(x: SparseTensor, perm: Sequence[int], name: str | None = None) -> SparseTensor:
    """Permute the axes of a sparse tensor.

    Args:
        x: Sparse tensor, COO or CSR.
        perm: The axes in their new order. Dense axes have to stay behind the sparse ones.
        name: Has no effect.

    Returns:
        Sparse tensor of the form of ``x``. The values of a COO tensor keep their order.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0], [2, 3])
        >>> bireme.sparse.transpose(x, [1, 0]).indices().tolist()
        [[2, 0], [0, 1]]
    """
    sparse("transpose(x)", x)
    given = ints(perm, 0, "transpose(perm)") or ()
    order = [one_axis(axis, x.ndim, "transpose(perm)") for axis in given]
    if sorted(order) != list(range(x.ndim)):
        raise errors.bad("transpose(perm)", f"each of the {x.ndim} axes once", list(given))
    axes = x.sparse_dim()
    if sorted(order[:axes]) != list(range(axes)):
        raise errors.bad("transpose(perm)", f"the {axes} sparse axes before the dense ones", list(given))
    values = x._values
    if order[axes:] != list(range(axes, x.ndim)):
        values = ops.transpose(values, [0, *[axis - axes + 1 for axis in order[axes:]]])
    if order[:axes] == list(range(axes)):
        return x.with_values(values)
    coo = x._coo()
    host = np.stack(coo.axes())[order[:axes]].astype(coo.dtype)
    return _sorted_form(x, Coo([coo.dims[axis] for axis in order[:axes]], owned(host)), values)


@renamed(x="input")
def reshape(x: SparseTensor, shape: Sequence[int], name: str | None = None) -> SparseTensor:
    """Change the shape of a sparse tensor.

    Args:
        x: Sparse tensor, COO or CSR. Also named ``input``.
        shape: New shape; ``-1`` stands for the size that fits, 0 for that of the same axis of ``x``, if it has
            elements. Dense axes have to stay the last ones.
        name: Has no effect.

    Returns:
        Sparse tensor of the form of ``x``; CSR needs 2 or 3 axes.

    Raises:
        ValueError: If the number of elements differs.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0], [2, 3])
        >>> y = bireme.sparse.reshape(x, [3, -1])
        >>> y.shape, y.indices().tolist()
        ([3, 2], [[1, 1], [0, 1]])
    """
    sparse("reshape(x)", x)
    wanted = list(ints(shape, 0, "reshape(shape)") or ())
    # without elements, 0 is a size, as in reshape of dense tensors
    dims = [x.shape[i] if n == 0 and i < x.ndim and x.size else n for i, n in enumerate(wanted)]
    if dims.count(-1) == 1:
        known = math.prod(n for n in dims if n != -1)
        dims[dims.index(-1)] = x.size // known if known else 0
    if math.prod(dims) != x.size or any(n < 0 for n in dims):
        raise errors.bad(
            "reshape(shape)", f"a shape of {x.size} elements, as x of shape {x.shape} has", wanted, kind=errors.ShapeError
        )  # fmt: skip
    tail = x._values.shape[1:]
    front = dims[: len(dims) - len(tail)]
    if dims[len(front) :] != tail or not front:
        raise errors.bad(
            "reshape(shape)", f"a shape that ends with the dense axes {tail}", wanted, kind=errors.ShapeError
        )
    if isinstance(x, SparseCsrTensor) and len(front) not in (2, 3):
        raise errors.bad(
            "reshape(shape)", "2 or 3 sizes, since x is a sparse CSR tensor", wanted, kind=errors.ShapeError
        )
    coo = x._coo()
    return same_form(x, coo.like(coo.keys, front, coo.coalesced), x._values)


def slice(
    x: SparseTensor,
    axes: Sequence[int] | Tensor,
    starts: Sequence[int] | Tensor,
    ends: Sequence[int] | Tensor,
    name: str | None = None,
) -> SparseTensor:
    """Take a block out of a sparse tensor.

    Args:
        x: Sparse tensor, COO or CSR.
        axes: Axes that are cut.
        starts: First index along each of them; negative ones count from the end.
        ends: Index after the last one along each of them, the same; beyond the end means the end.
        name: Has no effect.

    Returns:
        Sparse tensor of the form of ``x``.

    Raises:
        ValueError: If the three differ in length.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 1, 2], [1, 2, 0]], [1.0, 2.0, 3.0], [3, 3])
        >>> bireme.sparse.slice(x, [0, 1], [0, 1], [2, 3]).to_dense().tolist()
        [[1.0, 0.0], [0.0, 2.0]]
    """
    sparse("slice(x)", x)
    cut, first, last = (
        list(ints(given, 0, f"slice({name})") or ())
        for name, given in (("axes", axes), ("starts", starts), ("ends", ends))
    )
    if not len(cut) == len(first) == len(last):
        raise errors.bad(
            "slice(starts)", f"{len(cut)} starts and ends, as axes", described=f"{len(first)} and {len(last)}"
        )
    bounds = [(0, n) for n in x.shape]
    for axis, start, end in zip(cut, first, last):
        at = one_axis(axis, x.ndim, "slice(axes)")
        n = x.shape[at]
        low, high = (min(max(i + n if i < 0 else i, 0), n) for i in (start, end))
        bounds[at] = (low, max(high, low))
    coo = x._coo()
    sizes = [high - low for low, high in bounds]
    kept, keys = np.ones(coo.nnz, bool), np.zeros(coo.nnz, np.int64)
    for index, (low, high) in zip(coo.axes(), bounds):
        kept &= (index >= low) & (index < high)
        keys = keys * (high - low) + (index - low)
    values = ops.index_select(x._values, owned(np.flatnonzero(kept)))
    behind = len(coo.dims)
    parts = [k for k in range(behind, x.ndim) if bounds[k] != (0, x.shape[k])]
    if parts:
        where = [[k - behind + 1 for k in parts], [bounds[k][0] for k in parts], [bounds[k][1] for k in parts]]
        values = ops.slice(values, *where)
    return same_form(x, coo.like(keys[kept], sizes[:behind], coo.coalesced), values)


def sum(
    x: SparseTensor,
    axis: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    keepdim: bool = False,
    name: str | None = None,
) -> SparseTensor:
    """Sum a sparse tensor over axes, or over all elements.

    Args:
        x: Sparse tensor, COO or CSR.
        axis: Axis or axes to sum over. Default: None, all of them.
        dtype: Dtype of the result. Default: None, that of ``x``, and int64 for int32 and bool.
        keepdim: Whether summed axes stay with size 1. Those of a CSR tensor always do. Default: False.
        name: Has no effect.

    Returns:
        Sparse tensor of the form of ``x``. One axis at least is left: the sum of all elements has shape ``[1]``, that of a
        CSR tensor ``[1, 1]``.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 0, 2], [0, 1, 2]], [1.0, 2.0, 3.0], [3, 3])
        >>> bireme.sparse.sum(x, axis=1).to_dense().tolist()
        [3.0, 0.0, 3.0]
    """
    sparse("sum(x)", x)
    values = x._values
    if dtype is not None or values.dtype.name in ("bool", "int32"):
        values = ops.cast(values, "int64" if dtype is None else dtype)
    given = range(x.ndim) if axis is None else (ints(axis, 0, "sum(axis)") or ())
    over = {one_axis(i, x.ndim, "sum(axis)") for i in given}
    coo, keep = x._coo(), keepdim or isinstance(x, SparseCsrTensor)
    behind = len(coo.dims)
    inner = [i - behind + 1 for i in sorted(over) if i >= behind]
    if inner:
        values = ops.sum(values, axis=inner, keepdim=keep)
    outer = [i for i in over if i < behind]
    if not outer:
        return x.with_values(values)
    dims = [1 if i in outer else n for i, n in enumerate(coo.dims) if keep or i not in outer] or [1]
    if axis is None and isinstance(x, SparseCsrTensor):
        dims = [1, 1]
    keys = np.zeros(coo.nnz, np.int64)
    for i, index in enumerate(coo.axes()):
        keys = keys if i in outer else keys * coo.dims[i] + index
    groups, place = coo.grouped(keys)
    return same_form(x, coo.like(groups, dims, coalesced=True), summed(values, owned(place), groups.size))


guard_functions(globals())
