"""Data generators: a subclass says what a line of raw data becomes, and the generator writes it as slots."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded

__all__ = ["DataGenerator", "MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]

Sample = Iterable[tuple[str, list[Any]]]


class DataGenerator(Guarded):
    """Base of data generators: a subclass defines ``generate_sample``, and ``generate_batch`` where samples are made
    of several others.
    """

    def __init__(self) -> None:
        self.batch_size_ = 32
        self._proto_info: list[tuple[str, str]] | None = None

    def set_batch(self, batch_size: int) -> None:
        """Set how many samples ``generate_batch`` gets.

        Args:
            batch_size: The number, 32 unless it is set.
        """
        if not isinstance(batch_size, int) or batch_size < 1:
            raise errors.bad(f"{type(self).__name__}.set_batch(batch_size)", "a positive integer", batch_size)
        self.batch_size_ = batch_size

    def generate_sample(self, line: str | None) -> Callable[[], Iterator[Sample]]:
        """Return a function that yields the samples of a line; a subclass defines it.

        Args:
            line: A line of the input, None for ``run_from_memory``.

        Returns:
            A function without arguments that returns an iterator over samples: lists of pairs of a name and its values.
        """
        raise errors.missing_method(self, "generate_sample")

    def generate_batch(self, samples: list[Sample]) -> Callable[[], Iterator[Sample]]:
        """Return a function that yields the samples of a batch: those that are given, unless a subclass does more.

        Args:
            samples: Samples of ``generate_sample``.

        Returns:
            A function without arguments that returns an iterator over samples.
        """

        def local_iter() -> Iterator[Sample]:
            yield from samples

        return local_iter

    def run_from_memory(self) -> None:
        """Write what ``generate_sample(None)`` yields to the standard output."""
        self._write(self.generate_sample(None)())

    def run_from_stdin(self) -> None:
        """Write what ``generate_sample`` yields for each line of the standard input to the standard output."""
        self._write(sample for line in sys.stdin for sample in self.generate_sample(line)())

    def _write(self, samples: Iterable[Any]) -> None:
        batch: list[Any] = []
        for sample in samples:
            if sample is None:
                continue
            batch.append(sample)
            if len(batch) == self.batch_size_:
                self._write_batch(batch)
                batch = []
        if batch:
            self._write_batch(batch)

    def _write_batch(self, batch: list[Any]) -> None:
        for sample in self.generate_batch(batch)():
            sys.stdout.write(self._gen_str(sample))

    def _gen_str(self, line: Any) -> str:
        raise errors.missing_method(self, "_gen_str")

    def _pairs(self, line: Any) -> list[tuple[str, list[Any]]]:
        """A sample as a list of names and values."""
        line = list(line) if isinstance(line, zip) else line
        where = f"{type(self).__name__}.generate_sample()"
        if not isinstance(line, (list, tuple)):
            raise errors.bad(where, "lists of pairs, as [('words', [19, 8]), ('label', [1])]", line)
        for pair in line:
            fits = isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)
            if not fits or not isinstance(pair[1], list):
                raise errors.bad(where, "pairs of a name and a list of values", pair)
        return [(name, values) for name, values in line]


class MultiSlotStringDataGenerator(DataGenerator):
    """A data generator whose values are texts already: they are written as they are.

    Examples:
        >>> class Words(bireme.distributed.fleet.MultiSlotStringDataGenerator):
        ...     def generate_sample(self, line):
        ...         def samples():
        ...             yield [("words", ["19", "08"]), ("label", ["1"])]
        ...         return samples
        >>> Words().run_from_memory()
        2 19 08 1 1
    """

    def _gen_str(self, line: Any) -> str:
        return " ".join(word for _, values in self._pairs(line) for word in (str(len(values)), *values)) + "\n"


class MultiSlotDataGenerator(DataGenerator):
    """A data generator whose values are numbers.

    Examples:
        >>> class Words(bireme.distributed.fleet.MultiSlotDataGenerator):
        ...     def generate_sample(self, line):
        ...         def samples():
        ...             yield [("words", [1926, 8, 17]), ("score", [0.5])]
        ...         return samples
        >>> Words().run_from_memory()
        3 1926 8 17 1 0.5
    """

    def _gen_str(self, line: Any) -> str:
        pairs, where = self._pairs(line), f"{type(self).__name__}.generate_sample()"
        kinds = [(name, "float" if any(isinstance(v, float) for v in values) else "uint64") for name, values in pairs]
        known = self._proto_info
        if known is not None and [name for name, _ in known] != [name for name, _ in kinds]:
            raise errors.bad(where, f"the slots {[name for name, _ in known]}", [name for name, _ in kinds])
        for name, values in pairs:
            if not values:
                raise errors.bad(where, f"values of {name}; pad a sample that has none", values)
            for value in values:
                if isinstance(value, bool) or not isinstance(value, (int, float)):
                    raise errors.bad(where, f"numbers in {name}", value, kind=errors.ArgumentTypeError)
        if known is not None:
            kinds = [(name, "float" if "float" in (a, b) else a) for (name, a), (_, b) in zip(known, kinds)]
        self._proto_info = kinds
        return " ".join(str(word) for _, values in pairs for word in (len(values), *values)) + "\n"
