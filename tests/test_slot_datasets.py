"""Datasets of slot files, programs that make them, and the file systems that they lie in."""

import io
import os
import sys

import numpy as np
import pytest

import bireme
from bireme.distributed import fleet
from bireme.distributed.fleet.utils import fs
from bireme.errors import ArgumentError, FileFormatError


@pytest.fixture
def variables():
    bireme.enable_static()
    with bireme.static.program_guard(bireme.static.Program(), bireme.static.Program()):
        yield (
            bireme.static.data("ids", [None, 1], "int64", lod_level=1),
            bireme.static.data("dense", [None, 2]),
            bireme.static.data("label", [None, 1], "int64"),
        )
    bireme.disable_static()


@pytest.fixture
def files(tmp_path):
    paths = []
    for part in range(2):
        path = tmp_path / f"part-{part}"
        rows = [f"{i % 3 + 1} {' '.join([str(10 * part + i)] * (i % 3 + 1))} 2 {i}.5 -1 1 {i}\n" for i in range(5)]
        path.write_text("".join(rows) + "\n")
        paths.append(str(path))
    return paths


def labels(dataset):
    return np.concatenate([feed["label"] for feed in dataset._batches()]).ravel().tolist()


def test_batches_are_fed_in_order(variables, files):
    dataset = bireme.distributed.QueueDataset()
    dataset.init(batch_size=4, use_var=list(variables))
    dataset.set_filelist(files)
    fed = list(dataset._batches())
    assert [len(feed["label"]) for feed in fed] == [4, 4, 2]
    assert labels(dataset) == [0, 1, 2, 3, 4] * 2
    assert fed[0]["dense"].tolist() == [[0.5, -1], [1.5, -1], [2.5, -1], [3.5, -1]]
    assert fed[0]["ids"].lod() == [[0, 1, 3, 6, 7]]
    assert np.asarray(fed[0]["ids"]).ravel().tolist() == [0, 1, 1, 2, 2, 2, 3]


def test_training_from_a_dataset(variables, files, capsys):
    _, dense, label = variables
    total = bireme.static.nn.fc(dense, 1, weight_attr=bireme.nn.initializer.Constant(1.0))
    loss = ((total - label.astype("float32")) ** 2).mean()
    bireme.optimizer.SGD(0.01).minimize(loss)
    exe = bireme.static.Executor()
    exe.run(bireme.static.default_startup_program())
    dataset = bireme.distributed.InMemoryDataset()
    dataset.init(batch_size=5, use_var=list(variables))
    dataset.set_filelist(files)
    dataset.load_into_memory()
    for _ in range(2):
        exe.train_from_dataset(dataset=dataset, fetch_list=[loss], fetch_info=["loss"], print_period=1)
    losses = [float(line.partition("loss: ")[2]) for line in capsys.readouterr().out.splitlines()]
    assert len(losses) == 4 and losses[-1] < losses[0]
    exe.infer_from_dataset(dataset=dataset, fetch_list=[loss], print_period=1)
    exe.infer_from_dataset(dataset=dataset, fetch_list=[loss], print_period=1)
    first, second = np.array_split(capsys.readouterr().out.splitlines(), 2)
    assert first.tolist() == second.tolist(), "nothing was trained"
    with pytest.raises(ArgumentError, match="a QueueDataset or an InMemoryDataset"):
        exe.train_from_dataset(dataset=[1])


def test_shuffling_keeps_samples_whole(variables, files):
    dataset = bireme.distributed.InMemoryDataset()
    dataset.init(batch_size=3, use_var=list(variables))
    dataset.set_filelist(files)
    with pytest.raises(RuntimeError, match="load_into_memory"):
        dataset.local_shuffle()
    dataset.preload_into_memory()
    dataset.wait_preload_done()
    np.random.seed(0)  # noqa: NPY002 - datasets shuffle by it
    dataset.local_shuffle()
    assert labels(dataset) != [0, 1, 2, 3, 4] * 2 and sorted(labels(dataset)) == sorted([0, 1, 2, 3, 4] * 2)
    for feed in dataset._batches():
        assert (feed["dense"][:, 0] == feed["label"][:, 0] + 0.5).all()
        assert (np.diff(feed["ids"].lod()[0]) - 1).tolist() == [int(i) % 3 for i in feed["label"].ravel()]
    dataset.slots_shuffle(["dense"])
    assert any((feed["dense"][:, 0] != feed["label"][:, 0] + 0.5).any() for feed in dataset._batches())
    assert dataset.get_memory_data_size() == 10
    dataset.release_memory()
    with pytest.raises(RuntimeError, match="load_into_memory"):
        dataset.get_shuffle_data_size()


def test_samples_are_exchanged_among_workers(variables, files):
    """A fleet of two workers that are called one after the other: what one gives, the other gets."""
    made = []
    for path in files:
        dataset = bireme.distributed.InMemoryDataset()
        dataset.init(use_var=list(variables), fleet_send_batch_size=2)
        dataset.set_filelist([path])
        dataset.load_into_memory()
        made.append(dataset)
    sent = [[], []]

    class Fleet:
        def __init__(self, rank, given):
            self.rank, self.given, self.util = rank, iter(given), self
            self.role_maker = self

        def worker_num(self):
            return 2

        def worker_index(self):
            return self.rank

        def _all_gather(self, mine):
            sent[self.rank].append(mine)
            other = next(self.given, None)
            return [mine if other is None else other, mine] if self.rank else [mine, mine if other is None else other]

    held = made[0]._held
    for rank in (0, 1, 0):
        np.random.seed(rank)  # noqa: NPY002 - datasets shuffle by it
        sent[rank].clear()
        if rank == 0:
            made[0]._held = held
        made[rank].global_shuffle(Fleet(rank, sent[1 - rank]))
    assert sorted(labels(made[0]) + labels(made[1])) == sorted([0, 1, 2, 3, 4] * 2)
    both = [np.asarray(feed["ids"]).ravel()[0] for dataset in made for feed in dataset._batches()]
    assert sorted(both) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


def test_a_command_reads_the_files(variables, files):
    dataset = bireme.distributed.QueueDataset()
    dataset.init(use_var=list(variables), pipe_command="head -n 2 | tail -n 1")
    dataset.set_filelist(files)
    assert labels(dataset) == [1, 1]
    for command, error, expected in (
        ("false", RuntimeError, "false has failed with exit code 1"),
        ("nosuchprogram -x", OSError, "expected the program nosuchprogram"),
        ("cat |", ArgumentError, "a command, or several joined by |"),
        ("cat 'x", ArgumentError, "expected a command"),
    ):
        dataset.init(use_var=list(variables), pipe_command=command)
        with pytest.raises(error) as told:
            list(dataset._batches())
        assert expected in str(told.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 7 2 0.5\n", "line 1: expected a count and as many values for slot 1, got 1 values"),
        ("x 7\n", "line 1: expected a count and as many values for slot 0"),
        ("1 7 2 0.5 0.5 1 3 9\n", "line 1: expected 3 slots, got 1 words more"),
        ("1 7 2 a 0.5 1 3\n", "expected numbers"),
        ("1 7 3 0.5 0.5 1 1 3\n", "expected 2 values of dense in each sample, got 3"),
    ],
)
def test_wrong_lines_are_named(variables, tmp_path, text, expected):
    path = tmp_path / "wrong"
    path.write_text(text)
    dataset = bireme.distributed.QueueDataset()
    dataset.init(use_var=list(variables))
    dataset.set_filelist([str(path)])
    with pytest.raises(FileFormatError) as told:
        list(dataset._batches())
    assert expected in str(told.value)


def test_options_are_checked(variables):
    dataset = bireme.distributed.InMemoryDataset()
    for options in ({"nosuch": 1}, {"batch_size": 0}, {"use_var": [1]}, {"pipe_command": 3}):
        with pytest.raises(ValueError, match="expected"):
            dataset.init(**options)
    with pytest.raises(ArgumentError, match="a list of names"):
        dataset.set_filelist("file")


class Doubled(fleet.MultiSlotDataGenerator):
    def generate_sample(self, line):
        def samples():
            yield [("words", [int(word) for word in line.split()]), ("score", [0.5])]

        return samples

    def generate_batch(self, samples):
        def twice():
            for sample in samples:
                yield sample
                yield sample

        return twice


def test_generators_write_slots(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("19 8\n7\n"))
    Doubled().run_from_stdin()
    assert capsys.readouterr().out == "2 19 8 1 0.5\n" * 2 + "1 7 1 0.5\n" * 2
    made = Doubled()
    assert made._gen_str([("a", [1, 2])]) == "2 1 2\n"
    for wrong in ("x", [("a", (1,))], [("b", [1])], [("a", [])], [("a", ["1"])]):
        with pytest.raises(ValueError, match="generate_sample"):
            made._gen_str(wrong)
    with pytest.raises(NotImplementedError, match="generate_sample"):
        fleet.MultiSlotDataGenerator().run_from_memory()


def test_local_files(tmp_path):
    client, a, b = fs.LocalFS(), str(tmp_path / "a"), str(tmp_path / "b")
    client.touch(a)
    with pytest.raises(fs.FSFileExistsError, match="is there"):
        client.touch(a, exist_ok=False)
    client.mkdirs(str(tmp_path / "d" / "e"))
    assert client.ls_dir(str(tmp_path)) == (["d"], ["a"]) and client.ls_dir(str(tmp_path / "no")) == ([], [])
    assert client.is_file(a) and client.is_dir(str(tmp_path / "d")) and not client.is_exist(b)
    client.upload(a, b)
    with pytest.raises(fs.FSFileExistsError):
        client.mv(a, b)
    client.mv(a, b, overwrite=True)
    with pytest.raises(fs.FSFileNotExistsError, match="is not there"):
        client.mv(a, b)
    with pytest.raises(AssertionError, match="which is a file"):
        client.mkdirs(b)
    client.delete(str(tmp_path / "d"))
    assert os.listdir(tmp_path) == ["b"] and client.cat(b) == "" and not client.need_upload_download()


def test_hadoop_is_called_by_its_program(tmp_path):
    """A program in its place keeps a folder of this machine, and notes what it was asked."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "root").mkdir()
    program = tmp_path / "bin" / "hadoop"
    program.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/asked
cd {tmp_path}/root; shift 2; command=$1; shift
case $command in
  -test) test $1 $2;;
  -mkdir) mkdir -p $2;;
  -touchz) : > $1;;
  -rm) rm -r $2;;
  -mv) mv $1 $2;;
  -put) [ $1 = -f ] && shift; cp -r $1 $2;;
  -get) cp -r $1 $2;;
  -cat) cat $1;;
  -ls) for f in $1/*; do if [ -d $f ]; then r=drwx; else r=-rw-; fi; echo "$r - me me 5 2024-01-01 00:00 $f"; done;;
  *) exit 3;;
esac
"""
    )
    program.chmod(0o755)
    client = fs.HDFSClient(str(tmp_path), {"fs.default.name": "hdfs://x"}, time_out=1000, sleep_inter=2000)
    client.mkdirs("d/e")
    client.touch("d/f")
    assert client.is_dir("d") and client.is_file("d/f") and not client.is_exist("no")
    assert client.ls_dir("d") == (["e"], ["f"]) and client.list_files_info(["d"]) == [{"path": "d/f", "size": 5}]
    client.mv("d/f", "d/g")
    with pytest.raises(fs.FSFileNotExistsError):
        client.mv("d/f", "d/h")
    (tmp_path / "here").write_text("text\n")
    client.upload(str(tmp_path / "here"), "d/there")
    assert client.cat("d/there") == "text"
    client.download("d/there", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "text\n"
    client.delete("d")
    assert client.ls_dir("d") == ([], [])
    with pytest.raises(fs.ExecuteError, match=r"hadoop fs -mv no d has failed with exit code"):
        client.rename("no", "d")
    assert (tmp_path / "asked").read_text().splitlines()[0] == "fs -Dfs.default.name=hdfs://x -test -e d/e"
    with pytest.raises(OSError, match="which is not there"):
        fs.HDFSClient("nosuch", None).is_exist("x")
