"""A worker of a DataLoader: reads batches by index and sends them back.

It talks in tuples. From the parent come (epoch, number, indices, seed, slots to release), (epoch, None, seed) for a new
epoch, and None or a closed pipe for the end. Back go (epoch, number, kind, content, slot).
"""

from __future__ import annotations

import gc
import random as python_random
import signal
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import random_state
from bireme.core.tensor.tensor import Tensor
from bireme.io.collate import mapped, stack_arrays
from bireme.io.dataset import IterableDataset
from bireme.io.fetch import End, Fetcher, Job, WorkerInfo, local
from bireme.io.memory import Parcel, Writer, unpack

READY, DATA, END, FAILED = range(4)


class Failure(NamedTuple):
    """An error of the user's code as text: its class may not exist in another process."""

    module: str
    name: str
    sample: Any
    text: str


class Reported:
    """Turns an error of the code inside into a Failure; what is no Exception (an exit, an interrupt) passes."""

    failure: Failure | None = None

    def __init__(self, fetcher: Fetcher | None = None):
        self.fetcher = fetcher

    def __enter__(self) -> Reported:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        sample = None if self.fetcher is None else self.fetcher.at
        text = "".join(traceback.format_exception(type(error), error, (trace and trace.tb_next) or trace))
        self.failure = Failure(
            type(error).__module__,
            type(error).__qualname__,
            sample if isinstance(sample, (int, str, list)) else None,
            text,
        )
        return True


def run(connection: Any, parcel: Parcel, parcel_fd: Any, fd: Any, number: int, count: int, seed: int) -> None:
    """The main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal; the parent decides
    # what was imported before the fork is never garbage; a collection would copy its pages, which takes half a second
    gc.freeze()
    devices.use(devices.Device("cpu", 0))  # else the first tensor would start jax to ask for the default
    writer = None if fd is None else Writer(fd.detach())
    reported = Reported()
    with reported:
        job = unpack(parcel_fd.detach(), parcel)
    try:
        if reported.failure is not None:
            connection.send((0, None, FAILED, reported.failure, -1))
            return
        connection.send((0, None, READY, time.process_time(), -1))  # since the fork: what it has imported
        serve(job, connection.recv, connection.send, number, count, seed, writer, own=True)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent has closed the loader, or is gone


def serve(
    job: Job,
    receive: Callable[[], Any],
    send: Callable[[tuple], Any],
    number: int,
    count: int,
    seed: int,
    writer: Writer | None = None,
    own: bool = False,
) -> None:
    """Read batches until told to stop. In a process of its ``own`` a worker sets the global generators."""
    if own:
        seed_all(seed, number)
    iterable = isinstance(job.dataset, IterableDataset)
    local.info = WorkerInfo(id=number, num_workers=count, dataset=job.dataset, seed=seed)
    reported = Reported()
    with reported:
        if job.init is not None:
            job.init(number)
    fetcher: Fetcher | None = None
    while True:
        message = receive()
        if message is None:
            return
        epoch, batch, indices, seed, slots = message
        if batch is None:  # a new epoch
            fetcher = None
            continue
        if own and job.init is None and not iterable:
            # a batch draws the same numbers in any worker and after a resume, unless a worker_init_fn seeds
            seed_all(seed, batch)
        if writer is not None:
            writer.release(slots)
        reported = Reported(fetcher) if reported.failure is None else reported
        content = None
        if reported.failure is None:
            with reported:
                fetcher = reported.fetcher = fetcher or Fetcher(job, stack_arrays if writer is None else writer.stack)
                if writer is not None:
                    writer.begin()
                content = fetcher(indices)
                if own and content is not End:
                    content = mapped(_on_host, content)
        if reported.failure is not None:
            send((epoch, batch, FAILED, reported.failure, -1))
            reported = Reported()
        elif content is End:
            send((epoch, batch, END, None, -1))
        elif writer is None:
            send((epoch, batch, DATA, content, -1))
        else:
            content, slot = writer.finish(content)
            send((epoch, batch, DATA, content, slot))


def _on_host(array: Any) -> np.ndarray:
    return array._host() if isinstance(array, Tensor) else array


def _generate_states(base_seed: int = 0, worker_id: int = 0) -> list[int]:
    """Four words for NumPy's generator, by Paddle's formula and under its name: far apart for close seeds."""
    return (
        np.random.SeedSequence([worker_id & 0xFFFFFFFF, base_seed & 0xFFFFFFFF, base_seed >> 32])
        .generate_state(4)
        .tolist()
    )


def seed_all(seed: int, number: int) -> None:
    """Set the random streams of this process for a worker or a batch."""
    np.random.seed(_generate_states(seed, number))  # noqa: NPY002 - transforms draw from the global generator
    python_random.seed(seed * 1000003 + number)
    random_state.seed((seed * 1000003 + number) & ((1 << 63) - 1))
