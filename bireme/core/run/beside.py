"""Compiling beside the steps: a graph's pieces are lowered and compiled by threads while it is still interpreted.

When it is begun and when the program takes over is decided by counts (`tiers.Beside`), so that a script gives the same
bits twice; a take-over that comes too early for the compiler waits for it.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from bireme.core.base import workers
from bireme.core.graph.graph import Graph
from bireme.core.xla_exec import pieces


class Compiling:
    """One graph whose pieces are being compiled."""

    def __init__(self, graph: Graph, live: tuple[int, ...], donate: tuple[int, ...]):
        self._graph, self._wanted = graph, (live, donate)
        self._run = workers.submit(self._prepare)

    def _prepare(self) -> Any:
        graph, (live, donate) = self._graph, self._wanted
        return pieces.IN_PIECES.prepare(graph, live, donate, graph.device, between=_between)

    def take(self, live: tuple[int, ...], donate: tuple[int, ...]) -> Any:
        """The program, waited for; None if other results are wanted by now than when it was begun."""
        if self._wanted != (live, donate):
            return None
        run = self._run.result()
        run.wait()
        return run


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


os.register_at_fork(before=_lowering.acquire, after_in_parent=_lowering.release, after_in_child=_lowering.release)
