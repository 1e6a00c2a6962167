"""Operands that nobody needs any more, written over instead of copied: a loop that writes row after row into one tensor
copies it once, not in every round.

A form that changes a few elements of an operand takes it by `own`, after it has read all else, and says so by
`overwrites`. The interpreter knows which operands nobody reads afterwards, and looks whether anything else has their memory.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Form = TypeVar("Form", bound=Callable)


class _Given(threading.local):
    arrays: tuple[np.ndarray, ...] = ()  # that the form which runs may write over


_given = _Given()


def overwrites(form: Form) -> Form:
    """Mark a NumPy form that takes an operand by `own`, and reads nothing of it afterwards."""
    form.overwrites = True  # type: ignore[attr-defined]  # a function takes any name
    return form


def may_overwrite(bound: Any) -> bool:
    """Whether the NumPy form of a call, or of a gradient, says so."""
    form = bound.base.op.grad_numpy if bound.is_gradient else bound.op.numpy_form
    return getattr(form, "overwrites", False)


def own(x: np.ndarray) -> np.ndarray:
    """An array with these elements that the form may change: a copy, or the operand itself."""
    for given in _given.arrays:
        if x is given or (x.base is given and x.size == given.size and x.flags.c_contiguous):
            return x
    return np.array(x, order="C")


def dying(args: tuple[int, ...], free: tuple[int, ...], values: int) -> tuple[int, ...]:
    """The places among a call's operands of those that nobody reads after it; leaves and numbers stand elsewhere than the
    `values` that calls have made.
    """
    return tuple([k for k, r in enumerate(args) if 0 <= r < values and r in free and args.count(r) == 1])


def _taken(env: list, r: int) -> tuple[Any, int]:
    """A value that the environment lets go of, and how many have it. Of a view of a whole array, that array."""
    x, env[r] = env[r], None
    count = sys.getrefcount(x)
    if count == ALONE and x.__class__ is np.ndarray and _alike(x, x.base):
        x = x.base
        count = sys.getrefcount(x)
    return x, count


def _alike(x: Any, whole: Any) -> bool:
    """Whether two arrays, of which one is a view of the other, have the same elements in the same places."""
    return (
        whole.__class__ is np.ndarray
        and whole.base is None
        and x.shape == whole.shape
        and x.dtype == whole.dtype
        and x.flags.c_contiguous
        and whole.flags.c_contiguous
    )


ALONE = 0
ALONE = _taken([np.empty(1)], 0)[1]  # nobody else has it; versions of Python count differently


class Over:
    """A form that takes its operands from the environment itself, where nobody reads some of them afterwards."""

    __slots__ = ("args", "form", "places")

    def __init__(self, form: Callable, args: tuple[int, ...], places: tuple[int, ...]):
        self.form, self.args, self.places = form, args, places

    def __call__(self, env: list) -> Any:
        given, kept = [], {}
        for k in self.places:
            x, count = _taken(env, self.args[k])
            kept[k] = x
            if count == ALONE and x.__class__ is np.ndarray and x.base is None:
                flags = x.flags
                if flags.c_contiguous and flags.writeable:
                    given.append(x)
        taken = [kept[k] if k in kept else env[r] for k, r in enumerate(self.args)]
        if not given:
            return self.form(*taken)
        before, _given.arrays = _given.arrays, tuple(given)
        try:
            return self.form(*taken)
        finally:
            _given.arrays = before


def environment(env: list) -> tuple[list]:
    """What `Over` is called with."""
    return (env,)
