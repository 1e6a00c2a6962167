"""Products of NumPy matrices on all cores: parts of a large one go to threads of our own, which sleep while they wait.

Those of OpenBLAS wait for each other by spinning. On a machine that does something else besides, one of them spins
until the other gets its turn: a step that takes a second alone took two to twenty there. So BLAS makes each part on one
thread.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import threadpoolctl

from bireme.core.base import machine, workers

# multiplications, which take a core 200 us: to wake another one takes 60
SHARED_PRODUCT = 1 << (24 if machine.X86 else 22)
PRODUCT_PART = SHARED_PRODUCT >> 1
SHARED_ELEMENTS = 1 << 18  # of functions such as exp: a millisecond
SHARED = frozenset(map(np.dtype, "fdFD"))  # what BLAS multiplies


class _OfBlas(threadpoolctl.ThreadpoolController):
    """Looks at libraries of BLAS alone: to find out what each of a hundred others is takes 20 ms."""

    def _make_controller_from_path(self, filepath: str) -> None:
        file = os.path.basename(filepath).lower()
        if "blas" in file or "blis" in file or "mkl" in file or "armpl" in file:
            super()._make_controller_from_path(filepath)


@functools.cache
def _controller() -> Any:
    return _OfBlas().select(user_api="blas")


class _OneThread:
    """BLAS on one thread within this block.

    It holds for the process, so the last of several threads that leave puts it back.
    """

    def __init__(self) -> None:
        self.limited: list[tuple[Any, int]] = []  # libraries that had more, and how many
        self.forked()

    def forked(self) -> None:
        self.lock, self.inside = threading.Lock(), 0  # who was inside is not in this process

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                cores()  # asked before the limit is there
                # not by `limit`, which asks everything about each library first: 20 us for every run of a small graph
                libraries = _controller().lib_controllers
                self.limited = [(library, n) for library in libraries if (n := library.num_threads) not in (None, 1)]
                for library, _ in self.limited:
                    library.set_num_threads(1)
            self.inside += 1

    def __exit__(self, *exc: Any) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                for library, n in self.limited:
                    library.set_num_threads(n)


one_thread = _OneThread()


@functools.cache
def cores() -> int:
    """How many products are shared among: as many as BLAS would have threads, which OMP_NUM_THREADS may say."""
    return min(workers.processors(), max([library["num_threads"] for library in _controller().info()], default=1))


class _Workers:
    """Threads that make parts, one less than there are cores: who asks makes a part too."""

    parts: queue.SimpleQueue | None = None
    lock = threading.Lock()

    @classmethod
    def queue(cls) -> queue.SimpleQueue:
        with cls.lock:
            if cls.parts is None:
                cls.parts = queue.SimpleQueue()
                for i in range(cores() - 1):
                    threading.Thread(target=_work, args=(cls.parts,), name=f"bireme-product-{i}", daemon=True).start()
            return cls.parts

    @classmethod
    def forked(cls) -> None:
        cls.parts, cls.lock = None, threading.Lock()  # the threads are not there any more


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Workers.forked)
    os.register_at_fork(after_in_child=one_thread.forked)


def _work(parts: queue.SimpleQueue) -> None:
    with np.errstate(all="ignore"):
        while True:
            make, done = parts.get()
            done.put(_made(make))


def _made(make: Callable[[], Any]) -> BaseException | None:
    try:
        make()
    except (
        MemoryError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as e:  # all that NumPy raises here; the thread goes on, who asked raises it
        return e
    return None


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`np.matmul`, with the rows of a large product or the members of a large batch shared among the cores."""
    if (
        a.ndim < 2
        or b.ndim < 2
        or a.size * b.shape[-1] < SHARED_PRODUCT
        or a.dtype != b.dtype
        or a.dtype not in SHARED
        or cores() == 1
    ):
        return np.matmul(a, b)
    out = np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), a.dtype)
    with one_thread:
        share([functools.partial(np.matmul, x, y, out=out[place]) for x, y, place in _parts(a, b)])
    return out


def share(makers: list[Callable[[], Any]]) -> None:
    """Make parts on all cores, the first of them here; raises what one of them raised.

    While compilers have the other cores, all are made here: two threads on one core would only take each other's time.
    """
    if workers.free() < 2:
        for make in makers:
            make()
        return
    work, done = _Workers.queue(), queue.SimpleQueue[BaseException | None]()
    for make in makers[1:]:
        work.put((make, done))
    found = [_made(makers[0])]
    with contextlib.suppress(queue.Empty):
        for _ in range(work.qsize()):  # what nobody has begun, since the cores do something else, is made here
            part = work.get_nowait()
            if part[1] is done:
                done.put(_made(part[0]))
            else:  # another thread's, which would wait for it in vain if this one were interrupted
                work.put(part)
    for error in [*found, *[done.get() for _ in makers[1:]]]:
        if error is not None:
            raise error


def share_rows(make: Callable[[slice], Any], rows: int, elements: int) -> None:
    """Let each core make some of the rows, which do not depend on each other, where their elements are worth it."""
    count = min(cores(), elements // SHARED_ELEMENTS, rows)
    if count < 2:
        make(slice(0, rows))
    else:
        share([functools.partial(make, part) for part in _cuts(rows, count)])


def _parts(a: np.ndarray, b: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, Any]]:
    """The operands of each core's part, and its place in the result."""
    count = min(cores(), a.size * b.shape[-1] // PRODUCT_PART)
    if a.ndim == b.ndim > 2 and a.shape[0] == b.shape[0] >= count:
        return [(a[s], b[s], s) for s in _cuts(a.shape[0], count)]
    if a.shape[-2] >= b.shape[-1]:
        return [(a[..., s, :], b, (..., s, slice(None))) for s in _cuts(a.shape[-2], count)]
    return [(a, b[..., s], (..., s)) for s in _cuts(b.shape[-1], count)]


def _cuts(n: int, count: int) -> list[slice]:
    """So many equal parts; their borders at multiples of 16, as those of the kernels of BLAS are."""
    size = -(-n // count)
    size = -(-size // 16) * 16 if n >= 16 * count else size
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]
