"""Counting: how many elements have a value or are in a bin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, INT
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.core.record import guards
from bireme.core.tensor.tensor import read
from bireme.ops.creation import tensors
from bireme.ops.manipulation import reshape
from bireme.ops.math import logic
from bireme.ops.reduction import reductions
from bireme.ops.search.sort import REAL


@op(internal=True, differentiable=False, upcast=True)
def count_into(places: Tensor, weights: Tensor | None, n: int) -> Tensor:
    """How often each index below n occurs, or the sum of its weights; other indices are left out. Use `bincount`."""
    zero = jnp.zeros(n, jnp.int64 if weights is None else weights.dtype)
    outside = (places < 0) | (places >= n)
    places = jnp.where(outside, n, places).reshape(-1)  # dropped
    return zero.at[places].add(1 if weights is None else weights.reshape(-1), mode="drop")


def _count_numpy(places, weights, n):
    places = places.reshape(-1)
    inside = (places >= 0) & (places < n)
    found = np.bincount(places[inside], None if weights is None else weights.reshape(-1)[inside], minlength=n)
    return found if weights is None else found.astype(weights.dtype)


count_into.numpy_form = _count_numpy
count_into.infer(lambda weights, n: sig_of((n,), dtypes.int64 if weights is None else weights.dtype))


@composite(method=True)
def bincount(x: Tensor, weights: Tensor | None = None, minlength: Attr[int | Tensor] = 0) -> Tensor:
    """Count how often each non-negative integer occurs.

    The size of the result depends on the values, so the call computes them at once.

    Args:
        x: 1-D tensor of non-negative integers.
        weights: Weights to sum instead of counting, in the shape of ``x``; dtypes other than float32 and float64 become
            float64. Default: None.
        minlength: Least size of the result. Default: 0.

    Returns:
        1-D tensor of size ``max(max(x) + 1, minlength)``: counts of int64, or sums of weights.

    Raises:
        ValueError: If an element is negative, or the shapes differ.

    Examples:
        >>> bireme.bincount(bireme.to_tensor([1, 2, 1])).tolist()
        [0, 2, 1]
    """
    if x.dtype.kind != "i":
        raise errors.bad("bincount(x)", "an integer tensor", x, kind=errors.ArgumentTypeError)
    if x.ndim != 1:
        raise errors.bad("bincount(x)", "a 1-D tensor", x)
    if weights is not None and weights.shape != x.shape:
        raise errors.bad("bincount(weights)", f"shape {x.shape}, as x has", weights)
    least = minlength.item() if isinstance(minlength, Tensor) and minlength._value.sig.size == 1 else minlength
    if not isinstance(least, (int, float, np.integer)):
        raise errors.bad("bincount(minlength)", "an integer", minlength, kind=errors.ArgumentTypeError)
    if least < 0:
        raise errors.bad("bincount(minlength)", "a non-negative integer", minlength)
    host = x._host()
    if host.size and host.min() < 0:
        raise errors.bad("bincount(x)", "non-negative integers", int(host.min()))
    n = max(int(host.max()) + 1 if host.size else 0, int(least))
    if weights is not None and weights.dtype not in (dtypes.float32, dtypes.float64):
        weights = weights.astype(dtypes.float64)
    return count_into(x, weights, n)


# ---------------------------------------------------------------- bins


def _bounds(x, low, high, widen):
    """The range of the bins: the given one, or that of the data if it is empty; a single value is widened."""
    if x.size:
        wide = x.astype(low.dtype)
        given = low != high
        low, high = jnp.where(given, low, jnp.min(wide)), jnp.where(given, high, jnp.max(wide))
    room = jnp.where(low == high, jnp.asarray(widen, low.dtype), jnp.zeros((), low.dtype))
    return low - room, high + room


@op(internal="bin", differentiable=False, dtypes=REAL, numbers={"low": "float64", "high": "float64"}, numpy=True)
def bin_of(x: Tensor, low: Tensor | float, high: Tensor | float, bins: int) -> Tensor:
    """The index of each element's bin among bins of equal width between low and high, -1 outside; use `histogram`."""
    wide = x.astype(low.dtype)
    low, high = _bounds(x, low, high, 1.0)
    place = jnp.floor((wide - low) * bins / (high - low))
    place = jnp.where((wide >= low) & (wide <= high), jnp.minimum(place, bins - 1), -1)
    return place.astype(jnp.int64)


bin_of.infer(lambda x: sig_of(x.shape, dtypes.int64))


@op(internal=True, differentiable=False, dtypes=REAL, numbers={"low": "float64", "high": "float64"}, numpy=True)
def bin_edges(x: Tensor, low: Tensor | float, high: Tensor | float, bins: int) -> Tensor:
    """Edges of bins of equal width between low and high; use `histogram_bin_edges`."""
    low, high = _bounds(x, low, high, 0.5)
    return (low + (high - low) * (jnp.arange(bins + 1) / max(bins, 1))).astype(jnp.float32)


bin_edges.infer(lambda bins: sig_of((bins + 1,), dtypes.float32))


def _check_bins(name: str, bins: Any, low: Any, high: Any) -> tuple[int, float, float]:
    n = bins.item() if isinstance(bins, Tensor) and bins._value.sig.size == 1 else bins
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
        raise errors.bad(f"{name}(bins)", "an integer", bins, kind=errors.ArgumentTypeError)
    if n < 1:
        raise errors.bad(f"{name}(bins)", "at least 1 bin", bins)
    ends = [e.item() if isinstance(e, Tensor) and e._value.sig.size == 1 else e for e in (low, high)]
    for where, e in zip(("min", "max"), ends):
        if not isinstance(e, (int, float, np.integer, np.floating)):
            raise errors.bad(f"{name}({where})", "a number", e, kind=errors.ArgumentTypeError)
        if not math.isfinite(e):
            raise errors.bad(f"{name}({where})", "a finite number", e)
    if ends[0] > ends[1]:
        raise errors.bad(f"{name}(max)", f"at least min, {ends[0]}", ends[1])
    return int(n), float(ends[0]), float(ends[1])


def _check_range(x: Tensor) -> None:
    """Raise unless bins can span all elements."""
    if x.dtype in INT:
        limit = np.iinfo(x.dtype.np).max

        def spread() -> Tensor:
            wide = x.astype(dtypes.float64)
            return logic.greater_equal(reductions.max(wide) - reductions.min(wide), float(limit))

        guards.require(
            read(x),
            "histogram(input)",
            f"a range that {x.dtype.name} holds",
            host=lambda array: float(array.max()) - float(array.min()) >= limit,
            device=spread,
            got="a wider range",
        )
    else:
        guards.require(
            read(x),
            "histogram(input)",
            "finite numbers where min and max are not given",
            host=lambda array: not np.isfinite(array).all(),
            device=lambda: logic.logical_not(reductions.all(logic.isfinite(x))),
            got="NaN or infinity",
        )


@composite(method=True, c_ops={"histogram": "x:input weight=None bins=100 min=0.0 max=0.0 density=False"})
def histogram(input: Tensor, bins: Attr[int | Tensor] = 100, min: Attr[float | Tensor] = 0.0,
              max: Attr[float | Tensor] = 0.0, weight: Tensor | None = None,
              density: bool = False) -> Tensor:  # fmt: skip
    """Count the elements in bins of equal width.

    Bin ``i`` holds ``min + i * width <= x < min + (i + 1) * width``; the last one includes ``max``. Other elements are
    not counted.

    Args:
        input: Tensor of real numbers.
        bins: Number of bins, at least 1. Default: 100.
        min: Lower edge of the first bin. If it equals ``max``, the bins span from the smallest to the largest element.
            Default: 0.0.
        max: Upper edge of the last bin. Default: 0.0.
        weight: Weights to sum instead of counting, in the shape and dtype of ``input``. Default: None.
        density: Whether to divide by the total and the width of a bin, so that the integral over the bins is 1.
            Default: False.

    Returns:
        1-D tensor with one element for each bin: counts of int64, or float32 with ``weight`` or ``density``.

    Raises:
        ValueError: If ``max`` is less than ``min``, an edge is not finite, or the bins are to span elements that are
            not.

    Examples:
        >>> bireme.histogram(bireme.to_tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3).tolist()
        [0, 2, 1, 0]
    """
    n, low, high = _check_bins("histogram", bins, min, max)
    if input.dtype in INT:  # as in Paddle, the range has the dtype of the input
        low, high = int(low), int(high)
    if weight is not None and (weight.shape != input.shape or weight.dtype is not input.dtype):
        raise errors.bad("histogram(weight)", f"shape {input.shape}, {input.dtype.name}, as input has", weight)
    if low == high and input._value.sig.size and (input.dtype in INT or input.dtype.is_inexact):
        _check_range(input)
    places = bin_of(input, low, high, n)
    found = count_into(places, None if weight is None else weight.astype(dtypes.float32), n)
    if not density:
        return found
    edges = bin_edges(input, low, high, n) if low == high else None
    width = (edges[n] - edges[0]) / n if edges is not None else (high - low) / n
    counts = found.astype(dtypes.float32)
    return counts / (reductions.sum(counts) * width) if input._value.sig.size else counts


@composite(method=True)
def histogram_bin_edges(input: Tensor, bins: Attr[int | Tensor] = 100, min: Attr[float | Tensor] = 0.0,
                        max: Attr[float | Tensor] = 0.0) -> Tensor:  # fmt: skip
    """Edges of the bins of a histogram with bins of equal width.

    Args:
        input: Tensor of real numbers.
        bins: Number of bins, at least 1. Default: 100.
        min: Lower edge of the first bin. If it and ``max`` are 0, the bins span from the smallest to the largest
            element. Default: 0.0.
        max: Upper edge of the last bin. If it equals ``min`` and is not 0, the bins span 0.5 to both sides of it.
            Default: 0.0.

    Returns:
        Tensor of float32 with ``bins + 1`` elements.

    Examples:
        >>> bireme.histogram_bin_edges(bireme.to_tensor([1.0, 2.0, 1.0]), bins=2).tolist()
        [1.0, 1.5, 2.0]
    """
    n, low, high = _check_bins("histogram_bin_edges", bins, min, max)
    if low == high == 0 and not input._value.sig.size:
        raise errors.bad("histogram_bin_edges(input)", "at least one element, since min and max are not given", input)
    if low == high != 0:  # a single value: widened to both sides
        low, high = low - 0.5, high + 0.5
    if low != high and input.dtype not in REAL:
        input = input.astype(dtypes.float32)  # only the range counts
    return bin_edges(input, low, high, n)


@op(internal="cell", differentiable=False, dtypes=FLOAT)
def cell_of(x: Tensor, edges: list[Tensor]) -> Tensor:
    """The index of each point's cell in a grid, -1 outside; use `histogramdd`."""
    return _cell(x, edges)


def _cell(x, edges):
    cell, outside = 0, False
    for d, bounds in enumerate(edges):
        along = x[..., d]
        n = bounds.shape[0] - 1
        place = jnp.searchsorted(bounds, along, side="right") - 1
        place = jnp.where(along == bounds[-1], n - 1, place)  # the last bin includes both of its edges
        outside = outside | (along < bounds[0]) | (along > bounds[-1]) | (along != along)
        cell = cell * n + place
    return jnp.where(outside, -1, cell).astype(jnp.int64)


cell_of.numpy_form = on_numpy(_cell)
cell_of.infer(lambda x: sig_of(x.shape[:-1], dtypes.int64))


@composite(method=True)
def histogramdd(x: Tensor, bins: Attr[int | Sequence[int] | Sequence[Tensor]] = 10,
                ranges: Attr[Sequence[float]] = None, density: bool = False,
                weights: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """Histogram in several dimensions: count points in the cells of a grid.

    The last bin of each dimension includes its upper edge; points outside of the grid are not counted.

    Args:
        x: Points, a tensor of float32 or float64 whose last axis holds the ``D`` coordinates.
        bins: Number of bins: an integer for all dimensions or a list with one for each, or a list of ``D`` 1-D tensors
            with the edges. Default: 10.
        ranges: List of ``2 * D`` numbers, the lowest and the highest edge of each dimension. Default: None, the range
            of the data.
        density: Whether to divide by the total and the volume of each cell, so that the integral over the grid is 1.
            Default: False.
        weights: Weights to sum instead of counting, in the shape of ``x`` without its last axis. Default: None.

    Returns:
        A pair: a tensor with ``D`` axes of the counts, in the dtype of ``x``, and a list of ``D`` tensors with the
        edges.

    Raises:
        ValueError: If a shape or a number of entries does not fit.

    Examples:
        >>> bireme.histogramdd(bireme.to_tensor([[1.0, 2.0], [3.0, 2.0]]), bins=2)[0].tolist()
        [[0.0, 1.0], [0.0, 1.0]]
    """
    if x.ndim < 2:
        raise errors.bad("histogramdd(x)", "a tensor with at least 2 dimensions", x, kind=errors.ArgumentError)
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise errors.bad("histogramdd(x)", "float32 or float64", described=x.dtype.name, kind=errors.DtypeError)
    if weights is not None and weights.dtype is not x.dtype:
        raise errors.bad(
            "histogramdd(weights)",
            f"{x.dtype.name}, as x has",
            described=weights.dtype.name,
            kind=errors.ArgumentTypeError,
        )
    if weights is not None and weights.shape != x.shape[:-1]:
        raise errors.bad(
            "histogramdd(weights)",
            f"shape {x.shape[:-1]}, as x has before its last axis",
            weights,
            kind=errors.ArgumentError,
        )
    edges = _grid(x, bins, ranges)
    extents = [e.shape[0] - 1 for e in edges]
    given = None if weights is None else reshape.reshape(weights, [-1])
    found = count_into(cell_of(x, edges), given, math.prod(extents)).astype(x.dtype)
    found = reshape.reshape(found, reshape.Literal(extents))
    if density:
        total = reductions.sum(found)
        for d, e in enumerate(edges):
            found = found / reshape.reshape(e[1:] - e[:-1], [-1 if i == d else 1 for i in range(len(edges))])
        found = found / total
    return found, edges


def _grid(x: Tensor, bins: Any, ranges: Any) -> list[Tensor]:
    """The edges along each dimension: given, or in equal steps through the range of the data."""
    n = x.shape[-1]
    if ranges is not None and (not isinstance(ranges, (list, tuple)) or len(ranges) != 2 * n):
        raise errors.bad(
            "histogramdd(ranges)",
            f"a list of {2 * n} numbers, min and max of each of the {n} dimensions",
            ranges,
            kind=errors.ArgumentError,
        )
    counts = [bins] * n if isinstance(bins, int) and not isinstance(bins, bool) else bins
    if not isinstance(counts, (list, tuple)) or not all(isinstance(b, (int, Tensor)) for b in counts):
        raise errors.bad(
            "histogramdd(bins)",
            "an integer, a list of integers or a list of tensors",
            bins,
            kind=errors.for_integer(bins),
        )
    if len(counts) != n:
        raise errors.bad("histogramdd(bins)", f"{n} entries, one for each coordinate", bins, kind=errors.ArgumentError)
    if all(isinstance(b, Tensor) for b in counts):
        if ranges is not None:
            raise errors.bad("histogramdd(ranges)", "None, since bins are given as tensors", ranges)
        for b in counts:
            if b.ndim != 1 or b.dtype is not x.dtype or b.shape[0] < 2:
                raise errors.bad(
                    "histogramdd(bins)",
                    f"1-D tensors of {x.dtype.name} with at least two elements",
                    b,
                    kind=errors.ArgumentError,
                )
        return list(counts)
    return [_steps(x, d, b, None if ranges is None else ranges[2 * d : 2 * d + 2]) for d, b in enumerate(counts)]


def _steps(x: Tensor, d: int, n: Any, ends: Any) -> Tensor:
    if not isinstance(n, int) or n < 1:
        raise errors.bad("histogramdd(bins)", "at least 1 bin along each coordinate", n)
    parts = tensors.arange(0, n + 1, 1, x.dtype) / n
    if ends is not None:
        if not all(isinstance(e, (int, float, np.number)) for e in ends):
            raise errors.bad("histogramdd(ranges)", "numbers", ends, kind=errors.ArgumentTypeError)
        low, high = map(float, ends)
        if not low <= high:
            raise errors.bad("histogramdd(ranges)", "pairs (min, max) with min < max", ends)
        return parts * high + (1 - parts) * low
    if not x._value.sig.size:
        return parts
    along = x.detach()[..., d]
    return parts * reductions.max(along) + (1 - parts) * reductions.min(along)  # in this form both edges are exact
