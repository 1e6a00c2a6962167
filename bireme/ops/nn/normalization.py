"""Normalization: over the last axes, the batch, groups of channels, neighbouring channels, and to norm 1."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.conversion import ints
from bireme.core.declare.op import Ints, Sizes, Tensor, composite, op
from bireme.ops._shared.barrier import tie
from bireme.ops._shared.compiler_hints import fresh, in_rows
from bireme.ops._shared.precision import widen
from bireme.ops.linalg.norms import norm
from bireme.ops.nn import normalization_numpy
from bireme.ops.optimizer.updates import unless_invalid


def _moments(x, axes, epsilon, one_pass):
    """Mean and 1 / deviation, in float32 at least.

    Two passes on CPU: one would lose digits for large means. On a GPU the row is read once, by the kernel that makes
    it, and summed in float64, which keeps the digits and costs nothing beside the reading.
    """
    kind = jnp.promote_types(x.dtype, jnp.float32)
    if one_pass and x.dtype != jnp.float64:
        row = x.astype(jnp.float64)
        mean = jnp.mean(row, axis=axes, keepdims=True)
        variance = jnp.maximum(jnp.mean(row * row, axis=axes, keepdims=True) - mean * mean, 0).astype(kind)
        mean = mean.astype(kind)
    else:
        x = widen(x)
        mean = jnp.mean(x, axis=axes, keepdims=True)
        variance = jnp.mean(jnp.square(x - mean), axis=axes, keepdims=True)
    return mean, 1 / jnp.sqrt(variance + epsilon.astype(kind))


def _normalised(x, axes, epsilon, one_pass=False):
    """(x - mean) / deviation, and 1 / deviation."""
    mean, inv = _moments(x, axes, epsilon, one_pass)
    return (widen(x) - mean) * inv, inv


def _forward(x, weight, bias, epsilon, axes, one_pass=False):
    y, _ = _normalised(x, axes, epsilon, one_pass)
    if weight is not None:
        y = y * widen(weight)
    if bias is not None:
        y = y + widen(bias)
    return y.astype(x.dtype)


@op(
    internal="layer_norm",
    dtypes=FLOAT,
    numpy=normalization_numpy.layer_norm,
    numbers={"epsilon": "float32"},
    amp="high",
)
def layer_norm_of(x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: Tensor | float, axes: Ints) -> Tensor:
    """Normalized over the last axes; use `layer_norm`."""
    return _forward(x, weight, bias, epsilon, axes)


layer_norm_of.infer(lambda x: x)


@layer_norm_of.on("cuda")
def _(x, weight, bias, epsilon, axes):
    return _forward(in_rows(x), weight, bias, epsilon, axes, one_pass=True)


@layer_norm_of.grad(numpy=normalization_numpy.layer_norm_grad)
def _(g, x, weight, bias, epsilon, axes):
    y, inv = _normalised(x, axes, epsilon)  # as in forward, so that XLA computes it once
    d = widen(g) if weight is None else widen(g) * widen(weight)
    rows = jnp.mean(d, axis=axes, keepdims=True), jnp.mean(d * y, axis=axes, keepdims=True)
    return _norm_grads(g, x, weight, bias, axes, y, inv, d, *rows)


@layer_norm_of.grad(on="cuda")
def _(g, x, weight, bias, epsilon, axes):
    x, g = in_rows(x), in_rows(g)
    mean, inv = _moments(x, axes, epsilon, one_pass=True)  # as in forward, so that XLA computes them once
    y = (widen(fresh(x)) - mean) * inv
    d = widen(g) if weight is None else widen(g) * widen(weight)
    # one number a row is kept: to weigh recomputing it in every reader takes XLA half of a compile
    rows = fresh((jnp.mean(d, axis=axes, keepdims=True), jnp.mean(d * y, axis=axes, keepdims=True)))
    return _norm_grads(g, x, weight, bias, axes, y, inv, d, *rows)


def _norm_grads(g, x, weight, bias, axes, y, inv, d, average, dot):
    """Gradients of operands, weight and bias: `d` is that of the normalized rows `y`, `average` and `dot` its two
    means.
    """
    wide = widen(g)
    grads = [((d - average - y * dot) * inv).astype(x.dtype)]
    front = tuple(range(x.ndim - len(axes)))
    if weight is not None:
        grads.append(jnp.sum(wide * y, axis=front).reshape(weight.shape).astype(weight.dtype))
    if bias is not None:
        grads.append(jnp.sum(wide, axis=front).reshape(bias.shape).astype(bias.dtype))
    return (*grads, None)


@composite(plain="x")
def layer_norm(x: Tensor, normalized_shape: Sizes, weight: Tensor | None = None, bias: Tensor | None = None,
               epsilon: float = 1e-05) -> Tensor:  # fmt: skip
    """Normalize over the last axes to mean 0 and variance 1, then scale and shift.

    The result is ``(x - mean) / sqrt(variance + epsilon) * weight + bias``, with the biased variance; statistics of
    half precision are computed in float32.

    Args:
        x: Input tensor of a floating-point dtype whose last axes have the shape ``normalized_shape``.
        normalized_shape: Shape of the axes to normalize over: an integer or a list.
        weight: Scales, one for each element of ``normalized_shape``; ``None`` means 1. Default: None.
        bias: Shifts, one for each element of ``normalized_shape``; ``None`` means 0. Default: None.
        epsilon: Number added to the variance. Default: 1e-05.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: If the last axes of ``x`` have another shape.

    Examples:
        >>> bireme.nn.functional.layer_norm(bireme.to_tensor([[1.0, 3.0]]), 2, epsilon=0.0).tolist()
        [[-1.0, 1.0]]
    """
    wanted = _normalized(normalized_shape)
    n = len(wanted)
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and t._value.sig.size != math.prod(wanted):
            raise errors.bad(f"layer_norm({name})", f"{math.prod(wanted)} elements", t)
        if t is not None and t.dtype.is_complex:
            raise errors.bad(f"layer_norm({name})", "real numbers", t, kind=errors.DtypeError)
    shaped = [t if t is None or n == 1 or t.shape == wanted else t.reshape(wanted) for t in (weight, bias)]
    return layer_norm_of(x, *shaped, epsilon, tuple(range(x.ndim - n, x.ndim)))


def _normalized(normalized_shape: Sizes) -> list[int]:
    return list(ints(normalized_shape, 0, "layer_norm(normalized_shape)") or ())


@layer_norm.check
def _(x, normalized_shape):
    wanted = _normalized(normalized_shape)
    if not wanted or list(x.shape[-len(wanted) :]) != wanted:
        raise errors.bad(
            "layer_norm(x)",
            f"last dimensions of shape {wanted}",
            described=f"a Tensor of shape {list(x.shape)}, {x.dtype.name}",
        )


# ---------------------------------------------------------------- over the batch

LAST = ("NLC", "NHWC", "NDHWC")
FIRST = ("NC", "NCL", "NCHW", "NCDHW")


def _channel_axis(name: str, x: Any, data_format: Any) -> int:
    """The axis of the channels, of a tensor with a batch and channels."""
    if data_format not in FIRST and data_format not in LAST:
        raise errors.bad(f"{name}(data_format)", f"one of {', '.join(map(repr, [*FIRST, *LAST]))}", data_format)
    if x.ndim < 2:
        raise errors.bad(
            f"{name}(x)",
            "at least 2 dimensions, batch and channels",
            described=f"shape {list(x.shape)}",
            kind=errors.ShapeError,
        )
    return x.ndim - 1 if data_format in LAST else 1


def _check_channels(name: str, x: Any, axis: int, **vectors: Any) -> None:
    count, shapes = x.shape[axis], {which: tuple(t.shape) for which, t in vectors.items() if t is not None}
    for which, shape in shapes.items():
        if shape == (count,):
            continue
        if len(shape) == 1 and len(shapes) > 1 and set(shapes.values()) == {shape}:  # they agree: it is the input
            raise errors.bad(
                f"{name}(x)",
                f"{shape[0]} channels in axis {axis}, as {which} has",
                described=f"shape {list(x.shape)}",
                kind=errors.ShapeError,
            )
        raise errors.bad(
            f"{name}({which})",
            f"shape [{count}], one element per channel",
            described=f"shape {list(shape)}",
            kind=errors.ShapeError,
        )


def _of_channels(v, like, axis):
    """A number for each channel, in a shape that broadcasts."""
    return widen(v).astype(widen(like).dtype).reshape([-1 if i == axis else 1 for i in range(like.ndim)])


def _channel_sum(x, axis):
    """Sum for each channel; first over the axes behind it, which is faster than over all at once."""
    if axis < x.ndim - 1:
        x = jnp.sum(x, axis=tuple(range(axis + 1, x.ndim)))
    return jnp.sum(x, axis=tuple(range(axis)))


def _over_batch(x, epsilon, axis, one_pass):
    """(x - mean) / deviation, and for each channel 1 / deviation, mean and variance."""
    x = widen(x)
    part = 1 / max(1, x.size // max(1, x.shape[axis]))
    first = (
        x[tuple([slice(None) if i == axis else slice(0, 1) for i in range(x.ndim)])] if one_pass and x.size else None
    )
    d = x if first is None else x - first
    mean = _channel_sum(d, axis) * part
    if first is None:
        d = d - _of_channels(mean, x, axis)
        variance = _channel_sum(d * d, axis) * part
    else:
        variance = jnp.maximum(_channel_sum(d * d, axis) * part - mean * mean, 0)
        d = d - _of_channels(mean, x, axis)
        mean = mean + first.reshape(-1)
    inv = 1 / jnp.sqrt(variance + epsilon.astype(x.dtype))
    return d * _of_channels(inv, x, axis), inv, mean, variance


def _batch_forward(x, running_mean, running_var, weight, bias, momentum, epsilon, axis, one_pass=False):
    y, _, mean, variance = _over_batch(x, epsilon, axis, one_pass)
    if weight is not None:
        y = y * _of_channels(weight, x, axis)
    if bias is not None:
        y = y + _of_channels(bias, x, axis)
    old = momentum.astype(mean.dtype)
    kept = [
        (widen(r).astype(mean.dtype) * old + now * (1 - old)).astype(r.dtype)
        for r, now in ((running_mean, mean), (running_var, variance))
    ]
    return [y.astype(x.dtype), *kept]


@op(internal="batch_norm", dtypes=FLOAT, numpy=normalization_numpy.batch_norm,
    numbers={"epsilon": "float32", "momentum": "float32"})  # fmt: skip
def batch_norm_of(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: Tensor | float,
    epsilon: Tensor | float,
    axis: int,
) -> list[Tensor]:
    """Normalized over all axes but the channels', and the running statistics that follow; use `batch_norm`."""
    return _batch_forward(x, running_mean, running_var, weight, bias, momentum, epsilon, axis)


@batch_norm_of.on("cuda")
def _(x, running_mean, running_var, weight, bias, momentum, epsilon, axis):
    return _batch_forward(x, running_mean, running_var, weight, bias, momentum, epsilon, axis, one_pass=True)


batch_norm_of.infer(lambda x, running_mean, running_var: [x, running_mean, running_var])


@batch_norm_of.grad(numpy=normalization_numpy.batch_norm_grad)
def _(g, x, weight, bias, momentum, epsilon, axis, sigs):
    return _batch_grads(g, x, weight, bias, momentum, epsilon, axis, sigs)


@batch_norm_of.grad(on="cuda")
def _(g, x, weight, bias, momentum, epsilon, axis, sigs):
    return _batch_grads(g, x, weight, bias, momentum, epsilon, axis, sigs, one_pass=True)


def _batch_grads(g, x, weight, bias, momentum, epsilon, axis, sigs, one_pass=False):
    y, inv, _, _ = _over_batch(x, epsilon, axis, one_pass)  # as in forward, so that XLA computes it once
    wide, count = widen(g[0]), max(1, x.size // max(1, x.shape[axis]))
    old = momentum.astype(y.dtype)
    mean_grad, variance_grad = [widen(t).astype(y.dtype) for t in g[1:]]
    total, dot = _channel_sum(wide, axis), _channel_sum(wide * y, axis)
    scale = inv if weight is None else inv * widen(weight).astype(y.dtype)
    level = (scale * total - mean_grad * (1 - old)) / count
    slope = (scale * dot - variance_grad * (1 - old) * 2 / inv) / count
    found = wide * _of_channels(scale, x, axis) - _of_channels(level, x, axis) - y * _of_channels(slope, x, axis)
    grads = [found.astype(x.dtype), mean_grad * old, variance_grad * old]
    if weight is not None:
        grads.append(dot.astype(weight.dtype))
    if bias is not None:
        grads.append(total.astype(bias.dtype))
    return (*[t.astype(s.dtype.np) for t, s in zip(grads, sigs)], None, None)


@op(internal=True, dtypes=FLOAT, numpy=True, numbers={"epsilon": "float32"}, kernels="batch_norm")
def normalised_by(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    epsilon: Tensor | float,
    axis: int,
) -> Tensor:
    """Normalized with statistics that are given; use `batch_norm`."""
    scale = 1 / jnp.sqrt(_of_channels(variance, x, axis) + epsilon.astype(widen(x).dtype))
    if weight is not None:
        scale = scale * _of_channels(weight, x, axis)
    y = (widen(x) - _of_channels(mean, x, axis)) * scale
    return (y if bias is None else y + _of_channels(bias, x, axis)).astype(x.dtype)


normalised_by.infer(lambda x: x)


@composite()
def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
) -> Tensor:
    """Normalize each channel to mean 0 and variance 1, then scale and shift it.

    In training the statistics are those of the batch, with the biased variance, and the running statistics are updated
    in place: ``running = momentum * running + (1 - momentum) * batch``. Otherwise the running statistics are used. In
    training a batch with one element for each channel is returned as it is.

    Args:
        x: Input tensor of a floating-point dtype, of at least 2 dimensions.
        running_mean: Running means, of shape ``[C]``.
        running_var: Running variances, of shape ``[C]``.
        weight: Scales, of shape ``[C]``; ``None`` means 1. Default: None.
        bias: Shifts, of shape ``[C]``; ``None`` means 0. Default: None.
        training: Whether to use and record the statistics of the batch. Default: False.
        momentum: Weight of the old running statistics in the new ones. Default: 0.9.
        epsilon: Number added to the variance. Default: 1e-05.
        data_format: Whether channels are axis 1 (``'NC'``, ``'NCL'``, ``'NCHW'``, ``'NCDHW'``) or the last axis
            (``'NLC'``, ``'NHWC'``, ``'NDHWC'``). Default: ``'NCHW'``.
        use_global_stats: Whether to use the running statistics; ``None`` means if not ``training``. Default: None.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> mean, x = bireme.zeros([1]), bireme.to_tensor([[1.0], [3.0]])
        >>> y = bireme.nn.functional.batch_norm(x, mean, bireme.ones([1]), training=True, momentum=0.5)
        >>> mean.tolist()
        [1.0]
    """
    axis = _channel_axis("batch_norm", x, data_format)
    _check_channels("batch_norm", x, axis, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not training if use_global_stats is None else use_global_stats:
        return normalised_by(x, running_mean, running_var, weight, bias, epsilon, axis)
    if x._value.sig.size == x.shape[axis]:  # no variance of one element: Paddle returns the input
        y = x * 1.0
        for t in (weight, bias):  # which have no part in it, and gradients all the same: zeros
            y = y if t is None else tie([y], t)[0]
        return y
    y, mean, variance = batch_norm_of(x, running_mean, running_var, weight, bias, momentum, epsilon, axis)
    if x._value.sig.size:
        mean, variance = unless_invalid([running_mean, running_var], [mean, variance])
        running_mean._assign_value(mean)
        running_var._assign_value(variance)
    return y


# ---------------------------------------------------------------- over groups of channels


def _grouped(shape: Any, groups: int, axis: int) -> tuple[list[int], tuple[int, ...], list[int]]:
    """The shape with the channels' axis split into groups, the axes of a group, the shape of one number a channel."""
    parts = [groups, shape[axis] // groups]
    axes = tuple([i if i < axis else i + 1 for i in range(1, len(shape)) if i != axis] + [axis + 1])
    cut = [*shape[:axis], *parts, *shape[axis + 1 :]]
    return cut, tuple(sorted(axes)), [1] * axis + parts + [1] * (len(shape) - axis - 1)


def _group_forward(x, weight, bias, epsilon, groups, axis, one_pass=False):
    cut, axes, numbers = _grouped(x.shape, groups, axis)
    y, _ = _normalised(x.reshape(cut), axes, epsilon, one_pass)
    if weight is not None:
        y = y * widen(weight).reshape(numbers)
    if bias is not None:
        y = y + widen(bias).reshape(numbers)
    return y.reshape(x.shape).astype(x.dtype)


@op(internal="group_norm", dtypes=FLOAT, numpy=normalization_numpy.group_norm, numbers={"epsilon": "float32"}, amp="high",
    kernels="instance_norm")  # fmt: skip
def group_norm_of(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: Tensor | float, groups: int, axis: int
) -> Tensor:
    """Normalized over each group of channels of each sample; use `group_norm`."""
    return _group_forward(x, weight, bias, epsilon, groups, axis)


group_norm_of.infer(lambda x: x)


@group_norm_of.on("cuda")
def _(x, weight, bias, epsilon, groups, axis):
    return _group_forward(x, weight, bias, epsilon, groups, axis, one_pass=True)


@group_norm_of.grad(numpy=normalization_numpy.group_norm_grad)
def _(g, x, weight, bias, epsilon, groups, axis):
    return _group_grads(g, x, weight, bias, epsilon, groups, axis)


@group_norm_of.grad(on="cuda")
def _(g, x, weight, bias, epsilon, groups, axis):
    return _group_grads(g, x, weight, bias, epsilon, groups, axis, one_pass=True)


def _group_grads(g, x, weight, bias, epsilon, groups, axis, one_pass=False):
    cut, axes, numbers = _grouped(x.shape, groups, axis)
    y, inv = _normalised(x.reshape(cut), axes, epsilon, one_pass)
    wide = widen(g).reshape(cut)
    d = wide if weight is None else wide * widen(weight).reshape(numbers)
    mean, dot = jnp.mean(d, axis=axes, keepdims=True), jnp.mean(d * y, axis=axes, keepdims=True)
    grads = [((d - mean - y * dot) * inv).reshape(x.shape).astype(x.dtype)]
    if weight is not None:
        grads.append(_channel_sum((wide * y).reshape(x.shape), axis).astype(weight.dtype))
    if bias is not None:
        grads.append(_channel_sum(wide.reshape(x.shape), axis).astype(bias.dtype))
    return (*grads, None)


@composite(
    plain=True, c_ops={"group_norm": "x scale:weight bias epsilon=1e-05 groups:num_groups=-1 data_format='NCHW'"}
)
def group_norm(
    x: Tensor,
    num_groups: int,
    epsilon: float = 1e-05,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """Normalize each group of channels of each sample to mean 0 and variance 1, then scale and shift each channel.

    Args:
        x: Input tensor of a floating-point dtype, of at least 2 dimensions.
        num_groups: Number of groups; a divisor of the number of channels.
        epsilon: Number added to the variance. Default: 1e-05.
        weight: Scales, of shape ``[C]``; ``None`` means 1. Default: None.
        bias: Shifts, of shape ``[C]``; ``None`` means 0. Default: None.
        data_format: Whether channels are axis 1 (``'NCL'``, ``'NCHW'``, ``'NCDHW'``) or the last axis (``'NLC'``,
            ``'NHWC'``, ``'NDHWC'``). Default: ``'NCHW'``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.group_norm(bireme.to_tensor([[1.0, 3.0, 5.0, 5.0]]), 2, 0.0625).tolist()
        [[-0.9701425433158875, 0.9701425433158875, 0.0, 0.0]]
    """
    if data_format == "NC":
        raise errors.bad("group_norm(data_format)", f"one of {', '.join(map(repr, [*FIRST[1:], *LAST]))}", data_format)
    axis = _channel_axis("group_norm", x, data_format)
    if num_groups < 1 or x.shape[axis] % num_groups:
        raise errors.bad("group_norm(num_groups)", f"a divisor of the {x.shape[axis]} channels", num_groups)
    _check_channels("group_norm", x, axis, weight=weight, bias=bias)
    return group_norm_of(x, weight, bias, epsilon, num_groups, axis)


@composite(plain=True, c_ops={"instance_norm": "x scale:weight bias epsilon:eps=1e-05"})
def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-05,
    data_format: str = "NCHW",
) -> Tensor:
    """Normalize each channel of each sample to mean 0 and variance 1, then scale and shift each channel.

    Args:
        x: Input tensor of a floating-point dtype, of at least 2 dimensions; channels are axis 1.
        running_mean: Not used. Default: None.
        running_var: Not used. Default: None.
        weight: Scales, of shape ``[C]``; ``None`` means 1. Default: None.
        bias: Shifts, of shape ``[C]``; ``None`` means 0. Default: None.
        use_input_stats: Not used: statistics are always those of the input. Default: True.
        momentum: Not used. Default: 0.9.
        eps: Number added to the variance. Default: 1e-05.
        data_format: Checked, but axis 1 is that of the channels whatever it says. Default: ``'NCHW'``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.instance_norm(bireme.to_tensor([[[1.0, 3.0]]]), eps=0.0).tolist()
        [[[-1.0, 1.0]]]
    """
    _channel_axis("instance_norm", x, data_format)
    channels = x.shape[1]  # Paddle takes the second axis for the channels' whatever data_format says
    _check_channels("instance_norm", x, 1, weight=weight, bias=bias)
    return group_norm_of(x, weight, bias, eps, channels, 1) if channels else x * 1.0


# ---------------------------------------------------------------- over neighbours, and to length one


@op(internal="local_response_norm", dtypes=FLOAT, numpy=True,
    numbers={"alpha": "float32", "beta": "float32", "k": "float32"})  # fmt: skip
def local_response_norm_of(
    x: Tensor, alpha: Tensor | float, beta: Tensor | float, k: Tensor | float, size: int, axis: int
) -> Tensor:
    """Divided by a power of the mean square of neighbouring channels; use `local_response_norm`."""
    wide = widen(x)
    alpha, beta, k = [t.astype(wide.dtype) for t in (alpha, beta, k)]
    return (wide * (k + alpha * (_neighbours(wide * wide, size, size // 2, axis) / size)) ** -beta).astype(x.dtype)


def _neighbours(x, size, before, axis):
    """The sum of `size` neighbours along an axis, so many of them before the element."""
    n, at = x.shape[axis], [slice(None)] * axis
    grown = jnp.pad(x, [(before, size - 1 - before) if i == axis else (0, 0) for i in range(x.ndim)])
    return sum([grown[(*at, slice(i, i + n))] for i in range(size)])


local_response_norm_of.infer(lambda x: x)


@local_response_norm_of.grad(numpy=True)
def _(g, x, alpha, beta, k, size, axis):
    kind, x, g = g.dtype, widen(x), widen(g)
    alpha, beta, k = [t.astype(x.dtype) for t in (alpha, beta, k)]
    base = k + alpha * (_neighbours(x * x, size, size // 2, axis) / size)
    share = g * x * base ** (-beta - 1)
    found = g * base**-beta - (2 * alpha * beta / size) * x * _neighbours(share, size, (size - 1) // 2, axis)
    return found.astype(kind), None, None, None


@composite(plain=True)
def local_response_norm(
    x: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0, data_format: str = "NCHW"
) -> Tensor:
    """Divide each element by a power of the mean square of neighbouring channels.

    The result is ``x / (k + alpha * mean(x ** 2)) ** beta``, where the mean is over ``size`` channels around the
    element; channels out of range count as 0.

    Args:
        x: Input tensor of a floating-point dtype, of at least 3 dimensions.
        size: Number of neighbouring channels, at least 1.
        alpha: Factor of the mean square. Default: 0.0001.
        beta: Exponent. Default: 0.75.
        k: Number added to the mean square. Default: 1.0.
        data_format: Whether channels are axis 1 (``'NCL'``, ``'NCHW'``, ``'NCDHW'``) or the last axis (``'NLC'``,
            ``'NHWC'``, ``'NDHWC'``). Default: ``'NCHW'``.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.local_response_norm(bireme.ones([1, 1, 1]), 1, alpha=3.0, beta=0.5).tolist()
        [[[0.5]]]
    """
    if x.ndim < 3:
        raise errors.bad(
            "local_response_norm(x)",
            "at least 3 dimensions",
            described=f"shape {list(x.shape)}",
            kind=errors.ShapeError,
        )
    if not all(x.shape[1:]):
        raise errors.bad(
            "local_response_norm(x)",
            "at least one element along each axis but the first",
            described=f"shape {list(x.shape)}",
            kind=errors.ShapeError,
        )
    if size < 1:
        raise errors.bad("local_response_norm(size)", "a positive integer", size, kind=errors.for_number(size))
    if data_format == "NC":
        raise errors.bad(
            "local_response_norm(data_format)", f"one of {', '.join(map(repr, [*FIRST[1:], *LAST]))}", data_format
        )
    axis = _channel_axis("local_response_norm", x, data_format)
    return local_response_norm_of(x, alpha, beta, k, size, axis)


@composite(plain=True)
def normalize(x: Tensor, p: float = 2, axis: int = 1, epsilon: float = 1e-12) -> Tensor:
    """Divide a tensor by its p-norm along an axis: ``x / max(norm(x), epsilon)``.

    Args:
        x: Input tensor of a floating-point dtype.
        p: The p of the norm. Default: 2.
        axis: Axis along which the norm is computed; the default needs at least 2 dimensions. Default: 1.
        epsilon: Least number to divide by, so that zeros stay zeros. Default: 1e-12.

    Returns:
        Tensor of the shape and dtype of ``x``.

    Examples:
        >>> bireme.nn.functional.normalize(bireme.to_tensor([[3.0, 4.0]])).tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """
    if x.ndim and not -x.ndim <= axis < x.ndim:
        raise errors.bad("normalize(axis)", f"an axis in [{-x.ndim}, {x.ndim - 1}]", axis, kind=errors.OutOfRangeError)
    if not x.dtype.is_floating:
        raise errors.bad("normalize(x)", "a floating-point dtype", described=x.dtype.name, kind=errors.DtypeError)
    length = norm(x, p=float(p), axis=axis, keepdim=True)
    return x / length.clip(min=epsilon)
