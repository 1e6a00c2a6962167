"""Types and arithmetic: casts, sums, products, quotients, powers, divisors."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, registry
from bireme.core.base.dtype import COMPLEX, FLOAT, INT
from bireme.core.base.host_arrays import convert
from bireme.core.declare.op import Const, DTypeArg, Extra, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import rows
from bireme.core.record import guards
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.inplace import assign_inplace
from bireme.core.tensor.tensor import read
from bireme.ops._shared import vectorized_math
from bireme.ops._shared.broadcast import conj_of, elementwise, sum_to

NUMBER = FLOAT | COMPLEX | INT


# ---------------------------------------------------------------- types


@op(method=True, inplace=True, retype=True, carries=True, name_arg=False, numpy=convert, elementwise=True)
def cast(x: Tensor, dtype: DTypeArg) -> Tensor:
    """Convert a tensor to another dtype.

    Floating-point numbers are truncated towards zero on the way to integers, and integers that do not fit a narrower
    dtype wrap around. Complex numbers lose their imaginary part, except on the way to bool.

    Args:
        x: Input tensor of any dtype.
        dtype: Dtype of the result, as a ``bireme.dtype``, a string or a NumPy dtype; ``None`` means float64.

    Returns:
        Tensor of the shape of ``x`` in ``dtype``.

    Examples:
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


@cast.on("cpu")
def _(x, dtype):
    # by their bits: a sum behind the conversion (YNNPACK's) would read what was rounded to bfloat16, not what came of
    # it
    if x.dtype == jnp.bfloat16 and dtype.kind in "fc" and dtype.itemsize >= 4:
        x = lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.uint16).astype(jnp.uint32) << 16, jnp.float32)
    return cast.body(x, dtype)


@cast.prepare
def _(arguments):
    if arguments["dtype"] is None:
        arguments["dtype"] = dtypes.float64  # as NumPy reads None, and Paddle with it


@cast.infer
def _(x, dtype):
    return sig_of(x.shape, dtype)


@cast.grad(numpy=lambda g, sigs: convert(g, sigs[0].dtype))
def _(g, sigs):
    dtype = sigs[0].dtype
    return (jnp.real(g) if jnp.iscomplexobj(g) and dtype.kind != "c" else g).astype(dtype.np)


# ---------------------------------------------------------------- two operands


@op(method=True, inplace=True, promote="x y", wide=True, passes="x y", linear=True, numpy=np.add, torch=True, out=True,
    kernels="elementwise_add")  # fmt: skip
def add(x: Tensor, y: Tensor | float, *, alpha: Extra[float] = 1) -> Tensor:
    """Elementwise sum ``x + alpha * y`` with broadcasting.

    Two floating-point dtypes promote to the wider one, and a real dtype beside a complex one to complex. Other dtypes
    do not mix: two integer dtypes, or an integer and a floating-point tensor, raise an error. A 0-D tensor and a Python
    number give way to the dtype of the other operand, but a fraction turns integers into float32.

    Args:
        x: First operand.
        y: Second operand, a tensor or a number.
        alpha: Number that ``y`` is multiplied by first. Default: 1.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Raises:
        ValueError: If the shapes do not broadcast.
        TypeError: If the dtypes do not mix.

    Examples:
        >>> bireme.add(bireme.to_tensor([1, 2]), bireme.to_tensor([10])).tolist()
        [11, 12]
    """
    return jnp.add(x, y)


def _scaled(arguments):
    alpha = arguments.pop("alpha")
    if not isinstance(alpha, (Tensor, int, float, complex, np.number)):
        raise errors.bad("add(alpha)", "a number", alpha, kind=errors.ArgumentTypeError)
    if alpha != 1:
        arguments["y"] = arguments["y"] * alpha


add.on_rows = rows.OnRows(lambda x, y, alpha=1: rows.total(x, y), grads=("x", "y"))
add.prepare(_scaled, sizes=False, keeps_numbers_unless="alpha")
add.infer(elementwise("add"))


@add.grad(numpy=True)
def _(g, sigs):
    return sum_to(g, sigs[0]), sum_to(g, sigs[1])


@op(method=True, inplace=True, promote="x y", wide=True, passes="x", linear=True, dtypes=NUMBER, numpy=np.subtract,
    kernels="elementwise_sub")  # fmt: skip
def subtract(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Elementwise difference ``x - y`` with broadcasting.

    Dtypes are promoted as in ``add``.

    Args:
        x: Minuend, a tensor of numbers or a number.
        y: Subtrahend, a tensor of numbers or a number.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.subtract(bireme.to_tensor([5, 6]), bireme.to_tensor([1])).tolist()
        [4, 5]
    """
    return jnp.subtract(x, y)


subtract.infer(elementwise("subtract"))


@subtract.grad(numpy=True)
def _(g, sigs):
    return sum_to(g, sigs[0]), sum_to(-g, sigs[1])


# not `bilinear`: the second derivative of a product of tensors is zeros in Paddle, where that of matmul is None
@op(method=True, inplace=True, promote="x y", wide=True, scales="x y", numpy=np.multiply, torch=True, out="untold",
    kernels="elementwise_mul")  # fmt: skip
def multiply(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise product ``x * y`` with broadcasting.

    Dtypes are promoted as in ``add``.

    Args:
        x: First factor.
        y: Second factor, a tensor or a number.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.multiply(bireme.to_tensor([1, 2]), bireme.to_tensor([10])).tolist()
        [10, 20]
    """
    return jnp.multiply(x, y)


@composite(method=True, inplace=True, promote="x y", torch=True, out=True, plain=True)
def mul(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise product ``x * y`` with broadcasting; another name of ``multiply``.

    Args:
        x: First factor.
        y: Second factor, a tensor or a number.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.mul(bireme.to_tensor([1, 2]), bireme.to_tensor([10])).tolist()
        [10, 20]
    """
    return multiply(x, y)


multiply.infer(elementwise("multiply"))


def _product_grad_numpy(g, x, y, sigs, needs):
    return _factor_grad(g, y, sigs[0]) if needs[0] else None, _factor_grad(g, x, sigs[1]) if needs[1] else None


def _factor_grad(g, other, sig):
    """The gradient of one factor; that of a number for each row without the products in between."""
    if sig.shape[-1:] == (1,) and g.ndim > 1 and other.shape == g.shape and (*g.shape[:-1], 1) == sig.shape:
        if g.dtype == other.dtype and g.dtype.kind == "f":
            return np.vecdot(g, other)[..., None]
    return sum_to(g * (other.conj() if other.dtype.kind == "c" else other), sig)


@multiply.grad(numpy=_product_grad_numpy)
def _(g, x, y, sigs, needs):
    dx = sum_to(g * conj_of(y), sigs[0]) if needs[0] else None
    return dx, sum_to(g * conj_of(x), sigs[1]) if needs[1] else None


@op(internal="divide", promote="x y", wide=True, floats=True, scales="x", numpy=np.divide, kernels="elementwise_div")
def quotient(x: Tensor | float, y: Tensor | float) -> Tensor:
    """`x / y`; use `divide`."""
    return jnp.divide(x, y)


quotient.infer(elementwise("divide"))


@quotient.grad(numpy=True)
def _(g, out, y, sigs):
    d = g / conj_of(y)
    return sum_to(d, sigs[0]), sum_to(-d * conj_of(out), sigs[1])


@op(
    method=True, inplace=True, promote="x y", mix="any", dtypes=FLOAT | INT, differentiable=False, numpy=np.floor_divide
)
def floor_divide(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Elementwise quotient rounded towards minus infinity, like Python's ``//``.

    It has no gradient.

    Args:
        x: Dividend, a tensor of real numbers or a number.
        y: Divisor, a tensor of real numbers or a number.

    Returns:
        Tensor of the broadcast shape and the promoted dtype; integers stay integers.

    Raises:
        ZeroDivisionError: If an integer is divided by zero; floating-point numbers give an infinity or NaN.

    Examples:
        >>> bireme.floor_divide(bireme.to_tensor([-7]), bireme.to_tensor([2])).tolist()
        [-4]
    """
    return jnp.floor_divide(x, y)


floor_divide.infer(elementwise("floor_divide"))
floor_divide.on("cpu")(vectorized_math.single(vectorized_math.floor_divide, floor_divide.body))


def _remainder_numpy(x, y):
    return x - y * _nearest_numpy(x / y) if np.iscomplexobj(x) else np.remainder(x, y)


def _nearest_numpy(x):
    parts = [np.sign(p) * np.floor(np.abs(p) + 0.5) for p in (x.real, x.imag)]
    return parts[0] + 1j * parts[1]


@op(public="remainder mod floor_mod", method="remainder mod floor_mod", inplace="remainder_ mod_ floor_mod_", promote="x y", dtypes=NUMBER,
    numpy=_remainder_numpy, elementwise=True)  # fmt: skip
def remainder(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Elementwise remainder of a floor division, with the sign of the divisor, like Python's ``%``.

    For complex numbers it is ``x - y * q`` with ``q`` the quotient, both parts of which are rounded to the nearest
    integer.

    Args:
        x: Dividend, a tensor of numbers or a number.
        y: Divisor, a tensor of numbers or a number.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Raises:
        ZeroDivisionError: If an integer is divided by zero; floating-point numbers give NaN.

    Examples:
        >>> bireme.remainder(bireme.to_tensor([-7]), bireme.to_tensor([2])).tolist()
        [1]
    """
    return x - y * _nearest(x / y) if jnp.iscomplexobj(x) else jnp.remainder(x, y)


def _nearest(x):
    """Complex numbers with both parts rounded to integers, halves away from zero."""
    parts = [jnp.sign(p) * jnp.floor(jnp.abs(p) + 0.5) for p in (jnp.real(x), jnp.imag(x))]
    return lax.complex(*parts)


remainder.infer(elementwise("remainder"))


remainder.on("cpu")(vectorized_math.single(vectorized_math.remainder, remainder.body))


def _remainder_grad_numpy(g, x, y, sigs):
    if np.iscomplexobj(x):
        return sum_to(g, sigs[0]), sum_to(-g * np.conj(_nearest_numpy(x / y)), sigs[1])
    return sum_to(g, sigs[0]), sum_to(-g * np.floor_divide(x, y), sigs[1])


@remainder.grad(numpy=_remainder_grad_numpy)
def _remainder_grad(g, x, y, sigs):
    quotient = jnp.conj(_nearest(x / y)) if jnp.iscomplexobj(x) else jnp.floor_divide(x, y)
    return sum_to(g, sigs[0]), sum_to(-g * quotient, sigs[1])


@remainder.grad(on="cpu")
def _(g, x, y, sigs):
    if x.dtype != jnp.float32:
        return _remainder_grad(g, x, y, sigs)
    return sum_to(g, sigs[0]), sum_to(-g * vectorized_math.floor_divide(x, y), sigs[1])


def _no_zero_divisor(name: str):
    """Integers cannot be divided by zero: host values are checked now, others by a flag of the program."""

    def prepare(arguments):
        x, y = arguments["x"], arguments["y"]
        kinds = [v.dtype if isinstance(v, Tensor) else dtypes.of_number(v) for v in (x, y)]
        if isinstance(y, float) or not all(k.kind in "bi" for k in kinds):
            return
        expected = "nonzero divisors for integers"
        if not isinstance(y, Tensor):
            if not np.all(y):
                raise errors.bad(f"{name}(y)", expected, 0, kind=ZeroDivisionError)
            return
        guards.require(
            read(y),
            f"{name}(y)",
            expected,
            host=lambda array: not array.all(),
            device=lambda: registry.find("any")(registry.find("equal")(y, 0)),
            got="0",
            kind=ZeroDivisionError,
        )

    return prepare


floor_divide.prepare(_no_zero_divisor("floor_divide"), values=True)
remainder.prepare(_no_zero_divisor("remainder"), values=True)


@composite(
    public="divide div",
    method="divide div",
    inplace="divide_ div_",
    promote="x y",
    floats=True,
    torch=True,
    out=True,
    plain=True,
)
def divide(x: Tensor | float, y: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    """Elementwise quotient ``x / y`` with broadcasting.

    Dtypes are promoted as in ``add``; integers become float32, except with a ``rounding_mode``.

    Args:
        x: Dividend, a tensor or a number.
        y: Divisor, a tensor or a number.
        rounding_mode: ``None`` for the exact quotient, ``'floor'`` to round it towards minus infinity, ``'trunc'`` to
            round it towards zero. Default: None.

    Returns:
        Tensor of the broadcast shape.

    Raises:
        ZeroDivisionError: If an integer is divided by zero with a ``rounding_mode``.

    Examples:
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
    if down.dtype.is_floating:
        return registry.find("trunc")(quotient(x, y))
    # rounded down where it should have been towards zero: where the signs differ and something is left over
    return down + ((down * y != x) & (down < 0)).astype(down.dtype)


@op(
    internal="pow",
    promote="x y",
    wide=True,
    dtypes=NUMBER,
    amp="high",
    numpy=True,
    kernels="elementwise_pow",
    elementwise=True,
)
def power(x: Tensor | float, y: Tensor | float) -> Tensor:
    """`x` to the power of a tensor `y`; use `pow`."""
    if not jnp.issubdtype(x.dtype, jnp.integer):
        return jnp.power(x, y)
    # an integer to a negative power is a fraction, so 0, unless it is 1 or -1
    out = jnp.power(x, jnp.maximum(y, 0))
    one = jnp.where(x == 1, 1, jnp.where(x == -1, 1 - 2 * (y & 1), 0)).astype(x.dtype)
    return jnp.where(y < 0, one, out)


power.infer(elementwise("pow"))


@jax.custom_jvp
def _power(x, y):
    return jnp.power(x, y)


def _power_slope(x, y):
    """The slope along x, of which each further one is this again.

    It is 0 for a constant, also at 0, where jax's own is 0 times infinity.
    """
    return jnp.where(y == 0, 0, y * _power(x, jnp.where(y == 0, 1, y - 1)))


def _power_rise(out, x):
    """The slope along y."""
    return jnp.where(x == 0, 0, out * jnp.log(jnp.where(x == 0, 1, x)))


_power.defjvps(lambda dx, out, x, y: dx * _power_slope(x, y), lambda dy, out, x, y: dy * _power_rise(out, x))


@power.grad(numpy=True)
def _(g, out, x, y, sigs):
    dx = jnp.where(y == 0, 0, g * conj_of(_power_slope(x, y)))
    return sum_to(dx, sigs[0]), sum_to(g * conj_of(_power_rise(out, x)), sigs[1])


def _multiplied(x, n):
    """A small integer power of `x`, by multiplications."""
    y = x
    for _ in range(abs(n) - 1):
        y = y * x
    return 1 / y if n < 0 else y


def _power_const_numpy(x, y):
    return np.sqrt(x) if y == 0.5 else 1 / np.sqrt(x) if y == -0.5 else _multiplied(x, int(y))


@op(internal="pow", amp="high", numpy=_power_const_numpy, kernels="elementwise_pow", elementwise=True)
def power_const(x: Tensor, y: Const) -> Tensor:
    """`x` to a power that is part of the program; use `pow`."""
    if y == 0.5:
        return jnp.sqrt(x)
    if y == -0.5:
        return lax.rsqrt(x)
    return lax.integer_pow(x, int(y))


power_const.infer(lambda x: x)


@power_const.grad(numpy=True)
def _(g, x, y):
    if y in (0.5, -0.5):
        root = jnp.sqrt(x)
        return g * conj_of(0.5 / root if y > 0 else -0.5 / (x * root))
    n = int(y) - 1
    # products of quotients: the slope of a quotient of products has the square of the product in it, which is out of
    # the range of the dtype
    slope = y * (jnp.ones_like(x) if n == 0 else _multiplied(1 / x, -n) if n < 0 else _multiplied(x, n))
    return g * conj_of(slope)


@composite(method=True, inplace=True, alias={"x": "input", "y": "exponent"}, out=True, plain=True,
           c_ops={"elementwise_pow": "x y"})  # fmt: skip
def pow(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise power ``x ** y`` with broadcasting.

    An integer tensor stays one: a float exponent is truncated to an integer first (the operator ``**`` gives float32
    instead), and a negative power of an integer other than 1 and -1 is 0.

    Args:
        x: Base, a tensor of numbers.
        y: Exponent, a tensor or a number.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.pow(bireme.to_tensor([1.0, 2.0, 3.0]), 2).tolist()
        [1.0, 4.0, 9.0]
    """
    if isinstance(y, float) and x.dtype.is_integer:
        y = int(y)  # as in Paddle: the dtype stays, so the exponent takes it (`x ** 2.5` is float32)
    # squares, cubes and roots stay constants: with the exponent as an input they would be 30 times slower
    if isinstance(y, (int, float)) and not isinstance(y, bool) and x.dtype.is_inexact:
        if y in (-2, -1, 2, 3, 4) or (y in (0.5, -0.5) and not x.dtype.is_complex):
            return power_const(x, int(y) if y == int(y) else float(y))
    return power(x, y)


@composite(method=True, name_arg=False, out=True, plain=True)
def true_divide(input: Tensor, other: Tensor | float) -> Tensor:
    """Elementwise quotient ``input / other`` with broadcasting; ``divide`` without rounding.

    Args:
        input: Dividend; integers become float32.
        other: Divisor, a tensor or a number.

    Returns:
        Tensor of the broadcast shape.

    Examples:
        >>> bireme.true_divide(bireme.to_tensor([1, 3]), bireme.to_tensor([2])).tolist()
        [0.5, 1.5]
    """
    return quotient(input, other)


# ---------------------------------------------------------------- sums of several


@op(internal="add_n", numpy=True, amp="high")
def sum_of(inputs: list[Tensor]) -> Tensor:
    """The sum of tensors of one shape and dtype; use `add_n`."""
    total = inputs[0]
    for x in inputs[1:]:
        total = jnp.add(total, x)
    return total


@sum_of.check
def _(inputs):
    if not inputs:
        raise errors.bad(
            "add_n(inputs)", "at least one tensor", described="an empty list", kind=errors.ArgumentTypeError
        )
    first, whole = inputs[0], _widest(inputs)
    for i, s in enumerate(inputs):
        # losses of shape [1] and of shape [] are added up together
        if s.shape != first.shape and not (whole.size == 1 and s.shape in ((), whole.shape)):
            raise errors.bad(
                f"add_n(inputs[{i}])",
                f"shape {list(first.shape)} like the first",
                described=f"shape {list(s.shape)}",
                kind=errors.ShapeError,
            )
        if s.dtype is not first.dtype:
            raise errors.bad(f"add_n(inputs[{i}])", f"{first.dtype.name} like the first", described=s.dtype.name)


def _widest(inputs):
    """The first that has axes, else the first."""
    return next((s for s in inputs if s.shape), inputs[0])


sum_of.infer(_widest)
sum_of.grad(lambda g, sigs: tuple([g if s.shape == g.shape else g.reshape(s.shape) for s in sigs]), numpy=True)


@composite(method=True, amp="one")
def add_n(inputs: Extra[Tensor | Sequence[Tensor]]) -> Tensor:
    """Sum of several tensors of the same shape.

    Args:
        inputs: List of tensors of one shape and dtype; shapes ``[1]`` and ``[]`` may be mixed. A single tensor is
            returned as its own sum.

    Returns:
        Tensor of the shape and dtype of the inputs.

    Raises:
        ValueError: If shapes or dtypes differ.
        TypeError: If the list is empty.

    Examples:
        >>> bireme.add_n([bireme.to_tensor([1]), bireme.to_tensor([2]), bireme.to_tensor([3])]).tolist()
        [6]
    """
    return sum_of([inputs] if isinstance(inputs, Tensor) else inputs)


@composite(method=True, c_ops={"increment_": "x value=1.0"})
def increment(x: Tensor, value: float = 1.0) -> Tensor:
    """Add a number to a tensor of one element, in place.

    Args:
        x: Tensor with one element; it keeps its dtype.
        value: Number to add; truncated to an integer if ``x`` is one. Default: 1.0.

    Returns:
        ``x`` itself.

    Examples:
        >>> bireme.increment(bireme.to_tensor([1])).tolist()
        [2]
    """
    if x._value.sig.size > 1:
        raise errors.bad("increment(x)", "a tensor of one element", x)
    if x.dtype not in NUMBER:
        raise errors.bad("increment(x)", "a numeric tensor", x, kind=errors.ArgumentTypeError)
    by = int(value) if x.dtype.is_integer else value
    if x.is_leaf and not x.stop_gradient:  # Paddle lets it count leaves too: they stay leaves
        with no_grad():
            return assign_inplace(x, add(x, by), "increment")
    return assign_inplace(x, add(x, by), "increment")


# ---------------------------------------------------------------- divisors


def _size(x):
    """The absolute value as an unsigned integer: that of the smallest integer fits into no other."""
    kind = np.dtype(f"u{x.dtype.name.lstrip('u')}")
    return jnp.where(x < 0, -x.astype(kind), x.astype(kind))


def _divisor(x, y):
    """Euclid's algorithm; of unsigned integers each remainder is smaller than the last, so it ends."""

    def step(pair):
        x, y = pair
        some = y != 0
        return jnp.where(some, y, x), jnp.where(some, lax.rem(x, jnp.where(some, y, jnp.ones_like(y))), y)

    return lax.while_loop(lambda pair: jnp.any(pair[1] != 0), step, tuple(jnp.broadcast_arrays(x, y)))[0]


@op(method=True, inplace=True, promote="x y", mix="same", dtypes=INT, differentiable=False, numpy=np.gcd)
def gcd(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise greatest common divisor with broadcasting; that of two zeros is 0.

    Args:
        x: Integer tensor.
        y: Integer tensor of the same dtype.

    Returns:
        Non-negative integers of the broadcast shape.

    Examples:
        >>> bireme.gcd(bireme.to_tensor([12, 0]), bireme.to_tensor([20, 5])).tolist()
        [4, 5]
    """
    return _divisor(_size(x), _size(y)).astype(x.dtype)


@op(method=True, inplace=True, writes=4, promote="x y", mix="same", dtypes=INT, differentiable=False, numpy=np.lcm)
def lcm(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise least common multiple with broadcasting; 0 if either operand is 0.

    Args:
        x: Integer tensor.
        y: Integer tensor of the same dtype.

    Returns:
        Non-negative integers of the broadcast shape.

    Examples:
        >>> bireme.lcm(bireme.to_tensor([12, 0]), bireme.to_tensor([20, 5])).tolist()
        [60, 0]
    """
    a, b = _size(x), _size(y)
    shared = _divisor(a, b)
    return (a // jnp.where(shared == 0, jnp.ones_like(shared), shared) * b).astype(x.dtype)


gcd.infer(elementwise("gcd"))
lcm.infer(elementwise("lcm"))
