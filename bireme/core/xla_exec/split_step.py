"""A step in two programs: what the forward pass gives, as a loss, is there before the gradients are.

A loop that reads the loss of every step on an accelerator would wait for the whole step, and the accelerator then for
the next one to be recorded. With the forward pass as a program of its own the loss can be read while the rest still
runs. That takes more memory and some percent more of the accelerator's time, so it is done for loops that do read:
`run.loss_reads` knows. What an activation or a normalisation gives is made again where gradients read it element by
element: that takes no kernel more, and the memory of a batch of images less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bireme.core.graph.bound import GradBound
from bireme.core.graph.graph import Graph, Node

AGAIN = 3  # calls, at most, that are made again for a value that is not kept


class Parts(NamedTuple):
    """Two parts of a graph: their calls, the results that each gives, and what the second reads of the first."""

    before: tuple[Node, ...]
    after: tuple[Node, ...]
    early: tuple[int, ...]
    late: tuple[int, ...]
    crossing: tuple[int, ...]


def first_gradient(graph: Graph) -> int:
    """How many values the calls before the first gradient give: 0 where there is none."""
    return next((node.first for node in graph.nodes if node.bound.__class__ is GradBound), 0)


def parts(graph: Graph, live: tuple[int, ...]) -> Parts | None:
    """The calls before the first gradient, and the others; None where nobody holds a result of the first, or there is
    no gradient.
    """
    nodes, border = graph.nodes, first_gradient(graph)
    first = sum(node.first < border for node in nodes)
    early = tuple([i for i in live if i < border])
    if not early:
        return None
    maker = {i: node for node in nodes[:first] for i in node.made}
    readers: dict[int, list[Node]] = {}
    for node in nodes[first:]:
        for r in node.args:
            if r.__class__ is int and 0 <= r < border:
                readers.setdefault(r, []).append(node)
    for r in [r for r in readers if _is_widened(maker[r])]:  # who reads it reads what it is made of
        for base in maker[r].args:
            if base >= 0:
                readers.setdefault(base, []).extend(readers[r])
    kept = {r for r, by in readers.items() if not (_is_widened(maker[r]) or all(map(_is_pass, by)))}
    again: dict[int, Node] = {}
    for r in sorted(readers.keys() - kept):
        calls = _calls_for(r, maker, kept)
        again.update({node.first: node for node in calls})
        if not calls:
            kept.add(r)
    return Parts(
        nodes[:first],
        (*[again[i] for i in sorted(again)], *nodes[first:]),
        early,
        tuple([i for i in live if i >= border]),
        tuple(sorted(kept)),
    )


def _calls_for(value: int, maker: dict[int, Node], kept: set[int]) -> list[Node]:
    """The calls that make a value of the forward pass again, of leaves and of what is kept: few, and each becomes a part
    of the kernels that read it. Empty where there are none such.
    """
    found: list[Node] = []
    left = [value]
    while left:
        node = maker[left.pop()]
        found.append(node)
        if len(found) > AGAIN or not _is_light(node):
            return []
        left += [r for r in node.args if r.__class__ is int and r >= 0 and r not in kept]
    return found


def _is_light(node: Node) -> bool:
    """Whether a call gives an element for each of its largest operand, as activations and normalisations do; what it
    gives may be rounded otherwise the second time, so it is no comparison.
    """
    op, out, sizes = node.bound.op, node.outs[0], [sig.size for sig in node.sigs]
    return _is_pass(node) and not op.draws and out.dtype.kind in "fc" and bool(sizes) and max(sizes) == out.size


def _is_pass(node: Node) -> bool:
    """Whether a call does no more than to go over its operands; the gradient of one that selects looks there for what it
    has found, to the last bit.
    """
    bound = node.bound.root
    return not (bound.uses_blas or bound.is_nest or bound.device_only or bound.selects)


def _is_widened(node: Node) -> bool:
    """Whether a result has more bits than what it was made of: twice the bytes would have to be kept for it."""
    return node.bound.op.name == "cast" and node.sigs[0].nbytes < node.outs[0].nbytes


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
