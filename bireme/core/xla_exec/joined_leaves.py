"""Small leaves that are the same in every call, joined into one argument for each of their dtypes.

A call takes 2 us for each argument on CPU. A detector has some two hundred parameters, most of them biases of a few hundred
bytes: a tenth of the time that it takes for a small picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax import lax

from bireme.core.graph.graph import Graph

SMALL = 1 << 12  # bytes: a product that reads a part of an argument copies it, which must take less than the argument
FEW = 4  # leaves of a dtype that are not worth it


class Joined:
    """Which leaves of a graph are joined, for `fixed`, those that never change by their index."""

    def __init__(self, graph: Graph | None = None, fixed: Mapping[int, Any] | None = None):
        self.groups: list[list[int]] = []
        if graph is None or not graph.device.is_cpu or graph.device.several:
            return
        self._sigs = graph.leaf_sigs
        groups: dict[Any, list[int]] = {}
        for i in sorted(fixed or {}):
            sig = self._sigs[i]
            if 0 < math.prod(sig.shape) * sig.dtype.np.itemsize <= SMALL:
                groups.setdefault(sig.dtype.np, []).append(i)
        self.groups = [each for each in groups.values() if len(each) > FEW]

    def __contains__(self, leaf: int) -> bool:
        return any(leaf in each for each in self.groups)

    def __str__(self) -> str:
        return f"joined {self.groups}" if self.groups else ""

    def specs(self) -> list:
        """What the joined arguments are like."""
        return [
            jax.ShapeDtypeStruct((sum(math.prod(self._sigs[i].shape) for i in each),), self._sigs[each[0]].dtype.np)
            for each in self.groups
        ]

    def join(self, leaves: Mapping[int, Any]) -> list[np.ndarray]:
        """The joined arguments of these leaves."""
        return [np.concatenate([np.asarray(leaves[i]).reshape(-1) for i in each]) for each in self.groups]

    def before(self, fn: Callable[[list, list], list]) -> Callable[[list, list], list]:
        """A function of leaves and numbers as one that has the joined arguments after the leaves."""

        def apart(given: list, vectors: list) -> list:
            leaves = given[: len(given) - len(self.groups)]
            for each, joined in zip(self.groups, given[len(leaves) :], strict=True):
                begin = 0
                for i in each:
                    end = begin + math.prod(self._sigs[i].shape)
                    leaves[i] = lax.slice(joined, (begin,), (end,)).reshape(self._sigs[i].shape)
                    begin = end
            return fn(leaves, vectors)

        return apart if self.groups else fn


NONE = Joined()
