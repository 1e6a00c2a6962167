"""Sorting: orders along an axis, and elements picked by their rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import BOOL, FLOAT, INT
from bireme.core.declare.op import Attr, Axis, Extra, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.rebinding import dual, on_numpy
from bireme.core.tensor.results import SortRetType, TopKRetType

REAL = FLOAT | INT
ORDERED = FLOAT | INT | BOOL


# ---------------------------------------------------------------- orders


def sort_key(x):
    """Integers in the order of `x`, NaN last: one integer operand sorts five times faster than floats or pairs."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
        whole = jnp.int64 if x.dtype.itemsize == 8 else jnp.int32
        bits = jnp.where(x == 0, jnp.zeros((), x.dtype), x).view(whole)  # both zeros are equal
        top = np.iinfo(whole).max
        return jnp.where(jnp.isnan(x), top, jnp.where(bits < 0, bits ^ top, bits))
    if x.dtype == jnp.uint64:
        return (x ^ np.uint64(1 << 63)).view(jnp.int64)
    return x.astype(jnp.int64 if x.dtype.itemsize == 8 or x.dtype == jnp.uint32 else jnp.int32)


def packed(x, axis, descending):
    """Keys and indices in one 64-bit word each, or None where the keys fill it: words sort faster than pairs."""
    key = ~sort_key(x) if descending else sort_key(x)
    if key.dtype.itemsize == 8:
        return None
    places = jnp.arange(x.shape[axis], dtype=jnp.int64).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return (key.astype(jnp.int64) << 32) | places


def order(x, axis, descending=False):
    """Indices that sort `x` along an axis: equal elements keep their order, NaN comes last, or first if descending."""
    words = packed(x, axis, descending)
    if words is None:
        key = sort_key(x)
        return jnp.argsort(~key if descending else key, axis=axis, stable=True).astype(jnp.int64)
    return jnp.sort(words, axis=axis, stable=False) & 0xFFFFFFFF


_order_on_numpy = on_numpy(order)
packed_numpy = on_numpy(packed)
SMALL_SORT = 4096  # elements that NumPy orders by itself sooner than keys are made for them


def order_numpy(x, axis, descending=False):
    """`order` on NumPy arrays: a few floats are sorted as they are, unless there is a NaN among them."""
    if x.dtype.kind == "f" and x.size <= SMALL_SORT and not np.isnan(x).any():
        return (-x if descending else x).argsort(axis, "stable")
    return _order_on_numpy(x, axis, descending)


def _at_numpy(x, places, axis):
    if x.size and axis == x.ndim - 1 and places.shape[:-1] == x.shape[:-1]:
        rows = np.arange(0, x.size, x.shape[-1]).reshape(*x.shape[:-1], 1)
        return x.reshape(-1).take(places + rows)
    return np.take_along_axis(x, places, axis)


@dual(_at_numpy)
def at(x, places, axis):
    """Elements at indices along an axis, all of them in range."""
    return jnp.take_along_axis(x, places, axis, mode="promise_in_bounds")


def _back_numpy(g, places, axis, shape):
    out = np.zeros(shape, g.dtype)
    np.put_along_axis(out, places, g, axis)
    return out


@dual(_back_numpy)
def back(g, places, axis, shape):
    """A gradient of elements that were picked once at most, where they were."""
    return jnp.put_along_axis(jnp.zeros(shape, g.dtype), places, g, axis, inplace=False, mode="promise_in_bounds")


def _add_back_numpy(g, places, axis, shape):
    out = np.zeros(shape, g.dtype)
    np.add.at(out, tuple(places if i == axis else p for i, p in enumerate(np.indices(g.shape, sparse=True))), g)
    return out


@dual(_add_back_numpy)
def add_back(g, places, axis, shape):
    """The same for elements that may have been picked several times."""
    where = tuple(places if i == axis else p for i, p in enumerate(jnp.indices(g.shape, sparse=True)))
    return jnp.zeros(shape, g.dtype).at[where].add(g, mode="promise_in_bounds")


@op(
    method=True,
    dtypes=ORDERED,
    rejects={"input": "bireme.compat.sort", "dim": "bireme.compat.sort"},
    of_the_past=True,
    by_numpy=True,
    selects=True,
)
def sort(x: Tensor, axis: Axis = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Sort elements along an axis.

    NaN counts as larger than all numbers.

    Args:
        x: Tensor of real numbers or bools.
        axis: Axis to sort along. Default: -1.
        descending: Whether the largest element comes first. Default: False.
        stable: Whether equal elements keep their order, which only zeros of different sign can show. Default: False.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.sort(bireme.to_tensor([3, 1, 2])).tolist()
        [1, 2, 3]
    """
    return at(x, order(x, axis, descending), axis) if x.ndim else x


def _sort_numpy(x, axis, descending, stable):
    if not x.ndim:
        return x
    if stable:  # zeros of both signs are equal, and keep their order
        return at(x, order_numpy(x, axis, descending), axis)
    out = np.sort(x, axis=axis)
    return np.flip(out, axis) if descending else out


sort.numpy_form = _sort_numpy
sort.infer(lambda x: x)


@sort.grad(numpy=True)
def _(g, x, axis, descending):
    return back(g, order(x, axis, descending), axis, g.shape) if g.ndim else g


@op(method=True, dtypes=ORDERED, torch=True, differentiable=False, by_numpy=True)
def argsort(x: Tensor, axis: Axis = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Indices that sort elements along an axis.

    NaN counts as larger than all numbers.

    Args:
        x: Tensor of real numbers or bools.
        axis: Axis to sort along. Default: -1.
        descending: Whether the largest element comes first. Default: False.
        stable: Not used: equal elements always keep their order. Default: False.

    Returns:
        Tensor of int64 in the shape of ``x``.

    Examples:
        >>> bireme.argsort(bireme.to_tensor([3, 1, 2])).tolist()
        [1, 2, 0]
    """
    return order(x, axis, descending) if x.ndim else jnp.zeros((), jnp.int64)


argsort.numpy_form = lambda x, axis, descending, stable: (
    order_numpy(x, axis, descending) if x.ndim else np.zeros((), np.int64)
)
argsort.infer(lambda x: sig_of(x.shape, dtypes.int64))


@composite(method=True, name_arg=False, out=True)
def msort(input: Tensor) -> Tensor:
    """Sort elements along the first axis in ascending order.

    Args:
        input: Tensor of real numbers or bools.

    Returns:
        Tensor of the shape and dtype of ``input``.

    Examples:
        >>> bireme.msort(bireme.to_tensor([[3, 1], [2, 4]])).tolist()
        [[2, 1], [3, 4]]
    """
    return sort(input, 0)


@composite(public="compat.sort", name_arg=False)
def compat_sort(input: Tensor, dim: Axis = -1, descending: bool = False, stable: bool = False,
                out: Extra[Sequence[Tensor]] = None) -> SortRetType:  # fmt: skip
    """Sort elements along an axis and return their indices too, as torch has it.

    Args:
        input: Tensor of real numbers or bools.
        dim: Axis to sort along. Default: -1.
        descending: Whether the largest element comes first. Default: False.
        stable: Not used: equal elements always keep their order. Default: False.
        out: Pair of tensors that receive values and indices. Default: None.

    Returns:
        A named tuple ``(values, indices)``.

    Examples:
        >>> [t.tolist() for t in bireme.compat.sort(bireme.to_tensor([3, 1, 2]))]
        [[1, 2, 3], [1, 2, 0]]
    """
    places = argsort(input, dim, descending, stable)
    return SortRetType(sort(input, dim, descending, True), places)


# ---------------------------------------------------------------- elements picked by their rank


def picked_grad(g, out, axis, sigs):
    """The gradient of an operator that returns elements and their indices along an axis."""
    g, places, shape = g[0], out[1], sigs[0].shape
    if 0 in shape or not shape:
        return jnp.zeros(shape, g.dtype) if shape else g.reshape(())
    if places.ndim < len(shape):
        g, places = jnp.expand_dims(g, axis), jnp.expand_dims(places, axis)
    return back(g, places, axis, shape)


def _one_shape(x, axis, keepdim):
    if not x.ndim:
        return ()
    return (*x.shape[:axis], *([1] if keepdim else []), *x.shape[axis + 1 :])


def _one_infer(x, axis, keepdim):
    shape = _one_shape(x, axis, keepdim)
    return [sig_of(shape, x.dtype), sig_of(shape, dtypes.int64)]


def _one(x, place, axis, keepdim):
    """The element at one index of each row along an axis, and the index."""
    value = at(x, place, axis)
    return (value, place) if keepdim else (jnp.squeeze(value, axis), jnp.squeeze(place, axis))


_one_numpy = on_numpy(_one)


@op(internal="topk", dtypes=REAL, selects=True)
def topk_of(x: Tensor, k: int, axis: Axis, largest: bool) -> tuple[Tensor, Tensor]:
    """The k largest or smallest elements along an axis, and their indices; use `topk`."""
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    if jnp.issubdtype(x.dtype, jnp.floating) and x.dtype != jnp.float64:
        # XLA has a kernel for float32: NaN of either sign becomes the largest, zeros of either sign equal
        y = jnp.moveaxis(x, axis, -1).astype(jnp.float32)
        y = jnp.where(jnp.isnan(y), jnp.float32(np.nan), jnp.where(y == 0, jnp.float32(0), y))
        places = jnp.moveaxis(lax.top_k(lax.stop_gradient(y if largest else -y), k)[1].astype(jnp.int64), -1, axis)
    else:
        places = lax.slice_in_dim(order(x, axis, largest), 0, k, axis=axis)
    return at(x, places, axis), places


def _topk_numpy(x, k, axis, largest):
    if not x.ndim:
        return x, np.zeros((), np.int64)
    words = packed_numpy(x, axis, largest) if x.size > SMALL_SORT else None
    front = tuple(slice(k) if i == axis else slice(None) for i in range(x.ndim))
    if words is None:
        places = order_numpy(x, axis, largest)[front]
    else:
        if 0 < k < x.shape[axis] // 2:
            words = np.partition(words, k - 1, axis)[front]
        places = np.sort(words, axis)[front] & 0xFFFFFFFF
    return at(x, places, axis), places


topk_of.numpy_form = _topk_numpy


@topk_of.infer
def _(x, k, axis):
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :]) if x.ndim else ()
    return [sig_of(shape, x.dtype), sig_of(shape, dtypes.int64)]


topk_of.grad(picked_grad, numpy=True)


@composite(method=True, torch=True, out=True, plain=True)
def topk(x: Tensor, k: Attr[int | Tensor], axis: Axis = None, largest: bool = True, sorted: bool = True) -> TopKRetType:
    """The ``k`` largest or smallest elements along an axis, and their indices.

    NaN counts as larger than all numbers.

    Args:
        x: Tensor of real numbers.
        k: Number of elements, at least 1 and at most the size of the axis.
        axis: Axis to search along; ``None`` means the last one. Default: None.
        largest: Whether to return the largest elements rather than the smallest. Default: True.
        sorted: Not used: the result is always sorted, the most extreme element first. Default: True.

    Returns:
        A named tuple ``(values, indices)`` of tensors with size ``k`` along the axis.

    Raises:
        ValueError: If ``k`` is out of range.

    Examples:
        >>> [t.tolist() for t in bireme.topk(bireme.to_tensor([1, 3, 2]), 2)]
        [[3, 2], [1, 2]]
    """
    axis = max(x.ndim - 1, 0) if axis is None else axis
    n = x.shape[axis] if x.ndim else 1
    k = _count("topk", k)
    if not 1 <= k <= n:
        raise errors.bad("topk(k)", f"an integer in [1, {n}], the size of axis {axis}", k, kind=errors.for_integer(k))
    return TopKRetType(*topk_of(x, k, axis, largest))


def _count(name: str, k: Any) -> int:
    found = k.item() if isinstance(k, (Tensor, np.ndarray)) and k.size == 1 else k
    if isinstance(found, (int, float, np.integer)) and found == int(found):
        return int(found)
    raise errors.bad(f"{name}(k)", "an integer", k, kind=errors.ArgumentTypeError)


@op(method=True, dtypes=REAL, selects=True)
def kthvalue(x: Tensor, k: int, axis: Axis = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The ``k``-th smallest element along an axis, and its index.

    NaN counts as larger than all numbers.

    Args:
        x: Tensor of real numbers.
        k: Rank of the element, counted from 1.
        axis: Axis to search along; ``None`` means the last one. Default: None.
        keepdim: Whether to keep the axis with size 1. Default: False.

    Returns:
        A pair of tensors: values and indices of int64.

    Raises:
        ValueError: If ``k`` is out of range.

    Examples:
        >>> [t.item() for t in bireme.kthvalue(bireme.to_tensor([5, 3, 4]), 2)]
        [4, 2]
    """
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    return _one(x, lax.slice_in_dim(order(x, axis), k - 1, k, axis=axis), axis, keepdim)


def _kthvalue_numpy(x, k, axis, keepdim):
    if not x.ndim:
        return x, np.zeros((), np.int64)
    words = packed_numpy(x, axis, False)
    there = tuple(slice(k - 1, k) if i == axis else slice(None) for i in range(x.ndim))
    place = order_numpy(x, axis)[there] if words is None else np.partition(words, k - 1, axis)[there] & 0xFFFFFFFF
    return _one_numpy(x, place, axis, keepdim)


def _last_axis(arguments):
    if arguments["axis"] is None:
        arguments["axis"] = -1


kthvalue.numpy_form = _kthvalue_numpy
kthvalue.prepare(_last_axis)
kthvalue.infer(_one_infer)
kthvalue.grad(picked_grad, numpy=True)


@kthvalue.check
def _(x, k, axis):
    n = x.shape[axis] if x.ndim else 1
    if not 1 <= k <= n:
        raise errors.bad(
            "kthvalue(k)", f"an integer in [1, {n}], the size of axis {axis}", k, kind=errors.for_integer(k)
        )


@op(method=True, dtypes=REAL, selects=True)
def mode(x: Tensor, axis: Axis = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent element along an axis, and its index.

    Of several equally frequent elements it is the smallest, and its index is that of its last occurrence.

    Args:
        x: Tensor of real numbers.
        axis: Axis to search along. Default: -1.
        keepdim: Whether to keep the axis with size 1. Default: False.

    Returns:
        A pair of tensors: values and indices of int64.

    Raises:
        ValueError: If the axis has size 0.

    Examples:
        >>> [t.item() for t in bireme.mode(bireme.to_tensor([2, 5, 2, 5, 1]))]
        [2, 2]
    """
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    places = order(x, axis)
    starts, counts = _runs(at(x, places, axis), axis)
    length = counts - lax.cummax(starts, axis=axis)
    best = jnp.argmax(length, axis=axis, keepdims=True).astype(jnp.int64)  # the end of the first longest run
    return _one(x, at(places, best, axis), axis, keepdim)


def _runs(ordered, axis):
    """Along sorted rows: where each run of equal elements starts (0 inside of runs), and the index of each element."""
    n = ordered.shape[axis]
    counts = jnp.arange(n, dtype=jnp.int64).reshape([-1 if i == axis else 1 for i in range(ordered.ndim)])
    new = ordered != jnp.roll(ordered, 1, axis)
    return jnp.where(new, counts, 0), counts


_runs_numpy = on_numpy(_runs)


def _mode_numpy(x, axis, keepdim):
    if not x.ndim:
        return x, np.zeros((), np.int64)
    places = order_numpy(x, axis)
    starts, counts = _runs_numpy(at(x, places, axis), axis)
    best = np.argmax(counts - np.maximum.accumulate(starts, axis), axis=axis, keepdims=True)
    return _one_numpy(x, at(places, best, axis), axis, keepdim)


mode.numpy_form = _mode_numpy
mode.infer(_one_infer)
mode.grad(picked_grad, numpy=True)


@mode.check
def _(x, axis):
    if x.ndim and x.shape[axis] == 0:
        raise errors.bad(
            "mode(x)",
            f"at least one element along axis {axis}",
            described=f"shape {list(x.shape)}",
            kind=errors.ShapeError,
        )
