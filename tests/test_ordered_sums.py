"""Sums at places in one order, as programs for CUDA have them: the numbers of XLA's scatter, and no scatter that adds in
whatever order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.run import graphs
from bireme.core.xla_exec import ordered_sums

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def whole(most, *shape):
    return rng.integers(0, most, shape)


def check(fn, *args):
    """A function with its sums in one order gives what it gives in double precision."""
    args = [jnp.asarray(a) for a in args]
    program, like = jax.make_jaxpr(fn, return_shape=True)(*args)
    assert ordered_sums.found_in(program)
    made = ordered_sums.in_order(program, jax.tree.structure(like))
    assert not ordered_sums.found_in(jax.make_jaxpr(made)(*args))
    with jax.enable_x64(True):
        exact = fn(*[a.astype(np.result_type(a.dtype, np.float64)) if a.dtype.kind in "fc" else a for a in args])
    for a, b, c in zip(*map(jax.tree.leaves, (jax.jit(made)(*args), exact, like)), strict=True):
        assert a.dtype == c.dtype
        assert a.shape == c.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def add(x, index, rows):
    return x.at[index].add(rows)


@pytest.mark.parametrize(
    ("count", "places", "row"),
    [
        (2, 1, ()),
        (4, 3, (5,)),
        (31, 3, (3, 2)),
        (32, 10_000, (5,)),
        (33, 50, ()),
        (1000, 3, (5,)),
        (3000, 10_000, (2,)),
    ],
)
@pytest.mark.parametrize("small", [0, ordered_sums.SMALL])
def test_rows_are_added(count, places, row, small, monkeypatch):
    monkeypatch.setattr(ordered_sums, "SMALL", small)
    check(add, normal(places, *row), whole(places, count), normal(count, *row))


def test_any_axes():
    x = normal(6, 7, 8)
    check(lambda x, i, r: x.at[:, i].add(r), x, whole(9, 20), normal(6, 20, 8))  # the 7 and the 8 are left out
    check(lambda x, i, j, r: x.at[i, :, j].add(r), x, whole(6, 4, 5), whole(8, 4, 5), normal(4, 5, 7))
    check(lambda x, i, j, r: x.at[j, i].add(r, mode="clip"), x, whole(19, 4, 5), whole(8, 4, 5), normal(4, 5, 8))


def test_a_batch_of_tables():
    take = jnp.take_along_axis

    def grad(x, i, r, axis):
        return jax.grad(lambda x: (take(x, i, axis=axis) * r).sum())(x)

    for axis, shape in ((0, (20, 7, 8)), (1, (6, 20, 8)), (2, (6, 7, 20))):
        check(lambda x, i, r, axis=axis: grad(x, i, r, axis), normal(6, 7, 8), whole(6, *shape), normal(*shape))
    check(jax.vmap(lambda x, i, r: x.at[i].add(r)), normal(5, 7, 8), whole(9, 5, 30), normal(5, 30, 8))


def test_complex_numbers_and_a_derivative():
    x = normal(6, 8)
    check(add, x.astype(np.complex64), whole(6, 50), normal(50, 8))
    check(lambda x, i, r: (jnp.sin(jax.grad(lambda x: (x[i] * r).sum())(x)), x * 2), x, whole(6, 50), normal(50, 8))


def test_inside_of_another_function():
    inner = jax.jit(lambda y, i, r: y.at[i].add(r))
    check(lambda x, i, r: inner(x * 2, i, r) + 1, normal(6, 8), whole(6, 50), normal(50, 8))


def test_inside_of_what_is_computed_again():
    check(jax.checkpoint(lambda *a: jnp.sin(add(*a))), normal(3, 2), whole(3, 9), normal(9, 2))


@pytest.mark.parametrize("small", [0, ordered_sums.SMALL])
def test_what_is_not_finite_stays_in_its_row(small, monkeypatch):
    monkeypatch.setattr(ordered_sums, "SMALL", small)
    rows = normal(50, 7)
    rows[3, 2], rows[4, 3], rows[9, 3] = np.nan, np.inf, -np.inf
    check(add, normal(6, 7), whole(6, 50), rows)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, i: x.at[i].add(1, unique_indices=True),
        lambda x, i: x.astype(int).at[i].add(1),
        lambda x, i: x.at[i].max(1.0),
        lambda x, i: x.at[i[:1]].add(1),
        lambda x, i: x[:0].at[i].add(1),
        lambda x, i: x[i],
    ],
)
def test_what_has_one_order_is_left(fn):
    assert not ordered_sums.found_in(jax.make_jaxpr(fn)(jnp.zeros((5, 2)), jnp.array([1, 1, 3])))


def test_a_network_learns_the_same(monkeypatch):
    def losses():
        bireme.seed(0)
        graphs.clear()
        table, out = nn.Embedding(40, 16), nn.Linear(16, 4)
        adam = bireme.optimizer.Adam(0.1, parameters=[*table.parameters(), *out.parameters()])
        data = np.random.default_rng(1)
        found = []
        for _ in range(4):
            ids, wanted = bireme.to_tensor(data.integers(0, 9, (8, 16))), bireme.to_tensor(data.integers(0, 4, 8))
            picked = table(ids)[bireme.to_tensor([0, 3, 3, 1, 2, 2, 4, 7])]
            loss = nn.functional.cross_entropy(out(picked.mean(1)), wanted)
            loss.backward()
            adam.step()
            adam.clear_grad()
            found.append(loss.item())
        return found

    expected = losses()
    monkeypatch.setattr(ordered_sums, "SMALL", 100)
    with bireme.debug.use_executor("xla"):
        monkeypatch.setattr(ordered_sums, "PLATFORMS", ("cpu",))
        np.testing.assert_allclose(losses(), expected, rtol=1e-4)
    with bireme.debug.use_executor("xla_per_op"):
        np.testing.assert_allclose(losses(), expected, rtol=1e-4)
    graphs.clear()
