"""A rounding to half precision that a program asks for is made, also where the compiler could leave it out."""

import numpy as np
import pytest

import bireme
import bireme.nn.functional as F
from bireme.core.graph import executor

rng = np.random.default_rng(2)
X = rng.normal(size=(64, 64)).astype(np.float32)
Y = rng.normal(size=(64, 64)).astype(np.float32)


def rest(x, half):
    """What a rounding takes away."""
    return x - x.astype(half).astype("float32")


def autocast(x, y, half):
    """A product in half precision, then what mixed precision computes in float32."""
    with bireme.amp.auto_cast(level="O1", dtype=half):
        made = x @ y
        assert made.dtype.name == half
        return F.softmax(made, 0), made.mean(0)


def lost_by_product(x, y, half):
    """What mixed precision takes away from a product."""
    x, y = [t.astype(half) for t in (x, y)]
    return (x @ y).astype("float32") - x.astype("float32") @ y.astype("float32")


# each with its tolerance: sums come in any order
CHAINS = {
    "rest": (lambda x, y, half: rest(x, half), 0),
    "largest rest": (lambda x, y, half: rest(x, half).abs().max(), 0),
    "sum of the rest": (lambda x, y, half: rest(x, half).square().sum(1), 1e-6),
    "sum of the rounded": (lambda x, y, half: x.astype(half).astype("float32").sum(1), 1e-6),
    "sum of rounded squares": (lambda x, y, half: (x * x).astype(half).astype("float32").sum(0), 1e-6),
    "mean of rounded products": (lambda x, y, half: (x.astype(half) * y.astype(half)).astype("float32").mean(1), 1e-6),
    "product of two parts": (lambda x, y, half: x.astype(half).astype("float32") @ y + rest(x, half) @ y, 1e-5),
    "rest of a product": (lambda x, y, half: rest(x @ y.astype(half).astype("float32"), half), None),
    "elementwise in half precision": (
        lambda x, y, half: (x.astype(half) * y.astype(half)).exp().astype("float32"),
        None,
    ),
    "lost by a product": (lost_by_product, None),
    "mixed precision": (autocast, 2e-2),
}


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CHAINS)
def test_both_tiers_round_where_the_program_does(name, half):
    chain, tol = CHAINS[name]
    found = []
    for by in ("interpreter", "xla"):
        with executor.use(by):
            made = chain(bireme.to_tensor(X), bireme.to_tensor(Y), half)
            found.append([t.numpy().astype(np.float64) for t in (made if isinstance(made, tuple) else [made])])
    for a, b in zip(*found, strict=True):
        assert np.abs(a).max() > 0
        # the last bit of a product or of an exponential may differ, and with it a rounding here and there
        if tol is None:
            assert np.mean(np.isclose(a, b, rtol=1e-5, atol=1e-5)) > 0.97
        else:
            np.testing.assert_allclose(b, a, rtol=tol, atol=tol * np.abs(a).max())


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_the_same_from_the_second_call_on(half):
    """The first call is interpreted, later ones are compiled."""
    x = rng.normal(size=(512, 1024)).astype(np.float32)
    want = np.abs(x - bireme.to_tensor(x).astype(half).numpy().astype(np.float32)).max()
    for _ in range(3):
        assert rest(bireme.to_tensor(x), half).abs().max().item() == want
