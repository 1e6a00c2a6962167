"""Captured graphs: what they read stays theirs, and what goes on outside is as if there had been none."""

import numpy as np
import pytest

import bireme
from bireme.core.base import dtype as dtypes
from bireme.core.graph import segment
from bireme.core.record.capture import capture
from bireme.core.tensor.tensor import wrap
from bireme.core.xla_exec.joined_leaves import Joined

WIDTH = 64


@pytest.fixture(autouse=True)
def compiled():
    """Programs donate; the interpreter does not."""
    bireme.debug.flush()
    bireme.set_flags({"FLAGS_interpret": False})
    yield
    bireme.set_flags({"FLAGS_interpret": True})
    bireme.debug.flush()


def use(x):
    return (x * 2.0 + 1.0).tanh()


def made(i):
    """A tensor whose array is the device's, so that it can be donated."""
    x = bireme.to_tensor(np.full((WIDTH, WIDTH), 0.1 * i, "float32")) * 1.0
    bireme.debug.flush()
    return x


def entered(graph):
    return wrap(graph.input((WIDTH, WIDTH), dtypes.float32))


ONES = np.ones((WIDTH, WIDTH), "float32")


def test_what_a_captured_graph_reads_is_not_donated():
    for i in range(4):
        x = made(i)
        with capture() as graph:
            out = entered(graph) + x
        program = graph.finish([out._value])
        later = use(x)
        del x  # nobody else holds its array: the program below would take the buffer
        later.numpy()
        np.testing.assert_allclose(program.run([ONES])[0], ONES + np.float32(0.1 * i), rtol=1e-6)


def test_nor_while_it_is_being_captured():
    for i in range(4):
        x = made(i)
        later = use(x)
        with capture() as graph:
            out = entered(graph) + x
            del x
            later.numpy()
        np.testing.assert_allclose(graph.finish([out._value]).run([ONES])[0], ONES + np.float32(0.1 * i), rtol=1e-6)


def test_an_output_from_outside_is_computed_and_kept():
    for i in range(4):
        x = made(i)
        outside = use(x)
        with capture() as graph:
            inside = entered(graph) * 2.0
        program = graph.finish([inside._value, outside._value])
        want = outside.numpy()
        later = use(outside)
        del outside
        later.numpy()
        found = program.run([ONES])
        np.testing.assert_array_equal(found[0], 2 * ONES)
        np.testing.assert_array_equal(found[1], want)


def test_what_is_pending_knows_its_leaves_after_a_capture():
    def step(captures):
        x = made(1)
        y = x + 1.0
        if captures:
            with capture() as graph:
                assert (entered(graph) * x + x).shape == [WIDTH, WIDTH]
        z = y * x
        assert len(segment.local.segment.leaves) == 1
        return z.numpy()

    want = step(False)
    step(False)
    with bireme.debug.no_recompile():
        np.testing.assert_array_equal(step(True), want)


def test_a_capture_that_fails_leaves_nothing_behind():
    x = made(1)
    y = x + 1.0
    with pytest.raises(RuntimeError, match="a value outside a graph being captured"), capture() as graph:
        (entered(graph) * x).numpy()
    z = y * x
    assert len(segment.local.segment.leaves) == 1
    np.testing.assert_allclose(z.numpy(), np.full((WIDTH, WIDTH), 0.11), rtol=1e-5)


def test_one_capture_inside_another():
    with capture() as outer:
        a = entered(outer)
        b = a * 2.0
        with capture() as inner:
            c = entered(inner) + 1.0
        small = inner.finish([c._value])
        d = a + b
    np.testing.assert_array_equal(small.run([ONES])[0], 2 * ONES)
    np.testing.assert_array_equal(outer.finish([d._value]).run([ONES])[0], 3 * ONES)


@pytest.mark.parametrize("by", ["xla", "xla_per_op", "interpreter"])
def test_every_executor_runs_a_captured_graph(by):
    x = bireme.to_tensor(np.arange(4, dtype="float64"))
    with capture() as graph:
        a, b = wrap(graph.input((4,), dtypes.float64)), wrap(graph.input((4,), dtypes.int64))
        first, second = bireme.unbind(bireme.stack([a * x, a + 2.0]) / 3.0)
        unread = graph.input((2,), dtypes.float32)
        values = [first._value, second._value, (b * 2)._value, b._value, x._value, unread]
    program = graph.finish(values)
    numbers, whole, rest = np.linspace(0, 1, 4), np.arange(4) + 2**40, np.zeros(2, "float32")
    for _ in range(2):
        found = [np.asarray(t) for t in program.run([numbers, whole, rest], by=by)]
        want = [numbers * np.arange(4) / 3, (numbers + 2) / 3, whole * 2, whole, np.arange(4.0), rest]
        for f, w in zip(found, want, strict=True):
            assert f.dtype == w.dtype
            np.testing.assert_allclose(f, w, rtol=1e-12)


@pytest.mark.parametrize("by", ["xla", "xla_per_op", "interpreter"])
def test_arrays_that_are_not_the_inputs_are_refused(by):
    with capture() as graph:
        out = wrap(graph.input((2, 3), dtypes.float32)) + wrap(graph.input((3,), dtypes.float32))
    program = graph.finish([out._value])
    a, b = np.ones((2, 3), "float32"), np.ones(3, "float32")
    assert np.asarray(program.run([a, b], by=by)[0]).tolist() == [[2.0] * 3] * 2
    for arrays, told in (
        ([a], r"run\(arrays\): expected 2 arrays, one for each input, got 1"),
        ([a, b, b], "expected 2 arrays, one for each input, got 3"),
        ([a, np.ones(1, "float32")], r"run\(arrays\[1\]\): expected float32\[3\], got float32\[1\]"),
        ([a.astype("float64"), b], r"run\(arrays\[0\]\): expected float32\[2, 3\], got float64\[2, 3\]"),
    ):
        with pytest.raises(ValueError, match=told):
            program.run(arrays, by=by)


def test_a_compiled_graph_writes_over_what_it_was_given_away():
    with capture() as g:
        held, more = wrap(g.input((64,), dtypes.float32)), wrap(g.input((64,), dtypes.float32))
        out = held + more
    run = g.finish([out._value]).compiled(donate=[0])
    given = [bireme.full([64], n, "float32").__jax_array__() for n in (1.0, 2.0)]
    (made,) = run(given)
    assert np.asarray(made).tolist() == [3.0] * 64
    assert given[0].is_deleted() and not given[1].is_deleted()
    assert np.asarray(run([made, given[1]])[0]).tolist() == [5.0] * 64


def test_small_parameters_of_a_compiled_graph_are_one_argument():
    numbers = [bireme.full([3 if i % 2 else 1], i, "float32") for i in range(8)]
    large, half = bireme.ones([2048]), bireme.full([2], 0.5, "float64")
    bireme.debug.flush()
    with capture() as g:
        x, held = wrap(g.input((3,), dtypes.float32)), wrap(g.input((3,), dtypes.float32))
        for i, n in enumerate(numbers):
            x = x + n if i % 3 else x * (n + 1.0)
        outs = [x + held + large[:3], half + 1.0]
    found = g.finish([out._value for out in outs])
    joined = Joined(found.graph, {i: a for i, a in enumerate(found._leaves) if i not in found.inputs})
    assert [len(each) for each in joined.groups] == [8] and None not in found.inputs
    run = found.compiled(donate=[1])
    for start in (0.0, 1.0):
        wanted = np.full(3, start, "float32")
        for i in range(8):
            wanted = wanted + i if i % 3 else wanted * (i + 1)
        given = [np.full(3, start, "float32"), bireme.ones([3]).__jax_array__()]
        made = run(given)
        assert np.asarray(made[0]).tolist() == (wanted + 2).tolist() and np.asarray(made[1]).tolist() == [1.5, 1.5]
