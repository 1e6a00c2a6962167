"""Products of vectors and tensors: inner, outer, and along chosen axes."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.declare import conversion
from bireme.core.declare.op import Attr, Axis, Ints, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import conj_of
from bireme.ops.linalg.matmul import NUMBER
from bireme.ops.reduction import reductions


@op(
    method=True,
    promote="x y",
    mix="products",
    dtypes=NUMBER,
    upcast=True,
    numpy=lambda x, y: np.einsum("...i,...i->...", x, y),
)
def dot(x: Tensor, y: Tensor) -> Tensor:
    """Inner product of two vectors, or of the rows of two matrices; complex numbers are not conjugated.

    Args:
        x: Vector or matrix of numbers.
        y: Tensor of the same shape; its dtype may be another one, as in ``matmul``.

    Returns:
        Tensor without the last axis.

    Raises:
        ValueError: If the shapes differ, or there are more than two axes.

    Examples:
        >>> bireme.dot(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([3.0, 4.0])).item()
        11.0
    """
    return jnp.sum(x * y, axis=-1, dtype=x.dtype)


@dot.check
def _(x, y):
    if x.ndim not in (1, 2):
        raise errors.bad(
            "dot(x)",
            "a vector, or a matrix whose rows are vectors",
            described=f"shape {list(x.shape)}",
            kind=errors.ShapeError,
        )
    if x.shape != y.shape:
        raise errors.bad(
            "dot(y)", f"shape {list(x.shape)} as x has", described=f"shape {list(y.shape)}", kind=errors.ShapeError
        )


dot.infer(lambda x: sig_of(x.shape[:-1], x.dtype))
dot.grad(lambda g, x, y: (g[..., None] * conj_of(y), g[..., None] * conj_of(x)), numpy=True)


@composite(plain=True)
def vecdot(x: Tensor, y: Tensor, axis: Attr[int] = -1) -> Tensor:
    """Inner products of vectors along an axis, with broadcasting; the elements of ``x`` are conjugated.

    Args:
        x: Tensor of numbers.
        y: Tensor of a shape that broadcasts.
        axis: Axis to sum over. Default: -1.

    Returns:
        Tensor of the broadcast shape without the axis.

    Examples:
        >>> bireme.vecdot(bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]]), bireme.to_tensor([1.0, 10.0])).tolist()
        [21.0, 43.0]
    """
    return reductions.sum((x.conj() if x.dtype.is_complex else x) * y, axis)


# ---------------------------------------------------------------- outer and along axes


def _outer(x, y):
    return x.reshape(-1, 1) * y.reshape(1, -1)


@op(method=True, promote="x y", mix="floats", alias={"x": "input", "y": "vec2"}, out=True, bilinear=True, numpy=_outer)
def outer(x: Tensor, y: Tensor) -> Tensor:
    """Outer product: each element of ``x`` times each element of ``y``.

    Args:
        x: Tensor of any shape, which is flattened.
        y: Tensor of any shape, which is flattened.

    Returns:
        Matrix with a row for each element of ``x`` and a column for each of ``y``.

    Examples:
        >>> bireme.outer(bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])).tolist()
        [[3, 4], [6, 8]]
    """
    return _outer(x, y)


outer.infer(lambda x, y: sig_of((x.size, y.size), x.dtype))


@outer.grad(numpy=True)
def _(g, x, y, sigs, needs):
    dx = jnp.matmul(g, conj_of(y).reshape(-1, 1)).reshape(sigs[0].shape) if needs[0] else None
    return dx, jnp.matmul(conj_of(x).reshape(1, -1), g).reshape(sigs[1].shape) if needs[1] else None


@composite(alias={"x": "input", "y": "vec2"}, out=True)
def ger(x: Tensor, y: Tensor) -> Tensor:
    """Outer product: each element of ``x`` times each element of ``y``; another name of ``outer``.

    Args:
        x: Tensor of any shape, which is flattened.
        y: Tensor of any shape, which is flattened.

    Returns:
        Matrix with a row for each element of ``x`` and a column for each of ``y``.

    Examples:
        >>> bireme.ger(bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])).tolist()
        [[3, 4], [6, 8]]
    """
    return outer(x, y)


def _interleaved(shape, other):
    """Sizes of two shapes in turn, aligned at the end: what a Kronecker product is before it is flattened."""
    rank = builtins.max(len(shape), len(other))
    a, b = (1,) * (rank - len(shape)) + tuple(shape), (1,) * (rank - len(other)) + tuple(other)
    return a, b, [n for pair in zip(a, b) for n in pair]


def _kron(x, y):
    a, b, _ = _interleaved(x.shape, y.shape)
    wide = x.reshape([n for e in a for n in (e, 1)]) * y.reshape([n for e in b for n in (1, e)])
    return wide.reshape([m * n for m, n in zip(a, b)])


@op(method=True, promote="x y", dtypes=NUMBER, numpy=_kron)
def kron(x: Tensor, y: Tensor) -> Tensor:
    """Kronecker product: each element of ``x`` times the whole of ``y``, as blocks.

    Args:
        x: Tensor of numbers.
        y: Tensor of numbers; the operand with fewer axes gets leading axes of size 1.

    Returns:
        Tensor whose sizes are the products of those of ``x`` and ``y``, axis by axis.

    Examples:
        >>> bireme.kron(bireme.to_tensor([1, 10]), bireme.to_tensor([1, 2])).tolist()
        [1, 2, 10, 20]
    """
    return _kron(x, y)


@kron.infer
def _(x, y):
    a, b, _ = _interleaved(x.shape, y.shape)
    return sig_of(tuple([m * n for m, n in zip(a, b)]), x.dtype)


@kron.grad(numpy=True)
def _(g, x, y, sigs):
    a, b, both = _interleaved(sigs[0].shape, sigs[1].shape)
    wide = g.reshape(both)
    dx = jnp.sum(wide * conj_of(y).reshape([n for e in b for n in (1, e)]), axis=tuple(range(1, 2 * len(b), 2)))
    dy = jnp.sum(wide * conj_of(x).reshape([n for e in a for n in (e, 1)]), axis=tuple(range(0, 2 * len(a), 2)))
    return dx.reshape(sigs[0].shape), dy.reshape(sigs[1].shape)


@op(method=True, promote="x y", dtypes=NUMBER, numpy=lambda x, y, axis: np.cross(x, y, axis=axis))
def cross(x: Tensor, y: Tensor, axis: Axis = 9) -> Tensor:
    """Cross product of vectors with three elements along an axis.

    Args:
        x: Tensor of numbers.
        y: Tensor of the same shape.
        axis: Axis of the vectors, of size 3. Default: 9, which means the first axis of size 3.

    Returns:
        Tensor of the shape of ``x`` and the promoted dtype.

    Raises:
        ValueError: If the shapes differ, or the axis does not have size 3.

    Examples:
        >>> bireme.cross(bireme.to_tensor([1.0, 0.0, 0.0]), bireme.to_tensor([0.0, 1.0, 0.0])).tolist()
        [0.0, 0.0, 1.0]
    """
    return jnp.cross(x, y, axis=axis)


@cross.prepare
def _(arguments):
    x, axis = arguments["x"], arguments["axis"]
    if isinstance(x, Tensor) and (axis is None or (axis.__class__ is int and axis == 9)):
        if 3 not in x.shape:
            raise errors.bad("cross(x)", "an axis of size 3", described=f"shape {x.shape}", kind=errors.ShapeError)
        arguments["axis"] = x.shape.index(3)


@cross.check
def _(x, y, axis):
    if x.shape != y.shape:
        raise errors.bad(
            "cross(y)", f"shape {list(x.shape)} as x has", described=f"shape {list(y.shape)}", kind=errors.ShapeError
        )
    if x.ndim == 0 or x.shape[axis] != 3:
        raise errors.bad(
            "cross(x)", f"3 elements along axis {axis}", described=f"shape {list(x.shape)}", kind=errors.ShapeError
        )


cross.infer(lambda x: x)
cross.grad(lambda g, x, y, axis: (jnp.cross(conj_of(y), g, axis=axis), jnp.cross(g, conj_of(x), axis=axis)), numpy=True)


def _contract(x, y, over_x, over_y):
    return lax.dot_general(x, y, ((over_x, over_y), ((), ())))


@op(internal=True, promote="x y", mix="products", dtypes=NUMBER, bilinear=True,
    numpy=lambda x, y, over_x, over_y: np.tensordot(x, y, (over_x, over_y)))  # fmt: skip
def contract(x: Tensor, y: Tensor, over_x: Ints, over_y: Ints) -> Tensor:
    """Sum of products over pairs of axes; use `tensordot`."""
    return _contract(x, y, over_x, over_y)


def _free(ndim, over):
    return [i for i in range(ndim) if i not in over]


@contract.infer
def _(x, y, over_x, over_y):
    return sig_of(
        tuple([x.shape[i] for i in _free(x.ndim, over_x)] + [y.shape[i] for i in _free(y.ndim, over_y)]), x.dtype
    )


contract.flops(lambda x, y: x.size * (y.shape[-1] if y.ndim else 1), shares_cores=False)


def _contract_grad(g, x, y, over_x, over_y, needs, xp, product):
    free_x, free_y = _free(x.ndim, over_x), _free(y.ndim, over_y)
    n, dx, dy = len(free_x), None, None
    # what is left of the other operand are the axes summed over, in its own order
    if needs[0]:
        back = free_x + [over_x[k] for k in sorted(range(len(over_y)), key=lambda k: over_y[k])]
        y = xp.conj(y) if xp.iscomplexobj(y) else y
        dx = xp.transpose(product(g, y, tuple(range(n, g.ndim)), tuple(free_y)), np.argsort(back))
    if needs[1]:
        back = [over_y[k] for k in sorted(range(len(over_x)), key=lambda k: over_x[k])] + free_y
        x = xp.conj(x) if xp.iscomplexobj(x) else x
        dy = xp.transpose(product(x, g, tuple(free_x), tuple(range(n))), np.argsort(back))
    return dx, dy


def _contract_grad_numpy(g, x, y, over_x, over_y, needs):
    def product(a, b, over_a, over_b):
        return np.tensordot(a, b, (over_a, over_b))

    return _contract_grad(g, x, y, over_x, over_y, needs, np, product)


@contract.grad(numpy=_contract_grad_numpy)
def _(g, x, y, over_x, over_y, needs):
    return _contract_grad(g, x, y, over_x, over_y, needs, jnp, _contract)


@composite(method=True, plain=True)
def inner(x: Tensor, y: Tensor) -> Tensor:
    """Inner products along the last axes of two tensors; an elementwise product if either has one element.

    Args:
        x: Tensor of numbers of shape ``[..., k]``.
        y: Tensor of numbers of shape ``[..., k]``; leading axes need not match.

    Returns:
        Tensor with the leading axes of ``x``, then those of ``y``.

    Raises:
        ValueError: If the sizes of the last axes differ.

    Examples:
        >>> bireme.inner(bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]]), bireme.to_tensor([1.0, 10.0])).tolist()
        [21.0, 43.0]
    """
    if 1 in (x.size, y.size):
        return x * y
    if x.shape[-1] != y.shape[-1]:
        raise errors.bad(
            "inner(y)",
            f"{x.shape[-1]} elements along the last axis, as in x of shape {x.shape}",
            described=f"shape {y.shape}",
            kind=errors.ShapeError,
        )
    return contract(x, y, (x.ndim - 1,), (y.ndim - 1,))


def _axes_of_pairs(axes: Any, x: Tensor, y: Tensor) -> tuple[list[int], list[int]]:
    """Pairs of axes as Paddle takes them: a count, a list for both, or two, of which the shorter is extended."""
    where = "tensordot(axes)"
    if isinstance(axes, (Tensor, np.ndarray)):
        axes = axes.tolist()
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= builtins.min(x.ndim, y.ndim):
            raise errors.bad(
                where,
                f"a number of axes in [0, {builtins.min(x.ndim, y.ndim)}]",
                axes,
                kind=errors.ArgumentError if axes < 0 else errors.OutOfRangeError,
            )
        return list(range(x.ndim - axes, x.ndim)), list(range(axes))
    if not isinstance(axes, (list, tuple)):
        raise errors.bad(where, "an integer, or one or two lists of axes", axes, kind=errors.ArgumentTypeError)
    axes = [a.tolist() if isinstance(a, (Tensor, np.ndarray)) and a.ndim else a for a in axes]
    nested = [list(a) for a in axes if isinstance(a, (list, tuple))]
    if nested and (len(nested) != len(axes) or len(nested) > 2):
        raise errors.bad(where, "one or two lists of axes", axes)
    first, second = (nested[0], nested[-1]) if nested else (list(axes), list(axes))
    first, second = first + second[len(first) :], second + first[len(second) :]
    return [conversion.one_axis(a, x.ndim, where) for a in first], [
        conversion.one_axis(a, y.ndim, where) for a in second
    ]


@composite(method=True, plain=True)
def tensordot(x: Tensor, y: Tensor, axes: Attr[int | Tensor | Sequence[int] | Sequence[Sequence[int]]] = 2) -> Tensor:
    """Sum of products over pairs of axes of two tensors.

    Args:
        x: Tensor of numbers.
        y: Tensor of numbers; its dtype may be another one, as in ``matmul``.
        axes: An integer ``n`` for the last ``n`` axes of ``x`` with the first ``n`` of ``y``; a list for the same axes
            of both; or a pair of lists with the axes of ``x`` and of ``y``, of which the shorter one is extended by the
            rest of the other. Default: 2.

    Returns:
        Tensor with the remaining axes of ``x``, then those of ``y``.

    Raises:
        ValueError: If an axis is out of range or repeated, or the sizes of a pair differ and neither is 1.

    Examples:
        >>> x, y = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]]), bireme.to_tensor([[1.0, 10.0], [100.0, 1000.0]])
        >>> bireme.tensordot(x, y, axes=[[0], [1]]).tolist()
        [[31.0, 3100.0], [42.0, 4200.0]]
    """
    over_x, over_y = _axes_of_pairs(axes, x, y)
    for over in (over_x, over_y):
        if len(set(over)) != len(over):
            raise errors.bad("tensordot(axes)", "different axes", over)
    for i, j in zip(over_x, over_y):
        m, n = x.shape[i], y.shape[j]
        if m != n and (1 not in (m, n) or 0 in (m, n)):
            raise errors.bad(
                "tensordot(axes)",
                f"axes of equal size, or of size 1, in shapes {x.shape} and {y.shape}",
                described=f"{i} and {j}",
                kind=errors.ArgumentError,
            )
        if n == 1 < m:
            x = reductions.sum(x, i, x.dtype, True)
        elif m == 1 < n:
            y = reductions.sum(y, j, y.dtype, True)
    return contract(x, y, over_x, over_y)
