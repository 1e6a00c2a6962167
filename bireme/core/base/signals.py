"""Signals that wait while something must not be cut in the middle."""

from __future__ import annotations

import signal
import threading
from typing import Any

# Those that programs raise from: Ctrl-C, the alarms of test runners and notebooks, the notice of a scheduler.
_NAMES = ("SIGINT", "SIGALRM", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_NUMBERS = tuple([getattr(signal, name) for name in _NAMES if hasattr(signal, name)])


class held_back:
    """Context manager in which no handler of a signal raises: they run at its end. Other threads than the main one run
    none anyway.
    """

    def __init__(self) -> None:
        self._handlers: list[tuple[int, Any]] = []
        self._came: dict[int, Any] = {}  # the first of each kind, with its frame

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            for number in _NUMBERS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers.append((number, handler))
                    signal.signal(number, self._note)
        except BaseException:  # the handler of one that is not held back yet
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            while self._handlers:
                signal.signal(*self._handlers[-1])
                self._handlers.pop()
        except BaseException:  # the handler of one that is back: the others come back all the same
            self.__exit__()
            raise
        self._deliver()

    def _note(self, number: int, frame: Any) -> None:
        self._came.setdefault(number, frame)

    def _deliver(self) -> None:
        if self._came:
            number = next(iter(self._came))
            frame, handler = self._came.pop(number), signal.getsignal(number)
            try:
                if callable(handler):  # not raised anew: a wakeup fd has been told of it
                    handler(number, frame)
            finally:
                self._deliver()
