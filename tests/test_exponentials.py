"""Functions made of NumPy's exponential, beside SciPy's and NumPy's own."""

import numpy as np
import pytest
import scipy.special

from bireme.core.numpy_exec import exponentials

ODD = [0.0, -0.0, 1.0, -1.0, 88.0, -88.0, 800.0, -800.0, 1e-30, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_are_as_exact_as_those_that_go_one_by_one(dtype):
    x, y = map(np.ravel, np.meshgrid(*[np.concatenate([ODD, np.linspace(-30, 30, 101)]).astype(dtype)] * 2))
    room = 4 * np.finfo(dtype).eps
    with np.errstate(all="ignore"):
        got, want = exponentials.logistic(x), scipy.special.expit(x)
        np.testing.assert_allclose(got, want, rtol=room, atol=np.finfo(dtype).tiny)
        np.testing.assert_allclose(exponentials.logaddexp(x, y), np.logaddexp(x, y), rtol=room, atol=room)
        assert exponentials.logaddexp(dtype(2), dtype(3)) == np.logaddexp(dtype(2), dtype(3))
        assert exponentials.logistic(x).dtype == exponentials.logaddexp(x, y).dtype == dtype


def test_operands_stay_as_they_are_and_broadcast():
    x, y = np.ones((3, 1), np.float32), np.zeros(4, np.float32)
    assert exponentials.logaddexp(x, y).shape == (3, 4)
    exponentials.logistic(x)
    assert x.tolist() == [[1.0]] * 3 and y.tolist() == [0.0] * 4
    assert exponentials.logistic(np.zeros((), np.float32)) == exponentials.logistic(0.0) == 0.5
    assert exponentials.logistic(np.array([1j], np.complex64)).dtype == np.complex64
