"""Optimizer updates: one operator for all parameters of a group, so that a step is one program."""

from __future__ import annotations

import jax.numpy as jnp

from bireme.core.op import Attr, Tensor, op

_F32 = {"lr": "float32", "mu": "float32", "beta1": "float32", "beta2": "float32", "epsilon": "float32", "weight_decay": "float32"}


def _wide(x):
    return x.astype(jnp.float32) if x.dtype.itemsize < 4 else x


@op(differentiable=False, numbers=_F32, name_arg=False, numpy=True)
def sgd_update(params: list[Tensor], grads: list[Tensor], lr: Tensor | float) -> list[Tensor]:
    """Parameters after a step of plain gradient descent.

    >>> p = bireme.Parameter([1.0]); opt = bireme.optimizer.SGD(0.5, parameters=[p]); (p * 2).backward(); opt.step(); p.tolist()
    [0.0]
    """
    return [(p - lr.astype(_wide(p).dtype) * _wide(g)).astype(p.dtype) for p, g in zip(params, grads)]


sgd_update.infer(lambda params: params)


@op(differentiable=False, numbers=_F32, name_arg=False, numpy=True)
def momentum_update(params: list[Tensor], grads: list[Tensor], velocities: list[Tensor], lr: Tensor | float, mu: Tensor | float,
                    use_nesterov: bool) -> list[Tensor]:  # fmt: skip
    """Parameters and velocities after a step with momentum.

    >>> p = bireme.Parameter([1.0]); opt = bireme.optimizer.Momentum(0.5, parameters=[p]); (p * 2).backward(); opt.step(); p.tolist()
    [0.0]
    """
    new, kept = [], []
    for p, g, v in zip(params, grads, velocities):
        wide = _wide(p)
        rate, factor = lr.astype(wide.dtype), mu.astype(wide.dtype)
        g = g.astype(wide.dtype)
        v = factor * v + g
        new.append((wide - rate * (g + factor * v if use_nesterov else v)).astype(p.dtype))
        kept.append(v)
    return new + kept


momentum_update.infer(lambda params, velocities: [*params, *velocities])


@op(differentiable=False, numbers=_F32, name_arg=False, numpy=True)
def adam_update(params: list[Tensor], grads: list[Tensor], moment1s: list[Tensor], moment2s: list[Tensor], beta1_pow: Tensor, beta2_pow: Tensor,
                lr: Tensor | float, beta1: Tensor | float, beta2: Tensor | float, epsilon: Tensor | float, weight_decay: Tensor | float, *,
                decoupled: bool, lr_ratios: Attr, decays: Attr) -> list[Tensor]:  # fmt: skip
    """Parameters, moments and powers of the betas after a step of Adam; with `decoupled`, of AdamW.

    >>> p = bireme.Parameter([1.0]); opt = bireme.optimizer.Adam(0.5, parameters=[p]); (p * 2).backward(); opt.step(); round(p.item(), 4)
    0.5
    """
    p1, p2 = beta1_pow * beta1, beta2_pow * beta2
    correct1, correct2 = 1 - p1, 1 - p2
    root = jnp.sqrt(correct2)
    new, first, second = [], [], []
    for p, g, m, v, ratio, decay in zip(params, grads, moment1s, moment2s, lr_ratios, decays):
        kind = m.dtype
        wide, g = p.astype(kind), g.astype(kind)
        rate = (lr if ratio == 1 else lr * ratio).astype(kind)
        if decay:
            if decoupled:
                wide = wide * (1 - rate * weight_decay.astype(kind))
            else:
                g = g + weight_decay.astype(kind) * wide
        b1, b2 = beta1.astype(kind), beta2.astype(kind)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * (g * g)
        # epsilon scaled with the root, so that one division serves both corrections
        step = (rate * (root / correct1).astype(kind)) * (m / (jnp.sqrt(v) + (epsilon * root).astype(kind)))
        new.append((wide - step).astype(p.dtype))
        first.append(m)
        second.append(v)
    return [*new, *first, *second, p1, p2]


adam_update.infer(lambda params, moment1s, moment2s, beta1_pow, beta2_pow: [*params, *moment1s, *moment2s, beta1_pow, beta2_pow])
