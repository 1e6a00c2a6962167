"""Captured graphs: a recording with symbolic inputs that is run as often as somebody likes, by any executor."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from bireme.core.base import errors, shutdown
from bireme.core.graph import executor
from bireme.core.graph.graph import Graph, Value
from bireme.core.run import lookup
from bireme.core.xla_exec import xla
from bireme.core.xla_exec.lowering import Loop


class Captured:
    """A captured graph that can be run: symbolic inputs became leaves, everything else it read is kept as it was."""

    def __init__(self, graph: Graph, inputs: list[Value], outputs: list[Value], seg: Any):
        self.graph = graph
        self.inputs = [v.leaf if v.leaf_of is seg else None for v in inputs]
        self._sigs = [v.sig for v in inputs]
        self._leaves, self._numbers = list(seg.arrays), list(seg.numbers)
        self._values = list(seg.leaves)  # weak references to what the leaves are arrays of
        # an output is a value of the graph, an input handed on as it is, or an array that was there before
        places = {id(v): i for i, v in enumerate(inputs)}
        self._outputs = [
            v.index if v.segment is seg else ("input", places[id(v)]) if id(v) in places else ("array", v.array)
            for v in outputs
        ]
        for array in (*self._leaves, *[i[1] for i in self._outputs if isinstance(i, tuple) and i[0] == "array"]):
            if array is not None:
                lookup.pin(array)  # tensors that it belongs to may let go of it

    def run(self, arrays: list, by: str = "xla") -> list:
        """Run with one array per input, of its shape and dtype."""
        if len(arrays) != len(self.inputs):
            raise errors.bad("run(arrays)", f"{len(self.inputs)} arrays, one for each input", len(arrays))
        for i, (sig, a) in enumerate(zip(self._sigs, arrays)):
            if tuple(a.shape) != sig.shape or a.dtype != sig.dtype.np:
                raise errors.bad(f"run(arrays[{i}])", f"{sig}", described=f"{a.dtype}{list(a.shape)}")
        leaves = list(self._leaves)
        for leaf, array in zip(self.inputs, arrays):
            if leaf is not None:
                leaves[leaf] = array
        live = tuple(sorted({i for i in self._outputs if isinstance(i, int)}))
        results = {}
        if live:
            results = dict(zip(live, shutdown.within(self._call, live, leaves, by)))
        return [results[i] if isinstance(i, int) else arrays[i[1]] if i[0] == "input" else i[1] for i in self._outputs]

    def compiled(
        self,
        donate: Sequence[int] = (),
        *,
        between: Any = contextlib.nullcontext,
        times: int = 1,
        carried: Mapping[int, int] | None = None,
        to_host: bool = False,
    ) -> Callable[[list], list]:
        """A compiled program of it, found on disk or made now: it takes an array per input, from any thread. Arrays of
        the inputs that are donated are gone after a call. `between` is entered while it is lowered.

        With `times` one call runs it so often: an output that is `carried` becomes its input for the next time, and is
        given as it is at the end; of the others all are given, along a new first axis. `to_host`: outputs will be read on
        the host.
        """
        live = tuple(sorted({i for i in self._outputs if isinstance(i, int)}))
        leaves, vectors = self._placed(), self.graph.pack(self._numbers)
        fill = [(leaf, i) for i, leaf in enumerate(self.inputs) if leaf is not None]
        given_away = tuple(sorted(leaf for i in donate if (leaf := self.inputs[i]) is not None))
        loop = None
        if times > 1:
            leaves_of = {i: leaf for leaf, i in fill}
            pairs = [(live.index(self._outputs[o]), leaves_of[i]) for o, i in (carried or {}).items()]
            loop = Loop(times, tuple(pairs))
        changing = {*given_away, *[leaf for leaf, _ in fill]}
        fixed = {i: a for i, a in enumerate(leaves) if i not in changing and a is not None}
        call = None
        if live:
            call = xla.repeated(
                self.graph, live, vectors, given_away, fixed, between=between, loop=loop, to_host=to_host
            )

        def run(arrays: list) -> list:
            given = list(leaves)
            for leaf, i in fill:
                given[leaf] = arrays[i]
            results = {} if call is None else dict(zip(live, shutdown.within(call, given)))
            return [
                results[i] if isinstance(i, int) else arrays[i[1]] if i[0] == "input" else i[1] for i in self._outputs
            ]

        return run

    def _placed(self) -> list:
        """Its leaves on the device. What they belong to has the same array from now on, so that other graphs share it."""
        leaves = list(self._leaves)
        for i, array in enumerate(leaves):
            if isinstance(array, np.ndarray):
                value = self._values[i]()
                if value is None:
                    leaves[i] = xla.put(array, self.graph.device)
                else:
                    if isinstance(value.array, np.ndarray):
                        value.array = xla.put(array, self.graph.device)
                    leaves[i] = value.array
        return leaves

    def _call(self, live: tuple[int, ...], leaves: list, by: str) -> list:
        call = executor.find(by).prepare(self.graph, live, (), self.graph.device)
        vectors = self.graph.pack(self._numbers)
        if by not in lookup.BY_XLA:
            return call(leaves, vectors)
        with jax.default_device(self.graph.device.jax):
            return xla.call_prepared(call, leaves, vectors)
