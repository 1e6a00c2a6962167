"""Indexing: `x[...]` for reading and writing, gather, take, scatter and their kin.

A basic index (integers, slices, None, ...) is one `slice` node that shares storage: sizes and steps are attributes,
starts are inputs, so `x[i]` in a loop is one program. An index with tensors, lists or masks copies.
"""

from __future__ import annotations

import builtins
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from bireme.core import dtype as dtypes
from bireme.core import errors, tape, view
from bireme.core.convert import check_range
from bireme.core.graph import sig_of
from bireme.core.op import Attr, Axis, Size, Tensor, assign_inplace, composite, op
from bireme.core.tensor import value_of
from bireme.ops import logic, shape
from bireme.ops.broadcast import broadcast_shape, sum_to_shape
from bireme.ops.creation import full

# ---------------------------------------------------------------- basic indexing: one view operator


def _slice(x, starts, spec):
    """`spec` has, per axis of x, (size, step, drop): `size` elements from a start, `step` apart, and whether the axis goes."""
    reach = tuple((n - 1) * builtins.abs(step) + 1 if n else 0 for n, step, _ in spec)
    at = tuple(s if step > 0 else s - (r - 1) for s, r, (_, step, _) in zip(starts, reach, spec))
    out = lax.dynamic_slice(x, at, reach)
    for axis, (_, step, _) in enumerate(spec):
        if step < 0:
            out = jnp.flip(out, axis)
    if any(builtins.abs(step) != 1 for _, step, _ in spec):
        out = out[tuple(slice(None, None, builtins.abs(step)) for _, step, _ in spec)]
    return out.reshape(_kept(spec))


def _kept(spec):
    return tuple(n for n, _, drop in spec if not drop)


def _slices(starts, spec):
    found = []
    for s, (n, step, _) in zip(starts, spec):
        s = int(s)
        stop = s + n * step
        found.append(slice(s, stop if stop >= 0 else None, step) if n else slice(0, 0))
    return tuple(found)


@op(view=True, numpy=lambda x, starts, spec: x[_slices(starts, spec)].reshape(_kept(spec)))
def slice_view(x: Tensor, starts: list[Tensor], spec: Attr) -> Tensor:
    """Part of a tensor by a basic index; use `x[...]`.

    >>> bireme.to_tensor([1, 2, 3])[1:].tolist()
    [2, 3]
    """
    return _slice(x, starts, spec)


slice_view.infer(lambda x, spec: sig_of(_kept(spec), x.dtype))


def _full(spec):
    return tuple(n for n, _, _ in spec)


@slice_view.grad(numpy=lambda g, starts, spec, sigs: _put_numpy(np.zeros(sigs[0].shape, sigs[0].dtype.np), g, starts, spec))
def _(g, starts, spec, sigs):
    return (_put(jnp.zeros(sigs[0].shape, sigs[0].dtype.np), g, starts, spec), *[None] * len(starts))


def _put(x, part, starts, spec):
    """`x` with the slice replaced by `part`."""
    part = part.reshape(_full(spec))
    if all(step == 1 for _, step, _ in spec):
        return lax.dynamic_update_slice(x, part.astype(x.dtype), tuple(starts))
    where = []
    for axis, (n, step, _) in enumerate(spec):
        index = starts[axis] + jnp.arange(n, dtype=starts[axis].dtype) * step
        where.append(index.reshape((-1,) + (1,) * (len(spec) - axis - 1)))
    return x.at[tuple(where)].set(part.astype(x.dtype), mode="promise_in_bounds", unique_indices=True)


def _put_numpy(x, part, starts, spec):
    out = np.array(x)
    out[_slices(starts, spec)] = part.reshape(_full(spec))
    return (out, *[None] * len(starts))


@op(numpy=lambda x, part, starts, spec: _put_numpy(x, part, starts, spec)[0])
def slice_put(x: Tensor, part: Tensor, starts: list[Tensor], spec: Attr) -> Tensor:
    """A tensor with a slice replaced; use `x[...] = value`.

    >>> x = bireme.to_tensor([1, 2, 3]); x[1:] = 0; x.tolist()
    [1, 0, 0]
    """
    return _put(x, part, starts, spec)


slice_put.infer(lambda x: x)


@slice_put.grad(numpy=lambda g, starts, spec: _put_grad_numpy(g, starts, spec))
def _(g, starts, spec):
    hole = _put(g, jnp.zeros(_full(spec), g.dtype), starts, spec)
    return (hole, _slice(g, starts, spec), *[None] * len(starts))


def _put_grad_numpy(g, starts, spec):
    hole = np.array(g)
    hole[_slices(starts, spec)] = 0
    return (hole, g[_slices(starts, spec)].reshape(_kept(spec)), *[None] * len(starts))


@slice_view.put
def _(source, part, bound, numbers):
    return slice_put.call({"x": source, "part": part, "starts": list(numbers), "spec": bound.attrs[0]})


class Flag:
    """A single bool as an index: a new axis of extent 1 or 0."""

    __slots__ = ("index",)

    def __init__(self, value: bool):
        self.index = Tensor(value_of(np.zeros(int(value), np.int64)))


def _is_bool(item: Any) -> bool:
    if isinstance(item, (np.ndarray, Tensor)):
        return item.ndim == 0 and item.dtype in (np.bool_, dtypes.bool_)
    return isinstance(item, (bool, np.bool_))


class Index:
    """An index worked out against a shape: the basic part, axes to add, and the tensors that pick elements."""

    __slots__ = ("starts", "spec", "adds", "picks", "plain")

    def __init__(self, x: Tensor, key: Any):
        items = _items(x, key)
        self.starts: list[int] = []
        self.spec: list[tuple[int, int, bool]] = []
        self.adds: list[int] = []  # places of new axes in the result of the basic part
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
                start, size, step = _bounds(item, n)
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
                    raise errors.bad("x[index]", f"an index in [{-n}, {n - 1}] for axis {axis}", item, kind=IndexError)
                self.plain = False
                self.starts.append(item + n if item < 0 else item)
                self.spec.append((1, 1, True))
            axis += 1

    def basic(self, x: Tensor) -> Tensor:
        """The basic part, sharing storage with `x`."""
        out = x
        if not self.plain or not (self.adds or self.picks):
            out = slice_view.call({"x": x, "starts": self.numbers(), "spec": tuple(self.spec)})
        if self.adds:
            dims = out.shape
            for place in self.adds:
                dims.insert(place, 1)
            out = shape.reshape(out, shape.Literal(dims))
        return out

    def numbers(self) -> list:
        return [(dtypes.int64, s) for s in self.starts]


def _bounds(s: slice, n: int) -> tuple[int, int, int]:
    parts = []
    for name, part in (("start", s.start), ("stop", s.stop), ("step", s.step)):
        if isinstance(part, Tensor) or (part is not None and not isinstance(part, (int, np.integer))):
            if not isinstance(part, Tensor):
                raise errors.bad(f"x[{name}]", "an integer", part, kind=TypeError)
            part = int(part)
        parts.append(part)
    if parts[2] == 0:
        raise errors.bad("x[step]", "a step other than 0", 0)
    start, stop, step = slice(*parts).indices(n)
    size = len(range(start, stop, step))
    return (start if size else 0), size, step


def _items(x: Tensor, key: Any) -> list:
    """The index as a full list: slices, ints, None, and tensors of integers; masks become integers."""
    items = list(key) if isinstance(key, tuple) else [key]
    found: list[Any] = []
    for item in items:
        if item is Ellipsis or item is None or isinstance(item, slice):
            found.append(item)
        elif _is_bool(item):
            found.append(Flag(bool(item)))
        elif isinstance(item, (int, np.integer)):
            found.append(int(item))
        elif isinstance(item, (list, tuple, np.ndarray, range)):
            made = value_of(np.asarray([], np.int64) if not isinstance(item, np.ndarray) and not len(item) else item)
            found.append(Tensor(made))
        elif isinstance(item, Tensor):
            found.append(int(item) if item.ndim == 0 and item.dtype.kind == "i" and item._value.array is not None else item)
        else:
            raise errors.bad("x[index]", "integers, slices, None, ..., tensors or lists", item, kind=TypeError)
    flat: list[Any] = []
    for item in found:
        if isinstance(item, Tensor) and item.dtype is dtypes.bool_:
            flat.extend(_mask(x, item, flat))
        elif isinstance(item, Tensor) and item.dtype.kind != "i":
            raise errors.bad("x[index]", "integer or bool tensors", item.dtype.name, kind=TypeError)
        else:
            flat.append(item)
    used = sum(1 for i in flat if i is not None and i is not Ellipsis and not isinstance(i, Flag))
    ndim = x._value.sig.ndim
    if used > ndim:
        raise errors.bad("x[index]", f"at most {ndim} indices for shape {x.shape}", f"{used}", kind=errors.OutOfRange)
    if builtins.sum(1 for i in flat if i is Ellipsis) > 1:
        raise errors.bad("x[index]", "at most one ...", "two", kind=errors.OutOfRange)
    at = next((k for k, i in enumerate(flat) if i is Ellipsis), None)
    rest = [slice(None)] * (ndim - used)
    return [*flat, *rest] if at is None else [*flat[:at], *rest, *flat[at + 1 :]]


def _mask(x: Tensor, mask: Tensor, before: list) -> list:
    """A mask as one integer tensor per axis it covers; this reads the mask."""
    axis = sum(1 for i in before if i is not None and i is not Ellipsis and not isinstance(i, Flag))
    if Ellipsis in [i for i in before if not isinstance(i, Tensor)]:
        axis = x.ndim - mask.ndim
    covered = x.shape[axis : axis + mask.ndim]
    if mask.shape != covered:
        raise errors.bad("x[mask]", f"a mask of shape {covered}", f"shape {mask.shape}", kind=IndexError)
    return [Tensor(value_of(i)) for i in np.nonzero(mask._host())]


@op()
def pick(x: Tensor, index: list[Tensor], axes: Attr) -> Tensor:
    """Elements picked by integer tensors along axes, as NumPy does; use `x[...]`.

    >>> bireme.to_tensor([5, 6, 7])[bireme.to_tensor([2, 0])].tolist()
    [7, 5]
    """
    return x[_where(x, index, axes)]


def _where(x, index, axes):
    found: list[Any] = [slice(None)] * x.ndim
    for a, i in zip(axes, index):
        found[a] = jnp.where(i < 0, i + x.shape[a], i)
    return tuple(found)


@pick.grad
def _(g, index, axes, sigs):
    zero = jnp.zeros(sigs[0].shape, sigs[0].dtype.np)
    return (zero.at[_where(zero, index, axes)].add(g), *[None] * len(index))


@op()
def pick_put(x: Tensor, part: Tensor, index: list[Tensor], axes: Attr, add: bool = False) -> Tensor:
    """A tensor with picked elements replaced; use `x[...] = value`.

    >>> x = bireme.to_tensor([5, 6, 7]); x[bireme.to_tensor([2, 0])] = 1; x.tolist()
    [1, 6, 1]
    """
    at = x.at[_where(x, index, axes)]
    return at.add(part.astype(x.dtype)) if add else at.set(part.astype(x.dtype))


pick_put.infer(lambda x: x)


@pick_put.grad
def _(g, index, axes, add, sigs):
    where = _where(g, index, axes)
    dx = g if add else g.at[where].set(0)
    return (dx, sum_to_shape(g[where], sigs[1].shape), *[None] * len(index))


def _check_picks(x: Tensor, picks: dict) -> None:
    for axis, i in picks.items():
        n = x.shape[axis]
        check_range("x[index]", i, -n, n)


def _row(x: Tensor, i: int) -> Tensor:
    """`x[i]`: the most common index, without detours."""
    dims = x._value.sig.shape
    n = dims[0]
    if not -n <= i < n:
        raise errors.bad("x[index]", f"an index in [{-n}, {n - 1}] for axis 0", i, kind=IndexError)
    bound = slice_view.bind((1, -len(dims)), (((1, 1, True), *[(d, 1, False) for d in dims[1:]]),))
    return slice_view.record(bound, [x, (dtypes.int64, i + n if i < 0 else i), *[(dtypes.int64, 0)] * (len(dims) - 1)])


def getitem(x: Tensor, key: Any) -> Tensor:
    """`x[key]`."""
    if key.__class__ is int and x._value.sig.ndim:
        return _row(x, key)
    index = Index(x, key)
    out = index.basic(x)
    if not index.picks:
        return out
    _check_picks(out, index.picks)
    return pick.call({"x": out, "index": list(index.picks.values()), "axes": tuple(index.picks)})


def setitem(x: Tensor, key: Any, value: Any) -> None:
    """`x[key] = value`."""
    since = tape.now()
    one = isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.size == 1)
    if one and isinstance(key, Tensor) and key.dtype is dtypes.bool_ and key.shape == x.shape:
        new = logic.select(key, shape.reshape(_value_like(x, value), []), x)  # no need to look at the mask
        assign_inplace(x, new, "setitem", since)
        return
    index = Index(x, key)
    value = _value_like(x, value)
    if not index.picks:
        wanted = [n for n, _, drop in index.spec if not drop]
        part = _fitted(value, wanted, index.adds)
        new = slice_put.call({"x": x, "part": part, "starts": index.numbers(), "spec": tuple(index.spec)})
    else:
        base = index.basic(x.detach()) if x.stop_gradient else index.basic(x)
        _check_picks(base, index.picks)
        picked = list(index.picks.values())
        axes = tuple(index.picks)
        value = _fitted(value, picked_shape(base.shape, axes, [i.shape for i in picked]), [])
        part = pick_put.call({"x": base.clone(), "part": value, "index": picked, "axes": axes, "add": False})
        if index.adds:
            part = shape.reshape(part, shape.Literal([n for n, _, drop in index.spec if not drop]))
        whole = all(n == d and step == 1 and not drop for (n, step, drop), d in zip(index.spec, x.shape))
        new = part if whole else slice_put.call({"x": x, "part": part, "starts": index.numbers(), "spec": tuple(index.spec)})
    assign_inplace(x, new, "setitem", since)


def picked_shape(dims: list[int], axes: tuple[int, ...], indices: list[list[int]]) -> list[int]:
    """The shape of what integer tensors pick along axes: theirs, in the place of the first axis if the axes are neighbours."""
    picked = list(broadcast_shape("x[index]", *map(tuple, indices)))
    rest = [n for a, n in enumerate(dims) if a not in axes]
    at = axes[0] if list(axes) == list(range(axes[0], axes[0] + len(axes))) else 0
    return [*rest[:at], *picked, *rest[at:]]


def _value_like(x: Tensor, value: Any) -> Tensor:
    """What is written, in x's type."""
    if isinstance(value, Tensor):
        return value if value.dtype is x.dtype else value.astype(x.dtype)
    if isinstance(value, (bool, int, float, builtins.complex)):
        if isinstance(value, float) and x.dtype.is_integer:
            return full([], value, "float64").astype(x.dtype)
        return full([], value, x.dtype)
    return Tensor(value_of(value, x.dtype))


def _fitted(value: Tensor, wanted: list[int], adds: list[int]) -> Tensor:
    """The value broadcast to the slice it goes into; `adds` are the places of new axes, which the slice does not have."""
    target = list(wanted)
    for place in adds:
        target.insert(place, 1)
    dims = value.shape
    while len(dims) > len(target) and dims[0] == 1:
        dims = dims[1:]
    if len(dims) > len(target) or any(a not in (1, b) for a, b in zip(reversed(dims), reversed(target))):
        raise errors.bad("x[index] = value", f"a value that broadcasts to shape {target}", f"shape {value.shape}")
    if dims != value.shape:
        value = shape.reshape(value, shape.Literal(dims))
    if dims != target:
        value = shape.expand(value, target)
    return shape.reshape(value, shape.Literal(wanted)) if adds else value


Tensor.__getitem__ = getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = setitem  # type: ignore[attr-defined]


@op(numpy=lambda x, axis: [np.take(x, i, axis) for i in range(x.shape[axis])])
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
    """The parts along an axis, without that axis. They share storage with it.

    >>> [p.tolist() for p in bireme.unbind(bireme.to_tensor([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    if input.ndim == 0:
        raise errors.bad("unbind(input)", "a tensor with at least one axis", input)
    # one node with one gradient; as views, the parts are the slices that they are
    parts = unbind_of(input, axis)
    dims = input._value.sig.shape
    spec = tuple([(1, 1, True) if k == axis else (n, 1, False) for k, n in enumerate(dims)])
    bound = slice_view.bind((1, -len(dims)), (spec,))
    for i, part in enumerate(parts):
        view.attach(part, input, bound, [(dtypes.int64, i if k == axis else 0) for k in range(len(dims))])
    return parts


# ---------------------------------------------------------------- by index tensors


@op(method=True, alias={"x": "input", "axis": "dim"}, out=True, numpy=lambda x, index, axis: _take_numpy(x, index, axis))
def index_select(x: Tensor, index: Tensor, axis: Axis = 0) -> Tensor:
    """Slices of `x` along `axis`, in the order of a 1-D index.

    >>> bireme.index_select(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([1, 0])).tolist()
    [[3, 4], [1, 2]]
    """
    return jnp.take(x, jnp.where(index < 0, index + x.shape[axis], index), axis=axis, mode="clip")


@index_select.prepare
def _(arguments):
    if isinstance(arguments["index"], int) and isinstance(arguments["axis"], Tensor):  # torch's order: (dim, index)
        arguments["index"], arguments["axis"] = arguments["axis"], arguments["index"]
    index = arguments["index"]
    if isinstance(index, Tensor) and index.ndim == 2 and index.shape[1] == 1:
        arguments["index"] = shape.reshape(index, [-1])


def _take_numpy(x, index, axis):
    # clipped as in the compiled form: an index out of range is told by the check, not by what runs it
    return np.take(x, np.where(index < 0, index + x.shape[axis], index), axis, mode="clip")


@index_select.check
def _(x, index, axis):
    if index.ndim > 1 or index.dtype.kind != "i":
        raise errors.bad("index_select(index)", "a 1-D integer tensor", f"shape {list(index.shape)}, {index.dtype.name}")
    if x.ndim == 0:
        raise errors.bad("index_select(x)", "a tensor with at least one axis", "a 0-d tensor", kind=errors.OutOfRange)


index_select.index(lambda s: [("index", -s["x"].shape[s["axis"]], s["x"].shape[s["axis"]])] if s["x"].ndim else [])
index_select.infer(lambda x, index, axis: sig_of((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype))


@index_select.grad
def _(g, index, axis, sigs):
    zero = jnp.zeros(sigs[0].shape, sigs[0].dtype.np)
    return zero.at[(slice(None),) * axis + (index,)].add(g), None


@composite(method=True)
def gather(x: Tensor, index: Tensor, axis: Axis = None) -> Tensor:
    """Slices of `x` along `axis`, in the order of a 0-D or 1-D index.

    >>> bireme.gather(bireme.to_tensor([5, 6, 7]), bireme.to_tensor([2, 0])).tolist()
    [7, 5]
    """
    if index.ndim == 2 and index.shape[1] == 1:
        index = shape.reshape(index, [-1])
    return index_select(x, index, 0 if axis is None else axis)


@op(alias={"arr": "input", "axis": "dim"}, name_arg=False, out=True, method=True)
def take_along_axis(arr: Tensor, indices: Tensor, axis: Axis, broadcast: bool = True) -> Tensor:
    """Elements of `arr` at `indices` along `axis`, other axes matched.

    >>> bireme.take_along_axis(bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[1], [0]]), 1).tolist()
    [[2], [3]]
    """
    n = arr.shape[axis]
    indices = jnp.where(indices < 0, indices + n, indices)
    if broadcast:
        dims = [builtins.max(a, i) if k != axis else i for k, (a, i) in enumerate(zip(arr.shape, indices.shape))]
        indices = jnp.broadcast_to(indices, dims)
    else:
        arr = arr[tuple(slice(None) if k == axis else slice(0, i) for k, i in enumerate(indices.shape))]
    return jnp.take_along_axis(arr, indices, axis, mode="clip")


@take_along_axis.check
def _(arr, indices, axis):
    if arr.ndim != indices.ndim:
        raise errors.bad("take_along_axis(indices)", f"{arr.ndim} axes, as arr has", f"shape {list(indices.shape)}")
    if indices.dtype.kind != "i":
        raise errors.bad("take_along_axis(indices)", "an integer tensor", indices.dtype.name, kind=TypeError)


take_along_axis.index(lambda s: [("indices", -s["arr"].shape[s["axis"]], s["arr"].shape[s["axis"]])] if s["arr"].ndim else [])


@op(method=True, numpy=lambda x, mask, size: np.broadcast_arrays(x, mask)[0][np.broadcast_arrays(x, mask)[1]])
def masked_select(x: Tensor, mask: Tensor, *, size: Size) -> Tensor:
    """Elements of `x` where `mask` is true, as a 1-D tensor.

    >>> bireme.masked_select(bireme.to_tensor([5, 6, 7]), bireme.to_tensor([True, False, True])).tolist()
    [5, 7]
    """
    x, mask = jnp.broadcast_arrays(*jnp.atleast_1d(x, mask))
    return x[jnp.nonzero(mask, size=size)]


@masked_select.check
def _(mask):
    if mask.dtype is not dtypes.bool_:
        raise errors.bad("masked_select(mask)", "a bool tensor", mask.dtype.name, kind=TypeError)


@masked_select.size
def _(x, mask):
    return np.count_nonzero(np.broadcast_arrays(x, mask)[1])


@op(differentiable=False)
def nonzero_of(x: Tensor, *, size: Size) -> Tensor:
    """Positions of what is not zero; use `nonzero`.

    >>> bireme.nonzero(bireme.to_tensor([0, 5, 6])).tolist()
    [[1], [2]]
    """
    return jnp.stack(jnp.nonzero(_is_set(x), size=size), axis=1).astype(jnp.int64) if x.ndim else jnp.zeros((size, 0), jnp.int64)


def _is_set(x):
    """Whether each element counts as not zero. Numbers below the smallest normal one do not: XLA flushes them to zero,
    and the count, made on the host, must agree with the program."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x != 0
    return ~(jnp.abs(x) < jnp.finfo(x.dtype).tiny)


@nonzero_of.size
def _(x):
    if x.dtype.kind in "iub":
        return np.count_nonzero(x)
    return np.count_nonzero(~(np.abs(x) < ml_dtypes.finfo(x.dtype).tiny))


@composite(method=True, alias={"x": "input"}, name_arg=False, out=True)
def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """Positions of what is not zero: an [n, rank] tensor, or one tensor per axis.

    >>> bireme.nonzero(bireme.to_tensor([0, 5, 6])).tolist()
    [[1], [2]]
    """
    found = nonzero_of(x)
    return tuple(found[:, i : i + 1].reshape([-1]) for i in range(x.ndim)) if as_tuple else found


@composite(method=True, alias={"x": "input", "y": "other"}, out=True)
def where(condition: Tensor, x: Tensor | float | None = None, y: Tensor | float | None = None) -> Any:
    """`x` where the condition holds, else `y`; with one argument, the positions where it holds.

    >>> bireme.where(bireme.to_tensor([True, False]), bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])).tolist()
    [1, 4]
    """
    if (x is None) != (y is None):
        raise errors.bad("where(x, y)", "both or neither", "one of them")
    if x is not None and condition.dtype is not dtypes.bool_:
        raise errors.bad("where(condition)", "a bool tensor", condition, kind=TypeError)
    return nonzero(condition, as_tuple=True) if x is None else logic.select(condition, x, y)


@composite(method=True, inplace=True)
def masked_fill(x: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """`x` with `value` where `mask` is true.

    >>> bireme.masked_fill(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([True, False]), 0.0).tolist()
    [0.0, 2.0]
    """
    mask = mask.astype(dtypes.bool_) if mask.dtype is not dtypes.bool_ else mask
    fill = value if not isinstance(value, Tensor) else value.astype(x.dtype)
    return logic.select(mask, fill, x) if isinstance(fill, Tensor) else logic.select(mask, _value_like(x, fill), x)


@op(method=True, inplace=True, promote="x updates")
def scatter(x: Tensor, index: Tensor, updates: Tensor, overwrite: bool = True) -> Tensor:
    """Rows of `x` at `index` replaced by `updates`, or by their sum with `overwrite=False`.

    >>> bireme.scatter(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1]), bireme.to_tensor([9.0])).tolist()
    [1.0, 9.0]
    """
    index = index.reshape(-1)
    rows = updates.reshape(index.shape + x.shape[1:])
    return x.at[index].set(rows) if overwrite else x.at[index].set(0).at[index].add(rows)


scatter.infer(lambda x: x)
scatter.index(lambda s: [("index", -s["x"].shape[0], s["x"].shape[0])] if s["x"].ndim else [])


@scatter.check
def _(x, index, updates):
    if x.ndim == 0 or index.dtype.kind != "i" or updates.size != index.size * (x.size // builtins.max(x.shape[0], 1)):
        raise errors.bad("scatter(updates)", f"one row of {list(x.shape[1:])} for each of {index.size} indices", f"shape {list(updates.shape)}")
