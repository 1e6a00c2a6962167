"""A step in two programs: what the forward pass gives, as a loss, is there before the gradients are.

A loop that reads the loss of every step on an accelerator would wait for the whole step, and the accelerator then for the next one
to be recorded. With the forward pass as a program of its own the loss can be read while the rest still runs. That takes
more memory and some percent more of the accelerator's time, so it is done for loops that do read: each graph has a Watch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bireme.core import executor, flags
from bireme.core.bound import GradBound
from bireme.core.graph import Graph, Node

MANY = 64  # operators: fewer are recorded in a millisecond or two
WATCHED = 2  # runs after which it is known what a loop reads of each


def worth_it(graph: Graph) -> bool:
    """Whether the device computes while the host records something that takes its time: on CPU both want the same cores."""
    return len(graph.nodes) >= MANY and not graph.device.is_cpu


class Parts(NamedTuple):
    """Two parts of a graph: their calls, the results that each gives, and what the second reads of the first."""

    before: tuple[Node, ...]
    after: tuple[Node, ...]
    early: tuple[int, ...]
    late: tuple[int, ...]
    crossing: tuple[int, ...]


def edge(graph: Graph) -> int:
    """How many values the calls before the first gradient give: 0 where there is none."""
    return next((node.first for node in graph.nodes if node.bound.__class__ is GradBound), 0)


def parts(graph: Graph, live: tuple[int, ...]) -> Parts | None:
    """The calls before the first gradient, and the others; None where nobody holds a result of the first, or there is no gradient."""
    nodes, border = graph.nodes, edge(graph)
    first = sum(node.first < border for node in nodes)
    early = tuple([i for i in live if i < border])
    if not early:
        return None
    # a number in more bits than it was computed in is made again: twice the bytes would have to be kept for it
    widened = {node.first: node for node in nodes[:first] if node.bound.op.name == "cast" and node.sigs[0].nbytes < node.outs[0].nbytes}
    read = sorted({r for node in nodes[first:] for r in node.args if r.__class__ is int and 0 <= r < border})
    again = tuple([widened[r] for r in read if r in widened])
    crossing = {r for r in read if r not in widened} | {r for node in again for r in node.args if r.__class__ is int and r >= 0}
    return Parts(nodes[:first], (*again, *nodes[first:]), early, tuple([i for i in live if i >= border]), tuple(sorted(crossing)))


class Front:
    """The first program, called with what a program of the whole would be given: its results, and the second one's arguments."""

    __slots__ = ("_call", "_count", "_leaves", "_places")

    def __init__(self, call: Any, parts: Parts, gives: tuple[int, ...], leaves: list[tuple[int, int]]):
        self._call, self._count, self._leaves = call, len(parts.early), leaves
        self._places = [gives.index(i) for i in parts.crossing]

    def __call__(self, args: tuple) -> tuple[list, tuple]:
        made = self._call([args[which][place] for which, place in self._leaves], args[2])
        return made[: self._count], (*args, [made[i] for i in self._places])


# ------------------------------------------------------------ who reads


class Watch:
    """What is read of a graph's runs: `front` are the last one's results of one number that the forward pass gives, `rest` the
    others, `read` which of both were read before the next run; `against` how often in a row that was other than its programs expect."""

    __slots__ = ("runs", "front", "rest", "read", "against")

    def __init__(self) -> None:
        self.runs = self.against = 0
        self.front: list[Any] = []
        self.rest: list[Any] = []
        self.read: set[str] = set()

    def remember(self, graph: Graph, program: Any, results: tuple) -> None:
        """After a run: the results that a loop may read, as the loss."""
        if program.numbers is None:
            border, sigs = edge(graph), graph.value_sigs
            single = [(place, i < border) for place, i in enumerate(program.live) if sigs[i].size == 1]
            program.numbers = [place for place, first in single if first], [place for place, first in single if not first]
        self.front, self.rest = ([results[place] for place in places] for places in program.numbers)
        self.read.clear()
        self.runs += 1
        _watched[:] = [self]


_watched: list[Watch] = []  # the one whose run was the last


def was_read(array: Any) -> None:
    """Somebody waited for this array: was it the loss of the last run?"""
    for watch in _watched:
        watch.read.update(which for which, arrays in (("front", watch.front), ("rest", watch.rest)) if any(a is array for a in arrays))


def look_back(entry: Any, watch: Watch) -> None:
    """Before a run: where of each of the first ones the loss was read, and nothing that comes later, the next program gives it early.

    When a loop stops to read, it gets the program of the whole again; both are kept, so nothing is compiled for it.
    """
    asked = watch.read == {"front"}
    watch.front, watch.rest = [], []
    if flags.deterministic.value or executor.forced() is not None:  # no choice then; later, runs are counted anew
        watch.runs = watch.against = 0
        return
    if not watch.runs:
        return
    if entry.others is None:  # it has had programs of the whole alone
        if not asked:
            entry.watch = None
        elif watch.runs == WATCHED and entry.compiled:
            entry.turn()
            entry.note.reason = "its loss is read after every run: with the forward pass as a program of its own, reading waits for no more"
        return
    watch.against = 0 if asked == entry.early else watch.against + 1
    if watch.against == WATCHED:
        watch.against = 0
        entry.turn()
