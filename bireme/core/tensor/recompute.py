"""Recomputation: a function's results are kept, what it computed on the way is recorded again when gradients come.

The function itself runs once. Its calls are in the segment's tree, so a second pass over them needs no Python of the
user: random numbers, mixed precision and branches are what they were, and buffers that it changed are not changed
twice.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, ref

from bireme.core.base import registry
from bireme.core.graph import segment
from bireme.core.graph.graph import Node, Number, Sig, Value, Zero, number_at
from bireme.core.tensor import backward, tape
from bireme.core.tensor.backward_pass import add, key_of
from bireme.core.tensor.grad_mode import GradMode, state
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.recording import Call, Recording
from bireme.core.tensor.tensor import Tensor, read, wrap


class Region:
    """What this thread records inside a `with` block, through any number of cuts."""

    def __init__(self) -> None:
        self.since = tape.now()
        self.calls: list[Call] = []
        self.edges: list[Any] = []  # of each call, None where it has none
        self.numbers: list[Any] = []
        self.outside: list[Value] = []
        self._place_outside: dict[int, int] = {}
        self._made: WeakKeyDictionary[Value, int] = WeakKeyDictionary()
        self._size = 0
        self._segment, self._start = segment.local.segment, segment.local.segment.state
        self.lost = False  # another thread ran a segment of it meanwhile: then nothing is recomputed

    def __enter__(self) -> Region:
        segment.local.regions.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._note()
        segment.local.regions.remove(self)

    def moved(self, seg: segment.Segment) -> None:
        """The thread goes on in another segment; what is in the present one is about to run."""
        self._note()
        self._segment, self._start = seg, seg.state

    def _note(self) -> None:
        """Keep what was recorded in the present segment."""
        seg, start = self._segment, self._start
        with seg.lock:
            if seg.results:
                self.lost = self.lost or seg.state is not start
                return
            edges = {e.first: e for r in seg.edges if (e := r()) is not None and e.plain and e.order > self.since}
            nodes: list[Node] = []
            node: Any = seg.state
            while node is not start:
                nodes.append(node)
                node = node.parent
            shift = self._size - start.end
            for node in reversed(nodes):
                args = tuple([self._argument(seg, r, start.end, shift) for r in node.args])
                self.calls.append(Call(node.bound, args, node.first + shift, len(node.outs)))
                self.edges.append(edges.get(node.first))
            for i in range(start.end, seg.state.end):
                v = seg.values[i]()
                if v is not None:
                    self._made[v] = i + shift
            self._size += seg.state.end - start.end
            self._start = seg.state

    def _argument(self, seg: segment.Segment, r: Any, first: int, shift: int) -> Any:
        """An argument of a node as one of the region: its results and numbers are counted through all segments."""
        if r.__class__ is Number:
            self.numbers.append(seg.numbers[r.place])
            return number_at(r.dtype, len(self.numbers) - 1)
        if r >= first:
            return r + shift
        return self.place_of(_pending(seg, r) if r >= 0 else _leaf(seg, ~r))

    def place_of(self, v: Value) -> int:
        """A result of a step (>= 0), or a value from outside (< 0)."""
        made = self._made.get(v)
        if made is not None:
            return made
        place = self._place_outside.setdefault(id(v), len(self.outside))
        if place == len(self.outside):
            self.outside.append(v)
        return ~place

    def finish(self, results: list[Tensor]) -> list[Tensor]:
        """The results with one edge that stands for the whole region; what it did not make is left alone."""
        made = [t for t in results if read(t) in self._made and _inside(tape.target_of(t), self.since)]
        if self.lost or not made:
            return results
        try:
            again = Recomputation(self, made)
        except LookupError:  # a gradient of the user's own, with every call run at once: nothing is recomputed
            return results
        edge = backward.CustomEdge(
            "recompute", tuple(again.targets), tuple(again.sigs), tuple([t._sig for t in made]), again
        )
        segment.local.segment.edges.append(ref(edge))
        new: dict[int, Tensor] = {}
        for i, t in enumerate(made):
            new[id(t)] = wrap(read(t), stop_gradient=False)
            new[id(t)]._edge = (edge, i)
        return [new.get(id(t), t) for t in results]


def _inside(target: Any, since: int) -> bool:
    return target.__class__ is tuple and target[0].order > since


def _pending(seg: segment.Segment, index: int) -> Value:
    """The Value of a pending result, or a new one where nobody holds it any more."""
    v = seg.values[index]()
    if v is None:
        node: Any = seg.state
        while node.first > index:
            node = node.parent
        v = Value(node.outs[index - node.first], None, seg.device)
        v.segment, v.index = seg, index
        seg.values[index] = ref(v)
    return v


def _leaf(seg: segment.Segment, place: int) -> Value:
    """The same for an array that the segment reads: held again, its buffer is not donated."""
    v = seg.leaves[place]()
    if v is None:
        node: Any = seg.state
        while node.parent.leaves > place:
            node = node.parent
        v = Value(node.sigs[node.args.index(~place)], seg.arrays[place], seg.device)
        v.leaf_of, v.leaf = seg, place
        v.guards = (seg.leaf_guards or {}).get(place, ())
        seg.leaves[place] = ref(v)
    return v


class Recomputation:
    """Gradients of a region's results by recording its calls again; it keeps what the region read, nothing that it
    made.

    A target is None, an int (a place in `targets`, where gradients leave the region) or (number of an edge, output).
    """

    def __init__(self, region: Region, results: list[Tensor]):
        self.targets: list[Any] = []
        self.sigs: list[Sig] = []  # of the targets
        self._outside = region.outside
        self._region: Any = region
        self._edges: dict[Any, int] = {}
        self._places: dict[Any, int] = {}
        self._custom: dict[int, tuple] = {}  # edges whose gradient is a Python function
        self._call_of = {edge: call for call, edge in zip(region.calls, region.edges) if edge is not None}
        self._wanted: set[int] = set()
        # by a call's first result: targets of its operands, number of its edge, hooks
        self._about: dict[int, tuple] = {}
        self._roots = [(place := self._want(read(t)), self._target(tape.target_of(t), t._sig, place)) for t in results]
        needed: list[Call] = []
        for i in reversed(range(len(region.calls))):
            call, edge = region.calls[i], region.edges[i]
            if self._wanted.isdisjoint(range(call.first, call.first + call.width)):
                continue
            needed.append(call)
            self._wanted.update([r for r in call.args if r.__class__ is int and r >= 0])
            if edge is None or edge.inputs is None:
                self._about[call.first] = ([None] * len(call.args), None, None)
            else:
                targets = [self._target(t, sig, r) for t, sig, r in zip(edge.inputs, edge.sigs, call.args)]
                self._about[call.first] = (targets, self._edges.setdefault(edge, len(self._edges)), edge.hooks)
        self.recording = Recording(needed[::-1], region.numbers)
        # an edge holds what it saved: nothing here keeps one
        del self._region, self._edges, self._places, self._call_of, self._wanted

    def _want(self, v: Value) -> int:
        place = self._region.place_of(v)
        if place >= 0:
            self._wanted.add(place)
        return place

    def _target(self, target: Any, sig: Sig, place: Any = None) -> Any:
        """The target of a gradient of what stands at `place`, by number."""
        if target is None:
            return None
        if not _inside(target, self._region.since):
            exit = self._places.setdefault(key_of(target), len(self.targets))
            if exit == len(self.targets):
                self.targets.append(target)
                self.sigs.append(sig)
            return exit
        edge, i = target
        if edge not in self._edges:
            number = self._edges[edge] = len(self._edges)
            if edge.plain:
                call = self._call_of.get(edge)
                if call is None:  # recording it cut the segment, so the edge came after the cut
                    if place is None:
                        raise LookupError
                    region = self._region
                    at = next(i for i, c in enumerate(region.calls) if c.first <= place < c.first + c.width)
                    call, region.edges[at] = region.calls[at], edge
                self._wanted.add(call.first)
            else:
                inputs = [self._target(t, s) for t, s in zip(edge.inputs, edge.sigs)]
                inner = edge.function if isinstance(edge.function, Recomputation) else None
                reads = [] if inner is None else [self._want(v) for v in inner._outside]  # a region inside this one
                self._custom[number] = (edge.name, inputs, edge.sigs, edge.out_sigs, edge.function, edge.hooks, reads)
        return self._edges[edge], i

    def __call__(self, gs: list) -> list:
        """Gradients for `targets`, given those of the results."""
        create_graph = state.grad
        with GradMode(True):
            again = _Again(self, next(g for g in gs if g is not None), create_graph)
            pairs = [(again.tensor(*root), g) for root, g in zip(self._roots, gs) if g is not None]
        entries = [(place, t) for place, ts in again.entries.items() for t in ts]
        ys, seeds = [y for y, _ in pairs], [g for _, g in pairs]
        found = (
            backward.pulled(ys, seeds, [t for _, t in entries], create_graph, create_graph, set()) if entries else []
        )
        sums: list[Any] = [None] * len(self.targets)
        for (place, _), g in zip(entries, found):
            if g is not None:
                sums[place] = g if sums[place] is None else add(sums[place], g)
        return sums

    def on(self, outside: list[Value]) -> Recomputation:
        """The same reading other values."""
        new = Recomputation.__new__(Recomputation)
        new.__dict__.update(self.__dict__, _outside=outside)
        return new


class _Again:
    """A region's calls recorded once more, on values that are tied to the incoming gradient.

    Without the tie the compiler would see the same calculation twice, do it once, and keep everything after all.
    """

    def __init__(self, plan: Recomputation, g: Tensor, create_graph: bool):
        self._plan = plan
        self.entries: dict[int, list[Tensor]] = {}  # by target, the tensors at which gradients leave
        self._values: dict[int, Value] = {}
        self._edges: dict[int, Any] = {}
        self._tensors: dict[tuple[int, int], Tensor] = {}
        self._tie(g, create_graph)
        plan.recording.again(self._operands, self._done)

    def _operands(self, call: Call) -> list:
        targets, _, _ = self._plan._about[call.first]
        number = self._plan.recording.number
        return [
            self.tensor(r, target) if r.__class__ is int else self._numbers.get(r.place, number(r))
            for r, target in zip(call.args, targets)
        ]

    def _done(self, call: Call, made: list[Tensor]) -> None:
        for i, t in enumerate(made):
            self._values[call.first + i] = t._value
        _, number, hooks = self._plan._about[call.first]
        if number is not None:
            edge = next(t._edge for t in made if t._edge is not None)[0]
            self._edges[number] = edge
            if hooks:
                edge.hooks = hooks

    def _tie(self, g: Tensor, create_graph: bool) -> None:
        """Pass what the steps read, and the numbers of those that read nothing else, through one barrier with the
        gradient.
        """
        plan = self._plan
        reads: dict[tuple[int, Any], None] = {(r, None): None for r, _ in plan._roots if r < 0}
        numbers: list[Number] = []
        gathered: set[Any] = set()
        for call in plan.recording.calls:
            for r, target in zip(call.args, plan._about[call.first][0]):
                if r.__class__ is int and r < 0:
                    reads[r, target if target.__class__ is int else None] = None
            if all(r.__class__ is Number for r in call.args):
                numbers += call.args
            if call.bound.op.name == "lay_out":
                gathered.update(call.args)
        for *_, inner in plan._custom.values():
            for r in inner:
                if r < 0:
                    reads[r, None] = None
        places = []
        for r, p in reads:
            target = None if p is None else plan.targets[p]
            if isinstance(target, Parameter) and r not in gathered:  # it is there in any case
                v = plan._outside[~r]
                self._enter(r, p, tape.restored(v, target) if create_graph else wrap(v, stop_gradient=False))
            else:
                places.append((r, p))
        sources = [
            tape.restored(plan._outside[~r], None if p is None or not create_graph else plan.targets[p])
            for r, p in places
        ]
        operands = [*sources, *map(plan.recording.number, numbers), g]
        with GradMode(create_graph):
            tied = tape.apply(registry.find("tie").bind((1 - len(operands), 1), ()), operands)
        for (r, p), t in zip(places, tied):
            self._enter(r, p, t)
        self._numbers = {r.place: t for r, t in zip(numbers, tied[len(places) :])}

    def _enter(self, r: int, place: int | None, t: Tensor) -> None:
        """What came from outside, and where its gradient goes."""
        self._values[r] = t._value
        if place is not None:
            t.stop_gradient = False
            self._tensors[r, place] = t
            self.entries.setdefault(place, []).append(t)

    def tensor(self, r: int, target: Any) -> Tensor:
        """An operand: its value with its place on the new tape."""
        v = self._values[r]
        if target is None:
            return wrap(v)
        if target.__class__ is int:
            found = self._tensors.get((r, target))
            if found is None:  # a leaf that the region made itself
                found = wrap(v, stop_gradient=False)
                self._enter(r, target, found)
            return found
        t = wrap(v, stop_gradient=False)
        t._edge = (self._edge(target[0]), target[1])
        return t

    def _edge(self, number: int) -> tape.Edge:
        found = self._edges.get(number)
        if found is None:
            name, inputs, sigs, out_sigs, function, hooks, reads = self._plan._custom[number]
            if isinstance(function, Recomputation):
                function = function.on([self._values[r] for r in reads])
            found = self._edges[number] = backward.CustomEdge(
                name, tuple([self._mapped(t, s) for t, s in zip(inputs, sigs)]), sigs, out_sigs, function
            )
            found.hooks = hooks
        return found

    def _mapped(self, target: Any, sig: Sig) -> Any:
        """Where a function's gradient goes on the new tape."""
        if target is None:
            return None
        if target.__class__ is tuple:
            return self._edge(target[0]), target[1]
        ts = self.entries.setdefault(target, [])
        if not ts:  # only the function's gradient leads there
            ts.append(wrap(Zero(sig, None, segment.local.segment.device), stop_gradient=False))
        return tape.target_of(ts[0])
