"""Elements by their places along an axis: the forms that every gather and scatter is brought to, on NumPy and jax arrays alike.

Places have been checked by then. One that is out of range after all never leaves the array: it reads some element of it,
and what it writes is lost or goes to some element of it.
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
from bireme.core.tensor.tensor import read

_UFUNCS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


def from_front(index, n: int, total: int = 0):
    """Places along an axis of extent `n` counted from the front, in a type that holds numbers up to `total` as well."""
    index = index.astype(np.int32 if max(n, total) < 1 << 31 else np.int64)
    return jnp.where(index < 0, index + n, index)


def take_axis(x, index, axis: int = 0):
    """The elements at places along an axis; the axes of `index` stand in its place."""
    if isinstance(x, np.ndarray):
        return np.take(x, index, axis, mode="clip")
    return x.at[(slice(None),) * axis + (index,)].get(mode="promise_in_bounds", wrap_negative_indices=False)


def put_axis(x, index, part, axis: int = 0, how: str = "set", unique: bool = False):
    """`x` with `part`, shaped as `take_axis` gives it or a number, put at places along an axis: "set" (the last one stays),
    "add", "multiply", "min" or "max"."""
    if isinstance(x, np.ndarray):
        return _put_numpy(x, index, part, axis, how)
    if x.dtype == bool:
        how = {"add": "max", "multiply": "min"}.get(how, how)
    put = getattr(x.at[(slice(None),) * axis + (index,)], how)
    return put(jnp.asarray(part).astype(x.dtype), mode="promise_in_bounds", wrap_negative_indices=False, unique_indices=unique)


WIDE = 8  # elements of a row that are added at a time


def add_rows(x, index, part, axis: int = 0, platform: str = "reference"):
    """`put_axis` with "add", for gradients: on CPU a loop over the rows takes two thirds of the time of XLA's scatter, or a seventh."""
    width = math.prod(x.shape[axis + 1 :])
    if platform != "cpu" or width < WIDE or math.prod(x.shape[:axis]) != 1 or not index.size or x.dtype == bool:
        return put_axis(x, index, part, axis, "add")
    rows, at = part.astype(x.dtype).reshape(index.size, width), index.reshape(-1)

    def add(i, table):
        total = lax.dynamic_slice_in_dim(table, at[i], 1) + lax.dynamic_slice_in_dim(rows, i, 1)
        return lax.dynamic_update_slice_in_dim(table, total, at[i], 0)

    return lax.fori_loop(0, index.size, add, x.reshape(x.shape[axis], width)).reshape(x.shape)


def _put_numpy(x, index, part, axis, how):
    out = np.array(x, order="C")
    before, n, after = math.prod(out.shape[:axis]), out.shape[axis], math.prod(out.shape[axis + 1 :])
    if not index.size or not out.size:
        return out
    part, index = np.asarray(part), np.minimum(np.maximum(index.reshape(-1), 0), n - 1).astype(np.intp)
    if how == "set":
        out.reshape(before, n, after)[:, index] = part.reshape(before, index.size, after) if part.ndim else part
        return out
    # one place for each element: NumPy takes several times as long for places of rows
    places = index * after if after > 1 else index
    if after > 1:
        places = (places[:, None] + np.arange(after)).reshape(-1)
    if before > 1:
        places = (np.arange(0, out.size, n * after)[:, None] + places).reshape(-1)
    _UFUNCS[how].at(out.reshape(-1), places, part.astype(out.dtype, copy=False).reshape(-1) if part.ndim else part.astype(out.dtype))
    return out


def last_written(index, n: int):
    """Which of several writes to the places are the last ones: where there are no duplicates, all of them."""
    order = jnp.arange(index.size, dtype=np.int32).reshape(index.shape)
    return take_axis(put_axis(jnp.zeros(n, np.int32), index, order, 0, "max"), index) == order


def along(dims: Sequence[int], index, axis: int):
    """Places in the flattened array for an index that says the place along one axis and has the others' by its own shape.

    An axis of extent 1 goes with any place in it.
    """
    strides = [math.prod(dims[k + 1 :]) for k in range(len(dims))]
    flat = from_front(index, dims[axis], math.prod(dims)) * strides[axis]
    for k, n in enumerate(index.shape):
        if k != axis and n > 1 and dims[k] > 1:
            flat = flat + (jnp.arange(n, dtype=flat.dtype) * strides[k]).reshape((-1,) + (1,) * (index.ndim - k - 1))
    return flat


def combined(dims: Sequence[int], index: Sequence[Any]):
    """Places along several axes as places along the one that they make together."""
    total = math.prod(dims)
    flat = from_front(index[0], dims[0], total)
    for n, i in zip(dims[1:], index[1:]):
        flat = flat * n + from_front(i, n, total)
    return flat


def check_columns(where: str, index: Tensor, dims: Sequence[int]) -> None:
    """Raise for an index whose last axis has a place along each of several axes, one of them outside its axis."""
    value = read(index)
    if not value.sig.size or value.sig.dtype.kind != "i":
        return
    if value.array is None or not (isinstance(value.array, np.ndarray) or value.device.is_cpu):
        if len(set(dims)) == 1:
            check_range(where, index, -dims[0], dims[0])
            return
        for k, n in enumerate(dims):
            check_range(where, index[..., k], -n, n)  # type: ignore[index]  # installed by ops.index
        return
    host = np.asarray(value.array)
    for k, n in enumerate(dims):
        least, most = int(host[..., k].min()), int(host[..., k].max())
        if least < -n or most >= n:
            expected = f"indices in [{-n}, {n - 1}] along axis {k}"
            raise errors.bad(where, expected, least if least < -n else most, kind=errors.OutOfRange)


def check_filled(where: str, n: int, index) -> None:
    """Raise, by Sigs alone, for an index into an axis without elements."""
    if not n and index.size:
        raise errors.bad(where, "no indices into an axis without elements", f"shape {list(index.shape)}", kind=errors.OutOfRange)
