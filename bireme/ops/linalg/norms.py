"""Norms of vectors and matrices, condition numbers, distances."""

from __future__ import annotations

import math as pymath
from collections.abc import Sequence
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
    """Absolute values in a dtype that sums of squares fit into."""
    wide = x.astype(jnp.float32) if x.dtype.itemsize == 2 else x
    return jnp.abs(wide)


@op(internal=True, dtypes=INEXACT, numpy=True, amp="high", selects=lambda attrs: pymath.isinf(attrs["p"]),
    kernels="pnorm frobenius_norm dist")  # fmt: skip
def p_norm(x: Tensor, p: Const, axis: Axes, keepdim: bool) -> Tensor:
    """The `p`-norm over axes; use `norm` and `vector_norm`."""
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
    """Norm of vectors: ``sum(abs(x) ** p) ** (1 / p)`` over the given axes.

    Args:
        x: Floating-point or complex tensor.
        p: Exponent: infinity is the largest absolute value, minus infinity the smallest, 0 the number of nonzero
            elements. Default: 2.0.
        axis: Axis or axes to reduce over; ``None`` means all. Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.

    Returns:
        Tensor of real numbers.

    Examples:
        >>> bireme.linalg.vector_norm(bireme.to_tensor([[3.0, 4.0], [6.0, 8.0]]), p=float("inf"), axis=1).tolist()
        [4.0, 8.0]
    """
    return p_norm(x, p, axis, keepdim)


# ---------------------------------------------------------------- matrices


def _pair(where: str, axis: Any, ndim: int) -> tuple[int, int]:
    if not isinstance(axis, (list, tuple)):
        raise errors.bad(where, "two axes", axis, kind=errors.ArgumentTypeError)
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
def matrix_norm(x: Tensor, p: Attr[float | str] = "fro", axis: Attr[Sequence[int]] = [-2, -1],  # noqa: B006  # as in Paddle, never changed
                keepdim: bool = False) -> Tensor:  # fmt: skip
    """Norm of the matrices that two axes span.

    Args:
        x: Floating-point or complex tensor with at least two axes; ``'nuc'``, 2 and -2 need float32, float64 or
            complex.
        p: ``'fro'`` the root of the sum of squares, ``'nuc'`` the sum of the singular values, 1 the largest sum of
            absolute values in a column, infinity that in a row, 2 the largest singular value; negative numbers the
            smallest instead. Default: ``'fro'``.
        axis: The axes of the rows and of the columns. Default: ``[-2, -1]``.
        keepdim: Whether to keep both axes with size 1. Default: False.

    Returns:
        Tensor of real numbers.

    Raises:
        ValueError: If ``p`` is none of these, or ``axis`` does not name two different axes.

    Examples:
        >>> bireme.linalg.matrix_norm(bireme.to_tensor([[3.0, 0.0], [0.0, -4.0]]), p="nuc").item()
        7.0
    """
    if x.ndim < 2:
        needs_matrix("matrix_norm", tuple(x.shape))
    return _matrix_norm("matrix_norm", x, p, _pair("matrix_norm(axis)", axis, x.ndim), keepdim)


@composite(method=True, public="norm linalg.norm", alias={"axis": "dim", "p": "ord", "x": ["A", "input"]}, plain=True)
def norm(x: Tensor, p: Attr[float | str] = None, axis: Attr[int | Sequence[int]] = None, keepdim: bool = False,
         out: Extra[Tensor] = None, dtype: DTypeArg = None) -> Tensor:  # fmt: skip
    """Norm of a vector or a matrix.

    Two axes are a matrix, for which ``p`` is as in ``matrix_norm``. One axis, all elements and more than two axes are a
    vector, for which ``p`` is a number as in ``vector_norm``; ``'fro'`` of one axis or of all elements is 2.

    Args:
        x: Floating-point or complex tensor.
        p: Which norm: a number, ``'fro'`` or ``'nuc'``. Default: None, 2.
        axis: Axis or axes to reduce over; ``None`` means all elements as one vector, except ``'nuc'`` of a matrix.
            Default: None.
        keepdim: Whether to keep the reduced axes with size 1. Default: False.
        out: Tensor that receives the result. Default: None.
        dtype: Dtype to convert ``x`` to first. Default: None.

    Returns:
        Tensor of real numbers.

    Raises:
        ValueError: If there is no such norm for these axes.

    Examples:
        >>> bireme.norm(bireme.to_tensor([[3.0, 0.0], [0.0, -4.0]])).item()
        5.0
    """
    x = x if dtype is None else x.astype(dtype)
    p = 2.0 if p is None else p
    if not isinstance(p, (str, int, float, np.number)) or isinstance(p, bool):
        raise errors.bad("norm(p)", "a number, 'fro' or 'nuc'", p, kind=errors.ArgumentTypeError)
    if isinstance(axis, (list, tuple)) and len(axis) == 1:
        axis = axis[0]
    if isinstance(axis, (list, tuple)) and len(axis) == 2:
        return _matrix_norm("norm", x, p, _pair("norm(axis)", axis, x.ndim), keepdim)
    if p == "nuc" and axis in (None, (), []) and x.ndim == 2:
        return _matrix_norm("norm", x, p, (0, 1), keepdim)
    if p == "fro" and not (isinstance(axis, (list, tuple)) and axis):
        p = 2.0
    if isinstance(p, str):
        raise errors.bad(
            "norm(p)", "a number for this axis; 'fro' and 'nuc' are norms of matrices", p, kind=errors.ArgumentTypeError
        )
    return p_norm(x, float(p), axis, keepdim)


@composite(method=True)
def cond(x: Tensor, p: Attr[float | str] = None) -> Tensor:
    """Condition number of a matrix: its norm times the norm of its inverse.

    Args:
        x: Matrix or batch of matrices of shape ``[..., m, n]``, float32, float64 or complex; square unless ``p`` is 2
            or -2.
        p: Which norm, as in ``matrix_norm``; 2 is the ratio of the largest to the smallest singular value, -2 its
            reciprocal. Default: None, 2.

    Returns:
        Tensor of real numbers of shape ``[...]``.

    Raises:
        ValueError: If ``p`` is not a matrix norm, or a matrix is not square or is singular where its inverse is needed.

    Examples:
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
    """Norm of the difference of two tensors, over all elements.

    Args:
        x: First tensor, floating-point or complex.
        y: Second tensor, of a shape that broadcasts.
        p: Exponent of the norm, as in ``vector_norm``. Default: 2.

    Returns:
        0-D tensor of a real number.

    Examples:
        >>> bireme.dist(bireme.to_tensor([3.0, 4.0]), bireme.to_tensor([0.0])).item()
        5.0
    """
    return p_norm(x - y, p, None, False)


def _squares(x):
    return jnp.sum(jnp.real(x * conj_of(x)), axis=-1)


@op(internal=True, promote="x y", dtypes=INEXACT, numpy=True, upcast=True)
def euclidean(x: Tensor, y: Tensor) -> Tensor:
    """Distances of all rows by one product: fast, and less exact for points that are close; use `cdist`."""
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
    """Distances between each row of ``x`` and each row of ``y``.

    Args:
        x: Tensor of shape ``[..., m, d]``, floating-point or complex.
        y: Tensor of shape ``[..., n, d]``; leading axes broadcast.
        p: Exponent of the norm, non-negative; 2 is the Euclidean distance, 0 the number of coordinates that differ.
            Default: 2.0.
        compute_mode: How Euclidean distances are computed: ``'use_mm_for_euclid_dist'`` by a matrix product, which is
            fast and less accurate for points that are close, ``'donot_use_mm_for_euclid_dist'`` from the differences,
            ``'use_mm_for_euclid_dist_if_necessary'`` by a product for more than 25 rows.
            Default: ``'use_mm_for_euclid_dist_if_necessary'``.

    Returns:
        Tensor of real numbers of shape ``[..., m, n]``.

    Raises:
        ValueError: If a shape does not fit, ``p`` is negative, or there is no such mode.

    Examples:
        >>> bireme.cdist(bireme.to_tensor([[0.0, 0.0], [3.0, 0.0]]), bireme.to_tensor([[0.0, 4.0]])).tolist()
        [[4.0], [5.0]]
    """
    if compute_mode not in _MODES:
        raise errors.bad("cdist(compute_mode)", " or ".join(map(repr, _MODES)), compute_mode)
    for name, t in (("x", x), ("y", y)):
        needs_matrix("cdist", tuple(t.shape), name)
    if x.shape[-1] != y.shape[-1]:
        raise errors.bad(
            "cdist(y)",
            f"a last dimension of size {x.shape[-1]} to match x",
            described=f"shape {y.shape}",
            kind=errors.ShapeError,
        )
    if p < 0:
        raise errors.bad("cdist(p)", "a non-negative number", p, kind=errors.ArgumentError)
    many = x.shape[-2] > 25 or y.shape[-2] > 25
    if p == 2 and (compute_mode == _MODES[1] or (compute_mode == _MODES[0] and many)):
        return euclidean(x, y)
    return p_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1, False)


@composite()
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Distances between all pairs of rows.

    Args:
        x: Matrix of shape ``[n, d]``, floating-point or complex.
        p: Exponent of the norm, as in ``vector_norm``. Default: 2.0.

    Returns:
        1-D tensor of ``n * (n - 1) / 2`` real numbers: the distances of the first row from all later ones, then those
        of the second, and so on.

    Raises:
        ValueError: If ``x`` is not a matrix.

    Examples:
        >>> bireme.pdist(bireme.to_tensor([[0.0], [1.0], [3.0]])).tolist()
        [1.0, 3.0, 2.0]
    """
    if x.ndim != 2:
        raise errors.bad("pdist(x)", "a matrix", described=f"shape {x.shape}", kind=errors.ShapeError)
    first, second = [tensors.to_tensor(i) for i in np.triu_indices(x.shape[0], 1)]
    return p_norm(index_select(x, first, 0) - index_select(x, second, 0), p, -1, False)
