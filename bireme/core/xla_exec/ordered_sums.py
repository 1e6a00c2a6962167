"""Sums at places, as gradients of look-ups are: always added in the same order, where a device's threads would add them
one after another in the order in which they come by.

On CUDA XLA's scatter adds with atomic operations, so that a script would give other bits each time: of three numbers, which
two come first decides how the sum is rounded. Here the places are sorted; what goes to one place is added within blocks
of rows, and then from block to block.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from bireme.core.xla_exec import inlined

PLATFORMS = ("cuda", "rocm")
# Rows that one kernel adds up, each of them read for every one in front of it; then sums of these, and so on. In blocks of
# 32 from the first a million rows of 64 took 5.9 ms on an H200, a million of one number 0.16.
BLOCKS = (4, 8, 32)
SMALL = 1 << 24  # rows times all of a table: so much is gone over at once, by one kernel


def found_in(program: Any) -> bool:
    """Whether a jaxpr adds at places in whatever order."""
    return any(_is_one(eqn) or _has_some(eqn) for eqn in getattr(program, "jaxpr", program).eqns)


def ordered(fn: Callable) -> Callable:
    """The same function, with these sums in one order."""

    def run(*arrays: Any) -> Any:
        program, like = jax.make_jaxpr(fn, return_shape=True)(*arrays)
        return in_order(program, jax.tree.structure(like))(*arrays) if found_in(program) else fn(*arrays)

    return run


def in_order(program: Any, build: Any) -> Callable[..., Any]:
    """A closed jaxpr as a function whose results are built as the tree says, with these sums in one order."""
    run = _in_order(program)
    return lambda *arrays: jax.tree.unflatten(build, run(*jax.tree.leaves(arrays)))


def _in_order(program: Any) -> Callable[..., list]:
    def run(*arrays: Any) -> list:
        env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*program.consts, *arrays)))
        for is_run, eqns, outs in parts:
            if is_run:
                read = _reads(eqns)
                part = core.Jaxpr((), read, outs, eqns, debug_info=jaxpr.debug_info)
                made = core.jaxpr_as_fun(core.ClosedJaxpr(part, ()))(*[env[v] for v in read])
            else:
                given = [v.val if isinstance(v, core.Literal) else env[v] for v in eqns[0].invars]
                made = _with_sums_in_order(eqns[0], given)
            env.update(zip(outs, made))
        return [v.val if isinstance(v, core.Literal) else env[v] for v in jaxpr.outvars]

    jaxpr = program.jaxpr
    parts = _parts(jaxpr)
    return run


def _parts(jaxpr: Any) -> list[tuple[bool, list, list]]:
    """Steps that stay as they are, in runs, and those with sums: (whether it is a run, its steps, what is read of it)."""
    runs = [
        (own, list(steps))
        for own, steps in itertools.groupby(jaxpr.eqns, lambda e: not _is_one(e) and not _has_some(e))
    ]
    found, wanted = [], {v for v in jaxpr.outvars if not isinstance(v, core.Literal)}
    for is_run, steps in reversed(runs):
        for eqns in [steps] if is_run else [[eqn] for eqn in reversed(steps)]:
            made = [v for eqn in eqns for v in eqn.outvars]
            found.append((is_run, eqns, [v for v in made if v in wanted] if is_run else made))
            wanted.update(_reads(eqns))
    return found[::-1]


def _reads(eqns: Sequence[Any]) -> list:
    """What steps read that none of them makes."""
    made: set[Any] = set()
    found: dict[Any, None] = {}
    for eqn in eqns:
        found.update(dict.fromkeys([v for v in eqn.invars if not isinstance(v, core.Literal) and v not in made]))
        made.update(eqn.outvars)
    return list(found)


def _has_some(eqn: Any) -> bool:
    program = inlined.called(eqn)
    return program is not None and found_in(program)


def _is_one(eqn: Any) -> bool:
    """Whether a step adds at places whole rows, of which several may go to one place, and where their order matters."""
    if eqn.primitive.name not in ("scatter-add", "scatter_add") or eqn.params["unique_indices"]:
        return False
    (x, index, update), numbers = [v.aval for v in eqn.invars], eqn.params["dimension_numbers"]
    if not jnp.issubdtype(x.dtype, jnp.inexact) or not x.size or math.prod(index.shape[:-1]) < 2:
        return False
    outer = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    rest = [i for i in range(x.ndim) if i not in outer]
    whole = [update.shape[place] == x.shape[axis] for axis, place in zip(rest, numbers.update_window_dims)]
    return set(numbers.scatter_dims_to_operand_dims) == set(numbers.inserted_window_dims) and all(whole)


def _with_sums_in_order(eqn: Any, given: list) -> list:
    program = inlined.called(eqn)
    if program is not None:
        return _in_order(program)(*given)
    x, index, update = given
    numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
    axes = (*numbers.operand_batching_dims, *numbers.scatter_dims_to_operand_dims)
    rest = [i for i in range(x.ndim) if i not in axes]
    sizes, batch = [x.shape[i] for i in axes], index.shape[:-1]
    n, k = math.prod(sizes), math.prod(batch)
    kind = np.int32 if n + k < 1 << 31 else np.int64
    places = [lax.broadcasted_iota(index.dtype, batch, i) for i in numbers.scatter_indices_batching_dims]
    places += [index[..., i] for i in range(index.shape[-1])]
    if mode == lax.GatherScatterMode.CLIP:
        places = [jnp.clip(at, 0, size - 1) for at, size in zip(places, sizes)]
    inside = functools.reduce(operator.and_, [(at >= 0) & (at < size) for at, size in zip(places, sizes)])
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    flat = sum([at.astype(kind) * kind(stride) for at, stride in zip(places, strides)])
    at = jnp.where(inside, flat, kind(n)).reshape(k)
    window = numbers.update_window_dims
    outer = [i for i in range(update.ndim) if i not in window]
    rows = lax.transpose(update, (*outer, *window)).reshape(k, -1)
    table = lax.transpose(x, (*axes, *rest)).reshape(n, -1)
    made = added(table, at, rows).reshape(*sizes, *[x.shape[i] for i in rest])
    return [lax.transpose(made, np.argsort((*axes, *rest)))]


def added(table: Any, at: Any, rows: Any) -> Any:
    """A table with rows added at places; those beyond its end are left out."""
    if len(table) * rows.size <= SMALL:  # as a table of relative positions
        meant = at[None, :, None] == lax.iota(at.dtype, len(table))[:, None, None]
        return table + jnp.where(meant, rows, jnp.zeros((), rows.dtype)).sum(1)
    at, order = lax.sort((at, lax.iota(at.dtype, at.size)), num_keys=1, is_stable=True)
    return _runs_added(table, at, lax.optimization_barrier(rows[order]))


def _runs_added(table: Any, at: Any, rows: Any, level: int = 0) -> Any:
    """The same for places of which equal ones stand side by side."""
    n, (k, width), block = len(table), rows.shape, BLOCKS[min(level, len(BLOCKS) - 1)]
    blocks = -(-k // block)
    size = blocks * block
    at = jnp.concatenate([at, jnp.full(size - k, n, at.dtype)])
    rows = jnp.concatenate([rows, jnp.zeros((size - k, width), rows.dtype)]).reshape(blocks, block, width)
    begins = jnp.concatenate([jnp.ones(1, bool), at[1:] != at[:-1]])
    by_block = at.reshape(blocks, block)
    alike = by_block[:, :, None] == by_block[:, None, :]
    # for the first row of a run the sum of its rows in this block; those of all others are left out
    sums = jnp.where(alike[..., None], rows[:, None], jnp.zeros((), rows.dtype)).sum(2)
    nowhere = n + lax.iota(at.dtype, size)
    table = table.at[jnp.where(begins & (at < n), at, nowhere)].add(
        sums.reshape(size, width), mode="drop", unique_indices=True
    )
    if blocks == 1:
        return table
    goes_on = ~begins.reshape(blocks, block)[:, 0]
    return _runs_added(table, jnp.where(goes_on, by_block[:, 0], n), sums[:, 0], level + 1)
