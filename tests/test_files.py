"""save and load: what goes in comes out, nothing half written, nothing believed. Paddle's own files are in
test_pdparams.
"""

import enum
import errno
import gzip
import io
import json
import os
import random
import resource
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import bireme
from bireme import nn
from bireme.files import atomic, background, load, read_metadata, save
from tests.processes import started

TYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn",
    "float8_e5m2", "complex64", "complex128",
]  # fmt: skip
SURE = "expected an undamaged file of tensors and plain data, got "


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "x.pdparams")


@pytest.fixture
def tensors(tmp_path):
    return str(tmp_path / "x.safetensors")


def round_trip(obj, path, **configs):
    save(obj, path)
    return load(path, **configs)


# all but one: a safetensors file has no type for complex128
@pytest.mark.parametrize(
    ("dtype", "ending"), [*((t, "pdparams") for t in TYPES), *((t, "safetensors") for t in TYPES[:-1])]
)
def test_every_type_and_shape(dtype, ending, tmp_path):
    rng = np.random.default_rng(0)
    shapes = [(), (0,), (2, 0, 3), (1,), (3, 4)]
    given = {str(s): bireme.to_tensor(rng.integers(0, 2, s) * 1.5, dtype=dtype) for s in shapes}
    found = round_trip(given, tmp_path / f"x.{ending}")
    assert list(found) == list(given)
    for key, tensor in given.items():
        assert found[key].dtype is tensor.dtype and found[key].shape == tensor.shape
        assert found[key].numpy().tobytes() == tensor.numpy().tobytes()


def test_what_comes_back(path):
    layer = nn.Linear(2, 2)
    found = round_trip(layer.state_dict(), path)
    assert {k: v.name for k, v in found.items()} == {"weight": layer.weight.name, "bias": layer.bias.name}
    assert found["weight"].stop_gradient and type(found["weight"]) is bireme.Tensor
    assert isinstance(round_trip(np.ones(2), path), bireme.Tensor)
    inside = round_trip([np.ones((3, 4)).T, bireme.ones([1]), np.arange(2, dtype=">i4")], path)
    assert inside[0].shape == (4, 3) and inside[2].tolist() == [0, 1]
    assert isinstance(round_trip({"t": bireme.ones([2])}, path, return_numpy=True)["t"], np.ndarray)


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


def test_a_loaded_tensor_is_its_own(path):
    save({"w": bireme.ones([300])}, path)
    a, b = load(path)["w"], load(path)["w"]
    a[0] = 5.0
    assert (a[0].item(), b[0].item()) == (5.0, 1.0)


def test_open_files(tmp_path, path):
    for name, options in (("a", {}), ("b", {"safetensors": True})):
        with open(tmp_path / name, "wb") as file:
            save({"a": bireme.ones([2])}, file, **options)
        with open(tmp_path / name, "rb") as file:
            assert load(file)["a"].tolist() == [1.0, 1.0]
    with gzip.open(tmp_path / "packed", "wb") as file:
        save({"a": bireme.ones([2000])}, file)
    with gzip.open(tmp_path / "packed", "rb") as file:
        assert load(file)["a"].sum().item() == 2000.0
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.write(tmp_path / "a", "inner")
    with zipfile.ZipFile(tmp_path / "zip") as archive, archive.open("inner") as file:
        assert load(file)["a"].tolist() == [1.0, 1.0]
    with open(tmp_path / "text", "w") as text, pytest.raises(TypeError, match="binary mode"):
        save(1, text)
    with open(tmp_path / "text") as text, pytest.raises(TypeError, match="binary mode"):
        load(text)
    read, write = os.pipe()
    with open(read, "rb") as there, open(write, "wb", buffering=0) as here:
        save([1, 2], here)
        here.close()
        assert load(there) == [1, 2]


class Slow(io.RawIOBase):
    """A file that takes a few bytes at a time."""

    def __init__(self):
        self.data = b""

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data[:1000])
        return min(len(data), 1000)


@pytest.mark.parametrize("options", [{}, {"protocol": 2}, {"safetensors": True}])
def test_a_file_that_takes_a_part_at_a_time(options):
    slow = Slow()
    save({"w": bireme.arange(20000, dtype="float32")}, slow, **options)
    assert load(io.BytesIO(slow.data))["w"].numpy().tolist() == list(range(20000))


class Level(enum.IntEnum):
    LOW, HIGH = 1, 2


class Text(str, enum.Enum):  # noqa: UP042 - StrEnum says its value itself
    A = "a"


def holds_itself():
    data = []
    data.append(data)
    return data


def deep(n, inside=None):
    data = inside
    for _ in range(n):
        data = [data]
    return data


def doubled(n):
    data = []
    for _ in range(n):
        data = [data, data]
    return data


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda p: save(object(), p), TypeError, r"save\(obj\): expected tensors, .*, got object"),
        (lambda p: save({"a": [print]}, p), TypeError, "got builtin_function"),
        (lambda p: save(np.array(["a"]), p), TypeError, "expected numeric arrays"),
        (lambda p: save({"a": np.array([object()])}, p), TypeError, "expected numeric arrays"),
        (lambda p: save({1j: 1}, p), TypeError, "expected keys that are str"),
        (lambda p: save(1 << 9000, p), ValueError, "at most 8000 bits"),
        (lambda p: save(nn.ReLU(), p), ValueError, r"hint: save ReLU.state_dict\(\)"),
        (lambda p: save(holds_itself(), p), ValueError, "got a list that contains itself"),
        (lambda p: save(deep(102), p), ValueError, "got data nested more than 100 deep"),
        (lambda p: save(deep(101, bireme.ones([1])), p), ValueError, "got data nested more than 100 deep"),
        (lambda p: save(doubled(40), p), ValueError, "got data of more than"),
        (lambda p: save({2**64: 1}, p), TypeError, "keys that are str, 64-bit numbers"),
        (lambda p: save(np.ma.masked_array([1.0], [True]), p), TypeError, "expected numeric arrays"),
        (lambda p: save(range(3), p), NotImplementedError, r"save\(obj\): expected tensors, .*, got range"),
        (lambda p: save(1, ""), ValueError, r"save\(path\)"),
        (lambda p: save(1, os.path.dirname(p) + os.sep), ValueError, r"save\(path\)"),
        (lambda p: save(1, os.path.dirname(p)), IsADirectoryError, "the folder"),
        (lambda p: save(1, 3), TypeError, r"save\(path\)"),
        (lambda p: save(1, p, protocol=5), ValueError, r"save\(protocol\): expected 2, 3 or 4, got 5"),
        (lambda p: save(1, p, protocol="4"), ValueError, r"save\(protocol\)"),
        (lambda p: save(1, p, use_binary_format=True), NotImplementedError, "expected a Tensor, for the binary format"),
        (lambda p: save(1, p, use_binary_format="yes"), TypeError, "True or False"),
        (
            lambda p: save(1, p, compress=True),
            ValueError,
            "expected an option among use_binary_format, .*, got 'compress'",
        ),
        (
            lambda p: save({}, p, metadata={"a": "b"}),
            ValueError,
            r"save\(metadata\): expected a file that ends in .safetensors",
        ),
        (
            lambda p: load(p, map_location="cpu"),
            ValueError,
            "expected an option among return_numpy, .*, got 'map_location'",
        ),
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


def test_what_is_just_allowed(path):
    for given in (
        deep(101),
        deep(100, bireme.ones([1])),
        {(np.float64(1), "a"): 2},
        {-(2**63): 1, 2**64 - 1: 2},
        doubled(20),
    ):
        save(given, path)
        found = load(path)
        assert found == given or repr(found) == repr(given)
    save([Level.LOW, Level.HIGH, Text.A, np.str_("b")], path)
    assert load(path) == [1, 2, "a", "b"] and [type(x) for x in load(path)] == [int, int, str, str]


def test_half_a_name(path):
    save(1, path)
    with pytest.raises(ValueError, match=r"hint: give the whole name: .*x\.pdparams"):
        load(path.removesuffix(".pdparams"))


def test_the_old_word_for_protocol(path):
    with pytest.warns(UserWarning, match="pickle_protocol"):
        save([1], path, pickle_protocol=2)
    assert Path(path).read_bytes()[:2] == b"\x80\x02"


@pytest.mark.parametrize("dtype", TYPES)
def test_the_binary_form(dtype, path):
    given = bireme.to_tensor(np.arange(6).reshape(2, 3) % 2 * 1.5).astype(dtype)
    save(given, path, use_binary_format=True)
    found = load(path)
    assert found.dtype is given.dtype and found.numpy().tobytes() == given.numpy().tobytes() and found.shape == [2, 3]
    save(bireme.to_tensor(2.5), path, use_binary_format=True)
    assert Path(path).read_bytes() == bytes(16) + b"\x02\0\0\0\x08\x05" + struct.pack("<f", 2.5)  # as Paddle writes it


# ---------------------------------------------------------------- whole or not at all


def test_links_folders_and_rights(tmp_path):
    save(1, tmp_path / "new" / "folder" / "x")
    assert load(tmp_path / "new" / "folder" / "x") == 1
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save(2, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and load(tmp_path / "real") == 2
    (tmp_path / "real").chmod(0o640)
    save(3, tmp_path / "link")
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640 and load(tmp_path / "real") == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "new", "real"]
    long = tmp_path / ("ü" * 120)
    save(4, long)
    assert load(long) == 4


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    save(5, tmp_path / "pipe")
    reader.join()
    assert found == [b"\x80\x04K\x05."] and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_failed_save_changes_nothing(path):
    save({"good": bireme.ones([2])}, path)
    with pytest.raises(TypeError):
        save({"a": np.ones(3), "b": object()}, path)
    assert list(load(path)) == ["good"]
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


@pytest.fixture
def small_disk():
    """Files cannot grow beyond 100,000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["x.pdparams", "x.safetensors"])
def test_a_file_that_finds_no_room(name, tmp_path, small_disk):
    path = tmp_path / name
    save({"good": bireme.ones([2])}, path)
    with pytest.raises(
        OSError, match=rf"save\(path\): expected a file that can be written, got .*{name}: File too large"
    ) as told:
        save({"w": bireme.ones([100_000])}, path)
    assert "hint: what was there before is unchanged" in str(told.value) and told.value.errno == errno.EFBIG
    assert list(load(path)) == ["good"] and [p.name for p in tmp_path.iterdir()] == [name]


def test_a_full_disk_in_one_sentence(path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    save({"good": bireme.ones([2])}, path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"x\.pdparams: the disk is full\n  hint: what was there before is unchanged"):
        save({"w": bireme.ones([2])}, path)
    assert list(load(path)) == ["good"] and os.listdir(os.path.dirname(path)) == ["x.pdparams"]


def test_no_rights(path):
    save(1, path)
    with pytest.raises(
        OSError, match=r"save\(path\): expected a file that can be written, got .*/y: (File exists|Not a directory)"
    ):
        save(1, Path(path) / "y")
    os.chmod(path, 0)
    if not os.access(path, os.R_OK):
        with pytest.raises(
            PermissionError, match=r"load\(path\): expected a file that can be read, got .*: Permission denied"
        ):
            load(path)


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
    for kills in range(2):
        with started([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as writer:
            # after a different number of saves each time, so that the blow falls at different places of the next one
            assert writer.stdout.read(1 + kills) == b"x" * (1 + kills)
            time.sleep(random.random() * 0.02)
            writer.send_signal(signal.SIGKILL)
        found = load(path, return_numpy=True)
        assert (found["a"] == found["n"]).all()


STEPS = ["write", "flush", "fsync", "replace"]
DYING = """
import os, sys
from bireme.files import atomic
step, path = sys.argv[1:]
class Dying:
    def __init__(self, file): self.file = file
    def __getattr__(self, name):
        if name == step: os.kill(os.getpid(), 9)
        return getattr(self.file, name)
if step in ("fsync", "replace"):
    setattr(os, step, lambda *a: os.kill(os.getpid(), 9))
with atomic.replacing(path) as file:
    file.write(b"new" * 1000)
    getattr(Dying(file), "write")(b"more")
    getattr(Dying(file), "flush")()
"""


def test_death_at_each_step_of_a_save(tmp_path):
    source = str(Path(atomic.__file__))
    for step in STEPS:
        path = tmp_path / step
        path.write_bytes(b"old")
        # the module alone: a child that imports all of bireme would take seconds
        code = DYING.replace("from bireme.files import atomic", f"import importlib.util as u; s = u.spec_from_file_location('atomic', {source!r})\n"
                             "atomic = u.module_from_spec(s); s.loader.exec_module(atomic)")  # fmt: skip
        done = subprocess.run([sys.executable, "-c", code, step, str(path)], check=False)
        assert done.returncode == -signal.SIGKILL and path.read_bytes() == b"old", step


def test_a_file_is_loaded_while_it_is_replaced(path):
    save(np.full(50_000, 0), path)
    stop = threading.Event()

    def replace():
        n = 0
        while not stop.is_set():
            n += 1
            save(np.full(50_000, n), path)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(60):
            found = load(path, return_numpy=True)
            assert (found == found[0]).all() and len(found) == 50_000
    finally:
        stop.set()
        writer.join()


# ---------------------------------------------------------------- safetensors


def test_the_safetensors_library_and_we_understand_each_other(tensors):
    given = {
        "w": bireme.to_tensor([[1.0, 2.0]]),
        "flag": bireme.to_tensor([True]),
        "n": bireme.to_tensor(7),
        "h": bireme.ones([3], "bfloat16"),
    }
    save(given, tensors, metadata={"format": "pt", "ü": "é"})
    found = safetensors.numpy.load_file(tensors)
    assert found["w"].tolist() == [[1.0, 2.0]] and found["flag"].tolist() == [True] and found["n"].tolist() == 7
    assert found["h"].dtype == ml_dtypes.bfloat16
    assert read_metadata(tensors) == {"format": "pt", "ü": "é"}
    arrays = {
        "a": np.arange(6, dtype=np.int16).reshape(2, 3),
        "b": np.ones(3, np.float16),
        "odd": np.ones(3, np.uint8),
        "z": np.zeros((0, 2)),
    }
    safetensors.numpy.save_file(arrays, tensors, {"x": "y"})
    mine = load(tensors, return_numpy=True)
    assert sorted(mine) == sorted(arrays) and all(
        np.array_equal(mine[k], arrays[k]) and mine[k].dtype == arrays[k].dtype for k in arrays
    )
    assert read_metadata(tensors) == {"x": "y"} and load(tensors)["a"].dtype is bireme.int16


def test_our_bytes_are_those_of_the_library(tensors):
    arrays = {"a": np.ones(3, np.float32), "b": np.arange(5, dtype=np.uint8), "c": np.ones((2, 2))}
    save(arrays, tensors)
    found = safetensors.numpy.load(Path(tensors).read_bytes())
    assert {k: v.tobytes() for k, v in found.items()} == {k: v.tobytes() for k, v in arrays.items()}
    entries = json.loads(Path(tensors).read_bytes()[8:].split(b"}}")[0] + b"}}")
    assert [entries[k]["data_offsets"][0] % arrays[k].itemsize for k in arrays] == [0, 0, 0]


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "complex64"])
def test_types_that_the_library_does_not_hand_out(kind, tensors):
    save({"w": bireme.to_tensor([1.5, -2.0]).astype(kind)}, tensors)
    assert load(tensors)["w"].dtype.name == kind and load(tensors)["w"].numpy().astype("complex64").tolist() == [
        1.5,
        -2.0,
    ]


def test_arrays_that_are_mapped(tensors, path):
    given = {
        "w": np.arange(100_000, dtype=np.float32),
        "b": np.ones(3, np.uint8),
        "flag": np.array([True, False]),
        "none": np.zeros((0, 2)),
    }
    save(given, tensors)
    found = load(tensors, return_numpy=True, mmap=True)
    assert all(np.array_equal(found[k], given[k]) for k in given)
    assert load(tensors, mmap=True)["w"][-1].item() == 99_999
    found["w"][0] = 5.0  # stays in memory
    assert load(tensors)["w"][0].item() == 0.0
    save({"w": np.zeros(3)}, tensors)  # another file takes its place: what is mapped is still the old one
    assert found["w"][-1] == 99_999


def test_a_name_without_the_ending(path):
    save({"w": bireme.ones([2])}, path, safetensors=True)
    assert load(path)["w"].tolist() == [1.0, 1.0] and load(path, safetensors=True)["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("obj", "options", "message"),
    [
        ([1], {}, "a dict of name to Tensor"),
        ({"a": 1}, {}, "got 'a': 1"),
        ({1: bireme.ones([1])}, {}, "a dict of name to Tensor"),
        ({"a": {"b": bireme.ones([1])}}, {}, "got 'a': dict"),
        ({"a": bireme.ones([1]).astype("complex128")}, {}, "dtypes that safetensors supports, got complex128 for 'a'"),
        ({"a": bireme.ones([1])}, {"metadata": {"a": 1}}, r"save\(metadata\): expected a dict of str to str"),
    ],
)
def test_what_a_safetensors_file_cannot_hold(obj, options, message, tensors):
    with pytest.raises(TypeError, match=message):
        save(obj, tensors, **options)
    assert not os.path.exists(tensors)


def header(path, text, data=b""):
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def entry(dtype="F32", shape=(1,), extent=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(extent)}


def one(path, given, data=b"1234"):
    header(path, json.dumps({"a": given} if isinstance(given, dict) and "a" not in given else given).encode(), data)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda p: Path(p).write_bytes(b""), "truncated"),
        (lambda p: Path(p).write_bytes(b"\xff" * 64), "header would be 18446744073709551615 bytes long"),
        (lambda p: header(p, b"[]"), "not a JSON object"),
        (lambda p: header(p, b"{" * 100_000), "not JSON"),
        (lambda p: header(p, b"\xff\xfe{}"), "not JSON"),
        (lambda p: header(p, b'{"a":1,"a":2}'), "duplicate keys"),
        (lambda p: header(p, b'{"__metadata__":{"format":3}}'), "metadata that is not a dict of str to str"),
        (lambda p: header(p, b'{"__metadata__":3}'), "metadata that is not a dict of str to str"),
        (lambda p: one(p, entry(shape=(2**60,))), r"'a' of shape \[1152921504606846976\] in 4 bytes"),
        (lambda p: one(p, entry(shape=(2**40, 0))), "in 4 bytes"),
        (lambda p: one(p, entry(shape=(2**40, 2**40, 0), extent=(0, 0)), b""), "in 0 bytes"),
        (lambda p: one(p, entry(shape=(-1,))), "invalid shape or data_offsets"),
        (lambda p: one(p, entry(shape=(True,))), "invalid shape or data_offsets"),
        (
            lambda p: header(p, json.dumps({"a\x1b[31m\n": entry(shape=(-1,))}).encode(), b"1234"),
            r"'a\\x1b\[31m\\n' with an invalid shape",
        ),
        (lambda p: one(p, entry(shape=("1",))), "invalid shape or data_offsets"),
        (lambda p: one(p, entry(shape=(1,) * 70)), "invalid shape or data_offsets"),
        (lambda p: one(p, entry(extent=(0, 4, 4))), "invalid shape or data_offsets"),
        (lambda p: one(p, entry(extent=(4, 0))), "in -4 bytes"),
        (lambda p: one(p, entry(dtype="PICKLE")), "unknown dtype 'PICKLE'"),
        (lambda p: one(p, entry(dtype=5)), "unknown dtype '5'"),
        (lambda p: one(p, {"dtype": "F32"}), "incomplete entry"),
        (lambda p: header(p, b'{"a":3}'), "incomplete entry"),
        (lambda p: one(p, entry(extent=(4, 8))), "overlap or leave gaps"),
        (lambda p: one(p, {"a": entry(), "b": entry()}), "overlap or leave gaps"),
        (lambda p: one(p, entry(), b"12345678"), "8 bytes of data where its header says 4"),
        (lambda p: one(p, entry(), b"1"), "1 bytes of data where its header says 4"),
    ],
)
def test_hostile_headers(write, message, tensors):
    write(tensors)
    with pytest.raises(ValueError, match=rf"load\(path\): {SURE}.*x\.safetensors: .*{message}"):
        load(tensors)


def test_every_cut_of_a_safetensors_file_is_refused(tensors):
    save({"a": bireme.ones([3]), "b": bireme.ones([2], "int64")}, tensors)
    whole = Path(tensors).read_bytes()
    for n in range(len(whole)):
        Path(tensors).write_bytes(whole[:n])
        with pytest.raises(ValueError, match=SURE):
            load(tensors)


def test_strange_bytes_of_a_bool_are_true(tensors):
    one(tensors, entry("BOOL", (3,), (0, 3)), b"\x00\x01\x07")
    assert load(tensors)["a"].astype("int32").tolist() == [0, 1, 1]


# ---------------------------------------------------------------- beside the training


def test_async_save_has_what_was_there_when_it_was_called(tmp_path):
    model = nn.Linear(64, 64)
    opt = bireme.optimizer.Adam(0.1, parameters=model.parameters())
    kept = {}
    for step in range(6):
        path = str(tmp_path / f"{step}.pdparams")
        bireme.async_save({**model.state_dict(), "list": [bireme.to_tensor(step), {"n": step}]}, path)
        kept[path] = model.weight.numpy()
        (model(bireme.ones([2, 64])) ** 2).mean().backward()
        opt.step()
        opt.clear_grad()
    bireme.clear_async_save_task_queue()
    for step, (path, weight) in enumerate(kept.items()):
        found = bireme.load(path)
        assert (found["weight"].numpy() == weight).all()
        assert found["list"][0].item() == found["list"][1]["n"] == step


def test_async_save_does_not_look_at_an_array_later(path):
    a = np.zeros(3)
    bireme.async_save([a, bireme.ones([2])], path, sync_other_task=True)
    a[:] = 7
    bireme.clear_async_save_task_queue()
    assert bireme.load(path, return_numpy=True)[0].tolist() == [0, 0, 0]


def test_async_save_tells_what_went_wrong(tmp_path, capfd):
    (tmp_path / "taken").mkdir()
    bireme.async_save({"w": bireme.ones([2])}, str(tmp_path / "taken"))
    with pytest.raises(IsADirectoryError, match="expected the name of a file"):
        bireme.clear_async_save_task_queue()
    assert "async_save" in capfd.readouterr().err
    bireme.clear_async_save_task_queue()  # told once


@pytest.mark.parametrize("bad", [nn.Linear(1, 1), "text", 5, None])
def test_async_save_refuses_what_holds_no_tensors(bad, path):
    with pytest.raises(TypeError, match="a Tensor, a dict, a list or a tuple"):
        bireme.async_save(bad, path)


def test_a_process_ends_when_its_files_are_there(path):
    script = f"import bireme; bireme.async_save({{'w': bireme.ones([500, 500])}}, {path!r})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=100)
    assert bireme.load(path)["w"].shape == [500, 500]


def test_a_file_that_fails_takes_no_other_with_it(tmp_path, capfd):
    (tmp_path / "taken").mkdir()
    bireme.async_save({"w": bireme.ones([2])}, str(tmp_path / "taken"))
    # told by the next call if it has failed by then, else when the queue is waited for
    with pytest.raises(IsADirectoryError):
        bireme.async_save({"w": bireme.ones([2])}, str(tmp_path / "next"), sync_other_task=False)
        bireme.clear_async_save_task_queue()
    bireme.clear_async_save_task_queue()
    assert bireme.load(str(tmp_path / "next"))["w"].tolist() == [1, 1]
    capfd.readouterr()


def test_errors_of_the_training_stay_with_the_training(path):
    state = {"w": bireme.to_tensor(np.ones((50, 50), "float32")) * 2}
    state["w"].numpy()
    wrong = bireme.index_select(bireme.ones([3]), bireme.to_tensor([5]) + 0)
    bireme.core.record.flush.run(bireme.core.graph.segment.local.segment)
    with pytest.raises(IndexError, match="got an index out of range"):
        bireme.async_save(state, path)  # the caller is told
    with pytest.raises(IndexError, match="got an index out of range"):
        bireme.async_save({"wrong": wrong}, path)
    bireme.index_select(bireme.ones([3]), bireme.to_tensor([6]) + 0)
    bireme.core.record.flush.run(bireme.core.graph.segment.local.segment)
    background._Held(state["w"]._value)._host()  # the writer is not
    with pytest.raises(IndexError, match="got an index out of range"):
        state["w"].numpy()


def test_async_save_keeps_what_is_one_object_one(path):
    t = bireme.ones([2])
    bireme.async_save([t, t], path)
    bireme.clear_async_save_task_queue()
    found = bireme.load(path)
    assert found[0] is found[1]


def test_async_save_from_many_threads(tmp_path):
    def work(n):
        for _ in range(20):
            bireme.async_save({"w": n}, str(tmp_path / f"{n}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    bireme.clear_async_save_task_queue()
    assert [bireme.load(str(tmp_path / f"{n}"))["w"] for n in range(4)] == [0, 1, 2, 3]
