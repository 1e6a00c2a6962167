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

from bireme.core.graph import cost
from bireme.core.graph.graph import Graph, Node, Number

SHORT = 4  # calls: what repeats but is shorter stays with the calls around it
MOSTLY = 0.75  # of the times that a long run comes, it must be followed by the same for both to be one
WORTH = 12  # calls that need not be compiled again, at least, where a run repeats


class Piece:
    """A run of calls with the values it reads and gives.

    `reads` are values (>= 0) and leaves (< 0, ~place), `numbers` the places of numbers, both in the order in which they
    are met, `gives` the values that others want of it, `donate` the places in `reads` whose memory it may take.
    """

    __slots__ = ("nodes", "reads", "numbers", "gives", "donate", "wiring")

    def __init__(self, nodes: tuple[Node, ...]):
        self.nodes = nodes
        self.gives: tuple[int, ...] = ()
        self.donate: tuple[int, ...] = ()
        own = {node.first: k for k, node in enumerate(nodes)}
        inner = {node.first + j: (k, j) for node, k in zip(nodes, own.values()) for j in range(len(node.outs))}
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
        return [node.first + j for node in self.nodes for j in range(len(node.outs))]

    @property
    def key(self) -> Hashable:
        """What its program depends on."""
        places = {i: place for place, i in enumerate(self.made)}
        return self.wiring, tuple([places[i] for i in self.gives]), self.donate


def cut(graph: Graph, live: tuple[int, ...], donate: tuple[int, ...] = (), most: float = math.inf) -> list[Piece]:
    """A graph as pieces, in order; `donate` are leaves that may be written over.

    What does not repeat is cut so that no piece takes `most` microseconds to compile, where the least has to be kept.
    """
    nodes, _ = graph.needed(live)
    borders = _runs([(n.bound, n.sigs) for n in nodes])
    if most < math.inf:
        borders = _short_enough(borders, nodes, most)
    runs = [tuple(nodes[start:end]) for start, end in borders]
    made_by = {i: node for node in nodes for i in range(node.first, node.end)}
    pieces = [Piece((*_made_again(run, made_by), *run)) for run in runs]
    _wire(pieces, graph, live, donate)
    return pieces


# ------------------------------------------------------------ what repeats


def _runs(calls: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Where to cut a sequence of calls: from, to; equal runs are found as compression by pairs finds them.

    The most frequent pairs of neighbours become one token each, as long as any come twice. A long token is not taken
    apart for it: where a layer is followed now by a layer and now by the head, it stays a run of its own.
    """
    names: dict[Hashable, int] = {}
    tokens = [names.setdefault(call, len(names)) for call in calls]
    lengths = [1] * len(names)
    known: dict[tuple[int, int], int] = {}
    while True:
        counts = Counter(tokens)
        pairs = Counter(zip(tokens, tokens[1:]))
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
            found.append((at, at + lengths[t]))
            start = at + lengths[t]
        at += lengths[t]
    if start < at:
        found.append((start, at))
    return found


def _short_enough(borders: list[tuple[int, int]], nodes: list[Node], most: float) -> list[tuple[int, int]]:
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
                if spent >= most / 3 or best is None:
                    best = at if best is None or crossing[at] <= crossing[best] or spent < most / 3 else best
            if best is None:
                break
            found.append((start, best + 1))
            start = best + 1
        found.append((start, end))
    return found


def _crossing(nodes: list[Node]) -> list[int]:
    """Bytes that are made up to each call and read after it."""
    place = {node.first: at for at, node in enumerate(nodes)}
    maker = {i: place[node.first] for node in nodes for i in range(node.first, node.end)}
    sizes = {node.first + j: sig.nbytes for node in nodes for j, sig in enumerate(node.outs)}
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


def _made_again(run: tuple[Node, ...], made_by: dict[int, Node]) -> list[Node]:
    """Calls of other pieces that a run repeats for itself: those that cost nothing, so that their results need not be
    kept beside what they are made of.
    """
    own = {i for node in run for i in range(node.first, node.end)}
    again: dict[int, Node] = {}
    left = [r for node in run for r in node.args if r.__class__ is int and r >= 0]
    while left:
        node = made_by[left.pop()]
        if node.first in own or node.first in again or not _free(node):
            continue
        again[node.first] = node
        left += [r for r in node.args if r.__class__ is int and r >= 0]
    return [again[i] for i in sorted(again)]


def _free(node: Node) -> bool:
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
            piece.donate = _matching(piece, may, graph)


def _matching(piece: Piece, may: set[int], graph: Graph) -> tuple[int, ...]:
    """Of operands that nobody reads later, those whose memory a result can take."""
    room = Counter(graph.value_sigs[i] for i in piece.gives)
    found = []
    for place in sorted(may):
        r = piece.reads[place]
        sig = graph.value_sigs[r] if r >= 0 else graph.leaf_sigs[~r]
        if room[sig]:
            room[sig] -= 1
            found.append(place)
    return tuple(found)
