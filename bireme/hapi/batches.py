"""Batches: where they come from, and the tensors in them."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world
from bireme.io import DataLoader, Dataset, DistributedBatchSampler, IterableDataset
from bireme.ops import to_tensor


def listed(x: Any) -> list:
    """Return the results of a network, a loss or a metric as a list."""
    return list(x) if isinstance(x, (list, tuple)) else list(x.values()) if isinstance(x, dict) else [x]


def fields_of(batch: Any) -> list:
    """Return the tensors of a batch in order, out of all lists and dicts; those of a dict in the order of its keys."""
    if isinstance(batch, dict):
        return [field for key in sorted(batch) for field in fields_of(batch[key])]
    if isinstance(batch, (list, tuple)):
        return [field for part in batch for field in fields_of(part)]
    return [batch if isinstance(batch, Tensor) else to_tensor(batch)]


def tensors(given: Any) -> list:
    return [] if given is None else fields_of(given)


def arrays(values: Iterable[Any]) -> list:
    return [v.numpy() if isinstance(v, Tensor) else v for v in values]


def samples_in(fields: list) -> int:
    return fields[0].shape[0] if fields and fields[0].shape else 1


def first(data: Any, most: int | None, start: int = 0) -> Iterator[Any]:
    """Iterate over at most ``most`` batches of the data from ``start`` on; no batch beyond is read.

    A ``DataLoader`` that was told where to resume skips the first batches itself.
    """
    rest = data if isinstance(data, DataLoader) else itertools.islice(data, start, None)
    for n, batch in enumerate(rest, 1):
        yield batch
        if n == most:
            return


def loader(
    where: str, data: Any, batch_size: Any, shuffle: bool, drop_last: bool, num_workers: int, divided: bool = False
) -> Any:
    """Return what iterates over batches of a user's argument, which is ``where``; if divided, of this process' part."""
    if isinstance(data, IterableDataset):
        return DataLoader(data, batch_size=batch_size, drop_last=drop_last, num_workers=num_workers)
    if isinstance(data, Dataset) and divided and world.size() > 1:
        part = DistributedBatchSampler(data, batch_size, shuffle=shuffle, drop_last=drop_last)
        return DataLoader(data, batch_sampler=part, num_workers=num_workers)
    if isinstance(data, Dataset):
        return DataLoader(data, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, num_workers=num_workers)
    if not isinstance(data, Iterable):
        raise errors.bad(where, "a dataset, a DataLoader, or batches", data, kind=errors.ArgumentTypeError)
    return data


def length(data: Any) -> int | None:
    try:
        return len(data)
    except TypeError:
        return None


def batch_size_of(data: Any) -> int | None:
    return getattr(data, "batch_size", None)


def inputs_of(network: Any) -> tuple[int, int]:
    """Return the smallest and the largest number of inputs of the network's ``forward``."""
    parameters = inspect.signature(network.forward).parameters.values()
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in places)
    open_end = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return max(least, 1), 1 << 30 if open_end else max(len(places), 1)
