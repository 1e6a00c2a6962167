"""Tensors cut into parts along an axis, and which part an index falls into."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Iterable, Sequence

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.conversion import ints, one_axis
from bireme.core.declare.op import Attr, Axis, Ints, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import same
from bireme.ops.creation.tensors import clone
from bireme.ops.indexing.getitem import getitem, unbind_of

MAX_PARTS = 1 << 16  # of a tensor that has fewer elements: the rest would be empty


def spans_of(sizes: Iterable[int], axis: int) -> list[tuple[slice, ...]]:
    """Indices of consecutive parts of the given sizes along an axis."""
    ends, before = list(itertools.accumulate(sizes, initial=0)), (slice(None),) * axis
    return [(*before, slice(a, b)) for a, b in itertools.pairwise(ends)]


@op(internal=True, numpy=lambda x, sizes, axis: [x[span] for span in spans_of(sizes, axis)])
def split_sizes(x: Tensor, sizes: Ints, axis: Axis) -> list[Tensor]:
    """A tensor cut along an axis into parts of the given sizes; use `split`.

    >>> [p.tolist() for p in bireme.split(bireme.to_tensor([1, 2, 3]), [1, 2])]
    [[1], [2, 3]]
    """
    return jnp.split(x, [int(i) for i in np.cumsum(sizes)[:-1]], axis)


@split_sizes.infer
def _(x, sizes, axis):
    return [sig_of((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes]


@split_sizes.grad(numpy=True)
def _(g, axis):
    return jnp.concatenate(g, axis)


@composite(method=True, torch=False, plain=True, c_ops={"split_with_num": "x num:num_or_sections axis"},
           rejects={"dim": "bireme.compat.split", "split_size_or_sections": "bireme.compat.split"})  # fmt: skip
def split(x: Tensor, num_or_sections: Attr[int | Sequence[int]], axis: Axis = 0) -> list[Tensor]:
    """Split a tensor along an axis into equal parts or parts of given sizes.

    The parts are copies; ``unbind`` and slices share storage.

    Args:
        x: Tensor with at least one axis.
        num_or_sections: Number of equal parts, which must divide the size of the axis, or a list of sizes that add up
            to it. One size may be ``-1``: it is inferred.
        axis: Axis to split along. Default: 0.

    Returns:
        List of tensors.

    Raises:
        ValueError: If the axis cannot be split so. ``tensor_split`` takes numbers that do not divide its size.

    Examples:
        >>> [p.tolist() for p in bireme.split(bireme.to_tensor([1, 2, 3, 4]), 2)]
        [[1, 2], [3, 4]]
    """
    if x.ndim == 0:
        raise errors.bad("split(x)", "a tensor with at least 1 dimension", x)
    total = x.shape[axis]
    if isinstance(num_or_sections, (list, tuple)):
        sizes = list(ints(num_or_sections, 0, "split(num_or_sections)") or ())
        if sizes.count(-1) > 1 or any(n < -1 for n in sizes):
            raise errors.bad("split(num_or_sections)", "non-negative sizes and at most one -1", sizes)
        if -1 in sizes:
            sizes[sizes.index(-1)] = total - sum(n for n in sizes if n != -1)
        if sum(sizes) != total or builtins.min(sizes, default=-1) < 0:
            raise errors.bad("split(num_or_sections)", f"sizes that sum to {total}", list(num_or_sections))
    else:
        n = ints(num_or_sections, 0, "split(num_or_sections)")[0]  # type: ignore[index]  # not None: it was given
        if n <= 0 or total % n:
            raise errors.bad(
                "split(num_or_sections)", f"a number of sections that divides {total}", n, kind=errors.for_number(n)
            )
        sizes = [total // n] * n
    return split_sizes(x, sizes, axis)


@composite(method=True, torch=True, plain=True, hands={"num_or_sections": "chunks"})
def chunk(x: Tensor, chunks: int, axis: Axis = 0) -> list[Tensor]:
    """Split a tensor along an axis into equal parts.

    Args:
        x: Tensor with at least one axis.
        chunks: Number of parts; it must divide the size of the axis.
        axis: Axis to split along. Default: 0.

    Returns:
        List of ``chunks`` tensors, which are copies.

    Examples:
        >>> [p.tolist() for p in bireme.chunk(bireme.to_tensor([1, 2, 3, 4]), 2)]
        [[1, 2], [3, 4]]
    """
    return split(x, chunks, axis)


@composite(name="split_by_size", public="compat.split", name_arg=False)
def split_by_size(tensor: Tensor, split_size_or_sections: Attr[int | Sequence[int]],
                  dim: int = 0) -> tuple[Tensor, ...]:  # fmt: skip
    """Split a tensor along an axis as PyTorch does: into parts of a given size, or of the sizes listed.

    Args:
        tensor: Tensor with at least one axis.
        split_size_or_sections: Size of each part, the last of which may be smaller, or a list of sizes that add up to
            the size of the axis.
        dim: Axis to split along. Default: 0.

    Returns:
        Tuple of tensors, which are copies.

    Examples:
        >>> [p.tolist() for p in bireme.compat.split(bireme.to_tensor([1, 2, 3]), 2)]
        [[1, 2], [3]]
    """
    if tensor.ndim == 0:
        raise errors.bad("split(tensor)", "a tensor with at least 1 dimension", tensor)
    axis = one_axis(dim, tensor.ndim, "split(dim)")
    total = tensor.shape[axis]
    where = "split(split_size_or_sections)"
    if not isinstance(split_size_or_sections, (int, list, tuple)):
        raise errors.bad(
            where, "an integer or a list of integers", split_size_or_sections, kind=errors.ArgumentTypeError
        )
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        if size <= 0:
            raise errors.bad(where, "a positive size", size, kind=errors.ArgumentError)
        sizes = [builtins.min(size, total - at) for at in range(0, total, size)]
        return tuple(split_sizes(tensor, sizes, axis)) if sizes else ()
    sizes = list(ints(split_size_or_sections, 0, where) or ())
    if any(n < 0 for n in sizes) or sum(sizes) != total or not sizes:
        raise errors.bad(where, f"non-negative sizes that sum to {total}", sizes)
    return tuple(split_sizes(tensor, sizes, axis))


@composite(method=True)
def tensor_split(x: Tensor, num_or_indices: Attr[int | Sequence[int]], axis: int = 0) -> list[Tensor]:
    """Split a tensor along an axis into nearly equal parts or at given indices.

    Args:
        x: Tensor with at least one axis.
        num_or_indices: Number of parts, the first of which have one element more if it does not divide the size of the
            axis; or a list of indices to split at: ``[1, 3]`` gives ``x[:1]``, ``x[1:3]`` and ``x[3:]``.
        axis: Axis to split along. Default: 0.

    Returns:
        List of tensors, which are copies.

    Examples:
        >>> [p.tolist() for p in bireme.tensor_split(bireme.to_tensor([1, 2, 3]), 2)]
        [[1, 2], [3]]
    """
    if x.ndim == 0:
        raise errors.bad("tensor_split(x)", "a tensor with at least 1 dimension", x)
    axis = one_axis(axis, x.ndim, "tensor_split(axis)")
    total = x.shape[axis]
    if isinstance(num_or_indices, (list, tuple)):
        cuts = list(ints(num_or_indices, 0, "tensor_split(num_or_indices)") or ())
        bounds = [0, *[builtins.min(builtins.max(i + total if i < 0 else i, 0), total) for i in cuts], total]
        if bounds != sorted(bounds):  # overlapping parts: each is the slice that its two indices mean
            before = (slice(None),) * axis
            return [clone(getitem(x, (*before, slice(a, b)))) for a, b in itertools.pairwise(bounds)]
        return split_sizes(x, [b - a for a, b in itertools.pairwise(bounds)], axis)
    if not isinstance(num_or_indices, (int, np.integer)):
        raise errors.bad(
            "tensor_split(num_or_indices)",
            "an integer or a list of integers",
            num_or_indices,
            kind=errors.ArgumentTypeError,
        )
    n = int(num_or_indices)
    if not 0 < n <= builtins.max(total, MAX_PARTS):
        raise errors.bad(
            "tensor_split(num_or_indices)",
            f"a number of sections in [1, {builtins.max(total, MAX_PARTS)}]",
            n,
            kind=errors.for_number(n),
        )
    return split_sizes(x, [total // n + (i < total % n) for i in range(n)], axis)


@composite(method=True)
def hsplit(x: Tensor, num_or_indices: Attr[int | Sequence[int]]) -> list[Tensor]:
    """Split a tensor along its second axis, a vector along its only one.

    Args:
        x: Tensor with at least one axis.
        num_or_indices: Number of parts or list of indices, as in ``tensor_split``.

    Returns:
        List of tensors, which are copies.

    Examples:
        >>> [p.tolist() for p in bireme.hsplit(bireme.to_tensor([[1, 2], [3, 4]]), 2)]
        [[[1], [3]], [[2], [4]]]
    """
    return tensor_split(_deep(x, 1, "hsplit"), num_or_indices, 1 if x.ndim > 1 else 0)


@composite(method=True)
def vsplit(x: Tensor, num_or_indices: Attr[int | Sequence[int]]) -> list[Tensor]:
    """Split a tensor along its first axis.

    Args:
        x: Tensor with at least two axes.
        num_or_indices: Number of parts or list of indices, as in ``tensor_split``.

    Returns:
        List of tensors, which are copies.

    Examples:
        >>> [p.tolist() for p in bireme.vsplit(bireme.to_tensor([[1, 2], [3, 4]]), 2)]
        [[[1, 2]], [[3, 4]]]
    """
    return tensor_split(_deep(x, 2, "vsplit"), num_or_indices, 0)


@composite(method=True)
def dsplit(x: Tensor, num_or_indices: Attr[int | Sequence[int]]) -> list[Tensor]:
    """Split a tensor along its third axis.

    Args:
        x: Tensor with at least three axes.
        num_or_indices: Number of parts or list of indices, as in ``tensor_split``.

    Returns:
        List of tensors, which are copies.

    Examples:
        >>> [p.tolist() for p in bireme.dsplit(bireme.to_tensor([[[1, 2], [3, 4]]]), 2)]
        [[[[1], [3]]], [[[2], [4]]]]
    """
    return tensor_split(_deep(x, 3, "dsplit"), num_or_indices, 2)


def _deep(x: Tensor, ndim: int, name: str) -> Tensor:
    if x.ndim < ndim:
        raise errors.bad(f"{name}(x)", f"a tensor with at least {ndim} dimensions", x)
    return x


@composite(method=True, name_arg=False)
def unstack(x: Tensor, axis: int = 0, num: int | None = None) -> list[Tensor]:
    """Split a tensor into its slices along an axis, without that axis; the inverse of ``stack``.

    Args:
        x: Tensor with at least one axis.
        axis: Axis to remove. Default: 0.
        num: The size of the axis, if it is to be checked. Default: None.

    Returns:
        List of tensors, one per index of the axis, which are copies; ``unbind`` returns slices that share storage.

    Examples:
        >>> [p.tolist() for p in bireme.unstack(bireme.to_tensor([[1, 2], [3, 4]]))]
        [[1, 2], [3, 4]]
    """
    if x.ndim == 0:
        raise errors.bad("unstack(x)", "a tensor with at least 1 dimension", x)
    axis = one_axis(axis, x.ndim, "unstack(axis)")
    if num and num != x.shape[axis]:
        raise errors.bad("unstack(num)", f"{x.shape[axis]}, the size of axis {axis}", num)
    return unbind_of(x, axis) if x.shape[axis] and num != 0 else []


@op(method=True, differentiable=False, dtypes=frozenset({dtypes.int32, dtypes.int64}), name_arg=False, numpy=True)
def shard_index(input: Tensor, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Tensor:
    """Convert indices into a table to indices into one of its shards.

    The table of ``index_num`` rows is cut into ``nshards`` shards of ``ceil(index_num / nshards)`` rows.

    Args:
        input: int32 or int64 tensor of indices in ``[0, index_num)``, with at least two axes.
        index_num: Number of rows of the table.
        nshards: Number of shards.
        shard_id: Index of the shard, in ``[0, nshards)``.
        ignore_value: What indices of other shards become. Default: -1.

    Returns:
        Tensor of the shape and dtype of ``input``.

    Examples:
        >>> bireme.shard_index(bireme.to_tensor([[1], [16]]), index_num=20, nshards=2, shard_id=1).tolist()
        [[-1], [6]]
    """
    size = (index_num + nshards - 1) // nshards
    return jnp.where(input // size == shard_id, input % size, jnp.asarray(ignore_value, input.dtype))


@shard_index.check
def _(input, index_num, nshards, shard_id):
    if input.ndim < 2:
        raise errors.bad(
            "shard_index(input)",
            "at least 2 dimensions",
            described=f"shape {list(input.shape)}",
            kind=errors.ShapeError,
        )
    for name, n in (("index_num", index_num), ("nshards", nshards)):
        if n <= 0:
            raise errors.bad(f"shard_index({name})", "a positive integer", n, kind=errors.for_number(n))
    if not 0 <= shard_id < nshards:
        raise errors.bad(
            "shard_index(shard_id)", f"an integer in [0, {nshards - 1}]", shard_id, kind=errors.for_number(shard_id)
        )


shard_index.infer(lambda input: same(input))
shard_index.index(lambda s: [("input", 0, s["index_num"])])
