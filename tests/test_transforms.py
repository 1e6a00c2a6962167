"""Transforms of graphs: results stay, and each says what it changed."""

import numpy as np
import pytest

import bireme
from bireme import jit, nn
from bireme.jit.transforms import TRANSFORMS, USUAL, transform
from bireme.jit.transforms.editing import arguments
from bireme.static import InputSpec
from tools import exports_table


def images(layer=None):
    bireme.seed(1)
    net = nn.Sequential(
        nn.Conv2D(3, 4, 3, bias_attr=False), nn.BatchNorm2D(4), nn.ReLU(), nn.Conv2D(4, 4, 3, data_format="NCHW"),
        nn.BatchNorm2D(4), nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1D(5),
    )  # fmt: skip
    for layer in net:
        if hasattr(layer, "_mean"):
            layer._mean.set_value(np.linspace(-1, 1, layer._mean.size, dtype="float32"))
            layer._variance.set_value(np.linspace(0.5, 2, layer._mean.size, dtype="float32"))
            layer.weight.set_value(np.linspace(0.3, 1.2, layer._mean.size, dtype="float32"))
            layer.bias.set_value(np.linspace(-0.3, 0.4, layer._mean.size, dtype="float32"))
    net.eval()
    return net


SPEC = [InputSpec([None, 3, 8, 8], "float32", "x")]


def types(layer):
    return [o.type for o in layer.program().ops]


def test_batch_norm_is_folded(tmp_path):
    net = images()
    made = transform(net, ["fold_batch_norm"], SPEC)
    assert types(made) == ["conv2d", "relu", "conv2d", "flatten", "linear"]
    assert len(made.report) == 3 and "folded batch_norm" in made.report[0]
    x = bireme.randn([2, 3, 8, 8])
    np.testing.assert_allclose(made(x).numpy(), net(x).numpy(), rtol=1e-4, atol=1e-5)
    jit.save(made, str(tmp_path / "net"))
    np.testing.assert_array_equal(jit.load(str(tmp_path / "net"))(x).numpy(), made(x).numpy())


def test_a_normalization_that_others_read_stays():
    class Two(nn.Layer):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4)

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y), y

    net = Two()
    net.eval()
    assert types(transform(net, ["fold_batch_norm"], SPEC)) == ["conv2d", "batch_norm"]


def test_dead_constant_and_common():
    def fn(x):
        bireme.exp(x)  # nobody reads it
        table = bireme.arange(4).astype("float32") * 2 + 1
        noise = bireme.rand([4]) * 0
        return bireme.tanh(x) * bireme.tanh(x) + table + noise, bireme.rand([4]) * 0

    made = transform(fn, ["dead_code", "constant_folding", "common_subexpressions"], [InputSpec([4])])
    assert types(made).count("tanh") == 1
    assert types(made).count("rand") == 2 and "exp" not in types(made) and "arange" not in types(made)
    x = bireme.randn([4])
    np.testing.assert_allclose(made(x)[0].numpy(), fn(x)[0].numpy(), rtol=1e-6)
    kinds = [line.partition(":")[0] for line in made.report]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "dead_code": 1, "constant_folding": 4, "common_subexpressions": 1,
    }  # fmt: skip


def test_inside_of_branches():
    def fn(x):
        one = bireme.ones([2]) * 3
        if x.sum() > 0:
            return x * one
        return x - one

    made = transform(fn, input_spec=[InputSpec([2])])
    assert types(made)[0] == "sum"
    for x in (bireme.ones([2]), -bireme.ones([2])):
        assert made(x).tolist() == fn(x).tolist()


def test_mixed_precision():
    net = nn.Linear(4, 4)
    made = transform(net, ["mixed_precision"], [InputSpec([2, 4])])
    x = bireme.randn([2, 4])
    with bireme.amp.auto_cast(dtype="bfloat16"):
        want = net(x)
    assert made(x).tolist() == want.tolist() != net(x).tolist()
    assert made.report == ["mixed_precision: 1 operations run under O1 with bfloat16"]


def test_recomputation():
    net = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.Tanh()) for _ in range(2)])
    made = transform(net, ["recomputation"], [InputSpec([None, 4])])
    assert types(made) == ["recompute", "recompute"] and "0: 4 operations" in made.report[0]
    x = bireme.randn([3, 4])
    grads = []
    for layer in (net, made):
        layer(x).sum().backward()
        grads.append([p.grad.numpy() for p in net.parameters()])
        for p in net.parameters():
            p.clear_grad()
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_unknown_name():
    with pytest.raises(ValueError, match=r"transform\(transforms\): expected some of dead_code, .*, got 'faster'"):
        transform(nn.Linear(2, 2), ["faster"], [InputSpec([2])])


class Blocks(nn.Layer):
    """What networks of images are made of, with sizes that are found when they run."""

    def __init__(self):
        super().__init__()
        self.first, self.deep = nn.Conv2D(3, 4, 3, stride=2, padding=1), nn.Conv2D(4, 4, 3, padding=1, groups=4)
        self.norm, self.small, self.up = nn.BatchNorm2D(4), nn.Conv2D(4, 4, 1), nn.Conv2DTranspose(8, 2, 2, stride=2)
        self.offset = self.create_parameter([4, 1, 1])
        self.last = nn.Conv2D(4, 4, 3, padding=1, data_format="NHWC")

    def forward(self, x, flat):
        y = bireme.nn.functional.hardswish(self.norm(self.first(x)))
        gate = bireme.nn.functional.hardsigmoid(self.small(bireme.nn.functional.adaptive_avg_pool2d(y, 1)))
        z = self.deep(y) * gate + self.offset * 2
        half = bireme.nn.functional.max_pool2d(z, 2, 2)
        back = bireme.nn.functional.interpolate(half, size=z.shape[2:], mode="nearest")
        joined = bireme.concat([back, z + flat], axis=1)
        rows = joined.reshape([joined.shape[0], 8, -1]).sum(-1)
        again = self.last(z.transpose([0, 2, 3, 1])).transpose([0, 3, 1, 2])
        return self.up(joined), rows, again, z


def test_channels_last():
    bireme.seed(2)
    net = Blocks()
    net.eval()
    spec = [InputSpec([None, 3, None, None], "float32", "x"), InputSpec([1], "float32", "flat")]
    made = transform(net, ["freeze", "constant_folding", "fold_batch_norm", "channels_last", "dead_code"], spec)
    formats = [arguments(o)["data_format"] for o in made.program().ops if o.type in ("conv2d", "conv2d_transpose")]
    assert formats == ["NHWC"] * 5
    assert types(made).count("transpose") == 1 + 3 + 2  # the input, three values that others read, and the code's own
    assert "channels_last: conv2d_0.tmp_0 = conv2d of first has its channels last" in made.report
    for shape in ((2, 3, 8, 12), (1, 3, 6, 10)):
        given = bireme.randn(shape), bireme.to_tensor([0.5])
        for found, wanted in zip(made(*given), net(*given), strict=True):
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_frozen_parameters_are_computed_with():
    net = Blocks()
    net.eval()
    spec = [InputSpec([None, 3, 8, 8], "float32", "x"), InputSpec([1], "float32", "flat")]
    kept = transform(net, ["constant_folding"], spec)
    made = transform(net, ["freeze", "constant_folding"], spec)
    assert made.report[0] == f"freeze: {len(net.state_dict())} parameters and buffers are constants"
    assert types(kept).count("multiply") - types(made).count("multiply") == 1 and not made.parameters()
    x = bireme.randn([1, 3, 8, 8]), bireme.to_tensor([0.5])
    before = made(*x)[1].numpy()
    net.offset.set_value(np.ones((4, 1, 1), "float32"))
    assert np.array_equal(made(*x)[1].numpy(), before)


def test_kernels_are_packed():
    bireme.seed(2)
    net = Blocks()
    net.eval()
    spec = [InputSpec([None, 3, None, None], "float32", "x"), InputSpec([1], "float32", "flat")]
    made = transform(net, ["freeze", "fold_batch_norm", "channels_last", "pack_weights"], spec)
    told = [line for line in made.report if line.startswith("pack_weights")]
    assert len(told) == 4
    assert told[0].endswith("= conv2d of first is stored as [3, 3, 3, 4]")
    given = bireme.randn([2, 3, 8, 12]), bireme.to_tensor([0.5])
    for found, wanted in zip(made(*given), net(*given), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    assert not [
        line for line in transform(net, ["channels_last", "pack_weights"], spec).report if "pack_weights" in line
    ]


SAMPLE = ("LeNet", "shufflenet_v2_x0_25", "lstm", "seq2seq_beam")
# relative to the largest value; others change nothing
TOLERANCE = {"mixed_precision": 0.2, "fold_batch_norm": 1e-5, "channels_last": 1e-5}


@pytest.mark.parametrize("name", exports_table.networks())
def test_networks_compute_the_same_after_each_transform(name, full):
    if not full and name not in SAMPLE:
        pytest.skip("one of the networks that make test-all transforms")
    bireme.seed(0)
    network = exports_table.networks()[name]()
    network.layer.eval()
    rng = np.random.default_rng(1)
    for key, buffer in network.layer.named_buffers():  # statistics that do something
        if key.endswith(("_mean", "_variance")):
            buffer.set_value(rng.uniform(0.5, 1.5, buffer.shape).astype("float32"))
    given = exports_table._tensors(network.inputs[-1])
    with bireme.no_grad():
        wanted = network.layer(*given)
        count = len(transform(network.layer, [], network.specs).program().ops)
        for each in TRANSFORMS:
            made = transform(network.layer, [each], network.specs)
            assert exports_table.difference(made(*given), wanted) <= TOLERANCE.get(each, 0.0), each
            assert all(line.startswith(f"{each}: ") for line in made.report)
            if each in USUAL:  # each line is an operation that is gone
                assert len(made.program().ops) == count - len(made.report), each
