"""Elementwise arithmetic and functions of one or two tensors."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy import special

from bireme.core import dtype as dtypes
from bireme.core import errors, flush, registry
from bireme.core.dtype import COMPLEX, FLOAT, INT
from bireme.core.graph import sig_of
from bireme.core.op import Const, DTypeArg, Extra, Tensor, composite, op
from bireme.core.tensor import convert, read
from bireme.ops.broadcast import conj_of, elementwise, same, sum_to

NUMBER = FLOAT | COMPLEX | INT


# ---------------------------------------------------------------- types


@op(method="cast astype", name_arg=False, numpy=convert)
def cast(x: Tensor, dtype: DTypeArg) -> Tensor:
    """The same numbers in another type; floats become integers towards zero.

    >>> bireme.cast(bireme.to_tensor([1.7, -1.7]), "int32").tolist()
    [1, -1]
    """
    if x.dtype == dtype.np:
        return x
    if jnp.issubdtype(x.dtype, jnp.complexfloating) and dtype.kind not in "cb":
        x = jnp.real(x)
    if dtype.kind == "i" and dtype.itemsize < 4 and jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.int32)  # Paddle wraps (300 to uint8 is 44) where XLA's own conversion would clamp
    return x.astype(dtype.np)


@cast.prepare
def _(arguments):
    if arguments["dtype"] is None:
        raise errors.bad("cast(dtype)", "a data type", None, kind=TypeError)


@cast.infer
def _(x, dtype):
    return sig_of(x.shape, dtype)


@cast.grad(numpy=lambda g, sigs: convert(g, sigs[0].dtype))
def _(g, sigs):
    dtype = sigs[0].dtype
    return (jnp.real(g) if jnp.iscomplexobj(g) and dtype.kind != "c" else g).astype(dtype.np)


# ---------------------------------------------------------------- two operands


@op(method=True, inplace=True, promote="x y", passes="x y", numpy=np.add, torch=True, out=True)
def add(x: Tensor, y: Tensor | float, *, alpha: Extra = 1) -> Tensor:
    """Elementwise sum with broadcasting; `y` is multiplied by `alpha` first.

    >>> bireme.add(bireme.to_tensor([1, 2]), bireme.to_tensor([10])).tolist()
    [11, 12]
    """
    return jnp.add(x, y)


def _scaled(arguments):
    alpha = arguments.pop("alpha")
    if alpha != 1:
        arguments["y"] = arguments["y"] * alpha


add.prepare(_scaled)
add.infer(elementwise("add"))


@add.grad(numpy=True)
def _(g, sigs):
    return sum_to(g, sigs[0]), sum_to(g, sigs[1])


@op(method=True, inplace=True, promote="x y", passes="x", dtypes=NUMBER, numpy=np.subtract)
def subtract(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Elementwise difference with broadcasting.

    >>> bireme.subtract(bireme.to_tensor([5, 6]), bireme.to_tensor([1])).tolist()
    [4, 5]
    """
    return jnp.subtract(x, y)


subtract.infer(elementwise("subtract"))


@subtract.grad(numpy=True)
def _(g, sigs):
    return sum_to(g, sigs[0]), sum_to(-g, sigs[1])


@op(method=True, inplace=True, promote="x y", numpy=np.multiply, torch=True)
def multiply(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise product with broadcasting.

    >>> bireme.multiply(bireme.to_tensor([1, 2]), bireme.to_tensor([10])).tolist()
    [10, 20]
    """
    return jnp.multiply(x, y)


@composite(method=True, torch=True, out=True)
def mul(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise product with broadcasting: `multiply` under its other name.

    >>> bireme.mul(bireme.to_tensor([1, 2]), bireme.to_tensor([10])).tolist()
    [10, 20]
    """
    return multiply(x, y)


multiply.infer(elementwise("multiply"))


@multiply.grad(numpy=True)
def _(g, x, y, sigs, needs):
    dx = sum_to(g * conj_of(y), sigs[0]) if needs[0] else None
    return dx, sum_to(g * conj_of(x), sigs[1]) if needs[1] else None


@op(promote="x y", floats=True, numpy=np.divide)
def quotient(x: Tensor | float, y: Tensor | float) -> Tensor:
    """`x / y`; use `divide`.

    >>> (bireme.to_tensor([1.0, 3.0]) / 2).tolist()
    [0.5, 1.5]
    """
    return jnp.divide(x, y)


quotient.infer(elementwise("divide"))


@quotient.grad(numpy=True)
def _(g, out, y, sigs):
    d = g / conj_of(y)
    return sum_to(d, sigs[0]), sum_to(-d * conj_of(out), sigs[1])


@op(method=True, inplace=True, promote="x y", mix="any", dtypes=FLOAT | INT)
def floor_divide(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Elementwise quotient rounded towards minus infinity, as Python's `//`.

    >>> bireme.floor_divide(bireme.to_tensor([-7]), bireme.to_tensor([2])).tolist()
    [-4]
    """
    return jnp.floor_divide(x, y)


floor_divide.infer(elementwise("floor_divide"))


@floor_divide.grad(numpy=True)
def _(g, sigs):
    return jnp.zeros(sigs[0].shape, sigs[0].dtype.np), jnp.zeros(sigs[1].shape, sigs[1].dtype.np)


@op(method="remainder mod floor_mod", inplace=True, promote="x y", dtypes=FLOAT | INT)
def remainder(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Elementwise remainder with the sign of the divisor, as Python's `%`.

    >>> bireme.remainder(bireme.to_tensor([-7]), bireme.to_tensor([2])).tolist()
    [1]
    """
    return jnp.remainder(x, y)


remainder.infer(elementwise("remainder"))


@remainder.grad
def _(g, x, y, sigs):
    return sum_to(g, sigs[0]), sum_to(-g * jnp.floor_divide(x, y), sigs[1])


def _no_zero_divisor(name: str):
    """Integers cannot be divided by zero: what the host knows is looked at now, anything else by a flag of the program."""

    def prepare(arguments):
        x, y = arguments["x"], arguments["y"]
        kinds = [v.dtype if isinstance(v, Tensor) else dtypes.of_number(v) for v in (x, y)]
        if isinstance(y, float) or not all(k.kind in "bi" for k in kinds):
            return
        value = read(y) if isinstance(y, Tensor) else None
        if value is not None and (value.array is None or not value.device.is_cpu):
            if value.sig.size and not flush.local.segment.symbolic:
                zero = registry.find("any")(registry.find("equal")(y, 0))
                flush.guard(zero._value, f"{name}(y): expected divisors other than 0 for integers, got 0", ZeroDivisionError)
            return
        host = np.asarray(y if value is None else value.array)
        if host.size and not host.all():
            raise errors.bad(f"{name}(y)", "divisors other than 0 for integers", 0, kind=ZeroDivisionError)

    return prepare


floor_divide.prepare(_no_zero_divisor("floor_divide"), values=True)
remainder.prepare(_no_zero_divisor("remainder"), values=True)


@composite(method=True, inplace=True, promote="x y", floats=True, torch=True, out=True)
def divide(x: Tensor | float, y: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    """Elementwise quotient with broadcasting; integers become float32, unless `rounding_mode` is "floor" or "trunc".

    >>> bireme.divide(bireme.to_tensor([1.0, 3.0]), bireme.to_tensor([2.0])).tolist()
    [0.5, 1.5]
    """
    if rounding_mode is None:
        return quotient(x, y)
    if rounding_mode == "floor":
        return floor_divide(x, y)
    if rounding_mode != "trunc":
        raise errors.bad("divide(rounding_mode)", "None, 'floor' or 'trunc'", rounding_mode)
    down = floor_divide(x, y)
    # rounded down where it should have been towards zero: where the signs differ and something is left over
    return down + ((down * y != x) & (down < 0)).astype(down.dtype)


@op(promote="x y", dtypes=NUMBER)
def power(x: Tensor | float, y: Tensor | float) -> Tensor:
    """`x` to the power of a tensor `y`; use `pow`.

    >>> bireme.pow(bireme.to_tensor([2.0]), bireme.to_tensor([3.0])).tolist()
    [8.0]
    """
    if not jnp.issubdtype(x.dtype, jnp.integer):
        return jnp.power(x, y)
    # an integer to a negative power is a fraction, so 0, unless it is 1 or -1
    out = jnp.power(x, jnp.maximum(y, 0))
    one = jnp.where(x == 1, 1, jnp.where(x == -1, 1 - 2 * (y & 1), 0)).astype(x.dtype)
    return jnp.where(y < 0, one, out)


power.infer(elementwise("power"))


@power.grad
def _(g, out, x, y, sigs):
    safe = jnp.where(x == 0, 1, x)
    dx = g * conj_of(y * jnp.power(x, y - 1))
    dx = jnp.where(y == 0, 0, dx)
    dy = g * conj_of(jnp.where(x == 0, 0, out * jnp.log(safe)))
    return sum_to(dx, sigs[0]), sum_to(dy, sigs[1])


@op()
def power_const(x: Tensor, y: Const) -> Tensor:
    """`x` to a power that is part of the program; use `pow`.

    >>> bireme.pow(bireme.to_tensor([3.0]), 2).tolist()
    [9.0]
    """
    if y == 0.5:
        return jnp.sqrt(x)
    if y == -0.5:
        return lax.rsqrt(x)
    return lax.integer_pow(x, int(y))


power_const.infer(lambda x: x)


@composite(method=True, inplace=True, alias={"x": "input", "y": "exponent"}, out=True)
def pow(x: Tensor, y: Tensor | float) -> Tensor:
    """`x` to the power `y`, elementwise.

    >>> bireme.pow(bireme.to_tensor([1.0, 2.0, 3.0]), 2).tolist()
    [1.0, 4.0, 9.0]
    """
    if isinstance(y, float) and x.dtype.is_integer:
        y = int(y)  # as in Paddle: the type stays, so the exponent takes it (`x ** 2.5` is float32)
    # squares, cubes and roots stay constants: with the exponent as an input they would be 30 times slower
    if isinstance(y, (int, float)) and not isinstance(y, bool) and x.dtype.is_inexact:
        if y in (-2, -1, 2, 3, 4) or (y in (0.5, -0.5) and not x.dtype.is_complex):
            return power_const(x, int(y) if y == int(y) else float(y))
    return power(x, y)


@op(method=True, promote="x y", mix="floats", dtypes=FLOAT | INT, torch=True, out=True)
def maximum(x: Tensor, y: Tensor | float) -> Tensor:
    """The larger of two, elementwise; NaN wins.

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


@op(method=True, promote="x y", mix="floats", dtypes=FLOAT | INT, torch=True, out=True)
def minimum(x: Tensor, y: Tensor | float) -> Tensor:
    """The smaller of two, elementwise; NaN wins.

    >>> bireme.minimum(bireme.to_tensor([1, 5]), bireme.to_tensor([3, 4])).tolist()
    [1, 4]
    """
    return jnp.minimum(x, y)


minimum.infer(elementwise("minimum"))


@minimum.grad(numpy=True)
def _(g, x, y, sigs):
    share = jnp.where(x == y, g / 2, g)
    return sum_to(jnp.where(x <= y, share, 0), sigs[0]), sum_to(jnp.where(y <= x, share, 0), sigs[1])


# ---------------------------------------------------------------- one operand


@op(method=True, inplace=True, dtypes=NUMBER, numpy=np.negative)
def neg(x: Tensor) -> Tensor:
    """The negative.

    >>> bireme.neg(bireme.to_tensor([1, -2])).tolist()
    [-1, 2]
    """
    return jnp.negative(x)


neg.infer(same)
neg.grad(lambda g: -g, numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.exp)
def exp(x: Tensor) -> Tensor:
    """e to the power `x`.

    >>> bireme.exp(bireme.to_tensor([0.0])).tolist()
    [1.0]
    """
    return jnp.exp(x)


exp.infer(same)
exp.grad(lambda g, out: g * conj_of(out), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.log, torch=True, out=True)
def log(x: Tensor) -> Tensor:
    """Natural logarithm.

    >>> bireme.log(bireme.to_tensor([1.0])).tolist()
    [0.0]
    """
    return jnp.log(x)


log.infer(same)
log.grad(lambda g, x: g / conj_of(x), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.log1p)
def log1p(x: Tensor) -> Tensor:
    """log(1 + x), exact near zero.

    >>> bireme.log1p(bireme.to_tensor([0.0])).tolist()
    [0.0]
    """
    return jnp.log1p(x)


log1p.infer(same)


@op(method=True, inplace=True, floats=True, numpy=np.expm1)
def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, exact near zero.

    >>> bireme.expm1(bireme.to_tensor([0.0])).tolist()
    [0.0]
    """
    return jnp.expm1(x)


expm1.infer(same)


@op(method=True, inplace=True, floats=True, numpy=np.sqrt, torch=True, out=True)
def sqrt(x: Tensor) -> Tensor:
    """Square root.

    >>> bireme.sqrt(bireme.to_tensor([4.0])).tolist()
    [2.0]
    """
    return jnp.sqrt(x)


sqrt.infer(same)
sqrt.grad(lambda g, out: g * conj_of(0.5 / out), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=lambda x: 1 / np.sqrt(x), torch=True, out=True)
def rsqrt(x: Tensor) -> Tensor:
    """One over the square root.

    >>> bireme.rsqrt(bireme.to_tensor([4.0])).tolist()
    [0.5]
    """
    return lax.rsqrt(x)


rsqrt.infer(same)
rsqrt.grad(lambda g, out: g * conj_of(-0.5 * out * out * out), numpy=True)


@op(method=True, inplace=True, dtypes=NUMBER, numpy=np.square)
def square(x: Tensor) -> Tensor:
    """`x` times itself.

    >>> bireme.square(bireme.to_tensor([3.0])).tolist()
    [9.0]
    """
    return jnp.square(x)


square.infer(same)
square.grad(lambda g, x: g * conj_of(2 * x), numpy=True)


@op(method=True, inplace=True, floats=True)
def reciprocal(x: Tensor) -> Tensor:
    """One over `x`.

    >>> bireme.reciprocal(bireme.to_tensor([4.0])).tolist()
    [0.25]
    """
    return 1 / x


reciprocal.infer(same)
reciprocal.grad(lambda g, out: -g * conj_of(out * out), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.sin, torch=True, out=True)
def sin(x: Tensor) -> Tensor:
    """Sine.

    >>> bireme.sin(bireme.to_tensor([0.0])).tolist()
    [0.0]
    """
    return jnp.sin(x)


sin.infer(same)
sin.grad(lambda g, x: g * conj_of(jnp.cos(x)), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.cos, torch=True, out=True)
def cos(x: Tensor) -> Tensor:
    """Cosine.

    >>> bireme.cos(bireme.to_tensor([0.0])).tolist()
    [1.0]
    """
    return jnp.cos(x)


cos.infer(same)
cos.grad(lambda g, x: -g * conj_of(jnp.sin(x)), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.tanh)
def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent.

    >>> bireme.tanh(bireme.to_tensor([0.0])).tolist()
    [0.0]
    """
    return jnp.tanh(x)


tanh.infer(same)
# reads `out` alone: the tape keeps no operand, and nothing is computed twice across a cut
tanh.grad(lambda g, out: g * conj_of(1 - out * out), numpy=True)


@op(method=True, inplace=True, floats=True, torch=True, out=True)
def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)).

    >>> bireme.nn.functional.sigmoid(bireme.to_tensor([0.0])).tolist()
    [0.5]
    """
    return 1 / (1 + jnp.exp(-x)) if jnp.iscomplexobj(x) else lax.logistic(x)


sigmoid.infer(same)
sigmoid.grad(lambda g, out: g * conj_of(out * (1 - out)), numpy=True)


@op(method=True, inplace=True, floats=True, dtypes=FLOAT, numpy=special.erf)
def erf(x: Tensor) -> Tensor:
    """The error function.

    >>> bireme.erf(bireme.to_tensor([0.0])).tolist()
    [0.0]
    """
    return lax.erf(x)


erf.infer(same)
erf.grad(lambda g, x: g * (1.1283791670955126 * jnp.exp(-x * x)), numpy=True)


@op(method=True, inplace=True, floats=True, dtypes=FLOAT, numpy=special.erfinv)
def erfinv(x: Tensor) -> Tensor:
    """Inverse of the error function, for `x` in (-1, 1); integers become float32.

    >>> bireme.erfinv(bireme.to_tensor([0.0])).tolist()
    [0.0]
    """
    return lax.erf_inv(x)


erfinv.infer(same)
erfinv.grad(lambda g, out: g * (0.886226925452758 * jnp.exp(out * out)), numpy=True)


@op(method="abs __abs__", inplace=True)
def abs(x: Tensor) -> Tensor:
    """Absolute value; the modulus of complex numbers.

    >>> bireme.abs(bireme.to_tensor([-1.5, 2.0])).tolist()
    [1.5, 2.0]
    """
    return jnp.abs(x)


abs.infer(lambda x: sig_of(x.shape, dtypes.real_of(x.dtype)))


@abs.grad(numpy=True)
def _(g, x):
    if jnp.iscomplexobj(x):
        size = jnp.abs(x)
        return g * jnp.where(size == 0, 0, x / jnp.where(size == 0, 1, size))
    return g * jnp.sign(x)


@op(method=True, inplace=True, dtypes=FLOAT | INT, numpy=np.floor, torch=True, out=True)
def floor(x: Tensor) -> Tensor:
    """The largest integer that is not larger.

    >>> bireme.floor(bireme.to_tensor([1.5, -1.5])).tolist()
    [1.0, -2.0]
    """
    return x if jnp.issubdtype(x.dtype, jnp.integer) else jnp.floor(x)


floor.infer(same)
floor.grad(lambda g: jnp.zeros_like(g), numpy=True)


@op(method=True, dtypes=NUMBER, torch=True, out=True)
def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; complex numbers divided by their modulus.

    >>> bireme.sign(bireme.to_tensor([-2.0, 0.0, 3.0])).tolist()
    [-1.0, 0.0, 1.0]
    """
    return jnp.sign(x)


sign.infer(same)


@sign.grad
def _(g, x):
    if not jnp.iscomplexobj(x):
        return jnp.zeros_like(g)
    size = jnp.abs(x)
    safe = jnp.where(size == 0, 1, size)
    unit = x / safe  # only what turns x changes its direction
    return jnp.where(size == 0, 0, (g - unit * jnp.real(conj_of(unit) * g)) / safe)


@op(method=True, promote="x min max", dtypes=FLOAT | INT)
def clip_number(x: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """Values limited to [min, max]; use `clip`.

    >>> bireme.clip(bireme.to_tensor([-1.0, 0.5, 2.0]), 0.0, 1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    if min is not None:
        x = jnp.maximum(x, min)
    return x if max is None else jnp.minimum(x, max)


@clip_number.grad
def _(g, x, min, max, sigs):
    # both bounds pass the gradient
    inside = jnp.ones(x.shape, bool)
    if min is not None:
        inside = inside & (x >= min)
    if max is not None:
        inside = inside & (x <= max)
    grads = [sum_to(jnp.where(inside, g, 0), sigs[0])]
    rest = iter(sigs[1:])
    for bound in (min, max):
        if bound is not None:
            sig = next(rest)
            grads.append(None if sig is None else jnp.zeros(sig.shape, sig.dtype.np))
    return tuple(grads)


@composite(method=True, inplace=True, alias={"x": "input"}, out=True)
def clip(x: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """Values limited to [min, max].

    >>> bireme.clip(bireme.to_tensor([-1.0, 0.5, 2.0]), 0.0, 1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    if isinstance(min, (int, float)) and isinstance(max, (int, float)) and not min <= max:
        raise errors.bad("clip(max)", f"a number not below min, {min}", max)
    # a bound of one element counts as a number
    low, high = [b.reshape([]) if isinstance(b, Tensor) and b.size == 1 else b for b in (min, max)]
    return x.clone() if min is None and max is None else clip_number(x, low, high)


@op(method=True, inplace=True, promote="x y weight", floats=True)
def lerp(x: Tensor, y: Tensor, weight: Tensor | float) -> Tensor:
    """`x + weight * (y - x)`.

    >>> bireme.lerp(bireme.to_tensor([0.0]), bireme.to_tensor([10.0]), 0.25).tolist()
    [2.5]
    """
    return x + weight * (y - x)


@op(method=True, inplace=True)
def scale(x: Tensor, scale: Tensor | float = 1.0, bias: Tensor | float = 0.0, bias_after_scale: bool = True, act: Extra = None) -> Tensor:
    """`x * scale + bias`, or `(x + bias) * scale`.

    >>> bireme.scale(bireme.to_tensor([1.0, 2.0]), 2.0, 1.0).tolist()
    [3.0, 5.0]
    """
    factor, shift = scale.astype(x.dtype), bias.astype(x.dtype)
    return x * factor + shift if bias_after_scale else (x + shift) * factor


scale.infer(lambda x: x)


@scale.prepare
def _(arguments):
    if arguments.pop("act") is not None:
        raise errors.bad("scale(act)", "None", "an activation", hint="call it on the result")


# ---------------------------------------------------------------- complex numbers


@op(method=True)
def conj(x: Tensor) -> Tensor:
    """The complex conjugate.

    >>> bireme.conj(bireme.to_tensor([1 + 2j])).tolist()
    [(1-2j)]
    """
    return jnp.conj(x)


conj.infer(same)
conj.grad(lambda g: jnp.conj(g), numpy=True)


@op(method=True)
def real(x: Tensor) -> Tensor:
    """The real part.

    >>> bireme.real(bireme.to_tensor([1 + 2j])).tolist()
    [1.0]
    """
    return jnp.real(x)


real.infer(lambda x: sig_of(x.shape, dtypes.real_of(x.dtype)))
real.grad(lambda g, sigs: g.astype(sigs[0].dtype.np), numpy=True)


@op(method=True)
def imag(x: Tensor) -> Tensor:
    """The imaginary part.

    >>> bireme.imag(bireme.to_tensor([1 + 2j])).tolist()
    [2.0]
    """
    return jnp.imag(x)


imag.infer(lambda x: sig_of(x.shape, dtypes.real_of(x.dtype)))
imag.grad(lambda g, sigs: (g * 1j).astype(sigs[0].dtype.np), numpy=True)


@op(promote="real imag", out=True)
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers from their parts.

    >>> bireme.complex(bireme.to_tensor([1.0]), bireme.to_tensor([2.0])).tolist()
    [(1+2j)]
    """
    return lax.complex(*jnp.broadcast_arrays(real, imag))


@complex.grad(numpy=True)
def _(g, sigs):
    return sum_to(jnp.real(g), sigs[0]), sum_to(jnp.imag(g), sigs[1])
