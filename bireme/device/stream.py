"""Streams and events, of one queue per device: XLA orders the work of a device itself and has no queues of the user's.

A stream therefore names its device's queue, waiting for another stream means nothing more than order already gives, and
an event knows the time at which everything recorded before it was done.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.device import Place
from bireme.core.record import guards
from bireme.core.record.flush import flush
from bireme.core.xla_exec.xla import wait


def finish(device: devices.Device) -> None:
    """Run what is pending in this thread and wait until the device has finished."""
    flush()
    wait(device)
    guards.check()


def device_of(spec: Any, where: str) -> devices.Device:
    """Return the device of a user's argument: None is the current one, an int an index of its type or of the GPUs."""
    if spec is None:
        return devices.current()
    if isinstance(spec, int) and not isinstance(spec, bool):
        if spec < 0:
            raise errors.bad(where, "a non-negative device id", spec)
        kind = devices.current().kind
        spec = f"{'gpu' if kind == 'cpu' else kind}:{spec}"
    found = devices.parse(spec, where)
    found.ensure(where)
    return found


class Event:
    """A point in the work of a device; two events with ``enable_timing`` measure the time between them.

    XLA has one queue per device and no events of its own: recording an event waits until the device has finished.

    Args:
        device: A name such as ``"gpu:0"``, a place, or the index of a GPU. Default: None, the current device.
        enable_timing: Kept as an attribute: the time is always measured. Default: False.
        blocking: Has no effect.
        interprocess: Must be False: XLA shares no events between processes.

    Examples:
        >>> start, end = bireme.device.Event(enable_timing=True), bireme.device.Event(enable_timing=True)
        >>> start.record()
        >>> end.record()
        >>> start.elapsed_time(end) >= 0
        True
    """

    def __init__(
        self,
        device: str | Place | int | None = None,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        if interprocess:
            raise errors.bad("Event(interprocess)", "False, since XLA shares no events between processes", interprocess)
        self.device: Place = device_of(device, "Event(device)").place
        self.enable_timing = bool(enable_timing)
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Wait until the device has finished, and store the time.

        Args:
            stream: The stream whose device is waited for. Default: None, the device of the event.

        Examples:
            >>> bireme.device.Event().record()
        """
        finish(devices.parse(self.device if stream is None else _stream(stream, "record(stream)").device))
        self._time = time.perf_counter()

    def query(self) -> bool:
        """Return whether everything before the event has finished: always True, since recording waits.

        Examples:
            >>> bireme.device.Event().query()
            True
        """
        return True

    def synchronize(self) -> None:
        """Wait until everything before the event has finished, which is so once it is recorded.

        Examples:
            >>> bireme.device.Event().synchronize()
        """

    def elapsed_time(self, end_event: Event) -> float:
        """Return the time from this event to another.

        Args:
            end_event: The other event.

        Returns:
            Milliseconds, a float.

        Raises:
            RuntimeError: If one of the events is not recorded.

        Examples:
            >>> a, b = bireme.device.Event(enable_timing=True), bireme.device.Event(enable_timing=True)
            >>> a.record()
            >>> b.record()
            >>> b.elapsed_time(a) <= 0
            True
        """
        if not isinstance(end_event, Event):
            raise errors.bad("elapsed_time(end_event)", "an Event", end_event, kind=errors.ArgumentTypeError)
        if self._time is None or end_event._time is None:
            raise errors.bad(
                "elapsed_time(end_event)",
                "two recorded events",
                described="an event that is not recorded",
                hint="call record() first",
                kind=RuntimeError,
            )
        return (end_event._time - self._time) * 1e3

    def __repr__(self) -> str:
        return f"<Event device={self.device} recorded={self._time is not None}>"


class Stream:
    """The queue of a device, in which work runs in order.

    XLA has one queue per device, so all streams of a device are the same queue.

    Args:
        device: A name such as ``"gpu:0"``, a place, or the index of a GPU. Default: None, the current device.
        priority: 1 or 2, without effect. Default: 2.
        stream_base: Another stream, whose device is used. Default: None.

    Examples:
        >>> bireme.device.Stream("cpu").query()
        True
    """

    def __init__(
        self, device: str | Place | int | None = None, priority: int = 2, stream_base: Stream | None = None
    ) -> None:
        if stream_base is not None:
            device = _stream(stream_base, "Stream(stream_base)").device
        if priority not in (1, 2):
            raise errors.bad("Stream(priority)", "1 or 2", priority)
        self.device: Place = device_of(device, "Stream(device)").place
        self.priority = priority

    def query(self) -> bool:
        """Wait until the device has finished and return True: XLA cannot be asked without waiting.

        Examples:
            >>> bireme.device.current_stream().query()
            True
        """
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Wait until the device has finished.

        Examples:
            >>> bireme.device.current_stream().synchronize()
        """
        finish(devices.parse(self.device))

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event at this point.

        Args:
            event: The event. Default: None, a new one.

        Returns:
            The event.

        Examples:
            >>> bireme.device.current_stream().record_event().query()
            True
        """
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let later work wait for an event.

        Args:
            event: The event.

        Examples:
            >>> stream = bireme.device.current_stream()
            >>> stream.wait_event(stream.record_event())
        """
        if not isinstance(event, Event):
            raise errors.bad("wait_event(event)", "an Event", event, kind=errors.ArgumentTypeError)
        event.synchronize()

    def wait_stream(self, stream: Stream) -> None:
        """Let later work wait for what was submitted to another stream.

        Args:
            stream: The other stream.

        Examples:
            >>> bireme.device.current_stream().wait_stream(bireme.device.Stream("cpu"))
        """
        _stream(stream, "wait_stream(stream)").synchronize()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"<Stream device={self.device}>"


def _stream(x: Any, where: str) -> Stream:
    if not isinstance(x, Stream):
        raise errors.bad(where, "a Stream", x, kind=errors.ArgumentTypeError)
    return x


class _Current(threading.local):
    stream: Stream | None = None


_current = _Current()


def current_stream(device: str | Place | int | None = None) -> Stream:
    """Return the stream that the current thread uses.

    Args:
        device: A name such as ``"gpu:0"``, a place, or the index of a GPU. Default: None, the current device.

    Returns:
        A ``Stream``.

    Examples:
        >>> bireme.device.current_stream()
        <Stream device=Place(cpu)>
    """
    found = device_of(device, "current_stream(device)")
    mine = _current.stream
    return mine if mine is not None and devices.parse(mine.device) is found else Stream(found.place)


def set_stream(stream: Stream) -> Stream:
    """Use a stream and its device in the current thread.

    Args:
        stream: The stream.

    Returns:
        The stream that was used before.

    Examples:
        >>> bireme.device.set_stream(bireme.device.Stream("cpu"))
        <Stream device=Place(cpu)>
    """
    before = current_stream()
    _current.stream = _stream(stream, "set_stream(stream)")
    devices.use(devices.parse(stream.device))
    return before


class stream_guard:
    """Context manager that uses a stream and its device.

    Args:
        stream: The stream; None changes nothing. Default: None.

    Examples:
        >>> with bireme.device.stream_guard(bireme.device.Stream("cpu")):
        ...     bireme.zeros([1]).place
        Place(cpu)
    """

    def __init__(self, stream: Stream | None = None) -> None:
        self.stream = stream if stream is None else _stream(stream, "stream_guard(stream)")
        self._before: list[tuple] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before.append((_current.stream, devices.use(devices.parse(self.stream.device))))
            _current.stream = self.stream

    def __exit__(self, *exc: Any) -> None:
        if self.stream is not None:
            _current.stream, device = self._before.pop()
            devices.use(device)


guard_functions(globals())
