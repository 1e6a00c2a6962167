"""The tables of a profile, by what they are sorted and which there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from bireme.core.base import errors
from bireme.core.run.tables import Table
from bireme.profiler.events import TracerEventType

T = TracerEventType
_UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_DEVICE = (T.Kernel, T.Memcpy, T.Memset)


class SortedKeys(Enum):
    """Columns that tables of ``Profiler.summary`` are sorted by, the largest first; those of GPUs sort the kernels.

    Examples:
        >>> bireme.profiler.SortedKeys.CPUAvg.name
        'CPUAvg'
    """

    CPUTotal = 0
    CPUAvg = 1
    CPUMax = 2
    CPUMin = 3
    GPUTotal = 4
    GPUAvg = 5
    GPUMax = 6
    GPUMin = 7


class SummaryView(Enum):
    """Tables of ``Profiler.summary``.

    Examples:
        >>> bireme.profiler.SummaryView.OperatorView.value
        5
    """

    DeviceView = 0
    OverView = 1
    ModelView = 2
    DistributedView = 3
    KernelView = 4
    OperatorView = 5
    MemoryView = 6
    MemoryManipulationView = 7
    UDFView = 8


class Rows(Table):
    """A table with its title."""

    def __init__(self, title: str, heads: tuple[str, ...], rows: Iterable[dict[str, Any]]):
        super().__init__(rows)
        self.title, self.heads = title, heads

    def titled(self, unit: str) -> str:
        """The title, with the unit of its times."""
        return f"{self.title} (times in {unit})" if "ratio" in self.heads else self.title


def tables(result: Any, sorted_by: SortedKeys, op_detail: bool, thread_sep: bool, unit: str, views: Any) -> list[Rows]:
    """The tables of the views that are asked for and have anything to show."""
    if unit not in _UNITS:
        raise errors.bad("summary(time_unit)", "'s', 'ms', 'us' or 'ns'", unit)
    if not isinstance(sorted_by, SortedKeys):
        raise errors.bad("summary(sorted_by)", "one of SortedKeys", sorted_by, kind=errors.ArgumentTypeError)
    wanted = set(SummaryView) if views is None else {views} if isinstance(views, SummaryView) else set(views)
    for view in wanted:
        if not isinstance(view, SummaryView):
            raise errors.bad("summary(views)", "one or several of SummaryView", view, kind=errors.ArgumentTypeError)
    made = _Maker(result, sorted_by, unit)
    found: list[Rows] = []
    if SummaryView.DeviceView in wanted:
        found.append(made.devices())
    if SummaryView.OverView in wanted:
        found.append(made.sums("Overview", lambda e: [e.type.name]))
    if SummaryView.ModelView in wanted:
        found += made.host(thread_sep)
        found.append(made.sums("Layers: time of their operators", _layers, [T.Operator]))
    if SummaryView.OperatorView in wanted:
        found.append(made.sums("Operators", lambda e: [e.name], [T.Operator], flops=True))
        if op_detail:
            found.append(made.sums("Lines: time of their operators", lambda e: [e.args.get("line", "")], [T.Operator]))
        found.append(made.sums("Programs", lambda e: [e.name], [T.Program]))
        found.append(made.sums("Compilations", lambda e: [e.name], [T.Compile]))
    if SummaryView.KernelView in wanted:
        found.append(made.sums("Kernels", lambda e: [e.name], [T.Kernel]))
    if SummaryView.MemoryManipulationView in wanted:
        found.append(made.sums("Copies of memory", lambda e: [e.name], [T.Memcpy, T.Memset]))
    if SummaryView.DistributedView in wanted:
        found.append(made.sums("Communication", lambda e: [e.name], [T.Communication]))
    if SummaryView.MemoryView in wanted:
        found.append(made.memory())
    if SummaryView.UDFView in wanted:
        found.append(made.sums("Ranges of the user", lambda e: [e.name], [T.PythonUserDefined, T.PythonOp]))
    return [rows for rows in found if rows]


def summary(result: Any, sorted_by: SortedKeys, op_detail: bool, thread_sep: bool, unit: str, views: Any) -> str:
    """The tables as text."""
    found = tables(result, sorted_by, op_detail, thread_sep, unit, views)
    return "\n\n".join(f"{rows.titled(unit)}\n{rows}" for rows in found) or "nothing was recorded"


def _layers(event: Any) -> list[str]:
    layers = event.args.get("layer")
    return layers.split(" / ") if layers else ["(outside of layers)"]


class _Maker:
    def __init__(self, result: Any, sorted_by: SortedKeys, unit: str):
        self.result, self.unit = result, _UNITS[unit]
        self.column = ("total", "avg", "max", "min")[sorted_by.value % 4]
        events = result.events
        self.whole = max(max((e.end for e in events), default=0) - min((e.start for e in events), default=0), 1)

    def time(self, ns: float) -> str:
        return f"{ns / self.unit:.3f}"

    def sums(
        self,
        title: str,
        keys: Callable[[Any], list[str]],
        types: list[TracerEventType] | None = None,
        flops: bool = False,
        track: str | None = None,
    ) -> Rows:
        """Calls, times and share of the profile of events with the same key."""
        groups: dict[str, list[Any]] = defaultdict(list)
        for e in self.result.events:
            if (types is None or e.type in types) and (track is None or e.track == track):
                for key in dict.fromkeys(keys(e)):
                    groups[key].append(e)
        rows = []
        for key, some in groups.items():
            times = [e.duration for e in some]
            each = {"total": sum(times), "avg": sum(times) / len(times), "max": max(times), "min": min(times)}
            rows.append((each[self.column], key, len(some), each, sum(e.args.get("flops", 0) for e in some)))
        rows.sort(key=lambda row: (-row[0], row[1]))
        heads: tuple[str, ...] = ("name", "calls", "total", "avg", "max", "min", "ratio")
        with_flops = flops and any(row[4] for row in rows)
        shown = []
        for _, key, calls, each, work in rows:
            row = {"name": key, "calls": calls, **{k: self.time(v) for k, v in each.items()}}
            row["ratio"] = f"{100 * each['total'] / self.whole:.1f} %"
            shown.append({**row, "flops": work} if with_flops else row)
        return Rows(title, (*heads, "flops") if with_flops else heads, shown)

    def host(self, thread_sep: bool) -> list[Rows]:
        """Steps, loader, forward and backward passes, updates; with `thread_sep` by thread."""
        types = [T.ProfileStep, T.Dataloader, T.Forward, T.Backward, T.Optimization]
        if not thread_sep:
            return [self.sums("Model: time of the host", _phase, types)]
        tracks = list(dict.fromkeys(e.track for e in self.result.events if e.type in types))
        return [self.sums(f"Model: time of the host, {track}", _phase, types, track=track) for track in tracks]

    def devices(self) -> Rows:
        """How much of the profile each device was busy."""
        busy: dict[str, int] = defaultdict(int)
        for e in self.result.events:
            if e.type is T.Program or e.type in _DEVICE:
                busy[e.track] += e.duration
        rows = [
            {"device": track, "busy": self.time(ns), "ratio": f"{100 * ns / self.whole:.1f} %"}
            for track, ns in sorted(busy.items(), key=lambda item: -item[1])
        ]
        return Rows("Devices", ("device", "busy", "ratio"), rows)

    def memory(self) -> Rows:
        """Least, most and last of the memory in use, in MB."""
        values = [n for _, n in self.result.memory]
        if not values:
            return Rows("Memory", (), [])
        shown = {"first": values[0], "least": min(values), "most": max(values), "last": values[-1]}
        row = {name: f"{n / 1e6:.1f} MB" for name, n in shown.items()}
        return Rows("Memory", tuple(row), [{**row}])


def _phase(event: Any) -> list[str]:
    return [event.type.name] if event.type in (T.ProfileStep, T.Forward) else [event.name]
