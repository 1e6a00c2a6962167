"""One backward pass: gradients on their way from edge to edge, and the memory of passes taken before.

A training loop walks the same tape again and again. The steps that a pass records depend on nothing but the segment's
state and the tape's wiring, so a pass met before is not walked: the segment jumps to the state where it ended, and only
the gradients that leaves receive are made. Anything unusual (hooks, in-place changes, values pending elsewhere) is
walked.
"""

from __future__ import annotations

import heapq
import operator
from typing import Any
from weakref import ref

from bireme.core.base import counters, errors, registry
from bireme.core.graph import segment
from bireme.core.graph.bound import GradBound, bounded
from bireme.core.graph.graph import Node, Value, shared
from bireme.core.record import flush
from bireme.core.tensor import tape
from bireme.core.tensor.grad_mode import GradMode
from bireme.core.tensor.tensor import Tensor, read, wrap


class BackwardPass:
    """Gradients on their way, by edge and by leaf."""

    def __init__(self, create_graph: bool, outer: bool):
        self.create_graph = create_graph
        self.hook_mode = create_graph or outer  # hooks are the user's code: they run in the mode of the caller
        self.waiting: dict[Any, list] = {}
        self.heap: list[tuple[int, int, Any]] = []
        self.leaves: dict[int, list] = {}  # id -> [leaf, gradient]
        self.stopped: set[Any] = set()  # targets whose first gradient is a tensor of the user with stop_gradient=True

    def give(self, target: Any, g: Tensor, stopped: bool = False) -> None:
        if target.__class__ is tuple:
            edge, i = target
            gs = self.waiting.get(edge)
            if gs is None:
                gs = self.waiting[edge] = [None] * max(len(edge.out_sigs), 1)
                heapq.heappush(self.heap, (-edge.order, id(edge), edge))
            if stopped and gs[i] is None:
                self.stopped.add(target)
            gs[i] = g if gs[i] is None else self.total(gs[i], g)
        else:
            slot = self.leaves.get(id(target))
            if slot is None:
                self.leaves[id(target)] = [target, g]
                if stopped:
                    self.stopped.add(id(target))
            else:
                slot[1] = self.total(slot[1], g)

    def total(self, a: Tensor, b: Tensor) -> Tensor:
        """The sum of two gradients: a step like those of the rules, without a look at arguments, since a weight that is used
        at each of forty steps has 39 of them.
        """
        x, y = a._value, b._value
        plain = a._view is None and b._view is None and x.sig is y.sig and x.__class__ is y.__class__ is Value
        if not plain or x is y:
            return add(a, b)
        bound = registry.find("add").bind((1, 1), ())
        return tape.apply(bound, [a, b])[0] if self.create_graph else tape.recorded(bound, [x, y])[0]

    def run(
        self,
        retain: bool,
        useful: set | None,
        wanted: dict[Any, Tensor | None],
        blocked: set,
        path: RememberedPass | None = None,
    ) -> None:
        border = flush.border()
        while self.heap:
            edge = heapq.heappop(self.heap)[2]
            if path is not None and edge not in path.places:  # from before sizes came from data: walked afterwards
                heapq.heappush(self.heap, (-edge.order, id(edge), edge))
                return
            if 0 < edge.order <= border:
                flush.cross_border()
                border = 0
            gs = self.waiting.pop(edge)
            if edge.hooks:
                gs = [self.hooked_output(edge, i, g) for i, g in enumerate(gs)]
            if wanted:
                for i, g in enumerate(gs):
                    if (edge, i) in wanted:
                        wanted[edge, i] = g
            if useful is not None and edge not in useful:
                continue
            if edge.inputs is None:
                raise freed(edge)
            if useful is None and not blocked:
                needs = [i for i, t in enumerate(edge.inputs) if t is not None]
            else:
                needs = [
                    i
                    for i, t in enumerate(edge.inputs)
                    if t is not None and key_of(t) not in blocked and leads(t, useful, wanted)
                ]
            if not needs:
                continue
            inputs, users = edge.inputs, edge.users
            if users and not self.create_graph:
                gs = [None if g is None else handle(g, (edge, i) in self.stopped) for i, g in enumerate(gs)]
            for i, g in edge.pull(gs, needs, self.create_graph):
                self.give(inputs[i], g, users and g.stop_gradient)
            if path is not None:
                path.passed(edge)
            if not retain:
                edge.free()

    def run_remembered(self, retain: bool) -> None:
        """As `run` for a plain backward; a pass that was walked before is repeated in one go."""
        wiring = Wiring(self)
        if wiring.key is None:
            self.run(retain, None, {}, set())
            return
        path = wiring.known()
        if path is None:
            path = RememberedPass(wiring)
            self.run(True, None, {}, set(), path)
            if path.finish(self):
                wiring.keep(path)
        elif not path.repeat(self, wiring):
            self.run(retain, None, {}, set())
            return
        if not retain:
            for place in path.visited:
                wiring.edges[place].free()
        if self.heap:
            self.run(retain, None, {}, set())

    def hooked_output(self, edge: Any, i: int, g: Tensor | None) -> Tensor | None:
        """The gradient of an output after its hooks; where nobody used the output, they see zeros, as in Paddle."""
        hooks = edge.hooks.get(i)
        if hooks and g is None and i < len(edge.out_sigs):
            sig = edge.out_sigs[i]
            g = registry.find("zeros")(list(sig.shape), sig.dtype) if sig.dtype.kind in "fc" else None
        return g if g is None else self.hooked(hooks, g, (edge, i))

    def hooked(self, hooks: Any, g: Tensor, key: Any) -> Tensor:
        """The gradient after the hooks registered for its target."""
        if not hooks:
            return g
        g = handle(g, key in self.stopped)
        with GradMode(self.hook_mode):
            for hook in list(hooks.values()):
                changed = hook(g)
                if changed is None:
                    continue
                if not isinstance(changed, Tensor):
                    raise errors.bad(
                        "register_hook(hook)",
                        "a hook that returns a Tensor or None",
                        changed,
                        kind=errors.ArgumentTypeError,
                    )
                if changed._sig.shape != g._sig.shape:
                    raise errors.bad(
                        "register_hook(hook)",
                        f"a hook that returns shape {g.shape}",
                        described=f"shape {changed.shape}",
                        kind=errors.ShapeError,
                    )
                g = changed if changed._sig is g._sig else registry.find("cast")(changed, g.dtype)
        (self.stopped.add if g.stop_gradient else self.stopped.discard)(key)
        return g


def leads(target: Any, useful: set | None, wanted: dict) -> bool:
    if useful is None:
        return True
    return (target[0] in useful or target in wanted) if target.__class__ is tuple else id(target) in wanted


def key_of(target: Any) -> Any:
    return target if target.__class__ is tuple else id(target)


def add(a: Tensor, b: Tensor) -> Tensor:
    return registry.find("add")(a, b)


def handle(g: Tensor, stop_gradient: bool) -> Tensor:
    """Another handle on a gradient for the user's code: one gradient may be on its way to several places."""
    t = wrap(read(g), stop_gradient)
    t._edge = g._edge
    return t


def freed(edge: Any) -> Exception:
    got, hint = f"one through {edge.name} that has been freed", "pass retain_graph=True to the first backward"
    return errors.bad("backward()", "a graph that was kept", described=got, hint=hint, kind=errors.FreedGraphError)


# ---------------------------------------------------------------- passes that were walked before

changed = [
    0
]  # when an in-place operator last changed a tensor, in the order of the tape: saved values are checked then
_PENDING = 1 << 40  # tells a value that is pending itself from an array that the segment reads
_BEFORE = 1 << 50  # and these from a result of another segment


class Wiring:
    """What a backward pass depends on: the segment's state, and how its edges are connected.

    `key` is None where a pass has to be walked.
    """

    __slots__ = ("edges", "key", "places", "seeds", "segment", "state")

    def __init__(self, current: BackwardPass, wanted: dict | None = None):
        self.segment = seg = segment.local.segment
        self.state: Node = seg.state
        # places count those that are left: which others there were is in no key
        self.edges: list[Any] = [edge for r in seg.edges if (edge := r()) is not None]
        self.places: dict[Any, int] = {}
        self.seeds: dict[Value, None] = {}  # gradients given by the user that the segment has not read yet
        self.key: tuple | None = None
        if current.leaves or segment.debug_mode.at_once or seg.symbolic:
            return
        code = self._code(current) if len(self.edges) >= FEWEST else None
        if code is None and seg.device is not None and segment.local.waiting is None and not flush.border():
            code = self._code_across(current)
        if code is not None and wanted is not None:
            code = self._with_wanted(code, current, wanted)
        if code is not None:
            self.key = tuple(code)

    def known(self) -> RememberedPass | None:
        """The pass with this wiring, if it was walked before: from this state, or from one that differs in sizes."""
        state = self.state
        found = None if state.passes is None else state.passes.get(self.key)
        if found is None and state.outline is not None:
            like = state.outline.passes.get(self.key)
            found = None if like is None else like.at(self)
            if found is not None:
                self.keep(found)
        return found

    def keep(self, path: RememberedPass) -> None:
        """Remember a pass that was walked, for this state and for its outline."""
        state = self.state
        if state.passes is None:
            state.passes = {}
        bounded(state.passes, 8)[self.key] = path
        segment.nodes[0] += 1
        if state.outline is not None and path.visits and self.key not in state.outline.passes:
            bounded(state.outline.passes, 8)[self.key] = path
            segment.nodes[0] += 1

    def _code(self, current: BackwardPass) -> list | None:
        """The wiring as numbers: how many edges; of each its place in the segment, and by operand a leaf or an edge."""
        seg, places, border = self.segment, self.places, flush.border()
        code: list[Any] = [len(self.edges)]
        owners: dict[int, Tensor] = {}
        before: dict[Any, int] = {}  # results from before sizes came from data: what they are given is handed on
        for place, edge in enumerate(self.edges):
            # one of the user's own has no place; one before the border is walked after a cut
            if not _may_repeat(edge) or edge.first < 0 or edge.order <= border:
                return None
            places[edge] = place
            code.append(edge.first)
            for target in edge.inputs:
                if target is None:
                    code.append(None)
                elif target.__class__ is tuple:
                    at = places.get(target[0])
                    if at is not None:
                        code.append((at << 20) + target[1])
                    elif target[0].order <= border:
                        code.append(~before.setdefault(target, len(before)) - _BEFORE)
                    else:
                        return None
                else:
                    at = segment.known(seg, target._value)
                    if at is not None and at >= 0:  # pending itself
                        at = ~at - _PENDING
                    if at is None or owners.setdefault(at, target) is not target:
                        return None
                    code.append(at)
        return self._with_gradients(code, current)

    def _code_across(self, current: BackwardPass) -> list | None:
        """The same for edges of segments that have run, as where a loss was read before the pass: of each its operator
        and operands, and which of the values that it saved are one.
        """
        self.places, self.seeds = {}, {}
        seg, places = self.segment, self.places
        found, left = set(current.waiting), list(current.waiting)
        while left:
            for target in left.pop().inputs or ():
                if target.__class__ is tuple and target[0] not in found:
                    found.add(target[0])
                    left.append(target[0])
        if len(found) < FEWEST:
            return None
        self.edges = sorted(found, key=_order)
        code: list[Any] = [None, len(found)]  # no other code begins like this
        same: dict[Any, int] = {}  # leaves and saved values in the order that they are met in
        for place, edge in enumerate(self.edges):
            if not _may_repeat(edge):
                return None
            places[edge] = place
            code += edge.bound, edge.sigs, edge.out_sigs
            for target in edge.inputs:
                if target is None:
                    code.append(None)
                elif target.__class__ is tuple:
                    code.append((places[target[0]] << 20) + target[1])
                else:
                    code.append(~same.setdefault(id(target), len(same)))
            for v in _kept(edge):
                if v is None:
                    code.append(None)
                elif v.__class__ is tuple:
                    code.append(v[0])
                elif v.segment is seg or v.leaf_of is seg:
                    code.append(segment.known(seg, v))
                elif v.array is None or v.device is not seg.device or v.__class__ is not Value:
                    return None
                else:
                    code += v.sig, same.setdefault(v, len(same))
        return self._with_gradients(code, current)

    def _with_gradients(self, code: list, current: BackwardPass) -> list | None:
        places = self.places
        for edge, gs in current.waiting.items():
            if edge not in places:
                return None
            code.append(places[edge])
            for g in gs:
                at = None if g is None else self._place_of(read(g))
                if g is not None and at is None:
                    return None
                code.append(at)
        return code

    def _with_wanted(self, code: list, current: BackwardPass, wanted: dict) -> list | None:
        """The same for a pass to some targets, with whether it makes a graph. Such a graph has to follow from the wiring: a
        gradient that the user gives is a constant in it, and a leaf has the value that was saved of it.
        """
        if flush.border() or segment.local.trace is not None or tape.state.pack is not None:
            return None
        leaves: dict[int, tuple[int, int]] = {}
        for place, edge in enumerate(self.edges):
            for i, target in enumerate(edge.inputs):
                if target is not None and target.__class__ is not tuple:
                    leaves.setdefault(id(target), (place, i))
                    saved = edge.saved[i]
                    if current.create_graph and saved is not None and saved is not target._value:
                        return None
        if current.create_graph and any(
            not g.stop_gradient for gs in current.waiting.values() for g in gs if g is not None
        ):
            return None
        code += "to", current.create_graph  # no other code goes on like this
        for target in wanted:
            if target.__class__ is not tuple:
                code.append(leaves.get(target))
            else:
                at = self.places.get(target[0])
                code.append(None if at is None else (at << 20) + target[1])
        return code

    def _place_of(self, v: Value) -> Any:
        """Where a gradient given by the user is; one that the segment has not read yet is known by its Sig."""
        return segment.reference(self.segment, v, self.segment.device, self.seeds)


FEWEST = 8  # edges of a pass that is worth remembering
_order = operator.attrgetter("order")


def _may_repeat(edge: Any) -> bool:
    """Whether what an edge records follows from the wiring: nothing of the user's is called, nothing was changed."""
    if not edge.plain or edge.hooks or edge.unpack is not None or edge.inputs is None:
        return False
    return edge.order >= changed[0] or not any(
        v.marks > edge.order for v in _kept(edge) if v is not None and v.__class__ is not tuple
    )


def _kept(edge: Any) -> Any:
    """What an edge saved: operands, then results that its rule reads."""
    return edge.saved if edge.outs is None else (*edge.saved, *edge.outs)


def _computed(edge: Any) -> tuple[int, ...]:
    """The operands whose gradients are not just those of the result, see `Edge.pull`."""
    passes, inputs = edge.bound.passes, edge.inputs
    if not passes:
        return tuple([i for i, t in enumerate(inputs) if t is not None])
    sigs, out = edge.sigs, edge.out_sigs[0]
    return tuple([i for i, t in enumerate(inputs) if t is not None and (i not in passes or sigs[i] is not out)])


class RememberedPass:
    """A pass as it was walked: where the segment ended, where its numbers came from, which value each leaf received."""

    __slots__ = (
        "end",
        "leaves",
        "numbers",
        "over",
        "places",
        "reads",
        "seeds",
        "segment",
        "sigs",
        "start",
        "visited",
        "visits",
        "_before",
    )

    makes_graph = False  # edges of its own, see `graph_pass`

    def __init__(self, wiring: Wiring):
        seg = wiring.segment
        self.segment: Any = seg
        self.start, self.places = seg.state, wiring.places
        self._before = self._beside_steps()
        self.seeds: Any = wiring.seeds
        # in which order values were read for the first time: seeds by number, what (edge, operand or result) saved
        self.reads: list[Any] = []
        self.visited: list[int] = []
        # of each visited edge the operands whose gradients were computed, and the nodes that this took, at first the
        # last one; empty where there is more to a pass than that
        self.visits: list[tuple[tuple[int, ...], Any]] = []
        # (edge, operand) that each number was saved for, or (None, itself) if the rule of an operator has it
        self.numbers: list[tuple[Any, Any]] | None = []
        # (edge, operand) whose leaf, or result of another segment, receives, and which value
        self.leaves: list[tuple[int, int, int]] = []
        self.sigs: tuple[Any, ...] = ()  # of these values
        self.end: Node = seg.state
        self.over = False  # whether pending work reaches a bound on the way

    def passed(self, edge: Any) -> None:
        """Note an edge whose gradients have just been recorded."""
        place = self.places.get(edge)
        if place is None or self.numbers is None:
            self.numbers = None
            return
        self.visited.append(place)
        seg = self.segment
        self.visits.append((_computed(edge), seg.state))
        new = seg.numbers[self.start.numbers + len(self.numbers) :]
        if not new:
            return
        # a rule takes a number as it was saved, or has one of its own
        given = [(i, id(s[1])) for i, s in enumerate(edge.saved) if s.__class__ is tuple]
        sources = {number: i for i, number in given}
        if len(sources) == len(given):
            self.numbers += [(place, sources[id(x)]) if id(x) in sources else (None, x) for x in new]
        elif len(new) == len(given):
            self.numbers += [(place, i) for i, _ in given]
        else:  # one number twice
            self.numbers = None

    def _beside_steps(self) -> tuple[int, ...]:
        """How much there is in the segment that is no step."""
        seg = self.segment
        return len(seg.cells), len(seg.guards), 0 if self.makes_graph else len(seg.edges)

    def _one_run(self) -> list[Node] | None:
        """The nodes of the pass, the last one first; None where it is more than one run of steps from the start to the end
        of the segment.
        """
        seg, start = self.segment, self.start
        self.end = node = seg.state
        if self.numbers is None or seg is not segment.local.segment or seg.closed:
            return None
        if self._beside_steps() != self._before or len(seg.numbers) != start.numbers + len(self.numbers):
            return None
        new = [r() for r in seg.leaves[start.leaves :]]
        if new:
            origins: dict[Any, Any] = {
                v: (place, i) for edge, place in self.places.items() for i, v in enumerate(_kept(edge)) if v is not None
            }
            origins |= {v: i for i, v in enumerate(self.seeds)}
            self.reads = [origins.get(v) for v in new]
        if None in self.reads:
            return None
        nodes = []
        while node is not start:
            if node.parent is None:
                return None
            self.over = self.over or node.over
            nodes.append(node)
            node = node.parent
        return nodes

    def finish(self, current: BackwardPass) -> bool:
        """Whether the pass can be repeated, when it has been walked."""
        seg, start, nodes = self.segment, self.start, self._one_run()
        if nodes is None:
            return False
        self._note_visits(nodes)
        owners: dict[Any, tuple[int, int]] = {
            id(t): (self.places[e], i)
            for e in self.places
            for i, t in enumerate(e.inputs)
            if t is not None and t.__class__ is not tuple
        }
        given: list[tuple[Any, Value]] = [(id(leaf), g._value) for leaf, g in current.leaves.values()]
        if current.waiting:
            owners |= {
                t: (self.places[e], i) for e in self.places for i, t in enumerate(e.inputs) if t.__class__ is tuple
            }
            given += [
                ((e, i), g._value) for e, gs in current.waiting.items() for i, g in enumerate(gs) if g is not None
            ]
        for target, v in given:
            if v.segment is not seg or v.index < start.end or target not in owners:
                return False
            self.leaves.append((*owners[target], v.index))
        self.sigs = tuple([v.sig for _, v in given])
        self.segment, self.places, self.seeds = None, {}, None
        return True

    def _note_visits(self, nodes: list[Node]) -> None:
        """Tell each visited edge the nodes that it took, of those of the pass, the last one first."""
        edges, visits, sums = list(self.places), [], registry.find("add").bind((1, 1), ())
        plain = self.end.leaves == self.start.leaves and not self.over
        for place, (computed, end) in zip(self.visited, self.visits):
            took = []
            while nodes and nodes[-1].depth <= end.depth:
                node = nodes.pop()
                took.append(node)
                if node.bound.__class__ is GradBound:
                    plain = plain and node.bound.base is edges[place].bound and node.bound.needs == computed
                else:
                    plain = plain and node.bound is sums and min(node.args) >= self.start.end
            visits.append((computed, took))
        self.visits = visits if plain and not nodes else []

    def at(self, wiring: Wiring) -> RememberedPass | None:
        """The same pass from another state of its outline, at other sizes; None where another one has to be walked."""
        state, start, pos = wiring.state, self.start.end, errors.position()
        made: list[Any] = []
        for place, (computed, nodes) in zip(self.visited, self.visits):
            edge = wiring.edges[place]
            if _computed(edge) != computed:
                return None
            for like in nodes:
                bound, sigs = like.bound, ()
                if bound.__class__ is GradBound:
                    bound = edge.bound.grad_bound(bound.given, computed, edge.sigs, edge.out_sigs)
                else:  # the sum of two gradients
                    sigs = tuple([made[r - start] for r in like.args])
                node = flush.grown(state, like, bound, sigs, pos)
                if node is None or node.over:
                    return None
                made += node.outs
                state = node
        path = RememberedPass(wiring)
        path.end, path.visited, path.numbers, path.leaves = state, self.visited, self.numbers, self.leaves
        path.sigs = shared(tuple([made[index - start] for _, _, index in self.leaves]))
        path.segment, path.places, path.seeds = None, {}, None
        return path

    def repeat(self, current: BackwardPass, wiring: Wiring) -> bool:
        """Take the segment to the end of the pass, and hand the gradients to the leaves."""
        seg, edges = wiring.segment, wiring.edges
        made = {index: segment.pending(seg, sig, index) for (_, _, index), sig in zip(self.leaves, self.sigs)}
        if not self._take(wiring, made):
            return False
        current.heap, current.waiting = [], {}
        for place, i, index in self.leaves:
            current.give(edges[place].inputs[i], wrap(made[index]))
        if self.over:
            flush.limit(seg)
        return True

    def _take(self, wiring: Wiring, made: dict[int, Value]) -> bool:
        """Take the segment to the end of the pass; `made` are those of its results that are held. False where another thread
        has cut it meanwhile.
        """
        seg, start, end, edges = wiring.segment, self.start, self.end, wiring.edges
        assert self.numbers is not None
        numbers = [i if place is None else edges[place].saved[i][1] for place, i in self.numbers]
        values = [segment.GONE] * (end.end - start.end)
        for index, v in made.items():
            values[index - start.end] = ref(v)
        try:
            seeds = list(wiring.seeds)
            flush.read_first(
                seg, [seeds[at] if at.__class__ is int else _kept(edges[at[0]])[at[1]] for at in self.reads]
            )
            seg.numbers.extend(numbers)
            seg.values.extend(values)
            seg.state = end
        except BaseException:  # an interrupt in between
            flush.roll_back(seg)
            raise
        counters.STATS["repeated_backwards"] += not seg.closed
        return not seg.closed
