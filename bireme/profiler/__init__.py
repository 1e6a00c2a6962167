"""Profiler: where the time of a program goes, by step, layer, operator and line; as tables, a trace, or one HTML file."""

from bireme.profiler import utils as utils
from bireme.profiler.events import RecordEvent, TracerEventType
from bireme.profiler.profiler import (
    Profiler,
    ProfilerState,
    ProfilerTarget,
    export_chrome_tracing,
    export_protobuf,
    make_scheduler,
)
from bireme.profiler.result import ProfilerResult, load_profiler_result
from bireme.profiler.tables import SortedKeys, SummaryView

__all__ = [
    "Profiler", "ProfilerResult", "ProfilerState", "ProfilerTarget", "RecordEvent", "SortedKeys", "SummaryView",
    "TracerEventType", "export_chrome_tracing", "export_protobuf", "load_profiler_result", "make_scheduler",
]  # fmt: skip
