"""save and load: what goes in comes out, nothing half written, nothing believed."""

import collections
import io
import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import bireme
from bireme import nn
from bireme.files import load, save

TYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn",
    "float8_e5m2", "complex64", "complex128",
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "x.pdparams")


def round_trip(obj, path, **configs):
    save(obj, path)
    return load(path, **configs)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_and_shape(dtype, path):
    rng = np.random.default_rng(0)
    shapes = [(), (0,), (2, 0, 3), (1,), (3, 4)]
    given = {str(s): bireme.to_tensor(rng.integers(0, 2, s) * 1.5, dtype=dtype) for s in shapes}
    found = round_trip(given, path)
    for key, tensor in given.items():
        assert found[key].dtype is tensor.dtype and found[key].shape == tensor.shape
        assert found[key].numpy().tobytes() == tensor.numpy().tobytes()


def test_structures(path):
    given = {
        "a": [1, (2, 3.5, None, True, "text", 10**30), []],
        3: {"z": np.float32(1.5), (1, "k"): -0.0},
        "c": 1 + 2j,
        "floats": [float("inf"), float("-inf"), 0.1, 5e-324],
    }
    found = round_trip(given, path)
    assert found == given
    assert isinstance(found["a"][1], tuple) and found["a"][1][3] is True
    assert type(found[3]["z"]) is np.float32 and str(found[3][1, "k"]) == "-0.0"
    assert np.isnan(round_trip(float("nan"), path))
    assert type(round_trip(collections.OrderedDict(a=1), path)) is dict


def test_what_comes_back(path):
    layer = nn.Linear(2, 2)
    found = round_trip(layer.state_dict(), path)
    assert {k: v.name for k, v in found.items()} == {"weight": layer.weight.name, "bias": layer.bias.name}
    assert found["weight"].stop_gradient and type(found["weight"]) is bireme.Tensor
    assert isinstance(round_trip(np.ones(2), path), bireme.Tensor)
    inside = round_trip([np.ones((3, 4)).T, np.arange(2, dtype=">i4")], path)
    assert inside[0].shape == (4, 3) and inside[1].tolist() == [0, 1]
    assert isinstance(round_trip({"t": bireme.ones([2])}, path, return_numpy=True)["t"], np.ndarray)
    tied = bireme.ones([2])
    first, second = round_trip([tied, tied], path)
    assert first is second


def test_a_model_goes_on_from_its_files(tmp_path):
    def make():
        with bireme.utils.unique_name.guard():
            net = nn.Linear(2, 1)
        return net, bireme.optimizer.Adam(bireme.optimizer.lr.StepDecay(0.1, 1), parameters=net.parameters())

    def step(net, opt):
        net(bireme.ones([1, 2])).sum().backward()
        opt.step()
        opt.clear_grad()
        opt._learning_rate.step()

    net, opt = make()
    step(net, opt)
    save(net.state_dict(), tmp_path / "net.pdparams")
    save(opt.state_dict(), tmp_path / "opt.pdopt")
    step(net, opt)
    again, other = make()
    again.set_state_dict(load(tmp_path / "net.pdparams"))
    other.set_state_dict(load(tmp_path / "opt.pdopt"))
    step(again, other)
    assert np.array_equal(again.weight.numpy(), net.weight.numpy())
    assert other.get_lr() == opt.get_lr()


def test_open_files_and_folders(tmp_path):
    buffer = io.BytesIO()
    save({"a": bireme.ones([2])}, buffer)
    buffer.seek(0)
    assert load(buffer)["a"].tolist() == [1.0, 1.0]
    save(1, tmp_path / "new" / "folder" / "x")
    assert load(tmp_path / "new" / "folder" / "x") == 1
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save(2, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and load(tmp_path / "real") == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "new", "real"]


def test_the_safetensors_library_reads_it(path):
    save({"w": bireme.to_tensor([[1.0, 2.0]]), "deep": [{"b": bireme.to_tensor([True])}]}, path)
    found = safetensors.numpy.load_file(path)
    assert found["w"].tolist() == [[1.0, 2.0]] and found["deep/0/b"].tolist() == [True]


def test_names_do_not_collide(path):
    given = {"a": {"b": np.array([1])}, "a/b": np.array([2]), "__metadata__": np.array([3])}
    found = round_trip(given, path)
    assert (found["a"]["b"][0], found["a/b"][0], found["__metadata__"][0]) == (1, 2, 3)


def holds_itself():
    data = []
    data.append(data)
    return data


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda p: save(object(), p), TypeError, r"save\(obj\): expected tensors, .*, got object"),
        (lambda p: save({"a": {1, 2}}, p), TypeError, "got set"),
        (lambda p: save(np.array(["a"]), p), TypeError, "expected arrays of numbers"),
        (lambda p: save(nn.ReLU(), p), ValueError, r"hint: save ReLU.state_dict\(\)"),
        (lambda p: save(holds_itself(), p), ValueError, "nested at most 100 deep"),
        (lambda p: save(1, ""), ValueError, r"save\(path\)"),
        (lambda p: save(1, os.path.dirname(p) + os.sep), ValueError, r"save\(path\)"),
        (lambda p: save(1, os.path.dirname(p)), IsADirectoryError, "the folder"),
        (lambda p: save(1, p, protocol=5), ValueError, r"save\(protocol\): expected 2, 3 or 4, got 5"),
        (lambda p: save(1, p, use_binary_format=True), ValueError, "there is one format"),
        (lambda p: save(1, p, compress=True), ValueError, "expected no option but use_binary_format, got compress"),
        (lambda p: load(p, map_location="cpu"), ValueError, "expected no option but return_numpy, got map_location"),
        (lambda p: load(p), ValueError, "which is not there"),
        (lambda p: load(os.path.dirname(p)), ValueError, "which is not a file"),
        (lambda p: load(os.devnull), ValueError, "which is not a file"),
        (lambda p: load(3), TypeError, r"load\(path\)"),
    ],
)
def test_bad_calls(call, kind, message, path):
    with pytest.raises(kind, match=message):
        call(path)
    assert not os.path.exists(path)


def test_a_failed_save_changes_nothing(path):
    save({"good": bireme.ones([2])}, path)
    with pytest.raises(TypeError):
        save({"a": np.ones(3), "b": object()}, path)
    assert list(load(path)) == ["good"]
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def file_of(path, tree, entries=None, data=b"", version="1"):
    text = tree if isinstance(tree, str) else json.dumps(tree)
    meta = {"format": "bireme", "version": version, "structure": text}
    header(path, json.dumps({"__metadata__": meta, **(entries or {})}).encode(), data)


def header(path, text, data=b""):
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def entry(dtype="F32", shape=(1,), extent=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(extent)}


A = {"tensor": "a"}
FOUR = b"1234"


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda p: Path(p).write_bytes(b""), "not a file of bireme.save"),
        (lambda p: Path(p).write_bytes(b"\x80\x04\x95pickle and more of it"), "not a file of bireme.save"),
        (lambda p: Path(p).write_bytes(b"\xff" * 64), "not a file of bireme.save"),
        (lambda p: header(p, b"[]"), "not a file of bireme.save"),
        (lambda p: header(p, b"{" * 100_000), "not a file of bireme.save"),
        (lambda p: header(p, b'{"a":1,"a":2}'), "names something twice"),
        (lambda p: header(p, json.dumps({"a": entry()}).encode(), FOUR), "not a file of bireme.save"),
        (lambda p: header(p, b'{"__metadata__":{"format":3}}'), "metadata that is not text"),
        (lambda p: file_of(p, 1, version="9"), "format '9'"),
        (lambda p: file_of(p, A), "needs a, which is not in it"),
        (lambda p: file_of(p, A, {"a": entry(shape=(2**60,))}, FOUR), r"a of shape \[1152921504606846976\] in 4 bytes"),
        (lambda p: file_of(p, A, {"a": entry(shape=(2**40, 0), extent=(0, 4))}, FOUR), "in 4 bytes"),
        (lambda p: file_of(p, A, {"a": entry(shape=(-1,))}, FOUR), "not sizes"),
        (lambda p: file_of(p, A, {"a": entry(shape=(True,))}, FOUR), "not sizes"),
        (lambda p: file_of(p, A, {"a": entry(shape=(1,) * 70)}, FOUR), "not sizes"),
        (lambda p: file_of(p, A, {"a": entry(dtype="PICKLE")}, FOUR), "unknown type 'PICKLE'"),
        (lambda p: file_of(p, A, {"a": {"dtype": "F32"}}, FOUR), "incomplete entry"),
        (lambda p: file_of(p, A, {"a": entry(extent=(4, 8))}, FOUR), "overlap or leave holes"),
        (lambda p: file_of(p, A, {"a": entry(), "b": entry()}, FOUR), "overlap or leave holes"),
        (lambda p: file_of(p, A, {"a": entry()}, FOUR + b"more"), "8 bytes of arrays where its header says 4"),
        (lambda p: file_of(p, A, {"a": entry()}, b"1"), "1 bytes of arrays where its header says 4"),
        (lambda p: file_of(p, {"code": "x"}), "unknown kind"),
        (lambda p: file_of(p, {"tuple": 3}), "unknown kind"),
        (lambda p: file_of(p, {"complex": [{"tuple": []}, 1.0]}), "unknown kind"),
        (lambda p: file_of(p, {"pairs": [[[1], 2]]}), "a key that cannot be one"),
        (lambda p: file_of(p, {"pairs": [3]}), "no pairs"),
        (lambda p: file_of(p, "NaN"), "NaN as a number"),
        (lambda p: file_of(p, "[" * 100_000), "not JSON"),
        (lambda p: file_of(p, "[" * 150 + "]" * 150), "nested more than 100 deep"),
        (lambda p: file_of(p, "1" + "0" * 5000), "not JSON"),
        (lambda p: file_of(p, {"scalar": "a"}, {"a": entry()}, FOUR), "a number of shape"),
        (lambda p: file_of(p, {**A, "dtype": "complex64"}, {"a": entry()}, FOUR), "complex numbers stored as"),
        (lambda p: file_of(p, {**A, "dtype": "object"}, {"a": entry()}, FOUR), "unknown type 'object'"),
        (lambda p: file_of(p, {**A, "call": "x"}, {"a": entry()}, FOUR), "needs a"),
    ],
)
def test_hostile_and_foreign_files(write, message, path):
    write(path)
    with pytest.raises(ValueError, match=r"load\(path\): expected a file that bireme.save wrote, got .*" + message):
        load(path)


def test_every_cut_of_a_file_is_refused(path):
    save({"a": bireme.ones([3]), "b": [1, 2]}, path)
    whole = Path(path).read_bytes()
    for n in range(len(whole)):
        Path(path).write_bytes(whole[:n])
        with pytest.raises(ValueError, match=r"expected a file that bireme\.save wrote"):
            load(path)


def test_strange_bytes_of_a_bool_are_true(path):
    file_of(path, A, {"a": entry("BOOL", (3,), (0, 3))}, b"\x00\x01\x07")
    assert load(path).astype("int32").tolist() == [0, 1, 1]


WRITER = """
import sys
import numpy as np
from bireme.files import save
for n in range(1_000_000):
    save({"n": n, "a": np.full(1 << 20, n)}, sys.argv[1])
    sys.stdout.write("x")
    sys.stdout.flush()
"""


def test_a_killed_writer_leaves_a_whole_file(path):
    for kills in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
        # after a different number of saves each time, so that the blow falls at different places of the next one
        assert writer.stdout.read(1 + kills) == b"x" * (1 + kills)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        found = load(path)
        assert (found["a"] == found["n"]).all()
