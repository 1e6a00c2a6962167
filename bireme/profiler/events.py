"""What is recorded while a profiler records: ranges of the host, runs of programs, memory. Nothing is computed here."""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from enum import Enum
from time import perf_counter_ns
from typing import Any, NamedTuple

from bireme.core.base import errors


class TracerEventType(Enum):
    """Kinds of events in a profile.

    Examples:
        >>> bireme.profiler.TracerEventType.Operator.name
        'Operator'
    """

    Operator = 0
    Dataloader = 1
    ProfileStep = 2
    CudaRuntime = 3
    Kernel = 4
    Memcpy = 5
    Memset = 6
    UserDefined = 7
    OperatorInner = 8
    Forward = 9
    Backward = 10
    Optimization = 11
    Communication = 12
    PythonOp = 13
    PythonUserDefined = 14
    Layer = 15
    Program = 16
    Compile = 17


# what users may record themselves
USERS = frozenset(
    getattr(TracerEventType, name)
    for name in ["Dataloader", "ProfileStep", "Forward", "Backward", "Optimization", "PythonOp", "PythonUserDefined"]
)


class Range(NamedTuple):
    """A range of the host, in nanoseconds of `perf_counter_ns`."""

    name: str
    type: TracerEventType
    start: int
    end: int
    thread: int


class Run:
    """A run of a segment: its graph, what recorded which of its calls, and when it ran."""

    __slots__ = ("graph", "by", "spans", "start", "end", "thread", "device")

    def __init__(self, graph: Any, by: str, spans: list[tuple[int, int, str]], start: int, end: int):
        self.graph, self.by, self.spans, self.start, self.end = graph, by, spans, start, end
        self.thread, self.device = threading.get_native_id(), graph.device


class Recording:
    """All that one profile is made of."""

    def __init__(self, memory: Callable[[], int] | None = None):
        self.began = perf_counter_ns()
        self.ended = self.began
        self.ranges: list[Range] = []
        self.runs: list[Run] = []
        self.memory: list[tuple[int, int]] = []
        self.kernels: list[Any] = []
        self.threads: dict[int, str] = {}
        self._sample = memory
        # what recorded the calls of segments that have not run yet: the segment itself, so that its id is not reused
        self._spans: dict[int, tuple[Any, list[tuple[int, int, str]]]] = {}
        self._ready: queue.SimpleQueue[tuple[Run, Any] | None] = queue.SimpleQueue()
        self._watcher = threading.Thread(target=self._watch, name="bireme profiler", daemon=True)
        self._watcher.start()

    def add(self, name: str, type: TracerEventType, start: int, end: int | None = None) -> None:
        """A range that ends now."""
        thread = threading.get_native_id()
        if thread not in self.threads:
            self.threads[thread] = threading.current_thread().name
        self.ranges.append(Range(name, type, start, end or perf_counter_ns(), thread))

    def span(self, seg: Any, first: int, now: Any, name: str) -> None:
        """Calls that a layer, a backward pass or an optimizer has recorded, from one segment's state to what is open now."""
        for one, begin in ((seg, first),) if now is seg else ((seg, first), (now, 0)):
            if one.state.depth > begin and not one.results:
                found = self._spans.get(id(one))
                if found is None:
                    found = self._spans[id(one)] = (one, [])
                found[1].append((begin, one.state.depth, name))

    def ran(self, seg: Any, start: int) -> None:
        """A segment whose program was called; on a device that computes meanwhile, a thread notes when it is done."""
        spans = self._spans.pop(id(seg), (seg, []))[1]
        graph = seg.state.graph
        if graph is None or graph.entry is None or not seg.results:
            return
        run = Run(graph, graph.entry.executor, spans, start, perf_counter_ns())
        self.runs.append(run)
        pending = [a for a in seg.results[0] if not getattr(a, "is_ready", lambda: True)()]
        if pending:
            self._ready.put((run, pending[-1]))
        if self._sample is not None:
            self.memory.append((perf_counter_ns(), self._sample()))

    def _watch(self) -> None:
        last = 0
        while (item := self._ready.get()) is not None:
            run, array = item
            try:
                array.block_until_ready()
            except RuntimeError:  # a later program was given its memory: it is done
                pass
            run.start, run.end = max(run.start, last), perf_counter_ns()  # programs of a device run one after another
            last = run.end
            del item, array

    def close(self) -> None:
        """Wait for what still runs."""
        self._ready.put(None)
        self._watcher.join()
        self._spans.clear()
        self.ended = perf_counter_ns()


class State:
    """The recording that events go to, None if there is none."""

    recording: Recording | None = None
    used = False  # whether a profiler was started and not stopped


state = State()


def in_profiler_mode() -> bool:
    """Return whether a profiler was started and not stopped yet.

    Returns:
        A bool.

    Examples:
        >>> bireme.profiler.utils.in_profiler_mode()
        False
    """
    return state.used


class RecordEvent(ContextDecorator):
    """A range of the user's own in a profile; a context manager and a decorator. It costs nothing much where nothing records.

    Args:
        name: Name of the range.
        event_type: Kind of the range. Default: ``TracerEventType.PythonUserDefined``.

    Examples:
        >>> with bireme.profiler.Profiler(on_trace_ready=lambda p: None) as profiler:
        ...     with bireme.profiler.RecordEvent("my part"):
        ...         value = (bireme.ones([2]) + 1).tolist()
        >>> [e.name for e in profiler.result.events if e.type.name == "PythonUserDefined"]
        ['my part']
    """

    def __init__(self, name: str, event_type: TracerEventType = TracerEventType.PythonUserDefined):
        if event_type not in USERS:
            expected = f"one of {', '.join(sorted(t.name for t in USERS))}"
            raise errors.bad(
                "RecordEvent(event_type)", expected, described=getattr(event_type, "name", str(event_type))
            )
        self.name, self.event_type = name, event_type
        self._starts: list[int] = []

    def _recreate_cm(self) -> RecordEvent:
        return RecordEvent(self.name, self.event_type)  # a decorated function may call itself

    def __enter__(self) -> RecordEvent:
        self.begin()
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()

    def begin(self) -> None:
        """Begin the range.

        Examples:
            >>> event = bireme.profiler.RecordEvent("part")
            >>> event.begin()
            >>> event.end()
        """
        self._starts.append(perf_counter_ns())

    def end(self) -> None:
        """End the range; without a ``begin`` nothing is recorded.

        Examples:
            >>> bireme.profiler.RecordEvent("part").end()
        """
        if self._starts:
            start, recording = self._starts.pop(), state.recording
            if recording is not None:
                recording.add(str(self.name), self.event_type, max(start, recording.began))


def timed(function: Callable, name: str, type: TracerEventType, segment: Any = None) -> Callable:
    """A function whose calls are ranges; with the thread's open segment, also of the calls that it records."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        recording = state.recording
        if recording is None:
            return function(*args, **kwargs)
        told = name or f"{args[0].__class__.__name__}.{function.__name__}"
        seg = None if segment is None else segment.segment
        first, start = (0 if seg is None else seg.state.depth), perf_counter_ns()
        try:
            return function(*args, **kwargs)
        finally:
            recording.add(told, type, start)
            if seg is not None:
                recording.span(seg, first, segment.segment, told)

    return call
