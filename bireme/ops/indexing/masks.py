"""By masks: elements where a condition holds, and where it does."""

from __future__ import annotations

import math

import jax.numpy as jnp
import ml_dtypes
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Size, Tensor, composite, op
from bireme.core.graph.graph import Value, sig_of
from bireme.core.graph.segment import debug_mode
from bireme.core.numpy_exec.rebinding import dual
from bireme.core.record import flush, guards
from bireme.core.tensor.tensor import read, wrap
from bireme.ops._shared.broadcast import broadcast_shape, sum_to_shape
from bireme.ops.indexing.along_axis import put_axis, take_axis
from bireme.ops.indexing.setitem import value_like
from bireme.ops.math import logic


@op(method=True, numpy=True)
def masked_select(x: Tensor, mask: Tensor, *, size: Size) -> Tensor:
    """Select the elements where a mask is true; waits for the values of the mask, on which the shape depends.

    Args:
        x: Input tensor of any dtype.
        mask: Bool tensor; ``x`` and ``mask`` broadcast against each other.

    Returns:
        1-D tensor of the elements in row-major order.

    Examples:
        >>> bireme.masked_select(bireme.to_tensor([5, 6, 7]), bireme.to_tensor([True, False, True])).tolist()
        [5, 7]
    """
    x, mask = jnp.broadcast_arrays(x, mask)
    return take_axis(x.reshape(-1), _true_places(mask, size))


@dual(lambda mask, size: np.flatnonzero(mask))
def _true_places(mask, size):
    return jnp.nonzero(mask.reshape(-1), size=size)[0]


masked_select.infer(lambda x, size: sig_of((size,), x.dtype))


@masked_select.grad(numpy=True)
def _(g, mask, size, sigs):
    dims = np.broadcast_shapes(sigs[0].shape, mask.shape)
    line = jnp.zeros(math.prod(dims), g.dtype)
    made = put_axis(line, _true_places(jnp.broadcast_to(mask, dims), size), g, 0, "set", unique=True)
    return sum_to_shape(made.reshape(dims), sigs[0].shape), None


@masked_select.check
def _(mask):
    if mask.dtype is not dtypes.bool_:
        raise errors.bad("masked_select(mask)", "a bool tensor", described=mask.dtype.name, kind=errors.DtypeError)


@masked_select.prepare
def _(arguments):
    x, mask = arguments["x"], arguments["mask"]
    if isinstance(x, Tensor) and isinstance(mask, Tensor):
        broadcast_shape("masked_select", tuple(x.shape), tuple(mask.shape))


@masked_select.size
def _(x, mask):
    return np.count_nonzero(np.broadcast_arrays(x, mask)[1])


@op(internal="nonzero", differentiable=False,
    numpy=lambda x, size: np.argwhere(_is_set_numpy(x)).astype(np.int64, copy=False))  # fmt: skip
def nonzero_of(x: Tensor, *, size: Size) -> Tensor:
    """Indices of what is not zero; use `nonzero`."""
    return (
        jnp.stack(jnp.nonzero(_is_set(x), size=size), axis=1).astype(jnp.int64)
        if x.ndim
        else jnp.zeros((size, 0), jnp.int64)
    )


def _is_set(x):
    """Whether each element counts as not zero. Numbers below the smallest normal one do not: XLA flushes them to zero,
    and the count, made on the host, must agree with the program."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x != 0
    return ~(jnp.abs(x) < jnp.finfo(x.dtype).tiny)


def _is_set_numpy(x):
    with np.errstate(invalid="ignore"):  # bfloat16 warns of NaN
        return x if x.dtype.kind in "iub" else ~(np.abs(x) < ml_dtypes.finfo(x.dtype).tiny)


nonzero_of.size(lambda x: np.count_nonzero(_is_set_numpy(x)))
nonzero_of.infer(lambda x, size: sig_of((size, x.ndim), dtypes.int64))


def _found_at_once(x: Tensor) -> Tensor:
    """The indices in what is on the host: who counts them there has found them."""
    flush.sizes_follow(cut=True)
    made = np.argwhere(_is_set_numpy(x._host())).astype(np.int64, order="C", copy=False)
    return wrap(Value(sig_of(made.shape, dtypes.int64), made, x._value.device))


@composite(method=True, alias={"x": "input"}, name_arg=False, out=True)
def nonzero(x: Tensor, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Find the indices of the elements that are not zero; waits for the values, on which the shape depends.

    Numbers below the smallest normal one of the dtype count as zero.

    Args:
        x: Input tensor of any dtype.
        as_tuple: Whether to return a tuple with one 1-D tensor of indices for each axis. Default: False.

    Returns:
        int64 tensor of shape ``[n, x.ndim]`` with the indices of an element in each row, or the tuple of its columns.

    Examples:
        >>> bireme.nonzero(bireme.to_tensor([0, 5, 6])).tolist()
        [[1], [2]]
    """
    found = _found_at_once(x) if x._value.device.is_cpu and not debug_mode.at_once else nonzero_of(x)
    return tuple(found[:, i : i + 1].reshape([-1]) for i in range(x.ndim)) if as_tuple else found


@composite(method=True, alias={"x": "input", "y": "other"}, out=True, plain=True)
def where(condition: Tensor, x: Tensor | float | None = None,
          y: Tensor | float | None = None) -> Tensor | tuple[Tensor, ...]:  # fmt: skip
    """Select elements from ``x`` where a condition is true and from ``y`` elsewhere.

    Without ``x`` and ``y`` it returns the indices where the condition is true, as
    ``nonzero(condition, as_tuple=True)``.

    Args:
        condition: Bool tensor.
        x: Tensor or number taken where the condition is true. Default: None.
        y: Tensor or number taken elsewhere. Default: None.

    Returns:
        Tensor of the shape that the three broadcast to, in the promoted dtype of ``x`` and ``y``.

    Examples:
        >>> bireme.where(bireme.to_tensor([True, False]), bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])).tolist()
        [1, 4]
    """
    if (x is None) != (y is None):
        raise errors.bad("where(x, y)", "both or neither", described="one of them")
    if x is not None and condition.dtype is not dtypes.bool_:
        raise errors.bad("where(condition)", "a bool tensor", condition, kind=errors.ArgumentTypeError)
    return nonzero(condition, as_tuple=True) if x is None else logic.select(condition, x, y)


@composite(method=True, inplace=True, plain=True)
def masked_fill(x: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:
    """Replace elements by a value where a mask is true.

    Args:
        x: Input tensor of any dtype.
        mask: Bool tensor, or one that is converted to it; it broadcasts with ``x``.
        value: Number or tensor that broadcasts; it is converted to the dtype of ``x``.

    Returns:
        Tensor of the dtype of ``x``; ``x`` itself is not changed.

    Examples:
        >>> bireme.masked_fill(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([True, False]), 0.0).tolist()
        [0.0, 2.0]
    """
    mask = mask.astype(dtypes.bool_) if mask.dtype is not dtypes.bool_ else mask
    fill = value if not isinstance(value, Tensor) else value.astype(x.dtype)
    return logic.select(mask, fill, x) if isinstance(fill, Tensor) else logic.select(mask, value_like(x, fill), x)


@op(internal=True, promote="x value", mix="same", numpy=True)
def masked_put(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """Elements of a value, in order, where a mask is true; use `masked_scatter`.

    >>> x, mask = bireme.to_tensor([1, 2, 3]), bireme.to_tensor([True, False, True])
    >>> bireme.masked_scatter(x, mask, bireme.to_tensor([8, 9])).tolist()
    [8, 2, 9]
    """
    x, mask = jnp.broadcast_arrays(x, mask)
    if not value.size:
        return x
    return jnp.where(mask, take_axis(value.reshape(-1), _numbered(mask, value.size)), x)


def _numbered(mask, n):
    """For each element of a mask, how many before it are true."""
    return jnp.clip(
        jnp.cumsum(mask.reshape(-1), dtype=np.int32 if mask.size < 1 << 31 else np.int64) - 1, 0, n - 1
    ).reshape(mask.shape)


masked_put.infer(lambda x, mask: sig_of(broadcast_shape("masked_scatter", x.shape, mask.shape), x.dtype))


@masked_put.grad(numpy=True)
def _(g, mask, sigs):
    mask, zero, n = jnp.broadcast_to(mask, g.shape), jnp.zeros_like(g), sigs[2].size
    dx = sum_to_shape(jnp.where(mask, zero, g), sigs[0].shape)
    line = jnp.zeros(n, g.dtype)
    if n:
        line = put_axis(line, _numbered(mask, n), jnp.where(mask, g, zero), 0, "add")
    return dx, None, line.reshape(sigs[2].shape)


@composite(method=True, inplace=True, amp="one")
def masked_scatter(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """Replace the elements where a mask is true by the elements of another tensor, in order.

    Args:
        x: Input tensor of any dtype.
        mask: Bool tensor; ``x`` and ``mask`` broadcast against each other.
        value: Tensor of the dtype of ``x`` with at least as many elements as the mask has true ones; they are read in
            row-major order.

    Returns:
        Tensor of the broadcast shape; ``x`` itself is not changed.

    Raises:
        ValueError: If ``value`` has too few elements.

    Examples:
        >>> x, mask = bireme.to_tensor([1, 2, 3]), bireme.to_tensor([True, False, True])
        >>> bireme.masked_scatter(x, mask, bireme.to_tensor([8, 9])).tolist()
        [8, 2, 9]
    """
    if mask.dtype is not dtypes.bool_:
        raise errors.bad("masked_scatter(mask)", "a bool tensor", described=mask.dtype.name, kind=errors.ArgumentError)
    if value.dtype is not x.dtype:
        raise errors.bad(
            "masked_scatter(value)", f"x's dtype {x.dtype.name}", described=value.dtype.name, kind=errors.ArgumentError
        )
    dims = broadcast_shape("masked_scatter", tuple(x.shape), tuple(mask.shape))
    if value._value.sig.size < math.prod(dims):
        _check_enough(mask, math.prod(dims) // mask._value.sig.size, value._value.sig.size)
    return masked_put(x, mask, value)


def _check_enough(mask: Tensor, times: int, n: int) -> None:
    """Raise for a mask that is true more than `n` times."""

    def count(array: np.ndarray) -> int | None:
        found = int(np.count_nonzero(array)) * times
        return found if found > n else None

    guards.require(
        read(mask),
        "masked_scatter(mask)",
        f"at most {n} true elements, as value has",
        host=count,
        device=lambda: logic.any_outside(mask.sum(), 0, n // times + 1),
        got="more",
    )
