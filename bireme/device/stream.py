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
from bireme.core.record.flush import flush
from bireme.core.xla_exec.xla import wait


def finish(device: devices.Device) -> None:
    """Run what is pending in this thread and return when the device is done."""
    flush()
    wait(device)


def device_of(spec: Any, where: str) -> devices.Device:
    """The Device that a user names: None is the current one, a number one of its kind or a GPU."""
    if spec is None:
        return devices.current()
    if isinstance(spec, int) and not isinstance(spec, bool):
        if spec < 0:
            raise errors.bad(where, "a device number of 0 or more", spec)
        kind = devices.current().kind
        spec = f"{'gpu' if kind == 'cpu' else kind}:{spec}"
    found = devices.parse(spec, where)
    found.ensure()
    return found


class Event:
    """A point in the work of a device; two of them with `enable_timing` tell how long what is between them took.

    >>> start, end = bireme.device.Event(enable_timing=True), bireme.device.Event(enable_timing=True)
    >>> start.record(); end.record(); start.elapsed_time(end) >= 0
    True
    """

    def __init__(self, device: Any = None, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise errors.bad("Event(interprocess)", "False: XLA shares no events between processes", interprocess)
        self.device = device_of(device, "Event(device)").place
        self.enable_timing = bool(enable_timing)
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Wait for the device and note the time.

        >>> bireme.device.Event().record()
        """
        finish(devices.parse(self.device if stream is None else _stream(stream, "record(stream)").device))
        self._time = time.perf_counter()

    def query(self) -> bool:
        """Whether everything before the event is done: always, once it is recorded.

        >>> bireme.device.Event().query()
        True
        """
        return True

    def synchronize(self) -> None:
        """Return when everything before the event is done.

        >>> bireme.device.Event().synchronize()
        """

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another.

        >>> a, b = bireme.device.Event(enable_timing=True), bireme.device.Event(enable_timing=True)
        >>> a.record(); b.record(); b.elapsed_time(a) <= 0
        True
        """
        if not isinstance(end_event, Event):
            raise errors.bad("elapsed_time(end_event)", "an Event", end_event, kind=TypeError)
        if self._time is None or end_event._time is None:
            raise errors.bad("elapsed_time(end_event)", "two recorded events", "one that is not", hint="call record() first", kind=RuntimeError)
        return (end_event._time - self._time) * 1e3

    def __repr__(self) -> str:
        return f"<Event device={self.device} recorded={self._time is not None}>"


class Stream:
    """The queue of a device: what is sent to it runs in order.

    >>> bireme.device.Stream("cpu").query()
    True
    """

    def __init__(self, device: Any = None, priority: int = 2, stream_base: Any = None) -> None:
        if stream_base is not None:
            device = _stream(stream_base, "Stream(stream_base)").device
        if priority not in (1, 2):
            raise errors.bad("Stream(priority)", "1 or 2", priority)
        self.device = device_of(device, "Stream(device)").place
        self.priority = priority

    def query(self) -> bool:
        """Whether the device is done; waits for it, since XLA cannot be asked.

        >>> bireme.device.current_stream().query()
        True
        """
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Return when the device is done.

        >>> bireme.device.current_stream().synchronize()
        """
        finish(devices.parse(self.device))

    def record_event(self, event: Event | None = None) -> Event:
        """An event at this point.

        >>> bireme.device.current_stream().record_event().query()
        True
        """
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What is sent from now on runs after the event.

        >>> stream = bireme.device.current_stream(); stream.wait_event(stream.record_event())
        """
        if not isinstance(event, Event):
            raise errors.bad("wait_event(event)", "an Event", event, kind=TypeError)
        event.synchronize()

    def wait_stream(self, stream: Stream) -> None:
        """What is sent from now on runs after what was sent to another stream.

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
        raise errors.bad(where, "a Stream", x, kind=TypeError)
    return x


class _Current(threading.local):
    stream: Stream | None = None


_current = _Current()


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread uses, or the one of another device.

    >>> bireme.device.current_stream()
    <Stream device=Place(cpu)>
    """
    found = device_of(device, "current_stream(device)")
    mine = _current.stream
    return mine if mine is not None and devices.parse(mine.device) is found else Stream(found)


def set_stream(stream: Stream) -> Stream:
    """Use a stream and its device in this thread from now on; returns the one used before.

    >>> bireme.device.set_stream(bireme.device.Stream("cpu"))
    <Stream device=Place(cpu)>
    """
    before = current_stream()
    _current.stream = _stream(stream, "set_stream(stream)")
    devices.use(devices.parse(stream.device))
    return before


class stream_guard:
    """Use a stream and its device inside a `with` block; None changes nothing.

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
