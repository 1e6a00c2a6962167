"""Layer: names, attributes, states, hooks, conversion; containers, initial values and ParamAttr."""

import copy

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.utils import unique_name


@pytest.fixture(autouse=True)
def fresh_names():
    with unique_name.guard():
        yield


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 3)
        self.seq = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.w = self.create_parameter([2, 2])
        self.b = self.create_parameter([2], is_bias=True)
        self.register_buffer("kept", bireme.ones([2]))
        self.register_buffer("dropped", bireme.ones([2]), persistable=False)
        self.seen = bireme.zeros([1])

    def forward(self, x):
        return self.seq(self.fc(x))


PARAMETERS = ["w", "b", "fc.weight", "fc.bias", "seq.0.weight", "seq.0.bias"]


def test_automatic_names():
    assert nn.Linear(2, 3).weight.name == "linear_0.w_0"
    layer = nn.Linear(2, 3)
    assert [p.name for p in layer.parameters()] == ["linear_1.w_0", "linear_1.b_0"]
    assert layer.create_parameter([1]).name == "linear_1.w_1"
    assert nn.Linear(2, 3, weight_attr="mine").weight.name == "mine"
    with unique_name.guard():
        assert nn.Linear(2, 3).full_name() == "linear_0"
    with unique_name.guard("left_"):
        assert nn.Linear(2, 3).full_name() == "left_linear_0"
    assert nn.Linear(2, 3).full_name() == "linear_3"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ReLU", "re_lu_0"), ("LeakyReLU", "leaky_re_lu_0"), ("LayerNorm", "layer_norm_0"), ("Conv2D", "conv2d_0"),
        ("MSELoss", "mse_loss_0"), ("HTTPNet2", "http_net2_0"), ("Conv2DTranspose", "conv2d_transpose_0"),
        ("My_Net", "my__net_0"), ("GRUCell", "gru_cell_0"),
    ],
)  # fmt: skip
def test_class_names_become_layer_names(name, expected):
    assert type(name, (nn.Layer,), {})().full_name() == expected


def test_a_parameters_name_is_its_own():
    nn.Linear(2, 3, weight_attr="mine")
    with pytest.raises(ValueError, match="expected a unique parameter name, got 'mine'"):
        nn.Linear(2, 3, weight_attr="mine")


def test_what_a_layer_holds():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == PARAMETERS
    assert [n for n, _ in net.named_parameters("q")] == [f"q.{n}" for n in PARAMETERS]
    assert list(net.state_dict()) == ["w", "b", "kept", *PARAMETERS[2:]]
    assert [n for n, _ in net.named_sublayers()] == ["fc", "seq", "seq.0", "seq.1"]
    assert [n for n, _ in net.named_children()] == ["fc", "seq"]
    assert [n for n, _ in net.named_buffers()] == ["kept", "dropped", "seen"]
    assert len(net.parameters(include_sublayers=False)) == 2
    assert net.state_dict()["w"] is net.w
    assert net.w.persistable and not net.w.stop_gradient


def test_shared_parts_are_found_once():
    net = nn.Layer()
    net.a = nn.Linear(2, 2)
    net.b = net.a
    net.c = nn.Linear(2, 2)
    net.c.weight = net.a.weight
    assert [n for n, _ in net.named_parameters()] == ["a.weight", "a.bias", "c.bias"]
    assert len(list(net.named_parameters(remove_duplicate=False))) == 6
    assert [n for n, _ in net.named_sublayers()] == ["a", "c"]
    assert len(net.state_dict()) == 6


def test_attributes():
    layer = nn.Linear(2, 3)
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'foo'"):
        _ = layer.foo
    for value in (3, bireme.ones([2, 3])):
        with pytest.raises(TypeError, match=r"Linear.weight: expected a Parameter or None"):
            layer.weight = value
    layer.weight = None
    assert layer.weight is None and list(layer.state_dict()) == ["bias"]
    del layer.bias
    assert not hasattr(layer, "bias")
    layer.act = nn.ReLU()
    with pytest.raises(TypeError, match=r"Linear.act: expected a Layer or None, got 3"):
        layer.act = 3
    layer.plain = 3
    layer.plain = nn.ReLU()
    assert "plain" in layer._sub_layers and "plain" not in layer.__dict__
    assert {"plain", "act", "training"} <= set(dir(layer))


def test_init_must_come_first():
    class Late(nn.Layer):
        def __init__(self):
            self.fc = nn.Linear(1, 1)

    with pytest.raises(ValueError, match=r"super\(\).__init__\(\)"):
        Late()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: x.add_parameter("a.b", None), KeyError, "without dots"),
        (lambda x: x.add_parameter("", None), KeyError, "without dots"),
        (lambda x: x.add_parameter(3, None), TypeError, "expected a str"),
        (lambda x: x.add_parameter("a", 3), TypeError, "expected a Parameter"),
        (lambda x: x.add_parameter("forward", None), KeyError, "not an attribute yet"),
        (lambda x: x.register_buffer("a", 3), TypeError, "expected a Tensor"),
        (lambda x: x.register_buffer("forward", None), KeyError, "not an attribute yet"),
        (lambda x: x.add_sublayer("a", 3), TypeError, "expected a Layer"),
        (lambda x: x.create_parameter(3), TypeError, "expected a list of sizes, got 3"),
        (lambda x: x.create_parameter([-1]), ValueError, "non-negative sizes"),
        (lambda x: x.create_parameter([2], dtype="int64"), TypeError, "an initializer that makes int64"),
        (lambda x: x.create_parameter([2], attr=3), TypeError, "expected a ParamAttr"),
        (lambda x: x(1), NotImplementedError, "forward"),
        (lambda x: x.set_state_dict([1]), TypeError, "a dict of name to Tensor"),
        (
            lambda x: nn.Linear(1, 2).set_state_dict({"weight": "text"}),
            TypeError,
            r"\(state_dict\), weight: .* array of numbers, got 'text'",
        ),
        (
            lambda x: nn.Linear(1, 2).set_state_dict({"weight": np.array([["a", "b"]])}),
            ValueError,
            "expected a Tensor or an array of numbers",
        ),
        (lambda x: x.float16(excluded_layers=3), TypeError, "a Layer class"),
    ],
)
def test_bad_calls(call, kind, message):
    with pytest.raises(kind, match=message):
        call(nn.Layer())


def test_training_mode_reaches_all():
    net = Net()
    assert net.eval() is net
    assert not any(layer.training for layer in net.sublayers(include_self=True))
    assert net.train().seq[1].training
    order = []
    assert net.apply(lambda layer: order.append(layer.full_name())) is net
    assert order == ["linear_0", "linear_1", "re_lu_0", "sequential_0", "net_0"]


def test_hooks():
    layer = nn.Identity()
    x = bireme.to_tensor([1.0])
    first = layer.register_forward_pre_hook(lambda layer, inputs: inputs[0] + 1)
    second = layer.register_forward_pre_hook(lambda layer, inputs: (inputs[0] * 10,))
    third = layer.register_forward_post_hook(lambda layer, inputs, out: out + inputs[0])
    assert layer(x).tolist() == [40.0]
    first.remove()
    first.remove()
    assert layer(x).tolist() == [20.0]
    second.remove()
    third.remove()
    keyword = layer.register_forward_pre_hook(lambda layer, a, k: (a, {"input": k["input"] * 3}), with_kwargs=True)
    assert layer(input=x).tolist() == [3.0]
    keyword.remove()
    layer.register_forward_pre_hook(lambda layer, a, k: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"expected None or a pair \(args, kwargs\), got 3"):
        layer(x)


def test_an_error_in_forward_leaves_no_trace():
    class Broken(nn.Layer):
        def forward(self, x):
            raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            Broken()(1)
    assert nn.Identity()(bireme.to_tensor([1.0])).tolist() == [1.0]


def test_state_dict_round_trip():
    net, other = Net(), Net()
    state = {k: v.numpy() for k, v in net.state_dict().items()}
    assert other.set_state_dict(state) == ([], [])
    for k, v in other.state_dict().items():
        assert np.array_equal(v.numpy(), state[k])
    by_name = {p.name: np.full(p.shape, 2.0, "float32") for p in net.parameters()}
    assert net.set_state_dict(by_name, use_structured_name=False)[1] == []
    assert net.fc.weight.tolist() == [[2.0] * 3] * 2
    assert nn.Layer.set_dict is nn.Layer.load_dict is nn.Layer.set_state_dict


def test_state_dict_that_does_not_fit():
    layer = nn.Linear(2, 3)
    before = layer.weight.numpy()
    with pytest.warns(UserWarning, match=r"skipped weight: expected shape \[2, 3\], got \[2, 2\]"):
        told = layer.set_state_dict({"weight": np.zeros((2, 2), "float32"), "more": np.ones(2)})
    assert told == (["weight", "bias"], ["weight", "more"])
    with pytest.raises(ValueError, match="weight: expected float32, got float64"):
        layer.set_state_dict({"bias": np.ones(3, "float32"), "weight": np.zeros((2, 3))})
    assert np.array_equal(layer.weight.numpy(), before) and layer.bias.tolist() == [0.0] * 3


def test_state_dict_options():
    net = nn.Sequential(nn.Linear(2, 2))
    assert list(net.state_dict(structured_name_prefix="p.")) == ["p.0.weight", "p.0.bias"]
    assert list(net.state_dict(include_sublayers=False)) == []
    assert list(net.state_dict({"z": 1})) == ["z", "0.weight", "0.bias"]
    copied = net.state_dict(keep_vars=False)["0.weight"]
    assert copied is not net[0].weight and copied.stop_gradient
    hook = net.register_state_dict_hook(lambda state: state | {"extra": 1})
    assert "extra" in net.state_dict() and "extra" not in net.state_dict(use_hook=False)
    hook.remove()
    assert "extra" not in net.state_dict()


class Turned(nn.Layer):
    """Files its weight the other way round."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 3)

    def state_dict(self, *args, **kwargs):
        state = super().state_dict(*args, **kwargs)
        state["turned"] = state.pop("linear.weight").t()
        return state

    def set_state_dict(self, state_dict, use_structured_name=True):
        state_dict["linear.weight"] = state_dict.pop("turned").t()
        return super().set_state_dict(state_dict, use_structured_name)


def test_a_layer_may_file_its_state_in_another_form():
    first, second = Turned(), Turned()
    assert second.set_state_dict(first.state_dict()) == ([], [])
    assert np.array_equal(first.linear.weight, second.linear.weight)
    assert list(nn.Sequential(first).state_dict()) == ["0.linear.weight", "0.linear.bias"]


def test_conversion():
    net = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    net.register_buffer("count", bireme.ones([1], "int64"))
    weight = net[0].weight
    assert net.bfloat16(excluded_layers=nn.LayerNorm) is net
    assert net[0].weight is weight and weight.dtype is bireme.bfloat16
    assert net[1].weight.dtype is bireme.float32 and net.count.dtype is bireme.int64
    net.to(dtype="float64")
    assert {t.dtype for t in net.state_dict().values()} == {bireme.float64}
    assert "dtype=float64" in repr(net[0])
    net.float()
    assert weight.dtype is bireme.float32 and not weight.stop_gradient
    assert net.to("cpu") is net


def test_gradients_follow_a_conversion():
    layer = nn.Linear(2, 1)
    layer(bireme.ones([1, 2])).sum().backward()
    layer.to(dtype="float64")
    assert layer.weight.grad.dtype is bireme.float64
    layer.clear_gradients()
    assert layer.weight.grad.tolist() == [[0.0], [0.0]]
    layer.clear_gradients(set_to_zero=False)
    assert layer.weight.grad is None


def test_default_dtype():
    bireme.set_default_dtype("float64")
    try:
        assert nn.Linear(1, 1).weight.dtype is bireme.float64
        assert nn.Layer().create_parameter([1]).dtype is bireme.float64
    finally:
        bireme.set_default_dtype("float32")


def test_deepcopy_is_apart():
    layer = nn.Linear(2, 2)
    twin = copy.deepcopy(layer)
    twin.weight.set_value(np.zeros((2, 2), "float32"))
    assert layer.weight.abs().sum().item() > 0
    assert not twin.weight.stop_gradient and twin.weight.name != layer.weight.name


def test_repr():
    net = nn.Sequential(("act", nn.LeakyReLU(0.2)), ("inner", nn.Sequential(nn.Dropout(0.3), nn.Softmax(1))))
    assert repr(net) == (
        "Sequential(\n"
        "  (act): LeakyReLU(negative_slope=0.2)\n"
        "  (inner): Sequential(\n"
        "    (0): Dropout(p=0.3, axis=None, mode=upscale_in_train)\n"
        "    (1): Softmax(axis=1)\n"
        "  )\n"
        ")"
    )
    conv = nn.Conv2D(4, 4, (3, 5), stride=2, padding=1, dilation=2, groups=2)
    assert repr(conv) == (
        "Conv2D(4, 4, kernel_size=[3, 5], stride=[2, 2], padding=1, dilation=[2, 2], groups=2, data_format=NCHW)"
    )
    assert repr(nn.Linear(2, 3, name="f")) == "Linear(in_features=2, out_features=3, dtype=float32, name=f)"
    assert repr(nn.Embedding(4, 2, padding_idx=1)) == (
        "Embedding(4, 2, padding_idx=1, sparse=False, scale_grad_by_freq=False)"
    )
    assert repr(nn.LayerNorm([3, 4], 1e-3)) == "LayerNorm(normalized_shape=[3, 4], epsilon=0.001)"
    assert repr(nn.Silu()) == "Silu(inplace=False)" and repr(nn.ReLU(name="r")) == "ReLU(name=r)"


def test_sequential():
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    net = nn.Sequential(a, b)
    assert net[0] is a and net[-1] is b and len(net) == 2 and list(net) == [a, b]
    assert list(net[1:]) == [b] and isinstance(net[1:], nn.Sequential)
    assert net.append(c) is net and net.extend([a]).insert(0, c) is net
    assert list(net) == [c, a, b, c, a]
    del net[0]
    net.append(b)
    assert list(net) == [a, b, c, a, b]  # nothing was replaced by the append after the deletion
    net[0] = c
    assert net[0] is c and len(net) == 5
    del net[1:]
    assert list(net) == [c]
    assert nn.Sequential()(3) == 3
    assert nn.Sequential({"x": a})["x"] is a
    for index in (1, -2):
        with pytest.raises(IndexError, match=r"Sequential\[index\]: expected an index in \[-1, 0\]"):
            _ = net[index]
    with pytest.raises(KeyError):
        _ = net["nothing"]
    with pytest.raises(TypeError, match=r"Sequential\(\*layers\)"):
        nn.Sequential([a, b])


def test_layer_list():
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    layers = nn.LayerList(iter([a, b]))
    assert layers.append(c) is layers and layers.insert(1, c) is None
    assert list(layers) == [a, c, b, c] and list(layers._sub_layers) == ["0", "1", "2", "3"]
    del layers[0]
    layers[-1] = a
    assert list(layers) == [c, b, a] and layers[-2] is b and list(layers[:2]) == [c, b]
    for index in (3, -4):
        with pytest.raises(IndexError, match=r"expected an index in \[-3, 2\]"):
            _ = layers[index]
    with pytest.raises(IndexError, match=r"insert\(index\)"):
        layers.insert(9, a)
    with pytest.raises(TypeError, match="expected a Layer"):
        layers.append(3)


def test_parameter_list_and_layer_dict():
    layer = nn.Layer()
    parameters = nn.ParameterList([layer.create_parameter([n]) for n in (1, 2)])
    parameters.append(layer.create_parameter([3]))
    parameters[0] = layer.create_parameter([4])
    assert [p.shape for p in parameters] == [[4], [2], [3]] and parameters[-1].shape == [3]
    assert list(parameters.state_dict()) == ["0", "1", "2"]
    layers = nn.LayerDict({"a": nn.ReLU()})
    layers.update([("b", nn.Tanh())])
    layers.update(nn.LayerDict({"c": nn.Sigmoid()}))
    assert list(layers) == ["a", "b", "c"] and "b" in layers and len(layers) == 3
    assert repr(layers.pop("b")) == "Tanh()" and list(layers.keys()) == ["a", "c"]
    with pytest.raises(KeyError):
        _ = layers["b"]
    layers.clear()
    assert len(layers) == 0
    with pytest.raises(ValueError, match="pairs"):
        layers.update([(1, 2, 3)])


def test_param_attr():
    attr = bireme.ParamAttr(
        name="w", learning_rate=0.5, regularizer=bireme.regularizer.L2Decay(0.1), trainable=False, need_clip=False
    )
    weight = nn.Linear(2, 2, weight_attr=attr).weight
    assert weight.name == "w" and weight.stop_gradient and not weight.need_clip
    assert weight.optimize_attr == {"learning_rate": 0.5} and str(weight.regularizer) == "L2Decay, coeff=0.100000"
    none = nn.Linear(2, 2, weight_attr=nn.initializer.Constant(3.0), bias_attr=False)
    assert none.bias is None and list(none.state_dict()) == ["weight"] and none.weight.tolist() == [[3.0, 3.0]] * 2
    for bad, kind in ({"name": ""}, ValueError), ({"name": 3}, TypeError), ({"regularizer": 0.1}, TypeError):
        with pytest.raises(kind, match=r"ParamAttr\("):
            bireme.ParamAttr(**bad)


I = nn.initializer  # noqa: E741 - the name that users give it
KERNEL, MATRIX = [64, 32, 3, 3], [300, 200]


@pytest.mark.parametrize(
    ("init", "shape", "std", "bound"),
    [
        (I.Normal(0.0, 3.0), MATRIX, 3.0, None),
        (I.Uniform(-2.0, 2.0), MATRIX, 4 / 12**0.5, 2.0),
        (I.XavierUniform(), MATRIX, (2 / 500) ** 0.5, (6 / 500) ** 0.5),
        (I.XavierNormal(), MATRIX, (2 / 500) ** 0.5, None),
        (I.XavierUniform(), KERNEL, (2 / (96 * 9)) ** 0.5, (6 / (96 * 9)) ** 0.5),
        (I.XavierNormal(fan_in=10), MATRIX, (2 / 210) ** 0.5, None),
        (I.XavierUniform(fan_in=3, fan_out=3, gain=2.0), MATRIX, 2 / 3**0.5, 2.0),
        (I.KaimingUniform(), MATRIX, (2 / 300) ** 0.5, (6 / 300) ** 0.5),
        (I.KaimingNormal(), KERNEL, (2 / (32 * 9)) ** 0.5, None),
        (I.KaimingNormal(mode="fan_out"), KERNEL, (2 / (64 * 9)) ** 0.5, None),
        (I.KaimingNormal(fan_in=10), MATRIX, 0.2**0.5, None),
        (I.KaimingUniform(negative_slope=1.0, nonlinearity="leaky_relu"), MATRIX, (1 / 300) ** 0.5, 0.1),
        (I.KaimingUniform(), [50000], (2 / 50000) ** 0.5, (6 / 50000) ** 0.5),
        (I.TruncatedNormal(), MATRIX, 0.8796, 2.0),
    ],
)
def test_distributions(init, shape, std, bound):
    value = init.sample(shape, "float32").numpy().astype("float64")
    assert abs(value.mean()) < 5 * std / value.size**0.5
    assert value.std() == pytest.approx(std, rel=0.03)
    if bound is not None:
        assert 0.98 * bound < np.abs(value).max() <= bound * (1 + 1e-6)


def test_other_initial_values():
    bounds = I.TruncatedNormal(1.0, 2.0, -1.0, 3.0).sample([50000], "float32").numpy()
    assert bounds.min() >= -1 and bounds.max() <= 3 and abs(bounds.mean() - 1) < 0.03
    assert np.isfinite(I.TruncatedNormal(a=-50.0, b=50.0).sample([50000], "float32").numpy()).all()
    assert I.TruncatedNormal(1.0, 0.0, 2.0, 3.0).sample([1], "float32").tolist() == [2.0]
    assert I.XavierUniform().sample([], "float32").shape == []
    assert nn.Linear(0, 3).weight.shape == [0, 3]
    assert I.Normal().sample([4], "bfloat16").dtype is bireme.bfloat16
    assert nn.Layer().create_parameter([2], dtype="int64", default_initializer=I.Constant(3)).tolist() == [3, 3]
    x = bireme.ones([2])
    assert I.Assign([5, 6])(x) is None and x.tolist() == [5.0, 6.0]
    assert nn.Layer().create_parameter([2, 2], default_initializer=I.Assign([5, 6])).tolist() == [
        [5.0, 6.0],
        [5.0, 6.0],
    ]
    wide = nn.Layer().create_parameter([2], default_initializer=I.Assign([[1.0, 2.0, 3.0]]))
    assert wide.shape == [1, 3] and (wide * 2).sum().item() == 12.0
    with pytest.raises(ValueError, match="fan_in"):
        I.KaimingUniform(mode="fan")
    with pytest.raises(ValueError, match="'leaky_relu', got 'foo'"):
        I.calculate_gain("foo")
    with pytest.raises(ValueError, match=r"Uniform\(high\)"):
        I.Uniform(2.0, 1.0)


def test_own_initializers():
    class Fours(I.Initializer):
        def __call__(self, param, block=None):
            param.set_value(np.full(param.shape, 4.0, "float32"))

    assert nn.Linear(1, 1, weight_attr=bireme.ParamAttr(initializer=Fours())).weight.tolist() == [[4.0]]


def test_an_initializer_made_with_a_parameter_is_no_error():
    layer = nn.Linear(2, 2, weight_attr=I.Constant(3.0))
    for kind in (I.TruncatedNormal, I.Normal, I.Constant, I.XavierUniform, I.KaimingNormal):
        kind(layer.weight)
    I.Normal(0.0, layer.weight)
    assert layer.weight.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    with pytest.raises(TypeError, match=r"Normal\(mean\): expected a number, got 'a'"):
        I.Normal("a")


def test_global_initializer():
    I.set_global_initializer(I.Constant(5.0), I.Constant(6.0))
    try:
        layer, norm = nn.Linear(1, 1), nn.LayerNorm(1)
        own = nn.Linear(1, 1, weight_attr=I.Constant(7.0))
    finally:
        I.set_global_initializer(None)
    assert (layer.weight.item(), layer.bias.item(), norm.weight.item(), own.weight.item()) == (5.0, 6.0, 5.0, 7.0)
    assert nn.Linear(1, 1).bias.item() == 0.0


def test_default_initial_values():
    conv = nn.Conv2D(32, 64, 3, groups=4)
    assert conv.weight.shape == [64, 8, 3, 3]
    assert conv.weight.numpy().std() == pytest.approx((2 / (32 * 9)) ** 0.5, rel=0.03)
    table = nn.Embedding(300, 200, padding_idx=-1)
    assert np.abs(table.weight.numpy()).max() == pytest.approx((6 / 500) ** 0.5, rel=0.02)
    assert not table.weight[299].numpy().any() and table.weight[298].numpy().all()
    assert nn.LayerNorm(3).weight.tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (
            lambda: nn.Embedding(3, 2, padding_idx=3),
            ValueError,
            r"Embedding\(padding_idx\): expected an index in \[-3, 2\]",
        ),
        (lambda: nn.Embedding(0, 2), ValueError, r"Embedding\(num_embeddings\)"),
        (lambda: nn.Conv2D(3, 4, 3, groups=2), ValueError, r"Conv2D\(in_channels\): expected a multiple of groups = 2"),
        (lambda: nn.Conv2D(3, 4, (1, 2, 3)), ValueError, r"Conv2D\(kernel_size\)"),
        (lambda: nn.Conv2D(3, 4, 3, padding_mode="x"), ValueError, r"Conv2D\(padding_mode\)"),
        (lambda: nn.Conv2D(3, 4, 3, padding=[1, 1], padding_mode="reflect"), TypeError, r"Conv2D\(padding\)"),
        (lambda: nn.Conv2D(3, 4, 3, 1, 0, 1, 1, True), TypeError, "positional"),
        (lambda: nn.LayerNorm("3"), TypeError, r"LayerNorm\(normalized_shape\)"),
        (lambda: nn.MSELoss("x"), ValueError, r"MSELoss\(reduction\)"),
        (lambda: nn.ReLU(foo=1), TypeError, "expected arguments name, got 'foo'"),
        (lambda: nn.GELU(1, 2, 3), TypeError, "expected arguments approximate, name, got 3 arguments"),
    ],
)
def test_bad_layers(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


def test_a_network_computes_what_its_formula_says():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    first, second = net[0], net[2]
    hidden = np.maximum(x @ first.weight.numpy() + first.bias.numpy(), 0)
    expected = hidden @ second.weight.numpy() + second.bias.numpy()
    np.testing.assert_allclose(net(bireme.to_tensor(x)).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_conv_padding_modes():
    x = np.arange(9.0, dtype="float32").reshape(1, 1, 3, 3)
    for mode, numpy_mode in ("zeros", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap"):
        layer = nn.Conv2D(1, 1, 3, padding=1, padding_mode=mode, weight_attr=I.Constant(1.0))
        wide = np.pad(x[0, 0], 1, mode=numpy_mode)
        expected = np.lib.stride_tricks.sliding_window_view(wide, (3, 3)).sum((2, 3))
        np.testing.assert_allclose(layer(bireme.to_tensor(x)).numpy()[0, 0], expected)


def test_the_helper_that_layers_written_for_paddle_ask():
    class Mine(nn.Layer):
        def __init__(self):
            super().__init__()
            self._dtype = self._helper.get_default_dtype()
            self.w = self._helper.create_parameter(None, [2, 3], is_bias=True)

    assert Mine()._dtype == "float32" and Mine().w.shape == [2, 3] and Mine()._helper.name.startswith("mine_")


def test_what_a_to_of_a_programs_own_builds_on():
    net = nn.Sequential(nn.Linear(1, 1))
    net.register_buffer("count", bireme.to_tensor([1]))
    net._to_impl(dtype="float64", include_sublayers=True, floating_only=True)
    assert net[0].weight.dtype == bireme.float64 and net.count.dtype == bireme.int64
    net._to_impl(dtype="float32", include_sublayers=False)
    assert net[0].weight.dtype == bireme.float64 and net.count.dtype == bireme.float32


def test_the_sizes_of_a_linear_layer_may_be_properties_of_a_programs_own():
    class Mine(nn.Linear):
        in_features = property(lambda self: self.weight.shape[0])

    assert Mine(2, 3).in_features == 2 and repr(Mine(2, 3)) == "Mine(in_features=2, out_features=3, dtype=float32)"


def test_a_helper_of_ones_own():
    class Own(nn.Layer):
        def __init__(self):
            super().__init__()
            self.w = self.create_parameter([2, 2])
            self._helper = "mine"

        def create_parameter(self, shape, attr=None, dtype=None, is_bias=False, default_initializer=None):
            return self._helper.create_parameter(attr, shape, dtype or "float32", is_bias, default_initializer)

    layer = Own()
    assert layer.w.shape == [2, 2]
    assert layer._helper == "mine"


@pytest.mark.parametrize(
    "make, argument",
    [
        (lambda: nn.Linear("3", 4), "Linear(in_features)"),
        (lambda: nn.Linear("3", 4, weight_attr=bireme.ParamAttr(name="linear_w")), "Linear(in_features)"),
        (lambda: nn.Linear(3, -4), "Linear(out_features)"),
        (lambda: nn.Linear(3, 4, weight_attr=3), "Linear(weight_attr)"),
        (lambda: nn.Conv2D(3, 2, 3, bias_attr=3), "Conv2D(bias_attr)"),
        (lambda: nn.Bilinear(1, 2, "a"), "Bilinear(out_features)"),
        (lambda: nn.Conv2D(3, "4", 3), "Conv2D(out_channels)"),
        (lambda: nn.Embedding(True, 3), "Embedding(num_embeddings)"),
        (lambda: nn.LayerNorm("a"), "LayerNorm(normalized_shape)"),
        (lambda: nn.BatchNorm2D(-3), "BatchNorm2D(num_features)"),
        (lambda: nn.GroupNorm(2, "a"), "GroupNorm(num_channels)"),
        (lambda: nn.PReLU("a"), "PReLU(num_parameters)"),
        (lambda: nn.LSTM("3", 4), "LSTM(input_size)"),
        (lambda: nn.GRUCell(3, 2.5), "GRUCell(hidden_size)"),
        (lambda: nn.MultiHeadAttention("16", 4), "MultiHeadAttention(embed_dim)"),
        (lambda: nn.TransformerEncoderLayer(8, "2", 8), "TransformerEncoderLayer(nhead)"),
    ],
)
def test_constructors_blame_their_own_arguments(make, argument):
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert str(caught.value).startswith(f"{argument}: expected ")
    assert "test_layer.py" in str(caught.value)
