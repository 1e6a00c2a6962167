"""Compiled programs on disk: written once nothing waits to be compiled, and read by the next process instead of being
traced, lowered and compiled again.
"""

from __future__ import annotations

import atexit
import zlib
from typing import Any
from weakref import WeakValueDictionary

import jax
from jax.experimental import serialize_executable

from bireme.core.base import workers
from bireme.core.base.device import Device
from bireme.core.xla_exec import compile_cache

# what jax's pickler raises, too, for a program that cannot be written down, and its own errors for one that it refuses
_FAILURES = (*workers.FAILURES, EOFError, ImportError, zlib.error, serialize_executable.pickle.PickleError)

_at_end: WeakValueDictionary[str, Any] = WeakValueDictionary()  # those that nobody has any more are not kept


def load(name: str | None, device: Device, args: tuple, results: int) -> Any:
    """The program that was kept under a name, for arguments of these kinds and a list of results; None without one."""
    payload = None if name is None else compile_cache.read(name)
    if name is None or payload is None:
        return None
    trees = jax.tree.structure((args, {})), jax.tree.structure([0] * results)
    try:
        return serialize_executable.deserialize_and_load(
            zlib.decompress(payload), *trees, device.jax.client, [device.jax]
        )
    except _FAILURES:  # of another compiler after all, or of a device that is gone
        compile_cache.drop(name)
        return None


def keep(name: str | None, program: Any, at_end: bool = False) -> Any:
    """Keep a program under a name, later, or when this process ends: writing it down stops all others, for a second if
    it is large. It is given back.
    """
    if name is not None and at_end:
        _at_end[name] = program
    elif name is not None:
        workers.afterwards(lambda: _write(name, program))
    return program


@atexit.register
def _write_at_end() -> None:
    for name, program in list(_at_end.items()):
        _write(name, program)


def _write(name: str, program: Any) -> None:
    if compile_cache.has(name):
        return
    try:
        payload = serialize_executable.serialize(program)[0]
    except _FAILURES:
        return
    compile_cache.write(name, zlib.compress(payload, 1))
