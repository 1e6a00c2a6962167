"""Functions of one operand: powers and roots, exponentials and logarithms, absolute value and sign."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.base.later import special
from bireme.core.declare.op import Const, Extra, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import exponentials
from bireme.ops._shared.broadcast import broadcast_shape, conj_of, elementwise, same, sum_to
from bireme.ops.math.arithmetic import NUMBER

_LN_2, _LN_10 = float(np.log(2.0)), float(np.log(10.0))


@op(public="neg negative", method="neg negative", inplace=True, dtypes=NUMBER, numpy=np.negative)
def neg(x: Tensor) -> Tensor:
    """Elementwise negation ``-x``.

    Args:
        x: Tensor of numbers.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.neg(bireme.to_tensor([1, -2])).tolist()
        [-1, 2]
    """
    return jnp.negative(x)


neg.infer(same)
neg.grad(lambda g: -g, numpy=True)


@composite()
def positive(x: Tensor) -> Tensor:
    """Return the tensor itself, as the unary plus does.

    Args:
        x: Tensor of numbers.

    Returns:
        ``x`` itself.

    Raises:
        TypeError: If ``x`` is a bool tensor.

    Examples:
        >>> bireme.positive(bireme.to_tensor([1, -2])).tolist()
        [1, -2]
    """
    if x.dtype not in NUMBER:
        raise errors.bad("positive(x)", "a numeric tensor", x, kind=errors.ArgumentTypeError)
    return x


@op(method=True, inplace=True, floats=True, numpy=np.exp, amp="high")
def exp(x: Tensor) -> Tensor:
    """Elementwise exponential ``e ** x``.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.exp(bireme.to_tensor([0.0])).tolist()
        [1.0]
    """
    return jnp.exp(x)


exp.infer(same)
exp.grad(lambda g, out: g * conj_of(out), numpy=True, operators=True)


@op(method=True, inplace=True, floats=True, numpy=np.log, torch=True, out=True, amp="high")
def log(x: Tensor) -> Tensor:
    """Elementwise natural logarithm.

    For real numbers it is ``-inf`` at 0 and NaN below.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.log(bireme.to_tensor([1.0])).tolist()
        [0.0]
    """
    return jnp.log(x)


log.infer(same)
log.grad(lambda g, x: g / conj_of(x), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.log1p)
def log1p(x: Tensor) -> Tensor:
    """Elementwise ``log(1 + x)``, accurate for ``x`` near 0.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.log1p(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return jnp.log1p(x)


log1p.infer(same)
log1p.grad(lambda g, x: g * conj_of(1 / (1 + x)), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.expm1, amp="high")
def expm1(x: Tensor) -> Tensor:
    """Elementwise ``exp(x) - 1``, accurate for ``x`` near 0.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.expm1(bireme.to_tensor([0.0])).tolist()
        [0.0]
    """
    return jnp.expm1(x)


expm1.infer(same)
expm1.grad(lambda g, out: g * conj_of(out + 1), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.log2, amp="high")
def log2(x: Tensor) -> Tensor:
    """Elementwise logarithm to base 2.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.log2(bireme.to_tensor([1.0, 8.0])).tolist()
        [0.0, 3.0]
    """
    return jnp.log2(x)


log2.infer(same)
log2.grad(lambda g, x: g / conj_of(x * _LN_2), numpy=True)


@op(method=True, inplace=True, floats=True, numpy=np.log10, amp="high")
def log10(x: Tensor) -> Tensor:
    """Elementwise logarithm to base 10.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.log10(bireme.to_tensor([1.0])).tolist()
        [0.0]
    """
    return jnp.log10(x)


log10.infer(same)
log10.grad(lambda g, x: g / conj_of(x * _LN_10), numpy=True)


@op(method=True, promote="x y", mix="floats", floats=True, dtypes=FLOAT, numpy=exponentials.logaddexp, elementwise=True)
def logaddexp(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise ``log(exp(x) + exp(y))``, computed without overflow.

    Args:
        x: First operand; integers become float32.
        y: Second operand, of a shape that broadcasts.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.logaddexp(bireme.to_tensor([1000.0]), bireme.to_tensor([0.0])).tolist()
        [1000.0]
    """
    return jnp.logaddexp(x, y)


logaddexp.infer(elementwise("logaddexp"))


def _shares(g, share, sigs):
    return sum_to(g * share, sigs[0]), sum_to(g * (1 - share), sigs[1])


@logaddexp.grad(numpy=lambda g, x, y, sigs: _shares(g, exponentials.logistic(x - y), sigs))
def _(g, x, y, sigs):
    return _shares(g, lax.logistic(x - y), sigs)


@op(method=True, inplace=True, floats=True, numpy=np.sqrt, torch=True, out=True)
def sqrt(x: Tensor) -> Tensor:
    """Elementwise square root; NaN for negative real numbers.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.sqrt(bireme.to_tensor([4.0])).tolist()
        [2.0]
    """
    return jnp.sqrt(x)


sqrt.infer(same)
sqrt.grad(lambda g, out: g * conj_of(0.5 / out), numpy=True)


@op(
    method=True,
    inplace=True,
    floats=True,
    numpy=lambda x: 1 / np.sqrt(x),
    torch=True,
    out=True,
    amp="high",
    elementwise=True,
)
def rsqrt(x: Tensor) -> Tensor:
    """Elementwise reciprocal of the square root, ``1 / sqrt(x)``.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.rsqrt(bireme.to_tensor([4.0])).tolist()
        [0.5]
    """
    return lax.rsqrt(x)


rsqrt.infer(same)
rsqrt.grad(lambda g, out: g * conj_of(-0.5 * out * out * out), numpy=True)


@op(method=True, inplace=True, dtypes=NUMBER, numpy=np.square, amp="high")
def square(x: Tensor) -> Tensor:
    """Elementwise square ``x * x``.

    Args:
        x: Tensor of numbers.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.square(bireme.to_tensor([3.0])).tolist()
        [9.0]
    """
    return jnp.square(x)


square.infer(same)
square.grad(lambda g, x: g * conj_of(2 * x), numpy=True)


@op(method=True, inplace=True, floats=True, amp="high", numpy=True, elementwise=True)
def reciprocal(x: Tensor) -> Tensor:
    """Elementwise reciprocal ``1 / x``.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.reciprocal(bireme.to_tensor([4.0])).tolist()
        [0.25]
    """
    return 1 / x


reciprocal.infer(same)
reciprocal.grad(lambda g, out: -g * conj_of(out * out), numpy=True)


@op(method=True, inplace=True, floats=True, torch=True, out=True, numpy=exponentials.logistic, elementwise=True)
def sigmoid(x: Tensor) -> Tensor:
    """Elementwise logistic function ``1 / (1 + exp(-x))``.

    Args:
        x: Input tensor; integers and bools become float32.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.nn.functional.sigmoid(bireme.to_tensor([0.0])).tolist()
        [0.5]
    """
    return 1 / (1 + jnp.exp(-x)) if jnp.iscomplexobj(x) else lax.logistic(x)


sigmoid.infer(same)
sigmoid.grad(lambda g, out: g * conj_of(out * (1 - out)), numpy=True, operators=True)


def _logit_numpy(x, eps):
    return special.logit(np.maximum(np.minimum(x, 1 - eps), eps) if eps else x)


@op(method=True, inplace=True, floats=True, dtypes=FLOAT, numpy=_logit_numpy)
def logit(x: Tensor, eps: Const = None) -> Tensor:
    """Elementwise ``log(x / (1 - x))``, the inverse of ``sigmoid``.

    Args:
        x: Probabilities in ``[0, 1]``; integers and bools become float32. Other numbers give NaN, unless ``eps`` is
            given.
        eps: Number that ``x`` is clamped with first, to ``[eps, 1 - eps]``. Default: None, which does not clamp.

    Returns:
        Tensor of the shape of ``x``.

    Examples:
        >>> bireme.logit(bireme.to_tensor([0.5])).tolist()
        [0.0]
    """
    x = jnp.maximum(jnp.minimum(x, 1 - eps), eps) if eps else x
    return jnp.log(x / (1 - x))


logit.infer(lambda x: x)


@logit.check
def _(eps):
    if isinstance(eps, complex):
        raise errors.bad("logit(eps)", "a real number", eps, kind=errors.ArgumentTypeError)


@logit.grad(numpy=True)
def _(g, x, eps):
    low = eps or 0
    return jnp.where((x >= low) & (x <= 1 - low), g / (x * (1 - x)), jnp.where(jnp.isnan(x), x, 0 if eps else np.nan))


@op(method="abs __abs__", inplace=True, retype=True, numpy=np.abs)
def abs(x: Tensor) -> Tensor:
    """Elementwise absolute value.

    The gradient at 0 is 0.

    Args:
        x: Input tensor.

    Returns:
        Tensor of the shape of ``x`` in its dtype; real numbers for a complex one.

    Examples:
        >>> bireme.abs(bireme.to_tensor([-1.5, 2.0])).tolist()
        [1.5, 2.0]
    """
    return jnp.abs(x)


abs.infer(lambda x: sig_of(x.shape, dtypes.real_of(x.dtype)))


@abs.grad(numpy=True)
def _(g, x):
    # chosen, not multiplied, as in Paddle: at 0 the infinite slope of sqrt(abs(x)) comes to 0, not to NaN
    if jnp.iscomplexobj(x):
        size = jnp.abs(x)
        return jnp.where(size == 0, 0, g * (x / jnp.where(size == 0, 1, size)))
    return jnp.where(x == 0, 0, g * jnp.sign(x))


@op(method=True, dtypes=NUMBER, torch=True, out=True, of_the_past=True, numpy=True, elementwise=True)
def sign(x: Tensor) -> Tensor:
    """Elementwise sign: -1, 0 or 1; complex numbers are divided by their absolute value.

    Args:
        x: Tensor of numbers.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.sign(bireme.to_tensor([-2.0, 0.0, 3.0])).tolist()
        [-1.0, 0.0, 1.0]
    """
    return jnp.sign(x)


sign.infer(same)


@sign.grad(numpy=True)
def _(g, x):
    if not jnp.iscomplexobj(x):
        return jnp.zeros_like(g)
    size = jnp.abs(x)
    safe = jnp.where(size == 0, 1, size)
    unit = x / safe  # only what turns x changes its direction
    return jnp.where(size == 0, 0, (g - unit * jnp.real(conj_of(unit) * g)) / safe)


@composite(method=True)
def sgn(x: Tensor) -> Tensor:
    """Elementwise sign of floating-point and complex numbers; the latter are divided by their absolute value.

    Args:
        x: Floating-point or complex tensor; for integers there is ``sign``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.sgn(bireme.to_tensor([3 + 4j])).tolist()
        [(0.6000000238418579+0.800000011920929j)]
    """
    if not x.dtype.is_inexact:
        raise errors.bad(
            "sgn(x)",
            "a floating-point or complex dtype",
            described=x.dtype.name,
            hint="use bireme.sign for integers",
            kind=errors.ArgumentTypeError,
        )
    return sign(x)


@op(method=True, inplace=True, promote="x y weight", wide=True, floats=True, numpy=True, elementwise=True)
def lerp(x: Tensor, y: Tensor, weight: Tensor | float) -> Tensor:
    """Elementwise linear interpolation ``x + weight * (y - x)``.

    Args:
        x: Start, the result where the weight is 0; integers become float32.
        y: End, the result where the weight is 1.
        weight: Weight, a tensor that broadcasts or a number; outside of ``[0, 1]`` it extrapolates.

    Returns:
        Tensor of the broadcast shape and the promoted dtype.

    Examples:
        >>> bireme.lerp(bireme.to_tensor([0.0]), bireme.to_tensor([10.0]), 0.25).tolist()
        [2.5]
    """
    return x + weight * (y - x)


lerp.infer(lambda x, y, weight: sig_of(broadcast_shape("lerp", x.shape, y.shape, weight.shape), x.dtype))


@lerp.grad(numpy=True)
def _(g, x, y, weight, sigs):
    w = conj_of(weight)
    return sum_to(g * (1 - w), sigs[0]), sum_to(g * w, sigs[1]), sum_to(g * conj_of(y - x), sigs[2])


def _beside(number, x):
    """A number in the dtype of `x`; beside half precision it stays wider, and the result is rounded."""
    return number if x.dtype.itemsize <= 2 and jnp.issubdtype(x.dtype, jnp.floating) else number.astype(x.dtype)


@op(method=True, inplace=True, wide=True, numpy=True, scales="x", elementwise=True)
def scale(x: Tensor, scale: Tensor | float = 1.0, bias: Tensor | float = 0.0, bias_after_scale: bool = True,
          act: Extra[str] = None) -> Tensor:  # fmt: skip
    """Scale and shift each element: ``x * scale + bias``, or ``(x + bias) * scale``.

    The dtype stays: for integers, the scale and the bias are truncated to integers first.

    Args:
        x: Input tensor.
        scale: Factor, a number or a tensor of one element. Default: 1.0.
        bias: Number to add, or a tensor of one element. Default: 0.0.
        bias_after_scale: Whether the bias is added after the scaling rather than before it. Default: True.
        act: Must be ``None``: apply an activation to the result instead. Default: None.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.scale(bireme.to_tensor([1.0, 2.0]), 2.0, 1.0).tolist()
        [3.0, 5.0]
    """
    factor, shift = _beside(scale, x), _beside(bias, x)
    return x * factor + shift if bias_after_scale else (x + shift) * factor


scale.infer(lambda x: x)


@scale.grad(numpy=True)
def _(g, x, scale, bias, bias_after_scale, needs, sigs):
    dx = g * conj_of(_beside(scale, x))
    ds = sum_to(g * conj_of(x if bias_after_scale else x + _beside(bias, x)), sigs[1]) if needs[1] else None
    return dx, ds, sum_to(g if bias_after_scale else dx, sigs[2]) if needs[2] else None


@scale.prepare(keeps_numbers_unless="")
def _(arguments):
    if arguments.pop("act") is not None:
        raise errors.bad(
            "scale(act)", "None", described="an activation", hint="call it on the result", kind=errors.ArgumentTypeError
        )
    if (
        isinstance(arguments["bias"], complex)
        and isinstance(arguments["x"], Tensor)
        and not arguments["x"].dtype.is_complex
    ):
        raise errors.bad(
            "scale(bias)",
            f"a real number for {arguments['x'].dtype.name}",
            arguments["bias"],
            kind=errors.ArgumentTypeError,
        )
    for name in ("scale", "bias"):
        t = arguments[name]
        if isinstance(t, Tensor) and t.ndim:
            if t._value.sig.size != 1:
                raise errors.bad(f"scale({name})", "a number or a tensor of one element", t, kind=errors.for_number(t))
            arguments[name] = t.reshape([])
