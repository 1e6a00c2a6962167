"""A loop that reads its loss every step gets it before the gradients are there; shown on CPU, which is told to be an
accelerator.
"""

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.graph import remaking, segment
from bireme.core.graph.graph import Graph
from bireme.core.record import flush
from bireme.core.run import graphs, loss_reads
from bireme.core.xla_exec import split_step


@pytest.fixture(autouse=True)
def on_cpu():
    """Also where there is a GPU: what is shown here are counts, and sums to the last digit."""
    with bireme.device_guard("cpu"):
        yield


@pytest.fixture
def apart(monkeypatch):
    """The CPU taken for a device that computes while the host records."""
    monkeypatch.setattr(loss_reads, "MIN_CALLS", 24)
    monkeypatch.setattr(loss_reads, "worth_it", lambda graph: len(graph.nodes) >= loss_reads.MIN_CALLS)
    flush.flush()
    graphs.clear()
    bireme.set_flags({"FLAGS_interpret": False})
    yield
    bireme.set_flags({"FLAGS_interpret": True})


class Loop:
    """A small network and how it is trained; or one with dropout, running statistics and clipped gradients."""

    def __init__(self, rich=False):
        bireme.seed(7)
        layers = (
            [nn.Linear(16, 16, bias_attr=False), nn.BatchNorm1D(16), nn.GELU(), nn.Dropout(0.1)]
            if rich
            else [nn.Linear(16, 16), nn.Tanh()] * 3
        )
        self.net = nn.Sequential(*layers, *layers, nn.Linear(16, 4))
        clip = nn.ClipGradByGlobalNorm(1.0) if rich else None
        make = bireme.optimizer.AdamW if rich else bireme.optimizer.SGD
        self.opt = make(1e-2, parameters=self.net.parameters(), grad_clip=clip)
        self.x = bireme.to_tensor(np.random.RandomState(0).standard_normal((32, 16)).astype("float32"))
        self.y = bireme.to_tensor(np.arange(32) % 4)

    def step(self):
        loss = nn.functional.cross_entropy(self.net(self.x), self.y)
        loss.backward()
        self.opt.step()
        self.opt.clear_grad()
        return loss

    def state(self):
        return {k: v.numpy() for k, v in self.net.state_dict().items()}


def fronts():
    """Of the programs that run now: whether one gives the loss early."""
    return [
        p.front is not None
        for entry in graphs.known.values()
        for p in entry.compiled
        if len(entry.graph.nodes) >= loss_reads.MIN_CALLS
    ]


def test_a_loss_that_is_read_every_step(apart):
    quiet = Loop(rich=True)
    kept = [quiet.step() for _ in range(8)]
    assert not any(fronts())
    bireme.debug.reset_stats()
    graphs.clear()
    reading, found = Loop(rich=True), []
    for _ in range(8):
        found.append(reading.step().item())
        compiles = bireme.debug.stats()["compiles"]
        if len(found) == 3:
            known = compiles
    assert fronts()[-1]
    assert compiles == known, "nothing is compiled after the third step"
    np.testing.assert_allclose(found, [x.item() for x in kept], rtol=1e-5)
    for name, array in quiet.state().items():
        np.testing.assert_allclose(reading.state()[name], array, rtol=2e-3, atol=2e-5, err_msg=name)
    assert "read after every run" in str(bireme.debug.explain())


def test_a_loop_that_stops_to_read_and_begins_again(apart):
    loop = Loop()
    for _ in range(5):
        loop.step().item()
    assert fronts()[-1]
    compiles = bireme.debug.stats()["compiles"]
    with bireme.debug.no_recompile():
        losses = [loop.step() for _ in range(5)]
        assert not fronts()[-1]
        losses[-1].item()  # now and then is not every step
        loop.step()
        loop.step()
        assert not fronts()[-1]
        for _ in range(4):
            loop.step().item()
        assert fronts()[-1]
    assert bireme.debug.stats()["compiles"] == compiles
    assert np.isfinite([x.item() for x in losses]).all()


@pytest.mark.parametrize("how", ["never", "every second", "deterministic"])
def test_loops_that_gain_nothing(how, apart):
    loop = Loop()
    bireme.set_flags({"FLAGS_deterministic": how == "deterministic"})
    try:
        for i in range(6):
            loss = loop.step()
            if how == "deterministic" or (how == "every second" and i % 2):
                loss.item()
    finally:
        bireme.set_flags({"FLAGS_deterministic": False})
    assert not any(fronts())


def test_deterministic_for_a_while(apart):
    loop = Loop()
    for _ in range(5):
        loop.step().item()
    assert fronts()[-1]
    bireme.set_flags({"FLAGS_deterministic": True})
    try:
        for _ in range(3):
            loop.step().item()
        assert not fronts()[-1], "the program of the whole"
    finally:
        bireme.set_flags({"FLAGS_deterministic": False})
    with bireme.debug.no_recompile():
        loop.step().item()


def test_a_watch_that_another_thread_takes_away(apart, monkeypatch):
    """Between two looks at it: the thread that runs the same graph has seen that its loss is not read."""

    class Fleeting(graphs.Entry):
        __slots__ = ("_looks", "_watch")

        @property
        def watch(self):
            self._looks += 1
            return self._watch if self._looks % 2 else None

        @watch.setter
        def watch(self, watch):
            self._watch, self._looks = watch, 0

    monkeypatch.setattr(graphs, "Entry", Fleeting)
    loop = Loop()
    assert np.isfinite([loop.step().item() for _ in range(4)]).all()
    assert any(entry._watch is not None for entry in graphs.known.values())
    flush.flush()
    graphs.clear()


def test_a_number_of_the_backward_pass_is_read_too(apart):
    loop = Loop()
    scale = bireme.to_tensor([1.0], stop_gradient=False)
    for _ in range(5):
        loss = nn.functional.cross_entropy(loop.net(loop.x) * scale, loop.y)
        loss.backward()
        slope = scale.grad * 1
        loop.opt.step()
        loop.opt.clear_grad()
        scale.clear_grad()
        loss.item(), slope.item()
    assert not any(fronts())


def test_an_error_of_the_second_program_takes_the_step_back(apart, monkeypatch):
    loop = Loop()
    for _ in range(4):
        loop.step().item()
    before = loop.state()
    program = [p for entry in graphs.known.values() for p in entry.compiled][-1]
    assert program.front is not None

    def fails(*args):
        raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")

    call, program.call = program.call, fails
    with pytest.raises(MemoryError, match="RESOURCE_EXHAUSTED"):
        loop.step()
    program.call = call
    after = loop.state()
    assert all(np.array_equal(after[name], before[name]) for name in before)
    assert np.isfinite(loop.step().item())


def graph_of(call):
    flush.flush()
    x = bireme.to_tensor(np.ones((4, 4), "float32"), stop_gradient=False)
    held = call(x)
    graph = Graph(segment.local.segment.state, bireme.core.base.device.current())
    live = tuple(sorted(t._value.index for t in held))
    return graph, live, held


def test_parts():
    def call(x):
        loss = bireme.tanh(x).sum()
        return [loss, *bireme.grad([loss], [x])]

    graph, live, _ = graph_of(call)
    found = split_step.parts(graph, live)
    assert [n.bound.op.name for n in found.before] == ["tanh", "sum", "full_of"]
    assert found.early == live[:1] and found.late == live[1:]
    assert split_step.parts(graph, live[1:]) is None  # nobody holds the loss
    alone, live, _ = graph_of(lambda x: [bireme.tanh(x)])
    assert split_step.parts(alone, live) is None  # no gradient


def test_numbers_in_more_bits_are_made_again():
    def call(x):
        wide = bireme.exp(x.astype("bfloat16")).astype("float32")
        loss = (wide * wide).sum()
        return [loss, *bireme.grad([loss], [x])]

    graph, live, _ = graph_of(call)
    found = split_step.parts(graph, live)
    assert [n.bound.op.name for n in found.after[:1]] == ["cast"]
    assert all(graph.value_sigs[i].dtype is not bireme.float32 or graph.value_sigs[i].size == 1 for i in found.crossing)


def test_what_gradients_read_element_by_element_is_made_again():
    """And what convolutions with a window read; not what products do, and nothing of which more than a few calls would
    have to be made again.
    """
    flush.flush()
    net = nn.Sequential(
        nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.Hardswish(),
        nn.Conv2D(4, 4, 3), nn.BatchNorm2D(4), nn.Silu(),
        nn.Conv2D(4, 4, 1), nn.BatchNorm2D(4), nn.ReLU(),
    )  # fmt: skip
    loss = net(bireme.ones([2, 3, 8, 8])).mean()
    loss.backward()
    graph = Graph(segment.local.segment.state, bireme.core.base.device.current())
    live = tuple(range(len(graph.value_sigs)))
    found = split_step.parts(graph, live)
    maker = {i: node.bound.op.name for node in graph.nodes for i in node.made}
    assert {maker[i] for i in found.crossing} >= {"conv2d", "silu_of"}
    assert {maker[i] for i in found.crossing}.isdisjoint({"batch_norm_of", "relu", "hardswish"})
    again = [node.bound.op.name for node in found.after if node.first < remaking.first_gradient(graph)]
    assert {"batch_norm_of", "relu", "hardswish"} <= set(again)


def test_what_is_compared_to_the_last_bit_is_not_made_again():
    """The gradient of a maximum looks for it among the operands, and a mask is what it was in the forward pass."""
    flush.flush()
    x = bireme.ones([4, 64]) @ bireme.ones([64, 64])
    x.stop_gradient = False
    y = bireme.tanh(x * 0.3)
    mask = (y == y.max()).astype("float32")
    loss = y.amax(-1).sum() + (mask * x).sum()
    loss.backward()
    graph = Graph(segment.local.segment.state, bireme.core.base.device.current())
    found = split_step.parts(graph, tuple(range(len(graph.value_sigs))))
    maker = {i: node.bound.op.name for node in graph.nodes for i in node.made}
    assert {"tanh", "equal"} <= {maker[i] for i in found.crossing}
    again = {node.bound.op.name for node in found.after if node.first < remaking.first_gradient(graph)}
    assert again.isdisjoint({"tanh", "equal", "scale", "multiply"})


class OfManyClasses(Loop):
    """A network whose logits are larger than all else that gradients read."""

    def __init__(self):
        bireme.seed(7)
        self.net = nn.Sequential(*[nn.Linear(16, 16), nn.Tanh()] * 6, nn.Linear(16, 5000))
        self.opt = bireme.optimizer.AdamW(1e-2, parameters=self.net.parameters())
        self.x = bireme.to_tensor(np.random.RandomState(0).standard_normal((32, 16)).astype("float32"))
        self.y = bireme.to_tensor(np.arange(32) * 7)


def test_the_gradient_of_many_classes_goes_with_the_loss():
    """Of the logits and their gradient only one is then kept for the second part, if at all."""
    flush.flush()
    loop = OfManyClasses()
    flush.flush()
    loss = nn.functional.cross_entropy(loop.net(loop.x), loop.y)
    loss.backward()
    graph = Graph(segment.local.segment.state, bireme.core.base.device.current())
    found = split_step.parts(graph, (loss._value.index, len(graph.value_sigs) - 1))
    assert found.early == (loss._value.index,)
    assert max(graph.value_sigs[i].size for i in found.crossing) < 32 * 5000
    assert "matmul.grad" in [node.bound.op.name for node in found.before]
    assert len(found.before) + len(found.after) == len(graph.nodes)


def test_a_loss_over_many_classes_that_is_read_every_step(apart):
    quiet, reading = OfManyClasses(), OfManyClasses()
    for _ in range(20):
        quiet.step()
    flush.flush()
    kept = quiet.state()
    graphs.clear()
    losses = [float(reading.step()) for _ in range(20)]
    assert losses[-1] < losses[0] and any(fronts())
    for name, value in reading.state().items():
        np.testing.assert_allclose(value, kept[name], rtol=2e-4, atol=2e-5, err_msg=name)
