"""Rules of padding for windows that move over arrays, as of convolutions and poolings, and for transforms of whole rows.

A window reads nothing behind the last result's: with zeros, or what is neutral, behind the valid part of an array it
finds there what the call without padding finds outside of its array.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from bireme.core.xla_exec.padded import Made, Padding, alike, bind, rule_for
from bireme.core.xla_exec.padded_rules import NEUTRAL
from bireme.core.xla_exec.padded_sizes import Dim, Dims, Refused, must_begin, varied


def _moves_alike(eqn: Any, twin: Any) -> None:
    """Refuse windows that differ with the sizes; where the last one ends is what the sizes say."""
    for name, value in eqn.params.items():
        other = twin.params[name]
        if name == "padding":
            value, other = [low for low, _ in value], [low for low, _ in other]
        if not alike({name: value}, {name: other}):
            raise Refused(f"other windows at other sizes: {name}")


def _size(p: Padding, eqn: Any, twin: Any, axis: int, along: int, dim: Dim | None, window: int) -> Dim | None:
    """The size along an axis that a window moves over, the one at place `along`: so often as it moves, and once more."""
    size, other = eqn.outvars[0].aval.shape[axis], twin.outvars[0].aval.shape[axis]
    params, pads = eqn.params, eqn.params["padding"][along]
    dilation = params["rhs_dilation" if "rhs_dilation" in params else "window_dilation"][along]
    between = params.get("lhs_dilation", params.get("base_dilation"))[along]
    if dim is None or between != 1 or pads != twin.params["padding"][along]:
        return p.fit.dim(size, other)
    step, reach = params["window_strides"][along], (window - 1) * dilation + 1
    extent = dim.prefix.moved(sum(pads) - reach + step, step)
    return Dim(((size, p.fit.follows(extent, size, other)),))


@rule_for("conv_general_dilated")
def _convolution(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    _moves_alike(eqn, twin)
    params, numbers = eqn.params, eqn.params["dimension_numbers"]
    (batch, inner, *across), (outer, inner_w, *window) = numbers.lhs_spec, numbers.rhs_spec
    x, w = dims
    grouped = params["feature_group_count"] > 1, params["batch_group_count"] > 1
    if (grouped[0] and (x[inner], w[inner_w], w[outer]) != (None,) * 3) or (
        grouped[1] and (x[batch], w[outer]) != (None,) * 2
    ):
        raise Refused("groups of a changing size")
    for dim in (*[x[i] for i in across], *[w[i] for i in window]):
        must_begin(dim)
    both = p.merged([(x[inner],), (w[inner_w],)], (0,))[0]
    x, w = [tuple([both if i == at else d for i, d in enumerate(own)]) for own, at in ((x, inner), (w, inner_w))]
    filled = [p.filled(arrays[0], x, (inner, *across), 0), p.filled(arrays[1], w, (inner_w, *window), 0)]
    found = dict(zip(numbers.out_spec, (varied(x[batch]), varied(w[outer]))))
    for at, (axis, i, j) in enumerate(zip(numbers.out_spec[2:], across, window)):
        still = w[j] is None  # a window of a changing size is that of a gradient
        found[axis] = _size(p, eqn, twin, axis, at, x[i] if still else None, arrays[1].shape[j])
    return bind(eqn, filled), [tuple([found[axis] for axis in range(len(found))])]


@rule_for("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def _pooling(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    _moves_alike(eqn, twin)
    moved = _moved(eqn, arrays[0].ndim)
    for axis in moved:
        must_begin(dims[0][axis])
    x = p.filled(arrays[0], dims[0], moved, NEUTRAL[eqn.primitive.name.rpartition("_")[2]](arrays[0].dtype))
    window = eqn.params["window_dimensions"]
    found = [_size(p, eqn, twin, i, i, d, window[i]) if i in moved else d for i, d in enumerate(dims[0])]
    return bind(eqn, [x]), [tuple(found)]


def _moved(eqn: Any, axes: int) -> list[int]:
    """The axes along which a window is more than a place."""
    params, alone = eqn.params, (1, 1, (0, 0))
    each = zip(params["window_dimensions"], params["window_strides"], params["padding"])
    return [i for i, (size, stride, pads) in zip(range(axes), each) if (size, stride, tuple(pads)) != alone]


@rule_for("select_and_scatter_add")
def _pooling_back(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    _moves_alike(eqn, twin)
    moved = _moved(eqn, arrays[1].ndim)
    for axis in moved:
        must_begin(dims[0][axis])
        must_begin(dims[1][axis])
    kind = "max" if eqn.params["select_prim"].name == "ge" else "min"
    source = p.filled(arrays[0], dims[0], moved, 0)
    x = p.filled(arrays[1], dims[1], moved, NEUTRAL[kind](arrays[1].dtype))
    for i, (a, b) in enumerate(zip(*dims)):
        if i not in moved:
            p.merged([(a,), (b,)], (0,))
    return bind(eqn, [source, x]), [tuple([varied(d) for d in dims[1]])]


# ---------------------------------------------------------------- whole rows


def _must_be_whole(dims: Dims, axes: Any) -> None:
    if any(dims[axis] is not None for axis in axes):
        raise Refused("rows of a changing length taken as a whole")


@rule_for("fft")
def _fft(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    rest = arrays[0].ndim - len(eqn.params["fft_lengths"])
    _must_be_whole(dims[0], range(rest, arrays[0].ndim))
    if not alike(eqn.params, twin.params):
        raise Refused("a transform of another length")
    return bind(eqn, arrays), [tuple([varied(d) for d in dims[0]])]


@rule_for("top_k")
def _top(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    axis = eqn.params.get("axis", arrays[0].ndim - 1)
    _must_be_whole(dims[0], [axis])
    if eqn.params["k"] != twin.params["k"]:
        raise Refused("a changing number of the largest")
    return bind(eqn, arrays), [tuple([varied(d) for d in dims[0]])] * 2


@rule_for("split")
def _split(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    _must_be_whole(dims[0], [eqn.params["axis"]])
    if eqn.params["sizes"] != twin.params["sizes"]:
        raise Refused("parts of a changing size")
    return bind(eqn, arrays), [dims[0]] * len(eqn.params["sizes"])


@rule_for("unstack")
def _unstack(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    axis = eqn.params["axis"]
    _must_be_whole(dims[0], [axis])
    made = bind(eqn, arrays)
    return made, [(*dims[0][:axis], *dims[0][axis + 1 :])] * len(made)


@rule_for("tile")
def _tile(p: Padding, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> Made:
    found: list[Dim | None] = []
    for size, dim, times, other in zip(arrays[0].shape, dims[0], eqn.params["reps"], twin.params["reps"]):
        extent = p.fit.extent(times, other)
        inner = dim.factors if dim is not None else ((size, None),)
        if extent is None and times == 1:
            found.append(dim)
        elif extent is None and dim is None:
            found.append(None)
        else:
            found.append(Dim(tuple([f for f in ((times, extent), *inner) if f[0] != 1 or f[1] is not None])))
    return [jnp.tile(arrays[0], eqn.params["reps"])], [tuple(found)]
