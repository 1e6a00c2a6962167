"""Sampling of tokens from rows of probabilities."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Key, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.creation import tensors
from bireme.ops.random.generators import unit
from bireme.ops.search.sort import at, order, topk


@op(internal="top_p", differentiable=False, dtypes=FLOAT)
def top_p_of(
    x: Tensor, ps: Tensor, threshold: Tensor | None, seeds: Tensor | None, truncated: bool, key: Key = None
) -> tuple[Tensor, Tensor]:
    """One element of each row, drawn from the smallest set that holds a part of the probability; use
    `Tensor.top_p_sampling`.

    >>> bireme.to_tensor([[0.1, 0.9]]).top_p_sampling(bireme.to_tensor([0.5]))[1].tolist()
    [[1]]
    """
    rows = x.shape[0]
    own = (
        key
        if seeds is None
        else (jnp.uint32(0x9E3779B9), seeds.reshape(rows).astype(jnp.uint32) * np.uint32(0x85EBCA6B))
    )
    draws = unit(own, (rows,), jnp.float32)[:, None]
    places = order(x, 1, True)
    chances = at(x, places, 1)
    wide = chances.astype(jnp.float32)
    kept = jnp.ones(wide.shape, bool)
    if truncated:
        kept = jnp.cumsum(wide, axis=1) - wide < ps.reshape(rows, 1).astype(jnp.float32)
    if threshold is not None:
        kept = kept & (wide >= threshold.reshape(rows, 1).astype(jnp.float32))
    kept = kept.at[:, 0].set(True)  # the most likely one is never left out
    reached = jnp.cumsum(jnp.where(kept, wide, 0), axis=1)
    drawn = jnp.sum(reached <= draws * reached[:, -1:], axis=1, keepdims=True)
    last = jnp.sum(kept, axis=1, keepdims=True) - 1
    drawn = jnp.minimum(drawn, last)
    return at(chances, drawn, 1), at(places, drawn, 1)


@top_p_of.infer
def _(x):
    return [sig_of((x.shape[0], 1), x.dtype), sig_of((x.shape[0], 1), dtypes.int64)]


@top_p_of.check
def _(x, ps, threshold, seeds):
    if x.ndim != 2 or not x.shape[1]:
        raise errors.bad(
            "top_p_sampling(x)",
            "a 2-D tensor of probabilities with at least one column",
            described=f"shape {list(x.shape)}",
            kind=errors.ShapeError,
        )
    for name, s in (("ps", ps), ("threshold", threshold), ("topp_seed", seeds)):
        if s is not None and s.size != x.shape[0]:
            raise errors.bad(
                f"top_p_sampling({name})",
                f"one element per row of x, {x.shape[0]}",
                described=f"shape {list(s.shape)}",
                kind=errors.ArgumentTypeError,
            )


@composite(method=True)
def top_p_sampling(x: Tensor, ps: Tensor, threshold: Tensor | None = None, topp_seed: Tensor | None = None,
                   seed: int = -1, k: int = 0, mode: str = "truncated",
                   return_top: bool = False) -> tuple[Tensor, ...]:  # fmt: skip
    """Draw one element of each row by nucleus sampling: among the most probable ones that together reach a probability.

    Args:
        x: Probabilities of shape ``[rows, elements]``.
        ps: Probability to reach, one for each row; the most probable element is never left out.
        threshold: Smallest probability of an element that may be drawn, one for each row. Default: None.
        topp_seed: Seed of each row; ``None`` continues the random stream. Default: None.
        seed: One seed for all rows, if ``topp_seed`` is ``None``; -1 means none. Default: -1.
        k: How many of the most probable elements ``return_top`` returns; 0 means all. Default: 0.
        mode: ``'truncated'``, or ``'non-truncated'`` to draw among all elements. Default: ``'truncated'``.
        return_top: Whether to return the most probable elements too. Default: False.

    Returns:
        The probabilities of the elements drawn and their int64 indices, each of shape ``[rows, 1]``; with
        ``return_top`` also the largest probabilities of each row and their indices.

    Examples:
        >>> bireme.to_tensor([[0.1, 0.9]]).top_p_sampling(bireme.to_tensor([0.5]))[1].tolist()
        [[1]]
    """
    if mode not in ("truncated", "non-truncated"):
        raise errors.bad("top_p_sampling(mode)", "'truncated' or 'non-truncated'", mode)
    seeds = topp_seed
    if seeds is None and seed != -1:
        seeds = tensors.full([x.shape[0] if x.ndim else 1], seed, dtypes.int64)
    found = tuple(top_p_of(x, ps, threshold, seeds, mode == "truncated"))
    if not return_top:
        return found
    values, places = topk(x, k if k > 0 else x.shape[-1], -1)
    return (*found, values, places)
