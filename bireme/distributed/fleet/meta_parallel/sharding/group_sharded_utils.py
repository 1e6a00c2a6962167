"""GroupShardedScaler: the gradient scaler that sees overflow in all parts of the gradients."""

from __future__ import annotations

from typing import Any

from bireme.distributed.fleet.scaler import distributed_scaler

__all__ = ["GroupShardedScaler"]


def GroupShardedScaler(scaler: Any) -> Any:
    """Return a gradient scaler that sees overflow in all processes.

    Args:
        scaler: The scaler.

    Returns:
        The scaler itself; among several processes it leaves a step out when one of them has an overflow.

    Examples:
        >>> scaler = bireme.amp.GradScaler()
        >>> from bireme.distributed.fleet.meta_parallel.sharding import group_sharded_utils
        >>> group_sharded_utils.GroupShardedScaler(scaler) is scaler
        True
    """
    return distributed_scaler(scaler)
