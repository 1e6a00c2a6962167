"""Reading and writing by index: NumPy's answer is the right one, for every kind of index and for what is written."""

import numpy as np
import pytest

import bireme
from bireme.core.graph import executor
from bireme.core.numpy_exec import add_rows, primitives, sparsetools
from bireme.core.record.capture import capture
from bireme.ops.indexing import along_axis

E, N, S = Ellipsis, None, slice
MASK_1 = np.array([True, False, True])
MASK_2 = np.arange(12).reshape(3, 4) % 2 == 0
MASK_3 = np.arange(24).reshape(2, 3, 4) % 3 == 0

# per shape: indices that are basic, then those that pick elements
BASIC = {
    (): [(), E, N, (N, N), (E, N)],
    (5,): [0, -1, 4, S(N), S(1, 3), S(N, N, 2), S(N, N, -1), S(3, 0, -2), S(10, 20), S(-3, N), S(3, 1), S(0, 5, -1), N, E, (N, 0), (0, N),
           (E, 0), (0, E), S(-10, 10), S(N, -10), (N, S(1, 3), N), S(4, N, -1), S(-1, -4, -1), S(N, N, 7), np.int32(2), S(np.int64(1), 3)],
    (3, 4): [0, (1, 2), (1, -1), (S(N), 1), (S(1, 3), S(0, 2)), (S(N, N, -1), S(N, N, -2)), (E, 0), (0, E), (N, 0), (S(N), N, 0), (N, E, N),
             (S(5, 9), 0), (0, S(N, N, -1)), S(0, 0), (S(N), S(N), N)],
    (2, 3, 4): [(0, 1, 2), (S(N), 1), (E, 1), (0, E, 1), (S(N, N, -1), S(N, N, -2), S(N, N, -3)), (S(N), S(1, N), S(N, N, 2)), (E, N, 0),
                (0, N, 1), (N, 0, N, 1, N)],
    (0, 3): [S(N), (S(N), 0), E, S(0, 2), (S(N), S(N, N, -1))],
}  # fmt: skip
PICKED = {
    (): [True, False, np.array(True)],
    (5,): [[0, 2], [0, -1], [True, False, True, False, True], np.array([0, 2]), np.array(1), [[0, 1], [2, 3]], ((0, 1),), True, False,
           np.array([], np.int64), np.zeros(5, bool), np.array([0, 2], np.int32), np.array([1, 0], np.uint8)],
    (3, 4): [[0, 2], ([0, 2], [1, 3]), ([0, 2], 1), (1, [0, 2]), (S(N), [0, 2]), ([0, 2], S(1, 3)), (S(1, 3), [0, 2]), ([[0], [1]], [0, 2]),
             np.array([[0, 2], [1, 1]]), MASK_2, MASK_1, (MASK_1, 0), (MASK_1, S(1, 3)), (S(N), MASK_2[0]), (0, MASK_2[0]), (MASK_1, MASK_2[0]),
             (N, [0, 2]), ([0, 2], N), ([0, 2], N, [1, 3]), (E, [0, 2]), (E, [0, 2], N), ([0, -1], [-1, 0]), (S(N), True), ~(MASK_2 | ~MASK_2)],
    (2, 3, 4): [(S(N), [0, 2]), ([0, 1], S(N), [0, 2]), ([0, 1], [0, 2]), ([0, 1], E, [0, 2]), ([0, 1], S(N), 0), (0, [0, 2], [1, 3]),
                (S(N), [[0], [1]], [0, 2]), ([[0], [1]], S(N), [0, 2]), (S(N), [0, 2], [0, 2]), (N, [0, 1], E, N), (S(N), N, [0, 2]), MASK_3,
                MASK_3[:, :, 0], (MASK_3[:, :, 0], S(1, 3)), (MASK_3[:, :, 0], 1), (S(N), MASK_2), (0, MASK_2), (E, MASK_2[0]),
                (S(0, 1), [0, 2], S(1, 3)), ([0, 1], S(0, 2), S(1, 3)), ([0, 1], S(N, N, -1))],
    (0, 3): [np.array([], np.int64), np.zeros(0, bool), (S(N), [0, 2]), np.zeros((0, 3), bool)],
}  # fmt: skip
CASES = [(shape, key) for table in (BASIC, PICKED) for shape, keys in table.items() for key in keys]


def source(shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def tensors(key):
    """The same index with tensors for its arrays and lists."""
    if isinstance(key, tuple):
        return tuple(tensors(k) for k in key)
    return bireme.to_tensor(np.asarray(key)) if isinstance(key, (list, np.ndarray)) else key


def same(found, wanted):
    assert found.shape == list(np.shape(wanted))
    np.testing.assert_array_equal(found.numpy(), wanted)


def written(shape, key, value, made=lambda v: v):
    """A tensor and an array after the same assignment."""
    array, tensor = source(shape), bireme.to_tensor(source(shape))
    array[key] = value
    tensor[key] = made(value)
    return tensor, array


@pytest.mark.parametrize(("shape", "key"), CASES, ids=str)
def test_index(shape, key):
    x, array = bireme.to_tensor(source(shape)), source(shape)
    with executor.use("interpreter"):
        same(x[key], array[key])
        same(x[tensors(key)], array[key])
        for value in (9.0, -np.ones(np.shape(array[key])[-1:], np.float32), source(np.shape(array[key])) + 50):
            same(*written(shape, key, value))
            same(*written(shape, key, value, bireme.to_tensor))


def test_compiled_index():
    """A slice of each kind and a pick of each kind, in one program."""
    keys = [(shape, key) for shape, key in CASES if shape in ((3, 4), (2, 3, 4))][::3]
    with executor.use("xla"):
        found = [(bireme.to_tensor(source(shape))[key], source(shape)[key]) for shape, key in keys]
        put = [written(shape, key, 7.0) for shape, key in keys]
        for pair in [*found, *put]:
            same(*pair)


@pytest.mark.parametrize(
    ("shape", "key", "value", "wanted"),
    [
        ((3,), S(N), [[5.0, 6.0, 7.0]], [5.0, 6.0, 7.0]),  # axes of extent 1 in front do not count
        ((3,), [0, 1], [[5.0, 6.0]], [5.0, 6.0, 2.0]),
        ((3,), (N, S(0, 2)), [[5.0, 6.0]], [5.0, 6.0, 2.0]),
        ((3,), (S(0, 2), N), [[5.0], [6.0]], [5.0, 6.0, 2.0]),
        ((3,), True, 5.0, [5.0, 5.0, 5.0]),
        ((3,), False, 5.0, [0.0, 1.0, 2.0]),
        ((), True, 5.0, 5.0),
    ],
)
def test_what_is_written_is_broadcast(shape, key, value, wanted):
    x = bireme.to_tensor(source(shape))
    x[key] = bireme.to_tensor(value)
    assert x.tolist() == wanted


def test_the_type_stays():
    x = bireme.to_tensor([1, 2, 3])
    x[0], x[1], x[2] = 3.7, True, bireme.to_tensor(-1.5)
    assert (x.tolist(), x.dtype) == ([3, 1, -1], bireme.int64)


def test_a_slice_by_tensors():
    x = bireme.arange(5)
    assert x[bireme.to_tensor(1) : bireme.to_tensor(3)].tolist() == [1, 2]
    assert x[bireme.to_tensor(4)].tolist() == 4


@pytest.mark.parametrize(
    ("key", "kinds"),
    [
        (3, [IndexError]),
        (-4, [IndexError]),
        ([3], [IndexError]),  # Paddle reads beyond the end
        ((0, 0), [IndexError, ValueError]),
        ((E, E), [IndexError, ValueError]),
        ([True, False], [IndexError]),
        (1.0, [TypeError, ValueError]),
        ([1.0], [TypeError, ValueError]),
        ("a", [TypeError]),
        (S(N, N, 0), [ValueError]),
        (S(1.0, 2), [TypeError]),
    ],
)
def test_bad_indices(key, kinds):
    assert kinds
    for kind in kinds:
        with pytest.raises(kind):
            bireme.arange(3)[key]
        with pytest.raises(kind):
            bireme.arange(3)[key] = 1


@pytest.mark.parametrize("key", [S(0, 2), [0, 1], (N, S(0, 2)), (S(0, 2), N), [True, True, False], True])
def test_a_value_that_does_not_fit_leaves_nothing_behind(key):
    x = bireme.arange(3)
    with pytest.raises(ValueError, match="broadcasts to shape"):
        x[key] = bireme.arange(8).reshape([2, 4])
    assert (x + 1).tolist() == [1, 2, 3]


def test_a_place_is_an_integer_wherever_it_comes_from():
    """Known or not yet computed, as a tensor or an array: beside arrays, it is what an int is."""
    x = bireme.to_tensor(source((2, 3, 4)))
    for one in (
        1,
        np.int64(1),
        np.array(1),
        bireme.to_tensor(1),
        bireme.to_tensor([0, 1]).max(),
        bireme.to_tensor([1])[0],
    ):
        same(x[one, :, [0, 2]], source((2, 3, 4))[1][:, [0, 2]])
        same(x[one], source((2, 3, 4))[1])
        same(x[:, one], source((2, 3, 4))[:, 1])
        same(x[0, one:], source((2, 3, 4))[0, 1:])


def test_what_is_not_computed_yet_is_checked_too():
    x = bireme.to_tensor(source((3, 2)))
    late = bireme.to_tensor([1, 2]) + 1
    calls = [
        lambda: x[late],
        lambda: bireme.gather_nd(x, late.reshape([2, 1])),
        lambda: bireme.index_add(x, late, 0, x[:2]),
        lambda: bireme.put_along_axis(x, late.reshape([1, 2]), 1.0, 0),
        lambda: bireme.scatter_nd_add(x, late.reshape([2, 1]), x[:2]),
        lambda: bireme.index_fill(x, late, 0, 1.0),
        lambda: bireme.take(x, late + 3),
        lambda: bireme.masked_scatter(x, x * 2 >= 0, bireme.to_tensor([1.0])),
    ]
    for by in ("interpreter", "xla"):
        for call in calls:
            with executor.use(by), pytest.raises((IndexError, AssertionError), match=r"expected .*, got"):
                call().numpy()


def test_a_mask_is_not_looked_at_for_a_value_that_is_the_same_everywhere():
    x = bireme.to_tensor(source((3, 4)))
    with capture() as graph:  # where nothing can be looked at
        y = bireme.core.tensor.tensor.wrap(graph.input((3, 4), bireme.float32))
        y[y > 5] = 0.0
        y[y[:, 0] > 3] = bireme.to_tensor([1.0, 2.0, 3.0, 4.0])
    (found,) = graph.finish([y._value]).run([x.numpy()], by="interpreter")
    wanted = source((3, 4))
    wanted[wanted > 5] = 0
    wanted[wanted[:, 0] > 3] = [1, 2, 3, 4]
    np.testing.assert_array_equal(found, wanted)


def test_only_the_last_of_several_writes_has_a_gradient():
    def grads(made, *operands):
        return [g.tolist() for g in bireme.grad(made, operands, bireme.to_tensor([1.0, 2.0, 3.0]))]

    i = bireme.to_tensor([0, 2, 0])
    x, v = bireme.zeros([3]), bireme.ones([3])
    x.stop_gradient = v.stop_gradient = False
    y = x * 1
    y[i] = v
    for made in (y, bireme.scatter(x, i, v), bireme.index_put(x, [i], v), bireme.put_along_axis(x, i, v, 0)):
        assert grads(made, x, v) == [[0.0, 2.0, 0.0], [0.0, 3.0, 1.0]]


def test_the_gradient_of_a_product_with_zeros():
    x = bireme.to_tensor([0.0, 2.0, 0.0], stop_gradient=False)
    v = bireme.to_tensor([3.0, 0.0, 5.0, 0.0], stop_gradient=False)
    made = bireme.put_along_axis(x, bireme.to_tensor([0, 1, 1, 2]), v, 0, "mul")
    gx, gv = bireme.grad(made, [x, v], bireme.ones([3]))
    assert (gx.tolist(), gv.tolist()) == ([3.0, 0.0, 0.0], [0.0, 10.0, 0.0, 0.0])


def test_products_of_complex_numbers():
    x = bireme.to_tensor([1 + 1j, 2j], stop_gradient=False)
    v = bireme.to_tensor([2 - 1j, 3 + 0j], stop_gradient=False)
    made = bireme.put_along_axis(x, bireme.to_tensor([1, 1]), v, 0, "mul")
    np.testing.assert_allclose(made.numpy(), [1 + 1j, 2j * (2 - 1j) * 3], rtol=1e-6)
    gx, gv = bireme.grad(made, [x, v], bireme.ones([2], "complex64"))
    np.testing.assert_allclose(gx.numpy(), np.conj([1, 3 * (2 - 1j)]), rtol=1e-6)
    np.testing.assert_allclose(gv.numpy(), np.conj([2j * 3, 2j * (2 - 1j)]), rtol=1e-6)


@pytest.mark.parametrize("accumulate", [False, True])
def test_what_is_put_nowhere_may_have_any_shape(accumulate):
    x, value = bireme.ones([2, 3]), bireme.ones([2, 1])
    x.stop_gradient = value.stop_gradient = False
    out = bireme.index_put(x, [bireme.zeros([2, 3], "bool")], value, accumulate)
    assert out.tolist() == x.tolist()
    dx, dvalue = bireme.grad(out, [x, value])
    assert dx.tolist() == x.tolist() and dvalue.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("dims", [[], [1], [4], [3, 1], [3, 4]])
def test_what_is_written_into_a_slice_gets_the_sum_of_its_gradients(dims):
    w = bireme.ones(dims)
    w.stop_gradient = False
    x = bireme.zeros([5, 4]) + 0.0
    x[1:4] = w
    weights = bireme.arange(20, dtype="float32").reshape([5, 4])
    (x * weights).sum().backward()
    part = weights.numpy()[1:4]
    axes = tuple(range(2 - len(dims))) + tuple(2 - len(dims) + i for i, n in enumerate(dims) if n == 1)
    assert w.grad.numpy().tolist() == part.sum(axis=axes).reshape(dims).tolist()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("float32", 2), ("float64", 0.1), ("int64", -(2**53)), ("int64", 2**62), ("int32", 7), ("int8", 3.9), ("bool", 1)],
)
def test_a_number_is_written_in_the_type_of_the_tensor(dtype, value):
    x, host = bireme.zeros([3, 2], dtype), np.zeros([3, 2], dtype)
    x[1:, 0], host[1:, 0] = value, value
    assert x.dtype.name == dtype
    assert x.numpy().tolist() == host.tolist()


@pytest.mark.parametrize(
    ("dtype", "value"), [("float32", 2), ("float16", 0.5), ("int64", 3), ("int32", 7), ("bool", True)]
)
def test_a_number_is_written_under_a_mask(dtype, value):
    host = np.arange(6).reshape(2, 3).astype(dtype)
    x = bireme.to_tensor(host)
    mask = np.array([[True, False, True], [False, False, True]])
    x[bireme.to_tensor(mask)], host[mask] = value, value
    assert x.dtype.name == dtype
    assert x.numpy().tolist() == host.tolist()


def test_what_is_under_a_mask_gets_no_gradient():
    w = bireme.ones([2, 2])
    w.stop_gradient = False
    x = w * 3
    x[x > 2.0] = 0.0
    x.sum().backward()
    assert w.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("how", ["set", "add", "multiply", "min", "max"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_interpreted_writes_take_every_place_in_turn(how, axis):
    rng = np.random.default_rng(0)
    x = np.asfortranarray(rng.integers(-9, 9, (4, 5, 3)).astype("float32"))
    index = np.array([2, 0, 2, 1, 2], "int32")  # one place three times
    part = rng.integers(-9, 9, [5 if k == axis else n for k, n in enumerate(x.shape)]).astype("float32")
    expected = np.moveaxis(x, axis, 0).copy()
    steps = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
    for place, row in zip(index, np.moveaxis(part, axis, 0), strict=True):
        expected[place] = row if how == "set" else steps[how](expected[place], row)
    before = x.copy()
    np.testing.assert_array_equal(np.moveaxis(along_axis.put_axis(x, index, part, axis, how), axis, 0), expected)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_rows_added_at_indices_that_repeat(dtype, monkeypatch):
    """By SciPy's loop, and the same where there is none."""
    rng = np.random.default_rng(0)
    table, index = rng.integers(-9, 9, (7, 5)).astype(dtype), rng.integers(0, 7, 50)
    rows = rng.integers(-9, 9, (50, 5)).astype(dtype)
    want = table.copy()
    np.add.at(want, index, rows)
    own = table.copy()
    assert add_rows.add_rows(own, index, rows) == (dtype != "int64")
    for loop in (sparsetools.loop, lambda name: None):
        monkeypatch.setattr(sparsetools, "loop", loop)
        np.testing.assert_array_equal(along_axis.put_axis.numpy(table, index, rows, 0, "add"), want)
        np.testing.assert_array_equal(primitives.scatter_add_rows(table, index, rows), want)
    np.testing.assert_array_equal(own, table if dtype == "int64" else want)


@pytest.mark.parametrize("index", [[0, 2, 3], [3, 0], [1, 1, 4], [-1, 0], [0, 5], [2]])
def test_rows_are_the_same_whether_or_not_indices_ascend(index):
    """Those that do, and are in range, are written by one call of NumPy."""
    rng = np.random.default_rng(0)
    x, rows = rng.standard_normal((6, 3)).astype("float32"), rng.standard_normal((len(index), 3)).astype("float32")
    a, b, at = bireme.to_tensor(x), bireme.to_tensor(rows), bireme.to_tensor(index)
    a.stop_gradient = b.stop_gradient = False
    added = x.copy()
    added[index] = 0
    np.add.at(added, index, rows)
    made = bireme.scatter(a, at, b, overwrite=False)
    weights = np.arange(18, dtype="float32").reshape(6, 3)
    (made * bireme.to_tensor(weights)).sum().backward()
    np.testing.assert_allclose(made.numpy(), added, rtol=1e-6)
    kept = weights.copy()
    kept[index] = 0
    assert a.grad.tolist() == kept.tolist()
    assert b.grad.tolist() == weights[index].tolist()
    taken = np.zeros_like(x)
    np.add.at(taken, index, rows)
    for take in (lambda t: bireme.index_select(t, at), lambda t: t[at]):
        c = bireme.to_tensor(x, stop_gradient=False)
        take(c).backward(bireme.to_tensor(rows))
        np.testing.assert_allclose(c.grad.numpy(), taken, rtol=1e-6)
