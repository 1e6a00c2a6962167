"""Pieces: a graph cut into runs of calls, so that what repeats, as a layer or a round of a loop, is compiled once.

Calls are recorded in order, so a layer that comes twelve times is a run of the same operators on the same shapes twelve
times, forward and again backward. Pieces with equal keys compute the same function and share a program, in one graph
and between graphs.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from bireme.core.graph import cost, images, remaking
from bireme.core.graph.graph import Graph, Node, Number, Sig, fitting

LIST = 16  # tensors that one call treats alike: more are shared out
SHORT = 4  # calls: what repeats but is shorter stays with the calls around it
MOSTLY = 0.75  # of the times that a long run comes, it must be followed by the same for both to be one
WORTH = 12  # calls that need not be compiled again, at least, where a run repeats


class Share:
    """A part of a call that treats many tensors alike, as an update of all parameters: some of them, by the same rule."""

    __slots__ = ("bound", "args", "sigs", "outs", "made", "weight", "pos")

    def __init__(self, node: Node, members: Sequence[int]):
        bound = node.bound
        count = _members(bound)
        named = bound.arguments(range(len(node.args)))
        taken = [
            [named[name][m] for m in members] if n is not None and n <= 0 else [] if n is None else [named[name]]
            for name, n in zip(bound.op.operand_names, bound.layout)
        ]
        places = [place for group in taken for place in group]
        layout = tuple([-len(members) if n is not None and n <= 0 else n for n in bound.layout])
        attrs = [
            tuple([x[m] for m in members]) if name in bound.op.each else x
            for name, x in zip(bound.op.attr_names, bound.attrs)
        ]
        self.bound = bound.op.bind(layout, tuple(attrs))
        self.args = tuple([node.args[place] for place in places])
        self.sigs = tuple([node.sigs[place] for place in places])
        # results come in groups, one for each kind of state, and after these what all have in common
        groups = len(node.outs) // count
        made = [g * count + m for g in range(groups) for m in members] + list(range(groups * count, len(node.outs)))
        self.made = tuple([node.first + j for j in made])
        self.outs = tuple([node.outs[j] for j in made])
        self.weight, self.pos = len(members), node.pos


def _members(bound: Any) -> int:
    """How many tensors a call treats alike; 0 where it is no such call."""
    if bound.op.each is None:
        return 0
    return max([-n for n in bound.layout if n is not None], default=0)


def _shares(node: Node) -> list[Any]:
    """A call as its shares, those of like tensors alike; or as it is."""
    count = _members(node.bound)
    if count <= LIST:
        return [node]
    named = node.bound.arguments(node.sigs)
    lists = [named[name] for name, n in zip(node.bound.op.operand_names, node.bound.layout) if n is not None and n <= 0]
    attrs = [x for name, x in zip(node.bound.op.attr_names, node.bound.attrs) if name in node.bound.op.each]
    kinds = list(zip(*lists, *attrs))
    found = []
    for start, end in _runs(kinds):
        for at in range(start, end, LIST):
            found.append(Share(node, range(at, min(at + LIST, end))))
    return found


def _behind_what_they_read(calls: list[Any]) -> list[Any]:
    """Shares directly behind those that they read, as a cast of parameters behind their update: one piece has both."""
    maker = {i: at for at, call in enumerate(calls) for i in call.made}

    def place(at: int) -> tuple[int, int]:
        if calls[at].__class__ is Share:
            behind = max([maker[r] for r in calls[at].args if r.__class__ is int and r >= 0], default=at)
            if calls[behind].__class__ is Share:
                return behind, at
        return at, at

    return [calls[at] for at in sorted(range(len(calls)), key=place)]


class Piece:
    """A run of calls with the values it reads and gives.

    `reads` are values (>= 0) and leaves (< 0, ~place), `numbers` the places of numbers, both in the order in which they
    are met, `gives` the values that others want of it, `donate` the places in `reads` whose memory it may take, `turned`
    those in `reads` and in `gives` of images that are kept with their channels last, see `images`.
    """

    __slots__ = ("nodes", "reads", "numbers", "gives", "donate", "turned", "wiring")

    def __init__(self, nodes: tuple[Any, ...]):
        self.nodes = nodes
        self.gives: tuple[int, ...] = ()
        self.donate: tuple[int, ...] = ()
        self.turned: tuple[tuple[int, ...], tuple[int, ...]] = (), ()
        inner = {i: (k, j) for k, node in enumerate(nodes) for j, i in enumerate(node.made)}
        reads: dict[int, int] = {}
        numbers: dict[int, int] = {}
        wiring: list[Any] = []
        for node in nodes:
            refs: list[Any] = []
            for r in node.args:
                if r.__class__ is Number:
                    refs.append((r.dtype, numbers.setdefault(r.place, len(numbers))))
                elif r in inner:
                    refs.append(inner[r])
                else:
                    refs.append(reads.setdefault(r, len(reads)))
            wiring.append((node.bound, node.sigs, tuple(refs)))
        self.reads, self.numbers = tuple(reads), tuple(numbers)
        self.wiring = tuple(wiring)

    @property
    def made(self) -> list[int]:
        """Its values, in order."""
        return [i for node in self.nodes for i in node.made]

    @property
    def key(self) -> Hashable:
        """What its program depends on."""
        places = {i: place for place, i in enumerate(self.made)}
        return self.wiring, tuple([places[i] for i in self.gives]), self.donate, self.turned

    @property
    def compile_work(self) -> float:
        """What the compiler takes for it, in microseconds and roughly."""
        return cost.COMPILE_PIECE + cost.COMPILE_RESULT * len(self.gives) + self.work_of_calls

    @property
    def work_of_calls(self) -> float:
        """The part of it that is for calls, whatever they give back."""
        return sum([cost.compiling(node.bound) for node in self.nodes])


def cut(
    graph: Graph,
    live: tuple[int, ...],
    donate: tuple[int, ...] = (),
    most: float = math.inf,
    side_by_side: bool = False,
) -> list[Piece]:
    """A graph as pieces, in order; `donate` are leaves that may be written over.

    What does not repeat is cut so that no piece takes `most` microseconds to compile, where the least has to be kept.
    Where pieces are compiled `side_by_side` and no call reads another, each is one: a cast of every parameter.
    """
    nodes = _behind_what_they_read([call for node in graph.needed(live)[0] for call in _shares(node)])
    if side_by_side and _repeat_apart(nodes):
        return _made_of([(node,) for node in nodes], nodes, graph, live, donate)
    borders = _runs([(n.bound, n.sigs) for n in nodes], [getattr(n, "weight", 1) for n in nodes])
    if most < math.inf:
        borders = _short_enough(borders, nodes, most)
    return _made_of([tuple(nodes[start:end]) for start, end in borders], nodes, graph, live, donate)


def _made_of(
    runs: list[tuple[Any, ...]], nodes: list[Any], graph: Graph, live: tuple[int, ...], donate: tuple[int, ...]
) -> list[Piece]:
    """Runs of calls as pieces, with what crosses them."""
    made_by = {i: node for node in nodes for i in node.made}
    border = remaking.first_gradient(graph) if remaking.applies(graph) else 0
    plan = remaking.plan(nodes, border) if border else remaking.NOTHING
    pieces = [Piece((*_made_again(run, made_by, border, plan), *run)) for run in runs]
    _wire(pieces, graph, live, donate)
    return pieces


def large(graph: Graph, live: tuple[int, ...], donate: tuple[int, ...] = (), most: float = math.inf) -> list[Piece]:
    """A graph as few pieces, whatever repeats: all of it, or what takes `most` microseconds to compile."""
    nodes = graph.needed(live)[0]
    borders = _short_enough([(0, len(nodes))], nodes, most)
    return _made_of([tuple(nodes[start:end]) for start, end in borders], nodes, graph, live, donate)


def compile_work(pieces: list[Piece]) -> float:
    """What the compiler takes for pieces, each different one once, in microseconds and roughly."""
    return sum([piece.compile_work for piece in {piece.key: piece for piece in pieces}.values()])


def least_compile_work(nodes: Sequence[Node]) -> float:
    """What the compiler takes at least for the pieces that calls will be cut into: each different call is in one."""
    different = {(node.bound, node.sigs): node.bound for node in nodes}
    return cost.COMPILE_PIECE + sum([cost.compiling(bound) for bound in different.values()])


# ------------------------------------------------------------ what repeats


def _repeat_apart(nodes: list[Any]) -> bool:
    """Whether no call reads another, and most are alike."""
    if len({(node.bound, node.sigs) for node in nodes}) * SHORT > len(nodes):
        return False
    return not any(r.__class__ is int and r >= 0 for node in nodes for r in node.args)


def _runs(calls: Sequence[Hashable], weights: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """Where to cut a sequence of calls: from, to; equal runs are found as compression by pairs finds them.

    The most frequent pairs of neighbours become one token each, as long as any come twice. A long token is not taken
    apart for it: where a layer is followed now by a layer and now by the head, it stays a run of its own.
    """
    names: dict[Hashable, int] = {}
    tokens = [names.setdefault(call, len(names)) for call in calls]
    spans = [1] * len(names)  # calls of a token
    lengths = [1] * len(names)  # the same with their weights
    for token, weight in zip(tokens, weights or ()):
        lengths[token] = weight
    known: dict[tuple[int, int], int] = {}
    while True:
        counts = Counter(tokens)
        pairs = Counter(itertools.pairwise(tokens))
        frequent = {
            (a, b): n for (a, b), n in pairs.items()
            if n > 1 and a != b and all(lengths[t] < SHORT or n >= counts[t] * MOSTLY for t in (a, b))
        }  # fmt: skip
        if not frequent:
            break
        most = max(frequent.values())
        joined: list[int] = []
        i = 0
        while i < len(tokens):
            pair = (tokens[i], tokens[i + 1]) if i + 1 < len(tokens) else (-1, -1)
            if frequent.get(pair) == most:
                if pair not in known:
                    known[pair] = len(lengths)
                    lengths.append(lengths[pair[0]] + lengths[pair[1]])
                    spans.append(spans[pair[0]] + spans[pair[1]])
                joined.append(known[pair])
                i += 2
            else:
                joined.append(tokens[i])
                i += 1
        if len(joined) == len(tokens):
            break
        tokens = joined
    counts = Counter(tokens)
    repeated = {t for t, n in counts.items() if n > 1 and lengths[t] >= SHORT and (n - 1) * lengths[t] >= WORTH}
    found: list[tuple[int, int]] = []
    start = at = 0
    for t in tokens:
        if t in repeated:
            if start < at:
                found.append((start, at))
            found.append((at, at + spans[t]))
            start = at + spans[t]
        at += spans[t]
    if start < at:
        found.append((start, at))
    return found


def _short_enough(borders: list[tuple[int, int]], nodes: list[Any], most: float) -> list[tuple[int, int]]:
    """The same borders and more: long runs are cut where the bytes that have to be kept over the cut are least."""
    crossing = _crossing(nodes)
    work = [cost.compiling(node.bound) for node in nodes]
    found = []
    for start, end in borders:
        while sum(work[start:end]) > most:
            spent, best = 0.0, None
            for at in range(start, end - 1):
                spent += work[at]
                if best is not None and spent > most:
                    break
                if spent >= most / 3 and (best is None or crossing[at] <= crossing[best]):
                    best = at
            if best is None:
                break
            found.append((start, best + 1))
            start = best + 1
        found.append((start, end))
    return found


def _crossing(nodes: list[Any]) -> list[int]:
    """Bytes that are made up to each call and read after it."""
    maker = {i: at for at, node in enumerate(nodes) for i in node.made}
    sizes = {i: sig.nbytes for node in nodes for i, sig in zip(node.made, node.outs)}
    last: dict[int, int] = {}
    for at, node in enumerate(nodes):
        for r in node.args:
            if r.__class__ is int and r >= 0:
                last[r] = at
    change = [0] * (len(nodes) + 1)
    for i, at in last.items():
        change[maker[i]] += sizes[i]
        change[at] -= sizes[i]
    return list(itertools.accumulate(change))


# ------------------------------------------------------------ what crosses


def _made_again(run: tuple[Any, ...], made_by: dict[int, Any], border: int, plan: remaking.Plan) -> list[Node]:
    """Calls of other pieces that a run repeats for itself, so that their results need not be kept beside what they are made
    of: those that cost nothing, and those that the plan has for calls behind the border.
    """
    own = {i for node in run for i in node.made}
    again: dict[int, Any] = {}
    left = [r for node in run for r in node.args if r.__class__ is int and r >= 0]
    for node in run if plan.again else ():
        for r in node.args if node.made[0] >= border else ():
            if r.__class__ is int and r in plan.again and r not in own:
                again |= {call.first: call for call in plan.again[r] if call.first not in own}
    left += [r for call in again.values() for r in call.args if r.__class__ is int and r >= 0]
    while left:
        node = made_by[left.pop()]
        if node.made[0] in own or node.made[0] in again or not _free(node):
            continue
        again[node.made[0]] = node
        left += [r for r in node.args if r.__class__ is int and r >= 0]
    return [again[i] for i in sorted(again)]


def _free(node: Any) -> bool:
    """Whether a result is its operand in another form: a view of all of it, or a cast of a leaf or to more bits."""
    op = node.bound.op
    if any(r.__class__ is not int for r in node.args):
        return False
    if getattr(op, "is_view", False):
        return len(node.args) == 1 and node.sigs[0].nbytes == node.outs[0].nbytes
    return op.name == "cast" and (node.args[0] < 0 or node.sigs[0].nbytes < node.outs[0].nbytes)


def _wire(pieces: list[Piece], graph: Graph, live: tuple[int, ...], donate: tuple[int, ...]) -> None:
    """Say what each piece gives, and what it may take the memory of; equal pieces alike."""
    wanted = set(live)
    last: dict[int, int] = {}
    for at, piece in enumerate(pieces):
        for r in piece.reads:
            last[r] = at
    read = {r for r in last if r >= 0}
    given: set[int] = set()
    alike: dict[tuple, list[Piece]] = {}
    for piece in pieces:
        alike.setdefault(piece.wiring, []).append(piece)
    gives: dict[int, set[int]] = {}
    for piece in pieces:  # who makes a value first gives it; others have made it again for themselves
        made = piece.made
        gives[id(piece)] = {place for place, i in enumerate(made) if (i in wanted or i in read) and i not in given}
        given.update(made[place] for place in gives[id(piece)])
    order = {id(piece): at for at, piece in enumerate(pieces)}
    free = {~i for i in donate}
    turned = images.turned(graph, live)
    for same in alike.values():
        places = sorted(set().union(*[gives[id(piece)] for piece in same]))
        may: set[int] = set(range(len(same[0].reads)))
        for piece in same:
            at = order[id(piece)]
            dies = [last[r] == at and (r in free if r < 0 else r not in wanted) for r in piece.reads]
            may &= {place for place, dead in enumerate(dies) if dead}
        for piece in same:
            made = piece.made
            piece.gives = tuple([made[place] for place in places])
            piece.turned = _places_of(turned, piece.reads), _places_of(turned, piece.gives)
            operands = [(place, _kept(graph, piece.reads[place], turned)) for place in sorted(may)]
            piece.donate = fitting(operands, [_kept(graph, i, turned) for i in piece.gives])


def _places_of(some: frozenset[int], values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([place for place, i in enumerate(values) if i in some])


def _kept(graph: Graph, r: int, turned: frozenset[int]) -> tuple[Sig, bool]:
    """What the memory of a value (>= 0) or a leaf (< 0) is like: its Sig, and whether its channels are last."""
    return graph.value_sigs[r] if r >= 0 else graph.leaf_sigs[~r], r in turned
