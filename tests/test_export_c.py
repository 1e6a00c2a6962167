"""Models as C: compiled with every warning an error and with sanitizers, and equal to what they compute here."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.command import main
from bireme.export import memory, to_c
from bireme.export.c_source import KERNELS, _identifiers
from bireme.export.graph import Call, Graph, Value
from bireme.static import InputSpec

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
GCC = shutil.which("gcc")
needs_compiler = pytest.mark.skipif(GCC is None, reason="there is no gcc")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
SAFE = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def compiled(folder, name, flags=SAFE):
    command = [GCC, *STRICT, *flags, f"-D{name.upper()}_MAIN", f"{folder}/{name}.c", "-o", f"{folder}/{name}", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


def ran(folder, name, arrays, *arguments):
    """The bytes that the program gives."""
    given = b"".join(a.tobytes() for a in arrays)
    return subprocess.run(
        [f"{folder}/{name}", *arguments], input=given, capture_output=True, check=True, timeout=60
    ).stdout


def close(found, expected, tolerance=1e-5):
    assert found.size == expected.size
    assert np.abs(found - expected.reshape(-1)).max() <= tolerance * max(np.abs(expected).max(), 1)


class Digits(nn.Layer):
    def __init__(self):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2D(1, 6, 3, padding=1), nn.BatchNorm2D(6), nn.ReLU(), nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 12, 3, groups=2, stride=2), nn.Hardswish(), nn.Conv2D(12, 12, 3, groups=12, padding=1), nn.ReLU6(),
        )  # fmt: skip
        self.head = nn.Linear(12 * 3 * 3, 10)

    def forward(self, x):
        return nn.functional.softmax(self.head(self.convolutions(x).flatten(1)))


class Mixed(nn.Layer):
    """Shapes, broadcasting, normalization, products of several matrices, reductions, pictures made larger."""

    def __init__(self):
        super().__init__()
        self.norm, self.line = nn.LayerNorm(6), nn.Linear(6, 6)
        self.up, self.large = (
            nn.Conv2DTranspose(2, 3, 3, stride=2, padding=1),
            nn.Upsample(scale_factor=2, mode="bilinear"),
        )

    def forward(self, x, z):
        y = self.norm(x)
        y = nn.functional.gelu(self.line(y)) + x[:, :1] * 2 - x.mean(-1, keepdim=True)
        parts = bireme.split(y.transpose([0, 2, 1]), 2, axis=1)
        product = bireme.matmul(parts[0], parts[1], transpose_y=True)
        joined = bireme.concat([product.flatten(1), bireme.exp(-y.abs()).sum([1, 2], keepdim=False).unsqueeze(1)], 1)
        picture = nn.functional.leaky_relu(self.up(z)) if z.shape[0] else z
        picture = self.large(nn.functional.avg_pool2d(nn.functional.pad(picture, [1, 0, 0, 2], value=0.5), 2, 1))
        top = bireme.maximum(picture.max([2, 3]), picture.min([2, 3]) * 3)
        return (
            bireme.where(joined > 0, joined, joined**2).clip(-2.0, 3.0),
            nn.functional.log_softmax(top, 1),
            y.argmax(-1),
        )


class Words(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table, self.line = nn.Embedding(11, 8), nn.Linear(8, 3)

    def forward(self, ids):
        return nn.functional.tanh(self.line(self.table(ids))).mean(1)


@pytest.fixture(autouse=True)
def same_weights():
    bireme.seed(1)


def exported(layer, folder, specs, name="net", **options):
    layer.eval()
    return to_c(layer, folder / f"{name}.c", name=name, input_spec=specs, **options)


@needs_compiler
@pytest.mark.parametrize("beside", [False, True])
def test_a_small_network(tmp_path, beside):
    net = Digits()
    net.convolutions[1]._mean.set_value(bireme.to_tensor(np.linspace(-1, 1, 6, dtype="float32")))
    net.convolutions[1]._variance.set_value(bireme.to_tensor(np.linspace(0.5, 2, 6, dtype="float32")))
    written = exported(net, tmp_path, [InputSpec([3, 1, 14, 14], "float32", "x")], beside=beside)
    compiled(tmp_path, "net")
    x = np.random.default_rng(0).standard_normal((3, 1, 14, 14)).astype("float32")
    found = np.frombuffer(ran(tmp_path, "net", [x], "2", *([written.weights] if beside else [])), "float32")
    close(found, net(bireme.to_tensor(x)).numpy())
    text = (tmp_path / "net.c").read_text()
    assert "BatchNormalization" not in text and "/* Conv and relu" in text and "bm_layer_norm" not in text
    assert written.memory < 100_000


@needs_compiler
def test_many_operators(tmp_path):
    net = Mixed()
    exported(net, tmp_path, [InputSpec([2, 4, 6], "float32", "x"), InputSpec([2, 2, 3, 4], "float32", "z")])
    compiled(tmp_path, "net")
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 4, 6)).astype("float32"), rng.standard_normal((2, 2, 3, 4)).astype("float32")
    given = ran(tmp_path, "net", [x, z])
    first, second, third = [t.numpy() for t in net(bireme.to_tensor(x), bireme.to_tensor(z))]
    close(np.frombuffer(given, "float32", first.size), first)
    close(np.frombuffer(given, "float32", second.size, 4 * first.size), second)
    assert (np.frombuffer(given, "int64", third.size, 4 * (first.size + second.size)) == third.reshape(-1)).all()


@needs_compiler
def test_indices_out_of_range_are_told(tmp_path):
    net = Words()
    exported(net, tmp_path, [InputSpec([1, 4], "int64", "ids")])
    compiled(tmp_path, "net")
    ids = np.array([[0, 10, 3, 3]])
    close(np.frombuffer(ran(tmp_path, "net", [ids]), "float32"), net(bireme.to_tensor(ids)).numpy())
    with pytest.raises(subprocess.CalledProcessError) as told:
        ran(tmp_path, "net", [ids + 5])
    assert told.value.returncode == 1


@needs_compiler
def test_integers_of_eight_bits(tmp_path):
    net = Digits()
    spec = [InputSpec([1, 1, 14, 14], "float32", "x")]
    plain, small = [
        exported(net, tmp_path, spec, name, beside=True, int8=name == "small") for name in ("plain", "small")
    ]
    assert Path(small.weights).stat().st_size < 0.9 * Path(plain.weights).stat().st_size  # the head stays as it is
    compiled(tmp_path, "small")
    x = np.random.default_rng(0).standard_normal((1, 1, 14, 14)).astype("float32")
    found = np.frombuffer(ran(tmp_path, "small", [x], "1", small.weights), "float32")
    close(found, net(bireme.to_tensor(x)).numpy(), 0.02)


@needs_compiler
@pytest.mark.full
def test_a_large_network(tmp_path):
    net = bireme.vision.models.mobilenet_v2(num_classes=10)
    exported(net, tmp_path, [InputSpec([1, 3, 96, 96], "float32", "x")])
    compiled(tmp_path, "net", ["-O3", "-march=native"])
    x = np.random.default_rng(0).standard_normal((1, 3, 96, 96)).astype("float32")
    close(np.frombuffer(ran(tmp_path, "net", [x]), "float32"), net(bireme.to_tensor(x)).numpy())


def test_what_has_no_form(tmp_path):
    class Sorted(nn.Layer):
        def forward(self, x):
            return x.sort(-1)

    with pytest.raises(NotImplementedError, match=r"TopK has no form in C yet\n  hint: export to ONNX instead"):
        exported(Sorted(), tmp_path, [InputSpec([2, 3], "float32", "x")])
    with pytest.raises(ValueError, match=r"input x has the shape \[.*\], and C needs every size"):
        exported(nn.ReLU(), tmp_path, [InputSpec([None, 3], "float32", "x")])
    with pytest.raises(ValueError, match=r"to_c\(shapes\): expected names of inputs, x, got 'y'"):
        exported(nn.ReLU(), tmp_path, [InputSpec([2, 3], "float32", "x")], shapes={"y": (1,)})
    with pytest.raises(ValueError, match=r"to_c\(name\): expected letters"):
        exported(nn.ReLU(), tmp_path, [InputSpec([2, 3], "float32", "x")], "1-2")
    assert not list(tmp_path.iterdir())


def test_memory_is_shared():
    values = [Value(f"v{i}", (1000,), np.dtype("float32")) for i in range(6)]
    chain = [Call("Relu", [values[i]], [values[i + 1]]) for i in range(5)]
    graph = Graph([values[0]], [values[5]], chain)
    offsets, scratch, total = memory.placed(graph, [0, 0, 500, 0, 0])
    assert set(offsets) == set(values[1:5]) and total <= 2 * 4032 + 512 and scratch[2] >= 4032
    # a reshaped value has its operand's place, an output its own
    graph = Graph(
        [values[0]],
        [values[3]],
        [chain[0], Call("Reshape", [values[1]], [values[2]]), Call("Reshape", [values[2]], [values[3]])],
    )
    assert memory.home(graph) == {values[2]: values[1]}


def test_names_of_c():
    assert _identifiers(["x.1", "x_1", "1", "int", "v3", "é"]) == ["x_1", "x_1_", "t1", "int_", "v3_", "t_"]


def test_every_kernel_is_used_by_a_row():
    sections = [line[4:].split()[0] for line in KERNELS.read_text().splitlines() if line.startswith("//: ")]
    rows = "".join(path.read_text() for path in (KERNELS.parent / "rows").glob("*.py"))
    needed = {
        name for line in KERNELS.read_text().splitlines() if line.startswith("//: ") for name in line[4:].split()[1:]
    }
    assert all(f'"{name}"' in rows or name in needed for name in sections)


def test_the_command(tmp_path, capsys):
    bireme.jit.save(nn.ReLU(), str(tmp_path / "net"), [InputSpec([None, 3], "float32", "x")])
    assert main(["export", str(tmp_path / "net"), "--to", "c", "-o", str(tmp_path / "net.c"), "--shape", "x=2,3"]) == 0
    assert "1 calls" in capsys.readouterr().out and "int net_run(const float *x" in (tmp_path / "net.c").read_text()
    assert main(["export", str(tmp_path / "net"), "--to", "onnx", "-o", str(tmp_path / "net.onnx")]) == 0
    assert (tmp_path / "net.onnx").exists()
    assert main(["export", str(tmp_path / "net"), "--to", "c", "-o", str(tmp_path / "x.c"), "--shape", "x"]) == 1
    assert "--shape: expected NAME=1,3,224,224" in capsys.readouterr().err
