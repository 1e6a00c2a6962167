"""spawn: start a function in processes of its own."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.processes import connection
from bireme.distributed import world
from bireme.distributed.launch import stopped
from bireme.distributed.launch.stopped import Stopped

__all__ = ["MultiprocessContext", "spawn"]

OPTIONS = {
    "start_method",
    "gpus",
    "xpus",
    "ips",
    "print_config",
    "backend",
    "started_port",
    "selected_devices",
    "devices",
}


POLL = 0.5  # seconds between two looks at the processes
GRACE = 10.0  # seconds that the others get to say what they waited for, when one has failed


class MultiprocessContext:
    """The processes that ``spawn`` started, to join them later.

    Args:
        processes: The processes.
        error_queues: Where each puts the text of an error.

    Examples:
        >>> bireme.distributed.spawn.MultiprocessContext([], []).join()  # doctest: +SKIP
        True
    """

    def __init__(self, processes: Sequence[Any], error_queues: Sequence[Any]) -> None:
        self.processes, self.error_queues = list(processes), list(error_queues)
        self._coordinator = ""
        self._served: Any = None
        self._folder: Any = None
        self._stopped = Stopped(POLL)

    def serve(self) -> dict[str, str]:
        """Start the service through which the processes find each other: the environment variables that tell where."""
        self._coordinator = f"127.0.0.1:{world.free_ports(1)[0]}"
        self._served = connection.serve(self._coordinator, len(self.error_queues))
        self._folder = tempfile.TemporaryDirectory(prefix="bireme-spawn-")
        return {
            "PADDLE_MASTER": self._coordinator,
            "BIREME_COORDINATOR": self._coordinator,
            "PADDLE_DISTRI_BACKEND": "gloo",
            connection.CONNECTED: os.path.join(self._folder.name, "connected"),
            world.SECRET: secrets.token_hex(32),
        }

    def _have_connected(self) -> bool:
        return self._folder is not None and os.path.exists(os.path.join(self._folder.name, "connected"))

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the processes have ended. When one has failed, the others are ended too.

        Args:
            timeout: Seconds to wait at most. Default: None, no limit.

        Returns:
            Whether they have ended.

        Raises:
            RuntimeError: If one failed; the message has its traceback.
        """
        until = None if timeout is None else time.monotonic() + timeout
        running = list(self.processes)
        while running:
            left = POLL if until is None else max(min(until - time.monotonic(), POLL), 0)
            multiprocessing.connection.wait([process.sentinel for process in running], left)
            self._end_stopped()
            codes = [process.exitcode for process in self.processes]  # asked once: one may end at any time
            failed = [i for i, code in enumerate(codes) if code]
            if failed:
                raise self._failure(failed)
            running = [process for process, code in zip(self.processes, codes) if code is None]
            if running and left == 0:
                return False
        return True

    def _end_stopped(self) -> None:
        """End processes that have been stopped for too long. Who waits for them hears of it first."""
        found = self._stopped.look(process.pid for process in self.processes if process.exitcode is None)
        for rank, process in enumerate(self.processes):
            if process.pid in found:
                self._speak_for(rank, f"stopped by a signal for {stopped.PATIENCE:.0f} s")
                process.kill()
                process.join()

    def _speak_for(self, rank: int, how: str) -> None:
        if self._have_connected():
            connection.speak_for(self._coordinator, rank, how)

    def _failure(self, failed: list[int]) -> Exception:
        """End the processes, and the error that tells which one has failed."""
        for rank in failed:
            code = self.processes[rank].exitcode
            self._speak_for(rank, f"ended by signal {-code}" if code < 0 else f"exit code {code}")
        until = time.monotonic() + GRACE
        for process in self.processes:
            process.join(max(until - time.monotonic(), 0))
        for end in ("terminate", "kill"):
            for process in self.processes:
                if process.exitcode is None:
                    getattr(process, end)()
                    process.join(5.0)
        told = {rank: self._told(rank) for rank, process in enumerate(self.processes) if process.exitcode}
        rank = min(told, key=lambda r: (r not in failed, "ProcessLostError" in told[r], r))
        return errors.bad(
            f"spawn: process {rank}", "an end without error", described=f"\n{told[rank]}", kind=RuntimeError
        )

    def _told(self, rank: int) -> str:
        queue = self.error_queues[rank]
        return f"exit code {self.processes[rank].exitcode}\n" if queue.empty() else queue.get()


def spawn(
    func: Callable, args: Sequence[Any] = (), nprocs: int = -1, join: bool = True, daemon: bool = False, **options: Any
) -> MultiprocessContext:
    """Start a function in processes of its own, each with the environment of its place among them.

    Args:
        func: The function; it has to stand at the top level of a module.
        args: Its arguments. Default: none.
        nprocs: Number of processes. Default: -1, one.
        join: Wait until they have ended. Default: True.
        daemon: End them with this process. Default: False.
        **options: ``start_method``, ``'spawn'`` or ``'forkserver'``; others of Paddle's have no effect.

    Returns:
        The processes, to join later.

    Raises:
        RuntimeError: If the function raised an error in one of them; the others are ended then.

    Examples:
        >>> context = bireme.distributed.spawn(print, args=("hello",), nprocs=1)  # doctest: +SKIP
    """
    errors.check_integer("spawn(nprocs)", nprocs)
    errors.check_function("spawn(func)", func)
    for name in options:
        if name not in OPTIONS:
            raise errors.bad(f"spawn({name})", f"an option among {', '.join(sorted(OPTIONS))}", described=f"{name!r}")
    if nprocs < 1 and nprocs != -1:
        raise errors.bad("spawn(nprocs)", "-1 or a number from 1", nprocs)
    count = max(nprocs, 1)
    start = multiprocessing.get_context(options.get("start_method", "spawn"))
    context = MultiprocessContext([], [start.SimpleQueue() for _ in range(count)])
    endpoints = [f"127.0.0.1:{port}" for port in world.free_ports(count)]
    more = context.serve() if count > 1 else {}
    for rank, queue in enumerate(context.error_queues):
        place = world.environment(rank, endpoints, rank, count, 1, **more)
        process = start.Process(target=_run, args=(func, tuple(args), queue, place), daemon=daemon)
        process.start()
        process.context = context  # the service that it needs lives as long as itself, also if nobody joins it
        context.processes.append(process)
    if join:
        context.join()
    return context


def _run(func: Callable, args: tuple, queue: Any, place: dict[str, str]) -> None:
    """What a new process does."""
    os.environ.update(place)
    try:
        func(*args)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent tells it
        queue.put(traceback.format_exc())
        if connection.current() is not None:  # the parent tells the first error only
            sys.stderr.write(f"rank {place['PADDLE_TRAINER_ID']}: {connection.first_line(error)}\n")
        connection.close(error)
        raise SystemExit(1) from None  # the parent tells the error
    connection.close()
