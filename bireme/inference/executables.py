"""Executables: a model that many threads run, by the engine or by a compiled program of its own for one set of shapes.

Which of the two is decided by counts alone. The first shapes are compiled at once: most models see no others. Others
are run by the engine, and compiled when they have come back often lately; a bounded number of programs is kept. "beside" lets
nothing wait: all shapes are run by the engine until their runs have taken as long as a compile does, which a thread then
makes, and as long again until its program takes over.
"""

from __future__ import annotations

import functools
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import workers
from bireme.core.graph.graph import Value, sig_of
from bireme.core.program import running
from bireme.core.program.building import suspended
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Symbol
from bireme.core.record import flush
from bireme.core.record.capture import capture, needs_value
from bireme.core.run import beside as beside_runs
from bireme.core.run import tiers
from bireme.core.run.tiers import Beside
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor, read, wrap
from bireme.core.xla_exec import xla

# other shapes than the first are compiled after so many runs, of the last 8 * 16 of the model, as the engine has it
OFTEN, SHARE = tiers.BUSY_RUNS, tiers.BUSY_SHARE
MOST = 16  # programs of a model
RESTING = 64  # runs that a program has not been used for when another one may take its place
MOST_SHAPES = 1024  # that are counted
HALF = 2  # a program that covers less of the calls than one in so many is not compiled
LOOK = 4  # runs after which it is worth estimating what a compile of these shapes takes
COMPILE_CALL = 15e3  # microseconds that the compiler takes for a call in a program of some hundreds, on one core

COMPILING = ("first", "each", "beside")  # when a program is made for shapes, see `Config.set_compiling`

Program = Callable[[list], list]

_name = functools.cache(str)  # of a data type: NumPy takes microseconds to tell it


class _Shapes:
    """Runs with inputs of one set of shapes."""

    def __init__(self) -> None:
        self.runs = self.last = 0
        self.recent: deque[int] = deque(maxlen=OFTEN)  # when the last of them were, counted in runs of the model
        self.lock = threading.Lock()
        self.program: Program | None = None
        self.make: Callable[..., Program] | None = None  # compiles it
        self.when = Beside(0, 0)  # runs after which that is begun beside them, and the program takes over
        self.made: Future | None = None


class Executables:
    """What all clones of a predictor share."""

    def __init__(self, model: Model, device: Any, compiles: bool, when: str = COMPILING[0]):
        self.model, self.device, self.compiles, self.when = model, device, compiles, when
        self._lock = threading.Lock()
        self._shapes: OrderedDict[Any, _Shapes] = OrderedDict()
        self._compiled: dict[Any, _Shapes] = {}
        self._clock = 0

    def run(self, arrays: list, to_host: bool = False) -> list:
        """Results, as arrays or tensors, for one array or tensor per input; `to_host`: for who reads them on the host, and
        does not give them to an accelerator again.
        """
        to_host = to_host and not self.device.is_cpu
        before = devices.use(self.device)
        try:
            shapes = self._due((_key(arrays), to_host)) if self.compiles else None
            if shapes is None:
                return self._by_engine(arrays)
            with shapes.lock:
                program = shapes.program or (self._later if self.when == "beside" else self._now)(
                    shapes, arrays, to_host
                )
            return program(arrays)
        finally:
            devices.use(before)

    def prepare(self, arrays: list) -> None:
        """Compile for inputs like these now, whatever came before, to be read on the host; no more than a model may have."""
        key = (_key(arrays), not self.device.is_cpu)
        with self._lock:
            if key not in self._compiled and len(self._compiled) < MOST:
                found = self._shapes.setdefault(key, _Shapes())
                self._compiled[key], found.last = found, self._clock
        self.run(arrays, to_host=True)

    def _due(self, key: Any) -> _Shapes | None:
        """The shapes of a run where a program is there or due."""
        with self._lock:
            self._clock += 1
            found = self._shapes.get(key)
            if found is None:
                found = self._shapes[key] = _Shapes()
                if len(self._shapes) > MOST_SHAPES:
                    self._shapes.pop(next(each for each in self._shapes if each not in self._compiled))
            self._shapes.move_to_end(key)
            found.runs, found.last = found.runs + 1, self._clock
            found.recent.append(self._clock)
            if key in self._compiled:
                return found
            if self._compiled and self.when == "first" and not self._is_busy(found):
                return None
            if self.when == "beside" and found.runs < LOOK:
                return None
            if len(self._compiled) >= MOST:
                oldest = min(self._compiled, key=lambda each: self._compiled[each].last)
                if self._clock - self._compiled[oldest].last < RESTING:
                    return None
                self._shapes.pop(oldest)
                self._compiled.pop(oldest)
            self._compiled[key] = found
            return found

    def _is_busy(self, shapes: _Shapes) -> bool:
        """Whether shapes have come often lately: of a thousand that come at random none is worth a compile."""
        recent = shapes.recent
        return len(recent) == OFTEN and self._clock - recent[0] < OFTEN * SHARE

    def _now(self, shapes: _Shapes, arrays: list, to_host: bool) -> Program:
        """A program, waited for."""
        make, _ = self._captured(arrays, to_host)
        shapes.program = self._by_engine if make is None else make()
        return shapes.program

    def _later(self, shapes: _Shapes, arrays: list, to_host: bool) -> Program:
        """What makes this run: a program if it is time for one, which waits for the compiler only if that took longer than
        all runs since it was begun."""
        if shapes.made is None and shapes.make is None:
            shapes.make, work = self._captured(arrays, to_host)
            if shapes.make is None:
                shapes.program = self._by_engine
                return shapes.program
            runs = max(math.ceil(COMPILE_CALL * len(self.model.plan().steps) / work), LOOK)
            shapes.when = Beside(runs, 2 * runs)
        if shapes.make is not None and shapes.runs >= shapes.when.begin:
            make, shapes.make = shapes.make, None
            shapes.made = workers.submit(lambda: make(between=beside_runs.between), aside=True)
        if shapes.made is None or shapes.runs < shapes.when.due:
            return self._by_engine
        shapes.program = shapes.made.result()
        return shapes.program

    def _by_engine(self, arrays: list) -> list:
        with no_grad():
            given = [a if isinstance(a, Tensor) else Tensor(a) for a in arrays]
            return list(self.model.run(*given))

    def _captured(self, arrays: list, to_host: bool) -> tuple[Callable[..., Program] | None, float]:
        """What compiles a program for inputs like these, and microseconds that the engine takes for it; None where it would
        cover little. What depends on values, and all after it, is left to the engine.
        """
        steps = self.model.plan().steps
        count = len(steps)
        with suspended(), no_grad(), capture() as captured:
            env: dict[Symbol, Any] = {
                s: wrap(captured.input(tuple(a.shape), dtypes.of(a.dtype, "inputs")))
                for s, a in zip(self.model.inputs, arrays, strict=True)
            }
            for i, step in enumerate(steps):
                try:
                    running.make([step], env, lambda t: t)
                except RuntimeError as e:
                    if not needs_value(e):
                        raise
                    count = i
                    break
            if HALF * count < len(steps):
                return None, 0.0
            outs = [env[x] if isinstance(x, Symbol) else x for x in self.model.outputs] if count == len(steps) else []
            names = [] if count == len(steps) else [s for s, t in env.items() if isinstance(t, Tensor)]
            outs += [env[s] for s in names]
            others = {s: x for s, x in env.items() if not isinstance(x, Tensor)}
            found = captured.finish([t._value for t in outs])

        def make(**options: Any) -> Program:
            run = found.compiled(to_host=to_host and count == len(steps), **options)
            if count == len(steps):
                return lambda given: run([_array(x, self.device) for x in given])

            def both(given: list) -> list:
                arrays = run([_array(x, self.device) for x in given])
                made = {s: _tensor(a, self.device) for s, a in zip(names, arrays, strict=True)}
                left: dict[Symbol, Any] = {**others, **made}
                with suspended(), no_grad():
                    running.make(steps[count:], left, lambda t: t)
                return [left[x] if isinstance(x, Symbol) else x for x in self.model.outputs]

            return both

        return make, max(found.graph.work, 1.0)


def _key(arrays: list) -> Any:
    return tuple([(tuple(a.shape), _name(a.dtype)) for a in arrays])


def _array(x: Any, device: Any) -> Any:
    """What a program takes: an array of the host, or the one that a tensor has. A tensor of an accelerator whose numbers are
    still on the host has them there from now on, as after any other use.
    """
    if not isinstance(x, Tensor):
        return x
    value = read(x)
    array = flush.force(value)
    if isinstance(array, np.ndarray) and not device.is_cpu and value.device == device:
        array = value.array = xla.put(array, device)
    return array


def _tensor(array: Any, device: Any) -> Tensor:
    return wrap(Value(sig_of(tuple(array.shape), dtypes.of(array.dtype, "results")), array, device))


def as_tensor(x: Any, device: Any) -> Tensor:
    """A result as a tensor."""
    return x if isinstance(x, Tensor) else _tensor(x, device)


def as_array(x: Any) -> np.ndarray:
    """A result as an array of its own on the host."""
    return x.numpy() if isinstance(x, Tensor) else np.array(x)
