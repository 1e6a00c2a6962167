"""Readers made of readers: mapped, joined, shuffled, cut, kept, and read ahead by threads."""

from __future__ import annotations

import itertools
import queue
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from bireme.core.base import errors

Reader = Callable[[], Iterable[Any]]


class ComposeNotAligned(ValueError):
    """Raised by ``compose`` if its readers do not have the same number of samples.

    Examples:
        >>> issubclass(bireme.reader.ComposeNotAligned, ValueError)
        True
    """


def cache(reader: Reader) -> Reader:
    """Return a reader that keeps the samples of another reader, which is read once, now.

    Args:
        reader: Function without arguments that returns an iterable of samples.

    Returns:
        A reader.

    Examples:
        >>> list(bireme.reader.cache(lambda: iter([1, 2]))())
        [1, 2]
    """
    kept = tuple(reader())
    return lambda: iter(kept)


def map_readers(func: Callable, *readers: Reader) -> Reader:
    """Return a reader that applies a function to one sample of each reader; the shortest ends it.

    Args:
        func: Function of as many samples as there are readers.
        *readers: The readers.

    Returns:
        A reader.

    Examples:
        >>> list(bireme.reader.map_readers(lambda a, b: a + b, lambda: [1, 2], lambda: [10, 20])())
        [11, 22]
    """
    return lambda: map(func, *(reader() for reader in readers))


def shuffle(reader: Reader, buf_size: int) -> Reader:
    """Return a reader that shuffles samples within a buffer, by Python's ``random``.

    Args:
        reader: The reader.
        buf_size: Number of samples that are shuffled at a time.

    Returns:
        A reader.

    Examples:
        >>> sorted(bireme.reader.shuffle(lambda: range(5), 2)())
        [0, 1, 2, 3, 4]
    """
    if not isinstance(buf_size, int) or buf_size < 1:
        raise errors.bad("shuffle(buf_size)", "a positive integer", buf_size, kind=errors.for_integer(buf_size))

    def samples() -> Iterator[Any]:
        source = iter(reader())
        while held := list(itertools.islice(source, buf_size)):
            random.shuffle(held)
            yield from held

    return samples


def chain(*readers: Reader) -> Reader:
    """Return a reader of the samples of several readers, one after the other.

    Args:
        *readers: The readers.

    Returns:
        A reader.

    Examples:
        >>> list(bireme.reader.chain(lambda: [1], lambda: [2, 3])())
        [1, 2, 3]
    """
    return lambda: itertools.chain.from_iterable(reader() for reader in readers)


def compose(*readers: Reader, check_alignment: bool = True, **kwargs: Any) -> Reader:
    """Return a reader of tuples with one sample of each reader; samples that are tuples are unpacked.

    Args:
        *readers: The readers.
        check_alignment: Raise ``ComposeNotAligned`` if the readers do not end together; if False, the shortest ends it.
            Default: True.
        **kwargs: Has no effect.

    Returns:
        A reader.

    Examples:
        >>> list(bireme.reader.compose(lambda: [1, 2], lambda: [(3, 4), (5, 6)])())
        [(1, 3, 4), (2, 5, 6)]
    """
    missing = object()

    def samples() -> Iterator[tuple]:
        for found in itertools.zip_longest(*(reader() for reader in readers), fillvalue=missing):
            if any(f is missing for f in found):
                if check_alignment:
                    raise errors.bad(
                        "compose(readers)",
                        "readers with the same number of samples",
                        described="one that ended before another",
                        kind=ComposeNotAligned,
                    )
                return
            yield tuple(part for f in found for part in (f if isinstance(f, tuple) else (f,)))

    return samples


def firstn(reader: Reader, n: int) -> Reader:
    """Return a reader of the first samples of another reader.

    Args:
        reader: The reader.
        n: Number of samples.

    Returns:
        A reader.

    Examples:
        >>> list(bireme.reader.firstn(lambda: range(9), 2)())
        [0, 1]
    """
    return lambda: itertools.islice(reader(), n)


def buffered(reader: Reader, size: int) -> Reader:
    """Return a reader that reads ahead in a thread.

    Args:
        reader: The reader; its errors are raised where the sample is taken.
        size: Number of samples to read ahead.

    Returns:
        A reader.

    Examples:
        >>> list(bireme.reader.buffered(lambda: range(3), 2)())
        [0, 1, 2]
    """

    def samples() -> Iterator[Any]:
        ahead: queue.Queue = queue.Queue(size)
        stop, end = threading.Event(), object()

        def put(item: Any) -> bool:
            while not stop.is_set():
                try:
                    ahead.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        def read() -> None:
            try:
                for item in reader():
                    if not put(item):
                        return
            finally:
                put(end)

        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read)
            try:
                while (item := ahead.get()) is not end:
                    yield item
                reading.result()
            finally:
                stop.set()

    return samples


def xmap_readers(mapper: Callable, reader: Reader, process_num: int, buffer_size: int, order: bool = False) -> Reader:
    """Return a reader that applies a function to each sample, in several threads.

    Args:
        mapper: Function of a sample.
        reader: The reader.
        process_num: Number of threads.
        buffer_size: Number of samples in progress at a time.
        order: Keep the order of the samples; if False, results come as they are finished. Default: False.

    Returns:
        A reader.

    Examples:
        >>> list(bireme.reader.xmap_readers(lambda x: x * 2, lambda: range(3), 2, 4, order=True)())
        [0, 2, 4]
    """
    for name, number in (("process_num", process_num), ("buffer_size", buffer_size)):
        if not isinstance(number, int) or number < 1:
            raise errors.bad(f"xmap_readers({name})", "a positive integer", number, kind=errors.for_integer(number))

    def samples() -> Iterator[Any]:
        with ThreadPoolExecutor(process_num) as pool:
            under_way: list[Future] = []

            def ended() -> Iterator[Any]:
                done = under_way[:1] if order else list(wait(under_way, return_when=FIRST_COMPLETED).done)
                for future in done:
                    under_way.remove(future)
                    yield future.result()

            try:
                for item in reader():
                    under_way.append(pool.submit(mapper, item))
                    if len(under_way) >= buffer_size:
                        yield from ended()
                while under_way:
                    yield from ended()
            finally:
                for future in under_way:
                    future.cancel()

    return samples
