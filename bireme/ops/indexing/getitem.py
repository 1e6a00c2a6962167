"""Reading by index: `x[...]` in all its forms, and `unbind`.

A basic index (integers, slices, None, ...) is one `slice_view` node that shares storage: sizes and steps are
attributes, starts are inputs, so `x[i]` in a loop is one program. An index with tensors, lists or masks copies, by
`pick`. An integer is basic beside an array too, as in Paddle and unlike in NumPy: `x[0, :, [1, 2]]` is `x[0][:, [1,
2]]`. And `...` that covers no axis does not separate arrays.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.conversion import check_range
from bireme.core.declare.op import Attr, Axis, Tensor, composite, op
from bireme.core.graph import segment
from bireme.core.graph.bound import bounded
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.overwriting import overwrites, own
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.core.tensor import view
from bireme.core.tensor.tensor import value_of, wrap_own
from bireme.ops._shared.broadcast import broadcast_shape
from bireme.ops.indexing.along_axis import add_at, add_rows, combined, into_zeros, take_axis
from bireme.ops.manipulation import reshape

# ---------------------------------------------------------------- basic indexing: one view operator


def take_slice(x, starts, spec):
    """`spec` has, per axis of x, (size, step, drop): `size` elements from a start, `step` apart, and whether the axis
    goes.
    """
    out = _turned(_read_window(x, starts, spec), spec)
    if any(builtins.abs(step) != 1 for _, step, _ in spec):
        out = out[tuple(slice(None, None, builtins.abs(step)) for _, step, _ in spec)]
    return out.reshape(kept(spec))


def _window(starts, spec, shape):
    """Where the part of an array begins that a slice goes over, and its sizes; an axis that is taken whole begins at 0, so
    that nothing is computed for it.
    """
    reach = tuple([(n - 1) * builtins.abs(step) + 1 if n else 0 for n, step, _ in spec])
    at = [s if step > 0 else s - (r - 1) for s, r, (_, step, _) in zip(starts, reach, spec)]
    return tuple([np.zeros((), s.dtype) if r == n else s for s, r, n in zip(at, reach, shape)]), reach


def _read_window(x, starts, spec):
    return lax.dynamic_slice(x, *_window(starts, spec, x.shape), allow_negative_indices=False)


def _write_window(x, part, starts, spec):
    return lax.dynamic_update_slice(x, part, _window(starts, spec, x.shape)[0], allow_negative_indices=False)


def _turned(x, spec):
    """With the axes turned round along which a slice goes backwards."""
    back = [axis for axis, (_, step, _) in enumerate(spec) if step < 0]
    return jnp.flip(x, back) if back else x


def _spread(part, spec):
    """A slice's elements where they belong in its window, and zeros between them."""
    part = _turned(part.reshape([n for n, _, _ in spec]), spec)
    gaps = [builtins.abs(step) - 1 for _, step, _ in spec]
    return lax.pad(part, np.zeros((), part.dtype), [(0, 0, gap) for gap in gaps]) if any(gaps) else part


def kept(spec):
    """The shape of a slice."""
    return tuple(n for n, _, drop in spec if not drop)


def slices(starts, spec):
    """The same index as Python's slices."""
    found = []
    for s, (n, step, _) in zip(starts, spec):
        s = int(s)
        stop = s + n * step
        found.append(slice(s, stop if stop >= 0 else None, step) if n else slice(0, 0))
    return tuple(found)


@op(internal=True, view=True, linear=True, numpy=lambda x, starts, spec: x[_index(starts, spec)])
def slice_view(x: Tensor, starts: list[Tensor], spec: Attr) -> Tensor:
    """Part of a tensor by a basic index; use `x[...]`.

    >>> bireme.to_tensor([1, 2, 3])[1:].tolist()
    [2, 3]
    """
    return take_slice(x, starts, spec)


slice_view.infer(lambda x, spec: sig_of(kept(spec), x.dtype))


@slice_view.grad(numpy=lambda g, starts, spec, sigs: _into_numpy(g, starts, spec, sigs))
def _(g, starts, spec, sigs):
    zeros = jnp.zeros(sigs[0].shape, sigs[0].dtype.np)
    return (_write_window(zeros, _spread(g.astype(zeros.dtype), spec), starts, spec), *[None] * len(starts))


def _into_numpy(g, starts, spec, sigs):
    out = np.zeros(sigs[0].shape, sigs[0].dtype.np)
    out[_index(starts, spec)] = g
    return (out, *[None] * len(starts))


def _index(starts, spec):
    """The same index as Python's slices, and integers for the axes that are left out."""
    found = []
    for s, (n, step, drop) in zip(starts, spec):
        s = int(s)
        if drop:
            found.append(s)
        else:
            stop = s + n * step
            found.append(slice(s, stop if stop >= 0 else None, step) if n else slice(0, 0))
    return tuple(found)


@slice_view.layout
def _(sig, strides, first, bound, numbers):
    spec = bound.attrs[0]
    starts = [n[1] if n.__class__ is tuple else int(n) for n in numbers]
    steps = tuple([s * step for s, (_, step, drop) in zip(strides, spec) if not drop])
    return steps, first + sum(s * at for s, at in zip(strides, starts))


def put_slice(x, part, starts, spec):
    """`x` with the slice replaced by `part`, or by as much of it as it takes."""
    part = _spread(jnp.broadcast_to(part, kept(spec)).astype(x.dtype), spec)
    between = [(axis, builtins.abs(step)) for axis, (n, step, _) in enumerate(spec) if builtins.abs(step) > 1 < n]
    if between and part.size:  # what lies there stays
        taken = [
            lax.rem(lax.broadcasted_iota(np.int32, part.shape, axis), np.int32(step)) == 0 for axis, step in between
        ]
        part = jnp.where(functools.reduce(operator.and_, taken), part, _read_window(x, starts, spec))
    return _write_window(x, part, starts, spec)


@overwrites
def put_slice_numpy(x, part, starts, spec):
    """The same on NumPy arrays."""
    out = own(x)
    if part.ndim:
        dims = kept(spec)
        part = (part if part.shape == dims else np.broadcast_to(part, dims)).reshape(tuple([n for n, _, _ in spec]))
    out[slices(starts, spec)] = part
    return out


# ---------------------------------------------------------------- an index resolved


class Flag:
    """A single bool as an index: a new axis of size 1 or 0."""

    __slots__ = ("index",)

    def __init__(self, value: bool):
        self.index = Tensor(value_of(np.zeros(int(value), np.int64)))


def _is_bool(item: Any) -> bool:
    if isinstance(item, (np.ndarray, Tensor)):
        return item.ndim == 0 and item.dtype in (np.bool_, dtypes.bool_)
    return isinstance(item, (bool, np.bool_))


class Index:
    """An index resolved against a shape: the basic part, axes to add, and the tensors that pick elements."""

    __slots__ = ("starts", "spec", "adds", "picks", "plain", "unique")

    def __init__(self, x: Tensor, key: Any):
        items, self.unique = _items(x, key)  # unique: no element is picked twice
        self.starts: list[int] = []
        self.spec: list[tuple[int, int, bool]] = []
        self.adds: list[int] = []  # indices of new axes in the result of the basic part
        self.picks: dict[int, Any] = {}  # axis of the basic part's result -> index tensor
        self.plain = True
        axis = place = 0
        dims = x._value.sig.shape
        for item in items:
            if item is None or isinstance(item, Flag):
                if item is not None:
                    self.picks[place] = item.index
                self.adds.append(place)
                place += 1
                continue
            n = dims[axis]
            if isinstance(item, slice):
                start, size, step = bounds(item, n)
                if size != n or step != 1:
                    self.plain = False
                self.starts.append(start)
                self.spec.append((size, step, False))
                place += 1
            elif isinstance(item, Tensor):
                self.starts.append(0)
                self.spec.append((n, 1, False))
                self.picks[place] = item
                place += 1
            else:
                if not -n <= item < n:
                    raise errors.bad(
                        "x[index]", f"an index in [{-n}, {n - 1}] for axis {axis}", item, kind=errors.OutOfRangeError
                    )
                self.plain = False
                self.starts.append(item + n if item < 0 else item)
                self.spec.append((1, 1, True))
            axis += 1

    def basic(self, x: Tensor) -> Tensor:
        """The basic part, sharing storage with `x`."""
        return _taken(x, *self.steps())

    def steps(self) -> tuple[Any, list, list[int] | None]:
        """The basic part as calls: the bound slice, unless all is taken, where it starts, and the shape with new axes,
        if there are any.
        """
        bound, dims = None, list(kept(self.spec))
        if not self.plain or not (self.adds or self.picks):
            bound = slice_view.bind((1, -len(self.starts)), (tuple(self.spec),))
        for place in self.adds:
            dims.insert(place, 1)
        return bound, self.numbers(), dims if self.adds else None

    def numbers(self) -> list:
        return [(dtypes.int64, s) for s in self.starts]

    def check(self, x: Tensor) -> None:
        """Raise for a tensor that picks what is not there; `x` is the basic part."""
        for axis, i in self.picks.items():
            n = x.shape[axis]
            if not n and i.size:
                raise errors.bad(
                    "x[index]", f"no indices into axis {axis}, which has no elements", i, kind=errors.OutOfRangeError
                )
            check_range("x[index]", i, -n, n)


def bounds(s: slice, n: int) -> tuple[int, int, int]:
    """Start, size and step of a slice of `n` elements."""
    parts = []
    for name, part in (("start", s.start), ("stop", s.stop), ("step", s.step)):
        if part is not None and not isinstance(part, (int, np.integer)):
            known = isinstance(part, (Tensor, np.ndarray)) and part.dtype.kind in "iu" and part.size == 1
            if not known:
                raise errors.bad(f"x[{name}]", "an integer", part, kind=errors.ArgumentTypeError)
            part = int(part.item())
        parts.append(part)
    if parts[2] == 0:
        raise errors.bad("x[step]", "a nonzero step", 0)
    start, stop, step = slice(*parts).indices(n)
    size = len(range(start, stop, step))
    return (start if size else 0), size, step


def _items(x: Tensor, key: Any) -> tuple[list, bool]:
    """The index as a full list: slices, ints, None, and tensors of integers; masks become integers.

    And whether what the tensors pick is known to be there once: one mask, and nothing beside it.
    """
    found = [_item(item) for item in (key if isinstance(key, tuple) else [key])]
    if any(isinstance(i, Tensor) and i.ndim for i in found):  # beside those, a 0-d tensor is an integer too
        found = [int(i) if isinstance(i, Tensor) and not i.ndim and i.dtype.kind == "i" else i for i in found]
    ndim, used = x._value.sig.ndim, sum(map(_span, found))
    if used > ndim:
        raise errors.bad(
            "x[index]", f"at most {ndim} indices for shape {x.shape}", described=f"{used}", kind=errors.OutOfRangeError
        )
    at = [k for k, i in enumerate(found) if i is Ellipsis]
    if len(at) > 1:
        raise errors.bad("x[index]", "at most one Ellipsis", described="two", kind=errors.OutOfRangeError)
    k = at[0] if at else len(found)
    items: list[Any] = []
    masks = others = axis = 0
    for item in [*found[:k], *[slice(None)] * (ndim - used), *found[k + 1 :]]:
        if not isinstance(item, Tensor):
            items.append(item)
        elif item.dtype is dtypes.bool_:
            masks += 1
            items.extend(_mask(x, item, axis))
        elif item.dtype.kind == "i":
            others += 1
            items.append(item)
        else:
            raise errors.bad(
                "x[index]", "integer or bool tensors", described=item.dtype.name, kind=errors.ArgumentTypeError
            )
        axis += _span(item)
    return items, masks == 1 and not others


def _span(item: Any) -> int:
    """How many axes an item indexes."""
    if item is None or item is Ellipsis or isinstance(item, Flag):
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype is dtypes.bool_ else 1


def _item(item: Any) -> Any:
    """One item of an index: a slice, None, ..., an int, a Flag, or a Tensor."""
    if item is Ellipsis or item is None or isinstance(item, slice):
        return item
    if _is_bool(item):
        return Flag(bool(item))
    if isinstance(item, (int, np.integer)) or (
        isinstance(item, np.ndarray) and not item.ndim and item.dtype.kind in "iu"
    ):
        return int(item)
    if isinstance(item, (list, tuple, np.ndarray, range)):
        made = value_of(item)
        if not made.sig.size and not isinstance(item, np.ndarray):
            made = value_of(np.zeros(made.sig.shape, np.int64))  # an empty list has no dtype of its own
        return Tensor(made)
    if isinstance(item, Tensor):
        return int(item) if item.ndim == 0 and item.dtype.kind == "i" and item._value.array is not None else item
    raise errors.bad("x[index]", "integers, slices, None, ..., tensors or lists", item, kind=errors.ArgumentTypeError)


def _mask(x: Tensor, mask: Tensor, axis: int) -> list:
    """A mask over axes from this one on, as one integer tensor for each; this reads the mask."""
    covered = x.shape[axis : axis + mask.ndim]
    if mask.shape != covered:
        raise errors.bad(
            "x[mask]", f"a mask of shape {covered}", described=f"shape {mask.shape}", kind=errors.OutOfRangeError
        )
    return [_place(i, n) for i, n in zip(np.nonzero(mask._host()), covered)]


def _place(found: np.ndarray, n: int) -> Tensor:
    """Indices along an axis of `n` elements that a mask gave: nobody need ask again whether they are there."""
    index = wrap_own(np.ascontiguousarray(found, np.int64))
    index._value.bounds = (0, n - 1)
    return index


# ---------------------------------------------------------------- picking


def lined_up(x, axes):
    """`x` with the indexed axes as one, and the index of that: of the first if they are adjacent, else 0."""
    at = axes[0]
    if tuple(axes) != tuple(range(at, at + len(axes))):
        x, at = jnp.transpose(x, (*axes, *[k for k in range(x.ndim) if k not in axes])), 0
    end = at + len(axes)
    return x.reshape((*x.shape[:at], math.prod(x.shape[at:end]), *x.shape[end:])), at


def put_back(line, dims, axes):
    """The inverse of `lined_up`."""
    at = axes[0]
    if tuple(axes) == tuple(range(at, at + len(axes))):
        return line.reshape(dims)
    order = (*axes, *[k for k in range(len(dims)) if k not in axes])
    return jnp.transpose(line.reshape([dims[k] for k in order]), [order.index(k) for k in range(len(dims))])


def _picked(x, index, axes):
    line, at = lined_up(x, axes)
    return take_axis(line, combined([x.shape[a] for a in axes], index), at)


_picked_numpy = on_numpy(_picked)


def _pick_numpy(x, index, axes):
    return x.take(index[0], axes[0], None, "wrap") if len(axes) == 1 else _picked_numpy(x, index, axes)


@op(internal=True, numpy=_pick_numpy)
def pick(x: Tensor, index: list[Tensor], axes: Attr) -> Tensor:
    """Elements picked by integer tensors along axes, as NumPy does; use `x[...]`.

    >>> bireme.to_tensor([5, 6, 7])[bireme.to_tensor([2, 0])].tolist()
    [7, 5]
    """
    return _picked(x, index, axes)


@pick.infer
def _(x, index, axes):
    return sig_of(tuple(picked_shape(x.shape, axes, [i.shape for i in index])), x.dtype)


def _pick_grad(g, index, axes, sigs, add):
    dims = sigs[0].shape
    zero, at = lined_up(jnp.zeros(dims, g.dtype), axes)
    made = add(zero, combined([dims[a] for a in axes], index), g, at)
    return (put_back(made, dims, axes), *[None] * len(index))


_pick_grad_by_axes = on_numpy(_pick_grad)


def _pick_grad_numpy(g, index, axes, sigs):
    if axes == (0,) and index[0].ndim == 1:
        return into_zeros(sigs[0], index[0], g), None
    return _pick_grad_by_axes(g, index, axes, sigs, add_at)


@pick.grad(numpy=_pick_grad_numpy)
def _(g, index, axes, sigs):
    return _pick_grad(g, index, axes, sigs, add_at)


@pick.grad(on="cpu", mesh=False)
def _(g, index, axes, sigs):
    return _pick_grad(g, index, axes, sigs, add_rows)


def picked_shape(dims: Any, axes: tuple[int, ...], indices: list) -> list[int]:
    """The shape of what integer tensors pick along axes: theirs, at the first axis if adjacent, else in front."""
    picked = list(broadcast_shape("x[index]", *map(tuple, indices)))
    rest = [n for a, n in enumerate(dims) if a not in axes]
    at = axes[0] if list(axes) == list(range(axes[0], axes[0] + len(axes))) else 0
    return [*rest[:at], *picked, *rest[at:]]


_rows: dict[tuple, Any] = {}  # by shape, what takes a row


def _row(x: Tensor, i: int) -> Tensor:
    """`x[i]`: the most common index, without detours."""
    dims = x._value.sig.shape
    n = dims[0]
    if not -n <= i < n:
        raise errors.bad("x[index]", f"an index in [{-n}, {n - 1}] for axis 0", i, kind=errors.OutOfRangeError)
    bound = _rows.get(dims)
    if bound is None:
        spec = ((1, 1, True), *[(d, 1, False) for d in dims[1:]])
        bound = bounded(_rows)[dims] = slice_view.bind((1, -len(dims)), (spec,))
    return slice_view.record(bound, [x, (dtypes.int64, i + n if i < 0 else i), *[(dtypes.int64, 0)] * (len(dims) - 1)])


def written_out(key: Any) -> tuple | None:
    """An index of integers, slices of integers, None and `...` as something that can be a key; None for any other."""
    found: list[Any] = []
    for item in key if key.__class__ is tuple else (key,):
        if item.__class__ is slice:
            parts = (item.start, item.stop, item.step)
            if not all(p is None or p.__class__ is int for p in parts):
                return None
            found.append(parts)
        elif item.__class__ is int or item is Ellipsis or item is None:
            found.append(item)
        else:
            return None
    return tuple(found)


_sliced: dict[tuple, tuple] = {}  # basic indices resolved before: bound operator, starts, shape with new axes


def _taken(x: Tensor, bound: Any, starts: list, dims: list[int] | None) -> Tensor:
    """What an index of `_sliced` takes."""
    part = x if bound is None else slice_view.record(bound, [x, *starts])
    return part if dims is None else reshape.reshaped(part, dims)


def getitem(x: Tensor, key: Any) -> Tensor:
    """`x[key]`."""
    try:
        trace = segment.local.trace
        if trace is not None and trace.builds:
            return trace.build_method("__getitem__", x, key)
        if key.__class__ is int and x._value.sig.ndim:
            return _row(x, key)
        plain = written_out(key)
        if plain is not None:
            found = _sliced.get((x._value.sig, plain))
            if found is not None:
                return _taken(x, *found)
        index = Index(x, key)
        if plain is not None:
            found = bounded(_sliced)[x._value.sig, plain] = index.steps()
            return _taken(x, *found)
        out = index.basic(x)
        if not index.picks:
            return out
        index.check(out)
        return pick.public(out, list(index.picks.values()), tuple(index.picks))
    except errors.TELLING as e:
        errors.leave(e)
        raise


Tensor.__getitem__ = getitem  # type: ignore[attr-defined]  # a method that Tensor gets here


# ---------------------------------------------------------------- all parts along an axis


@op(internal="unbind", numpy=lambda x, axis: [np.take(x, i, axis) for i in range(x.shape[axis])])
def unbind_of(x: Tensor, axis: Axis) -> list[Tensor]:
    """The parts along an axis, without that axis; use `unbind`.

    >>> [p.tolist() for p in bireme.unbind(bireme.to_tensor([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    return [lax.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis])]


@unbind_of.infer
def _(x, axis):
    return [sig_of((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)] * x.shape[axis]


@unbind_of.grad(numpy=True)
def _(g, axis):
    return jnp.stack(g, axis)


@composite(method=True, name_arg=False)
def unbind(input: Tensor, axis: Axis = 0) -> list[Tensor]:
    """Split a tensor into its slices along an axis, without that axis.

    Args:
        input: Tensor with at least one axis.
        axis: Axis to remove. Default: 0.

    Returns:
        List of tensors, one for each index of the axis; they share storage with ``input``.

    Examples:
        >>> [p.tolist() for p in bireme.unbind(bireme.to_tensor([[1, 2], [3, 4]]))]
        [[1, 2], [3, 4]]
    """
    if input.ndim == 0:
        raise errors.bad("unbind(input)", "a tensor with at least 1 dimension", input)
    if input.shape[axis] == 0:
        return []
    # one node with one gradient; as views, the parts are the slices that they are
    parts = unbind_of(input, axis)
    found = _unbound.get((input._value.sig, axis))
    if found is None:
        dims = input._value.sig.shape
        spec = tuple([(1, 1, True) if k == axis else (n, 1, False) for k, n in enumerate(dims)])
        bound = slice_view.bind((1, -len(dims)), (spec,))
        found = [(bound, [(dtypes.int64, i if k == axis else 0) for k in range(len(dims))]) for i in range(len(parts))]
        bounded(_unbound)[input._value.sig, axis] = found
    for part, (bound, numbers) in zip(parts, found):
        view.attach(part, input, bound, numbers)
    return parts


_unbound: dict[tuple[Any, int], list] = {}  # by Sig and axis, the views that the parts are
