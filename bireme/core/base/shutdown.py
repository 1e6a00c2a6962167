"""The end of the process: programs that run come to their end, and threads still at work stay outside of jax.

Python ends threads that are no longer wanted (daemons) when they next ask for the interpreter. Inside jax's C++ that is
an abort of the whole process, whatever its result was. So a thread other than the main one says when it goes into jax;
at the end nobody new goes in, and the process waits for those who are there. Letting go of an array is a call into jax
too, without a word: at the end they are all held.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import threading
import time
from threading import get_ident
from typing import Any

import jax

from bireme.core.base.device import Fork, started

PATIENCE = 10.0  # seconds that the end waits for a call of another thread

_MAIN = threading.main_thread().ident
_inside: set[int] = set()
_closed: list[bool] = []
_held: list[jax.Array] = []


def within(call: Any, *args: Any) -> Any:
    """One call inside jax. A thread that comes to it when the process ends, ends too.

    It must not wait here: it may have locks, the engine's or the user's, that others take until the very end.
    """
    me = get_ident()
    if me == _MAIN or me in _inside:
        return call(*args)
    _inside.add(me)  # first, so that the end sees this thread or this thread sees the end
    try:
        if not _closed:
            return call(*args)
    finally:
        _inside.discard(me)
    raise SystemExit


@atexit.register
def _finish() -> None:
    """The process ends only when its programs have: XLA's threads must not run on while the library is taken down."""
    if Fork.child:
        return
    _closed.append(True)
    until = time.monotonic() + PATIENCE
    while _inside and time.monotonic() < until:
        time.sleep(0.001)
    if not started():
        return
    _held.extend(jax.live_arrays())
    if threading.active_count() > 1:
        time.sleep(0.01)  # for one that has just let go of an array
    for array in _held:
        # of one that another thread has just given away, or whose program failed
        with contextlib.suppress(RuntimeError):
            array.block_until_ready()
    gc.unfreeze()  # and jax's client goes as it would without us
