"""Random numbers as `paddle.framework.random` has them."""

from bireme.core.random import get_rng_state, seed, set_rng_state

__all__ = ["get_rng_state", "seed", "set_rng_state"]
