"""The float32 forms that a CPU runs: as exact as NumPy's, at every size, and at what is no number."""

import jax
import numpy as np
import pytest
from scipy import special

from bireme.core.numpy_exec.erf import erf
from bireme.ops._shared import vectorized_math
from bireme.ops.nn.activation import _gelu_grad_numpy

RNG = np.random.default_rng(3)
AWKWARD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, 1e-30, -1e30, 3.4e38], np.float32)
PAIRS = np.array(np.meshgrid(AWKWARD, AWKWARD), np.float32).reshape(2, -1)
WIDE = np.concatenate(
    [
        RNG.normal(size=2000),
        RNG.uniform(-8192, 8192, 2000),
        np.arange(-50, 50) * (np.pi / 2),
        np.geomspace(1e-30, 1, 200),
    ]
)
FORMS = {
    "sin": (np.sin, WIDE), "cos": (np.cos, WIDE), "tan": (np.tan, WIDE), "atan": (np.arctan, WIDE),
    "asin": (np.arcsin, RNG.uniform(-1, 1, 2000)), "acos": (np.arccos, RNG.uniform(-1, 1, 2000)),
    "atan2": (np.arctan2, WIDE), "remainder": (np.remainder, WIDE), "floor_divide": (np.floor_divide, WIDE),
}  # fmt: skip
OF_TWO = ("atan2", "remainder", "floor_divide")


def run(name: str, *operands: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(jax.jit(getattr(vectorized_math, name))(*operands))


@pytest.mark.parametrize("name", FORMS)
def test_numbers(name):
    ref, values = FORMS[name]
    operands = [values.astype(np.float32)]
    if name in OF_TWO:
        operands.append(RNG.permutation(operands[0]) + np.float32(0.125))
    want = ref(*[a.astype(np.float64) for a in operands])
    np.testing.assert_allclose(run(name, *operands), want.astype(np.float32), rtol=4e-7, atol=1e-37)


@pytest.mark.parametrize("name", FORMS)
def test_what_is_no_number(name):
    operands = list(PAIRS) if name in OF_TWO else [AWKWARD]
    with np.errstate(all="ignore"):
        want = FORMS[name][0](*operands)
    found = run(name, *operands)
    np.testing.assert_allclose(found, want, rtol=4e-7, atol=1e-37)  # XLA has no smaller numbers
    if name in ("sin", "tan", "atan", "asin", "atan2"):
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(want[numbers]))


def test_an_angle_too_far_for_the_reduction_is_left_to_xla():
    x = np.array([1e5, -3e9, 1.0], np.float32)
    np.testing.assert_allclose(run("sin", x), np.sin(x.astype(np.float64)), rtol=1e-6)


def test_a_reduction_in_two_parts_would_not_do(monkeypatch):
    monkeypatch.setattr(vectorized_math, "_HALF_PI", (np.float32(np.pi / 2),))
    x = RNG.uniform(1000, 8000, 100).astype(np.float32)
    assert np.abs(run("sin", x) - np.sin(x.astype(np.float64))).max() > 1e-5


def test_erf_of_arrays():
    x = np.concatenate([np.linspace(-6, 6, 70_001), np.geomspace(1e-30, 1, 500), [0.0, -0.0, np.inf, -np.inf]])
    x = x.astype(np.float32)
    want = special.erf(x.astype(np.float64))
    np.testing.assert_allclose(erf(x), want, rtol=5e-7)
    assert np.abs(erf(x)).max() == 1
    np.testing.assert_array_equal(erf(x.reshape(-1, 1)[::3])[:, 0], erf(x[::3]))
    assert np.isnan(erf(np.full(100, np.nan, np.float32))).all()
    np.testing.assert_array_equal(erf(x.astype(np.float64)), special.erf(x.astype(np.float64)))


def test_the_slope_of_gelu_by_table():
    x = np.concatenate([RNG.normal(size=40_000) * 2, np.linspace(-6.01, 6.01, 2001), AWKWARD]).astype(np.float32)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        wanted = 0.5 * special.erfc(-wide * 0.5**0.5) + wide * np.exp(-0.5 * wide * wide) / np.sqrt(2 * np.pi)
        found = _gelu_grad_numpy(np.float32(2), x.reshape(1, -1), False)[0] / 2
    np.testing.assert_allclose(found, wanted, rtol=0, atol=4e-7)
