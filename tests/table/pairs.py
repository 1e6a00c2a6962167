"""References for operators that return elements together with their places: the elements in the operand's type,
exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.table.harness import same, widen


def exact(ref: Callable, places: Any = np.int64) -> Callable:
    """A law: the results are what `ref` gives for the widened operands, the first in the operand's type, others as
    `places`.

    Without `places`, the others have the type that `ref` gives them.
    """

    def law(got: Any, x: np.ndarray, *args: Any, **kwargs: Any) -> bool:
        want = ref(widen(x), *[widen(a) if isinstance(a, np.ndarray) else a for a in args], **kwargs)
        want = want if isinstance(want, tuple) else (want,)
        got = got if isinstance(got, list) else [got]
        assert len(got) == len(want), f"{len(got)} results instead of {len(want)}"
        kind = kwargs.get("dtype") or places
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            same(g, np.asarray(w).astype((kind or np.asarray(w).dtype) if i else x.dtype), 0, f"result {i}")
        return True

    return law


def order(x: np.ndarray, axis: int = -1, descending: bool = False) -> np.ndarray:
    """Places that sort: equals in order, NaN last or, if descending, first."""
    if not x.ndim:
        return np.zeros((), np.int64)
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    n = x.shape[axis]
    return n - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)


def along(x: np.ndarray, places: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.take_along_axis(x, places, axis) if x.ndim else x


def lines(x: np.ndarray, axis: int, f: Callable) -> tuple[np.ndarray, np.ndarray]:
    """(value, place) of each line along an axis, one after the other."""
    rest = [n for i, n in enumerate(x.shape) if i != axis % x.ndim]
    values, places = np.zeros(rest, x.dtype), np.zeros(rest, np.int64)
    moved = np.moveaxis(x, axis, -1)
    for i in np.ndindex(*rest):
        values[i], places[i] = f(moved[i])
    return values, places
