"""Names that code written for Paddle imports from `profiler.utils`."""

from bireme.profiler.events import RecordEvent, TracerEventType, in_profiler_mode
from bireme.profiler.result import load_profiler_result

__all__ = ["RecordEvent", "TracerEventType", "in_profiler_mode", "load_profiler_result"]
