"""Rules of padding, by the name of jax's primitive: what moves, sums, cuts, joins and looks up arrays.

A rule is given the call as it was traced at both sets of sizes, its arrays and their dimensions, and gives arrays and
dimensions, or refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.graph.varying import Extent
from bireme.core.xla_exec.padded import Made, Padding, bind, rule_for
from bireme.core.xla_exec.padded_sizes import Dim, Dims, Refused, must_begin, varied


@rule_for("layout_constraint", "sharding_constraint")
def _as_it_is(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    return arrays, dims


@rule_for("bitcast_convert_type")
def _bits(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    if eqn.outvars[0].aval.shape != eqn.invars[0].aval.shape:
        raise Refused("bits of numbers of another size")
    return bind(eqn, arrays), dims


@rule_for("optimization_barrier")
def _barrier(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    return bind(eqn, arrays), dims


@rule_for("broadcast_in_dim")
def _broadcast(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    x, shape, places = arrays[0], eqn.params["shape"], eqn.params["broadcast_dimensions"]
    found: list[Dim | None] = [p.fit.dim(a, b, True) for a, b in zip(shape, twin.params["shape"])]
    for axis, place in enumerate(places):
        if np.shape(x)[axis] == shape[place] and dims[0][axis] is not None:
            found[place] = dims[0][axis]
    return [lax.broadcast_in_dim(x, shape, places)], [tuple(found)]


@rule_for("iota")
def _iota(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    shape, other, along = eqn.params["shape"], twin.params["shape"], eqn.params["dimension"]
    found = [p.fit.dim(a, b, axis != along) for axis, (a, b) in enumerate(zip(shape, other))]
    return bind(eqn, arrays), [tuple(found)]


@rule_for("reshape")
def _reshape(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    x, shape = arrays[0], eqn.params["new_sizes"]
    if eqn.params.get("dimensions") is not None or not x.size:
        raise Refused("a reshape of another order")
    try:
        return [lax.reshape(x, shape)], [_regrouped(x.shape, dims[0], shape)]
    except Refused:
        found = tuple([p.fit.dim(a, b) for a, b in zip(shape, twin.params["new_sizes"])])
        return [_looked_up(p, x, dims[0], shape, found)], [found]


def _looked_up(p: Padding, x: Any, dims: Dims, shape: tuple[int, ...], new: Dims) -> Any:
    """A reshape that splits what is padded, as that of drawn numbers: each element is looked up where it lies."""
    if max(x.size, math.prod(shape)) >= 1 << 31:
        raise Refused("a reshape of more than 2^31 elements that splits what is padded")
    index: Any = 0
    stride: Any = 1
    for axis in reversed(range(len(shape))):  # its number among the valid elements
        index = index + lax.broadcasted_iota(jnp.int32, shape, axis) * stride
        dim = new[axis]
        stride = stride * (shape[axis] if dim is None else p.true(dim.prefix).astype(jnp.int32))
    factors = [f for size, dim in zip(x.shape, dims) for f in (((size, None),) if dim is None else dim.factors)]
    place: Any = 0
    stride = 1
    for size, extent in reversed(factors):  # where that lies with the padding
        true = size if extent is None else p.true(extent).astype(jnp.int32)
        place, index, stride = place + index % true * stride, index // true, stride * size
    return jnp.take(x.reshape(-1), place, mode="clip")


def _regrouped(shape: tuple[int, ...], dims: Dims, new: tuple[int, ...]) -> Dims:
    """The dimensions of a reshaped array: factors are grouped anew, and none with padding is split."""
    left = [f for size, dim in zip(shape, dims) for f in (((size, None),) if dim is None else dim.factors) if f[0] != 1]
    left = left[::-1]
    # of two that lie alike, the one whose elements may differ stands for both
    whole = {dim.factors: dim for dim in sorted([d for d in dims if d is not None], key=lambda d: not d.uniform)}
    found: list[Dim | None] = []
    for size in new:
        taken: list[tuple[int, Extent | None]] = []
        while size > 1:
            have, extent = left.pop()
            if size % have == 0:
                part = have
            elif extent is not None or math.gcd(size, have) == 1:
                raise Refused("a reshape that splits what is padded")
            else:
                part = math.gcd(size, have)
                left.append((have // part, None))
            if taken and extent is None and taken[-1][1] is None:
                taken[-1] = taken[-1][0] * part, None
            else:
                taken.append((part, extent))
            size //= part
        factors = tuple(taken)
        found.append(whole.get(factors, Dim(factors)) if any(e is not None for _, e in factors) else None)
    return tuple(found)


@rule_for("transpose")
def _transpose(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    order = eqn.params["permutation"]
    return [lax.transpose(arrays[0], order)], [tuple([dims[0][i] for i in order])]


@rule_for("squeeze")
def _squeeze(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    away = eqn.params["dimensions"]
    return [lax.squeeze(arrays[0], away)], [tuple([d for i, d in enumerate(dims[0]) if i not in away])]


@rule_for("expand_dims")
def _expand(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    made = bind(eqn, arrays)
    return made, [_regrouped(arrays[0].shape, dims[0], made[0].shape)]


@rule_for("stack")
def _stack(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    made = bind(eqn, arrays)
    found = list(p.merged(dims, arrays[0].shape))
    found.insert(eqn.params["axis"], None)
    return made, [tuple(found)]


# ---------------------------------------------------------------- sums and products


def _lowest(dtype: Any) -> Any:
    return -np.inf if jnp.issubdtype(dtype, np.floating) else False if dtype == np.bool_ else jnp.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    return np.inf if jnp.issubdtype(dtype, np.floating) else True if dtype == np.bool_ else jnp.iinfo(dtype).max


NEUTRAL: dict[str, Callable[[Any], Any]] = {
    "sum": lambda dtype: 0, "or": lambda dtype: False, "xor": lambda dtype: 0, "prod": lambda dtype: 1,
    "and": lambda dtype: True if dtype == np.bool_ else -1, "max": _lowest, "min": _highest, "logsumexp": _lowest,
}  # fmt: skip


@rule_for(
    "reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_xor", "argmax", "argmin"
)
def _reduce(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    x, axes, kind = arrays[0], eqn.params["axes"], eqn.primitive.name.removeprefix("reduce_").removeprefix("arg")
    if eqn.primitive.name.startswith("arg"):
        for axis in axes:
            must_begin(dims[0][axis])
    x = p.filled(x, dims[0], axes, NEUTRAL[kind](x.dtype))
    return bind(eqn, [x]), [tuple([d for i, d in enumerate(dims[0]) if i not in axes])]


@rule_for("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _running(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    x, axis = arrays[0], eqn.params["axis"]
    if dims[0][axis] is not None:
        must_begin(dims[0][axis])
        if eqn.params["reverse"]:
            x = p.filled(x, dims[0], (axis,), NEUTRAL[eqn.primitive.name.removeprefix("cum")](x.dtype))
    return bind(eqn, [x]), [tuple([varied(d) if i == axis else d for i, d in enumerate(dims[0])])]


@rule_for("dot_general")
def _product(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    (over_x, over_y), (batch_x, batch_y) = eqn.params["dimension_numbers"]
    x, y = arrays
    pairs = [(dims[0][i], dims[1][j]) for i, j in zip((*over_x, *batch_x), (*over_y, *batch_y))]
    together = [p.merged([(a,), (b,)], (0,))[0] for a, b in pairs]
    # what is equal everywhere is filled where the other has padding
    own = dict(zip(over_x, together)), dict(zip(over_y, together))
    x, y = [
        p.filled(z, tuple([at.get(i, d) for i, d in enumerate(dims[k])]), list(at), 0)
        for k, (z, at) in enumerate(zip((x, y), own))
    ]
    rest = [d for i, d in enumerate(dims[0]) if i not in over_x and i not in batch_x]
    rest += [d for i, d in enumerate(dims[1]) if i not in over_y and i not in batch_y]
    return bind(eqn, [x, y]), [(*together[len(over_x) :], *rest)]


# ---------------------------------------------------------------- parts and places


@rule_for("concatenate")
def _concatenate(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    axis, shape = eqn.params["dimension"], eqn.outvars[0].aval.shape
    if all(d[axis] is None for d in dims):
        return bind(eqn, arrays), [p.merged(dims, shape)]
    around = list(p.merged([(*d[:axis], None, *d[axis + 1 :]) for d in dims], shape))
    at: Any = 0
    made = jnp.zeros(shape, arrays[0].dtype)
    for x, d in zip(arrays, dims):  # what comes later lies over the padding of what came before
        made = lax.dynamic_update_slice_in_dim(made, x, at, axis)
        at = at + (x.shape[axis] if d[axis] is None else p.true(d[axis].prefix))
    around[axis] = p.fit.dim(shape[axis], twin.outvars[0].aval.shape[axis])
    return [made], [tuple(around)]


def _with_room(x: Any, axis: int, size: int) -> Any:
    """An array with as much behind its end, so that what begins in it and ends in padding is not moved back."""
    return lax.pad(x, jnp.zeros((), x.dtype), [(0, size if i == axis else 0, 0) for i in range(x.ndim)])


@rule_for("slice")
def _slice(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    x, found = arrays[0], []
    strides = eqn.params["strides"] or (1,) * x.ndim
    bounds = zip(eqn.params["start_indices"], eqn.params["limit_indices"])
    others = zip(twin.params["start_indices"], twin.params["limit_indices"])
    sizes, twins = eqn.invars[0].aval.shape, twin.invars[0].aval.shape
    for axis, ((start, limit), (start2, limit2)) in enumerate(zip(bounds, others)):
        dim, step = dims[0][axis], strides[axis]
        if (start, limit, step) == (0, sizes[axis], 1) and (start2, limit2) == (0, twins[axis]):
            found.append(dim)
            continue
        must_begin(dim)
        size, extent = limit - start, p.fit.dim(limit - start, limit2 - start2)
        if extent is not None and step != 1:
            every, some, others2 = extent.prefix.moved(step - 1, step), -(-size // step), -(-(limit2 - start2) // step)
            extent = Dim(((some, p.fit.follows(every, some, others2)),))
        if (moves := p.fit.extent(start, start2)) is not None:
            if extent is not None:
                x = _with_room(x, axis, size)
            x = lax.dynamic_slice_in_dim(x, p.true(moves), size, axis)
            x = lax.slice_in_dim(x, 0, size, step, axis)
        else:
            x = lax.slice_in_dim(x, start, limit, step, axis)
        found.append(extent)
    return [x], [tuple(found)]


@rule_for("dynamic_slice")
def _dynamic_slice(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    x, starts, found = arrays[0], arrays[1 : 1 + arrays[0].ndim], []
    sizes, twins = eqn.invars[0].aval.shape, twin.invars[0].aval.shape
    for axis, (size, size2) in enumerate(zip(eqn.params["slice_sizes"], twin.params["slice_sizes"])):
        dim = dims[0][axis]
        if (size, size2) == (sizes[axis], twins[axis]):
            found.append(dim)
            continue
        must_begin(dim)
        found.append(p.fit.dim(size, size2))
        if found[-1] is not None:
            x = _with_room(x, axis, size)
    return [lax.dynamic_slice(x, starts, eqn.params["slice_sizes"])], [tuple(found)]


@rule_for("dynamic_update_slice")
def _dynamic_update(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    x, update, *starts = arrays
    found = [varied(d) for d in dims[0]]
    moved = []
    for axis, (whole, part) in enumerate(zip(dims[0], dims[1])):
        if update.shape[axis] == x.shape[axis] and (whole is not None or part is None):
            found[axis] = varied(p.merged([(whole,), (part,)], (0,))[0])
        elif part is not None:
            must_begin(part)
            moved.append(axis)
        if update.shape[axis] != x.shape[axis]:
            must_begin(whole)
    if moved:  # what lies behind the valid part of the update stays
        room = [(0, update.shape[i] if i in moved else 0, 0) for i in range(x.ndim)]
        large = lax.pad(x, jnp.zeros((), x.dtype), room)
        before = lax.dynamic_slice(large, starts, update.shape)
        kept = p.filled(jnp.ones(update.shape, bool), dims[1], moved, False)
        large = lax.dynamic_update_slice(large, lax.select(kept, update, before), starts)
        return [lax.slice(large, (0,) * x.ndim, x.shape)], [tuple(found)]
    return [lax.dynamic_update_slice(x, update, starts)], [tuple(found)]


@rule_for("pad")
def _pad(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    x, value = arrays
    found: list[Dim | None] = []
    shape, other = eqn.outvars[0].aval.shape, twin.outvars[0].aval.shape
    config = list(eqn.params["padding_config"])
    for axis, ((low, high, inner), (low2, high2, _)) in enumerate(zip(config, twin.params["padding_config"])):
        dim = dims[0][axis]
        if dim is None and (low, high) == (low2, high2):
            found.append(None)
            continue
        if not (low or high or inner):
            found.append(dim)
            continue
        if inner:
            raise Refused("padding between elements")
        if dim is not None:
            must_begin(dim)
            x = p.filled(x, dims[0], (axis,), value) if not np.ndim(value) else x
        moves = p.fit.extent(low, low2)
        found.append(p.fit.dim(shape[axis], other[axis]))
        if moves is not None:
            size = x.shape[axis]
            rest = [shape[i] + size if i == axis else n for i, n in enumerate(x.shape)]  # with room, as `_with_room`
            x = lax.dynamic_update_slice_in_dim(jnp.full(rest, value, x.dtype), x, p.true(moves), axis)
            x = lax.slice_in_dim(x, 0, shape[axis], 1, axis)
            config[axis] = (0, 0, 0)
    return [lax.pad(x, value, config)], [tuple(found)]


@rule_for("rev")
def _reverse(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    x = arrays[0]
    for axis in eqn.params["dimensions"]:
        dim = dims[0][axis]
        if dim is None:
            x = lax.rev(x, (axis,))
        else:
            places = p.true(dim.prefix) - 1 - lax.iota(jnp.int32, x.shape[axis])
            x = jnp.take(x, jnp.maximum(places, 0), axis, mode="clip")
    return [x], dims


@rule_for("sort")
def _sort(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    along = eqn.params["dimension"]
    if any(d[along] is not None for d in dims):
        raise Refused("a sort along what is padded")
    found = p.merged(dims, arrays[0].shape)
    return bind(eqn, arrays), [found] * len(arrays)


# ---------------------------------------------------------------- look-ups


@rule_for("gather")
def _gather(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    (x, index), numbers = arrays, eqn.params["dimension_numbers"]
    sizes, twins = eqn.params["slice_sizes"], twin.params["slice_sizes"]
    if dims[1][-1] is not None:
        raise Refused("places of a changing number of axes")
    rows = list(dims[1][:-1])
    for at, place in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims):
        rows[place] = p.merged([(dims[0][at],), (rows[place],)], (0,))[0]
    taken = []
    for axis, dim in enumerate(dims[0]):
        if axis in numbers.operand_batching_dims:
            continue
        whole = sizes[axis] == x.shape[axis] and twins[axis] == twin.invars[0].aval.shape[axis]
        if not whole:
            must_begin(dim)
        if not whole and sizes[axis] != twins[axis]:
            raise Refused("a look-up of a changing size")
        if axis not in numbers.collapsed_slice_dims:
            taken.append(dim if whole else None)
    shape, rows, taken = eqn.outvars[0].aval.shape, rows[::-1], taken[::-1]
    found = [taken.pop() if axis in numbers.offset_dims else rows.pop() for axis in range(len(shape))]
    mode, safe = eqn.params["mode"], lax.GatherScatterMode
    mode = safe.CLIP if mode == safe.PROMISE_IN_BOUNDS else mode  # places in the padding are anything
    return bind(eqn, [x, index], mode=mode, indices_are_sorted=False, unique_indices=False), [tuple(found)]


_SCATTERED = {"scatter-add": "sum", "scatter_add": "sum", "scatter-mul": "prod", "scatter_mul": "prod", "scatter-min": "min",
              "scatter_min": "min", "scatter-max": "max", "scatter_max": "max"}  # fmt: skip


@rule_for(*_SCATTERED, "scatter")
def _scatter(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    (x, index, update), numbers = arrays, eqn.params["dimension_numbers"]
    window = numbers.update_window_dims
    kept = [
        i for i in range(x.ndim) if i not in numbers.inserted_window_dims and i not in numbers.operand_batching_dims
    ]
    found = [varied(d) for d in dims[0]]
    for axis, place in zip(kept, window):
        if dims[0][axis] is not None or dims[2][place] is not None:
            found[axis] = varied(p.merged([(dims[0][axis],), (dims[2][place],)], (0,))[0])
            if update.shape[place] != x.shape[axis] or dims[0][axis] is None:
                raise Refused("an update of a part of what is padded")
    if dims[1][-1] is not None:
        raise Refused("places of a changing number of axes")
    rows = [i for i in range(update.ndim) if i not in window]
    own = p.merged([dims[1][:-1], tuple([dims[2][i] for i in rows])], tuple([update.shape[i] for i in rows]))
    for at in (*numbers.inserted_window_dims, *numbers.scatter_dims_to_operand_dims):
        if at not in kept:
            must_begin(dims[0][at])
    params: dict[str, Any] = {"indices_are_sorted": False}
    if any(d is not None for d in own):
        spread = list(dims[2])
        for i, d in zip(rows, own):
            spread[i] = d
        kind = _SCATTERED.get(eqn.primitive.name)
        if kind is not None:
            update = p.filled(update, tuple(spread), rows, NEUTRAL[kind](update.dtype))
        index = p.filled(index, (*own, None), range(index.ndim - 1), jnp.iinfo(index.dtype).max)
        params |= {"mode": lax.GatherScatterMode.FILL_OR_DROP, "unique_indices": False}
    return bind(eqn, [x, index, update], **params), [tuple(found)]
