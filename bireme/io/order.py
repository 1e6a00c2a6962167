"""The generator that random orders of samples are drawn from, and how its state is saved and restored."""

from __future__ import annotations

import random as python_random
import sys
from typing import Any

import numpy as np

from bireme.core.base import random_state
from bireme.core.base.random_state import Generator


def draws(generator: Any = None) -> Any:
    """Return NumPy's legacy generator that an epoch draws its order from.

    That is NumPy's global one, as in Paddle: ``np.random.seed`` gives the order that Paddle gives. Where only Bireme's
    ``seed`` was called, it is seeded from Bireme's generator, so that ``seed`` alone makes runs reproducible.
    """
    if isinstance(generator, Generator):
        return np.random.RandomState(generator.random() & 0xFFFFFFFF)
    if isinstance(generator, (np.random.Generator, np.random.RandomState)):
        return generator
    if random_state.was_seeded() and not numpy_was_seeded():
        return np.random.RandomState(random_state.default_generator().random() & 0xFFFFFFFF)
    return np.random


class _Resumed:
    numpy_was_seeded = False  # in the run whose epoch is resumed here


def numpy_was_seeded() -> bool:
    """Return whether ``np.random.seed`` was called: a state from the system's entropy has a seed sequence."""
    random: Any = np.random  # the stubs of some versions leave this function out
    generator = random.get_bit_generator()
    return _Resumed.numpy_was_seeded or generator.seed_seq is None


def draw_seed() -> int:
    """Draw a seed for the workers of an epoch, from the same generator."""
    return int(draws().randint(0, sys.maxsize))


def snapshot() -> dict[str, Any]:
    """Return the states of Bireme's, NumPy's and Python's generators as plain data."""
    _, words, place, has_gauss, gauss = np.random.get_state()  # noqa: NPY002 - samplers draw from the global generator, as Paddle's do
    version, state, normal = python_random.getstate()
    return {
        # as text: 64 bits do not fit the integers of every file format
        "framework": [str(n) for n in random_state.default_generator().get_state()],
        "numpy": [np.array(words), int(place), int(has_gauss), float(gauss)],
        "python": [version, np.array(state, np.uint32), normal],
        "numpy_was_seeded": numpy_was_seeded(),
    }


def restore(state: dict[str, Any]) -> None:
    """Restore what ``snapshot`` returned."""
    seed, counter = (int(n) for n in state["framework"])
    random_state.default_generator().set_state((seed, counter))
    words, place, has_gauss, gauss = state["numpy"]
    np.random.set_state(("MT19937", np.asarray(words, np.uint32), int(place), int(has_gauss), float(gauss)))  # noqa: NPY002 - as above
    version, numbers, normal = state["python"]
    _Resumed.numpy_was_seeded = bool(state.get("numpy_was_seeded"))
    python_random.setstate((int(version), tuple(int(n) for n in np.asarray(numbers)), normal))
