"""Where the random order of samples comes from, and how a place in it is kept."""

from __future__ import annotations

import random as python_random
import sys
from typing import Any

import numpy as np

from bireme.core.base import random_state
from bireme.core.base.random_state import Generator


def draws(generator: Any = None) -> Any:
    """NumPy's legacy generator that an epoch draws its order from.

    That is NumPy's global one, as in Paddle: `np.random.seed` gives the very order that Paddle gives. Where only the
    framework's `seed` was called, it starts from the framework's stream, so that `seed` alone makes runs repeat.
    """
    if isinstance(generator, Generator):
        return np.random.RandomState(generator.random() & 0xFFFFFFFF)
    if isinstance(generator, (np.random.Generator, np.random.RandomState)):
        return generator
    if random_state.was_seeded() and not numpy_was_seeded():
        return np.random.RandomState(random_state.default_generator().random() & 0xFFFFFFFF)
    return np.random


class _Resumed:
    numpy_was_seeded = False  # in the run whose place in an epoch was restored here


def numpy_was_seeded() -> bool:
    """Whether somebody called `np.random.seed`: a state that came from the system's entropy knows its seed sequence."""
    return _Resumed.numpy_was_seeded or np.random.get_bit_generator().seed_seq is None


def draw_seed() -> int:
    """A seed for the workers of an epoch, from the same source."""
    return int(draws().randint(0, sys.maxsize))


def snapshot() -> dict[str, Any]:
    """Where every stream is that an order may be drawn from: the framework's, NumPy's and Python's, as plain arrays and numbers."""
    _, words, place, has_gauss, gauss = np.random.get_state()  # noqa: NPY002 - samplers draw from the global generator, as Paddle's do
    version, state, normal = python_random.getstate()
    return {
        "framework": [str(n) for n in random_state.default_generator().get_state()],  # 64 bits do not fit every file format's integers
        "numpy": [np.array(words), int(place), int(has_gauss), float(gauss)],
        "python": [version, np.array(state, np.uint32), normal],
        "numpy_was_seeded": numpy_was_seeded(),
    }


def restore(state: dict[str, Any]) -> None:
    """Go back to a `snapshot`."""
    random_state.default_generator().set_state(tuple(int(n) for n in state["framework"]))
    words, place, has_gauss, gauss = state["numpy"]
    np.random.set_state(("MT19937", np.asarray(words, np.uint32), int(place), int(has_gauss), float(gauss)))  # noqa: NPY002 - as above
    version, numbers, normal = state["python"]
    _Resumed.numpy_was_seeded = bool(state.get("numpy_was_seeded"))
    python_random.setstate((int(version), tuple(int(n) for n in np.asarray(numbers)), normal))
