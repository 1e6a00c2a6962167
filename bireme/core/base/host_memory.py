"""Memory of the host: let malloc keep freed pages, because faulting them in again is a hidden cost of every step.

XLA takes results and scratch space from malloc at every call, and glibc gives large blocks back to the system: a
transformer step then faults 160 MB in again each time, a quarter of its CPU time. The setting is process-wide, so it
is made once, before the first device starts (a thread keeps the arena it started with), and FLAGS_keep_pages=0 leaves
malloc alone. So does an accelerator: results are not on the host there, and the compiler's threads would wait for each
other at the one arena (ResNet-50's pieces on 16 cores: 21 s instead of 5).
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib.util
import os
import sys
from pathlib import Path

import jax

from bireme.core.base import flags

_ARENA_MAX, _MMAP_MAX, _TRIM_THRESHOLD, _TOP_PAD = -8, -4, -1, -2
_done: list[bool] = []


def keep_pages() -> None:
    """Tell glibc once, where XLA will compute on the host; elsewhere nothing happens."""
    if _done or not flags.keep_pages.value or sys.platform != "linux" or _will_find_an_accelerator():
        return
    _done.append(True)
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    for option, value in ((_ARENA_MAX, 1), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 << 20)):
        mallopt(option, value)


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
