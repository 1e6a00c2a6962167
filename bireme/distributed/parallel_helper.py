"""Whether this process takes part in training on several; programs ask here by Paddle's inner names."""

from __future__ import annotations

from bireme.distributed import world
from bireme.distributed.communication.group import is_initialized


def _is_data_parallel_mode() -> bool:
    """Whether several processes train together."""
    return world.size() > 1


def _is_parallel_ctx_initialized() -> bool:
    """Whether the default group exists."""
    return is_initialized()
