"""`bireme quantize`: saved models become smaller, stay right, and are told of."""

import json

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.command import main
from bireme.inference.saved import model_of, sketches
from bireme.jit.transforms.editing import arguments
from bireme.quantization import equalization, observers
from bireme.quantization.saved import quantized_model
from bireme.static import InputSpec


class Net(nn.Layer):
    """Convolutions with a normalization, a linear layer, and a product with a transposed parameter."""

    def __init__(self):
        super().__init__()
        self.images = nn.Sequential(
            nn.Conv2D(1, 8, 3, padding="SAME"), nn.BatchNorm2D(8), nn.ReLU(), nn.Conv2D(8, 8, 3, groups=2)
        )
        self.linear, self.weight = nn.Linear(8 * 36, 32), self.create_parameter([10, 32])

    def forward(self, x):
        return bireme.matmul(nn.functional.relu(self.linear(self.images(x).flatten(1))), self.weight, transpose_y=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, and samples with the classes that it finds itself."""
    folder = tmp_path_factory.mktemp("quantized")
    bireme.seed(0)
    net = Net()
    net.eval()
    bireme.jit.save(net, str(folder / "net"), [InputSpec([None, 1, 8, 8], "float32", "x")])
    x = np.random.default_rng(0).standard_normal((40, 1, 8, 8)).astype("float32")
    y = net(bireme.to_tensor(x)).numpy()
    np.savez(folder / "data.npz", x=x, labels=y.argmax(1))
    return folder, x, y


def quantize(capsys, folder, *options):
    assert main(["quantize", str(folder / "net"), "-o", str(folder / "small"), "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("to", "options", "operations", "share", "apart"),
    [
        ("int8", ("--observer", "absmax"), {"matmul_integer", "conv2d_integer"}, 0.45, 0.05),
        ("int8", ("--observer", "kl"), {"matmul_integer", "conv2d_integer"}, 0.45, 0.5),
        ("int8", (), {"matmul_integer", "conv2d_integer"}, 0.5, 0.05),
        ("weight-int8", (), {"dequantize_linear", "linear", "conv2d"}, 0.45, 0.02),
        ("weight-int4", (), {"unpack_int4", "dequantize_linear"}, 0.35, 0.3),
        ("weight-int4", ("--group", "16"), {"unpack_int4", "dequantize_linear"}, 0.45, 0.3),
    ],
)
def test_a_model_with_integers(saved, capsys, to, options, operations, share, apart):
    folder, x, y = saved
    told = quantize(capsys, folder, "--to", to, "--data", str(folder / "data.npz"), *options)
    made = bireme.jit.load(str(folder / "small"))(bireme.to_tensor(x)).numpy()
    assert (
        told["layers"] == 4
        and told["accuracy"]["before"] == 1.0
        and told["accuracy"]["after"] == (made.argmax(1) == y.argmax(1)).mean()
    )
    assert told["largest_difference"] == pytest.approx(np.abs(made - y).max(), rel=1e-3, abs=1e-5)
    assert np.abs(made - y).max() < apart * np.abs(y).max() and told["bytes"]["after"] < share * told["bytes"]["before"]
    assert sketches(model_of(folder / "small")) == sketches(model_of(folder / "net"))
    assert operations <= {o.type for o in model_of(folder / "small").program.operations}


def test_weights_alone_need_no_samples(saved, capsys):
    folder, x, y = saved
    told = quantize(capsys, folder, "--to", "weight-int8")
    assert set(told) == {"bytes", "layers"}
    assert np.allclose(bireme.jit.load(str(folder / "small"))(bireme.to_tensor(x[:3])).numpy(), y[:3], atol=0.05)
    assert main(["quantize", str(folder / "net"), "-o", str(folder / "small"), "--to", "weight-int8"]) == 0
    assert "4 with integers" in capsys.readouterr().out


class Uneven(nn.Layer):
    """Between its convolutions channels differ by a thousand; biases are added beside the convolutions."""

    def __init__(self):
        super().__init__()
        self.first, self.depth = nn.Conv2D(1, 8, 3, bias_attr=False), nn.Conv2D(8, 8, 3, groups=8, bias_attr=False)
        self.second = nn.Conv2D(8, 4, 1)
        sizes = bireme.to_tensor(np.geomspace(0.03, 30.0, 8).astype("float32"))
        self.depth.weight.set_value(self.depth.weight * sizes.reshape([8, 1, 1, 1]))
        self.second.weight.set_value(self.second.weight / sizes.reshape([1, 8, 1, 1]))
        self.bias = self.create_parameter([8], default_initializer=nn.initializer.Normal())
        self.shift = self.create_parameter([8], default_initializer=nn.initializer.Assign(sizes))

    def forward(self, x):
        x = nn.functional.relu(self.first(x) + self.bias.reshape([1, 8, 1, 1]))
        x = nn.functional.relu(self.depth(x) + self.shift.reshape([8, 1, 1]))
        return self.second(x).flatten(1)


def test_channels_that_differ_are_made_alike(tmp_path):
    bireme.seed(0)
    net = Uneven()
    net.eval()
    bireme.jit.save(net, str(tmp_path / "net"), [InputSpec([None, 1, 8, 8], "float32", "x")])
    x = np.random.default_rng(0).standard_normal((8, 1, 8, 8)).astype("float32")
    model, y = model_of(tmp_path / "net"), net(bireme.to_tensor(x)).numpy()
    assert equalization.join_biases(model) == 2 and equalization.equalize(model, [[x]]) == 1
    assert [o.type for o in model.plan().operations] == ["conv2d", "relu", "conv2d", "relu", "conv2d", "flatten"]
    assert np.allclose(model.run(x).numpy(), y, atol=1e-5)  # the function is the same
    kernels = np.abs(arguments(model.plan().operations[-2])["weight"].numpy()).max((0, 2, 3))
    assert kernels.max() < 10 * kernels.min()
    made, count = quantized_model(model_of(tmp_path / "net"), "int8", [[x]], observers.MSEObserver(symmetric=False))
    assert count == 2 and np.abs(made(bireme.to_tensor(x)).numpy() - y).max() < 0.03 * np.abs(y).max()


def test_what_is_wrong_is_told(saved, capsys):
    folder, x, _ = saved
    bireme.jit.save(nn.ReLU(), str(folder / "relu"), [InputSpec([None, 2], "float32", "x")])
    np.savez(folder / "wide.npz", x=np.zeros((3, 1, 9, 9), "float32"))
    np.savez(folder / "two.npz", a=x, b=x)
    np.savez(folder / "nan.npz", x=np.where(x > 2, np.nan, x))
    np.savez(folder / "few.npz", x=x, labels=np.zeros(3, int))
    (folder / "talker").mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / "talker" / name).write_text("{}")
    assert main(["quantize", str(folder / "net"), "--to", "weight-int8", "-o", str(folder / "done")]) == 0
    capsys.readouterr()
    cases = [
        (["net", "--to", "int8"], "int8 needs samples"),
        (["relu", "--to", "weight-int8"], "no product with a stored weight"),
        (["net", "--to", "int8", "--data", str(folder / "wide.npz")], "expected float32 of shape [-1, 1, 8, 8]"),
        (["net", "--to", "int8", "--data", str(folder / "two.npz")], "an array for each input (x), got a, b"),
        (["net", "--to", "int8", "--data", str(folder / "none.npz")], "there is no file"),
        (["net", "--to", "int8", "--data", str(folder / "nan.npz")], "--data (x): expected finite numbers, got nan"),
        (["net", "--to", "int8", "--data", str(folder / "few.npz")], "a class for each of 40 rows, got shape [3]"),
        (
            ["net", "--to", "int8", "--data", str(folder / "net.json")],
            "--data: expected a file of numpy.savez or numpy.save",
        ),
        (["net", "--to", "weight-int8", "-o", str(folder / "net")], "net is the model itself"),
        (["net", "--to", "weight-int8", "-o", str(folder)], "is a folder"),
        (["none", "--to", "weight-int8"], "there is no model"),
        (["net", "--to", "weight-int4", "--group", "0"], "--group: expected a positive number, got 0"),
        (["done", "--to", "weight-int8"], "the model has integers already"),
        (
            ["talker", "--to", "weight-int4"],
            "expected a model_type among gpt2, llama, mistral, qwen2 in config.json, got None",
        ),
    ]
    for given, told in cases:
        assert main(["quantize", str(folder / given[0]), "-o", str(folder / "small"), *given[1:]]) == 1
        assert told in capsys.readouterr().err


class Words(nn.Layer):
    """A large table, a recurrent network and a product."""

    def __init__(self, kind, **given):
        super().__init__()
        self.table, self.states = nn.Embedding(300, 16, padding_idx=7), kind(16, 24, **given)
        self.head = nn.Linear(48 if given else 24, 5)

    def forward(self, ids):
        return self.head(self.states(self.table(ids))[0][:, -1])


@pytest.mark.parametrize(
    ("kind", "given", "layers"), [(nn.LSTM, {"direction": "bidirect"}, 6), (nn.GRU, {}, 4), (nn.SimpleRNN, {}, 4)]
)
def test_tables_and_recurrent_matrices_are_integers_too(kind, given, layers, tmp_path, capsys):
    bireme.seed(0)
    net = Words(kind, **given)
    net.eval()
    bireme.jit.save(net, str(tmp_path / "net"), [InputSpec([None, None], "int64", "ids")])
    ids = np.random.default_rng(0).integers(0, 300, (20, 6))
    ids[:, 2] = 7  # whose row is zeros
    y = net(bireme.to_tensor(ids)).numpy()
    np.savez(tmp_path / "data.npz", ids=ids)
    for to in ("weight-int8", "int8"):
        told = quantize(capsys, tmp_path, "--to", to, "--data", str(tmp_path / "data.npz"))
        assert told["layers"] == layers and told["bytes"]["after"] < 0.55 * told["bytes"]["before"]
        made = bireme.jit.load(str(tmp_path / "small"))
        assert np.abs(made(bireme.to_tensor(ids)).numpy() - y).max() < 0.03 * np.abs(y).max()
        held = model_of(tmp_path / "small").program.tensors.values()
        assert [t.dtype.name for t in held if list(t.shape) == [300, 16]] == ["int8"]
    again = ["quantize", str(tmp_path / "small"), "--to", "weight-int8", "-o", str(tmp_path / "twice")]
    assert main(again) == 1 and "the model has integers already" in capsys.readouterr().err


def test_few_samples_are_told_of(saved, capsys):
    folder, x, _ = saved

    def told_with(samples):
        np.savez(folder / "given.npz", x=samples)
        data, out = str(folder / "given.npz"), str(folder / "one")
        code = main(["quantize", str(folder / "net"), "-o", out, "--to", "int8", "--data", data])
        return code, capsys.readouterr().err

    code, told = told_with(x[:1])
    assert code == 0 and "scales are found in 1 samples" in told
    code, told = told_with(np.array([object()]))
    assert code == 1 and "--data (x): expected an array of numbers, got one of objects" in told
