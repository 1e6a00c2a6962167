"""Saving in the background: values are captured at once, and a thread writes the file."""

from __future__ import annotations

import copy
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO

import numpy as np

from bireme.core.base import errors, shutdown
from bireme.core.record import flush
from bireme.core.tensor.tensor import Tensor, Value, read
from bireme.files import pdparams
from bireme.files.object_state import described
from bireme.files.store import writing

_writer: list[ThreadPoolExecutor] = []  # one thread, so that files appear in the order of the calls
_running: list[Future] = []
_lock = threading.Lock()


def async_save(
    obj: Any, path: str | os.PathLike | BinaryIO, protocol: int = 4, sync_other_task: bool = False, **configs: Any
) -> None:
    """Save the current values of tensors without waiting for the file.

    The training can continue at once; what it changes later is not in the file. The process ends only after the file is
    written. An error is printed to stderr, and raised by the next call of ``async_save`` or
    ``clear_async_save_task_queue``.

    Args:
        obj: A tensor, or a dict, list or tuple with tensors and plain data.
        path: Path of the file, or an open binary file.
        protocol: Pickle protocol of Paddle's format: 2, 3 or 4. Default: 4.
        sync_other_task: Wait until the files of earlier calls are written. Default: False.
        **configs: Options of ``save``.

    Examples:
        >>> import tempfile
        >>> w = bireme.ones([2])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.async_save({"w": w}, f"{folder}/w.pdparams")
        ...     w = w.fill_(7.0)
        ...     bireme.clear_async_save_task_queue()
        ...     bireme.load(f"{folder}/w.pdparams")["w"].tolist()
        [1.0, 1.0]
    """
    if not isinstance(obj, (Tensor, dict, list, tuple)):
        raise errors.bad("async_save(obj)", "a Tensor, a dict, a list or a tuple", obj, kind=errors.NotATensorError)
    obj = described(obj, "async_save")
    pdparams.Check().visit(obj)
    write = writing("async_save", _taken(obj, {}), path, protocol, configs)
    name = str(path) if isinstance(path, (str, os.PathLike)) else "an open file"
    with _lock:
        if not _writer:
            _writer.append(ThreadPoolExecutor(1, "bireme.async_save"))
        before = list(_running)
        _running.append(_writer[0].submit(_write, write, name))
    _settle(before, everything=sync_other_task)


def clear_async_save_task_queue() -> None:
    """Wait until all files of ``async_save`` are written.

    Examples:
        >>> bireme.clear_async_save_task_queue()
    """
    with _lock:
        before = list(_running)
    _settle(before, everything=True)


def _settle(tasks: list[Future], everything: bool) -> None:
    """Drop the tasks that are done, wait for the others if ``everything``, and raise the first error at the end."""
    failed = None
    for task in tasks:
        if everything or task.done():
            error = task.exception()
            with _lock:
                untold = task in _running
                if untold:
                    _running.remove(task)
            failed = error if untold and failed is None else failed
    if failed is not None:
        raise failed


def _write(write: Callable[[], None], name: str) -> None:
    """Write a file; an error is printed before those who wait for the task get it."""
    try:
        write()
    except BaseException as e:
        sys.stderr.write(f"bireme: async_save({name}): {e}\n")
        raise


class _Held(Tensor):
    """A tensor for the writer: it only reads the values, so that errors of the training are raised in the training."""

    __slots__ = ()

    def _host(self) -> np.ndarray:
        return shutdown.within(np.asarray, self._value.array)


def _taken(x: Any, seen: dict[int, Any]) -> Any:
    """Return the same data as it is now; an object that occurs twice is one again.

    Values never change, so those of tensors are shared; a buffer that the engine would reuse is pinned.
    """
    if id(x) in seen:
        return seen[id(x)]
    new = x
    if isinstance(x, Tensor):
        value = read(x)
        new = _Held(Value(value.sig, flush.pin(value), value.device))
        new.name = x.name
    elif isinstance(x, np.ndarray):
        new = x.copy()
    elif isinstance(x, dict):
        new = copy.copy(x)
        new.update({k: _taken(v, seen) for k, v in x.items()})
    elif isinstance(x, tuple) and hasattr(x, "_fields"):
        new = type(x)(*[_taken(v, seen) for v in x])
    elif isinstance(x, (list, tuple)):
        new = type(x)([_taken(v, seen) for v in x])
    elif isinstance(x, (set, bytearray)):
        new = copy.copy(x)
    seen[id(x)] = new
    return new


def _forked() -> None:
    """Forget everything in a forked child, which has no such thread: the files are the parent's."""
    global _lock
    _lock = threading.Lock()
    _writer.clear()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
