"""Nobody waits without knowing for what: a compile that takes long says so, on a terminal with how far it is."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bireme.core.base import errors, flags, terminal
from bireme.core.graph.graph import Graph
from bireme.core.xla_exec.pieces import Making

REDRAW = 0.2  # seconds between two drawings of a live line


def operators(graph: Graph) -> str:
    """The operators of a graph in a few words: `3 operators (matmul, add, relu)`."""
    names = list(dict.fromkeys(node.bound.op.told for node in graph.nodes))
    few = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"{len(graph.nodes)} operators ({few})"


@contextmanager
def told(graph: Graph, why: str, making: Making | None = None) -> Iterator[None]:
    """Around a wait for the compiler; `making` knows how many of its programs are there, where they are many."""
    after = flags.tell_compiles.value
    if not after:
        yield
        return
    line = _Line(graph, why, making, after)
    thread = threading.Thread(target=line.show, name="bireme-progress", daemon=True)
    try:
        thread.start()
        yield
        line.made = True
    finally:
        line.over.set()
        if thread.ident is not None:
            thread.join()


class _Line:
    """What a compile says, by a thread of its own: one line, which a terminal shows again as programs are made."""

    def __init__(self, graph: Graph, why: str, making: Making | None, after: float):
        self._graph, self._why, self._making, self._after = graph, why, making, after
        self._start = time.perf_counter()
        self._width = 0
        self.over, self.made = threading.Event(), False

    def show(self) -> None:
        if self.over.wait(self._after):
            return
        if self._making is None or not terminal.is_live(sys.stderr):
            self._write(
                f"bireme: compiling {operators(self._graph)} recorded at {self._where}; later steps reuse it{self._why}\n"
            )
            return
        while not self.over.is_set():
            self._draw(self._text("compiling"))
            self.over.wait(REDRAW)
        self._draw(self._text("compiled") if self.made else "")  # what did not come to an end leaves nothing behind
        self._write("\n" if self.made else "\r")

    @property
    def _where(self) -> str:
        first, last = self._graph.nodes[0], self._graph.nodes[-1]
        return f"{errors.location(first.pos)} to {errors.location(last.pos)}"

    def _text(self, doing: str) -> str:
        assert self._making is not None
        done, all_of_them = self._making.counts
        programs = f" {done} of {all_of_them} programs," if all_of_them else ""
        spent = time.perf_counter() - self._start
        return f"bireme: {doing} {len(self._graph.nodes)} operators at {self._where}:{programs} {spent:.0f} s"

    def _draw(self, text: str) -> None:
        text = text[: terminal.width()]
        self._write("\r" + text.ljust(self._width))
        self._width = len(text)

    def _write(self, text: str) -> None:
        if sys.stderr is not None:  # as in a program without a console
            sys.stderr.write(text)
            sys.stderr.flush()
