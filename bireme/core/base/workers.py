"""Threads that compile: made when there is work, gone when there is none, and never in the way of the process's end."""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

MOST = 6  # the compiler has locks of its own: on 16 cores five threads were faster than sixteen (12.0 against 14.3 s)

_tasks: deque[tuple[Future, Callable[[], Any]]] = deque()
_lock = threading.Lock()
_running = [0]
FAILURES = (RuntimeError, MemoryError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, OSError)


def submit(task: Callable[[], Any], aside: bool = False) -> Future:
    """Let a thread do it; who wants the result waits for it. What was not begun when the program ends is dropped.

    `aside`: no thread is made for it where that would leave others less than half of the cores.
    """
    future: Future = Future()
    with _lock:
        _tasks.append((future, task))
        begin = _running[0] < min(MOST, max(1, processors() // 2) if aside else processors())
        _running[0] += begin
    if begin:
        # not a daemon: Python waits for what it does at the end, so that it is never stopped inside of the compiler
        threading.Thread(target=_work, name="bireme-compile", daemon=False).start()
    return future


@functools.cache
def processors() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ending() -> bool:
    """Whether the program has ended, and waits for its threads."""
    return not threading.main_thread().is_alive()


def _work() -> None:
    while True:
        with _lock:
            if not _tasks:
                _running[0] -= 1
                return
            future, task = _tasks.popleft()
        if ending():
            future.cancel()
        elif future.set_running_or_notify_cancel():
            try:
                future.set_result(task())
            except FAILURES as e:  # told to whoever waits for it
                future.set_exception(e)
            finally:
                if not future.done():
                    future.set_exception(RuntimeError("a compile was given up"))
