"""What a program needs to go on with another number of processes: an order of the data that does not depend on it, and word
of a machine that is about to be taken away.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.processes.collectives import Call
from bireme.distributed import world
from bireme.distributed.communication import group as groups
from bireme.io.batch import DistributedBatchSampler

__all__ = ["GlobalBatchSampler", "Preemption"]

RESTART = 101  # the exit code that asks the launcher to start the job again


class GlobalBatchSampler(DistributedBatchSampler):
    """Batch sampler that divides the same batches among however many processes there are.

    ``DistributedBatchSampler`` has a batch size per process, so its batches depend on the number of processes. Here the
    size is that of all processes together: a run that resumes with fewer or more of them sees the same samples in each
    step, and has the same losses. The state of a ``DataLoader`` with this sampler is the position of them all. Paddle
    has no counterpart.

    Args:
        dataset: A dataset with a length. Samples that do not fill a batch are left out.
        batch_size: Number of indices per batch of all processes together; the number of processes divides it.
        num_replicas: Number of processes. Default: None, of all that were started together.
        rank: Index of this process. Default: None, its rank.
        shuffle: Use another random order in each epoch. Default: False.

    Raises:
        ValueError: If the number of processes does not divide the batch size.

    Examples:
        >>> list(bireme.distributed.elastic.GlobalBatchSampler(range(9), 4, num_replicas=2, rank=1))
        [[2, 3], [6, 7]]
        >>> list(bireme.distributed.elastic.GlobalBatchSampler(range(9), 4, num_replicas=1, rank=0))
        [[0, 1, 2, 3], [4, 5, 6, 7]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
    ) -> None:
        count = world.size() if num_replicas is None else num_replicas
        where = "GlobalBatchSampler(batch_size)"
        errors.check_integer(where, batch_size)
        if batch_size < 1 or batch_size % count:
            raise errors.bad(where, f"a positive multiple of the number of processes, {count}", batch_size)
        super().__init__(dataset, batch_size // count, count, world.rank() if rank is None else rank, shuffle, True)

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self.dataset) // (self.batch_size * self.nranks)

    def __iter__(self) -> Iterator[list]:
        """Iterate over this process' shares of the batches of an epoch."""
        order = np.arange(len(self.dataset))
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        whole = order[: len(self) * self.batch_size * self.nranks]
        return iter(whole.reshape(-1, self.nranks, self.batch_size)[:, self.local_rank].tolist())


class Preemption:
    """Word of SIGTERM, by which a cluster or the launcher announces the end of a process, in all processes at once.

    Inside the ``with`` block the signal does not end the process. Ask after each step; once some process has got the signal,
    all hear of it in the same step, save, and leave. Paddle has no counterpart.

    Examples:
        >>> with bireme.distributed.elastic.Preemption() as preemption:
        ...     for step in range(3):
        ...         if preemption.asked():  # True in all processes, or in none
        ...             preemption.leave()  # after saving
        >>> step
        2
    """

    def __init__(self) -> None:
        self._got = False
        self._before: Any = None

    def __enter__(self) -> Preemption:
        """Begin to listen. Python allows it in the main thread alone."""
        self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, *error: Any) -> None:
        """Give the signal its former meaning."""
        signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._got:  # whoever asks twice does not want to wait
            self.__exit__()
            os.kill(os.getpid(), number)
        self._got = True

    def asked(self) -> bool:
        """Return whether a process of the job was asked to end. All processes call it, since it is a collective.

        Examples:
            >>> bireme.distributed.elastic.Preemption().asked()
            False
        """
        if world.size() == 1:
            return self._got
        channel = groups.start().channel
        return any(told == b"1" for told in channel.gather_bytes(Call("asked"), b"1" if self._got else b"0"))

    def leave(self) -> None:
        """End the process with the exit code that asks the launcher to start the job again.

        Raises:
            SystemExit: Always.

        Examples:
            >>> bireme.distributed.elastic.Preemption().leave()
            Traceback (most recent call last):
            SystemExit: 101
        """
        raise SystemExit(RESTART)
