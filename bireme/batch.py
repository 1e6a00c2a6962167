"""Batches of a reader: a function that gives single items becomes one that gives lists of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bireme.core.base import errors


@errors.named
def batch(reader: Callable[[], Any], batch_size: int, drop_last: bool = False) -> Callable[[], Iterator[list]]:
    """Return a reader that groups the samples of another reader into lists.

    Args:
        reader: Function without arguments that returns an iterable of samples.
        batch_size: Number of samples per list.
        drop_last: Leave out the last list if it is incomplete. Default: False.

    Returns:
        A function without arguments that returns an iterator of lists.

    Examples:
        >>> list(bireme.batch(lambda: iter(range(5)), 2)())
        [[0, 1], [2, 3], [4]]
    """
    if not callable(reader):
        raise errors.bad("batch(reader)", "a callable that returns an iterable", reader, kind=errors.ArgumentTypeError)
    try:
        size = int(batch_size)
    except (TypeError, ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise errors.bad("batch(batch_size)", "a positive integer", batch_size, kind=errors.for_integer(batch_size))

    def batches() -> Iterator[list]:
        items: list = []
        for item in reader():
            items.append(item)
            if len(items) == size:
                yield items
                items = []
        if items and not drop_last:
            yield items

    return batches
