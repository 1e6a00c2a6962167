"""Static mode beyond building and running: files, metrics, layers, sequences, functions of the user's own, averages."""

import pickle
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn, static
from bireme.nn.initializer import Assign, Constant

ROOT = Path(__file__).parents[1]


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


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def data(name, shape, dtype="float32", **options):
    made = static.data(name, shape, dtype, **options)
    made.stop_gradient = dtype != "float32"
    return made


def run(fetch, feed=None, startup=True, steps=1):
    """The values of variables of the default program, in arrays."""
    exe = static.Executor(bireme.CPUPlace())
    if startup:
        exe.run(static.default_startup_program())
    for _ in range(steps):
        found = exe.run(feed=feed, fetch_list=fetch)
    return found


def rows(array, *lengths):
    return bireme.base.create_lod_tensor(array, [list(level) for level in lengths], bireme.CPUPlace())


# ---------------------------------------------------------------- as Paddle


@pytest.mark.parametrize("name", ["static_training", "static_inference", "static_images", "static_export"])
def test_a_script_prints_what_it_prints_under_paddle(name, capsys, tmp_path):
    """The expected text is what PaddlePaddle 3.2.2 printed for the same file."""
    text = (ROOT / "examples" / f"{name}.py").read_text().replace("import paddle\n", "import bireme as paddle\n")
    path = tmp_path / f"{name}.py"  # a file, since functions are captured from their source
    path.write_text(text.replace("from paddle.", "from bireme."))
    runpy.run_path(str(path))
    assert capsys.readouterr().out == (ROOT / "tests" / "expected" / f"{name}.txt").read_text()


# ---------------------------------------------------------------- files


def trained(built, rate=0.1):
    """A small network with statistics and an optimizer, and how to run a step of it."""
    x = data("x", [None, 4])
    y = static.nn.fc(x, 3, weight_attr=Assign(np.arange(12).reshape(4, 3).astype("float32") / 10))
    z = static.nn.batch_norm(y)
    loss = (z * z * y).mean()
    bireme.optimizer.Adam(rate).minimize(loss)
    exe = static.Executor()
    exe.run(built[1])
    feed = {"x": np.arange(8).reshape(2, 4).astype("float32") ** 2}
    return lambda: exe.run(built[0], feed=feed, fetch_list=[loss])[0].item()


def test_state_of_a_program_in_a_file(built, tmp_path):
    step = trained(built)
    # what Paddle 3.2.2 gives for the same program, and goes on with from the same file
    assert [step(), step()] == pytest.approx([49.0, 28.741995], rel=1e-6)
    static.save(built[0], str(tmp_path / "net"))
    further = [step(), step()]
    assert further == pytest.approx([15.752108, 8.251616], rel=1e-5)
    static.load(built[0], str(tmp_path / "net"))
    assert [step(), step()] == further

    with open(tmp_path / "net.pdparams", "rb") as file:
        params = pickle.load(file)  # as Paddle reads it
    kinds = {re.sub(r"_\d+\.", ".", name) for name in params}  # layers are counted through the process
    assert kinds == {"fc.w_0", "fc.b_0", *[f"batch_norm.{p}" for p in ("w_0", "b_0", "w_1", "w_2")]}
    assert all(type(value) is np.ndarray for value in params.values())
    with open(tmp_path / "net.pdopt", "rb") as file:
        state = pickle.load(file)  # as Paddle reads it
    assert state["learning_rate_0"].shape == ()
    assert state["fc_0.w_0_moment1_0"].shape == (4, 3)


def test_a_schedule_goes_on_where_it_is(built, tmp_path):
    schedule = bireme.optimizer.lr.StepDecay(0.1, 2)
    step = trained(built, schedule)
    step()
    static.save(built[0], str(tmp_path / "net"))
    schedule.step()
    further = [step(), step()]
    static.load(built[0], str(tmp_path / "net"))
    assert [step(), step()] == further
    assert schedule.last_epoch == 1


def test_state_by_hand(built, tmp_path):
    step = trained(built)
    step()
    static.save(built[0], str(tmp_path / "net"))
    state = static.load_program_state(str(tmp_path / "net.pdparams"))
    before = step()
    static.set_program_state(built[0], state)
    assert step() == before
    only = static.load_program_state(str(tmp_path / "net"), [built[0].var("fc_0.b_0")])
    assert list(only) == ["fc_0.b_0"]
    with pytest.raises(ValueError, match=r"expected shape \[4, 3\], got shape \[2\]"):
        static.set_program_state(built[0], {"fc_0.w_0": np.zeros(2)})
    with pytest.raises(FileNotFoundError):
        static.load(built[0], str(tmp_path / "other"))
    with pytest.raises(ValueError, match="a path that ends in a name"):
        static.save(built[0], str(tmp_path) + "/")


def test_inference_model(built, tmp_path):
    x = data("x", [None, 4])
    y = nn.functional.dropout(static.nn.batch_norm(static.nn.fc(x, 3)), 0.5)
    loss = y.mean()
    bireme.optimizer.SGD(0.1).minimize(loss)
    exe, value = static.Executor(), normal(5, 4)
    exe.run(built[1])
    exe.run(feed={"x": value}, fetch_list=[loss])
    path = str(tmp_path / "folder" / "net")
    static.save_inference_model(path, x, [y], exe)
    test = built[0].clone(for_test=True)
    wanted = exe.run(test, feed={"x": value}, fetch_list=[y])[0]
    with static.scope_guard(static.Scope()):
        program, feeds, (out,) = static.load_inference_model(path, exe)
        assert feeds == ["x"]
        assert np.array_equal(exe.run(program, feed={"x": value}, fetch_list=[out])[0], wanted)
        assert not program.optimizers
    bireme.disable_static()
    assert np.array_equal(bireme.jit.load(path)(bireme.to_tensor(value)).numpy(), wanted)
    with pytest.raises(FileNotFoundError, match=r"a path to which \.json or \.pdmodel is added"):
        static.load_inference_model(path + "2", exe)
    with pytest.raises(TypeError, match=r"save_inference_model\(fetch_vars\): expected variables, got 1"):
        static.save_inference_model(path, x, [1], exe)


def test_bytes_of_programs(built):
    x = data("x", [None, 4])
    middle = static.nn.fc(x, 3)
    out = nn.functional.relu(middle)
    exe, value = static.Executor(), normal(2, 4)
    exe.run(built[1])
    wanted = exe.run(feed={"x": value}, fetch_list=[out])[0]
    program, values = static.serialize_program([x], [out]), static.serialize_persistables([x], [out], exe)
    other = static.normalize_program(built[0], [middle], [out])  # from the middle on
    assert np.array_equal(
        exe.run(other, feed={middle.name: wanted - 1}, fetch_list=[out])[0], np.maximum(wanted - 1, 0)
    )
    exe.run(built[1])  # other values
    with static.scope_guard(static.Scope()):
        again = static.deserialize_program(program)
        for p in again.all_parameters():
            static.global_scope().find(p).set(np.zeros(p.shape))
        static.deserialize_persistables(again, values, exe)
        assert np.array_equal(exe.run(again, feed={"x": value}, fetch_list=[out.name])[0], wanted)
        both = static.load_inference_model(None, exe, model_filename=program, params_filename=values)
        assert np.array_equal(exe.run(both[0], feed={"x": value}, fetch_list=both[2])[0], wanted)
    with pytest.raises(ValueError, match="expected what serialize_program gave, got other bytes"):
        static.deserialize_program(b"no program")


def test_variables_of_older_programs(built, tmp_path):
    """Paddle wrote each parameter to a file of its own, or all of them to one, in the order of their names."""
    static.nn.fc(data("x", [None, 2]), 3, weight_attr="b_w", bias_attr="a_b")
    exe = static.Executor()
    exe.run(built[1])
    head = bytes(16)
    w, b = normal(2, 3), normal(3)
    records = {
        "b_w": head + (6).to_bytes(4, "little") + b"\x08\x05\x10\x02\x10\x03" + w.tobytes(),
        "a_b": head + (4).to_bytes(4, "little") + b"\x08\x05\x10\x03" + b.tobytes(),
    }
    (tmp_path / "all").write_bytes(records["a_b"] + records["b_w"])
    static.load_vars(exe, str(tmp_path), built[0], filename="all")
    assert np.array_equal(static.global_scope().find_var("b_w").get_tensor(), w)
    assert np.array_equal(static.global_scope().find_var("a_b").get_tensor(), b)
    (tmp_path / "a_b").write_bytes(records["a_b"][:20] + b"\x08\x05\x10\x03" + (b + 1).tobytes())
    static.load_vars(exe, str(tmp_path), built[0], predicate=lambda p: p.name == "a_b")
    assert np.array_equal(static.global_scope().find_var("a_b").get_tensor(), b + 1)


# ---------------------------------------------------------------- parameters by name


def test_parameters_of_one_name_are_one(built):
    x = data("x", [None, 2])
    a = static.nn.fc(x, 2, weight_attr=bireme.ParamAttr("shared", Constant(2.0)), bias_attr=False)
    b = static.nn.fc(a, 2, weight_attr=bireme.ParamAttr("shared"), bias_attr=False)
    assert [p.name for p in built[0].all_parameters()] == ["shared"]
    assert run([b], {"x": [[1.0, 0.0]]})[0].tolist() == [[8.0, 8.0]]
    with pytest.raises(
        ValueError, match=r"expected shape \[2, 2\] for the parameter shared of the program, got \[2, 5\]"
    ):
        static.nn.fc(x, 5, weight_attr="shared")


def test_an_index_into_a_parameter_is_recorded(built):
    w = static.create_parameter([3, 2], "float32", default_initializer=Assign(np.arange(6).reshape(3, 2)))
    row = w[1]
    (g,) = static.gradients([(row * row).sum() + w.detach().sum()], [w])
    found = run([row, g])
    assert found[0].tolist() == [2.0, 3.0]
    assert found[1].tolist() == [[0.0, 0.0], [4.0, 6.0], [0.0, 0.0]]


def test_an_index_into_a_parameter_of_a_captured_function():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.w = self.create_parameter([3, 2], default_initializer=Constant(1.0))

        def forward(self, x):
            return (x * self.w[0]).sum() + self.w.detach().sum()

    net = Net()
    call = bireme.jit.to_static(net.forward)
    x = bireme.to_tensor([2.0, 3.0])
    assert call(x).item() == 11.0
    net.w.set_value(np.full([3, 2], 2.0, "float32"))
    out = call(x)
    out.backward()
    assert out.item() == 22.0
    assert net.w.grad.tolist() == [[2.0, 3.0], [0.0, 0.0], [0.0, 0.0]]


def test_random_seed(built):
    built[0].random_seed = 7
    y = bireme.rand([3])
    first, second = [run([y])[0].tolist() for _ in range(2)]
    assert first == second
    built[0].random_seed = 0
    assert run([y])[0].tolist() != run([y])[0].tolist()


# ---------------------------------------------------------------- layers


def check(out, inputs, reference, feed):
    """Values and gradients of a variable, against NumPy's values and differences of them."""
    weight = normal(*reference(**feed).shape, seed=9)
    grads = static.gradients([out], inputs, data("weight", [None] * weight.ndim))
    found = run([out, *grads], {**feed, "weight": weight})
    np.testing.assert_allclose(found[0], reference(**feed), rtol=2e-5, atol=2e-5)
    for x, grad in zip(inputs, found[1:], strict=True):
        name, change = x.name, normal(*feed[x.name].shape, seed=8)
        ends = [
            np.sum(reference(**{**feed, name: feed[name] + s * change}).astype("float64") * weight)
            for s in (1e-3, -1e-3)
        ]
        assert np.sum(grad * change) == pytest.approx((ends[0] - ends[1]) / 2e-3, rel=2e-2, abs=2e-2)


def test_bilinear_product(built):
    w, b = normal(5, 4, 3), normal(1, 5, seed=1)
    x, y = data("x", [None, 4]), data("y", [None, 3])
    out = static.nn.bilinear_tensor_product(x, y, 5, param_attr=Assign(w), bias_attr=Assign(b))
    feed = {"x": normal(2, 4, seed=2), "y": normal(2, 3, seed=3)}
    check(out, [x, y], lambda x, y: np.einsum("ni,kij,nj->nk", x, w, y) + b, feed)


def test_row_convolution(built):
    w = normal(3, 4)
    x = data("x", [None, None, 4])

    def reference(x):
        behind = np.concatenate([x, np.zeros((len(x), 2, 4), x.dtype)], 1)
        return np.sum([behind[:, i : i + x.shape[1]] * w[i] for i in range(3)], 0)

    check(static.nn.row_conv(x, 2, param_attr=Assign(w)), [x], reference, {"x": normal(2, 5, 4, seed=1)})


def test_transposed_convolutions_take_a_size(built):
    x = data("x", [None, 3, 5, 5])
    out = static.nn.conv2d_transpose(x, 4, output_size=[12, 11], stride=2, bias_attr=False)
    assert [p.shape for p in built[0].all_parameters()] == [[3, 4, 4, 3]]
    grouped = static.nn.conv2d_transpose(x.transpose([0, 2, 3, 1]), 6, 10, 3, 1, 2, groups=3, data_format="NHWC")
    volume = static.nn.conv3d_transpose(data("v", [None, 2, 3, 3, 3]), 4, filter_size=2, act="relu")
    shapes = [t.shape for t in (out, grouped, volume)]
    assert shapes == [[-1, 4, 12, 11], [-1, 10, 10, 6], [-1, 4, 4, 4, 4]]
    found = run([out, grouped, volume], {"x": normal(2, 3, 5, 5), "v": normal(1, 2, 3, 3, 3)})
    assert [f.shape for f in found] == [(2, 4, 12, 11), (2, 10, 10, 6), (1, 4, 4, 4, 4)]
    with pytest.raises(ValueError, match=r"conv2d_transpose\(output_size\): expected a size"):
        static.nn.conv2d_transpose(x, 4)


def test_deformable_convolution_without_offsets_is_a_convolution(built):
    w = normal(4, 3, 3, 3)
    x = data("x", [None, 3, 5, 5])
    zeros = bireme.zeros([x.shape[0], 18, 3, 3])
    out = static.nn.deform_conv2d(x, zeros, None, 4, 3, weight_attr=Assign(w), bias_attr=False)
    plain = static.nn.conv2d(x, 4, 3, param_attr=Assign(w), bias_attr=False)
    found = run([out, plain], {"x": normal(2, 3, 5, 5)})
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-5)


def test_noise_contrastive_estimation(built):
    """With a distribution that always draws one class the loss is known."""
    w, b = normal(3, 4), normal(3, 1, seed=1)
    x, label = data("x", [None, 4]), data("label", [None, 1], "int64")
    out = static.nn.nce(
        x, label, 3, num_neg_samples=2, sampler="custom_dist", custom_dist=[0.25, 0.75, 0.0], param_attr=Assign(w),
        bias_attr=Assign(b),
    )  # fmt: skip
    chances = np.array([0.25, 0.75, 0.0])

    def loss(x, label, noise):
        score = 1 / (1 + np.exp(-(x @ w.T + b[:, 0])))
        told = np.take_along_axis(score, label, 1)
        cost = -np.log(told / (told + chances[label] * 2))
        for k in noise:
            cost -= np.log(chances[k] * 2 / (score[:, [k]] + chances[k] * 2))
        return cost / 3

    value, classes = normal(6, 4, seed=2), np.array([[0], [1], [0], [1], [0], [0]])
    (found,) = run([out], {"x": value, "label": classes})
    either = [loss(value, classes, noise) for noise in ([0, 0], [0, 1], [1, 1])]
    assert all(any(abs(row - each[i]) < 1e-5 for each in either) for i, row in enumerate(found))
    for sampler in ("uniform", "log_uniform"):
        assert np.isfinite(run([static.nn.nce(x, label, 7, sampler=sampler)], {"x": value, "label": classes})[0]).all()
    with pytest.raises(ValueError, match=r"nce\(custom_dist\): expected 3 probabilities"):
        static.nn.nce(x, label, 3, sampler="custom_dist", custom_dist=[1.0])


def test_continuous_values_get_their_counts_as_gradients(built):
    x, cvm = data("x", [None, 4]), data("cvm", [None, 2])
    out = static.nn.continuous_value_model(x, cvm)
    (g,) = static.gradients([out.sum()], [x])
    value, counts = np.abs(normal(3, 4)), np.abs(normal(3, 2, seed=1))
    found = run([out, g], {"x": value, "cvm": counts})
    np.testing.assert_allclose(found[0][:, 0], np.log(value[:, 0] + 1), rtol=1e-5)
    np.testing.assert_allclose(found[1], np.concatenate([counts, np.ones((3, 2))], 1), rtol=1e-6)


def test_spectral_norm(built):
    value = normal(2, 3, 2)
    (found,) = run([static.nn.spectral_norm(data("x", [2, 3, 2]), dim=1, power_iters=60)], {"x": value})
    largest = np.linalg.svd(value.transpose(1, 0, 2).reshape(3, 4))[1][0]
    np.testing.assert_allclose(found, value / largest, rtol=1e-4)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_weight_normalization(built, dim):
    v = np.arange(12).reshape(4, 3).astype("float32") + 1
    x = data("x", [None, 4])
    out = static.nn.fc(x, 3, weight_attr=static.WeightNormParamAttr(dim, "wn", Assign(v)), bias_attr=False)
    assert {p.name: p.shape for p in built[0].all_parameters()} == {
        "wn_v": [4, 3],
        "wn_g": {None: [1, 1], 0: [4, 1], 1: [1, 3]}[dim],
    }
    bireme.optimizer.SGD(0.1).minimize(out.mean())
    value = normal(2, 4)
    exe = static.Executor()
    exe.run(built[1])
    first, second = [exe.run(feed={"x": value}, fetch_list=[out])[0] for _ in range(2)]
    np.testing.assert_allclose(first, value @ v, rtol=1e-4, atol=1e-4)
    assert not np.allclose(first, second)


# ---------------------------------------------------------------- sequences


def test_lengths_go_with_rows(built):
    """Through a network into a pooling of each sequence, as Paddle 3.2.2 computes it."""
    w, f = normal(4, 3), normal(9, 2, seed=1)
    x = data("x", [None, 4], lod_level=1)
    hidden = static.nn.fc(nn.functional.relu(x), 3, weight_attr=Assign(w), bias_attr=False)
    out = static.nn.sequence_pool(static.nn.sequence_conv(hidden, 2, param_attr=Assign(f), bias_attr=False), "max")
    assert (x.lod_level, hidden.lod_level, out.lod_level) == (1, 1, 0)
    (g,) = static.gradients([out.sum()], [x])
    value, lengths = normal(6, 4, seed=2), [2, 1, 3]

    def reference(value):
        h = np.maximum(value, 0) @ w
        found = []
        for part in np.split(h, np.cumsum(lengths)[:-1]):
            padded = np.concatenate([np.zeros((1, 3)), part, np.zeros((1, 3))])
            found.append((np.stack([padded[i : i + 3].ravel() for i in range(len(part))]) @ f).max(0))
        return np.stack(found)

    found, grad = run([out, g], {"x": rows(value, lengths)})
    np.testing.assert_allclose(found, reference(value), rtol=1e-4, atol=1e-5)
    change = normal(6, 4, seed=3)
    slope = (reference(value + 1e-3 * change).sum() - reference(value - 1e-3 * change).sum()) / 2e-3
    assert np.sum(grad * change) == pytest.approx(slope, rel=1e-2)
    with pytest.raises(ValueError, match=r"a value for the input 'x\.lengths'") as told:
        run([out], {"x": value})
    assert "base.create_lod_tensor" in str(told.value)
    with pytest.raises(ValueError, match="a variable whose rows belong to sequences, got 0 levels"):
        static.nn.sequence_pool(out, "sum")


def test_levels_of_sequences(built):
    x = data("x", [None, 2], lod_level=2)
    inner = static.nn.sequence_pool(x, "sum")
    outer = static.nn.sequence_last_step(inner)
    assert (inner.lod_level, outer.lod_level) == (1, 0)
    value = np.arange(12).reshape(6, 2).astype("float32")
    exe = static.Executor()
    found = exe.run(feed={"x": rows(value, [2, 1], [2, 1, 3])}, fetch_list=[inner, outer], return_numpy=False)
    assert found[0].lod() == [[0, 2, 3]]
    assert np.asarray(found[0]).tolist() == [[2.0, 4.0], [4.0, 5.0], [24.0, 27.0]]
    assert np.asarray(found[1]).tolist() == [[4.0, 5.0], [24.0, 27.0]]


def test_sequences_are_repeated(built):
    x, y = data("x", [None, 1], lod_level=1), data("y", [None, 1], lod_level=2)
    z = static.nn.sequence_expand(x, y, 0)
    plain = data("p", [None, 1])
    again = static.nn.sequence_expand(plain, y)
    (g,) = static.gradients([z.sum()], [x])
    feed = {
        "x": rows(np.float32([[1], [2], [3], [4]]), [3, 1]),
        "y": rows(normal(8, 1), [2, 2], [3, 3, 1, 1]),
        "p": np.float32([[5], [6], [7], [8]]),
    }
    total = static.nn.sequence_pool(z, "sum")
    found = run([z, again, g, total], feed)
    assert found[0].ravel().tolist() == [1, 2, 3, 1, 2, 3, 4, 4]
    assert found[1].ravel().tolist() == [5, 5, 5, 6, 6, 6, 7, 8]
    assert found[2].ravel().tolist() == [2, 2, 2, 2]
    assert found[3].ravel().tolist() == [6, 6, 4, 4]


def test_sequences_in_a_file(built, tmp_path):
    x = data("x", [None, 1], lod_level=1)
    out = static.nn.sequence_softmax(x)
    exe = static.Executor()
    static.save_inference_model(str(tmp_path / "net"), [x], [out], exe)
    program, feeds, fetches = static.load_inference_model(str(tmp_path / "net"), exe)
    assert feeds == ["x"]
    (found,) = exe.run(program, feed={"x": rows(np.float32([[1], [1], [5]]), [2, 1])}, fetch_list=fetches)
    assert found.ravel().tolist() == [0.5, 0.5, 1.0]


def test_feeder(built):
    x, y = data("x", [None, 2], lod_level=1), data("y", [None, 1], "int64")
    feeder = bireme.base.DataFeeder([x, y], bireme.CPUPlace())
    feed = feeder.feed([([[1, 2], [3, 4]], 0), ([[5, 6]], 1)])
    assert feed["x"].lod() == [[0, 2, 3]]
    found = run([static.nn.sequence_first_step(x), y + 1], feed)
    assert [f.tolist() for f in found] == [[[1, 2], [5, 6]], [[1], [2]]]
    with pytest.raises(ValueError, match="2 fields in a sample, got 1"):
        feeder.feed([([[1, 2]],)])


# ---------------------------------------------------------------- metrics, printing, functions of one's own


def test_area_under_the_curve(built):
    """Counts and areas as Paddle 3.2.2 gives them after three runs."""
    x, label = data("x", [None, 2]), data("label", [None, 1], "int64")
    area, recent, counts = static.auc(x, label, num_thresholds=15, slide_steps=2)
    scores = np.float32([0.64, 0.21, 0.44, 0.02, 0.6, 0.0])
    feed = {"x": np.stack([1 - scores, scores], 1), "label": [[0], [1], [0], [1], [1], [0]]}
    found = run([area, recent, *counts], feed, steps=3)
    pairs = [(p, n) for p in (0.21, 0.02, 0.6) for n in (0.64, 0.44, 0.0)]

    def bucket(s):
        return int(np.float32(s) * 15)

    wanted = np.mean([(bucket(p) > bucket(n)) + 0.5 * (bucket(p) == bucket(n)) for p, n in pairs])
    assert found[0].item() == pytest.approx(wanted)
    assert found[1].item() == pytest.approx(wanted)
    assert (found[2].shape, found[4].shape) == ((49,), (1, 16))
    assert found[4].sum() == found[5].sum() == 9
    assert (found[2][:16].sum(), found[2][32:48].sum(), found[2][48]) == (3, 6, 3)


def test_accuracy_and_counts(built):
    x, label = data("x", [None, 3]), data("label", [None, 1], "int64")
    correct, total = built[0].create_var(shape=[1], dtype="int32"), built[0].create_var(shape=[1], dtype="int32")
    share = static.accuracy(x, label, 2, correct, total)
    sums = static.ctr_metric_bundle(x[:, :1], label.astype("float32"))
    feed = {"x": [[3, 2, 1], [1, 2, 3], [3, 1, 2]], "label": [[1], [0], [0]]}
    found = run([share, correct, total, *sums], feed, steps=2)
    assert found[0].item() == pytest.approx(2 / 3)
    assert [f.tolist() for f in found[1:3]] == [[2], [3]]
    assert [f.item() for f in found[3:6]] == [28.0, 12.0, 14.0]
    assert (found[7].item(), found[8].item()) == (2.0, 6.0)


def test_values_are_printed(built, capfd):
    x = data("x", [None, 3])
    y = static.Print(x, message="look", summarize=4, first_n=2)
    (g,) = static.gradients([(y * y).sum()], [x])
    static.Print(data("k", [2], "int64"), print_tensor_layout=False, print_tensor_lod=False, print_phase="forward")
    feed = {"x": np.float32([[1, 2.5, 1e-7], [1e6, 1e10, -3]]), "k": [3, -4]}
    run([g], feed, steps=3)
    text = capfd.readouterr().out
    # the text that Paddle 3.2.2 prints
    block = "Variable: x\n  - message: look\n  - lod: {}\n  - place: Place(cpu)\n  - shape: [2, 3]\n  - layout: NCHW\n"
    assert text.count(block + "  - dtype: float32\n  - data: [1 2.5 1e-07 1e+06]\n") == 2
    assert text.count("  - data: [2 5 2e-07 2e+06]\n") == 2
    assert text.count("Variable: k\n  - place: Place(cpu)\n  - shape: [2]\n  - dtype: int64\n  - data: [3 -4]\n") == 3


def test_a_function_of_the_users_own(built):
    seen = []
    x = data("x", [None, 4])
    h = static.nn.fc(x, 3, weight_attr=Assign(normal(4, 3)), bias_attr=False)
    out = built[0].current_block().create_var(name="own", dtype="float32", shape=[-1, 3])

    def backward(y, grad):
        return np.array(grad) * (1 - np.square(np.array(y)))

    static.nn.py_func(lambda a: np.tanh(np.array(a)), h, out, backward, skip_vars_in_backward_input=h)
    static.py_func(lambda a: seen.append(np.array(a).shape), out, None)
    check(out * 2, [x], lambda x: 2 * np.tanh(x @ normal(4, 3)), {"x": normal(5, 4, seed=1)})
    assert seen[0] == (5, 3)
    with pytest.raises(ValueError, match="variables of x and out, got 'x'"):
        static.py_func(np.tanh, h, out, backward, x)
    with pytest.raises(RuntimeError, match="py_func cannot be saved"):
        static.serialize_program([x], [out])


def test_a_gradient_of_the_users_own(built):
    x, y = data("x", [None, 2]), data("y", [None, 2])
    w = static.create_parameter([2], "float32", default_initializer=Constant(3.0))
    a, b = static.nn.static_pylayer(lambda x, y: (x * w, x + y), [x, y], lambda g, h: (g * 7, h * 5))
    grads = static.gradients([a.sum() + 2 * b.sum()], [x, y])
    feed = {"x": [[1.0, 2.0]], "y": [[3.0, 4.0]]}
    found = run([a, b, *grads], feed)
    assert [f.tolist() for f in found] == [[[3, 6]], [[4, 6]], [[7, 7]], [[10, 10]]]
    stopped = static.nn.static_pylayer(lambda x: x * 2, [x])
    assert stopped.stop_gradient
    with pytest.raises(ValueError, match=r"static_pylayer\(backward_fn\): expected 2 gradients, got 1"):
        static.nn.static_pylayer(lambda x, y: x + y, [x, y], lambda g: g)


def test_averages_of_parameters(built):
    x = data("x", [None, 1])
    steps = static.create_global_var([1], 3.0, "float32", persistable=True)
    out = static.nn.fc(x, 1, weight_attr=bireme.ParamAttr("w_ema", Constant(1.0)), bias_attr=False).mean()
    test = built[0].clone(for_test=True)
    bireme.optimizer.SGD(0.5).minimize(out)
    plain, limited = static.ExponentialMovingAverage(0.9), static.ExponentialMovingAverage(0.9, thres_steps=steps)
    plain.update()
    limited.update()
    exe, feed = static.Executor(), {"x": [[1.0]]}
    exe.run(built[1])
    for _ in range(3):
        exe.run(feed=feed)
    values = [0.5, 0.0, -0.5]
    for average, decay in ((plain, 0.9), (limited, 4 / 13)):
        wanted = 0.0
        for value in values:
            wanted = decay * wanted + (1 - decay) * value
        with average.apply(exe):
            assert exe.run(test, feed=feed, fetch_list=[out])[0].item() == pytest.approx(
                wanted / (1 - decay**3), rel=1e-5
            )
        assert exe.run(test, feed=feed, fetch_list=[out])[0].item() == -0.5
    with plain.apply(exe, need_restore=False):
        pass
    assert exe.run(test, feed=feed, fetch_list=[out])[0].item() != -0.5
    plain.restore(exe)
    assert exe.run(test, feed=feed, fetch_list=[out])[0].item() == -0.5


# ---------------------------------------------------------------- settings and names of Paddle's inside


def test_settings_are_kept(built):
    strategy = static.BuildStrategy()
    strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    strategy.memory_optimize = True
    assert (strategy.reduce_strategy, strategy.memory_optimize) == (1, True)
    with pytest.raises(AttributeError, match="no setting 'fuse_everything'"):
        strategy.fuse_everything = True
    y = data("x", [2]) * 2
    for compiled in (static.CompiledProgram(built[0], strategy), static.IpuCompiledProgram(built[0])):
        assert static.Executor().run(compiled, feed={"x": [1, 2]}, fetch_list=[y])[0].tolist() == [2.0, 4.0]


def test_names_of_base():
    base = bireme.base
    assert base.Program is static.Program
    assert base.framework.Program is base.executor.Program is static.Program
    assert base.core.LoDTensor is base.DenseTensor
    with bireme.pir_utils.IrGuard():
        main = base.Program()
        with base.program_guard(main):
            x = static.data("x", [2])
            x.stop_gradient = False
            (g,) = base.backward.calc_gradient([x * x], [x])
        assert g.name == base.framework.grad_var_name("x")
        assert base.Executor().run(main, feed={"x": [1.0, 2.0]}, fetch_list=[g])[0].tolist() == [2.0, 4.0]
        with bireme.pir_utils.DygraphOldIrGuard():
            assert bireme.ones([1]).item() == 1.0
        assert not bireme.in_dynamic_mode()
        before = base.framework.switch_main_program(main)
        assert static.default_main_program() is main
        base.framework.switch_main_program(before)
        assert isinstance(x, bireme.pir.Value)
    assert bireme.in_dynamic_mode()
    with pytest.raises(ValueError, match=r"offsets from 0 to 3 in order, got \[0, 2, 4\]"):
        rows(np.ones([3, 1], "float32"), [2, 2])
