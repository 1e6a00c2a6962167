"""Quantization of networks: what quanters and observers find, conversion to integers, accuracy, saved graphs."""

import platform
import tempfile
from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_digits

import bireme
from bireme import nn
from bireme.nn.quant import dequantize_linear, quantize_linear, weight_dequantize, weight_quantize
from bireme.nn.quant.format import LinearDequanter, LinearQuanter
from bireme.quantization import (
    PTQ,
    QAT,
    AbsmaxQuantizer,
    BaseQuanter,
    HistQuantizer,
    ImperativePTQ,
    ImperativeQuantAware,
    KLQuantizer,
    PerChannelAbsmaxQuantizer,
    PTQConfig,
    QuantConfig,
    quanter,
)
from bireme.quantization.observers import (
    AbsMaxChannelWiseWeightObserver,
    AbsmaxObserver,
    GroupWiseWeightObserver,
    HistObserver,
    KLObserver,
    MovingAverageAbsmaxObserver,
)
from bireme.quantization.observers.histogram import MSEObserver
from bireme.quantization.quanters import FakeQuanterChannelWiseAbsMax, FakeQuanterWithAbsMaxObserver

TRAIN = 1440
# onnxruntime makes one node of a product of two signed operands and its scales there alone: on x86 one must be unsigned
JOINS_SIGNED = platform.machine().lower() in ("aarch64", "arm64")


def tensor(*values, **kwargs):
    return bireme.to_tensor(list(values), **kwargs)


def both(activation, weight):
    """A configuration of linear layers and convolutions alone."""
    config = QuantConfig(None, None)
    config.add_type_config([nn.Linear, nn.Conv2D], activation=activation, weight=weight)
    return config


@pytest.fixture(scope="module")
def digits():
    """A small network that reads real digits, with the digits: (network, images, labels)."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    x, y = (data.images[order, None] / 16).astype("float32"), data.target[order].astype("int64")
    bireme.seed(0)
    net = nn.Sequential(
        nn.Conv2D(1, 16, 3, padding=1), nn.BatchNorm2D(16), nn.ReLU(), nn.Conv2D(16, 32, 3, stride=2, padding=1),
        nn.ReLU(), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    train(net, x, y, 6, 2e-3)
    net.eval()
    return net, x, y


def train(net, x, y, epochs, rate):
    opt = bireme.optimizer.Adam(rate, parameters=net.parameters())
    for _ in range(epochs):
        for i in range(0, TRAIN, 96):
            loss = nn.functional.cross_entropy(net(bireme.to_tensor(x[i : i + 96])), bireme.to_tensor(y[i : i + 96]))
            loss.backward()
            opt.step()
            opt.clear_grad()


def accuracy(net, x, y):
    return 100 * float((net(bireme.to_tensor(x[TRAIN:])).numpy().argmax(1) == y[TRAIN:]).mean())


def calibrated(net, config, x):
    ptq = PTQ(config)
    watched = ptq.quantize(net)
    for i in range(0, 288, 96):
        watched(bireme.to_tensor(x[i : i + 96]))
    return ptq, watched


# ---------------------------------------------------------------- quanters and observers


def test_the_fake_quanter_follows_paddle():
    """Numbers told by paddlepaddle 3.2.2: scales as a moving average, ties away from zero, gradients straight through."""
    layer = FakeQuanterWithAbsMaxObserver(moving_rate=0.9)._instance(None)
    for most, scale in ((2.6227305, 1.8540686), (7.8003459, 4.0482669)):
        x = tensor(most, -0.5, 2.0, stop_gradient=False)
        y = layer(x)
        y.sum().backward()
        assert layer.scales().item() == pytest.approx(scale, rel=1e-6)
        assert x.grad.tolist() == [1.0, 1.0, 1.0]  # also where it was cut off
        assert y.numpy()[0] == pytest.approx(scale, rel=1e-6)
    layer.eval()
    layer._scale = tensor(127.0)
    given = tensor(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 200.0, -200.0, 126.6)
    assert layer(given).tolist() == [1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 127.0, -127.0, 127.0]
    assert list(layer.state_dict()) == ["_scale", "_state", "_accum"]


def test_linear_quanters_follow_paddle_and_give_integers():
    """Numbers told by paddlepaddle 3.2.2, which keeps them in float32."""
    made = LinearQuanter(tensor(127.0))(tensor(0.5, 1.5, 2.5, -0.5, -1.5, 200.0, -200.0))
    assert made.dtype == bireme.int8 and made.tolist() == [0, 2, 2, 0, -2, 127, -128]
    back = LinearDequanter(tensor(1.5))(tensor(-127.0, 3.0, 100.0))
    np.testing.assert_allclose(back.numpy(), [-1.5, 0.0354331, 1.1811024], rtol=1e-6)


def test_onnx_meaning_of_linear_quantization():
    x = bireme.to_tensor(np.array([[-1.0, 0.24], [0.26, 300.0]], "float32"))
    zero = bireme.to_tensor(np.array([3, 0], "uint8"))
    scale = bireme.to_tensor(np.array([0.5, 1.0], "float32"))
    q = quantize_linear(x, scale, zero, axis=1, dtype="uint8")
    assert q.tolist() == [[1, 0], [4, 255]]  # 0.26 / 0.5 rounds to 1, and 3 is zero
    assert dequantize_linear(q, scale, zero, axis=1).tolist() == [[-1.0, 0.0], [0.5, 255.0]]


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (AbsmaxObserver(), 8.0),
        (MovingAverageAbsmaxObserver(0.5), (2.0 * 0.5 + 8.0) / 1.5),
        (HistObserver(percent=0.75), 1.6875),
        (HistObserver(percent=1.0), 8.0),
    ],
)
def test_observers_find(factory, expected):
    observer = factory._instance(None)
    assert observer.scales() is None
    first, second = bireme.to_tensor(np.linspace(-2, 2, 400, dtype="float32")), bireme.to_tensor([8.0] * 50)
    assert observer(first) is first
    observer(second)
    observer(bireme.zeros([0, 3]))
    observer.cal_thresholds()
    assert observer.scales().item() == pytest.approx(expected, rel=0.01)
    assert (observer.zero_points().item(), observer.quant_axis(), observer.bit_length()) == (0.0, -1, 8)


def test_the_least_divergence_cuts_a_long_tail_off():
    rng = np.random.default_rng(0)
    body = np.abs(rng.standard_normal(20000)).astype("float32")
    observer = KLObserver()._instance(None)
    observer(bireme.to_tensor(np.concatenate([body, np.zeros(50000, "float32"), [40.0]]).astype("float32")))
    assert 2.0 < observer.scales().item() < 10.0


def test_scales_of_channels_and_groups():
    w = np.random.default_rng(0).standard_normal((8, 3)).astype("float32")
    made = AbsMaxChannelWiseWeightObserver()._instance(nn.Linear(8, 3))
    made(bireme.to_tensor(w))
    np.testing.assert_array_equal(made.scales().numpy(), np.abs(w).max(0))
    assert made.quant_axis() == 1
    kernels = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype("float32")
    made = AbsMaxChannelWiseWeightObserver()._instance(nn.Conv2D(2, 4, 3))
    made(bireme.to_tensor(kernels))
    np.testing.assert_array_equal(made.scales().numpy(), np.abs(kernels).max((1, 2, 3)))
    grouped = GroupWiseWeightObserver(4, group_size=4)._instance(None)
    grouped(bireme.to_tensor(w))
    np.testing.assert_array_equal(grouped.scales().numpy(), np.abs(w).reshape(2, 4, 3).max(1))
    with pytest.raises(ValueError, match=r"a factor of the number of rows of a matrix, here of shape \[8, 3\], got 5"):
        GroupWiseWeightObserver(4, group_size=5)._instance(None)(bireme.to_tensor(w))


def test_the_quantized_weight_is_paddles():
    """llm.int8 of paddlepaddle 3.2.2 has one layout on all machines: transposed, ties away from zero."""
    w = np.zeros((5, 2), "float32")
    w[:, 0] = [127, 0.5, 1.5, 2.5, -0.5]
    q, scale = weight_quantize(bireme.to_tensor(w), "llm.int8")
    assert q.tolist() == [[127, 1, 2, 3, -1], [0] * 5]
    assert scale.tolist() == [1.0, 0.0]
    assert weight_dequantize(q, scale, "llm.int8", "float32").tolist()[3] == [3.0, 0.0]


# ---------------------------------------------------------------- configurations


def test_names_come_before_types_and_these_before_the_rest():
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 4))
    net.eval()
    config = QuantConfig(activation=AbsmaxObserver(8), weight=None)
    config.add_type_config(nn.Linear, weight=AbsmaxObserver(4))
    config.add_layer_config(net[0], weight=AbsmaxObserver(6))
    config.add_name_config(net[2].full_name(), activation=AbsmaxObserver(5))
    made = PTQ(config).quantize(net)
    assert made[0].weight_quanter.bit_length() == 6 and made[0].activation_quanter is None
    assert made[1][0].weight_quanter.bit_length() == 4
    assert made[2].weight_quanter is None and made[2].activation_quanter.bit_length() == 5
    assert type(made[1][1]).__name__ == "ObserveWrapper"
    assert isinstance(net[0], nn.Linear)  # the model itself is as it was


def test_a_decorated_class_becomes_a_factory():
    @quanter("Sixteenths")
    class SixteenthsLayer(BaseQuanter):
        def __init__(self, layer, parts=16):
            super().__init__()
            self.parts = parts

        def forward(self, input):
            return (input * self.parts).round() / self.parts

        def scales(self):
            return bireme.to_tensor(127 / self.parts)

        def zero_points(self):
            return None

        def quant_axis(self):
            return -1

        def bit_length(self):
            return 8

    factory = globals()["Sixteenths"](parts=8)
    assert factory.kwargs == {"parts": 8} and repr(factory) == "Sixteenths(parts=8)"
    net = nn.Linear(2, 1)
    net.weight.set_value(np.array([[0.13], [0.9]], "float32"))
    qat = QAT(QuantConfig(activation=None, weight=factory))
    made = qat.quantize(net)
    assert made(bireme.ones([1, 2])).item() == pytest.approx(0.125 + 0.875)
    converted = qat.convert(made)
    assert converted.weight.tolist() == [[1], [7]] and converted(bireme.ones([1, 2])).item() == pytest.approx(1.0)


def test_mistakes_are_told():
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"quantize\(model\): expected a model in evaluation for PTQ"):
        PTQ(both(None, AbsmaxObserver())).quantize(net)
    net.eval()
    with pytest.raises(ValueError, match=r"quantize\(model\): expected a model in training for QAT"):
        QAT(both(None, AbsmaxObserver())).quantize(net)
    with pytest.raises(TypeError, match=r"QuantConfig\(activation\): expected a factory of quanters, or None, got 3"):
        QuantConfig(3, None)
    with pytest.raises(TypeError, match=r"add_qat_layer_mapping\(target\): expected a class of layers"):
        both(None, None).add_qat_layer_mapping(nn.Linear, 2)
    with pytest.raises(TypeError, match=r"PTQConfig\(weight_quantizer\): expected one of Absmax"):
        PTQConfig(AbsmaxQuantizer(), KLQuantizer())


def converted_after(x, activation=None, weight=None, column=None):
    """A linear layer of 4 by 3, converted after it has seen an input; `column` is what its second output has for weights."""
    net = nn.Linear(4, 3)
    if column is not None:
        net.weight.set_value(np.full((4, 3), 0.5, "float32") * np.where(np.arange(3) == 1, 2 * column, 1))
    net.eval()
    ptq = PTQ(both(activation or AbsmaxObserver(), weight or AbsmaxObserver()))
    watched = ptq.quantize(net)
    watched(bireme.to_tensor(np.broadcast_to(np.float32(x), (2, 4))))
    return ptq.convert(watched)


def packed(k=64, n=32, algo="weight_only_int8"):
    return weight_quantize(bireme.ones([k, n]), algo)


def only(x=(2, 64), bias=None, scale=None, **kwargs):
    q, given = packed()
    bias = None if bias is None else bireme.ones(bias)
    return nn.quant.weight_only_linear(bireme.ones(list(x)), q, bias, given if scale is None else scale, **kwargs)


HOSTILE = {
    "nan": (
        lambda: converted_after(np.nan),
        r"convert\(model\): expected finite magnitudes in the input of \w+, got nan",
    ),
    "inf": (lambda: converted_after(np.inf), r"expected finite magnitudes in the input of \w+, got inf"),
    "nan in a moving average": (lambda: converted_after(np.nan, MovingAverageAbsmaxObserver()), "finite magnitudes"),
    "nan in a histogram": (lambda: converted_after(np.nan, HistObserver()), r"HistObserver\(input\): expected finite"),
    "inf in a histogram": (
        lambda: converted_after(np.inf, KLObserver()),
        r"KLObserver\(input\): expected finite .* inf",
    ),
    "a weight of nan": (lambda: converted_after(1.0, column=np.nan), "finite magnitudes in the weight of .*, got nan"),
    "one bit": (lambda: AbsmaxObserver(1), r"AbsmaxObserver\(quant_bits\): expected an integer in \[2, 16\], got 1"),
    "bits as text": (lambda: FakeQuanterWithAbsMaxObserver(bit_length="8"), r"an integer in \[2, 16\], got '8'"),
    "groups that do not divide": (
        lambda: GroupWiseWeightObserver(4, 3)._instance(None)(bireme.ones([4, 3])),
        r"expected a factor of the number of rows of a matrix, here of shape \[4, 3\], got 3",
    ),
    "an axis that is not there": (
        lambda: AbsMaxChannelWiseWeightObserver(quant_axis=5)._instance(None)(bireme.ones([4, 3])),
        r"AbsMaxChannelWiseWeightObserver\(quant_axis\): expected an axis of a weight of shape \[4, 3\], got 5",
    ),
    "an axis as text": (lambda: FakeQuanterChannelWiseAbsMax(quant_axis="x"), "expected an integer, or None, got 'x'"),
    "a layer without a weight": (
        lambda: FakeQuanterChannelWiseAbsMax()._instance(nn.ReLU()),
        r"FakeQuanterChannelWiseAbsMax\(layer\): expected a layer with a weight, got ReLU",
    ),
    "no bins": (lambda: KLQuantizer(bins=0), r"KLObserver\(bins_count\): expected an even positive integer, got 0"),
    "a negative scale": (lambda: LinearQuanter(tensor(-1.0)), r"LinearQuanter\(scales\): expected finite .* got -1.0"),
    "no scale": (lambda: LinearQuanter(bireme.ones([0])), r"expected finite non-negative numbers, got \[\]"),
    "a scale as text": (lambda: LinearQuanter("x"), r"LinearQuanter\(scales\): expected a Tensor or numbers, got 'x'"),
    "odd int4": (lambda: packed(64, 33, "weight_only_int4"), "expected an even number of columns with 4 bits"),
    "a group for no weight": (
        lambda: only(group_size=48),
        r"\(group_size\): expected -1, or a positive factor of 64 rows",
    ),
    "features": (lambda: only((2, 63)), r"weight_only_linear\(x\): expected 64 features in the last dimension"),
    "a short bias": (lambda: only(bias=[5]), r"weight_only_linear\(bias\): expected shape \[32\], got shape \[5\]"),
    "whole scales": (
        lambda: only(scale=bireme.ones([32], "int32")),
        r"\(weight_scale\): expected a floating-point dtype",
    ),
    "a threshold of nan": (
        lambda: nn.quant.llm_int8_linear(bireme.ones([2, 64]), packed()[0], None, bireme.ones([32]), float("nan")),
        r"llm_int8_linear\(threshold\): expected a number, got nan",
    ),
    "integers of integers": (
        lambda: weight_dequantize(*packed(), out_dtype="int32"),
        r"weight_dequantize\(out_dtype\): expected a floating-point dtype, got int32",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_input_is_told_in_one_sentence(case):
    call, message = HOSTILE[case]
    with pytest.raises((ValueError, TypeError, IndexError), match=message) as found:
        call()
    assert str(found.value).splitlines()[0].count(". ") == 0


def test_what_saw_only_zeros_stays_as_it_is():
    with pytest.warns(UserWarning, match="saw only zeros, so its input stays as it is"):
        converted = converted_after(0.0, column=1.0)
    np.testing.assert_allclose(converted(bireme.ones([1, 4])).numpy(), [[2.0, 4.0, 2.0]], rtol=0.01)
    empty = converted_after(1.0, weight=AbsMaxChannelWiseWeightObserver(), column=0.0)
    np.testing.assert_allclose(empty(bireme.ones([1, 4])).numpy(), [[2.0, 0.0, 2.0]], rtol=0.01)


# ---------------------------------------------------------------- conversion


@pytest.mark.parametrize(
    "config",
    [
        both(AbsmaxObserver(), AbsmaxObserver()),
        both(MovingAverageAbsmaxObserver(), AbsMaxChannelWiseWeightObserver()),
        both(HistObserver(), AbsMaxChannelWiseWeightObserver()),
        both(KLObserver(), AbsMaxChannelWiseWeightObserver()),
        QuantConfig(AbsmaxObserver(), AbsmaxObserver()),
    ],
    ids=["absmax", "moving average", "percentile", "kl", "every layer"],
)
def test_digits_are_read_as_well_with_int8(digits, config):
    net, x, y = digits
    before = accuracy(net, x, y)
    assert before > 96
    ptq, watched = calibrated(net, config, x)
    converted = ptq.convert(watched)
    assert {converted[i].weight.dtype.name for i in (0, 3, 6, 8)} == {"int8"}
    assert converted[6]._integer and converted[3]._integer
    assert accuracy(converted, x, y) >= before - 0.5
    simulated = ptq.convert(watched, remain_weight=True)
    assert simulated[6].weight.dtype == bireme.float32
    given = bireme.to_tensor(x[TRAIN : TRAIN + 20])
    apart = np.abs(converted(given).numpy() - simulated(given).numpy()).max(1)
    # a sum that is rounded otherwise may move one number of an image to the next step
    assert (apart < 2e-3).mean() >= 0.9 and apart.max() < 0.1


@pytest.mark.parametrize("weight", [AbsMaxChannelWiseWeightObserver(4), AbsMaxChannelWiseWeightObserver(8)])
def test_weights_alone_can_be_integers(digits, weight):
    net, x, y = digits
    ptq = PTQ(both(None, weight))
    converted = ptq.convert(ptq.quantize(net))  # weights are there: no data is needed
    packed = weight.kwargs["quant_bits"] == 4
    assert converted[6].weight.shape == [512, 32 if packed else 64]
    assert converted[3].weight.shape == [16 if packed else 32, 16, 3, 3]
    assert accuracy(converted, x, y) >= accuracy(net, x, y) - (2.0 if packed else 0.5)


def test_groups_of_weights_are_rounded_by_their_own_scales():
    bireme.seed(0)
    net, x = nn.Linear(32, 6), bireme.randn([5, 32])
    with bireme.no_grad():
        net.weight[:16] *= 100.0
    net.eval()
    found = {}
    for name, observer in (
        ("columns", AbsMaxChannelWiseWeightObserver(4)),
        ("groups", GroupWiseWeightObserver(4, group_size=8)),
    ):
        ptq = PTQ(both(None, observer))
        converted = ptq.convert(ptq.quantize(net))
        assert converted.weight.shape == [32, 3]
        lower = converted.weight_quanter(converted.weight).numpy()[16:]
        found[name] = np.abs(lower - net.weight.numpy()[16:]).max()
    assert found["groups"] < found["columns"] / 4
    assert converted(x).shape == [5, 6]


@pytest.mark.parametrize("activation", [AbsmaxObserver(), None], ids=["int8", "weight only, int4"])
def test_saved_integers_come_back(digits, activation):
    net, x, _ = digits
    weight = AbsMaxChannelWiseWeightObserver(4 if activation is None else 8)
    ptq, watched = calibrated(net, both(activation, weight), x)
    converted = ptq.convert(watched)
    with tempfile.TemporaryDirectory() as folder:
        bireme.jit.save(converted, folder + "/net", [bireme.static.InputSpec([None, 1, 8, 8], "float32", "x")])
        again = bireme.jit.load(folder + "/net")
    names = {operation.type for operation in again.program().ops}
    assert names >= ({"quantize_linear", "matmul_integer", "conv2d_integer", "dequantize_linear"} if activation else
                     {"unpack_int4", "dequantize_linear"})  # fmt: skip
    assert sum(t.dtype == bireme.int8 for t in again.state_dict().values()) == 4
    for n in (1, 7):
        given = bireme.to_tensor(x[:n])
        np.testing.assert_array_equal(again(given).numpy(), converted(given).numpy())


def test_a_transformer_keeps_its_answers():
    bireme.seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0)
    net = nn.TransformerEncoder(layer, 2)
    net.eval()
    x = bireme.randn([6, 10, 32])
    ptq = PTQ(both(AbsmaxObserver(), AbsMaxChannelWiseWeightObserver()))
    watched = ptq.quantize(net)
    wanted = watched(x).numpy()
    np.testing.assert_array_equal(wanted, net(x).numpy())
    converted = ptq.convert(watched)
    kinds = [type(sub).__name__ for sub in converted.sublayers()]
    assert kinds.count("QuantedLinear") == 12 and "Linear" not in kinds
    error = np.abs(converted(x).numpy() - wanted)
    assert error.mean() < 0.02 and error.max() > 0


def test_training_with_quantization_and_conversion(digits):
    net, x, y = digits
    weight = FakeQuanterChannelWiseAbsMax(4)
    qat = QAT(both(FakeQuanterWithAbsMaxObserver(bit_length=8), weight))
    net.train()
    trained = qat.quantize(net)
    net.eval()
    assert len(trained.parameters()) == len(net.parameters())
    train(trained, x, y, 2, 5e-4)
    trained.eval()
    right = accuracy(trained, x, y)
    converted = qat.convert(trained)
    assert right > 96 and accuracy(converted, x, y) >= right - 0.5
    assert converted[6].weight.shape == [512, 32]
    assert isinstance(trained[6].weight, bireme.Parameter)  # what was trained can be trained on


def test_what_saw_no_data_stays_as_it_is():
    net = nn.LayerList([nn.Linear(2, 2), nn.Linear(2, 2)])
    net.eval()
    ptq = PTQ(both(AbsmaxObserver(), AbsmaxObserver()))
    watched = ptq.quantize(net)
    watched[0](bireme.ones([1, 2]))
    with pytest.warns(UserWarning, match="saw no data"):
        converted = ptq.convert(watched)
    assert converted[0]._integer and not converted[1]._integer and converted[1].weight.dtype == bireme.int8


def test_stubs_and_layers_of_indices():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.embed, self.stub, self.own = nn.Embedding(5, 3), nn.quant.Stub(), nn.quant.Stub(AbsmaxObserver(4))

        def forward(self, ids):
            return self.own(self.stub(self.embed(ids)) * 2)

    net = Net()
    net.eval()
    ptq = PTQ(QuantConfig(activation=AbsmaxObserver(), weight=None))
    watched = ptq.quantize(net)
    ids = bireme.to_tensor([1, 4])
    watched(ids)
    converted = ptq.convert(watched)
    assert converted.stub._observer._quanter._bits == 8 and converted.own._observer._quanter._bits == 4
    np.testing.assert_allclose(converted(ids).numpy(), net(ids).numpy(), atol=0.4)
    assert len(np.unique(converted(ids).numpy())) <= 15


# ---------------------------------------------------------------- products and the older interface


def test_one_row_is_as_exact_as_many():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 64), "float32"), rng.standard_normal((64, 16), "float32")
    q, scale = weight_quantize(bireme.to_tensor(w))
    with bireme.debug.use_executor("xla"):
        many = nn.quant.weight_only_linear(bireme.to_tensor(x), q, None, scale).numpy()
        one = nn.quant.weight_only_linear(bireme.to_tensor(x[:1]), q, None, scale).numpy()
    np.testing.assert_allclose(one, many[:1], rtol=2e-6, atol=2e-6)


def test_outliers_do_not_make_the_rest_coarse():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((4, 64), "float32"), rng.standard_normal((64, 16), "float32")
    x[2, 5] = 500.0
    q, scale = weight_quantize(bireme.to_tensor(w), "llm.int8")
    exact = x @ weight_dequantize(q, scale, "llm.int8", "float32").numpy()
    for by in ("interpreter", "xla"):
        with bireme.debug.use_executor(by):
            near, far = [
                np.abs(nn.quant.llm_int8_linear(bireme.to_tensor(x), q, None, scale, t).numpy() - exact)[2].max()
                for t in (6.0, 1e9)
            ]
        assert near < 0.2 < 3 < far
    given = bireme.to_tensor(x, stop_gradient=False)
    nn.quant.llm_int8_linear(given, q, None, scale).sum().backward()
    np.testing.assert_allclose(given.grad.numpy()[0], (q.numpy() * scale.numpy()[:, None]).sum(0), rtol=1e-4)


def test_the_older_interface():
    bireme.seed(0)
    net = nn.Sequential(nn.Conv2D(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 4))
    x = bireme.randn([4, 1, 8, 8])
    spec = [bireme.static.InputSpec([None, 1, 8, 8], "float32", "x")]
    wanted = net(x).numpy()
    ptq = ImperativePTQ(PTQConfig(HistQuantizer(), PerChannelAbsmaxQuantizer()))
    watched = ptq.quantize(net)
    np.testing.assert_allclose(watched(x).numpy(), wanted, rtol=1e-5, atol=1e-6)
    qat = ImperativeQuantAware(weight_quantize_type="channel_wise_abs_max")
    trained = qat.quantize(net)
    assert trained is net and type(net[0]).__name__ == "QuantedConv2D"
    for _ in range(40):  # the moving average starts at 1
        net(x)
    for how, model in ((ptq, watched), (qat, net)):
        with tempfile.TemporaryDirectory() as folder:
            how.save_quantized_model(model, folder + "/net", spec)
            np.testing.assert_allclose(bireme.jit.load(folder + "/net")(x).numpy(), wanted, atol=0.15)
    with pytest.raises(ValueError, match=r"weight_quantize_type\): expected one of abs_max, channel_wise_abs_max"):
        ImperativeQuantAware(weight_quantize_type="x")


# ---------------------------------------------------------------- ONNX

SPEC = bireme.static.InputSpec


def integers(net, x, activation=8, weight=8, config=None):
    """A network in evaluation, converted to integers after it has seen `x`."""
    net.eval()
    activation = activation and AbsmaxObserver(activation)
    ptq = PTQ(config or both(activation, AbsMaxChannelWiseWeightObserver(weight)))
    watched = ptq.quantize(net)
    watched(x)
    return ptq.convert(watched)


def exported(layer, spec, **configs):
    """The file of a layer."""
    onnx = pytest.importorskip("onnx")
    with tempfile.TemporaryDirectory() as folder:
        bireme.onnx.export(layer, folder + "/net", [SPEC(spec, "float32", "x")], **configs)
        return onnx.load(folder + "/net.onnx")


def session(model, optimized=True):
    """A session on a file, and the kinds of nodes that it runs, how often each."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    levels = runtime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED if optimized else levels.ORT_DISABLE_ALL
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = folder + "/optimized.onnx"
        made = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return made, kinds(onnx.load(folder + "/optimized.onnx"))


def kinds(model):
    return Counter(node.op_type for node in model.graph.node)


def answers(model, x, optimized=True):
    return session(model, optimized)[0].run(None, {"x": x.numpy()})[0]


@pytest.mark.parametrize("bits", [(8, 8), (None, 8), (None, 4), (4, 4)], ids=str)
def test_a_converted_network_is_exported_in_qdq_form(bits):
    bireme.seed(0)
    net = nn.Sequential(nn.Conv2D(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6))
    x = bireme.randn([5, 1, 4, 4])
    converted = integers(net, x, *bits)
    model = exported(converted, [None, 1, 4, 4])
    found = kinds(model)
    assert "ConvInteger" not in found and "MatMulInteger" not in found and found["Conv"] == 1
    assert found["Gemm" if bits == (8, 8) else "MatMul"] == 1
    sizes = {t.name: list(t.dims) for t in model.graph.initializer}
    whole = [t for t in model.graph.initializer if t.data_type == 3 and len(t.dims) > 1]
    assert len(whole) == 2  # weights are in the file as int8
    readers = {node.input[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}
    if bits == (8, 8):
        assert [(sizes[readers[t.name].input[1]], readers[t.name].attribute[0].i) for t in whole] == [
            ([4], 0),
            ([6], 1),
        ]
        biases = [t for t in model.graph.initializer if t.data_type == 6]
        assert [list(t.dims) for t in biases] == [[4], [6]] and all(t.name in readers for t in biases)
        assert session(model)[1]["QLinearConv"] == 1 and session(model)[1]["QGemm"] == 1
    else:
        assert len(readers) >= 2
    # with all optimizations, onnxruntime rounds on its own where no result is rounded
    np.testing.assert_allclose(answers(model, x, False), converted(x).numpy(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("whole", [False, True], ids=["QDQ", "integer products"])
def test_what_follows_a_product_joins_it_without_changing_it(whole):
    """Normalization with factors of either sign and zero, a bias that outweighs its products, relu6, pooling, channels
    last, products of more than two dimensions.
    """
    bireme.seed(3)
    net = nn.Sequential(
        nn.Conv2D(3, 6, 3, padding=1), nn.BatchNorm2D(6), nn.ReLU6(), nn.MaxPool2D(2),
        nn.Conv2D(6, 6, 3, groups=6, padding=1), nn.BatchNorm2D(6), nn.ReLU(),
        nn.Conv2D(6, 4, 1, bias_attr=False), nn.Hardswish(), nn.Flatten(2), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 3),
    )  # fmt: skip
    net[1].weight.set_value(np.array([1.0, -2.0, 0.0, 0.5, 1e-9, -1.0], "float32"))
    net[1].bias.set_value(np.array([0.1, 0.2, 3.0, 0.0, 2.0, -0.5], "float32"))
    net[1]._mean.set_value(np.array([0.3, -0.2, 1.0, 0.0, 0.0, 0.1], "float32"))
    net[1]._variance.set_value(np.array([1.0, 0.5, 2.0, 1.0, 1.0, 0.2], "float32"))
    x = bireme.randn([2, 3, 8, 8])
    converted = integers(net, x)
    model = exported(converted, [None, 3, 8, 8], integer_products=whole)
    found = kinds(model)
    assert found["BatchNormalization"] == 0 and found["Clip"] == 0 and found["MatMul"] == 2
    assert found["ConvInteger"] == int(whole)  # the one whose result is not rounded
    assert session(model)[1]["QLinearConv"] == 2 or (whole and not JOINS_SIGNED)
    wanted = converted(x).numpy()
    # a bias is rounded to steps of the sums: now and then a result lies on the other side of a half
    for made in (answers(model, x, False), answers(model, x)):
        assert np.abs(made - wanted).max() < 0.05 * np.abs(wanted).max()
        assert np.abs(made - wanted).mean() < 0.005 * np.abs(wanted).max()


@pytest.mark.parametrize("whole", [False, True], ids=["QDQ", "integer products"])
def test_scales_that_were_trained_are_constants_of_the_file(whole):
    bireme.seed(0)
    net = nn.Sequential(nn.Conv2D(1, 4, 3), nn.ReLU(), nn.MaxPool2D(2), nn.Flatten(), nn.Linear(36, 6), nn.Linear(6, 2))
    qat = QAT(both(FakeQuanterWithAbsMaxObserver(moving_rate=0.5), FakeQuanterWithAbsMaxObserver(moving_rate=0.5)))
    trained, x = qat.quantize(net), bireme.randn([5, 1, 8, 8])
    for _ in range(8):
        trained(x)
    converted = qat.convert(trained)
    model = exported(converted, [None, 1, 8, 8], integer_products=whole)
    constants = {t.name for t in model.graph.initializer}
    scaled = [node for node in model.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    assert all(name in constants for node in scaled for name in node.input[1:])
    after = session(model)[1]
    if JOINS_SIGNED or not whole:
        assert after["QLinearConv"] == 1 and after["QGemm"] == 2 and (not whole or after["DequantizeLinear"] == 0)
    wanted = converted(x).numpy()
    assert np.abs(answers(model, x) - wanted).max() < 0.03 * np.abs(wanted).max()


def test_channels_may_be_last_in_qdq_form():
    bireme.seed(0)
    net = nn.Sequential(nn.Conv2D(3, 4, 3, data_format="NHWC"), nn.ReLU(), nn.Conv2D(4, 2, 1, data_format="NHWC"))
    x = bireme.randn([2, 6, 6, 3])
    converted = integers(net, x)
    model = exported(converted, [None, 6, 6, 3])
    assert kinds(model)["Conv"] == 2 and kinds(model)["Add"] == 0
    np.testing.assert_allclose(answers(model, x), converted(x).numpy(), atol=1e-3)


def test_a_weight_that_no_longer_fits_keeps_its_normalization():
    """-128 has no opposite among int8: a factor below zero stays outside."""
    net = nn.Sequential(nn.Conv2D(1, 1, 1, bias_attr=False), nn.BatchNorm2D(1))
    x = bireme.to_tensor(np.linspace(-1, 1, 8, dtype="float32").reshape(2, 1, 2, 2))
    net[0].weight.set_value(np.full((1, 1, 1, 1), -0.7, "float32"))
    net[1].weight.set_value(np.array([-1.0], "float32"))
    converted = integers(net, x)
    converted[0].weight.set_value(np.full((1, 1, 1, 1), -128, "int8"))
    model = exported(converted, [None, 1, 2, 2])
    assert kinds(model)["BatchNormalization"] == 1
    np.testing.assert_allclose(answers(model, x), converted(x).numpy(), atol=1e-5)


def test_normalizations_are_fused_by_onnxruntime():
    """A convolution without a bias is a node with two operands, not with a third that is empty."""
    model = exported(nn.Sequential(nn.Conv2D(2, 3, 3, bias_attr=False), nn.BatchNorm2D(3)), [None, 2, 6, 6])
    assert session(model)[1] == {"Conv": 1}


def test_a_quantized_resnet_has_the_same_answers_in_onnxruntime():
    """ResNet-18 whose last layer is fitted to digits, in int8: the file gives the class that the network gives, each time."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))[:640]
    x = np.repeat(np.repeat(data.images[order], 2, 1), 2, 2)[:, None].repeat(3, 1).astype("float32") / 8 - 1
    y, fit = data.target[order], 384
    bireme.seed(0)
    net = bireme.vision.models.resnet18(num_classes=10)

    def scores(layer, images):
        return np.concatenate([layer(bireme.to_tensor(images[i : i + 64])).numpy() for i in range(0, len(images), 64)])

    with bireme.no_grad():
        for _ in range(3):  # statistics of the normalizations
            net(bireme.to_tensor(x[:64]))
        net.eval()
        last, net.fc = net.fc, nn.Identity()
        features = scores(net, x[:fit]).astype("float64")
        net.fc = last
        gram = features.T @ features + 10 * np.eye(512)
        last.weight.set_value(np.linalg.solve(gram, features.T @ (np.eye(10)[y[:fit]] - 0.1)).astype("float32"))
        last.bias.set_value(np.full(10, 0.1, "float32"))
        converted = integers(net, bireme.to_tensor(x[:64]))
        whole, found = scores(net, x[fit:]), scores(converted, x[fit:])
    right = [float((some.argmax(1) == y[fit:]).mean()) for some in (whole, found)]
    assert right[0] > 0.8 and right[1] > right[0] - 0.04 and len(np.unique(found.argmax(1))) == 10
    best = np.sort(found, 1)
    clear = best[:, -1] - best[:, -2] > 0.1  # others are ties to 8 bits: a sum that is rounded otherwise decides them
    for products, convs in ((False, 0), (True, 12)):
        model = exported(converted, [None, 3, 16, 16], integer_products=products)
        before = kinds(model)
        assert before["Conv"] + before["ConvInteger"] == 20 and before["ConvInteger"] == convs and before["Gemm"] == 1
        made, after = session(model)
        assert not JOINS_SIGNED or (after["QLinearConv"] == 8 and after["QGemm"] == 1)
        (got,) = made.run(None, {"x": x[fit:]})
        np.testing.assert_array_equal(got.argmax(1)[clear], found.argmax(1)[clear])
        # of the ties, products that are not joined are rounded otherwise: three images of 256 on x86
        room = 0.01 if JOINS_SIGNED else 0.02
        assert clear.mean() > 0.8 and abs((got.argmax(1) == y[fit:]).mean() - right[1]) < room
    with tempfile.TemporaryDirectory() as folder:
        pytest.importorskip("onnx").save(model, folder + "/net.onnx")
        again = bireme.onnx.load(folder + "/net.onnx")
    got = scores(again, x[fit : fit + 64])
    np.testing.assert_array_equal(got.argmax(1)[clear[:64]], found.argmax(1)[:64][clear[:64]])


def test_the_least_error_keeps_large_numbers_that_matter():
    x = np.concatenate([np.random.default_rng(0).standard_normal(4000), [40.0] * 20]).astype("float32")
    observer = MSEObserver()._instance(None)
    observer(bireme.to_tensor(x))
    assert 30 < observer.scales().item() <= 40
