"""Requests: what was asked of an engine, and the tokens that come of it, handed from its thread to the caller's."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bireme.llm.options import SamplingOptions


@dataclass(frozen=True)
class Event:
    """One token of a request, or its end.

    Args:
        token: The token, or None where only text was left to tell.
        text: The piece of text that is certain by now: it may be empty while a character is incomplete or a stop string
            may have begun, and then comes with a later event.
        logprob: Logarithm of the token's probability, if ``logprobs`` was asked for.
        alternatives: The most likely tokens with theirs, as pairs.
        finish_reason: ``'stop'``, ``'length'`` or ``'cancelled'`` in the last event, else None.

    Examples:
        >>> bireme.llm.Event(7, "a").finish_reason is None
        True
    """

    token: int | None
    text: str = ""
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()
    finish_reason: str | None = None


@dataclass(frozen=True)
class Result:
    """All of a request.

    Args:
        prompt: Tokens of the prompt.
        tokens: Tokens that were generated; a stop token is among them, as it was generated.
        text: Their text, without stop strings and special tokens; empty without a tokenizer.
        finish_reason: ``'stop'``, ``'length'`` or ``'cancelled'``.
        logprobs: Logarithm of the probability of each token, if asked for.
        alternatives: The most likely tokens of each step with theirs, if asked for.
        cached: Tokens of the prompt that were found in the cache.

    Examples:
        >>> bireme.llm.Result((1, 2), (3,), "c", "length").tokens
        (3,)
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    text: str
    finish_reason: str
    logprobs: tuple[float, ...] = ()
    alternatives: tuple[tuple[tuple[int, float], ...], ...] = ()
    cached: int = 0


class Request:
    """A request that an engine has taken on; made by ``Engine.submit``. Its methods may be called from any thread.

    Args:
        prompt: Tokens of the prompt.
        options: The options.
        wake: Function that wakes the engine.

    Attributes:
        finish_reason: None while it runs; then ``'stop'``, ``'length'`` or ``'cancelled'``.

    Examples:
        >>> config = bireme.llm.Configuration(architecture="llama", vocabulary=64, width=32, layers=1, heads=4, inner=48)
        >>> with bireme.llm.Engine(bireme.llm.Network(config), max_batch=2, max_length=32) as engine:
        ...     request = engine.submit([1, 2, 3], bireme.llm.SamplingOptions(max_tokens=2))
        ...     [event.finish_reason for event in request.tokens()]
        [None, 'length']
    """

    def __init__(self, prompt: tuple[int, ...], options: SamplingOptions, wake: Callable[[], None]):
        self.prompt, self.options = prompt, options
        self.finish_reason: str | None = None
        self.cancelled = False
        self.cached = 0
        self._wake = wake
        self._events: queue.SimpleQueue[Event | BaseException] = queue.SimpleQueue()
        self._told: list[Event] = []
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._error: BaseException | None = None

    # ------------------------------------------------------------ the caller's side

    def tokens(self, timeout: float | None = None) -> Iterator[Event]:
        """Events of the request as they come; to be gone through once. The last one has a ``finish_reason``.

        Args:
            timeout: Seconds to wait for each event. Default: None, as long as it takes.

        Returns:
            Iterator of events.

        Raises:
            TimeoutError: If an event did not come in time; the request goes on.
            RuntimeError: If the engine failed.
        """
        while True:
            try:
                event = self._events.get(timeout=timeout)
            except queue.Empty:
                raise TimeoutError(f"no token within {timeout:g} s") from None
            if isinstance(event, BaseException):
                raise event
            yield event
            if event.finish_reason is not None:
                return

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the end of the request and return all of it.

        Args:
            timeout: Seconds to wait. Default: None, as long as it takes.

        Returns:
            The result.

        Raises:
            TimeoutError: If it did not end in time; the request goes on.
            RuntimeError: If the engine failed.
        """
        if not self._done.wait(timeout):
            raise TimeoutError(f"the request did not end within {timeout:g} s")
        if self._error is not None:
            raise self._error
        told = [e for e in self._told if e.token is not None]
        wanted = self.options.logprobs is not None
        return Result(
            self.prompt,
            tuple(e.token for e in told if e.token is not None),
            "".join(e.text for e in self._told),
            self.finish_reason or "",
            tuple(e.logprob for e in told if e.logprob is not None) if wanted else (),
            tuple(e.alternatives for e in told) if wanted else (),
            self.cached,
        )

    def cancel(self) -> None:
        """End the request soon; it then has the finish reason ``'cancelled'``, unless it has ended before."""
        self.cancelled = True
        self._wake()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._done.is_set()

    def on_event(self, listener: Callable[[], None]) -> None:
        """Have a function called, without arguments and in the engine's thread, whenever an event has come: an event
        loop passes ``lambda: loop.call_soon_threadsafe(...)``. It is called once at once.

        Args:
            listener: The function; it must not wait.
        """
        with self._lock:
            self._listeners.append(listener)
        listener()

    def ready(self) -> list[Event]:
        """Return the events that have come and were not taken yet, without waiting.

        Returns:
            List of events, perhaps empty.

        Raises:
            RuntimeError: If the engine failed.
        """
        found: list[Event] = []
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return found
            if isinstance(event, BaseException):
                raise event
            found.append(event)

    # ------------------------------------------------------------ the engine's side

    def tell(self, event: Event) -> None:
        """Hand an event to the caller; the engine calls this.

        Args:
            event: The event.
        """
        self._told.append(event)
        if event.finish_reason is not None:
            self.finish_reason = event.finish_reason
        self._events.put(event)
        self._notify(event.finish_reason is not None)

    def fail(self, error: BaseException) -> None:
        """End the request with an error; the engine calls this.

        Args:
            error: The error.
        """
        self._error = error
        self._events.put(error)
        self._notify(True)

    def _notify(self, last: bool) -> None:
        if last:
            self._done.set()
        with self._lock:
            listeners: list[Any] = list(self._listeners)
        for listener in listeners:
            listener()
