"""Graphs as functions on jax arrays: what XLA compiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from bireme.core.graph.bound import on_mesh
from bireme.core.graph.graph import Graph, Number
from bireme.core.xla_exec.barrier import once
from bireme.core.xla_exec.pauses import here


def function(graph: Graph, live: tuple[int, ...], platform: str, divided: bool = False) -> Callable:
    """A graph as a function of (leaves, number vectors) on jax arrays; `divided`: on those of a mesh."""
    leaves = [~i for i in range(len(graph.leaf_sigs))]
    return part(graph.nodes, leaves, graph.places(), live, platform, divided)


class Loop(NamedTuple):
    """A graph that is run several times: which of its results is which leaf the next time."""

    times: int
    carried: tuple[tuple[int, int], ...]


def looped(fn: Callable, loop: Loop) -> Callable:
    """A function of (leaves, number vectors), run several times by one program: results that are carried are given as they
    are at the end, others of all times, along a new first axis.
    """

    def run(leaves, vectors):
        def step(state, _):
            given = list(leaves)
            for (_, leaf), array in zip(loop.carried, state):
                given[leaf] = array
            made = list(fn(given, vectors))
            state = [made[i] for i, _ in loop.carried]
            for i, _ in loop.carried:
                made[i] = None
            return state, made

        state, made = lax.scan(step, [leaves[leaf] for _, leaf in loop.carried], None, loop.times)
        for (i, _), array in zip(loop.carried, state):
            made[i] = array
        return made

    return run


def between_programs(fn: Callable, reads: Collection[int], gives: Collection[int]) -> Callable:
    """A function of (arrays, number vectors) that takes and gives the images at these places with their channels last."""
    if not reads and not gives:
        return fn

    def kept(arrays, vectors):
        given = [jnp.moveaxis(a, -1, 1) if place in reads else a for place, a in enumerate(arrays)]
        return [jnp.moveaxis(a, 1, -1) if place in gives else a for place, a in enumerate(fn(given, vectors))]

    return kept


def part(
    nodes: Sequence[Any],
    reads: Sequence[int],
    numbers: dict[int, tuple[int, int]],
    gives: Sequence[int],
    platform: str,
    divided: bool = False,
    pauses: int = 0,
) -> Callable:
    """Some calls as a function of (arrays, number vectors): `reads` says which leaves (~place) and values the arrays
    are, `numbers` where in the vectors the number of a place is, `gives` which values are the results. After every so
    many calls is a place to pause at.
    """
    times = Counter([node.bound for node in nodes])
    # of layers that are alike the first is traced, and the others take what came of it
    form = on_mesh(platform) if divided else platform
    rules = {bound: bound.lower_once(form) if n > 1 else bound.lower(form) for bound, n in times.items()}
    # what is held on a mesh would be reduced there, each for itself
    shared = _stored_and_read(nodes, gives) if platform == "cpu" and not divided else set()

    def fn(arrays, vectors):
        env: dict[int, Any] = dict(zip(reads, arrays))
        held: set[int] = set()
        merged: dict[int, int] = {}  # of values that kernels compute anew: how many arrays that takes

        def fetch(r):
            if r.__class__ is Number:
                v, i = numbers[r.place]
                return vectors[v][i]
            return env[r]

        for at, node in enumerate(nodes, 1):
            if node.bound.selects:
                for r in node.args:
                    if r.__class__ is int and r >= 0 and r not in held:
                        env[r] = once(env[r], platform)
                        held.add(r)
            out = rules[node.bound](*[fetch(r) for r in node.args])
            env.update(zip(node.made, out if node.bound.many else (out,)))
            if shared and not node.bound.many and not _is_loop(node.bound):
                (made,) = node.made
                large = [r for r in node.args if r.__class__ is int and env[r].size >= out.size]
                count = sum([merged.get(r, 1) for r in large])
                if made not in shared:
                    merged[made] = count
                elif len(large) == 1 < count:
                    env[made] = once(out, platform)
                    held.add(made)
            if pauses and at % pauses == 0:
                env[node.made[0]] = here(env[node.made[0]])
        return [env[i] for i in gives]

    return fn


def _is_loop(bound: Any) -> bool:
    """Whether a call is more than a pass over its operands: it reads them from memory, and no kernel computes it anew."""
    return bound.uses_blas or bound.is_nest


def _stored_and_read(nodes: Sequence[Any], gives: Sequence[int]) -> set[int]:
    """Values that are in memory for a product or as results, and that others read too.

    XLA on CPU lets those others compute such a value anew where its last step has one operand, whatever is behind that: of
    relu(y + x) with x of the same kind, each block of a residual network would compute all blocks before it.
    """
    readers, stored = Counter(gives), set(gives)
    for node in nodes:
        read = {r for r in node.args if r.__class__ is int and r >= 0}
        readers.update(read)
        if _is_loop(node.bound):
            stored |= read
    return {r for r in stored if readers[r] > 1}
