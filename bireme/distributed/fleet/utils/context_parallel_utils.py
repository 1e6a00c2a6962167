"""Context parallel training: sequences divided among processes through the whole model, and attention over all parts.

`ring_attention` passes keys and values from process to process; `alltoall_attention` divides heads instead of the sequence
while it computes. Among one process both are attention as ever.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bireme.autograd.py_layer import PyLayer
from bireme.core.base import errors
from bireme.core.processes.collectives import Call, described
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group, check_tensor, member
from bireme.ops import (
    concat,
    exp,
    full_like,
    log,
    matmul,
    maximum,
    reshape,
    scaled_dot_product_attention,
    sum,
    to_tensor,
    transpose,
    tril,
    where,
    zeros_like,
)
from bireme.ops.creation.tensors import ones

__all__ = ["alltoall_attention", "gather_sequence", "ring_attention", "split_sequence"]


def _chunks(count: int, balanced: bool) -> list[list[int]]:
    """The numbers of the chunks that each process has, in the order of the sequence."""
    return [[i, 2 * count - 1 - i] for i in range(count)] if balanced else [[i] for i in range(count)]


def split_sequence(x: Tensor, group: Group | None = None, axis: int = 1, balanced: bool = True) -> Tensor:
    """Return this process' part of a sequence.

    Args:
        x: The whole tensor, the same in all processes: indices, labels, positions.
        group: Processes that share the sequence. Default: None, the default group.
        axis: Axis of the sequence. Default: 1.
        balanced: With a causal mask late positions cost more than early ones: process ``i`` of ``n`` takes chunks ``i``
            and ``2n - 1 - i`` of ``2n``, so that all have the same work. Default: True. False: consecutive parts.

    Returns:
        The part.

    Raises:
        ShapeError: If the size of the axis is not a multiple of the number of chunks.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> from bireme.distributed.fleet.utils import context_parallel_utils
        >>> context_parallel_utils.split_sequence(bireme.arange(4), axis=0).tolist()
        [0, 1, 2, 3]
    """
    check_tensor("split_sequence(x)", x)
    among = member("split_sequence", group)
    if among.nranks == 1:
        return x
    chunks = _chunks(among.nranks, balanced)
    count = len(chunks) * len(chunks[0])
    size, rest = divmod(x.shape[axis], count)
    if rest:
        expected = f"a size along axis {axis} that {count} chunks divide"
        raise errors.bad("split_sequence(x)", expected, described=f"shape {x.shape}", kind=errors.ShapeError)
    whole = [slice(None)] * x.ndim
    parts = []
    for i in chunks[among.rank]:
        whole[axis] = slice(i * size, (i + 1) * size)
        parts.append(x[tuple(whole)])
    return concat(parts, axis)


class _Gather(PyLayer):
    """The parts of all processes in the order of the sequence; each gets the gradient of its part, from all processes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, axis: int, balanced: bool) -> Tensor:
        ctx.given = group, axis, balanced
        call = Call("gather_sequence", described(x))
        chunks = _chunks(group.nranks, balanced)
        found: dict[int, np.ndarray] = {}
        for own, rows in zip(chunks, group.channel.gather(call, call.read(x))):
            found.update(zip(own, np.split(rows, len(own), axis)))
        return to_tensor(np.concatenate([found[i] for i in sorted(found)], axis))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        group, axis, balanced = ctx.given
        call = Call("gradient of gather_sequence", described(g))
        parts = np.split(call.read(g), group.nranks * (2 if balanced else 1), axis)
        rows = [np.concatenate([parts[i] for i in own], axis) for own in _chunks(group.nranks, balanced)]
        return to_tensor(np.sum(group.channel.exchange(call, np.stack(rows)), axis=0, dtype=rows[0].dtype))


def gather_sequence(x: Tensor, group: Group | None = None, axis: int = 1, balanced: bool = True) -> Tensor:
    """Return the whole sequence from the parts of all processes, what ``split_sequence`` divides.

    Args:
        x: The part of this process.
        group: Processes that share the sequence. Default: None, the default group.
        axis: Axis of the sequence. Default: 1.
        balanced: How it is divided, see ``split_sequence``. Default: True.

    Returns:
        The whole tensor. The gradient of each part is the sum of all processes'.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> from bireme.distributed.fleet.utils import context_parallel_utils
        >>> context_parallel_utils.gather_sequence(bireme.arange(4), axis=0).tolist()
        [0, 1, 2, 3]
    """
    check_tensor("gather_sequence(x)", x)
    among = member("gather_sequence", group)
    return x if among.nranks == 1 else _Gather.apply(x, among, axis, balanced)


class _Turn(PyLayer):
    """Divided along one axis, whole along another: the other way round."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, split: int, join: int) -> Tensor:
        ctx.given = group, split, join
        return _turned("alltoall_attention", x, group, split, join)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        group, split, join = ctx.given
        return _turned("gradient of alltoall_attention", g, group, join, split)


def _turned(name: str, x: Tensor, group: Group, split: int, join: int) -> Tensor:
    call = Call(name, described(x))
    rows = np.stack(np.split(call.read(x), group.nranks, split))
    return to_tensor(np.concatenate(group.channel.exchange(call, rows), join))


def _check_attention(where: str, query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        check_tensor(f"{where}({name})", x)
        if x.ndim != 4:
            raise errors.bad(f"{where}({name})", "a tensor [batch, sequence, heads, width]", x, kind=errors.ShapeError)
    if query.shape[2] % key.shape[2] or key.shape[2] != value.shape[2]:
        told = f"{query.shape[2]} and {key.shape[2]}, {value.shape[2]}"
        raise errors.bad(f"{where}(key)", "heads that divide those of query", described=told, kind=errors.ShapeError)


def alltoall_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    group: Group | None = None,
    is_causal: bool = False,
    attention: Callable[..., Tensor] | None = None,
) -> Tensor:
    """Compute attention over sequences that are divided into consecutive parts: each process has some heads meanwhile.

    Args:
        query: Part of the queries, ``[batch, sequence, heads, width]``.
        key: Part of the keys.
        value: Part of the values.
        group: Processes that share the sequence; they divide the number of heads. Default: None, the default group.
        is_causal: Whether positions see only those before them. Default: False.
        attention: Function of queries, keys and values over the whole sequence. Default: None,
            ``scaled_dot_product_attention`` with ``is_causal``.

    Returns:
        This process' part of the result, of the shape of ``query``.

    Raises:
        ShapeError: If the processes do not divide the heads.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> from bireme.distributed.fleet.utils import context_parallel_utils
        >>> x = bireme.ones([1, 2, 4, 8])
        >>> context_parallel_utils.alltoall_attention(x, x, x).shape
        [1, 2, 4, 8]
    """
    _check_attention("alltoall_attention", query, key, value)
    among = member("alltoall_attention", group)
    if attention is None:
        attention = functools.partial(scaled_dot_product_attention, is_causal=is_causal)
    if among.nranks == 1:
        return attention(query, key, value)
    for name, x in (("query", query), ("key", key)):
        if x.shape[2] % among.nranks:
            expected = f"heads that {among.nranks} processes divide"
            raise errors.bad(
                f"alltoall_attention({name})", expected, described=f"shape {x.shape}", kind=errors.ShapeError
            )
    turned = [_Turn.apply(x, among, 2, 1) for x in (query, key, value)]
    return _Turn.apply(attention(*turned), among, 1, 2)


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    group: Group | None = None,
    is_causal: bool = False,
    balanced: bool = True,
    scale: float | None = None,
) -> Tensor:
    """Compute attention over sequences that are divided: keys and values pass from process to process.

    Each process has one part of them at a time, and the scores of one part. In the backward pass they pass again, and
    their gradients with them.

    Args:
        query: Part of the queries, ``[batch, sequence, heads, width]``.
        key: Part of the keys. It may have fewer heads, a divisor of those of the queries.
        value: Part of the values.
        group: Processes that share the sequence. Default: None, the default group.
        is_causal: Whether positions see only those before them. Default: False.
        balanced: How the sequence is divided, see ``split_sequence``. Default: True.
        scale: Factor of the scores. Default: None, one over the root of the width.

    Returns:
        This process' part of the result, of the shape of ``query``.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> from bireme.distributed.fleet.utils import context_parallel_utils
        >>> x = bireme.ones([1, 2, 4, 8])
        >>> context_parallel_utils.ring_attention(x, x, x, is_causal=True).shape
        [1, 2, 4, 8]
    """
    _check_attention("ring_attention", query, key, value)
    among = member("ring_attention", group)
    if balanced and is_causal and among.nranks > 1 and query.shape[1] % 2:
        raise errors.bad("ring_attention(query)", "two chunks of a sequence", described=f"shape {query.shape}", kind=errors.ShapeError)  # fmt: skip
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return _Ring.apply(query, key, value, among, is_causal, balanced, scale)


def _seen(here: int, source: int, size: int, causal: bool, balanced: bool) -> tuple[slice, slice] | None:
    """Which of the own queries see which keys of a process; of its own, below the diagonal."""
    if not causal or here == source:
        return slice(None), slice(None)
    if not balanced:
        return (slice(None), slice(None)) if source < here else None
    # of a process before it sees the early chunk from both of its own, of one after it both from the late one
    return (slice(None), slice(0, size // 2)) if source < here else (slice(size // 2, size), slice(None))


class _Ring(PyLayer):
    """Attention over the parts of all processes, one after the other; see `ring_attention`."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, group: Group, causal: bool, balanced: bool, scale: float
    ) -> Tensor:
        ctx.how = group, causal, balanced, scale
        q, width = _heads(query, key.shape[2]), key.shape[-1]
        out = norm = None
        for source, pair in _around(group, concat([key, value], -1), "ring_attention"):
            seen = _seen(group.rank, source, key.shape[1], causal, balanced)
            if seen is None:
                continue
            rows, columns = seen
            k, v = (_heads(x, key.shape[2])[..., columns, :] for x in (pair[..., :width], pair[..., width:]))
            scores = _scores(q[..., rows, :], k, scale, causal and source == group.rank)
            most = scores.max(-1, keepdim=True)
            weights = exp(scores - most)
            total = sum(weights, -1, keepdim=True)
            new, part = most + log(total), matmul(weights, v) / total
            if out is None or norm is None:  # its own part comes first, and sees something in every row
                out, norm = part, new
            else:
                merged, both = _merged(out[..., rows, :], norm[..., rows, :], part, new)
                start = rows.start or 0
                out = merged if not start else concat([out[..., :start, :], merged], -2)
                norm = both if not start else concat([norm[..., :start, :], both], -2)
        assert out is not None and norm is not None
        ctx.save_for_backward(query, key, value, out, norm)
        return _back(out, query.shape[2]).astype(query.dtype)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        group, causal, balanced, scale = ctx.how
        query, key, value, out, norm = ctx.saved_tensor()
        heads, width, size = key.shape[2], key.shape[-1], key.shape[1]
        q, g = _heads(query, heads), _heads(g, heads)
        inner = sum(g * out, -1, keepdim=True)
        of_q = zeros_like(q)
        grads = zeros_like(concat([key, value], -1).astype("float32"))  # they travel with their keys and values
        for source, pair in _around(group, concat([key, value], -1), "gradient of ring_attention"):
            seen = _seen(group.rank, source, size, causal, balanced)
            if seen is not None:
                rows, columns = seen
                k, v = (_heads(x, heads)[..., columns, :] for x in (pair[..., :width], pair[..., width:]))
                mine, from_out = q[..., rows, :], g[..., rows, :]
                scores = _scores(mine, k, scale, causal and source == group.rank)
                weights = exp(scores - norm[..., rows, :])
                slopes = weights * (matmul(from_out, v, transpose_y=True) - inner[..., rows, :]) * scale
                of_q = of_q + _padded(matmul(slopes, k), rows, q.shape[-2])
                parts = [matmul(slopes, mine, transpose_x=True), matmul(weights, from_out, transpose_x=True)]
                added = concat([_padded(sum(x, 2, keepdim=True), columns, size) for x in parts], -1)
                grads = grads + _back(added, heads)
            if group.nranks > 1:
                grads = _shifted(group, grads, "gradient of ring_attention")
        return (
            _back(of_q, query.shape[2]).astype(query.dtype),
            grads[..., :width].astype(key.dtype),
            grads[..., width:].astype(value.dtype),
        )


def _heads(x: Tensor, groups: int) -> Tensor:
    """`[batch, sequence, heads, width]` as `[batch, groups, heads of a group, sequence, width]` in float32 at least."""
    batch, length, heads, width = x.shape
    x = x if x.dtype.np.itemsize > 2 else x.astype("float32")
    return transpose(reshape(x, [batch, length, groups, heads // groups, width]), [0, 2, 3, 1, 4])


def _back(x: Tensor, heads: int) -> Tensor:
    batch, _, _, length, width = x.shape
    return reshape(transpose(x, [0, 3, 1, 2, 4]), [batch, length, heads, width])


def _scores(q: Tensor, k: Tensor, scale: float, below: bool) -> Tensor:
    scores = matmul(q, k, transpose_y=True) * scale
    return where(tril(ones(scores.shape[-2:], "bool")), scores, full_like(scores, -math.inf)) if below else scores


def _merged(out: Tensor, norm: Tensor, part: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """The results over two sets of keys as one over both; `norm` is the logarithm of the sum of all exponentials."""
    most = maximum(norm, new)
    old, more = exp(norm - most), exp(new - most)
    return (out * old + part * more) / (old + more), most + log(old + more)


def _padded(x: Tensor, rows: slice, size: int) -> Tensor:
    """Rows of a larger tensor, the others zeros."""
    start, missing = rows.start or 0, size - x.shape[-2]
    if not missing:
        return x
    rest = zeros_like(x[..., :1, :]).expand([*x.shape[:-2], missing, x.shape[-1]])
    return concat([rest, x] if start else [x, rest], -2)


def _shifted(group: Group, x: Tensor, name: str) -> Tensor:
    call = Call(name, described(x))
    return to_tensor(group.channel.shift(call, call.read(x)))


def _around(group: Group, x: Tensor, name: str) -> Iterator[tuple[int, Tensor]]:
    """The tensors of all processes, and whose they are: this one's first, then that of the one before it, and so on."""
    for i in range(group.nranks):
        yield (group.rank - i) % group.nranks, x
        if i + 1 < group.nranks:
            x = _shifted(group, x, name)
