"""Memory of the host: let malloc keep freed pages, because faulting them in again is a hidden cost of every step.

XLA takes results and scratch space from malloc at every call, and glibc gives large blocks back to the system: a
transformer step then faults 160 MB in again each time, a quarter of its CPU time. The setting is process-wide, so it
is made once, before the first device starts, and FLAGS_keep_pages=0 leaves malloc alone. So does an accelerator: results
are not on the host there. There are as many arenas as cores: with one the compiler's threads wait for each other at it
(a fourth of their time on two cores; ResNet-50's pieces on 16: 21 s instead of 5), and each keeps pages of its own.

A compiler leaves some ten thousand free blocks of all sizes between those that it still needs. XLA's kernels take
scratch space at every call, and malloc then walks along them: a tenth to a fifth of the time of a network of small
convolutions. So they are taken out of malloc's hands after a compile, until the next. See decisions/065.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from bireme.core.base import flags, workers

_ARENA_MAX, _MMAP_MAX, _TRIM_THRESHOLD, _TOP_PAD = -8, -4, -1, -2
_done: list[bool] = []
_TOP = 64 << 20  # bytes that are asked for at once
_LONG = 1.0  # seconds of a compile that leaves many blocks: taking them takes a tenth of one
_SMALLEST, _LARGEST = 1 << 10, 8 << 20  # bytes of those that are taken; smaller ones each thread has at hand
_lock = threading.Lock()
_taken: list[int] = []  # addresses


def keep_pages() -> None:
    """Tell glibc once, where XLA will compute on the host; elsewhere nothing happens."""
    if _done or not flags.keep_pages.value or sys.platform != "linux" or _will_find_an_accelerator():
        return
    _done.append(True)
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    arenas = workers.processors()
    for option, value in ((_ARENA_MAX, arenas), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, _TOP)):
        mallopt(option, value)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Around a compile: those who run its program do not search what it leaves free between other blocks."""
    begin = time.perf_counter()
    yield
    if _done and time.perf_counter() - begin > _LONG:
        with _lock:
            _take_free_blocks()


def _take_free_blocks() -> None:
    """Take what is free below the top of malloc's memory; its pages go back to the system first, so it costs none."""
    libc = _glibc()
    if libc is None:
        return
    while _taken:  # what was taken after another compile may have become parts of larger blocks
        libc.free(_taken.pop())
    libc.malloc_trim(_TOP)
    top = libc.sbrk(0) - libc.mallinfo2().keepcost
    size = _LARGEST
    while size >= _SMALLEST:
        block = libc.malloc(size)
        if 0 < block < top:
            _taken.append(block)
        else:
            libc.free(block)
            size -= size // 8


class _Blocks(ctypes.Structure):
    """What `mallinfo2` gives."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]  # fmt: skip


@functools.cache
def _glibc() -> Any:
    """The functions of malloc, or None where they are others. Python's lock is kept: they take less than passing it on."""
    try:
        libc = ctypes.PyDLL("libc.so.6")
        libc.mallinfo2.restype = _Blocks
        libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_size_t
        libc.free.argtypes, libc.free.restype = [ctypes.c_size_t], None
        libc.sbrk.argtypes, libc.sbrk.restype = [ctypes.c_ssize_t], ctypes.c_size_t
        libc.malloc_trim.argtypes = [ctypes.c_size_t]
    except (OSError, AttributeError):
        return None
    return libc


def _will_find_an_accelerator() -> bool:
    """Whether jax will find one when it starts, as far as can be told before."""
    named = getattr(jax.config, "jax_platforms", None)
    if named:
        return not named.startswith("cpu")
    plugins = any(importlib.util.find_spec(name) for name in ("jax_plugins", "libtpu"))
    return plugins and any(Path("/dev", name).exists() for name in ("nvidiactl", "kfd", "accel0", "vfio"))


@functools.cache
def capacity() -> int:
    """Bytes that this process can have: the machine's memory, or less where its control group says so."""
    names = getattr(os, "sysconf_names", {})
    known = "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else 1 << 44
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():  # "max" where there is no bound
            found = min(found, int(text))
    return found


def freeze_imports() -> None:
    """Keep modules out of the garbage collector: each full collection would walk their 100,000 objects for 50-100 ms,
    in the middle of some step. What is made later is collected as ever."""
    if flags.freeze_imports.value:
        gc.freeze()
