"""Cross entropies and log-sum-exps of large logits: what counts are differences, so a common offset changes nothing."""

import numpy as np
import pytest

import bireme
import bireme.nn.functional as F
from bireme.core.graph import executor

rng = np.random.default_rng(4)
LABEL = np.array([0, 2, 3, 1, 2, 0])
WEIGHT = rng.uniform(0.5, 2, 4).astype(np.float32)
SOFT = rng.dirichlet(np.ones(4), 6).astype(np.float32)
WIDE = rng.integers(-48, 48, (6, 4)) / 16  # what float32 can add to a million


def logs(x: np.ndarray) -> np.ndarray:
    """Logarithms of probabilities along the last axis."""
    z = x - x.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def hard(x: np.ndarray) -> np.ndarray:
    return -logs(x)[np.arange(len(x)), LABEL]


KINDS = {
    "hard": (lambda x: F.cross_entropy(x, label()), lambda x: hard(x).mean()),
    "none": (lambda x: F.cross_entropy(x, label(), reduction="none"), hard),
    "weight": (lambda x: F.cross_entropy(x, label(), given(WEIGHT, x)), lambda x: (hard(x) * WEIGHT[LABEL]).sum() / WEIGHT[LABEL].sum()),
    "ignored": (lambda x: F.cross_entropy(x, label(), ignore_index=2), lambda x: hard(x)[LABEL != 2].mean()),
    "soft": (lambda x: F.cross_entropy(x, given(SOFT, x), soft_label=True), lambda x: -(logs(x) * SOFT).sum(-1).mean()),
    "smoothed": (
        lambda x: F.cross_entropy(x, label(), label_smoothing=0.1),
        lambda x: -(logs(x) * (0.9 * np.eye(4)[LABEL] + 0.025)).sum(-1).mean(),
    ),
    "first axis": (lambda x: F.cross_entropy(x.transpose([1, 0]), label(), axis=0), lambda x: hard(x).mean()),
    "inner axis": (lambda x: F.cross_entropy(x.reshape([2, 3, 4]).transpose([0, 2, 1]), label([2, 3]), axis=1), lambda x: hard(x).mean()),
    "with softmax": (lambda x: F.softmax_with_cross_entropy(x, label([6, 1])), lambda x: hard(x)[:, None]),
    "with softmax, soft": (
        lambda x: F.softmax_with_cross_entropy(x, given(SOFT, x), soft_label=True),
        lambda x: -(logs(x) * SOFT).sum(-1, keepdims=True),
    ),
    "log_softmax": (lambda x: F.log_softmax(x), logs),
    "negative logsumexp": (lambda x: x[:, 0] - bireme.logsumexp(x, 1), lambda x: logs(x)[:, 0]),
}  # fmt: skip


def label(shape=(6,)):
    return bireme.to_tensor(LABEL.reshape(shape))


def given(a, x):
    return bireme.to_tensor(a).astype(x.dtype)


def gradient(ref, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Of the sum, by differences."""
    found = np.zeros(x.size)
    for i in range(x.size):
        d = (step * (np.arange(x.size) == i)).reshape(x.shape)
        found[i] = (np.sum(ref(x + d)) - np.sum(ref(x - d))) / (2 * step)
    return found.reshape(x.shape)


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e6, 1e6, 1e30])
@pytest.mark.parametrize("kind", KINDS)
def test_an_offset_loses_no_digits(kind, offset):
    fn, ref = KINDS[kind]
    x = (WIDE + offset).astype(np.float32)  # the numbers themselves: at 1e30 they are all equal
    exact = x.astype(np.float64)
    want = np.asarray(ref(exact))
    slopes = gradient(ref, exact - float(np.float32(offset)))  # the same without it
    for by in ("interpreter", "xla"):
        with executor.use(by):
            t = bireme.to_tensor(x, stop_gradient=False)
            out = fn(t)
            slope = bireme.grad(out.sum(), t)[0].numpy()
            if kind != "negative logsumexp" or not offset:  # the sum itself has no digits left for it
                np.testing.assert_allclose(out.numpy(), want, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(slope, slopes, rtol=1e-4, atol=2e-6)
