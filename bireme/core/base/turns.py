"""Work in turns: a thread goes on with it only while its caller waits, and stops in the middle of it when told to.

For Python's work in another's code, as jax's, that takes many times as long as a step of a training loop may: beside
the loop it would hold up each of its calls for the interpreter's lock.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bireme.core.base import signals
from bireme.core.base.workers import FAILURES

_mine = threading.local()


class GivenUp(Exception):
    """Nobody waits for this work any more."""


class _Turn:
    """Whose turn it is: the caller's or the thread's.

    Each waits for its own by a call that is all C: an interrupt in the middle of a semaphore's Python leaves its lock
    in a state that is none.
    """

    def __init__(self) -> None:
        self._thread, self._caller = queue.SimpleQueue[None](), queue.SimpleQueue[None]()
        self.ended = self.given_up = False
        self.error: Exception | None = None

    def to_thread(self) -> None:
        self._thread.put(None)
        self._caller.get()

    def to_caller(self) -> None:
        self._caller.put(None)
        self._thread.get()
        if self.given_up:
            raise GivenUp

    def run(self, task: Callable[[], Any]) -> None:
        self._thread.get()
        _mine.turn = self
        self.error = RuntimeError("work in turns was given up")
        try:
            if not self.given_up:
                task()
            self.error = None
        except (*FAILURES, GivenUp) as e:
            self.error = e
        finally:
            self.ended = True
            self._caller.put(None)

    def give_up(self) -> None:
        self.given_up = True
        self._thread.put(None)


def pause() -> None:
    """Let the caller go on until it comes back, in a thread of `in_turns`; elsewhere nothing."""
    turn = getattr(_mine, "turn", None)
    if turn is not None:
        turn.to_caller()


SMALL = 16  # pieces of work that are too small for a turn each


def pause_at_times() -> None:
    """`pause` after each so many calls: for small pieces of work of which there are many."""
    if getattr(_mine, "turn", None) is not None:
        _mine.small = getattr(_mine, "small", 0) + 1
        if _mine.small % SMALL == 0:
            pause()


def in_turns(task: Callable[[], Any]) -> Iterator[None]:
    """Rounds of a task: each ends where it calls `pause`. What it raises is raised by the round in which it happens; who
    drops this gives it up.
    """
    turn = _Turn()
    try:
        with signals.held_back():  # an interrupt while a thread starts leaves it neither started nor not
            # a daemon: one that stands in a pause when the process ends is not waited for
            threading.Thread(target=turn.run, args=(task,), name="bireme-trace", daemon=True).start()
        turn.to_thread()
        while not turn.ended:
            yield
            turn.to_thread()
    finally:
        if not turn.ended:
            turn.give_up()
    if turn.error is not None:
        raise turn.error
