"""Compiling beside the steps: a graph's pieces are compiled by threads while it is still interpreted.

A run does a part of what Python has to do for it, tracing or lowering some calls: a thread that did it would hold up every
call of the runs for the interpreter's lock. When it is begun and when the program takes over is decided by counts (`tiers.Beside`), so that a
script gives the same bits twice; a take-over that comes too early for the compiler waits for it.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bireme.core.base import flags, machine, signals, turns, workers
from bireme.core.graph import cost
from bireme.core.graph import pieces as cut
from bireme.core.graph.graph import Graph
from bireme.core.run import tiers
from bireme.core.xla_exec import pieces
from bireme.core.xla_exec.program_names import Names

# A program that is made beside the runs takes the compiler this part of what `cost` says, which is fitted to those that are
# made with all that it can do, see `xla.BESIDE_STEPS`. On x86 the interpreter takes half of what `cost` says, too.
SHORTER = 0.9 if machine.X86 else 0.5
LEAST_CALLS = 12  # fewer are compiled in half a second
LEAST_ROUND = 4  # calls that are traced or lowered in a run
BEFORE_PIECES = 5  # parts of Python's work before that for the pieces: names of programs, and what jax does once


class Compiling:
    """One graph whose pieces are compiled beside its runs, not before run `least`; by then `find` says when.

    To say it, the graph has to be cut, which takes as long as half a run, and short jobs end before it matters.
    """

    def __init__(self, graph: Graph, least: int, find: Callable[[], tiers.Beside], short: bool = True):
        self._graph, self.least, self._find, self._short = graph, least, find, short
        self._wanted: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        self._rounds: Iterator[None] = iter(())  # what Python has still to do

    @functools.cached_property
    def when(self) -> tiers.Beside:
        """When it begins, and when the pieces take over."""
        return self._find()

    @property
    def begun(self) -> bool:
        return self._wanted is not None

    def begin(self, live: tuple[int, ...], donate: tuple[int, ...]) -> None:
        self._wanted = live, donate
        self._rounds = self._work(live, donate)
        self.go_on()

    def _work(self, live: tuple[int, ...], donate: tuple[int, ...]) -> Iterator[None]:
        graph = self._graph
        made: list[Names] = []
        yield from turns.in_turns(lambda: made.append(Names(graph.device)))
        names = made[0]
        yield
        pieces.warm_up(graph.device)
        yield
        parts = pieces.beside_runs(graph, live, donate)
        calls = _calls(graph, parts)
        for piece in parts:
            yield from pieces.begin(piece, graph, graph.device, names, calls, self._short)

    def go_on(self) -> None:
        """Do the next part, if there is one."""
        next(self._rounds, None)

    def take(self, live: tuple[int, ...], donate: tuple[int, ...], making: pieces.Making) -> Any:
        """The program, waited for. If other results are wanted by now it is one for these: most pieces are the same."""
        run = self.prepared(live, donate, making)
        run.wait()
        return run

    def prepared(self, live: tuple[int, ...], donate: tuple[int, ...], making: pieces.Making) -> Any:
        """The program, which may still be compiled."""
        self._rounds = iter(())
        graph = self._graph
        found = pieces.beside_runs(graph, live, donate)
        return pieces.IN_PIECES.prepare(graph, live, donate, graph.device, making, found, self._short)

    def finer(self, live: tuple[int, ...], donate: tuple[int, ...]) -> Finer:
        """What will take the place of the program that was taken."""
        return Finer(self._graph, live, donate, tiers.finer(self.when))


class Finer:
    """The programs of a graph made once more, beside the runs of those that were made in a short time, to take their
    place: by all that the compiler can do.
    """

    tier = "xla_pieces"

    def __init__(self, graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], when: tiers.Beside):
        self.when, self._live, self._donate = when, live, donate
        self._compiling = Compiling(graph, when.begin, lambda: when, short=False)
        self._runs = 0

    @property
    def told(self) -> str:
        return f"compiled once more from run {self.when.due}"

    def due(self, early: bool) -> bool:
        """Count a run, in which a part of Python's work is done; whether what was made takes over in it."""
        self._runs += 1
        if self._compiling.begun:
            self._compiling.go_on()
        elif self._runs >= self.when.begin:
            self._compiling.begin(self._live, self._donate)
        return self._runs >= self.when.due

    def take(self) -> Any:
        """The program, waited for; None where the compiler has failed, as for want of memory."""
        with signals.held_back():  # what a handler raises is no failure of the compiler
            try:
                run = self._compiling.prepared(self._live, self._donate, pieces.Making())
            except workers.FAILURES:
                return None
        return None if run.failed else (self._donate, None, run)


def compiling(graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], met: int) -> Compiling | None:
    """A compile beside the runs of a graph, still to be begun; None where it is not worth it."""
    if not graph.device.is_cpu or not flags.compile_beside.value:
        return None
    least = tiers.beside(graph.work, SHORTER * cut.least_compile_work(graph.needed(live)[0]), met, 1)
    if least is not None:
        return Compiling(graph, least.begin, functools.partial(_when, graph, live, donate, met))
    when = _when(graph, live, donate, met)
    return None if when is None else Compiling(graph, met, lambda: when)


def _when(graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], met: int) -> Any:
    found = pieces.beside_runs(graph, live, donate)
    rounds = BEFORE_PIECES + pieces.rounds(found, _calls(graph, found))
    return tiers.beside(graph.work, SHORTER * cut.compile_work(found), met, rounds, SHORTER * found[-1].compile_work)


def _calls(graph: Graph, found: list[cut.Piece]) -> int:
    """How many calls are traced or lowered in one run: as Python takes a tenth of the compiler's time, that makes the runs
    of this while a fifth longer.
    """
    runs = SHORTER * cut.compile_work(found) / graph.work
    return max(LEAST_ROUND, math.ceil(2 * sum([len(piece.nodes) for piece in found]) / (runs / 2)))


class Whole:
    """The program of a whole graph, compiled beside the runs of its pieces to take their place.

    `make` compiles it, given whether the loss is to be there early and what to enter while it is lowered.
    """

    tier = "xla"

    def __init__(self, graph: Graph, make: Callable[[bool, type], Any]):
        self.when = tiers.whole(cost.in_pieces(graph), cost.compiling_there(graph))
        self._make, self._runs = make, 0
        self._made: Any = None

    @property
    def told(self) -> str:
        return f"one program from run {self.when.due}"

    def due(self, early: bool) -> bool:
        """Count a run, and begin to compile when it is time; whether the program takes over in this run."""
        self._runs += 1
        if self._runs >= self.when.begin and self._made is None:
            self._made = workers.submit(lambda: self._make(early, between))
        return self._runs >= self.when.due

    def take(self) -> Any:
        """The program, waited for; None where the compiler has failed, as for want of memory."""
        failed = self._made.exception()  # what a signal's handler raises meanwhile is no failure of the compiler
        return None if isinstance(failed, workers.FAILURES) else self._made.result()


def at_once(graph: Graph) -> bool:
    """Whether the first run waits for pieces, since nothing else can run it meanwhile: on an accelerator. Who pads has met
    the graph at three sizes, and many runs will share its program: where that is a brief wait, it is one for the whole.
    """
    if graph.device.is_cpu or len(graph.nodes) < LEAST_CALLS or not flags.compile_beside.value:
        return False
    return not graph.padded or cost.compiling_there(graph) > tiers.SHORT_COMPILE


# held while a program is lowered, which is Python's work: a fork waits for its end, as the child would have its locks
_lowering = threading.Lock()
# Seconds after which a thread that lowers gives the interpreter's lock to a step that waits for it. Each of the hundred
# calls of a step in pieces lets go of it: with Python's own 5 ms a step took as long as all of the lowering, up to 1.3 s.
BRIEFLY = 1e-4


class between:
    """Around the lowering of a whole graph."""

    def __enter__(self) -> None:
        if workers.ending():
            raise RuntimeError("the program has ended")
        _lowering.acquire()
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(min(BRIEFLY, self._interval))

    def __exit__(self, *exc: object) -> None:
        if sys.getswitchinterval() <= BRIEFLY * 1.01:  # nobody else has set it meanwhile
            sys.setswitchinterval(self._interval)
        _lowering.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lowering.acquire, after_in_parent=_lowering.release, after_in_child=_lowering.release)
