"""The batch of an engine: rows join and leave it at every step, prompts go on between steps, pages are taken and let go.

Steps are dispatched before the last ones' tokens are read, so that the host's work and the device's overlap; see
decisions/060. All of it runs in the engine's thread, but for what the lock guards.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bireme.llm import programs
from bireme.llm.grammars import Matcher
from bireme.llm.pages import Chunk, Pages, chunks, keys
from bireme.llm.programs import Programs, read, send
from bireme.llm.requests import Event, Request
from bireme.llm.tokenizer import Stops, Stream
from bireme.ops.random.tokens import IN_PROMPT

LEAST = 16  # tokens of the least chunk
BETWEEN = 512  # tokens of prompts that are taken between two steps, about
NEUTRAL = (0, 1, 0, 1, 0, 0)  # settings of a row that takes the most likely token
COUNTED = ("requests", "finished", "prompt_tokens", "tokens", "steps", "prefix_hits", "preemptions")
ALL = -1  # 32 bits that are set
Alternatives = tuple[tuple[int, float], ...]


@dataclass(eq=False)
class Row:
    """A request in the batch, or on its way there."""

    request: Request
    tokens: list[int]  # of the prompt and of the text, as far as they were read
    limit: int  # how many there can be
    stream: Stream | None
    stops: Stops
    ends: frozenset[int]
    matcher: Matcher | None  # of its grammar
    seed: int = 0
    order: int = 0  # of arrival
    pages: list[int] = field(default_factory=list)
    left: deque[tuple[Chunk, list[bytes]]] = field(default_factory=deque)  # chunks to be taken, keys of their pages
    fed: int = 0  # tokens whose keys and values are there, or on the way
    slot: int = -1

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt)


@dataclass
class _Pending:
    """Steps of one program whose tokens were not read yet."""

    rows: list[tuple[Row, int, int]]  # with slot and place
    described: np.ndarray
    settings: np.ndarray | None  # None where no row draws
    tops: bool
    biased: bool
    logits: Any = None  # where tokens are still to be chosen
    arrays: tuple = ()


class Batch:
    """Rows that run together, and those that wait to."""

    def __init__(self, made: Programs, pages: Pages, lock: threading.Condition, chunk: int, steps: int):
        self.waiting: deque[Row] = deque()
        self.slots: list[Row | None] = [None] * made.slots
        self.pages, self.programs = pages, made
        self.counted = dict.fromkeys(COUNTED, 0)
        self.cancelling = False  # whether somebody has given up
        self._lock, self._chunk, self._steps = lock, chunk, steps
        self._pending: _Pending | None = None
        self._described = np.zeros((made.rows, programs.TABLE + made.width), np.int32)
        self._described[:, programs.PLACE] = -1
        self._settings = np.tile(np.asarray(NEUTRAL, np.float32), (made.rows, 1))
        self._biased: set[int] = set()  # slots whose last row had a bias

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.waiting or self._pending or any(self.slots))

    def empty(self) -> list[Row]:
        """Give up all rows."""
        rows = [row for row in (*self.slots, *self.waiting) if row is not None]
        self.slots, self._pending = [None] * len(self.slots), None
        self.waiting.clear()
        return rows

    def turn(self) -> None:
        """Whatever is to be done once: who was cancelled leaves, who waits joins, prompts go on, and a step."""
        if self.cancelling:
            self._drop_cancelled()
        self._admit()
        self._fill()
        step = self._dispatch()
        before, self._pending = self._pending, step
        if before is not None:
            self._finish(before)
        if step is not None and step.logits is not None:
            self._choose(step)

    def _drop_cancelled(self) -> None:
        with self._lock:
            self.cancelling = False
            gone = [row for row in self.waiting if row.request.cancelled]
            for row in gone:
                self.waiting.remove(row)
        gone += [row for row in self.slots if row is not None and row.request.cancelled]
        for row in gone:
            self._close(row, "cancelled", self._flush(row)[0])

    # ------------------------------------------------------------ joining

    def _admit(self) -> None:
        """Rows that wait join while there is a slot, and pages for their prompt."""
        while self.waiting and not all(self.slots):
            with self._lock:
                row = self.waiting[0]
            parts = chunks(row.prompt - 1, self._chunk, min(LEAST, self._chunk))
            size = self.programs.page
            named = list(zip(parts, keys(row.request.prompt, parts, size), strict=True))
            held: list[int] = []
            skipped = 0
            for chunk, names in named:
                found = self.pages.find(names) if len(names) * size == chunk.count else None
                if found is None:
                    break
                held += found
                skipped += 1
            row.pages, row.fed = held, len(held) * size
            if not self._grow(row, row.prompt):
                self._let_go(row)
                return
            row.left = deque(named[skipped:])
            with self._lock:
                self.waiting.popleft()
                row.slot = self.slots.index(None)
                self.slots[row.slot] = row
                self.counted["prefix_hits"] += row.fed
            row.request.cached = max(row.request.cached, row.fed)
            self._describe(row)

    def _grow(self, row: Row, tokens: int) -> bool:
        """Pages for so many tokens; whether there were enough."""
        missing = -(-tokens // self.programs.page) - len(row.pages)
        if missing > self.pages.free:
            return False
        for _ in range(missing):
            page = self.pages.take()
            assert page is not None
            row.pages.append(page)
        if missing > 0 and row.slot >= 0:
            self._put_table(row)
        return True

    def _put_table(self, row: Row) -> None:
        self._described[row.slot, programs.TABLE : programs.TABLE + len(row.pages)] = row.pages

    def _let_go(self, row: Row) -> None:
        for page in row.pages:
            self.pages.give(page)
        row.pages, row.fed = [], 0

    def _describe(self, row: Row) -> None:
        """Settings of a row, what stays the same of it at every step, and counts of the tokens in its prompt."""
        o, at = row.request.options, self._described[row.slot]
        at[programs.SEED : programs.SEED + 2] = np.asarray([row.seed], np.uint64).view(np.int32)
        at[programs.TOP_K], at[programs.COUNTS], at[programs.UNTIL] = o.top_k, 1, row.limit - 1
        self._put_table(row)
        penalties = o.repetition_penalty, o.presence_penalty, o.frequency_penalty
        self._set(row.slot, (o.temperature, o.top_p, o.min_p, *penalties))
        if o.penalized:
            counts = np.zeros(self.programs.network.config.vocabulary, np.int32)
            counts[list(row.request.prompt)] = IN_PROMPT
            self.programs.count(row.slot, counts)
        if o.logit_bias or row.slot in self._biased:
            bias = np.zeros(self.programs.network.config.vocabulary, np.float32)
            for token, by in o.biases:
                bias[token] = by
            self.programs.bias(row.slot, bias)
            self._biased = self._biased - {row.slot} | ({row.slot} if o.logit_bias else set())

    def _set(self, slot: int, settings: tuple[float, ...]) -> None:
        self._settings = self._settings.copy()  # a step that is on its way may still read the other
        self._settings[slot] = settings

    # ------------------------------------------------------------ prompts

    def _fill(self) -> None:
        """Chunks of prompts, the oldest first; some, where texts wait for their next token."""
        rows = [row for row in self.slots if row is not None and row.left]
        if not rows:
            return
        rows.sort(key=lambda row: row.order)
        budget = BETWEEN if any(row is not None and not row.left for row in self.slots) else None
        for row in rows:
            while row.left and (budget is None or budget > 0):
                chunk, names = row.left.popleft()
                described = np.zeros(chunk.size + 2 + self.programs.width, np.int32)
                described[: chunk.count] = row.tokens[chunk.start : chunk.start + chunk.count]
                described[chunk.size : chunk.size + 2] = chunk.start, chunk.count
                described[chunk.size + 2 : chunk.size + 2 + len(row.pages)] = row.pages
                self.programs.fill(chunk.size, described)
                row.fed = chunk.start + chunk.count
                for page, key in zip(row.pages[chunk.start // self.programs.page :], names):
                    self.pages.publish(page, key)
                budget = None if budget is None else budget - chunk.size

    # ------------------------------------------------------------ steps

    def _ready(self) -> list[Row]:
        """Rows that have a token to be fed."""
        return [row for row in self.slots if row is not None and not row.left and row.fed < row.limit - 1]

    def _times(self, rows: list[Row]) -> int:
        """Steps of the next program: several, where nobody waits for any of them to end but who reads tokens."""
        if self._steps == 1 or self.waiting or any(row is not None and row.left for row in self.slots):
            return 1
        if any(row.matcher is not None or row.fed < len(row.tokens) - 1 for row in rows):
            return 1
        return self._steps if max(row.limit - 1 - row.fed for row in rows) >= self._steps else 1

    def _dispatch(self) -> _Pending | None:
        rows = self._ready()
        if not rows:
            return None
        times = self._times(rows)
        size = self.programs.page
        for row in rows:
            wanted = min(row.fed + times, row.limit - 1)
            if len(row.pages) * size < wanted and not self._grow(row, wanted):
                times = 1
                self._make_room()
                rows = self._ready()
                break
        if not rows:
            return None
        width = self.programs.width_of(max([len(row.pages) for row in rows]))
        described = self._described[:, : programs.TABLE + width].copy()  # one on its way may still be read
        at = [row.slot for row in rows]
        described[at, programs.TOKEN] = [row.tokens[row.fed] if row.fed < len(row.tokens) else -1 for row in rows]
        described[at, programs.PLACE] = [row.fed for row in rows]
        described[at, programs.DRAW] = [row.fed + 1 - row.prompt for row in rows]
        settings = self._settings if any(row.request.options.drawn for row in rows) else None
        tops = any(row.request.options.logprobs for row in rows)
        biased = any(row.request.options.logit_bias for row in rows)
        pending = _Pending([(row, row.slot, row.fed) for row in rows], described, settings, tops, biased)
        if any(row.matcher is not None for row in rows):
            pending.logits = self.programs.forward(described)
        else:
            self._sent(pending, self.programs.step(described, settings, tops, times, biased))
        for row in rows:
            row.fed = min(row.fed + times, row.limit - 1)
        self.counted["steps"] += times
        return pending

    def _sent(self, pending: _Pending, arrays: tuple) -> None:
        """Have what will be read of a step on its way to the host."""
        wanted = any(row.request.options.logprobs is not None for row, _, _ in pending.rows)
        pending.arrays = arrays if wanted else arrays[:1]
        for array in pending.arrays:
            send(array)

    def _choose(self, pending: _Pending) -> None:
        """The second half of a step, now that the last one's tokens are known: which may follow was found out while the
        first half runs.
        """
        words = -(-self.programs.network.config.vocabulary // 32)
        allowed = np.full((self.programs.rows, words), ALL, np.int32)
        for row, slot, place in pending.rows:
            if row.matcher is None or row.slot != slot:
                continue
            if place + 1 < len(row.tokens):  # made again: what was chosen then is chosen, and counted, again
                token, allowed[slot] = row.tokens[place + 1], 0
                allowed[slot, token // 32] = np.int64(1 << token % 32).astype(np.int32)
                continue
            try:
                allowed[slot] = row.matcher.allowed()
            except ValueError as e:
                self._fail(row, e)
        logits, pending.logits = pending.logits, None
        settings, described, tops, biased = pending.settings, pending.described, pending.tops, pending.biased
        self._sent(pending, self.programs.choose(logits, described, settings, tops, biased, allowed))

    def _make_room(self) -> None:
        """A page for every row that needs one: rows that came last leave the batch, to begin again later."""
        if self._pending is not None:  # what was read may have ended rows
            before, self._pending = self._pending, None
            self._finish(before)
        for row in sorted(self._ready(), key=lambda row: row.order):
            while row.slot >= 0 and not self._grow(row, row.fed + 1):
                last = max((r for r in self.slots if r is not None), key=lambda r: r.order)
                with self._lock:
                    self.slots[last.slot] = None
                    last.slot = -1
                    self.waiting.appendleft(last)
                    self.counted["preemptions"] += 1
                last.left.clear()
                self._let_go(last)

    # ------------------------------------------------------------ tokens

    def _finish(self, pending: _Pending) -> None:
        """Read the tokens of a program and tell them."""
        tokens, *more = [read(array) for array in pending.arrays]
        if tokens.ndim == 1:
            tokens, more = tokens[None], [array[None] for array in more]
        for i, chosen in enumerate(tokens.tolist()):
            for row, slot, place in pending.rows:
                if row.slot != slot or place + i + 1 < len(row.tokens):  # gone meanwhile, or known from before
                    continue
                wanted, logprob = row.request.options.logprobs, None
                alternatives: Alternatives = ()
                if wanted is not None:
                    logprob = float(more[0][i, slot])
                if wanted:
                    pairs = (more[1][i, slot, :wanted].tolist(), more[2][i, slot, :wanted].tolist())
                    alternatives = tuple(zip(*pairs, strict=True))
                self._tell(row, chosen[slot], logprob, alternatives)

    def _tell(self, row: Row, token: int, logprob: float | None, alternatives: Alternatives) -> None:
        row.tokens.append(token)
        self.counted["tokens"] += 1
        complete = False
        if row.matcher is not None:
            try:
                complete = row.matcher.take(token)
            except ValueError as e:
                self._fail(row, e)
                return
        reason, text = None, ""
        if token in row.ends:
            reason = "stop"
        elif row.stream is not None:
            text = row.stops.push(row.stream.push(token))
        if reason is None and row.stops.found:
            reason = "stop"
        elif reason is not None or complete or len(row.tokens) >= row.limit:
            rest, stopped = self._flush(row)
            text, reason = text + rest, reason or ("stop" if stopped or complete else "length")
        if reason is None:
            row.request.tell(Event(token, text, logprob, alternatives))
        else:
            self._close(row, reason, text, token, logprob, alternatives)

    def _flush(self, row: Row) -> tuple[str, bool]:
        """Text that was held back, and whether a stop string came with it."""
        text = "" if row.stream is None else row.stops.push(row.stream.end())
        return (text if row.stops.found else text + row.stops.end()), row.stops.found

    def _close(
        self,
        row: Row,
        reason: str,
        text: str,
        token: int | None = None,
        logprob: float | None = None,
        alternatives: Alternatives = (),
    ) -> None:
        self._leave(row)
        row.request.tell(Event(token, text, logprob, alternatives, reason))

    def _fail(self, row: Row, error: Exception) -> None:
        self._leave(row)
        row.request.fail(error)

    def _leave(self, row: Row) -> None:
        with self._lock:
            if row.slot >= 0:
                self.slots[row.slot] = None
                self._set(row.slot, NEUTRAL)
            row.slot = -1
            self.counted["finished"] += 1
        self._let_go(row)
