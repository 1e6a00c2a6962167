"""Writing by index: `x[...] = value`, and the functions that return a changed copy instead."""

from __future__ import annotations

import builtins
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.conversion import check_range
from bireme.core.declare.known_calls import travels
from bireme.core.declare.op import Attr, Axis, Ints, Tensor, composite, op
from bireme.core.graph import segment
from bireme.core.graph.bound import bounded
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.overwriting import overwrites, own
from bireme.core.tensor import tape
from bireme.core.tensor.inplace import assign_inplace
from bireme.core.tensor.tensor import value_of
from bireme.ops._shared.broadcast import sum_to_shape
from bireme.ops.creation.tensors import full
from bireme.ops.indexing.along_axis import combined, from_front, last_written, put_axis, take_axis
from bireme.ops.indexing.getitem import (
    Index,
    kept,
    lined_up,
    picked_shape,
    put_back,
    put_slice,
    put_slice_numpy,
    slice_view,
    slices,
    take_slice,
    written_out,
)  # fmt: skip
from bireme.ops.manipulation import reshape
from bireme.ops.math import logic

# ---------------------------------------------------------------- into a slice


@op(internal=True, numpy=put_slice_numpy)
def slice_put(x: Tensor, part: Tensor, starts: list[Tensor], spec: Attr) -> Tensor:
    """A tensor with a slice replaced; use `x[...] = value`.

    >>> x = bireme.to_tensor([1, 2, 3]); x[1:] = 0; x.tolist()
    [1, 0, 0]
    """
    return put_slice(x, part, starts, spec)


slice_put.infer(lambda x: x)


@overwrites
def _put_grad_numpy(g, starts, spec, sigs):
    at = slices(starts, spec)
    of_part = sum_to_shape(g[at].reshape(kept(spec)), sigs[1].shape)
    hole = own(g)
    if hole is g:
        of_part = np.array(of_part)  # it may lie in what is written over
    hole[at] = 0
    return (hole, of_part, *[None] * len(starts))


@slice_put.grad(numpy=_put_grad_numpy)
def _(g, starts, spec, sigs):
    hole = put_slice(g, jnp.zeros((), g.dtype), starts, spec)
    return (hole, sum_to_shape(take_slice(g, starts, spec), sigs[1].shape), *[None] * len(starts))


@slice_view.put
def _(source, part, bound, numbers):
    return slice_put.call({"x": source, "part": part, "starts": list(numbers), "spec": bound.attrs[0]})


# ---------------------------------------------------------------- at picked elements


@op(internal=True, numpy=True)
@overwrites
def pick_put(
    x: Tensor, part: Tensor, index: list[Tensor], axes: Attr, add: bool = False, unique: bool = False
) -> Tensor:
    """A tensor with picked elements replaced, or with something added to them; use `x[...] = value`.

    >>> x = bireme.to_tensor([5, 6, 7]); x[bireme.to_tensor([2, 0])] = 1; x.tolist()
    [1, 6, 1]
    """
    line, at = lined_up(x, axes)
    flat = combined([x.shape[a] for a in axes], index)
    part = jnp.broadcast_to(part, (*line.shape[:at], *flat.shape, *line.shape[at + 1 :]))
    return put_back(put_axis(line, flat, part, at, "add" if add else "set", unique), x.shape, axes)


pick_put.infer(lambda x: x)


@pick_put.grad(numpy=True)
@overwrites
def _(g, index, axes, add, unique, sigs):
    line, at = lined_up(g, axes)
    flat = combined([g.shape[a] for a in axes], index)
    part = take_axis(line, flat, at)
    if not add and not unique:  # what was written over has no part in the result
        stays = last_written(flat, line.shape[at])
        part = jnp.where(stays.reshape(stays.shape + (1,) * (line.ndim - at - 1)), part, jnp.zeros_like(part))
    dx = g if add else put_back(put_axis(line, flat, 0, at, "set", unique), g.shape, axes)
    return (dx, sum_to_shape(part, sigs[1].shape), *[None] * len(index))


def written(x: Tensor, key: Any, value: Tensor, add: bool = False) -> Tensor:
    """`x` after `x[key] = value`, or after `x[key] += value` with every duplicate counted."""
    if not add and _covers(x, key, value):  # no need to look at the mask
        mask = reshape.reshaped(key, [*key.shape, *[1] * (x.ndim - key.ndim)])
        if value.ndim > x.ndim - key.ndim:
            value = reshape.reshaped(value, [])
        return logic.select(mask, value, x)
    index = Index(x, key)
    if not index.picks:
        part = _fitted(value, list(kept(index.spec)), index.adds)
        if add:
            part = part + slice_view.call({"x": x, "starts": index.numbers(), "spec": tuple(index.spec)})
        return slice_put.call({"x": x, "part": part, "starts": index.numbers(), "spec": tuple(index.spec)})
    base = index.basic(x.detach()) if x.stop_gradient else index.basic(x)
    index.check(base)
    picked = list(index.picks.values())
    axes = tuple(index.picks)
    value = _fitted(value, picked_shape(base.shape, axes, [i.shape for i in picked]), [])
    part = pick_put.call(
        {"x": base.clone(), "part": value, "index": picked, "axes": axes, "add": add, "unique": index.unique}
    )
    if index.adds:
        part = reshape.reshaped(part, list(kept(index.spec)))
    whole = all(n == d and step == 1 and not drop for (n, step, drop), d in zip(index.spec, x.shape))
    return (
        part if whole else slice_put.call({"x": x, "part": part, "starts": index.numbers(), "spec": tuple(index.spec)})
    )


def _covers(x: Tensor, key: Any, value: Tensor) -> bool:
    """Whether a mask over x's first axes takes a value that is the same for all that it covers."""
    if not isinstance(key, Tensor) or key.dtype is not dtypes.bool_ or not key.ndim or key.shape != x.shape[: key.ndim]:
        return False
    rest = x.shape[key.ndim :]
    if value.size == 1:
        return value.ndim <= len(rest) or value.ndim <= 1
    return value.ndim <= len(rest) and all(a in (1, b) for a, b in zip(reversed(value.shape), reversed(rest)))


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """`x[key] = value`."""
    try:
        trace = segment.local.trace
        if trace is not None and trace.builds:
            trace.build_method("__setitem__", x, key, value)
            return
        since = tape.now()
        if isinstance(key, Tensor):
            new = (
                number_where(key, value, x)
                if key.dtype is dtypes.bool_ and key._value.sig.shape == x._value.sig.shape
                else None
            )
        else:
            new = _into_slice(x, key, value)
        assign_inplace(x, written(x, key, value_like(x, value)) if new is None else new, "x[index] = value", since)
    except errors.TELLING as e:
        errors.leave(e)
        raise


_puts: dict[tuple, tuple] = {}  # basic indices resolved before: the bound operator, and where the slice starts


def _into_slice(x: Tensor, key: Any, value: Any) -> Tensor | None:
    """`x` after a number, or a tensor of its dtype, went into a slice; None for all that needs more than that."""
    sig, plain = x._value.sig, written_out(key)
    if plain is None:
        return None
    if isinstance(value, Tensor):
        if value.dtype is not sig.dtype:
            return None
        part, dims = value, value._value.sig.shape
    elif sig.dtype in _TAKES.get(value.__class__, ()) and travels(value):
        part, dims = (sig.dtype, value), ()
    else:
        return None
    found = _puts.get((sig, plain, dims))
    if found is None:
        index = Index(x, key)
        target = kept(index.spec)
        if (
            index.adds
            or len(dims) > len(target)
            or any(a not in (1, b) for a, b in zip(reversed(dims), reversed(target)))
        ):
            return None
        found = bounded(_puts)[sig, plain, dims] = (
            slice_put.bind((1, 1, -len(index.starts)), (tuple(index.spec),)),
            index.numbers(),
        )
    return slice_put.record(found[0], [x, part, *found[1]])


def number_where(mask: Tensor, value: Any, x: Tensor) -> Tensor | None:
    """A number where the mask is true, else `x`; None if the value is no number that travels."""
    dtype = x._value.sig.dtype
    if dtype in _TAKES.get(value.__class__, ()) and travels(value):
        return logic.select.record(logic.select.bind((1, 1, 1), ()), [mask, (dtype, value), x])
    return None


# dtypes that hold every such number that travels: others are looked at one by one
_TAKES = {float: (dtypes.float32, dtypes.float64), int: (dtypes.float32, dtypes.float64, dtypes.int64)}


def value_like(x: Tensor, value: Any) -> Tensor:
    """What is written, in the dtype of `x`."""
    if isinstance(value, Tensor):
        return value if value.dtype is x.dtype else value.astype(x.dtype)
    if isinstance(value, (bool, int, float, builtins.complex)):
        if isinstance(value, float) and x.dtype.is_integer:
            return full([], value, "float64").astype(x.dtype)
        return full([], value, x.dtype)
    try:
        return Tensor(value_of(value, x.dtype))
    except errors.ArgumentTypeError:
        raise errors.bad(
            "x[index] = value",
            "a number, a list of numbers, an array or a Tensor",
            value,
            kind=errors.ArgumentTypeError,
        ) from None


def _fitted(value: Tensor, wanted: list[int], adds: list[int]) -> Tensor:
    """The value in a shape that broadcasts to the slice; `adds` are indices of new axes that the slice lacks."""
    target = list(wanted)
    for place in adds:
        target.insert(place, 1)
    dims = value.shape
    while len(dims) > len(target) and dims[0] == 1:
        dims = dims[1:]
    if len(dims) > len(target) or any(a not in (1, b) for a, b in zip(reversed(dims), reversed(target))):
        raise errors.bad(
            "x[index] = value",
            f"a value that broadcasts to shape {target}",
            described=f"shape {value.shape}",
            kind=errors.ShapeError,
        )
    if dims != value.shape:
        value = reshape.reshaped(value, dims)
    return reshape.reshaped(reshape.expand(value, target), wanted) if adds else value


Tensor.__setitem__ = setitem  # type: ignore[attr-defined]  # a method that Tensor gets here


# ---------------------------------------------------------------- as functions


@composite(method=True, inplace=True, amp="one", hands={"x[index]": "indices", "x[index] = value": "value"})
def index_put(x: Tensor, indices: list[Tensor], value: Tensor, accumulate: bool = False) -> Tensor:
    """Write values at the elements that index tensors select, as ``x[indices] = value``.

    Args:
        x: Input tensor of any dtype.
        indices: List or tuple of integer or bool tensors that broadcast, one for each axis they index; a bool tensor
            indexes as many axes as it has.
        value: Tensor of the dtype of ``x`` that broadcasts to the elements selected.
        accumulate: Whether to add the values instead, every repeated index counting. Default: False.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> bireme.index_put(bireme.zeros([3]), [bireme.to_tensor([0, 2])], bireme.to_tensor([5.0, 6.0])).tolist()
        [5.0, 0.0, 6.0]
    """
    if not indices:
        raise errors.bad("index_put(indices)", "at least one tensor", [])
    if value.dtype is not x.dtype:
        raise errors.bad(
            "index_put(value)", f"x's dtype {x.dtype.name}", described=value.dtype.name, kind=errors.DtypeError
        )
    first = indices[0]
    if len(indices) > 1:
        return written(x, tuple(indices), value, accumulate)
    if (
        first.dtype is dtypes.bool_
        and value.size > 1
        and not segment.local.segment.symbolic
        and not first._host().any()
    ):
        # nothing to write, whatever shape it has
        value = reshape.reshape(reshape.reshape(value, [-1])[:0], [0, *[1] * (x.ndim - first.ndim)])
    return written(x, first, value, accumulate)


@op(internal=True, differentiable=False, numpy=True)
def places_in(index: Tensor, n: int) -> Tensor:
    """Which of the integers below `n` are in an index; use `index_fill`."""
    return put_axis(jnp.zeros(n, bool), from_front(index, n), True)


places_in.infer(lambda index, n: sig_of((n,), dtypes.bool_))


@composite(method=True, inplace=True, writes=3)
def index_fill(x: Tensor, index: Tensor, axis: Axis, value: Tensor | float) -> Tensor:
    """Set slices along an axis to one number.

    Args:
        x: Tensor with at least one axis.
        index: Integer tensor of indices, negative ones counting from the end; or a bool tensor of the size of the axis.
        axis: Axis that the indices refer to.
        value: Number or 0-D tensor; it is converted to the dtype of ``x``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        IndexError: If an index is out of range.

    Examples:
        >>> bireme.index_fill(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([1]), 1, 9).tolist()
        [[1, 9], [3, 9]]
    """
    if not x.ndim:
        raise errors.bad("index_fill(x)", "a tensor with at least 1 dimension", x, kind=errors.OutOfRangeError)
    if isinstance(value, Tensor) and value.ndim:
        raise errors.bad("index_fill(value)", "a number or a 0-D Tensor", value, kind=errors.for_number(value))
    n = x.shape[axis]
    if index.dtype is dtypes.bool_ and index.shape == [n]:
        mask = index
    elif index.dtype.kind == "i":
        check_range("index_fill(index)", index, -n, n)
        mask = places_in(reshape.reshape(index, [-1]), n)
    else:
        raise errors.bad(
            "index_fill(index)", f"an integer tensor or a mask of shape [{n}]", index, kind=errors.ArgumentTypeError
        )
    return logic.select(reshape.reshaped(mask, [n if k == axis else 1 for k in range(x.ndim)]), value_like(x, value), x)


@composite(method=True)
def select_scatter(x: Tensor, values: Tensor, axis: Axis, index: int) -> Tensor:
    """Replace one slice along an axis.

    Args:
        x: Tensor with at least one axis.
        values: Tensor of the shape of ``x`` without ``axis``; it is converted to the dtype of ``x``.
        axis: Axis that ``index`` refers to.
        index: Index of the slice; a negative one counts from the end.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        IndexError: If the index is out of range.

    Examples:
        >>> bireme.select_scatter(bireme.zeros([2, 2]), bireme.to_tensor([1.0, 2.0]), 1, 0).tolist()
        [[1.0, 0.0], [2.0, 0.0]]
    """
    if not x.ndim:
        raise errors.bad("select_scatter(x)", "a tensor with at least 1 dimension", x, kind=errors.OutOfRangeError)
    n, rest = x.shape[axis], [*x.shape[:axis], *x.shape[axis + 1 :]]
    if not -n <= index < n:
        raise errors.bad("select_scatter(index)", f"an index in [{-n}, {n - 1}]", index, kind=errors.OutOfRangeError)
    if values.shape != rest:
        raise errors.bad(
            "select_scatter(values)",
            f"shape {rest}, that of a slice of x",
            described=f"shape {values.shape}",
            kind=errors.ShapeError,
        )
    return written(x, (slice(None),) * axis + (index,), value_like(x, values))


@composite(method=True, hands={"x[index] = value": "value"})
def slice_scatter(x: Tensor, value: Tensor, axes: Ints, starts: Ints, ends: Ints, strides: Ints) -> Tensor:
    """Write a tensor into a slice of another: ``x[start:end:stride] = value`` along axes.

    Args:
        x: Input tensor of any dtype.
        value: Tensor that broadcasts to the slice; it is converted to the dtype of ``x``.
        axes: Axes to slice along.
        starts: First index along each axis; negative ones count from the end.
        ends: Index after the last one along each axis.
        strides: Step along each axis; not 0.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.slice_scatter(bireme.zeros([5]), bireme.to_tensor([1.0, 2.0]), [0], [0], [4], [2]).tolist()
        [1.0, 0.0, 2.0, 0.0, 0.0]
    """
    key = [slice(None)] * x.ndim
    for given in (axes, starts, ends, strides):
        if given is None or len(given) != len(axes):
            raise errors.bad(
                "slice_scatter(axes, starts, ends, strides)", "lists of equal length", [axes, starts, ends, strides]
            )
    for axis, start, end, stride in zip(axes, starts, ends, strides):
        if not -x.ndim <= axis < x.ndim:
            raise errors.bad(
                "slice_scatter(axes)", f"axes in [{-x.ndim}, {x.ndim - 1}]", axis, kind=errors.OutOfRangeError
            )
        if not stride:
            raise errors.bad("slice_scatter(strides)", "nonzero strides", list(strides))
        key[axis] = slice(start, end, stride)
    return written(x, tuple(key), value_like(x, value))
