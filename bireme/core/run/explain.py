"""What the engine did and why: counters, a table of segments, and a guard against recompiling."""

from __future__ import annotations

import copy
import itertools
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

from bireme.core.base import counters, errors
from bireme.core.base.counters import STATS
from bireme.core.graph.graph import Graph, Node, Number, Sig
from bireme.core.run import leaf_names
from bireme.core.run.leaf_names import Leaves, Names
from bireme.core.run.piece_rows import piece_rows
from bireme.core.run.shape_ranges import Ranges
from bireme.core.run.tables import Table

MOST_NAMED = 256  # graphs whose leaves can be named, the newest
MOST_FORGOTTEN = 256  # families of which graphs were forgotten
SINGLE = 3  # graphs of a family that have a row each; more are one row

_notes: dict[Note, None] = {}  # of the graphs that the engine knows, in the order in which they were met
_forgotten: OrderedDict[int, Together] = OrderedDict()  # by the id of the family
_named: deque[Note] = deque()
_recent: deque[ref[Graph]] = deque(maxlen=32)
_order = itertools.count()


class Note:
    """What ``explain`` says of one graph."""

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
        "order",
        "leaves",
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
        self.order = next(_order)
        self.leaves = leaf_names.NONE
        self._reason: str | None = None
        self._earlier: tuple[ref[Graph], ...] = ()

    @property
    def counts(self) -> tuple[int, int, int, float, int]:
        """How often it was met and found, compiles and their time, and interpreted runs."""
        entry = self.entry  # once: another thread may close it
        met, hits = (0, 0) if entry is None else (entry.met, entry.hits)
        return met, hits, self.compiles, self.compile_ms, self.interpreted

    @property
    def since(self) -> list[float]:
        """The counts since the last reset."""
        return [now - then for now, then in zip(self.counts, self.before)]

    @property
    def where(self) -> str:
        first, last = errors.location(self.first), errors.location(self.last)
        return first if first == last else f"{first} .. {last}"

    @property
    def reason(self) -> str:
        """What was new about the graph when it was first seen; computed when it is asked for."""
        return self.told(Names())

    @reason.setter
    def reason(self, told: str) -> None:
        self._reason, self._earlier = told, ()

    def told(self, names: Names) -> str:
        """The reason, with names that were looked up before."""
        if self._reason is None:
            entry, earlier = self.entry, [graph for r in self._earlier if (graph := r()) is not None]
            if entry is None:
                return "forgotten: it did not come back"
            self.reason = _difference(entry.graph, earlier, self.leaves, names)
        return self._reason or ""

    def close(self) -> None:
        """Called when the engine drops the graph; what it counted stays in the row of its family."""
        if self.entry is None:
            return
        if self.counts != self.before:
            family = self.entry.family
            found = _forgotten.get(id(family))
            if found is None:
                found = _forgotten[id(family)] = Together(self, family)
                if len(_forgotten) > MOST_FORGOTTEN:
                    _forgotten.popitem(last=False)
            found.add(self, self.entry.graph)
        _notes.pop(self, None)
        self.entry, self.leaves = None, leaf_names.NONE


class Together:
    """Several graphs of a family, as those that the engine has dropped."""

    def __init__(self, note: Note, family: Any):
        self.family, self.order, self.where = family, note.order, note.where
        self.graphs = self.nbytes = 0
        self.counts = [0.0] * 5
        self.ops: set[int] = set()
        self.ranges = Ranges()

    def add(self, note: Note, graph: Graph) -> None:
        self.graphs += 1
        self.nbytes = max(self.nbytes, note.nbytes)
        self.counts = [a + b for a, b in zip(self.counts, note.since)]
        self.ops = self.ops | {note.ops}
        self.ranges.add(graph.leaf_sigs)

    def copy(self) -> Together:
        """The same, to be added to."""
        made = copy.copy(self)
        made.ranges = self.ranges.copy()
        return made


def met(entry: Any, seg: Any) -> None:
    """Remember a graph that is seen for the first time."""
    note = entry.note
    note.entry, note._earlier = entry, tuple(_recent)
    note.leaves = Leaves(seg.leaves, seg.replaced)
    _notes[note] = None
    _recent.append(ref(entry.graph))
    _named.append(note)
    while len(_named) > MOST_NAMED:
        _named.popleft().leaves = leaf_names.NONE


def _difference(graph: Graph, earlier: list[Graph], leaves: Leaves, names: Names) -> str:
    """Say why no earlier graph could be used: the shape that changed, or the first operator that did."""
    for old in reversed(earlier):
        if old.skeleton == graph.skeleton:
            for i, (a, b) in enumerate(zip(old.leaf_sigs, graph.leaf_sigs)):
                if a is not b:
                    return f"{names.told(graph, leaves, i)} changed from {a} to {b}{_axis(a, b)}"
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
    for was in best.nodes[same : same + 1]:
        if was.bound.op is node.bound.op:
            for k, (a, b) in enumerate(zip(was.sigs, node.sigs)):
                if a.dtype is not b.dtype or a.ndim != b.ndim:
                    told = _operand(graph, node, k, leaves, names)
                    return f"{told} changed from {_kind(was, k)} to {_kind(node, k)}"
    return f"{node.bound.op.name} at {errors.location(node.pos)} is new after {same} known calls"


def _kind(node: Node, k: int) -> str:
    """An operand's shape and dtype; a number has no shape."""
    sig = node.sigs[k]
    return f"a number of {sig.dtype.name}" if node.args[k].__class__ is Number else str(sig)


def _operand(graph: Graph, node: Node, k: int, leaves: Leaves, names: Names) -> str:
    """An operand of a call in words."""
    r: Any = node.args[k]
    if r.__class__ is Number or r >= 0:
        return leaf_names.read_by(node, k)
    return names.told(graph, leaves, ~r)


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
    _forgotten.clear()
    for note in list(_notes):
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


class Explanation(Table):
    """Rows of ``explain``: a list of dicts that is printed as a table."""

    heads = ("segment", "ops", "met", "hits", "compiles", "compile_ms", "interpreted", "MB", "run by", "why")
    inner = "pieces"


def explain(pieces: bool = False) -> Explanation:
    """Return a table of the segments that ran since the last ``reset_stats``, and why they were compiled.

    A segment is a sequence of operators that ran as one program. Where the same lines ran at more than three sets of
    shapes, these are one row, with the sums of their counts.

    Args:
        pieces: Add a key ``pieces`` to each row: a list of dicts, printed below it, one for each different piece of a
            segment that runs in pieces. Its keys are ``times`` (how often it occurs in the segment), ``ops``,
            ``operators`` (their names), ``layer`` (whose parameters it reads), ``lines`` (in the user's code),
            ``compile_ms`` and ``from`` (``"compiler"``, ``"disk"`` or ``"being compiled"``). Default: False.

    Returns:
        A list of dicts, printed as a table, with the keys ``segment`` (its lines in the user's code), ``ops`` (number
        of operators), ``hits`` (runs by a known program), ``met`` (runs for which there was none), ``compiles``,
        ``compile_ms`` (time that runs waited for the compiler), ``interpreted`` (runs without a compiled program),
        ``MB`` (size of the results), ``run by`` (what runs it now, and what will later), ``why`` (what was new
        about it) and ``graphs`` (sets of shapes in this row). Of a row of several, ``ops`` and ``MB`` are those of the
        largest.

    Examples:
        >>> bireme.debug.reset_stats()
        >>> for n in (202, 203, 205, 208, 213):
        ...     value = bireme.lgamma(bireme.to_tensor([1.0] * n)).tolist()
        >>> row = bireme.debug.explain()[-1]
        >>> row["met"] + row["hits"], row["graphs"], row["why"].endswith("is float32[202..213]")
        (5, 5, True)
    """
    names = Names()
    families: dict[int, list[tuple[Note, Any]]] = {}
    for note in list(_notes):
        entry = note.entry
        if entry is not None and note.counts != note.before:
            families.setdefault(id(entry.family), []).append((note, entry))
    forgotten = dict(_forgotten)
    found: list[tuple[int, dict[str, Any], tuple[Note, Any] | None]] = []
    for family in {**families, **forgotten}:
        known, gone = families.get(family, []), forgotten.get(family)
        if len(known) + (0 if gone is None else gone.graphs) > SINGLE:
            found.append(_row_of_many(known, gone, names))
            continue
        found += [_row_of_one(note, entry, names) for note, entry in known]
        if gone is not None:
            found.append(_row_of_many([], gone, names))
    rows = Explanation()
    for _, row, shown in sorted(found, key=lambda one: one[0]):
        if pieces:
            row["pieces"] = [] if shown is None else piece_rows(shown[1], shown[0].leaves, names)
        rows.append(row)
    return rows


def _row_of_one(note: Note, entry: Any, names: Names) -> tuple[int, dict[str, Any], tuple[Note, Any]]:
    row = _row(note.where, note.ops, note.since, note.nbytes, entry.told, note.told(names), 1)
    return note.order, row, (note, entry)


def _row_of_many(
    known: list[tuple[Note, Any]], gone: Together | None, names: Names
) -> tuple[int, dict[str, Any], tuple[Note, Any] | None]:
    """A row for graphs of one family; with one that runs in pieces, if any does."""
    summed = Together(known[0][0], None) if gone is None else gone.copy()
    for note, entry in known:
        summed.add(note, entry.graph)
    if known and known[0][0].order < summed.order:
        summed.order, summed.where = known[0][0].order, known[0][0].where
    runs = Counter(entry.executor for _, entry in known)
    run_by = ", ".join(f"{name}: {n}" for name, n in runs.items()) if len(runs) > 1 else "".join(runs)
    why = _reason_of_many(summed, known, names) + _forgetting(gone, known)
    row = _row(summed.where, max(summed.ops), summed.counts, summed.nbytes, run_by, why, summed.graphs)
    in_pieces = [(note, entry) for note, entry in known if entry.pieces]
    return summed.order, row, in_pieces[-1] if in_pieces else None


def _forgetting(gone: Together | None, known: list[tuple[Note, Any]]) -> str:
    if gone is None:
        return ""
    if known:
        return f"; {gone.graphs} of them are forgotten"
    return "forgotten: " + ("it did not come back" if gone.graphs == 1 else f"{gone.graphs} graphs did not come back")


def _reason_of_many(summed: Together, known: list[tuple[Note, Any]], names: Names) -> str:
    """Say in what graphs of one family differ: the sizes of their leaves, or how often a loop went round."""
    if not known:
        return ""
    note, entry = known[-1]
    differing = list(summed.ranges.differing.items())
    if differing:
        told = [f"{names.told(entry.graph, note.leaves, i)} is {sizes}" for i, sizes in differing[:2]]
        more = f"; {len(differing) - 2} more inputs change" if len(differing) > 2 else ""
        return f"{summed.graphs} shapes: {'; '.join(told)}{more}"
    of = f" of {min(summed.ops)} to {max(summed.ops)} operators" if len(summed.ops) > 1 else ""
    return f"{summed.graphs} graphs{of}: {note.told(names)}"


def _row(where: str, ops: int, counts: list[float], nbytes: int, run_by: str, why: str, graphs: int) -> dict[str, Any]:
    met, hits, compiles, compile_ms, interpreted = counts
    return {
        "segment": where, "ops": ops, "met": int(met), "hits": int(hits), "compiles": int(compiles),
        "compile_ms": round(compile_ms, 1), "interpreted": int(interpreted), "MB": round(nbytes / 1e6, 2),
        "run by": run_by, "why": why, "graphs": graphs,
    }  # fmt: skip
