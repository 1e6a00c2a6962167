"""spawn: start a function in processes of its own. One process is there; more are not yet."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.distributed import world

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

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the processes have ended.

        Args:
            timeout: Seconds to wait at most. Default: None, no limit.

        Returns:
            Whether they have ended.

        Raises:
            RuntimeError: If one failed; the message has its traceback.
        """
        for index, (process, queue) in enumerate(zip(self.processes, self.error_queues)):
            process.join(timeout)
            if process.exitcode is None:
                return False
            if process.exitcode != 0:
                told = queue.get() if not queue.empty() else f"exit code {process.exitcode}\n"
                raise errors.bad(
                    f"spawn: process {index}", "an end without error", described=f"\n{told}", kind=RuntimeError
                )
        return True


def spawn(
    func: Callable, args: Sequence[Any] = (), nprocs: int = -1, join: bool = True, daemon: bool = False, **options: Any
) -> MultiprocessContext:
    """Start a function in a process of its own, with the environment of a world of one.

    Args:
        func: The function; it has to stand at the top level of a module.
        args: Its arguments. Default: none.
        nprocs: Number of processes. Default: -1, one.
        join: Wait until it has ended. Default: True.
        daemon: End it with this process. Default: False.
        **options: ``start_method``, ``'spawn'`` or ``'forkserver'``; others of Paddle's have no effect.

    Returns:
        The process, to join later.

    Raises:
        NotImplementedError: If ``nprocs`` is above 1.
        RuntimeError: If the function raised an error.

    Examples:
        >>> context = bireme.distributed.spawn(print, args=("hello",), nprocs=1)  # doctest: +SKIP
    """
    errors.check_integer("spawn(nprocs)", nprocs)
    errors.check_function("spawn(func)", func)
    for name in options:
        if name not in OPTIONS:
            raise errors.bad(f"spawn({name})", f"an option among {', '.join(sorted(OPTIONS))}", described=f"{name!r}")
    world.only_one("spawn(nprocs)", 1 if nprocs == -1 else nprocs)
    start = multiprocessing.get_context(options.get("start_method", "spawn"))
    queue = start.SimpleQueue()
    process = start.Process(target=_run, args=(func, tuple(args), queue), daemon=daemon)
    process.start()
    context = MultiprocessContext([process], [queue])
    if join:
        context.join()
    return context


def _run(func: Callable, args: tuple, queue: Any) -> None:
    """What the new process does."""
    os.environ.update(world.environment())
    try:
        func(*args)
    except BaseException:  # noqa: BLE001 - whatever it is, the parent tells it
        queue.put(traceback.format_exc())
        raise SystemExit(1) from None  # the parent tells the error
