"""Workers as the DataLoader sees them: processes, or threads where processes cannot be had.

Tasks go out from the thread that iterates; a thread of the pool takes in what comes back. Batches are kept by number
until they are asked for, so their order does not depend on which worker is faster.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import itertools
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, reduction
from typing import Any

from bireme.core.base import errors
from bireme.io import launch, memory
from bireme.io.collate import mapped
from bireme.io.fetch import Job
from bireme.io.worker import DATA, END, FAILED, READY, Failure, run, serve

GRACE = 1.0  # seconds a worker has to finish its batch when the loader is closed
_ids = itertools.count()


class Inbox:
    """Batches that have arrived and were not asked for yet, by epoch and number."""

    def __init__(self, convert: Callable[[Any], Any]):
        self.convert = convert
        self.changed = threading.Condition()
        self.found: dict[tuple[int, int], tuple[int, Any]] = {}
        self.epoch = 0
        self.trouble: str | None = None

    def deliver(self, epoch: int, number: int, kind: int, content: Any) -> None:
        with self.changed:
            if epoch == self.epoch:
                self.found[epoch, number] = kind, content
                self.changed.notify_all()

    def fail(self, trouble: str) -> None:
        with self.changed:
            self.trouble = self.trouble or trouble
            self.changed.notify_all()

    def take(self, number: int, timeout: float) -> tuple[int, Any]:
        """Wait for a batch and return it."""
        with self.changed:
            key = self.epoch, number
            there = self.changed.wait_for(lambda: key in self.found or self.trouble is not None, timeout or None)
            if self.trouble is None:
                if not there:
                    raise errors.failure(
                        f"DataLoader timed out: batch {number} was not ready after {timeout:g} seconds "
                        f"(timeout={timeout:g})"
                    )
                return self.found.pop(key)
        if not threading.main_thread().is_alive() and threading.current_thread() is not threading.main_thread():
            # a daemon thread at the end of the process, which closed the loader: nobody reads what it would raise
            threading.Event().wait()
        raise errors.failure(str(self.trouble))


class _Message(str):
    """A message that KeyError, which shows the repr of its argument, shows line by line."""

    __slots__ = ()
    __repr__ = str.__str__


def rebuilt(failure: Failure, number: int) -> Exception:
    """The worker's error as one of this process: of the same class where that can be made from a message."""
    at = "" if failure.sample is None else f" at sample {errors.show(failure.sample)}"
    message = _Message(f"DataLoader worker({number}) caught {failure.name}{at} with message:\n{failure.text}")
    kind: Any = builtins if failure.module == "builtins" else sys.modules.get(failure.module)
    for part in failure.name.split("."):
        kind = getattr(kind, part, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(
        kind, (StopIteration, StopAsyncIteration)
    ):
        return RuntimeError(message)
    try:
        return kind(message)
    except (TypeError, ValueError, AttributeError, LookupError):
        return RuntimeError(message)


# ---------------------------------------------------------------- processes


class Worker:
    """A worker process, its pipe and the memory it shares with this process."""

    def __init__(self, job: tuple, number: int, count: int, seed: int, shared: bool, main: bool):
        parcel_fd, parcel = job
        self.number = number
        self.released: list[int] = []
        self.reader = memory.Reader(memory.anonymous()) if shared else None
        self.pipe, theirs = connection.Pipe()
        args = (
            theirs,
            parcel,
            Handle(parcel_fd),
            None if self.reader is None else Handle(self.reader.fd),
            number,
            count,
            seed,
        )
        self.process = launch.Process(target=run, args=args, name=f"bireme-loader-{number}", daemon=True)
        self.process.needs_main = main
        self.process.start()
        theirs.close()

    def obituary(self, starting: bool) -> str:
        """Say how a worker ended that is gone."""
        self.process.join(GRACE)
        code = self.process.exitcode
        how = f"stopped with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
        hint = "where it printed a traceback, that is above"
        if code == -signal.SIGKILL:
            hint = (
                "the system does this when memory runs out: "
                "fewer workers, smaller batches or prefetch_factor=1 need less"
            )
        when = " while it started" if starting else ""
        return f"DataLoader worker {self.number} (pid {self.process.pid}) {how}{when}\n  hint: {hint}"


class Handle:
    """A file descriptor that is passed to a process at its start."""

    def __init__(self, fd: int):
        self.fd = fd

    def __reduce__(self) -> Any:
        return _same, (reduction.DupFd(self.fd),)


def _same(handle: Any) -> Any:
    return handle


class Processes:
    """Worker processes and the thread that receives their batches."""

    def __init__(self, job: tuple, count: int, seed: int, inbox: Inbox, shared: bool, main: bool, imports: set[str]):
        self.inbox = inbox
        self.workers: list[Worker] = []
        self.wake, self.woken = connection.Pipe()
        self.ready: set[int] = set()
        self.owner = os.getpid()
        self.imports, self.main = imports, main
        try:
            for number in range(count):
                self.workers.append(Worker(job, number, count, seed, shared, main))
        except BaseException:  # Ctrl-C too: no worker is left behind
            self.close()
            raise
        self.thread = threading.Thread(target=self.listen, name="bireme-loader", daemon=True)
        self.thread.start()

    def send(self, number: int, epoch: int, batch: int | None, indices: Any, seed: int) -> None:
        """Send a worker its next task."""
        worker = self.workers[number]
        released, worker.released = worker.released, []
        try:
            worker.pipe.send((epoch, batch, indices, seed, released))
        except OSError:
            return  # the worker is gone, or the pool closed: `take` raises the error

    def listen(self) -> None:
        """Receive batches until the pool is closed or a worker is gone."""
        pipes: dict[Any, Worker] = {worker.pipe: worker for worker in self.workers}
        try:
            while True:
                for pipe in connection.wait([*pipes, self.woken]):
                    if pipe is self.woken:
                        return
                    worker = pipes[pipe]
                    try:
                        message = worker.pipe.recv()
                    except (EOFError, OSError):
                        self.inbox.fail(worker.obituary(worker.number not in self.ready))
                        return
                    self.take_in(worker, *message)
        finally:
            self.inbox.fail("DataLoader was closed while a batch was waited for")

    def take_in(self, worker: Worker, epoch: int, batch: int | None, kind: int, content: Any, slot: int) -> None:
        if kind == READY:
            self.ready.add(worker.number)
            if content > launch.SLOW:
                launch.import_for_workers(self.imports, self.main)
        elif batch is None:
            self.inbox.fail(str(rebuilt(content, worker.number)))
        elif kind == FAILED:
            self.inbox.deliver(epoch, batch, FAILED, rebuilt(content, worker.number))
        elif kind == END:
            self.inbox.deliver(epoch, batch, END, worker.number)
        else:
            if epoch == self.inbox.epoch:
                try:
                    read = worker.reader.array if worker.reader is not None else None
                    content = self.inbox.convert(content if read is None else mapped(read, content, memory.Ref))
                except errors.TELLING as error:
                    kind, content = FAILED, error
                self.inbox.deliver(epoch, batch, kind, content)
            if slot >= 0:
                worker.released.append(slot)

    def close(self) -> None:
        """Stop all workers: at once if they are idle, else after at most a second."""
        if os.getpid() != self.owner:
            return  # a fork of the process has none of them
        self.wake.close()
        thread = getattr(self, "thread", None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(GRACE)
        for worker in self.workers:
            worker.pipe.close()  # an end of file for a worker that waits, a broken pipe for one that sends
        until = time.monotonic() + GRACE
        for worker in self.workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join(GRACE)
            if worker.process.exitcode is not None:
                worker.process.close()
            if worker.reader is not None:
                worker.reader.close()
        self.woken.close()
        self.workers = []


# ---------------------------------------------------------------- threads


class Threads:
    """Workers as threads of this process, for what cannot be pickled."""

    def __init__(self, job: Job, count: int, seed: int, inbox: Inbox):
        self.inbox = inbox
        self.tasks: list[queue.SimpleQueue] = [queue.SimpleQueue() for _ in range(count)]
        for number, tasks in enumerate(self.tasks):
            # as in processes, each has a dataset whose attributes it may set for itself
            own = job._replace(dataset=copy.copy(job.dataset))
            args = (own, tasks.get, self.sender(number), number, count, seed)
            threading.Thread(target=serve, args=args, name=f"bireme-loader-{next(_ids)}-{number}", daemon=True).start()

    def sender(self, number: int) -> Callable[[tuple], None]:
        def send(message: tuple) -> None:
            epoch, batch, kind, content, _ = message
            if kind == FAILED:
                content = rebuilt(content, number)
            elif kind == END:
                content = number
            elif kind == DATA:
                try:
                    content = self.inbox.convert(content)
                except errors.TELLING as error:
                    kind, content = FAILED, error
            self.inbox.deliver(epoch, batch, kind, content)

        return send

    def send(self, number: int, epoch: int, batch: int | None, indices: Any, seed: int) -> None:
        self.tasks[number].put((epoch, batch, indices, seed, []))

    def close(self) -> None:
        for tasks in self.tasks:
            with contextlib.suppress(queue.Empty):
                while True:
                    tasks.get_nowait()
            tasks.put(None)


def _modules(job: Job) -> set[str]:
    """Return the modules that the code of a job comes from, as far as that is seen at once."""
    parts = [job.dataset, job.collate, job.init, *getattr(job.dataset, "__dict__", {}).values()]
    named = {getattr(x if hasattr(x, "__qualname__") else type(x), "__module__", None) for x in parts}
    return {name for name in named if isinstance(name, str) and name not in ("builtins", "__main__")}


def start(job: Job, count: int, seed: int, inbox: Inbox, shared: bool) -> Any:
    """Start workers for a job: processes if it can be pickled, else threads, with a warning that says why."""
    if not launch.possible():
        return Threads(job, count, seed, inbox)
    fd = memory.anonymous()
    try:
        why, parcel = "", None
        try:
            parcel = memory.pack(fd, job)
        except (reduction.pickle.PicklingError, TypeError, AttributeError) as error:  # type: ignore[attr-defined]  # has no stub
            why = f"one cannot be sent to a worker process ({error})"
        else:
            if parcel.main and not launch.script_can_be_imported():
                why = (
                    'one is defined at a prompt or in a script without `if __name__ == "__main__":`, '
                    "which workers cannot import"
                )
        if parcel is not None and not why:
            return Processes((fd, parcel), count, seed, inbox, shared, parcel.main, _modules(job))
    finally:
        os.close(fd)
    errors.warn(
        f"DataLoader reads in {count} thread{'s' * (count > 1)} instead of processes: "
        f"of dataset, collate_fn and worker_init_fn, {why}\n"
        "  hint: define them at the top of a module that can be imported"
    )
    return Threads(job, count, seed, inbox)
