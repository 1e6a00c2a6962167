"""Maximum and minimum of two tensors, and values clamped to a range."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, FLOAT, INT
from bireme.core.declare.op import Axis, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import broadcast_shape, elementwise, sum_to
from bireme.ops.math.arithmetic import cast


@op(method=True, promote="x y", mix="floats", dtypes=FLOAT | INT, torch=True, out=True, numpy=np.maximum,
    kernels="elementwise_max")  # fmt: skip
def maximum(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise maximum of two tensors with broadcasting; NaN if either is NaN.

    Where both are equal, each gets half of the gradient.

    Args:
        x: First operand, real numbers.
        y: Second operand, a tensor or a number.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.maximum(bireme.to_tensor([1, 5]), bireme.to_tensor([3, 4])).tolist()
        [3, 5]
    """
    return jnp.maximum(x, y)


maximum.infer(elementwise("maximum"))


@maximum.grad(numpy=True)
def _(g, x, y, sigs):
    # a tie is shared
    share = jnp.where(x == y, g / 2, g)
    return sum_to(jnp.where(x >= y, share, 0), sigs[0]), sum_to(jnp.where(y >= x, share, 0), sigs[1])


@op(method=True, promote="x y", mix="floats", dtypes=FLOAT | INT, torch=True, out=True, numpy=np.minimum,
    kernels="elementwise_min")  # fmt: skip
def minimum(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise minimum of two tensors with broadcasting; NaN if either is NaN.

    Where both are equal, each gets half of the gradient.

    Args:
        x: First operand, real numbers.
        y: Second operand, a tensor or a number.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.minimum(bireme.to_tensor([1, 5]), bireme.to_tensor([3, 4])).tolist()
        [1, 4]
    """
    return jnp.minimum(x, y)


minimum.infer(elementwise("minimum"))


@minimum.grad(numpy=True)
def _(g, x, y, sigs):
    share = jnp.where(x == y, g / 2, g)
    return sum_to(jnp.where(x <= y, share, 0), sigs[0]), sum_to(jnp.where(y <= x, share, 0), sigs[1])


def _missing_last(larger):
    """The gradient of `fmax` and `fmin`: that of `x` where it is chosen or `y` is NaN, a tie goes to `x`."""

    def rule(g, x, y, sigs):
        first = jnp.isnan(y) | (x >= y if larger else x <= y)
        return sum_to(jnp.where(first, g, 0), sigs[0]), sum_to(jnp.where(first, 0, g), sigs[1])

    return rule


@op(method=True, promote="x y", mix="floats", dtypes=FLOAT | INT, numpy=np.fmax)
def fmax(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise maximum of two tensors that ignores NaN: it is NaN only where both are.

    Where both are equal, ``x`` gets the gradient.

    Args:
        x: First operand, real numbers.
        y: Second operand, real numbers.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.fmax(bireme.to_tensor([1.0, float("nan")]), bireme.to_tensor([3.0, 4.0])).tolist()
        [3.0, 4.0]
    """
    return jnp.fmax(x, y)


@op(method=True, promote="x y", mix="floats", dtypes=FLOAT | INT, numpy=np.fmin)
def fmin(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise minimum of two tensors that ignores NaN: it is NaN only where both are.

    Where both are equal, ``x`` gets the gradient.

    Args:
        x: First operand, real numbers.
        y: Second operand, real numbers.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.fmin(bireme.to_tensor([1.0, float("nan")]), bireme.to_tensor([3.0, 4.0])).tolist()
        [1.0, 4.0]
    """
    return jnp.fmin(x, y)


fmax.infer(elementwise("fmax"))
fmin.infer(elementwise("fmin"))
fmax.grad(_missing_last(True), numpy=True)
fmin.grad(_missing_last(False), numpy=True)


@op(method=True, promote="x y", mix="same", dtypes=FLOAT | INT, numpy=np.heaviside)
def heaviside(x: Tensor, y: Tensor) -> Tensor:
    """Heaviside step function: 0 where ``x`` is negative, 1 where it is positive, ``y`` where it is zero.

    Args:
        x: Real numbers; NaN stays NaN.
        y: Values at zero, of the same dtype.

    Returns:
        Tensor of the broadcast shape and the dtype of ``x``.

    Examples:
        >>> bireme.heaviside(bireme.to_tensor([-1.0, 0.0, 2.0]), bireme.to_tensor([0.5])).tolist()
        [0.0, 0.5, 1.0]
    """
    return jnp.where(x == 0, y, jnp.where(jnp.isnan(x), x, (x > 0).astype(x.dtype)))


heaviside.infer(elementwise("heaviside"))


@heaviside.grad(numpy=True)
def _(g, x, sigs):
    return jnp.zeros(sigs[0].shape, sigs[0].dtype.np), sum_to(jnp.where(x == 0, g, 0), sigs[1])


@op(internal="clip", promote="x min max", dtypes=FLOAT | INT, numpy=True, elementwise=True)
def clip_number(x: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """Values clamped to ``[min, max]``; use ``clip``.

    Args:
        min: Lower bound, a number or a tensor that broadcasts with ``x``; ``None`` means none. Default: None.
        max: Upper bound, a number or a tensor that broadcasts with ``x``; ``None`` means none. Default: None.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.clip(bireme.to_tensor([-1.0, 0.5, 2.0]), 0.0, 1.0).tolist()
        [0.0, 0.5, 1.0]
    """
    if min is not None:
        x = jnp.maximum(x, min)
    return x if max is None else jnp.minimum(x, max)


@clip_number.infer
def _(x, min, max):
    return sig_of(broadcast_shape("clip", *[s.shape for s in (x, min, max) if s is not None]), x.dtype)


@clip_number.grad(numpy=True)
def _(g, x, min, max, sigs, needs):
    # an element at a bound passes its gradient; beyond one, the bound is the result
    raised = x if min is None else jnp.maximum(x, min)
    over = jnp.zeros(g.shape, bool) if max is None else raised > max
    under = jnp.zeros(g.shape, bool) if min is None else (x < min) & ~over
    grads = [sum_to(jnp.where(over | under | jnp.isnan(raised), 0, g), sigs[0]) if needs[0] else None]
    for bound, taken in ((min, under), (max, over)):
        if bound is not None:
            place = len(grads)
            grads.append(sum_to(jnp.where(taken, g, 0), sigs[place]) if needs[place] else None)
    return tuple(grads)


def _as_number(bound, x):
    """A bound of one element counts as a number: beside a float, integers become float32."""
    if not isinstance(bound, Tensor) or bound.size != 1:
        return bound
    bound = bound.reshape([])
    return cast(bound, dtypes.float32) if x.dtype.is_integer and bound.dtype.is_floating else bound


@composite(public="clip clamp", method=True, inplace=True, alias={"x": "input"}, out=True, plain=True)
def clip(x: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """Clamp each element to the range ``[min, max]``.

    Elements in the range, its ends included, pass the gradient; those beyond give it to a bound that is a tensor.

    Args:
        x: Tensor of real numbers.
        min: Lower bound, a number or a tensor that broadcasts with ``x``; ``None`` means none. Default: None.
        max: Upper bound, a number or a tensor that broadcasts with ``x``; ``None`` means none. Default: None.

    Returns:
        Tensor of the broadcast shape and the dtype of ``x``; integers with a float bound become float32.

    Raises:
        ValueError: If both bounds are numbers and ``max`` is less than ``min``.

    Examples:
        >>> bireme.clip(bireme.to_tensor([-1.0, 0.5, 2.0]), 0.0, 1.0).tolist()
        [0.0, 0.5, 1.0]
    """
    if isinstance(min, (int, float)) and isinstance(max, (int, float)) and not min <= max:
        raise errors.bad("clip(max)", f"a number of at least min = {min}", max, kind=errors.for_number(max))
    low, high = [_as_number(b, x) for b in (min, max)]
    return x.clone() if min is None and max is None else clip_number(x, low, high)


@op(method=True, inplace=True, writes=3, dtypes=FLOAT, of_the_past=True)
def nan_to_num(
    x: Tensor, nan: Tensor | float = 0.0, posinf: Tensor | float | None = None, neginf: Tensor | float | None = None
) -> Tensor:
    """Replace NaN and infinities by finite numbers.

    Args:
        x: Floating-point tensor.
        nan: Number in place of NaN. Default: 0.0.
        posinf: Number in place of infinity; ``None`` means the largest number of the dtype. Default: None.
        neginf: Number in place of minus infinity; ``None`` means the most negative number of the dtype. Default: None.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nan_to_num(bireme.to_tensor([float("nan"), float("inf")]), posinf=5.0).tolist()
        [0.0, 5.0]
    """
    limits = jnp.finfo(x.dtype)
    top = limits.max if posinf is None else posinf.astype(x.dtype)
    low = limits.min if neginf is None else neginf.astype(x.dtype)
    out = jnp.where(jnp.isnan(x), nan.astype(x.dtype), x)
    # one after the other: an infinity given for NaN is replaced as well, one given for itself stays
    return jnp.where(x == -jnp.inf, low, jnp.where(out == jnp.inf, top, out))


nan_to_num.infer(lambda x: x)


@nan_to_num.check
def _(nan, posinf, neginf):
    for name, sig in (("nan", nan), ("posinf", posinf), ("neginf", neginf)):
        if sig is not None and sig.ndim:
            raise errors.bad(
                f"nan_to_num({name})", "a number", described=f"shape {list(sig.shape)}", kind=errors.ArgumentTypeError
            )


@nan_to_num.grad(numpy=True)
def _(g, x, sigs):
    grads = [jnp.where(jnp.isfinite(x), g, 0)]
    return tuple(grads + [None] * (len(sigs) - 1))


@op(internal="renorm", amp="high", upcast=True)
def renorm_of(x: Tensor, max_norm: Tensor | float, p: float, axis: Axis) -> Tensor:
    """Slices along an axis scaled down to a norm; use `renorm`."""
    others = tuple([i for i in range(x.ndim) if i != axis])
    limit = max_norm.astype(x.dtype)
    size = jnp.abs(x)
    if p == np.inf:
        norm = jnp.max(size, axis=others, keepdims=True, initial=0)
    else:
        zero = size == 0
        total = jnp.sum(jnp.where(zero, 0, jnp.where(zero, 1, size) ** p), axis=others, keepdims=True)
        norm = jnp.where(total == 0, 0, jnp.where(total == 0, 1, total) ** (1 / p))
    over = norm > limit
    return x * jnp.where(over, limit / jnp.where(over, norm + 1e-7, 1), 1)


renorm_of.infer(lambda x: x)


@composite(method=True, inplace=True, name_arg=False)
def renorm(x: Tensor, p: float, axis: Axis, max_norm: float) -> Tensor:
    """Scale down each slice along an axis to a p-norm of at most ``max_norm``.

    Slices with a smaller norm stay as they are.

    Args:
        x: Floating-point or complex tensor with at least one axis.
        p: Exponent of the norm, a positive number or infinity.
        axis: Axis along which the slices are taken; each norm is over all other axes.
        max_norm: Largest norm a slice may have, non-negative.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.renorm(bireme.to_tensor([[3.0, 4.0], [0.3, 0.4]]), 2.0, 0, 1.0).round(3).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.30000001192092896, 0.4000000059604645]]
    """
    if x.dtype not in FLOAT | COMPLEX:
        raise errors.bad("renorm(x)", "a floating-point or complex tensor", x, kind=errors.ArgumentTypeError)
    if x.ndim == 0:
        raise errors.bad("renorm(x)", "at least 1 dimension", x)
    if not p > 0:
        raise errors.bad("renorm(p)", "a positive number", p, kind=errors.for_number(p))
    if not max_norm >= 0:
        raise errors.bad("renorm(max_norm)", "a non-negative number", max_norm)
    return renorm_of(x, max_norm, p, axis)
