"""Corners of Layer and the containers: what is refused, what is told, what the text looks like."""

import numpy as np
import pytest

import bireme
from bireme import nn


class Part(nn.Layer):
    def __init__(self):
        super().__init__()
        self.w = self.create_parameter([2], attr=nn.initializer.Constant(1.0))
        self.register_buffer("kept", bireme.zeros([1]))
        self.register_buffer("lost", bireme.zeros([1]), persistable=False)

    def forward(self, x):
        return x * self.w


def test_missing_keys_are_told():
    part = Part()
    with pytest.warns(UserWarning, match="skipped kept: it is not in the state dict"):
        assert part.set_state_dict({"w": np.array([5.0, 6.0], "float32"), "more": np.zeros(1, "float32")}) == (
            ["kept"],
            ["more"],
        )
    assert part.w.tolist() == [5.0, 6.0]
    with pytest.raises(AssertionError, match="w: expected float32, got float64"):
        part.set_state_dict({"w": np.zeros(2), "kept": np.zeros(1, "float32")})


def test_all_buffers_by_name():
    owner = nn.Sequential(Part())
    assert list(owner.to_static_state_dict()) == ["0.w", "0.kept", "0.lost"]
    assert list(owner.state_dict(structured_name_prefix="x.")) == ["x.0.w", "x.0.kept"]
    assert [n for n, _ in owner.full()] == ["0.kept", "0.w"]
    with pytest.raises(ValueError, match=r"full\(aoa_config"):
        list(owner.full({"a": 1}))


def test_variables_are_named_after_the_layer():
    with bireme.utils.unique_name.guard():
        layer = nn.Layer()
        made = [
            layer.create_variable("v", persistable=True),
            layer.create_tensor("t", dtype="float64"),
            layer.create_tensor(),
        ]
    assert [(v.name, v.shape, v.dtype.name, v.persistable) for v in made] == [
        ("layer_0.v", [], "float32", True),
        ("layer_0.t", [], "float64", False),
        ("layer_0._generated_var_0", [], "float32", False),
    ]


def test_the_text_of_layers():
    class Lines(nn.Layer):
        def __init__(self, text, *parts):
            super().__init__()
            self._text = text
            for i, part in enumerate(parts):
                self.add_sublayer(str(i), part)

        def extra_repr(self):
            return self._text

    assert repr(Lines("k=1")) == "Lines(k=1)"
    assert repr(Lines("k=1", nn.ReLU())) == "Lines(k=1\n  (0): ReLU()\n)"
    assert repr(Lines("a\nb")) == "Lines(\n  a\n  b\n)"
    assert repr(Lines("", Lines("", nn.ReLU()))) == "Lines(\n  (0): Lines(\n    (0): ReLU()\n  )\n)"


def test_what_is_refused():
    part = Part()
    with pytest.raises(TypeError, match=r"Part.w: expected a Parameter or None"):
        part.w = nn.ReLU()
    with pytest.raises(TypeError, match=r"register_buffer\(tensor\): expected a Tensor that is not a Parameter"):
        part.register_buffer("q", part.w)
    with pytest.raises(AssertionError, match=r"to\(blocking\)"):
        part.to(blocking=3)
    with pytest.raises(ValueError, match=r"astype\(dtype\)"):
        part.astype()
    with pytest.raises(ValueError, match="gradients follow from forward"):
        part.backward()
    for kind in (TypeError, AssertionError):
        with pytest.raises(kind, match=r"LayerList\(sublayers\[0\]\)"):
            nn.LayerList([3])
        with pytest.raises(kind, match=r"LayerDict\(sublayers\)"):
            nn.LayerDict(3)
        with pytest.raises(kind, match=r"ParameterDict\['a'\]: expected a Parameter, got 3"):
            nn.ParameterDict()["a"] = 3
        with pytest.raises(kind, match=r"Normal\(mean\): expected a number, got None"):
            nn.initializer.Normal(None)
    for kind in (IndexError, AssertionError):
        with pytest.raises(kind, match=r"insert\(index\)"):
            nn.LayerList().insert(5, nn.ReLU())


def test_parts_of_lists():
    params = nn.ParameterList([bireme.create_parameter([1], "float32") for _ in range(3)])
    assert len(params[1:]) == 2 and params[1:][0] is params[1]
    layers = nn.LayerList([nn.ReLU(), nn.Tanh()])
    assert layers["1"] is layers[-1]


def test_an_embedding_shortens_the_rows_it_reads():
    for _ in range(3):  # a remembered call must change the table too
        layer = nn.Embedding(3, 4, max_norm=1.0)
        layer.weight.set_value(np.full((3, 4), 3.0, np.float32))
        out = layer(bireme.to_tensor([0, 1]))
        np.testing.assert_allclose(out.numpy(), np.full((2, 4), 0.5), rtol=1e-6)
        np.testing.assert_allclose(layer.weight.numpy()[:, 0], [0.5, 0.5, 3.0], rtol=1e-6)


@pytest.mark.parametrize("none", [None, False, 0])
def test_an_embedding_without_a_largest_norm_leaves_its_table(none):
    layer = nn.Embedding(3, 4, None, none)
    layer.weight.set_value(np.full((3, 4), 3.0, np.float32))
    assert layer(bireme.to_tensor([0])).tolist() == [[3.0] * 4]
    assert layer.weight.numpy().min() == 3.0


def test_an_embedding_divides_gradients_by_the_count_of_reads():
    layer = nn.Embedding(3, 2, scale_grad_by_freq=True)
    layer(bireme.to_tensor([[0, 2], [2, 2]])).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]


def test_padding_reads_as_zeros_whatever_the_row_holds():
    layer = nn.Embedding(3, 2, padding_idx=-1)
    layer.weight.set_value(np.ones((3, 2), np.float32))
    assert layer(bireme.to_tensor([0, 2])).tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_trainable_is_a_bool():
    with pytest.raises(ValueError, match="trainable: expected True or False, got 3"):
        nn.Linear(2, 2).weight.trainable = 3


def test_silu_in_place():
    start = bireme.to_tensor([-1.0, 2.0], stop_gradient=False)
    x = start * 1.0
    y = nn.Silu(inplace=True)(x)
    assert y is x and x.tolist() == nn.functional.silu(start).tolist()
    x.sum().backward()
    (expected,) = bireme.grad(nn.functional.silu(start).sum(), start)
    assert start.grad.tolist() == expected.tolist()
    with pytest.raises(ValueError, match="a leaf Tensor that requires grad"):
        nn.functional.silu(start, True)


def test_cosines_of_long_vectors_in_float16():
    x = bireme.full([2, 4096], 200.0, "float16")
    out = nn.CosineSimilarity()(x, -x)
    assert out.dtype is bireme.float16 and out.tolist() == [-1.0, -1.0]


@pytest.mark.parametrize("shape", [[2, 3], [1, 3], [3]])
@pytest.mark.parametrize(
    ("kinds", "found"),
    [(("float64", "float32"), "float64"), (("float32", "float64"), "float64"), (("float16", "float32"), "float32")],
)
def test_cosines_of_two_types(shape, kinds, found):
    x, y = bireme.full([2, 3], 2.0, kinds[0]), bireme.full(shape, -1.0, kinds[1])
    out = nn.functional.cosine_similarity(x, y)
    assert out.dtype.name == found
    np.testing.assert_allclose(out, [-1.0, -1.0], rtol=1e-6)


@pytest.mark.parametrize(
    "make", [lambda: nn.Conv2D(1, 1, 3, weight_attr=False), lambda: nn.Conv1DTranspose(1, 1, 3, weight_attr=False)]
)
def test_a_convolution_has_a_kernel(make):
    with pytest.raises(AssertionError, match=r"\(weight_attr\): expected a ParamAttr or None"):
        make()


def test_batch_norm_stays_wide():
    net = bireme.nn.Sequential(bireme.nn.Linear(2, 2), bireme.nn.BatchNorm(2), bireme.nn.BatchNorm1D(2)).bfloat16()
    assert [net[i].weight.dtype.name for i in range(3)] == ["bfloat16", "float32", "bfloat16"]
    assert net[1](net[0](bireme.ones([2, 2], "bfloat16"))).shape == [2, 2]
    assert net.bfloat16(excluded_layers=[bireme.nn.Linear])[1].weight.dtype.name == "bfloat16"


def test_sizes_may_be_numbers_of_numpy():
    i = np.int64
    x = bireme.ones([2, 4, 8, 8])
    conv = nn.Conv2D(i(4), i(6), [i(3), i(3)], padding=1, groups=i(2))
    assert conv(x).shape == [2, 6, 8, 8] and conv.weight.shape == [6, 2, 3, 3]
    assert nn.LayerNorm(i(8))(x).shape == [2, 4, 8, 8] and nn.Pad2D(i(1))(x).shape == [2, 4, 10, 10]
    assert nn.UpsamplingNearest2D(i(4))(x).shape == [2, 4, 4, 4]
    assert (
        nn.Upsample([np.array(4), np.float32(5)])(x).shape
        == nn.Upsample(scale_factor=[np.array(0.5), 0.625])(x).shape
        == [2, 4, 4, 5]
    )
    assert nn.functional.sequence_mask(bireme.to_tensor([1, 2]), np.array([3])).shape == [2, 3]
    layers = nn.LayerList([nn.ReLU(), nn.Tanh()])
    layers.insert(i(0), nn.GELU())
    assert isinstance(layers[i(-1)], nn.Tanh) and isinstance(layers[i(0)], nn.GELU)
    with pytest.raises(ValueError, match=r"Conv2D\(in_channels\): expected a positive integer"):
        nn.Conv2D(np.float32(4), 6, 3)


def test_parameters_made_of_tensors_have_names_of_their_own():
    with bireme.utils.unique_name.guard():
        first, second = nn.Parameter(bireme.ones([2])), bireme.base.framework.EagerParamBase([2], "float32")
        assert (first.name, second.name) == ("_eager_param_base_0", "_eager_param_base_1")
        adam = bireme.optimizer.Adam(parameters=[first])
        first.sum().backward()
        adam.step()
        assert "_eager_param_base_0_moment1_0" in adam.state_dict()


def test_bilinear_tells_the_type_of_its_weight():
    bireme.set_default_dtype("float64")
    try:
        layer = nn.Bilinear(2, 3, 4)
    finally:
        bireme.set_default_dtype("float32")
    assert repr(layer) == "Bilinear(in1_features=2, in2_features=3, out_features=4, dtype=float64)"
    assert (
        repr(nn.Bilinear(2, 3, 4, weight_attr=False))
        == "Bilinear(in1_features=2, in2_features=3, out_features=4, dtype=float32)"
    )


def test_gains_stand_beside_what_fills():
    assert nn.init.calculate_gain("tanh") == nn.initializer.calculate_gain("tanh") == 5 / 3


def test_recurrences_as_functions():
    """What `RNN` and `BiRNN` do is at hand without the layers, and states of stacks come apart and together."""
    from bireme.nn import rnn

    ahead, back, x = nn.GRUCell(3, 4), nn.GRUCell(3, 4), bireme.randn([2, 5, 3])
    lengths, start = bireme.to_tensor([5, 2]), bireme.randn([2, 4])
    for given, layer in (
        ((ahead, x, start, lengths, False, True), nn.RNN(ahead, is_reverse=True)),
        ((ahead, x), nn.RNN(ahead)),
    ):
        for found, expected in zip(rnn.rnn(*given), layer(*given[1:4]), strict=True):
            np.testing.assert_array_equal(found, expected)
    found, (first, second) = rnn.birnn(ahead, back, x, (start, start), lengths)
    expected, ends = nn.BiRNN(ahead, back)(x, (start, start), lengths)
    for a, b in zip((found, first, second), (expected, *ends), strict=True):
        np.testing.assert_array_equal(a, b)
    h, c = bireme.randn([4, 2, 3]), bireme.randn([4, 2, 3])
    parts = rnn.split_states((h, c), True, 2)
    np.testing.assert_array_equal(parts[1][0][1], c[2])
    for a, b in zip(rnn.concat_states(parts, True, 2), (h, c), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(rnn.concat_states(rnn.split_states(h)), h)


def test_stacks_of_recurrences_have_one_base():
    from bireme.nn.rnn import RNNBase

    for layer in (nn.LSTM(2, 3), nn.GRU(2, 3), nn.SimpleRNN(2, 3, activation="relu")):
        assert isinstance(layer, RNNBase)
        assert [p.shape for p in RNNBase(layer.mode, 2, 3).parameters()] == [p.shape for p in layer.parameters()]
    with pytest.raises(
        ValueError, match=r"RNNBase\(mode\): expected one of 'LSTM', 'GRU', 'RNN_TANH', 'RNN_RELU', got 'RNN'"
    ):
        RNNBase("RNN", 2, 3)


def test_layers_that_programs_derive_by_inner_names():
    """Checks of one's own, a convolution of one's own, an initializer that fills by the sizes of a unit."""

    class AnyAxes(nn.BatchNorm2D):
        def _check_input_dim(self, input):
            assert input.ndim in (2, 4)

    class AnyFormat(nn.BatchNorm2D):
        def _check_data_format(self, input):
            self._data_format = "NHWC"

    class ByChannel(nn.InstanceNorm2D):
        def _check_input_dim(self, input):
            pass

    class Gated(nn._ConvNd):
        def __init__(self):
            super().__init__(2, 4, 3, False, 2, padding=1, bias_attr=False)

        def forward(self, x):
            return nn.functional.conv2d(x, self.weight.tanh(), self.bias, self._stride, self._padding)

    class Fans(nn.initializer.Initializer):
        def forward(self, var, block=None):
            assert self._check_block(block) is block
            inputs, outputs = self._compute_fans(var)
            var.set_value(np.full(var.shape, 100.0 * inputs + outputs, "float32"))

    assert AnyAxes(2)(bireme.ones([3, 2])).shape == [3, 2]
    assert AnyFormat(2, data_format="X")(bireme.ones([1, 3, 3, 2])).shape == [1, 3, 3, 2]
    assert ByChannel(2)(bireme.ones([3, 2, 4])).shape == [3, 2, 4]
    assert Gated()(bireme.ones([1, 2, 5, 5])).shape == [1, 4, 5, 5]
    assert list(Gated().state_dict()) == ["weight"]
    assert repr(Gated()) == "Gated(2, 4, kernel_size=[3, 3], padding=1, data_format=NCHW)"
    for layer, value in ((nn.Linear(2, 3, weight_attr=Fans()), 203.0), (nn.Conv2D(2, 3, 2, weight_attr=Fans()), 812.0)):
        assert (layer.weight == value).all()


@pytest.mark.parametrize(
    ("make", "kept"),
    [
        (lambda: nn.LogSoftmax(1), {"_axis": 1}), (lambda: nn.Softmax(axis=0), {"_axis": 0}), (lambda: nn.GLU(), {"_axis": -1}),
        (lambda: nn.ELU(0.5), {"_alpha": 0.5}), (lambda: nn.CELU(2.0), {"_alpha": 2.0}), (lambda: nn.GELU(True), {"_approximate": True}),
        (lambda: nn.LeakyReLU(0.2), {"_negative_slope": 0.2}), (lambda: nn.Hardtanh(-2.0, 3.0), {"_min": -2.0, "_max": 3.0}),
        (lambda: nn.Softplus(2, 10), {"_beta": 2, "_threshold": 10}), (lambda: nn.ThresholdedReLU(), {"_threshold": 1.0, "_value": 0.0}),
        (lambda: nn.Hardshrink(0.3), {"_threshold": 0.3}), (lambda: nn.Softshrink(), {"_threshold": 0.5}), (lambda: nn.Sigmoid("s"), {"name": "s"}),
        (lambda: nn.SELU(), {"_scale": 1.0507009873554805, "_alpha": 1.6732632423543772}), (lambda: nn.PReLU(weight_attr=None), {"_weight_attr": None}),
        (lambda: nn.NLLLoss(ignore_index=3), {"_weight": None, "_ignore_index": 3, "_reduction": "mean", "_name": None}),
        (lambda: nn.PoissonNLLLoss(False), {"_log_input": False, "_full": False, "_epsilon": 1e-8, "_reduction": "mean", "_name": None}),
        (lambda: nn.HSigmoidLoss(4, 6, bias_attr=False), {"_weight_attr": None, "_bias_attr": False}),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6]), {"_weight_attr": None, "_bias_attr": None}),
        (lambda: nn.BatchNorm(4, is_test=True, in_place=True), {"_is_test": True, "_in_place": True, "_fuse_with_relu": False, "_param_attr": None}),
        (lambda: nn.BatchNorm2D(4), {"_in_place": False, "_fuse_with_relu": False}), (lambda: nn.AdaptiveAvgPool1D(2, "p"), {"name": "p"}),
        (lambda: nn.Embedding(5, 3), {"_size": [5, 3], "_is_distributed": False, "_remote_prefetch": False, "_device": None}),
        (lambda: nn.Conv2D(2, 4, 3, data_format="NHWC"), {"_channel_dim": 3, "output_padding": 0, "_op_type": "conv2d", "_device": None}),
        (lambda: nn.Conv2DTranspose(4, 4, 3, groups=4), {"_channel_dim": 1, "_op_type": "depthwise_conv2d"}),
        (lambda: nn.Conv1DTranspose(2, 4, 3, 2, output_padding=1), {"_channel_dim": 1, "output_padding": 1, "_op_type": "conv1d"}),
        (lambda: nn.Conv3D(4, 4, 3, groups=4), {"_op_type": "conv3d"}), (lambda: nn.Linear(2, 3), {"_cast_to_low_precision": True}),
    ],
)  # fmt: skip
def test_attributes_that_programs_read(make, kept):
    layer = make()
    assert {name: getattr(layer, name, "none") for name in kept} == kept


def test_an_activation_reads_its_attributes():
    layer = nn.Softmax()
    layer._axis = 0
    assert layer(bireme.zeros([2, 1])).tolist() == [[0.5], [0.5]]
    assert repr(layer) == "Softmax(axis=0)"


def test_a_layer_may_keep_its_precision():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2))
    model[0]._cast_to_low_precision = model[1]._cast_to_low_precision = False
    bireme.amp.decorate(model, level="O2", dtype="bfloat16")
    assert [layer.weight.dtype.name for layer in (model[0], model[1][0], model[2])] == [
        "float32",
        "bfloat16",
        "bfloat16",
    ]
