"""Processes that a signal has stopped: they are not gone, but whoever waits for them waits forever."""

from __future__ import annotations

from collections.abc import Iterable

PATIENCE = 5.0  # seconds that a process may be stopped


class Stopped:
    """How often each process was found stopped, in a row. Time in which nobody looked does not count: a job that is
    stopped and continued as a whole goes on.
    """

    def __init__(self, interval: float):
        self._most = PATIENCE / interval
        self._times: dict[int, int] = {}

    def look(self, processes: Iterable[int | None]) -> list[int]:
        """The process ids, among these, that have been stopped for too long."""
        self._times = {pid: self._times.get(pid, 0) + 1 for pid in processes if pid is not None and _is_stopped(pid)}
        return [pid for pid, times in self._times.items() if times > self._most]


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"  # a debugger's is "t"
    except OSError:  # it has ended, or this is no Linux
        return False
