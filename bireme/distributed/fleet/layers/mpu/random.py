"""Random states by name: dropout of divided activations differs between processes, that of whole ones agrees."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.random_state import Generator, get_rng_state, set_rng_state
from bireme.core.base.random_state import seed as set_seed
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.fleet.base import topology
from bireme.ops import dropout as plain_dropout

__all__ = ["RNGStatesTracker", "dropout", "get_rng_state_tracker", "model_parallel_random_seed"]

MODEL_PARALLEL_RNG = "model_parallel_rng"


class RNGStatesTracker:
    """Random states by name; inside ``with tracker.rng_state(name)`` random numbers come from that state.

    Examples:
        >>> tracker = bireme.distributed.fleet.meta_parallel.RNGStatesTracker()
        >>> tracker.add("local", 7)
        >>> with tracker.rng_state("local"):
        ...     a = bireme.rand([2])
        >>> bool((a == bireme.rand([2])).any())
        False
    """

    def __init__(self) -> None:
        self.states_: dict[str, Any] = {}
        self.seeds_: set[int] = set()

    def reset(self) -> None:
        """Forget all states."""
        self.states_, self.seeds_ = {}, set()

    def add(self, name: str, seed: int) -> None:
        """Add a state.

        Args:
            name: Its name.
            seed: The seed that it starts from; each state has one of its own.

        Raises:
            ValueError: If the name or the seed is there already.
        """
        if seed in self.seeds_:
            raise errors.bad("RNGStatesTracker.add(seed)", "a seed that no other state has", seed)
        if name in self.states_:
            raise errors.bad("RNGStatesTracker.add(name)", "a name that no other state has", name)
        self.seeds_.add(seed)
        self.states_[name] = [Generator(seed).get_state()]

    @contextlib.contextmanager
    def rng_state(self, name: str = MODEL_PARALLEL_RNG) -> Iterator[None]:
        """Draw random numbers from a state inside a ``with`` block.

        Args:
            name: Name of the state. Default: ``'model_parallel_rng'``.

        Yields:
            Nothing.

        Raises:
            ValueError: If there is no such state.
        """
        if name not in self.states_:
            raise errors.bad("RNGStatesTracker.rng_state(name)", f"one of {list(self.states_)}", name)
        before = get_rng_state()
        set_rng_state(self.states_[name])
        try:
            yield
        finally:
            self.states_[name] = get_rng_state()
            set_rng_state(before)

    def get_states_tracker(self) -> dict[str, Any]:
        """Return the states by name, for ``set_states_tracker``."""
        return dict(self.states_)

    def set_states_tracker(self, states: dict[str, Any]) -> None:
        """Restore states.

        Args:
            states: What ``get_states_tracker`` returned.
        """
        self.states_ = dict(states)


RNG_STATE_TRACKER = RNGStatesTracker()


def get_rng_state_tracker() -> RNGStatesTracker:
    """Return the tracker of this process.

    Returns:
        The tracker.

    Examples:
        >>> bireme.distributed.fleet.meta_parallel.model_parallel_random_seed(7)
        >>> list(bireme.distributed.fleet.meta_parallel.get_rng_state_tracker().states_)
        ['model_parallel_rng']
    """
    return RNG_STATE_TRACKER


def model_parallel_random_seed(seed: int | None = None) -> None:
    """Seed the random numbers that all processes share and those that each has of its own.

    Args:
        seed: The seed. Default: None, one from NumPy's generator.

    Examples:
        >>> bireme.distributed.fleet.meta_parallel.model_parallel_random_seed(7)
        >>> bireme.distributed.fleet.meta_parallel.get_rng_state_tracker().seeds_
        {8}
    """
    if seed is None:
        seed = int(np.random.randint(0, 655350))  # noqa: NPY002 - whoever seeds NumPy's generator decides
    place, hybrid = 0, topology._HYBRID_PARALLEL_GROUP
    if hybrid is not None:
        place = hybrid.get_model_parallel_rank() * hybrid.get_pipe_parallel_world_size() + hybrid.get_stage_id()
    RNG_STATE_TRACKER.reset()
    RNG_STATE_TRACKER.add(MODEL_PARALLEL_RNG, seed + 1 + place)
    set_seed(seed)


def dropout(
    x: Tensor,
    p: float = 0.5,
    axis: Any = None,
    rng_name: str | None = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Tensor:
    """Dropout with random numbers from a state of the tracker.

    Args:
        x: The input.
        p: Probability of a zero. Default: 0.5.
        axis: Axes of the mask; along the others it is the same. Default: None, all.
        rng_name: Name of the state. Default: None, the ordinary random numbers.
        training: Drop at all. Default: True.
        mode: ``'upscale_in_train'`` or ``'downscale_in_infer'``. Default: ``'upscale_in_train'``.
        name: Not used. Default: None.

    Returns:
        The tensor.

    Examples:
        >>> bireme.distributed.fleet.layers.mpu.random.dropout(bireme.ones([3]), p=0.0).tolist()
        [1.0, 1.0, 1.0]
    """
    if rng_name is None:
        return plain_dropout(x, p, axis, training, mode)
    with RNG_STATE_TRACKER.rng_state(rng_name):
        return plain_dropout(x, p, axis, training, mode)
