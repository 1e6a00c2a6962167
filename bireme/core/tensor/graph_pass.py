"""Passes to some targets, as `grad` takes them, remembered: also those that can be differentiated again.

With `create_graph` a pass makes edges of its own. They follow from the wiring of those it walks over as its steps do, so
a pass that is repeated makes those of them again that its results lead to, without recording the calls they are of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

from bireme.core.graph import segment
from bireme.core.graph.graph import Node, Sig, Value
from bireme.core.record import flush
from bireme.core.tensor.backward_pass import BackwardPass, RememberedPass, Wiring
from bireme.core.tensor.tape import Edge
from bireme.core.tensor.tensor import Tensor, wrap


def run_to(current: BackwardPass, retain: bool, wanted: dict[Any, Tensor | None], useful: Callable[[], set]) -> None:
    """Take a pass to the wanted targets, and give each its gradient; one that was walked before is repeated in one go."""
    wiring = Wiring(current, wanted)
    path: Any = None if wiring.key is None else wiring.known()
    if path is not None and path.repeat_to(wiring, wanted):
        visited = path.visited
    else:
        path = None if wiring.key is None else PassTo(wiring, current.create_graph)
        current.run(retain or path is not None, useful(), wanted, set(), path)
        wanted |= {key: current.leaves[key][1] for key in wanted if key in current.leaves}
        if path is None:
            return
        visited = list(path.visited)
        if path.finish_to(wanted):
            wiring.keep(path)
    if not retain:
        for place in visited:
            wiring.edges[place].free()


class Target(NamedTuple):
    """Where a gradient goes on: to an edge that was walked over, to one that was made, or to the leaf that is an operand
    of the former.
    """

    edge: int
    i: int
    made: bool = False
    leaf: bool = False


class Made(NamedTuple):
    """An edge that a pass made. What it saved is None, the place of a value in the segment, or a dtype with the place of a
    number among those of the pass.
    """

    bound: Any
    sigs: tuple[Sig, ...]
    out_sigs: tuple[Sig, ...]
    first: int
    inputs: list[Target | None]
    saved: list[Any]
    outs: list[int] | None


class Result(NamedTuple):
    """A gradient that a pass gives."""

    place: int
    target: Target | None
    stop_gradient: bool


class PassTo(RememberedPass):
    """A pass to some targets as it was walked."""

    __slots__ = ("graph", "makes_graph", "results", "_held")

    def __init__(self, wiring: Wiring, makes_graph: bool):
        self.makes_graph = makes_graph
        super().__init__(wiring)
        self.graph: list[Made] = []
        self.results: list[Result | None] = []  # of each target, in order
        self._held: dict[int, Sig] = {}  # results of the pass that tensors and edges hold

    def finish_to(self, wanted: dict[Any, Tensor | None]) -> bool:
        """Whether the pass can be repeated, when it has been walked."""
        nodes = self._one_run()
        found = [g for g in wanted.values() if g is not None]
        if nodes is None or len({id(g) for g in found}) < len(found):
            return False
        try:
            self._note(found, {node.first: node for node in nodes})
        except LookupError:  # something that it made does not follow from the wiring
            return False
        results = iter(self.results)
        self.results = [None if g is None else next(results) for g in wanted.values()]
        self.segment, self.places, self.seeds, self.visits = None, {}, None, []
        return True

    def _note(self, found: list[Tensor], nodes: dict[int, Node]) -> None:
        """Note results, and the edges behind them that the pass made."""
        new: dict[Edge, None] = {}
        left = [g._edge[0] for g in found if g._edge is not None]
        while left:
            edge = left.pop()
            if edge not in self.places and edge not in new:
                new[edge] = None
                left += [t[0] for t in edge.inputs if t.__class__ is tuple]
        made = {edge: n for n, edge in enumerate(sorted(new, key=lambda edge: edge.order))}
        owners = {
            id(t): Target(place, i, leaf=True)
            for edge, place in self.places.items()
            for i, t in enumerate(edge.inputs)
            if t is not None and t.__class__ is not tuple
        }

        def target(t: Any) -> Target | None:
            if t is None:
                return None
            if t.__class__ is not tuple:
                return owners[id(t)]
            return Target(made[t[0]], t[1], made=True) if t[0] in made else Target(self.places[t[0]], t[1])

        for edge in made:
            if edge.__class__ is not Edge or edge.hooks or edge.unpack is not None:
                raise LookupError
            saved = [self._saved(v, nodes[edge.first], i) for i, v in enumerate(edge.saved)]
            outs = None if edge.outs is None else [self._place(v) for v in edge.outs]
            inputs = list(map(target, edge.inputs))
            self.graph.append(Made(edge.bound, edge.sigs, edge.out_sigs, edge.first, inputs, saved, outs))
        for g in found:
            if g._view is not None or g._value.segment is not self.segment or g._value.index < self.start.end:
                raise LookupError
            if g._edge is None and not g.stop_gradient:
                raise LookupError
            self.results.append(Result(self._place(g._value), target(g._edge), g._stop_gradient))

    def _place(self, v: Value) -> int:
        """Where the segment has a value; it is held in a repeated pass too if that makes it."""
        at = segment.known(self.segment, v)
        if at is None:
            raise LookupError
        if at >= self.start.end:
            self._held[at] = v.sig
        return at

    def _saved(self, v: Any, node: Node, i: int) -> Any:
        if v is None:
            return None
        if v.__class__ is not tuple:
            return self._place(v)
        later = sum([r.__class__ is type(v[0]) for r in node.key[1 + i :]])  # numbers of its node from this one on
        return v[0], node.numbers - later - self.start.numbers

    def repeat_to(self, wiring: Wiring, wanted: dict[Any, Tensor | None]) -> bool:
        """Take the segment to the end of the pass, make its edges, and give the gradients to the wanted targets."""
        seg = wiring.segment
        held = {index: segment.pending(seg, sig, index) for index, sig in self._held.items()}
        if not self._take(wiring, held):
            return False
        edges: list[Any] = []

        def value(at: int) -> Any:
            """Held by the pass, or by the edges it walks over."""
            v = held.get(at)
            return v if v is not None else (seg.values[at] if at >= 0 else seg.leaves[~at])()

        def target(t: Target | None) -> Any:
            if t is None:
                return None
            if t.leaf:
                return wiring.edges[t.edge].inputs[t.i]
            return (edges[t.edge] if t.made else wiring.edges[t.edge]), t.i

        for like in self.graph:
            saved = [
                None
                if s is None
                else value(s)
                if s.__class__ is int
                else (s[0], seg.numbers[self.start.numbers + s[1]])
                for s in like.saved
            ]
            edge = Edge(like.bound, list(map(target, like.inputs)), like.sigs, like.out_sigs, saved)
            edge.first = like.first
            if like.outs is not None:
                edge.outs = list(map(value, like.outs))
            edges.append(edge)
        seg.edges += map(ref, edges)
        for key, result in zip(wanted, self.results):
            if result is not None:
                g = wanted[key] = wrap(held[result.place], result.stop_gradient)
                g._edge = target(result.target)
        if self.over:
            flush.limit(seg)
        return True
