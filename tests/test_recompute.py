"""recompute: the same results and gradients, less memory."""

import numpy as np
import pytest

import bireme
from benchmarks.recompute import train
from bireme import nn
from bireme.distributed.fleet.utils import recompute
from bireme.incubate.distributed.fleet import recompute_sequential

pytestmark = pytest.mark.usefixtures("compiled_when_met_again")


def block(width=8, dropout=0.0):
    return nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * width, width))


def gradients(run, net, x):
    """The loss, the gradient of x and those of the parameters after one backward of `run`."""
    bireme.seed(3)
    for p in net.parameters():
        p.clear_gradient(False)
    x = bireme.to_tensor(x, stop_gradient=False)
    loss = (run(x) ** 2).mean()
    loss.backward()
    return [loss.numpy(), x.grad.numpy(), *[p.grad.numpy() for p in net.parameters()]]


def same(run, plain, net, x):
    for a, b in zip(gradients(run, net, x), gradients(plain, net, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


X = np.linspace(-1, 1, 24, dtype="float32").reshape(3, 8)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_are_the_same(dropout):
    net = block(dropout=dropout)
    same(lambda x: recompute(net, x), net, net, X)


def test_inside_itself():
    net = nn.Sequential(block(), block())
    same(lambda x: recompute(lambda h: recompute(net[1], recompute(net[0], h)) * 2, x), lambda x: net(x) * 2, net, X)


def test_reads_what_is_around_it():
    net, outer = block(), bireme.to_tensor(X[0], stop_gradient=False)

    def run(recomputed):
        outer.clear_gradient()
        scaled = outer * 2

        def function(h):
            return net(h + scaled) * scaled

        found = gradients(lambda x: recompute(function, x) if recomputed else function(x), net, X)
        return [*found, outer.grad.numpy()]

    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_a_value_read_on_the_way():
    net = nn.Sequential(block(), block())

    def function(h):
        h = net[0](h)
        return net[1](h) if float(h.mean()) < 1e9 else h

    same(lambda x: recompute(function, x), net, net, X)


def test_every_call_at_once():
    net = block(dropout=0.5)
    bireme.set_flags({"FLAGS_op_at_once": True})
    try:
        same(lambda x: recompute(net, x), net, net, X)
    finally:
        bireme.set_flags({"FLAGS_op_at_once": False})


def test_a_gradient_of_the_users_own():
    class Twice(bireme.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensor()
            return g * x * 5  # not the derivative: a test sees who is asked

    net = block()

    def function(x):
        return net(Twice.apply(x * 2))

    same(lambda x: recompute(function, x), function, net, X)


def test_detached_parts_get_no_gradient():
    net = block()

    def function(x):
        return net(x) * net(x.detach()).detach()

    same(lambda x: recompute(function, x), function, net, X)


def test_hooks_inside():
    net, seen = block(), []

    def function(x):
        h = net[0](x)
        h.register_hook(lambda g: seen.append(1) or g * 3)
        return net[3](h)

    same(lambda x: recompute(function, x), function, net, X)
    assert len(seen) == 2


def test_second_derivative():
    def function(x):
        return bireme.tanh(x) * x

    def twice(run):
        x = bireme.to_tensor(X, stop_gradient=False)
        (g,) = bireme.grad(run(x).sum(), x, create_graph=True)
        (gg,) = bireme.grad((g * g).sum(), x)
        return gg.numpy()

    np.testing.assert_allclose(twice(lambda x: recompute(function, x)), twice(function), rtol=1e-5, atol=1e-6)


def test_running_statistics_change_once():
    def after(run):
        bn = nn.BatchNorm1D(8)
        x = bireme.to_tensor(X, stop_gradient=False)
        run(bn, x).sum().backward()
        return bn._mean.numpy()

    np.testing.assert_array_equal(after(recompute), after(lambda bn, x: bn(x)))


def test_several_results_in_any_form():
    net = block()

    def function(x, scale):
        h = net(x)
        return {"a": (h, [h * scale]), "n": 3, "x": x}

    x = bireme.to_tensor(X, stop_gradient=False)
    found = recompute(function, x, scale=2.0)
    assert found["n"] == 3 and found["x"] is x
    (found["a"][0] + found["a"][1][0]).sum().backward()
    want = bireme.to_tensor(X, stop_gradient=False)
    (net(want) * 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), want.grad.numpy(), rtol=1e-5)


def test_without_gradients_it_is_a_plain_call():
    net = block()
    with bireme.no_grad():
        assert recompute(net, bireme.to_tensor(X)).stop_gradient
    with pytest.raises(TypeError, match=r"recompute\(function\): expected a callable"):
        recompute(3)


def test_backward_twice():
    net = block()
    x = bireme.to_tensor(X, stop_gradient=False)
    loss = recompute(net, x).sum()
    loss.backward(retain_graph=True)
    first = x.grad.numpy()
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * first, rtol=1e-6)
    with pytest.raises(RuntimeError, match="freed"):
        loss.backward()


def test_in_groups():
    net = nn.Sequential(*[block() for _ in range(4)])
    same(lambda x: recompute_sequential({"segments": 2}, net, x), net, net, X)


def test_memory_really_falls():
    sizes = {"layers": 2, "width": 16, "batch": 4, "length": 64, "steps": 2}
    (less, a), (more, b) = train(True, **sizes), train(False, **sizes)
    np.testing.assert_allclose(a, b, rtol=1e-4)
    assert less < 0.8 * more, f"{less / 2**20:.2f} MiB with recompute, {more / 2**20:.2f} without"


def test_a_deep_model_is_one_program_a_step():
    layers = nn.LayerList([nn.Linear(4, 4) for _ in range(40)])
    opt = bireme.optimizer.SGD(0.1, parameters=layers.parameters())
    flushes = []
    for _ in range(4):
        bireme.debug.flush()
        bireme.debug.reset_stats()
        h = bireme.ones([2, 4])
        for layer in layers:
            h = recompute(lambda x, layer=layer: bireme.tanh(layer(x)), h)
        h.sum().backward()
        opt.step()
        opt.clear_grad()
        bireme.debug.flush()
        flushes.append(bireme.debug.stats()["flushes"])
    assert flushes[-1] <= 2  # the input is made in a program of its own
