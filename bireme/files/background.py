"""Saving beside the training: the numbers are taken at once, the file is written by a thread of its own."""

from __future__ import annotations

import copy
import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO

import numpy as np

from bireme.core import errors, flush
from bireme.core.tensor import Tensor, Value, read, wrap
from bireme.files import pdparams
from bireme.files.store import writing

_writer: list[ThreadPoolExecutor] = []  # one thread, so that files appear in the order of the calls
_running: list[tuple[Future, str]] = []


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
    writing("async_save", obj, path, protocol, configs)
    pdparams.Check().visit(obj)
    write = writing("async_save", _taken(obj), path, protocol, configs)
    _wait(everything=sync_other_task)
    if not _writer:
        _writer.append(ThreadPoolExecutor(1, "bireme.async_save"))
    name = str(path) if isinstance(path, (str, os.PathLike)) else "an open file"
    task = _writer[0].submit(write)
    _running.append((task, name))
    task.add_done_callback(lambda done: _tell(done, name))


def clear_async_save_task_queue() -> None:
    """Wait until all files of `async_save` are there.

    >>> bireme.clear_async_save_task_queue()
    """
    _wait(everything=True)


def _wait(everything: bool) -> None:
    """Forget what is written, and raise for what could not be; wait for the others if that is asked for."""
    for item in list(_running):
        if everything or item[0].done():
            _running.remove(item)
            item[0].result()


def _tell(task: Future, name: str) -> None:
    if task.exception() is not None:
        sys.stderr.write(f"bireme: async_save({name}): {task.exception()}\n")


def _taken(x: Any) -> Any:
    """The same data as it is now. Values never change, so those of tensors are shared; what the engine would reuse is kept."""
    if isinstance(x, Tensor):
        value = read(x)
        held = wrap(Value(value.sig, flush.pin(value), value.device))
        held.name = x.name
        return held
    if isinstance(x, np.ndarray):
        return x.copy()
    if isinstance(x, dict):
        new = copy.copy(x)
        new.update({k: _taken(v) for k, v in x.items()})
        return new
    if type(x) in (list, tuple):
        return type(x)(map(_taken, x))
    return copy.deepcopy(x) if isinstance(x, (list, tuple, set, bytearray)) else x


def _forked() -> None:
    """The child has no such thread, and the files are the parent's."""
    _writer.clear()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
