"""Running the segments of a mesh: one compiled program for all of its devices, the same in every process that has some.

What one process alone reads, prints or catches must not change which programs run: where a mesh has devices of several
processes, they agree before each run on how far it goes and on what it returns, see decisions/051.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import Any, ClassVar, NamedTuple

from bireme.core.base import counters
from bireme.core.base.mesh import Layout, layout_of
from bireme.core.graph.graph import Graph
from bireme.core.run import explain
from bireme.core.xla_exec import mesh_program

_COLLECTIVE = re.compile(r" (all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all)(?:-start)?\(")
MOST = 32  # programs of a graph, one per liveness and layout of its leaves


def find(entry: Any, seg: Any, live: tuple[int, ...], dead: tuple[int, ...], made: type) -> Any:
    """The program of a segment for this liveness and these layouts, found or made."""
    graph: Graph = entry.graph
    given = tuple([mesh_program.placed(a, seg.device) for a in seg.arrays[: seg.state.leaves]])
    new = updates(seg)
    wanted = _wanted(graph, live, given, new)
    donate = tuple(sorted([leaf for i, leaf in new.items() if leaf in dead and i in wanted]))
    key = (live, donate, given, tuple(wanted.items()))
    program = entry.exact.get(key)
    if program is not None:
        entry.hits += 1
        counters.STATS["cache_hits"] += 1
        return program
    entry.met += 1
    start = time.perf_counter()
    explain.compiling(entry, beside_runs=False)
    call = mesh_program.prepare(graph, live, donate, given, wanted)
    explain.compiled(entry, time.perf_counter() - start)
    if len(entry.exact) >= MOST:
        entry.exact.clear()
        entry.compiled.clear()
    program = entry.exact[key] = made(live, donate, call, len(graph.leaf_sigs), "xla")
    program.source = call
    entry.compiled.append(program)
    return program


class Rehearsal:
    """Programs that were compiled for virtual devices, in the order in which they would have run."""

    programs: ClassVar[list[Any]] = []
    moved: ClassVar[list[int]] = []  # bytes of tensors that went from one mesh to another


def rehearsed(graph: Graph, program: Any) -> tuple[Any, ...]:
    """What a program for virtual devices would return: shapes, dtypes and shardings."""
    Rehearsal.programs.append(program)
    sigs = [graph.value_sigs[i] for i in program.live]
    layouts = [layout_of(_Lies(s), graph.device) for s in program.source.output_shardings]
    return tuple([layout.abstract(sig.shape, sig.dtype.np) for sig, layout in zip(sigs, layouts)])


class _Lies(NamedTuple):
    """What `layout_of` looks at."""

    sharding: Any


def collectives(program: Any) -> Counter[str]:
    """How many collectives of each kind a program of a mesh has."""
    return Counter(_COLLECTIVE.findall(program.source.as_text()))


def updates(seg: Any) -> dict[int, int]:
    """Results that take the place of a leaf in its tensor, as an updated parameter does: by result, the leaf."""
    found = {}
    for r, leaf in seg.replaced:
        t = r()
        if t is None or t._value.segment is not seg or t._value.index >= seg.state.end:
            continue
        if t._value.sig.size > 1:  # one number is whole everywhere, and not worth a program of its own
            found[t._value.index] = leaf
    return found


def _wanted(
    graph: Graph, live: tuple[int, ...], given: tuple[mesh_program.Placed, ...], new: dict[int, int]
) -> dict[int, Layout]:
    """Results whose layout is settled: what was asked for by name, and what a tensor keeps through an update."""
    settled = {n.first: layout for n in graph.nodes if (layout := asked(n.bound)) is not None}
    found = {}
    for i in live:
        leaf = new.get(i)
        if i in settled:
            found[i] = settled[i]
        elif leaf is not None and graph.leaf_sigs[leaf] is graph.value_sigs[i]:
            found[i] = given[leaf][0]
    return found


def asked(bound: Any) -> Layout | None:
    """The layout that a call asks for, as `lay_out` does."""
    return next((a for a in getattr(bound, "attrs", ()) if a.__class__ is Layout and a.settled), None)
