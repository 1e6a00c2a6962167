"""Threads that compile: made when there is work, gone when there is none, and never in the way of the process's end."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from bireme.core.base import signals

MOST = 12  # on 16 cores ResNet-50's pieces take 4.7 s, with six threads 5.6: the compiler has threads of its own too

_tasks: deque[tuple[Future, Callable[[], Any]]] = deque()
_later: deque[Callable[[], None]] = deque()
_lock = threading.Lock()
_running = [0]
FAILURES = (RuntimeError, MemoryError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, OSError)


def submit(task: Callable[[], Any], aside: bool = False) -> Future:
    """Let a thread do it; who wants the result waits for it. What was not begun when the program ends is dropped.

    `aside`: no thread is made for it where that would leave others less than half of the cores.
    """
    future: Future = Future()
    _add(_tasks, (future, task), min(MOST, max(1, processors() // 2) if aside else processors()))
    return future


def afterwards(task: Callable[[], None]) -> None:
    """Let a thread do it, one at a time, when nothing else is to be done; at the end of the program at the latest."""
    _add(_later, task, 1)


def _add(queue: deque, task: Any, most: int) -> None:
    with signals.held_back():  # who is counted as running has to run
        with _lock:
            queue.append(task)
            begin = _running[0] < most
            _running[0] += begin
        if begin:
            # not a daemon: Python waits for what it does at the end, so that it is never stopped inside of the compiler
            threading.Thread(target=_work, name="bireme-compile", daemon=False).start()


@functools.cache
def processors() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free() -> int:
    """How many cores these threads leave to others."""
    return processors() - _running[0]


def ending() -> bool:
    """Whether the program has ended, and waits for its threads."""
    return not threading.main_thread().is_alive()


def _work() -> None:
    while True:
        with _lock:
            last = not _tasks and _running[0] == 1  # who stays as the last one does what was put off
            if not _tasks and not (_later and last):
                _running[0] -= 1
                return
            future, task = _tasks.popleft() if _tasks else (None, _later.popleft())
        if future is None:
            with contextlib.suppress(*FAILURES):
                task()
        elif ending():
            future.cancel()
        elif future.set_running_or_notify_cancel():
            try:
                future.set_result(task())
            except FAILURES as e:  # told to whoever waits for it
                future.set_exception(e)
            finally:
                if not future.done():
                    future.set_exception(RuntimeError("a compile was given up"))
