"""The inverse curvature that L-BFGS knows of, times a gradient."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.declare.op import Tensor, op
from bireme.core.graph.graph import sig_of


def _by_numpy(grad, ys, ss, factors, scale):
    """The same, pair by pair."""
    q, found = -grad, []
    for y, s, factor in zip(reversed(ys), reversed(ss), reversed(factors)):
        found.append(np.dot(s, q) * factor)
        q = q - y * found[-1]
    q = q * scale
    for y, s, factor, a in zip(ys, ss, factors, reversed(found)):
        q = q + s * (a - np.dot(y, q) * factor)
    return [q, np.array(found[::-1], grad.dtype)]


@op(internal=True, differentiable=False, name_arg=False, numpy=_by_numpy)
def inverse_curvature(
    grad: Tensor, ys: list[Tensor], ss: list[Tensor], factors: list[Tensor], scale: Tensor
) -> list[Tensor]:
    """The direction of L-BFGS, and the weights of the pairs on the way: `ys` are changes of the gradient, oldest first,
    `ss` the steps that led to them, `factors` one by their product; `scale` is the inverse curvature to begin with.
    """
    pairs = jnp.stack(ys), jnp.stack(ss), jnp.stack(factors)

    def back(q, pair):
        y, s, factor = pair
        a = jnp.sum(s * q) * factor
        return q - y * a, a

    def forth(q, pair):
        (y, s, factor), a = pair
        return q + s * (a - jnp.sum(y * q) * factor), None

    q, found = lax.scan(back, -grad, pairs, reverse=True)
    q, _ = lax.scan(forth, q * scale, (pairs, found))
    return [q, found]


inverse_curvature.infer(lambda grad, ys: [grad, sig_of((len(ys),), grad.dtype)])
