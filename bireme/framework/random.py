"""Random numbers as `paddle.framework.random` has them."""

from bireme.core.base.random_state import get_cuda_rng_state, get_rng_state, seed, set_cuda_rng_state, set_rng_state

_manual_program_seed = seed  # programs draw from the one stream too

__all__ = ["get_cuda_rng_state", "get_rng_state", "seed", "set_cuda_rng_state", "set_rng_state"]
