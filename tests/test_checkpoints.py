"""Distributed checkpoints: any division to any other, kills, damaged and hostile files, Paddle's layout, whole runs."""

import itertools
import json
import math
import os
import pickle
import random
import re
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import distributed as dist
from bireme import io
from bireme.distributed import checkpoint
from bireme.distributed.checkpoint import __main__ as command
from bireme.distributed.checkpoint import array_files, boxes, manifest
from bireme.distributed.checkpoint.boxes import Box
from tools import checkpoint_kills, checkpoint_pairs

PADDLE = Path(__file__).resolve().parent / "data" / "paddle_checkpoints"


# ------------------------------------------------------------ any division to any other


def test_pairs_of_divisions(tmp_path):
    pairs = [pair for pair in checkpoint_pairs.chosen(16, (1, 2)) if pair[0] in checkpoint_pairs.DIVISIONS]
    checkpoint_pairs.run(str(tmp_path), pairs)


@pytest.mark.full
def test_all_pairs_of_divisions(tmp_path):
    checkpoint_pairs.run(str(tmp_path), checkpoint_pairs.all_pairs())


@pytest.mark.parametrize("times", [3, pytest.param(50, marks=pytest.mark.full)])
def test_a_save_that_is_killed_loses_nothing(tmp_path, times):
    assert checkpoint_kills.run(str(tmp_path), times) > 0


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4), (3, 1, 2, 2)])
def test_ranges_of_flattened_numbers_are_boxes(shape):
    numbers = np.arange(math.prod(shape)).reshape(shape)
    for start, stop in itertools.combinations_with_replacement(range(numbers.size + 1), 2):
        found = boxes.of_range(shape, start, stop)
        assert boxes.overlapping(found) is None and len(found) <= 2 * max(len(shape), 1) - 1
        read = np.concatenate([np.arange(0), *[numbers[index(box)].reshape(-1) for box in found]])
        assert read.tolist() == list(range(start, stop))
        assert [box.at for box in found] == [0, *np.cumsum([box.size for box in found])[:-1]][: len(found)]


def index(box):
    return tuple(slice(a, a + n) for a, n in zip(box.offset, box.shape, strict=True))


def test_overlaps_are_found():
    rng = random.Random(0)
    for _ in range(300):
        drawn = [Box((rng.randrange(5), rng.randrange(5)), (rng.randrange(3), rng.randrange(3))) for _ in range(4)]
        count = np.zeros((8, 8), int)
        for box in drawn:
            count[index(box)] += 1
        assert (boxes.overlapping(drawn) is not None) == bool((count > 1).any())


def test_a_part_is_read_in_bands(tmp_path, monkeypatch):
    """Blocks larger than what is read at once, checked chunk by chunk; a row larger than that too."""
    monkeypatch.setattr(array_files, "BAND", 64)
    monkeypatch.setattr(array_files, "CHUNK", 48)
    x = np.random.default_rng(0).standard_normal((3, 7, 11)).astype("float32")
    checkpoint.save_state_dict({"x": bireme.to_tensor(x)}, tmp_path)
    for offset, shape in (((0, 0, 0), (3, 7, 11)), ((1, 2, 3), (2, 3, 5)), ((2, 6, 0), (1, 1, 11))):
        part = dist.ShardedWeight("x", bireme.zeros(shape), shape, x.shape, offset)
        checkpoint.load_state_dict({"x": part}, tmp_path)
        np.testing.assert_array_equal(part.local_tensor.numpy(), x[index(Box(offset, shape))])


# ------------------------------------------------------------ in the background


def test_training_goes_on_while_it_is_saved(tmp_path):
    w = bireme.ones([3])
    checkpoint.save_state_dict({"w": w, "n": [1, "a"]}, tmp_path, async_save=True)
    w.fill_(7.0)
    target = bireme.zeros([3])
    state = {"w": target, "n": None}
    checkpoint.load_state_dict(state, tmp_path)  # waits for it
    assert target.tolist() == [1, 1, 1] and state["n"] == [1, "a"]


@pytest.mark.parametrize("call", ["save", "load", "wait"])
def test_an_error_of_the_background_is_raised_by_the_next_call(tmp_path, monkeypatch, capsys, call):
    checkpoint.save_state_dict({"w": bireme.ones([3])}, tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(manifest.os, "fsync", full)
        checkpoint.save_state_dict({"w": bireme.zeros([3])}, tmp_path, async_save=True)
        next_call = {
            "save": lambda: checkpoint.save_state_dict({"w": bireme.zeros([3])}, tmp_path),
            "load": lambda: checkpoint.load_merged_state_dict(tmp_path),
            "wait": checkpoint.clear_async_save_task_queue,
        }[call]
        with pytest.raises(OSError, match=r"save_state_dict\(path\).*the disk is full"):
            next_call()
    assert "the disk is full" in capsys.readouterr().err
    assert checkpoint.load_merged_state_dict(tmp_path)["w"].tolist() == [1, 1, 1]  # the last good one
    checkpoint.save_state_dict({"w": bireme.full([3], 2.0)}, tmp_path)  # removes what the other has left
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]


# ------------------------------------------------------------ damaged and hostile files


def rewritten(folder, change):
    """Change a manifest, and give it the checksum of what it is then."""
    path = folder / "0" / "manifest.json"
    found = json.loads(path.read_text())
    del found["crc32"]
    change(found["tensors"])
    body = json.dumps(found)[1:]
    path.write_text(f'{{"crc32": "{zlib.crc32(body.encode()):08x}", {body}')


def piece(tensors):
    return tensors["w"]["pieces"][0]


HOSTILE = {
    "of pieces that overlap": (
        lambda t: t["w"]["pieces"].append({**piece(t), "offset": [1, 0], "shape": [3, 2]}),
        r"got pieces at \[0, 0\] and \[1, 0\] that overlap",
    ),
    "of ranges that overlap": (
        lambda t: t["w"].update(pieces=[{**piece(t), "flat": [0, 5]}, {**piece(t), "flat": [4, 8]}]),
        "that overlap",
    ),
    "without a piece": (lambda t: piece(t).update(shape=[3, 2]), "got only some of its pieces, 6 of 8 numbers"),
    "of no pieces": (lambda t: t["w"].update(pieces=[]), "got only some of its pieces, 0 of 8 numbers"),
    "of another folder": (lambda t: piece(t).update(file="../data_0.safetensors"), "in a file outside of its folder"),
    "of a path": (lambda t: piece(t).update(file="/etc/passwd"), "in a file outside of its folder, '/etc/passwd'"),
    "of another file": (lambda t: piece(t).update(file="manifest.json"), "in a file of another format"),
    "of no file": (lambda t: piece(t).update(file="data_9.safetensors"), "data_9.*No such file"),
    "of another array": (lambda t: piece(t).update(key="v"), r"got no array 'v'"),
    "of another dtype": (lambda t: t["w"].update(dtype="float64"), r"float32\[8\] in data_0.safetensors where"),
    "of an unknown dtype": (lambda t: t["w"].update(dtype="object"), "of unknown dtype 'object'"),
    "outside of its tensor": (lambda t: piece(t).update(offset=[1, 0]), r"that is not inside its shape \[4, 2\]"),
    "of negative numbers": (lambda t: piece(t).update(offset=[-1, 0]), "an invalid shape or offset"),
    "of huge sizes": (lambda t: t["w"].update(shape=[2**60, 2**60]), r"'w' of shape \[\d+, \d+\]"),
    "of a wrong range": (lambda t: piece(t).update(flat=[0, 9]), r"with numbers \[0, 9\] of a block"),
    "of lists": (lambda t: t.update(w=[]), "an incomplete entry for 'w'"),
    "of strange keys": (lambda t: piece(t).update(more=1), "an incomplete piece of 'w'"),
}


@pytest.fixture
def saved(tmp_path):
    checkpoint.save_state_dict({"w": bireme.arange(8, dtype="float32").reshape([4, 2])}, tmp_path)
    return tmp_path


def refused(folder, said):
    target = bireme.full([4, 2], 9.0)
    with pytest.raises((ValueError, OSError), match=said) as error:
        checkpoint.load_state_dict({"w": target}, folder)
    lines = str(error.value).splitlines()
    assert lines[0].startswith("load_state_dict(path): expected ") and len(lines) <= 2  # one sentence, and where
    assert target.tolist() == [[9.0, 9.0]] * 4  # nothing was set


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_manifest_is_refused(saved, name):
    change, said = HOSTILE[name]
    rewritten(saved, change)
    refused(saved, said)


def test_damaged_files_are_refused(saved):
    path = saved / "0" / "data_0.safetensors"
    good = path.read_bytes()
    sums = (saved / "0" / "data_0.crc32").read_bytes()
    for data, said in (
        (good[:-4], "bytes of data where its header says"),
        (good[:5], "it is truncated"),
        (b"", "another length"),
        (good[:-1] + bytes([good[-1] ^ 1]), "a checksum that does not match at byte 0"),
        (good.replace(b'"shape":[4,2]', b'"shape":[2,4]'), "a checksum that does not match"),
    ):
        path.write_bytes(data)
        refused(saved, said)
    path.write_bytes(good)
    (saved / "0" / "data_0.crc32").write_bytes(sums + b"0")
    refused(saved, "its checksums are those of another length")
    (saved / "0" / "data_0.crc32").unlink()
    refused(saved, "data_0.*No such file")
    text = (saved / "0" / "manifest.json").read_text()
    for changed, said in (
        (text.replace("4", "5", 1), "a checksum"),
        (text[:-9], "a checksum"),
        ("[]", "something else"),
    ):
        (saved / "0" / "manifest.json").write_text(changed)
        refused(saved, f"a manifest of 'bireme checkpoint 1', got .*: {said}")


def test_bad_calls(tmp_path):
    part = dist.ShardedWeight("w", bireme.ones([2]), [2], [4], [0])
    dist.save_state_dict({"w": part, "v": bireme.ones([3])}, tmp_path)
    for call, said in (
        (lambda: dist.load_merged_state_dict(tmp_path), "expected all of 'w' in .*, got only some of its pieces"),
        (
            lambda: dist.load_state_dict({"v": bireme.ones([2])}, tmp_path),
            r"expected v of shape \[2\] in all, got shape",
        ),
        (lambda: dist.load_state_dict({"u": bireme.ones([2])}, tmp_path), "expected names that .* has, got 'u'"),
        (lambda: dist.load_state_dict({}, tmp_path, unique_id=5), r"with version 5, got .* which has versions \[0\]"),
        (lambda: dist.load_state_dict({}, tmp_path / "none"), "expected a folder that save_state_dict has written"),
        (lambda: dist.save_state_dict({"x": object()}, tmp_path), "expected tensors, numbers, str, and lists of these"),
        (lambda: dist.save_state_dict([], tmp_path), "expected a dict of names and tensors"),
        (lambda: dist.save_state_dict({}, tmp_path, unique_id=-1), "expected a non-negative integer, got -1"),
        (
            lambda: dist.save_state_dict({"x": bireme.ones([1], "complex128")}, tmp_path),
            "expected dtypes that safetens",
        ),
        (lambda: dist.ShardedWeight("w", bireme.ones([2]), [2], [3], [2]), r"expected a block of \[2\] inside \[3\]"),
        (lambda: checkpoint.Checkpoint(tmp_path, None), "expected a Layer, got None"),
        (
            lambda: checkpoint.Checkpoint(tmp_path, bireme.nn.ReLU(), keep=0),
            "expected a positive integer or None, got 0",
        ),
        (lambda: checkpoint.Checkpoint(tmp_path, bireme.nn.ReLU()).save(1, x=object()), "expected numbers, str, lists"),
    ):
        with pytest.raises((ValueError, TypeError, OSError, RuntimeError), match=said):
            call()


# ------------------------------------------------------------ Paddle's layout


def told_by_paddle():
    """What was saved by paddlepaddle 3.2.2 in two processes with gloo."""
    rng = np.random.default_rng(0)
    return {
        "model.a": rng.standard_normal((7, 4)).astype("float32"),
        "model.b": rng.standard_normal((3, 4)).astype("float32"),
    }


@pytest.mark.parametrize("form", ["pickled", "safetensors"])
def test_what_paddle_has_saved_is_loaded(form):
    found = checkpoint.load_merged_state_dict(PADDLE / form)
    for name, x in told_by_paddle().items():
        np.testing.assert_array_equal(found[name].numpy(), x)
    assert found["c"].tolist() == [0, 1, 2, 3, 4] and found["plain"].dtype == bireme.bfloat16
    # into other parts: rows 3 to 6, which two processes have had
    part = dist.ShardedWeight("model.a", bireme.zeros([3, 2]), [3, 2], [7, 4], [3, 1])
    checkpoint.load_state_dict({"model": {"a": part}}, PADDLE / form)
    np.testing.assert_array_equal(part.local_tensor.numpy(), told_by_paddle()["model.a"][3:6, 1:3])


def test_ranges_that_paddle_has_saved_are_loaded():
    found = checkpoint.load_merged_state_dict(PADDLE / "ranges")
    assert found["w"].tolist() == np.arange(15.0).reshape(5, 3).tolist()
    assert found["v"].tolist() == np.arange(12.0).reshape(4, 3).tolist()


class Command:
    def __reduce__(self):
        return os.system, ("touch gone",)


@pytest.mark.parametrize("name", ["0.metadata", "0_0.distcp"])
def test_no_code_of_paddles_files_is_run(tmp_path, monkeypatch, name):
    folder = tmp_path / "saved"
    shutil.copytree(PADDLE / "pickled", folder)
    monkeypatch.chdir(tmp_path)
    (folder / name).write_bytes(pickle.dumps({"model.a": Command()}, 4))
    with pytest.raises(ValueError, match=r"unsupported pickle global '\w+\.system': only data is loaded"):
        checkpoint.load_merged_state_dict(folder)
    assert not (tmp_path / "gone").exists()


def test_damaged_files_of_paddle_are_refused(tmp_path):
    good = (PADDLE / "pickled" / "0.metadata").read_bytes()
    shutil.copytree(PADDLE / "pickled", tmp_path / "saved")
    for old, new, said in (
        (b"0_0.distcp", b"../.distcp", "in a file outside of its folder, '../.distcp'"),
        (b"float32", b"float99", "of unknown dtype"),
        (b"LocalTensorIndex", b"LocalTensorOther", "unsupported pickle global"),
        (b"storage_metadata", b"storage_metadatb", "metadata without tensors or files"),
        (b"tensor_key", b"tensor_kez", "a piece without a name or a file"),
        (good[-40:], b"", "it is truncated|without its operands|does not leave"),
    ):
        assert old in good
        (tmp_path / "saved" / "0.metadata").write_bytes(good.replace(old, new))
        with pytest.raises(ValueError, match=f"expected .* got .*({said})") as error:
            checkpoint.load_merged_state_dict(tmp_path / "saved")
        assert len(str(error.value).splitlines()) <= 2
    (tmp_path / "saved" / "0.metadata").write_bytes(good)
    (tmp_path / "saved" / "1_0.distcp").unlink()
    with pytest.raises(FileNotFoundError, match=r"1_0\.distcp"):
        checkpoint.load_merged_state_dict(tmp_path / "saved")


# ------------------------------------------------------------ whole runs


class Run:
    """A small training run with all that has a state: schedule, scaler, dropout, shuffled data."""

    def __init__(self, folder, batch=2, replicas=1, rank=0):
        bireme.seed(3)
        net = bireme.nn.Sequential(bireme.nn.Linear(3, 4), bireme.nn.Dropout(0.5), bireme.nn.Linear(4, 1))
        self.net, self.schedule = net, bireme.optimizer.lr.StepDecay(0.1, 2)
        self.optimizer = bireme.optimizer.Adam(self.schedule, parameters=net.parameters())
        self.scaler = bireme.amp.GradScaler(init_loss_scaling=8.0, incr_every_n_steps=2)
        self.sampler = io.DistributedBatchSampler(range(24), batch, replicas, rank, shuffle=True)
        self.loader = io.DataLoader(list(range(24)), batch_sampler=self.sampler)
        self.saved = checkpoint.Checkpoint(folder, net, self.optimizer, self.scaler, self.loader, keep=2)

    def step(self, x):
        loss = self.scaler.scale((self.net(bireme.stack([x, x + 1, x * x], 1).astype("float32") / 24.0) ** 2).mean())
        loss.backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.clear_grad()
        self.schedule.step()
        return loss.item()


def test_a_run_goes_on_as_if_nothing_had_happened(tmp_path):
    first = Run(tmp_path)
    assert first.saved.resume() is None
    losses = []
    for i, x in enumerate(first.loader, 1):
        losses.append(first.step(x))
        if i in (2, 4, 5):
            first.saved.save(i, best=[0.5], names={"a": i})
    first.saved.wait()
    assert first.saved.steps() == [4, 5]  # two are kept
    second = Run(tmp_path)
    bireme.rand([3])
    assert second.saved.resume() == 5 and second.saved.extra == {"best": [0.5], "names": {"a": 5}}
    assert [second.step(x) for x in second.loader] == losses[5:]
    # the newest one is damaged: all go back to the one before, and the next save removes it
    path = tmp_path / "5" / "data_0.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    third = Run(tmp_path)
    with pytest.warns(UserWarning, match="step 5 is damaged: .*checksum"):
        assert third.saved.resume() == 4
    assert [third.step(x) for x in third.loader] == losses[4:]
    third.saved.save(4)
    third.saved.wait()
    assert third.saved.steps() == [4]
    (tmp_path / "4" / "data_0.crc32").unlink()
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="expected an undamaged version, got 1 damaged"):
        third.saved.resume()


def test_the_global_batch_stays_for_another_number_of_processes(tmp_path):
    """Four processes stop in an epoch, two go on: the samples of each step are those that four would have had."""
    ranks = [Run(tmp_path, batch=2, replicas=4, rank=rank) for rank in range(4)]
    steps = [[set(x.tolist()) for x in run.loader] for run in ranks]
    expected = [set().union(*parts) for parts in zip(*steps, strict=True)]
    run = Run(tmp_path, batch=2, replicas=4)
    next(iter(run.loader))
    run.saved.save(1)
    later = [Run(tmp_path, batch=2, replicas=2, rank=rank) for rank in range(2)]
    assert [run.saved.resume() for run in later] == [1, 1]
    assert [run.sampler.batch_size for run in later] == [4, 4]
    found = [[set(x.tolist()) for x in run.loader] for run in later]
    assert [set().union(*parts) for parts in zip(*found, strict=True)] == expected[1:]
    with pytest.raises(ValueError, match="expected processes that share a global batch of 8, got 3, which do not"):
        Run(tmp_path, replicas=3).saved.resume()


# ------------------------------------------------------------ the command


def test_merge_and_split(tmp_path, capsys):
    rng = np.random.default_rng(0)
    state = {"model.w": bireme.to_tensor(rng.standard_normal((7, 3)).astype("float32")), "model.b": bireme.ones([2])}
    bireme.save(state, tmp_path / "in.pdparams")
    parts = str(tmp_path / "parts")
    for arguments, said in (
        (["split", str(tmp_path / "in.pdparams"), parts, "--parts", "3"], r"2 tensors in 3 files: .*parts/0\n"),
        (["split", str(tmp_path / "in.pdparams"), parts], r"2 tensors in 2 files: .*parts/1\n"),
        (["show", parts, "--version", "0"], r"versions 0, 1; .*\n +model.b .*1 pieces.*\n +model.w .*3 pieces in 3 f"),
        (["merge", parts, str(tmp_path / "out.safetensors"), "--version", "0"], "2 tensors, "),
        (["merge", parts, str(tmp_path / "out.pdparams"), "--prefix", "model"], "2 tensors, "),
        (["prune", parts, "--keep", "1"], "removed 0\n"),
    ):
        assert command.main(arguments) == 0
        assert re.match(said, capsys.readouterr().out)
    first, second = bireme.load(tmp_path / "out.safetensors"), bireme.load(tmp_path / "out.pdparams")
    for name, x in state.items():
        for found in (first[name], second[name.removeprefix("model.")]):
            assert found.numpy().tobytes() == x.numpy().tobytes()
    for arguments, said in (
        (["merge", parts, "out.txt"], "expected a name that ends in .safetensors or .pdparams, got 'out.txt'"),
        (["merge", parts, str(tmp_path / "x.pdparams"), "--prefix", "other"], "expected the beginning of names in"),
        (["show", str(tmp_path)], "expected a folder that save_state_dict has written"),
    ):
        assert command.main(arguments) == 1
        assert said in capsys.readouterr().err


def test_a_merge_into_several_files(tmp_path):
    checkpoint.save_state_dict(
        {"model": {"w": bireme.ones([4]), "b_skip": bireme.ones([1])}, "n": 3}, tmp_path / "parts"
    )
    checkpoint.merge_sharded_state_dict(tmp_path / "parts", tmp_path / "out", "model", skip_postfix_list=["_skip"])
    told = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert told == {"metadata": {"total_size": 16}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}
    assert bireme.load(tmp_path / "out" / told["weight_map"]["w"])["w"].tolist() == [1, 1, 1, 1]
