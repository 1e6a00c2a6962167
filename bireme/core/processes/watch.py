"""The thread of a process that watches its calls: it gives signs of life, says who is waited for, and ends the process
where a call can never end. See decisions/053.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import jax

from bireme.core.base import errors
from bireme.core.processes import quiet

LOOK = 1.0  # seconds between two looks at the others, and between two signs of life
PATIENCE = 2.0  # seconds in a call after which a process says where it waits
SLOW = 8.0  # seconds in a call after which it names whom it waits for
SILENT = 15.0  # seconds without a sign of life of a process that is waited for: its machine is lost, or it is stopped
FAREWELL = 2.0  # seconds between a process' last words and its end
CERTAIN = 3  # looks in a row that have to show the same before a process is ended
STARTER = "BIREME_STARTER"  # process id and file descriptor: the end of a pipe that the launcher's end closes
STACKS = signal.SIGUSR2  # the signal at which a process prints the Python stacks of its threads


class Wait:
    """A call in which this process waits for others: which it is in all processes, its text, and whom it waits for."""

    def __init__(self, key: str, text: str, ranks: Sequence[int], timeout: float):
        self.key, self.text, self.ranks, self.timeout = key, text, ranks, timeout
        self.since, self.notice = time.monotonic(), SLOW

    def told(self) -> list:
        return [self.key, self.text, list(self.ranks)]


def deadlocked(waits: dict[int, list]) -> list[int]:
    """The ranks that wait for each other in different calls. One waits forever if somebody it needs does so elsewhere."""
    stuck = set(waits)
    while True:
        free = {r for r in stuck if not any(m in stuck and waits[m][0] != waits[r][0] for m in waits[r][2])}
        if not free:
            return sorted(stuck)
        stuck -= free


class Signs:
    """Signs of life that processes tell, a number that grows and the line they are at, and when each was new here."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, float]] = {}
        self.lines: dict[int, str] = {}

    def look(self, told: dict[int, Any], ranks: Sequence[int]) -> None:
        now = time.monotonic()
        for rank in ranks:
            number, self.lines[rank] = told.get(rank, (0, ""))  # 0: it was stopped before its first one
            if self._seen.get(rank, (None, now))[0] != number:
                self._seen[rank] = number, now

    def silent(self, ranks: Sequence[int], seconds: float) -> list[int]:
        now = time.monotonic()
        return [rank for rank in ranks if now - self._seen[rank][1] > seconds]


class Watcher:
    """What watches the calls of a connection, in a thread of its own."""

    def __init__(self, connection: Any):
        self.connection, self.rank = connection, connection.rank
        self._waits: Wait | None = None
        self._signs, self._left, self._number = Signs(), threading.Event(), 0
        self._main = threading.main_thread()
        self._shown: Wait | None = None  # the call of which the others know
        self._before, self._times = "", 0
        if hasattr(faulthandler, "register") and signal.getsignal(STACKS) is signal.SIG_DFL:
            faulthandler.register(STACKS, all_threads=True)
        self._thread = threading.Thread(target=self._watch, name="bireme-processes", daemon=True)
        self._thread.start()
        if (starter := _starter()) is not None:
            threading.Thread(target=self._outlive, args=(starter,), name="bireme-starter", daemon=True).start()

    @property
    def waits(self) -> Wait | None:
        """The call in which this process waits."""
        return self._waits

    @waits.setter
    def waits(self, wait: Wait | None) -> None:
        self._waits = wait
        if wait is None:
            quiet.resume()
        else:
            quiet.hush()  # processes that meet for the first time are connected then

    def leave(self, seconds: float) -> None:
        """Stop watching: the process ends."""
        self._left.set()
        self._thread.join(seconds)

    def here(self, wait: Wait) -> str:
        return f"{wait.text} in {self.connection.name(self.rank)}, among ranks {list(wait.ranks)}"

    def _outlive(self, starter: int) -> None:
        """Wait for the end of who started this process, and end too. jax's client, which loses the service by that, would
        abort the process a moment later without a word about it.
        """
        select.select([starter], [], [])
        if self._left.is_set():
            return
        wait = self.waits
        where = f"rank {self.rank}, at {self._line()}" if wait is None else self.here(wait)
        _say(f"{where}: the process that started this one is gone")
        os._exit(1)

    def _watch(self) -> None:
        while not self._left.wait(LOOK):
            with contextlib.suppress(
                jax.errors.JaxRuntimeError
            ):  # the service does not answer: the next look shows more
                self._look()

    def _line(self) -> str:
        """The line of the user that the main thread is at."""
        frame = sys._current_frames().get(self._main.ident or 0)
        return errors.location(errors.position(frame)) if frame is not None else "<unknown>"

    def _look(self) -> None:
        wait, self._number = self.waits, self._number + 1
        self.connection.tell(f"alive/{self.rank}", [self._number, self._line()])
        if wait is not self._shown and self._shown is not None:
            self.connection.client.key_value_delete(f"waits/{self.rank}")
            self._shown = None
        if wait is None or time.monotonic() - wait.since < PATIENCE:
            return
        if self._shown is not wait:
            self.connection.tell(f"waits/{self.rank}", wait.told())
            self._shown = wait
        reason = self._hopeless(wait)
        # a look at others is never quite up to date: what is true several times in a row is true
        self._times = self._times + 1 if reason and reason == self._before else 0
        self._before = reason
        if self._times >= CERTAIN and self.waits is wait:
            self._end(f"{self.here(wait)}: {reason}")

    def _hopeless(self, wait: Wait) -> str:
        """Why a call can never end; empty if it can."""
        name, waits = self.connection.name, self.connection.told("waits/")
        stuck = deadlocked(waits)
        others = [r for r in stuck if r != self.rank and waits[r][0] != wait.told()[0]]
        if self.rank in stuck and others:
            return "; ".join(f"{name(r)} waits in {waits[r][1]}" for r in others)
        gone = {r: how for r, (how, _) in self.connection.told("ended/").items() if r in wait.ranks}
        if gone:
            return "; ".join(f"{name(r)} is gone ({how})" for r, how in sorted(gone.items()))
        others = [r for r in wait.ranks if r != self.rank]
        self._signs.look(self.connection.told("alive/"), others)
        silent = self._signs.silent(others, SILENT)
        if silent:
            return "; ".join(f"{name(r)} has given no sign of life for {SILENT:.0f} s" for r in silent)
        return self._late(wait, [r for r in others if waits.get(r, [None])[0] != wait.told()[0]])

    def _late(self, wait: Wait, missing: list[int]) -> str:
        """Say now and then whom a call waits for; the reason to end it once its time is over."""
        waited = time.monotonic() - wait.since
        who = "; ".join(
            f"{self.connection.name(r)}, which is at {self._signs.lines[r] or 'its start'}" for r in missing
        )
        if waited > wait.timeout:
            return f"after {wait.timeout:.0f} s {who or 'some process'} did not come"
        if missing and waited > wait.notice:
            _say(f"{self.here(wait)}: has waited {waited:.0f} s for {who}")
            wait.notice = 4 * waited
        return ""

    def _end(self, message: str) -> None:
        """End the process from this thread: the main one is in a call that never comes back, and that nothing interrupts."""
        _say(message)
        faulthandler.dump_traceback(file=sys.__stderr__ or 2, all_threads=True)
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # the service is gone, and with it those who would listen
            self.connection.ended(self.rank, message, cause=False)
            time.sleep(FAREWELL)  # others in the same state come to see it themselves
        os._exit(1)


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def _starter() -> int | None:
    """A file descriptor that can be read from once the process that started this one is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        return parent.sentinel
    process, _, descriptor = os.environ.get(STARTER, "").partition(":")
    return int(descriptor) if process == str(os.getppid()) else None
