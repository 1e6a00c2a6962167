"""Datasets of slot files, for ``Executor.train_from_dataset``: read while training, or held in memory and shuffled."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.program.variable import Variable
from bireme.distributed import programs
from bireme.distributed.fleet.dataset.slots import Columns, joined, parsed, shaped
from bireme.static.dense_tensor import DenseTensor

__all__ = ["DatasetBase", "InMemoryDataset", "QueueDataset"]

LINES = 4096  # that are parsed together
SETTINGS = {
    "batch_size", "thread_num", "use_var", "pipe_command", "input_type", "fs_name", "fs_ugi", "download_cmd", "uid_slot",
}  # fmt: skip
IN_MEMORY = {
    "queue_num", "merge_size", "parse_ins_id", "parse_content", "fleet_send_batch_size", "fleet_send_sleep_seconds",
    "fea_eval", "candidate_size", "data_feed_type", "bucket_size", "pv_batch_size",
}  # fmt: skip


class DatasetBase(Guarded):
    """Base of datasets of slot files.

    A line is a sample. For each variable of ``use_var``, in their order, it has a count and as many values.
    """

    _known = SETTINGS

    def __init__(self) -> None:
        self.filelist: list[str] = []
        self.use_var: list[Variable] = []
        self.batch_size, self.thread_num, self.pipe_command = 1, 1, "cat"
        self._skipped = 0

    def init(self, **kwargs: Any) -> None:
        """Set the options.

        Args:
            **kwargs: ``batch_size``: samples of a batch, 1 by default. ``use_var``: the variables that slots are for.
                ``pipe_command``: a command that each file is piped through, without a shell; ``'cat'``, the default,
                reads it as it is. ``thread_num``, ``input_type``, ``fs_name``, ``fs_ugi``, ``download_cmd`` and
                ``uid_slot`` have no effect.

        Raises:
            ValueError: If an option is unknown or has a value that is not allowed.
        """
        self._set({"batch_size": 1, "thread_num": 1, "use_var": [], "pipe_command": "cat", **kwargs})

    def _set(self, options: dict[str, Any]) -> None:
        where = type(self).__name__
        for name, value in options.items():
            if name not in self._known:
                raise errors.bad(f"{where}({name})", f"one of {', '.join(sorted(self._known))}", described=f"'{name}'")
            if name in ("batch_size", "thread_num") and (type(value) is not int or value < 1):
                raise errors.bad(f"{where}({name})", "a positive integer", value)
            if name == "pipe_command" and not isinstance(value, str):
                raise errors.bad(f"{where}(pipe_command)", "a command", value, kind=errors.ArgumentTypeError)
            if name == "use_var":
                self._check_variables(value)
            setattr(self, name, value)

    def _check_variables(self, given: Any) -> None:
        for var in given if isinstance(given, (list, tuple)) else [given]:
            if not isinstance(var, Variable) or var.dtype.name not in ("int64", "int32", "float32", "float64"):
                expected = "a list of variables of int64, int32, float32 or float64"
                raise errors.bad(f"{type(self).__name__}(use_var)", expected, var, kind=errors.ArgumentTypeError)

    def set_filelist(self, filelist: Sequence[str]) -> None:
        """Set the files.

        Args:
            filelist: Their names.

        Raises:
            ValueError: If it is no list of names.
        """
        if not isinstance(filelist, (list, tuple)) or not all(isinstance(name, str) for name in filelist):
            raise errors.bad(f"{type(self).__name__}.set_filelist(filelist)", "a list of names", filelist)
        self.filelist = list(filelist)

    # ------------------------------------------------------------ reading

    def _read(self) -> Iterator[Columns]:
        """The samples of all files, some at a time."""
        if not self.use_var:
            raise errors.bad(type(self).__name__, "use_var, the variables of its slots", described="none")
        dtypes = [var.dtype.np for var in self.use_var]
        for path in self.filelist:
            with open(path, "rb") as file, self._piped(path, file) as lines:
                at = 1
                while True:
                    some = list(itertools.islice(lines, LINES))
                    if not some:
                        break
                    yield parsed(path, at, some, dtypes, self._skipped)
                    at += len(some)

    def _piped(self, path: str, file: IO[bytes]) -> Any:
        if self.pipe_command.strip() == "cat":
            return file
        return programs.piped(f"{type(self).__name__}(pipe_command)", self.pipe_command, file)

    def _samples(self) -> Iterator[Columns]:
        raise errors.missing_method(self, "_samples")

    def _batches(self) -> Iterator[dict[str, Any]]:
        """What each batch feeds; the last one may be smaller."""
        held: list[Columns] = []
        count = 0
        for part in self._samples():
            held.append(part)
            count += len(part)
            if count < self.batch_size:
                continue
            whole, at = joined(held), 0
            while count - at >= self.batch_size:
                yield self._feed(whole.taken(np.arange(at, at + self.batch_size)))
                at += self.batch_size
            held = [whole.taken(np.arange(at, count))] if at < count else []
            count -= at
        if count:
            yield self._feed(joined(held))

    def _feed(self, batch: Columns) -> dict[str, Any]:
        fed: dict[str, Any] = {}
        for var, counts, values in zip(self.use_var, batch.counts, batch.values, strict=True):
            array, lengths = shaped(var, counts, values)
            if lengths is not None:
                made = DenseTensor()
                made.set(array)
                made.set_recursive_sequence_lengths([lengths.tolist()])
                fed[var.name] = made
            else:
                fed[var.name] = array.astype(var.dtype.np, copy=False)
        return fed


class QueueDataset(DatasetBase):
    """A dataset of slot files that are read while training, in their order.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 2])
        >>> dataset = bireme.distributed.QueueDataset()
        >>> dataset.init(batch_size=2, use_var=[x])
        >>> dataset.set_filelist([])
        >>> bireme.disable_static()
    """

    def _samples(self) -> Iterator[Columns]:
        return self._read()


class InMemoryDataset(DatasetBase):
    """A dataset of slot files that is read into memory, where it can be shuffled.

    Examples:
        >>> import os, tempfile
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 2])
        ...     label = bireme.static.data("label", [None, 1], "int64")
        >>> dataset = bireme.distributed.InMemoryDataset()
        >>> dataset.init(batch_size=2, use_var=[x, label])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "part-0")
        ...     with open(path, "w") as file:
        ...         _ = file.write("2 0.5 1.5 1 7\\n2 2.5 3.5 1 8\\n")
        ...     dataset.set_filelist([path])
        ...     dataset.load_into_memory()
        >>> dataset.get_memory_data_size()
        2
        >>> bireme.disable_static()
    """

    _known = SETTINGS | IN_MEMORY

    def __init__(self) -> None:
        super().__init__()
        self._held: Columns | None = None
        self._loading: threading.Thread | None = None
        self._failed: Exception | None = None
        self.parse_ins_id = self.parse_content = False
        self.fleet_send_batch_size = 1024

    def init(self, **kwargs: Any) -> None:
        """Set the options.

        Args:
            **kwargs: Those of ``QueueDataset``, and ``parse_ins_id`` and ``parse_content``: whether each line begins
                with a name of the sample, and its content, each as a count and a word. ``fleet_send_batch_size``:
                samples that ``global_shuffle`` exchanges together, 1024 by default. ``queue_num``, ``merge_size``,
                ``fleet_send_sleep_seconds``, ``fea_eval``, ``candidate_size`` and ``data_feed_type`` have no effect.

        Raises:
            ValueError: If an option is unknown or has a value that is not allowed.
        """
        super().init(**kwargs)
        self._skipped = int(self.parse_ins_id) + int(self.parse_content)

    def update_settings(self, **kwargs: Any) -> None:
        """Change options.

        Args:
            **kwargs: Those of ``init``.
        """
        self._set(kwargs)
        self._skipped = int(self.parse_ins_id) + int(self.parse_content)

    def set_date(self, date: str) -> None:
        """Say of which day the data is; it has no effect on them.

        Args:
            date: The day, as ``'20240131'``.
        """
        if not isinstance(date, str) or len(date) != 8 or not date.isdigit():
            raise errors.bad("InMemoryDataset.set_date(date)", "a day, as '20240131'", date)
        self._date = date

    # ------------------------------------------------------------ memory

    def load_into_memory(self, is_shuffle: bool = False) -> None:
        """Read all files.

        Args:
            is_shuffle: Shuffle the samples then. Default: False.

        Raises:
            ValueError: If a file has something else than slots; the message names the file.
        """
        parts = list(self._read())
        none = Columns([np.zeros(0, np.int64) for _ in self.use_var], [np.zeros(0, v.dtype.np) for v in self.use_var])
        self._held = joined(parts) if parts else none
        if is_shuffle:
            self.local_shuffle()

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Begin to read all files, beside what goes on.

        Args:
            thread_num: Has no effect.
        """

        def load() -> None:
            try:
                self.load_into_memory()
            except (ValueError, OSError, RuntimeError) as e:  # told by wait_preload_done
                self._failed = e

        self._loading = threading.Thread(target=load, name="bireme-dataset", daemon=True)
        self._loading.start()

    def wait_preload_done(self) -> None:
        """Wait until ``preload_into_memory`` has read all files.

        Raises:
            ValueError: What reading has raised.
        """
        if self._loading is not None:
            self._loading.join()
            self._loading = None
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed

    def _memory(self, where: str) -> Columns:
        if self._held is None:
            expected = "a call of load_into_memory() before"
            raise errors.bad(f"InMemoryDataset.{where}()", expected, described="none", kind=RuntimeError)
        return self._held

    def release_memory(self) -> None:
        """Drop all samples."""
        self._held = None

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """Return the number of samples.

        Args:
            fleet: ``fleet``, for those of all workers together. Default: None, of this one.

        Returns:
            The number.
        """
        size = len(self._memory("get_memory_data_size"))
        return size if fleet is None else int(np.asarray(fleet.util.all_reduce([size], "sum"))[0])

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """Return the number of samples after shuffling.

        Args:
            fleet: ``fleet``, for those of all workers together. Default: None, of this one.

        Returns:
            The number.
        """
        return self.get_memory_data_size(fleet)

    def _samples(self) -> Iterator[Columns]:
        yield self._memory("_samples")

    # ------------------------------------------------------------ order

    def local_shuffle(self) -> None:
        """Shuffle the samples of this worker, by NumPy's generator."""
        held = self._memory("local_shuffle")
        self._held = held.taken(_permutation(len(held)))

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """Shuffle the samples of all workers: each goes to a worker by chance. All workers have to call it.

        Args:
            fleet: ``fleet``. Default: None, those of this worker alone.
            thread_num: Has no effect.
        """
        held = self._memory("global_shuffle")
        workers = 1 if fleet is None else fleet.worker_num()
        if workers > 1:
            gather, own = fleet.util.role_maker._all_gather, fleet.worker_index()
            to = _random(workers, len(held))
            most = max(gather(len(held)))
            got = []
            for start in range(0, most, self.fleet_send_batch_size):
                which = np.arange(start, max(min(start + self.fleet_send_batch_size, len(held)), start))
                for arrays in gather([to[which], *held.taken(which).arrays()]):
                    part = Columns(list(arrays[1::2]), list(arrays[2::2]))
                    got.append(part.taken(np.flatnonzero(arrays[0] == own)))
            self._held = joined(got) if got else held
        self.local_shuffle()

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Shuffle the values of some slots among the samples: what a model loses by it is what they are worth.

        Args:
            slots: Names of the variables.

        Raises:
            ValueError: If there is no such variable.
        """
        held, names = self._memory("slots_shuffle"), [var.name for var in self.use_var]
        for name in slots:
            if name not in names:
                raise errors.bad("InMemoryDataset.slots_shuffle(slots)", f"names among {', '.join(names)}", name)
            at = names.index(name)
            one = Columns([held.counts[at]], [held.values[at]]).taken(_permutation(len(held)))
            held.counts[at], held.values[at] = one.counts[0], one.values[0]


def _permutation(n: int) -> np.ndarray:
    return np.random.permutation(n)  # noqa: NPY002 - whoever seeds NumPy's generator decides


def _random(high: int, n: int) -> np.ndarray:
    return np.random.randint(0, high, n)  # noqa: NPY002 - the same generator
