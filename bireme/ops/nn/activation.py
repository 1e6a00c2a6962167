"""Activations."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import errors
from bireme.core.base.dtype import COMPLEX, FLOAT
from bireme.core.declare.op import Axis, DTypeArg, Key, Shape, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import limits, masks
from bireme.core.numpy_exec.erf import erf
from bireme.core.numpy_exec.exponentials import logistic
from bireme.core.numpy_exec.rebinding import dual
from bireme.core.numpy_exec.tables import Table
from bireme.core.tensor import tape
from bireme.core.tensor.inplace import assign_inplace
from bireme.ops._shared.broadcast import conj_of, same, sum_to
from bireme.ops._shared.compiler_hints import fresh
from bireme.ops._shared.precision import widen
from bireme.ops.manipulation.split import split
from bireme.ops.math.arithmetic import cast
from bireme.ops.math.elementwise import sigmoid
from bireme.ops.random.distributions import exponential_of

_HALF_ROOT = math.sqrt(0.5)
_ROOT_2_PI = math.sqrt(2 / math.pi)


@op(inplace=True, numpy=lambda x: limits.maximum(x, 0), alias={"x": "input"}, elementwise=True)
def relu(x: Tensor) -> Tensor:
    """Rectified linear unit: ``max(x, 0)`` of each element.

    The gradient at 0 is 0.

    Args:
        x: Input tensor of any shape.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.relu(bireme.to_tensor([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """
    return jnp.maximum(x, 0)


relu.infer(same)


@relu.short
def _(x):
    if x.size >= limits.SMALL or x.ndim == 0 or x.dtype.itemsize < 4:
        return None
    zero = np.zeros((), x.dtype.np)  # the number 0 becomes an array in each call
    return lambda x: np.maximum(x, zero)


relu.grad(
    lambda g, out: jnp.where(out > 0, g, jnp.zeros_like(g)),
    numpy=lambda g, out: masks.kept(g, out > 0),
    operators=True,
)


def _leaky_relu_numpy(x, negative_slope):
    slope = negative_slope.astype(x.dtype)
    scaled = x * slope
    # the larger of both, in a sixth of the time of a choice; 0 times infinity would be neither
    return np.maximum(x, scaled) if 0 < slope <= 1 else masks.chosen(x >= 0, x, scaled)


def _leaky_relu_grad_numpy(g, x, negative_slope, needs):
    slope, of_x, of_slope = negative_slope.astype(x.dtype), None, None
    if needs[0] and 0 < slope <= 1:
        of_x = g * limits.maximum((x >= 0).astype(x.dtype), slope)
    elif needs[0]:
        of_x = masks.chosen(x >= 0, g, g * slope)
    if needs[1]:
        of_slope = np.sum(masks.kept(x, ~(x >= 0)) * g).astype(negative_slope.dtype)
    return of_x, of_slope


@op(inplace=True, dtypes=FLOAT, numpy=_leaky_relu_numpy)
def leaky_relu(x: Tensor, negative_slope: Tensor | float = 0.01) -> Tensor:
    """Rectified linear unit with a slope for negative elements: ``x`` where ``x >= 0``, else ``negative_slope * x``.

    Args:
        x: Input tensor of a floating-point dtype.
        negative_slope: Slope for negative elements: a number, or a 0-D tensor, which gets a gradient too.
            Default: 0.01.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.leaky_relu(bireme.to_tensor([-1.0, 2.0]), 0.5).tolist()
        [-0.5, 2.0]
    """
    return jnp.where(x >= 0, x, x * negative_slope.astype(x.dtype))


leaky_relu.infer(lambda x: x)


@leaky_relu.grad(numpy=_leaky_relu_grad_numpy, operators=True)
def _(g, x, negative_slope, needs):
    of_x = jnp.where(x >= 0, g, g * negative_slope.astype(x.dtype)) if needs[0] else None
    if not needs[1]:
        return of_x, None
    return of_x, jnp.sum(jnp.where(x >= 0, jnp.zeros_like(x), x) * g).astype(negative_slope.dtype)


@leaky_relu.check
def _(negative_slope):
    if negative_slope.ndim:
        raise errors.bad(
            "leaky_relu(negative_slope)",
            "a number",
            described=f"shape {list(negative_slope.shape)}",
            kind=errors.ArgumentTypeError,
        )


def _gelu_numpy(x, approximate):
    if approximate:
        t = x * x
        t *= np.asarray(0.044715 * _ROOT_2_PI, x.dtype)
        t += np.asarray(_ROOT_2_PI, x.dtype)
        t *= x
        t = np.tanh(t)
        t += 1
        t *= x
        t *= 0.5
        return t
    if x.dtype == np.float32 and x.ndim:
        t = _share_at(x)
        t *= x
        return t
    t = erf(x * np.asarray(_HALF_ROOT, x.dtype))
    t += 1
    t *= x
    t *= 0.5
    return t


def _shares(x):
    """The normal distribution function and its density at places in a row from -6 on: Simpson's rule adds the density
    up, without SciPy.
    """
    half = 0.5 * (x[1] - x[0])
    density, between = [np.exp(-0.5 * at * at) * (0.5 * _ROOT_2_PI) for at in (x, x[:-1] + half)]
    below = np.cumsum((density[:-1] + 4 * between + density[1:]) * (half / 3))
    return np.concatenate([[0.0], below]) + _BELOW, density


def _gelu_slopes(x):
    share, density = _shares(x)
    return share + x * density


_BELOW = 9.865876450376946e-10  # of the normal distribution below -6
_share_at = Table(lambda x: _shares(x)[0], 6, (0.0, 1.0))
_gelu_slope_at = Table(_gelu_slopes, 6, (0.0, 1.0))


def _gelu_grad_numpy(g, x, approximate):
    if approximate or x.dtype != np.float32:
        return g * _gelu_slope(x, approximate, np.tanh, erf, np.exp)
    slope = _gelu_slope_at(x)
    if not np.isfinite(np.add.reduce(x, None)):  # of an infinite number NaN, as the formula has it
        slope += x - x
    slope *= g
    return slope


@op(dtypes=FLOAT, numpy=_gelu_numpy, alias={"x": "input"}, elementwise=True)
def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """Gaussian error linear unit: ``x`` times the standard normal distribution function at ``x``.

    Args:
        x: Input tensor of a floating-point dtype.
        approximate: Whether to use the approximation ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))``;
            the strings ``'tanh'`` and ``'none'`` mean True and False. Default: False.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> [round(y, 4) for y in bireme.nn.functional.gelu(bireme.to_tensor([-1.0, 0.0, 1.0])).tolist()]
        [-0.1587, 0.0, 0.8413]
    """
    wide = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
    if approximate:
        y = 0.5 * wide * (1 + jnp.tanh(np.asarray(_ROOT_2_PI, wide.dtype) * (wide + 0.044715 * wide * wide * wide)))
    else:
        y = wide * 0.5 * (1 + lax.erf(wide * np.asarray(_HALF_ROOT, wide.dtype)))
    return y.astype(x.dtype)


@gelu.prepare(sizes=False)
def _(arguments):
    if arguments["approximate"] in ("none", "tanh"):
        arguments["approximate"] = arguments["approximate"] == "tanh"


gelu.infer(lambda x: x)


def _gelu_slope(x, approximate, tanh, erf, exp):
    if approximate:
        inner = _ROOT_2_PI * (x + 0.044715 * x * x * x)
        t = tanh(inner)
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (_ROOT_2_PI * (1 + 3 * 0.044715 * x * x))
    return 0.5 * (1 + erf(x * _HALF_ROOT)) + x * (exp(-0.5 * x * x) * (0.5 * _ROOT_2_PI))


def _gate(x):
    """0.5 (1 + tanh(u)) of the approximation as 1 / (1 + exp(-2u)): half the instructions, which bound it on a GPU."""
    return 1 / (1 + jnp.exp(x * (-2 * _ROOT_2_PI - 2 * 0.044715 * _ROOT_2_PI * (x * x))))


@gelu.on("cuda")
def _(x, approximate):
    if not approximate or x.dtype.itemsize > 4:
        return gelu.body(x, approximate)
    wide = x.astype(jnp.float32)
    return (wide * _gate(wide)).astype(x.dtype)


@gelu.grad(numpy=_gelu_grad_numpy)
def _gelu_grad(g, x, approximate):
    return g * _gelu_slope(widen(x), approximate, jnp.tanh, lax.erf, jnp.exp).astype(x.dtype)


@gelu.grad(on="cuda")
def _(g, x, approximate):
    x = fresh(x)
    if not approximate or x.dtype.itemsize > 4:
        return _gelu_grad(g, x, approximate)
    wide = widen(x)
    s = _gate(wide)
    slope = s + s * (1 - s) * (wide * (2 * _ROOT_2_PI + 6 * 0.044715 * _ROOT_2_PI * (wide * wide)))
    # the product in the narrow type: in the wide one, XLA would write it out for the bias that sums it up
    return g * slope.astype(x.dtype)


def _silu_grad_numpy(g, x):
    s = 1 / (1 + np.exp(-x))
    slope = 1 - s
    slope *= x
    slope += 1
    slope *= s
    return g * np.conj(slope)


# the exponential overflows to the limit
@op(
    internal="silu",
    dtypes=FLOAT | COMPLEX,
    alias={"x": "input"},
    numpy=lambda x: x / (1 + np.exp(-x)),
    kernels="swish",
    elementwise=True,
)
def silu_of(x: Tensor) -> Tensor:
    """`x * sigmoid(x)`; use `silu`."""
    return x * (_sigmoid(x) if jnp.iscomplexobj(x) else lax.logistic(x))


silu_of.infer(same)


def _sigmoid(x):
    # the exponential of minus the size cannot overflow; `where` rather than `abs`, whose slope at 0 is 0
    below = jnp.real(x) < 0
    e = jnp.exp(jnp.where(below, x, -x))
    return jnp.where(below, e, 1) / (1 + e)


@silu_of.grad(numpy=_silu_grad_numpy)
def _(g, x):
    s = _sigmoid(x)
    return g * conj_of(s * (1 + x * (1 - s)))


@composite(alias={"x": "input"}, plain=True)
def silu(x: Tensor, inplace: bool = False) -> Tensor:
    """Sigmoid linear unit, also known as swish: ``x * sigmoid(x)``.

    Args:
        x: Input tensor of a floating-point or complex dtype.
        inplace: Whether to write the result into ``x`` and return ``x`` itself. Default: False.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> round(bireme.nn.functional.silu(bireme.to_tensor([1.0])).item(), 4)
        0.7311
    """
    since = tape.now()
    out = silu_of(x)
    return assign_inplace(x, out, "silu", since) if inplace else out


@op(dtypes=FLOAT | COMPLEX, amp="high", numpy=True)
def softplus(x: Tensor, beta: Tensor | float = 1, threshold: Tensor | float = 20) -> Tensor:
    """Smooth approximation of the rectified linear unit: ``log(1 + exp(beta * x)) / beta``.

    Where ``beta * x > threshold`` the result is ``x`` itself, from which it no longer differs noticeably.

    Args:
        x: Input tensor of a floating-point or complex dtype.
        beta: How sharply the curve bends at 0: a number or a 0-D tensor. Default: 1.
        threshold: Value of ``beta * x`` above which the function is linear: a number or a 0-D tensor. Default: 20.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> round(bireme.nn.functional.softplus(bireme.to_tensor([0.0])).item(), 4)
        0.6931
    """
    scaled = x * beta.astype(x.dtype)
    smooth = jnp.log1p(jnp.exp(scaled)) if jnp.iscomplexobj(x) else jnp.logaddexp(scaled, np.zeros((), x.dtype))
    return jnp.where(jnp.real(scaled) > jnp.real(threshold.astype(x.dtype)), x, smooth / beta.astype(x.dtype))


softplus.infer(lambda x: x)


@softplus.check
def _(beta, threshold):
    for name, given in (("beta", beta), ("threshold", threshold)):
        if given.ndim:
            raise errors.bad(
                f"softplus({name})", "a number", described=f"shape {list(given.shape)}", kind=errors.ArgumentTypeError
            )


def _logistic(x):
    if jnp.iscomplexobj(x):
        return 1 / (1 + jnp.exp(-x))
    return _real_logistic(x)


_real_logistic = dual(logistic)(lax.logistic)


@softplus.grad(numpy=True)
def _(g, x, beta, threshold, sigs, needs):
    factor = beta.astype(x.dtype)
    scaled = x * factor
    slope, linear = _logistic(scaled), jnp.real(scaled) > jnp.real(threshold.astype(x.dtype))
    of_beta = None
    if needs[1]:
        smooth = jnp.log1p(jnp.exp(scaled)) if jnp.iscomplexobj(x) else jnp.logaddexp(scaled, np.zeros((), x.dtype))
        of_beta = sum_to(g * conj_of(jnp.where(linear, 0, (slope * x - smooth / factor) / factor)), sigs[1])
    return g * conj_of(jnp.where(linear, 1, slope)), of_beta, None


def _softmax(x, axis):
    if x.ndim == 0:
        return jnp.ones_like(x)
    e = jnp.exp(x - jnp.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return e / jnp.sum(e, axis=axis, keepdims=True)


def _softmax_numpy(x, axis):
    if x.ndim == 0:
        return np.ones_like(x)
    e = x - np.maximum.reduce(x, axis, None, None, True, -np.inf)
    np.exp(e, out=e)
    e /= np.add.reduce(e, axis, None, None, True)
    return e


def _softmax_grad_numpy(g, out, axis):
    if out.ndim == 0:
        return np.zeros_like(g)
    d = g * out
    d -= out * np.add.reduce(d, axis, None, None, True)
    return d


@op(internal="softmax", name="softmax_of", dtypes=FLOAT, numpy=_softmax_numpy, amp="high", upcast=True)
def softmax_of(x: Tensor, axis: Axis) -> Tensor:
    """exp(x) divided by its sum along an axis; use `softmax`."""
    return _softmax(x, axis)


softmax_of.infer(lambda x: x)
softmax_of.rows(lambda x, axis: ("x",) if axis else ())


@softmax_of.grad(numpy=_softmax_grad_numpy)
def _(g, out, axis):
    if out.ndim == 0:
        return jnp.zeros_like(g)
    d = g * out
    return d - out * jnp.sum(d, axis=axis, keepdims=True)


@composite(
    public="nn.functional.softmax", inplace=True, retype=True, alias={"x": "input", "axis": "dim"}, out=True, plain=True
)
def softmax(x: Tensor, axis: int = -1, dtype: DTypeArg = None) -> Tensor:
    """Softmax along an axis: ``exp(x) / sum(exp(x))``, so that the elements along it add up to 1.

    The maximum is subtracted first, so that large elements do not overflow. A 0-D tensor gives 1.

    Args:
        x: Input tensor of a floating-point dtype, or of any dtype if ``dtype`` says what to cast it to.
        axis: Axis along which the elements add up to 1. Default: -1.
        dtype: Data type that ``x`` is cast to before the computation; ``None`` keeps that of ``x``. Default: None.

    Returns:
        Tensor of the shape of ``x``, of ``dtype`` if it is given.

    Examples:
        >>> bireme.nn.functional.softmax(bireme.to_tensor([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """
    return softmax_of(x if dtype is None or dtype is x.dtype else cast(x, dtype), axis)


@composite(name="torch_softmax", public="softmax special.softmax compat.softmax", method="softmax", name_arg=False, out=True,
           rejects={"x": "input, or bireme.nn.functional.softmax", "axis": "dim, or bireme.nn.functional.softmax"})  # fmt: skip
def torch_softmax(input: Tensor, dim: int | None = None, dtype: DTypeArg = None) -> Tensor:
    """Softmax along an axis with the keywords of PyTorch: ``exp(input) / sum(exp(input))``.

    ``bireme.nn.functional.softmax`` is the form with the keywords ``x`` and ``axis``; its default is the last axis.

    Args:
        input: Input tensor of a floating-point dtype, or of any dtype if ``dtype`` says what to cast it to.
        dim: Axis along which the elements add up to 1; ``None`` means 0 for a tensor of 0, 1 or 3 dimensions, else 1.
            Default: None.
        dtype: Data type that ``input`` is cast to before the computation; ``None`` keeps that of ``input``.
            Default: None.

    Returns:
        Tensor of the shape of ``input``, of ``dtype`` if it is given.

    Examples:
        >>> bireme.softmax(bireme.to_tensor([0.0, 0.0]), dim=0).tolist()
        [0.5, 0.5]
    """
    axis = (0 if input.ndim in (0, 1, 3) else 1) if dim is None else dim
    return softmax_of(input if dtype is None or dtype is input.dtype else cast(input, dtype), axis)


@torch_softmax.rewrite
def _(args, kwargs):
    # torch's third argument tells it where to warn; it is taken, and means nothing
    if len(args) > 2 and type(args[2]) is int:
        args = (*args[:2], *args[3:])
    return args, {name: x for name, x in kwargs.items() if name != "_stacklevel"}


def _log_softmax(x, axis):
    if x.ndim == 0:
        return jnp.zeros_like(x)
    z = x - jnp.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return z - jnp.log(jnp.sum(jnp.exp(z), axis=axis, keepdims=True))


def _log_softmax_numpy(x, axis):
    if x.ndim == 0:
        return np.zeros_like(x)
    z = x - np.maximum.reduce(x, axis, None, None, True, -np.inf)
    z -= np.log(np.add.reduce(np.exp(z), axis, None, None, True))
    return z


@op(internal="log_softmax", dtypes=FLOAT, numpy=_log_softmax_numpy, amp="high", upcast=True)
def log_softmax_of(x: Tensor, axis: Axis) -> Tensor:
    """Logarithm of the softmax; use `log_softmax`."""
    return _log_softmax(x, axis)


log_softmax_of.infer(lambda x: x)
log_softmax_of.rows(lambda x, axis: ("x",) if axis else ())


@log_softmax_of.grad(numpy=True)
def _(g, out, axis):
    return g - jnp.exp(out) * jnp.sum(g, axis=axis, keepdims=True) if out.ndim else jnp.zeros_like(g)


@composite(plain=True)
def log_softmax(x: Tensor, axis: int = -1, dtype: DTypeArg = None) -> Tensor:
    """Logarithm of the softmax along an axis: ``x - log(sum(exp(x)))``, without overflow.

    Args:
        x: Input tensor of a floating-point dtype, or of any dtype if ``dtype`` says what to cast it to.
        axis: Axis over which the exponentials are summed. Default: -1.
        dtype: Data type that ``x`` is cast to before the computation; ``None`` keeps that of ``x``. Default: None.

    Returns:
        Tensor of the shape of ``x``, of ``dtype`` if it is given.

    Examples:
        >>> round(bireme.nn.functional.log_softmax(bireme.to_tensor([0.0, 0.0])).tolist()[0], 4)
        -0.6931
    """
    return log_softmax_of(x if dtype is None or dtype is x.dtype else cast(x, dtype), axis)


@composite(plain=True)
def swish(x: Tensor) -> Tensor:
    """Swish: ``x * sigmoid(x)``, the same function as ``silu``.

    Args:
        x: Input tensor of a floating-point or complex dtype.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> round(bireme.nn.functional.swish(bireme.to_tensor([1.0])).item(), 4)
        0.7311
    """
    return silu_of(x)


@op(dtypes=FLOAT | COMPLEX, numpy=True, c_ops={"logsigmoid": "x"}, elementwise=True)
def log_sigmoid(x: Tensor) -> Tensor:
    """Logarithm of the sigmoid: ``-log(1 + exp(-x))``, without overflow.

    Args:
        x: Input tensor of a floating-point or complex dtype.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> round(bireme.nn.functional.log_sigmoid(bireme.to_tensor([0.0])).item(), 4)
        -0.6931
    """
    if jnp.iscomplexobj(x):
        below = jnp.real(x) < 0
        return jnp.where(below, x, 0) - jnp.log1p(jnp.exp(jnp.where(below, x, -x)))
    return jnp.minimum(x, 0) - jnp.log1p(jnp.exp(-jnp.abs(x)))


log_sigmoid.infer(same)
log_sigmoid.grad(lambda g, x: g * conj_of(_sigmoid(-x)), numpy=True)


def _mish_gate(x):
    """tanh(log(1 + exp(x))) as a fraction of exponentials: 1 to all digits where exp would overflow."""
    e = jnp.exp(jnp.minimum(x, 20 if x.dtype.itemsize > 2 else 5))
    return e * (e + 2) / (e * (e + 2) + 2)


@op(dtypes=FLOAT, numpy=True, c_ops={"mish": "x threshold:=20.0"}, elementwise=True)
def mish(x: Tensor) -> Tensor:
    """Mish: ``x * tanh(log(1 + exp(x)))``.

    Args:
        x: Input tensor of a floating-point dtype.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> round(bireme.nn.functional.mish(bireme.to_tensor([1.0])).item(), 4)
        0.8651
    """
    return x * _mish_gate(x)


mish.infer(same)


@mish.grad(numpy=True)
def _(g, x):
    t = _mish_gate(x)
    return g * (t + x * (1 - t * t) * _sigmoid(x))


@op(dtypes=FLOAT | COMPLEX, numpy=True, elementwise=True)
def softsign(x: Tensor) -> Tensor:
    """Softsign: ``x / (1 + abs(x))``.

    Args:
        x: Input tensor of a floating-point or complex dtype.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.softsign(bireme.to_tensor([-1.0, 3.0])).tolist()
        [-0.5, 0.75]
    """
    return x / (1 + jnp.abs(x))


softsign.infer(same)


@softsign.grad(numpy=True)
def _(g, x):
    size = jnp.abs(x)
    if not jnp.iscomplexobj(x):
        return g / jnp.square(1 + size)
    # the magnitude of a complex number changes only by the part of the gradient along it
    along = jnp.real(jnp.conj(g) * x) / jnp.where(size == 0, 1, size)
    return g / (1 + size) - along * x / jnp.square(1 + size)


@op(dtypes=FLOAT, numpy=True, amp="high", kernels="tanh_shrink", c_ops={"tanh_shrink": "x"}, elementwise=True)
def tanhshrink(x: Tensor) -> Tensor:
    """Difference between each element and its hyperbolic tangent: ``x - tanh(x)``.

    Args:
        x: Input tensor of a floating-point dtype.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> [round(y, 4) for y in bireme.nn.functional.tanhshrink(bireme.to_tensor([-1.0, 0.0, 1.0])).tolist()]
        [-0.2384, 0.0, 0.2384]
    """
    return x - jnp.tanh(x)


tanhshrink.infer(same)
tanhshrink.grad(lambda g, x: g * jnp.square(jnp.tanh(x)), numpy=True)


@composite(plain=True)
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Gated linear unit: the first half of ``x`` along an axis times the sigmoid of the second half.

    Args:
        x: Input tensor of a floating-point dtype, with an even size along ``axis``.
        axis: Axis that is halved. Default: -1.

    Returns:
        Tensor of the shape of ``x`` with half the size along ``axis``.

    Raises:
        ValueError: If the size along ``axis`` is odd.

    Examples:
        >>> bireme.nn.functional.glu(bireme.to_tensor([2.0, 0.0])).tolist()
        [1.0]
    """
    if not -x.ndim <= axis < x.ndim:
        raise errors.bad("glu(axis)", f"an axis in [{-x.ndim}, {x.ndim - 1}]", axis, kind=errors.OutOfRangeError)
    if x.dtype not in FLOAT:
        raise errors.bad(
            "glu(x)", "one of bfloat16, float16, float32, float64", described=x.dtype.name, kind=errors.DtypeError
        )
    if x.shape[axis] % 2:
        raise errors.bad("glu(x)", f"an even size of axis {axis}", x)
    a, b = split(x, 2, axis)
    return a * sigmoid(b)


def _largest_numpy(x, axis):
    made = np.zeros(x.shape, x.dtype) if x.ndim else np.ones((), x.dtype)
    if x.ndim and x.size:
        np.put_along_axis(made, np.argmax(x, axis, keepdims=True), 1, axis)
    return made


@op(internal=True, dtypes=FLOAT, passes="x", numpy=_largest_numpy)
def one_hot_of_largest(x: Tensor, axis: Axis) -> Tensor:
    """1 at the first largest element along an axis and 0 elsewhere; gradients pass as if nothing had been done."""
    if x.ndim == 0:
        return jnp.ones_like(x)
    at = jnp.argmax(x, axis=axis, keepdims=True) if x.size else jnp.zeros(x.shape, int)
    return (lax.broadcasted_iota(at.dtype, x.shape, axis) == at).astype(x.dtype)


one_hot_of_largest.infer(lambda x: x)
one_hot_of_largest.grad(lambda g: g, numpy=True)


@composite()
def gumbel_softmax(x: Tensor, temperature: float = 1.0, hard: bool = False, axis: int = -1) -> Tensor:
    """Sample from a categorical distribution, differentiably: ``softmax((x + noise) / temperature)`` with Gumbel noise.

    Args:
        x: Unnormalized log-probabilities, of a floating-point dtype.
        temperature: Positive number; the lower it is, the closer each sample is to one-hot. Default: 1.0.
        hard: Whether to return one-hot samples; their gradient is that of the soft ones. Default: False.
        axis: Axis of the categories. Default: -1.

    Returns:
        Tensor of the shape and dtype of ``x``, whose elements along ``axis`` add up to 1.

    Examples:
        >>> y = bireme.nn.functional.gumbel_softmax(bireme.to_tensor([0.0, 1.0]))
        >>> round(y.sum().item(), 4)
        1.0
    """
    if temperature <= 0:
        raise errors.bad(
            "gumbel_softmax(temperature)", "a positive number", temperature, kind=errors.for_number(temperature)
        )
    if x.dtype not in FLOAT:
        raise errors.bad(
            "gumbel_softmax(x)",
            "one of bfloat16, float16, float32, float64",
            described=x.dtype.name,
            kind=errors.DtypeError,
        )
    y = softmax_of((x + gumbel_of(x.shape, x.dtype)) / temperature, axis)
    return one_hot_of_largest(y, axis) if hard else y


@op(internal="gumbel", differentiable=False, numpy=True)
def gumbel_of(shape: Shape, dtype: DTypeArg, key: Key = None) -> Tensor:
    """Samples of the Gumbel distribution; use `gumbel_softmax`."""
    wide = jnp.float64 if dtype.np == np.float64 else jnp.float32
    return (-jnp.log(exponential_of(key, shape, wide))).astype(dtype.np)


gumbel_of.infer(lambda shape, dtype: sig_of(shape, dtype))
