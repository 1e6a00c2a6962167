"""What gradients read of the forward pass and nobody keeps for them: it is made again of what is kept.

What an activation or a normalisation gives is made again where gradients read it element by element, as a part of the
kernels that do: that takes no kernel more, and the memory of a batch of images less. For a convolution with a window it
takes a kernel, which is little beside what a window does with each element: a U-Net with attention keeps 2.1 instead of
3.6 GiB. What a product reads is kept: a Swin transformer would take 32.1 instead of 29.8 ms a step for a quarter of its
memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from bireme.core.graph.bound import GradBound
from bireme.core.graph.graph import Graph, Node

AGAIN = 3  # calls, at most, that are made again for a value that is not kept


class Plan(NamedTuple):
    """What is kept of the values that gradients read, and the calls that make each of the others."""

    kept: frozenset[int]
    again: dict[int, tuple[Node, ...]]


NOTHING = Plan(frozenset(), {})


def first_gradient(graph: Graph) -> int:
    """How many values the calls before the first gradient give: 0 where there is none."""
    return next((node.first for node in graph.nodes if node.bound.__class__ is GradBound), 0)


def applies(graph: Graph) -> bool:
    """Whether pieces make values again: where memory is dear, and the time to go over an array is not."""
    return not graph.device.is_cpu


def plan(nodes: Sequence[Any], border: int) -> Plan:
    """What to do with the values before `border` that calls behind it read."""
    maker = {i: node for node in nodes for i in node.made if i < border}
    readers: dict[int, list[Any]] = {}
    for node in nodes:
        for r in node.args if node.made[0] >= border else ():
            if r.__class__ is int and 0 <= r < border:
                readers.setdefault(r, []).append(node)
    for r in [r for r in readers if _is_widened(maker[r])]:  # who reads it reads what it is made of
        for base in maker[r].args:
            if base >= 0:
                readers.setdefault(base, []).extend(readers[r])
    kept = {r for r, by in readers.items() if not (_is_widened(maker[r]) or all(map(_takes_again, by)))}
    again: dict[int, tuple[Node, ...]] = {}
    for r in sorted(readers.keys() - kept):
        calls = _calls_for(r, maker, kept)
        if calls:
            again[r] = tuple(calls)
        else:
            kept.add(r)
    return Plan(frozenset(kept), again)


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


def _takes_again(node: Any) -> bool:
    """Whether a call may read what was made again."""
    return _is_pass(node) or _has_window(node)


def _is_pass(node: Any) -> bool:
    """Whether a call does no more than to go over its operands; the gradient of one that selects looks there for what it
    has found, to the last bit.
    """
    bound = node.bound.root
    return not (bound.uses_blas or bound.is_nest or bound.device_only or bound.selects)


def _has_window(node: Any) -> bool:
    """Whether a call is the gradient of a convolution that looks at several places at once."""
    bound = node.bound
    if bound.__class__ is not GradBound or "weight" not in bound.root.op.operand_names or not bound.root.uses_blas:
        return False
    weight = bound.sigs[bound.root.op.operand_names.index("weight")].shape
    return len(weight) > 2 and math.prod(weight[2:]) > 1


def _is_widened(node: Node) -> bool:
    """Whether a result has more bits than what it was made of: twice the bytes would have to be kept for it."""
    return node.bound.op.name == "cast" and node.sigs[0].nbytes < node.outs[0].nbytes
