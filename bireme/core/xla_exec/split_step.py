"""A step in two programs: what the forward pass gives, as a loss, is there before the gradients are.

A loop that reads the loss of every step on an accelerator would wait for the whole step, and the accelerator then for
the next one to be recorded. With the forward pass as a program of its own the loss can be read while the rest still
runs. That takes more memory and some percent more of the accelerator's time, so it is done for loops that do read:
`run.loss_reads` knows. What the second makes again of what the first has computed is said by `remaking`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bireme.core.graph import remaking
from bireme.core.graph.graph import Graph, Node


class Parts(NamedTuple):
    """Two parts of a graph: their calls, the results that each gives, and what the second reads of the first."""

    before: tuple[Node, ...]
    after: tuple[Node, ...]
    early: tuple[int, ...]
    late: tuple[int, ...]
    crossing: tuple[int, ...]


def parts(graph: Graph, live: tuple[int, ...]) -> Parts | None:
    """The calls before the first gradient, and the others; None where nobody holds a result of the first, or there is
    no gradient.
    """
    nodes, border = graph.nodes, remaking.first_gradient(graph)
    first = sum(node.first < border for node in nodes)
    early = tuple([i for i in live if i < border])
    if not early:
        return None
    plan = remaking.plan(nodes, border)
    again = {node.first: node for calls in plan.again.values() for node in calls}
    return Parts(
        nodes[:first],
        (*[again[i] for i in sorted(again)], *nodes[first:]),
        early,
        tuple([i for i in live if i >= border]),
        tuple(sorted(plan.kept)),
    )


class Front:
    """The first program, called with what a program of the whole would be given: its results, and the second one's
    arguments.
    """

    __slots__ = ("_call", "_count", "_leaves", "_places")

    def __init__(self, call: Any, parts: Parts, gives: tuple[int, ...], leaves: list[tuple[int, int]]):
        self._call, self._count, self._leaves = call, len(parts.early), leaves
        self._places = [gives.index(i) for i in parts.crossing]

    def __call__(self, args: tuple) -> tuple[list, tuple]:
        made = self._call([args[which][place] for which, place in self._leaves], args[2])
        return made[: self._count], (*args, [made[i] for i in self._places])
