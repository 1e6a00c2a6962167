"""Random streams: every random operator takes the next (seed, counter) of its thread's stream, counted when recorded.

The numbers are inputs of the program, so another seed or step never compiles again, and they do not depend on where
segments are cut. The bits come from a counter-based generator (ops.random.philox).
"""

from __future__ import annotations

import itertools
import secrets
import threading
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded, guarded

_MASK = (1 << 64) - 1


def _mix(x: int) -> int:
    """splitmix64: 64 well-mixed bits of a 64-bit number."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class Generator(Guarded):
    """A random number generator: a seed and a counter.

    Args:
        seed: The seed. Default: None, one from the operating system.

    Examples:
        >>> bireme.Generator().manual_seed(7).initial_seed()
        7
    """

    def __init__(self, seed: int | None = None):
        self._start(secrets.randbits(63) if seed is None else _checked(seed, "Generator(seed)"))

    def _start(self, seed: int, count: int = 0) -> None:
        self._seed, self._count, self._mixed = seed, count, _mix(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Set the seed and restart.

        Args:
            seed: The seed, from 0 to 2**64 - 1.

        Returns:
            The generator itself.
        """
        self._start(_checked(seed))
        return self

    def initial_seed(self) -> int:
        """Return the seed that it started from."""
        return self._seed

    def seed(self) -> int:
        """Restart from a seed of the operating system, and return it."""
        self._start(secrets.randbits(63))
        return self._seed

    def random(self) -> int:
        """Return the next 64 random bits as an int."""
        _streams.drawn += 1
        self._count += 1
        return _mix(self._mixed ^ self._count)

    def get_state(self) -> tuple[int, int]:
        """Return the state, the tuple of seed and counter; nothing is computed."""
        return self._seed, self._count

    def set_state(self, state: tuple[int, int]) -> None:
        """Restore a state.

        Args:
            state: What ``get_state`` returned.
        """
        if not (isinstance(state, (tuple, list)) and len(state) == 2 and all(isinstance(i, int) for i in state)):
            raise errors.bad("set_state(state)", "what get_state returned", state, kind=errors.ArgumentTypeError)
        self._start(*state)

    def next_key(self) -> tuple[int, int]:
        """Return the next 64 random bits as two ints of 32 bits."""
        bits = self.random()
        return bits & 0xFFFFFFFF, bits >> 32


def _checked(seed: Any, where: str = "seed(seed)") -> int:
    if not isinstance(seed, (int, float, np.number)) or not 0 <= seed <= _MASK:
        raise errors.bad(where, "an integer in [0, 2**64 - 1]", seed, kind=errors.ArgumentTypeError)
    return int(seed)


_threads = itertools.count()


class _Streams(threading.local):
    """A stream per thread: the first thread's from the seed itself, others from the seed and their number."""

    def __init__(self) -> None:
        self.place = next(_threads)
        self.epoch = -1
        self.generator = Generator(0)
        self.seeded: Generator | None = None
        self.drawn = 0  # how often somebody has drawn, from whichever stream


_streams = _Streams()
_base = [secrets.randbits(63), 0]


def default_generator() -> Generator:
    """This thread's stream."""
    if _streams.epoch != _base[1]:
        _streams.epoch = _base[1]
        _streams.generator = Generator(_base[0] if _streams.place == 0 else _mix(_base[0] ^ (_streams.place << 32)))
    return _streams.generator


def next_key() -> tuple[int, int]:
    return (_streams.seeded or default_generator()).next_key()


def drawn() -> int:
    """How often this thread has drawn: whoever remembers a call looks whether all of it were keys of operators."""
    return _streams.drawn


class seeded:
    """Context manager in which keys come from a stream of their own that starts at `seed`; with 0, Paddle's word for none,
    from the usual one. A class, since each run of a program enters it.
    """

    __slots__ = ("_seed", "_before")

    def __init__(self, seed: int):
        self._seed = seed

    def __enter__(self) -> None:
        self._before, seed = _streams.seeded, self._seed
        _streams.drawn += 1  # keys from here are not to be drawn again from another stream
        if seed:
            _streams.seeded = Generator(seed & _MASK if seed < 0 else _checked(seed))

    def __exit__(self, *exc: Any) -> None:
        _streams.seeded = self._before


@guarded
def seed(seed: int) -> Generator:
    """Seed all random number generators of Bireme.

    Each thread has a generator of its own, all derived from the seed. NumPy's and Python's generators are not seeded; a
    ``DataLoader`` that shuffles follows this seed unless ``np.random.seed`` was called.

    Args:
        seed: The seed, from 0 to 2**64 - 1.

    Returns:
        The generator of the current thread.

    Examples:
        >>> bireme.seed(1).initial_seed()
        1
    """
    _base[0] = _checked(seed)
    _base[1] += 1
    return default_generator()


def was_seeded() -> bool:
    """Whether somebody called `seed` in this process."""
    return _base[1] > 0


def _must_exist(device: Any, where: str) -> None:
    if device is not None:
        devices.parse(device, where).ensure(where)


def get_rng_state(device: Any = None) -> list:
    """Return the random state of the current thread.

    Args:
        device: A device of this machine; without effect, since all devices use one generator.

    Returns:
        A list to pass to ``set_rng_state``.

    Examples:
        >>> state = bireme.get_rng_state()
        >>> first = bireme.rand([2]).tolist()
        >>> bireme.set_rng_state(state)
        >>> bireme.rand([2]).tolist() == first
        True
    """
    _must_exist(device, "get_rng_state(device)")
    return [default_generator().get_state()]


@guarded
def set_rng_state(state_list: list, device: Any = None) -> None:
    """Restore the random state of the current thread.

    Args:
        state_list: What ``get_rng_state`` returned.
        device: A device of this machine; without effect, since all devices use one generator.

    Examples:
        >>> bireme.set_rng_state(bireme.get_rng_state())
    """
    _must_exist(device, "set_rng_state(device)")
    if not isinstance(state_list, (list, tuple)) or len(state_list) != 1:
        raise errors.bad(
            "set_rng_state(state_list)", "what get_rng_state returned", state_list, kind=errors.ArgumentTypeError
        )
    default_generator().set_state(state_list[0])


def get_cuda_rng_state() -> list:
    """Return the random state once for each GPU; all devices use one generator.

    Returns:
        A list to pass to ``set_cuda_rng_state``.

    Examples:
        >>> bireme.set_cuda_rng_state(bireme.get_cuda_rng_state())
    """
    return [default_generator().get_state()] * devices.count("gpu")


@guarded
def set_cuda_rng_state(state_list: list) -> None:
    """Restore the random state.

    Args:
        state_list: What ``get_cuda_rng_state`` returned.

    Examples:
        >>> bireme.set_cuda_rng_state(bireme.get_cuda_rng_state())
    """
    if not isinstance(state_list, (list, tuple)) or len(state_list) != devices.count("gpu"):
        raise errors.bad(
            "set_cuda_rng_state(state_list)",
            "what get_cuda_rng_state returned",
            state_list,
            kind=errors.ArgumentTypeError,
        )
    if state_list:
        default_generator().set_state(state_list[0])
