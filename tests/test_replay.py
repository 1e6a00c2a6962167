"""Composites that are remembered: the same results, errors and gradients, and no memory where there must be none."""

import numpy as np
import pytest

import bireme
from bireme.core.base import random_state as streams
from bireme.core.base.registry import OPS
from bireme.core.declare import repetition
from bireme.core.declare.composite import AT_ONCE, Composite
from bireme.core.declare.op import Tensor, composite

F = bireme.nn.functional


def tensor(*shape, seed=0):
    return bireme.to_tensor(np.random.default_rng(seed).random(shape).astype("float32"))


@pytest.fixture
def declare():
    """Declare a composite for one test."""
    made = []

    def do(**options):
        def wrap(body):
            made.append(composite(name_arg=False, plain=True, **options)(body))
            return made[-1]

        return wrap

    yield do
    for c in made:
        OPS.pop(c.name, None)


def bodies(declared):
    """How often the body has run."""
    count = []
    body = declared.body

    def counted(**arguments):
        count.append(1)
        return body(**arguments)

    declared.body = counted
    return count


def test_the_body_runs_once_for_the_first_kinds_and_twice_for_others(declare):
    """Most sizes never come back, so that of many the first call is not remembered."""

    @declare()
    def probe_scaled(x: Tensor, y: Tensor, factor: float = 2.0) -> Tensor:
        """The sum, scaled."""
        return (x + y) * factor

    ran = bodies(probe_scaled)
    call = probe_scaled.public
    for i in range(4):
        x, y = tensor(2, 3, seed=i), tensor(3, seed=i + 10)
        np.testing.assert_allclose(call(x, y).numpy(), (x.numpy() + y.numpy()) * 2, rtol=1e-6)
        np.testing.assert_allclose(call(x, y=y, factor=3.0).numpy(), (x.numpy() + y.numpy()) * 3, rtol=1e-6)
    assert len(ran) == 2
    for n in range(2, AT_ONCE):
        call(tensor(n), tensor(n))
    assert len(ran) == AT_ONCE
    for _ in range(3):
        call(tensor(40), tensor(40))
    assert len(ran) == AT_ONCE + 2


def test_one_tensor_given_twice(declare):
    @declare()
    def probe_less(x: Tensor, y: Tensor) -> Tensor:
        """The difference."""
        return x - y * 2.0

    call = probe_less.public
    for i in range(3):
        x, y = tensor(3, seed=i), tensor(3, seed=i + 5)
        np.testing.assert_allclose(call(x, x).numpy(), -x.numpy(), rtol=1e-6)
        np.testing.assert_allclose(call(x, y).numpy(), x.numpy() - 2 * y.numpy(), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(call(y, x).numpy(), y.numpy() - 2 * x.numpy(), rtol=1e-6, atol=1e-6)


def test_gradients_flow_as_before():
    weight = bireme.to_tensor(np.ones((3, 2), "float32"), stop_gradient=False)
    bias = bireme.to_tensor(np.zeros(2, "float32"), stop_gradient=False)
    for i in range(4):
        weight.clear_gradient(False)
        x = tensor(4, 3, seed=i)
        F.linear(x, weight, bias).sum().backward()
        np.testing.assert_allclose(weight.grad.numpy(), np.repeat(x.numpy().sum(0)[:, None], 2, 1), rtol=1e-5)
        with bireme.no_grad():
            assert F.linear(x, weight, bias).stop_gradient


def test_lists_of_tensors_are_remembered():
    for i in range(3):
        a, b, c = tensor(2, seed=i), tensor(2, seed=i + 1), tensor(2, seed=i + 2)
        np.testing.assert_array_equal(bireme.stack([a, b, c]).numpy(), np.stack([a.numpy(), b.numpy(), c.numpy()]))
        np.testing.assert_array_equal(bireme.concat([c, a]).numpy(), np.concatenate([c.numpy(), a.numpy()]))
        np.testing.assert_array_equal(bireme.concat(x=(a, a)).numpy(), np.concatenate([a.numpy(), a.numpy()]))


@pytest.mark.parametrize("what", ["reads", "draws", "changes", "makes"])
def test_what_ends_the_memory(declare, what):
    """A body that reads a number, draws one itself, changes a tensor or brings one of its own runs every time."""
    own = bireme.to_tensor([5.0])

    def body(x: Tensor) -> Tensor:
        """A body that cannot be remembered."""
        if what == "reads":
            return x * x.sum().item()
        if what == "draws":
            return x + float(bireme.Generator(5).random() % 7 + 1)
        if what == "changes":
            return (x + 0.0).add_(own)
        return x + own

    body.__name__ = f"probe_{what}"
    declared = declare()(body)
    ran, results = bodies(declared), []
    for i in range(3):
        own.set_value(bireme.to_tensor([float(i)]))
        results.append(declared.public(bireme.to_tensor([1.0 + i])).item())
    assert len(ran) == 3
    assert len(set(results)) == 3


def test_a_number_that_keeps_changing_is_given_up(declare, monkeypatch):
    monkeypatch.setattr(repetition, "FORGET", 5)

    @declare()
    def probe_times(x: Tensor, factor: float) -> Tensor:
        """The product."""
        return x * factor

    ran = bodies(probe_times)
    for i in range(12):
        assert probe_times.public(bireme.to_tensor([2.0]), float(i)).item() == 2.0 * i
    assert len(ran) == 12


def test_errors_are_told_by_the_name_that_was_called():
    x, w, b = tensor(2, 3), tensor(3, 4), tensor(5)
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"^linear\(\): expected shapes that broadcast together, got shapes \[2, 4\] and \[5\]"
        ):
            F.linear(x, w, b)
    ids = bireme.to_tensor([0, 9])
    for n in (3, 3, 12):
        table = tensor(n, 2)
        if n == 3:
            with pytest.raises(IndexError, match=r"embedding"):
                F.embedding(ids, table)
        else:
            assert F.embedding(ids, table).shape == [2, 2]


def test_plain_composites_are_a_choice():
    marked = [c.name for c in OPS.values() if isinstance(c, Composite) and c.options.get("plain")]
    assert {"linear", "softmax", "layer_norm", "cross_entropy", "dropout"} <= set(marked)
    assert "normal" not in marked


def test_keys_of_operators_are_drawn_anew():
    """Where a body's operators take keys, each call takes the next ones, the same as if it had not been remembered."""
    x, drawn = bireme.ones([64]), []
    for _ in range(2):
        bireme.seed(7)
        drawn.append([F.dropout(x, 0.5).tolist() for _ in range(5)])
    assert drawn[0] == drawn[1] and len({tuple(d) for d in drawn[0]}) == 5
    bireme.seed(7)
    # a number that is read: nothing is remembered
    long_way = [F.dropout(x, bireme.to_tensor(0.5)).tolist() for _ in range(5)]
    assert long_way == drawn[0]
    x.stop_gradient = False
    for _ in range(3):
        y = F.dropout(x, 0.5)
        (g,) = bireme.grad(y.sum(), x)
        assert g.tolist() == y.tolist()  # the mask of the gradient is that of its own call


def test_a_stream_of_its_own_is_not_remembered(declare):
    def probe_seeded(x: Tensor) -> Tensor:
        """Draws from a seed."""
        with streams.seeded(3):
            return F.dropout(x, 0.5)

    declared = declare()(probe_seeded)
    ran = bodies(declared)
    found = {tuple(declared.public(bireme.ones([64])).tolist()) for _ in range(3)}
    assert len(ran) == 3 and len(found) == 1


def test_an_index_is_asked_about_once_in_every_call():
    """A composite that was met before records the same operators as at first, the question about its indices among
    them.
    """
    x, label = bireme.rand([4, 8]), bireme.to_tensor([1, 2, 3, 9])
    nodes = []
    for _ in range(3):
        bireme.debug.flush()
        bireme.debug.reset_stats()
        loss = F.cross_entropy(x, (label - 2).abs())
        loss.item()
        nodes.append(bireme.debug.stats()["nodes"])
    assert len(set(nodes)) == 1
    for _ in range(3):
        with pytest.raises(IndexError, match=r"cross_entropy\(label\)"):
            F.cross_entropy(x, label + 0).item()
