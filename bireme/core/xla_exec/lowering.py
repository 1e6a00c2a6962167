"""Graphs as functions on jax arrays: what XLA compiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from bireme.core.graph.graph import Graph, Node, Number
from bireme.core.xla_exec.barrier import once


def function(
    graph: Graph,
    live: tuple[int, ...],
    platform: str,
    nodes: tuple[Node, ...] | None = None,
    given: tuple[int, ...] = (),
) -> Callable:
    """A graph as a function of (leaves, number vectors) on jax arrays: what is compiled.

    Or a part of it: some of its calls, with what others have computed of the values in `given` as a third argument.
    """
    places, nodes = graph.places(), graph.nodes if nodes is None else nodes
    times = Counter([node.bound for node in nodes])
    # of layers that are alike the first is traced, and the others take what came of it
    rules = {bound: bound.lower_once(platform) if n > 1 else bound.lower(platform) for bound, n in times.items()}

    def fn(leaves, vectors, values=()):
        env: dict[int, Any] = dict(zip(given, values))
        held: set[int] = set()

        def fetch(r):
            if r.__class__ is Number:
                v, i = places[r.place]
                return vectors[v][i]
            return env[r] if r >= 0 else leaves[~r]

        for node in nodes:
            if node.bound.selects:
                for r in node.args:
                    if r.__class__ is int and r >= 0 and r not in held:
                        env[r] = once(env[r], platform)
                        held.add(r)
            out = rules[node.bound](*[fetch(r) for r in node.args])
            env.update(enumerate(out if node.bound.many else (out,), node.first))
        return [env[i] for i in live]

    return fn
