"""Where recorded work is cut, what runs it, and what must not compile it again."""

import itertools

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.base.flags import max_pending_bytes, max_pending_nodes
from bireme.core.graph import segment

pytestmark = pytest.mark.usefixtures("compiled_when_met_again")


def compiles():
    return bireme.debug.stats()["compiles"]


def pending():
    """Operators recorded and not yet run, the closed step of an optimizer included."""
    waiting = segment.local.waiting
    return segment.local.segment.state.depth + (0 if waiting is None else waiting.state.depth)


def randn(*shape, seed=0):
    return bireme.to_tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


@pytest.fixture(autouse=True)
def nothing_pending():
    bireme.debug.flush()
    yield
    bireme.debug.flush()


@pytest.fixture
def flag():
    """Set flags for one test."""
    before = {}

    def set_flag(name, value):
        before.setdefault(name, bireme.get_flags(name)[name])
        bireme.set_flags({name: value})

    yield set_flag
    bireme.set_flags(before)


class Step:
    """A small model with everything a training step needs; large enough not to be interpreted for ever."""

    widths = itertools.count(100)  # programs are known to the whole process: each test has shapes of its own

    def __init__(self, optimizer=bireme.optimizer.SGD, **options):
        width = next(self.widths)
        self.model = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 8))
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = optimizer(0.1, parameters=self.model.parameters(), **options)
        self.x = randn(64, 32)
        self.y = bireme.to_tensor(np.random.default_rng(1).integers(0, 8, (64,)))

    def __call__(self):
        loss = self.criterion(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss


def warm(step, times=3):
    for _ in range(times):
        step()
    bireme.debug.flush()


# ---------------------------------------------------------------- cuts


def test_a_layer_call_cuts_what_nobody_differentiates():
    x = randn(4, 32) * 2.0
    assert pending() == 1
    nn.Linear(32, 4)(x)
    assert x._value.array is not None  # the preprocessing ran by itself


def run_by_layers(layers, x, rounds=1):
    """How many programs ran a loop over layers without gradients; their weights are there before."""
    [p.numpy() for layer in layers for p in layer.parameters()]
    before = bireme.debug.stats()["flushes"]
    with bireme.no_grad():
        for _ in range(rounds):
            for layer in layers:
                x = layer(x) + 1.0
        x.numpy()
    return bireme.debug.stats()["flushes"] - before


def test_layers_one_after_another_are_one_program_without_gradients():
    layers = [nn.Linear(8, 8) for _ in range(5)]
    assert run_by_layers(layers, randn(2, 8)) == 1
    assert run_by_layers(layers, randn(2, 8) * 2.0) == 2  # the preprocessing is one of its own


def test_a_layer_that_comes_again_begins_the_next_program():
    layers = [nn.Linear(8, 8) for _ in range(3)]
    assert run_by_layers(layers, randn(2, 8), rounds=4) == 4
    assert run_by_layers(layers[:1], randn(2, 8), rounds=30) == 30


def test_programs_of_several_layers_that_keep_changing_are_cut_again():
    layers = [nn.Linear(8, 8) for _ in range(2)]
    run_by_layers(layers, randn(2, 8))

    def grown(n):
        x = randn(2, 8)
        before = bireme.debug.stats()["flushes"]
        with bireme.no_grad():
            x = layers[0](x)
            layers[1](x.tile([n, 1])).numpy()
        return bireme.debug.stats()["flushes"] - before

    assert [grown(n) for n in range(1, 10)] == [1] * 5 + [2] * 4
    assert grown(1) == 2


def test_an_inner_layer_call_does_not_cut():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(32, 32)

        def forward(self, x):
            with bireme.no_grad():
                x = x * 2.0
                before = pending()
                out = self.inner(x)
            assert pending() > before
            return out

    out = Net()(randn(4, 32))
    assert out._value.array is None


def test_a_layer_call_does_not_cut_a_live_tape():
    model, criterion = nn.Linear(32, 8), nn.MSELoss()
    out = model(randn(4, 32))
    loss = criterion(out, randn(4, 8))
    assert out._value.array is None
    loss.backward()
    assert out._value.array is None


def test_a_dead_tape_does_not_keep_a_segment_open():
    model = nn.Linear(32, 8)
    out = model(randn(4, 32))
    del out
    assert pending()
    model(randn(4, 32))
    kept = segment.local.segment.state.depth
    assert kept <= 2  # the first call's nodes are gone: only the second call's are pending


def test_a_training_step_is_one_segment():
    step = Step()
    warm(step)
    bireme.debug.reset_stats()
    step()
    assert bireme.debug.stats()["flushes"] == 1


def test_the_end_of_a_step_closes_and_clear_grad_runs():
    step = Step()
    warm(step)
    loss = step.criterion(step.model(step.x), step.y)
    loss.backward()
    step.optimizer.step()
    assert segment.local.waiting is not None
    assert loss._value.array is None
    assert segment.local.segment.state.depth == 0
    step.optimizer.clear_grad()
    assert segment.local.waiting is None
    assert loss._value.array is not None


def test_a_closed_step_runs_at_the_next_record():
    step = Step()
    warm(step)
    loss = step.criterion(step.model(step.x), step.y)
    loss.backward()
    step.optimizer.step()
    _ = step.x + 1.0
    assert loss._value.array is not None


def test_the_first_step_and_the_second_are_one_program():
    step = Step()
    bireme.debug.reset_stats()
    step()
    segments = len(bireme.debug.explain())
    step()
    step()
    assert len(bireme.debug.explain()) == segments
    assert compiles() == 1


@pytest.mark.parametrize("set_to_zero", [True, False])
@pytest.mark.parametrize("rule", ["SGD", "Momentum", "Adam", "AdamW"])
def test_steps_compile_once_for_every_rule(rule, set_to_zero):
    step = Step(optimizer=getattr(bireme.optimizer, rule))
    bireme.debug.reset_stats()
    for _ in range(5):
        loss = step.criterion(step.model(step.x), step.y)
        loss.backward()
        step.optimizer.step()
        step.optimizer.clear_grad(set_to_zero)
    bireme.debug.flush()
    assert compiles() == 1


def test_two_networks_in_a_row_stay_one_segment():
    generator, judge = nn.Linear(32, 32), nn.Linear(32, 1)
    fake = generator(randn(8, 32))
    judge(fake).mean().backward()
    assert fake._value.array is None


def test_a_recurrent_loop_stays_one_segment():
    cell = nn.Linear(16, 16)
    x, h = randn(4, 5, 16), randn(4, 16)
    for t in range(5):
        h = bireme.tanh(cell(x[:, t]) + cell(h))
    assert h._value.array is None
    h.sum().backward()
    assert cell.weight.grad._value.array is None


# ---------------------------------------------------------------- bounds


def test_pending_nodes_are_bounded(flag):
    flag("FLAGS_max_pending_nodes", 50)
    x = randn(4)
    for _ in range(500):
        x = x + 1.0
        assert pending() <= 50
    np.testing.assert_allclose(x.numpy(), randn(4).numpy() + 500, rtol=1e-5)


def test_pending_bytes_are_bounded(flag):
    flag("FLAGS_max_pending_bytes", 1 << 20)
    held, most = [], 0
    x = randn(64, 1024)  # 256 KiB
    for i in range(24):
        held.append(x + float(i))
        most = max(most, sum(h._value.sig.nbytes for h in held if h._value.array is None))
    assert most <= 2 << 20
    assert all(h._value.array is not None for h in held[:16])


def test_bounds_wait_for_the_end_of_a_live_tape(flag):
    flag("FLAGS_max_pending_nodes", 20)
    x = randn(4)
    x.stop_gradient = False
    h = x
    for _ in range(30):
        h = h * 1.5
    assert h._value.array is None
    loss = h.sum()
    loss.backward()  # a stable place: the forward pass is cut here
    assert h._value.array is not None
    np.testing.assert_allclose(x.grad.numpy(), np.full(4, 1.5**30, "float32"), rtol=1e-5)


def test_a_loop_by_hand_runs_step_by_step():
    """Neither layer nor optimizer, and no value is asked for: the steps must not pile up to one huge program."""
    w, x = randn(4, 3), randn(2, 4, seed=1)
    w.stop_gradient = False
    want, most = w.numpy(), 0
    before = compiles()
    for _ in range(40):
        ((x @ w) ** 2).sum().backward()
        most = max(most, pending())
        with bireme.no_grad():
            w.set_value(w - 0.01 * w.grad)
        w.clear_grad()
        want = want - 0.02 * x.numpy().T @ (x.numpy() @ want)
    assert most < 40 and compiles() - before <= 1
    np.testing.assert_allclose(w.numpy(), want, rtol=1e-4, atol=1e-6)


def test_a_loop_by_hand_with_grad_is_bounded():
    w, x, most = randn(4, 3), randn(2, 4, seed=1), 0
    for _ in range(100):
        w.stop_gradient = False
        g = bireme.grad(((x @ w) ** 2).sum(), w)[0]
        most = max(most, pending())
        w = (w - 0.01 * g).detach()
    assert most < 400


def test_two_losses_share_a_program_and_kept_graphs_do_too():
    w = randn(4)
    w.stop_gradient = False
    bireme.debug.reset_stats()
    a, b = (w * 2.0).sum(), (w * 3.0).sum()
    a.backward()
    b.backward()
    assert bireme.debug.stats()["flushes"] == 0
    np.testing.assert_allclose(w.grad.numpy(), np.full(4, 5.0, "float32"))
    h = (w * w).sum()
    bireme.debug.reset_stats()
    for _ in range(5):
        h.backward(retain_graph=True)
    assert bireme.debug.stats()["flushes"] == 0


def test_a_live_tape_is_bounded_as_well(flag):
    flag("FLAGS_max_pending_nodes", 20)
    h = x = randn(4)
    x.stop_gradient = False
    for _ in range(1000):
        h = h + 1.0
        assert pending() <= 8 * 20
    h.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.ones(4))


def test_default_bounds_are_finite():
    assert 0 < max_pending_nodes.default <= 10_000
    assert 0 < max_pending_bytes.default <= 8 << 30


# ---------------------------------------------------------------- what a force does


def test_a_force_makes_everything_live_real_once():
    a = randn(4) + 1.0
    b = a * 2.0
    bireme.debug.reset_stats()
    b.numpy()
    assert a._value.array is not None
    a.numpy(), b.tolist()
    assert bireme.debug.stats()["flushes"] == 1


def test_dead_values_are_no_outputs():
    a = randn(4) + 1.0
    b = a * 2.0
    seg = a._value.segment
    del a
    b.numpy()
    assert seg.live == (1,)


def test_nothing_live_computes_nothing():
    x = randn(4)
    x + 1.0
    bireme.debug.reset_stats()
    bireme.debug.flush()
    assert bireme.debug.stats()["interprets"] == bireme.debug.stats()["compiles"] == 0


FORCING = {
    "numpy": lambda x: x.numpy(),
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "repr": repr,
    "str": str,
    "format": lambda x: f"{x.sum():.2f}",
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "bool": lambda x: bool(x.sum()),
    "array": np.asarray,
    "dlpack": np.from_dlpack,
    "flush": lambda x: bireme.debug.flush(),
    "synchronize": lambda x: bireme.device.synchronize(),
    "masked_select": lambda x: x[x > 0],
    "nonzero": lambda x: bireme.nonzero(x),
}


@pytest.mark.parametrize("name", FORCING)
def test_calls_that_force(name):
    x = randn(4) + 1.0
    assert x._value.array is None
    FORCING[name](x)
    assert x._value.array is not None


NOT_FORCING = {
    "shape": lambda x: (x.shape, x.dtype, x.ndim, x.size, x.place, x.name, len(x), x.is_leaf),
    "arithmetic": lambda x: (x + 1.0) * x,
    "slice": lambda x: x[1:3],
    "iterate": list,
    "setitem": lambda x: x.__setitem__(0, 1.0),
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "astype": lambda x: x.astype("float64"),
    "random state": lambda x: bireme.get_rng_state(),
    "seed": lambda x: bireme.seed(0),
    "backward": lambda x: (bireme.Parameter([1.0]) * x).sum().backward(),
    "stats": lambda x: (bireme.debug.stats(), bireme.debug.explain()),
}


@pytest.mark.parametrize("name", NOT_FORCING)
def test_calls_that_do_not_force(name):
    x = randn(4) + 1.0
    v = x._value
    NOT_FORCING[name](x)
    assert v.array is None


def test_printing_compiles_nothing():
    x = randn(512, 512)
    bireme.debug.reset_stats()
    for _ in range(3):
        repr(x), str(x), f"{x}"
    assert compiles() == 0
    assert bireme.debug.stats()["flushes"] == 0


# ---------------------------------------------------------------- what is an input and what a constant


def steady(fn, values, atmost=1):
    """Run `fn` on each value; at most one compile, whatever the values."""
    bireme.debug.reset_stats()
    out = [np.asarray(fn(v).numpy()) for v in values]
    assert compiles() <= atmost
    assert len(bireme.debug.explain()) <= atmost
    return out


def test_python_numbers_are_inputs():
    x = randn(512, 512)
    out = steady(lambda v: ((x * v + v) / (v + 1.0)).sum(axis=0), [0.5, 1.5, 2.5, 3.0, 4.0])
    for v, o in zip([0.5, 1.5, 2.5, 3.0, 4.0], out, strict=True):
        np.testing.assert_allclose(o, ((x.numpy() * v + v) / (v + 1)).sum(0), rtol=1e-3, atol=1e-3)


def test_integers_are_inputs():
    x = bireme.to_tensor(np.arange(1 << 18).reshape(512, 512))
    out = steady(lambda v: (x * v + v).sum(axis=0), [2, 3, 5, 7])
    for v, o in zip([2, 3, 5, 7], out, strict=True):
        np.testing.assert_array_equal(o, (x.numpy() * v + v).sum(0))


def test_slice_starts_are_inputs():
    x = randn(64, 256)
    places = [0, 1, 5, 31]
    out = steady(lambda i: x[i : i + 32].exp().sum(axis=0) + x[i] + x[-1 - i] + x[:, i].sum(), places)
    h = x.numpy()
    for i, o in zip(places, out, strict=True):
        np.testing.assert_allclose(o, np.exp(h[i : i + 32]).sum(0) + h[i] + h[-1 - i] + h[:, i].sum(), rtol=1e-4)


def test_random_keys_are_inputs():
    x = randn(512, 512)
    out = steady(lambda _: nn.functional.dropout(x, 0.5, training=True).sum(axis=0), range(5))
    assert not np.array_equal(out[0], out[1])
    bireme.seed(7)
    first = bireme.rand([4]).numpy()
    bireme.seed(7)
    np.testing.assert_array_equal(first, bireme.rand([4]).numpy())


def test_random_numbers_do_not_depend_on_cuts():
    def draw(cut):
        bireme.seed(3)
        found = []
        for _ in range(4):
            found.append(bireme.rand([3]))
            if cut:
                found[-1].numpy()
        return np.stack([f.numpy() for f in found])

    np.testing.assert_array_equal(draw(True), draw(False))


def test_the_learning_rate_is_an_input():
    step = Step()
    warm(step)
    bireme.debug.reset_stats()
    with bireme.debug.no_recompile():
        for rate in (0.3, 0.2, 0.1, 0.05):
            step.optimizer.set_lr(rate)
            step()
    assert compiles() == 0


def test_a_schedule_does_not_compile_again():
    schedule = bireme.optimizer.lr.StepDecay(0.1, step_size=1)
    step = Step()
    step.optimizer.set_lr_scheduler(schedule)
    warm(step)
    with bireme.debug.no_recompile():
        for _ in range(4):
            step()
            schedule.step()


def test_exponents_are_constants():
    x = randn(512, 512)
    bireme.debug.reset_stats()
    for _ in range(3):
        (x**2).sum(axis=0).numpy()
        (x**3).sum(axis=0).numpy()
    assert compiles() == 2  # one for each exponent
    np.testing.assert_allclose((x**3).numpy(), x.numpy() ** 3, rtol=1e-5)


def test_stray_operations_do_not_recompile_the_step():
    step = Step()
    warm(step)
    seen = []
    bireme.debug.reset_stats()
    for i in range(8):
        if i % 2:
            step.x = (step.x - step.x.mean()) / (step.x.std() + 1e-5)  # preprocessing
        loss = step()
        if i % 3 == 0:
            seen.append((loss * 1.0).item())  # logging
        if i % 4 == 0:
            _ = [float((p * p).sum()) for p in step.model.parameters()]
        _ = bireme.rand([3]) + float(i)
    assert step_compiles(step) == 0, bireme.debug.explain()
    assert np.isfinite(seen).all()


def step_compiles(step):
    """Compiles of segments that hold an optimizer's update."""
    notes = [n for n in bireme.core.run.explain._notes if n.entry is not None]
    return sum(
        n.compiles - n.before[2]
        for n in notes
        if any(node.bound.op.name.endswith("_update") for node in n.entry.graph.nodes)
    )


def test_a_held_loss_costs_a_bounded_number_of_compiles():
    step = Step()
    warm(step)
    bireme.debug.reset_stats()
    losses, outs = [], []
    for i in range(12):
        out = step.model(step.x)
        loss = step.criterion(out, step.y)
        loss.backward()
        step.optimizer.step()
        step.optimizer.clear_grad()
        if i % 2:
            losses.append(loss)
        if i % 3 == 0:
            outs.append(out)
    assert compiles() <= 4
    assert np.isfinite([x.item() for x in losses]).all()


def test_a_call_with_one_tensor_twice_does_not_stand_for_others():
    x, y = randn(8, 8), randn(8, 8, seed=1)
    for fn, by_numpy in ((bireme.matmul, np.matmul), (bireme.add, np.add), (bireme.maximum, np.maximum)):
        fn(x, x).numpy()
        np.testing.assert_allclose(fn(x, y).numpy(), by_numpy(x.numpy(), y.numpy()), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(fn(y=x, x=y).numpy(), by_numpy(y.numpy(), x.numpy()), rtol=1e-5, atol=1e-6)


def _flushes(f):
    before = bireme.debug.stats()["flushes"]
    f()
    return bireme.debug.stats()["flushes"] - before


def test_sizes_are_read_without_running_what_is_pending():
    x, lengths = bireme.ones([2, 3, 4, 4]), bireme.to_tensor([3, 5, 2])
    seen = []

    def forward():
        y = (x * 2).exp()
        size = bireme.shape(y)
        seen.append(bireme.nn.functional.interpolate(y, size[2:]).shape)
        seen.append(y.reshape([int(size[0] * size[1]), -1]).shape)
        seen.append([int(lengths.max()), bool((lengths > 4).any()), (lengths // 2).tolist(), lengths[1].item()])

    x.numpy()
    assert _flushes(forward) == 0
    assert seen == [[2, 3, 4, 4], [6, 16], [5, True, [1, 2, 1], 5]]


def test_a_size_that_was_read_is_an_operand_like_any_other():
    n = bireme.to_tensor([2, 3])
    m = n + 1
    assert m.tolist() == [3, 4]
    held = m.numpy()
    m += 1
    n[0] = 7
    assert (m * n).tolist() == [28, 15]
    assert held.tolist() == [3, 4]
    for _ in range(100):
        n = n + 1
        assert n.tolist()[0] == 8 + _


def test_a_bad_index_on_the_way_to_a_size_is_named():
    with pytest.raises(IndexError, match=r"expected indices in \[-2, 1\], got 5"):
        bireme.to_tensor([2, 3])[bireme.to_tensor([5])].item()


def test_a_number_that_was_computed_runs_what_is_pending():
    x = bireme.ones([4])
    assert _flushes(lambda: int((x * 2).sum())) == 1
    assert _flushes(lambda: (x * 2).argmax().item()) == 1


def test_a_backward_pass_past_sizes_from_data_is_the_same_program_in_each_step():
    bireme.seed(0)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))
    opt = bireme.optimizer.SGD(0.01, parameters=model.parameters())
    rng = np.random.default_rng(0)
    x = bireme.to_tensor(rng.standard_normal((256, 128)).astype("float32"))

    def step(count):
        mask = np.zeros((256, 128), bool)
        mask.reshape(-1)[rng.choice(256 * 128, count, replace=False)] = True
        picked = bireme.masked_select(model(x), bireme.to_tensor(mask))
        loss = (picked * picked).mean() + picked.exp().mean()
        loss.backward()
        grads = [p.grad.numpy() for p in model.parameters()]
        opt.step()
        opt.clear_grad()
        return mask, grads

    for count in (300, 301, 302):
        step(count)
    before = bireme.debug.stats()
    for count in range(310, 330):
        step(count)
    after = bireme.debug.stats()
    assert after["compiles"] == before["compiles"]
    assert after["cache_hits"] - before["cache_hits"] >= 2 * 20  # the forward pass, and the backward pass through it

    weights = [p.numpy() for p in model.parameters()]
    mask, grads = step(400)
    hidden = np.maximum(x.numpy() @ weights[0] + weights[1], 0)
    out = hidden @ weights[2] + weights[3]
    g = np.where(mask, (2 * out + np.exp(out)) / 400, 0)
    for found, wanted in zip(grads[2:], (hidden.T @ g, g.sum(0)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_first_weights_are_no_part_of_the_first_step():
    """Where a call that is differentiated comes before the model's, the first step is the same graph as the second."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    opt = bireme.optimizer.SGD(0.1, parameters=net.parameters())
    assert pending() == 0
    states = []
    for seed in range(2):
        x = randn(5, 3, seed=seed)
        x.stop_gradient = False
        net(x * 2.0).sum().backward()
        states.append(segment.local.segment.state)
        opt.step()
        opt.clear_grad()
    assert states[0] is states[1]
