"""Loops in Python whose calls the interpreter makes at once: which they are, and that the numbers stay the same."""

from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.graph import executor
from bireme.core.numpy_exec import batches, interpreter
from bireme.core.run import graphs
from bireme.nn import functional as F

RNG = np.random.default_rng(0)


@contextmanager
def plans(enabled=True):
    """The plans of graphs that are interpreted meanwhile, also for the first time; None for one whose calls are made one by
    one, as all are unless `enabled`.
    """
    made, order = [], interpreter._order

    def ordered(graph, live, batched):
        found = order(graph, live, batched)
        made.append(found.plan)
        return found

    def prepare(self, graph, live, donate, device, updates=False):
        return self.call(graph, live, updates, enabled)

    bireme.debug.flush()
    with (
        executor.use("interpreter"),
        mock.patch.object(interpreter, "_order", ordered),
        mock.patch.object(interpreter.Interpreter, "prepare", prepare),
    ):
        yield made
        bireme.debug.flush()


def tensor(*shape, grad=False, rng=RNG):
    return bireme.to_tensor(rng.standard_normal(shape, np.float32), stop_gradient=not grad)


def joined(plan):
    """How many calls became one, for each time that happened."""
    return sorted((len(group) for group in plan.joined), reverse=True)


def same(program, *args):
    """What a program gives with calls made at once and one by one, compared; and the plans."""
    with plans(enabled=False):
        want = program(*args)
    with plans() as made:
        got = program(*args)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-6)
    return made


def episode(moves, width=16, optimizer=None):
    """A policy gradient: each move's forward pass is read at once, the backward pass of all of them is one graph."""
    bireme.seed(3)
    rng = np.random.default_rng(moves)
    policy = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))
    logs = []
    for state in rng.standard_normal((moves, 1, 4), np.float32):
        found = F.log_softmax(policy(bireme.to_tensor(state)), axis=1)
        logs.append(found[0, int(found.numpy().argmax())])
    loss = -(bireme.stack(logs) * bireme.to_tensor(rng.standard_normal(moves, np.float32))).sum()
    loss.backward()
    return [p.grad.numpy() for p in policy.parameters()]


@pytest.mark.parametrize("moves", [5, 6, 17, 40])
def test_a_policy_gradient(moves):
    made = [p for p in same(episode, moves) if p is not None]
    assert joined(made[-1]).count(moves) >= 6
    assert len(made[-1].steps) < 40 + 5 * moves  # slices, and their gradients, are made one by one


def recurrence(steps, batch, width):
    """A cell of one's own: inputs are mapped at once, weights get one gradient; states wait for each other."""
    rng = np.random.default_rng(1)
    xs = tensor(batch, steps, 3, grad=True, rng=rng)
    w, u, b = [tensor(*s, grad=True, rng=rng) for s in ((3, width), (width, width), (width,))]
    h = bireme.zeros([batch, width])
    for t in range(steps):
        h = F.tanh(xs[:, t] @ w + h @ u * 0.5 + b)
    (h * h).sum().backward()
    return [x.grad.numpy() for x in (xs, w, u, b)]


def test_a_recurrence():
    made = [p for p in same(recurrence, 12, 2, 8) if p is not None]
    assert joined(made[-1]).count(12) >= 4


def test_a_plan_serves_other_sizes():
    with plans() as made:
        for batch in (2, 2, 3, 5):
            recurrence(8, batch, 8)
    assert len({id(p) for p in made if p is not None}) == 1
    same(recurrence, 8, 4, 8)


def samples(sizes):
    """A loop over the samples of a batch, each of another size."""
    rng = np.random.default_rng(2)
    w, scale = tensor(4, 4, grad=True, rng=rng), tensor(4, grad=True, rng=rng)
    losses = []
    for n in sizes:
        x = tensor(n, 4, rng=rng)
        y = F.relu(x @ w) * scale
        losses.append((F.softmax(y, axis=-1) * x).sum(axis=1).mean() / n)
    loss = bireme.stack(losses).mean()
    loss.backward()
    return [loss.numpy(), *[p.grad.numpy() for p in (w, scale)], *[x.numpy() for x in losses]]


@pytest.mark.parametrize("sizes", [[3] * 8, [1, 2, 3, 4, 5, 6, 7, 8], [5, 5, 0, 5, 5, 5, 5], [1] * 9])
def test_samples_of_other_sizes(sizes):
    assert any(same(samples, sizes))


def test_other_attributes_at_the_same_outline():
    """What can be put together at some sizes may not be at others."""

    def program(shapes):
        rng = np.random.default_rng(4)
        found = [bireme.to_tensor(rng.standard_normal(s, np.float32)).exp().tanh() * 2.0 for s in shapes]
        return [x.numpy() for x in (bireme.concat([x.flatten() for x in found]), *found)]

    with plans() as made:
        program([(2, 3)] * 10)
        other = program([(2, 3), (4, 1)] * 5)
    with plans(enabled=False):
        want = program([(2, 3), (4, 1)] * 5)
    assert made[0] is not None
    for g, w in zip(other, want, strict=True):
        np.testing.assert_array_equal(g, w)


def test_numbers_are_those_of_each_call():
    def program():
        x = bireme.to_tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
        return [(x.exp() * float(k) + 1.0 / (k + 1)).numpy() for k in range(3)] + [
            y.numpy() for y in [(x.tanh() * float(k) - 0.5 * k) for k in range(12)]
        ]

    same(program)


def test_the_same_operator_with_its_rows_elsewhere():
    """A number less a tensor and a tensor less a number, a weight from the left and from the right."""

    def program():
        rng = np.random.default_rng(9)
        w = tensor(1, grad=True, rng=rng)
        xs = [tensor(1, rng=rng) for _ in range(12)]
        made = [x - 0.5 if k % 2 else 0.5 - x for k, x in enumerate(xs)]
        made += [x - w[0] if k % 2 else w[0] - x for k, x in enumerate(xs)]
        return [x.numpy() for x in (bireme.concat(made), *made)]

    same(program)


def test_what_is_held_is_given():
    """Results on the way that somebody holds, and a weight's gradient so far."""

    def program():
        rng = np.random.default_rng(5)
        w = tensor(3, 3, grad=True, rng=rng)
        (w * 2).sum().backward()
        held = [F.sigmoid(tensor(1, 3, rng=rng) @ w) for _ in range(10)]
        total = held[0]
        for x in held[1:]:
            total = total + x
        (total.sum() + (w * w).sum()).backward()
        return [w.grad.numpy(), total.numpy(), *[x.numpy() for x in held]]

    assert any(same(program))


def test_second_derivatives():
    def program():
        rng = np.random.default_rng(6)
        w = tensor(3, 3, grad=True, rng=rng)
        y = bireme.stack([F.tanh(tensor(2, 3, rng=rng) @ w).sum() for _ in range(8)]).square().sum()
        (g,) = bireme.grad(y, w, create_graph=True)
        g.square().sum().backward()
        return [g.numpy(), w.grad.numpy()]

    same(program)


def test_random_numbers_and_wholes_stay_apart():
    """Masks of dropout are each call's own, and what looks at all rows is made for each."""

    def program():
        bireme.seed(1)
        xs = [F.dropout(bireme.ones([4, 4]), 0.5) for _ in range(8)]
        means = [x - x.mean(axis=0) for x in xs]
        return [x.numpy() for x in (*xs, *means)]

    same(program)


def test_few_calls_are_made_as_they_come():
    with plans() as made:
        x = tensor(2, 3)
        bireme.stack([x.exp(), x.tanh(), x.sin()]).numpy()
    assert not any(made)


def test_large_arrays_are_not_copied():
    def program():
        xs = [tensor(64, 65, rng=np.random.default_rng(7)) for _ in range(30)]
        return [y.numpy() for y in [x.exp() for x in xs]]

    assert not any(same(program))


def test_a_graph_is_looked_through_when_it_comes_back():
    """To look for calls that can be made at once takes longer than to make them once."""
    bireme.debug.flush()
    with mock.patch.object(batches, "plan", side_effect=batches.plan) as plan:
        counts = []
        for moves in (23, 23, 23, 24, 23):
            episode(moves, width=12)
            counts.append(plan.call_count)
    assert counts[0] == 0 < counts[1] == counts[2] == counts[3] == counts[4]


def test_the_same_bits_twice():
    with plans():
        first, second = episode(9), episode(9)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_random_loops(full):
    """Loops over random cells, with numbers, shared and own weights, and states that go on or do not."""
    for seed in range(400 if full else 40):
        same(_random_loop, seed)


def _random_loop(seed):
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 6))
    weights = [tensor(width, width, grad=True, rng=rng) for _ in range(2)]
    bias = tensor(width, grad=True, rng=rng)
    steps = [int(k) for k in rng.integers(0, 9, rng.integers(2, 6))]
    rows = [int(n) for n in (rng.integers(1, 4, 12) if rng.random() < 0.5 else [int(rng.integers(1, 4))] * 12)]
    goes_on = rng.random() < 0.5 and len(set(rows)) == 1
    state, ends, inputs = None, [], []
    for k, n in enumerate(rows[: int(rng.integers(5, 13))]):
        x = tensor(n, width, grad=bool(rng.integers(2)), rng=rng)
        inputs.append(x)
        h = x if state is None else x + state
        for step in steps:
            h = [
                lambda h: h @ weights[0], lambda h: h @ weights[1] + bias, F.tanh, F.sigmoid, F.relu,
                lambda h, k=k: h * (0.1 * k + 0.5), lambda h: h * bias, lambda h: F.softmax(h, axis=-1),
                lambda h: h - h.mean(axis=1, keepdim=True),
            ][step](h)  # fmt: skip
        state = h if goes_on else None
        ends.append(h.sum(axis=1).mean() if rng.random() < 0.7 else h.square().sum())
    loss = bireme.stack(ends).sum()
    if not loss.stop_gradient:
        loss.backward()
    made = [loss, *ends, *[t.grad for t in (*weights, bias, *inputs) if t.grad is not None]]
    return [t.numpy() for t in made]


def test_the_interpreter_orders_what_it_is_given():
    """A total of which some terms come from elsewhere, and results between which one is a part of a sum."""

    def program():
        rng = np.random.default_rng(8)
        a, b, c = [tensor(3, 3, grad=True, rng=rng) for _ in range(3)]
        out = bireme.zeros([1, 3])
        for k in range(8):
            x = tensor(1, 3, grad=True, rng=rng)
            out = out + F.tanh(x @ a) @ (b if k % 3 else c)
        (out.square().sum() + a.square().sum()).backward()
        return [t.grad.numpy() for t in (a, b, c)]

    assert any(same(program))


def test_a_last_batch_of_one_sample_has_gradients_of_its_own():
    """Of one sample a parameter of one row is no sum over rows, and of more it is: no plan serves both."""

    def step(n):
        rng = np.random.default_rng(n)
        w = bireme.create_parameter([1, 4], "float32", default_initializer=nn.initializer.Constant(0.5))
        opt = bireme.optimizer.SGD(0.1, parameters=[w])
        xs = rng.standard_normal((10, n, 4)).astype("float32")
        bireme.concat([(bireme.to_tensor(x) * w).tanh() for x in xs]).sum().backward()
        expected = (xs / np.cosh(xs * 0.5) ** 2).sum((0, 1))[None]
        np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-4, atol=1e-5)
        opt.step()
        assert w.shape == [1, 4]

    for sizes in ((8, 8, 8, 1, 1, 8), (1, 1, 1, 2, 2, 1)):
        graphs.clear()
        for n in sizes:
            step(n)


def test_another_operand_that_has_a_gradient():
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((12, 3, 4)).astype("float32")
    row = rng.standard_normal((1, 4)).astype("float32")

    def gradient(of_row):
        a, b = (bireme.to_tensor(x) for x in (numbers[0], row))
        a.stop_gradient, b.stop_gradient = of_row, not of_row
        bireme.concat([a * b * bireme.to_tensor(x) for x in numbers[2:]]).sum().backward()
        whole = numbers[2:].sum(0)
        expected = (whole * numbers[0]).sum(0, keepdims=True) if of_row else whole * row
        np.testing.assert_allclose((b if of_row else a).grad.numpy(), expected, rtol=1e-4)

    for of_row in (False, False, True, True, False, True):
        gradient(of_row)


@pytest.mark.parametrize("reduced", [lambda x: x.sum(axis=1), lambda x: x.mean(axis=-1), lambda x: x.sum([1])])
@pytest.mark.parametrize("scaled", [False, True])
def test_rows_of_other_lengths_in_one_loop(reduced, scaled):
    """A gradient that reads none of its operand knows by it alone how long the row is."""
    rng = np.random.default_rng(0)
    numbers = [rng.standard_normal((1, 3 + k % 3)).astype("float32") for k in range(12)]
    w = bireme.to_tensor(np.float32(2.0), stop_gradient=False)
    for _ in range(4):
        xs = [bireme.to_tensor(x, stop_gradient=False) for x in numbers]
        bireme.concat([reduced(x * w if scaled else x) * w for x in xs]).sum().backward()
        mean = [1.0 / x.shape[1] if reduced(xs[0]).item() != xs[0].sum().item() else 1.0 for x in xs]
        for x, share in zip(xs, mean, strict=True):
            expected = np.full(x.shape, (4.0 if scaled else 2.0) * share, "float32")
            np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)
        w.clear_grad()
