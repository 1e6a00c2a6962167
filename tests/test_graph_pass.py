"""Passes to some targets that are repeated instead of walked, their graphs with them: the same derivatives of any order."""

import random

import numpy as np
import pytest

import bireme
from bireme.core.numpy_exec import batches
from bireme.core.tensor import backward_pass, graph_pass

STEPS = 4


def leaf(*values):
    return bireme.to_tensor(list(values), stop_gradient=False)


def walked(monkeypatch):
    """Let no pass be remembered."""

    def walk(current, retain, wanted, useful):
        current.run(retain, useful(), wanted, set())

    monkeypatch.setattr(graph_pass, "run_to", walk)
    monkeypatch.setattr(
        backward_pass.BackwardPass, "run_remembered", lambda self, retain: self.run(retain, None, {}, set())
    )


def network(seed=0, width=6, layers=4):
    bireme.seed(seed)
    parts = [bireme.nn.Linear(2, width), bireme.nn.Tanh()]
    for _ in range(layers - 1):
        parts += [bireme.nn.Linear(width, width), bireme.nn.Sigmoid()]
    return bireme.nn.Sequential(*parts, bireme.nn.Linear(width, 1))


def equation(net, x, t, k):
    """A residual with derivatives of the first, second and third order; the number in it differs from step to step."""
    u = net(bireme.concat([x, t], axis=1)) * k
    u_x, u_t = bireme.grad(u.sum(), [x, t], create_graph=True)
    (u_xx,) = bireme.grad(u_x.sum(), x, create_graph=True)
    (u_xxx,) = bireme.grad((u_xx * k).sum(), x, create_graph=True)
    return ((u_t + u * u_x - 0.1 * u_xx + u_xxx) ** 2).mean()


def trained(loss_of, read=False):
    net = network()
    opt = bireme.optimizer.Adam(0.01, parameters=net.parameters())
    losses = []
    for i in range(STEPS):
        rng = np.random.default_rng(i)
        x, t = (bireme.to_tensor(rng.random((5, 1), np.float32), stop_gradient=False) for _ in range(2))
        loss = loss_of(net, x, t, 1.0 + i)
        if read:
            losses.append(loss.item())
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(loss.item())
    return [*losses, *[p.numpy() for p in net.parameters()]]


def penalty(net, x, t, k):
    """A gradient's norm as a critic is trained with, by the gradient of something that is no leaf."""
    z = bireme.concat([x * k, t], axis=1)
    out = net(z)
    (g,) = bireme.grad(out, z, grad_outputs=bireme.ones_like(out), create_graph=True, retain_graph=True)
    return out.mean() + k * ((g.norm(2, axis=1) - 1.0) ** 2).mean()


def read_on_the_way(net, x, t, k):
    """Segments end between the passes."""
    u = net(bireme.concat([x, t], axis=1))
    assert np.isfinite(u.numpy()).all()
    (u_x,) = bireme.grad((u * k).sum(), x, create_graph=True)
    assert np.isfinite(u_x.numpy()).all()
    (u_xx,) = bireme.grad(u_x.sum(), x, create_graph=True)
    return (u_xx**2).mean() + (u**2).mean()


@pytest.mark.parametrize("loss_of", [equation, penalty, read_on_the_way])
@pytest.mark.parametrize("read", [False, True], ids=["", "loss read"])
def test_training_as_if_walked(loss_of, read, monkeypatch, repeated):
    monkeypatch.setattr(batches, "FEWEST_CALLS", 1 << 30)  # graphs that came before would be rounded otherwise
    found = trained(loss_of, read)
    assert repeated() >= STEPS - 2
    walked(monkeypatch)
    for ours, theirs in zip(found, trained(loss_of, read), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert repeated() == 0


def powers(x, k=1.0):
    y = x * k
    for _ in range(8):
        y = y * x
    return y


def test_derivatives_of_a_power(repeated):
    x = leaf(2.0, 3.0)
    for k in (1.0, 2.0, 5.0, 0.5):
        g = powers(x, k)
        for order in range(9, 6, -1):
            (g,) = bireme.grad(g.sum(), x, create_graph=True)
            factor = np.prod(np.arange(order, 10.0))
            np.testing.assert_allclose(g.numpy(), k * factor * np.array([2.0, 3.0]) ** (order - 1), rtol=1e-5)
    assert repeated() >= 6


def test_what_is_asked_for_may_change(repeated):
    a, b, c = leaf(2.0), leaf(3.0), leaf(5.0)
    for wanted in ([a], [b], [b, a], [a, b], [a], [b], [c, b]) * 2:
        y = powers(a) * powers(b)
        found = bireme.grad(y, wanted, create_graph=True, allow_unused=True)
        for t, g in zip(wanted, found, strict=True):
            if t is c:
                assert g is None
            else:
                np.testing.assert_allclose(g.item(), 9 * 6.0**9 / t.item(), rtol=1e-5)
                assert not g.stop_gradient
    assert repeated() >= 5


def test_with_and_without_a_graph():
    x = leaf(2.0)
    for create_graph in (True, False, True, False):
        y = powers(x)
        z = y * 2.0  # not asked for
        (g,) = bireme.grad(y, x, create_graph=create_graph)
        assert g.stop_gradient is not create_graph and z.shape == [1]
        np.testing.assert_allclose(g.item(), 9 * 2.0**8)


def test_a_gradient_that_is_given_may_have_one_itself():
    for k in (1.0, 2.0, 3.0):
        x, v = leaf(2.0), leaf(k)
        (g,) = bireme.grad(powers(x), x, grad_outputs=v, create_graph=True)
        (gv,) = bireme.grad(g, v)
        np.testing.assert_allclose([g.item(), gv.item()], [k * 9 * 2.0**8, 9 * 2.0**8])


def test_a_leaf_that_was_changed_since():
    net = network()
    for i in range(3):
        x = leaf([0.5, 0.25])
        out = net(x)
        with bireme.no_grad():
            net[0].weight.set_value(net[0].weight * 1.5)
        (g,) = bireme.grad(out, x)  # of the values that were used
        again = net(x)
        (h,) = bireme.grad(again, x, create_graph=True)
        assert not np.allclose(g.numpy(), h.numpy())
        h.sum().backward()
        assert np.isfinite(net[0].weight.grad.numpy()).all(), i


def test_hooks_are_called_when_they_come(repeated):
    x, seen = leaf(2.0), []

    def twice(g):
        seen.append(g)
        return g * 2.0

    for i in range(5):
        y = x * 1.0
        if i == 3:
            y.register_hook(twice)
        (g,) = bireme.grad(powers(y), x, create_graph=True)
        np.testing.assert_allclose(g.item(), (2 if i == 3 else 1) * 9 * 2.0**8)
    assert len(seen) == 1 and repeated() >= 2


def test_graphs_that_are_freed_are_freed_again():
    x = leaf(2.0)
    for _ in range(3):
        a = x * 1.0
        y = powers(a)
        bireme.grad(y, a, retain_graph=False)
        with pytest.raises(RuntimeError, match="freed"):
            bireme.grad(y, a)


def test_one_graph_is_differentiated_several_times(repeated):
    """The rows of a Hessian: passes over one graph, which later ones do not change."""
    x = leaf(1.0, 2.0, 3.0)
    for _ in range(3):
        (g,) = bireme.grad((powers(x) * x.sum()).sum(), x, create_graph=True)
        rows = [bireme.grad(g[i], x, retain_graph=True)[0].numpy() for i in range(3)]
        rows = np.stack(rows)
        np.testing.assert_allclose(rows, rows.T, rtol=1e-5)
    assert repeated() >= 4


# ---------------------------------------------------------------- programs drawn at random

F = bireme.nn.functional
OF_ONE = [
    bireme.tanh, bireme.sin, bireme.exp, F.sigmoid, F.softplus, F.gelu, F.softmax,
    lambda x: x.reshape([4, 3]).transpose([1, 0]).reshape([3, 4]),
    lambda x: bireme.concat([x, x], axis=0)[1:4],
    lambda x: bireme.where(x > 0.1, x, x * 0.5),
    lambda x: x.mean(axis=0, keepdim=True) + x,
    lambda x: F.layer_norm(x, 4),
    lambda x: x.cumsum(0).clip(-2.0, 2.0),
]  # fmt: skip
OF_TWO = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a @ b.t()[:, :1] * b]
WITH_NUMBER = [lambda a, k: a + k, lambda a, k: k - a, lambda a, k: a * k, lambda a, k: (a * a + 1.0) ** k]


def drawn(seed, turn):
    """Operators on what is there so far, then gradients of some of it by other parts, of which loss and more gradients are
    made; the same for every turn, but for the values and one number.
    """
    draw, rng, k = random.Random(seed), np.random.default_rng([seed, turn]), 0.5 + turn / 4
    leaves = [bireme.to_tensor(rng.random((3, 4), np.float32) - 0.5, stop_gradient=False) for _ in range(3)]
    pool, found = list(leaves), []
    for _ in range(draw.randint(6, 14)):
        kind, a, b = draw.random(), draw.choice(pool), draw.choice(pool)
        of_one, of_two, with_number = draw.choice(OF_ONE), draw.choice(OF_TWO), draw.choice(WITH_NUMBER)
        pool.append(of_one(a) if kind < 0.5 else of_two(a, b) if kind < 0.8 else with_number(a, k))
    for _ in range(draw.randint(1, 3)):
        out, create_graph = draw.choice(pool[-2:]), draw.random() < 0.7
        wanted = draw.sample(pool, 2)
        seeds = [bireme.full_like(out, k)] if draw.random() < 0.3 else None
        if draw.random() < 0.2:
            out.numpy()  # the segment ends here
        made = bireme.grad([out], wanted, seeds, create_graph=create_graph, allow_unused=True, retain_graph=True)
        found += [g for g in made if g is not None]
        pool += [g for g in made if g is not None and create_graph]
    loss = bireme.stack([(x * x).mean() for x in pool[-3:]]).sum()
    loss.backward()
    gradients = [x.grad for x in leaves if x.grad is not None]
    return [x.numpy() for x in (*found, *gradients, loss)], [x.stop_gradient for x in found]


@pytest.mark.parametrize("seed", range(12))
def test_programs_drawn_at_random(seed, monkeypatch):
    turns = (0, 1, 2, 1)
    found = [drawn(seed, turn) for turn in turns]
    walked(monkeypatch)
    for turn, (arrays, stops) in zip(turns, found, strict=True):
        expected, their_stops = drawn(seed, turn)
        assert stops == their_stops
        for a, b in zip(arrays, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
