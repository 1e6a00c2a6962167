"""Where the profiler listens while it records. Nothing calls it otherwise: the functions are replaced, and put back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from bireme.core.graph.segment import local
from bireme.core.run import explain, lookup
from bireme.core.tensor.tensor import Tensor
from bireme.io import loader
from bireme.nn.layer import Layer
from bireme.optimizer import LBFGS, Optimizer
from bireme.profiler.events import TracerEventType, state, timed

_replaced: list[tuple[Any, str, Any]] = []


def _execute(execute: Callable) -> Callable:
    @functools.wraps(execute)
    def call(seg: Any, held: Any) -> None:
        start = perf_counter_ns()
        execute(seg, held)
        recording = state.recording
        if recording is not None:
            recording.ran(seg, start)

    return call


def _layer(function: Callable) -> Callable:
    @functools.wraps(function)
    def call(self: Layer, *inputs: Any, **kwargs: Any) -> Any:
        recording = state.recording
        if recording is None:
            return function(self, *inputs, **kwargs)
        outermost = local.depth == 0
        seg, start = local.segment, perf_counter_ns()
        first = seg.state.depth
        try:
            return function(self, *inputs, **kwargs)
        finally:
            name = f"{self.__class__.__name__} {self._full_name}"
            kind = TracerEventType.Forward if outermost else TracerEventType.Layer
            recording.add(name, kind, start)
            recording.span(seg, first, local.segment, name)

    return call


def _compiled(compiled: Callable) -> Callable:
    @functools.wraps(compiled)
    def call(entry: Any, seconds: float) -> None:
        recording = state.recording
        if recording is not None:
            start = perf_counter_ns() - int(seconds * 1e9)
            recording.add(f"compile {entry.note.where}", TracerEventType.Compile, start)
        compiled(entry, seconds)

    return call


def _reader(function: Callable, timer: Any) -> Callable:
    @functools.wraps(function)
    def call(self: Any) -> Any:
        start = perf_counter_ns()
        try:
            return function(self)
        finally:
            timer.reader((perf_counter_ns() - start) / 1e9)
            if state.recording is not None:
                state.recording.add("DataLoader", TracerEventType.Dataloader, start)

    return call


def _replace(owner: Any, name: str, made: Callable) -> None:
    _replaced.append((owner, name, vars(owner)[name]))
    setattr(owner, name, made(vars(owner)[name]))


def install(timer: Any, ranges: bool) -> None:
    """Listen to the loader, and where `ranges` are recorded to all else."""
    for iterator in (loader._InlineIterator, loader._WorkerIterator):
        _replace(iterator, "__next__", functools.partial(_reader, timer=timer))
    if not ranges:
        return
    _replace(lookup, "execute", _execute)
    _replace(explain, "compiled", _compiled)
    _replace(Layer, "__call__", _layer)
    backward = functools.partial(timed, name="Tensor.backward", type=TracerEventType.Backward, segment=local)
    _replace(Tensor, "backward", backward)
    for optimizer in (Optimizer, LBFGS):
        _replace(optimizer, "step", functools.partial(timed, name="", type=TracerEventType.Optimization, segment=local))


def remove() -> None:
    """Put everything back."""
    while _replaced:
        owner, name, original = _replaced.pop()
        setattr(owner, name, original)
