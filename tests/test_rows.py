"""Tables of which a step changes a few rows: gradients that stay rows, updates that write rows in place."""

import gc
import random
import sys
import threading

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.numpy_exec import rows
from bireme.core.run import graphs

F = nn.functional
ROWS, WIDTH = 5000, 64

OPTIMIZERS = {
    "sgd": lambda p: bireme.optimizer.SGD(0.1, parameters=p),
    "adagrad": lambda p: bireme.optimizer.Adagrad(0.1, parameters=p),
    "lazy adam": lambda p: bireme.optimizer.Adam(0.1, parameters=p, lazy_mode=True),
    "lazy adamw": lambda p: bireme.optimizer.AdamW(0.1, parameters=p, lazy_mode=True, weight_decay=0.1),
    "clipped sgd": lambda p: bireme.optimizer.SGD(0.1, parameters=p, grad_clip=nn.ClipGradByGlobalNorm(0.01)),
    "clipped lazy adam": lambda p: bireme.optimizer.Adam(
        0.1, parameters=p, lazy_mode=True, grad_clip=nn.ClipGradByGlobalNorm(0.01)
    ),
    # these move rows without a gradient, too
    "momentum": lambda p: bireme.optimizer.Momentum(0.1, parameters=p),
    "adam": lambda p: bireme.optimizer.Adam(0.1, parameters=p),
    "decayed sgd": lambda p: bireme.optimizer.SGD(0.1, parameters=p, weight_decay=0.1),
}
BY_ROWS = [name for name in OPTIMIZERS if name not in ("momentum", "adam", "decayed sgd")]


class Recommender(nn.Layer):
    """Two looks into one table, one into another."""

    def __init__(self, sparse=True, **settings):
        super().__init__()
        self.items, self.users = [nn.Embedding(ROWS, WIDTH, sparse=sparse, **settings) for _ in range(2)]
        self.score = nn.Linear(WIDTH, 2)

    def forward(self, history, item, user):
        return self.score(self.items(history).mean(1) + self.items(item) * self.users(user))


def trained(make, steps=4, before=lambda net, i: None, **settings):
    """Tables and losses after some steps, by rows where that is possible."""
    bireme.seed(3)
    net, rng = Recommender(**settings), np.random.default_rng(5)
    optimizer = make(net.parameters())
    losses = []
    for i in range(steps):
        # of the first rows: many come twice
        history, item, user = [bireme.to_tensor(rng.integers(0, 40, size)) for size in ((8, 6), (8,), (8,))]
        loss = F.cross_entropy(net(history, item, user), bireme.to_tensor(rng.integers(0, 2, 8)))
        loss.backward()
        before(net, i)
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    state = [v for v in optimizer.state_dict().values() if isinstance(v, bireme.Tensor)]  # in the order of parameters
    return [p.numpy() for p in net.parameters()] + [s.numpy() for s in state], losses


@pytest.fixture
def counted(monkeypatch):
    """How many tables were written in place, and how many copied."""
    found = {"in place": 0, "copied": 0}
    array = rows.Update.array

    def watched(update):
        made = array(update)
        found["in place" if made is update.old else "copied"] += 1
        return made

    monkeypatch.setattr(rows.Update, "array", watched)
    graphs.clear()
    yield found
    graphs.clear()


def without_rows(monkeypatch):
    monkeypatch.setattr(rows, "LEAST_TABLE", 1 << 60)
    graphs.clear()


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("settings", [{}, {"padding_idx": 3}, {"scale_grad_by_freq": True, "sparse": False}], ids=str)
def test_rows_give_the_bits_of_whole_tables(name, settings, counted, monkeypatch):
    found, losses = trained(OPTIMIZERS[name], **settings)
    by_rows = name in BY_ROWS and ("lazy" not in name or settings.get("sparse", True))
    assert bool(counted["in place"]) == by_rows
    without_rows(monkeypatch)
    expected, same = trained(OPTIMIZERS[name], **settings)
    tolerance = 1e-5 if "clipped" in name else 0  # the squares of rows alone are added up in another order
    np.testing.assert_allclose(losses, same, rtol=tolerance)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["sgd", "lazy adam", "adagrad"])
def test_a_compiled_step_gives_nearly_the_same(name, monkeypatch):
    graphs.clear()
    found, _ = trained(OPTIMIZERS[name])
    graphs.clear()
    bireme.set_flags({"FLAGS_interpret": False})
    try:
        expected, _ = trained(OPTIMIZERS[name])
    finally:
        bireme.set_flags({"FLAGS_interpret": True})
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-3)  # Adam divides small numbers by small ones


def table_of(net):
    return net.items.weight


HOLDERS = {
    "numpy()": lambda net: table_of(net).numpy(),
    "detach()": lambda net: table_of(net).detach(),
    "clone()": lambda net: table_of(net).clone(),
    "a view": lambda net: table_of(net)[:50],
    "np.asarray": lambda net: np.asarray(table_of(net)),
    "state_dict": lambda net: {k: v.detach() for k, v in net.state_dict().items()}["items.weight"],
    "dlpack": lambda net: np.from_dlpack(table_of(net).detach()),
    "memoryview": lambda net: memoryview(table_of(net).numpy()),
}


@pytest.mark.parametrize("held", HOLDERS)
def test_who_holds_the_table_sees_what_others_would(held, counted, monkeypatch):
    """What shares storage with a parameter follows its updates, as in Paddle; nothing else changes."""

    def kept():
        found = []

        def hold(net, i):
            if i >= 1:
                it = HOLDERS[held](net)
                found.append((it, np.array(it)))

        trained(OPTIMIZERS["sgd"], before=hold)
        return [(np.array(it), was) for it, was in found]

    found = kept()
    if held not in ("detach()", "a view", "state_dict"):
        for now, was in found:
            np.testing.assert_array_equal(now, was)
    without_rows(monkeypatch)
    for one, other in zip(found, kept(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_table_with_another_parameter_in_its_place(counted):
    """Two parameters with one value: each changes by itself."""
    a, b = nn.Embedding(ROWS, WIDTH), nn.Embedding(ROWS, WIDTH)
    b.weight.set_value(a.weight)
    optimizer = bireme.optimizer.SGD(0.5, parameters=a.parameters() + b.parameters())
    before = a.weight.numpy().copy()
    for _ in range(3):
        (a(bireme.to_tensor([1, 2])).sum() + 2 * b(bireme.to_tensor([2, 3])).sum()).backward()
        optimizer.step()
        optimizer.clear_grad()
        a.weight.sum().item()
    change = [np.unique(np.nonzero(w.weight.numpy() != before)[0]).tolist() for w in (a, b)]
    assert change == [[1, 2], [2, 3]]
    np.testing.assert_allclose(a.weight.numpy()[1], before[1] - 1.5, rtol=1e-5)
    np.testing.assert_allclose(b.weight.numpy()[3], before[3] - 3.0, rtol=1e-5)


def test_several_steps_before_anything_is_read(counted, monkeypatch):
    def run():
        bireme.seed(0)
        e = nn.Embedding(ROWS, WIDTH)
        optimizer = bireme.optimizer.SGD(0.1, parameters=e.parameters())
        for i in range(3):
            (e(bireme.to_tensor([1, 2, 2 + i])) ** 2).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
        return e.weight.numpy()

    found = run()
    without_rows(monkeypatch)
    np.testing.assert_array_equal(found, run())


@pytest.mark.parametrize("step", [True, False])
def test_a_gradient_that_is_read_is_whole(step, counted):
    e = nn.Embedding(ROWS, WIDTH, sparse=True)
    loss = e(bireme.to_tensor([4, 4, 7])).sum()
    loss.backward()
    if step:
        bireme.optimizer.SGD(0.1, parameters=e.parameters()).step()
    grad = e.weight.grad.numpy()  # which runs all that is pending
    assert grad.shape == (ROWS, WIDTH) and grad.sum() == 3 * WIDTH and (grad[4] == 2).all()
    assert loss.item() and e.weight.grad.sum().item() == 3 * WIDTH


@pytest.mark.parametrize("name", ["sgd", "lazy adam"])
def test_a_gradient_that_lives_on_is_whole_when_it_is_asked_for(name, counted, monkeypatch):
    """Loops that clear gradients before the next pass hold them while the loss is read; others add up several."""

    def run():
        bireme.seed(0)
        e = nn.Embedding(ROWS, WIDTH, sparse=True)
        optimizer = OPTIMIZERS[name](e.parameters())
        grads = []
        for i in range(6):
            if i != 3:  # two passes add up
                optimizer.clear_grad()
            loss = (e(bireme.to_tensor([1, i, i])) ** 2).sum()
            loss.backward()
            optimizer.step()
            loss.item()
            if i in (2, 3):
                grads.append(e.weight.grad.numpy())
                grads.append((e.weight.grad * 2).numpy())
        return [*grads, e.weight.numpy(), e.weight.grad.numpy()]

    found = run()
    assert counted["in place"] >= 4
    without_rows(monkeypatch)
    for x, y in zip(found, run(), strict=True):
        np.testing.assert_array_equal(x, y)


def test_an_index_outside_of_the_table_changes_nothing(counted):
    e = nn.Embedding(ROWS, WIDTH)
    optimizer = bireme.optimizer.SGD(0.1, parameters=e.parameters())
    before = e.weight.numpy().copy()
    for index in (1, ROWS, 2):
        try:
            e(bireme.to_tensor([index])).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
            e.weight.sum().item()
        except IndexError:
            optimizer.clear_grad()
            assert index == ROWS
    assert np.unique(np.nonzero(e.weight.numpy() != before)[0]).tolist() == [1, 2]


class _Interrupt(Exception):
    pass


def test_an_interrupt_anywhere_leaves_a_step_whole():
    """Interrupted at any line of the run and the hand-over, a table has all new rows or none, with its moments."""

    def train(stop, steps=3):
        bireme.seed(1)
        graphs.clear()
        e = nn.Embedding(ROWS, WIDTH, sparse=True)
        optimizer = bireme.optimizer.Adam(0.1, parameters=e.parameters(), lazy_mode=True)
        lines = [0]

        def trace(frame, event, arg):
            if event == "line" and frame.f_code.co_filename.endswith(("rows.py", "flush.py", "lookup.py")):
                lines[0] += 1
                if lines[0] == stop:
                    raise _Interrupt
            return trace

        for i in range(steps):
            sys.settrace(trace if i == 2 else None)
            try:
                loss = (e(bireme.to_tensor([1, 2 + i])) ** 2).sum()
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
                loss.item()
            except _Interrupt:
                pass
            finally:
                sys.settrace(None)
        state = [v for k, v in optimizer.state_dict().items() if "moment" in k]
        return [e.weight.numpy(), *[s.numpy() for s in state]], lines[0]

    whole, count = train(-1)
    before, _ = train(-1, steps=2)
    assert count > 100
    stepped = 0
    for stop in range(1, count + 1, 5):
        found, _ = train(stop)
        done = (found[0] == whole[0]).all()
        stepped += done
        for x, y in zip(found, whole if done else before, strict=True):
            np.testing.assert_array_equal(x, y)
    assert stepped


def test_threads_that_train_tables_of_their_own(counted):
    found = []

    def work():
        found.append(trained_alone())

    def trained_alone():
        rng = np.random.default_rng(0)
        e = nn.Embedding(ROWS, WIDTH, weight_attr=nn.initializer.Constant(1.0))
        optimizer = bireme.optimizer.SGD(0.1, parameters=e.parameters())
        for _ in range(30):
            (e(bireme.to_tensor(rng.integers(0, ROWS, 20))) ** 2).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
            e.weight[:1].sum().item()
        return e.weight.numpy()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for w in found:
        np.testing.assert_array_equal(w, found[0])
    assert len(found) == 4


def test_memory_stays_level(counted):
    e = nn.Embedding(ROWS, WIDTH)
    optimizer = bireme.optimizer.SGD(0.1, parameters=e.parameters())
    arrays = set()
    for i in range(20):
        loss = e(bireme.to_tensor([i, i + 1])).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        loss.item()
        arrays.add(id(e.weight._value.array))
    gc.collect()
    assert len(arrays) == 1 and counted["copied"] <= 1


def random_program(seed):
    """A loop over small tables that shares, holds, reads and clears at random; all numbers that come out of it."""
    choice, rng = random.Random(seed), np.random.default_rng(seed)
    bireme.seed(seed)
    count, width = choice.choice([(5, 3), (40, 4), (300, 2)])
    tables = [
        nn.Embedding(count, width, sparse=choice.random() < 0.7, padding_idx=choice.choice([None, None, 0]))
        for _ in range(choice.choice([1, 1, 2]))
    ]
    last = nn.Linear(width, 2)
    parameters = [p for layer in (*tables, last) for p in layer.parameters()]
    name = choice.choice([*OPTIMIZERS])
    optimizer = OPTIMIZERS[name](parameters)
    holders = [
        lambda w: w.numpy(),
        lambda w: w.clone(),
        lambda w: w.detach(),
        lambda w: w[1:],
        lambda w: w.grad,
        lambda w: w.set_value(w * 0.5),
        lambda w: [t for t in optimizer.state_dict().values() if isinstance(t, bireme.Tensor)],
    ]
    found, held = [], []
    for _ in range(choice.randint(2, 6)):
        if choice.random() < 0.4:
            optimizer.clear_grad(set_to_zero=choice.random() < 0.5)
        loss = 0.0
        for _ in range(choice.choice([1, 1, 2, 3])):
            table, shape = choice.choice(tables), choice.choice([(1,), (4,), (2, 3)])
            rows_read = table(bireme.to_tensor(rng.integers(0, count, shape)))
            if choice.random() < 0.2:
                rows_read = rows_read * table.weight[:1]
            labels = bireme.to_tensor(rng.integers(0, 2, int(np.prod(shape))))
            loss = loss + F.cross_entropy(last(rows_read).reshape([-1, 2]), labels)
        if choice.random() < 0.2:
            found.append(loss.item())
        loss.backward()
        weight = choice.choice(tables).weight
        if choice.random() < 0.15 and weight.grad is not None:
            found.append(weight.grad.numpy())
        if choice.random() < 0.6:
            held.append(choice.choice(holders)(weight))
        for _ in range(choice.choice([1, 1, 1, 1, 2])):
            optimizer.step()
        if choice.random() < 0.6:
            optimizer.clear_grad()
        if choice.random() < 0.7:
            found.append(loss.item())
    found += [x.numpy() for p in parameters for x in (p, p.grad) if x is not None]
    for it in held:
        found += [np.array(x) for x in (it if isinstance(it, list) else [it]) if x is not None]
    return name, found


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed, counted, monkeypatch):
    monkeypatch.setattr(rows, "LEAST_SHARE", 0)
    monkeypatch.setattr(rows, "LEAST_TABLE", 0)
    name, found = random_program(seed)
    without_rows(monkeypatch)
    _, expected = random_program(seed)
    tolerance = 1e-5 if "clipped" in name else 0
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def test_sums_of_rows():
    x = rows.Rows.added(np.array([4, 1, 4, 9]), np.arange(8, dtype=np.float32).reshape(4, 2), 9)
    assert x.index.tolist() == [1, 4] and x.values.tolist() == [[2, 3], [4, 6]]
    y = rows.total(x, rows.Rows(np.array([0, 4]), np.ones((2, 2), np.float32), 9))
    assert y.index.tolist() == [0, 1, 4] and y.values.tolist() == [[1, 1], [2, 3], [5, 7]]
    none = rows.Rows.added(np.zeros(0, np.int64), np.zeros((0, 2), np.float32), 9)
    assert x.whole().tolist()[4] == [4, 6] and x.whole().sum() == 15
    assert none.index.size == 0 and rows.total(none, x).values.tolist() == x.values.tolist()
