"""The engine: requests join and leave a batch at every step, in a thread of its own.

Each step is dispatched before the last one's tokens are read, so that the host's work and the device's overlap. What a
request gets depends on its own tokens, options and seed alone: every token's keys and values are made by the same program,
those of a prompt chunk by chunk, those of the text by the decode step, also when they are made again.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.llm import programs
from bireme.llm.model import LanguageModel
from bireme.llm.network import Network
from bireme.llm.options import SamplingOptions
from bireme.llm.pages import Chunk, Pages, chunks, keys
from bireme.llm.programs import Programs, read
from bireme.llm.requests import Event, Request, Result
from bireme.llm.tokenizer import Stops, Stream, Tokenizer
from bireme.ops.fused.pages import BLOCK
from bireme.ops.random.tokens import IN_PROMPT

CHUNK_ON_CPU, CHUNK = 64, 256  # tokens of a prompt that one program takes
LEAST = 16
BETWEEN = 512  # tokens of prompts that are taken between two steps, about
NEUTRAL = (0, 1, 0, 1, 0, 0)  # settings of a row that takes the most likely token
MOST_ROWS, LONGEST = 4096, 2**22


@dataclass(eq=False)
class _Row:
    """A request in the batch."""

    request: Request
    tokens: list[int]  # of the prompt and of the text, as far as they were read
    limit: int  # how many there can be
    seed: int
    stream: Stream | None
    stops: Stops
    order: int  # of arrival
    ends: frozenset[int] = frozenset()
    pages: list[int] = field(default_factory=list)
    left: deque[tuple[Chunk, list[bytes]]] = field(default_factory=deque)  # chunks to be taken, keys of their pages
    fed: int = 0  # tokens whose keys and values are there, or on the way
    slot: int = -1

    @property
    def prompt(self) -> int:
        return len(self.request.prompt)


@dataclass
class _Pending:
    """A step whose tokens were not read yet."""

    rows: list[tuple[_Row, int, int]]  # with slot and place
    arrays: tuple


class Engine:
    """Runs a language model for many requests at once.

    Requests share one decode step of ``max_batch`` rows. Keys and values are kept in pages that a request takes as its
    text grows; prompts that begin alike share pages. Where pages run out, the request that came last makes room and is
    continued later.

    Args:
        model: A ``LanguageModel``, or a network.
        tokenizer: Text to tokens and back. Default: None, that of the model; without one, prompts are tokens.
        max_batch: Rows of a step: requests that run together. Default: 16.
        max_length: Tokens of a prompt and its text together, at most. Default: 2048, or what the model knows.
        page_size: Tokens of a page, a power of two; None gives each row one page for all of its tokens, so that the
            cache is allocated for ``max_batch`` texts of ``max_length``. Default: 16.
        cache_bytes: Size of the cache. Default: None, enough for ``max_batch`` texts of ``max_length``.
        dtype: Data type of the cache. Default: None, that of the model.
        seed: Where seeds of requests that name none begin. Default: 0.

    Raises:
        ValueError: If a number is out of its range, or the cache is too small for one request.

    Examples:
        >>> config = bireme.llm.Configuration(architecture="llama", vocabulary=64, width=32, layers=1, heads=4, inner=48)
        >>> with bireme.llm.Engine(bireme.llm.Network(config), max_batch=2, max_length=32) as engine:
        ...     results = engine.generate([[1, 2, 3], [4, 5]], bireme.llm.SamplingOptions(max_tokens=4))
        >>> [len(result.tokens) for result in results]
        [4, 4]
    """

    def __init__(
        self,
        model: LanguageModel | Network,
        tokenizer: Tokenizer | None = None,
        *,
        max_batch: int = 16,
        max_length: int = 2048,
        page_size: int | None = 16,
        cache_bytes: int | None = None,
        dtype: Any = None,
        seed: int = 0,
    ):
        network = model.network if isinstance(model, LanguageModel) else model
        if not isinstance(network, Network):
            raise errors.bad("Engine(model)", "a LanguageModel or a Network", model, kind=errors.ArgumentTypeError)
        given = model.tokenizer if tokenizer is None and isinstance(model, LanguageModel) else tokenizer
        self.config, self.tokenizer, self.max_batch = network.config, given, _integer("max_batch", max_batch, MOST_ROWS)
        self.max_length = min(_integer("max_length", max_length, LONGEST), self.config.positions)
        if self.max_length < 2:
            raise errors.bad("Engine(max_length)", "at least 2 tokens, one of a prompt and one more", max_length)
        assert network.embedding.weight is not None
        kind = network.embedding.weight.dtype if dtype is None else dtypes.of(dtype, "Engine(dtype)")
        if not kind.is_floating:
            raise errors.bad("Engine(dtype)", "a floating-point dtype", dtype)
        self.page_size = self._page(page_size)
        self._pages = Pages(self._count(cache_bytes, kind))
        self._chunk = CHUNK_ON_CPU if devices.current().is_cpu else CHUNK
        network.eval()
        self._programs = Programs(network, self.max_batch, self.max_length, self._pages.count, self.page_size, kind)
        self._device = devices.current()
        self._seed, self._number = _integer("seed", seed, 2**63, 0), 0
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._waiting: deque[_Row] = deque()
        self._slots: list[_Row | None] = [None] * self.max_batch
        self._pending: _Pending | None = None
        self._settings = np.tile(np.asarray(NEUTRAL, np.float32), (self.max_batch, 1))
        self._counted = dict.fromkeys(
            ("requests", "finished", "prompt_tokens", "tokens", "steps", "prefix_hits", "preemptions"), 0
        )

    def _page(self, page_size: int | None) -> int:
        if page_size is None:
            return -(-self.max_length // BLOCK) * BLOCK
        size = _integer("page_size", page_size, 2**16)
        if size & (size - 1):
            raise errors.bad("Engine(page_size)", "a power of two, or None", page_size)
        return size

    def _count(self, cache_bytes: int | None, kind: Any) -> int:
        """Pages of the cache."""
        config = self.config
        one = 2 * config.layers * config.shared_heads * config.head_width * kind.np.itemsize * self.page_size
        text = -(-self.max_length // self.page_size)
        if cache_bytes is None:
            return text * self.max_batch
        count = _integer("cache_bytes", cache_bytes, 2**50) // one
        if count < 2 or (self.page_size >= self.max_length and count < self.max_batch):
            raise errors.bad("Engine(cache_bytes)", f"at least {2 * one}, two pages of the cache", cache_bytes)
        return min(count, text * self.max_batch)

    # ------------------------------------------------------------ requests, from any thread

    def submit(self, prompt: str | Sequence[int], options: SamplingOptions | None = None) -> Request:
        """Take on a request; it runs in the engine's thread, which is started if it is not running.

        Args:
            prompt: A text, or its tokens.
            options: How tokens are chosen and when the text ends. Default: None, ``SamplingOptions()``.

        Returns:
            The request, whose ``tokens()`` or ``result()`` wait for what comes.

        Raises:
            ValueError: If the prompt is empty, too long, or has tokens that the model does not know.
            RuntimeError: If the engine is closed.
        """
        options = SamplingOptions() if options is None else options
        if not isinstance(options, SamplingOptions):
            raise errors.bad("Engine.submit(options)", "SamplingOptions", options, kind=errors.ArgumentTypeError)
        row = self._row(self._tokens(prompt, options), options)
        with self._lock:
            if self._closing:
                raise errors.failure("Engine.submit: the engine is closed", kind=RuntimeError)
            row.order = self._number
            self._number += 1
            row.seed = (self._seed + row.order) % 2**64 if options.seed is None else options.seed
            self._counted["requests"] += 1
            self._counted["prompt_tokens"] += row.prompt
            self._waiting.append(row)
            self._start()
            self._lock.notify_all()
        return row.request

    def _tokens(self, prompt: str | Sequence[int], options: SamplingOptions) -> tuple[int, ...]:
        where = "Engine.submit(prompt)"
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise errors.bad(where, "tokens, since there is no tokenizer", prompt)
            prompt = self.tokenizer.encode(prompt)
        elif not isinstance(prompt, (list, tuple, np.ndarray)):
            raise errors.bad(where, "a str or a list of tokens", prompt, kind=errors.ArgumentTypeError)
        if options.stop and self.tokenizer is None:
            raise errors.bad("SamplingOptions(stop)", "no strings, since there is no tokenizer", options.stop)
        if not 1 <= len(prompt) < self.max_length:
            raise errors.bad(where, f"1 to {self.max_length - 1} tokens", described=f"{len(prompt)} tokens")
        most = self.config.vocabulary
        for token in prompt:
            if isinstance(token, bool) or not isinstance(token, (int, np.integer)) or not 0 <= token < most:
                raise errors.bad(where, f"tokens in [0, {most - 1}]", token)
        if len(prompt) + 1 > self._pages.count * self.page_size:
            got = f"{len(prompt)} tokens"
            raise errors.bad(where, f"a prompt that the cache of {self._pages.count} pages holds", described=got)
        return tuple(int(token) for token in prompt)

    def _row(self, prompt: tuple[int, ...], options: SamplingOptions) -> _Row:
        request = Request(prompt, options, self._wake)
        # the last token of a text is chosen, and never fed
        limit = min(len(prompt) + options.max_tokens, self.max_length, self._pages.count * self.page_size + 1)
        stream = None if self.tokenizer is None else Stream(self.tokenizer)
        ends = frozenset(options.stop_ids) | (frozenset() if options.ignore_eos else frozenset(self.config.end))
        return _Row(request, list(prompt), limit, 0, stream, Stops(options.stop), 0, ends)

    def _wake(self) -> None:
        with self._lock:
            self._lock.notify_all()

    def generate(
        self, prompts: Sequence[str | Sequence[int]], options: SamplingOptions | Sequence[SamplingOptions] | None = None
    ) -> list[Result]:
        """Run some prompts to their end.

        Args:
            prompts: Texts, or lists of tokens.
            options: Options for all of them, or one for each. Default: None, ``SamplingOptions()``.

        Returns:
            One result for each prompt.

        Raises:
            ValueError: If a prompt is refused.
        """
        many: list[Any] = list(options) if isinstance(options, (list, tuple)) else [options] * len(prompts)
        if len(many) != len(prompts):
            raise errors.bad("Engine.generate(options)", f"{len(prompts)} of them, one for each prompt", len(many))
        requests: list[Request] = []
        try:
            for prompt, one in zip(prompts, many, strict=True):
                requests.append(self.submit(prompt, one))
            return [request.result() for request in requests]
        finally:
            for request in requests:
                if not request.done:
                    request.cancel()

    def statistics(self) -> dict[str, int]:
        """Return what the engine is doing and has done.

        Returns:
            Dict with ``running`` and ``waiting`` requests; ``pages_used`` and ``pages_free`` of the cache; and sums
            since it was made: ``requests``, ``finished``, ``prompt_tokens``, ``tokens`` (generated), ``steps``,
            ``prefix_hits`` (tokens of prompts that were found in the cache), ``preemptions`` and ``programs``.
        """
        with self._lock:
            running = sum(row is not None for row in self._slots)
            return {
                "running": running,
                "waiting": len(self._waiting),
                "pages_used": self._pages.count - self._pages.free,
                "pages_free": self._pages.free,
                "programs": self._programs.compiled,
                **self._counted,
            }

    # ------------------------------------------------------------ the thread

    def start(self) -> Engine:
        """Start the engine's thread, if it is not running.

        Returns:
            The engine.
        """
        with self._lock:
            if self._closing:
                raise errors.failure("Engine.start: the engine is closed", kind=RuntimeError)
            self._start()
        return self

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="bireme.llm", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the engine: requests that run are cancelled, and no more are taken."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._end(None)

    def __enter__(self) -> Engine:
        return self.start()

    def __exit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _main(self) -> None:
        devices.use(self._device)
        try:
            while True:
                with self._lock:
                    while not (self._closing or self._waiting or self._pending or any(self._slots)):
                        self._lock.wait()
                    if self._closing:
                        return
                self._turn()
        finally:
            self._end(sys.exception())

    def _end(self, error: BaseException | None) -> None:
        """Tell all that are left that there is no more."""
        with self._lock:
            self._closing = True
            rows = [row for row in (*self._slots, *self._waiting) if row is not None]
            self._slots, self._pending = [None] * self.max_batch, None
            self._waiting.clear()
        for row in rows:
            if error is None:
                row.request.tell(Event(None, finish_reason="cancelled"))
            else:
                failed = errors.failure(f"Engine: the engine failed with {error}", kind=RuntimeError)
                failed.__cause__ = error
                row.request.fail(failed)

    def _turn(self) -> None:
        """Whatever is to be done once: who was cancelled leaves, who waits joins, prompts go on, and a step."""
        self._drop_cancelled()
        self._admit()
        self._fill()
        step = self._dispatch()
        before, self._pending = self._pending, step
        if before is not None:
            self._finish(before)

    def _drop_cancelled(self) -> None:
        with self._lock:
            gone = [row for row in self._waiting if row.request.cancelled]
            for row in gone:
                self._waiting.remove(row)
        gone += [row for row in self._slots if row is not None and row.request.cancelled]
        for row in gone:
            self._close(row, "cancelled", self._flush(row)[0])

    # ------------------------------------------------------------ joining

    def _admit(self) -> None:
        """Rows that wait join while there is a slot, and pages for their prompt."""
        while True:
            with self._lock:
                if not self._waiting or all(self._slots):
                    return
                row = self._waiting[0]
            parts = chunks(row.prompt - 1, self._chunk, min(LEAST, self._chunk))
            named = list(zip(parts, keys(row.request.prompt, parts, self.page_size), strict=True))
            held: list[int] = []
            skipped = 0
            for chunk, names in named:
                found = self._pages.find(names) if len(names) * self.page_size == chunk.count else None
                if found is None:
                    break
                held += found
                skipped += 1
            row.pages, row.fed = held, len(held) * self.page_size
            if not self._grow(row, row.prompt):
                self._let_go(row)
                return
            row.left = deque(named[skipped:])
            with self._lock:
                self._waiting.popleft()
                row.slot = self._slots.index(None)
                self._slots[row.slot] = row
                self._counted["prefix_hits"] += row.fed
            row.request.cached = max(row.request.cached, row.fed)
            self._describe(row)

    def _grow(self, row: _Row, tokens: int) -> bool:
        """Pages for so many tokens; whether there were enough."""
        missing = -(-tokens // self.page_size) - len(row.pages)
        if missing > self._pages.free:
            return False
        for _ in range(missing):
            page = self._pages.take()
            assert page is not None
            row.pages.append(page)
        return True

    def _let_go(self, row: _Row) -> None:
        for page in row.pages:
            self._pages.give(page)
        row.pages, row.fed = [], 0

    def _describe(self, row: _Row) -> None:
        """Settings of a row, and counts of the tokens in its prompt."""
        o = row.request.options
        penalties = o.repetition_penalty, o.presence_penalty, o.frequency_penalty
        self._set(row.slot, (o.temperature, o.top_p, o.min_p, *penalties))
        if o.penalized:
            counts = np.zeros(self.config.vocabulary, np.int32)
            counts[list(row.request.prompt)] = IN_PROMPT
            self._programs.count(row.slot, counts)

    def _set(self, slot: int, settings: tuple[float, ...]) -> None:
        self._settings = self._settings.copy()  # a step that is on its way may still read the other
        self._settings[slot] = settings

    # ------------------------------------------------------------ prompts

    def _fill(self) -> None:
        """Chunks of prompts, the oldest first; some, where texts wait for their next token."""
        rows = sorted((row for row in self._slots if row is not None and row.left), key=lambda row: row.order)
        budget = BETWEEN if any(row is not None and not row.left for row in self._slots) else None
        for row in rows:
            while row.left and (budget is None or budget > 0):
                chunk, names = row.left.popleft()
                described = np.zeros(chunk.size + 2 + self._programs.width, np.int32)
                described[: chunk.count] = row.tokens[chunk.start : chunk.start + chunk.count]
                described[chunk.size : chunk.size + 2] = chunk.start, chunk.count
                described[chunk.size + 2 : chunk.size + 2 + len(row.pages)] = row.pages
                self._programs.fill(chunk.size, described)
                row.fed = chunk.start + chunk.count
                for page, key in zip(row.pages[chunk.start // self.page_size :], names):
                    self._pages.publish(page, key)
                budget = None if budget is None else budget - chunk.size

    # ------------------------------------------------------------ steps

    def _ready(self) -> list[_Row]:
        """Rows that have a token to be fed."""
        return [row for row in self._slots if row is not None and not row.left and row.fed < row.limit - 1]

    def _dispatch(self) -> _Pending | None:
        rows = self._ready()
        if any(len(row.pages) * self.page_size <= row.fed for row in rows):
            self._make_room()
            rows = self._ready()
        if not rows:
            return None
        width = self._programs.width_of(max(len(row.pages) for row in rows))
        described = np.zeros((self.max_batch, programs.TABLE + width), np.int32)
        described[:, programs.PLACE] = -1
        for row in rows:
            at, o = described[row.slot], row.request.options
            at[programs.TOKEN] = row.tokens[row.fed] if row.fed < len(row.tokens) else -1
            at[programs.PLACE] = row.fed
            at[programs.SEED : programs.SEED + 2] = np.asarray([row.seed], np.uint64).view(np.int32)
            at[programs.DRAW] = row.fed + 1 - row.prompt
            at[programs.TOP_K], at[programs.COUNTS] = o.top_k, 1
            at[programs.TABLE : programs.TABLE + len(row.pages)] = row.pages
        drawn = any(row.request.options.drawn for row in rows)
        tops = any(row.request.options.logprobs for row in rows)
        arrays = self._programs.step(described, self._settings if drawn else None, bool(tops))
        pending = _Pending([(row, row.slot, row.fed) for row in rows], arrays)
        for row in rows:
            row.fed += 1
        self._counted["steps"] += 1
        return pending

    def _make_room(self) -> None:
        """A page for every row that needs one: rows that came last leave the batch, to begin again later."""
        if self._pending is not None:  # what was read may have ended rows
            before, self._pending = self._pending, None
            self._finish(before)
        for row in sorted(self._ready(), key=lambda row: row.order):
            while row.slot >= 0 and not self._grow(row, row.fed + 1):
                last = max((r for r in self._slots if r is not None), key=lambda r: r.order)
                with self._lock:
                    self._slots[last.slot] = None
                    last.slot = -1
                    self._waiting.appendleft(last)
                    self._counted["preemptions"] += 1
                last.left.clear()
                self._let_go(last)

    def _finish(self, pending: _Pending) -> None:
        """Read the tokens of a step and tell them."""
        tokens, logprobs, *found = [read(array) for array in pending.arrays]
        self._counted["tokens"] += len(pending.rows)
        for row, slot, place in pending.rows:
            if row.slot != slot or place + 1 < len(row.tokens):  # gone meanwhile, or known from before
                self._counted["tokens"] -= 1
                continue
            token, wanted = int(tokens[slot]), row.request.options.logprobs
            alternatives: tuple[tuple[int, float], ...] = ()
            if wanted:
                pairs = zip(found[0][slot, :wanted].tolist(), found[1][slot, :wanted].tolist(), strict=True)
                alternatives = tuple(pairs)
            self._tell(row, token, None if wanted is None else float(logprobs[slot]), alternatives)

    def _tell(self, row: _Row, token: int, logprob: float | None, alternatives: tuple[tuple[int, float], ...]) -> None:
        row.tokens.append(token)
        reason, text = None, ""
        if token in row.ends:
            reason = "stop"
        elif row.stream is not None:
            text = row.stops.push(row.stream.push(token))
        if reason is None and row.stops.found:
            reason = "stop"
        elif reason is not None or len(row.tokens) >= row.limit:
            rest, stopped = self._flush(row)
            text, reason = text + rest, reason or ("stop" if stopped else "length")
        if reason is None:
            row.request.tell(Event(token, text, logprob, alternatives))
        else:
            self._close(row, reason, text, token, logprob, alternatives)

    def _flush(self, row: _Row) -> tuple[str, bool]:
        """Text that was held back, and whether a stop string came with it."""
        text = "" if row.stream is None else row.stops.push(row.stream.end())
        return (text if row.stops.found else text + row.stops.end()), row.stops.found

    def _close(
        self,
        row: _Row,
        reason: str,
        text: str,
        token: int | None = None,
        logprob: float | None = None,
        alternatives: tuple[tuple[int, float], ...] = (),
    ) -> None:
        with self._lock:
            if row.slot >= 0:
                self._slots[row.slot] = None
                self._set(row.slot, NEUTRAL)
            row.slot = -1
            self._counted["finished"] += 1
        self._let_go(row)
        row.request.tell(Event(token, text, logprob, alternatives, reason))


def _integer(name: str, given: Any, most: int, least: int = 1) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or not least <= given <= most:
        raise errors.bad(f"Engine({name})", f"an integer in [{least}, {most}]", given, kind=errors.for_integer(given))
    return int(given)
