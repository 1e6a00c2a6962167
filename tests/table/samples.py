"""Sample makers: they own the awkward cases, so that a row adds only what is special to its operator."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from tests.table.harness import Sample, call

NONFINITE = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]


def floats(*shape: int, low: float = -3, high: float = 3, seed: int = 0) -> np.ndarray:
    """Random numbers that are no ties, neither of each other nor of their neighbours' limits."""
    rng = np.random.default_rng([seed, zlib.crc32(repr((shape, low, high)).encode())])
    return rng.uniform(low, high, shape)


def ints(*shape: int, low: int = 0, high: int = 5, dtype: Any = np.int64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape, 77])
    return rng.integers(low, high, shape).astype(dtype)


def unary(low: float = -3, high: float = 3, nonfinite: bool = True) -> list[Sample]:
    """One operand: a matrix, 3 axes, 0-d, without elements, with NaN and infinities."""
    shapes: list[tuple[int, ...]] = [(2, 3), (2, 1, 3), (), (0,), (2, 0, 3), (1,)]
    found = [call(floats(*s, low=low, high=high)) for s in shapes]
    return [*found, call(np.array(NONFINITE))] if nonfinite else found


PAIRS: list[tuple[tuple, tuple]] = [
    ((2, 3), (2, 3)), ((2, 1), (3,)), ((3,), (2, 1)), ((2, 3), ()), ((), ()), ((0,), (1,)), ((2, 0, 3), (3,)), ((1, 1), (1,)),
]  # fmt: skip


def broadcasting(n: int = 2, low: float = -3, high: float = 3, low_y: Any = None, nonfinite: bool = True) -> list[Sample]:
    """Operands that broadcast to each other; the first has the given range, the others too unless `low_y` says more."""
    found = []
    for pair in PAIRS:
        shapes = [pair[i % 2] for i in range(n)]
        lows = [low] + [low if low_y is None else low_y] * (n - 1)
        found.append(call(*[floats(*s, low=lo, high=high, seed=i) for i, (s, lo) in enumerate(zip(shapes, lows, strict=True))]))
    if nonfinite:
        grids = np.meshgrid(*[NONFINITE] * 2)
        found.append(call(*[grids[i % 2].ravel().copy() for i in range(n)]))
    return found


def with_number(samples: list[Sample], *numbers: Any) -> list[Sample]:
    """And with Python numbers as the second operand."""
    return [*samples, *[call(samples[0].args[0], n) for n in numbers]]


def reduction(low: float = -3, high: float = 3, ties: bool = False, empty: bool = True, nonfinite: bool = True, many: bool = True,
              keepdim: bool = True) -> list[Sample]:  # fmt: skip
    """Over everything, along one axis from either end, along several, with the axis kept; 0-d and without elements."""
    x = floats(2, 3, low=low, high=high)
    cube = floats(2, 3, 2, low=low, high=high)
    keep = {"keepdim": True} if keepdim else {}
    found = [call(x), call(x, axis=0), call(cube, axis=-1, **keep), call(floats(low=low, high=high)), call(floats(1, low=low, high=high), axis=-1)]
    if many:
        found += [call(cube, axis=[0, -1]), call(cube, axis=(1,), **keep)]
        found += [call(x, axis=[])]
    if keepdim:
        found += [call(x, **keep)]
    none = [call(np.zeros((2, 0, 3)), axis=0), call(np.zeros((2, 0, 3)), axis=-1)]
    found += [call(np.zeros(0)), call(np.zeros((2, 0, 3)), axis=1), *none] if empty else none
    if ties:
        found.append(call(np.array([[1.0, 2.0, 2.0], [2.0, 2.0, 1.0]]), axis=1))
    if nonfinite:
        found.append(call(np.array([[np.nan, 1.0, 2.0], [np.inf, 1.0, 2.0], [-np.inf, np.inf, 0.0]]), axis=1))
    return found


def masked() -> list[Sample]:
    """An operand and a mask: all, some, none, broadcast, 0-d, without elements."""
    x = floats(2, 3)
    return [
        call(x, x > 0),
        call(x, np.array([True, False, True])),
        call(x, np.zeros((2, 3), bool)),
        call(floats(), np.array(True)),
        call(np.zeros(0), np.zeros(0, bool)),
        call(np.zeros((2, 0, 3)), np.zeros((2, 0, 3), bool)),
        call(np.array(NONFINITE), np.array([True, True, True, False, True, False])),
    ]


def filled(*more: Any, **kwargs: Any) -> list[Sample]:
    """Operands of all awkward shapes with the same further arguments."""
    return [Sample((s.args[0], *more), kwargs) for s in unary()]
