"""Requests of one model run together: those of like shapes are joined along the first axis, and their results taken apart.

The event loop only keeps the queue. A model runs in a thread of its own, one batch after another; while one runs, the next
gathers, so that batches grow by themselves under load. A request waits for others at most `delay` seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.serve.refusals import BAD, BUSY, LATE, TOO_LARGE, Refused

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Limits:
    """What a server takes on.

    Args:
        batch: Rows that run together, at most; 1 runs each request alone. Default: 32.
        delay: Seconds that a request waits for others while nothing runs. Default: 0.002.
        queue: Requests of a model that wait, at most: more are refused with status 503. Default: 1,024.
        timeout: Seconds after which a request that still waits is given up with status 504. Default: 30.
        body: Bytes of a request, at most. Default: 64 MiB.
        elements: Numbers in one input, at most. Default: 64 Mi.

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

    def __post_init__(self) -> None:
        for name in ("batch", "queue", "body", "elements"):
            if getattr(self, name) < 1:
                raise errors.bad(f"Limits({name})", "a positive number", getattr(self, name))
        for name in ("delay", "timeout"):
            if not getattr(self, name) >= 0:
                raise errors.bad(f"Limits({name})", "a non-negative number", getattr(self, name))


@dataclass
class _Waiting:
    inputs: Arrays
    rows: int
    result: asyncio.Future
    until: float
    since: float = field(default_factory=time.monotonic)


class Batcher:
    """The queue of one model. `run` takes arrays by name and gives arrays by name; `together` says whether rows are
    independent of each other, so that requests may be joined.
    """

    def __init__(
        self, run: Callable[[Arrays], Arrays], limits: Limits, together: bool, ran: Callable[[int, float], None]
    ):
        self._run, self._limits, self._together, self._ran = run, limits, together, ran
        self._queues: OrderedDict[Hashable, deque[_Waiting]] = (
            OrderedDict()
        )  # by likeness; who waits longest stands first
        self.waiting = 0
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
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._serve())
        made = asyncio.get_running_loop().create_future()
        one = _Waiting(inputs, rows, made, time.monotonic() + self._limits.timeout)
        self._queues.setdefault(self._likeness(inputs), deque()).append(one)
        self.waiting += 1
        self._more.set()
        try:
            return await asyncio.wait_for(made, self._limits.timeout)
        except TimeoutError:
            raise Refused(LATE, f"there was no result within {self._limits.timeout:g} s") from None

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
        return max(rows.pop(), 1)

    def _likeness(self, inputs: Arrays) -> Hashable:
        if not self._together:
            return None
        return tuple((name, a.dtype, a.shape[1:]) for name, a in sorted(inputs.items()))

    async def _serve(self) -> None:
        while not (self._closed and not self._queues):
            if not self._queues:
                self._more.clear()
                await self._more.wait()
                continue
            key, queue = next(iter(self._queues.items()))
            await self._gather(queue)
            batch = self._take(key, queue)
            if not batch:
                continue
            start = time.monotonic()
            made, error = await self._made(batch)
            if error is not None:
                await self._one_by_one(batch, error)
                continue
            self._ran(sum(one.rows for one in batch), time.monotonic() - start)
            for one, result in zip(batch, made, strict=True):
                if not one.result.done():
                    one.result.set_result(result)

    async def _made(self, batch: list[_Waiting]) -> tuple[list[Arrays], BaseException | None]:
        """Results of a batch, or what went wrong: whatever a model raises, the queue goes on."""
        work = asyncio.get_running_loop().run_in_executor(self._work, self._joined, batch)
        await asyncio.wait([work])
        error = work.exception()
        return ([], error) if error is not None else (work.result(), None)

    async def _gather(self, queue: deque[_Waiting]) -> None:
        """Wait until a batch is full, or its first request has waited long enough."""
        end = queue[0].since + self._limits.delay
        while self._together and sum(one.rows for one in queue) < self._limits.batch and not self._closed:
            left = end - time.monotonic()
            if left <= 0:
                return
            self._more.clear()
            try:
                await asyncio.wait_for(self._more.wait(), left)
            except TimeoutError:
                return

    def _take(self, key: Hashable, queue: deque[_Waiting]) -> list[_Waiting]:
        """The next batch; requests that nobody waits for any more are left out."""
        batch: list[_Waiting] = []
        rows = 0
        while queue and (not batch or (self._together and rows + queue[0].rows <= self._limits.batch)):
            one = queue.popleft()
            self.waiting -= 1
            if not one.result.done() and time.monotonic() < one.until:
                batch.append(one)
                rows += one.rows
        if queue:
            self._queues.move_to_end(key)  # those of other shapes have their turn
        else:
            del self._queues[key]
        return batch

    def _joined(self, batch: list[_Waiting]) -> list[Arrays]:
        """Run in the model's thread."""
        if len(batch) == 1:
            return [self._run(batch[0].inputs)]
        inputs = {name: np.concatenate([one.inputs[name] for one in batch]) for name in batch[0].inputs}
        made = self._run(inputs)
        rows = [one.rows for one in batch]
        for name, array in made.items():
            if not array.ndim or array.shape[0] != sum(rows):
                raise ValueError(
                    f"output {name} has shape {list(array.shape)}, and no row for each of {sum(rows)} rows"
                )
        ends = np.cumsum(rows)
        return [{name: a[end - n : end] for name, a in made.items()} for n, end in zip(rows, ends, strict=True)]

    async def _one_by_one(self, batch: list[_Waiting], error: BaseException) -> None:
        """After a batch that failed, each request alone: one that is wrong does not fail its neighbours."""
        for one in batch:
            made: list[Arrays] = []
            if len(batch) > 1 and not one.result.done():
                made, alone = await self._made([one])
                error = alone or error
            if one.result.done():  # nobody waits for it any more
                continue
            if made:
                one.result.set_result(made[0])
            else:
                status = BUSY if isinstance(error, MemoryError) else BAD
                one.result.set_exception(Refused(status, _sentence(error)))

    async def close(self) -> None:
        """Finish what was accepted, and take nothing more."""
        self._closed = True
        self._more.set()
        if self._task is not None:
            await self._task
        self._work.shutdown(wait=False)


def _sentence(error: BaseException) -> str:
    """What went wrong in a model's own words, without the server's line."""
    return (
        " ".join(line.strip() for line in str(error).splitlines() if not line.startswith("  at "))
        or type(error).__name__
    )


def nothing(*_: Any) -> None:
    """Where nobody counts."""
