"""DataLoader: batches of a dataset as tensors, read here or by workers, in a fixed order, and resumable."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.base.device import Device, Place
from bireme.core.tensor.tensor import Tensor
from bireme.io import launch, order
from bireme.io.batch import BatchSampler
from bireme.io.collate import default_collate_fn, default_convert_fn, mapped
from bireme.io.dataset import IterableDataset
from bireme.io.fetch import End, Fetcher, Job
from bireme.io.pool import Inbox
from bireme.io.pool import start as start_workers
from bireme.io.worker import END, FAILED

_HOST = Device("cpu", 0)


def _tensor(device: Device, array: Any) -> Any:
    """Return an array of a batch as a tensor on the device; text and objects stay as they are."""
    if isinstance(array, Tensor):
        return array
    if array.dtype.kind in "OSUMm":
        return np.array(array)
    made = Tensor(array, place=_HOST)
    return made if device.is_cpu else made._to_device(device)


def _tensors(device: Device, batch: Any) -> Any:
    return mapped(functools.partial(_tensor, device), batch)


def _kept(batch: Any) -> Any:
    """Copy the arrays of a batch into memory of their own; they become tensors later."""
    return mapped(lambda array: array if isinstance(array, Tensor) else np.array(array), batch)


class DataLoader(Guarded):
    """Iterates over batches of a dataset, read in this process or by worker processes.

    A batch is a list with one tensor per field of the samples, or whatever ``collate_fn`` returns. The order of the
    samples does not depend on the number of workers. ``state_dict()`` holds the position within an epoch, so that an
    interrupted epoch can be resumed.

    Where the dataset or a function cannot be pickled, the workers are threads instead of processes, with a warning.

    Args:
        dataset: A ``Dataset``, an ``IterableDataset``, or anything with ``__getitem__`` and ``__len__``.
        feed_list: Has no effect.
        places: Device, or list of devices, of which the first is where the tensors are placed. Default: None, the
            current device.
        return_list: Has no effect.
        batch_sampler: Iterable of lists of indices; ``batch_size``, ``shuffle`` and ``drop_last`` must then have their
            defaults. Default: None.
        batch_size: Number of samples per batch; None returns single samples, not batched. Default: 1.
        shuffle: Draw the samples in random order, another one in each epoch. Default: False.
        drop_last: Leave out the last batch if it is incomplete. Default: False.
        collate_fn: Function that takes a list of samples and returns a batch. Default: None, arrays, numbers and
            tensors are stacked field by field.
        num_workers: Number of workers; 0 reads in this process, when a batch is asked for. Default: 0.
        use_buffer_reader: With workers, convert batches to tensors and copy them to the device ahead of time, in a
            thread. Default: True.
        prefetch_factor: Number of batches that each worker reads ahead. Default: 2.
        use_shared_memory: Pass large arrays from the workers through shared memory. Default: True.
        timeout: Seconds to wait for a batch of the workers before an error; 0 waits for ever. Default: 0.
        worker_init_fn: Function that each worker calls at its start with its index. Default: None.
        persistent_workers: Keep the workers alive between epochs. Default: False.

    Examples:
        >>> data = bireme.io.TensorDataset([bireme.arange(5)])
        >>> loader = bireme.io.DataLoader(data, batch_size=2)
        >>> len(loader), [batch[0].tolist() for batch in loader]
        (3, [[0, 1], [2, 3], [4]])
    """

    dataset: Any
    num_workers: int
    prefetch_factor: int
    timeout: float
    use_buffer_reader: bool
    use_shared_memory: bool
    worker_init_fn: Callable[[int], Any] | None
    collate_fn: Callable[[Any], Any]
    batch_sampler: Any
    batch_size: int | None
    auto_collate_batch: bool
    drop_last: bool
    places: list[Place]
    _iterable: bool
    _persistent_workers: bool

    def __init__(
        self,
        dataset: Any,
        feed_list: Any = None,
        places: Any = None,
        return_list: bool = True,
        batch_sampler: Any = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[Any], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        persistent_workers: bool = False,
    ) -> None:
        for name, value, least in (
            ("num_workers", num_workers, 0),
            ("prefetch_factor", prefetch_factor, 1),
            ("timeout", timeout, 0),
        ):
            if not isinstance(value, Real) or value < least:
                raise errors.bad(
                    f"DataLoader({name})", f"a number of at least {least}", value, kind=errors.for_number(value)
                )
        if not isinstance(num_workers, Integral):
            raise errors.bad("DataLoader(num_workers)", "an integer", num_workers, kind=errors.ArgumentTypeError)
        for name, value in (("collate_fn", collate_fn), ("worker_init_fn", worker_init_fn)):
            if value is not None and not callable(value):
                raise errors.bad(f"DataLoader({name})", "a function or None", value, kind=errors.ArgumentTypeError)
        self.dataset, self.feed_list, self.return_list = dataset, feed_list, return_list
        self.num_workers, self.prefetch_factor, self.timeout = int(num_workers), prefetch_factor, timeout
        self.use_buffer_reader, self.use_shared_memory = use_buffer_reader, use_shared_memory and num_workers > 0
        self.worker_init_fn, self._persistent_workers = worker_init_fn, persistent_workers
        self.places = [_place(p) for p in (places if isinstance(places, (list, tuple)) else [places]) if p is not None]
        self._iterable = isinstance(dataset, IterableDataset)
        if not self._iterable and not hasattr(dataset, "__getitem__"):
            raise errors.bad(
                "DataLoader(dataset)",
                "a dataset, or an object with __getitem__ and __len__",
                dataset,
                kind=errors.ArgumentTypeError,
            )
        if self._iterable and shuffle:
            raise errors.bad("DataLoader(shuffle)", "False for an IterableDataset, which has its own order", shuffle)
        if self._iterable and batch_sampler is not None:
            raise errors.bad(
                "DataLoader(batch_sampler)", "None for an IterableDataset, which has its own order", batch_sampler
            )
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or drop_last:
                raise errors.bad(
                    "DataLoader(batch_sampler)",
                    "batch_size, shuffle and drop_last at their defaults, since batch_sampler decides them",
                    described=f"batch_size={batch_size}, shuffle={shuffle}, drop_last={drop_last}",
                    kind=errors.ArgumentError,
                )
            if not hasattr(batch_sampler, "__iter__"):
                raise errors.bad(
                    "DataLoader(batch_sampler)",
                    "an iterable of lists of indices",
                    batch_sampler,
                    kind=errors.ArgumentTypeError,
                )
            batch_size = None
        elif batch_size is not None:
            if not isinstance(batch_size, (int, np.integer)) or batch_size <= 0:
                raise errors.bad(
                    "DataLoader(batch_size)",
                    "None or a positive integer",
                    batch_size,
                    kind=errors.for_integer(batch_size),
                )
            batch_size = int(batch_size)
            if self._iterable:
                batch_sampler = _Endless(batch_size)
            else:
                with errors.within("DataLoader", "dataset", "shuffle", "batch_size", "drop_last"):
                    batch_sampler = BatchSampler(dataset, None, shuffle, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.auto_collate_batch = batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate_fn if self.auto_collate_batch else default_convert_fn)
        self.pin_memory = False
        self._pool: _WorkerPool | None = None
        self._progress: dict[str, Any] = {"batches": 0}
        self._resume: dict[str, Any] | None = None
        if num_workers > 0 and launch.possible():
            launch.server()  # it imports while the user's model is built

    def __len__(self) -> int:
        if self._iterable:
            raise errors.bad(
                "len(loader)", "a dataset with a length", described="an IterableDataset", kind=errors.ArgumentTypeError
            )
        return len(self.batch_sampler) if self.auto_collate_batch else len(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        device = devices.parse(self.places[0]) if self.places else devices.current()
        indices, skipped, seed = self._start()
        job = Job(self.dataset, self.collate_fn, self.worker_init_fn, self.auto_collate_batch, self.drop_last)
        if self.num_workers == 0:
            return _InlineIterator(self, job, indices, skipped, device)
        pool = self._pool
        if pool is None:
            pool = _WorkerPool(self, job, device, seed)
            self._pool = pool if self._persistent_workers else None
        return _WorkerIterator(self, pool, indices, skipped, seed)

    def __call__(self) -> Iterator[Any]:
        return iter(self)

    # ------------------------------------------------------------ where it is

    def state_dict(self) -> dict[str, Any]:
        """Return the position within the current epoch.

        Returns:
            A dict with the number of batches returned so far and, within an epoch, the random state at its start.

        Examples:
            >>> bireme.io.DataLoader(range(4)).state_dict()
            {'batches': 0}
        """
        return dict(self._progress)

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume an epoch: the next iteration returns the rest of it, in the same order.

        Args:
            state_dict: What ``state_dict()`` returned.

        Examples:
            >>> loader = bireme.io.DataLoader(range(4))
            >>> batches = iter(loader)
            >>> first = next(batches)
            >>> resumed = bireme.io.DataLoader(range(4))
            >>> resumed.set_state_dict(loader.state_dict())
            >>> [batch.tolist() for batch in resumed]
            [[1], [2], [3]]
        """
        if not isinstance(state_dict, dict) or not isinstance(state_dict.get("batches"), int):
            raise errors.bad(
                "set_state_dict(state_dict)", "what state_dict() returned", state_dict, kind=errors.ArgumentTypeError
            )
        self._resume = dict(state_dict) if "random" in state_dict else None
        self._progress = dict(state_dict)

    def _start(self) -> tuple[Iterator[Any], int, int]:
        """Return the index lists of an epoch, the number of batches returned before, and the seed of the workers."""
        state, self._resume = self._resume, None
        now = order.snapshot()
        sampler = self.batch_sampler
        if state is None:
            state = {"batches": 0, "random": now}
            if hasattr(sampler, "epoch"):
                state["epoch"] = sampler.epoch
            fresh = True
        else:
            order.restore(state["random"])
            if "epoch" in state and sampler is not None:
                sampler.epoch = state["epoch"]
            fresh = False
        seed = order.draw_seed() if self.num_workers else 0
        if sampler is not None:
            indices: Iterator[Any] = iter(sampler)
        else:
            indices = itertools.repeat(None) if self._iterable else iter(range(len(self.dataset)))
        skipped = state["batches"]
        if not self._iterable:
            # the order is drawn when the first batch is: draw it now, from the state that was noted
            first = list(itertools.islice(indices, skipped + 1))[skipped:]
            indices = itertools.chain(first, indices)
        if not fresh:
            order.restore(now)
        self._progress = state
        return indices, skipped, seed


def _place(place: Any) -> Place:
    return devices.parse(place, "DataLoader(places)").place


class _Endless:
    """Batch sampler for a dataset that decides the order itself: the same number of samples, again and again."""

    def __init__(self, batch_size: int):
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[list[None]]:
        return itertools.repeat([None] * self.batch_size)


class _Epoch:
    """Base class of the iterators; the length is that of the loader, however far it has come."""

    def __init__(self, loader: DataLoader):
        self.loader, self.progress = loader, loader._progress

    def __len__(self) -> int:
        return len(self.loader)

    # under Paddle's names, which trainers read
    _dataset = property(lambda self: self.loader.dataset)
    _batch_sampler = property(lambda self: self.loader.batch_sampler)


_DataLoaderIterBase = _Epoch


class _InlineIterator(_Epoch):
    """Iterator that reads in this process, when a batch is asked for."""

    def __init__(self, loader: DataLoader, job: Job, indices: Iterator[Any], skipped: int, device: Device):
        super().__init__(loader)
        self.fetch, self.indices, self.device = Fetcher(job), indices, device
        if self.fetch.samples is not None:
            for _ in range(skipped):
                self.fetch(next(indices))

    def __iter__(self) -> _InlineIterator:
        return self

    def __next__(self) -> Any:
        batch = End
        for indices in self.indices:
            batch = self.fetch(indices)
            break
        if batch is End:
            self.indices = iter(())
            _over(self.progress)
            raise StopIteration
        self.progress["batches"] += 1
        return _tensors(self.device, batch)


def _over(progress: dict) -> None:
    """Reset the position at the end of an epoch."""
    progress.clear()
    progress["batches"] = 0


class _WorkerPool:
    """The workers and the inbox for their batches, for one epoch or for all."""

    def __init__(self, loader: DataLoader, job: Job, device: Device, seed: int):
        self.convert = None if loader.use_buffer_reader else functools.partial(_tensors, device)
        self.inbox = Inbox(functools.partial(_tensors, device) if loader.use_buffer_reader else _kept)
        self.workers = start_workers(job, loader.num_workers, seed, self.inbox, loader.use_shared_memory)
        self.close = weakref.finalize(self, self.workers.close)


class _WorkerIterator(_Epoch):
    """Iterator over batches that workers read ahead."""

    def __init__(self, loader: DataLoader, pool: _WorkerPool, indices: Iterator[Any], skipped: int, seed: int):
        super().__init__(loader)
        self.pool, self.indices, self.seed = pool, indices, seed
        self.keep, self.timeout = loader._persistent_workers, loader.timeout
        self.ahead = loader.prefetch_factor * loader.num_workers
        self.active = list(range(loader.num_workers))
        self.turn = 0
        inbox = pool.inbox
        with inbox.changed:
            inbox.epoch += 1
            inbox.found.clear()
        self.epoch = inbox.epoch
        for number in self.active:
            pool.workers.send(number, self.epoch, None, None, seed)
        first = 0 if loader._iterable else skipped
        self.sent = self.taken = first
        self.fill()
        for _ in range(skipped - first):
            self.take()

    def __iter__(self) -> _WorkerIterator:
        return self

    def fill(self) -> None:
        """Send tasks until every worker has enough to do."""
        while self.active and self.sent - self.taken < self.ahead:
            for indices in self.indices:
                number = self.active[self.turn % len(self.active)]
                self.turn += 1
                self.pool.workers.send(number, self.epoch, self.sent, indices, self.seed)
                self.sent += 1
                break
            else:
                return

    def take(self) -> Any:
        """Return the next batch, or ``End``."""
        while self.taken < self.sent:
            kind, content = self.pool.inbox.take(self.taken, self.timeout)
            self.taken += 1
            if kind == END and content in self.active:
                self.active.remove(content)
            self.fill()
            if kind == FAILED:
                raise content
            if kind != END:
                return content
        return End

    def __next__(self) -> Any:
        if self.epoch != self.pool.inbox.epoch:
            raise errors.failure("DataLoader: with persistent_workers=True, a new iteration ends the one before")
        batch = self.take()
        if batch is End:
            if not self.keep:
                self.pool.close()
            _over(self.progress)
            raise StopIteration
        self.progress["batches"] += 1
        return batch if self.pool.convert is None else self.pool.convert(batch)
