"""Convolutions, poolings and transforms of rows where sizes keep changing on an accelerator: images of another width or
height each time, signals of another length, batches of another size.
"""

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.run import padding

F = nn.functional


def normal(*shape, seed=0):
    return bireme.to_tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def twelve(x):
    """Calls, so that padding applies."""
    for _ in range(6):
        x = x * 1.0 + 0.0
    return x


def conv(*sizes, **options):
    bireme.seed(3)
    return nn.Conv2D(*sizes, **options)


class Block(nn.Layer):
    """What image networks are made of, with running statistics."""

    def __init__(self):
        super().__init__()
        bireme.seed(5)
        self.first, self.norm = nn.Conv2D(3, 8, 3, padding=1, bias_attr=False), nn.BatchNorm2D(8)
        self.depth, self.point = nn.Conv2D(8, 8, 5, padding=2, groups=8), nn.Conv2D(8, 6, 1)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.max_pool2d(x, 2, 2)
        x = self.point(F.hardswish(self.depth(x)))
        return F.adaptive_avg_pool2d(x, 1).flatten(1), x


BLOCK = Block()
WIDTHS, LENGTHS = (88, 120, 104, 72, 96, 64), (90, 101, 77, 115, 64, 59)

CASES = {
    "a signal": (lambda n: F.conv1d(normal(2, 4, n), normal(6, 4, 5), padding=2), LENGTHS),
    "a signal without borders": (lambda n: F.conv1d(normal(2, 4, n), normal(6, 4, 5), dilation=3), LENGTHS),
    "a signal, cut short": (lambda n: F.conv1d(normal(2, 4, n), normal(6, 4, 4), padding=[0, 3]), LENGTHS),
    "groups": (lambda n: F.conv1d(normal(2, 4, n), normal(6, 2, 3), padding=1, groups=2), LENGTHS),
    "a batch": (lambda n: F.conv2d(normal(n, 3, 9, 9), normal(4, 3, 3, 3), stride=2), LENGTHS),
    "a width": (lambda n: F.conv2d(normal(2, 3, 9, n), normal(4, 3, 3, 3), padding=1), LENGTHS),
    "every other column": (lambda n: F.conv2d(normal(2, 3, 8, n), normal(4, 3, 3, 3), stride=2, padding=1), WIDTHS),
    "back to twice the width": (
        lambda n: F.conv2d_transpose(normal(2, 3, 8, n), normal(3, 4, 2, 2), stride=2),
        WIDTHS,
    ),
    "the largest": (lambda n: F.max_pool2d(normal(2, 3, 8, n), 3, 1, 1), LENGTHS),
    "the largest of two": (lambda n: F.max_pool2d(normal(2, 3, 8, n), 2, 2), WIDTHS),
    "means": (lambda n: F.avg_pool2d(normal(2, 3, 8, n), 3, 1, 1), LENGTHS),
    "means of what is there": (lambda n: F.avg_pool2d(normal(2, 3, 8, n), 3, 1, 1, exclusive=True), LENGTHS),
    "spectra of rows": (lambda n: bireme.fft.rfft(normal(n, 16), axis=-1).abs(), LENGTHS),
    "the largest of rows": (lambda n: bireme.topk(normal(n, 16), 3)[0], LENGTHS),
    "parts of rows": (lambda n: bireme.add(*bireme.split(normal(n, 16), 2, axis=1)), LENGTHS),
    "again and again": (lambda n: bireme.tile(normal(n, 4), [1, 3]).sum(1) + bireme.tile(normal(n), [1]), LENGTHS),
    "all again": (lambda n: bireme.tile(normal(n, 4), [3, 1]), LENGTHS),
    "what is empty at small sizes, enlarged": (
        lambda n: F.interpolate(normal(2, 4, n)[:, :, 3:].unsqueeze(2), scale_factor=2, mode="nearest"),
        LENGTHS,
    ),
    "a network": (lambda n: BLOCK(normal(2, 3, 16, n)), WIDTHS),
}
REFUSED = {"back to twice the width"}  # it ends as rows of pairs


def outcome(case, n):
    found = case(n)
    found = [twelve(t) for t in (found if isinstance(found, tuple) else [found])]
    return [t.numpy() for t in found]


def sizes():
    return [size for family in padding.families() for size, made in family.padded.items() if made is not None]


@pytest.mark.parametrize("name", CASES)
def test_results(padding_applies, name):
    case, numbers = CASES[name]
    for n in numbers:
        got = outcome(case, n)
        with bireme.debug.use_executor("interpreter"):
            want = outcome(case, n)
        for a, b in zip(got, want, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4, err_msg=f"{name} at {n}")
    reasons = [family.reason for family in padding.families() if family.reason]
    assert (sizes() and not reasons) or name in REFUSED, reasons


SLOPES = ("a signal", "groups", "a width", "every other column", "the largest", "the largest of two", "means")


def slopes(name, n):
    """Gradients with respect to the input and the weight."""
    x, w = normal(2, 4, 8, n), normal(6, 2 if name == "groups" else 4, 3, 3, seed=1)
    x.stop_gradient = w.stop_gradient = False
    made = {
        "a signal": lambda: F.conv2d(x, w, padding=[0, 1]),
        "groups": lambda: F.conv2d(x, w, padding=1, groups=2),
        "a width": lambda: F.conv2d(x, w),
        "every other column": lambda: F.conv2d(x, w, stride=2, padding=1),
        "the largest": lambda: F.max_pool2d(x, 3, 1, 1) * w.sum(),
        "the largest of two": lambda: F.max_pool2d(x, 2, 2) * w.sum(),
        "means": lambda: F.avg_pool2d(x, 3, 1, 1) * w.sum(),
    }[name]()
    loss = (twelve(made) * made.detach().sin()).sum()
    return [t.numpy() for t in bireme.grad(loss, [x, w])]


@pytest.mark.parametrize("name", SLOPES)
def test_gradients(padding_applies, name):
    for n in WIDTHS:
        got = slopes(name, n)
        with bireme.debug.use_executor("interpreter"):
            want = slopes(name, n)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * np.abs(b).max(), err_msg=f"{name} at {n}")


def test_training_with_statistics_of_images_of_any_width(padding_applies):
    def trained():
        net = Block()
        opt = bireme.optimizer.SGD(0.1, parameters=net.parameters())
        losses = []
        for n in WIDTHS:
            pooled, whole = net(normal(2, 3, 16, n, seed=n))
            loss = (pooled * pooled).mean() + whole.abs().mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
            losses.append(loss.item())
        return losses, [t.numpy() for t in net.state_dict().values()]

    got = trained()
    with bireme.debug.use_executor("interpreter"):
        want = trained()
    np.testing.assert_allclose(got[0], want[0], rtol=1e-3)
    for a, b in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)


def test_sizes_that_were_rounded_down_to_others_than_those_looked_at(padding_applies):
    """At even sizes both halves of an image are what a pooling leaves of its width; at odd ones they share a row."""

    def halves(n):
        return twelve(F.adaptive_avg_pool2d(F.max_pool2d(normal(2, 3, n, n), (1, 2), (1, 2)), (2, 1)))

    for n in (40, 60, 48, 41, 57, 62, 43):
        got = halves(n).numpy()
        with bireme.debug.use_executor("interpreter"):
            np.testing.assert_allclose(got, halves(n).numpy(), rtol=1e-4, atol=1e-5, err_msg=str(n))
    assert sizes()
