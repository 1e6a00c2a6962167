"""Which executor runs a segment: by counts and sizes alone, bounded, explained, and open to others."""

import os
import re
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.base import dtype as dtypes
from bireme.core.base import machine, workers
from bireme.core.base.registry import OPS
from bireme.core.graph import cost, executor
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import interpreter, planning
from bireme.core.xla_exec import compile_cache, matmul_backend, xla

pytestmark = pytest.mark.usefixtures("compiled_when_met_again")


def stats():
    return bireme.debug.stats()


def randn(*shape, seed=0):
    return bireme.to_tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


@pytest.fixture(autouse=True)
def clean():
    bireme.debug.flush()
    bireme.debug.reset_stats()
    before = bireme.get_flags(["FLAGS_deterministic", "FLAGS_interpret", "FLAGS_programs_per_skeleton"])
    yield
    bireme.debug.flush()
    bireme.set_flags(before)


def python(script, **env):
    """Run a script in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True, text=True, timeout=200, env={**os.environ, **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---------------------------------------------------------------- which tier


def test_interpreted_at_first_compiled_from_the_second_meeting_on():
    x = randn(401, 177)
    for n in range(4):
        (x.exp() * 2.0 + x.tanh()).sum(axis=0).numpy()
        assert stats()["compiles"] == (n > 0)
        assert stats()["interprets"] == 1


def test_small_segments_are_never_compiled():
    x = randn(3)
    for _ in range(20):
        (x + 1.0).numpy()
    assert stats()["compiles"] == 0
    assert stats()["interprets"] == 20


def test_loops_inside_of_operators_count():
    """Their rounds are known once they are traced for the interpreter, which takes 50 ms where a program takes 1."""
    loss = bireme.nn.functional.rnnt_loss
    label, times, lengths = [bireme.to_tensor(np.array(a, "int32")) for a in ([[1, 2]], [40], [2])]
    found = []
    for _ in range(3):
        x = bireme.to_tensor(np.random.default_rng(0).random((1, 40, 3, 5), np.float32), stop_gradient=False)
        loss(x, label, times, lengths).backward()
        found.append(x.grad.numpy())
    assert (stats()["compiles"], stats()["interprets"]) == (1, 1)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found[2], found[1])


def test_deterministic_always_compiles():
    bireme.set_flags({"FLAGS_deterministic": True})
    (randn(3, 5) + 1.0).numpy()
    assert stats() | {"compiles": 1, "interprets": 0} == stats()


def test_without_the_interpreter_everything_is_compiled():
    bireme.set_flags({"FLAGS_interpret": False})
    (randn(3, 6) * 2.0).numpy()
    assert stats()["interprets"] == 0
    assert stats()["compiles"] == 1


def test_both_tiers_give_the_same_numbers():
    x = randn(333, 244)
    found = [(x.exp() / (1.0 + x * x)).mean(axis=1).numpy() for _ in range(3)]
    assert stats()["compiles"] == 1
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    np.testing.assert_array_equal(found[1], found[2])


SCRIPT = """
import hashlib
import numpy as np
import bireme
from bireme import nn
bireme.seed(3)
model = nn.Sequential(nn.Linear(200, 300), nn.ReLU(), nn.Dropout(0.3), nn.Linear(300, 5))
rule = bireme.optimizer.AdamW(0.01, parameters=model.parameters())
h = hashlib.sha256()
for i in range(6):
    x, y = bireme.randn([16, 200]), bireme.randint(0, 5, [16])
    loss = nn.CrossEntropyLoss()(model(x), y)
    loss.backward()
    rule.step()
    rule.clear_grad()
    if i % 2:
        h.update(loss.numpy().tobytes())
for p in model.parameters():
    h.update(p.numpy().tobytes())
print(h.hexdigest(), bireme.debug.stats()["compiles"])
"""


def test_the_same_script_gives_the_same_bits_twice(tmp_path):
    env = {"BIREME_CACHE_DIR": str(tmp_path / "programs")}
    cold = python(SCRIPT, **env)
    assert (tmp_path / "programs").exists()
    assert python(SCRIPT, **env) == cold  # now the cache is warm


def test_a_resumed_run_equals_an_unbroken_one_under_deterministic():
    bireme.set_flags({"FLAGS_deterministic": True})

    def run(forces):
        bireme.seed(1)
        model = nn.Linear(12, 6)
        model.weight.set_value(np.linspace(-1, 1, 72, dtype="float32").reshape(12, 6))
        rule = bireme.optimizer.Adam(0.1, parameters=model.parameters())
        for i in range(6):
            loss = (model(randn(4, 12)) ** 2).mean()
            loss.backward()
            rule.step()
            rule.clear_grad()
            if forces and i % 2:
                model.weight.numpy()
        return model.weight.numpy()

    np.testing.assert_array_equal(run(False), run(True))


# ---------------------------------------------------------------- shapes and liveness


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("lengths", [None, [3, 6]])
def test_a_loop_of_a_new_length_waits_for_no_compiler(make, lengths):
    bireme.seed(0)
    layer, head = make(3, 4, direction="bidirect"), nn.Linear(8, 1)
    x = bireme.to_tensor(np.random.default_rng(0).standard_normal((2, 6, 3)).astype("float32"))

    def gradients():
        given = {} if lengths is None else {"sequence_length": bireme.to_tensor(lengths)}
        head(layer(x, **given)[0]).sum().backward()
        found = [p.grad.numpy() for p in layer.parameters()]
        layer.clear_gradients()
        head.clear_gradients()
        return found

    bireme.debug.reset_stats()
    first = gradients()
    stats = bireme.debug.stats()
    assert stats["primitives_by_jax"] == stats["compiles"] == 0
    again = [gradients() for _ in range(3)][-1]
    assert bireme.debug.stats()["compiles"] > 0, "a loop of Python is no lasting home, however small"
    for a, b in zip(first, again, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_varying_shapes_have_a_bounded_number_of_programs():
    bireme.set_flags({"FLAGS_programs_per_skeleton": 4})
    for _ in range(3):
        for n in range(50, 74):
            x = bireme.ones([n, 961])
            assert x.exp().sum(axis=0).mean().item() == pytest.approx(n * np.e, rel=1e-4)
    assert stats()["compiles"] <= 8


def test_a_few_sizes_are_compiled_and_many_are_not():
    def run(n):
        x = bireme.to_tensor(np.ones((n, 967), "float32"))
        return (x.exp() * x.sin() + x.tanh()).sum(axis=0).numpy()

    rng = np.random.default_rng(0)
    for n in rng.permutation(np.tile(np.arange(100, 190), 4)):  # sentences of every length
        run(int(n))
    assert stats()["compiles"] == 0
    for n in rng.permutation(np.tile(np.arange(200, 206), 40)):  # buckets: in the end each has its program
        run(int(n))
    with bireme.debug.no_recompile():
        interpreted = stats()["interprets"]
        for n in range(200, 206):
            run(n)
    assert stats()["interprets"] == interpreted


def test_a_last_batch_of_another_size_costs_one_compile():
    for _ in range(3):
        for n in (128, 128, 128, 53):
            x = bireme.to_tensor(np.ones((n, 971), "float32"))
            (x.exp() * x.sin() + x.tanh()).sum(axis=0).numpy()
    assert stats()["compiles"] == 2


@pytest.mark.parametrize("sizes, compiled", [((6, 3), 2), ((6, 5, 4), 0)])
def test_of_small_steps_whose_compile_takes_long_two_sizes_are_compiled(sizes, compiled):
    of_their_own = [nn.ReLU() for _ in sizes]  # another family for each case
    net = nn.Sequential(
        nn.Linear(20, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), *of_their_own, nn.LSTM(64, 32)
    )
    rule = bireme.optimizer.AdamW(0.01, parameters=net.parameters())
    for n in sizes * 3:
        net(randn(n, 6, 20))[0].square().mean().backward()
        rule.step()
        rule.clear_grad()
    bireme.debug.flush()
    assert stats()["compiles"] == compiled


def test_a_recurrence_of_every_length_by_hand_is_one_family():
    cell, width = nn.GRUCell(16, 16), 16
    rng = np.random.default_rng(0)
    for n in rng.permutation(np.tile(np.arange(5, 17), 3)):
        h, x = bireme.zeros([8, width]), bireme.to_tensor(rng.random((8, int(n), width), np.float32))
        for t in range(int(n)):
            h, _ = cell(x[:, t], h)
        (h**2).mean().backward()
        cell.clear_gradients()
    assert stats()["compiles"] <= 2, "each length would be compiled when it came back"


def test_a_long_loop_of_tiny_operators_waits_for_no_compiler():
    x = bireme.zeros([60, 40])
    for i in range(60):
        for j in range(40):
            x[i, j] = float(i * j)
    p = bireme.zeros([3])
    for _ in range(7000):
        p = p + 1.0
    np.testing.assert_array_equal(x.numpy(), np.outer(np.arange(60), np.arange(40)))
    assert p.tolist() == [7000.0] * 3
    assert stats()["compiles"] == 0


def test_the_weights_of_a_second_model_wait_for_no_compiler():
    for _ in range(4):
        nn.Sequential(nn.Linear(100, 200), nn.LSTM(200, 50), nn.Conv2D(8, 16, 3))
        bireme.debug.flush()
    assert stats()["compiles"] == 0


def test_the_estimate_of_work_knows_how_much_a_form_does():
    assert cost.bytecode_steps(None) == cost.TRACED and cost.bytecode_steps(np.exp) == cost.UFUNC
    assert (
        cost.bytecode_steps(OPS["batch_norm_of"].numpy_form)
        > 2 * cost.bytecode_steps(OPS["silu_of"].numpy_form)
        > cost.UFUNC
    )
    image, kernel = sig_of((1, 8, 20, 20), dtypes.float32), sig_of((8, 8, 3, 3), dtypes.float32)
    convolved = OPS["conv2d"].bind((1, 1, None), ((1, 1), ((1, 1), (1, 1)), (1, 1), 1, "NCHW"))
    assert convolved.use((image, kernel)).work > 10 * OPS["relu"].bind((1,), ()).use((image,)).work


def test_a_small_network_for_images_is_compiled():
    net = nn.Sequential(
        nn.Conv2D(1, 6, 3), nn.ReLU(), nn.MaxPool2D(2), nn.Conv2D(6, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(968, 10)
    )
    with bireme.no_grad():
        for seed in range(4):
            net(randn(4, 1, 28, 28, seed=seed)).numpy()
    assert stats()["compiles"] == 1


def test_the_growing_axis_is_named():
    for n in (81, 82, 83):
        x = bireme.to_tensor(np.ones((n, 957), "float32"))
        (x.exp() + x).sum(axis=0).numpy()
    assert any("axis 0" in row["why"] for row in bireme.debug.explain())


def test_what_is_held_costs_a_bounded_number_of_compiles():
    x = randn(271, 263)
    held = []
    for i in range(24):
        a = x.exp()
        b = a * 2.0
        c = b + a
        d = c.tanh()
        held.append([t for k, t in enumerate((a, b, c, d)) if (i >> k) & 1] + [d])
        del a, b, c
        d.numpy()
    assert stats()["compiles"] <= 4
    for group in held:
        for t in group:
            assert np.isfinite(t.numpy()).all()


# ---------------------------------------------------------------- told to the user


def test_no_recompile_names_cause_and_line():
    def run(n):
        x = bireme.to_tensor(np.ones((n, 959), "float32"))
        return (x.exp() * x.tanh()).sum(axis=0).numpy()

    run(91), run(91)
    with bireme.debug.no_recompile():
        run(91)
    run(92)
    with pytest.raises(bireme.debug.RecompileError) as e, bireme.debug.no_recompile():
        run(92)
    assert "test_tiers.py:" in str(e.value)
    assert "axis 0" in str(e.value)
    run(92)  # and it is usable afterwards


def test_explain_has_a_row_per_segment():
    x = randn(411, 252)
    for _ in range(3):
        (x.exp() + 1.0).sum(axis=1).numpy()
    (row,) = bireme.debug.explain()
    assert row["segment"].startswith("test_tiers.py:")
    assert row["ops"] == 3
    assert row["compiles"] == 1
    assert row["interpreted"] == 1
    assert row["hits"] == 1
    assert row["compile_ms"] > 0
    assert {"met", "MB", "why"} <= set(row)
    assert row["run by"] == "one program"
    assert re.search(r"segment\s+ops", str(bireme.debug.explain()))


def test_the_table_shows_what_ran_since_the_reset():
    x = bireme.to_tensor(np.ones((3, 5), "float32"))
    (x * 2.0 - 7.0).numpy()
    bireme.debug.reset_stats()
    assert bireme.debug.explain() == []
    for _ in range(3):
        (x * 2.0 - 7.0).numpy()
    (row,) = bireme.debug.explain()
    assert (row["ops"], row["met"] + row["hits"], row["compiles"]) == (2, 3, 0)
    assert row["run by"] == "the interpreter"


def test_stats_are_documented_counters():
    assert set(stats()) >= {
        "compiles",
        "interprets",
        "flushes",
        "cache_hits",
        "nodes",
        "compile_ms",
        "primitives_by_jax",
    }
    bireme.debug.reset_stats()
    assert set(stats().values()) == {0}


# ---------------------------------------------------------------- another executor


class Counting:
    """An executor of a third party: counts and leaves the work to the interpreter."""

    name = "counting"

    def __init__(self):
        self.prepared = self.called = 0

    def prepare(self, graph, live, donate, device):
        self.prepared += 1
        inner = interpreter.INTERPRETER.prepare(graph, live, donate, device)

        def call(leaves, vectors):
            self.called += 1
            return inner(leaves, vectors)

        return call


def test_a_third_executor_runs_everything():
    counting = Counting()
    bireme.device.register_executor(counting)
    x, layer = randn(6, 8), nn.Linear(8, 4)
    rule = bireme.optimizer.SGD(0.1, parameters=layer.parameters())

    def step():
        (layer(x) ** 2).mean().backward()
        rule.step()
        rule.clear_grad()

    for _ in range(3):
        step()
    bireme.debug.flush()
    bireme.debug.reset_stats()
    with bireme.debug.use_executor("counting"):
        for _ in range(3):
            step()
        bireme.debug.flush()
    assert counting.called == 3
    assert stats()["compiles"] == stats()["interprets"] == 0
    step()
    bireme.debug.flush()
    assert counting.called == 3


@pytest.mark.parametrize("name", ["xla", "interpreter", "xla_per_op"])
def test_own_executors_go_through_the_same_door(name):
    x = randn(9, 8)
    with bireme.debug.use_executor(name):
        y = (x.exp() * 2.0).sum(axis=0)
        np.testing.assert_allclose(y.numpy(), (np.exp(x.numpy()) * 2).sum(0), rtol=1e-5)


def test_an_unknown_executor_is_an_error():
    with pytest.raises(ValueError, match="expected one of"), bireme.debug.use_executor("abacus"):
        pass
    assert executor.forced() is None


# ---------------------------------------------------------------- the process around it


def test_importing_starts_nothing():
    python("""
        import bireme
        from jax._src import xla_bridge
        assert not xla_bridge._backends, xla_bridge._backends
        assert bireme.debug.stats()["flushes"] == 0
        import threading
        assert threading.active_count() == 1
    """)


def own(folder):
    """Where in a folder for many users this one's programs are; made if it is not there."""
    path = folder / f"bireme-{os.geteuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def test_the_cache_is_private_and_where_it_was_asked_for(tmp_path):
    folder = tmp_path / "deep" / "programs"
    script = """
        import bireme
        x = bireme.ones([300, 430])
        for _ in range(3):
            (x.exp() * 2.0).sum(axis=0).numpy()
    """
    python(script, BIREME_CACHE_DIR=str(folder))
    assert own(folder).stat().st_mode & 0o777 == 0o700
    assert any(own(folder).iterdir())
    home = tmp_path / "home"
    home.mkdir()
    env = {k: v for k, v in os.environ.items() if k not in ("BIREME_CACHE_DIR", "XDG_CACHE_HOME")}
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env={**env, "HOME": str(home)}, check=True, timeout=200
    )
    assert (home / ".cache" / "bireme").stat().st_mode & 0o777 == 0o700


PROGRAM = """
    import bireme
    x = bireme.ones([300, 430])
    for _ in range(3):
        y = (x.exp() * 2.0).sum(axis=0).numpy()
    assert bireme.debug.stats()["compiles"] == 1 and abs(y[0] - 1630.97) < 0.1
"""


def quiet(script, folder, *limits):
    """Run a script in which a warning is an error, and which must print nothing."""
    command = [*limits, sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(
        command, env={**os.environ, "BIREME_CACHE_DIR": str(folder)}, capture_output=True, text=True, timeout=200
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return sorted(p.name for p in own(folder).iterdir())


def test_a_damaged_program_is_compiled_again(tmp_path):
    names = quiet(PROGRAM, tmp_path)
    program = own(tmp_path) / names[0]
    program.write_bytes(program.read_bytes()[:100])
    assert quiet(PROGRAM, tmp_path) == names and len(program.read_bytes()) > 100


def test_a_full_disk_is_no_reason_to_stop(tmp_path):
    limit = ["bash", "-c", 'ulimit -f 1; exec "$0" "$@"']  # a file may have 1 KiB
    assert quiet(PROGRAM, tmp_path, *limit) == []


def test_a_cache_of_no_bytes_is_none(tmp_path):
    script = PROGRAM.replace("import bireme", 'import bireme; bireme.set_flags({"FLAGS_compile_cache_bytes": 0})')
    assert quiet(script, tmp_path) == []


def test_without_a_home_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BIREME_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user without an entry, and HOME unset
    assert not compile_cache.at_hand() and list(tmp_path.iterdir()) == []


def test_other_jax_code_keeps_its_settings(tmp_path):
    out = python("""
        import os
        import jax, jax.numpy as jnp
        import bireme
        names = ("jax_enable_x64", "jax_default_device", "jax_compilation_cache_dir", "jax_enable_compilation_cache")
        before = {n: getattr(jax.config, n) for n in names}
        x = bireme.ones([300, 431])
        for _ in range(3):
            (x.exp() * 2.0).sum(axis=0).numpy()
        assert {n: getattr(jax.config, n) for n in names} == before
        assert jnp.arange(3).dtype == "int32" and jnp.ones(2).dtype == "float32"
        jax.jit(lambda a: jnp.sin(a) * 3 + 1)(jnp.ones((200, 200))).block_until_ready()
        print("ok")
    """, BIREME_CACHE_DIR=str(tmp_path / "programs"))  # fmt: skip
    assert "ok" in out and len(list(own(tmp_path / "programs").iterdir())) == 1


def test_sizes_that_change_with_every_call_are_not_traced(monkeypatch):
    """As in losses over what a mask found: a trace takes a hundred times as long as the call."""
    import jax

    def traced(*_, **__):
        raise AssertionError("traced")

    x = bireme.arange(40, dtype="float32")
    bireme.nonzero(x > 38).numpy()
    monkeypatch.setattr(planning, "traced", traced)
    monkeypatch.setattr(jax, "eval_shape", traced)
    for n in range(2, 12):
        assert bireme.nonzero(x < n).tolist() == [[i] for i in range(n)]
        assert bireme.nonzero(x[:n].reshape([1, n]), as_tuple=True)[1].tolist() == list(range(1, n))
        assert sorted(bireme.randperm(n).tolist()) == list(range(n))
        assert bireme.eye(n, 3).tolist() == np.eye(n, 3).tolist()
        assert bireme.clip(x[:n], 1.0, 5.0).tolist() == np.arange(n).clip(1, 5).tolist()


def test_jax_code_of_the_user_runs_beside_ours():
    import jax
    import jax.numpy as jnp

    x = randn(64, 32)
    grad = jax.jit(jax.grad(lambda a: (a**2).sum()))
    for _ in range(3):
        y = (x * 2.0).sum(axis=0)
        found = grad(jnp.asarray(x))
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(np.asarray(found), 2 * x.numpy(), rtol=1e-6)
        y.numpy()


def test_a_long_compile_says_what_it_waits_for(capfd):
    """With a wait of nearly nothing every compile is long."""
    bireme.set_flags({"FLAGS_tell_compiles": 1e-6, "FLAGS_deterministic": True})
    try:
        x = bireme.rand([7, 9])
        for _ in range(3):
            x = bireme.tanh(x) * 2
        x.numpy()
    finally:
        bireme.set_flags({"FLAGS_tell_compiles": 4.0, "FLAGS_deterministic": False})
    told = capfd.readouterr().err
    assert "bireme: compiling" in told and "tanh" in told and "test_tiers.py" in told


def test_an_option_that_this_compiler_does_not_have_is_left_out(monkeypatch):
    wrong = {"xla_no_such_option": True, "xla_cpu_experimental_ynn_fusion_type": "NO_SUCH_TYPE"}
    monkeypatch.setattr(xla, "OPTIONS", {"cpu": {**wrong, "xla_backend_optimization_level": 1}})
    monkeypatch.setattr(xla, "_unknown", set())
    monkeypatch.setattr(machine, "ARM", False)
    x = randn(300, 310)
    for _ in range(2):
        y = bireme.tanh(x @ x.T).sum().item()
    assert stats()["compiles"] == 1
    assert xla._unknown == {*wrong.items()}
    assert y == pytest.approx(float(np.tanh(x.numpy() @ x.numpy().T).sum()), rel=1e-4)


OPTION = "xla_cpu_experimental_ynn_fusion_type"


def test_sums_of_half_precision_are_numbers():
    """Of 4096 elements, each the sum of two logarithms, the compiler's library made NaN."""
    p = np.random.default_rng(0).uniform(0.1, 0.9, (64, 128)).astype(np.float32)
    with bireme.debug.use_executor("xla"):
        x = bireme.to_tensor(p).astype("bfloat16")
        found = bireme.nn.functional.binary_cross_entropy(x, x).astype("float32").item()
    assert found == pytest.approx(-(p * np.log(p) + (1 - p) * np.log(1 - p)).mean(), rel=0.01)


def test_products_of_batches_decide_who_multiplies(monkeypatch):
    def program(x, w, pairs):
        x, _ = jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, length=3)
        return x, jax.jit(jnp.matmul)(pairs, pairs)

    def options_with(cores, batch):
        monkeypatch.setattr(workers, "processors", lambda: cores)
        spec = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((8, 10), (10, 10), (batch, 4, 4))]
        return matmul_backend.options(jax.jit(program).trace(*spec).jaxpr)

    spec = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((8, 10), (10, 10), (2, 4, 4))]
    assert matmul_backend.multiplications(jax.jit(program).trace(*spec).jaxpr) == (3 * 800, 2 * 64, 0)
    monkeypatch.setattr(machine, "ARM", True)
    monkeypatch.setattr(matmul_backend, "WRONG_SUMS", False)
    by_eigen = {OPTION: "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION,LIBRARY_FUSION_TYPE_REDUCE"}
    assert options_with(2, 2) == options_with(1, 200) == by_eigen
    assert options_with(8, 2) == options_with(2, 20) == {}
    monkeypatch.setattr(matmul_backend, "WRONG_SUMS", True)
    assert options_with(2, 2) == {OPTION: "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"}
    no_sums = {OPTION: "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION,LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}
    assert options_with(8, 2) == no_sums
    monkeypatch.setattr(matmul_backend, "WRONG_SUMS", False)

    def of_integers(x, w):
        return jax.lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=np.int32)

    whole = [jax.ShapeDtypeStruct(shape, np.int8) for shape in ((8, 10), (10, 10))]
    traced = jax.jit(of_integers).trace(*whole).jaxpr
    assert matmul_backend.multiplications(traced) == (0, 0, 800)
    assert matmul_backend.options(traced) == {}  # Eigen leaves integers to a plain loop
    monkeypatch.setattr(machine, "ARM", False)
    assert options_with(2, 2) == {}
