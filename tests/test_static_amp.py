"""Mixed precision in programs: the numbers of dynamic mode, lists, guards, casts, loss scaling."""

import numpy as np
import pytest

import bireme
from bireme import nn, static
from bireme.nn import functional as F
from bireme.nn.initializer import Assign, Constant

WEIGHT = np.arange(12).reshape(4, 3).astype("float32") / 10
FEED = {"x": np.arange(8).reshape(2, 4).astype("float32")}


@pytest.fixture(autouse=True)
def dynamic():
    yield
    bireme.disable_static()


@pytest.fixture
def built():
    """Static mode, with a program and a startup program of its own."""
    main, startup = static.Program(), static.Program()
    bireme.enable_static()
    with static.scope_guard(static.Scope()), static.program_guard(main, startup):
        yield main, startup


def loss_of(layer, x):
    y = layer(x)
    return y, bireme.mean(F.softmax(y) * y)


def in_dynamic_mode(level, dtype, scale):
    bireme.disable_static()
    layer = nn.Linear(4, 3, weight_attr=Assign(WEIGHT))
    optimizer = bireme.optimizer.SGD(0.1, layer.parameters(), multi_precision=level == "O2")
    if level == "O2":
        layer, optimizer = bireme.amp.decorate(layer, optimizer, level="O2", dtype=dtype)
    scaler, losses = bireme.amp.GradScaler(scale is not None, scale or 1.0), []
    for _ in range(3):
        with bireme.amp.auto_cast(level=level, dtype=dtype, use_promote=level != "O2"):
            _, loss = loss_of(layer, bireme.to_tensor(FEED["x"]))
        scaler.scale(loss.astype("float32")).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize(("dtype", "scale"), [("float16", 128.0), ("float16", 2.0**16), ("bfloat16", None)])
def test_numbers_of_dynamic_mode(built, level, dtype, scale):
    x = static.data("x", [None, 4])
    y, loss = loss_of(nn.Linear(4, 3, weight_attr=Assign(WEIGHT)), x)
    optimizer = static.amp.decorate(
        bireme.optimizer.SGD(0.1), level=level, dtype=dtype, init_loss_scaling=scale or 2.0**16
    )
    optimizer.minimize(loss)
    exe = static.Executor()
    exe.run(built[1])
    optimizer.amp_init(bireme.CPUPlace())
    found = [exe.run(feed=FEED, fetch_list=[loss])[0].item() for _ in range(3)]
    assert found == in_dynamic_mode(level, dtype, scale)
    # a scale of 65536 overflows in float16: the first step is skipped, and the scale is halved until it fits
    assert (found[0] == found[1]) == (scale == 2.0**16)
    assert exe.run(built[0], fetch_list=[optimizer.get_loss_scaling()], feed=FEED)[0].item() <= (scale or 1.0)
    if level == "O2":
        assert y.dtype.name == dtype
        assert {p.dtype.name for p in map(static.global_scope().tensor, built[0].all_parameters())} == {dtype}


def test_only_what_is_guarded(built):
    x = static.data("x", [2, 2])
    with static.amp.fp16_guard():
        inside = bireme.matmul(x, x)
    outside = bireme.matmul(x, x)
    test = built[0].clone(for_test=True)
    static.amp.cast_model_to_fp16(built[0])
    static.amp.bf16.cast_model_to_bf16(test)
    exe, feed = static.Executor(), {"x": np.eye(2, dtype="float32")}
    kinds = [[v.dtype.name for v in exe.run(p, feed=feed, fetch_list=[inside, outside])] for p in (built[0], test)]
    assert kinds == [["float16", "float32"], ["bfloat16", "float32"]]


def test_lists(built):
    lists = static.amp.CustomOpLists(
        custom_white_list=["exp"], custom_black_list=["matmul"], custom_black_varnames=["x"]
    )
    assert "exp" in lists.white_list
    assert "matmul" in lists.black_list
    assert "exp" not in lists.gray_list
    x, z = static.data("x", [2, 2]), static.data("z", [2, 2])
    found = [bireme.exp(z), bireme.matmul(z, z), bireme.exp(x)]
    static.amp.fp16_utils.set_precision(built[0], lists, "O1", False)
    feed = {"x": np.eye(2, dtype="float32"), "z": np.eye(2, dtype="float32")}
    kinds = [v.dtype.name for v in static.Executor().run(feed=feed, fetch_list=found)]
    assert kinds == ["float16", "float32", "float32"]
    with pytest.raises(ValueError, match="operators that the other list does not name, got exp"):
        static.amp.AutoMixedPrecisionLists(["exp"], ["exp"])
    with pytest.raises(ValueError, match=r"decorate\(level\): expected 'O0', 'OD', 'O1' or 'O2', got 'O3'"):
        static.amp.decorate(bireme.optimizer.SGD(0.1), level="O3")


def test_branches_compute_in_half_precision_too(built):
    x = static.data("x", [2, 2])
    out = static.nn.cond(x.sum() > 1, lambda: bireme.matmul(x, x), lambda: x)
    static.amp.bf16.rewrite_program_bf16(built[0])
    exe = static.Executor()
    kinds = [exe.run(feed={"x": v}, fetch_list=[out])[0].dtype.name for v in (np.ones([2, 2]), np.zeros([2, 2]))]
    assert kinds == ["bfloat16", "float32"]


def test_a_step_that_overflows_changes_nothing(built):
    x = static.data("x", [None, 1])
    loss = static.nn.fc(x, 1, weight_attr=bireme.ParamAttr("w_over", Constant(1.0)), bias_attr=False).mean()
    optimizer = static.amp.decorate(bireme.optimizer.Adam(0.5), init_loss_scaling=8.0, decr_every_n_nan_or_inf=2)
    optimizer.minimize(loss)
    exe = static.Executor()
    exe.run(built[1])
    weight = static.global_scope().find_var("w_over").get_tensor()
    for value, scale in ((np.inf, 8.0), (np.inf, 4.0)):
        found = exe.run(feed={"x": [[value]]}, fetch_list=[optimizer.get_loss_scaling()])[0]
        assert np.asarray(weight).tolist() == [[1.0]]
        assert found.item() == scale
    exe.run(feed={"x": [[1.0]]})
    assert np.asarray(weight).tolist() == [[0.5]]
    assert "w_over_moment1_0" in built[0].state_dict("opt")


def test_counts_of_operations(built, capsys):
    x = static.data("x", [2, 2])
    bireme.exp(bireme.matmul(x, x))
    static.amp.bf16.rewrite_program_bf16(built[0])
    static.amp.debugging.collect_operator_stats(built[0])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["exp", "|", "0", "|", "0", "|", "1", "|", "0"]
    assert lines[3].split() == ["matmul", "|", "0", "|", "1", "|", "0", "|", "0"]
    assert {len(line) for line in lines if line} == {122}
