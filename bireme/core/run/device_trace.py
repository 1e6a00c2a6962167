"""What ran on an accelerator and when, by jax's profiler: kernels and copies, on the host's clock."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import time
from typing import NamedTuple

import jax

_MARK = "bireme: the clocks"


class Kernel(NamedTuple):
    """One kernel or copy: where it ran, and when, in nanoseconds of `time.perf_counter_ns`."""

    device: str
    stream: str
    name: str
    start: int
    end: int


class Trace:
    """A trace that is being recorded; there is one at a time in a process."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="bireme_trace_")
        jax.profiler.start_trace(self._folder)
        self._clock = time.perf_counter_ns()
        with jax.profiler.TraceAnnotation(_MARK):  # found again in the trace: so its clock is known
            pass

    def stop(self) -> list[Kernel]:
        """End the trace and return what ran on accelerators."""
        try:
            jax.profiler.stop_trace()
            files = glob.glob(os.path.join(self._folder, "**", "*.xplane.pb"), recursive=True)
            return [kernel for path in files for kernel in self._read(path)]
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self, path: str) -> list[Kernel]:
        planes = list(jax.profiler.ProfileData.from_file(path).planes)
        marks = [e.start_ns for p in planes for line in p.lines for e in line.events if e.name == _MARK]
        if not marks:
            return []
        shift = self._clock - min(marks)
        return [
            Kernel(plane.name, line.name, e.name, int(e.start_ns + shift), int(e.start_ns + shift + e.duration_ns))
            for plane in planes
            if plane.name.startswith("/device:")
            for line in plane.lines
            for e in line.events
        ]
