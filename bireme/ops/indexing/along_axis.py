"""Elements by their indices along an axis: what every gather and scatter is reduced to, on NumPy and jax arrays.

Indices have been checked by then. One that is out of range after all never leaves the array: it reads some
element of it, and what it writes is lost or goes to some element of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.declare.conversion import check_range
from bireme.core.declare.op import Tensor
from bireme.core.numpy_exec.add_rows import add_rows as add_rows_to
from bireme.core.numpy_exec.overwriting import own
from bireme.core.numpy_exec.rebinding import dual
from bireme.core.tensor.tensor import read

_UFUNCS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


def _from_front_numpy(index, n: int, total: int = 0):
    """As it is where nothing is to be done: what was found out of its memory is remembered, see `numpy_exec.grouping`."""
    if index.size and index.min() < 0:
        index = np.where(index < 0, index.astype(np.int64) + n, index)
    return index if index.dtype.itemsize >= (4 if max(n, total) < 1 << 31 else 8) else index.astype(np.int64)


@dual(_from_front_numpy)
def from_front(index, n: int, total: int = 0):
    """Non-negative indices into an axis of size `n`, in a dtype that holds numbers up to `total` as well."""
    index = index.astype(np.int32 if max(n, total) < 1 << 31 else np.int64)
    return jnp.where(index < 0, index + n, index)


def _take_numpy(x, index, axis: int = 0):
    return np.take(x, index, axis, mode="clip")


@dual(_take_numpy)
def take_axis(x, index, axis: int = 0):
    """The elements at indices along an axis; the axes of `index` stand in its place."""
    return x.at[(slice(None),) * axis + (index,)].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _put_numpy(x, index, part, axis: int = 0, how: str = "set", unique: bool = False):
    return _put_into(own(x), index, part, axis, how)


def _put_into(out, index, part, axis: int, how: str):
    before, n, after = math.prod(out.shape[:axis]), out.shape[axis], math.prod(out.shape[axis + 1 :])
    if not index.size or not out.size:
        return out
    part, index = np.asarray(part), index.reshape(-1)
    if index.min() < 0 or index.max() >= n:
        index = np.minimum(np.maximum(index, 0), n - 1)
    if how == "set":
        out.reshape(before, n, after)[:, index] = part.reshape(before, index.size, after) if part.ndim else part
        return out
    part = part.astype(out.dtype, copy=False)
    if (
        how == "add"
        and before == 1
        and part.ndim
        and add_rows_to(out.reshape(n, after), index, part.reshape(-1, after))
    ):
        return out
    # one index for each element: NumPy takes several times as long for indices of rows
    places = index.astype(np.intp, copy=False) * after
    if after > 1:
        places = (places[:, None] + np.arange(after)).reshape(-1)
    if before > 1:
        places = (np.arange(0, out.size, n * after)[:, None] + places).reshape(-1)
    _UFUNCS[how].at(out.reshape(-1), places, part.reshape(-1) if part.ndim else part)
    return out


def ascending(index) -> bool:
    """Whether each index is larger than the one before, as those that a mask gives."""
    return index.size < 2 or bool(index[1] > index[0] and (index[1:] > index[:-1]).all())


@dual(_put_numpy)
def put_axis(x, index, part, axis: int = 0, how: str = "set", unique: bool = False):
    """`x` with `part`, a number or of the shape that `take_axis` gives, written at indices along an axis.

    `how` is "set" (the last one stays), "add", "multiply", "min" or "max".
    """
    if x.dtype == bool:
        how = {"add": "max", "multiply": "min"}.get(how, how)
    # half precision stops growing: what adds up is kept in float32 and rounded once
    wide = single(x) if how in ("add", "multiply") else x
    put = getattr(wide.at[(slice(None),) * axis + (index,)], how)
    part = jnp.asarray(part).astype(wide.dtype)
    made = put(part, mode="promise_in_bounds", wrap_negative_indices=False, unique_indices=unique)
    return made.astype(x.dtype)


def single(x):
    """Half precision in float32."""
    return x.astype(np.float32) if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize < 4 else x


WIDE = 8  # elements of a row that are added at a time


def _add_at_numpy(x, index, part, axis: int = 0):
    return _put_into(np.ascontiguousarray(x), index, part, axis, "add")


@dual(_add_at_numpy)
def add_at(x, index, part, axis: int = 0):
    """`put_axis` with "add" to what was made for it, as the zeros that a gradient begins with: on NumPy in place."""
    return put_axis(x, index, part, axis, "add")


def plain(index, n: int) -> bool:
    """Whether indices of NumPy are in range as they are, and none comes twice: then rows are written by one call."""
    return index.ndim == 1 and index.size > 0 and index[0] >= 0 and index[-1] < n and ascending(index)


def into_zeros(sig, index, rows):
    """The gradient of rows that NumPy took: zeros with what was given for each index added to its row."""
    out = np.zeros(sig.shape, rows.dtype)
    if plain(index, len(out)):
        out[index] = rows
        return out
    return _put_into(out, _from_front_numpy(index, len(out)), rows, 0, "add")


def add_rows(x, index, part, axis: int = 0):
    """The same for XLA on CPU, where a loop over the rows takes two thirds of the time of its scatter, or a seventh."""
    width = math.prod(x.shape[axis + 1 :])
    if width < WIDE or math.prod(x.shape[:axis]) != 1 or not index.size or x.dtype == bool:
        return put_axis(x, index, part, axis, "add")
    wide, at = single(x).reshape(x.shape[axis], width), index.reshape(-1)
    rows = part.astype(wide.dtype).reshape(index.size, width)

    def add(i, table):
        total = lax.dynamic_slice_in_dim(table, at[i], 1) + lax.dynamic_slice_in_dim(rows, i, 1)
        return lax.dynamic_update_slice_in_dim(table, total, at[i], 0)

    return lax.fori_loop(0, index.size, add, wide).reshape(x.shape).astype(x.dtype)


def last_written(index, n: int):
    """Which of several writes at the indices are the last ones: without duplicates, all of them."""
    order = jnp.arange(index.size, dtype=np.int32).reshape(index.shape)
    return take_axis(put_axis(jnp.zeros(n, np.int32), index, order, 0, "max"), index) == order


def along(dims: Sequence[int], index, axis: int):
    """Indices into the flattened array, from indices along one axis whose shape gives those along the others.

    An axis of size 1 broadcasts.
    """
    strides = [math.prod(dims[k + 1 :]) for k in range(len(dims))]
    flat = from_front(index, dims[axis], math.prod(dims)) * strides[axis]
    for k, n in enumerate(index.shape):
        if k != axis and n > 1 and dims[k] > 1:
            flat = flat + (jnp.arange(n, dtype=flat.dtype) * strides[k]).reshape((-1,) + (1,) * (index.ndim - k - 1))
    return flat


def combined(dims: Sequence[int], index: Sequence[Any]):
    """Indices along several axes as indices into these axes flattened."""
    total = math.prod(dims)
    flat = from_front(index[0], dims[0], total)
    for n, i in zip(dims[1:], index[1:]):
        flat = flat * n + from_front(i, n, total)
    return flat


def check_columns(where: str, index: Tensor, dims: Sequence[int]) -> None:
    """Raise if one of the indices along the last axis, one for each of several axes, is out of range."""
    value = read(index)
    if not value.sig.size or value.sig.dtype.kind != "i":
        return
    if value.array is None or not (isinstance(value.array, np.ndarray) or value.device.is_cpu):
        if len(set(dims)) == 1:
            check_range(where, index, -dims[0], dims[0])
            return
        for k, n in enumerate(dims):
            check_range(where, index[..., k], -n, n, part_of=index)  # type: ignore[index]  # installed by ops.index
        return
    host = np.asarray(value.array)
    for k, n in enumerate(dims):
        least, most = int(host[..., k].min()), int(host[..., k].max())
        if least < -n or most >= n:
            expected = f"indices in [{-n}, {n - 1}] along axis {k}"
            raise errors.bad(where, expected, least if least < -n else most, kind=errors.OutOfRangeError)


def needs_integers(where: str, index) -> None:
    """Raise for an index that does not hold integers."""
    if index.dtype.kind != "i":
        raise errors.bad(where, "an integer tensor", described=index.dtype.name, kind=errors.DtypeError)


def check_filled(where: str, n: int, index) -> None:
    """Raise, by Sigs alone, for an index into an axis without elements."""
    if not n and index.size:
        raise errors.bad(
            where,
            "no indices into an axis without elements",
            described=f"shape {list(index.shape)}",
            kind=errors.OutOfRangeError,
        )
