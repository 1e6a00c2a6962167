"""Graphs in pieces: what repeats is found and shared, the numbers are those of the whole, and counts decide the rest."""

import itertools
import re
import signal
import subprocess
import sys
import textwrap
import threading
import types

import jax
import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.base import turns, workers
from bireme.core.declare.op import Tensor, op
from bireme.core.graph import images, pieces, remaking
from bireme.core.graph.graph import Graph
from bireme.core.graph.segment import local
from bireme.core.record import flush
from bireme.core.run import beside, graphs, lookup, loss_reads, tiers
from bireme.core.xla_exec import kernel_choice, xla
from bireme.core.xla_exec import pieces as programs


@pytest.fixture(autouse=True)
def on_cpu():
    """Also where there is a GPU: what is shown here are counts, and sums to the last digit."""
    with bireme.device_guard("cpu"):
        yield


def runs(text):
    """Where a sequence of calls, one letter each, is cut."""
    return [text[a:b] for a, b in pieces._runs(text)]


@pytest.mark.parametrize(
    "text, cut",
    [
        ("", []),
        ("abcdef", ["abcdef"]),
        ("x" + "abcd" * 5 + "y", ["x", *["abcd"] * 5, "y"]),
        ("abcdefgh" * 3, ["abcdefgh"] * 3),
        ("abab" * 3, ["abababababab"]),  # two calls are too few for a piece
        ("x" + "abcde" * 12 + "mn" + "pqrst" * 12 + "z", ["x", *["abcde"] * 12, "mn", *["pqrst"] * 12, "z"]),
    ],
)
def test_runs_that_repeat(text, cut):
    assert runs(text) == cut
    assert "".join(runs(text)) == text


def test_a_long_sequence_is_cut_in_time_that_is_near_its_length():
    rng = np.random.default_rng(0)
    calls = [int(c) for _ in range(30) for c in (*range(100), *rng.integers(100, 10_000, 20))]
    found = pieces._runs(calls)
    assert found[0][0] == 0 and found[-1][1] == len(calls)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(found))
    assert sum(end - start == 100 for start, end in found) == 30


class Net(nn.Layer):
    def __init__(self, layers=6, width=16):
        super().__init__()
        self.first = nn.Linear(8, width)
        self.blocks = nn.LayerList(
            [nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()) for _ in range(layers)]
        )
        self.last = nn.Linear(width, 3)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


def training(by, steps=4, optimizer="AdamW", **options):
    """Losses and parameters of a small network whose graphs are all run by one executor."""
    bireme.seed(0)
    net = Net()
    rng = np.random.default_rng(1)
    for p in net.parameters():
        p.set_value(rng.standard_normal(p.shape, np.float32) * 0.3)
    opt = getattr(bireme.optimizer, optimizer)(learning_rate=0.01, parameters=net.parameters(), **options)
    x = bireme.to_tensor(rng.standard_normal((32, 8), np.float32))
    y = bireme.to_tensor(rng.integers(0, 3, 32))
    losses = []
    with bireme.debug.use_executor(by):
        for _ in range(steps):
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            opt.clear_grad()
            losses.append(float(loss))
        state = [p.numpy() for p in net.parameters()]
    return losses, state


@pytest.mark.parametrize(
    "optimizer, options",
    [
        ("AdamW", {"weight_decay": 0.1}),
        ("SGD", {}),
        ("Momentum", {"use_nesterov": True}),
        ("Lamb", {}),
        ("RMSProp", {"centered": True}),
        ("NAdam", {}),
        ("AdamW", {"grad_clip": bireme.nn.ClipGradByGlobalNorm(0.1)}),
    ],
)
def test_training_gives_what_the_whole_gives(optimizer, options):
    losses, state = training("xla_pieces", optimizer=optimizer, **options)
    want, their_state = training("xla", optimizer=optimizer, **options)
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    for p, q in zip(state, their_state, strict=True):
        np.testing.assert_allclose(p, q, rtol=2e-4, atol=2e-5)


def graph_of(record):
    """The graph that a function records, and the indices of its results."""
    outs = record()
    seg = local.segment
    graph = Graph(seg.state, bireme.core.base.device.current())
    return graph, tuple(sorted(v._value.index for v in outs))


def test_layers_share_a_program():
    net, x = Net(layers=8), bireme.ones([4, 8])
    graph, live = graph_of(lambda: [net(x)])
    cut = pieces.cut(graph, live)
    times = {}
    for piece in cut:
        times.setdefault(piece.key, []).append(piece)
    assert max(len(same) for same in times.values()) == 8
    assert sum(len(same[0].nodes) for same in times.values()) < len(graph.nodes) / 2
    assert pieces.compile_work(cut) < pieces.compile_work(pieces.cut(graph, live)[:1]) * len(times) * 2


def test_what_is_cheap_is_made_again_and_not_kept():
    def record():
        x = bireme.ones([64, 64], dtype="bfloat16") * 2
        h = x
        for _ in range(8):
            wide = h.astype("float32")
            h = bireme.tanh(wide).exp().sin().cos().astype("bfloat16") + h
        return [h]

    graph, live = graph_of(record)
    crossing = {r for piece in pieces.cut(graph, live) for r in piece.reads if r >= 0}
    assert crossing
    assert not [r for r in crossing if graph.value_sigs[r].dtype.name == "float32"]


def test_pieces_are_kept_small_where_the_least_crosses():
    def record():
        x = bireme.ones([4, 4])
        for i in range(20):
            x = bireme.tanh(bireme.concat([x, x * (i + 2.0)], axis=0))[:4]
        return [x]

    graph, live = graph_of(record)
    cut = pieces.cut(graph, live, most=2e5)
    assert len(cut) > 5
    made = [i for piece in cut for i in piece.made]
    assert len(set(made)) >= sum(len(n.outs) for n in graph.needed(live)[0])


def test_calls_that_read_no_other_are_programs_of_their_own_side_by_side():
    def record():
        weights = [bireme.ones(shape) for _ in range(6) for shape in ([4, 8], [8], [8, 4], [4])]
        bireme.debug.flush()
        return [w.astype("float16") for w in weights]

    graph, live = graph_of(record)
    cut = pieces.cut(graph, live, side_by_side=True)
    assert [len(piece.nodes) for piece in cut] == [1] * 24
    assert len({piece.key for piece in cut}) == 4
    assert len(pieces.cut(graph, live)) < 24
    # all different, or one behind the other: nothing is gained by it
    other, live = graph_of(lambda: [bireme.ones([n]).astype("float16") for n in range(1, 20)])
    assert len(pieces.cut(other, live, side_by_side=True)) == len(pieces.cut(other, live))


def test_when_the_whole_takes_the_place_of_pieces():
    assert tiers.whole(run=1e5, compile_work=1e7) == (200, 400)
    assert tiers.whole(run=4e3, compile_work=1.2e6) == (75, 225)  # nobody minds to wait for that
    assert tiers.whole(run=1e6, compile_work=1e6) == (4, 5)


def test_when_a_compile_goes_on_beside_the_runs():
    assert tiers.beside(work=1e6, compile_work=1.5e6, met=2) is None  # as long as two runs: it is waited for
    assert tiers.beside(work=1e3, compile_work=1.5e5, met=2) is None  # a fifth of a second: it is waited for
    assert tiers.beside(work=1e5, compile_work=5e6, met=2) == (100, 175)
    assert tiers.beside(work=1e5, compile_work=5e6, met=170) == (170, 245)
    assert tiers.beside(work=1e6, compile_work=5e6, met=2, rounds=30) == (10, 40)
    assert tiers.finer(tiers.Beside(100, 175)) == (300, 525)


@pytest.fixture
def soon(monkeypatch):
    """Compiles are begun at once and taken over after three more runs."""
    monkeypatch.setattr(tiers, "beside", lambda work, compile_work, met, rounds, last=0: tiers.Beside(met, met + 3))
    graphs.clear()
    yield
    graphs.clear()


def test_a_program_takes_over_by_count(soon):
    net = Net(layers=10, width=64)
    opt = bireme.optimizer.Adam(parameters=net.parameters())
    x = bireme.to_tensor(np.random.default_rng(0).standard_normal((256, 8), np.float32))
    found = []
    for _ in range(12):
        bireme.debug.reset_stats()
        (net(x) ** 2).mean().backward()
        opt.step()
        opt.clear_grad()
        net.last.weight.numpy()
        stats = bireme.debug.stats()
        found.append((stats["interprets"], stats["compiles"]))
    tiers_seen = ["compiled" if compiles else "interpreted" if runs else "known" for runs, compiles in found]
    assert tiers_seen.count("compiled") == 1
    at = tiers_seen.index("compiled")
    assert tiers_seen[:at] == ["interpreted"] * at and at >= 4
    assert tiers_seen[at + 1 :] == ["known"] * (11 - at)


@pytest.fixture
def in_time(monkeypatch):
    """Compiles are begun at once and taken over when Python has done its part."""
    monkeypatch.setattr(
        tiers, "beside", lambda work, compile_work, met, rounds, last=0: tiers.Beside(met, met + rounds + 1)
    )
    monkeypatch.setattr(beside, "_calls", lambda graph, found: 40)
    programs._programs.clear()
    graphs.clear()
    yield
    graphs.clear()


def stepped(function=lambda x: x, runs=50):
    """The losses of a training whose program takes over within these steps."""
    bireme.seed(0)
    net = Net(layers=3, width=64)
    opt = bireme.optimizer.Adam(parameters=net.parameters())
    x = bireme.to_tensor(np.random.default_rng(0).standard_normal((256, 8), np.float32))
    losses = []
    for _ in range(runs):
        loss = (function(net(x)) ** 2).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(loss.item())
    return losses


@pytest.fixture
def finer_in_time(in_time, monkeypatch):
    """What was compiled in a short time is compiled once more when it has run four times."""
    monkeypatch.setattr(tiers, "finer", lambda first: tiers.Beside(4, 4 + first.due - first.begin))


def of_the_step():
    """What is known of the graph that takes longest."""
    return max(graphs.known.values(), key=lambda entry: entry.graph.work)


def test_a_program_made_in_a_short_time_is_made_once_more(finer_in_time, monkeypatch):
    """By all that the compiler can do: it takes over at a count of runs, and nothing is interpreted meanwhile."""
    options, compiled = [], xla._compiled
    monkeypatch.setattr(
        xla, "_compiled", lambda lowered, given: (options.append(set(given)), compiled(lowered, given))[1]
    )
    found = stepped(runs=80)
    short = [not given.isdisjoint(xla.BESIDE_STEPS) for given in options]
    assert sum(short) == len(short) / 2 and sorted(short, reverse=True) == short
    entry = of_the_step()
    (program,) = entry.compiled
    assert (program.tier, program.later, entry.told) == ("xla_pieces", None, "one program")
    bireme.debug.reset_stats()
    graphs.clear()
    programs._programs.clear()
    assert stepped(runs=80) == found
    stats = bireme.debug.stats()
    assert stats["compiles"] == 2 and stats["interprets"] < 60


def test_what_will_be_compiled_once_more_is_told(in_time):
    stepped()
    (program,) = of_the_step().compiled
    assert bireme.debug.explain()[-1]["run by"] == f"one program; compiled once more from run {program.later.when.due}"


def test_what_fails_when_it_is_compiled_once_more_changes_nothing(finer_in_time, monkeypatch):
    take = programs.InPieces.prepare

    def fails(self, *args):
        if not args[-1]:
            raise MemoryError
        return take(self, *args)

    monkeypatch.setattr(programs.InPieces, "prepare", fails)
    found = stepped(runs=80)
    (program,) = of_the_step().compiled
    assert program.later is None and found[-1] < found[0]


@pytest.mark.parametrize("kind", [RuntimeError, TimeoutError])
@pytest.mark.parametrize("when", ["prepared", "waited for"])
def test_what_a_handler_raises_while_it_is_compiled_once_more_is_no_failure(when, kind):
    def handler(*_):
        raise kind("notice")

    def tell(at):
        if at == when:
            signal.raise_signal(signal.SIGUSR1)

    class Run:
        failed = property(lambda self: tell("waited for"))

    def prepared(*_):
        tell("prepared")
        return Run()

    finer = beside.Finer.__new__(beside.Finer)
    finer._live, finer._donate, finer._compiling = (0,), (), types.SimpleNamespace(prepared=prepared)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(kind, match=r"^notice$"):
            finer.take()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_program_compiled_once_more_that_cannot_run_goes(finer_in_time, monkeypatch):
    """The step is done by the one before it."""
    call, before = xla.call, []

    def fails(seg, program, *rest):
        if program not in before and before:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.")
        before.append(program)
        return call(seg, program, *rest)

    monkeypatch.setattr(xla, "call", fails)
    with pytest.warns(RuntimeWarning, match="compiled once more failed .*: the one before goes on"):
        losses = stepped(runs=80)
    assert len(set(before)) == 1 and np.all(np.isfinite(losses))
    assert of_the_step().compiled == before[:1]


def test_a_program_has_run_on_zeros_when_it_takes_over(in_time, monkeypatch):
    shapes, rehearse = [], programs._rehearse

    def watched(program, args, device):
        shapes.append([a.shape for a in jax.tree.leaves(args)])
        rehearse(program, args, device)

    monkeypatch.setattr(programs, "_rehearse", watched)
    bireme.debug.reset_stats()
    found = stepped()
    assert (256, 8) in itertools.chain(*shapes) and bireme.debug.stats()["compiles"]

    def no_room(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(programs, "_rehearse", rehearse)
    monkeypatch.setattr(programs.xla, "put_all", no_room)  # of the rehearsal alone: what steps read is there
    programs._programs.clear()
    graphs.clear()
    assert stepped() == found


def test_an_operator_from_elsewhere_runs_when_it_is_called_alone(in_time, monkeypatch):
    """It may do more than give results."""
    rehearsed = []
    monkeypatch.setattr(programs, "_rehearse", lambda program, args, device: rehearsed.append(args))

    @op()
    def from_elsewhere(x: Tensor) -> Tensor:
        """Not this package's."""
        return x * 1

    try:
        stepped(from_elsewhere)
        assert len(rehearsed) < len(programs._programs)
    finally:
        del bireme.core.base.registry.OPS["from_elsewhere"]


def test_a_run_does_one_part_of_what_a_compile_takes(monkeypatch):
    """No run traces or lowers more than a few calls, and the program is there when it takes over."""
    done, pause = [], turns.pause

    def beside_at_once(work, compile_work, met, rounds, last=0.0):
        return tiers.Beside(met, met + rounds + 1)

    monkeypatch.setattr(tiers, "beside", beside_at_once)
    monkeypatch.setattr(beside, "_calls", lambda graph, found: 8)
    monkeypatch.setattr(turns, "pause", lambda: (done.append(1), pause()))
    graphs.clear()
    programs._programs.clear()
    programs.warm_up(bireme.core.base.device.current())
    net = Net(layers=6, width=48)
    opt = bireme.optimizer.Adam(parameters=net.parameters())
    x = bireme.ones([256, 8])
    parts = []
    for _ in range(40):
        done.clear()
        (net(x) ** 2).mean().backward()
        opt.step()
        opt.clear_grad()
        net.last.weight.numpy()
        parts.append(len(done))
    assert max(parts) == 1
    calls = max(len(entry.graph.nodes) for entry in graphs.known.values())
    of_update = len(net.parameters()) // turns.SMALL  # which is traced parameter by parameter
    assert sum(parts) == 2 * (calls // 8) + of_update  # traced and lowered
    assert programs._programs and {e.told.partition(";")[0] for e in graphs.known.values()} >= {"one program"}
    graphs.clear()


def pieces_of(count):
    """What is compiled beside the runs of a graph of so many equal layers."""
    net, x = Net(layers=count, width=48), bireme.ones([256, 8])
    graph, live = graph_of(lambda: [net(x)])
    return programs.beside_runs(graph, live, ())


def test_one_program_is_made_of_what_repeats_little():
    assert len(pieces_of(2)) == 1
    assert len(pieces_of(40)) > 40


def test_work_in_turns():
    seen = []

    def task():
        for i in range(3):
            seen.append((i, threading.current_thread().name))
            turns.pause()
        seen.append("end")

    rounds = turns.in_turns(task)
    next(rounds)
    assert [i for i, _ in seen] == [0]
    assert len(list(rounds)) == 2 and seen[-1] == "end"
    assert {name for _, name in seen[:-1]} == {"bireme-trace"}
    turns.pause()  # in no such thread: nothing


def test_work_in_turns_is_told_when_it_fails_and_given_up_when_nobody_waits():
    ended = threading.Event()

    def fails():
        turns.pause()
        raise ZeroDivisionError("here")

    rounds = turns.in_turns(fails)
    next(rounds)
    with pytest.raises(ZeroDivisionError, match="here"):
        next(rounds)

    def waits():
        try:
            turns.pause()
        except turns.GivenUp:
            ended.set()
            raise

    rounds = turns.in_turns(waits)
    next(rounds)
    del rounds
    assert ended.wait(10)


def test_an_update_of_many_parameters_alone_goes_on_beside_too():
    """Few calls, but a hundred results: it would take a second to compile."""
    graphs.clear()
    weights = [bireme.create_parameter([64, 64], "float32") for _ in range(40)]
    opt = bireme.optimizer.Adam(parameters=weights)
    gradients = [bireme.ones([64, 64]) for _ in weights]
    for _ in range(4):
        for w, g in zip(weights, gradients, strict=True):
            w.grad = g
        bireme.debug.reset_stats()
        opt.step()
        weights[0].numpy()
        assert bireme.debug.stats()["compiles"] == 0
    graphs.clear()


def test_no_recompile_forbids_to_begin_one_for_a_new_graph(soon):
    net, x = Net(layers=10, width=64), bireme.ones([256, 8])
    with bireme.debug.no_recompile():
        net(x).numpy()
        with pytest.raises(bireme.errors.RecompileError):
            net(x).numpy()


def test_no_recompile_lets_one_go_on_for_a_known_graph(soon):
    net, x = Net(layers=10, width=64), bireme.ones([256, 8])
    net(x).numpy()
    bireme.debug.reset_stats()
    with bireme.debug.no_recompile():
        for _ in range(8):
            net(x).numpy()
    assert bireme.debug.stats()["compiles"] == 1


def test_a_graph_is_cut_when_it_can_be_time(monkeypatch):
    """What the pieces take at least is known without cutting, and so is the first run that a compile may begin at."""
    net, x = Net(layers=10, width=64), bireme.ones([256, 8])
    graph, live = graph_of(lambda: [net(x)])
    found, whole = pieces.cut(graph, live), pieces.cut
    assert pieces.least_compile_work(graph.nodes) <= pieces.compile_work(found)
    monkeypatch.setattr(pieces, "cut", None)
    later = beside.compiling(graph, live, (), 2)
    assert later.least >= tiers.PATIENCE * tiers.WAITED_RUNS
    monkeypatch.setattr(pieces, "cut", whole)
    assert later.least <= later.when.begin < later.when.due


def test_a_program_of_a_new_graph_is_prepared_once(monkeypatch):
    """Also where it is interpreted more than once, as until a compile can be worth it; a few new ones are kept."""
    graphs.clear()
    made, prepare = [], lookup.interpreter.Interpreter.prepare
    monkeypatch.setattr(lookup.interpreter.Interpreter, "prepare", lambda *a, **k: made.append(a) or prepare(*a, **k))
    net, x = Net(layers=10, width=64), bireme.ones([256, 8])
    net(x).numpy()
    before = len(made)
    for _ in range(3):
        net(x).numpy()
    assert len(made) == before
    for n in range(1, graphs.MAX_FRESH + 3):
        net(bireme.ones([n, 8])).numpy()
    assert len(graphs._fresh) == graphs.MAX_FRESH


def test_the_flag_waits_instead():
    net, x = Net(layers=10, width=64), bireme.ones([256, 8])
    graph, live = graph_of(lambda: [net(x)])
    bireme.set_flags({"FLAGS_compile_beside": False})
    try:
        assert beside.compiling(graph, live, (), 2) is None
    finally:
        bireme.set_flags({"FLAGS_compile_beside": True})


@pytest.fixture
def accelerator(monkeypatch):
    """The CPU taken for an accelerator: pieces from the first run, the whole graph from the eighth."""
    monkeypatch.setattr(beside, "at_once", lambda graph: len(graph.nodes) >= beside.LEAST_CALLS)
    monkeypatch.setattr(loss_reads, "worth_it", beside.at_once)
    monkeypatch.setattr(tiers, "whole", lambda run, compile_work: tiers.Beside(5, 8))
    bireme.set_flags({"FLAGS_interpret": False})
    flush.flush()
    graphs.clear()
    yield
    bireme.set_flags({"FLAGS_interpret": True})


def stepper():
    """A training step of the small network, always with the same weights."""
    bireme.seed(0)
    net = Net()
    opt = bireme.optimizer.AdamW(0.01, parameters=net.parameters())
    x, y = bireme.to_tensor(np.ones((32, 8), np.float32)), bireme.to_tensor(np.arange(32) % 3)

    def step():
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    return step


def tiers_of(step, runs, read):
    """The executor of each run's program, whether it gives the loss early, and the losses."""
    found, losses = [], []
    for _ in range(runs):
        loss = step()
        losses.append(loss.item() if read else loss)
        bireme.debug.flush()
        last = [p for e in graphs.known.values() for p in e.compiled if len(e.graph.nodes) > 50]
        found.append((last[-1].tier, last[-1].front is not None))
    return found, [float(loss) for loss in losses]


@pytest.mark.parametrize("read", [False, True])
def test_the_whole_takes_the_place_of_pieces_by_count(accelerator, read):
    found, losses = tiers_of(stepper(), 10, read)
    assert found == [("xla_pieces", False)] * 7 + [("xla", read)] * 3
    with bireme.debug.use_executor("interpreter"):
        step = stepper()
        expected = [step().item() for _ in range(10)]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    graphs.clear()
    assert tiers_of(stepper(), 10, read)[1] == losses, "the same bits again"


def test_a_whole_that_cannot_be_compiled_leaves_the_pieces(accelerator, monkeypatch):
    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(xla.XLA, "prepare", fails, raising=False)
    found, losses = tiers_of(stepper(), 10, False)
    assert {tier for tier, _ in found} == {"xla_pieces"}
    assert np.all(np.isfinite(losses))


@pytest.mark.parametrize("read", [False, True])
def test_a_whole_that_cannot_run_leaves_the_pieces(accelerator, monkeypatch, read):
    """As where all of a step at once needs more memory than its pieces: the step is done by these, and later ones are."""
    expected = tiers_of(stepper(), 7, read)[1]
    graphs.clear()
    call = xla.call

    def fails(seg, program, *rest):
        if program.tier == "xla" and program.front is None:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12 bytes.")
        if program.front is not None:
            seg.early = (None,)
            raise IndexError("raw_hash_map<>::at")
        return call(seg, program, *rest)

    monkeypatch.setattr(xla, "call", fails)
    with pytest.warns(RuntimeWarning, match="one program for all of it failed .*: its pieces go on") as told:
        found, losses = tiers_of(stepper(), 10, read)
    assert {tier for tier, _ in found} == {"xla_pieces"} and len(told) == 1
    assert losses[:7] == expected and np.all(np.isfinite(losses))
    assert "its pieces go on" in bireme.debug.explain()[-1]["why"]


def images_trained(by):
    """Gradients of a small convolutional network in half precision, and what it gives."""
    bireme.seed(0)
    blocks = [nn.Sequential(nn.Conv2D(4, 4, 3, padding=1), nn.BatchNorm2D(4), nn.Hardswish()) for _ in range(4)]
    net = nn.Sequential(nn.Conv2D(3, 4, 3, 2), *blocks, nn.MaxPool2D(2), nn.Flatten(), nn.Linear(24, 2))
    x = bireme.to_tensor(np.random.default_rng(0).standard_normal((2, 3, 13, 9)).astype("float32"))

    with bireme.debug.use_executor(by):
        with bireme.amp.auto_cast(level="O2", dtype="bfloat16"):
            shown = net[:3](x)
            out = net(x)
        (out.astype("float32") ** 2).sum().backward()
        return [
            a.astype("float32").numpy()
            for a in (shown, out, *[p.grad for p in net.parameters() if not p.stop_gradient])
        ]


def test_images_cross_pieces_with_their_channels_last(monkeypatch):
    """As on CUDA, where convolutions in half precision want them so; what leaves the engine has its axes in order."""
    expected, found, wire = images_trained("xla"), [], pieces._wire
    monkeypatch.setattr(images, "turned", lambda graph, live: frozenset(images.found(graph.nodes)) - frozenset(live))
    monkeypatch.setattr(pieces, "_wire", lambda cut, *rest: (wire(cut, *rest), found.extend(cut)))
    for a, b in zip(images_trained("xla_pieces"), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.05, atol=0.05 * np.abs(b).max())
    turned = [sum(len(piece.turned[side]) for piece in found) for side in (0, 1)]
    assert min(turned) > 8, "what some give others read"


def test_what_gradients_can_make_again_does_not_cross_pieces(monkeypatch):
    expected, found, wire = images_trained("xla"), [], pieces._wire
    monkeypatch.setattr(pieces, "_wire", lambda cut, *rest: (wire(cut, *rest), found.append((cut, rest[0]))))

    def trained():
        found.clear()
        given, kept = images_trained("xla_pieces"), 0
        for cut, graph in found:
            border = remaking.first_gradient(graph)
            late = [piece for piece in cut if any(node.made[0] >= border > 0 for node in piece.nodes)]
            read = {r for piece in late for r in piece.reads if 0 <= r < border}
            kept += sum(graph.value_sigs[r].nbytes for r in read)
        return given, kept

    _, all_of_it = trained()
    monkeypatch.setattr(remaking, "applies", lambda graph: True)
    given, less = trained()
    assert less < 0.7 * all_of_it
    for a, b in zip(given, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.05, atol=0.05 * np.abs(b).max())


def test_explain_says_what_runs_and_what_will(accelerator):
    step = stepper()
    bireme.debug.reset_stats()
    tiers_of(step, 6, True)
    told = bireme.debug.explain()[-1]["run by"]
    assert re.fullmatch(r"\d+ pieces, \d+ different; one program from run 8", told)
    tiers_of(step, 3, True)
    assert bireme.debug.explain()[-1]["run by"] == "two programs"


def test_no_recompile_lets_the_whole_come(accelerator):
    step = stepper()
    tiers_of(step, 2, True)
    with bireme.debug.no_recompile():
        found, _ = tiers_of(step, 8, True)
    assert found[-1] == ("xla", True)


def test_numbers_go_to_an_accelerator_once(monkeypatch):
    x = y = bireme.ones([4, 4])
    for _ in range(8):
        y = bireme.tanh(bireme.exp(y * 0.5) @ x + 1.5)
    graph, live = graph_of(lambda: [y])
    run = programs.IN_PIECES.prepare(graph, live, (), graph.device)
    sent = []
    monkeypatch.setattr(xla, "put_all", lambda arrays, device: sent.extend(a.tobytes() for a in arrays) or arrays)
    monkeypatch.setattr(run, "_device", types.SimpleNamespace(is_cpu=False))
    numbers = list(local.segment.numbers)
    first = run._numbers(graph.pack(numbers))
    assert sum(map(len, first)) >= 8 and 0 < len(sent) < 4
    count = len(sent)
    again = run._numbers(graph.pack(numbers))
    assert len(sent) == count
    assert all(a is b for old, new in zip(first, again, strict=True) for a, b in zip(old, new, strict=True))


def test_programs_of_pieces_are_bounded(monkeypatch):
    monkeypatch.setattr(programs, "MOST", 4)
    with bireme.debug.use_executor("xla_pieces"):
        for n in range(2, 12):
            (bireme.ones([n]) * 2 + 1).numpy()
    assert len(programs._programs) <= 4


def test_a_piece_whose_compile_failed_is_tried_again(monkeypatch):
    def fail(*_):
        raise MemoryError("no room")

    with bireme.debug.use_executor("xla_pieces"):
        with monkeypatch.context() as patch:
            patch.setattr(programs.xla, "compiled", fail)
            with pytest.raises(MemoryError):
                (bireme.ones([7, 3]) * 2 + 1).numpy()
        np.testing.assert_array_equal((bireme.ones([7, 3]) * 2 + 1).numpy(), np.full((7, 3), 3.0))


def test_a_failing_task_is_told_to_who_waits():
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        workers.submit(fail).result()
    assert workers.submit(lambda: 3).result() == 3


END = """
    import threading, time
    from bireme.core.base import workers
    done = []
    for i in range(50):
        workers.submit(lambda: (time.sleep(0.2), done.append(1)))
    threading.Timer(0, print, ("told",)).start()
"""


def test_the_end_of_a_program_drops_what_was_not_begun():
    command = [sys.executable, "-c", textwrap.dedent(END)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0 and ended.stdout == "told\n" and not ended.stderr


def test_which_kernels_are_not_timed():
    def options(fn, *args, **how):
        return kernel_choice.options(jax.make_jaxpr(fn)(*args), **how)

    x, w, i = np.ones((1, 2, 5, 5), np.float32), np.ones((2, 2, 3, 3), np.float32), np.array([0, 0])
    conv = jax.jit(lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"))
    assert options(lambda x: x @ x, x) == kernel_choice.PRODUCTS
    assert options(conv, x, w) == kernel_choice.IN_ORDER
    assert options(lambda x, w, i: conv(x, w).at[i].add(1.0), x, w, i) == {}
    assert options(lambda x, w, i: conv(x, w).at[i].add(1.0, unique_indices=True), x, w, i) == kernel_choice.IN_ORDER
    attention = jax.extend.core.Primitive("dot_product_attention_fwd_wrapper")  # as jax calls cuDNN's
    attention.def_abstract_eval(lambda x: x)
    assert options(lambda x, w: attention.bind(conv(x, w)), x, w) == kernel_choice.IN_ORDER
    assert options(lambda x: attention.bind(x), x) == kernel_choice.PRODUCTS | kernel_choice.IN_ORDER
    assert options(lambda x, w: attention.bind(conv(x, w)), x, w, settled=False) == {}


def test_each_gradient_of_cudnns_attention_says_that_it_adds_in_one_order(monkeypatch):
    from jax._src.cudnn import fused_attention_stablehlo as fused

    for check in ("check_cudnn_version", "check_compute_capability", "check_is_flash_attention"):
        monkeypatch.setattr(fused, check, lambda *args, **kwargs: True, raising=False)  # of the GPU that is not there

    def loss(q):
        for _ in range(3):
            q = jax.nn.dot_product_attention(q, q, q, implementation="cudnn")
        return q.astype("float32").sum()

    x = jax.ShapeDtypeStruct((2, 64, 4, 32), "bfloat16")
    traced = jax.jit(jax.grad(loss)).trace(x)
    lowered = traced.lower(lowering_platforms=("cuda",))
    kernel_choice.settle(lowered, traced.jaxpr)
    text = lowered.as_text()
    assert text.count("fmhaSoftmaxBackward") == text.count("force_deterministic") == 3


def test_lowering_beside_steps_lets_go_of_the_interpreter_often():
    before = sys.getswitchinterval()
    with beside.between():
        assert sys.getswitchinterval() < before / 10
    assert sys.getswitchinterval() == before
    with beside.between():
        sys.setswitchinterval(0.5)  # by someone else
    assert sys.getswitchinterval() == 0.5
    sys.setswitchinterval(before)
