"""Other optimizer updates than in `updates`: one operator for all parameters of a group."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax

from bireme.core.declare.op import Attr, Tensor, op
from bireme.core.numpy_exec import rows

# numbers travel in float64 and take the parameters' precision inside
_NUMBERS = dict.fromkeys(
    (
        "lr",
        "mu",
        "rho",
        "beta1",
        "beta2",
        "epsilon",
        "weight_decay",
        "momentum_decay",
        "least",
        "most",
        "shrink",
        "grow",
    ),
    "float64",
)


@op(internal=True, each=(), differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def adagrad_update(
    params: list[Tensor], grads: list[Tensor], moments: list[Tensor], lr: Tensor | float, epsilon: Tensor | float
) -> list[Tensor]:
    """Parameters and sums of squares after a step of Adagrad."""
    new, kept = [], []
    for p, g, m in zip(params, grads, moments):
        kind = m.dtype
        g = g.astype(kind)
        m = m + g * g
        new.append((p.astype(kind) - lr.astype(kind) * g / (jnp.sqrt(m) + epsilon.astype(kind))).astype(p.dtype))
        kept.append(m)
    return new + kept


adagrad_update.infer(lambda params, moments: [*params, *moments])
adagrad_update.on_rows = rows.updates(adagrad_update.numpy_form, ("moments",))


@op(internal=True, each=(), differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def adadelta_update(
    params: list[Tensor],
    grads: list[Tensor],
    squares: list[Tensor],
    steps: list[Tensor],
    lr: Tensor | float,
    rho: Tensor | float,
    epsilon: Tensor | float,
) -> list[Tensor]:
    """Parameters, mean squares of gradients and of steps after a step of Adadelta."""
    new, first, second = [], [], []
    for p, g, a, u in zip(params, grads, squares, steps):
        kind = a.dtype
        g, keep, tiny = g.astype(kind), rho.astype(kind), epsilon.astype(kind)
        a = keep * a + (1 - keep) * (g * g)
        step = jnp.sqrt((u + tiny) / (a + tiny)) * g
        new.append((p.astype(kind) - lr.astype(kind) * step).astype(p.dtype))
        first.append(a)
        second.append(keep * u + (1 - keep) * (step * step))
    return new + first + second


adadelta_update.infer(lambda params, squares, steps: [*params, *squares, *steps])


@op(internal=True, each=(), differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def adamax_update(
    params: list[Tensor],
    grads: list[Tensor],
    moments: list[Tensor],
    norms: list[Tensor],
    pows: list[Tensor],
    lr: Tensor | float,
    beta1: Tensor | float,
    beta2: Tensor | float,
    epsilon: Tensor | float,
) -> list[Tensor]:
    """Parameters, moments, infinity norms and powers of beta1 after a step of Adamax."""
    new, first, second, third = [], [], [], []
    for p, g, m, top, power in zip(params, grads, moments, norms, pows):
        kind = m.dtype
        g, b1 = g.astype(kind), beta1.astype(kind)
        m = b1 * m + (1 - b1) * g
        top = jnp.maximum(jnp.abs(g), beta2.astype(kind) * top + epsilon.astype(kind))
        rate = (lr.astype(power.dtype) / (1 - power)).reshape(()).astype(kind)
        new.append((p.astype(kind) - rate * (m / top)).astype(p.dtype))
        first.append(m)
        second.append(top)
        third.append(power * beta1.astype(power.dtype))
    return new + first + second + third


adamax_update.infer(lambda params, moments, norms, pows: [*params, *moments, *norms, *pows])


@op(internal=True, each=(), differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def rmsprop_update(
    params: list[Tensor],
    grads: list[Tensor],
    momenta: list[Tensor],
    squares: list[Tensor],
    means: list[Tensor],
    lr: Tensor | float,
    rho: Tensor | float,
    mu: Tensor | float,
    epsilon: Tensor | float,
    centered: bool,
) -> list[Tensor]:
    """Parameters, momenta, mean squares and means after a step of RMSProp."""
    new, first, second, third = [], [], [], []
    for p, g, v, a, mean in zip(params, grads, momenta, squares, means):
        kind = v.dtype
        g, keep = g.astype(kind), rho.astype(kind)
        a = keep * a + (1 - keep) * (g * g)
        if centered:
            mean = keep * mean + (1 - keep) * g
        # epsilon under the root, as in Paddle
        spread = (a - mean * mean if centered else a) + epsilon.astype(kind)
        v = mu.astype(kind) * v + lr.astype(kind) * g / jnp.sqrt(spread)
        new.append((p.astype(kind) - v).astype(p.dtype))
        first.append(v)
        second.append(a)
        third.append(mean)
    return new + first + second + third


rmsprop_update.infer(lambda params, momenta, squares, means: [*params, *momenta, *squares, *means])


@op(
    internal=True,
    each=("lr_ratios", "decays", "adapts"),
    differentiable=False,
    numbers=_NUMBERS,
    name_arg=False,
    numpy=True,
)
def lamb_update(
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
    *,
    lr_ratios: Attr,
    decays: Attr,
    adapts: Attr,
) -> list[Tensor]:
    """Parameters, moments and powers of the betas after a step of LAMB: Adam's, scaled to each parameter's norm."""
    p1, p2 = beta1_pow * beta1.astype(beta1_pow.dtype), beta2_pow * beta2.astype(beta2_pow.dtype)
    new, first, second = [], [], []
    for p, g, m, v, ratio, decay, adapt in zip(params, grads, moment1s, moment2s, lr_ratios, decays, adapts):
        kind = m.dtype
        wide, g = p.astype(kind), g.astype(kind)
        b1, b2 = beta1.astype(kind), beta2.astype(kind)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * (g * g)
        step = (m / (1 - p1).astype(kind)) / (jnp.sqrt(v / (1 - p2).astype(kind)) + epsilon.astype(kind))
        if decay:
            step = step + weight_decay.astype(kind) * wide
        rate = (lr if ratio == 1 else lr * ratio).astype(kind)
        if adapt:
            size, length = jnp.sqrt(jnp.sum(wide * wide)), jnp.sqrt(jnp.sum(step * step))
            usable = (size > 0) & (length > 0)
            rate = rate * jnp.where(
                usable, size / jnp.where(usable, length, jnp.ones_like(length)), jnp.ones_like(size)
            )
        new.append((wide - rate * step).astype(p.dtype))
        first.append(m)
        second.append(v)
    return [*new, *first, *second, p1, p2]


lamb_update.infer(
    lambda params, moment1s, moment2s, beta1_pow, beta2_pow: [*params, *moment1s, *moment2s, beta1_pow, beta2_pow]
)


@op(internal=True, each=(), differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def nadam_update(
    params: list[Tensor],
    grads: list[Tensor],
    decay_pows: list[Tensor],
    beta2_pows: list[Tensor],
    products: list[Tensor],
    moment1s: list[Tensor],
    moment2s: list[Tensor],
    lr: Tensor | float,
    beta1: Tensor | float,
    beta2: Tensor | float,
    epsilon: Tensor | float,
    momentum_decay: Tensor | float,
) -> list[Tensor]:
    """Parameters, the three running products and moments after a step of Adam with Nesterov's momentum."""
    out: list[list] = [[], [], [], [], [], []]
    for p, g, fading, power, product, m, v in zip(params, grads, decay_pows, beta2_pows, products, moment1s, moment2s):
        kind = m.dtype
        g, b1, b2, slow = g.astype(kind), beta1.astype(kind), beta2.astype(kind), momentum_decay.astype(kind)
        base = jnp.full_like(fading, 0.96)
        fading, power = fading * base, power * b2
        faded = jnp.power(fading, slow)
        now, then = b1 * (1 - 0.5 * faded), b1 * (1 - 0.5 * faded * jnp.power(base, slow))
        product = product * now
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * (g * g)
        mean = then * m / (1 - product * then) + (1 - now) * g / (1 - product)
        step = mean / (jnp.sqrt(v / (1 - power)) + epsilon.astype(kind))
        new = (p.astype(kind) - lr.astype(kind) * step).astype(p.dtype)
        for held, value in zip(out, (new, fading, power, product, m, v)):
            held.append(value)
    return [value for held in out for value in held]


nadam_update.infer(
    lambda params, decay_pows, beta2_pows, products, moment1s, moment2s: [
        *params,
        *decay_pows,
        *beta2_pows,
        *products,
        *moment1s,
        *moment2s,
    ]
)


@op(internal=True, each=(), differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def radam_update(
    params: list[Tensor],
    grads: list[Tensor],
    beta1_pows: list[Tensor],
    beta2_pows: list[Tensor],
    rhos: list[Tensor],
    moment1s: list[Tensor],
    moment2s: list[Tensor],
    lr: Tensor | float,
    beta1: Tensor | float,
    beta2: Tensor | float,
    epsilon: Tensor | float,
) -> list[Tensor]:
    """Parameters, powers of the betas, rhos and moments after a step of rectified Adam."""
    out: list[list] = [[], [], [], [], [], []]
    for p, g, p1, p2, rho, m, v in zip(params, grads, beta1_pows, beta2_pows, rhos, moment1s, moment2s):
        kind = m.dtype
        g, b1, b2 = g.astype(kind), beta1.astype(kind), beta2.astype(kind)
        p1, p2 = p1 * b1, p2 * b2
        limit = 2 / (1 - b2) - 1
        rho = (rho * (b2 - p2) + p2) / (1 - p2)
        length = limit - 2 * rho
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * (g * g)
        # below a length of 5 the variance is not known: there, both forms of the root are replaced by 1
        known = length > 5
        safe = jnp.where(known, length, jnp.full_like(length, 6.0))
        rectified = jnp.sqrt((safe - 4) * (safe - 2) * limit / ((limit - 4) * (limit - 2) * safe))
        factor = jnp.where(known, rectified * jnp.sqrt(1 - p2) / (jnp.sqrt(v) + epsilon.astype(kind)), jnp.ones_like(v))
        new = (p.astype(kind) - lr.astype(kind) * (m / (1 - p1)) * factor).astype(p.dtype)
        for held, value in zip(out, (new, p1, p2, rho, m, v)):
            held.append(value)
    return [value for held in out for value in held]


radam_update.infer(
    lambda params, beta1_pows, beta2_pows, rhos, moment1s, moment2s: [
        *params,
        *beta1_pows,
        *beta2_pows,
        *rhos,
        *moment1s,
        *moment2s,
    ]
)


@op(internal=True, each=(), differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def rprop_update(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    rates: list[Tensor],
    least: Tensor | float,
    most: Tensor | float,
    shrink: Tensor | float,
    grow: Tensor | float,
) -> list[Tensor]:
    """Parameters, last gradients and rates of each element after a step of Rprop, by the signs of gradients alone."""
    new, first, second = [], [], []
    for p, g, before, rate in zip(params, grads, prevs, rates):
        kind = rate.dtype
        g = g.astype(kind)
        turn = g * before
        one = jnp.ones_like(rate)
        rate = rate * jnp.where(turn > 0, grow.astype(kind) * one, jnp.where(turn < 0, shrink.astype(kind) * one, one))
        rate = jnp.minimum(jnp.maximum(rate, least.astype(kind)), most.astype(kind))
        g = jnp.where(turn < 0, jnp.zeros_like(g), g)
        new.append((p.astype(kind) - jnp.sign(g) * rate).astype(p.dtype))
        first.append(g)
        second.append(rate)
    return new + first + second


rprop_update.infer(lambda params, prevs, rates: [*params, *prevs, *rates])


@op(internal=True, each=(), differentiable=False, numbers=_NUMBERS, name_arg=False)
def asgd_update(
    params: list[Tensor],
    grads: list[Tensor],
    sums: list[Tensor],
    histories: list[Tensor],
    counts: list[Tensor],
    lr: Tensor | float,
) -> list[Tensor]:
    """Parameters, sums and histories of gradients, and counts after a step with the mean of the last gradients."""
    new, first, second, third = [], [], [], []
    for p, g, total, history, count in zip(params, grads, sums, histories, counts):
        kind, length = total.dtype, history.shape[0]
        place, g = (count % length).reshape(()), g.astype(kind)
        total = total - lax.dynamic_index_in_dim(history, place, 0, keepdims=False) + g
        count = count + 1
        known = jnp.minimum(count, length).reshape(()).astype(kind)
        new.append((p.astype(kind) - lr.astype(kind) / known * total).astype(p.dtype))
        first.append(total)
        second.append(lax.dynamic_update_index_in_dim(history, g, place, 0))
        third.append(count)
    return new + first + second + third


asgd_update.infer(lambda params, sums, histories, counts: [*params, *sums, *histories, *counts])


@op(internal=True, each=(), differentiable=False, numbers=_NUMBERS, name_arg=False, numpy=True)
def muon_update(
    params: list[Tensor],
    grads: list[Tensor],
    momenta: list[Tensor],
    lr: Tensor | float,
    mu: Tensor | float,
    epsilon: Tensor | float,
    weight_decay: Tensor | float,
    *,
    nesterov: bool,
    steps: int,
) -> list[Tensor]:
    """Parameters and momenta after a step of Muon: along the momentum with all its singular values brought near 1."""
    new, kept = [], []
    for p, g, v in zip(params, grads, momenta):
        kind = v.dtype
        wide, g, factor, rate = p.astype(kind), g.astype(kind), mu.astype(kind), lr.astype(kind)
        v = factor * v + g
        x = (g + factor * v if nesterov else v).reshape(p.shape[0], math.prod(p.shape[1:]))
        rows, columns = x.shape
        x = x.T if rows > columns else x
        x = x / (jnp.sqrt(jnp.sum(x * x)) + epsilon.astype(kind))
        for _ in range(steps):
            # an odd polynomial with a steep start: singular values end between 0.7 and 1.2 after five rounds
            square = x @ x.T
            x = 3.4445 * x + (-4.775 * square + 2.0315 * (square @ square)) @ x
        x = (x.T if rows > columns else x).reshape(p.shape)
        stretch = max(1.0, rows / max(columns, 1)) ** 0.5
        new.append((wide * (1 - rate * weight_decay.astype(kind)) - rate * stretch * x).astype(p.dtype))
        kept.append(v)
    return new + kept


muon_update.infer(lambda params, momenta: [*params, *momenta])
