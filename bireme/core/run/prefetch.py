"""Reading ahead: a program that an earlier process compiled is read while the first run of its graph is interpreted.

The second run then need not wait for it. Which tier runs is decided by counts and sizes as ever; only the waiting is
shorter.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from bireme.core.graph.graph import Graph
from bireme.core.xla_exec import program_names, xla

LEAST_CALLS = 64  # fewer are read as fast as a thread is begun


class Reading(threading.Thread):
    """One program being read.

    Not a daemon: Python waits for it at the end, so that it is never stopped inside of jax.
    """

    def __init__(self, graph: Graph, live: tuple[int, ...], donate: tuple[int, ...]):
        super().__init__(name="bireme-reading", daemon=False)
        self._graph, self._wanted, self._call = graph, (live, donate), None
        self._around = program_names.surroundings(graph.device)

    def run(self) -> None:
        try:
            self._call = xla.load(self._graph, *self._wanted, self._graph.device)
        except (RuntimeError, MemoryError, TypeError, ValueError, LookupError, ArithmeticError, OSError):
            return  # who wants the program prepares it, and is told

    def take(self, live: tuple[int, ...], donate: tuple[int, ...]) -> Any:
        """The program, if it is the one that is wanted, under the settings of now; None if there was none to read."""
        self.join()
        wanted = self._wanted == (live, donate) and self._around == program_names.surroundings(self._graph.device)
        return self._call if wanted else None


_now: list[Reading] = []


def begin(graph: Graph, live: tuple[int, ...], donate: tuple[int, ...]) -> Reading | None:
    """Begin to read what was compiled for this graph; None where that is not worth a thread."""
    if len(graph.nodes) < LEAST_CALLS or not graph.device.is_cpu:
        return None
    reading = Reading(graph, live, donate)
    reading.start()
    for done in [r for r in _now if not r.is_alive()]:
        with contextlib.suppress(ValueError):  # another thread was faster
            _now.remove(done)
    _now.append(reading)
    return reading


def wait_for_all() -> None:
    """Wait until nothing is being read: a fork in the middle of it would leave its locks closed in the child."""
    for reading in _now:
        reading.join()
    _now.clear()
