"""to_static: functions with control flow over tensors are captured whole, saved, loaded, and compute the same."""

import warnings

import numpy as np
import pytest

import bireme
from bireme import jit, nn
from bireme.core.program.program import leaves
from bireme.static import InputSpec
from tests import captured_functions, captured_models

CASES = captured_functions.CASES + captured_models.CASES


@pytest.fixture(autouse=True)
def dynamic():
    yield
    bireme.disable_static()
    jit.enable_to_static(True)


def given(args):
    return [bireme.to_tensor(x) if isinstance(x, np.ndarray) else x for x in args]


def values(made):
    return [x.numpy() if isinstance(x, bireme.Tensor) else np.asarray(x) for x in leaves(made)]


def assert_same(got, want):
    got, want = values(got), values(want)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-6)


def specs(args, sizes):
    return [
        InputSpec([None, *x.shape[1:]] if sizes else x.shape, str(x.dtype)) if isinstance(x, np.ndarray) else x
        for x in args
    ]


@pytest.mark.parametrize(("name", "fn", "calls", "sizes"), CASES, ids=[c[0] for c in CASES])
def test_captured_whole(name, fn, calls, sizes, tmp_path, capsys):
    """The graph gives what dynamic code gives, and so does the saved and loaded one."""
    wanted = [fn(*given(args)) for args in calls]
    made = jit.to_static(fn, full_graph=True, input_spec=specs(calls[0], sizes))
    assert_same(made(*given(calls[0])), wanted[0])
    jit.save(made, str(tmp_path / "f"))
    loaded = jit.load(str(tmp_path / "f"))
    target = made.forward if isinstance(made, nn.Layer) else made
    for args, want in zip(calls, wanted, strict=True):
        tensors = [x for x in given(args) if isinstance(x, bireme.Tensor)]
        assert_same(target.concrete_program.model.run(*tensors), want)
        assert_same(loaded(*tensors), want)
    if isinstance(made, nn.Layer):
        target.rollback()


@pytest.mark.parametrize(("name", "fn", "calls", "said"), captured_models.REFUSED, ids=lambda x: str(x)[:30])
def test_what_no_graph_can_have_is_told(name, fn, calls, said):
    with pytest.raises((RuntimeError, ValueError), match=said):
        jit.to_static(fn, full_graph=True)(*given(calls[0]))
    made = jit.to_static(fn)
    with pytest.warns(UserWarning, match=f"{name} is called as dynamic code"):
        first = made(*given(calls[0]))
    assert_same([first, *[made(*given(args)) for args in calls[1:]]], [fn(*given(args)) for args in calls])


def test_a_generator_is_told_of():
    with pytest.raises(RuntimeError, match="a condition is not known") as told:
        jit.to_static(captured_models.generator_with_branches, full_graph=True)(*given([captured_models.UP]))
    assert told.value.__notes__ == ["  positive_only is a generator, so its statements are not captured"]


def test_what_one_branch_gives_is_not_there_after_the_other(tmp_path):
    def doubled(x):
        if x.max() > 3.5:
            y = x * 2
        return y

    def added(x):
        if x.max() > 3.5:
            y = x * 2
        return nn.functional.linear(x, bireme.ones([3, 3]), y)  # where None would be no bias

    for fn in (doubled, added):
        made = jit.to_static(fn, full_graph=True, input_spec=[InputSpec([3])])
        jit.save(made, str(tmp_path / "f"))
        for run in (made.concrete_program.model.run, jit.load(str(tmp_path / "f"))):
            assert_same(run(*given([captured_models.MIX])), fn(*given([captured_models.MIX])))
            with pytest.raises(RuntimeError, match="is used but has no value: the branch that was taken gives it none"):
                run(*given([captured_models.UP]))


class Refused(Exception):
    pass


def test_checks_raise_when_the_program_runs(tmp_path):
    def checked(x):
        if x.shape[0] != 2:
            raise ValueError(f"expected 2 rows, got {x.shape}")
        if x.sum() > 10:
            raise Refused("too large")
        return x * 2

    made = jit.to_static(checked, full_graph=True, input_spec=[InputSpec([None, 1])])
    jit.save(made, str(tmp_path / "f"))
    loaded = jit.load(str(tmp_path / "f"))
    assert loaded(bireme.ones([2, 1])).tolist() == [[2.0], [2.0]]
    with pytest.raises(ValueError, match=r"expected 2 rows, got \[-1, 1\]"):
        loaded(bireme.ones([3, 1]))
    with pytest.raises(RuntimeError, match="too large"):
        loaded(bireme.full([2, 1], 9.0))
    with pytest.raises(Refused, match="too large"):
        checked(bireme.full([2, 1], 9.0))


def test_hundred_functions():
    assert len(CASES) >= 100


# ---------------------------------------------------------------- calls


def branching(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def test_calls_are_dynamic_code():
    """What a call computes, and its gradient, is what the function computes."""
    fn = jit.to_static(branching)
    x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
    fn(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert fn.__name__ == "branching" and fn.dygraph_function is branching


def test_closures_and_attributes_may_change():
    """A call sees closures, globals and attributes as they are now, and so does what is saved."""
    scale = 2.0

    class Net(nn.Layer):
        factor = 3.0

        def forward(self, x):
            return x * scale * self.factor

    net = jit.to_static(Net(), input_spec=[InputSpec([2])])
    x = bireme.ones([2])
    assert net(x).tolist() == [6.0, 6.0]
    net.factor = 5.0
    assert net(x).tolist() == [10.0, 10.0]


def test_saved_graph_sees_the_present(tmp_path):
    class Net(nn.Layer):
        factor = 3.0

        def forward(self, x):
            return x * self.factor

    net = Net()
    for factor in (2.0, 7.0):
        net.factor = factor
        jit.save(net, str(tmp_path / "net"), [InputSpec([2])])
        assert jit.load(str(tmp_path / "net"))(bireme.ones([2])).tolist() == [factor] * 2


def unreadable(x):
    if float(x.numpy().sum()) > 0:
        return x
    return -x


def test_falls_back_with_one_warning():
    fn = jit.to_static(unreadable)
    with pytest.warns(UserWarning, match="called as dynamic code.*\n.*test_to_static.py") as told:
        assert fn(bireme.to_tensor([-1.0])).tolist() == [1.0]
        assert fn(bireme.to_tensor([-2.0])).tolist() == [2.0]
    assert len(told) == 1


def test_full_graph_raises():
    fn = jit.to_static(unreadable, full_graph=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not known while a program is built"):
            fn(bireme.to_tensor([-1.0]))


def mixed_up(x):
    y = None
    if x.sum() > 0:
        y = x
    if y is not None:
        return y
    return -x


def test_never_silently_wrong():
    """A name that is None or a tensor, by a tensor, cannot be asked whether it is None."""
    fn = jit.to_static(mixed_up, full_graph=True)
    with pytest.raises(ValueError, match="branches that all give a tensor in one place, got None"):
        fn(bireme.ones([2]))


def different_types(x):
    if x.sum() > 0:
        y = x
    else:
        y = x.astype("int64")
    return y


def test_branches_that_differ_in_dtype():
    with pytest.raises(ValueError, match="branches that give alike tensors, as float32 of 1 dimensions, got int64"):
        jit.to_static(different_types, full_graph=True)(bireme.ones([2]))


def test_switched_off():
    jit.enable_to_static(False)
    fn = jit.to_static(unreadable)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fn(bireme.ones([2]))


def not_rewritten(x):
    return x * 2 if isinstance(x, bireme.Tensor) and x.shape[0] == -1 else x


def calls_not_rewritten(x):
    return jit.not_to_static(not_rewritten)(x)


def test_not_to_static():
    assert "__bireme_statements" in jit.to_static(branching).code
    fn = jit.to_static(calls_not_rewritten, input_spec=[InputSpec([None])])
    assert [o.type for o in fn.main_program.ops] == ["multiply"]


def test_code_is_shown(capsys):
    def fn(x):
        return x if x.sum() > 0 else -x

    jit.set_code_level(1)
    try:
        jit.to_static(fn)(bireme.ones([2]))
    finally:
        jit.set_code_level(0)
    assert "if_expression" in capsys.readouterr().out


def test_in_static_mode():
    """A function that was given to to_static brings its control flow into the program that is being built."""
    fn = jit.to_static(branching)
    bireme.enable_static()
    program = bireme.static.Program()
    with bireme.static.program_guard(program):
        y = fn(bireme.static.data("x", [2]))
    run = bireme.static.Executor().run
    assert run(program, {"x": np.ones(2, "float32")}, [y])[0].tolist() == [2.0, 2.0]
    assert run(program, {"x": -np.ones(2, "float32")}, [y])[0].tolist() == [-2.0, -2.0]


def test_concrete_program():
    fn = jit.to_static(branching, input_spec=[InputSpec([None, 3], "float32", "image")])
    made = fn.concrete_program
    assert [x.name for x in made.inputs] == ["image"] and made.inputs[0].shape == [-1, 3]
    assert "image" in str(made.main_program) and "true():" in str(made.main_program)
    with pytest.raises(ValueError, match="branching was not called yet"):
        _ = jit.to_static(branching).main_program


def test_too_many_specs():
    with pytest.raises(ValueError, match=r"to_static\(input_spec\): expected at most 1"):
        _ = jit.to_static(branching, input_spec=[InputSpec([2]), InputSpec([2])]).main_program


def test_errors_at_the_users_line():
    def wrong(x):
        if x.sum() > 0:
            x = x.reshape([5])
        return x

    with pytest.raises(ValueError, match="reshape") as told:
        jit.to_static(wrong, full_graph=True)(bireme.ones([2]))
    assert f"test_to_static.py:{wrong.__code__.co_firstlineno + 2}" in str(told.value)


# ---------------------------------------------------------------- layers


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1D(8), nn.ReLU(), nn.Dropout(0.5))
        self.out = nn.Linear(8, 2)
        self.register_buffer("seen", bireme.zeros([1]))

    def forward(self, x):
        self.seen = self.seen + 1
        h = self.inner(x)
        for _ in range(3):
            if h.mean() > 0.2:
                h = h * 0.5
        return self.out(h)

    @jit.to_static(input_spec=[InputSpec([None, 4])])
    def features(self, x):
        return self.inner(x).sum(1)


def test_layer_trains_as_ever():
    """Captured, a layer keeps its buffers and attributes, and learns what it learns without to_static."""
    losses = []
    for wrap in (lambda net: net, jit.to_static):
        bireme.seed(3)
        net = wrap(Net())
        optimizer = bireme.optimizer.Adam(0.05, parameters=net.parameters())
        x = bireme.to_tensor(np.random.default_rng(0).standard_normal((16, 4)).astype("float32"))
        losses.append([])
        for _ in range(5):
            loss = (net(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses[-1].append(loss.item())
        assert net.seen.tolist() == [5.0] and type(net.seen) is bireme.Tensor
    assert losses[0] == losses[1]


def test_graph_has_gradients():
    """Gradients flow through branches, loops and lists of a captured graph."""

    def fn(x, w):
        out = []
        for row in x:
            if row.sum() > 0:
                out.append((row * w).tanh())
            else:
                out.append(row * w * 2)
        return bireme.stack(out).sum()

    made = jit.to_static(fn, input_spec=[InputSpec([None, 2]), InputSpec([2])])
    data = np.array([[1.0, 2.0], [-1.0, -2.0], [0.5, 0.1]], "float32")
    grads = []
    for call in (fn, made.concrete_program.model.run):
        x = bireme.to_tensor(data, stop_gradient=False)
        w = bireme.to_tensor([0.5, -0.3], stop_gradient=False)
        call(x, w).backward()
        grads.append((x.grad.numpy(), w.grad.numpy()))
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:the saved graph leaves the buffers")
def test_saved_layer(tmp_path):
    """Dropout and normalization are saved as in evaluation, other functions with them; what is loaded can be trained."""
    net = Net()
    net(bireme.randn([8, 4]))
    seen = net.seen.tolist()
    jit.save(net, str(tmp_path / "deep" / "net"), [InputSpec([None, 4], "float32", "x")])
    assert net.seen.tolist() == seen and net.training
    net.eval()
    loaded = jit.load(str(tmp_path / "deep" / "net"))
    for n in (1, 7):
        x = bireme.randn([n, 4])
        np.testing.assert_array_equal(loaded(x).numpy(), net(x).numpy())
        np.testing.assert_array_equal(loaded.features(x).numpy(), net.features(x).numpy())
    assert {p.name for p in loaded.parameters()} >= {p.name for p in net.parameters()}
    loaded.train()
    before = [p.numpy() for p in loaded.parameters() if not p.stop_gradient]
    optimizer = bireme.optimizer.SGD(0.1, parameters=loaded.parameters())
    (loaded(bireme.randn([8, 4])) ** 2).mean().backward()
    optimizer.step()
    after = [p.numpy() for p in loaded.parameters() if not p.stop_gradient]
    assert len(after) == 6 and not any(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    jit.save(loaded, str(tmp_path / "again"))
    x = bireme.randn([3, 4])
    loaded.eval()
    np.testing.assert_array_equal(jit.load(str(tmp_path / "again"))(x).numpy(), loaded(x).numpy())


def test_mixed_precision_is_saved(tmp_path):
    def fn(x, w):
        with bireme.amp.auto_cast(dtype="bfloat16"):
            y = bireme.matmul(x, w)
        return y.astype("float32")

    specs = [InputSpec([2, 3]), InputSpec([3, 2])]
    jit.save(jit.to_static(fn, input_spec=specs), str(tmp_path / "f"))
    x, w = bireme.randn([2, 3]), bireme.randn([3, 2])
    np.testing.assert_array_equal(jit.load(str(tmp_path / "f"))(x, w).numpy(), fn(x, w).numpy())


def test_nested_inputs_and_outputs(tmp_path):
    def fn(pair, more):
        return {"sum": pair[0] + pair[1], "all": (more["a"] * 2, pair)}

    spec = [[InputSpec([2]), InputSpec([2])], {"a": InputSpec([2])}]
    jit.save(fn, str(tmp_path / "f"), spec)
    one, two = bireme.ones([2]), bireme.full([2], 2.0)
    made = jit.load(str(tmp_path / "f"))([one, two], {"a": one})
    assert made["sum"].tolist() == [3.0, 3.0] and made["all"][0].tolist() == [2.0, 2.0]
    assert made["all"][1][1].tolist() == [2.0, 2.0]


def test_save_needs_shapes(tmp_path):
    with pytest.raises(ValueError, match=r"save\(input_spec\)"):
        jit.save(Net(), str(tmp_path / "net"))
    with pytest.raises(FileNotFoundError, match=r"load\(path\): expected a path"):
        jit.load(str(tmp_path / "nothing"))


def test_two_inputs_are_missing(tmp_path):
    jit.save(branching, str(tmp_path / "f"), [InputSpec([2])])
    loaded = jit.load(str(tmp_path / "f"))
    with pytest.raises(ValueError, match=r"expected 1 \(x\), got 2"):
        loaded(bireme.ones([2]), bireme.ones([2]))


def test_saved_for_paddle(tmp_path):
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    jit.save(lambda x: branching(net(x)), str(tmp_path / "f"), [InputSpec([None, 2])], format="paddle")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.json", "f.pdiparams"]
    loaded = jit.load(str(tmp_path / "f"))
    for x in (bireme.ones([3, 2]), -bireme.ones([1, 2])):
        np.testing.assert_allclose(loaded(x).numpy(), branching(net(x)).numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match=r"save\(format\): expected 'bireme' or 'paddle', got 'torch'"):
        jit.save(branching, str(tmp_path / "f"), [InputSpec([2])], format="torch")
