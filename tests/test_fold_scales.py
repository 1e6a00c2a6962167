"""Constants around convolutions become part of their weights: the function stays the same, and fewer calls are left."""

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.inference import Config, create_predictor
from bireme.jit.saving import models_of
from bireme.jit.transforms import transformed
from bireme.static import InputSpec

X = np.random.default_rng(0).standard_normal((2, 3, 6, 7)).astype("float32")


class Around(nn.Layer):
    """`order` says what is done: c a convolution, d one with a channel a group, p one with padding; * and + one number, x and a one for each channel; r ReLU."""

    def __init__(self, order):
        super().__init__()
        self.order, self.convs = order, nn.LayerList()
        self.numbers = nn.ParameterList()
        rng = np.random.default_rng(len(order))
        for each in order:
            if each in "cdp":
                self.convs.append(
                    nn.Conv2D(
                        3,
                        3,
                        2,
                        padding=int(each == "p"),
                        groups=3 if each == "d" else 1,
                        bias_attr=each != "d" and None,
                    )
                )
            elif each in "*+xa":
                shape = [1] if each in "*+" else [3, 1, 1]
                value = rng.uniform(0.5, 2, shape).astype("float32")
                self.numbers.append(self.create_parameter(shape, default_initializer=nn.initializer.Assign(value)))

    def forward(self, x):
        convs, numbers = iter(self.convs), iter(self.numbers)
        for each in self.order:
            if each in "cdp":
                x = next(convs)(x)
            elif each == "r":
                x = nn.functional.relu(x)
            else:
                x = next(numbers) * x if each in "*x" else x + next(numbers)
        return x.mean()


@pytest.mark.parametrize(
    ("order", "left"),
    [
        ("c*+", []),
        ("cxar", ["relu"]),
        ("da*+r*+c", ["relu"]),  # as PP-LCNet has them
        ("r*+p", ["relu", "add"]),  # padding has no addend: the factor alone moves
        ("r+*p", ["relu", "add"]),
        ("rxap", ["relu", "multiply", "add"]),
        ("r*+dr", ["relu", "relu"]),
        ("rxd", ["relu", "multiply"]),  # a factor for each channel in front of groups stays
        ("*c", []),
        ("c+r+*", ["relu", "add", "multiply"]),
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_constants_become_weights(order, left, frozen):
    bireme.seed(0)
    net = Around(order)
    net.eval()
    model = models_of(net, [InputSpec([None, 3, 6, 7], "float32", "x")], "test")["forward"]
    made, lines = transformed(model, (*(["freeze", "constant_folding"] if frozen else []), "fold_scales", "dead_code"))
    kinds = [o.type for o in made.plan().operations if o.type not in ("conv2d", "mean")]
    assert sorted(kinds) == sorted(left) and any(line.startswith("fold_scales") for line in lines) == (
        len(left) < len(order) - sum(map(order.count, "cdp"))
    )
    expected = net(bireme.to_tensor(X)).numpy()
    np.testing.assert_allclose(made.run(X).numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(model.run(X).numpy(), expected, rtol=1e-5)  # what was given stays as it is


class Shared(nn.Layer):
    """A result that is read twice, one that is an output, and a factor that makes channels of one."""

    def __init__(self):
        super().__init__()
        self.conv, self.one = nn.Conv2D(3, 3, 1), nn.Conv2D(3, 1, 1)
        self.wide = self.create_parameter([4, 1, 1], default_initializer=nn.initializer.Normal())
        self.last = nn.Conv2D(4, 2, 1)

    def forward(self, x):
        x = self.conv(x)
        return self.last(self.one(x * 2.0 + x) * self.wide), x * 3.0


def test_what_others_read_stays():
    bireme.seed(0)
    net = Shared()
    net.eval()
    model = models_of(net, [InputSpec([None, 3, 6, 7], "float32", "x")], "test")["forward"]
    made, _ = transformed(model, ("fold_scales", "dead_code"))
    assert [o.type for o in made.plan().operations].count("conv2d") == 3
    for found, expected in zip(made.run(X), net(bireme.to_tensor(X)), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


class Sized(nn.Layer):
    """Open sizes of what is folded are arguments of later calls."""

    def __init__(self, last):
        super().__init__()
        self.conv, self.last = nn.Conv2D(3, 4, 1), last

    def forward(self, x):
        y = self.last(self.conv(x))
        flat = y.reshape([y.shape[0], 4, y.shape[2] * y.shape[3]])
        return nn.functional.interpolate(x, [y.shape[2] * 2, y.shape[3]]).sum() + flat.square().mean()


@pytest.mark.parametrize("last", [lambda y: y * bireme.full([4, 1, 1], 0.5), nn.BatchNorm2D(4)], ids=["scale", "norm"])
def test_sizes_come_from_what_is_left(last):
    bireme.seed(0)
    net = Sized(last)
    net.eval()
    model = models_of(net, [InputSpec([None, 3, None, None], "float32", "x")], "test")["forward"]
    made, lines = transformed(model, ("freeze", "constant_folding", "fold_batch_norm", "fold_scales", "dead_code"))
    made.check()
    assert any(line.startswith("fold_") for line in lines)
    np.testing.assert_allclose(made.run(X).numpy(), net(bireme.to_tensor(X)).numpy(), rtol=1e-4)


def test_runtimes_are_given_what_is_left(tmp_path):
    pytest.importorskip("onnxruntime")
    bireme.seed(0)
    net = Around("pa*+r*+c*+")
    net.eval()
    bireme.jit.save(net, str(tmp_path / "net"), [InputSpec([None, 3, 6, 7], "float32", "x")])
    config = Config(str(tmp_path / "net"))
    config.set_executor("onnxruntime")
    predictor = create_predictor(config)
    np.testing.assert_allclose(
        predictor.run([bireme.to_tensor(X)])[0].numpy(), net(bireme.to_tensor(X)).numpy(), rtol=1e-4
    )
    assert "add" not in [o.type for o in predictor._shared.model.plan().operations]
