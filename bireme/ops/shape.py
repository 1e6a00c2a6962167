"""Shapes: reshape, transpose and their kin share storage; concatenation, splitting and tiling copy."""

from __future__ import annotations

import builtins
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core import errors
from bireme.core.convert import ints, one_axis
from bireme.core.graph import sig_of
from bireme.core.op import Axes, Axis, Ints, Shape, Tensor, composite, op
from bireme.ops.broadcast import sum_to


@op(method=True, inplace=True, view=True, varargs="shape", alias={"x": "input"}, numpy=np.reshape)
def reshape(x: Tensor, shape: Shape) -> Tensor:
    """The same elements in another shape; -1 is worked out, 0 keeps x's extent. Shares storage.

    >>> bireme.reshape(bireme.to_tensor([[1, 2], [3, 4]]), [-1]).tolist()
    [1, 2, 3, 4]
    """
    return jnp.reshape(x, shape)


@reshape.prepare
def _(arguments):
    x = arguments["x"]
    if isinstance(x, Tensor) and not isinstance(arguments["shape"], Literal):
        arguments["shape"] = resolve_shape(x._value.sig, arguments["shape"], "reshape(shape)")


def resolve_shape(sig, wanted: Any, where: str) -> tuple[int, ...]:
    """A shape with -1 and 0 worked out."""
    found = list(ints(wanted, 0, where) or ())
    for i, n in enumerate(found):
        if n == 0 and sig.size != 0:  # without elements, 0 is an extent
            if i >= sig.ndim:
                raise errors.bad(where, f"0 only where x has an axis, of {sig.ndim}", list(found))
            found[i] = sig.shape[i]
    if builtins.min(found, default=0) < -1 or found.count(-1) > 1:
        raise errors.bad(where, "extents of 0 or more and at most one -1", list(found))
    if -1 in found:
        rest = math.prod(n for n in found if n > 0)
        # beside a zero, -1 is what the extents other than zero leave over
        size = math.prod(n for n in sig.shape if n) if 0 in found and not sig.size else sig.size
        if size % rest:
            raise errors.bad(where, f"a shape of {sig.size} elements, as x has", list(found))
        found[found.index(-1)] = size // rest
    if math.prod(found) != sig.size:
        raise errors.bad(where, f"a shape of {sig.size} elements, as x has", list(found))
    return tuple(found)


reshape.infer(lambda x, shape: sig_of(shape, x.dtype))


@reshape.grad(numpy=True)
def _(g, sigs):
    return jnp.reshape(g, sigs[0].shape)


@reshape.put
def _(source, part, bound, numbers):
    return _reshaped(part, source.shape)


class Swap(list):
    """Two axes given one by one: `x.transpose(0, 1)` swaps them, `x.transpose([0, 1])` is a permutation."""

    __slots__ = ()


_PAIRS = ("dim0", "dim1", "axis0", "axis1")


@op(method=True, inplace=True, view=True, varargs="perm", pack=Swap, pairs=_PAIRS, alias={"x": "input"}, numpy=np.transpose)
def transpose(x: Tensor, perm: Ints) -> Tensor:
    """Axes in another order, or two of them swapped: `x.transpose(0, 1)`. Shares storage.

    >>> bireme.transpose(bireme.to_tensor([[1, 2], [3, 4]]), [1, 0]).tolist()
    [[1, 3], [2, 4]]
    """
    return jnp.transpose(x, perm)


@transpose.prepare
def _(arguments):
    x = arguments["x"]
    if not isinstance(x, Tensor):
        return
    ndim = x._value.sig.ndim
    perm = ints(arguments["perm"], ndim, "transpose(perm)") or ()
    if isinstance(arguments["perm"], Swap) and len(perm) == 2:
        a, b = [one_axis(i, ndim, "transpose(perm)") for i in perm]
        order = list(range(ndim))
        order[a], order[b] = b, a
        perm = tuple(order)
    perm = (*perm, *range(len(perm), ndim))  # axes that are not named stay where they are
    found = tuple([one_axis(i, ndim, "transpose(perm)") for i in perm])
    if sorted(found) != list(range(ndim)):
        raise errors.bad("transpose(perm)", f"each of {ndim} axes once", list(perm))
    arguments["perm"] = found


transpose.infer(lambda x, perm: sig_of(tuple([x.shape[i] for i in perm]), x.dtype))


@transpose.grad(numpy=True)
def _(g, perm):
    return jnp.transpose(g, tuple(int(i) for i in np.argsort(perm)))


@transpose.put
def _(source, part, bound, numbers):
    return transpose(part, [int(i) for i in np.argsort(bound.attrs[0])])


Tensor.T = property(lambda x: transpose(x, list(range(x.ndim))[::-1]), doc="All axes in reverse order.")  # type: ignore[attr-defined]
Tensor.mT = property(lambda x: transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]), doc="The last two axes swapped.")  # type: ignore[attr-defined]


@composite(method=True, inplace=True, view=True)
def t(input: Tensor) -> Tensor:
    """A matrix transposed; at most two axes.

    >>> bireme.t(bireme.to_tensor([[1, 2]])).tolist()
    [[1], [2]]
    """
    if input.ndim > 2:
        raise errors.bad("t(input)", "at most 2 axes", input)
    return transpose(input, list(range(input.ndim))[::-1])


@composite(method=True, inplace=True, view=True, torch=True)
def squeeze(x: Tensor, axis: Ints = None) -> Tensor:
    """Without axes of extent 1: all, or those named. Shares storage.

    >>> bireme.squeeze(bireme.to_tensor([[1, 2]])).tolist()
    [1, 2]
    """
    axes = [one_axis(a, x.ndim, "squeeze(axis)") for a in axis or range(x.ndim)]  # an empty list means all, as in Paddle
    return _reshaped(x, [n for i, n in enumerate(x.shape) if n != 1 or i not in axes])


class Literal(tuple):
    """A shape that is already worked out: its zeros are extents."""

    __slots__ = ()


def _reshaped(x: Tensor, shape: list[int]) -> Tensor:
    return reshape(x, Literal(shape))


@composite(method=True, inplace=True, view=True, torch=True)
def unsqueeze(x: Tensor, axis: Ints) -> Tensor:
    """With new axes of extent 1 at `axis`, in the order given. Shares storage.

    >>> bireme.unsqueeze(bireme.to_tensor([1, 2]), 0).tolist()
    [[1, 2]]
    """
    shape = x.shape
    for a in axis or ():
        low, high = -len(shape) - 1, len(shape)
        if not low <= a <= high:
            raise errors.bad("unsqueeze(axis)", f"an axis in [{low}, {high}]", a, kind=errors.OutOfRange)
        shape.insert(a if a >= 0 else a + len(shape) + 1, 1)
    return _reshaped(x, shape)


@composite(method=True, inplace=True, view=True, alias={"x": "input", "start_axis": "start_dim", "stop_axis": "end_dim"})
def flatten(x: Tensor, start_axis: int = 0, stop_axis: int = -1) -> Tensor:
    """Axes from `start_axis` to `stop_axis` as one. Shares storage.

    >>> bireme.flatten(bireme.to_tensor([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    if x.ndim == 0:
        one_axis(start_axis, 0, "flatten(start_axis)")
        one_axis(stop_axis, 0, "flatten(stop_axis)")
        return _reshaped(x, [1])
    a, b = one_axis(start_axis, x.ndim, "flatten(start_axis)"), one_axis(stop_axis, x.ndim, "flatten(stop_axis)")
    if a > b:
        raise errors.bad("flatten(stop_axis)", f"an axis not before start_axis {start_axis}", stop_axis)
    return _reshaped(x, [*x.shape[:a], math.prod(x.shape[a : b + 1]), *x.shape[b + 1 :]])


# ---------------------------------------------------------------- copies


@op(method="expand broadcast_to", varargs="shape", alias={"x": "input", "shape": "size"}, numpy=lambda x, shape: np.broadcast_to(x, shape))
def expand(x: Tensor, shape: Shape) -> Tensor:
    """Axes of extent 1 repeated to `shape`; -1 keeps an extent.

    >>> bireme.expand(bireme.to_tensor([[1], [2]]), [2, 3]).tolist()
    [[1, 1, 1], [2, 2, 2]]
    """
    return jnp.broadcast_to(x, shape)


@expand.prepare
def _(arguments):
    x = arguments["x"]
    if not isinstance(x, Tensor):
        return
    old = x._value.sig.shape
    wanted = list(ints(arguments["shape"], 0, "expand(shape)") or ())
    extra = len(wanted) - len(old)
    if extra < 0:
        raise errors.bad("expand(shape)", f"at least {len(old)} axes", wanted)
    for i, n in enumerate(wanted):
        if n == -1 and i >= extra:
            wanted[i] = old[i - extra]
        elif n < 0 or (i >= extra and old[i - extra] not in (1, n)):
            raise errors.bad("expand(shape)", f"a shape that {list(old)} broadcasts to", wanted)
    arguments["shape"] = tuple(wanted)


expand.infer(lambda x, shape: sig_of(shape, x.dtype))


@expand.grad(numpy=True)
def _(g, sigs):
    return sum_to(g, sigs[0])


@op(promote="x", mix="same", alias={"x": "tensors", "axis": "dim"}, out=True, numpy=lambda x, axis: np.concatenate(x, axis))
def concat(x: list[Tensor], axis: Axis = 0) -> Tensor:
    """Tensors joined along an axis.

    >>> bireme.concat([bireme.to_tensor([1]), bireme.to_tensor([2, 3])]).tolist()
    [1, 2, 3]
    """
    return jnp.concatenate(x, axis)


@concat.check
def _(x, axis):
    if not x:
        raise errors.bad("concat(x)", "at least one tensor", "an empty list")
    first = x[0]
    for i, s in enumerate(x):
        if s.ndim == 0:
            raise errors.bad(f"concat(x[{i}])", "a tensor with at least one axis", "a 0-d tensor")
        if s.ndim != first.ndim or [n for k, n in enumerate(s.shape) if k != axis] != [n for k, n in enumerate(first.shape) if k != axis]:
            raise errors.bad(f"concat(x[{i}])", f"shape {list(first.shape)} but for axis {axis}", f"shape {list(s.shape)}")


@concat.infer
def _(x, axis):
    shape = list(x[0].shape)
    shape[axis] = sum(s.shape[axis] for s in x)
    return sig_of(tuple(shape), x[0].dtype)


@concat.grad(numpy=True)
def _(g, axis, sigs):
    ends = np.cumsum([s.shape[axis] for s in sigs])
    return [g[(slice(None),) * axis + (slice(int(e) - s.shape[axis], int(e)),)] for e, s in zip(ends, sigs)]


@composite(alias={"x": "tensors", "axis": "dim"}, out=True)
def stack(x: list[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis.

    >>> bireme.stack([bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    if not isinstance(x, (list, tuple)) or not x:
        raise errors.bad("stack(x)", "a list of at least one Tensor", x, kind=TypeError)
    for i, s in enumerate(x):
        if s.shape != x[0].shape:
            raise errors.bad(f"stack(x[{i}])", f"shape {x[0].shape}", s)
    axis = 0 if axis is None else axis
    return concat([unsqueeze(s, axis) for s in x], axis if axis >= 0 else axis + x[0].ndim + 1)


@op(numpy=lambda x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis))
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


@composite(method=True, torch=False)
def split(x: Tensor, num_or_sections: Any, axis: Axis = 0) -> list[Tensor]:
    """A tensor cut along an axis: into `n` equal parts, or into parts of the sizes listed (one may be -1).

    >>> [p.tolist() for p in bireme.split(bireme.to_tensor([1, 2, 3, 4]), 2)]
    [[1, 2], [3, 4]]
    """
    if x.ndim == 0:
        raise errors.bad("split(x)", "a tensor with at least one axis", x)
    total = x.shape[axis]
    if isinstance(num_or_sections, (list, tuple)):
        sizes = list(ints(num_or_sections, 0, "split(num_or_sections)") or ())
        if sizes.count(-1) > 1 or any(n < -1 for n in sizes):
            raise errors.bad("split(num_or_sections)", "sizes of 0 or more and at most one -1", sizes)
        if -1 in sizes:
            sizes[sizes.index(-1)] = total - sum(n for n in sizes if n != -1)
        if sum(sizes) != total or builtins.min(sizes, default=-1) < 0:
            raise errors.bad("split(num_or_sections)", f"sizes that add up to {total}", list(num_or_sections))
    else:
        n = ints(num_or_sections, 0, "split(num_or_sections)")[0]  # type: ignore[index]
        if n <= 0 or total % n:
            raise errors.bad("split(num_or_sections)", f"a number of parts that divides {total}", n)
        sizes = [total // n] * n
    return split_sizes(x, sizes, axis)


@composite(method=True, torch=True)
def chunk(x: Tensor, chunks: int, axis: Axis = 0) -> list[Tensor]:
    """A tensor cut along an axis into equal parts.

    >>> [p.tolist() for p in bireme.chunk(bireme.to_tensor([1, 2, 3, 4]), 2)]
    [[1, 2], [3, 4]]
    """
    return split(x, chunks, axis)


@op(method=True, numpy=np.tile)
def tile(x: Tensor, repeat_times: Ints) -> Tensor:
    """The tensor repeated along each axis.

    >>> bireme.tile(bireme.to_tensor([1, 2]), [2]).tolist()
    [1, 2, 1, 2]
    """
    return jnp.tile(x, repeat_times)


@tile.prepare
def _(arguments):
    if arguments["repeat_times"] is None:
        arguments["repeat_times"] = ()


@tile.check
def _(repeat_times):
    if builtins.min(repeat_times, default=0) < 0:
        raise errors.bad("tile(repeat_times)", "counts of 0 or more", list(repeat_times))


@op(method=True)
def flip(x: Tensor, axis: Axes) -> Tensor:
    """Elements in reverse order along axes.

    >>> bireme.flip(bireme.to_tensor([1, 2, 3]), 0).tolist()
    [3, 2, 1]
    """
    return jnp.flip(x, axis)


flip.infer(lambda x: x)
flip.grad(lambda g, axis: jnp.flip(g, axis), numpy=True)


@op(method=True, alias={"x": "input", "axis": "dims"})
def roll(x: Tensor, shifts: Ints, axis: Any = None) -> Tensor:
    """Shift elements cyclically along `axis`, or along the flattened tensor.

    >>> bireme.roll(bireme.to_tensor([1, 2, 3]), shifts=1, axis=0).tolist()
    [3, 1, 2]
    """
    return jnp.roll(x, shifts if axis is not None else shifts[0], axis=axis)


@roll.prepare
def _(arguments):
    x, axis = arguments["x"], arguments["axis"]
    if axis is None and len(ints(arguments["shifts"], 0, "roll(shifts)") or ()) != 1:
        raise errors.bad("roll(shifts)", "one shift for the flattened tensor", arguments["shifts"])
    if isinstance(x, Tensor) and axis is not None:
        found = tuple(one_axis(a, x.ndim, "roll(axis)") for a in (axis if isinstance(axis, (list, tuple)) else [axis]))
        shifts = ints(arguments["shifts"], 0, "roll(shifts)") or ()
        if len(shifts) != len(found):
            raise errors.bad("roll(shifts)", f"{len(found)} shifts, one for each axis", list(shifts))
        arguments["axis"] = found
