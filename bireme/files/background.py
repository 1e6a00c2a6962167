"""Saving beside the training: the numbers are taken at once, the file is written by a thread of its own."""

from __future__ import annotations

import copy
import os
import sys
import threading
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


def async_save(obj: Any, path: str | os.PathLike | BinaryIO, protocol: int = 4, sync_other_task: bool = False, **configs: Any) -> None:
    """Save what a Tensor, or a dict, list or tuple of them, holds now, without waiting for the file.

    The training may go on at once: what it changes later is not in the file. The process ends only when the file is there.
    What goes wrong meanwhile is told on standard error, and raised by the next call and by `clear_async_save_task_queue`.
    With `sync_other_task=True`, earlier files are there when the call returns.

    >>> w = bireme.ones([2]); bireme.async_save({"w": w}, "/tmp/bireme_example_beside.pdparams"); w.fill_(7.0).tolist()
    [7.0, 7.0]
    >>> bireme.clear_async_save_task_queue(); bireme.load("/tmp/bireme_example_beside.pdparams")["w"].tolist()
    [1.0, 1.0]
    """
    if not isinstance(obj, (Tensor, dict, list, tuple)):
        raise errors.bad("async_save(obj)", "a Tensor, a dict, a list or a tuple", obj, kind=TypeError)
    obj = described(obj, "async_save")
    pdparams.Check().visit(obj)
    write = writing("async_save", _taken(obj, {}), path, protocol, configs)
    name = str(path) if isinstance(path, (str, os.PathLike)) else "an open file"
    with _lock:
        if not _writer:
            _writer.append(ThreadPoolExecutor(1, "bireme.async_save"))
        before = list(_running)
        task = _writer[0].submit(write)
        _running.append(task)
    task.add_done_callback(lambda done: _tell(done, name))
    _settle(before, everything=sync_other_task)


def clear_async_save_task_queue() -> None:
    """Wait until all files of `async_save` are there.

    >>> bireme.clear_async_save_task_queue()
    """
    with _lock:
        before = list(_running)
    _settle(before, everything=True)


def _settle(tasks: list[Future], everything: bool) -> None:
    """Forget what is written; wait for the others if that is asked for. At the end raise for the first that could not be."""
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


def _tell(task: Future, name: str) -> None:
    if task.exception() is not None:
        sys.stderr.write(f"bireme: async_save({name}): {task.exception()}\n")


class _Held(Tensor):
    """A tensor for the writer: it reads the numbers and nothing else, so that errors of the training stay with the training."""

    __slots__ = ()

    def _host(self) -> np.ndarray:
        return shutdown.within(np.asarray, self._value.array)


def _taken(x: Any, seen: dict[int, Any]) -> Any:
    """The same data as it is now, what is one object being one again. Values never change, so those of tensors are shared; what
    the engine would reuse is kept."""
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
    """The child has no such thread, and the files are the parent's."""
    global _lock
    _lock = threading.Lock()
    _writer.clear()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
