"""Requests of one model run together: those of like shapes are joined along the first axis, and their results taken apart.

The event loop only keeps the queue. A model runs in a thread of its own, one batch after another; while one runs, the next
gathers, so that batches grow by themselves under load. Where several came together last time, the first of them waits for as
many, at most `delay` seconds; a client alone never waits. Joined batches are filled up to one of a few sizes, since each size
is a program of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.serve.refusals import BAD, BROKEN, BUSY, LATE, TOO_LARGE, Refused, sentence

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Limits:
    """What a server takes on.

    Args:
        batch: Rows that run together, at most; 1 runs each request alone. Default: 32.
        delay: Seconds that a request waits, at most, for as many others as ran together last. Default: 0.002.
        queue: Requests of a model that wait, at most: more are refused with status 503. Default: 1,024.
        timeout: Seconds after which a request that still waits is given up with status 504. Default: 30.
        body: Bytes of a request, at most. Default: 64 MiB.
        elements: Numbers in one input, at most. Default: 64 Mi.
        json: Bytes of JSON in a request, at most; tensors that are larger are sent raw. Default: 16 MiB.
        memory: Bytes of all requests that are being answered, at most: more are refused with status 503. Default: 1 GiB.

    Examples:
        >>> bireme.serve.Limits(batch=8).queue
        1024
    """

    batch: int = 32
    delay: float = 0.002
    queue: int = 1024
    timeout: float = 30.0
    body: int = 64 * 2**20
    elements: int = 64 * 2**20
    json: int = 16 * 2**20
    memory: int = 2**30

    def __post_init__(self) -> None:
        for name in ("batch", "queue", "body", "elements", "json", "memory"):
            if getattr(self, name) < 1:
                raise errors.bad(f"Limits({name})", "a positive number", getattr(self, name))
        if not self.timeout > 0:
            raise errors.bad("Limits(timeout)", "a positive number", self.timeout)
        if not self.delay >= 0:
            raise errors.bad("Limits(delay)", "a non-negative number", self.delay)


@dataclass
class _Waiting:
    inputs: Arrays
    rows: int
    result: asyncio.Future
    until: float
    since: float


class _Queue:
    """Requests of like shapes, and the number of their rows."""

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.rows = 0


def sizes(most: int) -> list[int]:
    """Numbers of rows that joined batches are filled up to: 1, 2, 3, 4, 6, 8, 12, 16, ... and `most`."""
    found = {n for k in range(most.bit_length() + 1) for n in (2**k, 3 * 2**k // 2)}
    return sorted({n for n in found if n < most} | {most})


class Batcher:
    """The queue of one model. `run` takes arrays by name and gives arrays by name; `together` says whether rows are
    independent of each other, so that requests may be joined.
    """

    def __init__(
        self, run: Callable[[Arrays], Arrays], limits: Limits, together: bool, ran: Callable[[int, float], None]
    ):
        self._run, self._limits, self._together, self._ran = run, limits, together, ran
        self._sizes = sizes(limits.batch)
        self._queues: OrderedDict[Hashable, _Queue] = OrderedDict()  # by likeness; who waits longest stands first
        self.waiting = 0
        self._came = 1  # rows of the last batch, as many as are waited for
        self._gathered: _Queue | None = None
        self._work = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._more = asyncio.Event()
        self._task: asyncio.Task | None = None
        self._closed = False

    async def submit(self, inputs: Arrays) -> Arrays:
        """The result for these inputs, when it is there."""
        if self._closed:
            raise Refused(BUSY, "the model is being unloaded")
        if self.waiting >= self._limits.queue:
            raise Refused(BUSY, f"{self.waiting} requests wait already")
        rows = self._rows(inputs)
        loop = asyncio.get_running_loop()
        if self._task is None:
            self._task = loop.create_task(self._serve())
        now = time.monotonic()
        one = _Waiting(inputs, rows, loop.create_future(), now + self._limits.timeout, now)
        queue = self._queues.setdefault(self._likeness(inputs), _Queue())
        queue.waiting.append(one)
        queue.rows += rows
        self.waiting += 1
        if self._gathered is None or self._gathered.rows >= self._came:
            self._more.set()
        late = loop.call_later(self._limits.timeout, self._give_up, one)
        try:
            return await one.result
        finally:
            late.cancel()

    def _give_up(self, one: _Waiting) -> None:
        if not one.result.done():
            one.result.set_exception(Refused(LATE, f"there was no result within {self._limits.timeout:g} s"))

    def _rows(self, inputs: Arrays) -> int:
        for name, array in inputs.items():
            if array.size > self._limits.elements:
                raise Refused(
                    TOO_LARGE, f"{name} has {array.size} numbers, and at most {self._limits.elements} are taken"
                )
        if not self._together:
            return 1
        rows = {array.shape[0] if array.ndim else 0 for array in inputs.values()}
        if len(rows) != 1:
            raise Refused(BAD, f"inputs have the same number of rows, got {sorted(rows)}")
        return rows.pop()

    def _likeness(self, inputs: Arrays) -> Hashable:
        if not self._together:
            return None
        return tuple([(name, a.dtype, a.shape[1:]) for name, a in sorted(inputs.items())])

    async def _serve(self) -> None:
        while not (self._closed and not self._queues):
            if not self._queues:
                self._more.clear()
                await self._more.wait()
                continue
            key, queue = next(iter(self._queues.items()))
            await self._gather(queue)
            batch = self._take(key, queue)
            if batch:
                self._came = min(sum(one.rows for one in batch), self._limits.batch)
                await self._settle(batch)

    async def _settle(self, batch: list[_Waiting]) -> None:
        """Give each request of a batch its result. A batch that fails is tried in halves, so that one request that is wrong
        does not fail its neighbours, and takes few runs to find.
        """
        start = time.monotonic()
        work = asyncio.get_running_loop().run_in_executor(self._work, self._joined, batch)
        await asyncio.wait([work])  # whatever a model raises, the queue goes on
        error = work.exception()
        if error is None:
            self._ran(sum(one.rows for one in batch), time.monotonic() - start)
            for one, made in zip(batch, work.result(), strict=True):
                if not one.result.done():  # else nobody waits for it any more
                    one.result.set_result(made)
        elif len(batch) > 1:
            for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                await self._settle(half)
        elif not batch[0].result.done():
            batch[0].result.set_exception(Refused(_status(error), sentence(error)))

    async def _gather(self, queue: _Queue) -> None:
        """Wait until as many rows are there as came last time, or the first request has waited long enough."""
        left = queue.waiting[0].since + self._limits.delay - time.monotonic()
        if not self._together or queue.rows >= self._came or left <= 0 or self._closed:
            return
        self._more.clear()
        self._gathered = queue
        try:
            await asyncio.wait_for(self._more.wait(), left)
        except TimeoutError:
            pass
        finally:
            self._gathered = None

    def _take(self, key: Hashable, queue: _Queue) -> list[_Waiting]:
        """The next batch; requests that nobody waits for any more are left out."""
        batch: list[_Waiting] = []
        rows, now, waiting = 0, time.monotonic(), queue.waiting
        while waiting and (not batch or (self._together and rows + waiting[0].rows <= self._limits.batch)):
            one = waiting.popleft()
            queue.rows -= one.rows
            self.waiting -= 1
            if not one.result.done() and now < one.until:
                batch.append(one)
                rows += one.rows
        if waiting:
            self._queues.move_to_end(key)  # those of other shapes have their turn
        else:
            del self._queues[key]
        return batch

    def _joined(self, batch: list[_Waiting]) -> list[Arrays]:
        """Run in the model's thread."""
        if len(batch) == 1:
            return [self._run(batch[0].inputs)]
        rows = [one.rows for one in batch]
        total = sum(rows)
        wanted = next((n for n in self._sizes if n >= total), total)
        made = self._run(
            {name: _filled([one.inputs[name] for one in batch], wanted - total) for name in batch[0].inputs}
        )
        for name, array in made.items():
            if not array.ndim or array.shape[0] != wanted:
                raise ValueError(f"output {name} has shape {list(array.shape)}, and no row for each of {wanted} rows")
        ends = np.cumsum(rows)
        return [{name: a[end - n : end] for name, a in made.items()} for n, end in zip(rows, ends, strict=True)]

    async def close(self) -> None:
        """Finish what was accepted, and take nothing more."""
        self._closed = True
        self._more.set()
        if self._task is not None:
            await self._task
        self._work.shutdown(wait=False)


def _filled(arrays: list[np.ndarray], missing: int) -> np.ndarray:
    """Arrays joined, with copies of the last row that there is, which no model can find wrong if the row is right."""
    if missing:
        last = next((a for a in reversed(arrays) if len(a)), arrays[0])
        arrays = [*arrays, np.repeat(last[-1:], missing, axis=0)]
    return np.concatenate(arrays)


def _status(error: BaseException) -> int:
    """Whose fault it is: a model that finds a value wrong was given a wrong value."""
    if isinstance(error, (ValueError, TypeError, LookupError, ArithmeticError)):
        return BAD
    return BUSY if isinstance(error, MemoryError) else BROKEN


def nothing(*_: Any) -> None:
    """Where nobody counts."""
