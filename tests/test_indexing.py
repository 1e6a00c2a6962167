"""Reading and writing by index: NumPy's answer is the right one, for every kind of index and for what is written."""

import numpy as np
import pytest

import bireme
from bireme.core import executor

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
