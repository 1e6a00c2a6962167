"""Optimizer updates: one operator for all parameters of a group, so that a step is one program."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Attr, DTypeArg, Tensor, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import rows
from bireme.core.numpy_exec.rebinding import traced_once
from bireme.core.record import guards
from bireme.core.tensor.tensor import wrap
from bireme.ops.math.logic import logical_or
from bireme.ops.optimizer import updates_numpy

# numbers travel in float64 and take the parameters' precision inside
_NUMBERS = dict.fromkeys(("lr", "mu", "beta1", "beta2", "epsilon", "weight_decay", "clip_norm"), "float64")


def wide_of(x):
    return x.astype(jnp.float32) if x.dtype.itemsize < 4 else x


@op(internal=True, each=(), differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def sgd_update(params: list[Tensor], grads: list[Tensor], lr: Tensor | float) -> list[Tensor]:
    """Parameters after a step of plain gradient descent."""
    return [
        (wide_of(p) - lr.astype(wide_of(p).dtype) * g.astype(wide_of(p).dtype)).astype(p.dtype)
        for p, g in zip(params, grads)
    ]


sgd_update.infer(lambda params: params)
sgd_update.on_rows = rows.updates(sgd_update.numpy_form, ())


@op(
    internal=True,
    each=("decays",),
    differentiable=False,
    numbers=_NUMBERS,
    name_arg=False,
    numpy=updates_numpy.momentum,
)
def momentum_update(
    params: list[Tensor],
    grads: list[Tensor],
    velocities: list[Tensor],
    lr: Tensor | float,
    mu: Tensor | float,
    weight_decay: Tensor | float,
    *,
    use_nesterov: bool,
    decays: Attr,
) -> list[Tensor]:
    """Parameters and velocities after a step with momentum; `weight_decay` is added to the gradients that decay."""
    found = [
        _with_momentum(p, g, v, lr, mu, weight_decay, use_nesterov=use_nesterov, decay=bool(decay))
        for p, g, v, decay in zip(params, grads, velocities, decays)
    ]
    return [p for p, _ in found] + [v for _, v in found]


@traced_once
def _with_momentum(p, g, v, lr, mu, weight_decay, *, use_nesterov, decay):
    wide = wide_of(p)
    rate, factor, g = lr.astype(wide.dtype), mu.astype(wide.dtype), g.astype(wide.dtype)
    if decay:
        g = g + weight_decay.astype(wide.dtype) * wide
    v = factor * v + g
    return (wide - rate * (g + factor * v if use_nesterov else v)).astype(p.dtype), v


momentum_update.infer(lambda params, velocities: [*params, *velocities])


@op(
    internal=True,
    each=("lr_ratios", "decays", "by_rows"),
    differentiable=False,
    numbers=_NUMBERS,
    name_arg=False,
    numpy=True,
)
def adam_update(
    params: list[Tensor],
    grads: list[Tensor],
    moment1s: list[Tensor],
    moment2s: list[Tensor],
    beta1_pow: Tensor,
    beta2_pow: Tensor,
    lr: Tensor | float,
    beta1: Tensor | float,
    beta2: Tensor | float,
    epsilon: Tensor | float,
    weight_decay: Tensor | float,
    skip: Tensor | None = None,
    *,
    decoupled: bool,
    lr_ratios: Attr,
    decays: Attr,
    by_rows: Attr,
) -> list[Tensor]:
    """Parameters, moments and powers of the betas after a step of Adam, or of AdamW if `decoupled`; unchanged where
    `skip`, and, of those `by_rows`, in rows whose gradient is zero.
    """
    p1, p2 = beta1_pow * beta1.astype(beta1_pow.dtype), beta2_pow * beta2.astype(beta2_pow.dtype)
    made: dict[tuple, tuple] = {}
    for m, ratio in zip(moment1s, lr_ratios):
        if (m.dtype, ratio) not in made:
            made[m.dtype, ratio] = _of_adam(p1, p2, lr, ratio, beta1, beta2, epsilon, weight_decay, m.dtype)

    numbers = [made[m.dtype, ratio] for m, ratio in zip(moment1s, lr_ratios)]
    skip = None if skip is None else skip.reshape(())
    if params and isinstance(params[0], np.ndarray):
        if skip is not None and skip:
            return [*params, *moment1s, *moment2s, beta1_pow, beta2_pow]
        new, first, second = updates_numpy.adam(params, grads, moment1s, moment2s, numbers, decays, decoupled, by_rows)
        return [*new, *first, *second, p1, p2]
    found = [
        _adam(p, g, m, v, of_step, skip, decay=bool(decay), decoupled=decoupled, by_rows=bool(own))
        for p, g, m, v, of_step, decay, own in zip(params, grads, moment1s, moment2s, numbers, decays, by_rows)
    ]
    new, first, second = [[parts[k] for parts in found] for k in range(3)]
    return [*new, *first, *second, _unless(skip, beta1_pow, p1), _unless(skip, beta2_pow, p2)]


def _of_adam(p1, p2, lr, ratio, beta1, beta2, epsilon, weight_decay, kind):
    """What the updates read: epsilon times the root of the second correction, so that one division serves both."""
    root = jnp.sqrt(1 - p2)
    lr, epsilon = lr.astype(root.dtype), epsilon.astype(root.dtype)
    rate = (lr if ratio == 1 else lr * ratio).astype(kind)
    b1 = beta1.astype(kind)
    b2 = beta2.astype(kind)
    decay = weight_decay.astype(kind)
    numbers = (
        b1,
        1 - b1,
        b2,
        1 - b2,
        rate * (root / (1 - p1)).astype(kind),
        (epsilon * root).astype(kind),
        decay,
        1 - rate * decay,
    )
    return tuple([jnp.asarray(n) for n in numbers])  # NumPy multiplies faster by an array than by a scalar


@traced_once
def _adam(p, g, m, v, numbers, skip, *, decay, decoupled, by_rows):
    """One parameter and its moments."""
    moved = jnp.any(g != 0, axis=-1, keepdims=True) if by_rows else None
    b1, rest1, b2, rest2, rate, epsilon, weight_decay, shrink = numbers
    wide, g = p.astype(m.dtype), g.astype(m.dtype)
    if decay and decoupled:
        wide = wide * shrink
    elif decay:
        g = g + weight_decay * wide
    new_m = b1 * m + rest1 * g
    new_v = b2 * v + g * g * rest2
    step = new_m / (jnp.sqrt(new_v) + epsilon) * rate
    found = (wide - step).astype(p.dtype), new_m, new_v
    if by_rows:
        found = tuple([jnp.where(moved, new, old) for new, old in zip(found, (p, m, v))])
    return tuple([_unless(skip, old, new) for new, old in zip(found, (p, m, v))])


def _unless(skip, old, new):
    return new if skip is None else jnp.where(skip, old, new)


adam_update.infer(
    lambda params, moment1s, moment2s, beta1_pow, beta2_pow: [*params, *moment1s, *moment2s, beta1_pow, beta2_pow]
)
adam_update.on_rows = rows.updates(adam_update.numpy_form, ("moment1s", "moment2s"), moved=True, each="by_rows")


@op(internal=True, differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def clip_by_global_norm(grads: list[Tensor], clip_norm: Tensor | float, wide: DTypeArg) -> list[Tensor]:
    """Gradients scaled by one factor, so that the norm of all of them together is at most `clip_norm`."""
    # half precision overflows at 65504: its squares are summed in `wide`
    total = sum([_squares(g, wide=wide.np) for g in grads])
    limit = clip_norm.astype(wide.np)
    # the larger of norm and limit below the line: never a division by zero, and exactly 1 where nothing is clipped
    factor = limit / jnp.maximum(jnp.sqrt(total), limit)
    return [_scaled(g, factor) for g in grads]


@traced_once
def _squares(g, *, wide):
    """Their sum."""
    return jnp.sum(jnp.square(g.astype(wide)))


@traced_once
def _scaled(g, factor):
    """In the factor's type: one that is small is less than half precision holds."""
    return (g.astype(factor.dtype) * factor).astype(g.dtype)


clip_by_global_norm.infer(lambda grads: grads)


def _clipped_rows(grads: list, clip_norm: Any, wide: Any) -> list:
    values = [g.values if g.__class__ is rows.Rows else g for g in grads]
    scaled = clip_by_global_norm.numpy_form(values, clip_norm, wide)
    return [rows.Rows(g.index, s, g.count) if g.__class__ is rows.Rows else s for g, s in zip(grads, scaled)]


clip_by_global_norm.on_rows = rows.OnRows(_clipped_rows)


@op(internal=True, differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def clip_to_norm(grads: list[Tensor], clip_norm: Tensor | float, order: float, wide: DTypeArg) -> list[Tensor]:
    """Gradients scaled down to a norm of any order, and after them the norm they had."""
    norms = [_norm(g.astype(wide.np), order) for g in grads]
    # the norm of the norms, which is that of all elements unless the order is 0
    total = _norm(jnp.stack(norms), order)
    factor = jnp.minimum(clip_norm.astype(wide.np) / (total + jnp.asarray(1e-6, wide.np)), jnp.ones_like(total))
    return [*[_scaled(g, factor) for g in grads], total]


def _norm(x, order):
    size = jnp.abs(x)
    if order == math.inf:
        return jnp.max(size, initial=0)
    if order == 0:
        return jnp.sum((size != 0).astype(x.dtype))
    return jnp.sum(size) if order == 1 else jnp.sqrt(jnp.sum(size * size))


clip_to_norm.infer(lambda grads, wide: [*grads, sig_of((), wide)])


@op(internal=True, differentiable=False, name_arg=False,
    numpy=lambda flag, old, new: list(old if flag.reshape(()) else new))  # fmt: skip
def keep_unless(flag: Tensor, old: list[Tensor], new: list[Tensor]) -> list[Tensor]:
    """Each of `old` where `flag` is true, else the one of `new` at its index: a step that may turn out not to count."""
    return [jnp.where(flag.reshape(()), a, b) for a, b in zip(old, new)]


keep_unless.infer(lambda old: old)


@keep_unless.check
def _(flag, old, new):
    if flag.dtype is not dtypes.bool_ or flag.size != 1:
        raise errors.bad("keep_unless(flag)", "one bool", flag)
    if len(old) != len(new) or any(a is not b for a, b in zip(old, new)):
        raise errors.bad("keep_unless(new)", "tensors of the shapes and dtypes of old", new)


def invalid_so_far(skip: Tensor | None = None) -> Tensor | None:
    """`skip`, or whether a guard of the pending program fails; None where there is neither."""
    for flag in guards.open_guards():
        skip = wrap(flag) if skip is None else logical_or(skip, wrap(flag))
    return skip


def unless_invalid(old: list[Tensor], new: list[Tensor]) -> list[Tensor]:
    """What is written into state: `old` where a guard of the pending program fails, as for an index out of range."""
    invalid = invalid_so_far()
    return new if invalid is None else keep_unless(invalid, old, new)


@op(internal=True, each=(), carries=True, differentiable=False, name_arg=False, numpy=True)
def cast_all(tensors: list[Tensor], dtype: DTypeArg) -> list[Tensor]:
    """Tensors in another dtype, all of them by one operator."""
    return [x.astype(dtype.np) for x in tensors]


cast_all.infer(lambda tensors, dtype: [sig_of(s.shape, dtype) for s in tensors])


@op(internal=True, differentiable=False, name_arg=False, numpy=True)
def unscale(grads: list[Tensor], scale: Tensor) -> list[Tensor]:
    """Gradients divided by `scale`, and after them whether any element is not finite."""
    new = [(wide_of(g) / scale.reshape(()).astype(wide_of(g).dtype)).astype(g.dtype) for g in grads]
    found = [jnp.any(~jnp.isfinite(g)) for g in new]
    return [*new, jnp.any(jnp.stack(found)) if found else jnp.zeros((), bool)]


unscale.infer(lambda grads: [*grads, sig_of((), dtypes.bool_)])


@unscale.check
def _(grads, scale):
    if scale.size != 1:
        raise errors.bad("unscale(scale)", "a single number", scale, kind=errors.for_number(scale))
