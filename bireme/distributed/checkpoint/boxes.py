"""Boxes: blocks of a logical tensor, how they overlap, and how a range of flattened numbers is cut into some."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Ints = tuple[int, ...]


class Box(NamedTuple):
    """A block of a tensor; its numbers stand one after the other in an array, from number ``at``."""

    offset: Ints
    shape: Ints
    at: int = 0

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def moved(box: Box, offset: Sequence[int]) -> Box:
    """The box as a block of a larger tensor, in which its own begins at an offset."""
    return box._replace(offset=tuple([a + b for a, b in zip(offset, box.offset)]))


def of_range(shape: Ints, start: int, stop: int) -> list[Box]:
    """The boxes that the numbers from ``start`` to ``stop`` of a flattened block make up, in their order."""
    found: list[Box] = []
    at = 0
    for offset, size in _cut(shape, start, stop):
        found.append(Box(offset, size, at))
        at += found[-1].size
    return found


def _cut(shape: Ints, start: int, stop: int) -> Iterator[tuple[Ints, Ints]]:
    if start >= stop:
        return
    if len(shape) < 2:
        yield ((start,), (stop - start,)) if shape else ((), ())
        return
    rest = shape[1:]
    row = math.prod(rest)
    (first, lead), (last, tail) = divmod(start, row), divmod(stop, row)
    if first == last:
        yield from _in_row(first, rest, lead, tail)
        return
    if lead:
        yield from _in_row(first, rest, lead, row)
        first += 1
    if first < last:
        yield (first, *[0] * len(rest)), (last - first, *rest)
    yield from _in_row(last, rest, 0, tail)


def _in_row(i: int, shape: Ints, start: int, stop: int) -> Iterator[tuple[Ints, Ints]]:
    for offset, size in _cut(shape, start, stop):
        yield (i, *offset), (1, *size)


def common(a: Box, b: Box) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Where two boxes overlap, as indices into each; None if they do not."""
    here, there = [], []
    for x, n, y, m in zip(a.offset, a.shape, b.offset, b.shape):
        start, stop = max(x, y), min(x + n, y + m)
        if start >= stop:
            return None
        here.append(slice(start - x, stop - x))
        there.append(slice(start - y, stop - y))
    return tuple(here), tuple(there)


def overlapping(boxes: Sequence[Box]) -> tuple[Box, Box] | None:
    """Two of the boxes that have numbers in common, if there are any.

    Boxes are looked at in their order along the axis with the most cuts, so that few are compared with each other.
    """
    boxes = [box for box in boxes if box.size]
    if len(boxes) < 2:
        return None
    if not boxes[0].offset:
        return boxes[0], boxes[1]
    axis = max(range(len(boxes[0].offset)), key=lambda i: len({box.offset[i] for box in boxes}))
    open_: list[Box] = []
    for box in sorted(boxes, key=lambda box: box.offset[axis]):
        open_ = [other for other in open_ if other.offset[axis] + other.shape[axis] > box.offset[axis]]
        for other in open_:
            if common(other, box) is not None:
                return other, box
        open_.append(box)
    return None
