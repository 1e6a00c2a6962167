"""Diagonals of matrices: taken, written, and made from vectors."""

from __future__ import annotations

import builtins
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.declare.conversion import ints, one_axis
from bireme.core.declare.op import Attr, Const, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor.tensor import value_of
from bireme.core.tensor.view import in_a_row
from bireme.ops.creation.tensors import clone
from bireme.ops.manipulation.reshape import ravel, reshaped


def number_of(x: Any, where: str) -> int:
    """An integer, also as a tensor."""
    found = ints(x, 0, where) if not isinstance(x, (list, tuple)) else None
    if found is None or len(found) != 1:
        raise errors.bad(where, "an integer", x, kind=errors.ArgumentTypeError)
    return found[0]


def within(offset: int, rows: int, columns: int) -> int:
    """An offset clamped to just outside a matrix: those beyond mean the same, and need not fit into 32 bits."""
    return builtins.max(-rows, builtins.min(offset, columns))


# ---------------------------------------------------------------- the diagonal as a view


def _length(rows: int, columns: int, offset: int) -> int:
    return builtins.max(
        0, builtins.min(rows, columns - offset) if offset >= 0 else builtins.min(rows + offset, columns)
    )


def _axes_of(
    name: str, x: Tensor, axis1: Any, axis2: Any, names: tuple[str, str], kind: Any = errors.OutOfRangeError
) -> tuple[int, int]:
    if x.ndim < 2:
        raise errors.bad(f"{name}(x)", "at least 2 dimensions", x, kind=kind)
    found = []
    for what, axis in zip(names, (axis1, axis2)):
        at = number_of(axis, f"{name}({what})")
        if not -x.ndim <= at < x.ndim:
            raise errors.bad(f"{name}({what})", f"an axis in [{-x.ndim}, {x.ndim - 1}]", at, kind=kind)
        found.append(at % x.ndim)
    if found[0] == found[1]:
        raise errors.bad(f"{name}({names[1]})", f"an axis other than {names[0]}", axis2, kind=errors.ArgumentError)
    return found[0], found[1]


@op(method=True, view=True, numpy=lambda x, offset, axis1, axis2: np.diagonal(x, offset, axis1, axis2))
def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Diagonals of the matrices that two axes span, as a view along a new last axis.

    The result shares storage with ``x``: an in-place change of one is seen in the other.

    Args:
        x: Tensor with at least two axes.
        offset: Which diagonal: positive numbers are above the main one, negative ones below. Default: 0.
        axis1: Axis of the rows. Default: 0.
        axis2: Axis of the columns. Default: 1.

    Returns:
        Tensor with the other axes of ``x`` and a last one along the diagonal.

    Raises:
        ValueError: If an axis is out of range, or both are the same.

    Examples:
        >>> bireme.diagonal(bireme.to_tensor([[1, 2], [3, 4]])).tolist()
        [1, 4]
    """
    return jnp.diagonal(x, offset, axis1, axis2)


@diagonal.prepare
def _(arguments):
    x = arguments["x"]
    if isinstance(x, Tensor):
        a, b = _axes_of("diagonal", x, arguments["axis1"], arguments["axis2"], ("axis1", "axis2"))
        offset = number_of(arguments["offset"], "diagonal(offset)")
        arguments["axis1"], arguments["axis2"], arguments["offset"] = a, b, within(offset, x.shape[a], x.shape[b])


@diagonal.infer
def _(x, offset, axis1, axis2):
    rest = tuple([n for i, n in enumerate(x.shape) if i not in (axis1, axis2)])
    return sig_of((*rest, _length(x.shape[axis1], x.shape[axis2], offset)), x.dtype)


@diagonal.grad(
    numpy=lambda g, offset, axis1, axis2, sigs: _put_numpy(np.zeros(sigs[0].shape, g.dtype), g, offset, axis1, axis2)
)
def _(g, offset, axis1, axis2, sigs):
    return _put(jnp.zeros(sigs[0].shape, g.dtype), g, offset, axis1, axis2)


def _put(x, part, offset, axis1, axis2):
    """`x` with its diagonal replaced: chosen by comparing rows with columns, which fuses where a scatter would not."""
    x = jnp.moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    before = builtins.max(-offset, 0)
    wide = [(0, 0)] * (part.ndim - 1) + [(before, builtins.max(rows - before - part.shape[-1], 0))]
    by_row = jnp.pad(part.astype(x.dtype), wide)[..., :rows, None]
    hit = jnp.arange(rows)[:, None] + offset == jnp.arange(columns)
    return jnp.moveaxis(jnp.where(hit, by_row, x), (-2, -1), (axis1, axis2))


def _put_numpy(x, part, offset, axis1, axis2):
    out = np.array(x)
    rows = np.arange(part.shape[-1]) + builtins.max(-offset, 0)
    np.moveaxis(out, (axis1, axis2), (-2, -1))[..., rows, rows + offset] = part
    return out


@op(internal=True, numpy=_put_numpy)
def diagonal_put(x: Tensor, part: Tensor, offset: int, axis1: int, axis2: int) -> Tensor:
    """A tensor with a diagonal replaced; use `diagonal_scatter`."""
    return _put(x, part, offset, axis1, axis2)


diagonal_put.infer(lambda x: x)


def _hole_numpy(g, offset, axis1, axis2, sigs):
    dims = sigs[1].shape
    return _put_numpy(g, np.zeros(dims, g.dtype), offset, axis1, axis2), np.diagonal(g, offset, axis1, axis2).astype(
        sigs[1].dtype.np
    )


@diagonal_put.grad(numpy=_hole_numpy)
def _(g, offset, axis1, axis2, sigs):
    hole = _put(g, jnp.zeros(sigs[1].shape, g.dtype), offset, axis1, axis2)
    return hole, jnp.diagonal(g, offset, axis1, axis2).astype(sigs[1].dtype.np)


@diagonal.put
def _(source, part, bound, numbers):
    offset, axis1, axis2 = bound.attrs
    return diagonal_put(source, part, offset, axis1, axis2)


@diagonal.layout
def _(sig, strides, first, bound, numbers):
    offset, a, b = bound.attrs
    rest = [s for i, s in enumerate(strides) if i not in (a, b)]
    return (*rest, strides[a] + strides[b]), first + (offset * strides[b] if offset >= 0 else -offset * strides[a])


def _written(name: str, x: Tensor, y: Tensor, offset: int, a: Any, b: Any, names: tuple[str, str]) -> Tensor:
    a, b = _axes_of(name, x, a, b, names, errors.ArgumentError)
    offset = within(offset, x.shape[a], x.shape[b])
    wanted = [*[n for i, n in enumerate(x.shape) if i not in (a, b)], _length(x.shape[a], x.shape[b], offset)]
    if y.shape != wanted:
        raise errors.bad(f"{name}(y)", f"shape {wanted}", y, kind=errors.ArgumentError)
    if y.dtype is not x.dtype:
        raise errors.bad(f"{name}(y)", x.dtype.name, described=y.dtype.name, kind=errors.ArgumentTypeError)
    return diagonal_put(x, y, offset, a, b)


@composite(method=True)
def trace(x: Tensor, offset: int = 0, axis1: Attr[int] = 0, axis2: Attr[int] = 1) -> Tensor:
    """Sum of the diagonals of the matrices that two axes span.

    Args:
        x: Tensor of numbers with at least two axes.
        offset: Which diagonal: positive numbers are above the main one, negative ones below. Default: 0.
        axis1: Axis of the rows. Default: 0.
        axis2: Axis of the columns. Default: 1.

    Returns:
        Tensor of the other axes, in the dtype of ``x``.

    Examples:
        >>> bireme.trace(bireme.to_tensor([[1, 2], [3, 4]])).item()
        5
    """
    if x.dtype.kind == "b":
        raise errors.bad("trace(x)", "a numeric dtype", described=x.dtype.name, kind=errors.DtypeError)
    return diagonal(x, offset, axis1, axis2).sum(-1, dtype=x.dtype)


@composite(method=True)
def diagonal_scatter(x: Tensor, y: Tensor, offset: int = 0, axis1: Attr[int] = 0, axis2: Attr[int] = 1) -> Tensor:
    """Copy of a tensor with the diagonals of the matrices that two axes span replaced.

    Args:
        x: Tensor with at least two axes.
        y: New diagonals, in the shape of ``diagonal(x, offset, axis1, axis2)`` and the dtype of ``x``.
        offset: Which diagonal: positive numbers are above the main one, negative ones below. Default: 0.
        axis1: Axis of the rows. Default: 0.
        axis2: Axis of the columns. Default: 1.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: If the shape of ``y`` does not fit.

    Examples:
        >>> bireme.diagonal_scatter(bireme.zeros([2, 2]), bireme.to_tensor([1.0, 2.0])).tolist()
        [[1.0, 0.0], [0.0, 2.0]]
    """
    return _written("diagonal_scatter", x, y, offset, axis1, axis2, ("axis1", "axis2"))


@composite(method=True, inplace=True)
def fill_diagonal_tensor(x: Tensor, y: Tensor, offset: int = 0, dim1: Attr[int] = 0, dim2: Attr[int] = 1) -> Tensor:
    """Copy of the tensor with the diagonals of the matrices that two axes span replaced.

    Args:
        y: New diagonals along the last axis, in the dtype of the tensor.
        offset: Which diagonal: positive numbers are above the main one, negative ones below. Default: 0.
        dim1: Axis of the rows. Default: 0.
        dim2: Axis of the columns. Default: 1.

    Returns:
        Tensor of the same shape and dtype.

    Raises:
        ValueError: If the shape of ``y`` does not fit.

    Examples:
        >>> bireme.zeros([2, 2]).fill_diagonal_tensor(bireme.to_tensor([1.0, 2.0])).tolist()
        [[1.0, 0.0], [0.0, 2.0]]
    """
    return _written("fill_diagonal_tensor", x, y, offset, dim1, dim2, ("dim1", "dim2"))


@op(name="fill_diagonal_", inplace="fill_diagonal_",
    numpy=lambda x, value, offset, wrap: np.where(_hits(x.shape, offset, wrap, np), value.astype(x.dtype), x))  # fmt: skip
def fill_diagonal(x: Tensor, value: Tensor | float, offset: int = 0, wrap: bool = False) -> Tensor:
    """Fill the main diagonal of the tensor with a number, in place: the elements whose indices are all equal.

    Args:
        value: Number, or a tensor of one element.
        offset: Which diagonal: positive numbers are above the main one, negative ones below. Default: 0.
        wrap: Whether the diagonal of a matrix with more rows than columns starts again below its end, after one row
            left out. Default: False.

    Returns:
        The tensor itself.

    Raises:
        ValueError: If the tensor has fewer than two axes.

    Examples:
        >>> bireme.zeros([2, 2]).fill_diagonal_(5).tolist()
        [[5.0, 0.0], [0.0, 5.0]]
    """
    return jnp.where(_hits(x.shape, offset, wrap, jnp), value.astype(x.dtype), x)


@fill_diagonal.prepare
def _(arguments):
    x, value = arguments["x"], arguments["value"]
    if isinstance(value, Tensor) and value._value.sig.size == 1:
        arguments["value"] = reshaped(value, [])
    elif not isinstance(value, (int, float, np.number)):
        raise errors.bad("fill_diagonal_(value)", "a number", value, kind=errors.ArgumentTypeError)
    if isinstance(x, Tensor):
        if x.ndim < 2:
            raise errors.bad("fill_diagonal_(x)", "at least 2 dimensions", x)
        if x.dtype.kind in "ib" and not isinstance(value, Tensor) and math.isfinite(value):
            arguments["value"] = int(value)
        arguments["offset"] = within(number_of(arguments["offset"], "fill_diagonal_(offset)"), x.shape[-1], x.shape[-1])


fill_diagonal.infer(lambda x: x)


def _hits(shape, offset, wrap, xp):
    """Where the diagonal is: every so many elements of the flat tensor, moved by `offset` within their row."""
    size, columns = math.prod(shape), shape[-1]
    if not size:
        return xp.zeros(shape, bool)
    end = columns * columns if len(shape) == 2 and not wrap else size
    at = xp.arange(size) - offset
    hit = (at >= 0) & (at < end) & (at % sum(in_a_row(shape)) == 0)
    return (hit & (at % columns + offset >= 0) & (at % columns + offset < columns)).reshape(shape)


@fill_diagonal.grad(
    numpy=lambda g, offset, wrap: (np.where(_hits(g.shape, offset, wrap, np), np.zeros((), g.dtype), g), None)
)
def _(g, offset, wrap):
    return jnp.where(_hits(g.shape, offset, wrap, jnp), jnp.zeros((), g.dtype), g), None


# ---------------------------------------------------------------- matrices from vectors


def _embedded(input, offset, dim1, dim2):
    dims = [*input.shape[:-1]]
    for axis in sorted((dim1, dim2)):
        dims.insert(axis, input.shape[-1] + abs(offset))
    return _put_numpy(np.zeros(dims, input.dtype), input, offset, dim1, dim2)


@op(method=True, name_arg=False, numpy=_embedded)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Place the last axis on the diagonals of matrices, with zeros elsewhere.

    Args:
        input: Tensor with at least one axis; a list or an array becomes a tensor.
        offset: Which diagonal: positive numbers are above the main one, negative ones below. Default: 0.
        dim1: Axis of the result for the rows. Default: -2.
        dim2: Axis of the result for the columns. Default: -1.

    Returns:
        Tensor with one axis more than ``input``; two have the size ``n + abs(offset)`` for ``n`` elements of the last
        axis.

    Raises:
        ValueError: If an axis is out of range, or both are the same.

    Examples:
        >>> bireme.diag_embed(bireme.to_tensor([1, 2])).tolist()
        [[1, 0], [0, 2]]
    """
    n = input.shape[-1] + abs(offset)
    dims = [*input.shape[:-1]]
    for axis in sorted((dim1, dim2)):
        dims.insert(axis, n)
    return _put(jnp.zeros(dims, input.dtype), input, offset, dim1, dim2)


@diag_embed.prepare
def _(arguments):
    x, where = arguments["input"], "diag_embed"
    if isinstance(x, (list, tuple, np.ndarray)):
        x = arguments["input"] = Tensor(value_of(np.asarray(x)))
    if not isinstance(x, Tensor):
        return
    rank = x.ndim + 1
    if x.ndim == 0:
        raise errors.bad(f"{where}(input)", "at least 1 dimension", x, kind=errors.OutOfRangeError)
    for name in ("dim1", "dim2"):
        arguments[name] = one_axis(arguments[name], rank, f"{where}({name})")
    if arguments["dim1"] == arguments["dim2"]:
        raise errors.bad(f"{where}(dim2)", "an axis other than dim1", arguments["dim2"])


@diag_embed.infer
def _(input, offset, dim1, dim2):
    dims = [*input.shape[:-1]]
    for axis in sorted((dim1, dim2)):
        dims.insert(axis, input.shape[-1] + abs(offset))
    return sig_of(tuple(dims), input.dtype)


@diag_embed.grad(numpy=True)
def _(g, offset, dim1, dim2):
    return jnp.diagonal(g, offset, dim1, dim2)


@op(internal="diag",
    numpy=lambda x, offset, padding_value: _put_numpy(np.full((x.shape[0] + abs(offset),) * 2, padding_value, x.dtype), x, offset, 0, 1))  # fmt: skip
def diag_of(x: Tensor, offset: int, padding_value: Const) -> Tensor:
    """A vector as the diagonal of a matrix; use `diag`."""
    n = x.shape[0] + abs(offset)
    return _put(jnp.full((n, n), padding_value, x.dtype), x, offset, 0, 1)


diag_of.infer(lambda x, offset: sig_of((x.shape[0] + abs(offset),) * 2, x.dtype))
diag_of.grad(lambda g, offset: jnp.diagonal(g, offset), numpy=True)


@composite(method=True)
def diag(x: Tensor, offset: int = 0, padding_value: Attr[float] = 0) -> Tensor:
    """Matrix with a vector on its diagonal, or the diagonal of a matrix.

    Args:
        x: Vector, or matrix; a 0-D tensor counts as a vector of one element.
        offset: Which diagonal: positive numbers are above the main one, negative ones below. Default: 0.
        padding_value: Number in the elements off the diagonal of a matrix made from a vector. Default: 0.

    Returns:
        Square matrix of size ``n + abs(offset)`` for a vector of ``n`` elements; vector for a matrix.

    Raises:
        ValueError: If ``x`` has more than two axes.

    Examples:
        >>> bireme.diag(bireme.to_tensor([1, 2])).tolist()
        [[1, 0], [0, 2]]
    """
    if x.ndim > 2:
        raise errors.bad("diag(x)", "at most 2 dimensions", x)
    if x.ndim == 2:
        return clone(diagonal(x, offset))
    padding = padding_value.item() if isinstance(padding_value, (Tensor, np.ndarray)) else padding_value
    return diag_of(
        reshaped(x, [x._value.sig.size]),
        offset,
        int(padding) if x.dtype.is_integer and isinstance(padding, float) else padding,
    )


@composite(method=True)
def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """Matrix with all elements of a tensor on its diagonal, and zeros elsewhere.

    Args:
        x: Tensor of any shape, which is flattened.
        offset: Which diagonal: positive numbers are above the main one, negative ones below. Default: 0.

    Returns:
        Square matrix of size ``n + abs(offset)`` for ``n`` elements.

    Examples:
        >>> bireme.diagflat(bireme.to_tensor([[1], [2]])).tolist()
        [[1, 0], [0, 2]]
    """
    return diag_of(ravel(x), offset, 0)
