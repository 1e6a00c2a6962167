"""Composites that are remembered: which operators a function recorded for certain kinds of arguments, recorded again.

A composite declared `plain=True` records the same operators whenever the kinds of its arguments are the same: Sigs of
tensors, values of everything else. Then its body runs once for each of them; later calls record the operators straight
away, with keys drawn anew where operators take one. What a body must not do for that (read a number from a tensor, draw a
random number by itself, change a tensor) ends the memory.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import random_state
from bireme.core.graph import segment
from bireme.core.tensor import tape, view
from bireme.core.tensor.tensor import Tensor

FORGET = 256  # calls of new kinds after which a composite is not worth remembering: some argument keeps changing


class _Drawn:
    """Among the sources of a step: a part of a key, which is drawn anew each time."""

    __slots__ = ()


KEY = (_Drawn(), _Drawn())


class Trace:
    """Operators recorded while a body runs: (operator, bound, operands, results)."""

    __slots__ = ("calls", "drawn", "outer", "spoiled")

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, list, list]] = []
        self.spoiled = False

    def __enter__(self) -> Trace:
        self.outer, self.drawn = segment.local.trace, random_state.drawn()
        segment.local.trace = self
        return self

    def __exit__(self, *exc: Any) -> None:
        segment.local.trace = self.outer
        if self.outer is not None:
            self.outer.calls += self.calls
            self.outer.spoiled |= self.spoiled


def given(args: tuple, kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors among a call's arguments, in order, those in lists too."""
    found: list[Tensor] = []
    for x in (*args, *kwargs.values()):
        if isinstance(x, Tensor):
            found.append(x)
        elif x.__class__ is list or x.__class__ is tuple:
            found += [t for t in x if isinstance(t, Tensor)]
    return found


def repeats(tensors: list[Tensor]) -> tuple[int, ...]:
    """Which of the tensors are one and the same: a part of the key, where there are any."""
    if len(tensors) < 2 or len({id(t) for t in tensors}) == len(tensors):
        return ()
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(t), i) for i, t in enumerate(tensors)])


class Steps:
    """What a call of certain kinds recorded, as sources: a number is a place among the tensors known so far."""

    __slots__ = ("result", "steps")

    def __init__(self, steps: tuple, result: Any):
        self.steps, self.result = steps, result

    def path(self, since: Any, seg: segment.Segment) -> Path | None:
        """The nodes that recording this has led through, from the state `since`; None where it did anything else on the way."""
        nodes: list[Any] = []
        node: Any = seg.state
        while node is not since and node is not None and len(nodes) < len(self.steps):
            nodes.insert(0, node)
            node = node.parent
        if node is not since or len(nodes) != len(self.steps):
            return None
        if any(n.bound is not bound or n.over for n, (_, bound, _) in zip(nodes, self.steps)):
            return None
        return Path(self, nodes)

    def is_one_call(self) -> bool:
        """Whether all there is to it is one plain operator on the call's tensors as they come."""
        op, bound, sources = self.steps[0]
        plain = not (bound.many or op.is_view or op.index_rule is not None)
        return plain and len(self.steps) == 1 and sources == tuple(range(len(sources))) and self.result == len(sources)

    def again(self, tensors: list[Tensor]) -> Any:
        """Record the same on other tensors."""
        known = tensors
        for op, bound, sources in self.steps:
            operands = _fetched(known, sources)
            if op.index_rule is not None:
                op.check_indices(bound, operands)
            made = tape.apply(bound, operands)
            if op.is_view:
                view.attach(made[0], operands[0], bound, operands[1:])
            known += made
        return self.picked(known)

    def picked(self, known: list[Tensor]) -> Any:
        """The call's result among what is known."""
        result = self.result
        return known[result] if result.__class__ is int else _as(result, [known[i] for i in result])


class Path:
    """The same steps from a certain state of a segment: the nodes of the tree that they lead through."""

    __slots__ = ("nodes", "stages", "steps")

    over = False

    def __init__(self, steps: Steps, nodes: list):
        self.steps, self.nodes = steps, nodes
        self.stages = [
            (node, op, sources, _numbers(sources), not (bound.many or op.is_view or op.index_rule is not None))
            for node, (op, bound, sources) in zip(nodes, steps.steps)
        ]  # in the last place: whether there is nothing to it but one result

    def again(self, seg: segment.Segment, tensors: list[Tensor]) -> Any:
        """Record the same on other tensors at the same places."""
        known = tensors
        for node, op, sources, fixed, plain in self.stages:
            numbers: Sequence[Any]
            if fixed is None:
                operands = _fetched(known, sources)
                numbers = [x[1] for x in operands if x.__class__ is tuple]
            else:
                numbers = fixed
                operands = [known[s] if s.__class__ is int else s for s in sources]
            if op.index_rule is not None:
                op.check_indices(node.bound, operands)
            made: Any = None
            if seg.state is node.parent:  # asking about indices may have recorded a question; another thread may cut it at any time
                leaves, needs = [], False
                for t in operands:
                    if t.__class__ is not tuple:
                        needs = needs or not t.stop_gradient
                        v = t._value
                        if v.segment is not seg and v.leaf_of is not seg and v not in leaves:
                            leaves.append(v)
                if node.bound.many:
                    made = tape.step(seg, node, operands, numbers, leaves, needs)
                elif (one := tape.step_to_one(seg, node, operands, numbers, leaves, needs)) is not None:
                    if plain:
                        known.append(one)
                        continue
                    made = [one]
            if made is None:
                made = tape.apply(node.bound, operands)
            if op.is_view:
                view.attach(made[0], operands[0], node.bound, operands[1:])
            known += made
        return self.steps.picked(known)


def _fetched(known: list[Tensor], sources: tuple) -> list:
    """The operands of a step; what stands for a key becomes the next one of the stream."""
    if KEY[0] not in sources:
        return [known[s] if s.__class__ is int else s for s in sources]
    key = dict(zip(KEY, random_state.next_key()))
    return [known[s] if s.__class__ is int else (dtypes.uint32, key[s]) if s.__class__ is _Drawn else s for s in sources]


def _numbers(sources: tuple) -> tuple | None:
    """The numbers that a step reads; None if some are drawn each time."""
    return None if KEY[0] in sources else tuple([s[1] for s in sources if s.__class__ is tuple])


def _as(like: Any, items: list) -> Any:
    """A list, tuple or named tuple of the same kind."""
    return getattr(like, "_make", type(like))(items)


def steps_of(trace: Trace, tensors: list[Tensor], result: Any) -> Steps | None:
    """The steps that lead from the arguments to the result; None where something else had a part in it."""
    if trace.spoiled:
        return None
    places = {id(t): i for i, t in enumerate(tensors)}
    count, steps, keys = len(tensors), [], 0
    for op, bound, operands, made in trace.calls:
        sources: list[Any] = [x if x.__class__ is tuple else places.get(id(x)) for x in operands]
        if None in sources or op.looks_at_values or op.signature.sizes:
            return None
        for p in op.signature.operands:
            if p.kind == "key":
                first, second = bound.arguments(range(len(operands)))[p.name]
                sources[first], sources[second] = KEY
                keys += 1
        steps.append((op, bound, tuple(sources)))
        for t in made:
            places[id(t)] = count
            count += 1
    if random_state.drawn() - trace.drawn != keys:  # one that is no operator's, or from a stream of its own
        return None
    many = isinstance(result, (list, tuple))
    outs = list(result) if many else [result]
    ends = [places.get(id(t)) for t in outs]
    if None in ends or not all(i is not None and i >= len(tensors) for i in ends):
        return None
    if many or any(x.__class__ is tuple and x[1] == 0 for *_, sources in steps for x in sources):  # zeros of either sign are equal
        return Steps(tuple(steps), _as(result, ends) if many else ends[0])
    return _steps(tuple(steps), ends[0])


@functools.lru_cache(maxsize=4096)
def _steps(steps: tuple, end: int) -> Steps:
    """One object for the same steps: those of most composites do not depend on shapes."""
    return Steps(steps, end)
