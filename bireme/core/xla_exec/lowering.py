"""Graphs as functions on jax arrays: what XLA compiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.graph.graph import Graph, Number
from bireme.core.xla_exec.barrier import once


def function(graph: Graph, live: tuple[int, ...], platform: str) -> Callable:
    """A graph as a function of (leaves, number vectors) on jax arrays."""
    leaves = [~i for i in range(len(graph.leaf_sigs))]
    return part(graph.nodes, leaves, graph.places(), live, platform)


def part(
    nodes: Sequence[Any],
    reads: Sequence[int],
    numbers: dict[int, tuple[int, int]],
    gives: Sequence[int],
    platform: str,
) -> Callable:
    """Some calls as a function of (arrays, number vectors): `reads` says which leaves (~place) and values the arrays
    are, `numbers` where in the vectors the number of a place is, `gives` which values are the results.
    """
    times = Counter([node.bound for node in nodes])
    # of layers that are alike the first is traced, and the others take what came of it
    rules = {bound: bound.lower_once(platform) if n > 1 else bound.lower(platform) for bound, n in times.items()}

    def fn(arrays, vectors):
        env: dict[int, Any] = dict(zip(reads, arrays))
        held: set[int] = set()

        def fetch(r):
            if r.__class__ is Number:
                v, i = numbers[r.place]
                return vectors[v][i]
            return env[r]

        for node in nodes:
            if node.bound.selects:
                for r in node.args:
                    if r.__class__ is int and r >= 0 and r not in held:
                        env[r] = once(env[r], platform)
                        held.add(r)
            out = rules[node.bound](*[fetch(r) for r in node.args])
            env.update(zip(node.made, out if node.bound.many else (out,)))
        return [env[i] for i in gives]

    return fn
