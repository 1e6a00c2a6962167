"""Graphs that are remembered: an entry for each with the programs made for it, families of those that differ in sizes, and
room for new ones.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Any, Literal

from bireme.core.graph import segment
from bireme.core.graph.graph import Graph, Node
from bireme.core.run import beside, explain, loss_reads, padding, prefetch, tiers

MAX_GRAPHS, MAX_CALLS = 4096, 500_000  # graphs that are remembered, and the calls in all of them: some 700 bytes each
MAX_NEW = tiers.BUSY_RUNS_SLOW * tiers.BUSY_SHARE  # those of them that were met once: later than that, none is compiled
# Of a family whose last graphs were all new, so many, fewer are kept: they would not come back either, and each time that
# Python looks for garbage it looks at every call.
NEVER_BACK, FEW_NEW = 512, 64
MAX_WAITING, MAX_FRESH = 48, 8  # interpreted programs that are kept: of graphs that came back, and of those met last


class Executable:
    """A prepared call with the outputs it returns and the leaves it donates; `front` is a program that goes before it,
    see `split_step`.
    """

    __slots__ = ("live", "donate", "front", "call", "kept", "tier", "warm", "numbers", "later", "before", "source")

    def __init__(
        self, live: tuple[int, ...], donate: tuple[int, ...], call: Any, n_leaves: int, tier: str, front: Any = None
    ):
        self.live, self.donate, self.front, self.call, self.tier = live, donate, front, call, tier
        self.source: Any = None  # what was compiled for a mesh: its text tells the collectives
        self.later: beside.Whole | beside.Finer | None = None  # what will take its place
        self.before: Executable | None = None  # the pieces whose place it takes with its next run
        self.warm: set[tuple[int, ...]] = set()  # kinds of arguments that it was called with
        self.numbers: tuple[list[int], list[int]] | None = (
            None  # places of its results of one number, see `loss_reads.Watch`
        )
        given = set(donate)
        self.kept = tuple(i for i in range(n_leaves) if i not in given)


class Entry:
    """What is known about one graph: how often it was met and the programs made for it."""

    __slots__ = (
        "graph",
        "met",
        "hits",
        "exact",
        "always",
        "always_under",
        "compiled",
        "interpreted",
        "family",
        "size",
        "planned",
        "note",
        "last",
        "recent",
        "looked",
        "watch",
        "early",
        "others",
        "ahead",
        "beside",
        "making",
        "padded",
    )

    def __init__(self, graph: Graph, family: Family, size: tiers.Size):
        self.graph, self.family, self.size = graph, family, size
        self.met = self.hits = self.last = 0
        self.planned = False  # whether its calls were made ready for the interpreter, see `planning.found_out`
        self.looked = 1  # how often it had been met when `_make_room` looked at it
        # when it was met without a program, by the family's clock
        self.recent: deque[int] = deque(maxlen=tiers.BUSY_RUNS_SLOW)
        self.exact: dict[tuple, Executable] = {}
        # what runs it in every run where the same results are wanted: the interpreter; and the settings that said so
        self.always: Executable | None = None
        self.always_under: Any = None
        self.compiled: list[Executable] = []
        self.interpreted: Executable | None = None
        self.making = threading.RLock()  # held by who makes a program of it
        self.note = explain.Note(graph)
        self.watch = loss_reads.Watch() if loss_reads.worth_it(graph) else None
        self.ahead: prefetch.Reading | None = None  # what is read while the first run is interpreted
        self.beside: beside.Compiling | Literal[False] | None = False  # False: nobody has asked whether one is worth it
        self.padded: padding.Plan | Literal[False] | None = False  # False: nobody has asked yet
        self.early = False  # whether its programs give the loss before the gradients
        self.others: tuple[dict[tuple, Executable], list[Executable]] | None = (
            None  # those of the other kind, where there are both
        )

    @property
    def executor(self) -> str:
        """What runs it now, in words."""
        if not self.compiled:
            return "the interpreter"
        program = self.compiled[-1]
        if program.tier == "xla_pieces":
            return "pieces"
        return "two programs" if program.front is not None else "one program"

    @property
    def told(self) -> str:
        """The same with how many pieces there are, and what will take over."""
        if not self.compiled:
            return self.executor + (f"; compiled from run {self.beside.when.due}" if self.beside else "")
        program = self.compiled[-1]
        later = "" if program.later is None else f"; {program.later.told}"
        kind = program.call.told if program.tier == "xla_pieces" else self.executor
        return f"{kind}{', padded' if self.graph.padded else ''}{later}"

    @property
    def pieces(self) -> list[tuple[tuple[Any, ...], Any]]:
        """The calls of each piece with the Future of its program, if it runs in pieces."""
        program = self.compiled[-1] if self.compiled else None
        return program.call.pieces if program is not None and program.tier == "xla_pieces" else []

    def turn(self) -> None:
        """From programs of the whole to those that give the loss early, or back."""
        with lock:  # whoever compiles now has taken the programs of its own kind, see `_compile`
            if any(p.tier == "xla_pieces" for p in self.compiled):  # these do: what takes their place will
                self.early = not self.early
                return
            others = self.others or ({}, [])
            self.early, self.others = not self.early, (self.exact, self.compiled)
            self.exact, self.compiled = others

    def drop(self) -> None:
        """Let go of what was compiled."""
        self.exact.clear()
        self.compiled.clear()
        self.others = self.always = None


class Family:
    """All graphs of one origin: the same operators from the same lines, at different shapes or different numbers of
    times.
    """

    __slots__ = ("clock", "entries", "graphs", "new", "came_back", "warned")

    def __init__(self) -> None:
        # those with a compiled program, least recently used first
        self.entries: OrderedDict[int, Entry] = OrderedDict()
        self.clock, self.graphs, self.warned = 0, 0, False
        self.new: OrderedDict[int, Entry] = OrderedDict()  # those that may not have come back yet, the oldest first
        self.came_back = 0  # how many graphs there were when one of them last did


known: OrderedDict[tuple, Entry] = OrderedDict()
_calls = [0]  # in these graphs
_new: OrderedDict[int, Entry] = OrderedDict()  # those that may not have come back yet, the oldest first
_families: OrderedDict[tuple, Family] = OrderedDict()
# those that have an interpreted program, the oldest first: graphs that came back, and those that were met once
_waiting: deque[Entry] = deque()
_fresh: deque[Entry] = deque()
lock = threading.RLock()  # of all of this module; made anew in the child of a fork


def entry_of(seg: Any, live: tuple[int, ...]) -> Entry:
    """What is known of a segment's graph, of which these results are wanted."""
    state: Node = seg.state
    graph, device = state.graph, seg.device
    # the same calls may run on another one
    if graph is not None and graph.entry is not None and graph.device is device:
        return graph.entry
    if graph is None or graph.device is not device:
        graph = Graph(state, device)
    with lock:
        entry = known.get(graph.key)
        if entry is None:
            origin = graph.origin
            family = _families.get(origin)
            if family is None:
                family = _families[origin] = Family()
                if len(_families) > MAX_GRAPHS:
                    _families.popitem(last=False)
            family.graphs += 1
            entry = known[graph.key] = graph.entry = Entry(graph, family, tiers.size_of(graph, live))
            explain.met(entry, seg)
            _calls[0] += len(graph.nodes)
            _new[id(entry)] = entry
            family.new[id(entry)] = entry
            _make_room(entry)
        else:
            known.move_to_end(graph.key)
    state.graph = entry.graph
    return entry


def _make_room(new: Entry) -> None:
    """Forget graphs that did not come back, as those of a model that has another structure for each sample.

    What was compiled stays while there is anything else: it would silently be compiled again.
    """
    family = new.family
    while len(_new) > MAX_NEW:
        _drop_if_new(_new.popitem(last=False)[1])
    most = FEW_NEW if family.graphs - family.came_back > NEVER_BACK else MAX_NEW
    for _ in range(min(len(family.new) - most, 2)):  # two for each that is new: no step takes long for it
        _drop_if_new(family.new.popitem(last=False)[1])
    chances = len(known)
    while (len(known) > MAX_GRAPHS or _calls[0] > MAX_CALLS) and len(known) > 1:
        key, old = next(iter(known.items()))
        times = old.met + old.hits
        chances -= 1
        if (chances > 0 and (times > old.looked or old.compiled)) or old is new:
            old.looked = times
            known.move_to_end(key)
            continue
        _take_out(old)


def _drop_if_new(old: Entry) -> None:
    if old.met + old.hits < 2 and not old.compiled:
        _take_out(old)


def _take_out(old: Entry) -> None:
    del known[old.graph.key]
    _new.pop(id(old), None)
    old.family.new.pop(id(old), None)
    _calls[0] -= len(old.graph.nodes)
    old.family.entries.pop(id(old), None)
    segment.prune(old.graph.nodes[-1])
    _forget(old)


def _forget(entry: Entry) -> None:
    """Drop an entry's programs, and the way back to it from the tree of segments."""
    entry.drop()
    outline = entry.graph.nodes[-1].outline
    if outline is not None and entry.met + entry.hits > 1:  # those met once have made none
        outline.orders = None
    entry.interpreted = entry.ahead = entry.graph.entry = None
    entry.note.close()


def keep_interpreted(entry: Entry, program: Executable) -> None:
    """What was met may come again, but thousands of small objects each are not kept for every shape there ever was."""
    kept, most = (_fresh, MAX_FRESH) if entry.met == 1 else (_waiting, MAX_WAITING)
    with lock:
        entry.interpreted = program
        kept.append(entry)
        if len(kept) > most:
            kept.popleft().interpreted = None


def replace(entry: Entry, old: Executable, new: Executable) -> None:
    """Let another program run whenever this one would have."""
    with lock:
        for exact, compiled in [(entry.exact, entry.compiled), *([] if entry.others is None else [entry.others])]:
            compiled[:] = [new if p is old else p for p in compiled]
            exact.update({key: new for key, p in exact.items() if p is old})


def unlocked() -> None:
    """In the child of a fork: another thread may have held the lock."""
    global lock
    lock = threading.RLock()


def clear() -> None:
    """Forget every program of this process (the disk cache stays)."""
    with lock:
        for entry in known.values():
            _forget(entry)
        known.clear()
        _calls[0] = 0
        _families.clear()
        padding.clear()
        _waiting.clear()
        _fresh.clear()
        _new.clear()
