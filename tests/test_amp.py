"""Mixed precision: what is cast, what is kept, and a scaler that reads nothing."""

import contextlib
import copy
import threading

import numpy as np
import pytest

import bireme
from bireme import amp, ops
from bireme.core.base import registry
from bireme.core.base.registry import OPS
from bireme.core.declare.public import PUBLIC

F = bireme.nn.functional


def ones(*shape, dtype="float32"):
    return bireme.ones(list(shape), dtype=dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_are_cast_and_sums_are_not(dtype):
    x = ones(2, 3)
    for _ in range(3):  # calls that are remembered are cast as well
        with amp.auto_cast(dtype=dtype):
            low = bireme.matmul(x, ones(3, 2))
            assert low.dtype.name == dtype
            assert F.linear(x, ones(3, 2), ones(2)).dtype.name in (dtype, "float32")
            assert (x @ ones(3, 2)).dtype.name == dtype
            assert F.conv2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2)).dtype.name == dtype
            for fn in (F.softmax, bireme.exp, bireme.sum, bireme.mean, F.log_softmax):
                assert fn(low).dtype.name == "float32", fn.__name__
            assert F.relu(low).dtype.name == dtype  # as it is given
            assert (low + x[:, :1]).dtype.name == "float32"
        assert bireme.matmul(x, ones(3, 2)).dtype.name == "float32"
        assert F.softmax(low).dtype.name == dtype


def test_lists_move_operators_from_one_side_to_the_other():
    x = ones(2, 2)
    with amp.auto_cast(dtype="bfloat16", custom_black_list={"matmul_v2"}, custom_white_list=["exp"]):
        assert bireme.matmul(x, x).dtype.name == "float32"
        assert bireme.exp(x).dtype.name == "bfloat16"
    with amp.auto_cast(dtype="bfloat16", level="OD"):
        assert bireme.matmul(x, x).dtype.name == "bfloat16"
        assert F.relu(ones(2, dtype="bfloat16")).dtype.name == "float32"
    for off in (amp.auto_cast(enable=False), amp.auto_cast(level="O0")):
        with off:
            assert not amp.is_autocast_enabled()
            assert bireme.matmul(x, x).dtype.name == "float32"


def test_float64_and_integers_are_left_alone():
    with amp.auto_cast(dtype="bfloat16"):
        assert bireme.matmul(ones(2, 2, dtype="float64"), ones(2, 2, dtype="float64")).dtype.name == "float64"
        assert bireme.sum(ones(2, dtype="int64")).dtype.name == "int64"


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("call", [
    lambda a, b, i: bireme.concat([a, b]), lambda a, b, i: bireme.stack([b, a]), lambda a, b, i: bireme.scatter_nd_add(a, i, b[:2]),
    lambda a, b, i: bireme.index_add(a, i[:, 0], 0, b[:2]), lambda a, b, i: bireme.multiplex([a, b], i), lambda a, b, i: bireme.heaviside(b, a),
    lambda a, b, i: bireme.tensordot(a, b, [[1], [1]]).astype("float32"), lambda a, b, i: bireme.put_along_axis(a, i, b[:2, :1], 1),
    lambda a, b, i: bireme.addmm(a[:, :2], b, a[:, :2].T @ a[:, :2]), lambda a, b, i: bireme.masked_scatter(a, a > 0, b),
    lambda a, b, i: bireme.index_put(a, (i[:, 0],), b[:2]), lambda a, b, i: bireme.broadcast_tensors([a, b])[1], lambda a, b, i: bireme.add_n([a, b]),
    lambda a, b, i: bireme.meshgrid(a[0], b[0])[1],
])  # fmt: skip
def test_float32_and_half_precision_mix(call, level):
    """What mixed precision has made half meets what it has not: computed in float32, outside it is refused as ever."""
    a, b = bireme.to_tensor([[1.0, -2.0], [3.0, 4.0]]), bireme.to_tensor([[0.5, 1.0], [2.0, 3.0]], dtype="bfloat16")
    i = bireme.to_tensor([[0], [1]])
    with bireme.amp.auto_cast(dtype="bfloat16", level=level):
        mixed = call(a, b, i)
    assert mixed.dtype == bireme.float32
    np.testing.assert_allclose(mixed.numpy(), call(a, b.astype("float32"), i).numpy(), rtol=2e-2)


def test_what_has_no_half_form_is_computed_in_float32():
    x = bireme.to_tensor([[2.0, 0.0], [0.0, 4.0]], dtype="bfloat16")
    with bireme.amp.auto_cast(dtype="bfloat16"):
        assert bireme.inverse(x).tolist() == [[0.5, 0.0], [0.0, 0.25]]
        assert bireme.fft.rfft(x).tolist() == [[2.0, 2.0], [4.0, -4.0]]
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        bireme.inverse(x)


def test_nesting_threads_and_decorating():
    seen = []

    @amp.auto_cast(dtype="bfloat16")
    def product():
        return bireme.matmul(ones(2, 2), ones(2, 2)).dtype.name

    with amp.auto_cast(dtype="float16"):
        assert amp.get_autocast_dtype() == "float16"
        assert product() == "bfloat16"
        thread = threading.Thread(
            target=lambda: seen.append((amp.is_autocast_enabled(), bireme.matmul(ones(2, 2), ones(2, 2)).dtype.name))
        )
        thread.start()
        thread.join()
        with amp.auto_cast(enable=False):
            assert bireme.matmul(ones(2, 2), ones(2, 2)).dtype.name == "float32"
        assert bireme.is_autocast_enabled()
    assert seen == [(False, "float32")]
    with pytest.raises(ZeroDivisionError), amp.auto_cast():
        raise ZeroDivisionError
    assert not amp.is_autocast_enabled()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": "O3"}, "auto_cast(level): expected 'O0', 'OD', 'O1' or 'O2', got 'O3'"),
        ({"dtype": "float64"}, "auto_cast(dtype): expected 'float16' or 'bfloat16', got float64"),
        ({"custom_white_list": "exp"}, "auto_cast(custom_white_list): expected a list of operators' names"),
        (
            {"custom_white_list": ["exp"], "custom_black_list": ["exp"]},
            "auto_cast(custom_white_list): expected operators that",
        ),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises((ValueError, TypeError)) as e:
        amp.auto_cast(**arguments)
    assert message in str(e.value)


def test_gradients_come_back_in_the_parameters_type():
    w = bireme.to_tensor(np.ones((3, 2), "float32"), stop_gradient=False)
    with amp.auto_cast(dtype="bfloat16"):
        bireme.matmul(ones(4, 3), w).sum().backward()
    assert w.grad.dtype.name == "float32"
    np.testing.assert_array_equal(w.grad.numpy(), np.full((3, 2), 4.0))


def test_decorate_keeps_norms_and_adds_master_weights():
    net = bireme.nn.Sequential(bireme.nn.Linear(4, 4), bireme.nn.LayerNorm(4), bireme.nn.Linear(4, 2))
    opt = bireme.optimizer.AdamW(1e-2, parameters=net.parameters())
    net, opt = amp.amp_decorate(net, opt, level="O2", dtype="bfloat16", excluded_layers=[net[2]])
    assert [p.dtype.name for p in net.parameters()] == ["bfloat16"] * 4 + ["float32"] * 2
    x, first = bireme.rand([8, 4]), None
    for _ in range(20):
        with amp.auto_cast(level="O2", dtype="bfloat16"):
            loss = (net(x) ** 2).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        first = first or loss.item()
    assert loss.item() < first
    assert {str(v.dtype) for v in opt.state_dict()["master_weights"].values()} == {"bireme.float32"}
    assert all(p.dtype.name == "bfloat16" for p in net[0].parameters())
    with pytest.raises(ValueError, match=r"decorate\(level\)"):
        amp.decorate(net, level="O9")


def test_decorate_may_take_master_weights_back():
    net = bireme.nn.Linear(2, 2)
    opt = bireme.optimizer.Momentum(0.1, parameters=net.parameters(), multi_precision=True)
    net, opt = amp.decorate(net, opt, level="O2", dtype="bfloat16", master_weight=False)
    net(bireme.ones([1, 2], "bfloat16")).sum().backward()
    opt.step()
    assert "master_weights" not in opt.state_dict()


def test_gradients_may_be_summed_in_float32():
    net = bireme.nn.Linear(1, 1, weight_attr=bireme.nn.initializer.Constant(1.0), bias_attr=False)
    opt = bireme.optimizer.SGD(1.0, parameters=net.parameters())
    net, opt = amp.decorate(net, opt, level="O2", dtype="bfloat16", master_grad=True)
    for x in (1.0, 2.0**-12):
        net(bireme.to_tensor([[x]], dtype="bfloat16")).backward()
    assert net.weight.grad.dtype.name == "float32" and net.weight.grad.item() == 1 + 2.0**-12
    opt.step()
    opt.clear_grad()
    assert net.weight.dtype.name == "bfloat16" and net.weight.item() == -(2.0**-12)


def test_the_second_level_without_promotion():
    net, seen = bireme.nn.Linear(4, 4), []
    for promotes in (True, False):
        with amp.auto_cast(level="O2", dtype="bfloat16", use_promote=promotes):
            x = ones(2, 4)
            seen += [net(x).dtype.name, bireme.nn.functional.relu(x).dtype.name, bireme.exp(x).dtype.name]
    assert seen == ["float32", "float32", "float32", "bfloat16", "bfloat16", "bfloat16"]


def test_which_layers_stay_wide():
    for dtype, wide in (("bfloat16", {"BatchNorm2D"}), ("float16", {"BatchNorm2D", "LayerNorm", "InstanceNorm2D"})):
        layers = [
            bireme.nn.Linear(2, 2),
            bireme.nn.LayerNorm(2),
            bireme.nn.BatchNorm2D(2),
            bireme.nn.InstanceNorm2D(2),
            bireme.nn.GroupNorm(1, 2),
        ]
        model = amp.decorate(bireme.nn.LayerList(layers), level="O2", dtype=dtype)
        assert {type(layer).__name__ for layer in model if layer.parameters()[0].dtype == bireme.float32} == wide


def test_what_the_levels_keep_in_float32():
    x, table, at = ones(2, 3).astype("bfloat16"), ones(4, 3).astype("bfloat16"), bireme.to_tensor([0, 1])
    found = {}
    for level in ("O1", "O2"):
        with amp.auto_cast(level=level, dtype="bfloat16"):
            outs = (
                F.softmax(x),
                x.mean(),
                F.layer_norm(x, [3]),
                F.cross_entropy(x, at),
                F.embedding(at, table),
            )
        found[level] = [t.dtype.name for t in outs]
    assert found == {"O1": ["float32"] * 5, "O2": ["bfloat16"] * 4 + ["float32"]}


@pytest.mark.parametrize("promotes", [True, False])
def test_what_is_changed_in_place_keeps_its_type(promotes):
    x, y = ones(2), ones(2).astype("bfloat16")
    with amp.auto_cast(level="O2", dtype="bfloat16", use_promote=promotes):
        assert x.add_(ones(2)) is x and y.exp_() is y
        x[0] = 5.0
    assert (x.dtype.name, x.tolist(), y.dtype.name) == ("float32", [5.0, 2.0], "bfloat16")


# ---------------------------------------------------------------- scaling


def trained(steps, scaler, spoil=()):
    bireme.seed(3)
    net = bireme.nn.Linear(3, 2)
    opt = bireme.optimizer.Adam(0.1, parameters=net.parameters())
    x, scales, weights = bireme.ones([4, 3]), [], []
    for i in range(steps):
        loss = (net(x) ** 2).mean() * (float("inf") if i in spoil else 1.0)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.clear_grad()
        scales.append(scaler.state_dict().get("scale"))
        weights.append(net.weight.numpy())
    return net, opt, scales, weights


def test_the_scale_grows_and_falls_and_bad_steps_do_not_count():
    scaler = amp.GradScaler(init_loss_scaling=8.0, incr_every_n_steps=3)
    _, opt, scales, weights = trained(8, scaler, spoil=(4,))
    assert [s.item() for s in scales] == [8, 8, 16, 16, 8, 8, 8, 16]
    np.testing.assert_array_equal(weights[4], weights[3])
    assert not np.array_equal(weights[5], weights[4])
    assert np.isfinite(weights[-1]).all()
    state = opt.state_dict()
    assert all(np.isfinite(v.numpy()).all() for v in state.values() if isinstance(v, bireme.Tensor))


def test_scaling_changes_nothing_else():
    plain = trained(5, amp.GradScaler(enable=False))[3][-1]
    scaled = trained(5, amp.GradScaler(init_loss_scaling=1024.0))[3][-1]
    np.testing.assert_allclose(scaled, plain, rtol=1e-5)


def test_a_step_with_a_scaler_reads_nothing():
    scaler = amp.GradScaler(init_loss_scaling=8.0)
    net = bireme.nn.Linear(3, 2)
    opt = bireme.optimizer.Adam(0.1, parameters=net.parameters())
    x = bireme.ones([4, 3])

    def step():
        loss = (net(x) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        scaler.step(opt)
        scaler.update()
        opt.clear_grad()

    for _ in range(4):
        step()
    bireme.debug.flush()
    bireme.debug.reset_stats()
    with bireme.debug.no_recompile():
        for _ in range(5):
            step()
        bireme.debug.flush()
    assert bireme.debug.stats()["flushes"] <= 11, (
        "a step is cut in two at most: at its end, and where the scale moves on"
    )


@pytest.mark.parametrize(("dtype", "adapts"), [("float16", True), ("bfloat16", True), ("bfloat16", False)])
def test_no_scaling_where_bfloat16_needs_none(dtype, adapts):
    net = bireme.nn.Linear(3, 2)
    opt = bireme.optimizer.SGD(0.1, parameters=net.parameters())
    scaler = amp.GradScaler(init_loss_scaling=8.0, use_dynamic_loss_scaling=adapts)
    ends = dtype == "bfloat16" and adapts
    with amp.auto_cast(dtype=dtype):
        loss = net(bireme.ones([1, 3])).mean()
    with pytest.warns(UserWarning, match="bfloat16") if ends else contextlib.nullcontext():
        scaled = scaler.scale(loss)
    assert (scaled.item() == loss.item()) is ends and scaler.is_enable() is not ends
    assert scaler.is_use_dynamic_loss_scaling() is (adapts and not ends) and scaler.get_init_loss_scaling() == (
        1.0 if ends else 8.0
    )
    scaled.backward()
    scaler.minimize(opt, scaled)
    assert amp.GradScaler(init_loss_scaling=8.0).scale(bireme.ones([])).item() == 8.0, (
        "what was made later is not concerned"
    )


def test_unscale_once_and_state_round_trip():
    scaler = amp.GradScaler(init_loss_scaling=4.0, incr_every_n_steps=2)
    net, opt, _, _ = trained(3, scaler)
    other = amp.GradScaler()
    other.load_state_dict(copy.deepcopy(scaler.state_dict()))
    assert str(other.state_dict()) == str(scaler.state_dict())
    scaler.scale((net(bireme.ones([1, 3]))).sum()).backward()
    scaler.unscale_(opt)
    np.testing.assert_allclose(net.bias.grad.numpy(), np.ones(2))
    with pytest.raises(RuntimeError, match="unscale_"):
        scaler.unscale_(opt)
    scaler.step(opt)
    with pytest.raises(RuntimeError, match="second step"):
        scaler.step(opt)
    with pytest.raises(RuntimeError, match="load_state_dict"):
        scaler.load_state_dict({})


@pytest.mark.parametrize(
    "arguments", [{"incr_ratio": 1.0}, {"decr_ratio": 1.5}, {"init_loss_scaling": 0}, {"incr_every_n_steps": 0}]
)
def test_bad_settings(arguments):
    with pytest.raises(ValueError, match=rf"GradScaler\({next(iter(arguments))}\)"):
        amp.GradScaler(**arguments)


def test_operators_declare_what_they_compute_in():
    marks = {o.options["amp"] for o in OPS.values() if o.options.get("amp")}
    assert marks == {"low", "high", "wide", "one"}
    named = {kernel: name for name, o in OPS.items() for kernel in o.kernels}
    assert len(named) > 40 and registry.known_as("elementwise_div") == ["quotient"]
    assert set(registry.known_as("pow")) == {"pow", "power", "power_const"}
    assert registry.known_as("no_such_kernel") == ["no_such_kernel"]


# the lists of PaddlePaddle 3.2.2, without kernels that are not here or are made of several operators: of several processes,
# of quantization, softmin, triplet_margin_loss and the fused ones
WHITE = "conv2d einsum flash_attn matmul matmul_v2 max_pool2d_with_index mul"
BLACK = """
    acos asin atanh cosh cross_entropy cross_entropy2 cumprod cumsum dist erfinv exp expm1 frobenius_norm group_norm
    hsigmoid_loss huber_loss layer_norm log log10 log2 log_loss log_softmax margin_cross_entropy mean nll_loss pnorm pow
    reciprocal reduce_mean reduce_prod reduce_sum renorm rsqrt sigmoid_cross_entropy_with_logits sinh softmax
    softmax_with_cross_entropy softplus square tan tanh_shrink
"""
WIDE = """
    bicubic_interp_v2 bilinear_interp_v2 linear_interp_v2 lookup_table lookup_table_v2 nearest_interp_v2 scatter
    trilinear_interp_v2
"""


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_the_lists_follow_from_the_declarations(kind):
    white, black = amp.white_list()[kind], amp.black_list()[kind]
    assert set(WHITE.split()) <= white["O1"] == white["O2"] == white["OD"]
    assert set(WIDE.split()) <= black["O2"] and black["OD"] == set()
    assert set(BLACK.split()) <= black["O1"] - black["O2"]
    assert not white["O1"] & black["O1"]
    # what they name is what is done, and names nothing that users do not know
    for names, marks in ((white["O1"], {"low"}), (black["O2"], {"wide"}), (black["O1"] - black["O2"], {"high"})):
        for name in names:
            found = [OPS[own].options.get("amp") for own in registry.known_as(name)]
            assert marks & set(found), name
            assert name in PUBLIC or any(name in OPS[own].kernels for own in registry.known_as(name))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("elementwise_div", lambda x: x / x),
        ("pow", lambda x: x.pow(2.0)),
        ("elementwise_pow", lambda x: x**x),
        ("elementwise_max", lambda x: bireme.maximum(x, x)),
        ("pool2d", lambda x: F.max_pool2d(x.reshape([1, 1, 4, 4]), 2)),
        ("bilinear_interp_v2", lambda x: F.interpolate(x.reshape([1, 1, 4, 4]), scale_factor=2, mode="bilinear")),
        ("hard_swish", F.hardswish),
        ("clip", lambda x: x.clip(0.0, 1.0)),
        ("reduce_max", lambda x: x.max()),
        ("batch_norm", lambda x: bireme.nn.BatchNorm1D(4)(x)),
    ],
)
def test_custom_lists_take_paddles_names(name, call):
    with amp.auto_cast(dtype="bfloat16", custom_white_list=[name]):
        low = call(ones(4, 4))
    with amp.auto_cast(dtype="bfloat16", custom_black_list=[name]):
        high = call(ones(4, 4).astype("bfloat16"))
    assert (low.dtype.name, high.dtype.name) == ("bfloat16", "float32")


@pytest.mark.parametrize("settings", [{"level": "O2", "use_promote": False}, {"level": "OD"}])
def test_conversions_are_left_alone(settings):
    x = bireme.to_tensor([1.0 + 2.0**-20])
    half = x.astype("bfloat16")
    with amp.auto_cast(dtype="bfloat16", **settings):
        (wide,) = ops.cast_all([x], "float64")
        assert wide.item() == x.astype("float64").item() == 1.0 + 2.0**-20
        assert [t.dtype.name for t in ops.cast_all([half], "bfloat16")] == ["bfloat16"]


def test_a_model_may_be_saved_in_another_type():
    model = bireme.amp.decorate(bireme.nn.Linear(2, 2), level="O2", dtype="bfloat16", save_dtype="float32")
    assert {v.dtype.name for v in model.state_dict().values()} == {"float32"}
    assert model.weight.dtype.name == "bfloat16"


def test_the_older_scaler_has_its_own_defaults():
    scaler = bireme.amp.AmpScaler()
    assert (scaler.get_init_loss_scaling(), scaler.get_incr_every_n_steps()) == (32768.0, 1000)
    with pytest.raises(AssertionError, match="a number greater than 1"):
        bireme.amp.AmpScaler(incr_ratio=0.5)


def test_what_is_decorated_must_be_an_optimizer():
    with pytest.raises(TypeError, match="an optimizer, or a list of them, got 3"):
        bireme.amp.decorate(bireme.nn.Linear(2, 2), optimizers=3, level="O2")


def test_support_of_no_device():
    assert bireme.amp.is_float16_supported("cpu") and bireme.amp.is_bfloat16_supported(bireme.CPUPlace())
    for ask in (bireme.amp.is_float16_supported, bireme.amp.is_bfloat16_supported):
        for device in ("xxx", 111):
            with pytest.raises(ValueError, match=r"supported\(device\): expected a device"):
                ask(device)
