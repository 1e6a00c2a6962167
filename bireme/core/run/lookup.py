"""Look-up: the program of a cut segment, found by its graph and by what is alive, or made. `tiers` says which kind.

The tier depends on counts and sizes alone, never on time or on the state of a cache, so the same script gives the same
bits twice: a segment whose work is less than a compiled call costs is always interpreted; any other runs interpreted
when it is met for the first time on CPU and compiled from the second time on, or, where that takes long, beside its runs;
on an accelerator it runs in pieces until the program of the whole takes over (see `beside`). Sequences of operators whose
shapes keep changing get a bounded number of compiled programs; on CPU the rest run interpreted, on an accelerator op by
op, or by the host if they are small.
"""

from __future__ import annotations

import contextlib
import functools
import time
import weakref
from collections import Counter
from collections.abc import Callable
from itertools import starmap
from typing import Any

import jax
import numpy as np

from bireme.core.base import counters, errors, flags
from bireme.core.base.device import Fork, started
from bireme.core.graph import executor
from bireme.core.graph.graph import Graph, Node, fitting
from bireme.core.numpy_exec import interpreter
from bireme.core.run import beside, explain, graphs, loss_reads, mesh_run, padding, prefetch, progress, tiers
from bireme.core.run.graphs import Entry, Executable
from bireme.core.run.tiers import Tier
from bireme.core.xla_exec import pieces, split_step, xla

BY_XLA = ("xla", "xla_pieces", "xla_per_op")  # executors whose calls take three lists, see `executor`
_pinned: dict[int, weakref.ref] = {}


def pin(array: Any) -> None:
    """Never donate this array's buffer: somebody outside the engine holds it."""
    array = padding.buffer(array)
    if not isinstance(array, np.ndarray):
        # no Python function as the callback: an interrupt that comes inside one is swallowed
        _pinned[id(array)] = weakref.ref(array, functools.partial(_pinned.pop, id(array)))


def put(array: Any, device: Any) -> Any:
    """The array on a device."""
    return xla.put(array, device)


def graph_of(seg: Any) -> Graph:
    """The graph of a segment that has run."""
    return seg.state.graph or Graph(seg.state, seg.device)


_settings = [(False, False)]  # the flags that choose a tier: a part of the look-up, so that the next run sees a change


def _read_flags() -> None:
    _settings[0] = (flags.deterministic.value, flags.interpret.value)


flags.on_change(_read_flags)


class GuardFailed(Exception):
    """A run could not go on because of what a guard of its segment checks, see `record.guards`."""

    def __init__(self, guard: Any):
        super().__init__()
        self.guard = guard


def execute(seg: Any, held: Callable[[Any], set[int]]) -> None:
    """Run a cut segment: results go to `seg.results` in the same bytecode as the call; `held` says which arrays others read.
    To be called `within` jax.
    """
    if seg.lost and seg.original is not None:
        padding.restore(seg)  # the rest of a run that failed is interpreted
    live = tuple([i for i, r in enumerate(seg.values[: seg.state.end]) if r() is not None])
    if seg.lost:
        live = tuple([i for i in live if i not in seg.lost])
    if seg.agreed is not None:
        live = seg.agreed[0]
    seg.live = live
    if not live:
        seg.results.append(())
        return
    found = _interpreted_always(seg, live) or _prepared(seg, live, held)
    if found is None:
        return
    entry, program, dead = found
    state: Node = seg.state  # not before: it may run padded
    watch = entry.watch  # once: another thread that runs the same graph may take it away at any time
    seg.live = program.live
    vectors = entry.graph.pack(seg.numbers[: state.numbers]) if state.numbers else []
    try:
        if program.before is not None:
            program = _in_place_of_pieces(seg, entry, program, vectors, dead)
        else:
            _run(seg, program, vectors, dead)
    except IndexError as e:
        if seg.results:  # it has run: this is of a signal's handler, which had waited
            raise
        failed = _failed_guard(seg, entry, vectors)
        raise _failed(e, seg, entry) if failed is None else GuardFailed(failed) from e
    except (RuntimeError, MemoryError, TypeError, ValueError, LookupError, ArithmeticError) as e:
        if seg.results:
            raise
        raise _failed(e, seg, entry) from e
    if watch is not None and entry.watch is watch:
        watch.remember(entry.graph, program, (*seg.early, *seg.results[0]))


Found = tuple[
    Entry, Executable, list[int]
]  # what is known of a graph, its program, and leaves that this may write over


def _interpreted_always(seg: Any, live: tuple[int, ...]) -> Found | None:
    """A graph that is interpreted in every run, if these results are wanted: whoever holds its leaves, since none is
    donated. Small results that are read at once are most of what such loops wait for, so nothing else is looked at.
    """
    graph = seg.state.graph
    entry: Entry | None = None if graph is None else graph.entry
    program = None if entry is None else entry.always
    if entry is None or program is None or program.live != live or graph.device is not seg.device:
        return None
    if entry.always_under != _settings[0] or seg.lost or seg.original is not None or executor.forced() is not None:
        return None
    stats = counters.STATS
    stats["flushes"] += 1
    stats["nodes"] += seg.state.depth
    stats["cache_hits"] += 1
    entry.hits += 1
    return entry, program, []


def _prepared(seg: Any, live: tuple[int, ...], held: Callable[[Any], set[int]]) -> Found | None:
    """A segment's graph with its program for what is alive; None where a mesh of virtual devices has been told all that
    there is to know.
    """
    state: Node = seg.state
    stats = counters.STATS
    entry = graphs.entry_of(seg, live)
    if seg.original is None and _runs_padded(seg, entry):
        state, entry = seg.state, graphs.entry_of(seg, live)
    arrays = seg.arrays
    dead = [i for i, r in enumerate(seg.leaves[: state.leaves]) if r() is None]
    if dead:
        dead = only_here(dead, arrays, held(seg))
    if seg.agreed is not None:
        dead = list(seg.agreed[1])
    stats["flushes"] += 1
    stats["nodes"] += state.depth
    watch = entry.watch
    if watch is not None:
        loss_reads.look_back(entry, watch)
    on_mesh = seg.device.several
    key = (live, tuple(dead), _settings[0], not seg.device.is_cpu and _from_host(arrays[: state.leaves]))
    program = entry.exact.get(key) if executor.forced() is None and not on_mesh else None
    if on_mesh:
        try:
            program = mesh_run.find(entry, seg, live, key[1], Executable)
        except (MemoryError, TypeError, ValueError, LookupError, ArithmeticError) as e:
            raise _failed(e, seg, entry) from e
        if seg.device.virtual:
            seg.live = program.live
            for g in seg.guards:
                g.resolve(False)
            seg.results.append(mesh_run.rehearsed(entry.graph, program))
            return None
    elif seg.lost:  # the rest of a run that failed: once, and not remembered
        call = interpreter.INTERPRETER.prepare(entry.graph, live, (), seg.device)
        program = Executable(live, (), call, len(arrays), "interpreter")
    elif program is None:
        try:
            program = _choose(entry, key, lambda: xla.move_to_device(seg))
        except (MemoryError, TypeError, ValueError, LookupError, ArithmeticError) as e:
            raise _failed(e, seg, entry) from e
    else:
        entry.hits += 1
        stats["cache_hits"] += 1
        if program.tier != "interpreter":
            entry.family.clock += 1
            entry.last = entry.family.clock
    if program.later is not None and program.later.due(entry.early):
        program = _take_over(entry, program)
    return entry, program, dead


def _run(seg: Any, program: Executable, vectors: list, dead: list[int]) -> None:
    stats = counters.STATS
    if program.tier in BY_XLA:
        start = time.perf_counter()
        stats["op_by_op"] += program.tier == "xla_per_op"
        xla.call(seg, program, vectors, set(dead))
        stats["call_ms"] += (time.perf_counter() - start) * 1e3
    else:
        stats["interprets"] += program.tier == "interpreter"
        seg.results.extend(starmap(program.call, ((seg.arrays[: seg.state.leaves], vectors),)))


def _in_place_of_pieces(seg: Any, entry: Entry, program: Executable, vectors: list, dead: list[int]) -> Executable:
    """The first run of a program that takes the place of pieces, or of one that was compiled in a short time, and which of
    both has run: where it fails, as for want of memory, and nothing is lost, what it was to replace goes on.
    """
    pieces, program.before = program.before, None
    try:
        _run(seg, program, vectors, dead)
    except (RuntimeError, MemoryError, LookupError) as e:
        if pieces is None or seg.results or _count_lost(seg):
            raise
        why = f"{type(e).__name__}: {str(e).partition(chr(10))[0]}"
    else:
        return program
    seg.early = ()  # what it had made is let go before the pieces need the room
    graphs.replace(entry, program, pieces)
    entry.note.reason = (
        f"one program for all of it failed ({why}): its pieces go on"
        if program.tier == "xla"
        else f"the program that was compiled once more failed ({why}): the one before goes on"
    )
    errors.warn(f"{progress.operators(entry.graph)}: {entry.note.reason}", RuntimeWarning)
    _run(seg, pieces, vectors, dead)
    return pieces


def _count_lost(seg: Any) -> int:
    """How many arrays were donated to a run that failed."""
    return sum([isinstance(a, jax.Array) and a.is_deleted() for a in seg.arrays])


def _runs_padded(seg: Any, entry: Entry) -> bool:
    """Let a segment run as one at larger sizes, where that spares a compile; or give it arrays without padding."""
    if not seg.lost and executor.forced() is None and not flags.deterministic.value:
        if entry.padded is False:
            entry.padded = padding.plan(entry.graph) if padding.applies(entry.graph) else None
        if entry.padded is not None and entry.padded.runs < padding.OWN_PROGRAM:
            entry.padded.runs += 1
            padding.rewrite(seg, entry.padded)
            return True
    for i, array in enumerate(seg.arrays if padding.PaddedArray.used else ()):
        if array.__class__ is padding.PaddedArray:
            seg.arrays[i] = padding.made_exact(seg.leaves[i](), array)
    return False


def only_here(dead: list[int], arrays: list, held: set[int]) -> list[int]:
    """Of dead leaves those whose arrays nobody else reads: two values may have one array, as after `decorate`."""
    places = list(map(id, arrays))
    if len(set(places)) < len(places):
        uses = Counter(places)
        dead = [i for i in dead if uses[places[i]] == 1]
    if _pinned or held:
        dead = [i for i in dead if places[i] not in _pinned and places[i] not in held]
    return dead


def _failed_guard(seg: Any, entry: Entry, vectors: list) -> Any:
    """The first of the segment's guards that fails, where NumPy has refused an index."""
    for g in seg.guards:
        if g.index not in seg.lost:
            ask = interpreter.INTERPRETER.prepare(entry.graph, (g.index,), (), seg.device)
            with contextlib.suppress(IndexError):  # its flag depends on another one that fails
                if bool(ask(seg.arrays[: seg.state.leaves], vectors)[0]):
                    return g
    return None


def _failed(e: BaseException, seg: Any, entry: Entry) -> BaseException:
    """A run-time failure, told with the lines of the segment. What it would have reused may be lost, which is said then
    and whenever a result is asked for; otherwise it is tried again, as after an interrupt."""
    first, last = entry.graph.nodes[0], entry.graph.nodes[-1]
    where = " to ".join(dict.fromkeys([errors.location(first.pos), errors.location(last.pos)]))
    message = f"{type(e).__name__} while running {progress.operators(entry.graph)}: {e}\n  at {where}"
    error = (
        MemoryError(message) if isinstance(e, MemoryError) or "RESOURCE_EXHAUSTED" in str(e) else RuntimeError(message)
    )
    lost = _count_lost(seg)
    if lost:
        error.add_note(
            f"{lost} arrays that were donated to it are lost: load the parameters and the optimizer's state again"
        )
        seg.error = error
    return error


Wanted = tuple[tuple[int, ...], tuple[int, ...], tuple[bool, bool], bool]  # live, dead, settings, from host


def _from_host(arrays: list) -> bool:
    """Whether all that is read lies on the host: a run of little work needs no device then."""
    return all(a.__class__ is np.ndarray for a in arrays)


def _choose(entry: Entry, key: Wanted, meanwhile: Callable[[], object]) -> Executable:
    """The program for this liveness: one that serves, an interpreted one, or a new compile, while which `meanwhile` is
    done.
    """
    graph, device = entry.graph, entry.graph.device
    entry.met += 1
    if entry.met == 2:
        entry.family.came_back = entry.family.graphs
    wanted = executor.forced()
    live, dead, (exact_only, interpret), from_host = key
    if wanted is not None:
        return Executable(live, (), wanted.prepare(graph, live, (), device), len(graph.leaf_sigs), wanted.name)
    if Fork.child and not device.is_cpu:
        raise Fork.error()
    limit = flags.programs_per_skeleton.value
    settings = tiers.Settings(device.is_cpu, interpret, exact_only, Fork.child, limit, from_host)
    choice = tiers.without_look_up(entry.size, entry.met, entry.family.graphs, bool(entry.compiled), settings)
    if choice is not None and not graph.padded:
        if choice.prefetch and not (flags.compile_beside.value and tiers.waits_for_nobody(entry.size)):
            entry.ahead = prefetch.begin(graph, live, _worth_donating(graph, live, dead))
        return _interpreted(entry, live, keep=key if choice.lasting else None)
    with entry.making:  # who wants a program of the same graph waits until it is made, all others go on
        with graphs.lock:
            program = entry.exact.get(key) if exact_only else _serving(entry, live, dead)
            if program is not None:
                return _keep(entry.exact, key, program)
            choice = _counted(entry, settings)
        if choice.tier in (Tier.COMPILE, Tier.REPLACE) or graph.padded:
            if not graph.padded and interpret and not exact_only and not _due(entry, live, dead):
                return _interpreted(entry, live, keep=None)
            return _compile(entry, key, exact_only, meanwhile)
    return _interpreted(entry, live, keep=None) if choice.tier is Tier.INTERPRET else _op_by_op(entry, live)


def _due(entry: Entry, live: tuple[int, ...], dead: tuple[int, ...]) -> bool:
    """Whether a program is made now: one that takes the compiler long is begun beside the runs, and taken later."""
    donate = _worth_donating(entry.graph, live, dead)
    if entry.beside is False:
        entry.beside = beside.compiling(entry.graph, live, donate, entry.met)
    if not entry.beside or entry.compiled:
        return True
    if entry.met < entry.beside.least:
        return False
    if entry.beside.begun:
        entry.beside.go_on()
    elif entry.met >= entry.beside.when.begin:
        explain.compiling(entry, beside_runs=True)
        entry.beside.begin(live, donate)
    return entry.met >= entry.beside.when.due


def _counted(entry: Entry, settings: tiers.Settings) -> tiers.Choice:
    """The tier of a run that no program serves, which counts towards one; the program that has to go for it goes."""
    family = entry.family
    if not settings.deterministic:
        family.clock += 1
        entry.recent.append(family.clock)
    made = [e for e in family.entries.values() if e.compiled or e.others]  # not those whose first one is being made
    oldest = min(made, key=lambda e: e.last, default=None)
    history = tiers.History(
        met=entry.met,
        served=False,
        compiled=bool(entry.compiled or entry.early),
        shapes=family.graphs,
        programs=len(family.entries),
        clock=family.clock,
        recent=entry.recent,
        oldest_use=family.clock if oldest is None else oldest.last,
    )
    choice = tiers.choose(entry.size, history, settings)
    if choice.tier is Tier.REPLACE and oldest is not None:
        family.entries.pop(id(oldest))
        oldest.drop()
    return choice


def _keep(exact: dict[tuple, Executable], key: tuple, program: Executable) -> Executable:
    """Remember which program this liveness gets."""
    exact[key] = program
    if len(exact) > 64:
        exact.clear()
    return program


def _interpreted(entry: Entry, live: tuple[int, ...], keep: Any) -> Executable:
    graph, program = entry.graph, entry.interpreted
    if program is None or program.live != live:
        program = Executable(
            live,
            (),
            interpreter.INTERPRETER.prepare(graph, live, (), graph.device, updates=graph.device.is_cpu),
            len(graph.leaf_sigs),
            "interpreter",
        )
        if not entry.planned and _takes_longer(entry, program):
            keep = None
        if not keep:
            graphs.keep_interpreted(entry, program)
    entry.note.interpreted += 1
    if keep and graph.device.is_cpu:
        entry.always, entry.always_under = program, _settings[0]
    return _keep(entry.exact, keep, program) if keep else program


def _takes_longer(entry: Entry, program: Executable) -> bool:
    """Whether a graph turns out to be more work for the interpreter than was estimated, now that its calls are planned."""
    more = program.call.found_out
    with graphs.lock:
        if entry.planned:  # by another thread
            return False
        entry.planned = True
        if more:
            entry.graph.work += more
            entry.size = tiers.size_of(entry.graph, program.live)
    return more > 0


def _op_by_op(entry: Entry, live: tuple[int, ...]) -> Executable:
    if not entry.family.warned:
        entry.family.warned = True
        told = f"shapes keep changing: {entry.note.where} runs operator by operator; pad to a few sizes (see bireme.debug.explain())"
        errors.warn(told, RuntimeWarning)
    graph = entry.graph
    return Executable(live, (), xla.PER_OP.prepare(graph, live, (), graph.device), len(graph.leaf_sigs), "xla_per_op")


def _serving(entry: Entry, live: tuple[int, ...], dead: tuple[int, ...]) -> Executable | None:
    """A compiled program that returns at least `live` and donates nothing that is held, or little more."""
    need, free = set(live), set(dead)
    sigs = entry.graph.value_sigs
    for p in entry.compiled:
        if need.issubset(p.live):
            extra = sum(sigs[i].nbytes for i in p.live if i not in need)
            copied = sum(entry.graph.leaf_sigs[i].nbytes for i in p.donate if i not in free)
            if len(entry.compiled) >= 3 or extra + copied <= 1 << 20:
                return p
    return None


def _compile(entry: Entry, key: Wanted, exact_only: bool, meanwhile: Callable[[], object]) -> Executable:
    """A new program, made while other threads go on; its place in the family is taken before."""
    graph, family, (live, dead, (_, interpret), _) = entry.graph, entry.family, key
    with graphs.lock:
        waiting = entry.beside if interpret and not exact_only and not entry.early else None
        explain.compiling(entry, beside_runs=bool(waiting))
        exact, compiled, in_parts = entry.exact, entry.compiled, entry.early  # those of now: `turn` may exchange them
        entry.last = family.clock
        family.entries.setdefault(id(entry), entry)
    try:
        if not exact_only and len(compiled) >= 2:
            # liveness keeps changing: compile for the union of what was wanted, which then serves all of it
            every, seen = len(compiled) >= 3, {i for p in compiled for i in p.live}
            live = tuple(range(len(graph.value_sigs))) if every else tuple(sorted(seen.union(live)))
            dead = () if every else tuple(sorted(set(dead).intersection(*[p.donate for p in compiled])))
        start, tier, front = time.perf_counter(), "xla", None
        at_once = not exact_only and beside.at_once(graph)
        making = pieces.Making()  # how far the pieces are
        with progress.told(graph, f": {entry.note.reason}" if in_parts else "", making if at_once or waiting else None):
            if at_once or waiting:
                tier, donate = "xla_pieces", _worth_donating(graph, live, dead)
            if waiting:
                call = waiting.take(live, donate, making)
            elif at_once:
                call = pieces.IN_PIECES.prepare(graph, live, donate, graph.device, making)
                meanwhile()  # the threads of the compiler need no Python
                call.wait()  # here, where it is told and can be interrupted
            else:
                donate, front, call = _whole(entry, live, dead, in_parts and not exact_only)
            program = Executable(live, donate, call, len(graph.leaf_sigs), tier, front)
            if at_once:
                program.later = beside.Whole(graph, functools.partial(_whole, entry, live, dead))
            elif waiting:
                program.later = waiting.finer(live, donate)
    except BaseException:  # Ctrl-C too: the place that was taken is free again
        with graphs.lock:
            if not compiled and not entry.others:
                family.entries.pop(id(entry), None)
        raise
    with graphs.lock:
        explain.compiled(entry, time.perf_counter() - start)
        compiled.append(program)
        entry.interpreted = None
        entry.last = family.clock
        family.entries.setdefault(id(entry), entry)  # another shape may have taken its place
        return _keep(exact, key, program)


def _whole(
    entry: Entry, live: tuple[int, ...], dead: tuple[int, ...], early: bool, between: Any = contextlib.nullcontext
) -> tuple[tuple[int, ...], Any, Any]:
    """A graph as one program, or as two where its loss is to be there early: leaves that it donates, `front` and call."""
    graph = entry.graph
    parts = split_step.parts(graph, live) if early else None
    if parts is None:
        donate = _worth_donating(graph, live, dead)
        found = _read_ahead(entry, live, donate) or xla.XLA.prepare(graph, live, donate, graph.device, between)
        return donate, None, found
    read = {~r for node in parts.after for r in node.args if r.__class__ is int and r < 0}
    donate = _worth_donating(graph, parts.late, tuple([i for i in dead if i in read]))
    return donate, *xla.prepare_early(graph, live, donate, graph.device, parts, between)


def _take_over(entry: Entry, program: Executable) -> Executable:
    """The program of the whole graph in the place of its pieces: waited for, once, if the compiler is not ready."""
    with graphs.lock:
        later, program.later = program.later, None
    if later is None:  # another thread does it
        return program
    start = time.perf_counter()
    try:
        with progress.told(entry.graph, ""):
            made = later.take()
    except BaseException:  # an interrupt: the next run waits for it
        program.later = later
        raise
    if made is None:
        return program
    donate, front, call = made
    new = Executable(program.live, donate, call, len(entry.graph.leaf_sigs), later.tier, front)
    new.before = program
    with graphs.lock:
        explain.compiled(entry, time.perf_counter() - start)
        graphs.replace(entry, program, new)
        if front is not None and entry.others is None:
            entry.others = {}, []  # when the loop stops to read, it gets the program of the whole
    return new


def _read_ahead(entry: Entry, live: tuple[int, ...], dead: tuple[int, ...]) -> Any:
    reading, entry.ahead = entry.ahead, None
    return None if reading is None else reading.take(live, dead)


def _worth_donating(graph: Graph, live: tuple[int, ...], dead: tuple[int, ...]) -> tuple[int, ...]:
    """Dead leaves whose buffer a result can take: jax warns about any other."""
    copied = _copied_anyway(graph)
    leaves = [(i, graph.leaf_sigs[i]) for i in dead if i not in copied]
    return fitting(leaves, [graph.value_sigs[i] for i in live])


def _copied_anyway(graph: Graph) -> set[int]:
    """Leaves that XLA would copy before it writes over them: on CPU those that an update of many values reads, because
    several kernels read each of them, and may do so at the same time.
    """
    updates = [n for n in graph.nodes if n.bound.many and not n.bound.differentiable] if graph.device.is_cpu else []
    return {~r for n in updates for r in n.args if r.__class__ is int and r < 0}


def forked() -> None:
    """In the child of a fork: another thread may have held the lock, and what was compiled cannot run any more."""
    graphs.unlocked()
    Fork.happened()
    if Fork.child:
        graphs.clear()


def before_fork() -> None:
    """An array that is still being computed would never be there in the child."""
    prefetch.wait_for_all()
    if started():
        xla.wait_for_all()
