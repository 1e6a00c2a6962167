"""Captured code as users write it: caches, counters, sizes, threads, errors on the way, files."""

import copy
import gc
import itertools
import math
import os
import pickle
import signal
import threading
import weakref

import numpy as np
import pytest

import bireme
from bireme import jit, nn
from bireme.files import program_files
from bireme.static import InputSpec


def x_of(*shape):
    return bireme.to_tensor(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def graph(fn, *specs):
    """What the captured function computes, on tensors."""
    return jit.to_static(fn, input_spec=list(specs), full_graph=True).concrete_program.model.run


# ---------------------------------------------------------------- state


class Caching(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.cache, self.history, self.last, self.calls = {}, [], None, 0

    def forward(self, x):
        if "w" not in self.cache:
            self.cache["w"] = self.linear.weight * 2
        self.history.append(x)
        self.last = x
        self.calls += 1
        return bireme.matmul(x, self.cache["w"])


def test_caches_and_counters_of_a_layer_are_not_touched_by_a_capture(tmp_path):
    net, x = jit.to_static(Caching(), full_graph=True), x_of(2, 4)
    first, second = net(x), net(x)
    assert net.calls == 2 and len(net.history) == 2 and net.last is x
    assert bool((first == second).all())
    jit.save(net, tmp_path / "net", [InputSpec([None, 4])])
    assert net.calls == 2 and net.last is x and list(net.cache) == ["w"]
    new = Caching()
    jit.save(new, tmp_path / "new", [InputSpec([None, 4])])
    assert new.cache == {} and new.history == [] and new.last is None and "last" not in new._buffers
    assert new(x).shape == [2, 4]


class Memory:
    def __init__(self):
        self.value = None

    def __call__(self, x):
        self.value = x if self.value is None else self.value + x
        return self.value


SEEN: list = []


def test_objects_and_globals_hold_no_variables_after_a_capture():
    memory, x = Memory(), bireme.ones([2])

    @jit.to_static(full_graph=True)
    def total(x):
        SEEN.append(x)
        return memory(x)

    assert [total(x).tolist() for _ in range(2)] == [[1, 1], [2, 2]]
    assert len(SEEN) == 2 and all(seen is x for seen in SEEN)
    SEEN.clear()


class Lazy(nn.Layer):
    def __init__(self):
        super().__init__()
        self.made = False

    def forward(self, x):
        if not self.made:
            self.proj = nn.Linear(x.shape[-1], 3)
            self.made = True
        return self.proj(x)


def test_layers_that_a_capture_makes_stay(tmp_path):
    net, x = Lazy(), x_of(2, 4)
    jit.save(net, tmp_path / "net", [InputSpec([None, 4])])
    assert np.array_equal(jit.load(tmp_path / "net")(x).numpy(), net(x).numpy())


class Averaging(nn.Layer):
    scale = 1.0
    calls = 0

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", bireme.zeros([3]))
        self.register_buffer("steps", bireme.zeros([], "int64"))

    def forward(self, x):
        Averaging.calls += 1
        self.steps += 1
        if x.max() > 2:
            self.mean = self.mean * 0.5 + x.mean(0) * 0.5
        return (x - self.mean) * self.scale, self.steps * 1


def test_buffers_that_a_branch_updates(tmp_path):
    batches = [bireme.to_tensor(np.full([2, 3], v, "float32")) for v in (1.0, 3.0, 4.0, 0.5)]
    plain, captured = Averaging(), Averaging()
    run = graph(captured.forward, InputSpec([None, 3]))
    for x in batches:
        made, wanted = run(x), plain(x)
        np.testing.assert_allclose(made[0].numpy(), wanted[0].numpy(), rtol=1e-6)
        assert made[1].item() == wanted[1].item()
    np.testing.assert_allclose(captured.mean.numpy(), plain.mean.numpy(), rtol=1e-6)
    assert plain.steps.item() == captured.steps.item() == 4
    with pytest.warns(UserWarning, match="the saved graph leaves the buffers mean, steps as they are, though"):
        jit.save(captured, tmp_path / "net", [InputSpec([None, 3])])
    loaded = jit.load(tmp_path / "net")
    assert [loaded(batches[0])[1].item() for _ in range(3)] == [5, 5, 5]  # it starts from what was saved, each time


CALLS = 0


def count_calls():
    global CALLS
    CALLS += 1
    return CALLS


def test_what_changes_between_calls_is_seen(monkeypatch):
    net = jit.to_static(Averaging(), full_graph=True)
    x = bireme.ones([2, 3])
    monkeypatch.setattr(Averaging, "calls", 0)
    assert net(x)[0].tolist() == [[1.0] * 3] * 2
    monkeypatch.setattr(Averaging, "scale", 3.0)
    assert net(x)[0].tolist() == [[3.0] * 3] * 2
    assert Averaging.calls == 2 and net.steps.item() == 2


def test_counters_of_classes_and_modules_are_not_touched_by_a_capture(monkeypatch):
    monkeypatch.setitem(globals(), "CALLS", 0)

    @jit.to_static(full_graph=True)
    def counted(x):
        return x * count_calls()

    assert [counted(bireme.ones([1])).item() for _ in range(3)] == [1, 2, 3] and CALLS == 3
    monkeypatch.setattr(Averaging, "calls", 5)
    graph(Averaging().forward, InputSpec([None, 3]))
    assert Averaging.calls == 5


class Failing(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear, self.last = nn.Linear(4, 4), None
        self.register_buffer("count", bireme.zeros([1]))

    def forward(self, x):
        self.last = x
        self.count = self.count + 1
        if self.linear(x).sum() > 0:
            self.last = x * 2
            raise KeyError("no such level")
        return x


def test_an_error_amid_a_capture_leaves_no_trace(tmp_path):
    net = Failing()
    with pytest.raises(KeyError, match="no such level"):
        jit.save(net, tmp_path / "net", [InputSpec([None, 4])])
    assert net.last is None and net.count.tolist() == [0] and "forward" not in net.linear.__dict__
    assert bireme.in_dynamic_mode() and (bireme.ones([1]) + 1).tolist() == [2] and list(tmp_path.iterdir()) == []


def test_one_layer_is_captured_by_several_threads():
    class Choosing(nn.Layer):
        def forward(self, x):
            for _ in range(20):
                x = x - 1 if x.sum() > 0 else x + 1
            return x

    net, found = nn.Sequential(Choosing(), Choosing()), []

    def work():
        found.append(len(graph(net.forward, InputSpec([None, 4])).__self__.program.ops))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and len(set(found)) == 1


# ---------------------------------------------------------------- sizes that are unknown


def by_branch(x):
    n = x.shape[0] if x.sum() > 30 else x.shape[1]
    return x * n + (x.shape[0] if x.shape[0] > 2 else 100)


def by_statement(x):
    if x.sum() > 30:
        n, m = x.shape[0], x.shape[0]
    else:
        n, m = x.shape[1], 0.5
    return bireme.zeros([n]), x * m


def by_loop(x):
    n = x.shape[0]
    while x.sum() < 1000:
        x = x * 2 + 1
        n = n * 2
    return x, n


def by_range(x):
    n, k = x.shape[0], 0
    for _ in range(x.shape[1]):
        n, k = n + x.shape[0], x.shape[1]
    return x * n + k


def by_arithmetic(x):
    n = x.shape[0]
    half = x[: int(n * 0.5)]
    return x * (n / 2), n**0.5 * x, 1 / n * x, x + (n << 1), half, bireme.zeros([math.ceil(n / 2), math.floor(n / 3)])


def by_membership(x):
    if x.shape[0] in (3, 7):
        x = x + 1
    if x.shape[1] not in [2]:
        x = x * 3
    if x.shape != [3, 4]:
        x = x - 5
    return x + 1 if x.shape == (x * 2).shape else x


def by_product(x):
    return x.reshape([np.prod(x.shape)]), x / math.sqrt(x.shape[1]), x * math.prod(x.shape)


@pytest.mark.parametrize(
    "fn",
    [by_branch, by_statement, by_loop, by_range, by_arithmetic, by_membership, by_product],
    ids=lambda fn: fn.__name__,
)
def test_sizes_are_computed_with_as_in_dynamic_code(fn):
    run = graph(fn, InputSpec([None, None]))
    for shape in ([3, 4], [5, 2], [2, 2]):
        x = bireme.arange(shape[0] * shape[1], dtype="float32").reshape(shape)
        wanted, got = fn(x), run(x)
        pairs = zip(wanted, got, strict=True) if isinstance(wanted, tuple) else [(wanted, got)]
        for one, other in pairs:
            np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-6)


WEIGHTS = [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("fn", "told"),
    [
        (lambda x: x * WEIGHTS[x.shape[0]], "which item of a list is meant by a size"),
        (lambda x: x * sum(WEIGHTS[: x.shape[0]]), "which item of a list is meant by a size"),
        (lambda x: x * {3: 1.0}[x.shape[0]], "which item of a dict is meant by a size"),
        (lambda x: bireme.concat([x] * x.shape[0]), "how often a list is repeated is not known"),
        (lambda x: x * np.log(x.shape[0]), "numpy.log of a size that is unknown"),
        (lambda x: x * np.asarray(x.shape), "numpy.asarray of a size that is unknown"),
    ],
)
def test_what_python_would_take_for_minus_one_is_refused(fn, told):
    with pytest.raises(RuntimeError, match=told):
        graph(fn, InputSpec([None, 4]))


# ---------------------------------------------------------------- how long things live


class Method(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @jit.to_static(input_spec=[InputSpec([None, 4])])
    def forward(self, x):
        return self.linear(x)

    @jit.to_static(input_spec=[InputSpec([None, 4])])
    def twice(self, x):
        return self.linear(x) * 2


def test_a_layer_with_captured_methods_is_freed():
    net = Method()
    net(x_of(2, 4))
    assert net.forward is net.forward and net.forward.program_cache
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_copies_of_a_layer_have_captured_methods_of_their_own(tmp_path):
    net, x = Method(), x_of(2, 4)
    net(x)
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), copy.copy(net)):
        assert made.forward.class_instance is made and net.forward.class_instance is net
        assert np.array_equal(made(x).numpy(), net(x).numpy())
    deep = copy.deepcopy(net)
    for p in deep.parameters():
        p.set_value(bireme.ones(p.shape))
    jit.save(deep, tmp_path / "net")
    again = jit.load(tmp_path / "net")
    assert np.array_equal(again(x).numpy(), deep(x).numpy()) and not np.array_equal(again(x).numpy(), net(x).numpy())
    assert len(again.parameters()) == 2 and np.array_equal(again.twice(x).numpy(), 2 * deep(x).numpy())


def test_what_a_function_was_called_with_is_freed():
    fn, x = jit.to_static(lambda x: x + 1), bireme.ones([4])
    fn(x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None and fn.main_program.ops[0].type == "add"


class Plain:
    @jit.to_static
    def method(self, x):
        return x + 1


def test_the_method_of_an_object_is_captured_once(monkeypatch):
    made, captures, captured = Plain(), [], jit.capture.captured
    monkeypatch.setattr(jit.capture, "captured", lambda *args: captures.append(args) or captured(*args))
    for _ in range(3):
        made.method(bireme.ones([2]))
    assert len(captures) == 1


# ---------------------------------------------------------------- files


def constant_net(n, value):
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(n)])
    for p in net.parameters():
        p.set_value(bireme.full(p.shape, value))
    return net


def test_a_model_that_is_replaced_meanwhile_is_loaded_whole(tmp_path):
    path, x = tmp_path / "net", bireme.ones([1, 4])
    nets = [constant_net(1, 1.0), constant_net(2, 0.5)]
    wanted = [net(x).tolist() for net in nets]
    jit.save(nets[0], path, [InputSpec([None, 4])])
    done = threading.Event()

    def replacing():
        for i in range(20):
            jit.save(nets[i % 2], path, [InputSpec([None, 4])])
        done.set()

    writer = threading.Thread(target=replacing)
    writer.start()
    while not done.is_set():
        assert jit.load(path)(x).tolist() in wanted
    writer.join()


def test_a_save_that_ends_amid_the_weights_leaves_both_files(tmp_path, monkeypatch):
    path, x = tmp_path / "net", bireme.ones([1, 4])
    net = constant_net(1, 1.0)
    jit.save(net, path, [InputSpec([None, 4])])
    synced = []

    def full(handle):
        synced.append(handle)
        if len(synced) > 1:  # one file is on the disk, the other is not
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        jit.save(constant_net(2, 0.5), path, [InputSpec([None, 4])])
    monkeypatch.undo()
    assert synced and jit.load(path)(x).tolist() == net(x).tolist()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.json", "net.safetensors"]


STEPS = ("fsync", "replace", "listdir", "unlink")  # of the module os, in any order


def killed_at(step, save):
    """Run a save in a process that is killed at one of its steps; whether it came to its end before."""
    child = os.fork()
    if child == 0:
        left = itertools.count(step, -1)

        def dying(function):
            def call(*args, **kwargs):
                if next(left) == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **kwargs)

            return call

        for name in STEPS:
            setattr(os, name, dying(getattr(os, name)))
        save()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
@pytest.mark.parametrize("same", [True, False], ids=["same graph", "another graph"])
def test_a_save_that_is_killed_at_any_step_leaves_a_whole_model(same, tmp_path):
    path, x, spec = str(tmp_path / "net"), bireme.ones([1, 4]), [InputSpec([None, 4])]
    nets = [constant_net(1, 1.0), constant_net(1 if same else 2, 0.5)]
    wanted = [net(x).tolist() for net in nets]
    old, new = [jit.saving.models_of(net, spec, "save") for net in nets]

    def save():
        if same:
            nets[0].set_state_dict(nets[1].state_dict())
        program_files.write(path, old if same else new)

    found = []
    for step in itertools.count():
        program_files.write(path, old)
        assert sorted(p.suffix for p in tmp_path.iterdir() if p.suffix != ".part") == [".json", ".safetensors"]
        done = killed_at(step, save)
        found.append(wanted.index(jit.load(path)(x).tolist()))
        if done:
            break
    assert step > 5 and found == sorted(found) and found[-1] == 1  # the old one up to some step, the new one from there


def test_two_writers_leave_the_model_of_one(tmp_path):
    path, x = tmp_path / "net", bireme.ones([1, 4])
    nets = [constant_net(1, 1.0), constant_net(2, 0.5)]
    models = [jit.saving.models_of(net, [InputSpec([None, 4])], "save") for net in nets]
    threads = [
        threading.Thread(target=lambda m=m: [program_files.write(str(path), m) for _ in range(10)]) for m in models
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert jit.load(path)(x).tolist() in [net(x).tolist() for net in nets]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.json", "net.safetensors"]


def test_a_graph_and_weights_of_two_saves_are_refused(tmp_path):
    net = constant_net(1, 1.0)
    jit.save(net, tmp_path / "net", [InputSpec([None, 4])])
    weights = (tmp_path / "net.safetensors").read_bytes()
    jit.save(jit.to_static(lambda x: net(x) * 2), tmp_path / "net", [InputSpec([None, 4])])
    (tmp_path / "net.safetensors").write_bytes(weights)
    with pytest.raises(bireme.errors.FileFormatError, match="a graph and weights that were not saved together"):
        jit.load(tmp_path / "net")


def test_a_model_of_hapi_is_saved_as_a_graph(tmp_path):
    x = x_of(2, 4)
    for net, inputs in ((nn.Linear(4, 3), [InputSpec([None, 4], name="x")]), (Method(), None)):
        bireme.Model(net, inputs).save(tmp_path / "net", training=False)
        assert np.array_equal(jit.load(tmp_path / "net")(x).numpy(), net(x).numpy())


# ---------------------------------------------------------------- wrong use


def test_specs_that_are_none_are_refused_where_they_are_given():
    with pytest.raises(TypeError, match=r"to_static\(input_spec\): expected a list of InputSpec, got 5"):
        jit.to_static(lambda x: x, input_spec=5)


def test_a_variable_that_was_kept_says_so():
    class Kept:
        __slots__ = ("x",)

    kept = Kept()

    def fn(x):
        kept.x = x * 2
        return x

    graph(fn, InputSpec([2]))
    with pytest.raises(RuntimeError, match="what captured code keeps elsewhere"):
        (bireme.ones([2]) + kept.x).numpy()


# ---------------------------------------------------------------- onnx


def cut_by_sizes(x):
    n = x.shape[0] if x.sum() > 0 else x.shape[1]
    return x * n + x.shape[0] / 2, x[: int(x.shape[0] * 0.5)], x[bireme.shape(x)[0] // 2 :, 1:]


def test_sizes_that_are_computed_with_are_exported(tmp_path):
    pytest.importorskip("onnx")
    bireme.onnx.export(jit.to_static(cut_by_sizes), tmp_path / "net", [InputSpec([None, 4])])
    again = bireme.onnx.load(tmp_path / "net.onnx")
    for x in (bireme.ones([3, 4]), -bireme.ones([6, 4])):
        for one, other in zip(cut_by_sizes(x), again(x), strict=True):
            np.testing.assert_allclose(other.numpy(), one.numpy())
    with pytest.raises(TypeError, match="a path that ends in a name"):
        bireme.onnx.export(nn.Linear(4, 4), f"{tmp_path}/", [InputSpec([None, 4])])
