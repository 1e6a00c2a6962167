"""Graphs piece by piece: each different piece is compiled once, several at a time, and kept for other graphs."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from typing import Any

import jax
import numpy as np

from bireme.core.base import turns, workers
from bireme.core.base.device import Device
from bireme.core.graph import executor
from bireme.core.graph.graph import Graph
from bireme.core.graph.pieces import Piece, compile_work, cut, large
from bireme.core.xla_exec import compile_cache, lowering, program_files, xla
from bireme.core.xla_exec.program_names import Names, is_ours

UNIT = 1e6  # microseconds that the compiler takes for a piece, by estimate, at most: the end of a program waits for it
UNIT_BESIDE = 4e6  # the same where runs go on meanwhile: begun only when these have taken many times as long
# Few programs are faster than many, which give each other arrays (a small transformer on CPU takes 28 ms a step in two
# pieces, 35 in 21): those are worth it where they spare the compiler this part of its work.
SPARED = 0.3
MOST = 1024  # programs of pieces that are kept, those of graphs that are gone among them
REHEARSED = 1 << 30  # bytes that a program may take to be run once before its first run is due


class Program:
    """A compiled piece; its first call goes through Python, later ones are one C function.

    `ms` is the time that it took to lower and compile it, or to read it if it came `from_disk`.
    """

    __slots__ = ("_compiled", "call", "ms", "from_disk")

    def __init__(self, compiled: Any, ms: float, from_disk: bool):
        self._compiled, self.ms, self.from_disk = compiled, ms, from_disk
        self.call = self._first

    def _first(self, *args: Any) -> list:
        made = self._compiled(*args)
        self.call = getattr(self._compiled, "_call", None) or self._compiled
        return made


_programs: OrderedDict[Hashable, Future] = OrderedDict()
_lock = threading.Lock()


class Making:
    """The pieces of a graph whose programs are being made, to see how far that is."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._programs: list[Future] = []
        self._all = 0

    def begin(self, pieces: list[Piece], programs: list[Future]) -> None:
        """Take note of pieces, and of the list that their programs are added to one after another."""
        self._programs, self._pieces, self._all = programs, pieces, 0

    @property
    def counts(self) -> tuple[int, int]:
        """How many different programs there are, and how many there will be; 0 as long as nobody knows."""
        if self._pieces and not self._all:
            self._all = len({piece.key for piece in self._pieces})
        return len({id(program) for program in list(self._programs) if program.done()}), self._all


class InPieces:
    """Graphs as programs of pieces, called one after another."""

    name = "xla_pieces"

    def prepare(
        self,
        graph: Graph,
        live: tuple[int, ...],
        donate: tuple[int, ...],
        device: Device,
        making: Making | None = None,
        pieces: list[Piece] | None = None,
        short: bool = True,
    ) -> Any:
        """A call that waits for its programs when it is called first; `making` lets others see how far they are, `short`
        says how they are compiled, see `xla.lower`.
        """
        pieces, names = pieces or parts(graph, live, donate), Names(device)
        found: list[Future] = []
        if making is not None:
            making.begin(pieces, found)
        # what takes longest first: the threads of the compiler are then done at about the same time. Updates of many
        # parameters give back much and are soon there.
        order = sorted(range(len(pieces)), key=lambda at: -pieces[at].work_of_calls)
        for at in order:
            found.append(program_of(pieces[at], graph, device, names, short))
        return _Run(
            graph,
            live,
            donate,
            [(pieces[at], program) for at, program in sorted(zip(order, found), key=operator.itemgetter(0))],
        )


def parts(graph: Graph, live: tuple[int, ...], donate: tuple[int, ...]) -> list[Piece]:
    """A graph as the pieces that are compiled."""
    return cut(graph, live, donate, UNIT, side_by_side=True)


def beside_runs(graph: Graph, live: tuple[int, ...], donate: tuple[int, ...]) -> list[Piece]:
    """A graph as what is compiled while something else runs it: pieces where much repeats, else as few as may be."""
    found, few = cut(graph, live, donate, UNIT_BESIDE), large(graph, live, donate, UNIT_BESIDE)
    return found if compile_work(found) < compile_work(few) * (1 - SPARED) else few


def program_of(piece: Piece, graph: Graph, device: Device, names: Names, short: bool = True) -> Future:
    """The program of a piece, being compiled or read if it is new; who wants it waits for its result."""
    made = _Made(piece, graph, device, names, short=short)
    if made.known is None and not made.kept:
        made.lower(made.trace())
    return made.known or made.submit()


def begin(piece: Piece, graph: Graph, device: Device, names: Names, calls: int, short: bool = True) -> Iterator[None]:
    """Let a thread compile a piece that nobody waits for yet; each round is a part of what Python does for it, tracing or
    lowering so many calls.
    """
    made = _Made(piece, graph, device, names, calls, short)
    if made.known is not None:
        return
    if not made.kept:
        yield from turns.in_turns(lambda: made.lower(made.trace()))
        yield
    made.submit(aside=True)
    yield


def rounds(pieces: list[Piece], calls: int) -> int:
    """How many rounds `begin` takes for pieces, at most."""
    of_updates = sum([len(node.args) for piece in pieces for node in piece.nodes if node.bound.many]) // turns.SMALL
    return sum([2 * (len(piece.nodes) // calls) + 2 for piece in pieces]) + of_updates


@functools.cache
def warm_up(device: Device) -> None:
    """Lower something: what jax does when that happens for the first time takes as long as a piece."""
    xla.lower(xla.trace(lambda x: x + 1, (jax.ShapeDtypeStruct((2,), np.float32),), (), device), device)


class _Made:
    """A program of a piece in the making."""

    def __init__(self, piece: Piece, graph: Graph, device: Device, names: Names, pauses: int = 0, short: bool = True):
        self._key, self._device, self._results = (device, piece.key, short), device, len(piece.gives)
        self._short = short
        self._seconds = 0.0  # spent on it so far
        self.known = self._find()
        if self.known is None:
            self._name = names.piece(piece, short)
            self._fn, self._args = _function(piece, graph, device, pauses)
            # another's operator may do more than give results, or wait for numbers other than zeros
            self._harmless = device.is_cpu and all(is_ours(node.bound) for node in piece.nodes)
            self._lowered: tuple[Any, dict] | None = None
            self.kept = self._name is not None and compile_cache.has(self._name)

    def _find(self) -> Future | None:
        with _lock:
            found = _programs.get(self._key)
            if found is None or _has_failed(found):
                return None
            _programs.move_to_end(self._key)
            return found

    def trace(self) -> Any:
        start = time.perf_counter()
        traced = xla.trace(self._fn, self._args, (0,), self._device)
        self._seconds += time.perf_counter() - start
        return traced

    def lower(self, traced: Any) -> None:
        start = time.perf_counter()
        self._lowered = xla.lower(traced, self._device, self._short)
        self._seconds += time.perf_counter() - start

    def submit(self, aside: bool = False) -> Future:
        with _lock:
            made = _programs.get(self._key)
            if made is None or _has_failed(made):
                made = _programs[self._key] = workers.submit(lambda: self._compiled(aside), aside)
            while len(_programs) > MOST:
                _programs.popitem(last=False)
        return made

    def _compiled(self, aside: bool = False) -> Program:
        device, args, results = self._device, self._args, self._results
        start = time.perf_counter()
        found = program_files.load(self._name, device, args, results) if self.kept else None
        from_disk = found is not None
        if found is None:
            lowered, options = self._lowered or xla.lower(xla.trace(self._fn, args, (0,), device), device, self._short)
            found = xla.compiled(lowered, options, device, args, results, self._name, aside)
        if aside and self._harmless and not workers.ending():
            _rehearse(found, args, device)
        return Program(found, (self._seconds + time.perf_counter() - start) * 1e3, from_disk)


def _rehearse(program: Any, args: tuple, device: Device) -> None:
    """Run a program on zeros. In its first run XLA sets up its kernels, which takes up to twenty times a run: whoever goes on
    meanwhile would wait for it in the step in which the program takes over.
    """
    like, build = jax.tree.flatten(args)
    with contextlib.suppress(*workers.FAILURES):  # as for want of memory: the run itself will tell
        size = program.memory_analysis()
        if size.argument_size_in_bytes + size.output_size_in_bytes + size.temp_size_in_bytes <= REHEARSED:
            zeros = xla.put_all([np.zeros(s.shape, s.dtype) for s in like], device)
            jax.block_until_ready(program(*jax.tree.unflatten(build, zeros)))


def _has_failed(program: Future) -> bool:
    """Whether its compile failed, as for want of memory: who comes next tries again."""
    return program.done() and (program.cancelled() or program.exception() is not None)


def _function(piece: Piece, graph: Graph, device: Device, pauses: int) -> tuple[Callable, tuple]:
    """A piece as a function of (arrays it may write over, others, vectors of numbers), and what these are like."""
    sigs = [graph.value_sigs[r] if r >= 0 else graph.leaf_sigs[~r] for r in piece.reads]
    kept = [i for i in range(len(sigs)) if i not in piece.donate]
    packs = _packs(piece, graph)
    numbers = {place: (v, i) for v, places in enumerate(packs.values()) for i, place in enumerate(places)}
    fn = lowering.part(piece.nodes, piece.reads, numbers, piece.gives, device.platform, pauses=pauses)
    fn = lowering.between_programs(fn, *piece.turned)

    def program(donated, others, vectors):
        arrays: list[Any] = [None] * len(sigs)
        for i, a in zip((*piece.donate, *kept), (*donated, *others)):
            arrays[i] = a
        return fn(arrays, vectors)

    specs = [xla.spec(s, i in piece.turned[0]) for i, s in enumerate(sigs)]
    vectors = [jax.ShapeDtypeStruct((len(places),), dtype.np) for dtype, places in packs.items()]
    return program, ([specs[i] for i in piece.donate], [specs[i] for i in kept], vectors)


def _packs(piece: Piece, graph: Graph) -> dict[Any, list[int]]:
    """The places of a piece's numbers by dtype."""
    packs: dict[Any, list[int]] = {}
    for place in piece.numbers:
        packs.setdefault(graph.number_dtypes[place], []).append(place)
    return packs


class _Run:
    """A graph's pieces with their programs; calling it runs them."""

    def __init__(
        self, graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], pieces: list[tuple[Piece, Future]]
    ):
        self._live, self._n_values = live, len(graph.value_sigs)
        self.pieces = [(piece.nodes, program) for piece, program in pieces]
        given = set(donate)
        kept = [i for i in range(len(graph.leaf_sigs)) if i not in given]
        # where a leaf stands among those given: last first, so that a reference to one is its index from the end
        order = {i: place for place, i in enumerate((*donate, *kept))}
        self._order = [order[i] for i in reversed(range(len(graph.leaf_sigs)))]
        places, wanted = graph.places(), set(live)
        last = {r: at for at, (piece, _) in enumerate(pieces) for r in piece.reads}
        self._steps = []
        for at, (piece, future) in enumerate(pieces):
            donated = [piece.reads[i] for i in piece.donate]
            others = [r for i, r in enumerate(piece.reads) if i not in piece.donate]
            vectors = []
            for held in _packs(piece, graph).values():
                where = [places[place] for place in held]
                vectors.append((where[0][0], np.array([i for _, i in where])))
            unread = [i for i in piece.gives if i not in wanted and i not in last]
            over = [r for r in piece.reads if last[r] == at and r not in wanted]
            self._steps.append((future, donated, others, vectors, piece.gives, (*over, *unread)))
        self._programs: list[Program] | None = None
        self._device = graph.device
        self._sent: dict[tuple[Any, bytes], Any] = {}  # vectors of numbers on the device, see `_numbers`
        # the numbers of the last run, and what each piece had of them
        self._last: tuple[list[bytes] | None, list[list]] = None, []

    @property
    def told(self) -> str:
        """How many pieces there are, in words."""
        if len(self._steps) == 1:
            return "one program"
        return f"{len(self._steps)} pieces, {len({id(step[0]) for step in self._steps})} different"

    def wait(self) -> list[Program]:
        """The programs, when all of them are compiled."""
        if self._programs is None:
            self._programs = [step[0].result() for step in self._steps]
        return self._programs

    @property
    def failed(self) -> bool:
        """Whether the compiler has failed at one of them, for which it is waited."""
        return any(isinstance(step[0].exception(), workers.FAILURES) for step in self._steps)

    def __call__(self, donated: list, others: list, vectors: list) -> list:
        given = [*donated, *others]
        env: list[Any] = [None] * self._n_values
        env += [given[place] for place in self._order]
        del given
        numbers = self._numbers(vectors)
        for program, vector, (_, taken, read, _, gives, over) in zip(self.wait(), numbers, self._steps):
            made = program.call([env[r] for r in taken], [env[r] for r in read], vector)
            for i, a in zip(gives, made):
                env[i] = a
            for r in over:
                env[r] = None
        return [env[i] for i in self._live]

    def _numbers(self, vectors: list) -> list[list]:
        """The vectors of numbers of each piece; to an accelerator, those that are equal or were there before are sent
        once: of an update of many parameters all pieces have the same.
        """
        if self._device.is_cpu:
            return [[vectors[v][i] for v, i in step[3]] for step in self._steps]
        given = [vector.tobytes() for vector in vectors]
        if given == self._last[0]:
            return self._last[1]
        own = [[vectors[v][i] for v, i in step[3]] for step in self._steps]
        keys = [[(vector.dtype, vector.tobytes()) for vector in piece] for piece in own]
        wanted = dict(zip(itertools.chain(*keys), itertools.chain(*own)))
        new = [key for key in wanted if key not in self._sent]
        made = dict(zip(new, xla.put_all([wanted[key] for key in new], self._device))) if new else {}
        self._sent = {key: made[key] if key in made else self._sent[key] for key in wanted}
        self._last = given, [[self._sent[key] for key in piece] for piece in keys]
        return self._last[1]


IN_PIECES = InPieces()
executor.register(IN_PIECES)
