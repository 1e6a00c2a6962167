"""bireme.io: datasets, samplers, the DataLoader in this process and with workers, and what happens when one of them
fails.
"""

import collections
import gc
import importlib
import json
import math
import multiprocessing
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import io
from bireme.io import launch, memory, pool, worker
from tests.processes import started

ROOT = Path(__file__).resolve().parent.parent
Pair = collections.namedtuple("Pair", "a b")

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


class Numbers(io.Dataset):
    """Sample i is (an image full of i, i)."""

    def __init__(self, n=10, size=4):
        self.n, self.size = n, size

    def __getitem__(self, i):
        return np.full((3, self.size, self.size), i, np.float32), i

    def __len__(self):
        return self.n


class Each(io.Dataset):
    """Sample i is what a function of the module gives for it."""

    def __init__(self, function, n=4):
        self.function, self.n = function, n

    def __getitem__(self, i):
        return self.function(i)

    def __len__(self):
        return self.n


class Stream(io.IterableDataset):
    """The numbers below n, a share of them in each worker."""

    def __init__(self, n):
        self.start, self.end = 0, n

    def __iter__(self):
        info = io.get_worker_info()
        if info is None:
            return iter(range(self.start, self.end))
        assert info.dataset is self
        share = math.ceil((self.end - self.start) / info.num_workers)
        first = self.start + info.id * share
        return iter(range(first, min(first + share, self.end)))


def who(i):
    info = io.get_worker_info()
    return {"pid": os.getpid(), "worker": info.id, "workers": info.num_workers, "seed": info.seed}


def pid(i):
    return os.getpid()


def noise(i):
    return np.array([np.random.rand(), random.random()])  # noqa: NPY002 - what transforms do


def fails_at_five(i):
    if i == 5:
        raise ValueError(f"sample {i} is broken")
    return i


class OnlyHere(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def fails_oddly(i):
    raise OnlyHere(1, 2)


def leaves(i):
    os._exit(3)


def waits_for_ever(i):
    if i > 0:
        threading.Event().wait()
    return os.getpid()


def facts(i):
    """What a worker must not have: jax's backend and its threads."""
    from jax._src import xla_bridge

    return np.array([len(xla_bridge._backends), sys.modules["jax"].config.jax_platforms == "cpu"])


def growing(i):
    return np.full((10 * 4**i, 50), i, np.float64)


def mixed(i):
    return {
        "image": np.full((64, 64), i, np.uint8),
        "text": f"t{i}",
        "pair": Pair(i, np.float64(i)),
        "deep": [(i, {"x": np.float32(i)})],
    }


def tensors(i):
    return bireme.to_tensor([float(i), 1.0]), bireme.full([2], i, "bfloat16")


def worker_started(number):
    io.get_worker_info().dataset.start = 100 * number
    io.get_worker_info().dataset.end = 100 * number + 3


def own_seed(number):
    np.random.seed(1000 + number)  # noqa: NPY002 - the usual worker_init_fn


def as_text(batch):
    return [str(sample) for sample in batch], np.array(batch)


def as_list(batch):
    return list(batch)


def shape_of(batch):
    """The structure of a batch, to compare."""
    if isinstance(batch, bireme.Tensor):
        return batch.dtype.name, batch.tolist()
    if isinstance(batch, dict):
        return {k: shape_of(v) for k, v in batch.items()}
    return [shape_of(v) for v in batch] if isinstance(batch, list) else batch


def labels(loader):
    return [batch[1].tolist() for batch in loader]


def ended(pids, seconds=5.0):
    """Whether all of these processes end in time; waits for the event itself."""
    until = time.monotonic() + seconds
    for number in pids:
        try:
            fd = os.pidfd_open(number)
        except ProcessLookupError:
            continue
        try:
            if not select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]:
                return False
        finally:
            os.close(fd)
    return True


# ---------------------------------------------------------------- datasets


@pytest.fixture
def numpy_unseeded(monkeypatch):
    """As in a process in which nobody called np.random.seed."""
    monkeypatch.setattr(bireme.io.order, "numpy_was_seeded", lambda: False)


def test_a_dataset_says_what_a_subclass_has_to_give():
    with pytest.raises(NotImplementedError, match="__getitem__"):
        io.Dataset()[0]
    with pytest.raises(NotImplementedError, match="__len__"):
        len(io.Dataset())
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(io.IterableDataset())
    with pytest.raises(RuntimeError, match=r"IterableDataset\.__len__: expected iteration.*, got a call of __len__"):
        len(io.IterableDataset())
    with pytest.raises(RuntimeError, match=r"IterableDataset\.__getitem__: expected iteration"):
        io.IterableDataset()[0]
    assert io.Dataset[int] is io.Dataset


def test_tensor_dataset():
    data = io.TensorDataset([bireme.to_tensor([[1.0], [2.0], [3.0]]), bireme.to_tensor([4, 5, 6])])
    assert len(data) == 3
    assert [t.tolist() for t in data[2]] == [[3.0], 6]
    with pytest.raises(AssertionError, match=r"equal length, got lengths \[1, 2\]"):
        io.TensorDataset([bireme.zeros([1]), bireme.zeros([2])])
    part = io.Subset(data, [2, 0])
    [batch] = io.DataLoader(part, batch_size=2)
    assert shape_of(batch) == [("float32", [[3.0], [1.0]]), ("int64", [6, 4])]


def test_compose_and_concat():
    both = io.ComposeDataset([Each(lambda i: (i, -i)), Each(lambda i: [10 * i]), Each(lambda i: "s")])
    assert both[3] == (3, -3, 30, "s")
    joined = io.ConcatDataset([range(3), [7, 8]])
    assert [joined[i] for i in range(-5, 5)] == [0, 1, 2, 7, 8, 0, 1, 2, 7, 8]
    assert joined.cumulative_sizes == [3, 5]
    for bad in (5, -6):
        with pytest.raises((IndexError, ValueError), match=r"\[-5, 4\]"):
            joined[bad]
    assert list(io.ChainDataset([Stream(2), Stream(3)])) == [0, 1, 0, 1, 2]
    for make in (io.ComposeDataset, io.ConcatDataset, io.ChainDataset):
        with pytest.raises(AssertionError, match="at least one"):
            make([])
    with pytest.raises(AssertionError, match="equal length"):
        io.ComposeDataset([Numbers(3), Numbers(4)])
    with pytest.raises(AssertionError, match="__getitem__"):
        io.ComposeDataset([Stream(3)])
    with pytest.raises(AssertionError, match="ChainDataset"):
        io.ConcatDataset([Stream(3)])
    with pytest.raises(AssertionError, match="IterableDataset"):
        io.ChainDataset([Numbers(3)])


def test_random_split(numpy_unseeded):
    parts = io.random_split(range(10), [3, 7])
    assert [len(p) for p in parts] == [3, 7]
    assert sorted(p[i] for p in parts for i in range(len(p))) == list(range(10))
    assert [len(p) for p in io.random_split(range(10), [0.33, 0.33, 0.34])] == [4, 3, 3]
    bireme.seed(4)
    first = io.random_split(range(10), [5, 5])[0].indices
    bireme.seed(4)
    assert io.random_split(range(10), [5, 5])[0].indices == first
    with pytest.raises(ValueError, match="sum to 10"):
        io.random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match=r"lengths\[0\]"):
        io.random_split(range(10), [1.5, -0.5])
    with pytest.warns(UserWarning, match="part 1 of 2 has no samples"):
        io.random_split(range(1), [0.5, 0.5])


# ---------------------------------------------------------------- samplers


def test_samplers():
    assert list(io.SequenceSampler(range(3))) == [0, 1, 2]
    assert sorted(io.RandomSampler(range(20))) == list(range(20))
    assert (
        len(list(io.RandomSampler(range(5), replacement=True, num_samples=9)))
        == len(io.RandomSampler(range(5), True, 9))
        == 9
    )
    assert list(io.RandomSampler(range(5), generator=iter([3, 1]))) == [3, 1]
    assert sorted(io.SubsetRandomSampler([4, 9, 2])) == [2, 4, 9]
    weighted = io.WeightedRandomSampler(bireme.to_tensor([[0.0, 1.0], [1.0, 0.0]]), 3)
    assert list(weighted) == [1, 1, 1, 0, 0, 0]
    assert len(weighted) == 6
    assert sorted(io.WeightedRandomSampler([1, 2, 3], 3, replacement=False)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: io.RandomSampler(range(3), 1), TypeError, "True or False"),
        (lambda: io.RandomSampler(range(3), False, 4), ValueError, "at most 3"),
        (lambda: io.RandomSampler(range(0)), ValueError, "positive integer"),
        (lambda: io.WeightedRandomSampler([1.0], 0), ValueError, "positive integer"),
        (lambda: list(io.WeightedRandomSampler([-1.0, 2.0], 1)), AssertionError, "non-negative"),
        (lambda: list(io.WeightedRandomSampler([math.nan, 2.0], 1)), AssertionError, "finite"),
        (lambda: list(io.WeightedRandomSampler([0.0, 2.0], 2, False)), AssertionError, "at least 2 positive"),
        (lambda: io.SubsetRandomSampler([]), ValueError, "at least one"),
        (lambda: io.BatchSampler(), AssertionError, "either a dataset or a sampler"),
        (lambda: io.BatchSampler(range(3), range(3)), AssertionError, "either"),
        (lambda: io.BatchSampler(sampler=range(3), shuffle=True), AssertionError, "sampler decides"),
        (lambda: io.BatchSampler(range(3), batch_size=0), AssertionError, "positive integer"),
        (lambda: io.BatchSampler(Stream(3)), AssertionError, "length"),
        (lambda: io.DistributedBatchSampler(range(3), 0), AssertionError, "positive integer"),
        (lambda: io.DistributedBatchSampler(range(3), 1, rank=-1), AssertionError, r"in \[0, 0\]"),
        (lambda: io.DataLoader(range(3), num_workers=-1), AssertionError, "num_workers"),
        (lambda: io.DataLoader(range(3), batch_size=0), AssertionError, "batch_size"),
        (lambda: io.DataLoader(range(3), prefetch_factor=0), AssertionError, "prefetch_factor"),
        (lambda: io.DataLoader(range(3), timeout=-1), AssertionError, "timeout"),
        (lambda: io.DataLoader(range(3), batch_sampler=[[0]], batch_size=2), AssertionError, "batch_sampler"),
        (lambda: io.DataLoader(Stream(3), shuffle=True), ValueError, "IterableDataset"),
        (lambda: io.DataLoader(Stream(3), batch_sampler=[[0]]), ValueError, "IterableDataset"),
        (lambda: len(io.DataLoader(Stream(3))), ValueError, "length"),
        (lambda: io.DataLoader(range(3)).set_state_dict({}), TypeError, "state_dict"),
    ],
)
def test_bad_arguments(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


def test_batch_samplers():
    assert list(io.BatchSampler(range(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert len(io.BatchSampler(range(5), batch_size=2)) == 3
    assert list(io.BatchSampler(sampler=[4, 5, 6], batch_size=2)) == [[4, 5], [6]]


def test_distributed_batches_cover_everything_once(monkeypatch):
    for n, batch, ranks in ((11, 2, 3), (12, 3, 2), (4, 2, 5)):
        each = [io.DistributedBatchSampler(range(n), batch, ranks, r, shuffle=True) for r in range(ranks)]
        lists = [list(s) for s in each]
        assert {len(found) for found in lists} == {len(each[0])}
        assert set().union(*(i for found in lists for i in found)) == set(range(n))
        assert each[0].epoch == 1
    sampler = io.DistributedBatchSampler(range(8), 2, 2, 0, shuffle=True)
    first, second = list(sampler), list(sampler)
    sampler.set_epoch(0)
    assert list(sampler) == first != second
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "4")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "3")
    assert list(io.DistributedBatchSampler(range(8), 2)) == [[6, 7]]


def test_batches_of_similar_length():
    lengths = np.random.RandomState(0).randint(1, 500, 1000)
    batches = list(io.LengthBatchSampler(lengths, 8))
    assert sorted(i for b in batches for i in b) == list(range(1000))
    padded = sum(lengths[b].max() * len(b) for b in batches)
    plain = sum(lengths[i : i + 8].max() * 8 for i in range(0, 1000, 8))
    assert padded < 1.1 * lengths.sum() < plain
    assert len(io.LengthBatchSampler(lengths, 8)) == len(batches)
    assert [len(b) for b in io.LengthBatchSampler([1, 2, 3], 2, shuffle=False, drop_last=True)] == [2]


def test_order_follows_the_seed(numpy_unseeded):
    def order():
        return labels(io.DataLoader(Numbers(30), batch_size=4, shuffle=True))

    bireme.seed(1)
    a, b = order(), order()
    bireme.seed(1)
    assert (order(), order()) == (a, b)
    assert a != b


def test_a_seed_of_numpy_decides():
    """Then the order is the one that Paddle gives: a permutation drawn by np.random.choice."""
    bireme.seed(8)
    np.random.seed(3)  # noqa: NPY002 - the order is that of the global generator
    found = list(io.RandomSampler(range(10)))
    np.random.seed(3)  # noqa: NPY002 - the order is that of the global generator
    assert found == np.random.choice(np.arange(10), 10, replace=False).tolist()  # noqa: NPY002 - the order is that of the global generator


def test_an_epoch_of_numpys_order_goes_on_where_nobody_has_seeded_numpy(monkeypatch):
    bireme.seed(8)
    np.random.seed(3)  # noqa: NPY002 - the order is that of the global generator
    loader = io.DataLoader(Numbers(30), batch_size=4, shuffle=True)
    it = iter(loader)
    next(it)
    state, rest = loader.state_dict(), labels(it)
    monkeypatch.setattr(np.random, "get_bit_generator", np.random.MT19937)  # one that the system has seeded
    # whatever was resumed in this process before
    monkeypatch.setattr(bireme.io.order._Resumed, "numpy_was_seeded", False)
    assert not bireme.io.order.numpy_was_seeded()
    again = io.DataLoader(Numbers(30), batch_size=4, shuffle=True)
    again.set_state_dict(state)
    assert labels(again) == rest


# ---------------------------------------------------------------- what a batch is


@pytest.mark.parametrize("workers", [0, 1])
def test_structure_of_a_batch(workers):
    [batch, _] = io.DataLoader(Each(mixed), batch_size=2, num_workers=workers)
    assert shape_of(batch) == {
        "image": ("uint8", np.stack([np.full((64, 64), i) for i in (0, 1)]).tolist()),
        "text": ["t0", "t1"],
        "pair": [("int64", [0, 1]), ("float64", [0.0, 1.0])],
        "deep": [[("int64", [0, 1]), {"x": ("float32", [0.0, 1.0])}]],
    }
    [batch, _] = io.DataLoader(Each(tensors), batch_size=2, num_workers=workers)
    assert shape_of(batch) == [("float32", [[0.0, 1.0], [1.0, 1.0]]), ("bfloat16", [[0.0, 0.0], [1.0, 1.0]])]
    assert batch[0].stop_gradient


def test_fields():
    def one(f, **options):
        return shape_of(next(iter(io.DataLoader(Each(f), batch_size=2, **options))))

    assert one(lambda i: i) == ("int64", [0, 1])
    assert one(lambda i: 0.5) == ("float64", [0.5, 0.5])
    assert one(lambda i: True) == ("bool", [True, True])
    assert one(lambda i: np.bool_(1)) == ("bool", [True, True])
    assert one(lambda i: (np.float32(i),)) == [("float32", [0.0, 1.0])]
    assert one(lambda i: np.zeros((0, 3), np.float16)) == ("float16", [[], []])
    assert one(lambda i: np.array(1, np.int32) if i else np.array(1.5)) == ("float64", [1.5, 1.0])
    assert one(lambda i: "a") == ["a", "a"]
    assert one(lambda i: i, collate_fn=as_text) == [["0", "1"], ("int64", [0, 1])]
    assert one(lambda i: i, collate_fn=lambda batch: {"n": len(batch)}) == {"n": 2}
    tensors = one(
        lambda i: bireme.full([1], i), collate_fn=lambda batch: io.collate.default_collate_fn(batch).astype("int32")
    )
    assert tensors == ("int32", [[0], [1]])
    with pytest.raises(RuntimeError, match="equal numbers of fields, got samples of 1 and 2 fields"):
        one(lambda i: [1] * (i + 1))
    with pytest.raises(ValueError, match=r"\[1\] \(sample 0\) and \[2\] \(sample 1\)"):
        one(lambda i: np.zeros(i + 1))
    with pytest.raises(TypeError, match=r"got None \(sample 0\)"):
        one(lambda i: None)


def test_no_batches():
    samples = list(io.DataLoader(Each(lambda i: (np.full(2, i), i, "s")), batch_size=None))
    assert shape_of(samples[1]) == [("int64", [1, 1]), 1, "s"]
    assert len(io.DataLoader(range(4), batch_size=None)) == 4
    assert list(io.DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]


def test_a_batch_is_its_own():
    """Neither the dataset's arrays nor the shared memory may be seen through a batch."""
    array = np.zeros(4, np.float32)
    loader = io.DataLoader(Each(lambda i: array), batch_size=None)
    batch = next(iter(loader))
    array[:] = 7
    assert batch.tolist() == [0.0] * 4
    kept = [b[0] for b in io.DataLoader(Numbers(40, 64), batch_size=2, num_workers=1)]
    assert [t[0, 0, 0, 0].item() for t in kept] == list(range(0, 40, 2))


def test_placed(monkeypatch):
    [batch] = io.DataLoader(
        Numbers(2), places=[bireme.CPUPlace()], batch_size=2, return_list=False, feed_list=["x", "y"]
    )
    assert isinstance(batch, list)
    assert batch[0].place.is_cpu_place()
    with pytest.raises(ValueError, match="places"):
        io.DataLoader(Numbers(2), places="nowhere:1")


# ---------------------------------------------------------------- workers


def test_workers_keep_the_order():
    here = [shape_of(b) for b in io.DataLoader(Numbers(23), batch_size=4)]
    for options in (
        {},
        {"use_shared_memory": False},
        {"use_buffer_reader": False},
        {"prefetch_factor": 1, "drop_last": True},
    ):
        loader = io.DataLoader(Numbers(23), batch_size=4, num_workers=2, **options)
        assert len(loader) == len(iter(loader)) == len(here) - bool(options.get("drop_last"))
        assert [shape_of(b) for b in loader] == here[: len(loader)]


def test_workers_know_who_they_are_and_have_no_device():
    assert io.get_worker_info() is None
    batches = list(io.DataLoader(Each(who, 6), num_workers=3))
    assert [b["worker"].item() for b in batches] == [0, 1, 2, 0, 1, 2]
    assert len({b["pid"].item() for b in batches} - {os.getpid()}) == 3
    assert {b["workers"].item() for b in batches} == {3}
    [batch] = io.DataLoader(Each(facts, 1), num_workers=1)
    assert batch.tolist() == [[0, 1]]


def test_iterable_datasets_are_shared_out():
    assert [b.tolist() for b in io.DataLoader(Stream(5), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in io.DataLoader(Stream(5), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]
    loader = io.DataLoader(Stream(9), batch_size=2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert [b.tolist() for b in loader] == [[0, 1], [5, 6], [2, 3], [7, 8], [4]]
    own = io.DataLoader(Stream(0), num_workers=2, worker_init_fn=worker_started, batch_size=None)
    assert sorted(own) == [0, 1, 102]  # of three numbers from 100 * id, the share of each
    with pytest.raises(RuntimeError, match="Cannot assign"):
        pool.serve.__globals__["WorkerInfo"](id=0).id = 1


def test_large_and_growing_batches():
    assert [b.shape[1] for b in io.DataLoader(Each(growing, 6), num_workers=1)] == [10 * 4**i for i in range(6)]
    assert all((b.numpy() == i).all() for i, b in enumerate(io.DataLoader(Each(growing, 6), num_workers=2)))


def test_the_dataset_travels_once_and_as_it_is():
    """Its arrays are mapped, not copied, into each worker; what a worker writes there stays there."""
    data = np.arange(100_000.0)
    fd = memory.anonymous()
    parcel = memory.pack(fd, {"a": data, "b": [1, "x"]})
    assert parcel.parts[0][1] < 1000 < parcel.parts[1][1]
    one, two = (memory.unpack(os.dup(fd), parcel) for _ in range(2))
    one["a"][0] = -1
    os.close(fd)
    assert two["a"][0] == 0
    np.testing.assert_array_equal(one["a"][1:], data[1:])
    assert one["b"] == [1, "x"]


@pytest.mark.parametrize("name", ["__main__", "__mp_main__"])
def test_a_dataset_of_the_running_script_is_known(name, monkeypatch):
    """Workers import the script for it; a process that multiprocessing has spawned has it under the second name."""
    module = types.ModuleType(name)
    module.Mine = type("Mine", (), {"__module__": name})
    monkeypatch.setitem(sys.modules, name, module)
    fd = memory.anonymous()
    parcel = memory.pack(fd, module.Mine())
    os.close(fd)
    assert parcel.main


def test_persistent_workers_stay():
    loader = io.DataLoader(Each(pid, 4), num_workers=2, persistent_workers=True)
    first, second = ([b.item() for b in loader] for _ in range(2))
    assert first == second
    it = iter(loader)
    next(it)  # given up in the middle: what it had asked for must not come into the next epoch
    assert [b.item() for b in loader] == first
    with pytest.raises(RuntimeError, match="ends the one before"):
        next(it)
    pids = set(first)
    del it, loader
    gc.collect()
    assert ended(pids)


def test_random_numbers_in_workers(numpy_unseeded):
    def read(workers, **options):
        bireme.seed(7)
        return np.concatenate(
            [b.numpy() for b in io.DataLoader(Each(noise, 8), batch_size=2, num_workers=workers, **options)]
        )

    one = read(1)
    assert len(np.unique(one)) == 16
    np.testing.assert_array_equal(read(2), one)  # a batch draws the same whoever reads it
    seeded = read(2, worker_init_fn=own_seed)[:, 0]
    streams = [np.random.RandomState(1000 + k).rand(4) for k in range(2)]
    np.testing.assert_array_equal(
        seeded, np.concatenate([streams[0][:2], streams[1][:2], streams[0][2:], streams[1][2:]])
    )


def test_what_cannot_be_sent_is_read_by_threads():
    class Local(io.Dataset):
        def __getitem__(self, i):
            return np.array([i, io.get_worker_info().id])

        def __len__(self):
            return 4

    with pytest.warns(UserWarning, match="threads instead of processes") as told:
        found = [b.tolist() for b in io.DataLoader(Local(), num_workers=2)]
    assert told[0].filename == __file__
    assert found == [[[0, 0]], [[1, 1]], [[2, 0]], [[3, 1]]]
    with pytest.warns(UserWarning, match="1 thread instead"), pytest.raises(ZeroDivisionError, match="sample 0"):
        list(io.DataLoader(Each(lambda i: i // 0), num_workers=1))
    assert io.get_worker_info() is None


SLOWLY = """
import os, time
import numpy as np
while time.process_time() < 0.7:
    pass
IMPORTED_BY = os.getpid()

class Rows:
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return np.array([i, IMPORTED_BY, os.getpid()])
"""


def test_what_takes_long_to_import_is_imported_once(tmp_path, monkeypatch):
    (tmp_path / "slowly_imported.py").write_text(SLOWLY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(launch, "SLOW", 0.6)
    monkeypatch.setattr(launch, "_servers", list(launch._servers))
    monkeypatch.setattr(launch, "_imported", set())
    rows = importlib.import_module("slowly_imported").Rows()
    loader = io.DataLoader(rows, batch_size=2, num_workers=1)
    first = np.concatenate([b.numpy() for b in loader])
    assert (first[:, 1] == first[:, 2]).all(), "the first worker imports for itself"
    second = np.concatenate([b.numpy() for b in loader])
    assert (second[:, 1] != second[:, 2]).all() and len(set(second[:, 1])) == 1, (
        "the server has imported for the second"
    )
    assert launch._imported == {"slowly_imported", "bireme.io.collate"}
    assert np.array_equal(first[:, 0], second[:, 0])


def test_a_server_goes_on_where_an_import_fails(tmp_path, capfd):
    told = {"path": sys.path, "modules": ["no_such_module_anywhere", "colorsys"]}
    code = "import bireme.io.imports, sys; print('colorsys' in sys.modules)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "BIREME_WORKER_IMPORTS": json.dumps(told)})  # fmt: skip
    assert (
        done.stdout.strip() == "True" and "could not import no_such_module_anywhere: ModuleNotFoundError" in done.stderr
    )


def test_a_script_must_be_importable(tmp_path, monkeypatch):
    main = sys.modules["__main__"]
    for text, fine in (
        ("train()\n", False),
        ("def f(): ...\nif __name__ == '__main__':\n    f()\n", True),
        ("not python", False),
    ):
        (tmp_path / "script.py").write_text(text)
        monkeypatch.setattr(main, "__file__", str(tmp_path / "script.py"), raising=False)
        assert launch.script_can_be_imported() is fine
    monkeypatch.delattr(main, "__file__")
    assert not launch.script_can_be_imported()


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("shared", [True, False])
def test_an_error_in_a_worker_comes_back(shared):
    loader = io.DataLoader(Each(fails_at_five, 8), batch_size=2, num_workers=2, use_shared_memory=shared)
    it = iter(loader)
    assert [next(it).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(
        ValueError, match=r"(?s)worker\(0\) caught ValueError at sample 5.*in fails_at_five.*sample 5 is broken"
    ):
        next(it)
    assert next(it).tolist() == [6, 7]
    with pytest.raises(StopIteration):
        next(it)


def no_such_key(i):
    return {}[f"label {i}"]


def test_a_key_error_of_a_worker_is_shown_line_by_line():
    with pytest.raises(KeyError) as caught:
        list(io.DataLoader(Each(no_such_key), num_workers=1))
    assert any(line.endswith("in no_such_key") for line in str(caught.value).splitlines())


def test_errors_that_cannot_be_built_and_errors_of_the_start():
    with pytest.raises(RuntimeError, match=r"(?s)caught OnlyHere.*fails_oddly"):
        list(io.DataLoader(Each(fails_oddly), num_workers=1))
    with pytest.raises(ZeroDivisionError, match="worker_init"):
        list(io.DataLoader(Each(pid), num_workers=1, worker_init_fn=worker_init_breaks))
    with pytest.raises(RuntimeError, match="stopped with exit code 3"):
        list(io.DataLoader(Each(leaves), num_workers=1))


def worker_init_breaks(number):
    return 1 // number


def test_a_killed_worker_is_named_within_five_seconds():
    it = iter(io.DataLoader(Each(waits_for_ever, 4), num_workers=1))
    victim = next(it).item()
    start = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=rf"worker 0 \(pid {victim}\) was killed by signal 9 \(SIGKILL\)"):
        next(it)
    assert time.monotonic() - start < 5


def test_timeout():
    it = iter(io.DataLoader(Each(waits_for_ever, 4), num_workers=1, timeout=0.2))
    victim = waited(it)
    with pytest.raises(RuntimeError, match="timed out"):
        next(it)
    gc.collect()  # not on the clock: it goes over all that earlier tests have left
    start = time.monotonic()
    del it
    assert ended([victim])
    assert time.monotonic() - start < 5


def waited(it):
    """The first batch, however long the start takes on a busy machine."""
    while True:
        try:
            return next(it).item()
        except RuntimeError as error:
            assert "timed out" in str(error)


def test_nothing_is_left_after_twenty_epochs():
    loader = io.DataLoader(io.TensorDataset([bireme.zeros([8, 3, 80, 80])]), batch_size=2, num_workers=2)
    for batch in loader:
        assert batch[0].shape[0] == 2
    gc.collect()

    def held():
        return sorted(os.listdir("/proc/self/fd")), threading.active_count(), len(multiprocessing.active_children())

    before = held()
    shared = set(os.listdir("/dev/shm"))
    for epoch in range(20):
        for i, _ in enumerate(loader):
            if epoch % 2 and i == 1:
                break  # given up early
    gc.collect()
    assert held() == before
    assert set(os.listdir("/dev/shm")) <= shared


SCRIPT = """
import os, sys
import bireme
from bireme import io

class Slow(io.Dataset):
    def __getitem__(self, i):
        if i > 3:
            import threading
            threading.Event().wait()
        return os.getpid()
    def __len__(self):
        return 100

if __name__ == "__main__":
    stays = io.DataLoader(Slow(), num_workers=1, persistent_workers=True)
    kept = iter(stays)
    pids = [next(kept).item()]
    other = iter(io.DataLoader(Slow(), num_workers=2))
    pids += [next(other).item(), next(other).item()]
    print(*pids, flush=True)
    if sys.argv[1] == "wait":
        for batch in other:
            pass
    if sys.argv[1] == "daemon":
        import threading
        threading.Thread(target=list, args=(other,), daemon=True).start()
"""


def script(tmp_path, what):
    (tmp_path / "script.py").write_text(SCRIPT)
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(tmp_path / "script.py"), what]
    return started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True)


@pytest.mark.full
def test_exit_with_open_iterators(tmp_path):
    with script(tmp_path, "end") as run:
        pids = [int(n) for n in run.stdout.readline().split()]
        assert len(pids) == 3
        _, said = run.communicate(timeout=60)
        assert (run.returncode, said) == (0, "")
        assert ended(pids)


def test_a_daemon_that_waits_for_a_batch_says_nothing_at_the_end(tmp_path):
    with script(tmp_path, "daemon") as run:
        pids = [int(n) for n in run.stdout.readline().split()]
        assert len(pids) == 3
        _, said = run.communicate(timeout=60)
        assert (run.returncode, said) == (0, "")
        assert ended(pids)


def test_interrupt(tmp_path):
    with script(tmp_path, "wait") as run:
        pids = [int(n) for n in run.stdout.readline().split()]
        assert len(pids) == 3
        os.killpg(run.pid, signal.SIGINT)  # what Ctrl-C does: every process of the terminal gets it
        _, said = run.communicate(timeout=60)
        assert run.returncode in (-signal.SIGINT, 130)
        assert said.count("Traceback") == said.count("KeyboardInterrupt") == 1
        assert ended(pids)


@pytest.mark.full
def test_workers_end_with_their_parent(tmp_path):
    with script(tmp_path, "wait") as run:
        pids = [int(n) for n in run.stdout.readline().split()]
        assert len(pids) == 3
        run.kill()
        assert ended(pids[:1])  # it waits for a task; one inside a sample ends when that is read


# ---------------------------------------------------------------- resuming


@pytest.mark.parametrize("workers", [0, 2])
def test_resume_in_the_middle_of_an_epoch(workers, numpy_unseeded):
    def loader():
        return io.DataLoader(Each(noise if workers else int, 24), batch_size=3, shuffle=True, num_workers=workers)

    def read(it, n=None):
        return [b.tolist() for _, b in zip(range(n or 99), it, strict=False)]

    bireme.seed(3)
    whole = loader()
    first = read(whole)
    it = iter(whole)
    read(it, 4)
    state, streams = whole.state_dict(), bireme.get_rng_state()
    assert state["batches"] == 4
    rest, following = read(it), read(whole)
    assert whole.state_dict() == {"batches": 0}

    bireme.seed(99)
    again = loader()
    again.set_state_dict(state)
    bireme.set_rng_state(streams)
    assert again.state_dict()["batches"] == 4
    assert read(again) == rest
    assert read(again) == following
    assert first not in (rest, following)


def test_resume_of_other_orders(tmp_path):
    sampler = io.DistributedBatchSampler(range(12), 2, 2, 1, shuffle=True)
    loader = io.DataLoader(Each(int, 12), batch_sampler=sampler)
    list(loader)
    it = iter(loader)
    next(it)
    bireme.save(loader.state_dict(), str(tmp_path / "loader.pdparams"))
    rest = [b.tolist() for b in it]
    fresh = io.DataLoader(Each(int, 12), batch_sampler=io.DistributedBatchSampler(range(12), 2, 2, 1, shuffle=True))
    fresh.set_state_dict(bireme.load(str(tmp_path / "loader.pdparams"), return_numpy=True))
    assert [b.tolist() for b in fresh] == rest
    assert fresh.batch_sampler.epoch == 2

    for workers in (0, 1):
        stream = io.DataLoader(Stream(7), batch_size=2, num_workers=workers)
        it = iter(stream)
        next(it)
        state = stream.state_dict()
        other = io.DataLoader(Stream(7), batch_size=2, num_workers=workers)
        other.set_state_dict(state)
        assert [b.tolist() for b in other] == [b.tolist() for b in it] == [[2, 3], [4, 5], [6]]


def test_no_warning_of_threads_for_what_can_be_sent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(io.DataLoader(Numbers(4), num_workers=1, collate_fn=as_list))) == 4


def test_words_for_a_worker_s_generator():
    """Programs that seed by hand take them from Paddle, and expect these."""
    assert worker._generate_states(0, 1) == [1835504127, 1731038949, 1320224556, 2330041505]
    assert worker._generate_states(1, 3) == [457190280, 2660306227, 859341110, 354512857]
