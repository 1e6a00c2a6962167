"""Broadcasting: result shapes, and the sum that undoes it in gradients."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.base.dtype import DType
from bireme.core.graph.graph import Sig, sig_of


def broadcast_shape(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The broadcast shape, or an error that names the axis whose sizes do not fit."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    out: list[int] = []
    for i in range(1, max(map(len, shapes)) + 1):
        extents = {s[-i] for s in shapes if len(s) >= i}
        extents.discard(1)
        if len(extents) > 1:
            shown = " and ".join(str(list(s)) for s in shapes)
            raise errors.bad(
                f"{op}()",
                "shapes that broadcast together",
                described=f"shapes {shown}, which differ in axis {-i}",
                kind=errors.ShapeError,
            )
        out.append(extents.pop() if extents else 1)
    return tuple(reversed(out))


def elementwise(op: str):
    """An inference rule: the broadcast shape and the operands' dtype, of which a number's may be wider."""

    def infer(x: Sig, y: Sig) -> Sig:
        return x if x is y else sig_of(broadcast_shape(op, x.shape, y.shape), min(x.dtype, y.dtype, key=_rank))

    return infer


def _rank(dtype: DType) -> int:
    return dtype.rank


def comparison(op: str, result: Any):
    """The same for a result with a dtype of its own."""

    def infer(x: Sig, y: Sig) -> Sig:
        return sig_of(broadcast_shape(op, x.shape, y.shape), result)

    return infer


def same(x: Sig) -> Sig:
    """An inference rule for a unary operator that keeps shape and dtype."""
    return x


def sum_to(g, sig: Sig):
    """Sum a gradient over the axes along which its operand was broadcast."""
    return sum_to_shape(g, sig.shape)


def sum_to_shape(g, shape: tuple[int, ...]):
    """The same for a shape; on NumPy and jax arrays alike."""
    if tuple(g.shape) == tuple(shape):
        return g
    if g.size == math.prod(shape):  # axes of size 1
        return g.reshape(shape)
    extra = g.ndim - len(shape)
    if extra == 1 and g.__class__ is np.ndarray and g.ndim > 1 and g.shape[1:] == shape:  # as of a bias
        return np.add.reduce(g, 0)
    axes = tuple(range(extra)) + tuple(i + extra for i, n in enumerate(shape) if n == 1 and g.shape[i + extra] != 1)
    return g.sum(axis=axes).reshape(shape)


def conj_of(x):
    """The conjugate of complex numbers; anything else as it is, without the copy that NumPy would make."""
    return jnp.conj(x) if jnp.iscomplexobj(x) else x
