"""Ctrl-C at any point of a training loop loses nothing: parameters stay readable and training goes on."""

import asyncio
import gc
import signal
import sys
import threading

import jax
import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.base import signals, turns, workers
from bireme.core.graph import segment
from bireme.core.run import beside, tiers
from bireme.core.xla_exec import pieces, xla

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # in callbacks of jax
]


class Trainer:
    def __init__(self, width=48):
        self.model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))
        self.rule = bireme.optimizer.Adam(0.001, parameters=self.model.parameters())
        self.x = np.random.default_rng(0).standard_normal((32, width)).astype("float32")

    def step(self):
        x = bireme.to_tensor(self.x)
        loss = ((self.model(x) - x) ** 2).mean() * 0.5 + 1.0
        loss.backward()
        self.rule.step()
        self.rule.clear_grad()
        return loss

    def state(self):
        accumulators = [t for slot in self.rule._slots.values() for t in slot.state.values()]
        return [*self.model.parameters(), *accumulators]


@pytest.fixture
def interrupts():
    """Call with a delay in seconds: SIGINT comes after it, as from a keyboard."""
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # it comes again if it was swallowed: Python ignores an exception inside a destructor or a callback of a weak
    # reference
    yield lambda delay: signal.setitimer(signal.ITIMER_REAL, delay, 0.5 if delay else 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    assert bireme.is_grad_enabled()
    assert not jax.config.jax_enable_x64  # other jax code in the process


def forever(run):
    while True:
        run()


def interrupted(interrupts, run, delay):
    """Run until the interrupt comes."""
    try:
        interrupts(delay)
        forever(run)
    except KeyboardInterrupt:
        pass
    finally:
        interrupts(0)


def usable(trainer):
    for t in trainer.state():
        assert np.isfinite(t.numpy()).all()
    assert bireme.is_grad_enabled()
    assert segment.local.depth == 0
    assert not jax.config.jax_enable_x64
    before = trainer.model[0].weight.numpy()
    assert np.isfinite(trainer.step().item())
    assert not np.array_equal(before, trainer.model[0].weight.numpy())


def test_hundreds_of_interrupts_lose_no_parameter(interrupts):
    trainer = Trainer()
    for _ in range(4):
        trainer.step()
    rng = np.random.default_rng(1)
    for delay in rng.uniform(1e-4, 6e-3, 250):
        interrupted(interrupts, trainer.step, delay)
        usable(trainer)


def test_interrupts_before_anything_is_compiled(interrupts):
    rng = np.random.default_rng(2)
    for i, delay in enumerate(rng.uniform(1e-3, 0.15, 5)):
        trainer = Trainer(20 + i)  # a shape of its own: the first steps of each are interpreted, then compiled
        interrupted(interrupts, trainer.step, delay)
        usable(trainer)


@pytest.mark.parametrize("rule", ["Adam", "AdamW", "Momentum", "Lamb", "ASGD"])
def test_an_interrupt_at_any_line_of_the_first_step(rule):
    """Accumulators and masters are made in the first step: each line of the optimizers' code is the last one once."""
    line, reached = 0, True
    while reached:
        model = nn.Linear(2, 2)
        model.to(dtype="float16")
        step = getattr(bireme.optimizer, rule)(parameters=model.parameters(), learning_rate=0.1, multi_precision=True)
        reached = stopped_at(line, step, model)
        for _ in range(2):
            before = model.weight.numpy()
            model(bireme.ones([1, 2], "float16")).sum().backward()
            step.step()
            step.clear_grad()
            assert np.isfinite(model.weight.numpy()).all() and not np.array_equal(before, model.weight.numpy())
        assert all(
            np.isfinite(np.asarray(t.numpy(), "float32")).all()
            for t in step.state_dict().values()
            if isinstance(t, bireme.Tensor)
        )
        line += 1
    assert line > 30


def stopped_at(line, rule, model):
    """Make a step that ends as by Ctrl-C at the given line of the optimizers' code, counted as they run; whether there
    is such a line.
    """
    left = [line]

    def trace(frame, event, _):
        if "optimizer" not in frame.f_code.co_filename:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == -1:
                raise KeyboardInterrupt
        return trace

    model(bireme.ones([1, 2], "float16")).sum().backward()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        rule.step()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        rule.clear_grad()
    return False


def test_an_interrupt_while_recording_leaves_right_numbers(interrupts):
    x = bireme.to_tensor(np.arange(4.0, dtype="float32"))
    kept = {}

    def record():
        y = x
        for i in range(20):
            y = y + float(i)
            z = y * x
        kept.update(y=y, z=z)
        y.numpy()

    record()
    want_y = x.numpy() + sum(range(20))
    for delay in np.random.default_rng(3).uniform(1e-4, 4e-3, 150):
        interrupted(interrupts, record, delay)
        after = x * 3.0 + 1.0  # recorded after what the interrupt cut short
        np.testing.assert_allclose(after.numpy(), x.numpy() * 3 + 1)
        np.testing.assert_allclose(kept["y"].numpy(), want_y)
        np.testing.assert_allclose(kept["z"].numpy(), want_y * x.numpy())


def test_an_interrupt_does_not_change_the_result(interrupts):
    """What was cut short and is done again ends where it does undisturbed."""
    x = bireme.to_tensor(np.linspace(0, 1, 64 * 64, dtype="float32").reshape(64, 64))

    def power():
        y = x
        for _ in range(5):
            y = bireme.matmul(y, x) * 0.01
        return y.numpy()

    want = power()
    for delay in np.random.default_rng(4).uniform(1e-4, 2e-3, 60):
        interrupted(interrupts, power, delay)
        np.testing.assert_allclose(power(), want, rtol=1e-5)


def test_the_handler_of_the_process_is_back(interrupts):
    trainer = Trainer(17)
    interrupted(interrupts, trainer.step, 0.05)
    trainer.step()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_timeout_by_another_signal_loses_no_parameter():
    """Test runners and notebooks raise from an alarm: the steady state must stand that as well."""
    trainer = Trainer(49)
    for _ in range(4):
        trainer.step()
    before = signal.signal(signal.SIGALRM, raise_timeout)
    try:
        for delay in np.random.default_rng(5).uniform(1e-4, 4e-3, 100):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay, 0.5)
                forever(trainer.step)
            except TimeoutError:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            usable(trainer)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def raise_timeout(*_):
    raise TimeoutError


def test_every_signal_waits_for_what_is_not_cut_in_the_middle():
    def handler(number, frame):
        order.append(number)
        raise TimeoutError(number)

    order = []
    numbers = (signal.SIGUSR1, signal.SIGALRM, signal.SIGUSR1, signal.SIGINT)
    before = {number: signal.signal(number, handler) for number in set(numbers)}
    try:
        with pytest.raises(TimeoutError), signals.held_back():
            for number in numbers:
                signal.raise_signal(number)
            order.append("end")
        assert order == ["end", signal.SIGUSR1, signal.SIGALRM, signal.SIGINT]
        assert all(signal.getsignal(number) is handler for number in before)
    finally:
        for number, own in before.items():
            signal.signal(number, own)


def test_a_signal_that_waited_is_told_once():
    """Also to a loop of asyncio, which hears of it by a file of its own."""
    told = []

    async def program():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: told.append(1))
        try:
            with signals.held_back():
                signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    asyncio.run(program())
    assert told == [1]


ERRORS = [RuntimeError, ValueError, IndexError, MemoryError, TimeoutError]


@pytest.mark.parametrize("kind", ERRORS)
def test_a_step_that_has_run_is_whole_whatever_a_handler_raises(kind, monkeypatch):
    """A signal comes while a program is called for the first time: each kind has one of its own."""

    def handler(*_):
        raise kind("notice")

    def enter(self):
        real(self)
        if coming == ["now"]:
            coming.clear()
            signal.raise_signal(signal.SIGUSR1)

    def first_call(seg, program, args):
        coming[:] = ["now"] if coming else []
        return first(seg, program, args)

    real, first, coming = signals.held_back.__enter__, xla._first_call, []
    monkeypatch.setattr(signals.held_back, "__enter__", enter)
    monkeypatch.setattr(xla, "_first_call", first_call)
    before = signal.signal(signal.SIGUSR1, handler)
    bireme.set_flags({"FLAGS_interpret": False})
    try:
        width = 3 + ERRORS.index(kind)
        model = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1D(width))
        rule = bireme.optimizer.SGD(0.1, parameters=model.parameters())
        x = bireme.to_tensor(np.arange(8, dtype="float32").reshape(2, 4))

        def step():
            (model(x) ** 2).mean().backward()
            rule.step()
            rule.clear_grad()
            model[0].weight.numpy()

        state = model[0].weight, model[1]._mean
        old = [t.numpy() for t in state]
        coming.append("soon")
        with pytest.raises(kind, match=r"^notice$"):
            step()
        changed = [not np.array_equal(t.numpy(), was) for t, was in zip(state, old, strict=True)]
        assert changed[0] == changed[1]
        step()
    finally:
        signal.signal(signal.SIGUSR1, before)
        bireme.set_flags({"FLAGS_interpret": True})


def test_timeouts_leave_no_thread_that_was_to_work():
    """Threads of the compiler, and those that work in turns, whenever the alarm comes."""

    def task():
        for _ in range(50):
            turns.pause()

    before = signal.signal(signal.SIGALRM, raise_timeout)
    try:
        for delay in np.random.default_rng(7).uniform(1e-5, 1e-3, 400):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay, 0.5)
                forever(lambda: [workers.submit(lambda: None).result(), *turns.in_turns(task)])
            except TimeoutError:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert workers.submit(lambda: "done").result(30) == "done"
    gc.collect()
    left = [t for t in threading.enumerate() if t.name == "bireme-trace"]
    for t in left:
        t.join(30)
    assert not any(t.is_alive() for t in left)


def test_timeouts_lose_no_parameter_where_a_step_is_many_programs(monkeypatch):
    """As on an accelerator: pieces run one after another and give each other arrays."""
    monkeypatch.setattr(beside, "at_once", lambda graph: len(graph.nodes) >= beside.LEAST_CALLS)
    monkeypatch.setattr(pieces, "UNIT", 1e5)  # small ones
    monkeypatch.setattr(tiers, "FIRST_WHOLE", 1 << 30)  # one program does not take their place
    bireme.set_flags({"FLAGS_interpret": False})
    before = signal.signal(signal.SIGALRM, raise_timeout)
    try:
        trainer = Trainer(50)
        for _ in range(3):
            trainer.step()
        assert any("pieces" in graph["run by"] for graph in bireme.debug.explain())
        for delay in np.random.default_rng(6).uniform(1e-4, 4e-3, 60):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay, 0.5)
                forever(trainer.step)
            except TimeoutError:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            usable(trainer)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        bireme.set_flags({"FLAGS_interpret": True})


def test_work_in_another_thread_needs_no_signals():
    found = []
    thread = threading.Thread(target=lambda: found.append([Trainer(23).step().item() for _ in range(3)]))
    thread.start()
    thread.join()
    assert len(found[0]) == 3


# ---------------------------------------------------------------- errors of the user's own


def test_an_error_in_the_middle_of_a_model_leaves_the_segment_usable():
    class Broken(nn.Layer):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.fail = True

        def forward(self, x):
            h = self.inner(x) * 2.0
            if self.fail:
                raise KeyError("mine")
            return h

    model, x = Broken(), bireme.ones([2, 4])
    with pytest.raises(KeyError):
        model(x)
    assert segment.local.depth == 0
    model.fail = False
    model(x).sum().backward()
    np.testing.assert_allclose(model.inner.weight.grad.numpy(), np.full((4, 4), 4.0))


def test_a_bad_call_leaves_the_segment_usable():
    x = bireme.ones([2, 3])
    y = x * 2.0
    with pytest.raises(ValueError, match="matmul"):
        bireme.matmul(y, bireme.ones([2, 3]))
    z = y + 1.0
    np.testing.assert_array_equal(z.numpy(), np.full((2, 3), 3.0))


def test_an_error_in_a_hook_leaves_training_usable():
    trainer = Trainer(16)
    handle = trainer.model[0].weight.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trainer.step()
    assert bireme.is_grad_enabled()
    handle.remove()
    usable(trainer)
