"""Norms of vectors and matrices, condition numbers, distances."""

from __future__ import annotations

import math as pymath
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, FLOAT
from bireme.core.declare import conversion
from bireme.core.declare.op import Attr, Axes, Const, DTypeArg, Extra, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import broadcast_shape, conj_of, sum_to
from bireme.ops._shared.matrix import adjoint, needs_matrix, needs_square
from bireme.ops.creation import tensors
from bireme.ops.indexing.gather import index_select
from bireme.ops.linalg.decompositions import svdvals
from bireme.ops.linalg.solve import inv
from bireme.ops.reduction import reductions
from bireme.ops.reduction.reductions import reduced_shape

INEXACT = FLOAT | COMPLEX


# ---------------------------------------------------------------- vectors


def _sizes(x):
    """Absolute values in a type that sums of squares fit into."""
    wide = x.astype(jnp.float32) if x.dtype.itemsize == 2 else x
    return jnp.abs(wide)


@op(dtypes=INEXACT, numpy=True, amp="high", selects=lambda attrs: pymath.isinf(attrs["p"]))
def p_norm(x: Tensor, p: Const, axis: Axes, keepdim: bool) -> Tensor:
    """The `p`-norm over axes; use `norm` and `vector_norm`.

    >>> bireme.linalg.vector_norm(bireme.to_tensor([3.0, 4.0])).item()
    5.0
    """
    axes = axis or tuple(range(x.ndim))
    size = _sizes(x)
    if p < 0 or pymath.isinf(p):
        if pymath.prod([x.shape[a] for a in axes]) == 0:
            return jnp.zeros(reduced_shape(x.shape, axis, keepdim), x.real.dtype)
    if pymath.isinf(p):
        out = (jnp.max if p > 0 else jnp.min)(size, axis=axes, keepdims=keepdim)
    elif p == 0:
        out = jnp.sum((size != 0).astype(size.dtype), axis=axes, keepdims=keepdim)
    elif p == 1:
        out = jnp.sum(size, axis=axes, keepdims=keepdim)
    elif p == 2:
        out = jnp.sqrt(jnp.sum(size * size, axis=axes, keepdims=keepdim))
    else:
        power = np.asarray(p, size.dtype)
        out = jnp.sum(size**power, axis=axes, keepdims=keepdim) ** (1 / power)
    return out.astype(x.real.dtype)


p_norm.infer(lambda x, axis, keepdim: sig_of(reduced_shape(x.shape, axis, keepdim), dtypes.real_of(x.dtype)))


@p_norm.grad(numpy=True)
def _(g, out, x, p, axis, keepdim):
    if p == 0:
        return jnp.zeros_like(x)
    if not keepdim:
        for a in axis or range(x.ndim):
            g, out = jnp.expand_dims(g, a), jnp.expand_dims(out, a)
    if p == 2:
        return x * (g / jnp.where(out == 0, 1, out)).astype(x.dtype)
    size = jnp.abs(x)
    zero = size == 0
    sign = jnp.sign(x) if not jnp.iscomplexobj(x) else x / jnp.where(zero, 1, size)
    if p == 1:
        return sign * g
    if pymath.isinf(p):
        return sign * (g * (size == out))  # each of equal extremes gets all of it, as in Paddle
    share = jnp.where(zero, 1, size) / jnp.where(out == 0, 1, out)
    return sign * (g * jnp.where(zero | (out == 0), 0, share ** np.asarray(p - 1, size.dtype))).astype(x.dtype)


@composite(public="linalg.vector_norm")
def vector_norm(x: Tensor, p: float = 2.0, axis: Axes = None, keepdim: bool = False) -> Tensor:
    """The `p`-norm of all elements, or along `axis`: the sum of absolute values to the power `p`, to the power `1 / p`.

    >>> bireme.linalg.vector_norm(bireme.to_tensor([[3.0, 4.0], [6.0, 8.0]]), p=float("inf"), axis=1).tolist()
    [4.0, 8.0]
    """
    return p_norm(x, p, axis, keepdim)


# ---------------------------------------------------------------- matrices


def _pair(where: str, axis: Any, ndim: int) -> tuple[int, int]:
    if not isinstance(axis, (list, tuple)):
        raise errors.bad(where, "two axes", axis, kind=TypeError)
    if len(axis) != 2:
        raise errors.bad(where, "two axes", list(axis))
    first, second = [conversion.one_axis(a, ndim, where) for a in axis]
    if first == second:
        raise errors.bad(where, "two different axes", list(axis))
    return first, second


def _matrix_norm(name: str, x: Tensor, p: Any, axis: tuple[int, int], keepdim: bool) -> Tensor:
    rows, columns = axis
    if p == "fro":
        return p_norm(x, 2, axis, keepdim)
    if p != "nuc" and not isinstance(p, (int, float, np.number)):
        raise errors.bad(f"{name}(p)", "'fro', 'nuc' or a number", p)
    if p != "nuc" and abs(p) not in (1, 2, pymath.inf):
        raise errors.bad(f"{name}(p)", "'fro', 'nuc', 1, 2, infinity or their negatives for matrices", p)
    most = reductions.max if p == "nuc" or p > 0 else reductions.min
    if p == "nuc" or abs(p) == 2:
        values = svdvals(x.transpose([*[i for i in range(x.ndim) if i not in axis], rows, columns]))
        out = reductions.sum(values, -1) if p == "nuc" else most(values, -1)
        for a in sorted(axis) if keepdim else ():
            out = out.unsqueeze(a)
        return out
    inside, outside = (rows, columns) if abs(p) == 1 else (columns, rows)
    out = most(reductions.sum(x.abs(), inside, keepdim=True), outside, True)
    return out if keepdim else out.squeeze(list(axis))


@composite()
def matrix_norm(x: Tensor, p: Attr = "fro", axis: Attr = [-2, -1], keepdim: bool = False) -> Tensor:  # noqa: B006  # as Paddle shows it
    """The norm of matrices that two axes make up: "fro", "nuc", or a largest (smallest, if negative) sum or singular value.

    >>> bireme.linalg.matrix_norm(bireme.to_tensor([[3.0, 0.0], [0.0, -4.0]]), p="nuc").item()
    7.0
    """
    if x.ndim < 2:
        needs_matrix("matrix_norm", tuple(x.shape))
    return _matrix_norm("matrix_norm", x, p, _pair("matrix_norm(axis)", axis, x.ndim), keepdim)


@composite(method=True, public="norm linalg.norm", alias={"axis": "dim", "p": "ord", "x": ["A", "input"]}, plain=True)
def norm(x: Tensor, p: Attr = None, axis: Attr = None, keepdim: bool = False, out: Extra = None, dtype: DTypeArg = None) -> Tensor:
    """The norm of all elements or along one axis as a vector, and over two axes as a matrix; `p` is a number, "fro" or "nuc".

    >>> bireme.norm(bireme.to_tensor([[3.0, 0.0], [0.0, -4.0]])).item()
    5.0
    """
    x = x if dtype is None else x.astype(dtype)
    p = 2.0 if p is None else p
    if not isinstance(p, (str, int, float, np.number)) or isinstance(p, bool):
        raise errors.bad("norm(p)", "a number, 'fro' or 'nuc'", p, kind=TypeError)
    if isinstance(axis, (list, tuple)) and len(axis) == 1:
        axis = axis[0]
    if isinstance(axis, (list, tuple)) and len(axis) == 2:
        return _matrix_norm("norm", x, p, _pair("norm(axis)", axis, x.ndim), keepdim)
    if p == "nuc" and axis in (None, (), []) and x.ndim == 2:
        return _matrix_norm("norm", x, p, (0, 1), keepdim)
    if p == "fro" and not (isinstance(axis, (list, tuple)) and axis):
        p = 2.0
    if isinstance(p, str):
        raise errors.bad("norm(p)", "a number for this axis; 'fro' and 'nuc' are norms of matrices", p, kind=TypeError)
    return p_norm(x, float(p), axis, keepdim)


@composite(method=True)
def cond(x: Tensor, p: Attr = None) -> Tensor:
    """The condition number of matrices: their norm times that of the inverse; 2 and -2 compare singular values.

    >>> bireme.linalg.cond(bireme.to_tensor([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    """
    needs_matrix("cond", tuple(x.shape))
    p = 2 if p is None else p
    if p not in ("fro", "nuc", 1, -1, 2, -2, pymath.inf, -pymath.inf):
        raise errors.bad("cond(p)", "None, 'fro', 'nuc', 1, 2, infinity or their negatives", p)
    if p not in (2, -2):
        needs_square("cond", tuple(x.shape))
    if x._value.sig.size == 0:
        return p_norm(x, 1, (x.ndim - 2, x.ndim - 1), False)  # nothing but zeros
    if p in (2, -2):
        values = svdvals(x)
        least, most = reductions.min(values, -1), reductions.max(values, -1)
        return most / least if p == 2 else least / most
    axes = (x.ndim - 2, x.ndim - 1)
    return _matrix_norm("cond", x, p, axes, False) * _matrix_norm("cond", inv(x), p, axes, False)


# ---------------------------------------------------------------- distances


@composite(method=True)
def dist(x: Tensor, y: Tensor, p: float = 2) -> Tensor:
    """The `p`-norm of all of `x - y`.

    >>> bireme.dist(bireme.to_tensor([3.0, 4.0]), bireme.to_tensor([0.0])).item()
    5.0
    """
    return p_norm(x - y, p, None, False)


def _squares(x):
    return jnp.sum(jnp.real(x * conj_of(x)), axis=-1)


@op(promote="x y", dtypes=INEXACT, numpy=True)
def euclidean(x: Tensor, y: Tensor) -> Tensor:
    """Distances of all rows by one product: fast, and less exact for points that are close; use `cdist`.

    >>> bireme.cdist(bireme.to_tensor([[3.0, 4.0]]), bireme.to_tensor([[0.0, 0.0]])).tolist()
    [[5.0]]
    """
    square = _squares(x)[..., :, None] + _squares(y)[..., None, :] - 2 * jnp.real(x @ adjoint(y))
    return jnp.sqrt(jnp.maximum(square, 0))


@euclidean.infer
def _(x, y):
    batch = broadcast_shape("cdist", x.shape[:-2], y.shape[:-2])
    return sig_of((*batch, x.shape[-2], y.shape[-2]), dtypes.real_of(x.dtype))


euclidean.flops(lambda x, y: x.size * y.shape[-2], shares_cores=False)


@euclidean.grad(numpy=True)
def _(g, out, x, y, sigs):
    # points that coincide pull in no direction
    pull = jnp.where(out == 0, 0, g / jnp.where(out == 0, 1, out)).astype(g.dtype)
    back = jnp.swapaxes(pull, -1, -2)
    dx = jnp.sum(pull, -1)[..., None] * x - pull.astype(x.dtype) @ y
    dy = jnp.sum(back, -1)[..., None] * y - back.astype(y.dtype) @ x
    return sum_to(dx, sigs[0]), sum_to(dy, sigs[1])


_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@composite(method=True)
def cdist(x: Tensor, y: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The distance of each row of `x` from each row of `y` in the `p`-norm.

    >>> bireme.cdist(bireme.to_tensor([[0.0, 0.0], [3.0, 0.0]]), bireme.to_tensor([[0.0, 4.0]])).tolist()
    [[4.0], [5.0]]
    """
    if compute_mode not in _MODES:
        raise errors.bad("cdist(compute_mode)", " or ".join(_MODES), compute_mode)
    for name, t in (("x", x), ("y", y)):
        needs_matrix("cdist", tuple(t.shape), name)
    if x.shape[-1] != y.shape[-1]:
        raise errors.bad("cdist(y)", f"rows of {x.shape[-1]} elements as in x", f"shape {y.shape}", kind=errors.Unfit)
    if p < 0:
        raise errors.bad("cdist(p)", "0 or more", p, kind=errors.Unfit)
    many = x.shape[-2] > 25 or y.shape[-2] > 25
    if p == 2 and (compute_mode == _MODES[1] or (compute_mode == _MODES[0] and many)):
        return euclidean(x, y)
    return p_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1, False)


@composite()
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows in the `p`-norm: of the first from all others, of the second from all after it, ...

    >>> bireme.pdist(bireme.to_tensor([[0.0], [1.0], [3.0]])).tolist()
    [1.0, 3.0, 2.0]
    """
    if x.ndim != 2:
        raise errors.bad("pdist(x)", "a matrix", f"shape {x.shape}", kind=errors.Unfit)
    first, second = [tensors.to_tensor(i) for i in np.triu_indices(x.shape[0], 1)]
    return p_norm(index_select(x, first, 0) - index_select(x, second, 0), p, -1, False)
