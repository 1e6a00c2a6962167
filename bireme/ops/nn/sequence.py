"""Sequences of several lengths, whose rows stand behind each other in one tensor."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, op
from bireme.ops._shared.precision import widen

POOLS = ("sum", "average", "sqrt", "max", "last", "first")


def _owners(x, lengths):
    """Which sequence each row of `x` belongs to."""
    return jnp.repeat(jnp.arange(lengths.shape[0]), lengths, total_repeat_length=x.shape[0])


def _beside(values, like):
    return values.reshape((-1,) + (1,) * (like.ndim - 1))


def _check(name):
    def check(x, lengths):
        if not x.ndim or lengths.ndim != 1 or lengths.dtype.kind != "i":
            raise errors.bad(
                f"{name}(lengths)",
                "a 1-D integer tensor, and rows in x",
                described=f"{lengths.dtype.name} of shape {list(lengths.shape)}, and x of shape {list(x.shape)}",
                kind=errors.ShapeError,
            )

    return check


@op(internal=True, dtypes=FLOAT)
def pool_sequences(x: Tensor, lengths: Tensor, pool: str, pad_value: float) -> Tensor:
    """Each sequence reduced to one row, `pad_value` for an empty one; use `static.nn.sequence_pool`."""
    n, rows, kind = lengths.shape[0], x.shape[0], x.dtype
    if not rows:
        return jnp.full((n, *x.shape[1:]), pad_value, kind)
    x = widen(x)
    ends = jnp.cumsum(lengths)
    if pool in ("first", "last"):
        found = x[jnp.clip(ends - lengths if pool == "first" else ends - 1, 0, rows - 1)]
    elif pool == "max":
        # the first of equal ones, which alone has the gradient, as in Paddle
        owners = _owners(x, lengths)
        best = jax.ops.segment_max(jax.lax.stop_gradient(x), owners, n)
        at = jnp.where(x == best[owners], _beside(jnp.arange(rows), x), rows - 1)
        found = jnp.take_along_axis(x, jnp.clip(jax.ops.segment_min(at, owners, n), 0, rows - 1), 0)
    else:
        found = jax.ops.segment_sum(x, _owners(x, lengths), n)
        counts = _beside(jnp.maximum(lengths, 1), x).astype(x.dtype)
        found = found / (jnp.sqrt(counts) if pool == "sqrt" else counts) if pool != "sum" else found
    return jnp.where(_beside(lengths, x) > 0, found, jnp.asarray(pad_value, x.dtype)).astype(kind)


pool_sequences.check(_check("pool_sequences"))


@op(internal=True, dtypes=FLOAT)
def softmax_sequences(x: Tensor, lengths: Tensor) -> Tensor:
    """Softmax over the rows of each sequence; use `static.nn.sequence_softmax`."""
    owners, n, kind = _owners(x, lengths), lengths.shape[0], x.dtype
    x = widen(x)
    # shift by the maximum: exp of a large number overflows, exp of a difference cannot
    largest = jax.ops.segment_max(jax.lax.stop_gradient(x), owners, n)
    powers = jnp.exp(x - largest[owners])
    return (powers / jax.ops.segment_sum(powers, owners, n)[owners]).astype(kind)


softmax_sequences.check(_check("softmax_sequences"))


@op(internal=True, dtypes=FLOAT)
def sequence_context(x: Tensor, lengths: Tensor, start: int, size: int) -> Tensor:
    """Beside each row its neighbours of the same sequence from `start` on, `size` of them, zeros beyond its ends."""
    rows = x.shape[0]
    if not rows:
        return jnp.zeros((0, size, *x.shape[1:]), x.dtype)
    owners = _owners(x, lengths)
    at = jnp.arange(rows)[:, None] + jnp.arange(start, start + size)
    near = jnp.clip(at, 0, rows - 1)
    inside = (at == near) & (owners[near] == owners[:, None])
    found = widen(x)[near]
    inside = inside.reshape(*inside.shape, *(1,) * (x.ndim - 1))
    return jnp.where(inside, found, jnp.zeros((), found.dtype)).astype(x.dtype)


sequence_context.check(_check("sequence_context"))


@op(internal=True, dtypes=FLOAT)
def continuous_values(x: Tensor, cvm: Tensor, use_cvm: bool) -> Tensor:
    """Show and click counts in the first two columns as logarithms, or left out; see `continuous_value_model`."""
    if not use_cvm:
        return x[:, 2:]
    show = jnp.log(x[:, :1] + 1)
    return jnp.concatenate([show, jnp.log(x[:, 1:2] + 1) - show, x[:, 2:]], 1)


@continuous_values.check
def _(x, cvm):
    if x.ndim != 2 or cvm.ndim != 2 or x.shape[1] < 2 or cvm.shape[1] != 2 or x.shape[0] != cvm.shape[0]:
        raise errors.bad(
            "continuous_values(cvm)",
            f"two columns, a row for each of x of shape {list(x.shape)}",
            described=f"shape {list(cvm.shape)}",
            kind=errors.ShapeError,
        )


@continuous_values.grad
def _(g, out, x, cvm, use_cvm):
    # the counts take the place of the gradient, as in Paddle: the table that holds them adds them up
    return jnp.concatenate([cvm.astype(g.dtype), g[:, 2:] if use_cvm else g], 1), None
