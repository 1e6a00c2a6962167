"""recompute_hybrid: recomputing in hybrid parallel training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.distributed.communication.group import member
from bireme.distributed.fleet.recompute.recompute import recompute

__all__ = ["recompute_hybrid"]


def recompute_hybrid(ctx: dict, function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function without keeping its intermediate results, in hybrid parallel training.

    Args:
        ctx: Dict with the group ``mp_group``, and the flags ``offload``, ``partition`` and ``preserve_rng_state``,
            which have no effect.
        function: The function, for example a layer.
        *args: Arguments of the function.
        **kwargs: Keyword arguments of the function.

    Returns:
        What the function returns.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> ctx = {"mp_group": fleet.get_hybrid_communicate_group().get_model_parallel_group()}
        >>> layer = bireme.nn.Linear(4, 2)
        >>> bireme.incubate.distributed.fleet.recompute_hybrid(ctx, layer, bireme.ones([3, 4])).shape
        [3, 2]
    """
    if not isinstance(ctx, dict) or ctx.get("mp_group") is None:
        raise errors.bad("recompute_hybrid(ctx)", "a dict with mp_group", ctx)
    member("recompute_hybrid", ctx["mp_group"])
    return recompute(function, *args, **kwargs)
