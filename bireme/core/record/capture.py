"""Capturing calls as a Graph of their own, with symbolic inputs: what a static graph is made of."""

from __future__ import annotations

from typing import Any

from bireme.core.base import device as devices
from bireme.core.graph.graph import SYMBOLIC, Graph, Value, sig_of
from bireme.core.graph.segment import Segment, announce, local, reads_again
from bireme.core.record import flush, guards
from bireme.core.run.captured import Captured


class capture:
    """Record calls into a Graph of their own, with symbolic inputs, instead of this thread's segment.

    with capture() as g:
        out = op(g.input(shape, dtype))
    graph = g.finish([out])
    """

    def __enter__(self) -> capture:
        self._outer = local.segment
        self.segment = local.segment = Segment(symbolic=True)
        self.segment.device = devices.current()
        announce(self.segment)  # what it reads is not donated by what runs meanwhile
        self.inputs: list[Value] = []
        return self

    def input(self, shape: tuple[int, ...], dtype: Any) -> Value:
        """A symbolic input: a leaf of the graph without an array."""
        v = Value(sig_of(tuple(shape), dtype), None, self.segment.device)
        v.marks = SYMBOLIC
        self.inputs.append(v)
        return v

    def __exit__(self, *exc) -> None:
        local.segment = self._outer
        reads_again(self._outer)

    def finish(self, outputs: list[Value]) -> Captured:
        """The captured graph as a callable object: `run(arrays) -> arrays`."""
        seg = self.segment
        for v in outputs:
            if v.segment is not seg and v.marks != SYMBOLIC:
                flush.force(v)  # computed outside, perhaps still pending there
                guards.check_value(v, wait=True)
        return Captured(Graph(seg.state, seg.device), self.inputs, outputs, seg)


def needs_value(e: RuntimeError) -> bool:
    """Whether a call failed because it looks at values, which a graph that is being captured does not have."""
    return "graph being captured" in str(e)
