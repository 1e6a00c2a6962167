"""Batches of a reader: a function that gives single items becomes one that gives lists of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bireme.core.base import errors


@errors.named
def batch(reader: Callable[[], Any], batch_size: int, drop_last: bool = False) -> Callable[[], Iterator[list]]:
    """A reader that gives lists of `batch_size` items of another reader; the last may be shorter, or is left out.

    >>> list(bireme.batch(lambda: iter(range(5)), 2)())
    [[0, 1], [2, 3], [4]]
    """
    if not callable(reader):
        raise errors.bad("batch(reader)", "a function that gives items", reader, kind=TypeError)
    try:
        size = int(batch_size)
    except (TypeError, ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise errors.bad("batch(batch_size)", "an integer of 1 or more", batch_size)

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
