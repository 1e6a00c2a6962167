"""Tensors joined: concatenated, stacked along a new axis, as blocks of a matrix, as a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.declare.conversion import MAX_ELEMENTS
from bireme.core.declare.op import Attr, Axis, Tensor, composite, op
from bireme.core.declare.public import PUBLIC, function
from bireme.core.graph.graph import sig_of
from bireme.core.tensor.tensor import value_of
from bireme.ops.indexing.gather import index_select
from bireme.ops.indexing.getitem import unbind
from bireme.ops.manipulation.reshape import expand, ravel, reshaped
from bireme.ops.manipulation.split import spans_of

# ---------------------------------------------------------------- along an axis


_TORCH = {"x": "tensors", "axis": "dim"}


@op(
    public="concat cat concatenate",
    method=True,
    promote="x",
    mix="same",
    alias=_TORCH,
    out=True,
    linear=True,
    numpy=lambda x, axis: np.concatenate(x, axis),
)
def concat(x: list[Tensor], axis: Axis = 0) -> Tensor:
    """Concatenate tensors along an existing axis.

    Args:
        x: List or tuple of tensors of one dtype, equal in shape but for ``axis``, each with at least one axis.
        axis: Axis to join along; an integer or a 0-D integer tensor. Default: 0.

    Returns:
        Tensor whose size along ``axis`` is the sum of theirs.

    Raises:
        ValueError: If the list is empty or the shapes do not match.
        TypeError: If the dtypes differ.

    Examples:
        >>> bireme.concat([bireme.to_tensor([1]), bireme.to_tensor([2, 3])]).tolist()
        [1, 2, 3]
    """
    return jnp.concatenate(x, axis)


@concat.prepare
def _(arguments):
    axis = arguments["axis"]
    if axis is None:
        raise errors.bad("concat(axis)", "an integer", None, kind=errors.ArgumentTypeError)
    if isinstance(axis, float) and axis.is_integer():  # Paddle takes 1.0 for 1 here
        arguments["axis"] = int(axis)


@concat.check
def _(x, axis):
    if not x:
        raise errors.bad("concat(x)", "at least one tensor", described="an empty list")
    first = x[0]
    for i, s in enumerate(x):
        if s.ndim == 0:
            raise errors.bad(f"concat(x[{i}])", "a tensor with at least 1 dimension", described="a 0-D tensor")
        if s.ndim != first.ndim or [n for k, n in enumerate(s.shape) if k != axis] != [
            n for k, n in enumerate(first.shape) if k != axis
        ]:
            raise errors.bad(
                f"concat(x[{i}])",
                f"shape {list(first.shape)} but for axis {axis}",
                described=f"shape {list(s.shape)}",
                kind=errors.ShapeError,
            )


@concat.infer
def _(x, axis):
    shape = list(x[0].shape)
    shape[axis] = sum(s.shape[axis] for s in x)
    return sig_of(tuple(shape), x[0].dtype)


@concat.grad(numpy=True)
def _(g, axis, sigs):
    return [g[span] for span in spans_of([s.shape[axis] for s in sigs], axis)]


def _stack_numpy(x, axis):
    new = (*[slice(None)] * (axis + (axis < 0) * (x[0].ndim + 1)), None)
    return np.concatenate([a[new] for a in x], axis)


@op(method=True, promote="x", mix="same", alias=_TORCH, out=True, linear=True, numpy=_stack_numpy)
def stack(x: list[Tensor], axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis.

    Args:
        x: List or tuple of tensors of the same shape and dtype.
        axis: Index of the new axis in the result; negative ones count from its end. Default: 0.

    Returns:
        Tensor with one more axis than the inputs, of size ``len(x)``.

    Raises:
        ValueError: If the list is empty or the shapes differ.

    Examples:
        >>> bireme.stack([bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])]).tolist()
        [[1, 2], [3, 4]]
    """
    return jnp.stack(x, axis)


@stack.prepare
def _(arguments):
    if arguments["axis"] is None:
        arguments["axis"] = 0


@stack.check
def _(x, axis):
    if not x:
        raise errors.bad("stack(x)", "at least one tensor", described="an empty list")
    for i, s in enumerate(x):
        if s.shape != x[0].shape:
            raise errors.bad(
                f"stack(x[{i}])",
                f"shape {list(x[0].shape)}",
                described=f"shape {list(s.shape)}",
                kind=errors.ShapeError,
            )
    rank = x[0].ndim + 1
    if not -rank <= axis < rank:
        raise errors.bad("stack(axis)", f"an axis in [{-rank}, {rank - 1}]", axis, kind=errors.OutOfRangeError)


@stack.infer
def _(x, axis):
    shape = list(x[0].shape)
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, len(x))
    return sig_of(tuple(shape), x[0].dtype)


@stack.grad(numpy=True)
def _(g, axis, sigs):
    axis %= g.ndim
    return [g[(slice(None),) * axis + (i,)] for i in range(len(sigs))]


# ---------------------------------------------------------------- with at least so many axes


def _wide_1(shape: list[int]) -> list[int]:
    return shape or [1]


def _wide_2(shape: list[int]) -> list[int]:
    return [1] * (2 - len(shape)) + shape


def _wide_3(shape: list[int]) -> list[int]:
    return {0: [1, 1, 1], 1: [1, *shape, 1], 2: [*shape, 1]}.get(len(shape), shape)


def _at_least(widen: Callable, inputs: tuple) -> Any:
    """Each input with more axes: one alone as a tensor, several (or one list with a tensor in it) as a list."""
    if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)) and any(isinstance(i, Tensor) for i in inputs[0]):
        inputs, alone = tuple(inputs[0]), False
    else:
        alone = len(inputs) == 1
    found = []
    for x in inputs:
        t = x if isinstance(x, Tensor) else Tensor(value_of(x))
        dims = widen(t.shape)
        found.append(t if dims == t.shape else reshaped(t, dims))
    return found[0] if alone else found


@function(method=True)
@errors.named(data="inputs")
def atleast_1d(*inputs: Any, name: str | None = None) -> Any:
    """View each input as a tensor with at least one axis.

    Args:
        *inputs: Tensors, or numbers, lists and arrays that become tensors; also one list of tensors.
        name: Not used; kept for Paddle's signature.

    Returns:
        One tensor for one input, a list of tensors for several. A 0-D input has shape ``[1]``; the others are as they
        were. Results share storage with the tensors given.

    Examples:
        >>> bireme.atleast_1d(bireme.to_tensor(5)).tolist()
        [5]
    """
    return _at_least(_wide_1, inputs)


@function(method=True)
@errors.named(data="inputs")
def atleast_2d(*inputs: Any, name: str | None = None) -> Any:
    """View each input as a tensor with at least two axes; new axes come first.

    Args:
        *inputs: Tensors, or numbers, lists and arrays that become tensors; also one list of tensors.
        name: Not used; kept for Paddle's signature.

    Returns:
        One tensor for one input, a list of tensors for several. A vector of size ``n`` has shape ``[1, n]``. Results
        share storage with the tensors given.

    Examples:
        >>> bireme.atleast_2d(bireme.to_tensor([5, 6])).tolist()
        [[5, 6]]
    """
    return _at_least(_wide_2, inputs)


@function(method=True)
@errors.named(data="inputs")
def atleast_3d(*inputs: Any, name: str | None = None) -> Any:
    """View each input as a tensor with at least three axes.

    Args:
        *inputs: Tensors, or numbers, lists and arrays that become tensors; also one list of tensors.
        name: Not used; kept for Paddle's signature.

    Returns:
        One tensor for one input, a list of tensors for several. A vector of size ``n`` has shape ``[1, n, 1]``, a
        matrix ``[m, n]`` has shape ``[m, n, 1]``. Results share storage with the tensors given.

    Examples:
        >>> bireme.atleast_3d(bireme.to_tensor([5, 6])).tolist()
        [[[5], [6]]]
    """
    return _at_least(_wide_3, inputs)


# ---------------------------------------------------------------- side by side


def _tensors(where: str, x: Any, arrays: bool = False) -> list[Tensor]:
    """A list of tensors, some of which may be arrays where Paddle makes tensors of them, or the slices of one."""
    if isinstance(x, Tensor):
        x = unbind(x)
    if arrays and isinstance(x, (list, tuple)) and any(isinstance(t, np.ndarray) for t in x):
        x = [PUBLIC["to_tensor"](t) if isinstance(t, np.ndarray) else t for t in x]
    if not isinstance(x, (list, tuple)) or not all(isinstance(t, Tensor) for t in x):
        raise errors.bad(where, "a list of Tensors", x, kind=errors.NotATensorError)
    if not x:
        raise errors.bad(where, "at least one tensor", described="an empty list")
    return list(x)


def _joined(name: str, given: list[Tensor], shapes: list[list[int]], axis: int) -> Tensor:
    """The tensors in these shapes, concatenated; an error names the shapes that were given."""
    first = shapes[0]
    for i, shape in enumerate(shapes):
        if len(shape) != len(first) or shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            raise errors.bad(
                f"{name}(x[{i}])",
                f"a shape that joins {given[0].shape} of x[0] along axis {axis}",
                described=f"shape {given[i].shape}",
                kind=errors.ShapeError,
            )
    return concat([t if t.shape == shape else reshaped(t, shape) for t, shape in zip(given, shapes)], axis)


@composite(public="vstack row_stack", plain=True)
def vstack(x: Attr[Sequence[Tensor] | Tensor]) -> Tensor:
    """Stack tensors vertically: vectors become rows, and all are concatenated along the first axis.

    Args:
        x: List or tuple of tensors or NumPy arrays of one dtype, or a tensor, whose slices along the first axis are
            joined.

    Returns:
        Tensor with at least two axes.

    Examples:
        >>> bireme.vstack([bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])]).tolist()
        [[1, 2], [3, 4]]
    """
    given = _tensors("vstack(x)", x, True)
    return _joined("vstack", given, [_wide_2(t.shape) for t in given], 0)


@composite(plain=True)
def hstack(x: Attr[Sequence[Tensor] | Tensor]) -> Tensor:
    """Stack tensors horizontally: vectors along their only axis, all others along the second.

    Args:
        x: List or tuple of tensors or NumPy arrays of one dtype, or a tensor, whose slices along the first axis are
            joined.

    Returns:
        Tensor with at least one axis.

    Examples:
        >>> bireme.hstack([bireme.to_tensor([1, 2]), bireme.to_tensor([3])]).tolist()
        [1, 2, 3]
    """
    given = _tensors("hstack(x)", x, True)
    shapes = [_wide_1(t.shape) for t in given]
    return _joined("hstack", given, shapes, 0 if len(shapes[0]) == 1 else 1)


@composite()
def dstack(x: Attr[Sequence[Tensor] | Tensor]) -> Tensor:
    """Stack tensors along the third axis; vectors and matrices are viewed as ``atleast_3d`` does first.

    Args:
        x: List or tuple of tensors or NumPy arrays of one dtype, or a tensor, whose slices along the first axis are
            joined.

    Returns:
        Tensor with at least three axes.

    Examples:
        >>> bireme.dstack([bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])]).tolist()
        [[[1, 3], [2, 4]]]
    """
    given = _tensors("dstack(x)", x, True)
    return _joined("dstack", given, [_wide_3(t.shape) for t in given], 2)


@composite()
def column_stack(x: Attr[Sequence[Tensor] | Tensor]) -> Tensor:
    """Join vectors as the columns of a matrix; tensors with two axes or more are concatenated along the second.

    Args:
        x: List or tuple of tensors of one dtype, or a tensor, whose slices along the first axis are joined.

    Returns:
        Tensor with at least two axes.

    Examples:
        >>> bireme.column_stack([bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])]).tolist()
        [[1, 3], [2, 4]]
    """
    given = _tensors("column_stack(x)", x)
    return _joined("column_stack", given, [[t._value.sig.size, 1] if t.ndim < 2 else t.shape for t in given], 1)


@op(internal=True, promote="x", mix="same")
def blocks(x: list[Tensor]) -> Tensor:
    """Matrices along the diagonal of one; use `block_diag`.

    >>> bireme.block_diag([bireme.to_tensor([[1]]), bireme.to_tensor([[2, 3]])]).tolist()
    [[1, 0, 0], [0, 2, 3]]
    """
    wide, at, rows = sum(m.shape[1] for m in x), 0, []
    for m in x:
        rows.append(jnp.pad(m, ((0, 0), (at, wide - at - m.shape[1]))))
        at += m.shape[1]
    return jnp.concatenate(rows, 0)


blocks.infer(lambda x: sig_of((sum(m.shape[0] for m in x), sum(m.shape[1] for m in x)), x[0].dtype))


@blocks.grad(numpy=True)
def _(g, sigs):
    rows, columns = [np.cumsum([0, *[s.shape[k] for s in sigs]]).tolist() for k in (0, 1)]
    return [g[rows[i] : rows[i + 1], columns[i] : columns[i + 1]] for i in range(len(sigs))]


@composite(method=True, hands={"input": "inputs"})
def block_diag(inputs: Attr[Sequence[Tensor]]) -> Tensor:
    """Build a block-diagonal matrix from matrices; elsewhere it is zero.

    Args:
        inputs: List or tuple of tensors of one dtype with at most two axes. Vectors and numbers are matrices of one
            row.

    Returns:
        Matrix with as many rows and columns as all blocks together.

    Examples:
        >>> bireme.block_diag([bireme.to_tensor([[1]]), bireme.to_tensor([[2, 3]])]).tolist()
        [[1, 0, 0], [0, 2, 3]]
    """
    found = _tensors("block_diag(inputs)", inputs)
    for i, m in enumerate(found):
        if m.ndim > 2:
            raise errors.bad(f"block_diag(inputs[{i}])", "at most 2 dimensions", m)
    return blocks([reshaped(m, _wide_2(m.shape)) for m in found])


# ---------------------------------------------------------------- grids


def _vectors(*args: Any, **kwargs: Any) -> None:
    """The signature of `meshgrid`: vectors one by one or as a list."""


@composite(signature=_vectors, amp="one")
def meshgrid(args: list[Tensor]) -> list[Tensor]:
    """Make coordinate grids from vectors: each one along an axis of its own, repeated along the others.

    Args:
        *args: Tensors of one dtype with at most one axis, one by one or as one list.
        **kwargs: ``name``, which is not used, and ``indexing``, of which only ``'ij'`` is supported.

    Returns:
        List of tensors, as many as vectors, each of shape ``[n0, n1, ...]``, the sizes of the vectors.

    Examples:
        >>> [x.tolist() for x in bireme.meshgrid(bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4]))]
        [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
    """
    if not args:
        raise errors.bad("meshgrid(args)", "at least one tensor", described="none")
    for i, x in enumerate(args):
        if x.ndim > 1:
            raise errors.bad(f"meshgrid(args[{i}])", "at most 1 dimension", x)
        if x.dtype is not args[0].dtype:
            raise errors.bad(f"meshgrid(args[{i}])", args[0].dtype.name, described=x.dtype.name, kind=errors.DtypeError)
    shape = [x._value.sig.size for x in args]
    return [
        expand(reshaped(x, [1] * i + [x._value.sig.size] + [1] * (len(args) - i - 1)), shape)
        for i, x in enumerate(args)
    ]


@meshgrid.rewrite
def _(args, kwargs):
    if kwargs.get("indexing", "ij") != "ij":
        raise errors.bad(
            "meshgrid()", "vectors, and indexing='ij'", described=f"{kwargs}", kind=errors.ArgumentTypeError
        )
    vectors = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    for x in vectors:
        if not isinstance(x, Tensor):
            raise errors.bad("meshgrid(args)", "Tensors", x, kind=errors.NotATensorError)
    return (list(vectors),), {name: x for name, x in kwargs.items() if name not in ("name", "indexing")}


@composite()
def cartesian_prod(x: Attr[Sequence[Tensor]]) -> Tensor:
    """Compute the Cartesian product of vectors: all combinations of one element from each.

    Args:
        x: List or tuple of 1-D tensors of one dtype.

    Returns:
        Matrix with a combination in each row, the last vector varying fastest; a single vector comes back as it is.

    Examples:
        >>> bireme.cartesian_prod([bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])]).tolist()
        [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    vectors = _tensors("cartesian_prod(x)", x)
    for i, v in enumerate(vectors):
        if v.ndim != 1:
            raise errors.bad(f"cartesian_prod(x[{i}])", "a 1-D tensor", v)
    return vectors[0] if len(vectors) == 1 else stack([ravel(v) for v in meshgrid(vectors)], -1)


@composite(method=True)
def combinations(x: Tensor, r: Attr[int] = 2, with_replacement: bool = False) -> Tensor:
    """List all combinations of ``r`` elements of a vector, in their order.

    Args:
        x: 1-D tensor.
        r: Non-negative number of elements in a combination. Default: 2.
        with_replacement: Whether an element may occur several times in a combination. Default: False.

    Returns:
        Tensor of shape ``[number of combinations, r]``; an empty vector if ``r`` is 0.

    Examples:
        >>> bireme.combinations(bireme.to_tensor([1, 2, 3])).tolist()
        [[1, 2], [1, 3], [2, 3]]
    """
    if x.ndim != 1:
        raise errors.bad("combinations(x)", "a 1-D tensor", x, kind=errors.ArgumentTypeError)
    if not isinstance(r, int) or r < 0:
        raise errors.bad("combinations(r)", "a non-negative integer", r, kind=errors.for_integer(r))
    if r == 0:
        return index_select(x, Tensor(value_of(np.zeros(0, np.int64))))
    n = math.comb(x._value.sig.size + r - 1 if with_replacement else x._value.sig.size, r)
    if n * r > MAX_ELEMENTS:
        raise errors.bad("combinations(x, r)", f"at most {MAX_ELEMENTS:,} elements", described=f"{n:,} combinations")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = np.fromiter(itertools.chain.from_iterable(choose(range(x._value.sig.size), r)), np.int64, n * r)
    return reshaped(index_select(x, Tensor(value_of(chosen))), [n, r])
