"""Graphs that differ in sizes alone: their integers as vectors, and how these follow from a few parameters.

Calls of the same operators on other shapes have the same skeleton, and differ in integers: sizes of leaves, and attributes
such as the shape of a reshape or the bounds of a slice. From three such graphs it is learned how they follow from one or
two sizes, and the graph at any others can be made without recording it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bireme.core.graph.bound import Bound, GradBound, bounded
from bireme.core.graph.graph import Graph, Sig, sig_of

MOST_PARAMS = 2


class Extent(NamedTuple):
    """An integer that follows from a parameter: `times` its value `plus` something, `over` what a window moves by."""

    param: int
    times: int
    plus: int
    over: int = 1

    def at(self, values: Sequence[Any]) -> Any:
        found = values[self.param] * self.times + self.plus
        return found if self.over == 1 else found // self.over

    def rest(self, values: Sequence[int]) -> int:
        """What rounding down leaves out."""
        return (values[self.param] * self.times + self.plus) % self.over

    def moved(self, plus: int, by: int) -> Extent:
        """This with something added, divided by the step of a window and rounded down."""
        times, plus, over = self.times, self.plus + plus * self.over, self.over * by
        same = math.gcd(times, over)  # rounding down twice is rounding down once
        return Extent(self.param, times // same, plus // same, over // same)


class Integers(NamedTuple):
    """All integers of a graph in order, and everything else that it is made of."""

    numbers: tuple[int, ...]
    rest: tuple[Any, ...]


_of_bound: dict[Any, Integers] = {}


def integers(graph: Graph) -> Integers:
    """What a graph is made of beside its skeleton."""
    numbers: list[int] = []
    rest: list[Any] = []
    for sig in graph.leaf_sigs:
        _take(sig, numbers, rest)
    for node in graph.nodes:
        found = _of_bound.get(node.bound) or _integers_of(node.bound)
        numbers += found.numbers
        rest += found.rest
    return Integers(tuple(numbers), tuple(rest))


def _integers_of(bound: Any) -> Integers:
    found = _of_bound.get(bound)
    if found is None:
        numbers: list[int] = []
        rest: list[Any] = []
        _take(bound, numbers, rest)
        found = bounded(_of_bound, 1 << 13)[bound] = Integers(tuple(numbers), tuple(rest))
    return found


def _take(x: Any, numbers: list[int], rest: list[Any]) -> None:
    kind = x.__class__
    if kind is int:
        numbers.append(x)
    elif kind is tuple or kind is list:
        rest.append((kind, len(x)))
        for part in x:
            _take(part, numbers, rest)
    elif kind is Sig:
        rest.append(x.kind)
        numbers += x.shape
    elif kind is Bound:
        rest.append((x.op, x.layout))
        _take(x.attrs, numbers, rest)
    elif kind is GradBound:
        base = _integers_of(x.base)
        numbers += base.numbers
        rest += ((x.given, x.needs), *base.rest, len(x.sigs))
        for sig in (*x.sigs, *x.outs):
            rest.append(sig.kind)
            numbers += sig.shape
    elif kind is float:
        rest.append(repr(x))  # nan is nan, and -0.0 is not 0.0
    else:
        rest.append((kind, x))


def rebuilt(x: Any, numbers: Iterator[int]) -> Any:
    """The same thing with other integers."""
    kind = x.__class__
    if kind is int:
        return next(numbers)
    if kind is tuple or kind is list:
        return kind([rebuilt(part, numbers) for part in x])
    if kind is Sig:
        return sig_of(tuple([next(numbers) for _ in x.shape]), x.dtype)
    if kind is Bound:
        return x.op.bind(x.layout, rebuilt(x.attrs, numbers))
    if kind is GradBound:
        base = rebuilt(x.base, numbers)
        sigs, outs = rebuilt((x.sigs, x.outs), numbers)
        return base.grad_bound(x.given, x.needs, sigs, outs)
    return x


class Varying:
    """How the integers of graphs of one skeleton follow from their parameters."""

    def __init__(self, samples: Sequence[Integers]):
        """Of three or more such graphs; raises ValueError where they do not follow."""
        first = samples[0]
        if any(len(s.numbers) != len(first.numbers) or s.rest != first.rest for s in samples):
            raise ValueError("graphs that differ in more than integers")
        self._rest, self._same = first.rest, first.numbers
        columns = list(zip(*[s.numbers for s in samples]))
        changing = [i for i, column in enumerate(columns) if len(set(column)) > 1]
        # the smallest change first, of which others are multiples; sizes of leaves before what was made of them
        changing.sort(key=lambda i: (max(columns[i]) - min(columns[i]), i))
        self.params: list[int] = []
        self.extents: dict[int, Extent] = {}
        for i in changing:
            extent = self._follows(columns, i)
            if extent is None:
                if len(self.params) == MOST_PARAMS:
                    raise ValueError("sizes that follow from nothing")
                extent = Extent(len(self.params), 1, 0)
                self.params.append(i)
            self.extents[i] = extent

    @property
    def constants(self) -> set[int]:
        """The integers that do not change."""
        return {x for i, x in enumerate(self._same) if i not in self.extents}

    def _follows(self, columns: list[tuple[int, ...]], i: int) -> Extent | None:
        column = columns[i]
        for k, param in enumerate(self.params):
            base = columns[param]
            a, b = next((a, b) for a in range(len(base)) for b in range(a) if base[a] != base[b])
            times, left = divmod(column[a] - column[b], base[a] - base[b])
            found = Extent(k, times, column[a] - times * base[a])
            if not left and times and all(found.at([p] * (k + 1)) == x for p, x in zip(base, column)):
                return found
        return None

    def values(self, found: Integers) -> tuple[int, ...] | None:
        """The parameters of a graph; None where it does not follow from them."""
        if found.rest != self._rest or len(found.numbers) != len(self._same):
            return None
        values = tuple([found.numbers[i] for i in self.params])
        return values if found.numbers == tuple(self.at(values)) else None

    def at(self, values: Sequence[int]) -> Iterator[int]:
        """All integers for some values of the parameters."""
        numbers = list(self._same)
        for i, (param, times, plus, _) in self.extents.items():  # a million times: no call
            numbers[i] = values[param] * times + plus
        return iter(numbers)
