"""What the engine did and why: counters, a table of segments, and a guard against recompiling."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

from bireme.core.base import counters, errors
from bireme.core.base.counters import STATS
from bireme.core.graph.graph import Graph, Sig

_notes: deque[Note] = deque(maxlen=256)
_recent: deque[ref[Graph]] = deque(maxlen=32)


class Note:
    """One row of ``explain``."""

    __slots__ = (
        "first",
        "last",
        "ops",
        "nbytes",
        "compiles",
        "compile_ms",
        "interpreted",
        "entry",
        "before",
        "inside",
        "_runs",
        "_reason",
        "_earlier",
    )

    def __init__(self, graph: Graph):
        self.first = graph.nodes[0].pos
        self.last = graph.nodes[-1].pos
        self.ops = len(graph.nodes)
        self.nbytes = graph.nbytes
        self.compiles, self.compile_ms, self.interpreted = 0, 0.0, 0
        self.entry: Any = None
        self.before = (0, 0, 0, 0.0, 0)  # the counts at the last reset
        self.inside = bool(_local.forbidden)  # it was met for the first time inside of `no_recompile`
        self._runs = (0, 0)
        self._reason: str | None = None
        self._earlier: tuple[ref[Graph], ...] = ()

    @property
    def counts(self) -> tuple[int, int, int, float, int]:
        met, hits = self._runs if self.entry is None else (self.entry.met, self.entry.hits)
        return met, hits, self.compiles, self.compile_ms, self.interpreted

    @property
    def where(self) -> str:
        first, last = errors.location(self.first), errors.location(self.last)
        return first if first == last else f"{first} .. {last}"

    @property
    def reason(self) -> str:
        """What was new about the graph when it was first seen; computed when it is asked for."""
        if self._reason is None:
            earlier = [graph for r in self._earlier if (graph := r()) is not None]
            self.reason = (
                "forgotten: it did not come back" if self.entry is None else _difference(self.entry.graph, earlier)
            )
        return self._reason or ""

    @reason.setter
    def reason(self, told: str) -> None:
        self._reason, self._earlier = told, ()

    def close(self) -> None:
        """Called when the engine drops the graph; the note stays."""
        self._runs, self.entry = (self.entry.met, self.entry.hits), None


def met(entry: Any) -> None:
    """Remember a graph that is seen for the first time."""
    note = entry.note
    note.entry, note._earlier = entry, tuple(_recent)
    _notes.append(note)
    _recent.append(ref(entry.graph))


def _difference(graph: Graph, earlier: list[Graph]) -> str:
    """Say why no earlier graph could be used: the shape that changed, or the first operator that did."""
    for old in reversed(earlier):
        if old.skeleton == graph.skeleton:
            for i, (a, b) in enumerate(zip(old.leaf_sigs, graph.leaf_sigs)):
                if a is not b:
                    return f"leaf {i} changed from {a} to {b}{_axis(a, b)}"
            for was, now in zip(old.nodes, graph.nodes):
                if was.bound is not now.bound:
                    return f"{now.bound} instead of {was.bound} at {errors.location(now.pos)}"
            return "the same calls on another device"
    best, same = None, 0
    for old in reversed(earlier):
        n = _common(old.skeleton[1:], graph.skeleton[1:])
        if n > same:
            best, same = old, n
    if best is None:
        return "new"
    if same >= len(graph.nodes):
        return f"shorter: ends after {graph.nodes[-1].bound.op.name} at {errors.location(graph.nodes[-1].pos)}"
    node = graph.nodes[same]
    return f"{node.bound.op.name} at {errors.location(node.pos)} is new after {same} known calls"


def _common(a: tuple, b: tuple) -> int:
    """Return the length of the common prefix; by bisection, since tuples compare faster than their elements."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _axis(a: Sig, b: Sig) -> str:
    if a.ndim != b.ndim:
        return ""
    axes = [str(i) for i, (m, n) in enumerate(zip(a.shape, b.shape)) if m != n]
    return f" (axis {', '.join(axes)})" if axes else ""


class _Local(threading.local):
    forbidden = 0


_local = _Local()


def compiling(entry: Any, beside_runs: bool = False) -> None:
    """Called before a compilation; raises an error inside ``no_recompile``. Not for one beside the runs of a graph that
    was known before: it was foreseen, and no run is slowed down by it.
    """
    if entry.compiled:
        entry.note.reason = "other results of the same calls are held than before"
    if _local.forbidden and (entry.note.inside or not beside_runs):
        message = f"a segment of {len(entry.graph.nodes)} operators: {entry.note.reason}"
        raise errors.RecompileError(f"no_recompile: expected a known program, got {message}\n  at {entry.note.where}")


def compiled(entry: Any, seconds: float) -> None:
    STATS["compiles"] += 1
    STATS["compile_ms"] += seconds * 1e3
    entry.note.compiles += 1
    entry.note.compile_ms += seconds * 1e3


def stats() -> dict[str, Any]:
    """Return the counters of the engine since the start or the last ``reset_stats``.

    Returns:
        A dict with, among others, the numbers of compilations (``compiles``), interpreted runs (``interprets``) and
        cache hits (``cache_hits``), and the time spent compiling in milliseconds (``compile_ms``).

    Examples:
        >>> bireme.debug.reset_stats()
        >>> value = (bireme.ones([2]) + 1).tolist()
        >>> bireme.debug.stats()["interprets"]
        1
    """
    return dict(STATS)


def reset_stats() -> None:
    """Set all counters to zero; ``explain`` then shows only what runs afterwards.

    Examples:
        >>> bireme.debug.reset_stats()
        >>> bireme.debug.stats()["compiles"]
        0
    """
    counters.reset()
    for note in _notes:
        note.before = note.counts


@contextmanager
def no_recompile() -> Iterator[None]:
    """Context manager inside which a compilation is an error that names its cause and line.

    Put it around the steps after the first few, to be sure that none of them is slowed down by a compilation. It holds
    for the current thread.

    Returns:
        A context manager.

    Examples:
        >>> with bireme.debug.no_recompile():
        ...     y = bireme.to_tensor([1.0]) + 1
        ...     y.tolist()
        [2.0]
    """
    _local.forbidden += 1
    try:
        yield
    finally:
        _local.forbidden -= 1


class Explanation(list):
    """Rows of ``explain``: a list of dicts that is printed as a table."""

    def __repr__(self) -> str:
        heads = ["segment", "ops", "met", "hits", "compiles", "compile_ms", "interpreted", "MB", "run by", "why"]
        rows = [[str(r[h]) for h in heads] for r in self]
        widths = [max(len(h), *(len(r[i]) for r in rows)) if rows else len(h) for i, h in enumerate(heads)]
        lines = ["  ".join(h.ljust(w) for h, w in zip(heads, widths))]
        lines += ["  ".join(c.ljust(w) for c, w in zip(r, widths)) for r in rows]
        return "\n".join(line.rstrip() for line in lines)

    __str__ = __repr__


def explain() -> Explanation:
    """Return a table of the segments that ran since the last ``reset_stats``, and why they were compiled.

    A segment is a sequence of operators that ran as one program.

    Returns:
        A list of dicts, printed as a table, with the keys ``segment`` (its lines in the user's code), ``ops`` (number
        of operators), ``hits`` (runs by a known program), ``met`` (runs for which there was none), ``compiles``,
        ``compile_ms`` (time that runs waited for the compiler), ``interpreted`` (runs without a compiled program),
        ``MB`` (size of the results), ``run by`` (what runs it now, and what will later) and ``why`` (what was new
        about it).

    Examples:
        >>> bireme.debug.reset_stats()
        >>> value = (bireme.ones([2]) + 1).tolist()
        >>> [row["met"] + row["hits"] for row in bireme.debug.explain()]
        [1]
    """
    rows = Explanation()
    for note in _notes:
        if note.counts == note.before:
            continue
        met, hits, compiles, compile_ms, interpreted = [now - then for now, then in zip(note.counts, note.before)]
        rows.append({
            "segment": note.where, "ops": note.ops, "met": met, "hits": hits, "compiles": compiles,
            "compile_ms": round(compile_ms, 1), "interpreted": interpreted, "MB": round(note.nbytes / 1e6, 2),
            "run by": "" if note.entry is None else note.entry.executor, "why": note.reason,
        })  # fmt: skip
    return rows
