"""Rounding, and the parts of floating numbers: sign, fraction, mantissa and exponent."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import BOOL, COMPLEX, FLOAT, INT
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.broadcast import elementwise, same, sum_to
from bireme.ops.math.arithmetic import cast, multiply, power


def _whole(x):
    return jnp.issubdtype(x.dtype, jnp.integer)


def _flat(g):
    """The gradient of a step function."""
    return jnp.zeros_like(g)


@op(method=True, inplace=True, dtypes=FLOAT | INT, numpy=np.floor, torch=True, out=True)
def floor(x: Tensor) -> Tensor:
    """Round each element down, towards minus infinity.

    The gradient is 0.

    Args:
        x: Tensor of real numbers; integers stay as they are.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.floor(bireme.to_tensor([1.5, -1.5])).tolist()
        [1.0, -2.0]
    """
    return x if _whole(x) else jnp.floor(x)


floor.infer(same)
floor.grad(_flat, numpy=True)


@op(method=True, inplace=True, dtypes=FLOAT | INT, numpy=np.ceil)
def ceil(x: Tensor) -> Tensor:
    """Round each element up, towards plus infinity.

    The gradient is 0.

    Args:
        x: Tensor of real numbers; integers stay as they are.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.ceil(bireme.to_tensor([1.5, -1.5])).tolist()
        [2.0, -1.0]
    """
    return x if _whole(x) else jnp.ceil(x)


ceil.infer(same)
ceil.grad(_flat, numpy=True)


@op(method=True, inplace=True, dtypes=FLOAT | INT, numpy=np.trunc)
def trunc(input: Tensor) -> Tensor:
    """Round each element towards zero.

    The gradient is 0.

    Args:
        input: Tensor of real numbers; integers stay as they are.

    Returns:
        Tensor of the shape and dtype of ``input``.

    Examples:
        >>> bireme.trunc(bireme.to_tensor([1.5, -1.5])).tolist()
        [1.0, -1.0]
    """
    return input if _whole(input) else jnp.trunc(input)


trunc.infer(lambda input: input)
trunc.grad(_flat, numpy=True)


@op(method=True, inplace=True, dtypes=FLOAT | {dtypes.int32, dtypes.int64}, numpy=True)
def frac(x: Tensor) -> Tensor:
    """Fractional part of each element, with its sign: ``x - trunc(x)``.

    Args:
        x: Floating-point tensor, or integers of int32 or int64, whose fractional part is 0.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.frac(bireme.to_tensor([1.5, -1.5])).tolist()
        [0.5, -0.5]
    """
    return jnp.zeros_like(x) if _whole(x) else x - jnp.trunc(x)


frac.infer(same)
frac.grad(lambda g: g, numpy=True)


@op(method=True, inplace=True, dtypes=FLOAT | INT | COMPLEX, numpy=True, c_ops={"rint": "x"})
def round(x: Tensor, decimals: int = 0) -> Tensor:
    """Round each element to a number of decimals, halves to the even neighbour.

    The gradient is 0. The parts of complex numbers are rounded one by one.

    Args:
        x: Tensor of numbers; integers stay as they are.
        decimals: Number of decimals; a negative one rounds to tens, hundreds and so on. Default: 0.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.round(bireme.to_tensor([0.5, 1.5, 2.4])).tolist()
        [0.0, 2.0, 2.0]
    """
    if _whole(x):
        return x
    scale = 10.0 ** abs(decimals)
    if decimals == 0:
        return jnp.round(x)
    return jnp.round(x * scale) / scale if decimals > 0 else jnp.round(x / scale) * scale


@round.prepare
def _(arguments):
    if arguments["decimals"] is None:
        raise errors.bad("round(decimals)", "an integer", None, kind=errors.ArgumentTypeError)


round.infer(lambda x: x)
round.grad(_flat, numpy=True)


# ---------------------------------------------------------------- parts


@op(method=True, dtypes=FLOAT | INT, differentiable=False, numpy=np.signbit)
def signbit(x: Tensor) -> Tensor:
    """Whether the sign bit of each element is set: it is negative, or minus zero.

    Args:
        x: Tensor of real numbers.

    Returns:
        Bool tensor of the shape of ``x``.

    Examples:
        >>> bireme.signbit(bireme.to_tensor([1.0, -0.0])).tolist()
        [False, True]
    """
    return x < 0 if _whole(x) else jnp.signbit(x)


signbit.infer(lambda x: sig_of(x.shape, dtypes.bool_))


@op(method=True, inplace=True, promote="x y", dtypes=FLOAT | INT | BOOL, numpy=True)
def copysign(x: Tensor, y: Tensor | float) -> Tensor:
    """Absolute value of ``x`` with the sign of ``y``, elementwise with broadcasting.

    Args:
        x: Tensor of real numbers or bools, which give the absolute values.
        y: Tensor or number that gives the signs; that of minus zero is negative. It gets no gradient.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.copysign(bireme.to_tensor([1.0, -2.0]), bireme.to_tensor([-0.0, 3.0])).tolist()
        [-1.0, 2.0]
    """
    if jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.copysign(x, y)
    return jnp.broadcast_arrays(x, y)[0] if x.dtype == bool else jnp.where(y < 0, -jnp.abs(x), jnp.abs(x))


copysign.infer(elementwise("copysign"))


@copysign.prepare
def _(arguments):
    x, y = arguments["x"], arguments["y"]
    if isinstance(x, Tensor) and isinstance(y, (int, float)) and x.dtype.kind in "bi":
        arguments["y"] = int(y) if x.dtype.is_integer else bool(y)  # a number takes the dtype of the tensor


@copysign.grad(numpy=True)
def _(g, x, y, sigs):
    turned = jnp.where(jnp.signbit(y), -1, 1) * jnp.sign(x)
    return sum_to(jnp.where(x == 0, 0, g * turned.astype(g.dtype)), sigs[0]), jnp.zeros(sigs[1].shape, sigs[1].dtype.np)


@op(method=True, promote="x y", mix="floats", dtypes=frozenset((dtypes.float32, dtypes.float64)), differentiable=False)
def nextafter(x: Tensor, y: Tensor) -> Tensor:
    """The next number after ``x`` that the dtype can represent, in the direction of ``y``.

    Args:
        x: Tensor of float32 or float64.
        y: Tensor of float32 or float64, of a shape that broadcasts.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.nextafter(bireme.to_tensor([1.0]), bireme.to_tensor([2.0])).tolist()
        [1.0000001192092896]
    """
    return lax.nextafter(*jnp.broadcast_arrays(x, y))


nextafter.infer(elementwise("nextafter"))


def _parts(x):
    mantissa, exponent = np.frexp(x)
    return mantissa, np.where(np.isnan(x), x, np.where(np.isinf(x), 1, exponent))


@op(method=True, dtypes=FLOAT, numpy=_parts)
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mantissa and exponent of each element: ``x == mantissa * 2 ** exponent``.

    Args:
        x: Floating-point tensor.

    Returns:
        A pair of tensors of the shape and dtype of ``x``: mantissas with an absolute value in ``[0.5, 1)``, or 0, and
        exponents.

    Examples:
        >>> [part.tolist() for part in bireme.frexp(bireme.to_tensor([6.0]))]
        [[0.75], [3.0]]
    """
    mantissa, exponent = jnp.frexp(x)
    finite = jnp.isfinite(x)
    mantissa = jnp.where(finite, mantissa, x)
    return mantissa, jnp.where(finite, exponent.astype(x.dtype), jnp.where(jnp.isnan(x), x, 1))


frexp.infer(lambda x: (x, x))


@frexp.grad(numpy=True)
def _(g, out, x):
    # in two steps: the power alone may be out of range
    exponent = out[1]
    half = jnp.floor(exponent / 2)
    return g[0] * jnp.exp2(-half) * jnp.exp2(half - exponent)


@composite(method=True, inplace=True, writes=2, retype=True)
def ldexp(x: Tensor, y: Tensor) -> Tensor:
    """Multiply each element by a power of two: ``x * 2 ** y``.

    Args:
        x: Tensor of real numbers.
        y: Exponents, real numbers of a shape that broadcasts.

    Returns:
        Tensor of the broadcast shape, float64 if either operand is, otherwise float32.

    Examples:
        >>> bireme.ldexp(bireme.to_tensor([1.0, 3.0]), bireme.to_tensor([2, -1])).tolist()
        [4.0, 1.5]
    """
    for name, t in (("x", x), ("y", y)):
        if t.dtype.is_complex:
            raise errors.bad(f"ldexp({name})", "real numbers", t, kind=errors.ArgumentTypeError)
    wide = dtypes.float64 if dtypes.float64 in (x.dtype, y.dtype) else dtypes.float32
    return multiply(cast(x, wide), power(2.0, cast(y, wide)))
