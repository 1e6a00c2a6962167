"""Where padding could change a number unseen: sizes that follow in steps or shrink, arrays that are equal everywhere until
something is put into them, two lengths of one padded size, an interrupt.
"""

import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.record import flush
from bireme.core.run import graphs, padding

F = nn.functional


def padded_sizes():
    return [size for family in padding.families() for size, made in family.padded.items() if made is not None]


def work(y):
    """A dozen calls, so that padding applies."""
    for _ in range(7):
        y = y * 1.0 + 0.0
    return y


def data(*shape):
    return work(bireme.to_tensor(np.random.default_rng(0).normal(size=shape).astype("float32")))


def flat(n):
    """Rows of three samples in one dimension, with padding in between."""
    return data(3, n).reshape([-1])


def put(z, *places):
    for i in places:
        z[i] = 1.0
    return z


LENGTHS = (20, 31, 27, 18, 29, 4, 2)
LONG = (127, 100, 90, 75, 110)

ONE_LENGTH = {
    "padded at the left to a fixed size": (lambda n: F.pad(data(n), [50 - n, 0], value=-1.0), LENGTHS),
    "zeros before it": (lambda n: bireme.concat([bireme.zeros([50 - n]), data(n)]), LENGTHS),
    "a mask of two parts": (lambda n: bireme.concat([bireme.zeros([n]), bireme.ones([50 - n])]) + data(50), LENGTHS),
    "the rest of a fixed size": (lambda n: bireme.ones([50, 4])[n:].cumsum(0).sum() + data(n, 4).sum(), LENGTHS),
    "the last of a fixed size": (lambda n: (data(50)[50 - n :] * data(n)).sum(), LENGTHS),
    "windows": (lambda n: data(n).unfold(0, 3, 2) * 1, LONG),
    "frames": (lambda n: bireme.signal.frame(data(n), 40, 16), (127, 126, 114, 98)),
    "a diagonal": (lambda n: bireme.diagonal(data(n, 50)).mean(), (60, 80, 70, 20)),
    "a diagonal as it is": (lambda n: bireme.diagonal(data(n, 50)) * 1, (60, 80, 70, 20)),
    "shifted": (lambda n: bireme.roll(data(n), 5), LENGTHS),
    "shifted back": (lambda n: bireme.roll(data(n), -3), LENGTHS),
    "shifted by nine": (lambda n: bireme.roll(data(n), 9), (20, 31, 27, 10, 9, 8, 7)),
    "the spectrum's middle": (lambda n: bireme.fft.fftshift(data(n)), LONG),
    "numbers of places": (lambda n: bireme.cumsum(bireme.ones([3 * n])) + flat(n), LENGTHS),
    "scattered": (
        lambda n: bireme.scatter(bireme.zeros([3 * n]), bireme.to_tensor([n + 1, 2 * n]), bireme.ones([2])) + flat(n),
        LENGTHS,
    ),
    "put": (lambda n: put(bireme.zeros([3 * n]), -1, n) + flat(n), LENGTHS),
    "added at places": (
        lambda n: (
            bireme.index_add(bireme.zeros([3 * n, 2]), bireme.to_tensor([n + 1, 2 * n - 1]), 0, bireme.ones([2, 2]))
            + data(3, n, 2).reshape([-1, 2])
        ),
        LENGTHS,
    ),
    "a product with what is equal everywhere": (lambda n: bireme.matmul(flat(n), bireme.ones([3 * n, 2])), LENGTHS),
    "rows added to what is equal everywhere": (
        lambda n: bireme.index_add(
            bireme.zeros([4, 3 * n]), bireme.to_tensor([1, 1]), 0, bireme.stack([flat(n), flat(n)])
        ).sum(1),
        LENGTHS,
    ),
}


@pytest.mark.parametrize("name", ONE_LENGTH)
def test_one_length(padding_applies, name):
    made, lengths = ONE_LENGTH[name]
    for n in lengths:
        got = made(n).numpy()
        with bireme.debug.use_executor("interpreter"):
            want = made(n).numpy()
        assert got.shape == want.shape, n
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=str(n))


PAIRS = ((20, 9), (31, 14), (27, 11), (18, 30), (25, 19), (30, 28))


def test_two_lengths_of_one_padded_size(padding_applies):
    def both(n, m):
        x, y = data(n, 4), data(m, 4)
        return bireme.ones([n, 4]).sum() + x.sum(), bireme.ones([m, 4]).sum() + y.sum()

    def slopes(n, m):
        x, y = bireme.ones([n, 4]), bireme.ones([m, 4])
        x.stop_gradient = y.stop_gradient = False
        (work(x).mean() + 2 * work(y).mean()).backward()
        return x.grad, y.grad

    for made in (both, slopes):
        for n, m in PAIRS:
            got = [t.numpy() for t in made(n, m)]
            with bireme.debug.use_executor("interpreter"):
                want = [t.numpy() for t in made(n, m)]
            for g, w in zip(got, want, strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-5)
        assert (32, 32) in padded_sizes()
        graphs.clear()


def test_what_was_padded_may_be_of_a_size_that_does_not_change(padding_applies):
    for n in (30, 25, 28, 20, 33):
        data(n, 4)
        flush.flush()
    for m in (9, 12, 14, 15):
        e = work(bireme.ones([20, 4]))
        flush.flush()
        q = work(bireme.ones([m, 4]))
        a = bireme.matmul(F.softmax(bireme.matmul(q, e, transpose_y=True), -1), e)
        assert a.sum().item() == pytest.approx(4 * m)


@contextlib.contextmanager
def interrupted_at(code, line):
    """An interrupt when a line of a function is reached for the first time."""
    waiting = [line]

    def trace(frame, event, arg):
        if frame.f_code is not code:
            return trace if frame.f_code.co_filename == code.co_filename else None
        if event == "line" and [frame.f_lineno] == waiting:
            waiting.clear()
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_an_interrupt_leaves_all_or_nothing_padded(padding_applies):
    def step(n):
        return (data(n, 4) * 3.0).sum(1)

    for n in (20, 31, 27):
        step(n).numpy()
    with bireme.debug.use_executor("interpreter"):
        want = step(18).numpy()
    code = padding.rewrite.__code__
    source = dict(enumerate(Path(code.co_filename).read_text().splitlines(), 1))
    lines = {number for *_, number in code.co_lines() if number}
    # it comes where something is called, so not before a plain assignment
    for line in sorted(n for n in lines if not source[n].lstrip().startswith("seg.")):
        y = step(18)
        with interrupted_at(code, line), contextlib.suppress(KeyboardInterrupt):
            y.numpy()
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)
