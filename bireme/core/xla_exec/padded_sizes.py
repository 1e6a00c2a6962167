"""Sizes of padded arrays: what is valid of a dimension, and how numbers of a call follow from a few parameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from bireme.core.graph.varying import Extent

LARGEST_PLUS = 8  # what is added to a multiple of a parameter, at most: else a product of two would pass for one
SMALLEST = 3  # a parameter in the sizes that are compared

# by a call at other sizes
NOT_MADE = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Refused(Exception):
    """A call of which it cannot be shown that padding changes nothing."""


class Disagree(Exception):
    """What two sets of sizes say of a call is not so at a third one."""


class Dim(NamedTuple):
    """A dimension with padding: factors as (size, Extent of its valid part or None), the last changes fastest.

    `uniform`: all its elements are equal, so it may be taken for any other dimension of its size.
    """

    factors: tuple[tuple[int, Extent | None], ...]
    uniform: bool = False

    @property
    def prefix(self) -> Extent:
        """Its valid part, where that is its beginning."""
        if len(self.factors) != 1 or self.factors[0][1] is None:
            raise Refused("rows of several sizes in one dimension")
        return self.factors[0][1]

    def valid(self, values: Sequence[int]) -> int:
        """How many of its elements are valid."""
        return math.prod([n if extent is None else extent.at(values) for n, extent in self.factors])


Dims = tuple[Dim | None, ...]


def joined(factors: tuple[tuple[int, Extent | None], ...]) -> tuple[tuple[int, Extent | None], ...]:
    """The same with whole factors as parts of those before them: the first three of five pairs are the first six of ten."""
    found: list[tuple[int, Extent | None]] = []
    for n, extent in factors:
        if extent is None and found and ((before := found[-1][1]) is None or before.over == 1):
            size, before = found.pop()
            found.append((size * n, before and Extent(before.param, before.times * n, before.plus * n)))
        else:
            found.append((n, extent))
    return tuple(found)


def varied(dim: Dim | None) -> Dim | None:
    """The same where its elements may differ."""
    return None if dim is None else Dim(dim.factors)


def must_begin(dim: Dim | None) -> None:
    """Refuse what is valid elsewhere than at its beginning, where a place in it is counted."""
    if dim is not None:
        dim.prefix  # noqa: B018 - read for its error


class Fit:
    """How numbers that differ between two sets of sizes follow from the parameters; `said` are all answers, in order.

    `known` are sizes of what a call takes, and of what was made of it on the way, which may be fractions.
    """

    def __init__(self, padded: Sequence[int], other: Sequence[int]):
        self.padded, self.other = tuple(padded), tuple(other)
        self.said: list[Any] = []
        self.known: list[Extent] = []
        if any(a == b or min(a, b) < SMALLEST for a, b in zip(self.padded, self.other)):
            raise Refused("sizes that cannot be told apart")

    def extent(self, padded: int, other: int) -> Extent | None:
        """The Extent of a size or place; None where it does not change."""
        if padded == other:
            self.said.append(None)
            return None
        found = []
        for i, (a, b) in enumerate(zip(self.padded, self.other)):
            times, rest = divmod(padded - other, a - b)
            plus = padded - times * a
            if not rest and ((times > 0 and abs(plus) <= LARGEST_PLUS) or times == -1):
                found.append(Extent(i, times, plus))
        if len(found) != 1:
            found = self._near(padded, other)
        if len(found) != 1:
            raise Refused(f"a size of {padded} where another was {other}")
        self.said.append(found[0])
        return found[0]

    def _near(self, padded: int, other: int) -> list[Extent]:
        """A known size, or one that differs from it by little."""
        for e in self.known:
            plus = padded - e.at(self.padded)
            if plus == other - e.at(self.other) and abs(plus) <= LARGEST_PLUS:
                return [e.moved(plus, 1)]
        return []

    def _is(self, extent: Extent, padded: int, other: int) -> bool:
        return (extent.at(self.padded), extent.at(self.other)) == (padded, other)

    def follows(self, extent: Extent, padded: int, other: int) -> Extent:
        """The Extent of a size of which it is known how it follows."""
        if not self._is(extent, padded, other):
            raise Refused(f"a size of {padded} where another was {other}, not as a window moves")
        self.said.append(extent)
        if extent not in self.known:
            self.known.append(extent)
        return extent

    def product(self, padded: int, other: int) -> tuple[int, tuple[Extent, ...]] | None:
        """A number as a multiple of one or two known sizes, as that of the elements of an image; None for any other."""
        sizes = list(dict.fromkeys(self.known))
        for some in (*[(e,) for e in sizes], *itertools.combinations_with_replacement(sizes, 2)):
            a, b = [math.prod([e.at(values) for e in some]) for values in (self.padded, self.other)]
            if a > 0 and b > 0 and padded % a == 0 and other % b == 0 and padded // a == other // b:
                self.said.append((padded // a, some))
                return padded // a, some
        return None

    def dim(self, padded: int, other: int, uniform: bool = False) -> Dim | None:
        """A dimension of these sizes, valid at its beginning."""
        found = self.extent(padded, other)
        if found is not None and found.times < 0:  # more of it would be valid than there is
            raise Refused("a size that shrinks as another grows")
        return None if found is None else Dim(((padded, found),), uniform)
