"""Operands that nobody needs any more are written over by the interpreter, and nothing else ever is."""

import sys

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.numpy_exec import interpreter, overwriting
from bireme.core.run import graphs
from bireme.ops.indexing import along_axis, getitem, scatter, setitem

ROWS, WIDTH = 12, 5


@pytest.fixture
def taken(monkeypatch):
    """How many operands were copied, and how many were written over."""
    counts = [0, 0]
    real = overwriting.own

    def own(x):
        out = real(x)
        counts[out is x] += 1
        return out

    for module in (along_axis, getitem, scatter, setitem):
        monkeypatch.setattr(module, "own", own)
    return counts


def rows_of(count=ROWS, seed=0):
    return np.random.default_rng(seed).standard_normal((count, WIDTH)).astype("float32")


def by_slice(x, t, row):
    x[t] = row
    return x


def by_element(x, t, row):
    x[t, t % WIDTH] = row[0]
    return x


def by_index(x, t, row):
    x[bireme.to_tensor([t, (t + 1) % ROWS])] = row
    return x


def by_scatter(x, t, row):
    return bireme.scatter(x, bireme.to_tensor([t]), row.unsqueeze(0))


def by_adding(x, t, row):
    return bireme.scatter(x, bireme.to_tensor([t, t]), bireme.stack([row, row]), overwrite=False)


def by_index_add(x, t, row):
    return bireme.index_add(x, bireme.to_tensor([t, 0]), 0, bireme.stack([row, row]))


def by_places(x, t, row):
    return bireme.scatter_nd_add(x, bireme.to_tensor([[t], [0]]), bireme.stack([row, row]))


WRITES = [by_slice, by_element, by_index, by_scatter, by_adding, by_index_add, by_places]


def written(write, w):
    x = bireme.zeros([ROWS, WIDTH])
    for t in range(ROWS):
        x = write(x, t, bireme.tanh(w[t]))
    return x


def by_numpy(write, w):
    """The same in NumPy: the tensor, and the gradient of its sum times 1, 2, 3 ... by finite differences."""
    x = np.zeros((ROWS, WIDTH))
    for t in range(ROWS):
        row = np.tanh(w[t].astype("float64"))
        if write is by_element:
            x[t, t % WIDTH] = row[0]
        elif write is by_index:
            x[[t, (t + 1) % ROWS]] = row
        elif write is by_adding:
            x[t] = 2 * row
        elif write in (by_index_add, by_places):
            x[t] += row
            x[0] += row
        else:
            x[t] = row
    return x


@pytest.mark.parametrize("write", WRITES)
def test_a_tensor_written_row_by_row_is_not_copied(write, taken):
    graphs.clear()
    w = rows_of()
    for _ in range(4):
        taken[:] = 0, 0
        np.testing.assert_allclose(
            written(write, bireme.to_tensor(w)).numpy(), by_numpy(write, w), rtol=1e-5, atol=1e-6
        )
        assert taken[1] >= ROWS - 1 and taken[0] <= 1


@pytest.mark.parametrize("write", WRITES)
def test_gradients_through_what_was_written(write):
    graphs.clear()
    w, factors = rows_of(), np.arange(1.0, 1 + ROWS * WIDTH).reshape(ROWS, WIDTH).astype("float32")
    step, expected = 1e-6, np.zeros((ROWS, WIDTH))
    for i in np.ndindex(ROWS, WIDTH):
        moved = [w.astype("float64"), w.astype("float64")]
        moved[0][i] += step
        moved[1][i] -= step
        expected[i] = ((by_numpy(write, moved[0]) - by_numpy(write, moved[1])) * factors).sum() / (2 * step)
    for _ in range(4):
        leaf = bireme.to_tensor(w, stop_gradient=False)
        (written(write, leaf) * bireme.to_tensor(factors)).sum().backward()
        np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-4, atol=1e-3)


HELD = {
    "tensor": lambda x: x,
    "view": lambda x: x[2:5],
    "detached": lambda x: x.detach(),
    "clone": lambda x: x.clone(),
    "operand": lambda x: x.reshape([WIDTH, ROWS]),
    "numpy": lambda x: x.numpy(),
}


@pytest.mark.parametrize("held", HELD)
def test_what_somebody_has_stays(held, taken):
    graphs.clear()
    for _ in range(4):
        x = bireme.zeros([ROWS, WIDTH]) + 1.0
        x = bireme.scatter(x, bireme.to_tensor([3]), bireme.full([1, WIDTH], 3.0))
        kept = HELD[held](x)
        y = bireme.scatter(x, bireme.to_tensor([2, 3]), bireme.zeros([2, WIDTH]))
        if held != "tensor":
            del x
        y = bireme.scatter(y, bireme.to_tensor([4]), bireme.zeros([1, WIDTH]))
        total, left = float(y.sum()), np.asarray(kept.numpy() if held != "numpy" else kept)
        assert total == (ROWS - 3) * WIDTH
        assert left.sum() == (WIDTH * (5 if held == "view" else ROWS + 2))


def test_updates_that_are_a_part_of_what_is_written():
    graphs.clear()
    for _ in range(4):
        x = bireme.arange(20, dtype="float32").reshape([4, 5]) * 1.0
        x = bireme.scatter(x, bireme.to_tensor([0, 1]), x[1:3])
        x[1:] = x[:3]
        x = bireme.index_add(x, bireme.to_tensor([0, 1]), 0, x[2:])
        expected = np.arange(20.0).reshape(4, 5)
        expected[:2] = expected[1:3].copy()
        expected[1:] = expected[:3].copy()
        expected[:2] += expected[2:].copy()
        np.testing.assert_array_equal(x.numpy(), expected)


def test_leaves_are_never_written_over():
    graphs.clear()
    weight = bireme.to_tensor(rows_of(), stop_gradient=False)
    before = weight.numpy()
    for _ in range(4):
        x = bireme.scatter(weight, bireme.to_tensor([1]), bireme.ones([1, WIDTH]))
        x[2] = 5.0
        x.sum().backward()
        np.testing.assert_array_equal(weight.numpy(), before)


def test_an_interrupt_in_the_middle_leaves_what_was_there(monkeypatch):
    graphs.clear()
    source = bireme.to_tensor(rows_of())
    before = source.numpy()

    def loop():
        x = source * 1.0
        for t in range(ROWS):
            x[t] = float(t)
        return x

    for _ in range(3):
        loop().numpy()
    calls, real = [0], overwriting.Over.__call__

    def interrupted(self, env):
        calls[0] += 1
        if calls[0] == ROWS // 2:
            raise KeyboardInterrupt
        return real(self, env)

    monkeypatch.setattr(overwriting.Over, "__call__", interrupted)
    x = loop()
    with pytest.raises(KeyboardInterrupt):
        x.numpy()
    monkeypatch.undo()
    assert not overwriting._given.arrays
    np.testing.assert_array_equal(x.numpy(), np.repeat(np.arange(float(ROWS)), WIDTH).reshape(ROWS, WIDTH))
    np.testing.assert_array_equal(source.numpy(), before)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "bool", "complex64", "float64"])
def test_every_dtype(dtype):
    graphs.clear()
    for _ in range(4):
        x = bireme.zeros([ROWS, 2]).astype(dtype)
        for t in range(ROWS):
            x[t] = bireme.full([2], t % 2).astype(dtype)
        assert x.astype("float32").numpy().sum() == ROWS


def program(seed):
    """A random program of writes and reads, and what it gives: it keeps some of its tensors."""
    g = np.random.default_rng(seed)
    steps = g.integers(0, 9, 24).tolist()
    grad = bool(g.integers(2))
    at = g.integers(0, ROWS, (24, 2))
    numbers = g.standard_normal((24, 2, WIDTH)).astype("float32")

    def run():
        w = bireme.to_tensor(rows_of(2, seed), stop_gradient=not grad)
        x, kept = bireme.zeros([ROWS, WIDTH]) + w.sum(), []
        for step, (i, j), pair in zip(steps, at.tolist(), numbers, strict=True):
            rows = bireme.to_tensor(pair) * w
            if step == 0:
                x[i] = rows[0]
            elif step == 1:
                x[i : i + 2, 1] = float(j)
            elif step == 2:
                x[bireme.to_tensor([i, j])] = rows
            elif step == 3:
                x = bireme.scatter(x, bireme.to_tensor([i, j]), rows, overwrite=i > j)
            elif step == 4:
                x = bireme.index_add(x, bireme.to_tensor([i, j]), 0, rows)
            elif step == 5:
                kept.append([x, x[i:], x.detach(), x.reshape([-1])[j:], x.t()][j % 5])
            elif step == 6:
                x = x * 1.5 if i > j else x.clone()
            elif step == 7:
                x = bireme.scatter_nd_add(x, bireme.to_tensor([[i], [j]]), x[:2])
            elif kept:
                kept.pop()
        total = (x * x).sum() + sum((k.sum() for k in kept), bireme.zeros([]))
        found = [total, x, *kept]
        if grad:
            total.backward()
            found.append(w.grad)
        return [t.numpy() for t in found]

    return run


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_give_what_they_give_with_copies(seed, monkeypatch):
    run = program(seed)
    with monkeypatch.context() as m:
        m.setattr(interpreter.overwriting, "may_overwrite", lambda bound: False)
        graphs.clear()
        expected = run()
    graphs.clear()
    for _ in range(4):
        for a, b in zip(run(), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def test_one_reference_is_told_from_two():
    x = np.ones(3)
    assert overwriting._taken([x], 0)[1] > overwriting.ALONE
    assert overwriting._taken([np.ones(3)], 0)[1] == overwriting.ALONE
    env = [np.ones((2, 3)).reshape(2, 3)]
    whole, count = overwriting._taken(env, 0)
    assert (count, whole.base, env) == (overwriting.ALONE, None, [None])
    part = np.ones((2, 3))[:1]
    assert overwriting._taken([part], 0)[0].base is not None
    assert sys.getrefcount(part) > 1


def test_a_cell_that_keeps_its_states_in_one_tensor(taken):
    """As recurrences are written: `out[:, t] = h`, in a training step."""
    graphs.clear()
    bireme.seed(0)
    cell, x = nn.GRUCell(4, 4), bireme.to_tensor(rows_of(8)[:, :4].reshape(2, 4, 4))
    found = []
    for _ in range(4):
        out, h = bireme.zeros([2, 4, 4]), bireme.zeros([2, 4])
        for t in range(4):
            h, _ = cell(x[:, t], h)
            out[:, t] = h
        out.square().sum().backward()
        found.append(cell.weight_ih.grad.numpy())
        cell.clear_gradients()
    assert taken[1] >= 8
    for a in found[1:]:
        np.testing.assert_allclose(a, found[0], rtol=1e-5)
