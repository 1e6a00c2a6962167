"""Sparse tensors from indices and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.device import DeviceLike
from bireme.core.base.dtype import DTypeLike
from bireme.core.declare.conversion import ints
from bireme.core.tensor.tensor import Tensor
from bireme.ops import to_tensor
from bireme.sparse.pattern import Coo, Csr
from bireme.sparse.tensor import SparseCooTensor, SparseCsrTensor, SparseTensor


def sparse(where: str, x: Any, kind: type = SparseTensor, hint: str = "") -> Any:
    """The argument, if it is a sparse tensor of the kind that is wanted."""
    if isinstance(x, kind):
        return x
    wanted = getattr(kind, "kind", "sparse")
    if not isinstance(x, Tensor):
        raise errors.bad(where, f"a {wanted} tensor", x, kind=errors.ArgumentTypeError)
    got = f"a {x.kind if isinstance(x, SparseTensor) else 'dense'} tensor of shape {x.shape}"
    if not hint:
        hint = f"x.to_sparse_{'csr()' if kind is SparseCsrTensor else 'coo(sparse_dim)'} makes a {wanted} one"
    raise errors.bad(where, f"a {wanted} tensor", described=got, hint=hint, kind=errors.UnsupportedTypeError)


def dense(where: str, x: Any) -> Tensor:
    """The argument, if it is a dense tensor."""
    if not isinstance(x, Tensor):
        raise errors.bad(where, "a dense tensor", x, kind=errors.ArgumentTypeError)
    if isinstance(x, SparseTensor):
        raise errors.bad(
            where,
            "a dense tensor",
            described=f"a {x.kind} tensor of shape {x.shape}",
            hint="x.to_dense() makes a dense one",
            kind=errors.UnsupportedTypeError,
        )
    return x


def _values(where: str, values: Any, dtype: DTypeLike | None, place: DeviceLike | None, stop_gradient: bool) -> Tensor:
    if not isinstance(stop_gradient, (bool, np.bool_)):
        raise errors.bad(f"{where}(stop_gradient)", "True or False", stop_gradient, kind=errors.ArgumentTypeError)
    with errors.within(where, data="values", dtype="dtype", place="place"):
        if isinstance(values, Tensor) and not values.stop_gradient and not stop_gradient:  # gradients go on to it
            given = dense(f"{where}(values)", values) if dtype is None else values.astype(dtype)
            return given if place is None else given.to(place)
        return to_tensor(values, dtype=dtype, place=place, stop_gradient=bool(stop_gradient))


def _sizes(where: str, shape: Any) -> list[int]:
    """A shape; it may have far more elements than memory would hold."""
    found = list(ints(shape, 0, where) or ())
    if any(n < 0 for n in found):
        raise errors.bad(where, "non-negative sizes", found)
    return found


def _index(where: str, index: Any, place: DeviceLike | None, ndim: int) -> Tensor:
    with errors.within(where.partition("(")[0], data=where.partition("(")[2][:-1], place="place"):
        made = to_tensor(index, place=place)
    if made.size == 0 and not isinstance(index, (Tensor, np.ndarray)):
        made = made.astype("int64")
    if made.dtype.name not in ("int8", "int16", "int32", "int64"):
        raise errors.bad(where, "an integer tensor", described=made.dtype.name, kind=errors.DtypeError)
    if made.ndim != ndim:
        raise errors.bad(where, f"{ndim} dimensions", described=f"shape {made.shape}", kind=errors.ShapeError)
    return made


def sparse_coo_tensor(
    indices: Any,
    values: Any,
    shape: Sequence[int] | Tensor | None = None,
    dtype: DTypeLike | None = None,
    place: DeviceLike | None = None,
    stop_gradient: bool = True,
) -> SparseCooTensor:
    """Create a sparse tensor by coordinates.

    Args:
        indices: Integers of shape ``[sparse_dim, nnz]``, as a tensor, an array or lists: a column for each stored
            value. The same index may stand in several columns, whose values are added up.
        values: Stored values, one along the first axis for each column of ``indices``; further axes are dense.
        shape: Shape of the tensor. Default: None, the smallest that the indices fit in.
        dtype: Dtype of the values. Default: None, that of ``values``.
        place: Device. Default: None, the current one.
        stop_gradient: Whether no gradient is computed. If False, gradients flow on to ``values`` where that is a tensor
            that takes them. Default: True.

    Returns:
        A sparse COO tensor.

    Raises:
        ValueError: If an index does not fit the shape, or there are not as many values as columns.

    Examples:
        >>> x = bireme.sparse.sparse_coo_tensor([[0, 1, 2], [1, 2, 0]], [1.0, 2.0, 3.0], [3, 3])
        >>> x.to_dense().tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]]
    """
    where = "sparse_coo_tensor"
    index = _index(f"{where}(indices)", indices, place, 2)
    made = _values(where, values, dtype, place, stop_gradient)
    axes, nnz = index.shape
    if not axes:
        raise errors.bad(f"{where}(indices)", "a row for at least one axis", described=f"shape {index.shape}")
    if made.ndim < 1 or made.shape[0] != nnz:
        raise errors.bad(
            f"{where}(values)",
            f"{nnz} along the first axis, as indices has columns",
            described=f"shape {made.shape}",
            kind=errors.ShapeError,
        )
    host = index._host()
    least = [int(n) + 1 for n in host.max(1, initial=-1)]
    if host.size and host.min() < 0:
        raise errors.bad(f"{where}(indices)", "non-negative integers", int(host.min()), kind=errors.OutOfRangeError)
    if shape is None:
        dims = [*least, *made.shape[1:]]
    else:
        dims = _sizes(f"{where}(shape)", shape)
        fits = len(dims) == axes + made.ndim - 1 and dims[axes:] == made.shape[1:]
        if not fits or any(n < m for n, m in zip(dims, least)):
            wanted = f"a shape of at least {[*least, *made.shape[1:]]}, which the indices need"
            raise errors.bad(f"{where}(shape)", wanted, dims, kind=errors.ShapeError)
    return SparseCooTensor(Coo(dims[:axes], index), made)


def sparse_csr_tensor(
    crows: Any,
    cols: Any,
    values: Any,
    shape: Sequence[int] | Tensor | None = None,
    dtype: DTypeLike | None = None,
    place: DeviceLike | None = None,
    stop_gradient: bool = True,
) -> SparseCsrTensor:
    """Create a sparse matrix, or a batch of them, row by row.

    Args:
        crows: Integers: where each row begins among the values, and where the last one ends. For a batch those of all
            matrices one after the other, each counted from 0.
        cols: Integers: column of each value.
        values: Stored values, 1-D.
        shape: Shape of 2 or 3 axes. Default: None, the smallest matrix that the indices fit in.
        dtype: Dtype of the values. Default: None, that of ``values``.
        place: Device. Default: None, the current one.
        stop_gradient: Whether no gradient is computed. If False, gradients flow on to ``values`` where that is a tensor
            that takes them. Default: True.

    Returns:
        A sparse CSR tensor.

    Raises:
        ValueError: If ``crows`` are no row ends, or a column does not fit the shape.

    Examples:
        >>> x = bireme.sparse.sparse_csr_tensor([0, 1, 2, 3], [1, 2, 0], [1.0, 2.0, 3.0], [3, 3])
        >>> x.to_dense().tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]]
    """
    where = "sparse_csr_tensor"
    starts, columns = _index(f"{where}(crows)", crows, place, 1), _index(f"{where}(cols)", cols, place, 1)
    made = _values(where, values, dtype, place, stop_gradient)
    nnz = columns.shape[0]
    if made.shape != [nnz]:
        raise errors.bad(
            f"{where}(values)", f"{nnz} numbers, as cols has", described=f"shape {made.shape}", kind=errors.ShapeError
        )
    host, at = starts._host(), columns._host()
    width = int(at.max(initial=-1)) + 1
    dims = [max(host.size - 1, 0), width] if shape is None else _sizes(f"{where}(shape)", shape)
    if len(dims) not in (2, 3):
        raise errors.bad(f"{where}(shape)", "2 or 3 sizes", dims, kind=errors.ShapeError)
    batch, rows = dims[0] if len(dims) == 3 else 1, dims[-2]
    if host.size != batch * (rows + 1):
        of = f" for each of {batch} matrices" if len(dims) == 3 else ""
        raise errors.bad(
            f"{where}(crows)", f"{rows + 1} integers{of}, one more than rows", described=f"{host.size}", kind=errors.ShapeError
        )  # fmt: skip
    ends = host.reshape(batch, rows + 1)
    if (ends[:, 0] != 0).any() or (np.diff(ends) < 0).any() or int(ends[:, -1].sum()) != nnz:
        raise errors.bad(f"{where}(crows)", f"non-decreasing integers from 0 to {nnz}, the number of values", starts)
    if at.size and (at.min() < 0 or width > dims[-1]):
        wrong = int(at.min()) if at.min() < 0 else width - 1
        raise errors.bad(f"{where}(cols)", f"integers in [0, {dims[-1] - 1}]", wrong, kind=errors.OutOfRangeError)
    return SparseCsrTensor(Csr(dims, starts, columns), made)


guard_functions(globals())
