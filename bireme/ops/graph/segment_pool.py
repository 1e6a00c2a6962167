"""Reductions of segments: sum, mean, maximum and minimum of the rows that have the same segment ID."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, INT
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import grouping, row_sums
from bireme.core.numpy_exec.rebinding import dual
from bireme.ops._shared.precision import widen
from bireme.ops.indexing.along_axis import add_rows, check_filled, put_axis, take_axis

POOLS = ("sum", "mean", "max", "min")


def _counts_numpy(index, rows):
    return np.diff(grouping.groups(index, rows).starts).astype(np.int32)


@dual(_counts_numpy)
def _counts(index, rows):
    """How many entries each row has."""
    return put_axis(jnp.zeros(rows, np.int32), index, jnp.ones(index.shape, np.int32), 0, "add")


def _beside(counts, like):
    return counts.reshape((-1,) + (1,) * (like.ndim - 1))


def _quotient(total, counts):
    """Totals divided by counts, 0 where there is nothing; integers are truncated towards zero."""
    some = jnp.maximum(_beside(counts, total), 1).astype(total.dtype)
    if jnp.issubdtype(total.dtype, jnp.integer):
        return jnp.abs(total) // some * jnp.sign(total)
    return total / some


def _best_numpy(x, index, pool, rows):
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    out = np.zeros((rows, flat.shape[1]), x.dtype)
    if flat.size:
        row_sums.most(grouping.groups(index, rows), np.maximum if pool == "max" else np.minimum, flat, out)
    return out.reshape(rows, *x.shape[1:])


@dual(_best_numpy)
def _best(x, index, pool, rows):
    """The largest or smallest of the entries of each row, 0 where there are none."""
    limits = np.iinfo(x.dtype) if jnp.issubdtype(x.dtype, jnp.integer) else None
    lowest = (limits.min if pool == "max" else limits.max) if limits else (-np.inf if pool == "max" else np.inf)
    found = put_axis(jnp.full((rows, *x.shape[1:]), lowest, x.dtype), index, x, 0, pool)
    return jnp.where(_beside(_counts(index, rows), found) > 0, found, jnp.zeros((), x.dtype))


# compiled for CPU, a scatter takes several times as long as the loops of NumPy and SciPy
@op(internal=True, dtypes=FLOAT | INT, numpy=True, by_numpy=True, selects=lambda attrs: attrs["pool"] in ("max", "min"))
def pool_rows(x: Tensor, index: Tensor, pool: str, rows: int) -> Tensor:
    """Rows of `x` reduced into `rows` rows at `index`, 0 where there are none; use `segment_sum` and its kin."""
    wide = widen(x)
    if pool in ("max", "min"):
        return _best(wide, index, pool, rows).astype(x.dtype)
    total = put_axis(jnp.zeros((rows, *x.shape[1:]), wide.dtype), index, wide, 0, "add")
    return (total if pool == "sum" else _quotient(total, _counts(index, rows))).astype(x.dtype)


pool_rows.infer(lambda x, rows: sig_of((rows, *x.shape[1:]), x.dtype))
pool_rows.index(lambda s: [("index", 0, s["rows"])])


@pool_rows.check
def _(x, index, rows):
    if not x.ndim or index.ndim != 1 or index.dtype.kind != "i" or index.shape[0] != x.shape[0]:
        raise errors.bad(
            "pool_rows(index)",
            f"a 1-D integer tensor, one element per row of shape {list(x.shape)}",
            described=f"shape {list(index.shape)}",
            kind=errors.ShapeError,
        )
    check_filled("pool_rows(index)", rows, index)


@pool_rows.grad(numpy=True)
def _(g, out, x, index, pool, rows):
    if pool == "mean":
        g = (widen(g) / jnp.maximum(_beside(_counts(index, rows), g), 1).astype(widen(g).dtype)).astype(g.dtype)
    part = take_axis(g, index)
    if pool in ("sum", "mean"):
        return part, None
    best = take_axis(out, index)
    # every row that is the largest gets all of the gradient, as in Paddle
    return jnp.where((x == best) | ((x != x) & (best != best)), part, jnp.zeros((), g.dtype)), None


def _sum_numpy(x, src, dst, rows):
    wide = widen(x)
    flat = np.ascontiguousarray(wide).reshape(len(x), math.prod(x.shape[1:]))
    out = np.zeros((rows, flat.shape[1]), wide.dtype)
    if out.size and src.size:
        if not row_sums.available(out.dtype):
            return put_axis(out, dst, np.take(flat, src, 0, mode="clip"), 0, "add").reshape(rows, *x.shape[1:])
        row_sums.add_products(grouping.groups(dst, rows, src, len(x)), None, flat, out)
    return out.reshape(rows, *x.shape[1:])


@dual(_sum_numpy)
def _sum(x, src, dst, rows):
    """The rows of `x` at `src` added up at `dst`, in a dtype wide enough to add up in."""
    wide = widen(x)
    return put_axis(jnp.zeros((rows, *x.shape[1:]), wide.dtype), dst, take_axis(wide, src), 0, "add")


def _sum_looped(x, src, dst, rows):
    wide = widen(x)
    return add_rows(jnp.zeros((rows, *x.shape[1:]), wide.dtype), dst, take_axis(wide, src))


@op(internal=True, dtypes=FLOAT | INT, numpy=True, by_numpy=True)
def sum_neighbors(x: Tensor, src: Tensor, dst: Tensor, rows: int, mean: bool = False) -> Tensor:
    """Rows of `x` at `src` added up, or averaged, in `rows` rows at `dst`; use `send_u_recv`. No message is written down."""
    return _averaged(_sum(x, src, dst, rows), dst, mean).astype(x.dtype)


@sum_neighbors.on("cpu", mesh=False)
def _(x, src, dst, rows, mean):
    return _averaged(_sum_looped(x, src, dst, rows), dst, mean).astype(x.dtype)


def _averaged(total, dst, mean):
    return _quotient(total, _counts(dst, len(total))) if mean else total


sum_neighbors.infer(lambda x, rows: sig_of((rows, *x.shape[1:]), x.dtype))
sum_neighbors.index(lambda s: [("src", 0, s["x"].shape[0]), ("dst", 0, s["rows"])])
sum_neighbors.effort(lambda x, src: 2 * src.size * (x.size // max(x.shape[0], 1)))


@sum_neighbors.check
def _(x, src, dst, rows):
    check_filled("send_u_recv(src_index)", x.shape[0], src)
    check_filled("send_u_recv(dst_index)", rows, dst)


@sum_neighbors.grad(numpy=True)
def _(g, src, dst, rows, mean, sigs):
    return _sum(_averaged(widen(g), dst, mean), dst, src, sigs[0].shape[0]).astype(g.dtype), None, None


@sum_neighbors.grad(on="cpu", mesh=False)
def _(g, src, dst, rows, mean, sigs):
    return _sum_looped(_averaged(widen(g), dst, mean), dst, src, sigs[0].shape[0]).astype(g.dtype), None, None


def _segments(name: str, data: Tensor, segment_ids: Tensor, pool: str) -> Tensor:
    if segment_ids.dtype.name not in ("int32", "int64"):
        raise errors.bad(
            f"{name}(segment_ids)", "int32 or int64", described=segment_ids.dtype.name, kind=errors.DtypeError
        )
    if segment_ids.ndim == 2 and segment_ids.shape[1] == 1:
        segment_ids = segment_ids.reshape([-1])
    if not data.ndim or segment_ids.ndim != 1 or segment_ids.shape[0] != data.shape[0]:
        raise errors.bad(
            f"{name}(segment_ids)",
            f"one element per row of data of shape {data.shape}",
            described=f"shape {segment_ids.shape}",
            kind=errors.ArgumentTypeError,
        )
    host = segment_ids._host()
    if host.size and host[0] < 0:
        raise errors.bad(f"{name}(segment_ids)", "non-negative integers", int(host[0]), kind=errors.OutOfRangeError)
    falls = np.flatnonzero(np.diff(host) < 0)
    if falls.size:
        i = int(falls[0])
        raise errors.bad(f"{name}(segment_ids)", "non-decreasing integers", described=f"{host[i]} before {host[i + 1]}")
    return pool_rows(data, segment_ids, pool, int(host[-1]) + 1 if host.size else 0)


@composite()
def segment_sum(data: Tensor, segment_ids: Tensor) -> Tensor:
    """Sum the rows of each segment.

    Args:
        data: Tensor with at least one axis.
        segment_ids: int32 or int64 tensor with the segment of each row, non-negative and sorted; its values are waited
            for.

    Returns:
        Tensor with one row for each segment up to the last; those that do not occur are zero.

    Raises:
        ValueError: If ``segment_ids`` is not sorted.

    Examples:
        >>> bireme.incubate.segment_sum(bireme.to_tensor([1.0, 2.0, 5.0]), bireme.to_tensor([0, 0, 2])).tolist()
        [3.0, 0.0, 5.0]
    """
    return _segments("segment_sum", data, segment_ids, "sum")


@composite()
def segment_mean(data: Tensor, segment_ids: Tensor) -> Tensor:
    """Average the rows of each segment.

    Args:
        data: Tensor with at least one axis.
        segment_ids: int32 or int64 tensor with the segment of each row, non-negative and sorted; its values are waited
            for.

    Returns:
        Tensor with one row for each segment up to the last; those that do not occur are zero.

    Raises:
        ValueError: If ``segment_ids`` is not sorted.

    Examples:
        >>> bireme.incubate.segment_mean(bireme.to_tensor([1.0, 2.0, 5.0]), bireme.to_tensor([0, 0, 1])).tolist()
        [1.5, 5.0]
    """
    return _segments("segment_mean", data, segment_ids, "mean")


@composite()
def segment_max(data: Tensor, segment_ids: Tensor) -> Tensor:
    """Take the elementwise maximum of the rows of each segment.

    Args:
        data: Tensor with at least one axis.
        segment_ids: int32 or int64 tensor with the segment of each row, non-negative and sorted; its values are waited
            for.

    Returns:
        Tensor with one row for each segment up to the last; those that do not occur are zero.

    Raises:
        ValueError: If ``segment_ids`` is not sorted.

    Examples:
        >>> bireme.incubate.segment_max(bireme.to_tensor([1.0, 2.0, 5.0]), bireme.to_tensor([0, 0, 1])).tolist()
        [2.0, 5.0]
    """
    return _segments("segment_max", data, segment_ids, "max")


@composite()
def segment_min(data: Tensor, segment_ids: Tensor) -> Tensor:
    """Take the elementwise minimum of the rows of each segment.

    Args:
        data: Tensor with at least one axis.
        segment_ids: int32 or int64 tensor with the segment of each row, non-negative and sorted; its values are waited
            for.

    Returns:
        Tensor with one row for each segment up to the last; those that do not occur are zero.

    Raises:
        ValueError: If ``segment_ids`` is not sorted.

    Examples:
        >>> bireme.incubate.segment_min(bireme.to_tensor([1.0, 2.0, 5.0]), bireme.to_tensor([0, 0, 1])).tolist()
        [1.0, 5.0]
    """
    return _segments("segment_min", data, segment_ids, "min")
