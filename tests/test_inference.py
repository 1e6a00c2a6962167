"""Predictors: models of every format, handles, clones in threads, programs by shapes, passes and switches."""

import copy
import inspect
import subprocess
import sys
import threading
import types
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy as numpy_files

import bireme
from bireme import inference, jit, nn, onnx
from bireme.core.base import dtype as dtypes
from bireme.core.base import workers
from bireme.core.graph.graph import sig_of
from bireme.core.record.capture import capture
from bireme.core.tensor.tensor import wrap
from bireme.core.xla_exec import xla
from bireme.files import paddle_models
from bireme.inference import Config, DataType, PrecisionType, create_predictor, executors, loading, switches
from bireme.inference import executables as runs
from bireme.static import InputSpec
from tests.test_paddle_models import MODELS, array, close, lexical, written

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def net():
    bireme.seed(3)
    made = nn.Sequential(
        nn.Conv2D(3, 4, 3, padding=1, bias_attr=False), nn.BatchNorm2D(4), nn.Hardswish(),
        nn.Conv2D(4, 4, 3, stride=2, padding=1, groups=4), nn.ReLU(), nn.AdaptiveAvgPool2D(1), nn.Flatten(),
        nn.Linear(4, 5), nn.Softmax(),
    )  # fmt: skip
    made[1]._mean.set_value(np.linspace(-1, 1, 4, dtype="float32"))
    made.eval()
    return made


SPEC = [InputSpec([None, 3, None, None], "float32", "x")]


@pytest.fixture(scope="module")
def saved(net, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("model") / "net")
    jit.save(net, path, SPEC)
    return path


def python(text):
    """What a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout


def images(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def answer(predictor, *arrays):
    for name, a in zip(predictor.get_input_names(), arrays, strict=True):
        predictor.get_input_handle(name).copy_from_cpu(a)
    assert predictor.run() is None
    return [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]


# ---------------------------------------------------------------- formats


def test_our_own_format(net, saved):
    x = images(2, 3, 8, 8)
    # the last ones are the files that Paddle would have written in their place
    named = [(saved + program, saved + params) for program, params in (
        (".json", ".safetensors"), (".json", ".pdiparams"), (".pdmodel", ".pdiparams")
    )]  # fmt: skip
    for config in (Config(saved), *[Config(*files) for files in named]):
        found = answer(create_predictor(config), x)[0]
        np.testing.assert_allclose(found, net(bireme.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)


def test_weights_of_another_model_are_never_taken_for_those_that_were_named(net, saved, tmp_path):
    other, changed = str(tmp_path / "other"), copy.deepcopy(net)
    with bireme.no_grad():
        for p in changed.parameters():
            p.scale_(2.0)
    weights = numpy_files.load_file(saved + ".safetensors")
    names = {p.name for p in net.parameters()}
    weights = {name: 2 * a if name in names else a for name, a in weights.items()}
    numpy_files.save_file(weights, other + ".safetensors")
    x = images(2, 3, 8, 8)
    found = answer(create_predictor(Config(saved + ".pdmodel", other + ".pdiparams")), x)[0]
    np.testing.assert_allclose(found, changed(bireme.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(FileNotFoundError):
        create_predictor(Config(saved + ".pdmodel", str(tmp_path / "nowhere.pdiparams")))


def test_models_of_paddle(net, tmp_path):
    path = str(tmp_path / "net")
    paddle_models.save(jit.saving.models_of(net, SPEC, "save")["forward"], path)
    x = images(1, 3, 8, 8)
    wanted = net(bireme.to_tensor(x)).numpy()
    memory = Config()
    program, params = ((tmp_path / f"net.{end}").read_bytes() for end in ("json", "pdiparams"))
    memory.set_model_buffer(program, len(program), params, len(params))
    for config in (Config(path + ".json", path + ".pdiparams"), Config(path), Config(str(tmp_path)), memory):
        np.testing.assert_allclose(answer(create_predictor(config), x)[0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["net.pdmodel", "flow.json"])
def test_files_that_paddle_wrote(tmp_path, name):
    entry, stem = MODELS[name], str(written(tmp_path, name))
    predictor = create_predictor(Config(str(tmp_path / name), stem + ".pdiparams"))
    assert predictor.get_output_names() == entry["names"]
    for found, wanted in zip(answer(predictor, *map(array, entry["inputs"])), entry["outputs"], strict=True):
        close(found, array(wanted))


def test_onnx(net, tmp_path):
    path = str(tmp_path / "net.onnx")
    onnx.export(net, path, SPEC)
    x = images(1, 3, 8, 8)
    predictor = create_predictor(Config(path))
    np.testing.assert_allclose(answer(predictor, x)[0], net(bireme.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
    assert predictor.get_input_names() == ["x"]


def test_what_is_no_model_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"create_predictor\(config\): expected a Config with a model, got none set"):
        create_predictor(Config())
    with pytest.raises(TypeError, match=r"create_predictor\(config\): expected a Config"):
        create_predictor("model")
    with pytest.raises(FileNotFoundError):
        create_predictor(Config(str(tmp_path / "nowhere.pdmodel"), str(tmp_path / "nowhere.pdiparams")))


# ---------------------------------------------------------------- handles


def test_handles_as_in_paddle(saved):
    """What paddlepaddle 3.2.2 gave for a model of two outputs classes, call by call."""
    predictor = create_predictor(Config(saved))
    x, out = predictor.get_input_handle("x"), predictor.get_output_handle(predictor.get_output_names()[0])
    assert (x.shape(), x.type(), x.lod(), out.shape()) == ([0], DataType.FLOAT32, [], [0])
    with pytest.raises(RuntimeError, match="has no values yet"):
        out.copy_to_cpu()
    with pytest.raises(RuntimeError, match="run: the input x has no values"):
        predictor.run()
    with pytest.raises(TypeError, match=r"copy_from_cpu\(data\): expected an array of NumPy, got \[1.0\]"):
        x.copy_from_cpu([1.0])
    with pytest.raises(RuntimeError, match=r"get_input_handle\(name\): expected one of x, got 'y'"):
        predictor.get_input_handle("y")
    given = images(2, 3, 8, 8)
    x.copy_from_cpu(given)
    given[:] = 0  # it was copied
    predictor.run()
    first = out.copy_to_cpu()
    assert first.flags.writeable and out.shape() == [2, 5] and out.type() == DataType.FLOAT32
    x.copy_from_cpu(images(2, 3, 8, 8).transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2))
    predictor.run()
    assert np.array_equal(out.copy_to_cpu(), first)
    x.reshape([1, 3, 8, 8])
    assert x.shape() == [1, 3, 8, 8]
    with pytest.raises(ValueError, match=r"reshape\(shape\): expected non-negative integers"):
        x.reshape([-1, 3])
    x.copy_from_cpu(images(2, 3, 8, 8).astype("int32"))
    assert x.type() == DataType.INT32


def test_tensors_in_and_out(net, saved):
    predictor = create_predictor(Config(saved))
    t = bireme.to_tensor(images(2, 3, 8, 8))
    made = predictor.run([t])
    assert [type(y) for y in made] == [bireme.Tensor] and made[0].name == predictor.get_output_names()[0]
    np.testing.assert_allclose(made[0].numpy(), net(t).numpy(), rtol=1e-5, atol=1e-6)
    handle = predictor.get_input_handle("x")
    handle.share_external_data(t)
    predictor.run()
    assert np.array_equal(predictor.get_output_handle(made[0].name).copy_to_cpu(), made[0].numpy())
    with pytest.raises(TypeError, match="share_external_data"):
        handle.share_external_data(images(1))
    with pytest.raises(ValueError, match=r"run\(inputs\): expected 1 tensors \(x\), got 2"):
        predictor.run([t, t])


def test_sequences(tmp_path):
    """Rows of several sequences come with where each of them begins and ends, and so do results."""
    lexical(tmp_path, False, False)
    predictor = create_predictor(Config(str(tmp_path)))
    assert predictor.get_input_names() == ["words"] and predictor.get_output_names() == ["path", "last"]
    words = np.random.default_rng(2).integers(0, 7, (5, 1))
    wanted = paddle_models.load(tmp_path).run(words, np.array([2, 3]))
    handle = predictor.get_input_handle("words")
    handle.set_lod([[0, 2, 5]])
    path, last = answer(predictor, words)
    assert path.tolist() == wanted[0].tolist() and np.allclose(last, wanted[1].numpy())
    assert predictor.get_output_handle("path").lod() == [[0, 2, 5]]
    assert predictor.get_output_handle("last").lod() == []
    handle.set_lod([[0, 4]])
    with pytest.raises(ValueError, match=r"set_lod\(lod\): expected offsets up to the 5 rows of words, got \[0, 4\]"):
        predictor.run()
    with pytest.raises(ValueError, match=r"set_lod\(lod\): expected offsets that begin with 0 and do not fall"):
        handle.set_lod([[1, 2]])


# ---------------------------------------------------------------- programs


def counted(predictor):
    shared = predictor._shared
    return len(shared._compiled), len(shared._shapes)


def test_the_first_shapes_are_compiled_and_others_when_they_come_often(saved):
    predictor = create_predictor(Config(saved))
    first = answer(predictor, images(1, 3, 8, 8))[0]
    assert counted(predictor) == (1, 1)
    other = answer(predictor, images(2, 3, 8, 8))[0]
    assert counted(predictor) == (1, 2)
    for _ in range(runs.OFTEN - 1):
        again = answer(predictor, images(2, 3, 8, 8))[0]
    assert counted(predictor) == (2, 2)
    np.testing.assert_allclose(again, other, rtol=1e-5, atol=1e-6)
    assert np.array_equal(answer(predictor, images(1, 3, 8, 8))[0], first)


def test_shapes_that_come_seldom_compile_nothing(saved):
    """However many runs there are in all: a compile takes as long as hundreds of them."""
    predictor = create_predictor(Config(saved))
    for _ in range(runs.OFTEN + 1):
        for n in range(4, 4 + 2 * runs.SHARE):
            answer(predictor, images(1, 3, n, 4))
    assert counted(predictor) == (1, 2 * runs.SHARE)


def test_beside_no_run_waits_for_the_compiler(saved, monkeypatch):
    """Runs are counted: some by the engine, then a thread compiles, and its program takes over at a count of its own."""
    monkeypatch.setattr(runs, "LOOK", 2)
    monkeypatch.setattr(
        runs, "COMPILE_CALL", 0.0
    )  # the compiler is thought to take nothing: two runs, and two beside it
    begun, own = [], runs.workers.submit
    monkeypatch.setattr(runs.workers, "submit", lambda *a, **k: begun.append(own(*a, **k)) or begun[-1])
    config = Config(saved)
    config.set_compiling("beside")
    predictor, x, counts = create_predictor(config), images(1, 3, 8, 8), []
    by_engine, engine = [], predictor._shared._by_engine
    monkeypatch.setattr(predictor._shared, "_by_engine", lambda a: by_engine.append(1) or engine(a))
    results = []
    for _ in range(5):
        results.append(answer(predictor, x)[0])
        counts.append((len(by_engine), len(begun)))
    assert counts == [(1, 0), (2, 1), (3, 1), (3, 1), (3, 1)] and begun[0].done()
    np.testing.assert_allclose(results[-1], results[0], rtol=1e-5, atol=1e-6)
    assert np.array_equal(results[3], results[4])


def test_beside_shapes_that_do_not_come_back_compile_nothing(saved, monkeypatch):
    monkeypatch.setattr(runs.workers, "submit", lambda *a, **k: pytest.fail("nothing is to be compiled"))
    config = Config(saved)
    config.set_compiling("beside")
    predictor = create_predictor(config)
    for n in range(4, 24):
        answer(predictor, images(1, 3, n, 4 + n % 3))
    assert counted(predictor) == (0, 20)


def test_results_that_are_read_are_left_on_the_host(monkeypatch, tmp_path):
    """The CPU taken for an accelerator: the program's results lie where the host reads them, also one from the disk."""
    monkeypatch.setenv("BIREME_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(xla, "_fit_on_host", lambda graph, live: True)
    given = images(3, 5)
    for _ in range(2):
        with bireme.no_grad(), capture() as captured:
            x = wrap(captured.input((3, 5), dtypes.of("float32", "x")))
            found = captured.finish([(x @ x.t() * 0.5)._value])
        (made,) = found.compiled(to_host=True)([given])
        assert made.sharding.memory_kind == xla.HOST_MEMORY
        np.testing.assert_allclose(runs.as_array(made), given @ given.T * 0.5, rtol=1e-6)
        assert runs.as_array(made).flags.writeable
        (kept,) = found.compiled()([given])
        assert kept.sharding.memory_kind == "device"
        workers.submit(lambda: None).result()


def test_large_results_stay_on_their_device(monkeypatch):
    class Elsewhere:
        is_cpu, jax = False, jax.devices()[0]

    graph = types.SimpleNamespace(device=Elsewhere, value_sigs=[sig_of((1 << 20,), dtypes.of("float32", "x"))])
    assert xla._fit_on_host(graph, (0,))
    monkeypatch.setattr(xla, "MOST_ON_HOST", 1 << 21)
    assert not xla._fit_on_host(graph, (0,))


def test_each_shape_is_compiled_at_once_where_that_is_asked_for(saved):
    config = Config(saved)
    config.set_compiling("each")
    predictor = create_predictor(config)
    for n in (4, 5, 6, 5):
        answer(predictor, images(1, 3, n, 4))
    assert counted(predictor) == (3, 3)
    with pytest.raises(
        ValueError, match=r"set_compiling\(when\): expected one of 'first', 'each', 'beside', got 'now'"
    ):
        config.set_compiling("now")


@pytest.fixture
def own_executors(monkeypatch):
    """The executors that are there by themselves, whatever else was registered in this process."""
    own = {name: each for name, each in executors._ALL.items() if type(each).__module__.startswith("bireme.")}
    monkeypatch.setattr(executors, "_ALL", own)


def test_executors(net, saved, tmp_path, own_executors):
    """A runtime that is registered gets the model with its names and open sizes, and runs it in place of the engine."""
    x, seen = images(2, 3, 8, 8), []

    class Noted:
        name = "noted"

        def prepare(self, model):
            seen.append((model.inputs, model.outputs, model.device, model.threads, model.onnx()[:2]))
            return lambda arrays: [np.full((len(arrays[0]), 5), 7, np.float32)]

    inference.register_executor(Noted())
    try:
        config = Config(saved)
        config.set_executor("noted")
        config.set_cpu_math_library_num_threads(3)
        assert (answer(create_predictor(config), x)[0] == 7).all() and "| executor " in config.summary()
    finally:
        del executors._ALL["noted"]
    ((inputs, outputs, device, threads, first),) = seen
    assert inputs == {"x": (np.dtype("float32"), [-1, 3, -1, -1])} and len(outputs) == 1
    assert (device, threads, first) == ("cpu", 3, b"\x08\x08")  # how an ONNX file begins: its version
    with pytest.raises(ValueError, match=r"set_executor\(name\): expected one of 'bireme', 'onnxruntime', got 'noted'"):
        config.set_executor("noted")
    with pytest.raises(
        TypeError, match=r"register_executor\(executor\): expected an object with a name and a method prepare"
    ):
        inference.register_executor(3)


def test_onnxruntime_runs_a_model_when_it_is_asked_to(net, saved, tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    x, wanted = images(2, 3, 8, 8), answer(create_predictor(Config(saved)), images(2, 3, 8, 8))[0]
    onnx.export(net, str(tmp_path / "net.onnx"), SPEC)
    for path in (saved, str(tmp_path / "net.onnx")):
        config = Config(path)
        assert create_predictor(config).report[-1:] != ["run by onnxruntime"]
        config.enable_onnxruntime()
        predictor = create_predictor(config)
        assert [line.partition(":")[0] for line in predictor.report] == [
            "fold_batch_norm",
            "run by onnxruntime",
        ] and config.onnxruntime_enabled()
        np.testing.assert_allclose(answer(predictor, x)[0], wanted, rtol=1e-4, atol=1e-6)
        with pytest.raises(RuntimeError, match="there are no operations to see where an executor runs the whole model"):
            predictor.register_input_hook(print)
        (tensor,) = predictor.clone().run([bireme.to_tensor(x)])
        np.testing.assert_allclose(tensor.numpy(), wanted, rtol=1e-4, atol=1e-6)
    config.disable_onnxruntime()
    assert config.executor() == "bireme"


def test_optimize_measures_and_says_what_it_chose(saved, monkeypatch, own_executors):
    class Slow:
        name = "slow"

        def prepare(self, model):
            raise RuntimeError("no such chip")

    inference.register_executor(Slow())
    ticks = iter([0.0, 3e-3, 0.0, 2e-3, 0.0, 3e-3, 0.0, 2e-3])
    monkeypatch.setattr(executors, "time", types.SimpleNamespace(perf_counter=lambda: next(ticks)))
    try:
        choice = inference.optimize(Config(saved), [images(1, 3, 8, 8)], rounds=2)
    finally:
        del executors._ALL["slow"]
    assert choice.config.executor() == choice.executor == "onnxruntime"
    assert str(choice) == "onnxruntime is chosen: bireme 3.00 ms, onnxruntime 2.00 ms; slow: no such chip"
    with pytest.raises(ValueError, match=r"optimize\(rounds\): expected a positive integer, got 0"):
        inference.optimize(Config(saved), [], rounds=0)


def test_a_program_that_rests_makes_room(saved, monkeypatch):
    monkeypatch.setattr(runs, "MOST", 1)
    monkeypatch.setattr(runs, "OFTEN", 2)
    monkeypatch.setattr(runs, "RESTING", 3)
    predictor = create_predictor(Config(saved))
    answer(predictor, images(1, 3, 8, 8))
    key = next(iter(predictor._shared._compiled))
    for _ in range(2):
        answer(predictor, images(2, 3, 8, 8))
        assert list(predictor._shared._compiled) == [key]
    answer(predictor, images(2, 3, 8, 8))
    assert counted(predictor)[0] == 1 and key not in predictor._shared._compiled


def test_memory_stays_flat_over_random_shapes(saved, full):
    """Of shapes that do not come back nothing is kept but a count, and no more of these than a bound."""
    predictor = create_predictor(Config(saved))
    rng, most = np.random.default_rng(0), 10_000 if full else 40
    sizes = [(1, 3, *rng.integers(4, 200 if full else 40, 2)) for _ in range(most)]
    for shape in sizes:
        answer(predictor, np.zeros(shape, np.float32))
    compiled, shapes = counted(predictor)
    assert compiled <= runs.MOST and shapes <= min(runs.MOST_SHAPES, most)


def test_shapes_that_are_counted_are_bounded(saved, monkeypatch):
    monkeypatch.setattr(runs, "MOST_SHAPES", 3)
    predictor = create_predictor(Config(saved))
    for n in range(4, 10):
        answer(predictor, images(1, 3, n, 4))
    assert counted(predictor) == (1, 3) and list(predictor._shared._compiled) == [((((1, 3, 4, 4), "float32"),), False)]


def test_what_depends_on_values_is_left_to_the_engine(tmp_path):
    def chosen(x):
        y = bireme.exp(bireme.tanh(x) * 2) + 1
        return bireme.masked_select(y, y > 2), y

    jit.save(jit.to_static(chosen, input_spec=[InputSpec([None], "float32", "x")]), str(tmp_path / "net"))
    predictor = create_predictor(Config(str(tmp_path / "net")))
    x = np.linspace(-1, 1, 6, dtype="float32")
    few, y = answer(predictor, x)
    wanted = np.exp(np.tanh(x) * 2) + 1
    np.testing.assert_allclose(y, wanted, rtol=1e-5)
    np.testing.assert_allclose(few, wanted[wanted > 2], rtol=1e-5)
    assert answer(predictor, -np.ones(6, "float32"))[0].shape == (0,)


def test_threads_get_the_same_bits(saved):
    pool = inference.PredictorPool(Config(saved), 16)
    given = [images(2, 3, 8, 8, seed=i) for i in range(4)]
    found = {}

    def work(i):
        predictor = pool.retrieve(i)
        found[i] = [answer(predictor, x)[0].tobytes() for x in given for _ in range(3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 16 and all(each == found[0] for each in found.values())
    assert len({id(pool.retrieve(i)._shared) for i in range(16)}) == 1
    with pytest.raises(IndexError, match=r"retrieve\(index\): expected 0 to 15, got 16"):
        pool.retrieve(16)
    with pytest.raises(ValueError, match=r"PredictorPool\(size\): expected a positive integer, got 0"):
        inference.PredictorPool(Config(saved), 0)


def test_clones_have_handles_of_their_own(saved):
    first = create_predictor(Config(saved))
    one = answer(first, images(1, 3, 8, 8))[0]
    second = first.clone()
    with pytest.raises(RuntimeError, match="has no values"):
        second.run()
    answer(second, images(1, 3, 8, 8, seed=5))
    assert np.array_equal(first.get_output_handle(first.get_output_names()[0]).copy_to_cpu(), one)


def test_a_second_start_traces_nothing(saved, tmp_path, monkeypatch):
    script = (
        "import sys, numpy as np, bireme\n"
        "assert [m for m in sys.modules if m.startswith('bireme.inference')] == ['bireme.inference']  # it is lazy\n"
        "from bireme.core.xla_exec import xla\n"
        "traced = []\n"
        "own = xla.trace\n"
        "xla.trace = lambda *a: traced.append(1) or own(*a)\n"
        f"p = bireme.inference.create_predictor(bireme.inference.Config({saved!r}))\n"
        "y = p.run([bireme.to_tensor(np.ones((1, 3, 8, 8), 'float32'))])[0].numpy()\n"
        "print(len(traced), y.tobytes().hex())\n"
    )
    monkeypatch.setenv("BIREME_CACHE_DIR", str(tmp_path / "cache"))
    first, second = (python(script).split() for _ in range(2))
    assert (first[0], second[0]) == ("1", "0") and first[1] == second[1]


# ---------------------------------------------------------------- passes, precision, switches


def test_passes_are_made_and_told(saved):
    config = Config(saved)
    told = "\n".join(create_predictor(config).report)
    assert "freeze: 9 parameters and buffers are constants" in told
    assert "fold_batch_norm: folded" in told and "channels_last: " in told
    config.delete_pass("channels_last")
    assert "channels_last" not in "\n".join(create_predictor(config).report)
    config.switch_ir_optim(False)
    assert create_predictor(config).report == [] and not config.ir_optim()
    config.enable_custom_passes(["dead_code"], True)
    assert Config(config).pass_builder().all_passes() == ["dead_code"]
    with pytest.raises(ValueError, match=r"enable_custom_passes\(passes\): expected some of .*, got 'fuse'"):
        config.enable_custom_passes(["fuse"])


def test_weights_for_an_accelerator_are_laid_out_and_rounded_once(net, saved, monkeypatch):
    """What a run would otherwise do again is done while the model is read; here a CPU runs the model that comes out."""
    monkeypatch.setattr(Config, "use_gpu", lambda self: True)
    config = Config(saved)
    config._precision = PrecisionType.Bfloat16
    predictor = create_predictor(config)
    assert [line for line in predictor.report if line.endswith("is stored as [4, 3, 3, 3]")]
    weights = [x for o in predictor._shared.model.program.operations for x in o.reads if isinstance(x, bireme.Tensor)]
    assert {x.dtype.name for x in weights} == {"bfloat16"}
    x = images(2, 3, 8, 12)
    np.testing.assert_allclose(answer(predictor, x)[0], net(bireme.to_tensor(x)).numpy(), rtol=0.05, atol=0.01)


def test_results_are_gone_when_a_run_fails(saved):
    predictor = create_predictor(Config(saved))
    assert answer(predictor, images(1, 3, 8, 8))[0].shape == (1, 5)
    predictor.get_input_handle("x").copy_from_cpu(images(1, 2, 8, 8))
    with pytest.raises(ValueError, match="conv2d"):
        predictor.run()
    with pytest.raises(RuntimeError):
        predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()


def test_half_precision(net, saved, tmp_path):
    x = images(1, 3, 8, 8)
    wanted = net(bireme.to_tensor(x)).numpy()
    config = Config(saved)
    config.enable_mkldnn_bfloat16()
    found = answer(create_predictor(config), x)[0]
    assert found.dtype == np.float32 and 0 < np.abs(found - wanted).max() < 0.02
    paths = [str(tmp_path / name) for name in ("half/net.json", "half/net.params")]
    inference.convert_to_mixed_precision(
        saved + ".json", saved + ".safetensors", *paths, PrecisionType.Bfloat16, inference.PlaceType.CPU
    )
    again = create_predictor(Config(*paths))
    assert np.abs(answer(again, x)[0] - wanted).max() < 0.02
    kinds = {t.dtype.name for t in loading.read(*paths).program.tensors.values()}
    assert kinds == {"bfloat16", "float32"}
    with pytest.raises(ValueError, match=r"convert_to_mixed_precision\(mixed_precision\): expected Half or Bfloat16"):
        inference.convert_to_mixed_precision("a", "b", "c", "d", PrecisionType.Int8, inference.PlaceType.CPU)
    with pytest.raises(
        ValueError, match=r"enable_use_gpu\(precision_mode\): expected Float32, Half or Bfloat16, got Int8"
    ):
        Config().enable_use_gpu(100, 0, PrecisionType.Int8)


def test_hooks_see_every_value(saved):
    config = Config(saved)
    config.switch_ir_optim(False)
    predictor, seen = create_predictor(config), []
    predictor.register_output_hook(lambda kind, name, t: seen.append((kind, name, t.shape)))
    x = images(1, 3, 8, 8)
    answer(predictor, x)
    assert [kind for kind, _, _ in seen][:3] == ["conv2d", "batch_norm", "hardswish"]
    assert seen[-1][0] == "softmax" and seen[-1][2] == [1, 5]
    with pytest.raises(TypeError, match=r"register_input_hook\(hook\): expected a function"):
        predictor.register_input_hook(3)


def test_every_switch_is_in_one_of_three_groups():
    """The page on inference lists them; a switch that does nothing says so, one that is refused says why."""
    text = (ROOT / "docs" / "inference.md").read_text()
    for name in (*switches.NO_EFFECT, *switches.REFUSED):
        assert f"`{name}`" in text, name
    config = Config()
    for name, (_, _, sets) in switches.NO_EFFECT.items():
        method = getattr(config, name)
        needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        assert method(*[7] * len(needed)) is None
        for key, value in sets.items():
            told = dict.fromkeys([p.name for p in needed], 7).get(value, value) if isinstance(value, str) else value
            if not isinstance(value, str) or value in [p.name for p in needed]:
                assert getattr(config, key)() == told, (name, key)
    for name in switches.REFUSED:
        method = getattr(config, name)
        needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        with pytest.raises(NotImplementedError, match=f"Config.{name} is not supported: "):
            method(*[7] * len(needed))
    with pytest.raises(TypeError, match=r"Config.disable_glog_info: expected its arguments, got too many"):
        config.disable_glog_info(1)


def test_kinds_are_numbered_as_in_paddle():
    names = ["FLOAT32", "INT64", "INT32", "UINT8", "INT8", "FLOAT16", "BOOL", "FLOAT64", "BFLOAT16"]
    assert [DataType[n].value for n in names] == list(range(9))
    assert [inference.get_num_bytes_of_data_type(DataType[n]) for n in names] == [4, 8, 4, 1, -1, -1, -1, -1, -1]
    assert [p.value for p in PrecisionType] == [0, 1, 2, 3] and Config.Precision is PrecisionType
    assert [inference.PlaceType[n].value for n in ["UNK", "CPU", "GPU", "XPU", "CUSTOM"]] == [-1, 0, 1, 2, 4]


# ---------------------------------------------------------------- functions as saved models


class Scaled(nn.Layer):
    def __init__(self, rate=0.5):
        super().__init__()
        self.linear, self.drop = nn.Linear(3, 4), nn.Dropout(rate)

    def forward(self, x, factor=2.0):
        return self.drop(self.linear(x)) * factor

    def several(self, x, pair):
        return self.linear(x), pair[0] + pair[1]


def test_a_layer_runs_as_a_saved_model():
    net, x = Scaled(), bireme.ones([2, 3])
    wanted = net.linear(x).numpy()
    several = bireme.incubate.inference(net.several)
    assert [y.shape for y in several(x, [x, x])] == [[2, 4], [2, 3]]
    assert bireme.incubate.inference(net) is net and bireme.incubate.inference(net) is net
    np.testing.assert_allclose(net(x).numpy(), 2 * wanted, rtol=1e-6)  # as it evaluates
    np.testing.assert_allclose(net(x, factor=3.0).numpy(), 3 * wanted, rtol=1e-6)
    for n in (5, 7):  # a size that has changed stays open
        np.testing.assert_allclose(net(bireme.ones([n, 3])).numpy(), 2 * wanted[[0] * n], rtol=1e-5)
    assert [sizes for sizes, _ in net.forward.models.values()] == [[[None, 3]], [[2, 3]]]
    net.linear.weight.set_value(np.zeros((3, 4), "float32"))
    np.testing.assert_allclose(net(bireme.ones([7, 3])).numpy(), 2 * wanted[[0] * 7], rtol=1e-5)  # it was saved before
    again = copy.deepcopy(net)
    np.testing.assert_allclose(again(x).numpy(), np.broadcast_to(2 * net.linear.bias.numpy(), (2, 4)))


def test_a_decorated_method_uses_a_model_that_is_kept(tmp_path):
    class Kept(Scaled):
        @bireme.incubate.inference(cache_static_model=True, save_model_dir=tmp_path, precision_mode="bfloat16")
        def forward(self, x):
            return self.linear(x)

    net, x = Kept(), bireme.ones([2, 3])
    wanted = net.linear(x).numpy()
    first = net(x).numpy()
    assert 0 < np.abs(first - wanted).max() < 0.02  # in 8 bits
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}
    np.testing.assert_array_equal(Kept()(x).numpy(), first)


def test_what_cannot_run_as_a_saved_model_is_told():
    with pytest.raises(TypeError, match=r"inference\(function\): expected a layer or a function, got 3"):
        bireme.incubate.inference(3)
    with pytest.raises(ValueError, match=r"inference\(precision_mode\): expected one of 'float32', .* got 'int8'"):
        bireme.incubate.inference(Scaled(), precision_mode="int8")
    with pytest.raises(ValueError, match=r"inference\(function\): expected a call with tensors, got none"):
        bireme.incubate.inference(lambda x: x)(3)
