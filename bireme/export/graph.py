"""A model at fixed sizes as a list of simple calls.

The calls are ONNX's, since every graph has a form there. Each tensor has a shape that is known. A Scan is two calls, between which
its body stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

ALIASES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout")


class Integers(NamedTuple):
    """What a weight was before it was made numbers: integers of 8 bits, and a scale for all or along an axis."""

    data: np.ndarray
    scale: np.ndarray
    axis: int


@dataclass(eq=False)
class Value:
    """A tensor of the graph; with `data` if it is known at export."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    data: np.ndarray | None = None
    integers: Integers | None = None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(eq=False)
class Call:
    """One call: what, of which values, giving which."""

    op: str
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, Any] = field(default_factory=dict)
    activation: tuple[str, float, float] | None = None  # joined to it: what, and its two numbers


class Scan(NamedTuple):
    """A loop over rows: what both of its calls know of it. All values but the first two lists are those of the body."""

    length: int
    reverse: tuple[list[int], list[int]]  # of what is read, and of what is collected
    starts: list[Value]
    sources: list[Value]
    states: list[Value]
    rows: list[Value]
    after: list[Value]
    given: list[Value]
    collected: list[Value]
    finals: list[Value | None]


@dataclass
class Graph:
    """Calls in order, with what goes in and comes out."""

    inputs: list[Value]
    outputs: list[Value]
    calls: list[Call]
