"""Tensors in another shape: reshape, transpose and their kin share storage, expand copies."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.declare.conversion import ints, one_axis
from bireme.core.declare.op import Attr, Ints, Shape, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor.view import in_a_row
from bireme.ops._shared.broadcast import sum_to


@op(method=True, inplace=True, view=True, linear=True, varargs="shape", alias={"x": "input"}, numpy=np.reshape,
    kernels="reshape2")  # fmt: skip
def reshape(x: Tensor, shape: Shape) -> Tensor:
    """Return the elements of a tensor in another shape, in the same row-major order.

    The result shares storage with ``x`` where the strides of ``x`` allow it; otherwise it is a copy.

    Args:
        x: Input tensor of any dtype.
        shape: New shape: a list or tuple of integers (0-D tensors among them are read), a 1-D integer tensor, or
            integers one by one. At most one size may be ``-1``: it is inferred from the number of elements. ``0`` keeps
            the size of ``x`` at that position.

    Returns:
        Tensor of shape ``shape`` and the dtype of ``x``.

    Raises:
        ValueError: If ``shape`` does not have as many elements as ``x``, or has several ``-1``.

    Examples:
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
    """A shape with -1 and 0 resolved."""
    if isinstance(wanted, (list, tuple)):  # Paddle takes 2.0 for 2 in a shape: what a division left
        wanted = [int(n) if isinstance(n, float) and n.is_integer() else n for n in wanted]
    if wanted is None:
        raise errors.bad(where, "a shape", wanted, kind=errors.ArgumentTypeError)
    found = list(ints(wanted, 0, where) or ())
    for i, n in enumerate(found):
        if n == 0 and sig.size != 0:  # without elements, 0 is a size
            if i >= sig.ndim:
                raise errors.bad(where, f"0 only for one of the {sig.ndim} dimensions of x", list(found))
            found[i] = sig.shape[i]
    if builtins.min(found, default=0) < -1 or found.count(-1) > 1:
        raise errors.bad(where, "non-negative sizes and at most one -1", list(found))
    if -1 in found:
        rest = math.prod(n for n in found if n > 0)
        # beside a zero, -1 is what the sizes other than zero leave over
        size = math.prod(n for n in sig.shape if n) if 0 in found and not sig.size else sig.size
        if size % rest:
            raise errors.bad(where, f"a shape of {sig.size} elements, as x has", list(found), kind=errors.ShapeError)
        found[found.index(-1)] = size // rest
    if math.prod(found) != sig.size:
        raise errors.bad(where, f"a shape of {sig.size} elements, as x has", list(found), kind=errors.ShapeError)
    return tuple(found)


reshape.infer(lambda x, shape: sig_of(shape, x.dtype))


@reshape.grad(numpy=True)
def _(g, sigs):
    return jnp.reshape(g, sigs[0].shape)


@reshape.put
def _(source, part, bound, numbers):
    return reshaped(part, source.shape)


@reshape.layout
def _(sig, strides, first, bound, numbers):
    found = strides_as(sig.shape, strides, bound.attrs[0])
    return None if found is None else (found, first)


def strides_as(shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides that show the same elements in a new shape, or None if there are none."""
    if 0 in shape:
        return in_a_row(new)
    runs: list[tuple[int, int]] = []  # neighbouring axes that can be walked with one stride: (size, stride)
    for n, step in zip(shape, strides):
        if n != 1 and runs and runs[-1][1] == n * step:
            runs[-1] = (runs[-1][0] * n, step)
        elif n != 1:
            runs.append((n, step))
    found: list[int] = []
    left, step = 1, runs[-1][1] if runs else 1
    for n in reversed(new):
        if n != 1 and left == 1:
            left, step = runs.pop()
        if left % n:
            return None
        found.append(step)
        left, step = left // n, step * n
    return tuple(reversed(found))


class Swap(list):
    """Two axes given one by one: `x.transpose(0, 1)` swaps them, `x.transpose([0, 1])` is a permutation."""

    __slots__ = ()


_SWAPS = "transpose swapaxes swapdims"


@op(public=_SWAPS, method=_SWAPS, inplace=True, view=True, linear=True, varargs="perm", alias={"x": "input"},
    numpy=np.transpose, kernels="transpose2")  # fmt: skip
def transpose(x: Tensor, perm: Ints) -> Tensor:
    """Permute the axes of a tensor, or swap two of them.

    Axes as a list are a permutation: ``x.transpose([1, 0, 2])``. Two axes one by one are swapped:
    ``x.transpose(0, 2)``, ``x.transpose(dim0=0, dim1=2)`` or ``x.swapaxes(axis0=0, axis1=2)``. The result shares
    storage with ``x``.

    Args:
        x: Input tensor of any dtype.
        perm: The axes of ``x`` in their new order; negative ones count from the end. Trailing axes that it leaves out
            stay where they are.

    Returns:
        Tensor whose axis ``i`` is axis ``perm[i]`` of ``x``.

    Examples:
        >>> bireme.transpose(bireme.to_tensor([[1, 2], [3, 4]]), [1, 0]).tolist()
        [[1, 3], [2, 4]]
    """
    return jnp.transpose(x, perm)


@transpose.rewrite
def _(args, kwargs):
    if len(args) == 3 and isinstance(args[1], (int, np.integer)):
        args = (args[0], Swap(args[1:]))
    for a, b in (("dim0", "dim1"), ("axis0", "axis1")):
        if a in kwargs and b in kwargs:
            kwargs = {n: i for n, i in kwargs.items() if n not in (a, b)} | {"perm": Swap((kwargs[a], kwargs[b]))}
    return args, kwargs


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
        raise errors.bad("transpose(perm)", f"a permutation of the {ndim} axes", list(perm))
    arguments["perm"] = found


transpose.infer(lambda x, perm: sig_of(tuple([x.shape[i] for i in perm]), x.dtype))


@transpose.grad(numpy=True)
def _(g, perm):
    return jnp.transpose(g, tuple(int(i) for i in np.argsort(perm)))


@transpose.put
def _(source, part, bound, numbers):
    return transpose(part, [int(i) for i in np.argsort(bound.attrs[0])])


transpose.layout(lambda sig, strides, first, bound, numbers: (tuple([strides[i] for i in bound.attrs[0]]), first))


# Tensor gets both here, so the type checker does not know them
@property
def _reversed(x: Tensor) -> Tensor:
    """All axes in reverse order."""
    return transpose(x, list(range(x.ndim))[::-1])


@property
def _swapped(x: Tensor) -> Tensor:
    """The last two axes swapped."""
    return transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


Tensor.T, Tensor.mT = _reversed, _swapped


@composite(method=True, inplace=True, view=True)
def t(input: Tensor) -> Tensor:
    """Transpose a matrix; a tensor with fewer than two axes comes back as it is.

    Args:
        input: Tensor with at most two axes.

    Returns:
        The transposed matrix, which shares storage with ``input``.

    Examples:
        >>> bireme.t(bireme.to_tensor([[1, 2]])).tolist()
        [[1], [2]]
    """
    if input.ndim > 2:
        raise errors.bad("t(input)", "at most 2 dimensions", input)
    return transpose(input, list(range(input.ndim))[::-1])


@composite(method=True, varargs="dims", name_arg=False, hands={"perm": "dims", "x": "input"})
def permute(input: Tensor, dims: Ints) -> Tensor:
    """Permute the axes of a tensor.

    Args:
        input: Input tensor of any dtype.
        dims: The axes of ``input`` in their new order, as a list or one by one.

    Returns:
        Tensor whose axis ``i`` is axis ``dims[i]`` of ``input``; it shares storage with ``input``.

    Examples:
        >>> bireme.permute(bireme.to_tensor([[1, 2], [3, 4]]), [1, 0]).tolist()
        [[1, 3], [2, 4]]
    """
    return transpose(input, list(dims))


@composite(method=True)
def matrix_transpose(x: Tensor) -> Tensor:
    """Swap the last two axes: transpose each matrix of a batch.

    Args:
        x: Tensor with at least two axes.

    Returns:
        Tensor of shape ``[..., n, m]`` for ``x`` of shape ``[..., m, n]``; it shares storage with ``x``.

    Examples:
        >>> bireme.matrix_transpose(bireme.to_tensor([[1, 2], [3, 4]])).tolist()
        [[1, 3], [2, 4]]
    """
    if x.ndim < 2:
        raise errors.bad("matrix_transpose(x)", "at least 2 dimensions", x)
    return transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


@composite(method=True)
def moveaxis(x: Tensor, source: Attr[int | Sequence[int]], destination: Attr[int | Sequence[int]]) -> Tensor:
    """Move axes to other positions; the other axes keep their order.

    Args:
        x: Input tensor of any dtype.
        source: Axis or axes to move.
        destination: Where they go, as many as in ``source``. Negative axes count from the end.

    Returns:
        Tensor with the axes moved; it shares storage with ``x``.

    Examples:
        >>> bireme.moveaxis(bireme.zeros([2, 3, 4]), 0, -1).shape
        [3, 4, 2]
    """
    several = (list, tuple, range, np.ndarray)
    source, destination = (
        list(axes) if isinstance(axes, several) and np.ndim(axes) else [axes] for axes in (source, destination)
    )
    places = []
    for name, axes in (("source", source), ("destination", destination)):
        for a in axes:
            if not isinstance(a, (int, np.integer)):
                raise errors.bad(f"moveaxis({name})", "an integer", a, kind=errors.ArgumentTypeError)
            if not -x.ndim <= a < x.ndim:
                raise errors.bad(
                    f"moveaxis({name})", f"axes in [{-x.ndim}, {x.ndim - 1}]", a, kind=errors.ArgumentError
                )
        places.append([a % x.ndim for a in axes])
        if len(set(places[-1])) != len(axes):
            raise errors.bad(f"moveaxis({name})", "different axes", axes)
    if len(source) != len(destination):
        raise errors.bad(
            "moveaxis(destination)", f"{len(source)} axes, as in source", destination, kind=errors.ArgumentError
        )
    order = [a for a in range(x.ndim) if a not in places[0]]
    for to, a in sorted(zip(places[1], places[0])):
        order.insert(to, a)
    return transpose(x, order)


@composite(method=True, inplace=True, view=True, torch=True, plain=True, kernels="squeeze2")
def squeeze(x: Tensor, axis: Ints = None) -> Tensor:
    """Remove axes of size 1.

    Args:
        x: Input tensor of any dtype.
        axis: Axis or axes to remove; those whose size is not 1 stay. ``None`` or an empty list means all axes of size
            1. Default: None.

    Returns:
        Tensor with fewer axes; it shares storage with ``x``.

    Examples:
        >>> bireme.squeeze(bireme.to_tensor([[1, 2]])).tolist()
        [1, 2]
    """
    # an empty list means all, as in Paddle
    axes = [one_axis(a, x.ndim, "squeeze(axis)") for a in axis or range(x.ndim)]
    return reshaped(x, [n for i, n in enumerate(x.shape) if n != 1 or i not in axes])


class Literal(tuple):
    """A shape without anything to infer: its zeros are sizes."""

    __slots__ = ()


def reshaped(x: Tensor, shape: list[int]) -> Tensor:
    """`x` in a shape without -1 to infer."""
    return reshape(x, Literal(shape) if 0 in shape else shape)  # a call with a list of its own kind is remembered


@composite(method=True, inplace=True, view=True, torch=True, plain=True, kernels="unsqueeze2")
def unsqueeze(x: Tensor, axis: Ints) -> Tensor:
    """Insert axes of size 1.

    Args:
        x: Input tensor of any dtype.
        axis: Index or indices of the new axes. They are inserted one after the other, each counted in the shape that
            the ones before it have left.

    Returns:
        Tensor with the new axes; it shares storage with ``x``.

    Examples:
        >>> bireme.unsqueeze(bireme.to_tensor([1, 2]), 0).tolist()
        [[1, 2]]
    """
    shape = x.shape
    for a in axis or ():
        low, high = -len(shape) - 1, len(shape)
        if not low <= a <= high:
            raise errors.bad("unsqueeze(axis)", f"an axis in [{low}, {high}]", a, kind=errors.OutOfRangeError)
        shape.insert(a if a >= 0 else a + len(shape) + 1, 1)
    return reshaped(x, shape)


@composite(
    method=True,
    inplace=True,
    view=True,
    alias={"x": "input", "start_axis": "start_dim", "stop_axis": "end_dim"},
    plain=True,
)
def flatten(x: Tensor, start_axis: int = 0, stop_axis: int = -1) -> Tensor:
    """Merge a range of axes into one.

    Args:
        x: Input tensor of any dtype; a 0-D tensor becomes one of shape ``[1]``.
        start_axis: First axis to merge. Default: 0.
        stop_axis: Last axis to merge. Default: -1.

    Returns:
        Tensor with the merged axes in the place of ``start_axis``; it shares storage with ``x`` where strides allow it.

    Examples:
        >>> bireme.flatten(bireme.to_tensor([[1, 2], [3, 4]])).tolist()
        [1, 2, 3, 4]
    """
    if x.ndim == 0:
        one_axis(start_axis, 0, "flatten(start_axis)")
        one_axis(stop_axis, 0, "flatten(stop_axis)")
        return reshaped(x, [1])
    a, b = one_axis(start_axis, x.ndim, "flatten(start_axis)"), one_axis(stop_axis, x.ndim, "flatten(stop_axis)")
    if a > b:
        raise errors.bad("flatten(stop_axis)", f"an axis of at least start_axis = {start_axis}", stop_axis)
    return reshaped(x, [*x.shape[:a], math.prod(x.shape[a : b + 1]), *x.shape[b + 1 :]])


@composite(method=True, name_arg=False)
def ravel(input: Tensor) -> Tensor:
    """Flatten a tensor to one axis.

    Args:
        input: Input tensor of any dtype.

    Returns:
        1-D tensor of all elements in row-major order; it shares storage with ``input`` where strides allow it.

    Examples:
        >>> bireme.ravel(bireme.to_tensor([[1, 2], [3, 4]])).tolist()
        [1, 2, 3, 4]
    """
    return reshaped(input, [input._value.sig.size])


@composite(method=True)
def unflatten(x: Tensor, axis: int, shape: Attr[Sequence[int | Tensor] | Tensor]) -> Tensor:
    """Split one axis into several.

    Args:
        x: Input tensor of any dtype.
        axis: Axis to split.
        shape: Sizes of the axes that it becomes, a list, a tuple or a 1-D tensor; one may be ``-1``, which is inferred.

    Returns:
        Tensor with the axes of ``shape`` in the place of ``axis``; it shares storage with ``x`` where strides allow it.

    Examples:
        >>> bireme.unflatten(bireme.to_tensor([1, 2, 3, 4]), 0, [2, -1]).tolist()
        [[1, 2], [3, 4]]
    """
    if not -x.ndim <= axis < x.ndim:
        raise errors.bad("unflatten(axis)", f"an axis in [{-x.ndim}, {x.ndim - 1}]", axis, kind=errors.ArgumentError)
    if not isinstance(shape, (list, tuple, Tensor)):
        raise errors.bad("unflatten(shape)", "a list of integers", shape, kind=errors.ArgumentTypeError)
    axis %= x.ndim
    dims = x._value.sig.shape
    found = [
        dims[axis] if n == 0 and dims[axis] and i == 0 else n
        for i, n in enumerate(ints(shape, 0, "unflatten(shape)") or ())
    ]
    parts = resolve_shape(sig_of((dims[axis],), x.dtype), found, "unflatten(shape)")
    return reshaped(x, [*dims[:axis], *parts, *dims[axis + 1 :]])


# ---------------------------------------------------------------- broadcasting


_EXPANDS = "expand broadcast_to"


@op(public=_EXPANDS, method=_EXPANDS, varargs="shape", alias={"x": "input", "shape": "size"},
    numpy=lambda x, shape: np.broadcast_to(x, shape), kernels="expand_v2")  # fmt: skip
def expand(x: Tensor, shape: Shape) -> Tensor:
    """Broadcast a tensor to a larger shape: axes of size 1 are repeated.

    Unlike ``reshape`` and slices, the result does not share storage with ``x``.

    Args:
        x: Input tensor of any dtype.
        shape: Shape to broadcast to, with at least as many axes as ``x``; ``-1`` keeps the size of an axis of ``x``. A
            list, a tuple, a 1-D integer tensor or integers one by one.

    Returns:
        Tensor of shape ``shape``.

    Raises:
        ValueError: If ``x`` does not broadcast to ``shape``.

    Examples:
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
        raise errors.bad("expand(shape)", f"at least {len(old)} dimensions", wanted)
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
