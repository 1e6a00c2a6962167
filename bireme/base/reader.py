"""Names that code written for Paddle takes from `paddle.base.reader`: batches from generators of the user."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.device import Device
from bireme.core.tensor.tensor import Tensor

__all__ = ["DataLoader", "GeneratorLoader", "PyReader", "use_pinned_memory"]

_pinned = [True]


def use_pinned_memory(*args: bool) -> bool | None:
    """Say whether batches wait in memory that GPUs read directly, or ask; copies to a device are XLA's own either way.

    Args:
        *args: Nothing to ask, or one bool to set.

    Returns:
        The setting, or None if it was set.

    Examples:
        >>> bireme.base.reader.use_pinned_memory()
        True
    """
    if not args:
        return _pinned[0]
    _pinned[0] = bool(args[0])
    return None


class GeneratorLoader:
    """Batches of what a generator yields: samples, lists of samples, or whole batches of arrays.

    >>> loader = bireme.base.reader.DataLoader.from_generator(capacity=2)
    >>> loader = loader.set_sample_generator(lambda: ([float(i), i] for i in range(5)), batch_size=2)
    >>> [[x.tolist(), y.tolist()] for x, y in loader]
    [[[0.0, 1.0], [0, 1]], [[2.0, 3.0], [2, 3]]]
    """

    def __init__(self) -> None:
        self._read: Callable[[], Iterable] | None = None
        self._device: Device = devices.current()

    def _set(self, read: Callable[[], Iterable], places: Any, where: str) -> GeneratorLoader:
        place = places[0] if isinstance(places, (list, tuple)) else places
        self._read = read
        self._device = devices.current() if place is None else devices.parse(place, f"{where}(places)")
        return self

    def set_sample_generator(
        self, reader: Callable[[], Iterable], batch_size: int, drop_last: bool = True, places: Any = None
    ) -> GeneratorLoader:
        """Take samples, one by one, and put `batch_size` of them together.

        >>> loader = bireme.base.reader.DataLoader.from_generator(capacity=1)
        >>> [x.shape for (x,) in loader.set_sample_generator(lambda: [[0.5]] * 3, 2, drop_last=False)]
        [[2], [1]]
        """

        def batches() -> Iterator[list]:
            rest = iter(reader())
            while chunk := list(itertools.islice(rest, batch_size)):
                if len(chunk) == batch_size or not drop_last:
                    yield chunk

        return self.set_sample_list_generator(batches, places)

    def set_sample_list_generator(self, reader: Callable[[], Iterable], places: Any = None) -> GeneratorLoader:
        """Take lists of samples, each a batch.

        >>> loader = bireme.base.reader.DataLoader.from_generator(capacity=1)
        >>> [x.tolist() for (x,) in loader.set_sample_list_generator(lambda: [[[1], [2]]])]
        [[1, 2]]
        """
        return self._set(
            lambda: ([np.stack([np.asarray(v) for v in field]) for field in zip(*batch)] for batch in reader()),
            places,
            "reader",
        )

    def set_batch_generator(self, reader: Callable[[], Iterable], places: Any = None) -> GeneratorLoader:
        """Take batches of arrays as they are.

        >>> loader = bireme.base.reader.DataLoader.from_generator(capacity=1)
        >>> [x.tolist() for (x,) in loader.set_batch_generator(lambda: [[[1, 2]]])]
        [[1, 2]]
        """
        return self._set(reader, places, "reader")

    def __iter__(self) -> Iterator[list[Tensor]]:
        if self._read is None:
            raise errors.bad(
                "DataLoader()", "a generator, by set_sample_generator or another", None, kind=errors.ArgumentError
            )
        for batch in self._read():
            if not isinstance(batch, (list, tuple)):
                raise errors.bad("DataLoader()", "a generator of lists of arrays", batch)
            yield [x if isinstance(x, Tensor) else Tensor(np.asarray(x), place=self._device.place) for x in batch]

    def __call__(self) -> Iterator[list[Tensor]]:
        return iter(self)


class DataLoader:
    """Where Paddle's older code makes a loader of a generator."""

    @staticmethod
    def from_generator(
        feed_list: Any = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """A loader that is still to be given its generator.

        >>> len(list(bireme.base.reader.DataLoader.from_generator(capacity=4).set_batch_generator(lambda: [[[1.0]]])))
        1
        """
        if capacity is None:
            raise errors.bad(
                "from_generator(capacity)",
                "a positive integer",
                None,
                hint="Please give value to capacity.",
                kind=errors.for_integer(None),
            )
        return GeneratorLoader()


class PyReader(GeneratorLoader):
    """A loader of a generator under its oldest name.

    >>> reader = bireme.base.reader.PyReader(capacity=1)
    >>> reader.decorate_batch_generator(lambda: [[[1.0]]]); [x.tolist() for (x,) in reader()]
    [[1.0]]
    """

    def __init__(
        self,
        feed_list: Any = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ):
        super().__init__()

    def decorate_sample_generator(
        self, sample_generator: Callable[[], Iterable], batch_size: int, drop_last: bool = True, places: Any = None
    ) -> None:
        """As `set_sample_generator`."""
        self.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader: Callable[[], Iterable], places: Any = None) -> None:
        """As `set_sample_list_generator`."""
        self.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader: Callable[[], Iterable], places: Any = None) -> None:
        """As `set_batch_generator`."""
        self.set_batch_generator(reader, places)
