"""A finished profile: events on one clock, made from a recording or read from a file."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded, guard_functions
from bireme.core.base.errors import FileFormatError
from bireme.files.atomic import replacing
from bireme.profiler import perfetto
from bireme.profiler.events import Recording, Run, TracerEventType
from bireme.profiler.report import page
from bireme.profiler.tables import SortedKeys, SummaryView, summary

MAX_BYTES = 1 << 30
T = TracerEventType


@dataclass
class Event:
    """One event of a profile; times are nanoseconds since its start."""

    name: str
    type: TracerEventType
    start: int
    end: int
    track: str
    args: dict[str, Any] = field(default_factory=dict)

    @property
    def duration(self) -> int:
        """Nanoseconds from start to end."""
        return self.end - self.start


class ProfilerResult(Guarded):
    """A profile: its events, its timeline of memory, and what is known about the process.

    The constructor is not called by users: ``Profiler.result`` and ``load_profiler_result`` give one.

    Args:
        events: The events.
        memory: Pairs of nanoseconds and bytes.
        extra_info: What is known about the process.

    Examples:
        >>> with bireme.profiler.Profiler(on_trace_ready=lambda p: None) as profiler:
        ...     value = (bireme.ones([2]) + 1).tolist()
        >>> [e.name for e in profiler.result.events if e.type.name == "Operator"][-1]
        'add'
    """

    def __init__(self, events: list[Event], memory: list[tuple[int, int]], extra_info: dict[str, str]):
        self.events, self.memory, self.extra_info = events, memory, extra_info

    def summary(
        self,
        sorted_by: SortedKeys = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
        views: SummaryView | list[SummaryView] | None = None,
    ) -> str:
        """Return the tables that ``Profiler.summary`` prints.

        Args:
            sorted_by: Column to sort by. Default: ``SortedKeys.CPUTotal``.
            op_detail: Add the table of lines. Default: True.
            thread_sep: A table of host ranges for each thread. Default: False.
            time_unit: ``'s'``, ``'ms'``, ``'us'`` or ``'ns'``. Default: ``'ms'``.
            views: The views to show. Default: None, all that have anything.

        Returns:
            A text of several lines.

        Examples:
            >>> with bireme.profiler.Profiler(on_trace_ready=lambda p: None) as profiler:
            ...     value = (bireme.ones([2]) + 1).tolist()
            >>> "add" in profiler.result.summary()
            True
        """
        return summary(self, sorted_by, op_detail, thread_sep, time_unit, views)

    def report(self, path: str | os.PathLike) -> None:
        """Write the profile as one HTML file with all tables and a timeline, which opens without a network.

        Args:
            path: Path of the file.

        Examples:
            >>> import os, tempfile
            >>> with bireme.profiler.Profiler(on_trace_ready=lambda p: None) as profiler:
            ...     value = (bireme.ones([2]) + 1).tolist()
            >>> path = os.path.join(tempfile.mkdtemp(), "profile.html")
            >>> profiler.result.report(path)
            >>> os.path.getsize(path) > 1000
            True
        """
        _write(path, page(self).encode())

    def save(self, path: str | os.PathLike, format: str = "json") -> None:
        """Write the profile to a file.

        Args:
            path: Path of the file.
            format: ``'json'`` for a chrome trace, ``'pb'`` for Perfetto's own format, or ``'html'`` for a report.
                Default: ``'json'``.

        Examples:
            >>> import os, tempfile
            >>> with bireme.profiler.Profiler(on_trace_ready=lambda p: None) as profiler:
            ...     value = (bireme.ones([2]) + 1).tolist()
            >>> path = os.path.join(tempfile.mkdtemp(), "profile.pb")
            >>> profiler.result.save(path, "pb")
            >>> len(bireme.profiler.load_profiler_result(path).events) == len(profiler.result.events)
            True
        """
        if format == "json":
            _write(path, json.dumps(_chrome(self), separators=(",", ":")).encode())
        elif format == "pb":
            _write(path, perfetto.encoded(_packets(self)))
        elif format == "html":
            self.report(path)
        else:
            raise errors.bad("save(format)", "'json', 'pb' or 'html'", format)


def _write(path: str | os.PathLike, data: bytes) -> None:
    with replacing(os.fspath(path)) as file:
        file.write(data)


def made(recording: Recording, shapes: bool, flops: bool, extra_info: dict[str, str]) -> ProfilerResult:
    """The profile of a recording that is over: the only place where time is spent on it."""
    began = recording.began
    events = [
        Event(r.name, r.type, r.start - began, r.end - began, f"thread {recording.threads.get(r.thread, r.thread)}")
        for r in recording.ranges
    ]
    for run in recording.runs:
        events += _events_of(run, began, shapes, flops)
    for k in recording.kernels:
        kind = T.Memcpy if "memcpy" in k.name.lower() else T.Memset if "memset" in k.name.lower() else T.Kernel
        events.append(Event(k.name, kind, k.start - began, k.end - began, f"{k.device} {k.stream}"))
    events.sort(key=lambda e: (e.start, -e.end))
    memory = [(at - began, n) for at, n in recording.memory]
    return ProfilerResult(events, memory, extra_info)


def _events_of(run: Run, began: int, shapes: bool, flops: bool) -> list[Event]:
    """A run, and its calls inside of it: a program is one, so its time is shared by their estimated work."""
    nodes, track = run.graph.nodes, f"programs {run.device.name}"
    start, length = run.start - began, run.end - run.start
    by: list[tuple[str, ...]] = [()] * len(nodes)
    for first, last, name in sorted(run.spans, key=lambda span: span[0] - span[1]):  # the longest first
        for i in range(first, min(last, len(nodes))):
            by[i] = (*by[i], name)
    lines = [errors.location(node.pos) for node in (nodes[0], nodes[-1])]
    where = lines[0] if lines[0] == lines[1] else f"{lines[0]} .. {lines[1]}"
    program = Event(f"program {where}", T.Program, start, start + length, track, {"ops": len(nodes), "run by": run.by})
    works = [max(node.work - (node.parent.work if node.parent else 0.0), 1e-3) for node in nodes]
    found, share, at = [program], length / sum(works), float(start)
    for node, work, layers in zip(nodes, works, by, strict=True):
        args: dict[str, Any] = {"line": errors.location(node.pos)}
        if layers:
            args["layer"] = " / ".join(layers)
        if shapes:
            args["shapes"] = ", ".join(map(str, node.sigs))
        if flops:
            args["flops"] = _flops(node)
        name = str(node.bound.op.name)
        found.append(Event(name, T.Operator, int(at), int(at + work * share), track, args))
        at += work * share
    return found


_PRODUCTS = ("matmul", "linear", "bmm", "mm", "addmm", "baddbmm", "mv", "dot")


def _flops(node: Any) -> int:
    """Floating-point operations of a call: two for each product that is summed, one for each other element."""
    size = sum(math.prod(sig.shape) for sig in node.outs)
    name, _, gradient = str(node.bound.op.name).partition(".")
    sigs = [sig.shape for sig in (*node.sigs, *node.outs) if sig.shape]
    if len(sigs) < 3 or not name.startswith((*_PRODUCTS, "conv")):
        return size
    # of [M, K] times [K, N] the root of all three sizes is M K N; a gradient is such a product of two of them
    times = len(node.outs) if gradient else 1
    three = [sigs[0], *sigs[-2:]] if times == 2 else [sigs[0], sigs[1], sigs[-1]]
    if name.startswith("conv"):
        weight = min(three, key=math.prod)
        return 2 * times * math.prod(sigs[0] if gradient else sigs[-1]) * math.prod(weight[1:])
    batch = math.prod(three[1][:-2]) if min(map(len, three)) > 2 else 1
    return round(2 * times * math.sqrt(math.prod(map(math.prod, three)) / max(batch, 1)))


def _chrome(result: ProfilerResult) -> dict[str, Any]:
    """The profile in the format of chrome://tracing, which Perfetto opens; times in microseconds."""
    tracks = list(dict.fromkeys(e.track for e in result.events))
    ids = {track: i for i, track in enumerate(tracks, 1)}
    rows: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": i, "name": "thread_name", "args": {"name": track}} for track, i in ids.items()
    ]
    rows.append({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "bireme"}})
    for e in result.events:
        at = {"ph": "X", "pid": 1, "tid": ids[e.track], "ts": e.start / 1e3, "dur": e.duration / 1e3}
        rows.append({**at, "name": e.name, "cat": e.type.name, "args": e.args})
    for time, n in result.memory:
        rows.append({"ph": "C", "pid": 1, "ts": time / 1e3, "name": "memory", "args": {"bytes": n}})
    return {"traceEvents": rows, "displayTimeUnit": "ms", "otherData": result.extra_info}


def _packets(result: ProfilerResult) -> list[perfetto.Slice | perfetto.Sample]:
    slices: list[perfetto.Slice | perfetto.Sample] = [
        perfetto.Slice(e.track, e.start, e.end, e.name, e.type.name, {k: str(v) for k, v in e.args.items()})
        for e in result.events
    ]
    return [*slices, *[perfetto.Sample(time, n) for time, n in result.memory]]


def load_profiler_result(filename: str | os.PathLike) -> ProfilerResult:
    """Read a profile that ``export_chrome_tracing``, ``export_protobuf`` or ``Profiler.export`` wrote.

    Args:
        filename: Path of the file, in either format.

    Returns:
        The profile, which has ``events``, ``summary()`` and ``report(path)``.

    Raises:
        ValueError: If the file is damaged or of another format.

    Examples:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "profile.json")
        >>> with bireme.profiler.Profiler(on_trace_ready=lambda p: p.export(path)) as profiler:
        ...     value = (bireme.ones([2]) + 1).tolist()
        >>> len(bireme.profiler.load_profiler_result(path).events) == len(profiler.result.events)
        True
    """
    path = os.fspath(filename)
    try:
        if os.path.getsize(path) > MAX_BYTES:
            raise FileFormatError(f"over {MAX_BYTES} bytes")
        with open(path, "rb") as file:
            data = file.read()
        if data[:1] == b"{":
            return _from_chrome(json.loads(data))
        return _from_packets(perfetto.decoded(data))
    except FileNotFoundError:
        raise errors.bad(
            "load_profiler_result(filename)",
            "a file",
            described=f"{path}, which does not exist",
            kind=FileNotFoundError,
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError) as e:
        described = f"{path}: {type(e).__name__} {e}"
        raise errors.bad(
            "load_profiler_result(filename)", "a profile of Bireme", described=described, kind=FileFormatError
        ) from None


def _from_chrome(data: dict[str, Any]) -> ProfilerResult:
    rows = data["traceEvents"]
    tracks = {row["tid"]: str(row["args"]["name"]) for row in rows if row.get("name") == "thread_name"}
    events, memory = [], []
    for row in rows:
        start = round(row.get("ts", 0) * 1e3)
        if row["ph"] == "X":
            end = start + round(row["dur"] * 1e3)
            events.append(
                Event(str(row["name"]), TracerEventType[row["cat"]], start, end, tracks[row["tid"]], dict(row["args"]))
            )
        elif row["ph"] == "C":
            memory.append((start, int(row["args"]["bytes"])))
    return ProfilerResult(events, memory, {str(k): str(v) for k, v in data.get("otherData", {}).items()})


def _from_packets(packets: list[perfetto.Slice | perfetto.Sample]) -> ProfilerResult:
    events, memory = [], []
    for p in packets:
        if isinstance(p, perfetto.Slice):
            args = {k: int(v) if k in ("ops", "flops") else v for k, v in p.args.items()}
            events.append(Event(p.name, TracerEventType[p.category], p.start, p.end, p.track, args))
        else:
            memory.append((p.time, p.value))
    events.sort(key=lambda e: (e.start, -e.end))
    return ProfilerResult(events, memory, {})


guard_functions(globals())
