"""Batch samplers: how indices are grouped into batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.io.dataset import IterableDataset
from bireme.io.order import draws
from bireme.io.sampler import RandomSampler, Sampler, SequenceSampler


def _checked(where: str, batch_size: Any, shuffle: Any, drop_last: Any) -> None:
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
        raise errors.bad(f"{where}(batch_size)", "a positive integer", batch_size, kind=errors.for_integer(batch_size))
    for name, value in (("shuffle", shuffle), ("drop_last", drop_last)):
        if not isinstance(value, bool):
            raise errors.bad(f"{where}({name})", "True or False", value, kind=errors.ArgumentError)


def _cut(order: Iterable[Any], size: int, drop_last: bool) -> Iterator[list]:
    batch: list[Any] = []
    for index in order:
        batch.append(index)
        if len(batch) == size:
            yield batch
            batch = []
    if batch and not drop_last:
        yield batch


class BatchSampler(Sampler):
    """Sampler that groups indices into batches.

    Give either ``dataset`` or ``sampler``.

    Args:
        dataset: A dataset with a length. Default: None.
        sampler: A ``Sampler``, or any iterable of indices. Default: None.
        shuffle: Draw the indices of ``dataset`` in random order. Default: False.
        batch_size: Number of indices per batch. Default: 1.
        drop_last: Leave out the last batch if it is incomplete. Default: False.

    Examples:
        >>> list(bireme.io.BatchSampler(range(5), batch_size=2))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any = None,
        sampler: Any = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        _checked("BatchSampler", batch_size, bool(shuffle) if dataset is None else shuffle, drop_last)
        if (dataset is None) == (sampler is None):
            raise errors.bad(
                "BatchSampler",
                "either a dataset or a sampler",
                described="both" if sampler is not None else "neither",
                kind=errors.ArgumentError,
            )
        if dataset is not None:
            if isinstance(dataset, IterableDataset):
                raise errors.bad("BatchSampler(dataset)", "a dataset with a length", dataset, kind=errors.ArgumentError)
            sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)
        elif not isinstance(sampler, (Sampler, Iterable)):
            raise errors.bad("BatchSampler(sampler)", "a Sampler or an iterable", sampler, kind=errors.ArgumentError)
        elif shuffle:
            raise errors.bad(
                "BatchSampler(shuffle)",
                "False, since the sampler decides the order",
                shuffle,
                kind=errors.ArgumentError,
            )
        self.sampler, self.batch_size, self.shuffle, self.drop_last = sampler, batch_size, shuffle, drop_last
        self._acc_steps = 1

    def __iter__(self) -> Iterator[list]:
        return _cut(self.sampler, self.batch_size * self._acc_steps, self.drop_last)

    def __len__(self) -> int:
        size = self.batch_size * self._acc_steps
        return len(self.sampler) // size if self.drop_last else -(-len(self.sampler) // size)


class DistributedBatchSampler(BatchSampler):
    """Batch sampler that gives each process its own part of the dataset.

    All processes get the same number of samples: where the length is not divisible, the first samples are used again.
    With ``shuffle``, the order is determined by the number of the epoch alone, so all processes agree on it.

    Args:
        dataset: A dataset with a length.
        batch_size: Number of indices per batch and process.
        num_replicas: Number of processes. Default: None, the environment variable ``PADDLE_TRAINERS_NUM``, or 1.
        rank: Index of this process. Default: None, the environment variable ``PADDLE_TRAINER_ID``, or 0.
        shuffle: Use another random order in each epoch. Default: False.
        drop_last: Leave out the last batch if it is incomplete. Default: False.

    Examples:
        >>> list(bireme.io.DistributedBatchSampler(range(6), 2, num_replicas=2, rank=1))
        [[2, 3], [5]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        where = "DistributedBatchSampler"
        _checked(where, batch_size, shuffle, drop_last)
        if num_replicas is None:
            num_replicas = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
        if rank is None:
            rank = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
        if not isinstance(num_replicas, int) or num_replicas <= 0:
            raise errors.bad(
                f"{where}(num_replicas)", "a positive integer", num_replicas, kind=errors.for_integer(num_replicas)
            )
        if not isinstance(rank, int) or not 0 <= rank < num_replicas:
            raise errors.bad(
                f"{where}(rank)", f"an integer in [0, {num_replicas - 1}]", rank, kind=errors.for_integer(rank)
            )
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.nranks, self.local_rank, self.epoch = num_replicas, rank, 0
        self.num_samples = -(-len(dataset) // num_replicas)
        self.total_size = self.num_samples * num_replicas
        self._acc_steps = 1

    def __iter__(self) -> Iterator[list]:
        order = np.resize(np.arange(len(self.dataset)), self.total_size)
        if self.shuffle:
            # the number of the epoch is the seed: all processes get the same order, and Paddle's
            np.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        # whole batches are dealt to the ranks in turn; what is left over is cut into equal pieces
        whole = self.total_size // (self.batch_size * self.nranks) * self.batch_size * self.nranks
        mine = [order[:whole].reshape(-1, self.nranks, self.batch_size)[:, self.local_rank].ravel()] if whole else []
        mine += [order[whole:].reshape(self.nranks, -1)[self.local_rank]]
        return _cut(np.concatenate(mine).tolist(), self.batch_size * self._acc_steps, self.drop_last)

    def __len__(self) -> int:
        size = self.batch_size * self._acc_steps
        return self.num_samples // size if self.drop_last else -(-self.num_samples // size)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, which determines the order if ``shuffle`` is True.

        Args:
            epoch: Number of the epoch.

        Examples:
            >>> sampler = bireme.io.DistributedBatchSampler(range(4), 2, shuffle=True)
            >>> sampler.set_epoch(3)
            >>> first = list(sampler)
            >>> sampler.set_epoch(3)
            >>> first == list(sampler)
            True
        """
        self.epoch = epoch


class LengthBatchSampler(BatchSampler):
    """Batch sampler that puts samples of similar length together, so that little padding is needed.

    Samples are shuffled, then sorted by length within each window, cut into batches, and the batches are shuffled.
    Paddle has no counterpart.

    Args:
        lengths: Length of each sample.
        batch_size: Number of indices per batch. Default: 1.
        shuffle: Use another random order in each epoch. Default: True.
        drop_last: Leave out incomplete batches. Default: False.
        window: Number of batches in a window. Default: 50.

    Examples:
        >>> batches = bireme.io.LengthBatchSampler([3, 9, 1, 8], batch_size=2)
        >>> sorted(sorted(batch) for batch in batches)
        [[0, 2], [1, 3]]
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int = 1,
        shuffle: bool = True,
        drop_last: bool = False,
        window: int = 50,
    ) -> None:
        _checked("LengthBatchSampler", batch_size, shuffle, drop_last)
        if not isinstance(window, int) or window <= 0:
            raise errors.bad(
                "LengthBatchSampler(window)", "a positive integer", window, kind=errors.for_integer(window)
            )
        self.lengths = np.asarray(lengths)
        self.batch_size, self.shuffle, self.drop_last, self.window = batch_size, shuffle, drop_last, window
        self.sampler = range(len(self.lengths))
        self._acc_steps = 1

    def __iter__(self) -> Iterator[list]:
        total, source = len(self.lengths), draws() if self.shuffle else None
        order = np.arange(total) if source is None else source.permutation(total)
        step = self.batch_size * self.window
        spans = [order[at : at + step] for at in range(0, total, step)]
        batches = [
            b
            for s in spans
            for b in _cut(s[np.argsort(self.lengths[s], kind="stable")].tolist(), self.batch_size, self.drop_last)
        ]
        return iter(batches if source is None else [batches[i] for i in source.permutation(len(batches))])
