"""Threads and forks: a segment belongs to a thread, values may go anywhere."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.run import lookup
from bireme.core.xla_exec import xla

pytestmark = pytest.mark.usefixtures("compiled_when_met_again")


def in_threads(*functions):
    """Run each in a thread of its own; returns their results, or raises the first error."""
    results, failures = [None] * len(functions), []

    def call(i):
        try:
            results[i] = functions[i]()
        except BaseException as e:  # noqa: BLE001 - it is raised again in the test's thread
            failures.append(e)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(functions))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]
    return results


def linear(seed, n_in=16, n_out=16):
    rng = np.random.default_rng(seed)
    layer = nn.Linear(n_in, n_out)
    layer.weight.set_value(rng.standard_normal((n_in, n_out)).astype("float32") * 0.1)
    layer.bias.set_value(np.zeros(n_out, "float32"))
    return layer


def train(seed, steps=12):
    model = linear(seed)
    rule = bireme.optimizer.Adam(0.01, parameters=model.parameters())
    x = bireme.to_tensor(np.random.default_rng(9).standard_normal((8, 16)).astype("float32"))
    losses = []
    for _ in range(steps):
        loss = (model(x) ** 2).mean()
        loss.backward()
        rule.step()
        rule.clear_grad()
        losses.append(loss.item())
    return losses


def test_two_threads_train_two_models():
    alone = [train(0), train(1)]
    together = in_threads(lambda: train(0), lambda: train(1))
    np.testing.assert_allclose(together, alone, rtol=1e-4)


def test_one_model_serves_many_threads():
    model = nn.Sequential(linear(0), nn.ReLU(), linear(1))
    model.eval()
    inputs = [np.random.default_rng(i).standard_normal((4, 16)).astype("float32") for i in range(8)]

    def serve(x):
        with bireme.no_grad():
            return [model(bireme.to_tensor(x)).numpy() for _ in range(20)]

    with bireme.no_grad():
        want = [model(bireme.to_tensor(x)).numpy() for x in inputs]
    for found, w in zip(in_threads(*[lambda x=x: serve(x) for x in inputs]), want, strict=True):
        for f in found:
            np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-6)


def test_a_model_trained_in_one_thread_is_read_in_another():
    model = linear(2)
    rule = bireme.optimizer.SGD(0.01, parameters=model.parameters())
    x = bireme.ones([4, 16])
    done = threading.Event()

    def writer():
        for _ in range(60):
            (model(x) ** 2).mean().backward()
            rule.step()
            rule.clear_grad()
        done.set()

    def reader():
        seen = 0
        while not done.is_set() or seen == 0:
            assert np.isfinite(model.weight.numpy()).all()
            with bireme.no_grad():
                assert np.isfinite(model(x).numpy()).all()
            seen += 1
        return seen

    assert in_threads(writer, reader)[1] > 0


def test_parameters_change_while_other_threads_read_them():
    """Whenever threads take turns: a layer's call is remembered, and what it is remembered by is what it reads."""
    model = linear(3)
    rule = bireme.optimizer.SGD(0.001, parameters=model.parameters())
    x = bireme.ones([4, 16])
    done = threading.Event()

    def writer():
        for _ in range(300):
            (model(x) ** 2).mean().backward()
            rule.step()
            rule.clear_grad()
        done.set()

    def reader():
        with bireme.no_grad():
            while not done.is_set():
                assert np.isfinite(model(x).numpy()).all()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        in_threads(writer, reader, reader)
    finally:
        sys.setswitchinterval(before)


def test_a_pending_value_is_read_by_another_thread():
    x = bireme.ones([8]) * 3.0
    y = x + 1.0
    assert y._value.array is None
    (got,) = in_threads(lambda: y.numpy())
    np.testing.assert_array_equal(got, np.full(8, 4.0))
    np.testing.assert_array_equal((y * x).numpy(), np.full(8, 12.0))


def test_a_pending_value_is_computed_on_by_another_thread():
    x = bireme.ones([8]) * 3.0
    (got,) = in_threads(lambda: (x * 2.0).numpy())
    np.testing.assert_array_equal(got, np.full(8, 6.0))
    z = x + 1.0  # this thread goes on after its segment was cut from outside
    np.testing.assert_array_equal(z.numpy(), np.full(8, 4.0))


def test_a_segment_cut_by_another_thread_while_recording():
    shared, stop = {}, threading.Event()

    def record():
        x = bireme.ones([8])
        for i in range(3000):
            y = x + float(i)
            shared["y"] = (i, y)
            z = y * 2.0
            if i % 50 == 0:
                np.testing.assert_array_equal(z.numpy(), np.full(8, 2.0 * (1 + i)))
        stop.set()

    def read():
        n = 0
        while not stop.is_set():
            if "y" in shared:
                i, y = shared["y"]
                np.testing.assert_array_equal(y.numpy(), np.full(8, 1.0 + i))
                n += 1
        return n

    in_threads(record, read, read)


def test_a_gradient_crosses_threads():
    x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
    (loss,) = in_threads(lambda: (x * x).sum())
    loss.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])


def test_many_threads_record_at_once():
    def work(n):
        x = bireme.to_tensor(np.full(4, float(n), "float32"))
        for _ in range(40):
            x = x * 1.5 - x * 0.5
        return x.numpy()

    for n, got in enumerate(in_threads(*[lambda n=n: work(n) for n in range(16)])):
        np.testing.assert_allclose(got, np.full(4, float(n)), rtol=1e-5)


def test_values_made_in_a_finished_thread_are_usable():
    (x,) = in_threads(lambda: bireme.ones([4]) * 7.0)
    np.testing.assert_array_equal((x + 1.0).numpy(), np.full(4, 8.0))


def test_grad_mode_belongs_to_a_thread():
    with bireme.no_grad():
        assert in_threads(bireme.is_grad_enabled) == [True]


def test_random_streams_of_threads_differ_and_come_back():
    def draw():
        return bireme.rand([4]).numpy()

    bireme.seed(5)
    here = draw()
    (there,) = in_threads(draw)
    assert not np.array_equal(here, there)
    bireme.seed(5)
    np.testing.assert_array_equal(here, draw())


def test_a_buffer_that_another_thread_reads_is_not_donated():
    for _ in range(5):
        x = bireme.ones([64, 64]) * 2.0
        x.numpy()
        started, go, out = threading.Event(), threading.Event(), []

        def reader(x=x, started=started, go=go, out=out):
            y = x + 1.0  # pending here: holds the array of x
            del x
            started.set()
            go.wait(30)
            out.append(y.numpy())

        thread = threading.Thread(target=reader)
        thread.start()
        del reader
        started.wait(30)
        z = x * 3.0
        del x
        z.numpy()
        go.set()
        thread.join(30)
        np.testing.assert_array_equal(out[0], np.full((64, 64), 3.0))


# ---------------------------------------------------------------- compiles


@pytest.fixture
def compiled_at_once():
    before = bireme.get_flags(["FLAGS_interpret", "FLAGS_max_pending_nodes"])
    bireme.set_flags({"FLAGS_interpret": False})
    yield
    bireme.set_flags(before)


class Compiler:
    """The compiler, held up by an event in one thread; `calls` are the threads that it worked for."""

    def __init__(self, monkeypatch):
        self.started, self.go, self.calls = threading.Event(), threading.Event(), []
        self._real = xla._compiled
        monkeypatch.setattr(xla, "_compiled", self)

    def __call__(self, *args):
        name = threading.current_thread().name
        self.calls.append(name)
        if name == "slow":
            self.started.set()
            assert self.go.wait(20), "the others did not go on meanwhile"
        return self._real(*args)


def begun(name, call, found):
    thread = threading.Thread(target=lambda: found.append(call()), name=name)
    thread.start()
    return thread


def test_others_go_on_while_one_thread_compiles(compiled_at_once, monkeypatch):
    compiler, found = Compiler(monkeypatch), []
    slow = begun("slow", lambda: bireme.full([3, 37], 2.0).square().sum().item(), found)
    assert compiler.started.wait(60)
    assert bireme.full([2, 38], 3.0).exp().log().sum().item() == pytest.approx(228.0, rel=1e-5)  # compiled as well
    bireme.set_flags({"FLAGS_interpret": True})
    assert (bireme.full([2, 39], 3.0) + 1.0).sum().item() == 312.0  # new, and interpreted
    w = bireme.to_tensor(np.ones(40, "float32"), stop_gradient=False)
    (w * 2.0).sum().backward()
    assert w.grad.tolist() == [2.0] * 40
    assert compiler.calls == ["slow", "MainThread"] and not found
    compiler.go.set()
    slow.join(60)
    assert found == [444.0]


def test_threads_that_want_one_program_wait_for_one_compile(compiled_at_once, monkeypatch):
    compiler, found, chosen, arrived = Compiler(monkeypatch), [], lookup._choose, threading.Event()

    def choose(*args):
        if threading.current_thread().name == "second":
            arrived.set()
        return chosen(*args)

    def work():
        return bireme.full([5, 41], 2.0).square().sum().item()

    monkeypatch.setattr(lookup, "_choose", choose)
    slow = begun("slow", work, found)
    assert compiler.started.wait(60)
    second = begun("second", work, found)
    assert arrived.wait(60)
    compiler.go.set()
    slow.join(60)
    second.join(60)
    assert found == [820.0, 820.0] and compiler.calls == ["slow"]


def test_a_compile_that_fails_leaves_its_place_to_others(compiled_at_once, monkeypatch):
    real, failed = xla._compiled, []

    def fail(*args):
        if not failed:
            failed.append(1)
            raise MemoryError("no room for the program")
        return real(*args)

    monkeypatch.setattr(xla, "_compiled", fail)
    x = bireme.full([6, 43], 2.0)
    y = x.square().sum()
    with pytest.raises(MemoryError, match="no room for the program"):
        y.item()
    (found,) = in_threads(y.item)
    assert found == 1032.0


def process_wide_locks():
    """Every lock of the package that there is one of: of a module, of a class, of an object that a module holds."""
    kinds = (type(threading.Lock()), type(threading.RLock()), threading.Condition)
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "bireme":
            for key, held in list(vars(module).items()):
                inside = {} if isinstance(held, type(sys)) else getattr(held, "__dict__", {})
                parts = {f"{key}.{k}": v for k, v in inside.items()}
                found |= {f"{name}.{k}": v for k, v in {key: held, **parts}.items() if isinstance(v, kinds)}
    return found


def test_no_lock_of_the_process_is_held_through_a_compile(compiled_at_once, monkeypatch):
    """A compile takes seconds: who holds a lock that others need keeps all of them from working."""
    real, held, compiles = xla._compiled, set(), []

    def look():
        for name, lock in locks.items():
            if lock.acquire(timeout=1):
                lock.release()
            else:
                held.add(name)

    def compiled(*args):
        compiles.append(1)
        in_threads(look)
        return real(*args)

    locks = process_wide_locks()
    assert {"bireme.core.run.graphs.lock", "bireme.core.tensor.backward._Adding.lock"} <= locks.keys()
    monkeypatch.setattr(xla, "_compiled", compiled)
    bireme.set_flags({"FLAGS_max_pending_nodes": 1})  # with a tape of eight and more, each call is a program
    w = bireme.to_tensor(np.ones((3, 47), "float32"), stop_gradient=False)
    rule = bireme.optimizer.SGD(0.125, parameters=[w])
    for _ in range(2):
        y = w
        for _ in range(7):
            y = y * 1.0
        y.sum().backward()
    rule.step()
    rule.clear_grad()
    assert w.sum().item() == 3 * 47 * 0.75
    assert not held and compiles


# ---------------------------------------------------------------- fork

FORK = """
import os, signal, sys
import bireme
from bireme import nn
model = nn.Linear(32, 32)
rule = bireme.optimizer.SGD(0.1, parameters=model.parameters())
for _ in range(3):
    (model(bireme.ones([16, 32])) ** 2).mean().backward()
    rule.step()
    rule.clear_grad()
pending = bireme.ones([2]) * 3.0
{before}
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    code = 1
    try:
        {child}
    finally:
        os._exit(code)
_, status = os.waitpid(pid, 0)
assert status == 0, status
assert pending.tolist() == [3.0, 3.0]
print("parent goes on", (model(bireme.ones([16, 32])) ** 2).mean().item() >= 0)
"""


def run_fork(child, before=""):
    script = FORK.format(
        before=textwrap.dedent(before), child=textwrap.indent(textwrap.dedent(child), "        ").strip()
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "parent goes on" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
class TestFork:
    def test_a_child_reads_what_was_pending(self):
        run_fork("code = 0 if pending.tolist() == [3.0, 3.0] else 2")

    def test_a_child_computes_what_needs_no_compiler(self):
        run_fork(
            """
            x = bireme.to_tensor([1.0, 2.0])
            for _ in range(5):
                y = (x * 2.0 + 1.0).sum()
                assert y.item() == 8.0
            code = 0
            """
        )

    def test_a_child_says_that_it_cannot_compile(self):
        run_fork(
            """
            try:
                for _ in range(3):
                    (model(bireme.ones([16, 32])) ** 2).mean().backward()
                    rule.step()
                    rule.clear_grad()
            except RuntimeError as e:
                code = 0 if "fork" in str(e) else 3
            else:
                code = 0  # it worked
            """
        )

    def test_a_child_never_hangs(self):
        run_fork(
            """
            x = bireme.to_tensor([[0.01] * 600] * 600)
            for _ in range(3):
                y = (bireme.matmul(x, x) + x).tanh().sum()
                assert y.item() > 0
            code = 0
            """
        )

    def test_a_child_may_compile_if_the_parent_had_not_started(self):
        script = """
import os
import bireme
pid = os.fork()
if pid == 0:
    x = bireme.rand([300, 300])
    for _ in range(3):
        y = bireme.matmul(x, x).tanh().sum()
        y.item()
    os._exit(0 if bireme.debug.stats()["compiles"] else 4)
assert os.waitpid(pid, 0)[1] == 0
"""
        subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)

    def test_what_another_thread_had_pending_says_so(self):
        run_fork(
            """
            try:
                theirs.numpy()
            except RuntimeError as e:
                code = 0 if "fork" in str(e) else 3
            """,
            """
            import threading
            got, go = threading.Event(), threading.Event()
            def other():
                global theirs
                theirs = bireme.ones([2]) * 5.0
                got.set()
                go.wait(60)
            threading.Thread(target=other, daemon=True).start()
            got.wait(60)
            """,
        )


def test_a_script_may_end_while_its_last_program_runs():
    script = """
        import bireme
        from bireme import nn
        net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
        opt = bireme.optimizer.Adam(parameters=net.parameters())
        for _ in range(3):
            (net(bireme.ones([128, 256])) ** 2).mean().backward()
            opt.step()
            opt.clear_grad()
    """
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr


def test_gradients_of_two_threads_are_added():
    w = bireme.zeros([4])
    w.stop_gradient = False

    def work():
        for _ in range(100):
            (w * 1.0).sum().backward()

    in_threads(work, work)
    assert w.grad.tolist() == [200.0] * 4


def test_weights_are_read_while_another_thread_trains():
    net = nn.Linear(128, 128)
    opt = bireme.optimizer.Adam(parameters=net.parameters())
    x, done = bireme.ones([8, 128]), threading.Event()

    def train():
        try:
            for _ in range(150):
                net(x).mean().backward()
                opt.step()
                opt.clear_grad()
        finally:
            done.set()

    def read():
        while not done.is_set():
            assert np.isfinite(net.weight.numpy()).all()

    in_threads(train, read)


def test_the_end_while_a_daemon_computes():
    """Python ends such a thread when it next asks for the interpreter; inside jax's C++ that would abort the process."""
    script = """
        import threading, time
        import numpy as np
        import bireme
        from bireme.core.base import device
        from bireme.core.xla_exec import xla

        started, ones = threading.Event(), np.ones((256, 64), "float32")

        def work():
            while True:
                x = bireme.to_tensor(ones)
                (x @ x.T).sum().item()
                for _ in range(50):
                    xla.put(ones, device.current())  # and lets go of it
                started.set()

        threading.Thread(target=work, daemon=True).start()
        started.wait()
        time.sleep(0.5)
    """
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_the_end_takes_no_locks_with_it():
    """A daemon that wants to compute at the end lets go of its locks, the engine's too: others may need them."""
    script = """
        import atexit, threading

        lock, arrived = threading.Lock(), threading.Event()

        def last():  # registered before the engine is there, so it is called after the engine's end
            print(arrived.wait(60), lock.acquire(timeout=20), theirs.tolist())

        atexit.register(last)
        import bireme
        from bireme.core.base import shutdown

        def work():
            global theirs
            theirs = bireme.to_tensor([1.0, 2.0]) * 2.0
            ready.set()
            while not shutdown._closed:
                ended.wait(0.001)
            with lock:
                arrived.set()
                theirs.numpy()

        ready, ended = threading.Event(), threading.Event()
        threading.Thread(target=work, daemon=True).start()
        ready.wait()
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True [2.0, 4.0]\n", "")


def test_the_end_while_a_daemon_compiles_the_first_program():
    """The end waits for it, however long the compiler takes on a busy machine."""
    script = """
        import threading
        import bireme
        from bireme import nn
        from bireme.core.base import shutdown
        from bireme.core.xla_exec import xla

        started, ended, compiled = threading.Event(), threading.Event(), xla._compiled

        def told(*args):
            started.set()
            while not shutdown._closed:  # the main thread is at its end
                ended.wait(0.001)
            done = compiled(*args)
            print("compiled", flush=True)
            return done

        def work():
            net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))
            for _ in range(3):  # it is compiled when it comes back
                net(bireme.ones([256, 64])).sum().backward()
                net[0].weight.grad.numpy()
                net.clear_gradients()

        xla._compiled, shutdown.PATIENCE = told, 100.0
        threading.Thread(target=work, daemon=True).start()
        assert started.wait(100)
    """
    env = {**os.environ, "FLAGS_compile_cache": "0", "FLAGS_tell_compiles": "0"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=240,
        env=env,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "compiled\n", "")


def test_the_default_type_is_one_for_all_threads():
    """As in Paddle; what a thread remembers of its calls does not outlive a change by another, in auto_cast or not."""
    mask, x, n = bireme.to_tensor([True, False]), bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1, 2])
    turns = [threading.Barrier(3, timeout=60) for _ in range(6)]

    def calls():
        made = [bireme.where(mask, x, 1.0), bireme.where(mask, 1.5, 2.5), bireme.fft.fft(n)]
        return [t.dtype.name for t in (*made, bireme.ones([1]), bireme.to_tensor(0.5))]

    def caller(how):
        def run():
            found = []
            with bireme.amp.auto_cast(how == "auto_cast"):
                for before, after in zip(turns[::2], turns[1::2], strict=True):
                    before.wait()
                    found.append((calls(), calls(), bireme.get_default_dtype()))
                    after.wait()
            return found

        return run

    def setter():
        for kind, before, after in zip(("float32", "float64", "float32"), turns[::2], turns[1::2], strict=True):
            bireme.set_default_dtype(kind)
            before.wait()
            after.wait()

    narrow = ["float32", "float32", "complex64", "float32", "float32"]
    wide = ["float64", "float64", "complex128", "float64", "float64"]
    try:
        for found in in_threads(caller("auto_cast"), caller("plain"), setter)[:2]:
            assert found == [(narrow, narrow, "float32"), (wide, wide, "float64"), (narrow, narrow, "float32")]
        in_threads(lambda: bireme.set_default_dtype("float64"))
        assert (bireme.get_default_dtype(), calls(), in_threads(calls)) == ("float64", wide, [wide])
    finally:
        bireme.set_default_dtype("float32")
    assert calls() == narrow
