"""Functions of angles, and their hyperbolic relatives."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base.dtype import COMPLEX, FLOAT
from bireme.core.declare.op import Tensor, composite, op
from bireme.ops._shared import vectorized_math
from bireme.ops._shared.broadcast import conj_of, elementwise, same, sum_to
from bireme.ops.math.arithmetic import cast


def _sin_cpu(x):
    return vectorized_math.sin(x) if x.dtype == jnp.float32 else jnp.sin(x)


def _cos_cpu(x):
    return vectorized_math.cos(x) if x.dtype == jnp.float32 else jnp.cos(x)


@op(method=True, inplace=True, floats=True, numpy=np.sin, torch=True, out=True)
def sin(x: Tensor) -> Tensor:
    """Elementwise sine.

    Args:
        x: Angles in radians; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.sin(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return jnp.sin(x)


sin.infer(same)
sin.grad(lambda g, x: g * conj_of(jnp.cos(x)), numpy=True, operators=True)
sin.grad(lambda g, x: g * conj_of(_cos_cpu(x)), on="cpu")


@op(method=True, inplace=True, floats=True, numpy=np.cos, torch=True, out=True)
def cos(x: Tensor) -> Tensor:
    """Elementwise cosine.

    Args:
        x: Angles in radians; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.cos(bireme.to_tensor([0.0])).tolist()
        [1.0]
    """
    return jnp.cos(x)


cos.infer(same)
cos.grad(lambda g, x: -g * conj_of(jnp.sin(x)), numpy=True, operators=True)
cos.grad(lambda g, x: -g * conj_of(_sin_cpu(x)), on="cpu")


@op(method=True, inplace=True, floats=True, numpy=np.tan, amp="high")
def tan(x: Tensor) -> Tensor:
    """Elementwise tangent.

    Args:
        x: Angles in radians; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.tan(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return jnp.tan(x)


tan.infer(same)
# of `x` and not of `out`, so that tan_ may follow tan_
tan.grad(lambda g, x: g * conj_of(1 + jnp.square(jnp.tan(x))), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.arcsin, amp="high")
def asin(x: Tensor) -> Tensor:
    """Elementwise inverse sine; NaN for real numbers outside of ``[-1, 1]``.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``, of angles in ``[-pi/2, pi/2]`` for real numbers.

    Examples:
        >>> bireme.asin(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return jnp.arcsin(x)


asin.infer(same)
asin.grad(lambda g, x: g / conj_of(jnp.sqrt(1 - x * x)), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.arccos, amp="high")
def acos(x: Tensor) -> Tensor:
    """Elementwise inverse cosine; NaN for real numbers outside of ``[-1, 1]``.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``, of angles in ``[0, pi]`` for real numbers.

    Examples:
        >>> bireme.acos(bireme.to_tensor([1.0])).tolist()
        [0.0]
    """
    return jnp.arccos(x)


acos.infer(same)
acos.grad(lambda g, x: -g / conj_of(jnp.sqrt(1 - x * x)), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.arctan)
def atan(x: Tensor) -> Tensor:
    """Elementwise inverse tangent.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``, of angles in ``[-pi/2, pi/2]`` for real numbers.

    Examples:
        >>> bireme.atan(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return jnp.arctan(x)


atan.infer(same)
atan.grad(lambda g, x: g / conj_of(1 + x * x), numpy=True)


@op(method=True, promote="x y", mix="floats", dtypes=FLOAT, numpy=np.arctan2)
def atan2(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise angle of the point with ordinate ``x`` and abscissa ``y``: ``atan(x / y)`` in the right quadrant.

    Args:
        x: Ordinates, real numbers; two tensors of the same integer dtype become float64.
        y: Abscissas, of a shape that broadcasts.

    Returns:
        Tensor of the broadcast shape with angles in ``[-pi, pi]``.

    Examples:
        >>> bireme.atan2(bireme.to_tensor([0.0]), bireme.to_tensor([1.0])).tolist()
        [0.0]
    """
    return jnp.arctan2(x, y)


atan2.infer(elementwise("atan2"))


@atan2.prepare
def _(arguments):
    given = [arguments["x"], arguments["y"]]
    if all(isinstance(t, Tensor) and t.dtype.is_integer for t in given) and given[0].dtype is given[1].dtype:
        arguments["x"], arguments["y"] = [cast(t, dtypes.float64) for t in given]


@atan2.grad(numpy=True)
def _(g, x, y, sigs):
    d = g / (x * x + y * y)
    return sum_to(d * y, sigs[0]), sum_to(-d * x, sigs[1])


@op(method=True, inplace=True, writes=3, promote="x y", floats=True, dtypes=FLOAT, numpy=np.hypot)
def hypot(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise hypotenuse ``sqrt(x * x + y * y)``, computed without overflow.

    Args:
        x: First leg, real numbers; integers and bools become float32.
        y: Second leg, of a shape that broadcasts.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.hypot(bireme.to_tensor([3.0]), bireme.to_tensor([4.0])).tolist()
        [5.0]
    """
    return jnp.hypot(x, y)


hypot.infer(elementwise("hypot"))


@hypot.grad(numpy=True)
def _(g, out, x, y, sigs):
    d = g / jnp.where(out == 0, 1, out)
    return sum_to(d * x, sigs[0]), sum_to(d * y, sigs[1])


@op(method=True, inplace=True, floats=True, numpy=np.sinh, amp="high")
def sinh(x: Tensor) -> Tensor:
    """Elementwise hyperbolic sine.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.sinh(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return jnp.sinh(x)


sinh.infer(same)
sinh.grad(lambda g, x: g * conj_of(jnp.cosh(x)), numpy=True, operators=True)


@op(method=True, inplace=True, floats=True, numpy=np.cosh, amp="high")
def cosh(x: Tensor) -> Tensor:
    """Elementwise hyperbolic cosine.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.cosh(bireme.to_tensor([0.0])).tolist()
        [1.0]
    """
    return jnp.cosh(x)


cosh.infer(same)
cosh.grad(lambda g, x: g * conj_of(jnp.sinh(x)), numpy=True, operators=True)


@op(method=True, inplace=True, floats=True, numpy=np.tanh)
def tanh(x: Tensor) -> Tensor:
    """Elementwise hyperbolic tangent.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.tanh(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return jnp.tanh(x)


tanh.infer(same)
# reads `out` alone: the tape keeps no operand, and nothing is computed twice across a cut
tanh.grad(lambda g, out: g * conj_of(1 - out * out), numpy=True, operators=True)


@op(method=True, inplace=True, floats=True, numpy=np.arcsinh)
def asinh(x: Tensor) -> Tensor:
    """Elementwise inverse hyperbolic sine.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.asinh(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return jnp.arcsinh(x)


asinh.infer(same)
asinh.grad(lambda g, x: g / conj_of(jnp.sqrt(x * x + 1)), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.arccosh)
def acosh(x: Tensor) -> Tensor:
    """Elementwise inverse hyperbolic cosine; NaN for real numbers below 1.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.acosh(bireme.to_tensor([1.0])).tolist()
        [0.0]
    """
    return jnp.arccosh(x)


acosh.infer(same)
acosh.grad(lambda g, x: g / conj_of(jnp.sqrt(x - 1) * jnp.sqrt(x + 1)), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.arctanh, amp="high")
def atanh(x: Tensor) -> Tensor:
    """Elementwise inverse hyperbolic tangent; NaN for real numbers outside of ``[-1, 1]``.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.atanh(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return jnp.arctanh(x)


atanh.infer(same)
atanh.grad(lambda g, x: g / conj_of(1 - x * x), numpy=True)


@composite(method=True)
def stanh(x: Tensor, scale_a: float = 0.67, scale_b: float = 1.7159) -> Tensor:
    """Elementwise scaled hyperbolic tangent ``scale_b * tanh(scale_a * x)``.

    Args:
        x: Input tensor; integers and bools become float32.
        scale_a: Factor inside of the hyperbolic tangent. Default: 0.67.
        scale_b: Factor of the result. Default: 1.7159.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.stanh(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    x = cast(x, dtypes.float32) if x.dtype.kind in "bi" else x
    return tanh(x * scale_a) * scale_b


@composite(method=True)
def deg2rad(x: Tensor) -> Tensor:
    """Convert angles from degrees to radians.

    Args:
        x: Angles in degrees; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.deg2rad(bireme.to_tensor([180.0])).tolist()
        [3.1415927410125732]
    """
    return (cast(x, dtypes.float32) if x.dtype.kind in "bi" else x) * (math.pi / 180)


@composite(method=True)
def rad2deg(x: Tensor) -> Tensor:
    """Convert angles from radians to degrees.

    Args:
        x: Angles in radians; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.rad2deg(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return (cast(x, dtypes.float32) if x.dtype.kind in "bi" else x) * (180 / math.pi)


def _nested(square, factors):
    """1 - s/a (1 - s/b (1 - s/c ...)): an alternating series from its inside."""
    series = 1 - square / factors[-1]
    for a in reversed(factors[:-1]):
        series = 1 - square / a * series
    return series


@op(method=True, inplace=True, writes=4, dtypes=FLOAT | COMPLEX, of_the_past=True, numpy=np.sinc)
def sinc(x: Tensor) -> Tensor:
    """Elementwise normalized sinc function ``sin(pi * x) / (pi * x)``, which is 1 at 0.

    Args:
        x: Floating-point or complex tensor.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.sinc(bireme.to_tensor([0.0, 0.5])).tolist()
        [1.0, 0.6366197466850281]
    """
    angle = x * math.pi
    safe = jnp.where(angle == 0, 1, angle)
    return jnp.where(angle == 0, 1, jnp.sin(safe) / safe)


sinc.infer(same)


@sinc.grad(numpy=True)
def _(g, x):
    # near zero as a series: the quotient would be the difference of almost equal numbers
    angle = x * math.pi
    near = jnp.abs(angle) < 0.5
    t = jnp.where(near, angle, 0)
    slope = -t / 3 * _nested(t * t, [2 * k * (2 * k + 3) for k in range(1, 7)])
    safe = jnp.where(near, 1, angle)
    return g * conj_of(math.pi * jnp.where(near, slope, (jnp.cos(safe) - jnp.sin(safe) / safe) / safe))


for _op in (sin, cos, tan, asin, acos, atan, atan2):
    _op.on("cpu")(vectorized_math.single(getattr(vectorized_math, _op.name), _op.body))
