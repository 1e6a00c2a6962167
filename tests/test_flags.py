"""Flags: both values of each, from Python and from the environment."""

import os
import subprocess
import sys

import numpy as np
import pytest

import bireme
from bireme.core.base import flags
from bireme.core.graph import segment
from bireme.core.run import graphs

ALL = dict(flags._ALL)


@pytest.fixture(autouse=True)
def restored():
    bireme.debug.flush()
    before = {name: f.value for name, f in ALL.items()}
    yield
    bireme.set_flags({f"FLAGS_{name}": value for name, value in before.items()})
    bireme.debug.flush()


def other(flag):
    return not flag.default if flag.type is bool else flag.default // 2


def compute():
    x = bireme.to_tensor(np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4), stop_gradient=False)
    y = ((x * 2.0 + 1.0).tanh() * x).sum()
    y.backward()
    return y.item(), x.grad.numpy()


@pytest.mark.parametrize("name", ALL)
def test_both_values_give_the_same_numbers(name):
    want = compute()
    for value in (ALL[name].default, other(ALL[name])):
        bireme.set_flags({f"FLAGS_{name}": value})
        assert bireme.get_flags(f"FLAGS_{name}") == {f"FLAGS_{name}": value}
        for _ in range(2):
            got = compute()
            assert got[0] == pytest.approx(want[0], rel=1e-5)
            np.testing.assert_allclose(got[1], want[1], rtol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_every_flag_is_declared_whole(name):
    flag = ALL[name]
    assert isinstance(flag.default, flag.type)
    assert len(flag.doc) > 20


def test_flags_come_from_the_environment():
    script = "import bireme; print(bireme.get_flags(['FLAGS_op_at_once', 'FLAGS_max_pending_nodes']))"
    env = {**os.environ, "FLAGS_op_at_once": "1", "FLAGS_max_pending_nodes": "77"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'FLAGS_op_at_once': True, 'FLAGS_max_pending_nodes': 77}"


@pytest.mark.parametrize("text, value", [("true", True), ("0", False), ("On", True), (1, True), (False, False)])
def test_words_for_true_and_false(text, value):
    bireme.set_flags({"FLAGS_deterministic": text})
    assert bireme.get_flags("FLAGS_deterministic")["FLAGS_deterministic"] is value


def test_bad_flags_are_refused_and_nothing_is_set():
    with pytest.raises(ValueError, match=r"set_flags\(flags\): expected one of FLAGS_deterministic, FLAGS_"):
        bireme.set_flags({"FLAGS_deterministc": 1})
    with pytest.raises(ValueError, match=r"get_flags\(flags\): expected one of FLAGS_max_pending_nodes, FLAGS_"):
        bireme.get_flags("FLAGS_max_pending_node")
    with pytest.raises(ValueError, match=r"set_flags\(flags\): expected one of FLAGS_"):
        bireme.set_flags({"FLAGS_deterministic": True, "FLAGS_no_such_flag": 1})
    assert bireme.get_flags("FLAGS_deterministic") == {"FLAGS_deterministic": False}
    with pytest.raises(ValueError, match="expected true or false"):
        bireme.set_flags({"FLAGS_op_at_once": "perhaps"})
    with pytest.raises(TypeError, match="expected a dict"):
        bireme.set_flags("FLAGS_op_at_once")
    with pytest.raises(ValueError, match="expected a value of type int"):
        bireme.set_flags({"FLAGS_max_pending_nodes": "many"})


# ---------------------------------------------------------------- changes between steps

STEERS = {
    "deterministic": True, "interpret": False, "op_at_once": True, "check_nan_inf": True,
    "max_pending_nodes": 8, "max_pending_bytes": 2048,
}  # fmt: skip
# what steers no run of a program that is there: looked at when something fails, is compiled, is told or starts
OTHERS = {
    "check_nan_inf_level", "tell_compiles", "compile_beside", "pad_sizes", "compile_cache", "compile_cache_bytes", "keep_pages", "freeze_imports",
    "full_traceback", "programs_per_skeleton",
}  # fmt: skip


def test_each_flag_steers_runs_or_does_not():
    assert STEERS.keys() | OTHERS == ALL.keys() and not STEERS.keys() & OTHERS


@pytest.mark.parametrize("name", STEERS)
def test_a_change_is_seen_by_the_next_run_of_what_is_warm(name):
    x = bireme.to_tensor(np.linspace(-1, 1, 64, dtype="float32"))

    def run(value):
        """How many programs a chain of operators takes with the flag so set, and how many of them are interpreted."""
        bireme.set_flags({f"FLAGS_{name}": value})
        before = bireme.debug.stats()
        y, held = x, []
        for _ in range(24):
            y = y * 0.5 + 1.0
            held.append(y)
        total = sum(float(t.numpy()[0]) for t in held)
        after = bireme.debug.stats()
        return after["flushes"] - before["flushes"], after["interprets"] - before["interprets"], total

    values = (ALL[name].default, STEERS[name])
    cold = {}
    for value in reversed(values):  # what the default leaves is warm below
        graphs.clear()
        segment._drop_tree()
        for _ in range(3):
            cold[value] = run(value)
    assert cold[values[0]][:2] != cold[values[1]][:2]
    for value in (*values, *values, *values):
        got = run(value)
        assert got[:2] == cold[value][:2]
        assert got[2] == pytest.approx(cold[value][2], rel=1e-6)


@pytest.mark.usefixtures("compiled_when_met_again")
def test_deterministic_fits_what_is_held_as_soon_as_it_is_set():
    w = bireme.to_tensor(np.full((128, 128), 0.01, "float32"))

    def compiled(both):
        before = bireme.debug.stats()["compiles"]
        a = w
        for _ in range(4):
            a = bireme.tanh(a @ w)
        b = a * 2.0
        if not both:
            del a
        b.numpy()
        return bireme.debug.stats()["compiles"] - before

    graphs.clear()
    assert [compiled(True) for _ in range(4)] == [0, 1, 0, 0]
    assert [compiled(False) for _ in range(2)] == [0, 0]  # the program that gives both serves
    bireme.set_flags({"FLAGS_deterministic": True})
    assert [compiled(False) for _ in range(2)] == [1, 0]
    assert [compiled(True) for _ in range(2)] == [1, 0]
    bireme.set_flags({"FLAGS_deterministic": False})
    assert [compiled(both) for both in (True, False, True, False)] == [0, 0, 0, 0]


# ---------------------------------------------------------------- debugging flags


def test_op_at_once_runs_every_operator():
    bireme.set_flags({"FLAGS_op_at_once": True})
    x = bireme.ones([3])
    y = x + 1.0
    assert y._value.array is not None
    bireme.set_flags({"FLAGS_op_at_once": False})
    assert (y + 1.0)._value.array is None


def test_op_at_once_trains():
    bireme.set_flags({"FLAGS_op_at_once": True})
    layer = bireme.nn.Linear(4, 2)
    rule = bireme.optimizer.Adam(0.1, parameters=layer.parameters())
    losses = []
    for _ in range(5):
        loss = (layer(bireme.ones([3, 4])) ** 2).mean()
        loss.backward()
        rule.step()
        rule.clear_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def line_of(error):
    text = [line for line in str(error.value).splitlines() if "test_flags.py:" in line]
    return int(text[0].rsplit(":", 1)[1])


def here():
    return sys._getframe(1).f_lineno


def test_check_nan_inf_names_operator_and_line():
    bireme.set_flags({"FLAGS_check_nan_inf": True})
    x = bireme.to_tensor([1.0, 0.0])
    y = x * 2.0
    with pytest.raises(bireme.debug.NonFiniteError, match=r"log: There are NAN or INF \(num_nan=0, num_inf=1\)") as e:
        line = here() + 1
        bireme.log(y)
    assert line_of(e) == line
    with pytest.raises(bireme.debug.NonFiniteError, match=r"num_nan=[1-9]") as e:
        line = here() + 1
        bireme.sqrt(x - 5.0)
    assert line_of(e) == line
    np.testing.assert_array_equal(y.numpy(), [2.0, 0.0])


@pytest.mark.parametrize("level", [0, 1])
def test_check_nan_inf_level_says_whether_it_stops(level, capsys):
    bireme.set_flags({"FLAGS_check_nan_inf": True, "FLAGS_check_nan_inf_level": level})
    try:
        if level == 0:
            with pytest.raises(bireme.core.base.errors.NonFiniteError, match="log: There are NAN or INF"):
                bireme.log(bireme.to_tensor([-1.0]))
        else:
            assert bireme.log(bireme.to_tensor([-1.0])).isnan().item()
            assert (
                "log: There are NAN or INF (num_nan=1, num_inf=0) in a result of shape [1], at test_flags.py:"
                in capsys.readouterr().out
            )
    finally:
        bireme.set_flags({"FLAGS_check_nan_inf": False, "FLAGS_check_nan_inf_level": 0})


def test_check_nan_inf_names_the_line_of_this_call():
    x, places = bireme.to_tensor([-2.0]), []
    for on in (False, True):  # the same call has been met elsewhere
        bireme.set_flags({"FLAGS_check_nan_inf": on})
        if on:
            with pytest.raises(bireme.debug.NonFiniteError) as e:
                places.append(here() + 1)
                bireme.log(x)
        else:
            bireme.log(x).numpy()
    assert line_of(e) == places[0]


def test_check_nan_inf_finds_it_in_a_gradient():
    bireme.set_flags({"FLAGS_check_nan_inf": True})
    x = bireme.to_tensor([0.0], stop_gradient=False)
    y = bireme.sqrt(x)
    with pytest.raises(bireme.debug.NonFiniteError, match=r"sqrt.*num_inf=1") as e:
        y.backward()
    assert "test_flags.py:" in str(e.value)


def test_check_nan_inf_lets_integers_and_finite_numbers_pass():
    bireme.set_flags({"FLAGS_check_nan_inf": True})
    assert (bireme.arange(4) + 1).tolist() == [1, 2, 3, 4]
    assert (bireme.ones([2]).astype("bfloat16") * 2.0).tolist() == [2.0, 2.0]


def test_a_wrong_value_in_the_environment_is_told_as_such(tmp_path):
    (tmp_path / "train.py").write_text("import os\nimport bireme\n")
    env = {**os.environ, "FLAGS_op_at_once": "maybe", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "train.py")], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.stderr.endswith(
        "ArgumentError: FLAGS_op_at_once of the environment: expected true or false, got 'maybe'\n  at train.py:2\n"
    )


def test_without_check_nan_inf_they_are_numbers():
    assert bireme.log(bireme.to_tensor([0.0])).item() == -np.inf


def test_compile_cache_off_writes_nothing(tmp_path):
    script = """
import bireme
bireme.set_flags({"FLAGS_interpret": False, "FLAGS_compile_cache": False})
bireme.ones([30]).exp().numpy()
"""
    folder = tmp_path / "programs"
    env = {**os.environ, "BIREME_CACHE_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", script], env=env, check=True, timeout=120)
    assert not folder.exists() or not any(folder.iterdir())


def test_switches_of_machinery_that_is_not_there_are_kept():
    assert bireme.get_flags("FLAGS_allocator_strategy") == {"FLAGS_allocator_strategy": "auto_growth"}
    before = bireme.get_flags("FLAGS_sort_sum_gradient")
    bireme.set_flags({"FLAGS_sort_sum_gradient": True})
    assert bireme.base.core.globals()["FLAGS_sort_sum_gradient"] is True
    bireme.set_flags(before)
