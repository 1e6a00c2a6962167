"""Parts of a tensor by start, end and stride: slices, windows, raw strides."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.conversion import ints, one_axis
from bireme.core.declare.conversion import shape as checked_shape
from bireme.core.declare.op import Attr, Ints, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor.view import in_a_row, layout, root_of
from bireme.ops.creation.tensors import clone
from bireme.ops.indexing.getitem import getitem, slice_view
from bireme.ops.manipulation.reshape import reshape, transpose

# ---------------------------------------------------------------- by start and end


def _sliced(name: str, x: Tensor, axes: Any, **bounds: Any) -> Tensor:
    """`x[start:end:stride]` along several axes."""
    found = {"axes": ints(axes, 0, f"{name}(axes)")} | {k: ints(v, 0, f"{name}({k})") for k, v in bounds.items()}
    n = len(found["axes"] or ())
    for k, v in found.items():
        if v is None or len(v) != n:
            raise errors.bad(f"{name}({k})", f"{n} integers, one per axis", bounds.get(k))
    index: list[builtins.slice] = [builtins.slice(None)] * x.ndim
    for axis, *bound in zip(*found.values()):
        if x.ndim == 0:
            raise errors.bad(f"{name}(input)", "a tensor with at least 1 dimension", x)
        at = one_axis(axis, x.ndim, f"{name}(axes)")
        if len(bound) == 3 and bound[2] == 0:
            raise errors.bad(f"{name}(strides)", "nonzero strides", list(bounds["strides"]))
        index[at] = builtins.slice(*bound)
    return getitem(x, tuple(index))


@composite(method=True, name_arg=False)
def slice(input: Tensor, axes: Attr[Sequence[int]], starts: Attr[Sequence[int | Tensor] | Tensor],
          ends: Attr[Sequence[int | Tensor] | Tensor]) -> Tensor:  # fmt: skip
    """Slice a tensor along axes: ``x[start:end]`` for each of them.

    Args:
        input: Tensor with at least one axis.
        axes: List or tuple of axes to slice along.
        starts: First index along each axis; a list, a tuple or an integer tensor. Negative ones count from the end, and
            those out of range are limited to it.
        ends: Index after the last one along each axis, likewise.

    Returns:
        Tensor with as many axes as ``input``; it shares storage with it.

    Examples:
        >>> bireme.slice(bireme.to_tensor([1, 2, 3, 4]), [0], [1], [-1]).tolist()
        [2, 3]
    """
    if not isinstance(axes, (list, tuple)) or not axes:
        raise errors.bad("slice(axes)", "a non-empty list of axes", axes)
    return _sliced("slice", input, axes, starts=starts, ends=ends)


@composite(method=True)
def strided_slice(x: Tensor, axes: Attr[Sequence[int]], starts: Attr[Sequence[int | Tensor] | Tensor],
                  ends: Attr[Sequence[int | Tensor] | Tensor],
                  strides: Attr[Sequence[int | Tensor] | Tensor]) -> Tensor:  # fmt: skip
    """Slice a tensor along axes with steps: ``x[start:end:stride]`` for each of them.

    Args:
        x: Tensor with at least one axis.
        axes: Axes to slice along.
        starts: First index along each axis; a list, a tuple or an integer tensor. Negative ones count from the end, and
            those out of range are limited to it.
        ends: Index after the last one along each axis, likewise.
        strides: Step along each axis; not 0. A negative one goes backwards, from ``starts`` to before ``ends``.

    Returns:
        Tensor with as many axes as ``x``; it shares storage with it.

    Examples:
        >>> bireme.strided_slice(bireme.to_tensor([1, 2, 3, 4]), [0], [3], [0], [-2]).tolist()
        [4, 2]
    """
    return _sliced("strided_slice", x, axes, starts=starts, ends=ends, strides=strides)


@composite(method=True, name_arg=False)
def narrow(input: Tensor, dim: int, start: Attr[int | Tensor], length: Attr[int | Tensor]) -> Tensor:
    """Take a range of indices along one axis: ``x[start:start + length]``.

    Args:
        input: Tensor with at least one axis.
        dim: Axis to narrow.
        start: First index, in ``[-n, n]`` for an axis of size ``n``; an integer or a 0-D integer tensor.
        length: Number of indices; must not go beyond the end.

    Returns:
        Tensor of size ``length`` along ``dim``; it shares storage with ``input``.

    Raises:
        ValueError: If the range is not within the axis.

    Examples:
        >>> bireme.narrow(bireme.to_tensor([1, 2, 3, 4]), 0, 1, 2).tolist()
        [2, 3]
    """
    if input.ndim == 0:
        raise errors.bad("narrow(input)", "a tensor with at least 1 dimension", input, kind=errors.ArgumentError)
    axis = one_axis(dim, input.ndim, "narrow(dim)")
    n = input.shape[axis]
    if isinstance(start, Tensor) and (start.ndim or start.dtype.kind != "i"):
        raise errors.bad("narrow(start)", "an integer or a 0-D integer tensor", start, kind=errors.for_integer(start))
    if start is None or length is None:
        raise errors.bad("narrow(start, length)", "integers", None, kind=errors.ArgumentTypeError)
    (first,), (size,) = ints(start, 0, "narrow(start)") or (), ints(length, 0, "narrow(length)") or ()
    if not -n <= first <= n:
        raise errors.bad("narrow(start)", f"an index in [{-n}, {n}]", first, kind=errors.ArgumentError)
    first += n if first < 0 else 0
    if not 0 <= size <= n - first:
        raise errors.bad("narrow(length)", f"a length in [0, {n - first}]", size, kind=errors.ArgumentError)
    return getitem(input, (*[builtins.slice(None)] * axis, builtins.slice(first, first + size)))


@composite()
def crop(x: Tensor, shape: Attr[Sequence[int | Tensor] | Tensor] = None,
         offsets: Attr[Sequence[int | Tensor] | Tensor] = None) -> Tensor:  # fmt: skip
    """Crop a tensor to a box given by its shape and its first corner.

    Args:
        x: Input tensor of any dtype.
        shape: Sizes of the box, one for each axis; ``-1`` goes to the end of the axis. ``None`` means the shape of
            ``x``. Default: None.
        offsets: First index along each axis; ``None`` means zeros. Default: None.

    Returns:
        Tensor of shape ``shape``, which is a copy.

    Raises:
        ValueError: If the box is not within ``x``.

    Examples:
        >>> bireme.crop(bireme.to_tensor([1, 2, 3, 4]), [2], [1]).tolist()
        [2, 3]
    """
    dims = x.shape
    size = dims if shape is None else list(ints(shape, 0, "crop(shape)") or ())
    first = [0] * x.ndim if offsets is None else list(ints(offsets, 0, "crop(offsets)") or ())
    for name, numbers in (("shape", size), ("offsets", first)):
        if len(numbers) != x.ndim:
            raise errors.bad(f"crop({name})", f"{x.ndim} integers, one per axis", numbers)
    for i, (n, k, at) in enumerate(zip(dims, size, first)):
        if not 0 <= at <= n:
            raise errors.bad("crop(offsets)", f"an offset in [0, {n}] for axis {i}", at)
        size[i] = n - at if k == -1 else k
        if not 0 <= size[i] <= n - at:
            raise errors.bad("crop(shape)", f"a size in [0, {n - at}] for axis {i}", k)
    return clone(getitem(x, tuple([builtins.slice(at, at + k) for at, k in zip(first, size)])))


# ---------------------------------------------------------------- windows


def _windows(n: int, size: int, step: int) -> np.ndarray:
    return np.arange((n - size) // step + 1)[:, None] * step + np.arange(size)


def _unfold_numpy(x, axis, size, step):
    if not x.ndim or not x.size:
        return x.reshape(size) if x.size else np.zeros(_windowed(x.shape, axis, size, step), x.dtype)
    return np.moveaxis(np.take(x, _windows(x.shape[axis], size, step), axis), axis + 1, -1)


@op(method=True, public="unfold", view=True, numpy=_unfold_numpy, upcast="grad",
    c_ops={"tensor_unfold": "input:x axis size step"})  # fmt: skip
def unfold(x: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Extract sliding windows along an axis.

    Args:
        x: Input tensor of any dtype.
        axis: Axis to slide along.
        size: Size of a window.
        step: Distance from one window to the next, above 0.

    Returns:
        Tensor of size ``(n - size) // step + 1`` along ``axis``, with the elements of the windows along a new last axis
        of size ``size``. It shares storage with ``x``; windows may overlap.

    Examples:
        >>> bireme.unfold(bireme.to_tensor([1, 2, 3, 4]), 0, 2, 1).tolist()
        [[1, 2], [2, 3], [3, 4]]
    """
    if not x.ndim or not x.size:
        return x.reshape(size) if x.size else jnp.zeros(_windowed(x.shape, axis, size, step), x.dtype)
    return jnp.moveaxis(jnp.take(x, _windows(x.shape[axis], size, step), axis, mode="clip"), axis + 1, -1)


@unfold.prepare
def _(arguments):
    x = arguments["x"]
    if isinstance(x, Tensor) and isinstance(arguments["axis"], int):
        arguments["axis"] = one_axis(arguments["axis"], x.ndim, "unfold(axis)")


@unfold.check
def _(x, axis, size, step):
    n = x.shape[axis] if x.ndim else 1
    if not 0 <= size <= n or (size == 0 and not x.ndim):
        raise errors.bad("unfold(size)", f"a size in [0, {n}]", size)
    if step <= 0:
        raise errors.bad("unfold(step)", "a positive step", step)


unfold.infer(lambda x, axis, size, step: sig_of(_windowed(x.shape, axis, size, step), x.dtype))


def _windowed(dims, axis, size, step):
    return (*dims[:axis], (dims[axis] - size) // step + 1, *dims[axis + 1 :], size) if dims else (size,)


def _fold_numpy(g, axis, size, step, sigs):
    out = np.zeros(sigs[0].shape, g.dtype)
    if not out.size or not out.ndim:
        return g.reshape(()) if out.size else out
    np.add.at(
        out, (builtins.slice(None),) * axis + (_windows(out.shape[axis], size, step),), np.moveaxis(g, -1, axis + 1)
    )
    return out


@unfold.grad(numpy=_fold_numpy)
def _(g, axis, size, step, sigs):
    out = jnp.zeros(sigs[0].shape, g.dtype)
    if not out.size or not out.ndim:
        return g.reshape(()) if out.size else out
    return out.at[(builtins.slice(None),) * axis + (_windows(out.shape[axis], size, step),)].add(
        jnp.moveaxis(g, -1, axis + 1)
    )


def _window_strides(strides, bound):
    axis, _, step = bound.attrs
    return (*strides[:axis], strides[axis] * step, *strides[axis + 1 :], strides[axis]) if strides else (1,)


@unfold.put
def _(source, part, bound, numbers):
    return _written(source, part, _window_strides(in_a_row(source._value.sig.shape), bound), 0)


unfold.layout(lambda sig, strides, first, bound, numbers: (_window_strides(strides, bound), first))


# ---------------------------------------------------------------- raw strides


def _places(shape, strides, first):
    at = np.full(shape, first, np.int64)
    for i, (n, step) in enumerate(zip(shape, strides)):
        at += (np.arange(n) * step).reshape([-1] + [1] * (len(shape) - i - 1))
    return at


@op(internal=True, view=True, upcast="grad",
    numpy=lambda x, shape, strides, first: x.reshape(-1)[_places(shape, strides, first)])  # fmt: skip
def strided_view(x: Tensor, shape: Ints, strides: Ints, first: int) -> Tensor:
    """Elements of the flat tensor by strides; use `as_strided`.

    >>> bireme.as_strided(bireme.to_tensor([1, 2, 3, 4]), [2, 2], [1, 2]).tolist()
    [[1, 3], [2, 4]]
    """
    return jnp.take(x.reshape(-1), _places(shape, strides, first), mode="clip")


strided_view.infer(lambda x, shape: sig_of(shape, x.dtype))


def _gathered_numpy(g, strides, first, sigs):
    out = np.zeros(sigs[0].size, g.dtype)
    np.add.at(out, _places(g.shape, strides, first), g)
    return out.reshape(sigs[0].shape)


@strided_view.grad(numpy=_gathered_numpy)
def _(g, strides, first, sigs):
    return jnp.zeros(sigs[0].size, g.dtype).at[_places(g.shape, strides, first)].add(g).reshape(sigs[0].shape)


@op(internal=True, numpy=lambda x, part, strides, first: _put_numpy(x, part, strides, first))
def strided_put(x: Tensor, part: Tensor, strides: Ints, first: int) -> Tensor:
    """A tensor with elements at strides replaced: writes into the result of `as_strided`.

    >>> x = bireme.zeros([4]); x.as_strided([2], [2])[1] = 5.0; x.tolist()
    [0.0, 0.0, 5.0, 0.0]
    """
    return x.reshape(-1).at[_places(part.shape, strides, first)].set(part, unique_indices=True).reshape(x.shape)


def _put_numpy(x, part, strides, first):
    out = np.array(x).reshape(-1)
    out[_places(part.shape, strides, first)] = part
    return out.reshape(x.shape)


strided_put.infer(lambda x: x)


@strided_put.grad(numpy=lambda g, strides, first, sigs: _put_grad_numpy(g, strides, first, sigs[1].shape))
def _(g, strides, first, sigs):
    flat, at = g.reshape(-1), _places(sigs[1].shape, strides, first)
    return flat.at[at].set(0).reshape(g.shape), flat[at]


def _put_grad_numpy(g, strides, first, shape):
    return _put_numpy(g, np.zeros(shape, g.dtype), strides, first), g.reshape(-1)[_places(shape, strides, first)]


@op(internal=True, upcast="grad", numpy=lambda x, part, strides, first: _merge_numpy(x, part, strides, first))
def strided_merge(x: Tensor, part: Tensor, strides: Ints, first: int) -> Tensor:
    """`strided_put` for overlapping strides: an element was written where any copy of it has changed.

    >>> x = bireme.zeros([3]); x.unfold(0, 2, 1)[0] = 5.0; x.tolist()
    [5.0, 5.0, 0.0]
    """
    flat, at = x.reshape(-1), _places(part.shape, strides, first)
    return flat.at[jnp.where(_differs(part, flat[at]), at, x.size)].set(part, mode="drop").reshape(x.shape)


def _merge_numpy(x, part, strides, first):
    out, at = np.array(x).reshape(-1), _places(part.shape, strides, first)
    new = _differs(part, out[at])
    out[at[new]] = part[new]
    return out.reshape(x.shape)


def _differs(part, old):
    return (part != old) & ((part == part) | (old == old))  # NaN counts as unchanged where it was NaN


strided_merge.infer(lambda x: x)


def _merge_grad(g, out, x, part, strides, first, xp, count):
    """Gradient to what was written, shared among the copies of an element; elsewhere to x."""
    flat, at = g.reshape(-1), _places(part.shape, strides, first)
    hit = _differs(part, x.reshape(-1)[at]) & (part == out.reshape(-1)[at])
    times = count(at, hit, flat)
    none = xp.zeros((), flat.dtype)
    shared = xp.where(hit, flat[at] / xp.where(times == 0, 1, times).astype(flat.dtype)[at], none)
    return xp.where(times == 0, flat, none).reshape(g.shape), shared


def _merge_grad_numpy(g, out, x, part, strides, first):
    return _merge_grad(
        g,
        out,
        x,
        part,
        strides,
        first,
        np,
        lambda at, hit, flat: np.bincount(at.reshape(-1), hit.reshape(-1), flat.size),
    )


@strided_merge.grad(numpy=_merge_grad_numpy)
def _(g, out, x, part, strides, first):
    return _merge_grad(
        g, out, x, part, strides, first, jnp, lambda at, hit, flat: jnp.zeros(flat.size, jnp.int32).at[at].add(hit)
    )


def _written(source: Tensor, part: Tensor, strides: tuple[int, ...], first: int) -> Tensor:
    places = _places(part._value.sig.shape, strides, first)
    return (strided_put if len(np.unique(places)) == places.size else strided_merge)(source, part, strides, first)


@strided_view.put
def _(source, part, bound, numbers):
    return _written(source, part, *bound.attrs[1:])


strided_view.layout(lambda sig, strides, first, bound, numbers: bound.attrs[1:])


@strided_view.path
def _(sig, shape, strides, first, shapes):
    """A slice of the tensor in its own shape, flat, or in a shape on the way, with permuted axes; else raw strides."""
    for dims in dict.fromkeys((sig.shape, (sig.size,), *shapes)):
        found = _as_slice(sig.shape, dims, shape, strides, first) if 0 not in shape else None
        if found is not None:
            yield found
    yield [(strided_view.bind((1,), (shape, strides, first)), [])]


def _as_slice(own, dims, shape, strides, first):
    """The operators for a slice of the tensor reshaped to `dims`; None if the elements are no slice of that."""
    rows = in_a_row(dims)
    starts = [first // step % n for n, step in zip(dims, rows)]
    taken: dict[int, tuple[int, int]] = {}  # by axis of `dims`, the axis that it becomes, and the step
    for i in sorted(range(len(shape)), key=lambda i: shape[i] == 1):  # axes of one element go anywhere: last
        n, stride = shape[i], strides[i]
        for axis, (extent, row) in enumerate(zip(dims, rows)):
            step = stride // row
            fits = axis not in taken and step * row == stride != 0 and 0 <= starts[axis] + step * (n - 1) < extent
            if fits and (n > 1 or step == 1):
                taken[axis] = (i, step)
                break
        else:
            if n > 1:
                return None
    spec = tuple([(shape[taken[k][0]], taken[k][1], False) if k in taken else (1, 1, True) for k in range(len(dims))])
    order = [taken[k][0] for k in sorted(taken)]
    steps: list[Any] = [(reshape.bind((1,), (dims,)), [])] if dims != own else []
    steps.append((slice_view.bind((1, -len(dims)), (spec,)), [(dtypes.int64, s) for s in starts]))
    if order != sorted(order):
        steps.append((transpose.bind((1,), (tuple([order.index(i) for i in sorted(order)]),)), []))
    if len(order) < len(shape):
        steps.append((reshape.bind((1,), (shape,)), []))
    return steps


@composite(method=True)
def as_strided(x: Tensor, shape: Ints, stride: Ints, offset: int = 0) -> Tensor:
    """View the storage of a tensor with given strides.

    The whole storage is seen: if ``x`` is itself a slice of a tensor, ``offset`` counts from the start of that tensor's
    storage, not from the first element of ``x``.

    Args:
        x: Tensor whose storage is viewed.
        shape: Shape of the view.
        stride: Strides in elements, one for each axis; negative ones and 0 are allowed.
        offset: Bytes from the start of the storage to the first element, a multiple of the size of an element. Default:
            0.

    Returns:
        Tensor of shape ``shape`` that shares storage with ``x``.

    Raises:
        ValueError: If an element would be outside of the storage.

    Examples:
        >>> bireme.as_strided(bireme.to_tensor([1, 2, 3, 4]), [2, 2], [1, 2]).tolist()
        [[1, 3], [2, 4]]
    """
    return strided_on("as_strided", x, shape, stride, offset)


def strided_on(name: str, x: Tensor, dims: Any, strides: Any, offset: int) -> Tensor:
    """The storage of `x` by strides, checked to lie within it."""
    dims, strides = checked_shape(dims, 0, f"{name}(shape)") or (), tuple(strides or ())
    if len(dims) != len(strides):
        raise errors.bad(f"{name}(stride)", f"{len(dims)} strides, one for each axis", list(strides))
    if offset % x.itemsize:
        raise errors.bad(f"{name}(offset)", f"a multiple of the itemsize {x.itemsize}", offset)
    whole, first = root_of(x), offset // x.itemsize
    if whole.dtype is not x.dtype:
        whole = x  # storage of another dtype: only what x shows of it
    reach = [(n - 1) * step for n, step in zip(dims, strides)]
    low, high = first + sum(r for r in reach if r < 0), first + sum(r for r in reach if r > 0)
    if 0 not in dims and not 0 <= low <= high < whole._value.sig.size:
        raise errors.bad(
            f"{name}(shape)",
            f"indices in [0, {whole._value.sig.size - 1}] of the storage",
            described=f"{low} to {high}, out of range",
        )
    own, start = layout(x)
    if (
        whole is not x
        and own == in_a_row(x._value.sig.shape)
        and (0 in dims or start <= low <= high < start + x._value.sig.size)
    ):
        whole, first = x, first - start  # all of it lies within x: then gradients go through x
    return strided_view(whole, dims, strides, first if 0 not in dims else 0)
