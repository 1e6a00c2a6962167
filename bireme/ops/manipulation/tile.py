"""Elements repeated or in another order: tile, repeat, flip, roll, rotate."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.declare.conversion import MAX_ELEMENTS, ints, one_axis
from bireme.core.declare.op import Attr, Axes, Axis, Ints, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor.tensor import value_of
from bireme.ops.indexing.gather import index_select
from bireme.ops.manipulation.reshape import ravel, transpose


@op(method=True, numpy=np.tile)
def tile(x: Tensor, repeat_times: Ints) -> Tensor:
    """Repeat a tensor along each axis.

    Args:
        x: Input tensor of any dtype.
        repeat_times: Number of repetitions for each axis, aligned to the last one: a list, a tuple, an integer or a 1-D
            tensor. Axes that it lacks are repeated once; if it has more, ``x`` gets new axes in front.

    Returns:
        Tensor whose size along each axis is multiplied by its repetitions.

    Examples:
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
        raise errors.bad("tile(repeat_times)", "non-negative integers", list(repeat_times))


@tile.infer
def _(x, repeat_times):
    rank = builtins.max(x.ndim, len(repeat_times))
    dims, times = (1,) * (rank - x.ndim) + x.shape, (1,) * (rank - len(repeat_times)) + repeat_times
    return sig_of(tuple([n * k for n, k in zip(dims, times)]), x.dtype)


@tile.grad(numpy=True)
def _(g, repeat_times, sigs):
    rank = g.ndim
    dims, times = (1,) * (rank - sigs[0].ndim) + sigs[0].shape, (1,) * (rank - len(repeat_times)) + repeat_times
    pairs = [n for pair in zip(times, dims) for n in pair]
    return jnp.reshape(g, pairs).sum(axis=tuple(range(0, 2 * rank, 2))).reshape(sigs[0].shape)


@composite(method=True, varargs="repeats", name_arg=False, hands={"repeat_times": "repeats"})
def repeat(x: Tensor, repeats: Ints) -> Tensor:
    """Repeat a tensor along each axis, as ``tile`` does.

    Args:
        repeats: Number of repetitions for each axis, aligned to the last one; as a list or one by one.

    Returns:
        Tensor whose size along each axis is multiplied by its repetitions.

    Examples:
        >>> bireme.to_tensor([1, 2]).repeat(2, 1).tolist()
        [[1, 2], [1, 2]]
    """
    if repeats is None:
        raise errors.bad("repeat(repeats)", "integers", repeats, kind=errors.ArgumentTypeError)
    return tile(x, list(repeats))


@op(internal=True, numpy=lambda x, repeats, axis: np.repeat(x, repeats, axis))
def repeat_each(x: Tensor, repeats: int, axis: Axis) -> Tensor:
    """Every slice along an axis several times in a row; use `repeat_interleave`.

    >>> bireme.repeat_interleave(bireme.to_tensor([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    return jnp.repeat(x, repeats, axis)


repeat_each.infer(
    lambda x, repeats, axis: sig_of((*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]), x.dtype)
)


@repeat_each.grad(numpy=True)
def _(g, repeats, axis, sigs):
    dims = sigs[0].shape
    return jnp.reshape(g, (*dims[: axis + 1], repeats, *dims[axis + 1 :])).sum(axis=axis + 1)


@composite(method=True, torch=True)
def repeat_interleave(x: Tensor, repeats: Attr[int | Tensor], axis: Attr[int] = None, name: Attr[str] = None, *,
                      output_size: int | None = None) -> Tensor:  # fmt: skip
    """Repeat each slice along an axis several times in a row.

    Args:
        x: Input tensor of any dtype.
        repeats: A positive integer, or a tensor with one count for each slice (int32 or int64, non-negative), whose
            values are waited for.
        axis: Axis to repeat along; ``None`` flattens ``x`` first. Default: None.
        name: Not used; kept for Paddle's signature.
        output_size: Size of the result along ``axis``, if it is to be checked. Default: None.

    Returns:
        Tensor whose size along ``axis`` is the sum of the counts.

    Examples:
        >>> bireme.repeat_interleave(bireme.to_tensor([5, 6]), bireme.to_tensor([1, 2])).tolist()
        [5, 6, 6]
    """
    if axis is None:
        x, axis = ravel(x), 0
    if x.ndim == 0:
        raise errors.bad("repeat_interleave(axis)", "no axis for a 0-D tensor", axis, kind=errors.OutOfRangeError)
    axis = one_axis(axis, x.ndim, "repeat_interleave(axis)")
    n = x.shape[axis]
    if not isinstance(repeats, Tensor):
        if not isinstance(repeats, (int, np.integer)) or isinstance(repeats, bool):
            raise errors.bad(
                "repeat_interleave(repeats)", "an integer or an integer tensor", repeats, kind=errors.ArgumentTypeError
            )
        if repeats <= 0:
            raise errors.bad(
                "repeat_interleave(repeats)", "a positive integer", int(repeats), kind=errors.for_number(int(repeats))
            )
        _sized(output_size, n * int(repeats))
        return repeat_each(x, int(repeats), axis)
    if repeats.dtype.name not in ("int32", "int64") or repeats.ndim > 1 or repeats._value.sig.size != n:
        raise errors.bad("repeat_interleave(repeats)", f"{n} integers, one for each slice along axis {axis}", repeats)
    counts = repeats._host().reshape(-1)
    if n and (counts.min() < 0 or int(counts.sum(dtype=object)) > MAX_ELEMENTS):
        raise errors.bad(
            "repeat_interleave(repeats)",
            f"non-negative integers that sum to at most {MAX_ELEMENTS:,}",
            described=f"{counts.min()} to {counts.max()}",
        )
    _sized(output_size, int(counts.sum()))
    return index_select(x, Tensor(value_of(np.repeat(np.arange(n), counts))), axis)


def _sized(given: int | None, found: int) -> None:
    if given is not None and given != found:
        raise errors.bad("repeat_interleave(output_size)", f"{found}, what the repeats add up to", given)


# ---------------------------------------------------------------- order


_FLIPS = "flip reverse"


@op(public=_FLIPS, method=_FLIPS, numpy=True)
def flip(x: Tensor, axis: Axes) -> Tensor:
    """Reverse the order of elements along axes.

    Args:
        x: Input tensor of any dtype.
        axis: Axis or axes to reverse.

    Returns:
        Tensor of the shape and dtype of ``x``, which is a copy.

    Examples:
        >>> bireme.flip(bireme.to_tensor([1, 2, 3]), 0).tolist()
        [3, 2, 1]
    """
    return jnp.flip(x, axis)


@flip.prepare
def _(arguments):
    x, axis = arguments["x"], arguments["axis"]
    if isinstance(x, Tensor) and x.ndim == 0 and axis not in ((), []):
        raise errors.bad("flip(axis)", "no axes, as x has none", axis, kind=errors.OutOfRangeError)


flip.infer(lambda x: x)
flip.grad(lambda g, axis: jnp.flip(g, axis), numpy=True)


@composite(method=True)
def rot90(x: Tensor, k: Attr[int] = 1, axes: Attr[Sequence[int]] = [0, 1]) -> Tensor:  # noqa: B006  # Paddle's default, never changed
    """Rotate a tensor by 90 degrees in the plane of two axes.

    Args:
        x: Tensor with at least two axes.
        k: Number of rotations, from the first of ``axes`` towards the second; negative ones go the other way. Default:
            1.
        axes: The two axes of the plane. Default: ``[0, 1]``.

    Returns:
        The rotated tensor; ``x`` itself if ``k`` is a multiple of 4.

    Examples:
        >>> bireme.rot90(bireme.to_tensor([[1, 2], [3, 4]])).tolist()
        [[2, 4], [1, 3]]
    """
    if x.ndim < 2:
        raise errors.bad("rot90(x)", "at least 2 dimensions", x)
    axes = axes.tolist() if isinstance(axes, (Tensor, np.ndarray)) else axes
    if not isinstance(axes, (list, tuple, range)) or len(axes) != 2:
        raise errors.bad("rot90(axes)", "two axes", axes)
    a, b = [one_axis(i, x.ndim, "rot90(axes)") for i in axes]
    if a == b:
        raise errors.bad("rot90(axes)", "two different axes", list(axes))
    k = k.item() if isinstance(k, np.ndarray) and k.ndim == 0 else k
    if not isinstance(k, (int, float, np.number, Tensor)):
        raise errors.bad("rot90(k)", "an integer", k, kind=errors.ArgumentTypeError)
    turns = int(k) % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, [a, b])
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return transpose(flip(x, [b]), order) if turns == 1 else flip(transpose(x, order), [b])


@op(method=True, alias={"x": "input", "axis": "dims"}, numpy=True)
def roll(x: Tensor, shifts: Ints, axis: Attr[int | Sequence[int]] = None) -> Tensor:
    """Shift elements cyclically along axes.

    Args:
        x: Input tensor of any dtype.
        shifts: By how many positions, one integer for each axis; elements beyond the end come back at the start.
        axis: Axis or axes to shift along; ``None`` shifts the flattened tensor and restores its shape. Default: None.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.roll(bireme.to_tensor([1, 2, 3]), shifts=1, axis=0).tolist()
        [3, 1, 2]
    """
    return jnp.roll(x, shifts if axis is not None else shifts[0], axis=axis)


@roll.prepare
def _(arguments):
    x, axis = arguments["x"], arguments["axis"]
    axis = axis.tolist() if isinstance(axis, np.ndarray) else axis
    if axis is None and len(ints(arguments["shifts"], 0, "roll(shifts)") or ()) != 1:
        raise errors.bad("roll(shifts)", "one shift for the flattened tensor", arguments["shifts"])
    if isinstance(x, Tensor) and axis is not None:
        if x.ndim == 0 and axis not in ((), []):
            raise errors.bad("roll(axis)", "no axes, as x has none", axis, kind=errors.OutOfRangeError)
        found = tuple(
            one_axis(a, x.ndim, "roll(axis)") for a in (axis if isinstance(axis, (list, tuple, range)) else [axis])
        )
        shifts = ints(arguments["shifts"], 0, "roll(shifts)") or ()
        if len(shifts) != len(found):
            raise errors.bad("roll(shifts)", f"{len(found)} shifts, one for each axis", list(shifts))
        arguments["axis"] = found
        if not x.ndim:  # a number stays where it is
            arguments["axis"], arguments["shifts"] = None, (0,)


roll.infer(lambda x: x)


@roll.grad(numpy=True)
def _(g, shifts, axis):
    return jnp.roll(g, [-n for n in shifts] if axis is not None else -shifts[0], axis=axis)
