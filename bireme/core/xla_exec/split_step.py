"""A step in two programs: what the forward pass gives, as a loss, is there before the gradients are.

A loop that reads the loss of every step on an accelerator would wait for the whole step, and the accelerator then for
the next one to be recorded. With the forward pass as a program of its own the loss can be read while the rest still
runs. That takes more memory and some percent more of the accelerator's time, so it is done for loops that do read:
`run.loss_reads` knows. What the second makes again of what the first has computed is said by `remaking`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    no gradient. The gradient of a loss over many classes goes with the first, where much less is then kept for the second.
    """
    nodes, border = graph.nodes, remaking.first_gradient(graph)
    first = sum(node.first < border for node in nodes)
    if not any(i < border for i in live):
        return None
    plan = remaking.plan(nodes, border)
    sizes = {i: sig.nbytes for node in nodes for i, sig in zip(node.made, node.outs)}
    moved = min(LATER, (len(nodes) - first) // SHARE)
    cuts = {at: _across(nodes, at, plan) for at in range(first, first + moved + 1)}
    kept = {at: sum([sizes[i] for i in crossing]) for at, (_, crossing) in cuts.items()}
    least = min(kept, key=lambda at: kept[at])
    cut = least if kept[least] < kept[first] * WORTH else first
    again, crossing = cuts[cut]
    border = nodes[cut].first
    early = tuple([i for i in live if i < border])
    return Parts(nodes[:cut], (*again, *nodes[cut:]), early, tuple([i for i in live if i >= border]), crossing)


LATER, SHARE = 16, 8  # calls behind the first gradient that the first part may have, and which part of them at most
WORTH = 0.9  # of what would be kept, at most, is kept then


def _across(nodes: Sequence[Node], at: int, plan: remaking.Plan) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    """What the calls from one on make again of the calls before it, and what they read of these."""
    border = nodes[at].first
    again: dict[int, Node] = {}
    for node in nodes[at:]:
        for r in node.args:
            if r.__class__ is int and r in plan.again:
                again |= {call.first: call for call in plan.again[r]}
    second = [*[again[i] for i in sorted(again)], *nodes[at:]]
    read = {r for node in second for r in node.args if r.__class__ is int and 0 <= r < border}
    return tuple(second[: len(again)]), tuple(sorted(read - {i for call in again.values() for i in call.made}))


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
