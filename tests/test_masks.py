"""Elements by a mask, and what uses it in the interpreter."""

import dis

import numpy as np
import pytest

import bireme
from bireme.core.graph import cost
from bireme.core.numpy_exec import limits, masks
from bireme.nn import functional as F


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_what_is_not_kept_is_zero_whatever_it_was(dtype):
    x = np.array([[1, -2], [3, 4]], dtype)
    mask = np.array([[True, False], [False, True]])
    assert masks.kept(x, mask).tolist() == [[1, 0], [0, 4]]
    assert masks.kept(x.T, mask.T).tolist() == [[1, 0], [0, 4]]
    assert masks.kept(x[0, 0], mask[0, 1]) == 0
    if dtype != np.int32:
        odd = np.array([np.nan, np.inf, -np.inf, np.nan], dtype)
        assert masks.kept(odd, np.array([False, False, False, True]))[:3].tolist() == [0, 0, 0]


ODD = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, 3.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (96, 96), (9, 7, 513)])  # small, some, and several blocks
def test_a_choice_has_the_bits_of_what_is_chosen(dtype, shape):
    rng = np.random.default_rng(0)
    x, y = [
        rng.choice(ODD, shape).astype(dtype) if dtype != np.int32 else rng.integers(-5, 5, shape, dtype) for _ in "xy"
    ]
    mask, zero, row = np.asarray(rng.random(shape) < 0.5), np.zeros((), dtype), y[:1] if y.ndim else y
    for a, b in [
        (x, y),
        (x, zero),
        (zero, x),
        (x, -zero),
        (-zero, x),
        (x, row),
        (row, zero),
        (zero, zero),
        (2.0, y),
        (x, 0),
    ]:
        got, want = masks.chosen(mask, a, b), np.where(mask, a, b)
        assert got.dtype == want.dtype and got.shape == want.shape
        assert got.tobytes() == want.tobytes(), (a, b)


@pytest.mark.parametrize("make", [lambda x: x.T, lambda x: x[::2], lambda x: np.broadcast_to(x[:1], x.shape)])
def test_a_choice_reads_arrays_as_they_lie(make):
    rng = np.random.default_rng(0)
    x, y = make(rng.standard_normal((256, 257), np.float32)), make(rng.standard_normal((256, 257), np.float32))
    for mask in (x > y, make(np.ones((256, 257), bool)), x[:1] > 0):
        np.testing.assert_array_equal(masks.chosen(mask, x, y), np.where(mask, x, y))
        np.testing.assert_array_equal(masks.chosen(mask, x, np.float32(0)), np.where(mask, x, 0))


@pytest.mark.parametrize("batch", [1, 2, 3, 4])
def test_the_first_of_equals_is_the_maximum_and_so_is_the_first_that_is_no_number(batch):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (batch, 2, 7, 8)).astype("float32")
    x[0, 0, 2, 3] = x[0, 0, 3, 3] = np.nan
    t = bireme.to_tensor(x, stop_gradient=False)
    out, places = F.max_pool2d(t, 3, 2, 1, return_mask=True)
    grown = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    for (n, c, i, j), place in np.ndenumerate(places.numpy()):
        window = grown[n, c, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].ravel()
        best = np.flatnonzero(np.isnan(window))[0] if np.isnan(window).any() else np.argmax(window)
        assert place == (2 * i - 1 + best // 3) * 8 + 2 * j - 1 + best % 3
    out.sum().backward()
    want = np.zeros((batch, 2, 56), "float32")
    for (n, c, _, _), place in np.ndenumerate(places.numpy()):
        want[n, c, place] += 1
    assert t.grad.numpy().tolist() == want.reshape(x.shape).tolist()


def test_steps_in_bytecode_are_those_that_dis_tells():
    def counted(code):
        return sum([step.opname in cost._NAMES for step in dis.get_instructions(code)])

    assert cost.bytecode_steps(masks._bits) == counted(masks._bits.__code__)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (70, 80)])
def test_a_limit_is_what_the_maximum_gives(dtype, shape):
    rng = np.random.default_rng(0)
    odd = [*ODD[:6], 3.5, -2.0] if np.dtype(dtype).kind == "f" else [0, 1, -7, 9]
    x = rng.choice(odd, shape).astype(dtype)
    numbers = [0, -0.0, -1.5, 2.0, np.inf, np.nan] if np.dtype(dtype).kind == "f" else [0, -1, 2]
    for number in [*numbers, *map(dtype, numbers), *[np.array(n, dtype) for n in numbers], np.float64(1.5)]:
        for ours, theirs in ((limits.maximum, np.maximum), (limits.minimum, np.minimum)):
            for a, b in ((x, number), (number, x)):
                got, want = ours(a, b), theirs(a, b)
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)
                np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
