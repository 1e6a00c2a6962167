"""Timers by name, for the parts of a training step."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bireme.core.base import errors
from bireme.device import synchronize
from bireme.distributed.fleet.utils.log_util import logger

__all__ = ["Timer", "Timers", "get_timers", "is_timer_initialized", "set_timers"]


class Timer:
    """Seconds between ``start`` and ``stop``, added up; both wait for the device.

    Args:
        name: Name of the timer.

    Examples:
        >>> from bireme.distributed.fleet.utils import timer_helper
        >>> timer = timer_helper.Timer("step")
        >>> timer.start()
        >>> timer.stop()
        >>> timer.elapsed() > 0
        True
    """

    def __init__(self, name: str) -> None:
        self.name, self.elapsed_, self.start_time, self.started_ = name, 0.0, 0.0, False

    def start(self) -> None:
        """Begin to count."""
        if self.started_:
            raise errors.bad("Timer.start()", "a timer that does not run", described=self.name)
        synchronize()
        self.start_time, self.started_ = time.perf_counter(), True

    def stop(self) -> None:
        """Stop, and add what was counted."""
        if not self.started_:
            raise errors.bad("Timer.stop()", "a timer that runs", described=self.name)
        synchronize()
        self.elapsed_ += time.perf_counter() - self.start_time
        self.started_ = False

    def reset(self) -> None:
        """Begin at zero."""
        self.elapsed_, self.start_time, self.started_ = 0.0, 0.0, False

    def elapsed(self, reset: bool = True) -> float:
        """Return the seconds so far; a timer that runs goes on.

        Args:
            reset: Begin at zero afterwards. Default: True.

        Returns:
            The seconds.
        """
        running = self.started_
        if running:
            self.stop()
        seconds = self.elapsed_
        if reset:
            self.reset()
        if running:
            self.start()
        return seconds


class Timers:
    """Timers by name: ``timers('step')`` makes or finds one.

    Examples:
        >>> from bireme.distributed.fleet.utils import timer_helper
        >>> timers = timer_helper.Timers()
        >>> timers("step") is timers("step")
        True
    """

    def __init__(self) -> None:
        self.timers: dict[str, Timer] = {}

    def __call__(self, name: str) -> Timer:
        return self.timers.setdefault(name, Timer(name))

    def log(self, names: Sequence[str], normalizer: float = 1.0, reset: bool = True) -> None:
        """Log the milliseconds of some timers.

        Args:
            names: Their names.
            normalizer: Divisor, as the number of steps. Default: 1.0.
            reset: Let them begin at zero afterwards. Default: True.
        """
        if normalizer <= 0:
            raise errors.bad("Timers.log(normalizer)", "a positive number", normalizer)
        known = [n for n in names if n in self.timers]
        shown = (f"{n}: {self.timers[n].elapsed(reset) * 1000 / normalizer:.2f}" for n in known)
        logger.info("time (ms) | " + " | ".join(shown))


_held: list[Timers] = []


def is_timer_initialized() -> bool:
    """Return whether ``set_timers`` was called.

    Returns:
        True or False.

    Examples:
        >>> from bireme.distributed.fleet.utils import timer_helper
        >>> isinstance(timer_helper.is_timer_initialized(), bool)
        True
    """
    return bool(_held)


def get_timers() -> Timers:
    """Return the timers of this process.

    Returns:
        The timers.

    Raises:
        AssertionError: If ``set_timers`` was not called.

    Examples:
        >>> from bireme.distributed.fleet.utils import timer_helper
        >>> done = timer_helper.is_timer_initialized() or timer_helper.set_timers()
        >>> timer_helper.get_timers()("step").name
        'step'
    """
    if not _held:
        raise errors.bad("get_timers()", "a call of set_timers() before", described="none")
    return _held[0]


def set_timers() -> None:
    """Make the timers of this process.

    Raises:
        AssertionError: If they were made before.

    Examples:
        >>> from bireme.distributed.fleet.utils import timer_helper
        >>> done = timer_helper.is_timer_initialized() or timer_helper.set_timers()
        >>> timer_helper.is_timer_initialized()
        True
    """
    if _held:
        raise errors.bad("set_timers()", "one call", described="a second one")
    _held.append(Timers())
