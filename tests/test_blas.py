"""Products of NumPy matrices that are shared among the cores: the same numbers as NumPy's, from any thread, after a
fork, with errors told.
"""

import functools
import os
import queue
import subprocess
import sys
import threading

import numpy as np
import pytest

import bireme
from bireme.core.base import registry, workers
from bireme.core.numpy_exec import blas
from bireme.ops.nn import loss
from bireme.ops.optimizer import updates_numpy


@pytest.fixture(autouse=True)
def shared(monkeypatch):
    """Small products are large, and there are three cores, whatever the machine has."""
    monkeypatch.setattr(blas, "SHARED_PRODUCT", 64)
    monkeypatch.setattr(blas, "PRODUCT_PART", 20)
    monkeypatch.setattr(blas, "cores", lambda: 3)
    blas._Workers.forked()
    yield
    blas._Workers.forked()


def drawn(*shape, dtype="float64"):
    rng = np.random.default_rng(0)
    made = rng.standard_normal(shape)
    return (made + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else made).astype(dtype)


SHAPES = [
    ((40, 6), (6, 7)), ((7, 6), (6, 50)), ((100, 3), (3, 100)), ((2, 40), (40, 3)), ((1, 64), (64, 1)),
    ((1, 30, 8), (1, 8, 4)), ((5, 6, 8), (5, 8, 4)), ((2, 30, 8), (2, 8, 4)), ((2, 3, 9, 8), (3, 8, 4)), ((4, 9, 8), (8, 5)),
    ((3, 1, 6, 5), (3, 4, 5, 6)), ((30, 8), (2, 8, 40)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_the_same_as_numpy(shapes, dtype):
    a, b = [drawn(*s, dtype=dtype) for s in shapes]
    made = blas.matmul(a, b)
    assert made.dtype == a.dtype
    np.testing.assert_allclose(
        made, np.matmul(a, b), rtol=1e-4 if dtype in ("float32", "complex64") else 1e-12, atol=1e-5
    )


@pytest.mark.parametrize(
    "shapes", [((0, 6), (6, 90)), ((40, 0), (0, 7)), ((40, 6), (6, 0)), ((0, 5, 6), (0, 6, 7))], ids=str
)
def test_nothing_to_multiply(shapes):
    a, b = [drawn(*s) for s in shapes]
    np.testing.assert_array_equal(blas.matmul(a, b), np.matmul(a, b))


def test_transposed_and_strided_operands():
    a, b = drawn(8, 40).T, drawn(30, 16)[:, ::2].T
    np.testing.assert_allclose(blas.matmul(a, b), np.matmul(a, b))


def test_other_types_go_to_numpy():
    a, b = np.arange(120).reshape(20, 6), np.arange(60).reshape(6, 10)
    np.testing.assert_array_equal(blas.matmul(a, b), a @ b)
    assert blas.matmul(a, b.astype("float32")).dtype == np.float64


def test_what_goes_wrong_in_a_part_is_raised_and_the_threads_go_on():
    with pytest.raises(ValueError, match="mismatch"):
        blas.matmul(drawn(40, 6), drawn(7, 8))
    a, b = drawn(40, 6), drawn(6, 8)
    np.testing.assert_allclose(blas.matmul(a, b), a @ b)


def test_parts_of_other_threads_are_left_to_them(monkeypatch):
    """Nobody works on the queue: who asks makes its own parts, and no others."""
    parts, made = queue.SimpleQueue(), []
    monkeypatch.setattr(blas._Workers, "queue", lambda: parts)
    others = (lambda: made.append("other"), queue.SimpleQueue())
    parts.put(others)
    blas.share([functools.partial(made.append, i) for i in range(3)])
    assert made == [0, 1, 2] and parts.get_nowait() is others


def test_from_many_threads():
    a, b = drawn(90, 20), drawn(20, 30)
    wrong = []

    def multiply():
        wrong.extend([i for i in range(50) if not np.allclose(blas.matmul(a + i, b), (a + i) @ b)])

    threads = [threading.Thread(target=multiply) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong and not any(t.is_alive() for t in threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_in_a_forked_child():
    a, b = drawn(90, 20), drawn(20, 30)
    blas.matmul(a, b)
    child = os.fork()
    if not child:
        os._exit(0 if np.allclose(blas.matmul(a, b), a @ b) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_warning_of_infinities():
    x = bireme.to_tensor(np.full((40, 40), np.inf, "float32"))
    assert bireme.isnan(x @ (x - 1)).sum().item() == 0
    assert bireme.isnan(x @ (x * 0)).all().item()


def test_as_many_cores_as_the_user_gives_to_blas():
    code = "from bireme.core.numpy_exec import blas; blas.one_thread.__enter__(); print(blas.cores())"
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, variable: "1"}, capture_output=True, text=True, check=True
        )
        assert done.stdout == "1\n"


def test_the_last_of_several_threads_puts_the_threads_of_blas_back():
    def threads():
        return [library["num_threads"] for library in blas._controller().info()]

    before, other = threads(), threading.Thread(target=blas.one_thread.__enter__)
    with blas.one_thread:
        other.start()
        other.join()
    assert set(threads()) == {1}
    blas.one_thread.__exit__()
    assert threads() == before


def test_rows_that_are_shared_have_the_same_bits(monkeypatch):
    rng, parts = np.random.default_rng(0), []
    x, labels = rng.standard_normal((64, 33)).astype(np.float32), rng.integers(0, 33, 64)
    labels[3] = -100
    arrays = [[rng.random((n, 3)).astype(np.float32) for n in (40_000, 30_000, 2)] for _ in range(4)]
    numbers = [np.asarray(n) for n in (0.9, 0.999, 1e-3, 0.9, 0.999, 1e-8, 0.01)]

    def made():
        adam = registry.find("adam_update").numpy_form
        updated = adam(
            *arrays,
            *numbers,
            None,
            decoupled=True,
            lr_ratios=(1.0,) * 3,
            decays=(True, True, False),
            by_rows=(False,) * 3,
        )
        return [loss._nll_numpy(x, labels, -100), loss._nll_grad_numpy(labels * x[0, 0], x, labels, -100)[0], *updated]

    wanted = made()
    share = blas.share
    monkeypatch.setattr(blas, "share", lambda makers: (parts.append(len(makers)), share(makers)))
    monkeypatch.setattr(blas, "SHARED_ELEMENTS", 512)
    monkeypatch.setattr(updates_numpy, "_PART", 100_000)
    for ours, theirs in zip(made(), wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert parts == [2, 2, 2]


def test_parts_are_made_here_while_compilers_have_the_cores(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = rng.random((600, 500), np.float32), rng.random((500, 600), np.float32)
    monkeypatch.setattr(blas, "SHARED_PRODUCT", 1 << 20)
    monkeypatch.setattr(blas, "PRODUCT_PART", 1 << 19)
    monkeypatch.setattr(blas, "cores", lambda: 2)
    shared = blas.matmul(a, b)
    monkeypatch.setattr(workers, "free", lambda: 1)
    threads = []
    parts = [lambda: threads.append(threading.current_thread()) for _ in range(3)]
    blas.share(parts)
    assert threads == [threading.current_thread()] * 3
    np.testing.assert_array_equal(blas.matmul(a, b), shared)
    with pytest.raises(ValueError, match="nothing"):
        blas.share([lambda: int("nothing"), lambda: None])
