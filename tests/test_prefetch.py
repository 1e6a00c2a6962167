"""Reading ahead: the second run finds its program, with the same numbers; nothing of it disturbs an end, a fork or
another graph.
"""

import os
import subprocess
import sys
import textwrap

import pytest

from bireme.core.run import prefetch
from bireme.core.xla_exec import program_names, xla

SCRIPT = """
    import os
    import sys
    import numpy as np
    import bireme
    from bireme import nn
    from bireme.core.xla_exec import xla

    read, prepared = [], []
    plain_read, plain_prepare = xla.load, xla.Xla.prepare
    xla.load = lambda *args: read.append(plain_read(*args)) or read[-1]
    xla.Xla.prepare = lambda *args: prepared.append(1) or plain_prepare(*args)
    bireme.seed(0)
    net = nn.Sequential(*[nn.Linear(64, 64) for _ in range(20)], nn.Dropout(0.5))
    opt = bireme.optimizer.AdamW(parameters=net.parameters())
    x = bireme.to_tensor(np.random.RandomState(0).standard_normal((128, 64)).astype("float32"))
    losses = []
    for _ in range(int(sys.argv[1])):
        loss = (net(x) ** 2).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(loss.item().hex())
        if len(losses) == 1 and sys.argv[2] == "fork":
            child = os.fork()
            if not child:
                os._exit(0 if np.isfinite(loss.numpy()) else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print(sum(r is not None for r in read), len(prepared), *losses)
"""


def run(folder, steps, how="plain"):
    env = {**os.environ, "BIREME_CACHE_DIR": str(folder), "FLAGS_tell_compiles": "0", "FLAGS_compile_beside": "0"}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(SCRIPT), str(steps), how]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stderr
    read, prepared, *losses = done.stdout.split()
    return int(read), int(prepared), losses


def test_what_an_earlier_process_compiled_is_there_for_the_second_run(tmp_path):
    read, prepared, losses = run(tmp_path, 3)
    assert (read, prepared) == (0, 1)
    assert run(tmp_path, 3) == (1, 0, losses)
    assert run(tmp_path, 1)[2] == losses[:1]  # the end comes while it is read
    if hasattr(os, "fork"):
        assert run(tmp_path, 3, "fork")[2] == losses


class Graph:
    nodes = range(100)

    class device:
        is_cpu = True


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    found = ["one"]
    monkeypatch.setattr(program_names, "surroundings", lambda device: list(found))
    return found


def test_other_settings_get_a_program_of_their_own(settings, monkeypatch):
    monkeypatch.setattr(xla, "load", lambda *args: "a program")
    reading = prefetch.begin(Graph, (1,), ())
    settings.append("another")
    assert reading.take((1,), ()) is None


def test_another_liveness_gets_no_program_that_was_not_made_for_it(monkeypatch):
    monkeypatch.setattr(xla, "load", lambda *args: "a program")
    assert prefetch.begin(Graph, (1, 2), (0,)).take((1, 2), (0,)) == "a program"
    assert prefetch.begin(Graph, (1, 2), (0,)).take((1,), (0,)) is None


def test_what_goes_wrong_is_left_to_who_wants_the_program(monkeypatch):
    monkeypatch.setattr(xla, "load", lambda *args: 1 / 0)
    assert prefetch.begin(Graph, (1,), ()).take((1,), ()) is None


@pytest.mark.parametrize("calls, is_cpu", [(10, True), (100, False)])
def test_small_graphs_and_accelerators_do_without(calls, is_cpu, monkeypatch):
    monkeypatch.setattr(Graph, "nodes", range(calls))
    monkeypatch.setattr(Graph.device, "is_cpu", is_cpu)
    assert prefetch.begin(Graph, (1,), ()) is None
