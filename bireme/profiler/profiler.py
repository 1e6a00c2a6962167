"""Profiler: when it records, what it hands over, and to whom."""

from __future__ import annotations

import datetime
import os
import re
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from time import perf_counter_ns
from typing import Any

from bireme import version
from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded, guard_functions
from bireme.core.record.flush import flush
from bireme.core.run.device_trace import Trace
from bireme.profiler import hooks, result
from bireme.profiler.events import Recording, TracerEventType, state
from bireme.profiler.result import ProfilerResult
from bireme.profiler.tables import SortedKeys, SummaryView
from bireme.profiler.timer import Timer


class ProfilerState(Enum):
    """States of a profiler: off, warming up, recording, and recording the last step before the profile is handed over.

    Examples:
        >>> bireme.profiler.ProfilerState.RECORD.value
        2
    """

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3


class ProfilerTarget(Enum):
    """What is profiled: the host, or kernels of a device.

    Examples:
        >>> bireme.profiler.ProfilerTarget.GPU.value
        1
    """

    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM_DEVICE = 3


_RECORDING = (ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN)


def make_scheduler(
    *, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerState]:
    """Return a scheduler: a function from the number of a step to the state of the profiler.

    Args:
        closed: Steps of each period in which nothing is recorded.
        ready: Steps after them for warming up.
        record: Steps after them that are recorded.
        repeat: Number of periods; 0 repeats them for ever. Default: 0.
        skip_first: Steps before the first period. Default: 0.

    Returns:
        A function that ``Profiler(scheduler=...)`` takes.

    Examples:
        >>> scheduler = bireme.profiler.make_scheduler(closed=1, ready=1, record=2, repeat=1)
        >>> [scheduler(step).name for step in range(5)]
        ['CLOSED', 'READY', 'RECORD', 'RECORD_AND_RETURN', 'CLOSED']
    """
    counts = {"closed": closed, "ready": ready, "record": record, "repeat": repeat, "skip_first": skip_first}
    for name, n in counts.items():
        least = 1 if name == "record" else 0
        if isinstance(n, bool) or not isinstance(n, int) or n < least:
            expected = "a positive number of steps" if least else "a non-negative integer"
            raise errors.bad(f"make_scheduler({name})", expected, n, kind=errors.for_integer(n))
    period = closed + ready + record

    def scheduler(step: int) -> ProfilerState:
        errors.check_integer("scheduler(step)", step)
        if step < 0:
            raise errors.bad("scheduler(step)", "a non-negative integer", step)
        turn, at = divmod(step - skip_first, period)
        if turn < 0 or at < closed or (repeat and turn >= repeat):
            return ProfilerState.CLOSED
        if at < closed + ready:
            return ProfilerState.READY
        return ProfilerState.RECORD if at < period - 1 else ProfilerState.RECORD_AND_RETURN

    return scheduler


def _exporter(name: str, dir_name: Any, worker_name: str | None, ending: str) -> Callable[[Profiler], None]:
    if not isinstance(dir_name, (str, os.PathLike)):
        raise errors.bad(f"{name}(dir_name)", "a path", dir_name, kind=errors.ArgumentTypeError)
    folder = os.fspath(dir_name)

    def export(profiler: Profiler) -> None:
        os.makedirs(folder, exist_ok=True)
        worker = worker_name or f"host_{socket.gethostname()}pid_{os.getpid()}"
        now = datetime.datetime.now().strftime("%Y_%m_%d_%H_%M_%S_%f")
        profiler.export(os.path.join(folder, f"{worker}_time_{now}.paddle_trace.{ending}"), ending)

    return export


def export_chrome_tracing(dir_name: str | os.PathLike, worker_name: str | None = None) -> Callable[[Profiler], None]:
    """Return a handler that writes each profile as a chrome trace, which Perfetto (ui.perfetto.dev) opens.

    Args:
        dir_name: Folder of the files, made if it does not exist.
        worker_name: First part of their names. Default: None, the host's name and the id of the process.

    Returns:
        A function that ``Profiler(on_trace_ready=...)`` takes.

    Examples:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ready = bireme.profiler.export_chrome_tracing(folder, "worker")
        >>> with bireme.profiler.Profiler(on_trace_ready=ready):
        ...     value = (bireme.ones([2]) + 1).tolist()
        >>> os.listdir(folder)[0].endswith(".paddle_trace.json")
        True
    """
    return _exporter("export_chrome_tracing", dir_name, worker_name, "json")


def export_protobuf(dir_name: str | os.PathLike, worker_name: str | None = None) -> Callable[[Profiler], None]:
    """Return a handler that writes each profile as a protobuf, in Perfetto's own format.

    Args:
        dir_name: Folder of the files, made if it does not exist.
        worker_name: First part of their names. Default: None, the host's name and the id of the process.

    Returns:
        A function that ``Profiler(on_trace_ready=...)`` takes.

    Examples:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with bireme.profiler.Profiler(on_trace_ready=bireme.profiler.export_protobuf(folder)):
        ...     value = (bireme.ones([2]) + 1).tolist()
        >>> os.listdir(folder)[0].endswith(".paddle_trace.pb")
        True
    """
    return _exporter("export_protobuf", dir_name, worker_name, "pb")


class Profiler(Guarded):
    """Records where time goes: steps, reading of data, layers, backward passes, updates, programs, operators, kernels.

    While it records, a few functions of Bireme are replaced by ones that note the time; otherwise nothing of it runs.
    A program is compiled as a whole, so its time is shared among its operators by their estimated work; with
    ``FLAGS_op_at_once`` each operator is a program, and its time measured. One profiler may be started at a time.

    Args:
        targets: What is profiled, of ``ProfilerTarget``. Kernels are recorded where a device other than the CPU is
            among them and in use. Default: None, all.
        scheduler: Function from the number of a step to a ``ProfilerState``, such as ``make_scheduler`` returns, or a
            pair ``(start, end)``: steps from ``start`` up to ``end`` are recorded. Default: None, all steps.
        on_trace_ready: Function that is called with the profiler when a profile is ready. Default: None,
            ``export_chrome_tracing('./profiler_log/')``.
        record_shapes: Keep the shapes of operands of operators. Default: False.
        profile_memory: Keep a timeline of memory: what a device reports, or of the process on CPU. Default: False.
        timer_only: Only measure steps and reading of data, for ``step_info``. Default: False.
        emit_nvtx: Without effect: the trace has all ranges. Default: False.
        custom_device_types: Without effect: plug-ins are traced as other devices are. Default: [].
        with_flops: Count the floating-point operations of operators. Default: False.

    Examples:
        >>> x = bireme.ones([4])
        >>> with bireme.profiler.Profiler(scheduler=(1, 3), on_trace_ready=lambda p: None) as profiler:
        ...     for _ in range(5):
        ...         value = (x * 2).tolist()
        ...         profiler.step()
        >>> [e.name for e in profiler.result.events if e.type.name == "ProfileStep"]
        ['ProfileStep#1', 'ProfileStep#2']
    """

    def __init__(
        self,
        *,
        targets: Iterable[ProfilerTarget] | None = None,
        scheduler: Callable[[int], ProfilerState] | Sequence[int] | None = None,
        on_trace_ready: Callable[[Profiler], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        timer_only: bool = False,
        emit_nvtx: bool = False,
        custom_device_types: list[str] = [],  # noqa: B006 - Paddle's signature
        with_flops: bool = False,
    ):
        self.targets = set(ProfilerTarget) if targets is None else set(targets)
        for target in self.targets:
            if not isinstance(target, ProfilerTarget):
                raise errors.bad("Profiler(targets)", "some of ProfilerTarget", target, kind=errors.ArgumentTypeError)
        self.scheduler = _scheduler(scheduler)
        self.on_trace_ready = export_chrome_tracing("./profiler_log/") if on_trace_ready is None else on_trace_ready
        errors.check_function("Profiler(on_trace_ready)", self.on_trace_ready)
        self.record_shapes, self.profile_memory, self.with_flops = record_shapes, profile_memory, with_flops
        self.timer_only, self.emit_nvtx = timer_only, emit_nvtx
        self.step_num = 0
        self.previous_state = ProfilerState.CLOSED
        self.current_state = self.scheduler(0)
        self.profiler_result: ProfilerResult | None = None
        self._timer = Timer()
        self._recording: Recording | None = None
        self._trace: Trace | None = None
        self._began = 0

    @property
    def result(self) -> ProfilerResult:
        """The last profile that was finished.

        Raises:
            RuntimeError: If there is none yet.
        """
        if self.profiler_result is None:
            hint = "stop() finishes one, as does a step after RECORD_AND_RETURN"
            raise errors.failure("Profiler.result: expected a profile that is finished, got none", hint=hint)
        return self.profiler_result

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Start: the first step begins.

        Examples:
            >>> profiler = bireme.profiler.Profiler(timer_only=True)
            >>> profiler.start()
            >>> profiler.stop()
        """
        if state.used:
            raise errors.failure(
                "Profiler.start(): expected no other profiler to be started, got one that is not stopped"
            )
        state.used = True
        self._timer = Timer()
        self.step_num, self.current_state = 0, self.scheduler(0)
        try:
            hooks.install(self._timer, not self.timer_only)
            self._move(ProfilerState.CLOSED)
        except BaseException:
            hooks.remove()
            state.used, state.recording = False, None
            raise

    def stop(self) -> None:
        """Stop: what is being recorded becomes a profile, and is handed over.

        Examples:
            >>> profiler = bireme.profiler.Profiler(on_trace_ready=lambda p: None)
            >>> profiler.start()
            >>> profiler.stop()
            >>> profiler.result.extra_info["steps"]
            '1'
        """
        if not state.used:
            return
        try:
            self._finish(hand_over=True)
        finally:
            hooks.remove()
            state.used, state.recording = False, None
            self.current_state = ProfilerState.CLOSED
        if self.timer_only and (told := self._timer.summary()):
            sys.stdout.write(told + "\n")

    def step(self, num_samples: int | None = None) -> None:
        """A step is over, and the next one begins.

        Args:
            num_samples: Number of samples in the step, for ``step_info``. Default: None.

        Examples:
            >>> with bireme.profiler.Profiler(timer_only=True) as profiler:
            ...     profiler.step(num_samples=8)
            ...     profiler.step_info().split()[-1]
            'samples/s'
        """
        self._timer.step(num_samples)
        if self._recording is not None:
            name = f"ProfileStep#{self.step_num}"
            self._recording.add(name, TracerEventType.ProfileStep, self._began)
        self.previous_state = self.current_state
        self.step_num += 1
        self.current_state = self.scheduler(self.step_num)
        if state.used:
            self._move(self.previous_state)
        self._began = perf_counter_ns()

    def step_info(self, unit: str | None = None) -> str:
        """Return the mean times of steps since the last call: of reading data, of a step, and samples per second.

        Args:
            unit: What samples are called. Default: None, ``'samples'``.

        Returns:
            A text such as ``' reader_cost: 0.00100 s batch_cost: 0.01000 s ips: 3200.000 images/s'``.

        Examples:
            >>> with bireme.profiler.Profiler(timer_only=True) as profiler:
            ...     profiler.step()
            ...     profiler.step_info().split()[-1]
            'steps/s'
        """
        return self._timer.info(unit)

    def export(self, path: str | os.PathLike = "", format: str = "json") -> None:
        """Write the last profile to a file.

        Args:
            path: Path of the file. Default: ``''``, which is an error.
            format: ``'json'`` for a chrome trace, ``'pb'`` for Perfetto's own format, or ``'html'`` for a report.
                Default: ``'json'``.

        Examples:
            >>> import json, os, tempfile
            >>> path = os.path.join(tempfile.mkdtemp(), "trace.json")
            >>> with bireme.profiler.Profiler(on_trace_ready=lambda p: p.export(path)):
            ...     value = (bireme.ones([2]) + 1).tolist()
            >>> "traceEvents" in json.load(open(path))
            True
        """
        if not os.fspath(path):
            raise errors.bad("export(path)", "the path of a file", path)
        self.result.save(path, format)

    def summary(
        self,
        sorted_by: SortedKeys = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
        views: SummaryView | list[SummaryView] | None = None,
    ) -> None:
        """Print tables of the last profile: by kind of event, phase of a step, layer, operator, line, program and kernel.

        Args:
            sorted_by: Column to sort by. Default: ``SortedKeys.CPUTotal``.
            op_detail: Add the table of lines. Default: True.
            thread_sep: A table of host ranges for each thread. Default: False.
            time_unit: ``'s'``, ``'ms'``, ``'us'`` or ``'ns'``. Default: ``'ms'``.
            views: The views to show. Default: None, all that have anything.

        Examples:
            >>> with bireme.profiler.Profiler(on_trace_ready=lambda p: None) as profiler:
            ...     value = (bireme.ones([2]) + 1).tolist()
            >>> profiler.summary(views=bireme.profiler.SummaryView.OperatorView)  # doctest: +ELLIPSIS
            Operators (times in ms)
            ...
        """
        sys.stdout.write(self.result.summary(sorted_by, op_detail, thread_sep, time_unit, views) + "\n")

    def report(self, path: str | os.PathLike) -> None:
        """Write the last profile as one HTML file with all tables and a timeline, which opens without a network.

        Args:
            path: Path of the file.

        Examples:
            >>> import os, tempfile
            >>> with bireme.profiler.Profiler(on_trace_ready=lambda p: None) as profiler:
            ...     value = (bireme.ones([2]) + 1).tolist()
            >>> profiler.report(os.path.join(tempfile.mkdtemp(), "profile.html"))
        """
        self.result.report(path)

    def _move(self, before: ProfilerState) -> None:
        """From one state to the next: a profile ends with its last step, or where the scheduler closes it."""
        goes_on = before is ProfilerState.RECORD and self.current_state in _RECORDING
        if before in _RECORDING and not goes_on:
            self._finish(hand_over=True)
        if self.current_state in _RECORDING and not goes_on and not self.timer_only:
            self._begin()

    def _begin(self) -> None:
        flush()  # what was recorded before is no part of it
        device = devices.current()
        if not device.is_cpu and self.targets - {ProfilerTarget.CPU}:
            self._trace = Trace()
        sample = _memory(device) if self.profile_memory else None
        self._recording = state.recording = Recording(sample)
        self._began, self._first = self._recording.began, self.step_num

    def _finish(self, hand_over: bool) -> None:
        recording, self._recording = self._recording, None
        if recording is None:
            return
        flush()  # the last step's programs are part of it
        state.recording = None
        recording.close()
        if self._trace is not None:
            trace, self._trace = self._trace, None
            recording.kernels = trace.stop()
        steps = max(self.step_num - self._first, 1)
        about = {"bireme": version.full_version, "device": devices.current().name, "steps": str(steps)}
        self.profiler_result = result.made(recording, self.record_shapes, self.with_flops, about)
        if hand_over:
            self.on_trace_ready(self)


def _scheduler(given: Any) -> Callable[[int], ProfilerState]:
    if given is None:
        return lambda step: ProfilerState.RECORD
    if callable(given):
        return given
    pair = isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(n, int) for n in given)
    if not pair or given[1] <= max(given[0], 0):
        raise errors.bad(
            "Profiler(scheduler)", "a function of the step, or a pair (start, end) with start < end", given
        )
    start = max(given[0], 0)
    ready = min(start, 1)
    return make_scheduler(closed=start - ready, ready=ready, record=given[1] - start, repeat=1)


def _memory(device: devices.Device) -> Callable[[], int]:
    """What tells the memory in use: the device, or the process where the device does not count it."""
    if device.jax.memory_stats():
        return lambda: int((device.jax.memory_stats() or {}).get("bytes_in_use", 0))
    return _resident


def _resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        with open("/proc/self/status", "rb") as file:
            found = re.search(rb"VmRSS:\s*(\d+) kB", file.read())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


guard_functions(globals())
