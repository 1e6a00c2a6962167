"""A tie for the compiler: values that may not be computed before another one is there."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from bireme.core.base import errors
from bireme.core.declare.op import Tensor, op


@op(internal=True, numpy=lambda x, after: list(x))
def tie(x: list[Tensor], after: Tensor) -> list[Tensor]:
    """The same tensors, which the compiler sees as something new that depends on `after`."""
    return list(lax.optimization_barrier((*x, after))[:-1])


@tie.on("cpu")
def _(x, after):
    """XLA drops barriers on CPU before it decides on an order, so here a condition that is never true holds them."""
    if after.size == 0:
        return list(lax.optimization_barrier((*x, after))[:-1])
    one = jnp.real(after.reshape(-1)[0])
    bits = lax.bitcast_convert_type(one, f"uint{8 * one.dtype.itemsize}")
    never = (bits >> (8 * one.dtype.itemsize - 1)) > 1
    return [jnp.where(never, jnp.zeros((), a.dtype), a) for a in x]


@tie.check
def _(x, after):
    if after.dtype.kind not in "fc":
        raise errors.bad(
            "tie(after)", "a floating-point tensor", described=after.dtype.name, kind=errors.ArgumentTypeError
        )


@tie.infer
def _(x, after):
    return tuple(x)


@tie.grad(numpy=True)
def _(g, sigs):
    return [*g, jnp.zeros(sigs[-1].shape, sigs[-1].dtype.np)]
