"""Export to ONNX: what onnxruntime computes from the file is what the layer computes, at more than one size."""

import importlib
import zlib
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn, static
from bireme.core.program.program import leaves
from bireme.static import InputSpec
from bireme.vision import models
from tests.captured_functions import CASES
from tests.table.test_layer_table import LAYERS
from tests.table.test_table import TABLE
from tests.test_to_static import given, specs, values
from tools import onnx_table

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
F = nn.functional
HERE = Path(__file__).parent
UNEXPORTED = set((HERE / "data" / "onnx_unexported.txt").read_text().split())


def runs_alike(layer, path, specs, sizes=(3, 6), **configs):
    """Compare the file and the layer; unknown sizes are each of `sizes` in turn."""
    bireme.onnx.export(layer, str(path / "model.onnx"), specs, **configs)
    session = onnx_table.session(onnx.load(path / "model.onnx"))
    rng = np.random.default_rng(0)
    if hasattr(layer, "eval"):
        layer.eval()
    for size in sizes:
        feed = {}
        for spec in specs:
            shape = [size if n == -1 else n for n in spec.shape]
            whole = spec.dtype.kind == "i"
            feed[spec.name] = (rng.integers(0, 3, shape) if whole else rng.standard_normal(shape)).astype(spec.dtype.np)
        wanted = {x.name for x in session.get_inputs()}
        got = session.run(None, {k: v for k, v in feed.items() if k in wanted})
        want = [t.numpy() for t in leaves(layer(*map(bireme.to_tensor, feed.values()))) if isinstance(t, bireme.Tensor)]
        for g, w in zip(got, want, strict=True):
            assert g.dtype == w.dtype and g.shape == w.shape
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4 * np.abs(w).max(initial=1e-3))
    return session


def floats(*shape):
    return [InputSpec(list(shape), "float32", "x")]


DYNAMIC = {
    "linear": (lambda: nn.Linear(4, 3), floats(None, 4)),
    "convolution": (lambda: nn.Conv2D(3, 4, 3, padding=1, stride=2), floats(None, 3, None, None)),
    "convolution to the same size": (lambda: nn.Conv2D(3, 4, 3, padding="SAME"), floats(None, 3, None, None)),
    "transposed": (lambda: nn.Conv2DTranspose(3, 4, 3, stride=2), floats(None, 3, None, None)),
    "pooling": (lambda: nn.Sequential(nn.MaxPool2D(2), nn.AvgPool2D(2, 1, 1)), floats(None, 3, None, None)),
    "batch norm": (lambda: nn.BatchNorm2D(4), floats(None, 4, None, None)),
    "group norm": (lambda: nn.GroupNorm(2, 4), floats(None, 4, None, None)),
    "instance norm": (lambda: nn.InstanceNorm2D(4), floats(None, 4, None, None)),
    "lstm": (lambda: nn.LSTM(4, 8, num_layers=2, direction="bidirect"), floats(None, None, 4)),
    "gru": (lambda: nn.GRU(4, 8), floats(None, None, 4)),
    "rnn": (lambda: nn.SimpleRNN(4, 8), floats(None, None, 4)),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16), floats(None, None, 8)),
    "embedding": (lambda: nn.Embedding(5, 4), [InputSpec([None, None], "int64", "x")]),
    "interpolate": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), floats(None, 3, None, None)),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), floats(None, 4, None, None)),
    "slice": (lambda: lambda x: x[:, 1:-1] * x.shape[1], floats(None, None)),
    "put": (lambda: _put, floats(None, None)),
    "norm": (lambda: lambda x: bireme.linalg.norm(x, axis=1), floats(None, None)),
    "variance": (lambda: lambda x: bireme.std(x, axis=0), floats(None, None)),
    "topk": (lambda: lambda x: bireme.topk(x, 2), floats(None, None)),
    "sort": (lambda: lambda x: [bireme.sort(x), bireme.argmax(x, 1), bireme.cumsum(x, 0)], floats(None, None)),
    "mask": (lambda: lambda x: bireme.where(x > 0, x, x.mean()), floats(None, None)),
    "einsum": (lambda: lambda x: bireme.einsum("bi,bj->bij", x, x), floats(None, None)),
    "cond": (lambda: lambda x: static.nn.cond(x.sum() > 0, lambda: x + 1, lambda: x - 1), floats(None, None)),
    "switch": (lambda: _switch, floats(None, None)),
    "while": (lambda: _loop, floats(None, None)),
}  # fmt: skip


def _put(x):
    x = x * 1
    x[:, 0] = 5.0
    return x


def _switch(x):
    index = (x > 0).astype("int64").sum() % 3
    return static.nn.switch_case(index, [lambda: x, lambda: x * 2, lambda: x - 3])


def _loop(x):
    return static.nn.while_loop(
        lambda i, y: i < 3, lambda i, y: [i + 1, y * 2 + i.astype("float32")], [bireme.to_tensor(0), x]
    )


@pytest.mark.parametrize("name", DYNAMIC)
def test_sizes_stay_open(name, tmp_path):
    make, specs = DYNAMIC[name]
    runs_alike(make(), tmp_path, specs)


class Doubling(nn.Layer):
    """A Python loop and branch over tensors, which are captured as such."""

    def forward(self, x):
        while x.sum() < 100:
            x = x * 2 + 1
        if x.mean() > 5:
            x = x - 1
        return x


def test_statements_become_nodes(tmp_path):
    session = runs_alike(Doubling(), tmp_path, floats(None))
    assert {"If", "Loop"} <= {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}
    assert len(session.get_outputs()) == 1


def test_names_of_inputs_and_outputs(tmp_path):
    session = runs_alike(nn.Linear(4, 3), tmp_path, floats(None, 4), output_names=["y"])
    assert [x.name for x in session.get_inputs()] == ["x"] and [x.name for x in session.get_outputs()] == ["y"]
    assert session.get_inputs()[0].shape[1] == 4 and isinstance(session.get_inputs()[0].shape[0], str)


def test_a_layer_is_exported_as_it_evaluates_and_stays_as_it_was(tmp_path):
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    runs = onnx_table.session
    bireme.onnx.export(layer, str(tmp_path / "a"), floats(None, 4))
    x = np.ones((2, 4), "float32")
    (got,) = runs(onnx.load(tmp_path / "a.onnx")).run(None, {"x": x})
    np.testing.assert_allclose(got, layer[0](bireme.to_tensor(x)).numpy(), rtol=1e-5)
    assert layer.training and layer[1].training


def names_of_networks():
    return [name for name in models.__all__ if name[0].islower()] + ["LeNet"]


@pytest.mark.parametrize("name", ["LeNet", "squeezenet1_1", "shufflenet_v2_x0_25", "mobilenet_v3_small"])
def test_some_networks(name, tmp_path):
    size = 28 if name == "LeNet" else 64
    runs_alike(getattr(models, name)(), tmp_path, floats(None, 1 if name == "LeNet" else 3, size, size), (1, 2))


@pytest.mark.full
@pytest.mark.parametrize("name", names_of_networks())
def test_every_network(name, tmp_path):
    size = 28 if name == "LeNet" else 299 if "inception" in name else 224
    runs_alike(getattr(models, name)(), tmp_path, floats(None, 1 if name == "LeNet" else 3, size, size), (1, 2))


def chosen(name, full, one_in):
    return full or zlib.crc32(name.encode()) % one_in == 0


@pytest.mark.parametrize("kind", ["operators", "layers"])
def test_rows_of_the_tables(kind, full):
    """Rows export and agree but for those that are listed; one that is listed and does is to be taken off."""
    rows = [row for row in (TABLE if kind == "operators" else LAYERS) if chosen(row.name, full, 60)]
    found = {row.name: onnx_table.problem(row) for row in rows}
    bad = {name: why for name, why in found.items() if (why is not None) != (name in UNEXPORTED)}
    assert not bad


def test_what_has_no_form_is_one_sentence(tmp_path):
    with pytest.raises(RuntimeError, match=r"onnx.export: rand, called at test_onnx_export.py:.* because of random"):
        bireme.onnx.export(lambda x: x + bireme.rand([2]), str(tmp_path / "a"), floats(2))
    with pytest.raises(RuntimeError, match="hint: give all sizes"):
        bireme.onnx.export(lambda x: F.fold(x, 4, 2), str(tmp_path / "a"), floats(None, 4, 9))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((3, "a"), r"onnx.export\(layer\): expected a Layer or a function, got 3"),
        ((nn.ReLU(), 5), r"onnx.export\(path\): expected a path that ends in a name, got 5"),
        ((nn.ReLU(), "a", ["x"]), r"onnx.export\(input_spec\): expected InputSpecs or Tensors"),
        ((nn.ReLU(), "a", None, 99), r"onnx.export\(opset_version\): expected at most 18, got 99"),
    ],
)
def test_wrong_arguments(args, message):
    with pytest.raises((TypeError, ValueError), match=message):
        bireme.onnx.export(*args)


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    real = importlib.import_module

    def without(name, *args):
        if name.split(".")[0] == "onnx":
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ImportError, match=r"onnx is needed(.|\n)*pip install 'bireme\[onnx\]'"):
        bireme.onnx.export(nn.ReLU(), str(tmp_path / "a"), floats(2))


@pytest.mark.parametrize(("name", "fn", "calls", "sizes"), CASES, ids=[c[0] for c in CASES])
def test_control_flow(name, fn, calls, sizes, tmp_path, full, capsys):
    """Branches, loops and lists of captured functions are If, Loop and sequences."""
    if not full and zlib.crc32(name.encode()) % 3:
        pytest.skip("one of the functions that make test-all exports")
    bireme.onnx.export(fn, str(tmp_path / "f"), specs(calls[0], sizes))
    session = onnxruntime.InferenceSession(str(tmp_path / "f.onnx"), providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]
    for args in calls:
        got = session.run(None, dict(zip(names, [x for x in args if isinstance(x, np.ndarray)], strict=True)))
        for g, w in zip(got, values(fn(*given(args))), strict=False):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
