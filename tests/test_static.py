"""Static mode: programs give the numbers of dynamic code, for any sizes, and run through the same engine."""

import copy
import importlib
import zlib
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn, static
from bireme.core.numpy_exec.interpreter import INTERPRETER
from bireme.core.tensor.tensor import Tensor
from tests.table import test_layer_table, test_table


@pytest.fixture(autouse=True)
def dynamic():
    yield
    bireme.disable_static()


@pytest.fixture
def built():
    """Static mode, with a program and a startup program of its own."""
    main, startup = static.Program(), static.Program()
    bireme.enable_static()
    with static.program_guard(main, startup):
        yield main, startup


def flat(x):
    if isinstance(x, (list, tuple)):
        return [z for y in x for z in flat(y)]
    return [x] if isinstance(x, Tensor) else []


def arrays_of(sample):
    return [np.asarray(a.astype("float32") if a.dtype == np.float64 else a) for a in sample.leaves()]


def inputs_of(arrays):
    """Variables for arrays, of their sizes; `tests/table/test_unknown_sizes.py` has those whose sizes are unknown."""
    return [static.data(f"x{i}", list(a.shape), str(a.dtype)) for i, a in enumerate(arrays)]


# ---------------------------------------------------------------- every operator, every layer


def in_the_sample(name):
    return zlib.crc32(name.encode()) % 4 == 0


def as_program(row, sample):
    arrays = arrays_of(sample)
    bireme.seed(3)
    args, kwargs = sample.fill([bireme.to_tensor(a) for a in arrays])
    want = [t.numpy() for t in flat(row.fn(*args, **kwargs))]
    program = static.Program()
    bireme.enable_static()
    with static.program_guard(program, static.Program()):
        args, kwargs = sample.fill(inputs_of(arrays))
        outs = flat(row.fn(*args, **kwargs))
    bireme.seed(3)
    got = static.Executor().run(program, {f"x{i}": a for i, a in enumerate(arrays)}, outs)
    bireme.disable_static()
    for out, g, w in zip(outs, got, want, strict=True):
        np.testing.assert_array_equal(g, w)
        assert g.dtype == w.dtype == np.dtype(out.dtype.np)
        shape = [int(n) for n in out.shape]
        assert len(shape) == g.ndim and all(m in (-1, n) for m, n in zip(shape, g.shape, strict=True)), shape


@pytest.mark.parametrize("part", test_table.PARTS, ids=lambda part: part.__name__.removeprefix("tests.table."))
def test_operators(part, full):
    """Each operator of the table gives the very numbers of dynamic mode."""
    for row in part.TABLE:
        if full or in_the_sample(row.name):
            for sample in row.plain(2 if full else 1):
                try:
                    as_program(row, sample)
                except AssertionError as e:
                    raise AssertionError(f"{row.name}({sample}): {e}") from e


@pytest.mark.parametrize("row", test_layer_table.LAYERS, ids=lambda row: row.name)
def test_layers(row):
    """Values, gradients of the parameters and buffers afterwards are those of dynamic mode."""
    for sample in [s for s in row.samples() if all(a.size for a in s.leaves())][:1]:
        arrays = arrays_of(sample)
        layer = row.build()
        twin = copy.deepcopy(layer)
        args, kwargs = sample.fill([bireme.to_tensor(a) for a in arrays])
        bireme.seed(11)
        outs = flat(twin(*args, **kwargs))
        want, wanted = numbers_of(outs, twin, bireme.grad)
        program = static.Program()
        bireme.enable_static()
        with static.program_guard(program, static.Program()):
            args, kwargs = sample.fill(inputs_of(arrays))
            outs = flat(layer(*args, **kwargs))
            variables, found = numbers_of(outs, layer, lambda ys, xs, **_: static.gradients(ys, xs))
        assert [g is None for g in found] == [g is None for g in wanted]
        bireme.seed(11)
        fetched = [*variables, *[g for g in found if g is not None]]
        got = static.Executor().run(program, {f"x{i}": a for i, a in enumerate(arrays)}, fetched)
        bireme.disable_static()
        for g, w in zip(got, [*want, *[g for g in wanted if g is not None]], strict=True):
            np.testing.assert_allclose(g, w.numpy(), rtol=2e-5, atol=1e-6)
        for mine, theirs in zip(layer.buffers(), twin.buffers(), strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6)


def numbers_of(outs, layer, grad):
    """Results of a layer, and the gradients of its parameters."""
    params = [p for p in layer.parameters() if not p.stop_gradient]
    smooth = [t for t in outs if t.dtype.kind == "f" and not t.stop_gradient]
    return outs, grad([(t * t).mean() for t in smooth], params, allow_unused=True) if params and smooth else []


# ---------------------------------------------------------------- training


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1D(8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 3))


def batches(*sizes):
    rng = np.random.RandomState(0)
    return [(rng.standard_normal((n, 4)).astype("float32"), rng.randint(0, 3, (n, 1))) for n in sizes]


@pytest.mark.parametrize("rule", ["SGD", "Momentum", "AdamW"])
def test_a_training_has_the_losses_of_dynamic_mode(rule, built):
    main, startup = built
    x, label = static.data("x", [None, 4]), static.data("label", [None, 1], "int64")
    net = network()
    out = net(x)
    loss = nn.functional.cross_entropy(out, label)
    test = main.clone(for_test=True)
    _, pairs = getattr(bireme.optimizer, rule)(0.1).minimize(loss)
    assert [p.name for p, _ in pairs] == [p.name for p in net.parameters() if not p.stop_gradient]
    assert [g.name for _, g in pairs] == [f"{p.name}@GRAD" for p, _ in pairs]
    exe = static.Executor()
    exe.run(startup)
    bireme.disable_static()
    twin = network()
    twin.set_state_dict(net.state_dict())
    opt = getattr(bireme.optimizer, rule)(0.1, parameters=twin.parameters())
    for x, label in batches(5, 5, 7, 5, 7):
        bireme.enable_static()
        (got,) = exe.run(main, {"x": x, "label": label}, [loss])
        bireme.disable_static()
        want = nn.functional.cross_entropy(twin(bireme.to_tensor(x)), bireme.to_tensor(label))
        want.backward()
        opt.step()
        opt.clear_grad()
        np.testing.assert_allclose(got, want.item(), rtol=1e-5)
    for mine, theirs in zip(net.state_dict().values(), twin.state_dict().values(), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6)
    twin.eval()
    (got,) = exe.run(test, {"x": x}, [out])
    np.testing.assert_allclose(got, twin(bireme.to_tensor(x)).numpy(), rtol=1e-4, atol=1e-5)


def test_the_same_sizes_are_never_compiled_again(built):
    main, startup = built
    x, label = static.data("x", [None, 4]), static.data("label", [None, 1], "int64")
    loss = nn.functional.cross_entropy(network()(x), label)
    rate = bireme.optimizer.lr.StepDecay(0.1, 1)
    bireme.optimizer.Adam(rate).minimize(loss)
    exe = static.Executor()
    exe.run(startup)
    ((x, label),) = batches(6)
    for _ in range(4):
        exe.run(main, {"x": x, "label": label}, [loss])
        rate.step()
    with bireme.debug.no_recompile():
        for _ in range(3):
            exe.run(main, {"x": x, "label": label}, [loss])
            rate.step()


class Counting:
    """The interpreter, which notes how many values each program returns."""

    name = "counting"

    def __init__(self):
        self.returned = []

    def prepare(self, graph, live, donate, device):
        self.returned.append(len(live))
        return INTERPRETER.prepare(graph, live, (), device)


def test_a_training_step_returns_what_dynamic_code_returns():
    """Nothing that the gradients were made from is kept: a compiled program would return it, and be another one."""
    ((x, label),) = batches(6)
    counting = bireme.device.register_executor(Counting())

    def trained(step, n=4):
        bireme.debug.flush()
        repeated = bireme.debug.stats()["repeated_backwards"]
        losses = [step() for _ in range(n)]
        return losses, counting.returned[-1], bireme.debug.stats()["repeated_backwards"] - repeated >= n - 1

    with bireme.debug.use_executor("counting"):
        bireme.seed(3)
        net = network()
        opt = bireme.optimizer.Adam(0.1, parameters=net.parameters())

        def step():
            loss = nn.functional.cross_entropy(net(bireme.to_tensor(x)), bireme.to_tensor(label))
            loss.backward()
            opt.step()
            opt.clear_grad()
            return loss.item()

        wanted = trained(step)
        bireme.enable_static()
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup):
            given = static.data("x", [None, 4]), static.data("label", [None, 1], "int64")
            loss = nn.functional.cross_entropy(network()(given[0]), given[1])
            bireme.optimizer.Adam(0.1).minimize(loss)
        exe = static.Executor()
        bireme.seed(3)
        exe.run(startup)
        found = trained(lambda: exe.run(main, {"x": x, "label": label}, [loss])[0].item())
    assert found == wanted


def test_a_fetch_runs_only_what_it_needs(built):
    main, _ = built
    x, y = static.data("x", [2]), static.data("y", [2])
    double = x * 2
    static.nn.cond(y.sum() > 0, lambda: y, lambda: y)
    assert static.Executor().run(main, {"x": np.ones(2, "float32")}, [double])[0].tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"run\(feed\): expected a value for the input 'x', got \[\]"):
        static.Executor().run(main, {}, [double])


def test_a_startup_program_starts_again(built):
    main, startup = built
    w = static.create_parameter([2], "float32", default_initializer=nn.initializer.Constant(3.0))
    out = w * 1.0
    exe = static.Executor()
    with pytest.raises(RuntimeError, match="has no values yet"):
        exe.run(main, {}, [out])
    exe.run(startup)
    static.global_scope().find_var(w.name).get_tensor().set(np.array([1.0, 2.0], "float32"))
    assert exe.run(main, {}, [out, w])[0].tolist() == [1, 2]
    exe.run(startup)
    assert exe.run(main, {}, [w.name])[0].tolist() == [3, 3]


def test_scopes_do_not_share_parameters(built):
    main, startup = built
    x = static.data("x", [None, 2])
    loss = (nn.Linear(2, 1)(x) ** 2).mean()
    bireme.optimizer.SGD(0.05).minimize(loss)
    exe, one, two = static.Executor(), static.Scope(), static.Scope()
    feed = {"x": np.ones((3, 2), "float32")}
    seen = []
    for scope in (one, two):
        with static.scope_guard(scope):
            bireme.seed(0)
            exe.run(startup)
            seen.append([float(exe.run(main, feed, [loss])[0]) for _ in range(3)])
    assert seen[0] == seen[1] and seen[0][2] < seen[0][0]


def test_gradients_of_gradients(built):
    main, _ = built
    x = static.data("x", [3])
    x.stop_gradient = False
    (first,) = static.gradients(x**3, x)
    (second,) = static.gradients(first, x)
    got = static.Executor().run(main, {"x": np.array([1, 2, 3], "float32")}, [first, second])
    assert [g.tolist() for g in got] == [[3, 12, 27], [6, 12, 18]]
    assert static.gradients(x * 2, static.data("other", [3])) == [None]


def test_what_no_gradient_reaches_says_so(built):
    """As in dynamic mode: a result that does not depend on its operand, and an operand that is read for its shape."""
    main, _ = built
    x, y = static.data("x", [None, 1]), static.data("y", [None, 3])
    x.stop_gradient = y.stop_gradient = False
    assert bireme.zeros_like(x).stop_gradient and not bireme.exp(x).stop_gradient
    out = bireme.expand_as(x, y)
    to_x, to_y = static.gradients(out, [x, y])
    assert to_y is None
    feed = {"x": np.ones((2, 1), "float32"), "y": np.ones((2, 3), "float32")}
    assert static.Executor().run(main, feed, [to_x])[0].tolist() == [[3], [3]]


# ---------------------------------------------------------------- variables


def test_sizes_that_are_unknown_can_be_counted_with(built):
    main, _ = built
    x = static.data("x", [-1, 6])
    n = x.shape[0]
    assert n == -1 and isinstance(n, int)
    y = bireme.reshape(x, [n * 2, 3])
    z = bireme.zeros([n + 1, y.shape[0] // 2])
    assert [y.shape, z.shape] == [[-1, 3], [-1, -1]]
    numbers = [n / 2, n**2, 2 - n * 0.25, abs(-n), divmod(n, 3)[1] + bireme.zeros([])]
    got = static.Executor().run(main, {"x": np.zeros((4, 6), "float32")}, [y, z, *numbers])
    assert [g.shape for g in got[:2]] == [(8, 3), (5, 4)]
    assert [float(g) for g in got[2:]] == [2, 16, 1, 4, 1]
    for refused in (lambda: [x] * n, lambda: float(n)):
        with pytest.raises(RuntimeError, match="is not known while a program is built"):
            refused()


def test_sizes_that_are_cut_from_a_shape_stay_known(built):
    main, _ = built
    x = static.data("x", [None, 4, 6])
    sizes = bireme.shape(x)
    ones = bireme.ones(sizes[:-1], "float32")
    joined = bireme.concat([sizes[:1], bireme.full([1], 12, sizes.dtype), sizes[1:2] // 2])
    whole = bireme.reshape(x, joined)
    places = bireme.arange(sizes[1], dtype="float32") + ones
    drawn = bireme.zeros([bireme.randint(1, 3, [1])])
    assert [v.shape for v in (ones, whole, places, drawn)] == [[-1, 4], [-1, 12, 2], [-1, 4], [-1]]
    for n in (2, 3):
        got = static.Executor().run(main, {"x": np.ones((n, 4, 6), "float32")}, [whole, places])
        assert [g.shape for g in got] == [(n, 12, 2), (n, 4)] and got[1][-1].tolist() == [1, 2, 3, 4]


def test_what_depends_on_the_smaller_of_two_sizes_is_unknown(built):
    x = static.data("x", [None, 4])
    assert bireme.linalg.svdvals(x).shape == [-1]
    assert bireme.nonzero(x).shape == [-1, 2]


def test_sizes_that_a_call_refuses_are_replaced_by_others(built):
    """96 and 192 are taken first, and are no multiples of 5: others are, for what was built before too."""
    main, _ = built
    x = static.data("x", [None, 4])
    y = x * 2
    grouped = bireme.reshape(y, [x.shape[0] // 5, 5, 4]).reshape([-1, 20])
    assert grouped.shape == [-1, 20] and y.shape == [-1, 4]
    with pytest.raises(ValueError, match="matmul"):
        bireme.matmul(y, static.data("w", [3, 3]))
    assert static.Executor().run(main, {"x": np.ones((10, 4), "float32")}, [grouped])[0].shape == (2, 20)


def test_unknown_sizes_that_are_not_all_alike(built):
    """One more than another, a multiple, those of another operand, or the size that a parameter has."""
    main, startup = built
    x, pairs = static.data("x", [-1, 3]), static.data("pairs", [-1])
    viewed = bireme.view_as(pairs, x)
    image, weight = static.data("image", [-1, 2, -1, -1]), static.data("weight", [4, 2, -1, -1])
    made = nn.functional.conv2d(image, weight)
    weighed = made * static.data("w", [-1, 4, -1, -1])
    features = static.data("features", [-1, -1])
    out = nn.Linear(5, 2)(features)
    assert [v.shape for v in (viewed, made, weighed, features, out)] == [
        [-1, 3], [-1, 4, -1, -1], [-1, 4, -1, -1], [-1, -1], [-1, 2],
    ]  # fmt: skip
    exe = static.Executor()
    exe.run(startup)
    for n in (2, 3):
        feed = {
            "x": np.zeros((n, 3)), "pairs": np.arange(3.0 * n), "image": np.ones((n, 2, 6, 7)), "features": np.ones((n, 5)),
            "weight": np.ones((4, 2, n, 2)), "w": np.ones((n, 4, 7 - n, 6)),
        }  # fmt: skip
        feed = {name: a.astype("float32") for name, a in feed.items()}
        got = exe.run(main, feed, [viewed, weighed, out])
        assert got[0].tolist() == np.arange(3 * n).reshape(n, 3).tolist() and got[2].shape == (n, 2)
        assert got[1].shape == (n, 4, 7 - n, 6) and (got[1] == 4 * n).all()


def test_a_difference_of_unknown_sizes_is_unknown(built):
    """As the place of what is new behind a cache: both sizes are the same in examples."""
    main, _ = built
    keys, queries = static.data("keys", [None, 2]), static.data("queries", [None, 2])
    past = keys[: keys.shape[0] - queries.shape[0]]
    assert past.shape == [-1, 2]
    feed = {"keys": np.arange(10, dtype="float32").reshape(5, 2), "queries": np.zeros((3, 2), "float32")}
    assert static.Executor().run(main, feed, [past.sum(0)])[0].tolist() == [2, 4]


def test_a_cell_runs_over_a_sequence_of_unknown_length(built):
    """A cell of the user's, which is called for each step: forward and from the end, with lengths and gradients."""

    class Sum(nn.RNNCellBase):
        state_shape = property(lambda self: (3,))

        def forward(self, x, state):
            new = state + x * x
            return (new, new * 2), new

    main, _ = built
    x, lengths = static.data("x", [None, None, 3]), static.data("lengths", [None], "int64")
    x.stop_gradient = False
    made = []
    for is_reverse in (False, True):
        (out, twice), last = nn.RNN(Sum(), is_reverse=is_reverse)(x, sequence_length=lengths)
        made += [out, twice, last, *static.gradients(last.sum() + twice.sum(), x)]
    for n, steps in ((2, 4), (3, 1)):
        feed = {
            "x": np.linspace(-1, 1, n * steps * 3, dtype="float32").reshape(n, steps, 3),
            "lengths": np.arange(1, n + 1) % (steps + 1),
        }
        got = static.Executor().run(main, feed, made)
        with bireme.core.program.building.suspended():
            t, want = bireme.to_tensor(feed["x"], stop_gradient=False), []
            for is_reverse in (False, True):
                (out, twice), last = nn.RNN(Sum(), is_reverse=is_reverse)(t, None, bireme.to_tensor(feed["lengths"]))
                want += [out, twice, last, *bireme.grad(last.sum() + twice.sum(), t)]
            for g, w in zip(got, want, strict=True):
                np.testing.assert_allclose(g, w.numpy(), rtol=1e-6)


def test_a_wrong_call_after_gradients_says_what_is_wrong(built):
    x = static.data("x", [None, 3])
    x.stop_gradient = False
    static.gradients((x * x).sum(), x)
    with pytest.raises(ValueError, match="matmul"):
        bireme.matmul(x, static.data("y", [4, 5]))


def test_operations_in_place(built):
    main, _ = built
    x = static.data("x", [3])
    y = x + 1
    before = y
    y += 1
    y[0] = 10.0
    y.scale_(2.0)
    assert y is not x
    got = static.Executor().run(main, {"x": np.zeros(3, "float32")}, [x, y])
    assert [g.tolist() for g in got] == [[0, 0, 0], [20, 4, 4]]
    assert before is not None


@pytest.mark.parametrize(
    "ask", [lambda x: x.numpy(), lambda x: x.item(), lambda x: float(x), lambda x: bool(x), lambda x: x.tolist()]
)
def test_a_variable_has_no_values(ask, built):
    with pytest.raises(RuntimeError, match="is not known while a program is built"):
        ask(static.data("x", [1]))


def test_variables_belong_to_static_mode(built):
    x = static.data("x", [2])
    bireme.disable_static()
    with pytest.raises(RuntimeError, match="static mode"):
        x[0]
    with pytest.raises(RuntimeError, match=r"call bireme.enable_static\(\) first"):
        static.data("y", [2])


def test_a_wrong_feed_is_refused(built):
    main, _ = built
    x = static.data("x", [None, 2])
    y = x + 1
    with pytest.raises(ValueError, match=r"run\(feed\['x'\]\): expected shape \[-1, 2\], got shape \[2, 3\]"):
        static.Executor().run(main, {"x": np.zeros((2, 3), "float32")}, [y])
    with pytest.raises(ValueError, match="names of variables"):
        static.Executor().run(main, {}, ["nothing"])


def test_an_error_at_run_names_the_line_of_the_program(built):
    main, _ = built
    x, y = static.data("x", [None, 2]), static.data("y", [None, 2])
    z = x + y
    with pytest.raises(ValueError) as caught:
        static.Executor().run(main, {"x": np.zeros((2, 2), "float32"), "y": np.zeros((3, 2), "float32")}, [z])
    assert any("in add of the program, called at test_static.py:" in note for note in caught.value.__notes__)


def test_a_wrong_call_is_refused_where_it_is_built(built):
    x = static.data("x", [None, 3])
    with pytest.raises(ValueError, match=r"matmul"):
        bireme.matmul(x, static.data("y", [4, 5]))


def test_a_program_can_be_read(built):
    main, _ = built
    x = static.data("x", [None, 2])
    bireme.exp(x)
    text = str(main)
    assert "input var x : shape=[-1, 2], dtype=float32" in text
    assert "= exp(x)  // test_static.py:" in text


# ---------------------------------------------------------------- control flow


def test_branches_and_loops(built):
    main, startup = built
    x = static.data("x", [None, 3])
    x.stop_gradient = False
    w = static.create_parameter([3], "float32", default_initializer=nn.initializer.Constant(2.0))
    y = static.nn.cond(x.sum() > 0, lambda: x * w, lambda: x - w)
    i, n = bireme.zeros([1], "int64"), bireme.full([1], 3, "int64")
    powers = static.nn.while_loop(lambda i, a: (i < n).all(), lambda i, a: [i + 1, a * w], [i, x + 0.0])
    grown = static.nn.while_loop(
        lambda i, a: (i < n).all(), lambda i, a: [i + 1, bireme.concat([a, y[:1]])], [i, bireme.zeros([1, 3])]
    )
    z = static.nn.switch_case(bireme.full([1], 1, "int64"), {0: lambda: y, 1: lambda: y * 10}, lambda: y * 0)
    c = static.nn.case([(x.mean() > 100, lambda: x + 0), (x.mean() > 0, lambda: x + 1)], lambda: x + 2)
    grads = static.gradients([(z * z).sum() + powers[1].sum()], [w, x])
    assert [v.shape for v in (y, grown[1], z, c, *grads)] == [[-1, 3], [-1, 3], [-1, 3], [-1, 3], [3], [-1, 3]]
    exe = static.Executor()
    exe.run(startup)
    for sign in (1, -1):
        feed = np.arange(6, dtype="float32").reshape(2, 3) * sign
        got = exe.run(main, {"x": feed}, [y, powers[1], grown[1], c, *grads])
        a = bireme.core.program.building
        with a.suspended():
            t, v = bireme.to_tensor(feed, stop_gradient=False), bireme.to_tensor([2.0] * 3, stop_gradient=False)
            want = t * v if sign > 0 else t - v
            loss = ((want * 10) ** 2).sum() + (t * v * v * v).sum()
            gradients = bireme.grad(loss, [v, t])
            rows = bireme.concat([bireme.zeros([1, 3]), want[:1], want[:1], want[:1]])
            told = [want, t * v**3, rows, t + (1 if sign > 0 else 2), *gradients]
            for g, w_ in zip(got, told, strict=True):
                np.testing.assert_allclose(g, w_.numpy(), rtol=1e-5)


def test_branches_must_be_alike(built):
    x = static.data("x", [2])
    with pytest.raises(ValueError, match="branches"):
        static.nn.cond(x.sum() > 0, lambda: (x, x), lambda: x)
    with pytest.raises(ValueError, match="branches that give alike tensors"):
        static.nn.cond(x.sum() > 0, lambda: x, lambda: x.astype("int32"))
    with pytest.raises(TypeError, match=r"cond\(pred\): expected a Tensor of bool"):
        static.nn.cond(x.sum(), lambda: x, lambda: x)


def test_layers_of_static_nn(built):
    main, startup = built
    image = static.data("image", [None, 3, 8, 8])
    h = static.nn.conv2d(image, 4, 3, padding=1, act="relu")
    h = static.nn.batch_norm(h)
    h = static.nn.group_norm(h, 2)
    h = static.nn.prelu(h, "channel")
    out = static.nn.layer_norm(static.nn.fc(h, 10, activation="tanh"))
    words = static.nn.embedding(static.data("words", [None, 5], "int64"), [7, 3])
    assert [out.shape, words.shape] == [[-1, 10], [-1, 5, 3]]
    assert len(main.all_parameters()) == 14
    exe = static.Executor()
    exe.run(startup)
    feed = {"image": np.linspace(0, 1, 384, dtype="float32").reshape(2, 3, 8, 8), "words": np.zeros((4, 5), "int64")}
    assert [a.shape for a in exe.run(main, feed, [out, words])] == [(2, 10), (4, 5, 3)]


def test_every_name_is_listed():
    """The page of the site shows what a module lists."""
    for module in (static, static.nn):
        folder = Path(module.__file__).parent
        assert set(module.__all__) <= set(dir(module)) and folder.is_dir()
        importlib.import_module(module.__name__)
