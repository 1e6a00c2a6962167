"""Compiling beside the steps: a graph's pieces are lowered and compiled by threads while it is still interpreted.

When it is begun and when the program takes over is decided by counts (`tiers.Beside`), so that a script gives the same
bits twice; a take-over that comes too early for the compiler waits for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from bireme.core.base import flags, workers
from bireme.core.graph import cost
from bireme.core.graph import pieces as cut
from bireme.core.graph.graph import Graph
from bireme.core.run import tiers
from bireme.core.xla_exec import pieces

LEAST_CALLS = 12  # fewer are compiled in half a second


class Compiling:
    """One graph whose pieces are compiled beside its runs; `when` says when that begins, and when they take over."""

    def __init__(self, graph: Graph, when: tiers.Beside):
        self._graph, self.when = graph, when
        self._wanted: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        self._run: Any = None
        self.making = pieces.Making()

    @property
    def begun(self) -> bool:
        return self._run is not None

    def begin(self, live: tuple[int, ...], donate: tuple[int, ...]) -> None:
        self._wanted = live, donate
        self._run = workers.submit(self._prepare)

    def _prepare(self) -> Any:
        graph = self._graph
        assert self._wanted is not None
        return pieces.IN_PIECES.prepare(graph, *self._wanted, graph.device, between=_between, making=self.making)

    def take(self, live: tuple[int, ...], donate: tuple[int, ...]) -> Any:
        """The program, waited for; if other results are wanted by now, one for these: most of its pieces are the same."""
        graph = self._graph
        if self._wanted == (live, donate):
            run = self._run.result()
        else:
            run = pieces.IN_PIECES.prepare(graph, live, donate, graph.device, making=self.making)
        run.wait()
        return run


def compiling(graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], met: int) -> Compiling | None:
    """A compile beside the runs of a graph, still to be begun; None where it is not worth it."""
    if len(graph.nodes) < LEAST_CALLS or not graph.device.is_cpu or not flags.compile_beside.value:
        return None
    when = tiers.beside(graph.work, cut.compile_work(cut.cut(graph, live, donate, pieces.UNIT)), met)
    return None if when is None else Compiling(graph, when)


class Whole:
    """The program of a whole graph, compiled beside the runs of its pieces to take their place.

    `make` compiles it, given whether the loss is to be there early and what to enter while it is lowered.
    """

    def __init__(self, graph: Graph, make: Callable[[bool, type], Any]):
        run = sum([cost.on_accelerator(*node.bound.amounts(node.sigs, node.outs)) for node in graph.nodes])
        self.when = tiers.whole(run, cost.COMPILE_ON_ACCELERATOR * len(graph.nodes))
        self._make, self._runs = make, 0
        self._made: Any = None

    def due(self, early: bool) -> bool:
        """Count a run, and begin to compile when it is time; whether the program takes over in this run."""
        self._runs += 1
        if self._runs >= self.when.begin and self._made is None:
            self._made = workers.submit(lambda: self._make(early, _between))
        return self._runs >= self.when.due

    def take(self) -> Any:
        """The program, waited for; None where the compiler has failed, as for want of memory."""
        try:
            return self._made.result()
        except workers.FAILURES:
            return None


def at_once(graph: Graph) -> bool:
    """Whether the first run waits for pieces, since nothing else can run it meanwhile: on an accelerator."""
    return not graph.device.is_cpu and len(graph.nodes) >= LEAST_CALLS and bool(flags.compile_beside.value)


# held while a piece is lowered, which is Python's work: a fork waits for its end, as the child would have its locks
_lowering = threading.Lock()


class _between:
    """Around the lowering of each piece."""

    def __enter__(self) -> None:
        if workers.ending():
            raise RuntimeError("the program has ended")
        _lowering.acquire()

    def __exit__(self, *exc: object) -> None:
        _lowering.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lowering.acquire, after_in_parent=_lowering.release, after_in_child=_lowering.release)
